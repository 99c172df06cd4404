"""The memory budget of a session: what leaves its state when the limits are reached, in the document's four steps.

Everything here is a plan: a pure function of a state and a moment. What leaves is given back, so that it is archived in
the same step that takes it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lukasa.clock import from_iso
from lukasa.sessions.state import SessionState

_EPOCH = from_iso("1970-01-01")


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a session's state may hold before it is pruned."""

    predictions: int = 50
    signals: int = 1000
    markets: int = 100
    resolved_for: timedelta = timedelta(days=30)
    signals_for: timedelta = timedelta(days=7)
    metrics_for: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class RemovedItems:
    """Items that leave a section, and why."""

    section: str
    items: Any
    why: str


@dataclass(frozen=True, slots=True)
class PruningPlan:
    """What pruning comes to: the changes to make, what leaves by them, and what is still above its limit."""

    changes: tuple[Mapping[str, Any], ...] = ()
    leaving: tuple[RemovedItems, ...] = ()
    above: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many items leave each section."""
        counted: dict[str, int] = {}
        for part in self.leaving:
            counted[part.section] = counted.get(part.section, 0) + len(part.items)
        return counted


def is_over_budget(state: SessionState, budget: Budget) -> bool:
    """Whether a limit is reached, so that it is time to prune."""
    return (
        len(state["active_predictions"]) > budget.predictions
        or len(state["signal_history"]) > budget.signals
        or len(state["reasoning_cache"]) > budget.markets
    )


def plan_pruning(state: SessionState, now: datetime, budget: Budget = Budget()) -> PruningPlan:  # noqa: B008 - frozen
    """The plan in four steps: settled predictions, old signals, reasoning on idle markets, old metrics."""
    steps = (_prune_predictions, _prune_signals, _prune_reasoning, _prune_metrics)
    changes: list[Mapping[str, Any]] = []
    leaving: list[RemovedItems] = []
    above: list[str] = []
    for step in steps:
        plan = step(state, now, budget)
        changes += plan.changes
        leaving += plan.leaving
        above += plan.above
    return PruningPlan(tuple(changes), tuple(part for part in leaving if part.items), tuple(above))


def _prune_predictions(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Resolved and expired predictions leave after 30 days, or at once where there is no room for the active ones."""
    held = state["active_predictions"]
    settled = [item for item in held if item.get("status") in ("resolved", "expired")]
    old = [item for item in settled if now - _time_field(item, "last_updated") > budget.resolved_for]
    rest = sorted((item for item in settled if item not in old), key=lambda item: _time_field(item, "last_updated"))
    room = len(held) - len(old) - budget.predictions
    crowded = rest[: max(room, 0)]
    gone = {item["prediction_id"] for item in (*old, *crowded)}
    stay = [item for item in held if item["prediction_id"] not in gone]
    above = (
        (f"{len(stay)} predictions are active; the budget is {budget.predictions}",)
        if len(stay) > budget.predictions
        else ()
    )
    return PruningPlan(
        _replace_section("active_predictions", stay, gone),
        (
            RemovedItems("active_predictions", old, "settled more than 30 days ago"),
            RemovedItems("active_predictions", crowded, "settled, and the budget is reached"),
        ),
        above,
    )


