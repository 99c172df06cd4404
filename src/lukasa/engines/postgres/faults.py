"""PostgreSQL's errors in our words. Nothing of ``psycopg`` leaves the engine, and no password does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from lukasa.errors import (
    InvalidInput,
    LukasaError,
    NotAllowed,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
    without_password,
)

RETRIED = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
"""Lost races: the same work can be tried again at once."""

_KNOWN: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[LukasaError], str | None], ...] = (
    (PoolClosed, StoreClosed, None),
    (
        (PoolTimeout, TooManyRequests),
        StoreBusy,
        "All connections to the server were in use for too long; nothing was written, try again.",
    ),
    ((errors.LockNotAvailable, errors.QueryCanceled), StoreBusy, None),
    (errors.TooManyConnections, StoreBusy, "The server takes no more connections; nothing was written, try again."),
    (RETRIED, StoreBusy, "Others wrote the same records at the same time, again and again; nothing was written, try again."),
    (errors.DiskFull, StoreFull, None),
    ((errors.ReadOnlySqlTransaction,), StoreReadOnly, None),
    (errors.InsufficientPrivilege, NotAllowed, "The database role may not do this."),
    ((errors.DataCorrupted, errors.IndexCorrupted), StoreDamaged, None),
    ((errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction), StoreForeign, "The database does not hold the tables of a Lukasa store."),
    (errors.InvalidCatalogName, StoreMissing, "There is no such database on the server."),
    ((errors.InvalidPassword, errors.InvalidAuthorizationSpecification), NotAllowed, "The server refused the role or its password."),
)  # fmt: skip


def translate(error: Exception) -> LukasaError:
    """The error of our tree that tells the same."""
    for theirs, ours, message in _KNOWN:
        if isinstance(error, theirs):
            return ours(message, hint=_hint(error, ours))
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(
            f"The server could not be reached or went away ({_said(error)}); the write was not acknowledged.",
            hint="It is tried again by itself once the server is back.",
        )
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"PostgreSQL cannot hold this: {_said(error)}.")
    return StoreError(f"PostgreSQL refused: {_said(error)}")


def unreachable(error: Exception) -> LukasaError:
    """Why no connection could be made. The driver tells it in the server's words alone."""
    said = _said(error)
    if "password" in said or "authentication" in said or "no pg_hba.conf entry" in said or "role " in said:
        return NotAllowed("The server refused the role or its password.", hint=f"It said: {said}")
    if "database " in said and "does not exist" in said:
        return StoreMissing(
            "There is no such database on the server.", hint=f"Create it first; the server said: {said}"
        )
    if isinstance(error, psycopg.ProgrammingError):
        return InvalidInput(f"The URL cannot be read: {said}.", hint="Write postgresql://user@host:5432/database.")
    return StoreUnavailable(f"The server cannot be reached: {said}", hint="Check that it runs, and the URL.")


def _hint(error: Exception, ours: type[LukasaError]) -> str | None:
    if ours is NotAllowed or ours is StoreMissing:
        return f"The server said: {_said(error)}."
    return None


def _said(error: Exception) -> str:
    """The first line of what the server said, without anything that looks like a password."""
    diagnosis = getattr(error, "diag", None)
    said = (getattr(diagnosis, "message_primary", None) or str(error) or type(error).__name__).strip().splitlines()[0]
    return without_password(said)


def is_lost(error: Exception) -> bool:
    """Whether the connection is gone, so that nobody knows what the server did last."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not isinstance(
        error,
        errors.LockNotAvailable
        | errors.QueryCanceled
        | errors.DiskFull
        | errors.SerializationFailure
        | errors.DeadlockDetected,
    )


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, PoolClosed, PoolTimeout, TooManyRequests) as error:
        raise translate(error) from error
