"""Commands that take something back and show it first: undo and erase."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from lukasa.core.record import Key
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, RecordScopeOption, argument, confirm, find_key, flag, option, parse_time
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.outcomes import not_found
from lukasa.interfaces.serialise import restore_json

if TYPE_CHECKING:
    from lukasa.journal import Journal

_MAX_LISTED = 200
_MAX_TEXT = 80
ReasonOption = Annotated[str, option("TEXT", "The reason; it is recorded in the store.")]
WrittenSinceOption = Annotated[str | None, option("TIME", "Only what was written at or after this time.", "--since")]


def undo(
    call: Call,
    author: Annotated[str | None, option("NAME", "Undo what this author wrote.")] = None,
    since: WrittenSinceOption = None,
    label: Annotated[str | None, option("LABEL", "Undo the records with this label.")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be reverted.")] = False,
) -> None:
    """Revert what an author wrote, or the records with a label, and everything derived from them.

    Writes new versions, so nothing is lost; the answer names a label that reverts the undo. Records that another
    author has changed since are kept as they are.

    Example: lukasa undo --author mallory --since 2026-02-03T12:00:00Z
    """
    if author == "":  # a variable of a script that was never set would undo all that the owner wrote
        raise InvalidInput("The author is empty.", hint="Name an author or a label.")
    undone = call.existing_memory.journal.undo(author=author, since=parse_time(since), label=label, dry_run=dry_run)
    lines = ["Nothing to undo."]
    if undone.reverted:
        verb = "This would revert" if dry_run else "Reverted"
        lines = [f"{verb} {format_count(len(undone.reverted), 'record')}:", *render.list_keys(undone.reverted)]
        lines += [] if dry_run else [f"To take this back: lukasa undo --label {undone.label}"]
    if undone.kept:
        kept = format_count(len(undone.kept), "record")
        verb = "It would keep" if dry_run else "Kept"
        lines += [f"{verb} {kept} that another author has written since:", *render.list_keys(undone.kept)]
    call.show(undone, lines)


def erase(
    call: Call,
    kind: Annotated[str | None, argument("KIND", "The kind of the record.")] = None,
    id: Annotated[str | None, argument("ID", "The id of the record.")] = None,
    subject: Annotated[str | None, option("NAME", "Erase everything that this person wrote or is named in.")] = None,
    exact: Annotated[bool, flag("--exact", "Capital and small letters of --subject count.")] = False,
    scope: RecordScopeOption = None,
    reason: ReasonOption = "",
    yes: Annotated[bool, flag("--yes", "Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be erased.")] = False,
) -> None:
    """Remove records for good: every version, every index entry, and everything derived from them.

    Shows the records and asks first. A name is found as whole words: Ann is not found in Annual. This cannot be undone;
    a receipt without content remains.

    Example: lukasa erase --subject "Ada Lovelace" --reason "asked to be forgotten"
    """
    if not (kind and id) if subject is None else kind or scope:
        raise InvalidInput("Name what to erase: a kind and an id, or --subject with a name.")
    journal = call.existing_memory.journal
    named = [find_key(journal, kind, id, scope, hidden=True)] if kind and id else []
    keys = journal.preview_erase(*named, subject=subject, exact=exact)
    files = call.existing_memory.sessions.find_files(*keys, subject=subject, exact=exact)
    if not keys and not files:
        raise not_found(f"Nothing is known of {(subject or '')[:60]!r}.")
    count = format_count(len(keys), "record") + (f" and {format_count(len(files), 'file')}" if files else "")
    preview = [f"This would erase {count} for good:", *_list_texts(journal, keys), *(f"  {name}" for name in files)]
    if restored := journal.preview_restore(*named, subject=subject, exact=exact):
        preview += ["Of these, it would erase only the versions that were derived from it:"]
        preview += [
            render.escape_line(f"  {key}  version {', '.join(map(str, numbers))}") for key, numbers in restored.items()
        ]
    if dry_run:
        call.show({"would_erase": keys, "would_restore": restore_json(restored), "files": files}, preview)
        return
    if not yes:
        print_preview = partial(render.print_lines, preview)
        confirm(call, "Erase them?", f"the erasure of {count}", "Nothing was erased", print_preview)
    receipt = journal.erase(*named, subject=subject, exact=exact, reason=reason)
    erased = f"{format_count(receipt.records, 'record')} ({format_count(receipt.versions, 'version')})"
    erased += f" and {format_count(len(receipt.files), 'file')}" if receipt.files else ""
    lines = [f"Erased {erased}. Receipt: {receipt.id}", *(f"  {name}" for name in receipt.files)]
    if receipt.restored:
        lines.append(
            f"Restored {format_count(receipt.restored, 'record')} of which later versions were derived from it."
        )
    if receipt.residue:
        lines.append(f"Traces may remain on disk for a while: {receipt.residue}.")
    lines.append("Backups and exports that were made before still hold what was erased.")
    call.show({"erased": receipt}, lines)


def _list_texts(journal: Journal, keys: Sequence[Key]) -> list[str]:
    """Return a line for each record: its key and the beginning of its newest text."""
    lines = []
    for key in keys[:_MAX_LISTED]:
        texts = [record.text for record in journal.history(key, hidden=True) if record.text]
        text = " ".join(texts[-1].split())[:_MAX_TEXT] if texts else ""
        lines.append(render.escape_line(f"  {key}" + (f"  {text}" if text else "")))
    hidden = len(keys) - _MAX_LISTED
    return lines + ([f"  and {hidden:,} more; --dry-run --json lists all of them"] if hidden > 0 else [])
