"""The parts that all commands share: the call with its global options, the classes of commands, common options and input."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

import lukasa
from lukasa import own_stores
from lukasa.core.canonical_json import SURROGATES
from lukasa.core.clock import from_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import Key
from lukasa.core.scope import SHARED, SYSTEM
from lukasa.errors import InvalidInput, NotAccepted, StoreDamaged, StoreMissing, StoreNotAllowed
from lukasa.interfaces.cli import render
from lukasa.interfaces.outcomes import ExitCode, not_found

if TYPE_CHECKING:
    from lukasa.journal import Journal
    from lukasa.storage.engine import Progress

FoundT = TypeVar("FoundT")
MAX_INPUT_BYTES = 64_000_000


def argument(metavar: str, help: str, **settings: Any) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help, **settings)


def option(metavar: str, help: str, *names: str, **settings: Any) -> Any:
    """Declare an option with a value; without names it is called like the parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **settings)


def choice(metavar: str, help: str, choices: Iterable[str], *names: str) -> Any:
    """Declare an option whose known values the shell completes."""
    known = tuple(choices)

    def complete(incomplete: str) -> list[str]:
        return [value for value in known if value.startswith(incomplete)]

    return typer.Option(*names, metavar=metavar, help=help, autocompletion=complete)


def flag(name: str, help: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, help=help)


JSON_HELP = "Print JSON for programs; also allowed before the command."
JsonOption = Annotated[bool, flag("--json", JSON_HELP)]
RecordScopeOption = Annotated[str | None, option("NAME", "The scope of the record, if several have it.", "--scope")]
TargetScopeOption = Annotated[str, option("NAME", "The scope to use.", "--scope")]
KindsOption = Annotated[list[str] | None, option("KIND", "Only this kind (repeatable).", "--kind")]
ScopesOption = Annotated[list[str] | None, option("NAME", "Only this scope (repeatable).", "--scope")]
LabelsOption = Annotated[list[str] | None, option("LABEL", "Only with this label (repeatable).", "--label")]
AuthorOption = Annotated[str | None, option("NAME", "Only what this author wrote.", "--author")]
SinceOption = Annotated[str | None, option("TIME", "Only what happened at or after this time.", "--since")]
UntilOption = Annotated[str | None, option("TIME", "Only what happened at or before this time.", "--until")]
AsOfOption = Annotated[str | None, option("TIME", "As the store was at this time.", "--as-of")]
BlockBudgetOption = Annotated[int | None, option("TOKENS", "Print a prompt block of at most this many tokens.", min=1)]
ForceOption = Annotated[bool, flag("--force", "Replace files that are there already.")]
_NO_STORE_HINT = "`lukasa remember TEXT` creates it; --store names another one."


@dataclass(slots=True)
class Call:
    """One run of a command: its global options, the store that it works on, and how it prints the answer."""

    store: str | None = None
    agent: str = ""
    scopes: tuple[str, ...] = ()
    json: bool = False
    profile: str | None = None
    _opened: lukasa.Memory | None = None

    @property
    def memory(self) -> lukasa.Memory:
        """Return the store, opened on first use and created if it does not exist. The end of the command closes it."""
        if self._opened is None:
            self._opened = self.open()
        return self._opened

    @property
    def existing_memory(self) -> lukasa.Memory:
        """Return the store like ``memory``, but refuse one that does not exist."""
        if self._opened is None:
            self._opened = self.open(create=False)
        return self._opened

    def close(self) -> None:
        """Close the store if the command has opened it."""
        if self._opened is not None:
            self._opened.close()

    def open(self, *, create: bool = True) -> lukasa.Memory:
        """Open the store with the caller's reach. A new store is reported on stderr, or refused without ``create``."""
        from lukasa.config import locate_store

        location = locate_store(self.store)
        require_utf8(str(location))
        path = location.path
        missing = path is not None and not path.exists()
        if missing and not create:
            raise StoreMissing(f"There is no store at {path}.", hint=_NO_STORE_HINT)
        open_store = functools.partial(
            lukasa.open,
            self.store,
            agent=self.agent,
            scopes=self.scopes or None,
            create=create,
            profile=self.profile,
            progress=_show_migration if sys.stderr.isatty() else None,
        )
        try:
            try:
                memory = open_store()
            except StoreNotAllowed as error:
                if path is None or not path.exists() or not self._may_allow(error):
                    raise
                own_stores.allow_store(path)
                memory = open_store()
        except StoreDamaged as error:
            raise StoreDamaged(f"{location} is too damaged to be opened.", hint="Restore a backup.") from error
        if missing:
            render.print_to_stderr(f"Made a new store: {path}")
        return memory

    def _may_allow(self, error: StoreNotAllowed) -> bool:
        """Ask the person at the terminal, if there is one, whether a store that may be a stranger's is used from now on."""
        if self.json or not sys.stdin.isatty() or not sys.stderr.isatty():
            return False
        return typer.confirm(f"{error.message} Agents will read what is in it. Use it?", default=False, err=True)

    def show(
        self,
        value: Any,
        text: render.Lines | Callable[[], None] = (),
        *,
        exit_code: ExitCode = ExitCode.OK,
        **options: Any,
    ) -> None:
        """Print the answer, as JSON with ``--json``, else as ``render.show`` does. An exit code ends the command."""
        render.show(value, as_json=self.json, text=text, **options)
        if exit_code:
            raise typer.Exit(exit_code)

    def show_more(self, text: render.Lines = (), **options: Any) -> None:
        """Print another part of the answer for a person; with ``--json`` the first part was all."""
        if not self.json:
            render.show((), as_json=False, text=text, **options)

    def warn(self, sentence: str) -> None:
        """Print a remark for a person to stderr, apart from the answer."""
        if not self.json:
            render.print_to_stderr(sentence)


