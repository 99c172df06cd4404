"""A TCP proxy before a PostgreSQL server that fails where it is told to.

    with Proxy(server.port) as proxy:
        engine = PostgresEngine(server.url(name, port=proxy.port))
        with proxy.cutting("answer", matching=b"COMMIT"):
            engine.append(...)  # the commit happened, and nobody told the client

It reads just enough of the protocol to know where a request ends and when its answer is complete, so a connection can
be cut before the server hears of a request, in the middle of it, and after the server has done it. A cut that was never
reached proves nothing, so ``cutting`` complains about one.
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

from lukasa.testing.faults import FaultNotReached

Where = Literal["request", "halfway", "sent", "answer"]
"""Where the line is cut: before a request is passed on, in the middle of passing it on, right after, or when the server
has answered it in full and nothing of the answer was passed back."""

_PLAINTEXT_ONLY = (80877103, 80877104)  # the client asks for TLS or GSS encryption
_ASKS = frozenset(b"QSFpc")  # frames after which a client waits: query, sync, function call, password, end of copy
_COPIED, _SYNC = ord("c"), ord("S")
_PARTS = frozenset(b"PBDECdf")  # frames that wait for more: parse, bind, describe, execute, close, copied data
_ANSWERS = frozenset(b"ZGWR")  # frames after which a server waits: ready, copy in, copy both, authentication
_SHORTEST = 5
_AT_ONCE = 1 << 16
_RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class Cut:
    """Where connections are cut, and how often that has happened. ``then`` is called when the line is about to go."""

    where: Where
    matching: bytes
    nth: int
    times: int | None
    then: Callable[[], object] | None = None
    seen: int = 0
    reached: int = 0

    def strikes(self, request: bytes) -> bool:
        """Counts the request if it is of the sort that is waited for, and says whether it is the one."""
        if self.matching not in request:
            return False
        self.seen += 1
        if self.seen < self.nth or (self.times is not None and self.reached >= self.times):
            return False
        self.reached += 1
        return True


class Proxy:
    """Passes connections on to a port of this machine, until it is told to fail.

    ``hook`` is called with every request before it is passed on, and can hold it up.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._door = threading.Lock()
        self._cut: Cut | None = None
        self._lines: set[_Line] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._away = False
        self._closed = False
        self.hook: Callable[[bytes], object] | None = None
        self.requests = 0
        self.refused = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._doorman = threading.Thread(target=self._welcome, name="proxy", daemon=True)
        self._doorman.start()

    @contextmanager
    def cutting(
        self,
        where: Where,
        *,
        nth: int = 1,
        matching: bytes = b"",
        times: int | None = 1,
        then: Callable[[], object] | None = None,
    ) -> Iterator[Cut]:
        """Within the block the ``nth`` request that contains ``matching``, and those after it up to ``times``, are cut.

        Raises ``FaultNotReached`` at the end of a block in which nothing was cut.
        """
        cut = Cut(where, matching, nth, times, then)
        with self._door:
            self._cut = cut
        try:
            yield cut
        finally:
            with self._door:
                self._cut = None
        if not cut.reached:
            raise FaultNotReached(f"{cut.seen} requests of this sort were made, none was cut: {cut}")

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Within the block nothing gets through, and nobody is told: a network that swallows everything."""
        self._flowing.clear()
        try:
            yield
        finally:
            self._flowing.set()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Within the block there is nobody here: connections are dropped, and new ones closed at once."""
        self._away = True
        try:
            self.drop()
            yield
        finally:
            self._away = False

    def drop(self) -> int:
        """Cuts every connection now; returns how many there were."""
        with self._door:
            lines = list(self._lines)
        for line in lines:
            line.cut()
        return len(lines)

    def close(self) -> None:
        """Cuts everything and listens no more."""
        self._closed = True
        self._flowing.set()
        with suppress(OSError):  # wakes the doorman; a listener that is closed already has none
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._doorman.join(10)
        self.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _welcome(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._away:
                self.refused += 1
                _hang_up(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                _hang_up(client)
                continue
            server.settimeout(None)
            line = _Line(self, client, server)
            with self._door:
                self._lines.add(line)
            line.open()

    def _wait(self) -> None:
        self._flowing.wait()

    def _struck(self, request: bytes) -> Cut | None:
        with self._door:
            self.requests += 1
            cut = self._cut
            return cut if cut is not None and cut.strikes(request) else None

    def _forget(self, line: _Line) -> None:
        with self._door:
            self._lines.discard(line)


class _Line:
    """One client's connection through the proxy: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._unanswered = 0
        self._swallowing: Cut | None = (
            None  # answers are kept from the client until the last is complete; then the line is cut
        )
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def open(self) -> None:
        for way in (self._ask, self._answer):
            threading.Thread(target=self._pump, args=(way,), name="proxy line", daemon=True).start()

    def cut(self) -> None:
        """Ends the connection for both sides at once, without a good-bye."""
        _hang_up(self._client)
        _hang_up(self._server)
        self._proxy._forget(self)

    def _pump(self, way: Callable[[], None]) -> None:
        with suppress(OSError, EOFError):  # either side may leave at any time
            way()
        self.cut()

    def _ask(self) -> None:
        first = self._greeting()
        self._pass_on(first)
        request = bytearray()
        asked = 0
        while True:
            kind, frame = _frame(self._client)
            request += frame
            if kind == _COPIED and asked == _SYNC:
                continue  # another sync follows
            if kind in _ASKS:
                asked = kind
                self._pass_on(bytes(request))
                request.clear()
            elif len(request) > _AT_ONCE or kind not in _PARTS:
                self._proxy._wait()
                self._server.sendall(request)
                request.clear()

    def _greeting(self) -> bytes:
        while True:
            head = _exactly(self._client, 8)
            length, code = struct.unpack("!ii", head)
            packet = head + _exactly(self._client, length - 8)
            if code not in _PLAINTEXT_ONLY:
                return packet
            self._client.sendall(b"N")

    def _pass_on(self, request: bytes) -> None:
        self._proxy._wait()
        if self._proxy.hook is not None:
            self._proxy.hook(request)
        cut = self._proxy._struck(request)
        if cut is None:
            self._unanswered += 1
            self._server.sendall(request)
        elif cut.where == "answer":
            self._unanswered += 1
            self._swallowing = cut
            self._server.sendall(request)
        else:
            share = {"request": 0, "halfway": len(request) // 2, "sent": len(request)}[cut.where]
            self._server.sendall(request[:share])
            self._end(cut)

    def _answer(self) -> None:
        while True:
            kind, frame = _frame(self._server)
            self._proxy._wait()
            swallowing = self._swallowing
            if kind in _ANSWERS and self._ends(kind, frame):
                self._unanswered = max(0, self._unanswered - 1)
            if swallowing is None:
                self._client.sendall(frame)
            elif not self._unanswered:
                self._end(swallowing)

    def _end(self, cut: Cut) -> None:
        if cut.then is not None:
            cut.then()
        raise EOFError

    @staticmethod
    def _ends(kind: int, frame: bytes) -> bool:
        """Whether the server now waits; of the messages on authentication, the last one is not followed by a wait."""
        return kind != ord("R") or frame[_SHORTEST:9] not in (b"\0\0\0\0", b"\0\0\0\x0c")


def _frame(source: socket.socket) -> tuple[int, bytes]:
    """The next message: its type, and all of it."""
    head = _exactly(source, _SHORTEST)
    (length,) = struct.unpack("!i", head[1:])
    return head[0], head + _exactly(source, length - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(min(size - len(data), _AT_ONCE))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _hang_up(side: socket.socket) -> None:
    with suppress(OSError):  # it may be closed already
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
    side.close()
