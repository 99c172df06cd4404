"""Commands that only look: log, history, show, stats."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lukasa.clock import to_iso
from lukasa.doors.cli import show as render
from lukasa.doors.cli.caller import AsJson, InScope, caller, find_key, moment
from lukasa.doors.cli.outcome import Unmet
from lukasa.engine import Query
from lukasa.outcome import Refused
from lukasa.record import Link, Record

Kind = Annotated[str, typer.Argument(metavar="KIND", help="The record's kind, such as note.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The record's id.")]
Time = "TIME"
_ROOM_FOR_TEXT = 30


def log(
    ctx: typer.Context,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Only this kind; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this scope; may be repeated.")] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this author wrote.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Only with this label; all of them.")] = None,
    since: Annotated[str | None, typer.Option(metavar=Time, help="Only what happened at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(metavar=Time, help="Only what happened at or before it.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar=Time, help="As the store was at this time.")] = None,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Superseded versions and deletions too.")
    ] = False,
    in_order: Annotated[bool, typer.Option("--in-order", help="Oldest first instead of newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many records.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show records, newest first.

    Example: lukasa log --kind note --author orion --since 2026-02-01
    """
    call = caller(ctx, as_json)
    query = Query(
        kinds=tuple(kind or ()),
        scopes=tuple(scope or ()),
        author=author,
        labels=tuple(label or ()),
        since=moment(since),
        until=moment(until),
        as_of=moment(as_of),
        every_version=all_versions,
        newest_first=not in_order,
        limit=limit,
    )
    with call.open() as memory:
        records = list(memory.journal.read(query))
    if call.json:
        render.as_json([render.record_json(record) for record in records])
    elif not records:
        render.say("No records.")
    else:
        _list(records)


def history(ctx: typer.Context, kind: Kind, id: Id, scope: InScope = None, as_json: AsJson = False) -> None:
    """Show every version of a record, oldest first.

    Example: lukasa history note deploy-day
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        versions = memory.journal.history(find_key(memory.journal, kind, id, scope))
    if call.json:
        render.as_json([render.record_json(record) for record in versions])
    else:
        render.say(f"{versions[0].key}: {render.counted(len(versions), 'version')}")
        render.table(
            ("version", "recorded", "author", "origin", "text"),
            [(v.version, render.when(v.recorded_at), v.author, v.origin, render.gist(v)) for v in versions],
            cut="text",
        )


def show(
    ctx: typer.Context,
    kind: Kind,
    id: Id,
    scope: InScope = None,
    as_of: Annotated[str | None, typer.Option(metavar=Time, help="As it was at this time.")] = None,
    version: Annotated[int | None, typer.Option(min=1, metavar="N", help="This version of it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one record in full.

    Example: lukasa show note deploy-day --version 1
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        key = find_key(memory.journal, kind, id, scope)
        record = memory.journal.get(key, as_of=moment(as_of), version=version)
    if record is None:
        told = f" version {version}" if version else f" as of {as_of}" if as_of else ""
        raise Unmet(Refused("not_found", f"There is no record {key}{told}."), "`lukasa history` shows what there is.")
    if call.json:
        render.as_json(render.record_json(record))
    else:
        render.sheet(_fields(record))


def stats(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Count records and versions per scope and kind, and tell the store's facts.

    Example: lukasa stats --json
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        tally, facts = memory.journal.tally(), dict(memory.describe())
    live, versions = sum(row.live for row in tally), sum(row.versions for row in tally)
    if call.json:
        rows = [{"scope": row.scope, "kind": row.kind, "live": row.live, "versions": row.versions} for row in tally]
        render.as_json({"store": facts, "live": live, "versions": versions, "tally": rows})
        return
    if tally:
        render.table(
            ("scope", "kind", "live", "versions"),
            [(row.scope, row.kind, f"{row.live:,}", f"{row.versions:,}") for row in tally],
        )
    render.say(f"{render.counted(live, 'live record')}, {render.counted(versions, 'version')} in the log.")
    render.sheet({name.replace("_", " "): _fact(name, value) for name, value in facts.items()})


def _list(records: list[Record]) -> None:
    columns = ("recorded", "scope", "kind", "id", "version", "author")
    rows = [(render.when(r.recorded_at), r.scope, r.kind, r.id, r.version, r.author) for r in records]
    if render.room_beside(columns, rows) >= _ROOM_FOR_TEXT:
        told = [(*row, render.gist(record)) for row, record in zip(rows, records, strict=True)]
        render.table((*columns, "text"), told, cut="text")
        return
    for record in records:
        heading = f"{record.key} version {record.version}, {render.when(record.recorded_at)}"
        render.entry(heading + (f" by {record.author}" if record.author else ""), render.gist(record))


def _fields(record: Record) -> dict[str, str]:
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
        "links": "\n".join(_arrow(link) for link in record.links),
        "body": json.dumps(record.body, indent=2, ensure_ascii=False) if record.body else "",
        "text": record.text,
    }
    fields = {name: render.in_line(value) for name, value in names.items()} | texts
    return {name: value for name, value in fields.items() if value}


def _arrow(link: Link) -> str:
    return render.in_line(f"{link.relation} → {link.to}")


def _fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return render.size(value) if name == "bytes" and isinstance(value, int) else render.in_line(value)
