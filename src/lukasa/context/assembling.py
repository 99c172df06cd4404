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

from lukasa import canonical
from lukasa.clock import to_iso
from lukasa.context.sentences import sentences
from lukasa.context.state import Turn
from lukasa.context.summary import shortened
from lukasa.prompt import Block, Counter, Told, fence
from lukasa.prompt.fencing import harmless

PER_MESSAGE = 4
"""What chat formats add to each message, in tokens."""
_FOR_MEMORY = 0.5
_CUT = "\n[… shortened: {tokens:,} tokens in all, the whole turn is in the transcript …]\n"
_LEAST_WORTH = 48
_MOST_OLDER = 12
_LONGEST_TOKEN = 200
_PASSAGE = 1_200
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True)
class Assembled:
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


def assemble(
    session_id: str,
    summary: str,
    facts: Sequence[str],
    turns: Sequence[Turn],
    older: Sequence[Turn],
    *,
    budget: int,
    counter: Counter,
) -> Assembled:
    """As much of a session as a budget holds; ``turns`` are its newest, ``older`` those found by recall, best first."""
    groups = grouped(turns)
    memory = _memory(session_id, summary, facts, older[:_MOST_OLDER], int(budget * _FOR_MEMORY) - PER_MESSAGE, counter)
    room = budget - (memory.cost + PER_MESSAGE if memory.block.text else 0)
    chosen, spent, cut = _newest(groups, room, counter)
    left = sum(map(len, groups)) - sum(map(len, chosen))
    if memory.wanted and (spare := room - spent) > 0:  # what the turns leave over is memory's as well
        more = _memory(session_id, summary, facts, older[:_MOST_OLDER], memory.cost + spare - PER_MESSAGE, counter)
        memory = more if more.block.text else memory
    return _put_together(memory, [turn for group in chosen for turn in group], left, cut, budget, counter)


def passage(text: str, question: str) -> str:
    """The part of a long text that speaks most of a question, in whole sentences; a short text as it is."""
    if len(text) <= _PASSAGE:
        return text
    asked = set(_WORD.findall(question.lower()))
    parts = [part for part in sentences(text) if len(part) <= _PASSAGE] or [text[:_PASSAGE]]
    shared = [len(asked & set(_WORD.findall(part.lower()))) for part in parts]
    first = last = max(range(len(parts)), key=lambda at: (shared[at], -at))
    length = len(parts[first])
    while True:
        sides = [at for at in (first - 1, last + 1) if 0 <= at < len(parts) and length + len(parts[at]) < _PASSAGE]
        if not sides:
            break
        best = max(sides, key=lambda at: (shared[at], at))
        first, last, length = min(first, best), max(last, best), length + len(parts[best]) + 1
    return " ".join(["[…]", *parts[first : last + 1], "[…]"])


def grouped(turns: Sequence[Turn]) -> list[list[Turn]]:
    """The turns in runs that belong together: a call of tools and every result of it. A result without its call is left out."""
    groups: list[list[Turn]] = []
    for turn in turns:
        if turn.role != "tool":
            groups.append([turn])
            continue
        called = next((group for group in reversed(groups[-8:]) if _calls(group[0], turn)), None)
        if called is not None:
            called.append(turn)
    return groups


def _calls(caller: Turn, result: Turn) -> bool:
    """Whether a turn called for a result. Calls without ids are answered by what follows."""
    if caller.role in ("user", "human", "system"):
        return False
    ids = {call.get("id") for call in caller.tool_calls} - {None}
    return not ids or not result.tool_call_id or result.tool_call_id in ids


def orphans(turns: Sequence[Turn]) -> bool:
    """Whether the first turns are results whose calls must be older."""
    return sum(map(len, grouped(turns))) < len(turns)


def message_of(turn: Turn) -> dict[str, Any]:
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
class _Memory:
    block: Block
    older: tuple[Turn, ...]
    facts: int
    wanted: bool

    @property
    def cost(self) -> int:
        return self.block.tokens


