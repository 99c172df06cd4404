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
from lukasa.episodes import EPISODE, Episode, went_well
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.knowledge import ANTIPATTERN, FACT, PATTERN, Knowing
from lukasa.prompt import Block, Told, fence, open_counter
from lukasa.prompt.fencing import harmless
from lukasa.recall.room import Recall, Recollection
from lukasa.recall.words import stem, telling_words
from lukasa.record import DERIVED_FROM, Key, Record
from lukasa.skills import SKILL, Skill, Skills

SEMANTIC, EPISODIC, SKILLED = 5, 3, 3
WEIGHTS: Mapping[str, float] = {PATTERN: 0.5, FACT: 0.5, EPISODE: 0.3, SKILL: 0.2, ANTIPATTERN: 0.5}
BEST = 5
_LEAST_MEANING, _LEAST_WORDS = 0.35, 0.3
_HALF_LIFE_DAYS = 30
_AVOIDED = 5
_ONE_LINE = 200


@dataclass(frozen=True, slots=True)
class Entry:
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
        return line_of(self.record)


@dataclass(frozen=True, slots=True)
class Relevant:
    """What was found for a goal, best first."""

    goal: str
    entries: tuple[Entry, ...]

    def lines(self) -> list[str]:
        return [entry.line for entry in self.entries]

    def detail(self, id: str) -> Record | None:
        """The whole record of one entry."""
        return next((entry.record for entry in self.entries if entry.id == id), None)

    def block(self, budget: int = 1_000, *, full: bool = False) -> Block:
        """The lines, or the full texts, as a fenced piece of prompt within a budget of tokens."""
        return _block(self.entries, budget, full=full)


@dataclass(frozen=True, slots=True)
class Briefing:
    """A task with what is known about it in its context."""

    task: dict[str, Any]
    relevant: tuple[Entry, ...]
    avoid: tuple[Entry, ...]
    skills: tuple[Entry, ...]

    @property
    def context(self) -> dict[str, Any]:
        return self.task["context"]  # type: ignore[no-any-return]  # made by ``brief``

    def block(self, budget: int = 1_000, *, full: bool = False) -> Block:
        """Everything as one fenced piece of prompt within a budget of tokens."""
        return _block((*self.avoid, *self.relevant, *self.skills), budget, full=full)


def relevant(journal: Journal, recall: Recall, skills: Skills, now: datetime, goal: str, k: int = BEST) -> Relevant:
    """The memories that matter for a goal; see above."""
    episodes = _episodic(recall, now, goal)
    found = [*_semantic(journal, recall, now, goal, episodes), *episodes, *_skilled(skills, now, goal)]
    return Relevant(goal, tuple(sorted(found, key=_order)[:k]))


