"""The commands and their order, and what happens around each of them."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lukasa
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.interfaces.cli import (
    checkpoint,
    context,
    copy,
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
    rubric,
    serve,
    skill,
    tour,
    transfer,
    trust,
    undo,
    vault,
)
from lukasa.interfaces.cli.exit_codes import CommandFailure, ExitCode, failure_for
from lukasa.interfaces.cli.options import GlobalOptions, require_utf8


class RootCommandGroup(TyperGroup):
    """Runs a command and turns whatever stops it into one sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs the command line. With ``--json`` even wrong usage is told as JSON."""
        words = sys.argv[1:] if args is None else list(args)
        as_json = "--json" in words
        _prepare_streams()
        try:
            require_utf8(*words)
            alone = standalone_mode and not as_json
            ended = super().main(
                args, prog_name, complete_var, alone, windows_expand_args, obj=GlobalOptions(), **extra
            )
        except typer.TyperException as error:
            if not as_json:
                raise
            ended = _print_failure(CommandFailure("usage", error.format_message(), None, ExitCode.USAGE), as_json=True)
        except InvalidInput as error:
            ended = _print_failure(failure_for(error), as_json=as_json)
        finally:
            _flush_stdout()
        if standalone_mode:
            sys.exit(ended or ExitCode.OK)
        return ended

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was named; every error it can end with is told here."""
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
            failure = failure_for(error)
            _print_failure(failure, as_json=ctx.obj.json)
            if failure.exit_code is ExitCode.UNEXPECTED:
                traceback.print_exc()
            raise typer.Exit(failure.exit_code) from error
        return answer


def _print_failure(failure: CommandFailure, *, as_json: bool) -> ExitCode:
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
    """Streams that were closed lead nowhere, and characters that a terminal's encoding lacks come out as escapes."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open as long as we run
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush_stdout() -> None:
    """Hands out what is still held back. What nobody can take any more is dropped, so that leaving is quiet."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _print_version(wanted: bool) -> None:
    if wanted:
        render.print_line(f"lukasa {lukasa.__version__}")
        raise typer.Exit


def root(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="The store to use. Without it: LUKASA_STORE, else the nearest .lukasa/ upwards, else the user's own.",
        ),
    ] = None,
    agent: Annotated[
        str, typer.Option(metavar="NAME", help="Act as this agent: the shared scope and its own, nothing else.")
    ] = "",
    profile: Annotated[
        str | None, typer.Option(metavar="FILE", help="The vault's rules, a YAML file; else LUKASA_PROFILE.")
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Reach only this scope; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with JSON; may stand after the command too.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """One durable memory for AI agents.

    Exit codes: 0 done, 1 unexpected, 2 wrong usage, 3 refused, 4 conflict, 5 not found, 6 damage, 7 not available,
    8 a copy that is not proved.
    """
    call = ctx.find_object(GlobalOptions)
    assert call is not None
    call.store, call.agent, call.scopes, call.json = store, agent, tuple(scope or ()), as_json
    call.profile = profile


app = typer.Typer(cls=RootCommandGroup, name="lukasa", no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(root)

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

trust.app.add_typer(rubric.app, name="rubric")
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
app.command("copy", rich_help_panel=_TRANSFER)(copy.copy)

_SERVE = "Serve"
app.command("mcp", rich_help_panel=_SERVE)(serve.mcp)
app.add_typer(serve.app, name="token", rich_help_panel=_SERVE)
app.command("install", rich_help_panel=_SERVE)(install.install)
app.command("hook", rich_help_panel=_SERVE)(install.hook)

_BENCHMARKS = "Benchmarks"
app.command("tour", rich_help_panel=_BENCHMARKS)(tour.tour)


def _report_missing_benchmarks() -> None:
    """Measure Lukasa against a bare reference (needs the benchmarks of a source checkout)."""
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
