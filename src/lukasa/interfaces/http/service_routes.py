"""Routes that each call one method of a service: the signature of the method is the description of the request.

A parameter that the path names is read from the path. The others are query parameters of a GET or DELETE and fields of the
body of other requests. The caller's identity never comes from a request: ``IDENTITY`` lists parameters that no route takes.
"""

from __future__ import annotations

import inspect
import string
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field, create_model

from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Key
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import (
    MAX_ITEMS,
    CallerMemory,
    ExpectedVersion,
    Name,
    RequestModel,
    WritingMemory,
    parse_time,
)
from lukasa.interfaces.http.responses import WRITTEN, JsonResponse, outcome_response
from lukasa.interfaces.outcomes import not_found
from lukasa.memory import Memory

IDENTITY = frozenset({"author", "origin", "from_agent", "key", "progress", "network"})

LongText = Annotated[str, Field(max_length=100_000)]
JsonObject = dict[str, Any]
Time = Annotated[str, Field(max_length=40, examples=["2026-11-17T09:00:00Z"]), AfterValidator(parse_time)]
Days = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False, description="Days.")]
Seconds = Annotated[
    float,
    Field(gt=0, le=3.2e9, allow_inf_nan=False, description="Seconds."),
    AfterValidator(lambda seconds: timedelta(seconds=seconds)),
]


class RecordKey(RequestModel):
    """The identity of a record."""

    scope: Name
    kind: Name
    id: Name


AnyKey = Annotated[RecordKey, AfterValidator(lambda key: Key(key.scope, key.kind, key.id))]

_TYPES: Mapping[Any, Any] = {
    str: LongText,
    bool: bool,
    int: Annotated[int, Field(ge=0, le=2**31)],
    float: Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)],
    datetime: Time,
    timedelta: Seconds,
    Key: AnyKey,
    Any: Any,
    types.NoneType: None,
}
_NAMED_TYPES: Mapping[str, Any] = {
    "limit": Annotated[int, Field(ge=1, le=MAX_ITEMS)],
    "k": Annotated[int, Field(ge=1, le=100)],
    "days": Annotated[int, Field(ge=1, le=3_650)],
    "number": Annotated[int, Field(ge=0, le=2**31)],
    "summarise_after": Days,
    "archive_after": Days,
    "scope": Name,
    "id": Name,
}


