"""The signals of recall: each a pure function from a question and its candidates to one number per candidate.

All lie between 0 and 1, so that a weight says how much a signal can matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from lukasa.recall.marks import (
    Traits,
    periods_told,
    states_denial,
    states_preference,
    states_rule,
    traits_of,
)
from lukasa.recall.passages import PART, SENTENCE, WHOLE, WINDOW, head, window
from lukasa.recall.understanding import ASSISTANT_ROLES, Kind, Order, Question
from lukasa.recall.words import fold, places

Values = NDArray[np.float64]

_K1, _B = 1.2, 0.75
_LITTLE = 0.3  # a best match below this share of the question is no good match
_SOON_AFTER = 10  # days within which people still speak of what happened
_MOST_RULES = 5  # more would crowd out the answer
_LONGEST_TOLD = 100  # days; a record that speaks of a whole year says little of one day in it


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that might answer, with what the indexes know of it."""

    seq: int
    text: str
    author: str = ""
    moment: datetime | None = None
    session: str | None = None
    before: str | None = None
    """The text of the previous turn of its session."""
    after: str | None = None
    """The text of the next turn of its session."""
    cosine: float | None = None
    """How near its head is to the question; none without a vector."""
    tier: float = 0.0
    """How settled it is, between 0 and 1: canon is 1."""
    trust: float = 0.0
    """How far its author is believed, between 0 and 1."""
    links: frozenset[int] = frozenset()
    """The positions of the records that it points at or that point at it."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the text index knows of all texts: how many there are, and in how many each term stands."""

    texts: int
    holding: Mapping[str, int] = field(default_factory=dict)

    def weight(self, term: str) -> float:
        """How telling a term is: the rarer the more."""
        holding = min(self.holding.get(term, 0), self.texts)
        return log(1 + (self.texts - holding + 0.5) / (holding + 0.5))


@dataclass(frozen=True, slots=True)
class Finds:
    """Where the terms of a question stand in many texts, each text looked through once."""

    row: Mapping[str, int]
    """The number of each distinct text."""
    heads: Sequence[int]
    """How long the head of each text is."""
    in_head: Values
    """How often each term stands in the head of each text."""
    in_text: Values
    """1 where a term stands in a text at all."""
    spots: Mapping[int, Sequence[tuple[int, int]]]
    """For each long text its offsets with the numbers of the terms found there."""

    @classmethod
    def of(cls, whole: Sequence[str], beside: Sequence[str], terms: Sequence[str]) -> Finds:
        """Looks through texts, and through the heads only of those that merely stand beside one.

        All are laid end to end, so that one search per term serves them all.
        """
        candidates = dict.fromkeys(whole)
        texts = list(candidates | dict.fromkeys(beside))
        heads = [head(text) for text in texts]
        folded = [fold(text) if text in candidates else fold(own) for text, own in zip(texts, heads, strict=True)]
        starts = np.concatenate(([0], np.cumsum([len(text) + 1 for text in folded]))).astype(np.int64)
        ends = starts[:-1] + [len(own) for own in heads]
        everything = "\n".join(folded)
        in_head = np.zeros((len(texts), len(terms)))
        in_text = np.zeros((len(texts), len(terms)))
        spots: dict[int, list[tuple[int, int]]] = {}
        long = np.array([len(text) > WHOLE for text in texts], dtype=bool)
        for nr, term in enumerate(terms):
            found = np.array(places(everything, term), dtype=np.int64)
            rows = np.searchsorted(starts, found, side="right") - 1
            in_text[rows, nr] = 1.0
            np.add.at(in_head[:, nr], rows[found < ends[rows]], 1.0)
            deep = long[rows]
            for row, at in zip(rows[deep].tolist(), found[deep].tolist(), strict=True):
                spots.setdefault(row, []).append((at, nr))
        return cls({text: nr for nr, text in enumerate(texts)}, [len(own) for own in heads], in_head, in_text, spots)

    def windows(self, candidates: Sequence[Candidate]) -> tuple[Values, Values]:
        """How often each term stands in the window of each candidate, and how long that window is."""
        row, nothing = self.row, len(self.heads)
        own = np.array([row[each.text] for each in candidates])
        before = np.array([nothing if each.before is None else row[each.before] for each in candidates])
        after = np.array([nothing if each.after is None else row[each.after] for each in candidates])
        length = np.array([*self.heads, WINDOW + 1])  # what is not there is too long to join
        first, second = window(length[own], length[before], length[after])
        counts, lengths = self.in_head[own], length[own].astype(np.float64)
        for rows, joins in ((before, first), (after, second)):
            counts[joins] += self.in_head[rows[joins]]
            lengths[joins] += length[rows[joins]]
        return counts, lengths


