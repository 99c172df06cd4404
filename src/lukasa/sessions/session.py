"""An open session: its state, changed in small steps that are durable before they are acknowledged."""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from lukasa.core import canonical_json
from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, Time, to_iso, to_utc
from lukasa.core.extra_fields import refuse_known_fields
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Draft, Key
from lukasa.errors import InvalidInput, LukasaError, NetworkDown, StoreClosed
from lukasa.network import Network, RateLimitedNetwork
from lukasa.sessions.budget import Budget, PruningPlan, is_over_budget, plan_pruning, split_into_chunks
from lukasa.sessions.checkpoint_files import Checkpoint, CheckpointFiles, Delta, Retention
from lukasa.sessions.holder import register_holder, release_holder
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
    set_update_time,
)
from lukasa.sessions.state import MAX_STATE_BYTES, SessionState, fill_missing_sections, find_state_fault

if TYPE_CHECKING:
    from lukasa.forecasts.forecasts import Forecasts

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
    changes: int = 200

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
        predictions, saved = state["active_predictions"], saved_state["active_predictions"]
        for index in map(int, indexes):
            if index >= len(predictions):
                continue  # a later change of the same patch removed items before it
            item = predictions[index]
            id = item["prediction_id"]
            if index < len(saved) and saved[index]["prediction_id"] == id:
                old = saved[index]
            else:
                old = next((other for other in saved if other["prediction_id"] == id), None)
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


NetworkOpener = Callable[[str], Network | None]
"""Opens the network at an endpoint; "" is that of a session whose configuration names none."""


@dataclass(slots=True)
class SessionPosition:
    """Current state of a session and the numbers that go with it."""

    state: SessionState
    upto: int
    """Number of the last change in the state."""
    checkpoint_number: int
    checkpoint_version: int | None
    """Version of the record of the last checkpoint; None when that record is damaged."""
    saved_state: SessionState
    saved_upto: int
    size_bound: int = MAX_STATE_BYTES
    """Upper bound of the state's size in bytes; the size is measured when the bound exceeds the limit."""


