"""The benchmark of the vault's write gate: what a verdict costs as the vault grows, check by check.

For each size a vault is filled with made-up facts of 6 to 18 words through the gate itself; how fast that went over the
last of them is the bulk rate. Then fresh facts and near-duplicates of kept ones are judged without being kept. The
bars: a verdict among 100,000 memories costs at most twice what it costs in the smallest vault, and bulk adds reach 2,000
a second there, durable, without embedding. Comparing with every memory instead is measured beside it, on a few texts.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from lukasa.benchmarks.databases import Databases
from lukasa.benchmarks.notes import draw_words
from lukasa.benchmarks.report import Machine
from lukasa.gate.guard import scan
from lukasa.likeness import folded, overlap, sequence, words
from lukasa.memory import Memory, open_memory
from lukasa.outcome import Accepted
from lukasa.vault import Rules
from lukasa.vault.duplicates import Company, Seen
from lukasa.vault.noise import signal_in
from lukasa.vault.rules import KIND, SIGNALS

Progress = Callable[[str, int, int], None]
SEED = 2026
CHUNK = 1_000
JUDGED = 400
COMPARED = 5
ADDED = 50
GROWTH_BAR, BULK_BAR, BARS_AT = 2.0, 2_000.0, 100_000
WHOLE, ADD = "the whole gate", "one durable add"


@dataclass(frozen=True, slots=True)
class Size:
    """What was measured in a vault of one size; seconds for each check, memories a second for bulk adds."""

    memories: int
    refused: int
    bulk_per_s: float
    checks: dict[str, float]
    comparing_with_all: float


@dataclass(frozen=True, slots=True)
class GateReport:
    """A whole run."""

    machine: Machine
    engine: str
    seconds: float
    sizes: tuple[Size, ...]

    @property
    def held_to(self) -> Size:
        """The vault that the bars speak of: the largest of up to 100,000 memories."""
        return next((size for size in reversed(self.sizes) if size.memories <= BARS_AT), self.sizes[0])

    def growth(self, check: str = WHOLE) -> float:
        """How many times as much a check costs in that vault as in the smallest."""
        return self.held_to.checks[check] / self.sizes[0].checks[check]

    def as_json(self) -> dict[str, Any]:
        """The report as plain JSON; times are in seconds."""
        growth, bulk = self.growth(), self.held_to.bulk_per_s
        return asdict(self) | {
            "bars_at": self.held_to.memories,
            "growth": growth,
            "growth_of_an_add": self.growth(ADD),
            "bars": {
                "growth": {"most": GROWTH_BAR, "met": growth <= GROWTH_BAR},
                "bulk_per_s": {"least": BULK_BAR, "met": bulk >= BULK_BAR},
            },
        }


class Facts:
    """An endless supply of facts, the same for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._chance = random.Random(f"{seed} facts")  # noqa: S311 - repeatable on purpose

    def take(self, count: int) -> list[str]:
        return [" ".join(draw_words(self._chance, self._chance.randint(6, 18))) for _ in range(count)]

    def varied(self, text: str) -> str:
        """Nearly the same: one word is another."""
        parts = text.split()
        parts[self._chance.randrange(len(parts))] = "otherwise"
        return " ".join(parts)


def run(sizes: Sequence[int], *, server: str | None = None, progress: Progress | None = None) -> GateReport:
    """Measures the gate at each size, in one vault that grows."""
    tell = progress or (lambda *_: None)
    began = perf_counter()
    rules = Rules(capacity=1_000_000_000)
    with TemporaryDirectory(prefix="lukasa-bench-") as folder, ExitStack() as stack:
        machine = Machine.here(Path(folder))
        place = str(Path(folder) / "gate.db")
        if server:
            place = str(stack.enter_context(Databases(server)).new("gate").lukasa)
        memory = stack.enter_context(open_memory(place, profile=rules))
        facts = Facts()
        found = tuple(_measure(memory, facts, size, tell) for size in sorted(sizes))
    return GateReport(machine, "postgresql" if server else "sqlite", perf_counter() - began, found)


def _measure(memory: Memory, facts: Facts, size: int, tell: Progress) -> Size:
    rate, refused = _fill(memory, facts, size, tell)
    kept = [record.text for record in memory.vault.list(limit=2_000)]
    chance = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    fresh = facts.take(JUDGED)
    judged = [*fresh, *(facts.varied(text) for text in chance.choices(kept, k=JUDGED // 4))]
    checks = {
        "noise": _each(lambda text: signal_in(text, SIGNALS), judged),
        "personal data and secrets": _each(scan, judged),
        "near-duplicates": _near(memory, judged),
        WHOLE: _each(memory.vault.judge, judged),
        ADD: _adding(memory, facts),
    }
    return Size(size, refused, rate, checks, _comparing(memory, fresh[:COMPARED]))


def _fill(memory: Memory, facts: Facts, size: int, tell: Progress) -> tuple[float, int]:
    """Brings the vault to a size; how fast the last tenth went, and how many were refused as near-duplicates."""
    held = sum(row.live for row in memory.journal.tally() if row.kind == KIND)
    refused, paces = 0, list[tuple[int, float]]()
    while held < size:
        texts = facts.take(min(CHUNK, size - held))
        began = perf_counter()
        kept = sum(map(bool, memory.vault.bulk_add(texts)))
        paces.append((len(texts), perf_counter() - began))
        refused += len(texts) - kept
        held += kept
        tell(f"filling to {size:,}", held, size)
    last = paces[-max(1, len(paces) // 10) :]
    return sum(count for count, _ in last) / sum(took for _, took in last), refused


def _each(deed: Callable[[str], Any], texts: Sequence[str]) -> float:
    """The median of three rounds of what one text costs on average."""
    rounds = []
    for _ in range(3):
        began = perf_counter()
        for text in texts:
            deed(text)
        rounds.append((perf_counter() - began) / len(texts))
    return statistics.median(rounds)


def _near(memory: Memory, texts: Sequence[str]) -> float:
    rules = memory.vault.rules

    def look(text: str) -> object:
        seen = Seen(text, "shared")
        return Company(reader, rules, [seen]).nearest(seen)

    with memory.journal.looking() as reader:
        return _each(look, texts)


def _adding(memory: Memory, facts: Facts) -> float:
    """What it costs to add one memory through the gate, durably; they are forgotten again."""
    texts = facts.take(ADDED)
    began = perf_counter()
    outcomes = [memory.vault.add_memory(text) for text in texts]
    took = (perf_counter() - began) / len(texts)
    memory.vault.bulk_delete([outcome.record.id for outcome in outcomes if isinstance(outcome, Accepted)])
    return took


def _comparing(memory: Memory, texts: Sequence[str]) -> float:
    """What it would cost to compare with every memory, if all stood ready in this process."""
    ready = [(plain, words(plain)) for record in memory.vault.list() if (plain := folded(record.text))]

    def compare(text: str) -> int:
        plain = folded(text)
        known = words(plain)
        return sum(sequence(plain, other, floor=0.7) >= 0.7 or overlap(known, theirs) >= 0.6 for other, theirs in ready)

    return _each(compare, texts)
