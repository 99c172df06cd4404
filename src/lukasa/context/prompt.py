"""A conversation as a prompt within a token budget: a fenced block of memory, then the newest turns.

The newest turns have the first claim on the budget, to at least half of it; the rest goes to the summary, the facts and
older turns that answer the question. A tool result never appears without its call: both are in, or neither. Summary,
facts and older turns are recalled text, so they are fenced as data (``lukasa.recall.prompt``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lukasa.context.state import Context, Turn
from lukasa.context.summary import shorten_summary
from lukasa.core import canonical_json
from lukasa.core.clock import to_iso
from lukasa.core.freshness import describe_left_out
from lukasa.core.record import Key, Record
from lukasa.models.token_counter import TokenCounter
from lukasa.recall.prompt import PromptItem, build_fenced_block, neutralise
from lukasa.text.sentences import split_sentences
from lukasa.text.terms import find_words

TOKENS_PER_MESSAGE = 4
"""The tokens that chat formats add to each message."""
_MEMORY_SHARE = 0.5
_CUT_NOTICE = "\n[… shortened: {tokens:,} tokens in all, the whole turn is in the transcript …]\n"
_MIN_TURN_TOKENS = 48
_TOKENS_PER_ITEM = 24  # of the heading of a record in the block
_MAX_OLDER_TURNS = 12
_MAX_TOKEN_LENGTH = 200
_MAX_PASSAGE_LENGTH = 1_200


@dataclass(frozen=True, slots=True)
class AssembledPrompt:
    """A conversation ready for a model, as one text and as chat messages; neither exceeds the budget.

    ``recent`` and ``older`` are the ids of its turns; ``left_out`` counts recent turns that did not fit; ``shortened``
    are the ids of turns that were cut; ``expired`` are the keys of facts and older turns that are left out as expired.
    ``memories`` are the keys of other records that it tells, ``memories_left_out`` those that did not fit.
    """

    text: str
    messages: tuple[Mapping[str, Any], ...]
    tokens: int
    budget: int
    recent: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    facts: int = 0
    left_out: int = 0
    shortened: tuple[str, ...] = ()
    counted_by: str = ""
    expired: tuple[Key, ...] = ()
    orders: tuple[Key, ...] = ()
    """The keys of facts, older turns and other records that give orders which nobody confirmed; they are left out."""
    memories: tuple[Key, ...] = ()
    memories_left_out: tuple[Key, ...] = ()


class RecalledMemory(NamedTuple):
    """The parts of a prompt next to the newest turns: facts, older turns, other records, and names of expired records."""

    facts: Sequence[tuple[str, str]] = ()
    older: Sequence[tuple[Turn, str]] = ()
    expired: tuple[Key, ...] = ()
    orders: tuple[Key, ...] = ()
    summary_age: str = ""
    memories: Sequence[tuple[Record, str]] = ()
    """Records from outside the conversation with their age, the most important first."""


class _MemoryBlock(NamedTuple):
    """The fenced block, with its tokens, the older turns, the number of facts and the other records in it."""

    text: str = ""
    tokens: int = 0
    older_turns: tuple[Turn, ...] = ()
    fact_count: int = 0
    memories: tuple[Key, ...] = ()


def assemble_prompt(
    context: Context, turns: Sequence[Turn], recalled: RecalledMemory, *, budget: int, counter: TokenCounter
) -> AssembledPrompt:
    """Fit a conversation into a budget; ``turns`` are its newest; older turns are those found by recall, best first."""
    groups, recalled = group_tool_results(turns), recalled._replace(older=recalled.older[:_MAX_OLDER_TURNS])
    memory_budget = int(budget * _MEMORY_SHARE) - TOKENS_PER_MESSAGE
    memory = _build_memory_block(context, recalled, memory_budget, counter)
    turn_budget = budget - (memory.tokens + TOKENS_PER_MESSAGE if memory.text else 0)
    chosen, spent, cut_ids = _choose_newest(groups, turn_budget, counter)
    if (
        context.long_term_summary or recalled.facts or recalled.older or recalled.memories
    ) and turn_budget > spent:  # memory gets what is left
        memory_budget = memory.tokens + turn_budget - spent - TOKENS_PER_MESSAGE
        larger = _build_memory_block(context, recalled, memory_budget, counter)
        memory = larger if larger.text else memory
    left_out = sum(map(len, groups)) - sum(map(len, chosen))
    while True:  # count the whole prompt: the tokens of its parts need not add up exactly
        shown, block = [turn for group in chosen for turn in group], memory.text
        text = "\n\n".join([*([block] if block else []), *(_render_turn(turn) for turn in shown)])
        messages = [chat_message(turn) for turn in shown]
        if block:
            messages.insert(0, {"role": "system", "content": block})
        tokens = max(counter(text) if text else 0, sum(_count_message_tokens(message, counter) for message in messages))
        if tokens <= budget:
            return AssembledPrompt(
                text=text,
                messages=tuple(messages),
                tokens=tokens,
                budget=budget,
                recent=tuple(turn.id for turn in shown),
                older=tuple(turn.id for turn in memory.older_turns),
                facts=memory.fact_count,
                left_out=left_out,
                shortened=tuple(id for id in cut_ids if any(turn.id == id for turn in shown)),
                counted_by=counter.name,
                expired=recalled.expired,
                orders=recalled.orders,
                memories=memory.memories,
                memories_left_out=tuple(
                    record.key for record, _ in recalled.memories if record.key not in memory.memories
                ),
            )
        if len(chosen) > 1 or not block:
            left_out += len(chosen[0])
            chosen = chosen[1:]
        else:
            memory = _MemoryBlock()


def extract_passage(text: str, question: str) -> str:
    """Return the whole sentences of a long text that share most words with a question; a short text stays as it is."""
    if len(text) <= _MAX_PASSAGE_LENGTH:
        return text
    asked = set(find_words(question.lower()))
    parts = [part for part in split_sentences(text) if len(part) <= _MAX_PASSAGE_LENGTH] or [text[:_MAX_PASSAGE_LENGTH]]
    shared = [len(asked & set(find_words(part.lower()))) for part in parts]
    first = last = max(range(len(parts)), key=lambda index: (shared[index], -index))
    length = len(parts[first])
    while True:
        neighbours = [
            index
            for index in (first - 1, last + 1)
            if 0 <= index < len(parts) and length + len(parts[index]) < _MAX_PASSAGE_LENGTH
        ]
        if not neighbours:
            break
        best = max(neighbours, key=lambda index: (shared[index], index))
        first, last, length = min(first, best), max(last, best), length + len(parts[best]) + 1
    return " ".join(["[…]", *parts[first : last + 1], "[…]"])


def group_tool_results(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Group each call of tools with its results; leave out results without a call.

    A call with ids is answered by results with one of them; a call without ids by the results that follow it.
    """
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.role != "tool":
            groups.append([turn])
            continue
        for group in reversed(groups[-8:]):
            call_ids = {call.get("id") for call in group[0].tool_calls} - {None}
            is_answered = not call_ids or not turn.tool_call_id or turn.tool_call_id in call_ids
            if is_answered and group[0].role not in ("user", "human", "system"):
                group.append(turn)
                break
    return groups


