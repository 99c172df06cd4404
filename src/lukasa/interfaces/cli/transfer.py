"""Commands that carry a store elsewhere: export, import, backup, restore."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lukasa
from lukasa.config import locate_store
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import ExitCode
from lukasa.interfaces.cli.options import GlobalOptions, JsonOption, get_options, progress_bar
from lukasa.scope import SHARED

if TYPE_CHECKING:
    from lukasa.storage.archive import Manifest

_MAX_ROWS = 20
FormatOption = Annotated[
    str,
    typer.Option("--format", metavar="NAME", help="jsonl, or another layout: loki (a folder), memory-graph (a file)."),
]


def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Where to write; - is stdout.")],
    format_name: FormatOption = "jsonl",
    as_json: JsonOption = False,
) -> None:
    """Write the whole log as JSONL: lossless, and the same log always gives the same file.

    Example: lukasa export memories.jsonl
    """
    call = get_options(ctx, as_json)
    if format_name != "jsonl":
        _export_layout(call, file, format_name)
        return
    _refuse_store_as_target(call, file)
    with call.open(create=False) as memory, progress_bar("Exporting") as bar:
        count = memory.export(sys.stdout.buffer if file == "-" else file, bar)
        sys.stdout.buffer.flush()  # whoever reads it has it before anybody says so
    if file == "-":
        render.print_to_stderr(f"Exported {render.format_count(count, 'version')}.")
    elif call.json:
        render.print_json({"file": file, "versions": count})
    else:
        render.print_line(f"Exported {render.format_count(count, 'version')} to {file}.")


def import_(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="An exported log; - is stdin.")],
    format_name: FormatOption = "jsonl",
    as_json: JsonOption = False,
) -> None:
    """Take in an exported log. What is already here is skipped, so it can be run again after a break.

    Example: lukasa --store copy.db import memories.jsonl
    """
    call = get_options(ctx, as_json)
    if format_name != "jsonl":
        _import_layout(call, file, format_name)
        return
    source = nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")  # noqa: SIM115 - closed by the with below
    with source as lines, call.open() as memory, progress_bar("Importing") as bar:
        done = memory.import_(lines, bar)
    if call.json:
        refused = [{"line": line, "reason": reason} for line, reason in done.refused]
        render.print_json({"added": done.added, "present": done.present, "refused": refused})
    else:
        told = f"{render.format_count(done.added, 'version')} added, {done.present:,} already here, {len(done.refused):,} refused."
        render.print_line(told)
        if done.refused:
            render.print_table(("line", "reason"), done.refused[:_MAX_ROWS], wrap=("reason",))
        if len(done.refused) > _MAX_ROWS:
            render.print_line(f"and {len(done.refused) - _MAX_ROWS:,} more; --json names them all.")
    if done.refused:
        raise typer.Exit(ExitCode.REFUSED)


SecretFileOption = Annotated[
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
    secret_file: SecretFileOption = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Nobody else backs up there, so conditional writes are not needed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a consistent copy of the store to a new file, or a proved backup to a folder or bucket.

    A backup at a URL holds the store and its sessions' files; it is read back before this command ends.

    Example: lukasa backup s3://agents-backups/prod
    """
    call = get_options(ctx, as_json)
    secret = _read_secret(secret_file)
    with call.open(create=False) as memory:
        made = (
            memory.backup(place, secret=secret, keep=keep, alone=alone)
            if session is None
            else memory.sessions.backup(session, place, secret=secret, keep=keep, alone=alone)
        )
    if made is None:
        held = Path(place).stat().st_size
        if call.json:
            render.print_json({"file": place, "bytes": held})
        else:
            render.print_line(f"Backed up to {place} ({render.format_size(held)}).")
        return
    if call.json:
        render.print_json(_backup_json(made))
    else:
        kind = "encrypted " if made.encrypted else ""
        files = render.format_count(len(made.files), "file")
        render.print_line(
            f"Backed up {made.name} to {place} as number {made.number}: {files}, {kind}{render.format_size(made.size)}, read back."
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
    secret_file: SecretFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a store back from a backup, and prove that it is the same log. Nothing is ever overwritten.

    Example: lukasa restore s3://agents-backups/prod --into agents.db
    """
    call = get_options(ctx, as_json)
    if sum((into is not None, session is not None, check)) != 1:
        raise InvalidInput("Say what to restore.", hint="Give --into FILE, or --session ID, or --check.")
    secret = _read_secret(secret_file)
    if check:
        manifest = lukasa.find_backups(source, name=name).verify(number)
        if call.json:
            render.print_json(_backup_json(manifest))
        else:
            render.print_line(
                f"Backup {manifest.number} of {manifest.name} from {manifest.made_at} is whole ({render.format_size(manifest.size)})."
            )
        return
    if session is not None:
        with call.open() as memory:
            report = memory.sessions.restore(session, source, number=number, secret=secret)
        if call.json:
            render.print_json({"session": session, "mode": report.mode, "used": report.used, "number": report.number})
        else:
            render.print_line(f"Restored the session {session} from {report.used}.")
        return
    assert into is not None
    done = lukasa.restore(source, into, name=name, number=number, secret=secret)
    if call.json:
        facts = {"store": done.place, "versions": done.versions, "digest": done.digest, "files": done.files}
        render.print_json({**facts, "backup": _backup_json(done.manifest)})
    else:
        render.print_line(
            f"Restored {done.manifest.name} from backup {done.manifest.number} to {done.place}: "
            f"{render.format_count(done.versions, 'version')}, {render.format_count(done.files, 'file')}. The proof holds."
        )


def _read_secret(file: Path | None) -> str:
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


def _export_layout(options: GlobalOptions, folder: str, format_name: str) -> None:
    """Writes a document's own layout."""
    scope = options.scopes[0] if len(options.scopes) == 1 else SHARED
    with options.open(create=False) as memory:
        count = memory.export(folder, format=format_name, scope=scope)
    if options.json:
        render.print_json({"folder": folder, "format": format_name, "records": count})
    else:
        render.print_line(f"Wrote {render.format_count(count, 'record')} to {folder}.")


def _import_layout(options: GlobalOptions, folder: str, format_name: str) -> None:
    """Takes in a document's own layout."""
    scope = options.scopes[0] if len(options.scopes) == 1 else SHARED
    with options.open() as memory:
        done = memory.import_(folder, format=format_name, scope=scope)
    refused = [(str(where), reason) for where, reason in done.refused]
    if options.json:
        told = [{"file": name, "reason": reason} for name, reason in refused]
        render.print_json({"added": done.added, "present": done.present, "refused": told})
    else:
        render.print_line(
            f"{render.format_count(done.added, 'record')} added, {done.present:,} already here, {len(refused):,} refused."
        )
        if refused:
            render.print_table(("file", "reason"), refused[:_MAX_ROWS], wrap=("reason",))
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


def _refuse_store_as_target(options: GlobalOptions, file: str) -> None:
    """An export replaces its target; the store itself must never be that target."""
    store = locate_store(options.store).path
    if store is None or file == "-":
        return
    own = {store.with_name(store.name + end).resolve() for end in ("", "-wal", "-shm")}
    if Path(file).resolve() in own:
        raise InvalidInput(f"{file} is the store itself.", hint="Export to another file.")
