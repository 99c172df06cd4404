"""``/v1/conversations``: turns, the recent view, and prompts within a budget."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from lukasa.interfaces.http.requests import (
    MAX_ITEMS,
    CallerMemory,
    IdempotencyKey,
    Moment,
    Name,
    RequestModel,
    to_moment,
)
from lukasa.interfaces.http.responses import JsonResponse, outcome_response

router = APIRouter(prefix="/v1/conversations", tags=["conversations"])


class NewTurn(RequestModel):
    """One message of a conversation."""

    role: Annotated[str, Field(pattern="^(system|user|assistant|tool)$")]
    content: Annotated[str, Field(max_length=4_000_000)]
    speaker: Annotated[str, Field(max_length=200)] = ""
    timestamp: Moment | None = None
    tool_calls: list[dict[str, Any]] = Field(default=[], max_length=100)
    tool_call_id: Annotated[str, Field(max_length=200)] = ""


@router.get("")
def list_conversations(memory: CallerMemory) -> Any:
    """List the conversations that the caller may read."""
    return JsonResponse({"conversations": memory.context.sessions()})


@router.post("/{id}/turns", status_code=201)
def append_turn(memory: CallerMemory, id: Name, body: NewTurn, key: IdempotencyKey = None) -> Any:
    """Append a turn. It is stored before the answer."""
    outcome = memory.context.append(
        id,
        body.role,
        body.content,
        speaker=body.speaker,
        timestamp=to_moment(body.timestamp),
        tool_calls=body.tool_calls,
        tool_call_id=body.tool_call_id,
        key=key,
    )
    return outcome_response(outcome, status=201)


@router.get("/{id}")
def load_conversation(memory: CallerMemory, id: Name) -> Any:
    """Return the recent view of a conversation: summary, facts and the newest turns."""
    return JsonResponse(memory.context.load(id))


@router.get("/{id}/prompt")
def assemble_prompt(
    memory: CallerMemory,
    id: Name,
    budget: Annotated[int, Query(ge=100, le=1_000_000)] = 4_000,
    question: Annotated[str | None, Query(max_length=10_000)] = None,
) -> Any:
    """Assemble a prompt within a token budget: summary, facts, relevant earlier turns and the newest ones."""
    return JsonResponse(memory.context.assemble(id, budget, question=question))


@router.get("/{id}/turns")
def list_turns(memory: CallerMemory, id: Name, limit: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 100) -> Any:
    """Return the newest turns of the whole transcript, oldest first; folded turns are included."""
    return JsonResponse({"turns": list(memory.context.transcript(id))[-limit:]})
