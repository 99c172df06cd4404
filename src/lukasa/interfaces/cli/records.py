"""Commands that read the log: log, history and show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from lukasa.core.clock import to_iso
from lukasa.core.record import Record
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    AsOfOption,
    AuthorOption,
    Call,
    KindsOption,
    LabelsOption,
    RecordScopeOption,
    ScopesOption,
    SinceOption,
    UntilOption,
    argument,
    find_key,
    flag,
    option,
    parse_time,
    require_found,
    require_scopes,
)
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.serialise import versions_json
from lukasa.journal import ImportReceipt

RecordArgument = Annotated[
    list[str], argument("[KIND] ID", "The id of the record; before it its kind, if several kinds have this id.")
]
_MIN_TEXT_WIDTH = 30


def log(
    call: Call,
    kind: KindsOption = None,
    scope: ScopesOption = None,
    author: AuthorOption = None,
    label: LabelsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_of: AsOfOption = None,
    all_versions: Annotated[bool, flag("--all-versions", "Include superseded versions and deletions.")] = False,
    in_order: Annotated[bool, flag("--in-order", "Oldest first instead of newest first.")] = False,
    limit: Annotated[int, option("N", "Maximum number of records.", min=1)] = 20,
) -> None:
    """List records of any kind, newest first.

    Example: lukasa log --kind note --author orion --since 2026-02-01
    """
    from lukasa.storage.engine import Query

    filters: Any = {"kinds": tuple(kind or ()), "scopes": tuple(scope or ()), "labels": tuple(label or ())}
    times: Any = {"since": parse_time(since), "until": parse_time(until), "as_of": parse_time(as_of)}
    order: Any = {"every_version": all_versions, "newest_first": not in_order, "limit": limit}
    require_scopes(call.existing_memory.journal, *(scope or ()))
    records = list(call.existing_memory.journal.read(Query(author=author, **filters, **times, **order)))
    call.show(records, lambda: _print_records(records))


def _print_records(records: Sequence[Record]) -> None:
    headings = ("recorded", "scope", "kind", "id", "version", "author")
    rows = [(r.recorded_at, r.scope, r.kind, r.id, r.version, r.author) for r in records]
    if not records:
        render.print_line("No records.")
    elif render.remaining_width(headings, rows) >= _MIN_TEXT_WIDTH:
        cells = [(*row, render.summarise_record(record)) for row, record in zip(rows, records, strict=True)]
        render.print_table((*headings, "text"), cells, truncate="text")
    else:
        for record in records:
            heading = f"{record.key} version {record.version}, {render.format_time(record.recorded_at)}"
            heading += f" by {record.author}" if record.author else ""
            render.print_entry(heading, render.summarise_record(record))


def history(call: Call, record: RecordArgument, scope: RecordScopeOption = None) -> None:
    """List every version of a record, oldest first.

    Example: lukasa history 4f9a2c1b77d0
    """
    journal = call.existing_memory.journal
    versions = journal.history(find_key(journal, *_split_name(record), scope))
    imports = journal.find_imports(versions)
    imported = ("imported", lambda version: _describe_import(imports.get(version.digest)))
    call.show(
        versions_json(versions, imports),
        f"{versions[0].key}: {format_count(len(versions), 'version')}",
        columns=(
            "version, recorded=recorded_at, author, origin",
            *([imported] if imports else []),
            ("text", render.summarise_record),
        ),
        rows=versions,
        truncate="text",
    )


def _split_name(words: Sequence[str]) -> tuple[str | None, str]:
    """Return the kind, if it is named, and the id of a record."""
    if len(words) > 2:
        raise InvalidInput(f"{len(words)} words name no record.", hint="Give its id, or its kind and its id.")
    return (words[0], words[1]) if len(words) == 2 else (None, words[0])


def _describe_import(receipt: ImportReceipt | None) -> str:
    """Return who imported a version, when and from where; nothing for a version that was written here."""
    if receipt is None:
        return ""
    source = f" from {receipt.source}" if receipt.source else ""
    return f"by {receipt.by or 'the owner'}, {to_iso(receipt.at)}{source}"


def show(
    call: Call,
    record: RecordArgument,
    scope: RecordScopeOption = None,
    as_of: Annotated[str | None, option("TIME", "As the record was at this time.")] = None,
    version: Annotated[int | None, option("N", "This version of the record.", min=1)] = None,
) -> None:
    """Show all fields of one record.

    Example: lukasa show 4f9a2c1b77d0 --version 1
    """
    journal = call.existing_memory.journal
    key = find_key(journal, *_split_name(record), scope)
    found = journal.get(key, as_of=parse_time(as_of), version=version)
    which = f" version {version}" if version else f" as of {as_of}" if as_of else ""
    shown = require_found(found, f"There is no record {key}{which}.", "`lukasa history` shows the versions there are.")
    imports = journal.find_imports([shown])
    times = {"recorded": shown.recorded_at, "created": shown.created_at, "happened": shown.happened_at}
    if shown.created_at == shown.recorded_at:
        del times["created"]
    one_line_fields = {
        "record": f"{shown.key} version {shown.version}",
        **render.read_fields(shown, "author, origin"),
        **{name: to_iso(time) for name, time in times.items() if time is not None},
        **render.read_fields(shown, "position=seq, labels"),
        **({"imported": _describe_import(imports[shown.digest])} if imports else {}),
        "digest": shown.digest.hex(),
    }
    fields = {name: render.escape_line(render.format_cell(value)) for name, value in one_line_fields.items()} | {
        "links": "\n".join(render.escape_line(f"{link.relation} → {link.to}") for link in shown.links),
        "body": json.dumps(shown.body, indent=2, ensure_ascii=False) if shown.body else "",
        "text": shown.text,
    }
    call.show(versions_json([shown], imports)[0], fields=fields)
