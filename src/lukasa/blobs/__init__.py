"""The keepers of blobs, and which of them a URL means."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lukasa.blob import Blobs
from lukasa.blobs.folder import FolderBlobs
from lukasa.blobs.memory import MemoryBlobs
from lukasa.errors import InvalidInput, MissingExtra

BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss")

__all__ = ["BUCKETS", "FolderBlobs", "MemoryBlobs", "is_url", "open_blobs"]


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether a place is named by a URL rather than by a path."""
    return isinstance(place, str) and "://" in place


def open_blobs(place: str | os.PathLike[str]) -> Blobs:
    """The keeper at a place: a folder by path or ``file:///…``, or a bucket by ``s3://bucket/prefix`` and its kin."""
    if not isinstance(place, str) or "://" not in place:
        return FolderBlobs(Path(place).expanduser().absolute())
    url = urlsplit(place)
    if url.scheme == "file":
        if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
            raise InvalidInput(f"{place!r} names no folder of this machine.", hint="Write file:///path/to/folder.")
        return FolderBlobs(Path(unquote(url.path)))
    if url.scheme in BUCKETS:
        try:
            from lukasa.blobs.bucket import BucketBlobs
        except ImportError as error:
            raise MissingExtra("Buckets need another package.", hint="Run: pip install 'lukasa[backup]'") from error
        return BucketBlobs(place)
    raise InvalidInput(
        f"{url.scheme[:20]!r} is no place that Lukasa can keep files in.",
        hint="Use a path, file:///… or a bucket such as s3://name/prefix.",
    )
