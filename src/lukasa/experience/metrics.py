"""How tasks fare: what they cost, what they are worth, and the last seven days at a glance.

    efficiency   seconds, agents, attempts and retries of each task; a retry is a further attempt or a step that failed
    rewards      outcome     1 for success, 0.5 for something between, 0 for failure
                 efficiency  1 / (1 + retries) · min(1, usual seconds / seconds), where usual is the median of successes
                 preference  what a person said, from -1 to 1, told as 0 to 1; missing if nobody said anything
                 total       0.5 · outcome + 0.3 · efficiency + 0.2 · preference; without the last, the others in proportion

Everything is computed from episodes; only preferences are records of their own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from lukasa.clock import Clock, to_iso
from lukasa.experience.episode import EPISODE, Episode, is_failure, is_success
from lukasa.experience.episodes import Episodes
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.readable_ids import find_by_id
from lukasa.record import DERIVED_FROM, Draft, Link
from lukasa.storage.engine import Query, Reader

PREFERENCE = "preference"
DEFAULT_DAYS = 7
_REWARD_WEIGHTS = {"outcome": 0.5, "efficiency": 0.3, "preference": 0.2}


@dataclass(frozen=True, slots=True)
class TaskCost:
    """What one task took."""

    task: str
    seconds: float
    agents: tuple[str, ...]
    attempts: int
    retries: int
    succeeded: bool


@dataclass(frozen=True, slots=True)
class EpisodeReward:
    """What one episode is worth, by each signal and in all."""

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
    """The last days at a glance."""

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


class TaskMetrics:
    """Figures about episodes, for one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._episodes = Episodes(journal, clock)

    def prefer(self, episode: str, score: float, *, note: str = "") -> Outcome:
        """Keeps what a person thinks of an episode: from -1, useless, to 1, just right. The last word counts."""
        if score.__class__ not in (int, float) or not -1 <= score <= 1:
            return Refused("bad_score", "A preference is a number from -1 to 1.")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = find_by_id(reader, (EPISODE,), episode, own_scope=self._journal.author)
            if record is None:
                return Refused("not_found", f"There is no episode {episode!r:.80}.")
            body = {"episode": record.id, "score": score} | ({"note": note} if note else {})
            return [
                Draft(
                    PREFERENCE, body=body, id=record.id, scope=record.scope, labels=(f"day={Episode(record).day}",),
                    links=(Link(DERIVED_FROM, record.key),),
                )
            ]  # fmt: skip

        return self._journal.append_if(build_drafts)

    def efficiency(self, days: int = DEFAULT_DAYS) -> list[TaskCost]:
        """What each task of the last days took, the newest last."""
        return compute_task_costs(self._read_window(days)[2])

    def rewards(self, days: int = DEFAULT_DAYS) -> list[EpisodeReward]:
        """What each episode of the last days was worth."""
        episodes = self._read_window(days)[2]
        return compute_rewards(episodes, self._read_preferences(episodes))

    def dashboard(self, days: int = DEFAULT_DAYS) -> TaskDashboard:
        """The last days at a glance, today included."""
        since, until, episodes = self._read_window(days)
        done = [episode for episode in episodes if not episode.running]
        costs, rewards = compute_task_costs(episodes), compute_rewards(episodes, self._read_preferences(episodes))
        judged = [episode for episode in done if is_success(episode.outcome) or is_failure(episode.outcome)]
        return TaskDashboard(
            since=to_iso(since),
            until=to_iso(until),
            episodes=len(done),
            tasks=len(costs),
            agents=len({episode.agent for episode in done if episode.agent}),
            unfinished=len(episodes) - len(done),
            success_rate=_mean(float(is_success(episode.outcome)) for episode in judged),
            mean_seconds=_mean(episode.duration_seconds for episode in done),
            mean_retries=_mean(cost.retries for cost in costs),
            mean_reward=_mean(reward.total for reward in rewards),
            rewards={
                name: _mean(value for reward in rewards if (value := getattr(reward, name)) is not None)
                for name in _REWARD_WEIGHTS
            },
            days=tuple(_dashboard_days(since, until, done)),
        )

    def _read_window(self, days: int) -> tuple[datetime, datetime, list[Episode]]:
        now = self._clock.now()
        since = (now - timedelta(days=max(1, days) - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
        return since, now, self._episodes.since(since, now, archived=True)

    def _read_preferences(self, episodes: Sequence[Episode]) -> dict[tuple[str, str], float]:
        found = {}
        for day in sorted({episode.day for episode in episodes}):
            for record in self._journal.read(Query(kinds=(PREFERENCE,), labels=(f"day={day}",))):
                found[record.scope, record.id] = float(record.body["score"])
        return found


def count_retries(episode: Episode) -> int:
    return sum(action.endswith("!") for action in episode.actions)


def compute_task_costs(episodes: Iterable[Episode]) -> list[TaskCost]:
    """What each task took; an episode without a task is one of its own."""
    tasks: dict[str, list[Episode]] = {}
    for episode in episodes:
        if not episode.running:
            tasks.setdefault(episode.task_id or episode.id, []).append(episode)
    return [
        TaskCost(
            task,
            sum(one.duration_seconds for one in tries),
            tuple(sorted({one.agent for one in tries if one.agent})),
            len(tries),
            len(tries) - 1 + sum(count_retries(one) for one in tries),
            any(is_success(one.outcome) for one in tries),
        )
        for task, tries in tasks.items()
    ]


def compute_rewards(episodes: Sequence[Episode], preferences: Mapping[tuple[str, str], float]) -> list[EpisodeReward]:
    """What each finished episode is worth; see above."""
    done = [episode for episode in episodes if not episode.running]
    times = [one.duration_seconds for one in done if is_success(one.outcome) and one.duration_seconds > 0]
    usual = statistics.median(times) if times else 0.0
    return [_compute_reward(episode, usual, preferences.get((episode.record.scope, episode.id))) for episode in done]


def _compute_reward(episode: Episode, usual_seconds: float, preference_score: float | None) -> EpisodeReward:
    outcome = 1.0 if is_success(episode.outcome) else 0.0 if is_failure(episode.outcome) else 0.5
    pace = min(1.0, usual_seconds / episode.duration_seconds) if usual_seconds and episode.duration_seconds else 1.0
    efficiency = pace / (1 + count_retries(episode))
    preference = None if preference_score is None else (preference_score + 1) / 2
    signals = {"outcome": outcome, "efficiency": efficiency, "preference": preference}
    told = {name: value for name, value in signals.items() if value is not None}
    total = sum(_REWARD_WEIGHTS[name] * value for name, value in told.items()) / sum(
        _REWARD_WEIGHTS[name] for name in told
    )
    shown = None if preference is None else round(preference, 3)
    return EpisodeReward(episode.id, episode.task_id, outcome, round(efficiency, 3), shown, round(total, 3))


def _dashboard_days(since: datetime, until: datetime, episodes: Sequence[Episode]) -> Iterable[DashboardDay]:
    for at in range((until.date() - since.date()).days + 1):
        day = (since.date() + timedelta(days=at)).isoformat()
        own = [episode for episode in episodes if episode.day == day]
        yield DashboardDay(
            day,
            len(own),
            sum(is_success(one.outcome) for one in own),
            sum(is_failure(one.outcome) for one in own),
            sum(one.duration_seconds for one in own),
            sum(len(one.errors) for one in own),
        )


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(statistics.fmean(found), 3) if found else None
