"""What matters for a task before it begins: patterns, similar episodes, skills, and what to avoid.

The document's mixture: five patterns and facts at weight 0.5, three episodes at 0.3, successful ones first, skills at
0.2; of all these the best five. Each counts with ``weight · (0.8 · likeness + 0.2 · recency)``, a pattern also by its
confidence. ``likeness`` is the cosine of meaning or the share of the goal's words that are there, whichever is more;
``recency`` halves every thirty days. What is not like the goal at all is left out, so an empty answer is possible.

An answer is one line per memory first; the whole record comes on demand (``Relevant.detail``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lukasa.clock import to_iso
from lukasa.errors import InvalidInput
from lukasa.experience.episode import EPISODE, Episode, is_success
from lukasa.experience.knowledge_items import ANTIPATTERN, FACT, PATTERN, KnowledgeItem
from lukasa.experience.skills import SKILL, Skill, Skills
from lukasa.journal import Journal
from lukasa.models.token_counter import open_token_counter
from lukasa.prompt import PromptBlock, PromptItem, build_fenced_block, neutralise
from lukasa.recall.recall import Recall, RecallHit
from lukasa.record import DERIVED_FROM, Key, Record
from lukasa.text.terms import extract_keywords, stem_word

MAX_KNOWLEDGE, MAX_EPISODES, MAX_SKILLS = 5, 3, 3
KIND_WEIGHTS: Mapping[str, float] = {PATTERN: 0.5, FACT: 0.5, EPISODE: 0.3, SKILL: 0.2, ANTIPATTERN: 0.5}
MAX_ENTRIES = 5
_MIN_COSINE, _MIN_WORD_SHARE = 0.35, 0.3
_HALF_LIFE_DAYS = 30
_MAX_ANTIPATTERNS = 5
_MAX_LINE_CHARS = 200


@dataclass(frozen=True, slots=True)
class BriefingEntry:
    """One memory in one line, and what it is like the goal by."""

    record: Record
    likeness: float
    score: float

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def line(self) -> str:
        """The memory's id and gist, safe to stand in a prompt or a file."""
        return summary_line(self.record)


@dataclass(frozen=True, slots=True)
class RelevantMemories:
    """What was found for a goal, best first."""

    goal: str
    entries: tuple[BriefingEntry, ...]

    def lines(self) -> list[str]:
        return [entry.line for entry in self.entries]

    def detail(self, id: str) -> Record | None:
        """The whole record of one entry."""
        return next((entry.record for entry in self.entries if entry.id == id), None)

    def block(self, budget: int = 1_000, *, full: bool = False) -> PromptBlock:
        """The lines, or the full texts, as a fenced piece of prompt within a budget of tokens."""
        return _render_block(self.entries, budget, full=full)


@dataclass(frozen=True, slots=True)
class Briefing:
    """A task with what is known about it in its context."""

    task: dict[str, Any]
    relevant: tuple[BriefingEntry, ...]
    avoid: tuple[BriefingEntry, ...]
    skills: tuple[BriefingEntry, ...]

    @property
    def context(self) -> dict[str, Any]:
        return self.task["context"]  # type: ignore[no-any-return]  # made by ``brief``

    def block(self, budget: int = 1_000, *, full: bool = False) -> PromptBlock:
        """Everything as one fenced piece of prompt within a budget of tokens."""
        return _render_block((*self.avoid, *self.relevant, *self.skills), budget, full=full)


def find_relevant(
    journal: Journal, recall: Recall, skills: Skills, now: datetime, goal: str, k: int = MAX_ENTRIES
) -> RelevantMemories:
    """The memories that matter for a goal; see above."""
    episodes = _find_episodes(recall, now, goal)
    found = [*_find_knowledge(journal, recall, now, goal, episodes), *episodes, *_find_skills(skills, now, goal)]
    return RelevantMemories(goal, tuple(sorted(found, key=_sort_key)[:k]))


