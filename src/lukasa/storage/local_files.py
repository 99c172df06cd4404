"""Blobs as files of a folder.

A file is written under a name of its own, synced, renamed, and the folder is synced: whoever is killed at any point
leaves the old file or the new one. The writer holds a lock on its half-written file, so that another process can tell
those of the dead from those of the living. Links are never followed: what is reached through one is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from lukasa.errors import FileMissing, FileTaken, InvalidInput, StoreFull, StoreReadOnly, StoreUnavailable
from lukasa.storage.files import CHUNK_SIZE, FileInfo, as_chunks, check_name, sync_folder

_PARTIAL_SUFFIX = ".part"


class LocalFiles:
    """Keeps blobs under a root folder. ``hook`` is called with the name of each step before it is taken: for tests."""

    def __init__(self, root: Path, hook: Callable[[str], object] | None = None) -> None:
        self.root = root
        self._hook = hook or (lambda _: None)

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        path = self._resolve_path(name)
        with _error_translation(path):
            self._write_file(path, data, new=new, at=at)

    def _write_file(self, path: Path, data: bytes | Iterable[bytes], *, new: bool, at: datetime | None) -> None:
        self._create_folders(path.parent)
        self._hook("create")
        part, descriptor = _create_partial_file(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                self._hook("write")
                for piece in as_chunks(data):
                    file.write(piece)
                file.flush()
                if at is not None:
                    os.utime(descriptor, (at.timestamp(), at.timestamp()))
                self._hook("sync")
                os.fsync(descriptor)
                self._hook("rename")
                self._move_into_place(part, path, new=new)
        finally:
            part.unlink(missing_ok=True)
        self._hook("sync folder")
        sync_folder(path.parent)
        self._hook("done")

    @staticmethod
    def _move_into_place(part: Path, path: Path, *, new: bool) -> None:
        if not new:
            part.replace(path)
            return
        try:
            os.link(part, path)
        except FileExistsError as error:
            raise FileTaken(f"{path} is there already.") from error

    def read(self, name: str) -> Iterator[bytes]:
        path = self._resolve_path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileMissing(f"There is no {path}.") from error
        except OSError as error:
            if path.is_symlink():
                raise InvalidInput(f"{path} is a link; links are not followed here.") from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidInput(f"{path} is not a plain file.")
            while piece := file.read(CHUNK_SIZE):
                yield piece

    def append(self, name: str, data: bytes) -> bool:
        path = self._resolve_path(name)
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._create_folders(path.parent)
            descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, data)  # one write: lines of two processes never mix; a torn one fails its checksum
        finally:
            os.close(descriptor)
        return True

    def list_files(self, folder: str) -> list[FileInfo]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.scandir(self._resolve_folder(folder)):
                if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                    facts = entry.stat(follow_symlinks=False)
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    found.append(FileInfo(name, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC)))
        return sorted(found, key=lambda blob: blob.name)

    def list_folders(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            entries = os.scandir(self._resolve_folder(folder))
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return []

    def rename(self, old: str, new: str) -> None:
        source, target = self._resolve_path(old), self._resolve_path(new)
        self._create_folders(target.parent)
        self._hook("rename")
        try:
            source.replace(target)
        except FileNotFoundError as error:
            raise FileMissing(f"There is no {source}.") from error
        sync_folder(target.parent)

    def delete(self, name: str) -> None:
        path = self._resolve_path(name)
        self._hook("delete")
        with suppress(FileNotFoundError):
            path.unlink()
            sync_folder(path.parent)

    def delete_partial_files(self, folder: str) -> int:
        swept = 0
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.scandir(self._resolve_folder(folder)):
                half_written = entry.name.startswith(".") and entry.name.endswith(_PARTIAL_SUFFIX)
                if half_written and entry.is_file(follow_symlinks=False):
                    swept += _delete_if_abandoned(Path(entry.path))
        return swept

    def _resolve_path(self, name: str) -> Path:
        """Where a blob lies; every folder on the way must be a real one."""
        parts = check_name(name).split("/")
        self._resolve_folder("/".join(parts[:-1]))
        return self.root.joinpath(*parts)

    def _resolve_folder(self, folder: str) -> Path:
        path = self.root
        for part in check_name(folder).split("/") if folder else ():
            path = path / part
            if path.is_symlink():
                raise InvalidInput(f"{path} is a link; links are not followed here.")
        return path

    def _create_folders(self, folder: Path) -> None:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
            sync_folder(place.parent)


@contextmanager
def _error_translation(path: Path) -> Iterator[None]:
    """Trouble with the disk in our words."""
    try:
        yield
    except OSError as error:
        sort = {
            errno.ENOSPC: StoreFull, errno.EDQUOT: StoreFull, errno.EROFS: StoreReadOnly, errno.EACCES: StoreReadOnly,
        }.get(error.errno or 0, StoreUnavailable)  # fmt: skip
        raise sort(f"{path} could not be written: {error.strerror or error}.") from error


def _create_partial_file(path: Path) -> tuple[Path, int]:
    """A new private file beside ``path``, locked by its writer."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(6)}{_PARTIAL_SUFFIX}")
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return part, descriptor
        os.close(descriptor)  # somebody swept it away before it was locked


def _delete_if_abandoned(part: Path) -> bool:
    """Removes a half-written file if nobody is writing it any more."""
    try:
        descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
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
