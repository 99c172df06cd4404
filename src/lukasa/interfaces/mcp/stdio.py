"""MCP over standard input and output, for one client. A line that is not a message gets an error, and serving goes on."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import BaseModel, ValidationError

from lukasa.interfaces.mcp.handshake import ClientOpening

if TYPE_CHECKING:
    from lukasa.interfaces.mcp.server import LukasaMcpServer

_READ_SIZE = 1 << 16
_DRAIN_SECONDS = 10.0
"""Seconds for the remaining answers after the client has closed its end."""
_HANDSHAKE_GRACE_SECONDS = 0.03
"""Seconds in which a second message that was sent already arrives."""


class StdinReader:
    """Standard input as lines. Pipes and sockets are awaited by the event loop, files are read in a thread."""

    def __init__(self, descriptor: int, already_read: bytes = b"") -> None:
        self._descriptor = descriptor
        self._already_read = already_read
        mode = os.fstat(descriptor).st_mode
        self._is_waitable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._lines: deque[bytes] = deque()
        self._line_parts: list[bytes] = []
        self._ended = False

    async def read_line(self) -> str | None:
        """Return the next line without its newline, or ``None`` at the end. A cancelled call loses no input."""
        while not self._lines and not self._ended:
            chunk = await self._read_chunk()
            first, *others = chunk.split(b"\n")
            self._line_parts.append(first)
            for part in others:
                self._lines.append(b"".join(self._line_parts))
                self._line_parts = [part]
            self._ended = not chunk
            if self._ended and any(self._line_parts):
                self._lines.append(b"".join(self._line_parts))
        return self._lines.popleft().decode("utf-8", "replace") if self._lines else None

    async def _read_chunk(self) -> bytes:
        if chunk := self._already_read:
            self._already_read = b""
            return chunk
        if not self._is_waitable:
            return await anyio.to_thread.run_sync(os.read, self._descriptor, _READ_SIZE)
        await anyio.wait_readable(self._descriptor)
        return os.read(self._descriptor, _READ_SIZE)


class StdoutWriter:
    """Standard output for messages. Short ones are written at once, long ones in a thread, because they may block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = anyio.Lock()

    async def write(self, message: BaseModel) -> None:
        """Write a message as one line of JSON. A pipe that is ready takes ``PIPE_BUF`` bytes without blocking."""
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._lock:
            with suppress(BrokenPipeError):  # the client is gone; the end of standard input stops the server
                if len(data) <= select.PIPE_BUF and select.select((), (self._descriptor,), (), 0)[1]:
                    os.write(self._descriptor, data)
                else:
                    await anyio.to_thread.run_sync(self._write_all, data)

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


@contextmanager
def _claim_stdout() -> Iterator[StdoutWriter]:
    """Reserve standard output for the protocol. Other output goes to standard error meanwhile."""
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        yield StdoutWriter(original)
    finally:
        os.dup2(original, 1)
        os.close(original)


async def serve(server: LukasaMcpServer, opening: ClientOpening = ClientOpening()) -> None:  # noqa: B008 - immutable
    """Serve until the client closes standard input. Requests that were sent before are still answered.

    ``opening`` is what was read of the input before; the request that was answered then is not answered again.
    """
    stdin = StdinReader(0, opening.data)
    answered = {opening.answered_id} - {None}
    to_server, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    unanswered: set[object] = set()

    async def forward_requests(stdout: StdoutWriter) -> None:
        async with to_server:
            pending = await _read_opening_messages(stdin, stdout)
            while message := pending.popleft() if pending else await _read_message(stdin, stdout):
                if getattr(message.message, "method", ""):
                    unanswered.add(getattr(message.message, "id", None))
                await to_server.send(message)
            with anyio.move_on_after(_DRAIN_SECONDS):
                while unanswered - {None}:
                    await anyio.sleep(0.01)

    async def forward_answers(stdout: StdoutWriter) -> None:
        async for answer in from_server:
            id = None if getattr(answer.message, "method", "") else getattr(answer.message, "id", None)
            if id in answered:
                answered.clear()
            else:
                await stdout.write(answer.message)
            unanswered.discard(id)

    with _claim_stdout() as stdout, server.upkeep:
        async with requests, answers, from_server, anyio.create_task_group() as group:
            group.start_soon(forward_requests, stdout)
            group.start_soon(forward_answers, stdout)
            await _run_session(server, requests, answers)
            group.cancel_scope.cancel()


async def _run_session(server: MCPServer[Any], requests: Any, answers: Any) -> None:
    """Run the protocol over two streams.

    The public methods of ``MCPServer`` serve only the SDK's own transports, so this uses its private low-level server.
    """
    low_level = server._lowlevel_server
    await low_level.run(requests, answers, low_level.create_initialization_options())


async def _read_opening_messages(stdin: StdinReader, stdout: StdoutWriter) -> deque[SessionMessage]:
    """Return the first messages of the client without a stale ``server/discover``.

    A client may ask for the protocol version, stop waiting while this process starts, and send ``initialize`` instead.
    Both messages are then in the input. An answer to the first one would fix a protocol that the client no longer uses.
    """
    first = await _read_message(stdin, stdout)
    second: SessionMessage | None = None
    if first is not None and getattr(first.message, "method", "") == "server/discover":
        with anyio.move_on_after(_HANDSHAKE_GRACE_SECONDS):
            second = await _read_message(stdin, stdout)
        if second is not None and getattr(second.message, "method", "") == "initialize":
            first = None
    return deque(message for message in (first, second) if message is not None)


async def _read_message(stdin: StdinReader, stdout: StdoutWriter) -> SessionMessage | None:
    """Return the next message, or ``None`` at the end. Answers lines that are not a message with an error."""
    while (line := await stdin.read_line()) is not None:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except (ValueError, RecursionError) as error:
            await stdout.write(invalid_message_error(error))
    return None


def invalid_message_error(error: Exception) -> JSONRPCError:
    """Return the protocol's error for a line that is not JSON, or is JSON of another shape."""
    is_json = isinstance(error, ValidationError) and all(fault["type"] != "json_invalid" for fault in error.errors())
    code = INVALID_REQUEST if is_json else PARSE_ERROR
    message = "The message is not a JSON-RPC request." if is_json else "The line is not JSON."
    return JSONRPCError(jsonrpc="2.0", id=_find_request_id(error), error=ErrorData(code=code, message=message))


def _find_request_id(error: Exception) -> int | str | None:
    """Return the request id in an invalid message, if there is one, so that the client can match the error."""
    if not isinstance(error, ValidationError):
        return None
    inputs = [fault["input"] for fault in error.errors()]
    message = next((value for value in inputs if isinstance(value, dict)), None)
    if message is None and inputs and isinstance(inputs[0], str):
        try:
            message = json.loads(inputs[0])
        except (ValueError, RecursionError):
            return None
    id = message.get("id") if isinstance(message, dict) else None
    return id if type(id) is int or (isinstance(id, str) and id.isprintable()) else None
