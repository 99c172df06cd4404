"""Operations called over HTTP as the example of their method calls them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any
from urllib.parse import quote

from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

import lukasa
from lukasa.core.record import Key
from lukasa.core.scope import SYSTEM
from lukasa.interfaces.api_tokens import ApiToken, token_from_environment
from lukasa.interfaces.http import app as http_app
from lukasa.interfaces.serialise import to_json
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.memory import Memory
from lukasa.memory_graph import Entity, Relation
from lukasa.methods import find_method
from lukasa.operations import Operation, is_taken
from lukasa.storage.engine import Query
from support.api_server import token_for

READER = "-who-only-reads"
OWNER = token_for("").removeprefix(token_for("x")[:-1])


class Done(Exception):
    """The operation of an example has been called; what follows in the example is about its result."""


def read_example(function: Callable[..., Any]) -> str:
    """Return the example of a docstring."""
    found = re.search(r"^Example:\n((?:    .*\n?)+)", inspect.getdoc(function) or "", re.MULTILINE)
    return textwrap.dedent(found[1]) if found else ""


@dataclass(frozen=True)
class Call:
    """A request for an operation, with the status and the JSON of its answer, and the versions before and after it."""

    status: int
    content: Any
    tips: tuple[int, int]
    versions: tuple[int, int]


class Watched:
    """A memory or a service of it, whose call of one operation becomes a request."""

    def __init__(self, real: Any, path: str, method: str, send: Callable[..., None], agent: str = "") -> None:
        self._real, self._path, self._method, self._send, self._agent = real, path, method, send, agent

    def __getattr__(self, name: str) -> Any:
        path, real = f"{self._path}.{name}".lstrip("."), getattr(self._real, name)
        if path == self._method:
            return partial(self._send, self._agent)
        if name == "as_agent":
            return lambda agent, **options: Watched(real(agent, **options), "", self._method, self._send, agent)
        is_on_the_way = self._method.startswith(f"{path}.")
        return Watched(real, path, self._method, self._send, self._agent) if is_on_the_way else real


@dataclass(frozen=True)
class Server:
    """The HTTP API over a store, and the store as its owner has it."""

    client: TestClient
    memory: Memory

    def describe(self) -> Any:
        return self.client.get("/openapi.json").json()

    def call_example(self, operation: Operation) -> Call:
        """Run the example of an operation until it calls the operation; return that call, made over HTTP."""
        function = inspect.unwrap(find_method(operation))
        found: list[Call] = []

        def send(caller: str, /, *arguments: Any, **options: Any) -> None:
            found.append(self._request(operation, function, arguments, options, caller))
            raise Done

        names = {
            "lukasa": lukasa, "datetime": datetime, "timedelta": timedelta, "UTC": UTC, "Entity": Entity,
            "Relation": Relation, "Key": Key, "memory": Watched(self.memory, "", operation.method, send),
        }  # fmt: skip
        try:
            exec(compile(ast.parse(read_example(function)), operation.method, "exec"), names)
        except Done:
            return found[0]
        raise AssertionError(f"The example of {operation.method} does not call it.")

    def _request(
        self,
        operation: Operation,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        caller: str,
    ) -> Call:
        signature = inspect.signature(function)
        bound = signature.bind(*([None] if "self" in signature.parameters else []), *arguments, **options)
        given, in_path = dict(bound.arguments), set(re.findall(r"{(\w+)}", operation.path))
        given.pop("self", None)
        for name, parameter in signature.parameters.items():
            if name in in_path:
                given.setdefault(name, parameter.default)
        for name, value in list(given.items()):
            if isinstance(value, Query):
                del given[name]
                given |= {
                    field.name: getattr(value, field.name)
                    for field in fields(Query)
                    if getattr(value, field.name) != field.default
                }
            elif isinstance(value, Key) and "kind" in in_path:
                given |= to_json(given.pop(name))
        path = operation.path.format(**{name: quote(str(given.pop(name)), safe="") for name in in_path})
        identity = [name for name in ("author", "agent", "from_agent") if not is_taken(operation, name)]
        authors = [given[name] for name in identity if name in given]
        headers = {"Authorization": f"Bearer {token_for(next(iter(authors), caller))}"}
        if "expected" in given:
            headers["If-Match"] = f'"v{given.pop("expected")}"'
        content = {
            name: to_json(value) for name, value in given.items() if value is not None and is_taken(operation, name)
        }
        request: dict[str, Any] = {
            "params" if operation.verb in ("GET", "DELETE") else "json": content,
            "headers": headers,
        }
        if operation.effect == "reads":
            self.client.request(operation.verb, path, **request)  # the first call notes which embedder the store has
        before = self._measure()
        answer = self.client.request(operation.verb, path, **request)
        tips, versions = zip(before, self._measure(), strict=True)
        return Call(answer.status_code, answer.json(), tips, versions)

    def _measure(self) -> tuple[int, int]:
        rows = [row for row in self.memory.journal.tally() if row.scope != SYSTEM]
        return self.memory.journal.tip(), sum(row.versions for row in rows)


class StoreOfNow:
    """The store that an app serves, which changes from test to test: building an app takes longer than most calls."""

    def __init__(self) -> None:
        self.stores: CallerStores | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stores, name)


def find_token(secret: str) -> ApiToken:
    """Return the token whose secret names an agent or the owner."""
    name = secret.removeprefix(token_for("x")[:-1]).removesuffix(READER)
    token = token_from_environment(secret, "" if name == OWNER else name, None)
    return replace(token, read_only=secret.endswith(READER))


@cache
def build_shared_app(count: int) -> tuple[StoreOfNow, Any]:
    holder: Any = StoreOfNow()
    return holder, http_app.build_app(holder, find_token, ["testserver"])


@contextmanager
def open_server(location: str = "memory:", agent: str = "", *, read_only: bool = False) -> Iterator[Server]:
    """Serve a store to its owner, or to an agent, without a socket."""
    stores = CallerStores(location, Caller(), embedder="hash")
    holder, app = build_shared_app(len(http_app.ROUTERS))
    holder.stores = stores
    secret = token_for(agent) + (READER if read_only else "")
    client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {secret}"})
    try:
        yield Server(client, stores.for_caller(Caller()))
    finally:
        client.close()
        stores.close()


def find_schema(document: Any, operation: Operation, status: int) -> Any:
    """Return the schema of an operation's answer, with the components that it refers to."""
    described = document["paths"][operation.path][operation.verb.lower()]["responses"][str(status)]
    return described["content"]["application/json"]["schema"] | {"components": document["components"]}


def list_faults(document: Any, operation: Operation, status: int, content: Any) -> list[str]:
    """List where an answer differs from its schema."""
    errors = Draft202012Validator(find_schema(document, operation, status)).iter_errors(content)
    return [f"{operation.method}: {error.json_path}: {error.message[:300]}" for error in errors]