def has_orphan_results(turns: Sequence[Turn]) -> bool:
    """Check whether any tool result has no call among these turns."""
    return sum(map(len, group_tool_results(turns))) < len(turns)


def chat_message(turn: Turn) -> dict[str, Any]:
    """Return a turn in the chat message format."""
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.speaker and turn.speaker != turn.role:
        message["name"] = turn.speaker
    if turn.tool_calls:
        message["tool_calls"] = [dict(call) for call in turn.tool_calls]
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    return message


def _build_memory_block(context: Context, recalled: RecalledMemory, budget: int, counter: TokenCounter) -> _MemoryBlock:
    """Fence summary, facts and older turns; each has a share of the budget and leaves the rest to the next."""
    session_id, older = context.session_id, recalled.older
    summary = replace(context.origin.latest_summary, text=context.long_term_summary)
    facts = [f"{fact} ({age})" if age else fact for fact, age in recalled.facts]
    items: list[PromptItem] = []
    remaining = max(0, budget - 80)
    keys: list[Key] = []
    limit = remaining // 2 if facts or older or summary.text else remaining
    for record, age in recalled.memories:
        cost = counter(record.text) + _TOKENS_PER_ITEM
        if cost <= limit:
            items.append(PromptItem(record.text, str(record.key), record.author, to_iso(record.moment)[:16], age=age))
            keys.append(record.key)
            limit, remaining = limit - cost, remaining - cost
    summary_budget = remaining // 2 if facts or older else remaining
    if summary.text and (brief := shorten_summary(summary, summary_budget, counter)):
        items.append(PromptItem(brief, f"summary of {session_id}", age=recalled.summary_age))
        remaining -= counter(brief) + 16
    chosen_facts: list[str] = []
    for fact in reversed(facts):  # the newest facts first
        cost = counter(f"│ - {fact}\n")
        if cost > (remaining // 2 if older else remaining):
            break
        chosen_facts.append(fact)
        remaining -= cost
    if chosen_facts:
        items.append(PromptItem("\n".join(f"- {fact}" for fact in reversed(chosen_facts)), f"facts of {session_id}"))
    turns = [turn for turn, _ in older if turn.content]
    before = len(items)
    items += [
        PromptItem(
            turn.content, f"earlier in {session_id}", turn.name,
            to_iso(turn.timestamp)[:16] if turn.timestamp else "", age=age,
        )
        for turn, age in older
        if turn.content
    ]  # fmt: skip
    if not items:
        return _MemoryBlock()
    closing = describe_left_out(recalled.expired, recalled.orders)
    block = build_fenced_block(items, budget=budget, counter=counter, closing=closing)
    older_turns, fact_count = tuple(turns[: max(0, block.told - before)]), len(chosen_facts) if block.told else 0
    return _MemoryBlock(block.text, block.tokens, older_turns, fact_count, tuple(keys[: block.told]))


def _choose_newest(
    groups: Sequence[Sequence[Turn]], budget: int, counter: TokenCounter
) -> tuple[list[list[Turn]], int, tuple[str, ...]]:
    """Choose the newest groups that fit; shorten the newest one if it does not fit.

    Return the groups in order, their tokens, and the ids of the shortened turns.
    """
    chosen: list[list[Turn]] = []
    spent = 0
    for group in reversed(groups):
        is_huge = any(len(turn.content) > _MAX_TOKEN_LENGTH * budget for turn in group)  # too long even to count
        cost = budget + 1 if is_huge else _count_group_tokens(group, counter)
        if spent + cost <= budget:
            chosen.append(list(group))
            spent += cost
            continue
        shorter = None if chosen else _shorten_group(group, budget, counter)
        if shorter is None:
            break
        cut_ids = tuple(turn.id for turn, new in zip(group, shorter, strict=True) if new is not turn)
        return [shorter], _count_group_tokens(shorter, counter), cut_ids
    return chosen[::-1], spent, ()


def _shorten_group(group: Sequence[Turn], budget: int, counter: TokenCounter) -> list[Turn] | None:
    """Cut the longest contents in the middle until the group fits; return None when too little would be left."""
    turns = list(group)
    for index in sorted(range(len(turns)), key=lambda index: -len(turns[index].content)):
        left = budget - _count_group_tokens([*turns[:index], *turns[index + 1 :]], counter)
        if left >= _MIN_TURN_TOKENS:
            turns[index] = _cut_turn(turns[index], left, counter)
            return turns if _count_group_tokens(turns, counter) <= budget else None
        turns[index] = _cut_turn(turns[index], _MIN_TURN_TOKENS, counter)
    return None


def _cut_turn(turn: Turn, budget: int, counter: TokenCounter) -> Turn:
    """Keep as much of the beginning and the end of a turn as fits, and a notice with its length between them."""
    notice = _CUT_NOTICE.format(tokens=turn.token_count or 0)
    low, high = 0, min(len(turn.content) // 2, budget * 20)

    def with_ends(length: int) -> Turn:
        begin, end = turn.content[:length], turn.content[len(turn.content) - length :]
        if " " in begin:
            begin = begin.rsplit(None, 1)[0]
        if " " in end:
            end = end.split(None, 1)[-1]
        return replace(turn, content=begin + notice + end if length else notice)

    while low < high:
        middle = (low + high + 1) // 2
        fits = _count_group_tokens([with_ends(middle)], counter) <= budget
        low, high = (middle, high) if fits else (low, middle - 1)
    return with_ends(low)


def _count_group_tokens(group: Sequence[Turn], counter: TokenCounter) -> int:
    return sum(
        max(_count_message_tokens(chat_message(turn), counter), counter(_render_turn(turn)) + 2) for turn in group
    )


def _count_message_tokens(message: Mapping[str, Any], counter: TokenCounter) -> int:
    calls = message.get("tool_calls")
    call_tokens = counter(canonical_json.encode(calls).decode()) if calls else 0
    return TOKENS_PER_MESSAGE + counter(str(message["content"])) + call_tokens


def _render_turn(turn: Turn) -> str:
    """Render a turn with a prefix on each line, so that no line of its content can pose as another role."""
    content = turn.content
    if turn.tool_calls:
        content += f"\n[calls {canonical_json.encode([dict(call) for call in turn.tool_calls]).decode()}]"
    name = " ".join(neutralise(turn.name).split())
    return "\n".join([f"{name}:", *(f"│ {line}" for line in neutralise(content).split("\n"))])
