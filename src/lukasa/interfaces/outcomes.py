"""The one table that says how every outcome and error is reported.

A row holds the exit code of a command, the status of an HTTP response, the slug of an RFC 9457 problem type, the outcome
word of an MCP tool, and the advice for an agent. ``outcome_of`` looks a refusal, a conflict or an exception up and returns
its row together with the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal

from lukasa import errors
from lukasa.core.names import to_snake_case
from lukasa.core.outcome import Accepted, Conflict, Refused, next_step
from lukasa.errors import NotAccepted

ToolOutcome = Literal["done", "refused", "conflict", "failed"]
PROBLEM_PREFIX = "urn:lukasa:problem:"


class ExitCode(IntEnum):
    """Exit codes of the command line."""

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


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """How one kind of outcome is reported by each interface."""

    exit_code: ExitCode
    http_status: int
    problem_type: str
    tool_outcome: ToolOutcome
    agent_hint: str | None = None


_DOCTOR = "ask the operator of the server to run `lukasa doctor`."
_TRY_AGAIN = f"Call again in a moment. If it fails again, {_DOCTOR}"
_ALLOW_STORE = "Ask the user whether the store of this folder may be used: `lukasa allow` allows it."
_CREATE_STORE = "Call `remember` to create the store, or ask the operator of the server where it is."
_CHECK_FOLDER = "Ask the operator of the server to check the folder of the store."
_INSTALL = "Ask the operator of the server to install it."
_FREE_SPACE = "Ask the operator of the server to free some space; nothing was written."
_READ_LOG = "Call again. If it fails again, ask the operator of the server to read its log."
_SEND_TOKEN = (
    "Make one with `lukasa --agent NAME token add NAME` on the server, and send it as `Authorization: Bearer …`."  # noqa: S105 - advice
)
_READ_OPENAPI = "The description of the API is at /openapi.json."
_ADD_HOST_NAME = "Start the server with --host-name to add a name."
_REFUSED = OutcomeRow(ExitCode.REFUSED, 422, "refused", "refused", next_step("refused"))
_NOT_ALLOWED = OutcomeRow(ExitCode.REFUSED, 403, "not-allowed", "refused", next_step("not_allowed"))
_INVALID = OutcomeRow(ExitCode.USAGE, 422, "invalid-input", "failed", "Change the arguments, then call again.")
_UNAVAILABLE = OutcomeRow(ExitCode.UNAVAILABLE, 503, "store-unavailable", "failed", _TRY_AGAIN)
_UNEXPECTED = OutcomeRow(ExitCode.UNEXPECTED, 500, "unexpected", "failed", _READ_LOG)

OUTCOMES: Mapping[type, OutcomeRow] = {
    Accepted: OutcomeRow(ExitCode.OK, 200, "", "done"),
    Refused: _REFUSED,
    Conflict: OutcomeRow(ExitCode.CONFLICT, 409, "conflict", "conflict", next_step("conflict")),
    errors.LukasaError: OutcomeRow(ExitCode.UNEXPECTED, 500, "unexpected", "failed"),
    errors.InvalidInput: _INVALID,
    errors.NotAccepted: replace(_REFUSED, tool_outcome="failed"),
    errors.NotAllowed: OutcomeRow(ExitCode.REFUSED, 403, "not-allowed", "failed", next_step("not_allowed")),
    errors.StoreNotAllowed: OutcomeRow(ExitCode.REFUSED, 403, "store-not-allowed", "failed", _ALLOW_STORE),
    errors.MissingExtra: OutcomeRow(ExitCode.UNAVAILABLE, 501, "missing-extra", "failed", _INSTALL),
    errors.FormatError: OutcomeRow(ExitCode.DAMAGED, 422, "bad-format", "failed"),
    errors.StoreError: _UNAVAILABLE,
    errors.StoreMissing: OutcomeRow(ExitCode.NOT_FOUND, 404, "store-missing", "failed", _CREATE_STORE),
    errors.FileMissing: OutcomeRow(ExitCode.NOT_FOUND, 404, "file-missing", "failed", _CHECK_FOLDER),
    errors.StoreForeign: OutcomeRow(ExitCode.UNAVAILABLE, 503, "store-foreign", "failed", _TRY_AGAIN),
    errors.StoreNewer: OutcomeRow(ExitCode.UNAVAILABLE, 503, "store-newer", "failed", _TRY_AGAIN),
    errors.StoreBusy: OutcomeRow(ExitCode.UNAVAILABLE, 503, "store-busy", "failed", _TRY_AGAIN),
    errors.StoreFull: OutcomeRow(ExitCode.UNAVAILABLE, 507, "store-full", "failed", _FREE_SPACE),
    errors.StoreReadOnly: OutcomeRow(ExitCode.UNAVAILABLE, 503, "store-read-only", "failed", _TRY_AGAIN),
    errors.StoreDamaged: OutcomeRow(ExitCode.DAMAGED, 500, "store-damaged", "failed", _DOCTOR.capitalize()),
    errors.StoreUnavailable: _UNAVAILABLE,
    errors.NetworkDown: OutcomeRow(ExitCode.UNAVAILABLE, 503, "network-down", "failed", _TRY_AGAIN),
    errors.RateLimited: OutcomeRow(ExitCode.UNAVAILABLE, 429, "rate-limited", "failed", _TRY_AGAIN),
    errors.StoreClosed: OutcomeRow(ExitCode.UNAVAILABLE, 503, "store-closed", "failed", _TRY_AGAIN),
    errors.FileTaken: OutcomeRow(ExitCode.UNAVAILABLE, 409, "file-taken", "failed", _TRY_AGAIN),
    FileNotFoundError: OutcomeRow(ExitCode.NOT_FOUND, 404, "file-missing", "failed", _CHECK_FOLDER),
    OSError: OutcomeRow(ExitCode.UNAVAILABLE, 503, "file", "failed", _CHECK_FOLDER),
    BrokenPipeError: OutcomeRow(ExitCode.PIPE_CLOSED, 503, "pipe-closed", "failed", _TRY_AGAIN),
    KeyboardInterrupt: OutcomeRow(ExitCode.INTERRUPTED, 503, "interrupted", "failed", _TRY_AGAIN),
    Exception: _UNEXPECTED,
}
"""Every outcome and every error class. A class that is missing is reported like its nearest base class."""

REFUSALS: Mapping[str, OutcomeRow] = {
    "not_found": OutcomeRow(ExitCode.NOT_FOUND, 404, "not-found", "refused", next_step("not_found")),
    **dict.fromkeys(("not_allowed", "bad_scope", "scope_closed", "not_yours", "author_not_yours"), _NOT_ALLOWED),
    "proposed": OutcomeRow(ExitCode.REFUSED, 403, "proposed", "refused", next_step("proposed")),
    **dict.fromkeys(
        ("needs_owner", "refused_by_owner", "too_many_proposals"),
        OutcomeRow(ExitCode.REFUSED, 403, "not-allowed", "refused", next_step("needs_owner")),
    ),
    "duplicate": OutcomeRow(ExitCode.REFUSED, 409, "duplicate", "refused", next_step("duplicate")),
    "busy": OutcomeRow(ExitCode.REFUSED, 503, "store-busy", "refused", _TRY_AGAIN),
    "secret": replace(_REFUSED, agent_hint=next_step("secret")),
    "usage": replace(_INVALID, problem_type="usage"),
    "unproved": OutcomeRow(ExitCode.UNPROVED, 500, "unproved-copy", "failed"),
    "unauthorized": OutcomeRow(ExitCode.REFUSED, 401, "unauthorized", "refused", _SEND_TOKEN),
    "unknown_host": OutcomeRow(ExitCode.REFUSED, 421, "unknown-host", "refused", _ADD_HOST_NAME),
    "foreign_origin": replace(_NOT_ALLOWED, problem_type="foreign-origin"),
    "no_such_path": OutcomeRow(ExitCode.NOT_FOUND, 404, "no-such-path", "refused", _READ_OPENAPI),
    "no_such_method": OutcomeRow(ExitCode.USAGE, 405, "no-such-method", "refused", _READ_OPENAPI),
    "not_json": OutcomeRow(ExitCode.USAGE, 415, "not-json", "refused", "Send JSON as application/json."),
    "body_too_large": OutcomeRow(ExitCode.REFUSED, 413, "body-too-large", "refused", "Send less at once."),
    "not_http": OutcomeRow(ExitCode.USAGE, 400, "not-http", "refused", _READ_OPENAPI),
    "too_slow": OutcomeRow(ExitCode.UNAVAILABLE, 408, "too-slow", "refused", "Send the request again, at once."),
    "import_running": OutcomeRow(ExitCode.CONFLICT, 409, "import-running", "refused", "Call again when it has ended."),
    "too_many_connections": OutcomeRow(ExitCode.UNAVAILABLE, 503, "too-many-connections", "refused", _TRY_AGAIN),
}
"""Codes that are reported unlike other refusals. Only interfaces give ``usage``, ``unproved`` and those after ``unproved``."""


@dataclass(frozen=True, slots=True)
class OutcomeInfo:
    """A refusal, conflict or error, ready to be reported by any interface.

    ``hint`` is the advice that came with the error itself; ``agent_hint`` falls back to the table's advice for agents.
    """

    code: str
    message: str
    hint: str | None
    row: OutcomeRow
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agent_hint(self) -> str | None:
        return self.hint or self.row.agent_hint

    def with_status(self, status: int) -> OutcomeInfo:
        """Return the same report with another HTTP status."""
        return replace(self, row=replace(self.row, http_status=status))

    def as_json(self) -> dict[str, Any]:
        """Return the error object that commands print with ``--json``."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}

    def as_problem(self) -> dict[str, Any]:
        """Return the body of an ``application/problem+json`` response (RFC 9457)."""
        problem = {
            "type": PROBLEM_PREFIX + self.row.problem_type,
            "title": self.row.problem_type.replace("-", " ").capitalize(),
            "status": self.row.http_status,
            "detail": self.message,
            "code": self.code,
        }
        optional = {"next": self.agent_hint, "details": dict(self.details)}
        return problem | {name: value for name, value in optional.items() if value}


