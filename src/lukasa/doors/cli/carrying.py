"""Commands that carry a store elsewhere: export, import, backup."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from lukasa.config import locate
from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, Caller, caller, progress
from lukasa.doors.cli.outcome import Ending
from lukasa.errors import InvalidInput
from lukasa.scope import SHARED

_SHOWN = 20
Format = Annotated[
    str, typer.Option("--format", metavar="NAME", help="jsonl, or the layout of a document: loki (a folder).")
]


def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Where to write; - is stdout.")],
    form: Format = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Write the whole log as JSONL: lossless, and the same log always gives the same file.

    Example: lukasa export memories.jsonl
    """
    call = caller(ctx, as_json)
    if form != "jsonl":
        _lay_out(call, file, form)
        return
    _spare_the_store(call, file)
    with call.open(make=False) as memory, progress("Exporting") as bar:
        count = memory.export(sys.stdout.buffer if file == "-" else file, bar)
        sys.stdout.buffer.flush()  # whoever reads it has it before anybody says so
    if file == "-":
        show.whisper(f"Exported {show.counted(count, 'version')}.")
    elif call.json:
        show.as_json({"file": file, "versions": count})
    else:
        show.say(f"Exported {show.counted(count, 'version')} to {file}.")


def import_(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="An exported log; - is stdin.")],
    form: Format = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Take in an exported log. What is already here is skipped, so it can be run again after a break.

    Example: lukasa --store copy.db import memories.jsonl
    """
    call = caller(ctx, as_json)
    if form != "jsonl":
        _take_in(call, file, form)
        return
    source = nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")  # noqa: SIM115 - closed by the with below
    with source as lines, call.open() as memory, progress("Importing") as bar:
        done = memory.import_(lines, bar)
    if call.json:
        refused = [{"line": line, "reason": reason} for line, reason in done.refused]
        show.as_json({"added": done.added, "present": done.present, "refused": refused})
    else:
        told = f"{show.counted(done.added, 'version')} added, {done.present:,} already here, {len(done.refused):,} refused."
        show.say(told)
        if done.refused:
            show.table(("line", "reason"), done.refused[:_SHOWN], fold="reason")
        if len(done.refused) > _SHOWN:
            show.say(f"and {len(done.refused) - _SHOWN:,} more; --json names them all.")
    if done.refused:
        raise typer.Exit(Ending.REFUSED)


def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    as_json: AsJson = False,
) -> None:
    """Write a consistent copy of the store to a new file, while others go on using it.

    Example: lukasa backup agents-2026-02-03.db
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        memory.backup(file)
    held = file.stat().st_size
    if call.json:
        show.as_json({"file": str(file), "bytes": held})
    else:
        show.say(f"Backed up to {file} ({show.size(held)}).")


def _lay_out(call: Caller, folder: str, form: str) -> None:
    """Writes a document's own layout."""
    scope = call.scopes[0] if len(call.scopes) == 1 else SHARED
    with call.open(make=False) as memory:
        count = memory.export(folder, format=form, scope=scope)
    if call.json:
        show.as_json({"folder": folder, "format": form, "records": count})
    else:
        show.say(f"Wrote {show.counted(count, 'record')} to {folder}.")


def _take_in(call: Caller, folder: str, form: str) -> None:
    """Takes in a document's own layout."""
    scope = call.scopes[0] if len(call.scopes) == 1 else SHARED
    with call.open() as memory:
        done = memory.import_(folder, format=form, scope=scope)
    refused = [(str(where), reason) for where, reason in done.refused]
    if call.json:
        told = [{"file": name, "reason": reason} for name, reason in refused]
        show.as_json({"added": done.added, "present": done.present, "refused": told})
    else:
        show.say(
            f"{show.counted(done.added, 'record')} added, {done.present:,} already here, {len(refused):,} refused."
        )
        if refused:
            show.table(("file", "reason"), refused[:_SHOWN], fold="reason")
    if refused:
        raise typer.Exit(Ending.REFUSED)


def _spare_the_store(call: Caller, file: str) -> None:
    """An export replaces its target; the store itself must never be that target."""
    store = locate(call.store).path
    if store is None or file == "-":
        return
    own = {store.with_name(store.name + end).resolve() for end in ("", "-wal", "-shm")}
    if Path(file).resolve() in own:
        raise InvalidInput(f"{file} is the store itself.", hint="Export to another file.")
