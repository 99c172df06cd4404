"""The root command: all commands with their help panels, and how errors end the program."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections import UserDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.core.scope import check_agent_name
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.build import COMMANDS, BuiltCommand
from lukasa.interfaces.cli.options import (
    JSON_HELP,
    Call,
    CommandApp,
    CommandGroup,
    flag,
    get_options,
    option,
    require_utf8,
    unwrap_help,
)
from lukasa.interfaces.hooks.client import expand_project
from lukasa.interfaces.outcomes import ExitCode, OutcomeInfo, outcome_of, request_error
from lukasa.operations import OPERATIONS


class RootCommandGroup(CommandGroup):
    """The root command, which turns every error into one sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line. With ``--json`` wrong usage is reported as JSON too."""
        words = sys.argv[1:] if args is None else list(args)
        self._wants_json = as_json = "--json" in words
        _prepare_streams()
        try:
            require_utf8(*words)
            standalone = standalone_mode and not as_json
            ended = super().main(args, prog_name, complete_var, standalone, windows_expand_args, obj=Call(), **extra)
        except typer.TyperException as error:
            if not as_json:
                raise
            ended = _print_failure(request_error("usage", error.format_message()), as_json=True)
        except InvalidInput as error:
            ended = _print_failure(outcome_of(error), as_json=as_json)
        finally:
            try:
                sys.stdout.flush()
            except OSError:  # the reader is gone: drop the rest, so that Python exits without a message
                devnull = os.open(os.devnull, os.O_WRONLY)
                os.dup2(devnull, sys.stdout.fileno())
                os.close(devnull)
        if standalone_mode:
            sys.exit(ended or ExitCode.OK)
        return ended

    def __init__(self, *, commands: Any = None, **settings: Any) -> None:
        super().__init__(commands=commands, **settings)
        self._wants_json = False  # an error while words are parsed comes before the option is known
        if not self.commands:
            self.commands = LazyCommands()
            for panel, members in PANELS.items():
                for member in members.split():
                    name = "token" if member == "serve.app" else _command_name(member)
                    self.commands.data[name] = partial(_make_command, name, member, panel)

    def invoke(self, ctx: Any) -> Any:
        """Run the named command, and report every error that ends it."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError as error:
            raise typer.Exit(ExitCode.PIPE_CLOSED) from error
        except KeyboardInterrupt as error:
            exec("")  # noqa: S102 - resets Python's note of an interrupt inside `exec`, which would replace the exit code
            render.print_to_stderr("Interrupted.")
            raise typer.Exit(ExitCode.INTERRUPTED) from error
        except Exception as error:
            failure = outcome_of(error)
            _print_failure(failure, as_json=ctx.obj.json or self._wants_json)
            if failure.row.exit_code is ExitCode.UNEXPECTED:
                traceback.print_exc()
            raise typer.Exit(failure.row.exit_code) from error
        return answer


def _print_failure(failure: OutcomeInfo, *, as_json: bool) -> ExitCode:
    if as_json:
        with suppress(OSError):  # stdout is full or closed: the error is printed to stderr below
            render.print_json(failure.as_json())
            sys.stdout.flush()
            return failure.row.exit_code
    sentence = f"Error: {failure.message}" + (f" {failure.hint}" if failure.hint else "")
    render.print_to_stderr(sentence, style="red")
    return failure.row.exit_code


def _prepare_streams() -> None:
    """Replace closed streams by /dev/null, and let characters that the encoding lacks become escapes."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_version(wanted: bool) -> None:
    if wanted:
        from lukasa.interfaces.cli.version import describe_version

        for line in describe_version():
            render.print_line(line)
        raise typer.Exit


_STORE_HELP = "A file or a postgresql:// URL. Default: LUKASA_STORE, else the nearest .lukasa/, else your data folder."


def root(
    ctx: typer.Context,
    store: Annotated[str | None, option("URL|FILE", _STORE_HELP)] = None,
    agent: Annotated[
        str | None, option("NAME", "Act as this agent: only the shared scope and its own are visible.")
    ] = None,
    profile: Annotated[str | None, option("FILE", "YAML settings of the vault. Default: LUKASA_PROFILE.")] = None,
    scope: Annotated[
        list[str] | None, option("NAME", "Use only this scope (repeatable); project:. is that of this repository.")
    ] = None,
    as_json: Annotated[bool, flag("--json", JSON_HELP.replace("before", "after"))] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version, the schema of its stores and the extras that are installed.",
        ),
    ] = False,
) -> None:
    """Lukasa is a memory for AI agents: facts, conversations, experience and trust in one store.

    The store is a SQLite file or a PostgreSQL database. Nothing is lost unless you erase or compact it: every change is
    a new version, with its author and time.

    Start with: lukasa remember "Deploys run on Tuesday."

    Then: lukasa recall "when do we deploy?"

    `lukasa tour` shows more, and `lukasa COMMAND --help` explains a command.

    Exit codes: 0 done, 1 bug in Lukasa, 2 wrong usage, 3 refused, 4 conflict, 5 not found, 6 damaged, 7 not available,
    8 copy not proved.
    """
    call = get_options(ctx)
    call.store, call.json, call.profile = store, as_json, profile
    call.scopes = expand_project(tuple(scope or ()))
    call.agent = agent or ""
    if agent == "":
        raise InvalidInput(
            "The agent is empty.", hint="Name the agent, or leave --agent out to be the owner of the store."
        )
    if agent is not None:
        check_agent_name(agent)


app = CommandApp(cls=RootCommandGroup, name="lukasa", pretty_exceptions_enable=False)
app.callback(help=unwrap_help(root.__doc__ or ""))(root)

PANELS = {
    "Every day": "remember recall.recall update vault.forget records.history context install.install serve.serve "
    "maintenance.doctor tour.tour",
    "Remember and recall": "confirm vault vault.scan vault.audit",
    "Sessions": "checkpoint recover forecast",
    "Experience": "episode knowledge lesson skill handoff ledger before-task consolidate continuity.continuity metrics gain",
    "Trust": "trust",
    "History and undo": "proposals records.log records.show undo.undo quarantine quarantined release undo.erase",
    "Maintenance": "stats verify compact maintenance.allow recall.reembed jobs.worker jobs",
    "Import and export": "transfer.export transfer.import_ transfer.backup transfer.restore transfer.copy transfer.sync",
    "Serve": "serve.mcp serve.app install.hook",
    "Benchmarks": "bench",
}
"""The commands and groups by the panel of the help that shows them, those of everyday use first.

