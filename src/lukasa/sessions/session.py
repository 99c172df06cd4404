"""An open session: its state, changed in small steps that are durable before they are acknowledged."""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from lukasa import canonical_json
from lukasa.clock import Clock, to_iso
from lukasa.errors import InvalidInput, LukasaError, NetworkDown, StoreClosed
from lukasa.network import Network, RateLimitedNetwork
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Draft, Key
from lukasa.sessions.budget import Budget, PruningPlan, is_over_budget, plan_pruning, split_into_chunks
from lukasa.sessions.checkpoint_files import Checkpoint, CheckpointFiles, Delta, Retention
from lukasa.sessions.patch import PatchOperation, build_set_change, resolve_and_apply
from lukasa.sessions.records import CHECKPOINT, SessionRecords
from lukasa.sessions.recovery import (
    PREVIOUS_STATUS_KEY,
    PredictionDecision,
    RecoveredState,
    RecoveryEvidence,
    RecoveryReport,
    apply_delta,
    build_recovering_changes,
    reconcile_predictions,
    restore_status,
)
from lukasa.sessions.state import MAX_STATE_BYTES, SessionState, fill_missing_sections, find_state_fault

BACKUP_EVERY = timedelta(hours=2)
RATE_LIMIT = 1000
"""Requests to the network per hour, where the state names no other limit."""

_MAX_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Significance:
    """A checkpoint is saved at once when, since the last one, a prediction's status changed, its probability moved by
    ``probability``, something in one of ``sections`` changed, or ``changes`` changes were made."""

    probability: float = 0.10
    statuses: bool = True
    sections: tuple[str, ...] = ("configuration",)
    changes: int = 500

    def is_met(
        self, saved_state: SessionState, state: SessionState, touched_paths: Sequence[Sequence[str]], changes: int
    ) -> bool:
        """Return whether a state, which differs from the saved one in the touched paths, deserves a checkpoint."""
        if changes >= self.changes or any(path and path[0] in self.sections for path in touched_paths):
            return True
        indexes = {
            path[1] for path in touched_paths if len(path) > 1 and path[0] == "active_predictions" and path[1].isdigit()
        }
        if not indexes:
            return False
        saved = {item["prediction_id"]: item for item in saved_state["active_predictions"]}
        for index in indexes:
            item = state["active_predictions"][int(index)]
            old = saved.get(item["prediction_id"])
            if old is None:
                continue
            if self.statuses and old.get("status") != item.get("status"):
                return True
            if abs(old.get("probability", 0.0) - item.get("probability", 0.0)) >= self.probability - 1e-9:
                return True
        return False


NEVER = Significance(probability=2.0, statuses=False, sections=(), changes=1 << 62)
"""No change is significant; checkpoints are saved by time and by hand."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Rules for the checkpoints, files, size and backups of a session."""

    significance: Significance = field(default_factory=Significance)
    retention: Retention = field(default_factory=Retention)
    budget: Budget = field(default_factory=Budget)
    backup: Callable[[str], object] | None = None
    backup_every: timedelta = BACKUP_EVERY


@dataclass(slots=True)
class SessionPosition:
    """Current state of a session and the numbers that go with it."""

    state: SessionState
    upto: int
    """Number of the last change in the state."""
    checkpoint_number: int
    checkpoint_version: int
    """Version of the record of the last checkpoint."""
    saved_state: SessionState
    saved_upto: int
    size_bound: int = MAX_STATE_BYTES
    """Upper bound of the state's size in bytes; the size is measured when the bound exceeds the limit."""


