"""``/v1/consolidation``: knowledge drawn from episodes; a dry run shows what a run would write, and a run can be undone."""

from __future__ import annotations

from typing import Any

from lukasa.experience.consolidation import jobs as consolidation_jobs
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import Name, RequestModel, RespondAsync, WritingMemory
from lukasa.interfaces.http.responses import DEFERRED, JsonResponse, job_response
from lukasa.interfaces.http.service_routes import Time

router = PrefixRouter(prefix="/v1/consolidation", tags=["consolidation"])


class ConsolidationOptions(RequestModel):
    """Which episodes to look at, and whether to write."""

    dry_run: bool = False
    since: Time | None = None
    everything: bool = False
    skills: bool = False


class ConsolidationLabel(RequestModel):
    """The label of a run, as its answer named it."""

    label: Name


@router.post("", responses={202: DEFERRED})
def consolidate(memory: WritingMemory, body: ConsolidationOptions, respond_async: RespondAsync) -> Any:
    """Draw knowledge from new episodes. ``Prefer: respond-async`` defers a run to a worker and answers with its job."""
    if respond_async and not body.dry_run:
        name = consolidation_jobs.TASK_NAME
        return job_response(memory.jobs.defer(name, key="http", skills=body.skills))
    options: dict[str, Any] = {field: getattr(body, field) for field in body.model_fields_set}
    return JsonResponse(memory.consolidate(**options))


@router.post("/undo")
def undo_consolidation(memory: WritingMemory, body: ConsolidationLabel) -> Any:
    """Revert what a run wrote, and everything derived from it."""
    return JsonResponse(memory.journal.undo(label=body.label))
