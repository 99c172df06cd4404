"""The recall service: answers one question from everything the caller may read, with the reasons for each hit.

A record is trusted as far as its author, and no further than the least trusted of the records it was derived from, at any
depth. Only the best hits are checked, and only a limited number of sources is looked up. A source that the caller cannot
read, or that is past the limit, counts like an author who has not been judged yet.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import repeat
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, overload

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, Time, to_iso, to_utc
from lukasa.core.freshness import EXPIRES_AT, describe_freshness, describe_left_out, is_expired, stated_at
from lukasa.core.record import DERIVED_FROM, Key, Record, with_own_body
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput, MissingExtra, StoreUnavailable
from lukasa.journal import CallerService, Journal
from lukasa.recall.query import (
    ParsedQuestion,
    QuestionKind,
    RecordFilter,
    TimeOrder,
    list_values,
    one_or_more,
    parse_question,
    select_terms,
)
from lukasa.recall.ranking import (
    MAX_AUTHOR_SHARE,
    WEIGHTS,
    RankedCandidate,
    RankingSignal,
    affirmed_at,
    cap_author_share,
    find_disagreements,
    put_newest_first,
    put_trusted_first,
    rank_candidates,
    with_reranker_scores,
    with_trust,
)
from lukasa.recall.relevance import DEFAULT_CUTOFF
from lukasa.recall.signals import MAX_WHOLE_LENGTH, CorpusStatistics, RecallCandidate, asks_something
from lukasa.recall.unconfirmed_orders import ORDERS, find_unconfirmed_orders, split_by_reason
from lukasa.recall.vector_index import VectorIndex
from lukasa.storage.engine import Match, Progress, Query, Reader
from lukasa.text.orders import find_order_in
from lukasa.text.terms import terms_from_words

if TYPE_CHECKING:
    from lukasa.models.reranker import Reranker
    from lukasa.recall.prompt import PromptBlock

T = TypeVar("T")
CATCH_UP_SECONDS = 1.0
"""The time that one recall may spend on missing vectors."""
MAX_LOOKUPS = 64
"""The number of sources that one recall looks up."""
MAX_SOURCES_PER_HIT = 24
"""The number of sources that one hit may use of them."""
MAX_QUESTION_LENGTH = 4_000
"""The number of characters of a question that are read, at most."""
MAX_COMPARED_LENGTH = 50_000
"""The number of characters of one text that are compared with the question, at most."""
_MAX_COMPARED_IN_ALL = 3_000_000  # the same for all candidates of one recall
_CHARACTERS_PER_TOKEN = 200  # more than any token has
_TEXT_CANDIDATES = 150
_VECTOR_CANDIDATES = 300
_RERANKED_HITS, _MAX_RERANKED_LENGTH = 50, 4_000
_FILTER_FACTORS = (1, 8, 64)  # how many times the usual number of matches a filter looks at, until enough are accepted
_RECENT_RECORDS, _RECENT_SPEAKERS = 2_000, 300
_CANON_LABEL = "tier=canon"
_NO_ADJACENT_TURNS = (None, None)


class TrustProvider(Protocol):
    """Knows how far authors are trusted."""

    @property
    def initial(self) -> float:
        """The trust in an author who has not been judged yet."""

    def __call__(self, authors: Iterable[str]) -> Mapping[str, float]:
        """Return the trust in those of the authors who have been judged."""


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A record that answers the question, with its score and the signals behind it."""

    record: Record
    hit: RankedCandidate = field(repr=False)
    trust: float | None = None
    """The trust in its author and its sources; ``None`` for records of the owner."""
    superseded_by: Supersession | None = None
    """The newest later statement about the same subject that says otherwise."""
    supersedes: tuple[Supersession, ...] = ()
    """Earlier statements about the same subject that say otherwise, newest first."""
    contradicts: Supersession | None = None
    """An earlier statement that says otherwise and comes from an author who is trusted clearly more."""
    orders: str = ""
    """The reason why it is an order to its reader, if only its author stands by it."""

    @property
    def text(self) -> str:
        return self.record.text

    @property
    def score(self) -> float:
        return self.hit.score

    @property
    def relevance(self) -> float:
        """How likely the record is about the question, between 0 and 1; it means the same in every store."""
        return self.hit.relevance

    @property
    def signals(self) -> tuple[RankingSignal, ...]:
        """All signals; their shares add up to the score."""
        return self.hit.signals

    @property
    def repeats(self) -> int | None:
        """The position of a better hit with the same content words; a repeating hit is moved to the end."""
        return self.hit.repeats

    @property
    def crowded(self) -> bool:
        """Whether it was moved down because its author's share of the answer was full."""
        return self.hit.crowded

    @property
    def why(self) -> str:
        """The strongest signals in a few words."""
        strongest = sorted((signal for signal in self.signals if signal.share > 0.005), key=lambda s: -s.share)
        reasons = [f"{signal.name} {signal.share:.2f}" for signal in strongest[:4]]
        if len(self.record.text) > len(self.hit.candidate.text):
            reasons.append(f"compared by {len(self.hit.candidate.text):,} of {len(self.record.text):,} characters")
        if self.crowded:
            reasons.append("moved down: its author's share is full")
        if disagreement := self.describe_disagreement():
            reasons.append(disagreement)
        elif self.supersedes:
            reasons.append(f"supersedes {', '.join(earlier.id for earlier in self.supersedes)}")
        if self.orders:
            reasons.append(f"gives orders that nobody confirmed: {self.orders}")
        return ", ".join(reasons)

    def describe_disagreement(self, *, with_keys: bool = False) -> str:
        """Name the record that supersedes the hit, or the more trusted one that it contradicts, by id or key; empty if none."""
        other = self.superseded_by or self.contradicts
        if other is None:
            return ""
        name = str(other.record.key) if with_keys else other.id
        if self.superseded_by:
            return f"superseded by {name}"
        return f"contradicts {name}, which {'is trusted more' if other.record.author else 'the owner said'}"


