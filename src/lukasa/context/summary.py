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

from lukasa.context.facts import states_fact
from lukasa.context.state import ConversationSummary, SummaryLine, Turn
from lukasa.text.sentences import split_sentences

HEADING = "Previous conversation summary:"
BY_RULES, BY_HAND = "extractive", "hand"
_SUMMARY_SHARE = 0.35
"""How much of the tokens of what is folded its lines may have."""
_MIN_SUMMARY_TOKENS = 240
_WORTH_DECAY = 0.985
_SIMILARITY_THRESHOLD = 0.6
_HAND_WRITTEN_WORTH = 6.0
_MAX_LINE_LENGTH = 420
_MAX_SENTENCES = 400
_EDGE_SIZE = 5

_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_STOPWORD_LIST = """
a about after again all also am an and any are as at be because been before being but by can could did do does done
for from get go going good got great had has have he her here him his how i if in into is it its it's i'm just know
like lot make me more much my need nice no not now of off ok okay on one or our out really said say see she should so
some something sure take than thank thanks that that's the their them then there these they thing things think this
those time to too up us use very want was way we well were what when where which who why will with would yeah yes you
your you're i've i'll let let's look please
"""
_STOPWORDS = frozenset(_STOPWORD_LIST.split())
_DECISION = re.compile(
    r"\b(?:decid(?:e|ed|ing)|agreed?|settled|chos(?:e|en)|let['’]?s (?:go|use|keep|do|make|take|start|switch)|go(?:ing)? with"
    r"|we(?:['’]ll| will| should| must)|instead of|conclusion|approved?|rejected?|plan(?:s|ned)? to|going to|will be)\b",
)
_STANDING_RULE = re.compile(
    r"\b(?:always|never|must(?:n['’]t)?|from now on|prefers?|require[sd]?|only ever|make sure|remember)\b"
)
_ACTION = re.compile(
    r"\b(?:todo|fixme|done|finish(?:ed)?|complet(?:e|ed)|fix(?:ed|es)?|deploy(?:ed)?|creat(?:e|ed)|add(?:ed)?|remov(?:e|ed)"
    r"|renam(?:e|ed)|implement(?:ed)?|releas(?:e|ed)|publish(?:ed)?|merg(?:e|ed)|start(?:ed)?|stopp?(?:ed)?|need(?:s)? to"
    r"|next step|blocked|waiting|in progress|remaining|bought|signed up|joined|moved|visited|went|met|won|got|made|passed|lost|quit|started)\b",
)
_PROBLEM = re.compile(
    r"\b(?:error|exception|fail(?:s|ed|ure)?|crash(?:ed)?|bug|broken|cannot|can['’]t|timeout|denied|warning|wrong)\b",
)
_TIME_REFERENCE = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|tomorrow|tonight|today|last (?:week|month|year|night|\w+day)"
    r"|next (?:week|month|year|\w+day)|(?:jan|febr)uary|march|april|june|july|august|(?:sept|nov|dec)ember|october|deadline|since \d{4}|ago)\b",
)
_NUMBER = re.compile(r"(?<![\w/])[$€£¥]?\d[\d,.:%/-]*\w{0,4}")
_PATH_OR_URL = re.compile(
    r"https?://\S+|(?<!\w)(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)+|[A-Za-z]:\\\S+|\b[\w-]+\.[a-z]{1,4}\b(?!\.)|`[^`\n]{2,60}`"
)
_NAME = re.compile(r"(?<=[a-z,;:)'’”] )(?:[A-Z][a-zà-ÿ][\w'’-]*|[A-Z]{2,6}\b)(?: [A-Z][\w'’-]+)*")
_SMALL_TALK = re.compile(
    r"^(?:(?:hi|hey|hello|thanks?|thank you|ok(?:ay)?|yes|yeah|yep|no|nope|sure|great|cool|wow|nice|awesome|sounds? (?:good|great)|certainly|absolutely"
    r"|of course|you['’]re welcome|good (?:morning|evening|night|luck)|bye|see you|take care|no (?:problem|worries)|congrats|congratulations|haha|lol"
    r"|(?:i |totally |completely )*agreed?(?:,? \w+)?[.!]*$|got it|perfect|exactly|definitely|totally|that['’]s (?:great|awesome|amazing|cool|nice|so \w+|really \w+)|glad|happy to help|let me know"
    r"|i hope (?:this|that) helps|feel free|noted|understood|will do|here['’]s|here is|here are|how are you|how about you|what['’]s up|what about you|keep (?:it )?up)\b)",
)
_BACK_REFERENCE = re.compile(r"^(?:it|that|this|they|these|those|he|she|there|which|and|but|so|also|then)\b")
_ANNOUNCEMENT = re.compile(r"^(?:let['’]?s|we['’]ll|we will|next|first|now|then|finally|additionally|by \w+ing)\b")
_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur)\b")
_ROLE_WEIGHTS = {"assistant": 0.75, "tool": 0.35, "system": 0.9}


