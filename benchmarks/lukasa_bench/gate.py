"""Benchmark of the vault's write gate: the time of each check as the vault grows.

For each size a vault is filled with synthetic facts of 6 to 18 words through the gate; the rate of the last tenth is the bulk
rate. Then new facts and near-duplicates of stored ones are judged without being stored. The bars: a verdict among 100,000
memories takes at most twice as long as in the smallest vault, and bulk adds reach 2,000 per second there, durable, without
embedding. Comparing with every memory instead is measured too, on a few texts. Facts of one template, all of them alike, can take
the place of the random ones.

A check is measured in CPU time, or in elapsed time where a server does a part of the work, and the fastest of several rounds
counts. The rounds of the whole gate alternate with those of the bare reference (``reference_gate``), so that their ratio can be
compared with the ratio of another day or another version. Adds are measured in elapsed time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from lukasa.core.outcome import Accepted
from lukasa.memory import Memory, open_memory
from lukasa.pii.detector import find_pii
from lukasa.text.similarity import sequence_similarity, word_overlap
from lukasa.text.terms import distinct_words, normalise_text
from lukasa.vault import VaultSettings
from lukasa.vault.checks import ComparableText, DuplicateIndex, find_noise_signal
from lukasa.vault.settings import MEMORY_KIND, NOISE_SIGNALS
from lukasa_bench.corpus import draw_words
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.interleave import run_interleaved
from lukasa_bench.reference_gate import BareGate
from lukasa_bench.report import MachineInfo

Progress = Callable[[str, int, int], None]
SEED = 2026
CHUNK_SIZE = 1_000
JUDGED_COUNT = 400
COMPARED_COUNT = 5
ADDED_COUNT = 50
ROUNDS = 7
GROWTH_BAR, BULK_BAR, BAR_SIZE = 2.0, 2_000.0, 100_000
WHOLE_GATE, DURABLE_ADD = "the whole gate", "one durable add"


@dataclass(frozen=True, slots=True)
class GateSizeReport:
    """The figures of a vault of one size: seconds for each check, memories per second for bulk adds.

    ``reference`` is the seconds of a verdict of the bare reference, and ``ratio`` the time of the whole gate over it.
    """

    memories: int
    refused: int
    bulk_per_s: float
    checks: dict[str, float]
    comparing_with_all: float
    reference: float
    ratio: float


@dataclass(frozen=True, slots=True)
class GateReport:
    """The result of a run."""

    machine: MachineInfo
    engine: str
    seconds: float
    sizes: tuple[GateSizeReport, ...]

    @property
    def bar_report(self) -> GateSizeReport:
        """The vault that the bars apply to: the largest of up to 100,000 memories."""
        return next((size for size in reversed(self.sizes) if size.memories <= BAR_SIZE), self.sizes[0])

    def growth(self, check: str = WHOLE_GATE) -> float:
        """Return the time of a check in that vault over its time in the smallest."""
        return self.bar_report.checks[check] / self.sizes[0].checks[check]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON; times are in seconds."""
        growth, bulk = self.growth(), self.bar_report.bulk_per_s
        return asdict(self) | {
            "bars_at": self.bar_report.memories,
            "growth": growth,
            "growth_of_an_add": self.growth(DURABLE_ADD),
            "bars": {
                "growth": {"most": GROWTH_BAR, "met": growth <= GROWTH_BAR},
                "bulk_per_s": {"least": BULK_BAR, "met": bulk >= BULK_BAR},
            },
        }


class FactCorpus:
    """Generates facts, the same ones for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._rng = random.Random(f"{seed} facts")  # noqa: S311 - repeatable on purpose

    def take(self, count: int) -> list[str]:
        return [" ".join(draw_words(self._rng, self._rng.randint(6, 18))) for _ in range(count)]

    def vary(self, text: str) -> str:
        """Return a near-duplicate: one word is replaced."""
        parts = text.split()
        parts[self._rng.randrange(len(parts))] = "otherwise"
        return " ".join(parts)


class TemplateCorpus(FactCorpus):
    """Generates facts that differ in a few numbers only."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def take(self, count: int) -> list[str]:
        return [
            f"Server web-{n:05d} has address 10.{n // 62_500}.{n // 250 % 250}.{n % 250} and runs in rack {n % 40}"
            for n in islice(self._numbers, count)
        ]


