"""Commands for sessions: ``lukasa context``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options, parse_time, require_utf8
from lukasa.outcome import Refused

if TYPE_CHECKING:
    from lukasa.context import CompactionReport, Context, Conversations, Turn

_TIME = "TIME"
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def context() -> None:
    """Keep conversations: turns that are never lost, in views that never overflow.

    Example: lukasa context append s1 "Hello"
    """


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show every session within reach.

    Example: lukasa context list
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.context.sessions()
    if call.json:
        render.print_json(
            [{"session_id": each.id, "scope": each.scope, "created_at": to_iso(each.created_at),
              "updated_at": to_iso(each.updated_at)} for each in found]
        )  # fmt: skip
    elif found:
        rows = [(each.id, each.scope, render.format_time(each.created_at)) for each in found]
        render.print_table(("session", "scope", "created"), rows, wrap=("session",))
    else:
        render.print_line("There are no sessions.")


@app.command()
def show(
    ctx: typer.Context,
    session: SessionArgument,
    everything: Annotated[bool, typer.Option("--all", help="Show every turn, folded ones too.")] = False,
    as_of: Annotated[str | None, typer.Option(metavar=_TIME, help="As the session was at this time.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a session: its summary, facts, tasks and newest turns.

    Example: lukasa context show s1 --all
    """
    call = get_options(ctx, as_json)
    at = parse_time(as_of)
    with call.open() as memory:
        found = memory.context.load(session, as_of=at)
        _require_session(memory.context, found, is_past=at is not None)
        turns = list(memory.context.transcript(session, as_of=at)) if everything else found.turns
    if call.json:
        told = _context_json(found)
        if everything:
            told["transcript"] = [_turn_json(turn) for turn in turns]
        render.print_json(told)
        return
    for note in found.recovered:
        render.print_to_stderr(note)
    render.print_fields(_context_fields(found))
    _print_turns(turns)


