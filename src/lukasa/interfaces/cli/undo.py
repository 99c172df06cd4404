"""Commands that take something back: undo, quarantine, release, erase."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, RecordScopeOption, find_key, get_options, parse_time
from lukasa.journal import ErasureReceipt
from lukasa.outcome import Refused
from lukasa.record import Key, Record

_MAX_ROWS = 20
AuthorArgument = Annotated[str, typer.Argument(metavar="AUTHOR", help="Who wrote it.")]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the store's books.")]
SinceOption = Annotated[str | None, typer.Option(metavar="TIME", help="Only what was written at or after this time.")]


def undo(
    ctx: typer.Context,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Undo what this author wrote.")] = None,
    since: SinceOption = None,
    label: Annotated[str | None, typer.Option(metavar="LABEL", help="Undo what carries this label.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Revert, by new versions, what an author wrote or what carries a label, and what came of it.

    Nothing is lost: the answer names a label that takes the undo back.

    Example: lukasa undo --author mallory --since 2026-02-03T12:00:00Z
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        undone = memory.journal.undo(author=author, since=parse_time(since), label=label)
    if call.json:
        keys = {"reverted": undone.reverted, "kept": undone.kept}
        answer: dict[str, Any] = {name: [render.key_json(key) for key in found] for name, found in keys.items()}
        render.print_json(answer | {"label": undone.label})
        return
    if not undone.reverted:
        render.print_line("Nothing to undo.")
    else:
        render.print_line(f"Reverted {render.format_count(len(undone.reverted), 'record')}:")
        _print_keys(undone.reverted)
        render.print_line(f"To take this back: lukasa undo --label {undone.label}")
    if undone.kept:
        render.print_line(
            f"Kept {render.format_count(len(undone.kept), 'record')} that somebody else has written since:"
        )
        _print_keys(undone.kept)


def quarantine(
    ctx: typer.Context,
    author: Annotated[str | None, typer.Argument(metavar="AUTHOR", help="Whom to put in quarantine.")] = None,
    since: SinceOption = None,
    reason: ReasonOption = "",
    list_: Annotated[bool, typer.Option("--list", help="Show who is in quarantine.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Hide what an author wrote, and what was derived from it, until released.

    Example: lukasa quarantine mallory --reason "writes nonsense"
    """
    call = get_options(ctx, as_json)
    if (author is None) is not list_:
        raise InvalidInput("Name an author, or ask for --list.")
    if author is not None:
        with call.open() as memory:
            record = require_accepted(memory.journal.quarantine(author, since=parse_time(since), reason=reason)).record
        if call.json:
            render.print_json(_quarantine_json(record))
        else:
            told = f" since {record.body['since']}" if record.body["since"] else ""
            render.print_line(f"In quarantine: what {author!r} wrote{told}, and what was derived from it, is hidden.")
            render.print_line("`lukasa release` brings it back.")
        return
    with call.open() as memory:
        held = list(memory.journal.quarantined().values())
    if call.json:
        render.print_json([_quarantine_json(record) for record in held])
    elif not held:
        render.print_line("Nobody is in quarantine.")
    else:
        rows = [
            (r.body["author"], r.body["since"] or "always", render.format_time(r.recorded_at), r.body["reason"])
            for r in held
        ]
        render.print_table(("author", "hidden since", "put there", "reason"), rows, wrap=("reason",))


def release(ctx: typer.Context, author: AuthorArgument, as_json: JsonOption = False) -> None:
    """Bring back everything that a quarantine hid.

    Example: lukasa release mallory
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        require_accepted(memory.journal.release(author), "`lukasa quarantine --list` shows who is.")
    if call.json:
        render.print_json({"author": author, "released": True})
    else:
        render.print_line(f"Released: what {author!r} wrote is visible again.")


def erase(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="The kind of the record to erase.")] = None,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The id of the record to erase.")] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="NAME", help="Erase everything this subject wrote or is named in.")
    ] = None,
    scope: RecordScopeOption = None,
    reason: ReasonOption = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove records for good: every version, every index entry, and whatever was derived from them.

    Shows what would go and asks first. A receipt without content stays.

    Example: lukasa erase --subject "Ada Lovelace" --reason "asked to be forgotten"
    """
    call = get_options(ctx, as_json)
    if not (kind and id) if subject is None else kind or scope:
        raise InvalidInput("Name what to erase: a kind and an id, or --subject with a name.")
    with call.open() as memory:
        journal = memory.journal
        named = [find_key(journal, kind, id, scope, hidden=True)] if kind and id else []
        doomed = journal.preview_erase(*named, subject=subject)
        if not doomed:
            raise CommandRefused(Refused("not_found", f"Nothing is known of {(subject or '')[:60]!r}."))
        if dry_run:
            _print_erase_preview(doomed, as_json=call.json)
            return
        if not yes:
            _confirm_erase(doomed, may_ask=sys.stdin.isatty() and not call.json)
        receipt = journal.erase(*named, subject=subject, reason=reason)
        files = memory.sessions.erase_files(*named, subject=subject)
    if call.json:
        render.print_json({"erased": {**_receipt_json(receipt), "files": files}})
    else:
        what = f"{render.format_count(receipt.records, 'record')} ({render.format_count(receipt.versions, 'version')})"
        beside = f" and {render.format_count(files, 'file')} of sessions" if files else ""
        render.print_line(f"Erased {what}{beside}. Receipt: {receipt.id}")
        if receipt.residue:
            render.print_line(f"Traces may remain on disk for a while: {receipt.residue}.")
        render.print_line("Backups and exports that were made before still hold what was erased.")


def _print_erase_preview(keys: Sequence[Key], *, as_json: bool) -> None:
    if as_json:
        render.print_json({"would_erase": [render.key_json(key) for key in keys]})
    else:
        render.print_line(f"This would erase {render.format_count(len(keys), 'record')} for good:")
        _print_keys(keys)


def _confirm_erase(keys: Sequence[Key], *, may_ask: bool) -> None:
    """Returns only if a person said yes."""
    if not may_ask:
        told = render.format_count(len(keys), "record")
        raise CommandRefused(
            Refused("not_confirmed", f"Nothing was erased: nobody could be asked about {told}."), "Add --yes."
        )
    _print_erase_preview(keys, as_json=False)
    try:
        agreed = typer.confirm("Erase them?", err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise CommandRefused(Refused("not_confirmed", "Nothing was erased."))


def _print_keys(keys: Sequence[Key]) -> None:
    for key in keys[:_MAX_ROWS]:
        render.print_line(f"  {key}")
    if len(keys) > _MAX_ROWS:
        render.print_line(f"  and {render.format_count(len(keys) - _MAX_ROWS, 'more', 'more')}")


def _quarantine_json(record: Record) -> Mapping[str, Any]:
    body = record.body
    told = {"author": body["author"], "since": body["since"], "reason": body["reason"]}
    return told | {"recorded_at": to_iso(record.recorded_at)}


def _receipt_json(receipt: ErasureReceipt) -> Mapping[str, Any]:
    return {
        "receipt": receipt.id,
        "records": receipt.records,
        "versions": receipt.versions,
        "by_kind": dict(receipt.by_kind),
        "residue": receipt.residue,
    }