def summarise(
    earlier: ConversationSummary,
    turns: Sequence[Turn],
    budget: int,
    count: Callable[[str], int],
    remarks: Sequence[str] = (),
) -> ConversationSummary:
    """The summary of what ``earlier`` told and of these turns, within a budget of tokens.

    ``remarks`` are lines to add as they are: what became of tasks.
    """
    round = earlier.rounds + 1
    kept = _parse_lines(earlier)
    fresh = _select_sentences(
        turns,
        min(budget, max(_MIN_SUMMARY_TOKENS, int(_SUMMARY_SHARE * sum(turn.tokens for turn in turns)))),
        count,
        round,
    )
    fresh += [SummaryLine(remark, _HAND_WRITTEN_WORTH, round) for remark in remarks]
    lines = _fit_lines(_merge_repeated_lines([*kept, *fresh], len(fresh)), budget, count, round)
    return extend_summary(earlier, turns, render_lines(lines), lines, count, BY_RULES)


def extend_summary(
    earlier: ConversationSummary,
    turns: Sequence[Turn],
    text: str,
    lines: Sequence[SummaryLine],
    count: Callable[[str], int],
    by: str,
    why: str = "",
) -> ConversationSummary:
    """The summary that stands once these turns are folded into ``earlier``, whoever wrote its text."""
    newest = [turn.id for turn in reversed(turns[-_EDGE_SIZE:])]
    return replace(
        earlier,
        text=text,
        lines=tuple(lines),
        tokens=count(text) if text else 0,
        turns=earlier.turns + len(turns),
        folded_tokens=earlier.folded_tokens + sum(turn.tokens for turn in turns),
        rounds=earlier.rounds + 1,
        edge=(*newest, *earlier.edge)[:_EDGE_SIZE],
        by=by,
        why=why,
    )


def render_lines(lines: Sequence[SummaryLine]) -> str:
    """The lines as one text."""
    return "\n".join([HEADING, *(f"- {line.text}" for line in lines)]) if lines else ""


def shorten_summary(text: str, budget: int, count: Callable[[str], int]) -> str:
    """As many whole lines of a summary as a budget holds, the most valuable ones."""
    if count(text) <= budget:
        return text
    return render_lines(_fit_lines(_parse_lines(ConversationSummary(text)), budget, count, 1))


def _parse_lines(summary: ConversationSummary) -> list[SummaryLine]:
    """The lines of a summary; a text that came from elsewhere is taken sentence by sentence and held dear."""
    if summary.lines and summary.text == render_lines(summary.lines):
        return list(summary.lines)
    found = []
    for line in summary.text.splitlines():
        bare = line.removeprefix("- ").strip()
        if bare and bare != HEADING:
            parts = [bare] if line.startswith("- ") else split_sentences(bare)
            found += [SummaryLine(part, _HAND_WRITTEN_WORTH, summary.rounds) for part in parts]
    return _merge_repeated_lines(found, len(found))


