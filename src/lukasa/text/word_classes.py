"""Word classes for comparing two statements: words without a fact, words that reverse a statement, and synonyms.

English and German. The lists are in ``lexicon.txt``.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from lukasa.text.lexicon import WORDS, read_groups
from lukasa.text.patterns import compile_on_use

Language = Literal["en", "de", ""]
WordRole = Literal["negation", "modal", "person", "relation", "empty"]


def _pairs(name: str) -> frozenset[frozenset[str]]:
    return frozenset(frozenset((one, other)) for one, others in WORDS[name].items() for other in others)


ENGLISH_MARKERS: Final = frozenset(WORDS["english_markers"])
GERMAN_MARKERS: Final = frozenset(WORDS["german_markers"])
OTHER_MARKERS: Final = frozenset(WORDS["other_markers"])
COORDINATIONS: Final = frozenset(WORDS["coordinations"])
RELATIONS: Final = read_groups("relations")
_DIRECTIONS = {word: relation for word, relation in RELATIONS.items() if word not in COORDINATIONS}
PREPOSITIONS: Final[dict[Language, dict[str, str]]] = {
    "en": read_groups("english_prepositions") | _DIRECTIONS,
    "de": read_groups("german_prepositions") | _DIRECTIONS,
}
"""Words before which a part of a sentence begins, by their sort."""
UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
WEEKDAYS: Final = read_groups("weekdays", "day_forms")
MONTHS: Final = {word.translate(UMLAUTS): month for word, month in read_groups("months", "month_forms").items()}
TIMES: Final = frozenset(WORDS["times"])
UNITS: Final = read_groups("unit_forms")
NUMBER_WORDS: Final = {word.translate(UMLAUTS): number for number, words in WORDS["numbers"].items() for word in words}
SYNONYMS: Final = read_groups("synonyms")
ANTONYMS: Final = _pairs("antonyms")
CONFUSABLE_WORDS: Final = _pairs("confusable_words")
IRREGULAR_FORMS: Final = {form: base for base, forms in WORDS["irregular_forms"].items() for form in forms}
PAST_FORMS: Final = frozenset(IRREGULAR_FORMS) - frozenset(WORDS["not_past"])
POSSESSION: Final = frozenset(WORDS["possession"])
NOT_STEMMED: Final = frozenset(WORDS["not_stemmed"])
PASSIVE_AUXILIARIES: Final = frozenset(WORDS["passive_auxiliaries"])
TENSES: Final = tuple((frozenset(past.split("|")), frozenset(present)) for past, present in WORDS["tenses"].items())
"""Forms of a verb in the past and in the present."""


def _roles(empty: str) -> dict[str, tuple[WordRole, str]]:
    """Return the role of each small word and the first word of its group."""
    roles: dict[str, tuple[WordRole, str]] = {word: ("empty", word) for word in WORDS[empty]}
    roles |= {word: ("relation", group) for word, group in RELATIONS.items()}
    roles |= {word: ("person", group) for word, group in read_groups("persons").items()}
    roles |= {word: ("modal", group) for word, group in read_groups("modal_groups").items()}
    return roles | {word: ("negation", word) for word in WORDS["negations"]}


ROLES: Final[dict[Language, dict[str, tuple[WordRole, str]]]] = {
    "en": _roles("english_empty"),
    "de": _roles("german_empty"),
}
"""What each small word does in a sentence of a language."""

_REMARKS, _CLOSING_REMARKS = (
    "|".join(remark.replace(" ", r"\s+") for remark in WORDS[name]) for name in ("opening_remarks", "closing_remarks")
)
PHRASES: Final = tuple(
    (tuple(triggers.split("|")), compile_on_use(pattern, re.IGNORECASE), new)
    for triggers, pattern, new in (
        ("note|remember|mind|aware|information|record|reminder|way|know|clear|short|fact|beachte|daran|merke|erinnerung|info|uebrigens|canon|register",
         rf"^\W*(?:(?:(?:please|bitte)\s+)?(?:{_REMARKS})\b(?:,?\s*(?:that|dass)\b)?|(?:canon|register)\s*(?=:))[\s,:]*", ""),
        ("information|way|know|info|uebrigens", rf"\W+(?:{_CLOSING_REMARKS})\W*$", ""),
        (".", r"\b(?:[a-z]\.){2,}", lambda dotted: dotted[0].replace(".", "")),
        ("'|’", r"n['’]t\b", " not"),
        ("clock|oclock", r"\bo\W?clock\b", "oclock"),
        ("'|’", r"['’](?:re|ve|ll|d|m)\b", " "),
        ("to", r"\b(?:has|have|had|need|needs|needed) to\b|\b(?:is|are) (?:required|obliged) to\b", "must"),
        ("day|tag|taeglich", r"\b(?:(?:every|each|per) day|(?:jeden|pro) tag|täglich)\b", "daily"),
        ("night|nacht|nachts", r"\b(?:(?:every|each) night|jede nacht|nachts)\b", "nightly"),
        ("week|woche|woechentlich", r"\b(?:(?:every|each) week|jede woche|wöchentlich)\b", "weekly"),
        ("month|monat|monatlich", r"\b(?:(?:every|each) month|jeden monat|monatlich)\b", "monthly"),
        ("every|each|alle",
         r"\b(?:every|each|alle)\s+(?=\d|other\b|second\b|third\b|two\b|three\b|four\b|five\b|six\b|ten\b|zwei\b|drei\b)",
         "interval "),
        ("any", r"\bany time\b", "anytime"),
        ("times", r"\b(?:two|2) times\b", "twice"),
        ("place", r"\b(?:take|takes|took|taking) place\b", "happen"),
        ("based", r"\bbased in\b", "in"),
        ("for", r"\bfor (?=\w+ing\b)", ""),
        ("midnight", r"\b(?:12 )?midnight\b", "0:00"),
        ("uhr", r"\b(\d{1,2}) uhr (\d\d)\b", r"\1:\2 uhr"),
        ("%", r"(?<=\d)\s*%", " percent "),
        ("$", r"[$]\s*(\d[\d.,]*)", r"\1 dollar "),
        ("€", r"€", " euro "),
        ("£", r"£\s*(\d[\d.,]*)", r"\1 pound "),
        ("°", r"°\s*c\b", " degree celsius "),
        ("=", r"!=", " ≠ "),
        ("=", r">=", " ≥ "),
        ("=", r"<=", " ≤ "),
    )
)  # fmt: skip
"""Phrases that are rewritten before a text is split into words; each with parts of which a text must have one."""
TRIGGERS: Final = {
    trigger: [place for place, phrase in enumerate(PHRASES) if trigger in phrase[0]]
    for phrase in PHRASES
    for trigger in phrase[0]
}
"""The words and signs without which no phrase is in a text, each with the places of its phrases."""
