"""Recalling: one question over everything a caller may see, answered with the reasons."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from lukasa.clock import Clock, to_iso, to_utc
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import Journal
from lukasa.models.token_counter import open_token_counter
from lukasa.prompt import PromptBlock, PromptItem, build_fenced_block
from lukasa.recall.query import ParsedQuestion, parse_question
from lukasa.recall.ranking import RankedCandidate, RankingSignal, cap_author_share, rank_candidates
from lukasa.recall.signals import CorpusStatistics, RecallCandidate
from lukasa.recall.source_trust import SourceTrust, TrustProvider
from lukasa.recall.term_selection import select_terms
from lukasa.recall.vector_index import VectorIndex
from lukasa.record import Record
from lukasa.scope import SYSTEM
from lukasa.storage.engine import AsOf, Progress, Query, Reader
from lukasa.text.terms import terms_from_words

CATCH_UP_SECONDS = 1.0
"""How many seconds an answer may be held up to make vectors that are missing."""
_TEXT_CANDIDATES = 150
_VECTOR_CANDIDATES = 300
_RECENT_RECORDS = 2_000
_MAX_QUESTION_LENGTH = 20_000
_TIER_SCORES = {"tier=canon": 1.0}
_NO_ADJACENT_TURNS = (None, None)


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A record that answers, with its score and the signals that make it up."""

    record: Record
    hit: RankedCandidate
    trust: float | None = None
    """How far its author and its sources are trusted; none for the owner's own."""

    @property
    def score(self) -> float:
        return self.hit.score

    @property
    def signals(self) -> tuple[RankingSignal, ...]:
        """The reasons; their shares add up to the score."""
        return self.hit.signals

    @property
    def repeats(self) -> int | None:
        """The position of a better hit by the same author in the same words, after which this one was put last."""
        return self.hit.repeats

    @property
    def crowded(self) -> bool:
        """Whether it had to make room because its author had filled their share already."""
        return self.hit.crowded

    @property
    def why(self) -> str:
        """The strongest reasons in a few words."""
        strongest = sorted((signal for signal in self.signals if signal.share > 0.005), key=lambda s: -s.share)
        reasons = [f"{signal.name} {signal.share:.2f}" for signal in strongest[:4]]
        return ", ".join([*reasons, *(["made room: its author's share is full"] if self.crowded else [])])


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What a question brought back, best first. ``unindexed`` texts have no vector yet and were found by words alone."""

    question: ParsedQuestion
    hits: tuple[RecallHit, ...]
    dropped: tuple[RecallHit, ...] = ()
    unindexed: int = 0
    note: str = ""

    @property
    def records(self) -> list[Record]:
        return [hit.record for hit in self.hits]


class _RankingInput(NamedTuple):
    """What is to be ranked."""

    question: ParsedQuestion
    corpus: CorpusStatistics
    records: dict[int, Record]
    cosines: dict[int, float]


class Recall:
    """Answers questions for one caller. Call it: ``memory.recall("When is the release?")``."""

    def __init__(
        self, journal: Journal, index: VectorIndex, clock: Clock, trust_provider: TrustProvider | None = None
    ) -> None:
        self._journal = journal
        self._trust_provider = trust_provider
        self._clock = clock
        self._speakers: dict[str, None] = {}
        self._texts_when_listed = 0
        self._lock = threading.Lock()
        self.index = index

    def __call__(
        self,
        question: str,
        k: int = 10,
        *,
        kinds: Iterable[str] = (),
        scopes: Iterable[str] = (),
        author: str | None = None,
        session: str | None = None,
        labels: Iterable[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: AsOf | None = None,
        patience: float = CATCH_UP_SECONDS,
    ) -> RecallResult:
        """The ``k`` records that answer best. Any string is a question; filters are those of ``Query``.

        ``session`` and ``labels`` (``tag=…``, ``outcome=…``, ``tier=…``) must all be there; ``since`` and ``until`` speak
        of when things happened. Vectors that are missing are made first, for at most ``patience`` seconds.
        """
        if k < 0:
            raise InvalidInput("A recall cannot bring back fewer than no records.")
        wanted = Query(
            kinds=tuple(kinds),
            scopes=tuple(scopes),
            author=author,
            labels=(*labels, *(() if session is None else (f"session={session}",))),
            since=None if since is None else to_utc(since),
            until=None if until is None else to_utc(until),
            as_of=to_utc(as_of) if isinstance(as_of, datetime) else as_of,
        )
        unindexed, note, model = 0, "", ""
        try:
            unindexed = self.index.catch_up(patience)
            model, note = self.index.embedder.name, self.index.outdated_note
        except MissingExtra as error:
            note = f"{error.message} Found by words alone."
        text = question[:_MAX_QUESTION_LENGTH]
        if not text.strip():
            return RecallResult(parse_question(text), (), unindexed=unindexed, note="The question is empty.")
        with self._journal.snapshot() as look:
            found = self._find_candidates(look, text, model, wanted)
        trusted = SourceTrust(self._journal, found.records.values(), self._trust_provider)  # it has looks of its own
        with self._journal.snapshot() as look:
            ranked = self._rank_found(look, found, trusted)
        best = cap_author_share(trusted.cap_by_sources(ranked, k), k)
        records = found.records
        hits = tuple(
            RecallHit(records[h.candidate.seq], h, trusted.displayed_trust(records[h.candidate.seq])) for h in best
        )
        return RecallResult(found.question, hits[:k], hits[k:], unindexed, note)

    def _find_candidates(self, reader: Reader, text: str, model: str, wanted: Query) -> _RankingInput:
        """The question, and the records that words or meaning propose, with how near each is in meaning."""
        texts = _count_texts(reader)
        asked = parse_question(text, speakers=self._list_speakers(reader, texts), now=self._clock.now().date())
        corpus = CorpusStatistics(texts, reader.frequency(asked.terms))
        records: dict[int, Record] = {}
        cosines: dict[int, float] = {}
        if words := select_terms(asked.words, _count_texts_with_words(asked.words, corpus), texts):
            question = " ".join((*words.any_of, *asked.phrases))
            matches = reader.match_text(
                question, _with_limit(wanted, _TEXT_CANDIDATES), together=" ".join(words.together)
            )
            records = {match.record.seq: match.record for match in matches}
        if model:
            vector = self.index.question_vector(asked.for_vector or text)
            for match in reader.match_vector(model, vector, _with_limit(wanted, _VECTOR_CANDIDATES)):
                records[match.record.seq] = match.record
                cosines[match.record.seq] = match.score
            cosines |= reader.cosines(model, vector, [seq for seq in records if seq not in cosines])
        visible = {seq: record for seq, record in records.items() if record.scope != SYSTEM}
        return _RankingInput(asked, corpus, visible, cosines)

    def _list_speakers(self, reader: Reader, texts: int) -> list[str]:
        """Those who speak here: the authors of late, asked for anew when the store has changed by a tenth."""
        with self._lock:
            if not self._texts_when_listed or not 0.9 * texts <= self._texts_when_listed <= 1.1 * texts:
                self._speakers.update(dict.fromkeys(reader.authors(_RECENT_RECORDS)))
                self._texts_when_listed = texts
            return list(self._speakers)

    def _rank_found(self, reader: Reader, found: _RankingInput, source_trust: SourceTrust) -> list[RankedCandidate]:
        records = found.records
        beside = reader.adjacent_turns(records.values())
        near = {seq for sides in beside.values() for seq in sides if seq is not None and seq not in records}
        texts = reader.texts_at(near) | {seq: record.text for seq, record in records.items()}

        def text_at(seq: int | None) -> str | None:
            return None if seq is None else texts.get(seq)

        arrows = _links_between(records)
        candidates = []
        for seq, record in records.items():
            before, after = beside.get(seq, _NO_ADJACENT_TURNS)
            candidate = _build_candidate(
                record, text_at(before), text_at(after), found.cosines.get(seq), source_trust.trust_signal(record)
            )
            candidates.append(replace(candidate, links=arrows[seq]) if seq in arrows else candidate)
        return rank_candidates(found.question, candidates, found.corpus)

    def reembed(self, embedder: str, progress: Progress | None = None) -> str:
        """Changes the store's embedder: makes all vectors anew while the old ones serve, then switches over."""
        return self.index.reembed(embedder, progress).name


