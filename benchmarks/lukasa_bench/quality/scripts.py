"""Words and questions in many scripts: is the memory that holds them found first?

Each script has five memories in a store that holds those of all scripts. A word occurs in exactly one memory, sometimes
with a particle, without its vowel points or in another letter case. A question is a sentence about one memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import lukasa
from lukasa_bench.quality import QualityRow, at_least, load_cases


def measure(embedder: str | None) -> list[QualityRow]:
    """Return how many words and questions find their memory first, per script and in all."""
    cases = load_cases("scripts")
    rows: list[QualityRow] = []
    total = {"words": [0, 0], "questions": [0, 0]}
    with lukasa.open("memory:", embedder=embedder) as memory:
        for case in cases:
            for number, text in enumerate(case["memories"]):
                memory.journal.write("note", text, id=f"{case['script']}-{number}")
        for case in cases:
            for part, counted in total.items():
                found = _count_first(memory, case["script"], case[part])
                counted[0] += found
                counted[1] += len(case[part])
                share = 100 * found / len(case[part])
                rows.append(QualityRow("scripts", f"{case['script']}: {part} found first", share, "%"))
    for part, (found, asked) in total.items():
        note = f"{found} of {asked} {part} in {len(cases)} scripts"
        rows.append(QualityRow("scripts", f"{part} found first", 100 * found / asked, "%", at_least(95), note))
    return rows


def _count_first(memory: lukasa.Memory, script: str, asked: Mapping[str, int]) -> int:
    hits = ((memory.recall(question, 1).hits, number) for question, number in asked.items())
    return sum(bool(found) and found[0].record.id == f"{script}-{number}" for found, number in hits)
