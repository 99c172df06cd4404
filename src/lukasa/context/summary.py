"""The rule-based summary: the most valuable sentences of the folded turns, quoted whole.

Each sentence gets a worth from its content: decisions, facts, names, numbers, paths, open questions, work done and work
to do. Small talk gets none. Where an agent works for people, what each of them asked for is worth more, and so is what the
agent said last about it. Lines that are mostly code, commands, paths or logs are worth least; output of tools that nobody
said is never quoted. The most valuable sentences are kept in their order; one that repeats a better one is left out.

The summary has a token budget. Once it is full, earlier lines compete with later ones by their worth, which decays a
little with every round. So the summary never exceeds its budget; dropped lines are still in the transcript.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from textwrap import shorten

from lukasa.context.facts import states_fact
from lukasa.context.state import ConversationSummary, SummaryLine, Turn
from lukasa.core.text_cache import cache_texts
from lukasa.text.lexicon import CHAT_STOP_WORDS, WORDS
from lukasa.text.sentences import split_sentences
from lukasa.text.terms import contains_phrase, plain_text, starts_with

HEADING = "Previous conversation summary:"
BY_RULES, BY_HAND = "extractive", "hand"
_SUMMARY_SHARE = 0.35
"""The share of the folded tokens that new lines may have."""
_MIN_SUMMARY_TOKENS = 240
_WORTH_DECAY = 0.985
_SIMILARITY_THRESHOLD = 0.6
_HAND_WRITTEN_WORTH = 8.0
_MAX_LINE_LENGTH = 420
_MAX_SENTENCES = 400
_EDGE_SIZE = 5
_REQUEST_BONUS = 4.0
_OUTCOME_WEIGHT, _NARRATION_WEIGHT, _CODE_WEIGHT = 1.5, 0.6, 0.25
_MAX_CODE, _MAX_CODE_OF_REQUEST = 0.5, 0.75
_MIN_REQUEST_WORDS, _MIN_WORDS_AFTER_GREETING = 4, 8
_CUT_LENGTH = 240
_MAX_OPENING_LENGTH = 4_000
_PERSON_ROLES = frozenset({"user", "human"})

_NUMBER = re.compile(r"(?<![\w/])[$€£¥]?\d[\d,.:%/-]*\w{0,4}")
_PATH_OR_URL = re.compile(
    r"https?://\S+|(?<!\w)(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)+|[A-Za-z]:\\\S+|\b[\w-]+\.[a-z]{1,4}\b(?!\.)|`[^`\n]{2,60}`"
)
_NAME = re.compile(r"(?<=[a-z,;:)'’”] )(?:[A-Z][a-zà-ÿ][\w'’-]*|[A-Z]{2,6}\b)(?: [A-Z][\w'’-]+)*")
_CODE_MARK = re.compile(r"[\\/_={}<>#~^|@]|[^\W\d]{2}[.:(\[]\w|(?<!\S)--?\w|[a-z][A-Z]|[^\W\d]\d|\d[^\W\d]")
"""A mark, a change of case or a mix of letters and digits that words of prose do not have."""
_PROMPT_MARKS = ("$ ", "% ", "❯", ">>> ")
_ROLE_WEIGHTS = {"assistant": 0.75, "tool": 0.35, "system": 0.9}


def summarise(
    earlier: ConversationSummary,
    turns: Sequence[Turn],
    budget: int,
    count: Callable[[str], int],
    remarks: Sequence[str] = (),
) -> ConversationSummary:
    """Fold turns into an earlier summary, within a token budget; ``remarks`` are lines to add unchanged."""
    round_number = earlier.rounds + 1
    folded_tokens = sum(turn.tokens for turn in turns)
    quote_budget = min(budget, max(_MIN_SUMMARY_TOKENS, int(_SUMMARY_SHARE * folded_tokens)))
    new = _select_sentences(turns, quote_budget, count, round_number)
    new += [SummaryLine(remark, _HAND_WRITTEN_WORTH, round_number) for remark in remarks]
    lines = _merge_repeated_lines([*_parse_lines(earlier), *new], len(new))
    lines = _fit_lines(lines, budget, count, round_number)
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
    """Return the summary with a new text, after turns were folded into ``earlier``; ``by`` names the text's author."""
    newest_ids = [turn.id for turn in reversed(turns[-_EDGE_SIZE:])]
    return replace(
        earlier,
        text=text,
        lines=tuple(lines),
        tokens=count(text) if text else 0,
        turns=earlier.turns + len(turns),
        folded_tokens=earlier.folded_tokens + sum(turn.tokens for turn in turns),
        rounds=earlier.rounds + 1,
        edge=(*newest_ids, *earlier.edge)[:_EDGE_SIZE],
        by=by,
        why=why,
    )


