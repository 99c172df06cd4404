"""``lukasa episode``: what happened, task by task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, InScope, caller, moment
from lukasa.doors.cli.outcome import Unmet, met
from lukasa.episodes import Episode
from lukasa.errors import InvalidInput
from lukasa.outcome import Refused
from lukasa.scope import SHARED

app = typer.Typer(help="What happened, task by task.\n\nExample: lukasa episode list", no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="ID", help="Such as ep-2026-01-06-001.")]
Into = Annotated[str, typer.Option("--scope", metavar="NAME", help="The scope to put it into.")]


@app.command()
def add(
    ctx: typer.Context,
    goal: Annotated[str | None, typer.Argument(metavar="GOAL", help="What was to be done.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Episodes as JSON instead: one object or a list; - is stdin.")
    ] = None,
    outcome: Annotated[str, typer.Option(metavar="WORD", help="success, failure, partial, …")] = "success",
    did_by: Annotated[str, typer.Option("--by", metavar="NAME", help="The agent that did it.")] = "",
    task: Annotated[str, typer.Option(metavar="ID", help="The task it belongs to.")] = "",
    step: Annotated[list[str] | None, typer.Option(metavar="ACTION", help="A step, in order; may be repeated.")] = None,
    error: Annotated[
        list[str] | None, typer.Option(metavar="TYPE:MESSAGE:FIX", help="An error that was met; may be repeated.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long it took.")] = 0,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When it began; now, if not said.")] = None,
    scope: Into = SHARED,
    as_json: AsJson = False,
) -> None:
    """Keep an episode, or with --file many in the document's own JSON.

    Example: lukasa episode add "Implement POST /api/todos" --step read_file --step write_file --by eng-001
    """
    call = caller(ctx, as_json)
    if (goal is None) is (file is None):
        raise InvalidInput("Say what was to be done, or name a --file.")
    with call.open() as memory:
        if file is not None:
            kept = met(memory.episodes.add(_objects(file), scope=scope))
        else:
            kept = met(
                memory.episodes.record(
                    goal or "", outcome=outcome, agent=did_by, task_id=task,
                    duration_seconds=int(seconds) if seconds.is_integer() else seconds,
                    action_log=[{"action": name} for name in step or ()], errors=[_error(told) for told in error or ()],
                    timestamp=moment(at), scope=scope,
                )
            )  # fmt: skip
    if call.json:
        show.as_json([Episode(record).as_json() for record in kept.records])
    elif not kept.records:
        show.say("Already here.")
    else:
        for record in kept.records:
            show.say(f"Kept {record.id}.")


@app.command("list")
def list_(
    ctx: typer.Context,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only those that happened since.")] = None,
    day: Annotated[str | None, typer.Option(metavar="DATE", help="Only those of one day, such as 2026-01-06.")] = None,
    did_by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Only those of this agent.")] = None,
    outcome: Annotated[str | None, typer.Option(metavar="WORD", help="Only those that ended so.")] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those that were never finished.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Those in the archive too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Episodes, the newest last.

    Example: lukasa episode list --outcome failure
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        room = memory.episodes
        if unfinished:
            found = room.unfinished()
        elif day is not None:
            found = room.on(day, archived=archived)
        elif did_by is not None:
            found = room.by_agent(did_by, archived=archived)
        elif outcome is not None:
            found = room.by_outcome(outcome, archived=archived)
        elif (start := moment(since)) is not None:
            found = room.since(start, archived=archived)
        else:
            newest = room.newest(limit, archived=archived)
            found = sorted(newest, key=lambda episode: (episode.timestamp, episode.record.seq))
    start = moment(since)
    chosen = [
        episode
        for episode in found
        if (start is None or episode.timestamp >= start)
        and did_by in (None, episode.agent)
        and outcome in (None, episode.outcome)
        and day in (None, episode.day)
    ][-limit:]
    if call.json:
        show.as_json([episode.as_json() for episode in chosen])
    elif not chosen:
        show.say("No episodes.")
    else:
        rows = [(e.id, show.when(e.timestamp), e.agent, e.outcome, e.detail, e.goal) for e in chosen]
        show.table(("id", "began", "agent", "outcome", "detail", "goal"), rows, cut="goal")


@app.command("show")
def show_(ctx: typer.Context, id: Id, scope: InScope = None, as_json: AsJson = False) -> None:
    """One episode in full.

    Example: lukasa episode show ep-2026-01-06-001
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        episode = memory.episodes.get(id, scope=scope)
    if episode is None:
        raise Unmet(Refused("not_found", f"There is no episode {id[:80]!r}."))
    if call.json:
        show.as_json(episode.as_json())
        return
    fields = {
        "id": episode.id, "goal": episode.goal, "began": show.when(episode.timestamp), "agent": episode.agent,
        "task": episode.task_id, "outcome": episode.outcome, "seconds": f"{episode.duration_seconds:g}",
        "steps": "\n".join(_step(told) for told in episode.action_log) or str(episode.record.body.get("summary", "")),
        "errors": "\n".join(_told(error) for error in episode.errors),
        "artifacts": "\n".join(map(str, episode.record.body.get("artifacts_produced", ()))),
        "commit": str(episode.record.body.get("git_commit", "")), "detail": episode.detail,
    }  # fmt: skip
    show.sheet({name: value for name, value in fields.items() if value})


