"""The ranking of recall: a candidate's score is the sum of its signals times their weights.

The weights are round numbers, chosen by hand and compared on development sets. Meaning weighs more than words, a hint
about as much as a clear lead in one of them, a feature of the text alone a quarter of that. Only a passage that covers
the whole question outweighs both, because no other signal finds facts deep inside a long text.

Of hits that say different things about the same subject, the later supersedes the earlier. The best hits are compared by the
rules of ``lukasa.text.statements`` and by links that name the superseded record. A statement of an author who is trusted clearly
less, or of an agent against the owner, does not supersede but contradicts, and a statement of an assistant supersedes only with
an express word of change. A sentence of an agent that is much like a sentence of the owner, begins like it and states something
else contradicts it too, whether it is earlier or later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import compress, islice, repeat
from math import ceil
from operator import attrgetter, itemgetter, not_
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lukasa.core.freshness import CONFIRMED_AT, last_affirmed_at
from lukasa.core.record import Key, Record
from lukasa.core.text_cache import cache_texts
from lukasa.journal.write_rules import MAX_TRUST_GAP
from lukasa.recall.query import ASSISTANT_ROLES, ParsedQuestion
from lukasa.recall.relevance import USUAL_COSINES
from lukasa.recall.signals import (
    JOINT_GROUPS,
    JOINT_SIGNALS,
    MAX_DEDUCTION,
    MAX_WHOLE_LENGTH,
    SIGNALS,
    CorpusStatistics,
    RankingEvidence,
    RecallCandidate,
    Values,
    speaks_of_self,
)
from lukasa.text.differences import find_difference
from lukasa.text.statements import Statement, parse_statements, statement_changes
from lukasa.text.terms import first_content_word, fold_text, list_content_words

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "coverage": 0.8,
        "meaning": 0.6,
        "rule": 0.5,
        "topic": 0.5,
        "words": 0.4,
        "time": 0.4,
        "session": 0.4,
        "trust": 0.4,
        "phrases": 0.3,
        "preference": 0.3,
        "subject": 0.25,
        "tier": 0.2,
        "linked": 0.2,
        "recency": 0.1,
        "opening": 0.1,
        "personal": 0.1,
        "specific": 0.1,
        "telling": 0.1,
        "dated": 0.05,
        "adjacent": -MAX_DEDUCTION,
    }
)

RERANKER_WEIGHT = 2.0
"""The weight of a reranker's score, between 0 and 1: a clear verdict outweighs the differences in other signals."""
MAX_AUTHOR_SHARE = 0.5
"""The largest share of an answer that one author may fill, where more than two authors could answer."""
_MIN_RELATIVE_SCORE = 0.25  # a crowded hit gives way only to hits with at least this share of its score
MIN_COMPARED, MAX_COMPARED = 20, 50
"""How many of the best hits are compared with each other: as many as are asked for, within these limits."""
_OWNERS_DEPTH, _OWNERS_COMPARED = 200, 5  # so many of the owner's among so many hits are compared in any case
_MIN_SHARED_WORDS = 0.6  # the share of words that two sentences about the same have in common
_REPETITION_DEPTH = 100  # the number of best hits that are checked for repetitions
_NEARNESS, _COVERAGE, _PERSON, _TIME, _GAP = 2.0, 2.0, 1.5, 1.5, 10.0  # the weights of relevance
_MIDDLE, _STEEPNESS = 2.0, 2.0
_GOOD_MATCH, _WHOLE_QUESTION = (
    4.0,
    1.0,
)  # beyond this much, and more for a text that covers the question, no match counts
_MAX_GAP = 0.3  # a single answer among many texts of others stays above the cut-off
_COMPARED_TEXTS = 5  # the best so many texts about the person named are compared with as many about the others


class RankingSignal(NamedTuple):
    """One reason for a hit's rank."""

    name: str
    value: float
    weight: float

    @property
    def share(self) -> float:
        """Its contribution to the score."""
        return self.value * self.weight


