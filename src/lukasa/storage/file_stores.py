"""The keepers of blobs, and which of them a URL means."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.storage.files import FileStore
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.memory_files import MemoryFiles

BUCKET_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss")

__all__ = ["BUCKET_SCHEMES", "LocalFiles", "MemoryFiles", "is_url", "open_file_store"]


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether a place is named by a URL rather than by a path."""
    return isinstance(location, str) and "://" in location


def open_file_store(location: str | os.PathLike[str]) -> FileStore:
    """The keeper at a place: a folder by path or ``file:///…``, or a bucket by ``s3://bucket/prefix`` and its kin."""
    if not isinstance(location, str) or "://" not in location:
        return LocalFiles(Path(location).expanduser().absolute())
    url = urlsplit(location)
    if url.scheme == "file":
        if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
            raise InvalidInput(f"{location!r} names no folder of this machine.", hint="Write file:///path/to/folder.")
        return LocalFiles(Path(unquote(url.path)))
    if url.scheme in BUCKET_SCHEMES:
        try:
            from lukasa.storage.bucket_files import BucketFiles
        except ImportError as error:
            raise MissingExtra("Buckets need another package.", hint="Run: pip install 'lukasa[backup]'") from error
        return BucketFiles(location)
    raise InvalidInput(
        f"{url.scheme[:20]!r} is no place that Lukasa can keep files in.",
        hint="Use a path, file:///… or a bucket such as s3://name/prefix.",
    )
