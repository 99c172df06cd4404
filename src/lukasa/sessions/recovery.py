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
from lukasa.sessions.files import Checkpoint, Damage, Delta
from lukasa.sessions.patching import apply
from lukasa.sessions.state import State

Mode = Literal["new", "normal", "crash", "corruption"]
Source = Literal["files", "log", "both"]
HELD = "recovering_from"
"""What a prediction's status was before it was marked as recovering."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the two witnesses say."""

    filed: Checkpoint | None
    damaged: Sequence[Damage]
    logged: Checkpoint | None
    status: str | None
    """The status in the log; ``None`` when the log knows nothing of the session."""
    in_log: Mapping[int, Delta]
    in_files: Mapping[int, Delta]
    reopened: bool
    """Whether the files tell that the session was opened again after its newest checkpoint."""
    known_upto: int
    """The highest number of a change that anybody has heard of."""

    @property
    def newer_damaged(self) -> bool:
        """Whether a file is damaged that would have served before the one that does."""
        return any(self.filed is None or damage.number >= self.filed.number for damage in self.damaged)


@dataclass(frozen=True, slots=True)
class Found:
    """A session's state as the evidence gives it."""

    mode: Mode
    state: State
    base: Checkpoint
    source: Source
    upto: int
    highest: int
    replayed: int
    lost: tuple[int, ...]
    sure: bool
    """Whether it is proved that nothing is missing: the log is there and has no gap, or the session was closed."""


def judge(evidence: Evidence, taken_back: Callable[[int], bool]) -> Found | None:
    """The newest state that can be proved; ``None`` when there is none at all."""
    base, source = _base(evidence)
    if base is None:
        return None
    known = {
        number: delta
        for number, delta in evidence.in_files.items()
        if number in evidence.in_log or evidence.status is None or not taken_back(number)
    } | dict(evidence.in_log)
    state, upto = base.state, base.upto
    while (delta := known.get(upto + 1)) is not None and delta.changes is not None:
        try:
            state = after(state, delta)
        except InvalidInput:
            break
        upto += 1
    highest = max(upto, evidence.known_upto, *known, 0)
    lost = tuple(range(upto + 1, highest + 1))
    clean = base.clean and upto == base.upto
    closed = evidence.status == "closed" if evidence.status is not None else not evidence.reopened
    sure = not lost and (evidence.status is not None or (clean and closed and not evidence.newer_damaged))
    mode: Mode = "normal" if clean and closed else "crash"
    if lost or evidence.newer_damaged:
        mode = "corruption"
    return Found(mode, state, base, source, upto, highest, upto - base.upto, lost, sure)


def _base(evidence: Evidence) -> tuple[Checkpoint | None, Source]:
    filed, logged = evidence.filed, evidence.logged
    if filed is None or logged is None:
        return filed or logged, "files" if logged is None else "log"
    if (filed.upto, filed.number) == (logged.upto, logged.number):
        return logged, "both"
    newer = max(filed, logged, key=lambda checkpoint: (checkpoint.upto, checkpoint.number))
    return newer, "files" if newer is filed else "log"


def after(state: State, delta: Delta) -> State:
    """The state after a change."""
    state = apply(state, delta.changes or ())
    return {**state, "metadata": {**state["metadata"], "last_updated": delta.at}} if delta.at else state


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one prediction, and why."""

    prediction_id: str
    deed: Literal["keep", "take", "add", "hold"]
    prediction: Mapping[str, Any]
    conflict: Mapping[str, Any] | None = None
    flag: str | None = None


def marking(state: State) -> list[dict[str, Any]]:
    """The changes that mark every active prediction as recovering."""
    return [
        {"op": "add", "path": f"/active_predictions/{at}/{name}", "value": value}
        for at, item in enumerate(state["active_predictions"])
        if item.get("status") == "active"
        for name, value in (("status", "recovering"), (HELD, "active"))
    ]


def restored(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction with the status it had before it was marked."""
    status = prediction.get(HELD, "active") if prediction.get("status") == "recovering" else prediction.get("status")
    return {name: value for name, value in prediction.items() if name != HELD} | {"status": status}


def reconcile(state: State, network: NetworkState | None, *, sure: bool) -> list[Verdict]:
    """What becomes of each prediction that is recovering, and of those only the network has."""
    heard = {item["prediction_id"]: item for item in (network.active_predictions if network else ())}
    verdicts = [
        _settle(item, heard.get(item["prediction_id"]), reachable=network is not None, sure=sure)
        for item in state["active_predictions"]
        if item.get("status") == "recovering"
    ]
    ours = {item["prediction_id"] for item in state["active_predictions"]}
    known = _moment(state["metadata"])
    for id, item in heard.items():
        if id not in ours and item.get("status") == "active" and (not sure or _moment(item) > known):
            verdicts.append(Verdict(id, "add", item))
    return verdicts


def _settle(local: Mapping[str, Any], remote: Mapping[str, Any] | None, *, reachable: bool, sure: bool) -> Verdict:
    own, id = restored(local), local["prediction_id"]
    if not reachable:
        return Verdict(id, "hold", local, flag="the network did not answer")
    if remote is None:
        if sure:
            return Verdict(id, "keep", own)
        return Verdict(id, "hold", local, flag="changes were lost, and the network does not know it")
    theirs = restored(remote)
    if own == theirs:
        return Verdict(id, "keep", own)
    newer = _moment(theirs) > _moment(own)
    conflict = {"prediction_id": id, "kept": "network" if newer else "own", "own": own, "network": theirs}
    return Verdict(id, "take" if newer else "keep", theirs if newer else own, conflict)


def _moment(item: Mapping[str, Any]) -> Any:
    value = item.get("last_updated")
    return from_iso(value if isinstance(value, str) else "1970-01-01")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a recovery found, did and could not do."""

    session: str
    mode: Mode
    state: State = field(repr=False)
    used: str = ""
    """Which checkpoint, and whose."""
    number: int = 0
    replayed: int = 0
    lost: tuple[int, ...] = ()
    sure: bool = True
    damaged: tuple[Damage, ...] = ()
    incidents: tuple[str, ...] = ()
    conflicts: tuple[Mapping[str, Any], ...] = ()
    rebuilt: tuple[str, ...] = ()
    flagged: Mapping[str, str] = field(default_factory=dict)
    network: str = "not asked"

    @property
    def whole(self) -> bool:
        """Whether everything that was acknowledged is there."""
        return self.sure and not self.lost