@dataclass(frozen=True, slots=True)
class Supersession:
    """The other record of a supersession or a contradiction, and when it was last stated or confirmed."""

    record: Record
    at: datetime

    @classmethod
    def from_record(cls, record: Record) -> Supersession:
        return cls(record, affirmed_at(record))

    @property
    def id(self) -> str:
        return self.record.id


class LazyHits(Sequence[RecallHit]):
    """Hits that are built when they are looked at: there are hundreds, and few callers look."""

    def __init__(self, ranked: Sequence[RankedCandidate], build: Callable[[RankedCandidate], RecallHit]) -> None:
        self._ranked, self._build = ranked, build

    def __len__(self) -> int:
        return len(self._ranked)

    @overload
    def __getitem__(self, index: int) -> RecallHit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecallHit]: ...
    def __getitem__(self, index: int | slice) -> RecallHit | Sequence[RecallHit]:
        if isinstance(index, slice):
            return LazyHits(self._ranked[index], self._build)
        return self._build(self._ranked[index])

    def __iter__(self) -> Iterator[RecallHit]:
        return map(self._build, self._ranked)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the hits as a tuple: the function that builds them knows the store."""
        return tuple, (tuple(self),)


class LeftOutRecord(NamedTuple):
    """A record that would have been among the best hits, and why it is not: ``expired`` or ``orders``."""

    record: Record
    reason: str


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The answer to a question, best hit first: a sequence of its hits, true if there are any.

    ``unindexed`` counts the texts that have no vector yet and can be found only by their words. ``asked_at`` is the time
    that ages and expiries refer to.
    """

    query: ParsedQuestion
    hits: tuple[RecallHit, ...]
    dropped: Sequence[RecallHit] = ()
    unindexed: int = 0
    note: str = ""
    left_out: tuple[LeftOutRecord, ...] = ()
    asked_at: datetime | None = None
    nothing_relevant: bool = False
    """Whether there were candidates, and none of them is about the question; the best of them are in ``dropped``."""
    embedder: str = ""
    """The model whose vectors were compared; empty if words alone found the records."""

    @property
    def records(self) -> list[Record]:
        return [hit.record for hit in self.hits]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[RecallHit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> RecallHit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RecallHit, ...]: ...
    def __getitem__(self, index: int | slice) -> RecallHit | tuple[RecallHit, ...]:
        return self.hits[index]

    def without_orders(self) -> RecallResult:
        """Return the result as a prompt shows it unasked: hits with unconfirmed orders are in ``left_out``."""
        marked = tuple(LeftOutRecord(hit.record, ORDERS) for hit in self.hits if hit.orders)
        if not marked:
            return self
        return replace(self, hits=tuple(hit for hit in self.hits if not hit.orders), left_out=(*self.left_out, *marked))


