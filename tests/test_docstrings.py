"""Every public method says what its parameters mean and shows a call; the calls run."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa import client
from lukasa.experience.episodes import RunningEpisode
from lukasa.jobs import REGISTRY, Jobs, Task
from lukasa.journal import Journal
from lukasa.memory import SERVICES, Memory
from lukasa.memory_graph import Entity, Relation
from lukasa.sessions import Session
from lukasa.storage.engine import Reader
from lukasa.trust import AgentMemory
from lukasa.trust.rubric import Rubrics
from support.api_server import run_api_server, token_for

CLASSES: tuple[type, ...] = (
    Memory, Journal, Jobs, Reader, Session, RunningEpisode, AgentMemory, Rubrics,
    *(getattr(import_module(service.package), service.class_name) for service in SERVICES.values()),
    client.RemoteMemory,
)  # fmt: skip
FUNCTIONS = (lukasa.open, lukasa.restore, lukasa.find_backups, lukasa.audit_source, lukasa.connect)
PARTS_OF_THE_LIBRARY = {
    "Forecasts": "count_versions fill_sections take_in",
    "Jobs": "seen_by serving work",
    "Journal": "add_to_counter change_stamp check_author end_request find_imports for_request get_parsed put_vectors "
    "read_parsed replay revise with_reach with_valid_bodies",
    "Memory": "for_request",
    "Reader": "adjacent_turns cosines count_without_vectors frequency get_parsed match_vector names_at near_duplicates "
    "read_parsed without_vectors",
    "Session": "begin mark_recovering reopen restore settle",
    "Sessions": "erase_files find_files",
}
"""Methods that other parts of the library call for a user. Their parameters are described; they need no example."""


def public_methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of a class and its bases by name."""
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        if inspect.isfunction(member) and (name == "__call__" or not name.startswith("_")):
            yield name, inspect.unwrap(member)


METHODS = [(f"{cls.__name__}.{name}", method) for cls in CLASSES for name, method in public_methods(cls)]
METHODS += [(function.__name__, inspect.unwrap(function)) for function in FUNCTIONS]


def read_section(method: Callable[..., Any], title: str) -> str:
    """Return a section of a docstring without its indentation."""
    found = re.search(rf"^{title}:\n((?:    .*\n?)+)", inspect.getdoc(method) or "", re.MULTILINE)
    return textwrap.dedent(found[1]).strip("\n") if found else ""


@pytest.mark.requirement("DOO-1")
def test_every_public_method_describes_its_parameters_and_shows_a_call() -> None:
    faults = []
    for name, method in METHODS:
        parameters = [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
        described = re.findall(r"^\*{0,2}(\w+): \S", read_section(method, "Args"), re.MULTILINE)
        if described != parameters:
            faults.append(f"{name} describes {described}, not {parameters}")
        owner, _, verb = name.rpartition(".")
        needs_example = verb not in PARTS_OF_THE_LIBRARY.get(owner, "").split()
        lines = read_section(method, "Example").splitlines()
        if needs_example != (1 <= len(lines) <= 4):
            faults.append(f"{name} has an example of {len(lines)} lines")
    assert faults == []


EXAMPLES = {name: example for name, method in METHODS if (example := read_section(method, "Example"))}


SHOWS_A_REFUSAL = {"Conversations.using", "Jobs.retry", "Vault.judge"}
"""Examples that a fresh store refuses: it has no failed job and no conversation, and judge shows why a text is refused."""


class ExampleNames(dict[str, Any]):
    """The names that examples use; each is made when an example first mentions it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(
            lukasa=lukasa,
            folder=folder,
            datetime=datetime,
            timedelta=timedelta,
            UTC=UTC,
            Entity=Entity,
            Reader=Reader,
            Relation=Relation,
        )
        self._stack = stack

    def __missing__(self, name: str) -> Any:
        make = {
            "memory": lambda: self._stack.enter_context(lukasa.open("memory:", embedder="hash")),
            "session": lambda: self["memory"].sessions.start("demo"),
            "reader": lambda: self._stack.enter_context(self["memory"].journal.snapshot()),
            "url": lambda: self._stack.enter_context(run_api_server("memory:", ("orion",))),
            "token": lambda: token_for("orion"),
            "remote": lambda: self._stack.enter_context(lukasa.connect(self["url"], self["token"])),
        }
        if name not in make:
            raise KeyError(name)
        self[name] = make[name]()
        return self[name]


@pytest.mark.slow
@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the example of a docstring on a fresh store; nothing in it is refused."""
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    monkeypatch.setitem(REGISTRY, "tidy", Task("tidy", lambda memory: None))
    with ExitStack() as stack:
        names = ExampleNames(tmp_path, stack)
        for statement in ast.parse(EXAMPLES[name]).body:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), name, "eval"), names)
                assert name in SHOWS_A_REFUSAL or not isinstance(value, lukasa.Refused | lukasa.Conflict), value
            else:
                exec(compile(ast.Module([statement], []), name, "exec"), names)
