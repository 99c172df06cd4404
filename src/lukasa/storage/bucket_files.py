"""Files in a bucket of S3 or a compatible service, of Google or of Azure, through ``obstore``.

Access is configured by the environment, as for the provider's own tools (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, …).
Failed requests are retried for a minute before ``StoreUnavailable`` is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import from_url

from lukasa.errors import FileMissing, FileTaken, InvalidInput, StoreUnavailable, mask_password
from lukasa.storage.files import CHUNK_SIZE, FileInfo, as_chunks, check_name

_RETRY_CONFIG: Any = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
_CLIENT_OPTIONS: Any = {"timeout": "60s", "connect_timeout": "10s", "allow_http": True}


class BucketFiles:
    """A file store under a prefix of a bucket."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = mask_password(url)
        settings: dict[str, Any] = {"retry_config": _RETRY_CONFIG, "client_options": _CLIENT_OPTIONS} | options
        try:
            self._bucket: Any = from_url(url, **settings)
        except (BaseError, ValueError) as error:
            raise InvalidInput(f"{self.url!r} names no bucket: {_shorten_message(error)}.") from error

    def put(self, name: str, data: bytes | Iterable[bytes], *, new: bool = False, at: datetime | None = None) -> None:
        del at  # a bucket records its own times
        check_name(name)
        with self._error_translation(name):
            if new:  # only a single request can be conditional
                obstore.put(self._bucket, name, b"".join(as_chunks(data)), mode="create", use_multipart=False)
            elif isinstance(data, bytes):
                obstore.put(self._bucket, name, data)
            else:
                obstore.put(self._bucket, name, iter(data), chunk_size=8 * CHUNK_SIZE)

    def read(self, name: str) -> Iterator[bytes]:
        check_name(name)
        with self._error_translation(name):
            response = obstore.get(self._bucket, name)
            size, received = response.meta["size"], 0
            for chunk in response.stream(min_chunk_size=CHUNK_SIZE):
                received += len(chunk)
                yield bytes(chunk)
        if received != size:
            raise StoreUnavailable(f"{self.url} sent {received:,} of the {size:,} bytes of {name}.")

    def append(self, name: str, data: bytes) -> bool:
        del name, data
        return False

    def list_files(self, folder: str) -> list[FileInfo]:
        with self._error_translation(folder):
            objects = obstore.list_with_delimiter(self._bucket, folder or None)["objects"]
        found = [FileInfo(item["path"], item["size"], item["last_modified"]) for item in objects]
        return sorted(found, key=lambda file: file.name)

    def list_folders(self, folder: str) -> list[str]:
        with self._error_translation(folder):
            prefixes = obstore.list_with_delimiter(self._bucket, folder or None)["common_prefixes"]
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes)

    def rename(self, old: str, new: str) -> None:
        check_name(new)
        with self._error_translation(old):
            obstore.rename(self._bucket, old, new)

    def delete(self, name: str) -> None:
        with suppress(FileMissing), self._error_translation(name):
            obstore.delete(self._bucket, name)

    def delete_partial_files(self, folder: str) -> int:
        del folder  # a bucket shows complete files only
        return 0

    @contextmanager
    def _error_translation(self, name: str) -> Iterator[None]:
        try:
            yield
        except (AlreadyExistsError, PreconditionError) as error:
            raise FileTaken(f"{self.url} has {name} already.") from error
        except (NotFoundError, FileNotFoundError) as error:
            raise FileMissing(f"{self.url} has no {name}.") from error
        except (BaseError, OSError) as error:
            raise StoreUnavailable(f"{self.url} failed: {_shorten_message(error)}.") from error


def _shorten_message(error: BaseException) -> str:
    line = " ".join(str(error).partition("Debug source")[0].split()).rstrip(".")
    return line if len(line) <= 300 else line[:299] + "…"
