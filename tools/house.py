"""Measure the size and shape of the code, and keep each figure from growing.

    make house
    .venv/bin/python tools/house.py layers     # what one figure counts
    .venv/bin/python tools/house.py --lower    # make each limit what is measured now, where that is less

``tools/house.toml`` has two numbers per figure: the bar that it is meant to reach, and the limit that it must not pass. Past
the limit the exit code is 1. A limit only falls; it is raised by hand, in the commit that says why. The figures are the same
on every machine: lines of code are lines that hold a token other than a comment, a docstring or an import.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from walks import make_walks

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lukasa"
LIMITS = ROOT / "tools" / "house.toml"
MAX_FUNCTION_LINES = 50
CACHES = {"cache", "cache_texts", "cached_property", "lru_cache"}
SKIPPED_TOKENS = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True)
class Figure:
    """One measured figure, and what it counts where that can be listed."""

    name: str
    value: int
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


_COMPILERS = frozenset({"compile", "sub", "subn", "match", "search", "split", "findall", "finditer", "fullmatch"})


def _is_pattern_call(node: ast.AST) -> bool:
    """Tell whether a call makes a regular expression: one of ``re``, or ``compile_on_use``."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id == "re" and function.attr in _COMPILERS
    return isinstance(function, ast.Name) and function.id == "compile_on_use"


def regular_expressions(parsed: list[Module]) -> list[str]:
    """List the places that make a regular expression, the modules with most of them first; a table of patterns is one place."""
    found = {
        module.name: [
            node.lineno for node in ast.walk(module.tree) if isinstance(node, ast.Call) and _is_pattern_call(node)
        ]
        for module in parsed
        if module.name != "text/patterns.py"
    }
    return [
        f"{name}:{line} ({len(lines)} in this module)"
        for name, lines in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        for line in sorted(lines)
    ]


def tabled_patterns() -> list[str]:
    """List the patterns that stand in tables, each compiled in one place: formats of tokens, phrases, orders."""
    from lukasa.text.orders import RULES
    from lukasa.text.word_classes import PHRASES

    lines = (PACKAGE / "pii" / "token_formats.txt").read_text("utf-8").splitlines()
    formats = [line for line in lines if line and not line.startswith("#") and line.split()[-1] != "-"]
    return [*formats, *(found.pattern for _, found, _ in PHRASES), *(rule.reason for rule in RULES)]


def word_definitions(parsed: list[Module]) -> list[str]:
    """List the regular expressions that say what a word is: they begin with a class of letters, and all their matches are taken."""
    found = []
    for module in parsed:
        nodes = list(ast.walk(module.tree))
        searched = {
            ast.unparse(node.value)
            for node in nodes
            if isinstance(node, ast.Attribute) and node.attr in ("findall", "finditer", "split")
        }
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_pattern_call(call):
                    is_used = name in searched
                case ast.Call(func=ast.Attribute(attr="findall" | "finditer" | "split")) as call if _is_pattern_call(
                    call
                ):
                    name, is_used = "in place", True
                case _:
                    continue
            text = ast.unparse(call.args[0]).removeprefix("r").strip("'\"").replace("(?:", "").lstrip("([")
            if is_used and text.startswith((r"\w", r"^\W", r"\W", r"^\\W", r"\\w", r"\\W", "a-z", "A-Za-z")):
                found.append(f"{module.name}:{call.lineno} {name}")
    return found


