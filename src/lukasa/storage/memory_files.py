"""Files in the memory of this process, for stores in memory and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from lukasa.errors import FileMissing, FileTaken
from lukasa.storage.files import FileInfo, as_chunks, check_name


class MemoryFiles:
    """A file store in a dictionary."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, datetime]] = {}

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        if new and name in self._files:
            raise FileTaken(f"{name} is there already.")
        self._files[check_name(name)] = (b"".join(as_chunks(data)), at or datetime.now(UTC))

    def read(self, name: str) -> Iterator[bytes]:
        yield self._find(name)[0]

    def append(self, name: str, data: bytes) -> bool:
        before, at = self._files.get(name, (b"", datetime.now(UTC)))
        self._files[check_name(name)] = (before + data, at)
        return True

    def list_files(self, folder: str) -> list[FileInfo]:
        return [
            FileInfo(name, len(data), at)
            for name, (data, at) in sorted(self._files.items())
            if name.rpartition("/")[0] == folder
        ]

    def list_folders(self, folder: str) -> list[str]:
        start = f"{folder}/" if folder else ""
        inside = (name.removeprefix(start) for name in self._files if name.startswith(start))
        return sorted({name.partition("/")[0] for name in inside if "/" in name})

    def rename(self, old: str, new: str) -> None:
        self._files[check_name(new)] = self._find(old)
        del self._files[old]

    def delete(self, name: str) -> None:
        self._files.pop(name, None)

    def delete_partial_files(self, folder: str) -> int:
        del folder  # a file is never partial
        return 0

    def _find(self, name: str) -> tuple[bytes, datetime]:
        if name not in self._files:
            raise FileMissing(f"There is no {name}.")
        return self._files[name]
