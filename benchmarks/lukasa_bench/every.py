"""Every benchmark after the other, each in a process of its own, and one Markdown page of what they printed."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import lukasa
from lukasa_bench.store import Progress

_BARS = re.compile(r"(\d+) of (\d+) bars met")
_BAR_IN_SENTENCE = re.compile(r"[^(\n]*\(bar [^)]*: (met|missed)\)")
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
    Benchmark("HTTP", "http --rounds 2 --requests 1000", "http --sizes 1k,100k --requests 20000"),
    Benchmark("Weight", "weight --sizes 10k", "weight --sizes 100k"),
    Benchmark("Quality", "quality --section duplicates", "quality"),
)
SHOWN_SERVER = "postgresql://…"
"""How the page names the server: its URL may hold a password."""
SERVER_BENCHMARKS = (
    Benchmark(
        "The store on PostgreSQL",
        f"store --store {SHOWN_SERVER} --sizes 1k --rounds 2",
        f"store --store {SHOWN_SERVER} --sizes 1k,100k --rounds 5",
    ),
    Benchmark(
        "The gate on PostgreSQL",
        f"gate --store {SHOWN_SERVER} --sizes 1k",
        f"gate --store {SHOWN_SERVER} --sizes 1k,10k",
    ),
)
HEAD_OF_SUMMARY = "| benchmark | bars met | minutes | |"
HEAD_OF_MISSED = "## Bars missed"


@dataclass(frozen=True, slots=True)
class Section:
    """What one benchmark printed, when, and in how many seconds. ``failure`` says why it printed no figures."""

    title: str
    command: str
    description: str
    date: str
    seconds: float
    output: str
    failure: str

    @property
    def bars(self) -> tuple[int, int]:
        """How many bars were met, and of how many."""
        counts = [(int(met), int(bars)) for met, bars in _BARS.findall(self.output)]
        counts += [(int(verdict == "met"), 1) for verdict in _BAR_IN_SENTENCE.findall(self.output)]
        return sum(met for met, _ in counts), sum(bars for _, bars in counts)

    @property
    def missed_rows(self) -> list[str]:
        """The rows and sentences that tell of a missed bar."""
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in self.output.splitlines()]
        missed = [", ".join(cell for cell in row if cell not in ("", "missed")) for row in rows if "missed" in row]
        return missed + [found[0].strip() for found in _BAR_IN_SENTENCE.finditer(self.output) if found[1] == "missed"]


def run(
    *,
    full: bool = False,
    only: Sequence[str] = (),
    questions: Sequence[Path] = (),
    server: str = "",
    reuse: Path | None = None,
    progress: Progress | None = None,
) -> str:
    """Run the benchmarks and return the page. ``only`` names some of them; ``questions`` are sets for recall.

    With the URL of a PostgreSQL ``server``, the store and the gate are measured there too.
    What each benchmark printed is kept in the folder ``reuse``, and taken from there if the same command was run before.
    """
    known = (*BENCHMARKS, *(SERVER_BENCHMARKS if server else ()))
    wanted = [benchmark for benchmark in known if not only or benchmark.quick.split(maxsplit=1)[0] in only]
    if questions:
        words = " ".join(file.name for file in questions)
        wanted.append(Benchmark("Recall", f"recall {words}", f"recall {words} --baseline all"))
    options = ["--full" if full else "--quick", *(f"--only {name}" for name in only)]
    options += [f"--server {SHOWN_SERVER}"] * bool(server) + [f"--questions {file.name}" for file in questions]
    actual = {SHOWN_SERVER: server} | {file.name: str(file) for file in questions}
    sections = []
    for number, benchmark in enumerate(wanted):
        if progress is not None:
            progress(benchmark.title, number, len(wanted))
        sections.append(_run_one(benchmark.title, benchmark.full if full else benchmark.quick, actual, reuse))
    return "\n".join(_write_page(sections, f"lukasa bench all {' '.join(options)}"))


def _run_one(title: str, command: str, actual: Mapping[str, str], reuse: Path | None) -> Section:
    """Run one benchmark, unless the folder has what it printed. A failure is not kept: the next run tries again.

    ``actual`` has the words that the page shows in a shorter form: the page names neither a server nor a folder.
    """
    kept = reuse / f"{'-'.join(re.findall('[a-z0-9]+', title.lower()))}.json" if reuse else None
    if kept and kept.exists():
        section = Section(**json.loads(kept.read_text("utf-8")))
        if section.command == command:
            return section
    words = [sys.executable, "-m", "lukasa.interfaces.cli", "bench"]
    words += [actual.get(word, word) for word in command.split()]
    began = perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    output = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()
    failure = "" if done.returncode == 0 and output else done.stderr.strip()[-500:] or "It printed nothing."
    for shown, hidden in actual.items():
        failure = failure.replace(hidden, shown) if hidden else failure
    date = datetime.now(UTC).date().isoformat()
    section = Section(title, command, _describe(command), date, perf_counter() - began, output, failure)
    if kept and not failure:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(section), ensure_ascii=False, indent=2), "utf-8")
    return section


def _describe(command: str) -> str:
    """Return the first sentence of the help of a benchmark's command."""
    from lukasa_bench.cli import app

    name = command.split(maxsplit=1)[0]
    found = [
        each.callback
        for each in app.registered_commands
        if each.callback and name in (each.name, each.callback.__name__)
    ]
    return (found[0].__doc__ or "").partition("\n")[0] if found else ""


def _write_page(sections: Sequence[Section], command: str) -> Iterator[str]:
    met, bars = (sum(counts) for counts in zip(*(section.bars for section in sections), strict=True))
    dates = sorted({section.date for section in sections})
    yield from (
        "# Benchmarks",
        "",
        "This page is the output of one command; it is not edited by hand:",
        "",
        f"    {command}",
        "",
    )
    yield from ("[Performance](performance.md) says what limits the figures, and how far they can be trusted.", "")
    yield (
        f"Lukasa {lukasa.__version__}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {', '.join(_installed_versions())}; "
        f"{sum(section.seconds for section in sections) / 60:.0f} minutes. **{met} of {bars} bars met.**"
    )
    yield from ("", HEAD_OF_SUMMARY, "|---|---|---|---|")
    for section in sections:
        counts = "{} of {}".format(*section.bars)
        yield f"| {section.title} | {counts} | {section.seconds / 60:.1f} | {'not run' if section.failure else ''} |"
    yield from ("", HEAD_OF_MISSED, "")
    missed = [f"- {section.title}: {row}" for section in sections for row in section.missed_rows]
    yield from missed or ["None."]
    for section in sections:
        yield from ("", f"## {section.title}", "", section.description, "", f"    lukasa bench {section.command}", "")
        printed = section.output if not section.failure else f"Not run: {section.failure}"
        yield printed.replace("<", "\\<").replace("@", "\\@")  # a hostile text is no link and no HTML
    yield ""


def _installed_versions() -> Iterator[str]:
    for name in _PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
