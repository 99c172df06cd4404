"""Similar episodes and their clusters.

    similarity = 0.7 · goal + 0.2 · actions + 0.1 · errors

``goal`` is the weighted Jaccard index of the goals' stems, where words that occur in any task (``implement``, ``fix``,
``test``) weigh 0.3 and numbers nothing. ``actions`` is ``2 · LCS / (|a| + |b|)`` of the two sequences. ``errors`` is the
Jaccard index of the types of error, and 1 where neither episode met an error. Episodes belong together from 0.5 on, if
their goals reach 0.35: actions alone never make two tasks the same.

The first episode of a cluster is its leader. An episode joins the cluster whose leader is most similar to it, unless both
solved errors that have nothing in common. Else it joins the cluster with the most similar solved error, if there is one
(``resolutions`` says when two are the same), or leads a new cluster. A cluster keeps up to ``_MAX_SOLVED_ERRORS`` solved
errors in different words. Episodes come in log order, so the result is the same every time, and the same whether they come all at once
or run by run. Candidates share a near-duplicate key with the episode (``goal_pair_keys``). The keys are labels on the
clusters' records for a few new episodes, and an index in memory for many, so a run costs what is new, not what is stored.

A cluster keeps its newest members up to ``MAX_SOURCES``, and its pattern follows from those.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b, sha256
from itertools import combinations
from pathlib import PurePosixPath
from typing import Any

from rapidfuzz.distance import Indel

from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.text_cache import cache_texts
from lukasa.experience.consolidation.injection_filter import is_suspicious
from lukasa.experience.consolidation.resolutions import (
    MAX_DIFFERENT_SIMILARITY,
    MIN_SIMILARITY,
    ResolutionComparison,
    SolvedError,
    SolvedErrorIndex,
)
from lukasa.experience.episodes import EPISODE, Episode, is_failure, is_success
from lukasa.experience.knowledge import MAX_SOURCES, derived_keys
from lukasa.storage.engine import Query, Reader
from lukasa.text.lexicon import STOP_WORDS, WORDS
from lukasa.text.terms import UNSPACED_SCRIPT, find_words, fold_text, stem_word

CLUSTER = "cluster"
_SOLVED_LABEL = "solved=yes"
_MAX_SOLVED_ERRORS = 6
_MAX_LOADED_CLUSTERS = 5_000
_MIN_MEAN_SHARE = 0.8
MIN_CLUSTER_SIMILARITY = 0.5
MIN_GOAL_SIMILARITY = 0.35
_GENERIC_WEIGHT = 0.3
_MAX_KEY_TERMS = 8
_MAX_CLUSTERS_PER_KEY = 40
_MAX_COMPARED = 12
_MAX_ACTIONS = 200
_MAX_GOAL_CHARS = 2_000
_MAX_TEXT_CHARS = 400
_MAX_ERRORS = 20
_VARIABLE_PARTS = re.compile(r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|`[^`\n]{0,200}`|\S*[/\\]\S*|\b\w*\d\w*\b")

_GENERIC_STEMS = frozenset(map(stem_word, WORDS["task_words"]))


@dataclass(frozen=True, slots=True)
class EpisodeError:
    """An error that an episode met."""

    type: str
    message: str
    resolution: str

    @property
    def id(self) -> str:
        """The id of the error's anti-pattern: the same whatever names, paths and numbers the message holds."""
        texts = (self.type, self.message)
        templates = (" ".join(_VARIABLE_PARTS.sub("…", fold_text(text)).split()) for text in texts)
        return "anti-" + sha256("|".join(templates).encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class EpisodeTraits:
    """The features of an episode that consolidation compares. Those with a default play no part in similarity."""

    key: Key
    moment: datetime
    goal: str
    terms: frozenset[str]
    actions: tuple[str, ...]
    errors: tuple[EpisodeError, ...]
    day: str = ""
    conditions: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    phase: str = ""
    outcome: int = 0
    author: str = ""
    is_suspicious: bool = False
    solved_errors: tuple[SolvedError, ...] = ()
    """The errors whose resolution the episode says."""


def extract_traits(episode: Episode) -> EpisodeTraits:
    """Extract the traits of an episode; its texts pass the injection filter once, here."""
    context = episode.context
    phase = context.get("phase", "")
    suffixes = {PurePosixPath(name).suffix for name in _text_items(context.get("files_involved"))}
    errors: dict[EpisodeError, None] = {}
    for error in episode.errors[:_MAX_ERRORS]:
        type, message, resolution = (clean_text(error.get(name, "")) for name in ("type", "message", "resolution"))
        if type or message:
            errors[EpisodeError(type or message, message if type else "", resolution)] = None
    goal = clean_text(episode.goal)
    return EpisodeTraits(
        episode.record.key, episode.timestamp, goal, goal_terms(episode.goal[:_MAX_GOAL_CHARS]),
        episode.actions[:_MAX_ACTIONS], tuple(errors), day=episode.day, author=episode.voice,
        conditions=tuple(clean_text(condition) for condition in _text_items(context.get("constraints"))),
        suffixes=tuple(sorted(suffixes)), phase=clean_text(phase) if isinstance(phase, str) else "",
        outcome=1 if is_success(episode.outcome) else -1 if is_failure(episode.outcome) else 0,
        is_suspicious=is_suspicious(episode.record.body),
        solved_errors=tuple(SolvedError(goal, e.type, e.message, e.resolution) for e in errors if e.resolution),
    )  # fmt: skip


class TraitsReader:
    """The traits of episodes by key, each extracted once in a run."""

    def __init__(self, reader: Reader, extracted: Iterable[EpisodeTraits]) -> None:
        self._reader = reader
        self._traits: dict[Key, EpisodeTraits | None] = {traits.key: traits for traits in extracted}

    def get(self, key: Key) -> EpisodeTraits | None:
        """Return the traits of an episode, or None if the episode cannot be read."""
        if key not in self._traits:
            record = self._reader.get(key)
            self._traits[key] = None if record is None else extract_traits(Episode(record))
        return self._traits[key]


def clean_text(value: object) -> str:
    """Return a text on one line, cut to the length that may become part of a pattern."""
    return " ".join(str(value).split())[:_MAX_TEXT_CHARS] if isinstance(value, str | int | float) else ""


def _text_items(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


@cache_texts(1 << 15, 16_000_000, per_character=10)
def goal_terms(goal: str) -> frozenset[str]:
    """Return the stems of a goal, without numbers, hashes and ids; scripts without spaces give pairs of characters."""
    terms: set[str] = set()
    for word in find_words(fold_text(goal[:_MAX_GOAL_CHARS]).replace("'", " ")):
        if not word.isascii() and UNSPACED_SCRIPT.search(word):
            terms.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif word not in STOP_WORDS and (
            word.isalpha() or (any(map(str.isalpha, word)) and 3 * sum(map(str.isdigit, word)) < len(word))
        ):
            terms.add(stem_word(word) or word)
    return frozenset(terms)


def term_weight(term: str) -> float:
    return _GENERIC_WEIGHT if term in _GENERIC_STEMS else 1.0


def goal_similarity(a: frozenset[str], b: frozenset[str]) -> float:
    shared = sum(term_weight(term) for term in a & b)
    return shared / sum(term_weight(term) for term in a | b) if shared else 0.0


def action_similarity(a: tuple[str, ...], b: tuple[str, ...]) -> float:
    return float(Indel.normalized_similarity(a, b)) if a and b else 0.0


def episode_similarity(a: EpisodeTraits, b: EpisodeTraits) -> float:
    """Return how similar two episodes are, from 0 to 1; the module describes the formula."""
    goal = goal_similarity(a.terms, b.terms)
    if goal < MIN_GOAL_SIMILARITY:
        return 0.0
    types, other_types = {error.type for error in a.errors}, {error.type for error in b.errors}
    errors = len(types & other_types) / len(types | other_types) if types | other_types else 1.0
    return 0.7 * goal + 0.2 * action_similarity(a.actions, b.actions) + 0.1 * errors


@cache_texts(1 << 14, 8_000_000)
def goal_pair_keys(terms: frozenset[str]) -> tuple[str, ...]:
    """Return the near-duplicate keys of a goal: one for each pair of its most distinctive terms."""
    ordered = sorted(terms, key=lambda term: (term in _GENERIC_STEMS, -len(term), term))[:_MAX_KEY_TERMS]
    if len(ordered) < 2:
        return tuple(_pair_key(term, "") for term in ordered)
    return tuple(_pair_key(*sorted(pair)) for pair in combinations(ordered, 2))


def _pair_key(first: str, second: str) -> str:
    return blake2b(f"{first} {second}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


@dataclass(slots=True)
class EpisodeCluster:
    """A leader and the keys of the episodes like it. ``record`` is the stored cluster, if there is one."""

    leader: EpisodeTraits
    members: dict[Key, None] = field(default_factory=dict)
    pattern: str = ""
    record: Record | None = None
    is_changed: bool = False
    solved: dict[SolvedError, dict[str, str]] = field(default_factory=dict)
    """The solved errors of its members in different words, each with its vectors as stored."""

    @property
    def id(self) -> str:
        return self.leader.key.id

    def add_member(self, key: Key) -> None:
        self.members[key] = None
        self.is_changed = True

    def load_members(self, traits: TraitsReader) -> list[EpisodeTraits]:
        """Keep the newest readable members and return them, oldest first. Clear ``is_changed`` if they are as stored."""
        readable = [member for key in self.members if (member := traits.get(key)) is not None]
        members = sorted(readable, key=lambda member: (member.moment, member.key.id))[-MAX_SOURCES:]
        self.members = dict.fromkeys(member.key for member in members)
        if self.record is not None and [key.id for key in self.members] == self.record.body["members"]:
            self.is_changed = False
        return members

    def best_similarity(self, episode: EpisodeTraits, comparison: ResolutionComparison) -> float:
        """Return the similarity of the episode's most similar solved error; 0 if it is unlike the others of the cluster."""
        best = 0.0
        for solved in episode.solved_errors:
            if any(other[1:] == solved[1:] for other in self.solved):
                return 1.0
            if not any(comparison.may_be_same(other, solved) for other in self.solved):
                continue
            similarities = [comparison.similarity(other, solved) for other in self.solved]
            if sum(similarities) >= _MIN_MEAN_SHARE * MIN_SIMILARITY * len(similarities):
                best = max(best, *similarities)
        return best

    def add_solved_errors(self, episode: EpisodeTraits) -> list[SolvedError]:
        """Keep the solved errors of an episode in other words than those that are kept; return them."""
        added = []
        for solved in episode.solved_errors:
            if len(self.solved) < _MAX_SOLVED_ERRORS and all(known[1:] != solved[1:] for known in self.solved):
                self.solved[solved] = {}
                added.append(solved)
        return added

    def has_new_vectors(self, comparison: ResolutionComparison) -> bool:
        """Return whether vectors were computed that the stored cluster lacks; stored, they are not computed again."""
        pairs = ((comparison.stored(solved), vectors) for solved, vectors in self.solved.items())
        return any(new and new["embedder"] != vectors.get("embedder") for new, vectors in pairs)

    def to_draft(self, scope: str, label: str, comparison: ResolutionComparison) -> Draft:
        leader = self.leader
        body: dict[str, Any] = {
            "goal": leader.goal, "terms": sorted(leader.terms), "actions": list(leader.actions),
            "errors": sorted({error.type for error in leader.errors}), "members": [key.id for key in self.members],
        }  # fmt: skip
        body |= {"pattern": self.pattern} if self.pattern else {}
        if self.solved:
            body["solved"] = [
                solved._asdict() | {"vectors": comparison.stored(solved) or vectors}
                for solved, vectors in self.solved.items()
            ]
        return Draft(
            CLUSTER, body=body, id=self.id, scope=scope, origin="consolidation",
            labels=(label, *((_SOLVED_LABEL,) if self.solved else ()), *(f"like={pair_key}" for pair_key in goal_pair_keys(self.leader.terms))),
            links=tuple(Link(DERIVED_FROM, key) for key in dict.fromkeys((self.leader.key, *self.members))),
            expected=0 if self.record is None else self.record.version,
        )  # fmt: skip


def parse_cluster(record: Record) -> EpisodeCluster:
    """Parse a stored cluster. Its leader has the traits that similarity needs and no others."""
    body: Any = record.body
    leader = EpisodeTraits(
        Key(record.scope, EPISODE, record.id), record.moment, body["goal"], frozenset(body["terms"]),
        tuple(body["actions"]), tuple(EpisodeError(type, "", "") for type in body["errors"]),
    )  # fmt: skip
    members = dict.fromkeys(Key(record.scope, EPISODE, id) for id in body["members"])
    solved = {
        SolvedError(*(item[name] for name in SolvedError._fields)): item["vectors"] for item in body.get("solved", ())
    }
    return EpisodeCluster(leader, members, str(body.get("pattern", "")), record, solved=solved)


class ClusterIndex:
    """The clusters of a scope by member and by near-duplicate key: stored ones and those that a run adds.

    With ``stored``, the records of all stored clusters, every lookup is answered from memory: for many new episodes.
    Without it, stored clusters are looked up one by one when they are needed: for a few.
    """

    def __init__(
        self, reader: Reader, scope: str, comparison: ResolutionComparison, stored: Iterable[Record] | None = None
    ) -> None:
        self.comparison = comparison
        self._solved_errors = SolvedErrorIndex(comparison)
        self.clusters: dict[str, EpisodeCluster] = {}
        self._reader = reader
        self._scope = scope
        self._is_loaded = stored is not None
        self._by_member: dict[Key, EpisodeCluster] = {}
        self._by_key: dict[str, list[EpisodeCluster]] = {}
        self._has_all_solved = self._is_loaded
        self._with_solved: set[str] = set()
        for record in stored or ():
            cluster = parse_cluster(record)
            self.add(cluster)
            self._add_stored_solved(cluster)
            self._by_member.update(dict.fromkeys(cluster.members, cluster))

    def add(self, cluster: EpisodeCluster) -> None:
        self.clusters[cluster.id] = cluster
        for pair_key in goal_pair_keys(cluster.leader.terms):
            sharing = self.find_by_key(pair_key)
            if len(sharing) < _MAX_CLUSTERS_PER_KEY:
                sharing.append(cluster)

    def find_by_member(self, episode: Key) -> EpisodeCluster | None:
        if self._is_loaded:
            return self._by_member.get(episode)
        for key in derived_keys(self._reader, episode, CLUSTER):
            record = self._reader.get(key)
            if record is not None and episode in (cluster := self._load(record)).members:
                return cluster
        return None

    def find_by_key(self, pair_key: str) -> list[EpisodeCluster]:
        """Return the clusters whose leader has a near-duplicate key, as a list that ``add`` extends."""
        if pair_key not in self._by_key:
            labels = (f"like={pair_key}",)
            query = Query(kinds=(CLUSTER,), scopes=(self._scope,), labels=labels, limit=_MAX_CLUSTERS_PER_KEY)
            stored = [] if self._is_loaded else self._reader.read(query)
            self._by_key[pair_key] = [self._load(record) for record in stored]
        return self._by_key[pair_key]

    def add_solved_errors(self, episode: EpisodeTraits, cluster: EpisodeCluster) -> None:
        """Keep the solved errors of an episode in its cluster, and index them."""
        for solved in cluster.add_solved_errors(episode):
            self._solved_errors.add(solved, cluster.id)

    def find_by_solved_errors(self, episode: EpisodeTraits) -> list[EpisodeCluster]:
        """Return the clusters that may have the same solved error; stored ones are read once, the newest up to a limit."""
        if not self._has_all_solved:
            self._has_all_solved = True
            query = Query(
                kinds=(CLUSTER,), scopes=(self._scope,), labels=(_SOLVED_LABEL,), newest_first=True,
                limit=_MAX_LOADED_CLUSTERS,
            )  # fmt: skip
            for record in sorted(self._reader.read(query), key=lambda record: record.seq):
                self._add_stored_solved(self._load(record))
        names = (name for solved in episode.solved_errors for name in self._solved_errors.find_nearest(solved))
        return [self.clusters[name] for name in dict.fromkeys(names)]

    def _add_stored_solved(self, cluster: EpisodeCluster) -> None:
        if cluster.id in self._with_solved:
            return
        self._with_solved.add(cluster.id)
        for solved, vectors in cluster.solved.items():
            self.comparison.load(solved, vectors)
            self._solved_errors.add(solved, cluster.id)

    def _load(self, record: Record) -> EpisodeCluster:
        if record.id not in self.clusters:
            self.clusters[record.id] = parse_cluster(record)
        return self.clusters[record.id]


def find_cluster(episode: EpisodeTraits, index: ClusterIndex) -> EpisodeCluster | None:
    """Return the cluster whose leader is most similar to an episode, else the one with the most similar solved error."""
    pair_keys = goal_pair_keys(episode.terms)
    shared = Counter(cluster.id for pair_key in pair_keys for cluster in index.find_by_key(pair_key))
    likely = sorted(shared, key=lambda name: (-shared[name], name))[:_MAX_COMPARED]
    for similarity, id in sorted((-episode_similarity(index.clusters[id].leader, episode), id) for id in likely):
        if -similarity < MIN_CLUSTER_SIMILARITY:
            break
        if not _differ_in_solution(episode, index.clusters[id], index.comparison):
            return index.clusters[id]
    candidates = index.find_by_solved_errors(episode) if episode.solved_errors else []
    ranked = sorted((-cluster.best_similarity(episode, index.comparison), cluster.id) for cluster in candidates)
    return index.clusters[ranked[0][1]] if ranked and -ranked[0][0] >= MIN_SIMILARITY else None


def _differ_in_solution(episode: EpisodeTraits, cluster: EpisodeCluster, comparison: ResolutionComparison) -> bool:
    """Return whether an episode and a cluster solved errors that have nothing in common."""
    pairs = [(a, b) for a in episode.solved_errors for b in cluster.solved]
    if not pairs or any(a[1:] == b[1:] for a, b in pairs) or comparison.embedder is None:
        return False
    return max(comparison.similarity(a, b) for a, b in pairs) < MAX_DIFFERENT_SIMILARITY
