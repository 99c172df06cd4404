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

from lukasa.context.sentences import sentences
from lukasa.context.state import Fact, Turn

_LONGEST_LOOKED_AT = 50_000
_LONGEST_SENTENCE = 400
_MOST_OF_ONE_TURN = 8
_PEOPLE = frozenset({"user", "human", "operator", "customer", "developer"})
_MACHINES = frozenset({"assistant", "ai", "bot", "model", "system"})

_ME = r"(?P<me>\bI(?: really| also| usually| always| personally| strongly| generally| still| now)?)"
_REST = r"(?P<rest>(?:[^.!?;\n]|\.(?=\w)){2,160})"
_TAIL = re.compile(
    r"\s*(?:,\s*(?:but|so|because|['’]?cause|it['’]s|although|though|which|and I|and we|if|when|please|thanks|could|can|would)\b.*"
    r"|\s+(?:because|although|though|so that|['’]?cause)\b.*|\s[-–—(]\s?.*|\s+(?:too|as well|anyway|though|please|thanks|now))$",
    re.IGNORECASE,
)
_DATE = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|today|tonight|next \w+|\d{4}-\d\d-\d\d"
    r"|(?:\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
    r"(?:\s+\d{1,2}(?:st|nd|rd|th)?(?!\d))?(?:,?\s+\d{4})?|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|q[1-4](?:\s+\d{4})?)"
)
_PATH = r"(?P<path>(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[A-Za-z]:\\[\w\\.@+ -]*\w|[\w-]+(?:/[\w.-]+)+\.\w{1,8})"


