"""Commands that take something back: undo, quarantine, release, erase."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, InScope, caller, find_key, moment
from lukasa.doors.cli.outcome import Unmet, met
from lukasa.errors import InvalidInput
from lukasa.journal import Receipt
from lukasa.outcome import Refused
from lukasa.record import Key, Record

_SHOWN = 20
Author = Annotated[str, typer.Argument(metavar="AUTHOR", help="Who wrote it.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the store's books.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only what was written at or after this time.")]


def undo(
    ctx: typer.Context,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Undo what this author wrote.")] = None,
    since: Since = None,
    label: Annotated[str | None, typer.Option(metavar="LABEL", help="Undo what carries this label.")] = None,
    as_json: AsJson = False,
) -> None:
    """Revert, by new versions, what an author wrote or what carries a label, and what came of it.

    Nothing is lost: the answer names a label that takes the undo back.

    Example: lukasa undo --author mallory --since 2026-02-03T12:00:00Z
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        undone = memory.journal.undo(author=author, since=moment(since), label=label)
    if call.json:
        keys = {"reverted": undone.reverted, "kept": undone.kept}
        answer: dict[str, Any] = {name: [show.key_json(key) for key in found] for name, found in keys.items()}
        show.as_json(answer | {"label": undone.label})
        return
    if not undone.reverted:
        show.say("Nothing to undo.")
    else:
        show.say(f"Reverted {show.counted(len(undone.reverted), 'record')}:")
        _name(undone.reverted)
        show.say(f"To take this back: lukasa undo --label {undone.label}")
    if undone.kept:
        show.say(f"Kept {show.counted(len(undone.kept), 'record')} that somebody else has written since:")
        _name(undone.kept)


def quarantine(
    ctx: typer.Context,
    author: Annotated[str | None, typer.Argument(metavar="AUTHOR", help="Whom to put in quarantine.")] = None,
    since: Since = None,
    reason: Reason = "",
    list_: Annotated[bool, typer.Option("--list", help="Show who is in quarantine.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hide what an author wrote, and what was derived from it, until released.

    Example: lukasa quarantine mallory --reason "writes nonsense"
    """
    call = caller(ctx, as_json)
    if (author is None) is not list_:
        raise InvalidInput("Name an author, or ask for --list.")
    if author is not None:
        with call.open() as memory:
            record = met(memory.journal.quarantine(author, since=moment(since), reason=reason)).record
        if call.json:
            show.as_json(_quarantine_json(record))
        else:
            told = f" since {record.body['since']}" if record.body["since"] else ""
            show.say(f"In quarantine: what {author!r} wrote{told}, and what was derived from it, is hidden.")
            show.say("`lukasa release` brings it back.")
        return
    with call.open() as memory:
        held = list(memory.journal.quarantined().values())
    if call.json:
        show.as_json([_quarantine_json(record) for record in held])
    elif not held:
        show.say("Nobody is in quarantine.")
    else:
        rows = [
            (r.body["author"], r.body["since"] or "always", show.when(r.recorded_at), r.body["reason"]) for r in held
        ]
        show.table(("author", "hidden since", "put there", "reason"), rows, fold=("reason",))


def release(ctx: typer.Context, author: Author, as_json: AsJson = False) -> None:
    """Bring back everything that a quarantine hid.

    Example: lukasa release mallory
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        met(memory.journal.release(author), "`lukasa quarantine --list` shows who is.")
    if call.json:
        show.as_json({"author": author, "released": True})
    else:
        show.say(f"Released: what {author!r} wrote is visible again.")


def erase(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="The kind of the record to erase.")] = None,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The id of the record to erase.")] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="NAME", help="Erase everything this subject wrote or is named in.")
    ] = None,
    scope: InScope = None,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove records for good: every version, every index entry, and whatever was derived from them.

    Shows what would go and asks first. A receipt without content stays.

    Example: lukasa erase --subject "Ada Lovelace" --reason "asked to be forgotten"
    """
    call = caller(ctx, as_json)
    if not (kind and id) if subject is None else kind or scope:
        raise InvalidInput("Name what to erase: a kind and an id, or --subject with a name.")
    with call.open() as memory:
        journal = memory.journal
        named = [find_key(journal, kind, id, scope, hidden=True)] if kind and id else []
        doomed = journal.would_erase(*named, subject=subject)
        if not doomed:
            raise Unmet(Refused("not_found", f"Nothing is known of {(subject or '')[:60]!r}."))
        if dry_run:
            _foretell(doomed, as_json=call.json)
            return
        if not yes:
            _agree(doomed, may_ask=sys.stdin.isatty() and not call.json)
        receipt = journal.erase(*named, subject=subject, reason=reason)
        files = memory.sessions.erase_files(*named, subject=subject)
    if call.json:
        show.as_json({"erased": {**_receipt_json(receipt), "files": files}})
    else:
        what = f"{show.counted(receipt.records, 'record')} ({show.counted(receipt.versions, 'version')})"
        beside = f" and {show.counted(files, 'file')} of sessions" if files else ""
        show.say(f"Erased {what}{beside}. Receipt: {receipt.id}")
        if receipt.residue:
            show.say(f"Traces may remain on disk for a while: {receipt.residue}.")
        show.say("Backups and exports that were made before still hold what was erased.")


def _foretell(doomed: Sequence[Key], *, as_json: bool) -> None:
    if as_json:
        show.as_json({"would_erase": [show.key_json(key) for key in doomed]})
    else:
        show.say(f"This would erase {show.counted(len(doomed), 'record')} for good:")
        _name(doomed)


def _agree(doomed: Sequence[Key], *, may_ask: bool) -> None:
    """Returns only if a person said yes."""
    if not may_ask:
        told = show.counted(len(doomed), "record")
        raise Unmet(Refused("not_confirmed", f"Nothing was erased: nobody could be asked about {told}."), "Add --yes.")
    _foretell(doomed, as_json=False)
    try:
        agreed = typer.confirm("Erase them?", err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise Unmet(Refused("not_confirmed", "Nothing was erased."))


def _name(keys: Sequence[Key]) -> None:
    for key in keys[:_SHOWN]:
        show.say(f"  {key}")
    if len(keys) > _SHOWN:
        show.say(f"  and {show.counted(len(keys) - _SHOWN, 'more', 'more')}")


def _quarantine_json(record: Record) -> Mapping[str, Any]:
    body = record.body
    told = {"author": body["author"], "since": body["since"], "reason": body["reason"]}
    return told | {"recorded_at": to_iso(record.recorded_at)}


def _receipt_json(receipt: Receipt) -> Mapping[str, Any]:
    return {
        "receipt": receipt.id,
        "records": receipt.records,
        "versions": receipt.versions,
        "by_kind": dict(receipt.by_kind),
        "residue": receipt.residue,
    }
