"""``lukasa episode``: what happened, task by task."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.errors import InvalidInput
from lukasa.experience.episode import Episode
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, RecordScopeOption, get_options, parse_time
from lukasa.outcome import Refused
from lukasa.scope import SHARED

app = typer.Typer(help="What happened, task by task.\n\nExample: lukasa episode list", no_args_is_help=True)
EpisodeIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Such as ep-2026-01-06-001.")]
TargetScopeOption = Annotated[str, typer.Option("--scope", metavar="NAME", help="The scope to put it into.")]


@app.command()
def add(
    ctx: typer.Context,
    goal: Annotated[str | None, typer.Argument(metavar="GOAL", help="What was to be done.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Episodes as JSON instead: one object or a list; - is stdin.")
    ] = None,
    outcome: Annotated[str, typer.Option(metavar="WORD", help="success, failure, partial, …")] = "success",
    agent: Annotated[str, typer.Option("--by", metavar="NAME", help="The agent that did it.")] = "",
    task: Annotated[str, typer.Option(metavar="ID", help="The task it belongs to.")] = "",
    step: Annotated[list[str] | None, typer.Option(metavar="ACTION", help="A step, in order; may be repeated.")] = None,
    error: Annotated[
        list[str] | None, typer.Option(metavar="TYPE:MESSAGE:FIX", help="An error that was met; may be repeated.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long it took.")] = 0,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When it began; now, if not said.")] = None,
    scope: TargetScopeOption = SHARED,
    as_json: JsonOption = False,
) -> None:
    """Keep an episode, or with --file many in the document's own JSON.

    Example: lukasa episode add "Implement POST /api/todos" --step read_file --step write_file --by eng-001
    """
    call = get_options(ctx, as_json)
    if (goal is None) is (file is None):
        raise InvalidInput("Say what was to be done, or name a --file.")
    with call.open() as memory:
        if file is not None:
            kept = require_accepted(memory.episodes.add(_read_objects(file), scope=scope))
        else:
            kept = require_accepted(
                memory.episodes.record(
                    goal or "", outcome=outcome, agent=agent, task_id=task,
                    duration_seconds=int(seconds) if seconds.is_integer() else seconds,
                    action_log=[{"action": name} for name in step or ()], errors=[_parse_error(told) for told in error or ()],
                    timestamp=parse_time(at), scope=scope,
                )
            )  # fmt: skip
    if call.json:
        render.print_json([Episode(record).as_json() for record in kept.records])
    elif not kept.records:
        render.print_line("Already here.")
    else:
        for record in kept.records:
            render.print_line(f"Kept {record.id}.")


@app.command("list")
def list_(
    ctx: typer.Context,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only those that happened since.")] = None,
    day: Annotated[str | None, typer.Option(metavar="DATE", help="Only those of one day, such as 2026-01-06.")] = None,
    agent: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Only those of this agent.")] = None,
    outcome: Annotated[str | None, typer.Option(metavar="WORD", help="Only those that ended so.")] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those that were never finished.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Those in the archive too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Episodes, the newest last.

    Example: lukasa episode list --outcome failure
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        room = memory.episodes
        if unfinished:
            found = room.unfinished()
        elif day is not None:
            found = room.on(day, archived=archived)
        elif agent is not None:
            found = room.by_agent(agent, archived=archived)
        elif outcome is not None:
            found = room.by_outcome(outcome, archived=archived)
        elif (start := parse_time(since)) is not None:
            found = room.since(start, archived=archived)
        else:
            newest = room.newest(limit, archived=archived)
            found = sorted(newest, key=lambda episode: (episode.timestamp, episode.record.seq))
    start = parse_time(since)
    chosen = [
        episode
        for episode in found
        if (start is None or episode.timestamp >= start)
        and agent in (None, episode.agent)
        and outcome in (None, episode.outcome)
        and day in (None, episode.day)
    ][-limit:]
    if call.json:
        render.print_json([episode.as_json() for episode in chosen])
    elif not chosen:
        render.print_line("No episodes.")
    else:
        rows = [(e.id, render.format_time(e.timestamp), e.agent, e.outcome, e.detail, e.goal) for e in chosen]
        render.print_table(("id", "began", "agent", "outcome", "detail", "goal"), rows, truncate="goal")


@app.command("show")
def show_(
    ctx: typer.Context, id: EpisodeIdArgument, scope: RecordScopeOption = None, as_json: JsonOption = False
) -> None:
    """One episode in full.

    Example: lukasa episode show ep-2026-01-06-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        episode = memory.episodes.get(id, scope=scope)
    if episode is None:
        raise CommandRefused(Refused("not_found", f"There is no episode {id[:80]!r}."))
    if call.json:
        render.print_json(episode.as_json())
        return
    fields = {
        "id": episode.id, "goal": episode.goal, "began": render.format_time(episode.timestamp), "agent": episode.agent,
        "task": episode.task_id, "outcome": episode.outcome, "seconds": f"{episode.duration_seconds:g}",
        "steps": "\n".join(_format_step(told) for told in episode.action_log) or str(episode.record.body.get("summary", "")),
        "errors": "\n".join(_format_error(error) for error in episode.errors),
        "artifacts": "\n".join(map(str, episode.record.body.get("artifacts_produced", ()))),
        "commit": str(episode.record.body.get("git_commit", "")), "detail": episode.detail,
    }  # fmt: skip
    render.print_fields({name: value for name, value in fields.items() if value})


