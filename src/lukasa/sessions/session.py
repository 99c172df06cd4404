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

from lukasa import canonical
from lukasa.clock import Clock, to_iso
from lukasa.errors import InvalidInput, LukasaError, NetworkDown, StoreClosed
from lukasa.network import Metered, Network
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Draft
from lukasa.sessions.book import Book
from lukasa.sessions.budget import Budget, Pruning, parcels, prune, reached
from lukasa.sessions.files import Checkpoint, Delta, Folder, Retention
from lukasa.sessions.patching import Change, setting, settled
from lukasa.sessions.recovery import HELD, Recovery, Verdict, after, marking, reconcile, restored
from lukasa.sessions.significance import Significance, significant
from lukasa.sessions.state import LARGEST, State, objection

BACKUP_EVERY = timedelta(hours=2)
RATE_LIMIT = 1000
"""Requests to the network in an hour, where the state names no other limit."""

_LONGEST_NAP = 30.0


@dataclass(frozen=True, slots=True)
class Habits:
    """How a session takes care of itself."""

    significance: Significance = field(default_factory=Significance)
    retention: Retention = field(default_factory=Retention)
    budget: Budget = field(default_factory=Budget)
    backup: Callable[[str], object] | None = None
    backup_every: timedelta = BACKUP_EVERY


@dataclass(slots=True)
class Standing:
    """Where a session stands: its state and the numbers that go with it."""

    state: State
    upto: int
    """The last change that is in the state."""
    number: int
    """The last checkpoint."""
    version: int
    """The version of that checkpoint's record."""
    saved: State
    saved_upto: int
    size: int = LARGEST
    """At most so many bytes has the state; it is counted anew when that might be too many."""