def render_lines(lines: Sequence[SummaryLine]) -> str:
    """Render the lines as one text under the heading."""
    return "\n".join([HEADING, *(f"- {line.text}" for line in lines)]) if lines else ""


def shorten_summary(summary: ConversationSummary, budget: int, count: Callable[[str], int]) -> str:
    """Keep the most valuable whole lines of a summary that fit a budget."""
    if count(summary.text) <= budget:
        return summary.text
    return render_lines(_fit_lines(_parse_lines(summary), budget, count, summary.rounds))


def _parse_lines(summary: ConversationSummary) -> list[SummaryLine]:
    """Return the lines of a summary; a text that was not rendered here is split into sentences of a high worth."""
    if summary.lines and summary.text == render_lines(summary.lines):
        return list(summary.lines)
    lines = []
    for line in summary.text.splitlines():
        bare = line.removeprefix("- ").strip()
        if bare and bare != HEADING:
            parts = [bare] if line.startswith("- ") else split_sentences(bare)
            lines += [SummaryLine(part, _HAND_WRITTEN_WORTH, summary.rounds) for part in parts]
    return _merge_repeated_lines(lines, len(lines))


def _select_sentences(
    turns: Sequence[Turn], budget: int, count: Callable[[str], int], round_number: int
) -> list[SummaryLine]:
    """Select the sentences with the highest worth that fit a budget, in the order of the turns."""
    sentences_by_turn = [_quotable_sentences(turn) for turn in turns]
    turn_counts: Counter[str] = Counter()
    for sentences in sentences_by_turn:
        turn_counts.update({term for sentence in sentences for term in _content_terms(sentence)})
    themes = {term for term, turn_count in turn_counts.items() if 2 <= turn_count <= max(3, len(turns) // 3)}
    last_by_name = {turn.name: index for index, turn in enumerate(turns) if turn.role != "tool"}
    last_speakers = sorted(((index, name) for name, index in last_by_name.items()), reverse=True)[:2]
    has_agent = any(turn.role not in _PERSON_ROLES for turn in turns)
    candidates: list[tuple[float, int, int, str]] = []
    for index, (turn, sentences, following) in enumerate(
        zip(turns, sentences_by_turn, [*turns[1:], None], strict=False)
    ):
        last_reply = next((last for last, name in last_speakers if name != turn.name), -1)
        request, weight = _find_request(turn) if has_agent else "", 1.0
        if turn.role not in _PERSON_ROLES:
            if turn.tool_calls or (following is not None and following.is_unsaid):
                weight = _NARRATION_WEIGHT
            elif following is None or following.role in _PERSON_ROLES:  # the last words before a person speaks
                weight = _OUTCOME_WEIGHT
        ranked = _rank_sentences(turn, sentences, themes, request, weight, is_unanswered=last_reply <= index)
        candidates += [(worth, index, position, sentence) for worth, position, sentence in ranked]
    candidates.sort(key=lambda candidate: (-candidate[0], candidate[1], candidate[2]))
    spent, selected, seen = count(HEADING), list[tuple[int, int, SummaryLine]](), list[frozenset[str]]()
    for worth, index, position, sentence in candidates:
        if worth <= 0:
            break
        terms = _content_terms(sentence)
        if any(_is_repetition(terms, other) for other in seen):
            continue
        line = f"{turns[index].name}: {sentence}"
        cost = _count_line_tokens(line, count)
        if spent + cost <= budget:
            spent += cost
            seen.append(terms)
            selected.append((index, position, SummaryLine(line, round(worth, 3), round_number)))
    return [line for _, _, line in sorted(selected, key=lambda entry: entry[:2])]


def _rank_sentences(
    turn: Turn, sentences: Sequence[str], themes: AbstractSet[str], request: str, weight: float, *, is_unanswered: bool
) -> list[tuple[float, int, str]]:
    """Return the sentences of a turn with their worth and position, the request first; the worth falls with the rank."""
    usable = [sentence for sentence in sentences if len(sentence) <= _MAX_LINE_LENGTH]
    if len(usable) > _MAX_SENTENCES:  # of a very long turn, the beginning and the end
        usable = [*usable[: _MAX_SENTENCES // 2], *usable[-_MAX_SENTENCES // 2 :]]
    if not usable and turn.tokens > _MIN_SUMMARY_TOKENS and turn.role != "tool" and not turn.is_unsaid:
        usable = [f"(a message of {turn.tokens:,} tokens, not quoted)"]
    if request:
        usable = [request, *(sentence for sentence in usable if sentence not in request)]
    scored = []
    for position, sentence in enumerate(usable):
        worth = score_sentence(sentence, turn.role, is_first=not position, is_unanswered=is_unanswered)
        terms = _content_terms(sentence)
        worth += 0.9 * len(terms & themes) / (len(terms) + 2) if terms else -0.5
        if sentence == request:
            worth = max(worth, 0.0) + _REQUEST_BONUS
        elif worth > 0:
            worth *= weight if _measure_code(sentence) < _MAX_CODE else _CODE_WEIGHT
        scored.append((worth, position, sentence))
    scored.sort(key=lambda entry: (-entry[0], entry[1]))
    return [(worth * 0.85**rank, position, sentence) for rank, (worth, position, sentence) in enumerate(scored)]


def _quotable_sentences(turn: Turn) -> list[str]:
    """Return the sentences of a turn; a short tool result is one, a long one has at most three about problems.

    What nobody said has none.
    """
    if turn.is_unsaid:
        return []
    if turn.role != "tool":
        return split_sentences(turn.content)
    bare = " ".join(turn.content.split())
    if bare and len(bare) <= 160:
        return [bare]
    return [
        sentence
        for sentence in split_sentences(turn.content)
        if contains_phrase(plain_text(sentence), WORDS["problems"])
    ][:3]


def _find_request(turn: Turn) -> str:
    """Return what a person asks for in a turn: the first sentence or title that says something, shortened when long."""
    if turn.role not in _PERSON_ROLES or turn.is_unsaid:
        return ""
    lines = turn.content[:_MAX_OPENING_LENGTH].splitlines()
    opening = split_sentences("\n".join(line.lstrip("#") for line in lines))  # a heading is a sentence here
    for index, sentence in enumerate(opening):
        words = len(sentence.split())
        is_greeting = words < _MIN_WORDS_AFTER_GREETING and starts_with(plain_text(sentence), WORDS["small_talk"])
        if words < _MIN_REQUEST_WORDS or is_greeting or _measure_code(sentence) >= _MAX_CODE_OF_REQUEST:
            continue
        if sentence.endswith(":"):  # what it announces follows
            sentence = " ".join(opening[index : index + 2])
        return sentence if len(sentence) <= _MAX_LINE_LENGTH else shorten(sentence, _CUT_LENGTH, placeholder=" …")
    return ""


def _measure_code(sentence: str) -> float:
    """Return the share of a line that is code, commands, paths or what a program wrote."""
    if sentence.startswith(_PROMPT_MARKS):
        return 1.0
    parts = sentence.split("`")
    spans = parts[1:-1:2]
    words = " ".join([*parts[:-1:2], parts[-1]]).split()
    code = sum(len(span) + 2 for span in spans) + sum(len(word) for word in words if _CODE_MARK.search(word))
    return code / max(1, len(sentence))


def score_sentence(sentence: str, role: str = "user", *, is_first: bool = False, is_unanswered: bool = False) -> float:
    """Return the worth of a sentence to a later reader; 0 or less means that it may be dropped."""
    words, plain = len(sentence.split()), plain_text(sentence)
    vocabulary = frozenset(plain.split())
    value = 0.5
    if words > 4 and contains_phrase(plain, WORDS["decisions"]):
        value += 1.6
    if states_fact(sentence, role):
        value += 2.2
    for name, bonus in (("standing", 1.2), ("actions", 1.0), ("problems", 0.8), ("time_references", 1.0)):
        if not vocabulary.isdisjoint(WORDS[name]):
            value += bonus
    for pattern, bonus, limit in ((_NUMBER, 0.6, 1.2), (_PATH_OR_URL, 0.7, 1.0), (_NAME, 0.7, 1.4)):
        value += min(limit, bonus * len(pattern.findall(sentence)))
    if not vocabulary.isdisjoint(("i", "my", "we", "our")) and role != "assistant":
        value += 0.5
    if is_first:
        value += 0.2
    if sentence.endswith("?"):
        value = value * 0.6 + 0.8 if is_unanswered and words >= 4 else value * 0.25
    if sentence.endswith(":"):
        value -= 1.5
    if starts_with(plain, WORDS["small_talk"]):
        value -= 1.6
    if role == "assistant" and starts_with(plain, WORDS["announcements"]):
        value -= 1.4
    if starts_with(plain, WORDS["back_references"]):
        value -= 0.5
    if words < 4:
        value -= 0.4
    elif words > 40:
        value -= 0.6
    return value * _ROLE_WEIGHTS.get(role, 1.0)


@cache_texts(8_192, 16_000_000, per_character=20)
def _content_terms(sentence: str) -> frozenset[str]:
    """Return the words of a sentence without stop words; cached, because the same lines come again in every round."""
    return frozenset(plain_text(sentence).split()) - CHAT_STOP_WORDS


@cache_texts(8_192)
def _count_line_tokens(line: str, count: Callable[[str], int]) -> int:
    """Count the tokens of a line; cached, because the same lines come again in every round."""
    return count(f"- {line}\n")


def _is_repetition(first: frozenset[str], second: frozenset[str]) -> bool:
    """Check whether two lines share most of their words and all of their numbers."""
    small, large = len(first), len(second)
    if small > large:
        small, large = large, small
    if not small or small < _SIMILARITY_THRESHOLD * large:
        return first == second
    shared = len(first & second)
    return shared >= _SIMILARITY_THRESHOLD * (small + large - shared) and _number_terms(first) == _number_terms(second)


def _number_terms(terms: frozenset[str]) -> frozenset[str]:
    return frozenset(term for term in terms if any(map(str.isdigit, term)))


def _merge_repeated_lines(lines: Sequence[SummaryLine], new_count: int) -> list[SummaryLine]:
    """Drop lines that a later line repeats, and raise the worth of the later one a little.

    Only the last ``new_count`` lines are new; the lines before them do not repeat each other.
    """
    new_by_term: dict[str, list[int]] = {}
    kept: dict[int, SummaryLine] = {}
    for index in reversed(range(len(lines))):
        line = lines[index]
        terms = _content_terms(line.text)
        if terms:
            similar = sorted({later for term in terms for later in new_by_term.get(term, ())})
            repeated = next(
                (later for later in similar if _is_repetition(terms, _content_terms(lines[later].text))), None
            )
        else:
            repeated = next((later for later, other in kept.items() if other.text == line.text), None)
        if repeated is not None:
            worth = round(max(kept[repeated].worth, line.worth) + 0.1, 3)
            kept[repeated] = replace(kept[repeated], worth=worth)
            continue
        kept[index] = line
        if index >= len(lines) - new_count:
            for term in terms:
                new_by_term.setdefault(term, []).append(index)
    return [kept[index] for index in sorted(kept)]


def _fit_lines(
    lines: Sequence[SummaryLine], budget: int, count: Callable[[str], int], round_number: int
) -> list[SummaryLine]:
    """Drop the lines with the lowest worth until the rest fits the budget; the order stays."""
    costs = [_count_line_tokens(line.text, count) for line in lines]
    spent = count(HEADING) + 1 + sum(costs)
    worths = [line.worth * _WORTH_DECAY ** max(0, round_number - line.round) for line in lines]
    dropped: set[int] = set()
    for index in sorted(range(len(lines)), key=lambda index: (worths[index], index)):
        if spent <= budget:
            break
        dropped.add(index)
        spent -= costs[index]
    remaining = [line for index, line in enumerate(lines) if index not in dropped]
    # count the whole text: the tokens of its parts need not add up exactly
    while remaining and count(render_lines(remaining)) > budget:
        remaining.remove(min(remaining, key=lambda line: line.worth))
    return remaining
