"""Commands that only look: log, history, show, stats."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lukasa.clock import to_iso
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused
from lukasa.interfaces.cli.options import JsonOption, RecordScopeOption, find_key, get_options, parse_time
from lukasa.outcome import Refused
from lukasa.record import Link, Record
from lukasa.storage.engine import Query

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The record's kind, such as note.")]
RecordIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The record's id.")]
_TIME = "TIME"
_MIN_TEXT_WIDTH = 30


def log(
    ctx: typer.Context,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Only this kind; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this scope; may be repeated.")] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this author wrote.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Only with this label; all of them.")] = None,
    since: Annotated[str | None, typer.Option(metavar=_TIME, help="Only what happened at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(metavar=_TIME, help="Only what happened at or before it.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar=_TIME, help="As the store was at this time.")] = None,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Superseded versions and deletions too.")
    ] = False,
    in_order: Annotated[bool, typer.Option("--in-order", help="Oldest first instead of newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many records.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show records, newest first.

    Example: lukasa log --kind note --author orion --since 2026-02-01
    """
    call = get_options(ctx, as_json)
    query = Query(
        kinds=tuple(kind or ()),
        scopes=tuple(scope or ()),
        author=author,
        labels=tuple(label or ()),
        since=parse_time(since),
        until=parse_time(until),
        as_of=parse_time(as_of),
        every_version=all_versions,
        newest_first=not in_order,
        limit=limit,
    )
    with call.open() as memory:
        records = list(memory.journal.read(query))
    if call.json:
        render.print_json([render.record_json(record) for record in records])
    elif not records:
        render.print_line("No records.")
    else:
        _print_records(records)


def history(
    ctx: typer.Context,
    kind: KindArgument,
    id: RecordIdArgument,
    scope: RecordScopeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every version of a record, oldest first.

    Example: lukasa history note deploy-day
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        versions = memory.journal.history(find_key(memory.journal, kind, id, scope))
    if call.json:
        render.print_json([render.record_json(record) for record in versions])
    else:
        render.print_line(f"{versions[0].key}: {render.format_count(len(versions), 'version')}")
        render.print_table(
            ("version", "recorded", "author", "origin", "text"),
            [
                (v.version, render.format_time(v.recorded_at), v.author, v.origin, render.summarise_record(v))
                for v in versions
            ],
            truncate="text",
        )


def show(
    ctx: typer.Context,
    kind: KindArgument,
    id: RecordIdArgument,
    scope: RecordScopeOption = None,
    as_of: Annotated[str | None, typer.Option(metavar=_TIME, help="As it was at this time.")] = None,
    version: Annotated[int | None, typer.Option(min=1, metavar="N", help="This version of it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show one record in full.

    Example: lukasa show note deploy-day --version 1
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        key = find_key(memory.journal, kind, id, scope)
        record = memory.journal.get(key, as_of=parse_time(as_of), version=version)
    if record is None:
        told = f" version {version}" if version else f" as of {as_of}" if as_of else ""
        raise CommandRefused(
            Refused("not_found", f"There is no record {key}{told}."), "`lukasa history` shows what there is."
        )
    if call.json:
        render.print_json(render.record_json(record))
    else:
        render.print_fields(_record_fields(record))


def stats(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Count records and versions per scope and kind, and tell the store's facts.

    Example: lukasa stats --json
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        tally, facts = memory.journal.tally(), dict(memory.describe())
    live, versions = sum(row.live for row in tally), sum(row.versions for row in tally)
    if call.json:
        rows = [{"scope": row.scope, "kind": row.kind, "live": row.live, "versions": row.versions} for row in tally]
        render.print_json({"store": facts, "live": live, "versions": versions, "tally": rows})
        return
    if tally:
        render.print_table(
            ("scope", "kind", "live", "versions"),
            [(row.scope, row.kind, f"{row.live:,}", f"{row.versions:,}") for row in tally],
        )
    render.print_line(
        f"{render.format_count(live, 'live record')}, {render.format_count(versions, 'version')} in the log."
    )
    render.print_fields({name.replace("_", " "): _format_fact(name, value) for name, value in facts.items()})


def _print_records(records: list[Record]) -> None:
    columns = ("recorded", "scope", "kind", "id", "version", "author")
    rows = [(render.format_time(r.recorded_at), r.scope, r.kind, r.id, r.version, r.author) for r in records]
    if render.remaining_width(columns, rows) >= _MIN_TEXT_WIDTH:
        told = [(*row, render.summarise_record(record)) for row, record in zip(rows, records, strict=True)]
        render.print_table((*columns, "text"), told, truncate="text")
        return
    for record in records:
        heading = f"{record.key} version {record.version}, {render.format_time(record.recorded_at)}"
        render.print_entry(heading + (f" by {record.author}" if record.author else ""), render.summarise_record(record))


def _record_fields(record: Record) -> dict[str, str]:
    """What ``show`` shows: every field that says something, the text last."""
    names = {
        "record": f"{record.key} version {record.version}",
        "author": record.author,
        "origin": record.origin,
        "recorded": to_iso(record.recorded_at),
        "created": to_iso(record.created_at) if record.created_at != record.recorded_at else "",
        "happened": to_iso(record.happened_at) if record.happened_at else "",
        "position": record.seq,
        "labels": ", ".join(record.labels),
        "digest": record.digest.hex(),
    }
    texts = {
        "links": "\n".join(_format_link(link) for link in record.links),
        "body": json.dumps(record.body, indent=2, ensure_ascii=False) if record.body else "",
        "text": record.text,
    }
    fields = {name: render.escape_line(value) for name, value in names.items()} | texts
    return {name: value for name, value in fields.items() if value}


def _format_link(link: Link) -> str:
    return render.escape_line(f"{link.relation} → {link.to}")


def _format_fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return render.format_size(value) if name == "bytes" and isinstance(value, int) else render.escape_line(value)
