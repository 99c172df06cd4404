"""Commands that carry a store elsewhere: export, import, backup, restore."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lukasa
from lukasa.config import locate
from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, Caller, caller, progress
from lukasa.doors.cli.outcome import Ending
from lukasa.errors import InvalidInput
from lukasa.scope import SHARED

if TYPE_CHECKING:
    from lukasa.archive import Manifest

_SHOWN = 20
Format = Annotated[
    str,
    typer.Option("--format", metavar="NAME", help="jsonl, or another layout: loki (a folder), memory-graph (a file)."),
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
            show.table(("line", "reason"), done.refused[:_SHOWN], fold=("reason",))
        if len(done.refused) > _SHOWN:
            show.say(f"and {len(done.refused) - _SHOWN:,} more; --json names them all.")
    if done.refused:
        raise typer.Exit(Ending.REFUSED)


SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file", metavar="FILE", help="Encrypt with the secret in this file; else LUKASA_BACKUP_SECRET."
    ),
]


def backup(
    ctx: typer.Context,
    place: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="A file that is not there yet, or file:///…, s3://… for backups.")
    ],
    session: Annotated[str | None, typer.Option(metavar="ID", help="Back up this session's files only.")] = None,
    keep: Annotated[int, typer.Option(min=1, help="So many backups stay at a URL.")] = 12,
    secret_file: SecretFile = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Nobody else backs up there, so conditional writes are not needed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a consistent copy of the store to a new file, or a proved backup to a folder or bucket.

    A backup at a URL holds the store and its sessions' files; it is read back before this command ends.

    Example: lukasa backup s3://agents-backups/prod
    """
    call = caller(ctx, as_json)
    secret = _secret(secret_file)
    with call.open(make=False) as memory:
        made = (
            memory.backup(place, secret=secret, keep=keep, alone=alone)
            if session is None
            else memory.sessions.backup(session, place, secret=secret, keep=keep, alone=alone)
        )
    if made is None:
        held = Path(place).stat().st_size
        if call.json:
            show.as_json({"file": place, "bytes": held})
        else:
            show.say(f"Backed up to {place} ({show.size(held)}).")
        return
    if call.json:
        show.as_json(_backup_json(made))
    else:
        kind = "encrypted " if made.encrypted else ""
        files = show.counted(len(made.files), "file")
        show.say(
            f"Backed up {made.name} to {place} as number {made.number}: {files}, {kind}{show.size(made.size)}, read back."
        )


def restore(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="URL|FOLDER", help="Where the backups are.")],
    into: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="The store to make: a file or database that is not there yet."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Whose backup, if there are several.")] = None,
    number: Annotated[int | None, typer.Option(min=1, help="Which one; without it, the newest.")] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Bring back this session into the store named by --store.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only read the backup back and prove it.")] = False,
    secret_file: SecretFile = None,
    as_json: AsJson = False,
) -> None:
    """Bring a store back from a backup, and prove that it is the same log. Nothing is ever overwritten.

    Example: lukasa restore s3://agents-backups/prod --into agents.db
    """
    call = caller(ctx, as_json)
    if sum((into is not None, session is not None, check)) != 1:
        raise InvalidInput("Say what to restore.", hint="Give --into FILE, or --session ID, or --check.")
    secret = _secret(secret_file)
    if check:
        manifest = lukasa.find_backups(source, name=name).verify(number)
        if call.json:
            show.as_json(_backup_json(manifest))
        else:
            show.say(
                f"Backup {manifest.number} of {manifest.name} from {manifest.made_at} is whole ({show.size(manifest.size)})."
            )
        return
    if session is not None:
        with call.open() as memory:
            report = memory.sessions.restore(session, source, number=number, secret=secret)
        if call.json:
            show.as_json({"session": session, "mode": report.mode, "used": report.used, "number": report.number})
        else:
            show.say(f"Restored the session {session} from {report.used}.")
        return
    assert into is not None
    done = lukasa.restore(source, into, name=name, number=number, secret=secret)
    if call.json:
        facts = {"store": done.place, "versions": done.versions, "digest": done.digest, "files": done.files}
        show.as_json({**facts, "backup": _backup_json(done.manifest)})
    else:
        show.say(
            f"Restored {done.manifest.name} from backup {done.manifest.number} to {done.place}: "
            f"{show.counted(done.versions, 'version')}, {show.counted(done.files, 'file')}. The proof holds."
        )


def _secret(file: Path | None) -> str:
    """The secret to encrypt with, if there is one. It is never taken from the command line, where others could see it."""
    if file is None:
        return os.environ.get("LUKASA_BACKUP_SECRET", "")
    secret = file.read_text("utf-8").strip()
    if not secret:
        raise InvalidInput(f"{file} is empty.", hint="Put the secret into it.")
    return secret


def _backup_json(manifest: Manifest) -> dict[str, Any]:
    facts = {name: getattr(manifest, name) for name in ("name", "number", "made_at", "archive", "sha256", "encrypted")}
    return {**facts, "bytes": manifest.size, "files": len(manifest.files), "facts": dict(manifest.facts)}


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
            show.table(("file", "reason"), refused[:_SHOWN], fold=("reason",))
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
