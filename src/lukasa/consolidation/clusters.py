"""Clusters of similar episodes, each led by the first of its kind.

An episode joins the cluster whose leader is most like it, or leads a new one. Episodes come in log order, so the answer
is the same every time, and the same whether they come all at once or run by run. Alike goals find each other by marks
(``traits.marks_of``): as labels on the clusters' records for a few new episodes, in memory for many. So a run costs what
is new, not what is there.

A cluster keeps its newest members up to ``MOST_SOURCES``, and what follows from a cluster follows from those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lukasa.consolidation.traits import TOGETHER, Traits, Trouble, likeness, marks_of
from lukasa.engine import Query, Reader
from lukasa.knowledge.items import MOST_SOURCES
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record

CLUSTER = "cluster"
_PER_MARK = 40
_LOOKED_AT = 12


@dataclass(slots=True)
class Cluster:
    """A leader, and those like it. ``record`` is how it stands in the log, if it does."""

    leader: Traits
    members: dict[Key, Traits | None]
    pattern: str = ""
    record: Record | None = None
    touched: bool = False

    @property
    def id(self) -> str:
        return self.leader.key.id

    def take(self, one: Traits) -> None:
        self.members[one.key] = one
        self.touched = True

    def draft(self, scope: str, label: str) -> Draft:
        links = dict.fromkeys((self.leader.key, *self.members))
        body = {
            "goal": self.leader.goal,
            "terms": sorted(self.leader.terms),
            "actions": list(self.leader.actions),
            "errors": sorted({trouble.type for trouble in self.leader.troubles}),
            "members": [key.id for key in self.members],
        }
        if self.pattern:
            body["pattern"] = self.pattern
        return Draft(
            CLUSTER, body=body, id=self.id, scope=scope, origin="consolidation",
            labels=(label, *(f"like={mark}" for mark in marks_of(self.leader.terms))),
            links=tuple(Link(DERIVED_FROM, key) for key in links),
            expected=0 if self.record is None else self.record.version,
        )  # fmt: skip


def cluster_of(record: Record, leader: Traits) -> Cluster:
    """The cluster that a record keeps, with members that are not looked up yet."""
    scope = record.scope
    members: dict[Key, Traits | None] = {Key(scope, "episode", id): None for id in record.body["members"]}
    return Cluster(leader, members, str(record.body.get("pattern", "")), record)


class Shelf(Protocol):
    """Where clusters stand by their marks."""

    def near(self, mark: str) -> Iterable[Cluster]: ...


@dataclass(slots=True)
class InMemory:
    """Every cluster of a scope at hand: for many new episodes."""

    by_mark: dict[str, list[Cluster]] = field(default_factory=dict)

    def put(self, cluster: Cluster) -> None:
        for mark in marks_of(cluster.leader.terms):
            shelf = self.by_mark.setdefault(mark, [])
            if len(shelf) < _PER_MARK:
                shelf.append(cluster)

    def near(self, mark: str) -> Iterable[Cluster]:
        return self.by_mark.get(mark, ())


class InStore:
    """Clusters looked up in the store mark by mark: for a few new episodes."""

    def __init__(self, reader: Reader, scope: str, known: dict[str, Cluster]) -> None:
        self._reader = reader
        self._scope = scope
        self._known = known
        self._seen: dict[str, list[Cluster]] = {}

    def near(self, mark: str) -> Iterable[Cluster]:
        if mark not in self._seen:
            wanted = Query(kinds=(CLUSTER,), scopes=(self._scope,), labels=(f"like={mark}",), limit=_PER_MARK)
            self._seen[mark] = [self._cluster(record) for record in self._reader.read(wanted)]
        return self._seen[mark]

    def _cluster(self, record: Record) -> Cluster:
        if record.id not in self._known:
            self._known[record.id] = cluster_of(record, leader_in(record))
        return self._known[record.id]


def leader_in(record: Record) -> Traits:
    """The leader as its cluster's record remembers it: all that likeness needs."""
    body: Any = record.body
    return Traits(
        key=Key(record.scope, "episode", record.id), seq=record.seq, moment=record.moment, day="", goal=body["goal"],
        terms=frozenset(body["terms"]), actions=tuple(body["actions"]),
        troubles=tuple(Trouble(type, "", "") for type in body["errors"]), conditions=(), suffixes=(), phase="",
        outcome=0, voice="", suspicious=False,
    )  # fmt: skip


def home_of(one: Traits, shelves: Iterable[Shelf]) -> Cluster | None:
    """The cluster whose leader is most like an episode, if any is like enough; the earlier id on a tie."""
    shared: Counter[str] = Counter()
    found: dict[str, Cluster] = {}
    for mark in marks_of(one.terms):
        for shelf in shelves:
            for cluster in shelf.near(mark):
                shared[cluster.id] += 1
                found[cluster.id] = cluster
    likely = sorted(shared, key=lambda name: (-shared[name], name))[:_LOOKED_AT]
    ranked = sorted((-likeness(found[id].leader, one), id) for id in likely)
    return found[ranked[0][1]] if ranked and -ranked[0][0] >= TOGETHER else None


def newest(members: Iterable[Traits]) -> list[Traits]:
    """The members that a cluster keeps, oldest first."""
    return sorted(members, key=lambda one: (one.moment, one.key.id))[-MOST_SOURCES:]
