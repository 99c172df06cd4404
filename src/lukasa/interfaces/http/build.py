"""The routes of the operations in ``lukasa.operations``: the signature of the method is the description of the request.

A parameter that the path names is read from the path. The others are query parameters of a GET or DELETE and fields of the
body of other requests. What ``operations.is_taken`` leaves out never comes from a request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from string import Formatter
from typing import Annotated, Any, get_args, get_origin

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, create_model

from lukasa.core.outcome import Outcome
from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput
from lukasa.experience import ConsolidationResult
from lukasa.interfaces.http.adapters import ADAPTERS, VIEWS, RecordPage
from lukasa.interfaces.http.request_types import request_type
from lukasa.interfaces.http.requests import CallerMemory, ExpectedVersion, IfNoneMatch, RequestModel, WritingMemory
from lukasa.interfaces.http.responses import BOOK, DEFERRED, VALUES_ASKED, OperationCall, json_answer
from lukasa.jobs import DeferredJob
from lukasa.methods import describe_parameters, find_method, read_hints, read_prose
from lukasa.operations import OPERATIONS, Operation, is_taken
from lukasa.storage.engine import Query as RecordQuery
from lukasa.vault import VaultMemory

DEFAULT_LIMIT = 100
"""How many entries a list has whose length the library does not limit."""


def build_routers(operations: Iterable[Operation] = OPERATIONS) -> list[APIRouter]:
    """Return a router for each noun, with the routes of its operations in the order of the table."""
    routers: dict[str, APIRouter] = {}
    for operation in operations:
        if operation.http:
            noun = operation.path.split("/")[2]
            router = routers.setdefault(noun, APIRouter(prefix=f"/v1/{noun}", tags=[noun]))
            _Route(operation).add_to(router)
    return list(routers.values())


class _Route:
    """The route of one operation: how its parameters are read from a request, and what it answers."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        method = find_method(operation)
        self.function = adapter = ADAPTERS.get(operation.method, method)
        self.view = VIEWS.get(operation.method)
        self.hints = read_hints(adapter)
        self.texts = describe_parameters(method) | describe_parameters(adapter)
        self.prose = read_prose(adapter if adapter.__doc__ else method)
        self.in_path = {name for _, name, _, _ in Formatter().parse(operation.path) if name}
        self.parameters: list[inspect.Parameter] = []
        self.body_fields: dict[str, Any] = {}
        self.readers: list[Callable[[dict[str, Any]], None]] = []
        """Functions that put the fields of a request together to the arguments of the method."""
        self.names: set[str] = set()
        for parameter in inspect.signature(adapter).parameters.values():
            if is_taken(operation, parameter.name) or self.hints.get(parameter.name) is Key:
                self._take(parameter, self.hints.get(parameter.name))
        self.view_names = self._take_view() if self.view else frozenset()

    def _take_view(self) -> frozenset[str]:
        """Take the options of how the answer is shown."""
        assert self.view is not None
        self.texts |= describe_parameters(self.view)
        options = [each for each in inspect.signature(self.view).parameters.values() if each.kind is each.KEYWORD_ONLY]
        for option in options:
            self._take(option, read_hints(self.view)[option.name])
        return frozenset(option.name for option in options)

    def _take(self, parameter: inspect.Parameter, hint: Any) -> None:
        name = parameter.name
        if get_origin(hint) is Annotated or hint is Request:
            self._add_parameter(name, hint, parameter.default)
        elif name == "expected":
            self._add_parameter(name, ExpectedVersion)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            self._take_field(name, list[hint], [])
        elif parameter.kind is parameter.VAR_KEYWORD:
            self._take_extra(name, open_end=True)
        elif hint is RecordQuery:
            self._take_query(name)
        elif hint is Key and {"scope", "kind", "id"} <= self.in_path:
            self._take_key(name)
        elif name == "extra":
            self._take_extra(name, open_end=False)
        else:
            self._take_field(name, hint, parameter.default)

    def _take_field(self, name: str, hint: Any, default: Any) -> None:
        """Take a parameter from the path, the query or the body."""
        is_empty = default is inspect.Parameter.empty
        kind, text = request_type(f"{self.operation.method}.{name}", hint), self.texts.get(name)
        if name == "limit" and default is None:
            default, text = DEFAULT_LIMIT, f"{text or 'How many to return at most.'} Default: {DEFAULT_LIMIT}."
            self.readers.append(lambda given: None if VALUES_ASKED.get() else given.setdefault("limit", DEFAULT_LIMIT))
        self.names.add(name)
        shown = list(default) if isinstance(default, tuple) else default
        if not is_empty and not isinstance(shown, list | str | int | float | bool):
            shown = None  # the default marks a field as not given
        if name in self.in_path:
            self._add_parameter(name, Annotated[kind, Path(description=text)])
        elif self.operation.verb in ("GET", "DELETE"):
            self._add_parameter(name, Annotated[kind, Query(description=text)], shown)
            self.readers.append(lambda given: given.pop(name) if not is_empty and given.get(name) == shown else None)
        else:
            may_be_null = default is None or (not is_empty and shown is None)
            kind = kind | None if may_be_null and type(None) not in get_args(kind) else kind
            self.body_fields[name] = (kind, Field(... if is_empty else shown, description=text))

    def _take_extra(self, name: str, *, open_end: bool) -> None:
        """Take a JSON object of further fields. None of them may be a parameter, or say who the caller is."""
        if self.operation.verb in ("GET", "DELETE"):
            return
        self.body_fields[name] = (dict[str, Any], Field({}, description=self.texts.get(name)))

        def check(given: dict[str, Any]) -> None:
            extra = given.pop(name, {})
            refused = [field for field in extra if field in self.names or not is_taken(self.operation, field)]
            if refused:
                raise InvalidInput(f"{name} cannot have a field named {refused[0]!r:.80}.")
            values = {field: tuple(value) if isinstance(value, list) else value for field, value in extra.items()}
            given.update(values if open_end else {name: extra})

        self.readers.append(check)

    def _take_query(self, name: str) -> None:
        """Take the fields of a query of the log as parameters, without those that need the owner or say who the caller is."""
        hints, taken = read_hints(RecordQuery), [field for field in fields(RecordQuery) if field.name != "hidden"]
        for field in taken:
            self._take_field(field.name, hints[field.name], field.default)

        def build(given: dict[str, Any]) -> None:
            values = {field.name: given.pop(field.name) for field in taken if field.name in given}
            values = {field: tuple(value) if isinstance(value, list) else value for field, value in values.items()}
            given[name] = RecordQuery(**values)

        self.readers.append(build)

    def _take_key(self, name: str) -> None:
        """Take the key of a record from the path."""
        for part in ("scope", "kind", "id"):
            self._add_parameter(part, Annotated[request_type(part, str), Path()])
        self.readers.append(
            lambda given: given.update({name: Key(given.pop("scope"), given.pop("kind"), given.pop("id"))})
        )

    def _add_parameter(self, name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> None:
        self.parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        )

    def add_to(self, router: APIRouter) -> None:
        """Add the route to the router of its noun."""
        operation, (summary, prose) = self.operation, self.prose
        memory_type = CallerMemory if operation.effect == "reads" else WritingMemory
        self._add_parameter("memory", memory_type)
        if self.body_fields:
            title = f"{operation.name.title().replace('_', '')}Request"
            body = create_model(
                title, __base__=RequestModel, __doc__=f"What {operation.http} takes.", **self.body_fields
            )
            is_needed = any(field.is_required() for field in body.model_fields.values())
            self._add_parameter("body", body, inspect.Parameter.empty if is_needed else body())
        returned = self.hints["return"]
        name = "" if returned is RecordPage else operation.answer
        kinds = {part for part in (get_args(returned) or (returned,)) if isinstance(part, type)} - {type(None)}
        has_version = operation.verb == "GET" and kinds in ({Record}, {VaultMemory})
        if has_version:
            self._add_parameter("if_none_match", IfNoneMatch, None)
        call: Any = self._make_call()
        call.__name__, call.__doc__ = operation.name, prose
        call.__signature__ = inspect.Signature(self.parameters)
        answer = json_answer("The answer.", BOOK.describe_answer(returned, name))
        statuses: dict[int | str, Any] = {200: answer}
        if returned == Outcome and operation.effect == "writes":
            statuses = {201: answer | {"description": "The record that was created."}, 200: answer}
        elif DeferredJob in get_args(returned) and ConsolidationResult not in get_args(returned):
            statuses = {202: DEFERRED}
        if has_version:
            statuses[304] = {"description": "It still has the version of If-None-Match."}
        for status, response in getattr(self.function, "responses", {}).items():
            content = statuses.get(status, {}).get("content", {}) | response["content"]
            statuses[status] = {**statuses.get(status, {}), **response, "content": content}
        router.add_api_route(
            operation.path.removeprefix(router.prefix),
            call,
            methods=[operation.verb],
            status_code=next(iter(statuses)),
            responses=statuses,
            response_model=None,
            summary=summary,
            operation_id=operation.name,
        )

    def _make_call(self) -> OperationCall:
        kinds = {each.name: each.kind for each in inspect.signature(self.function).parameters.values()}
        in_order = [
            name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_ONLY and name != "self"
        ]
        many = next((name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL), "")
        adapter = ADAPTERS.get(self.operation.method)
        return OperationCall(
            self.operation, adapter, self.view, self.view_names, self.in_path, in_order, many, self.readers
        )
