"""Metrics of the server for Prometheus."""

from __future__ import annotations

from collections import Counter as Count

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lukasa.memory import Memory, declared_kinds

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REGISTRY = CollectorRegistry()
REQUESTS = Counter("lukasa_http_requests_total", "Requests", ("method", "route", "status"), registry=REGISTRY)
SECONDS = Histogram("lukasa_http_request_seconds", "Time until the response began", ("route",), registry=REGISTRY)
_records = Gauge("lukasa_records", "Current records that the token may read", ("kind",), registry=REGISTRY)


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
