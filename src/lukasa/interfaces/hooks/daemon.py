"""The resident process: answers questions of hooks at once, works errands off, and ends when nobody has asked for a while.

There is one for each store and caller; a lock decides who it is. It listens before it loads anything, so that whoever
started it can connect. It never writes to the agent's terminal: what went wrong is in its log, which is kept short.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lukasa.interfaces.hooks.client import HookEndpoint

if TYPE_CHECKING:
    from lukasa.interfaces.hooks.handlers import HookHandlers

IDLE_TIMEOUT = 900.0
"""Seconds without a question after which it ends."""
_POLL_SECONDS = 20.0
_MAX_ATTEMPTS = 20
_MAX_MESSAGE_BYTES = 10_000_000
_MAX_LOG_BYTES = 200_000


class HookDaemon:
    """Listens at a post and does what comes in."""

    def __init__(self, endpoint: HookEndpoint, *, idle_timeout: float = IDLE_TIMEOUT) -> None:
        self._endpoint = endpoint
        self._idle_timeout = idle_timeout
        self._last_activity = time.monotonic()
        self._wake_queue: queue.Queue[None] = queue.Queue()
        self._stopped = threading.Event()
        self._attempts: dict[str, int] = {}
        self._handlers_lock = threading.Lock()
        self._handlers: HookHandlers | None = None
        self._secret = b""

    def run(self) -> None:
        """Serves until nobody has asked for a while. Returns at once when another resident has the post."""
        with _try_lock(Path(self._endpoint.folder, self._endpoint.name + ".lock")) as alone:
            if not alone:
                return
            line = self._listen()
            threading.Thread(target=self._run_queue_worker, daemon=True).start()
            try:
                self._accept_connections(line)
            finally:
                self._stopped.set()
                line.close()
                with contextlib.suppress(OSError):
                    Path(self._address_path()).unlink()
                if self._handlers is not None:
                    self._handlers.close()

    def _address_path(self) -> str:
        own = hasattr(socket, "AF_UNIX")
        return self._endpoint.address if own else str(Path(self._endpoint.folder, self._endpoint.name + ".port"))

    def _listen(self) -> socket.socket:
        where = Path(self._address_path())
        where.unlink(missing_ok=True)
        if hasattr(socket, "AF_UNIX"):
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            line.bind(str(where))
        else:
            line = socket.create_server(("127.0.0.1", 0))
            self._secret = secrets.token_hex(16).encode()
            where.write_bytes(f"{line.getsockname()[1]} ".encode() + self._secret)
        line.listen(64)
        line.settimeout(1.0)
        Path(self._endpoint.start_marker).unlink(missing_ok=True)
        return line

    def _accept_connections(self, listener: socket.socket) -> None:
        while time.monotonic() - self._last_activity < self._idle_timeout:
            if not Path(self._address_path()).exists():  # somebody took the post away
                return
            try:
                caller, _ = listener.accept()
            except TimeoutError:
                continue
            self._last_activity = time.monotonic()
            threading.Thread(target=self._handle_connection, args=(caller,), daemon=True).start()

    def _handle_connection(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(5.0)
                if self._secret and not secrets.compare_digest(
                    _receive_exactly(connection, len(self._secret)), self._secret
                ):
                    return
                size = int.from_bytes(_receive_exactly(connection, 8), "big")
                event, _, payload = _receive_exactly(connection, min(size, _MAX_MESSAGE_BYTES)).partition(b"\n")
                if event == b"wake":
                    self._wake_queue.put(None)
                    connection.sendall(bytes(8))
                    return
                said = self._open_handlers().answer(event.decode(), payload)
                connection.sendall(len(said.text).to_bytes(8, "big") + said.text)
                said.on_delivered()
            except ConnectionError:
                return  # whoever asked has gone on
            except Exception as error:  # noqa: BLE001 - a question that fails is answered by silence
                self._log_error(error)

    def _open_handlers(self) -> HookHandlers:
        with self._handlers_lock:
            if self._handlers is None:
                from lukasa.interfaces.hooks.handlers import HookHandlers

                self._handlers = HookHandlers(self._endpoint.store or None, self._endpoint.agent, self._endpoint.scopes)
            return self._handlers

    def _run_queue_worker(self) -> None:
        """Works errands off: at the start, when woken, and every now and then."""
        with contextlib.suppress(Exception):
            self._open_handlers().warm_up()
        while not self._stopped.is_set():
            self._process_queued_events()
            with contextlib.suppress(queue.Empty):
                self._wake_queue.get(timeout=_POLL_SECONDS)

    def _process_queued_events(self) -> None:
        spool = Path(self._endpoint.spool)
        for errand in sorted(spool.glob("*.errand")) if spool.is_dir() else ():
            self._last_activity = time.monotonic()
            try:
                event, _, payload = errand.read_bytes().partition(b"\n")
                self._open_handlers().process_event(event.decode(), payload)
            except Exception as error:  # noqa: BLE001 - tried again; the store may be locked, full or away
                self._log_error(error)
                self._attempts[errand.name] = self._attempts.get(errand.name, 0) + 1
                if self._attempts[errand.name] >= _MAX_ATTEMPTS or not _is_transient(error):
                    errand.replace(errand.with_suffix(".failed"))
                    _delete_all_but_newest(spool.glob("*.failed"), 50)
                else:
                    return  # in order: what comes after may build on it
            else:
                errand.unlink(missing_ok=True)

    def _log_error(self, error: Exception) -> None:
        log = Path(self._endpoint.folder, self._endpoint.name + ".log")
        with contextlib.suppress(OSError):
            if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
                log.replace(log.with_suffix(".log.1"))
            with log.open("a", encoding="utf-8") as file:
                file.write(
                    f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {type(error).__name__}: {error!s:.500}\n"
                )


def _is_transient(error: Exception) -> bool:
    """Whether an error may go away by itself."""
    from lukasa.errors import StoreError

    return isinstance(error, StoreError | OSError)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(65536, size - len(parts)))
        if not part:
            raise ConnectionError("the message is cut short")
        parts += part
    return bytes(parts)


def _delete_all_but_newest(paths: Iterator[Path], keep: int) -> None:
    for path in sorted(paths)[:-keep]:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Whether nobody else holds this lock."""
    with path.open("a+b") as file:
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]  # known on Windows alone
        except OSError:
            yield False
        else:
            yield True


def main(argv: list[str] | None = None) -> None:
    """Runs a resident for the store in ``LUKASA_STORE`` and the caller on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", default="")
    parser.add_argument("--scope", action="append", default=[])
    parser.add_argument("--idle", type=float, default=float(os.environ.get("LUKASA_HOOK_IDLE", IDLE_TIMEOUT)))
    told = parser.parse_args(sys.argv[1:] if argv is None else argv)
    HookDaemon(
        HookEndpoint(os.environ.get("LUKASA_STORE", ""), told.agent, tuple(told.scope)), idle_timeout=told.idle
    ).run()


if __name__ == "__main__":
    main()