class Evidence:
    """A question beside its candidates: what several signals need, found once."""

    def __init__(self, question: Question, candidates: Sequence[Candidate], corpus: Corpus) -> None:
        self.question = question
        self.candidates = candidates
        self.corpus = corpus
        self.weights = np.array([corpus.weight(term) for term in question.terms])

    @cached_property
    def finds(self) -> Finds:
        whole = [each.text for each in self.candidates]
        beside = [text for each in self.candidates for text in (each.before, each.after) if text is not None]
        return Finds.of(whole, beside, self.question.terms)

    @cached_property
    def traits(self) -> list[Traits]:
        return [traits_of(each.text) for each in self.candidates]

    @cached_property
    def matching(self) -> Values:
        return _matching(self)

    @cached_property
    def nearness(self) -> Values:
        return _nearness(self)

    @property
    def closeness(self) -> Values:
        """How near each is to the question in words and meaning together."""
        return self.matching + self.nearness

    @cached_property
    def within(self) -> Values:
        """1 for authors whom the question is about, or for all when it is about nobody."""
        wanted = self.question.subject
        return _values(float(not wanted or each.author in wanted) for each in self.candidates)


def _values(numbers: Iterable[float]) -> Values:
    return np.fromiter(numbers, dtype=np.float64)


def _day(candidate: Candidate) -> date | None:
    return None if candidate.moment is None else candidate.moment.date()


def _scaled(values: Values, least: float | None = None) -> Values:
    """Stretched so that the best is 1 and the least is 0."""
    if not values.size:
        return values
    low = float(values.min()) if least is None else least
    high = float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def words(evidence: Evidence) -> Values:
    """How well the words of a head and its neighbours match, by the formula of BM25; the best is 1 unless it matches little."""
    return evidence.matching


def _matching(evidence: Evidence) -> Values:
    if not evidence.candidates or not evidence.question.terms:
        return np.zeros(len(evidence.candidates))
    counts, lengths = evidence.finds.windows(evidence.candidates)
    drag = _K1 * (1 - _B + _B * lengths / (lengths.mean() or 1.0))
    found = counts * (_K1 + 1) / (counts + drag[:, None])
    matched: Values = found @ evidence.weights
    return matched / (max(float(matched.max()), _LITTLE * float(evidence.weights.sum())) or 1.0)


def meaning(evidence: Evidence) -> Values:
    """How near the vector of the head is to the question's."""
    return evidence.nearness


def _nearness(evidence: Evidence) -> Values:
    known = [each.cosine for each in evidence.candidates if each.cosine is not None]
    if not known:
        return np.zeros(len(evidence.candidates))
    least = min(known)
    return _scaled(_values(least if each.cosine is None else each.cosine for each in evidence.candidates))


def coverage(evidence: Evidence) -> Values:
    """How much of the question one passage of the text covers, from half of it to all; names of speakers aside.

    In a long text it counts as much how many of the words, rare or not, stand together in a sentence: words that merely
    meet in a passage say little. Squared, so that nearly all of it counts and a little more than half hardly does. A
    quarter of that for authors whom the question is not about.
    """
    names = evidence.question.names
    weights = np.where([term in names for term in evidence.question.terms], 0.0, evidence.weights)
    total = float(weights.sum())
    if not total:
        return np.zeros(len(evidence.candidates))
    asked = np.sign(weights).tolist()
    finds = evidence.finds
    rows = [finds.row[each.text] for each in evidence.candidates]
    share = (finds.in_text[rows] @ weights) / total
    for nr, (row, candidate) in enumerate(zip(rows, evidence.candidates, strict=True)):
        if len(candidate.text) > WHOLE and share[nr] > 0.5:
            passage = _most_within(PART, finds.spots[row], weights.tolist()) / total
            sentence = _most_within(SENTENCE, finds.spots[row], asked) / sum(asked)
            share[nr] = (passage + sentence) / 2
    return np.clip(2 * share - 1, 0.0, 1.0) ** 2 * np.where(evidence.within > 0, 1.0, 0.25)


def _most_within(length: int, spots: Sequence[tuple[int, int]], weights: Sequence[float]) -> float:
    """The most weight of distinct terms that stand within so many characters."""
    best = inside = 0.0
    counts = [0] * len(weights)
    first = 0
    ordered = sorted(spots)
    for at, term in ordered:
        if not counts[term]:
            inside += weights[term]
        counts[term] += 1
        while at - ordered[first][0] > length:
            gone = ordered[first][1]
            counts[gone] -= 1
            if not counts[gone]:
                inside -= weights[gone]
            first += 1
        best = max(best, inside)
    return best


def phrases(evidence: Evidence) -> Values:
    """Which share of the question's quotations and identifiers stands in the text as it is."""
    wanted = evidence.question.phrases
    if not wanted:
        return np.zeros(len(evidence.candidates))
    return _values(sum(phrase in fold(each.text) for phrase in wanted) / len(wanted) for each in evidence.candidates)


def subject(evidence: Evidence) -> Values:
    """1 for the words of those whom the question is about."""
    return evidence.within if evidence.question.subject else np.zeros(len(evidence.candidates))


