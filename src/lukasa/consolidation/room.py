"""A run of consolidation: look at what is new, propose, and write all of it or none.

A run reads the episodes written since the last one, places them into clusters, draws patterns from the clusters it
touched and anti-patterns from the errors it saw, and appends everything in one batch under one label ``run=…``. So it
can be shown before (``dry_run``), taken back after (``journal.undo(label=…)``), and a run that is killed leaves nothing.
It only adds versions; sources are never changed.

Each scope is consolidated by itself: what was drawn from one agent's own episodes stays in its scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lukasa.clock import IdMaker, aware
from lukasa.consolidation.clusters import (
    CLUSTER,
    Cluster,
    InMemory,
    InStore,
    Shelf,
    cluster_of,
    home_of,
    leader_in,
    newest,
)
from lukasa.consolidation.extracting import Extract, extract
from lukasa.consolidation.modelled import Model, Propose, proposing, refined
from lukasa.consolidation.planning import (
    LEARNING,
    ORIGIN,
    Mistake,
    about,
    antipattern_from,
    contradict,
    kept,
    learning_from,
    pattern_from,
    says_the_same,
    skill_from,
    unchanged,
)
from lukasa.consolidation.traits import Traits, marks_of, terms_of, traits_of
from lukasa.engine import Progress, Query, Reader
from lukasa.episodes import EPISODE, Episode
from lukasa.episodes.episode import ARCHIVED
from lukasa.errors import NotAllowed
from lukasa.journal import Journal
from lukasa.knowledge import ANTIPATTERN, PATTERN, Knowing
from lukasa.naming import free_ids
from lukasa.outcome import Conflict, Refused
from lukasa.record import Draft, Key, Link, Record, redraft
from lukasa.scope import SYSTEM

CURSOR = "consolidation"
_CURSOR_ID = "cursor"
_MANY = 1_000
_TRIES = 5
_REMEMBERED = 8
_SIMILAR = 10
_WORTH_MATCHING = 2_000

Action = Literal["new", "updated"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One record that a run wrote or would write: what it says, how sure it is, and where it comes from."""

    action: Action
    draft: Draft

    @property
    def key(self) -> Key:
        return self.draft.key

    @property
    def says(self) -> str:
        body = self.draft.body
        if self.draft.kind == ANTIPATTERN:
            return ": ".join(str(body[name]) for name in ("what_fails", "why", "prevention") if body.get(name))
        return str(body.get("pattern") or body.get("title") or "")

    @property
    def confidence(self) -> float | None:
        return self.draft.body.get("confidence")

    @property
    def voices(self) -> int:
        return int(self.draft.body.get("voices", 0))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(link.to.id for link in self.draft.links if link.relation == "derived_from")