@check_arguments
class Session:
    """An open session. Its methods may be called from any thread."""

    def __init__(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        clock: Clock,
        open_network: NetworkOpener,
        position: SessionPosition,
        options: SessionOptions,
        forecasts: Forecasts | None = None,
    ) -> None:
        self.id = records.session
        self.recovery: RecoveryReport | None = None
        self.trouble: Exception | None = None
        self._records, self._files, self._clock = records, files, clock
        self._position, self._options = position, options
        self._forecasts = forecasts
        self._forecast_versions: tuple[int, ...] = (0, 0, 0)
        self._open_network = open_network
        self._network: RateLimitedNetwork | None = None
        self._endpoint: str | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._holder: dict[str, Any] | None = None
        self._last_checkpoint_at = self._last_backup_at = self._last_update_at = clock.now()
        self._quiet_upto = 0
        self._thread: _SessionThread | None = None

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Session {self.id!r}, checkpoint {self.number}{state}, of {self._records}>"

    @property
    def state(self) -> SessionState:
        """A copy of the current state, with the agent's forecasts: ``session.state["learning_state"]``."""
        with self._lock:
            state = self._fill_forecasts()[0]
            copy: SessionState = canonical_json.parse(canonical_json.encode(state))
            return copy

    def _fill_forecasts(self) -> tuple[SessionState, tuple[int, ...]]:
        """Return the state with the forecasts that changed since they were stored in it, and their numbers of versions."""
        if self._forecasts is None:
            return self._position.state, self._forecast_versions
        return fill_forecasts(
            self._position.state, self._forecasts, self._records.scope, self._options.budget, self._forecast_versions
        )

    def _store_forecasts(self) -> bool:
        """Store the forecasts that changed in the state; return whether there were any."""
        state, versions = self._fill_forecasts()
        changes = [
            {"op": "add", "path": f"/{name}", "value": section}
            for name, section in state.items()
            if section != self._position.state[name]
        ]
        before, self._forecast_versions = self._forecast_versions, versions
        if not changes:
            return False
        outcome = self._apply_patch(changes, at=to_iso(self._clock.now()))
        if isinstance(outcome, Conflict):
            self._forecast_versions = before  # another writer was faster; the next time both are there
        elif isinstance(outcome, Refused):
            self.trouble = InvalidInput(f"Forecasts do not fit into the state. {outcome.reason}")
        return isinstance(outcome, Accepted)

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Section of the state with the session's settings."""
        section: Mapping[str, Any] = self._position.state["configuration"]
        return section

    @property
    def scope(self) -> str:
        """The scope of the session."""
        return self._records.scope

    @property
    def _current_network(self) -> RateLimitedNetwork | None:
        """Network at the endpoint of the configuration, with the hourly count of the state."""
        endpoint = self.configuration.get("api_endpoint", "")
        if endpoint != self._endpoint:
            self._endpoint, network = endpoint, self._open_network(endpoint)
            usage = self._position.state["network_state"].get("api_usage", {})
            if network is not None and not isinstance(network, RateLimitedNetwork):
                limit = usage.get("rate_limit")
                network = RateLimitedNetwork(network, self._clock, limit if isinstance(limit, int) else RATE_LIMIT)
            if network is not None:
                network.resume_usage(usage)
            self._network = network
        return self._network

    @property
    def number(self) -> int:
        """Number of the last checkpoint."""
        return self._position.checkpoint_number

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._closed

    def begin(self) -> Outcome:
        """Save the first checkpoint of a new session."""
        started = self._records.event_draft("started", self._clock.now())
        outcome = self._save_checkpoint(self._position.state, 0, started)
        if isinstance(outcome, Accepted):
            self._hold()
            self.recovery = RecoveryReport(self.id, "new", self.state, number=self.number)
        return outcome

    def restore(self, recovered: RecoveredState, evidence: RecoveryEvidence) -> None:
        """Make a recovered state durable in both copies, verify its predictions, and report it in ``recovery``.

        Nothing is written when the session was closed and both copies agree. Damaged files are renamed.

        Args:
            recovered: The state to restore.
            evidence: What the analysis rests on.
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
            tuple(evidence.damaged),
            damaged_records=tuple(f"{name}: {reason}" for name, reason in evidence.damaged_records.items()),
            disagreements=recovered.disagreements,
        )
        if recovered.mode == "alive" or (
            recovered.mode == "normal" and recovered.source == "both" and not evidence.damaged
        ):
            return
        damaged = tuple(self._files.rename_damaged(damage) for damage in evidence.damaged)
        incidents: tuple[str, ...] = ()
        is_log_damaged = bool(evidence.damaged_records or recovered.disagreements or recovered.from_files)
        if damaged or recovered.lost or is_log_damaged:
            why = "a checkpoint is damaged" if damaged else "a record of the log is damaged or missing"
            if recovered.disagreements:
                why = "log and files differ"
            if recovered.lost:
                why = "changes are missing"
            if recovered.source == "none":
                why = "no valid checkpoint is left"
            incident = self._records.incident_draft(
                self._clock.now(),
                damaged=damaged,
                lost=recovered.lost,
                disagreements=(*recovered.disagreements, *recovered.from_files),
                why=why,
            )
            outcome = self._records.append(incident)
            incidents = tuple(record.id for record in outcome.records) if isinstance(outcome, Accepted) else ()
        if recovered.source != "both" or recovered.lost or evidence.has_newer_damage or is_log_damaged:
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
        self.recovery = replace(report, state=self.state, number=self.number, damaged=damaged, incidents=incidents)
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
        self._hold()

    def _hold(self) -> None:
        """Note in the files that this process has the session open."""
        self._holder = register_holder()
        try:
            self._files.add_holder(self._holder)
        except (OSError, LukasaError) as error:
            self.trouble = error  # other processes cannot see that the session is alive

    def update(self, place: str, value: Any) -> Outcome:
        """Set one path of the state: ``update("/configuration/confidence_threshold", 0.8)``.

        An item of a list may be named by its id: ``/active_predictions/pred-001/probability``.

        Args:
            place: The path in the state, such as ``/configuration/confidence_threshold``.
            value: The new value, as JSON.

        Example:
            session.update("/learning_state/step", 7)
        """
        with self._lock:
            try:
                change = build_set_change(self._position.state, place, value)
            except InvalidInput as error:
                return self.update(place, value) if self._store_forecasts() else Refused("bad_change", error.message)
            return self._apply_patch([change], at=to_iso(self._clock.now()), check_limit=True)

    def update_prediction(
        self, prediction_id: str, probability: float, *, extra: Mapping[str, Any] | None = None
    ) -> Outcome:
        """Revise a prediction: set its probability and time of update, and count the update.

        Args:
            prediction_id: The id of the prediction.
            probability: The probability, from 0 to 1.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
            session.state
            session.update_prediction("p-1", 0.9)
        """
        known = ("probability", "prediction_id", "question", "status", "last_updated", "num_updates")
        if (refused := refuse_known_fields(extra, known)) is not None:
            return refused
        with self._lock:
            index = self._find_prediction(prediction_id)
            if index is None and self._store_forecasts():
                index = self._find_prediction(prediction_id)
            if index is None:
                return Refused("not_found", f"The session has no prediction {prediction_id[:80]!r}.")
            count = self._position.state["active_predictions"][index].get("num_updates", 0) + 1
            now = to_iso(self._clock.now())
            values = {"probability": probability, **(extra or {}), "last_updated": now, "num_updates": count}
            path = f"/active_predictions/{index}/"
            return self.patch([{"op": "add", "path": path + name, "value": value} for name, value in values.items()])

    def _find_prediction(self, prediction_id: str) -> int | None:
        items = self._position.state["active_predictions"]
        return next((index for index, item in enumerate(items) if item["prediction_id"] == prediction_id), None)

    def patch(self, changes: Sequence[PatchOperation]) -> Outcome:
        """Make changes in JSON Patch, all or none. Once accepted, no crash loses them.

        ``Conflict`` means that another writer of the session was faster: ``refresh``, look, and try again.

        Args:
            changes: Operations of JSON Patch: ``{"op": "add", "path": …, "value": …}``.

        Example:
            session.patch([{"op": "add", "path": "/learning_state/step", "value": 7}])
        """
        return self._apply_patch(changes, at=to_iso(self._clock.now()), check_limit=True)

    def _apply_patch(
        self,
        changes: Sequence[PatchOperation],
        *,
        at: str,
        extra_drafts: Sequence[Draft] = (),
        check_limit: bool = False,
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
            if state["metadata"]["session_id"] != self.id:
                return Refused("bad_state", "The state does not fit: metadata/session_id is the id of another session.")
            agent_id = position.state["metadata"]["agent_id"]
            if (refused := self._records.check_agent(state["metadata"]["agent_id"], agent_id)) is not None:
                return refused
            if check_limit and (refused := _check_active_markets(position.state, state)) is not None:
                return refused
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
            position.state = set_update_time(state, at)
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
        """Read the changes of other writers of the session; return their number.

        Example:
            session.refresh()
        """
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
        """Save the whole state in the log and in a file, and apply retention to older files.

        Args:
            clean: Mark the session as closed properly.

        Example:
            session.checkpoint()
        """
        with self._lock:
            self._require_open()
            self._store_forecasts()
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
        """Replace the whole state, and save it as a checkpoint.

        Args:
            state: The state, as JSON.

        Example:
            session.replace({**session.state, "learning_state": {"step": 7}})
        """
        with self._lock:
            self._require_open()
            return self._save_checkpoint(dict(state), self._position.upto + 1, self._replacement_draft())

    def settle(
        self, state: Mapping[str, Any] | None = None, number: int | None = None, last_updated: Time | None = None
    ) -> Outcome:
        """Save the state, or another that replaces it, as a checkpoint of a session that stays closed.

        Missing sections of ``state`` are filled. A ``number`` that is not above the newest one is a ``Conflict``.
        ``last_updated`` is the time of the state, if that is not now.

        Args:
            state: The state, as JSON.
            number: The number of the checkpoint; default: the next one.
            last_updated: The time of the state, if that is not now.
        """
        with self._lock:
            position = self._position
            if state is None:
                return self._save_checkpoint(position.state, position.upto, clean=True)
            agent_id = position.state["metadata"]["agent_id"]
            state = fill_missing_sections(state, self.id, agent_id, self._clock.now())
            if (fault := find_state_fault(state)) is not None:
                return Refused("bad_state", fault)
            if (refused := self._records.check_agent(state["metadata"]["agent_id"], agent_id)) is not None:
                return refused
            if number is not None and number <= self.number:
                return Conflict(Key(self._records.scope, CHECKPOINT, self.id), number, self.number)
            draft = self._replacement_draft()
            return self._save_checkpoint(
                state, position.upto + 1, draft, clean=True, number=number, last_updated=last_updated
            )

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
        last_updated: Time | None = None,
    ) -> Outcome:
        position, now = self._position, self._clock.now()
        number = number or position.checkpoint_number + 1
        metadata = state.get("metadata")
        if isinstance(metadata, dict):
            moment = to_iso(now if last_updated is None else to_utc(last_updated))
            state = {**state, "metadata": {**metadata, "last_updated": moment, "checkpoint_number": number}}
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
        position.checkpoint_number, saved = number, outcome.records[0]
        position.checkpoint_version = saved.version if saved.kind == CHECKPOINT else None
        self._last_checkpoint_at = now
        self._files.save(checkpoint)
        self._files.apply_retention(now, self._options.retention)
        return outcome

    def prune(self) -> PruningPlan:
        """Bring the state within its budget; items that leave it are archived in the same step.

        Example:
            session.prune()
        """
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

        Signals are marked as broadcast and acknowledged; peers and usage go into the section ``network_state``. Signals
        below the ``confidence_threshold`` of the configuration stay here.

        Example:
            session.sync()
        """
        with self._lock:
            self._require_open()
            self._store_forecasts()
            state, network = self._position.state, self._current_network
            section = dict(state["network_state"])
            agent_id = state["metadata"]["agent_id"]
            changes: list[PatchOperation] = []
            try:
                if network is None:
                    raise NetworkDown
                for change in self._broadcast_state(network, agent_id, state):
                    changes.append(change)  # noqa: PERF402 - what was sent before a failure is marked too
                peers = network.peers(agent_id)
            except NetworkDown:
                section["connected"] = False
            else:
                known = {peer["agent_id"]: peer for peer in section.get("peer_agents", ())}
                for peer in peers:
                    entry = known.get(peer.agent_id, {"agent_id": peer.agent_id, "trust_score": 0.5})
                    trust = {} if peer.trust is None else {"trust_score": peer.trust}
                    known[peer.agent_id] = entry | trust | {"last_interaction": to_iso(peer.last_interaction)}
                now = to_iso(self._clock.now())
                section |= {"connected": True, "last_sync": now, "peer_agents": list(known.values())}
            if network is not None:
                section["api_usage"] = network.usage()
            self._last_update_at = self._clock.now()
            outcome = self.patch([*changes, {"op": "replace", "path": "/network_state", "value": section}])
            self._require_accepted(outcome, "synced")
            return section

    @staticmethod
    def _broadcast_state(network: Network, agent_id: str, state: SessionState) -> Iterator[PatchOperation]:
        """Send predictions and signals; yield the changes that mark the signals."""
        for prediction in state["active_predictions"]:
            if prediction.get("status") != "recovering":
                network.broadcast(agent_id, "prediction", prediction)
        threshold = state["configuration"].get("confidence_threshold", 0.0)
        for index, item in enumerate(state["signal_history"]):
            if item.get("acknowledged"):
                continue
            if not item.get("broadcast"):
                if item.get("confidence", 1.0) < threshold:
                    continue
                network.broadcast(agent_id, "signal", {**item, "broadcast": True})
                yield {"op": "add", "path": f"/signal_history/{index}/broadcast", "value": True}
            if network.acknowledged(agent_id, item["signal_id"]):
                yield {"op": "add", "path": f"/signal_history/{index}/acknowledged", "value": True}

    def verify(self) -> Mapping[str, str]:
        """Ask the network again about recovering predictions; return those that still are, and why.

        Example:
            session.verify()
        """
        with self._lock:
            self._require_open()
            decisions, _ = self._reconcile(is_complete=self.recovery is None or self.recovery.whole)
            return {decision.prediction_id: decision.flag for decision in decisions if decision.flag}

    def _reconcile(self, *, is_complete: bool) -> tuple[list[PredictionDecision], str]:
        """Settle recovering predictions, each in a durable step; return the decisions and the network's answer."""
        network_state, answer = None, "did not answer"
        if self._current_network is not None:
            with suppress(NetworkDown):
                network_state = self._current_network.fetch_state(self._position.state["metadata"]["agent_id"])
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
        """Return the ids of the predictions that are not verified yet.

        Example:
            session.recovering()
        """
        return [
            item["prediction_id"] for item in self._position.state["active_predictions"] if PREVIOUS_STATUS_KEY in item
        ]

    def run(self, *, signals: bool = True) -> Self:
        """Start a thread that saves checkpoints and backups when they are due.

        A checkpoint is due every ``checkpoint_interval_minutes`` if something changed. With ``signals``, SIGTERM ends
        the program as an exit does (SIGINT does so already). However the program ends, the session is closed first.

        Args:
            signals: Close the session on SIGTERM too.

        Example:
            with session.run(signals=False):
                session.update("/learning_state/step", 7)
        """
        with self._lock:
            self._require_open()
            if self._thread is None:
                self._thread = _SessionThread(self, self._seconds_until_due, signals=signals)
                self._thread.start()
        return self

    def tick(self) -> tuple[str, ...]:
        """Do what is due and return the names of the steps: a checkpoint, an update from the network, a backup.

        A checkpoint is saved if something changed but what updates note of the network. An update verifies predictions
        that are recovering, and syncs.

        Example:
            session.tick()
        """
        with self._lock:
            if self._closed:
                return ()
            now, done = self._clock.now(), []
            # a clock that was set back must not delay the next one
            self._last_checkpoint_at = min(self._last_checkpoint_at, now)
            self._last_backup_at = min(self._last_backup_at, now)
            self._last_update_at = min(self._last_update_at, now)
            if now - self._last_update_at >= self._update_interval() and self._current_network is not None:
                self._update(now)
                done.append("update")
            if now - self._last_checkpoint_at >= self._checkpoint_interval():
                if self._has_changed():
                    self._checkpoint_refreshed()
                    done.append("checkpoint")
                self._last_checkpoint_at = now
            if self._options.backup is not None and now - self._last_backup_at >= self._options.backup_every:
                self._back_up(now)
                done.append("backup")
            return tuple(done)

    def _has_changed(self) -> bool:
        """Return whether something is not in the last checkpoint, apart from what updates note of the network."""
        self._store_forecasts()
        return self._position.upto > max(self._position.saved_upto, self._quiet_upto)

    def _update(self, now: datetime) -> None:
        """Verify recovering predictions and sync; a writer that was faster is waited for until the next time."""
        self._last_update_at = now
        was_changed = self._has_changed()
        if self.recovering():
            self.verify()
            was_changed = True
        before = self._position.state
        self.sync()
        if not was_changed and before["signal_history"] == self._position.state["signal_history"]:
            self._quiet_upto = self._position.upto

    def _seconds_until_due(self) -> float:
        """Return the time until the next checkpoint or update is due, at most half a minute."""
        now = self._clock.now()
        waits = (
            self._checkpoint_interval() - max(now - self._last_checkpoint_at, timedelta(0)),
            self._update_interval() - max(now - self._last_update_at, timedelta(0)),
        )
        return min(max(min(waits).total_seconds(), 0.05), _MAX_WAIT_SECONDS)

    def _checkpoint_interval(self) -> timedelta:
        return timedelta(minutes=self.configuration.get("checkpoint_interval_minutes", 30))

    def _update_interval(self) -> timedelta:
        return timedelta(minutes=self.configuration.get("update_frequency_minutes", 15))

    def _back_up(self, now: datetime) -> None:
        if self._options.backup is not None:
            self._options.backup(self.id)
            self._last_backup_at = now
            self._records.append(self._records.event_draft("backed_up", now))

    def close(self) -> None:
        """Save the last checkpoint, mark the session as closed, and back it up. Closing twice is fine.

        Example:
            session.close()
        """
        if self._thread is not None:
            self._thread.stop()
        with self._lock:
            if not self._closed:
                self.refresh()
                self._store_usage()
                self._require_accepted(self._checkpoint_refreshed(clean=True), "closed")
                self._mark_closed()
                self._back_up(self._clock.now())

    def _store_usage(self) -> None:
        """Store the count of requests to the network, so that it goes on after a restart."""
        usage = None if self._network is None or self._network.last_request is None else self._network.usage()
        if usage is not None and usage != self._position.state["network_state"].get("api_usage"):
            change = {"op": "add", "path": "/network_state/api_usage", "value": usage}
            self._apply_patch([change], at="")

    def abandon(self) -> None:
        """Leave the session as a crash would: nothing is saved or marked.

        Example:
            session.abandon()
        """
        if self._thread is not None:
            self._thread.stop()
        self._mark_closed()

    def _mark_closed(self) -> None:
        """Note in memory and in the files that this process no longer has the session open."""
        self._closed = True
        if self._holder is not None:
            release_holder(self._holder)
            try:
                self._files.remove_holder(self._holder)
            except (OSError, LukasaError) as error:
                self.trouble = error  # the holder is not alive, so its file says nothing any more

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"The session {self.id[:80]!r} is closed.", hint="Start it again to go on.")


