"""Updates: of statements that change one another, recall must return the newest first and mark the others.

All statements of ``data/updates.json`` are written into one store, the first statements of all cases first, a day apart; once
as memories of the vault, once as turns of a conversation. Then every question of the set is asked. A change counts when the
newest statement comes before the earlier ones of its case, and when each earlier one is marked as superseded. A mark between
statements that do not change one another, of whatever case, is a false one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations

import lukasa
from lukasa.memory import Memory
from lukasa.testing import FrozenClock
from lukasa.vault import VaultSettings
from lukasa_bench.quality import QualityRow, at_least, at_most, load_cases

_TOP_K = 10
_BEGINNING = datetime(2026, 1, 5, 9, tzinfo=UTC)


@dataclass(slots=True)
class UpdateCounts:
    """What was counted in one store."""

    questions: int = 0
    newest_first: int = 0
    earlier: int = 0
    marked: int = 0
    false_pairs: set[tuple[str, str]] = field(default_factory=set)


def measure(embedder: str | None) -> list[QualityRow]:
    """Measure order and marks for memories of the vault and for turns of a conversation."""
    cases = load_cases("updates")
    rows: list[QualityRow] = []
    for kind in ("memory", "turn"):
        with _open_store(embedder) as (memory, clock):
            _write_statements(memory, clock, kind, [case["said"] for case in cases["changes"] + cases["distinct"]])
            counts = _ask(memory, cases)
        pairs = len(cases["distinct"])
        name = "vault" if kind == "memory" else "conversation"
        rows += [
            QualityRow(
                "updates", f"{name}: newest first", 100 * counts.newest_first / counts.questions, "%", at_least(95),
                f"{counts.newest_first} of {counts.questions} changes: the newest statement comes before the earlier ones",
            ),
            QualityRow(
                "updates", f"{name}: marked as superseded", 100 * counts.marked / counts.earlier, "%", None,
                f"{counts.marked} of {counts.earlier} earlier statements among the first {_TOP_K} hits",
            ),
            QualityRow(
                "updates", f"{name}: false supersessions", 100 * len(counts.false_pairs) / pairs, "%", at_most(2),
                f"{len(counts.false_pairs)} marks between statements that change nothing, per {pairs} distinct pairs",
            ),
        ]  # fmt: skip
    return rows


@contextmanager
def _open_store(embedder: str | None) -> Iterator[tuple[Memory, FrozenClock]]:
    clock = FrozenClock(_BEGINNING)
    settings = VaultSettings(capacity=10_000, overlap_threshold=1.0, similarity_threshold=1.0)
    with lukasa.open("memory:", embedder=embedder, clock=clock, profile=settings) as memory:
        yield memory, clock


def _write_statements(memory: Memory, clock: FrozenClock, kind: str, cases: list[list[str]]) -> None:
    for position in range(max(map(len, cases))):
        for said in cases:
            if position < len(said):
                if kind == "memory":
                    outcome = memory.vault.add_memory(said[position])
                else:
                    outcome = memory.context.append("s1", "user", said[position])
                assert outcome, outcome
                clock.advance(420)
        clock.advance(86_400)


def _ask(memory: Memory, cases: dict[str, list[dict[str, object]]]) -> UpdateCounts:
    counts = UpdateCounts()
    true_pairs = {pair for case in cases["changes"] for pair in combinations(_said(case), 2)}
    for case in cases["changes"] + cases["distinct"]:
        result = memory.recall(str(case["ask"]), _TOP_K, kinds=("memory", "turn"))
        text_by_key = {hit.record.key: hit.text for hit in (*result.hits, *result.dropped)}
        for hit in result.hits:
            if hit.superseded_by is not None:
                pair = (hit.text, text_by_key[hit.superseded_by.record.key])
                if pair not in true_pairs:
                    counts.false_pairs.add(pair)
        if case not in cases["changes"]:
            continue
        said = _said(case)
        found = [hit for hit in result.hits if hit.text in said]
        counts.questions += 1
        counts.newest_first += bool(found) and found[0].text == said[-1]
        earlier = [hit for hit in found if hit.text != said[-1]]
        counts.earlier += len(earlier)
        counts.marked += sum(hit.superseded_by is not None for hit in earlier)
    return counts


def _said(case: dict[str, object]) -> list[str]:
    said = case["said"]
    assert isinstance(said, list)
    return said
