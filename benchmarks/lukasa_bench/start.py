"""Benchmark of start-up: the processor time of a whole process, compared with a process that only does what cannot be avoided.

Each case runs a command and its reference in turns. ``lukasa recall`` needs numpy and ``lukasa mcp`` the library of the
protocol, so their references import just that; the reference of the others is Python itself. Modules are compiled, as they
are in an installed package. A hook of a coding agent writes
its event to the queue; no daemon is started for it. A server of MCP is measured until it has answered ``initialize``, and until
it has listed its tools, which a client asks for next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter

from lukasa.errors import LukasaError
from lukasa.memory import open_memory
from lukasa_bench.corpus import NoteCorpus
from lukasa_bench.interleave import compare
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, MachineInfo, comparison_row
from lukasa_bench.store import Progress

SIZE = 1_000
ROUNDS = 8
SEED = 2026
_QUESTION = "what is muzese sigahut nakir?"  # words of one of the notes
_COMMAND_LINE = "from lukasa.interfaces.cli import main; main()"
_HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}  # fmt: skip
_HELLO_LINE = json.dumps(_HELLO) + "\n"
_LIST_TOOLS = (
    '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n'
)


@dataclass(frozen=True, slots=True)
class StartCase:
    """A command, what its process reads, the Python that cannot be avoided, and the most seconds that it may take."""

    name: str
    words: Sequence[str]
    reference: str
    limit: float
    stdin: str = ""
    answers: int = 0
    """After so many lines of output the process is ended; it ends by itself if there are none."""


CASES = (
    StartCase("import lukasa", (), "pass", 0.05),
    StartCase("lukasa recall", ("recall", _QUESTION), "import numpy", 0.35),
    StartCase("lukasa recall --json", ("recall", _QUESTION, "--json"), "import numpy", 0.35),
    StartCase("lukasa hook stop", ("hook", "stop"), "pass", 0.06, "{}"),
    StartCase("lukasa mcp: initialize", ("mcp",), "import mcp", 0.6, _HELLO_LINE, 1),
    StartCase("lukasa mcp: tools/list", ("mcp",), "import mcp", 1.0, _HELLO_LINE + _LIST_TOOLS, 2),
)


def run(size: int = SIZE, rounds: int = ROUNDS, *, progress: Progress | None = None) -> BenchmarkReport:
    """Measure every case whose library is installed."""
    began = perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as name:
        folder = Path(name)
        machine = MachineInfo.measure(folder)
        store = folder / "memory.db"
        with open_memory(store, embedder="static") as memory:
            for note in NoteCorpus(SEED).take(size):
                memory.journal.write("note", note.text)
            memory.recall.index.catch_up()
        cases = [case for case in CASES if case.reference != "import mcp" or find_spec("mcp")]
        rows = []
        for done, case in enumerate(cases):
            if progress is not None:
                progress("measuring", done, len(cases))
            own = ["-c", _COMMAND_LINE, "--store", str(store), *case.words] if case.words else ["-c", case.name]
            pairs = [
                (_run_process(own, folder, case.stdin, case.answers), _run_process(["-c", case.reference], folder))
                for _ in range(rounds + 1)
            ][1:]  # the first one finds cold caches
            bar = BenchmarkBar("lukasa", "most", case.limit)
            rows.append(comparison_row(case.name, size if case.words else None, "s", compare(*zip(*pairs)), bar))  # noqa: B905
    return BenchmarkReport("start", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _run_process(arguments: Sequence[str], folder: Path, stdin: str = "", answers: int = 0) -> float:
    """Run Python with arguments and return the processor time of its process."""
    environment = {**os.environ, "LUKASA_HOOKS": str(folder / "hooks"), "LUKASA_HOOK_DAEMON": "never"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = _children_seconds()
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    if answers and process.stdin and process.stdout:
        process.stdin.write(stdin)
        process.stdin.flush()
        answered = all(process.stdout.readline() for _ in range(answers))
        process.kill()
        _, errors = process.communicate()
    else:
        _, errors = process.communicate(stdin)
        answered = process.returncode == 0
    if not answered:
        raise LukasaError(f"The new process failed: {errors.strip()[-500:]}")
    return _children_seconds() - before


def _children_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
