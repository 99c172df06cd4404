"""The journal: reads and writes of the log on behalf of one caller.

A journal knows the caller's reach and name and passes every draft through the gate. Operations that work for every kind
of record are here: reads as of an earlier time, undo, quarantine, erasure, verification, compaction.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, IdMaker, to_iso, to_utc
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import (
    DERIVED_FROM,
    NO_BODY,
    Draft,
    Key,
    Link,
    Record,
    ValidatedDraft,
    digest_of,
    draft_from,
    encode_draft,
    entry_bytes,
    entry_suffix,
    parse_entry,
)
from lukasa.core.scope import FULL_REACH, SHARED, SYSTEM, Reach, check_agent_name, may_set_rule, poses_as_another
from lukasa.errors import InvalidInput, NotAllowed, StoreDamaged
from lukasa.journal.erasure import choose_erased
from lukasa.journal.gate import Gate
from lukasa.journal.write_rules import (
    MAX_OPEN_PROPOSALS,
    PROPOSAL,
    Channel,
    TrustOf,
    WriteRules,
    proposal_draft,
    refuse_kind,
)
from lukasa.storage.append import RequestLog
from lukasa.storage.engine import (
    ALL_RECORDS,
    API_TOKEN,
    COMPACTION,
    ERASURE,
    IMPORT,
    LOSS,
    PAGE_SESSION,
    QUARANTINE,
    RESERVED_KINDS,
    SET_ASIDE,
    TOKEN_USE,
    AsOf,
    DamagedEntry,
    Engine,
    EraseResult,
    LogCompactionResult,
    Match,
    Neighbour,
    Progress,
    Query,
    Reader,
    ReplayResult,
    SharedCounters,
    Tally,
    VerifyReport,
    hash_erased_key,
)
from lukasa.storage.integrity import describe_loss, name_entry
from lukasa.storage.parsed_records import ParsedRecords
from lukasa.storage.reader import names_subject

T = TypeVar("T")

_PAGE_SIZE = 500
_MIN_BATCH = 16  # a batch of so many drafts is validated at once
_MAX_SET_ASIDE_BYTES = 20_000_000
_MAX_SUBJECT_LENGTH = 10_000
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

    ``records`` and ``by_kind`` count what was removed whole, ``restored`` the records that lost only versions which were
    derived from it, and ``versions`` both. ``id`` is ``None`` when there was nothing to erase; nothing was recorded then.
    ``files`` names the files that were deleted: those of sessions, and copies of the store that were left next to it. The
    record in the log has their number.
    """

    id: str | None
    records: int
    versions: int
    by_kind: Mapping[str, int]
    residue: str | None
    files: tuple[str, ...] = ()
    restored: int = 0


@dataclass(frozen=True, slots=True)
class ImportReceipt:
    """Who imported a version, when, and the name of the file or the server it came from.

    ``by`` is the name of an agent; the owner has none. Only the owner learns the source.
    """

    by: str
    at: datetime
    source: str = ""


DeleteFiles = Callable[[Sequence[Key], str | None, bool], Sequence[str]]
"""Deletes the files of records and of a subject, whose letter case may count, and returns their names."""


class JournalSnapshot:
    """A snapshot for the readers of a journal, which learns of the damaged records that they find."""

    __slots__ = ("_damaged", "_find_fault", "_reader", "_skips_damaged", "_snapshot")

    def __init__(
        self,
        snapshot: AbstractContextManager[Reader],
        damaged: set[int],
        find_fault: Callable[[Record], str | None] | None,
        *,
        skips_damaged: bool,
    ) -> None:
        self._snapshot = snapshot
        self._damaged = damaged
        self._find_fault = find_fault
        self._skips_damaged = skips_damaged

    def __enter__(self) -> Reader:
        reader = self._reader = self._snapshot.__enter__()
        reader.find_fault, reader.skips_damaged = self._find_fault, self._skips_damaged
        return reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._damaged |= self._reader.damaged
        return self._snapshot.__exit__(kind, error, trace)