class _FoundRecords(NamedTuple):
    """Everything one snapshot contributes to the ranking."""

    question: ParsedQuestion
    corpus: CorpusStatistics
    records: Mapping[int, Record]
    cosines: Mapping[int, float]
    adjacent_turns: Mapping[int, tuple[int | None, int | None]]
    texts: Mapping[int, str]
    """The texts of the records and of the turns next to them, by position."""
    cosine_range: tuple[float, float] | None


class EmbedderFailed(StoreUnavailable):
    """The embedder gave no vector for the question."""


def finish_by(ends: float | None, work: Callable[[], T], worker: str = "embedder") -> T:
    """Return what ``work`` returns; raise ``StoreUnavailable`` if it is not done by a moment of the monotonic clock.

    The work goes on in its thread and is not waited for, so that the next recall finds a model that is loaded by then.
    """
    if ends is None:
        return work()
    done: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            done.put((None, error))

    threading.Thread(target=run, name="lukasa-recall", daemon=True).start()
    try:
        result, error = done.get(timeout=max(0.0, ends - time.monotonic()))
    except Empty:
        raise StoreUnavailable(f"The {worker} had not answered by the deadline.") from None
    if error is not None:
        raise error
    return cast("T", result)


@check_arguments
class Recall(CallerService):
    """Answers questions for one caller. Call it: ``memory.recall("When is the release?")``."""

    def __init__(
        self,
        journal: Journal,
        index: VectorIndex,
        clock: Clock,
        trust_provider: TrustProvider | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._journal = journal
        self._trust_provider = trust_provider
        self._clock = clock
        self._speakers: dict[str, None] = {}
        self._texts_when_listed = 0
        self._lock = threading.Lock()
        self.index = index
        self.reranker = reranker
        """A model that reads the best hits again with the question; none by default."""
        self.weights = WEIGHTS
        """The weights of the signals; a benchmark leaves one out to see what it is worth."""

    def __call__(
        self,
        query: str,
        k: int = 10,
        *,
        kinds: Iterable[str] = (),
        scopes: Iterable[str] = (),
        author: str | Iterable[str] | None = None,
        conversation: str | Iterable[str] | None = None,
        labels: Iterable[str] = (),
        any_labels: Iterable[str] = (),
        exclude: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        as_of: Time | int | None = None,
        include_expired: bool = False,
        min_relevance: float | None = None,
        patience: float = CATCH_UP_SECONDS,
        deadline: float | None = None,
    ) -> RecallResult:
        """Return the ``k`` records that answer best, with the reasons for each. Any string is a question.

        Of hits that say different things about the same subject the newest comes first, unless the question asks for an
        earlier time. Expired records are listed in ``left_out``. If no hit has a relevance of ``DEFAULT_CUTOFF``, nothing
        relevant was found and there are no hits; with a ``min_relevance`` of 0 there are always hits. If the embedder does
        not answer by the deadline, ``note`` says so.

        Args:
            query: The question, in plain words.
            k: How many to return at most.
            kinds: Only records of these kinds, such as ``memory``, ``episode`` or ``turn``.
            scopes: Only these scopes; default: all that the caller may read.
            author: Only records of these authors.
            conversation: Only turns of these conversations.
            labels: The record has all of these labels, such as ``tag=ops``.
            any_labels: The record has at least one of these labels.
            exclude: The record has none of these labels.
            where: Compare fields of the body: ``{"status": "open", "price": {"gte": 10, "lt": 20}}``.
            since: Only what happened at this time or later.
            until: Only what happened at this time or earlier.
            as_of: An earlier time, or a position in the log.
            include_expired: Return expired records too.
            min_relevance: The relevance that every hit must reach, from 0 to 1.
            patience: How many seconds to spend on missing vectors first.
            deadline: After how many seconds recall goes on without the embedder, by words alone.

        Example:
            memory.remember("We deploy on Tuesdays.", tags=["ops"])
            memory.recall("When do we deploy?", 3, labels=["tag=ops"]).hits[0].text
        """
        if k < 0:
            raise InvalidInput("k must be 0 or more.")
        if deadline is None:
            deadline = self.index.deadline
        if min_relevance is not None and not 0.0 <= min_relevance <= 1.0:
            raise InvalidInput("min_relevance must be between 0 and 1.", hint="0 returns the best k, relevant or not.")
        ends = None if deadline is None else time.monotonic() + deadline
        now = self._clock.now() if as_of is None or isinstance(as_of, int) else to_utc(as_of)
        authors, conversations = one_or_more(author), one_or_more(conversation)
        limits = Query(
            kinds=list_values("kinds", kinds),
            scopes=list_values("scopes", scopes),
            author=authors[0] if len(authors) == 1 else None,
            labels=(
                *list_values("labels", labels),
                *(f"session={name}" for name in conversations if len(conversations) == 1),
            ),
            since=None if since is None else to_utc(since),
            until=None if until is None else to_utc(until),
            as_of=as_of,
        )
        record_filter = RecordFilter(
            authors if len(authors) > 1 else (),
            conversations if len(conversations) > 1 else (),
            list_values("any_labels", any_labels),
            list_values("exclude", exclude),
            where or {},
        )
        unindexed, note, model = 0, "", ""
        try:
            if deadline is not None:
                patience = min(patience, deadline / 2)
            unindexed = finish_by(ends, lambda: self.index.catch_up(patience))
            embedder = self.index.choose_embedder()
            model, note = embedder.name, embedder.outdated_note
        except (MissingExtra, StoreUnavailable) as error:
            note = self._without_vectors(error)
        text, used = query[:MAX_QUESTION_LENGTH], model.partition("+")[0]
        if not text.strip():
            return RecallResult(parse_question(text), (), note="The question is empty.")
        with self._journal.snapshot() as reader:
            reader.shares_records = True  # a hit gets a copy
            try:
                found = self._find_records(reader, text, model, limits, record_filter, ends)
            except EmbedderFailed as error:
                note, used = self._without_vectors(error), ""
                found = self._find_records(reader, text, "", limits, record_filter)
            if unindexed and not self._journal.reach.unlimited:  # texts of other scopes do not count
                unindexed = reader.count_without_vectors(model)
        if unindexed and self.index.write_failure:
            note = f"{note} Texts without a vector were found by words alone. {self.index.write_failure}".strip()
        if len(query) > MAX_QUESTION_LENGTH:
            note = f"{note} Only the first {MAX_QUESTION_LENGTH:,} characters of the question were read.".strip()
        if reader.damaged_vectors:
            self.index.remake(reader.damaged_vectors)
            with self._journal.snapshot() as reader:
                reader.shares_records = True
                found = self._find_records(reader, text, model, limits, record_filter)
        if reader.damaged_vectors:  # the store cannot be written
            note = f"{note} {len(reader.damaged_vectors)} damaged vectors were left out.".strip()
        if reader.damaged:
            note = f"{note} {len(reader.damaged)} damaged records were left out; run `lukasa verify`.".strip()
        # Trust is read after the snapshot is closed: it needs the owner's reach and so a connection of another snapshot.
        source_trust = SourceTrust(self._journal, found.records, self._trust_provider)
        expired = (
            ()
            if include_expired
            else {seq for seq, record in found.records.items() if EXPIRES_AT in record.body and is_expired(record, now)}
        )
        candidates = _build_candidates(found, source_trust)
        left_out: tuple[LeftOutRecord, ...] = ()
        if expired:
            best = rank_candidates(found.question, candidates, found.corpus, k=k)
            left_out = tuple(
                LeftOutRecord(with_own_body(found.records[hit.candidate.seq]), "expired")
                for hit in best
                if hit.candidate.seq in expired
            )
            candidates = [candidate for candidate in candidates if candidate.seq not in expired]
        ranked = rank_candidates(
            found.question, candidates, found.corpus, weights=self.weights, cosine_range=found.cosine_range
        )
        if self.reranker is not None:
            ranked, failure = self._rerank(self.reranker, found.question, ranked, ends)
            note = f"{note} {failure}".strip()
        if min_relevance is not None:
            ranked = [hit for hit in ranked if hit.relevance >= min_relevance]
        ranked = source_trust.cap_by_sources(ranked, k)
        newest_by_seq, contradicted_by_seq = find_disagreements(ranked, found.records, k)
        asks_for_other_time = found.question.order is TimeOrder.OLDEST or found.question.periods
        asks_for_present = not asks_for_other_time and found.question.kind is not QuestionKind.THREAD
        if (newest_by_seq or contradicted_by_seq) and asks_for_present:
            ranked = put_newest_first(ranked, found.records, newest_by_seq)
            ranked = put_trusted_first(ranked, contradicted_by_seq)
        superseded: dict[int, list[Supersession]] = {}
        for older, newer in newest_by_seq.items():
            superseded.setdefault(newer, []).append(Supersession.from_record(with_own_body(found.records[older])))

        def build_hit(hit: RankedCandidate) -> RecallHit:
            record = found.records[hit.candidate.seq]
            newest, contradicted = newest_by_seq.get(record.seq), contradicted_by_seq.get(record.seq)
            return RecallHit(
                with_own_body(record),
                hit,
                source_trust.displayed_trust(record),
                None if newest is None else Supersession.from_record(with_own_body(found.records[newest])),
                tuple(superseded.get(record.seq, ())),
                None if contradicted is None else Supersession.from_record(with_own_body(found.records[contradicted])),
            )

        ranked = cap_author_share(ranked, k)
        highest = max((hit.relevance for hit in ranked[:k]), default=0.0)
        if k and candidates and (not ranked or (min_relevance is None and highest < DEFAULT_CUTOFF)):
            cutoff = DEFAULT_CUTOFF if min_relevance is None else min_relevance
            note = f"No memory is relevant enough (all below {cutoff:g}). {note}".strip()
            dropped = LazyHits(ranked, build_hit)
            return RecallResult(
                found.question, (), dropped, unindexed, note, left_out, now, nothing_relevant=True, embedder=used
            )
        hits, dropped = self._mark_orders(map(build_hit, ranked[:k])), LazyHits(ranked[k:], build_hit)
        return RecallResult(found.question, hits, dropped, unindexed, note, left_out, now, embedder=used)

    def _mark_orders(self, hits: Iterable[RecallHit]) -> tuple[RecallHit, ...]:
        """Return the hits, each with its unconfirmed orders."""
        found = tuple(hits)
        suspects = [hit.record for hit in found if find_order_in(hit.record)]
        if not suspects:
            return found
        orders = find_unconfirmed_orders(self._journal, suspects)
        return tuple(replace(hit, orders=orders.get(hit.record.key, "")) for hit in found)

    def _rerank(
        self, reranker: Reranker, question: ParsedQuestion, ranked: list[RankedCandidate], ends: float | None
    ) -> tuple[list[RankedCandidate], str]:
        """Return the hits in the order of a reranker; if it fails or is late, in the same order, and why."""
        from lukasa.models.reranker import scale_scores

        best = ranked[:_RERANKED_HITS]
        texts = [_select_part(hit.candidate.text, question.terms, _MAX_RERANKED_LENGTH) for hit in best]
        try:
            scores = finish_by(ends, lambda: reranker.score(question.text, texts), "reranker") if texts else ()
            scores = scale_scores(scores)
        except (MissingExtra, StoreUnavailable) as error:
            return ranked, f"{error.message} The hits were not reranked."
        return with_reranker_scores(ranked, scores), ""

    def _without_vectors(self, error: MissingExtra | StoreUnavailable) -> str:
        """Return the note on a recall by words alone; raise the error if the embedder is required."""
        if self.index.fail_closed and not isinstance(error, MissingExtra):
            raise error
        return f"{error.message} Found by words alone."

    def _find_records(
        self,
        reader: Reader,
        text: str,
        model: str,
        query: Query,
        record_filter: RecordFilter,
        ends: float | None = None,
    ) -> _FoundRecords:
        """Parse the question and read the records that match it by words or by vector."""
        text_count = sum(row.live for row in reader.tally() if row.scope != SYSTEM)
        question = parse_question(text, speakers=self._list_speakers(reader, text_count), now=self._clock.now().date())
        corpus = CorpusStatistics(text_count, reader.frequency(question.terms))
        texts_with_word = {  # a word of several tokens is as rare as its rarest token
            word: min((corpus.texts_with_term.get(term, 0) for term in terms_from_words([word])), default=0)
            for word in question.words
        }
        words = select_terms(question.words, texts_with_word, text_count)
        any_of, together = " ".join((*words.any_of, *question.phrases)), " ".join(words.together)

        def match_words(limit: int) -> Sequence[Match]:
            return reader.match_text(any_of, replace(query, limit=limit), together=together, ranks_only=True)

        matches = _match_accepted(match_words, _TEXT_CANDIDATES, record_filter)
        records = {match.record.seq: match.record for match in matches}
        cosines: dict[int, float] = {}
        cosine_range = None
        if model:
            try:
                vector, cosine_range = finish_by(
                    ends, lambda: (self.index.question_vector(question.for_vector or text), self.index.cosine_range)
                )
            except StoreUnavailable as error:
                raise EmbedderFailed(error.message, hint=error.hint) from error

            def match_meaning(limit: int) -> Sequence[Match]:
                return reader.match_vector(model, vector, replace(query, limit=limit))

            for match in _match_accepted(match_meaning, _VECTOR_CANDIDATES, record_filter):
                records[match.record.seq] = match.record
                cosines[match.record.seq] = match.score
            cosines |= reader.cosines(model, vector, [seq for seq in records if seq not in cosines])
        records = {seq: record for seq, record in records.items() if record.scope != SYSTEM}
        adjacent = reader.adjacent_turns(records.values(), "session")
        texts = reader.texts_at(
            {seq for turns in adjacent.values() for seq in turns if seq is not None} - records.keys()
        )
        texts |= {seq: record.text for seq, record in records.items()}
        return _FoundRecords(question, corpus, records, cosines, adjacent, texts, cosine_range)

    def _list_speakers(self, reader: Reader, text_count: int) -> list[str]:
        """List who wrote and spoke lately; the names are read again when the store has grown or shrunk by a tenth."""
        with self._lock:
            if not self._texts_when_listed or not 0.9 * text_count <= self._texts_when_listed <= 1.1 * text_count:
                recent = reader.read(Query(newest_first=True, limit=_RECENT_SPEAKERS))
                names = (*reader.authors(_RECENT_RECORDS), *(record.speaker for record in recent))
                self._speakers.update(dict.fromkeys(filter(None, names)))
                self._texts_when_listed = text_count
            return list(self._speakers)

    def reembed(self, embedder: str, progress: Progress | None = None) -> str:
        """Change the store's embedder; the old vectors serve until all new ones are computed.

        Args:
            embedder: The name of the embedder, such as ``static`` or ``minilm``.
            progress: Called with the work done and the total.

        Example:
            memory.recall.reembed("hash")
        """
        return self.index.reembed(embedder, progress).name


def _match_accepted(
    match: Callable[[int], Sequence[Match]], limit: int, record_filter: RecordFilter
) -> Sequence[Match]:
    """Return the best matches that a filter accepts; if it accepts few of the best, more are looked at."""
    if record_filter.is_empty:
        return match(limit)
    for factor in _FILTER_FACTORS:
        matches = match(factor * limit)
        accepted = [found for found in matches if record_filter.accepts(found.record)]
        if len(accepted) >= limit or len(matches) < factor * limit:
            break
    return accepted[:limit]


def _build_candidates(found: _FoundRecords, source_trust: SourceTrust) -> list[RecallCandidate]:
    """Return the candidates for the ranking. Long texts are cut, so that neither their length nor their number costs much time."""
    lengths = [len(record.text) for record in found.records.values()]
    if sum(lengths) > _MAX_COMPARED_IN_ALL:
        lengths = [min(length, MAX_COMPARED_LENGTH) for length in lengths]
    length = MAX_COMPARED_LENGTH if sum(lengths) <= _MAX_COMPARED_IN_ALL else _MAX_COMPARED_IN_ALL // len(lengths)
    texts: dict[Any, str] = dict(found.texts)
    for seq, text in found.texts.items():
        if len(text) > length:
            texts[seq] = _select_part(text, found.question.terms, length)
    cosines: Mapping[Any, float] = found.cosines
    links, no_links = _links_between(found.records), frozenset[int]()
    seqs, records = list(found.records), list(found.records.values())
    adjacent = [found.adjacent_turns.get(seq, _NO_ADJACENT_TURNS) for seq in seqs]
    befores = [texts.get(before) for before, _ in adjacent]
    by_labels = {record.labels: record for record in records}  # the turns of a session share theirs
    session_by_labels = {labels: record.label("session") for labels, record in by_labels.items()}
    columns: dict[str, Sequence[Any]] = {
        "seq": seqs,
        "text": [texts[seq] for seq in seqs],
        "author": [record.author for record in records],
        "speaker": [record.speaker if record.body else record.author for record in records],
        "moment": [record.happened_at or record.recorded_at for record in records],
        "session": [session_by_labels[record.labels] for record in records],
        "before": befores,
        "after": [texts.get(after) for _, after in adjacent],
        "cosine": [cosines.get(seq) for seq in seqs],
        "tier": [1.0 if _CANON_LABEL in record.labels else 0.0 for record in records],
        "trust": source_trust.trust_signals(records),
        "links": [links.get(seq, no_links) for seq in seqs],
        "asked_cosine": [
            cosines.get(before) if text and asks_something(text) else None
            for (before, _), text in zip(adjacent, befores, strict=True)
        ],
    }
    rows = zip(*(columns[name] for name in RecallCandidate._fields), strict=True)
    return list(map(tuple.__new__, repeat(RecallCandidate), rows))  # there are hundreds, and nothing is faster


def _select_part(text: str, terms: Sequence[str], length: int) -> str:
    """Return the part of a long text to compare: its beginning, and a passage around the first further match of each term."""
    if len(text) <= length:
        return text
    lowered, head = text.lower(), length // 2
    parts = [text[:head]]
    for term in terms[: head // MAX_WHOLE_LENGTH]:
        if (offset := lowered.find(term, head)) >= 0:
            start = max(head, offset - MAX_WHOLE_LENGTH // 2)
            parts.append(text[start : start + MAX_WHOLE_LENGTH])
    return "\n".join(dict.fromkeys(parts))


def _links_between(records: Mapping[int, Record]) -> dict[int, frozenset[int]]:
    """Return for each record the other records it is linked with, in either direction."""
    if not any(record.links for record in records.values()):
        return {}
    seq_by_key = {record.key: seq for seq, record in records.items()}
    linked: dict[int, set[int]] = {}
    for seq, record in records.items():
        for link in record.links:
            other = seq_by_key.get(link.to)
            if other is not None and other != seq:
                linked.setdefault(seq, set()).add(other)
                linked.setdefault(other, set()).add(seq)
    return {seq: frozenset(others) for seq, others in linked.items()}


def build_prompt_block(result: RecallResult, budget: int = 1_000) -> PromptBlock:
    """Format the hits for a prompt: fenced, with source and age, within a budget of tokens.

    A superseded hit names the record that supersedes it, and one that contradicts a more trusted record names that record.
    The last line names the records that were left out. A hit that gives unconfirmed orders says so; a prompt that
    nobody asked for is built of ``result.without_orders()``.
    """
    from lukasa.models.token_counter import open_token_counter
    from lukasa.recall.prompt import PromptItem, build_fenced_block

    items = [
        PromptItem(
            hit.record.text[: _CHARACTERS_PER_TOKEN * max(budget, 0) + 1],
            str(hit.record.key),
            hit.record.speaker if writer in ("", hit.record.speaker) else f"{hit.record.speaker}, written by {writer}",
            to_iso(stated_at(hit.record))[:16],
            "" if hit.trust is None else f"{hit.trust:.2f}",
            "" if result.asked_at is None else describe_freshness(hit.record, result.asked_at),
            hit.describe_disagreement(with_keys=True),
            bool(hit.orders),
        )
        for hit in result.hits
        for writer in [hit.record.author]
    ]
    closing = describe_left_out(*split_by_reason(result.left_out))
    return build_fenced_block(items, budget=budget, counter=open_token_counter(), closing=closing)


class SourceTrust:
    """The trust in the records of one recall.

    Where other authors have been judged, an author who has not been judged and wrote more than half of the candidates is
    discounted, the more of them the more: such an author was not nearest to the question by luck alone.
    """

    def __init__(self, journal: Journal, records: Mapping[int, Record], trust_provider: TrustProvider | None) -> None:
        self._journal = journal
        self._trust_provider = trust_provider
        self._records = records
        counts = Counter([record.author for record in records.values() if record.author])
        self._authors_asked = set(counts)
        self._trust_by_author = dict(trust_provider(counts)) if counts and trust_provider is not None else {}
        self._discounts: dict[str, float] = {}  # 0 at the largest share of an author, 1 at all candidates
        if self._trust_by_author and len(counts) > 2:
            self._discounts = {
                author: (count / len(self._records) - MAX_AUTHOR_SHARE) / (1 - MAX_AUTHOR_SHARE)
                for author, count in counts.items()
                if count > MAX_AUTHOR_SHARE * len(self._records)
            }
        self._lookups_left = MAX_LOOKUPS
        self._capped_trust: dict[int, float] = {}
        self._has_effect = bool(self._trust_by_author) or any(
            _source_keys(record) for record in records.values() if record.links
        )

    def author_trust(self, record: Record) -> float | None:
        """Return the trust in a record's author; ``None`` for the owner, who is not judged."""
        if not record.author or self._trust_provider is None:
            return None
        initial = self._trust_provider.initial
        return self._trust_by_author.get(record.author, initial * (1 - self._discounts.get(record.author, 0.0)))

    def trust_signals(self, records: Sequence[Record]) -> list[float]:
        """Return the trust in the records' authors as values to rank by; 0 where trust has no effect on the ranking."""
        if not self._has_effect or self._trust_provider is None:
            return [0.0] * len(records)
        initial = self._trust_provider.initial
        return [initial if (found := self.author_trust(record)) is None else found for record in records]

    def displayed_trust(self, record: Record) -> float | None:
        """Return the trust to show for a hit: that in its author, or in its sources if it is lower."""
        return self._capped_trust.get(record.seq, self.author_trust(record))

    def cap_by_sources(self, hits: Sequence[RankedCandidate], k: int) -> list[RankedCandidate]:
        """Reorder hits so that each of the best ``k`` is trusted no more than its sources."""
        if self._trust_provider is None or not any(
            _source_keys(self._records[hit.candidate.seq]) for hit in hits[: 4 * k]
        ):
            return list(hits)
        ordered = [hit for hit in hits if hit.repeats is None]
        repeated = [hit for hit in hits if hit.repeats is not None]
        done: set[int] = set()
        while pending := [index for index, hit in enumerate(ordered[:k]) if hit.candidate.seq not in done]:
            for index in pending:
                hit = ordered[index]
                done.add(hit.candidate.seq)
                record = self._records[hit.candidate.seq]
                if _source_keys(record):
                    own, lowest = self.author_trust(record), min(self._list_source_trust(record), default=1.0)
                    if own is None or lowest < own:
                        self._capped_trust[record.seq] = lowest
                    ordered[index] = with_trust(hit, min(lowest, hit.candidate.trust))
            ordered.sort(key=lambda hit: -hit.score)
        return [*ordered, *repeated]

    def _list_source_trust(self, record: Record) -> list[float]:
        """List the trust in everything a record was derived from, within the limits of lookups."""
        assert self._trust_provider is not None
        found: list[float] = []
        pending = [(key, record) for key in _source_keys(record)]
        seen: set[tuple[Key, int | None]] = {(record.key, None)}
        lookups = 0
        while pending:
            key, derived = pending.pop(0)
            version = derived.version - 1 if key == derived.key else None  # kept content of the version before
            if (key, version) in seen:
                continue
            seen.add((key, version))
            source = None
            if self._lookups_left and lookups < MAX_SOURCES_PER_HIT:
                self._lookups_left, lookups = self._lookups_left - 1, lookups + 1
                source = self._journal.get(key, version=version)
            if source is None:
                found.append(self._trust_provider.initial)
                continue
            if name := source.author:
                if name not in self._authors_asked:
                    self._authors_asked.add(name)
                    self._trust_by_author |= self._trust_provider((name,))
                found.append(self._trust_by_author.get(name, self._trust_provider.initial))
            pending += [(key, source) for key in _source_keys(source)]
        return found


def _source_keys(record: Record) -> list[Key]:
    return [link.to for link in record.links if link.relation == DERIVED_FROM]
