"""Which new texts the vault refuses as duplicates, and which rewordings it proposes for merging.

The set has three sorts of pairs in two languages: *different* facts that look alike, texts that are *repeated* verbatim or
trivially reworded, and *paraphrased* facts. A part of each sort is held out: the rules were written without looking at it.
The first text of a pair is stored, then the second is judged by the write gate. Different and paraphrased facts are all
kept in one vault, so that proposals must single out the true pairs.
"""

from __future__ import annotations

import lukasa
from lukasa.core.outcome import Accepted
from lukasa.vault import VaultSettings
from lukasa_bench.quality import QualityRow, at_least, at_most, load_cases
from lukasa_bench.report import BenchmarkBar

Pair = dict[str, str]
SECTION = "duplicates"
HALVES = ("development", "held out")


def measure(embedder: str | None) -> list[QualityRow]:
    """Measure the three sorts of pairs, each part by itself, and the document's rule for comparison."""
    cases: dict[str, list[Pair]] = load_cases("duplicates")
    rows = []
    for half in HALVES:
        pairs = {sort: [pair for pair in found if pair["half"] == half] for sort, found in cases.items()}
        different, repeated = pairs["different"], pairs["repeated"]
        proposed, among = _count_proposed(pairs["paraphrased"], different, embedder)
        rows += [
            _row(f"different facts refused, {half}", _refused(different), len(different), at_most(2)),
            _row(f"repeated facts refused, {half}", _refused(repeated), len(repeated), at_least(95)),
            _row(f"paraphrases proposed, {half}", proposed, len(pairs["paraphrased"]), at_least(60)),
            QualityRow(
                SECTION, f"other pairs proposed, {half}", among, "count", None, "different facts, by meaning alone"
            ),
        ]
    document = _refused(cases["different"], VaultSettings(duplicates="document"))
    rows.append(_row("different facts refused, the document's rule", document, len(cases["different"]), None))
    return rows


def _row(case: str, count: int, total: int, bar: BenchmarkBar | None) -> QualityRow:
    return QualityRow(SECTION, case, 100 * count / max(total, 1), "%", bar, f"{count} of {total}")


def list_refused(pairs: list[Pair], settings: VaultSettings | None = None) -> list[Pair]:
    """Return the pairs whose second text is refused as a duplicate after the first was stored."""
    found = []
    for pair in pairs:
        with lukasa.open("memory:", profile=settings, embedder="hash") as memory:
            memory.vault.add_memory(pair["known"])
            answer = memory.vault.judge(pair["new"])
            if answer is not None and answer.code == "duplicate":
                found.append(pair)
    return found


def _refused(pairs: list[Pair], settings: VaultSettings | None = None) -> int:
    return len(list_refused(pairs, settings))


def _count_proposed(paraphrased: list[Pair], different: list[Pair], embedder: str | None) -> tuple[int, int]:
    """Count the paraphrases that are proposed for merging, and the other pairs that are proposed by meaning alone."""
    proposed, among = list_proposed(paraphrased, different, embedder)
    return len(proposed), among


def list_proposed(
    paraphrased: list[Pair], different: list[Pair], embedder: str | None, floor: float = 0.45
) -> tuple[list[Pair], int]:
    """Return the paraphrases that are proposed for merging, and how many other pairs are, by meaning alone."""
    settings = VaultSettings(signals=(), overlap_threshold=1.0, similarity_threshold=1.0)
    with lukasa.open("memory:", profile=settings, embedder=embedder) as memory:
        vault = memory.vault
        texts = [text for pair in (*paraphrased, *different) for text in (pair["known"], pair["new"])]
        kept = [outcome for outcome in vault.bulk_add(texts) if isinstance(outcome, Accepted)]
        assert kept
        pairs = vault.find_consolidation_candidates(floor=floor)
        found = {frozenset((pair.one.text, pair.other.text)): pair for pair in pairs}
        wanted = [frozenset((pair["known"], pair["new"])) for pair in paraphrased]
        proposed = [pair for pair, key in zip(paraphrased, wanted, strict=True) if key in found]
        others = [pair for key, pair in found.items() if key not in wanted and max(pair.overlap, pair.sequence) < floor]
        return proposed, len(others)
