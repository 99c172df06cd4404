"""Fact extraction from turns by rules: preferences, identities, decisions, versions, paths, dates.

A rule looks at one sentence. A fact has a ``slot`` when a later fact about the same subject should replace it: a name,
the version of a tool, the day of a deadline. Facts without a slot do not replace each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lukasa.context.state import Fact, Turn
from lukasa.text.sentences import split_sentences
from lukasa.text.similarity import normalise_text

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


_FactBuilder = Callable[[Mapping[str, str], str], tuple[str, str] | None]
"""Turns the named groups of a match and a speaker into the fact's text and slot, or None. ``rest`` is trimmed."""


@dataclass(frozen=True, slots=True)
class _FactRule:
    """A pattern for one kind of sentence, and the builder of its fact."""

    name: str
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    build: _FactBuilder
    people_only: bool = True

    def find_facts(self, sentence: str, lowered: str, speaker: str) -> Iterator[Fact]:
        """Find the facts in a sentence; sentences without a keyword are skipped before the pattern runs."""
        if any(keyword in lowered for keyword in self.keywords):
            for match in self.pattern.finditer(sentence):
                groups = match.groupdict()
                if "rest" in groups:
                    groups["rest"] = _trim_clause(groups["rest"])
                if groups.get("rest") != "" and (fact := self.build(groups, speaker)) is not None:
                    text, slot = fact
                    yield Fact(" ".join(text.split()).rstrip(" ,;:").removesuffix("."), slot, self.name)


def extract_facts(turn: Turn) -> list[Fact]:
    """Extract the facts that a turn states, each once. Questions and tool results state none."""
    role = turn.role.lower()
    if role == "tool" or not turn.content:
        return []
    is_machine = role in _MACHINE_ROLES and not turn.speaker
    speaker = turn.speaker or ("User" if role in _HUMAN_ROLES or role in _MACHINE_ROLES else turn.role.capitalize())
    facts: dict[str, Fact] = {}
    for sentence in split_sentences(turn.content[:_MAX_SCANNED_CHARACTERS]):
        if sentence.endswith("?") or len(sentence) > _MAX_SENTENCE_LENGTH:
            continue
        lowered = sentence.lower()
        for rule in _RULES:
            if is_machine and rule.people_only:
                continue
            for fact in rule.find_facts(sentence, lowered, speaker):
                facts.setdefault(fact.slot or normalise_fact_text(fact.text), fact)
        if len(facts) >= _MAX_FACTS_PER_TURN:
            break
    return list(facts.values())[:_MAX_FACTS_PER_TURN]


def states_fact(sentence: str) -> bool:
    """Check whether a sentence states a fact."""
    if sentence.endswith("?") or len(sentence) > _MAX_SENTENCE_LENGTH:
        return False
    lowered = sentence.lower()
    return any(True for rule in _RULES for _ in rule.find_facts(sentence, lowered, "User"))


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


# The builders of the longer rules: each returns the fact in the third person and its slot, or None.


def _preference_fact(groups: Mapping[str, str], speaker: str) -> tuple[str, str]:
    rest = groups["rest"]
    pair = re.fullmatch(r"(.+?) (?:over|to|rather than|instead of) (.+)", rest)
    subject = " / ".join(sorted((_head_noun(pair[1]), _head_noun(pair[2])))) if pair else _head_noun(rest)
    return f"{speaker} prefers {_to_third_person(rest)}", f"prefers {speaker.lower()} {subject}"


def _liking_fact(groups: Mapping[str, str], speaker: str) -> tuple[str, str] | None:
    rest, verb = groups["rest"], groups["verb"].lower().replace("’", "'")
    if re.match(r"to (?:know|see|ask|hear|thank)\b", rest, re.IGNORECASE):
        return None
    negated = {"don't like": "does not like", "do not like": "does not like", "can't stand": "cannot stand"}
    phrase = f"{speaker} {negated.get(verb, f'{verb}s')} {_to_third_person(rest)}"
    return phrase, f"likes {speaker.lower()} {normalise_fact_text(rest)}"


def _instruction_fact(groups: Mapping[str, str], speaker: str) -> tuple[str, str] | None:
    rest = groups["rest"]
    if len(rest.split()) < 2 or _NOT_AN_INSTRUCTION.match(rest):
        return None
    return f"{speaker} asks: {groups['when'].lower()} {rest}", ""


