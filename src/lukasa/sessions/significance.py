"""When a change is significant enough for a checkpoint of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lukasa.sessions.state import SessionState


@dataclass(frozen=True, slots=True)
class Significance:
    """A checkpoint is taken at once when, since the last one, a prediction's status changed, its probability moved by
    ``probability``, something in one of ``sections`` changed, or ``changes`` changes have come together."""

    probability: float = 0.10
    statuses: bool = True
    sections: tuple[str, ...] = ("configuration",)
    changes: int = 500


NEVER = Significance(probability=2.0, statuses=False, sections=(), changes=1 << 62)
"""No change is significant; checkpoints come by time and by hand."""


def is_significant(
    saved_state: SessionState,
    state: SessionState,
    touched_paths: Sequence[Sequence[str]],
    changes: int,
    rule: Significance,
) -> bool:
    """Whether a state that differs from the saved one in these places deserves a checkpoint."""
    if changes >= rule.changes or any(path and path[0] in rule.sections for path in touched_paths):
        return True
    places = {
        path[1] for path in touched_paths if len(path) > 1 and path[0] == "active_predictions" and path[1].isdigit()
    }
    if not places:
        return False
    before = {item["prediction_id"]: item for item in saved_state["active_predictions"]}
    for place in places:
        item = state["active_predictions"][int(place)]
        old = before.get(item["prediction_id"])
        if old is None:
            continue
        if rule.statuses and old.get("status") != item.get("status"):
            return True
        if abs(old.get("probability", 0.0) - item.get("probability", 0.0)) >= rule.probability - 1e-9:
            return True
    return False
