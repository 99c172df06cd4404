"""What can be told of a record from its own words, whatever is asked.

That it states a standing rule ("always give the version when I ask about a library"), a preference or a denial, how
much it tells rather than asks, and which days it speaks of. All are pure functions of the head of its text (and of the
day it was made), so they can be kept or made again at any time; here those that every question needs are remembered.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from lukasa.recall.passages import lead_passage
from lukasa.text.dates import Period, find_periods

_RULE = re.compile(
    r"(?:^|[.!?:\n]\s*|\bplease )(?:always|never) (?!been\b|had\b|mind\b|a\b|the\b)[a-z]+"
    r"|\b(?:from now on|going forward|in (?:the )?future, please)\b"
    r"|\b(?:when|whenever|if|every time|each time) (?:I|we) (?:ask|request|want to know)\b",
    re.IGNORECASE,
)
_RULE_SIGNS = ("always", "never", " ask", "request", "from now", "forward", "future", "want to know")
_PREFERENCE = re.compile(
    r"\bI(?:['’]d| would)?(?: \w+ly| also| always)? (?:prefer|rather|favou?r)\b|\bmy preference\b"
    r"|\bI(?:['’]ve| have)? (?:chosen|chose|decided)\b|\bI (?:like|want|tend|try|aim) (?:to|it when)\b|\bI(?:['’]m| am) trying to keep\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\bI(?:['’]ve| have| had|['’]d)? never\b|\bI (?:haven['’]t|have not|hadn['’]t|didn['’]t|did not) (?:ever|yet|actually)?",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_NAME = re.compile(r"[a-z,] [A-Z][a-z]")
_DIGIT = re.compile(r"\d")
_MAX_BRIEF_LENGTH = 100


class TextFeatures(NamedTuple):
    """How a text speaks, whatever is asked; each between 0 and 1."""

    personal: float
    """How much it speaks of its author: 0 not at all, 1 throughout."""
    question_share: float
    """Which share of it merely asks."""
    specific: float
    """Whether it names somebody or something, or gives a number."""


def states_rule(text: str) -> bool:
    """Whether a text sets a rule for later requests."""
    own = lead_passage(text)
    lowered = own.lower()
    return any(sign in lowered for sign in _RULE_SIGNS) and _RULE.search(own) is not None


def states_preference(text: str) -> bool:
    """Whether a text says what its author prefers or has settled on."""
    return _PREFERENCE.search(lead_passage(text)) is not None


def states_denial(text: str) -> bool:
    """Whether a text says what its author has not done."""
    return _DENIAL.search(lead_passage(text)) is not None


def speaks_of_self(text: str) -> bool:
    """Whether a text speaks of its author."""
    return _SELF.search(text) is not None


def extract_features(text: str) -> TextFeatures:
    """How a text speaks, by its head."""
    return _extract_passage_features(lead_passage(text))


@lru_cache(maxsize=1 << 14)
def _extract_passage_features(passage: str) -> TextFeatures:
    return TextFeatures(
        personal=min(1.0, len(_SELF.findall(passage)) / 3),
        question_share=_question_share(passage),
        specific=min(1.0, (len(_NAME.findall(passage)) + (_DIGIT.search(passage) is not None)) / 2),
    )


def find_periods_in_text(text: str, moment: date | None) -> tuple[Period, ...]:
    """The days that a text speaks of, "yesterday" resolved by the day it was said."""
    return find_periods(lead_passage(text), moment)


def _question_share(text: str) -> float:
    """Brief questions count; a long one usually tells something on its way."""
    if "?" not in text:
        return 0.0
    sentences = [sentence for found in _SENTENCE.findall(text) if (sentence := found.strip())]
    asked = sum(
        len(sentence) for sentence in sentences if sentence.endswith("?") and len(sentence) <= _MAX_BRIEF_LENGTH
    )
    return asked / (sum(map(len, sentences)) or 1)
