"""``lukasa episode``: records of past tasks, with steps, errors and outcome."""

from __future__ import annotations

import json
from typing import Annotated, Any

from lukasa.core.choices import EPISODE_OUTCOMES
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    RecordScopeOption,
    SinceOption,
    TargetScopeOption,
    argument,
    choice,
    flag,
    option,
    parse_time,
    read_input,
    require_choice,
    require_found,
)
from lukasa.interfaces.cli.render import read_fields

app = CommandApp("episode", "Record what was done, task by task.", example="lukasa episode list")
_LIST_HINT = "`lukasa episode list` shows the newest episodes."
EpisodeIdArgument = Annotated[str, argument("ID", "The id, such as ep-2026-01-06-001.")]


@app.command()
def record(
    call: Call,
    goal: Annotated[str | None, argument("GOAL", "The goal of the task.")] = None,
    file: Annotated[str | None, option("FILE|-", "A JSON file with one or many episodes; - reads stdin.")] = None,
    outcome: Annotated[str, choice("WORD", "How it ended: success, failure, partial, …", EPISODE_OUTCOMES)] = "success",
    agent: Annotated[str, option("NAME", "The agent that did it.", "--by")] = "",
    task: Annotated[str, option("ID", "The id of the task.")] = "",
    step: Annotated[list[str] | None, option("ACTION", "A step, in order (repeatable).")] = None,
    error: Annotated[list[str] | None, option("TYPE:MESSAGE:FIX", "An error and its fix (repeatable).")] = None,
    seconds: Annotated[float, option("N", "How long it took.", min=0)] = 0,
    at: Annotated[str | None, option("TIME", "When it began; default: now.")] = None,
    scope: TargetScopeOption = SHARED,
) -> None:
    """Store an episode: one task with its steps, errors and outcome.

    With --file, stores the episodes of a JSON file: one object or a list.

    Example: lukasa episode record "Implement POST /api/todos" --step read_file --step write_file --by eng-001
    """
    from lukasa.experience import Episode

    require_choice(outcome, EPISODE_OUTCOMES, "an outcome")
    if (goal is None) is (file is None):
        raise InvalidInput("Give the goal of the task, or name a --file.")
    if goal is None:
        written = call.memory.episodes.add(_read_episodes(file or ""), scope=scope)
    else:
        details: dict[str, Any] = {"outcome": outcome, "agent": agent, "task_id": task, "timestamp": parse_time(at)}
        details["duration_seconds"] = int(seconds) if seconds.is_integer() else seconds
        details["action_log"] = [{"action": name} for name in step or ()]
        details["errors"] = [_parse_error(text) for text in error or ()]
        written = call.memory.episodes.record(goal, scope=scope, **details)
    records = written.unwrap_all()
    lines = [f"Stored {record.id}." for record in records] or "Already stored."
    call.show([Episode(record) for record in records], lines)


def _read_episodes(file: str) -> list[dict[str, Any]]:
    from lukasa.core.canonical_json import decode

    try:
        found = decode(read_input(file))
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error.message}") from error
    episodes = found if isinstance(found, list) else [found]
    if not all(isinstance(episode, dict) for episode in episodes):
        raise InvalidInput(f"{file} is not an episode or a list of episodes.")
    return episodes


def _parse_error(text: str) -> dict[str, str]:
    parts = zip(("type", "message", "resolution"), text.split(":", 2), strict=False)
    return {name: part.strip() for name, part in parts if part.strip()}


