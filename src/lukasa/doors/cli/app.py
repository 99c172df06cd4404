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
from lukasa.doors.cli import (
    bench,
    carrying,
    checkpoints,
    forecasting,
    handing,
    installing,
    keeping,
    knowing,
    learning,
    living,
    looking,
    mending,
    moving,
    recalling,
    rubrics,
    serving,
    show,
    skilled,
    talking,
    tour,
    trusting,
    vaulting,
    working,
)
from lukasa.doors.cli.caller import Caller, require_text
from lukasa.doors.cli.outcome import Ending, Failure, failure_of
from lukasa.errors import InvalidInput


class Root(TyperGroup):
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
        _ready_streams()
        try:
            require_text(*words)
            alone = standalone_mode and not as_json
            ended = super().main(args, prog_name, complete_var, alone, windows_expand_args, obj=Caller(), **extra)
        except typer.TyperException as error:
            if not as_json:
                raise
            ended = _tell(Failure("usage", error.format_message(), None, Ending.USAGE), as_json=True)
        except InvalidInput as error:
            ended = _tell(failure_of(error), as_json=as_json)
        finally:
            _flush()
        if standalone_mode:
            sys.exit(ended or Ending.OK)
        return ended

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was named; every error it can end with is told here."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError as error:
            raise typer.Exit(Ending.PIPE_CLOSED) from error
        except KeyboardInterrupt as error:
            show.whisper("Interrupted.")
            raise typer.Exit(Ending.INTERRUPTED) from error
        except Exception as error:
            failure = failure_of(error)
            _tell(failure, as_json=ctx.obj.json)
            if failure.ending is Ending.UNEXPECTED:
                traceback.print_exc()
            raise typer.Exit(failure.ending) from error
        return answer


def _tell(failure: Failure, *, as_json: bool) -> Ending:
    sentence = f"Error: {failure.message}" + (f" {failure.hint}" if failure.hint else "")
    if not as_json:
        show.whisper(sentence, style="red")
        return failure.ending
    try:
        show.as_json(failure.as_json())
        sys.stdout.flush()
    except OSError:
        show.whisper(sentence, style="red")
    return failure.ending


def _ready_streams() -> None:
    """Streams that were closed lead nowhere, and characters that a terminal's encoding lacks come out as escapes."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open as long as we run
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    """Hands out what is still held back. What nobody can take any more is dropped, so that leaving is quiet."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _tell_version(wanted: bool) -> None:
    if wanted:
        show.say(f"lukasa {lukasa.__version__}")
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
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """One durable memory for AI agents.

    Exit codes: 0 done, 1 unexpected, 2 wrong usage, 3 refused, 4 conflict, 5 not found, 6 damage, 7 not available,
    8 a copy that is not proved.
    """
    call = ctx.find_object(Caller)
    assert call is not None
    call.store, call.agent, call.scopes, call.json = store, agent, tuple(scope or ()), as_json
    call.profile = profile


app = typer.Typer(cls=Root, name="lukasa", no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(root)

_LOOK, _TAKE_BACK, _KEEP_SOUND, _CARRY, _TRY = "Look", "Take back", "Keep sound", "Carry", "Try"
_WORK = "Work"
_REMEMBER = "Remember"
app.command("remember", rich_help_panel=_REMEMBER)(vaulting.remember)
app.command("forget", rich_help_panel=_REMEMBER)(vaulting.forget)
app.command("scan", rich_help_panel=_REMEMBER)(vaulting.scan)
app.command("audit", rich_help_panel=_REMEMBER)(vaulting.audit)
app.add_typer(vaulting.app, name="vault", rich_help_panel=_REMEMBER)
_SESSIONS = "Sessions and forecasts"
app.add_typer(checkpoints.app, name="checkpoint", rich_help_panel=_SESSIONS)
app.command("recover", rich_help_panel=_SESSIONS)(checkpoints.recover)
app.add_typer(forecasting.app, name="forecast", rich_help_panel=_SESSIONS)
_CONVERSE = "Converse"
_LEARN = "Learn"
app.command("recall", rich_help_panel=_LOOK)(recalling.recall)
app.command("log", rich_help_panel=_LOOK)(looking.log)
app.command("history", rich_help_panel=_LOOK)(looking.history)
app.command("show", rich_help_panel=_LOOK)(looking.show)
app.command("stats", rich_help_panel=_LOOK)(looking.stats)
app.command("undo", rich_help_panel=_TAKE_BACK)(mending.undo)
app.command("quarantine", rich_help_panel=_TAKE_BACK)(mending.quarantine)
app.command("release", rich_help_panel=_TAKE_BACK)(mending.release)
app.command("erase", rich_help_panel=_TAKE_BACK)(mending.erase)
app.command("verify", rich_help_panel=_KEEP_SOUND)(keeping.verify)
app.command("compact", rich_help_panel=_KEEP_SOUND)(keeping.compact)
app.command("doctor", rich_help_panel=_KEEP_SOUND)(keeping.doctor)
app.command("reembed", rich_help_panel=_KEEP_SOUND)(recalling.reembed)
app.command("export", rich_help_panel=_CARRY)(carrying.export)
app.command("import", rich_help_panel=_CARRY)(carrying.import_)
app.command("backup", rich_help_panel=_CARRY)(carrying.backup)
app.command("restore", rich_help_panel=_CARRY)(carrying.restore)
app.command("copy", rich_help_panel=_CARRY)(moving.copy)
app.command("worker", rich_help_panel=_WORK)(working.worker)
app.command("jobs", rich_help_panel=_WORK)(working.jobs)
app.add_typer(talking.app, name="context", rich_help_panel=_CONVERSE)
app.add_typer(living.app, name="episode", rich_help_panel=_LEARN)
app.add_typer(knowing.app, name="knowledge", rich_help_panel=_LEARN)
app.add_typer(skilled.app, name="skill", rich_help_panel=_LEARN)
app.command("consolidate", rich_help_panel=_LEARN)(learning.consolidate)
app.command("before-task", rich_help_panel=_LEARN)(learning.before_task)
app.command("continuity", rich_help_panel=_LEARN)(learning.continuity)
app.command("metrics", rich_help_panel=_LEARN)(learning.metrics)
app.add_typer(handing.app, name="handoff", rich_help_panel=_WORK)
app.command("ledger", rich_help_panel=_WORK)(handing.ledger)
_SERVE = "Let agents in"
app.command("mcp", rich_help_panel=_SERVE)(serving.mcp)
app.add_typer(serving.app, name="token", rich_help_panel=_SERVE)
app.command("install", rich_help_panel=_SERVE)(installing.install)
app.command("hook", rich_help_panel=_SERVE)(installing.hook)
app.command("tour", rich_help_panel=_TRY)(tour.tour)
trusting.app.add_typer(rubrics.app, name="rubric")
app.add_typer(trusting.app, name="trust", rich_help_panel=_WORK)
app.add_typer(bench.app, name="bench", rich_help_panel=_TRY)
