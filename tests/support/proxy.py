"""A TCP proxy in front of a PostgreSQL server that cuts connections at chosen points.

    with Proxy(server.port) as proxy:
        engine = PostgresEngine(server.url(name, port=proxy.port))
        with proxy.cut_requests("answer", matching=b"COMMIT"):
            engine.append(...)  # the server committed, and the client got no answer

The proxy reads enough of the protocol to know where a request ends and when its answer is complete. A connection can be
cut before the server receives a request, in the middle of it, and after the server has executed it. A planned cut that
never happens raises ``FaultNotReached``.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from support.faulty_disk import FaultNotReached

CutPoint = Literal["request", "halfway", "sent", "answer"]
"""Where the connection is cut: before a request is forwarded, in the middle of it, right after it, or when the server has
answered in full and nothing of the answer was forwarded."""

_ENCRYPTION_REQUESTS = (80877103, 80877104)  # the client asks for TLS or GSS encryption
_REQUEST_END_FRAMES = frozenset(
    b"QSFpc"
)  # frames after which a client waits: query, sync, function call, password, end of copy
_COPY_DONE, _SYNC = ord("c"), ord("S")
_PARTIAL_FRAMES = frozenset(b"PBDECdf")  # frames that wait for more: parse, bind, describe, execute, close, copied data
_ANSWER_END_FRAMES = frozenset(b"ZGWR")  # frames after which a server waits: ready, copy in, copy both, authentication
_HEADER_SIZE = 5
_CHUNK_SIZE = 1 << 16
_LINGER_RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class ConnectionCut:
    """A planned cut and how often it has happened. ``then`` is called just before the connection is cut."""

    where: CutPoint
    matching: bytes
    nth: int
    times: int | None
    then: Callable[[], object] | None = None
    seen_count: int = 0
    reached_count: int = 0

    def should_cut(self, request: bytes) -> bool:
        """Count a matching request, and tell whether it is cut."""
        if self.matching not in request:
            return False
        self.seen_count += 1
        if self.seen_count < self.nth or (self.times is not None and self.reached_count >= self.times):
            return False
        self.reached_count += 1
        return True


class Proxy:
    """Forwards connections to a port of this machine.

    ``hook`` is called with every request before it is forwarded, and may delay it.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._cut: ConnectionCut | None = None
        self._connections: set[_ProxiedConnection] = set()
        self._traffic_allowed = threading.Event()
        self._traffic_allowed.set()
        self._is_refusing = False
        self._closed = False
        self.hook: Callable[[bytes], object] | None = None
        self.request_count = 0
        self.refused_count = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._accept_thread = threading.Thread(target=self._accept_connections, name="proxy", daemon=True)
        self._accept_thread.start()

    @contextmanager
    def cut_requests(
        self,
        where: CutPoint,
        *,
        nth: int = 1,
        matching: bytes = b"",
        times: int | None = 1,
        then: Callable[[], object] | None = None,
    ) -> Iterator[ConnectionCut]:
        """Cut the ``nth`` request that contains ``matching``, and those after it up to ``times``, during the block.

        Raise ``FaultNotReached`` at the end of a block in which nothing was cut.
        """
        cut = ConnectionCut(where, matching, nth, times, then)
        with self._lock:
            self._cut = cut
        try:
            yield cut
        finally:
            with self._lock:
                self._cut = None
        if not cut.reached_count:
            raise FaultNotReached(f"{cut.seen_count} requests of this sort were made, none was cut: {cut}")

    @contextmanager
    def block_traffic(self) -> Iterator[None]:
        """Forward nothing during the block and close nothing, as a network that drops all packets."""
        self._traffic_allowed.clear()
        try:
            yield
        finally:
            self._traffic_allowed.set()

    @contextmanager
    def refuse_connections(self) -> Iterator[None]:
        """Drop all connections, and close new ones at once during the block."""
        self._is_refusing = True
        try:
            self.drop()
            yield
        finally:
            self._is_refusing = False

    def drop(self) -> int:
        """Cut every connection and return their number."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()
        return len(connections)

    def close(self) -> None:
        """Cut every connection and stop listening."""
        self._closed = True
        self._traffic_allowed.set()
        with suppress(OSError):  # wakes the accepting thread; fails if the listener is closed
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accept_thread.join(10)
        self.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept_connections(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                self.refused_count += 1
                _reset_socket(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                _reset_socket(client)
                continue
            server.settimeout(None)
            connection = _ProxiedConnection(self, client, server)
            with self._lock:
                self._connections.add(connection)
            connection.start()

    def _wait_for_traffic(self) -> None:
        self._traffic_allowed.wait()

    def _match_cut(self, request: bytes) -> ConnectionCut | None:
        with self._lock:
            self.request_count += 1
            cut = self._cut
            return cut if cut is not None and cut.should_cut(request) else None

    def _remove_connection(self, connection: _ProxiedConnection) -> None:
        with self._lock:
            self._connections.discard(connection)


class _ProxiedConnection:
    """A client's connection through the proxy, with a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._open_requests = 0
        self._pending_cut: ConnectionCut | None = (
            None  # answers are held until the last is complete; then the connection is cut
        )
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for direction in (self._pass_requests, self._pass_answers):
            threading.Thread(
                target=self._run_direction, args=(direction,), name="proxy connection", daemon=True
            ).start()

    def close(self) -> None:
        """Reset the connection on both sides."""
        _reset_socket(self._client)
        _reset_socket(self._server)
        self._proxy._remove_connection(self)

    def _run_direction(self, direction: Callable[[], None]) -> None:
        with suppress(OSError, EOFError):  # either side may close at any time
            direction()
        self.close()

    def _pass_requests(self) -> None:
        first = self._read_startup()
        self._forward_request(first)
        request = bytearray()
        asked = 0
        while True:
            kind, frame = _read_frame(self._client)
            request += frame
            if kind == _COPY_DONE and asked == _SYNC:
                continue  # another sync follows
            if kind in _REQUEST_END_FRAMES:
                asked = kind
                self._forward_request(bytes(request))
                request.clear()
            elif len(request) > _CHUNK_SIZE or kind not in _PARTIAL_FRAMES:
                self._proxy._wait_for_traffic()
                self._server.sendall(request)
                request.clear()

    def _read_startup(self) -> bytes:
        while True:
            head = _read_exactly(self._client, 8)
            length, code = struct.unpack("!ii", head)
            packet = head + _read_exactly(self._client, length - 8)
            if code not in _ENCRYPTION_REQUESTS:
                return packet
            self._client.sendall(b"N")

    def _forward_request(self, request: bytes) -> None:
        self._proxy._wait_for_traffic()
        if self._proxy.hook is not None:
            self._proxy.hook(request)
        cut = self._proxy._match_cut(request)
        if cut is None:
            self._open_requests += 1
            self._server.sendall(request)
        elif cut.where == "answer":
            self._open_requests += 1
            self._pending_cut = cut
            self._server.sendall(request)
        else:
            share = {"request": 0, "halfway": len(request) // 2, "sent": len(request)}[cut.where]
            self._server.sendall(request[:share])
            self._finish_cut(cut)

    def _pass_answers(self) -> None:
        while True:
            kind, frame = _read_frame(self._server)
            self._proxy._wait_for_traffic()
            swallowing = self._pending_cut
            if kind in _ANSWER_END_FRAMES and self._is_server_waiting(kind, frame):
                self._open_requests = max(0, self._open_requests - 1)
            if swallowing is None:
                self._client.sendall(frame)
            elif not self._open_requests:
                self._finish_cut(swallowing)

    def _finish_cut(self, cut: ConnectionCut) -> None:
        if cut.then is not None:
            cut.then()
        raise EOFError

    @staticmethod
    def _is_server_waiting(kind: int, frame: bytes) -> bool:
        """Tell whether the server now waits for the client; after the last authentication message it does not."""
        return kind != ord("R") or frame[_HEADER_SIZE:9] not in (b"\0\0\0\0", b"\0\0\0\x0c")


def _read_frame(source: socket.socket) -> tuple[int, bytes]:
    """Return the type and the bytes of the next message."""
    head = _read_exactly(source, _HEADER_SIZE)
    (length,) = struct.unpack("!i", head[1:])
    return head[0], head + _read_exactly(source, length - 4)


def _read_exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(min(size - len(data), _CHUNK_SIZE))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _reset_socket(side: socket.socket) -> None:
    with suppress(OSError):  # it may be closed already
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
    side.close()
