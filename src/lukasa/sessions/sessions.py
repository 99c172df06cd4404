"""The room of sessions: starting, saving, recovering and looking, for one caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from lukasa.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.errors import InvalidInput, LukasaError, NotAllowed
from lukasa.journal import Journal
from lukasa.network import Network
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Key
from lukasa.scope import SHARED
from lukasa.sessions import session_backup
from lukasa.sessions.budget import Budget, PruningPlan
from lukasa.sessions.checkpoint_files import (
    Checkpoint,
    CheckpointFileInfo,
    CheckpointFiles,
    DamagedCheckpoint,
    Delta,
    Retention,
    RetentionResult,
    remove_mentions,
)
from lukasa.sessions.records import ARCHIVE, EVENT, INCIDENT, SESSION, SessionRecords
from lukasa.sessions.recovery import RecoveredState, RecoveryEvidence, RecoveryReport, recover_state
from lukasa.sessions.session import BACKUP_EVERY, Session, SessionOptions, SessionPosition
from lukasa.sessions.significance import Significance
from lukasa.sessions.state import SessionState, fill_missing_sections, find_state_fault, fresh_state
from lukasa.storage.archive import DEFAULT_KEEP, Archives, Manifest
from lukasa.storage.engine import Query
from lukasa.storage.file_stores import open_file_store
from lukasa.storage.files import FileStore

SESSION_VARIABLES = ("LUKASA_SESSION_ID", "VOXSIGIL_SESSION_ID")
"""Where the id of the session to go on with may be said."""

_MIN_CHECKED = 3
"""So many of the newest checkpoints are proved whenever a session is recovered."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a list shows it."""

    id: str
    scope: str
    agent_id: str
    status: str
    number: int
    at: str


@dataclass(frozen=True, slots=True)
class CheckpointVerification:
    """A checkpoint file and what is wrong with it, if anything is."""

    entry: CheckpointFileInfo
    fault: str | None


