"""Run the command line in this process, and describe the JSON that it prints.

The program is found only through its installed entry point, so that its modules may be renamed.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer.main
from typer.core import TyperGroup

LITERAL = frozenset(
    """action agent agent_id at author benchmark category cause code class detail direction dissents_from effect engine event form format from_agent kind mode origin outcome
    overrides_from
    performance_trend place product relation role scope section sort source state status tier to_agent trend unit what why""".split()  # noqa: SIM905
)
"""Fields whose text is a code or one word of a fixed set. Their value is frozen; of other texts only the type."""
COUNTED = frozenset(
    """added agents archived attempts changed compressed conflicts count counted cut dissents done dropped entries entry events expired failed
    files findings folded imported kept line live looked_at lost memories number overrides passed present questions records refused
    removed repaired repeats replayed retries rounds running steps successes failures there told unindexed version versions voices
    waiting""".split()  # noqa: SIM905
)
"""Fields that count something which a scenario makes the same every time."""
_CODE = re.compile(r"[a-z][a-z0-9_.-]{0,40}")
_VOLATILE_KEY = re.compile(r"[0-9a-f]{8,}|.*\d{4}-\d\d-\d\d.*|.*/.*")


class Reached(BaseException):
    """Stops the program once its root command is known."""


def program() -> Callable[[], object]:
    """Give the function that the installed command ``lukasa`` calls."""
    found: Callable[[], object] = entry_points(group="console_scripts")["lukasa"].load()
    return found


def root_command() -> Any:
    """Give the root of the command tree that the program runs."""
    seen: list[Any] = []

    def stop(self: Any, *_: object, **__: object) -> None:
        seen.append(self)
        raise Reached

    with (
        mock.patch.object(TyperGroup, "main", stop),
        mock.patch.object(sys, "argv", ["lukasa", "--version"]),
        pytest.raises(Reached),
    ):
        program()()
    return seen[0]


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Give every command and group of a tree with its path, in alphabetical order."""
    yield path, command
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from walk(below, (*path, name))


@cache
def leaf_paths() -> list[tuple[str, ...]]:
    """Give the paths of the commands that are not groups."""
    return [path for path, command in walk(root_command()) if not hasattr(command, "commands")]


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it printed."""

    code: int
    out: bytes
    err: str

    @property
    def printed_json(self) -> Any:
        """Give the JSON that was printed: a document, or one document a line."""
        try:
            return json.loads(self.out)
        except ValueError:
            return [json.loads(line) for line in self.out.splitlines()]


def run(words: list[str], stdin: bytes = b"") -> Answer:
    """Run a command line in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for data in (stdin, b"", b"")]
    come, out, err = streams
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["lukasa", *words]),
        mock.patch.object(sys, "stdin", come),
        mock.patch.object(typer.main, "get_command", _command),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            program()()
        except SystemExit as ended:
            code = ended.code or 0
    for stream in (out, err):
        stream.flush()
    assert isinstance(code, int), code
    return Answer(int(code), _written(out), _written(err).decode())


_make_command = typer.main.get_command


@cache
def _command(app: typer.Typer) -> Any:
    """Make the commands once: that takes longer than most of them run."""
    return _make_command(app)


def _written(stream: io.TextIOWrapper) -> bytes:
    below = stream.buffer
    assert isinstance(below, io.BytesIO)
    return below.getvalue()


_VALUED = ("--store", "--agent", "--profile", "--scope")


def path_of(line: str) -> tuple[str, ...]:
    """Give the path of the command that a command line names, or of a group that lists something by itself."""
    words = shlex.split(line)
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _VALUED else 1 :]
    known = set(leaf_paths())
    return next((tuple(words[:many]) for many in (3, 2, 1) if tuple(words[:many]) in known), tuple(words[:1]))


@dataclass(frozen=True)
class Step:
    """One command line of a scenario.

    ``{name}`` in it stands for a text that an earlier step kept. ``keep`` says what this step keeps, by a path into its
    JSON. ``plain`` leaves ``--json`` out. ``measured`` says that its numbers and verdicts depend on the machine. ``before``
    prepares files in the folder of the scenario.
    """

    line: str
    keep: dict[str, str] = field(default_factory=dict)
    stdin: str = ""
    plain: bool = False
    measured: bool = False
    before: Callable[[Path], object] | None = None