@app.command()
def append(
    ctx: typer.Context,
    session: SessionArgument,
    content: Annotated[str, typer.Argument(metavar="TEXT", help="What was said; - reads it from standard input.")],
    role: Annotated[str, typer.Option(help="Who speaks: user, assistant, tool, system.")] = "user",
    speaker: Annotated[str, typer.Option(metavar="NAME", help="The speaker's own name.")] = "",
    time: Annotated[str | None, typer.Option(metavar=_TIME, help="When it was said; now, if not given.")] = None,
    tokens: Annotated[int | None, typer.Option(min=0, help="How many tokens it has; counted, if not given.")] = None,
    key: Annotated[str | None, typer.Option(help="Repeated with the same key, it is added once.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Add a turn to a session; one that is not there begins with it.

    Example: lukasa context append s1 --role user "We decided to use PostgreSQL."
    """
    call = get_options(ctx, as_json)
    said = _read_stdin() if content == "-" else content
    require_utf8(session, role, speaker)
    with call.open() as memory:
        outcome = memory.context.append(
            session, role, said, speaker=speaker, timestamp=parse_time(time), token_count=tokens, key=key
        )
        turn = require_accepted(outcome).records[0]
    if call.json:
        render.print_json(render.record_json(turn))
    else:
        render.print_line(f"Kept turn {turn.id} ({render.format_count(turn.body['tokens'], 'token')}).")


@app.command()
def compact(
    ctx: typer.Context,
    session: SessionArgument,
    keep: Annotated[int | None, typer.Option(min=0, help="Keep so many newest turns, whatever the settings.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fold the older turns of a session into its summary now. They stay in the transcript.

    Example: lukasa context compact s1 --keep 10
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        _require_session(memory.context, memory.context.load(session))
        done = memory.context.compact(session, keep=keep)
    if call.json:
        render.print_json({"happened": done.happened, **asdict(done)})
    else:
        render.print_line(_compaction_sentence(done))


@app.command()
def assemble(
    ctx: typer.Context,
    session: SessionArgument,
    budget: Annotated[int, typer.Option(metavar="TOKENS", min=0, help="At most so many tokens.")] = 8_000,
    question: Annotated[str | None, typer.Option(metavar="QUERY", help="What older turns should answer.")] = None,
    messages: Annotated[bool, typer.Option("--messages", help="Print chat messages as JSON instead of text.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print a session for a prompt: summary, facts, older turns that matter, newest turns, within a budget.

    Example: lukasa context assemble s1 --budget 2000
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        _require_session(memory.context, memory.context.load(session))
        made = memory.context.assemble(session, budget, question=question)
    if call.json:
        render.print_json(asdict(made))
    elif messages:
        render.print_json(list(made.messages))
    else:
        typer.echo(render.escape_text(made.text))
        render.print_to_stderr(f"{made.tokens:,} of {made.budget:,} tokens, counted by {made.counted_by}.")


@app.command()
def fork(
    ctx: typer.Context,
    session: SessionArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the new session.")],
    at: Annotated[str | None, typer.Option(metavar="TURN|TIME", help="From this turn or time, instead of now.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a new session as another one stands, or stood.

    Example: lukasa context fork s1 s1-again
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        require_accepted(memory.context.fork(session, new, at=_parse_point(at)))
        found = memory.context.load(new)
    if call.json:
        render.print_json(_context_json(found))
    else:
        total = found.folded + len(found.recent_history)
        render.print_line(f"Forked {session} to {new} with {render.format_count(total, 'turn')}.")


@app.command()
def configure(
    ctx: typer.Context,
    session: SessionArgument,
    entries: Annotated[int | None, typer.Option(help="More turns than this trigger a compaction.")] = None,
    keep: Annotated[int | None, typer.Option(help="So many turns stay after it.")] = None,
    tokens: Annotated[int | None, typer.Option(help="More tokens than this trigger a compaction.")] = None,
    summary_tokens: Annotated[int | None, typer.Option(help="The budget of the summary.")] = None,
    facts: Annotated[int | None, typer.Option(help="So many facts are shown.")] = None,
    finished_hours: Annotated[float | None, typer.Option(help="Completed tasks are kept for so long.")] = None,
    automatic: Annotated[bool | None, typer.Option(help="Compact by itself when a limit is passed.")] = None,
    extracting: Annotated[bool | None, typer.Option(help="Draw facts from what is said.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings of a session, or change them.

    Example: lukasa context configure s1 --entries 100 --keep 60
    """
    call = get_options(ctx, as_json)
    told = {"entries": entries, "keep": keep, "tokens": tokens, "summary_tokens": summary_tokens, "facts": facts,
            "finished_hours": finished_hours, "automatic": automatic, "extracting": extracting}  # fmt: skip
    changes = {name: value for name, value in told.items() if value is not None}
    with call.open() as memory:
        if changes:
            require_accepted(memory.context.configure(session, **changes))
        found = memory.context.load(session)
    settings = asdict(found.settings)
    if call.json:
        render.print_json(settings)
    else:
        render.print_fields({name.replace("_", " "): str(value) for name, value in settings.items()})


@app.command()
def export(
    ctx: typer.Context,
    session: SessionArgument,
    target: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="Where to; into a folder under its own name.")],
    everything: Annotated[bool, typer.Option("--all", help="With the turns that the summary stands for.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a session as the document's JSON file.

    Example: lukasa context export s1 s1.json
    """
    from lukasa.transfer.layouts.context_json import export_conversation

    call = get_options(ctx, as_json)
    with call.open() as memory:
        _require_session(memory.context, memory.context.load(session))
        path = export_conversation(memory.context, session, target, include_all_turns=everything)
    if call.json:
        render.print_json({"session_id": session, "path": str(path)})
    else:
        render.print_line(f"Wrote {session} to {path}.")


@app.command("import")
def import_(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A session's file.")],
    session: Annotated[str, typer.Option("--as", metavar="SESSION", help="Under this id, not the file's own.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Take in a session's JSON file as a new session.

    Example: lukasa context import s1.json --as s1-copy
    """
    from lukasa.transfer.layouts.context_json import import_conversation

    call = get_options(ctx, as_json)
    with call.open() as memory:
        outcome = import_conversation(memory.context, source, session)
        accepted = require_accepted(outcome, "Delete that session, or take this one in under another id with --as.")
        id = next(record.id for record in accepted.records if record.kind == "context")
        found = memory.context.load(id)
    if call.json:
        render.print_json(_context_json(found))
    else:
        total = found.folded + len(found.recent_history)
        render.print_line(
            f"Took in {id} with {render.format_count(total, 'turn')} and {render.format_count(len(found.facts), 'fact')}."
        )


@app.command()
def delete(ctx: typer.Context, session: SessionArgument, as_json: JsonOption = False) -> None:
    """Take a session away: turns, facts, summary. `lukasa undo` can bring it back; `lukasa erase` cannot be undone.

    Example: lukasa context delete s1
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        gone = len(require_accepted(memory.context.delete(session)).records)
    if call.json:
        render.print_json({"session_id": session, "records": gone})
    else:
        render.print_line(f"Deleted {session}: {render.format_count(gone, 'record')}.")


def _require_session(conversations: Conversations, found: Context, *, is_past: bool = False) -> None:
    """A session that was never begun is not shown as an empty one."""
    if not (found.origin.state_version or found.origin.turns or found.origin.summary_version or found.recovered):
        there = (
            f"There was no session {found.session_id!r} at that time"
            if is_past
            else f"There is no session {found.session_id!r}"
        )
        raise CommandRefused(Refused("not_found", f"{there} in the scope {conversations.scope!r}."))


def _parse_point(at: str | None) -> Any:
    """A turn's id, or a time."""
    if at is None:
        return None
    try:
        return parse_time(at)
    except InvalidInput:
        return at


def _read_stdin() -> str:
    said = sys.stdin.buffer.read()
    try:
        return said.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("Standard input is not UTF-8.") from error


def _context_fields(found: Context) -> dict[str, str]:
    running = [task for task in found.active_tasks if str(task.get("status", "")).lower() != "completed"]
    lines = {
        "session": f"{found.session_id} in {found.scope}",
        "turns": f"{len(found.recent_history):,} recent ({found.tokens:,} tokens), {found.folded:,} folded",
        "summary": found.long_term_summary,
        "facts": "\n".join(found.facts),
        "tasks": "\n".join(
            f"{task.get('status', '')}: {task.get('description') or task.get('id')}" for task in running
        ),
        "tools": f"{found.tool_stats.get('total_calls', 0):,} calls, {found.tool_stats.get('failures', 0):,} failed",
        "usage": f"{found.token_usage.get('total_input', 0):,} tokens in, {found.token_usage.get('total_output', 0):,} out",
    }
    return {name: value for name, value in lines.items() if value}


def _print_turns(turns: Iterable[Turn]) -> None:
    rows = [
        (
            turn.id,
            "" if turn.timestamp is None else render.format_time(turn.timestamp),
            turn.name,
            turn.tokens,
            " ".join(turn.content.split())[:200],
        )
        for turn in turns
    ]
    if rows:
        render.print_table(("turn", "time", "who", "tokens", "content"), rows, wrap=("content",))


def _compaction_sentence(done: CompactionReport) -> str:
    if not done.happened:
        return "Nothing to compact."
    parts = []
    if done.folded:
        parts.append(
            f"folded {render.format_count(len(done.folded), 'turn')} ({done.folded_tokens:,} tokens), kept {done.kept}"
        )
        parts.append(f"summary by {done.by}: {done.summary_tokens:,} tokens" + (f" ({done.why})" if done.why else ""))
    if done.pruned_tasks:
        parts.append(f"pruned {render.format_count(len(done.pruned_tasks), 'task')}")
    if done.duplicate_facts:
        parts.append(f"dropped {render.format_count(len(done.duplicate_facts), 'double fact')}")
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}."


def _turn_json(turn: Turn) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": turn.id,
        "timestamp": None if turn.timestamp is None else to_iso(turn.timestamp),
        "role": turn.role,
        "content": turn.content,
        "token_count": turn.tokens,
    }
    optional = {"speaker": turn.speaker, "tool_calls": list(turn.tool_calls), "tool_call_id": turn.tool_call_id}
    return told | {name: value for name, value in optional.items() if value} | dict(turn.extra)


def _context_json(found: Context) -> dict[str, Any]:
    """A session as this door shows it: the document's fields with times in ISO 8601, and what is known beside."""
    return {
        "session_id": found.session_id,
        "scope": found.scope,
        "system_state": found.system_state,
        "facts": found.facts,
        "recent_history": [_turn_json(turn) for turn in found.turns],
        "long_term_summary": found.long_term_summary,
        "active_tasks": found.active_tasks,
        "tool_stats": found.tool_stats,
        "last_known_environment": found.last_known_environment,
        "token_usage": found.token_usage,
        **found.extra,
        "folded": found.folded,
        "tokens": found.tokens,
        "settings": asdict(found.settings),
        "recovered": list(found.recovered),
    }