class RankedCandidate(NamedTuple):
    """A candidate with its score and the signal values behind it."""

    candidate: RecallCandidate
    score: float
    packed_values: bytes
    """The values of the signals, eight bytes each: there are hundreds of hits, and few callers look at the values."""
    weights: Mapping[str, float]
    """The name and weight of each value, in the same order."""
    repeats: int | None = None
    """The position of a better hit with the same content words; a repeating hit is moved to the end."""
    crowded: bool = False
    """Whether it was moved down because its author's share of the answer was full."""
    relevance: float = 1.0
    """How likely the record is about the question, between 0 and 1."""

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the signals."""
        return tuple(memoryview(self.packed_values).cast("d"))

    @property
    def signals(self) -> tuple[RankingSignal, ...]:
        """All signals; their shares add up to the score."""
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
    cosine_range: tuple[float, float] | None = USUAL_COSINES,
) -> list[RankedCandidate]:
    """Return the best ``k`` candidates (all by default), best first.

    The order of the candidates does not matter; of equal ones the newest comes first. Among the best hits, those that
    repeat the content words of a better hit are moved to the end. ``cosine_range`` are the cosines of unrelated texts and of a
    question and its answer.
    """
    ordered = sorted(candidates, key=attrgetter("seq"), reverse=True)
    if not ordered:
        return []
    evidence = RankingEvidence(question, ordered, corpus)
    values = {name: SIGNALS[name](evidence) for name in SIGNALS if weights.get(name)}
    scores = np.zeros(len(ordered))
    for name, value in values.items():
        scores = scores + weights[name] * value
    for group in JOINT_GROUPS:
        joint_values = {name: JOINT_SIGNALS[name](evidence, scores) for name in group if weights.get(name)}
        for name, value in joint_values.items():
            scores = scores + weights[name] * value
        values |= joint_values
    relevance = compute_relevance(evidence, cosine_range)
    used_weights = {name: weights[name] for name in values}
    best = np.argsort(-scores, kind="stable")
    packed, size = np.array(list(values.values()))[:, best].tobytes("F") if values else b"", 8 * len(values)
    columns: Any = (
        [ordered[index] for index in best.tolist()],
        scores[best].tolist(),
        [packed[index * size : (index + 1) * size] for index in range(len(ordered))],
        repeat(used_weights),
        repeat(None),
        repeat(False),
        relevance[best].tolist(),
    )
    hits: list[RankedCandidate] = list(map(tuple.__new__, repeat(RankedCandidate), zip(*columns, strict=False)))
    best_hits = hits[:_REPETITION_DEPTH]
    first_words = [_first_word(hit.candidate.text) for hit in best_hits]
    texts_with_first = Counter(first_words)
    seq_by_content: dict[str, int] = {}
    ranked: list[RankedCandidate] = []
    repeated: list[RankedCandidate] = []
    for hit, word in zip(best_hits, first_words, strict=True):
        candidate = hit.candidate
        first_seq = candidate.seq
        if texts_with_first[word] > 1:  # the others have other content words
            first_seq = seq_by_content.setdefault(_content_key(candidate.text, candidate.name), candidate.seq)
        if first_seq == candidate.seq:
            ranked.append(hit)
        else:
            repeated.append(hit._replace(repeats=first_seq))
    return [*ranked, *hits[_REPETITION_DEPTH:], *repeated][:k]


def compute_relevance(evidence: RankingEvidence, cosine_range: tuple[float, float] | None) -> Values:
    """Return the relevance of each candidate (``lukasa.recall.relevance``); a text without a vector is judged by its words alone."""
    candidates, question = evidence.candidates, evidence.question
    covered = evidence.covered_shares
    nearness = covered
    if cosine_range is not None:
        unrelated, related = cosine_range
        scaled = np.clip((evidence.cosines - unrelated) / (related - unrelated), 0.0, 1.5)
        nearness = np.where(np.isnan(scaled), covered, scaled)
    total = _NEARNESS * nearness + _COVERAGE * covered
    if question.periods:
        total += _TIME * evidence.time_scores
    if question.names:
        is_name = np.array([float(term in question.names) for term in question.terms])
        is_by_person = np.array([candidate.name in question.subject for candidate in candidates])
        is_mentioned = evidence.presence @ is_name > 0
        concerns = (
            is_by_person.copy()
        )  # by the person named, or about them: it names them and does not speak of its author
        for index in np.flatnonzero(is_mentioned & ~is_by_person).tolist():
            concerns[index] = not speaks_of_self(candidates[index].text)
        total += _PERSON * concerns
        if concerns.any() and not concerns.all():
            is_dialogue = len({candidate.name for candidate in candidates}) == 2
            about_speaker = evidence.features.about_speaker
            share = np.where(  # how much each text is about the person named
                is_by_person, about_speaker, (1 - about_speaker) * (is_mentioned | is_dialogue)
            )
            strength = nearness + covered
            gap = _mean_of_best(strength * share) - _mean_of_best(strength * (1 - share))
            limit = _GOOD_MATCH + _WHOLE_QUESTION * np.clip(2 * covered - 1, 0.0, 1.0) ** 2
            excess = np.maximum(total - limit, 0.0)
            total -= excess * np.minimum(
                2 * share, 1.0
            )  # a text about others gains at least what it takes from the gap
            total += _GAP * np.clip(gap, -_MAX_GAP, _MAX_GAP)
    relevance: Values = 1.0 / (1.0 + np.exp(-_STEEPNESS * (total - _MIDDLE)))
    return relevance


def _mean_of_best(values: Values) -> float:
    return float(np.sort(values)[-_COMPARED_TEXTS:].sum()) / _COMPARED_TEXTS


_first_word = cache_texts(1 << 11)(first_content_word)


@cache_texts(1 << 11)
def _content_key(text: str, speaker: str) -> str:
    """Return the content words of a short text in order, or the whole of a long one.

    A text in which the speaker speaks of themselves never equals the text of another speaker.
    """
    words = list_content_words(text) if len(text) <= MAX_WHOLE_LENGTH else ()
    return "\0".join((speaker if not words or speaks_of_self(text) else "", *(words or (fold_text(text).strip(),))))


def _pack_values(values: Sequence[float]) -> bytes:
    return np.array(values, dtype=np.float64).tobytes()


def with_trust(hit: RankedCandidate, trust: float) -> RankedCandidate:
    """Return the hit with another trust and the score that follows from it."""
    names = list(hit.weights)
    if "trust" not in names or trust == hit.candidate.trust:
        return hit
    values = list(hit.values)
    score = hit.score + hit.weights["trust"] * (trust - values[names.index("trust")])
    values[names.index("trust")] = trust
    return hit._replace(candidate=hit.candidate._replace(trust=trust), packed_values=_pack_values(values), score=score)


def with_reranker_scores(hits: Sequence[RankedCandidate], scores: Sequence[float]) -> list[RankedCandidate]:
    """Return the best hits in the order that a reranker's scores give them as one more signal, and the others after them."""
    best = [
        hit._replace(
            score=hit.score + RERANKER_WEIGHT * score,
            packed_values=_pack_values((*hit.values, score)),
            weights={**hit.weights, "reranker": RERANKER_WEIGHT},
        )
        for hit, score in zip(hits, scores, strict=False)
    ]
    return [*sorted(best, key=lambda hit: (hit.repeats is not None, -hit.score)), *hits[len(best) :]]


