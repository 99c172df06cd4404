"""The summary that needs no language model: the sentences most worth keeping, as they were said, each whole.

Every sentence of the folded turns gets a worth from what it holds: decisions, facts, names, numbers, paths, open
questions, what was done and what is still to do. Small talk gets none. The most valuable are kept, what repeats a better
one is passed over, and the lines stand in the order in which things were said.

The summary has a budget. Once it is full, earlier lines compete with later ones by their worth, which fades a little
with every round; so it stays within its budget for ever, and what it drops is still in the transcript.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from lukasa.context.facts import states_something
from lukasa.context.sentences import sentences
from lukasa.context.state import Line, Summary, Turn

HEADING = "Previous conversation summary:"
BY_RULES, BY_HAND = "extractive", "hand"
_SHARE = 0.35
"""How much of the tokens of what is folded its lines may have."""
_LEAST = 240
_FADING = 0.985
_ALIKE = 0.6
_WRITTEN_BY_HAND = 6.0
_LONGEST_LINE = 420
_MOST_SENTENCES = 400
_EDGE = 5

_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_COMMON_WORDS = """
a about after again all also am an and any are as at be because been before being but by can could did do does done
for from get go going good got great had has have he her here him his how i if in into is it its it's i'm just know
like lot make me more much my need nice no not now of off ok okay on one or our out really said say see she should so
some something sure take than thank thanks that that's the their them then there these they thing things think this
those time to too up us use very want was way we well were what when where which who why will with would yeah yes you
your you're i've i'll let let's look please
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_DECISION = re.compile(
    r"\b(?:decid(?:e|ed|ing)|agreed?|settled|chos(?:e|en)|let['’]?s (?:go|use|keep|do|make|take|start|switch)|go(?:ing)? with"
    r"|we(?:['’]ll| will| should| must)|instead of|conclusion|approved?|rejected?|plan(?:s|ned)? to|going to|will be)\b",
)
_STANDING = re.compile(
    r"\b(?:always|never|must(?:n['’]t)?|from now on|prefers?|require[sd]?|only ever|make sure|remember)\b"
)
_DEED = re.compile(
    r"\b(?:todo|fixme|done|finish(?:ed)?|complet(?:e|ed)|fix(?:ed|es)?|deploy(?:ed)?|creat(?:e|ed)|add(?:ed)?|remov(?:e|ed)"
    r"|renam(?:e|ed)|implement(?:ed)?|releas(?:e|ed)|publish(?:ed)?|merg(?:e|ed)|start(?:ed)?|stopp?(?:ed)?|need(?:s)? to"
    r"|next step|blocked|waiting|in progress|remaining|bought|signed up|joined|moved|visited|went|met|won|got|made|passed|lost|quit|started)\b",
)
_TROUBLE = re.compile(
    r"\b(?:error|exception|fail(?:s|ed|ure)?|crash(?:ed)?|bug|broken|cannot|can['’]t|timeout|denied|warning|wrong)\b",
)
_WHEN = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|tomorrow|tonight|today|last (?:week|month|year|night|\w+day)"
    r"|next (?:week|month|year|\w+day)|(?:jan|febr)uary|march|april|june|july|august|(?:sept|nov|dec)ember|october|deadline|since \d{4}|ago)\b",
)
_NUMBER = re.compile(r"(?<![\w/])[$€£¥]?\d[\d,.:%/-]*\w{0,4}")
_PLACE = re.compile(
    r"https?://\S+|(?<!\w)(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)+|[A-Za-z]:\\\S+|\b[\w-]+\.[a-z]{1,4}\b(?!\.)|`[^`\n]{2,60}`"
)
_NAME = re.compile(r"(?<=[a-z,;:)'’”] )(?:[A-Z][a-zà-ÿ][\w'’-]*|[A-Z]{2,6}\b)(?: [A-Z][\w'’-]+)*")
_SMALL_TALK = re.compile(
    r"^(?:(?:hi|hey|hello|thanks?|thank you|ok(?:ay)?|yes|yeah|yep|no|nope|sure|great|cool|wow|nice|awesome|sounds? (?:good|great)|certainly|absolutely"
    r"|of course|you['’]re welcome|good (?:morning|evening|night|luck)|bye|see you|take care|no (?:problem|worries)|congrats|congratulations|haha|lol"
    r"|(?:i |totally |completely )*agreed?(?:,? \w+)?[.!]*$|got it|perfect|exactly|definitely|totally|that['’]s (?:great|awesome|amazing|cool|nice|so \w+|really \w+)|glad|happy to help|let me know"
    r"|i hope (?:this|that) helps|feel free|noted|understood|will do|here['’]s|here is|here are|how are you|how about you|what['’]s up|what about you|keep (?:it )?up)\b)",
)
_POINTS_BACK = re.compile(r"^(?:it|that|this|they|these|those|he|she|there|which|and|but|so|also|then)\b")
_ABOUT_TO = re.compile(r"^(?:let['’]?s|we['’]ll|we will|next|first|now|then|finally|additionally|by \w+ing)\b")
_SELF = re.compile(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b")
_BY_ROLE = {"assistant": 0.75, "tool": 0.35, "system": 0.9}


def summarise(
    earlier: Summary, turns: Sequence[Turn], budget: int, count: Callable[[str], int], remarks: Sequence[str] = ()
) -> Summary:
    """The summary of what ``earlier`` told and of these turns, within a budget of tokens.

    ``remarks`` are lines to add as they are: what became of tasks.
    """
    round = earlier.rounds + 1
    kept = _lines_of(earlier)
    fresh = _chosen(turns, min(budget, max(_LEAST, int(_SHARE * sum(turn.tokens for turn in turns)))), count, round)
    fresh += [Line(remark, _WRITTEN_BY_HAND, round) for remark in remarks]
    lines = _within(_distinct([*kept, *fresh], len(fresh)), budget, count, round)
    return folded(earlier, turns, render(lines), lines, count, BY_RULES)


def folded(
    earlier: Summary,
    turns: Sequence[Turn],
    text: str,
    lines: Sequence[Line],
    count: Callable[[str], int],
    by: str,
    why: str = "",
) -> Summary:
    """The summary that stands once these turns are folded into ``earlier``, whoever wrote its text."""
    newest = [turn.id for turn in reversed(turns[-_EDGE:])]
    return replace(
        earlier,
        text=text,
        lines=tuple(lines),
        tokens=count(text) if text else 0,
        turns=earlier.turns + len(turns),
        folded_tokens=earlier.folded_tokens + sum(turn.tokens for turn in turns),
        rounds=earlier.rounds + 1,
        edge=(*newest, *earlier.edge)[:_EDGE],
        by=by,
        why=why,
    )


def render(lines: Sequence[Line]) -> str:
    """The lines as one text."""
    return "\n".join([HEADING, *(f"- {line.text}" for line in lines)]) if lines else ""


def shortened(text: str, budget: int, count: Callable[[str], int]) -> str:
    """As many whole lines of a summary as a budget holds, the most valuable ones."""
    if count(text) <= budget:
        return text
    return render(_within(_lines_of(Summary(text)), budget, count, 1))


def _lines_of(summary: Summary) -> list[Line]:
    """The lines of a summary; a text that came from elsewhere is taken sentence by sentence and held dear."""
    if summary.lines and summary.text == render(summary.lines):
        return list(summary.lines)
    found = []
    for line in summary.text.splitlines():
        bare = line.removeprefix("- ").strip()
        if bare and bare != HEADING:
            parts = [bare] if line.startswith("- ") else sentences(bare)
            found += [Line(part, _WRITTEN_BY_HAND, summary.rounds) for part in parts]
    return _distinct(found, len(found))


def _chosen(turns: Sequence[Turn], budget: int, count: Callable[[str], int], round: int) -> list[Line]:
    """The sentences most worth keeping, in order, within a budget."""
    said = [sentences(turn.content) if turn.role != "tool" else _of_tool(turn.content) for turn in turns]
    themes = _themes(said)
    candidates: list[tuple[float, int, int, str]] = []
    last_of_others = _last_of_others(turns)
    for at, (turn, parts) in enumerate(zip(turns, said, strict=True)):
        answered = last_of_others(turn) > at
        usable = [part for part in parts if len(part) <= _LONGEST_LINE]
        if len(usable) > _MOST_SENTENCES:  # of a very long turn: how it begins and how it ends
            usable = [*usable[: _MOST_SENTENCES // 2], *usable[-_MOST_SENTENCES // 2 :]]
        if not usable and turn.tokens > _LEAST:
            usable = [f"(a message of {turn.tokens:,} tokens, not quoted)"]
        scored = [
            (worth(part, turn.role, first=not nr, open=not answered) + themes(part), at, nr, part)
            for nr, part in enumerate(usable)
        ]
        scored.sort(key=lambda each: (-each[0], each[2]))
        candidates += [(value * 0.85**nr, *rest) for nr, (value, *rest) in enumerate(scored)]  # type: ignore[misc]  # the rest of such a tuple
    candidates.sort(key=lambda each: (-each[0], each[1], each[2]))
    spent, picked, seen = count(HEADING), list[tuple[int, int, float, str]](), list[frozenset[str]]()
    for value, at, nr, part in candidates:
        if value <= 0:
            break
        terms = _terms(part)
        if any(_alike(terms, other) for other in seen):
            continue
        cost = _cost(f"{turns[at].name}: {part}", count)
        if spent + cost > budget:
            continue
        spent += cost
        seen.append(terms)
        picked.append((at, nr, value, part))
    picked.sort()
    return [Line(f"{turns[at].name}: {part}", _rounded(value), round) for at, _, value, part in picked]


def _last_of_others(turns: Sequence[Turn]) -> Callable[[Turn], int]:
    """Where somebody other than a turn's speaker spoke last; -1 for nowhere."""
    last = {turn.name: at for at, turn in enumerate(turns) if turn.role != "tool"}
    ends = sorted(((at, name) for name, at in last.items()), reverse=True)[:2]
    return lambda turn: next((at for at, name in ends if name != turn.name), -1)


def worth(sentence: str, role: str = "user", *, first: bool = False, open: bool = False) -> float:
    """What a sentence is worth to somebody who was not there; 0 or less for what may be forgotten."""
    words, lowered = len(sentence.split()), sentence.lower()
    value = 0.5
    if words > 4 and _DECISION.search(lowered):
        value += 1.6
    if _STANDING.search(lowered):
        value += 1.2
    if states_something(sentence):
        value += 2.2
    if _DEED.search(lowered):
        value += 1.0
    if _TROUBLE.search(lowered):
        value += 0.8
    if _WHEN.search(lowered):
        value += 1.0
    value += min(1.2, 0.6 * len(_NUMBER.findall(sentence)))
    value += min(1.0, 0.7 * len(_PLACE.findall(sentence)))
    value += min(1.4, 0.7 * len(_NAME.findall(sentence)))
    if _SELF.search(sentence) and role != "assistant":
        value += 0.5
    if first:
        value += 0.2
    if sentence.endswith("?"):
        value = value * 0.6 + 0.8 if open and words >= 4 else value * 0.25
    if sentence.endswith(":"):
        value -= 1.5
    if _SMALL_TALK.match(lowered):
        value -= 1.6
    if role == "assistant" and _ABOUT_TO.match(lowered):
        value -= 1.4
    if _POINTS_BACK.match(lowered):
        value -= 0.5
    if words < 4:
        value -= 0.4
    elif words > 40:
        value -= 0.6
    return value * _BY_ROLE.get(role, 1.0)


def _rounded(value: float) -> float:
    return round(value, 3)


def _of_tool(content: str) -> list[str]:
    """What a tool said, if it is short enough to be quoted whole."""
    bare = " ".join(content.split())
    return (
        [bare]
        if bare and len(bare) <= 160
        else [part for part in sentences(content) if _TROUBLE.search(part.lower())][:3]
    )


def _themes(said: Sequence[Sequence[str]]) -> Callable[[str], float]:
    """How much a sentence speaks of what the turns keep coming back to."""
    spread: Counter[str] = Counter()
    for parts in said:
        spread.update({term for part in parts for term in _terms(part)})
    many = len(said)
    telling = {term for term, turns in spread.items() if turns >= 2 and turns <= max(3, many // 3)}

    def share(sentence: str) -> float:
        terms = _terms(sentence)
        return 0.9 * len(terms & telling) / (len(terms) + 2) if terms else -0.5

    return share


def _terms(sentence: str) -> frozenset[str]:
    """The words that tell what a sentence is about."""
    return _terms_of_line(sentence) if len(sentence) <= _LONGEST_LINE else _terms_of_any(sentence)


def _terms_of_any(sentence: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sentence.lower())) - _COMMON


_terms_of_line = lru_cache(maxsize=8_192)(_terms_of_any)
"""Remembered: the same lines come again in every round."""


@lru_cache(maxsize=8_192)
def _cost(line: str, count: Callable[[str], int]) -> int:
    """The tokens of a line; the same lines come again in every round."""
    return count(f"- {line}\n")


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two lines say the same: most of their words, and every figure."""
    small, large = len(one), len(other)
    if small > large:
        small, large = large, small
    if not small or small < _ALIKE * large:
        return one == other
    shared = len(one & other)
    return shared >= _ALIKE * (small + large - shared) and _figures(one) == _figures(other)


@lru_cache(maxsize=8_192)
def _figures(terms: frozenset[str]) -> frozenset[str]:
    return frozenset(term for term in terms if any(map(str.isdigit, term)))


def _distinct(lines: Sequence[Line], fresh: int) -> list[Line]:
    """The lines without those that a later one says again; what is said again counts a little more.

    Only the last ``fresh`` lines are new: those before them have been told apart already.
    """
    holding: dict[str, list[int]] = {}
    kept: dict[int, Line] = {}
    for at in reversed(range(len(lines))):
        terms = _terms(lines[at].text)
        rivals = sorted({later for term in terms for later in holding.get(term, ())})
        again = next((nr for nr in rivals if _alike(terms, _terms(lines[nr].text))), None)
        if not terms:
            again = next((nr for nr, line in kept.items() if line.text == lines[at].text), None)
        if again is not None:
            kept[again] = replace(kept[again], worth=_rounded(max(kept[again].worth, lines[at].worth) + 0.1))
            continue
        kept[at] = lines[at]
        if at >= len(lines) - fresh:
            for term in terms:
                holding.setdefault(term, []).append(at)
    return [kept[at] for at in sorted(kept)]


def _within(lines: Sequence[Line], budget: int, count: Callable[[str], int], round: int) -> list[Line]:
    """As many of the lines as the budget holds, the most valuable ones, in their order."""
    costs = [_cost(line.text, count) for line in lines]
    spent = count(HEADING) + 1 + sum(costs)
    worths = [line.worth * _FADING ** max(0, round - line.round) for line in lines]
    gone: set[int] = set()
    for at in sorted(range(len(lines)), key=lambda at: (worths[at], at)):
        if spent <= budget:
            break
        gone.add(at)
        spent -= costs[at]
    left = [line for at, line in enumerate(lines) if at not in gone]
    while left and count(render(left)) > budget:  # tokens of the parts need not add up exactly to those of the whole
        left.remove(min(left, key=lambda line: line.worth))
    return left
