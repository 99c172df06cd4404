"""State of a session: eight sections. Known fields are checked, unknown fields are kept.

A check is a function that returns the fault of a value, or None. Known fields are checked if they are
present. ``active_predictions``, ``signal_history`` and ``peer_agents`` are lists of objects that differ by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lukasa.core.canonical_json import find_json_fault
from lukasa.core.choices import PREDICTION_STATUSES
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.names import is_plain_name
from lukasa.errors import InvalidInput, StoreNewer

SessionState = dict[str, Any]
FieldCheck = Callable[[Any], str | None]

SCHEMA = 1
"""Newest version of the state's shape. A checkpoint stores its version; older ones are upgraded when read."""

UPGRADES: dict[int, Callable[[SessionState], SessionState]] = {}
"""Functions that turn a state of one version into the next."""

TRENDS = ("improving", "stable", "declining")
ITEM_IDS = {"active_predictions": "prediction_id", "signal_history": "signal_id", "peer_agents": "agent_id"}
"""Lists whose items have an id, and the name of that id."""

MAX_STATE_BYTES = 16_000_000
"""Size of the largest state, in bytes."""

CHECKPOINT_SECTION = "checkpoint"
"""Section that a checkpoint adds to the state."""

_MAX_REPORTED_FAULTS = 5
_MISSING = object()


def fresh_state(session_id: str, agent_id: str, now: datetime) -> SessionState:
    """Return the state of a new session."""
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


def fill_missing_sections(state: Mapping[str, Any], session_id: str, agent_id: str, now: datetime) -> SessionState:
    """Return the state with every section present and the given session id; existing sections are kept."""
    fresh = fresh_state(session_id, agent_id, now)
    whole = {name: state.get(name, section) for name, section in fresh.items()} | {
        name: value for name, value in state.items() if name not in fresh
    }
    if not isinstance(whole["metadata"], dict):
        return whole  # the check of the state says what is wrong with it
    return {**whole, "metadata": {**fresh["metadata"], **whole["metadata"], "session_id": session_id}}


def upgrade_state(state: SessionState, schema: int) -> SessionState:
    """Return the state in the newest shape. Refuse one of a newer version."""
    if schema > SCHEMA:
        raise StoreNewer(f"The state has schema {schema}; this Lukasa knows up to {SCHEMA}. Upgrade Lukasa to read it.")
    for step in range(schema, SCHEMA):
        state = UPGRADES[step](state)
    return state


def find_state_fault(state: Any, touched_paths: Sequence[Sequence[str]] | None = None) -> str | None:
    """Return in one sentence why a state cannot be stored, or None.

    With ``touched_paths``, the paths that changed in a valid state, only the fields, items and sections on them are checked.
    """
    if not isinstance(state, dict):
        return "A state is a JSON object with eight sections."
    if CHECKPOINT_SECTION in state:
        return f"The state has a section called {CHECKPOINT_SECTION!r}; that name is taken by the seal of a checkpoint."
    if touched_paths is None:
        if (fault := find_json_fault(state)) is not None:
            return f"The state cannot be stored: {fault}"
        touched_paths = [()]
    faults: list[str] = []
    for path in dict.fromkeys(map(tuple, touched_paths)):
        name = path[0] if path else ""
        section = state.get(name, _MISSING)
        if not path:
            faults += [fault for name in SECTIONS for fault in _section_faults(name, state.get(name, _MISSING))]
        elif name in _ITEM_CHECKS and len(path) > 1 and isinstance(section, list):
            index = int(path[1]) if path[1].isdigit() else -1
            if 0 <= index < len(section):
                item, id_name = section[index], ITEM_IDS[name]
                checks, field = _ITEM_CHECKS[name], path[2] if len(path) > 2 else id_name
                if field != id_name:
                    checks = {field: checks[field]} if field in checks else {}
                    faults += _object_faults(f"{name}/{path[1]}", item, checks)
                    continue
                faults += _object_faults(f"{name}/{path[1]}", item, checks, (id_name,))
                id = item.get(id_name) if isinstance(item, dict) else None
                if sum(isinstance(other, dict) and other.get(id_name) == id for other in section) > 1:
                    faults.append(f"{name} has {str(id)[:60]!r} twice")
        elif name == "reasoning_cache" and len(path) > 1 and isinstance(section, dict) and path[1] in section:
            faults += _object_faults(f"{name}/{path[1][:60]}", section[path[1]], _REASONING_CHECKS)
        elif name in SECTIONS:
            faults += _section_faults(name, section)
    if not faults:
        return None
    more = f" And {len(faults) - _MAX_REPORTED_FAULTS} more." if len(faults) > _MAX_REPORTED_FAULTS else ""
    return "The state does not fit: " + "; ".join(faults[:_MAX_REPORTED_FAULTS]) + "." + more