def time(evidence: Evidence) -> Values:
    """1 for what was said in the asked time or speaks of it, half for what was said soon after."""
    asked = evidence.question.periods
    if not asked:
        return np.zeros(len(evidence.candidates))

    def near(candidate: Candidate) -> float:
        day = _day(candidate)
        gaps = [] if day is None else [gap for one in asked if (gap := one.days_since(day)) is not None]
        least = min(gaps, default=_SOON_AFTER + 1)
        if not least:
            return 1.0
        told = (one for one in periods_told(candidate.text, day) if one.length <= _LONGEST_TOLD)
        if any(one.meets(other) for other in told for one in asked):
            return 1.0
        return 0.5 if least <= _SOON_AFTER else 0.0

    return _values(near(each) for each in evidence.candidates)


def rule(evidence: Evidence) -> Values:
    """1 for the few standing rules nearest to the question, when it is a request that they may bear on."""
    stated = _stated(evidence, states_rule, evidence.question.standing)
    if np.count_nonzero(stated) <= _MOST_RULES:
        return stated
    near = np.where(stated > 0, evidence.closeness, -1.0)
    nearest = np.argsort(-near, kind="stable")[:_MOST_RULES]
    few = np.zeros(len(stated))
    few[nearest] = 1.0
    return few


def preference(evidence: Evidence) -> Values:
    """1 for what somebody prefers, when advice is asked for."""
    return _stated(evidence, states_preference, evidence.question.standing and evidence.question.kind is Kind.ADVICE)


def denial(evidence: Evidence) -> Values:
    """1 for what somebody says not to have done, when the question is whether they have."""
    return _stated(evidence, states_denial, evidence.question.kind is Kind.ASSENT)


def _stated(evidence: Evidence, states: Callable[[str], bool], matters: bool) -> Values:
    """1 where people, not assistants, state something, if it matters to the question."""
    if not matters:
        return np.zeros(len(evidence.candidates))
    return _values(
        float(each.author.lower() not in ASSISTANT_ROLES and states(each.text)) for each in evidence.candidates
    )


def personal(evidence: Evidence) -> Values:
    """How much the text speaks of its author, when the question is about somebody."""
    if not evidence.question.subject:
        return np.zeros(len(evidence.candidates))
    return _values(traits.personal for traits in evidence.traits)


def telling(evidence: Evidence) -> Values:
    """How much the text tells rather than asks."""
    return 1.0 - _values(traits.asking for traits in evidence.traits)


def specific(evidence: Evidence) -> Values:
    """Whether the text names somebody or something, or gives a number."""
    return _values(traits.specific for traits in evidence.traits)


def opening(evidence: Evidence) -> Values:
    """1 for what opens a session or stands alone: there people say what it is about."""
    return _values(float(each.before is None) for each in evidence.candidates)


def recency(evidence: Evidence) -> Values:
    """How late each was said among all, when the question asks for what is newest; how early, when for what came first."""
    days = [day for each in evidence.candidates if (day := _day(each)) is not None]
    if evidence.question.order is Order.NONE or not days:
        return np.zeros(len(evidence.candidates))
    first, last = min(days), max(days)
    span = (last - first).days or 1
    newest = evidence.question.order is Order.NEWEST

    def place(candidate: Candidate) -> float:
        if (day := _day(candidate)) is None:
            return 0.0
        return (day - first if newest else last - day).days / span

    return _values(place(each) for each in evidence.candidates)


def tier(evidence: Evidence) -> Values:
    """How settled the record is."""
    return _values(min(max(each.tier, 0.0), 1.0) for each in evidence.candidates)


def trust(evidence: Evidence) -> Values:
    """How far its author is believed."""
    return _values(min(max(each.trust, 0.0), 1.0) for each in evidence.candidates)


def linked(candidates: Sequence[Candidate], scores: Values) -> Values:
    """How good the best record is that each is linked with, among all."""
    if not any(each.links for each in candidates):
        return np.zeros(len(candidates))
    scaled = _scaled(scores)
    by_seq = {each.seq: float(score) for each, score in zip(candidates, scaled, strict=True)}
    return _values(max((by_seq.get(seq, 0.0) for seq in each.links), default=0.0) for each in candidates)


def session(candidates: Sequence[Candidate], scores: Values) -> Values:
    """How good the best of each candidate's session is, itself included, among all sessions."""
    if not candidates:
        return scores
    rooms = [("", each.seq) if each.session is None else (each.session, 0) for each in candidates]
    best: dict[tuple[str, int], float] = {}
    for room, score in zip(rooms, scores.tolist(), strict=True):
        best[room] = max(score, best.get(room, score))
    return _scaled(_values(best[room] for room in rooms))


SIGNALS: Mapping[str, Callable[[Evidence], Values]] = {
    signal.__name__: signal
    for signal in (
        words,
        meaning,
        coverage,
        phrases,
        subject,
        time,
        rule,
        preference,
        denial,
        personal,
        telling,
        specific,
        opening,
        recency,
        tier,
        trust,
    )
}
"""Every signal that judges a candidate by itself, by name."""

JOINT: Mapping[str, Callable[[Sequence[Candidate], Values], Values]] = {
    signal.__name__: signal for signal in (session, linked)
}
"""The signals that lift a candidate by the company it keeps: they look at the sum of all the others."""
