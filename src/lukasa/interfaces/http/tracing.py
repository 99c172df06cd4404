"""Spans of requests for OpenTelemetry, sent to a collector that is named when the server starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import lukasa
from lukasa.interfaces.auth import TOKEN_KEY
from lukasa.interfaces.http.requests import method_of, route_of

_propagator = TraceContextTextMapPropagator()


@contextmanager
def open_tracer(collector_url: str) -> Iterator[Tracer]:
    """Yield a tracer that sends its spans to a collector (OTLP over HTTP) in the background, and the rest at the end."""
    provider = TracerProvider(
        resource=Resource.create({"service.name": "lukasa", "service.version": lukasa.__version__}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector_url, timeout=5)))
    try:
        yield provider.get_tracer("lukasa")
    finally:
        provider.shutdown()


class RequestTracing:
    """ASGI middleware that makes a span of each request: method, route, status and the token's name, nothing of its text.

    The span continues the trace of the header ``traceparent``.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._tracer.start_as_current_span(
            "request",
            _propagator.extract(dict(Headers(scope=scope))),
            SpanKind.SERVER,
            record_exception=False,  # its message may quote a memory
            set_status_on_exception=False,
        ) as span:

            async def send_noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    method, route, status = method_of(scope), route_of(scope), message["status"]
                    span.update_name(f"{method} {route}")
                    span.set_attributes(
                        {"http.request.method": method, "http.route": route, "http.response.status_code": status}
                    )
                    if token := scope.get(TOKEN_KEY):
                        span.set_attribute("enduser.id", token.name)
                    if status >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await self._app(scope, receive, send_noted)