def _section_faults(name: str, value: Any) -> Iterator[str]:
    if value is _MISSING:
        yield f"{name} is missing"
    elif name in _ITEM_CHECKS:
        yield from _list_faults(name, value, _ITEM_CHECKS[name], ITEM_IDS[name])
    elif name == "reasoning_cache":
        yield from _object_faults(name, value, {})
        for market, reasoning in value.items() if isinstance(value, dict) else ():
            yield from _object_faults(f"{name}/{market[:60]}", reasoning, _REASONING_CHECKS)
    else:
        yield from _object_faults(name, value, SECTIONS[name], ("agent_id", "session_id") if name == "metadata" else ())


def _object_faults(
    where: str, value: Any, checks: Mapping[str, FieldCheck], required: Sequence[str] = ()
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} must be an object"
        return
    for name in required:
        if name not in value:
            yield f"{where} has no {name}"
    for name, check in checks.items():
        if name in value and (fault := check(value[name])) is not None:
            yield f"{where}/{name} {fault}"


def _list_faults(where: str, value: Any, checks: Mapping[str, FieldCheck], id_name: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where} must be a list"
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        faults = list(_object_faults(f"{where}/{index}", item, checks, (id_name,)))
        yield from faults
        if not faults:
            if item[id_name] in seen:
                yield f"{where} has {item[id_name][:60]!r} twice"
            seen.add(item[id_name])


def _check_text(value: Any) -> str | None:
    return None if isinstance(value, str) else "must be text"


def _check_name(value: Any) -> str | None:
    return None if isinstance(value, str) and 0 < len(value) <= 200 else "must be text of 1 to 200 characters"


def _check_version(value: Any) -> str | None:
    numbers = value.replace("+", "-").partition("-")[0].split(".") if isinstance(value, str) else []
    is_version = (
        len(numbers) == 3
        and all(map(str.isdecimal, numbers))
        and value[-1] not in "+-"
        and is_plain_name(value, "._+-", len(value))
    )
    return None if is_version else "must be a version such as 1.0.0"


def _check_number(value: Any) -> str | None:
    return None if isinstance(value, int | float) and not isinstance(value, bool) else "must be a number"


def _check_positive(value: Any) -> str | None:
    return None if _check_number(value) is None and value > 0 else "must be above 0"


def _check_probability(value: Any) -> str | None:
    return None if _check_number(value) is None and 0 <= value <= 1 else "must be a number from 0 to 1"


def _check_count(value: Any) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if is_count else "must be a whole number, not negative"


def _check_checkpoint_number(value: Any) -> str | None:
    return _check_count(value) or (None if value < 10**9 else "must be below 1,000,000,000")


def _check_boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _check_time(value: Any) -> str | None:
    try:
        from_iso(value)
    except (InvalidInput, TypeError):
        return "must be a time such as 2026-02-03T12:00:00Z"
    return None


def _check_interval(value: Any) -> str | None:
    is_interval = (
        isinstance(value, list) and len(value) == 2 and not any(map(_check_probability, value)) and value[0] <= value[1]
    )
    return None if is_interval else "must be [lower, upper], both from 0 to 1"


def _choice_check(words: Sequence[str]) -> FieldCheck:
    return lambda value: None if value in words else f"must be one of {', '.join(words)}"


def _optional_check(check: FieldCheck) -> FieldCheck:
    return lambda value: None if value is None else check(value)


