"""A session as a prompt, within a budget of tokens: what is remembered of it behind a fence, then the newest turns.

The newest turns come first in line for the budget, at least half of it; what they leave goes to the summary, the facts,
and older turns that answer what is being asked. A tool's result never stands without its call: they go together.
Summary, facts and older turns are recalled text, so they stand in a fence of ``lukasa.prompt``, as data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lukasa import canonical_json
from lukasa.clock import to_iso
from lukasa.context.state import Turn
from lukasa.context.summary import shorten_summary
from lukasa.models.token_counter import TokenCounter
from lukasa.prompt import PromptBlock, PromptItem, build_fenced_block, neutralise
from lukasa.text.sentences import split_sentences

TOKENS_PER_MESSAGE = 4
"""What chat formats add to each message, in tokens."""
_MEMORY_SHARE = 0.5
_CUT_NOTICE = "\n[… shortened: {tokens:,} tokens in all, the whole turn is in the transcript …]\n"
_MIN_TURN_TOKENS = 48
_MAX_OLDER_TURNS = 12
_MAX_TOKEN_LENGTH = 200
_MAX_PASSAGE_LENGTH = 1_200
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True)
class AssembledPrompt:
    """A session ready for a model: as one text, and as chat messages. Neither costs more than was allowed.

    ``recent`` and ``older`` are the ids of the turns in it; ``left_out`` counts recent turns that did not fit.
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


def assemble_prompt(
    session_id: str,
    summary: str,
    facts: Sequence[str],
    turns: Sequence[Turn],
    older: Sequence[Turn],
    *,
    budget: int,
    counter: TokenCounter,
) -> AssembledPrompt:
    """As much of a session as a budget holds; ``turns`` are its newest, ``older`` those found by recall, best first."""
    groups = group_tool_results(turns)
    memory = _build_memory_block(
        session_id, summary, facts, older[:_MAX_OLDER_TURNS], int(budget * _MEMORY_SHARE) - TOKENS_PER_MESSAGE, counter
    )
    room = budget - (memory.tokens + TOKENS_PER_MESSAGE if memory.block.text else 0)
    chosen, spent, cut = _choose_newest(groups, room, counter)
    left = sum(map(len, groups)) - sum(map(len, chosen))
    if memory.has_material and (spare := room - spent) > 0:  # what the turns leave over is memory's as well
        more = _build_memory_block(
            session_id, summary, facts, older[:_MAX_OLDER_TURNS], memory.tokens + spare - TOKENS_PER_MESSAGE, counter
        )
        memory = more if more.block.text else memory
    return _build_prompt(memory, [turn for group in chosen for turn in group], left, cut, budget, counter)


def extract_passage(text: str, question: str) -> str:
    """The part of a long text that speaks most of a question, in whole sentences; a short text as it is."""
    if len(text) <= _MAX_PASSAGE_LENGTH:
        return text
    asked = set(_WORD.findall(question.lower()))
    parts = [part for part in split_sentences(text) if len(part) <= _MAX_PASSAGE_LENGTH] or [text[:_MAX_PASSAGE_LENGTH]]
    shared = [len(asked & set(_WORD.findall(part.lower()))) for part in parts]
    first = last = max(range(len(parts)), key=lambda at: (shared[at], -at))
    length = len(parts[first])
    while True:
        sides = [
            at for at in (first - 1, last + 1) if 0 <= at < len(parts) and length + len(parts[at]) < _MAX_PASSAGE_LENGTH
        ]
        if not sides:
            break
        best = max(sides, key=lambda at: (shared[at], at))
        first, last, length = min(first, best), max(last, best), length + len(parts[best]) + 1
    return " ".join(["[…]", *parts[first : last + 1], "[…]"])


