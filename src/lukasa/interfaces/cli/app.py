"""The root command: all commands with their help panels, and how errors end the program."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import lukasa
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.interfaces.cli import (
    checkpoint,
    context,
    episode,
    experience,
    forecast,
    handoff,
    install,
    jobs,
    knowledge,
    maintenance,
    recall,
    records,
    render,
    serve,
    skill,
    tour,
    transfer,
    trust,
    undo,
    vault,
)
from lukasa.interfaces.cli.options import (
    JSON_HELP,
    Call,
    CommandApp,
    CommandGroup,
    flag,
    option,
    require_utf8,
    unwrap_help,
)
from lukasa.interfaces.outcomes import ExitCode, OutcomeInfo, outcome_of, usage_error


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
        as_json = "--json" in words
        _prepare_streams()
        try:
            require_utf8(*words)
            standalone = standalone_mode and not as_json
            ended = super().main(args, prog_name, complete_var, standalone, windows_expand_args, obj=Call(), **extra)
        except typer.TyperException as error:
            if not as_json:
                raise
            ended = _print_failure(usage_error(error.format_message()), as_json=True)
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
            render.print_to_stderr("Interrupted.")
            raise typer.Exit(ExitCode.INTERRUPTED) from error
        except Exception as error:
            failure = outcome_of(error)
            _print_failure(failure, as_json=ctx.obj.json)
            if failure.exit_code is ExitCode.UNEXPECTED:
                traceback.print_exc()
            raise typer.Exit(failure.exit_code) from error
        return answer


def _print_failure(failure: OutcomeInfo, *, as_json: bool) -> ExitCode:
    sentence = f"Error: {failure.message}" + (f" {failure.hint}" if failure.hint else "")
    if not as_json:
        render.print_to_stderr(sentence, style="red")
        return failure.exit_code
    try:
        render.print_json(failure.as_json())
        sys.stdout.flush()
    except OSError:
        render.print_to_stderr(sentence, style="red")
    return failure.exit_code


def _prepare_streams() -> None:
    """Replace closed streams by /dev/null, and let characters that the encoding lacks become escapes."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the program ends
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_version(wanted: bool) -> None:
    if wanted:
        render.print_line(f"lukasa {lukasa.__version__}")
        raise typer.Exit


def root(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        option(
            "URL|FILE",
            "The store: a file or a postgresql:// URL. Default: LUKASA_STORE, else .lukasa/ in this folder or the nearest one above, else your data folder.",
        ),
    ] = None,
    agent: Annotated[str, option("NAME", "Act as this agent: only the shared scope and its own are visible.")] = "",
    profile: Annotated[str | None, option("FILE", "YAML settings of the vault. Default: LUKASA_PROFILE.")] = None,
    scope: Annotated[list[str] | None, option("NAME", "Use only this scope (repeatable).")] = None,
    as_json: Annotated[bool, flag("--json", JSON_HELP.replace("before", "after"))] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
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
    call = ctx.find_object(Call)
    assert call is not None
    call.store, call.agent, call.scopes, call.json = store, agent, tuple(scope or ()), as_json
    call.profile = profile


app = CommandApp(cls=RootCommandGroup, name="lukasa", pretty_exceptions_enable=False)
app.callback(help=unwrap_help(root.__doc__ or ""))(root)

_MEMORY = "Remember and recall"
app.command("remember", rich_help_panel=_MEMORY)(vault.remember)
app.command("recall", rich_help_panel=_MEMORY)(recall.recall)
app.command("forget", rich_help_panel=_MEMORY)(vault.forget)
app.add_typer(vault.app, name="vault", rich_help_panel=_MEMORY)
app.command("scan", rich_help_panel=_MEMORY)(vault.scan)
app.command("audit", rich_help_panel=_MEMORY)(vault.audit)

app.add_typer(context.app, name="context", rich_help_panel="Conversations")

