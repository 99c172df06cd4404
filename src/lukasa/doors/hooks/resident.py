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

from lukasa.doors.hooks.client import Post

if TYPE_CHECKING:
    from lukasa.doors.hooks.events import Hooks

IDLE = 900.0
"""Seconds without a question after which it ends."""
_ROUND = 20.0
_TRIES = 20
_LARGEST = 10_000_000
_LOG = 200_000


class Resident:
    """Listens at a post and does what comes in."""

    def __init__(self, post: Post, *, idle: float = IDLE) -> None:
        self._post = post
        self._idle = idle
        self._last = time.monotonic()
        self._wake: queue.Queue[None] = queue.Queue()
        self._over = threading.Event()
        self._tries: dict[str, int] = {}
        self._ready = threading.Lock()
        self._hooks: Hooks | None = None
        self._secret = b""

    def run(self) -> None:
        """Serves until nobody has asked for a while. Returns at once when another resident has the post."""
        with _sole(Path(self._post.folder, self._post.name + ".lock")) as alone:
            if not alone:
                return
            line = self._listen()
            threading.Thread(target=self._work, daemon=True).start()
            try:
                self._serve(line)
            finally:
                self._over.set()
                line.close()
                with contextlib.suppress(OSError):
                    Path(self._where()).unlink()
                if self._hooks is not None:
                    self._hooks.close()

    def _where(self) -> str:
        own = hasattr(socket, "AF_UNIX")
        return self._post.address if own else str(Path(self._post.folder, self._post.name + ".port"))

    def _listen(self) -> socket.socket:
        where = Path(self._where())
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
        Path(self._post.starting).unlink(missing_ok=True)
        return line

    def _serve(self, line: socket.socket) -> None:
        while time.monotonic() - self._last < self._idle:
            if not Path(self._where()).exists():  # somebody took the post away
                return
            try:
                caller, _ = line.accept()
            except TimeoutError:
                continue
            self._last = time.monotonic()
            threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        with caller:
            try:
                caller.settimeout(5.0)
                if self._secret and not secrets.compare_digest(_exactly(caller, len(self._secret)), self._secret):
                    return
                size = int.from_bytes(_exactly(caller, 8), "big")
                event, _, payload = _exactly(caller, min(size, _LARGEST)).partition(b"\n")
                if event == b"wake":
                    self._wake.put(None)
                    caller.sendall(bytes(8))
                    return
                said = self._opened().answer(event.decode(), payload)
                caller.sendall(len(said.text).to_bytes(8, "big") + said.text)
                said.arrived()
            except ConnectionError:
                return  # whoever asked has gone on
            except Exception as error:  # noqa: BLE001 - a question that fails is answered by silence
                self._note(error)

    def _opened(self) -> Hooks:
        with self._ready:
            if self._hooks is None:
                from lukasa.doors.hooks.events import Hooks

                self._hooks = Hooks(self._post.store or None, self._post.agent, self._post.scopes)
            return self._hooks

    def _work(self) -> None:
        """Works errands off: at the start, when woken, and every now and then."""
        with contextlib.suppress(Exception):
            self._opened().warm()
        while not self._over.is_set():
            self._errands()
            with contextlib.suppress(queue.Empty):
                self._wake.get(timeout=_ROUND)

    def _errands(self) -> None:
        spool = Path(self._post.spool)
        for errand in sorted(spool.glob("*.errand")) if spool.is_dir() else ():
            self._last = time.monotonic()
            try:
                event, _, payload = errand.read_bytes().partition(b"\n")
                self._opened().do(event.decode(), payload)
            except Exception as error:  # noqa: BLE001 - tried again; the store may be locked, full or away
                self._note(error)
                self._tries[errand.name] = self._tries.get(errand.name, 0) + 1
                if self._tries[errand.name] >= _TRIES or not _passes(error):
                    errand.replace(errand.with_suffix(".failed"))
                    _only_newest(spool.glob("*.failed"), 50)
                else:
                    return  # in order: what comes after may build on it
            else:
                errand.unlink(missing_ok=True)

    def _note(self, error: Exception) -> None:
        log = Path(self._post.folder, self._post.name + ".log")
        with contextlib.suppress(OSError):
            if log.exists() and log.stat().st_size > _LOG:
                log.replace(log.with_suffix(".log.1"))
            with log.open("a", encoding="utf-8") as file:
                file.write(
                    f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {type(error).__name__}: {error!s:.500}\n"
                )


def _passes(error: Exception) -> bool:
    """Whether an error may go away by itself."""
    from lukasa.errors import StoreError

    return isinstance(error, StoreError | OSError)


def _exactly(line: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = line.recv(min(65536, size - len(parts)))
        if not part:
            raise ConnectionError("the message is cut short")
        parts += part
    return bytes(parts)


def _only_newest(paths: Iterator[Path], most: int) -> None:
    for path in sorted(paths)[:-most]:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _sole(path: Path) -> Iterator[bool]:
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


def main(words: list[str] | None = None) -> None:
    """Runs a resident for the store in ``LUKASA_STORE`` and the caller on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", default="")
    parser.add_argument("--scope", action="append", default=[])
    parser.add_argument("--idle", type=float, default=float(os.environ.get("LUKASA_HOOK_IDLE", IDLE)))
    told = parser.parse_args(sys.argv[1:] if words is None else words)
    Resident(Post(os.environ.get("LUKASA_STORE", ""), told.agent, tuple(told.scope)), idle=told.idle).run()


if __name__ == "__main__":
    main()
