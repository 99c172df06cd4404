"""Seeded histories to consolidate: episodes that follow planted patterns, and unrelated ones.

A planted pattern is a kind of task with its own words, sequence of actions and, for some, an error with its resolution. Each
example is about another object, is done by one of several agents, and differs a little. Unrelated episodes use the same
verbs, actions and vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
AGENTS = ("eng-001", "eng-002", "qa-001", "ops-001")
_VERBS = (
    "Implement",
    "Add",
    "Fix",
    "Update",
    "Refactor",
    "Migrate",
    "Write",
    "Review",
    "Improve",
    "Configure",
    "Remove",
)
_ACTIONS = (
    "read_file", "write_file", "edit_file", "run_test", "run_lint", "search_code", "open_issue", "build_image",
    "deploy_staging", "query_database", "apply_migration", "call_api", "read_logs", "profile_code", "write_docs",
    "commit_changes", "request_review", "roll_back",
)  # fmt: skip
_CONSONANTS, _VOWELS = "bcdfghklmnprstvz", "aeiou"


@dataclass(frozen=True, slots=True)
class PlantedPattern:
    """A kind of task that recurs."""

    number: int
    words: tuple[str, ...]
    verb: str
    actions: tuple[str, ...]
    error: dict[str, str] | None
    suffix: str


@dataclass(slots=True)
class EpisodeCorpus:
    """Generates episodes, the same ones for the same seed. A ``planted_share`` of them follows planted patterns."""

    seed: int
    pattern_count: int = 20
    planted_share: float = 0.7
    planted_patterns: list[PlantedPattern] = field(init=False)
    _rng: random.Random = field(init=False)
    _vocabulary: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(f"history {self.seed}")  # noqa: S311 - seeded on purpose
        self._vocabulary = list(_made_up_words(self._rng, 600 + 4 * self.pattern_count))
        self.planted_patterns = [self._plant_pattern(number) for number in range(self.pattern_count)]

    def _plant_pattern(self, number: int) -> PlantedPattern:
        rng = self._rng
        words = tuple(rng.sample(self._vocabulary, 3))
        actions = tuple(rng.choices(_ACTIONS, k=rng.randint(4, 8)))
        error = None
        if rng.random() < 0.5:
            wrong, cause, cure = (rng.choice(self._vocabulary) for _ in range(3))
            error = {
                "type": f"{wrong.title()}Error",
                "message": f"{cause} was not {words[0]} before {words[1]} ({number})",
                "resolution": f"{cure} the {words[1]} first, then {cause} it",
            }
        return PlantedPattern(
            number, words, rng.choice(_VERBS), actions, error, rng.choice((".ts", ".py", ".go", ".rs"))
        )

    def make_example(
        self, planted: PlantedPattern, index: int, *, outcome: str = "success", agent: str | None = None
    ) -> dict[str, Any]:
        """Build an episode of a planted pattern."""
        rng = self._rng
        thing = rng.choice(self._vocabulary)
        first, second, third = planted.words
        goal = f"{planted.verb} {first} {second} for the {thing} {third}"
        actions = list(planted.actions)
        if len(actions) > 4 and rng.random() < 0.2:
            del actions[rng.randrange(len(actions))]
        if rng.random() < 0.2:
            actions.insert(rng.randrange(len(actions) + 1), rng.choice(_ACTIONS))
        errors = [planted.error] if planted.error is not None and rng.random() < 0.8 else []
        return self._make_episode(index, goal, actions, errors, outcome, agent, f"src/{thing}{planted.suffix}")

    def make_unrelated(self, index: int) -> dict[str, Any]:
        """Build an episode that is unrelated to all others."""
        rng = self._rng
        words = rng.sample(self._vocabulary, rng.randint(3, 5))
        goal = f"{rng.choice(_VERBS)} {' '.join(words)}"
        actions = rng.choices(_ACTIONS, k=rng.randint(3, 9))
        outcome = rng.choice(("success", "success", "failure"))
        return self._make_episode(index, goal, actions, [], outcome, None, f"src/{words[0]}.txt")

    def _make_episode(
        self, index: int, goal: str, actions: Sequence[str], errors: list[dict[str, str]], outcome: str, agent: str | None,
        file: str,
    ) -> dict[str, Any]:  # fmt: skip
        rng = self._rng
        return {
            "task_id": f"task-{index:06d}",
            "timestamp": (START + timedelta(minutes=7 * index)).isoformat().replace("+00:00", "Z"),
            "duration_seconds": rng.randint(30, 900),
            "agent": agent or rng.choice(AGENTS),
            "context": {"phase": "development", "goal": goal, "constraints": [], "files_involved": [file]},
            "action_log": [{"t": 10 * step, "action": action} for step, action in enumerate(actions)],
            "outcome": outcome,
            "errors_encountered": errors,
            "artifacts_produced": [file],
            "git_commit": f"{rng.getrandbits(28):07x}",
        }

    def episodes(self, count: int) -> Iterator[tuple[int | None, dict[str, Any]]]:
        """Yield episodes, each with the number of the pattern it follows, or ``None``."""
        for index in range(count):
            if self._rng.random() < self.planted_share:
                planted = self._rng.choice(self.planted_patterns)
                yield planted.number, self.make_example(planted, index)
            else:
                yield None, self.make_unrelated(index)


def _made_up_words(rng: random.Random, count: int) -> Iterator[str]:
    """Yield distinct invented words."""
    seen: set[str] = set()
    while len(seen) < count:
        parts = (rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(2, 4)))
        word = "".join(parts) + rng.choice(_CONSONANTS)
        if word not in seen:
            seen.add(word)
            yield word
