"""Metrics of tasks: their cost, their reward, and a dashboard of the last seven days.

    efficiency   seconds, agents, attempts and retries of each task; a retry is a further attempt or a step that failed
    rewards      outcome     1 for success, 0.5 for something between, 0 for failure
                 efficiency  1 / (1 + retries) · min(1, usual seconds / seconds), where usual is the median of successes
                 preference  a person's score from -1 to 1, mapped to 0 to 1; missing if no person gave one
                 total       0.5 · outcome + 0.3 · efficiency + 0.2 · preference; without the last, the others in proportion

Everything is computed from episodes; only preferences are stored as records.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Link, Record
from lukasa.experience.episodes import EPISODE, Episode, Episodes, is_failure, is_success
from lukasa.experience.gain import MemoryGain, compute_gain, parse_since
from lukasa.experience.record_view import change_by_id
from lukasa.journal import CallerService, Journal
from lukasa.storage.engine import Query, Reader

PREFERENCE = "preference"
DEFAULT_DAYS = 7
_REWARD_WEIGHTS = {"outcome": 0.5, "efficiency": 0.3, "preference": 0.2}


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The cost of one task."""

    task: str
    seconds: float
    agents: tuple[str, ...]
    attempts: int
    retries: int
    succeeded: bool


@dataclass(frozen=True, slots=True)
class EpisodeReward:
    """The reward of one episode, by signal and in total."""

    episode: str
    task: str
    outcome: float
    efficiency: float
    preference: float | None
    total: float


@dataclass(frozen=True, slots=True)
class DashboardDay:
    """One day of the dashboard."""

    day: str
    episodes: int
    succeeded: int
    failed: int
    seconds: float
    errors: int


@dataclass(frozen=True, slots=True)
class TaskDashboard:
    """Figures of the last days."""

    since: str
    until: str
    episodes: int
    tasks: int
    agents: int
    unfinished: int
    success_rate: float | None
    mean_seconds: float | None
    mean_retries: float | None
    mean_reward: float | None
    rewards: Mapping[str, float | None]
    days: tuple[DashboardDay, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"days": [asdict(day) for day in self.days]}


