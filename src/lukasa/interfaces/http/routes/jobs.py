"""``/v1/jobs/{id}``: a job in its state, with its result once it is done."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from lukasa.interfaces.http.requests import CallerMemory, Name
from lukasa.interfaces.http.responses import BOOK, JsonResponse, json_answer
from lukasa.interfaces.outcomes import not_found
from lukasa.jobs import Job

_DONE = BOOK.declare("DoneJob", "id:str state:str result:dict[str,object]")
router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("/{id}", responses={200: json_answer("The job.", {"anyOf": [BOOK.describe(Job), _DONE]})})
def read_job(memory: CallerMemory, id: Name) -> Any:
    """Return a job in its state; one that is done has the result that its function returned."""
    job = next((job for job in memory.jobs.list() if job.id == id), None)
    if job is not None:
        return JsonResponse(job)
    result = memory.jobs.result(id)
    if result is None:
        raise not_found(f"There is no job {id[:80]!r}.")
    return JsonResponse({"id": id, "state": "done", "result": result})
