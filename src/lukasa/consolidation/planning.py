"""What a run would write: pure decisions from clusters and errors to drafts of knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lukasa.consolidation.extracting import ALONE, THRESHOLD, Extract, resolved, told_steps
from lukasa.consolidation.traits import LEAST_GOAL, Traits, Trouble, goal_likeness, terms_of
from lukasa.knowledge import Knowing, antipattern_draft, pattern_draft
from lukasa.knowledge.items import MOST_SOURCES
from lukasa.likeness import folded, overlap, words
from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.skills import SkillText, render
from lukasa.skills.room import skill_draft, slug

LEARNING = "learning"
ORIGIN = "consolidation"
SAME = 0.7
OPPOSED = 0.7
_SKILL_CONFIDENCE, _SKILL_SUCCESSES = 0.9, 3


def pattern_from(
    extract: Extract, members: Sequence[Traits], known: Record | None, *, id: str, scope: str, label: str
) -> Draft | Refused:
    """The draft of a pattern: new, or the next version of a known one with the new evidence.

    A pattern that consolidation made is told anew from its members. One that somebody wrote keeps its words, and its
    confidence rises from what they gave it: ``1 - (1 - given)(1 - found / 2)``.
    """
    sources = [one.key.id for one in members]
    figures = {
        "successes": extract.successes, "failures": extract.failures, "agreement": extract.agreement,
        "found": extract.confidence,
    }  # fmt: skip
    told: dict[str, Any] = {
        "pattern": extract.pattern, "category": extract.category, "conditions": list(extract.conditions),
        "correct_approach": extract.correct_approach, "incorrect_approach": extract.incorrect_approach,
        "confidence": extract.confidence, "source_episodes": sources, "usage_count": 0, "voices": extract.voices,
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
            sure = round(1 - (1 - given) * (1 - extract.confidence / 2), 3)
            cited = list(dict.fromkeys((*body.get("source_episodes", []), *sources)))[-MOST_SOURCES:]
            told = body | {
                "source_episodes": cited, "confidence": sure, "usage_count": used, "voices": extract.voices,
                "evidence": figures | {"given": given},
            }  # fmt: skip
    return pattern_draft(
        told, scope=scope, id=id, links=links, labels=(label, f"voices={extract.voices}"),
        origin=ORIGIN if known is None else known.origin, author="" if known is None else known.author,
        expected=0 if known is None else known.version,
    )  # fmt: skip


def says_the_same(extract: Extract, other: Knowing) -> bool:
    """Whether a known pattern is about the same goal and does not say the contrary."""
    text = folded(f"{extract.pattern} {' '.join(extract.conditions)} {extract.correct_approach}")
    known = folded(other.record.text)
    alike = overlap(words(text), words(known)) >= SAME
    goal = goal_likeness(terms_of(extract.goal), terms_of(other.says)) >= SAME
    agrees = (
        not other.approach or overlap(words(folded(extract.correct_approach)), words(folded(other.approach))) >= 0.5
    )
    return (alike or (goal and agrees)) and not opposed(
        extract.correct_approach, extract.incorrect_approach, other.approach, _incorrect(other)
    )


def opposed(correct: str, incorrect: str, other_correct: str, other_incorrect: str) -> bool:
    """Whether what one calls right the other calls wrong."""
    return _alike(correct, other_incorrect) or _alike(incorrect, other_correct)


def contradict(a: Draft, b: Record | Draft) -> bool:
    """Whether two patterns speak of the same thing and oppose each other."""
    if not opposed(*(str(body.get(name, "")) for body in (a.body, b.body) for name in _APPROACHES)):
        return False
    return goal_likeness(*(terms_of(about(body)) for body in (a.body, b.body))) >= LEAST_GOAL


def about(body: Mapping[str, Any]) -> str:
    """The goal that a pattern speaks of, without what it says about it."""
    return str(body.get("pattern", "")).partition(":")[0]


_APPROACHES = ("correct_approach", "incorrect_approach")


def _incorrect(other: Knowing) -> str:
    return str(other.record.body.get("incorrect_approach", ""))


def _alike(a: str, b: str) -> bool:
    return bool(a and b) and overlap(_bag(a), _bag(b)) >= OPPOSED


@lru_cache(maxsize=1 << 12)
def _bag(text: str) -> frozenset[str]:
    return words(folded(text))


@dataclass(slots=True)
class Mistake:
    """One error wherever it was met: its sources, oldest first."""

    id: str
    met: dict[Key, tuple[Trouble, Traits]]
    known: Record | None = None

    def sources(self) -> list[tuple[Trouble, Traits]]:
        ordered = sorted(self.met.values(), key=lambda pair: (pair[1].moment, pair[1].key.id))
        return ordered[-MOST_SOURCES:]

    def believed(self) -> list[tuple[Trouble, Traits]]:
        """The sources that may speak: suspicious ones only where two authors say the same."""
        sources = self.sources()
        clean = [pair for pair in sources if not pair[1].suspicious]
        voices: dict[str, set[str]] = {}
        for trouble, one in sources:
            voices.setdefault(trouble.resolution, set()).add(one.voice)
        return clean or [pair for pair in sources if len(voices[pair[0].resolution]) > 1]


def antipattern_from(mistake: Mistake, *, scope: str, label: str) -> Draft | Refused:
    """What fails, why, and how it was prevented: from one error or from many of the same."""
    sources = mistake.believed()
    trouble = resolved([(trouble, one.voice) for trouble, one in sources])
    voices = len({one.voice for met, one in sources if met.resolution == trouble.resolution})
    fixes = dict.fromkeys(met.resolution for met, _ in sources if met.resolution)
    ids = [one.key.id for _, one in sources]
    sure = round(min(1 - 0.4 ** len(sources), 1.0 if voices > 1 else ALONE), 3)
    told: dict[str, Any] = {
        "what_fails": trouble.type, "why": trouble.message, "prevention": trouble.resolution, "source": ids[0],
        "sources": ids, "confidence": sure, "voices": voices,
    }  # fmt: skip
    if len(fixes) > 1:
        told["preventions"] = list(fixes)[:5]
    known = mistake.known
    links: tuple[Link, ...] = ()
    if known is not None:
        links = tuple(link for link in known.links if link.relation != DERIVED_FROM)
        told = dict(known.body) | told
    return antipattern_draft(
        told, scope=scope, id=mistake.id, links=links, labels=(label, f"voices={voices}"), origin=ORIGIN,
        expected=0 if known is None else known.version,
    )  # fmt: skip


def learning_from(mistake: Mistake, day: str, known: Record | None, *, scope: str, label: str) -> Draft | None:
    """What the errors of one day teach."""
    sources = [(trouble, one) for trouble, one in mistake.believed() if one.day == day]
    if not sources:
        return None
    trouble = resolved([(trouble, one.voice) for trouble, one in sources])
    body = {
        "date": day, "error": trouble.type, "message": trouble.message, "learning": trouble.resolution,
        "episodes": [one.key.id for _, one in sources], "antipattern": mistake.id,
    }  # fmt: skip
    return Draft(
        LEARNING, body=body, id=f"{day}-{mistake.id.removeprefix('anti-')}", scope=scope, origin=ORIGIN,
        labels=(label, f"day={day}"), links=tuple(Link(DERIVED_FROM, one.key) for _, one in sources),
        expected=0 if known is None else known.version,
    )  # fmt: skip


def skill_from(pattern: Draft, extract: Extract, *, label: str) -> Draft | None:
    """A skill from a pattern that independent authors bear out; nothing less sure becomes one."""
    sure = float(pattern.body["confidence"]) >= _SKILL_CONFIDENCE and extract.successes >= _SKILL_SUCCESSES
    if not sure or extract.voices < 2 or not extract.steps or extract.held:
        return None
    title = extract.goal.replace("…", "{…}")
    text = SkillText(
        title,
        extract.conditions,
        tuple(told_steps((step,)) for step in extract.steps),
        tuple(
            (trouble.message or trouble.type, trouble.resolution) for trouble in extract.troubles if trouble.resolution
        ),
        (f"As in {extract.successes} of {extract.successes + extract.failures} episodes, the task ends in success",),
    )
    markdown = render(text)
    key = Key(pattern.scope, pattern.kind, pattern.id)
    return skill_draft(
        text, markdown, id=slug(title), scope=pattern.scope, origin=ORIGIN, labels=(label,),
        links=(Link(DERIVED_FROM, key),), expected=0,
    )  # fmt: skip


def kept(extract: Extract) -> bool:
    """Whether a pattern is sure enough to be written down."""
    return not extract.held and extract.confidence >= THRESHOLD


def unchanged(draft: Draft, known: Record | None) -> bool:
    """Whether writing the draft would say nothing new: the counters of use aside, body and sources are the same."""
    if known is None:
        return False
    ignored = ("usage_count", "last_used")
    bodies: list[Mapping[str, Any]] = [draft.body, known.body]
    old, new = ({name: value for name, value in body.items() if name not in ignored} for body in bodies)
    return old == new and set(draft.links) == set(known.links)
