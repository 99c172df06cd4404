"""Compaction: the limits that trigger it, a pure plan of its steps, and the batch that carries the plan out.

A compaction folds turns: the summary replaces them in the recent view. The entries step comes first: past ``entries`` turns, all
but the newest ``keep`` are folded. Then the tokens step: while the rest has more than ``tokens`` tokens, its older half is
folded. The newest turn always stays, so that a turn larger than the budget is neither lost nor folded forever. A second
plan on the result finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from lukasa.context.facts import fact_id, find_duplicate_facts
from lukasa.context.llm_summary import ModelSummariser, model_cost, propose_facts
from lukasa.context.records import (
    FACT,
    MAX_TURNS_PER_SUMMARY_VERSION,
    TURN,
    ConversationReader,
    ConversationRecords,
    ParsedConversations,
)
from lukasa.context.state import (
    CompactionReport,
    Context,
    ConversationSettings,
    ConversationSummary,
    Fact,
    LoadedConversation,
    Turn,
    parse_time,
)
from lukasa.context.summary import summarise
from lukasa.core.clock import Clock, SystemClock
from lukasa.core.outcome import Accepted, Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.models.llm import LanguageModel
from lukasa.models.token_counter import TokenCounter, open_token_counter

BY_ENTRIES, BY_TOKENS, BY_HAND = "entries", "tokens", "by hand"
_COMPLETED_STATUSES = frozenset({"completed", "complete", "done"})
_MAX_ATTEMPTS = 8
_MAX_TRACKED = 1_000

Summariser = Callable[
    [ConversationSummary, Sequence[Turn], int, Callable[[str], int], Sequence[str]], ConversationSummary
]
"""Folds turns into an earlier summary: takes that summary, the turns, a token budget, a token counter and remarks."""


def compact_conversation(
    journal: Journal,
    conversation: ConversationRecords,
    *,
    clock: Clock,
    counter: TokenCounter,
    model: LanguageModel | None = None,
    by_hand: bool = False,
    keep: int | None = None,
) -> CompactionReport | Refused:
    """Plan on settled turns and write the plan as one batch; on a conflict, read and plan again."""
    cost_before = model_cost(model)
    for _ in range(_MAX_ATTEMPTS):
        with journal.snapshot() as snapshot:
            origin = ConversationReader(snapshot, conversation).load(settled_only=True)
            if origin is None:
                is_new = ConversationReader(snapshot, conversation).load() is not None
                return CompactionReport(conversation.id) if is_new else conversation.not_found()
        tasks = origin.state["active_tasks"]
        plan = plan_compaction(
            origin.turns, tasks, origin.facts, origin.settings, clock.now(), by_hand=by_hand, keep=keep
        )
        if not plan:
            return plan.report(conversation.id, origin.latest_summary)
        summary = replace(origin.latest_summary, sorted_position=origin.facts_position)
        drafts, steps = list[Draft](), list[tuple[ConversationSummary, Sequence[Turn]]]()
        if plan.turns_to_fold or plan.pruned_tasks:
            summariser: Summariser = summarise if model is None else ModelSummariser(model, counter)
            turns = plan.turns_to_fold
            for start in range(0, max(1, len(turns)), MAX_TURNS_PER_SUMMARY_VERSION):
                end = start + MAX_TURNS_PER_SUMMARY_VERSION
                remarks = plan.remarks if end >= len(turns) else ()
                summary = summariser(summary, turns[start:end], origin.settings.summary_tokens, counter, remarks)
                steps.append((summary, turns[start:end]))
        drafts += conversation.summary_drafts(origin.summary_version, steps or [(summary, ())])
        if plan.pruned_tasks:
            state = dict(origin.state) | {"active_tasks": [dict(task) for task in plan.remaining_tasks]}
            version = origin.state_version
            drafts.append(conversation.state_draft(state, origin.settings, expected=version, origin="compaction"))
        drafts += map(conversation.fact_tombstone, plan.duplicate_facts)
        if model is not None and plan.turns_to_fold and origin.settings.extracting:
            drafts += [
                conversation.fact_draft(fact, origin="model")
                for fact in propose_facts(model, plan.turns_to_fold, counter)
                if journal.get(Key(conversation.scope, FACT, fact_id(conversation.id, fact))) is None
            ]
        outcome = journal.append(drafts)
        if isinstance(outcome, Accepted):
            cost = {name: value - cost_before.get(name, 0) for name, value in model_cost(model).items()}
            return plan.report(conversation.id, summary, cost)
        if isinstance(outcome, Refused):
            raise InvalidInput(f"The conversation cannot be compacted: {outcome.reason}")
    return CompactionReport(conversation.id)  # other writers keep compacting it


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The steps of a compaction; true when there is anything to do."""

    turns_to_fold: tuple[Turn, ...] = ()
    turns_to_keep: tuple[Turn, ...] = ()
    steps: tuple[str, ...] = ()
    pruned_tasks: tuple[Mapping[str, Any], ...] = ()
    remaining_tasks: tuple[Mapping[str, Any], ...] = ()
    duplicate_facts: tuple[Fact, ...] = ()
    sorts_facts: bool = False

    def __bool__(self) -> bool:
        return bool(self.turns_to_fold or self.pruned_tasks or self.duplicate_facts or self.sorts_facts)

    @property
    def remarks(self) -> list[str]:
        """Summary lines for the pruned tasks."""
        return [
            f"Task completed: {task.get('description') or task.get('id') or 'unnamed'}" for task in self.pruned_tasks
        ]

    def report(
        self, session_id: str, summary: ConversationSummary, cost: Mapping[str, Any] | None = None
    ) -> CompactionReport:
        """Report the plan as carried out, with the summary it led to."""
        return CompactionReport(
            session_id=session_id,
            folded=tuple(turn.id for turn in self.turns_to_fold),
            folded_tokens=sum(turn.tokens for turn in self.turns_to_fold),
            kept=len(self.turns_to_keep),
            steps=self.steps,
            pruned_tasks=tuple(str(task.get("id", "")) for task in self.pruned_tasks),
            duplicate_facts=tuple(fact.text for fact in self.duplicate_facts),
            summary_tokens=summary.tokens,
            by=summary.by if self.turns_to_fold else "",
            why=summary.why if self.turns_to_fold else "",
            cost=dict(cost or {}),
        )