def _list_check(check: FieldCheck) -> FieldCheck:
    def check_items(value: Any) -> str | None:
        if not isinstance(value, list):
            return "must be a list"
        faults = ((index, check(item)) for index, item in enumerate(value))
        return next((f"at {index} {fault}" for index, fault in faults if fault is not None), None)

    return check_items


def _object_check(checks: Mapping[str, FieldCheck]) -> FieldCheck:
    def check_object(value: Any) -> str | None:
        return next((fault.strip("/") for fault in _object_faults("", value, checks)), None)

    return check_object


def _check_buckets(value: Any) -> str | None:
    bucket = _object_check({"count": _check_count, "accuracy": _optional_check(_check_probability)})
    if not isinstance(value, dict):
        return "must be an object"
    return next((f"{name[:60]} {fault}" for name, item in value.items() if (fault := bucket(item)) is not None), None)


def _check_peers(value: Any) -> str | None:
    checks = {
        "agent_id": _check_name,
        "last_interaction": _optional_check(_check_time),
        "trust_score": _optional_check(_check_probability),
    }
    return next(iter(_list_faults("", value, checks, "agent_id")), None)


_ITEM_CHECKS: dict[str, dict[str, FieldCheck]] = {
    "active_predictions": {
        "prediction_id": _check_name,
        "market_id": _check_name,
        "question": _check_text,
        "probability": _check_probability,
        "confidence_interval": _optional_check(_check_interval),
        "confidence_level": _optional_check(_check_probability),
        "created_at": _check_time,
        "last_updated": _check_time,
        "status": _choice_check(PREDICTION_STATUSES),
        "num_updates": _check_count,
    },
    "signal_history": {
        "signal_id": _check_name,
        "market_id": _check_name,
        "timestamp": _check_time,
        "prediction": _check_probability,
        "confidence": _check_probability,
        "broadcast": _check_boolean,
        "acknowledged": _check_boolean,
    },
}
_REASONING_CHECKS: dict[str, FieldCheck] = {
    "base_rate": _optional_check(_check_probability),
    "key_factors": _list_check(_object_check({"factor": _check_text, "adjustment": _check_number})),
    "evidence": _list_check(
        _object_check(
            {"source": _check_text, "credibility": _optional_check(_check_probability), "relevant_excerpt": _check_text}
        )
    ),
    "last_analysis": _check_time,
}
SECTIONS: dict[str, dict[str, FieldCheck]] = {
    "metadata": {
        "agent_id": _check_text,
        "session_id": _check_name,
        "version": _check_version,
        "created_at": _check_time,
        "last_updated": _check_time,
        "checkpoint_number": _check_checkpoint_number,
        "agent_type": _check_text,
    },
    "configuration": {
        "api_endpoint": _check_text,
        "checkpoint_interval_minutes": _check_positive,
        "max_active_markets": _check_count,
        "confidence_threshold": _check_probability,
        "update_frequency_minutes": _check_positive,
    },
    "active_predictions": {},
    "signal_history": {},
    "reasoning_cache": {},
    "performance_metrics": {
        "total_predictions": _check_count,
        "resolved_predictions": _check_count,
        "brier_score": _optional_check(_check_probability),
        "log_score": _optional_check(_check_number),
        "calibration_score": _optional_check(_check_probability),
        "last_calculated": _optional_check(_check_time),
        "by_confidence_bucket": _check_buckets,
    },
    "network_state": {
        "connected": _check_boolean,
        "last_sync": _optional_check(_check_time),
        "peer_agents": _check_peers,
        "api_usage": _object_check(
            {
                "requests_this_hour": _check_count,
                "rate_limit": _optional_check(_check_count),
                "last_request": _optional_check(_check_time),
            }
        ),
    },
    "learning_state": {
        "model_version": _check_text,
        "calibration_adjustments": _object_check(
            {"bias_correction": _check_number, "confidence_scaling": _check_number}
        ),
        "performance_trend": _choice_check(TRENDS),
        "areas_for_improvement": _list_check(_check_text),
    },
}
"""The eight sections and the checks of their known fields."""