class ServiceRoutes:
    """The routes of one noun. ``find_service`` returns the service for a caller."""

    def __init__(self, path: str, find_service: Callable[[Memory], Any]) -> None:
        noun = path.rpartition("/")[2]
        self.router = PrefixRouter(prefix=path, tags=[noun])
        self._find_service = find_service

    def add(
        self,
        verb: str,
        path: str,
        method: Callable[..., Any],
        *,
        answer: str = "",
        status: int = 200,
        omit: str = "",
        rename: Mapping[str, str] | None = None,
    ) -> None:
        """Add a route that calls a method.

        ``answer`` names the field of the answer that holds a list or a number. ``omit`` lists parameters that the route
        does not take. ``rename`` gives a parameter another name in the request, so that it is taken in any case.
        """
        hints = get_type_hints(method)
        returned = hints.get("return")
        names = rename or {}
        hidden = {*IDENTITY, *omit.split(), "self", "return"} - set(names)
        in_path = {name for _, name, _, _ in string.Formatter().parse(path) if name}
        parameters: list[inspect.Parameter] = []
        body_fields: dict[str, Any] = {}
        arguments: dict[str, str] = {}
        for parameter in inspect.signature(method).parameters.values():
            old = parameter.name
            new = names.get(old, old)
            if old in hidden or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if old == "expected":
                parameters.append(_parameter(old, ExpectedVersion))
                continue
            kind = _NAMED_TYPES.get(old) or to_request_type(hints[old])
            if _NAMED_TYPES.get(old) and types.NoneType in get_args(hints[old]):
                kind |= None
            arguments[old] = new
            if new in in_path:
                parameters.append(_parameter(new, Name if kind == LongText else kind))
            elif verb in ("GET", "DELETE"):
                parameters.append(_parameter(new, Annotated[kind, Query()], parameter.default))
            else:
                body_fields[new] = (kind, ... if parameter.default is parameter.empty else _plain(parameter.default))
        name = f"{method.__qualname__.replace('.', ' ').replace('_', ' ').title().replace(' ', '')}Request"
        body = create_model(name, __base__=RequestModel, **body_fields) if body_fields else None
        if body is not None:
            body.__doc__ = f"What {verb} {self.router.prefix}{path} takes."
            parameters.append(_parameter("body", body))
        memory_type = CallerMemory if verb == "GET" else WritingMemory

        def call(memory: Memory, body: BaseModel | None = None, expected: int | None = None, **given: Any) -> Any:
            values = (
                given if body is None else {**given, **{field: getattr(body, field) for field in body.model_fields_set}}
            )
            keywords = {old: values[new] for old, new in arguments.items() if new in values}
            if expected is not None:
                keywords["expected"] = expected
            result = getattr(self._find_service(memory), method.__name__)(**keywords)
            return to_response(result, answer=answer, status=status, noun=" ".join(map(str, given.values())))

        call.__name__ = method.__name__ if not method.__name__.startswith("_") else "run"
        call.__doc__ = inspect.getdoc(method) or f"Call ``{method.__qualname__}`` of the library."
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # the attribute that inspect reads
            [_parameter("memory", memory_type), *parameters]
        )
        responses: dict[int | str, dict[str, Any]] = {status: describe_answer(returned, answer)}
        self.router.add_api_route(
            path,
            call,
            methods=[verb],
            status_code=status,
            responses=responses,
            response_model=None,
            operation_id=f"{self.router.prefix.rpartition('/')[2]}_{call.__name__}_{verb.lower()}",
        )


def to_request_type(hint: Any) -> Any:
    """Return the type of a request's field for a type of the library."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        parts = tuple(part for part in parts if part is not str or datetime not in parts)  # a text is that of a time
        plain = [part for part in parts if not inspect.isclass(part) or part in _TYPES or get_origin(part)]
        return reduce(or_, (to_request_type(part) for part in plain if part is not Key or str not in plain))
    if origin is Literal:
        return hint
    if origin in (list, tuple, Sequence, Iterable):
        item = to_request_type(parts[0])
        item = Name if item == LongText else item
        return Annotated[list[item], Field(max_length=MAX_ITEMS)]  # type: ignore[valid-type]  # known at run time
    if origin in (dict, Mapping):
        item = to_request_type(parts[1])
        return JsonObject if item is Any else dict[Name, item]  # type: ignore[valid-type]  # known at run time
    return _TYPES[hint]


def to_response(result: Any, *, answer: str = "", status: int = 200, noun: str = "") -> Any:
    """Return the response for what a method of the library returned."""
    if isinstance(result, Accepted | Conflict | Refused):
        return outcome_response(result, status=status)
    if result is None or (result is False and not answer):
        raise not_found(f"There is no {noun[:80]!r} here.")
    return JsonResponse({answer: result} if answer else result, status)


def describe_answer(returned: Any, answer: str = "") -> dict[str, Any]:
    """Return how OpenAPI describes the answer of a method."""
    if returned == Outcome:
        return WRITTEN
    schema: dict[str, Any] = {"type": "boolean" if returned is bool and not answer else "object"}
    if answer:
        is_list = get_origin(returned) in (list, tuple, Sequence) or returned is list
        schema |= {"required": [answer], "properties": {answer: {"type": "array"} if is_list else {}}}
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=_plain(default))


def _plain(default: Any) -> Any:
    """Return a default as JSON can show it."""
    return (
        list(default)
        if isinstance(default, tuple)
        else default.total_seconds()
        if isinstance(default, timedelta)
        else default
    )