class Session:
    """A session that is open. Its methods may be called from any thread."""

    def __init__(
        self,
        book: Book,
        folder: Folder,
        clock: Clock,
        network: Network | None,
        standing: Standing,
        habits: Habits,
        recovery: Recovery | None = None,
    ) -> None:
        self.id = book.session
        self.recovery = recovery
        self.trouble: Exception | None = None
        self._book, self._folder, self._clock = book, folder, clock
        self._standing, self._habits = standing, habits
        self._network: Network | None = (
            network if network is None or isinstance(network, Metered) else self._metered(network)
        )
        self._turn = threading.RLock()
        self._closed = False
        self._checkpointed = self._backed_up = clock.now()
        self._runner: _Runner | None = None

    def _metered(self, network: Network) -> Metered:
        """The network within the rate limit that the state names."""
        limit = self._standing.state["network_state"].get("api_usage", {}).get("rate_limit")
        return Metered(network, self._clock, limit if isinstance(limit, int) else RATE_LIMIT)

    # Reading

    def state(self) -> State:
        """A copy of the state as it is now."""
        with self._turn:
            copy: State = canonical.parse(canonical.encode(self._standing.state))
            return copy

    @property
    def number(self) -> int:
        """The number of the last checkpoint."""
        return self._standing.number

    @property
    def closed(self) -> bool:
        return self._closed

    # Changing

    def update(self, place: str, value: Any) -> Outcome:
        """Sets one place of the state: ``update("/configuration/confidence_threshold", 0.8)``.

        An item of a list may be named by its id: ``/active_predictions/pred-001/probability``.
        """
        with self._turn:
            try:
                change = setting(self._standing.state, place, value)
            except InvalidInput as error:
                return Refused("bad_change", error.message)
            return self.patch([change])

    def update_prediction(self, prediction_id: str, probability: float, **fields: Any) -> Outcome:
        """Revises a prediction in the state: its probability, when that was, and how often it has happened."""
        with self._turn:
            items = self._standing.state["active_predictions"]
            at = next((at for at, item in enumerate(items) if item["prediction_id"] == prediction_id), None)
            if at is None:
                return Refused("not_found", f"The session has no prediction {prediction_id[:80]!r}.")
            moment, count = to_iso(self._clock.now()), items[at].get("num_updates", 0) + 1
            values = {"probability": probability, **fields, "last_updated": moment, "num_updates": count}
            place = f"/active_predictions/{at}/"
            return self.patch([{"op": "add", "path": place + name, "value": value} for name, value in values.items()])

    def patch(self, changes: Sequence[Change]) -> Outcome:
        """Makes changes in JSON Patch, all or none. Once accepted, no crash loses them.

        ``Conflict`` says that another writer of the session was faster: ``refresh``, look, and try again.
        """
        return self._patch(changes, at=to_iso(self._clock.now()))

    def _patch(self, changes: Sequence[Change], *, at: str, along: Sequence[Draft] = ()) -> Outcome:
        with self._turn:
            self._require_open()
            standing = self._standing
            try:
                state, kept, touched = settled(standing.state, changes)
            except InvalidInput as error:
                return Refused("bad_change", error.message)
            if (fault := objection(state, touched)) is not None:
                return Refused("bad_state", fault)
            if (size := self._size_after(state, kept)) > LARGEST:
                return Refused("too_large", f"The state would have {size:,} bytes; at most {LARGEST:,} are kept.")
            delta = Delta(standing.upto + 1, at, kept)
            outcome = self._book.append(self._book.changed(delta), *along)
            if not isinstance(outcome, Accepted):
                return outcome
            standing.state = after(standing.state, delta)
            standing.upto, standing.size = delta.number, size
            self._note(delta)
            rule = self._habits.significance
            if at and significant(standing.saved, standing.state, touched, standing.upto - standing.saved_upto, rule):
                self._checkpoint_beside()
            return outcome

    def _size_after(self, state: State, changes: Sequence[Change]) -> int:
        """At most so many bytes has a state after changes; counted only where the bound does not settle it."""
        try:
            bound = self._standing.size + len(canonical.encode(changes)) + 100
            return bound if bound <= LARGEST else len(canonical.encode(state))
        except InvalidInput:
            return 0  # not JSON: the gate says so

    def _checkpoint_beside(self) -> None:
        """A checkpoint for a change that is safe already: trouble with it is no reason to refuse the change."""
        try:
            self.checkpoint()
        except (OSError, LukasaError) as error:
            self.trouble = error

    def _note(self, delta: Delta) -> None:
        """Tells the files of a change that the log already holds. Trouble there is no reason to refuse it."""
        fields: dict[str, Any] = {"n": delta.number, "changes": delta.changes}
        try:
            self._folder.note(self._standing.number, [fields | {"at": delta.at} if delta.at else fields])
        except (OSError, LukasaError) as error:
            self.trouble = error

    def refresh(self) -> int:
        """Takes in what other writers of the session have done; returns how many changes that were."""
        with self._turn:
            standing, taken = self._standing, 0
            newest = self._book.checkpoint()
            if newest is not None and newest.version != standing.version:
                found = self._book.newest_valid()
                if found is not None and found.number > standing.number:
                    standing.number, standing.version = found.number, newest.version
                    if found.upto > standing.upto:
                        taken += found.upto - standing.upto
                        standing.state, standing.upto = found.state, found.upto
                    standing.saved, standing.saved_upto = found.state, found.upto
            for delta in self._book.deltas(standing.upto):
                if delta.number != standing.upto + 1 or delta.changes is None:
                    break
                standing.state, standing.upto = after(standing.state, delta), delta.number
                taken += 1
            return taken

    # Checkpoints

    def checkpoint(self, *, clean: bool = False) -> Outcome:
        """Saves the whole state, in the log and in a file of its own, and tidies up older files."""
        with self._turn:
            self._require_open()
            if reached(self._standing.state, self._habits.budget):
                self.prune()
            event = "closed" if clean else "checkpoint"
            return self._save(self._standing.state, self._standing.upto, clean=clean, event=event)

    def replace(self, state: Mapping[str, Any]) -> Outcome:
        """Takes another state in place of this one, as a checkpoint."""
        with self._turn:
            self._require_open()
            upto = self._standing.upto + 1
            return self._save(dict(state), upto, self._book.changed(Delta(upto, "", None)))

    def _save(
        self,
        state: State,
        upto: int,
        *along: Draft,
        clean: bool = False,
        number: int | None = None,
        event: str = "checkpoint",
    ) -> Outcome:
        standing, now = self._standing, self._clock.now()
        number = number or standing.number + 1
        metadata = state.get("metadata")
        if isinstance(metadata, dict):
            state = {**state, "metadata": {**metadata, "last_updated": to_iso(now), "checkpoint_number": number}}
        if (fault := objection(state)) is not None:
            return Refused("bad_state", fault)
        if (size := len(canonical.encode(state))) > LARGEST:
            return Refused("too_large", f"The state has {size:,} bytes; at most {LARGEST:,} are kept.")
        checkpoint = Checkpoint(self.id, self._book.scope, number, upto, now, state, clean)
        agent = str(state["metadata"].get("agent_id", ""))
        status = "closed" if clean else "open"
        outcome = self._book.append(
            self._book.saved(checkpoint, standing.version),
            *along,
            self._book.opened(agent, status, now, number=number, upto=upto, expected=None),
            self._book.event(event, now, number=number),
        )
        if not isinstance(outcome, Accepted):
            return outcome
        standing.state, standing.size = state, size
        standing.saved = state
        standing.upto = standing.saved_upto = upto
        standing.number, standing.version = number, outcome.records[0].version
        self._checkpointed = now
        self._folder.save(checkpoint)
        self._folder.tidy(now, self._habits.retention)
        return outcome

    def prune(self) -> Pruning:
        """Brings the state within its budget; what leaves it is archived in the same step."""
        with self._turn:
            self._require_open()
            now = self._clock.now()
            plan = prune(self._standing.state, now, self._habits.budget)
            if plan.changes:
                drafts = [
                    self._book.archived(part.section, part.items, now, part.why)
                    for leaving in plan.leaving
                    for part in parcels(leaving)
                ]
                outcome = self._patch(plan.changes, at=to_iso(now), along=drafts)
                if isinstance(outcome, Refused | Conflict):
                    raise InvalidInput(f"The session could not be pruned: {outcome.reason}")
            return plan

    # The network

    def sync(self) -> Mapping[str, Any]:
        """Tells the network every prediction, sends signals again that nobody has taken, and notes how that went."""
        with self._turn:
            self._require_open()
            state, network = self._standing.state, self._network
            section = dict(state["network_state"])
            agent = state["metadata"]["agent_id"]
            try:
                if network is None:
                    raise NetworkDown
                signals = self._exchange(network, agent, state)
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
            if isinstance(network, Metered):
                section["api_usage"] = network.usage()
            changes = [*signals, {"op": "replace", "path": "/network_state", "value": section}]
            outcome = self.patch(changes)
            if isinstance(outcome, Refused | Conflict):
                raise InvalidInput(f"The session could not be synced: {outcome.reason}")
            return section

    @staticmethod
    def _exchange(network: Network, agent: str, state: State) -> list[Change]:
        for prediction in state["active_predictions"]:
            if prediction.get("status") != "recovering":
                network.broadcast(agent, "prediction", prediction)
        changes: list[Change] = []
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
        with self._turn:
            self._require_open()
            return self._verify(sure=self.recovery is None or self.recovery.whole)[1]

    def _verify(self, *, sure: bool) -> tuple[list[Verdict], dict[str, str], str]:
        """Settles what is recovering, one prediction at a time, each step durable."""
        agent = self._standing.state["metadata"]["agent_id"]
        heard, answered = None, "did not answer"
        if self._network is not None:
            try:
                heard = self._network.fetch_state(agent)
                answered = "knows nothing of the agent" if heard.silent else "answered"
            except NetworkDown:
                heard = None
        verdicts = reconcile(self._standing.state, heard, sure=sure)
        for verdict in verdicts:
            if verdict.deed != "hold":
                self._restore(verdict)
        if heard is not None and not sure:
            known = {item["signal_id"] for item in self._standing.state["signal_history"]}
            missing = [dict(item) for item in heard.signal_history if item["signal_id"] not in known]
            if missing:
                self._step([{"op": "add", "path": "/signal_history/-", "value": item} for item in missing])
        return verdicts, {verdict.prediction_id: verdict.flag for verdict in verdicts if verdict.flag}, answered

    def _restore(self, verdict: Verdict) -> None:
        items = self._standing.state["active_predictions"]
        at = next((at for at, item in enumerate(items) if item["prediction_id"] == verdict.prediction_id), None)
        place = "-" if at is None else str(at)
        verb = "add" if at is None else "replace"
        self._step([{"op": verb, "path": f"/active_predictions/{place}", "value": restored(verdict.prediction)}])

    def mark_recovering(self) -> int:
        """Marks every active prediction as recovering; returns how many there are."""
        changes = marking(self._standing.state)
        if changes:
            self._step(changes)
        return len(changes) // 2

    def _step(self, changes: Sequence[Change]) -> None:
        outcome = self._patch(changes, at="")
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session {self.id[:80]!r} could not be recovered: {outcome.reason}")

    def recovering(self) -> list[str]:
        """The predictions that are not verified yet."""
        return [item["prediction_id"] for item in self._standing.state["active_predictions"] if HELD in item]

    # The course of a session

    def run(self, *, signals: bool = True) -> Self:
        """Keeps itself from now on: checkpoints and backups by the clock, and a graceful end.

        A thread saves what has changed every ``checkpoint_interval_minutes``. With ``signals``, SIGTERM ends the program
        as an exit does (SIGINT does so already), and whatever way it ends, the session is closed first.
        """
        with self._turn:
            self._require_open()
            if self._runner is None:
                self._runner = _Runner(self, signals=signals)
                self._runner.start()
        return self

    def tick(self) -> tuple[str, ...]:
        """Does what is due by now: a checkpoint if something changed, a backup; returns what was done."""
        with self._turn:
            if self._closed:
                return ()
            now, done = self._clock.now(), []
            self._checkpointed, self._backed_up = min(self._checkpointed, now), min(self._backed_up, now)
            minutes = self._standing.state["configuration"].get("checkpoint_interval_minutes", 30)
            if _elapsed(self._checkpointed, now) >= timedelta(minutes=minutes):
                if self._standing.upto > self._standing.saved_upto:
                    outcome = self.checkpoint()
                    if isinstance(outcome, Conflict):
                        self.refresh()
                        self.checkpoint()
                    done.append("checkpoint")
                self._checkpointed = now
            if self._habits.backup is not None and _elapsed(self._backed_up, now) >= self._habits.backup_every:
                self._back_up(now)
                done.append("backup")
            return tuple(done)

    def _back_up(self, now: datetime) -> None:
        if self._habits.backup is not None:
            self._habits.backup(self.id)
            self._backed_up = now
            self._book.append(self._book.event("backed_up", now))

    def close(self) -> None:
        """Saves the last checkpoint, marks the session as closed, and backs it up. Closing twice is fine."""
        if self._runner is not None:
            self._runner.stop()
        with self._turn:
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

    def _nap(self) -> float:
        """How long nothing will be due."""
        minutes = float(self._standing.state["configuration"].get("checkpoint_interval_minutes", 30))
        left = minutes * 60 - _elapsed(self._checkpointed, self._clock.now()).total_seconds()
        return min(max(left, 0.05), _LONGEST_NAP)


class _Runner:
    """The thread that looks after a session, and what happens when the program ends."""

    def __init__(self, session: Session, *, signals: bool) -> None:
        self._session = session
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"session {session.id[:40]}", daemon=True)
        self._signals = signals and threading.current_thread() is threading.main_thread()
        self._before: Any = None

    def start(self) -> None:
        atexit.register(self._session.close)
        if self._signals:
            self._before = signal.signal(signal.SIGTERM, _leave)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        atexit.unregister(self._session.close)
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(60)
        if self._signals and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is _leave:
                signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
            self._signals = False

    def _work(self) -> None:
        while not self._stop.wait(self._session._nap()):
            try:
                self._session.tick()
            except (LukasaError, OSError) as error:
                self._session.trouble = error  # the next round tries again


def _leave(number: int, _: FrameType | None) -> NoReturn:
    """Ends the program as an exit does, so that everything is closed on the way."""
    raise SystemExit(128 + number)


def _elapsed(since: datetime, now: datetime) -> timedelta:
    """The time that has passed; a clock that was set back has passed none."""
    return max(now - since, timedelta(0))
