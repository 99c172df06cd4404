"""The ranking of recall: every signal times its weight, added up, and nothing else.

The weights are round numbers, chosen by hand and compared on development sets: meaning weighs more than words,
each hint about as much as a clear lead in one of them, each trait of the text alone a quarter of that. Only a passage
that covers the whole question outweighs both, for nothing else finds what lies deep inside a long text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lukasa.recall.passages import MAX_WHOLE_LENGTH
from lukasa.recall.query import ParsedQuestion
from lukasa.recall.signals import JOINT_SIGNALS, SIGNALS, CorpusStatistics, RankingEvidence, RecallCandidate
from lukasa.recall.text_features import speaks_of_self
from lukasa.text.terms import fold_text, list_content_words

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "coverage": 0.8,
        "meaning": 0.6,
        "rule": 0.5,
        "words": 0.4,
        "time": 0.4,
        "session": 0.4,
        "trust": 0.4,
        "phrases": 0.3,
        "subject": 0.25,
        "preference": 0.2,
        "denial": 0.2,
        "tier": 0.2,
        "linked": 0.2,
        "recency": 0.1,
        "opening": 0.1,
        "personal": 0.1,
        "specific": 0.1,
        "telling": 0.1,
    }
)

MAX_AUTHOR_SHARE = 0.5
"""Where more than two authors could answer, no one of them fills more than this share of an answer."""
_MIN_RELATIVE_SCORE = 0.25  # a hit makes room for one that is at least this good beside it; what is worse says nothing
_REPETITION_DEPTH = 100  # how many of the best places are looked through for repetitions


class RankingSignal(NamedTuple):
    """One reason for a hit's place: how strongly it speaks and how much that counts."""

    name: str
    value: float
    weight: float

    @property
    def share(self) -> float:
        """What it adds to the score."""
        return self.value * self.weight


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate in its place, with the reasons; their shares add up to the score."""

    candidate: RecallCandidate
    score: float
    values: tuple[float, ...]
    weights: Mapping[str, float]
    """What each value is called and counts, in the same order."""
    repeats: int | None = None
    """The position of a better hit that says the same in the same telling words, after which this one was put last."""
    crowded: bool = False
    """Whether it had to make room because its author had filled their share already."""

    @property
    def signals(self) -> tuple[RankingSignal, ...]:
        """Every reason with what it counts."""
        return tuple(
            RankingSignal(name, value, weight)
            for value, (name, weight) in zip(self.values, self.weights.items(), strict=True)
        )


def rank_candidates(
    question: ParsedQuestion,
    candidates: Sequence[RecallCandidate],
    corpus: CorpusStatistics,
    *,
    k: int | None = None,
    weights: Mapping[str, float] = WEIGHTS,
) -> list[RankedCandidate]:
    """The candidates, best first (the best ``k`` of them), whatever order they came in; equal ones, latest first."""
    ordered = sorted(candidates, key=lambda candidate: -candidate.seq)
    if not ordered:
        return []
    evidence = RankingEvidence(question, ordered, corpus)
    values = {name: SIGNALS[name](evidence) for name in SIGNALS if weights.get(name)}
    scores = np.zeros(len(ordered))
    for name, value in values.items():
        scores = scores + weights[name] * value
    company = {name: JOINT_SIGNALS[name](ordered, scores) for name in JOINT_SIGNALS if weights.get(name)}
    for name, value in company.items():
        scores = scores + weights[name] * value
    values |= company
    places = np.argsort(-scores, kind="stable").tolist()
    table = np.column_stack(list(values.values())).tolist() if values else [[]] * len(ordered)
    counting = MappingProxyType({name: weights[name] for name in values})
    return [
        RankedCandidate(ordered[place], float(scores[place]), tuple(table[place]), counting, repeats)
        for place, repeats in _move_repeats_last(ordered, places)[:k]
    ]


def with_trust(hit: RankedCandidate, trust: float) -> RankedCandidate:
    """The same hit with another trust, its reasons and its score following."""
    names = list(hit.weights)
    if "trust" not in names or trust == hit.candidate.trust:
        return hit
    at = names.index("trust")
    values = (*hit.values[:at], trust, *hit.values[at + 1 :])
    score = hit.score + hit.weights["trust"] * (trust - hit.values[at])
    return replace(hit, candidate=replace(hit.candidate, trust=trust), values=values, score=score)


def cap_author_share(
    hits: Sequence[RankedCandidate], k: int, max_share: float = MAX_AUTHOR_SHARE
) -> list[RankedCandidate]:
    """The hits, of which no author fills more than a share of the best ``k`` while others have something to say.

    It holds where more than two authors are among the hits: two who talk to each other answer as they talk. A hit makes
    room only for one that is at least a quarter as good, and then says so. The owner, who signs nothing, is not held back.
    """
    line = list(hits)
    if k < 1 or len({hit.candidate.author for hit in line if hit.candidate.author}) <= 2:
        return line
    most = max(1, ceil(k * max_share))
    taken: dict[str, int] = {}
    for place in range(min(k, len(line))):
        chosen = place
        if (author := line[place].candidate.author) and taken.get(author, 0) >= most:
            worthy = line[place].score * _MIN_RELATIVE_SCORE
            chosen = next(
                (
                    at
                    for at in range(place + 1, len(line))
                    if (other := line[at].candidate.author) != author
                    and line[at].score >= worthy
                    and line[at].repeats is None
                    and (not other or taken.get(other, 0) < most)
                ),
                place,
            )
        line.insert(place, line.pop(chosen))
        author = line[place].candidate.author
        taken[author] = taken.get(author, 0) + 1
    best = min((hit.score for hit in line[:k]), default=0.0)
    return line[:k] + [
        replace(hit, crowded=True)
        if hit.repeats is None and hit.score > best and taken.get(hit.candidate.author, 0) >= most
        else hit
        for hit in line[k:]
    ]


def _move_repeats_last(candidates: Sequence[RecallCandidate], places: Sequence[int]) -> list[tuple[int, int | None]]:
    """Places with what each repeats; among the best, what was said before in the same telling words comes after all else."""
    first: dict[tuple[str, ...], int] = {}
    fresh: list[tuple[int, int | None]] = []
    again: list[tuple[int, int | None]] = []
    for place in places[:_REPETITION_DEPTH]:
        candidate = candidates[place]
        said = _content_key(candidate.text, candidate.author)
        if said in first:
            again.append((place, first[said]))
        else:
            first[said] = candidate.seq
            fresh.append((place, None))
    return fresh + [(place, None) for place in places[_REPETITION_DEPTH:]] + again


@lru_cache(maxsize=1 << 14)
def _content_key(text: str, author: str) -> tuple[str, ...]:
    """What a text says, by its telling words in order; whoever speaks of themselves says something of their own."""
    words = list_content_words(text) if len(text) <= MAX_WHOLE_LENGTH else ()
    return (author if not words or speaks_of_self(text) else "", *(words or (fold_text(text).strip(),)))
