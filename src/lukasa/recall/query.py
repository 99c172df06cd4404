"""What a question asks for: its telling words, whom it is about, which days, and what kind of answer it wants.

Rules, not a model: each is a few words that people use for it. Where none applies the question is a plain one, and the
words and the meaning decide alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from lukasa.text.dates import Period, find_periods
from lukasa.text.terms import extract_keywords, fold_text, terms_from_words

USER_ROLES = frozenset({"user", "human", "customer"})
ASSISTANT_ROLES = frozenset({"assistant", "agent", "ai", "bot", "model", "system", "tool"})


class QuestionKind(StrEnum):
    """What kind of answer a question wants."""

    FACT = "fact"
    TIME = "time"
    ADVICE = "advice"
    ASSENT = "assent"
    THREAD = "thread"


class TimeOrder(StrEnum):
    """Whether a question asks for what came last or first."""

    NONE = "none"
    NEWEST = "newest"
    OLDEST = "oldest"


_NEWEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|nowadays|these days|right now|at the moment|lately)\b",
    re.IGNORECASE,
)
_OLDEST = re.compile(
    r"\b(?:earliest|oldest|originally|initially|at first|in the beginning|very first)\b", re.IGNORECASE
)
_SUMMARY = re.compile(r"\b(?:summar\w+|overview|recap)\b", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:order in which|in order|chronological\w*|in (?:what|which) order|sequence of)\b", re.IGNORECASE
)
_ASSENT = re.compile(r"^\W*(?:have|had|did|do|am|was|were) (?:I|we)\b", re.IGNORECASE)
_TIME = re.compile(r"^\W*(?:when|what (?:day|date|month|year|time)|how long ago|since when)\b", re.IGNORECASE)
_ADVICE = re.compile(
    r"\b(?:can|could|would|will) you\b|\bplease\b|\bshould (?:I|we)\b|\b(?:suggest|recommend|advi[sc]e)\b"
    r"|\bhow (?:do|can|could|should|would|might) (?:I|we|you)\b|\bhelp (?:me|us)\b|\b(?:tips|best way|good options?)\b",
    re.IGNORECASE,
)
_ASSISTANT_SAID = re.compile(
    r"\b(?:did|have|had|do|were|was) you\b.*\b(?:say|said|suggest|recommend|mention|tell|told|advise|explain|give|gave|propose|describe)"
    r"|\byou (?:said|suggested|recommended|mentioned|told|advised|explained|gave|proposed|described)\b"
    r"|\byour (?:suggestion|recommendation|advice|answer|explanation)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|my|mine|me|we|our|us)\b", re.IGNORECASE)
_PAST_REFERENCE = re.compile(
    r"\b(?:did|have|had|was|were) (?:I|we)\b|\b(?:I|we)(?:['’]ve| have| had)? (?:said|mentioned|told|planned|asked|discussed|brought up)\b",
    re.IGNORECASE,
)
_FRAMING = re.compile(
    "|".join(
        (
            r"\b(?:can|could|would) you\b|\bplease\b",
            r"\bgive me\b|\bprovide(?: me)?(?: with)?\b|\bwalk me through\b|\blist\b|\bshow me\b|\btell me\b",
            r"\b(?:the )?order in which\b|\bin (?:the )?order\b|\bthe order\b|\bchronological(?:ly)?(?: order)?\b|\bsequence of\b",
            r"\b(?:I|we)(?:['’]ve| have)? (?:brought up|mentioned|discussed|talked about)\b",
            r"\b(?:different|various) (?:aspects?|ways?|topics?|parts?|details?)\b(?: of| related to)?",
            r"\b(?:throughout|across|over|during|through|in|based on|from) (?:all )?(?:of )?(?:our|my|these|the) (?:recent |past )?"
            r"(?:conversations?|discussions?|chats?|sessions?|messages)\b",
            r"\bmention only\b.*$|\bonly and only\b.*$",
            r"\b(?:a |an |the )?(?:(?:clear|brief|quick|short|full|complete|comprehensive|detailed) )?(?:summary|overview|recap)\b(?: of)?|\bsummari[sz]e\b",
            r"\bover time\b|\bso far\b|\balong the way\b",
            r"\b(?:have |has |had )?(?:developed|progressed|evolved|changed)\b|\bhow\b",
        )
    ),
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“”«]([^\"“”«»]{2,80})[\"“”»]|`([^`]{2,80})`")
_IDENTIFIER = re.compile(r"\b\w+(?:[-_./:#@]\w+)+(?:\(\))?|\b\w+\(\)")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, understood."""

    text: str
    kind: QuestionKind
    topic: str
    """What it is about, without the frame around it."""
    words: tuple[str, ...]
    """Its telling words as written: what to ask the text index for."""
    terms: tuple[str, ...]
    """The tokens of those words: what to ask the frequencies of."""
    names: frozenset[str]
    """Which of the terms are names of known speakers."""
    for_vector: str
    """What to embed: the topic without the names of known speakers, for texts rarely name who speaks."""
    phrases: tuple[str, ...]
    """Quotations and identifiers, folded, to be found as they are."""
    subject: frozenset[str]
    """The authors whose own words are wanted most; empty when anybody's are."""
    periods: tuple[Period, ...]
    order: TimeOrder
    standing: bool
    """Whether what holds for every request (rules, preferences) matters: it is one, not a look back."""


