"""The head of a log: the newest acknowledged position, in a small file next to the store.

A flipped byte in the write-ahead log ends it there: SQLite drops every later commit when the store is opened after a crash,
and what is left is sound. The head tells. It is overwritten after each commit, without a sync, and deleted with the
write-ahead log. It is never ahead of the log, because a commit is on the disk before the head is written; it may be behind.
A random token in the store and in the head ties them together, and each copy of a store has a token of its own.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_CONTENT = struct.Struct("<8s32sQ")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"lukahead"


class AcknowledgedHead(NamedTuple):
    """The token of a store, and the newest position that a writer of it acknowledged."""

    token: str
    seq: int


def head_path(store: Path) -> Path:
    return store.with_name(store.name + "-head")


def read_head(store: Path) -> AcknowledgedHead | None:
    """Return the head of a store; None if there is none or it is damaged."""
    try:
        data = head_path(store).read_bytes()
        magic, token, seq = _CONTENT.unpack_from(data)
        (checksum,) = _CHECKSUM.unpack_from(data, _CONTENT.size)
    except (OSError, struct.error):
        return None
    if magic != _MAGIC or checksum != zlib.crc32(data[: _CONTENT.size]):
        return None
    return AcknowledgedHead(token.decode("ascii", "replace"), seq)


class HeadWriter:
    """Notes acknowledged positions. A head that cannot be written is no reason to fail a write that is durable.

    On a full disk it may be impossible to create the file; each later position tries again.
    """

    def __init__(self, store: Path, token: str) -> None:
        self._path = head_path(store)
        self._token = token.encode("ascii", "replace")
        self._descriptor = -1

    def note(self, seq: int) -> None:
        """Note that everything up to a position is durable."""
        content = _CONTENT.pack(_MAGIC, self._token, seq)
        try:
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._path, flags, 0o600)
            os.pwrite(self._descriptor, content + _CHECKSUM.pack(zlib.crc32(content)), 0)
        except OSError:  # a with statement takes longer than the write
            pass

    def close(self) -> None:
        """Close the file, and delete it if the write-ahead log is gone: then the store is whole without it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with suppress(OSError):  # on a disk that turned read-only it stays, and is never ahead of the log
            if not self._path.with_name(self._path.name.removesuffix("-head") + "-wal").exists():
                self._path.unlink(missing_ok=True)
