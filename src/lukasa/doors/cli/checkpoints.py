"""Commands for sessions: checkpoint save, list, show, verify, prune; and recover."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, caller
from lukasa.doors.cli.outcome import Ending, Unmet, met
from lukasa.outcome import Refused

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_SHOWN = 50

app = typer.Typer(
    help="Save and look at the states of sessions.\n\nExample: lukasa checkpoint list", no_args_is_help=True
)


@app.command()
def save(
    ctx: typer.Context,
    session: SessionId,
    state: Annotated[str, typer.Option(metavar="FILE|-", help="The state as JSON; - is stdin.")],
    number: Annotated[
        int | None, typer.Option(min=1, help="The checkpoint's number; refused if it is not above the newest.")
    ] = None,
    forecasts: Annotated[
        bool, typer.Option("--forecasts", help="Keep its predictions, signals and reasoning as forecasts too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Save a whole state as the next checkpoint of a session, which is begun if there is none.

    Example: lukasa checkpoint save demo --state state.json
    """
    from lukasa.formats.session import read_session

    call = caller(ctx, as_json)
    data = sys.stdin.buffer.read() if state == "-" else Path(state).read_bytes()
    told = read_session(data)
    with call.open() as memory:
        met(memory.sessions.save_checkpoint(told, session, number))
        if forecasts:
            met(memory.forecasts.take_in(told))
        newest = memory.sessions.checkpoints(session)[0]
    if call.json:
        show.as_json({"session": session, "number": newest.number, "file": newest.name, "bytes": newest.size})
    else:
        show.say(f"Saved checkpoint {newest.number} of {session} ({show.size(newest.size)}).")


