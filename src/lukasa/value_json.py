"""Values of the library as JSON, and back: every field of a class by its name, so that nothing is lost.

The client gets its answers in this form. What people and other programs read is made by ``interfaces.serialise``, which
leaves fields out, renames and rounds.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin

from lukasa.core.clock import from_iso, to_iso
from lukasa.methods import read_hints

MEDIA_TYPE = "application/vnd.lukasa.values+json"
"""The media type of an answer in this form."""
_READERS: Mapping[Any, Callable[[Any], Any]] = {
    datetime: from_iso,
    date: date.fromisoformat,
    timedelta: lambda seconds: timedelta(seconds=seconds),
    bytes: bytes.fromhex,
    float: float,
}


def write_value(value: Any) -> Any:
    """Return a value as dicts, lists, strings, numbers, booleans and None. Fields that begin with ``_`` are left out."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return to_iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if names := _field_names(type(value)):
        return {name: write_value(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        if all(isinstance(name, str) for name in value):
            return {name: write_value(item) for name, item in value.items()}
        return [[write_value(name), write_value(item)] for name, item in value.items()]
    return [write_value(item) for item in (sorted(value) if isinstance(value, Set) else value)]


def read_value(hint: Any, content: Any, own: Mapping[str, Any] | None = None) -> Any:
    """Return the value of a type that ``write_value`` wrote; ``own`` has the values of fields that begin with ``_``."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        fitting = (part for part in sorted(parts, key=lambda part: part is not str) if _fits(part, content))
        return read_value(next(fitting, Any), content, own)
    if content is None or not isinstance(origin, type):
        return content
    if _field_names(origin):
        hints = _read_class(origin)
        values = {name: read_value(hints[name], item, own) for name, item in content.items() if name in hints}
        return origin(**values, **{name: value for name, value in (own or {}).items() if name in hints})
    if origin in _READERS:
        return _READERS[origin](content)
    if issubclass(origin, PurePath | Enum):
        return origin(content)
    if issubclass(origin, Mapping):
        of_name, of_item = parts or (str, Any)
        pairs = content.items() if isinstance(content, dict) else content
        return {read_value(of_name, name): read_value(of_item, item, own) for name, item in pairs}
    if origin is tuple and parts and parts[-1] is not ...:
        return tuple(read_value(part, item, own) for part, item in zip(parts, content, strict=True))
    if issubclass(origin, Iterable) and not issubclass(origin, str):
        items = [read_value(parts[0] if parts else Any, item, own) for item in content]
        return (
            origin(items) if origin in (list, set, frozenset) else iter(items) if origin is Iterator else tuple(items)
        )
    return content


def _fits(hint: Any, content: Any) -> bool:
    """Tell whether an alternative of a union can have been written; a class is recognised by its fields."""
    origin: Any = get_origin(hint) or hint
    if not isinstance(origin, type):
        return origin is not Literal or content in get_args(hint)
    if names := _field_names(origin):
        return isinstance(content, dict) and set(names) <= set(content)
    if issubclass(origin, date | bytes | PurePath):
        return isinstance(content, str)
    if issubclass(origin, timedelta | float):
        return isinstance(content, int | float)
    if issubclass(origin, Mapping):
        return isinstance(content, dict)
    return isinstance(content, origin if issubclass(origin, str | int | types.NoneType) else list)


def _field_names(kind: type) -> list[str]:
    """Return the fields of a dataclass or a named tuple; no other class has any."""
    names: Any = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", ())
    return [name for name in names if not name.startswith("_")]


@cache
def _read_class(kind: Hashable) -> Mapping[str, Any]:
    return read_hints(kind)