class Session:
    """An open session. Its methods may be called from any thread."""

    def __init__(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        clock: Clock,
        network: Network | None,
        position: SessionPosition,
        options: SessionOptions,
    ) -> None:
        self.id = records.session
        self.recovery: RecoveryReport | None = None
        self.trouble: Exception | None = None
        self._records, self._files, self._clock = records, files, clock
        self._position, self._options = position, options
        if network is not None and not isinstance(network, RateLimitedNetwork):
            limit = position.state["network_state"].get("api_usage", {}).get("rate_limit")
            network = RateLimitedNetwork(network, clock, limit if isinstance(limit, int) else RATE_LIMIT)
        self._network: Network | None = network
        self._lock = threading.RLock()
        self._closed = False
        self._last_checkpoint_at = self._last_backup_at = clock.now()
        self._thread: _SessionThread | None = None

    def state(self) -> SessionState:
        """Return a copy of the current state."""
        with self._lock:
            copy: SessionState = canonical_json.parse(canonical_json.encode(self._position.state))
            return copy

    @property
    def number(self) -> int:
        """Number of the last checkpoint."""
        return self._position.checkpoint_number

    @property
    def closed(self) -> bool:
        return self._closed

    def begin(self) -> Outcome:
        """Save the first checkpoint of a new session."""
        started = self._records.event_draft("started", self._clock.now())
        outcome = self._save_checkpoint(self._position.state, 0, started)
        if isinstance(outcome, Accepted):
            self.recovery = RecoveryReport(self.id, "new", self.state(), number=self.number)
        return outcome

    def restore(self, recovered: RecoveredState, evidence: RecoveryEvidence) -> None:
        """Make a recovered state durable in both copies, verify its predictions, and report it in ``recovery``.

        Nothing is written when the session was closed and both copies agree. Damaged files are renamed.
        """
        used, number = recovered.source.replace("both", "files and log"), recovered.base.number
        self.recovery = report = RecoveryReport(
            self.id,
            recovered.mode,
            recovered.state,
            "nothing" if used == "none" else f"checkpoint {number} of {used}",
            number,
            recovered.replayed,
            recovered.lost,
            recovered.is_complete,
        )
        if recovered.mode == "normal" and recovered.source == "both" and not evidence.damaged:
            return
        damaged = tuple(self._files.rename_damaged(damage) for damage in evidence.damaged)
        incidents: tuple[str, ...] = ()
        if damaged or recovered.lost:
            why = "changes are missing" if recovered.lost else "a checkpoint is damaged"
            if recovered.source == "none":
                why = "no valid checkpoint is left"
            incident = self._records.incident_draft(self._clock.now(), damaged=damaged, lost=recovered.lost, why=why)
            outcome = self._records.append(incident)
            incidents = tuple(record.id for record in outcome.records) if isinstance(outcome, Accepted) else ()
        if recovered.source != "both" or recovered.lost or evidence.has_newer_damage:
            number, clean = evidence.highest_number + 1, recovered.mode == "normal"
            state, upto = self._position.state, recovered.highest_delta
            self._require_accepted(self._save_checkpoint(state, upto, number=number, clean=clean), "recovered")
        if recovered.mode != "normal":
            self.mark_recovering()
            is_proved = recovered.is_complete or not evidence.has_newer_damage
            decisions, answer = self._reconcile(
                is_complete=recovered.source != "none" and not recovered.lost and is_proved
            )
            report = replace(
                report,
                conflicts=tuple(decision.conflict for decision in decisions if decision.conflict is not None),
                rebuilt=tuple(decision.prediction_id for decision in decisions if decision.action == "add"),
                flagged={decision.prediction_id: decision.flag for decision in decisions if decision.flag},
                network=answer,
            )
        self.recovery = replace(report, state=self.state(), number=self.number, damaged=damaged, incidents=incidents)
        facts = {"mode": report.mode, "used": report.used, "replayed": report.replayed, "lost": list(report.lost)}
        facts |= {"conflicts": list(report.conflicts), "flagged": dict(report.flagged)}
        self._records.append(self._records.event_draft("recovered", self._clock.now(), **facts))

    def reopen(self) -> None:
        """Record in the log and in the files that a recovered session is open again."""
        now, position = self._clock.now(), self._position
        agent_id, number = position.state["metadata"]["agent_id"], position.checkpoint_number
        self._records.append(
            self._records.session_draft(agent_id, "open", now, number=number, upto=position.upto),
            self._records.event_draft("resumed", now, number=number),
        )
        self._try_append_line({"opened": to_iso(now)})

    def update(self, place: str, value: Any) -> Outcome:
        """Set one path of the state: ``update("/configuration/confidence_threshold", 0.8)``.

        An item of a list may be named by its id: ``/active_predictions/pred-001/probability``.
        """
        with self._lock:
            try:
                change = build_set_change(self._position.state, place, value)
            except InvalidInput as error:
                return Refused("bad_change", error.message)
            return self.patch([change])

    def update_prediction(self, prediction_id: str, probability: float, **fields: Any) -> Outcome:
        """Revise a prediction: set its probability and time of update, and count the update."""
        with self._lock:
            index = self._find_prediction(prediction_id)
            if index is None:
                return Refused("not_found", f"The session has no prediction {prediction_id[:80]!r}.")
            count = self._position.state["active_predictions"][index].get("num_updates", 0) + 1
            now = to_iso(self._clock.now())
            values = {"probability": probability, **fields, "last_updated": now, "num_updates": count}
            path = f"/active_predictions/{index}/"
            return self.patch([{"op": "add", "path": path + name, "value": value} for name, value in values.items()])

    def _find_prediction(self, prediction_id: str) -> int | None:
        items = self._position.state["active_predictions"]
        return next((index for index, item in enumerate(items) if item["prediction_id"] == prediction_id), None)

    def patch(self, changes: Sequence[PatchOperation]) -> Outcome:
        """Make changes in JSON Patch, all or none. Once accepted, no crash loses them.

        ``Conflict`` means that another writer of the session was faster: ``refresh``, look, and try again.
        """
        return self._apply_patch(changes, at=to_iso(self._clock.now()))

    def _apply_patch(
        self, changes: Sequence[PatchOperation], *, at: str, extra_drafts: Sequence[Draft] = ()
    ) -> Outcome:
        with self._lock:
            self._require_open()
            position = self._position
            try:
                state, resolved, touched = resolve_and_apply(position.state, changes)
            except InvalidInput as error:
                return Refused("bad_change", error.message)
            if (fault := find_state_fault(state, touched)) is not None:
                return Refused("bad_state", fault)
            try:
                size = position.size_bound + len(canonical_json.encode(resolved)) + 100
                if size > MAX_STATE_BYTES:
                    size = len(canonical_json.encode(state))
            except InvalidInput:
                size = 0  # not JSON: the write gate refuses it
            if size > MAX_STATE_BYTES:
                reason = f"The state would have {size:,} bytes; at most {MAX_STATE_BYTES:,} are kept."
                return Refused("too_large", reason)
            delta = Delta(position.upto + 1, at, resolved)
            outcome = self._records.append(self._records.delta_draft(delta), *extra_drafts)
            if not isinstance(outcome, Accepted):
                return outcome
            position.state = apply_delta(position.state, delta)
            position.upto, position.size_bound = delta.number, size
            line: dict[str, Any] = {"n": delta.number, "changes": delta.changes}
            self._try_append_line(line | {"at": at} if at else line)
            count, rule = position.upto - position.saved_upto, self._options.significance
            if at and rule.is_met(position.saved_state, position.state, touched, count):
                try:
                    self.checkpoint()
                except (OSError, LukasaError) as error:
                    self.trouble = error  # the change itself is durable already
            return outcome

    def _try_append_line(self, fields: Mapping[str, Any]) -> None:
        """Append a line to the files. A failure goes to ``trouble``, because the log has the same already."""
        try:
            self._files.append_delta_line(self._position.checkpoint_number, fields)
        except (OSError, LukasaError) as error:
            self.trouble = error

    def refresh(self) -> int:
        """Read the changes of other writers of the session; return their number."""
        with self._lock:
            position, count = self._position, 0
            newest = self._records.checkpoint_record()
            if newest is not None and newest.version != position.checkpoint_version:
                found = self._records.find_newest_valid()
                if found is not None and found.number > position.checkpoint_number:
                    position.checkpoint_number, position.checkpoint_version = found.number, newest.version
                    if found.upto > position.upto:
                        count += found.upto - position.upto
                        position.state, position.upto = found.state, found.upto
                    position.saved_state, position.saved_upto = found.state, found.upto
            for delta in self._records.read_deltas(position.upto):
                if delta.number != position.upto + 1 or delta.changes is None:
                    break
                position.state, position.upto = apply_delta(position.state, delta), delta.number
                count += 1
            return count

    def checkpoint(self, *, clean: bool = False) -> Outcome:
        """Save the whole state in the log and in a file, and apply retention to older files."""
        with self._lock:
            self._require_open()
            if is_over_budget(self._position.state, self._options.budget):
                self.prune()
            event = "closed" if clean else "checkpoint"
            return self._save_checkpoint(self._position.state, self._position.upto, clean=clean, event=event)

    def _checkpoint_refreshed(self, *, clean: bool = False) -> Outcome:
        """Save a checkpoint; when another writer was faster, read its changes and save again."""
        outcome = self.checkpoint(clean=clean)
        if isinstance(outcome, Conflict):
            self.refresh()
            outcome = self.checkpoint(clean=clean)
        return outcome

    def replace(self, state: Mapping[str, Any]) -> Outcome:
        """Replace the whole state, and save it as a checkpoint."""
        with self._lock:
            self._require_open()
            return self._save_checkpoint(dict(state), self._position.upto + 1, self._replacement_draft())

    def settle(self, state: Mapping[str, Any] | None = None, number: int | None = None) -> Outcome:
        """Save the state, or another that replaces it, as a checkpoint of a session that stays closed.

        Missing sections of ``state`` are filled. A ``number`` that is not above the newest one is a ``Conflict``.
        """
        with self._lock:
            position = self._position
            if state is None:
                return self._save_checkpoint(position.state, position.upto, clean=True)
            agent_id = position.state["metadata"]["agent_id"]
            state = fill_missing_sections(state, self.id, agent_id, self._clock.now())
            if (fault := find_state_fault(state)) is not None:
                return Refused("bad_state", fault)
            if number is not None and number <= self.number:
                return Conflict(Key(self._records.scope, CHECKPOINT, self.id), number, self.number)
            return self._save_checkpoint(state, position.upto + 1, self._replacement_draft(), clean=True, number=number)

    def _replacement_draft(self) -> Draft:
        return self._records.delta_draft(Delta(self._position.upto + 1, "", None))

    def _save_checkpoint(
        self,
        state: SessionState,
        upto: int,
        *extra_drafts: Draft,
        clean: bool = False,
        number: int | None = None,
        event: str = "checkpoint",
    ) -> Outcome:
        position, now = self._position, self._clock.now()
        number = number or position.checkpoint_number + 1
        metadata = state.get("metadata")
        if isinstance(metadata, dict):
            state = {**state, "metadata": {**metadata, "last_updated": to_iso(now), "checkpoint_number": number}}
        if (fault := find_state_fault(state)) is not None:
            return Refused("bad_state", fault)
        if (size := len(canonical_json.encode(state))) > MAX_STATE_BYTES:
            return Refused("too_large", f"The state has {size:,} bytes; at most {MAX_STATE_BYTES:,} are kept.")
        checkpoint = Checkpoint(self.id, self._records.scope, number, upto, now, state, clean)
        agent_id = str(state["metadata"].get("agent_id", ""))
        outcome = self._records.append(
            self._records.checkpoint_draft(checkpoint, position.checkpoint_version),
            *extra_drafts,
            self._records.session_draft(agent_id, "closed" if clean else "open", now, number=number, upto=upto),
            self._records.event_draft(event, now, number=number),
        )
        if not isinstance(outcome, Accepted):
            return outcome
        position.state, position.size_bound = state, size
        position.saved_state = state
        position.upto = position.saved_upto = upto
        position.checkpoint_number, position.checkpoint_version = number, outcome.records[0].version
        self._last_checkpoint_at = now
        self._files.save(checkpoint)
        self._files.apply_retention(now, self._options.retention)
        return outcome

    def prune(self) -> PruningPlan:
        """Bring the state within its budget; items that leave it are archived in the same step."""
        with self._lock:
            self._require_open()
            now = self._clock.now()
            plan = plan_pruning(self._position.state, now, self._options.budget)
            if plan.changes:
                drafts = [
                    self._records.archive_draft(chunk.section, chunk.items, now, chunk.why)
                    for removed in plan.leaving
                    for chunk in split_into_chunks(removed)
                ]
                outcome = self._apply_patch(plan.changes, at=to_iso(now), extra_drafts=drafts)
                self._require_accepted(outcome, "pruned")
            return plan

    def sync(self) -> Mapping[str, Any]:
        """Send every prediction and each signal that is not acknowledged to the network; return its state.

        Signals are marked as broadcast and acknowledged; peers and usage go into the section ``network_state``.
        """
        with self._lock:
            self._require_open()
            state, network = self._position.state, self._network
            section = dict(state["network_state"])
            agent_id = state["metadata"]["agent_id"]
            try:
                if network is None:
                    raise NetworkDown
                changes, peers = self._broadcast_state(network, agent_id, state), network.peers(agent_id)
            except NetworkDown:
                section["connected"], changes = False, []
            else:
                known = {peer["agent_id"]: peer for peer in section.get("peer_agents", ())}
                for peer in peers:
                    entry = known.get(peer.agent_id, {"agent_id": peer.agent_id, "trust_score": 0.5})
                    known[peer.agent_id] = entry | {"last_interaction": to_iso(peer.last_interaction)}
                now = to_iso(self._clock.now())
                section |= {"connected": True, "last_sync": now, "peer_agents": list(known.values())}
            if isinstance(network, RateLimitedNetwork):
                section["api_usage"] = network.usage()
            outcome = self.patch([*changes, {"op": "replace", "path": "/network_state", "value": section}])
            self._require_accepted(outcome, "synced")
            return section

    @staticmethod
    def _broadcast_state(network: Network, agent_id: str, state: SessionState) -> list[PatchOperation]:
        """Send predictions and signals; return the changes that mark the signals."""
        for prediction in state["active_predictions"]:
            if prediction.get("status") != "recovering":
                network.broadcast(agent_id, "prediction", prediction)
        changes: list[PatchOperation] = []
        for index, item in enumerate(state["signal_history"]):
            if item.get("acknowledged"):
                continue
            if not item.get("broadcast"):
                network.broadcast(agent_id, "signal", {**item, "broadcast": True})
                changes.append({"op": "add", "path": f"/signal_history/{index}/broadcast", "value": True})
            if network.acknowledged(agent_id, item["signal_id"]):
                changes.append({"op": "add", "path": f"/signal_history/{index}/acknowledged", "value": True})
        return changes

    def verify(self) -> Mapping[str, str]:
        """Ask the network again about recovering predictions; return those that still are, and why."""
        with self._lock:
            self._require_open()
            decisions, _ = self._reconcile(is_complete=self.recovery is None or self.recovery.whole)
            return {decision.prediction_id: decision.flag for decision in decisions if decision.flag}

    def _reconcile(self, *, is_complete: bool) -> tuple[list[PredictionDecision], str]:
        """Settle recovering predictions, each in a durable step; return the decisions and the network's answer."""
        network_state, answer = None, "did not answer"
        if self._network is not None:
            with suppress(NetworkDown):
                network_state = self._network.fetch_state(self._position.state["metadata"]["agent_id"])
                answer = "knows nothing of the agent" if network_state.silent else "answered"
        decisions = reconcile_predictions(self._position.state, network_state, is_complete=is_complete)
        for decision in decisions:
            if decision.action != "hold":
                index = self._find_prediction(decision.prediction_id)
                operation, step = ("add", "-") if index is None else ("replace", str(index))
                value = restore_status(decision.prediction)
                self._apply_recovery_changes([{"op": operation, "path": f"/active_predictions/{step}", "value": value}])
        if network_state is not None and not is_complete:
            known = {item["signal_id"] for item in self._position.state["signal_history"]}
            missing = [dict(item) for item in network_state.signal_history if item["signal_id"] not in known]
            changes = [{"op": "add", "path": "/signal_history/-", "value": item} for item in missing]
            if changes:
                self._apply_recovery_changes(changes)
        return decisions, answer

    def mark_recovering(self) -> int:
        """Mark every active prediction as recovering; return their number."""
        changes = build_recovering_changes(self._position.state)
        if changes:
            self._apply_recovery_changes(changes)
        return len(changes) // 2

    def _apply_recovery_changes(self, changes: Sequence[PatchOperation]) -> None:
        self._require_accepted(self._apply_patch(changes, at=""), "recovered")

    def _require_accepted(self, outcome: Outcome, action: str) -> None:
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session {self.id[:80]!r} could not be {action}: {outcome.reason}")

    def recovering(self) -> list[str]:
        """Return the ids of the predictions that are not verified yet."""
        return [
            item["prediction_id"] for item in self._position.state["active_predictions"] if PREVIOUS_STATUS_KEY in item
        ]

    def run(self, *, signals: bool = True) -> Self:
        """Start a thread that saves checkpoints and backups when they are due.

        A checkpoint is due every ``checkpoint_interval_minutes`` if something changed. With ``signals``, SIGTERM ends
        the program as an exit does (SIGINT does so already). However the program ends, the session is closed first.
        """
        with self._lock:
            self._require_open()
            if self._thread is None:
                self._thread = _SessionThread(self, self._seconds_until_due, signals=signals)
                self._thread.start()
        return self

    def tick(self) -> tuple[str, ...]:
        """Save a checkpoint if one is due and something changed, back up if due; return the names of the steps taken."""
        with self._lock:
            if self._closed:
                return ()
            now, done = self._clock.now(), []
            # a clock that was set back must not delay the next one
            self._last_checkpoint_at = min(self._last_checkpoint_at, now)
            self._last_backup_at = min(self._last_backup_at, now)
            if now - self._last_checkpoint_at >= self._checkpoint_interval():
                if self._position.upto > self._position.saved_upto:
                    self._checkpoint_refreshed()
                    done.append("checkpoint")
                self._last_checkpoint_at = now
            if self._options.backup is not None and now - self._last_backup_at >= self._options.backup_every:
                self._back_up(now)
                done.append("backup")
            return tuple(done)

    def _seconds_until_due(self) -> float:
        """Return the time until the next checkpoint is due, at most half a minute."""
        elapsed = max(self._clock.now() - self._last_checkpoint_at, timedelta(0))
        return min(max((self._checkpoint_interval() - elapsed).total_seconds(), 0.05), _MAX_WAIT_SECONDS)

    def _checkpoint_interval(self) -> timedelta:
        return timedelta(minutes=self._position.state["configuration"].get("checkpoint_interval_minutes", 30))

    def _back_up(self, now: datetime) -> None:
        if self._options.backup is not None:
            self._options.backup(self.id)
            self._last_backup_at = now
            self._records.append(self._records.event_draft("backed_up", now))

    def close(self) -> None:
        """Save the last checkpoint, mark the session as closed, and back it up. Closing twice is fine."""
        if self._thread is not None:
            self._thread.stop()
        with self._lock:
            if not self._closed:
                self.refresh()
                self._require_accepted(self._checkpoint_refreshed(clean=True), "closed")
                self._closed = True
                self._back_up(self._clock.now())

    def abandon(self) -> None:
        """Leave the session as a crash would: nothing is saved or marked."""
        if self._thread is not None:
            self._thread.stop()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"The session {self.id[:80]!r} is closed.", hint="Start it again to go on.")


class _SessionThread:
    """Thread that calls ``tick``, and the handlers that close the session when the program ends."""

    def __init__(self, session: Session, seconds_until_due: Callable[[], float], *, signals: bool) -> None:
        self._session = session
        self._seconds_until_due = seconds_until_due
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick_until_stopped, name=f"session {session.id[:40]}", daemon=True)
        self._handles_signals = signals and threading.current_thread() is threading.main_thread()
        self._previous_handler: Any = None

    def start(self) -> None:
        atexit.register(self._session.close)
        if self._handles_signals:
            self._previous_handler = signal.signal(signal.SIGTERM, _exit_on_signal)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        atexit.unregister(self._session.close)
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(60)
        if self._handles_signals and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is _exit_on_signal:
                signal.signal(signal.SIGTERM, self._previous_handler or signal.SIG_DFL)
            self._handles_signals = False

    def _tick_until_stopped(self) -> None:
        while not self._stop.wait(self._seconds_until_due()):
            try:
                self._session.tick()
            except (LukasaError, OSError) as error:
                self._session.trouble = error  # the next tick tries again


def _exit_on_signal(number: int, _: FrameType | None) -> NoReturn:
    """End the program as an exit does, so that sessions are closed."""
    raise SystemExit(128 + number)
