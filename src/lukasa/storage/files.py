"""Files and what keeps them.

``replacing`` writes one file so that a crash leaves the old one or the new one, never neither and never half of one.
``Blobs`` is the promise of a place that keeps many of them by name: a folder, a bucket, or this process alone.

What every keeper promises:

- Once ``put`` returns, the blob is whole and durable under its name. Before that, the name shows what it showed before.
- A name is made of parts between slashes. A part is plain: no ``..``, no control character, nothing a file system reads
  as something else. What is not plain is refused before anything is touched.
- ``put`` with ``new`` writes only if the name is free, whoever else tries at the same time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from lukasa.errors import InvalidInput

_NAME_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}")
CHUNK_SIZE = 1 << 20
"""How much is read or written at once."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a keeper knows about a blob without reading it."""

    name: str
    size: int
    modified: datetime


class FileStore(Protocol):
    """Keeps blobs by name."""

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        """Keeps a blob, whole and durable. ``new`` raises ``FileTaken`` if the name is taken.

        ``at`` is the moment it is from, where a keeper can note one.
        """

    def read(self, name: str) -> Iterator[bytes]:
        """The blob, piece by piece. Raises ``FileMissing``."""

    def append(self, name: str, data: bytes) -> bool:
        """Adds to the end of a blob, quickly and without waiting for the disk; ``False`` where a keeper cannot."""

    def list_files(self, folder: str) -> list[FileInfo]:
        """The blobs directly in a folder, by name. A folder that is not there is empty."""

    def list_folders(self, folder: str) -> list[str]:
        """The names of the folders directly in a folder."""

    def rename(self, old: str, new: str) -> None:
        """Gives a blob another name, durably. A blob that has it already is replaced."""

    def delete(self, name: str) -> None:
        """Removes a blob; nothing happens when it is not there."""

    def delete_partial_files(self, folder: str) -> int:
        """Removes what writers that died left half written in a folder; returns how much that was."""


def read_whole(store: FileStore, name: str, *, max_bytes: int | None = None) -> bytes:
    """A blob as one piece. One that has more bytes than ``most`` is refused before they are all read."""
    pieces, size = [], 0
    for piece in store.read(name):
        size += len(piece)
        if max_bytes is not None and size > max_bytes:
            raise InvalidInput(f"{name} has more than {max_bytes:,} bytes.")
        pieces.append(piece)
    return b"".join(pieces)


def check_name(name: str) -> str:
    """The name, if every part of it is plain."""
    if not name or not all(_NAME_PART.fullmatch(part) and not part.endswith(".") for part in name.split("/")):
        raise InvalidInput(f"{name[:80]!r} cannot be the name of a file here.")
    return name


def as_chunks(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A private file that takes the place of ``path`` once it is whole and durable; on failure nothing changes."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