def build_briefing(
    journal: Journal, recall: Recall, skills: Skills, now: datetime, task: str | Mapping[str, Any],
    *, budget: int | None = None,
) -> Briefing:  # fmt: skip
    """A task with relevant_patterns, avoid_these and applicable_skills in its context, within a budget of tokens."""
    told: dict[str, Any] = {"goal": task} if isinstance(task, str) else dict(task)
    context = told.get("context", {})
    if not isinstance(context, Mapping):
        raise InvalidInput("The context of a task must be an object.")
    named = (told.get("goal"), context.get("goal"), told.get("description"), told.get("title"), told.get("type"))
    goal = next((name for name in named if isinstance(name, str) and name.strip()), "")
    if not goal:
        raise InvalidInput("The task has no goal.", hint="Say what is to be done: {'goal': '…'}")
    kind = " ".join(str(told[name]) for name in ("type", "action_type") if isinstance(told.get(name), str))
    chosen = find_relevant(journal, recall, skills, now, goal).entries
    avoid = _find_antipatterns(journal, recall, now, f"{goal} {kind}".strip())
    fitting = tuple(sorted(_find_skills(skills, now, f"{goal} {kind}".strip()), key=_sort_key))
    patterns = tuple(entry for entry in chosen if entry.record.kind != SKILL)
    if budget is not None:
        patterns, avoid, fitting = _fit_budget(budget, patterns, avoid, fitting)
    filled = {
        "relevant_patterns": [entry.line for entry in patterns],
        "avoid_these": [entry.line for entry in avoid],
        "applicable_skills": [entry.line for entry in fitting],
    }
    return Briefing({**told, "context": {**context, **filled}}, patterns, avoid, fitting)


def summary_line(record: Record) -> str:
    """A record in one line: its id, then what it says."""
    if record.kind == SKILL:
        return f"[skill: {_safe_line(record.id)}] {_safe_line(Skill(record).title)}"
    if record.kind == EPISODE:
        episode = Episode(record)
        ended = {True: "succeeded"}.get(is_success(episode.outcome), f"ended in {episode.outcome}")
        return f"[{_safe_line(record.id)}] {_safe_line(episode.goal)} ({_safe_line(ended)})"
    if record.kind == ANTIPATTERN:
        item = KnowledgeItem(record)
        fix = f" → {_safe_line(item.approach)}" if item.approach else ""
        return f"[{_safe_line(record.id)}] {_safe_line(item.says)}{fix}"
    if record.kind in (PATTERN, FACT):
        return f"[{_safe_line(record.id)}] {_safe_line(KnowledgeItem(record).says)}"
    return f"[{_safe_line(record.id)}] {_safe_line(record.text)}"


def _safe_line(text: str) -> str:
    """One short line without anything that a prompt or a terminal would obey."""
    line = " ".join(neutralise(text).split())
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + "…"


def _find_knowledge(
    journal: Journal, recall: Recall, now: datetime, goal: str, similar: Sequence[BriefingEntry]
) -> list[BriefingEntry]:
    """Patterns and facts that speak of the goal, and patterns that were drawn from similar episodes."""
    found = _score_hits(recall(goal, 4 * MAX_KNOWLEDGE, kinds=(PATTERN, FACT)).hits, goal, now)
    return _best_current(found + _find_derived(journal, similar, PATTERN, now), MAX_KNOWLEDGE)


def _best_current(entries: Iterable[BriefingEntry], k: int) -> list[BriefingEntry]:
    """The best entries, each record once, without what was superseded."""
    best: dict[Key, BriefingEntry] = {}
    for entry in sorted(entries, key=_sort_key):
        if KnowledgeItem(entry.record).superseded_by is None:
            best.setdefault(entry.record.key, entry)
    return list(best.values())[:k]


def _find_derived(journal: Journal, episodes: Sequence[BriefingEntry], kind: str, now: datetime) -> list[BriefingEntry]:
    """The knowledge of a kind that these episodes gave rise to; it is as like the goal as they are."""
    found = []
    with journal.snapshot() as reader:
        for episode in episodes:
            for one in reader.neighbours(episode.record.key, DERIVED_FROM):
                if one.direction == "in" and one.key.kind == kind and (record := reader.get(one.key)) is not None:
                    found.append(BriefingEntry(record, episode.likeness, _compute_score(record, episode.likeness, now)))
    return found


