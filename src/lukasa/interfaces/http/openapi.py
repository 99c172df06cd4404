"""The description of the API at ``/openapi.json``: the routes, the token, and every type of problem."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from lukasa.interfaces.http.responses import BOOK
from lukasa.interfaces.outcomes import OUTCOMES, PROBLEM_PREFIX, REFUSALS

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
"""Paths that need no token. They show nothing of the store."""


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an app. It is built once, because that takes a second."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = app.openapi()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["components"]["schemas"] |= BOOK.components
    document["security"] = [{"token": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in OPEN_PATHS:
                operation["security"] = []
    document["x-problem-types"] = list_problem_types()
    app.openapi_schema = document
    return document


def list_problem_types() -> list[dict[str, Any]]:
    """List the types of problems with their statuses and what to do next."""
    rows = {row.problem_type: row for row in (*REFUSALS.values(), *OUTCOMES.values()) if row.problem_type}
    return [
        {"type": PROBLEM_PREFIX + name, "status": row.http_status, "next": row.agent_hint}
        for name, row in sorted(rows.items())
    ]
