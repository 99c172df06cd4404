"""Keeping what is known, linking it, and following the links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lukasa.clock import Clock, IdMaker, to_iso
from lukasa.engine import Neighbour, Query, Reader
from lukasa.journal import Journal
from lukasa.knowledge.duplicates import duplicates
from lukasa.knowledge.items import (
    ANTIPATTERN,
    FACT,
    INVERSE,
    KINDS,
    MOST_SOURCES,
    PATTERN,
    RELATIONS,
    SUPERSEDED_BY,
    SUPERSEDES,
    Knowing,
    antipattern_draft,
    fact_draft,
    links_in,
    pattern_draft,
)
from lukasa.naming import find, free_ids
from lukasa.outcome import Outcome, Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, redraft
from lukasa.scope import SHARED

PREFIX = {PATTERN: "sem-", ANTIPATTERN: "anti-", FACT: "fact-"}
LEARNING = "learning"
LINKABLE = (*KINDS, "episode", "skill")
_MAKERS: Mapping[str, Callable[..., Draft | Refused]] = {
    PATTERN: pattern_draft,
    ANTIPATTERN: antipattern_draft,
    FACT: fact_draft,
}
_FARTHEST = 12

Ref = str | Key
"""What a caller names a record by: its id, or its whole key where several scopes have that id."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two records that cannot both hold, or a link that leads nowhere."""

    kind: Literal["contradicts", "supersedes_each_other", "dangling"]
    a: Key
    b: Key
    relation: str


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging did, or would do: which patterns went into which, and the label that takes it back."""

    into: Mapping[str, tuple[str, ...]]
    label: str = ""


class Knowledge:
    """What is known, for one caller."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id

    # Keeping

    def add_pattern(self, pattern: str, *, id: str = "", scope: str = SHARED, **fields: Any) -> Outcome:
        """Keeps a pattern. ``fields`` are the document's: category, conditions, correct_approach, confidence, …"""
        return self.add(PATTERN, {"pattern": pattern, **fields}, id=id, scope=scope)

    def add_antipattern(
        self, what_fails: str, *, why: str = "", prevention: str = "", id: str = "", scope: str = SHARED, **fields: Any
    ) -> Outcome:
        """Keeps what fails, why, and how to prevent it."""
        told = {"what_fails": what_fails, "why": why, "prevention": prevention, **fields}
        return self.add(ANTIPATTERN, told, id=id, scope=scope)

    def add_fact(self, fact: str, *, id: str = "", scope: str = SHARED, **fields: Any) -> Outcome:
        """Keeps something that is so."""
        return self.add(FACT, {"fact": fact, **fields}, id=id, scope=scope)

    def add(
        self,
        kind: str,
        told: Mapping[str, Any],
        *,
        id: str = "",
        scope: str = SHARED,
        origin: str = "manual",
        labels: tuple[str, ...] = (),
    ) -> Outcome:
        """Keeps an item spelled as its document does. With an id it replaces what stood there.

        Links that it spells out may lead to what is not there yet; where it spells none, those it had stay.
        """
        if kind not in KINDS:
            return Refused("bad_kind", f"{kind!r:.60} is not knowledge; say one of {', '.join(KINDS)}.")

        def one(reader: Reader) -> Sequence[Draft] | Refused:
            known = reader.get(Key(scope, kind, id)) if id else None
            name = id or next(free_ids(reader, kind, PREFIX[kind], scope))
            links = links_in(told, scope)
            if isinstance(links, Refused):
                return links
            if known is not None and "links" not in told:
                links = [link for link in known.links if link.relation != DERIVED_FROM]
            draft = _MAKERS[kind](told, scope=scope, id=name, links=links, labels=labels, origin=origin)
            if isinstance(draft, Refused):
                return draft
            return [] if known is not None and (known.body, known.links) == (draft.body, draft.links) else [draft]

        return self._journal.decide(one)

    def use(self, ref: Ref) -> Outcome:
        """Counts one use of an item, now."""

        def count(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find(reader, ref, KINDS)
            if record is None:
                return _missing(ref)
            used = Knowing(record).usage_count + 1
            body = {**record.body, "usage_count": used, "last_used": to_iso(self._clock.now())}
            return [redraft(record, body=body, expected=record.version)]

        return self._journal.decide(count)

    # Finding

    def get(self, ref: Ref) -> Knowing | None:
        with self._journal.looking() as reader:
            record = self._find(reader, ref, KINDS)
        return None if record is None else Knowing(record)

    def patterns(self, *, superseded: bool = False, category: str | None = None) -> list[Knowing]:
        """Patterns in the order they came; those that were superseded only when asked for."""
        return self._all((PATTERN,), superseded, category)

    def antipatterns(self, *, superseded: bool = False) -> list[Knowing]:
        return self._all((ANTIPATTERN,), superseded, None)

    def facts(self, *, superseded: bool = False) -> list[Knowing]:
        return self._all((FACT,), superseded, None)

    def learnings(self, day: str | None = None) -> list[Mapping[str, Any]]:
        """What the errors of a day, or of all days, taught: date, error, message, learning, episodes."""
        labels = () if day is None else (f"day={day}",)
        found = [record.body for record in self._journal.read(Query(kinds=(LEARNING,), labels=labels))]
        return sorted(found, key=lambda body: (str(body.get("date", "")), str(body.get("error", ""))))

    def _all(self, kinds: tuple[str, ...], superseded: bool, category: str | None) -> list[Knowing]:
        labels = () if category is None else (f"category={category}",)
        found = [Knowing(record) for record in self._journal.read(Query(kinds=kinds, labels=labels))]
        living = [item for item in found if superseded or item.superseded_by is None]
        return sorted(living, key=lambda item: (item.record.created_at, item.id))

    # Linking

    def link(self, a: Ref, relation: str, b: Ref) -> Outcome:
        """Draws a link from ``a`` to ``b``; where the relation has an inverse, ``b`` gets that in the same step."""
        return self._tie(a, relation, b, draw=True)

    def unlink(self, a: Ref, relation: str, b: Ref) -> Outcome:
        """Takes a link away, and its inverse."""
        return self._tie(a, relation, b, draw=False)

    def _tie(self, a: Ref, relation: str, b: Ref, *, draw: bool) -> Outcome:
        if relation not in RELATIONS:
            return Refused("bad_relation", f"{relation!r:.60} is not a relation; say one of {', '.join(RELATIONS)}.")

        def tie(reader: Reader) -> Sequence[Draft] | Refused:
            ends = [self._find(reader, ref, LINKABLE) for ref in (a, b)]
            for ref, end in zip((a, b), ends, strict=True):
                if end is None:
                    return _missing(ref)
            one, other = (end for end in ends if end is not None)
            if one.key == other.key:
                return Refused("bad_link", "A record cannot be linked to itself.")
            inverse = INVERSE.get(relation)
            opposite = Link(inverse, other.key) if relation in (SUPERSEDES, SUPERSEDED_BY) and inverse else None
            if draw and opposite in one.links:
                return Refused(
                    "contradictory_link", f"{one.id} is already linked to {other.id} as {inverse}; unlink that first."
                )
            drafts = _relinked(one, Link(relation, other.key), draw=draw)
            return drafts + (_relinked(other, Link(inverse, one.key), draw=draw) if inverse else [])

        return self._journal.decide(tie)

    def neighbours(self, ref: Ref, relation: str | None = None) -> list[Neighbour]:
        """Links that leave or reach a record."""
        with self._journal.looking() as reader:
            record = self._find(reader, ref, LINKABLE)
            found = [] if record is None else reader.neighbours(record.key, relation)
        return [one for one in found if one.key.kind in LINKABLE]

    def path(self, a: Ref, b: Ref) -> list[Key]:
        """The shortest way from one record to another along links in either direction; empty if there is none."""
        with self._journal.looking() as reader:
            start, goal = self._find(reader, a, LINKABLE), self._find(reader, b, LINKABLE)
            if start is None or goal is None:
                return []
            came: dict[Key, Key | None] = {start.key: None}
            frontier = deque([(start.key, 0)])
            while frontier and goal.key not in came:
                here, steps = frontier.popleft()
                for one in reader.neighbours(here) if steps < _FARTHEST else ():
                    if one.key not in came and one.key.kind in LINKABLE and reader.get(one.key) is not None:
                        came[one.key] = here
                        frontier.append((one.key, steps + 1))
        return _walked(came, goal.key)

    def contradictions(self) -> list[Contradiction]:
        """Records that contradict each other, that supersede each other, and links that lead nowhere."""
        found: dict[Contradiction, None] = {}
        items = [record for kind in KINDS for record in self._journal.read(Query(kinds=(kind,)))]
        for record in items:
            tied = {(link.relation, link.to) for link in record.links}
            for link in record.links:
                a, b = sorted((record.key, link.to))
                if link.relation == "contradicts":
                    found[Contradiction("contradicts", a, b, link.relation)] = None
                if link.relation == SUPERSEDES and (SUPERSEDED_BY, link.to) in tied:
                    found[Contradiction("supersedes_each_other", a, b, link.relation)] = None
        with self._journal.looking() as reader:
            for record in items:
                for link in record.links:
                    if self._journal.reach.reads(link.to.scope) and reader.get(link.to) is None:
                        found[Contradiction("dangling", record.key, link.to, link.relation)] = None
        return list(found)

    # Merging

    def merge_duplicates(self, threshold: float = 0.9, *, dry_run: bool = False) -> Merged | Refused:
        """Merges patterns that say the same: the most confident stays, takes over sources and use, supersedes the rest.

        One batch under one label; ``journal.undo(label=…)`` takes it back. Nothing is deleted.
        """
        if not 0 < threshold <= 1:
            return Refused("bad_threshold", "The threshold is a similarity: more than 0, at most 1.")
        label = f"run={self._new_id()}"
        into: dict[str, tuple[str, ...]] = {}

        def merge(reader: Reader) -> Sequence[Draft]:
            into.clear()
            drafts: list[Draft] = []
            by_scope: dict[str, list[Knowing]] = {}
            for record in reader.read(Query(kinds=(PATTERN,))):
                item = Knowing(record)
                if item.superseded_by is None and self._journal.reach.writes(record.scope):
                    by_scope.setdefault(record.scope, []).append(item)
            for items in by_scope.values():
                for group in duplicates(items, threshold):
                    into[group.primary.id] = tuple(other.id for other in group.others)
                    drafts += _merged(group.primary, group.others, label)
            return [] if dry_run else drafts

        outcome = self._journal.decide(merge)
        if isinstance(outcome, Refused):
            return outcome
        return Merged(dict(into), label if into and not dry_run else "")

    def _find(self, reader: Reader, ref: Ref, kinds: Sequence[str]) -> Record | None:
        if isinstance(ref, Key):
            return reader.get(ref)
        return find(reader, kinds, ref, own=self._journal.author)


def _relinked(record: Record, link: Link, *, draw: bool) -> list[Draft]:
    """The record with a link more or less; nothing if that is how it stands."""
    if (link in record.links) is draw:
        return []
    links = (*record.links, link) if draw else tuple(other for other in record.links if other != link)
    return [redraft(record, links=links, expected=record.version)]


def _merged(primary: Knowing, others: Sequence[Knowing], label: str) -> list[Draft]:
    """The pattern that stays, with the sources and the use of the others, and each of them pointing at it."""
    record = primary.record
    sources = dict.fromkeys(record.body.get("source_episodes", []))
    links = dict.fromkeys(record.links)
    used, last = primary.usage_count, [item.last_used for item in (primary, *others) if item.last_used is not None]
    for other in others:
        sources.update(dict.fromkeys(other.record.body.get("source_episodes", [])))
        links.update(dict.fromkeys(link for link in other.record.links if link.relation == DERIVED_FROM))
        links[Link(SUPERSEDES, other.record.key)] = None
        used += other.usage_count
    drawn = [link for link in links if link.relation == DERIVED_FROM][-MOST_SOURCES:]
    tied = [link for link in links if link.relation != DERIVED_FROM]
    body = {**record.body, "source_episodes": list(sources)[-MOST_SOURCES:], "usage_count": used}
    if last:
        body["last_used"] = to_iso(max(last))
    drafts = [
        redraft(
            record, body=body, links=(*drawn, *tied), labels=_labelled(record, label), origin="consolidation",
            expected=record.version,
        )
    ]  # fmt: skip
    for other in others:
        away = (*other.record.links, Link(SUPERSEDED_BY, record.key))
        drafts.append(
            redraft(
                other.record, links=away, labels=_labelled(other.record, label), origin="consolidation",
                expected=other.record.version,
            )
        )  # fmt: skip
    return drafts


def _labelled(record: Record, label: str) -> tuple[str, ...]:
    return (*(old for old in record.labels if not old.startswith("run=")), label)


def _walked(came: Mapping[Key, Key | None], goal: Key) -> list[Key]:
    way: list[Key] = []
    here: Key | None = goal if goal in came else None
    while here is not None:
        way.append(here)
        here = came[here]
    return way[::-1]


def _missing(ref: Ref) -> Refused:
    return Refused("not_found", f"Nothing is known as {str(ref)!r:.80}.")