def brief(
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
    chosen = relevant(journal, recall, skills, now, goal).entries
    avoid = _avoid(journal, recall, now, f"{goal} {kind}".strip())
    fitting = tuple(sorted(_skilled(skills, now, f"{goal} {kind}".strip()), key=_order))
    patterns = tuple(entry for entry in chosen if entry.record.kind != SKILL)
    if budget is not None:
        patterns, avoid, fitting = _within(budget, patterns, avoid, fitting)
    filled = {
        "relevant_patterns": [entry.line for entry in patterns],
        "avoid_these": [entry.line for entry in avoid],
        "applicable_skills": [entry.line for entry in fitting],
    }
    return Briefing({**told, "context": {**context, **filled}}, patterns, avoid, fitting)


def line_of(record: Record) -> str:
    """A record in one line: its id, then what it says."""
    if record.kind == SKILL:
        return f"[skill: {_plain(record.id)}] {_plain(Skill(record).title)}"
    if record.kind == EPISODE:
        episode = Episode(record)
        ended = {True: "succeeded"}.get(went_well(episode.outcome), f"ended in {episode.outcome}")
        return f"[{_plain(record.id)}] {_plain(episode.goal)} ({_plain(ended)})"
    if record.kind == ANTIPATTERN:
        item = Knowing(record)
        fix = f" → {_plain(item.approach)}" if item.approach else ""
        return f"[{_plain(record.id)}] {_plain(item.says)}{fix}"
    if record.kind in (PATTERN, FACT):
        return f"[{_plain(record.id)}] {_plain(Knowing(record).says)}"
    return f"[{_plain(record.id)}] {_plain(record.text)}"


def _plain(text: str) -> str:
    """One short line without anything that a prompt or a terminal would obey."""
    line = " ".join(harmless(text).split())
    return line if len(line) <= _ONE_LINE else line[: _ONE_LINE - 1] + "…"


def _semantic(journal: Journal, recall: Recall, now: datetime, goal: str, similar: Sequence[Entry]) -> list[Entry]:
    """Patterns and facts that speak of the goal, and patterns that were drawn from similar episodes."""
    found = _entries(recall(goal, 4 * SEMANTIC, kinds=(PATTERN, FACT)).hits, goal, now)
    return _living(found + _drawn_from(journal, similar, PATTERN, now), SEMANTIC)


def _living(entries: Iterable[Entry], k: int) -> list[Entry]:
    """The best entries, each record once, without what was superseded."""
    best: dict[Key, Entry] = {}
    for entry in sorted(entries, key=_order):
        if Knowing(entry.record).superseded_by is None:
            best.setdefault(entry.record.key, entry)
    return list(best.values())[:k]


def _drawn_from(journal: Journal, episodes: Sequence[Entry], kind: str, now: datetime) -> list[Entry]:
    """The knowledge of a kind that these episodes gave rise to; it is as like the goal as they are."""
    found = []
    with journal.looking() as reader:
        for episode in episodes:
            for one in reader.neighbours(episode.record.key, DERIVED_FROM):
                if one.direction == "in" and one.key.kind == kind and (record := reader.get(one.key)) is not None:
                    found.append(Entry(record, episode.likeness, _score(record, episode.likeness, now)))
    return found


def _episodic(recall: Recall, now: datetime, goal: str) -> list[Entry]:
    good = recall(goal, EPISODIC, kinds=(EPISODE,), labels=("outcome=success",)).hits
    found = _entries(good, goal, now)
    if len(found) < EPISODIC:
        known = {entry.record.key for entry in found}
        others = [hit for hit in recall(goal, 3 * EPISODIC, kinds=(EPISODE,)).hits if hit.record.key not in known]
        found += _entries(others, goal, now)
    return sorted(found, key=lambda entry: (not went_well(Episode(entry.record).outcome), *_order(entry)))[:EPISODIC]


def _skilled(skills: Skills, now: datetime, goal: str) -> list[Entry]:
    found = []
    for skill in skills.search(goal, SKILLED):
        alike = _shared(goal, skill.record.text)
        if alike >= _LEAST_WORDS:
            rate = 0.5 if skill.success_rate is None else skill.success_rate
            found.append(Entry(skill.record, alike, _score(skill.record, alike, now) * (0.75 + 0.5 * rate)))
    return found


def _avoid(journal: Journal, recall: Recall, now: datetime, goal: str) -> tuple[Entry, ...]:
    """Anti-patterns that speak of the goal, and those that similar tasks ran into."""
    told = _entries(recall(goal, 2 * _AVOIDED, kinds=(ANTIPATTERN,)).hits, goal, now)
    similar = _entries(recall(goal, 2 * EPISODIC, kinds=(EPISODE,), labels=("errors=yes",)).hits, goal, now)
    return tuple(_living(told + _drawn_from(journal, similar, ANTIPATTERN, now), _AVOIDED))


def _entries(hits: Iterable[Recollection], goal: str, now: datetime) -> list[Entry]:
    found = []
    for hit in hits:
        words, meaning = _shared(goal, hit.record.text), hit.hit.candidate.cosine or 0.0
        if words >= _LEAST_WORDS or meaning >= _LEAST_MEANING:
            alike = max(words, meaning)
            found.append(Entry(hit.record, alike, _score(hit.record, alike, now)))
    return found


def _shared(goal: str, text: str) -> float:
    """The share of the goal's telling words that a text has."""
    wanted = {stem(word) for word in telling_words(goal)} - {""}
    there = {stem(word) for word in telling_words(text)}
    return len(wanted & there) / len(wanted) if wanted else 0.0


def _score(record: Record, alike: float, now: datetime) -> float:
    days = max(0.0, (now - record.moment).total_seconds() / 86_400)
    sure = Knowing(record).confidence if record.kind == PATTERN else 1.0
    recency = float(0.5 ** (days / _HALF_LIFE_DAYS))
    return WEIGHTS[record.kind] * (0.8 * min(alike, 1.0) + 0.2 * recency) * (0.5 + 0.5 * sure)


def _order(entry: Entry) -> tuple[float, str, str]:
    return -round(entry.score, 9), entry.record.kind, entry.record.id


def _within(budget: int, *groups: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], ...]:
    """The first of each group in turn, as long as their lines fit into the budget."""
    counter = open_counter()
    chosen: list[list[Entry]] = [[] for _ in groups]
    left = budget
    for place in range(max(map(len, groups), default=0)):
        for kept, group in zip(chosen, groups, strict=True):
            if place < len(group) and (cost := counter(group[place].line) + 1) <= left:
                left -= cost
                kept.append(group[place])
    return tuple(tuple(kept) for kept in chosen)


def _block(entries: Sequence[Entry], budget: int, *, full: bool) -> Block:
    told = [
        Told(
            entry.record.text if full else entry.line, str(entry.record.key), entry.record.author,
            to_iso(entry.record.moment)[:16],
        )
        for entry in entries
    ]  # fmt: skip
    return fence(told, budget=budget, counter=open_counter())
