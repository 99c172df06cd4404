"""What a run would write: pure decisions from clusters and errors to drafts of knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lukasa.experience.consolidation.extract import (
    MAX_SINGLE_AUTHOR_CONFIDENCE,
    MIN_CONFIDENCE,
    ExtractedPattern,
    format_steps,
    merge_errors,
)
from lukasa.experience.consolidation.similarity import (
    MIN_GOAL_SIMILARITY,
    EpisodeError,
    EpisodeTraits,
    goal_similarity,
    goal_terms,
)
from lukasa.experience.knowledge_items import MAX_SOURCES, KnowledgeItem, antipattern_draft, pattern_draft
from lukasa.experience.skill_markdown import SkillText, render_skill
from lukasa.experience.skills import skill_draft, slugify
from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.text.similarity import distinct_words, normalise_text, word_overlap

LEARNING = "learning"
ORIGIN = "consolidation"
SAME_PATTERN_OVERLAP = 0.7
OPPOSED_OVERLAP = 0.7
_MIN_SKILL_CONFIDENCE, _MIN_SKILL_SUCCESSES = 0.9, 3


def draft_pattern(
    extracted: ExtractedPattern,
    members: Sequence[EpisodeTraits],
    known: Record | None,
    *,
    id: str,
    scope: str,
    label: str,
) -> Draft | Refused:
    """The draft of a pattern: new, or the next version of a known one with the new evidence.

    A pattern that consolidation made is told anew from its members. One that somebody wrote keeps its words, and its
    confidence rises from what they gave it: ``1 - (1 - given)(1 - found / 2)``.
    """
    sources = [one.key.id for one in members]
    figures = {
        "successes": extracted.successes, "failures": extracted.failures, "agreement": extracted.agreement,
        "found": extracted.confidence,
    }  # fmt: skip
    told: dict[str, Any] = {
        "pattern": extracted.pattern, "category": extracted.category, "conditions": list(extracted.conditions),
        "correct_approach": extracted.correct_approach, "incorrect_approach": extracted.incorrect_approach,
        "confidence": extracted.confidence, "source_episodes": sources, "usage_count": 0, "voices": extracted.author_count,
        "evidence": figures,
    }  # fmt: skip
    links: tuple[Link, ...] = ()
    if known is not None:
        body = dict(known.body)
        links = tuple(link for link in known.links if link.relation != DERIVED_FROM)
        used = int(body.get("usage_count", 0)) + 1
        if known.origin == ORIGIN and "given" not in body.get("evidence", {}):
            told = body | told | {"usage_count": used}
        else:
            given = body.get("evidence", {}).get("given", body.get("confidence", 0.0))
            sure = round(1 - (1 - given) * (1 - extracted.confidence / 2), 3)
            cited = list(dict.fromkeys((*body.get("source_episodes", []), *sources)))[-MAX_SOURCES:]
            told = body | {
                "source_episodes": cited, "confidence": sure, "usage_count": used, "voices": extracted.author_count,
                "evidence": figures | {"given": given},
            }  # fmt: skip
    return pattern_draft(
        told, scope=scope, id=id, links=links, labels=(label, f"voices={extracted.author_count}"),
        origin=ORIGIN if known is None else known.origin, author="" if known is None else known.author,
        expected=0 if known is None else known.version,
    )  # fmt: skip


def is_same_pattern(extracted: ExtractedPattern, other: KnowledgeItem) -> bool:
    """Whether a known pattern is about the same goal and does not say the contrary."""
    text = normalise_text(f"{extracted.pattern} {' '.join(extracted.conditions)} {extracted.correct_approach}")
    known = normalise_text(other.record.text)
    alike = word_overlap(distinct_words(text), distinct_words(known)) >= SAME_PATTERN_OVERLAP
    goal = goal_similarity(goal_terms(extracted.goal), goal_terms(other.says)) >= SAME_PATTERN_OVERLAP
    agrees = (
        not other.approach
        or word_overlap(
            distinct_words(normalise_text(extracted.correct_approach)), distinct_words(normalise_text(other.approach))
        )
        >= 0.5
    )
    return (alike or (goal and agrees)) and not are_opposed(
        extracted.correct_approach, extracted.incorrect_approach, other.approach, _incorrect_approach(other)
    )


def are_opposed(correct: str, incorrect: str, other_correct: str, other_incorrect: str) -> bool:
    """Whether what one calls right the other calls wrong."""
    return _are_alike(correct, other_incorrect) or _are_alike(incorrect, other_correct)


def is_contradiction(a: Draft, b: Record | Draft) -> bool:
    """Whether two patterns speak of the same thing and oppose each other."""
    if not are_opposed(*(str(body.get(name, "")) for body in (a.body, b.body) for name in _APPROACH_FIELDS)):
        return False
    return goal_similarity(*(goal_terms(pattern_goal(body)) for body in (a.body, b.body))) >= MIN_GOAL_SIMILARITY


def pattern_goal(body: Mapping[str, Any]) -> str:
    """The goal that a pattern speaks of, without what it says about it."""
    return str(body.get("pattern", "")).partition(":")[0]


_APPROACH_FIELDS = ("correct_approach", "incorrect_approach")


def _incorrect_approach(other: KnowledgeItem) -> str:
    return str(other.record.body.get("incorrect_approach", ""))


def _are_alike(a: str, b: str) -> bool:
    return bool(a and b) and word_overlap(_word_set(a), _word_set(b)) >= OPPOSED_OVERLAP


@lru_cache(maxsize=1 << 12)
def _word_set(text: str) -> frozenset[str]:
    return distinct_words(normalise_text(text))


@dataclass(slots=True)
class ErrorGroup:
    """One error wherever it was met: its sources, oldest first."""

    id: str
    occurrences: dict[Key, tuple[EpisodeError, EpisodeTraits]]
    antipattern: Record | None = None

    def newest_sources(self) -> list[tuple[EpisodeError, EpisodeTraits]]:
        ordered = sorted(self.occurrences.values(), key=lambda pair: (pair[1].moment, pair[1].key.id))
        return ordered[-MAX_SOURCES:]

    def usable_sources(self) -> list[tuple[EpisodeError, EpisodeTraits]]:
        """The sources that may speak: suspicious ones only where two authors say the same."""
        sources = self.newest_sources()
        clean = [pair for pair in sources if not pair[1].is_suspicious]
        voices: dict[str, set[str]] = {}
        for trouble, one in sources:
            voices.setdefault(trouble.resolution, set()).add(one.author)
        return clean or [pair for pair in sources if len(voices[pair[0].resolution]) > 1]


def draft_antipattern(group: ErrorGroup, *, scope: str, label: str) -> Draft | Refused:
    """What fails, why, and how it was prevented: from one error or from many of the same."""
    sources = group.usable_sources()
    trouble = merge_errors([(trouble, one.author) for trouble, one in sources])
    voices = len({one.author for met, one in sources if met.resolution == trouble.resolution})
    fixes = dict.fromkeys(met.resolution for met, _ in sources if met.resolution)
    ids = [one.key.id for _, one in sources]
    sure = round(min(1 - 0.4 ** len(sources), 1.0 if voices > 1 else MAX_SINGLE_AUTHOR_CONFIDENCE), 3)
    told: dict[str, Any] = {
        "what_fails": trouble.type, "why": trouble.message, "prevention": trouble.resolution, "source": ids[0],
        "sources": ids, "confidence": sure, "voices": voices,
    }  # fmt: skip
    if len(fixes) > 1:
        told["preventions"] = list(fixes)[:5]
    known = group.antipattern
    links: tuple[Link, ...] = ()
    if known is not None:
        links = tuple(link for link in known.links if link.relation != DERIVED_FROM)
        told = dict(known.body) | told
    return antipattern_draft(
        told, scope=scope, id=group.id, links=links, labels=(label, f"voices={voices}"), origin=ORIGIN,
        expected=0 if known is None else known.version,
    )  # fmt: skip


def draft_learning(group: ErrorGroup, day: str, known: Record | None, *, scope: str, label: str) -> Draft | None:
    """What the errors of one day teach."""
    sources = [(trouble, one) for trouble, one in group.usable_sources() if one.day == day]
    if not sources:
        return None
    trouble = merge_errors([(trouble, one.author) for trouble, one in sources])
    body = {
        "date": day, "error": trouble.type, "message": trouble.message, "learning": trouble.resolution,
        "episodes": [one.key.id for _, one in sources], "antipattern": group.id,
    }  # fmt: skip
    return Draft(
        LEARNING, body=body, id=f"{day}-{group.id.removeprefix('anti-')}", scope=scope, origin=ORIGIN,
        labels=(label, f"day={day}"), links=tuple(Link(DERIVED_FROM, one.key) for _, one in sources),
        expected=0 if known is None else known.version,
    )  # fmt: skip


def draft_skill(pattern: Draft, extracted: ExtractedPattern, *, label: str) -> Draft | None:
    """A skill from a pattern that independent authors bear out; nothing less sure becomes one."""
    sure = float(pattern.body["confidence"]) >= _MIN_SKILL_CONFIDENCE and extracted.successes >= _MIN_SKILL_SUCCESSES
    if not sure or extracted.author_count < 2 or not extracted.steps or extracted.rejection:
        return None
    title = extracted.goal.replace("…", "{…}")
    text = SkillText(
        title,
        extracted.conditions,
        tuple(format_steps((step,)) for step in extracted.steps),
        tuple(
            (trouble.message or trouble.type, trouble.resolution) for trouble in extracted.errors if trouble.resolution
        ),
        (
            f"As in {extracted.successes} of {extracted.successes + extracted.failures} episodes, the task ends in success",
        ),
    )
    markdown = render_skill(text)
    key = Key(pattern.scope, pattern.kind, pattern.id)
    return skill_draft(
        text, markdown, id=slugify(title), scope=pattern.scope, origin=ORIGIN, labels=(label,),
        links=(Link(DERIVED_FROM, key),), expected=0,
    )  # fmt: skip


def is_confident(extracted: ExtractedPattern) -> bool:
    """Whether a pattern is sure enough to be written down."""
    return not extracted.rejection and extracted.confidence >= MIN_CONFIDENCE


def is_unchanged(draft: Draft, known: Record | None) -> bool:
    """Whether writing the draft would say nothing new: the counters of use aside, body and sources are the same."""
    if known is None:
        return False
    ignored = ("usage_count", "last_used")
    bodies: list[Mapping[str, Any]] = [draft.body, known.body]
    old, new = ({name: value for name, value in body.items() if name not in ignored} for body in bodies)
    return old == new and set(draft.links) == set(known.links)