@app.command("list")
def list_(
    ctx: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Show its checkpoints; without it, all sessions.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions, or the checkpoints of one.

    Example: lukasa checkpoint list demo
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        if session is None:
            _list_sessions(memory.sessions.find(), as_json=call.json)
            return
        entries = memory.sessions.checkpoints(session)
    if call.json:
        show.as_json([asdict(entry) | {"modified": to_iso(entry.modified)} for entry in entries])
        return
    rows = [
        (entry.number, show.when(entry.modified), show.size(entry.size), "gzip" if entry.compressed else "plain")
        for entry in entries
    ]
    show.table(("number", "saved", "size", "form"), rows)


def _list_sessions(found: list[Any], *, as_json: bool) -> None:
    if as_json:
        show.as_json([asdict(listed) for listed in found])
        return
    rows = [(one.id, one.scope, one.agent_id, one.status, one.number, one.at) for one in found[:_SHOWN]]
    show.table(("session", "scope", "agent", "status", "checkpoint", "since"), rows)
    if len(found) > _SHOWN:
        show.say(f"and {show.counted(len(found) - _SHOWN, 'more', 'more')}")


@app.command("show")
def show_(
    ctx: typer.Context,
    session: SessionId,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the state to this file.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Show what happened to the session instead.")] = False,
    archive: Annotated[bool, typer.Option("--archive", help="Show what was taken out of its state instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a session's state as it is now, changes since the last checkpoint included.

    Example: lukasa checkpoint show demo --out state.json
    """
    from lukasa.blob import replacing
    from lukasa.formats.session import export_session

    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        if events or archive:
            told = [*(memory.sessions.events(session) if events else ())]
            told += [*(memory.sessions.archive(session) if archive else ())]
            _show_told(told, as_json=call.json)
            return
        if memory.sessions.state(session) is None:
            raise Unmet(Refused("not_found", f"Nothing is known of the session {session[:80]!r}."))
        data = export_session(memory.sessions, session)
    if out is None:
        from lukasa.canonical import decode

        show.as_json(decode(data))
        return
    with replacing(out.absolute()) as file:
        file.write(data)
    if call.json:
        show.as_json({"session": session, "file": str(out), "bytes": len(data)})
    else:
        show.say(f"Wrote the state of {session} to {out} ({show.size(len(data))}).")


def _show_told(told: list[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show.as_json(told)
        return
    rows = []
    for item in told:
        rest = {name: value for name, value in item.items() if name not in ("event", "section", "at")}
        said = ", ".join(f"{name} {_short(value)}" for name, value in sorted(rest.items()) if value not in ([], {}))
        rows.append((item["at"], item.get("event") or f"archived {item.get('section')}", said))
    show.table(("when", "what", "how"), rows, fold=("how",))


def _short(value: Any) -> str:
    said = str(value)
    return said if len(said) <= 80 else said[:79] + "…"


@app.command()
def verify(ctx: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """Prove every checkpoint file of a session. Nothing is changed. Exit code 6: one is damaged.

    Example: lukasa checkpoint verify demo
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        checked = memory.sessions.verify(session)
    if not checked:
        raise Unmet(Refused("not_found", f"The session {session[:80]!r} has no checkpoint files."))
    damaged = [check for check in checked if check.fault is not None]
    if call.json:
        show.as_json(
            [{"number": check.entry.number, "file": check.entry.name, "fault": check.fault} for check in checked]
        )
    else:
        for check in damaged:
            show.say(f"{check.entry.name}: {check.fault}")
        show.say(f"{show.counted(len(checked), 'checkpoint')} checked, {len(damaged)} damaged.")
    if damaged:
        raise typer.Exit(Ending.DAMAGED)


@app.command()
def prune(
    ctx: typer.Context,
    session: SessionId,
    keep: Annotated[int, typer.Option(min=1, help="So many of the newest checkpoints stay as they are.")] = 10,
    compressed: Annotated[int, typer.Option(min=0, help="So many compressed ones are kept.")] = 100,
    age: Annotated[float, typer.Option(min=0, metavar="HOURS", help="Compress what is older than this.")] = 24,
    as_json: AsJson = False,
) -> None:
    """Bring a session's state within its budget, and its checkpoint files within theirs. What leaves is archived.

    Example: lukasa checkpoint prune demo --keep 5
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        _require(memory.sessions.state(session), session)
        plan = memory.sessions.prune(session)
        tidied = memory.sessions.compress_old_checkpoints(session, age, keep=keep, compressed=compressed)
    if call.json:
        show.as_json({"archived": plan.counts, "above_budget": list(plan.above), **asdict(tidied)})
        return
    archived = ", ".join(f"{count} of {section}" for section, count in plan.counts.items()) or "nothing"
    show.say(
        f"Archived {archived}; compressed {show.counted(len(tidied.compressed), 'checkpoint')}, dropped {len(tidied.dropped)}."
    )
    for line in plan.above:
        show.say(f"Still above the budget: {line}.")


def _require(state: Any, session: str) -> None:
    if state is None:
        raise Unmet(Refused("not_found", f"Nothing is known of the session {session[:80]!r}."))


def recover(ctx: typer.Context, session: SessionId, as_json: AsJson = False) -> None:
    """Bring a session back to the newest state that can be proved, and tell what was used and what was lost.

    Exit code 6: something was damaged or lost; the newest valid state serves.

    Example: lukasa recover demo
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        sessions = memory.sessions
        known = sessions.state(session) is not None or any(one.id == session for one in sessions.find())
        if not known and not sessions.verify(session):
            raise Unmet(Refused("not_found", f"Nothing is known of the session {session[:80]!r}."))
        report = sessions.recover(session)
    if call.json:
        damaged = [asdict(damage) for damage in report.damaged]
        facts = {name: getattr(report, name) for name in ("session", "mode", "used", "number", "replayed", "sure")}
        lists = {name: list(getattr(report, name)) for name in ("lost", "incidents", "conflicts", "rebuilt")}
        tail = {"damaged": damaged, "flagged": dict(report.flagged), "network": report.network, "state": report.state}
        show.as_json({**facts, "whole": report.whole, **lists, **tail})
    else:
        show.say(
            f"Recovered {session} ({report.mode}) from {report.used} and {show.counted(report.replayed, 'change')} since."
        )
        for damage in report.damaged:
            show.say(f"Damaged: {damage.name}: {damage.reason}; kept as {damage.moved_to}.")
        if report.lost:
            show.say(f"Lost: {show.counted(len(report.lost), 'change')} ({report.lost[0]} to {report.lost[-1]}).")
        for conflict in report.conflicts:
            show.say(f"Conflict on {conflict['prediction_id']}: the {conflict['kept']} version was kept.")
        for id, why in report.flagged.items():
            show.say(f"Not verified: {id}: {why}.")
        show.say(_sum_up(report.whole, report.damaged or report.lost))
    if report.damaged or report.lost:
        raise typer.Exit(Ending.DAMAGED)


def _sum_up(whole: bool, trouble: Any) -> str:
    if whole:
        return "Nothing that was acknowledged is missing." if trouble else "Everything that was acknowledged is there."
    return "Whether something is missing cannot be told: the log was not there to ask."
