"""The state of a session: eight sections, checked where they are known and kept where they are not.

A check is a small function of a value that answers what is wrong with it, or nothing. Known fields are checked if they
are there; a field that nobody knows is kept as it is. A list of things is a list of objects, and each is told from the
others by an id of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lukasa.canonical import fault_of
from lukasa.clock import from_iso, to_iso
from lukasa.errors import InvalidInput, StoreNewer

State = dict[str, Any]
Check = Callable[[Any], str | None]

SCHEMA = 1
"""The newest shape of a state. A checkpoint says which one it has; older ones are brought up to date when read."""

UPGRADES: dict[int, Callable[[State], State]] = {}
"""What turns a state of one schema into one of the next."""

STATUSES = ("active", "resolved", "expired", "recovering")
TRENDS = ("improving", "stable", "declining")
ITEM_IDS = {"active_predictions": "prediction_id", "signal_history": "signal_id", "peer_agents": "agent_id"}
"""The lists whose items are known by an id, and what that id is called."""

LARGEST = 16_000_000
"""Bytes of the largest state that is kept."""

SEAL = "checkpoint"
"""The section that a checkpoint has more than a state."""

_MOST_TOLD = 5


def fresh_state(session_id: str, agent_id: str, now: datetime) -> State:
    """The state of a session that has just begun."""
    moment = to_iso(now)
    return {
        "metadata": {
            "agent_id": agent_id,
            "session_id": session_id,
            "version": "1.0.0",
            "created_at": moment,
            "last_updated": moment,
            "checkpoint_number": 0,
            "agent_type": "agent",
        },
        "configuration": {
            "checkpoint_interval_minutes": 30,
            "max_active_markets": 50,
            "confidence_threshold": 0.7,
            "update_frequency_minutes": 15,
        },
        "active_predictions": [],
        "signal_history": [],
        "reasoning_cache": {},
        "performance_metrics": {},
        "network_state": {"connected": False, "peer_agents": [], "api_usage": {"requests_this_hour": 0}},
        "learning_state": {},
    }


def completed(state: Mapping[str, Any], session_id: str, agent_id: str, now: datetime) -> State:
    """A state with every section there, under the session's own id; what is there already is kept."""
    fresh = fresh_state(session_id, agent_id, now)
    whole = {name: state.get(name, section) for name, section in fresh.items()} | {
        name: value for name, value in state.items() if name not in fresh
    }
    known = whole["metadata"] if isinstance(whole["metadata"], dict) else {}
    return {**whole, "metadata": {**fresh["metadata"], **known, "session_id": session_id}}


def upgraded(state: State, schema: int) -> State:
    """The state in today's shape. One from the future is refused."""
    if schema > SCHEMA:
        raise StoreNewer(f"The state has schema {schema}; this Lukasa knows up to {SCHEMA}. Upgrade Lukasa to read it.")
    for step in range(schema, SCHEMA):
        state = UPGRADES[step](state)
    return state


def objection(state: Any, touched: Sequence[Sequence[str]] | None = None) -> str | None:
    """Why a state cannot be kept, in one sentence; ``None`` when it can.

    ``touched`` names the places that changed: then only the sections and items they lie in are looked at.
    """
    if not isinstance(state, dict):
        return "A state is a JSON object with eight sections."
    if SEAL in state:
        return f"The state has a section called {SEAL!r}; that name is taken by what proves a checkpoint."
    if touched is None:
        if (fault := fault_of(state)) is not None:
            return f"The state cannot be stored: {fault}"
        faults = [fault for name in SECTIONS for fault in _section(name, state.get(name, _MISSING))]
    else:
        faults = [fault for path in dict.fromkeys(map(tuple, touched)) for fault in _near(state, path)]
    if not faults:
        return None
    more = f" And {len(faults) - _MOST_TOLD} more." if len(faults) > _MOST_TOLD else ""
    return "The state does not fit: " + "; ".join(faults[:_MOST_TOLD]) + "." + more


_MISSING = object()


def _near(state: State, path: Sequence[str]) -> Iterator[str]:
    """What is wrong where a change was made."""
    if not path:
        yield from (fault for name in SECTIONS for fault in _section(name, state.get(name, _MISSING)))
        return
    name = path[0]
    section = state.get(name, _MISSING)
    if name in _ITEMS and len(path) > 1 and isinstance(section, list):
        at = int(path[1]) if path[1].isdigit() else -1
        if 0 <= at < len(section):
            yield from _object(f"{name}/{path[1]}", section[at], _ITEMS[name], (ITEM_IDS[name],))
            own = section[at].get(ITEM_IDS[name]) if isinstance(section[at], dict) else None
            if sum(isinstance(item, dict) and item.get(ITEM_IDS[name]) == own for item in section) > 1:
                yield f"{name} has {str(own)[:60]!r} twice"
    elif name == "reasoning_cache" and len(path) > 1 and isinstance(section, dict) and path[1] in section:
        yield from _object(f"{name}/{path[1][:60]}", section[path[1]], _REASONING)
    elif name in SECTIONS:
        yield from _section(name, section)


def _section(name: str, value: Any) -> Iterator[str]:
    if value is _MISSING:
        yield f"{name} is missing"
    elif name in _ITEMS:
        yield from _list(name, value, _ITEMS[name], ITEM_IDS[name])
    elif name == "reasoning_cache":
        yield from _object(name, value, {})
        for market, reasoning in value.items() if isinstance(value, dict) else ():
            yield from _object(f"{name}/{market[:60]}", reasoning, _REASONING)
    else:
        yield from _object(name, value, SECTIONS[name], ("agent_id", "session_id") if name == "metadata" else ())


