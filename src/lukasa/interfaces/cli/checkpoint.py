"""Commands for sessions: checkpoint save, list, show, verify, prune; and recover."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, ExitCode, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options
from lukasa.outcome import Refused

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_MAX_ROWS = 50

app = typer.Typer(
    help="Save and look at the states of sessions.\n\nExample: lukasa checkpoint list", no_args_is_help=True
)


@app.command()
def save(
    ctx: typer.Context,
    session: SessionArgument,
    state: Annotated[str, typer.Option(metavar="FILE|-", help="The state as JSON; - is stdin.")],
    number: Annotated[
        int | None, typer.Option(min=1, help="The checkpoint's number; refused if it is not above the newest.")
    ] = None,
    forecasts: Annotated[
        bool, typer.Option("--forecasts", help="Keep its predictions, signals and reasoning as forecasts too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Save a whole state as the next checkpoint of a session, which is begun if there is none.

    Example: lukasa checkpoint save demo --state state.json
    """
    from lukasa.transfer.layouts.session_json import read_session

    call = get_options(ctx, as_json)
    data = sys.stdin.buffer.read() if state == "-" else Path(state).read_bytes()
    told = read_session(data)
    with call.open() as memory:
        require_accepted(memory.sessions.save_checkpoint(told, session, number))
        if forecasts:
            require_accepted(memory.forecasts.take_in(told))
        newest = memory.sessions.checkpoints(session)[0]
    if call.json:
        render.print_json({"session": session, "number": newest.number, "file": newest.name, "bytes": newest.size})
    else:
        render.print_line(f"Saved checkpoint {newest.number} of {session} ({render.format_size(newest.size)}).")