@app.command()
def list_(
    call: Call,
    since: SinceOption = None,
    day: Annotated[str | None, option("DATE", "Only this day, such as 2026-01-06.")] = None,
    agent: Annotated[str | None, option("NAME", "Only episodes of this agent.", "--by")] = None,
    outcome: Annotated[str | None, choice("WORD", "Only episodes with this outcome.", EPISODE_OUTCOMES)] = None,
    unfinished: Annotated[bool, flag("--unfinished", "Only episodes that are not finished.")] = False,
    archived: Annotated[bool, flag("--archived", "Include archived episodes.")] = False,
    limit: Annotated[int, option("N", "Maximum number of episodes, those written last.", min=1)] = 20,
) -> None:
    """List episodes, the newest last.

    Example: lukasa episode list --outcome failure
    """
    filters: dict[str, Any] = {"since": parse_time(since), "day": day, "agent": agent, "outcome": outcome}
    found = call.memory.episodes.list(**filters, unfinished=unfinished, archived=archived, limit=limit)
    columns = "id, began=timestamp, agent, outcome, detail, goal"
    call.show(found, columns=columns, truncate="goal", empty="No episodes.")


@app.command()
def show_(call: Call, id: EpisodeIdArgument, scope: RecordScopeOption = None) -> None:
    """Show one episode with all its steps and errors.

    Example: lukasa episode show ep-2026-01-06-001
    """
    episode = require_found(call.memory.episodes.get(id, scope=scope), f"There is no episode {id[:80]!r}.", _LIST_HINT)
    body = episode.record.body
    names = "id, goal, began=timestamp, agent, task=task_id, outcome, seconds=duration_seconds:g"
    fields = read_fields(episode, names) | {
        "steps": "\n".join(map(_format_step, episode.action_log)) or body.get("summary", ""),
        "errors": "\n".join(map(_format_error, episode.errors)),
        "artifacts": "\n".join(map(str, body.get("artifacts_produced", ()))),
        "commit": body.get("git_commit", ""),
        "detail": episode.detail,
    }
    call.show(episode, fields=fields)


def _format_step(step: Any) -> str:
    details = ", ".join(f"{name}: {step[name]}" for name in ("target", "result", "error") if step.get(name))
    action = step.get("action", json.dumps(dict(step)))
    return f"{step.get('t', '')} {action}" + (f" ({details})" if details else "")


def _format_error(error: Any) -> str:
    what = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return f"{what} → {error['resolution']}" if error.get("resolution") else what


@app.command()
def finish(
    call: Call,
    id: EpisodeIdArgument,
    outcome: Annotated[str, choice("WORD", "How it ended: success, failure, …", EPISODE_OUTCOMES)] = "abandoned",
) -> None:
    """Set the outcome of an episode that was never finished.

    Example: lukasa episode finish ep-2026-01-06-002 --outcome failure
    """
    from lukasa.experience import Episode

    hint = "`lukasa episode list --unfinished` lists unfinished episodes."
    word = require_choice(outcome, EPISODE_OUTCOMES, "an outcome")
    record = call.memory.episodes.finish(id, word).unwrap(hint)
    call.show(Episode(record), f"{id} ended as {outcome}.")


@app.command()
def prune(
    call: Call,
    summarise_after: Annotated[float, option("DAYS", "Summarise older episodes.")] = 7,
    archive_after: Annotated[float, option("DAYS", "Archive older episodes.")] = 30,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be done.")] = False,
) -> None:
    """Summarise old episodes and archive older ones, unless knowledge refers to them.

    Nothing is lost: `lukasa episode restore` brings an episode back in full.

    Example: lukasa episode prune --dry-run
    """
    done = call.memory.episodes.prune(summarise_after=summarise_after, archive_after=archive_after, dry_run=dry_run)
    verbs = ("Would summarise", "archive") if dry_run else ("Summarised", "archived")
    call.show(
        read_fields(done, "summarised, archived, kept") | {"dry_run": dry_run},
        f"{verbs[0]} {len(done.summarised):,}, {verbs[1]} {len(done.archived):,}; knowledge keeps {len(done.kept):,}.",
    )


@app.command()
def restore(call: Call, id: EpisodeIdArgument, scope: RecordScopeOption = None) -> None:
    """Restore a summarised or archived episode in full.

    Example: lukasa episode restore ep-2026-01-06-001
    """
    from lukasa.experience import Episode

    record = call.memory.episodes.restore(id, scope=scope).unwrap()
    call.show(Episode(record), f"{id} is restored in full.")
