"""Commands that are built from the table of operations: the parameters of a method become arguments and options.

A parameter has one name everywhere; the shell writes it with dashes, and one that is repeated in the singular. Its help is
what the docstring says under ``Args:``. Parameters without a default are arguments. A command is built when it is called.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

import typer

from lukasa.core.record import Key
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.options import (
    Call,
    Command,
    CommandApp,
    parse_time,
    progress_bar,
    read_input,
    read_text,
    require_choice,
    require_scopes,
    require_utf8,
)
from lukasa.operations import OPERATIONS, Operation

IDENTITY = frozenset({"author", "origin", "from_agent", "key", "progress", "network"})
"""Parameters that say who calls. A command takes one of them only if its row offers it."""
COMMANDS: Mapping[str, Operation] = {row.shell: row for row in OPERATIONS if row.shell}
"""The operations that have a command, by its words."""

_FILES = {"skill": "FILE|-"}
_TEXTS = frozenset({"text", "content", "item"})
_NAMES = frozenset({"scope", "scopes", "agent", "author", "by", "category", "speaker", "of", "topic", "name", "rubric"})
_LEAST = {
    "k": 1,
    "limit": 1,
    "version": 1,
    "number": 1,
    "checkpoint_number": 1,
    "keep": 0,
    "token_count": 0,
    "budget": 0,
}
_OWN_WORDS = {
    "action_log": "A step: a word for what was done, or JSON.",
    "errors": "An error as TYPE:MESSAGE:FIX, or as JSON.",
    "state": "The state as JSON, or a file of it; - reads stdin.",
    "episodes": "A JSON file with one or many episodes; - reads stdin.",
    "skill": "A Markdown file; - reads stdin.",
    "forecasts.resolve.outcome": "Whether it happened: yes or no.",
    "window": "Only what was resolved in the last DAYS days.",
    "impact": "Whether it changed the final output.",
    "feedback_incorporated": "Whether it was used; default: the same as the impact.",
    "until": "Until when; without it, now.",
    "item": "The memory, in plain words.",
    "changes": "A setting of the conversation, such as max_tokens=50000.",
    "tags": "A word to filter by.",
    "artifact": "The record that holds the decision; putting it back to what it was reverts the override.",
}
"""The shell's help for parameters whose docstrings speak of Python."""
_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_CODE = re.compile(r"``([^`]*)``")


def find_method(method: str) -> Callable[..., Any]:
    """Return the method of an operation without opening a store."""
    from lukasa.jobs import Jobs
    from lukasa.journal import Journal
    from lukasa.memory import SERVICES, Memory
    from lukasa.trust.rubric import Rubrics

    owner, _, name = method.rpartition(".")
    own: dict[str, Any] = {"": Memory, "journal": Journal, "jobs": Jobs, "trust.rubric": Rubrics}
    found = own.get(owner)
    if found is None or (owner == "" and name in SERVICES):
        service = SERVICES[owner or name]
        found, name = getattr(import_module(service.package), service.class_name), name if owner else "__call__"
    return getattr(found, name)  # type: ignore[no-any-return]  # a method


def describe(operation: Operation) -> str:
    """Return the help of a command: the words of its row, or the beginning of the docstring; and an example."""
    text = operation.help
    if not text:
        first = inspect.cleandoc(find_method(operation.method).__doc__ or "").split("\n\n")[0]
        text = re.sub(r"^(Return|Yield)\b", "Show", _plain_words(" ".join(first.split()))).replace(", or None.", ".")
    return f"{text}\n\nExample: lukasa {operation.example or operation.shell}"


def _plain_words(text: str) -> str:
    """Return a text of the library in the words of the shell; sentences with Python code are left out."""
    sentences = re.split(r"(?<=[.;]) ", text)
    kept = [
        one for one in sentences if all(re.fullmatch(r"(?!None|True|False)[\w-]+", code) for code in _CODE.findall(one))
    ]
    plain = _CODE.sub(r"\1", " ".join(kept)).rstrip(";")
    return plain if not plain or plain.endswith(".") else f"{plain}."


def _singular(name: str) -> str:
    return "criterion" if name == "criteria" else name.removesuffix("s")


