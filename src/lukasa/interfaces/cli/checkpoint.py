"""``lukasa checkpoint`` and ``lukasa recover``: the saved states of sessions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    ForceOption,
    argument,
    flag,
    option,
    parse_time,
    read_input,
    require_found,
)
from lukasa.interfaces.cli.render import format_count, format_size, shorten
from lukasa.interfaces.outcomes import ExitCode

SessionArgument = Annotated[str, argument("SESSION", "The id of the session.")]
_MAX_ROWS = 50

app = CommandApp(
    "checkpoint", "Save the state of an agent's session, and inspect saved states.", example="lukasa checkpoint list"
)


@app.command()
def save(
    call: Call,
    session: SessionArgument,
    state: Annotated[str, option("FILE|-", "The state as a JSON file; - reads stdin.")],
    number: Annotated[int | None, option("N", "Number of the checkpoint; must be above the newest.", min=1)] = None,
    forecasts: Annotated[bool, flag("--forecasts", "Also store its predictions and signals as forecasts.")] = False,
) -> None:
    """Save a whole state as the next checkpoint of a session. A new id starts a new session.

    Example: lukasa checkpoint save demo --state state.json
    """
    from lukasa.transfer.layouts.session_json import read_session

    content = read_session(read_input(state))
    memory = call.memory
    memory.sessions.save_checkpoint(content, session, number).unwrap_all()
    if forecasts:
        memory.forecasts.take_in(content).unwrap_all()
    newest = memory.sessions.checkpoints(session)[0]
    call.show(
        {"session": session, "number": newest.number, "file": newest.name, "bytes": newest.size},
        f"Saved checkpoint {newest.number} of {session} ({format_size(newest.size)}).",
    )


@app.command()
def list_(
    call: Call,
    session: Annotated[str | None, argument("SESSION", "List its checkpoints; default: list all sessions.")] = None,
) -> None:
    """List the sessions, or the checkpoints of one session.

    Example: lukasa checkpoint list demo
    """
    sessions = call.existing_memory.sessions
    if session is None:
        columns = "session=id, scope, agent=agent_id, status, checkpoint=number, since=at"
        call.show(sessions.list(), columns=columns, limit=_MAX_ROWS, empty="There are no sessions.")
        return
    size: render.Column = ("size", lambda entry: format_size(entry.size))
    form: render.Column = ("form", lambda entry: "gzip" if entry.compressed else "plain")
    found, empty = sessions.checkpoints(session), f"{session} has no checkpoints."
    call.show(found, columns=("number, saved=modified", size, form), empty=empty)


@app.command()
def show_(
    call: Call,
    session: SessionArgument,
    number: Annotated[int | None, option("N", "Show this checkpoint instead of the current state.", min=1)] = None,
    as_of: Annotated[str | None, option("TIME", "Show the state of this time instead.")] = None,
    out: Annotated[Path | None, option("FILE", "Write the state to this file.")] = None,
    force: ForceOption = False,
    events: Annotated[bool, flag("--events", "Show the events of the session instead.")] = False,
    archive: Annotated[bool, flag("--archive", "Show what was moved from its state to the archive instead.")] = False,
) -> None:
    """Print the current state of a session as JSON, including changes since the last checkpoint.

    Example: lukasa checkpoint show demo --out state.json
    """
    from lukasa.storage.files import open_output_file
    from lukasa.transfer.layouts.session_json import write_session

    sessions = call.existing_memory.sessions
    if events or archive:
        entries = [*(sessions.events(session) if events else ()), *(sessions.archive(session) if archive else ())]
        columns = "when, what, how"
        call.show(entries, columns=columns, rows=map(_event_row, entries), wrap="how", empty="There are no events.")
        return
    if number is None:
        _require_session(state := sessions.state(session, as_of=parse_time(as_of)), session)
    else:
        checkpoint = sessions.checkpoint(session, number)
        hint = f"`lukasa checkpoint list {session[:80]}` shows its checkpoints."
        state = require_found(checkpoint, f"{session[:80]!r} has no valid checkpoint {number}.", hint).state
    data = write_session(state or {})
    if out is None:
        from lukasa.core.canonical_json import decode

        render.print_json(decode(data))
        return
    with open_output_file(out.absolute(), replace=force) as file:
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
    missing = f"The session {session[:80]!r} has no checkpoint files."
    checked = require_found(call.existing_memory.sessions.verify(session), missing)
    damaged = [check for check in checked if check.fault is not None]
    lines = [f"{check.entry.name}: {check.fault}" for check in damaged]
    lines.append(f"{format_count(len(checked), 'checkpoint')} checked, {len(damaged)} damaged.")
    call.show(checked, lines, exit_code=ExitCode.DAMAGED if damaged else ExitCode.OK)


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
    sessions = call.existing_memory.sessions
    _require_session(sessions.state(session) is not None, session)
    plan = sessions.prune(session)
    files = sessions.compress_old_checkpoints(session, age, keep=keep, compressed=compressed)
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

    Damaged files are renamed and reported, not deleted. A session that a running process has open is not changed.
    Exit code 6: something was damaged or lost.

    Example: lukasa recover demo
    """
    sessions = call.memory.sessions
    known = sessions.state(session) is not None or any(info.id == session for info in sessions.list())
    _require_session(known or sessions.verify(session), session)
    report = sessions.recover(session)
    changes = format_count(report.replayed, "change")
    if report.mode == "alive":
        call.show(
            report, f"{session} is open in a running process. Nothing was changed; stop that process to recover it."
        )
        return
    lines = [f"Recovered {session} ({report.mode}) from {report.used} and {changes} since."]
    lines += [f"Damaged: {file.name}: {file.reason}; kept as {file.moved_to}." for file in report.damaged]
    if report.lost:
        lines.append(f"Lost: {format_count(len(report.lost), 'change')} ({report.lost[0]} to {report.lost[-1]}).")
    lines += [f"Damaged in the log: {line}; the files were used." for line in report.damaged_records]
    if report.disagreements:
        lines.append(f"Log and files differ on {format_count(len(report.disagreements), 'change')}; the log was used.")
    lines += [f"Conflict on {c['prediction_id']}: the {c['kept']} version was kept." for c in report.conflicts]
    lines += [f"Not verified: {id}: {why}." for id, why in report.flagged.items()]
    is_damaged = bool(report.damaged or report.lost or report.damaged_records or report.disagreements)
    if not report.whole:
        lines.append("The log could not be read, so it is unknown whether something is missing.")
    elif is_damaged:
        lines.append("Nothing that was acknowledged is missing.")
    else:
        lines.append("Everything that was acknowledged is there.")
    call.show(report, lines, exit_code=ExitCode.DAMAGED if is_damaged else ExitCode.OK)


def _require_session(found: object, session: str) -> None:
    hint = "`lukasa checkpoint list` shows the sessions."
    require_found(found, f"Nothing is known of the session {session[:80]!r}.", hint)
