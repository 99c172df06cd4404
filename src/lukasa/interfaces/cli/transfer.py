"""Commands that move a store or its content: export, import, backup, restore and copy."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lukasa
from lukasa.config import backup_secret
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput, NotAllowed, StoreMissing
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    ForceOption,
    argument,
    choice,
    flag,
    open_input,
    option,
    progress_bar,
    read_text,
    require_choice,
)
from lukasa.interfaces.cli.render import format_count, format_size
from lukasa.interfaces.outcomes import ExitCode
from lukasa.interfaces.serialise import import_json, to_json

if TYPE_CHECKING:
    from lukasa.storage.archive import Manifest
    from lukasa.storage.location import StoreLocation
    from lukasa.transfer.copy import CopyProof, CopyResult, KindProof
    from lukasa.transfer.sources.importer import SourceImportResult

SOURCE_FORMATS = (
    "chatgpt", "claude", "claude-code", "claude-mem", "basic-memory", "hermes", "anthropic", "langgraph", "mem0", "knowledge-graph",
)  # fmt: skip
"""The formats of other programs, which `import` reads; named here so that other commands load none of their code."""
LAYOUT_FORMATS = ("jsonl", "vault", "memory-graph", "loki", "voxsigil", "context", "trust")
"""The formats that `export` writes and `import` reads."""
_MAX_ROWS = 20
_MAX_HASH_LENGTH, _MIN_HASH_LENGTH = 26, 8
FormatOption = Annotated[
    str,
    choice(
        "NAME",
        "jsonl, vault, memory-graph (files); loki, voxsigil, context, trust (folders).",
        LAYOUT_FORMATS,
        "--format",
    ),
]
SourceFormatOption = Annotated[
    str,
    choice(
        "NAME",
        f"As export has them; or of others: {', '.join(SOURCE_FORMATS)}.",
        (*LAYOUT_FORMATS, *SOURCE_FORMATS),
        "--format",
    ),
]
SecretFileOption = Annotated[Path | None, option("FILE", "A file with the secret; default: LUKASA_BACKUP_SECRET.")]


def export(
    call: Call,
    file: Annotated[str, argument("FILE|-", "The file to write; - writes to stdout.")],
    format_name: FormatOption = "jsonl",
    force: ForceOption = False,
) -> None:
    """Write the whole log to a JSONL file, or one scope in the file format of vault, loki and others.

    With jsonl nothing is lost, and the same log always gives the same file. Exit code 6: damaged records were left out; they
    are named.

    Example: lukasa export memories.jsonl
    """
    from lukasa.config import locate_store

    require_choice(format_name, LAYOUT_FORMATS, "a format to export")
    if format_name != "jsonl":
        if file == "-":
            raise InvalidInput(f"{format_name} cannot be written to stdout.", hint="Name a file or a folder.")
        memory = call.existing_memory
        count = memory.export(file, format=format_name, scope=_layout_scope(call), replace=force)
        answer = {"folder": file, "format": format_name, "records": count}
        _show_with_damage(
            call, answer, f"Wrote {format_count(count, 'record')} to {file}.", memory.journal.list_damaged()
        )
        return
    store = locate_store(call.store).path
    own = [] if store is None else [os.path.realpath(f"{store}{end}") for end in ("", "-wal", "-shm")]
    if os.path.realpath(file) in own:
        raise InvalidInput(f"{file} is the store itself.", hint="Export to another file.")
    with progress_bar("Exporting") as bar:
        count = call.existing_memory.export(sys.stdout.buffer if file == "-" else file, bar, replace=force)
        sys.stdout.buffer.flush()  # the reader has the log before the count is printed
    show_export(call, file, count, call.existing_memory.journal.list_damaged())


def show_export(call: Call, file: str, count: int, left_out: Sequence[str] = ()) -> None:
    """Print how many versions were exported; on stderr if stdout got the export itself."""
    if file != "-":
        done = f"Exported {format_count(count, 'version')} to {file}."
        _show_with_damage(call, {"file": file, "versions": count}, done, left_out)
        return
    render.print_to_stderr(f"Exported {format_count(count, 'version')}.")
    if left_out:
        for line in _describe_damage(left_out):
            render.print_to_stderr(line)
        raise typer.Exit(ExitCode.DAMAGED)


def _show_with_damage(call: Call, answer: dict[str, Any], done: str, left_out: Sequence[str]) -> None:
    """Print what was done, and the damaged records that were left out of it."""
    call.show(
        answer | ({"left_out": list(left_out)} if left_out else {}),
        [done, *_describe_damage(left_out)],
        exit_code=ExitCode.DAMAGED if left_out else ExitCode.OK,
    )


def _describe_damage(left_out: Sequence[str], verb: str = "Left out") -> list[str]:
    if not left_out:
        return []
    more = [f"and {len(left_out) - _MAX_ROWS:,} more."] if len(left_out) > _MAX_ROWS else []
    return [
        f"{verb}: {format_count(len(left_out), 'damaged record')}. `lukasa doctor --repair` sets them aside.",
        *left_out[:_MAX_ROWS],
        *more,
    ]


def import_(
    call: Call,
    file: Annotated[str, argument("PATH|-", "An exported log, or a file or folder of another format; - reads stdin.")],
    format_name: SourceFormatOption = "jsonl",
) -> None:
    """Add the records of an exported log, of files of vault, loki and others, or of another program. It can be repeated.

    Records that are present are skipped, and an import that was interrupted goes on. `lukasa audit` shows before what an
    import of another program would store and refuse.

    Example: lukasa --store copy.db import memories.jsonl
    """
    done: Any
    require_choice(format_name, (*LAYOUT_FORMATS, *SOURCE_FORMATS), "a format to import")
    if format_name in SOURCE_FORMATS:
        with progress_bar("Importing") as bar:
            done = call.memory.import_(file, bar, format=format_name, scope=_layout_scope(call))
        show_import(call, done, describe_added(done), done.present, "where, code, reason", done.refusals)
        return
    if format_name == "jsonl":
        with open_input(file) as lines, progress_bar("Importing") as bar:
            done = call.memory.import_(lines, bar)
        place, unit = "line", "version"
    else:
        done = call.memory.import_(file, format=format_name, scope=_layout_scope(call))
        place, unit = "file", "record"
    rows = [(where, reason) for where, reason in done.refused]
    show_import(call, import_json(done, place), format_count(done.added, unit), done.present, f"{place}, reason", rows)


def describe_added(result: SourceImportResult) -> str:
    """Return the counts of an import from another program, with the redactions."""
    parts = [
        format_count(count, *names)
        for count, names in (
            (result.memories, ("memory", "memories")),
            (result.turns, ("turn",)),
            (result.files, ("file",)),
        )
        if count
    ]
    if result.turns:
        parts[-1 - bool(result.files)] += f" of {format_count(result.conversations, 'conversation')}"
    redacted = f" (personal data redacted in {format_count(result.redacted, 'turn')})" if result.redacted else ""
    return (", ".join(parts) or "nothing") + redacted


def show_import(
    call: Call, answer: Any, added: str, present: int, columns: str, refused: Sequence[tuple[Any, ...]]
) -> None:
    """Print how many entries were added, present and refused, and the first refusals."""
    call.show(
        answer,
        f"{added} added, {present:,} already here, {len(refused):,} refused.",
        columns=columns,
        rows=refused,
        wrap="reason",
        limit=_MAX_ROWS,
        exit_code=ExitCode.REFUSED if refused else ExitCode.OK,
    )


def _layout_scope(call: Call) -> str:
    return call.scopes[0] if len(call.scopes) == 1 else SHARED


def backup(
    call: Call,
    place: Annotated[str, argument("FILE|URL", "A new file, or a folder or bucket: file:///… or s3://….")],
    session: Annotated[str | None, option("ID", "Back up only the files of this session.")] = None,
    keep: Annotated[int, option("N", "Number of backups to keep at a URL.", min=1)] = 12,
    secret_file: SecretFileOption = None,
    alone: Annotated[bool, flag("--alone", "No other process backs up there; skips conditional writes.")] = False,
) -> None:
    """Copy the store to a new file, or to a backup in a folder or bucket. Does not change the store.

    A backup at a URL holds the store and the files of its sessions, and is read back and checked. Exit code 6: the backup
    is made, but records of the store are damaged; they are named.

    Example: lukasa backup s3://agents-backups/prod
    """
    settings: Any = {"secret": _read_secret(secret_file), "keep": keep, "alone": alone}
    memory = call.existing_memory
    if session:
        made: Manifest | None = memory.sessions.backup(session, place, **settings).unwrap()
    else:
        made = memory.backup(place, **settings)
    if made is None:
        size, left_out = Path(place).stat().st_size, memory.journal.list_damaged()
        done = f"Backed up to {place} ({format_size(size)})."
        _show_with_damage(call, {"file": place, "bytes": size}, done, left_out)
        return
    size_text = ("encrypted " if made.encrypted else "") + format_size(made.size)
    content = f"{format_count(len(made.files), 'file')}, {size_text}"
    damaged = made.facts.get("damaged", ())
    call.show(
        made,
        [
            f"Backed up {made.name} to {place} as number {made.number}: {content}, read back.",
            *_describe_damage(damaged, "Backed up as they are"),
        ],
        exit_code=ExitCode.DAMAGED if damaged else ExitCode.OK,
    )


def restore(
    call: Call,
    source: Annotated[str, argument("URL|FOLDER", "Where the backups are.")],
    into: Annotated[str | None, option("FILE|URL", "The store to create: a new file or an empty database.")] = None,
    name: Annotated[str | None, option("NAME", "The backed-up store, if there are several.")] = None,
    number: Annotated[int | None, option("N", "Number of the backup; default: newest.", min=1)] = None,
    session: Annotated[str | None, option("ID", "Restore this session into the store of --store.")] = None,
    check: Annotated[bool, flag("--check", "Only read the backup and check it.")] = False,
    secret_file: SecretFileOption = None,
) -> None:
    """Create a store from a backup and check that the log is the same. Never overwrites anything.

    Example: lukasa restore s3://agents-backups/prod --into agents.db
    """
    if sum((into is not None, session is not None, check)) != 1:
        raise InvalidInput("Choose what to restore.", hint="Give --into FILE, or --session ID, or --check.")
    secret = _read_secret(secret_file)
    if into is not None:
        done = lukasa.restore(source, into, name=name, number=number, secret=secret)
        counts = f"{format_count(done.versions, 'version')}, {format_count(done.files, 'file')}"
        origin = f"{done.manifest.name} from backup {done.manifest.number}"
        call.show(done, f"Restored {origin} to {done.place}: {counts}. The log is the same.")
    elif session is not None:
        report = call.memory.sessions.restore(session, source, number=number, secret=secret)
        call.show(
            {"session": session, "mode": report.mode, "used": report.used, "number": report.number},
            f"Restored the session {session} from {report.used}.",
        )
    else:
        manifest = lukasa.find_backups(source, name=name).verify(number)
        backup_name = f"Backup {manifest.number} of {manifest.name} from {manifest.made_at}"
        call.show(manifest, f"{backup_name} is intact ({format_size(manifest.size)}).")


def _read_secret(file: Path | None) -> str:
    """Return the encryption secret, or "". It is never a command-line argument, which other users could see."""
    if file is None:
        return backup_secret()
    secret = read_text(str(file)).strip()
    if not secret:
        raise InvalidInput(f"{file} is empty.", hint="Put the secret into it.")
    return secret


def copy(
    call: Call,
    source: Annotated[str, argument("SRC", "The store to copy: a file or a postgresql:// URL.")],
    destination: Annotated[str, argument("DEST", "The store to copy to, likewise; a new file is created.")],
) -> None:
    """Copy a whole store to another one and prove that every version arrived.

    If the command is interrupted, run it again: it continues. Exit code 6: damaged records were left out; they are named.
    Exit code 8: the proof does not hold.

    Example: lukasa copy agents.db postgresql://db.example/agents
    """
    from lukasa.transfer.copy import copy_log

    locations = _locate_copy(call, source, destination)
    try:
        with Call(source).open(create=False) as ours, Call(destination).open() as theirs:
            result = copy_log(ours.journal, theirs.journal, progress_bar)
    except KeyboardInterrupt:
        render.print_to_stderr("What was copied so far stays there; run it again to continue.")
        raise
    _show_copy(call, result, *map(str, locations))


def sync(
    call: Call,
    url: Annotated[str, argument("URL", "The address of a server that runs `lukasa serve`.")],
    token: Annotated[str, option("TOKEN", "The token for it; default: LUKASA_HUB_TOKEN.")] = "",
) -> None:
    """Exchange records with a server until both have the same, and prove it. Each can work alone in between.

    A record that was changed on both sides gets the server's content; both versions are kept in a record of the kind
    sync_conflict. If the command is interrupted, run it again: it continues. Exit code 8: one side lacks something.

    Example: lukasa sync http://localhost:8765 --token "$TOKEN"
    """
    from lukasa.api_connection import ApiConnection
    from lukasa.config import hub_token
    from lukasa.transfer.sync import HttpLogPeer, sync_logs

    connection = ApiConnection(url, token or hub_token())
    with progress_bar("Synchronising") as bar:
        result = sync_logs(call.memory.journal, HttpLogPeer(connection), bar)
    lines = [f"Pulled {format_count(result.pulled, 'version')}, pushed {result.pushed:,}."]
    if result.kept_here:
        lines.append(f"Kept here: {format_count(result.kept_here, 'version')} that this token may not write there.")
    if result.conflicts:
        count = format_count(len(result.conflicts), "record")
        lines.append(f"Changed on both sides: {count}. `lukasa log --kind sync_conflict` shows both versions.")
    if result.holds:
        lines.append("Proved: both sides have the same.")
    else:
        lines.append(f"Not proved: {result.missing_here:,} versions are missing here, {result.missing_there:,} there.")
    call.show(
        result,
        "\n".join(lines),
        columns="record, version, reason",
        rows=[(str(item.key), item.version, item.reason) for item in result.refusals],
        wrap="reason",
        limit=_MAX_ROWS,
        exit_code=ExitCode.OK if result.holds else ExitCode.UNPROVED,
    )


def _locate_copy(call: Call, source: str, destination: str) -> list[StoreLocation]:
    """Return where both stores are, and refuse a copy that cannot work."""
    from lukasa.config import locate_store
    from lukasa.transfer.copy import is_same_store

    if call.agent or call.scopes:
        hint = "Leave out --agent and --scope."
        raise NotAllowed("Only the owner of both stores may copy one into the other.", hint=hint)
    if call.store is not None:
        raise InvalidInput("copy takes both stores as arguments.", hint="Leave out --store.")
    locations = [locate_store(source), locate_store(destination)]
    if any(location.engine == "memory" for location in locations):
        raise InvalidInput("A store in memory is gone when the command ends.", hint="Name a file or a database.")
    if is_same_store(*locations):
        raise InvalidInput(f"{locations[1]} is the source itself.", hint="Name another destination.")
    path = locations[0].path
    if path is not None and not path.exists():
        raise StoreMissing(f"There is no store at {path}.", hint="Check the name of the source.")
    return locations


def _show_copy(call: Call, result: CopyResult, source: str, destination: str) -> None:
    from lukasa.transfer.copy import NOT_COPIED

    proofs, unlisted = result.proof.kind_proofs, result.refused - len(result.refusals)
    lines = [f"Copied {format_count(result.added, 'version')} from {source} to {destination}"]
    lines[0] += f"; {result.present:,} were there already." if result.present else "."
    lines += _describe_damage(result.left_out)
    if result.refused:
        lines.append(f"Refused by the destination: {format_count(result.refused, 'version')}.")
    call.show(
        {"source": source, "destination": destination, **to_json(result)},
        lines,
        columns="record=key, version, reason",
        rows=result.refusals,
        wrap="reason",
        after=f"and {unlisted:,} more." if unlisted > 0 else (),
    )
    names = ("scope", "kind", "versions", "there", "own", "proof")
    cells = [(p.scope, p.kind, f"{p.versions:,}", f"{p.there:,}", f"{p.own:,}", _proof_status(p)) for p in proofs]
    length = max(_MIN_HASH_LENGTH, min(_MAX_HASH_LENGTH, render.remaining_width(names, cells) // 2 - 2))
    closing = [_proof_sentence(result.proof), f"Not part of a log, and so not copied: {' and '.join(NOT_COPIED)}."]
    if erased := [key for proof in proofs for key in proof.erased]:
        closing = [
            f"Erased in the source, but not in the destination: {format_count(len(erased), 'record')}.",
            *render.list_keys(erased),
            "`lukasa --store DEST erase KIND ID` erases a record there too.",
            *closing,
        ]
    call.show_more(
        columns=(
            "scope, kind, versions:,d",
            ("hash", lambda proof: proof.hash[:length]),
            "there:,d",
            ("hash there", lambda proof: proof.hash_there[:length]),
            "own:,d",
            ("proof", _proof_status),
        ),
        rows=proofs,
        wrap="proof",
        after=closing,
    )
    if not result.proof.holds:
        raise typer.Exit(ExitCode.UNPROVED)
    if result.left_out:
        raise typer.Exit(ExitCode.DAMAGED)


def _proof_status(proof: KindProof) -> str:
    if proof.there < proof.versions:
        return f"{proof.versions - proof.there:,} missing"
    if not proof.has_arrived:
        return "other content"
    return f"{len(proof.erased):,} erased in the source" if proof.erased else "holds"


def _proof_sentence(proof: CopyProof) -> str:
    if not any(kind.versions for kind in proof.kind_proofs):
        return "The source is empty: there was nothing to copy, and nothing to prove."
    if proof.is_same_log:
        return "The proof holds: both logs are the same, entry by entry."
    if proof.holds:
        own = sum(kind.own for kind in proof.kind_proofs)
        more = f", and {format_count(own, 'version')} that the source does not have" if own else ""
        return f"The proof holds: the destination has every entry of the source{more}. The order of the logs differs."
    wrong = [f"{kind.scope}/{kind.kind}" for kind in proof.kind_proofs if not kind.holds]
    return f"The proof does not hold for {', '.join(wrong)}. Do not switch over."
