"""How a command ends: the one table from outcomes and errors to exit codes, and the sentence that goes with each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from lukasa import errors
from lukasa.outcome import Accepted, Conflict, Outcome, Refused


class ExitCode(IntEnum):
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


EXIT_CODES: dict[type, ExitCode] = {
    Accepted: ExitCode.OK,
    Refused: ExitCode.REFUSED,
    Conflict: ExitCode.CONFLICT,
    errors.LukasaError: ExitCode.UNEXPECTED,
    errors.InvalidInput: ExitCode.USAGE,
    errors.NotAllowed: ExitCode.REFUSED,
    errors.MissingExtra: ExitCode.UNAVAILABLE,
    errors.FormatError: ExitCode.DAMAGED,
    errors.StoreError: ExitCode.UNAVAILABLE,
    errors.StoreMissing: ExitCode.NOT_FOUND,
    errors.FileMissing: ExitCode.NOT_FOUND,
    errors.StoreForeign: ExitCode.UNAVAILABLE,
    errors.StoreNewer: ExitCode.UNAVAILABLE,
    errors.StoreBusy: ExitCode.UNAVAILABLE,
    errors.StoreFull: ExitCode.UNAVAILABLE,
    errors.StoreReadOnly: ExitCode.UNAVAILABLE,
    errors.StoreDamaged: ExitCode.DAMAGED,
    errors.StoreUnavailable: ExitCode.UNAVAILABLE,
    errors.NetworkDown: ExitCode.UNAVAILABLE,
    errors.RateLimited: ExitCode.UNAVAILABLE,
    errors.StoreClosed: ExitCode.UNAVAILABLE,
    errors.FileTaken: ExitCode.UNAVAILABLE,
    FileNotFoundError: ExitCode.NOT_FOUND,
    OSError: ExitCode.UNAVAILABLE,
    Exception: ExitCode.UNEXPECTED,
}
"""Every outcome and every error, once. What is not named ends like its nearest ancestor."""


class CommandRefused(Exception):
    """A command stops here because the answer was no."""

    def __init__(self, outcome: Refused | Conflict, hint: str | None = None) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
        self.hint = hint


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """Why a command did not do what was asked: a stable code, a sentence, what to do about it, how to exit."""

    code: str
    message: str
    hint: str | None
    exit_code: ExitCode

    def as_json(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def require_accepted(outcome: Outcome, hint: str | None = None) -> Accepted:
    """The outcome if it was accepted; otherwise the command stops."""
    if isinstance(outcome, Accepted):
        return outcome
    raise CommandRefused(outcome, hint)


def exit_code_for(result: object) -> ExitCode:
    """How a command ends that came to this outcome or error."""
    if isinstance(result, Refused) and result.code == "not_found":
        return ExitCode.NOT_FOUND
    return next((EXIT_CODES[kind] for kind in type(result).__mro__ if kind in EXIT_CODES), ExitCode.UNEXPECTED)


def failure_for(error: Exception) -> CommandFailure:
    """The failure that an error stands for."""
    if isinstance(error, CommandRefused):
        code = error.outcome.code if isinstance(error.outcome, Refused) else "conflict"
        return CommandFailure(code, error.outcome.reason, error.hint, exit_code_for(error.outcome))
    if isinstance(error, errors.LukasaError):
        return CommandFailure(_snake_case(type(error).__name__), error.message, error.hint, exit_code_for(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return CommandFailure("file", f"{where}{error.strerror or error}.", None, exit_code_for(error))
    hint = "This is a mistake in Lukasa; what follows tells its makers where."
    return CommandFailure("unexpected", f"{type(error).__name__}: {error}", hint, exit_code_for(error))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
