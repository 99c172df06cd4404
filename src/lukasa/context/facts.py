"""Facts drawn from what people say, by rules that can be read: preferences, identities, decisions, versions, paths, dates.

A rule looks at one sentence. What it finds has a ``slot`` where a later fact about the same thing should take its place:
"my name is …", the version of a tool, the day of a deadline. Facts without a slot stand beside each other.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lukasa.context.state import Fact, Turn
from lukasa.text.sentences import split_sentences

_MAX_SCANNED_CHARACTERS = 50_000
_MAX_SENTENCE_LENGTH = 400
_MAX_FACTS_PER_TURN = 8
_HUMAN_ROLES = frozenset({"user", "human", "operator", "customer", "developer"})
_MACHINE_ROLES = frozenset({"assistant", "ai", "bot", "model", "system"})

_SUBJECT_PATTERN = r"(?P<me>\bI(?: really| also| usually| always| personally| strongly| generally| still| now)?)"
_REST_PATTERN = r"(?P<rest>(?:[^.!?;\n]|\.(?=\w)){2,160})"
_TRAILING_CLAUSE = re.compile(
    r"\s*(?:,\s*(?:but|so|because|['’]?cause|it['’]s|although|though|which|and I|and we|if|when|please|thanks|could|can|would)\b.*"
    r"|\s+(?:because|although|though|so that|['’]?cause)\b.*|\s[-–—(]\s?.*|\s+(?:too|as well|anyway|though|please|thanks|now))$",
    re.IGNORECASE,
)
_DATE_PATTERN = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|today|tonight|next \w+|\d{4}-\d\d-\d\d"
    r"|(?:\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
    r"(?:\s+\d{1,2}(?:st|nd|rd|th)?(?!\d))?(?:,?\s+\d{4})?|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|q[1-4](?:\s+\d{4})?)"
)
_PATH_PATTERN = (
    r"(?P<path>(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[A-Za-z]:\\[\w\\.@+ -]*\w|[\w-]+(?:/[\w.-]+)+\.\w{1,8})"
)


_STARTS_WITH_REFERENCE = re.compile(
    r"(?:it|this|that|these|those|them|him|her|you|your|how|what|when|where)\b", re.IGNORECASE
)
_NOT_AN_INSTRUCTION = re.compile(
    r"\w+ing\b|(?:on|in|at|a|an|the|been|had|so|too|my|your|good|nice|great|happy)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _FactRule:
    name: str
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    build: Callable[[re.Match[str], str], tuple[str, str] | None]
    people_only: bool = True

    def find_facts(self, sentence: str, lowered: str, who: str) -> Iterator[Fact]:
        if any(sign in lowered for sign in self.keywords):
            for found in self.pattern.finditer(sentence):
                told = self.build(found, who)
                if told is not None:
                    yield Fact(_clean_text(told[0]), told[1], self.name)


def extract_facts(turn: Turn) -> list[Fact]:
    """The facts that a turn states, each once. Questions state nothing; tools are not listened to."""
    role = turn.role.lower()
    if role == "tool" or not turn.content:
        return []
    machine = role in _MACHINE_ROLES and not turn.speaker
    who = turn.speaker or ("User" if role in _HUMAN_ROLES or role in _MACHINE_ROLES else turn.role.capitalize())
    found: dict[str, Fact] = {}
    for sentence in split_sentences(turn.content[:_MAX_SCANNED_CHARACTERS]):
        if sentence.endswith("?") or len(sentence) > _MAX_SENTENCE_LENGTH:
            continue
        lowered = sentence.lower()
        for rule in _RULES:
            if machine and rule.people_only:
                continue
            for fact in rule.find_facts(sentence, lowered, who):
                found.setdefault(fact.slot or normalise_fact_text(fact.text), fact)
        if len(found) >= _MAX_FACTS_PER_TURN:
            break
    return list(found.values())[:_MAX_FACTS_PER_TURN]


def states_fact(sentence: str) -> bool:
    """Whether a sentence holds a fact of its speaker."""
    if sentence.endswith("?") or len(sentence) > _MAX_SENTENCE_LENGTH:
        return False
    lowered = sentence.lower()
    return any(True for rule in _RULES for _ in rule.find_facts(sentence, lowered, "User"))


def normalise_fact_text(text: str) -> str:
    """A fact without what does not matter: letter case, spaces, punctuation at the end."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).rstrip(" .!;,")


