"""``/v1/jobs``: background work."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lukasa.interfaces.http.requests import Name, RequestModel, WritingMemory
from lukasa.interfaces.http.responses import job_response
from lukasa.interfaces.http.service_routes import JsonObject, ServiceRoutes
from lukasa.jobs import Jobs

routes = ServiceRoutes("/v1/jobs", lambda memory: memory.jobs)


class NewJob(RequestModel):
    """A registered function to run later, and its arguments."""

    name: Name
    arguments: JsonObject = Field(default={})
    key: Name | None = Field(None, description="While a job with this key waits, no second one is stored.")
    scope: Name | None = None
    delay: Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)] = 0.0


@routes.router.post("", status_code=202)
def defer_job(memory: WritingMemory, body: NewJob) -> Any:
    """Store a job. A worker runs it."""
    return job_response(
        memory.jobs.defer(body.name, key=body.key, scope=body.scope, delay=body.delay, **body.arguments)
    )


routes.add("GET", "", Jobs.find, answer="jobs")
routes.add("GET", "/status", Jobs.status)
routes.add("POST", "/{id}/retry", Jobs.retry)
routes.add("DELETE", "/{id}", Jobs.drop)
