"""Sessions for one caller: their turns, their small state, their summaries, and prompts made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lukasa.clock import Clock, IdMaker, to_iso, to_utc
from lukasa.context.changes import (
    check_turns,
    diff_turns,
    fact_change_drafts,
    fact_tombstone,
    fork_drafts,
    is_nonblank_text,
    summary_drafts,
    tombstone,
)
from lukasa.context.compaction import CompactionPlan, Summariser, build_compaction_report, plan_compaction
from lukasa.context.facts import extract_facts, fact_id
from lukasa.context.llm_summary import ModelSummariser, model_cost, propose_facts
from lukasa.context.prompt import AssembledPrompt, assemble_prompt, extract_passage, has_orphan_results
from lukasa.context.records import (
    CONTEXT,
    FACT,
    MAX_TURNS_PER_SUMMARY_VERSION,
    SUMMARY,
    TURN,
    ConversationReader,
    fact_draft,
    fact_label,
    parse_fact,
    parse_state,
    parse_turn,
    state_draft,
    turn_draft,
    turn_label,
)
from lukasa.context.size_tracker import ConversationSizeTracker
from lukasa.context.state import (
    DEFAULT_SETTINGS,
    NO_SUMMARY,
    CompactionReport,
    Context,
    ConversationInfo,
    ConversationSettings,
    ConversationSummary,
    Fact,
    LoadedConversation,
    TimeLike,
    Turn,
    default_state,
)
from lukasa.context.summary import BY_HAND, extend_summary, summarise
from lukasa.errors import InvalidInput, LukasaError, NotAllowed, StoreDamaged
from lukasa.journal import Journal
from lukasa.models.llm import LanguageModel, open_language_model
from lukasa.models.token_counter import TokenCounter, open_token_counter
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Draft, Key, Record
from lukasa.scope import SHARED
from lukasa.storage.engine import AsOf, Query, Reader

if TYPE_CHECKING:
    from lukasa.recall.recall import Recall

_MAX_ID_LENGTH = 200
_MAX_ATTEMPTS = 8
_MAX_LOOKBACK_TURNS = 20
_DEFAULT_OLDER_TURNS = 12


class Conversations:
    """Keeps sessions and hands them out: ``load``, ``save``, ``delete``, ``list_sessions``, and calls that append.

    Sessions stand in the caller's own scope: that of its agent, else the shared one; ``within`` names another.
    """

    def __init__(
        self,
        journal: Journal,
        recall: Callable[[], Recall],
        clock: Clock,
        new_id: IdMaker,
        *,
        defaults: ConversationSettings = DEFAULT_SETTINGS,
        counter: TokenCounter | None = None,
        model: LanguageModel | None = None,
    ) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._new_id = new_id
        self._defaults = defaults
        self._counter = counter
        self._model = model
        self._scope = ""
        self._size_tracker = ConversationSizeTracker(journal)

    # Another view of the same room

    def within(self, scope: str) -> Conversations:
        """The sessions of another scope."""
        if not self._journal.reach.reads(scope):
            raise NotAllowed(f"The scope {scope!r:.80} is outside the caller's reach.")
        other = copy(self)
        other._scope = scope
        return other

    def using(self, model: LanguageModel | str | None) -> Conversations:
        """The same sessions, summarised by a language model; ``None`` for none, whatever the environment names."""
        other = copy(self)
        other._model = open_language_model(model) if isinstance(model, str) else model
        return other

    @property
    def scope(self) -> str:
        """Where the sessions stand."""
        if self._scope:
            return self._scope
        reach, author = self._journal.reach, self._journal.author
        own = next((name for name in (author, SHARED) if name and reach.reads(name)), None)
        if own is None and reach.readable is not None and len(reach.readable) == 1:
            (own,) = reach.readable
        if own is None:
            raise InvalidInput("This caller has no scope of its own for sessions.", hint="Name one: context.within(…)")
        return own

    @property
    def counter(self) -> TokenCounter:
        """Who counts tokens."""
        if self._counter is None:
            self._counter = open_token_counter()
        return self._counter

    # The document's four calls

    def load(self, session_id: str, *, as_of: AsOf | None = None) -> Context:
        """The session as it stands, or stood; a new one where there is none. Nothing is written."""
        scope = self._resolve_scope(session_id)
        with self._journal.snapshot() as reader:
            shelf = ConversationReader(
                reader, session_id, scope, to_utc(as_of) if isinstance(as_of, datetime) else as_of
            )
            origin = shelf.load() or LoadedConversation(state=default_state(), settings=self._defaults)
        return Context.from_loaded(session_id, scope, origin, tuple(shelf.recovered))

    def save(self, context: Context) -> Outcome:
        """Writes what was changed since the context was loaded. One that was saved by others since is a ``Conflict``.

        New entries become turns, entries gone from the beginning are folded, facts come and go, fields get a new
        version: as one batch. Turns that were appended by others meanwhile stay, and are not in the way.
        """
        scope = self._resolve_scope(context.session_id)
        if context.scope not in ("", scope):
            return self.within(context.scope).save(context)
        origin = context.origin
        folded, fresh = diff_turns(origin.turns, context.turns)
        if isinstance(fresh, Refused):
            return fresh
        named = [replace(turn, id=self._new_id()) for turn in fresh]
        drafts = self._turn_drafts(context.session_id, scope, named)
        if context.settings.extracting:
            drafts += self._new_fact_drafts(context.session_id, scope, named)
        drafts += fact_change_drafts(context, scope)
        summary = self._hand_written_summary(context, folded)
        if summary is not None:
            if folded and not self._can_fold(context.session_id, scope, origin, folded):
                return Conflict(
                    Key(scope, SUMMARY, context.session_id), origin.summary_version, origin.summary_version + 1
                )
            drafts += summary_drafts(context.session_id, scope, origin, [(summary, folded)])
        if not drafts and origin.state_version and _is_unchanged(context):
            return Accepted(())
        outcome = self._journal.append([_context_draft(context, scope, "chat"), *drafts])
        if isinstance(outcome, Accepted):
            self._size_tracker.invalidate(context.session_id, scope)
            self._compact_if_full(context.session_id, scope, context.settings)
            now = self.load(context.session_id)
            for each in fields(Context):
                setattr(context, each.name, getattr(now, each.name))
        return outcome

    def restore(self, context: Context, folded: Sequence[Turn] = (), *, origin: str = "import") -> Outcome:
        """Writes a whole context as a new session, after the turns that its summary stands for.

        A session that is there already is a ``Conflict``.
        """
        scope = self._resolve_scope(context.session_id)
        refused = check_turns([*folded, *context.turns])
        if refused is not None:
            return refused
        turns = [replace(turn, id="") for turn in (*folded, *context.turns)]
        drafts = [_context_draft(replace(context, origin=LoadedConversation()), scope, origin)]
        drafts += self._turn_drafts(context.session_id, scope, turns, origin)
        drafts += fact_change_drafts(replace(context, origin=LoadedConversation()), scope)
        if folded or context.long_term_summary:
            ids = [draft.id for draft in drafts if draft.kind == TURN][: len(folded)]
            named = [replace(self._with_token_count(turn), id=id) for turn, id in zip(folded, ids, strict=True)]
            summary = extend_summary(NO_SUMMARY, named, context.long_term_summary, (), self.counter, BY_HAND)
            drafts += summary_drafts(context.session_id, scope, LoadedConversation(), [(summary, named)])
        return self._journal.append(drafts)

    def delete(self, session_id: str) -> Outcome:
        """Takes a session away: its turns, facts, summary and state. History keeps them; ``journal.erase`` does not."""
        scope = self._resolve_scope(session_id)

        def tombstones(reader: Reader) -> Sequence[Draft] | Refused:
            everything = [
                *reader.read(Query(kinds=(TURN,), scopes=(scope,), labels=(turn_label(session_id),))),
                *reader.read(Query(kinds=(FACT,), scopes=(scope,), labels=(fact_label(session_id),))),
                *filter(None, (reader.get(Key(scope, kind, session_id)) for kind in (SUMMARY, CONTEXT))),
            ]
            if not everything:
                return Refused("not_found", f"There is no session {session_id!r} in the scope {scope!r}.")
            return [tombstone(record) for record in everything]

        outcome = self._journal.append_if(tombstones)
        self._size_tracker.invalidate(session_id, scope)
        return outcome

    def list_sessions(self) -> list[str]:
        """The ids of all sessions of this scope, oldest first."""
        return [session.id for session in self.sessions() if session.scope == self.scope]

    def sessions(self) -> list[ConversationInfo]:
        """Every session within reach, oldest first, whatever its scope."""
        found = [
            ConversationInfo(record.id, record.scope, record.created_at, record.recorded_at)
            for record in self._journal.read(Query(kinds=(CONTEXT,)))
        ]
        return sorted(found, key=lambda session: (session.created_at, session.id))

    # Calls that append

    def append(
        self,
        session_id: str,
        role: str,
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
        """Adds a turn, and the facts it states. Costs the same however long the session is.

        ``key`` makes a repeated call answer as the first did. Past a limit of the session it is compacted.
        """
        told = {
            "role": role, "content": content, "timestamp": timestamp, "token_count": token_count, "speaker": speaker,
            "tool_calls": list(tool_calls), "tool_call_id": tool_call_id,
        }  # fmt: skip
        turn = Turn.from_entry({**(extra or {}), **told})
        return self.extend(session_id, [turn], key=key)

    def extend(
        self,
        session_id: str,
        turns: Iterable[Turn | Mapping[str, Any]],
        *,
        key: str | None = None,
        origin: str = "chat",
    ) -> Outcome:
        """Adds turns as one batch."""
        scope = self._resolve_scope(session_id)
        told = [Turn.from_entry(turn) for turn in turns]
        if (refused := check_turns(told)) is not None:
            return refused
        named = [
            replace(turn, id=_turn_id_for_key(session_id, key, at) if key else self._new_id())
            for at, turn in enumerate(told)
        ]
        if key and (known := self._find_repeated_outcome(scope, named)) is not None:
            return known
        head, settings = self._read_settings(session_id, scope)
        drafts = [draft._replace(expected=0) for draft in self._turn_drafts(session_id, scope, named, origin)]
        if settings.extracting:
            drafts += self._new_fact_drafts(session_id, scope, named)
        opening = state_draft(session_id, scope, default_state(), self._defaults, expected=0, origin="chat")
        outcome = self._journal.append(drafts if head else [opening, *drafts])
        if isinstance(outcome, Conflict) and outcome.key.kind == CONTEXT:  # somebody else opened the session meanwhile
            outcome = self._journal.append(drafts)
        if isinstance(outcome, Conflict) and key and (known := self._find_repeated_outcome(scope, named)) is not None:
            return known
        if not isinstance(outcome, Accepted):
            return outcome
        written = [record for record in outcome.records if record.kind == TURN]
        if (
            settings.automatic
            and not outcome.repeated
            and self._size_tracker.is_full(session_id, scope, len(written), settings)
        ):
            self._compact_if_full(session_id, scope, settings)
        return Accepted(written)

    def add_fact(self, session_id: str, text: str, *, turn: str = "", about: str = "") -> Outcome:
        """Keeps a fact. One that is known already is not kept twice; ``about`` names a slot in which it replaces another."""
        scope = self._resolve_scope(session_id)
        if not is_nonblank_text(text):
            return Refused("bad_fact", "A fact is a sentence.")
        fact = Fact(" ".join(text.split()), about, "told", turn=turn)
        known = self._journal.get(Key(scope, FACT, fact_id(session_id, fact)))
        if known is not None and known.text == fact.text:
            return Accepted((known,), repeated=True)
        return self._append_with_state(session_id, scope, [fact_draft(session_id, scope, fact, origin="chat")])

    def task(
        self,
        session_id: str,
        id: str,
        description: str | None = None,
        *,
        status: str | None = None,
        progress: float | None = None,
        **more: Any,
    ) -> Outcome:
        """Adds a task or changes one: what is not said stays as it is."""
        now = to_iso(self._clock.now())

        def change(state: dict[str, Any]) -> Refused | None:
            found = next((task for task in state["active_tasks"] if task.get("id") == id), None)
            if found is None:
                found = {"id": id, "description": "", "status": "Running", "progress": 0.0, "created_at": now}
                state["active_tasks"].append(found)
            told = {"description": description, "status": status, "progress": progress, **more}
            found.update({name: value for name, value in told.items() if value is not None}, updated_at=now)
            return None

        if not is_nonblank_text(id):
            return Refused("bad_task", "A task needs an id.")
        return self._change_state(session_id, change)

    def tool_call(self, session_id: str, tool: str, *, failed: bool = False, count: int = 1) -> Outcome:
        """Counts calls of a tool."""

        def change(state: dict[str, Any]) -> Refused | None:
            stats = state["tool_stats"]
            by_tool = stats.setdefault("by_tool", {})
            stats["total_calls"] = _int_or_zero(stats.get("total_calls")) + count
            by_tool[tool] = _int_or_zero(by_tool.get(tool)) + count
            stats["failures"] = _int_or_zero(stats.get("failures")) + (count if failed else 0)
            return None

        if not is_nonblank_text(tool) or type(count) is not int or count < 1:
            return Refused("bad_tool_call", "A tool call needs the tool's name and how often it was called.")
        return self._change_state(session_id, change)

    def usage(self, session_id: str, *, input: int = 0, output: int = 0) -> Outcome:
        """Adds tokens that a model read and wrote."""

        def change(state: dict[str, Any]) -> Refused | None:
            usage = state["token_usage"]
            usage["total_input"] = _int_or_zero(usage.get("total_input")) + input
            usage["total_output"] = _int_or_zero(usage.get("total_output")) + output
            usage["by_session"] = _int_or_zero(usage.get("by_session")) + input + output
            return None

        if any(type(count) is not int or count < 0 for count in (input, output)):
            return Refused("bad_usage", "Tokens are counted in whole numbers that are not negative.")
        return self._change_state(session_id, change)

    def environment(self, session_id: str, workspace: str | None = None, **snapshot: Any) -> Outcome:
        """Notes where the session works and what was seen of the system."""
        now = to_iso(self._clock.now())

        def change(state: dict[str, Any]) -> Refused | None:
            known = state["last_known_environment"]
            if workspace is not None:
                known["workspace"] = workspace
                state["system_state"]["last_workspace"] = workspace
            known["system_snapshot"] = {**(known.get("system_snapshot") or {}), **snapshot}
            known["last_update"] = now
            return None

        return self._change_state(session_id, change)

    def configure(self, session_id: str, **changes: Any) -> Outcome:
        """Changes settings of a session; see ``Settings``."""
        DEFAULT_SETTINGS.with_changes(changes)  # a name that means nothing is told at once, whatever is kept
        return self._change_state(session_id, lambda _: None, changes)

    # Compaction

    def compact(self, session_id: str, *, keep: int | None = None) -> CompactionReport:
        """Compacts by hand: folds all but the newest ``keep`` turns, drops double facts, prunes completed tasks."""
        return self._compact(session_id, self._resolve_scope(session_id), by_hand=True, keep=keep)

    def _compact(
        self, session_id: str, scope: str, *, by_hand: bool = False, keep: int | None = None
    ) -> CompactionReport:
        """Plans on a settled look and writes the plan as one batch; who loses a race looks again."""
        before = model_cost(self._model)
        for _ in range(_MAX_ATTEMPTS):
            with self._journal.snapshot() as reader:
                origin = ConversationReader(reader, session_id, scope).load(settled_only=True)
            if origin is None:
                return CompactionReport(session_id)
            tasks = origin.state["active_tasks"]
            made = plan_compaction(
                origin.turns, tasks, origin.facts, origin.settings, self._clock.now(), by_hand=by_hand, keep=keep
            )
            if not made:
                return replace(
                    build_compaction_report(session_id, made, origin.latest_summary), kept=len(made.turns_to_keep)
                )
            drafts, summary = self._compaction_drafts(session_id, scope, origin, made)
            outcome = self._journal.append(drafts)
            if isinstance(outcome, Accepted):
                self._size_tracker.invalidate(session_id, scope)
                return build_compaction_report(
                    session_id, made, summary, _subtract_costs(before, model_cost(self._model))
                )
            if isinstance(outcome, Refused):
                raise InvalidInput(f"The session cannot be compacted: {outcome.reason}")
        return CompactionReport(session_id)  # others compact it without pause; it is in good hands

    def _compaction_drafts(
        self, session_id: str, scope: str, origin: LoadedConversation, plan: CompactionPlan
    ) -> tuple[list[Draft], ConversationSummary]:
        drafts: list[Draft] = []
        summary, remarks = origin.latest_summary, plan.remarks
        if plan.turns_to_fold or remarks:
            steps: list[tuple[ConversationSummary, Sequence[Turn]]] = []
            budget, summarising = origin.settings.summary_tokens, self._choose_summariser()
            for start in range(0, max(1, len(plan.turns_to_fold)), MAX_TURNS_PER_SUMMARY_VERSION):
                turns = plan.turns_to_fold[start : start + MAX_TURNS_PER_SUMMARY_VERSION]
                told = remarks if start + MAX_TURNS_PER_SUMMARY_VERSION >= len(plan.turns_to_fold) else ()
                summary = summarising(summary, turns, budget, self.counter, told)
                steps.append((summary, turns))
            drafts += summary_drafts(session_id, scope, origin, steps)
        if plan.pruned_tasks:
            state = dict(origin.state) | {"active_tasks": [dict(task) for task in plan.remaining_tasks]}
            drafts.append(
                state_draft(
                    session_id, scope, state, origin.settings, expected=origin.state_version, origin="compaction"
                )
            )
        drafts += [fact_tombstone(scope, session_id, fact) for fact in plan.duplicate_facts]
        if self._model is not None and plan.turns_to_fold and origin.settings.extracting:
            drafts += [
                fact_draft(session_id, scope, fact, origin="model")
                for fact in propose_facts(self._model, plan.turns_to_fold, self.counter)
                if self._journal.get(Key(scope, FACT, fact_id(session_id, fact))) is None
            ]
        return drafts, summary

    def _choose_summariser(self) -> Summariser:
        return summarise if self._model is None else ModelSummariser(self._model, self.counter)

    # Reading

    def transcript(
        self, session_id: str, *, as_of: AsOf | None = None, newest_first: bool = False, limit: int | None = None
    ) -> Iterator[Turn]:
        """Every turn ever said, folded or not, in order."""
        scope = self._resolve_scope(session_id)
        query = Query(
            kinds=(TURN,),
            scopes=(scope,),
            labels=(turn_label(session_id),),
            as_of=as_of,
            newest_first=newest_first,
            limit=limit,
        )
        for record in self._journal.read(query):
            yield parse_turn(record)

    def facts(self, session_id: str) -> list[Fact]:
        """Every fact of a session, oldest first, with the turn and the rule it comes from."""
        scope = self._resolve_scope(session_id)
        query = Query(kinds=(FACT,), scopes=(scope,), labels=(fact_label(session_id),))
        return [parse_fact(record) for record in self._journal.read(query)]

    def find_facts(self, session_id: str, question: str, k: int = 10) -> list[Fact]:
        """The facts of a session that answer a question best, by words and by meaning."""
        scope = self._resolve_scope(session_id)
        recalled = self._recall()(question, k, kinds=(FACT,), scopes=(scope,), labels=(fact_label(session_id),))
        return [parse_fact(record) for record in recalled.records]

    def versions(self, session_id: str) -> list[Record]:
        """Every version of a session's state and summary, oldest first. ``load(…, as_of=record.seq)`` goes back to one."""
        scope = self._resolve_scope(session_id)
        with self._journal.snapshot() as reader:
            found = [*reader.history(Key(scope, CONTEXT, session_id)), *reader.history(Key(scope, SUMMARY, session_id))]
        return sorted(found, key=lambda record: record.seq)

    def assemble(
        self, session_id: str, budget: int = 8_000, *, question: str | None = None, older: int = _DEFAULT_OLDER_TURNS
    ) -> AssembledPrompt:
        """The session for a prompt, within ``budget`` tokens: summary, facts, older turns that matter, newest turns.

        Older turns are recalled by ``question``, else by what was said last. Both forms, text and messages, fit.
        """
        if type(budget) is not int or budget < 0:
            raise InvalidInput("A budget is a number of tokens that is not negative.")
        context = self.load(session_id)
        scope, turns = context.scope, context.turns
        if turns and has_orphan_results(turns):
            turns = self._prepend_tool_call(session_id, scope, turns)
        found = self._recall_older_turns(session_id, scope, turns, question, older) if budget and context.folded else []
        return assemble_prompt(
            session_id, context.long_term_summary, context.facts, turns, found, budget=budget, counter=self.counter
        )

    def _recall_older_turns(
        self, session_id: str, scope: str, turns: Sequence[Turn], question: str | None, limit: int
    ) -> list[Turn]:
        """Folded turns that answer a question, or what was said last."""
        asked = question if question is not None else next((t.content for t in reversed(turns) if t.role != "tool"), "")
        if not limit or not asked.strip():
            return []
        shown = {turn.id for turn in turns}
        recalled = self._recall()(asked, limit + len(shown), kinds=(TURN,), scopes=(scope,), session=session_id)
        found = [parse_turn(record) for record in recalled.records if record.id not in shown][:limit]
        return [replace(turn, content=extract_passage(turn.content, asked)) for turn in found]

    def _prepend_tool_call(self, session_id: str, scope: str, turns: Sequence[Turn]) -> list[Turn]:
        """The turns with the call before them that the first results belong to, if it is near."""
        first = self._journal.get(Key(scope, TURN, turns[0].id))
        if first is None:
            return list(turns)
        query = Query(
            kinds=(TURN,), scopes=(scope,), labels=(turn_label(session_id),), before=first.seq, newest_first=True,
            limit=_MAX_LOOKBACK_TURNS,
        )  # fmt: skip
        before: list[Turn] = []
        for record in self._journal.read(query):
            before.insert(0, parse_turn(record))
            if before[0].role != "tool":
                break
        whole = [*before, *turns]
        return list(turns) if has_orphan_results(whole) else whole

    # Forking

    def fork(self, session_id: str, new_id: str, *, at: str | AsOf | None = None) -> Outcome:
        """A new session that begins as this one stood at a turn (by its id), a time or a position; else as it stands."""
        scope = self._resolve_scope(session_id)
        self._resolve_scope(new_id)
        with self._journal.snapshot() as reader:
            if isinstance(at, str):
                turn = reader.get(Key(scope, TURN, at))
                if turn is None or turn_label(session_id) not in turn.labels:
                    return Refused("not_found", f"There is no turn {at!r:.80} in the session {session_id!r}.")
                point: AsOf | None = turn.seq
            else:
                point = to_utc(at) if isinstance(at, datetime) else at
            origin = ConversationReader(reader, session_id, scope, point).load()
            if origin is None:
                return Refused("not_found", f"There is no session {session_id!r} in the scope {scope!r} at that point.")
            records = reader.read(Query(kinds=(TURN,), scopes=(scope,), labels=(turn_label(session_id),), as_of=point))
        outcome = self._journal.append(fork_drafts(session_id, new_id, scope, origin, records, self._new_id))
        if isinstance(outcome, Accepted):  # at that point the session may have been about to be compacted
            self._compact_if_full(new_id, scope, origin.settings)
        return outcome

    # What the calls above share

    def _resolve_scope(self, session_id: str) -> str:
        """The scope of a session whose id can be one."""
        if session_id.__class__ is not str or not 0 < len(session_id) <= _MAX_ID_LENGTH:
            raise InvalidInput(f"A session's id is text of 1 to {_MAX_ID_LENGTH} characters.")
        if any(
            character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff"
            for character in session_id
        ):
            raise InvalidInput("A session's id holds a control character or half a character.")
        return self.scope

    def _find_repeated_outcome(self, scope: str, turns: Sequence[Turn]) -> Outcome | None:
        """What a repeated call answers; ``None`` when it is the first. Its turns have the ids they had then."""
        found = [self._journal.get(Key(scope, TURN, turn.id)) for turn in turns]
        records = [record for record in found if record is not None]
        if not records:
            return None
        if [record.text for record in records] != [turn.content for turn in turns]:
            return Refused("key_reused", "This idempotency key was used for something else; make a new one.")
        return Accepted(records, repeated=True)

    def _read_settings(self, session_id: str, scope: str) -> tuple[bool, ConversationSettings]:
        """Whether the session has its small record, and its settings."""
        try:
            record = self._journal.get(Key(scope, CONTEXT, session_id))
            return (False, self._defaults) if record is None else (True, parse_state(record.body)[1])
        except (StoreDamaged, InvalidInput):  # loading tells of it; a turn is kept all the same
            return True, self._defaults

    def _change_state(
        self,
        session_id: str,
        change: Callable[[dict[str, Any]], Refused | None],
        settings: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Changes the small state of a session, in one step that nobody can get between."""
        scope = self._resolve_scope(session_id)

        def decision(reader: Reader) -> Sequence[Draft] | Refused:
            shelf = ConversationReader(reader, session_id, scope)
            version, (state, kept) = shelf.read_latest_valid(CONTEXT, parse_state, (default_state(), self._defaults))
            state = deepcopy(state)
            refused = change(state)
            if refused is not None:
                return refused
            if settings:
                kept = kept.with_changes(settings)
            return [state_draft(session_id, scope, state, kept, expected=None if version else 0, origin="chat")]

        outcome = self._journal.append_if(decision)
        if isinstance(outcome, Accepted) and settings:
            head, kept = self._read_settings(session_id, scope)
            if head and kept.automatic:
                self._compact_if_full(session_id, scope, kept)
        return outcome

    def _append_with_state(self, session_id: str, scope: str, drafts: list[Draft]) -> Outcome:
        """Appends, after the small record of a session that has none yet."""
        if not self._read_settings(session_id, scope)[0]:
            opening = state_draft(session_id, scope, default_state(), self._defaults, expected=0, origin="chat")
            outcome = self._journal.append([opening, *drafts])
            if isinstance(outcome, Accepted):
                return Accepted([record for record in outcome.records if record.kind != CONTEXT])
            if not isinstance(outcome, Conflict) or outcome.key.kind != CONTEXT:
                return outcome
        return self._journal.append(drafts)

    def _with_token_count(self, turn: Turn) -> Turn:
        return turn if turn.token_count is not None else replace(turn, token_count=self.counter(turn.content))

    def _turn_drafts(self, session_id: str, scope: str, turns: Sequence[Turn], origin: str = "chat") -> list[Draft]:
        """Turns on their way in, each with an id and its tokens: those it was told with, or counted here."""
        by, own = self._journal.author, self.counter.name
        return [
            turn_draft(
                session_id, scope, self._with_token_count(turn), id=turn.id or self._new_id(), by=by, origin=origin,
                counted_by=own if turn.token_count is None else "caller",
            )
            for turn in turns
        ]  # fmt: skip

    def _new_fact_drafts(self, session_id: str, scope: str, turns: Sequence[Turn]) -> list[Draft]:
        """The facts that turns state, without those that are known in the same words."""
        found: dict[str, Fact] = {}
        for turn in turns:
            for fact in extract_facts(turn):
                id = fact_id(session_id, fact)
                found[id] = replace(fact, id=id, turn=turn.id)
        drafts = []
        for id, fact in found.items():
            known = self._journal.get(Key(scope, FACT, id))
            if known is None or known.text != fact.text:
                drafts.append(fact_draft(session_id, scope, fact, origin="extraction"))
        return drafts

    def _hand_written_summary(self, context: Context, folded: Sequence[Turn]) -> ConversationSummary | None:
        """The summary that a context was given, if it was changed or if entries were folded."""
        kept = context.origin.latest_summary
        if not folded and context.long_term_summary == kept.text:
            return None
        if context.long_term_summary.__class__ is not str:
            raise InvalidInput("The long-term summary is text.")
        return extend_summary(kept, folded, context.long_term_summary, (), self.counter, BY_HAND)

    def _can_fold(self, session_id: str, scope: str, origin: LoadedConversation, folded: Sequence[Turn]) -> bool:
        """Whether the turns to fold are all there are up to the newest of them, and no other can still come between."""
        with self._journal.snapshot() as reader:
            settled = reader.read(
                Query(
                    kinds=(TURN,), scopes=(scope,), labels=(turn_label(session_id),), after=origin.folded_position, limit=len(folded)
                )
            )  # fmt: skip
        return [record.id for record in settled] == [turn.id for turn in folded]

    def _compact_if_full(
        self, session_id: str, scope: str, settings: ConversationSettings, *, written: int | None = None
    ) -> None:
        """Compacts a session that has become too full. What was said is kept by then, so trouble here waits its turn."""
        if not settings.automatic:
            return
        try:
            if written is None or self._size_tracker.is_full(session_id, scope, written, settings):
                self._size_tracker.invalidate(session_id, scope)
                self._compact(session_id, scope)
        except LukasaError:  # told by whoever loads or compacts the session; the next append tries again
            self._size_tracker.invalidate(session_id, scope)


def _context_draft(context: Context, scope: str, origin: str) -> Draft:
    return state_draft(
        context.session_id,
        scope,
        _state_with_fork(context),
        context.settings,
        expected=context.origin.state_version,
        origin=origin,
    )


def _state_with_fork(context: Context) -> dict[str, Any]:
    fork = context.origin.state.get("fork")
    return deepcopy(context.state) | ({"fork": fork} if fork else {})


def _is_unchanged(context: Context) -> bool:
    return _state_with_fork(context) == dict(context.origin.state) and context.settings == context.origin.settings


def _turn_id_for_key(session_id: str, key: str, index: int) -> str:
    """The same id for the same turn of a repeated call."""
    return hashlib.sha256(f"{session_id}\0{key}\0{index}".encode("utf-8", "surrogatepass")).hexdigest()[:26]


def _int_or_zero(value: Any) -> int:
    return value if type(value) is int else 0


def _subtract_costs(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value - before.get(name, 0) for name, value in after.items()}
