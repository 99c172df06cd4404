"""Keeping what is known, linking it, and following the links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lukasa.clock import Clock, IdMaker, to_iso
from lukasa.experience.knowledge_duplicates import find_duplicate_patterns
from lukasa.experience.knowledge_items import (
    ANTIPATTERN,
    FACT,
    INVERSE_RELATIONS,
    KNOWLEDGE_KINDS,
    MAX_SOURCES,
    PATTERN,
    RELATIONS,
    SUPERSEDED_BY,
    SUPERSEDES,
    KnowledgeItem,
    antipattern_draft,
    fact_draft,
    parse_links,
    pattern_draft,
)
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.readable_ids import find_by_id, free_ids
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.scope import SHARED
from lukasa.storage.engine import Neighbour, Query, Reader

ID_PREFIXES = {PATTERN: "sem-", ANTIPATTERN: "anti-", FACT: "fact-"}
LEARNING = "learning"
LINKABLE_KINDS = (*KNOWLEDGE_KINDS, "episode", "skill")
_DRAFT_BUILDERS: Mapping[str, Callable[..., Draft | Refused]] = {
    PATTERN: pattern_draft,
    ANTIPATTERN: antipattern_draft,
    FACT: fact_draft,
}
_MAX_PATH_LENGTH = 12

KnowledgeRef = str | Key
"""What a caller names a record by: its id, or its whole key where several scopes have that id."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two records that cannot both hold, or a link that leads nowhere."""

    kind: Literal["contradicts", "supersedes_each_other", "dangling"]
    a: Key
    b: Key
    relation: str


