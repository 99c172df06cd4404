"""Lukasa errors for errors of PostgreSQL. No error of ``psycopg`` and no password leaves the engine."""

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
"""Lost races: the same work can be retried at once."""

_ERROR_TYPES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[LukasaError], str | None], ...] = (
    ((errors.LockNotAvailable, errors.QueryCanceled), StoreBusy, None),
    (errors.TooManyConnections, StoreBusy, "The server takes no more connections; nothing was written, try again."),
    (RETRYABLE_ERRORS, StoreBusy, "Other writers changed the same records at the same time, again and again; nothing was written, try again."),
    (errors.DiskFull, StoreFull, None),
    ((errors.ReadOnlySqlTransaction,), StoreReadOnly, None),
    (errors.InsufficientPrivilege, NotAllowed, "The database role may not do this."),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreDamaged, None),
    ((errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction), StoreForeign, "The database does not hold the tables of a Lukasa store."),
    (errors.InvalidCatalogName, StoreMissing, "There is no such database on the server."),
    ((errors.InvalidPassword, errors.InvalidAuthorizationSpecification), NotAllowed, "The server refused the role or its password."),
)  # fmt: skip


def translate_error(error: Exception) -> LukasaError:
    """Return the Lukasa error for an error of PostgreSQL."""
    for postgres_type, lukasa_type, message in _ERROR_TYPES:
        if isinstance(error, postgres_type):
            hint = (
                f"The server said: {_read_server_message(error)}."
                if lukasa_type in (NotAllowed, StoreMissing)
                else None
            )
            return lukasa_type(message, hint=hint)
    if is_connection_lost(error):
        return StoreUnavailable(
            f"The server could not be reached or went away ({_read_server_message(error)}); the write was not acknowledged.",
            hint="Try again once the server is back.",
        )
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"PostgreSQL cannot hold this: {_read_server_message(error)}.")
    return StoreError(f"PostgreSQL refused: {_read_server_message(error)}")


def translate_connection_error(error: Exception, url: str) -> LukasaError:
    """Return why no connection could be opened. The driver gives only the server's message, and may quote the URL."""
    if isinstance(error, psycopg.ProgrammingError):
        return InvalidInput(
            "The URL of the database cannot be read.", hint="Write postgresql://user@host:5432/database."
        )
    message = _read_server_message(error).rpartition("FATAL:")[2].strip()
    # Mask the password, and the pieces of it that a misread URL might show, the longest first.
    password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    secrets = {
        password,
        *password.replace("@", " ").replace("/", " ").replace("%", " ").split(" "),
        *re.findall(r"(?i)password=([^&\s]+)", url),
    }
    secrets |= {password[index + 1 :] + "@" for index, character in enumerate(password) if character == "@"}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) > 1:
            message = message.replace(secret, "***")
    if "too many" in message or "remaining connection slots" in message:
        return StoreBusy("The server takes no more connections; try again.", hint=f"It said: {message}")
    if any(word in message for word in ("password", "authentication", "pg_hba.conf")) or message.startswith("role "):
        return NotAllowed("The server refused the role or its password.", hint=f"It said: {message}")
    if message.startswith("database ") and "does not exist" in message:
        return StoreMissing(
            "There is no such database on the server.", hint=f"Create it first. The server said: {message}"
        )
    return StoreUnavailable(
        f"The server cannot be reached: {message.rstrip('.')}.", hint="Is it running? Is the URL right?"
    )


def _read_server_message(error: Exception) -> str:
    """Return the first line of the server's message, without anything that looks like a password."""
    diagnosis = getattr(error, "diag", None)
    message = getattr(diagnosis, "message_primary", None) or str(error) or type(error).__name__
    return mask_password(message.strip().splitlines()[0])


_SHUTDOWN_CODES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""Codes with which a server ends a connection: shutting down, crashed, starting up, idle for too long."""


def is_connection_lost(error: Exception) -> bool:
    """Return whether the connection is lost, so that the outcome of the last statement is unknown."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    code = getattr(error, "sqlstate", None)
    return code is None or code.startswith("08") or code in _SHUTDOWN_CODES


@contextmanager
def error_translation() -> Iterator[None]:
    """Raise the Lukasa error for an error of PostgreSQL inside the block."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error) from error
