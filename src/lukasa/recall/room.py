"""Recalling: one question over everything a caller may see, answered with the reasons."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lukasa.clock import Clock, aware, to_iso
from lukasa.engine import AsOf, Progress, Query, Reader
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import Journal
from lukasa.prompt import Block, Told, fence, open_counter
from lukasa.recall.believing import Believing, Trusted
from lukasa.recall.index import Index
from lukasa.recall.ranking import Hit, Signal, rank, shared_out
from lukasa.recall.signals import Candidate, Corpus
from lukasa.recall.understanding import Question, understand
from lukasa.recall.words import terms_of
from lukasa.record import Record
from lukasa.scope import SYSTEM

PATIENCE = 1.0
"""How many seconds an answer may be held up to make vectors that are missing."""
_BY_WORDS = 300
_BY_MEANING = 300
_FEW = 5_000
_MANY_SPEAKERS = 1_000
_LONGEST_QUESTION = 20_000
_TIERS = {"tier=canon": 1.0}


@dataclass(frozen=True, slots=True)
class Recollection:
    """A record that answers, with its score and the signals that make it up."""

    record: Record
    hit: Hit
    trust: float | None = None
    """How far its author and its sources are trusted; none for the owner's own."""

    @property
    def score(self) -> float:
        return self.hit.score

    @property
    def signals(self) -> tuple[Signal, ...]:
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
class Recalled:
    """What a question brought back, best first. ``unindexed`` texts have no vector yet and were found by words alone."""

    question: Question
    hits: tuple[Recollection, ...]
    dropped: tuple[Recollection, ...] = ()
    unindexed: int = 0
    note: str = ""

    @property
    def records(self) -> list[Record]:
        return [hit.record for hit in self.hits]


class Recall:
    """Answers questions for one caller. Call it: ``memory.recall("When is the release?")``."""

    def __init__(self, journal: Journal, index: Index, clock: Clock, believing: Believing | None = None) -> None:
        self._journal = journal
        self._believing = believing
        self._clock = clock
        self._speakers: dict[str, None] = {}
        self._guard = threading.Lock()
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
        patience: float = PATIENCE,
    ) -> Recalled:
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
            since=None if since is None else aware(since),
            until=None if until is None else aware(until),
            as_of=aware(as_of) if isinstance(as_of, datetime) else as_of,
        )
        unindexed, note, model = 0, "", ""
        try:
            unindexed = self.index.catch_up(patience)
            model = self.index.embedder.name
        except MissingExtra as error:
            note = f"{error.message} Found by words alone."
        text = question[:_LONGEST_QUESTION]
        if not text.strip():
            return Recalled(understand(text), (), unindexed=unindexed, note="The question is empty.")
        with self._journal.looking() as look:
            understood, records, cosines = self._candidates(look, text, model, wanted)
        trusted = Trusted(
            self._journal, records.values(), self._believing
        )  # between two looks: it has looks of its own
        with self._journal.looking() as look:
            ranked = self._ranked(look, understood, records, cosines, trusted)
        best = shared_out(trusted.vetted(ranked, k), k)
        hits = tuple(Recollection(records[h.candidate.seq], h, trusted.shown(records[h.candidate.seq])) for h in best)
        return Recalled(understood, hits[:k], hits[k:], unindexed, note)

    def _candidates(
        self, look: Reader, text: str, model: str, wanted: Query
    ) -> tuple[Question, dict[int, Record], dict[int, float]]:
        """The question, and the records that words or meaning propose, with how near each is in meaning."""
        now = self._clock.now().date()
        asked = understand(text, speakers=self._speakers, now=now)
        found: dict[int, Record] = {}
        if words := self._worth_asking(look, asked):
            matches = look.match_text(" ".join(words), _limited(wanted, _BY_WORDS))
            found = {match.record.seq: match.record for match in matches}
        asked = understand(text, speakers=self._known(found.values()), now=now)
        cosines: dict[int, float] = {}
        if model:
            vector = self.index.vector(asked.for_vector or text)
            for match in look.match_vector(model, vector, _limited(wanted, _BY_MEANING)):
                found[match.record.seq] = match.record
                cosines[match.record.seq] = match.score
            cosines |= look.closeness(model, vector, [seq for seq in found if seq not in cosines])
        self._known(found.values())
        return asked, {seq: record for seq, record in found.items() if record.scope != SYSTEM}, cosines

    def _worth_asking(self, look: Reader, asked: Question) -> list[str]:
        """The words to ask the text index for: all in a small store, the rare ones in a large one."""
        texts = _texts(look)
        if texts <= _FEW or len(asked.words) <= 1:
            return [*asked.words, *asked.phrases]
        by_word = {word: terms_of([word]) for word in asked.words}
        frequency = look.frequency([term for terms in by_word.values() for term in terms])
        rarest = sorted(asked.words, key=lambda word: min((frequency[term] for term in by_word[word]), default=0))
        chosen, matched = list[str](), 0
        for word in rarest:
            matched += min((frequency[term] for term in by_word[word]), default=0)
            if chosen and matched > max(_FEW, texts // 50):
                break
            chosen.append(word)
        return [*chosen, *asked.phrases]

    def _known(self, records: Iterable[Record]) -> list[str]:
        """Those who speak here, as far as they have been met."""
        with self._guard:
            for record in records:
                if record.author and len(self._speakers) < _MANY_SPEAKERS:
                    self._speakers.setdefault(record.author)
            return list(self._speakers)

    def _ranked(
        self, look: Reader, asked: Question, records: dict[int, Record], cosines: dict[int, float], trusted: Trusted
    ) -> list[Hit]:
        beside = look.beside(list(records))
        candidates = [
            _candidate(record, beside.get(seq), cosines.get(seq), trusted.signal(record))
            for seq, record in records.items()
        ]
        corpus = Corpus(_texts(look), look.frequency(asked.terms))
        return rank(asked, candidates, corpus)

    def reembed(self, embedder: str, progress: Progress | None = None) -> str:
        """Changes the store's embedder: makes all vectors anew while the old ones serve, then switches over."""
        return self.index.reembed(embedder, progress).name


def block(recalled: Recalled, budget: int = 1_000) -> Block:
    """The hits as a piece of prompt: fenced, with their sources, within a budget of tokens."""
    told = [
        Told(
            hit.record.text,
            str(hit.record.key),
            hit.record.author,
            to_iso(hit.record.moment)[:16],
            "" if hit.trust is None else f"{hit.trust:.2f}",
        )
        for hit in recalled.hits
    ]
    return fence(told, budget=budget, counter=open_counter())


def _limited(query: Query, limit: int) -> Query:
    return replace(query, limit=limit)


def _texts(look: Reader) -> int:
    return sum(row.live for row in look.tally() if row.scope != SYSTEM)


def _candidate(record: Record, beside: Sequence[Record | None] | None, cosine: float | None, trust: float) -> Candidate:
    before, after = beside or (None, None)
    return Candidate(
        seq=record.seq,
        text=record.text,
        author=record.author,
        moment=record.moment,
        session=record.label("session"),
        before=None if before is None else before.text,
        after=None if after is None else after.text,
        cosine=cosine,
        tier=max((_TIERS.get(label, 0.0) for label in record.labels), default=0.0),
        trust=trust,
    )
