"""One open session: its state, changed in small steps that are durable before they are acknowledged."""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from lukasa import canonical_json
from lukasa.clock import Clock, to_iso
from lukasa.errors import InvalidInput, LukasaError, NetworkDown, StoreClosed
from lukasa.network import Network, RateLimitedNetwork
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Draft
from lukasa.sessions.budget import Budget, PruningPlan, is_over_budget, plan_pruning, split_into_chunks
from lukasa.sessions.checkpoint_files import Checkpoint, CheckpointFiles, Delta, Retention
from lukasa.sessions.patch import PatchOperation, build_set_change, resolve_and_apply
from lukasa.sessions.records import SessionRecords
from lukasa.sessions.recovery import (
    PREVIOUS_STATUS_KEY,
    PredictionDecision,
    RecoveryReport,
    apply_delta,
    build_recovering_changes,
    reconcile_predictions,
    restore_status,
)
from lukasa.sessions.significance import Significance, is_significant
from lukasa.sessions.state import MAX_STATE_BYTES, SessionState, find_state_fault

BACKUP_EVERY = timedelta(hours=2)
RATE_LIMIT = 1000
"""Requests to the network in an hour, where the state names no other limit."""

_MAX_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session takes care of itself."""

    significance: Significance = field(default_factory=Significance)
    retention: Retention = field(default_factory=Retention)
    budget: Budget = field(default_factory=Budget)
    backup: Callable[[str], object] | None = None
    backup_every: timedelta = BACKUP_EVERY


@dataclass(slots=True)
class SessionPosition:
    """Where a session stands: its state and the numbers that go with it."""

    state: SessionState
    upto: int
    """The last change that is in the state."""
    checkpoint_number: int
    """The last checkpoint."""
    checkpoint_version: int
    """The version of that checkpoint's record."""
    saved_state: SessionState
    saved_upto: int
    size_bound: int = MAX_STATE_BYTES
    """At most so many bytes has the state; it is counted anew when that might be too many."""


