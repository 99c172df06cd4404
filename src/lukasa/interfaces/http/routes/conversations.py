"""``/v1/conversations``: turns, the recent view, and prompts within a budget."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from lukasa.context import Conversations
from lukasa.interfaces.http.requests import (
    MAX_ITEMS,
    CallerMemory,
    Moment,
    Name,
    RequestModel,
    WholeNumber,
    WritingMemory,
    to_moment,
)
from lukasa.interfaces.http.responses import WRITTEN, JsonResponse, outcome_response
from lukasa.interfaces.http.service_routes import ServiceRoutes
from lukasa.recall.memories import MemorySource

routes = ServiceRoutes("/v1/conversations", lambda memory: memory.context)
router = routes.router


class NewTurn(RequestModel):
    """One message of a conversation."""

    role: Annotated[str, Field(pattern="^(system|user|assistant|tool)$")]
    content: Annotated[str, Field(max_length=4_000_000)]
    speaker: Annotated[str, Field(max_length=200)] = ""
    timestamp: Moment | None = None
    tool_calls: list[dict[str, Any]] = Field(default=[], max_length=100)
    tool_call_id: Annotated[str, Field(max_length=200)] = ""


class NewTurns(RequestModel):
    """Messages that are appended together."""

    turns: list[NewTurn] = Field(min_length=1, max_length=MAX_ITEMS)


@router.get("")
def list_conversations(memory: CallerMemory) -> Any:
    """List the conversations that the caller may read."""
    return JsonResponse({"conversations": memory.context.list()})


@router.post("/{id}/turns", status_code=201, responses={201: WRITTEN})
def append_turn(memory: WritingMemory, id: Name, body: NewTurn) -> Any:
    """Append a turn. It is stored before the answer."""
    role: Any = body.role
    outcome = memory.context.append(
        id,
        role,
        body.content,
        speaker=body.speaker,
        timestamp=to_moment(body.timestamp),
        tool_calls=body.tool_calls,
        tool_call_id=body.tool_call_id,
    )
    return outcome_response(outcome, status=201)


@router.post("/{id}/turns/bulk", status_code=201, responses={201: WRITTEN})
def append_turns(memory: WritingMemory, id: Name, body: NewTurns) -> Any:
    """Append turns, all or none."""
    turns = [turn.model_dump(exclude_unset=True) for turn in body.turns]
    return outcome_response(memory.context.extend(id, turns), status=201)


@router.get("/{id}")
def load_conversation(memory: CallerMemory, id: Name) -> Any:
    """Return the recent view of a conversation: summary, facts and the newest turns."""
    return JsonResponse(memory.context.load(id))


@router.get("/{id}/prompt")
def assemble_prompt(
    memory: CallerMemory,
    id: Name,
    budget: Annotated[WholeNumber, Query(ge=100, le=1_000_000)] = 4_000,
    query: Annotated[str | None, Query(max_length=10_000)] = None,
    include: Annotated[list[MemorySource] | None, Query(description="Other memories to add.", max_length=3)] = None,
) -> Any:
    """Assemble a prompt within a token budget: summary, facts, relevant earlier turns and the newest ones."""
    return JsonResponse(memory.context.assemble(id, budget, query=query, include=include or ()))


@router.get("/{id}/turns")
def list_turns(memory: CallerMemory, id: Name, limit: Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)] = 100) -> Any:
    """Return the newest turns of the whole transcript, oldest first; folded turns are included."""
    return JsonResponse({"turns": list(memory.context.transcript(id))[-limit:]})


RENAMED = {"conversation_id": "id"}
routes.add("DELETE", "/{id}", Conversations.delete, rename=RENAMED)
routes.add("GET", "/{id}/facts", Conversations.facts, answer="facts", rename=RENAMED)
routes.add("POST", "/{id}/facts", Conversations.add_fact, status=201, rename=RENAMED)
routes.add("POST", "/{id}/tasks", Conversations.task, rename={"conversation_id": "id", "id": "task"})
routes.add("POST", "/{id}/usage", Conversations.usage, rename=RENAMED)
routes.add("POST", "/{id}/tool-calls", Conversations.tool_call, rename=RENAMED)
routes.add("POST", "/{id}/compaction", Conversations.compact, rename=RENAMED)
routes.add("POST", "/{id}/forks", Conversations.fork, status=201, rename=RENAMED, omit="at")
