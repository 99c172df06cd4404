"""``/v1/jobs``: background work."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

from fastapi import Request
from pydantic import Field
from starlette.responses import StreamingResponse

from lukasa.interfaces.http.requests import CallerMemory, Name, RequestModel, WritingMemory
from lukasa.interfaces.http.responses import DEFERRED, LOG_MEDIA_TYPE, JsonResponse, job_response
from lukasa.interfaces.http.service_routes import JsonObject, ServiceRoutes
from lukasa.interfaces.outcomes import not_found
from lukasa.jobs import Jobs
from lukasa.memory import Memory

routes = ServiceRoutes("/v1/jobs", lambda memory: memory.jobs)
RESULT: dict[str, Any] = {
    "description": "What the job returned.",
    "content": {"application/json": {"schema": {"type": "object"}}, LOG_MEDIA_TYPE: {"schema": {"type": "string"}}},
}


class NewJob(RequestModel):
    """A registered function to run later, and its arguments."""

    name: Name
    arguments: JsonObject = Field(default={})
    key: Name | None = Field(None, description="While a job with this key waits, no second one is stored.")
    scope: Name | None = None
    delay: Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)] = 0.0


@routes.router.post("", status_code=202, responses={202: DEFERRED})
def defer_job(memory: WritingMemory, body: NewJob) -> Any:
    """Store a job. A worker runs it."""
    return job_response(
        memory.jobs.defer(body.name, key=body.key, scope=body.scope, delay=body.delay, **body.arguments)
    )


routes.add("GET", "", Jobs.list, answer="jobs")
routes.add("GET", "/status", Jobs.status)


@routes.router.get("/{id}")
def read_job(memory: CallerMemory, id: Name) -> Any:
    """Return a job in its state; one that is done has the result that its function returned."""
    job = next((job for job in memory.jobs.list() if job.id == id), None)
    if job is not None:
        return JsonResponse(job)
    return JsonResponse({"id": id, "state": "done", "result": _require_result(memory, id)})


@routes.router.get("/{id}/result", responses={200: RESULT})
def read_result(request: Request, memory: CallerMemory, id: Name) -> Any:
    """Return the result of a job that is done: that of an export is the log, any other is JSON."""
    result = _require_result(memory, id)
    if "exported_file" not in result:
        return JsonResponse(result)
    chunks = request.app.state.server_jobs.read_export(memory, result["exported_file"])
    first = next(chunks, b"")  # report a missing file before the answer begins
    return StreamingResponse(chain((first,), chunks), media_type=LOG_MEDIA_TYPE)


def _require_result(memory: Memory, id: str) -> dict[str, Any]:
    result = memory.jobs.result(id)
    if result is None:
        raise not_found(f"There is no result of a job {id[:80]!r}.")
    return result


routes.add("POST", "/{id}/retry", Jobs.retry)
routes.add("DELETE", "/{id}", Jobs.drop)