def play(steps: list[Step], folder: Path) -> str:
    """Run the steps of a scenario in a folder and describe what each one answered."""
    kept: dict[str, str] = {"folder": str(folder)}
    parts = []
    for step in steps:
        if step.before is not None:
            step.before(folder)
        words = [word.format(**kept) if "{" in word else word for word in shlex.split(step.line)]
        answer = run([*words, *([] if step.plain else ["--json"])], step.stdin.encode())
        parts.append(f"$ lukasa {step.line}\nexit {answer.code}\n{_described(answer, step)}\n")
        for name, where in step.keep.items():
            kept[name] = _found(answer.printed_json, where)
    return "\n".join(parts)


def _described(answer: Answer, step: Step) -> str:
    if step.plain:
        used = [name for name, printed in (("stdout", answer.out), ("stderr", answer.err)) if printed.strip()]
        return " and ".join(used) or "nothing"
    try:
        value = answer.printed_json
    except ValueError:
        return f"not JSON: {answer.out[:300]!r}\n{answer.err[:600]}"
    return described(_without_measures(value) if step.measured else value) if answer.out.strip() else "nothing"


def _without_measures(value: Any) -> Any:
    """Replace numbers and truth values by one word each, and bring lists into an order of their own."""
    if isinstance(value, dict):
        return {name: _without_measures(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return sorted((_without_measures(item) for item in value), key=lambda item: json.dumps(described(item)))
    if isinstance(value, bool):
        return Measure("verdict")
    return Measure("number") if isinstance(value, int | float) else value


class Measure(str):
    """A word that stands for a value which depends on the machine."""

    __slots__ = ()


def _found(value: Any, where: str) -> str:
    for part in where.split("."):
        value = value[int(part) if isinstance(value, list) else part]
    return str(value)


def described(value: Any, name: str = "", depth: int = 0) -> str:
    """Describe JSON: its fields with the types of their values, and the value itself where it is a code."""
    inner, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict):
        lines = [
            f"{inner}{_key(key)}: {described(inner_value, key, depth + 1)}\n" for key, inner_value in value.items()
        ]
        seen = dict.fromkeys(lines)  # keys that only differ in what is volatile are named once
        return "{\n" + "".join(seen) + end + "}" if lines else "{}"
    if isinstance(value, list):
        items = dict.fromkeys(described(item, name, depth + 1) for item in value)
        if not items:
            return "[]"
        if all("\n" not in item for item in items):
            return f"list of {len(value)} [" + ", ".join(items) + "]"
        return f"list of {len(value)} [\n" + "".join(f"{inner}{item}\n" for item in items) + end + "]"
    return _value(value, name)


def _key(key: str) -> str:
    return "<volatile>" if _VOLATILE_KEY.fullmatch(key) else key


def _value(value: Any, name: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, Measure):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"int {value}" if name in COUNTED else "int"
    if (
        isinstance(value, str)
        and name in LITERAL
        and (not value or (_CODE.fullmatch(value) and not _VOLATILE_KEY.fullmatch(value)))
    ):
        return f"str {value!r}"
    return type(value).__name__


def isolate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder, with a separate store, tokens and settings and without a model or network."""
    for name in [name for name in os.environ if name.startswith("LUKASA_") and name != "LUKASA_UPDATE_FROZEN"]:
        monkeypatch.delenv(name)
    home = folder / "home"
    home.mkdir()
    settings = {"HOME": home, "XDG_DATA_HOME": home / "data", "XDG_STATE_HOME": home / "state"}
    settings |= {"LUKASA_HOOKS": folder / "hooks"}
    settings |= {"LUKASA_STORE": folder / "agents.db"}
    for name, path in settings.items():
        monkeypatch.setenv(name, str(path))
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    monkeypatch.setenv("LUKASA_HOOK_DAEMON", "never")
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
