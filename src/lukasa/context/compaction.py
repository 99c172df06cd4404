"""When a session is compacted and what that means: a pure plan, made from what is there and carried out elsewhere.

The history step comes first: more than ``entries`` turns, and all but the newest ``keep`` are folded. Then the token
step: as long as the rest has more than ``tokens`` tokens, its older half is folded. The newest turn always stays, so a
turn larger than the budget is neither lost nor looped over. Planning again on what is left finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from lukasa.clock import Clock, SystemClock
from lukasa.context.facts import find_duplicate_facts
from lukasa.context.state import (
    CompactionReport,
    Context,
    ConversationSettings,
    ConversationSummary,
    Fact,
    Turn,
    parse_time,
)
from lukasa.context.summary import summarise
from lukasa.errors import InvalidInput
from lukasa.models.token_counter import TokenCounter, open_token_counter

BY_ENTRIES, BY_TOKENS, BY_HAND = "entries", "tokens", "by hand"
_COMPLETED_STATUSES = frozenset({"completed", "complete", "done"})


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction will do: the turns to fold and those to keep, tasks to prune, facts that are there twice."""

    turns_to_fold: tuple[Turn, ...] = ()
    turns_to_keep: tuple[Turn, ...] = ()
    steps: tuple[str, ...] = ()
    pruned_tasks: tuple[Mapping[str, Any], ...] = ()
    remaining_tasks: tuple[Mapping[str, Any], ...] = ()
    duplicate_facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.turns_to_fold or self.pruned_tasks or self.duplicate_facts)

    @property
    def remarks(self) -> list[str]:
        """What the summary tells of the tasks that are pruned."""
        return [
            f"Task completed: {task.get('description') or task.get('id') or 'unnamed'}" for task in self.pruned_tasks
        ]


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
    """What to do with a session as it stands. ``by_hand`` folds all but the newest, whatever the limits say."""
    kept = settings.keep if keep is None else keep
    if kept < 0:
        raise InvalidInput("A compaction cannot keep fewer than no entries.")
    at, steps = 0, list[str]()
    if len(turns) > settings.entries:
        at, steps = len(turns) - kept, [BY_ENTRIES]
    elif by_hand and len(turns) > kept:
        at, steps = len(turns) - kept, [BY_HAND]
    left = sum(turn.tokens for turn in turns[at:])
    while left > settings.tokens and len(turns) - at > 1:
        half = (len(turns) - at) // 2
        left -= sum(turn.tokens for turn in turns[at : at + half])
        at += half
        if BY_TOKENS not in steps:
            steps.append(BY_TOKENS)
    pruned = [task for task in tasks if _is_expired_task(task, now - timedelta(hours=settings.finished_hours))]
    return CompactionPlan(
        turns_to_fold=tuple(turns[:at]),
        turns_to_keep=tuple(turns[at:]),
        steps=tuple(steps),
        pruned_tasks=tuple(pruned),
        remaining_tasks=tuple(task for task in tasks if not any(task is gone for gone in pruned)),
        duplicate_facts=tuple(find_duplicate_facts(facts)),
    )


def _is_expired_task(task: Mapping[str, Any], cutoff: datetime) -> bool:
    """Whether a task was completed before a time. One that does not say when it changed is kept."""
    if str(task.get("status", "")).casefold() not in _COMPLETED_STATUSES:
        return False
    try:
        changed = task.get("updated_at")
        return changed is not None and parse_time(changed) <= cutoff
    except InvalidInput:
        return False


class Summariser(Protocol):
    """Writes the summary of what was told before and of the turns that are folded now."""

    def __call__(
        self,
        earlier: ConversationSummary,
        turns: Sequence[Turn],
        budget: int,
        count: Callable[[str], int],
        remarks: Sequence[str],
    ) -> ConversationSummary: ...


class ContextCompactor:
    """Compacts a loaded context in place, as the document does; saving it makes that last."""

    def __init__(
        self, *, clock: Clock | None = None, counter: TokenCounter | None = None, summariser: Summariser = summarise
    ) -> None:
        self._clock = clock or SystemClock()
        self._counter = counter or open_token_counter()
        self._summariser = summariser

    def compact(self, context: Context, *, by_hand: bool = False, keep: int | None = None) -> CompactionReport:
        """Folds what the limits say, drops facts that are there twice, prunes tasks; true if anything was done."""
        turns = [_with_token_count(Turn.from_entry(entry), self._counter) for entry in context.recent_history]
        facts = [Fact(text) for text in context.facts]
        made = plan_compaction(
            turns, context.active_tasks, facts, context.settings, self._clock.now(), by_hand=by_hand, keep=keep
        )
        earlier = replace(context.origin.latest_summary, text=context.long_term_summary)
        summary = earlier
        if made.turns_to_fold or made.remarks:
            budget = context.settings.summary_tokens
            summary = self._summariser(earlier, made.turns_to_fold, budget, self._counter, made.remarks)
            context.long_term_summary = summary.text
            context.recent_history[:] = list(made.turns_to_keep)
        twice = {id(fact) for fact in made.duplicate_facts}
        context.facts[:] = [fact.text for fact in facts if id(fact) not in twice]
        context.active_tasks[:] = [dict(task) for task in made.remaining_tasks]
        return build_compaction_report(context.session_id, made, summary)


def build_compaction_report(
    session_id: str, plan: CompactionPlan, summary: ConversationSummary, cost: Mapping[str, Any] | None = None
) -> CompactionReport:
    """What carrying out a plan came to."""
    return CompactionReport(
        session_id=session_id,
        folded=tuple(turn.id for turn in plan.turns_to_fold),
        folded_tokens=sum(turn.tokens for turn in plan.turns_to_fold),
        kept=len(plan.turns_to_keep),
        steps=plan.steps,
        pruned_tasks=tuple(str(task.get("id", "")) for task in plan.pruned_tasks),
        duplicate_facts=tuple(fact.text for fact in plan.duplicate_facts),
        summary_tokens=summary.tokens,
        by=summary.by if plan.turns_to_fold else "",
        why=summary.why if plan.turns_to_fold else "",
        cost=dict(cost or {}),
    )


def _with_token_count(turn: Turn, counter: TokenCounter) -> Turn:
    return turn if turn.token_count is not None else replace(turn, token_count=counter(turn.content))
