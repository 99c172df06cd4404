"""The hook daemon: answers requests of hook clients, processes queued events, and ends when idle.

A lock makes sure that there is one daemon for each store and caller. It listens before it loads the library, so that the
client that started it can connect. It writes errors to a log file, never to the agent's terminal.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lukasa.interfaces.hooks.client import LEFT_EVENT, RECEIVED, HookEndpoint

if TYPE_CHECKING:
    from lukasa.interfaces.hooks.handlers import HookHandlers

IDLE_TIMEOUT = 900.0
"""Seconds without a request after which the daemon ends."""
_POLL_SECONDS = 20.0
_MAX_ATTEMPTS = 20
_MAX_FAILED_EVENTS = 50
_MAX_MESSAGE_BYTES = 10_000_000
_MAX_LOG_BYTES = 200_000


class HookDaemon:
    """The server of one hook endpoint."""

    def __init__(self, endpoint: HookEndpoint, *, idle_timeout: float = IDLE_TIMEOUT) -> None:
        self._endpoint = endpoint
        self._socket_path = Path(endpoint.address)
        self._idle_timeout = idle_timeout
        self._last_activity = time.monotonic()
        self._wake_queue: queue.Queue[None] = queue.Queue()
        self._stopped = threading.Event()
        self._attempts: dict[str, int] = {}
        self._last_error = ""
        self._handlers_lock = threading.Lock()
        self._handlers: HookHandlers | None = None

    def run(self) -> None:
        """Serve until idle. Returns at once if another daemon serves this endpoint."""
        with _try_lock(Path(self._endpoint.path(".lock"))) as locked:
            if not locked:
                return
            listener = self._listen()
            threading.Thread(target=self._run_queue_worker, daemon=True).start()
            try:
                self._accept_connections(listener)
            finally:
                self._stopped.set()
                listener.close()
                with contextlib.suppress(OSError):
                    self._socket_path.unlink()
                if self._handlers is not None:
                    self._handlers.close()

    def _listen(self) -> socket.socket:
        self._socket_path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._socket_path))
        listener.listen(64)
        listener.settimeout(1.0)
        Path(self._endpoint.start_marker).unlink(missing_ok=True)
        return listener

    def _accept_connections(self, listener: socket.socket) -> None:
        """Accept connections until the daemon is idle or its socket is deleted."""
        while time.monotonic() - self._last_activity < self._idle_timeout and self._socket_path.exists():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            self._last_activity = time.monotonic()
            threading.Thread(target=self._handle_connection, args=(connection,), daemon=True).start()

    def _handle_connection(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(5.0)
                size = int.from_bytes(_receive_exactly(connection, 8), "big")
                event, _, payload = _receive_exactly(connection, min(size, _MAX_MESSAGE_BYTES)).partition(b"\n")
                if event == b"wake":
                    self._wake_queue.put(None)
                    connection.sendall(bytes(8))
                    return
                answer = self._open_handlers().answer(event.decode(), payload)
                connection.sendall(len(answer.text).to_bytes(8, "big") + answer.text)
                if not answer.text or _receive_exactly(connection, len(RECEIVED)) == RECEIVED:
                    answer.on_delivered()
                if event == b"session-start":
                    self._endpoint.enqueue(LEFT_EVENT, payload)
                if event in (b"stop", b"session-start"):
                    self._wake_queue.put(None)
            except (ConnectionError, TimeoutError):
                return  # the client did not wait for the answer
            except Exception as error:  # noqa: BLE001 - a failed request is not answered
                self._log_error(error)

    def _open_handlers(self) -> HookHandlers:
        with self._handlers_lock:
            if self._handlers is None:
                from lukasa.config import limit_numpy_threads

                limit_numpy_threads()
                from lukasa.interfaces.hooks.handlers import HookHandlers

                endpoint = self._endpoint
                self._handlers = HookHandlers(
                    endpoint.store or None, endpoint.agent, endpoint.scopes, is_found=endpoint.is_found
                )
            return self._handlers

    def _run_queue_worker(self) -> None:
        """Process queued events: at the start, when a client reports one, and at intervals."""
        with contextlib.suppress(Exception):
            self._open_handlers().warm_up()
        while not self._stopped.is_set():
            self._process_queued_events()
            try:
                self._wake_queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:  # idle: a good time for upkeep
                try:
                    self._open_handlers().run_jobs()
                except Exception as error:  # noqa: BLE001 - the next idle time tries again
                    self._log_error(error)

    def _process_queued_events(self) -> None:
        folder = Path(self._endpoint.queue)
        for path in sorted(folder.glob("*.event")) if folder.is_dir() else ():
            self._last_activity = time.monotonic()
            try:
                event, _, payload = path.read_bytes().partition(b"\n")
                self._open_handlers().process_event(event.decode(), payload)
            except Exception as error:  # noqa: BLE001 - tried again: the store may be locked, full or unreachable
                self._log_error(error)
                self._attempts[path.name] = self._attempts.get(path.name, 0) + 1
                if self._attempts[path.name] < _MAX_ATTEMPTS and _is_transient(error):
                    return  # later events may depend on this one
                path.replace(path.with_suffix(".failed"))
                for old in sorted(folder.glob("*.failed"))[:-_MAX_FAILED_EVENTS]:
                    old.unlink(missing_ok=True)
            else:
                path.unlink(missing_ok=True)

    def _log_error(self, error: Exception) -> None:
        """Write an error to the log file; a repeated error only once."""
        if (repeated := f"{type(error).__name__}: {error!s:.500}") == self._last_error:
            return
        self._last_error = repeated
        log = Path(self._endpoint.path(".log"))
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with contextlib.suppress(OSError):
            if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
                log.replace(log.with_suffix(".log.1"))
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{now} {repeated}\n")


def _is_transient(error: Exception) -> bool:
    """Return whether an error may disappear by itself."""
    from lukasa.errors import StoreError

    return isinstance(error, StoreError | OSError)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(min(65536, size - len(received)))
        if not part:
            raise ConnectionError("The message is incomplete.")
        received += part
    return bytes(received)


@contextlib.contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Lock a file without waiting. Yields whether the lock was free."""
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def main(argv: list[str] | None = None) -> None:
    """Run a daemon for the store in ``LUKASA_STORE`` and the caller on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", default="")
    parser.add_argument("--scope", action="append", default=[])
    parser.add_argument("--found", action="store_true")
    parser.add_argument("--idle", type=float, default=float(os.environ.get("LUKASA_HOOK_IDLE", IDLE_TIMEOUT)))
    options = parser.parse_args(sys.argv[1:] if argv is None else argv)
    store = os.environ.get("LUKASA_STORE", "")
    endpoint = HookEndpoint(store, options.agent, tuple(options.scope), is_found=options.found)
    HookDaemon(endpoint, idle_timeout=options.idle).run()


if __name__ == "__main__":
    main()
