"""Recalling: one question over everything a caller may see, answered with the reasons."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from lukasa.clock import Clock, aware, to_iso
from lukasa.engine import AsOf, Progress, Query, Reader
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import Journal
from lukasa.prompt import Block, Told, fence, open_counter
from lukasa.recall.asking import asking
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
_BY_WORDS = 150
_BY_MEANING = 300
_LATELY = 2_000
_LONGEST_QUESTION = 20_000
_TIERS = {"tier=canon": 1.0}
_ALONE = (None, None)


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


class _Found(NamedTuple):
    """What is to be ranked."""

    question: Question
    corpus: Corpus
    records: dict[int, Record]
    cosines: dict[int, float]


class Recall:
    """Answers questions for one caller. Call it: ``memory.recall("When is the release?")``."""

    def __init__(self, journal: Journal, index: Index, clock: Clock, believing: Believing | None = None) -> None:
        self._journal = journal
        self._believing = believing
        self._clock = clock
        self._speakers: dict[str, None] = {}
        self._learnt = 0
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
            model, note = self.index.embedder.name, self.index.outdated
        except MissingExtra as error:
            note = f"{error.message} Found by words alone."
        text = question[:_LONGEST_QUESTION]
        if not text.strip():
            return Recalled(understand(text), (), unindexed=unindexed, note="The question is empty.")
        with self._journal.looking() as look:
            found = self._found(look, text, model, wanted)
        trusted = Trusted(self._journal, found.records.values(), self._believing)  # it has looks of its own
        with self._journal.looking() as look:
            ranked = self._ranked(look, found, trusted)
        best = shared_out(trusted.vetted(ranked, k), k)
        records = found.records
        hits = tuple(Recollection(records[h.candidate.seq], h, trusted.shown(records[h.candidate.seq])) for h in best)
        return Recalled(found.question, hits[:k], hits[k:], unindexed, note)

    def _found(self, look: Reader, text: str, model: str, wanted: Query) -> _Found:
        """The question, and the records that words or meaning propose, with how near each is in meaning."""
        texts = _texts(look)
        asked = understand(text, speakers=self._known(look, texts), now=self._clock.now().date())
        corpus = Corpus(texts, look.frequency(asked.terms))
        records: dict[int, Record] = {}
        cosines: dict[int, float] = {}
        if words := asking(asked.words, _holding(asked.words, corpus), texts):
            question = " ".join((*words.any_of, *asked.phrases))
            matches = look.match_text(question, _limited(wanted, _BY_WORDS), together=" ".join(words.together))
            records = {match.record.seq: match.record for match in matches}
        if model:
            vector = self.index.vector(asked.for_vector or text)
            for match in look.match_vector(model, vector, _limited(wanted, _BY_MEANING)):
                records[match.record.seq] = match.record
                cosines[match.record.seq] = match.score
            cosines |= look.closeness(model, vector, [seq for seq in records if seq not in cosines])
        visible = {seq: record for seq, record in records.items() if record.scope != SYSTEM}
        return _Found(asked, corpus, visible, cosines)

    def _known(self, look: Reader, texts: int) -> list[str]:
        """Those who speak here: the authors of late, asked for anew when the store has changed by a tenth."""
        with self._guard:
            if not self._learnt or not 0.9 * texts <= self._learnt <= 1.1 * texts:
                self._speakers.update(dict.fromkeys(look.authors(_LATELY)))
                self._learnt = texts
            return list(self._speakers)

    def _ranked(self, look: Reader, found: _Found, trusted: Trusted) -> list[Hit]:
        records = found.records
        beside = look.beside(records.values())
        near = {seq for sides in beside.values() for seq in sides if seq is not None and seq not in records}
        texts = look.texts(near) | {seq: record.text for seq, record in records.items()}

        def text_at(seq: int | None) -> str | None:
            return None if seq is None else texts.get(seq)

        arrows = _arrows(records)
        candidates = []
        for seq, record in records.items():
            before, after = beside.get(seq, _ALONE)
            candidate = _candidate(
                record, text_at(before), text_at(after), found.cosines.get(seq), trusted.signal(record)
            )
            candidates.append(replace(candidate, links=arrows[seq]) if seq in arrows else candidate)
        return rank(found.question, candidates, found.corpus)

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


def _holding(words: Iterable[str], corpus: Corpus) -> dict[str, int]:
    """In how many texts each word stands; one of several tokens stands where its rarest does."""
    return {word: min((corpus.holding.get(term, 0) for term in terms_of([word])), default=0) for word in words}


def _arrows(records: Mapping[int, Record]) -> dict[int, frozenset[int]]:
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


def _candidate(record: Record, before: str | None, after: str | None, cosine: float | None, trust: float) -> Candidate:
    return Candidate(
        seq=record.seq,
        text=record.text,
        author=record.author,
        moment=record.moment,
        session=record.label("session"),
        before=before,
        after=after,
        cosine=cosine,
        tier=max([_TIERS.get(label, 0.0) for label in record.labels], default=0.0),
        trust=trust,
    )
