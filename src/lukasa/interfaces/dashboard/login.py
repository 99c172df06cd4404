"""Signing in and out of the dashboard: a token in a form starts a session, whose cookie no script can read."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from lukasa.interfaces.auth import TokenSource, cookie_name, is_same_origin, problem_response, read_session
from lukasa.interfaces.http.requests import RequestModel
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.outcomes import request_error
from lukasa.interfaces.page_sessions import SESSION_TIME, PageSessions

LOGIN_PATHS = frozenset({"/login", "/login/status", "/logout"})
COOKIE_SECONDS = int(SESSION_TIME.total_seconds())

router = APIRouter(include_in_schema=False)


class Login(RequestModel):
    """The token of a person."""

    token: Annotated[str, Field(min_length=1, max_length=1_000)]


@router.post("/login")
def log_in(request: Request, body: Login) -> Any:
    """Start a session of a valid token and set its cookie."""
    find_token: TokenSource = request.app.state.token_source
    sessions: PageSessions = request.app.state.page_sessions
    if not is_same_origin(request.scope):
        return problem_response(request_error("foreign_origin", "Sign in on the page of this server."))
    token = find_token(body.token.strip())
    if token is None:
        return problem_response(request_error("unauthorized", "This token is not valid, or has been revoked."))
    response = JsonResponse({"name": token.name, "access": token.access})
    sessions.end(read_session(request.scope))
    _set_cookie(request, response, sessions.start(token), COOKIE_SECONDS)
    return response


@router.get("/login/status")
def read_status(request: Request) -> Any:
    """Say whether the browser is signed in, so that the page need not provoke a refusal to find out."""
    sessions: PageSessions = request.app.state.page_sessions
    return JsonResponse({"signed_in": sessions.find(read_session(request.scope)) is not None})


@router.post("/logout")
def log_out(request: Request) -> Any:
    """End the session, so that a copy of its cookie is worth nothing, and remove the cookie."""
    if not is_same_origin(request.scope):
        return problem_response(request_error("foreign_origin", "Sign out on the page of this server."))
    sessions: PageSessions = request.app.state.page_sessions
    sessions.end(read_session(request.scope))
    response = JsonResponse({})
    _set_cookie(request, response, "", 0)
    return response


def _set_cookie(request: Request, response: Response, value: str, seconds: int) -> None:
    secure = request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        cookie_name(request.headers), value, seconds, path="/", secure=secure, httponly=True, samesite="strict"
    )
