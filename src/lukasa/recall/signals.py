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

from lukasa.recall.passages import (
    MAX_PART_LENGTH,
    MAX_WHOLE_LENGTH,
    MAX_WINDOW_LENGTH,
    SENTENCE_SPAN,
    lead_passage,
    neighbours_in_window,
)
from lukasa.recall.query import ASSISTANT_ROLES, ParsedQuestion, QuestionKind, TimeOrder
from lukasa.recall.text_features import (
    TextFeatures,
    extract_features,
    find_periods_in_text,
    states_denial,
    states_preference,
    states_rule,
)
from lukasa.text.terms import find_term_offsets, fold_text

Values = NDArray[np.float64]

_K1, _B = 1.2, 0.75
_MIN_MATCH_SHARE = 0.3  # a best match below this share of the question is no good match
_DAYS_SOON_AFTER = 10  # days within which people still speak of what happened
_MAX_RULES = 5  # more would crowd out the answer
_MAX_PERIOD_DAYS = 100  # days; a record that speaks of a whole year says little of one day in it


@dataclass(frozen=True, slots=True)
class RecallCandidate:
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
class CorpusStatistics:
    """What the text index knows of all texts: how many there are, and in how many each term stands."""

    text_count: int
    texts_with_term: Mapping[str, int] = field(default_factory=dict)

    def term_weight(self, term: str) -> float:
        """How telling a term is: the rarer the more."""
        holding = min(self.texts_with_term.get(term, 0), self.text_count)
        return log(1 + (self.text_count - holding + 0.5) / (holding + 0.5))


@dataclass(frozen=True, slots=True)
class TermMatches:
    """Where the terms of a question stand in many texts, each text looked through once."""

    row_by_text: Mapping[str, int]
    """The number of each distinct text."""
    head_lengths: Sequence[int]
    """How long the head of each text is."""
    counts_in_head: Values
    """How often each term stands in the head of each text."""
    presence_in_text: Values
    """1 where a term stands in a text at all."""
    term_offsets: Mapping[int, Sequence[tuple[int, int]]]
    """For each long text its offsets with the numbers of the terms found there."""

    @classmethod
    def from_texts(
        cls, candidate_texts: Sequence[str], adjacent_texts: Sequence[str], terms: Sequence[str]
    ) -> TermMatches:
        """Looks through texts, and through the heads only of those that merely stand beside one.

        All are laid end to end, so that one search per term serves them all.
        """
        candidates = dict.fromkeys(candidate_texts)
        texts = list(candidates | dict.fromkeys(adjacent_texts))
        heads = [lead_passage(text) for text in texts]
        folded = [
            fold_text(text) if text in candidates else fold_text(own) for text, own in zip(texts, heads, strict=True)
        ]
        starts = np.concatenate(([0], np.cumsum([len(text) + 1 for text in folded]))).astype(np.int64)
        ends = starts[:-1] + [len(own) for own in heads]
        everything = "\n".join(folded)
        in_head = np.zeros((len(texts), len(terms)))
        in_text = np.zeros((len(texts), len(terms)))
        spots: dict[int, list[tuple[int, int]]] = {}
        long = np.array([len(text) > MAX_WHOLE_LENGTH for text in texts], dtype=bool)
        for nr, term in enumerate(terms):
            found = np.array(find_term_offsets(everything, term), dtype=np.int64)
            rows = np.searchsorted(starts, found, side="right") - 1
            in_text[rows, nr] = 1.0
            np.add.at(in_head[:, nr], rows[found < ends[rows]], 1.0)
            deep = long[rows]
            for row, at in zip(rows[deep].tolist(), found[deep].tolist(), strict=True):
                spots.setdefault(row, []).append((at, nr))
        return cls({text: nr for nr, text in enumerate(texts)}, [len(own) for own in heads], in_head, in_text, spots)

    def count_in_windows(self, candidates: Sequence[RecallCandidate]) -> tuple[Values, Values]:
        """How often each term stands in the window of each candidate, and how long that window is."""
        row, nothing = self.row_by_text, len(self.head_lengths)
        own = np.array([row[each.text] for each in candidates])
        before = np.array([nothing if each.before is None else row[each.before] for each in candidates])
        after = np.array([nothing if each.after is None else row[each.after] for each in candidates])
        length = np.array([*self.head_lengths, MAX_WINDOW_LENGTH + 1])  # what is not there is too long to join
        first, second = neighbours_in_window(length[own], length[before], length[after])
        counts, lengths = self.counts_in_head[own], length[own].astype(np.float64)
        for rows, joins in ((before, first), (after, second)):
            counts[joins] += self.counts_in_head[rows[joins]]
            lengths[joins] += length[rows[joins]]
        return counts, lengths


