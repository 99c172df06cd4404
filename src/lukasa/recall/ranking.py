"""The ranking of recall: every signal times its weight, added up, and nothing else.

The weights are round numbers, chosen by hand and compared on development sets: meaning weighs more than words,
each hint about as much as a clear lead in one of them, each trait of the text alone a quarter of that. Only a passage
that covers the whole question outweighs both, for nothing else finds what lies deep inside a long text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lukasa.recall.marks import speaks_of_self
from lukasa.recall.passages import WHOLE
from lukasa.recall.signals import JOINT, SIGNALS, Candidate, Corpus, Evidence
from lukasa.recall.understanding import Question
from lukasa.recall.words import content_words, fold

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "coverage": 0.8,
        "meaning": 0.6,
        "rule": 0.5,
        "words": 0.4,
        "time": 0.4,
        "session": 0.4,
        "phrases": 0.3,
        "subject": 0.25,
        "preference": 0.2,
        "denial": 0.2,
        "tier": 0.2,
        "trust": 0.2,
        "linked": 0.2,
        "recency": 0.1,
        "opening": 0.1,
        "personal": 0.1,
        "specific": 0.1,
        "telling": 0.1,
    }
)

_LOOKED_AT = 100  # how many of the best places are looked through for repetitions


class Signal(NamedTuple):
    """One reason for a hit's place: how strongly it speaks and how much that counts."""

    name: str
    value: float
    weight: float

    @property
    def share(self) -> float:
        """What it adds to the score."""
        return self.value * self.weight


@dataclass(frozen=True, slots=True)
class Hit:
    """A candidate in its place, with the reasons; their shares add up to the score."""

    candidate: Candidate
    score: float
    values: tuple[float, ...]
    weights: Mapping[str, float]
    """What each value is called and counts, in the same order."""
    repeats: int | None = None
    """The position of a better hit that says the same in the same telling words, after which this one was put last."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Every reason with what it counts."""
        return tuple(
            Signal(name, value, weight) for value, (name, weight) in zip(self.values, self.weights.items(), strict=True)
        )


def rank(
    question: Question,
    candidates: Sequence[Candidate],
    corpus: Corpus,
    *,
    k: int | None = None,
    weights: Mapping[str, float] = WEIGHTS,
) -> list[Hit]:
    """The candidates, best first (the best ``k`` of them), whatever order they came in; equal ones, latest first."""
    ordered = sorted(candidates, key=lambda candidate: -candidate.seq)
    if not ordered:
        return []
    evidence = Evidence(question, ordered, corpus)
    values = {name: SIGNALS[name](evidence) for name in SIGNALS if weights.get(name)}
    scores = np.zeros(len(ordered))
    for name, value in values.items():
        scores = scores + weights[name] * value
    company = {name: JOINT[name](ordered, scores) for name in JOINT if weights.get(name)}
    for name, value in company.items():
        scores = scores + weights[name] * value
    values |= company
    places = np.argsort(-scores, kind="stable").tolist()
    table = np.column_stack(list(values.values())).tolist() if values else [[]] * len(ordered)
    counting = MappingProxyType({name: weights[name] for name in values})
    return [
        Hit(ordered[place], float(scores[place]), tuple(table[place]), counting, repeats)
        for place, repeats in _repeats_last(ordered, places)[:k]
    ]


def _repeats_last(candidates: Sequence[Candidate], places: Sequence[int]) -> list[tuple[int, int | None]]:
    """Places with what each repeats; among the best, what was said before in the same telling words comes after all else."""
    first: dict[tuple[str, ...], int] = {}
    fresh: list[tuple[int, int | None]] = []
    again: list[tuple[int, int | None]] = []
    for place in places[:_LOOKED_AT]:
        candidate = candidates[place]
        said = _said(candidate.text, candidate.author)
        if said in first:
            again.append((place, first[said]))
        else:
            first[said] = candidate.seq
            fresh.append((place, None))
    return fresh + [(place, None) for place in places[_LOOKED_AT:]] + again


@lru_cache(maxsize=1 << 14)
def _said(text: str, author: str) -> tuple[str, ...]:
    """What a text says, by its telling words in order; whoever speaks of themselves says something of their own."""
    words = content_words(text) if len(text) <= WHOLE else ()
    return (author if not words or speaks_of_self(text) else "", *(words or (fold(text).strip(),)))