@dataclass(frozen=True, slots=True)
class PatternMergeResult:
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
        if kind not in KNOWLEDGE_KINDS:
            return Refused("bad_kind", f"{kind!r:.60} is not knowledge; say one of {', '.join(KNOWLEDGE_KINDS)}.")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            known = reader.get(Key(scope, kind, id)) if id else None
            name = id or next(free_ids(reader, kind, ID_PREFIXES[kind], scope))
            links = parse_links(told, scope)
            if isinstance(links, Refused):
                return links
            if known is not None and "links" not in told:
                links = [link for link in known.links if link.relation != DERIVED_FROM]
            draft = _DRAFT_BUILDERS[kind](told, scope=scope, id=name, links=links, labels=labels, origin=origin)
            if isinstance(draft, Refused):
                return draft
            return [] if known is not None and (known.body, known.links) == (draft.body, draft.links) else [draft]

        return self._journal.append_if(build_drafts)

    def use(self, ref: KnowledgeRef) -> Outcome:
        """Counts one use of an item, now."""

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_record(reader, ref, KNOWLEDGE_KINDS)
            if record is None:
                return _not_found(ref)
            used = KnowledgeItem(record).usage_count + 1
            body = {**record.body, "usage_count": used, "last_used": to_iso(self._clock.now())}
            return [draft_from(record, body=body, expected=record.version)]

        return self._journal.append_if(build_drafts)

    # Finding

    def get(self, ref: KnowledgeRef) -> KnowledgeItem | None:
        with self._journal.snapshot() as reader:
            record = self._find_record(reader, ref, KNOWLEDGE_KINDS)
        return None if record is None else KnowledgeItem(record)

    def patterns(self, *, superseded: bool = False, category: str | None = None) -> list[KnowledgeItem]:
        """Patterns in the order they came; those that were superseded only when asked for."""
        return self._list_items((PATTERN,), superseded, category)

    def antipatterns(self, *, superseded: bool = False) -> list[KnowledgeItem]:
        return self._list_items((ANTIPATTERN,), superseded, None)

    def facts(self, *, superseded: bool = False) -> list[KnowledgeItem]:
        return self._list_items((FACT,), superseded, None)

    def learnings(self, day: str | None = None) -> list[Mapping[str, Any]]:
        """What the errors of a day, or of all days, taught: date, error, message, learning, episodes."""
        labels = () if day is None else (f"day={day}",)
        found = [record.body for record in self._journal.read(Query(kinds=(LEARNING,), labels=labels))]
        return sorted(found, key=lambda body: (str(body.get("date", "")), str(body.get("error", ""))))

    def _list_items(self, kinds: tuple[str, ...], superseded: bool, category: str | None) -> list[KnowledgeItem]:
        labels = () if category is None else (f"category={category}",)
        found = [KnowledgeItem(record) for record in self._journal.read(Query(kinds=kinds, labels=labels))]
        living = [item for item in found if superseded or item.superseded_by is None]
        return sorted(living, key=lambda item: (item.record.created_at, item.id))

    # Linking

    def link(self, a: KnowledgeRef, relation: str, b: KnowledgeRef) -> Outcome:
        """Draws a link from ``a`` to ``b``; where the relation has an inverse, ``b`` gets that in the same step."""
        return self._change_link(a, relation, b, add=True)

    def unlink(self, a: KnowledgeRef, relation: str, b: KnowledgeRef) -> Outcome:
        """Takes a link away, and its inverse."""
        return self._change_link(a, relation, b, add=False)

    def _change_link(self, a: KnowledgeRef, relation: str, b: KnowledgeRef, *, add: bool) -> Outcome:
        if relation not in RELATIONS:
            return Refused("bad_relation", f"{relation!r:.60} is not a relation; say one of {', '.join(RELATIONS)}.")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            ends = [self._find_record(reader, ref, LINKABLE_KINDS) for ref in (a, b)]
            for ref, end in zip((a, b), ends, strict=True):
                if end is None:
                    return _not_found(ref)
            one, other = (end for end in ends if end is not None)
            if one.key == other.key:
                return Refused("bad_link", "A record cannot be linked to itself.")
            inverse = INVERSE_RELATIONS.get(relation)
            opposite = Link(inverse, other.key) if relation in (SUPERSEDES, SUPERSEDED_BY) and inverse else None
            if add and opposite in one.links:
                return Refused(
                    "contradictory_link", f"{one.id} is already linked to {other.id} as {inverse}; unlink that first."
                )
            drafts = _relink_drafts(one, Link(relation, other.key), add=add)
            return drafts + (_relink_drafts(other, Link(inverse, one.key), add=add) if inverse else [])

        return self._journal.append_if(build_drafts)

    def neighbours(self, ref: KnowledgeRef, relation: str | None = None) -> list[Neighbour]:
        """Links that leave or reach a record."""
        with self._journal.snapshot() as reader:
            record = self._find_record(reader, ref, LINKABLE_KINDS)
            found = [] if record is None else reader.neighbours(record.key, relation)
        return [one for one in found if one.key.kind in LINKABLE_KINDS]

    def path(self, a: KnowledgeRef, b: KnowledgeRef) -> list[Key]:
        """The shortest way from one record to another along links in either direction; empty if there is none."""
        with self._journal.snapshot() as reader:
            start, goal = self._find_record(reader, a, LINKABLE_KINDS), self._find_record(reader, b, LINKABLE_KINDS)
            if start is None or goal is None:
                return []
            came: dict[Key, Key | None] = {start.key: None}
            frontier = deque([(start.key, 0)])
            while frontier and goal.key not in came:
                here, steps = frontier.popleft()
                for one in reader.neighbours(here) if steps < _MAX_PATH_LENGTH else ():
                    if one.key not in came and one.key.kind in LINKABLE_KINDS and reader.get(one.key) is not None:
                        came[one.key] = here
                        frontier.append((one.key, steps + 1))
        return _trace_path(came, goal.key)

    def contradictions(self) -> list[Contradiction]:
        """Records that contradict each other, that supersede each other, and links that lead nowhere."""
        found: dict[Contradiction, None] = {}
        items = [record for kind in KNOWLEDGE_KINDS for record in self._journal.read(Query(kinds=(kind,)))]
        for record in items:
            tied = {(link.relation, link.to) for link in record.links}
            for link in record.links:
                a, b = sorted((record.key, link.to))
                if link.relation == "contradicts":
                    found[Contradiction("contradicts", a, b, link.relation)] = None
                if link.relation == SUPERSEDES and (SUPERSEDED_BY, link.to) in tied:
                    found[Contradiction("supersedes_each_other", a, b, link.relation)] = None
        with self._journal.snapshot() as reader:
            for record in items:
                for link in record.links:
                    if self._journal.reach.reads(link.to.scope) and reader.get(link.to) is None:
                        found[Contradiction("dangling", record.key, link.to, link.relation)] = None
        return list(found)

    # Merging

    def merge_duplicates(self, threshold: float = 0.9, *, dry_run: bool = False) -> PatternMergeResult | Refused:
        """Merges patterns that say the same: the most confident stays, takes over sources and use, supersedes the rest.

        One batch under one label; ``journal.undo(label=…)`` takes it back. Nothing is deleted.
        """
        if not 0 < threshold <= 1:
            return Refused("bad_threshold", "The threshold is a similarity: more than 0, at most 1.")
        label = f"run={self._new_id()}"
        into: dict[str, tuple[str, ...]] = {}

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            into.clear()
            drafts: list[Draft] = []
            by_scope: dict[str, list[KnowledgeItem]] = {}
            for record in reader.read(Query(kinds=(PATTERN,))):
                item = KnowledgeItem(record)
                if item.superseded_by is None and self._journal.reach.writes(record.scope):
                    by_scope.setdefault(record.scope, []).append(item)
            for items in by_scope.values():
                for group in find_duplicate_patterns(items, threshold):
                    into[group.primary.id] = tuple(other.id for other in group.others)
                    drafts += _merge_drafts(group.primary, group.others, label)
            return [] if dry_run else drafts

        outcome = self._journal.append_if(build_drafts)
        if isinstance(outcome, Refused):
            return outcome
        return PatternMergeResult(dict(into), label if into and not dry_run else "")

    def _find_record(self, reader: Reader, ref: KnowledgeRef, kinds: Sequence[str]) -> Record | None:
        if isinstance(ref, Key):
            return reader.get(ref)
        return find_by_id(reader, kinds, ref, own_scope=self._journal.author)


