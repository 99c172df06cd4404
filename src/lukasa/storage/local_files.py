"""Files in a folder.

A file is written under a temporary name, synced and renamed, and then its folder is synced: a writer that is killed at any
point leaves the old file or the new one. The writer locks its partial file, so that another process can tell an abandoned
partial file from one in use. Symbolic links are refused, never followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lukasa.errors import FileMissing, FileTaken, InvalidInput, StoreFull, StoreReadOnly, StoreUnavailable
from lukasa.storage.files import (
    CHUNK_SIZE,
    FileInfo,
    as_chunks,
    check_name,
    create_part,
    delete_if_abandoned,
    sync_folder,
)

_PARTIAL_SUFFIX = ".part"


class LocalFiles:
    """A file store in a folder. ``hook`` is called with the name of each step before the step, for tests."""

    def __init__(self, root: Path, hook: Callable[[str], object] | None = None) -> None:
        self.root = root
        self._hook = hook or (lambda _: None)

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        path = self._resolve_path(name)
        try:
            self._create_folders(path.parent)
            self._hook("create")
            part, descriptor = create_part(path)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    self._hook("write")
                    for chunk in as_chunks(data):
                        file.write(chunk)
                    file.flush()
                    if at is not None:
                        os.utime(descriptor, (at.timestamp(), at.timestamp()))
                    self._hook("sync")
                    os.fsync(descriptor)
                    self._hook("rename")
                    if not new:
                        part.replace(path)
                    else:
                        try:
                            os.link(part, path)
                        except FileExistsError as error:
                            raise FileTaken(f"{path} is there already.") from error
            finally:
                part.unlink(missing_ok=True)
            self._hook("sync folder")
            sync_folder(path.parent)
            self._hook("done")
        except OSError as error:
            error_class = {
                errno.ENOSPC: StoreFull, errno.EDQUOT: StoreFull, errno.EROFS: StoreReadOnly, errno.EACCES: StoreReadOnly,
            }.get(error.errno or 0, StoreUnavailable)  # fmt: skip
            raise error_class(f"{path} could not be written: {error.strerror or error}.") from error

    def read(self, name: str) -> Iterator[bytes]:
        path = self._resolve_path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileMissing(f"There is no {path}.") from error
        except OSError as error:
            if path.is_symlink():
                raise InvalidInput(f"{path} is a link; links are not followed here.") from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidInput(f"{path} is not a plain file.")
            while chunk := file.read(CHUNK_SIZE):
                yield chunk

    def append(self, name: str, data: bytes) -> bool:
        path = self._locate(name)
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._create_folders(Path(path).parent)
            descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, data)  # in one call, so that the lines of two processes do not mix
        finally:
            os.close(descriptor)
        return True

    def list_files(self, folder: str) -> list[FileInfo]:
        found = []
        for entry in self._scan(folder):
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    facts = entry.stat(follow_symlinks=False)
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    found.append(FileInfo(name, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC)))
        return sorted(found, key=lambda file: file.name)

    def list_folders(self, folder: str) -> list[str]:
        return sorted(entry.name for entry in self._scan(folder) if entry.is_dir(follow_symlinks=False))

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
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # it is not empty
                    path.rmdir()
            else:
                path.unlink()
            sync_folder(path.parent)

    def delete_partial_files(self, folder: str) -> int:
        partial = [
            Path(entry.path)
            for entry in self._scan(folder)
            if entry.name.startswith(".")
            and entry.name.endswith(_PARTIAL_SUFFIX)
            and entry.is_file(follow_symlinks=False)
        ]
        return sum(map(delete_if_abandoned, partial))

    def _scan(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a folder; none if it is missing."""
        with suppress(FileNotFoundError, NotADirectoryError):
            yield from os.scandir(self._locate_folder(check_name(folder).split("/") if folder else ()))

    def _resolve_path(self, name: str) -> Path:
        return Path(self._locate(name))

    def _locate(self, name: str) -> str:
        """Return the path of a file; every folder of it must be a real one."""
        *folders, base = check_name(name).split("/")
        return f"{self._locate_folder(folders)}/{base}"

    def _locate_folder(self, parts: Iterable[str]) -> str:
        path = str(self.root)
        for part in parts:
            path = f"{path}/{part}"
            if os.path.islink(path):  # noqa: PTH114 - a path object for each part costs more than the question
                raise InvalidInput(f"{path} is a link; links are not followed here.")
        return path

    def _create_folders(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            sync_folder(path.parent)