def _parse_key(text: str) -> Key:
    parts = text.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise InvalidInput(f"{text[:80]!r} does not name a record.", hint="Write it as SCOPE/KIND/ID.")
    return Key(*parts)


def _parse_days(days: float) -> timedelta:
    if not 0 <= days <= 100_000:
        raise InvalidInput(f"{days:g} is not a number of days.", hint="Use a number from 0 to 100000.")
    return timedelta(days=days)


def _parse_time_or_text(text: str) -> datetime | str | None:
    try:
        return parse_time(text)
    except InvalidInput:
        return text


def _parse_answer(text: str) -> bool | str:
    return _TRUTH.get(text.lower(), text)


def _parse_json(text: str, name: str) -> Any:
    """Parse JSON that is given as it is, in a file, or on stdin."""
    from lukasa.core.canonical_json import decode

    data = text.encode() if text.lstrip()[:1] in ("{", "[") else read_input(text)
    if name == "state":
        from lukasa.transfer.layouts.session_json import read_session

        return read_session(data)
    try:
        return decode(data)
    except InvalidInput as error:
        place = f"--{name.replace('_', '-')}" if text.encode() == data else text
        raise InvalidInput(f"{place}: {error.message}") from error


def _parse_objects(text: str, name: str) -> list[dict[str, Any]]:
    found = _parse_json(text, name)
    objects = found if isinstance(found, list) else [found]
    if not all(isinstance(item, dict) for item in objects):
        raise InvalidInput(f"{text[:80]} is not an object or a list of objects.")
    return objects


def _parse_items(name: str, words: Iterable[str]) -> list[Any]:
    """Parse objects, each as JSON or in the short form of a step or an error."""
    found: list[Any] = []
    for word in words:
        parts = zip(("type", "message", "resolution"), word.split(":", 2), strict=False)
        if word.startswith("{"):
            found.append(_parse_json(word, name))
        elif name == "errors":
            found.append({field: part.strip() for field, part in parts if part.strip()})
        else:
            found.append({"action": word})
    return found


def _parse_pairs(words: Iterable[str]) -> dict[str, Any]:
    """Parse ``NAME=VALUE``; a value that is JSON is what JSON says, any other is text."""
    found: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.strip():
            raise InvalidInput(f"{word[:80]!r} has no name and value.", hint="Write NAME=VALUE.")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found


@dataclass(frozen=True, slots=True)
class ShellType:
    """How the shell takes a value: the type for Typer, its name in the help, and how the value for the method is made."""

    type: Any
    metavar: str
    parse: Callable[[Any], Any] | None = None
    choices: tuple[str, ...] = ()
    repeats: bool = False


def find_shell_type(name: str, hint: Any) -> ShellType | None:
    """Return how the shell takes a parameter; None if it cannot."""
    origin = get_origin(hint)
    members = (
        [each for each in get_args(hint) if each is not types.NoneType]
        if origin in (Union, types.UnionType)
        else [hint]
    )
    for each in members:
        arguments = get_args(each)
        if get_origin(each) is Literal:
            return ShellType(str, "WORD", choices=arguments)
        if arguments and _is_a(each, Iterable) and not _is_a(each, Mapping):
            item = arguments[0]
            if item is float:
                return ShellType(tuple[float, float], "LOW HIGH")
            if name == "episodes":
                return ShellType(str, "FILE|JSON", partial(_parse_objects, name=name))
            if _is_a(item, Mapping):
                return ShellType(str, "TEXT|JSON", partial(_parse_items, name), repeats=True)
            found = find_shell_type(name, item)
            return found and replace(found, repeats=True)
    if name in _FILES:
        return ShellType(str, _FILES[name], read_text)
    if hint is Any:
        return ShellType(str, "yes|no|TEXT", _parse_answer)
    known = set(members)
    if datetime in known:
        return ShellType(str, "TIME", _parse_time_or_text if name == "at" and str in known else parse_time)
    if str in known:
        metavar = "ID" if re.search(r"(^|_)ids?$", name) else "NAME" if name in _NAMES else "TEXT"
        return ShellType(str, metavar)
    if members[0] in (bool, int):
        return ShellType(members[0], "N" * (members[0] is int))
    if members[0] is float:
        return ShellType(float, "N", lambda number: int(number) if number.is_integer() else number)
    if timedelta in known:
        return ShellType(float, "DAYS", _parse_days)
    if Key in known:
        return ShellType(str, "SCOPE/KIND/ID", _parse_key)
    if any(_is_a(each, Mapping) for each in members):
        if float in get_args(members[0]):
            return ShellType(str, "NAME=VALUE", _parse_pairs, repeats=True)
        return ShellType(str, "FILE|JSON", partial(_parse_json, name=name))
    return None


