"""Recovery of a session: which state the evidence proves, and which predictions survive, as pure functions.

There are two copies, the files and the log. Each may hold a checkpoint and the changes since. Recovery takes the newest
valid checkpoint of either copy, and every change that follows it without a gap.

    normal       the session was closed, and nothing has happened since
    crash        it was not closed; every acknowledged change is there
    corruption   something is damaged or missing; the newest valid state is used
    alive        a running process has it open; nothing is changed

A damaged record of the log is one lost copy: the line of the same change in the files is used instead. Where both copies
have a change and differ, the log's is used; the disagreement is an incident.

After a crash or corruption the predictions are compared with those that the network has. The rules, per prediction:

    both the same               ours is kept
    the network's is newer      the network's is taken, the conflict is recorded
    ours is newer, or as new    ours is kept, the conflict is recorded
    the network has none        ours is kept if nothing was lost, else it stays ``recovering`` and is flagged
    only the network has it     it is added if something was lost, or if it is newer than our state
    no answer                   ours stays ``recovering`` and is flagged, until ``verify`` has asked again
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lukasa.core.clock import from_iso
from lukasa.core.outcome import Answer
from lukasa.errors import InvalidInput
from lukasa.network import NetworkState
from lukasa.sessions.checkpoint_files import Checkpoint, DamagedCheckpoint, Delta
from lukasa.sessions.patch import apply_changes
from lukasa.sessions.state import SessionState

RecoveryMode = Literal["new", "normal", "crash", "corruption", "alive"]
CheckpointSource = Literal["files", "log", "both", "none"]
PREVIOUS_STATUS_KEY = "recovering_from"
"""Field for the status that a prediction had before it was marked as recovering."""


@dataclass(frozen=True, slots=True)
class RecoveryEvidence:
    """Records and files of a session, as recovery found them."""

    file_checkpoint: Checkpoint | None
    damaged: Sequence[DamagedCheckpoint]
    log_checkpoint: Checkpoint | None
    log_status: str | None
    """Status in the log; ``None`` when the log has no record of the session."""
    log_deltas: Mapping[int, Delta]
    file_deltas: Mapping[int, Delta]
    was_reopened: bool
    """Whether the files show that the session was opened again after its newest checkpoint."""
    highest_known_delta: int
    """Highest number of a change in the log's record of the session."""
    highest_number: int
    """Highest number of a checkpoint in either copy."""
    damaged_records: Mapping[str, str] = field(default_factory=dict)
    """Damaged records of the log, and the reasons."""
    is_alive: bool = False
    """Whether a running process has the session open."""

    @property
    def has_newer_damage(self) -> bool:
        """Whether a damaged file is newer than the valid one."""
        return any(
            self.file_checkpoint is None or damage.number >= self.file_checkpoint.number for damage in self.damaged
        )


@dataclass(frozen=True, slots=True)
class RecoveredState:
    """State of a session as the evidence proves it."""

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
    disagreements: tuple[int, ...] = ()
    """Numbers of the changes that differ between log and files."""
    from_files: tuple[int, ...] = ()
    """Numbers of the changes that the log has lost and the files have."""


def recover_state(evidence: RecoveryEvidence, was_withdrawn: Callable[[int], bool]) -> RecoveredState | None:
    """Return the newest state that the evidence proves, or None when there is no valid checkpoint."""
    base, source = newest_checkpoint(evidence.file_checkpoint, evidence.log_checkpoint)
    if base is None:
        return None
    is_logged = evidence.log_status is not None
    known = {
        number: delta
        for number, delta in evidence.file_deltas.items()
        if number in evidence.log_deltas or not is_logged or not was_withdrawn(number)
    } | dict(evidence.log_deltas)
    state, upto = base.state, base.upto
    while (delta := known.get(upto + 1)) is not None and delta.changes is not None:
        try:
            state = apply_delta(state, delta)
        except InvalidInput:
            break
        upto += 1
    only_filed = known.keys() - evidence.log_deltas.keys()
    from_files = tuple(sorted(number for number in only_filed if base.upto < number <= upto)) if is_logged else ()
    disagreements = tuple(
        sorted(
            number
            for number in evidence.log_deltas.keys() & evidence.file_deltas.keys()
            if evidence.log_deltas[number] != evidence.file_deltas[number]
        )
    )
    highest = max(upto, evidence.highest_known_delta, *known, 0)
    lost = tuple(range(upto + 1, highest + 1))
    clean = base.clean and upto == base.upto
    closed = evidence.log_status == "closed" if is_logged else not evidence.was_reopened
    is_complete = not lost and (is_logged or (clean and closed and not evidence.has_newer_damage))
    mode: RecoveryMode = "normal" if clean and closed else "crash"
    if lost or evidence.has_newer_damage or evidence.damaged_records or disagreements or from_files:
        mode = "corruption"
    if evidence.is_alive:
        mode = "alive"
    return RecoveredState(
        mode, state, base, source, upto, highest, upto - base.upto, lost, is_complete, disagreements, from_files
    )


