"""Resources: what a client may attach to a prompt without calling a tool. All recalled text in them is fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity

from lukasa.canonical import encode
from lukasa.doors.mcp.answers import failure
from lukasa.doors.mcp.callers import CURRENT, Stores
from lukasa.doors.mcp.tools import assembled
from lukasa.errors import LukasaError, NotAllowed
from lukasa.memory import Memory
from lukasa.prompt import Told, fence, open_counter

BUDGET = 4_000
_OPAQUE = ResourceSecurity(reject_path_traversal=False, reject_absolute_paths=False)  # ids name no files here


def offer(server: MCPServer[Any], stores: Stores) -> None:
    """Offers the resources of a store."""

    def reading(ctx: Context[Any, Any], read: Callable[[Memory], str | None], what: str) -> str:
        try:
            told = read(stores.of(ctx))
        except (LukasaError, OSError) as error:
            stores.note(error)
            answer = failure(error)
            raise ResourceError(f"{answer.reason} {answer.next or ''}".strip()) from error
        if told is None:
            raise ResourceNotFoundError(f"There is no {what}.")
        return told

    @server.resource("lukasa://snapshot", title="Snapshot", mime_type="text/markdown")
    def snapshot() -> str:
        """Notes, canon and current registers of every scope within reach."""
        return reading(CURRENT.get(), lambda memory: memory.vault.build_snapshot_block(budget=BUDGET).text, "snapshot")

    @server.resource(
        "lukasa://snapshot/{scope}", title="Snapshot of a scope", mime_type="text/markdown", security=_OPAQUE
    )
    def scope_snapshot(scope: str, ctx: Context[Any, Any]) -> str:
        """Notes, canon and current registers of one scope."""
        return reading(ctx, lambda memory: _snapshot(memory, scope), f"scope {scope!r:.80} within reach")

    @server.resource("lukasa://session/{session}", title="A conversation", mime_type="text/markdown", security=_OPAQUE)
    def session(session: str, ctx: Context[Any, Any]) -> str:
        """A conversation: its summary, its facts and its newest turns."""
        return reading(ctx, lambda memory: _session(memory, session), f"session {session!r:.80}")

    @server.resource("lukasa://trust/{agent}", title="An agent's trust", mime_type="application/json", security=_OPAQUE)
    def trust(agent: str, ctx: Context[Any, Any]) -> str:
        """How far an agent is trusted, with an interval and how much that rests on."""
        return reading(ctx, lambda memory: _trust(memory, agent), f"agent {agent!r:.80}")

    @server.resource("lukasa://skill/{skill}", title="A skill", mime_type="text/markdown", security=_OPAQUE)
    def skill(skill: str, ctx: Context[Any, Any]) -> str:
        """How something is done: prerequisites, steps, common errors, exit criteria."""
        return reading(ctx, lambda memory: _skill(memory, skill), f"skill {skill!r:.80}")


def _snapshot(memory: Memory, scope: str) -> str:
    if not memory.journal.reach.reads(scope):
        raise NotAllowed("The scope is outside the caller's reach.")
    return memory.vault.build_snapshot_block((scope,), budget=BUDGET).text


def _session(memory: Memory, session: str) -> str | None:
    if not memory.context.load(session).origin.head:
        return None
    return assembled(memory.context.assemble(session, BUDGET), session, BUDGET)[0]


def _trust(memory: Memory, agent: str) -> str:
    score = memory.trust.score(agent)
    told = {"agent": agent, "trust": score.trust, "low": score.low, "high": score.high, "events": score.events}
    return encode(told).decode()


def _skill(memory: Memory, skill: str) -> str | None:
    found = memory.skills.get(skill)
    if found is None:
        return None
    told = Told(found.markdown, str(found.record.key), found.record.author)
    return fence([told], budget=BUDGET, counter=open_counter()).text
