"""Briefing: the patterns, similar episodes, skills and warnings that matter for a task before it begins.

The mixture is that of the document: five patterns and facts at weight 0.5, three episodes at 0.3, successful ones first,
skills at 0.2; of all these the best five. The score of each is ``weight · (0.8 · likeness + 0.2 · recency)``, for a
pattern also weighted by its confidence. ``likeness`` is the larger of the cosine of the embeddings and the share of the
goal's keywords that the text has; ``recency`` halves every thirty days. Memories that are not like the goal at all are
left out, so an empty result is possible.

A result shows one line per memory; ``RelevantMemories.detail`` returns the whole record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lukasa.core.clock import to_iso
from lukasa.core.freshness import describe_freshness, describe_left_out, is_expired, stated_at
from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput
from lukasa.experience.episodes import EPISODE, Episode, is_success
from lukasa.experience.knowledge import ANTIPATTERN, FACT, PATTERN, KnowledgeItem, derived_keys
from lukasa.experience.skills import SKILL, Skill, Skills, keyword_stems, slugify
from lukasa.journal import Journal
from lukasa.models.token_counter import open_token_counter
from lukasa.recall.memories import MemorySource, recall_memories
from lukasa.recall.prompt import PromptBlock, PromptItem, build_fenced_block, to_one_line
from lukasa.recall.recall import MAX_QUESTION_LENGTH, LeftOutRecord, Recall, RecallHit
from lukasa.recall.unconfirmed_orders import (
    CONSOLIDATED,
    ORDERS,
    find_unconfirmed_orders,
    is_confirmed_by_owner,
    split_by_reason,
)

MAX_KNOWLEDGE, MAX_EPISODES, MAX_SKILLS = 5, 3, 3
KIND_WEIGHTS: Mapping[str, float] = {PATTERN: 0.5, FACT: 0.5, EPISODE: 0.3, SKILL: 0.2, ANTIPATTERN: 0.5}
MAX_ENTRIES = 5
_MIN_COSINE, _MIN_WORD_SHARE = 0.35, 0.3
_MIN_NAMED_SHARE = 0.5
_HALF_LIFE_DAYS = 30
_MAX_ANTIPATTERNS = 5
_MAX_LINE_CHARS = 200
ONE_VOICE = "one voice"
"""Why a pattern is left out: it was made of one other agent's episodes, and the owner has not confirmed it."""
_LeftOut = dict[Key, LeftOutRecord]


@dataclass(frozen=True, slots=True)
class BriefingEntry:
    """One memory with its likeness to the goal and its score."""

    record: Record
    likeness: float
    score: float
    voices: str = ""
    """Who says so: the author of a pattern's only source, or how many independent authors it has."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def line(self) -> str:
        """The memory's id, gist and author unless that is the owner, safe to put into a prompt or a file."""
        by = self.voices or self.record.author
        return f"{summary_line(self.record)} (by {_safe_line(by)})" if by else summary_line(self.record)


@dataclass(frozen=True, slots=True)
class RelevantMemories:
    """The memories found for a goal, best first; expired ones are in ``left_out``."""

    goal: str
    entries: tuple[BriefingEntry, ...]
    asked_at: datetime
    left_out: tuple[LeftOutRecord, ...] = ()

    def lines(self) -> list[str]:
        return [entry.line for entry in self.entries]

    def detail(self, id: str) -> Record | None:
        """Return the whole record of one entry, or None."""
        return next((entry.record for entry in self.entries if entry.id == id), None)

    def block(self, budget: int = 1_500, *, full: bool = False) -> PromptBlock:
        """Build a fenced prompt block of the lines, or of the full texts, within a budget of tokens."""
        return _render_block(self.entries, self.asked_at, self.left_out, budget, full=full)


@dataclass(frozen=True, slots=True)
class Briefing:
    """A task whose context holds the memories that matter for it; expired ones are in ``left_out``."""

    task: dict[str, Any]
    relevant: tuple[BriefingEntry, ...]
    avoid: tuple[BriefingEntry, ...]
    skills: tuple[BriefingEntry, ...]
    asked_at: datetime
    left_out: tuple[LeftOutRecord, ...] = ()
    known: tuple[BriefingEntry, ...] = ()
    """The statements of the included sources about the task, lasting facts first."""

    @property
    def context(self) -> dict[str, Any]:
        return self.task["context"]  # type: ignore[no-any-return]  # ``build_briefing`` makes it a dict

    def block(self, budget: int = 1_500, *, full: bool = False) -> PromptBlock:
        """Build a fenced prompt block of all entries, each with its age, within a budget of tokens."""
        entries = {entry.record.key: entry for entry in (*self.known, *self.avoid, *self.relevant, *self.skills)}
        return _render_block(entries.values(), self.asked_at, self.left_out, budget, full=full)