class RankingEvidence:
    """A question beside its candidates: what several signals need, found once."""

    def __init__(
        self, question: ParsedQuestion, candidates: Sequence[RecallCandidate], corpus: CorpusStatistics
    ) -> None:
        self.question = question
        self.candidates = candidates
        self.corpus = corpus
        self.term_weights = np.array([corpus.term_weight(term) for term in question.terms])

    @cached_property
    def term_matches(self) -> TermMatches:
        whole = [each.text for each in self.candidates]
        beside = [text for each in self.candidates for text in (each.before, each.after) if text is not None]
        return TermMatches.from_texts(whole, beside, self.question.terms)

    @cached_property
    def features(self) -> list[TextFeatures]:
        return [extract_features(each.text) for each in self.candidates]

    @cached_property
    def word_scores(self) -> Values:
        return _score_words(self)

    @cached_property
    def vector_scores(self) -> Values:
        return _score_vectors(self)

    @property
    def combined_scores(self) -> Values:
        """How near each is to the question in words and meaning together."""
        return self.word_scores + self.vector_scores

    @cached_property
    def subject_matches(self) -> Values:
        """1 for authors whom the question is about, or for all when it is about nobody."""
        wanted = self.question.subject
        return _to_array(float(not wanted or each.author in wanted) for each in self.candidates)


def _to_array(numbers: Iterable[float]) -> Values:
    return np.fromiter(numbers, dtype=np.float64)


def _candidate_day(candidate: RecallCandidate) -> date | None:
    return None if candidate.moment is None else candidate.moment.date()


def _scale_to_unit(values: Values, minimum: float | None = None) -> Values:
    """Stretched so that the best is 1 and the least is 0."""
    if not values.size:
        return values
    low = float(values.min()) if minimum is None else minimum
    high = float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def words(evidence: RankingEvidence) -> Values:
    """How well the words of a head and its neighbours match, by the formula of BM25; the best is 1 unless it matches little."""
    return evidence.word_scores


def _score_words(evidence: RankingEvidence) -> Values:
    if not evidence.candidates or not evidence.question.terms:
        return np.zeros(len(evidence.candidates))
    counts, lengths = evidence.term_matches.count_in_windows(evidence.candidates)
    drag = _K1 * (1 - _B + _B * lengths / (lengths.mean() or 1.0))
    found = counts * (_K1 + 1) / (counts + drag[:, None])
    matched: Values = found @ evidence.term_weights
    return matched / (max(float(matched.max()), _MIN_MATCH_SHARE * float(evidence.term_weights.sum())) or 1.0)


def meaning(evidence: RankingEvidence) -> Values:
    """How near the vector of the head is to the question's."""
    return evidence.vector_scores


def _score_vectors(evidence: RankingEvidence) -> Values:
    known = [each.cosine for each in evidence.candidates if each.cosine is not None]
    if not known:
        return np.zeros(len(evidence.candidates))
    least = min(known)
    return _scale_to_unit(_to_array(least if each.cosine is None else each.cosine for each in evidence.candidates))


