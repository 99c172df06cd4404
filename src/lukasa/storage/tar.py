"""Archives as gzip-compressed tar files that hold plain files only.

``unpack`` trusts nothing in an archive. It extracts only the files that the manifest names, with the size and checksum
given there, inside one folder. A link, a device, a name that leaves the folder, an unexpected file or a file of another
size is refused. The total size is known before anything is decompressed, so no archive can fill the disk or the memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
    """Write files under their names into one archive; return what was packed."""
    packed = []
    with tarfile.open(fileobj=target, mode="w|gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in files:
            header = tarfile.TarInfo(check_name(name))
            with path.open("rb") as source:
                header.size = os.fstat(source.fileno()).st_size
                header.mode = 0o600
                reader = _HashingReader(source, header.size)
                archive.addfile(header, reader)
            packed.append(ArchivedFile(name, header.size, reader.sha256.hexdigest()))
    return packed


def unpack(source: Iterator[bytes], expected: Sequence[ArchivedFile], folder: Path) -> None:
    """Extract an archive into a folder, which is created. Raises ``FormatError`` for anything unexpected."""
    total = sum(item.size for item in expected)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if total > shutil.disk_usage(folder).free:
        raise StoreFull(f"The archive needs {total:,} bytes, and the disk of {folder} has less.")
    missing = {item.name: item for item in expected}
    stream = _BoundedGunzip(source, total + (len(expected) + 4) * 2 * _BLOCK_SIZE + 20 * _BLOCK_SIZE)
    while (header := _parse_header(stream.read_exactly(_BLOCK_SIZE))) is not None:
        name, size = header
        item = missing.pop(name, None)
        if item is None or item.size != size:
            raise FormatError(f"The archive holds {name[:80]!r}, which differs from its manifest.")
        path = folder.joinpath(*name.split("/"))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sha256, left = hashlib.sha256(), size
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            while left:
                chunk = stream.read_exactly(min(left, CHUNK_SIZE))
                sha256.update(chunk)
                file.write(chunk)
                left -= len(chunk)
            file.flush()
            os.fsync(file.fileno())
        if sha256.hexdigest() != item.sha256:
            raise FormatError(f"{name} does not match its checksum.")
        sync_folder(path.parent)
        stream.read_exactly(-size % _BLOCK_SIZE)
    if missing:
        raise FormatError(f"The archive lacks {min(missing)[:80]!r}.")


def _parse_header(block: bytes) -> tuple[str, int] | None:
    """Return the name and size of the next file, or ``None`` at the end."""
    if block == bytes(_BLOCK_SIZE):
        return None
    try:
        if int(block[148:156].split(b"\0")[0].strip(), 8) != sum(block[:148]) + sum(block[156:]) + 8 * 0x20:
            raise ValueError
        prefix, base = (field.split(b"\0")[0].decode("ascii") for field in (block[345:500], block[:100]))
        size = int(block[124:136].rstrip(b"\0 ") or b"0", 8)
    except ValueError as error:
        raise FormatError("The archive is damaged or was not made by Lukasa.") from error
    name, file_type = f"{prefix}/{base}" if prefix else base, block[156:157]
    if file_type not in _REGULAR_FILE_TYPES:
        raise FormatError(
            f"The archive holds {_TYPE_NAMES.get(file_type, 'something that is no file')}: {name[:80]!r}."
        )
    try:
        return check_name(name), size
    except InvalidInput as error:
        raise FormatError(f"The archive holds a name that leads out of its folder: {name[:80]!r}.") from error


class _HashingReader:
    """Reads a file of known size and hashes what it reads."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source, self._left, self.sha256 = source, size, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(data)
        self.sha256.update(data)
        return data


class _BoundedGunzip:
    """The decompressed content of an archive, up to a limit."""

    def __init__(self, chunks: Iterator[bytes], max_bytes: int) -> None:
        self._chunks = filter(None, chunks)
        self._left = max_bytes
        self._gunzip = zlib.decompressobj(wbits=31)  # a gzip header and trailer

    def read_exactly(self, size: int) -> bytes:
        """Return exactly ``size`` bytes."""
        self._left -= size
        if self._left < 0:
            raise FormatError("The archive holds more bytes than its manifest says.")
        data = bytearray()
        while len(data) < size:
            compressed = self._gunzip.unconsumed_tail or next(self._chunks, b"")
            try:
                chunk = self._gunzip.decompress(compressed, size - len(data))
            except zlib.error as error:
                raise FormatError("The archive is damaged or cut off.") from error
            if not chunk and (not compressed or self._gunzip.eof):
                raise FormatError("The archive is damaged or cut off.")
            data += chunk
        return bytes(data)
