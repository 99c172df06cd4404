"""The room of sessions: starting, saving, recovering and looking, for one caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from lukasa.archive import Archives, Manifest
from lukasa.archive.room import KEEP
from lukasa.blob import Blobs
from lukasa.blobs import open_blobs
from lukasa.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.engine import Query
from lukasa.errors import InvalidInput, LukasaError, NotAllowed
from lukasa.journal import Journal
from lukasa.network import Network
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Key
from lukasa.scope import SHARED
from lukasa.sessions import keeping
from lukasa.sessions.book import ARCHIVE, EVENT, INCIDENT, SESSION, Book
from lukasa.sessions.budget import Budget, Pruning
from lukasa.sessions.files import Checkpoint, Damage, Delta, Entry, Folder, Retention, Tidied, remove_mentions
from lukasa.sessions.recovery import Evidence, Found, Recovery, judge
from lukasa.sessions.session import BACKUP_EVERY, Habits, Session, Standing
from lukasa.sessions.significance import Significance
from lukasa.sessions.state import State, completed, fresh_state, objection

SESSION_VARIABLES = ("LUKASA_SESSION_ID", "VOXSIGIL_SESSION_ID")
"""Where the id of the session to go on with may be said."""

_LOOK = 3
"""So many of the newest checkpoints are proved whenever a session is recovered."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as a list shows it."""

    id: str
    scope: str
    agent_id: str
    status: str
    number: int
    at: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A checkpoint file and what is wrong with it, if anything is."""

    entry: Entry
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
        blobs: Callable[[], Blobs],
        network: Network | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._make_blobs = blobs
        self._made: Blobs | None = None
        self._open: list[Session] = []
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
        habits = Habits(
            significance or Significance(), retention or Retention(), budget or Budget(), send, backup_every
        )
        session = None if named is None else self._resume(named, scope, habits)
        if session is None:
            session = self._begin(named or self._new_session_id(), scope, habits, agent_type)
        self._open = [*(known for known in self._open if not known.closed), session]
        return session

    def _begin(self, session_id: str, scope: str | None, habits: Habits, agent_type: str | None) -> Session:
        session = self._unsaved(session_id, scope or self._own_scope(), habits)
        state = session._standing.state
        if agent_type:
            state["metadata"]["agent_type"] = agent_type
        outcome = session._save(state, 0, session._book.event("started", self._clock.now()))
        if isinstance(outcome, Conflict):  # somebody else began it at the same moment
            resumed = self._resume(session_id, scope, habits)
            if resumed is not None:
                return resumed
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session cannot be started: {outcome.reason}")
        session.recovery = Recovery(session_id, "new", session.state(), number=session.number)
        return session

    def _unsaved(self, session_id: str, scope: str, habits: Habits) -> Session:
        """A session of which nothing is kept yet."""
        agent = self._journal.author or "agent"
        state = fresh_state(session_id, agent, self._clock.now())
        book, folder = self._parts(session_id, scope)
        return Session(book, folder, self._clock, self.network, Standing(state, 0, 0, 0, state, 0), habits)

    def _resume(self, session_id: str, scope: str | None, habits: Habits) -> Session | None:
        session = self._recovered(session_id, scope, habits)
        if session is None:
            return None
        now, standing = self._clock.now(), session._standing
        agent = standing.state["metadata"]["agent_id"]
        session._book.append(
            session._book.opened(agent, "open", now, number=standing.number, upto=standing.upto, expected=None),
            session._book.event("resumed", now, number=standing.number),
        )
        try:
            session._folder.note(standing.number, [{"opened": to_iso(now)}])
        except (OSError, LukasaError) as error:
            session.trouble = error
        return session

    def close(self) -> None:
        """Closes every session that was started here and is still open."""
        for session in list(self._open):
            session.close()

    # Recovering

    def recover(self, session_id: str, *, scope: str | None = None, network: Network | None = None) -> Recovery:
        """Brings a session back to the newest state that can be proved, and tells how. Doing it twice changes nothing.

        Raises ``InvalidInput`` when neither the log nor the files know anything of the session.
        """
        session = self._recovered(session_id, scope, Habits(), network)
        if session is None:
            raise InvalidInput(f"Nothing is known of the session {session_id[:80]!r}.", hint="Check its id.")
        assert session.recovery is not None
        return session.recovery

    def _recovered(
        self, session_id: str, scope: str | None, habits: Habits, network: Network | None = None
    ) -> Session | None:
        scope = scope or self._scope_of(session_id)
        book, folder = self._parts(session_id, scope)
        evidence, highest = self._evidence(book, folder)
        found = judge(evidence, book.taken_back)
        if found is None:
            if not evidence.damaged and evidence.status is None:
                return None
            return self._rebuilt(book, folder, habits, evidence, highest, network)
        if found.mode == "normal" and found.source == "both" and not evidence.damaged:
            session = self._standing_on(book, folder, habits, found, highest, network)
            session.recovery = self._report(session_id, found)
            return session
        return self._mended(book, folder, habits, found, evidence, highest, network)

    def _evidence(self, book: Book, folder: Folder) -> tuple[Evidence, int]:
        filed, damaged = folder.newest_valid(_LOOK)
        logged, itself = book.newest_valid(), book.itself()
        least = max((checkpoint.upto for checkpoint in (filed, logged) if checkpoint is not None), default=0)
        noted, reopened = _noted(folder, filed)
        known = itself.body["upto"] if itself is not None else 0
        evidence = Evidence(
            filed,
            damaged,
            logged,
            None if itself is None else itself.body["status"],
            {delta.number: delta for delta in book.deltas(least)},
            {number: delta for number, delta in noted.items() if number > least},
            reopened,
            known,
        )
        numbers = [checkpoint.number for checkpoint in (filed, logged) if checkpoint is not None]
        return evidence, max(folder.highest(), *numbers, itself.body["number"] if itself is not None else 0)

    def _mended(
        self,
        book: Book,
        folder: Folder,
        habits: Habits,
        found: Found,
        evidence: Evidence,
        highest: int,
        network: Network | None,
    ) -> Session:
        session = self._standing_on(book, folder, habits, found, highest, network)
        damaged, incidents = self._set_aside(book, folder, evidence.damaged, found.lost)
        if found.source != "both" or found.lost or evidence.newer_damaged:
            self._settle(session, found.highest, number=highest + 1, clean=found.mode == "normal")
        report = self._report(book.session, found)
        if found.mode != "normal":
            session.mark_recovering()
            verdicts, flagged, answered = session._verify(
                sure=not found.lost and (found.sure or not evidence.newer_damaged)
            )
            report = replace(
                report,
                conflicts=tuple(verdict.conflict for verdict in verdicts if verdict.conflict is not None),
                rebuilt=tuple(verdict.prediction_id for verdict in verdicts if verdict.deed == "add"),
                flagged=flagged,
                network=answered,
            )
        session.recovery = replace(
            report, state=session.state(), number=session.number, damaged=damaged, incidents=incidents
        )
        self._write_down(session)
        return session

    def _rebuilt(
        self, book: Book, folder: Folder, habits: Habits, evidence: Evidence, highest: int, network: Network | None
    ) -> Session:
        """A session of which no checkpoint is left: begun anew, filled with what the network knows."""
        session = self._unsaved(book.session, book.scope, habits)
        if network is not None:
            session._network = network
        lost = tuple(sorted({*range(1, evidence.known_upto + 1), *evidence.in_log}))
        damaged, incidents = self._set_aside(book, folder, evidence.damaged, lost, "no valid checkpoint is left")
        upto = max((evidence.known_upto, *evidence.in_log), default=0)
        newest = book.checkpoint()
        session._standing.version = 0 if newest is None else newest.version
        self._settle(session, upto, number=highest + 1)
        verdicts, flagged, answered = session._verify(sure=False)
        rebuilt = tuple(verdict.prediction_id for verdict in verdicts if verdict.deed == "add")
        session.recovery = Recovery(
            book.session, "corruption", session.state(), "nothing", session.number, lost=lost, sure=False,
            damaged=damaged, incidents=incidents, rebuilt=rebuilt, flagged=flagged, network=answered,
        )  # fmt: skip
        self._write_down(session)
        return session

    def _as_it_is(self, session_id: str, scope: str | None, habits: Habits) -> Session | None:
        """A session as the evidence gives it, with nothing mended; ``None`` when nothing is known of it."""
        book, folder = self._parts(session_id, scope or self._scope_of(session_id))
        evidence, highest = self._evidence(book, folder)
        found = judge(evidence, book.taken_back)
        if found is not None:
            session = self._standing_on(book, folder, habits, found, highest, None)
            session._standing.upto = found.highest
            return session
        if evidence.status is None and not highest:
            return None
        session, newest = self._unsaved(session_id, book.scope, habits), book.checkpoint()
        session._standing.upto = max((evidence.known_upto, *evidence.in_log), default=0)
        session._standing.number, session._standing.version = highest, 0 if newest is None else newest.version
        return session

    def _standing_on(
        self, book: Book, folder: Folder, habits: Habits, found: Found, highest: int, network: Network | None
    ) -> Session:
        newest = book.checkpoint()
        version = 0 if newest is None else newest.version
        standing = Standing(found.state, found.upto, highest, version, found.base.state, found.base.upto)
        return Session(book, folder, self._clock, network or self.network, standing, habits)

    @staticmethod
    def _settle(session: Session, upto: int, *, number: int, clean: bool = False) -> None:
        """A checkpoint that both witnesses have, so that the next recovery starts from firm ground."""
        outcome = session._save(session._standing.state, upto, number=number, clean=clean)
        if not isinstance(outcome, Accepted):
            raise InvalidInput(f"The session {session.id[:80]!r} could not be recovered: {outcome.reason}")

    def _set_aside(
        self, book: Book, folder: Folder, damaged: Sequence[Damage], lost: Sequence[int], why: str = ""
    ) -> tuple[tuple[Damage, ...], tuple[str, ...]]:
        """Moves damaged files out of the way, and writes down the loss."""
        moved = tuple(folder.set_aside(damage) for damage in damaged)
        if not moved and not lost:
            return (), ()
        reason = why or ("changes are missing" if lost else "a checkpoint is damaged")
        outcome = book.append(book.incident(self._clock.now(), damaged=moved, lost=lost, why=reason))
        return moved, tuple(record.id for record in outcome.records) if isinstance(outcome, Accepted) else ()

    @staticmethod
    def _report(session_id: str, found: Found) -> Recovery:
        whose = {"both": "files and log", "files": "files", "log": "log"}[found.source]
        used = f"checkpoint {found.base.number} of {whose}"
        return Recovery(
            session_id, found.mode, found.state, used, found.base.number, found.replayed, found.lost, found.sure
        )

    def _write_down(self, session: Session) -> None:
        report = session.recovery
        assert report is not None
        facts = {"mode": report.mode, "used": report.used, "replayed": report.replayed, "lost": list(report.lost)}
        facts |= {"conflicts": list(report.conflicts), "flagged": dict(report.flagged)}
        session._book.append(session._book.event("recovered", self._clock.now(), **facts))

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
        habits = Habits(retention=retention or Retention())
        session = self._as_it_is(session_id, scope, habits) or self._unsaved(
            session_id, scope or self._own_scope(), habits
        )
        standing = session._standing
        state = completed(agent_state, session_id, standing.state["metadata"]["agent_id"], self._clock.now())
        if (fault := objection(state)) is not None:
            return Refused("bad_state", fault)
        if checkpoint_number is not None and checkpoint_number <= standing.number:
            key = Key(session._book.scope, "checkpoint", session_id)
            return Conflict(key, checkpoint_number, standing.number)
        upto = standing.upto + 1
        replaced = session._book.changed(Delta(upto, "", None))
        return session._save(state, upto, replaced, clean=True, number=checkpoint_number)

    def load_latest_checkpoint(self, session_id: str, *, scope: str | None = None) -> State | None:
        """The state in the newest checkpoint that proves itself; ``None`` when there is none.

        Changes since are not in it: ``state`` has them.
        """
        checkpoint = self.latest(session_id, scope=scope)
        return None if checkpoint is None else checkpoint.state

    def compress_old_checkpoints(
        self, session_id: str, age_hours: float = 24, *, keep: int = 10, compressed: int = 100, scope: str | None = None
    ) -> Tidied:
        """Compresses checkpoints that are old or many, and drops compressed ones beyond a number."""
        _, folder = self._parts(session_id, scope or self._scope_of(session_id))
        return folder.tidy(self._clock.now(), Retention(keep, compressed, timedelta(hours=age_hours)))

    # Backups

    def backup(
        self,
        session_id: str,
        target: str | os.PathLike[str],
        *,
        secret: str = "",
        keep: int = KEEP,
        alone: bool = False,
        scope: str | None = None,
    ) -> Manifest:
        """Backs up a session's files to a folder or a bucket; the archive was read back and proved when this returns."""
        folder = self._parts(session_id, scope or self._scope_of(session_id))[1]
        archives = Archives(open_blobs(target), keeping.name_of(folder), self._clock, self._new_id, alone=alone)
        return keeping.send(folder, self.blobs, archives, secret=secret, keep=keep)

    def restore(
        self,
        session_id: str,
        source: str | os.PathLike[str],
        *,
        number: int | None = None,
        secret: str = "",
        scope: str | None = None,
    ) -> Recovery:
        """Brings a session's files back from a backup, and recovers it from them."""
        scope = scope or self._scope_of(session_id)
        folder = self._parts(session_id, scope)[1]
        archives = Archives(open_blobs(source), keeping.name_of(folder), self._clock, self._new_id)
        keeping.bring_back(folder, self.blobs, archives, number=number, secret=secret)
        return self.recover(session_id, scope=scope)

    # Looking

    def state(self, session_id: str, *, scope: str | None = None) -> State | None:
        """A session's state as it is now, changes since the last checkpoint included; nothing is touched."""
        book, folder = self._parts(session_id, scope or self._scope_of(session_id))
        found = judge(self._evidence(book, folder)[0], book.taken_back)
        return None if found is None else found.state

    def latest(self, session_id: str, *, scope: str | None = None) -> Checkpoint | None:
        """The newest checkpoint that proves itself, from the files or from the log."""
        book, folder = self._parts(session_id, scope or self._scope_of(session_id))
        filed, logged = folder.newest_valid()[0], book.newest_valid()
        both = [checkpoint for checkpoint in (filed, logged) if checkpoint is not None]
        return max(both, key=lambda checkpoint: (checkpoint.upto, checkpoint.number), default=None)

    def find(self) -> list[Listed]:
        """The sessions that the caller may see, the one that was touched last first."""
        records = self._journal.read(Query(kinds=(SESSION,), newest_first=True))
        return [
            Listed(
                record.id, record.scope, record.body["agent_id"], record.body["status"], record.body["number"],
                record.body["at"],
            )
            for record in records
        ]  # fmt: skip

    def checkpoints(self, session_id: str, *, scope: str | None = None) -> list[Entry]:
        """The checkpoint files of a session, newest first."""
        return self._parts(session_id, scope or self._scope_of(session_id))[1].entries()

    def verify(self, session_id: str, *, scope: str | None = None) -> list[Checked]:
        """Proves every checkpoint file of a session, newest first. Nothing is touched."""
        folder = self._parts(session_id, scope or self._scope_of(session_id))[1]
        checked = []
        for entry in folder.entries():
            try:
                folder.load(entry)
                checked.append(Checked(entry, None))
            except InvalidInput as error:
                checked.append(Checked(entry, error.message))
        return checked

    def prune(self, session_id: str, budget: Budget | None = None, *, scope: str | None = None) -> Pruning:
        """Brings a session that nobody has open within its budget; what leaves its state is archived."""
        session = self._as_it_is(session_id, scope, Habits(budget=budget or Budget()))
        if session is None:
            raise InvalidInput(f"Nothing is known of the session {session_id[:80]!r}.", hint="Check its id.")
        plan = session.prune()
        if plan.changes:
            session._save(session._standing.state, session._standing.upto, clean=True)
        return plan

    def archive(self, session_id: str, *, scope: str | None = None) -> list[Mapping[str, Any]]:
        """What was taken out of a session's state, oldest first."""
        return self._told(session_id, scope, ARCHIVE)

    def events(self, session_id: str, *, scope: str | None = None) -> list[Mapping[str, Any]]:
        """What happened to a session, oldest first."""
        return self._told(session_id, scope, EVENT)

    def incidents(self, session_id: str, *, scope: str | None = None) -> list[Mapping[str, Any]]:
        """What a session has lost or had damaged, oldest first."""
        return self._told(session_id, scope, INCIDENT)

    def _told(self, session_id: str, scope: str | None, kind: str) -> list[Mapping[str, Any]]:
        book, _ = self._parts(session_id, scope or self._scope_of(session_id))
        return [record.body for record in book.of_kind(kind)]

    def erase(self, session_id: str, *, scope: str | None = None, reason: str = "") -> int:
        """Removes a session for good: its records, every file, whatever was derived; returns how many files went."""
        book, folder = self._parts(session_id, scope or self._scope_of(session_id))
        self._journal.erase(book.key, reason=reason)
        return folder.remove()

    def erase_files(self, *keys: Key, subject: str | None = None) -> int:
        """Removes the files of sessions that were erased from the log, and every file that names a subject.

        For the owner of the store; returns how many files went.
        """
        if not self._journal.reach.unlimited:
            raise NotAllowed("Only the owner of the store may erase from it.")
        folders = [self._parts(key.id, key.scope)[1] for key in keys if key.kind == SESSION]
        removed = sum(folder.remove() for folder in folders)
        if subject:
            removed += sum(
                remove_mentions(self.blobs, f"sessions/{name}", subject) for name in self.blobs.folders("sessions")
            )
        return removed

    # Where things are

    @property
    def blobs(self) -> Blobs:
        """What keeps the files."""
        if self._made is None:
            self._made = self._make_blobs()
        return self._made

    def folder(self, session_id: str, *, scope: str | None = None) -> str:
        """The folder of a session's files, within what keeps them."""
        return self._parts(session_id, scope or self._scope_of(session_id))[1].path

    def _parts(self, session_id: str, scope: str) -> tuple[Book, Folder]:
        if session_id.__class__ is not str or not 0 < len(session_id) <= 200 or not session_id.isprintable():
            raise InvalidInput("The id of a session is plain text of 1 to 200 characters.")
        if not self._journal.reach.reads(scope):
            raise InvalidInput(f"The scope {scope[:80]!r} is outside the caller's reach.")
        return Book(self._journal, session_id, scope), Folder(self.blobs, session_id, scope)

    def _own_scope(self) -> str:
        """Where the caller's sessions stand: in its own scope, or in the shared one."""
        reach, author = self._journal.reach, self._journal.author
        names = (author, SHARED, *sorted(reach.writable or ()))
        return next((name for name in names if name and reach.reads(name) and reach.writes(name)), SHARED)

    def _scope_of(self, session_id: str) -> str:
        """The scope that has the session; the caller's own where none has."""
        if session_id.__class__ is not str or not 0 < len(session_id) <= 200:
            return SHARED  # refused by whoever looks there
        own = self._own_scope()
        scopes = [own, *(row.scope for row in self._journal.tally() if row.kind == SESSION and row.scope != own)]
        found = [scope for scope in scopes if self._journal.get(Key(scope, SESSION, session_id)) is not None]
        if len(found) > 1 and found[0] != own:
            raise InvalidInput(
                f"The session {session_id[:80]!r} stands in several scopes: {', '.join(found)}.", hint="Say which one."
            )
        return found[0] if found else own

    def _new_session_id(self) -> str:
        return f"session-{self._clock.now():%Y%m%d-%H%M%S}-{self._new_id()[12:20]}"


def _noted(folder: Folder, filed: Checkpoint | None) -> tuple[dict[int, Delta], bool]:
    """The changes that the files tell of, and whether they tell that the session was opened since its checkpoint."""
    deltas, reopened = {}, False
    for line in folder.noted():
        if "opened" in line:
            reopened |= filed is None or from_iso(line["opened"]) >= filed.saved_at
        elif isinstance(line.get("n"), int) and "changes" in line:
            deltas[line["n"]] = Delta(line["n"], line.get("at", ""), line["changes"])
    return deltas, reopened
