"""Metrics of the server for Prometheus, and its access log."""

from __future__ import annotations

import logging
import time
from collections import Counter as Count

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.memory import Memory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REGISTRY = CollectorRegistry()
_requests = Counter("lukasa_http_requests_total", "Requests", ("method", "route", "status"), registry=REGISTRY)
_seconds = Histogram("lukasa_http_request_seconds", "Time until the response began", ("route",), registry=REGISTRY)
_records = Gauge("lukasa_records", "Current records that the token may read", ("kind",), registry=REGISTRY)
_access_log = logging.getLogger("lukasa.access")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """ASGI middleware that counts and logs requests by route: no query, no body, no token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                elapsed = time.perf_counter() - began
                route = getattr(scope.get("route"), "path", "unknown")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                _requests.labels(method, route, message["status"]).inc()
                _seconds.labels(route).observe(elapsed)
                _access_log.info("%s %s %d %.1f ms", method, route, message["status"], 1000 * elapsed)
            await send(message)

        await self._app(scope, receive, send_counted)


def render_metrics(memory: Memory) -> bytes:
    """Return all metrics as text, with the current number of records."""
    counts: Count[str] = Count()
    for row in memory.journal.tally():
        counts[row.kind] += row.live
    _records.clear()
    for kind, live in counts.items():
        _records.labels(kind).set(live)
    return bytes(generate_latest(REGISTRY))