@app.command("list")
def list_(
    ctx: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Show its checkpoints; without it, all sessions.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the sessions, or the checkpoints of one.

    Example: lukasa checkpoint list demo
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        if session is None:
            _print_sessions(memory.sessions.find(), as_json=call.json)
            return
        entries = memory.sessions.checkpoints(session)
    if call.json:
        render.print_json([asdict(entry) | {"modified": to_iso(entry.modified)} for entry in entries])
        return
    rows = [
        (
            entry.number,
            render.format_time(entry.modified),
            render.format_size(entry.size),
            "gzip" if entry.compressed else "plain",
        )
        for entry in entries
    ]
    render.print_table(("number", "saved", "size", "form"), rows)


def _print_sessions(found: list[Any], *, as_json: bool) -> None:
    if as_json:
        render.print_json([asdict(listed) for listed in found])
        return
    rows = [(one.id, one.scope, one.agent_id, one.status, one.number, one.at) for one in found[:_MAX_ROWS]]
    render.print_table(("session", "scope", "agent", "status", "checkpoint", "since"), rows)
    if len(found) > _MAX_ROWS:
        render.print_line(f"and {render.format_count(len(found) - _MAX_ROWS, 'more', 'more')}")


@app.command("show")
def show_(
    ctx: typer.Context,
    session: SessionArgument,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the state to this file.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Show what happened to the session instead.")] = False,
    archive: Annotated[bool, typer.Option("--archive", help="Show what was taken out of its state instead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a session's state as it is now, changes since the last checkpoint included.

    Example: lukasa checkpoint show demo --out state.json
    """
    from lukasa.storage.files import atomic_write
    from lukasa.transfer.layouts.session_json import export_session

    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        if events or archive:
            told = [*(memory.sessions.events(session) if events else ())]
            told += [*(memory.sessions.archive(session) if archive else ())]
            _print_events(told, as_json=call.json)
            return
        if memory.sessions.state(session) is None:
            raise CommandRefused(Refused("not_found", f"Nothing is known of the session {session[:80]!r}."))
        data = export_session(memory.sessions, session)
    if out is None:
        from lukasa.canonical_json import decode

        render.print_json(decode(data))
        return
    with atomic_write(out.absolute()) as file:
        file.write(data)
    if call.json:
        render.print_json({"session": session, "file": str(out), "bytes": len(data)})
    else:
        render.print_line(f"Wrote the state of {session} to {out} ({render.format_size(len(data))}).")


def _print_events(events: list[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        render.print_json(events)
        return
    rows = []
    for item in events:
        rest = {name: value for name, value in item.items() if name not in ("event", "section", "at")}
        said = ", ".join(f"{name} {_shorten(value)}" for name, value in sorted(rest.items()) if value not in ([], {}))
        rows.append((item["at"], item.get("event") or f"archived {item.get('section')}", said))
    render.print_table(("when", "what", "how"), rows, wrap=("how",))


def _shorten(value: Any) -> str:
    said = str(value)
    return said if len(said) <= 80 else said[:79] + "…"


@app.command()
def verify(ctx: typer.Context, session: SessionArgument, as_json: JsonOption = False) -> None:
    """Prove every checkpoint file of a session. Nothing is changed. Exit code 6: one is damaged.

    Example: lukasa checkpoint verify demo
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        checked = memory.sessions.verify(session)
    if not checked:
        raise CommandRefused(Refused("not_found", f"The session {session[:80]!r} has no checkpoint files."))
    damaged = [check for check in checked if check.fault is not None]
    if call.json:
        render.print_json(
            [{"number": check.entry.number, "file": check.entry.name, "fault": check.fault} for check in checked]
        )
    else:
        for check in damaged:
            render.print_line(f"{check.entry.name}: {check.fault}")
        render.print_line(f"{render.format_count(len(checked), 'checkpoint')} checked, {len(damaged)} damaged.")
    if damaged:
        raise typer.Exit(ExitCode.DAMAGED)


@app.command()
def prune(
    ctx: typer.Context,
    session: SessionArgument,
    keep: Annotated[int, typer.Option(min=1, help="So many of the newest checkpoints stay as they are.")] = 10,
    compressed: Annotated[int, typer.Option(min=0, help="So many compressed ones are kept.")] = 100,
    age: Annotated[float, typer.Option(min=0, metavar="HOURS", help="Compress what is older than this.")] = 24,
    as_json: JsonOption = False,
) -> None:
    """Bring a session's state within its budget, and its checkpoint files within theirs. What leaves is archived.

    Example: lukasa checkpoint prune demo --keep 5
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        _require_session(memory.sessions.state(session), session)
        plan = memory.sessions.prune(session)
        tidied = memory.sessions.compress_old_checkpoints(session, age, keep=keep, compressed=compressed)
    if call.json:
        render.print_json({"archived": plan.counts, "above_budget": list(plan.above), **asdict(tidied)})
        return
    archived = ", ".join(f"{count} of {section}" for section, count in plan.counts.items()) or "nothing"
    render.print_line(
        f"Archived {archived}; compressed {render.format_count(len(tidied.compressed), 'checkpoint')}, dropped {len(tidied.dropped)}."
    )
    for line in plan.above:
        render.print_line(f"Still above the budget: {line}.")


def _require_session(state: Any, session: str) -> None:
    if state is None:
        raise CommandRefused(Refused("not_found", f"Nothing is known of the session {session[:80]!r}."))


def recover(ctx: typer.Context, session: SessionArgument, as_json: JsonOption = False) -> None:
    """Bring a session back to the newest state that can be proved, and tell what was used and what was lost.

    Exit code 6: something was damaged or lost; the newest valid state serves.

    Example: lukasa recover demo
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        sessions = memory.sessions
        known = sessions.state(session) is not None or any(one.id == session for one in sessions.find())
        if not known and not sessions.verify(session):
            raise CommandRefused(Refused("not_found", f"Nothing is known of the session {session[:80]!r}."))
        report = sessions.recover(session)
    if call.json:
        damaged = [asdict(damage) for damage in report.damaged]
        facts = {name: getattr(report, name) for name in ("session", "mode", "used", "number", "replayed", "sure")}
        lists = {name: list(getattr(report, name)) for name in ("lost", "incidents", "conflicts", "rebuilt")}
        tail = {"damaged": damaged, "flagged": dict(report.flagged), "network": report.network, "state": report.state}
        render.print_json({**facts, "whole": report.whole, **lists, **tail})
    else:
        render.print_line(
            f"Recovered {session} ({report.mode}) from {report.used} and {render.format_count(report.replayed, 'change')} since."
        )
        for damage in report.damaged:
            render.print_line(f"Damaged: {damage.name}: {damage.reason}; kept as {damage.moved_to}.")
        if report.lost:
            render.print_line(
                f"Lost: {render.format_count(len(report.lost), 'change')} ({report.lost[0]} to {report.lost[-1]})."
            )
        for conflict in report.conflicts:
            render.print_line(f"Conflict on {conflict['prediction_id']}: the {conflict['kept']} version was kept.")
        for id, why in report.flagged.items():
            render.print_line(f"Not verified: {id}: {why}.")
        render.print_line(_completeness_sentence(report.whole, report.damaged or report.lost))
    if report.damaged or report.lost:
        raise typer.Exit(ExitCode.DAMAGED)


def _completeness_sentence(is_complete: bool, losses: Any) -> str:
    if is_complete:
        return "Nothing that was acknowledged is missing." if losses else "Everything that was acknowledged is there."
    return "Whether something is missing cannot be told: the log was not there to ask."