def describe_details(details: Mapping[str, Any]) -> list[str]:
    """Return remarks for the writer of an accepted record, in sentences."""
    sentences = []
    if "quarantine" in details:
        sentences.append(
            f"The writer is in quarantine since {details['quarantine']['since'][:16]}: nobody sees what it writes until the "
            "owner of the store releases it."
        )
    if "gives_orders" in details:
        sentences.append(
            f"It reads like an order to its reader ({details['gives_orders']}). It is kept and found by recall, but no "
            "prompt shows it unasked before the owner or a second author confirms it."
        )
    return sentences


def not_found(message: str, hint: str | None = None) -> NotAccepted:
    """Return the exception for a thing that does not exist."""
    return NotAccepted(outcome=Refused("not_found", message), hint=hint)


def row_of(result: object) -> OutcomeRow:
    """Return the row for an outcome or an exception."""
    if isinstance(result, Refused) and result.code in REFUSALS:
        return REFUSALS[result.code]
    return next((OUTCOMES[base] for base in type(result).__mro__ if base in OUTCOMES), _UNEXPECTED)


def outcome_of(result: Refused | Conflict | BaseException, *, public: bool = False) -> OutcomeInfo:
    """Return how a refusal, a conflict or an exception is reported.

    With ``public`` the message is safe to send to a remote caller: no file names, and an unforeseen error is named by its
    type alone, because its message may quote other callers' text.
    """
    if isinstance(result, NotAccepted) and result.outcome is not None:
        own_hint = None if result.hint == next_step(result.code) else result.hint  # a shell has other next steps
        return replace(outcome_of(result.outcome), hint=own_hint)
    row = row_of(result)
    if isinstance(result, Refused | Conflict):
        details = {"key": asdict(result.key), **result.details} if isinstance(result, Conflict) else result.details
        return OutcomeInfo(result.code, result.reason, None, row, details)
    if isinstance(result, errors.LukasaError):
        return OutcomeInfo(error_code(result), result.message, result.hint, row)
    if isinstance(result, OSError):
        if public:
            return OutcomeInfo("file", f"{result.strerror or 'A file could not be used'}.", None, row)
        file_name = f"{result.filename}: " if result.filename else ""
        return OutcomeInfo("file", f"{file_name}{result.strerror or result}.", None, row)
    if isinstance(result, KeyboardInterrupt):
        return OutcomeInfo("interrupted", "Interrupted.", None, row)
    if public:
        return OutcomeInfo("unexpected", f"{type(result).__name__} in the server.", None, row)
    hint = "This is a bug in Lukasa. Please report it with the traceback below."
    return OutcomeInfo("unexpected", f"{type(result).__name__}: {result}", hint, row)


def request_error(code: str, message: str) -> OutcomeInfo:
    """Return how a request or a command is reported that an interface refuses before it calls the library."""
    return OutcomeInfo(code, message, None, REFUSALS[code])


def error_code(error: BaseException) -> str:
    """Return the stable code of an error: the name of its class in snake case."""
    return to_snake_case(type(error).__name__)
