"""What a session is brought back from, and how: decided by evidence, as pure functions.

There are two witnesses, the files and the log. Each may hold a checkpoint and the changes since. The newest checkpoint
that proves itself is taken, from whichever side, and every change that follows it without a gap.

    normal       the session was closed, and nothing has happened since
    crash        it was not closed; every change that was acknowledged is there
    corruption   something was damaged or is missing; the newest that proves itself serves

After a crash or corruption the predictions are compared with what the network last heard. The rules, per prediction:

    both the same               it is kept
    the network's is newer      the network's is taken, the conflict is recorded
    ours is newer, or as new    ours is kept, the conflict is recorded
    the network has none        ours is kept if nothing was lost, else it stays ``recovering`` and is flagged
    only the network has it     it is taken if something was lost, or if it is newer than all we know
    no answer                   ours stays ``recovering`` and is flagged, until ``verify`` has asked again
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lukasa.clock import from_iso
from lukasa.errors import InvalidInput
from lukasa.network import NetworkState
from lukasa.sessions.checkpoint_files import Checkpoint, DamagedCheckpoint, Delta
from lukasa.sessions.patch import apply_changes
from lukasa.sessions.state import SessionState

RecoveryMode = Literal["new", "normal", "crash", "corruption"]
CheckpointSource = Literal["files", "log", "both"]
PREVIOUS_STATUS_KEY = "recovering_from"
"""What a prediction's status was before it was marked as recovering."""


@dataclass(frozen=True, slots=True)
class RecoveryEvidence:
    """What the two witnesses say."""

    file_checkpoint: Checkpoint | None
    damaged: Sequence[DamagedCheckpoint]
    log_checkpoint: Checkpoint | None
    log_status: str | None
    """The status in the log; ``None`` when the log knows nothing of the session."""
    log_deltas: Mapping[int, Delta]
    file_deltas: Mapping[int, Delta]
    was_reopened: bool
    """Whether the files tell that the session was opened again after its newest checkpoint."""
    highest_known_delta: int
    """The highest number of a change that anybody has heard of."""

    @property
    def has_newer_damage(self) -> bool:
        """Whether a file is damaged that would have served before the one that does."""
        return any(
            self.file_checkpoint is None or damage.number >= self.file_checkpoint.number for damage in self.damaged
        )


@dataclass(frozen=True, slots=True)
class RecoveredState:
    """A session's state as the evidence gives it."""

    mode: RecoveryMode
    state: SessionState
    base: Checkpoint
    source: CheckpointSource
    upto: int
    highest_delta: int
    replayed: int
    lost: tuple[int, ...]
    is_complete: bool
    """Whether it is proved that nothing is missing: the log is there and has no gap, or the session was closed."""


def recover_state(evidence: RecoveryEvidence, was_withdrawn: Callable[[int], bool]) -> RecoveredState | None:
    """The newest state that can be proved; ``None`` when there is none at all."""
    base, source = _newest_checkpoint(evidence)
    if base is None:
        return None
    known = {
        number: delta
        for number, delta in evidence.file_deltas.items()
        if number in evidence.log_deltas or evidence.log_status is None or not was_withdrawn(number)
    } | dict(evidence.log_deltas)
    state, upto = base.state, base.upto
    while (delta := known.get(upto + 1)) is not None and delta.changes is not None:
        try:
            state = apply_delta(state, delta)
        except InvalidInput:
            break
        upto += 1
    highest = max(upto, evidence.highest_known_delta, *known, 0)
    lost = tuple(range(upto + 1, highest + 1))
    clean = base.clean and upto == base.upto
    closed = evidence.log_status == "closed" if evidence.log_status is not None else not evidence.was_reopened
    sure = not lost and (evidence.log_status is not None or (clean and closed and not evidence.has_newer_damage))
    mode: RecoveryMode = "normal" if clean and closed else "crash"
    if lost or evidence.has_newer_damage:
        mode = "corruption"
    return RecoveredState(mode, state, base, source, upto, highest, upto - base.upto, lost, sure)


