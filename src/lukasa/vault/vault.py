"""The vault: curated memory that stays clean, for one caller.

Every memory passes the write gate in the document's order. The checks that need no store run first; register upsert,
near-duplicate and capacity look at the store inside the decision that writes, so that nobody can get in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lukasa.clock import Clock
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.prompt import PromptBlock
from lukasa.record import Draft, Key, Record
from lukasa.scope import SHARED
from lukasa.storage.engine import LogCompactionResult, Query, Reader, split_into_chunks
from lukasa.vault import blocks, placement
from lukasa.vault.checks import check_proposal, redact_proposal
from lukasa.vault.duplicates import ComparableText, DuplicateIndex, DuplicateMatch
from lukasa.vault.lexical_search import VaultHit, search_lexically
from lukasa.vault.memory import (
    MemoryProposal,
    VaultMemory,
    encode_version,
    memory_draft,
    memory_key,
    parse_memory,
    parse_versions,
    proposal_from_record,
)
from lukasa.vault.promotion import check_promotion, corroboration_drafts
from lukasa.vault.refusal_stats import RefusalCounter
from lukasa.vault.review import DeletionSuggestion, SimilarMemoryPair, find_similar_pairs, suggest_deletions
from lukasa.vault.settings import CANON, MEMORY_KIND, REGISTER, VaultSettings
from lukasa.vault.stats import compute_stats

if TYPE_CHECKING:
    from lukasa.recall.recall import Recall

_CHUNK_SIZE = 1_000
_MAX_ATTEMPTS = 5
_UNCHANGED: Any = object()


class Vault:
    """Remembers, forgets and finds curated memories."""

    def __init__(
        self,
        journal: Journal,
        recall: Callable[[], Recall],
        clock: Clock,
        rng: random.Random,
        rules: VaultSettings | None = None,
    ) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._rng = rng
        self._refusals = RefusalCounter(journal)
        self.rules = rules or VaultSettings()

    # Remembering

    def add_memory(
        self,
        text: str,
        scope: str = SHARED,
        category: str = "general",
        *,
        tier: str = CANON,
        topic_id: str | None = None,
        tags: Iterable[str] = (),
        source: str | None = "manual",
        author: str = "",
    ) -> Outcome:
        """Keeps a memory if the gate lets it in. A register with a known topic is updated in place."""
        fields = {"tier": tier, "topic_id": topic_id, "tags": tags, "source": source, "author": author}
        return self.bulk_add([{"text": text, "scope": scope, "category": category, **fields}])[0]

    def bulk_add(self, items: Iterable[MemoryProposal | Mapping[str, Any] | str]) -> Sequence[Outcome]:
        """Keeps many memories; every one gets a verdict of its own, as if they had come one after the other."""
        verdicts: list[Outcome] = []
        chunk: list[MemoryProposal | Refused] = []
        for item in items:
            chunk.append(self._validate_item(item))
            if len(chunk) >= _CHUNK_SIZE:
                verdicts += self._write_chunk(chunk)
                chunk = []
        verdicts += self._write_chunk(chunk)
        for verdict in verdicts:
            self._refusals.count(verdict)
        return verdicts

    def judge(self, item: MemoryProposal | Mapping[str, Any] | str) -> Refused | None:
        """The gate's verdict without keeping anything: why a memory would be refused, or ``None`` if it would not."""
        judged = self._validate_item(item)
        if isinstance(judged, Refused):
            return judged
        seen = ComparableText(judged.text, judged.scope)
        with self._journal.snapshot() as reader:
            answer, _ = self._place_proposal(
                reader, judged, seen, DuplicateIndex(reader, self.rules, [seen]), _count_active(reader), {}
            )
        return answer if isinstance(answer, Refused) else None

    def update_by_topic(
        self, topic_id: str, scope: str, text: str, category: str | None = None, **fields: Any
    ) -> Outcome:
        """Updates the register with this topic and scope, or makes it. What is not said stays as it was."""
        known = self._find_register(topic_id, scope)
        if known is not None:
            old = proposal_from_record(known)
            fields = {"tags": old.tags, **fields}
            category = category or old.category
        return self.add_memory(text, scope, category or "general", tier=REGISTER, topic_id=topic_id, **fields)

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
    ) -> Outcome:
        """Appends a new version of a memory. It passes the gate again; its tier changes only by promotion."""

        def revise(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            if record is None:
                return _refuse_missing(id)
            old = proposal_from_record(record)
            new = replace(
                old,
                text=old.text if text is None else text,
                category=old.category if category is None else category,
                topic_id=old.topic_id if topic_id is _UNCHANGED else topic_id,
                tags=old.tags if tags is None else tuple(tags),
                source=source,
                author=author,
            )
            return self._revision_drafts(reader, record, new, expected)

        return self._append_if(revise)

    def _revision_drafts(
        self, reader: Reader, record: Record, new: MemoryProposal, expected: int | None = None, **notes: Any
    ) -> Sequence[Draft] | Refused:
        """The next version of a memory, if the gate lets it in beside all the others."""
        judged = self._validate_item(new)
        if isinstance(judged, Refused):
            return judged
        if judged.text != record.text:
            seen = ComparableText(judged.text, judged.scope)
            alike = DuplicateIndex(reader, self.rules, [seen]).find_nearest(seen, exclude_id=record.id)
            if alike is not None:
                return _refuse_duplicate(alike)
        version = record.version if expected is None else expected
        return [memory_draft(judged, record.id, expected=version, links=record.links, **notes)]

    def _validate_item(self, item: MemoryProposal | Mapping[str, Any] | str) -> MemoryProposal | Refused:
        try:
            proposal = MemoryProposal.from_item(item)
        except TypeError:
            return Refused("bad_item", "A memory needs a text; its other fields are those of add_memory.")
        own = self._journal.author
        if own and proposal.author not in ("", own):
            return Refused("bad_author", "An agent writes under its own name.")
        refused = check_proposal(proposal, self.rules, self._journal.reach)
        return redact_proposal(proposal, self.rules) if refused is None else refused

    def _write_chunk(self, chunk: Sequence[MemoryProposal | Refused]) -> Sequence[Outcome]:
        """Verdicts for a chunk, written in one step. Should that fail as a whole, each is tried alone."""
        verdicts: list[Outcome | None] = [item if isinstance(item, Refused) else None for item in chunk]
        if all(verdict is not None for verdict in verdicts):
            return [verdict for verdict in verdicts if verdict is not None]
        drafts: dict[int, Draft] = {}
        refused: dict[int, Refused] = {}
        sound = {at: item for at, item in enumerate(chunk) if not isinstance(item, Refused)}
        seen = {at: ComparableText(item.text, item.scope, self._new_id()) for at, item in sound.items()}

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            drafts.clear()
            refused.clear()
            company, active = DuplicateIndex(reader, self.rules, seen.values()), _count_active(reader)
            topics: dict[tuple[str, str], str] = {}
            for at, item in sound.items():
                answer, active = self._place_proposal(reader, item, seen[at], company, active, topics)
                if isinstance(answer, Refused):
                    refused[at] = answer
                else:
                    drafts[at] = answer
            return list(drafts.values()) or Refused("nothing", "No memory was let in.")

        for _ in range(_MAX_ATTEMPTS):
            outcome = self._journal.append_if(decide)
            if isinstance(outcome, Accepted):
                for at, record in zip(drafts, outcome.records, strict=True):
                    verdicts[at] = Accepted([record])
                break
            if not drafts:
                break
            for at in seen:  # should a new id be taken already, another one is made
                seen[at].id = self._new_id()
            if isinstance(outcome, Refused):
                if len(chunk) > 1:
                    return [self._write_chunk([item])[0] for item in chunk]
                verdicts[0] = outcome
                break
        return [refused.get(at, _BUSY_REFUSAL) if verdict is None else verdict for at, verdict in enumerate(verdicts)]

    def _place_proposal(
        self,
        reader: Reader,
        item: MemoryProposal,
        candidate: ComparableText,
        duplicates: DuplicateIndex,
        active: int,
        topics: dict[tuple[str, str], str],
    ) -> tuple[Draft | Refused, int]:
        """Where one proposal goes: into its register, beside the others, or nowhere. Also, how full it then is."""
        topic = (item.scope, item.topic_id) if item.tier == REGISTER and item.topic_id is not None else None
        if topic is not None:
            if topic in topics:  # said twice in one breath: the later word is the next version
                return memory_draft(item, topics[topic], expected=None), active
            known = _read_register(reader, topic[1], item.scope)
            if known is not None:
                topics[topic] = known.id
                return memory_draft(item, known.id, expected=known.version), active
        alike = duplicates.find_nearest(candidate)
        if alike is not None:
            return _refuse_duplicate(alike), active
        if active >= self.rules.capacity:
            return _refuse_full(active), active
        duplicates.add(candidate)
        if topic is not None:
            topics[topic] = candidate.id
        return memory_draft(item, candidate.id, expected=0), active + 1

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(48):012x}"

    def restore(self, histories: Iterable[Sequence[VaultMemory]]) -> Iterator[int | Refused]:
        """Takes in memories with their ids, times and earlier versions, as another vault kept them.

        The newest version of each passes the gate; what is refused stays out with its whole history. Answers, one by
        one, with how many versions are new.
        """
        for chunk in split_into_chunks(histories, _CHUNK_SIZE):
            yield from self._restore_chunk(chunk)

    def _restore_chunk(self, chunk: Sequence[Sequence[VaultMemory]]) -> Sequence[int | Refused]:
        answers: list[int | Refused] = []
        lines: list[tuple[int, tuple[bytes, bytes]]] = []
        newest = [max(history, key=lambda memory: memory.version) for history in chunk]
        judged = [self._validate_item(memory.to_proposal()) for memory in newest]
        seen = [
            None
            if isinstance(item, Refused) or memory.deleted_at is not None
            else ComparableText(item.text, item.scope, memory.id)
            for item, memory in zip(judged, newest, strict=True)
        ]
        with self._journal.snapshot() as reader:
            company = DuplicateIndex(reader, self.rules, [each for each in seen if each is not None])
            active = _count_active(reader)
            for at, history in enumerate(chunk):
                refused, active = self._check_restore(reader, judged[at], seen[at], company, active)
                answers.append(0 if refused is None else refused)
                if refused is None:
                    lines += [(at, encode_version(memory, self._journal.author)) for memory in history]
        replayed = self._journal.replay(line for _, line in lines)
        for (at, _), answer in zip(lines, replayed, strict=True):
            so_far = answers[at]
            if answer.state == "refused":
                answers[at] = Refused("not_restored", f"The memory could not be taken in: {answer.reason}")
            elif answer.state == "added" and isinstance(so_far, int):
                answers[at] = so_far + 1
        return answers

    def _check_restore(
        self,
        reader: Reader,
        proposal: MemoryProposal | Refused,
        candidate: ComparableText | None,
        duplicates: DuplicateIndex,
        active: int,
    ) -> tuple[Refused | None, int]:
        """Why a memory may not come back, if it may not. Also, how full the vault then is."""
        if isinstance(proposal, Refused):
            return proposal, active
        if candidate is None:  # a tombstone takes no room
            return None, active
        alike = duplicates.find_nearest(candidate, exclude_id=candidate.id)
        known = reader.get(memory_key(candidate.scope, candidate.id)) is not None
        if alike is not None:
            return _refuse_duplicate(alike), active
        if active >= self.rules.capacity and not known:
            return _refuse_full(active), active
        duplicates.add(candidate)
        return None, active + (not known)

    def _append_if(self, condition: Callable[[Reader], Sequence[Draft] | Refused]) -> Outcome:
        outcome = self._journal.append_if(condition)
        self._refusals.count(outcome)
        return outcome

    # Forgetting

    def delete(self, id: str, *, scope: str | None = None, source: str = "manual") -> Outcome:
        """Appends a tombstone; the history stays. What is not there is refused with ``not_found``."""
        return self.bulk_delete([id], scope=scope, source=source)[0]

    def bulk_delete(self, ids: Iterable[str], *, scope: str | None = None, source: str = "manual") -> Sequence[Outcome]:
        """Forgets many memories, notes or directives in one step; every id gets a verdict of its own."""
        wanted = list(ids)
        drafts: dict[int, Draft] = {}

        def tombstones(reader: Reader) -> Sequence[Draft] | Refused:
            drafts.clear()
            gone: set[Key] = set()
            for at, id in enumerate(wanted):
                record = self._find_memory(reader, id, scope) or placement.find_note_or_directive(
                    self._journal, reader, id, scope
                )
                if record is not None and record.key not in gone:
                    gone.add(record.key)
                    drafts[at] = Draft(
                        record.kind,
                        id=record.id,
                        scope=record.scope,
                        origin=source,
                        deleted=True,
                        expected=record.version,
                    )
            return list(drafts.values()) or Refused("nothing", "There is nothing to forget.")

        outcome = self._journal.append_if(tombstones)
        verdicts: list[Outcome] = [_refuse_missing(id) for id in wanted]
        if isinstance(outcome, Accepted):
            for at, record in zip(drafts, outcome.records, strict=True):
                verdicts[at] = Accepted([record])
        elif drafts:
            verdicts = [outcome if at in drafts else verdict for at, verdict in enumerate(verdicts)]
        return verdicts

    # Looking

    def get(self, id: str, *, scope: str | None = None) -> VaultMemory | None:
        """The memory as it is now; ``None`` if there is none or it was forgotten."""
        with self._journal.snapshot() as reader:
            record = self._find_memory(reader, id, scope)
        return None if record is None else parse_memory(record)

    def list(
        self,
        scope: str | None = None,
        *,
        tier: str | None = None,
        category: str | None = None,
        topic_id: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
    ) -> Sequence[VaultMemory]:
        """The memories there are, oldest first, with all that is asked for."""
        named = (("tier", tier), ("category", category), ("topic", topic_id), ("tag", tag))
        labels = tuple(f"{name}={value}" for name, value in named if value is not None)
        query = Query(kinds=(MEMORY_KIND,), scopes=() if scope is None else (scope,), labels=labels, limit=limit)
        return [parse_memory(record) for record in self._journal.read(query)]

    def history(self, id: str, *, scope: str | None = None) -> Sequence[VaultMemory]:
        """Every version that is kept, oldest first, tombstones included."""
        with self._journal.snapshot() as reader:
            for place in self._candidate_scopes(reader, scope):
                if versions := reader.history(memory_key(place, id)):
                    return parse_versions(versions)
        return []

    def search(
        self, query: str, scopes: Iterable[str] = (), *, k: int = 10, profile: str = "hybrid", **filters: Any
    ) -> Sequence[VaultHit]:
        """The memories that answer a question, best first.

        ``hybrid`` is recall by words and meaning; ``lexical`` scores as the document does: the share of the question's
        words, 0.3 if it stands in the text as it is, 0.4 times the likeness as sequences; one word at least must match.
        """
        if profile == "lexical":
            with self._journal.snapshot() as reader:
                return search_lexically(reader, query, tuple(scopes), k)
        if profile != "hybrid":
            raise InvalidInput(f"{profile!r:.40} is not a profile of search.", hint="Say hybrid or lexical.")
        recalled = self._recall()(query, k, kinds=(MEMORY_KIND,), scopes=scopes, **filters)
        return [VaultHit(parse_memory(hit.record), hit.score) for hit in recalled.hits]

    def vault_stats(self) -> dict[str, Any]:
        """How full, how bloated and how divided the vault is, and what was refused and why."""
        return compute_stats(self._journal, self.rules) | {"refused": self._refusals.read_totals()}

    def compact(self) -> LogCompactionResult:
        """Drops superseded versions for good, of every kind of record. Only the owner of the store may."""
        return self._journal.compact()

    # Keeping it good

    def find_consolidation_candidates(self, scope: str = SHARED, floor: float = 0.45) -> Sequence[SimilarMemoryPair]:
        """Pairs of memories that are alike by at least ``floor``, most alike first. Nothing is changed."""
        return find_similar_pairs(self._journal, scope, floor)

    def propose_deletions(self, scope: str = SHARED) -> Sequence[DeletionSuggestion]:
        """Memories that might be deleted, each with the reason. Nothing is ever deleted by this."""
        return suggest_deletions(self._journal, scope, self.rules, self._clock.now())

    def corroborate(self, id: str, *, scope: str | None = None, author: str = "", source: str = "chat") -> Outcome:
        """Records that somebody else says the same as a memory does. Saying it twice counts once."""
        who = author or self._journal.author
        if self._journal.author and who != self._journal.author:
            return Refused("bad_author", "An agent speaks under its own name.")

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            return _refuse_missing(id) if record is None else corroboration_drafts(reader, record, who, source)

        return self._append_if(decide)

    def promote_to_canon(
        self, id: str, canonical_text: str | None = None, *, by: str = "", scope: str | None = None
    ) -> Outcome:
        """Makes a register canon: on the word of a named person, or when independent authors say the same.

        A person may put it into other words; without one the text must stay alike to what was corroborated.
        """

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_memory(reader, id, scope)
            if record is None:
                return _refuse_missing(id)
            text = record.text if canonical_text is None else canonical_text
            granted = check_promotion(reader, record, text, by, self.rules)
            if isinstance(granted, Refused):
                return granted
            new = replace(proposal_from_record(record), text=text, tier=CANON, source="promotion", author="")
            drafts = self._revision_drafts(reader, record, new, **granted.notes)
            if isinstance(drafts, Refused):
                return drafts
            return [draft._replace(links=(*record.links, *granted.links)) for draft in drafts]

        return self._append_if(decide)

    # In prompts

    def build_snapshot(self, scope: str = SHARED, *, budget: int | None = None) -> str:
        """Canon and registers with a topic as compact Markdown, within a budget of tokens."""
        return blocks.build_snapshot(self._journal, (scope,), budget or self.rules.snapshot_tokens).text

    def build_snapshot_block(self, scopes: Iterable[str] | None = None, *, budget: int | None = None) -> PromptBlock:
        """The piece of prompt that is always there: notes, canon, registers."""
        if not self.rules.enabled:
            return blocks.EMPTY_BLOCK
        return blocks.build_snapshot_block(
            self._journal, self._default_scopes(scopes), budget or self.rules.snapshot_tokens
        )

    def build_memory_block(
        self, scopes: Iterable[str] | None = None, *, query: str, k: int | None = None, budget: int | None = None
    ) -> PromptBlock:
        """The piece of prompt for a question: the relevant directives and memories, canon first."""
        if not self.rules.enabled:
            return blocks.EMPTY_BLOCK
        most = k or self.rules.max_items
        recalled = self._recall()(
            query, most, kinds=(MEMORY_KIND, placement.DIRECTIVE), scopes=self._default_scopes(scopes)
        )
        return blocks.build_memory_block(recalled.records, budget or self.rules.memory_tokens)

    def _default_scopes(self, scopes: Iterable[str] | None) -> tuple[str, ...]:
        return tuple(scopes) if scopes is not None else self.rules.scopes or ()

    # What does not belong in the vault

    def journal(self, text: str, scope: str | None = None, *, author: str = "") -> Outcome:
        """Puts a passing event into the burst journal: ticks, snapshots, check-ins. Capped, and gone after a day."""
        return self._count_refusal(
            placement.add_tick(self._journal, self.rules, self._clock.now(), text, self._home_scope(scope), author)
        )

    def ticks(self, scope: str | None = None, limit: int | None = None) -> Sequence[placement.Tick]:
        """What the burst journal holds, newest first."""
        return placement.list_ticks(self._journal, self.rules, self._clock.now(), scope, limit)

    def note(self, text: str, scope: str = SHARED, *, author: str = "") -> Outcome:
        """Keeps a short note that stands in every snapshot block."""
        return self._count_refusal(placement.add_note(self._journal, self.rules, text, scope, author))

    def notes(self, scopes: Iterable[str] = ()) -> Sequence[Record]:
        """The notes there are, oldest first."""
        return placement.list_notes(self._journal, tuple(scopes))

    def directive(self, text: str, scope: str | None = None, *, author: str = "") -> Outcome:
        """Keeps a rule of behaviour, put into a memory block when it is relevant. For everybody only by the owner."""
        return self._count_refusal(
            placement.add_directive(self._journal, self.rules, text, self._home_scope(scope), author)
        )

    def directives(self, scopes: Iterable[str] = ()) -> Sequence[Record]:
        """The directives there are, oldest first."""
        return placement.list_directives(self._journal, tuple(scopes))

    def close(self) -> None:
        """Writes down what was counted. The store itself stays open."""
        self._refusals.flush()

    def _count_refusal(self, outcome: Outcome) -> Outcome:
        self._refusals.count(outcome)
        return outcome

    def _home_scope(self, scope: str | None) -> str:
        if scope is not None:
            return scope
        author, reach = self._journal.author, self._journal.reach
        return author if author and not reach.unlimited and reach.writes(author) else SHARED

    def _find_register(self, topic_id: str, scope: str) -> Record | None:
        with self._journal.snapshot() as reader:
            return _read_register(reader, topic_id, scope)

    def _find_memory(self, reader: Reader, id: str, scope: str | None) -> Record | None:
        own_scopes = self._candidate_scopes(reader, scope)
        return next((record for place in own_scopes if (record := reader.get(memory_key(place, id))) is not None), None)

    def _candidate_scopes(self, reader: Reader, scope: str | None) -> Sequence[str]:
        return [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == MEMORY_KIND]


