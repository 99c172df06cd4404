"""``lukasa context``: conversations, turn by turn."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.core.choices import ROLES
from lukasa.core.freshness import describe_left_out
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    ForceOption,
    IncludeOption,
    argument,
    choice,
    flag,
    option,
    parse_time,
    read_text,
    require_choice,
    require_utf8,
)
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.outcomes import not_found
from lukasa.interfaces.serialise import to_json

if TYPE_CHECKING:
    from lukasa.context import CompactionReport, Context

ConversationArgument = Annotated[str, argument("CONVERSATION", "The id of the conversation.")]

app = CommandApp(
    "context",
    "Store conversations turn by turn, and print them within a token budget.",
    example='lukasa context append s1 "Hello"',
)


@app.command()
def list_(call: Call) -> None:
    """List the conversations that you may read.

    Example: lukasa context list
    """
    found = call.memory.context.list()
    columns = "conversation=id, scope, created=created_at"
    call.show(found, columns=columns, wrap="conversation", empty="There are no conversations.")


@app.command()
def show(
    call: Call,
    conversation: ConversationArgument,
    everything: Annotated[bool, flag("--all", "Show every turn, also those already summarised.")] = False,
    as_of: Annotated[str | None, option("TIME", "As the conversation was at this time.")] = None,
) -> None:
    """Show a conversation: its summary, facts, tasks and newest turns.

    Example: lukasa context show s1 --all
    """
    moment = parse_time(as_of)
    found = _load_conversation(call, conversation, moment)
    turns = call.memory.context.transcript(conversation, as_of=moment) if everything else found.turns
    for note in found.recovered:
        call.warn(note)
    open_tasks = [task for task in found.active_tasks if str(task.get("status", "")).lower() != "completed"]
    tools, usage = found.tool_stats, found.token_usage
    fields = {
        "conversation": f"{found.session_id} in {found.scope}",
        "turns": f"{len(found.recent_history):,} recent ({found.tokens:,} tokens), {found.folded:,} summarised",
        "summary": found.long_term_summary,
        "facts": "\n".join(found.facts),
        "tasks": "\n".join(f"{t.get('status', '')}: {t.get('description') or t.get('id')}" for t in open_tasks),
        "tools": f"{tools.get('total_calls', 0):,} calls, {tools.get('failures', 0):,} failed",
        "usage": f"{usage.get('total_input', 0):,} tokens in, {usage.get('total_output', 0):,} out",
    }
    turns = list(turns)
    call.show(to_json(found) | ({"transcript": to_json(turns)} if everything else {}), fields=fields)
    content: render.Column = ("content", lambda turn: " ".join(turn.content.split())[:200])
    call.show_more(columns=("turn=id, time=timestamp, who=name, tokens", content), rows=turns, wrap="content")


@app.command()
def append(
    call: Call,
    conversation: ConversationArgument,
    content: Annotated[str, argument("TEXT", "What was said; - reads stdin.")],
    role: Annotated[str, choice("ROLE", "Who speaks: user, assistant, tool or system.", ROLES)] = "user",
    speaker: Annotated[str, option("NAME", "The name of the speaker.")] = "",
    timestamp: Annotated[str | None, option("TIME", "When it was said; default: now.")] = None,
    token_count: Annotated[int | None, option("N", "Its tokens; default: counted.", min=0)] = None,
    key: Annotated[str | None, option("KEY", "Idempotency key: repeated with the same key, it is added once.")] = None,
) -> None:
    """Add a turn to a conversation. A new id starts a new conversation.

    Example: lukasa context append s1 --role user "We decided to use PostgreSQL."
    """
    text = read_text("-") if content == "-" else content
    require_utf8(conversation, role, speaker)
    known_role = require_choice(role, ROLES, "a role; --speaker takes a name")
    details: Any = {"speaker": speaker, "timestamp": parse_time(timestamp), "token_count": token_count, "key": key}
    turn = call.memory.context.append(conversation, known_role, text, **details).unwrap_all()[0]
    call.show(turn, f"Stored turn {turn.id} ({format_count(turn.body['tokens'], 'token')}).")


@app.command()
def compact(
    call: Call,
    conversation: ConversationArgument,
    keep: Annotated[int | None, option("N", "Keep this many newest turns; default: as configured.", min=0)] = None,
) -> None:
    """Summarise the older turns of a conversation now. The turns stay in the transcript.

    Example: lukasa context compact s1 --keep 10
    """
    memory = call.memory
    _load_conversation(call, conversation)
    report = memory.context.compact(conversation, keep=keep)
    call.show(report, _compaction_sentence(report))


def _compaction_sentence(report: CompactionReport) -> str:
    if not report.happened:
        return "Nothing to compact."
    parts = []
    if report.folded:
        turns, why = format_count(len(report.folded), "turn"), f" ({report.why})" if report.why else ""
        parts.append(f"summarised {turns} ({report.folded_tokens:,} tokens), kept {report.kept}")
        parts.append(f"summary by {report.by}: {report.summary_tokens:,} tokens{why}")
    if report.pruned_tasks:
        parts.append(f"removed {format_count(len(report.pruned_tasks), 'completed task')}")
    if report.duplicate_facts:
        parts.append(f"dropped {format_count(len(report.duplicate_facts), 'duplicate fact')}")
    parts[0] = parts[0][0].upper() + parts[0][1:]
    return "; ".join(parts) + "."


@app.command()
def assemble(
    call: Call,
    conversation: ConversationArgument,
    budget: Annotated[int, option("TOKENS", "Maximum number of tokens.", min=0)] = 4_000,
    query: Annotated[str | None, option("QUERY", "Add older turns that answer this question.")] = None,
    messages: Annotated[bool, flag("--messages", "Print chat messages as JSON instead of text.")] = False,
    include: IncludeOption = None,
) -> None:
    """Print a conversation for a prompt: summary, facts, relevant older turns and newest turns.

    Example: lukasa context assemble s1 --budget 2000 --include vault
    """
    memory = call.memory
    _load_conversation(call, conversation)
    sources: Any = include or ()
    prompt = memory.context.assemble(conversation, budget, query=query, include=sources)
    if messages and not call.json:
        render.print_json(list(prompt.messages))
        return
    call.show(prompt, lambda: typer.echo(render.escape_text(prompt.text)))
    if prompt.expired:
        call.warn(f"{describe_left_out(prompt.expired, prompt.orders)}.")
    if prompt.memories_left_out:
        call.warn(f"Left out, for lack of budget: {', '.join(map(str, prompt.memories_left_out))}.")
    call.warn(f"{prompt.tokens:,} of {prompt.budget:,} tokens, counted by {prompt.counted_by}.")


@app.command()
def fork(
    call: Call,
    conversation: ConversationArgument,
    new: Annotated[str, argument("NEW", "The id of the new conversation.")],
    at: Annotated[str | None, option("TURN|TIME", "Copy up to this turn or time; default: now.")] = None,
) -> None:
    """Copy a conversation, as it is or was, to a new one.

    Example: lukasa context fork s1 s1-again
    """
    try:
        point: Any = parse_time(at)
    except InvalidInput:
        point = at  # the id of a turn
    call.memory.context.fork(conversation, new, at=point).unwrap_all()
    found = call.memory.context.load(new)
    total = found.folded + len(found.recent_history)
    call.show(found, f"Forked {conversation} to {new} with {format_count(total, 'turn')}.")


@app.command()
def configure(
    call: Call,
    conversation: ConversationArgument,
    entries: Annotated[int | None, option("N", "Compact when there are more turns than this.")] = None,
    keep: Annotated[int | None, option("N", "Turns to keep when compacting.")] = None,
    tokens: Annotated[int | None, option("N", "Compact when there are more tokens than this.")] = None,
    summary_tokens: Annotated[int | None, option("N", "Maximum number of tokens of the summary.")] = None,
    facts: Annotated[int | None, option("N", "Maximum number of facts to show.")] = None,
    finished_hours: Annotated[float | None, option("HOURS", "Keep completed tasks for this long.")] = None,
    automatic: Annotated[bool | None, typer.Option(help="Compact automatically when a limit is passed.")] = None,
    extracting: Annotated[bool | None, typer.Option(help="Extract facts from what is said.")] = None,
) -> None:
    """Show the settings of a conversation, or change them.

    Example: lukasa context configure s1 --entries 100 --keep 60
    """
    given: dict[str, Any] = {"entries": entries, "keep": keep, "tokens": tokens, "summary_tokens": summary_tokens}
    given |= {"facts": facts, "finished_hours": finished_hours, "automatic": automatic, "extracting": extracting}
    changes = {name: value for name, value in given.items() if value is not None}
    if changes:
        call.memory.context.configure(conversation, **changes).unwrap_all()
    settings = to_json(call.memory.context.load(conversation).settings)
    call.show(settings, fields={name.replace("_", " "): value for name, value in settings.items()})


@app.command(hidden=True)
def export(
    call: Call,
    conversation: ConversationArgument,
    target: Annotated[Path, argument("FILE|DIR", "The file to write, or a folder for a file named like the id.")],
    everything: Annotated[bool, flag("--all", "Include the turns that were summarised.")] = False,
    force: ForceOption = False,
) -> None:
    """Write one conversation to a JSON file; `lukasa export --format context` writes all of them.

    Example: lukasa context export s1 s1.json
    """
    from lukasa.transfer.layouts.context_json import export_conversation

    memory = call.memory
    _load_conversation(call, conversation)
    path = export_conversation(memory.context, conversation, target, include_all_turns=everything, replace=force)
    call.show({"session_id": conversation, "path": str(path)}, f"Wrote {conversation} to {path}.")


@app.command(hidden=True)
def import_(
    call: Call,
    source: Annotated[Path, argument("FILE", "A file that `context export` wrote.", exists=True, dir_okay=False)],
    conversation: Annotated[
        str, option("CONVERSATION", "Import under this id; default: the id in the file.", "--as")
    ] = "",
) -> None:
    """Add the conversation in a JSON file as a new one; `lukasa import --format context` reads a folder of them.

    Example: lukasa context import s1.json --as s1-copy
    """
    from lukasa.transfer.layouts.context_json import import_conversation

    outcome = import_conversation(call.memory.context, source, conversation)
    accepted = outcome or outcome.unwrap("Delete that conversation, or import this one under another id with --as.")
    id = next(record.id for record in accepted.records if record.kind == "context")
    found = call.memory.context.load(id)
    turns = format_count(found.folded + len(found.recent_history), "turn")
    call.show(found, f"Imported {id} with {turns} and {format_count(len(found.facts), 'fact')}.")


@app.command()
def delete(call: Call, conversation: ConversationArgument) -> None:
    """Delete a conversation with its turns, facts and summary.

    `lukasa undo` brings it back; `lukasa erase` removes it for good.

    Example: lukasa context delete s1
    """
    count = len(call.memory.context.delete(conversation).unwrap_all())
    call.show(
        {"session_id": conversation, "records": count}, f"Deleted {conversation}: {format_count(count, 'record')}."
    )


def _load_conversation(call: Call, conversation: str, as_of: datetime | None = None) -> Context:
    """Load a conversation, and refuse one that was never begun instead of showing an empty one."""
    found = call.memory.context.load(conversation, as_of=as_of)
    origin, place = found.origin, f"in the scope {call.memory.context.scope!r}."
    if not (origin.state_version or origin.turns or origin.summary_version or found.recovered):
        if as_of is not None:
            raise not_found(f"There was no conversation {conversation!r} at that time {place}")
        raise not_found(
            f"There is no conversation {conversation!r} {place}", "`lukasa context list` shows all of them."
        )
    return found