def find_relevant(
    journal: Journal, recall: Recall, skills: Skills, now: datetime, goal: str, k: int = MAX_ENTRIES
) -> RelevantMemories:
    """Find the memories that matter for a goal; the module describes how they are scored."""
    left_out: _LeftOut = {}
    asked, goal = goal, goal[:MAX_QUESTION_LENGTH]
    successes = _ask(recall, left_out, goal, MAX_EPISODES, kinds=(EPISODE,), labels=("outcome=success",))
    episodes = _score_hits(successes, goal, now)
    if len(episodes) < MAX_EPISODES:
        known = {entry.record.key for entry in episodes}
        others = _ask(recall, left_out, goal, 3 * MAX_EPISODES, kinds=(EPISODE,))
        episodes += _score_hits([hit for hit in others if hit.record.key not in known], goal, now)
    episodes.sort(key=lambda entry: (not is_success(Episode(entry.record).outcome), *_sort_key(entry)))
    del episodes[MAX_EPISODES:]
    knowledge = _score_hits(_ask(recall, left_out, goal, 4 * MAX_KNOWLEDGE, kinds=(PATTERN, FACT)), goal, now)
    knowledge += _find_derived(journal, episodes, PATTERN, now)
    entries = [*_best_current(knowledge, MAX_KNOWLEDGE, now, left_out), *episodes, *_find_skills(skills, now, goal)]
    entries = leave_out_unconfirmed(journal, entries, left_out)
    return RelevantMemories(asked, tuple(sorted(entries, key=_sort_key)[:k]), now, tuple(left_out.values()))


def build_briefing(
    journal: Journal, recall: Recall, skills: Skills, now: datetime, task: str | Mapping[str, Any],
    *, budget: int | None = None, include: Iterable[MemorySource] = (),
) -> Briefing:  # fmt: skip
    """Return the task with relevant_patterns, avoid_these and applicable_skills in its context.

    ``include`` adds known_facts from the vault, knowledge or conversations. ``budget`` limits the tokens of these lines:
    the best of each group are taken in turn. Raise ``InvalidInput`` for a task without a goal.
    """
    fields: dict[str, Any] = {"goal": task} if isinstance(task, str) else dict(task)
    context = fields.get("context", {})
    if not isinstance(context, Mapping):
        raise InvalidInput("The context of a task must be an object.")
    candidates = [fields.get("goal"), context.get("goal"), *map(fields.get, ("description", "title", "type"))]
    goal = next((text for text in candidates if isinstance(text, str) and text.strip()), "")
    if not goal:
        raise InvalidInput("The task has no goal.", hint="Say what is to be done: {'goal': '…'}")
    types = [str(fields[name]) for name in ("type", "action_type") if isinstance(fields.get(name), str)]
    goal, types = goal[:MAX_QUESTION_LENGTH], [type[:MAX_QUESTION_LENGTH] for type in types]
    question = " ".join((goal, *types))

    relevant = find_relevant(journal, recall, skills, now, goal)
    left_out = {entry.record.key: entry for entry in relevant.left_out}
    # Anti-patterns about the goal, and those derived from errors of similar tasks.
    warnings = _ask(recall, left_out, question, 2 * _MAX_ANTIPATTERNS, kinds=(ANTIPATTERN,))
    failed = _ask(recall, left_out, question, 2 * MAX_EPISODES, kinds=(EPISODE,), labels=("errors=yes",))
    avoid = _score_hits(warnings, question, now)
    avoid += _find_derived(journal, _score_hits(failed, question, now), ANTIPATTERN, now)
    avoid = leave_out_unconfirmed(journal, _best_current(avoid, _MAX_ANTIPATTERNS, now, left_out), left_out)
    fitting = [*_find_skills(skills, now, question), *_find_named_skills(skills, now, types)]
    found = {entry.record.key: entry for entry in leave_out_unconfirmed(journal, fitting, left_out)}
    facts: list[Record] = []
    if sources := list(include):
        facts, gone = recall_memories(recall, goal, sources)
        left_out |= {entry.record.key: entry for entry in gone if entry.reason == ORDERS}
    shown = {entry.record.key for entry in (*relevant.entries, *avoid)}
    facts_found = [BriefingEntry(record, 1.0, 1.0) for record in facts if record.key not in shown]
    known_facts = leave_out_unconfirmed(journal, facts_found, left_out)
    groups = [known_facts, list(relevant.entries), avoid, sorted(found.values(), key=_sort_key)[:MAX_SKILLS]]
    if budget is not None:
        counter, all_groups, groups = open_token_counter(), groups, [[], [], [], []]
        for index in range(max(map(len, all_groups))):
            for chosen, group in zip(groups, all_groups, strict=True):
                if index >= len(group):
                    continue
                if (cost := counter(group[index].line) + 1) <= budget:
                    budget -= cost
                    chosen.append(group[index])
                else:
                    record = group[index].record
                    left_out[record.key] = LeftOutRecord(record, "budget")
    sections = ("known_facts", "relevant_patterns", "avoid_these", "applicable_skills")
    filled = {name: [entry.line for entry in group] for name, group in zip(sections, groups, strict=True)}
    if not sources:
        del filled["known_facts"]
    task_with_context = {**fields, "context": {**context, **filled}}
    known, helpful, warned, skilled = map(tuple, groups)
    return Briefing(task_with_context, helpful, warned, skilled, now, tuple(left_out.values()), known)


