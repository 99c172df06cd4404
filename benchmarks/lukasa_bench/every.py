"""Every benchmark after the other, each in a process of its own, and one Markdown page of what they printed."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import lukasa
from lukasa_bench.store import Progress

_BARS = re.compile(r"(\d+) of (\d+) bars met")
_PACKAGES = ("apsw", "numpy", "tokenizers", "onnxruntime", "psycopg", "langgraph-checkpoint-sqlite", "openai-agents")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its heading, and the words after ``lukasa bench`` for a short run and for a whole one."""

    title: str
    quick: str
    full: str


BENCHMARKS = (
    Benchmark("The store", "store --sizes 1k --rounds 2", "store --sizes 1k,100k,1m --rounds 5"),
    Benchmark("Search", "search --sizes 1k,10k --rounds 2", "search --sizes 1k,10k,100k --rounds 5"),
    Benchmark("The gate of the vault", "gate --sizes 1k,10k", "gate --sizes 1k,100k"),
    Benchmark("Secrets and hostile texts", "guard --size 100k --rounds 1", "guard --size 1m --rounds 3"),
    Benchmark("Conversations", "context --sizes 100,1k --rounds 1", "context --sizes 100,10k,100k --rounds 3"),
    Benchmark("Sessions", "checkpoint --rounds 2", "checkpoint --rounds 5"),
    Benchmark("Consolidation", "consolidate --sizes 1k", "consolidate --sizes 1k,10k"),
    Benchmark("Trust", "trust --seeds 1 --rounds 200 --sizes 1k", "trust --seeds 10 --sizes 1k,100k"),
    Benchmark("Adapters", "adapters --sizes 100 --rounds 2", "adapters --sizes 100,10k --rounds 5"),
    Benchmark("Start-up", "start --rounds 2", "start --rounds 8"),
    Benchmark("MCP", "mcp --rounds 2 --calls 20", "mcp --rounds 5"),
    Benchmark("HTTP", "http --rounds 2 --requests 1000", "http --sizes 1k,100k --requests 100000"),
    Benchmark("Quality", "quality --section duplicates", "quality"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """What one benchmark printed. ``failure`` says why it printed no figures."""

    benchmark: Benchmark
    command: str
    output: str
    failure: str
    met: int
    bars: int


def run(
    *, full: bool = False, only: Sequence[str] = (), questions: Sequence[Path] = (), progress: Progress | None = None
) -> str:
    """Run the benchmarks and return the page. ``only`` names some of them; ``questions`` are sets for recall."""
    began = perf_counter()
    wanted = [benchmark for benchmark in BENCHMARKS if not only or benchmark.quick.split(maxsplit=1)[0] in only]
    if questions:
        words = " ".join(map(str, questions))
        wanted.append(Benchmark("Recall", f"recall {words}", f"recall {words} --baseline all --ablate"))
    sections = []
    for number, benchmark in enumerate(wanted):
        if progress is not None:
            progress(benchmark.title, number, len(wanted))
        sections.append(_run_one(benchmark, benchmark.full if full else benchmark.quick))
    return "\n".join(_write_page(sections, full=full, seconds=perf_counter() - began))


def _run_one(benchmark: Benchmark, command: str) -> Section:
    words = [sys.executable, "-m", "lukasa.interfaces.cli", "bench", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    output = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()
    counts = [tuple(map(int, found.groups())) for found in _BARS.finditer(output)]
    met, bars = (sum(count) for count in zip(*counts, strict=True)) if counts else (0, 0)
    failure = "" if done.returncode == 0 and output else done.stderr.strip()[-500:] or "It printed nothing."
    return Section(benchmark, command, output, failure, met, bars)


def _write_page(sections: Sequence[Section], *, full: bool, seconds: float) -> Iterator[str]:
    met, bars = sum(section.met for section in sections), sum(section.bars for section in sections)
    yield "# Benchmarks"
    yield ""
    yield f"    lukasa bench all {'--full' if full else '--quick'}"
    yield ""
    yield (
        f"Lukasa {lukasa.__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{', '.join(_installed_versions())}; {seconds / 60:.0f} minutes. **{met} of {bars} bars met.**"
    )
    yield ""
    yield "| benchmark | bars met | |"
    yield "|---|---|---|"
    for section in sections:
        yield f"| {section.benchmark.title} | {section.met} of {section.bars} | {'failed' if section.failure else ''} |"
    for section in sections:
        yield ""
        yield f"## {section.benchmark.title}"
        yield ""
        yield f"    lukasa bench {section.command}"
        yield ""
        yield section.output if not section.failure else f"It failed: {section.failure}"
    yield ""


def _installed_versions() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
