"""Sends large texts of hostile shapes to every operation that takes text: ``python hostile_walk.py DOOR SIZE PART PARTS``.

The places of a door are the texts in its valid calls: the strings of the documented examples, of bodies that follow the
OpenAPI document, of tool calls that follow their schemas, of payloads of hooks. A call gets one hostile text at one place.
Each call is reported in one line of JSON, with its CPU seconds and the resident memory that it took at its peak.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import lukasa
from support.hostile_shapes import SHAPES, draw_shape

ORDINARY_TURNS = 300
_NOT_WALKED = frozenset({"lukasa", "close", "open", "restore", "connect"})


class Place(NamedTuple):
    """A place for a text in a valid call, and the function that makes the call with a text there."""

    name: str
    call: Callable[[str], None]


class Measure(NamedTuple):
    """A call with the CPU seconds that it took and the megabytes that the process grew by at its peak."""

    place: str
    shape: str
    seconds: float
    megabytes: float


def resident_megabytes(field: str) -> float:
    """Return a figure of the resident memory of this process: ``VmRSS`` or ``VmHWM``."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def measure(place: Place, shape: str, size: int) -> Measure:
    """Make one call and return what it took."""
    text = draw_shape(shape, size)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
    before, started = resident_megabytes("VmRSS"), time.process_time()
    place.call(text)
    seconds = time.process_time() - started
    return Measure(place.name, shape, round(seconds, 3), round(resident_megabytes("VmHWM") - before, 1))


def fill(memory: lukasa.Memory) -> None:
    """Store what a user might have: turns, memories, an episode, knowledge, a skill."""
    turns = [
        {"role": "user" if n % 2 else "assistant", "content": f"On {n % 28 + 1} May 2024 we moved service {n} to Monday, is it good?"}
        for n in range(ORDINARY_TURNS)
    ]  # fmt: skip
    assert memory.context.extend("ordinary", turns)
    assert memory.remember("We deploy on Tuesdays.", topic="deploys")
    assert memory.episodes.record("Fix the build", errors=[{"error": "timeout", "resolution": "retry"}])
    assert memory.knowledge.add_fact("Switches live in the database.")
    assert memory.skills.add("# Deploy\n\n## Steps\n\n1. Run the migrations\n2. Restart the workers\n")


# The library: the examples of its docstrings


class _Replaced(ast.NodeTransformer):
    """Puts the name ``hostile_text`` in the place of one string."""

    def __init__(self, target: ast.Constant) -> None:
        self._target = target

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.copy_location(ast.Name("hostile_text", ast.Load()), node) if node is self._target else node


def _strings_of(tree: ast.AST) -> list[ast.Constant]:
    """List the strings among the arguments of calls, without names of fields."""
    names = {key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    found: dict[ast.Constant, None] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                for node in ast.walk(argument):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in names:
                        found[node] = None
    return list(found)


def library_places(folder: Path, stack: ExitStack) -> Iterator[Place]:
    """Yield the places of the library, of one object after the other."""
    from test_docstrings import EXAMPLES, ExampleNames

    os.environ["LUKASA_EMBEDDER"] = "hash"
    for number, (name, example) in enumerate(EXAMPLES.items()):
        if name.rpartition(".")[2] in _NOT_WALKED or name.startswith("Remote"):
            continue
        for index, target in enumerate(_strings_of(ast.parse(example))):
            own = folder / f"{number}-{index}"

            def call(text: str, example: str = example, index: int = index, own: Path = own) -> None:
                tree = ast.parse(example)
                tree = ast.fix_missing_locations(_Replaced(_strings_of(tree)[index]).visit(tree))
                names["hostile_text"], names["folder"] = text, own
                own.mkdir(exist_ok=True)
                _run(tree, names)

            names = ExampleNames(folder, stack)
            memory = stack.enter_context(lukasa.open(folder / f"{number}-{index}.db"))
            fill(memory)
            names["memory"] = memory
            yield Place(f"{name} {target.value[:30]!r}", call)
            stack.close()


def _run(tree: ast.Module, names: dict[str, Any]) -> None:
    """Run an example; a text at a wrong place is refused, and what follows may then have nothing to work with."""
    try:
        exec(compile(tree, "example", "exec"), names)
    except (lukasa.LukasaError, OSError):
        pass
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is None or trace.tb_frame.f_code.co_filename != "example":
            raise


DOORS: Mapping[str, Callable[[Path, ExitStack], Iterator[Place]]] = {"library": library_places}


def main(door: str, size: int, part: int, parts: int, every_shape: bool) -> None:
    """Walk the places of a door: each with every shape, or each with one, so that all shapes come."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for number, place in enumerate(DOORS[door](Path(folder), stack)):
            if number % parts != part:
                continue
            chosen = SHAPES if every_shape else (SHAPES[number % len(SHAPES)],)
            for shape in chosen:
                sys.stdout.write(json.dumps(measure(place, shape, size)) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:] == ["all"])
