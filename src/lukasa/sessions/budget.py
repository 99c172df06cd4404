"""Memory budget of a session: which items leave its state when a limit is reached.

Every function here is pure: it plans the changes for a state and a moment. The plan holds the items that leave, so that
they are archived in the same step that removes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lukasa.core.clock import from_iso
from lukasa.core.outcome import Answer
from lukasa.sessions.patch import format_pointer
from lukasa.sessions.state import SessionState

_EPOCH = from_iso("1970-01-01")


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a session's state; beyond them it is pruned."""

    predictions: int = 50
    signals: int = 1000
    markets: int = 100
    resolved_for: timedelta = timedelta(days=30)
    signals_for: timedelta = timedelta(days=7)
    metrics_for: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class RemovedItems:
    """Items that leave a section, and the reason."""

    section: str
    items: Any
    why: str


@dataclass(frozen=True, slots=True)
class PruningPlan(Answer):
    """Changes to make, items that leave by them, and sections that stay above their limits."""

    changes: tuple[Mapping[str, Any], ...] = ()
    leaving: tuple[RemovedItems, ...] = ()
    above: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of items that leave, by section."""
        counts: Counter[str] = Counter()
        for removed in self.leaving:
            counts[removed.section] += len(removed.items)
        return dict(counts)


def is_over_budget(state: SessionState, budget: Budget) -> bool:
    """Return whether a section is above its limit."""
    return (
        len(state["active_predictions"]) > budget.predictions
        or len(state["signal_history"]) > budget.signals
        or len(state["reasoning_cache"]) > budget.markets
    )


def plan_pruning(state: SessionState, now: datetime, budget: Budget = Budget()) -> PruningPlan:  # noqa: B008 - frozen
    """Plan the four steps: settled predictions, old signals, reasoning on inactive markets, old metrics."""
    steps = (_prune_predictions, _prune_signals, _prune_reasoning, _prune_metrics)
    plans = [step(state, now, budget) for step in steps]
    return PruningPlan(
        tuple(change for plan in plans for change in plan.changes),
        tuple(removed for plan in plans for removed in plan.leaving if removed.items),
        tuple(text for plan in plans for text in plan.above),
    )


def _prune_predictions(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Remove resolved and expired predictions after 30 days, or at once when the active ones need the space."""
    predictions = state["active_predictions"]
    settled = [item for item in predictions if item.get("status") in ("resolved", "expired")]
    old = [item for item in settled if now - _time_field(item, "last_updated") > budget.resolved_for]
    recent = sorted((item for item in settled if item not in old), key=lambda item: _time_field(item, "last_updated"))
    surplus = recent[: max(len(predictions) - len(old) - budget.predictions, 0)]
    removed_ids = {item["prediction_id"] for item in (*old, *surplus)}
    remaining = [item for item in predictions if item["prediction_id"] not in removed_ids]
    above = f"{len(remaining)} predictions are active; the budget is {budget.predictions}"
    return PruningPlan(
        ({"op": "replace", "path": "/active_predictions", "value": remaining},) if removed_ids else (),
        (
            RemovedItems("active_predictions", old, "settled more than 30 days ago"),
            RemovedItems("active_predictions", surplus, "settled, and the budget is reached"),
        ),
        (above,) if len(remaining) > budget.predictions else (),
    )


def _prune_signals(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Remove signals after 7 days, or beyond a thousand; add them to a summary per market.

    The summary has the number of signals, their mean prediction, and the time of the first and the last one.
    """
    signals = state["signal_history"]
    newest = sorted(signals, key=lambda item: _time_field(item, "timestamp"), reverse=True)
    remaining_ids = {
        item["signal_id"]
        for item in newest[: budget.signals]
        if now - _time_field(item, "timestamp") <= budget.signals_for
    }
    removed = [item for item in signals if item["signal_id"] not in remaining_ids]
    if not removed:
        return PruningPlan()
    before = state.get("signal_summary", {})
    summary = {market: dict(line) for market, line in before.items()} if isinstance(before, dict) else {}
    for signal in removed:
        moment = signal.get("timestamp")
        line = summary.setdefault(
            signal.get("market_id", ""), {"count": 0, "mean_prediction": 0.0, "first": moment, "last": moment}
        )
        line["count"] += 1
        line["mean_prediction"] += (signal.get("prediction", 0.0) - line["mean_prediction"]) / line["count"]
        moments = [time for time in (line["first"], line["last"], moment) if time]
        line["first"], line["last"] = min(moments, key=from_iso, default=None), max(moments, key=from_iso, default=None)
    remaining = [item for item in signals if item["signal_id"] in remaining_ids]
    changes = (
        {"op": "replace", "path": "/signal_history", "value": remaining},
        {"op": "add", "path": "/signal_summary", "value": summary},
    )
    reason = "older than 7 days, or beyond the last 1000"
    return PruningPlan(changes, (RemovedItems("signal_history", removed, reason),))


def _prune_reasoning(state: SessionState, _: datetime, budget: Budget) -> PruningPlan:
    """Remove reasoning on markets without an active prediction; of the rest keep the hundred analysed last."""
    cache = state["reasoning_cache"]
    active_markets = {
        item.get("market_id") for item in state["active_predictions"] if item.get("status") in ("active", "recovering")
    }
    newest = sorted(cache, key=lambda market: _time_field(cache[market], "last_analysis"), reverse=True)
    remaining = set([market for market in newest if market in active_markets][: budget.markets])
    removed = {market: cache[market] for market in cache if market not in remaining}
    changes = tuple({"op": "remove", "path": format_pointer(["reasoning_cache", market])} for market in removed)
    return PruningPlan(changes, (RemovedItems("reasoning_cache", removed, "its market is not active"),))


def _prune_metrics(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Remove daily metrics after 30 days; add them to a summary with mean scores weighted by resolved predictions."""
    metrics = state["performance_metrics"]
    daily = metrics["daily"] if isinstance(metrics.get("daily"), list) else []
    old = [day for day in daily if isinstance(day, dict) and now - _time_field(day, "date") > budget.metrics_for]
    if not old:
        return PruningPlan()
    before = metrics["summary"] if isinstance(metrics.get("summary"), dict) else {}
    total, dates = before.get("resolved", 0), [before.get("from"), before.get("to")]
    sums = {name: before.get(name, 0.0) * total for name in ("brier_score", "log_score")}
    for day in old:
        resolved = day.get("resolved", 0)
        total += resolved
        dates.append(day.get("date"))
        for name in sums:
            sums[name] += day.get(name, 0.0) * resolved
    known_dates = [date for date in dates if date]
    means = {name: value / total for name, value in sums.items()} if total else {}
    period = {"from": min(known_dates, default=None), "to": max(known_dates, default=None)}
    changes = (
        {"op": "replace", "path": "/performance_metrics/daily", "value": [day for day in daily if day not in old]},
        {"op": "add", "path": "/performance_metrics/summary", "value": {"resolved": total, **means, **period}},
    )
    return PruningPlan(changes, (RemovedItems("performance_metrics", old, "older than 30 days"),))


def _time_field(item: Any, name: str) -> datetime:
    value = item.get(name) if isinstance(item, dict) else None
    return from_iso(value) if isinstance(value, str) else _EPOCH


def split_into_chunks(removed: RemovedItems, size: int = 500) -> list[RemovedItems]:
    """Split removed items into chunks that each fit into a record."""
    is_mapping = isinstance(removed.items, dict)
    items = list(removed.items.items()) if is_mapping else removed.items
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    return [replace(removed, items=dict(chunk) if is_mapping else chunk) for chunk in chunks]