def newest_checkpoint(
    filed: Checkpoint | None, logged: Checkpoint | None
) -> tuple[Checkpoint | None, CheckpointSource]:
    """Return the newer of the checkpoints in the files and in the log, and which copy has it."""
    if filed is None or logged is None:
        return filed or logged, "files" if logged is None else "log"
    if (filed.upto, filed.number) == (logged.upto, logged.number):
        return logged, "both"
    newer = max(filed, logged, key=lambda checkpoint: (checkpoint.upto, checkpoint.number))
    return newer, "files" if newer is filed else "log"


def restart_state(evidence: RecoveryEvidence, base: Checkpoint) -> RecoveredState:
    """Return the state of a session without any valid checkpoint: an empty one; every known change is lost."""
    lost = tuple(sorted({*range(1, evidence.highest_known_delta + 1), *evidence.log_deltas}))
    return RecoveredState("corruption", base.state, base, "none", base.upto, max(lost, default=0), 0, lost, False)


def apply_delta(state: SessionState, delta: Delta) -> SessionState:
    """Return the state after a change."""
    return set_update_time(apply_changes(state, delta.changes or ()), delta.at)


def set_update_time(state: SessionState, at: str) -> SessionState:
    """Return the state with its time of last update; the same state if there is no time."""
    return {**state, "metadata": {**state["metadata"], "last_updated": at}} if at else state


@dataclass(frozen=True, slots=True)
class PredictionDecision:
    """Decision on one prediction: the action, the prediction to store, and the reason."""

    prediction_id: str
    action: Literal["keep", "take", "add", "hold"]
    prediction: Mapping[str, Any]
    conflict: Mapping[str, Any] | None = None
    flag: str | None = None


def build_recovering_changes(state: SessionState) -> list[dict[str, Any]]:
    """Build the changes that mark every active prediction as recovering."""
    return [
        {"op": "add", "path": f"/active_predictions/{index}/{name}", "value": value}
        for index, item in enumerate(state["active_predictions"])
        if item.get("status") == "active"
        for name, value in (("status", "recovering"), (PREVIOUS_STATUS_KEY, "active"))
    ]


def restore_status(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prediction with the status it had before it was marked as recovering."""
    status = prediction.get("status")
    if status == "recovering":
        status = prediction.get(PREVIOUS_STATUS_KEY, "active")
    return {name: value for name, value in prediction.items() if name != PREVIOUS_STATUS_KEY} | {"status": status}


def reconcile_predictions(
    state: SessionState, network: NetworkState | None, *, is_complete: bool
) -> list[PredictionDecision]:
    """Decide on each recovering prediction, and on those that only the network has.

    ``network`` is None when the network did not answer; ``is_complete`` says that no change was lost.
    """
    remote = {item["prediction_id"]: item for item in (network.active_predictions if network else ())}
    decisions = []
    for item in state["active_predictions"]:
        if item.get("status") != "recovering":
            continue
        id, ours = item["prediction_id"], restore_status(item)
        if network is None:
            decisions.append(PredictionDecision(id, "hold", item, flag="the network did not answer"))
        elif id not in remote and not is_complete:
            flag = "changes were lost, and the network does not know it"
            decisions.append(PredictionDecision(id, "hold", item, flag=flag))
        elif id not in remote or ours == (theirs := restore_status(remote[id])):
            decisions.append(PredictionDecision(id, "keep", ours))
        else:
            is_newer = _last_updated(theirs) > _last_updated(ours)
            conflict = {"prediction_id": id, "kept": "network" if is_newer else "own", "own": ours, "network": theirs}
            action: Literal["take", "keep"] = "take" if is_newer else "keep"
            decisions.append(PredictionDecision(id, action, theirs if is_newer else ours, conflict))
    our_ids = {item["prediction_id"] for item in state["active_predictions"]}
    state_time = _last_updated(state["metadata"])
    for id, item in remote.items():
        is_missing = id not in our_ids and item.get("status") == "active"
        if is_missing and (not is_complete or _last_updated(item) > state_time):
            decisions.append(PredictionDecision(id, "add", item))
    return decisions


def _last_updated(item: Mapping[str, Any]) -> Any:
    value = item.get("last_updated")
    return from_iso(value if isinstance(value, str) else "1970-01-01")


@dataclass(frozen=True, slots=True)
class RecoveryReport(Answer):
    """Result of a recovery: the state, the repairs and the losses."""

    session: str
    mode: RecoveryMode
    state: SessionState = field(repr=False)
    used: str = ""
    """Checkpoint that was used, and the copy it is from."""
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
    damaged_records: tuple[str, ...] = ()
    """Damaged records of the log, each with the reason. The files have other copies."""
    disagreements: tuple[int, ...] = ()
    """Numbers of the changes that differ between log and files. The log's are used."""

    @property
    def whole(self) -> bool:
        """Whether every acknowledged change is there."""
        return self.sure and not self.lost