A command that is written by hand is named by its place, the others by the words of ``operations``.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands: what its help says, an example, and its commands that are written by hand."""

    summary: str
    example: str
    by_hand: str = ""


GROUPS = {
    "vault": Group(
        "List, search and review the memories of `lukasa remember`, and print them for a prompt.",
        "vault list --tier canon",
        "vault.export vault.import_",
    ),
    "context": Group(
        "Store conversations turn by turn, and print them within a token budget.",
        'context append s1 user "Hello"',
        "context.export context.import_",
    ),
    "checkpoint": Group(
        "Save the state of an agent's session, and inspect saved states.", "checkpoint list", "checkpoint.export"
    ),
    "forecast": Group(
        "Record predictions, resolve them, and see how good they were.", "forecast scores", "forecast.plot"
    ),
    "episode": Group("Record what was done, task by task.", "episode list"),
    "knowledge": Group(
        "Store and link patterns, anti-patterns and facts.", "knowledge list", "knowledge.list_ knowledge.graph"
    ),
    "skill": Group("Store instructions for recurring tasks, as Markdown.", "skill list", "skill.check skill.sync"),
    "lesson": Group("Show and keep what sessions of agents learned.", "lesson list"),
    "handoff": Group("Pass unfinished work from one agent to another.", "handoff inbox"),
    "ledger": Group("Record and show the progress of agents.", "ledger list"),
    "metrics": Group("Show how tasks went: success, time, retries and rewards.", "metrics dashboard"),
    "trust": Group(
        "Score how far each agent can be trusted, from its objections (dissents) and overrides of its output.",
        "trust agents",
        "trust.plot trust.export trust.import_",
    ),
    "trust rubric": Group("Manage the criteria that agents are judged by, and their weights.", "trust rubric show"),
    "proposals": Group(
        "List what agents would change of the owner's records, and accept or refuse it.",
        "proposals list",
        "proposals.accept",
    ),
    "jobs": Group("List background jobs; retry or drop one, or print the result of one.", "jobs list --state failed"),
}
"""The groups whose commands are built from the table of operations."""


class LazyCommands(UserDict[str, Any]):
    """Commands by name, in their order. A command is made, and its module loads, when it is looked at."""

    def __getitem__(self, name: str) -> Any:
        command = self.data[name]
        if isinstance(command, partial):
            command = self.data[name] = command()
        return command


def _list_group(group: str) -> LazyCommands:
    """Return the commands of a group: those that are written by hand, and those of the operations."""
    by_hand = {_command_name(member): member for member in GROUPS[group].by_hand.split()}
    words = [row.shell.rpartition(" ")[2] for row in OPERATIONS if row.shell.rpartition(" ")[0] == group]
    words += [below.rpartition(" ")[2] for below in GROUPS if below.rpartition(" ")[0] == group]
    found = LazyCommands()
    for name in dict.fromkeys((*words, *by_hand)):
        found.data[name] = partial(_make_command, f"{group} {name}", by_hand.get(name, f"{group} {name}"), "")
    return found


def _command_name(member: str) -> str:
    return member.rpartition(".")[2].strip("_").replace("_", "-")


def _make_command(words: str, member: str, panel: str) -> Any:
    """Make a command or a group: one of the table, or one that a module of this package has."""
    holder, name = CommandApp(), words.rpartition(" ")[2]
    if member in COMMANDS:
        return BuiltCommand(COMMANDS[member], panel)
    if member in GROUPS:
        group = GROUPS[member]
        holder.add_member(CommandApp(name, group.summary, example=f"lukasa {group.example}"), panel)
        made: Any = typer.main.get_group(holder).commands[name]
        made.commands = _list_group(member)
        return made
    if member == "bench":
        _add_benchmarks(holder)
    else:
        module, _, attribute = member.partition(".")
        found = getattr(import_module(f"lukasa.interfaces.cli.{module}"), attribute)
        holder.add_member(found, panel, hidden=" " in words and name in ("export", "import"))
    return typer.main.get_group(holder).commands[name]


def _report_missing_benchmarks() -> None:
    """Measure the speed of Lukasa. Needs the benchmarks of a source checkout.

    Example: lukasa bench store --sizes 1k
    """
    raise MissingExtra(
        "The benchmarks are not part of the installed package.",
        hint="In a checkout of Lukasa's source run `make setup`, or `pip install ./benchmarks`.",
    )


def _add_benchmarks(holder: CommandApp) -> None:
    """Add the benchmarks, or a command that says where they are."""
    try:
        from lukasa_bench.cli import app as bench_app
    except ModuleNotFoundError as error:
        if error.name != "lukasa_bench":
            raise
        settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        holder.command("bench", rich_help_panel="Benchmarks", context_settings=settings)(_report_missing_benchmarks)
    else:
        holder.add_typer(bench_app, name="bench", rich_help_panel="Benchmarks")
