"""``lukasa handoff`` and ``lukasa ledger``: work passed between agents, and the progress of each agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from lukasa.core.clock import to_iso
from lukasa.core.outcome import Outcome
from lukasa.interfaces.cli.options import Call, CommandApp, argument, flag, option, require_found
from lukasa.interfaces.cli.render import Column, read_fields

if TYPE_CHECKING:
    from lukasa.experience import Handoff

app = CommandApp("handoff", "Pass unfinished work from one agent to another.", example="lukasa handoff inbox")
_INBOX_HINT = "`lukasa handoff inbox --for AGENT` lists the handoffs of an agent."
HandoffIdArgument = Annotated[str, argument("ID", "The id, such as handoff-001.")]
AgentOption = Annotated[str, option("NAME", "The agent; default: --agent.", "--for")]


@app.command()
def create(
    call: Call,
    to_agent: Annotated[str, argument("AGENT", "The agent who continues the work.")],
    what_was_done: Annotated[str, argument("TEXT", "What was done.")],
    from_agent: Annotated[str, option("NAME", "The agent who hands over; default: --agent.", "--from")] = "",
    artifact: Annotated[list[str] | None, option("FILE", "A file that was made (repeatable).")] = None,
    git_state: Annotated[str, option("TEXT", "State of the repository, such as 'commit abc123'.")] = "",
    test: Annotated[list[str] | None, option("TEXT", "What needs testing (repeatable).")] = None,
    issue: Annotated[list[str] | None, option("TEXT", "A known issue (repeatable).")] = None,
    pattern: Annotated[list[str] | None, option("ID", "A relevant pattern (repeatable).")] = None,
) -> None:
    """Hand work over to another agent: stores a handoff in its inbox.

    Example: lukasa handoff create qa-001 "Implemented POST /api/todos" --from eng-001 --test "contract tests"
    """
    state: dict[str, Any] = {"git_state": git_state, "artifacts": artifact or (), "needs_testing": test or ()}
    state |= {"known_issues": issue or (), "relevant_patterns": pattern or ()}
    _show_outcome(call, call.memory.handoffs.create(to_agent, what_was_done, from_agent=from_agent, **state))


@app.command()
def inbox(
    call: Call,
    agent: AgentOption = "",
    completed: Annotated[bool, flag("--completed", "Include completed handoffs.")] = False,
) -> None:
    """List the handoffs that wait for an agent, the oldest first.

    Example: lukasa handoff inbox --for qa-001
    """
    _show_handoffs(call, call.memory.handoffs.inbox(agent, completed=completed), empty="The inbox is empty.")


@app.command()
def sent(call: Call, agent: AgentOption = "") -> None:
    """List the handoffs that an agent created, with their status.

    Example: lukasa handoff sent --for eng-001
    """
    _show_handoffs(call, call.memory.handoffs.sent(agent), empty="Nothing was handed over.")


def _show_handoffs(call: Call, handoffs: Sequence[Handoff], *, empty: str) -> None:
    columns = "id, from=from_agent, to=to_agent, status, handed over=timestamp, what was done=what_was_done"
    call.show(handoffs, columns=columns, truncate="what was done", empty=empty)


@app.command()
def show_(
    call: Call, id: HandoffIdArgument, read: Annotated[bool, flag("--read", "Mark the handoff as read.")] = False
) -> None:
    """Show all fields of one handoff.

    Example: lukasa handoff show handoff-001 --read
    """
    if read:
        call.memory.handoffs.read(id)
    handoff = require_found(call.memory.handoffs.get(id), f"There is no handoff {id[:80]!r}.", _INBOX_HINT)
    fields = read_fields(handoff, "id, from=from_agent, to=to_agent, status") | dict(handoff.context)
    lists = {name: "\n".join(map(str, value)) for name, value in fields.items() if isinstance(value, list)}
    call.show(handoff, fields=fields | lists)


@app.command()
def accept(
    call: Call,
    id: HandoffIdArgument,
    agent: Annotated[str, option("NAME", "The agent who accepts; default: --agent.", "--as")] = "",
) -> None:
    """Accept a handoff. Only the agent it is for can accept it, and only once.

    Example: lukasa handoff accept handoff-001 --as qa-001
    """
    _show_outcome(call, call.memory.handoffs.accept(id, agent))


@app.command()
def complete(
    call: Call, id: HandoffIdArgument, result: Annotated[str, option("TEXT", "The result of the work.")] = ""
) -> None:
    """Mark a handoff as completed, with its result.

    Example: lukasa handoff complete handoff-001 --result "all green"
    """
    _show_outcome(call, call.memory.handoffs.complete(id, result))


@app.command()
def reassign(
    call: Call,
    id: HandoffIdArgument,
    to_agent: Annotated[str | None, argument("AGENT", "The new agent; default: the same one.")] = None,
) -> None:
    """Put an accepted handoff back into the inbox, or give it to another agent.

    Example: lukasa handoff reassign handoff-001 qa-002
    """
    handoffs = call.memory.handoffs
    _show_outcome(call, handoffs.reopen(id) if to_agent is None else handoffs.reassign(id, to_agent))


def _show_outcome(call: Call, outcome: Outcome) -> None:
    from lukasa.experience import Handoff

    handoff = Handoff(outcome.unwrap())
    call.show(handoff, f"{handoff.id} for {handoff.to_agent}: {handoff.status}.")


def ledger(
    call: Call,
    agent: Annotated[str, argument("AGENT", "One agent; default: all agents.")] = "",
    task: Annotated[str | None, option("ID", "Set the current task; '' for none.")] = None,
    completed: Annotated[int, option("N", "Add this many completed tasks.", min=0)] = 0,
    goal: Annotated[str | None, option("TEXT", "Set the current goal.")] = None,
) -> None:
    """Show the progress of agents: current task, goal and completed tasks. The options update it.

    Example: lukasa ledger eng-001 --task task-042 --completed 1
    """
    ledgers = call.memory.ledgers
    name = agent or call.memory.journal.author
    if task is not None or completed or goal is not None:
        before = ledgers.get(name) if name else None
        context = None if goal is None else {**(before.context if before else {}), "current_goal": goal}
        ledgers.checkpoint(agent, current_task=task, completed=completed, context=context).unwrap_all()
    found = [entry for entry in ledgers.list() if not agent or entry.agent_id == agent]
    require_found(found or not agent, f"There is no ledger of {agent[:80]!r}.")
    checkpoint: Column = ("checkpoint", lambda entry: to_iso(entry.last_checkpoint))
    columns = ("agent=agent_id", checkpoint, "completed=tasks_completed, task=current_task, goal=context.current_goal")
    call.show(found, columns=columns, truncate="goal", empty="No ledgers.")