def _memory(
    session_id: str, summary: str, facts: Sequence[str], older: Sequence[Turn], budget: int, counter: Counter
) -> _Memory:
    """Summary, facts and older turns behind one fence; each gets its share, and leaves the next what it does not need."""
    told: list[Told] = []
    room = max(0, budget - 80)
    if summary and (brief := shortened(summary, room // 2 if facts or older else room, counter)):
        told.append(Told(brief, f"summary of {session_id}"))
        room -= counter(brief) + 16
    kept: list[str] = []
    for fact in reversed(facts):  # the newest first in line
        cost = counter(f"│ - {fact}\n")
        if cost > (room // 2 if older else room):
            break
        kept.append(fact)
        room -= cost
    if kept:
        told.append(Told("\n".join(f"- {fact}" for fact in reversed(kept)), f"facts of {session_id}"))
    before = len(told)
    told += [
        Told(turn.content, f"earlier in {session_id}", turn.name, to_iso(turn.timestamp)[:16] if turn.timestamp else "")
        for turn in older
        if turn.content
    ]
    block = fence(told, budget=budget, counter=counter) if told else Block("", 0, 0, cut=False, counted_by=counter.name)
    there = [turn for turn in older if turn.content][: max(0, block.told - before)]
    return _Memory(block, tuple(there), len(kept) if block.told else 0, wanted=bool(summary or facts or older))


def _newest(
    groups: Sequence[Sequence[Turn]], room: int, counter: Counter
) -> tuple[list[list[Turn]], int, tuple[str, ...]]:
    """The newest groups that fit, in order. The very newest is shortened if it does not fit as it is."""
    chosen: list[list[Turn]] = []
    spent, cut = 0, tuple[str, ...]()
    for group in reversed(groups):
        vast = any(len(turn.content) > _LONGEST_TOKEN * room for turn in group)  # not even worth counting
        cost = room + 1 if vast else _cost(group, counter)
        if spent + cost > room:
            if not chosen:
                smaller = _shorter(group, room, counter)
                if smaller is not None:
                    chosen.append(smaller)
                    spent = _cost(smaller, counter)
                    cut = tuple(turn.id for turn, new in zip(group, smaller, strict=True) if new is not turn)
            break
        chosen.append(list(group))
        spent += cost
    return chosen[::-1], spent, cut


def _cost(group: Sequence[Turn], counter: Counter) -> int:
    return sum(max(_message_cost(message_of(turn), counter), counter(_rendered(turn)) + 2) for turn in group)


def _message_cost(message: Mapping[str, Any], counter: Counter) -> int:
    calls = message.get("tool_calls")
    return PER_MESSAGE + counter(str(message["content"])) + (counter(canonical.encode(calls).decode()) if calls else 0)


def _shorter(group: Sequence[Turn], room: int, counter: Counter) -> list[Turn] | None:
    """The group with its longest contents cut in the middle until it fits; ``None`` when too little would be left."""
    turns = list(group)
    for at in sorted(range(len(turns)), key=lambda at: -len(turns[at].content)):
        others = _cost([turn for nr, turn in enumerate(turns) if nr != at], counter)
        left = room - others
        if left >= _LEAST_WORTH:
            turns[at] = _cut(turns[at], left, counter)
            return turns if _cost(turns, counter) <= room else None
        turns[at] = _cut(turns[at], _LEAST_WORTH, counter)
    return None


def _cut(turn: Turn, room: int, counter: Counter) -> Turn:
    """A turn with beginning and end of its content, and how long it was in between."""
    mark = _CUT.format(tokens=turn.token_count or 0)
    low, high = 0, min(len(turn.content) // 2, room * 20)

    def with_ends(length: int) -> Turn:
        begin, end = turn.content[:length], turn.content[len(turn.content) - length :]
        if " " in begin:
            begin = begin.rsplit(None, 1)[0]
        if " " in end:
            end = end.split(None, 1)[-1]
        return replace(turn, content=begin + mark + end if length else mark)

    while low < high:
        middle = (low + high + 1) // 2
        if _cost([with_ends(middle)], counter) <= room:
            low = middle
        else:
            high = middle - 1
    return with_ends(low)


def _rendered(turn: Turn) -> str:
    """A turn in one text of many: marked line by line, so that nothing in it can play another role."""
    who = " ".join(harmless(turn.name).split())
    calls = (
        f"\n[calls {canonical.encode([dict(call) for call in turn.tool_calls]).decode()}]" if turn.tool_calls else ""
    )
    lines = harmless(turn.content + calls).split("\n")
    return "\n".join([f"{who}:", *(f"│ {line}" for line in lines)])


def _put_together(
    memory: _Memory, turns: list[Turn], left_out: int, cut: tuple[str, ...], budget: int, counter: Counter
) -> Assembled:
    """Both forms, weighed whole: tokens of the parts need not add up exactly to those of the whole."""
    while True:
        parts = [*([memory.block.text] if memory.block.text else []), *(_rendered(turn) for turn in turns)]
        text = "\n\n".join(parts)
        messages = [message_of(turn) for turn in turns]
        if memory.block.text:
            messages.insert(0, {"role": "system", "content": memory.block.text})
        tokens = max(counter(text) if text else 0, sum(_message_cost(message, counter) for message in messages))
        if tokens <= budget:
            return Assembled(
                text=text,
                messages=tuple(messages),
                tokens=tokens,
                budget=budget,
                recent=tuple(turn.id for turn in turns),
                older=tuple(turn.id for turn in memory.older),
                facts=memory.facts,
                left_out=left_out,
                shortened=tuple(id for id in cut if any(turn.id == id for turn in turns)),
                counted_by=counter.name,
            )
        groups = grouped(turns)
        if len(groups) > 1:
            left_out += len(groups[0])
            turns = [turn for group in groups[1:] for turn in group]
        elif memory.block.text:
            memory = _Memory(Block("", 0, 0, cut=False, counted_by=counter.name), (), 0, wanted=False)
        else:
            left_out += len(turns)
            turns = []