def _object(where: str, value: Any, checks: Mapping[str, Check], needed: Sequence[str] = ()) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} must be an object"
        return
    for name in needed:
        if name not in value:
            yield f"{where} has no {name}"
    for name, check in checks.items():
        if name in value and (fault := check(value[name])) is not None:
            yield f"{where}/{name} {fault}"


def _list(where: str, value: Any, checks: Mapping[str, Check], id_name: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where} must be a list"
        return
    seen: set[str] = set()
    for at, item in enumerate(value):
        faults = list(_object(f"{where}/{at}", item, checks, (id_name,)))
        yield from faults
        if not faults:
            if item[id_name] in seen:
                yield f"{where} has {item[id_name][:60]!r} twice"
            seen.add(item[id_name])


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "must be text"


def _name(value: Any) -> str | None:
    return None if isinstance(value, str) and 0 < len(value) <= 200 else "must be text of 1 to 200 characters"


def _number(value: Any) -> str | None:
    return None if isinstance(value, int | float) and not isinstance(value, bool) else "must be a number"


def _share(value: Any) -> str | None:
    return None if _number(value) is None and 0 <= value <= 1 else "must be a number from 0 to 1"


def _count(value: Any) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if good else "must be a whole number, not negative"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _time(value: Any) -> str | None:
    try:
        from_iso(value)
    except (InvalidInput, TypeError):
        return "must be a time such as 2026-02-03T12:00:00Z"
    return None


def _interval(value: Any) -> str | None:
    good = isinstance(value, list) and len(value) == 2 and not any(map(_share, value)) and value[0] <= value[1]
    return None if good else "must be [lower, upper], both from 0 to 1"


def _one_of(words: Sequence[str]) -> Check:
    return lambda value: None if value in words else f"must be one of {', '.join(words)}"


def _maybe(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _each(check: Check) -> Check:
    def every(value: Any) -> str | None:
        if not isinstance(value, list):
            return "must be a list"
        return next((f"at {at} {fault}" for at, item in enumerate(value) if (fault := check(item)) is not None), None)

    return every


def _shape(checks: Mapping[str, Check], needed: Sequence[str] = ()) -> Check:
    def fits(value: Any) -> str | None:
        return next((fault.strip("/") for fault in _object("", value, checks, needed)), None)

    return fits


def _buckets(value: Any) -> str | None:
    bucket = _shape({"count": _count, "accuracy": _maybe(_share)})
    if not isinstance(value, dict):
        return "must be an object"
    return next((f"{name[:60]} {fault}" for name, item in value.items() if (fault := bucket(item)) is not None), None)


def _peers(value: Any) -> str | None:
    checks = {"agent_id": _name, "last_interaction": _maybe(_time), "trust_score": _maybe(_share)}
    return next(iter(_list("", value, checks, "agent_id")), None)


_PREDICTION: dict[str, Check] = {
    "prediction_id": _name,
    "market_id": _name,
    "question": _text,
    "probability": _share,
    "confidence_interval": _maybe(_interval),
    "confidence_level": _maybe(_share),
    "created_at": _time,
    "last_updated": _time,
    "status": _one_of(STATUSES),
    "num_updates": _count,
}
_SIGNAL: dict[str, Check] = {
    "signal_id": _name,
    "market_id": _name,
    "timestamp": _time,
    "prediction": _share,
    "confidence": _share,
    "broadcast": _flag,
    "acknowledged": _flag,
}
_REASONING: dict[str, Check] = {
    "base_rate": _maybe(_share),
    "key_factors": _each(_shape({"factor": _text, "adjustment": _number})),
    "evidence": _each(_shape({"source": _text, "credibility": _maybe(_share), "relevant_excerpt": _text})),
    "last_analysis": _time,
}
_ITEMS = {"active_predictions": _PREDICTION, "signal_history": _SIGNAL}
SECTIONS: dict[str, dict[str, Check]] = {
    "metadata": {
        "agent_id": _text,
        "session_id": _name,
        "version": lambda value: (
            None
            if isinstance(value, str) and re.fullmatch(r"\d+\.\d+\.\d+([-+][\w.+-]+)?", value)
            else "must be a version such as 1.0.0"
        ),
        "created_at": _time,
        "last_updated": _time,
        "checkpoint_number": _count,
        "agent_type": _text,
    },
    "configuration": {
        "api_endpoint": _text,
        "checkpoint_interval_minutes": lambda value: (
            None if _number(value) is None and value > 0 else "must be above 0"
        ),
        "max_active_markets": _count,
        "confidence_threshold": _share,
        "update_frequency_minutes": lambda value: None if _number(value) is None and value > 0 else "must be above 0",
    },
    "active_predictions": {},
    "signal_history": {},
    "reasoning_cache": {},
    "performance_metrics": {
        "total_predictions": _count,
        "resolved_predictions": _count,
        "brier_score": _maybe(_share),
        "log_score": _maybe(_number),
        "calibration_score": _maybe(_share),
        "last_calculated": _maybe(_time),
        "by_confidence_bucket": _buckets,
    },
    "network_state": {
        "connected": _flag,
        "last_sync": _maybe(_time),
        "peer_agents": _peers,
        "api_usage": _shape(
            {"requests_this_hour": _count, "rate_limit": _maybe(_count), "last_request": _maybe(_time)}
        ),
    },
    "learning_state": {
        "model_version": _text,
        "calibration_adjustments": _shape({"bias_correction": _number, "confidence_scaling": _number}),
        "performance_trend": _one_of(TRENDS),
        "areas_for_improvement": _each(_text),
    },
}
"""The eight sections and the checks of their known fields."""