def summary_line(record: Record) -> str:
    """Summarise a record in one line: its id, then its gist."""
    if record.kind == SKILL:
        return f"[skill: {_safe_line(record.id)}] {_safe_line(Skill(record).title)}"
    gist = _safe_line(record.text)
    if record.kind == EPISODE:
        episode = Episode(record)
        ending = "succeeded" if is_success(episode.outcome) else f"ended in {episode.outcome}"
        gist = f"{_safe_line(episode.goal)} ({_safe_line(ending)})"
    elif record.kind in (PATTERN, FACT, ANTIPATTERN):
        item = KnowledgeItem(record)
        fix = f" → {_safe_line(item.approach)}" if record.kind == ANTIPATTERN and item.approach else ""
        gist = f"{_safe_line(item.says)}{fix}"
    return f"[{_safe_line(record.id)}] {gist}"


def _safe_line(text: str) -> str:
    """Return a text as one short line without anything that a prompt or a terminal would obey."""
    line = to_one_line(text)
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + "…"


def _ask(recall: Recall, left_out: _LeftOut, question: str, k: int, **filters: Any) -> tuple[RecallHit, ...]:
    """Return the hits of a question; add those with orders, and expired ones that are like the question, to ``left_out``."""
    result = recall(question, k, min_relevance=0, **filters).without_orders()
    wanted = keyword_stems(question) if result.left_out else set()
    for entry in result.left_out:
        if entry.reason == ORDERS or _word_share(wanted, entry.record.text) >= _MIN_WORD_SHARE:
            left_out[entry.record.key] = entry
    return result.hits


def leave_out_unconfirmed(
    journal: Journal, entries: Sequence[BriefingEntry], left_out: _LeftOut
) -> list[BriefingEntry]:
    """Return the entries without unconfirmed orders and patterns of one other agent alone; add these to ``left_out``."""
    orders = find_unconfirmed_orders(journal, (entry.record for entry in entries))
    shown = []
    with journal.snapshot() as reader:
        for entry in entries:
            record, voices, is_alone = entry.record, "", False
            if record.origin == CONSOLIDATED and record.kind in (PATTERN, ANTIPATTERN):  # made of whose episodes?
                item = KnowledgeItem(record)
                sources = (reader.get(key) for key in item.sources)
                voices = f"{item.voices} authors"
                if item.voices <= 1:
                    voices = next((source.author for source in sources if source is not None), record.author)
                    is_alone = bool(voices) and not is_confirmed_by_owner(reader, record)
            if record.key in orders:
                left_out[record.key] = LeftOutRecord(record, ORDERS)
            elif is_alone and not journal.reach.unlimited and journal.author != voices:
                left_out[record.key] = LeftOutRecord(record, ONE_VOICE)
            else:
                shown.append(replace(entry, voices=voices))
    return shown