def _newest_checkpoint(evidence: RecoveryEvidence) -> tuple[Checkpoint | None, CheckpointSource]:
    filed, logged = evidence.file_checkpoint, evidence.log_checkpoint
    if filed is None or logged is None:
        return filed or logged, "files" if logged is None else "log"
    if (filed.upto, filed.number) == (logged.upto, logged.number):
        return logged, "both"
    newer = max(filed, logged, key=lambda checkpoint: (checkpoint.upto, checkpoint.number))
    return newer, "files" if newer is filed else "log"


def apply_delta(state: SessionState, delta: Delta) -> SessionState:
    """The state after a change."""
    state = apply_changes(state, delta.changes or ())
    return {**state, "metadata": {**state["metadata"], "last_updated": delta.at}} if delta.at else state


@dataclass(frozen=True, slots=True)
class PredictionDecision:
    """What becomes of one prediction, and why."""

    prediction_id: str
    action: Literal["keep", "take", "add", "hold"]
    prediction: Mapping[str, Any]
    conflict: Mapping[str, Any] | None = None
    flag: str | None = None


def build_recovering_changes(state: SessionState) -> list[dict[str, Any]]:
    """The changes that mark every active prediction as recovering."""
    return [
        {"op": "add", "path": f"/active_predictions/{at}/{name}", "value": value}
        for at, item in enumerate(state["active_predictions"])
        if item.get("status") == "active"
        for name, value in (("status", "recovering"), (PREVIOUS_STATUS_KEY, "active"))
    ]


def restore_status(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction with the status it had before it was marked."""
    status = (
        prediction.get(PREVIOUS_STATUS_KEY, "active")
        if prediction.get("status") == "recovering"
        else prediction.get("status")
    )
    return {name: value for name, value in prediction.items() if name != PREVIOUS_STATUS_KEY} | {"status": status}


def reconcile_predictions(
    state: SessionState, network: NetworkState | None, *, is_complete: bool
) -> list[PredictionDecision]:
    """What becomes of each prediction that is recovering, and of those only the network has."""
    heard = {item["prediction_id"]: item for item in (network.active_predictions if network else ())}
    verdicts = [
        _decide_prediction(
            item, heard.get(item["prediction_id"]), reachable=network is not None, is_complete=is_complete
        )
        for item in state["active_predictions"]
        if item.get("status") == "recovering"
    ]
    ours = {item["prediction_id"] for item in state["active_predictions"]}
    known = _last_updated(state["metadata"])
    for id, item in heard.items():
        if id not in ours and item.get("status") == "active" and (not is_complete or _last_updated(item) > known):
            verdicts.append(PredictionDecision(id, "add", item))
    return verdicts


def _decide_prediction(
    local: Mapping[str, Any], remote: Mapping[str, Any] | None, *, reachable: bool, is_complete: bool
) -> PredictionDecision:
    own, id = restore_status(local), local["prediction_id"]
    if not reachable:
        return PredictionDecision(id, "hold", local, flag="the network did not answer")
    if remote is None:
        if is_complete:
            return PredictionDecision(id, "keep", own)
        return PredictionDecision(id, "hold", local, flag="changes were lost, and the network does not know it")
    theirs = restore_status(remote)
    if own == theirs:
        return PredictionDecision(id, "keep", own)
    newer = _last_updated(theirs) > _last_updated(own)
    conflict = {"prediction_id": id, "kept": "network" if newer else "own", "own": own, "network": theirs}
    return PredictionDecision(id, "take" if newer else "keep", theirs if newer else own, conflict)


def _last_updated(item: Mapping[str, Any]) -> Any:
    value = item.get("last_updated")
    return from_iso(value if isinstance(value, str) else "1970-01-01")


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What a recovery found, did and could not do."""

    session: str
    mode: RecoveryMode
    state: SessionState = field(repr=False)
    used: str = ""
    """Which checkpoint, and whose."""
    number: int = 0
    replayed: int = 0
    lost: tuple[int, ...] = ()
    sure: bool = True
    damaged: tuple[DamagedCheckpoint, ...] = ()
    incidents: tuple[str, ...] = ()
    conflicts: tuple[Mapping[str, Any], ...] = ()
    rebuilt: tuple[str, ...] = ()
    flagged: Mapping[str, str] = field(default_factory=dict)
    network: str = "not asked"

    @property
    def whole(self) -> bool:
        """Whether everything that was acknowledged is there."""
        return self.sure and not self.lost
