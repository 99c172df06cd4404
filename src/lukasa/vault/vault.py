"""The vault service: curated memory for one caller.

Every memory passes the write gate in the document's order. The checks that need no store run first
(``lukasa.vault.checks``). Register upsert, near-duplicate and capacity read the store inside the conditional append that
writes, so that no other writer can come between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.choices import SEARCH_PROFILES, SearchProfile, Tier
from lukasa.core.clock import Clock, Time
from lukasa.core.freshness import EXPIRES_AT, confirmation_times, confirmed_body, is_expired
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Draft, Key, Record, draft_from
from lukasa.core.scope import SHARED, SYSTEM
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import CallerService, Journal
from lukasa.pii.detector import find_pii_once
from lukasa.recall.prompt import PromptBlock
from lukasa.recall.unconfirmed_orders import CORROBORATION
from lukasa.storage.engine import LogCompactionResult, Query, Reader, split_into_chunks
from lukasa.text.orders import find_order_in
from lukasa.vault import REFUSED_CANON, blocks, placement
from lukasa.vault.checks import (
    ComparableText,
    DuplicateMatch,
    MemoryProposal,
    StoreChecks,
    check_proposal,
    default_tier,
    memory_draft,
    memory_key,
    read_expiry,
    read_register,
    refuse_missing,
)
from lukasa.vault.lexical_search import VaultHit, search_lexically
from lukasa.vault.memory import VaultMemory, encode_version, parse_memory, parse_versions, proposal_from_record
from lukasa.vault.promotion import check_promotion, corroboration_draft, corroboration_drafts
from lukasa.vault.refusals import RefusalCounter
from lukasa.vault.review import (
    DeletionSuggestion,
    SimilarMemoryPair,
    compute_stats,
    find_similar_pairs,
    suggest_deletions,
)
from lukasa.vault.settings import CANON, MEMORY_KIND, REGISTER, VaultSettings

if TYPE_CHECKING:
    from lukasa.recall.recall import Recall

_CHUNK_SIZE = 1_000
_MAX_ATTEMPTS = 5
_MAX_SIMILAR = 3
_UNCHANGED: Any = object()
_BUSY = Refused("busy", "Others kept changing the same memories; nothing was written, try again.")


@check_arguments
class Vault(CallerService):
    """Keeps, deletes and finds curated memories."""

    def __init__(
        self,
        journal: Journal,
        recall: Callable[[], Recall],
        clock: Clock,
        rng: random.Random,
        rules: VaultSettings | None = None,
        count_vault: Callable[[], int] | None = None,
    ) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._rng = rng
        self._refusals = RefusalCounter(journal)
        self._count_vault = count_vault
        self.rules = rules or VaultSettings()

    def add_memory(
        self,
        text: str,
        scope: str = SHARED,
        category: str = "general",
        *,
        tier: Tier | None = None,
        topic_id: str | None = None,
        tags: Iterable[str] = (),
        source: str | None = "manual",
        author: str = "",
        distinct_from: str | Iterable[str] = (),
        expires_at: Time | None = None,
    ) -> Outcome:
        """Keep a memory if the gate accepts it. A register with a known topic is updated in place.

        A text that only repeats a memory is refused; ``distinct_from`` names memories that it does not repeat. An accepted
        outcome names, in ``details["similar_to"]``, the memories that say something similar, with the difference. From ``expires_at`` on, recall and blocks leave the memory out.

        Args:
            text: The fact, in plain words; at most 1,200 characters.
            scope: The scope to write to.
            category: A word that groups such entries.
            tier: ``canon`` for a lasting fact, ``register`` for one that changes and has a topic; default: canon for what the
                owner says without a topic, else a register. Only the owner writes canon at once.
            topic_id: A word for what the fact is about; the next fact with the same topic and scope replaces it.
            tags: Words to find it by; recall filters with ``labels=["tag=…"]``.
            source: Where it comes from: ``chat``, ``manual``, ``tool``, …
            author: Who says so; default: the caller.
            distinct_from: The ids of memories that the text does not repeat, although it looks like it.
            expires_at: From this time on recall and prompts leave it out.

        Example:
            memory.vault.add_memory("We deploy on Tuesdays.", tier="register", topic_id="deploy day")
        """
        item = {
            "text": text, "scope": scope, "category": category, "tier": tier or "", "topic_id": topic_id, "tags": tags,
            "source": source, "author": author, "distinct_from": distinct_from, "expires_at": expires_at,
        }  # fmt: skip
        return self._count_refusal(self._add(self._validate_item(item, is_new=True)))

    def bulk_add(self, items: Iterable[MemoryProposal | Mapping[str, Any] | str]) -> Sequence[Outcome]:
        """Keep many memories; each gets its verdict as if they had been added one after the other.

        Args:
            items: Texts, or mappings with the arguments of ``add_memory``.

        Example:
            memory.vault.bulk_add(["We deploy on Tuesdays.", {"text": "Ben leads the team.", "category": "team"}])
        """
        outcomes: list[Outcome] = []
        chunk: list[MemoryProposal | Refused] = []
        for item in items:
            chunk.append(self._validate_item(item, is_new=True))
            if len(chunk) >= _CHUNK_SIZE:
                outcomes += self._write_chunk(chunk)
                chunk = []
        outcomes += self._write_chunk(chunk)
        return [self._count_refusal(outcome) for outcome in outcomes]

    def judge(self, item: MemoryProposal | Mapping[str, Any] | str) -> Refused | None:
        """Return why the gate would refuse a memory, or ``None`` if it would accept it; nothing is written.

        Args:
            item: A text, or a mapping with the arguments of ``add_memory``.

        Example:
            memory.vault.judge("heartbeat ok")
        """
        proposal = self._validate_item(item, is_new=True)
        if isinstance(proposal, Refused):
            return proposal
        text, hidden = ComparableText(proposal.text, proposal.scope), self._count_unreadable()
        with self._journal.snapshot() as reader:
            answer = StoreChecks(reader, self.rules, [text], hidden).draft_memory(proposal, text)
        return answer if isinstance(answer, Refused) else None

    def update_by_topic(
        self, topic_id: str, scope: str, text: str, category: str | None = None, *, tags: Iterable[str] | None = None,
        distinct_from: str | Iterable[str] | None = None, expires_at: Time | None = None,
        source: str | None = "manual", author: str = "",
    ) -> Outcome:  # fmt: skip
        """Update the register with this topic and scope, or create it. Fields that are not given stay as they were.

        Args:
            topic_id: A word for what the fact is about; the next fact with the same topic and scope replaces it.
            scope: The scope.
            text: The fact, in plain words; at most 1,200 characters.
            category: Another category.
            tags: Other tags.
            distinct_from: Other ids of memories that the text does not repeat, although it looks like it.
            expires_at: From this time on recall and prompts leave it out.
            source: Where the statement comes from, in one word.
            author: Who says it; default: the caller.

        Example:
            memory.vault.update_by_topic("deploy day", "shared", "We deploy on Wednesdays.")
        """
        with self._journal.snapshot() as reader:
            known = read_register(reader, topic_id, scope)
        if known is not None:
            old = proposal_from_record(known)
            tags = old.tags if tags is None else tags
            distinct_from = old.distinct_from if distinct_from is None else distinct_from
            category = category or old.category
        return self.add_memory(
            text, scope, category or "general", tier=REGISTER, topic_id=topic_id, tags=tags or (), source=source,
            author=author, distinct_from=distinct_from or (), expires_at=expires_at,
        )  # fmt: skip

    def update(
        self,
        id: str,
        text: str | None = None,
        *,
        category: str | None = None,
        topic_id: str | None = _UNCHANGED,
        tags: Iterable[str] | None = None,
        source: str = "manual",
        scope: str | None = None,
        expected: int | None = None,
        author: str = "",
        distinct_from: str | Iterable[str] = (),
        expires_at: Time | None = _UNCHANGED,
    ) -> Outcome:
        """Append a new version of a memory. It passes the gate again; its tier changes only by promotion.

        Canon whose words an agent changes is a register again.

        Args:
            id: The id of the memory.
            text: The new text; default: the old one.
            category: Another category.
            topic_id: Another topic.
            tags: Other tags.
            source: Where it comes from: ``chat``, ``manual``, ``tool``, …
            scope: The scope; default: wherever the caller finds it.
            expected: The version that the caller has read; another one is a ``Conflict``.
            author: Who says so; default: the caller.
            distinct_from: The ids of memories that the text does not repeat, although it looks like it.
            expires_at: Another expiry; ``None`` removes it.

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            memory.vault.update(kept.id, "We deploy on Wednesdays.", expected=1)
        """
        # The condition may run twice, an iterator only once.
        given = {"text": text, "category": category, "tags": None if tags is None else tuple(tags)}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if topic_id is not _UNCHANGED:
            changes["topic_id"] = topic_id
        others = (distinct_from,) if isinstance(distinct_from, str) else tuple(distinct_from)
        similar: list[DuplicateMatch] = []
        if expires_at is not _UNCHANGED:
            changes["expires_at"] = read_expiry(expires_at)
        self._scan_before_lock(text)

        def revise(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            if record is None:
                return refuse_missing(id)
            old = proposal_from_record(record)
            for other in others:
                if reader.get(memory_key(record.scope, other)) is None:
                    return refuse_missing(other)
            distinct = tuple(dict.fromkeys((*old.distinct_from, *others)))
            new = replace(old, **changes, source=source, author=author, distinct_from=distinct)
            if record.author and new.text != old.text and default_tier(self.rules, self._journal.reach) != CANON:
                new = replace(new, tier=REGISTER)  # nobody has corroborated the new words
            return self._revision_drafts(reader, record, new, similar, expected)

        return self._count_refusal(_add_similar(self._note_orders(self._journal.append_if(revise)), similar))

    def _note_orders(self, outcome: Outcome) -> Outcome:
        """Return an accepted outcome that says whether the record gives orders and waits to be confirmed."""
        if not isinstance(outcome, Accepted) or not outcome.records:
            return outcome
        written = outcome.records[0]
        if self._journal.reach.unlimited and not written.author:
            return outcome  # the owner's own word
        reason = find_order_in(written)
        return replace(outcome, details={**outcome.details, "gives_orders": reason}) if reason else outcome

    def _scan_before_lock(self, text: str | None) -> None:
        """Scan a new text for personal data, so that the checks inside the write lock find it scanned."""
        if isinstance(text, str) and len(text) <= self.rules.longest:
            find_pii_once([text])

    def _revision_drafts(
        self,
        reader: Reader,
        record: Record,
        new: MemoryProposal,
        similar: list[DuplicateMatch],
        expected: int | None = None,
        **notes: Any,
    ) -> Sequence[Draft] | Refused:
        """Return the next version of a memory if the gate accepts it; put the memories similar to it into ``similar``."""
        proposal, links = self._validate_item(new), record.links
        if isinstance(proposal, Refused):
            return proposal
        if proposal.text != record.text:
            links = tuple(link for link in links if link.to != record.key)  # the words before are gone
            text = ComparableText(proposal.text, proposal.scope)
            exclude = {record.id, *proposal.distinct_from}
            found = StoreChecks(reader, self.rules, [text]).check(text, exclude, is_new=False)
            if isinstance(found, Refused):
                return found
            similar[:] = found
        else:
            notes = {**confirmation_times(record), **notes}
        version = record.version if expected is None else expected
        draft = memory_draft(proposal, record.id, expected=version, links=links, **notes)
        if proposal.text == record.text and not draft.author:  # whose words they are stays named
            draft = self._journal.revise(draft._replace(author=record.author))
        return [draft]

    def _validate_item(
        self, item: MemoryProposal | Mapping[str, Any] | str, *, is_new: bool = False
    ) -> MemoryProposal | Refused:
        """Return the proposal as it may be kept, or why the checks that need no store refuse it.

        New canon comes from the owner; what an agent says is a register.
        """
        try:
            proposal = MemoryProposal.from_item(item)
        except TypeError:
            return Refused("bad_item", "A memory needs a text; its other fields are those of add_memory.")
        if proposal.author.__class__ is str and (refused := self._journal.check_author(proposal.author)) is not None:
            return refused
        default = default_tier(self.rules, self._journal.reach)
        if not proposal.tier:
            proposal = replace(proposal, tier=default if proposal.topic_id is None else REGISTER)
        checked = check_proposal(proposal, self.rules, self._journal.reach)
        if is_new and proposal.tier == CANON != default and not isinstance(checked, Refused):
            return REFUSED_CANON
        return checked

    def _add(self, proposal: MemoryProposal | Refused) -> Outcome:
        """Write one memory that passed the checks without a store."""
        if isinstance(proposal, Refused):
            return proposal
        text, hidden = ComparableText(proposal.text, proposal.scope, self._new_id()), self._count_unreadable()
        similar: Sequence[DuplicateMatch] = ()

        def place(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal similar
            answer = StoreChecks(reader, self.rules, [text], hidden).draft_memory(proposal, text)
            if isinstance(answer, Refused):
                return answer
            draft, similar = answer
            return [draft]

        for _ in range(_MAX_ATTEMPTS):
            outcome = self._journal.append_if(place)
            if not isinstance(outcome, Conflict):
                return _add_similar(self._note_orders(outcome), similar)
            text.id = self._new_id()  # the new id may exist already
        return _BUSY

    def _write_chunk(self, chunk: Sequence[MemoryProposal | Refused]) -> Sequence[Outcome]:
        """Write a chunk in one batch and return its verdicts. If the batch is refused, write each memory alone."""
        proposals = {index: item for index, item in enumerate(chunk) if not isinstance(item, Refused)}
        if len(proposals) < 2:
            return [self._add(item) for item in chunk]
        texts = {index: ComparableText(item.text, item.scope, self._new_id()) for index, item in proposals.items()}
        hidden = self._count_unreadable()
        answers: dict[int, tuple[Draft, Sequence[DuplicateMatch]] | Refused] = {}

        def place_all(reader: Reader) -> Sequence[Draft] | Refused:
            checks = StoreChecks(reader, self.rules, texts.values(), hidden)
            answers.update({index: checks.draft_memory(item, texts[index]) for index, item in proposals.items()})
            drafts = [answer[0] for answer in answers.values() if not isinstance(answer, Refused)]
            return drafts or Refused("nothing", "The vault accepted none of the memories.")

        outcome = self._journal.append_if(place_all, proposes=False)
        refused = {index: answer for index, answer in answers.items() if isinstance(answer, Refused)}
        if not isinstance(outcome, Accepted) and len(refused) < len(answers):
            return [self._add(item) for item in chunk]
        records = iter(outcome.records if isinstance(outcome, Accepted) else ())
        outcomes: list[Outcome] = []
        for index, item in enumerate(chunk):
            answer = item if isinstance(item, Refused) else answers[index]
            if isinstance(answer, Refused):
                outcomes.append(answer)
            else:
                own = replace(outcome, records=[next(records)]) if isinstance(outcome, Accepted) else outcome
                outcomes.append(_add_similar(self._note_orders(own), answer[1]))
        return outcomes

    def _count_unreadable(self) -> int:
        """Count the active memories of the vault that the caller may not read; capacity counts them too."""
        if self._count_vault is None or self._journal.reach.readable is None:
            return 0
        with self._journal.snapshot() as reader:
            readable = sum(row.live for row in reader.tally() if row.kind == MEMORY_KIND)
            return max(0, self._count_vault() - readable)

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(48):012x}"

    def restore(self, histories: Iterable[Sequence[VaultMemory]]) -> Iterator[int | Refused]:
        """Import memories of another vault with their ids, times and earlier versions.

        The newest version of each passes the gate; a refused memory is left out with its whole history. Yields for each
        memory how many of its versions are new.

        Args:
            histories: The memories, each with all its versions, oldest first.

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            with lukasa.open("memory:") as copy:
                list(copy.vault.restore([memory.vault.history(kept.id)]))
        """
        for chunk in split_into_chunks(histories, _CHUNK_SIZE):
            yield from self._restore_chunk(chunk)

    def _restore_chunk(self, chunk: Sequence[Sequence[VaultMemory]]) -> Sequence[int | Refused]:
        newest = [max(history, key=lambda memory: memory.version) for history in chunk]
        proposals = [self._validate_item(memory.to_proposal(), is_new=True) for memory in newest]
        texts = {
            index: ComparableText(proposal.text, proposal.scope, memory.id)
            for index, (proposal, memory) in enumerate(zip(proposals, newest, strict=True))
            if not isinstance(proposal, Refused) and memory.deleted_at is None
        }
        answers: list[int | Refused] = []
        entries: list[tuple[int, tuple[bytes, bytes]]] = []
        hidden = self._count_unreadable()
        with self._journal.snapshot() as reader:
            checks = StoreChecks(reader, self.rules, texts.values(), hidden)
            for index, (proposal, history) in enumerate(zip(proposals, chunk, strict=True)):
                refused = proposal if isinstance(proposal, Refused) else None
                if (text := texts.get(index)) is not None:  # a tombstone has none and takes no capacity
                    is_new = reader.get(memory_key(text.scope, text.id)) is None
                    found = checks.check(text, {text.id, *newest[index].distinct_from}, is_new=is_new)
                    refused = found if isinstance(found, Refused) else None
                answers.append(0 if refused is None else refused)
                if refused is None:
                    entries += [(index, encode_version(memory, self._journal.author)) for memory in history]
        replayed = self._journal.replay(entry for _, entry in entries)
        for (index, _), result in zip(entries, replayed, strict=True):
            added = answers[index]
            if result.state == "refused":
                answers[index] = Refused("not_restored", f"The memory could not be restored: {result.reason}")
            elif result.state == "added" and isinstance(added, int):
                answers[index] = added + 1
        return answers

    def confirm(
        self, id: str, *, scope: str | None = None, expires_at: Time | None = None, author: str = ""
    ) -> Outcome:
        """Record that a memory still holds: a new version with ``confirmed_at`` and the source ``confirmation``.

        ``expires_at`` sets a new expiry, which an expired memory needs. A memory that gives orders is shown in prompts once the
        owner or a second author confirms it. The owner confirms records of other kinds too: notes, patterns, skills, turns, …

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.
            expires_at: From this time on recall and prompts leave it out.
            author: Who confirms; default: the caller.

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            memory.vault.confirm(kept.id)
        """
        stands_by = self._journal.reach.unlimited and not author

        def confirm(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            if record is None:
                other = self._find_other(reader, id, scope) if stands_by else None
                return (
                    refuse_missing(id) if other is None else [corroboration_draft(other, other.version, "", "manual")]
                )
            now = self._clock.now()
            if is_expired(record, now) and expires_at is None:
                return Refused(
                    "expired",
                    f"Memory {record.id} expired at {record.body[EXPIRES_AT]}. Give the time until which it holds now "
                    "(expires_at, --expires-at), or remember what holds instead.",
                    {EXPIRES_AT: record.body[EXPIRES_AT]},
                )
            body = confirmed_body(record, now, expires_at)
            draft = draft_from(record, body=body, origin="confirmation", expected=record.version)
            confirmed = draft._replace(author=author) if author else self._journal.revise(draft)
            if not stands_by or not find_order_in(record):
                return [confirmed]
            return [confirmed, corroboration_draft(record, record.version + 1, "", "manual")]

        outcome = self._journal.append_if(confirm)
        if isinstance(outcome, Accepted) and len(outcome.records) > 1:
            outcome = replace(outcome, records=[outcome.records[0]])
        return self._count_refusal(outcome)

    def _find_other(self, reader: Reader, id: str, scope: str | None) -> Record | None:
        """Return the record of another kind with an id, in any of the scopes."""
        rows = (row for row in reader.tally() if row.scope != SYSTEM and scope in (None, row.scope))
        keys = (Key(row.scope, row.kind, id) for row in rows if row.kind not in (MEMORY_KIND, CORROBORATION))
        return next((record for key in keys if (record := reader.get(key)) is not None), None)

    def delete(self, id: str, *, scope: str | None = None, source: str = "manual") -> Outcome:
        """Append a tombstone; the history stays. An unknown id is refused with ``not_found``.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.
            source: Where it comes from: ``chat``, ``manual``, ``tool``, …

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            memory.vault.delete(kept.id)
        """
        return self.bulk_delete([id], scope=scope, source=source)[0]

    def bulk_delete(self, ids: Iterable[str], *, scope: str | None = None, source: str = "manual") -> Sequence[Outcome]:
        """Delete many memories, notes or directives in one batch; each id gets its verdict.

        Args:
            ids: The ids.
            scope: The scope; default: wherever the caller finds it.
            source: Where it comes from: ``chat``, ``manual``, ``tool``, …

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            memory.vault.bulk_delete([kept.id])
        """
        wanted = list(ids)
        drafts: dict[int, Draft] = {}

        def tombstones(reader: Reader) -> Sequence[Draft] | Refused:
            drafts.clear()
            deleted: set[Key] = set()
            for index, id in enumerate(wanted):
                record = self._find_memory(reader, id, scope)
                record = record or placement.find_note_or_directive(self._journal, reader, id, scope)
                if record is not None and record.key not in deleted:
                    deleted.add(record.key)
                    drafts[index] = Draft(
                        record.kind, id=record.id, scope=record.scope, origin=source, deleted=True,
                        expected=record.version,
                    )  # fmt: skip
            return list(drafts.values()) or Refused("nothing", "There is nothing to forget.")

        outcome = self._journal.append_if(tombstones, proposes=len(wanted) == 1)
        if isinstance(outcome, Refused) and outcome.code == "needs_owner" and len(wanted) > 1:
            return [self.bulk_delete([id], scope=scope, source=source)[0] for id in wanted]
        outcomes: list[Outcome] = [refuse_missing(id) for id in wanted]
        for position, index in enumerate(drafts):
            outcomes[index] = Accepted([outcome.records[position]]) if isinstance(outcome, Accepted) else outcome
        return outcomes

    def get(self, id: str, *, scope: str | None = None) -> VaultMemory | None:
        """Return the memory as it is now, or ``None`` if there is none or it was deleted.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            memory.vault.get(kept.id)
        """
        with self._journal.snapshot() as reader:
            record = self._find_memory(reader, id, scope)
        return None if record is None else parse_memory(record)

    def list(
        self,
        scope: str | None = None,
        *,
        tier: Tier | None = None,
        category: str | None = None,
        topic_id: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
    ) -> Sequence[VaultMemory]:
        """List the memories that match all filters, oldest first.

        Args:
            scope: Only memories of this scope.
            tier: Only memories of this tier.
            category: Only memories of this category.
            topic_id: Only the memory of this topic.
            tag: Only memories with this tag.
            limit: How many to return at most.

        Example:
            memory.vault.add_memory("We deploy on Tuesdays.", tags=["ops"])
            memory.vault.list(tag="ops")
        """
        filters = (("tier", tier), ("category", category), ("topic", topic_id), ("tag", tag))
        labels = tuple(f"{name}={value}" for name, value in filters if value is not None)
        query = Query(kinds=(MEMORY_KIND,), scopes=() if scope is None else (scope,), labels=labels, limit=limit)
        return [parse_memory(record) for record in self._journal.read(query)]

    def history(self, id: str, *, scope: str | None = None) -> Sequence[VaultMemory]:
        """Return all stored versions of a memory, oldest first, tombstones included.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.").unwrap()
            [version.text for version in memory.vault.history(kept.id)]
        """
        with self._journal.snapshot() as reader:
            for candidate in self._candidate_scopes(reader, scope):
                if versions := reader.history(memory_key(candidate, id)):
                    return parse_versions(versions)
        return []

    def search(
        self, query: str, scopes: Iterable[str] = (), *, k: int = 10, profile: SearchProfile = "hybrid", **filters: Any
    ) -> Sequence[VaultHit]:
        """Return the memories that answer a question, best first.

        ``hybrid`` is recall by words and meaning. ``lexical`` scores as the document does: the share of the question's
        words that match, plus 0.3 if the text contains the question literally, plus 0.4 times their similarity as
        sequences; at least one word must match. Expired memories are left out unless ``include_expired`` is true.

        Args:
            query: The question, in plain words.
            scopes: Only these scopes; default: all that the caller may read.
            k: How many to return at most.
            profile: ``hybrid``: by words and meaning; ``lexical``: as the document scores.
            **filters: Further filters of ``memory.recall``.

        Example:
            memory.vault.add_memory("We deploy on Tuesdays.")
            memory.vault.search("When do we deploy?", k=3)[0].memory.text
        """
        if profile == "lexical":
            now = None if filters.get("include_expired") else self._clock.now()
            with self._journal.snapshot() as reader:
                return search_lexically(reader, query, tuple(scopes), k, now)
        if profile not in SEARCH_PROFILES:
            raise InvalidInput(f"{profile!r:.40} is not a profile of search.", hint="Say hybrid or lexical.")
        recalled = self._recall()(query, k, kinds=(MEMORY_KIND,), scopes=scopes, **filters)
        return [
            VaultHit(
                parse_memory(hit.record),
                hit.score,
                None if hit.superseded_by is None else hit.superseded_by.record.id,
                None if hit.contradicts is None else hit.contradicts.record.id,
            )
            for hit in recalled.hits
        ]

    def vault_stats(self) -> dict[str, Any]:
        """Return the document's statistics and the number of refusals by code.

        Example:
            memory.vault.vault_stats()["utilization"]
        """
        return compute_stats(self._journal, self.rules) | {"refused": self.refusals()}

    def refusals(self) -> dict[str, int]:
        """Return how many memories were refused, by code, as far as the caller may know.

        Example:
            memory.vault.refusals()
        """
        return self._refusals.read_totals()

    def compact(self) -> LogCompactionResult:
        """Drop superseded versions of all kinds of records for good. Only the owner of the store may.

        Example:
            memory.vault.compact()
        """
        return self._journal.compact()

    def find_consolidation_candidates(self, scope: str = SHARED, floor: float = 0.45) -> Sequence[SimilarMemoryPair]:
        """Return pairs of memories that might be merged, most similar first. Nothing is changed.

        Their similarity by words or characters is at least ``floor``, or the store's embedder finds them alike in meaning.
        Each pair names the first difference in what the two state, if there is one. Without the packages of the store's
        embedder, meaning is not compared.

        Args:
            scope: The scope.
            floor: The least similarity, from 0 to 1.

        Example:
            memory.vault.find_consolidation_candidates()
        """
        try:
            embedder = self._recall().index.choose_embedder().embedder
        except MissingExtra:
            embedder = None
        return find_similar_pairs(self._journal, scope, floor, embedder)

    def propose_deletions(self, scope: str = SHARED) -> Sequence[DeletionSuggestion]:
        """Return memories that might be deleted, each with the reason. Nothing is deleted.

        Args:
            scope: The scope.

        Example:
            memory.vault.propose_deletions()
        """
        return suggest_deletions(self._journal, scope, self.rules, self._clock.now())

    def corroborate(self, id: str, *, scope: str | None = None, author: str = "", source: str = "chat") -> Outcome:
        """Record that another author says the same as a memory. Each author counts once.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.
            author: Who says the same; default: the caller.
            source: Where it comes from: ``chat``, ``manual``, ``tool``, …

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.", tier="register", topic_id="deploy day").unwrap()
            memory.vault.corroborate(kept.id, author="ben")
        """
        if (refused := self._journal.check_author(author)) is not None:
            return refused
        author = author or self._journal.author

        def corroborate(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            return refuse_missing(id) if record is None else corroboration_drafts(reader, record, author, source)

        return self._count_refusal(self._journal.append_if(corroborate))

    def promote_to_canon(
        self, id: str, canonical_text: str | None = None, *, by: str = "", scope: str | None = None
    ) -> Outcome:
        """Make a register canon: on the word of a named person, or when independent authors say the same.

        A person may change the text; without one it must stay similar to the text that was corroborated. Only the owner
        passes a person's word on.

        Args:
            id: The id of the memory.
            canonical_text: A better wording; default: the text of the memory.
            by: The person who says so.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.vault.add_memory("We deploy on Tuesdays.", tier="register", topic_id="deploy day").unwrap()
            memory.vault.promote_to_canon(kept.id, by="anna")
        """
        if by and not self._journal.reach.unlimited:
            reason = f"An agent cannot give the word of {by!r:.80}. Let others corroborate it, or ask the owner of the store."
            return self._count_refusal(Refused("author_not_yours", reason))
        self._scan_before_lock(canonical_text)

        def promote(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            if record is None:
                return refuse_missing(id)
            text = record.text if canonical_text is None else canonical_text
            granted = check_promotion(reader, record, text, by, self.rules)
            if isinstance(granted, Refused):
                return granted
            new = replace(proposal_from_record(record), text=text, tier=CANON, source="promotion", author="")
            drafts = self._revision_drafts(reader, record, new, [], **granted.notes)
            if isinstance(drafts, Refused):
                return drafts
            return [draft._replace(links=(*record.links, *granted.links)) for draft in drafts]

        return self._count_refusal(self._journal.append_if(promote))

    def build_snapshot(self, scope: str = SHARED, *, budget: int | None = None) -> str:
        """Return canon, registers with a topic, and agents' memories, as compact Markdown within a budget of tokens.

        Args:
            scope: The scope.
            budget: The most tokens that the result may take.

        Example:
            memory.vault.add_memory("We deploy on Tuesdays.")
            print(memory.vault.build_snapshot(budget=500))
        """
        tokens = budget or self.rules.snapshot_tokens
        return blocks.build_snapshot(
            self._journal, (scope,), tokens, self._clock.now(), topics_only=self.rules.agents_write_canon
        ).text

    def build_snapshot_block(self, scopes: Iterable[str] | None = None, *, budget: int | None = None) -> PromptBlock:
        """Build the block for every prompt: notes, canon, registers.

        Args:
            scopes: Only these scopes; default: all that the caller may read.
            budget: The most tokens that the result may take.

        Example:
            memory.vault.build_snapshot_block(budget=500).text
        """
        if not self.rules.enabled:
            return blocks.EMPTY_BLOCK
        tokens = budget or self.rules.snapshot_tokens
        return blocks.build_snapshot_block(
            self._journal,
            self._default_scopes(scopes),
            tokens,
            self._clock.now(),
            topics_only=self.rules.agents_write_canon,
        )

    def build_memory_block(
        self, scopes: Iterable[str] | None = None, *, query: str, k: int | None = None, budget: int | None = None
    ) -> PromptBlock:
        """Build the block for a question: the relevant directives and memories, canon first.

        Args:
            scopes: Only these scopes; default: all that the caller may read.
            query: The question, in plain words.
            k: How many memories to look at; default: the setting.
            budget: The most tokens that the result may take.

        Example:
            memory.vault.add_memory("We deploy on Tuesdays.")
            memory.vault.build_memory_block(query="When do we deploy?", budget=500).text
        """
        if not self.rules.enabled:
            return blocks.EMPTY_BLOCK
        kinds = (MEMORY_KIND, placement.DIRECTIVE)
        filters: dict[str, Any] = {"kinds": kinds, "scopes": self._default_scopes(scopes), "min_relevance": 0}
        recalled = self._recall()(query, k or self.rules.max_items, **filters)
        return blocks.build_memory_block(recalled, budget or self.rules.memory_tokens, self._clock.now())

    def _default_scopes(self, scopes: Iterable[str] | None) -> tuple[str, ...]:
        return tuple(scopes) if scopes is not None else self.rules.scopes or ()

    def add_tick(self, text: str, scope: str | None = None, *, author: str = "") -> Outcome:
        """Put a passing event (tick, snapshot, check-in) into the burst journal, which is capped and expires after a day.

        Args:
            text: What happened.
            scope: The scope; default: the caller's own.
            author: Who says so; default: the caller.

        Example:
            memory.vault.add_tick("heartbeat ok")
        """
        scope = (self._journal.home_scope or SHARED) if scope is None else scope
        now = self._clock.now()
        return self._count_refusal(placement.add_tick(self._journal, self.rules, now, text, scope, author))

    def ticks(self, scope: str | None = None, limit: int | None = None) -> Sequence[placement.Tick]:
        """List the entries of the burst journal that have not expired, newest first.

        Args:
            scope: Only entries of this scope.
            limit: How many to return at most.

        Example:
            memory.vault.add_tick("heartbeat ok")
            memory.vault.ticks(limit=5)
        """
        return placement.list_ticks(self._journal, self.rules, self._clock.now(), scope, limit)

    def note(self, text: str, scope: str = SHARED, *, author: str = "") -> Outcome:
        """Keep a short note that is part of every snapshot block.

        Args:
            text: The fact, in plain words; at most 1,200 characters.
            scope: The scope to write to.
            author: Who says so; default: the caller.

        Example:
            memory.vault.note("The staging server is down today.")
        """
        return self._count_refusal(
            self._note_orders(placement.add_note(self._journal, self.rules, text, scope, author))
        )

    def notes(self, scopes: Iterable[str] = ()) -> Sequence[Record]:
        """List the notes, oldest first.

        Args:
            scopes: Only these scopes; default: all that the caller may read.

        Example:
            memory.vault.notes()
        """
        return placement.list_notes(self._journal, tuple(scopes))

    def directive(self, text: str, scope: str | None = None, *, author: str = "") -> Outcome:
        """Keep a rule of behaviour that a memory block contains when it is relevant. Only the owner sets rules for others.

        Args:
            text: The rule, in plain words.
            scope: The scope; default: the shared one.
            author: Who says so; default: the caller.

        Example:
            memory.vault.directive("Answer in German when asked in German.")
        """
        scope = (self._journal.home_scope or SHARED) if scope is None else scope
        written = placement.add_directive(self._journal, self.rules, text, scope, author)
        return self._count_refusal(self._note_orders(written))

    def directives(self, scopes: Iterable[str] = ()) -> Sequence[Record]:
        """List the directives, oldest first.

        Args:
            scopes: Only these scopes; default: all that the caller may read.

        Example:
            memory.vault.directives()
        """
        return placement.list_directives(self._journal, tuple(scopes))

    def close(self) -> None:
        """Write the pending counts of refusals. The store itself stays open.

        Example:
            memory.vault.close()
        """
        self._refusals.flush()

    def _count_refusal(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Refused):
            self._refusals.count(outcome.code)
        return outcome

    def _find_memory(self, reader: Reader, id: str, scope: str | None) -> Record | None:
        keys = (memory_key(candidate, id) for candidate in self._candidate_scopes(reader, scope))
        return next((record for key in keys if (record := reader.get(key)) is not None), None)

    def _candidate_scopes(self, reader: Reader, scope: str | None) -> Sequence[str]:
        return [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == MEMORY_KIND]


def _add_similar(outcome: Outcome, similar: Sequence[DuplicateMatch]) -> Outcome:
    """Return an accepted outcome that names the memories that say something similar, most similar first."""
    if not isinstance(outcome, Accepted) or not similar:
        return outcome
    named = [
        {
            "id": match.id,
            "scope": match.scope,
            "overlap": match.overlap,
            "sequence": match.sequence,
            "difference": asdict(match.difference),
        }
        for match in similar[:_MAX_SIMILAR]
        if match.difference is not None
    ]
    return replace(outcome, details={**outcome.details, "similar_to": named})