def cap_author_share(
    hits: Sequence[RankedCandidate], k: int, max_share: float = MAX_AUTHOR_SHARE
) -> list[RankedCandidate]:
    """Reorder hits so that no author fills more than a share of the best ``k`` while others can answer.

    The cap applies where more than two authors are among the hits: two people in a conversation answer as they talk. A
    hit gives way only to one with at least a quarter of its score, and is then marked as crowded. Records of the owner,
    which have no author, are not capped.
    """
    ordered = list(hits)
    if k < 1 or len({hit.candidate.author for hit in ordered if hit.candidate.author}) <= 2:
        return ordered
    limit = max(1, ceil(k * max_share))
    hits_by_author: dict[str, int] = {}
    for rank in range(min(k, len(ordered))):
        chosen = rank
        if (author := ordered[rank].candidate.author) and hits_by_author.get(author, 0) >= limit:
            min_score = ordered[rank].score * _MIN_RELATIVE_SCORE
            chosen = next(
                (
                    index
                    for index in range(rank + 1, len(ordered))
                    if (other := ordered[index].candidate.author) != author
                    and ordered[index].score >= min_score
                    and ordered[index].repeats is None
                    and (not other or hits_by_author.get(other, 0) < limit)
                ),
                rank,
            )
        ordered.insert(rank, ordered.pop(chosen))
        author = ordered[rank].candidate.author
        hits_by_author[author] = hits_by_author.get(author, 0) + 1
    lowest = min((hit.score for hit in ordered[:k]), default=0.0)
    return ordered[:k] + [
        hit._replace(crowded=True)
        if hit.repeats is None and hit.score > lowest and hits_by_author.get(hit.candidate.author, 0) >= limit
        else hit
        for hit in ordered[k:]
    ]