def parse_question(text: str, *, speakers: Iterable[str] = (), now: date | None = None) -> ParsedQuestion:
    """What a question asks for. ``speakers`` are the known authors; ``now`` resolves "last week". Any string will do."""
    known = sorted(set(speakers))
    people = [name for name in known if name.lower() not in USER_ROLES | ASSISTANT_ROLES]
    named = [name for name in people if _mentions_name(text, name)]
    kind = _classify_kind(text)
    topic = _strip_framing(text) if kind is QuestionKind.THREAD else text
    words = tuple(extract_keywords(topic))
    terms = terms_from_words(words)
    return ParsedQuestion(
        text=text,
        kind=kind,
        topic=topic,
        words=words,
        terms=terms,
        names=frozenset(terms_from_words(named)).intersection(terms),
        for_vector=_remove_names(topic, named),
        phrases=_find_phrases(text),
        subject=_find_subject(text, kind, named, known),
        periods=find_periods(text, now),
        order=_find_time_order(text),
        standing=kind in {QuestionKind.FACT, QuestionKind.TIME, QuestionKind.ADVICE}
        and not named
        and not (_PAST_REFERENCE.search(text)),
    )


def _classify_kind(text: str) -> QuestionKind:
    if _SUMMARY.search(text) or _ORDER.search(text):
        return QuestionKind.THREAD
    if _ASSENT.search(text):
        return QuestionKind.ASSENT
    if _ADVICE.search(text):
        return QuestionKind.ADVICE
    return QuestionKind.TIME if _TIME.search(text) else QuestionKind.FACT


def _find_time_order(text: str) -> TimeOrder:
    newest, oldest = _NEWEST.search(text), _OLDEST.search(text)
    if bool(newest) == bool(oldest):
        return TimeOrder.NONE
    return TimeOrder.NEWEST if newest else TimeOrder.OLDEST


def _strip_framing(text: str) -> str:
    bare = _SPACES.sub(" ", _FRAMING.sub(" ", text)).strip(" ,.?!")
    return bare if extract_keywords(bare) else text


def _mentions_name(text: str, name: str) -> bool:
    return re.search(_name_pattern(name), text, re.IGNORECASE) is not None


def _name_pattern(name: str) -> str:
    """A name or the first word of it."""
    first = name.split()[0] if name.split() else name
    forms = {name, first} if len(first) > 2 else {name}
    return (
        r"(?<!\w)(?:"
        + "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        + r")(?:['’]s)?(?!\w)"
    )


def _remove_names(text: str, names: Sequence[str]) -> str:
    bare = text
    for name in names:
        bare = re.sub(_name_pattern(name), " ", bare, flags=re.IGNORECASE)
    return _SPACES.sub(" ", bare).strip() or text


def _find_subject(
    text: str, kind: QuestionKind, named_speakers: Sequence[str], known_speakers: Sequence[str]
) -> frozenset[str]:
    if named_speakers:
        return frozenset(named_speakers)
    if kind is QuestionKind.THREAD and _SUMMARY.search(text):
        return frozenset()
    if _ASSISTANT_SAID.search(text):
        return frozenset(name for name in known_speakers if name.lower() in ASSISTANT_ROLES)
    if _FIRST_PERSON.search(text):
        return frozenset(name for name in known_speakers if name.lower() in USER_ROLES)
    return frozenset()


def _find_phrases(text: str) -> tuple[str, ...]:
    quoted = [one or other for one, other in _QUOTED.findall(text)]
    found = [fold_text(phrase.strip()) for phrase in [*quoted, *_IDENTIFIER.findall(text)]]
    return tuple(dict.fromkeys(phrase for phrase in found if len(phrase) > 2))
