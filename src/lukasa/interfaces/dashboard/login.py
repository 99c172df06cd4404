"""Signing in and out of the dashboard: a token in a form becomes a cookie that no script can read."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from lukasa.interfaces.auth import TokenSource, cookie_name, is_same_origin, read_secret, token_to_cookie
from lukasa.interfaces.http.requests import RequestModel
from lukasa.interfaces.http.responses import JsonResponse, problem_response
from lukasa.interfaces.outcomes import request_error

LOGIN_PATHS = frozenset({"/login", "/login/status", "/logout"})
COOKIE_SECONDS = 7 * 24 * 3600

router = APIRouter(include_in_schema=False)


class Login(RequestModel):
    """The token of a person."""

    token: Annotated[str, Field(min_length=1, max_length=1_000)]


@router.post("/login")
def log_in(request: Request, body: Login) -> Any:
    """Set the cookie for a valid token."""
    find_token: TokenSource = request.app.state.token_source
    if not is_same_origin(request.scope):
        return problem_response(request_error("foreign_origin", "Sign in on the page of this server."))
    token = find_token(body.token.strip())
    if token is None:
        return problem_response(request_error("unauthorized", "This is no valid token."))
    response = JsonResponse({"name": token.name, "access": token.access})
    _set_cookie(request, response, token_to_cookie(body.token.strip()), COOKIE_SECONDS)
    return response


@router.get("/login/status")
def read_status(request: Request) -> Any:
    """Say whether the browser is signed in, so that the page need not provoke a refusal to find out."""
    find_token: TokenSource = request.app.state.token_source
    return JsonResponse(
        {"signed_in": find_token(read_secret(request.scope)) is not None}, headers={"Cache-Control": "no-store"}
    )


@router.post("/logout")
def log_out(request: Request) -> Any:
    """Remove the cookie."""
    if not is_same_origin(request.scope):
        return problem_response(request_error("foreign_origin", "Sign out on the page of this server."))
    response = JsonResponse({})
    _set_cookie(request, response, "", 0)
    return response


def _set_cookie(request: Request, response: Response, value: str, seconds: int) -> None:
    secure = request.headers.get("origin", "").startswith("https:")
    response.headers["Cache-Control"] = "no-store"
    response.set_cookie(
        cookie_name(request.headers), value, seconds, path="/", secure=secure, httponly=True, samesite="strict"
    )