def _relink_drafts(record: Record, link: Link, *, add: bool) -> list[Draft]:
    """The record with a link more or less; nothing if that is how it stands."""
    if (link in record.links) is add:
        return []
    links = (*record.links, link) if add else tuple(other for other in record.links if other != link)
    return [draft_from(record, links=links, expected=record.version)]


def _merge_drafts(primary: KnowledgeItem, others: Sequence[KnowledgeItem], label: str) -> list[Draft]:
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
    drawn = [link for link in links if link.relation == DERIVED_FROM][-MAX_SOURCES:]
    tied = [link for link in links if link.relation != DERIVED_FROM]
    body = {**record.body, "source_episodes": list(sources)[-MAX_SOURCES:], "usage_count": used}
    if last:
        body["last_used"] = to_iso(max(last))
    drafts = [
        draft_from(
            record, body=body, links=(*drawn, *tied), labels=_with_run_label(record, label), origin="consolidation",
            expected=record.version,
        )
    ]  # fmt: skip
    for other in others:
        away = (*other.record.links, Link(SUPERSEDED_BY, record.key))
        drafts.append(
            draft_from(
                other.record, links=away, labels=_with_run_label(other.record, label), origin="consolidation",
                expected=other.record.version,
            )
        )  # fmt: skip
    return drafts


def _with_run_label(record: Record, label: str) -> tuple[str, ...]:
    return (*(old for old in record.labels if not old.startswith("run=")), label)


def _trace_path(previous: Mapping[Key, Key | None], goal: Key) -> list[Key]:
    way: list[Key] = []
    here: Key | None = goal if goal in previous else None
    while here is not None:
        way.append(here)
        here = previous[here]
    return way[::-1]


def _not_found(ref: KnowledgeRef) -> Refused:
    return Refused("not_found", f"Nothing is known as {str(ref)!r:.80}.")
