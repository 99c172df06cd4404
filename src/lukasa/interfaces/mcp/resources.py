"""Resources: what a client may attach to a prompt without calling a tool. All recalled text in them is fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity

from lukasa.canonical_json import encode
from lukasa.errors import LukasaError, NotAllowed
from lukasa.interfaces.mcp.responses import failure_response
from lukasa.interfaces.mcp.tools import fence_conversation
from lukasa.interfaces.stores import CURRENT_REQUEST, CallerStores
from lukasa.memory import Memory
from lukasa.models.token_counter import open_token_counter
from lukasa.prompt import PromptItem, build_fenced_block

BUDGET = 4_000
_NO_PATH_CHECKS = ResourceSecurity(reject_path_traversal=False, reject_absolute_paths=False)  # ids name no files here


def register_resources(server: MCPServer[Any], stores: CallerStores) -> None:
    """Offers the resources of a store."""

    def render_resource(ctx: Context[Any, Any], read: Callable[[Memory], str | None], description: str) -> str:
        try:
            told = read(stores.for_request(ctx))
        except (LukasaError, OSError) as error:
            stores.close_if_broken(error)
            answer = failure_response(error)
            raise ResourceError(f"{answer.reason} {answer.next or ''}".strip()) from error
        if told is None:
            raise ResourceNotFoundError(f"There is no {description}.")
        return told

    @server.resource("lukasa://snapshot", title="Snapshot", mime_type="text/markdown")
    def snapshot() -> str:
        """Notes, canon and current registers of every scope within reach."""
        return render_resource(
            CURRENT_REQUEST.get(), lambda memory: memory.vault.build_snapshot_block(budget=BUDGET).text, "snapshot"
        )

    @server.resource(
        "lukasa://snapshot/{scope}", title="Snapshot of a scope", mime_type="text/markdown", security=_NO_PATH_CHECKS
    )
    def scope_snapshot(scope: str, ctx: Context[Any, Any]) -> str:
        """Notes, canon and current registers of one scope."""
        return render_resource(ctx, lambda memory: _render_snapshot(memory, scope), f"scope {scope!r:.80} within reach")

    @server.resource(
        "lukasa://session/{session}", title="A conversation", mime_type="text/markdown", security=_NO_PATH_CHECKS
    )
    def session(session: str, ctx: Context[Any, Any]) -> str:
        """A conversation: its summary, its facts and its newest turns."""
        return render_resource(ctx, lambda memory: _render_session(memory, session), f"session {session!r:.80}")

    @server.resource(
        "lukasa://trust/{agent}", title="An agent's trust", mime_type="application/json", security=_NO_PATH_CHECKS
    )
    def trust(agent: str, ctx: Context[Any, Any]) -> str:
        """How far an agent is trusted, with an interval and how much that rests on."""
        return render_resource(ctx, lambda memory: _render_trust(memory, agent), f"agent {agent!r:.80}")

    @server.resource("lukasa://skill/{skill}", title="A skill", mime_type="text/markdown", security=_NO_PATH_CHECKS)
    def skill(skill: str, ctx: Context[Any, Any]) -> str:
        """How something is done: prerequisites, steps, common errors, exit criteria."""
        return render_resource(ctx, lambda memory: _render_skill(memory, skill), f"skill {skill!r:.80}")


def _render_snapshot(memory: Memory, scope: str) -> str:
    if not memory.journal.reach.reads(scope):
        raise NotAllowed("The scope is outside the caller's reach.")
    return memory.vault.build_snapshot_block((scope,), budget=BUDGET).text


def _render_session(memory: Memory, session: str) -> str | None:
    if not memory.context.load(session).origin.state_version:
        return None
    return fence_conversation(memory.context.assemble(session, BUDGET), session, BUDGET)[0]


def _render_trust(memory: Memory, agent: str) -> str:
    score = memory.trust.score(agent)
    told = {"agent": agent, "trust": score.trust, "low": score.low, "high": score.high, "events": score.events}
    return encode(told).decode()


def _render_skill(memory: Memory, skill: str) -> str | None:
    found = memory.skills.get(skill)
    if found is None:
        return None
    told = PromptItem(found.markdown, str(found.record.key), found.record.author)
    return build_fenced_block([told], budget=BUDGET, counter=open_token_counter()).text