def coverage(evidence: RankingEvidence) -> Values:
    """How much of the question one passage of the text covers, from half of it to all; names of speakers aside.

    In a long text it counts as much how many of the words, rare or not, stand together in a sentence: words that merely
    meet in a passage say little. Squared, so that nearly all of it counts and a little more than half hardly does. A
    quarter of that for authors whom the question is not about.
    """
    names = evidence.question.names
    weights = np.where([term in names for term in evidence.question.terms], 0.0, evidence.term_weights)
    total = float(weights.sum())
    if not total:
        return np.zeros(len(evidence.candidates))
    asked = np.sign(weights).tolist()
    finds = evidence.term_matches
    rows = [finds.row_by_text[each.text] for each in evidence.candidates]
    share = (finds.presence_in_text[rows] @ weights) / total
    for nr, (row, candidate) in enumerate(zip(rows, evidence.candidates, strict=True)):
        if len(candidate.text) > MAX_WHOLE_LENGTH and share[nr] > 0.5:
            passage = _max_weight_within(MAX_PART_LENGTH, finds.term_offsets[row], weights.tolist()) / total
            sentence = _max_weight_within(SENTENCE_SPAN, finds.term_offsets[row], asked) / sum(asked)
            share[nr] = (passage + sentence) / 2
    return np.clip(2 * share - 1, 0.0, 1.0) ** 2 * np.where(evidence.subject_matches > 0, 1.0, 0.25)


def _max_weight_within(length: int, term_offsets: Sequence[tuple[int, int]], weights: Sequence[float]) -> float:
    """The most weight of distinct terms that stand within so many characters."""
    best = inside = 0.0
    counts = [0] * len(weights)
    first = 0
    ordered = sorted(term_offsets)
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


def phrases(evidence: RankingEvidence) -> Values:
    """Which share of the question's quotations and identifiers stands in the text as it is."""
    wanted = evidence.question.phrases
    if not wanted:
        return np.zeros(len(evidence.candidates))
    return _to_array(
        sum(phrase in fold_text(each.text) for phrase in wanted) / len(wanted) for each in evidence.candidates
    )


def subject(evidence: RankingEvidence) -> Values:
    """1 for the words of those whom the question is about."""
    return evidence.subject_matches if evidence.question.subject else np.zeros(len(evidence.candidates))


def time(evidence: RankingEvidence) -> Values:
    """1 for what was said in the asked time or speaks of it, half for what was said soon after."""
    asked = evidence.question.periods
    if not asked:
        return np.zeros(len(evidence.candidates))

    def score_candidate(candidate: RecallCandidate) -> float:
        day = _candidate_day(candidate)
        gaps = [] if day is None else [gap for one in asked if (gap := one.days_since(day)) is not None]
        least = min(gaps, default=_DAYS_SOON_AFTER + 1)
        if not least:
            return 1.0
        told = (one for one in find_periods_in_text(candidate.text, day) if one.length <= _MAX_PERIOD_DAYS)
        if any(one.overlaps(other) for other in told for one in asked):
            return 1.0
        return 0.5 if least <= _DAYS_SOON_AFTER else 0.0

    return _to_array(score_candidate(each) for each in evidence.candidates)


def rule(evidence: RankingEvidence) -> Values:
    """1 for the few standing rules nearest to the question, when it is a request that they may bear on."""
    stated = _score_statements(evidence, states_rule, evidence.question.standing)
    if np.count_nonzero(stated) <= _MAX_RULES:
        return stated
    near = np.where(stated > 0, evidence.combined_scores, -1.0)
    nearest = np.argsort(-near, kind="stable")[:_MAX_RULES]
    few = np.zeros(len(stated))
    few[nearest] = 1.0
    return few


def preference(evidence: RankingEvidence) -> Values:
    """1 for what somebody prefers, when advice is asked for."""
    return _score_statements(
        evidence, states_preference, evidence.question.standing and evidence.question.kind is QuestionKind.ADVICE
    )


