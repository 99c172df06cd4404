"""A run of consolidation: read the new episodes, propose knowledge, and write all of it or none.

A run reads the episodes written since the last one, assigns them to clusters, extracts patterns from the clusters that
changed and anti-patterns from the errors it saw, and appends everything in one batch under one label ``run=…``. So a run
can be previewed (``dry_run``), undone (``journal.undo(label=…)``), and leaves nothing when it is killed. It only adds
versions; sources are never changed.

Each scope is consolidated separately: knowledge from one agent's own episodes stays in its scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Literal

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import IdMaker, Time, to_utc
from lukasa.core.outcome import Conflict, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.core.scope import SYSTEM
from lukasa.errors import NotAllowed
from lukasa.experience.consolidation.clusters import (
    CLUSTER,
    ClusterIndex,
    EpisodeCluster,
    EpisodeTraits,
    TraitsReader,
    extract_traits,
    find_cluster,
    goal_pair_keys,
    goal_terms,
)
from lukasa.experience.consolidation.drafts import (
    ORIGIN,
    ErrorOccurrence,
    draft_antipattern,
    draft_learning,
    draft_pattern,
    draft_skill,
    is_contradiction,
    is_opposed,
    is_same_pattern,
    is_unchanged,
    is_written_by_hand,
    pattern_goal,
    usable_occurrences,
)
from lukasa.experience.consolidation.extract import (
    ExtractedPattern,
    PatternProposer,
    WordingModel,
    extract_pattern,
    make_proposer,
    refine_pattern,
)
from lukasa.experience.consolidation.resolutions import MIN_SIMILARITY, ResolutionComparison, SolvedError
from lukasa.experience.episodes import ARCHIVED, EPISODE, Episode
from lukasa.experience.knowledge import (
    ANTIPATTERN,
    LEARNING,
    MAX_SOURCES,
    PATTERN,
    KnowledgeItem,
    derived_keys,
    with_run_label,
)
from lukasa.experience.readable_ids import free_ids
from lukasa.journal import CallerService, Journal
from lukasa.models.embedder import Embedder
from lukasa.storage.engine import Progress, Query, Reader

CURSOR_KIND = "consolidation"
_CURSOR_ID = "cursor"
_CURSOR_LENGTH = 8
_MAX_STORE_LOOKUPS = 1_000
_MAX_ATTEMPTS = 5
_MAX_SIMILAR = 10
_MAX_MATCHES = 2_000
_ORDERS_REASON = "its text gives orders, and no second author says the same"

ProposalAction = Literal["new", "updated"]


@dataclass(frozen=True, slots=True)
class ConsolidationProposal:
    """A record that a run wrote or would write."""

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
        """The number of independent authors that support the record."""
        return int(self.draft.body.get("voices", 0))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(link.to.id for link in self.draft.links if link.relation == DERIVED_FROM)


@dataclass(frozen=True, slots=True)
class ConsolidationRejection:
    """A statement that did not become knowledge, and the reason."""

    what: str
    why: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsolidationResult:
    """The effects of a run, or with ``dry_run`` its preview. ``journal.undo(label=…)`` reverts the run."""

    proposals: tuple[ConsolidationProposal, ...]
    held: tuple[ConsolidationRejection, ...]
    looked_at: int
    clusters: int
    label: str = ""
    written: int = 0

    def of(self, kind: str) -> list[ConsolidationProposal]:
        return [proposal for proposal in self.proposals if proposal.draft.kind == kind]


@dataclass(slots=True)
class _Plan:
    """The output of the planning steps: the drafts in log order, and the parts of the result."""

    drafts: list[Draft] = field(default_factory=list)
    proposals: list[ConsolidationProposal] = field(default_factory=list)
    rejections: list[ConsolidationRejection] = field(default_factory=list)
    episode_count: int = 0
    cluster_count: int = 0

    def propose(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self.proposals.append(ConsolidationProposal("updated" if draft.expected else "new", draft))

    def reject(self, what: str, why: str, sources: Iterable[EpisodeTraits] = ()) -> None:
        self.rejections.append(ConsolidationRejection(what, why, tuple(episode.key.id for episode in sources)))


@check_arguments
class Consolidation(CallerService):
    """The consolidation service of one caller, called as ``memory.consolidate()``."""

    def __init__(
        self, journal: Journal, new_id: IdMaker, model: WordingModel | None = None,
        open_embedder: Callable[[], Embedder] | None = None,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._new_id = new_id
        self._model = model
        self._comparison = ResolutionComparison(open_embedder)

    def __call__(
        self, *, since: Time | None = None, everything: bool = False, dry_run: bool = False, skills: bool = False,
        propose: PatternProposer | None = None, progress: Progress | None = None,
    ) -> ConsolidationResult:  # fmt: skip
        """Derive knowledge from the episodes that are new since the last run, and write it.

        Members that a cluster already has are not counted twice. Proposals of a language model pass the same checks. Raise ``NotAllowed`` if the batch is refused, or if other writers kept changing the same records.

        Args:
            since: Read the episodes that happened since this time instead of the new ones.
            everything: Read all episodes, not only the new ones.
            dry_run: Change nothing; return what would be done.
            skills: Make skills of patterns that independent authors support.
            propose: A function that words the patterns; default: the configured language model, if there is one.
            progress: Called with the work done and the total.

        Example:
            memory.episodes.record("Fix the login page", outcome="failure")
            memory.consolidate(dry_run=True)
        """
        if propose is None and self._model is not None:
            propose = make_proposer(self._model)
        since = None if since is None else to_utc(since)
        label = f"run={self._new_id()}"
        for _ in range(_MAX_ATTEMPTS):
            plan = _Plan()
            for scope in sorted({row.scope for row in self._journal.tally() if row.kind == EPISODE}):
                if scope != SYSTEM and self._journal.reach.writes(scope):
                    _plan_scope(
                        plan, self._journal, scope, label, self._comparison, since=since, everything=everything, skills=skills,
                        propose=propose, progress=progress,
                    )  # fmt: skip
            written = 0
            if plan.drafts and not dry_run:
                outcome = self._journal.append(
                    self._journal.revise(draft) if draft.author else draft for draft in plan.drafts
                )
                if isinstance(outcome, Refused):
                    raise NotAllowed(f"The run was refused as a whole: {outcome.reason}")
                if isinstance(outcome, Conflict):
                    continue
                written = len(outcome.records)
            return ConsolidationResult(
                tuple(plan.proposals), tuple(plan.rejections), plan.episode_count, plan.cluster_count,
                label if plan.drafts and not dry_run else "", written,
            )  # fmt: skip
        raise NotAllowed("Others kept consolidating or editing the same records; nothing was written, try again.")


def _plan_scope(
    plan: _Plan, journal: Journal, scope: str, label: str, comparison: ResolutionComparison, *, since: datetime | None,
    everything: bool, skills: bool, propose: PatternProposer | None, progress: Progress | None,
) -> None:  # fmt: skip
    """Plan a run over one scope."""
    is_incremental = since is None and not everything
    cursor = journal.get(Key(scope, CURSOR_KIND, _CURSOR_ID))
    after = 0
    # The cursor names the last episodes read, because the same record has another position in another store.
    for id, version in reversed(cursor.body["last"] if cursor is not None and is_incremental else []):
        history = journal.history(Key(scope, EPISODE, id))
        if (after := next((record.seq for record in history if record.version == version), 0)) > 0:
            break
    total = sum(row.live for row in journal.tally() if (row.scope, row.kind) == (scope, EPISODE))
    episodes: list[EpisodeTraits] = []
    last_read: list[list[str | int]] = []
    query = Query(kinds=(EPISODE,), scopes=(scope,), after=after, since=since)
    for index, record in enumerate(journal.read(query)):
        last_read.append([record.id, record.version])
        del last_read[:-_CURSOR_LENGTH]
        episode = Episode(record)
        if not episode.running and (episode.detail != ARCHIVED or record.version == 1):
            episodes.append(extract_traits(episode))
        if progress is not None and index % 500 == 0:
            progress(index, max(total, index))
    if not episodes:
        return
    plan.episode_count += len(episodes)
    clusters = _assign_clusters(journal, scope, episodes, comparison, progress)
    with journal.snapshot() as reader:
        traits = TraitsReader(reader, episodes)
        _propose_antipatterns(plan, reader, scope, label, episodes, traits)
        _propose_patterns(plan, reader, scope, label, clusters, traits, comparison, skills=skills, propose=propose)
    if is_incremental:
        body, version = {"last": last_read}, 0 if cursor is None else cursor.version
        moved = Draft(
            CURSOR_KIND, body=body, id=_CURSOR_ID, scope=scope, origin=ORIGIN, labels=(label,), expected=version
        )
        plan.drafts.append(moved)
    plan.cluster_count += sum(cluster.is_changed for cluster in clusters)
    changed = (cluster for cluster in clusters if cluster.is_changed or cluster.has_new_vectors(comparison))
    plan.drafts += [cluster.to_draft(scope, label, comparison) for cluster in changed]


def _assign_clusters(
    journal: Journal, scope: str, episodes: Sequence[EpisodeTraits], comparison: ResolutionComparison,
    progress: Progress | None,
) -> list[EpisodeCluster]:  # fmt: skip
    """Assign every episode to a cluster, in log order; return the clusters, the changed ones among them."""
    stored = None
    if len(episodes) > _MAX_STORE_LOOKUPS:
        stored = list(journal.read(Query(kinds=(CLUSTER,), scopes=(scope,))))
    with journal.snapshot() as reader:
        index = ClusterIndex(reader, scope, comparison, stored)
        for number, episode in enumerate(episodes):
            cluster = index.find_by_member(episode.key) or find_cluster(episode, index)
            if cluster is None:
                cluster = EpisodeCluster(episode)
                index.add(cluster)
            cluster.add_member(episode.key)
            index.add_solved_errors(episode, cluster)
            if progress is not None and stored is not None and number % 500 == 0:
                progress(number, len(episodes))
    return list(index.clusters.values())


def _propose_antipatterns(
    plan: _Plan, reader: Reader, scope: str, label: str, episodes: Sequence[EpisodeTraits], traits: TraitsReader
) -> None:
    """Propose an anti-pattern for each error of the new episodes, and a learning for each day it occurred on."""
    by_error: dict[str, dict[Key, ErrorOccurrence]] = {}
    for episode in episodes:
        for error in episode.errors:
            by_error.setdefault(error.id, {})[episode.key] = (error, episode)
    for id, occurrences in by_error.items():
        days = sorted({episode.day for _, episode in occurrences.values()})
        known = reader.get(Key(scope, ANTIPATTERN, id))
        for key in KnowledgeItem(known).sources if known is not None else ():
            if key not in occurrences and (source := traits.get(key)) is not None:
                for error in source.errors:
                    if error.id == id:
                        occurrences[key] = (error, source)
        newest = sorted(occurrences.values(), key=lambda pair: (pair[1].moment, pair[1].key.id))[-MAX_SOURCES:]
        usable = usable_occurrences(newest)
        if not usable:
            error = newest[0][0]
            plan.reject(f"{error.type}: {error.message}", _ORDERS_REASON, (episode for _, episode in newest))
            continue
        draft = draft_antipattern(id, usable, known, scope=scope, label=label)
        if isinstance(draft, Refused):
            plan.reject(id, draft.reason)
            continue
        if is_unchanged(draft, known):
            continue
        plan.propose(draft)
        for day in days:
            if of_day := [pair for pair in usable if pair[1].day == day]:
                learning_key = Key(scope, LEARNING, f"{day}-{id.removeprefix('anti-')}")
                known_learning = reader.get(learning_key)
                learning = draft_learning(learning_key, day, id, of_day, known_learning, label=label)
                if not is_unchanged(learning, known_learning):
                    plan.drafts.append(learning)


def _propose_patterns(
    plan: _Plan, reader: Reader, scope: str, label: str, clusters: Sequence[EpisodeCluster], traits: TraitsReader,
    comparison: ResolutionComparison, *, skills: bool, propose: PatternProposer | None,
) -> None:  # fmt: skip
    """Propose a pattern for each changed cluster that supports one, and skills if wanted; link contradictions."""
    known_patterns = _KnownPatterns(reader, scope, comparison)
    ids = free_ids(reader, PATTERN, "sem-", scope)
    drafts: dict[str, Draft] = {}
    ids_by_key: dict[str, list[str]] = {}
    for cluster in clusters:
        members = cluster.load_members(traits) if cluster.is_changed else []
        if len(members) < 2:
            continue
        extracted = extract_pattern(members, comparison)
        if propose is not None and extracted.is_confident:
            records = [reader.get(member.key) for member in members if not member.is_suspicious]
            documents = [Episode(record).as_json() for record in records if record is not None]
            by_id = {member.key.id: member for member in members}
            refined = refine_pattern(propose, extracted, documents, by_id, comparison)
            if isinstance(refined, str):
                plan.reject(extracted.pattern, refined, members)
            else:
                extracted = refined
        known = reader.get(Key(scope, PATTERN, cluster.pattern)) if cluster.pattern else None
        if known is None:
            if extracted.rejection:
                plan.reject(extracted.goal or cluster.leader.goal, _ORDERS_REASON, members)
            if not extracted.is_confident:
                continue
            known = known_patterns.find_similar(extracted, members, drafts)
        id = known.id if known is not None else next(ids)
        sources = [member for member in members if member.key not in extracted.unlike]
        trusted = [member for member in sources if not member.is_suspicious] or sources
        draft = draft_pattern(extracted, trusted, known, id=id, scope=scope, label=label)
        if isinstance(draft, Refused):
            plan.reject(extracted.pattern, draft.reason, members)
            continue
        if cluster.pattern != id:
            cluster.pattern, cluster.is_changed = id, True
        if is_unchanged(draft, known):
            continue
        drafts[id] = draft
        for pair_key in goal_pair_keys(goal_terms(pattern_goal(draft.body))):
            ids_by_key.setdefault(pair_key, []).append(id)
        skill = draft_skill(draft, extracted, label=label) if skills else None
        taken = {proposal.key for proposal in plan.proposals} if skill is not None else set()
        if skill is not None and skill.key not in taken and reader.get(skill.key) is None:
            plan.propose(skill)
    for draft in (*_link_contradictions(drafts, ids_by_key, reader, known_patterns, label), *drafts.values()):
        plan.propose(draft)


def _link_contradictions(
    drafts: dict[str, Draft], ids_by_key: Mapping[str, Sequence[str]], reader: Reader, known_patterns: _KnownPatterns,
    label: str,
) -> list[Draft]:  # fmt: skip
    """Link drafts and known patterns that contradict each other, both ways; return the drafts of the known ones."""
    known_drafts: dict[str, Draft] = {}

    def link(group: dict[str, Draft], id: str, other: Key) -> None:
        links = dict.fromkeys((*group[id].links, Link("contradicts", other)))
        group[id] = group[id]._replace(links=tuple(links))

    for id in list(drafts):
        goal = pattern_goal(drafts[id].body)
        pair_keys = goal_pair_keys(goal_terms(goal))
        shared = Counter(other for pair_key in pair_keys for other in ids_by_key[pair_key] if id < other)
        for other, _ in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0]))[:_MAX_SIMILAR]:
            if is_contradiction(drafts[id], drafts[other]):
                link(drafts, id, drafts[other].key)
                link(drafts, other, drafts[id].key)
        known = reader.get(drafts[id].key)
        names = ("pattern", "correct_approach", "incorrect_approach")
        if known is not None and all(known.body.get(name) == drafts[id].body.get(name) for name in names):
            continue  # the pattern says the same as before
        for record in known_patterns.find_by_words(goal):
            if record.id not in drafts and is_contradiction(drafts[id], record):
                link(drafts, id, record.key)
                if Link("contradicts", drafts[id].key) not in record.links:
                    labels = with_run_label(record, label)
                    known_drafts.setdefault(record.id, draft_from(record, labels=labels, expected=record.version))
                    link(known_drafts, record.id, drafts[id].key)
    return list(known_drafts.values())


class _KnownPatterns:
    """Lookup of the stored patterns of a scope."""

    def __init__(self, reader: Reader, scope: str, comparison: ResolutionComparison) -> None:
        self._comparison = comparison
        self._reader = reader
        self._scope = scope
        self._written: list[Record] | None = None
        self._exist = any(row.live for row in reader.tally() if (row.scope, row.kind) == (scope, PATTERN))

    def find_similar(
        self, extracted: ExtractedPattern, members: Sequence[EpisodeTraits], excluded: Mapping[str, Draft]
    ) -> Record | None:
        """Return a pattern with the same sources or the same words as the extracted one, or None."""
        member_keys = {member.key for member in members}
        for record in self._candidates(extracted.goal, members) if self._exist else ():
            item = KnowledgeItem(record)
            if item.superseded_by is not None or item.id in excluded:
                continue
            shared = len(member_keys.intersection(item.sources))
            if 2 * shared >= max(2, len(item.sources)) or is_same_pattern(extracted, item):
                return record
        return self._find_by_meaning(extracted)

    def _find_by_meaning(self, extracted: ExtractedPattern) -> Record | None:
        """Return the pattern written by a person or agent whose text solves the same error in other words, or None."""
        solved = extracted.solved
        if solved is None or not self._exist:
            return None
        if self._written is None:
            records = self._reader.read(
                Query(kinds=(PATTERN,), scopes=(self._scope,), newest_first=True, limit=_MAX_MATCHES)
            )
            self._written = [record for record in records if is_written_by_hand(record)]
        ranked = []
        for record in self._written:
            item = KnowledgeItem(record)
            conditions = " ".join(map(str, record.body.get("conditions", ()))) or item.says
            written = SolvedError(item.says, "", conditions, item.approach or item.says)
            if item.superseded_by is None and not is_opposed(extracted, item):
                ranked.append((-self._comparison.similarity(solved, written), record.id, record))
        best = min(ranked, key=lambda row: row[:2], default=None)
        return best[2] if best is not None and -best[0] >= MIN_SIMILARITY else None

    def _candidates(self, goal: str, members: Sequence[EpisodeTraits]) -> Iterator[Record]:
        """Yield the patterns that cite the most members, then those that share words with the goal."""
        cited: Counter[Key] = Counter()
        for member in members[-_MAX_SIMILAR:]:
            cited.update(derived_keys(self._reader, member.key, PATTERN))
        for key in sorted(cited, key=lambda key: (-cited[key], key)):
            if (record := self._reader.get(key)) is not None:
                yield record
        yield from self.find_by_words(goal)

    def find_by_words(self, goal: str) -> list[Record]:
        """Return the patterns that share the rarest words of a goal, best first."""
        terms = goal_terms(goal)
        if not self._exist or not terms:
            return []
        frequency = self._reader.frequency(sorted(terms))  # episodes share the words; rare ones distinguish patterns
        rarest = sorted(terms, key=lambda term: (frequency[term], term))
        totals = accumulate(frequency[term] for term in rarest)
        chosen = rarest[: max(1, sum(total <= _MAX_MATCHES for total in totals))]
        query = Query(kinds=(PATTERN,), scopes=(self._scope,), limit=_MAX_SIMILAR)
        return [match.record for match in self._reader.match_text(" ".join(chosen), query, ranks_only=True)]