def get_options(ctx: typer.Context, as_json: bool = False) -> Call:
    """Return the call that a command belongs to; ``--json`` counts before and after the command's name."""
    call = ctx.find_object(Call)
    assert call is not None
    call.json = call.json or as_json
    return call


def _process_value(param: Any, ctx: Any, value: Any) -> Any:
    """Return the value of a parameter. Typer converts it with pydantic, which loads only if there is something to convert."""
    needed = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if value is None and not param.required:
        value = () if param.multiple or param.nargs == -1 else None
    elif not (
        (value.__class__ is str and needed in (str, str | None))
        or (value.__class__ is needed is int and value is param.default)
    ):
        for number, noun in ((int, "a whole number"), (float, "a number")):
            if needed in (number, number | None) and isinstance(value, str):
                try:
                    number(value)
                except ValueError:  # refused in the words of the shell
                    name = param.opts[0] if param.param_type_name == "option" else param.metavar
                    raise InvalidInput(f"{name} needs {noun}, not {value[:40]!r}.") from None
        return param.__class__.process_value(param, ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


class _PlainParameters:
    """Hides the type of flags in the help, because they take no value, and converts no text to text."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters of the command."""
        params = super().get_params(ctx)  # type: ignore[misc]  # the base is chosen at run time
        for param in params:
            param.process_value = functools.partial(_process_value, param)
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainParameters, TyperCommand):
    """A command of Lukasa."""


class CommandGroup(_PlainParameters, TyperGroup):
    """A group of commands of Lukasa."""


class CommandApp(typer.Typer):
    """Commands whose functions take a ``Call`` first; the option ``--json`` is added to each of them."""

    def __init__(self, name: str | None = None, summary: str = "", *, example: str = "", **options: Any) -> None:
        defaults: dict[str, Any] = {"name": name, "cls": CommandGroup, "no_args_is_help": True}
        help = {"help": f"{summary}\n\nExample: {example}"} if summary else {}
        super().__init__(**(defaults | help | options))

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a function as a command, with its docstring as help and, without a name, with its own name."""
        register = super().command

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            words = name or function.__name__.strip("_").replace("_", "-")
            help = unwrap_help(function.__doc__ or "")
            register(words, cls=Command, help=help, **options)(_with_json_option(function))
            return function

        return decorate

    def add_member(self, member: CommandApp | Callable[..., None], panel: str, *, hidden: bool = False) -> None:
        """Add a group or a command to a panel of the help."""
        if isinstance(member, CommandApp):
            self.add_typer(member, rich_help_panel=panel)
        else:
            self.command(rich_help_panel=panel or None, hidden=hidden)(member)


def unwrap_help(text: str) -> str:
    """Join the lines of each paragraph, so that the help wraps at the width of the screen."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def _with_json_option(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer: its parameter ``call`` is replaced by the context and ``--json``."""
    signature = inspect.signature(function, eval_str=True)
    if "call" not in signature.parameters:
        return function

    @functools.wraps(function)
    def run(ctx: typer.Context, as_json: bool, **arguments: Any) -> None:
        call = get_options(ctx, as_json)
        try:
            function(call, **arguments)
        finally:
            call.close()

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword) for parameter in signature.parameters.values()][1:]
    context = inspect.Parameter("ctx", keyword, annotation=typer.Context)
    as_json = inspect.Parameter("as_json", keyword, default=False, annotation=JsonOption)
    signature = signature.replace(parameters=[context, *parameters, as_json])
    run.__signature__ = signature  # type: ignore[attr-defined]  # the attribute that inspect reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    return run


