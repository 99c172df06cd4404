"""Service behind ``memory.sessions``: start, save, recover, list and back up sessions, for one caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lukasa.core import canonical_json
from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, IdMaker, Time, from_iso, to_as_of
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Key
from lukasa.core.scope import SHARED
from lukasa.core.text_cache import ClearedDict
from lukasa.errors import InvalidInput, NotAllowed, StoreDamaged
from lukasa.journal import CallerService, Journal
from lukasa.journal.read_cache import ReadCache
from lukasa.network import Network
from lukasa.sessions.budget import Budget, PruningPlan
from lukasa.sessions.checkpoint_files import (
    Checkpoint,
    CheckpointFileInfo,
    CheckpointFiles,
    Delta,
    Retention,
    RetentionResult,
    find_mentions,
    remove_files,
)
from lukasa.sessions.records import (
    ARCHIVE,
    DELTA,
    EVENT,
    INCIDENT,
    SESSION,
    ParsedSessions,
    ReplayedLog,
    SessionRecords,
)
from lukasa.sessions.recovery import (
    RecoveryEvidence,
    RecoveryReport,
    apply_delta,
    newest_checkpoint,
    recover_state,
    restart_state,
)
from lukasa.sessions.session import (
    BACKUP_EVERY,
    NetworkOpener,
    Session,
    SessionOptions,
    SessionPosition,
    Significance,
    fill_forecasts,
)
from lukasa.sessions.state import SessionState, fresh_state
from lukasa.storage.archive import DEFAULT_KEEP, Archives, Manifest
from lukasa.storage.engine import Query
from lukasa.storage.file_stores import open_file_store
from lukasa.storage.files import FileInfo, FileStore

if TYPE_CHECKING:
    from lukasa.forecasts.forecasts import Forecasts

_MAX_AGE_HOURS = 1_000_000
_MAX_REPLAYED = 8
_FILE_BYTES = 300
_MIN_CHECKED = 3
"""Number of the newest checkpoints that every recovery reads and verifies."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a listing."""

    id: str
    scope: str
    agent_id: str
    status: str
    number: int
    at: str


@dataclass(frozen=True, slots=True)
class CheckpointVerification:
    """A checkpoint file and its fault, or None."""

    entry: CheckpointFileInfo
    fault: str | None


class _StoredState(NamedTuple):
    """A state as it was read: the session's files, their list, the state as JSON, and whether no session is newer."""

    files: CheckpointFiles
    file_list: Sequence[FileInfo]
    encoded: bytes | None
    is_newest: bool


def _session_not_found(session_id: str) -> Refused:
    return Refused("not_found", f"Nothing is known of the session {session_id[:80]!r}.")


