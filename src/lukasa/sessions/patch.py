"""Changes of a state: JSON Patch (RFC 6902), applied without copying what stays the same.

A place is a JSON Pointer (``/active_predictions/0/probability``). An item of a list may also be named by its id
(``/active_predictions/pred-001/probability``); before a change is kept, such a name is replaced by the
item's place, and so is ``-``, the end of a list: what is kept can be applied in one way only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lukasa.errors import InvalidInput
from lukasa.sessions.state import ITEM_IDS, SessionState

PatchOperation = Mapping[str, Any]
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def parse_pointer(path: str) -> list[str]:
    """The steps of a JSON Pointer; ``a/b`` and ``a.b`` are taken as ``/a/b``."""
    if path.__class__ is not str:
        raise InvalidInput("A place is text, such as /configuration/confidence_threshold.")
    if path and not path.startswith("/"):
        path = "/" + (path if "/" in path else path.replace(".", "/"))
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def format_pointer(steps: Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def resolve_and_apply(
    state: SessionState, changes: Sequence[PatchOperation]
) -> tuple[SessionState, list[dict[str, Any]], list[list[str]]]:
    """The state after the changes, the changes as they are kept, and the places they touched.

    Raises ``InvalidInput`` when one cannot be made; then nothing is changed. The given state is never changed.
    """
    kept, touched = [], []
    for at, change in enumerate(changes):
        try:
            state, plain, places = _resolve_and_apply_change(state, change)
        except InvalidInput as error:
            where = f"Change {at + 1} of {len(changes)}: " if len(changes) > 1 else ""
            raise InvalidInput(where + error.message) from error
        kept.append(plain)
        touched.extend(places)
    return state, kept, touched


def apply_changes(state: SessionState, changes: Sequence[PatchOperation]) -> SessionState:
    """The state after changes that were kept."""
    return resolve_and_apply(state, changes)[0]


def build_set_change(state: SessionState, path: str, value: Any) -> PatchOperation:
    """The change that sets a place to a value, whether something is there or not."""
    steps = _resolve_item_ids(state, parse_pointer(path))
    if not steps:
        return {"op": "replace", "path": "", "value": value}
    parent = _value_at(state, steps[:-1])
    taken = isinstance(parent, list) and steps[-1] != "-" and _parse_index(steps[-1], len(parent)) < len(parent)
    return {"op": "replace" if taken else "add", "path": format_pointer(steps), "value": value}


def _resolve_and_apply_change(
    state: SessionState, change: PatchOperation
) -> tuple[SessionState, dict[str, Any], list[list[str]]]:
    if not hasattr(change, "get") or change.get("op") not in OPERATIONS or "path" not in change:
        raise InvalidInput("A change is an object with op, path and, for most, value.", hint="See RFC 6902.")
    verb, steps = change["op"], _resolve_item_ids(state, parse_pointer(change["path"]))
    if verb in ("add", "replace", "test") and "value" not in change:
        raise InvalidInput(f"The change {verb} {format_pointer(steps)[:80]} has no value.")
    plain: dict[str, Any] = {"op": verb, "path": format_pointer(steps)}
    if verb == "test":
        plain["value"] = change["value"]
        if not _is_same_json(_value_at(state, steps), change["value"]):
            raise InvalidInput(f"{plain['path'][:80]} is not what the change expects.")
        return state, plain, []
    if verb in ("move", "copy"):
        if "from" not in change:
            raise InvalidInput(f"The change {verb} does not say from where.")
        source = _resolve_item_ids(state, parse_pointer(change["from"]))
        plain["from"] = format_pointer(source)
        value = _value_at(state, source)
        if verb == "move":
            if steps[: len(source)] == source and len(steps) > len(source):
                raise InvalidInput("Nothing can be moved into itself.")
            state = _change_at(state, source, "remove", None)
        return _require_object(_change_at(state, steps, "add", value)), plain, [source[:1], steps[:1]]
    value = change.get("value")
    if verb != "remove":
        plain["value"] = value
    after = _require_object(_change_at(state, steps, verb, value))
    if verb == "remove":
        return after, plain, [] if isinstance(_value_at(after, steps[:-1]), list) else [steps[:-1]]
    return after, plain, [steps]


def _change_at(value: Any, steps: Sequence[str], verb: str, new: Any) -> Any:
    """The value with one place changed; only what lies on the way is copied."""
    if not steps:
        if verb == "remove":
            raise InvalidInput("The whole state cannot be removed.")
        return new
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if not rest:
            if verb != "add" and step not in value:
                raise InvalidInput(f"There is no {step[:80]!r}.")
            return (
                {name: held for name, held in value.items() if name != step}
                if verb == "remove"
                else value | {step: new}
            )
        if step not in value:
            raise InvalidInput(f"There is no {step[:80]!r}.")
        return value | {step: _change_at(value[step], rest, verb, new)}
    if isinstance(value, list):
        at = _parse_index(step, len(value))
        if rest or verb != "add":
            if at >= len(value):
                raise InvalidInput(f"There is no item {step[:80]!r} in a list of {len(value)}.")
            if not rest and verb == "remove":
                return value[:at] + value[at + 1 :]
            return [*value[:at], _change_at(value[at], rest, verb, new) if rest else new, *value[at + 1 :]]
        return [*value[:at], new, *value[at:]]
    raise InvalidInput(f"{step[:80]!r} lies in something that has no parts.")


def _resolve_item_ids(state: Any, steps: Sequence[str]) -> list[str]:
    """The steps with ids of items replaced by their places."""
    value, plain = state, list[str]()
    for at, step in enumerate(steps):
        if isinstance(value, list) and not step.isdigit():
            step = str(len(value) if step == "-" else _find_item_index(value, plain[-1] if plain else "", step))
        plain.append(step)
        if at == len(steps) - 1:
            break
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list):
            place = _parse_index(step, len(value))
            value = value[place] if place < len(value) else None
        else:
            value = None
    return plain


def _find_item_index(items: list[Any], section: str, id: str) -> int:
    name = ITEM_IDS.get(section)
    found = (at for at, item in enumerate(items) if name and isinstance(item, dict) and item.get(name) == id)
    place = next(found, None)
    if place is None:
        raise InvalidInput(f"There is no {id[:80]!r} in {section[:80]}.")
    return place


def _value_at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step != "-" and _parse_index(step, len(value)) < len(value):
            value = value[int(step)]
        else:
            raise InvalidInput(f"There is nothing at {format_pointer(steps)[:80]}.")
    return value


def _parse_index(step: str, length: int) -> int:
    if step == "-":
        return length
    if not step.isascii() or not step.isdigit() or (len(step) > 1 and step[0] == "0") or len(step) > 9:
        raise InvalidInput(f"{step[:80]!r} is no place in a list.")
    at = int(step)
    if at > length:
        raise InvalidInput(f"There is no item {at} in a list of {length}.")
    return at


def _is_same_json(left: Any, right: Any) -> bool:
    """Equal as JSON: a number is not a truth value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same_json(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same_json, left, right))
    return bool(left == right)


def _require_object(value: Any) -> SessionState:
    if not isinstance(value, dict):
        raise InvalidInput("A state is a JSON object with eight sections.")
    return value