def group_tool_results(turns: Sequence[Turn]) -> list[list[Turn]]:
    """The turns in runs that belong together: a call of tools and every result of it. A result without its call is left out."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.role != "tool":
            groups.append([turn])
            continue
        called = next((group for group in reversed(groups[-8:]) if _is_call_of(group[0], turn)), None)
        if called is not None:
            called.append(turn)
    return groups


def _is_call_of(caller: Turn, result: Turn) -> bool:
    """Whether a turn called for a result. Calls without ids are answered by what follows."""
    if caller.role in ("user", "human", "system"):
        return False
    ids = {call.get("id") for call in caller.tool_calls} - {None}
    return not ids or not result.tool_call_id or result.tool_call_id in ids


def has_orphan_results(turns: Sequence[Turn]) -> bool:
    """Whether the first turns are results whose calls must be older."""
    return sum(map(len, group_tool_results(turns))) < len(turns)


def chat_message(turn: Turn) -> dict[str, Any]:
    """A turn as chat formats have it."""
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.speaker and turn.speaker != turn.role:
        message["name"] = turn.speaker
    if turn.tool_calls:
        message["tool_calls"] = [dict(call) for call in turn.tool_calls]
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    return message


@dataclass(frozen=True, slots=True)
class _MemoryBlock:
    block: PromptBlock
    older_turns: tuple[Turn, ...]
    fact_count: int
    has_material: bool

    @property
    def tokens(self) -> int:
        return self.block.tokens


def _build_memory_block(
    session_id: str, summary: str, facts: Sequence[str], older: Sequence[Turn], budget: int, counter: TokenCounter
) -> _MemoryBlock:
    """Summary, facts and older turns behind one fence; each gets its share, and leaves the next what it does not need."""
    told: list[PromptItem] = []
    room = max(0, budget - 80)
    if summary and (brief := shorten_summary(summary, room // 2 if facts or older else room, counter)):
        told.append(PromptItem(brief, f"summary of {session_id}"))
        room -= counter(brief) + 16
    kept: list[str] = []
    for fact in reversed(facts):  # the newest first in line
        cost = counter(f"│ - {fact}\n")
        if cost > (room // 2 if older else room):
            break
        kept.append(fact)
        room -= cost
    if kept:
        told.append(PromptItem("\n".join(f"- {fact}" for fact in reversed(kept)), f"facts of {session_id}"))
    before = len(told)
    told += [
        PromptItem(
            turn.content, f"earlier in {session_id}", turn.name, to_iso(turn.timestamp)[:16] if turn.timestamp else ""
        )
        for turn in older
        if turn.content
    ]
    block = (
        build_fenced_block(told, budget=budget, counter=counter)
        if told
        else PromptBlock("", 0, 0, cut=False, counted_by=counter.name)
    )
    there = [turn for turn in older if turn.content][: max(0, block.told - before)]
    return _MemoryBlock(
        block, tuple(there), len(kept) if block.told else 0, has_material=bool(summary or facts or older)
    )


def _choose_newest(
    groups: Sequence[Sequence[Turn]], budget: int, counter: TokenCounter
) -> tuple[list[list[Turn]], int, tuple[str, ...]]:
    """The newest groups that fit, in order. The very newest is shortened if it does not fit as it is."""
    chosen: list[list[Turn]] = []
    spent, cut = 0, tuple[str, ...]()
    for group in reversed(groups):
        vast = any(len(turn.content) > _MAX_TOKEN_LENGTH * budget for turn in group)  # not even worth counting
        cost = budget + 1 if vast else _count_group_tokens(group, counter)
        if spent + cost > budget:
            if not chosen:
                smaller = _shorten_group(group, budget, counter)
                if smaller is not None:
                    chosen.append(smaller)
                    spent = _count_group_tokens(smaller, counter)
                    cut = tuple(turn.id for turn, new in zip(group, smaller, strict=True) if new is not turn)
            break
        chosen.append(list(group))
        spent += cost
    return chosen[::-1], spent, cut


def _count_group_tokens(group: Sequence[Turn], counter: TokenCounter) -> int:
    return sum(
        max(_count_message_tokens(chat_message(turn), counter), counter(_render_turn(turn)) + 2) for turn in group
    )


def _count_message_tokens(message: Mapping[str, Any], counter: TokenCounter) -> int:
    calls = message.get("tool_calls")
    return (
        TOKENS_PER_MESSAGE
        + counter(str(message["content"]))
        + (counter(canonical_json.encode(calls).decode()) if calls else 0)
    )


def _shorten_group(group: Sequence[Turn], budget: int, counter: TokenCounter) -> list[Turn] | None:
    """The group with its longest contents cut in the middle until it fits; ``None`` when too little would be left."""
    turns = list(group)
    for at in sorted(range(len(turns)), key=lambda at: -len(turns[at].content)):
        others = _count_group_tokens([turn for nr, turn in enumerate(turns) if nr != at], counter)
        left = budget - others
        if left >= _MIN_TURN_TOKENS:
            turns[at] = _cut_turn(turns[at], left, counter)
            return turns if _count_group_tokens(turns, counter) <= budget else None
        turns[at] = _cut_turn(turns[at], _MIN_TURN_TOKENS, counter)
    return None


def _cut_turn(turn: Turn, budget: int, counter: TokenCounter) -> Turn:
    """A turn with beginning and end of its content, and how long it was in between."""
    mark = _CUT_NOTICE.format(tokens=turn.token_count or 0)
    low, high = 0, min(len(turn.content) // 2, budget * 20)

    def with_ends(length: int) -> Turn:
        begin, end = turn.content[:length], turn.content[len(turn.content) - length :]
        if " " in begin:
            begin = begin.rsplit(None, 1)[0]
        if " " in end:
            end = end.split(None, 1)[-1]
        return replace(turn, content=begin + mark + end if length else mark)

    while low < high:
        middle = (low + high + 1) // 2
        if _count_group_tokens([with_ends(middle)], counter) <= budget:
            low = middle
        else:
            high = middle - 1
    return with_ends(low)


def _render_turn(turn: Turn) -> str:
    """A turn in one text of many: marked line by line, so that nothing in it can play another role."""
    who = " ".join(neutralise(turn.name).split())
    calls = (
        f"\n[calls {canonical_json.encode([dict(call) for call in turn.tool_calls]).decode()}]"
        if turn.tool_calls
        else ""
    )
    lines = neutralise(turn.content + calls).split("\n")
    return "\n".join([f"{who}:", *(f"│ {line}" for line in lines)])


def _build_prompt(
    memory: _MemoryBlock, turns: list[Turn], left_out: int, cut: tuple[str, ...], budget: int, counter: TokenCounter
) -> AssembledPrompt:
    """Both forms, weighed whole: tokens of the parts need not add up exactly to those of the whole."""
    while True:
        parts = [*([memory.block.text] if memory.block.text else []), *(_render_turn(turn) for turn in turns)]
        text = "\n\n".join(parts)
        messages = [chat_message(turn) for turn in turns]
        if memory.block.text:
            messages.insert(0, {"role": "system", "content": memory.block.text})
        tokens = max(counter(text) if text else 0, sum(_count_message_tokens(message, counter) for message in messages))
        if tokens <= budget:
            return AssembledPrompt(
                text=text,
                messages=tuple(messages),
                tokens=tokens,
                budget=budget,
                recent=tuple(turn.id for turn in turns),
                older=tuple(turn.id for turn in memory.older_turns),
                facts=memory.fact_count,
                left_out=left_out,
                shortened=tuple(id for id in cut if any(turn.id == id for turn in turns)),
                counted_by=counter.name,
            )
        groups = group_tool_results(turns)
        if len(groups) > 1:
            left_out += len(groups[0])
            turns = [turn for group in groups[1:] for turn in group]
        elif memory.block.text:
            memory = _MemoryBlock(PromptBlock("", 0, 0, cut=False, counted_by=counter.name), (), 0, has_material=False)
        else:
            left_out += len(turns)
            turns = []
