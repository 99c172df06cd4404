"""The conversation service: turns, state, facts, summaries, and prompts made of them, for one caller."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lukasa.context.compaction import ConversationSizeTracker, compact_conversation
from lukasa.context.facts import extract_facts, fact_id
from lukasa.context.prompt import AssembledPrompt, RecalledMemory, assemble_prompt, extract_passage, has_orphan_results
from lukasa.context.records import (
    CONTEXT,
    FACT,
    SUMMARY,
    TURN,
    ConversationReader,
    ConversationRecords,
    ParsedConversations,
    check_turns,
    diff_turns,
    is_nonblank_text,
    parse_fact,
    parse_state,
    parse_turn,
    turn_content,
)
from lukasa.context.state import (
    DEFAULT_SETTINGS,
    NO_SUMMARY,
    CompactionReport,
    Context,
    ConversationInfo,
    ConversationSettings,
    Fact,
    LoadedConversation,
    TimeLike,
    Turn,
    default_state,
)
from lukasa.context.summary import BY_HAND, extend_summary
from lukasa.core.argument_types import check_arguments
from lukasa.core.choices import Role
from lukasa.core.clock import Clock, IdMaker, Time, to_as_of, to_iso, to_utc
from lukasa.core.extra_fields import refuse_known_fields
from lukasa.core.freshness import EXPIRES_AT, confirmed_body, describe_age, describe_freshness, is_expired, read_time
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SHARED, poses_as_another
from lukasa.errors import InvalidInput, LukasaError, NotAllowed, StoreDamaged
from lukasa.journal import CallerService, Journal
from lukasa.journal.read_cache import ReadCache
from lukasa.models.llm import LanguageModel, open_language_model
from lukasa.models.token_counter import TokenCounter, open_token_counter
from lukasa.recall.memories import MemorySource, recall_memories
from lukasa.recall.unconfirmed_orders import find_unconfirmed_orders, split_by_reason
from lukasa.storage.engine import AsOf, Query, Reader

if TYPE_CHECKING:
    from lukasa.recall.recall import Recall

_MAX_ID_LENGTH = 200
_MAX_LOOKBACK_TURNS = 20
_TURN_BYTES = 1_000
_DEFAULT_OLDER_TURNS = 12


@check_arguments
class Conversations(CallerService):
    """The conversations of one caller. ``conversation_id`` names one of them; the document calls it ``session_id``.

    They are in the caller's own scope: that of its agent, or else the shared one. ``within`` gives those of another scope.
    """

    def __init__(
        self,
        journal: Journal,
        recall: Callable[[], Recall],
        clock: Clock,
        new_id: IdMaker,
        model: LanguageModel | None = None,
        open_model: Callable[[str], LanguageModel | None] = open_language_model,
        *,
        defaults: ConversationSettings = DEFAULT_SETTINGS,
        counter: TokenCounter | None = None,
    ) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._new_id = new_id
        self._defaults = defaults
        self._counter = counter
        self._model = model
        self._open_model = open_model
        self._scope = ""
        self._parsed = ParsedConversations()
        self._loaded: ReadCache[tuple[LoadedConversation, tuple[str, ...]]] = ReadCache(
            journal, 32, measure=lambda found: _measure_loaded(found[0])
        )
        self._size_tracker = ConversationSizeTracker(journal, self._parsed)

    def within(self, scope: str) -> Conversations:
        """Return the conversations of another scope.

        Args:
            scope: The scope.

        Example:
            memory.context.within("team").append("s1", "user", "Hello")
        """
        if not self._journal.reach.reads(scope):
            raise NotAllowed(f"The scope {scope!r:.80} is outside the caller's reach.")
        other = copy(self)
        other._scope = scope
        return other

    def using(self, model: LanguageModel | str | None) -> Conversations:
        """Return the same conversations with another language model; None means no model at all.

        Args:
            model: A language model, its name, or None for none.

        Example:
            memory.context.using(None).compact("s1")
        """
        other = copy(self)
        other._model = self._open_model(model) if isinstance(model, str) else model
        return other

    @property
    def scope(self) -> str:
        """The scope of the conversations."""
        if self._scope:
            return self._scope
        reach, author = self._journal.reach, self._journal.author
        names = (author, reach.project, SHARED)
        scope = next((name for name in names if name and reach.reads(name)), None)
        if scope is None and reach.readable is not None and len(reach.readable) == 1:
            (scope,) = reach.readable
        if scope is None:
            raise InvalidInput("This caller has no own scope for conversations.", hint="Name one: context.within(…)")
        return scope

    @property
    def counter(self) -> TokenCounter:
        """The token counter, opened on first use."""
        if self._counter is None:
            self._counter = open_token_counter()
        return self._counter

    def load(self, conversation_id: str, *, as_of: Time | int | None = None) -> Context:
        """Return the conversation now or at an earlier point; an empty one where there is none. Writes nothing.

        Args:
            conversation_id: The id of the conversation.
            as_of: An earlier time, or a position in the log.

        Example:
            memory.context.append("s1", "user", "Hello")
            memory.context.load("s1").recent_history
        """
        conversation = self._conversation(conversation_id)
        point = to_as_of(as_of)
        origin, recovered = self._loaded.read((conversation, point), lambda: self._read(conversation, point))
        return Context.from_loaded(conversation_id, conversation.scope, origin, recovered)

    def _read(
        self, conversation: ConversationRecords, point: AsOf | None
    ) -> tuple[LoadedConversation, tuple[str, ...]]:
        """Read a conversation, and what was damaged in it."""
        with self._journal.snapshot() as snapshot:
            reader = ConversationReader(snapshot, conversation, point, self._parsed)
            origin = reader.load() or LoadedConversation(state=default_state(), settings=self._defaults)
        return origin, tuple(reader.recovered)

    def save(self, context: Context) -> Outcome:
        """Write the edits of a context as one batch; a ``Conflict`` if another writer saved it since it was loaded.

        New entries become turns, entries removed from the beginning are folded, facts are added and deleted, and the state
        gets a new version. Turns that other writers appended meanwhile stay and cause no conflict.

        Args:
            context: The context, as ``load`` returns it.

        Example:
            context = memory.context.load("s1")
            context.facts.append("The release is on Friday.")
            memory.context.save(context)
        """
        conversation, origin = self._conversation(context.session_id), context.origin
        if context.scope not in ("", conversation.scope):
            return self.within(context.scope).save(context)
        folded, added = diff_turns(origin.turns, context.turns)
        if isinstance(added, Refused):
            return added
        turns = [replace(turn, id=self._new_id()) for turn in added]
        drafts = [*self._turn_drafts(conversation, turns)]
        if context.settings.extracting:
            drafts += self._new_fact_drafts(conversation, turns)
        drafts += conversation.fact_change_drafts(context.facts, origin.facts)
        if folded or context.long_term_summary != origin.latest_summary.text:
            if context.long_term_summary.__class__ is not str:
                raise InvalidInput("The long-term summary is text.")
            earlier = origin.latest_summary
            if context.facts == sorted(context.facts):  # as the compactor leaves them
                earlier = replace(earlier, sorted_position=origin.facts_position)
            summary = extend_summary(earlier, folded, context.long_term_summary, (), self.counter, BY_HAND)
            if folded:  # the folded turns must be all up to the newest of them, with no other still to come between
                query = conversation.turn_query(after=origin.folded_position, limit=len(folded))
                with self._journal.snapshot() as snapshot:
                    settled_ids = [record.id for record in snapshot.read(query)]
                if settled_ids != [turn.id for turn in folded]:
                    return Conflict(conversation.key(SUMMARY), origin.summary_version, origin.summary_version + 1)
            drafts += conversation.summary_drafts(origin.summary_version, [(summary, folded)])
        fork = origin.state.get("fork")
        state = deepcopy(context.state) | ({"fork": fork} if fork else {})
        is_unchanged = state == dict(origin.state) and context.settings == origin.settings
        if not drafts and origin.state_version and is_unchanged:
            return Accepted(())
        head = conversation.state_draft(state, context.settings, expected=origin.state_version, origin="chat")
        outcome = self._journal.append([head, *drafts])
        if isinstance(outcome, Accepted):
            self._size_tracker.invalidate(conversation)
            self._compact_if_automatic(conversation, context.settings)
            saved = self.load(context.session_id)
            for field in fields(Context):
                setattr(context, field.name, getattr(saved, field.name))
        return outcome

    def restore(self, context: Context, folded: Sequence[Turn] = (), *, origin: str = "import") -> Outcome:
        """Write a context as a new conversation; a ``Conflict`` if it exists. ``folded`` are the summarised turns.

        Args:
            context: The context to write.
            folded: The turns that the summary stands for.
            origin: Where the record comes from, in one word.

        Example:
            memory.context.append("s1", "user", "Hello")
            with lukasa.open("memory:") as copy:
                copy.context.restore(memory.context.load("s1"))
        """
        conversation = self._conversation(context.session_id)
        refused = check_turns([*folded, *context.turns])
        if refused is not None:
            return refused
        turns = [replace(turn, id=self._new_id()) for turn in (*folded, *context.turns)]
        drafts = [conversation.state_draft(deepcopy(context.state), context.settings, expected=0, origin=origin)]
        drafts += self._turn_drafts(conversation, turns, origin)
        drafts += conversation.fact_change_drafts(context.facts, ())
        if folded or context.long_term_summary:
            counted = [self._with_token_count(turn) for turn in turns[: len(folded)]]
            summary = extend_summary(NO_SUMMARY, counted, context.long_term_summary, (), self.counter, BY_HAND)
            drafts += conversation.summary_drafts(0, [(summary, counted)])
        return self._journal.append(drafts)

    def delete(self, conversation_id: str) -> Outcome:
        """Delete the turns, facts, summary and state of a conversation. History keeps them; ``journal.erase`` does not.

        Args:
            conversation_id: The id of the conversation.

        Example:
            memory.context.append("s1", "user", "Hello")
            memory.context.delete("s1")
        """
        conversation, keeps_authors = self._conversation(conversation_id), self._journal.reach.unlimited

        def tombstones(reader: Reader) -> Sequence[Draft] | Refused:
            records = [
                *reader.read(conversation.turn_query()),
                *reader.read(conversation.fact_query()),
                *filter(None, (reader.get(conversation.key(kind)) for kind in (SUMMARY, CONTEXT))),
            ]
            if not records:
                return conversation.not_found()
            return [
                Draft(
                    record.kind, id=record.id, scope=record.scope, author=record.author if keeps_authors else "",
                    origin="deletion", labels=record.labels, deleted=True,
                )
                for record in records
            ]  # fmt: skip

        outcome = self._journal.append_if(tombstones)
        self._size_tracker.invalidate(conversation)
        return outcome

    def list_sessions(self) -> Sequence[str]:
        """Return the ids of the conversations in this scope, oldest first.

        Example:
            memory.context.list_sessions()
        """
        scope = self.scope
        return [info.id for info in self.list() if info.scope == scope]

    def list(self) -> Sequence[ConversationInfo]:
        """Return the conversations of every scope within reach, oldest first.

        Example:
            memory.context.append("s1", "user", "Hello")
            [info.id for info in memory.context.list()]
        """
        infos = [
            ConversationInfo(record.id, record.scope, record.created_at, record.recorded_at)
            for record in self._journal.read(Query(kinds=(CONTEXT,)))
        ]
        return sorted(infos, key=lambda info: (info.created_at, info.id))

    def append(
        self,
        conversation_id: str,
        role: Role,
        content: str,
        *,
        speaker: str = "",
        timestamp: TimeLike | None = None,
        token_count: int | None = None,
        tool_calls: Sequence[Mapping[str, Any]] = (),
        tool_call_id: str = "",
        extra: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Outcome:
        """Add a turn and the facts it states, at a cost that does not depend on the conversation's length.

        ``key`` makes a repeated call return the outcome of the first. Past a limit, the conversation is compacted.

        Args:
            conversation_id: The id of the conversation.
            role: Who speaks: ``user``, ``assistant``, ``system``, ``tool`` or ``developer``.
            content: What was said.
            speaker: The name of the speaker; default: the role.
            timestamp: When it happened, if that is not now.
            token_count: How many tokens the turn has; default: counted.
            tool_calls: The tool calls that the assistant asked for.
            tool_call_id: The id of the tool call that this turn answers.
            extra: Further fields of the turn, as JSON.
            key: A word of the caller's for this call; a repeated call adds nothing.

        Example:
            memory.context.append("s1", "user", "We decided to use PostgreSQL.")
        """
        entry = {
            "role": role, "content": content, "timestamp": timestamp, "token_count": token_count, "speaker": speaker,
            "tool_calls": list(tool_calls), "tool_call_id": tool_call_id,
        }  # fmt: skip
        return self.extend(conversation_id, [{**(extra or {}), **entry}], key=key)

    def extend(
        self,
        conversation_id: str,
        turns: Iterable[Turn | Mapping[str, Any]],
        *,
        key: str | None = None,
        origin: str = "chat",
    ) -> Outcome:
        """Add turns, and the facts they state, as one batch.

        Args:
            conversation_id: The id of the conversation.
            turns: The turns, each with ``role`` and ``content``.
            key: A word of the caller's for this call; a repeated call adds nothing.
            origin: Where the record comes from, in one word.

        Example:
            memory.context.extend("s1", [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}])
        """
        conversation = self._conversation(conversation_id)
        new_turns = [Turn.from_entry(turn, "" if key else self._new_id()) for turn in turns]
        if (refused := check_turns(new_turns)) is not None:
            return refused
        if key:  # a repeated call gives its turns the same ids
            names = (f"{conversation_id}\0{key}\0{index}" for index in range(len(new_turns)))
            digests = (hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest() for name in names)
            new_turns = [replace(turn, id=digest[:26]) for turn, digest in zip(new_turns, digests, strict=True)]
            if (first := self._find_repeated_outcome(conversation, new_turns)) is not None:
                return first
        has_state, settings = self._read_settings(conversation)
        drafts = [draft._replace(expected=0) for draft in self._turn_drafts(conversation, new_turns, origin)]
        if settings.extracting:
            drafts += self._new_fact_drafts(conversation, new_turns)
        outcome = self._append_with_state(conversation, drafts, has_state=has_state)
        if isinstance(outcome, Conflict) and key:
            first = self._find_repeated_outcome(conversation, new_turns)
            return outcome if first is None else first
        if not isinstance(outcome, Accepted):
            return outcome
        records = list(outcome.records)
        written = [record for record in records if record.kind == TURN]
        parsed = [self._parsed.turns.add(record, len(turn_content(record)) + 500) for record in written]
        if settings.automatic and records and self._size_tracker.is_full(conversation, parsed, records, settings):
            self._compact_if_automatic(conversation, settings)
        return Accepted(written)

    def add_fact(
        self, conversation_id: str, text: str, *, turn: str = "", about: str = "", expires_at: Time | None = None
    ) -> Outcome:
        """Add a fact unless the same text is known; ``about`` names a slot whose fact the new one replaces.

        From ``expires_at`` on, prompts leave the fact out. A known fact with a new expiry is confirmed with it.

        Args:
            conversation_id: The id of the conversation.
            text: The fact, in one sentence.
            turn: The id of the turn that states it.
            about: The slot whose fact the new one replaces, such as ``release day``.
            expires_at: From this time on recall and prompts leave it out.

        Example:
            memory.context.add_fact("s1", "The release is on Friday.", about="release day")
        """
        conversation = self._conversation(conversation_id)
        if not is_nonblank_text(text):
            return Refused("bad_fact", "A fact is a sentence.")
        fact = Fact(" ".join(text.split()), about, "told", turn=turn)
        known = self._journal.get(Key(conversation.scope, FACT, fact_id(conversation.id, fact)))
        known = known if known is not None and known.text == fact.text else None
        if known is not None and (expires_at is None or read_time(known, EXPIRES_AT) == to_utc(expires_at)):
            return Accepted((known,), repeated=True)
        has_state, _ = self._read_settings(conversation)
        draft = conversation.fact_draft(fact, origin="chat")
        if known is not None:
            draft = draft._replace(body={**draft.body, **confirmed_body(known, self._clock.now(), expires_at)})
        elif expires_at is not None:
            draft = draft._replace(body={**draft.body, EXPIRES_AT: to_iso(to_utc(expires_at))})
        return self._append_with_state(conversation, [draft], has_state=has_state)

    def task(
        self,
        conversation_id: str,
        id: str,
        description: str | None = None,
        *,
        status: str | None = None,
        progress: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Add a task or change one; fields that are not given stay as they are.

        Args:
            conversation_id: The id of the conversation.
            id: The id of the task.
            description: What the task is about.
            status: How the task is, such as ``open`` or ``done``.
            progress: How far the task is, from 0 to 1.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.context.task("s1", "t1", "Write the release notes", status="open")
        """
        if not is_nonblank_text(id):
            return Refused("bad_task", "A task needs an id.")
        now = to_iso(self._clock.now())
        changes: dict[str, Any] = {"description": description, "status": status, "progress": progress}
        if (refused := refuse_known_fields(extra, (*changes, "created_at", "updated_at"))) is not None:
            return refused
        changes |= extra or {}

        def change(state: dict[str, Any]) -> None:
            task = next((task for task in state["active_tasks"] if task.get("id") == id), None)
            if task is None:
                task = {"id": id, "description": "", "status": "Running", "progress": 0.0, "created_at": now}
                state["active_tasks"].append(task)
            task.update({name: value for name, value in changes.items() if value is not None}, updated_at=now)

        return self._change_state(conversation_id, change)

    def tool_call(self, conversation_id: str, tool: str, *, failed: bool = False, count: int = 1) -> Outcome:
        """Count calls of a tool in ``tool_stats``, and failed ones as failures too.

        Args:
            conversation_id: The id of the conversation.
            tool: The name of the tool.
            failed: Count the calls as failures too.
            count: How many calls to count.

        Example:
            memory.context.tool_call("s1", "search", failed=True)
        """
        if not is_nonblank_text(tool) or type(count) is not int or count < 1:
            return Refused("bad_tool_call", "A tool call needs the tool's name and how often it was called.")

        def change(state: dict[str, Any]) -> None:
            stats = state["tool_stats"]
            _add_counts(stats, {"total_calls": count, "failures": count if failed else 0})
            _add_counts(stats.setdefault("by_tool", {}), {tool: count})

        return self._change_state(conversation_id, change)

    def usage(self, conversation_id: str, *, input: int = 0, output: int = 0) -> Outcome:
        """Add tokens that a model read and wrote to ``token_usage``.

        Args:
            conversation_id: The id of the conversation.
            input: How many tokens the model read.
            output: How many tokens the model wrote.

        Example:
            memory.context.usage("s1", input=1200, output=300)
        """
        if any(type(count) is not int or count < 0 for count in (input, output)):
            return Refused("bad_usage", "Tokens are counted in whole numbers that are not negative.")

        added = {"total_input": input, "total_output": output, "by_session": input + output}
        return self._change_state(conversation_id, lambda state: _add_counts(state["token_usage"], added))

    def environment(
        self, conversation_id: str, workspace: str | None = None, *, snapshot: Mapping[str, Any] | None = None
    ) -> Outcome:
        """Record the workspace, and values of a system snapshot that add to the earlier ones.

        Args:
            conversation_id: The id of the conversation.
            workspace: The folder that the conversation is about.
            snapshot: Values of the system, such as ``{"branch": "main"}``.

        Example:
            memory.context.environment("s1", "/srv/shop", snapshot={"branch": "main"})
        """
        now = to_iso(self._clock.now())

        def change(state: dict[str, Any]) -> None:
            environment = state["last_known_environment"]
            if workspace is not None:
                environment["workspace"] = workspace
                state["system_state"]["last_workspace"] = workspace
            environment["system_snapshot"] = {**(environment.get("system_snapshot") or {}), **(snapshot or {})}
            environment["last_update"] = now

        return self._change_state(conversation_id, change)

    def configure(self, conversation_id: str, **changes: Any) -> Outcome:
        """Change settings of a conversation, which are the fields of ``ConversationSettings``.

        Args:
            conversation_id: The id of the conversation.
            **changes: Settings by name: ``max_tokens``, ``max_history``, … (the fields of ``ConversationSettings``).

        Example:
            memory.context.append("s1", "user", "Hello")
            memory.context.configure("s1", tokens=50_000)
        """
        DEFAULT_SETTINGS.with_changes(changes)  # reject unknown names and invalid values before reading anything
        return self._change_state(conversation_id, lambda _: None, changes)

    def compact(self, conversation_id: str, *, keep: int | None = None) -> CompactionReport | Refused:
        """Fold all but the newest ``keep`` turns, sort facts, delete duplicate ones and prune completed tasks.

        Args:
            conversation_id: The id of the conversation.
            keep: How many of the newest turns stay; default: the setting.

        Example:
            memory.context.append("s1", "user", "We decided to use PostgreSQL.")
            memory.context.compact("s1", keep=0)
        """
        return self._compact(self._conversation(conversation_id), by_hand=True, keep=keep)

    def fork(self, conversation_id: str, new_id: str, *, at: str | AsOf | None = None) -> Outcome:
        """Start a new conversation as a copy of this one, now or at a turn (by its id), a time or a position.

        Args:
            conversation_id: The id of the conversation.
            new_id: The id of the new conversation.
            at: A turn, by its id, a time or a position; default: now.

        Example:
            memory.context.append("s1", "user", "Hello")
            memory.context.fork("s1", "s2")
        """
        conversation = self._conversation(conversation_id)
        fork = self._conversation(new_id)
        with self._journal.snapshot() as snapshot:
            if isinstance(at, str):
                turn = snapshot.get(Key(conversation.scope, TURN, at))
                if turn is None or conversation.turn_label not in turn.labels:
                    return Refused("not_found", f"There is no turn {at!r:.80} in the conversation {conversation_id!r}.")
                point: AsOf | None = turn.seq
            else:
                point = to_utc(at) if isinstance(at, datetime) else at
            origin = ConversationReader(snapshot, conversation, point).load()
            if origin is None:
                return Refused("not_found", f"There is no {conversation} at that point.")
            turns = snapshot.read(conversation.turn_query(as_of=point))
        outcome = self._journal.append(
            fork.fork_drafts(conversation, origin, turns, self._new_id, keep_authors=self._journal.reach.unlimited)
        )
        if isinstance(outcome, Accepted):  # at that point a compaction may have been due
            self._compact_if_automatic(fork, origin.settings)
        return outcome

    def transcript(
        self,
        conversation_id: str,
        *,
        as_of: Time | int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Turn]:
        """Iterate over all turns in order, folded ones included.

        Args:
            conversation_id: The id of the conversation.
            as_of: An earlier time, or a position in the log.
            newest_first: Begin with the newest turn.
            limit: How many turns to return at most.

        Example:
            memory.context.append("s1", "user", "Hello")
            [turn.content for turn in memory.context.transcript("s1")]
        """
        conversation = self._conversation(conversation_id)
        query = conversation.turn_query(as_of=to_as_of(as_of), newest_first=newest_first, limit=limit)
        for record in self._journal.read(query):
            yield parse_turn(record)

    def facts(self, conversation_id: str) -> Sequence[Fact]:
        """Return all facts of a conversation, oldest first, each with its rule and the turn that stated it.

        Args:
            conversation_id: The id of the conversation.

        Example:
            memory.context.append("s1", "user", "We decided to use PostgreSQL.")
            [fact.text for fact in memory.context.facts("s1")]
        """
        conversation = self._conversation(conversation_id)
        return [parse_fact(record) for record in self._journal.read(conversation.fact_query())]

    def find_facts(self, conversation_id: str, query: str, k: int = 10) -> Sequence[Fact]:
        """Return the facts of a conversation that answer a question best, by words and by meaning.

        Args:
            conversation_id: The id of the conversation.
            query: The question, in plain words.
            k: How many to return at most.

        Example:
            memory.context.add_fact("s1", "The release is on Friday.")
            memory.context.find_facts("s1", "When is the release?", k=3)
        """
        conversation = self._conversation(conversation_id)
        result = self._recall()(
            query, k, kinds=(FACT,), scopes=(conversation.scope,), labels=(conversation.fact_label,), min_relevance=0
        )
        return [parse_fact(record) for record in result.records]

    def versions(self, conversation_id: str) -> Sequence[Record]:
        """Return the versions of state and summary, oldest first; ``load(…, as_of=record.seq)`` goes back to one.

        Args:
            conversation_id: The id of the conversation.

        Example:
            memory.context.append("s1", "user", "Hello")
            memory.context.versions("s1")
        """
        conversation = self._conversation(conversation_id)
        with self._journal.snapshot() as snapshot:
            records = [record for kind in (CONTEXT, SUMMARY) for record in snapshot.history(conversation.key(kind))]
        return sorted(records, key=lambda record: record.seq)

    def assemble(
        self,
        conversation_id: str,
        budget: int = 4_000,
        *,
        query: str | None = None,
        older: int = _DEFAULT_OLDER_TURNS,
        include: Iterable[MemorySource] = (),
    ) -> AssembledPrompt:
        """Build a prompt of at most ``budget`` tokens from summary, facts, relevant older turns and the newest turns.

        Folded turns are recalled by ``query``, or else by the last turn. ``include`` adds what the vault, knowledge or
        other conversations say about it, lasting facts first. Both forms, text and messages, fit the budget; the result
        names what did not fit.

        Args:
            conversation_id: The id of the conversation.
            budget: The most tokens that the result may take.
            query: What to recall folded turns by; default: the last turn.
            older: How many folded turns to recall at most.
            include: Where else to look: ``vault``, ``knowledge``, ``conversations``.

        Example:
            memory.context.append("s1", "user", "We decided to use PostgreSQL.")
            memory.context.assemble("s1", 2000, query="Which database?").text
        """
        if type(budget) is not int or budget < 0:
            raise InvalidInput("A budget is a number of tokens that is not negative.")
        context = self.load(conversation_id)
        turns = context.turns
        if turns and has_orphan_results(turns):
            turns = [*self._prepend_tool_call(self._conversation(conversation_id), turns)]
        if query is None:
            query = next((turn.content for turn in reversed(turns) if turn.role != "tool" and not turn.is_unsaid), "")
        older_turns: list[tuple[Turn, str]] = []
        left_out: list[tuple[Record, str]] = []
        now, fact_records = self._clock.now(), self._read_listed_facts(context)
        orders = list(find_unconfirmed_orders(self._journal, fact_records))
        expired = [record.key for record in fact_records if is_expired(record, now)]
        if budget and context.folded and older and query.strip():
            shown = {turn.id for turn in turns}
            result = self._recall()(
                query,
                older + len(shown),
                kinds=(TURN,),
                scopes=(context.scope,),
                conversation=conversation_id,
                min_relevance=0,
            ).without_orders()
            left_out += result.left_out
            for record in [record for record in result.records if record.id not in shown][:older]:
                turn = parse_turn(record)
                passage = replace(turn, content=extract_passage(turn.content, query))
                older_turns.append((passage, describe_freshness(record, now)))
        facts = [
            (record.text, _describe_origin(record, now))
            for record in fact_records
            if record.key not in (*expired, *orders)
        ]
        others: list[Record] = []
        if budget and query.strip() and (sources := list(include)):
            others, gone = recall_memories(self._recall(), query, sources, conversation_id)
            left_out += gone
        memories = [(record, describe_freshness(record, now)) for record in others]
        age = self._describe_summary_age(context, now)
        gone_keys = split_by_reason(left_out)
        recalled = RecalledMemory(
            facts, older_turns, (*expired, *gone_keys[0]), (*orders, *gone_keys[1]), age, memories
        )
        return assemble_prompt(context, turns, recalled, budget=budget, counter=self.counter)

    def _read_listed_facts(self, context: Context) -> Sequence[Record]:
        """Return the records of the facts that a context lists, in its order."""
        query = self._conversation(context.session_id).fact_query(newest_first=True, limit=context.settings.facts)
        by_id = {record.id: record for record in self._journal.read(query)} if context.origin.facts else {}
        return [by_id[fact.id] for fact in context.origin.facts if fact.id in by_id]

    def _describe_summary_age(self, context: Context, now: datetime) -> str:
        try:
            summary = self._journal.get(self._conversation(context.session_id).key(SUMMARY)) if context.folded else None
        except StoreDamaged:  # its text was recovered from an earlier version
            return ""
        by = f" by {summary.author}" if summary is not None and summary.author else ""
        return "" if summary is None else f"written {describe_age(summary.moment, now)}{by}"

    def _conversation(self, conversation_id: str) -> ConversationRecords:
        """Check the id of a conversation and return its keys, queries and drafts."""
        if conversation_id.__class__ is not str or not 0 < len(conversation_id) <= _MAX_ID_LENGTH:
            raise InvalidInput(f"A conversation's id is text of 1 to {_MAX_ID_LENGTH} characters.")
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in conversation_id):
            raise InvalidInput("A conversation's id holds a control character or half a character.")
        return ConversationRecords(conversation_id, self.scope)

    def _turn_drafts(
        self, conversation: ConversationRecords, turns: Sequence[Turn], origin: str = "chat"
    ) -> Sequence[Draft]:
        """Draft turns, each with its id and its tokens: those the caller counted, or counted here."""
        is_owner, counter_name = self._journal.reach.unlimited, self.counter.name
        return [
            conversation.turn_draft(
                turn, author=turn.name if is_owner and not poses_as_another(turn.name) else "", origin=origin,
                tokens=self.counter(turn.content) if turn.token_count is None else turn.token_count,
                counted_by=counter_name if turn.token_count is None else "caller",
            )
            for turn in turns
        ]  # fmt: skip

    def _with_token_count(self, turn: Turn) -> Turn:
        return turn if turn.token_count is not None else replace(turn, token_count=self.counter(turn.content))

    def _find_repeated_outcome(self, conversation: ConversationRecords, turns: Sequence[Turn]) -> Outcome | None:
        """Return the outcome of a repeated call, or None for a first one; refuse a key used for other content."""
        found = [self._journal.get(Key(conversation.scope, TURN, turn.id)) for turn in turns]
        records = [record for record in found if record is not None]
        if not records:
            return None
        if [turn_content(record) for record in records] != [turn.content for turn in turns]:
            return Refused("key_reused", "This idempotency key was used for something else; make a new one.")
        return Accepted(records, repeated=True)

    def _prepend_tool_call(self, conversation: ConversationRecords, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Add the folded turn whose tool calls the first results answer, if it is near enough."""
        first = self._journal.get(Key(conversation.scope, TURN, turns[0].id))
        if first is None:
            return list(turns)
        earlier: list[Turn] = []
        query = conversation.turn_query(before=first.seq, newest_first=True, limit=_MAX_LOOKBACK_TURNS)
        for record in self._journal.read(query):
            earlier.insert(0, parse_turn(record))
            if earlier[0].role != "tool":
                break
        extended = [*earlier, *turns]
        return list(turns) if has_orphan_results(extended) else extended

    def _append_with_state(
        self, conversation: ConversationRecords, drafts: Sequence[Draft], *, has_state: bool
    ) -> Outcome:
        """Append drafts, after a state record if the conversation has none; the outcome leaves that record out."""
        if not has_state:
            head = conversation.state_draft(default_state(), self._defaults, expected=0, origin="chat")
            outcome = self._journal.append([head, *drafts])
            if isinstance(outcome, Accepted):
                return Accepted([record for record in outcome.records if record.kind != CONTEXT])
            if not isinstance(outcome, Conflict) or outcome.key.kind != CONTEXT:
                return outcome
            # another writer started the conversation meanwhile
        return self._journal.append(drafts)

    def _read_settings(self, conversation: ConversationRecords) -> tuple[bool, ConversationSettings]:
        """Return whether the conversation has a state record, and its settings."""
        try:
            found = self._journal.get_parsed(conversation.key(CONTEXT), self._parsed.newest[CONTEXT])
            return (False, self._defaults) if found is None else (True, found[1][1])
        except (StoreDamaged, InvalidInput):  # load reports the damage; it does not stop an append
            return True, self._defaults

    def _change_state(
        self, conversation_id: str, change: Callable[[dict[str, Any]], None], settings: Mapping[str, Any] | None = None
    ) -> Outcome:
        """Change the state, and settings if given, in one conditional append."""
        conversation = self._conversation(conversation_id)

        def draft_change(reader: Reader) -> Sequence[Draft] | Refused:
            version, (state, current) = ConversationReader(reader, conversation).read_latest_valid(
                CONTEXT, parse_state, (default_state(), self._defaults)
            )
            state = deepcopy(state)
            change(state)
            changed = current.with_changes(settings) if settings else current
            return [conversation.state_draft(state, changed, expected=None if version else 0, origin="chat")]

        outcome = self._journal.append_if(draft_change)
        if isinstance(outcome, Accepted) and settings:
            has_state, current = self._read_settings(conversation)
            if has_state:
                self._compact_if_automatic(conversation, current)
        return outcome

    def _compact_if_automatic(self, conversation: ConversationRecords, settings: ConversationSettings) -> None:
        """Compact past the limits if that is automatic. The turns are stored by now, so an error is not raised."""
        if settings.automatic:
            with suppress(LukasaError):  # load or compact reports it; the next append tries again
                self._compact(conversation)

    def _compact(
        self, conversation: ConversationRecords, *, by_hand: bool = False, keep: int | None = None
    ) -> CompactionReport | Refused:
        try:
            return compact_conversation(
                self._journal, conversation, clock=self._clock, counter=self.counter, model=self._model,
                by_hand=by_hand, keep=keep,
            )  # fmt: skip
        finally:
            self._size_tracker.invalidate(conversation)

    def _new_fact_drafts(self, conversation: ConversationRecords, turns: Sequence[Turn]) -> Sequence[Draft]:
        """Draft the facts that turns state, without those stored with the same text."""
        facts: dict[str, Fact] = {}
        stated_at: dict[str, datetime | None] = {}
        today = self._clock.now().date()
        for turn in turns:
            for fact in extract_facts(turn, today):
                id = fact_id(conversation.id, fact)
                facts[id] = replace(fact, id=id, turn=turn.id)
                stated_at[id] = turn.timestamp
        known = {id: self._journal.get(Key(conversation.scope, FACT, id)) for id in facts}
        return [
            conversation.fact_draft(fact, origin="extraction")._replace(happened_at=stated_at[id])
            for id, fact in facts.items()
            if (record := known[id]) is None or record.text != fact.text
        ]


def _describe_origin(record: Record, now: datetime) -> str:
    """Return who recorded a fact, unless it is the owner, and how old it is."""
    age = describe_freshness(record, now)
    return f"by {record.author}, {age}" if record.author else age


def _add_counts(section: dict[str, Any], added: Mapping[str, int]) -> None:
    """Add to counts of a section; a count that is missing or no number starts at 0."""
    for name, count in added.items():
        section[name] = count + (section[name] if type(section.get(name)) is int else 0)


def _measure_loaded(loaded: LoadedConversation) -> int:
    """Return about how many bytes a loaded conversation takes."""
    turns = sum(_TURN_BYTES + len(turn.content) for turn in loaded.turns)
    return turns + sum(_TURN_BYTES + len(fact.text) for fact in loaded.facts)
