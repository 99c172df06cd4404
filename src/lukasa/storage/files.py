"""Files: the contract of file stores, and helpers that read and write single files.

Every file store guarantees:

- Once ``put`` returns, the file is complete and durable under its name. Until then the name shows its earlier content.
- A name consists of parts between slashes. Every part is plain: no ``..``, no control characters, nothing that a file
  system interprets. Other names are refused before anything is touched.
- ``put`` with ``new`` writes only if the name is free, even when several processes try at once.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from lukasa.core.names import is_plain_name
from lukasa.errors import FormatError, InvalidInput

_TAKEN_HINT = "Name another file; a command that can replace it has the option --force."
_LOCK_NAME = "lock"
CHUNK_SIZE = 1 << 20
"""How many bytes are read or written at once."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The name, size and time of a stored file."""

    name: str
    size: int
    modified: datetime


class FileStore(Protocol):
    """Named files in a folder, a bucket or the memory of this process."""

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        """Store a file, complete and durable. ``new`` raises ``FileTaken`` if the name is taken.

        ``at`` is the time of the content; a store that cannot keep it ignores it.
        """

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the file in chunks. Raises ``FileMissing``."""

    def append(self, name: str, data: bytes) -> bool:
        """Append to a file without waiting for the disk; return ``False`` where a store cannot append."""

    def list_files(self, folder: str) -> list[FileInfo]:
        """Return the files directly in a folder, by name. A missing folder is empty."""

    def list_folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file durably. An existing file of the new name is replaced."""

    def delete(self, name: str) -> None:
        """Delete a file, or a folder that is empty; anything else is ignored."""

    def delete_partial_files(self, folder: str) -> int:
        """Delete the partial files that crashed writers left in a folder; return their number."""


def read_whole(store: FileStore, name: str, *, max_bytes: int | None = None) -> bytes:
    """Return a stored file. A file with more than ``max_bytes`` is refused before all of it is read."""
    chunks, size = [], 0
    for chunk in store.read(name):
        size += len(chunk)
        if max_bytes is not None and size > max_bytes:
            raise InvalidInput(f"{name} has more than {max_bytes:,} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)


def check_name(name: str) -> str:
    """Return the name if every part of it is plain."""
    if not name or not all(is_plain_name(part, "._~-", 200) and not part.endswith(".") for part in name.split("/")):
        raise InvalidInput(f"{name[:80]!r} cannot be the name of a file here.")
    return name


def as_chunks(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    """Return the chunks of data that may be one chunk."""
    return (data,) if isinstance(data, bytes) else data


def read_limited(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file. Raises ``FormatError`` if it is larger than ``max_bytes``."""
    facts = path.stat()
    if stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
        raise InvalidInput(f"{path} is a device.", hint="Name a plain file.")  # it may have no end
    chunks, size = list[bytes](), facts.st_size
    with path.open("rb") as file:
        while size <= max_bytes and (chunk := file.read(CHUNK_SIZE)):
            chunks.append(chunk)
            size = max(size, len(chunks) * CHUNK_SIZE - CHUNK_SIZE + len(chunk))
    if size > max_bytes:
        raise FormatError(f"{path} is larger than {max_bytes:,} bytes.")
    return b"".join(chunks)


def read_lines(source: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file without their ends. Raises ``FormatError`` at a line of more than ``max_bytes``."""
    while line := source.readline(max_bytes):
        if len(line) == max_bytes and not line.endswith(b"\n"):
            raise FormatError(f"A line is longer than {max_bytes:,} bytes.")
        yield line.rstrip(b"\r\n")


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Create a private folder and delete it at the end, and with it those of killed processes that have the same prefix."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = lock_abandoned(folder / _LOCK_NAME, create=True)
        if lock is not None:
            break
        shutil.rmtree(folder, ignore_errors=True)  # another process took it for abandoned before it was locked
    try:
        for other in folder.parent.glob(f"{prefix}*/{_LOCK_NAME}"):
            if (abandoned := lock_abandoned(other)) is not None:
                shutil.rmtree(other.parent, ignore_errors=True)
                os.close(abandoned)
        yield folder
    finally:
        shutil.rmtree(folder)
        os.close(lock)


def lock_abandoned(path: Path, *, create: bool = False) -> int | None:
    """Lock a file that no process uses and return its descriptor; None if it is in use, gone or another user's."""
    try:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
        descriptor = os.open(path, flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except OSError:
        pass  # it is in use
    os.close(descriptor)
    return None


_SPECIAL_FILES = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
}  # fmt: skip


def check_output_path(path: Path, *, replace: bool = True) -> None:
    """Refuse to write to anything but a plain file or a free name; without ``replace`` the name must be free."""
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if kind != stat.S_IFREG:
        what = _SPECIAL_FILES.get(kind, "no plain file")
        raise InvalidInput(f"{path} is {what} and was left alone.", hint="Name a plain file.")
    if not replace:
        raise InvalidInput(f"{path} is already there and was left alone.", hint=_TAKEN_HINT)


def check_output_place(path: Path, *, replace: bool = True) -> None:
    """Refuse like ``check_output_path``, but allow a folder to write into; without ``replace`` an empty one."""
    if not path.is_dir():
        check_output_path(path, replace=replace)
    elif not replace and any(path.iterdir()):
        raise InvalidInput(f"There are files in {path} already.", hint="Name a new folder, or add --force.")


@contextmanager
def open_output_file(path: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Open a private file that gets the name ``path`` once it is complete and durable; after a failure nothing changed.

    Only a plain file is ever replaced, and none without ``replace``: no device, pipe, socket, folder or symbolic link.
    """
    check_output_path(path, replace=replace)
    part, descriptor = create_part(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        give_name(part, path, replace=replace)
    finally:
        part.unlink(missing_ok=True)


def create_part(path: Path) -> tuple[Path, int]:
    """Create a private file in the folder of ``path`` and lock it; an error names ``path``."""
    while True:
        part = path.with_name(f".lukasa-{secrets.token_hex(8)}.part")
        try:
            descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return part, descriptor
        os.close(descriptor)  # another process deleted it before it was locked


def delete_if_abandoned(part: Path) -> bool:
    """Delete a partial file unless its writer is still running."""
    try:
        descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def delete_copies(store: Path) -> list[str]:
    """Delete whole copies that crashed writers and migrations left next to a store; return their names."""
    name = re.escape(store.name)
    copies = re.compile(rf"\.lukasa-[0-9a-f]{{16}}\.part|{name}\.[0-9a-f]{{12}}\.part|{name}\.before-schema-[0-9-]+")
    with suppress(FileNotFoundError), os.scandir(store.parent) as entries:
        found = [
            entry.name for entry in entries if copies.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        return [name for name in sorted(found) if delete_if_abandoned(store.with_name(name))]
    return []


def give_name(part: Path, path: Path, *, replace: bool = True) -> None:
    """Give a complete file its name, durably, if ``check_output_path`` allows it."""
    check_output_path(path, replace=replace)
    if replace:
        part.replace(path)
    else:
        try:
            os.link(part, path)
        except FileExistsError as error:
            raise InvalidInput(f"{path} is already there and was left alone.", hint=_TAKEN_HINT) from error
        except OSError:  # a file system without hard links
            part.rename(path)
    part.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
