"""``/v1/memories``: curated facts of the vault."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from lukasa.core.outcome import Accepted, Outcome
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import (
    MAX_ITEMS,
    CallerMemory,
    ExpectedVersion,
    Moment,
    Name,
    RequestModel,
    WholeNumber,
    WritingMemory,
    to_moment,
)
from lukasa.interfaces.http.responses import WRITTEN, JsonResponse, entity_tag, outcome_response
from lukasa.interfaces.outcomes import not_found, outcome_of
from lukasa.interfaces.serialise import to_json

router = PrefixRouter(prefix="/v1/memories", tags=["memories"])
Text = Annotated[str, Field(min_length=1, max_length=20_000)]
Scope = Annotated[str | None, Query(max_length=200, description="Look only in this scope.")]


class NewMemory(RequestModel):
    """A fact to remember."""

    text: Text
    scope: Name | None = Field(None, description="The shared scope unless another one is named.")
    category: Name = "general"
    topic: Name | None = Field(None, description="A fact with the same topic and scope is replaced; its history stays.")
    tags: list[Name] = Field(default=[], max_length=20)
    distinct_from: list[Name] = Field(default=[], max_length=20, description="Memories that state another fact.")
    expires_at: Moment | None = Field(None, description="From this time on it no longer holds.")


class Confirmation(RequestModel):
    """That a memory was checked and still holds."""

    expires_at: Moment | None = None


class NewMemories(RequestModel):
    """Facts to remember, each with its own verdict."""

    memories: list[NewMemory] = Field(min_length=1, max_length=MAX_ITEMS)


class MemoryChange(RequestModel):
    """The fields of a memory to change. Omitted fields stay as they are."""

    text: Text | None = None
    category: Name | None = None
    topic: Name | None = None
    tags: list[Name] | None = Field(None, max_length=20)


@router.post("", status_code=201, responses={201: WRITTEN})
def remember(memory: WritingMemory, body: NewMemory) -> Any:
    """Remember a fact. The gate refuses noise, duplicates, personal data and secrets."""
    outcome = memory.remember(
        body.text,
        scope=body.scope,
        category=body.category,
        topic=body.topic,
        tags=tuple(body.tags),
        distinct_from=tuple(body.distinct_from),
        expires_at=to_moment(body.expires_at),
    )
    return outcome_response(outcome, status=201)


@router.post("/bulk")
def remember_many(memory: WritingMemory, body: NewMemories) -> Any:
    """Remember many facts; the answer holds one verdict per fact, in order."""
    items = [
        {
            "text": item.text,
            "scope": item.scope or "shared",
            "category": item.category,
            "topic_id": item.topic,
            "tags": tuple(item.tags),
            "distinct_from": tuple(item.distinct_from),
            "expires_at": to_moment(item.expires_at),
        }
        for item in body.memories
    ]
    return JsonResponse({"outcomes": [_verdict(outcome) for outcome in memory.vault.bulk_add(items)]})


def _verdict(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Accepted):
        return {"status": 201, "record": to_json(outcome.record)}
    return outcome_of(outcome).as_problem()


@router.get("")
def list_memories(
    memory: CallerMemory,
    scope: Scope = None,
    tier: Annotated[str | None, Query(pattern="^(canon|register)$")] = None,
    category: Annotated[str | None, Query(max_length=100)] = None,
    topic: Annotated[str | None, Query(max_length=200)] = None,
    tag: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)] = 100,
) -> Any:
    """List the memories that match all filters, oldest first."""
    filters: dict[str, Any] = {"tier": tier, "category": category, "topic_id": topic, "tag": tag}
    found = memory.vault.list(scope, **filters, limit=limit)
    return JsonResponse({"memories": found})


@router.get("/{id}")
def get_memory(memory: CallerMemory, id: str, scope: Scope = None) -> Any:
    """Return a memory."""
    found = memory.vault.get(id, scope=scope)
    if found is None:
        raise not_found(f"There is no memory {id!r:.80}.")
    return JsonResponse(found, headers={"ETag": entity_tag(found.version)})


@router.patch("/{id}", responses={200: WRITTEN})
def update_memory(
    memory: WritingMemory, id: str, body: MemoryChange, expected: ExpectedVersion, scope: Scope = None
) -> Any:
    """Change a memory; the earlier version stays in its history."""
    changes: dict[str, Any] = body.model_dump(exclude_unset=True)
    if "topic" in changes:
        changes["topic_id"] = changes.pop("topic")
    return outcome_response(memory.vault.update(id, **changes, scope=scope, expected=expected))


@router.delete("/{id}", responses={200: WRITTEN})
def forget(memory: WritingMemory, id: str, scope: Scope = None) -> Any:
    """Delete a memory. Its history stays until it is erased."""
    return outcome_response(memory.vault.delete(id, scope=scope))


@router.post("/{id}/confirm", responses={200: WRITTEN})
def confirm(memory: WritingMemory, id: str, body: Confirmation, scope: Scope = None) -> Any:
    """Record that a memory still holds, with a new expiry if one is given."""
    return outcome_response(memory.confirm(id, scope=scope, expires_at=to_moment(body.expires_at)))


@router.get("/{id}/history")
def memory_history(memory: CallerMemory, id: str, scope: Scope = None) -> Any:
    """Return all versions of a memory, oldest first."""
    versions = memory.vault.history(id, scope=scope)
    if not versions:
        raise not_found(f"There is no memory {id!r:.80}.")
    return JsonResponse({"versions": versions})