def _read_register(reader: Reader, topic_id: str, scope: str) -> Record | None:
    labels = (f"topic={topic_id}", f"tier={REGISTER}")
    query = Query(kinds=(MEMORY_KIND,), scopes=(scope,), labels=labels, newest_first=True, limit=1)
    return next(iter(reader.read(query)), None)


def _count_active(reader: Reader) -> int:
    return sum(row.live for row in reader.tally() if row.kind == MEMORY_KIND)


_BUSY_REFUSAL = Refused("busy", "Others kept changing the same memories; nothing was written, try again.")


def _refuse_missing(id: str) -> Refused:
    return Refused("not_found", f"There is no memory {id!r:.80}.")


def _refuse_duplicate(match: DuplicateMatch) -> Refused:
    return Refused(
        "duplicate",
        f"This says nearly the same as memory {match.id} in {match.scope} (word overlap {match.overlap:.2f}, sequence "
        f"{match.sequence:.2f}). Update that one, or say what is new.",
        {"duplicate_of": match.id, "scope": match.scope, "overlap": match.overlap, "sequence": match.sequence},
    )


def _refuse_full(active: int) -> Refused:
    return Refused(
        "full",
        f"The vault is full: {active:,} memories are active. Forget some (`lukasa vault propose-deletions` names "
        "candidates), or raise the capacity in the profile.",
        {"active": active},
    )