def _is_a(hint: Any, base: type) -> bool:
    origin = get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, base)


@dataclass(frozen=True, slots=True)
class ShellParameter:
    """One parameter of a method, as an argument or an option of its command."""

    name: str
    shell: str
    """The argument in capital letters, or the option with its dashes."""
    kind: ShellType
    is_argument: bool
    required: bool
    default: Any
    help: str
    spreads: bool = False
    """Whether the method takes the values as keyword arguments."""
    must_be_passed: bool = False
    """Whether the method has no default for it."""

    @classmethod
    def of(cls, operation: Operation, parameter: inspect.Parameter, hint: Any, text: str) -> Self | None:
        """Return a parameter with its name in the shell, its default, and its help; None if the shell cannot take it."""
        name, given, order = parameter.name, parameter.default, operation.arguments.split()
        spreads = parameter.kind is parameter.VAR_KEYWORD
        kind = ShellType(str, "NAME=VALUE", _parse_pairs, repeats=True) if spreads else find_shell_type(name, hint)
        if kind is None:
            return None
        must_be_passed = given is parameter.empty and not spreads
        required = must_be_passed and types.NoneType not in get_args(hint)
        is_plain = required and kind.type is not bool and parameter.kind is not parameter.KEYWORD_ONLY
        is_argument = name in order if order else is_plain
        word = dict(pair.split("=") for pair in operation.short.split()).get(name, name)
        dashed = (_singular(word) if kind.repeats else word).replace("_", "-")
        if is_argument:
            shell = dashed.replace("-", "_").upper() + "…" * kind.repeats + "|-" * (name in _TEXTS)
            shell = kind.metavar if name in _FILES or kind.metavar.startswith(("FILE", "NAME=")) else shell
        elif kind.type is bool and (required or given is None or given is True):
            shell = f"--{dashed}/--no-{dashed}"
        else:
            shell = f"-{name}" if len(name) == 1 else f"--{dashed}"
        default = given if isinstance(given, int | float | str) and given != "" else None
        own = _OWN_WORDS.get(f"{operation.method}.{name}", _OWN_WORDS.get(name))
        help = own or _plain_words(text)
        return cls(name, shell, kind, is_argument, required, default, help, spreads, must_be_passed)

    @property
    def for_typer(self) -> inspect.Parameter:
        """Return the parameter that Typer reads."""
        needed = list[self.kind.type] if self.kind.repeats else self.kind.type  # type: ignore[name-defined]  # at run time
        more = " (repeatable)." if self.kind.repeats and not self.is_argument else "."
        settings: dict[str, Any] = {
            "help": self.help.rstrip(".") + more,
            "metavar": self.shell if self.is_argument else self.kind.metavar,
        }
        if self.kind.choices:
            settings["help"] = (
                f"{settings['help'][:-1]}: {', '.join(self.kind.choices)}."
                if self.kind.choices[0] not in self.help
                else settings["help"]
            )
            settings["autocompletion"] = lambda incomplete: [
                word for word in self.kind.choices if word.startswith(incomplete)
            ]
        if self.kind.type in (int, float) and not self.kind.repeats and self.name in _LEAST:
            settings["min"] = _LEAST[self.name]
        if self.is_argument:
            info: Any = typer.Argument(**settings)
        elif self.kind.type is bool:
            info = typer.Option(self.shell, help=self.help)
        else:
            info = typer.Option(self.shell, **settings)
        default = inspect.Parameter.empty if self.required else self.default
        optional = needed if self.required or default is not None else needed | None
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[optional, info]
        )

    def read(self, value: Any) -> Any:
        """Return the value for the method."""
        noun = _singular(self.name).replace("_", " ")
        noun = f"a{'n' * noun.startswith(tuple('aeio'))} {noun}"
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str):
                require_utf8(word)
                require_choice(word, self.kind.choices or (word,), noun)
        if value == "-" and self.name in _TEXTS:
            value = read_text("-")
            value = value.rstrip("\n") if self.name != "content" else value
            require_utf8(value)
        return value if self.kind.parse is None else self.kind.parse(value)