def _identity_fact(groups: Mapping[str, str], speaker: str) -> tuple[str, str]:
    verb = re.sub("['’]m", "am", " ".join(groups["verb"].lower().split()))
    phrase, slot = {
        "work as": ("works as", "work"),
        "work at": ("works at", "employer"),
        "work for": ("works for", "employer"),
        "live in": ("lives in", "home"),
        "moved to": ("moved to", "home"),
        "come from": ("comes from", "origin"),
        "am from": ("is from", "origin"),
        "am allergic to": ("is allergic to", ""),
        "speak": ("speaks", ""),
    }[verb]
    return f"{speaker} {phrase} {_to_third_person(groups['rest'])}", f"{slot} {speaker.lower()}" if slot else ""


def _decision_fact(groups: Mapping[str, str], _: str) -> tuple[str, str]:
    cue = groups["cue"].lower()
    names_choice = any(phrase in cue for phrase in ("go with", "use", "settled on", "chose"))
    verb = "use " if names_choice and "decision" not in cue and "agreed" not in cue else ""
    return f"Decision: {verb}{groups['rest']}", ""


def _location_fact(groups: Mapping[str, str], _: str) -> tuple[str, str]:
    thing = " ".join(groups["thing"].split())
    return f"{thing[0].upper()}{thing[1:]} is at {groups['path'].rstrip('.,')}", f"place {thing.lower()}"


def _date_fact(groups: Mapping[str, str], _: str) -> tuple[str, str]:
    thing, by = " ".join(groups["thing"].split()).lower(), groups["by"].lower()
    return f"The {thing} is {by + ' ' if by in ('on', 'by', 'in', 'at') else ''}{groups['date']}", f"date {thing}"


def _possession_fact(slot: str, adjective: str = "") -> _FactBuilder:
    """Return the builder of "their thing is …"."""

    def build(groups: Mapping[str, str], speaker: str) -> tuple[str, str]:
        thing = groups["thing"].lower().strip()
        return (
            f"{speaker}'s {adjective}{thing} is {_to_third_person(groups['rest'])}",
            f"{slot} {speaker.lower()} {thing}",
        )

    return build


def _fact_rule(
    name: str, keywords: tuple[str, ...], pattern: str, build: _FactBuilder, *, people_only: bool = True
) -> _FactRule:
    return _FactRule(name, keywords, re.compile(pattern), build, people_only)


