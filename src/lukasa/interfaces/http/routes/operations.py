"""Health, readiness, metrics and statistics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from lukasa.errors import LukasaError
from lukasa.interfaces.auth import problem_response
from lukasa.interfaces.http.metrics import CONTENT_TYPE, render_metrics
from lukasa.interfaces.http.requests import CallerMemory
from lukasa.interfaces.http.responses import JsonResponse, declare_answer
from lukasa.interfaces.outcomes import outcome_of
from lukasa.interfaces.stores import CallerStores
from lukasa.storage.engine import Tally

router = APIRouter(tags=["operations"])


@router.get("/healthz", responses=declare_answer("Health", "status:str"))
async def health() -> Any:
    """Say that the process answers."""
    return JsonResponse({"status": "ok"})


@router.get("/readyz", responses=declare_answer("Readiness", "status:str"))
def readiness(request: Request) -> Any:
    """Say whether the store answers."""
    stores: CallerStores = request.app.state.stores
    try:
        stores.check()
    except (LukasaError, OSError) as error:
        return problem_response(outcome_of(error, public=True))
    return JsonResponse({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(memory: CallerMemory) -> Any:
    """Return metrics for Prometheus: counts and times of requests, and records by kind. They hold no content."""
    return Response(render_metrics(memory), media_type=CONTENT_TYPE)


@router.get("/v1/stats", responses=declare_answer("Stats", "position:int records:list[Tally]", Tally))
def stats(memory: CallerMemory) -> Any:
    """Count the records that the caller may read, by scope and kind."""
    return JsonResponse({"position": memory.journal.tip(), "records": memory.journal.tally()})
