"""``/v1/events``: what was written after a position, as a page, a long poll or a stream of server-sent events.

A position of the log is durable and only grows, so a reader that continues after the last position it saw misses
nothing, whichever server it asks.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse

from lukasa.core.canonical_json import encode
from lukasa.core.record import Record
from lukasa.interfaces.http.requests import MAX_ITEMS, CallerMemory, WholeNumber
from lukasa.interfaces.http.responses import JsonResponse, declare_answer
from lukasa.interfaces.serialise import to_json
from lukasa.memory import Memory
from lukasa.storage.engine import Query as RecordQuery

router = APIRouter(prefix="/v1/events", tags=["events"])

POLL_SECONDS = 0.05
KEEP_ALIVE_SECONDS = 15.0
MAX_STREAM_SECONDS = 3_600.0


@router.get("", responses=declare_answer("EventPage", "events:list[Record] position:int", Record))
async def list_events(
    request: Request,
    memory: CallerMemory,
    after: Annotated[
        WholeNumber | None, Query(ge=0, le=2**62, description="Return what was written after this position.")
    ] = None,
    kind: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 - FastAPI copies the default
    scope: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    limit: Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)] = 100,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the first event.")] = 0,
    last_event_id: Annotated[str | None, Header()] = None,
    accept: Annotated[str, Header()] = "",
) -> Any:
    """Return the events after a position. ``Accept: text/event-stream`` opens a stream that continues by Last-Event-ID."""
    if last_event_id is not None and last_event_id.isdecimal():
        after = int(last_event_id[:18])
    position = await anyio.to_thread.run_sync(memory.journal.tip) if after is None else after
    query = RecordQuery(kinds=tuple(kind), scopes=tuple(scope), every_version=True, limit=limit)
    if "text/event-stream" in accept:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(request, memory, query, position), 200, headers, "text/event-stream")
    deadline = time.monotonic() + wait
    found = await _read_after(memory, query, position)
    while not found and time.monotonic() < deadline and not await request.is_disconnected():
        await anyio.sleep(POLL_SECONDS)
        found = await _read_after(memory, query, position)
    return JsonResponse({"events": found, "position": found[-1].seq if found else position})


async def _read_after(memory: Memory, query: RecordQuery, position: int) -> list[Record]:
    return await anyio.to_thread.run_sync(lambda: list(memory.journal.read(replace(query, after=position))))


async def _stream(request: Request, memory: Memory, query: RecordQuery, position: int) -> AsyncIterator[bytes]:
    """Yield events until the reader leaves. The reader comes back with its last position, so nothing is kept for it."""
    began = last_sent = time.monotonic()
    yield b"retry: 1000\n\n"
    while time.monotonic() - began < MAX_STREAM_SECONDS and not await request.is_disconnected():
        for record in await _read_after(memory, query, position):
            position = record.seq
            event = b"deleted" if record.deleted else b"created" if record.version == 1 else b"updated"
            yield b"id: %d\nevent: %s\ndata: %s\n\n" % (position, event, encode(to_json(record)))
            last_sent = time.monotonic()
        if time.monotonic() - last_sent > KEEP_ALIVE_SECONDS:
            yield b": keep alive\n\n"
            last_sent = time.monotonic()
        await anyio.sleep(POLL_SECONDS)