def plan_compaction(
    turns: Sequence[Turn],
    tasks: Sequence[Mapping[str, Any]],
    facts: Sequence[Fact],
    settings: ConversationSettings,
    now: datetime,
    *,
    by_hand: bool = False,
    keep: int | None = None,
) -> CompactionPlan:
    """Plan the compaction of a conversation. ``by_hand`` folds all but the newest turns even within the limits."""
    kept = settings.keep if keep is None else keep
    if kept < 0:
        raise InvalidInput("A compaction cannot keep fewer than no entries.")
    fold_count, steps = 0, list[str]()
    if len(turns) > settings.entries:
        fold_count, steps = len(turns) - kept, [BY_ENTRIES]
    elif by_hand and len(turns) > kept:
        fold_count, steps = len(turns) - kept, [BY_HAND]
    tokens = sum(turn.tokens for turn in turns[fold_count:])
    while tokens > settings.tokens and len(turns) - fold_count > 1:
        half = (len(turns) - fold_count) // 2
        tokens -= sum(turn.tokens for turn in turns[fold_count : fold_count + half])
        fold_count += half
        if BY_TOKENS not in steps:
            steps.append(BY_TOKENS)
    cutoff = now - timedelta(hours=settings.finished_hours)
    pruned = [task for task in tasks if _is_expired(task, cutoff)]
    return CompactionPlan(
        turns_to_fold=tuple(turns[:fold_count]),
        turns_to_keep=tuple(turns[fold_count:]),
        steps=tuple(steps),
        pruned_tasks=tuple(pruned),
        remaining_tasks=tuple(task for task in tasks if not _is_expired(task, cutoff)),
        duplicate_facts=tuple(find_duplicate_facts(facts)),
        sorts_facts=by_hand and [fact.text for fact in facts] != sorted(fact.text for fact in facts),
    )


def _is_expired(task: Mapping[str, Any], cutoff: datetime) -> bool:
    """Check whether a task was completed before a time; a task without a valid ``updated_at`` stays."""
    if str(task.get("status", "")).casefold() not in _COMPLETED_STATUSES:
        return False
    try:
        updated = task.get("updated_at")
        return updated is not None and parse_time(updated) <= cutoff
    except InvalidInput:
        return False


