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
from lukasa.context.facts import duplicates
from lukasa.context.state import Compaction, Context, Fact, Settings, Summary, Turn, moment_of
from lukasa.context.summary import summarise
from lukasa.errors import InvalidInput
from lukasa.prompt import Counter, open_counter

BY_ENTRIES, BY_TOKENS, BY_HAND = "entries", "tokens", "by hand"
_COMPLETED = frozenset({"completed", "complete", "done"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction will do: the turns to fold and those to keep, tasks to prune, facts that are there twice."""

    fold: tuple[Turn, ...] = ()
    keep: tuple[Turn, ...] = ()
    steps: tuple[str, ...] = ()
    pruned: tuple[Mapping[str, Any], ...] = ()
    tasks: tuple[Mapping[str, Any], ...] = ()
    twice: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fold or self.pruned or self.twice)

    @property
    def remarks(self) -> list[str]:
        """What the summary tells of the tasks that are pruned."""
        return [f"Task completed: {task.get('description') or task.get('id') or 'unnamed'}" for task in self.pruned]


def plan(
    turns: Sequence[Turn],
    tasks: Sequence[Mapping[str, Any]],
    facts: Sequence[Fact],
    settings: Settings,
    now: datetime,
    *,
    by_hand: bool = False,
    keep: int | None = None,
) -> Plan:
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
    pruned = [task for task in tasks if _is_over(task, now - timedelta(hours=settings.finished_hours))]
    return Plan(
        fold=tuple(turns[:at]),
        keep=tuple(turns[at:]),
        steps=tuple(steps),
        pruned=tuple(pruned),
        tasks=tuple(task for task in tasks if not any(task is gone for gone in pruned)),
        twice=tuple(duplicates(facts)),
    )


def _is_over(task: Mapping[str, Any], before: datetime) -> bool:
    """Whether a task was completed before a time. One that does not say when it changed is kept."""
    if str(task.get("status", "")).casefold() not in _COMPLETED:
        return False
    try:
        changed = task.get("updated_at")
        return changed is not None and moment_of(changed) <= before
    except InvalidInput:
        return False


class Summariser(Protocol):
    """Writes the summary of what was told before and of the turns that are folded now."""

    def __call__(
        self, earlier: Summary, turns: Sequence[Turn], budget: int, count: Callable[[str], int], remarks: Sequence[str]
    ) -> Summary: ...


class ContextCompactor:
    """Compacts a loaded context in place, as the document does; saving it makes that last."""

    def __init__(
        self, *, clock: Clock | None = None, counter: Counter | None = None, summariser: Summariser = summarise
    ) -> None:
        self._clock = clock or SystemClock()
        self._counter = counter or open_counter()
        self._summariser = summariser

    def compact(self, context: Context, *, by_hand: bool = False, keep: int | None = None) -> Compaction:
        """Folds what the limits say, drops facts that are there twice, prunes tasks; true if anything was done."""
        turns = [_counted(Turn.of(entry), self._counter) for entry in context.recent_history]
        facts = [Fact(text) for text in context.facts]
        made = plan(turns, context.active_tasks, facts, context.settings, self._clock.now(), by_hand=by_hand, keep=keep)
        earlier = replace(context.origin.kept, text=context.long_term_summary)
        summary = earlier
        if made.fold or made.remarks:
            budget = context.settings.summary_tokens
            summary = self._summariser(earlier, made.fold, budget, self._counter, made.remarks)
            context.long_term_summary = summary.text
            context.recent_history[:] = list(made.keep)
        twice = {id(fact) for fact in made.twice}
        context.facts[:] = [fact.text for fact in facts if id(fact) not in twice]
        context.active_tasks[:] = [dict(task) for task in made.tasks]
        return report(context.session_id, made, summary)


def report(session_id: str, made: Plan, summary: Summary, cost: Mapping[str, Any] | None = None) -> Compaction:
    """What carrying out a plan came to."""
    return Compaction(
        session_id=session_id,
        folded=tuple(turn.id for turn in made.fold),
        folded_tokens=sum(turn.tokens for turn in made.fold),
        kept=len(made.keep),
        steps=made.steps,
        pruned_tasks=tuple(str(task.get("id", "")) for task in made.pruned),
        duplicate_facts=tuple(fact.text for fact in made.twice),
        summary_tokens=summary.tokens,
        by=summary.by if made.fold else "",
        why=summary.why if made.fold else "",
        cost=dict(cost or {}),
    )


def _counted(turn: Turn, counter: Counter) -> Turn:
    return turn if turn.token_count is not None else replace(turn, token_count=counter(turn.content))
