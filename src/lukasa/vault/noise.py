"""Noise: what belongs in the burst journal and not in the vault.

A text with one of the signals, as whole words, is noise. Six of the ten signals are the journal's own words and count
wherever they stand. Four are also plain words (``heartbeat``, ``check-in``, ``no changes``, ``ephemeral``): a text that
states something lasting with them is a memory. It does so when, besides the signal, it has a word that states
(*is*, *must*, *never*, *uses* …) and at least three telling words, and none that tells of the passing moment (*now*,
*ok*, *received*, a time of day …). So "Heartbeat monitoring is the core of project Pulse" is kept, and "Heartbeat
received, all agents are ok" is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from lukasa.text.similarity import normalise_text
from lukasa.vault.settings import AMBIGUOUS_SIGNALS

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\d+")
_STATEMENT_WORDS = frozenset(
    """is are means must should shall never always has have uses use needs need requires require prefers prefer wants want
    likes runs happens expects may cannot can't won't don't doesn't do does will was named called lives belongs takes lasts
    owns keeps costs forbids allows ships goes go gets get stay stays deleted""".split()  # noqa: SIM905 - a list of words reads best as words
)
_MOMENTARY_WORDS = frozenset(
    """now today tonight currently ok okay fine normal nominal alive healthy received sent completed complete done still again
    yet so-far since last current idle green passed sleeping awake continuing resumed standing waiting unchanged""".split()  # noqa: SIM905 - a list of words reads best as words
)
_TIME_OF_DAY = re.compile(r"\b\d{1,2}:\d\d\b")
_STOPWORDS = frozenset(
    """a an and are as at be been but by can do does for from had has have he her his i if in into is it its may must never
    always no not of on or our she should shall so that the their them then there these they this to was we were will with
    you your my me us all any each every both more most other some such than too very""".split()  # noqa: SIM905 - a list of words reads best as words
)
_MIN_CONTENT_WORDS = 3


def find_noise_signal(text: str, signals: Sequence[str]) -> str | None:
    """The signal that makes a text noise, if one does."""
    plain = normalise_text(text)
    found = list(dict.fromkeys(" ".join(match.split()) for match in _signal_pattern(tuple(signals)).findall(plain)))
    for spelled in found:
        signal = next(name for name in signals if _is_same_signal(name, spelled))
        if signal not in AMBIGUOUS_SIGNALS:
            return signal
    if not found or _is_lasting_statement(plain, found):
        return None
    return next(name for name in signals if _is_same_signal(name, found[0]))


def _is_lasting_statement(text: str, occurrences: Sequence[str]) -> bool:
    """Whether a text says something lasting by means of a signal's word."""
    if _TIME_OF_DAY.search(text):
        return False
    rest = text
    for spelled in occurrences:
        rest = rest.replace(spelled, " ")
    words = _WORD.findall(rest)
    telling = {word for word in words if word not in _STOPWORDS}
    return (
        not telling & _MOMENTARY_WORDS
        and any(word in _STATEMENT_WORDS for word in words)
        and len(telling) >= _MIN_CONTENT_WORDS
    )


def _is_same_signal(signal: str, occurrence: str) -> bool:
    return re.sub(r"[\s-]+", " ", normalise_text(signal)) == re.sub(r"[\s-]+", " ", occurrence)


@lru_cache(maxsize=16)
def _signal_pattern(signals: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the signals as whole words, however blanks and hyphens join them."""
    spelled = (r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", normalise_text(signal)))) for signal in signals)
    return re.compile(r"(?<![\w-])(?:" + "|".join(spelled) + r")(?![\w-])") if signals else re.compile(r"(?!)")