class ContextCompactor:
    """The document's compactor: compacts a loaded context in place. ``save`` then writes the result."""

    def __init__(
        self, *, clock: Clock | None = None, counter: TokenCounter | None = None, summariser: Summariser = summarise
    ) -> None:
        self._clock = clock or SystemClock()
        self._counter = counter or open_token_counter()
        self._summariser = summariser

    def compact(self, context: Context, *, by_hand: bool = False, keep: int | None = None) -> CompactionReport:
        """Fold turns past the limits, sort facts, drop duplicate ones and prune completed tasks."""
        turns = [
            turn if turn.token_count is not None else replace(turn, token_count=self._counter(turn.content))
            for turn in context.turns
        ]
        facts = [Fact(text) for text in context.facts]
        plan = plan_compaction(
            turns, context.active_tasks, facts, context.settings, self._clock.now(), by_hand=by_hand, keep=keep
        )
        summary = replace(context.origin.latest_summary, text=context.long_term_summary)
        if plan.turns_to_fold or plan.remarks:
            budget = context.settings.summary_tokens
            summary = self._summariser(summary, plan.turns_to_fold, budget, self._counter, plan.remarks)
            context.long_term_summary = summary.text
            context.recent_history[:] = list(plan.turns_to_keep)
        duplicates = {id(fact) for fact in plan.duplicate_facts}
        context.facts[:] = sorted(fact.text for fact in facts if id(fact) not in duplicates)
        context.active_tasks[:] = [dict(task) for task in plan.remaining_tasks]
        return plan.report(context.session_id, summary)


@dataclass(slots=True)
class _ConversationSize:
    """Turns and tokens of the recent view, counted up to a position of the log; ``next_position`` is that of the next write."""

    position: int
    entries: int
    tokens: int
    next_position: int = 0


class ConversationSizeTracker:
    """Estimates of how full conversations are, so that an append need not read the recent view.

    An estimate may be too high after another process compacts; it is too low by at most the writes in flight. A
    compaction reads the conversation again before it changes anything.
    """

    def __init__(self, journal: Journal, parsed: ParsedConversations) -> None:
        self._journal = journal
        self._parsed = parsed
        self._sizes: dict[ConversationRecords, _ConversationSize] = {}
        self._lock = Lock()

    def is_full(
        self,
        conversation: ConversationRecords,
        written: Sequence[tuple[int, Turn]],
        batch: Sequence[Record],
        settings: ConversationSettings,
    ) -> bool:
        """Check whether a limit may be passed after turns were written in a batch."""
        with self._lock:
            size = self._sizes.get(conversation)
        if size is None:
            size = self._measure(conversation)
        else:
            is_only_writer = batch[0].seq == size.next_position and batch[-1].seq == batch[0].seq + len(batch) - 1
            if not is_only_writer:  # others may have written turns since the last check
                written = self._read_new_turns(size, conversation, len(written))
            if written:
                size.position = written[-1][0]
                size.entries += len(written)
                size.tokens += sum(turn.tokens for _, turn in written)
        size.next_position = max(size.next_position, batch[-1].seq + 1)
        with self._lock:
            if len(self._sizes) >= _MAX_TRACKED:
                self._sizes.clear()
            self._sizes[conversation] = size
        return size.entries > settings.entries or (size.tokens > settings.tokens and size.entries > 1)

    def invalidate(self, conversation: ConversationRecords) -> None:
        """Forget the estimate; the next check measures the conversation."""
        with self._lock:
            self._sizes.pop(conversation, None)

    def _measure(self, conversation: ConversationRecords) -> _ConversationSize:
        with self._journal.snapshot() as reader:
            origin = ConversationReader(reader, conversation, parsed=self._parsed).load() or LoadedConversation()
            newest = reader.get(Key(conversation.scope, TURN, origin.turns[-1].id)) if origin.turns else None
        position = newest.seq if newest is not None else origin.folded_position
        return _ConversationSize(position, len(origin.turns), sum(turn.tokens for turn in origin.turns))

    def _read_new_turns(
        self, size: _ConversationSize, conversation: ConversationRecords, written_count: int
    ) -> list[tuple[int, Turn]]:
        """Read the turns that any writer appended since the last check."""
        read, query = self._journal.read_parsed, conversation.turn_query()
        return self._parsed.read_newest_turns(read, query, size.position, written_count + 1)[::-1]
