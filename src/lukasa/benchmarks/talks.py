"""Talks to search: seeded conversations in which common words are as common as in English, and questions about them.

Function words make up nearly half of every text, the other words are made up and follow Zipf's law. Each session has a
few words of its own, so that its turns belong together; some turns carry an identifier, some are long. ``Gist`` makes
vectors of them at hardly any cost: a word has a direction of its own, and the rarer it is the further it pulls.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lukasa.embedder import Vectors

LENGTH = 384
TURNS_IN_SESSION = 20
START = datetime(2024, 1, 1, 9, tzinfo=UTC)
_BETWEEN_TURNS = timedelta(minutes=2)
_BETWEEN_SESSIONS = timedelta(hours=1)
_VOCABULARY = 30_000
_SHORTEST, _LONGEST = 8, 45
_LONG = 400
_OFTEN_LONG, _OFTEN_TAGGED, _OFTEN_ON_TOPIC = 0.03, 0.05, 0.12
_NAMES = "Ada Ben Carla David Elena Felix Greta Hugo Ines Jonas Karin Leo Mara Nils Olga Paul Rosa Sven Tilda Victor"
_FUNCTION = """
the of and to a in is that it was i for you on with as be at have this not but from they we are an or she he had his
her which by there can all has were what about when out will my been would who so if more no do just your like how
"""
"""The commonest words of English, commonest first."""
NAMES, FUNCTION = _NAMES.split(), _FUNCTION.split()
_COMMON = slice(len(FUNCTION), len(FUNCTION) + 100)
"""Where in the vocabulary the words stand that tell something and yet are in every thirtieth text or so."""
_WORD = re.compile(r"\w+")
_IDENTIFIED = "TKT-{:05d}"


@dataclass(frozen=True, slots=True)
class Turn:
    """Something said by somebody in a session."""

    id: str
    session: str
    author: str
    text: str
    moment: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what sort of question it is."""

    text: str
    sort: str


class Talks:
    """An endless supply of turns and of questions about those that were taken, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._texts = _chance(seed, "texts")
        self._questions = _chance(seed, "questions")
        self.taken = 0

    def take(self, count: int) -> list[Turn]:
        """The next turns."""
        return [self._next() for _ in range(count)]

    def questions(self, count: int) -> list[Asked]:
        """Questions of every sort in turn, each about a session that was told."""
        sorts = list(SORTS)
        return [self._ask(sorts[at % len(sorts)]) for at in range(count)]

    def _next(self) -> Turn:
        nr, at = divmod(self.taken, TURNS_IN_SESSION)
        self.taken += 1
        chance = self._texts
        speakers, topic = _session(self._seed, nr)
        long = chance.random() < _OFTEN_LONG
        words = _prose(chance, _LONG if long else chance.randint(_SHORTEST, _LONGEST), topic)
        if chance.random() < _OFTEN_TAGGED:
            words.insert(len(words) // 2, _identifier(self._seed, nr))
        moment = START + nr * _BETWEEN_SESSIONS + at * _BETWEEN_TURNS
        return Turn(f"t{self.taken}", f"s{nr}", speakers[at % len(speakers)], _sentences(words), moment)

    def _ask(self, sort: str) -> Asked:
        chance = self._questions
        sessions = max(1, self.taken // TURNS_IN_SESSION)
        nr = chance.randrange(sessions)
        speakers, topic = _session(self._seed, nr)
        day = (START + nr * _BETWEEN_SESSIONS).strftime("%d %B %Y")
        one, other = chance.sample(topic, 2)
        common = chance.sample(_vocabulary()[0][_COMMON], 2)
        text = SORTS[sort].format(
            name=chance.choice(speakers),
            one=one,
            other=other,
            tag=_identifier(self._seed, nr),
            day=day,
            common=" and the ".join(common),
        )
        return Asked(text, sort)


SORTS = {
    "a name": "What did {name} say about the {one} and the {other}?",
    "a topic": "How was the {one} with that {other}, and was there more?",
    "an identifier": "Who has been working on {tag}?",
    "common words": "What have you been doing about the {common}, and how was it?",
    "a time": "What happened with the {one} on {day}?",
}
"""The sorts of question that are asked."""


class Gist:
    """Makes vectors of talks: near are texts that share rare words."""

    name = f"gist-{LENGTH}"
    length = LENGTH

    def __init__(self) -> None:
        self.embedded = 0
        self._rows: dict[str, int] = {}
        self._pulls = np.empty((1024, LENGTH), dtype=np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += len(texts)
        vectors = np.empty((len(texts), LENGTH), dtype=np.float32)
        for nr, text in enumerate(texts):
            rows = [self._row(word) for word in ("", *_WORD.findall(text.lower()))]
            vectors[nr] = self._pulls[rows].sum(axis=0)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _row(self, word: str) -> int:
        """Where the pull of a word is kept, made when the word is first met."""
        row = self._rows.get(word)
        if row is None:
            row = self._rows[word] = len(self._rows)
            if row == len(self._pulls):
                self._pulls = np.resize(self._pulls, (2 * row, LENGTH))
            self._pulls[row] = _pull(word)
        return row


def _pull(word: str) -> Vectors:
    """The direction of a word, short for common ones; that of no word is what all texts have in common."""
    chance = np.random.default_rng(zlib.crc32(word.encode("utf-8", "replace")))
    strength = 0.15 if word in FUNCTION else 1.0 if word else 0.5
    return strength * chance.standard_normal(LENGTH, dtype=np.float32)


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    """Words with their cumulated frequencies after Zipf and Mandelbrot, function words first."""
    chance = _chance(0, "vocabulary")
    made: dict[str, None] = {}
    while len(made) < _VOCABULARY:
        syllables = chance.randint(2, 4)
        word = "".join(chance.choice("bdfghklmnprstvz") + chance.choice("aeiou") for _ in range(syllables))
        made[word + chance.choice(("", "n", "r", "t", "k"))] = None
    words = [*FUNCTION, *made]
    return words, list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))


def _draw(chance: random.Random, count: int) -> list[str]:
    words, frequencies = _vocabulary()
    return chance.choices(words, cum_weights=frequencies, k=count)


def _prose(chance: random.Random, count: int, topic: Sequence[str]) -> list[str]:
    return [
        chance.choice(topic) if chance.random() < _OFTEN_ON_TOPIC else word for word in _draw(chance, count)
    ]  # fmt: skip


def _sentences(words: list[str]) -> str:
    parts = [words[at : at + 12] for at in range(0, len(words), 12)]
    return " ".join(" ".join(part).capitalize() + "." for part in parts)


@lru_cache(maxsize=1024)
def _session(seed: int, nr: int) -> tuple[list[str], list[str]]:
    """Who speaks in a session, and the words that are its own."""
    chance = _chance(seed, f"session {nr}")
    words, _ = _vocabulary()
    return chance.sample(NAMES, chance.randint(2, 4)), chance.sample(words[len(FUNCTION) :], 6)


def _identifier(seed: int, nr: int) -> str:
    return _IDENTIFIED.format(zlib.crc32(f"{seed} {nr}".encode()) % 100_000)


def _chance(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - repeatable on purpose
