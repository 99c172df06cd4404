"""``/v1/before-task``, ``/v1/ledgers`` and ``/v1/metrics``: what an agent reads before a task and tells after it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lukasa.experience import Ledgers, TaskMetrics
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import CallerMemory, RequestModel
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.http.service_routes import JsonObject, LongText, ServiceRoutes
from lukasa.interfaces.serialise import briefing_json
from lukasa.recall.memories import MemorySource

router = PrefixRouter(prefix="/v1/before-task", tags=["before-task"])
ledgers = ServiceRoutes("/v1/ledgers", lambda memory: memory.ledgers)
metrics = ServiceRoutes("/v1/metrics", lambda memory: memory.metrics)


class UpcomingTask(RequestModel):
    """A task that is about to begin."""

    task: LongText | JsonObject
    budget: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="The most tokens; default: 1,500."
    )
    full: bool = Field(False, description="Return the records too.")
    include: list[MemorySource] = Field(default=[], max_length=3, description="Other memories to add.")


@router.post("")
def before_task(memory: CallerMemory, body: UpcomingTask) -> Any:
    """Return what is known that matters for a task."""
    options = {} if body.budget is None else {"budget": body.budget}
    briefing = memory.before_task(body.task, include=body.include, **options)
    return JsonResponse(briefing_json(briefing, full=body.full))


ledgers.add("GET", "", Ledgers.list, answer="ledgers")
ledgers.add("POST", "", Ledgers.checkpoint, status=201, omit="agent")
ledgers.add("GET", "/{agent}", Ledgers.get)
metrics.add("GET", "/dashboard", TaskMetrics.dashboard)
metrics.add("GET", "/efficiency", TaskMetrics.efficiency, answer="tasks")
metrics.add("GET", "/rewards", TaskMetrics.rewards, answer="rewards")
metrics.add("POST", "/preferences", TaskMetrics.prefer, status=201)
