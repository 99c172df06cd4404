"""Reads and writes of the log on behalf of one caller, whose reach and name it knows; drafts pass the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, IdMaker, Time, to_as_of, to_iso, to_utc
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, NO_BODY, Draft, Key, Link, Record, ValidatedDraft
from lukasa.core.scope import FULL_REACH, SHARED, SYSTEM, Reach, check_agent_name, poses_as_another
from lukasa.errors import NotAllowed, StoreDamaged
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
    QUARANTINE,
    Engine,
    Match,
    Neighbour,
    Query,
    Reader,
    SharedCounters,
    Tally,
)
from lukasa.storage.parsed_records import ParsedRecords

T = TypeVar("T")

_PAGE_SIZE = 500
_MIN_BATCH = 16  # a batch of so many drafts is validated at once
QUARANTINE_QUERY = Query(kinds=(QUARANTINE,), scopes=(SYSTEM,))

ConditionalDrafts = Callable[[Reader], "Sequence[Draft] | Refused"]
"""A function that reads the store inside the write lock and returns drafts to append, or a refusal."""


class JournalSnapshot:
    """A snapshot for the readers of a journal, which learns of the damaged records that they find."""

    __slots__ = ("_journal", "_reader", "_single_query", "_snapshot")

    def __init__(self, journal: LogAccess, *, single_query: bool) -> None:
        self._journal = journal
        self._single_query = single_query

    def __enter__(self) -> Reader:
        journal = self._journal
        self._snapshot = journal._engine.snapshot(journal.reach, single_query=self._single_query)
        reader = self._reader = self._snapshot.__enter__()
        reader.find_fault, reader.skips_damaged = journal._find_fault, journal._skips_damaged
        return reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._journal.damaged |= self._reader.damaged
        return self._snapshot.__exit__(kind, error, trace)


@check_arguments
class LogAccess:
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self}>"

    def __str__(self) -> str:
        """Name the store and the caller, for people."""
        scopes = self.reach.readable
        caller = "the owner" if scopes is None else f"a caller of {', '.join(sorted(scopes)):.60}"
        return f"{self._engine} for {self.author or caller}"

    def with_reach(self, reach: Reach, author: str) -> Self:
        """Return a journal of the same log for another caller. Only the owner may do this.

        Args:
            reach: What the other caller may read and write.
            author: The name of the other caller.
        """
        self._require_owner("hand it out")
        return self._copy(reach=reach, author=author)

    def _copy(
        self, engine: Any = None, reach: Reach | None = None, author: str | None = None, channel: Channel = "raw"
    ) -> Self:
        copy = type(self)(
            engine or self._engine,
            self._gate,
            reach or self.reach,
            self._clock,
            self._new_id,
            author=self.author if author is None else author,
            trust_of=self._trust_of,
        )
        copy._channel = channel
        return copy

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

    def for_request(self, key: str, fingerprint: bytes) -> Self:
        """Return a journal of the same caller whose writes raise ``RepeatedRequest`` when the request is repeated.

        Args:
            key: The key of the request.
            fingerprint: A digest of the request; a key that was used for another request is refused.
        """
        return self._copy(RequestLog(self._engine, key, fingerprint))

    def end_request(self) -> None:
        """End the request that ``for_request`` began: later writes, such as those of a close, are plain writes."""
        if isinstance(self._engine, RequestLog):
            self._engine.has_ended = True

    def with_valid_bodies(self, *, skip_damaged: bool = True) -> Self:
        """Return a journal for services: it writes the kinds that services write (see ``lukasa.journal.write_rules``).

        A record whose body is not as its kind declares is damaged for it: one of an older store, another program or an import.
        ``get`` returns ``None`` for a damaged record unless ``skip_damaged`` is false; then it raises ``StoreDamaged``, for
        services that recover what is lost.

        Args:
            skip_damaged: Return ``None`` for a damaged record; else raise ``StoreDamaged``.
        """
        journal = self._copy(channel="service")
        journal.damaged, journal._find_fault = self.damaged, self._gate.find_body_fault
        journal._skips_damaged = skip_damaged
        return journal

    @property
    def home_scope(self) -> str | None:
        """The scope of the caller's own records: the agent's, else the project's, else the shared one, else the first by name.

        ``None`` when the caller may read and write no scope at all.
        """
        names = (self.author, self.reach.project, SHARED, *sorted(self.reach.writable or ()))
        return next((name for name in names if name and self.reach.reads(name) and self.reach.writes(name)), None)

    def write(
        self, kind: str, text: str = "", body: Mapping[str, Any] | None = None, *, id: str = "", scope: str = SHARED,
        author: str = "", origin: str = "manual", links: Iterable[Link] = (), labels: Iterable[str] = (),
        happened_at: Time | None = None, expected: int | None = None, key: str | None = None,
    ) -> Outcome:  # fmt: skip
        """Write one record. A call with a ``key`` used before returns the first outcome.

        Args:
            kind: The kind of record.
            text: The text that recall searches.
            body: The fields of the record, as JSON.
            id: The id; default: a new one.
            scope: The scope to write to.
            author: Who said it; default: the caller.
            origin: Where the record comes from, in one word.
            links: Links to other records.
            labels: Words such as ``tag=team`` that queries filter by.
            happened_at: When it happened, if that is not now.
            expected: The version that the record must have; 0: there must be none.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            memory.journal.write("note", "Ben is on leave.", labels=("tag=team",))
        """
        draft = Draft(
            kind, text, NO_BODY if body is None else dict(body), id, scope, author, origin, tuple(links), tuple(labels),
            None if happened_at is None else to_utc(happened_at), expected=expected,
        )  # fmt: skip
        return self._append([draft], key)

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
            def add_once(reader: Reader) -> list[lukasa.Draft]:
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
            found = [record for record in reader.read(QUARANTINE_QUERY) if record.body["author"] == self.author]
        started = [record.body.get("since") or to_iso(record.recorded_at) for record in found]
        return replace(outcome, details={QUARANTINE: {"since": started[-1]}} if started else {})

    def _drafts_to_look_up(self, validated: Sequence[ValidatedDraft]) -> list[Draft]:
        """Return the drafts of a limited caller that the rules can judge only after reading the store."""
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
        for draft in drafts:
            refused = self._check_author(draft, "raw")
            if refused is None and self._rules is not None and self._rules.needs_look(draft, "raw"):
                refused = self._rules.check_target(reader, draft, "raw")
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
            f"{refused.reason} The owner decides; proposal {proposal.id} keeps the change (`lukasa proposals list`).",
            {"proposal": proposal.id, "scope": proposal.scope},
        )

    def delete(self, key: Key, *, expected: int | None = None, origin: str = "manual") -> Outcome:
        """Append a tombstone; refuse with ``not_found`` when there is no such record.

        Args:
            key: The key of the record: scope, kind and id.
            expected: The version that the caller has read; another one is a ``Conflict``.
            origin: Where the record comes from, in one word.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.").unwrap()
            memory.journal.delete(kept.key)
        """

        def tombstone(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(key)
            if record is None:
                return Refused("not_found", f"There is no record {key}.")
            return [tombstone_draft(record, self.author, origin, expected)]

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
        """Validate a large batch at once; ``None`` if they must be checked one by one, to find the draft to refuse."""
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
        """Refuse the name of another agent as the author of the caller's writes. The owner may name any agent.

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

    def _check_author(self, draft: Draft, channel: Channel | None = None) -> Refused | None:
        """Refuse a draft in a name that the caller may not use, and a rule for others that the owner did not set."""
        author, kind = draft.author, draft.kind
        if author.__class__ is not str or kind.__class__ is not str:
            return None  # the gate refuses it
        if self.reach.unlimited:
            if author and poses_as_another(author):
                reason = f"{author!r} is no agent's name; name the agent that wrote it, or leave the author out."
                return Refused("bad_author", reason)
            is_stores = (channel or self._channel) == "raw" and self._gate.spec(kind).written_by == "store"
            return refuse_kind(kind) if is_stores and not draft.deleted else None
        assert self._rules is not None
        if (refused := self._check_rule(draft)) is not None or (refused := self.check_author(author)) is not None:
            return refused
        return self._rules.check_kind(draft, channel or self._channel)

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
        return JournalSnapshot(self, single_query=single_query)

    def get(self, key: Key, *, as_of: Time | int | None = None, version: int | None = None) -> Record | None:
        """Return the current record, the one as of a time or position, or one version of it.

        Args:
            key: The key of the record: scope, kind and id.
            as_of: An earlier time, or a position in the log.
            version: The number of a version; default: the newest.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.", id="n-1")
            memory.journal.get(lukasa.Key("shared", "note", "n-1"))
        """
        with self._open_reader(single_query=True) as reader:
            return reader.get(key, as_of=to_as_of(as_of), version=version)

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
        """Return the value that ``parsed`` has or makes of the current record.

        Args:
            key: The key of the record: scope, kind and id.
            parsed: The values made of records before, and the function that makes them.
        """
        with self._open_reader(single_query=True) as reader:
            return reader.get_parsed(key, parsed)

    def read_parsed(self, query: Query, parsed: ParsedRecords[T]) -> list[T]:
        """Return the value that ``parsed`` has or makes of each record of a query, as of one moment.

        Args:
            query: Which records, in which order.
            parsed: The values made of records before, and the function that makes them.
        """
        with self._open_reader(single_query=True) as reader:
            return reader.read_parsed(query, parsed)

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        """Return every stored version, oldest first; ``hidden`` includes quarantined ones, for the owner only.

        Args:
            key: The key of the record: scope, kind and id.
            hidden: Return quarantined versions too; for the owner only.

        Example:
            kept = memory.journal.write("note", "Ben is on leave.").unwrap()
            memory.journal.history(kept.key)
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
            kept = memory.journal.write("note", "Ben is on leave.").unwrap()
            memory.journal.neighbours(kept.key)
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

    def _append_system_record(self, draft: Draft) -> Outcome:
        """Write a record of a reserved kind."""
        if not self.reach.unlimited:
            return Refused("not_allowed", "Only the owner of the store may do this.")
        validated = self._validate_drafts([draft], allow_reserved=True)
        return validated if isinstance(validated, Refused) else self._engine.append(self.reach, validated)

    def _require_owner(self, action: str) -> None:
        if not self.reach.unlimited:
            raise NotAllowed(f"Only the owner of the store may {action}.")


def tombstone_draft(record: Record, author: str, origin: str, expected: int | None = None) -> Draft:
    """Return the draft that deletes a record."""
    return Draft(
        record.kind, id=record.id, scope=record.scope, author=author, origin=origin, labels=record.labels,
        deleted=True, expected=expected,
    )  # fmt: skip


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
