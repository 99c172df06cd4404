"""The files of a source: a single file, a folder or a ZIP archive, read within limits. Links are not followed."""

from __future__ import annotations

import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lukasa.core.canonical_json import find_bracket_fault
from lukasa.errors import FormatError
from lukasa.storage.files import read_limited
from lukasa.transfer.sources import MAX_FILE_BYTES

MAX_FILES = 100_000
_ZIP_START = b"PK\x03\x04"


def is_zip(path: Path) -> bool:
    """Return whether a file begins like a ZIP archive."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == _ZIP_START


def walk_folder(folder: Path) -> Iterator[tuple[str, Path, bool]]:
    """Yield the path within the folder, the path and whether it is a plain file, for every file and link, by name.

    Hidden files and folders are left out. A folder with more than ``MAX_FILES`` files is refused.
    """
    count = 0
    for root, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        for name in sorted([*names, *links]):
            if name.startswith("."):
                continue
            count += 1
            if count > MAX_FILES:
                raise FormatError(f"{folder} has more than {MAX_FILES:,} files.")
            path = Path(root) / name
            yield path.relative_to(folder).as_posix(), path, stat.S_ISREG(path.lstat().st_mode)


def read_text_file(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Return a text file in UTF-8; refuse a link, a file that is too large, and other encodings."""
    if path.is_symlink():
        raise FormatError("It is a link; links are not followed.")
    try:
        return read_limited(path, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"It is not a text in UTF-8 (byte {error.start:,}).") from error


def modified_at(path: Path) -> datetime:
    """Return when a file was last changed."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def read_json(raw: bytes, where: str) -> Any:
    """Parse a JSON file of another program. Refuse one that is nested too deeply."""
    try:
        text = raw.decode("utf-8-sig")
        if (fault := find_bracket_fault(text)) is not None:
            raise FormatError(f"{where} is not JSON that can be read: {fault}")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not JSON: {str(error)[:200]}") from error


def read_json_files(path: Path, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield every JSON file whose name begins with a prefix: of a folder, of a ZIP archive, or the file itself."""
    if is_zip(path):
        yield from _read_zip(path, prefix)
    elif path.is_dir():
        for name, file, is_plain in walk_folder(path):
            if _is_wanted(name, prefix):
                if not is_plain:
                    raise FormatError(f"{name} is not a plain file; links are not followed.")
                yield name, read_json(read_limited(file, MAX_FILE_BYTES), name)
    else:
        yield path.name, read_json(read_limited(path, MAX_FILE_BYTES), str(path))


def _is_wanted(name: str, prefix: str) -> bool:
    base = name.rpartition("/")[2]
    return base.startswith(prefix) and base.endswith(".json")


def _read_zip(path: Path, prefix: str) -> Iterator[tuple[str, Any]]:
    left = MAX_FILE_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_FILES:
                raise FormatError(f"{path} has more than {MAX_FILES:,} files.")
            for member in archive.infolist():
                if not _is_wanted(member.filename, prefix):
                    continue
                with archive.open(member) as file:  # what it says of its size may be wrong
                    raw = file.read(left + 1)
                left -= len(raw)
                if left < 0:
                    raise FormatError(f"{path} unpacks to more than {MAX_FILE_BYTES:,} bytes.")
                yield member.filename, read_json(raw, member.filename)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise FormatError(f"{path} is not a ZIP archive that can be read: {str(error)[:200]}") from error
