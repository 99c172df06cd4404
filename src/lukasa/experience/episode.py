"""The trace of one task: what was wanted, what was done, what went wrong, how it ended.

The body of the record is the document's own JSON without the id, and keeps fields that nobody here knows. Its text, which
recall searches, tells goal, outcome and errors. Labels make an index by day, agent, task, outcome and detail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from lukasa.canonical_json import find_json_fault
from lukasa.clock import from_iso, to_iso, to_utc
from lukasa.errors import InvalidInput
from lukasa.outcome import Refused
from lukasa.record import Draft, Link, Record

EPISODE = "episode"
STEP = "step"
RUNNING = "running"
FULL, SUMMARY, ARCHIVED = "full", "summary", "archived"
FIELDS = (
    "id", "task_id", "timestamp", "duration_seconds", "agent", "context", "action_log", "outcome", "errors_encountered",
    "artifacts_produced", "git_commit",
)  # fmt: skip
_LIST_FIELDS = ("action_log", "errors_encountered", "artifacts_produced")
_SUCCESS_WORDS = frozenset(
    {"success", "succeeded", "successful", "ok", "pass", "passed", "done", "completed", "resolved"}
)
_FAILURE_WORDS = frozenset({"failure", "failed", "fail", "error", "abandoned", "timeout", "cancelled", "aborted"})
_MAX_WORD_CHARS = 60
_OWN_LABEL_PREFIXES = ("day=", "agent=", "task=", "outcome=", "phase=", "detail=", "errors=")


def is_success(outcome: str) -> bool:
    return outcome.strip().lower() in _SUCCESS_WORDS


def is_failure(outcome: str) -> bool:
    return outcome.strip().lower() in _FAILURE_WORDS


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode as it stands in the log."""

    record: Record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def goal(self) -> str:
        return str(self.record.body.get("context", {}).get("goal", ""))

    @property
    def agent(self) -> str:
        return str(self.record.body.get("agent", ""))

    @property
    def voice(self) -> str:
        """Who vouches for it: the author that the store knows, else the agent that the owner of the store names."""
        return self.record.author or self.agent

    @property
    def task_id(self) -> str:
        return str(self.record.body.get("task_id", ""))

    @property
    def outcome(self) -> str:
        return str(self.record.body.get("outcome", ""))

    @property
    def running(self) -> bool:
        return self.outcome == RUNNING

    @property
    def detail(self) -> str:
        """How much of it is at hand: full, summary or archived."""
        return self.record.label("detail") or FULL

    @property
    def timestamp(self) -> datetime:
        return self.record.moment

    @property
    def day(self) -> str:
        return utc_day(self.record.moment)

    @property
    def duration_seconds(self) -> float:
        found = self.record.body.get("duration_seconds", 0)
        return found if isinstance(found, int | float) else 0

    @property
    def context(self) -> Mapping[str, Any]:
        return self.record.body.get("context") or {}

    @property
    def action_log(self) -> Sequence[Mapping[str, Any]]:
        return self.record.body.get("action_log") or ()

    @property
    def actions(self) -> tuple[str, ...]:
        """The sequence of actions in one word each; a failed one ends with ``!``. A summary keeps it."""
        kept = self.record.body.get("action_sequence")
        return tuple(kept) if kept is not None else action_sequence(self.action_log)

    @property
    def errors(self) -> Sequence[Mapping[str, Any]]:
        return self.record.body.get("errors_encountered") or ()

    def as_json(self) -> dict[str, Any]:
        """The episode as its document spells it."""
        body = {"id": self.id, **self.record.body}
        known = {name: body.pop(name) for name in FIELDS if name in body}
        return known | body