def _prune_signals(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Signals leave after 7 days, or when there are more than a thousand; a summary per market stays behind."""
    held = state["signal_history"]
    newest = sorted(held, key=lambda item: _time_field(item, "timestamp"), reverse=True)
    stay_ids = {
        item["signal_id"]
        for item in newest[: budget.signals]
        if now - _time_field(item, "timestamp") <= budget.signals_for
    }
    gone = [item for item in held if item["signal_id"] not in stay_ids]
    if not gone:
        return PruningPlan()
    stay = [item for item in held if item["signal_id"] in stay_ids]
    summary = _summarise_signals(state.get("signal_summary", {}), gone)
    changes = (
        *_replace_section("signal_history", stay, gone),
        {"op": "add", "path": "/signal_summary", "value": summary},
    )
    return PruningPlan(changes, (RemovedItems("signal_history", gone, "older than 7 days, or beyond the last 1000"),))


def _summarise_signals(summary: Any, signals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Signals folded into one line per market: how many, their mean, the first and the last of them."""
    summed = {name: dict(line) for name, line in summary.items()} if isinstance(summary, dict) else {}
    for signal in signals:
        line = summed.setdefault(
            signal.get("market_id", ""),
            {"count": 0, "mean_prediction": 0.0, "first": signal.get("timestamp"), "last": signal.get("timestamp")},
        )
        line["count"] += 1
        line["mean_prediction"] += (signal.get("prediction", 0.0) - line["mean_prediction"]) / line["count"]
        moments = [moment for moment in (line["first"], line["last"], signal.get("timestamp")) if moment]
        line["first"], line["last"] = min(moments, key=from_iso, default=None), max(moments, key=from_iso, default=None)
    return summed


def _prune_reasoning(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Reasoning on markets without an active prediction leaves; of the rest the hundred analysed last stay."""
    del now
    held = state["reasoning_cache"]
    busy = {
        item.get("market_id") for item in state["active_predictions"] if item.get("status") in ("active", "recovering")
    }
    newest = sorted(held, key=lambda market: _time_field(held[market], "last_analysis"), reverse=True)
    stay = set([market for market in newest if market in busy][: budget.markets])
    gone = {market: held[market] for market in held if market not in stay}
    if not gone:
        return PruningPlan()
    changes = tuple({"op": "remove", "path": f"/reasoning_cache/{_escape_step(market)}"} for market in gone)
    return PruningPlan(changes, (RemovedItems("reasoning_cache", gone, "its market is not active"),))


def _prune_metrics(state: SessionState, now: datetime, budget: Budget) -> PruningPlan:
    """Daily figures leave after 30 days and are added up in a summary."""
    metrics = state["performance_metrics"]
    held = metrics.get("daily")
    if not isinstance(held, list):
        return PruningPlan()
    old = [day for day in held if isinstance(day, dict) and now - _time_field(day, "date") > budget.metrics_for]
    if not old:
        return PruningPlan()
    before = metrics.get("summary") if isinstance(metrics.get("summary"), dict) else {}
    summary = _summarise_days(before, old)
    changes = (
        {"op": "replace", "path": "/performance_metrics/daily", "value": [day for day in held if day not in old]},
        {"op": "add", "path": "/performance_metrics/summary", "value": summary},
    )
    return PruningPlan(changes, (RemovedItems("performance_metrics", old, "older than 30 days"),))


def _summarise_days(summary: Mapping[str, Any], days: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Days folded into one: how many resolved, their mean scores weighted by that, from when to when."""
    total, dates = summary.get("resolved", 0), [summary.get("from"), summary.get("to")]
    means = {name: summary.get(name, 0.0) * total for name in ("brier_score", "log_score")}
    for day in days:
        count = day.get("resolved", 0)
        total += count
        dates.append(day.get("date"))
        for name in means:
            means[name] += day.get(name, 0.0) * count
    known = [date for date in dates if date]
    averages = {name: value / total for name, value in means.items()} if total else {}
    return {"resolved": total, **averages, "from": min(known, default=None), "to": max(known, default=None)}


def _replace_section(section: str, remaining: list[Any], removed: Any) -> tuple[Mapping[str, Any], ...]:
    return ({"op": "replace", "path": f"/{section}", "value": remaining},) if removed else ()


def _time_field(item: Any, name: str) -> datetime:
    value = item.get(name) if isinstance(item, dict) else None
    return from_iso(value) if isinstance(value, str) else _EPOCH


def _escape_step(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def split_into_chunks(removed: RemovedItems, size: int = 500) -> list[RemovedItems]:
    """The same in parcels that fit into a record each."""
    items = removed.items
    if isinstance(items, dict):
        names = list(items)
        chunks: list[Any] = [{name: items[name] for name in names[at : at + size]} for at in range(0, len(names), size)]
    else:
        chunks = [items[at : at + size] for at in range(0, len(items), size)]
    return [RemovedItems(removed.section, chunk, removed.why) for chunk in chunks]
