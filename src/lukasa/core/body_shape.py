"""The shape of a body: the declaration of the fields of a service's records.

    BodyShape({"name": str, "score": NumberBetween(-1, 1), "steps": [dict], "context": {"goal": str}}, required="name")

A field is optional unless it is required, and fields that are not declared may hold anything. Types are ``str``, ``int``,
``float`` (any number), ``bool``, ``dict``, ``list``, ``None``, ``[type]`` for a list, ``[type, 10]`` for one of at most
ten entries, ``{name: type}`` or a ``BodyShape`` for an object, a tuple of alternatives, and the values of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from lukasa.core.clock import from_iso

FaultFinder = Callable[[Any], str | None]
"""Returns the fault of a value, in words that follow the field's name, or ``None``."""
FieldType = Any
"""A declaration of a field; the module lists them."""


@dataclass(frozen=True, slots=True)
class NumberBetween:
    """A number within bounds, or a whole one."""

    low: float
    high: float
    is_whole: bool = False

    def find_fault(self, value: Any) -> str | None:
        if (
            value.__class__ is int or (value.__class__ is float and not self.is_whole)
        ) and self.low <= value <= self.high:
            return None
        return f" must be a {'whole ' if self.is_whole else ''}number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few texts."""

    texts: tuple[str, ...]

    def find_fault(self, value: Any) -> str | None:
        return None if value.__class__ is str and value in self.texts else f" must be one of {', '.join(self.texts)}"


class MapOf:
    """An object whose values, and if declared whose names, are all of one type."""

    def __init__(self, values: FieldType, names: FieldType = str) -> None:
        self._values, self._names = _compile(values), _compile(names)

    def find_fault(self, value: Any) -> str | None:
        if value.__class__ is not dict:
            return " must be an object"
        (fitting, find_fault), (fitting_names, find_name_fault) = self._values, self._names
        for name, item in value.items():
            if name.__class__ not in fitting_names and (fault := find_name_fault(name)) is not None:
                return f" has the name {name[:40]!r}, which{fault}"
            if item.__class__ not in fitting and (fault := find_fault(item)) is not None:
                return f".{name[:40]}{fault}"
        return None


class FixedList:
    """A list with one entry of each type, in order."""

    def __init__(self, *types: FieldType) -> None:
        self._types = [_compile(type) for type in types]

    def find_fault(self, value: Any) -> str | None:
        if value.__class__ not in (list, tuple) or len(value) != len(self._types):
            return f" must be a list of {len(self._types)} entries"
        for index, (item, (fitting, find_fault)) in enumerate(zip(value, self._types, strict=True)):
            if item.__class__ not in fitting and (fault := find_fault(item)) is not None:
                return f"[{index}]{fault}"
        return None


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A text that a function parses."""

    parse: Callable[[str], Any]
    fault: str

    def find_fault(self, value: Any) -> str | None:
        try:
            return self.fault if value.__class__ is not str or self.parse(value) is None else None
        except (ValueError, OverflowError):
            return self.fault


TIME = ParsedText(from_iso, " must be a time such as 2026-02-03T12:00:00Z")
DAY = ParsedText(date.fromisoformat, " must be a day such as 2026-02-03")

_CLASSES: Mapping[Any, tuple[frozenset[type], str]] = {
    str: (frozenset({str}), "text"),
    int: (frozenset({int}), "a whole number"),
    float: (frozenset({int, float}), "a number"),
    bool: (frozenset({bool}), "true or false"),
    dict: (frozenset({dict}), "an object"),
    list: (frozenset({list, tuple}), "a list"),
    None: (frozenset({type(None)}), "null"),
}


class BodyShape:
    """The types of the fields of an object, and which of them it must have."""

    def __init__(self, fields: Mapping[str, FieldType], required: str = "") -> None:
        self._fields = {name: _compile(type) for name, type in fields.items()}
        self._required = required.split()

    def find_fault(self, value: Any) -> str | None:
        """Return the fault of an object, in words that follow its name, or ``None``."""
        if value.__class__ is not dict:
            return " must be an object"
        declared = self._fields.get
        for name, item in value.items():
            if (field := declared(name)) is not None and item.__class__ not in field[0]:
                fault = field[1](item)
                if fault is not None:
                    return f".{name}{fault}"
        for name in self._required:
            if name not in value:
                return f".{name} is missing"
        return None


def _compile(type: FieldType) -> tuple[frozenset[type], FaultFinder]:
    """Return the classes whose values fit without a further check, and the check of other values."""
    if type.__class__ is tuple:
        parts = [_compile(part) for part in type]

        def find_common_fault(value: Any) -> str | None:
            faults = [find_fault(value) for _, find_fault in parts]
            return None if None in faults else " or".join(fault.replace(" must be", "") for fault in faults if fault)

        fitting = frozenset[Any]().union(*(fitting for fitting, _ in parts))
        return fitting, lambda value: (fault := find_common_fault(value)) and f" must be{fault}"
    if type.__class__ is list:
        fitting, find_fault = _compile(type[0])
        most = type[1] if len(type) > 1 else float("inf")

        def find_item_fault(value: Any) -> str | None:
            if value.__class__ not in (list, tuple):
                return " must be a list"
            if len(value) > most:
                return f" must have at most {most} entries"
            for index, item in enumerate(value):
                if item.__class__ not in fitting and (fault := find_fault(item)) is not None:
                    return f"[{index}]{fault}"
            return None

        return frozenset(), find_item_fault
    if isinstance(type, Mapping):
        return frozenset(), BodyShape(type).find_fault
    if hasattr(type, "find_fault"):
        return frozenset(), type.find_fault
    classes, words = _CLASSES[type]
    return classes, lambda value: None if value.__class__ in classes else f" must be {words}"