class Session:
    """A session that is open. Its methods may be called from any thread."""

    def __init__(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        clock: Clock,
        network: Network | None,
        position: SessionPosition,
        options: SessionOptions,
        recovery: RecoveryReport | None = None,
    ) -> None:
        self.id = records.session
        self.recovery = recovery
        self.trouble: Exception | None = None
        self._records, self._files, self._clock = records, files, clock
        self._position, self._options = position, options
        self._network: Network | None = (
            network if network is None or isinstance(network, RateLimitedNetwork) else self._with_rate_limit(network)
        )
        self._lock = threading.RLock()
        self._closed = False
        self._last_checkpoint_at = self._last_backup_at = clock.now()
        self._runner: _SessionThread | None = None

    def _with_rate_limit(self, network: Network) -> RateLimitedNetwork:
        """The network within the rate limit that the state names."""
        limit = self._position.state["network_state"].get("api_usage", {}).get("rate_limit")
        return RateLimitedNetwork(network, self._clock, limit if isinstance(limit, int) else RATE_LIMIT)

    # Reading

    def state(self) -> SessionState:
        """A copy of the state as it is now."""
        with self._lock:
            copy: SessionState = canonical_json.parse(canonical_json.encode(self._position.state))
            return copy

    @property
    def number(self) -> int:
        """The number of the last checkpoint."""
        return self._position.checkpoint_number

    @property
    def closed(self) -> bool:
        return self._closed

    # Changing

    def update(self, place: str, value: Any) -> Outcome:
        """Sets one place of the state: ``update("/configuration/confidence_threshold", 0.8)``.

        An item of a list may be named by its id: ``/active_predictions/pred-001/probability``.
        """
        with self._lock:
            try:
                change = build_set_change(self._position.state, place, value)
            except InvalidInput as error:
                return Refused("bad_change", error.message)
            return self.patch([change])

    def update_prediction(self, prediction_id: str, probability: float, **fields: Any) -> Outcome:
        """Revises a prediction in the state: its probability, when that was, and how often it has happened."""
        with self._lock:
            items = self._position.state["active_predictions"]
            at = next((at for at, item in enumerate(items) if item["prediction_id"] == prediction_id), None)
            if at is None:
                return Refused("not_found", f"The session has no prediction {prediction_id[:80]!r}.")
            moment, count = to_iso(self._clock.now()), items[at].get("num_updates", 0) + 1
            values = {"probability": probability, **fields, "last_updated": moment, "num_updates": count}
            place = f"/active_predictions/{at}/"
            return self.patch([{"op": "add", "path": place + name, "value": value} for name, value in values.items()])

    def patch(self, changes: Sequence[PatchOperation]) -> Outcome:
        """Makes changes in JSON Patch, all or none. Once accepted, no crash loses them.

        ``Conflict`` says that another writer of the session was faster: ``refresh``, look, and try again.
        """
        return self._apply_patch(changes, at=to_iso(self._clock.now()))

    def _apply_patch(
        self, changes: Sequence[PatchOperation], *, at: str, extra_drafts: Sequence[Draft] = ()
    ) -> Outcome:
        with self._lock:
            self._require_open()
            standing = self._position
            try:
                state, kept, touched = resolve_and_apply(standing.state, changes)
            except InvalidInput as error:
                return Refused("bad_change", error.message)
            if (fault := find_state_fault(state, touched)) is not None:
                return Refused("bad_state", fault)
            if (size := self._size_bound_after(state, kept)) > MAX_STATE_BYTES:
                return Refused(
                    "too_large", f"The state would have {size:,} bytes; at most {MAX_STATE_BYTES:,} are kept."
                )
            delta = Delta(standing.upto + 1, at, kept)
            outcome = self._records.append(self._records.delta_draft(delta), *extra_drafts)
            if not isinstance(outcome, Accepted):
                return outcome
            standing.state = apply_delta(standing.state, delta)
            standing.upto, standing.size_bound = delta.number, size
            self._try_write_delta_line(delta)
            rule = self._options.significance
            if at and is_significant(
                standing.saved_state, standing.state, touched, standing.upto - standing.saved_upto, rule
            ):
                self._try_checkpoint()
            return outcome

    def _size_bound_after(self, state: SessionState, changes: Sequence[PatchOperation]) -> int:
        """At most so many bytes has a state after changes; counted only where the bound does not settle it."""
        try:
            bound = self._position.size_bound + len(canonical_json.encode(changes)) + 100
            return bound if bound <= MAX_STATE_BYTES else len(canonical_json.encode(state))
        except InvalidInput:
            return 0  # not JSON: the gate says so

    def _try_checkpoint(self) -> None:
        """A checkpoint for a change that is safe already: trouble with it is no reason to refuse the change."""
        try:
            self.checkpoint()
        except (OSError, LukasaError) as error:
            self.trouble = error

    def _try_write_delta_line(self, delta: Delta) -> None:
        """Tells the files of a change that the log already holds. Trouble there is no reason to refuse it."""
        fields: dict[str, Any] = {"n": delta.number, "changes": delta.changes}
        try:
            self._files.append_delta_lines(
                self._position.checkpoint_number, [fields | {"at": delta.at} if delta.at else fields]
            )
        except (OSError, LukasaError) as error:
            self.trouble = error

    def refresh(self) -> int:
        """Takes in what other writers of the session have done; returns how many changes that were."""
        with self._lock:
            standing, taken = self._position, 0
            newest = self._records.checkpoint_record()
            if newest is not None and newest.version != standing.checkpoint_version:
                found = self._records.find_newest_valid()
                if found is not None and found.number > standing.checkpoint_number:
                    standing.checkpoint_number, standing.checkpoint_version = found.number, newest.version
                    if found.upto > standing.upto:
                        taken += found.upto - standing.upto
                        standing.state, standing.upto = found.state, found.upto
                    standing.saved_state, standing.saved_upto = found.state, found.upto
            for delta in self._records.read_deltas(standing.upto):
                if delta.number != standing.upto + 1 or delta.changes is None:
                    break
                standing.state, standing.upto = apply_delta(standing.state, delta), delta.number
                taken += 1
            return taken

    # Checkpoints

    def checkpoint(self, *, clean: bool = False) -> Outcome:
        """Saves the whole state, in the log and in a file of its own, and tidies up older files."""
        with self._lock:
            self._require_open()
            if is_over_budget(self._position.state, self._options.budget):
                self.prune()
            event = "closed" if clean else "checkpoint"
            return self._save_checkpoint(self._position.state, self._position.upto, clean=clean, event=event)

    def replace(self, state: Mapping[str, Any]) -> Outcome:
        """Takes another state in place of this one, as a checkpoint."""
        with self._lock:
            self._require_open()
            upto = self._position.upto + 1
            return self._save_checkpoint(dict(state), upto, self._records.delta_draft(Delta(upto, "", None)))

    def _save_checkpoint(
        self,
        state: SessionState,
        upto: int,
        *extra_drafts: Draft,
        clean: bool = False,
        number: int | None = None,
        event: str = "checkpoint",
    ) -> Outcome:
        standing, now = self._position, self._clock.now()
        number = number or standing.checkpoint_number + 1
        metadata = state.get("metadata")
        if isinstance(metadata, dict):
            state = {**state, "metadata": {**metadata, "last_updated": to_iso(now), "checkpoint_number": number}}
        if (fault := find_state_fault(state)) is not None:
            return Refused("bad_state", fault)
        if (size := len(canonical_json.encode(state))) > MAX_STATE_BYTES:
            return Refused("too_large", f"The state has {size:,} bytes; at most {MAX_STATE_BYTES:,} are kept.")
        checkpoint = Checkpoint(self.id, self._records.scope, number, upto, now, state, clean)
        agent = str(state["metadata"].get("agent_id", ""))
        status = "closed" if clean else "open"
        outcome = self._records.append(
            self._records.checkpoint_draft(checkpoint, standing.checkpoint_version),
            *extra_drafts,
            self._records.session_draft(agent, status, now, number=number, upto=upto, expected=None),
            self._records.event_draft(event, now, number=number),
        )
        if not isinstance(outcome, Accepted):
            return outcome
        standing.state, standing.size_bound = state, size
        standing.saved_state = state
        standing.upto = standing.saved_upto = upto
        standing.checkpoint_number, standing.checkpoint_version = number, outcome.records[0].version
        self._last_checkpoint_at = now
        self._files.save(checkpoint)
        self._files.apply_retention(now, self._options.retention)
        return outcome

    def prune(self) -> PruningPlan:
        """Brings the state within its budget; what leaves it is archived in the same step."""
        with self._lock:
            self._require_open()
            now = self._clock.now()
            plan = plan_pruning(self._position.state, now, self._options.budget)
            if plan.changes:
                drafts = [
                    self._records.archive_draft(part.section, part.items, now, part.why)
                    for leaving in plan.leaving
                    for part in split_into_chunks(leaving)
                ]
                outcome = self._apply_patch(plan.changes, at=to_iso(now), extra_drafts=drafts)
                if isinstance(outcome, Refused | Conflict):
                    raise InvalidInput(f"The session could not be pruned: {outcome.reason}")
            return plan

    # The network

    def sync(self) -> Mapping[str, Any]:
        """Tells the network every prediction, sends signals again that nobody has taken, and notes how that went."""
        with self._lock:
            self._require_open()
            state, network = self._position.state, self._network
            section = dict(state["network_state"])
            agent = state["metadata"]["agent_id"]
            try:
                if network is None:
                    raise NetworkDown
                signals = self._broadcast_state(network, agent, state)
                peers = network.peers(agent)
            except NetworkDown:
                section["connected"] = False
                signals = []
            else:
                now = to_iso(self._clock.now())
                known = {peer["agent_id"]: peer for peer in section.get("peer_agents", ())}
                for peer in peers:
                    before = known.get(peer.agent_id, {"agent_id": peer.agent_id, "trust_score": 0.5})
                    known[peer.agent_id] = before | {"last_interaction": to_iso(peer.last_interaction)}
                section |= {"connected": True, "last_sync": now, "peer_agents": list(known.values())}
            if isinstance(network, RateLimitedNetwork):
                section["api_usage"] = network.usage()
            changes = [*signals, {"op": "replace", "path": "/network_state", "value": section}]
            outcome = self.patch(changes)
            if isinstance(outcome, Refused | Conflict):
                raise InvalidInput(f"The session could not be synced: {outcome.reason}")
            return section

    @staticmethod
    def _broadcast_state(network: Network, agent: str, state: SessionState) -> list[PatchOperation]:
        for prediction in state["active_predictions"]:
            if prediction.get("status") != "recovering":
                network.broadcast(agent, "prediction", prediction)
        changes: list[PatchOperation] = []
        for at, signal_ in enumerate(state["signal_history"]):
            if signal_.get("acknowledged"):
                continue
            if not signal_.get("broadcast"):
                network.broadcast(agent, "signal", {**signal_, "broadcast": True})
                changes.append({"op": "add", "path": f"/signal_history/{at}/broadcast", "value": True})
            if network.acknowledged(agent, signal_["signal_id"]):
                changes.append({"op": "add", "path": f"/signal_history/{at}/acknowledged", "value": True})
        return changes

    def verify(self) -> Mapping[str, str]:
        """Asks the network again about predictions that are recovering; returns those that still are, and why."""
        with self._lock:
            self._require_open()
            return self._verify_predictions(is_complete=self.recovery is None or self.recovery.whole)[1]

    def _verify_predictions(self, *, is_complete: bool) -> tuple[list[PredictionDecision], dict[str, str], str]:
        """Settles what is recovering, one prediction at a time, each step durable."""
        agent = self._position.state["metadata"]["agent_id"]
        heard, answered = None, "did not answer"
        if self._network is not None:
            try:
                heard = self._network.fetch_state(agent)
                answered = "knows nothing of the agent" if heard.silent else "answered"
            except NetworkDown:
                heard = None
        verdicts = reconcile_predictions(self._position.state, heard, is_complete=is_complete)
        for verdict in verdicts:
            if verdict.action != "hold":
                self._apply_decision(verdict)
        if heard is not None and not is_complete:
            known = {item["signal_id"] for item in self._position.state["signal_history"]}
            missing = [dict(item) for item in heard.signal_history if item["signal_id"] not in known]
            if missing:
                self._apply_recovery_changes(
                    [{"op": "add", "path": "/signal_history/-", "value": item} for item in missing]
                )
        return verdicts, {verdict.prediction_id: verdict.flag for verdict in verdicts if verdict.flag}, answered

    def _apply_decision(self, decision: PredictionDecision) -> None:
        items = self._position.state["active_predictions"]
        at = next((at for at, item in enumerate(items) if item["prediction_id"] == decision.prediction_id), None)
        place = "-" if at is None else str(at)
        verb = "add" if at is None else "replace"
        self._apply_recovery_changes(
            [{"op": verb, "path": f"/active_predictions/{place}", "value": restore_status(decision.prediction)}]
        )

    def mark_recovering(self) -> int:
        """Marks every active prediction as recovering; returns how many there are."""
        changes = build_recovering_changes(self._position.state)
        if changes:
            self._apply_recovery_changes(changes)
        return len(changes) // 2

    def _apply_recovery_changes(self, changes: Sequence[PatchOperation]) -> None:
        outcome = self._apply_patch(changes, at="")
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session {self.id[:80]!r} could not be recovered: {outcome.reason}")

    def recovering(self) -> list[str]:
        """The predictions that are not verified yet."""
        return [
            item["prediction_id"] for item in self._position.state["active_predictions"] if PREVIOUS_STATUS_KEY in item
        ]

    # The course of a session

    def run(self, *, signals: bool = True) -> Self:
        """Keeps itself from now on: checkpoints and backups by the clock, and a graceful end.

        A thread saves what has changed every ``checkpoint_interval_minutes``. With ``signals``, SIGTERM ends the program
        as an exit does (SIGINT does so already), and whatever way it ends, the session is closed first.
        """
        with self._lock:
            self._require_open()
            if self._runner is None:
                self._runner = _SessionThread(self, signals=signals)
                self._runner.start()
        return self

    def tick(self) -> tuple[str, ...]:
        """Does what is due by now: a checkpoint if something changed, a backup; returns what was done."""
        with self._lock:
            if self._closed:
                return ()
            now, done = self._clock.now(), []
            self._last_checkpoint_at, self._last_backup_at = (
                min(self._last_checkpoint_at, now),
                min(self._last_backup_at, now),
            )
            minutes = self._position.state["configuration"].get("checkpoint_interval_minutes", 30)
            if _elapsed_time(self._last_checkpoint_at, now) >= timedelta(minutes=minutes):
                if self._position.upto > self._position.saved_upto:
                    outcome = self.checkpoint()
                    if isinstance(outcome, Conflict):
                        self.refresh()
                        self.checkpoint()
                    done.append("checkpoint")
                self._last_checkpoint_at = now
            if (
                self._options.backup is not None
                and _elapsed_time(self._last_backup_at, now) >= self._options.backup_every
            ):
                self._back_up(now)
                done.append("backup")
            return tuple(done)

    def _back_up(self, now: datetime) -> None:
        if self._options.backup is not None:
            self._options.backup(self.id)
            self._last_backup_at = now
            self._records.append(self._records.event_draft("backed_up", now))

    def close(self) -> None:
        """Saves the last checkpoint, marks the session as closed, and backs it up. Closing twice is fine."""
        if self._runner is not None:
            self._runner.stop()
        with self._lock:
            if self._closed:
                return
            self.refresh()
            outcome = self.checkpoint(clean=True)
            if isinstance(outcome, Conflict):
                self.refresh()
                outcome = self.checkpoint(clean=True)
            if not isinstance(outcome, Accepted):
                raise InvalidInput(f"The session could not be closed: {outcome.reason}")
            self._closed = True
            self._back_up(self._clock.now())

    def abandon(self) -> None:
        """Lets go of the session as a crash would: nothing is saved, nothing is marked."""
        if self._runner is not None:
            self._runner.stop()
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

    def _seconds_until_due(self) -> float:
        """How long nothing will be due."""
        minutes = float(self._position.state["configuration"].get("checkpoint_interval_minutes", 30))
        left = minutes * 60 - _elapsed_time(self._last_checkpoint_at, self._clock.now()).total_seconds()
        return min(max(left, 0.05), _MAX_WAIT_SECONDS)


class _SessionThread:
    """The thread that looks after a session, and what happens when the program ends."""

    def __init__(self, session: Session, *, signals: bool) -> None:
        self._session = session
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
        while not self._stop.wait(self._session._seconds_until_due()):
            try:
                self._session.tick()
            except (LukasaError, OSError) as error:
                self._session.trouble = error  # the next round tries again


def _exit_on_signal(number: int, _: FrameType | None) -> NoReturn:
    """Ends the program as an exit does, so that everything is closed on the way."""
    raise SystemExit(128 + number)


def _elapsed_time(since: datetime, now: datetime) -> timedelta:
    """The time that has passed; a clock that was set back has passed none."""
    return max(now - since, timedelta(0))