_RULES: tuple[_FactRule, ...] = (
    _fact_rule("preference", ("prefer",), rf"{_SUBJECT_PATTERN} prefer {_REST_PATTERN}", _preference_fact),
    _fact_rule(
        "preference",
        ("like", "love", "hate", "stand", "enjoy"),
        rf"{_SUBJECT_PATTERN} (?P<verb>don['’]t like|do not like|can['’]t stand|like|love|hate|enjoy) {_REST_PATTERN}",
        _liking_fact,
    ),
    _fact_rule(
        "preference",
        ("favourite", "favorite"),
        rf"(?i)\bmy favou?rite (?P<thing>[\w -]{{2,30}}?) (?:is|are) {_REST_PATTERN}",
        _possession_fact("favourite", "favourite "),
    ),
    _fact_rule(
        "preference",
        ("always", "never", "from now on"),
        rf"(?i)(?:^|\bplease[, ]+)(?P<when>always|never|from now on)[, ]+{_REST_PATTERN}",
        _instruction_fact,
    ),
    _fact_rule(
        "identity",
        ("my name is", "call me", "i'm ", "i’m ", "i am "),
        r"(?:\b[Mm]y name is|\b[Cc]all me|^(?:Hi|Hello|Hey)?[,! ]*I(?: a|['’])m)\s+"
        r"(?P<name>[A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,2})(?=[.,!]|$| and\b| from\b)",
        lambda groups, speaker: (f"{speaker}'s name is {groups['name']}", f"name {speaker.lower()}"),
    ),
    _fact_rule(
        "identity",
        (" work ", " live ", " moved ", " from ", " allergic ", " speak ", "i speak", "i work", "i live"),
        rf"\bI ?(?P<verb>work (?:as|at|for)|live in|moved to|come from|(?:am|['’]m) from|(?:am|['’]m) allergic to|speak)\s+{_REST_PATTERN}",
        _identity_fact,
    ),
    _fact_rule(
        "identity",
        ("i am a", "i'm a", "i’m a"),
        r"\bI(?: a|['’])m (?P<what>an? (?:[a-z-]+ ){0,3}(?:engineer|developer|designer|teacher|nurse|doctor|student"
        r"|manager|writer|artist|lawyer|scientist|researcher|analyst|architect|consultant|accountant|chef|founder"
        r"|photographer|musician|librarian|journalist|programmer|administrator|vegetarian|vegan))\b",
        lambda groups, speaker: (f"{speaker} is {groups['what']}", f"work {speaker.lower()}"),
    ),
    _fact_rule(
        "identity",
        ("my ",),
        rf"\b[Mm]y (?P<thing>(?:job|birthday|timezone|time zone|budget|address|hometown|role|team|"
        rf"(?:wife|husband|partner|son|daughter|dog|cat|boss|manager)(?:['’]s name)?)) is {_REST_PATTERN}",
        _possession_fact("own"),
    ),
    _fact_rule(
        "decision",
        ("decid", "go with", "agreed", "settled on", "we'll use", "we’ll use", "we will use", "decision", "chose"),
        rf"(?i)(?P<cue>\b(?:we|I)(?:['’]ve| have)? (?:decided (?:to|on|that)|agreed (?:to|on|that)|settled on|chose|chosen)"
        rf"|\blet['’]?s go with|\bwe(?:['’]ll| will) (?:go with|use)|^decision:|^agreed:|\bthe decision is(?: to)?)\s+{_REST_PATTERN}",
        _decision_fact,
        people_only=False,
    ),
    _fact_rule(
        "version",
        ("use", "using", "upgrade", "version", "running", "runs", "on "),
        r"\b(?:uses?|using|run(?:s|ning)?(?: on)?|upgraded? to|upgrading to|moved to|(?:are|is|'re|’re|stay) on|requires?|needs?|version of)\s+"
        r"(?P<tool>[A-Z][\w.+#-]*(?: [A-Z][\w.+#-]*)?)\s+(?:version\s+)?v?(?P<number>\d+(?:\.\d+){0,3}(?:-[\w.]+)?)(?=[\s.,;:!)]|$)(?!%)",
        lambda groups, _: (f"Project uses {groups['tool']} {groups['number']}", f"version {groups['tool'].lower()}"),
        people_only=False,
    ),
    _fact_rule(
        "path",
        ("/", "\\"),
        rf"(?i)\b(?:the|our|my)\s+(?P<thing>[\w-]+(?: [\w-]+){{0,3}}?)\s+(?:is|are|lives?|sits?|stands?|goes?|(?:is|are) (?:kept|stored|found|located))"
        rf"\s+(?:in|at|under|into|to)\s+[`\"']?{_PATH_PATTERN}",
        _location_fact,
        people_only=False,
    ),
    _fact_rule(
        "date",
        ("deadline", "release", "launch", "due", "meeting", "demo", "appointment", "birthday", "review", "interview"),
        rf"(?i)\b(?:the|our|my)?\s*(?P<thing>(?:[\w-]+ )?(?:deadline|release|launch|meeting|demo|appointment|review|interview))"
        rf"\s+(?:is|are|was moved|moved|has moved|will be|takes place)\s+(?P<by>on|by|to|at|due|now|in|)\s*(?P<date>{_DATE_PATTERN})",
        _date_fact,
        people_only=False,
    ),
)


def _trim_clause(rest: str) -> str:
    """Cut subordinate clauses off the end of a clause; return "" when too little is left or it refers elsewhere."""
    for _ in range(3):
        rest = _TRAILING_CLAUSE.sub("", rest.strip().rstrip(",:"))
    words = rest.lower().split()
    is_complete = len(rest) >= 2 and words and words[-1] not in {"to", "the", "a", "an", "of", "and"}
    return rest if is_complete and not _STARTS_WITH_REFERENCE.match(rest) else ""


def _to_third_person(rest: str) -> str:
    """Replace the first person by the third."""
    rest = re.sub(r"\b[Mm]y\b", "their", rest)
    rest = re.sub(r"\bmyself\b", "themselves", rest)
    rest = re.sub(r"\b(?:me)\b", "them", rest)
    rest = re.sub(r"\bI(?: am|['’]m)\b", "they are", rest)
    return re.sub(r"\bI\b", "they", rest)


def _head_noun(phrase: str) -> str:
    """Return the last word of a phrase before its first preposition."""
    words = re.findall(r"[\w'’+#-]+", re.split(r"\b(?:for|in|when|with|on|over|at|from|to)\b", phrase.lower())[0])
    return words[-1] if words else normalise_fact_text(phrase)