def action_sequence(action_log: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(
        str(step.get("action", ""))[:_MAX_WORD_CHARS] + ("!" if _is_failed_step(step) else "")
        for step in action_log
        if step.get("action")
    )


def _is_failed_step(step: Mapping[str, Any]) -> bool:
    return bool(step.get("error")) or is_failure(str(step.get("result", "")))


def utc_day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def parse_episode(document: Mapping[str, Any], now: datetime) -> dict[str, Any] | Refused:
    """The body of a record for an episode as its document spells it, or what is wrong with it."""
    if (fault := find_json_fault(dict(document))) is not None:
        return Refused("bad_json", f"The episode cannot be stored: {fault}")
    body = {name: value for name, value in document.items() if name != "id" and value is not None}
    if (refused := _check_shape(body)) is not None:
        return refused
    try:
        body["timestamp"] = _normalise_time(body.get("timestamp"), now)
    except (InvalidInput, OverflowError, ValueError, OSError) as error:
        return Refused("bad_episode", f"The timestamp is not a time: {error}")
    body.setdefault("duration_seconds", 0)
    body.setdefault("outcome", "success")
    for name in _LIST_FIELDS:
        body.setdefault(name, [])
    return body


def _check_shape(body: Mapping[str, Any]) -> Refused | None:
    context = body.get("context")
    if not isinstance(context, Mapping) or not isinstance(context.get("goal"), str) or not context["goal"].strip():
        return Refused("bad_episode", "An episode needs a goal: what was to be done, in a sentence.")
    for name in _LIST_FIELDS:
        found = body.get(name, [])
        if not isinstance(found, list):
            return Refused("bad_episode", f"{name} must be a list, not {type(found).__name__}.")
        if name != "artifacts_produced" and not all(isinstance(entry, Mapping) for entry in found):
            return Refused("bad_episode", f"Every entry of {name} must be an object.")
    for name in ("task_id", "agent", "outcome", "git_commit"):
        if not isinstance(body.get(name, ""), str):
            return Refused("bad_episode", f"{name} must be text, not {type(body[name]).__name__}.")
    if not 0 < len(body.get("outcome", "success").strip()) <= _MAX_WORD_CHARS:
        return Refused("bad_episode", "The outcome is a short word, such as success or failure.")
    duration = body.get("duration_seconds", 0)
    if isinstance(duration, bool) or not isinstance(duration, int | float) or duration < 0:
        return Refused("bad_episode", "duration_seconds must be a number that is not negative.")
    return None


def _normalise_time(value: Any, now: datetime) -> str:
    """A moment as ISO 8601 with ``Z``; seconds since 1970 are understood."""
    if value is None:
        return to_iso(now)
    if isinstance(value, datetime):
        return to_iso(to_utc(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return to_iso(datetime.fromtimestamp(value, UTC))
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r:.60} is not a time.")
    return to_iso(from_iso(value))


def episode_draft(
    body: dict[str, Any],
    *,
    id: str,
    scope: str,
    origin: str = "manual",
    detail: str = FULL,
    expected: int | None = None,
    links: tuple[Link, ...] = (),
    labels: Iterable[str] = (),
    author: str = "",
) -> Draft:
    """The draft of an episode with this body."""
    moment = from_iso(body["timestamp"])
    own = [f"day={utc_day(moment)}", f"outcome={body['outcome']}", f"detail={detail}"]
    own += [f"{name}={body[field]}" for name, field in (("agent", "agent"), ("task", "task_id")) if body.get(field)]
    phase = body["context"].get("phase")
    if isinstance(phase, str) and phase:
        own.append(f"phase={phase}")
    if body["errors_encountered"]:
        own.append("errors=yes")
    kept = [label for label in labels if not label.startswith(_OWN_LABEL_PREFIXES)]
    text = "" if detail == ARCHIVED else episode_text(body)
    return Draft(
        EPISODE, text, body, id=id, scope=scope, author=author, origin=origin, links=links,
        labels=(*own, *kept), happened_at=moment, expected=expected,
    )  # fmt: skip


def episode_text(body: Mapping[str, Any]) -> str:
    """What recall searches: the goal, how it ended, and what went wrong on the way."""
    parts = [body["context"]["goal"].strip(), f"Outcome: {body['outcome']}."]
    for error in body["errors_encountered"]:
        told = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        fix = f" Resolution: {error['resolution']}." if error.get("resolution") else ""
        parts.append(f"{told}.{fix}" if told else fix.strip())
    return "\n".join(part for part in parts if part)


def summarise_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without its steps: how many there were, and their sequence in one word each."""
    steps = body.get("action_log") or []
    sequence = action_sequence(steps)
    told = ", ".join(_with_count(name, len(list(same))) for name, same in groupby(sequence))
    short = {name: value for name, value in body.items() if name != "action_log"}
    return short | {
        "action_log": [],
        "action_sequence": list(sequence),
        "summary": f"{len(steps)} steps in {body.get('duration_seconds', 0)} s: {told or 'none noted'}",
    }


def _with_count(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ×{count}"