def read_parameters(operation: Operation) -> list[ShellParameter]:
    """Return the parameters of a method that its command takes, arguments first."""
    from lukasa.methods import describe_parameters
    from lukasa.recall.memories import MemorySource  # which some modules import for type checkers only

    method = find_method(operation.method)
    texts, order = describe_parameters(method), operation.arguments.split()
    function, known = inspect.unwrap(method), {"MemorySource": MemorySource}
    hints = {
        name: eval(hint, function.__globals__, known)  # noqa: S307 - an annotation of our own
        for name, hint in function.__annotations__.items()
        if name != "return"
    }
    left_out = {"self", *operation.omit.split(), *(IDENTITY - set(operation.offers.split()))}
    shaped = [
        ShellParameter.of(operation, parameter, hints[name], texts.get(name, ""))
        for name, parameter in inspect.signature(method).parameters.items()
        if name not in left_out
    ]
    found = [parameter for parameter in shaped if parameter is not None]
    found.sort(key=lambda each: order.index(each.name) if each.name in order else len(order) + (not each.is_argument))
    return found


class BuiltCommand(Command):
    """A command that calls one method. Its parameters are read from the method when they are looked at."""

    def __init__(self, operation: Operation, panel: str = "") -> None:
        self.operation = operation
        self._made: Any = None
        super().__init__(operation.shell.rpartition(" ")[2], help=describe(operation), rich_help_panel=panel or None)

    @property
    def _built(self) -> Any:
        """Make the command with Typer, once."""
        if self._made is not None:
            return self._made
        holder = CommandApp()
        parameters = read_parameters(self.operation)

        def run(call: Call, **given: Any) -> None:
            run_operation(call, self.operation, parameters, given)

        first = inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=Call)
        run.__signature__ = inspect.Signature([first, *(each.for_typer for each in parameters)])  # type: ignore[attr-defined]
        holder.command(str(self.name))(run)
        self._made = typer.main.get_group(holder).commands[str(self.name)]
        return self._made

    @property
    def params(self) -> Any:
        """Return the arguments and options."""
        return self._built.params

    @params.setter
    def params(self, _: Any) -> None:
        """Leave out what the base class sets."""

    @property
    def callback(self) -> Any:
        """Return the function that runs the command."""
        return self._built.callback

    @callback.setter
    def callback(self, _: Any) -> None:
        """Leave out what the base class sets."""


def run_operation(
    call: Call, operation: Operation, parameters: Sequence[ShellParameter], given: Mapping[str, Any]
) -> None:
    """Call the method of an operation with the values of a command line, and print its answer."""
    from lukasa.interfaces.cli import answers

    arguments: dict[str, Any] = {}
    for parameter in parameters:
        value = given[parameter.name]
        if value == parameter.default and not parameter.required and not parameter.must_be_passed:
            continue
        if value is None or value == [] or value == ():
            if parameter.must_be_passed:
                arguments[parameter.name] = None
            continue
        read = parameter.read(value)
        arguments |= read if parameter.spreads else {parameter.name: read}
    memory = call.memory if operation.effect == "writes" else call.existing_memory
    if operation.effect == "reads":
        scopes = arguments.get("scopes", [arguments.get("scope")])
        require_scopes(memory.journal, *(scope for scope in scopes if scope != SHARED))
    target: Any = memory
    for name in operation.method.split("."):
        target = getattr(target, name)
    answers.check(call, operation.method, arguments)
    if operation.progress:
        with progress_bar(operation.progress) as bar:
            answer = target(**arguments, progress=bar)
    else:
        answer = target(**arguments)
    answers.show_answer(call, operation, answer, ChainMap(arguments, dict(given)))
