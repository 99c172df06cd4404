"""Seeded conversations with English word frequencies, and questions about them.

Function words make up nearly half of every text; the other words are invented and follow Zipf's law. Each session has a few
topic words, so that its turns belong together; some turns hold an identifier, some are long. ``RareWordEmbedder`` computes
vectors at almost no cost: every word has a random direction, and function words have little weight.
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
    from lukasa.models.embedder import Vectors

VECTOR_LENGTH = 384
TURNS_IN_SESSION = 20
START = datetime(2024, 1, 1, 9, tzinfo=UTC)
_BETWEEN_TURNS = timedelta(minutes=2)
_BETWEEN_SESSIONS = timedelta(hours=1)
_VOCABULARY_SIZE = 30_000
MIN_WORDS, MAX_WORDS = 8, 45
LONG_TURN_WORDS = 400
LONG_SHARE, TAGGED_SHARE, TOPIC_SHARE = 0.03, 0.05, 0.12
_NAME_LIST = (
    "Ada Ben Carla David Elena Felix Greta Hugo Ines Jonas Karin Leo Mara Nils Olga Paul Rosa Sven Tilda Victor"
)
_FUNCTION_WORD_LIST = """
the of and to a in is that it was i for you on with as be at have this not but from they we are an or she he had his
her which by there can all has were what about when out will my been would who so if more no do just your like how
"""
"""The most frequent words of English, most frequent first."""
NAMES, FUNCTION_WORDS = _NAME_LIST.split(), _FUNCTION_WORD_LIST.split()
_COMMON_RANGE = slice(len(FUNCTION_WORDS), len(FUNCTION_WORDS) + 100)
"""Where in the vocabulary the words stand that tell something and yet are in every thirtieth text or so."""
_WORD_PATTERN = re.compile(r"\w+")
_TAG_FORMAT = "TKT-{:05d}"


@dataclass(frozen=True, slots=True)
class CorpusTurn:
    """A turn of a session."""

    id: str
    session: str
    author: str
    text: str
    moment: datetime


@dataclass(frozen=True, slots=True)
class CorpusQuestion:
    """A question and its kind."""

    text: str
    kind: str


class ConversationCorpus:
    """Generates turns, and questions about the turns that were taken; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._text_rng = _make_rng(seed, "texts")
        self._question_rng = _make_rng(seed, "questions")
        self.taken_count = 0

    def take(self, count: int) -> list[CorpusTurn]:
        """Return the next turns."""
        return [self._next_turn() for _ in range(count)]

    def questions(self, count: int) -> list[CorpusQuestion]:
        """Return questions of alternating kinds, each about a session that was taken."""
        kinds = list(QUESTION_TEMPLATES)
        return [self._next_question(kinds[index % len(kinds)]) for index in range(count)]

    def _next_turn(self) -> CorpusTurn:
        nr, index = divmod(self.taken_count, TURNS_IN_SESSION)
        self.taken_count += 1
        rng = self._text_rng
        speakers, topic = session_profile(self._seed, nr)
        long = rng.random() < LONG_SHARE
        words = _draw_text(rng, LONG_TURN_WORDS if long else rng.randint(MIN_WORDS, MAX_WORDS), topic)
        if rng.random() < TAGGED_SHARE:
            words.insert(len(words) // 2, session_tag(self._seed, nr))
        return CorpusTurn(
            f"t{self.taken_count}", f"s{nr}", speakers[index % len(speakers)], join_sentences(words),
            turn_moment(nr, index),
        )  # fmt: skip

    def _next_question(self, kind: str) -> CorpusQuestion:
        rng = self._question_rng
        sessions = max(1, self.taken_count // TURNS_IN_SESSION)
        nr = rng.randrange(sessions)
        speakers, topic = session_profile(self._seed, nr)
        day = turn_moment(nr, 0).strftime("%d %B %Y")
        first, second = rng.sample(topic, 2)
        common = rng.sample(list_vocabulary()[0][_COMMON_RANGE], 2)
        text = QUESTION_TEMPLATES[kind].format(
            name=rng.choice(speakers),
            first=first,
            second=second,
            tag=session_tag(self._seed, nr),
            day=day,
            common=" and the ".join(common),
        )
        return CorpusQuestion(text, kind)


QUESTION_TEMPLATES = {
    "a name": "What did {name} say about the {first} and the {second}?",
    "a topic": "How was the {first} with that {second}, and was there more?",
    "an identifier": "Who has been working on {tag}?",
    "common words": "What have you been doing about the {common}, and how was it?",
    "a time": "What happened with the {first} on {day}?",
}
"""The kinds of question."""


class RareWordEmbedder:
    """Embeds texts so that those which share rare words are near each other."""

    name = f"gist-{VECTOR_LENGTH}"
    length = VECTOR_LENGTH
    cosine_range = (0.0, 0.5)

    def __init__(self) -> None:
        self.embedded_count = 0
        self._row_by_word: dict[str, int] = {}
        self._word_vectors = np.empty((1024, VECTOR_LENGTH), dtype=np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded_count += len(texts)
        vectors = np.empty((len(texts), VECTOR_LENGTH), dtype=np.float32)
        for nr, text in enumerate(texts):
            rows = [self._get_row(word) for word in ("", *_WORD_PATTERN.findall(text.lower()))]
            vectors[nr] = self._word_vectors[rows].sum(axis=0)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _get_row(self, word: str) -> int:
        """Return the row of a word's vector, which is computed when the word is first met."""
        row = self._row_by_word.get(word)
        if row is None:
            row = self._row_by_word[word] = len(self._row_by_word)
            if row == len(self._word_vectors):
                self._word_vectors = np.resize(self._word_vectors, (2 * row, VECTOR_LENGTH))
            self._word_vectors[row] = _word_vector(word)
        return row


def _word_vector(word: str) -> Vectors:
    """Return the vector of a word: short for function words; the vector of "" is part of every text."""
    rng = np.random.default_rng(zlib.crc32(word.encode("utf-8", "replace")))
    strength = 0.15 if word in FUNCTION_WORDS else 1.0 if word else 0.5
    return strength * rng.standard_normal(VECTOR_LENGTH, dtype=np.float32)


@cache
def list_vocabulary() -> tuple[list[str], list[float]]:
    """Return the words and their cumulative frequencies by Zipf and Mandelbrot, function words first."""
    rng = _make_rng(0, "vocabulary")
    made: dict[str, None] = {}
    while len(made) < _VOCABULARY_SIZE:
        syllables = rng.randint(2, 4)
        word = "".join(rng.choice("bdfghklmnprstvz") + rng.choice("aeiou") for _ in range(syllables))
        made[word + rng.choice(("", "n", "r", "t", "k"))] = None
    words = [*FUNCTION_WORDS, *made]
    return words, list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))


def _draw_words(rng: random.Random, count: int) -> list[str]:
    words, frequencies = list_vocabulary()
    return rng.choices(words, cum_weights=frequencies, k=count)


def _draw_text(rng: random.Random, count: int, topic: Sequence[str]) -> list[str]:
    return [
        rng.choice(topic) if rng.random() < TOPIC_SHARE else word for word in _draw_words(rng, count)
    ]  # fmt: skip


def join_sentences(words: list[str]) -> str:
    parts = [words[start : start + 12] for start in range(0, len(words), 12)]
    return " ".join(" ".join(part).capitalize() + "." for part in parts)


@lru_cache(maxsize=1024)
def session_profile(seed: int, nr: int) -> tuple[list[str], list[str]]:
    """Return the speakers and the topic words of a session."""
    rng = _make_rng(seed, f"session {nr}")
    words, _ = list_vocabulary()
    return rng.sample(NAMES, rng.randint(2, 4)), rng.sample(words[len(FUNCTION_WORDS) :], 6)


def session_tag(seed: int, nr: int) -> str:
    return _TAG_FORMAT.format(zlib.crc32(f"{seed} {nr}".encode()) % 100_000)


def turn_moment(nr: int, index: int) -> datetime:
    """Return when a turn of a session was said."""
    return START + nr * _BETWEEN_SESSIONS + index * _BETWEEN_TURNS


def _make_rng(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - repeatable on purpose