def build_prompt_block(result: RecallResult, budget: int = 1_000) -> PromptBlock:
    """The hits as a piece of prompt: fenced, with their sources, within a budget of tokens."""
    told = [
        PromptItem(
            hit.record.text,
            str(hit.record.key),
            hit.record.author,
            to_iso(hit.record.moment)[:16],
            "" if hit.trust is None else f"{hit.trust:.2f}",
        )
        for hit in result.hits
    ]
    return build_fenced_block(told, budget=budget, counter=open_token_counter())


def _with_limit(query: Query, limit: int) -> Query:
    return replace(query, limit=limit)


def _count_texts(reader: Reader) -> int:
    return sum(row.live for row in reader.tally() if row.scope != SYSTEM)


def _count_texts_with_words(words: Iterable[str], corpus: CorpusStatistics) -> dict[str, int]:
    """In how many texts each word stands; one of several tokens stands where its rarest does."""
    return {
        word: min((corpus.texts_with_term.get(term, 0) for term in terms_from_words([word])), default=0)
        for word in words
    }


def _links_between(records: Mapping[int, Record]) -> dict[int, frozenset[int]]:
    """Which of the records each is linked with, whichever of the two carries the link."""
    places = {record.key: seq for seq, record in records.items()}
    joined: dict[int, set[int]] = {}
    for seq, record in records.items():
        for link in record.links:
            other = places.get(link.to)
            if other is not None and other != seq:
                joined.setdefault(seq, set()).add(other)
                joined.setdefault(other, set()).add(seq)
    return {seq: frozenset(others) for seq, others in joined.items()}


def _build_candidate(
    record: Record, before: str | None, after: str | None, cosine: float | None, trust: float
) -> RecallCandidate:
    return RecallCandidate(
        seq=record.seq,
        text=record.text,
        author=record.author,
        moment=record.moment,
        session=record.label("session"),
        before=before,
        after=after,
        cosine=cosine,
        tier=max([_TIER_SCORES.get(label, 0.0) for label in record.labels], default=0.0),
        trust=trust,
    )
