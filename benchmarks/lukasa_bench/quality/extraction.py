"""Fact extraction: how many of the stated facts are found, and how many of the found ones were stated.

A case is a sentence with the facts it states, each given by words that must stand in one extracted fact; facts under
`allowed` are stated too, but need not be found. Any other fact is wrong. There are two sets, written sentences and lines of
chats, each in two halves: the rules were written with the first, and none was changed for the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lukasa.context import Turn
from lukasa.context.facts import extract_facts
from lukasa_bench.quality import QualityRow, at_least, load_cases

HALVES = ("development", "unseen", "chat development", "chat unseen")


def measure(embedder: str | None) -> list[QualityRow]:  # noqa: ARG001 - every section is called alike; rules need no vectors
    """Measure recall and precision on each half of the set."""
    cases = load_cases("extraction")
    spoken_at = datetime.fromisoformat(cases["spoken_on"]).replace(hour=12, tzinfo=UTC)
    rows: list[QualityRow] = []
    for half in HALVES:
        expected = found = right = extracted = 0
        for case in cases[half]:
            texts = extract_case(case, spoken_at)
            expected += len(case["facts"])
            found += sum(any(states(text, words) for text in texts) for words in case["facts"])
            extracted += len(texts)
            stated = [*case["facts"], *case.get("allowed", ())]
            right += sum(any(states(text, words) for words in stated) for text in texts)
        size = f"{len(cases[half])} sentences"
        rows += [
            QualityRow("extraction", f"{half}: facts found", _percent(found, expected), "%", at_least(80), size),
            QualityRow(
                "extraction", f"{half}: facts that are right", _percent(right, extracted), "%", at_least(95), size
            ),
        ]
    return rows


def extract_case(case: Mapping[str, Any], spoken_at: datetime) -> list[str]:
    """Extract the facts of a case's sentence."""
    return [fact.text for fact in extract_facts(Turn(case.get("role", "user"), case["text"], spoken_at))]


def states(text: str, words: Sequence[str]) -> bool:
    """Check whether a fact has all the words."""
    return all(word in text.lower() for word in words)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 100.0