def require_utf8(*words: str) -> None:
    """Refuse words with lone surrogates: bytes that are not UTF-8 reach the program so, and no store can hold them."""
    for word in words:
        if SURROGATES.search(word):
            raise InvalidInput(f"{word!r} is not valid UTF-8.")


def parse_time(text: str | None) -> datetime | None:
    """Parse a time as a person typed it."""
    return None if text is None else from_iso(text)


def open_input(file: str) -> AbstractContextManager[BinaryIO]:
    """Open a file to read bytes, or stdin, which stays open, if the name is ``-``."""
    return nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")


def read_input(file: str) -> bytes:
    """Read a file, or stdin if the name is ``-``."""
    with open_input(file) as source:
        data = source.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise InvalidInput(f"{file} is larger than {MAX_INPUT_BYTES:,} bytes.")
    return data


def read_text(file: str) -> str:
    """Read a UTF-8 text from a file, or from stdin if the name is ``-``."""
    try:
        return read_input(file).decode("utf-8")
    except UnicodeDecodeError as error:
        name = "Standard input" if file == "-" else file
        raise InvalidInput(f"{name} is not UTF-8 at byte {error.start}.") from error


def require_found(value: FoundT | None, message: str, hint: str | None = None) -> FoundT:
    """Return the result of a lookup; an empty one is reported as not found."""
    if not value:
        raise not_found(message, hint)
    return value


def require_result(result: FoundT | Refused) -> FoundT:
    """Return the result of a call that may refuse; a refusal ends the command."""
    if isinstance(result, Refused):
        raise NotAccepted(outcome=result)
    return result


def require_choice(value: str | None, choices: Iterable[str], noun: str) -> Any:
    """Refuse a value that is not one of the choices, else return it. No value is allowed."""
    if value is not None and value not in (known := list(choices)):
        names = f"one of {', '.join(known)}" if len(known) > 2 else " or ".join(known)
        raise InvalidInput(f"{value[:60]!r} is not {noun}.", hint=f"Use {names}.")
    return value


def require_scopes(journal: Journal, *scopes: str | None) -> None:
    """Refuse a scope to read that does not exist. No scope is allowed."""
    asked = [scope for scope in scopes if scope not in (None, SHARED, journal.author)]
    if asked:
        known = sorted({SHARED, *(row.scope for row in journal.tally())} - {SYSTEM})
        for scope in asked:
            require_choice(scope, known, "a scope of this store")


def confirm(call: Call, question: str, what: str, nothing_done: str, show: Callable[[], None]) -> None:
    """Show what would be done and ask for it; refuse it without a person at the terminal, or without a yes."""
    if call.json or not sys.stdin.isatty():
        message = f"{nothing_done}: there is no terminal to confirm {what}."
        raise NotAccepted(outcome=Refused("not_confirmed", message), hint="Add --yes.")
    show()
    try:
        confirmed = typer.confirm(question, err=True)
    except typer.Abort:
        confirmed = False
    if not confirmed:
        raise NotAccepted(outcome=Refused("not_confirmed", f"{nothing_done}."))


def find_key(journal: Journal, kind: str | None, id: str, scope: str | None, *, hidden: bool = False) -> Key:
    """Return the key of a record by id and, if several have it, by kind and scope."""
    places = [
        (row.scope, row.kind) for row in journal.tally() if kind in (None, row.kind) and scope in (None, row.scope)
    ]
    keys = [key for name, of in places if journal.history(key := Key(name, of, id), hidden=hidden)]
    if not keys:
        name = "/".join(part for part in (scope, kind, id) if part)
        raise not_found(f"There is no record {name}.", "`lukasa log` lists records with their kinds and ids.")
    if len(keys) > 1:
        names = ", ".join(map(str, keys))
        hint = "Name one with --scope." if len({key.kind for key in keys}) == 1 else "Name the kind before the id."
        raise InvalidInput(f"There are several such records: {names}.", hint=hint)
    return keys[0]


def _show_migration(done: int, total: int) -> None:
    """Show on one line how far the text index of an older store is rebuilt."""
    sys.stderr.write(f"\rRebuilding the text index of an older store: {done:,} of {total:,}" + "\n" * (done >= total))


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """Show a progress bar on stderr if a person is watching, else yield None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=render.console(sys.stderr), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
