"""One file of many: a gzip-compressed tar of plain files, nothing else.

Taking one apart trusts nothing. Only what the manifest names comes out, only as plain files of the size and checksum
given there, only inside the folder asked for. A link, a device, a name that climbs, a file too many or a file too large
is refused by name. The size of everything is known before anything is unfolded, so no archive can fill a disk or the
memory unseen.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from lukasa.errors import FormatError, InvalidInput, StoreFull
from lukasa.storage.files import CHUNK_SIZE, check_name, sync_folder

_BLOCK_SIZE = 512
_REGULAR_FILE_TYPES = (b"0", b"\0")
_TYPE_NAMES = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a folder", b"6": "a pipe",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file in an archive."""

    name: str
    size: int
    sha256: str


def pack(files: Iterable[tuple[str, Path]], target: BinaryIO) -> list[ArchivedFile]:
    """Writes files under their names into one; returns what was packed."""
    packed = []
    with tarfile.open(fileobj=target, mode="w|gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in files:
            facts = tarfile.TarInfo(check_name(name))
            with path.open("rb") as source:
                facts.size = os.fstat(source.fileno()).st_size
                facts.mode = 0o600
                counted = _HashingReader(source, facts.size)
                archive.addfile(facts, counted)
            packed.append(ArchivedFile(name, facts.size, counted.hexdigest()))
    return packed


def unpack(source: Iterator[bytes], expected: Sequence[ArchivedFile], folder: Path) -> None:
    """Takes an archive apart into a folder, which is made. Raises ``FormatError`` for anything that is not expected."""
    total = sum(item.size for item in expected)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if total > shutil.disk_usage(folder).free:
        raise StoreFull(f"The archive unfolds to {total:,} bytes, for which {folder} has no room.")
    wanted = {item.name: item for item in expected}
    stream = _BoundedGunzip(source, total + (len(expected) + 4) * 2 * _BLOCK_SIZE + 20 * _BLOCK_SIZE)
    try:
        while (header := _parse_header(stream.read_exactly(_BLOCK_SIZE))) is not None:
            name, size = header
            item = wanted.pop(name, None)
            if item is None or item.size != size:
                raise FormatError(f"The archive holds {name[:80]!r}, which its manifest does not have like that.")
            _extract_file(stream, item, folder)
            stream.read_exactly(-size % _BLOCK_SIZE)
    except (OSError, zlib.error, EOFError) as error:
        if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error):
            raise FormatError("The archive is damaged or cut off.") from error
        raise
    if wanted:
        raise FormatError(f"The archive lacks {min(wanted)[:80]!r}.")


def _parse_header(block: bytes) -> tuple[str, int] | None:
    """The name and the size of the next file; ``None`` at the end."""
    if block == bytes(_BLOCK_SIZE):
        return None
    told, sort = block[148:156], block[156:157]
    computed = sum(block[:148]) + sum(block[156:]) + 8 * 0x20
    try:
        if int(told.split(b"\0")[0].strip(), 8) != computed:
            raise ValueError
        name = _decode_field(block[:100])
        prefix = _decode_field(block[345:500])
        size = int(block[124:136].rstrip(b"\0 ") or b"0", 8)
    except ValueError as error:
        raise FormatError("The archive is damaged or not one of Lukasa's.") from error
    whole = f"{prefix}/{name}" if prefix else name
    if sort not in _REGULAR_FILE_TYPES:
        raise FormatError(f"The archive holds {_TYPE_NAMES.get(sort, 'something that is no file')}: {whole[:80]!r}.")
    try:
        return check_name(whole), size
    except InvalidInput as error:
        raise FormatError(f"The archive holds a name that leads elsewhere: {whole[:80]!r}.") from error


def _decode_field(field: bytes) -> str:
    return field.split(b"\0")[0].decode("ascii")


def _extract_file(stream: _BoundedGunzip, item: ArchivedFile, folder: Path) -> None:
    path = folder.joinpath(*item.name.split("/"))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), item.size
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        while left:
            piece = stream.read_exactly(min(left, CHUNK_SIZE))
            digest.update(piece)
            file.write(piece)
            left -= len(piece)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != item.sha256:
        raise FormatError(f"{item.name} does not match its checksum.")
    sync_folder(path.parent)


class _HashingReader:
    """Reads a file of which the size is known, and hashes what it reads."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source, self._left, self._digest = source, size, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(data)
        self._digest.update(data)
        return data

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class _ChunkStream(RawIOBase):
    """An iterator of pieces, read like a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if not self._rest:
            self._rest = next(self._chunks, b"")
        taken = self._rest[: len(view)]
        view[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


class _BoundedGunzip:
    """The decompressed content of an archive, up to a bound."""

    def __init__(self, source: Iterator[bytes], max_bytes: int) -> None:
        self._file = gzip.GzipFile(fileobj=_ChunkStream(source), mode="rb")
        self._left = max_bytes

    def read_exactly(self, size: int) -> bytes:
        """Exactly so many bytes."""
        self._left -= size
        if self._left < 0:
            raise FormatError("The archive unfolds to more than its manifest says.")
        data = b""
        while len(data) < size:
            piece = self._file.read(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
