"""Serving one client over standard input and output. What is not a message gets an error, and the server goes on."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

_ATOMIC_WRITE_BYTES = getattr(select, "PIPE_BUF", -1)
"""Bytes that a pipe which can be written takes whole; none where the system does not say."""
_READ_SIZE = 1 << 16
_DRAIN_SECONDS = 10.0
"""Seconds that are left for answers once the client has closed its end."""
_HANDSHAKE_GRACE_SECONDS = 0.03
"""Seconds within which two messages that wait already have been read."""


class StdinLines:
    """Standard input, read as soon as something has come; no thread stands between."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, without what ends them; the last one also if nothing does."""
        begun: list[bytes] = []
        while piece := await self._read_chunk():
            *whole, rest = piece.split(b"\n")
            for line in whole:
                yield b"".join((*begun, line)).decode("utf-8", "replace")
                begun.clear()
            begun.append(rest)
        if any(begun):
            yield b"".join(begun).decode("utf-8", "replace")

    async def _read_chunk(self) -> bytes:
        await anyio.wait_readable(self._descriptor)
        return os.read(self._descriptor, _READ_SIZE)


def _open_stdin() -> StdinLines | None:
    """Standard input where one can wait for it: not a file, and not on Windows."""
    if sys.platform == "win32":
        return None
    mode = os.fstat(0).st_mode
    return StdinLines(0) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


class StdoutWriter:
    """Standard output, written at once where that cannot block, and in a thread where it can."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""

    async def write(self, text: str) -> None:
        """Takes what the next ``flush`` sends."""
        self._pending += text.encode()

    async def flush(self) -> None:
        """Sends what was written. A pipe that can be written takes so many bytes without waiting."""
        data, self._pending = self._pending, b""
        with suppress(BrokenPipeError):  # a client that is gone has closed its other end too, which ends the server
            if len(data) <= _ATOMIC_WRITE_BYTES and select.select((), (self._descriptor,), (), 0)[1]:
                os.write(self._descriptor, data)
            else:
                await anyio.to_thread.run_sync(self._send, data)

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


@contextmanager
def _claim_stdout() -> Iterator[StdoutWriter]:
    """Standard output for the protocol alone: what anybody else prints meanwhile goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield StdoutWriter(kept)
    finally:
        os.dup2(kept, 1)
        os.close(kept)


async def serve(server: MCPServer[Any]) -> None:
    """Serves until the client closes its end."""
    low = server._lowlevel_server
    with _claim_stdout() as wire:
        await _relay_messages(low, wire)


async def _relay_messages(server: Any, stdout: StdoutWriter) -> None:
    streams = {
        "stdin": cast("anyio.AsyncFile[str] | None", _open_stdin()),
        "stdout": cast("anyio.AsyncFile[str]", stdout),
    }
    async with stdio_server(**streams) as (received, written):
        passing, read = create_context_streams[SessionMessage | Exception](0)
        answering, answers = create_context_streams[SessionMessage](0)
        waiting: set[object] = set()

        async def forward_requests() -> None:
            async with passing:
                for item in await _read_opening_messages(received, written):
                    waiting.add(getattr(item.message, "id", None))
                    await passing.send(item)
                async for item in received:
                    if isinstance(item, Exception):
                        await written.send(SessionMessage(invalid_message_error(item)))
                    else:
                        waiting.add(getattr(item.message, "id", None))
                        await passing.send(item)
                with anyio.move_on_after(_DRAIN_SECONDS):  # whoever asked and hung up is answered all the same
                    while waiting - {None}:
                        await anyio.sleep(0.01)

        async def forward_answers() -> None:
            async for item in answers:
                await written.send(item)
                waiting.discard(getattr(item.message, "id", None))

        async with anyio.create_task_group() as group:
            group.start_soon(forward_requests)
            group.start_soon(forward_answers)
            await server.run(read, answering, server.create_initialization_options())
            group.cancel_scope.cancel()
        await written.aclose()


async def _read_opening_messages(incoming: Any, outgoing: Any) -> list[SessionMessage]:
    """The messages that open the conversation.

    A client may ask which protocol is spoken, tire of waiting while this process starts, and go on with the older
    handshake. Both then wait here together. To answer the stale question would bind the conversation to a protocol that
    the client no longer means, so it is passed over.
    """
    first = await _read_message(incoming, outgoing)
    if first is None:
        return []
    second: SessionMessage | None = None
    if _method_name(first) == "server/discover":
        with anyio.move_on_after(_HANDSHAKE_GRACE_SECONDS):
            second = await _read_message(incoming, outgoing)
    if second is None:
        return [first]
    return [second] if _method_name(second) == "initialize" else [first, second]


def _method_name(item: SessionMessage) -> str:
    return getattr(item.message, "method", "")


async def _read_message(incoming: Any, outgoing: Any) -> SessionMessage | None:
    """The next message; what is none is answered on the way. Nothing at the end."""
    async for item in incoming:
        if not isinstance(item, Exception):
            return item  # type: ignore[no-any-return]  # the SDK's streams are not typed here
        await outgoing.send(SessionMessage(invalid_message_error(item)))
    return None


def invalid_message_error(error: Exception) -> JSONRPCError:
    """The protocol's error for a line that is no message: not JSON, or JSON of another shape."""
    parsed = isinstance(error, ValidationError) and all(fault["type"] != "json_invalid" for fault in error.errors())
    code = INVALID_REQUEST if parsed else PARSE_ERROR
    told = "The message is not a JSON-RPC request." if parsed else "The line is not JSON."
    return JSONRPCError(jsonrpc="2.0", id=_request_id(error), error=ErrorData(code=code, message=told))


def _request_id(error: Exception) -> int | str | None:
    """The id that a line names in spite of all, so that whoever waits for it is answered."""
    if not isinstance(error, ValidationError):
        return None
    seen = [fault["input"] for fault in error.errors()]
    told = next((each for each in seen if isinstance(each, dict)), None)
    if told is None and seen and isinstance(seen[0], str):
        try:
            told = json.loads(seen[0])
        except (ValueError, RecursionError):
            return None
    id = told.get("id") if isinstance(told, dict) else None
    return id if type(id) is int or (isinstance(id, str) and id.isprintable()) else None
