"""Blobs that live as long as the process: for stores in memory, and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from lukasa.blob import Blob, check_name, pieces
from lukasa.errors import FileMissing, FileTaken


class MemoryBlobs:
    """Keeps blobs in a dictionary."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[bytes, datetime]] = {}

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        check_name(name)
        if new and name in self._held:
            raise FileTaken(f"{name} is there already.")
        self._held[name] = (b"".join(pieces(data)), at or datetime.now(UTC))

    def read(self, name: str) -> Iterator[bytes]:
        if name not in self._held:
            raise FileMissing(f"There is no {name}.")
        yield self._held[name][0]

    def append(self, name: str, data: bytes) -> bool:
        check_name(name)
        before, at = self._held.get(name, (b"", datetime.now(UTC)))
        self._held[name] = (before + data, at)
        return True

    def find(self, folder: str) -> list[Blob]:
        return [
            Blob(name, len(data), at)
            for name, (data, at) in sorted(self._held.items())
            if name.rpartition("/")[0] == folder
        ]

    def folders(self, folder: str) -> list[str]:
        start = f"{folder}/" if folder else ""
        inside = (name.removeprefix(start) for name in self._held if name.startswith(start))
        return sorted({name.partition("/")[0] for name in inside if "/" in name})

    def rename(self, old: str, new: str) -> None:
        check_name(new)
        if old not in self._held:
            raise FileMissing(f"There is no {old}.")
        self._held[new] = self._held.pop(old)

    def delete(self, name: str) -> None:
        self._held.pop(name, None)

    def sweep(self, folder: str) -> int:
        del folder  # nothing is ever half written
        return 0