@check_arguments
class Journal:
    """Read and write access to the log for one caller."""

    def __init__(
        self,
        engine: Engine,
        gate: Gate,
        reach: Reach,
        clock: Clock,
        new_id: IdMaker,
        *,
        author: str = "",
        trust_of: TrustOf = lambda names: dict.fromkeys(names, 0.0),
    ) -> None:
        if author:
            check_agent_name(author)
        self._engine = engine
        self._trust_of = trust_of
        self._rules = None if reach.unlimited else WriteRules(gate, author, trust_of)
        self._channel: Channel = "raw"
        self._find_fault: Callable[[Record], str | None] | None = None
        self._skips_damaged = False
        self.damaged: set[int] = set()
        self._gate = gate
        self._clock = clock
        self._new_id = new_id
        self.reach = reach
        self.author = author
        self._delete_files: DeleteFiles = lambda *_: ()

    def with_reach(self, reach: Reach, author: str) -> Journal:
        """Return a journal of the same log for another caller. Only the owner may do this.

        Args:
            reach: What the other caller may read and write.
            author: The name of the other caller.
        """
        self._require_owner("hand it out")
        return self._copy(reach=reach, author=author)

    def _copy(self, engine: Any = None, reach: Reach | None = None, author: str | None = None) -> Journal:
        return Journal(
            engine or self._engine,
            self._gate,
            reach or self.reach,
            self._clock,
            self._new_id,
            author=self.author if author is None else author,
            trust_of=self._trust_of,
        )

    def add_to_counter(self, name: str, amount: int, seconds: int) -> tuple[int, int] | None:
        """Add to a counter that all processes on the store share; ``None`` if the engine has none (see ``SharedCounters``).

        Args:
            name: The name of the counter.
            amount: How much to add.
            seconds: How long the counter runs before it begins at zero.
        """
        self._require_owner("count in it")
        engine = self._engine
        return engine.add_to_counter(name, amount, seconds) if isinstance(engine, SharedCounters) else None

    def change_stamp(self) -> object | None:
        """Return a value that differs once anybody wrote anything to the store; ``None`` if the engine has none."""
        read_stamp: Callable[[], object] | None = getattr(self._engine, "change_stamp", None)
        return None if read_stamp is None else read_stamp()

    def for_request(self, key: str, fingerprint: bytes) -> Journal:
        """Return a journal of the same caller whose writes raise ``RepeatedRequest`` when the request is repeated.

        Args:
            key: The key of the request.
            fingerprint: A digest of the request; a key that was used for another request is refused.
        """
        return self._copy(RequestLog(self._engine, key, fingerprint))

    def end_request(self) -> None:
        """Make the later writes of a journal that ``for_request`` returned plain ones, such as those of a close."""
        if isinstance(self._engine, RequestLog):
            self._engine.has_ended = True

    def with_valid_bodies(self, *, skip_damaged: bool = True) -> Journal:
        """Return a journal for services: it writes the kinds that services write (see ``lukasa.journal.write_rules``).

        A record whose body is not as its kind declares is damaged for it: one of an older store, another program or an import.
        ``get`` returns ``None`` for a damaged record unless ``skip_damaged`` is false; then it raises ``StoreDamaged``, for
        services that recover what is lost.

        Args:
            skip_damaged: Return ``None`` for a damaged record; else raise ``StoreDamaged``.
        """
        journal = self._copy()
        journal.damaged, journal._find_fault = self.damaged, self._gate.find_body_fault
        journal._skips_damaged, journal._channel = skip_damaged, "service"
        return journal

    @property
    def home_scope(self) -> str | None:
        """The scope of the caller's own records: the agent's, else the project's, else the shared one, else the first by name.

        ``None`` when the caller may read and write no scope at all.
        """
        names = (self.author, self.reach.project, SHARED, *sorted(self.reach.writable or ()))
        return next((name for name in names if name and self.reach.reads(name) and self.reach.writes(name)), None)

    def write(
        self, kind: str, text: str = "", body: Mapping[str, Any] | None = None, *, key: str | None = None, **fields: Any
    ) -> Outcome:
        """Write one record. ``fields`` are those of ``Draft``; a call with a ``key`` used before returns the first outcome.

        Args:
            kind: The kind of record.
            text: The text that recall searches.
            body: The fields of the record, as JSON.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.
            **fields: Further fields of ``Draft``: scope, labels, links, happened_at, …

        Example:
            memory.journal.write("note", "Ben is on leave.", labels=("tag=team",))
        """
        return self._append([Draft(kind, text, NO_BODY if body is None else dict(body), **fields)], key)

    def append(self, drafts: Draft | Iterable[Draft], *, key: str | None = None) -> Outcome:
        """Write a draft, or a batch of drafts as one atomic unit.

        Args:
            drafts: One draft, or several that are written together or not at all.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            memory.journal.append([lukasa.Draft("note", "Ben is on leave."), lukasa.Draft("note", "Carol is in charge.")])
        """
        return self._append([drafts] if isinstance(drafts, Draft) else drafts, key)

    def _append(self, drafts: Iterable[Draft], key: str | None) -> Outcome:
        """Append drafts whose types were checked."""
        validated = self._validate_drafts(drafts)
        if isinstance(validated, Refused):
            return validated
        if self._rules is None or not (watched := self._drafts_to_look_up(validated)):
            return self._say_hidden(self._engine.append(self.reach, validated, key=key))
        refusals: list[Refused] = []

        def check_targets(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            refusals[:] = self._check_targets(reader, watched)
            return refusals[0] if refusals else validated

        outcome = self._engine.append(self.reach, check_targets, key=key)
        return self._propose(validated, refusals[0]) if refusals else self._say_hidden(outcome)

    def append_if(self, condition: ConditionalDrafts, *, key: str | None = None, proposes: bool = True) -> Outcome:
        """Read and write in one atomic step: append the drafts that ``condition`` returns inside the write lock.

        The condition may run more than once and must not write.

        Args:
            condition: A function that gets a reader and returns drafts to append, or a refusal.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.
            proposes: Keep what only the owner may change as a proposal; else the outcome is refused with ``needs_owner``.

        Example:
            def add_once(reader):
                known = reader.read(lukasa.Query(kinds=("note",)))
                return [] if known else [lukasa.Draft("note", "The first note")]
            memory.journal.append_if(add_once)
        """

        validated: list[ValidatedDraft] = []
        refusals: list[Refused] = []

        def validate(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            reader.find_fault, reader.skips_damaged = self._find_fault, self._skips_damaged
            answer = condition(reader)
            drafts = answer if isinstance(answer, Refused) else self._validate_drafts(answer)
            if self._rules is None or isinstance(drafts, Refused):
                return drafts
            validated[:], refusals[:] = drafts, self._check_targets(reader, self._drafts_to_look_up(drafts))
            return refusals[0] if refusals else drafts

        outcome = self._engine.append(self.reach, validate, key=key)
        if refusals:
            return self._propose(validated, refusals[0]) if proposes else outcome
        return self._say_hidden(outcome)

    def _say_hidden(self, outcome: Outcome) -> Outcome:
        """Return an accepted outcome that says since when its writer is in quarantine, if it is."""
        if not isinstance(outcome, Accepted) or QUARANTINE not in outcome.details:
            return outcome
        if self.reach.unlimited:
            return replace(outcome, details={})  # the owner wrote it, in the name of an author in quarantine or not
        with self._engine.snapshot(FULL_REACH, single_query=True) as reader:
            found = [record for record in reader.read(_QUARANTINE_QUERY) if record.body["author"] == self.author]
        started = [record.body.get("since") or to_iso(record.recorded_at) for record in found]
        return replace(outcome, details={QUARANTINE: {"since": started[-1]}} if started else {})

    def _drafts_to_look_up(self, validated: Sequence[ValidatedDraft]) -> list[Draft]:
        """Return the drafts of a limited caller that the rules decide about by what the store holds."""
        assert self._rules is not None
        return [
            sealed.draft if sealed.has_new_id else sealed.draft._replace(id=sealed.id)
            for sealed in validated
            if self._rules.needs_look(sealed.draft, self._channel)
        ]

    def _check_targets(self, reader: Reader, drafts: Sequence[Draft]) -> list[Refused]:
        assert self._rules is not None
        checked = (self._rules.check_target(reader, draft, self._channel) for draft in drafts)
        return [refused for refused in checked if refused is not None][:1]

    def check_raw(self, reader: Reader, drafts: Sequence[Draft]) -> Refused | None:
        """Refuse drafts that a caller hands to a service to write for it and that it may not write itself.

        Args:
            reader: A reader of the store.
            drafts: The drafts.

        Example:
            with memory.journal.snapshot() as reader:
                memory.journal.check_raw(reader, [lukasa.Draft("note", "Ben is on leave.")])
        """
        writer = self._copy()  # a raw channel
        for draft in drafts:
            refused = writer._check_author(draft)
            if refused is None and writer._rules is not None and writer._rules.needs_look(draft, "raw"):
                refused = writer._rules.check_target(reader, draft, "raw")
            if refused is not None:
                return refused
        return None

    def _propose(self, validated: Sequence[ValidatedDraft], refused: Refused) -> Outcome:
        """Keep changes that only the owner makes as a proposal, and say so in the refusal."""
        if refused.code != "needs_owner":
            return refused
        proposal = proposal_draft([sealed.draft for sealed in validated], self.author, refused.reason)
        sealed = None if proposal is None else self._gate.validate(proposal, author=self.author)
        if proposal is None or not isinstance(sealed, ValidatedDraft):
            return Refused("needs_owner", f"{refused.reason} Ask the owner of the store to do it.")

        def keep(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            known = reader.get(proposal.key)
            if known is not None and known.body["state"] != "accepted":
                return [] if known.body["state"] == "open" else Refused("refused_by_owner", "The owner refused it.")
            query = Query(kinds=(PROPOSAL,), author=self.author, labels=("state=open",), limit=MAX_OPEN_PROPOSALS)
            if len(reader.read(query)) >= MAX_OPEN_PROPOSALS:
                return Refused(
                    "too_many_proposals", f"{MAX_OPEN_PROPOSALS} of your proposals wait for the owner already."
                )
            return [sealed]

        answer = self._engine.append(self.reach, keep)
        if isinstance(answer, Refused):
            return Refused(answer.code, f"{refused.reason} {answer.reason}", answer.details)
        return Refused(
            "proposed",
            f"{refused.reason} The owner decides; proposal {proposal.id} keeps the change (`lukasa proposals`).",
            {"proposal": proposal.id, "scope": proposal.scope},
        )

    def delete(self, key: Key, *, expected: int | None = None, origin: str = "manual") -> Outcome:
        """Append a tombstone; refuse with ``not_found`` when there is no such record.

        Args:
            key: The key of the record: scope, kind and id.
            expected: The version that the caller has read; another one is a ``Conflict``.
            origin: Where the record comes from, in one word.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.")
            memory.journal.delete(kept.record.key)
        """

        def tombstone(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(key)
            if record is None:
                return Refused("not_found", f"There is no record {key}.")
            return [_tombstone_draft(record, self.author, origin, expected)]

        return self.append_if(tombstone)

    def _validate_drafts(
        self, drafts: Iterable[Draft], *, allow_reserved: bool = False
    ) -> list[ValidatedDraft] | Refused:
        drafts = drafts if isinstance(drafts, list) else list(drafts)
        if len(drafts) >= _MIN_BATCH and not allow_reserved and (batch := self._validate_batch(drafts)) is not None:
            return batch
        validated: list[ValidatedDraft] = []
        validate, new_id, author = self._gate.validate, self._new_id, self.author
        is_limited, checked = self._rules is not None, None
        for draft in drafts:
            if is_limited or (draft.author, draft.kind, draft.deleted) != checked:
                if not allow_reserved and (refused := self._check_author(draft)) is not None:
                    return Refused(refused.code, refused.reason, {"at": len(validated)})
                checked = (draft.author, draft.kind, draft.deleted)
            if isinstance(draft.happened_at, datetime) and draft.happened_at.tzinfo is not UTC:
                draft = draft._replace(happened_at=to_utc(draft.happened_at))
            answer = validate(draft, draft.id or new_id(), author, allow_reserved=allow_reserved)
            if isinstance(answer, Refused):
                return Refused(answer.code, answer.reason, {**answer.details, "at": len(validated)})
            validated.append(answer)
        return validated

    def _validate_batch(self, drafts: Sequence[Draft]) -> list[ValidatedDraft] | None:
        """Validate a large batch at once; ``None`` if a draft has to be looked at alone, which finds the one to refuse."""
        try:
            names = {(draft.author, draft.kind, draft.scope, draft.deleted): draft for draft in drafts}
        except (AttributeError, TypeError):  # not drafts, or a name that is not text
            return None
        looked_at = names.values() if self._rules is None or self._channel == "service" else drafts
        if any(self._check_author(draft) is not None for draft in looked_at):
            return None
        if any(getattr(draft.happened_at, "tzinfo", UTC) is not UTC for draft in drafts):
            return None
        return self._gate.validate_all(drafts, self._new_id, self.author)

    def check_author(self, name: str) -> Refused | None:
        """Refuse the name of another agent for what the caller writes. The owner may name any agent.

        Args:
            name: The name of the author.
        """
        if self.reach.unlimited or name in ("", self.author):
            return None
        caller = f"The agent {self.author!r}" if self.author else "A caller with limited scopes"
        return Refused(
            "author_not_yours",
            f"{caller} cannot write in the name of {name[:80]!r}. Leave the name out (in a conversation, who said it is the "
            "speaker), or ask the owner of the store to write it.",
        )

    def _check_author(self, draft: Draft) -> Refused | None:
        """Refuse a draft in a name that the caller may not use, and a rule for others that the owner did not set."""
        author, kind = draft.author, draft.kind
        if author.__class__ is not str or kind.__class__ is not str:
            return None  # the gate refuses it
        if self.reach.unlimited:
            if author and poses_as_another(author):
                reason = f"{author!r} is no agent's name; name the agent that wrote it, or leave the author out."
                return Refused("bad_author", reason)
            is_stores = self._channel == "raw" and self._gate.spec(kind).written_by == "store"
            return refuse_kind(kind) if is_stores and not draft.deleted else None
        assert self._rules is not None
        if (refused := self._check_rule(draft)) is not None or (refused := self.check_author(author)) is not None:
            return refused
        return self._rules.check_kind(draft, self._channel)

    def _check_rule(self, draft: Draft) -> Refused | None:
        """Refuse a rule for others that the owner did not set."""
        if draft.kind in self._gate.owner_only and (not self.author or draft.scope != self.author):
            return Refused(
                "not_allowed", "Only the owner of the store sets rules for others; an agent may set its own."
            )
        return None

    def revise(self, draft: Draft) -> Draft:
        """Return the draft of a record's next version with the author that the caller may name.

        The owner keeps the record's author. A version by another agent has that agent as its author, and is derived from the
        version before: trust in the earlier author and its quarantine reach the content that was kept.

        Args:
            draft: The next version.
        """
        if self.reach.unlimited or draft.author == self.author:
            return draft
        links = dict.fromkeys((*draft.links, Link(DERIVED_FROM, draft.key)))
        return draft._replace(author=self.author, links=tuple(links))

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Open a consistent snapshot for several reads.

        Example:
            with memory.journal.snapshot() as reader:
                reader.tally()
        """
        return self._open_reader()

    def _open_reader(self, *, single_query: bool = False) -> JournalSnapshot:
        snapshot = self._engine.snapshot(self.reach, single_query=single_query)
        return JournalSnapshot(snapshot, self.damaged, self._find_fault, skips_damaged=self._skips_damaged)

    def get(self, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
        """Return the current record, the one as of a time or position, or one version of it.

        Args:
            key: The key of the record: scope, kind and id.
            as_of: An earlier time, or a position in the log.
            version: The number of a version; default: the newest.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.", id="n-1")
            memory.journal.get(lukasa.Key("shared", "note", "n-1")).text
        """
        with self._open_reader(single_query=True) as reader:
            return reader.get(key, as_of=to_utc(as_of) if isinstance(as_of, datetime) else as_of, version=version)

    def read(self, query: Query = ALL_RECORDS) -> Iterator[Record]:
        """Yield records in log order, page by page, so that no read transaction lasts long.

        Args:
            query: Filters: kinds, scopes, labels, author, times, limit.

        Example:
            memory.journal.write("note", "Ben is on leave.")
            [record.text for record in memory.journal.read(lukasa.Query(kinds=("note",)))]
        """
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

    def get_parsed(self, key: Key, parsed: ParsedRecords[T]) -> T | None:
        """Return what ``parsed`` has or makes of the current record.

        Args:
            key: The key of the record: scope, kind and id.
            parsed: What was made of records before, and how it is made.
        """
        with self._open_reader(single_query=True) as reader:
            return reader.get_parsed(key, parsed)

    def read_parsed(self, query: Query, parsed: ParsedRecords[T]) -> list[T]:
        """Return what ``parsed`` has or makes of all records of a query, as of one moment.

        Args:
            query: Which records, in which order.
            parsed: What was made of records before, and how it is made.
        """
        with self._open_reader(single_query=True) as reader:
            return reader.read_parsed(query, parsed)

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        """Return every stored version, oldest first; ``hidden`` includes quarantined ones, for the owner only.

        Args:
            key: The key of the record: scope, kind and id.
            hidden: Return quarantined versions too; for the owner only.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.")
            memory.journal.history(kept.record.key)
        """
        with self._open_reader(single_query=True) as reader:
            return reader.history(key, hidden=hidden)

    def find(self, words: str, query: Query = ALL_RECORDS) -> list[Match]:
        """Find records by words in their text, best first.

        Args:
            words: The words to look for.
            query: Filters: kinds, scopes, labels, author, times, limit.

        Example:
            memory.journal.write("note", "Ben is on leave.")
            memory.journal.find("leave", lukasa.Query(kinds=("note",)))
        """
        with self._open_reader(single_query=query.as_of is None and not query.every_version) as reader:
            return reader.match_text(words, _query_in_utc(query))

    def neighbours(self, key: Key, relation: str | None = None) -> list[Neighbour]:
        """Return the links of current records that leave or reach a record.

        Args:
            key: The key of the record: scope, kind and id.
            relation: Only links with this relation.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.")
            memory.journal.neighbours(kept.record.key)
        """
        with self.snapshot() as reader:
            return reader.neighbours(key, relation)

    def tally(self) -> list[Tally]:
        """Return the counts per scope and kind.

        Example:
            memory.journal.tally()
        """
        with self._engine.snapshot(self.reach, single_query=True) as reader:
            return reader.tally()

    def tip(self) -> int:
        """Return the newest position; 0 for an empty log.

        Example:
            memory.journal.tip()
        """
        with self._engine.snapshot(self.reach, single_query=True) as reader:
            return reader.tip()

    def list_damaged(self) -> list[str]:
        """Return the damaged records that reads met and left out so far: key, version and position of each.

        Example:
            memory.journal.list_damaged()
        """
        with self._engine.snapshot(self.reach, single_query=True) as reader:
            return reader.names_at(self.damaged)

    def undo(
        self,
        *,
        author: str | None = None,
        since: datetime | None = None,
        label: str | None = None,
        dry_run: bool = False,
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
            written = [
                record
                for record in reader.read(query)
                if record.scope != SYSTEM and (self.reach.unlimited or record.author == self.author)
            ]
            if label is None:
                written = _without_reverts(reader, written)
            undone = _positions_with_derived(reader, written)
            quarantined = {
                record.body["author"] for record in reader.read(_QUARANTINE_QUERY) if not record.body.get("released")
            }
            drafts, kept = [], []
            for key, positions in undone.items():
                history = reader.history(key)
                if history[-1].seq in positions and (self.reach.unlimited or history[-1].author == self.author):
                    good = next((record for record in reversed(history) if record.seq not in positions), None)
                    reverted = _revert_draft(history[-1], good, self.author, undo_label)
                    if reverted.author in quarantined or not self.reach.unlimited:  # it would be hidden, or refused
                        reverted = reverted._replace(author=self.author)
                    drafts.append(reverted)
                else:
                    kept.append(key)
            result = UndoResult(tuple(draft.key for draft in drafts), tuple(kept), undo_label)
            return drafts

        if dry_run:
            with self.snapshot() as reader:
                revert(reader)
            return replace(result, label="")
        writer = self._copy()
        writer._channel = "service"  # it brings back what a service wrote
        outcome = writer.append_if(revert)
        if isinstance(outcome, Refused):
            raise NotAllowed(outcome.reason)
        return result

    def quarantine(self, author: str, *, since: datetime | None = None, reason: str = "") -> Outcome:
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
        records = self.read(_QUARANTINE_QUERY)
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
        salt, receipt_id = self._erasure_salt(), self._new_id()

        def choose(reader: Reader) -> Sequence[Key | Record]:
            chosen[:] = self._choose_erased(reader, keys, subject, exact)
            return chosen

        def receipt(erased: EraseResult) -> ValidatedDraft:
            whole = [key for key in chosen if isinstance(key, Key)]
            files.extend(self._delete_files(whole, subject, exact))
            marks = {hash_erased_key(key, salt) for key in whole}
            marks |= {hash_erased_key(one.key, salt, one.version) for one in chosen if isinstance(one, Record)}
            body = {
                "records": erased.records, "versions": erased.versions, "by_kind": dict(erased.by_kind),
                "reason": reason, "salt": salt, "marks": sorted(marks),
            }  # fmt: skip
            body |= {"restored": erased.restored} if erased.restored else {}
            body |= {"files": len(files)} if files else {}
            draft = Draft(ERASURE, body=body, id=receipt_id, scope=SYSTEM, author=self.author, origin="erasure")
            validated = self._gate.validate(draft, allow_reserved=True)
            if isinstance(validated, Refused):
                raise InvalidInput(validated.reason)
            return validated

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
            chosen = self._choose_erased(reader, keys, subject, exact)
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
            kept = memory.journal.write("note", "We move to Berlin.")
            memory.journal.preview_restore(kept.record.key)
        """
        with self.snapshot() as reader:
            chosen = self._choose_erased(reader, keys, subject, exact)
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
        """Accept that acknowledged entries were lost at the end of the log, and return what is accepted.

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
            tombstones = list(self._replace_by_tombstones(reader, damaged, now))
        for result in self._engine.replay(self.reach, tombstones):
            if result.state == "refused":
                raise StoreDamaged(f"A damaged record could not be set aside: {result.reason}.")
        if damaged:
            self._engine.set_aside(find_fault, self._set_aside_draft)
            intact = [(entry.line, entry.digest) for entry in damaged if self._is_intact(entry)]
            list(self._engine.replay(self.reach, intact))
            self._engine.reindex()
        return [name_entry(entry.seq, entry.scope, entry.kind, entry.id, entry.version) for entry in damaged]

    def _is_intact(self, entry: DamagedEntry) -> bool:
        """Return whether an entry matches its digest and its kind, so that only its columns are damaged."""
        if digest_of(entry.line) != entry.digest:
            return False
        return self._gate.find_body_fault(parse_entry(entry.line, 0, entry.digest)) is None

    def _replace_by_tombstones(
        self, reader: Reader, damaged: Iterable[DamagedEntry], now: str
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield tombstones for the keys whose newest version is damaged while earlier ones are sound."""
        newest: dict[Key, int] = {}
        for entry in damaged:
            key = Key(entry.scope, entry.kind, entry.id)
            if key.scope != SYSTEM and not self._gate.falls_back(key.kind) and not self._is_intact(entry):
                newest[key] = max(entry.version, newest.get(key, 0))
        positions = {entry.seq for entry in damaged}
        for key, version in newest.items():
            sound = [record for record in reader.history(key, hidden=True) if record.seq not in positions]
            if sound and sound[-1].version < version and not sound[-1].deleted:
                draft = Draft(key.kind, id=key.id, scope=key.scope, origin="repair", deleted=True)
                content = encode_draft(draft).content
                tombstone = content[:-1] + entry_suffix(version + 1, to_iso(sound[-1].created_at), now)
                yield tombstone, digest_of(tombstone)

    def _set_aside_draft(self, entry: DamagedEntry) -> ValidatedDraft:
        line = entry.line[:_MAX_SET_ASIDE_BYTES]
        body: dict[str, Any] = {
            "position": entry.seq, "scope": entry.scope, "kind": entry.kind, "id": entry.id, "version": entry.version,
            "author": entry.author, "digest": entry.digest.hex(), "fault": entry.fault,
            "entry": line.decode("utf-8", "replace"),
        }  # fmt: skip
        if body["entry"].encode() != line:
            body["bytes"] = b64encode(line).decode()
        links = (Link(DERIVED_FROM, Key(entry.scope, entry.kind, entry.id)),)
        id = f"{entry.seq}-{digest_of(entry.line).hex()[:12]}"
        draft = Draft(SET_ASIDE, body=body, id=id, scope=SYSTEM, author=self.author, origin="repair", links=links)
        validated = self._gate.validate(draft, allow_reserved=True)
        if isinstance(validated, Refused):  # its key is damaged too
            validated = self._gate.validate(draft._replace(links=()), allow_reserved=True)
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

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
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
        refusals: dict[int, ReplayResult] = {}
        limit = None if self.reach.unlimited else self._refuse_in_quarantine()

        def accepted_entries() -> Iterator[tuple[bytes, bytes]]:
            for index, (entry, digest) in enumerate(lines):
                refused = limit or self._check_entry(entry, digest, same_log=same_log)
                if refused is None:
                    yield entry, digest
                else:
                    refusals[index] = refused

        index = 0
        receipt = None if same_log and self.reach.unlimited else partial(self._import_draft, source)
        for result in self._engine.replay(self.reach, accepted_entries(), receipt):
            while index in refusals:
                yield refusals.pop(index)
                index += 1
            yield result
            index += 1
        yield from (refusals[index] for index in sorted(refusals))

    def _import_draft(self, source: str, digests: Sequence[bytes]) -> ValidatedDraft:
        """Return the record that says who brought entries. Numbers are kept of their digests, which are no words."""
        shown = "".join(character if character.isprintable() else "?" for character in source)[:200]
        body = {"by": self.author, "source": shown, "digests": [_shorten_digest(digest) for digest in digests]}
        validated = self._gate.validate(
            Draft(IMPORT, body=body, scope=SYSTEM, origin="import"), self._new_id(), allow_reserved=True
        )
        if isinstance(validated, Refused):
            raise InvalidInput(validated.reason)
        return validated

    def find_imports(self, records: Sequence[Record]) -> dict[bytes, ImportReceipt]:
        """Return who imported these versions, by their digests. Versions that were written here are left out.

        Args:
            records: The records.
        """
        wanted = {_shorten_digest(record.digest): record.digest for record in records}
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
            quarantines = [record.body for record in reader.read(_QUARANTINE_QUERY)]
        if any(body["author"] == self.author and not body.get("released") for body in quarantines):
            return ReplayResult("refused", f"{self.author!r} is in quarantine; only the owner imports what it wrote")
        return None

    def _check_entry(self, entry: bytes, digest: bytes, *, same_log: bool) -> ReplayResult | None:
        """Return why an entry of another log is refused, or ``None``."""
        if digest_of(entry) != digest:
            return ReplayResult("refused", "the line does not match its digest")
        try:
            record = parse_entry(entry, 0, digest)
            validated = self._gate.validate(draft_from(record), allow_reserved=True, allow_misfit=True)
            if isinstance(validated, Refused):
                return ReplayResult("refused", validated.reason)
            if not self.reach.unlimited and self.author != record.author:
                author = repr(record.author)[:80] if record.author else "the owner"
                return ReplayResult("refused", f"{author} wrote it; only the owner imports what others wrote")
            if not (self.reach.unlimited and same_log) and (barred := self._check_imported(validated)) is not None:
                return ReplayResult("refused", barred.reason)
            if not record.id:
                return ReplayResult("refused", "the id is empty")
            if record.version.__class__ is not int or not 0 < record.version < 2**31 or entry_bytes(record) != entry:
                return ReplayResult("refused", "the line is not in canonical form")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return ReplayResult("refused", f"not a line of a log ({error})")
        return None

    def _check_imported(self, entry: ValidatedDraft) -> Refused | None:
        """Refuse an entry that its caller may not bring."""
        draft = entry.draft
        if self._rules is None:
            return self.with_valid_bodies()._check_author(draft)
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

    def _append_system_record(self, draft: Draft) -> Outcome:
        """Write a record of a reserved kind."""
        if not self.reach.unlimited:
            return Refused("not_allowed", "Only the owner of the store may do this.")
        validated = self._validate_drafts([draft], allow_reserved=True)
        return validated if isinstance(validated, Refused) else self._engine.append(self.reach, validated)

    def _choose_erased(
        self, reader: Reader, keys: Sequence[Key], subject: str | None, exact: bool
    ) -> list[Key | Record]:
        if subject and len(subject) > _MAX_SUBJECT_LENGTH:
            raise InvalidInput(
                f"The subject has {len(subject):,} characters; at most {_MAX_SUBJECT_LENGTH:,} are allowed.",
                hint="Name a record, or give the first words of the text.",
            )
        chosen = dict.fromkeys(keys)
        if subject:
            mentioning = reader.read(Query(mentions=subject, every_version=True, hidden=True))
            named = (record.key for record in mentioning if names_subject(entry_bytes(record), subject, exact=exact))
            chosen.update(dict.fromkeys(named))
        protected = RESERVED_KINDS - ({QUARANTINE, SET_ASIDE, IMPORT} if subject else {SET_ASIDE})
        protected |= {API_TOKEN, PAGE_SESSION, TOKEN_USE}  # a hash may hold any letters; tokens are revoked, not erased
        erased = choose_erased(reader, chosen)
        return [entry for entry in erased if entry.scope != SYSTEM or entry.kind not in protected]

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


def _without_reverts(reader: Reader, written: Sequence[Record]) -> list[Record]:
    """Return the versions without those by which an undo brought back an earlier version, or nothing where there was none.

    What the origin says does not suffice: the writer chose it.
    """
    positions = {record.seq for record in written}

    def is_revert(record: Record) -> bool:
        if record.origin != "undo":
            return False
        earlier = (version for version in reversed(reader.history(record.key)) if version.seq < record.seq)
        good = next((version for version in earlier if version.seq not in positions), None)
        if record.deleted or good is None or good.deleted:
            return record.deleted and (good is None or good.deleted)
        return (record.text, record.body) == (good.text, good.body)

    return [record for record in written if not is_revert(record)]


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


def _shorten_digest(digest: bytes) -> int:
    """Return the first 48 bits of a digest."""
    return int.from_bytes(digest[:6])


def _hash_author(author: str) -> str:
    """Return a valid record id for any author name."""
    return hashlib.sha256(author.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _query_in_utc(query: Query) -> Query:
    """Return the query with every time in UTC; one without a zone is read as UTC."""
    if query.since is query.until is query.recorded_since is None and not isinstance(query.as_of, datetime):
        return query
    return replace(
        query,
        since=query.since and to_utc(query.since),
        until=query.until and to_utc(query.until),
        recorded_since=query.recorded_since and to_utc(query.recorded_since),
        as_of=to_utc(query.as_of) if isinstance(query.as_of, datetime) else query.as_of,
    )
