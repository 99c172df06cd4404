"""A public call with an argument of a wrong type raises ``InvalidInput``; no value gives an error from inside."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lukasa
from lukasa.core.argument_types import read_annotation
from lukasa.memory import SERVICES
from lukasa.operations import OVER_HTTP

STOPPED = threading.Event()
STOPPED.set()
WRONG_VALUES = (None, 5, "x", [5], ["x"], [{"x": 5}], {"x": object()}, {5: 1}, object())
RIGHT_VALUES: tuple[Any, ...] = (
    "x", 1, True, [], {}, datetime(2026, 3, 1, tzinfo=UTC), timedelta(days=1), STOPPED, Path("x"),
    lukasa.Key("shared", "memory", "x"), lukasa.Draft("note", "x"), lukasa.Reach.of(("shared",)), lambda *_: [],
)  # fmt: skip
NOT_CALLED = {"close", "abandon", "reopen", "run"}
"""Methods without parameters that end the object, or that take signals of the process."""
OBJECTS = (*SERVICES, "memory", "jobs", "journal", "rubric", "agent", "session", "episode", "lukasa", "remote")


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Open a store and collect every object whose methods are public."""
    monkeypatch.chdir(tmp_path)
    with lukasa.open("memory:", embedder="hash") as memory:
        found: dict[str, Any] = {name: getattr(memory, name) for name in (*SERVICES, "jobs", "journal")}
        found |= {"memory": memory, "rubric": memory.trust.rubric, "agent": memory.trust.agent("orion")}
        found |= {
            "session": memory.sessions.start("evening"),
            "episode": memory.episodes.start("Add a page"),
            "lukasa": lukasa,
        }
        found["remote"] = lukasa.connect("http://127.0.0.1:9", retries=0)
        yield found


def public_calls(name: str, thing: Any) -> Iterator[Callable[..., Any]]:
    """Yield the public methods of an object."""
    if name == "lukasa":
        yield from (lukasa.open, lukasa.restore, lukasa.connect, lukasa.find_backups, lukasa.audit_source)
        return
    if name == "remote":
        yield from (attrgetter(method)(thing) for method in OVER_HTTP)
    for member in dir(type(thing)):
        is_public = member == "__call__" or not member.startswith("_")
        if is_public and member not in NOT_CALLED and inspect.isfunction(getattr(type(thing), member)):
            yield getattr(thing, member)


def use(result: Any) -> None:
    """Do what a caller does with a result: iterate over it, enter it, close it."""
    if inspect.isgenerator(result):
        list(result)
    elif hasattr(result, "__enter__") and isinstance(result, lukasa.Memory):
        result.close()


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("name", OBJECTS)
def test_an_argument_of_a_wrong_type_is_invalid_input_and_others_give_an_error_of_ours_or_a_value(
    name: str, objects: dict[str, Any]
) -> None:
    taken: list[str] = []
    for call in public_calls(name, objects[name]):
        function = inspect.unwrap(getattr(call, "__func__", call))
        parameters = [
            parameter
            for parameter in inspect.signature(call).parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        takes = {each.name: read_annotation(each.annotation, function) for each in parameters}
        for wrong in parameters:
            for value in WRONG_VALUES:
                fits = takes[wrong.name].accepts(value)
                arguments, options = [], {}
                for each in parameters:
                    if each is wrong:
                        chosen = value
                    elif each.default is each.empty and each.kind is not each.VAR_POSITIONAL:
                        chosen = next((right for right in RIGHT_VALUES if takes[each.name].accepts(right)), object())
                    else:
                        continue
                    if each.kind is each.KEYWORD_ONLY or (each.default is not each.empty):
                        options[each.name] = chosen
                    else:
                        arguments.append(chosen)
                try:
                    use(call(*arguments, **options))
                    answer = "no error"
                except Exception as error:  # noqa: BLE001 - this is what the test looks for
                    answer = f"{type(error).__name__}: {error}"
                    if isinstance(error, lukasa.InvalidInput) or (fits and isinstance(error, lukasa.LukasaError)):
                        continue
                if not fits or answer != "no error":
                    taken.append(f"{function.__qualname__}({wrong.name}={value!r}): {answer}")
    assert taken == []


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda memory: memory.recall(None), "query must be str, not NoneType: None. Leave it out, or give it a value."),
        (lambda memory: memory.vault.get(5), "id must be str, not int: 5. help(Vault.get) describes the parameters."),
        (lambda memory: memory.remember("x", tags="x"), "tags must be Iterable[str], not str: 'x'. Write tags=['x']."),
        (lambda memory: memory.recall("x", kinds="memory"), "kinds must be Iterable[str], not str: 'memory'. Write kinds=['memory']."),
        (lambda memory: memory.recall("x", "3"), "k must be int, not str: '3'. help(Recall.__call__) describes the parameters."),
        (lambda memory: memory.journal.erase("x"), "keys must be Key, not str: 'x'. help(Journal.erase) describes the parameters."),
    ],
)  # fmt: skip
def test_the_error_names_the_argument_and_says_what_to_write(call: Callable[[Any], Any], message: str) -> None:
    with lukasa.open("memory:", embedder="hash") as memory, pytest.raises(lukasa.InvalidInput) as error:
        call(memory)
    assert str(error.value) == message


@pytest.mark.requirement("DOO-1")
def test_the_awaited_library_and_a_generator_refuse_wrong_types_too(tmp_path: Path) -> None:
    async def ask() -> None:
        async with lukasa.aio.open("memory:", embedder="hash") as memory:
            await memory.recall("x", kinds="memory")

    with pytest.raises(lukasa.InvalidInput, match="kinds must be"):
        asyncio.run(ask())
    with lukasa.open("memory:", embedder="hash") as memory, pytest.raises(lukasa.InvalidInput, match="query must be"):
        memory.journal.read("note")  # type: ignore[arg-type]


@pytest.mark.requirement("DOO-1")
def test_numbers_and_lists_of_other_libraries_fit() -> None:
    """Accept what behaves like the expected type: a number of numpy, a generator, the keys of a dictionary."""
    k: Any = np.int64(3)
    with lukasa.open("memory:", embedder="hash") as memory:
        assert memory.remember("We deploy on Tuesdays.", tags=(tag for tag in ["ops"]))
        assert len(memory.recall("deploy", k, kinds={"memory": 1}).hits) == 1
        with pytest.raises(TypeError, match="unexpected keyword"):
            memory.recall("deploy", limit=3)  # type: ignore[call-arg]


def test_arguments_are_checked_once_and_again_where_a_user_calls_from_inside() -> None:
    looked: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_find_misfit":
            looked.append(frame.f_back.f_locals["function"].__qualname__)

    with lukasa.open("memory:", embedder="hash") as memory:
        sys.setprofile(note)
        try:
            memory.remember("We deploy on Tuesdays.")
            memory.recall("deploy")
        finally:
            sys.setprofile(None)
        assert looked == ["Memory.remember", "Recall.__call__"]
        wrong: Any = 5

        def ask(_: Any) -> list[lukasa.Draft]:
            memory.vault.get(wrong)
            return []

        with pytest.raises(lukasa.InvalidInput, match="id must be str"):
            memory.journal.append_if(ask)
        with pytest.raises(lukasa.InvalidInput, match="labels must be"):
            memory.vault.search("deploy", labels=wrong)