class _StatementGroups(NamedTuple):
    """The statements of a text and the stems in them."""

    statements: tuple[Statement, ...]
    changing: tuple[Statement, ...]
    """Statements that may change an earlier one: with a word of change, a value or a negation."""
    others: tuple[Statement, ...]
    """Statements that can only change a negated one."""
    negated: tuple[Statement, ...]
    stems: frozenset[str]


@cache_texts(1 << 11, 16_000_000, per_character=30)
def _group_statements(text: str, speaker: str) -> _StatementGroups:
    statements = parse_statements(text, speaker)
    says: Sequence[Statement] = statements
    if speaker.lower() in ASSISTANT_ROLES:
        says = [statement for statement in statements if statement.says_now or statement.replaces]
    changing = [bool(each.changes or each.values or each.negated) for each in says]
    return _StatementGroups(
        statements,
        tuple(compress(says, changing)),
        tuple(compress(says, map(not_, changing))),
        tuple([each for each in statements if each.negated]),
        frozenset().union(*(statement.stems for statement in statements)),
    )


class _DatedHit(NamedTuple):
    """A hit with its statements; hits are sorted by time."""

    moment: datetime
    seq: int
    record: Record
    trust: float
    groups: _StatementGroups


class Disagreements(NamedTuple):
    """Positions of hits that say different things about the same subject."""

    newest_by_seq: dict[int, int]
    """For each superseded record the newest one that supersedes it."""
    contradicted_by_seq: dict[int, int]
    """For each record of a less trusted author a record that says otherwise, unless the former is superseded.

    It is the newest earlier record, or one of the owner of any time."""


def find_disagreements(hits: Sequence[RankedCandidate], records: Mapping[int, Record], k: int) -> Disagreements:
    """Compare the best hits, and tell which supersede others and which contradict more trusted ones."""
    dated: list[_DatedHit] = []
    linked: set[tuple[Key, Key]] = set()
    best = hits[: min(max(k, MIN_COMPARED), MAX_COMPARED)]
    missing = max(_OWNERS_COMPARED - sum(not hit.candidate.author for hit in best), 0)
    others = (hit for hit in hits[len(best) : _OWNERS_DEPTH] if not hit.candidate.author)
    for hit in (*best, *islice(others, missing)):  # further ones of the owner, if few are among the best
        if hit.repeats is None:
            record = records[hit.candidate.seq]
            groups = _group_statements(hit.candidate.text, record.speaker)
            dated.append(_DatedHit(affirmed_at(record), record.seq, record, hit.candidate.trust, groups))
            linked.update((record.key, link.to) for link in record.links if link.relation == "supersedes")
            linked.update((link.to, record.key) for link in record.links if link.relation == "superseded_by")
    dated.sort(key=itemgetter(0, 1))
    newest: dict[int, int] = {}
    contradicted: dict[int, int] = {}
    for index in range(len(dated) - 2, -1, -1):  # from the newest to the oldest, so that chains end at their newest
        older = dated[index]
        shares_no_stem = older.groups.stems.isdisjoint
        for newer in reversed(dated[index + 1 :]):
            if shares_no_stem(newer.groups.stems) and not linked:
                continue
            says_otherwise = _says_otherwise(newer.groups, older.groups)
            if newer.record.author and not older.record.author:
                if newer.seq not in contradicted and (says_otherwise or _contradicts_owner(newer, older)):
                    contradicted[newer.seq] = older.seq
            elif newer.trust < older.trust - MAX_TRUST_GAP:
                if says_otherwise:
                    contradicted.setdefault(newer.seq, older.seq)
            elif says_otherwise or (linked and (newer.record.key, older.record.key) in linked):
                newest[older.seq] = newest.get(newer.seq, newer.seq)
                break
            elif older.record.author and not newer.record.author and _contradicts_owner(older, newer):
                contradicted.setdefault(older.seq, newer.seq)
    return Disagreements(newest, {seq: other for seq, other in contradicted.items() if seq not in newest})


