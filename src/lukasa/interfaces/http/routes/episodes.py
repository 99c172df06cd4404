"""``/v1/episodes``: what happened, task by task."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from lukasa.core.outcome import Refused
from lukasa.errors import NotAccepted
from lukasa.experience import Episodes
from lukasa.interfaces.http.requests import MAX_ITEMS, CallerMemory, Name, RequestModel, WholeNumber, WritingMemory
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.http.service_routes import JsonObject, ServiceRoutes

routes = ServiceRoutes("/v1/episodes", lambda memory: memory.episodes)


class NewEpisode(RequestModel):
    """A task that begins."""

    goal: Name
    task_id: str = ""
    context: JsonObject = Field(default={})
    scope: Name = "shared"


@routes.router.get("")
def list_episodes(
    memory: CallerMemory,
    task_id: Annotated[str | None, Query(max_length=200)] = None,
    agent: Annotated[str | None, Query(max_length=200)] = None,
    outcome: Annotated[str | None, Query(max_length=200)] = None,
    day: Annotated[str | None, Query(pattern=r"^\d{4}-\d{2}-\d{2}$")] = None,
    unfinished: bool = False,
    archived: bool = False,
    limit: Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)] = 100,
) -> Any:
    """List the episodes that match all filters, oldest first; with more than the limit, those written last."""
    filters: dict[str, Any] = {"task_id": task_id, "agent": agent, "outcome": outcome, "day": day}
    found = memory.episodes.list(**filters, unfinished=unfinished, archived=archived, limit=limit)
    return JsonResponse({"episodes": found})


@routes.router.post("/start", status_code=201)
def start_episode(memory: WritingMemory, body: NewEpisode) -> Any:
    """Start an episode. Add its steps as they happen, then finish it."""
    running = memory.episodes.start(body.goal, task_id=body.task_id, context=body.context, scope=body.scope)
    if isinstance(running, Refused):
        raise NotAccepted(outcome=running)
    return JsonResponse({"id": running.id, "scope": running.scope}, 201)


routes.add("POST", "", Episodes.record, status=201, omit="agent")
routes.add("POST", "/pruning", Episodes.prune)
routes.add("GET", "/{id}", Episodes.get)
routes.add("POST", "/{id}/steps", Episodes.step)
routes.add("POST", "/{id}/errors", Episodes.error)
routes.add("POST", "/{id}/finish", Episodes.finish)
routes.add("POST", "/{id}/restore", Episodes.restore)
