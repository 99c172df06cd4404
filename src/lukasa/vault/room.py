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
from lukasa.engine import Compacted, Query, Reader, chunks
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.prompt import Block
from lukasa.record import Draft, Key, Record
from lukasa.scope import SHARED
from lukasa.vault import blocks, places
from lukasa.vault.checks import objection, without_secrets
from lukasa.vault.counting import Verdicts
from lukasa.vault.duplicates import Company, Likeness, Seen
from lukasa.vault.item import (
    Proposal,
    VaultMemory,
    draft_of,
    key_of,
    line_of_version,
    memory_of,
    proposal_of,
    versions_of,
)
from lukasa.vault.promotion import corroborating, promoting
from lukasa.vault.reviewing import Pair, Suggestion, alike_pairs, suggestions
from lukasa.vault.rules import CANON, KIND, REGISTER, Rules
from lukasa.vault.searching import Found, lexically
from lukasa.vault.stats import stats_of

if TYPE_CHECKING:
    from lukasa.recall.room import Recall

_CHUNK = 1_000
_TRIES = 5
_SAME: Any = object()


class Vault:
    """Remembers, forgets and finds curated memories."""

    def __init__(
        self,
        journal: Journal,
        recall: Callable[[], Recall],
        clock: Clock,
        chance: random.Random,
        rules: Rules | None = None,
    ) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._chance = chance
        self._verdicts = Verdicts(journal)
        self.rules = rules or Rules()

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

    def bulk_add(self, items: Iterable[Proposal | Mapping[str, Any] | str]) -> Sequence[Outcome]:
        """Keeps many memories; every one gets a verdict of its own, as if they had come one after the other."""
        verdicts: list[Outcome] = []
        chunk: list[Proposal | Refused] = []
        for item in items:
            chunk.append(self._judged(item))
            if len(chunk) >= _CHUNK:
                verdicts += self._keep(chunk)
                chunk = []
        verdicts += self._keep(chunk)
        for verdict in verdicts:
            self._verdicts.count(verdict)
        return verdicts

    def judge(self, item: Proposal | Mapping[str, Any] | str) -> Refused | None:
        """The gate's verdict without keeping anything: why a memory would be refused, or ``None`` if it would not."""
        judged = self._judged(item)
        if isinstance(judged, Refused):
            return judged
        seen = Seen(judged.text, judged.scope)
        with self._journal.looking() as reader:
            answer, _ = self._place(reader, judged, seen, Company(reader, self.rules, [seen]), _active(reader), {})
        return answer if isinstance(answer, Refused) else None

    def update_by_topic(
        self, topic_id: str, scope: str, text: str, category: str | None = None, **fields: Any
    ) -> Outcome:
        """Updates the register with this topic and scope, or makes it. What is not said stays as it was."""
        known = self._register(topic_id, scope)
        if known is not None:
            old = proposal_of(known)
            fields = {"tags": old.tags, **fields}
            category = category or old.category
        return self.add_memory(text, scope, category or "general", tier=REGISTER, topic_id=topic_id, **fields)

    def update(
        self,
        id: str,
        text: str | None = None,
        *,
        category: str | None = None,
        topic_id: str | None = _SAME,
        tags: Iterable[str] | None = None,
        source: str = "manual",
        scope: str | None = None,
        expected: int | None = None,
        author: str = "",
    ) -> Outcome:
        """Appends a new version of a memory. It passes the gate again; its tier changes only by promotion."""

        def revise(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find(reader, id, scope)
            if record is None:
                return _missing(id)
            old = proposal_of(record)
            new = replace(
                old,
                text=old.text if text is None else text,
                category=old.category if category is None else category,
                topic_id=old.topic_id if topic_id is _SAME else topic_id,
                tags=old.tags if tags is None else tuple(tags),
                source=source,
                author=author,
            )
            return self._revision(reader, record, new, expected)

        return self._decide(revise)

    def _revision(
        self, reader: Reader, record: Record, new: Proposal, expected: int | None = None, **notes: Any
    ) -> Sequence[Draft] | Refused:
        """The next version of a memory, if the gate lets it in beside all the others."""
        judged = self._judged(new)
        if isinstance(judged, Refused):
            return judged
        if judged.text != record.text:
            seen = Seen(judged.text, judged.scope)
            alike = Company(reader, self.rules, [seen]).nearest(seen, but=record.id)
            if alike is not None:
                return _duplicate(alike)
        version = record.version if expected is None else expected
        return [draft_of(judged, record.id, expected=version, links=record.links, **notes)]

    def _judged(self, item: Proposal | Mapping[str, Any] | str) -> Proposal | Refused:
        try:
            proposal = Proposal.of(item)
        except TypeError:
            return Refused("bad_item", "A memory needs a text; its other fields are those of add_memory.")
        own = self._journal.author
        if own and proposal.author not in ("", own):
            return Refused("bad_author", "An agent writes under its own name.")
        refused = objection(proposal, self.rules, self._journal.reach)
        return without_secrets(proposal, self.rules) if refused is None else refused

    def _keep(self, chunk: Sequence[Proposal | Refused]) -> Sequence[Outcome]:
        """Verdicts for a chunk, written in one step. Should that fail as a whole, each is tried alone."""
        verdicts: list[Outcome | None] = [item if isinstance(item, Refused) else None for item in chunk]
        if all(verdict is not None for verdict in verdicts):
            return [verdict for verdict in verdicts if verdict is not None]
        drafts: dict[int, Draft] = {}
        refused: dict[int, Refused] = {}
        sound = {at: item for at, item in enumerate(chunk) if not isinstance(item, Refused)}
        seen = {at: Seen(item.text, item.scope, self._new_id()) for at, item in sound.items()}

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            drafts.clear()
            refused.clear()
            company, active = Company(reader, self.rules, seen.values()), _active(reader)
            topics: dict[tuple[str, str], str] = {}
            for at, item in sound.items():
                answer, active = self._place(reader, item, seen[at], company, active, topics)
                if isinstance(answer, Refused):
                    refused[at] = answer
                else:
                    drafts[at] = answer
            return list(drafts.values()) or Refused("nothing", "No memory was let in.")

        for _ in range(_TRIES):
            outcome = self._journal.decide(decide)
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
                    return [self._keep([item])[0] for item in chunk]
                verdicts[0] = outcome
                break
        return [refused.get(at, _BUSY) if verdict is None else verdict for at, verdict in enumerate(verdicts)]

    def _place(
        self,
        reader: Reader,
        item: Proposal,
        seen: Seen,
        company: Company,
        active: int,
        topics: dict[tuple[str, str], str],
    ) -> tuple[Draft | Refused, int]:
        """Where one proposal goes: into its register, beside the others, or nowhere. Also, how full it then is."""
        topic = (item.scope, item.topic_id) if item.tier == REGISTER and item.topic_id is not None else None
        if topic is not None:
            if topic in topics:  # said twice in one breath: the later word is the next version
                return draft_of(item, topics[topic], expected=None), active
            known = _register_in(reader, topic[1], item.scope)
            if known is not None:
                topics[topic] = known.id
                return draft_of(item, known.id, expected=known.version), active
        alike = company.nearest(seen)
        if alike is not None:
            return _duplicate(alike), active
        if active >= self.rules.capacity:
            return _full(active), active
        company.add(seen)
        if topic is not None:
            topics[topic] = seen.id
        return draft_of(item, seen.id, expected=0), active + 1

    def _new_id(self) -> str:
        return f"{self._chance.getrandbits(48):012x}"

    def restore(self, histories: Iterable[Sequence[VaultMemory]]) -> Iterator[int | Refused]:
        """Takes in memories with their ids, times and earlier versions, as another vault kept them.

        The newest version of each passes the gate; what is refused stays out with its whole history. Answers, one by
        one, with how many versions are new.
        """
        for chunk in chunks(histories, _CHUNK):
            yield from self._restored(chunk)

    def _restored(self, chunk: Sequence[Sequence[VaultMemory]]) -> Sequence[int | Refused]:
        answers: list[int | Refused] = []
        lines: list[tuple[int, tuple[bytes, bytes]]] = []
        newest = [max(history, key=lambda memory: memory.version) for history in chunk]
        judged = [self._judged(memory.proposal()) for memory in newest]
        seen = [
            None
            if isinstance(item, Refused) or memory.deleted_at is not None
            else Seen(item.text, item.scope, memory.id)
            for item, memory in zip(judged, newest, strict=True)
        ]
        with self._journal.looking() as reader:
            company = Company(reader, self.rules, [each for each in seen if each is not None])
            active = _active(reader)
            for at, history in enumerate(chunk):
                refused, active = self._would_restore(reader, judged[at], seen[at], company, active)
                answers.append(0 if refused is None else refused)
                if refused is None:
                    lines += [(at, line_of_version(memory, self._journal.author)) for memory in history]
        replayed = self._journal.replay(line for _, line in lines)
        for (at, _), answer in zip(lines, replayed, strict=True):
            so_far = answers[at]
            if answer.state == "refused":
                answers[at] = Refused("not_restored", f"The memory could not be taken in: {answer.reason}")
            elif answer.state == "added" and isinstance(so_far, int):
                answers[at] = so_far + 1
        return answers

    def _would_restore(
        self, reader: Reader, judged: Proposal | Refused, seen: Seen | None, company: Company, active: int
    ) -> tuple[Refused | None, int]:
        """Why a memory may not come back, if it may not. Also, how full the vault then is."""
        if isinstance(judged, Refused):
            return judged, active
        if seen is None:  # a tombstone takes no room
            return None, active
        alike = company.nearest(seen, but=seen.id)
        known = reader.get(key_of(seen.scope, seen.id)) is not None
        if alike is not None:
            return _duplicate(alike), active
        if active >= self.rules.capacity and not known:
            return _full(active), active
        company.add(seen)
        return None, active + (not known)

    def _decide(self, decision: Callable[[Reader], Sequence[Draft] | Refused]) -> Outcome:
        outcome = self._journal.decide(decision)
        self._verdicts.count(outcome)
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
                record = self._find(reader, id, scope) or places.find(self._journal, reader, id, scope)
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

        outcome = self._journal.decide(tombstones)
        verdicts: list[Outcome] = [_missing(id) for id in wanted]
        if isinstance(outcome, Accepted):
            for at, record in zip(drafts, outcome.records, strict=True):
                verdicts[at] = Accepted([record])
        elif drafts:
            verdicts = [outcome if at in drafts else verdict for at, verdict in enumerate(verdicts)]
        return verdicts

    # Looking

    def get(self, id: str, *, scope: str | None = None) -> VaultMemory | None:
        """The memory as it is now; ``None`` if there is none or it was forgotten."""
        with self._journal.looking() as reader:
            record = self._find(reader, id, scope)
        return None if record is None else memory_of(record)

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
        query = Query(kinds=(KIND,), scopes=() if scope is None else (scope,), labels=labels, limit=limit)
        return [memory_of(record) for record in self._journal.read(query)]

    def history(self, id: str, *, scope: str | None = None) -> Sequence[VaultMemory]:
        """Every version that is kept, oldest first, tombstones included."""
        with self._journal.looking() as reader:
            for place in self._scopes(reader, scope):
                if versions := reader.history(key_of(place, id)):
                    return versions_of(versions)
        return []

    def search(
        self, query: str, scopes: Iterable[str] = (), *, k: int = 10, profile: str = "hybrid", **filters: Any
    ) -> Sequence[Found]:
        """The memories that answer a question, best first.

        ``hybrid`` is recall by words and meaning; ``lexical`` scores as the document does: the share of the question's
        words, 0.3 if it stands in the text as it is, 0.4 times the likeness as sequences; one word at least must match.
        """
        if profile == "lexical":
            with self._journal.looking() as reader:
                return lexically(reader, query, tuple(scopes), k)
        if profile != "hybrid":
            raise InvalidInput(f"{profile!r:.40} is not a profile of search.", hint="Say hybrid or lexical.")
        recalled = self._recall()(query, k, kinds=(KIND,), scopes=scopes, **filters)
        return [Found(memory_of(hit.record), hit.score) for hit in recalled.hits]

    def vault_stats(self) -> dict[str, Any]:
        """How full, how bloated and how divided the vault is, and what was refused and why."""
        return stats_of(self._journal, self.rules) | {"refused": self._verdicts.refused()}

    def compact(self) -> Compacted:
        """Drops superseded versions for good, of every kind of record. Only the owner of the store may."""
        return self._journal.compact()

    # Keeping it good

    def find_consolidation_candidates(self, scope: str = SHARED, floor: float = 0.45) -> Sequence[Pair]:
        """Pairs of memories that are alike by at least ``floor``, most alike first. Nothing is changed."""
        return alike_pairs(self._journal, scope, floor)

    def propose_deletions(self, scope: str = SHARED) -> Sequence[Suggestion]:
        """Memories that might be deleted, each with the reason. Nothing is ever deleted by this."""
        return suggestions(self._journal, scope, self.rules, self._clock.now())

    def corroborate(self, id: str, *, scope: str | None = None, author: str = "", source: str = "chat") -> Outcome:
        """Records that somebody else says the same as a memory does. Saying it twice counts once."""
        who = author or self._journal.author
        if self._journal.author and who != self._journal.author:
            return Refused("bad_author", "An agent speaks under its own name.")

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find(reader, id, scope)
            return _missing(id) if record is None else corroborating(reader, record, who, source)

        return self._decide(decide)

    def promote_to_canon(
        self, id: str, canonical_text: str | None = None, *, by: str = "", scope: str | None = None
    ) -> Outcome:
        """Makes a register canon: on the word of a named person, or when independent authors say the same.

        A person may put it into other words; without one the text must stay alike to what was corroborated.
        """

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find(reader, id, scope)
            if record is None:
                return _missing(id)
            text = record.text if canonical_text is None else canonical_text
            granted = promoting(reader, record, text, by, self.rules)
            if isinstance(granted, Refused):
                return granted
            new = replace(proposal_of(record), text=text, tier=CANON, source="promotion", author="")
            drafts = self._revision(reader, record, new, **granted.notes)
            if isinstance(drafts, Refused):
                return drafts
            return [draft._replace(links=(*record.links, *granted.links)) for draft in drafts]

        return self._decide(decide)

    # In prompts

    def build_snapshot(self, scope: str = SHARED, *, budget: int | None = None) -> str:
        """Canon and registers with a topic as compact Markdown, within a budget of tokens."""
        return blocks.snapshot(self._journal, (scope,), budget or self.rules.snapshot_tokens).text

    def build_snapshot_block(self, scopes: Iterable[str] | None = None, *, budget: int | None = None) -> Block:
        """The piece of prompt that is always there: notes, canon, registers."""
        if not self.rules.enabled:
            return blocks.NOTHING
        return blocks.snapshot_block(self._journal, self._told(scopes), budget or self.rules.snapshot_tokens)

    def build_memory_block(
        self, scopes: Iterable[str] | None = None, *, query: str, k: int | None = None, budget: int | None = None
    ) -> Block:
        """The piece of prompt for a question: the relevant directives and memories, canon first."""
        if not self.rules.enabled:
            return blocks.NOTHING
        most = k or self.rules.max_items
        recalled = self._recall()(query, most, kinds=(KIND, places.DIRECTIVE), scopes=self._told(scopes))
        return blocks.memory_block(recalled.records, budget or self.rules.memory_tokens)

    def _told(self, scopes: Iterable[str] | None) -> tuple[str, ...]:
        return tuple(scopes) if scopes is not None else self.rules.scopes or ()

    # What does not belong in the vault

    def journal(self, text: str, scope: str | None = None, *, author: str = "") -> Outcome:
        """Puts a passing event into the burst journal: ticks, snapshots, check-ins. Capped, and gone after a day."""
        return self._counted(places.tick(self._journal, self.rules, self._clock.now(), text, self._own(scope), author))

    def ticks(self, scope: str | None = None, limit: int | None = None) -> Sequence[places.Tick]:
        """What the burst journal holds, newest first."""
        return places.ticks(self._journal, self.rules, self._clock.now(), scope, limit)

    def note(self, text: str, scope: str = SHARED, *, author: str = "") -> Outcome:
        """Keeps a short note that stands in every snapshot block."""
        return self._counted(places.note(self._journal, self.rules, text, scope, author))

    def notes(self, scopes: Iterable[str] = ()) -> Sequence[Record]:
        """The notes there are, oldest first."""
        return places.notes(self._journal, tuple(scopes))

    def directive(self, text: str, scope: str | None = None, *, author: str = "") -> Outcome:
        """Keeps a rule of behaviour, put into a memory block when it is relevant. For everybody only by the owner."""
        return self._counted(places.directive(self._journal, self.rules, text, self._own(scope), author))

    def directives(self, scopes: Iterable[str] = ()) -> Sequence[Record]:
        """The directives there are, oldest first."""
        return places.directives(self._journal, tuple(scopes))

    def close(self) -> None:
        """Writes down what was counted. The store itself stays open."""
        self._verdicts.keep()

    def _counted(self, outcome: Outcome) -> Outcome:
        self._verdicts.count(outcome)
        return outcome

    def _own(self, scope: str | None) -> str:
        if scope is not None:
            return scope
        author, reach = self._journal.author, self._journal.reach
        return author if author and not reach.unlimited and reach.writes(author) else SHARED

    def _register(self, topic_id: str, scope: str) -> Record | None:
        with self._journal.looking() as reader:
            return _register_in(reader, topic_id, scope)

    def _find(self, reader: Reader, id: str, scope: str | None) -> Record | None:
        places = self._scopes(reader, scope)
        return next((record for place in places if (record := reader.get(key_of(place, id))) is not None), None)

    def _scopes(self, reader: Reader, scope: str | None) -> Sequence[str]:
        return [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == KIND]


def _register_in(reader: Reader, topic_id: str, scope: str) -> Record | None:
    labels = (f"topic={topic_id}", f"tier={REGISTER}")
    query = Query(kinds=(KIND,), scopes=(scope,), labels=labels, newest_first=True, limit=1)
    return next(iter(reader.read(query)), None)


def _active(reader: Reader) -> int:
    return sum(row.live for row in reader.tally() if row.kind == KIND)


_BUSY = Refused("busy", "Others kept changing the same memories; nothing was written, try again.")


def _missing(id: str) -> Refused:
    return Refused("not_found", f"There is no memory {id!r:.80}.")


def _duplicate(alike: Likeness) -> Refused:
    return Refused(
        "duplicate",
        f"This says nearly the same as memory {alike.id} in {alike.scope} (word overlap {alike.overlap:.2f}, sequence "
        f"{alike.sequence:.2f}). Update that one, or say what is new.",
        {"duplicate_of": alike.id, "scope": alike.scope, "overlap": alike.overlap, "sequence": alike.sequence},
    )


def _full(active: int) -> Refused:
    return Refused(
        "full",
        f"The vault is full: {active:,} memories are active. Forget some (`lukasa vault propose-deletions` names "
        "candidates), or raise the capacity in the profile.",
        {"active": active},
    )
