"""The journal: reads and writes of the log on behalf of one caller.

A journal knows the caller's reach and name and passes every draft through the gate. Operations that work for every kind
of record are here: reads as of an earlier time, undo, quarantine, erasure, verification, compaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lukasa.clock import Clock, IdMaker, to_iso, to_utc
from lukasa.errors import InvalidInput, NotAllowed, StoreDamaged
from lukasa.gate import Gate
from lukasa.outcome import Outcome, Refused
from lukasa.record import (
    DERIVED_FROM,
    NO_BODY,
    WRITER_PREFIX,
    Draft,
    Key,
    Record,
    ValidatedDraft,
    digest_of,
    draft_from,
    entry_bytes,
    parse_entry,
)
from lukasa.scope import SHARED, SYSTEM, Reach
from lukasa.storage.append import RequestLog
from lukasa.storage.engine import (
    ALL_RECORDS,
    API_TOKEN,
    COMPACTION,
    ERASURE,
    QUARANTINE,
    RESERVED_KINDS,
    TOKEN_USE,
    AsOf,
    Engine,
    EraseResult,
    LogCompactionResult,
    Match,
    Neighbour,
    Progress,
    Query,
    Reader,
    ReplayResult,
    Tally,
    VerifyReport,
    hash_erased_key,
)

_PAGE_SIZE = 500
_QUARANTINE_QUERY = Query(kinds=(QUARANTINE,), scopes=(SYSTEM,))

ConditionalDrafts = Callable[[Reader], "Sequence[Draft] | Refused"]
"""A function that reads the store inside the write lock and returns drafts to append, or a refusal."""


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The result of an undo: the reverted records, and those left alone because another author wrote them since."""

    reverted: tuple[Key, ...]
    kept: tuple[Key, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The receipt of an erasure, without content: its record's id, what was removed, and what is still on disk.

    ``id`` is ``None`` when there was nothing to erase; nothing was recorded then.
    """

    id: str | None
    records: int
    versions: int
    by_kind: Mapping[str, int]
    residue: str | None


class Journal:
    """Read and write access to the log for one caller."""

    def __init__(
        self, engine: Engine, gate: Gate, reach: Reach, clock: Clock, new_id: IdMaker, *, author: str = ""
    ) -> None:
        self._engine = engine
        self.damaged: set[int] = set()
        self._gate = gate
        self._clock = clock
        self._new_id = new_id
        self.reach = reach
        self.author = author

    def with_reach(self, reach: Reach, author: str) -> Journal:
        """Return a journal of the same log for another caller. Only the owner may do this."""
        self._require_owner("hand it out")
        return Journal(self._engine, self._gate, reach, self._clock, self._new_id, author=author)

    def for_request(self, key: str, fingerprint: bytes) -> Journal:
        """Return a journal of the same caller whose writes raise ``RepeatedRequest`` when the request is repeated."""
        engine: Any = RequestLog(self._engine, key, fingerprint)
        return Journal(engine, self._gate, self.reach, self._clock, self._new_id, author=self.author)

    def end_request(self) -> None:
        """Make the later writes of a journal that ``for_request`` returned plain ones, such as those of a close."""
        if isinstance(self._engine, RequestLog):
            self._engine = self._engine.engine

    @property
    def home_scope(self) -> str | None:
        """The scope of the caller's own records: the agent's, else the shared one, else the first usable one by name.

        ``None`` when the caller may read and write no scope at all.
        """
        names = (self.author, SHARED, *sorted(self.reach.writable or ()))
        return next((name for name in names if name and self.reach.reads(name) and self.reach.writes(name)), None)

    def write(
        self, kind: str, text: str = "", body: Mapping[str, Any] | None = None, *, key: str | None = None, **fields: Any
    ) -> Outcome:
        """Write one record. ``fields`` are those of ``Draft``; a call with a ``key`` used before returns the first outcome."""
        return self.append(Draft(kind, text, NO_BODY if body is None else dict(body), **fields), key=key)

    def append(self, drafts: Draft | Iterable[Draft], *, key: str | None = None) -> Outcome:
        """Write a draft, or a batch of drafts as one atomic unit."""
        validated = self._validate_drafts([drafts] if isinstance(drafts, Draft) else drafts)
        return validated if isinstance(validated, Refused) else self._engine.append(self.reach, validated, key=key)

    def append_if(self, condition: ConditionalDrafts, *, key: str | None = None) -> Outcome:
        """Read and write in one atomic step: append the drafts that ``condition`` returns inside the write lock.

        The condition may run more than once and must not write.
        """

        def validate(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            answer = condition(reader)
            return answer if isinstance(answer, Refused) else self._validate_drafts(answer)

        return self._engine.append(self.reach, validate, key=key)

    def delete(self, key: Key, *, expected: int | None = None, origin: str = "manual") -> Outcome:
        """Append a tombstone; refuse with ``not_found`` when there is no such record."""

        def tombstone(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(key)
            if record is None:
                return Refused("not_found", f"There is no record {key}.")
            return [_tombstone_draft(record, self.author, origin, expected)]

        return self.append_if(tombstone)

    def _validate_drafts(
        self, drafts: Iterable[Draft], *, allow_reserved: bool = False
    ) -> list[ValidatedDraft] | Refused:
        validated: list[ValidatedDraft] = []
        validate, new_id, author = self._gate.validate, self._new_id, self.author
        is_limited = not self.reach.unlimited
        for draft in drafts:
            if is_limited and (draft.author or draft.labels):
                draft = self._name_writer(draft)
            if isinstance(draft.happened_at, datetime) and draft.happened_at.tzinfo is not UTC:
                draft = draft._replace(happened_at=to_utc(draft.happened_at))
            answer = validate(draft, draft.id or new_id(), author, allow_reserved=allow_reserved)
            if isinstance(answer, Refused):
                return Refused(answer.code, answer.reason, {**answer.details, "at": len(validated)})
            validated.append(answer)
        return validated

    def _name_writer(self, draft: Draft) -> Draft:
        """Return a draft with a label that names the calling agent, if the draft names another author.

        Trust and quarantine follow the agent, so that no other name helps it to evade them.
        """
        labels = draft.labels
        if labels.__class__ is not tuple:
            return draft  # the gate refuses it
        kept = tuple(name for name in labels if name.__class__ is not str or not name.startswith(WRITER_PREFIX))
        if self.author and draft.author not in ("", self.author):
            kept = (*kept, WRITER_PREFIX + self.author)
        return draft if kept == labels else draft._replace(labels=kept)

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Open a consistent snapshot for several reads."""
        return self._open_reader()

    @contextmanager
    def _open_reader(self, *, single_query: bool = False) -> Iterator[Reader]:
        with self._engine.snapshot(self.reach, single_query=single_query) as reader:
            try:
                yield reader
            finally:
                self.damaged |= reader.damaged

    def get(self, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
        """Return the current record, the one as of a time or position, or one version of it."""
        with self._engine.snapshot(self.reach, single_query=True) as reader:
            return reader.get(key, as_of=to_utc(as_of) if isinstance(as_of, datetime) else as_of, version=version)

    def read(self, query: Query = ALL_RECORDS) -> Iterator[Record]:
        """Yield records in log order, page by page, so that no read transaction lasts long."""
        left = query.limit
        query = replace(_query_in_utc(query), limit=_PAGE_SIZE)
        if query.after is None and not query.newest_first and (left is None or left > _PAGE_SIZE):
            query = replace(query, after=0)  # so that no record between two pages is missed
        while left is None or left > 0:
            if left is not None and left < _PAGE_SIZE:
                query = replace(query, limit=left)
            with self._open_reader(single_query=query.mentions is None) as reader:
                page = reader.read(query)
            yield from page
            if not page or len(page) < (query.limit or 0):
                return
            left = None if left is None else left - len(page)
            edge, bound = page[-1].seq, query.before if query.newest_first else query.after
            if bound is not None and (edge >= bound if query.newest_first else edge <= bound):
                raise StoreDamaged("Positions in the log do not grow; run `lukasa verify` to see what is damaged.")
            query = replace(query, before=edge) if query.newest_first else replace(query, after=edge)

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        """Return every stored version, oldest first; ``hidden`` includes quarantined ones, for the owner only."""
        with self._open_reader(single_query=True) as reader:
            return reader.history(key, hidden=hidden)

    def find(self, words: str, query: Query = ALL_RECORDS) -> list[Match]:
        """Find records by words in their text, best first."""
        with self.snapshot() as reader:
            return reader.match_text(words, _query_in_utc(query))

    def neighbours(self, key: Key, relation: str | None = None) -> list[Neighbour]:
        with self.snapshot() as reader:
            return reader.neighbours(key, relation)

    def tally(self) -> list[Tally]:
        with self._engine.snapshot(self.reach, single_query=True) as reader:
            return reader.tally()

    def tip(self) -> int:
        with self._engine.snapshot(self.reach, single_query=True) as reader:
            return reader.tip()

    def undo(self, *, author: str | None = None, since: datetime | None = None, label: str | None = None) -> UndoResult:
        """Revert what an author wrote since a time, or what carries a label, and everything derived from it.

        Each record gets a new version with the content of its newest version that is not undone, or a tombstone if there
        is none. Records that another author has changed since are left alone and reported. The new versions carry a
        label (``UndoResult.label``); undoing that label takes the undo back.
        """
        if author is None and label is None:
            raise InvalidInput("Nothing to undo was named.", hint="Name an author or a label.")
        undo_label = f"undo={self._new_id()}"
        result = UndoResult((), ())

        def revert(reader: Reader) -> Sequence[Draft]:
            nonlocal result
            labels = () if label is None else (label,)
            recorded_since = None if since is None else to_utc(since)
            query = Query(author=author, recorded_since=recorded_since, labels=labels, every_version=True)
            written = [
                record
                for record in reader.read(query)
                if record.scope != SYSTEM and (label is not None or record.origin != "undo")
            ]
            undone = _positions_with_derived(reader, written)
            quarantined = {
                record.body["author"] for record in reader.read(_QUARANTINE_QUERY) if not record.body.get("released")
            }
            drafts, kept = [], []
            for key, positions in undone.items():
                history = reader.history(key)
                if history[-1].seq in positions:
                    good = next((record for record in reversed(history) if record.seq not in positions), None)
                    reverted = _revert_draft(history[-1], good, self.author, undo_label)
                    if reverted.author in quarantined:  # a new version by a quarantined author would be hidden
                        reverted = reverted._replace(author=self.author)
                    drafts.append(reverted)
                else:
                    kept.append(key)
            result = UndoResult(tuple(draft.key for draft in drafts), tuple(kept), undo_label)
            return drafts

        outcome = self.append_if(revert)
        if isinstance(outcome, Refused):
            raise NotAllowed(outcome.reason)
        return result

    def quarantine(self, author: str, *, since: datetime | None = None, reason: str = "") -> Outcome:
        """Hide what an author wrote (since a time) and everything derived from it, until ``release``."""
        body = {"author": author, "since": None if since is None else to_iso(to_utc(since)), "reason": reason}
        return self._append_system_record(Draft(QUARANTINE, body=body, id=_hash_author(author), scope=SYSTEM))

    def release(self, author: str) -> Outcome:
        """Show everything again that the quarantine of an author hid."""
        if author not in self.quarantined():
            return Refused("not_found", f"{author!r} is not in quarantine.")
        return self._append_system_record(
            Draft(QUARANTINE, body={"author": author, "released": True}, id=_hash_author(author), scope=SYSTEM)
        )

    def quarantined(self) -> dict[str, Record]:
        """Return the quarantined authors, each with the record of its quarantine."""
        records = self.read(_QUARANTINE_QUERY)
        return {record.body["author"]: record for record in records if not record.body.get("released")}

    def erase(self, *keys: Key, subject: str | None = None, reason: str = "") -> ErasureReceipt:
        """Remove records for good: every version, every index entry, and everything derived from them.

        ``subject`` selects every record that the subject wrote or that mentions it anywhere.
        """
        self._require_owner("erase from it")
        if not keys and not subject:
            raise InvalidInput("Nothing to erase was named.", hint="Name a record or a subject.")
        chosen: list[Key] = []
        salt, receipt_id = self._erasure_salt(), self._new_id()

        def choose(reader: Reader) -> Sequence[Key]:
            chosen[:] = self._keys_to_erase(reader, keys, subject)
            return chosen

        def receipt(erased: EraseResult) -> ValidatedDraft:
            body = {
                "records": erased.records, "versions": erased.versions, "by_kind": dict(erased.by_kind),
                "reason": reason, "salt": salt, "marks": sorted(hash_erased_key(key, salt) for key in chosen),
            }  # fmt: skip
            draft = Draft(ERASURE, body=body, id=receipt_id, scope=SYSTEM, author=self.author, origin="erasure")
            validated = self._gate.validate(draft, allow_reserved=True)
            if isinstance(validated, Refused):
                raise InvalidInput(validated.reason)
            return validated

        erased = self._engine.erase(choose, receipt)
        return ErasureReceipt(
            receipt_id if erased.versions else None, erased.records, erased.versions, erased.by_kind, erased.residue
        )

    def preview_erase(self, *keys: Key, subject: str | None = None) -> list[Key]:
        """List the records that ``erase`` would remove."""
        with self.snapshot() as reader:
            return [key for key in self._keys_to_erase(reader, keys, subject) if reader.history(key, hidden=True)]

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every log entry against its digest and every index against the log."""
        self._require_owner("verify it")
        return self._engine.verify(progress)

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the whole store to a new file."""
        self._require_owner("back it up")
        self._engine.backup(target)

    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuild every index from the log."""
        self._require_owner("reindex it")
        self._engine.reindex(progress)

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
        """Remove superseded versions for good and free their space. The newest version of a record always stays."""
        self._require_owner("compact it")
        done = self._engine.compact(before=None if before is None else to_utc(before), progress=progress)
        if done.versions:
            body = {"versions": done.versions, "before": None if before is None else to_iso(to_utc(before))}
            self._append_system_record(Draft(COMPACTION, body=body, scope=SYSTEM))
        return done

    def put_vectors(
        self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]], *, briefly: bool = False
    ) -> None:
        """Store vectors as (position, chunk, vector) for a model, replacing earlier ones; ``briefly`` hardly waits."""
        self._require_owner("store vectors")
        self._engine.put_vectors(model, vectors, briefly=briefly)

    def replay(self, lines: Iterable[tuple[bytes, bytes]]) -> Iterator[ReplayResult]:
        """Append entries of another log unchanged, after the gate has checked them; yield one result per entry."""
        refusals: dict[int, ReplayResult] = {}

        def accepted_entries() -> Iterator[tuple[bytes, bytes]]:
            for index, (entry, digest) in enumerate(lines):
                refused = self._check_entry(entry, digest)
                if refused is None:
                    yield entry, digest
                else:
                    refusals[index] = refused

        index = 0
        for result in self._engine.replay(self.reach, accepted_entries()):
            while index in refusals:
                yield refusals.pop(index)
                index += 1
            yield result
            index += 1
        yield from (refusals[index] for index in sorted(refusals))

    def _check_entry(self, entry: bytes, digest: bytes) -> ReplayResult | None:
        """Return why an entry of another log is refused, or ``None``."""
        if digest_of(entry) != digest:
            return ReplayResult("refused", "the line does not match its digest")
        try:
            record = parse_entry(entry, 0, digest)
            validated = self._gate.validate(draft_from(record), allow_reserved=True)
            if isinstance(validated, Refused):
                return ReplayResult("refused", validated.reason)
            if not self.reach.unlimited and self.author and self.author != record.writer:
                writer = repr(record.writer)[:80] if record.writer else "the owner"
                return ReplayResult("refused", f"{writer} wrote it; only the owner imports what others wrote")
            if not record.id:
                return ReplayResult("refused", "the id is empty")
            if record.version.__class__ is not int or not 0 < record.version < 2**31 or entry_bytes(record) != entry:
                return ReplayResult("refused", "the line is not in canonical form")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return ReplayResult("refused", f"not a line of a log ({error})")
        return None

    def _append_system_record(self, draft: Draft) -> Outcome:
        """Write a record of a reserved kind."""
        if not self.reach.unlimited:
            return Refused("not_allowed", "Only the owner of the store may do this.")
        validated = self._validate_drafts([draft], allow_reserved=True)
        return validated if isinstance(validated, Refused) else self._engine.append(self.reach, validated)

    def _keys_to_erase(self, reader: Reader, keys: Sequence[Key], subject: str | None) -> list[Key]:
        chosen = dict.fromkeys(keys)
        if subject:
            about = Query(mentions=subject, every_version=True, hidden=True)
            chosen.update(dict.fromkeys(record.key for record in reader.read(about)))
        chosen.update(dict.fromkeys(reader.descendants(list(chosen), hidden=True)))
        protected = RESERVED_KINDS - {QUARANTINE} if subject else RESERVED_KINDS
        protected |= {API_TOKEN, TOKEN_USE}  # a hash may hold any letters; tokens are revoked, not erased
        return [key for key in chosen if key.scope != SYSTEM or key.kind not in protected]

    def _erasure_salt(self) -> str:
        """Return the salt that all receipts of a store share, so that one hash tells whether a key was erased."""
        earlier = next(self.read(Query(kinds=(ERASURE,), scopes=(SYSTEM,), limit=1)), None)
        return earlier.body["salt"] if earlier is not None else self._new_id()

    def _require_owner(self, action: str) -> None:
        if not self.reach.unlimited:
            raise NotAllowed(f"Only the owner of the store may {action}.")


def _positions_with_derived(reader: Reader, records: Sequence[Record]) -> dict[Key, set[int]]:
    """Return the positions of these versions and of every version derived from them, directly or not.

    A version is derived from the version of its source that was the newest when it was written.
    """
    found: dict[Key, set[int]] = {}
    for record in records:
        found.setdefault(record.key, set()).add(record.seq)
    histories = {key: reader.history(key) for key in (*found, *reader.descendants(list(found)))}
    versions = (version for history in histories.values() for version in history)
    for version in sorted(versions, key=lambda version: version.seq):
        for link in version.links:
            if link.relation == DERIVED_FROM and link.to in found:
                earlier = [source.seq for source in histories[link.to] if source.seq < version.seq]
                if earlier and earlier[-1] in found[link.to]:
                    found.setdefault(version.key, set()).add(version.seq)
    return found


def _tombstone_draft(record: Record, author: str, origin: str, expected: int | None) -> Draft:
    return Draft(
        record.kind, id=record.id, scope=record.scope, author=author, origin=origin, labels=record.labels,
        deleted=True, expected=expected,
    )  # fmt: skip


def _revert_draft(newest: Record, good: Record | None, author: str, undo_label: str) -> Draft:
    """Return the next version of a record: the content of its last good version, or a tombstone."""
    labels = (*(label for label in (good or newest).labels if not label.startswith("undo=")), undo_label)
    if good is None or good.deleted:
        return _tombstone_draft(newest, author, "undo", None)._replace(labels=labels)
    return draft_from(good, origin="undo", labels=labels)


def _hash_author(author: str) -> str:
    """Return a valid record id for any author name."""
    return hashlib.sha256(author.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _query_in_utc(query: Query) -> Query:
    """Return the query with every time in UTC; one without a zone is read as UTC."""
    return replace(
        query,
        since=query.since and to_utc(query.since),
        until=query.until and to_utc(query.until),
        recorded_since=query.recorded_since and to_utc(query.recorded_since),
        as_of=to_utc(query.as_of) if isinstance(query.as_of, datetime) else query.as_of,
    )
