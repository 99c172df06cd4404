"""``lukasa handoff`` and ``lukasa ledger``: work passed on, and where each agent stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.experience.handoffs import Handoff
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options
from lukasa.outcome import Outcome, Refused

app = typer.Typer(help="Work passed from one agent to another.\n\nExample: lukasa handoff inbox", no_args_is_help=True)
HandoffIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Such as handoff-001.")]
AgentOption = Annotated[str, typer.Option("--for", metavar="NAME", help="Whose; the calling agent's, if not said.")]


@app.command()
def create(
    ctx: typer.Context,
    to_agent: Annotated[str, typer.Argument(metavar="AGENT", help="Who is to go on.")],
    what_was_done: Annotated[str, typer.Argument(metavar="TEXT", help="What was done.")],
    from_agent: Annotated[str, typer.Option("--from", metavar="NAME", help="Who hands over.")] = "",
    artifact: Annotated[list[str] | None, typer.Option(metavar="FILE", help="What was made; may be repeated.")] = None,
    git_state: Annotated[str, typer.Option(metavar="TEXT", help="Such as 'commit abc123'.")] = "",
    test: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="What needs testing; may be repeated.")] = None,
    issue: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="A known issue; may be repeated.")] = None,
    pattern: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A relevant pattern; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Hand work over.

    Example: lukasa handoff create qa-001 "Implemented POST /api/todos" --from eng-001 --test "contract tests"
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        record = require_accepted(
            memory.handoffs.create(
                to_agent, what_was_done, from_agent=from_agent, artifacts=artifact or (), git_state=git_state,
                needs_testing=test or (), known_issues=issue or (), relevant_patterns=pattern or (),
            )
        ).record  # fmt: skip
    _print_handoff(Handoff(record), as_json=call.json)


@app.command()
def inbox(
    ctx: typer.Context,
    agent: AgentOption = "",
    completed: Annotated[bool, typer.Option("--completed", help="What is completed too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What waits for an agent, the oldest first.

    Example: lukasa handoff inbox --for qa-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.handoffs.inbox(agent, completed=completed)
    _print_handoffs(found, as_json=call.json)


@app.command()
def sent(ctx: typer.Context, agent: AgentOption = "", as_json: JsonOption = False) -> None:
    """What an agent handed to others, and how it stands.

    Example: lukasa handoff sent --for eng-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.handoffs.sent(agent)
    _print_handoffs(found, as_json=call.json)


@app.command("show")
def show_(
    ctx: typer.Context,
    id: HandoffIdArgument,
    read: Annotated[bool, typer.Option("--read", help="Note that it was read.")] = False,
    as_json: JsonOption = False,
) -> None:
    """One handoff in full.

    Example: lukasa handoff show handoff-001 --read
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        if read:
            memory.handoffs.read(id)
        handoff = memory.handoffs.get(id)
    if handoff is None:
        raise CommandRefused(Refused("not_found", f"There is no handoff {id[:80]!r}."))
    if call.json:
        render.print_json(handoff.as_json() | {"status": handoff.status})
        return
    told = {"id": handoff.id, "from": handoff.from_agent, "to": handoff.to_agent, "status": handoff.status}
    told |= {name: _format_value(value) for name, value in handoff.context.items()}
    render.print_fields({name: value for name, value in told.items() if value})


@app.command()
def accept(
    ctx: typer.Context,
    id: HandoffIdArgument,
    agent: Annotated[str, typer.Option("--as", metavar="NAME", help="Who accepts.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Take work on. Only the agent it is for can, and only once.

    Example: lukasa handoff accept handoff-001 --as qa-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        outcome = memory.handoffs.accept(id, agent)
    _print_outcome(outcome, as_json=call.json)


@app.command()
def complete(
    ctx: typer.Context,
    id: HandoffIdArgument,
    result: Annotated[str, typer.Option(metavar="TEXT", help="What came of it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Note that the work is done.

    Example: lukasa handoff complete handoff-001 --result "all green"
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        outcome = memory.handoffs.complete(id, result)
    _print_outcome(outcome, as_json=call.json)


@app.command()
def reassign(
    ctx: typer.Context,
    id: HandoffIdArgument,
    to_agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Who is to do it; the same, if not said.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Put work back that its agent will not finish, or give it to another one.

    Example: lukasa handoff reassign handoff-001 qa-002
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        room = memory.handoffs
        outcome = room.reopen(id) if to_agent is None else room.reassign(id, to_agent)
    _print_outcome(outcome, as_json=call.json)


def ledger(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Whose ledger; all, if not said.")] = "",
    task: Annotated[str | None, typer.Option(metavar="ID", help="Note the current task; '' for none.")] = None,
    completed: Annotated[int, typer.Option(min=0, help="Note that so many more tasks are done.")] = 0,
    goal: Annotated[str | None, typer.Option(metavar="TEXT", help="Note the current goal.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show where agents stand, or note where one does.

    Example: lukasa ledger eng-001 --task task-042 --completed 1
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        room = memory.ledgers
        name = agent or memory.journal.author
        if task is not None or completed or goal is not None:
            before = room.get(name) if name else None
            context = None if goal is None else {**(before.context if before else {}), "current_goal": goal}
            require_accepted(room.checkpoint(agent, current_task=task, completed=completed, context=context))
        found = [one for one in room.list() if not agent or one.agent_id == agent]
    if agent and not found:
        raise CommandRefused(Refused("not_found", f"There is no ledger of {agent[:80]!r}."))
    if call.json:
        render.print_json([one.as_json() for one in found])
    elif not found:
        render.print_line("No ledgers.")
    else:
        rows = [
            (
                one.agent_id,
                to_iso(one.last_checkpoint),
                one.tasks_completed,
                one.current_task or "",
                one.context.get("current_goal", ""),
            )
            for one in found
        ]
        render.print_table(("agent", "checkpoint", "completed", "task", "goal"), rows, truncate="goal")


def _print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    _print_handoff(Handoff(require_accepted(outcome).record), as_json=as_json)


def _print_handoff(handoff: Handoff, *, as_json: bool) -> None:
    if as_json:
        render.print_json(handoff.as_json() | {"status": handoff.status})
    else:
        render.print_line(f"{handoff.id} for {handoff.to_agent}: {handoff.status}.")


def _print_handoffs(found: Sequence[Handoff], *, as_json: bool) -> None:
    if as_json:
        render.print_json([handoff.as_json() | {"status": handoff.status} for handoff in found])
    elif not found:
        render.print_line("Nothing waits.")
    else:
        rows = [
            (h.id, h.from_agent, h.to_agent, h.status, render.format_time(h.timestamp), h.what_was_done) for h in found
        ]
        render.print_table(
            ("id", "from", "to", "status", "handed over", "what was done"), rows, truncate="what was done"
        )


def _format_value(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
