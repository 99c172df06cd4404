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

from lukasa.clock import IdMaker, to_utc
from lukasa.errors import NotAllowed
from lukasa.experience.consolidation.clusters import (
    CLUSTER,
    ClusterIndex,
    EpisodeCluster,
    MemoryClusterIndex,
    StoreClusterIndex,
    find_cluster,
    newest_members,
    parse_cluster,
    parse_leader,
)
from lukasa.experience.consolidation.drafts import (
    LEARNING,
    ORIGIN,
    ErrorGroup,
    draft_antipattern,
    draft_learning,
    draft_pattern,
    draft_skill,
    is_confident,
    is_contradiction,
    is_same_pattern,
    is_unchanged,
    pattern_goal,
)
from lukasa.experience.consolidation.extract import ExtractedPattern, extract_pattern
from lukasa.experience.consolidation.llm_wording import PatternProposer, WordingModel, make_proposer, refine_pattern
from lukasa.experience.consolidation.similarity import EpisodeTraits, extract_traits, goal_pair_keys, goal_terms
from lukasa.experience.episode import ARCHIVED, EPISODE, Episode
from lukasa.experience.knowledge_items import ANTIPATTERN, PATTERN, KnowledgeItem
from lukasa.journal import Journal
from lukasa.outcome import Conflict, Refused
from lukasa.readable_ids import free_ids
from lukasa.record import Draft, Key, Link, Record, draft_from
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Progress, Query, Reader

CURSOR_KIND = "consolidation"
_CURSOR_ID = "cursor"
_MAX_STORE_LOOKUPS = 1_000
_MAX_ATTEMPTS = 5
_CURSOR_LENGTH = 8
_MAX_SIMILAR = 10
_MAX_MATCHES = 2_000

ProposalAction = Literal["new", "updated"]


@dataclass(frozen=True, slots=True)
class ConsolidationProposal:
    """One record that a run wrote or would write: what it says, how sure it is, and where it comes from."""

    action: ProposalAction
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
class ConsolidationRejection:
    """Something that did not become knowledge, and why."""

    what: str
    why: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsolidationResult:
    """What a run did, or with ``dry_run`` would do. ``label`` takes it back: ``journal.undo(label=…)``."""

    proposals: tuple[ConsolidationProposal, ...]
    held: tuple[ConsolidationRejection, ...]
    looked_at: int
    clusters: int
    label: str = ""
    written: int = 0

    def of(self, kind: str) -> list[ConsolidationProposal]:
        return [proposal for proposal in self.proposals if proposal.draft.kind == kind]


@dataclass(slots=True)
class _ConsolidationPlan:
    drafts: list[Draft] = field(default_factory=list)
    proposals: list[ConsolidationProposal] = field(default_factory=list)
    rejected: list[ConsolidationRejection] = field(default_factory=list)
    episode_count: int = 0
    cluster_count: int = 0

    def add_proposal(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self.proposals.append(ConsolidationProposal("updated" if draft.expected else "new", draft))


class Consolidation:
    """Turns episodes into knowledge, for one caller. Call it: ``memory.consolidate()``."""

    def __init__(self, journal: Journal, new_id: IdMaker, model: WordingModel | None = None) -> None:
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
        propose: PatternProposer | None = None,
        progress: Progress | None = None,
    ) -> ConsolidationResult:
        """Looks at the episodes that are new since the last run and writes what follows from them.

        ``since`` looks at those that happened since a time instead, ``everything`` at all of them; what a cluster has
        already is not counted twice. ``skills`` makes skills of what independent authors bear out. ``propose`` words the
        patterns; without it, the language model that is configured does, if one is. Proposals pass the same checks.
        """
        if propose is None and self._model is not None:
            propose = make_proposer(self._model)
        moment = None if since is None else to_utc(since)
        label = f"run={self._new_id()}"
        for _ in range(_MAX_ATTEMPTS):
            plan = self._build_plan(moment, everything, label, skills, propose, progress)
            if dry_run or not plan.drafts:
                return _build_result(plan, "", 0)
            outcome = self._journal.append(plan.drafts)
            if isinstance(outcome, Refused):
                raise NotAllowed(f"The run was refused as a whole: {outcome.reason}")
            if not isinstance(outcome, Conflict):
                return _build_result(plan, label, len(outcome.records))
        raise NotAllowed("Others kept consolidating or editing the same records; nothing was written, try again.")

    def _build_plan(
        self,
        since: datetime | None,
        everything: bool,
        label: str,
        skills: bool,
        propose: PatternProposer | None,
        progress: Progress | None,
    ) -> _ConsolidationPlan:
        plan = _ConsolidationPlan()
        scopes = sorted({row.scope for row in self._journal.tally() if row.kind == EPISODE and row.scope != SYSTEM})
        for scope in scopes:
            if self._journal.reach.writes(scope):
                _ScopeRun(self._journal, scope, label, plan, skills, propose, progress).plan_scope(since, everything)
        return plan


