"""Seeded notes with word frequencies like those of real text, the same for every subject."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any

from lukasa.core.clock import SortableIds

VOCABULARY_SIZE = 20_000
MIN_WORDS, MAX_WORDS = 15, 40
START = datetime(2026, 1, 1, tzinfo=UTC)
_CLOCK_STEP = timedelta(microseconds=10)
_ACCENT_INTERVAL = 200  # one word in this many has an accent, so that about every tenth text is not ASCII


@dataclass(frozen=True, slots=True)
class CorpusNote:
    """A note to add: an id, a text of a few dozen words, a small body."""

    id: str
    text: str
    body: dict[str, Any]


class TickingClock:
    """A clock that advances by a fixed step at every read, so that ids are reproducible."""

    def __init__(self, start: datetime) -> None:
        self._moment = start

    def now(self) -> datetime:
        self._moment += _CLOCK_STEP
        return self._moment


def id_maker(seed: int, start: datetime = START) -> SortableIds:
    """Return an id maker that repeats the ids of a ``NoteCorpus`` with the same seed and start."""
    return SortableIds(TickingClock(start), _make_rng(seed, "ids"))


class NoteCorpus:
    """Generates notes, the same ones for the same seed."""

    def __init__(self, seed: int, start: datetime = START) -> None:
        self._new_id = id_maker(seed, start)
        self._text_rng = _make_rng(seed, "texts")
        self._question_rng = _make_rng(seed, "questions")
        self._start = start
        self.taken_count = 0

    @property
    def moment(self) -> datetime:
        """The time of the newest id."""
        return self._start + self.taken_count * _CLOCK_STEP

    def take(self, count: int) -> list[CorpusNote]:
        """Return the next notes."""
        return [self._next_note() for _ in range(count)]

    def questions(self, count: int, words: int = 3) -> list[str]:
        """Return queries of distinct words, drawn with the frequencies of the texts."""
        return [" ".join(_draw_distinct_words(self._question_rng, words)) for _ in range(count)]

    def _next_note(self) -> CorpusNote:
        self.taken_count += 1
        rng = self._text_rng
        text = " ".join(draw_words(rng, rng.randint(MIN_WORDS, MAX_WORDS)))
        body = {"n": self.taken_count, "topic": text[: text.index(" ")], "confidence": round(rng.random(), 2)}
        return CorpusNote(self._new_id(), text, body)


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    """Return invented words, short ones first, and their cumulative frequencies by Zipf and Mandelbrot."""
    rng = _make_rng(0, "words")
    words: set[str] = set()
    while len(words) < VOCABULARY_SIZE:
        syllables = rng.randint(1, 4)
        word = "".join(rng.choice("bdfghklmnprstvz") + rng.choice("aeiou") for _ in range(syllables))
        words.add(word + rng.choice(("", "n", "r", "t", "k")))
    ordered = sorted(words, key=lambda word: (len(word), word))
    for index in range(_ACCENT_INTERVAL // 2, VOCABULARY_SIZE, _ACCENT_INTERVAL):
        ordered[index] += "é"
    return ordered, list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY_SIZE)))


def draw_words(rng: random.Random, count: int) -> Sequence[str]:
    """Draw words with the frequencies of the texts."""
    words, frequencies = _vocabulary()
    return rng.choices(words, cum_weights=frequencies, k=count)


def _draw_distinct_words(rng: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found.update(dict.fromkeys(draw_words(rng, 1)))
    return list(found)


def _make_rng(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - repeatable on purpose