def layers() -> list[str]:
    """Return the layers of the import contract, from the top down."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return [layer for contract in contracts if contract["type"] == "layers" for layer in contract["layers"]]


def long_functions(parsed: list[Module]) -> list[str]:
    """List the functions whose definition, docstring included, takes more than fifty lines."""
    return [
        f"{module.name}:{node.lineno} {node.name}"
        for module in parsed
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MAX_FUNCTION_LINES
    ]


def cache_marks(parsed: list[Module]) -> list[str]:
    """List where a function is made to remember its results, and the classes called a cache."""
    found = []
    for module in parsed:
        for node in ast.walk(module.tree):
            match node:
                case ast.ClassDef(name=name) if name.endswith("Cache"):
                    found.append(f"{module.name}:{node.lineno} {name}")
                case ast.FunctionDef(decorator_list=marks) | ast.AsyncFunctionDef(decorator_list=marks):
                    found.extend(f"{module.name}:{mark.lineno} {node.name}" for mark in marks if is_cache(mark))
                case ast.Call(func=function) if is_cache(function):
                    found.append(f"{module.name}:{node.lineno} {ast.unparse(node)}")
    return found


def is_cache(node: ast.expr) -> bool:
    """Tell the decorators that remember results."""
    return ast.unparse(node).removeprefix("functools.") in CACHES


def figures() -> Iterator[Figure]:
    """Measure everything that has a limit."""
    parsed = modules()
    product = [module for module in parsed if is_product(module)]
    yield Figure("code lines of the product", sum(map(code_lines, product)))
    doors = [module for module in product if module.name.startswith("interfaces/")]
    yield Figure("code lines of the interfaces", sum(map(code_lines, doors)))
    for name, listed in (
        ("functions over 50 lines", long_functions(product)),
        ("private helpers with one caller", single_use_helpers(parsed)),
        ("cache marks", cache_marks(product)),
        ("reused class names", reused_class_names(parsed)),
        ("modules named -ing", gerund_modules(parsed)),
        ("layers", layers()),
        ("regular expressions", regular_expressions(product)),
        ("patterns in tables", tabled_patterns()),
        ("definitions of a word", word_definitions(product)),
    ):
        yield Figure(name, len(listed), tuple(listed))
    walks = make_walks()
    for name in ("a remember", "a recall", "an HTTP remember"):
        yield Figure(f"files of {name}", len(walks[name].files), tuple(walks[name].files))
    yield Figure("argument checks of a remember", walks["a remember"].argument_checks)
    yield Figure("switches of a sync of 10 records", walks["a sync"].switches)


def read_limits() -> dict[str, dict[str, int]]:
    """Return the bar and the limit of each figure."""
    return tomllib.loads(LIMITS.read_text("utf-8"))


def lower_limits(text: str, measured: list[Figure]) -> str:
    """Make the limit of each figure what was measured, where that is less, in the text of ``tools/house.toml``."""
    for figure in measured:
        found = re.search(rf'^"{re.escape(figure.name)}" .*limit = (\d+)', text, re.MULTILINE)
        if found is not None and figure.value < int(found[1]):
            text = f"{text[: found.start(1)]}{figure.value}{text[found.end(1) :]}"
    return text


def judge(value: int, bar: int, limit: int) -> str:
    """Say how a figure stands to its limit and its bar."""
    return "PAST THE LIMIT" if value > limit else "past the bar" if value > bar else "ok"


def main(arguments: list[str]) -> int:
    """Print every figure, and list what those that are named as arguments count."""
    measured = list(figures())
    if "--lower" in arguments:
        LIMITS.write_text(lower_limits(LIMITS.read_text("utf-8"), measured), "utf-8")
    limits, failed = read_limits(), False
    if set(limits) != {figure.name for figure in measured}:
        sys.exit("tools/house.toml and the figures of tools/house.py do not have the same names.")
    print(f"{'':34} {'now':>7} {'limit':>7} {'bar':>7}")
    for figure in measured:
        bar, limit = limits[figure.name]["bar"], limits[figure.name]["limit"]
        verdict = judge(figure.value, bar, limit)
        print(f"{figure.name:34} {figure.value:>7,} {limit:>7,} {bar:>7,}   {verdict}")
        failed = failed or figure.value > limit
        if figure.name in arguments:
            print("".join(f"    {detail}\n" for detail in figure.details), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