def _select_sentences(
    turns: Sequence[Turn], budget: int, count: Callable[[str], int], round_number: int
) -> list[SummaryLine]:
    """The sentences most worth keeping, in order, within a budget."""
    said = [split_sentences(turn.content) if turn.role != "tool" else _tool_sentences(turn.content) for turn in turns]
    themes = _theme_scorer(said)
    candidates: list[tuple[float, int, int, str]] = []
    last_of_others = _last_reply_finder(turns)
    for at, (turn, parts) in enumerate(zip(turns, said, strict=True)):
        answered = last_of_others(turn) > at
        usable = [part for part in parts if len(part) <= _MAX_LINE_LENGTH]
        if len(usable) > _MAX_SENTENCES:  # of a very long turn: how it begins and how it ends
            usable = [*usable[: _MAX_SENTENCES // 2], *usable[-_MAX_SENTENCES // 2 :]]
        if not usable and turn.tokens > _MIN_SUMMARY_TOKENS:
            usable = [f"(a message of {turn.tokens:,} tokens, not quoted)"]
        scored = [
            (score_sentence(part, turn.role, is_first=not nr, is_unanswered=not answered) + themes(part), at, nr, part)
            for nr, part in enumerate(usable)
        ]
        scored.sort(key=lambda each: (-each[0], each[2]))
        candidates += [(value * 0.85**nr, *rest) for nr, (value, *rest) in enumerate(scored)]  # type: ignore[misc]  # the rest of such a tuple
    candidates.sort(key=lambda each: (-each[0], each[1], each[2]))
    spent, picked, seen = count(HEADING), list[tuple[int, int, float, str]](), list[frozenset[str]]()
    for value, at, nr, part in candidates:
        if value <= 0:
            break
        terms = _content_terms(part)
        if any(_is_repetition(terms, other) for other in seen):
            continue
        cost = _count_line_tokens(f"{turns[at].name}: {part}", count)
        if spent + cost > budget:
            continue
        spent += cost
        seen.append(terms)
        picked.append((at, nr, value, part))
    picked.sort()
    return [
        SummaryLine(f"{turns[at].name}: {part}", _round_worth(value), round_number) for at, _, value, part in picked
    ]


def _last_reply_finder(turns: Sequence[Turn]) -> Callable[[Turn], int]:
    """Where somebody other than a turn's speaker spoke last; -1 for nowhere."""
    last = {turn.name: at for at, turn in enumerate(turns) if turn.role != "tool"}
    ends = sorted(((at, name) for name, at in last.items()), reverse=True)[:2]
    return lambda turn: next((at for at, name in ends if name != turn.name), -1)


def score_sentence(sentence: str, role: str = "user", *, is_first: bool = False, is_unanswered: bool = False) -> float:
    """What a sentence is worth to somebody who was not there; 0 or less for what may be forgotten."""
    words, lowered = len(sentence.split()), sentence.lower()
    value = 0.5
    if words > 4 and _DECISION.search(lowered):
        value += 1.6
    if _STANDING_RULE.search(lowered):
        value += 1.2
    if states_fact(sentence):
        value += 2.2
    if _ACTION.search(lowered):
        value += 1.0
    if _PROBLEM.search(lowered):
        value += 0.8
    if _TIME_REFERENCE.search(lowered):
        value += 1.0
    value += min(1.2, 0.6 * len(_NUMBER.findall(sentence)))
    value += min(1.0, 0.7 * len(_PATH_OR_URL.findall(sentence)))
    value += min(1.4, 0.7 * len(_NAME.findall(sentence)))
    if _FIRST_PERSON.search(sentence) and role != "assistant":
        value += 0.5
    if is_first:
        value += 0.2
    if sentence.endswith("?"):
        value = value * 0.6 + 0.8 if is_unanswered and words >= 4 else value * 0.25
    if sentence.endswith(":"):
        value -= 1.5
    if _SMALL_TALK.match(lowered):
        value -= 1.6
    if role == "assistant" and _ANNOUNCEMENT.match(lowered):
        value -= 1.4
    if _BACK_REFERENCE.match(lowered):
        value -= 0.5
    if words < 4:
        value -= 0.4
    elif words > 40:
        value -= 0.6
    return value * _ROLE_WEIGHTS.get(role, 1.0)


def _round_worth(value: float) -> float:
    return round(value, 3)


def _tool_sentences(content: str) -> list[str]:
    """What a tool said, if it is short enough to be quoted whole."""
    bare = " ".join(content.split())
    return (
        [bare]
        if bare and len(bare) <= 160
        else [part for part in split_sentences(content) if _PROBLEM.search(part.lower())][:3]
    )


def _theme_scorer(sentences_by_turn: Sequence[Sequence[str]]) -> Callable[[str], float]:
    """How much a sentence speaks of what the turns keep coming back to."""
    spread: Counter[str] = Counter()
    for parts in sentences_by_turn:
        spread.update({term for part in parts for term in _content_terms(part)})
    many = len(sentences_by_turn)
    telling = {term for term, turns in spread.items() if turns >= 2 and turns <= max(3, many // 3)}

    def share(sentence: str) -> float:
        terms = _content_terms(sentence)
        return 0.9 * len(terms & telling) / (len(terms) + 2) if terms else -0.5

    return share


def _content_terms(sentence: str) -> frozenset[str]:
    """The words that tell what a sentence is about."""
    return _cached_terms(sentence) if len(sentence) <= _MAX_LINE_LENGTH else _extract_terms(sentence)


def _extract_terms(sentence: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sentence.lower())) - _STOPWORDS


_cached_terms = lru_cache(maxsize=8_192)(_extract_terms)
"""Remembered: the same lines come again in every round."""


@lru_cache(maxsize=8_192)
def _count_line_tokens(line: str, count: Callable[[str], int]) -> int:
    """The tokens of a line; the same lines come again in every round."""
    return count(f"- {line}\n")


def _is_repetition(first: frozenset[str], second: frozenset[str]) -> bool:
    """Whether two lines say the same: most of their words, and every figure."""
    small, large = len(first), len(second)
    if small > large:
        small, large = large, small
    if not small or small < _SIMILARITY_THRESHOLD * large:
        return first == second
    shared = len(first & second)
    return shared >= _SIMILARITY_THRESHOLD * (small + large - shared) and _number_terms(first) == _number_terms(second)


@lru_cache(maxsize=8_192)
def _number_terms(terms: frozenset[str]) -> frozenset[str]:
    return frozenset(term for term in terms if any(map(str.isdigit, term)))


def _merge_repeated_lines(lines: Sequence[SummaryLine], new_count: int) -> list[SummaryLine]:
    """The lines without those that a later one says again; what is said again counts a little more.

    Only the last ``fresh`` lines are new: those before them have been told apart already.
    """
    holding: dict[str, list[int]] = {}
    kept: dict[int, SummaryLine] = {}
    for at in reversed(range(len(lines))):
        terms = _content_terms(lines[at].text)
        rivals = sorted({later for term in terms for later in holding.get(term, ())})
        again = next((nr for nr in rivals if _is_repetition(terms, _content_terms(lines[nr].text))), None)
        if not terms:
            again = next((nr for nr, line in kept.items() if line.text == lines[at].text), None)
        if again is not None:
            kept[again] = replace(kept[again], worth=_round_worth(max(kept[again].worth, lines[at].worth) + 0.1))
            continue
        kept[at] = lines[at]
        if at >= len(lines) - new_count:
            for term in terms:
                holding.setdefault(term, []).append(at)
    return [kept[at] for at in sorted(kept)]


def _fit_lines(
    lines: Sequence[SummaryLine], budget: int, count: Callable[[str], int], round_number: int
) -> list[SummaryLine]:
    """As many of the lines as the budget holds, the most valuable ones, in their order."""
    costs = [_count_line_tokens(line.text, count) for line in lines]
    spent = count(HEADING) + 1 + sum(costs)
    worths = [line.worth * _WORTH_DECAY ** max(0, round_number - line.round) for line in lines]
    gone: set[int] = set()
    for at in sorted(range(len(lines)), key=lambda at: (worths[at], at)):
        if spent <= budget:
            break
        gone.add(at)
        spent -= costs[at]
    left = [line for at, line in enumerate(lines) if at not in gone]
    while (
        left and count(render_lines(left)) > budget
    ):  # tokens of the parts need not add up exactly to those of the whole
        left.remove(min(left, key=lambda line: line.worth))
    return left
