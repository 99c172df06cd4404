"""Prompts: how a person starts a task, ends one, or goes through the memory, in a coding agent's own menu."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from lukasa.errors import LukasaError
from lukasa.interfaces.stores import CallerStores
from lukasa.prompt import neutralise

_MAX_TASK_LENGTH = 4_000


def register_prompts(server: MCPServer[Any], stores: CallerStores) -> None:
    """Offers the prompts of a store."""

    @server.prompt(title="Start a task")
    def start_task(ctx: Context[Any, Any], task: Annotated[str, Field(description="What is to be done.")]) -> str:
        """Begin a task with what is known about it."""
        try:
            memory = stores.for_request(ctx)
            known = (
                memory.vault.build_snapshot_block(budget=1_000).text,
                memory.before_task(task).block(1_500, full=True).text,
            )
        except (LukasaError, OSError) as error:
            stores.close_if_broken(error)
            known = ("", "(The memory cannot be read now; go on without it.)")
        wanted = (
            "Say in one line what of this matters here. Then do the task. Call `recall` before you guess. When you are done, "
            "call `record_episode`, and `remember` what will still matter next week."
        )
        return "\n\n".join(part for part in (f"Task: {neutralise(task)[:_MAX_TASK_LENGTH]}", *known, wanted) if part)

    @server.prompt(title="Finish a task")
    def finish_task(
        task: Annotated[str, Field(description="What was to be done.")],
        outcome: Annotated[str, Field(description="success, failure, partial or abandoned.")] = "success",
    ) -> str:
        """End a task so that the next one profits from it."""
        return (
            f"The task is over: {neutralise(task)[:_MAX_TASK_LENGTH]}\nOutcome: {neutralise(outcome)[:100]}\n\n"
            "1. Call `record_episode` with the goal, the outcome, the steps that mattered, each error with its resolution, and "
            "the files that were made or changed.\n"
            "2. Call `remember` for each decision, preference or convention that will still matter next week; one fact each.\n"
            "3. If somebody else must go on, call `handoff` with action `send`.\n"
            "4. Tell me in two lines what was kept, and what was refused and why."
        )

    @server.prompt(title="Review the memory")
    def review_memory(
        topic: Annotated[str, Field(description="Only what is about this; without it, everything.")] = "",
    ) -> str:
        """Go through what is remembered and propose what to correct, merge or forget."""
        about = f" about {neutralise(topic)[:200]}" if topic else ""
        return (
            f"Review what is remembered{about}.\n\n"
            "1. Read `snapshot`" + (f", and `recall` what is known{about}" if topic else "") + ".\n"
            "2. List what is outdated, doubled, contradictory or unclear, each with its id and your proposal.\n"
            "3. Wait for my decision. Change nothing before. Then use `remember` with `replaces`, or `forget`."
        )
