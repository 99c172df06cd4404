"""What the pages of the dashboard ask for beyond the rest of the API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

import lukasa
from lukasa.interfaces.api_tokens import ApiToken
from lukasa.interfaces.auth import TOKEN_KEY
from lukasa.interfaces.http.requests import CallerMemory
from lukasa.interfaces.http.responses import JsonResponse

router = APIRouter(tags=["dashboard"])


@router.get("/v1/caller")
def describe_caller(request: Request, memory: CallerMemory) -> Any:
    """Return whom the token of the request stands for and what it may do."""
    token: ApiToken = request.scope[TOKEN_KEY]
    reach = memory.journal.reach
    return JsonResponse(
        {
            "token": token.name,
            "agent": token.agent,
            "access": token.access,
            "reads": None if reach.readable is None else sorted(reach.readable),
            "writes": [] if token.read_only else None if reach.writable is None else sorted(reach.writable),
            "expires_at": token.expires_at,
            "version": lukasa.__version__,
        }
    )
