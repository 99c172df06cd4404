"""Prompts that a person picks in the menu of a coding agent: start a task, finish one, review the memory."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from lukasa.errors import LukasaError
from lukasa.interfaces.stores import CallerStores
from lukasa.recall.prompt import neutralise

_MAX_TASK_LENGTH = 4_000


def register_prompts(server: MCPServer[Any], stores: CallerStores) -> None:
    """Add the prompts to a server."""

    @server.prompt(title="Start a task")
    def start_task(task: Annotated[str, Field(description="What is to be done.")]) -> str:
        """Begin a task with what is known about it."""
        try:
            memory = stores.current()
            snapshot = memory.vault.build_snapshot_block(budget=1_000).text
            briefing = memory.before_task(task).block(1_500, full=True).text
        except (LukasaError, OSError) as error:
            stores.close_if_broken(error)
            snapshot, briefing = "", "(The memory cannot be read now; go on without it.)"
        request = (
            "Say in one line which part of this matters here. Then do the task. Call `recall` before you guess. When you are "
            "done, call `record_episode`, and `remember` each fact that will still matter next week."
        )
        parts = (f"Task: {neutralise(task[:_MAX_TASK_LENGTH])}", snapshot, briefing, request)
        return "\n\n".join(part for part in parts if part)

    @server.prompt(title="Finish a task")
    def finish_task(
        task: Annotated[str, Field(description="What was to be done.")],
        outcome: Annotated[str, Field(description="success, failure, partial or abandoned.")] = "success",
    ) -> str:
        """End a task so that the next one profits from it."""
        return (
            f"The task is over: {neutralise(task[:_MAX_TASK_LENGTH])}\nOutcome: {neutralise(outcome[:100])}\n\n"
            "1. Call `record_episode` with the goal, the outcome, the steps that mattered, each error with its resolution, and "
            "the files that were made or changed.\n"
            "2. Call `remember` for each decision, preference or convention that will still matter next week; one fact each.\n"
            "3. If another agent must go on, call `handoff` with action `send`.\n"
            "4. Tell me in two lines what was saved, and what was refused and why."
        )

    @server.prompt(title="Review the memory")
    def review_memory(
        topic: Annotated[str, Field(description="Only memories about this topic; without it, all.")] = "",
    ) -> str:
        """Go through the memory and propose what to correct, merge or forget."""
        about = f" about {neutralise(topic)[:200]}" if topic else ""
        return (
            f"Review what is remembered{about}.\n\n"
            "1. Read `snapshot`" + (f", and `recall` what is known{about}" if topic else "") + ".\n"
            "2. List the memories that are outdated, doubled, contradictory or unclear, each with its id and your proposal.\n"
            "3. Wait for my decision. Change nothing before. Then use `remember` with `replaces`, or `forget`."
        )
