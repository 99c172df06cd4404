"""Quality of consolidation: what patterns solved tasks give that are described in different words.

Each theme of ``data/consolidation.json`` is one problem with its solution in six episodes: two nearly alike, two reworded,
two in other words. The rest are unrelated episodes, some of which share words with a theme. Texts are judged by the set:
words that name the condition and the fix of the theme, and the words of the episodes themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lukasa.core.outcome import Accepted
from lukasa.memory import open_memory
from lukasa_bench.quality import QualityRow, at_least, at_most, load_cases

SECTION = "consolidation"
_START = datetime(2026, 3, 2, 8, tzinfo=UTC)
_AGENTS = ("eng-001", "eng-002", "ops-001", "desk-001")
_WORD = re.compile(r"\w+")


def list_episodes(cases: Mapping[str, Any]) -> list[tuple[int | None, dict[str, Any]]]:
    """Return the episodes as documents, each with the number of its theme; those of a theme are far apart."""
    described = [
        (number, theme["episodes"][turn])
        for turn in range(max(len(theme["episodes"]) for theme in cases["themes"]))
        for number, theme in enumerate(cases["themes"])
        if turn < len(theme["episodes"])
    ]
    step = max(1, len(described) // max(1, len(cases["one_offs"])))
    rest = list(cases["one_offs"])
    mixed: list[tuple[int | None, dict[str, Any]]] = []
    for index, pair in enumerate(described):
        mixed.append(pair)
        if index % step == 0 and rest:
            mixed.append((None, rest.pop()))
    mixed += [(None, episode) for episode in rest]
    return [(number, _document(index, episode)) for index, (number, episode) in enumerate(mixed)]


def _document(index: int, episode: Mapping[str, Any]) -> dict[str, Any]:
    error = {name: episode[name] for name in ("type", "message", "resolution")}
    return {
        "task_id": f"task-{index:03d}",
        "timestamp": (_START + timedelta(hours=3 * index)).isoformat(),
        "agent": _AGENTS[index // 7 % len(_AGENTS)],
        "context": {"goal": episode["goal"]},
        "action_log": [{"t": 60 * number, "action": action} for number, action in enumerate(episode["steps"])],
        "outcome": "success",
        "errors_encountered": [error],
    }


def is_true_text(text: str, sources: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether one of the sources has all the words of a text in its goal, error and resolution."""
    words = Counter(_WORD.findall(text.lower()))
    words.subtract(("on",))
    for source in sources:
        (error,) = source["errors_encountered"]
        described = " ".join((*error.values(), *(other["context"]["goal"] for other in sources)))
        if all(count <= 0 or word in _WORD.findall(described.lower()) for word, count in words.items()):
            return True
    return False


def measure(embedder: str | None) -> list[QualityRow]:
    """Consolidate the set in a new store and judge the patterns."""
    cases = load_cases("consolidation")
    episodes = list_episodes(cases)
    with open_memory("memory:", embedder=embedder) as memory:
        outcome = memory.episodes.add([document for _, document in episodes])
        assert isinstance(outcome, Accepted), outcome
        ids = [record.id for record in outcome.records]
        patterns = memory.consolidate().of("pattern")
    themes = dict(zip(ids, (number for number, _ in episodes), strict=True))
    documents = dict(zip(ids, (document for _, document in episodes), strict=True))
    found: set[str] = set()
    pure = named = false = 0
    for pattern in patterns:
        text = str(pattern.draft.body["pattern"]).lower()
        numbers = {themes[id] for id in pattern.sources}
        number = min(numbers, key=lambda number: -1 if number is None else number)
        if len(numbers) == 1 and number is not None:
            pure += 1
            found.update(pattern.sources)
            theme = cases["themes"][number]
            named += all(any(word in text for word in theme[part]) for part in ("condition", "fix"))
        false += not is_true_text(text, [documents[id] for id in pattern.sources])
    described = sum(number is not None for number in themes.values())
    count = max(1, len(patterns))
    return [
        QualityRow(SECTION, "episodes of a theme in its pattern", 100 * len(found) / described, "%", at_least(60), f"{len(found)} of {described}"),
        QualityRow(SECTION, "patterns of one theme", 100 * pure / count, "%", at_least(95), f"{pure} of {len(patterns)}"),
        QualityRow(SECTION, "texts with condition and fix", 100 * named / count, "%", at_least(95), f"{named} of {len(patterns)}"),
        QualityRow(SECTION, "false texts", float(false), "count", at_most(0), "error and fix of different episodes"),
    ]  # fmt: skip
