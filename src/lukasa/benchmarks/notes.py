"""Notes to measure with: seeded, with words as unevenly frequent as in real text, the same for every contender."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any

from lukasa.clock import SortableIds

VOCABULARY = 20_000
SHORTEST, LONGEST = 15, 40
START = datetime(2026, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=10)
_ACCENTED = 200  # every so many words one has an accent, so that about every tenth text is not ASCII


@dataclass(frozen=True, slots=True)
class Note:
    """What is added: an id, a text of a few dozen words, a small body."""

    id: str
    text: str
    body: dict[str, Any]


class Ticking:
    """A clock that moves on a little whenever it is read, so that ids come out the same twice."""

    def __init__(self, start: datetime) -> None:
        self._moment = start

    def now(self) -> datetime:
        self._moment += _TICK
        return self._moment


def id_maker(seed: int, start: datetime = START) -> SortableIds:
    """Makes the very ids, in the same order, that ``Notes`` of the same seed and start carry."""
    return SortableIds(Ticking(start), _chance(seed, "ids"))


class Notes:
    """An endless supply of notes, the same for the same seed."""

    def __init__(self, seed: int, start: datetime = START) -> None:
        self._new_id = id_maker(seed, start)
        self._texts = _chance(seed, "texts")
        self._questions = _chance(seed, "questions")
        self._start = start
        self.taken = 0

    @property
    def moment(self) -> datetime:
        """The time of the newest id."""
        return self._start + self.taken * _TICK

    def take(self, count: int) -> list[Note]:
        """The next notes."""
        return [self._next() for _ in range(count)]

    def questions(self, count: int, words: int = 3) -> list[str]:
        """Queries of distinct words, each drawn as often as it stands in the texts."""
        return [" ".join(_distinct(self._questions, words)) for _ in range(count)]

    def _next(self) -> Note:
        self.taken += 1
        chance = self._texts
        text = " ".join(draw_words(chance, chance.randint(SHORTEST, LONGEST)))
        body = {"n": self.taken, "topic": text[: text.index(" ")], "confidence": round(chance.random(), 2)}
        return Note(self._new_id(), text, body)


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    """Made-up words, the short ones first, with their cumulated frequencies after Zipf and Mandelbrot."""
    chance = _chance(0, "words")
    words: set[str] = set()
    while len(words) < VOCABULARY:
        syllables = chance.randint(1, 4)
        word = "".join(chance.choice("bdfghklmnprstvz") + chance.choice("aeiou") for _ in range(syllables))
        words.add(word + chance.choice(("", "n", "r", "t", "k")))
    ordered = sorted(words, key=lambda word: (len(word), word))
    for at in range(_ACCENTED // 2, VOCABULARY, _ACCENTED):
        ordered[at] += "é"
    return ordered, list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))


def draw_words(chance: random.Random, count: int) -> Sequence[str]:
    """So many words, each as often as in the texts."""
    words, frequencies = _vocabulary()
    return chance.choices(words, cum_weights=frequencies, k=count)


def _distinct(chance: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found.update(dict.fromkeys(draw_words(chance, 1)))
    return list(found)


def _chance(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - repeatable on purpose