class _ScopeRun:
    """One scope in one run."""

    def __init__(
        self,
        journal: Journal,
        scope: str,
        label: str,
        plan: _ConsolidationPlan,
        skills: bool,
        propose: PatternProposer | None,
        progress: Progress | None,
    ) -> None:
        self._journal = journal
        self._scope = scope
        self._label = label
        self._plan = plan
        self._skills = skills
        self._propose = propose
        self._progress = progress
        self._clusters: dict[str, EpisodeCluster] = {}
        self._error_groups: dict[str, ErrorGroup] = {}
        self._error_days: dict[str, set[str]] = {}
        self._has_patterns = False

    def plan_scope(self, since: datetime | None, everything: bool) -> None:
        with_cursor = since is None and not everything
        cursor = self._journal.get(Key(self._scope, CURSOR_KIND, _CURSOR_ID))
        after = self._cursor_position(cursor) if with_cursor else 0
        looked: list[tuple[Key, int]] = []
        fresh = list(self._read_new_episodes(after, since, looked))
        if not fresh:
            return
        self._plan.episode_count += len(fresh)
        self._assign_clusters(fresh)
        with self._journal.snapshot() as reader:
            self._propose_antipatterns(reader)
            self._propose_patterns(reader)
        if with_cursor:
            self._plan.drafts.append(self._cursor_draft(cursor, looked))
        for cluster in self._clusters.values():
            if cluster.is_changed:
                self._plan.cluster_count += 1
                self._plan.drafts.append(cluster.to_draft(self._scope, self._label))

    # What is new

    def _cursor_position(self, cursor: Record | None) -> int:
        """Where the last run stopped, in this store: an address is not part of a record, so it is looked up by name."""
        for id, version in reversed(cursor.body["last"] if cursor is not None else []):
            history = self._journal.history(Key(self._scope, EPISODE, id))
            if (found := next((one for one in history if one.version == version), None)) is not None:
                return found.seq
        return 0

    def _read_new_episodes(
        self, after: int, since: datetime | None, visited: list[tuple[Key, int]]
    ) -> Iterator[EpisodeTraits]:
        wanted = Query(kinds=(EPISODE,), scopes=(self._scope,), after=after, since=since)
        total = sum(row.live for row in self._journal.tally() if (row.scope, row.kind) == (self._scope, EPISODE))
        for at, record in enumerate(self._journal.read(wanted)):
            visited.append((record.key, record.version))
            del visited[:-_CURSOR_LENGTH]
            episode = Episode(record)
            if not episode.running and (episode.detail != ARCHIVED or record.version == 1):
                yield extract_traits(episode)
            if self._progress is not None and at % 500 == 0:
                self._progress(at, max(total, at))

    def _cursor_draft(self, cursor: Record | None, visited: Sequence[tuple[Key, int]]) -> Draft:
        body = {"last": [[key.id, version] for key, version in visited]}
        return Draft(
            CURSOR_KIND, body=body, id=_CURSOR_ID, scope=self._scope, origin=ORIGIN, labels=(self._label,),
            expected=0 if cursor is None else cursor.version,
        )  # fmt: skip

    # Placing

    def _assign_clusters(self, episodes: Sequence[EpisodeTraits]) -> None:
        """Gives every episode its cluster, in log order."""
        new = MemoryClusterIndex()
        if len(episodes) > _MAX_STORE_LOOKUPS:
            homes = self._load_clusters()
            for cluster in self._clusters.values():
                new.add(cluster)
            for at, one in enumerate(episodes):
                self._assign_cluster(one, homes.get(one.key), new, [new])
                if self._progress is not None and at % 500 == 0:
                    self._progress(at, len(episodes))
            return
        with self._journal.snapshot() as reader:
            shelves: list[ClusterIndex] = [StoreClusterIndex(reader, self._scope, self._clusters), new]
            for one in episodes:
                self._assign_cluster(one, self._current_cluster(reader, one), new, shelves)

    def _assign_cluster(
        self,
        episode: EpisodeTraits,
        cluster: EpisodeCluster | None,
        new_clusters: MemoryClusterIndex,
        indexes: Sequence[ClusterIndex],
    ) -> None:
        cluster = cluster or find_cluster(episode, indexes)
        if cluster is None:
            cluster = self._clusters[episode.key.id] = EpisodeCluster(episode, {})
            new_clusters.add(cluster)
        cluster.add_member(episode)
        for trouble in episode.errors:
            mistake = self._error_groups.setdefault(trouble.id, ErrorGroup(trouble.id, {}))
            mistake.occurrences[episode.key] = (trouble, episode)
            self._error_days.setdefault(trouble.id, set()).add(episode.day)

    def _load_clusters(self) -> dict[Key, EpisodeCluster]:
        """Every cluster of the scope, and which episode stands in which."""
        homes: dict[Key, EpisodeCluster] = {}
        for record in self._journal.read(Query(kinds=(CLUSTER,), scopes=(self._scope,))):
            cluster = self._clusters[record.id] = parse_cluster(record, parse_leader(record))
            homes.update(dict.fromkeys(cluster.members, cluster))
        return homes

    def _current_cluster(self, reader: Reader, episode: EpisodeTraits) -> EpisodeCluster | None:
        """The cluster that an episode stands in already."""
        for link in reader.neighbours(episode.key, "derived_from"):
            if link.direction == "in" and link.key.kind == CLUSTER and (record := reader.get(link.key)) is not None:
                if record.id not in self._clusters:
                    self._clusters[record.id] = parse_cluster(record, parse_leader(record))
                if episode.key in self._clusters[record.id].members:
                    return self._clusters[record.id]
        return None

    def _read_traits(self, reader: Reader, key: Key) -> EpisodeTraits | None:
        record = reader.get(key)
        return None if record is None else extract_traits(Episode(record))

    # Anti-patterns and learnings

    def _propose_antipatterns(self, reader: Reader) -> None:
        for mistake in self._error_groups.values():
            mistake.antipattern = reader.get(Key(self._scope, ANTIPATTERN, mistake.id))
            for key in KnowledgeItem(mistake.antipattern).sources if mistake.antipattern is not None else ():
                if key not in mistake.occurrences and (one := self._read_traits(reader, key)) is not None:
                    for trouble in one.errors:
                        if trouble.id == mistake.id:
                            mistake.occurrences[key] = (trouble, one)
            if not mistake.usable_sources():
                first = mistake.newest_sources()[0][0]
                self._reject_suspicious(f"{first.type}: {first.message}", [one for _, one in mistake.newest_sources()])
                continue
            draft = draft_antipattern(mistake, scope=self._scope, label=self._label)
            if isinstance(draft, Refused):
                self._plan.rejected.append(ConsolidationRejection(mistake.id, draft.reason, ()))
            elif not is_unchanged(draft, mistake.antipattern):
                self._plan.add_proposal(draft)
                for day in sorted(self._error_days[mistake.id]):
                    self._add_learning(reader, mistake, day)

    def _add_learning(self, reader: Reader, group: ErrorGroup, day: str) -> None:
        known = reader.get(Key(self._scope, LEARNING, f"{day}-{group.id.removeprefix('anti-')}"))
        draft = draft_learning(group, day, known, scope=self._scope, label=self._label)
        if draft is not None and not is_unchanged(draft, known):
            self._plan.drafts.append(draft)

    def _reject_suspicious(self, what: str, sources: Sequence[EpisodeTraits]) -> None:
        why = "its text gives orders, and no second author says the same"
        self._plan.rejected.append(ConsolidationRejection(what, why, tuple(one.key.id for one in sources)))

    # Patterns

    def _propose_patterns(self, reader: Reader) -> None:
        ids = free_ids(reader, PATTERN, "sem-", self._scope)
        self._has_patterns = any(row.live for row in reader.tally() if (row.scope, row.kind) == (self._scope, PATTERN))
        drawn: dict[str, Draft] = {}
        by_mark: dict[str, list[str]] = {}
        for cluster in list(self._clusters.values()):
            if not cluster.is_changed:
                continue
            members = self._load_members(reader, cluster)
            if len(members) < 2:
                continue
            extracted = extract_pattern(members)
            if self._propose is not None and is_confident(extracted):
                extracted = self._refine_wording(reader, extracted, members)
            draft = self._draft_pattern(reader, cluster, extracted, members, ids, drawn)
            if draft is None:
                continue
            for mark in goal_pair_keys(goal_terms(pattern_goal(draft.body))):
                by_mark.setdefault(mark, []).append(draft.id)
            drawn[draft.id] = draft
            if self._skills:
                self._propose_skill(reader, draft, extracted)
        self._link_contradictions(reader, drawn, by_mark)
        for draft in drawn.values():
            self._plan.add_proposal(draft)

    def _load_members(self, reader: Reader, cluster: EpisodeCluster) -> list[EpisodeTraits]:
        """The members that stay, looked up where need be; a cluster that is as it was is not touched any more."""
        found = [one or self._read_traits(reader, key) for key, one in cluster.members.items()]
        members = newest_members(one for one in found if one is not None)
        cluster.members = {one.key: one for one in members}
        if cluster.record is not None and [one.key.id for one in members] == cluster.record.body["members"]:
            cluster.is_changed = False
        return members

    def _draft_pattern(
        self,
        reader: Reader,
        cluster: EpisodeCluster,
        extracted: ExtractedPattern,
        members: Sequence[EpisodeTraits],
        ids: Iterator[str],
        new_patterns: Mapping[str, Draft],
    ) -> Draft | None:
        known = reader.get(Key(self._scope, PATTERN, cluster.pattern)) if cluster.pattern else None
        if known is None and extracted.rejection:
            self._reject_suspicious(extracted.goal or cluster.leader.goal, members)
        if known is None and not is_confident(extracted):
            return None
        if known is None:
            known = self._find_similar_pattern(reader, extracted, members, new_patterns)
        id = known.id if known is not None else next(ids)
        believed = [one for one in members if not one.is_suspicious] or list(members)
        draft = draft_pattern(extracted, believed, known, id=id, scope=self._scope, label=self._label)
        if isinstance(draft, Refused):
            self._plan.rejected.append(
                ConsolidationRejection(extracted.pattern, draft.reason, tuple(one.key.id for one in members))
            )
            return None
        if cluster.pattern != id:
            cluster.pattern, cluster.is_changed = id, True
        return None if is_unchanged(draft, known) else draft

    def _find_similar_pattern(
        self,
        reader: Reader,
        extracted: ExtractedPattern,
        members: Sequence[EpisodeTraits],
        new_patterns: Mapping[str, Draft],
    ) -> Record | None:
        """A known pattern from the same sources, or in the same words, that no other cluster of this run has added to."""
        if not self._has_patterns:
            return None
        for record in (
            *self._find_citing_patterns(reader, members),
            *self._find_matching_patterns(reader, extracted.goal),
        ):
            item = KnowledgeItem(record)
            shared = len(set(item.sources) & {one.key for one in members})
            same = 2 * shared >= max(2, len(item.sources)) or is_same_pattern(extracted, item)
            if item.superseded_by is None and item.id not in new_patterns and same:
                return record
        return None

    def _find_citing_patterns(self, reader: Reader, members: Sequence[EpisodeTraits]) -> list[Record]:
        """Patterns that cite the members as their sources, by how many of them they cite."""
        cited: Counter[Key] = Counter()
        for one in members[-_MAX_SIMILAR:]:
            found = reader.neighbours(one.key, "derived_from")
            cited.update(link.key for link in found if link.direction == "in" and link.key.kind == PATTERN)
        ranked = sorted(cited, key=lambda key: (-cited[key], key))
        return [record for key in ranked if (record := reader.get(key)) is not None]

    def _refine_wording(
        self, reader: Reader, extracted: ExtractedPattern, members: Sequence[EpisodeTraits]
    ) -> ExtractedPattern:
        assert self._propose is not None
        records = [reader.get(one.key) for one in members if not one.is_suspicious]
        episodes = [Episode(record).as_json() for record in records if record is not None]
        better = refine_pattern(self._propose, extracted, episodes, {one.key.id: one for one in members})
        if isinstance(better, str):
            self._plan.rejected.append(
                ConsolidationRejection(extracted.pattern, better, tuple(one.key.id for one in members))
            )
            return extracted
        return better

    def _propose_skill(self, reader: Reader, pattern: Draft, extracted: ExtractedPattern) -> None:
        draft = draft_skill(pattern, extracted, label=self._label)
        taken = {proposal.draft.key for proposal in self._plan.proposals}
        if draft is not None and draft.key not in taken and reader.get(draft.key) is None:
            self._plan.add_proposal(draft)

    def _link_contradictions(
        self, reader: Reader, new_patterns: dict[str, Draft], by_key: Mapping[str, Sequence[str]]
    ) -> None:
        """Links patterns that contradict each other, both ways."""
        others: dict[Key, Record] = {}
        for id in list(new_patterns):
            goal = pattern_goal(new_patterns[id].body)
            shared = Counter(other for mark in goal_pair_keys(goal_terms(goal)) for other in by_key[mark] if id < other)
            for other, _ in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0]))[:_MAX_SIMILAR]:
                if is_contradiction(new_patterns[id], new_patterns[other]):
                    new_patterns[id] = _with_contradiction(new_patterns[id], new_patterns[other].key)
                    new_patterns[other] = _with_contradiction(new_patterns[other], new_patterns[id].key)
            for record in (
                self._find_matching_patterns(reader, goal) if self._is_new_statement(reader, new_patterns[id]) else ()
            ):
                if record.id not in new_patterns and is_contradiction(new_patterns[id], record):
                    new_patterns[id] = _with_contradiction(new_patterns[id], record.key)
                    others[record.key] = record
        for record in others.values():
            arrow = Link("contradicts", record.key)
            back = [Link("contradicts", draft.key) for draft in new_patterns.values() if arrow in draft.links]
            links = tuple(dict.fromkeys((*record.links, *back)))
            labels = (*(old for old in record.labels if not old.startswith("run=")), self._label)
            if set(links) != set(record.links):
                self._plan.add_proposal(draft_from(record, links=links, labels=labels, expected=record.version))

    def _is_new_statement(self, reader: Reader, draft: Draft) -> bool:
        """Whether a pattern is new, or says something else than before."""
        known = reader.get(draft.key)
        names = ("pattern", "correct_approach", "incorrect_approach")
        return known is None or any(known.body.get(name) != draft.body.get(name) for name in names)

    def _find_matching_patterns(self, reader: Reader, goal: str) -> list[Record]:
        """Known patterns that share words with a goal, best first."""
        terms = goal_terms(goal)
        if not self._has_patterns or not terms:
            return []
        frequency = reader.frequency(sorted(terms))  # episodes share the words; the rare ones tell patterns apart
        chosen, matched = list[str](), 0
        for term in sorted(terms, key=lambda term: (frequency[term], term)):
            matched += frequency[term]
            if chosen and matched > _MAX_MATCHES:
                break
            chosen.append(term)
        wanted = Query(kinds=(PATTERN,), scopes=(self._scope,), limit=_MAX_SIMILAR)
        return [match.record for match in reader.match_text(" ".join(chosen), wanted)]


def _with_contradiction(draft: Draft, other: Key) -> Draft:
    return draft._replace(links=tuple(dict.fromkeys((*draft.links, Link("contradicts", other)))))


def _build_result(plan: _ConsolidationPlan, label: str, written: int) -> ConsolidationResult:
    return ConsolidationResult(
        tuple(plan.proposals), tuple(plan.rejected), plan.episode_count, plan.cluster_count, label, written
    )