def run(
    sizes: Sequence[int], *, server: str | None = None, progress: Progress | None = None, template: bool = False
) -> GateReport:
    """Measure the gate at each size, in one vault that grows, with random facts or facts of one template."""
    report_progress = progress or (lambda *_: None)
    began = perf_counter()
    rules = VaultSettings(capacity=1_000_000_000)
    with TemporaryDirectory(prefix="lukasa-bench-") as folder, ExitStack() as stack:
        machine = MachineInfo.measure(Path(folder))
        place = str(Path(folder) / "gate.db")
        if server:
            place = str(stack.enter_context(BenchmarkDatabases(server)).create_pair("gate").lukasa)
        memory = stack.enter_context(open_memory(place, profile=rules))
        facts = TemplateCorpus() if template else FactCorpus()
        clock = perf_counter if server else process_time
        found = tuple(_measure_size(memory, facts, size, clock, report_progress) for size in sorted(sizes))
    return GateReport(machine, "postgresql" if server else "sqlite", perf_counter() - began, found)


def _measure_size(
    memory: Memory, facts: FactCorpus, size: int, clock: Callable[[], float], progress: Progress
) -> GateSizeReport:
    rate, refused = _fill_vault(memory, facts, size, progress)
    stored = [record.text for record in memory.vault.list(limit=2_000)]
    rng = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    fresh = facts.take(JUDGED_COUNT)
    judged = [*fresh, *(facts.vary(text) for text in rng.choices(stored, k=JUDGED_COUNT // 4))]
    bare = BareGate(NOISE_SIGNALS)
    bare.fill(record.text for record in memory.vault.list())
    with memory.journal.snapshot() as reader:

        def find_similar(text: str) -> object:
            comparable = ComparableText(text, "shared")
            return DuplicateIndex(reader, memory.vault.rules, [comparable]).find_similar(comparable)

        noise, pii, duplicates = _time_each(
            [lambda text: find_noise_signal(text, NOISE_SIGNALS), find_pii, find_similar], judged, clock
        )
    whole, reference = _time_each([memory.vault.judge, bare.judge], judged, clock)
    checks = {
        "noise": noise,
        "personal data and secrets": pii,
        "near-duplicates": duplicates,
        WHOLE_GATE: whole,
        DURABLE_ADD: _time_adds(memory, facts),
    }
    (comparing_with_all,) = _time_each([_full_comparison(memory)], fresh[:COMPARED_COUNT], clock)
    return GateSizeReport(size, refused, rate, checks, comparing_with_all, reference, whole / reference)


def _fill_vault(memory: Memory, facts: FactCorpus, size: int, progress: Progress) -> tuple[float, int]:
    """Fill the vault to a size; return the rate of the last tenth and the number refused as near-duplicates."""
    held = sum(row.live for row in memory.journal.tally() if row.kind == MEMORY_KIND)
    refused, paces = 0, list[tuple[int, float]]()
    while held < size:
        texts = facts.take(min(CHUNK_SIZE, size - held))
        began = perf_counter()
        kept = sum(map(bool, memory.vault.bulk_add(texts)))
        paces.append((len(texts), perf_counter() - began))
        refused += len(texts) - kept
        held += kept
        progress(f"filling to {size:,}", held, size)
    last = paces[-max(1, len(paces) // 10) :]
    return sum(count for count, _ in last) / sum(took for _, took in last), refused


def _time_each(
    actions: Sequence[Callable[[str], object]], texts: Sequence[str], clock: Callable[[], float]
) -> list[float]:
    """Return the mean seconds per text of each action, in the fastest of several rounds that alternate."""

    def time_round(action: Callable[[str], object], texts: Sequence[str]) -> float:
        began = clock()
        for text in texts:
            action(text)
        return (clock() - began) / len(texts)

    return [min(rounds) for rounds in run_interleaved(ROUNDS, actions, lambda: texts, time_round)]


def _time_adds(memory: Memory, facts: FactCorpus) -> float:
    """Return the mean seconds of a durable add through the gate; the added memories are deleted again."""
    texts = facts.take(ADDED_COUNT)
    began = perf_counter()
    outcomes = [memory.vault.add_memory(text) for text in texts]
    took = (perf_counter() - began) / len(texts)
    memory.vault.bulk_delete([outcome.record.id for outcome in outcomes if isinstance(outcome, Accepted)])
    return took


def _full_comparison(memory: Memory) -> Callable[[str], object]:
    """Return a function that compares a text with every memory; all of them are in this process."""
    ready = [(plain, distinct_words(plain)) for record in memory.vault.list() if (plain := normalise_text(record.text))]

    def compare(text: str) -> int:
        plain = normalise_text(text)
        known = distinct_words(plain)
        return sum(
            sequence_similarity(plain, other, floor=0.7) >= 0.7 or word_overlap(known, theirs) >= 0.6
            for other, theirs in ready
        )

    return compare
