"""Resources that a client attaches to a prompt without calling a tool. All recalled text in them is fenced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity

from lukasa.core.canonical_json import encode
from lukasa.errors import LukasaError, NotAllowed
from lukasa.interfaces.mcp.responses import TrustResponse
from lukasa.interfaces.mcp.tools import fence_conversation
from lukasa.interfaces.outcomes import outcome_of
from lukasa.interfaces.stores import CallerStores
from lukasa.memory import Memory
from lukasa.models.token_counter import open_token_counter
from lukasa.recall.prompt import PromptItem, build_fenced_block
from lukasa.recall.unconfirmed_orders import find_unconfirmed_orders

BUDGET = 4_000
_NO_PATH_CHECKS = ResourceSecurity(reject_path_traversal=False, reject_absolute_paths=False)  # no id is a file name


def register_resources(server: MCPServer[Any], stores: CallerStores) -> None:
    """Add the resources to a server."""
    resource = partial(server.resource, mime_type="text/markdown", security=_NO_PATH_CHECKS)

    def read(render: Callable[[Memory], str | None], description: str) -> str:
        """Render a resource for the current caller. Raise the SDK's error if that fails or there is no such resource."""
        try:
            text = render(stores.current())
        except (LukasaError, OSError) as error:
            stores.close_if_broken(error)
            info = outcome_of(error, public=True)
            raise ResourceError(f"{info.message} {info.agent_hint or ''}".strip()) from error
        if text is None:
            raise ResourceNotFoundError(f"There is no {description}.")
        return text

    @resource("lukasa://snapshot", title="Snapshot")
    def snapshot() -> str:
        """Notes, canon and current registers of every scope that the caller may read."""
        return read(lambda memory: memory.vault.build_snapshot_block(budget=BUDGET).text, "snapshot")

    @resource("lukasa://snapshot/{scope}", title="Snapshot of a scope")
    def scope_snapshot(scope: str) -> str:
        """Notes, canon and current registers of one scope."""
        return read(lambda memory: _render_snapshot(memory, scope), f"scope {scope!r:.80}")

    @resource("lukasa://session/{session}", title="A conversation")
    def session(session: str) -> str:
        """A conversation: its summary, its facts and its newest turns."""
        return read(lambda memory: _render_session(memory, session), f"session {session!r:.80}")

    @resource("lukasa://trust/{agent}", title="An agent's trust", mime_type="application/json")
    def trust(agent: str) -> str:
        """The trust in an agent, with an interval and the number of events behind it."""
        return read(lambda memory: _render_trust(memory, agent), f"agent {agent!r:.80}")

    @resource("lukasa://skill/{skill}", title="A skill")
    def skill(skill: str) -> str:
        """A skill: prerequisites, steps, common errors, exit criteria."""
        return read(lambda memory: _render_skill(memory, skill), f"skill {skill!r:.80}")


def _render_snapshot(memory: Memory, scope: str) -> str:
    if not memory.journal.reach.reads(scope):
        raise NotAllowed("The caller may not read this scope.")
    return memory.vault.build_snapshot_block((scope,), budget=BUDGET).text


def _render_session(memory: Memory, session: str) -> str | None:
    if not memory.context.load(session).origin.state_version:
        return None
    return fence_conversation(memory.context.assemble(session, BUDGET), session, BUDGET)[0]


def _render_trust(memory: Memory, agent: str) -> str:
    response = TrustResponse.from_score(memory.trust.score(agent))
    return encode(response.model_dump(exclude_none=True, exclude={"outcome"})).decode()


def _render_skill(memory: Memory, skill: str) -> str | None:
    found = memory.skills.get(skill)
    if found is None:
        return None
    orders = bool(find_unconfirmed_orders(memory.valid_journal, [found.record]))
    item = PromptItem(found.markdown, str(found.record.key), found.record.author, gives_orders=orders)
    return build_fenced_block([item], budget=BUDGET, counter=open_token_counter()).text
