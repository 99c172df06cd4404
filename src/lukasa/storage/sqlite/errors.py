"""SQLite's errors in our words. Nothing of ``apsw`` leaves the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from lukasa.errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_ERROR_TYPES: tuple[tuple[type[Exception], type[StoreError]], ...] = (
    (apsw.BusyError, StoreBusy),
    (apsw.LockedError, StoreBusy),
    (apsw.FullError, StoreFull),
    (apsw.ReadOnlyError, StoreReadOnly),
    (apsw.NotADBError, StoreForeign),
    (apsw.CorruptError, StoreDamaged),
    (apsw.ConnectionClosedError, StoreClosed),
)


def translate_error(error: apsw.Error | MemoryError) -> StoreError:
    """The error of our tree that tells the same."""
    for theirs, ours in _ERROR_TYPES:
        if isinstance(error, theirs):
            return ours()
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        return StoreUnavailable(f"The storage failed ({error}); the write was not acknowledged.")
    return StoreError(f"SQLite refused: {error}")


@contextmanager
def error_translation() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate_error(error) from error
    except UnicodeDecodeError as error:
        raise StoreDamaged from error