_SESSIONS = "Sessions"
app.add_typer(checkpoint.app, name="checkpoint", rich_help_panel=_SESSIONS)
app.command("recover", rich_help_panel=_SESSIONS)(checkpoint.recover)
app.add_typer(forecast.app, name="forecast", rich_help_panel=_SESSIONS)

_EXPERIENCE = "Experience"
app.add_typer(episode.app, name="episode", rich_help_panel=_EXPERIENCE)
app.add_typer(knowledge.app, name="knowledge", rich_help_panel=_EXPERIENCE)
app.add_typer(skill.app, name="skill", rich_help_panel=_EXPERIENCE)
app.command("consolidate", rich_help_panel=_EXPERIENCE)(experience.consolidate)
app.command("before-task", rich_help_panel=_EXPERIENCE)(experience.before_task)
app.command("continuity", rich_help_panel=_EXPERIENCE)(experience.continuity)
app.command("metrics", rich_help_panel=_EXPERIENCE)(experience.metrics)
app.add_typer(handoff.app, name="handoff", rich_help_panel=_EXPERIENCE)
app.command("ledger", rich_help_panel=_EXPERIENCE)(handoff.ledger)

app.add_typer(trust.app, name="trust", rich_help_panel="Trust")

_HISTORY = "History and undo"
app.command("log", rich_help_panel=_HISTORY)(records.log)
app.command("show", rich_help_panel=_HISTORY)(records.show)
app.command("history", rich_help_panel=_HISTORY)(records.history)
app.command("undo", rich_help_panel=_HISTORY)(undo.undo)
app.command("quarantine", rich_help_panel=_HISTORY)(undo.quarantine)
app.command("release", rich_help_panel=_HISTORY)(undo.release)
app.command("erase", rich_help_panel=_HISTORY)(undo.erase)

_MAINTENANCE = "Maintenance"
app.command("stats", rich_help_panel=_MAINTENANCE)(records.stats)
app.command("doctor", rich_help_panel=_MAINTENANCE)(maintenance.doctor)
app.command("verify", rich_help_panel=_MAINTENANCE)(maintenance.verify)
app.command("compact", rich_help_panel=_MAINTENANCE)(maintenance.compact)
app.command("reembed", rich_help_panel=_MAINTENANCE)(recall.reembed)
app.command("worker", rich_help_panel=_MAINTENANCE)(jobs.worker)
app.command("jobs", rich_help_panel=_MAINTENANCE)(jobs.jobs)

_TRANSFER = "Import and export"
app.command("export", rich_help_panel=_TRANSFER)(transfer.export)
app.command("import", rich_help_panel=_TRANSFER)(transfer.import_)
app.command("backup", rich_help_panel=_TRANSFER)(transfer.backup)
app.command("restore", rich_help_panel=_TRANSFER)(transfer.restore)
app.command("copy", rich_help_panel=_TRANSFER)(transfer.copy)

_SERVE = "Serve"
app.command("mcp", rich_help_panel=_SERVE)(serve.mcp)
app.add_typer(serve.app, name="token", rich_help_panel=_SERVE)
app.command("install", rich_help_panel=_SERVE)(install.install)
app.command("hook", rich_help_panel=_SERVE)(install.hook)

_BENCHMARKS = "Benchmarks"
app.command("tour", rich_help_panel=_BENCHMARKS)(tour.tour)


def _report_missing_benchmarks() -> None:
    """Measure the speed of Lukasa. Needs the benchmarks of a source checkout.

    Example: lukasa bench store --sizes 1k
    """
    raise MissingExtra(
        "The benchmarks are not part of the installed package.",
        hint="In a checkout of Lukasa's source run `make setup`, or `pip install ./benchmarks`.",
    )


try:
    from lukasa_bench.cli import app as bench_app
except ModuleNotFoundError as error:
    if error.name != "lukasa_bench":
        raise
    app.command(
        "bench",
        rich_help_panel=_BENCHMARKS,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_report_missing_benchmarks)
else:
    app.add_typer(bench_app, name="bench", rich_help_panel=_BENCHMARKS)
