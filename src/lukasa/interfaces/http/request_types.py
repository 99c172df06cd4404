"""The type of each field of a request: that of the method's parameter, with bounds."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, Field, Strict, create_model

from lukasa.core.choices import Role
from lukasa.core.record import Key
from lukasa.interfaces.http.requests import MAX_ITEMS, Moment, Name, RequestModel, WholeNumber, parse_time
from lukasa.interfaces.serialise import FIELDS
from lukasa.methods import read_hints

LongText = Annotated[str, Field(max_length=100_000)]
Text = Annotated[str, Field(min_length=1, max_length=20_000)]
Question = Annotated[str, Field(max_length=10_000)]
Content = Annotated[str, Field(max_length=4_000_000)]
JsonObject = dict[str, Any]
Time = Annotated[str, Field(max_length=40, examples=["2026-11-17T09:00:00Z"]), AfterValidator(parse_time)]
Seconds = Annotated[
    float,
    Field(gt=0, le=3.2e9, allow_inf_nan=False, description="Seconds."),
    AfterValidator(lambda seconds: timedelta(seconds=seconds)),
]
Position = Annotated[WholeNumber, Field(ge=0, le=2**62)]
Days = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)]


class NewTurn(RequestModel):
    """One message of a conversation."""

    role: Role
    content: Content
    speaker: Annotated[str, Field(max_length=200)] = ""
    timestamp: Moment | None = None
    token_count: Annotated[int, Field(ge=0, le=2**31)] | None = None
    tool_calls: list[JsonObject] = Field(default=[], max_length=100)
    tool_call_id: Annotated[str, Field(max_length=200)] = ""


def _bounded_number(low: float, high: float) -> Any:
    return Annotated[float, Field(ge=low, le=high, allow_inf_nan=False)]


def _bounded_count(low: int, high: int) -> Any:
    return Annotated[WholeNumber, Field(ge=low, le=high)]


def _bounded_list(most: int, item: Any = Name, least: int = 0) -> Any:
    return Annotated[list[item], Field(min_length=least, max_length=most)]


_NAMES = _bounded_list(20)
_BOUNDS: Mapping[str, Any] = {
    "after": Position,
    "any_labels": _NAMES,
    "archive_after": Days,
    "as_of": Time | Position,
    "at": Time | Position | Name,
    "author": Name,
    "before": Position,
    "budget": _bounded_count(1, 1_000_000),
    "canonical_text": Text,
    "content": Content,
    "days": _bounded_count(1, 3_650),
    "deadline": Annotated[float, Field(gt=0, le=60)],
    "delay": _bounded_number(0, 1e8),
    "exclude": _NAMES,
    "id": Name,
    "k": _bounded_count(1, 100),
    "kinds": _bounded_list(50),
    "labels": _NAMES,
    "limit": _bounded_count(1, MAX_ITEMS),
    "mentions": Name,
    "min_relevance": _bounded_number(0, 1),
    "number": _bounded_count(0, 2**31),
    "patience": _bounded_number(0, 60),
    "previous_dissents": _bounded_list(MAX_ITEMS, LongText),
    "query": Question,
    "scope": Name,
    "scopes": _bounded_list(100),
    "subject": Name,
    "summarise_after": Days,
    "tags": _NAMES,
    "tool_calls": _bounded_list(100, JsonObject),
    "turns": _bounded_list(
        MAX_ITEMS, Annotated[NewTurn, AfterValidator(lambda turn: turn.model_dump(exclude_unset=True))], 1
    ),
    "where": Annotated[dict[Name, Any], Field(max_length=20)],
    "context.assemble.budget": _bounded_count(100, 1_000_000),
    "context.fork.at": Time | Position | Name,
    "forecasts.resolve.at": Time,
    "journal.compact.before": Time,
    "journal.write.text": Content,
    "recall.author": Name | list[Name],
    "recall.conversation": Name | list[Name],
    "remember.text": Text,
    "trust.score.at": Time,
    "vault.add_memory.text": Text,
    "sessions.prune.budget": None,
    "vault.note.text": Text,
    "vault.update.text": Text,
    "vault.update_by_topic.text": Text,
    "MemoryProposal.text": Text,
}
"""Bounds by the name of a parameter, or by its operation and name where they differ."""
_PLAIN: Mapping[Any, Any] = {
    str: LongText,
    bool: bool,
    int: _bounded_count(0, 2**31),
    float: _bounded_number(-1e15, 1e15),
    datetime: Time,
    timedelta: Seconds,
    dict: JsonObject,
    Any: Any,
    object: Any,
    types.NoneType: None,
}
_OBJECTS = frozenset({"Budget", "Entity", "Key", "Link", "MemoryProposal", "Relation", "Retention"})
"""The values that a request carries as an object of their fields."""
_OWN_FIELDS: Mapping[str, frozenset[str]] = {"MemoryProposal": frozenset({"author", "source"})}
"""Fields of those values that no request may set."""


def request_type(place: str, hint: Any) -> Any:
    """Return the type of a request's field; ``place`` is its operation and its name."""
    bounds = _BOUNDS.get(place, _BOUNDS.get(place.rpartition(".")[2]))
    if bounds is None:
        return _convert(hint)
    return bounds | None if types.NoneType in get_args(hint) else bounds


def _convert(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return reduce(or_, map(_convert, _choose_parts(parts)))
    if origin is Literal:
        return hint
    if origin is tuple and parts[-1] is not ...:
        return Annotated[tuple[tuple(map(_convert, parts))], Strict(False)]  # type: ignore[misc]  # JSON has only lists
    if origin in (list, tuple, Sequence, Iterable):
        item = _convert(parts[0])
        return _bounded_list(MAX_ITEMS, Name if item == LongText else item)
    if origin in (dict, Mapping):
        item = _convert(parts[1])
        return JsonObject if item is Any else dict[Name, item]  # type: ignore[valid-type]  # known at run time
    return _PLAIN[hint] if hint in _PLAIN else build_object(hint)


def _choose_parts(parts: Sequence[Any]) -> list[Any]:
    """Return the alternatives that JSON tells apart: a time is a text, and an object of the library has its fields."""
    known = [part for part in parts if get_origin(part) or part in _PLAIN or part.__name__ in _OBJECTS]
    if datetime in known and str in known:
        return [part for part in known if part in (datetime, types.NoneType)]
    if Key in known and str in known:
        return [part for part in known if part is not Key]
    if any(getattr(part, "__name__", "") in _OBJECTS for part in known):
        return [part for part in known if part in (str, types.NoneType) or getattr(part, "__name__", "") in _OBJECTS]
    return known


@cache
def build_object(kind: type) -> Any:
    """Return the type of a request's field that holds the fields of a class, by the names that answers have."""
    hints = read_hints(kind)
    own = _OWN_FIELDS.get(kind.__name__, frozenset())
    words = (word.partition("=") for word in FIELDS.get(kind.__name__, "").split())
    shown = {attribute: name for name, _, attribute in words if attribute}
    taken: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in own:
            type = Name if kind is Key else request_type(f"{kind.__name__}.{field.name}", hints[field.name])
            is_needed = field.default is MISSING and field.default_factory is MISSING
            taken[field.name] = (type, Field(... if is_needed else None, alias=shown.get(field.name)))
    model = create_model(f"{kind.__name__}Request", __base__=RequestModel, __doc__=kind.__doc__, **taken)

    def build(given: RequestModel) -> Any:
        values = {name: getattr(given, name) for name in given.model_fields_set}
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    return Annotated[model, AfterValidator(build)]