@app.command()
def finish(
    ctx: typer.Context,
    id: Id,
    outcome: Annotated[str, typer.Option(metavar="WORD", help="How it ended.")] = "abandoned",
    as_json: AsJson = False,
) -> None:
    """Close an episode that was never finished.

    Example: lukasa episode finish ep-2026-01-06-002 --outcome failure
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        record = met(
            memory.episodes.finish(id, outcome), "`lukasa episode list --unfinished` shows those that go on."
        ).record
    if call.json:
        show.as_json(Episode(record).as_json())
    else:
        show.say(f"{id} ended as {outcome}.")


@app.command()
def prune(
    ctx: typer.Context,
    summarise_after: Annotated[float, typer.Option(metavar="DAYS", help="Summarise those that are older.")] = 7,
    archive_after: Annotated[float, typer.Option(metavar="DAYS", help="Archive those that are older.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Summarise old episodes and archive older ones, unless knowledge refers to them. Nothing is lost.

    Example: lukasa episode prune --dry-run
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        done = memory.episodes.prune(summarise_after=summarise_after, archive_after=archive_after, dry_run=dry_run)
    if call.json:
        told = {"summarised": done.summarised, "archived": done.archived, "kept": done.kept}
        show.as_json({name: list(ids) for name, ids in told.items()} | {"dry_run": dry_run})
        return
    verb = "Would summarise" if dry_run else "Summarised"
    other = "archive" if dry_run else "archived"
    show.say(f"{verb} {len(done.summarised):,}, {other} {len(done.archived):,}; knowledge keeps {len(done.kept):,}.")


@app.command()
def restore(ctx: typer.Context, id: Id, scope: InScope = None, as_json: AsJson = False) -> None:
    """Bring a summarised or archived episode back in full.

    Example: lukasa episode restore ep-2026-01-06-001
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        record = met(memory.episodes.restore(id, scope=scope)).record
    if call.json:
        show.as_json(Episode(record).as_json())
    else:
        show.say(f"{id} is back in full.")


def _objects(file: str) -> list[dict[str, Any]]:
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    from lukasa import canonical

    try:
        found = canonical.decode(raw)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error.message}") from error
    many = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) for one in many):
        raise InvalidInput(f"{file} is not an episode or a list of them.")
    return many


def _error(told: str) -> dict[str, str]:
    parts = [part.strip() for part in told.split(":", 2)]
    return {name: part for name, part in zip(("type", "message", "resolution"), parts, strict=False) if part}


def _step(told: Any) -> str:
    more = [f"{name}: {told[name]}" for name in ("target", "result", "error") if told.get(name)]
    return f"{told.get('t', '')} {told.get('action', json.dumps(dict(told)))}" + (
        f" ({', '.join(more)})" if more else ""
    )


def _told(error: Any) -> str:
    told = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return f"{told} → {error['resolution']}" if error.get("resolution") else told
