"""``lukasa checkpoint`` and ``lukasa recover``: the saved states of sessions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, CommandApp, argument, flag, option, read_input
from lukasa.interfaces.cli.render import format_count, format_size, shorten
from lukasa.interfaces.outcomes import ExitCode, NotAccepted, not_found, require_accepted
from lukasa.interfaces.serialise import to_json

SessionArgument = Annotated[str, argument("SESSION", "The id of the session.")]
_MAX_ROWS = 50

app = CommandApp(
    help="""Save the state of a session, and look at saved states.

    Example: lukasa checkpoint list"""
)


@app.command()
def save(
    call: Call,
    session: SessionArgument,
    state: Annotated[str, option("FILE|-", "The state as a JSON file; - reads stdin.")],
    number: Annotated[int | None, option("N", "Number of the checkpoint; must be above the newest.", min=1)] = None,
    forecasts: Annotated[
        bool, flag("--forecasts", "Also store its predictions, signals and reasoning as forecasts.")
    ] = False,
) -> None:
    """Save a whole state as the next checkpoint of a session. A new id starts a new session.

    Example: lukasa checkpoint save demo --state state.json
    """
    from lukasa.transfer.layouts.session_json import read_session

    content = read_session(read_input(state))
    with call.open() as memory:
        require_accepted(memory.sessions.save_checkpoint(content, session, number))
        if forecasts:
            require_accepted(memory.forecasts.take_in(content))
        newest = memory.sessions.checkpoints(session)[0]
    call.show(
        {"session": session, "number": newest.number, "file": newest.name, "bytes": newest.size},
        f"Saved checkpoint {newest.number} of {session} ({format_size(newest.size)}).",
    )


@app.command("list")
def list_(
    call: Call,
    session: Annotated[str | None, argument("SESSION", "List its checkpoints; without it, all sessions.")] = None,
) -> None:
    """List the sessions, or the checkpoints of one session.

    Example: lukasa checkpoint list demo
    """
    with call.open(create=False) as memory:
        if session is None:
            found: Any = memory.sessions.find()
            columns: tuple[render.Column, ...] = (
                ("session", "id"),
                "scope",
                ("agent", "agent_id"),
                "status",
                ("checkpoint", "number"),
                ("since", "at"),
            )
        else:
            found = memory.sessions.checkpoints(session)
            columns = (
                "number",
                ("saved", "modified"),
                ("size", lambda entry: format_size(entry.size)),
                ("form", lambda entry: "gzip" if entry.compressed else "plain"),
            )
    empty = "There are no sessions." if session is None else f"{session} has no checkpoints."
    call.show(found, columns=columns, limit=_MAX_ROWS if session is None else None, empty=empty)


@app.command("show")
def show_(
    call: Call,
    session: SessionArgument,
    out: Annotated[Path | None, option("FILE", "Write the state to this file.")] = None,
    events: Annotated[bool, flag("--events", "Show the events of the session instead.")] = False,
    archive: Annotated[bool, flag("--archive", "Show what was moved from its state to the archive instead.")] = False,
) -> None:
    """Print the current state of a session as JSON, including changes since the last checkpoint.

    Example: lukasa checkpoint show demo --out state.json
    """
    from lukasa.storage.files import atomic_write
    from lukasa.transfer.layouts.session_json import export_session

    with call.open(create=False) as memory:
        if events or archive:
            entries = [*(memory.sessions.events(session) if events else ())]
            entries += [*(memory.sessions.archive(session) if archive else ())]
            columns = ("when", "what", "how")
            call.show(
                entries, columns=columns, rows=map(_event_row, entries), wrap=("how",), empty="There are no events."
            )
            return
        if memory.sessions.state(session) is None:
            raise _unknown_session(session)
        data = export_session(memory.sessions, session)
    if out is None:
        from lukasa.canonical_json import decode

        render.print_json(decode(data))
        return
    with atomic_write(out.absolute()) as file:
        file.write(data)
    call.show(
        {"session": session, "file": str(out), "bytes": len(data)},
        f"Wrote the state of {session} to {out} ({format_size(len(data))}).",
    )


def _event_row(entry: Any) -> tuple[object, ...]:
    rest = {name: value for name, value in entry.items() if name not in ("event", "section", "at")}
    details = ", ".join(f"{name} {shorten(value)}" for name, value in sorted(rest.items()) if value not in ([], {}))
    return entry["at"], entry.get("event") or f"archived {entry.get('section')}", details


@app.command()
def verify(call: Call, session: SessionArgument) -> None:
    """Check every checkpoint file of a session for damage. Changes nothing.

    Exit code 6: a file is damaged.

    Example: lukasa checkpoint verify demo
    """
    with call.open(create=False) as memory:
        checked = memory.sessions.verify(session)
    if not checked:
        raise not_found(f"The session {session[:80]!r} has no checkpoint files.")
    damaged = [check for check in checked if check.fault is not None]
    lines = [f"{check.entry.name}: {check.fault}" for check in damaged]
    call.show(checked, [*lines, f"{format_count(len(checked), 'checkpoint')} checked, {len(damaged)} damaged."])
    if damaged:
        raise typer.Exit(ExitCode.DAMAGED)


@app.command()
def prune(
    call: Call,
    session: SessionArgument,
    keep: Annotated[int, option("N", "Leave this many newest checkpoints as they are.", min=1)] = 10,
    compressed: Annotated[int, option("N", "Keep this many compressed checkpoints; drop older ones.", min=0)] = 100,
    age: Annotated[float, option("HOURS", "Compress checkpoints older than this.", min=0)] = 24,
) -> None:
    """Move old entries of a session's state to the archive, and compress or drop old checkpoint files.

    Example: lukasa checkpoint prune demo --keep 5
    """
    with call.open(create=False) as memory:
        if memory.sessions.state(session) is None:
            raise _unknown_session(session)
        plan = memory.sessions.prune(session)
        files = memory.sessions.compress_old_checkpoints(session, age, keep=keep, compressed=compressed)
    archived = ", ".join(f"{count} of {section}" for section, count in plan.counts.items()) or "nothing"
    compressed_files = format_count(len(files.compressed), "checkpoint")
    call.show(
        {"archived": plan.counts, "above_budget": list(plan.above), **asdict(files)},
        [
            f"Archived {archived}; compressed {compressed_files}, dropped {len(files.dropped)}.",
            *(f"Still above the budget: {line}." for line in plan.above),
        ],
    )


def recover(call: Call, session: SessionArgument) -> None:
    """Restore a session to its newest state that can be verified, and report what was lost.

    Damaged files are set aside and reported, not deleted. Exit code 6: something was damaged or lost.

    Example: lukasa recover demo
    """
    with call.open() as memory:
        sessions = memory.sessions
        known = sessions.state(session) is not None or any(info.id == session for info in sessions.find())
        if not known and not sessions.verify(session):
            raise _unknown_session(session)
        report = sessions.recover(session)
    changes = format_count(report.replayed, "change")
    lines = [f"Recovered {session} ({report.mode}) from {report.used} and {changes} since."]
    lines += [f"Damaged: {file.name}: {file.reason}; kept as {file.moved_to}." for file in report.damaged]
    if report.lost:
        lost = format_count(len(report.lost), "change")
        lines.append(f"Lost: {lost} ({report.lost[0]} to {report.lost[-1]}).")
    lines += [f"Conflict on {c['prediction_id']}: the {c['kept']} version was kept." for c in report.conflicts]
    lines += [f"Not verified: {id}: {why}." for id, why in report.flagged.items()]
    if not report.whole:
        lines.append("The log could not be read, so it is unknown whether something is missing.")
    elif report.damaged or report.lost:
        lines.append("Nothing that was acknowledged is missing.")
    else:
        lines.append("Everything that was acknowledged is there.")
    call.show(to_json(report), lines)
    if report.damaged or report.lost:
        raise typer.Exit(ExitCode.DAMAGED)


def _unknown_session(session: str) -> NotAccepted:
    return not_found(f"Nothing is known of the session {session[:80]!r}.")