def _contradicts_owner(agents: _DatedHit, owners: _DatedHit) -> bool:
    """Tell whether an agent's sentence has most words of a sentence of the owner, begins like it and states something else."""
    said, says = owners.groups.statements, agents.groups.statements
    is_single = len(said) == len(says) == 1
    for before in said:
        for after in says:
            if before.words[:1] != after.words[:1] or after.adds or not (before.lasting and after.lasting):
                continue
            least = max(2, _MIN_SHARED_WORDS * max(len(before.stems), len(after.stems)))
            if (
                min(len(before.stems), len(after.stems)) >= least
                and len(before.stems & after.stems) >= least
                and (is_single or before.words != after.words)
                and find_difference(owners.record.text, agents.record.text) is not None
            ):
                return True
    return False


def affirmed_at(record: Record) -> datetime:
    """Return when a record was last stated or confirmed."""
    return last_affirmed_at(record) if CONFIRMED_AT in record.body else record.moment


def _says_otherwise(newer: _StatementGroups, older: _StatementGroups) -> bool:
    for statements, earlier in ((newer.changing, older.statements), (newer.others, older.negated)):
        for after in statements:
            for before in earlier:
                if not before.stems.isdisjoint(after.stems) and statement_changes(before, after):
                    return True
    return False


def put_newest_first(
    hits: Sequence[RankedCandidate], records: Mapping[int, Record], newest_by_seq: Mapping[int, int]
) -> list[RankedCandidate]:
    """Reorder the hits of each supersession among their own places: the newest takes the best place, and so on."""
    ordered = list(hits)
    superseding = set(newest_by_seq.values())
    places: dict[int, list[int]] = {}
    for place, hit in enumerate(ordered):
        seq = hit.candidate.seq
        if seq in newest_by_seq or seq in superseding:
            places.setdefault(newest_by_seq.get(seq, seq), []).append(place)
    for group in places.values():
        members = sorted(
            (ordered[place] for place in group),
            key=lambda hit: (affirmed_at(records[hit.candidate.seq]), hit.candidate.seq),
            reverse=True,
        )
        for place, hit in zip(group, members, strict=True):
            ordered[place] = hit
    return ordered


def put_trusted_first(hits: Sequence[RankedCandidate], contradicted_by_seq: Mapping[int, int]) -> list[RankedCandidate]:
    """Swap each hit with the more trusted hit that it contradicts, if it comes before that hit."""
    ordered = list(hits)
    place_by_seq = {hit.candidate.seq: place for place, hit in enumerate(ordered)}
    for newer, older in contradicted_by_seq.items():
        place, trusted_place = place_by_seq[newer], place_by_seq[older]
        if place < trusted_place:
            ordered[place], ordered[trusted_place] = ordered[trusted_place], ordered[place]
            place_by_seq[newer], place_by_seq[older] = trusted_place, place
    return ordered
