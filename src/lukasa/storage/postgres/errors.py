"""PostgreSQL's errors in our words. Nothing of ``psycopg`` leaves the engine, and no password does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from lukasa.errors import (
    InvalidInput,
    LukasaError,
    NotAllowed,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
    mask_password,
)

RETRYABLE_ERRORS = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
"""Lost races: the same work can be tried again at once."""

_ERROR_TYPES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[LukasaError], str | None], ...] = (
    ((errors.LockNotAvailable, errors.QueryCanceled), StoreBusy, None),
    (errors.TooManyConnections, StoreBusy, "The server takes no more connections; nothing was written, try again."),
    (RETRYABLE_ERRORS, StoreBusy, "Others wrote the same records at the same time, again and again; nothing was written, try again."),
    (errors.DiskFull, StoreFull, None),
    ((errors.ReadOnlySqlTransaction,), StoreReadOnly, None),
    (errors.InsufficientPrivilege, NotAllowed, "The database role may not do this."),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreDamaged, None),
    ((errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction), StoreForeign, "The database does not hold the tables of a Lukasa store."),
    (errors.InvalidCatalogName, StoreMissing, "There is no such database on the server."),
    ((errors.InvalidPassword, errors.InvalidAuthorizationSpecification), NotAllowed, "The server refused the role or its password."),
)  # fmt: skip


def translate_error(error: Exception) -> LukasaError:
    """The error of our tree that tells the same."""
    for theirs, ours, message in _ERROR_TYPES:
        if isinstance(error, theirs):
            return ours(message, hint=_build_hint(error, ours))
    if is_connection_lost(error):
        return StoreUnavailable(
            f"The server could not be reached or went away ({_read_server_message(error)}); the write was not acknowledged.",
            hint="It is tried again by itself once the server is back.",
        )
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"PostgreSQL cannot hold this: {_read_server_message(error)}.")
    return StoreError(f"PostgreSQL refused: {_read_server_message(error)}")


def translate_connection_error(error: Exception, url: str) -> LukasaError:
    """Why no connection could be made. The driver tells it in the server's words alone, and may quote the URL."""
    if isinstance(error, psycopg.ProgrammingError):
        return InvalidInput(
            "The URL of the database cannot be read.", hint="Write postgresql://user@host:5432/database."
        )
    said = _read_server_message(error).rpartition("FATAL:")[2].strip()
    for secret in _find_password_parts(url):
        said = said.replace(secret, "***")
    if "too many" in said or "remaining connection slots" in said:
        return StoreBusy("The server takes no more connections; try again.", hint=f"It said: {said}")
    if "password" in said or "authentication" in said or "pg_hba.conf" in said or said.startswith("role "):
        return NotAllowed("The server refused the role or its password.", hint=f"It said: {said}")
    if said.startswith("database ") and "does not exist" in said:
        return StoreMissing(
            "There is no such database on the server.", hint=f"Create it first. The server said: {said}"
        )
    return StoreUnavailable(f"The server cannot be reached: {said}", hint="Check that it runs, and the URL.")


def _find_password_parts(url: str) -> list[str]:
    """The password in a URL, and the pieces that a misread URL might show of it; the longest first."""
    rest = url.partition("://")[2]
    whole = rest.rpartition("@")[0].partition(":")[2]
    found = {whole, *re.split(r"[@/ %]", whole), *re.findall(r"(?i)password=([^&\s]+)", url)}
    if "@" in whole:
        found |= {whole[at + 1 :] + "@" for at, sign in enumerate(whole) if sign == "@"}
    return sorted((piece for piece in found if len(piece) > 1), key=len, reverse=True)


def _build_hint(error: Exception, ours: type[LukasaError]) -> str | None:
    if ours is NotAllowed or ours is StoreMissing:
        return f"The server said: {_read_server_message(error)}."
    return None


def _read_server_message(error: Exception) -> str:
    """The first line of what the server said, without anything that looks like a password."""
    diagnosis = getattr(error, "diag", None)
    said = (getattr(diagnosis, "message_primary", None) or str(error) or type(error).__name__).strip().splitlines()[0]
    return mask_password(said)


_SHUTDOWN_CODES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""Codes by which a server says goodbye: shutting down, crashed, starting up, idle for too long."""


def is_connection_lost(error: Exception) -> bool:
    """Whether the connection is gone, so that nobody knows what the server did last."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    code = getattr(error, "sqlstate", None)
    return code is None or code.startswith("08") or code in _SHUTDOWN_CODES


@contextmanager
def error_translation() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error) from error
