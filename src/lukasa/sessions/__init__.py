"""Sessions: agent state that survives crashes and corruption.

The state has eight sections (``state``). A change is a small record of the log, durable before it is acknowledged; now
and then the whole state is saved as a checkpoint, in the log and in a file with a checksum. Either of the two can be
lost: ``recovery`` rebuilds the state from the other. ``budget`` keeps the state small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lukasa.core.body_shape import BodyShape
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec, RecordLimits

if TYPE_CHECKING:
    from lukasa.sessions.budget import Budget
    from lukasa.sessions.checkpoint_files import Retention
    from lukasa.sessions.recovery import RecoveryReport
    from lukasa.sessions.session import NEVER, Session, Significance
    from lukasa.sessions.sessions import Sessions

__all__ = ["KINDS", "NEVER", "Budget", "RecoveryReport", "Retention", "Session", "Sessions", "Significance"]

_STATE_LIMITS = RecordLimits(record_bytes=17_000_000)
_OWN_STATE: dict[str, Any] = {"written_by": "service", "is_statement": False}
KINDS = {
    "checkpoint": KindSpec(
        _STATE_LIMITS, falls_back=True, **_OWN_STATE, body=BodyShape({"checkpoint": {"number": int}})
    ),
    "session_delta": KindSpec(
        _STATE_LIMITS, **_OWN_STATE, body=BodyShape({"n": int, "changes": ([dict], None), "at": str}, "n changes")
    ),
    "session_archive": KindSpec(_STATE_LIMITS, **_OWN_STATE, body=BodyShape({"section": str, "at": str, "why": str})),
    "session": KindSpec(
        falls_back=True,
        agent_field="agent_id",
        **_OWN_STATE,
        body=BodyShape(
            {"agent_id": str, "status": str, "number": int, "upto": int, "at": str}, "agent_id status number upto at"
        ),
    ),
    "session_event": KindSpec(**_OWN_STATE, body=BodyShape({"event": str, "at": str})),
    "session_incident": KindSpec(
        **_OWN_STATE,
        body=BodyShape({"damaged": [dict], "lost_changes": [int], "why": str, "at": str, "damaged_records": [str]}),
    ),
}
"""The kinds of record that sessions write. A state may hold 16 MB."""

__getattr__ = lazy_attributes(
    __name__,
    {
        "Budget": "lukasa.sessions.budget",
        "Retention": "lukasa.sessions.checkpoint_files",
        "RecoveryReport": "lukasa.sessions.recovery",
        "Session": "lukasa.sessions.session",
        "Sessions": "lukasa.sessions.sessions",
        **dict.fromkeys(("NEVER", "Significance"), "lukasa.sessions.session"),
    },
)
