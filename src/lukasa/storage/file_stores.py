"""File stores by path or URL."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.storage.files import FileStore
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.location import split_url

BUCKET_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss")


def is_url(location: str | os.PathLike[str]) -> bool:
    """Tell a URL from a path."""
    return isinstance(location, str) and "://" in location


def open_file_store(location: str | os.PathLike[str]) -> FileStore:
    """Open a folder, by path or ``file:///…``, or a bucket, by a URL such as ``s3://bucket/prefix``."""
    if not str(location).strip():
        raise InvalidInput(
            "No place for files was named.", hint="Name a folder, file:///… or a bucket such as s3://name/prefix."
        )
    if not is_url(location):
        return LocalFiles(Path(location).expanduser().absolute())
    url = split_url(str(location))
    if url.scheme == "file":
        if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
            raise InvalidInput(f"{location!r} names no folder of this machine.", hint="Write file:///path/to/folder.")
        return LocalFiles(Path(unquote(url.path)))
    if url.scheme in BUCKET_SCHEMES:
        try:
            from lukasa.storage.bucket_files import BucketFiles
        except ImportError as error:
            raise MissingExtra("Buckets need another package.", hint="Run: pip install 'lukasa[backup]'") from error
        return BucketFiles(str(location))
    raise InvalidInput(
        f"Lukasa cannot store files at {url.scheme[:20]!r} URLs.",
        hint="Use a path, file:///… or a bucket such as s3://name/prefix.",
    )