def _best_current(
    entries: Iterable[BriefingEntry], limit: int, now: datetime, left_out: _LeftOut
) -> list[BriefingEntry]:
    """Return the best entries, each record once, without superseded ones; add expired ones to ``left_out``."""
    best: dict[Key, BriefingEntry] = {}
    for entry in sorted(entries, key=_sort_key):
        if is_expired(entry.record, now):
            left_out[entry.record.key] = LeftOutRecord(entry.record, "expired")
        elif KnowledgeItem(entry.record).superseded_by is None:
            best.setdefault(entry.record.key, entry)
    return list(best.values())[:limit]


def _find_derived(journal: Journal, episodes: Sequence[BriefingEntry], kind: str, now: datetime) -> list[BriefingEntry]:
    """Find the knowledge of a kind that was derived from these episodes; it takes over their likeness to the goal."""
    found = []
    with journal.snapshot() as reader:
        for episode in episodes:
            for key in derived_keys(reader, episode.record.key, kind):
                if (record := reader.get(key)) is not None:
                    found.append(BriefingEntry(record, episode.likeness, _compute_score(record, episode.likeness, now)))
    return found


def _find_named_skills(skills: Skills, now: datetime, types: Sequence[str]) -> list[BriefingEntry]:
    """Find the skills that a type of task names: by id, or by at least half of its keywords in id and title."""
    found = []
    for type in types:
        words = type.replace("_", " ").replace("-", " ")
        wanted = keyword_stems(words)
        by_id = [skill for id in dict.fromkeys((type, slugify(type))) if (skill := skills.get(id)) is not None]
        for skill in (*by_id, *skills.search(words, MAX_SKILLS)):
            likeness = 1.0 if skill in by_id else _word_share(wanted, f"{skill.title} {skill.id}".replace("-", " "))
            if likeness >= _MIN_NAMED_SHARE:
                found.append(BriefingEntry(skill.record, likeness, _compute_score(skill.record, likeness, now)))
    return found


def _find_skills(skills: Skills, now: datetime, goal: str) -> list[BriefingEntry]:
    found, wanted = [], keyword_stems(goal)
    for skill in skills.search(goal, MAX_SKILLS):
        likeness = _word_share(wanted, skill.record.text)
        if likeness >= _MIN_WORD_SHARE:
            rate = 0.5 if skill.success_rate is None else skill.success_rate
            score = _compute_score(skill.record, likeness, now) * (0.75 + 0.5 * rate)
            found.append(BriefingEntry(skill.record, likeness, score))
    return found


def _score_hits(hits: Iterable[RecallHit], goal: str, now: datetime) -> list[BriefingEntry]:
    found, wanted = [], keyword_stems(goal)
    for hit in hits:
        share, cosine = _word_share(wanted, hit.record.text), hit.hit.candidate.cosine or 0.0
        if share >= _MIN_WORD_SHARE or cosine >= _MIN_COSINE:
            likeness = max(share, cosine)
            found.append(BriefingEntry(hit.record, likeness, _compute_score(hit.record, likeness, now)))
    return found


def _word_share(wanted: set[str], text: str) -> float:
    """Return the share of some keywords that a text has."""
    return len(wanted & keyword_stems(text)) / len(wanted) if wanted else 0.0


def _compute_score(record: Record, likeness: float, now: datetime) -> float:
    days = max(0.0, (now - record.moment).total_seconds() / 86_400)
    confidence = KnowledgeItem(record).confidence if record.kind == PATTERN else 1.0
    recency = float(0.5 ** (days / _HALF_LIFE_DAYS))
    return KIND_WEIGHTS[record.kind] * (0.8 * min(likeness, 1.0) + 0.2 * recency) * (0.5 + 0.5 * confidence)


def _sort_key(entry: BriefingEntry) -> tuple[float, str, str]:
    return -round(entry.score, 9), entry.record.kind, entry.record.id


def _render_block(
    entries: Iterable[BriefingEntry], now: datetime, left_out: Iterable[LeftOutRecord], budget: int, *, full: bool
) -> PromptBlock:
    items = [
        PromptItem(
            entry.record.text if full else summary_line(entry.record), str(entry.record.key),
            entry.voices or entry.record.author,
            to_iso(stated_at(entry.record))[:16], age=describe_freshness(entry.record, now),
        )
        for entry in entries
    ]  # fmt: skip
    closing = describe_left_out(*split_by_reason(left_out))
    return build_fenced_block(items, budget=budget, counter=open_token_counter(), closing=closing)
