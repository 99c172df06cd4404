"""One operation of the library, called over the HTTP API of a server.

The method of the library says which arguments a call takes, and the row of ``lukasa.operations`` where they go: into the
path, the query or the body. The answer is a value of the type that the method returns.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import wraps
from operator import index
from string import Formatter
from typing import Any, SupportsFloat, SupportsIndex, get_args, get_origin
from urllib.parse import quote

from lukasa.api_connection import ApiConnection, ApiProblem
from lukasa.core.argument_types import build_check
from lukasa.core.clock import to_utc
from lukasa.core.http_client import HttpResponse
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput
from lukasa.methods import find_method, read_type
from lukasa.operations import Operation, is_taken
from lukasa.storage.engine import Query
from lukasa.value_json import MEDIA_TYPE, read_value, write_value

PAGE_SIZE = 1_000
"""How many records one request of ``journal.read`` asks for."""


class ApiCall:
    """The requests of one operation. ``own`` has what a live answer, such as a running episode, calls."""

    def __init__(self, connection: ApiConnection, operation: Operation, own: Mapping[str, Any]) -> None:
        self._connection = connection
        self._operation = operation
        self._own = own
        self._in_path = [name for _, name, _, _ in Formatter().parse(operation.path) if name]
        self.method = inspect.unwrap(find_method(operation))
        self.signature = read_signature(operation)
        self._check = build_check(self.method, f"memory.{operation.method}")
        self._returned = read_type(self.method.__annotations__["return"], self.method)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the operation with the arguments of its method."""
        values: dict[str, Any] = {}
        bound = self.signature.bind(*arguments, **options)
        self._check((None, *arguments), options)
        for name, value in bound.arguments.items():
            if value is None and self.signature.parameters[name].default is None:
                continue
            if isinstance(value, Query) and value.hidden:
                raise InvalidInput("A server shows no hidden records.", hint="Leave `hidden` out.")
            is_spread = isinstance(value, Query) or (isinstance(value, Key) and "{kind}" in self._operation.path)
            values |= encode_argument(value) if is_spread else {name: encode_argument(value)}
        for name in self._in_path:
            parameter = self.signature.parameters.get(name)
            value = values.setdefault(name, "" if parameter is None else parameter.default)
            if value == "" or not isinstance(value, str | int):
                raise InvalidInput(f"A server needs {name} as a text that is not empty.", hint=f"Write {name}=….")
        if get_origin(self._returned) is Iterator:
            return self._read_pages(values)
        try:
            response = self._send(values)
        except ApiProblem as problem:
            if Refused not in get_args(self._returned):
                raise
            if problem.code == "conflict" and "key" in problem.details:
                return Conflict(**{**problem.details, "key": Key(**problem.details["key"])})
            return Refused(problem.code or "refused", problem.message, problem.details)
        if self._returned != Outcome:
            return read_value(self._returned, response.content, self._own)
        records = read_value(Sequence[Record], response.content.get("records", [response.content]))
        is_repeated = response.headers.get("idempotent-replayed") == "true"
        return Accepted(records, is_repeated, response.content.get("details", {}))

    def _send(self, values: Mapping[str, Any]) -> HttpResponse:
        """Send a request whose values have the names of the method's parameters."""
        operation, rest = self._operation, dict(values)
        path = operation.path.format(**{name: quote(str(rest.pop(name)), safe="") for name in self._in_path})
        headers = {"Accept": MEDIA_TYPE}
        if (expected := rest.pop("expected", None)) is not None:
            headers["If-Match"] = f'"v{expected}"'
        if not is_taken(operation, "key") and (key := rest.pop("key", None)) is not None:
            headers["Idempotency-Key"] = key
        in_query = operation.verb in ("GET", "DELETE")
        query = {
            name: json.dumps(value) if isinstance(value, bool) else value
            for name, value in rest.items()
            if value is not None
        }
        return self._connection.request(
            operation.verb,
            path,
            None if in_query else rest,
            query=query if in_query else None,
            headers=headers,
            with_key=operation.effect in ("writes", "deletes"),
            repeatable=operation.effect == "reads",
        )

    def _read_pages(self, values: dict[str, Any]) -> Iterator[Any]:
        """Yield the items of an answer; records come page by page."""
        limit = values.get("limit")
        has_pages = self._operation.method == "journal.read"
        asked = values | {"limit": min(limit or PAGE_SIZE, PAGE_SIZE)} if has_pages else values
        count = 0
        while True:
            content = self._send(asked).content
            for item in read_value(self._returned, content["records"] if has_pages else content):
                yield item
                count += 1
                if count == limit:
                    return
            if not has_pages or content["next"] is None:
                return
            asked = asked | {"cursor": content["next"]}


def read_signature(operation: Operation) -> inspect.Signature:
    """Return the signature of a method without what only a call within the process can have, such as another author."""
    signature = inspect.signature(inspect.unwrap(find_method(operation)))
    in_query = operation.verb in ("GET", "DELETE")
    return signature.replace(
        parameters=[
            parameter
            for parameter in signature.parameters.values()
            if (is_taken(operation, parameter.name) or parameter.name == "key")
            and not (in_query and parameter.kind is parameter.VAR_KEYWORD)
        ]
    )


def build_method(connection: ApiConnection, operation: Operation, own: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function that calls an operation, with the name, the signature and the docstring of its method."""
    call = ApiCall(connection, operation, own)

    @wraps(call.method)
    def run(*arguments: Any, **options: Any) -> Any:
        return call(*arguments, **options)

    run.__signature__ = call.signature  # type: ignore[attr-defined]  # the attribute that inspect reads
    return run


def encode_argument(value: Any) -> Any:
    """Return an argument as JSON; of an object only the fields that differ from their defaults."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, datetime):
        return write_value(to_utc(value))
    if isinstance(value, timedelta | date):
        return write_value(value)
    if is_dataclass(value) and not isinstance(value, type):
        found = {}
        for field in fields(value):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if (given := getattr(value, field.name)) != default:
                found[field.name] = encode_argument(given)
        return found
    if isinstance(value, Mapping):
        return {str(name): encode_argument(item) for name, item in value.items()}
    if isinstance(value, Iterable):
        return [encode_argument(item) for item in (sorted(value) if isinstance(value, Set) else value)]
    if isinstance(value, SupportsIndex):
        return index(value)
    if isinstance(value, SupportsFloat):
        return float(value)
    raise InvalidInput(
        f"A request cannot hold a value of the class {type(value).__name__}.", hint="Send its id or text."
    )
