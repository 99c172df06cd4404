"""The drafts of a run: pure functions from extracted patterns and errors to drafts of knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lukasa.core.outcome import Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.text_cache import cache_texts
from lukasa.experience.consolidation.clusters import (
    MIN_GOAL_SIMILARITY,
    EpisodeError,
    EpisodeTraits,
    goal_similarity,
    goal_terms,
)
from lukasa.experience.consolidation.extract import (
    MAX_SINGLE_AUTHOR_CONFIDENCE,
    ExtractedPattern,
    format_steps,
    merge_errors,
)
from lukasa.experience.knowledge import ANTIPATTERN, LEARNING, MAX_SOURCES, PATTERN, KnowledgeItem, knowledge_draft
from lukasa.experience.skill_markdown import SkillText, render_skill
from lukasa.experience.skills import skill_draft, slugify
from lukasa.text.similarity import word_overlap
from lukasa.text.terms import distinct_words, normalise_text

ORIGIN = "consolidation"
SAME_PATTERN_OVERLAP = 0.7
OPPOSED_OVERLAP = 0.7
_MIN_SKILL_CONFIDENCE, _MIN_SKILL_SUCCESSES = 0.9, 3

ErrorOccurrence = tuple[EpisodeError, EpisodeTraits]


def draft_pattern(
    extracted: ExtractedPattern,
    members: Sequence[EpisodeTraits],
    known: Record | None,
    *,
    id: str,
    scope: str,
    label: str,
) -> Draft | Refused:
    """Draft a new pattern, or the next version of a known one with the new evidence.

    A pattern that consolidation made is rewritten from its members. A pattern that a person or agent wrote keeps its words,
    and its confidence rises from the one they gave: ``1 - (1 - given)(1 - found / 2)``.
    """
    sources = [member.key.id for member in members]
    evidence = {
        "successes": extracted.successes, "failures": extracted.failures, "agreement": extracted.agreement,
        "found": extracted.confidence,
    }  # fmt: skip
    document: dict[str, Any] = {
        "pattern": extracted.pattern, "category": extracted.category, "conditions": list(extracted.conditions),
        "correct_approach": extracted.correct_approach, "incorrect_approach": extracted.incorrect_approach,
        "confidence": extracted.confidence, "source_episodes": sources, "usage_count": 0, "voices": extracted.author_count,
        "evidence": evidence,
    }  # fmt: skip
    if known is not None:
        body = dict(known.body)
        used = int(body.get("usage_count", 0)) + 1
        if not is_written_by_hand(known):
            document = body | document | {"usage_count": used}
        else:
            given = body.get("evidence", {}).get("given", body.get("confidence", 0.0))
            confidence = round(1 - (1 - given) * (1 - extracted.confidence / 2), 3)
            cited = list(dict.fromkeys((*body.get("source_episodes", []), *sources)))[-MAX_SOURCES:]
            document = body | {
                "source_episodes": cited, "confidence": confidence, "usage_count": used,
                "voices": extracted.author_count, "evidence": evidence | {"given": given},
            }  # fmt: skip
    return knowledge_draft(
        PATTERN, document, scope=scope, id=id, links=_other_links(known), labels=(label, f"voices={extracted.author_count}"),
        origin=ORIGIN if known is None else known.origin, author="" if known is None else known.author,
        expected=0 if known is None else known.version,
    )  # fmt: skip


def is_written_by_hand(record: Record) -> bool:
    """Return whether a person or agent wrote a pattern, also if consolidation added evidence later."""
    return record.origin != ORIGIN or "given" in record.body.get("evidence", {})


def _other_links(known: Record | None) -> tuple[Link, ...]:
    """Return the links of a known record without those to its sources."""
    return () if known is None else tuple(link for link in known.links if link.relation != DERIVED_FROM)


def is_same_pattern(extracted: ExtractedPattern, other: KnowledgeItem) -> bool:
    """Return whether a known pattern is about the same goal and does not say the opposite."""
    if is_opposed(extracted, other):
        return False
    text = f"{extracted.pattern} {' '.join(extracted.conditions)} {extracted.correct_approach}"
    if word_overlap(_words(text), _words(other.record.text)) >= SAME_PATTERN_OVERLAP:
        return True
    if goal_similarity(goal_terms(extracted.goal), goal_terms(other.says)) < SAME_PATTERN_OVERLAP:
        return False
    return not other.approach or word_overlap(_words(extracted.correct_approach), _words(other.approach)) >= 0.5


def is_opposed(extracted: ExtractedPattern, other: KnowledgeItem) -> bool:
    """Return whether a known pattern recommends what the extracted one warns of, or the reverse."""
    incorrect = str(other.record.body.get("incorrect_approach", ""))
    return are_opposed(extracted.correct_approach, extracted.incorrect_approach, other.approach, incorrect)


def are_opposed(correct: str, incorrect: str, other_correct: str, other_incorrect: str) -> bool:
    """Return whether one pattern recommends what the other warns of."""
    pairs = ((correct, other_incorrect), (incorrect, other_correct))
    return any(a and b and word_overlap(_words(a), _words(b)) >= OPPOSED_OVERLAP for a, b in pairs)


def is_contradiction(a: Draft, b: Record | Draft) -> bool:
    """Return whether two patterns have similar goals and oppose each other."""
    names = ("correct_approach", "incorrect_approach")
    if not are_opposed(*(str(body.get(name, "")) for body in (a.body, b.body) for name in names)):
        return False
    return goal_similarity(*(goal_terms(pattern_goal(body)) for body in (a.body, b.body))) >= MIN_GOAL_SIMILARITY


def pattern_goal(body: Mapping[str, Any]) -> str:
    """Return the goal of a pattern, the part before its colon."""
    return str(body.get("pattern", "")).partition(":")[0]


@cache_texts(1 << 12, 16_000_000, per_character=30)
def _words(text: str) -> frozenset[str]:
    return distinct_words(normalise_text(text))


def draft_skill(pattern: Draft, extracted: ExtractedPattern, *, label: str) -> Draft | None:
    """Draft a skill from a pattern that several independent authors support; return None for a less certain one."""
    is_certain = pattern.body["confidence"] >= _MIN_SKILL_CONFIDENCE and extracted.successes >= _MIN_SKILL_SUCCESSES
    if not is_certain or extracted.author_count < 2 or not extracted.steps or not extracted.goal or extracted.rejection:
        return None
    title = extracted.goal.replace("…", "{…}")
    judged = extracted.successes + extracted.failures
    text = SkillText(
        title,
        extracted.conditions,
        tuple(format_steps((step,)) for step in extracted.steps),
        tuple((error.message or error.type, error.resolution) for error in extracted.errors if error.resolution),
        (f"As in {extracted.successes} of {judged} episodes, the task ends in success",),
    )
    return skill_draft(
        text, render_skill(text), id=slugify(title), scope=pattern.scope, origin=ORIGIN, labels=(label,),
        links=(Link(DERIVED_FROM, pattern.key),), expected=0,
    )  # fmt: skip


def usable_occurrences(occurrences: Sequence[ErrorOccurrence]) -> list[ErrorOccurrence]:
    """Return the occurrences in episodes that are not suspicious, else those whose resolution two authors share."""
    authors: dict[str, set[str]] = {}
    for error, episode in occurrences:
        authors.setdefault(error.resolution, set()).add(episode.author)
    clean = [pair for pair in occurrences if not pair[1].is_suspicious]
    return clean or [pair for pair in occurrences if len(authors[pair[0].resolution]) > 1]


def draft_antipattern(
    id: str, occurrences: Sequence[ErrorOccurrence], known: Record | None, *, scope: str, label: str
) -> Draft | Refused:
    """Draft an anti-pattern from occurrences of one error: what fails, why, and how to prevent it.

    All three are quoted from one episode, which is named as the source.
    """
    merged, supporting = merge_errors(occurrences)
    authors = len({episode.author for _, episode in supporting})
    confidence = min(1 - 0.4 ** len(occurrences), 1.0 if authors > 1 else MAX_SINGLE_AUTHOR_CONFIDENCE)
    ids = [episode.key.id for _, episode in occurrences]
    document: dict[str, Any] = dict(known.body) if known is not None else {}
    document |= {
        "what_fails": merged.type, "why": merged.message, "prevention": merged.resolution,
        "source": supporting[0][1].key.id, "sources": ids, "confidence": round(confidence, 3), "voices": authors,
    }  # fmt: skip
    fixes = dict.fromkeys(error.resolution for error, _ in occurrences if error.resolution)
    if len(fixes) > 1:
        document["preventions"] = list(fixes)[:5]
    return knowledge_draft(
        ANTIPATTERN, document, scope=scope, id=id, links=_other_links(known), labels=(label, f"voices={authors}"),
        origin=ORIGIN, expected=0 if known is None else known.version,
    )  # fmt: skip


def draft_learning(
    key: Key, day: str, antipattern: str, occurrences: Sequence[ErrorOccurrence], known: Record | None, *, label: str
) -> Draft:
    """Draft the learning from the occurrences of one error on one day."""
    merged, _ = merge_errors(occurrences)
    body = {
        "date": day, "error": merged.type, "message": merged.message, "learning": merged.resolution,
        "episodes": [episode.key.id for _, episode in occurrences], "antipattern": antipattern,
    }  # fmt: skip
    return Draft(
        LEARNING, body=body, id=key.id, scope=key.scope, origin=ORIGIN, labels=(label, f"day={day}"),
        links=tuple(Link(DERIVED_FROM, episode.key) for _, episode in occurrences),
        expected=0 if known is None else known.version,
    )  # fmt: skip


def is_unchanged(draft: Draft, known: Record | None) -> bool:
    """Return whether a draft has the body and links of the known record, the counters of use aside."""
    if known is None:
        return False
    ignored = ("usage_count", "last_used")
    bodies: list[Mapping[str, Any]] = [draft.body, known.body]
    new, old = ({name: value for name, value in body.items() if name not in ignored} for body in bodies)
    return new == old and set(draft.links) == set(known.links)
