"""A program of Lukasa limits numpy to one thread before numpy is imported; the library leaves it as it is."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.requirement("DOO-2")

WATCH_NUMPY = """
import json, os, runpy, sys

class NumpyWatcher:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy" and not seen:
            seen.append(os.environ.get("OPENBLAS_NUM_THREADS"))

seen = []
sys.meta_path.insert(0, NumpyWatcher())
try:
    {run}
except SystemExit:
    pass
print(json.dumps(seen), file=sys.stderr)
"""
COMMAND = 'sys.argv = ["lukasa", "--store", "memory:", "recall", "When do we deploy?"]'
PROGRAMS = {
    "script": f"{COMMAND}\n    from lukasa.interfaces.cli import main\n    main()",
    "module": f'{COMMAND}\n    runpy.run_module("lukasa.interfaces.cli", run_name="__main__")',
    "benchmark": "import lukasa_bench.search",
    "hook daemon": """
    from lukasa.interfaces.hooks.client import HookEndpoint
    from lukasa.interfaces.hooks.daemon import HookDaemon
    HookDaemon(HookEndpoint("memory:", "", ()))._open_handlers().warm_up()""",
}


def threads_at_import(run: str, **environment: str) -> Any:
    """Return what the environment said when numpy was imported."""
    known = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", WATCH_NUMPY.format(run=run)],
        env=known | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_imports_numpy_with_one_thread(program: str) -> None:
    assert threads_at_import(PROGRAMS[program]) == ["1"]


def test_the_number_of_threads_that_a_user_has_set_stays() -> None:
    assert threads_at_import(PROGRAMS["script"], OPENBLAS_NUM_THREADS="3") == ["3"]


def test_the_library_leaves_the_number_of_threads_to_the_process() -> None:
    assert threads_at_import('import lukasa\n    lukasa.open("memory:").recall("When do we deploy?")') == [None]
