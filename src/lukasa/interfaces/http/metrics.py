"""Metrics of the server for Prometheus, and its access log."""

from __future__ import annotations

import logging
import time
import traceback
from collections import Counter as Count

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.interfaces.auth import TOKEN_KEY
from lukasa.interfaces.http.responses import problem_response
from lukasa.interfaces.outcomes import outcome_of
from lukasa.memory import Memory, declared_kinds

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REGISTRY = CollectorRegistry()
_requests = Counter("lukasa_http_requests_total", "Requests", ("method", "route", "status"), registry=REGISTRY)
_seconds = Histogram("lukasa_http_request_seconds", "Time until the response began", ("route",), registry=REGISTRY)
_records = Gauge("lukasa_records", "Current records that the token may read", ("kind",), registry=REGISTRY)
_access_log = logging.getLogger("lukasa.access")
_log = logging.getLogger(__name__)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """ASGI middleware that counts and logs requests by route: no query, no body, no token.

    An error that no handler answered is logged by its type and place alone, because its message may quote a memory.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                elapsed = time.perf_counter() - began
                method, route = method_of(scope), route_of(scope)
                _requests.labels(method, route, status).inc()
                _seconds.labels(route).observe(elapsed)
                if _access_log.isEnabledFor(logging.INFO):
                    token, trace = scope.get(TOKEN_KEY), _trace_id(scope)
                    name = "-" if token is None else token.name
                    _access_log.info("%s %s %d %.1f ms %r trace=%s", method, route, status, 1000 * elapsed, name, trace)
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except Exception as error:  # noqa: BLE001 - every request gets an answer
            place = "".join(traceback.format_tb(error.__traceback__)[-3:])
            _log.error("A request failed: %s\n%s", type(error).__name__, place)
            if not status:
                await problem_response(outcome_of(error, public=True))(scope, receive, send_counted)


def method_of(scope: Scope) -> str:
    """Return the method of a request, or "other" for one that HTTP does not know."""
    return scope["method"] if scope["method"] in _METHODS else "other"


def route_of(scope: Scope) -> str:
    """Return the path of a request's route, with names in place of values."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _trace_id(scope: Scope) -> str:
    """Return the trace id in the W3C header ``traceparent``, or "-"."""
    parts = Headers(scope=scope).get("traceparent", "").split("-")
    is_valid = list(map(len, parts)) == [2, 32, 16, 2] and set("0123456789abcdef-").issuperset("-".join(parts))
    return parts[1] if is_valid else "-"


def render_metrics(memory: Memory) -> bytes:
    """Return all metrics as text, with the current number of records. Kinds that a caller has named are counted together."""
    counts: Count[str] = Count()
    known = declared_kinds()
    for row in memory.journal.tally():
        counts[row.kind if row.kind in known else "other"] += row.live
    _records.clear()
    for kind, live in counts.items():
        _records.labels(kind).set(live)
    return bytes(generate_latest(REGISTRY))
