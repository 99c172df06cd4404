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

from lukasa.experience.consolidation.similarity import (
    MIN_CLUSTER_SIMILARITY,
    EpisodeError,
    EpisodeTraits,
    episode_similarity,
    goal_pair_keys,
)
from lukasa.experience.knowledge_items import MAX_SOURCES
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.storage.engine import Query, Reader

CLUSTER = "cluster"
_MAX_PER_KEY = 40
_MAX_COMPARED = 12


@dataclass(slots=True)
class EpisodeCluster:
    """A leader, and those like it. ``record`` is how it stands in the log, if it does."""

    leader: EpisodeTraits
    members: dict[Key, EpisodeTraits | None]
    pattern: str = ""
    record: Record | None = None
    is_changed: bool = False

    @property
    def id(self) -> str:
        return self.leader.key.id

    def add_member(self, member: EpisodeTraits) -> None:
        self.members[member.key] = member
        self.is_changed = True

    def to_draft(self, scope: str, label: str) -> Draft:
        links = dict.fromkeys((self.leader.key, *self.members))
        body = {
            "goal": self.leader.goal,
            "terms": sorted(self.leader.terms),
            "actions": list(self.leader.actions),
            "errors": sorted({trouble.type for trouble in self.leader.errors}),
            "members": [key.id for key in self.members],
        }
        if self.pattern:
            body["pattern"] = self.pattern
        return Draft(
            CLUSTER, body=body, id=self.id, scope=scope, origin="consolidation",
            labels=(label, *(f"like={mark}" for mark in goal_pair_keys(self.leader.terms))),
            links=tuple(Link(DERIVED_FROM, key) for key in links),
            expected=0 if self.record is None else self.record.version,
        )  # fmt: skip


def parse_cluster(record: Record, leader: EpisodeTraits) -> EpisodeCluster:
    """The cluster that a record keeps, with members that are not looked up yet."""
    scope = record.scope
    members: dict[Key, EpisodeTraits | None] = {Key(scope, "episode", id): None for id in record.body["members"]}
    return EpisodeCluster(leader, members, str(record.body.get("pattern", "")), record)


class ClusterIndex(Protocol):
    """Where clusters stand by their marks."""

    def find_by_key(self, pair_key: str) -> Iterable[EpisodeCluster]: ...


@dataclass(slots=True)
class MemoryClusterIndex:
    """Every cluster of a scope at hand: for many new episodes."""

    by_key: dict[str, list[EpisodeCluster]] = field(default_factory=dict)

    def add(self, cluster: EpisodeCluster) -> None:
        for mark in goal_pair_keys(cluster.leader.terms):
            shelf = self.by_key.setdefault(mark, [])
            if len(shelf) < _MAX_PER_KEY:
                shelf.append(cluster)

    def find_by_key(self, pair_key: str) -> Iterable[EpisodeCluster]:
        return self.by_key.get(pair_key, ())


class StoreClusterIndex:
    """Clusters looked up in the store mark by mark: for a few new episodes."""

    def __init__(self, reader: Reader, scope: str, clusters: dict[str, EpisodeCluster]) -> None:
        self._reader = reader
        self._scope = scope
        self._clusters = clusters
        self._by_key: dict[str, list[EpisodeCluster]] = {}

    def find_by_key(self, pair_key: str) -> Iterable[EpisodeCluster]:
        if pair_key not in self._by_key:
            wanted = Query(kinds=(CLUSTER,), scopes=(self._scope,), labels=(f"like={pair_key}",), limit=_MAX_PER_KEY)
            self._by_key[pair_key] = [self._load_cluster(record) for record in self._reader.read(wanted)]
        return self._by_key[pair_key]

    def _load_cluster(self, record: Record) -> EpisodeCluster:
        if record.id not in self._clusters:
            self._clusters[record.id] = parse_cluster(record, parse_leader(record))
        return self._clusters[record.id]


def parse_leader(record: Record) -> EpisodeTraits:
    """The leader as its cluster's record remembers it: all that likeness needs."""
    body: Any = record.body
    return EpisodeTraits(
        key=Key(record.scope, "episode", record.id), seq=record.seq, moment=record.moment, day="", goal=body["goal"],
        terms=frozenset(body["terms"]), actions=tuple(body["actions"]),
        errors=tuple(EpisodeError(type, "", "") for type in body["errors"]), conditions=(), suffixes=(), phase="",
        outcome=0, author="", is_suspicious=False,
    )  # fmt: skip


def find_cluster(episode: EpisodeTraits, indexes: Iterable[ClusterIndex]) -> EpisodeCluster | None:
    """The cluster whose leader is most like an episode, if any is like enough; the earlier id on a tie."""
    shared: Counter[str] = Counter()
    found: dict[str, EpisodeCluster] = {}
    for mark in goal_pair_keys(episode.terms):
        for shelf in indexes:
            for cluster in shelf.find_by_key(mark):
                shared[cluster.id] += 1
                found[cluster.id] = cluster
    likely = sorted(shared, key=lambda name: (-shared[name], name))[:_MAX_COMPARED]
    ranked = sorted((-episode_similarity(found[id].leader, episode), id) for id in likely)
    return found[ranked[0][1]] if ranked and -ranked[0][0] >= MIN_CLUSTER_SIMILARITY else None


def newest_members(members: Iterable[EpisodeTraits]) -> list[EpisodeTraits]:
    """The members that a cluster keeps, oldest first."""
    return sorted(members, key=lambda one: (one.moment, one.key.id))[-MAX_SOURCES:]