class Sessions:
    """Sessions that survive crashes and damage.

    ``blobs`` keeps their files; it is made when it is first needed. ``network`` is who to compare with after a crash.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: IdMaker,
        create_blobs: Callable[[], FileStore],
        network: Network | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._create_blobs = create_blobs
        self._blobs: FileStore | None = None
        self._open_sessions: list[Session] = []
        self.network = network

    # Starting and ending

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
        """Goes on with a session, recovering it as needed, or begins a new one.

        Without an id, the environment is asked (``LUKASA_SESSION_ID``, ``VOXSIGIL_SESSION_ID``); if it says nothing, a
        new session begins. How the session was found is in ``Session.recovery``. ``backup`` is a folder or a bucket to
        back it up to, when it is closed and, while it runs, every two hours.
        """
        named = session_id or next((os.environ[name] for name in SESSION_VARIABLES if os.environ.get(name)), None)
        send = None if backup is None else lambda named: self.backup(named, backup, secret=secret, scope=scope)
        habits = SessionOptions(
            significance or Significance(), retention or Retention(), budget or Budget(), send, backup_every
        )
        session = None if named is None else self._resume_session(named, scope, habits)
        if session is None:
            session = self._create_session(named or self._new_session_id(), scope, habits, agent_type)
        self._open_sessions = [*(known for known in self._open_sessions if not known.closed), session]
        return session

    def _create_session(
        self, session_id: str, scope: str | None, options: SessionOptions, agent_type: str | None
    ) -> Session:
        session = self._new_session(session_id, scope or self._home_scope(), options)
        state = session._position.state
        if agent_type:
            state["metadata"]["agent_type"] = agent_type
        outcome = session._save_checkpoint(state, 0, session._records.event_draft("started", self._clock.now()))
        if isinstance(outcome, Conflict):  # somebody else began it at the same moment
            resumed = self._resume_session(session_id, scope, options)
            if resumed is not None:
                return resumed
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session cannot be started: {outcome.reason}")
        session.recovery = RecoveryReport(session_id, "new", session.state(), number=session.number)
        return session

    def _new_session(self, session_id: str, scope: str, options: SessionOptions) -> Session:
        """A session of which nothing is kept yet."""
        agent = self._journal.author or "agent"
        state = fresh_state(session_id, agent, self._clock.now())
        book, folder = self._records_and_files(session_id, scope)
        return Session(book, folder, self._clock, self.network, SessionPosition(state, 0, 0, 0, state, 0), options)

    def _resume_session(self, session_id: str, scope: str | None, options: SessionOptions) -> Session | None:
        session = self._recover_session(session_id, scope, options)
        if session is None:
            return None
        now, standing = self._clock.now(), session._position
        agent = standing.state["metadata"]["agent_id"]
        session._records.append(
            session._records.session_draft(
                agent, "open", now, number=standing.checkpoint_number, upto=standing.upto, expected=None
            ),
            session._records.event_draft("resumed", now, number=standing.checkpoint_number),
        )
        try:
            session._files.append_delta_lines(standing.checkpoint_number, [{"opened": to_iso(now)}])
        except (OSError, LukasaError) as error:
            session.trouble = error
        return session

    def close(self) -> None:
        """Closes every session that was started here and is still open."""
        for session in list(self._open_sessions):
            session.close()

    # Recovering

    def recover(self, session_id: str, *, scope: str | None = None, network: Network | None = None) -> RecoveryReport:
        """Brings a session back to the newest state that can be proved, and tells how. Doing it twice changes nothing.

        Raises ``InvalidInput`` when neither the log nor the files know anything of the session.
        """
        session = self._recover_session(session_id, scope, SessionOptions(), network)
        if session is None:
            raise InvalidInput(f"Nothing is known of the session {session_id[:80]!r}.", hint="Check its id.")
        assert session.recovery is not None
        return session.recovery

    def _recover_session(
        self, session_id: str, scope: str | None, options: SessionOptions, network: Network | None = None
    ) -> Session | None:
        scope = scope or self._find_scope(session_id)
        book, folder = self._records_and_files(session_id, scope)
        evidence, highest = self._gather_evidence(book, folder)
        found = recover_state(evidence, book.was_withdrawn)
        if found is None:
            if not evidence.damaged and evidence.log_status is None:
                return None
            return self._rebuild_session(book, folder, options, evidence, highest, network)
        if found.mode == "normal" and found.source == "both" and not evidence.damaged:
            session = self._session_from(book, folder, options, found, highest, network)
            session.recovery = self._make_report(session_id, found)
            return session
        return self._repair_session(book, folder, options, found, evidence, highest, network)

    def _gather_evidence(self, records: SessionRecords, files: CheckpointFiles) -> tuple[RecoveryEvidence, int]:
        filed, damaged = files.find_newest_valid(_MIN_CHECKED)
        logged, itself = records.find_newest_valid(), records.session_record()
        least = max((checkpoint.upto for checkpoint in (filed, logged) if checkpoint is not None), default=0)
        noted, reopened = _read_file_deltas(files, filed)
        known = itself.body["upto"] if itself is not None else 0
        evidence = RecoveryEvidence(
            filed,
            damaged,
            logged,
            None if itself is None else itself.body["status"],
            {delta.number: delta for delta in records.read_deltas(least)},
            {number: delta for number, delta in noted.items() if number > least},
            reopened,
            known,
        )
        numbers = [checkpoint.number for checkpoint in (filed, logged) if checkpoint is not None]
        return evidence, max(files.highest_number(), *numbers, itself.body["number"] if itself is not None else 0)

    def _repair_session(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        options: SessionOptions,
        recovered: RecoveredState,
        evidence: RecoveryEvidence,
        highest_number: int,
        network: Network | None,
    ) -> Session:
        session = self._session_from(records, files, options, recovered, highest_number, network)
        damaged, incidents = self._rename_damaged(records, files, evidence.damaged, recovered.lost)
        if recovered.source != "both" or recovered.lost or evidence.has_newer_damage:
            self._save_recovered(
                session, recovered.highest_delta, number=highest_number + 1, clean=recovered.mode == "normal"
            )
        report = self._make_report(records.session, recovered)
        if recovered.mode != "normal":
            session.mark_recovering()
            verdicts, flagged, answered = session._verify_predictions(
                is_complete=not recovered.lost and (recovered.is_complete or not evidence.has_newer_damage)
            )
            report = replace(
                report,
                conflicts=tuple(verdict.conflict for verdict in verdicts if verdict.conflict is not None),
                rebuilt=tuple(verdict.prediction_id for verdict in verdicts if verdict.action == "add"),
                flagged=flagged,
                network=answered,
            )
        session.recovery = replace(
            report, state=session.state(), number=session.number, damaged=damaged, incidents=incidents
        )
        self._log_recovery(session)
        return session

    def _rebuild_session(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        options: SessionOptions,
        evidence: RecoveryEvidence,
        highest_number: int,
        network: Network | None,
    ) -> Session:
        """A session of which no checkpoint is left: begun anew, filled with what the network knows."""
        session = self._new_session(records.session, records.scope, options)
        if network is not None:
            session._network = network
        lost = tuple(sorted({*range(1, evidence.highest_known_delta + 1), *evidence.log_deltas}))
        damaged, incidents = self._rename_damaged(records, files, evidence.damaged, lost, "no valid checkpoint is left")
        upto = max((evidence.highest_known_delta, *evidence.log_deltas), default=0)
        newest = records.checkpoint_record()
        session._position.checkpoint_version = 0 if newest is None else newest.version
        self._save_recovered(session, upto, number=highest_number + 1)
        verdicts, flagged, answered = session._verify_predictions(is_complete=False)
        rebuilt = tuple(verdict.prediction_id for verdict in verdicts if verdict.action == "add")
        session.recovery = RecoveryReport(
            records.session, "corruption", session.state(), "nothing", session.number, lost=lost, sure=False,
            damaged=damaged, incidents=incidents, rebuilt=rebuilt, flagged=flagged, network=answered,
        )  # fmt: skip
        self._log_recovery(session)
        return session

    def _load_unrepaired(self, session_id: str, scope: str | None, options: SessionOptions) -> Session | None:
        """A session as the evidence gives it, with nothing mended; ``None`` when nothing is known of it."""
        book, folder = self._records_and_files(session_id, scope or self._find_scope(session_id))
        evidence, highest = self._gather_evidence(book, folder)
        found = recover_state(evidence, book.was_withdrawn)
        if found is not None:
            session = self._session_from(book, folder, options, found, highest, None)
            session._position.upto = found.highest_delta
            return session
        if evidence.log_status is None and not highest:
            return None
        session, newest = self._new_session(session_id, book.scope, options), book.checkpoint_record()
        session._position.upto = max((evidence.highest_known_delta, *evidence.log_deltas), default=0)
        session._position.checkpoint_number, session._position.checkpoint_version = (
            highest,
            0 if newest is None else newest.version,
        )
        return session

    def _session_from(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        options: SessionOptions,
        recovered: RecoveredState,
        highest_number: int,
        network: Network | None,
    ) -> Session:
        newest = records.checkpoint_record()
        version = 0 if newest is None else newest.version
        standing = SessionPosition(
            recovered.state, recovered.upto, highest_number, version, recovered.base.state, recovered.base.upto
        )
        return Session(records, files, self._clock, network or self.network, standing, options)

    @staticmethod
    def _save_recovered(session: Session, upto: int, *, number: int, clean: bool = False) -> None:
        """A checkpoint that both witnesses have, so that the next recovery starts from firm ground."""
        outcome = session._save_checkpoint(session._position.state, upto, number=number, clean=clean)
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session {session.id[:80]!r} could not be recovered: {outcome.reason}")

    def _rename_damaged(
        self,
        records: SessionRecords,
        files: CheckpointFiles,
        damaged: Sequence[DamagedCheckpoint],
        lost: Sequence[int],
        why: str = "",
    ) -> tuple[tuple[DamagedCheckpoint, ...], tuple[str, ...]]:
        """Moves damaged files out of the way, and writes down the loss."""
        moved = tuple(files.rename_damaged(damage) for damage in damaged)
        if not moved and not lost:
            return (), ()
        reason = why or ("changes are missing" if lost else "a checkpoint is damaged")
        outcome = records.append(records.incident_draft(self._clock.now(), damaged=moved, lost=lost, why=reason))
        return moved, tuple(record.id for record in outcome.records) if isinstance(outcome, Accepted) else ()

    @staticmethod
    def _make_report(session_id: str, recovered: RecoveredState) -> RecoveryReport:
        whose = {"both": "files and log", "files": "files", "log": "log"}[recovered.source]
        used = f"checkpoint {recovered.base.number} of {whose}"
        return RecoveryReport(
            session_id,
            recovered.mode,
            recovered.state,
            used,
            recovered.base.number,
            recovered.replayed,
            recovered.lost,
            recovered.is_complete,
        )

    def _log_recovery(self, session: Session) -> None:
        report = session.recovery
        assert report is not None
        facts = {"mode": report.mode, "used": report.used, "replayed": report.replayed, "lost": list(report.lost)}
        facts |= {"conflicts": list(report.conflicts), "flagged": dict(report.flagged)}
        session._records.append(session._records.event_draft("recovered", self._clock.now(), **facts))

    # The document's functions

    def save_checkpoint(
        self,
        agent_state: Mapping[str, Any],
        session_id: str,
        checkpoint_number: int | None = None,
        *,
        scope: str | None = None,
        retention: Retention | None = None,
    ) -> Outcome:
        """Saves a whole state as the next checkpoint of a session, which is begun if there is none.

        A number that is not above the newest one's is an older write that comes late: ``Conflict``.
        """
        if not hasattr(agent_state, "items"):
            return Refused("bad_state", "A state is a JSON object with eight sections.")
        habits = SessionOptions(retention=retention or Retention())
        session = self._load_unrepaired(session_id, scope, habits) or self._new_session(
            session_id, scope or self._home_scope(), habits
        )
        standing = session._position
        state = fill_missing_sections(
            agent_state, session_id, standing.state["metadata"]["agent_id"], self._clock.now()
        )
        if (fault := find_state_fault(state)) is not None:
            return Refused("bad_state", fault)
        if checkpoint_number is not None and checkpoint_number <= standing.checkpoint_number:
            key = Key(session._records.scope, "checkpoint", session_id)
            return Conflict(key, checkpoint_number, standing.checkpoint_number)
        upto = standing.upto + 1
        replaced = session._records.delta_draft(Delta(upto, "", None))
        return session._save_checkpoint(state, upto, replaced, clean=True, number=checkpoint_number)

    def load_latest_checkpoint(self, session_id: str, *, scope: str | None = None) -> SessionState | None:
        """The state in the newest checkpoint that proves itself; ``None`` when there is none.

        Changes since are not in it: ``state`` has them.
        """
        checkpoint = self.latest(session_id, scope=scope)
        return None if checkpoint is None else checkpoint.state

    def compress_old_checkpoints(
        self, session_id: str, age_hours: float = 24, *, keep: int = 10, compressed: int = 100, scope: str | None = None
    ) -> RetentionResult:
        """Compresses checkpoints that are old or many, and drops compressed ones beyond a number."""
        _, folder = self._records_and_files(session_id, scope or self._find_scope(session_id))
        return folder.apply_retention(self._clock.now(), Retention(keep, compressed, timedelta(hours=age_hours)))

    # Backups

    def backup(
        self,
        session_id: str,
        target: str | os.PathLike[str],
        *,
        secret: str = "",
        keep: int = DEFAULT_KEEP,
        alone: bool = False,
        scope: str | None = None,
    ) -> Manifest:
        """Backs up a session's files to a folder or a bucket; the archive was read back and proved when this returns."""
        folder = self._records_and_files(session_id, scope or self._find_scope(session_id))[1]
        archives = Archives(
            open_file_store(target), session_backup.session_backup_name(folder), self._clock, self._new_id, alone=alone
        )
        return session_backup.back_up_files(folder, self.blobs, archives, secret=secret, keep=keep)

    def restore(
        self,
        session_id: str,
        source: str | os.PathLike[str],
        *,
        number: int | None = None,
        secret: str = "",
        scope: str | None = None,
    ) -> RecoveryReport:
        """Brings a session's files back from a backup, and recovers it from them."""
        scope = scope or self._find_scope(session_id)
        folder = self._records_and_files(session_id, scope)[1]
        archives = Archives(
            open_file_store(source), session_backup.session_backup_name(folder), self._clock, self._new_id
        )
        session_backup.restore_files(folder, self.blobs, archives, number=number, secret=secret)
        return self.recover(session_id, scope=scope)

    # Looking

    def state(self, session_id: str, *, scope: str | None = None) -> SessionState | None:
        """A session's state as it is now, changes since the last checkpoint included; nothing is touched."""
        book, folder = self._records_and_files(session_id, scope or self._find_scope(session_id))
        found = recover_state(self._gather_evidence(book, folder)[0], book.was_withdrawn)
        return None if found is None else found.state

    def latest(self, session_id: str, *, scope: str | None = None) -> Checkpoint | None:
        """The newest checkpoint that proves itself, from the files or from the log."""
        book, folder = self._records_and_files(session_id, scope or self._find_scope(session_id))
        filed, logged = folder.find_newest_valid()[0], book.find_newest_valid()
        both = [checkpoint for checkpoint in (filed, logged) if checkpoint is not None]
        return max(both, key=lambda checkpoint: (checkpoint.upto, checkpoint.number), default=None)

    def find(self) -> list[SessionInfo]:
        """The sessions that the caller may see, the one that was touched last first."""
        records = self._journal.read(Query(kinds=(SESSION,), newest_first=True))
        return [
            SessionInfo(
                record.id, record.scope, record.body["agent_id"], record.body["status"], record.body["number"],
                record.body["at"],
            )
            for record in records
        ]  # fmt: skip

    def checkpoints(self, session_id: str, *, scope: str | None = None) -> list[CheckpointFileInfo]:
        """The checkpoint files of a session, newest first."""
        return self._records_and_files(session_id, scope or self._find_scope(session_id))[1].list_checkpoints()

    def verify(self, session_id: str, *, scope: str | None = None) -> list[CheckpointVerification]:
        """Proves every checkpoint file of a session, newest first. Nothing is touched."""
        folder = self._records_and_files(session_id, scope or self._find_scope(session_id))[1]
        checked = []
        for entry in folder.list_checkpoints():
            try:
                folder.load(entry)
                checked.append(CheckpointVerification(entry, None))
            except InvalidInput as error:
                checked.append(CheckpointVerification(entry, error.message))
        return checked

    def prune(self, session_id: str, budget: Budget | None = None, *, scope: str | None = None) -> PruningPlan:
        """Brings a session that nobody has open within its budget; what leaves its state is archived."""
        session = self._load_unrepaired(session_id, scope, SessionOptions(budget=budget or Budget()))
        if session is None:
            raise InvalidInput(f"Nothing is known of the session {session_id[:80]!r}.", hint="Check its id.")
        plan = session.prune()
        if plan.changes:
            session._save_checkpoint(session._position.state, session._position.upto, clean=True)
        return plan

    def archive(self, session_id: str, *, scope: str | None = None) -> list[Mapping[str, Any]]:
        """What was taken out of a session's state, oldest first."""
        return self._record_bodies(session_id, scope, ARCHIVE)

    def events(self, session_id: str, *, scope: str | None = None) -> list[Mapping[str, Any]]:
        """What happened to a session, oldest first."""
        return self._record_bodies(session_id, scope, EVENT)

    def incidents(self, session_id: str, *, scope: str | None = None) -> list[Mapping[str, Any]]:
        """What a session has lost or had damaged, oldest first."""
        return self._record_bodies(session_id, scope, INCIDENT)

    def _record_bodies(self, session_id: str, scope: str | None, kind: str) -> list[Mapping[str, Any]]:
        book, _ = self._records_and_files(session_id, scope or self._find_scope(session_id))
        return [record.body for record in book.read_records(kind)]

    def erase(self, session_id: str, *, scope: str | None = None, reason: str = "") -> int:
        """Removes a session for good: its records, every file, whatever was derived; returns how many files went."""
        book, folder = self._records_and_files(session_id, scope or self._find_scope(session_id))
        self._journal.erase(book.key, reason=reason)
        return folder.remove()

    def erase_files(self, *keys: Key, subject: str | None = None) -> int:
        """Removes the files of sessions that were erased from the log, and every file that names a subject.

        For the owner of the store; returns how many files went.
        """
        if not self._journal.reach.unlimited:
            raise NotAllowed("Only the owner of the store may erase from it.")
        folders = [self._records_and_files(key.id, key.scope)[1] for key in keys if key.kind == SESSION]
        removed = sum(folder.remove() for folder in folders)
        if subject:
            removed += sum(
                remove_mentions(self.blobs, f"sessions/{name}", subject) for name in self.blobs.list_folders("sessions")
            )
        return removed

    # Where things are

    @property
    def blobs(self) -> FileStore:
        """What keeps the files."""
        if self._blobs is None:
            self._blobs = self._create_blobs()
        return self._blobs

    def folder(self, session_id: str, *, scope: str | None = None) -> str:
        """The folder of a session's files, within what keeps them."""
        return self._records_and_files(session_id, scope or self._find_scope(session_id))[1].path

    def _records_and_files(self, session_id: str, scope: str) -> tuple[SessionRecords, CheckpointFiles]:
        if session_id.__class__ is not str or not 0 < len(session_id) <= 200 or not session_id.isprintable():
            raise InvalidInput("The id of a session is plain text of 1 to 200 characters.")
        if not self._journal.reach.reads(scope):
            raise InvalidInput(f"The scope {scope[:80]!r} is outside the caller's reach.")
        return SessionRecords(self._journal, session_id, scope), CheckpointFiles(self.blobs, session_id, scope)

    def _home_scope(self) -> str:
        """Where the caller's sessions stand: in its own scope, or in the shared one."""
        reach, author = self._journal.reach, self._journal.author
        names = (author, SHARED, *sorted(reach.writable or ()))
        return next((name for name in names if name and reach.reads(name) and reach.writes(name)), SHARED)

    def _find_scope(self, session_id: str) -> str:
        """The scope that has the session; the caller's own where none has."""
        if session_id.__class__ is not str or not 0 < len(session_id) <= 200:
            return SHARED  # refused by whoever looks there
        own = self._home_scope()
        scopes = [own, *(row.scope for row in self._journal.tally() if row.kind == SESSION and row.scope != own)]
        found = [scope for scope in scopes if self._journal.get(Key(scope, SESSION, session_id)) is not None]
        if len(found) > 1 and found[0] != own:
            raise InvalidInput(
                f"The session {session_id[:80]!r} stands in several scopes: {', '.join(found)}.", hint="Say which one."
            )
        return found[0] if found else own

    def _new_session_id(self) -> str:
        return f"session-{self._clock.now():%Y%m%d-%H%M%S}-{self._new_id()[12:20]}"


def _read_file_deltas(files: CheckpointFiles, checkpoint: Checkpoint | None) -> tuple[dict[int, Delta], bool]:
    """The changes that the files tell of, and whether they tell that the session was opened since its checkpoint."""
    deltas, reopened = {}, False
    for line in files.read_delta_lines():
        if "opened" in line:
            reopened |= checkpoint is None or from_iso(line["opened"]) >= checkpoint.saved_at
        elif isinstance(line.get("n"), int) and "changes" in line:
            deltas[line["n"]] = Delta(line["n"], line.get("at", ""), line["changes"])
    return deltas, reopened
