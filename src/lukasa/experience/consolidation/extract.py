"""What the episodes of a cluster have in common, and how sure that is.

    confidence = support · consistency · (0.6 + 0.4 · agreement)

    support      1 - 0.4ⁿ for n sources that went well or wrong: 0.84 for two, 0.94 for three, 0.97 for four
    consistency  the share of them that went well
    agreement    how much of what the successful ones did is the same: the mean likeness of their actions to the common
                 sequence, or the share of them that solved the same error the same way, whichever is more

One author alone never brings it above 0.89, however often they say the same. Two clear successes reach 0.84; one failure
among four, or successes that did quite different things, stay below the threshold of 0.8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rapidfuzz.distance import LCSseq

from lukasa.experience.consolidation.similarity import (
    EpisodeError,
    EpisodeTraits,
    action_similarity,
    goal_terms,
    term_weight,
)

MIN_CONFIDENCE = 0.8
MAX_SINGLE_AUTHOR_CONFIDENCE = 0.89
_COMMON_SHARE = 0.6
_MAX_SEQUENCES = 50
_MAX_STEPS = 20
_WORD_SPLIT = re.compile(r"(\W+|_+)")
_REPEATED_GAPS = re.compile(r"…(?:[\s,;:/._-]*…)+")
_LANGUAGES = {
    ".ts": "typescript", ".tsx": "typescript", ".js": "javascript", ".py": "python", ".go": "go", ".rs": "rust",
    ".java": "java", ".rb": "ruby", ".sql": "sql", ".cs": "csharp", ".cpp": "cpp", ".c": "c", ".php": "php",
    ".kt": "kotlin", ".swift": "swift", ".sh": "shell", ".md": "documentation", ".yaml": "configuration",
    ".yml": "configuration", ".css": "css", ".html": "html",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExtractedPattern:
    """A pattern as a cluster suggests it, with the figures behind its confidence."""

    pattern: str
    goal: str
    category: str
    conditions: tuple[str, ...]
    steps: tuple[str, ...]
    errors: tuple[EpisodeError, ...]
    correct_approach: str
    incorrect_approach: str
    confidence: float
    agreement: float
    successes: int
    failures: int
    author_count: int
    rejection: str = field(default="", compare=False)
    """Why it may not become knowledge, if it may not."""


def compute_confidence(successes: int, failures: int, agreement: float, author_count: int) -> float:
    """How sure a pattern is; see above."""
    judged = successes + failures
    if not successes:
        return 0.0
    support = 1 - 0.4**judged
    sure = support * (successes / judged) * (0.6 + 0.4 * agreement)
    return round(min(sure, 1.0 if author_count > 1 else MAX_SINGLE_AUTHOR_CONFIDENCE), 3)


def extract_pattern(members: Sequence[EpisodeTraits]) -> ExtractedPattern:
    """What the members have in common. What only one of them says is never part of it."""
    trusted = _usable_members(members)
    good = [one for one in trusted if one.outcome > 0]
    bad = [one for one in trusted if one.outcome < 0]
    told = good or trusted
    goal = general_goal([one.goal for one in told])
    shared, alike = common_sequence([one.actions for one in good])
    steps = tuple(step for step in shared if not step.endswith("!"))
    troubles, solved = _common_errors(told)
    agreement = max(alike, solved)
    voices = len({one.author for one in good if _supports_pattern(one, shared, troubles)})
    confidence = compute_confidence(len(good), len(bad), agreement, voices) if goal else 0.0
    failed, _ = common_sequence([one.actions for one in bad])
    return ExtractedPattern(
        pattern=_pattern_text(goal, steps, troubles),
        goal=goal,
        category=_choose_category(told),
        conditions=_common_conditions(told),
        steps=steps,
        errors=troubles,
        correct_approach=_correct_approach(steps, troubles),
        incorrect_approach=_incorrect_approach(shared, failed if len(bad) > 1 else (), troubles),
        confidence=confidence,
        agreement=round(agreement, 3),
        successes=len(good),
        failures=len(bad),
        author_count=voices,
        rejection=_rejection_reason(members, trusted),
    )


def _supports_pattern(episode: EpisodeTraits, steps: tuple[str, ...], errors: Sequence[EpisodeError]) -> bool:
    """Whether an episode bears out what the pattern says: it solved the error that way, or went those steps."""
    if errors and errors[0].resolution:
        return any(met.resolution == errors[0].resolution for met in episode.errors)
    return action_similarity(episode.actions, steps) >= _COMMON_SHARE


def _usable_members(members: Sequence[EpisodeTraits]) -> list[EpisodeTraits]:
    """Those whose words may be used. Suspicious ones only if two authors without each other say the same."""
    clean = [one for one in members if not one.is_suspicious]
    odd = [one for one in members if one.is_suspicious]
    voices_of: dict[tuple[str, tuple[EpisodeError, ...]], set[str]] = {}
    for one in odd:
        voices_of.setdefault((one.goal, one.errors), set()).add(one.author)
    return clean + [one for one in odd if len(voices_of[one.goal, one.errors]) > 1]


def _rejection_reason(members: Sequence[EpisodeTraits], usable: Sequence[EpisodeTraits]) -> str:
    odd = len(members) - len(usable)
    if odd and len(usable) < 2:
        voices = sorted({one.author for one in members if one.is_suspicious})
        return f"{odd} of {len(members)} sources give orders in their text, and only {voices[0]!r:.60} says so"
    return ""


def general_goal(goals: Sequence[str]) -> str:
    """The words that most of the goals share, in the order of the first goal, with a gap for what differs."""
    if not goals:
        return ""
    counted = Counter(term for goal in goals for term in goal_terms(goal))
    common = {term for term, times in counted.items() if times >= _COMMON_SHARE * len(goals)}
    if sum(term_weight(term) for term in common) < 1:
        return ""
    parts = []
    for part in _WORD_SPLIT.split(goals[0]):
        own = goal_terms(part)
        parts.append(
            "…"
            if part and _WORD_SPLIT.fullmatch(part) is None and not _is_common_part(part, own, common, goals)
            else part
        )
    return " ".join(_REPEATED_GAPS.sub("…", "".join(parts)).split())


def _is_common_part(part: str, own: frozenset[str], common: set[str], goals: Sequence[str]) -> bool:
    """A word stays if most goals have it; one that means nothing by itself if most have it to the letter."""
    if own:
        return own <= common
    return sum(part in goal for goal in goals) >= _COMMON_SHARE * len(goals)


def common_sequence(sequences: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], float]:
    """The actions that most sequences share in one order, and how alike the sequences are to it on average."""
    counted = Counter(sequence for sequence in sequences if sequence)
    if not counted:
        return (), 0.0
    ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:_MAX_SEQUENCES]
    total = sum(times for _, times in ranked)
    base = ranked[0][0]
    held = [0] * len(base)
    for sequence, times in ranked:
        for at in _aligned_positions(base, sequence):
            held[at] += times
    common = tuple(action for action, times in zip(base, held, strict=True) if times >= _COMMON_SHARE * total)
    alike = sum(action_similarity(common, sequence) * times for sequence, times in ranked) / total if common else 0.0
    return common, alike


def _aligned_positions(base: tuple[str, ...], other: tuple[str, ...]) -> list[int]:
    """The places of ``base`` that a longest common subsequence with ``other`` covers."""
    if base == other:
        return list(range(len(base)))
    covered: list[int] = []
    for block in LCSseq.opcodes(base, other):
        if block.tag == "equal":
            covered += range(block.src_start, block.src_end)
    return covered


def _common_errors(members: Sequence[EpisodeTraits]) -> tuple[tuple[EpisodeError, ...], float]:
    """The errors that several met, each with the resolution most used, and how many solved the commonest the same way."""
    met: dict[str, list[tuple[EpisodeError, EpisodeTraits]]] = {}
    for one in members:
        for trouble in one.errors:
            met.setdefault(trouble.id, []).append((trouble, one))
    found: list[tuple[int, str, EpisodeError]] = []
    for id, seen in met.items():
        if len({one.key for _, one in seen}) >= max(2, _COMMON_SHARE * len(members)):
            found.append((len(seen), id, merge_errors([(trouble, one.author) for trouble, one in seen])))
    found.sort(key=lambda row: (-row[0], row[1]))
    chosen = tuple(trouble for _, _, trouble in found[:3])
    if not chosen or not chosen[0].resolution:
        return chosen, 0.0
    alike = sum(any(one.resolution == chosen[0].resolution for one in member.errors) for member in members)
    return chosen, alike / len(members) if alike > 1 else 0.0


def merge_errors(errors: Sequence[tuple[EpisodeError, str]]) -> EpisodeError:
    """One error for many of the same: the resolution that most authors, then most episodes, found."""
    first = errors[0][0]
    by_fix: dict[str, tuple[set[str], int]] = {}
    for trouble, voice in errors:
        if trouble.resolution:
            voices, times = by_fix.get(trouble.resolution, (set(), 0))
            by_fix[trouble.resolution] = (voices | {voice}, times + 1)
    ranked = sorted(by_fix, key=lambda fix: (-len(by_fix[fix][0]), -by_fix[fix][1], fix))
    return EpisodeError(first.type, first.message, ranked[0] if ranked else "")


def _choose_category(members: Sequence[EpisodeTraits]) -> str:
    suffixes = Counter(_LANGUAGES[one] for member in members for one in member.suffixes if one in _LANGUAGES)
    phases = Counter(member.phase for member in members if member.phase)
    for counted in (suffixes, phases):
        if counted:
            return min(counted, key=lambda name: (-counted[name], name))
    return "general"


def _common_conditions(members: Sequence[EpisodeTraits]) -> tuple[str, ...]:
    counted = Counter(condition for member in members for condition in set(member.conditions))
    often = max(2, _COMMON_SHARE * len(members))
    shared = sorted(condition for condition, times in counted.items() if times >= often)
    phases = Counter(member.phase for member in members if member.phase)
    phase = [f"Phase: {name}" for name, times in phases.items() if times >= often]
    suffixes = Counter(suffix for member in members for suffix in member.suffixes if suffix)
    files = sorted(suffix for suffix, times in suffixes.items() if times >= often)
    return (*shared[:10], *phase, *([f"Files of type {', '.join(files[:5])}"] if files else []))


def format_steps(steps: Sequence[str]) -> str:
    """A sequence for people: ``read_file → run_test ×2``; a step that failed says so."""
    runs = [(name, len(list(same))) for name, same in groupby(steps)]
    told = [_format_step(name) + (f" ×{times}" if times > 1 else "") for name, times in runs[:_MAX_STEPS]]
    return " → ".join(told) + (" → …" if len(runs) > _MAX_STEPS else "")


def _format_step(name: str) -> str:
    return f"{name[:-1]} (fails)" if name.endswith("!") else name


def _pattern_text(goal: str, steps: Sequence[str], errors: Sequence[EpisodeError]) -> str:
    if errors and errors[0].resolution:
        return f"{goal}: on {_format_error(errors[0])}, {errors[0].resolution}"
    return f"{goal}: {format_steps(steps)}" if steps else goal


def _format_error(error: EpisodeError) -> str:
    return f"{error.type} ({error.message})" if error.message else error.type


def _correct_approach(steps: Sequence[str], errors: Sequence[EpisodeError]) -> str:
    fixes = [f"On {_format_error(trouble)}: {trouble.resolution}" for trouble in errors if trouble.resolution]
    return ". ".join([*([format_steps(steps)] if steps else []), *fixes])


def _incorrect_approach(steps: Sequence[str], failed: Sequence[str], errors: Sequence[EpisodeError]) -> str:
    other = [format_steps(failed)] if failed and tuple(failed) != tuple(steps) else []
    return ". ".join([*other, *(_format_error(trouble) for trouble in errors)])