def fill_forecasts(
    state: SessionState, forecasts: Forecasts, scope: str, budget: Budget, known_versions: tuple[int, ...] = (0, 0, 0)
) -> tuple[SessionState, tuple[int, ...]]:
    """Return a state with the forecasts of its scope, and their numbers of versions; the same state if those are known."""
    versions = forecasts.count_versions(scope)
    if versions == known_versions:
        return state, versions
    filled = forecasts.fill_sections(
        state, scope, max_signals=budget.signals, signals_for=budget.signals_for, max_markets=budget.markets
    )
    return filled, versions


def _check_active_markets(before: SessionState, after: SessionState) -> Refused | None:
    """Refuse a change by which more markets have an active prediction than the configuration allows."""
    limit = after["configuration"].get("max_active_markets")
    predictions = after["active_predictions"]
    if limit is None or len(predictions) <= limit or before["active_predictions"] is predictions:
        return None
    count = _count_active_markets(predictions)
    if count <= limit or count <= _count_active_markets(before["active_predictions"]):
        return None
    reason = f"There would be active predictions on {count} markets; max_active_markets is {limit}."
    return Refused("too_many_active", f"{reason} Resolve or expire some first.")


def _count_active_markets(predictions: Sequence[Mapping[str, Any]]) -> int:
    active = (item for item in predictions if item.get("status", "active") in ("active", "recovering"))
    return len({item.get("market_id", item["prediction_id"]) for item in active})


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
