"""Every exception Lukasa raises, in one tree.

    LukasaError
    ├── InvalidInput            the caller passed something that no store could take
    ├── NotAccepted             ``unwrap()`` of a write that was refused or in conflict
    ├── NotAllowed              the caller's reach does not cover what was asked
    │   └── StoreNotAllowed     the store that was found was not made here by this user
    ├── MissingExtra            an optional part is not installed
    ├── FormatError             a file to import is not what it says it is
    └── StoreError              the store itself could not do its work
        ├── StoreMissing        there is no store at that place
        │   └── FileMissing     there is no file of that name
        ├── StoreForeign        the file there is not a Lukasa store
        ├── StoreNewer          the store was written by a newer Lukasa
        ├── StoreBusy           another process held the write lock too long
        ├── StoreFull           no space left; nothing was written
        ├── StoreReadOnly       the place cannot be written; reading still works
        ├── StoreDamaged        stored data failed a check
        ├── StoreUnavailable    the device or server failed; the write is not acknowledged
        │   └── NetworkDown     the network of agents cannot be reached
        │       └── RateLimited it was asked too often
        ├── StoreClosed         the store was closed
        └── FileTaken           there is a file of that name already

What a caller must expect in normal work (a refusal, a lost race) is a value, see ``lukasa.core.outcome``; only ``unwrap``
makes an error of it. The first line of each docstring is the default message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lukasa.core.outcome import Conflict, Refused


class LukasaError(Exception):
    """Something went wrong in Lukasa."""

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().partition("\n")[0]
        self.hint = hint
        super().__init__(self.message if hint is None else f"{self.message} {hint}")


class InvalidInput(LukasaError, ValueError):
    """The input cannot be used."""


class NotAccepted(LukasaError):
    """The write was not accepted.

    ``outcome`` is the refusal or the conflict, and ``code`` its code; the message is its reason.
    """

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, outcome: Refused | Conflict | None = None
    ) -> None:
        super().__init__(message or (None if outcome is None else outcome.reason), hint=hint)
        self.outcome = outcome
        self.code = "refused" if outcome is None else outcome.code

    def __str__(self) -> str:
        return super().__str__() if self.outcome is None else f"{super().__str__()} ({self.code})"


class NotAllowed(LukasaError):
    """The caller's reach does not cover this."""


class StoreNotAllowed(NotAllowed):
    """The store that was found was not made by you on this machine."""


class MissingExtra(LukasaError, ImportError):
    """An optional part of Lukasa is not installed."""


class FormatError(LukasaError, ValueError):
    """The file is not in the expected format."""


class StoreError(LukasaError):
    """The store could not do its work."""


class StoreMissing(StoreError):
    """There is no store at that place."""


class FileMissing(StoreMissing):
    """There is no file of that name."""


class StoreForeign(StoreError):
    """The file is not a Lukasa store; it was left untouched."""


class StoreNewer(StoreError):
    """The store was written by a newer Lukasa; upgrade Lukasa to open it."""


class StoreBusy(StoreError):
    """Another process held the write lock for too long; nothing was written, try again."""


class StoreFull(StoreError):
    """No space is left for the store; nothing was written, free some space and try again."""


class StoreReadOnly(StoreError):
    """The store cannot be written here; reading still works."""


class StoreDamaged(StoreError):
    """Stored data failed a check; run `lukasa verify` to see what is damaged."""


class StoreUnavailable(StoreError):
    """The storage failed; the write was not acknowledged."""


class NetworkDown(StoreUnavailable):
    """The network of agents cannot be reached; try again later."""


class RateLimited(NetworkDown):
    """The network's rate limit is used up; try again in the next hour."""


class StoreClosed(StoreError):
    """The store was closed."""


class FileTaken(StoreError):
    """There is a file of that name already."""


def mask_password(text: str) -> str:
    """A URL, or a message that quotes one, with the password left out."""
    text = re.sub(r"(?<=://)([^/@:\s]*):[^@/\s]*@", r"\1:***@", text)
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|[^\s&]+)", r"\1***", text)
