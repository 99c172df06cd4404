"""Measure the size and shape of the code and compare each figure with its limit.

    make house

Prints one line per figure and exits with 1 when a figure is past its limit. Lines of code are lines that hold a token
other than a comment, a docstring or an import.
"""

from __future__ import annotations

import ast
import io
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lukasa"
SKIPPED_TOKENS = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True)
class Figure:
    """One measured figure and the limit that it must not pass."""

    name: str
    value: int
    limit: int
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A parsed module of the package."""

    path: Path
    source: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.relative_to(PACKAGE).as_posix()


def modules() -> list[Module]:
    """Parse every module of the package."""
    return [
        Module(path, source, ast.parse(source))
        for path in sorted(PACKAGE.rglob("*.py"))
        for source in [path.read_text("utf-8")]
    ]


def lines_without_code(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that docstrings and imports take, strings below fields and constants included."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Import() | ast.ImportFrom():
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def code_lines(module: Module) -> int:
    """Count the lines that hold code."""
    excluded = lines_without_code(module.tree)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type not in SKIPPED_TOKENS and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - excluded)


def is_product(module: Module) -> bool:
    """Tell product code from the test tools that ship with it."""
    return not module.name.startswith("testing/")


def reused_class_names(parsed: list[Module]) -> list[str]:
    """List the class names that are defined more than once."""
    names = Counter(node.name for module in parsed for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def gerund_modules(parsed: list[Module]) -> list[str]:
    """List the modules and packages whose name ends in -ing."""
    return sorted(
        module.name
        for module in parsed
        if (module.path.parent.name if module.path.stem == "__init__" else module.path.stem).endswith("ing")
    )


def single_use_helpers(parsed: list[Module]) -> list[str]:
    """List the private functions of modules that are called once and never passed on as a value."""
    found = []
    for module in parsed:
        nodes = list(ast.walk(module.tree))
        named = Counter(node.id for node in nodes if isinstance(node, ast.Name))
        called = Counter(
            node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        )
        for node in module.tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") and called[node.name] == named[node.name] == 1:
                found.append(f"{module.name}:{node.lineno} {node.name}")
    return found


def layers() -> list[str]:
    """Return the layers of the import contract, from the top down."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return [layer for contract in contracts if contract["type"] == "layers" for layer in contract["layers"]]


def files_crossed(call: Callable[[], Any]) -> list[str]:
    """List the files of the package in which a call runs at least one function."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            seen.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(seen)


def call_paths() -> Iterator[tuple[str, list[str]]]:
    """Yield the files that adding a memory and recalling one cross, in a small store that is already warm."""
    import lukasa

    with tempfile.TemporaryDirectory() as folder, lukasa.open(Path(folder) / "store.db", embedder="hash") as memory:
        for day in ("Monday", "Tuesday", "Friday"):
            memory.vault.add_memory(f"The {day} meeting starts in the room on the left.", "shared", "process")
        memory.recall("when is the meeting?")
        yield (
            "files a vault add crosses",
            files_crossed(lambda: memory.vault.add_memory("Invoices are paid within a month.", "shared", "process")),
        )
        memory.recall("when is the meeting?")
        yield "files a recall crosses", files_crossed(lambda: memory.recall("what happens to invoices?"))


def figures() -> Iterator[Figure]:
    """Measure everything that has a limit."""
    parsed = modules()
    product = [module for module in parsed if is_product(module)]
    yield Figure("lines of the package", sum(module.source.count("\n") for module in parsed), 42_000)
    yield Figure("code lines of the product", sum(map(code_lines, product)), 25_000)
    yield Figure("modules", sum(module.path.name != "__init__.py" for module in parsed), 210)
    for name, listed, limit in (
        ("reused class names", reused_class_names(parsed), 0),
        ("modules named -ing", gerund_modules(parsed), 6),
        ("private helpers with one caller", single_use_helpers(parsed), 200),
        ("layers", layers(), 8),
    ):
        yield Figure(name, len(listed), limit, tuple(listed))
    for name, files in call_paths():
        yield Figure(name, len(files), 18, tuple(files))


def main(arguments: list[str]) -> int:
    """Print every figure; list what is behind those past their limit, or behind all of them with ``--all``."""
    failed = False
    for figure in figures():
        past = figure.value > figure.limit
        failed = failed or past
        print(f"{figure.name:34} {figure.value:>7,}   limit {figure.limit:>7,}   {'PAST THE LIMIT' if past else 'ok'}")
        if past or "--all" in arguments:
            for detail in figure.details:
                print(f"    {detail}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
