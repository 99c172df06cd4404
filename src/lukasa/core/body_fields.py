"""Views of the bodies of records: their fields as attributes with types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lukasa.core.clock import from_iso

ValueT = TypeVar("ValueT")


class BodyField(property, Generic[ValueT]):
    """An attribute of a view that reads one field of a body, its own or its record's; ``parse`` gets None for a missing one."""

    def __init__(self, name: str, parse: Callable[[Any], ValueT]) -> None:
        super().__init__(lambda view: parse(getattr(view, "record", view).body.get(name)))

    if TYPE_CHECKING:

        def __get__(self, view: Any, owner: type | None = None, /) -> ValueT: ...  # type: ignore[override]  # narrower on purpose


def text_field(name: str) -> BodyField[str]:
    return BodyField(name, lambda value: "" if value is None else str(value))


def count_field(name: str) -> BodyField[int]:
    return BodyField(name, lambda value: value if isinstance(value, int) else 0)


def number_field(name: str) -> BodyField[float]:
    return BodyField(name, lambda value: value if isinstance(value, int | float) else 0)


def object_field(name: str) -> BodyField[Mapping[str, Any]]:
    return BodyField(name, lambda value: value or {})


def list_field(name: str) -> BodyField[Sequence[Any]]:
    return BodyField(name, lambda value: value or ())


def time_field(name: str) -> BodyField[datetime | None]:
    return BodyField(name, lambda value: from_iso(value) if isinstance(value, str) else None)


def optional_field(name: str) -> BodyField[float | None]:
    return BodyField(name, lambda value: value if isinstance(value, int | float) else None)


def flag_field(name: str) -> BodyField[bool | None]:
    return BodyField(name, lambda value: value if isinstance(value, bool) else None)


@dataclass(frozen=True, slots=True)
class BodyView:
    """The body of a record, or a part of it, under typed names. Fields without a name are in ``body`` too."""

    body: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the body as it was written."""
        return dict(self.body)
