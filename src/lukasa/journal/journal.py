"""The journal: the log for one caller, and the operations on the whole log, for every kind of record.

Undo, quarantine, erasure, imports, verification, repair and compaction are here; reads and writes are in ``log_access``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Time, to_iso, to_utc
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Key, Record, ValidatedDraft, draft_from
from lukasa.core.scope import FULL_REACH, SYSTEM, may_set_rule
from lukasa.errors import InvalidInput, NotAllowed, StoreDamaged
from lukasa.journal.erasure import DeleteFiles, ErasureReceipt, choose_erased, receipt_body
from lukasa.journal.imports import ImportReceipt, import_draft, shorten_digest, validate_entries
from lukasa.journal.log_access import QUARANTINE_QUERY, LogAccess
from lukasa.journal.repair import build_tombstones, is_intact, set_aside_draft
from lukasa.journal.undo import UndoResult, plan_undo, without_reverts
from lukasa.storage.engine import (
    COMPACTION,
    ERASURE,
    IMPORT,
    LOSS,
    QUARANTINE,
    RESERVED_KINDS,
    SET_ASIDE,
    DamagedEntry,
    EraseResult,
    LogCompactionResult,
    Progress,
    Query,
    Reader,
    ReplayResult,
    VerifyReport,
    split_into_chunks,
)
from lukasa.storage.integrity import describe_loss, name_entry

_REPLAY_CHUNK = 1000


@check_arguments
class Journal(LogAccess):
    """The log for one caller: reads, writes, history, undo, quarantine, erasure."""

    _delete_files: DeleteFiles = staticmethod(lambda *_: ())
    """Deletes the files of erased records; see ``with_file_deletion``."""

    def undo(
        self, *, author: str | None = None, since: Time | None = None, label: str | None = None, dry_run: bool = False
    ) -> UndoResult:
        """Revert what an author wrote since a time, or what carries a label, and everything derived from it.

        Each record gets a new version with the content of its newest version that is not undone, or a tombstone if there
        is none. Records that another author has changed since are left alone and reported. The new versions carry a
        label (``UndoResult.label``); undoing that label takes the undo back. With ``dry_run`` nothing is written: the
        result says what would be reverted. Only the owner reverts what others wrote.

        Args:
            author: The author whose writes are reverted.
            since: Only what was written at this time or later.
            label: Revert what carries this label, such as that of an earlier undo.
            dry_run: Change nothing; return what would be done.

        Example:
            memory.as_agent("orion").remember("We deploy on Fridays.")
            memory.journal.undo(author="orion", dry_run=True).reverted
        """
        if author is None and label is None:
            raise InvalidInput("Nothing to undo was named.", hint="Name an author or a label.")
        if not self.reach.unlimited and author not in (None, self.author):
            raise NotAllowed(
                "Only the owner of the store undoes what others wrote.", hint="Undo what you wrote yourself."
            )
        undo_label = f"undo={self._new_id()}"
        result = UndoResult((), ())

        def revert(reader: Reader) -> Sequence[Draft]:
            nonlocal result
            labels = () if label is None else (label,)
            recorded_since = None if since is None else to_utc(since)
            query = Query(author=author, recorded_since=recorded_since, labels=labels, every_version=True)
            is_owner = self.reach.unlimited
            found = (record for record in reader.read(query) if record.scope != SYSTEM)
            written = [record for record in found if is_owner or record.author == self.author]
            if label is None:
                written = without_reverts(reader, written)
            drafts, result = plan_undo(reader, written, undo_label, author=self.author, is_owner=is_owner)
            return drafts

        if dry_run:
            with self.snapshot() as reader:
                revert(reader)
            return replace(result, label="")
        outcome = self._copy(channel="service").append_if(revert)  # it brings back what a service wrote
        if isinstance(outcome, Refused):
            raise NotAllowed(outcome.reason)
        return result

    def quarantine(self, author: str, *, since: Time | None = None, reason: str = "") -> Outcome:
        """Hide what an author wrote (since a time) and everything derived from it, until ``release``.

        Args:
            author: The author to hide.
            since: Only what was written at this time or later.
            reason: Why, in a few words.

        Example:
            memory.as_agent("orion").remember("We deploy on Fridays.")
            memory.journal.quarantine("orion", reason="wrong facts")
        """
        body = {"author": author, "since": None if since is None else to_iso(to_utc(since)), "reason": reason}
        return self._append_system_record(Draft(QUARANTINE, body=body, id=_hash_author(author), scope=SYSTEM))

    def release(self, author: str) -> Outcome:
        """Show everything again that the quarantine of an author hid.

        Args:
            author: The author to show again.

        Example:
            memory.journal.quarantine("orion")
            memory.journal.release("orion")
        """
        if author not in self.quarantined():
            return Refused("not_found", f"{author!r} is not in quarantine.")
        return self._append_system_record(
            Draft(QUARANTINE, body={"author": author, "released": True}, id=_hash_author(author), scope=SYSTEM)
        )

    def quarantined(self) -> dict[str, Record]:
        """Return the quarantined authors, each with the record of its quarantine.

        Example:
            memory.journal.quarantined()
        """
        records = self.read(QUARANTINE_QUERY)
        return {record.body["author"]: record for record in records if not record.body.get("released")}

    def erase(self, *keys: Key, subject: str | None = None, exact: bool = False, reason: str = "") -> ErasureReceipt:
        """Remove records for good: every version, every index entry, their files, and everything derived from them.

        A record of which only later versions were derived from them loses those versions; the one before is current again.
        Copies in conflicts of a sync, in proposals and among damaged entries go too. ``subject`` selects every record that the
        subject wrote, or that has the subject anywhere as whole words; letter case counts only if ``exact``.

        Args:
            *keys: The keys of the records.
            subject: A person or thing: every record that the subject wrote or that names it as whole words.
            exact: Let the case of letters count.
            reason: Why, in a few words.

        Example:
            memory.journal.write("note", "Ben is on leave.")
            memory.journal.erase(subject="Ben", reason="request of 6 January")
        """
        self._require_owner("erase from it")
        if not keys and not subject:
            raise InvalidInput("Nothing to erase was named.", hint="Name a record or a subject.")
        chosen: list[Key | Record] = []
        files: list[str] = []
        receipt_id = self._new_id()
        # All receipts of a store share a salt, so that one hash tells whether a key was erased.
        earlier = next(self.read(Query(kinds=(ERASURE,), scopes=(SYSTEM,), limit=1)), None)
        salt = earlier.body["salt"] if earlier is not None else self._new_id()

        def choose(reader: Reader) -> Sequence[Key | Record]:
            chosen[:] = choose_erased(reader, keys, subject, exact)
            return chosen

        def receipt(erased: EraseResult) -> ValidatedDraft:
            whole = [key for key in chosen if isinstance(key, Key)]
            files.extend(self._delete_files(whole, subject, exact))
            body = receipt_body(chosen, erased, reason=reason, salt=salt, files=len(files))
            draft = Draft(ERASURE, body=body, id=receipt_id, scope=SYSTEM, author=self.author, origin="erasure")
            return self._validate_own(draft)

        erased = self._engine.erase(choose, receipt)
        if not erased.versions:
            files.extend(self._delete_files([key for key in chosen if isinstance(key, Key)], subject, exact))
        id = receipt_id if erased.versions else None
        return ErasureReceipt(
            id, erased.records, erased.versions, erased.by_kind, erased.residue, tuple(files), erased.restored
        )

    def preview_erase(self, *keys: Key, subject: str | None = None, exact: bool = False) -> list[Key]:
        """List the records that ``erase`` would remove whole; ``preview_restore`` names those that lose single versions.

        Args:
            *keys: The keys of the records.
            subject: A person or thing: every record that the subject wrote or that names it as whole words.
            exact: Let the case of letters count.

        Example:
            memory.journal.write("note", "Ben is on leave.")
            memory.journal.preview_erase(subject="Ben")
        """
        with self.snapshot() as reader:
            chosen = choose_erased(reader, keys, subject, exact)
            return [key for key in chosen if isinstance(key, Key) and reader.history(key, hidden=True)]

    def preview_restore(
        self, *keys: Key, subject: str | None = None, exact: bool = False
    ) -> dict[Key, tuple[int, ...]]:
        """Return the records that lose only versions if these are erased, with the numbers of those versions.

        Somebody derived these versions from what is erased; the newest one that is left is current again.

        Args:
            *keys: The keys of the records.
            subject: A person or thing: every record that the subject wrote or that names it as whole words.
            exact: Let the case of letters count.

        Example:
            kept = memory.journal.write("note", "We move to Berlin.").unwrap()
            memory.journal.preview_restore(kept.key)
        """
        with self.snapshot() as reader:
            chosen = choose_erased(reader, keys, subject, exact)
        found: dict[Key, tuple[int, ...]] = {}
        for record in chosen:
            if isinstance(record, Record):
                found[record.key] = (*found.get(record.key, ()), record.version)
        return found

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every log entry against its digest and every index against the log, and name forged rules.

        Args:
            progress: Called with the work done and the total.

        Example:
            assert memory.journal.verify().sound
        """
        self._require_owner("verify it")
        report = self._engine.verify(progress, self._gate.find_body_fault)
        with suppress(StoreDamaged):  # the report says so already
            losses = tuple(describe_loss(loss.body["after"], loss.body["until"]) for loss in self._read_losses())
            aside = sum(row.versions for row in self.tally() if row.kind == SET_ASIDE)
            report = replace(report, findings=report.findings + losses, set_aside=aside)
            if rules := tuple(self._gate.owner_only):
                forged = (rule for rule in self.read(Query(kinds=rules)) if not may_set_rule(rule.author, rule.scope))
                report = replace(report, forged_rules=tuple(forged))
        return report

    def accept_losses(self) -> list[str]:
        """Accept that acknowledged entries were lost at the end of the log, and return the losses.

        ``verify`` does not report them any longer; the records of kind ``loss`` stay.

        Example:
            memory.journal.accept_losses()
        """
        self._require_owner("accept a loss")
        losses = self._read_losses()
        for loss in losses:
            self._append_system_record(draft_from(loss, body={**loss.body, "accepted": True}, author=self.author))
        return [f"positions {loss.body['after'] + 1} to {loss.body['until']}" for loss in losses]

    def _read_losses(self) -> list[Record]:
        query = Query(kinds=(LOSS,), scopes=(SYSTEM,))
        return [loss for loss in self.read(query) if loss.body.get("accepted") is False]

    def set_aside(self) -> list[str]:
        """Take every damaged record out of the log and return their names, as ``verify`` names them.

        Each is kept as a record of kind ``set_aside`` with its bytes. An entry that is intact itself is written again. Where
        a damaged version was the newest, a tombstone takes its place, so that no superseded statement comes back.

        Example:
            memory.journal.set_aside()
        """
        self._require_owner("set records aside")
        find_fault, now = self._gate.find_body_fault, to_iso(self._clock.now())
        damaged = self._engine.find_damaged(find_fault)
        with self._engine.snapshot(self.reach) as reader:
            tombstones = list(build_tombstones(reader, damaged, self._gate, now))
        for result in self._engine.replay(self.reach, tombstones):
            if result.state == "refused":
                raise StoreDamaged(f"A damaged record could not be set aside: {result.reason}.")
        if damaged:
            self._engine.set_aside(find_fault, self._validate_set_aside)
            intact = [(entry.line, entry.digest) for entry in damaged if is_intact(entry, self._gate)]
            list(self._engine.replay(self.reach, intact))
            self._engine.reindex()
        return [name_entry(entry.seq, entry.scope, entry.kind, entry.id, entry.version) for entry in damaged]

    def _validate_set_aside(self, entry: DamagedEntry) -> ValidatedDraft:
        draft = set_aside_draft(entry, self.author)
        validated = self._gate.validate(draft, allow_reserved=True)
        if isinstance(validated, Refused):  # its key is damaged too
            return self._validate_own(draft._replace(links=()))
        return validated

    def _validate_own(self, draft: Draft) -> ValidatedDraft:
        """Validate a record that the store itself writes."""
        validated = self._gate.validate(draft, self._new_id() if not draft.id else "", allow_reserved=True)
        if isinstance(validated, Refused):
            raise InvalidInput(validated.reason)
        return validated

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the whole store to a new file.

        Args:
            target: The file to write; it must not exist.

        Example:
            memory.journal.backup(folder / "copy.db")
        """
        self._require_owner("back it up")
        self.damaged |= self._engine.backup(target)

    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuild every index from the log.

        Args:
            progress: Called with the work done and the total.

        Example:
            memory.journal.reindex()
        """
        self._require_owner("reindex it")
        self._engine.reindex(progress)

    def compact(self, *, before: Time | None = None, progress: Progress | None = None) -> LogCompactionResult:
        """Remove superseded versions for good and free their space. The newest version of a record always stays.

        Args:
            before: Only versions that were superseded before this time.
            progress: Called with the work done and the total.

        Example:
            memory.journal.compact(before=datetime(2026, 1, 1, tzinfo=UTC))
        """
        self._require_owner("compact it")
        done = self._engine.compact(before=None if before is None else to_utc(before), progress=progress)
        if done.versions:
            body = {"versions": done.versions, "before": None if before is None else to_iso(to_utc(before))}
            self._append_system_record(Draft(COMPACTION, body=body, scope=SYSTEM))
        return done

    def put_vectors(
        self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]], *, briefly: bool = False
    ) -> None:
        """Store vectors as (position, chunk, vector) for a model, replacing earlier ones; ``briefly`` hardly waits.

        Args:
            model: The name of the embedder's model.
            vectors: Triples of a position, the number of the chunk, and the vector.
            briefly: Give up soon when another process writes.
        """
        self._require_owner("store vectors")
        self._engine.put_vectors(model, vectors, briefly=briefly)

    def replay(
        self, lines: Iterable[tuple[bytes, bytes]], *, same_log: bool = False, source: str = ""
    ) -> Iterator[ReplayResult]:
        """Append entries of another log unchanged, after the gate has checked them; yield one result per entry.

        An agent brings only entries that it wrote. The owner may bring those of others, and with ``same_log`` (a copy or a
        backup of the whole store) also those with authors that no new record may have. Otherwise a record of kind
        ``import`` says who brought the entries, and from which ``source``.

        Args:
            lines: Pairs of an entry and its digest, as ``export`` writes them.
            same_log: The entries are a copy or a backup of the whole store.
            source: The name of the file or the server that the entries come from.
        """
        barred = None if self.reach.unlimited else self._refuse_in_quarantine()
        receipt = (
            None
            if same_log and self.reach.unlimited
            else lambda digests: self._validate_own(import_draft(self.author, source, digests))
        )
        chunk = None
        for chunk in split_into_chunks(lines, _REPLAY_CHUNK):
            refusals = [barred] * len(chunk) if barred else self._check_entries(chunk, same_log=same_log)
            accepted = [line for line, refused in zip(chunk, refusals, strict=True) if refused is None]
            results = iter(list(self._engine.replay(self.reach, accepted, receipt)))
            yield from [next(results) if refused is None else refused for refused in refusals]
        if chunk is None:
            yield from self._engine.replay(self.reach, ())  # which refuses a caller that may not import at all

    def find_imports(self, records: Sequence[Record]) -> dict[bytes, ImportReceipt]:
        """Return who imported these versions, by their digests. Versions that were written here are left out.

        Args:
            records: The records.
        """
        wanted = {shorten_digest(record.digest): record.digest for record in records}
        found: dict[bytes, ImportReceipt] = {}
        query = Query(kinds=(IMPORT,), scopes=(SYSTEM,), after=min((record.seq for record in records), default=0))
        journal = self._copy(reach=FULL_REACH, author="").with_valid_bodies()
        for receipt in journal.read(query):
            if not wanted:
                break
            for number in wanted.keys() & set(receipt.body["digests"]):
                source = receipt.body["source"] if self.reach.unlimited or receipt.body["by"] == self.author else ""
                found[wanted.pop(number)] = ImportReceipt(receipt.body["by"], receipt.recorded_at, source)
        return found

    def _refuse_in_quarantine(self) -> ReplayResult | None:
        """Refuse the entries of an agent in quarantine: they state when they were written, and that could be before it."""
        with self._engine.snapshot(FULL_REACH, single_query=True) as reader:
            quarantines = [record.body for record in reader.read(QUARANTINE_QUERY)]
        if any(body["author"] == self.author and not body.get("released") for body in quarantines):
            return ReplayResult("refused", f"{self.author!r} is in quarantine; only the owner imports what it wrote")
        return None

    def _check_entries(self, lines: Sequence[tuple[bytes, bytes]], *, same_log: bool) -> list[ReplayResult | None]:
        """Return why each entry of another log is refused, or ``None``."""
        answers: list[ReplayResult | None] = []
        for found in validate_entries(self._gate, lines):
            reason = found if isinstance(found, str) else None
            if not isinstance(found, str) and not (same_log and self._rules is None):
                draft = found.draft
                refused = self._check_author(draft, "service") if self._rules is None else self._check_imported(draft)
                reason = None if refused is None else refused.reason
            answers.append(None if reason is None else ReplayResult("refused", reason))
        return answers

    def _check_imported(self, draft: Draft) -> Refused | None:
        """Refuse an entry that a limited caller may not bring."""
        assert self._rules is not None
        if self.author != draft.author:
            author = repr(draft.author)[:80] if draft.author else "the owner"
            return Refused("not_allowed", f"{author} wrote it; only the owner imports what others wrote")
        if draft.kind in RESERVED_KINDS:
            return Refused("reserved_kind", f"Only the owner of the store imports records of kind {draft.kind!r}.")
        if (refused := self._check_rule(draft)) is not None:
            return refused
        if (refused := self._rules.check_kind(draft, "import")) is not None or not self._rules.needs_look(
            draft, "import"
        ):
            return refused
        with self._open_reader() as reader:
            return self._rules.check_target(reader, draft, "import")


def _hash_author(author: str) -> str:
    """Return a valid record id for any author name."""
    return hashlib.sha256(author.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def with_file_deletion(journal: Journal, delete_files: DeleteFiles) -> Journal:
    """Return the same journal, whose erasures delete files too."""
    same = copy(journal)
    same._delete_files = delete_files
    return same