@check_arguments
class TaskMetrics(CallerService):
    """The metrics service of one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._episodes = Episodes(journal, clock)

    def prefer(self, episode: str, score: float, *, note: str = "") -> Outcome:
        """Store a person's score of an episode, from -1 (useless) to 1 (just right). The latest score counts.

        Args:
            episode: The id of the episode.
            score: The score, from -1 (useless) to 1 (just right).
            note: Why the score is what it is.

        Example:
            kept = memory.episodes.record("Fix the login page").unwrap()
            memory.metrics.prefer(kept.id, 0.5, note="Quick, but no test")
        """
        if score.__class__ not in (int, float) or not -1 <= score <= 1:
            return Refused("bad_score", "A preference is a number from -1 to 1.")

        def build_preference(_: Reader, record: Record) -> Sequence[Draft]:
            body = {"episode": record.id, "score": score} | ({"note": note} if note else {})
            labels, links = (f"day={Episode(record).day}",), (Link(DERIVED_FROM, record.key),)
            return [Draft(PREFERENCE, body=body, id=record.id, scope=record.scope, labels=labels, links=links)]

        return change_by_id(self._journal, EPISODE, episode, build_preference)

    def efficiency(self, days: int = DEFAULT_DAYS) -> list[TaskCost]:
        """Return the cost of each task of the last days, the newest last.

        Args:
            days: How many days, today included.

        Example:
            memory.metrics.efficiency(days=30)
        """
        return compute_task_costs(self._read_window(days)[2])

    def rewards(self, days: int = DEFAULT_DAYS) -> list[EpisodeReward]:
        """Return the reward of each episode of the last days.

        Args:
            days: How many days, today included.

        Example:
            memory.metrics.rewards(days=30)
        """
        episodes = self._read_window(days)[2]
        return compute_rewards(episodes, self._read_preferences(episodes))

    def gain(self, since: str = "7d") -> MemoryGain:
        """Return what agents were shown of the memory, what they used of it, and how sessions went with and without it.

        Args:
            since: Days such as ``7d``, or a time.

        Example:
            memory.metrics.gain(since="30d").tokens
        """
        with self._journal.snapshot() as reader:
            return compute_gain(reader, parse_since(since, self._clock))

    def dashboard(self, days: int = DEFAULT_DAYS) -> TaskDashboard:
        """Return the figures of the last days, today included.

        Args:
            days: How many days, today included.

        Example:
            memory.metrics.dashboard(7)
        """
        since, until, episodes = self._read_window(days)
        done = [episode for episode in episodes if not episode.running]
        costs, rewards = compute_task_costs(episodes), compute_rewards(episodes, self._read_preferences(episodes))
        judged = [episode for episode in done if is_success(episode.outcome) or is_failure(episode.outcome)]
        dates = (since.date() + timedelta(days=offset) for offset in range((until.date() - since.date()).days + 1))
        by_day: dict[str, list[Episode]] = {date.isoformat(): [] for date in dates}
        for episode in done:
            by_day[episode.day].append(episode)
        summaries, means = list[DashboardDay](), dict[str, float | None]()
        for day, own in by_day.items():
            succeeded, failed = (sum(test(episode.outcome) for episode in own) for test in (is_success, is_failure))
            seconds = sum(episode.duration_seconds for episode in own)
            errors = sum(len(episode.errors) for episode in own)
            summaries.append(DashboardDay(day, len(own), succeeded, failed, seconds, errors))
        for name in _REWARD_WEIGHTS:
            values = (getattr(reward, name) for reward in rewards)
            means[name] = _mean(value for value in values if value is not None)
        return TaskDashboard(
            to_iso(since), to_iso(until), episodes=len(done), tasks=len(costs),
            agents=len({episode.agent for episode in done if episode.agent}), unfinished=len(episodes) - len(done),
            success_rate=_mean(float(is_success(episode.outcome)) for episode in judged),
            mean_seconds=_mean(episode.duration_seconds for episode in done),
            mean_retries=_mean(cost.retries for cost in costs), mean_reward=_mean(reward.total for reward in rewards),
            rewards=means,
            days=tuple(summaries),
        )  # fmt: skip

    def _read_window(self, days: int) -> tuple[datetime, datetime, Sequence[Episode]]:
        now = self._clock.now()
        since = (now - timedelta(days=max(1, days) - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
        return since, now, self._episodes.list(since=since, until=now, archived=True)

    def _read_preferences(self, episodes: Sequence[Episode]) -> dict[tuple[str, str], float]:
        found = {}
        for day in sorted({episode.day for episode in episodes}):
            for record in self._journal.read(Query(kinds=(PREFERENCE,), labels=(f"day={day}",))):
                found[record.scope, record.id] = float(record.body["score"])
        return found


def count_retries(episode: Episode) -> int:
    return sum(action.endswith("!") for action in episode.actions)


def compute_task_costs(episodes: Iterable[Episode]) -> list[TaskCost]:
    """Compute the cost of each task; an episode without a task counts as one task."""
    tasks: dict[str, list[Episode]] = {}
    for episode in episodes:
        if not episode.running:
            tasks.setdefault(episode.task_id or episode.id, []).append(episode)
    return [
        TaskCost(
            task, sum(attempt.duration_seconds for attempt in attempts),
            tuple(sorted({attempt.agent for attempt in attempts if attempt.agent})), len(attempts),
            len(attempts) - 1 + sum(count_retries(attempt) for attempt in attempts),
            any(is_success(attempt.outcome) for attempt in attempts),
        )
        for task, attempts in tasks.items()
    ]  # fmt: skip


def compute_rewards(episodes: Sequence[Episode], preferences: Mapping[tuple[str, str], float]) -> list[EpisodeReward]:
    """Compute the reward of each finished episode; the module describes the formula."""
    done = [episode for episode in episodes if not episode.running]
    times = [
        episode.duration_seconds for episode in done if is_success(episode.outcome) and episode.duration_seconds > 0
    ]
    usual = statistics.median(times) if times else 0.0
    rewards = []
    for episode in done:
        outcome = 1.0 if is_success(episode.outcome) else 0.0 if is_failure(episode.outcome) else 0.5
        pace = min(1.0, usual / episode.duration_seconds) if usual and episode.duration_seconds else 1.0
        efficiency = pace / (1 + count_retries(episode))
        signals = {"outcome": outcome, "efficiency": efficiency}
        preference = None
        if (score := preferences.get((episode.record.scope, episode.id))) is not None:
            signals["preference"] = (score + 1) / 2
            preference = round(signals["preference"], 3)
        weighted = sum(_REWARD_WEIGHTS[name] * value for name, value in signals.items())
        total = weighted / sum(_REWARD_WEIGHTS[name] for name in signals)
        rewards.append(
            EpisodeReward(episode.id, episode.task_id, outcome, round(efficiency, 3), preference, round(total, 3))
        )
    return rewards


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return round(statistics.fmean(numbers), 3) if numbers else None