_POINTS = re.compile(r"(?:it|this|that|these|those|them|him|her|you|your|how|what|when|where)\b", re.IGNORECASE)
_NO_ORDER = re.compile(r"\w+ing\b|(?:on|in|at|a|an|the|been|had|so|too|my|your|good|nice|great|happy)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    tell: Callable[[re.Match[str], str], tuple[str, str] | None]
    people_only: bool = True

    def facts(self, sentence: str, lowered: str, who: str) -> Iterator[Fact]:
        if any(sign in lowered for sign in self.signs):
            for found in self.pattern.finditer(sentence):
                told = self.tell(found, who)
                if told is not None:
                    yield Fact(_tidy(told[0]), told[1], self.name)


def extract(turn: Turn) -> list[Fact]:
    """The facts that a turn states, each once. Questions state nothing; tools are not listened to."""
    role = turn.role.lower()
    if role == "tool" or not turn.content:
        return []
    machine = role in _MACHINES and not turn.speaker
    who = turn.speaker or ("User" if role in _PEOPLE or role in _MACHINES else turn.role.capitalize())
    found: dict[str, Fact] = {}
    for sentence in sentences(turn.content[:_LONGEST_LOOKED_AT]):
        if sentence.endswith("?") or len(sentence) > _LONGEST_SENTENCE:
            continue
        lowered = sentence.lower()
        for rule in _RULES:
            if machine and rule.people_only:
                continue
            for fact in rule.facts(sentence, lowered, who):
                found.setdefault(fact.slot or normal(fact.text), fact)
        if len(found) >= _MOST_OF_ONE_TURN:
            break
    return list(found.values())[:_MOST_OF_ONE_TURN]


def states_something(sentence: str) -> bool:
    """Whether a sentence holds a fact of its speaker."""
    if sentence.endswith("?") or len(sentence) > _LONGEST_SENTENCE:
        return False
    lowered = sentence.lower()
    return any(True for rule in _RULES for _ in rule.facts(sentence, lowered, "User"))


def normal(text: str) -> str:
    """A fact without what does not matter: letter case, spaces, punctuation at the end."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).rstrip(" .!;,")


def fact_id(session_id: str, fact: Fact) -> str:
    """The id by which a session knows a fact again, or the fact that it replaces."""
    mark = f"slot {fact.slot}" if fact.slot else f"text {normal(fact.text)}"
    return hashlib.sha256(f"{session_id}\0{mark}".encode("utf-8", "surrogatepass")).hexdigest()[:26]


def duplicates(facts: Iterable[Fact]) -> list[Fact]:
    """Those that say what another one says, the first of each aside; one with a slot counts before one without."""
    first: dict[str, Fact] = {}
    again: list[Fact] = []
    for fact in facts:
        known = first.setdefault(normal(fact.text), fact)
        if known is not fact:
            if fact.slot and not known.slot:
                first[normal(fact.text)], fact = fact, known
            again.append(fact)
    return again


# What each rule makes of what it found: the fact in the third person, and its slot.


def _prefer(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
    if rest is None:
        return None
    pair = re.fullmatch(r"(.+?) (?:over|to|rather than|instead of) (.+)", rest)
    about = " / ".join(sorted((_noun(pair[1]), _noun(pair[2])))) if pair else _noun(rest)
    return f"{who} prefers {_third(rest)}", f"prefers {who.lower()} {about}"


def _like(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
    if rest is None or re.match(r"to (?:know|see|ask|hear|thank)\b", rest, re.IGNORECASE):
        return None
    verb = found["verb"].lower()
    said = {"don't like": "does not like", "do not like": "does not like", "can't stand": "cannot stand"}.get(
        verb.replace("’", "'"), f"{verb.removesuffix('e')}es" if verb.endswith("e") else f"{verb}s"
    )
    return f"{who} {said} {_third(rest)}", f"likes {who.lower()} {normal(rest)}"


def _favourite(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
    thing = found["thing"].lower().strip()
    return (
        None if rest is None else (f"{who}'s favourite {thing} is {_third(rest)}", f"favourite {who.lower()} {thing}")
    )


def _rule(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
    when = found["when"].lower()
    if rest is None or len(rest.split()) < 2 or _NO_ORDER.match(rest):
        return None
    return f"{who} asks: {when} {rest}", ""


def _name(found: re.Match[str], who: str) -> tuple[str, str] | None:
    return f"{who}'s name is {found['name']}", f"name {who.lower()}"


def _identity(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
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
    return f"{who} {said} {_third(rest)}", f"{slot} {who.lower()}" if slot else ""


def _profession(found: re.Match[str], who: str) -> tuple[str, str] | None:
    return f"{who} is {found['what']}", f"work {who.lower()}"


def _own(found: re.Match[str], who: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
    thing = found["thing"].lower()
    return None if rest is None else (f"{who}'s {thing} is {_third(rest)}", f"own {who.lower()} {thing}")


def _decision(found: re.Match[str], _: str) -> tuple[str, str] | None:
    rest = _clause(found["rest"])
    if rest is None:
        return None
    cue = found["cue"].lower()
    if "decision" in cue or "agreed" in cue:
        return f"Decision: {rest}", ""
    return (
        f"Decision: {'use ' if 'go with' in cue or 'use' in cue or 'settled on' in cue or 'chose' in cue else ''}{rest}",
        "",
    )


def _version(found: re.Match[str], _: str) -> tuple[str, str] | None:
    tool, number = found["tool"], found["number"]
    return f"Project uses {tool} {number}", f"version {tool.lower()}"


def _where(found: re.Match[str], _: str) -> tuple[str, str] | None:
    thing = " ".join(found["thing"].split())
    return f"{thing[0].upper()}{thing[1:]} is at {found['path'].rstrip('.,')}", f"place {thing.lower()}"


def _due(found: re.Match[str], _: str) -> tuple[str, str] | None:
    thing = " ".join(found["thing"].split()).lower()
    by = found["by"].lower()
    return f"The {thing} is {by + ' ' if by in ('on', 'by', 'in', 'at') else ''}{found['date']}", f"date {thing}"


_I = re.IGNORECASE
_RULES: tuple[_Rule, ...] = (
    _Rule("preference", ("prefer",), re.compile(rf"{_ME} prefer {_REST}"), _prefer),
    _Rule(
        "preference",
        ("like", "love", "hate", "stand", "enjoy"),
        re.compile(rf"{_ME} (?P<verb>don['’]t like|do not like|can['’]t stand|like|love|hate|enjoy) {_REST}"),
        _like,
    ),
    _Rule(
        "preference",
        ("favourite", "favorite"),
        re.compile(rf"\bmy favou?rite (?P<thing>[\w -]{{2,30}}?) (?:is|are) {_REST}", _I),
        _favourite,
    ),
    _Rule(
        "preference",
        ("always", "never", "from now on"),
        re.compile(rf"(?:^|\bplease[, ]+)(?P<when>always|never|from now on)[, ]+{_REST}", _I),
        _rule,
    ),
    _Rule(
        "identity",
        ("my name is", "call me", "i'm ", "i’m ", "i am "),
        re.compile(
            r"(?:\b[Mm]y name is|\b[Cc]all me|^(?:Hi|Hello|Hey)?[,! ]*I(?: a|['’])m)\s+"
            r"(?P<name>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,2})(?=[.,!]|$| and\b| from\b)"
        ),
        _name,
    ),
    _Rule(
        "identity",
        (" work ", " live ", " moved ", " from ", " allergic ", " speak ", "i speak", "i work", "i live"),
        re.compile(
            rf"\bI ?(?P<verb>work (?:as|at|for)|live in|moved to|come from|(?:am|['’]m) from|(?:am|['’]m) allergic to|speak)\s+{_REST}"
        ),
        _identity,
    ),
    _Rule(
        "identity",
        ("i am a", "i'm a", "i’m a"),
        re.compile(
            r"\bI(?: a|['’])m (?P<what>an? (?:[a-z-]+ ){0,3}(?:engineer|developer|designer|teacher|nurse|doctor|student"
            r"|manager|writer|artist|lawyer|scientist|researcher|analyst|architect|consultant|accountant|chef|founder"
            r"|photographer|musician|librarian|journalist|programmer|administrator|vegetarian|vegan))\b"
        ),
        _profession,
    ),
    _Rule(
        "identity",
        ("my ",),
        re.compile(
            rf"\b[Mm]y (?P<thing>(?:job|birthday|timezone|time zone|budget|address|hometown|role|team|"
            rf"(?:wife|husband|partner|son|daughter|dog|cat|boss|manager)(?:['’]s name)?)) is {_REST}"
        ),
        _own,
    ),
    _Rule(
        "decision",
        ("decid", "go with", "agreed", "settled on", "we'll use", "we’ll use", "we will use", "decision", "chose"),
        re.compile(
            rf"(?P<cue>\b(?:we|I)(?:['’]ve| have)? (?:decided (?:to|on|that)|agreed (?:to|on|that)|settled on|chose|chosen)"
            rf"|\blet['’]?s go with|\bwe(?:['’]ll| will) (?:go with|use)|^decision:|^agreed:|\bthe decision is(?: to)?)\s+{_REST}",
            _I,
        ),
        _decision,
        people_only=False,
    ),
    _Rule(
        "version",
        ("use", "using", "upgrade", "version", "running", "runs", "on "),
        re.compile(
            r"\b(?:uses?|using|run(?:s|ning)?(?: on)?|upgraded? to|upgrading to|moved to|(?:are|is|'re|’re|stay) on|requires?|needs?|version of)\s+"
            r"(?P<tool>[A-Z][\w.+#-]*(?: [A-Z][\w.+#-]*)?)\s+(?:version\s+)?v?(?P<number>\d+(?:\.\d+){0,3}(?:-[\w.]+)?)(?=[\s.,;:!)]|$)(?!%)"
        ),
        _version,
        people_only=False,
    ),
    _Rule(
        "path",
        ("/", "\\"),
        re.compile(
            rf"\b(?:the|our|my)\s+(?P<thing>[\w-]+(?: [\w-]+){{0,3}}?)\s+(?:is|are|lives?|sits?|stands?|goes?|(?:is|are) (?:kept|stored|found|located))"
            rf"\s+(?:in|at|under|into|to)\s+[`\"']?{_PATH}",
            _I,
        ),
        _where,
        people_only=False,
    ),
    _Rule(
        "date",
        ("deadline", "release", "launch", "due", "meeting", "demo", "appointment", "birthday", "review", "interview"),
        re.compile(
            rf"\b(?:the|our|my)?\s*(?P<thing>(?:[\w-]+ )?(?:deadline|release|launch|meeting|demo|appointment|review|interview))"
            rf"\s+(?:is|are|was moved|moved|has moved|will be|takes place)\s+(?P<by>on|by|to|at|due|now|in|)\s*(?P<date>{_DATE})",
            _I,
        ),
        _due,
        people_only=False,
    ),
)


def _clause(rest: str) -> str | None:
    """The rest of a clause, without what only hangs on to it; ``None`` when too little is left."""
    for _ in range(3):
        rest = _TAIL.sub("", rest.strip().rstrip(",:"))
    words = rest.split()
    if _POINTS.match(rest):
        return None  # it points at something that was said elsewhere
    return rest if words and len(rest) >= 2 and words[-1].lower() not in {"to", "the", "a", "an", "of", "and"} else None


def _third(rest: str) -> str:
    """What somebody said of themselves, as one says it of them."""
    rest = re.sub(r"\b[Mm]y\b", "their", rest)
    rest = re.sub(r"\bmyself\b", "themselves", rest)
    rest = re.sub(r"\b(?:me)\b", "them", rest)
    rest = re.sub(r"\bI(?: am|['’]m)\b", "they are", rest)
    return re.sub(r"\bI\b", "they", rest)


def _noun(phrase: str) -> str:
    """The last word of a phrase: what it is about."""
    words = re.findall(r"[\w'’+#-]+", re.split(r"\b(?:for|in|when|with|on|over|at|from|to)\b", phrase.lower())[0])
    return words[-1] if words else normal(phrase)


def _tidy(text: str) -> str:
    return " ".join(text.split()).rstrip(" ,;:").removesuffix(".")