def _find_episodes(recall: Recall, now: datetime, goal: str) -> list[BriefingEntry]:
    good = recall(goal, MAX_EPISODES, kinds=(EPISODE,), labels=("outcome=success",)).hits
    found = _score_hits(good, goal, now)
    if len(found) < MAX_EPISODES:
        known = {entry.record.key for entry in found}
        others = [hit for hit in recall(goal, 3 * MAX_EPISODES, kinds=(EPISODE,)).hits if hit.record.key not in known]
        found += _score_hits(others, goal, now)
    return sorted(found, key=lambda entry: (not is_success(Episode(entry.record).outcome), *_sort_key(entry)))[
        :MAX_EPISODES
    ]


def _find_skills(skills: Skills, now: datetime, goal: str) -> list[BriefingEntry]:
    found = []
    for skill in skills.search(goal, MAX_SKILLS):
        alike = _word_share(goal, skill.record.text)
        if alike >= _MIN_WORD_SHARE:
            rate = 0.5 if skill.success_rate is None else skill.success_rate
            found.append(
                BriefingEntry(skill.record, alike, _compute_score(skill.record, alike, now) * (0.75 + 0.5 * rate))
            )
    return found


def _find_antipatterns(journal: Journal, recall: Recall, now: datetime, goal: str) -> tuple[BriefingEntry, ...]:
    """Anti-patterns that speak of the goal, and those that similar tasks ran into."""
    told = _score_hits(recall(goal, 2 * _MAX_ANTIPATTERNS, kinds=(ANTIPATTERN,)).hits, goal, now)
    similar = _score_hits(recall(goal, 2 * MAX_EPISODES, kinds=(EPISODE,), labels=("errors=yes",)).hits, goal, now)
    return tuple(_best_current(told + _find_derived(journal, similar, ANTIPATTERN, now), _MAX_ANTIPATTERNS))


def _score_hits(hits: Iterable[RecallHit], goal: str, now: datetime) -> list[BriefingEntry]:
    found = []
    for hit in hits:
        words, meaning = _word_share(goal, hit.record.text), hit.hit.candidate.cosine or 0.0
        if words >= _MIN_WORD_SHARE or meaning >= _MIN_COSINE:
            alike = max(words, meaning)
            found.append(BriefingEntry(hit.record, alike, _compute_score(hit.record, alike, now)))
    return found


def _word_share(goal: str, text: str) -> float:
    """The share of the goal's telling words that a text has."""
    wanted = {stem_word(word) for word in extract_keywords(goal)} - {""}
    there = {stem_word(word) for word in extract_keywords(text)}
    return len(wanted & there) / len(wanted) if wanted else 0.0


def _compute_score(record: Record, similarity: float, now: datetime) -> float:
    days = max(0.0, (now - record.moment).total_seconds() / 86_400)
    sure = KnowledgeItem(record).confidence if record.kind == PATTERN else 1.0
    recency = float(0.5 ** (days / _HALF_LIFE_DAYS))
    return KIND_WEIGHTS[record.kind] * (0.8 * min(similarity, 1.0) + 0.2 * recency) * (0.5 + 0.5 * sure)


def _sort_key(entry: BriefingEntry) -> tuple[float, str, str]:
    return -round(entry.score, 9), entry.record.kind, entry.record.id


def _fit_budget(budget: int, *groups: tuple[BriefingEntry, ...]) -> tuple[tuple[BriefingEntry, ...], ...]:
    """The first of each group in turn, as long as their lines fit into the budget."""
    counter = open_token_counter()
    chosen: list[list[BriefingEntry]] = [[] for _ in groups]
    left = budget
    for place in range(max(map(len, groups), default=0)):
        for kept, group in zip(chosen, groups, strict=True):
            if place < len(group) and (cost := counter(group[place].line) + 1) <= left:
                left -= cost
                kept.append(group[place])
    return tuple(tuple(kept) for kept in chosen)


def _render_block(entries: Sequence[BriefingEntry], budget: int, *, full: bool) -> PromptBlock:
    told = [
        PromptItem(
            entry.record.text if full else entry.line, str(entry.record.key), entry.record.author,
            to_iso(entry.record.moment)[:16],
        )
        for entry in entries
    ]  # fmt: skip
    return build_fenced_block(told, budget=budget, counter=open_token_counter())
