"""Filters on records that the indexes do not know: several authors or conversations, any or none of some labels, fields of the body.

The indexes propose their best records; the filter keeps those that meet it. If few are left, the indexes are asked for more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lukasa.core.record import Record
from lukasa.errors import InvalidInput

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Conditions on a record; empty ones do not limit."""

    authors: Collection[str] = ()
    conversations: Collection[str] = ()
    any_labels: Collection[str] = ()
    exclude: Collection[str] = ()
    where: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, wanted in self.where.items():
            unknown = [sign for sign in wanted if sign not in _COMPARISONS] if isinstance(wanted, Mapping) else ()
            if unknown:
                raise InvalidInput(
                    f"{unknown[0]!r:.40} is no comparison for the field {name!r:.60}.",
                    hint=f"Use {', '.join(_COMPARISONS)}, or a plain value for equality.",
                )

    @property
    def is_empty(self) -> bool:
        return not (self.authors or self.conversations or self.any_labels or self.exclude or self.where)

    def accepts(self, record: Record) -> bool:
        """Return whether a record meets all conditions."""
        labels = set(record.labels)
        return (
            (not self.authors or record.author in self.authors)
            and (not self.conversations or record.label("session") in self.conversations)
            and (not self.any_labels or not labels.isdisjoint(self.any_labels))
            and labels.isdisjoint(self.exclude)
            and all(_meets(record.body, name, wanted) for name, wanted in self.where.items())
        )


def list_values(name: str, values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the values of a filter that takes several; raise ``InvalidInput`` for a string, which is not a list of letters."""
    if isinstance(values, str):
        raise InvalidInput(f"{name} takes a list, not a string.", hint=f"Write {name}=[{values!r:.60}].")
    return tuple(values or ())


def one_or_more(values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the values of a filter that takes one or several."""
    return (values,) if isinstance(values, str) else tuple(values or ())


def _meets(body: Mapping[str, Any], path: str, wanted: Any) -> bool:
    """Return whether a field of a body meets conditions, or one item of its list; ``a.b`` names a field inside another."""
    value: Any = body
    for part in (path,) if path in body else path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    conditions = wanted if isinstance(wanted, Mapping) else {"eq": wanted}
    values = value if isinstance(value, list | tuple) else (value,)
    return any(all(_compare(sign, item, limit) for sign, limit in conditions.items()) for item in values)


def _compare(sign: str, value: Any, limit: Any) -> bool:
    """Compare two values, numbers with numbers and texts with texts; other values are neither larger nor smaller."""
    if sign not in ("eq", "ne") and not (
        (isinstance(value, str) and isinstance(limit, str))
        or all(isinstance(item, int | float) and not isinstance(item, bool) for item in (value, limit))
    ):
        return False
    is_same_type = isinstance(value, bool) == isinstance(limit, bool)
    return _COMPARISONS[sign](value, limit) if is_same_type else sign == "ne"
