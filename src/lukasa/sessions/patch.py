"""Changes of a state: JSON Patch (RFC 6902), applied without copying the unchanged parts.

A path is a JSON Pointer (``/active_predictions/0/probability``). An item of a list may also be named by its id
(``/active_predictions/pred-001/probability``). Before a change is stored, such an id is replaced by the item's index, and
so is ``-``, the end of a list: a stored change can be applied in one way only.

The package ``jsonpatch`` copies the whole state per change or changes it in place; see docs/decisions/0018-json-patch.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lukasa.errors import InvalidInput
from lukasa.sessions.state import ITEM_IDS, SessionState

PatchOperation = Mapping[str, Any]
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def parse_pointer(path: str) -> list[str]:
    """Return the steps of a JSON Pointer; read ``a/b`` and ``a.b`` as ``/a/b``."""
    if path.__class__ is not str:
        raise InvalidInput("A place is text, such as /configuration/confidence_threshold.")
    if path and not path.startswith("/"):
        path = "/" + (path if "/" in path else path.replace(".", "/"))
    steps = path.split("/")[1:]
    return [step.replace("~1", "/").replace("~0", "~") for step in steps] if "~" in path else steps


def format_pointer(steps: Sequence[str]) -> str:
    path = "/".join(["", *steps])
    if "~" not in path and path.count("/") == len(steps):
        return path
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def resolve_and_apply(
    state: SessionState, changes: Sequence[PatchOperation]
) -> tuple[SessionState, list[dict[str, Any]], list[list[str]]]:
    """Return the state after the changes, the changes to store, and the paths they touched.

    Raises ``InvalidInput`` when a change cannot be made. The given state is never modified.
    """
    resolved, touched = [], []
    for index, change in enumerate(changes):
        try:
            state, plain, paths = _apply_change(state, change)
        except InvalidInput as error:
            where = f"Change {index + 1} of {len(changes)}: " if len(changes) > 1 else ""
            raise InvalidInput(where + error.message) from error
        resolved.append(plain)
        touched.extend(paths)
        steps = plain["path"].split("/")
        if len(changes) > 1 and len(steps) == 3 and steps[1] in ITEM_IDS and plain["op"] in ("add", "remove"):
            touched.append(steps[1:2])  # later changes find other items at the same indexes
    return state, resolved, touched


def apply_changes(state: SessionState, changes: Sequence[PatchOperation]) -> SessionState:
    """Return the state after changes that were stored."""
    for change in changes:
        state = _apply_change(state, change)[0]
    return state


def build_set_change(state: SessionState, path: str, value: Any) -> PatchOperation:
    """Build the change that sets a path to a value, whether the path exists or not."""
    steps = _resolve_item_ids(state, parse_pointer(path))
    if not steps:
        return {"op": "replace", "path": "", "value": value}
    parent = _value_at(state, steps[:-1])
    exists = isinstance(parent, list) and int(steps[-1]) < len(parent)
    return {"op": "replace" if exists else "add", "path": format_pointer(steps), "value": value}


def _apply_change(state: SessionState, change: PatchOperation) -> tuple[SessionState, dict[str, Any], list[list[str]]]:
    """Return the state after one change, the change to store, and the paths it touched."""
    if not hasattr(change, "get") or change.get("op") not in OPERATIONS or "path" not in change:
        raise InvalidInput("A change is an object with op, path and, for most, value.", hint="See RFC 6902.")
    operation, steps = change["op"], _resolve_item_ids(state, parse_pointer(change["path"]))
    plain: dict[str, Any] = {"op": operation, "path": format_pointer(steps)}
    touched = [steps]
    if operation in ("add", "replace", "test"):
        if "value" not in change:
            raise InvalidInput(f"The change {operation} {plain['path'][:80]} has no value.")
        value = plain["value"] = change["value"]
        if operation == "test":
            if not _is_same_json(_value_at(state, steps), value):
                raise InvalidInput(f"{plain['path'][:80]} is not what the change expects.")
            return state, plain, []
        after = _change_at(state, steps, operation, value)
    elif operation == "remove":
        after = _change_at(state, steps, operation, None)
        is_item = len(steps) == 2 and isinstance(_value_at(after, steps[:1]), list)
        touched = [] if is_item else [steps[:-1]]
    else:
        if "from" not in change:
            raise InvalidInput(f"The change {operation} does not say from where.")
        source = _resolve_item_ids(state, parse_pointer(change["from"]))
        plain["from"] = format_pointer(source)
        value = _value_at(state, source)
        if operation == "move":
            if steps[: len(source)] == source and len(steps) > len(source):
                raise InvalidInput("Nothing can be moved into itself.")
            state = _change_at(state, source, "remove", None)
        after = _change_at(state, steps, "add", value)
        touched = [source[:1], steps[:1]]
    if not isinstance(after, dict):
        raise InvalidInput("A state is a JSON object with eight sections.")
    return after, plain, touched


def _change_at(value: Any, steps: Sequence[str], operation: str, new: Any) -> Any:
    """Return the value with one path changed; only the containers on the path are copied."""
    if not steps:
        if operation == "remove":
            raise InvalidInput("The whole state cannot be removed.")
        return new
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if step not in value and (rest or operation != "add"):
            raise InvalidInput(f"There is no {step[:80]!r}.")
        if not rest and operation == "remove":
            return {name: item for name, item in value.items() if name != step}
        return value | {step: _change_at(value[step], rest, operation, new) if rest else new}
    if isinstance(value, list):
        index, is_insertion = int(step), not rest and operation == "add"
        if index >= len(value) + is_insertion:
            raise InvalidInput(f"There is no item {step} in a list of {len(value)}.")
        if is_insertion:
            return [*value[:index], new, *value[index:]]
        if not rest and operation == "remove":
            return value[:index] + value[index + 1 :]
        return [*value[:index], _change_at(value[index], rest, operation, new) if rest else new, *value[index + 1 :]]
    raise InvalidInput(f"{step[:80]!r} lies in something that has no parts.")


def _resolve_item_ids(state: Any, steps: Sequence[str]) -> list[str]:
    """Replace ids of items, and ``-``, by indexes."""
    value, resolved = state, list[str]()
    for step in steps:
        if isinstance(value, list):
            index = _find_index(value, step, resolved[-1] if resolved else "")
            value, step = value[index] if index < len(value) else None, str(index)
        else:
            value = value.get(step) if isinstance(value, dict) else None
        resolved.append(step)
    return resolved


def _find_index(items: list[Any], step: str, section: str) -> int:
    """Return the index that a step names: a number, the id of an item, or ``-`` for the end."""
    if step == "-":
        return len(items)
    if not step.isdigit():
        id_name = ITEM_IDS.get(section)
        for index, item in enumerate(items):
            if id_name and isinstance(item, dict) and item.get(id_name) == step:
                return index
        raise InvalidInput(f"There is no {step[:80]!r} in {section[:80]}.")
    if not step.isascii() or (len(step) > 1 and step[0] == "0") or len(step) > 9:
        raise InvalidInput(f"{step[:80]!r} is no place in a list.")
    if int(step) > len(items):
        raise InvalidInput(f"There is no item {step} in a list of {len(items)}.")
    return int(step)


def _value_at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError) as error:
            raise InvalidInput(f"There is nothing at {format_pointer(steps)[:80]}.") from error
    return value


def _is_same_json(left: Any, right: Any) -> bool:
    """Compare as JSON: unlike in Python, ``true`` is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same_json(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same_json, left, right))
    return bool(left == right)