@app.command()
def finish(
    ctx: typer.Context,
    id: EpisodeIdArgument,
    outcome: Annotated[str, typer.Option(metavar="WORD", help="How it ended.")] = "abandoned",
    as_json: JsonOption = False,
) -> None:
    """Close an episode that was never finished.

    Example: lukasa episode finish ep-2026-01-06-002 --outcome failure
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        record = require_accepted(
            memory.episodes.finish(id, outcome), "`lukasa episode list --unfinished` shows those that go on."
        ).record
    if call.json:
        render.print_json(Episode(record).as_json())
    else:
        render.print_line(f"{id} ended as {outcome}.")


@app.command()
def prune(
    ctx: typer.Context,
    summarise_after: Annotated[float, typer.Option(metavar="DAYS", help="Summarise those that are older.")] = 7,
    archive_after: Annotated[float, typer.Option(metavar="DAYS", help="Archive those that are older.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Summarise old episodes and archive older ones, unless knowledge refers to them. Nothing is lost.

    Example: lukasa episode prune --dry-run
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        done = memory.episodes.prune(summarise_after=summarise_after, archive_after=archive_after, dry_run=dry_run)
    if call.json:
        told = {"summarised": done.summarised, "archived": done.archived, "kept": done.kept}
        render.print_json({name: list(ids) for name, ids in told.items()} | {"dry_run": dry_run})
        return
    verb = "Would summarise" if dry_run else "Summarised"
    other = "archive" if dry_run else "archived"
    render.print_line(
        f"{verb} {len(done.summarised):,}, {other} {len(done.archived):,}; knowledge keeps {len(done.kept):,}."
    )


@app.command()
def restore(
    ctx: typer.Context, id: EpisodeIdArgument, scope: RecordScopeOption = None, as_json: JsonOption = False
) -> None:
    """Bring a summarised or archived episode back in full.

    Example: lukasa episode restore ep-2026-01-06-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        record = require_accepted(memory.episodes.restore(id, scope=scope)).record
    if call.json:
        render.print_json(Episode(record).as_json())
    else:
        render.print_line(f"{id} is back in full.")


def _read_objects(file: str) -> list[dict[str, Any]]:
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    from lukasa import canonical_json

    try:
        found = canonical_json.decode(raw)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error.message}") from error
    many = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) for one in many):
        raise InvalidInput(f"{file} is not an episode or a list of them.")
    return many


def _parse_error(text: str) -> dict[str, str]:
    parts = [part.strip() for part in text.split(":", 2)]
    return {name: part for name, part in zip(("type", "message", "resolution"), parts, strict=False) if part}


def _format_step(step: Any) -> str:
    more = [f"{name}: {step[name]}" for name in ("target", "result", "error") if step.get(name)]
    return f"{step.get('t', '')} {step.get('action', json.dumps(dict(step)))}" + (
        f" ({', '.join(more)})" if more else ""
    )


def _format_error(error: Any) -> str:
    told = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return f"{told} → {error['resolution']}" if error.get("resolution") else told