@check_arguments
class Sessions(CallerService):
    """Sessions that survive crashes and damage.

    ``create_blobs`` opens the file store of their checkpoints on first use. ``open_network`` opens the network at the
    ``api_endpoint`` of a session's configuration, or with "" the one of all other sessions; after a crash, predictions are
    compared with those that the network has. ``default_id`` names the session to resume when the caller names none.
    ``open_forecasts`` returns the caller's forecasts, which appear in the states of the sessions.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        create_blobs: Callable[[], FileStore],
        open_network: NetworkOpener = lambda _: None,
        default_id: Callable[[], str | None] = lambda: None,
        open_forecasts: Callable[[], Forecasts | None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._create_blobs = create_blobs
        self._blobs: FileStore | None = None
        self._open_sessions: list[Session] = []
        self.open_network = open_network
        self.network = open_network("")
        self._default_id = default_id
        self._open_forecasts = open_forecasts
        self._known_configuration: tuple[object, Mapping[str, Any]] = (None, {})
        self._parsed = ParsedSessions()
        self._replayed: ClearedDict[tuple[str, str], ReplayedLog] = ClearedDict()
        self._states: ReadCache[_StoredState] = ReadCache(
            journal, measure=lambda stored: len(stored.encoded or b"") + _FILE_BYTES * len(stored.file_list)
        )

    def start(
        self,
        session_id: str | None = None,
        *,
        agent_type: str | None = None,
        significance: Significance | None = None,
        retention: Retention | None = None,
        budget: Budget | None = None,
        backup: str | None = None,
        backup_every: timedelta = BACKUP_EVERY,
        secret: str = "",
        scope: str | None = None,
    ) -> Session:
        """Resume a session, recovering it as needed, or begin a new one.

        Without an id, the environment names it (``LUKASA_SESSION_ID``, ``VOXSIGIL_SESSION_ID``); otherwise a new session
        begins. ``Session.recovery`` says how the session was found. ``backup`` is a folder or a bucket; the session is
        backed up to it when it is closed and, while it runs, every two hours.

        Args:
            session_id: The id; default: the one in the environment, else a new one.
            agent_type: What sort of agent it is; kept in the state.
            significance: Which changes call for a checkpoint at once.
            retention: How many checkpoint files stay, plain and compressed.
            budget: How large the state may become; default: the document's limits.
            backup: A folder or a bucket to back up to when the session is closed and while it runs.
            backup_every: How long to wait between two backups.
            secret: The passphrase that encrypts the backup.
            scope: The scope; default: the caller's own.

        Example:
            with memory.sessions.start("demo") as session:
                session.update("/learning_state/step", 7)
        """
        id = session_id or self._default_id()
        save = None if backup is None else lambda name: self.backup(name, backup, secret=secret, scope=scope).unwrap()
        rules = (significance or Significance(), retention or Retention(), budget or Budget())
        options = SessionOptions(*rules, save, backup_every)
        session = None if id is None else self._resume_session(id, scope, options)
        if session is None:
            id = id or f"session-{self._clock.now():%Y%m%d-%H%M%S}-{self._new_id()[12:20]}"
            session = self._new_session(id, scope, options, agent_type)
            outcome = session.begin()
            if isinstance(outcome, Conflict):  # another process began it at the same moment
                session = self._resume_session(id, scope, options) or session
            if not isinstance(outcome, Accepted) and session.recovery is None:
                raise InvalidInput(f"The session cannot be started: {outcome.reason}")
        self._open_sessions = [*(known for known in self._open_sessions if not known.closed), session]
        return session

    def _new_session(
        self, session_id: str, scope: str | None, options: SessionOptions, agent_type: str | None = None
    ) -> Session:
        """Return a session that nothing is stored of yet."""
        records, files = self._records_and_files(session_id, scope or (self._journal.home_scope or SHARED))
        state = self._fresh_state(session_id)
        if agent_type:
            state["metadata"]["agent_type"] = agent_type
        return self._build_session(records, files, SessionPosition(state, 0, 0, 0, state, 0), options)

    def _build_session(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        position: SessionPosition,
        options: SessionOptions,
        network: Network | None = None,
    ) -> Session:
        def open_network(endpoint: str) -> Network | None:
            return network or (self.open_network(endpoint) if endpoint else self.network)

        return Session(records, files, self._clock, open_network, position, options, self._open_forecasts())

    def _fresh_state(self, session_id: str) -> SessionState:
        return fresh_state(session_id, self._journal.author or "agent", self._clock.now())

    def _resume_session(self, session_id: str, scope: str | None, options: SessionOptions) -> Session | None:
        session = self._find_session(session_id, scope, options)
        if session is not None:
            session.reopen()
        return session

    def close(self) -> None:
        """Close every session that was started here and is still open.

        Example:
            memory.sessions.close()
        """
        for session in list(self._open_sessions):
            session.close()

    def recover(
        self, session_id: str, *, scope: str | None = None, network: Network | None = None
    ) -> RecoveryReport | Refused:
        """Bring a session back to the newest state that can be proved, and report it. Doing it twice changes nothing.

        A session that a running process of this machine has open is only read: the mode is ``alive``.
        A session of which neither the log nor the files have anything is refused with ``not_found``.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.
            network: Another network to ask; default: the configured one.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.recover("demo").unwrap().mode
        """
        session = self._find_session(session_id, scope, SessionOptions(), network)
        if session is None or session.recovery is None:
            return _session_not_found(session_id)
        return session.recovery

    def _find_session(
        self,
        session_id: str,
        scope: str | None,
        options: SessionOptions,
        network: Network | None = None,
        *,
        repair: bool = True,
    ) -> Session | None:
        """Return a session as the evidence proves it, repaired or as it is; None when nothing is known of it."""
        records, files = self._records_and_files(session_id, scope)
        evidence = self._gather_evidence(records, files)
        recovered = recover_state(evidence, records.was_withdrawn)
        if recovered is None:
            if evidence.log_status is None and not (evidence.damaged if repair else evidence.highest_number):
                return None
            state = self._fresh_state(session_id)
            recovered = restart_state(evidence, Checkpoint(session_id, records.scope, 0, 0, self._clock.now(), state))
        newest, base = records.checkpoint_record(), recovered.base
        position = SessionPosition(
            recovered.state,
            recovered.upto if repair else recovered.highest_delta,
            evidence.highest_number,
            newest.version if newest is not None else None if "checkpoint" in records.damage else 0,
            base.state,
            base.upto,
        )
        session = self._build_session(records, files, position, options, network)
        if repair:
            session.restore(recovered, evidence)
        return session

    def _gather_evidence(self, records: SessionRecords, files: CheckpointFiles) -> RecoveryEvidence:
        filed, damaged = files.find_newest_valid(_MIN_CHECKED)
        logged, record = records.find_newest_valid(), records.session_record()
        base_upto = max((checkpoint.upto for checkpoint in (filed, logged) if checkpoint is not None), default=0)
        file_deltas, was_reopened = {}, False
        for line in files.read_delta_lines():
            if "opened" in line:
                was_reopened |= filed is None or from_iso(line["opened"]) >= filed.saved_at
            elif isinstance(number := line.get("n"), int) and "changes" in line and number > base_upto:
                file_deltas[number] = Delta(number, line.get("at", ""), line["changes"])
        numbers = [checkpoint.number for checkpoint in (filed, logged) if checkpoint is not None]
        status = None if record is None else record.body["status"]
        return RecoveryEvidence(
            filed,
            damaged,
            logged,
            "open" if record is None and "session" in records.damage else status,
            {delta.number: delta for delta in records.read_deltas(base_upto)},
            file_deltas,
            was_reopened,
            0 if record is None else record.body["upto"],
            max(files.highest_number(), *numbers, 0 if record is None else record.body["number"]),
            records.damage,
            status == "open" and files.is_held(),
        )

    def save_checkpoint(
        self,
        state: Mapping[str, Any],
        session_id: str,
        checkpoint_number: int | None = None,
        *,
        scope: str | None = None,
        retention: Retention | None = None,
        last_updated: Time | None = None,
    ) -> Outcome:
        """Save a whole state as the next checkpoint of a session, which begins if there is none.

        A number that is not above the newest one is a late write of an older state: ``Conflict``. ``last_updated`` is the
        time of the state, if that is not now.

        Args:
            state: The whole state, as JSON.
            session_id: The id of the session.
            checkpoint_number: The number of the checkpoint; default: the next one.
            scope: The scope; default: wherever the caller finds it.
            retention: How many checkpoint files stay, plain and compressed.
            last_updated: The time of the state, if that is not now.

        Example:
            memory.sessions.save_checkpoint({"learning_state": {"step": 7}}, "demo")
        """
        options = SessionOptions(retention=retention or Retention())
        session = self._find_session(session_id, scope, options, repair=False)
        session = session or self._new_session(session_id, scope, options)
        return session.settle(state, checkpoint_number, last_updated)

    def load_latest_checkpoint(self, session_id: str, *, scope: str | None = None) -> SessionState | None:
        """Return the state in the newest valid checkpoint, or None. ``state`` adds the changes since.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.load_latest_checkpoint("demo")
        """
        checkpoint = self.latest(session_id, scope=scope)
        return None if checkpoint is None else checkpoint.state

    def compress_old_checkpoints(
        self, session_id: str, age_hours: float = 24, *, keep: int = 10, compressed: int = 100, scope: str | None = None
    ) -> RetentionResult | Refused:
        """Compress checkpoints that are old or many, and drop compressed ones beyond a number.

        Args:
            session_id: The id of the session.
            age_hours: From this age on a checkpoint is compressed.
            keep: How many of the newest stay as they are.
            compressed: How many compressed checkpoints stay.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.compress_old_checkpoints("demo", age_hours=12)
        """
        if not 0 <= age_hours <= _MAX_AGE_HOURS:
            raise InvalidInput(f"The age of a checkpoint is 0 to {_MAX_AGE_HOURS:,} hours.")
        records, files = self._records_and_files(session_id, scope)
        if not files.list_files() and not records.exists():
            return _session_not_found(session_id)
        return files.apply_retention(self._clock.now(), Retention(keep, compressed, timedelta(hours=age_hours)))

    def backup(
        self,
        session_id: str,
        target: str | os.PathLike[str],
        *,
        secret: str = "",
        keep: int = DEFAULT_KEEP,
        alone: bool = False,
        scope: str | None = None,
    ) -> Manifest | Refused:
        """Back up a session's files to a folder or a bucket. The archive was read back and verified on return.

        Args:
            session_id: The id of the session.
            target: A folder, or the URL of a bucket.
            secret: The passphrase that encrypts the backup.
            keep: How many backups or plain checkpoints stay.
            alone: Promise that no other process backs up to that bucket.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.backup("demo", folder / "backups", secret="a long passphrase")
        """
        _, files = self._records_and_files(session_id, scope)
        if not files.list_files():
            return Refused("not_found", f"The session {session_id[:80]!r} has no files to back up. Save a checkpoint.")
        archives = Archives(open_file_store(target), files.backup_name, self._clock, self._new_id, alone=alone)
        return files.back_up(archives, secret=secret, keep=keep)

    def restore(
        self,
        session_id: str,
        source: str | os.PathLike[str],
        *,
        number: int | None = None,
        secret: str = "",
        scope: str | None = None,
    ) -> RecoveryReport:
        """Restore a session's files from a backup, and recover the session from them.

        Args:
            session_id: The id of the session.
            source: The folder or the URL that holds the backup.
            number: The number of the checkpoint or backup; default: the newest.
            secret: The passphrase that encrypts the backup.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.backup("demo", folder / "backups")
            memory.sessions.erase("demo")
            memory.sessions.restore("demo", folder / "backups")
        """
        records, files = self._records_and_files(session_id, scope)
        archives = Archives(open_file_store(source), files.backup_name, self._clock, self._new_id)
        files.restore(archives, number=number, secret=secret)
        return self.recover(session_id, scope=records.scope).unwrap()

    def state(
        self, session_id: str, *, scope: str | None = None, as_of: Time | int | None = None
    ) -> SessionState | None:
        """Return a session's current state with the changes since the last checkpoint, or None. Nothing is written.

        ``as_of`` is an earlier time or position, whose state is read from the log. The current state of the newest
        session of a scope has the forecasts of that scope.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.
            as_of: An earlier time, or a position in the log.

        Example:
            memory.sessions.save_checkpoint({"learning_state": {"step": 7}}, "demo")
            memory.sessions.state("demo")
        """
        point = to_as_of(as_of)
        if point is not None:
            records, _ = self._records_and_files(session_id, scope)
            checkpoint = records.find_checkpoint_of(point)
            if checkpoint is None:
                return None
            earlier, upto = checkpoint.state, checkpoint.upto
            for delta in records.read_deltas(upto, point):
                if delta.number != upto + 1 or delta.changes is None:
                    break
                earlier, upto = apply_delta(earlier, delta), delta.number
            return earlier
        stored = self._states.find((session_id, scope))
        if stored is None:
            stored = self._states.read((session_id, scope), lambda: self._read_state(session_id, scope))
        elif stored.file_list != stored.files.list_files():
            stored = self._read_state(session_id, scope)
        if stored.encoded is None:
            return None
        state: SessionState = canonical_json.parse(stored.encoded)
        forecasts = self._open_forecasts() if stored.is_newest else None
        return state if forecasts is None else fill_forecasts(state, forecasts, stored.files.scope, Budget())[0]

    def _read_state(self, session_id: str, scope: str | None) -> _StoredState:
        records, files = self._records_and_files(session_id, scope)
        file_list = files.list_files()
        state = self._stored_state(records, files, file_list)
        encoded = None if state is None else canonical_json.encode(state)
        return _StoredState(files, file_list, encoded, self._newest_session(records.scope) == session_id)

    def _stored_state(
        self, records: SessionRecords, files: CheckpointFiles, file_list: Sequence[FileInfo]
    ) -> SessionState | None:
        """Return the state that the log proves, or where the files may know more, that of both."""
        key = (records.session, records.scope)
        replayed = records.replay(self._replayed.get(key))
        if replayed is not None and not files.may_exceed(replayed.checkpoint.number, replayed.upto, file_list):
            if len(self._replayed) >= _MAX_REPLAYED:
                self._replayed.clear()
            self._replayed[key] = replayed
            return replayed.state
        recovered = recover_state(self._gather_evidence(records, files), records.was_withdrawn)
        return None if recovered is None else recovered.state

    def _newest_session(self, scope: str) -> str | None:
        """Return the id of the session that was written last in a scope; None if its record is damaged."""
        query = Query(kinds=(SESSION,), scopes=(scope,), newest_first=True, limit=1)
        with suppress(StoreDamaged):
            return next((record.id for record in self._journal.read_parsed(query, self._parsed.sessions)), None)
        return None

    def configuration(self, *, scope: str | None = None) -> Mapping[str, Any]:
        """Return the configuration of the newest session of a scope, by default the caller's own; {} without one.

        Args:
            scope: The scope; default: the caller's own.

        Example:
            memory.sessions.configuration()
        """
        scope = scope or self._journal.home_scope or SHARED
        for session in reversed(self._open_sessions):
            if not session.closed and session.scope == scope:
                return session.configuration
        versions = [
            row.versions for row in self._journal.tally() if row.scope == scope and row.kind in (SESSION, DELTA)
        ]
        if (scope, versions) != self._known_configuration[0]:
            id = self._newest_session(scope) if versions else None
            encoded = None if id is None else self._read_state(id, scope).encoded
            configuration = {} if encoded is None else canonical_json.parse(encoded)["configuration"]
            self._known_configuration = (scope, versions), configuration
        return self._known_configuration[1]

    def checkpoint(self, session_id: str, number: int, *, scope: str | None = None) -> Checkpoint | None:
        """Return the valid checkpoint of a number, from the files or from the log, or None.

        Args:
            session_id: The id of the session.
            number: The number of the checkpoint.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.checkpoint("demo", 1)
        """
        records, files = self._records_and_files(session_id, scope)
        return files.find_checkpoint(number) or records.find_checkpoint(number)

    def latest(self, session_id: str, *, scope: str | None = None) -> Checkpoint | None:
        """Return the newest valid checkpoint, from the files or from the log, or None.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.latest("demo")
        """
        records, files = self._records_and_files(session_id, scope)
        return newest_checkpoint(files.find_newest_valid()[0], records.find_newest_valid())[0]

    def list(self) -> Sequence[SessionInfo]:
        """Return the sessions that the caller may see, the one that was written last first.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            [info.id for info in memory.sessions.list()]
        """
        return [
            SessionInfo(record.id, record.scope, *map(record.body.__getitem__, ("agent_id", "status", "number", "at")))
            for record in self._journal.read(Query(kinds=(SESSION,), newest_first=True))
        ]

    def checkpoints(self, session_id: str, *, scope: str | None = None) -> Sequence[CheckpointFileInfo]:
        """Return the checkpoint files of a session, newest first.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            [info.number for info in memory.sessions.checkpoints("demo")]
        """
        return self._records_and_files(session_id, scope)[1].list_checkpoints()

    def verify(self, session_id: str, *, scope: str | None = None) -> Sequence[CheckpointVerification]:
        """Verify every checkpoint file of a session, newest first. Nothing is written.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.verify("demo")
        """
        _, files = self._records_and_files(session_id, scope)
        return [CheckpointVerification(entry, files.find_fault(entry)) for entry in files.list_checkpoints()]

    def prune(
        self, session_id: str, budget: Budget | None = None, *, scope: str | None = None
    ) -> PruningPlan | Refused:
        """Bring a session that is not open within its budget; items that leave its state are archived.

        Args:
            session_id: The id of the session.
            budget: How large the state may become; default: the document's limits.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.prune("demo")
        """
        session = self._find_session(session_id, scope, SessionOptions(budget=budget or Budget()), repair=False)
        if session is None:
            return _session_not_found(session_id)
        plan = session.prune()
        if plan.changes:
            session.settle()
        return plan

    def archive(self, session_id: str, *, scope: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the items that pruning removed from a session's state, oldest first.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.archive("demo")
        """
        return self._record_bodies(session_id, scope, ARCHIVE)

    def events(self, session_id: str, *, scope: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the events of a session, oldest first.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.events("demo")
        """
        return self._record_bodies(session_id, scope, EVENT)

    def incidents(self, session_id: str, *, scope: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the incidents of a session, damage and lost changes, oldest first.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.incidents("demo")
        """
        return self._record_bodies(session_id, scope, INCIDENT)

    def _record_bodies(self, session_id: str, scope: str | None, kind: str) -> Sequence[Mapping[str, Any]]:
        records, _ = self._records_and_files(session_id, scope)
        return [record.body for record in records.read_records(kind)]

    def erase(self, session_id: str, *, scope: str | None = None, reason: str = "") -> int:
        """Erase a session for good: its records, derived records and files; return the number of files.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.
            reason: Why, in a few words.

        Example:
            memory.sessions.save_checkpoint({}, "demo")
            memory.sessions.erase("demo", reason="request of 6 January")
        """
        records, files = self._records_and_files(session_id, scope)
        erased = self._journal.erase(records.key, reason=reason).files
        return len(erased) + len(files.remove())

    def erase_files(self, *keys: Key, subject: str | None = None, exact: bool = False) -> Sequence[str]:
        """Delete the files of sessions, and every session folder and file that names a subject; return their names.

        ``journal.erase`` calls this. Only the owner of the store may do it.

        Args:
            *keys: The keys of sessions.
            subject: A person or thing: every record that the subject wrote or that names it as whole words.
            exact: Let the case of letters count.
        """
        if not self._journal.reach.unlimited:
            raise NotAllowed("Only the owner of the store may erase from it.")
        folders = [CheckpointFiles(self.blobs, key.id, key.scope).path for key in keys if key.kind == SESSION]
        folders += [f"sessions/{name}" for name in (self.blobs.list_folders("sessions") if subject else ())]
        files = self.find_files(*keys, subject=subject, exact=exact)
        return remove_files(self.blobs, files, dict.fromkeys(folders))

    def find_files(self, *keys: Key, subject: str | None = None, exact: bool = False) -> Sequence[str]:
        """Return the names of the files that ``erase_files`` would delete.

        Args:
            *keys: The keys of sessions.
            subject: A person or thing: every record that the subject wrote or that names it as whole words.
            exact: Let the case of letters count.
        """
        sessions = [CheckpointFiles(self.blobs, key.id, key.scope) for key in keys if key.kind == SESSION]
        names = [name for files in sessions for name in files.file_names()]
        return list(dict.fromkeys(names + (find_mentions(self.blobs, subject, exact) if subject else [])))

    @property
    def blobs(self) -> FileStore:
        """File store of the checkpoints."""
        if self._blobs is None:
            self._blobs = self._create_blobs()
        return self._blobs

    def folder(self, session_id: str, *, scope: str | None = None) -> str:
        """Return the folder of a session's files in the file store.

        Args:
            session_id: The id of the session.
            scope: The scope; default: wherever the caller finds it.

        Example:
            memory.sessions.folder("demo")
        """
        return self._records_and_files(session_id, scope)[1].path

    def _records_and_files(self, session_id: str, scope: str | None) -> tuple[SessionRecords, CheckpointFiles]:
        """Return the records and files of a session; without a scope, of the one that has it or the caller's own."""
        if session_id.__class__ is not str or not 0 < len(session_id) <= 200 or not session_id.isprintable():
            raise InvalidInput("The id of a session is plain text of 1 to 200 characters.")
        scope = scope or self._find_scope(session_id)
        if not self._journal.reach.reads(scope):
            raise InvalidInput(f"The scope {scope[:80]!r} is outside the caller's reach.")
        records = SessionRecords(self._journal, session_id, scope, self._parsed)
        return records, CheckpointFiles(self.blobs, session_id, scope)

    def _find_scope(self, session_id: str) -> str:
        own = self._journal.home_scope or SHARED
        scopes = [own, *(row.scope for row in self._journal.tally() if row.kind == SESSION and row.scope != own)]
        found = [scope for scope in scopes if SessionRecords(self._journal, session_id, scope, self._parsed).exists()]
        if len(found) > 1 and found[0] != own:
            raise InvalidInput(
                f"The session {session_id[:80]!r} is in several scopes: {', '.join(found)}.", hint="Say which one."
            )
        return found[0] if found else own
