"""What a memory gave to the agents that read it: what was shown, used, avoided and corrected, and with or without it.

Each block that an agent was shown, or would have been shown in a session that was held out, is an ``injection``. A note
counts as used when the session went on to name a thing that only the note had named; a known failure as avoided when the
session did not meet it again. Both are measured from the session, not asked of a model.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lukasa.core.clock import Clock, Time, to_iso, to_utc
from lukasa.core.record import Draft, Key, Record
from lukasa.errors import InvalidInput
from lukasa.experience.episodes import EPISODE
from lukasa.experience.lessons import LESSON
from lukasa.storage.engine import Query, Reader

INJECTION = "injection"
_MAX_READ = 20_000
_MIN_COMPARED = 5
_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class SessionComparison:
    """Failed tool calls of sessions with the memory and of sessions that were held out."""

    with_memory: int
    held_out: int
    errors_with_memory: float | None
    errors_held_out: float | None
    difference: float | None
    """Fewer failed calls per session with the memory; ``low`` and ``high`` bound it with 95 %."""
    low: float | None
    high: float | None
    said: str = ""
    """The comparison in a sentence."""


@dataclass(frozen=True, slots=True)
class MemoryGain:
    """What was shown to agents since a time, and what came of it."""

    since: str
    sessions: int
    blocks: Mapping[str, int]
    """The blocks by their event: at the start, at a prompt, before a tool, to a subagent."""
    notes: int
    tokens: int
    used: int
    failures_avoided: int
    failures_repeated: int
    corrected: int
    """Notes that were changed or deleted after they had been shown."""
    comparison: SessionComparison


def injection_draft(
    event: str,
    session: str,
    keys: Sequence[Key],
    tokens: int,
    *,
    scope: str,
    prompt: str = "",
    is_held_out: bool = False,
) -> Draft:
    """Draft the record of a block that an agent was shown, or would have been."""
    body = {
        "event": event,
        "session": session,
        "notes": [[key.scope, key.kind, key.id] for key in keys],
        "tokens": tokens,
        "prompt": prompt,
    }
    body |= {"held_out": True} if is_held_out else {}
    return Draft(INJECTION, body=body, scope=scope, origin="tool", labels=(f"task={session}",))


def compute_gain(reader: Reader, since: datetime) -> MemoryGain:
    """Compute what was shown since a time, and what came of it."""
    records = reader.read(Query(kinds=(INJECTION,), since=since, newest_first=True, limit=_MAX_READ))
    shown = [record for record in records if not record.body.get("held_out")]
    avoided = repeated = corrected = 0
    seen: set[tuple[Key, str]] = set()
    for record in shown:
        for name in record.body["notes"]:
            session = record.body["session"]
            if (key := Key(*name), session) in seen:
                continue
            seen.add((key, session))
            note = reader.get(key)
            corrected += note is None or note.deleted or (note.seq > record.seq and note.origin != "tool")
            if note is not None and note.kind == LESSON and note.body.get("failure"):
                is_repeated = session in note.body.get("sessions", ())
                repeated += is_repeated
                avoided += not is_repeated
    return MemoryGain(
        since=to_iso(since),
        sessions=len({record.body["session"] for record in shown}),
        blocks=dict(Counter(record.body["event"] for record in shown)),
        notes=sum(len(record.body["notes"]) for record in shown),
        tokens=sum(record.body["tokens"] for record in shown),
        used=sum(len(record.body.get("used", ())) for record in shown),
        failures_avoided=avoided,
        failures_repeated=repeated,
        corrected=corrected,
        comparison=compare_sessions(reader, records, since),
    )


def compare_sessions(reader: Reader, injections: Iterable[Record], since: datetime) -> SessionComparison:
    """Compare the failed calls of sessions with the memory and of those held out, with an interval of 95 %."""
    held_out = {record.body["session"] for record in injections if record.body.get("held_out")}
    groups: dict[bool, list[int]] = {True: [], False: []}
    for record in reader.read(Query(kinds=(EPISODE,), since=since, newest_first=True, limit=_MAX_READ)):
        if session := record.body.get("task_id"):
            groups[session in held_out].append(len(record.body["errors_encountered"]))
    without, with_memory = groups[True], groups[False]
    means = [statistics.fmean(group) if group else None for group in (with_memory, without)]
    if min(len(without), len(with_memory)) < _MIN_COMPARED:
        said = f"Too few sessions to compare: {len(without)} were held out. LUKASA_HOLDOUT=0.1 leaves out one in ten."
        return SessionComparison(len(with_memory), len(without), means[0], means[1], None, None, None, said)
    difference = statistics.fmean(without) - statistics.fmean(with_memory)
    error = math.sqrt(sum(statistics.variance(group) / len(group) for group in (without, with_memory)))
    low, high = difference - _Z95 * error, difference + _Z95 * error
    said = (
        f"Failed calls per session: {means[0]:.1f} with the memory, {means[1]:.1f} without; {difference:.1f} fewer "
        f"(95 %: {low:.1f} to {high:.1f})."
    )
    return SessionComparison(len(with_memory), len(without), means[0], means[1], difference, low, high, said)


def parse_since(since: Time, clock: Clock) -> datetime:
    """Return the time that a text such as ``7d`` or an ISO time names."""
    if isinstance(since, str) and since.endswith("d") and since[:-1].isdecimal():
        days = int(since[:-1])
        if days > 36_500:
            raise InvalidInput("since goes back 100 years at most.", hint="Give days such as 7d, or a time.")
        return clock.now() - timedelta(days=days)
    try:
        return to_utc(since)
    except InvalidInput as error:
        raise InvalidInput(
            f"{str(since)[:60]!r} is no time.", hint="Give days such as 7d, or a time such as 2026-02-03."
        ) from error
