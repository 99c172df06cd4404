"""Operations called as the example of their method calls them: on a store, or on another one through the client."""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import lukasa
from lukasa.client import RemoteMemory
from lukasa.core.record import Key
from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.memory_graph import Entity, Relation
from lukasa.methods import find_method
from lukasa.operations import Operation
from lukasa.testing import CountingIds, FrozenClock
from lukasa.value_json import write_value
from support.api_server import serve_app, token_for
from support.operation_calls import read_example

OWN_EXAMPLES: Mapping[str, str] = {
    "handoffs.accept": """
kept = memory.as_agent("ada").handoffs.create("orion", "The form is done; test it.")
memory.as_agent("orion").handoffs.accept(kept.record.id)
""",
    "handoffs.create": 'memory.as_agent("ada").handoffs.create("ben", "The form is done.", needs_testing=["the form"])',
    "ledgers.checkpoint": 'memory.as_agent("ada").ledgers.checkpoint(current_task="Fix the login page", completed=1)',
    "trust.rubric.apply": 'memory.trust.rubric.apply("nothing", by="anna")',
    "trust.rubric.reject": 'memory.trust.rubric.reject("nothing", by="anna")',
    "vault.corroborate": """
kept = memory.as_agent("ada").remember("We deploy on Tuesdays.")
memory.as_agent("ben").vault.corroborate(kept.record.id)
""",
}
"""Examples in place of those in which the owner writes in an agent's name, or which may call nothing."""


class Split:
    """A memory or a service of it, of which one operation is called through the client and everything else directly."""

    def __init__(
        self, real: Any, remote: Any, path: str, method: str, answers: list[Any], connect: Callable[[str], Any]
    ) -> None:
        self._real, self._remote, self._path, self._method = real, remote, path, method
        self._answers, self._connect = answers, connect

    def __getattr__(self, name: str) -> Any:
        path, real = f"{self._path}.{name}".lstrip("."), getattr(self._real, name)
        if path == self._method:
            return lambda *arguments, **options: self._call(name, arguments, options)
        if name == "as_agent":
            return lambda agent, **options: Split(
                real(agent, **options), self._connect(agent), "", self._method, self._answers, self._connect
            )
        if not self._method.startswith(f"{path}."):
            return real
        return Split(real, getattr(self._remote, name), path, self._method, self._answers, self._connect)

    def _call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answer = getattr(self._remote, name)(*arguments, **options)
        self._answers.append(list(answer) if isinstance(answer, Iterator) else answer)
        return self._answers[-1]


@dataclass(frozen=True)
class TwoStores:
    """Two equal stores: one for the library, and one with the client of its server."""

    memory: Any
    served: Any
    connect: Callable[[str], RemoteMemory]

    def call_both(self, operation: Operation) -> tuple[list[Any], list[Any]]:
        """Run the example of an operation on both; return the answers of the library and of the client."""
        direct = self._run(operation, self.memory, self.memory, lambda agent: self.memory.as_agent(agent))
        return direct, self._run(operation, self.served, self.connect(""), self.connect)

    def _run(self, operation: Operation, real: Any, remote: Any, connect: Callable[[str], Any]) -> list[Any]:
        function = inspect.unwrap(find_method(operation))
        example = OWN_EXAMPLES.get(operation.method) or read_example(function)
        answers: list[Any] = []
        names = {
            "lukasa": lukasa, "datetime": datetime, "timedelta": timedelta, "UTC": UTC, "Entity": Entity,
            "Relation": Relation, "Key": Key, "print": lambda *_: None,
            "memory": Split(real, remote, "", operation.method, answers, connect),
        }  # fmt: skip
        exec(compile(ast.parse(example), operation.method, "exec"), names)
        return answers


@contextmanager
def open_two_stores(place: str, served_place: str) -> Iterator[TwoStores]:
    """Open two equal stores, and serve one of them on a socket."""
    stores = CallerStores(served_place, Caller(), **_fixed_options())
    agents = {token_for(agent): agent for agent in ("", "ada", "ben", "carol", "critic", "orion")}
    with ExitStack() as stack:
        memory = stack.enter_context(lukasa.open(place, **_fixed_options()))
        stack.callback(stores.close)
        url = stack.enter_context(
            serve_app(
                lambda address: build_app(
                    stores, lambda secret: token_from_environment(secret, agents[secret], None), [address]
                )
            )
        )
        yield TwoStores(
            memory,
            stores.for_caller(Caller()),
            lambda agent: stack.enter_context(lukasa.connect(url, token_for(agent))),
        )


def _fixed_options() -> dict[str, Any]:
    clock = FrozenClock(datetime(2026, 11, 19, 9, tzinfo=UTC))
    return {"clock": clock, "new_id": CountingIds(), "embedder": "hash", "rng": random.Random(7)}


def comparable(answer: Any) -> Any:
    """Return an answer as JSON without what two equal stores differ in: positions in the log and random words of fences."""
    return _without_chance(write_value(answer))


def _without_chance(content: Any) -> Any:
    if isinstance(content, dict):
        chance = {"seq", "tokens"} if "<lukasa " in str(content.get("text", "")) else {"seq"}
        return {name: _without_chance(item) for name, item in content.items() if name not in chance}
    if isinstance(content, list):
        return [_without_chance(item) for item in content]
    return re.sub(r"(lukasa |here: )[0-9a-f]{16}", r"\1NONCE", content) if isinstance(content, str) else content


def list_classes(value: Any) -> list[str]:
    """Return the names of the library's classes in a value, in the order of their fields."""
    if is_dataclass(value):
        own = [field.name for field in fields(value) if not field.name.startswith("_") and field.name != "dropped"]
        return [type(value).__name__, *(name for field in own for name in list_classes(getattr(value, field)))]
    if isinstance(value, Mapping):
        return [name for _, item in sorted(value.items(), key=str) for name in list_classes(item)]
    if hasattr(value, "__iter__") and not isinstance(value, str | bytes):
        return [name for item in value for name in list_classes(item)]
    return []
