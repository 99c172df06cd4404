"""Facts of a conversation: extraction from turns, identity, and duplicates.

A fact has a ``slot`` when a later fact about the same subject should replace it: a name, the version of a tool, the day
of a deadline. Facts without a slot do not replace each other. The rules are in ``fact_rules``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from lukasa.context.fact_rules import find_facts
from lukasa.context.state import Fact, Turn
from lukasa.core.text_cache import cache_texts
from lukasa.text.analysis import QUOTATION_PLACEHOLDER
from lukasa.text.dates import write_calendar_dates
from lukasa.text.sentences import split_sentences
from lukasa.text.terms import normalise_text

_MAX_SCANNED_CHARACTERS = 50_000
_MAX_SENTENCE_LENGTH = 400
_MAX_SAID_LENGTH = 4_000
_DOCUMENT_STARTS = ("# ", "## ", "### ", "```", "diff --git", "Traceback (")
_MAX_FACTS_PER_TURN = 24
_HUMAN_ROLES = frozenset({"user", "human", "operator", "customer", "developer"})
_MACHINE_ROLES = frozenset({"assistant", "ai", "bot", "model", "system"})
_QUOTATION = re.compile(
    r"^[ \t]*>.*$|(?<!\w)\"[^\s\"][^\"\n]{0,600}\"(?!\w)|“[^”\n]{1,600}”|„[^“”\n]{1,600}[“”]|«[^»\n]{1,600}»|「[^」\n]{1,600}」"
    r"|(?<!\w)'(?=\w)(?:[^'\n]|'(?=\w)){1,600}'(?!\w)|(?<!\w)‘(?=\w)(?:[^’\n]|’(?=\w)){1,600}’(?!\w)",
    re.MULTILINE,
)
_MAX_QUOTED_NAME_WORDS = 2


def extract_facts(turn: Turn, day: date | None = None) -> list[Fact]:
    """Extract the facts that a turn states, each once. Questions, quotations, documents and tool results state none.

    Relative dates are resolved against the turn's own time, or else against ``day``.
    """
    role = turn.role.lower()
    if role == "tool" or turn.is_unsaid or not turn.content or is_pasted(turn.content):
        return []
    is_machine = role in _MACHINE_ROLES and not turn.speaker
    speaker = turn.speaker or ("User" if role in _HUMAN_ROLES or role in _MACHINE_ROLES else turn.role.capitalize())
    day = turn.timestamp.date() if turn.timestamp is not None else day
    facts: dict[str, Fact] = {}
    for sentence in split_sentences(_hide_quotations(turn.content[:_MAX_SCANNED_CHARACTERS])):
        if len(sentence) > _MAX_SENTENCE_LENGTH:
            continue
        for fact in _list_facts(sentence, speaker, is_machine):
            text = fact.text if day is None else write_calendar_dates(fact.text, day, weekdays=fact.rule == "date")
            facts[fact.slot or normalise_fact_text(text)] = replace(fact, text=text)
        if len(facts) >= _MAX_FACTS_PER_TURN:
            break
    return list(facts.values())[:_MAX_FACTS_PER_TURN]


def is_pasted(text: str) -> bool:
    """Return whether a turn holds a document, code or a log rather than what somebody said: a heading, a fence, or its length."""
    return (
        len(text) > _MAX_SAID_LENGTH
        or text.startswith(_DOCUMENT_STARTS)
        or any(f"\n{mark}" in text for mark in _DOCUMENT_STARTS)
    )


def states_fact(sentence: str, role: str = "user") -> bool:
    """Check whether a sentence of a role states a fact."""
    if len(sentence) > _MAX_SENTENCE_LENGTH:
        return False
    return bool(_list_facts(_hide_quotations(sentence), "User", role in _MACHINE_ROLES))


@cache_texts(2_048, per_character=10)
def _list_facts(sentence: str, speaker: str, is_machine: bool) -> tuple[Fact, ...]:
    """List the facts that a sentence states; cached, because a compaction reads the sentences of the last appends again."""
    return tuple(find_facts(sentence, speaker, is_machine=is_machine))


def _hide_quotations(text: str) -> str:
    """Replace quotations by a placeholder character, at which the rules give up; quoted names stay."""
    if not any(mark in text for mark in "\"'“„«「‘>"):
        return text
    return _QUOTATION.sub(
        lambda match: match[0] if len(match[0].split()) <= _MAX_QUOTED_NAME_WORDS else QUOTATION_PLACEHOLDER, text
    )


def normalise_fact_text(text: str) -> str:
    """Remove differences that do not matter between facts: letter case, white space, punctuation at the end."""
    return normalise_text(text, "NFC").rstrip(" .!;,")


def fact_id(session_id: str, fact: Fact) -> str:
    """Return the id of a fact in a conversation; a fact that replaces another has the same id."""
    identity = f"slot {fact.slot}" if fact.slot else f"text {normalise_fact_text(fact.text)}"
    return hashlib.sha256(f"{session_id}\0{identity}".encode("utf-8", "surrogatepass")).hexdigest()[:26]


def find_duplicate_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts that repeat another one; of the repeated ones a fact with a slot stays, or else the first."""
    originals: dict[str, Fact] = {}
    duplicates: list[Fact] = []
    for fact in facts:
        text = normalise_fact_text(fact.text)
        original = originals.setdefault(text, fact)
        if original is fact:
            continue
        if fact.slot and not original.slot:
            originals[text] = fact
            duplicates.append(original)
        else:
            duplicates.append(fact)
    return duplicates