def denial(evidence: RankingEvidence) -> Values:
    """1 for what somebody says not to have done, when the question is whether they have."""
    return _score_statements(evidence, states_denial, evidence.question.kind is QuestionKind.ASSENT)


def _score_statements(evidence: RankingEvidence, states: Callable[[str], bool], is_relevant: bool) -> Values:
    """1 where people, not assistants, state something, if it matters to the question."""
    if not is_relevant:
        return np.zeros(len(evidence.candidates))
    return _to_array(
        float(each.author.lower() not in ASSISTANT_ROLES and states(each.text)) for each in evidence.candidates
    )


def personal(evidence: RankingEvidence) -> Values:
    """How much the text speaks of its author, when the question is about somebody."""
    if not evidence.question.subject:
        return np.zeros(len(evidence.candidates))
    return _to_array(traits.personal for traits in evidence.features)


def telling(evidence: RankingEvidence) -> Values:
    """How much the text tells rather than asks."""
    return 1.0 - _to_array(traits.question_share for traits in evidence.features)


def specific(evidence: RankingEvidence) -> Values:
    """Whether the text names somebody or something, or gives a number."""
    return _to_array(traits.specific for traits in evidence.features)


def opening(evidence: RankingEvidence) -> Values:
    """1 for what opens a session or stands alone: there people say what it is about."""
    return _to_array(float(each.before is None) for each in evidence.candidates)


def recency(evidence: RankingEvidence) -> Values:
    """How late each was said among all, when the question asks for what is newest; how early, when for what came first."""
    days = [day for each in evidence.candidates if (day := _candidate_day(each)) is not None]
    if evidence.question.order is TimeOrder.NONE or not days:
        return np.zeros(len(evidence.candidates))
    first, last = min(days), max(days)
    span = (last - first).days or 1
    newest = evidence.question.order is TimeOrder.NEWEST

    def score_candidate(candidate: RecallCandidate) -> float:
        if (day := _candidate_day(candidate)) is None:
            return 0.0
        return (day - first if newest else last - day).days / span

    return _to_array(score_candidate(each) for each in evidence.candidates)


def tier(evidence: RankingEvidence) -> Values:
    """How settled the record is."""
    return _to_array(min(max(each.tier, 0.0), 1.0) for each in evidence.candidates)


def trust(evidence: RankingEvidence) -> Values:
    """How far its author is believed."""
    return _to_array(min(max(each.trust, 0.0), 1.0) for each in evidence.candidates)


def linked(candidates: Sequence[RecallCandidate], scores: Values) -> Values:
    """How good the best record is that each is linked with, among all."""
    if not any(each.links for each in candidates):
        return np.zeros(len(candidates))
    scaled = _scale_to_unit(scores)
    by_seq = {each.seq: float(score) for each, score in zip(candidates, scaled, strict=True)}
    return _to_array(max((by_seq.get(seq, 0.0) for seq in each.links), default=0.0) for each in candidates)


def session(candidates: Sequence[RecallCandidate], scores: Values) -> Values:
    """How good the best of each candidate's session is, itself included, among all sessions."""
    if not candidates:
        return scores
    rooms = [("", each.seq) if each.session is None else (each.session, 0) for each in candidates]
    best: dict[tuple[str, int], float] = {}
    for room, score in zip(rooms, scores.tolist(), strict=True):
        best[room] = max(score, best.get(room, score))
    return _scale_to_unit(_to_array(best[room] for room in rooms))


SIGNALS: Mapping[str, Callable[[RankingEvidence], Values]] = {
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

JOINT_SIGNALS: Mapping[str, Callable[[Sequence[RecallCandidate], Values], Values]] = {
    signal.__name__: signal for signal in (session, linked)
}
"""The signals that lift a candidate by the company it keeps: they look at the sum of all the others."""
