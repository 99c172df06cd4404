"""How a command ends: the one table from outcomes and errors to exit codes, and the sentence that goes with each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from lukasa import errors
from lukasa.outcome import Accepted, Conflict, Outcome, Refused


class Ending(IntEnum):
    """What the exit code of a command tells."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    REFUSED = 3
    CONFLICT = 4
    NOT_FOUND = 5
    DAMAGED = 6
    UNAVAILABLE = 7
    UNPROVED = 8
    INTERRUPTED = 130
    PIPE_CLOSED = 141


ENDINGS: dict[type, Ending] = {
    Accepted: Ending.OK,
    Refused: Ending.REFUSED,
    Conflict: Ending.CONFLICT,
    errors.LukasaError: Ending.UNEXPECTED,
    errors.InvalidInput: Ending.USAGE,
    errors.NotAllowed: Ending.REFUSED,
    errors.MissingExtra: Ending.UNAVAILABLE,
    errors.FormatError: Ending.DAMAGED,
    errors.StoreError: Ending.UNAVAILABLE,
    errors.StoreMissing: Ending.NOT_FOUND,
    errors.FileMissing: Ending.NOT_FOUND,
    errors.StoreForeign: Ending.UNAVAILABLE,
    errors.StoreNewer: Ending.UNAVAILABLE,
    errors.StoreBusy: Ending.UNAVAILABLE,
    errors.StoreFull: Ending.UNAVAILABLE,
    errors.StoreReadOnly: Ending.UNAVAILABLE,
    errors.StoreDamaged: Ending.DAMAGED,
    errors.StoreUnavailable: Ending.UNAVAILABLE,
    errors.NetworkDown: Ending.UNAVAILABLE,
    errors.RateLimited: Ending.UNAVAILABLE,
    errors.StoreClosed: Ending.UNAVAILABLE,
    errors.FileTaken: Ending.UNAVAILABLE,
    FileNotFoundError: Ending.NOT_FOUND,
    OSError: Ending.UNAVAILABLE,
    Exception: Ending.UNEXPECTED,
}
"""Every outcome and every error, once. What is not named ends like its nearest ancestor."""


class Unmet(Exception):
    """A command stops here because the answer was no."""

    def __init__(self, outcome: Refused | Conflict, hint: str | None = None) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command did not do what was asked: a stable code, a sentence, what to do about it, how to exit."""

    code: str
    message: str
    hint: str | None
    ending: Ending

    def as_json(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def met(outcome: Outcome, hint: str | None = None) -> Accepted:
    """The outcome if it was accepted; otherwise the command stops."""
    if isinstance(outcome, Accepted):
        return outcome
    raise Unmet(outcome, hint)


def ending_of(thing: object) -> Ending:
    """How a command ends that came to this outcome or error."""
    if isinstance(thing, Refused) and thing.code == "not_found":
        return Ending.NOT_FOUND
    return next((ENDINGS[kind] for kind in type(thing).__mro__ if kind in ENDINGS), Ending.UNEXPECTED)


def failure_of(error: Exception) -> Failure:
    """The failure that an error stands for."""
    if isinstance(error, Unmet):
        code = error.outcome.code if isinstance(error.outcome, Refused) else "conflict"
        return Failure(code, error.outcome.reason, error.hint, ending_of(error.outcome))
    if isinstance(error, errors.LukasaError):
        return Failure(_snake(type(error).__name__), error.message, error.hint, ending_of(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Failure("file", f"{where}{error.strerror or error}.", None, ending_of(error))
    hint = "This is a mistake in Lukasa; what follows tells its makers where."
    return Failure("unexpected", f"{type(error).__name__}: {error}", hint, ending_of(error))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