@dataclass(frozen=True, slots=True)
class Held:
    """Something that did not become knowledge, and why."""

    what: str
    why: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What a run did, or with ``dry_run`` would do. ``label`` takes it back: ``journal.undo(label=…)``."""

    proposals: tuple[Proposal, ...]
    held: tuple[Held, ...]
    looked_at: int
    clusters: int
    label: str = ""
    written: int = 0

    def of(self, kind: str) -> list[Proposal]:
        return [proposal for proposal in self.proposals if proposal.draft.kind == kind]


@dataclass(slots=True)
class _Plan:
    drafts: list[Draft] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    looked_at: int = 0
    clusters: int = 0

    def propose(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self.proposals.append(Proposal("updated" if draft.expected else "new", draft))


class Consolidation:
    """Turns episodes into knowledge, for one caller. Call it: ``memory.consolidate()``."""

    def __init__(self, journal: Journal, new_id: IdMaker, model: Model | None = None) -> None:
        self._journal = journal
        self._new_id = new_id
        self._model = model

    def __call__(
        self,
        *,
        since: datetime | None = None,
        everything: bool = False,
        dry_run: bool = False,
        skills: bool = False,
        propose: Propose | None = None,
        progress: Progress | None = None,
    ) -> Consolidated:
        """Looks at the episodes that are new since the last run and writes what follows from them.

        ``since`` looks at those that happened since a time instead, ``everything`` at all of them; what a cluster has
        already is not counted twice. ``skills`` makes skills of what independent authors bear out. ``propose`` words the
        patterns; without it, the language model that is configured does, if one is. Proposals pass the same checks.
        """
        if propose is None and self._model is not None:
            propose = proposing(self._model)
        moment = None if since is None else aware(since)
        label = f"run={self._new_id()}"
        for _ in range(_TRIES):
            plan = self._plan(moment, everything, label, skills, propose, progress)
            if dry_run or not plan.drafts:
                return _told(plan, "", 0)
            outcome = self._journal.append(plan.drafts)
            if isinstance(outcome, Refused):
                raise NotAllowed(f"The run was refused as a whole: {outcome.reason}")
            if not isinstance(outcome, Conflict):
                return _told(plan, label, len(outcome.records))
        raise NotAllowed("Others kept consolidating or editing the same records; nothing was written, try again.")

    def _plan(
        self,
        since: datetime | None,
        everything: bool,
        label: str,
        skills: bool,
        propose: Propose | None,
        progress: Progress | None,
    ) -> _Plan:
        plan = _Plan()
        scopes = sorted({row.scope for row in self._journal.tally() if row.kind == EPISODE and row.scope != SYSTEM})
        for scope in scopes:
            if self._journal.reach.writes(scope):
                _Run(self._journal, scope, label, plan, skills, propose, progress).plan(since, everything)
        return plan


class _Run:
    """One scope in one run."""

    def __init__(
        self,
        journal: Journal,
        scope: str,
        label: str,
        plan: _Plan,
        skills: bool,
        propose: Propose | None,
        progress: Progress | None,
    ) -> None:
        self._journal = journal
        self._scope = scope
        self._label = label
        self._out = plan
        self._skills = skills
        self._propose = propose
        self._progress = progress
        self._clusters: dict[str, Cluster] = {}
        self._mistakes: dict[str, Mistake] = {}
        self._days: dict[str, set[str]] = {}
        self._any_patterns = False

    def plan(self, since: datetime | None, everything: bool) -> None:
        with_cursor = since is None and not everything
        cursor = self._journal.get(Key(self._scope, CURSOR, _CURSOR_ID))
        after = self._position(cursor) if with_cursor else 0
        looked: list[tuple[Key, int]] = []
        fresh = list(self._fresh(after, since, looked))
        if not fresh:
            return
        self._out.looked_at += len(fresh)
        self._place(fresh)
        with self._journal.looking() as reader:
            self._learn(reader)
            self._draw(reader)
        if with_cursor:
            self._out.drafts.append(self._moved(cursor, looked))
        for cluster in self._clusters.values():
            if cluster.touched:
                self._out.clusters += 1
                self._out.drafts.append(cluster.draft(self._scope, self._label))

    # What is new

    def _position(self, cursor: Record | None) -> int:
        """Where the last run stopped, in this store: an address is not part of a record, so it is looked up by name."""
        for id, version in reversed(cursor.body["last"] if cursor is not None else []):
            history = self._journal.history(Key(self._scope, EPISODE, id))
            if (found := next((one for one in history if one.version == version), None)) is not None:
                return found.seq
        return 0

    def _fresh(self, after: int, since: datetime | None, looked: list[tuple[Key, int]]) -> Iterator[Traits]:
        wanted = Query(kinds=(EPISODE,), scopes=(self._scope,), after=after, since=since)
        total = sum(row.live for row in self._journal.tally() if (row.scope, row.kind) == (self._scope, EPISODE))
        for at, record in enumerate(self._journal.read(wanted)):
            looked.append((record.key, record.version))
            del looked[:-_REMEMBERED]
            episode = Episode(record)
            if not episode.running and (episode.detail != ARCHIVED or record.version == 1):
                yield traits_of(episode)
            if self._progress is not None and at % 500 == 0:
                self._progress(at, max(total, at))

    def _moved(self, cursor: Record | None, looked: Sequence[tuple[Key, int]]) -> Draft:
        body = {"last": [[key.id, version] for key, version in looked]}
        return Draft(
            CURSOR, body=body, id=_CURSOR_ID, scope=self._scope, origin=ORIGIN, labels=(self._label,),
            expected=0 if cursor is None else cursor.version,
        )  # fmt: skip

    # Placing

    def _place(self, fresh: Sequence[Traits]) -> None:
        """Gives every episode its cluster, in log order."""
        new = InMemory()
        if len(fresh) > _MANY:
            homes = self._all_homes()
            for cluster in self._clusters.values():
                new.put(cluster)
            for at, one in enumerate(fresh):
                self._settle(one, homes.get(one.key), new, [new])
                if self._progress is not None and at % 500 == 0:
                    self._progress(at, len(fresh))
            return
        with self._journal.looking() as reader:
            shelves: list[Shelf] = [InStore(reader, self._scope, self._clusters), new]
            for one in fresh:
                self._settle(one, self._home(reader, one), new, shelves)

    def _settle(self, one: Traits, home: Cluster | None, new: InMemory, shelves: Sequence[Shelf]) -> None:
        home = home or home_of(one, shelves)
        if home is None:
            home = self._clusters[one.key.id] = Cluster(one, {})
            new.put(home)
        home.take(one)
        for trouble in one.troubles:
            mistake = self._mistakes.setdefault(trouble.id, Mistake(trouble.id, {}))
            mistake.met[one.key] = (trouble, one)
            self._days.setdefault(trouble.id, set()).add(one.day)

    def _all_homes(self) -> dict[Key, Cluster]:
        """Every cluster of the scope, and which episode stands in which."""
        homes: dict[Key, Cluster] = {}
        for record in self._journal.read(Query(kinds=(CLUSTER,), scopes=(self._scope,))):
            cluster = self._clusters[record.id] = cluster_of(record, leader_in(record))
            homes.update(dict.fromkeys(cluster.members, cluster))
        return homes

    def _home(self, reader: Reader, one: Traits) -> Cluster | None:
        """The cluster that an episode stands in already."""
        for link in reader.neighbours(one.key, "derived_from"):
            if link.direction == "in" and link.key.kind == CLUSTER and (record := reader.get(link.key)) is not None:
                if record.id not in self._clusters:
                    self._clusters[record.id] = cluster_of(record, leader_in(record))
                if one.key in self._clusters[record.id].members:
                    return self._clusters[record.id]
        return None

    def _traits(self, reader: Reader, key: Key) -> Traits | None:
        record = reader.get(key)
        return None if record is None else traits_of(Episode(record))

    # Anti-patterns and learnings

    def _learn(self, reader: Reader) -> None:
        for mistake in self._mistakes.values():
            mistake.known = reader.get(Key(self._scope, ANTIPATTERN, mistake.id))
            for key in Knowing(mistake.known).sources if mistake.known is not None else ():
                if key not in mistake.met and (one := self._traits(reader, key)) is not None:
                    for trouble in one.troubles:
                        if trouble.id == mistake.id:
                            mistake.met[key] = (trouble, one)
            if not mistake.believed():
                first = mistake.sources()[0][0]
                self._hold(f"{first.type}: {first.message}", [one for _, one in mistake.sources()])
                continue
            draft = antipattern_from(mistake, scope=self._scope, label=self._label)
            if isinstance(draft, Refused):
                self._out.held.append(Held(mistake.id, draft.reason, ()))
            elif not unchanged(draft, mistake.known):
                self._out.propose(draft)
                for day in sorted(self._days[mistake.id]):
                    self._teach(reader, mistake, day)

    def _teach(self, reader: Reader, mistake: Mistake, day: str) -> None:
        known = reader.get(Key(self._scope, LEARNING, f"{day}-{mistake.id.removeprefix('anti-')}"))
        draft = learning_from(mistake, day, known, scope=self._scope, label=self._label)
        if draft is not None and not unchanged(draft, known):
            self._out.drafts.append(draft)

    def _hold(self, what: str, sources: Sequence[Traits]) -> None:
        why = "its text gives orders, and no second author says the same"
        self._out.held.append(Held(what, why, tuple(one.key.id for one in sources)))

    # Patterns

    def _draw(self, reader: Reader) -> None:
        ids = free_ids(reader, PATTERN, "sem-", self._scope)
        self._any_patterns = any(row.live for row in reader.tally() if (row.scope, row.kind) == (self._scope, PATTERN))
        drawn: dict[str, Draft] = {}
        by_mark: dict[str, list[str]] = {}
        for cluster in list(self._clusters.values()):
            if not cluster.touched:
                continue
            members = self._members(reader, cluster)
            if len(members) < 2:
                continue
            extracted = extract(members)
            if self._propose is not None and kept(extracted):
                extracted = self._refined(reader, extracted, members)
            draft = self._pattern(reader, cluster, extracted, members, ids, drawn)
            if draft is None:
                continue
            for mark in marks_of(terms_of(about(draft.body))):
                by_mark.setdefault(mark, []).append(draft.id)
            drawn[draft.id] = draft
            if self._skills:
                self._teach_skill(reader, draft, extracted)
        self._oppose(reader, drawn, by_mark)
        for draft in drawn.values():
            self._out.propose(draft)

    def _members(self, reader: Reader, cluster: Cluster) -> list[Traits]:
        """The members that stay, looked up where need be; a cluster that is as it was is not touched any more."""
        found = [one or self._traits(reader, key) for key, one in cluster.members.items()]
        members = newest(one for one in found if one is not None)
        cluster.members = {one.key: one for one in members}
        if cluster.record is not None and [one.key.id for one in members] == cluster.record.body["members"]:
            cluster.touched = False
        return members

    def _pattern(
        self,
        reader: Reader,
        cluster: Cluster,
        extracted: Extract,
        members: Sequence[Traits],
        ids: Iterator[str],
        drawn: Mapping[str, Draft],
    ) -> Draft | None:
        known = reader.get(Key(self._scope, PATTERN, cluster.pattern)) if cluster.pattern else None
        if known is None and extracted.held:
            self._hold(extracted.goal or cluster.leader.goal, members)
        if known is None and not kept(extracted):
            return None
        if known is None:
            known = self._similar(reader, extracted, members, drawn)
        id = known.id if known is not None else next(ids)
        believed = [one for one in members if not one.suspicious] or list(members)
        draft = pattern_from(extracted, believed, known, id=id, scope=self._scope, label=self._label)
        if isinstance(draft, Refused):
            self._out.held.append(Held(extracted.pattern, draft.reason, tuple(one.key.id for one in members)))
            return None
        if cluster.pattern != id:
            cluster.pattern, cluster.touched = id, True
        return None if unchanged(draft, known) else draft

    def _similar(
        self, reader: Reader, extracted: Extract, members: Sequence[Traits], drawn: Mapping[str, Draft]
    ) -> Record | None:
        """A known pattern from the same sources, or in the same words, that no other cluster of this run has added to."""
        if not self._any_patterns:
            return None
        for record in (*self._drawn_from(reader, members), *self._patterns_like(reader, extracted.goal)):
            item = Knowing(record)
            shared = len(set(item.sources) & {one.key for one in members})
            same = 2 * shared >= max(2, len(item.sources)) or says_the_same(extracted, item)
            if item.superseded_by is None and item.id not in drawn and same:
                return record
        return None

    def _drawn_from(self, reader: Reader, members: Sequence[Traits]) -> list[Record]:
        """Patterns that cite the members as their sources, by how many of them they cite."""
        cited: Counter[Key] = Counter()
        for one in members[-_SIMILAR:]:
            found = reader.neighbours(one.key, "derived_from")
            cited.update(link.key for link in found if link.direction == "in" and link.key.kind == PATTERN)
        ranked = sorted(cited, key=lambda key: (-cited[key], key))
        return [record for key in ranked if (record := reader.get(key)) is not None]

    def _refined(self, reader: Reader, extracted: Extract, members: Sequence[Traits]) -> Extract:
        assert self._propose is not None
        records = [reader.get(one.key) for one in members if not one.suspicious]
        episodes = [Episode(record).as_json() for record in records if record is not None]
        better = refined(self._propose, extracted, episodes, {one.key.id: one for one in members})
        if isinstance(better, str):
            self._out.held.append(Held(extracted.pattern, better, tuple(one.key.id for one in members)))
            return extracted
        return better

    def _teach_skill(self, reader: Reader, pattern: Draft, extracted: Extract) -> None:
        draft = skill_from(pattern, extracted, label=self._label)
        taken = {proposal.draft.key for proposal in self._out.proposals}
        if draft is not None and draft.key not in taken and reader.get(draft.key) is None:
            self._out.propose(draft)

    def _oppose(self, reader: Reader, drawn: dict[str, Draft], by_mark: Mapping[str, Sequence[str]]) -> None:
        """Links patterns that contradict each other, both ways."""
        others: dict[Key, Record] = {}
        for id in list(drawn):
            goal = about(drawn[id].body)
            shared = Counter(other for mark in marks_of(terms_of(goal)) for other in by_mark[mark] if id < other)
            for other, _ in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0]))[:_SIMILAR]:
                if contradict(drawn[id], drawn[other]):
                    drawn[id] = _tied(drawn[id], drawn[other].key)
                    drawn[other] = _tied(drawn[other], drawn[id].key)
            for record in self._patterns_like(reader, goal) if self._says_new(reader, drawn[id]) else ():
                if record.id not in drawn and contradict(drawn[id], record):
                    drawn[id] = _tied(drawn[id], record.key)
                    others[record.key] = record
        for record in others.values():
            arrow = Link("contradicts", record.key)
            back = [Link("contradicts", draft.key) for draft in drawn.values() if arrow in draft.links]
            links = tuple(dict.fromkeys((*record.links, *back)))
            labels = (*(old for old in record.labels if not old.startswith("run=")), self._label)
            if set(links) != set(record.links):
                self._out.propose(redraft(record, links=links, labels=labels, expected=record.version))

    def _says_new(self, reader: Reader, draft: Draft) -> bool:
        """Whether a pattern is new, or says something else than before."""
        known = reader.get(draft.key)
        names = ("pattern", "correct_approach", "incorrect_approach")
        return known is None or any(known.body.get(name) != draft.body.get(name) for name in names)

    def _patterns_like(self, reader: Reader, goal: str) -> list[Record]:
        """Known patterns that share words with a goal, best first."""
        terms = terms_of(goal)
        if not self._any_patterns or not terms:
            return []
        frequency = reader.frequency(sorted(terms))  # episodes share the words; the rare ones tell patterns apart
        chosen, matched = list[str](), 0
        for term in sorted(terms, key=lambda term: (frequency[term], term)):
            matched += frequency[term]
            if chosen and matched > _WORTH_MATCHING:
                break
            chosen.append(term)
        wanted = Query(kinds=(PATTERN,), scopes=(self._scope,), limit=_SIMILAR)
        return [match.record for match in reader.match_text(" ".join(chosen), wanted)]


def _tied(draft: Draft, other: Key) -> Draft:
    return draft._replace(links=tuple(dict.fromkeys((*draft.links, Link("contradicts", other)))))


def _told(plan: _Plan, label: str, written: int) -> Consolidated:
    return Consolidated(tuple(plan.proposals), tuple(plan.held), plan.looked_at, plan.clusters, label, written)