def fact_id(session_id: str, fact: Fact) -> str:
    """The id by which a session knows a fact again, or the fact that it replaces."""
    mark = f"slot {fact.slot}" if fact.slot else f"text {normalise_fact_text(fact.text)}"
    return hashlib.sha256(f"{session_id}\0{mark}".encode("utf-8", "surrogatepass")).hexdigest()[:26]


def find_duplicate_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Those that say what another one says, the first of each aside; one with a slot counts before one without."""
    first: dict[str, Fact] = {}
    again: list[Fact] = []
    for fact in facts:
        known = first.setdefault(normalise_fact_text(fact.text), fact)
        if known is not fact:
            if fact.slot and not known.slot:
                first[normalise_fact_text(fact.text)], fact = fact, known
            again.append(fact)
    return again


# What each rule makes of what it found: the fact in the third person, and its slot.


def _preference_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    if rest is None:
        return None
    pair = re.fullmatch(r"(.+?) (?:over|to|rather than|instead of) (.+)", rest)
    about = " / ".join(sorted((_head_noun(pair[1]), _head_noun(pair[2])))) if pair else _head_noun(rest)
    return f"{who} prefers {_to_third_person(rest)}", f"prefers {who.lower()} {about}"


def _liking_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    if rest is None or re.match(r"to (?:know|see|ask|hear|thank)\b", rest, re.IGNORECASE):
        return None
    verb = found["verb"].lower()
    said = {"don't like": "does not like", "do not like": "does not like", "can't stand": "cannot stand"}.get(
        verb.replace("’", "'"), f"{verb.removesuffix('e')}es" if verb.endswith("e") else f"{verb}s"
    )
    return f"{who} {said} {_to_third_person(rest)}", f"likes {who.lower()} {normalise_fact_text(rest)}"


def _favourite_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    thing = found["thing"].lower().strip()
    return (
        None
        if rest is None
        else (f"{who}'s favourite {thing} is {_to_third_person(rest)}", f"favourite {who.lower()} {thing}")
    )


def _instruction_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    when = found["when"].lower()
    if rest is None or len(rest.split()) < 2 or _NOT_AN_INSTRUCTION.match(rest):
        return None
    return f"{who} asks: {when} {rest}", ""


def _name_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    return f"{who}'s name is {found['name']}", f"name {who.lower()}"


def _identity_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    if rest is None:
        return None
    verb = " ".join(found["verb"].lower().split())
    said, slot = {
        "work as": ("works as", "work"),
        "work at": ("works at", "employer"),
        "work for": ("works for", "employer"),
        "live in": ("lives in", "home"),
        "moved to": ("moved to", "home"),
        "come from": ("comes from", "origin"),
        "am from": ("is from", "origin"),
        "'m from": ("is from", "origin"),
        "’m from": ("is from", "origin"),
        "am allergic to": ("is allergic to", ""),
        "'m allergic to": ("is allergic to", ""),
        "’m allergic to": ("is allergic to", ""),
        "speak": ("speaks", ""),
    }[verb]
    return f"{who} {said} {_to_third_person(rest)}", f"{slot} {who.lower()}" if slot else ""


def _profession_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    return f"{who} is {found['what']}", f"work {who.lower()}"


def _attribute_fact(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    thing = found["thing"].lower()
    return None if rest is None else (f"{who}'s {thing} is {_to_third_person(rest)}", f"own {who.lower()} {thing}")


def _decision_fact(found: re.Match[str], _: str) -> tuple[str, str] | None:
    rest = _trim_clause(found["rest"])
    if rest is None:
        return None
    cue = found["cue"].lower()
    if "decision" in cue or "agreed" in cue:
        return f"Decision: {rest}", ""
    return (
        f"Decision: {'use ' if 'go with' in cue or 'use' in cue or 'settled on' in cue or 'chose' in cue else ''}{rest}",
        "",
    )


def _version_fact(found: re.Match[str], _: str) -> tuple[str, str] | None:
    tool, number = found["tool"], found["number"]
    return f"Project uses {tool} {number}", f"version {tool.lower()}"


def _location_fact(found: re.Match[str], _: str) -> tuple[str, str] | None:
    thing = " ".join(found["thing"].split())
    return f"{thing[0].upper()}{thing[1:]} is at {found['path'].rstrip('.,')}", f"place {thing.lower()}"


def _date_fact(found: re.Match[str], _: str) -> tuple[str, str] | None:
    thing = " ".join(found["thing"].split()).lower()
    by = found["by"].lower()
    return f"The {thing} is {by + ' ' if by in ('on', 'by', 'in', 'at') else ''}{found['date']}", f"date {thing}"


_IGNORE_CASE = re.IGNORECASE
_RULES: tuple[_FactRule, ...] = (
    _FactRule("preference", ("prefer",), re.compile(rf"{_SUBJECT_PATTERN} prefer {_REST_PATTERN}"), _preference_fact),
    _FactRule(
        "preference",
        ("like", "love", "hate", "stand", "enjoy"),
        re.compile(
            rf"{_SUBJECT_PATTERN} (?P<verb>don['’]t like|do not like|can['’]t stand|like|love|hate|enjoy) {_REST_PATTERN}"
        ),
        _liking_fact,
    ),
    _FactRule(
        "preference",
        ("favourite", "favorite"),
        re.compile(rf"\bmy favou?rite (?P<thing>[\w -]{{2,30}}?) (?:is|are) {_REST_PATTERN}", _IGNORE_CASE),
        _favourite_fact,
    ),
    _FactRule(
        "preference",
        ("always", "never", "from now on"),
        re.compile(rf"(?:^|\bplease[, ]+)(?P<when>always|never|from now on)[, ]+{_REST_PATTERN}", _IGNORE_CASE),
        _instruction_fact,
    ),
    _FactRule(
        "identity",
        ("my name is", "call me", "i'm ", "i’m ", "i am "),
        re.compile(
            r"(?:\b[Mm]y name is|\b[Cc]all me|^(?:Hi|Hello|Hey)?[,! ]*I(?: a|['’])m)\s+"
            r"(?P<name>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,2})(?=[.,!]|$| and\b| from\b)"
        ),
        _name_fact,
    ),
    _FactRule(
        "identity",
        (" work ", " live ", " moved ", " from ", " allergic ", " speak ", "i speak", "i work", "i live"),
        re.compile(
            rf"\bI ?(?P<verb>work (?:as|at|for)|live in|moved to|come from|(?:am|['’]m) from|(?:am|['’]m) allergic to|speak)\s+{_REST_PATTERN}"
        ),
        _identity_fact,
    ),
    _FactRule(
        "identity",
        ("i am a", "i'm a", "i’m a"),
        re.compile(
            r"\bI(?: a|['’])m (?P<what>an? (?:[a-z-]+ ){0,3}(?:engineer|developer|designer|teacher|nurse|doctor|student"
            r"|manager|writer|artist|lawyer|scientist|researcher|analyst|architect|consultant|accountant|chef|founder"
            r"|photographer|musician|librarian|journalist|programmer|administrator|vegetarian|vegan))\b"
        ),
        _profession_fact,
    ),
    _FactRule(
        "identity",
        ("my ",),
        re.compile(
            rf"\b[Mm]y (?P<thing>(?:job|birthday|timezone|time zone|budget|address|hometown|role|team|"
            rf"(?:wife|husband|partner|son|daughter|dog|cat|boss|manager)(?:['’]s name)?)) is {_REST_PATTERN}"
        ),
        _attribute_fact,
    ),
    _FactRule(
        "decision",
        ("decid", "go with", "agreed", "settled on", "we'll use", "we’ll use", "we will use", "decision", "chose"),
        re.compile(
            rf"(?P<cue>\b(?:we|I)(?:['’]ve| have)? (?:decided (?:to|on|that)|agreed (?:to|on|that)|settled on|chose|chosen)"
            rf"|\blet['’]?s go with|\bwe(?:['’]ll| will) (?:go with|use)|^decision:|^agreed:|\bthe decision is(?: to)?)\s+{_REST_PATTERN}",
            _IGNORE_CASE,
        ),
        _decision_fact,
        people_only=False,
    ),
    _FactRule(
        "version",
        ("use", "using", "upgrade", "version", "running", "runs", "on "),
        re.compile(
            r"\b(?:uses?|using|run(?:s|ning)?(?: on)?|upgraded? to|upgrading to|moved to|(?:are|is|'re|’re|stay) on|requires?|needs?|version of)\s+"
            r"(?P<tool>[A-Z][\w.+#-]*(?: [A-Z][\w.+#-]*)?)\s+(?:version\s+)?v?(?P<number>\d+(?:\.\d+){0,3}(?:-[\w.]+)?)(?=[\s.,;:!)]|$)(?!%)"
        ),
        _version_fact,
        people_only=False,
    ),
    _FactRule(
        "path",
        ("/", "\\"),
        re.compile(
            rf"\b(?:the|our|my)\s+(?P<thing>[\w-]+(?: [\w-]+){{0,3}}?)\s+(?:is|are|lives?|sits?|stands?|goes?|(?:is|are) (?:kept|stored|found|located))"
            rf"\s+(?:in|at|under|into|to)\s+[`\"']?{_PATH_PATTERN}",
            _IGNORE_CASE,
        ),
        _location_fact,
        people_only=False,
    ),
    _FactRule(
        "date",
        ("deadline", "release", "launch", "due", "meeting", "demo", "appointment", "birthday", "review", "interview"),
        re.compile(
            rf"\b(?:the|our|my)?\s*(?P<thing>(?:[\w-]+ )?(?:deadline|release|launch|meeting|demo|appointment|review|interview))"
            rf"\s+(?:is|are|was moved|moved|has moved|will be|takes place)\s+(?P<by>on|by|to|at|due|now|in|)\s*(?P<date>{_DATE_PATTERN})",
            _IGNORE_CASE,
        ),
        _date_fact,
        people_only=False,
    ),
)


def _trim_clause(rest: str) -> str | None:
    """The rest of a clause, without what only hangs on to it; ``None`` when too little is left."""
    for _ in range(3):
        rest = _TRAILING_CLAUSE.sub("", rest.strip().rstrip(",:"))
    words = rest.split()
    if _STARTS_WITH_REFERENCE.match(rest):
        return None  # it points at something that was said elsewhere
    return rest if words and len(rest) >= 2 and words[-1].lower() not in {"to", "the", "a", "an", "of", "and"} else None


def _to_third_person(rest: str) -> str:
    """What somebody said of themselves, as one says it of them."""
    rest = re.sub(r"\b[Mm]y\b", "their", rest)
    rest = re.sub(r"\bmyself\b", "themselves", rest)
    rest = re.sub(r"\b(?:me)\b", "them", rest)
    rest = re.sub(r"\bI(?: am|['’]m)\b", "they are", rest)
    return re.sub(r"\bI\b", "they", rest)


def _head_noun(phrase: str) -> str:
    """The last word of a phrase: what it is about."""
    words = re.findall(r"[\w'’+#-]+", re.split(r"\b(?:for|in|when|with|on|over|at|from|to)\b", phrase.lower())[0])
    return words[-1] if words else normalise_fact_text(phrase)


def _clean_text(text: str) -> str:
    return " ".join(text.split()).rstrip(" ,;:").removesuffix(".")
