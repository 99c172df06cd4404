"""The size, shape and wording of the code stay within their limits; ``make house`` prints all figures."""

from __future__ import annotations

import ast
import importlib
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from lukasa.core.canonical_json import encode

ROOT = Path(__file__).parent.parent
PACKAGE_FILES = sorted((ROOT / "src" / "lukasa").rglob("*.py"))
CHECKED_FILES = [*PACKAGE_FILES, *sorted((ROOT / "benchmarks").rglob("*.py")), *sorted((ROOT / "tools").rglob("*.py"))]
CHECKED_PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "Makefile",
        "deploy/*",
        "docs/**/*.md",
        "examples/**/*.py",
        "src/**/*.html",
        "src/**/*.js",
        "src/**/*.md",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and "vendor" not in path.parts
)
"""The pages that people read: documents, the dashboard, and the help of make."""

UNWANTED_WORDS = re.compile(
    r"\b(told|whoever|anew|borne|spelled|veil(s|ed)?|stands in|beside|errands?|doors?|rooms|keepers?)\b", re.IGNORECASE
)
"""Idiom that a reader has to decode, and names of modules that no longer exist."""

ALLOWED_PHRASES = {
    "``told``": "the public field of a prompt block that counts its memories",
    "|door|": "a pattern of secrets that matches this word before a code",
    "|told|": "a pattern of recall that matches this word in questions",
    "codes of doors": "real doors, whose codes are secrets",
    "a keeper reads with the fingers": "the person who reads a lukasa, in the first paragraph of the README",
}
"""Text that may contain an unwanted word, with the reason."""

ALLOWED_PRIVATE_ATTRIBUTES = {
    "memory.sessions._blobs": "the benchmark of checkpoints counts the bytes behind a session's file store",
    "session._files": "the benchmark of checkpoints times the file store without the log",
    "server._lowlevel_server": "the MCP SDK has no public way to run a server on given streams",
}
"""Private attributes of other modules that are used all the same, with the reason."""

DOCUMENTED_UNDERSCORES = {"_replace", "_asdict", "_make", "_fields", "_field_defaults"}
"""Attributes of named tuples that are public although they begin with an underscore."""


@pytest.fixture(scope="module")
def house() -> ModuleType:
    """Load tools/house.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        return importlib.import_module("house")


@pytest.fixture(scope="module")
def parsed(house: ModuleType) -> list[object]:
    """Parse the package."""
    return house.modules()


def test_every_limit_has_a_bar(house: ModuleType) -> None:
    assert [name for name, numbers in house.read_limits().items() if sorted(numbers) != ["bar", "limit"]] == []


@pytest.fixture(scope="module")
def walks(house: ModuleType) -> ModuleType:
    """Load tools/walks.py."""
    return sys.modules[house.make_walks.__module__]


def test_a_walk_counts_files_switches_and_argument_checks(walks: ModuleType) -> None:
    steps = [
        ("vault/vault.py", "add"),
        ("core/argument_types.py", "checked"),
        ("core/argument_types.py", "_find_misfit"),
    ]
    walk = walks.Walk([*steps, ("vault/vault.py", "keep")])
    assert (walk.files, walk.switches, walk.argument_checks) == (["core/argument_types.py", "vault/vault.py"], 2, 1)


def test_a_call_is_followed_through_the_package_and_its_threads(walks: ModuleType) -> None:
    with walks.Follower() as follower, ThreadPoolExecutor(1) as pool:
        walk = follower.follow(lambda: pool.submit(encode, {"text": "unlike ASCII: é"}).result())
    assert walk.files == ["core/canonical_json.py"]


def test_a_figure_past_its_limit_fails_and_one_past_its_bar_is_shown(house: ModuleType) -> None:
    assert house.judge(11, bar=5, limit=10) == "PAST THE LIMIT"
    assert house.judge(10, bar=5, limit=10) == "past the bar"
    assert house.judge(5, bar=5, limit=10) == "ok"


def test_limits_are_only_lowered(house: ModuleType) -> None:
    text = '"layers" = { bar = 8, limit = 9 }\n"files of a recall" = { bar = 20, limit = 28 }\n'
    measured = [house.Figure("layers", 8), house.Figure("files of a recall", 30)]
    assert house.lower_limits(text, measured) == text.replace("limit = 9", "limit = 8")


def test_a_class_name_occurs_once_in_the_program(house: ModuleType, parsed: list[object]) -> None:
    assert house.reused_class_names(parsed) == []


def test_few_modules_are_named_with_a_gerund(house: ModuleType, parsed: list[object]) -> None:
    assert len(house.gerund_modules(parsed)) <= 6


def test_the_import_contract_has_eight_layers(house: ModuleType) -> None:
    assert len(house.layers()) == 8


def test_only_the_configuration_reads_the_environment() -> None:
    # a hook's client must start without loading the package; onnx.py only sets a variable for the library that it loads
    allowed = {"config.py", "client.py", "daemon.py", "onnx.py"}
    readers = [path for path in PACKAGE_FILES if re.search(r"os\.(environ|getenv)", path.read_text("utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in readers if path.name not in allowed] == []


def test_docstrings_comments_and_messages_contain_no_unwanted_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in CHECKED_FILES
        for line, text in prose_of(path.read_text("utf-8"))
        for match in UNWANTED_WORDS.finditer(without_allowed_phrases(text))
    ]
    assert found == []


def test_documents_and_pages_contain_no_unwanted_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in CHECKED_PAGES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in UNWANTED_WORDS.finditer(without_allowed_phrases(line))
    ]
    assert found == []


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of every string with more than one word, and of every comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 1:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def without_allowed_phrases(text: str) -> str:
    """Remove the phrases of ``ALLOWED_PHRASES`` from a text."""
    for phrase in ALLOWED_PHRASES:
        text = text.replace(phrase, "")
    return text


def test_prose_of_finds_docstrings_comments_and_messages() -> None:
    source = '"""One docstring."""\nraise ValueError(f"a message for {name}")  # a comment\nfields = {"told": 1}\n'
    assert [text for _, text in prose_of(source)] == ["One docstring.", "a message for ", "# a comment"]


SQL_STATEMENT = re.compile(
    r"\s*\(?(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER|WITH|LOCK TABLE|COPY|VACUUM|TRUNCATE|GRANT)\s"
)
SQL_IN_PYTHON = {
    "text/terms.py": "a database in memory lends its tokenizer",
    "transfer/sources/databases.py": "databases of other programs, whose tables and columns are parameters",
}
"""Modules that hold SQL, with the reason."""


def sql_in(tree: ast.Module) -> list[int]:
    """List the lines on which a string begins like a statement of SQL."""
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values[1:]}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces
        if SQL_STATEMENT.match(node.value)
    ]


def test_sql_lives_in_sql_files() -> None:
    package = ROOT / "src" / "lukasa"
    found = {
        path.relative_to(package).as_posix(): lines
        for path in PACKAGE_FILES
        if (lines := sql_in(ast.parse(path.read_text("utf-8"))))
    }
    assert found.keys() == SQL_IN_PYTHON.keys(), found
    assert sql_in(ast.parse("f(f'SELECT {columns} FROM log'); g('DELETE FROM log'); 'Select a file'")) == [1, 1]


def test_no_module_uses_a_private_attribute_of_another() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": attribute
        for path in CHECKED_FILES
        for line, attribute in foreign_private_names(path.read_text("utf-8"))
        if attribute not in ALLOWED_PRIVATE_ATTRIBUTES
    }
    assert found == {}


def foreign_private_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each private attribute or import that the module does not define itself."""
    tree = ast.parse(source)
    defined = {name for node in ast.walk(tree) for name in names_defined_by(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in defined:
                yield node.lineno, ast.unparse(node)
            case ast.ImportFrom(module=str() as module, names=aliases) if module.startswith("lukasa"):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in aliases if is_private(alias.name))


def names_defined_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a definition or an assignment introduces, attributes of ``self`` and ``cls`` included."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            yield name


def is_private(name: str) -> bool:
    """Tell private names from public ones, ``__dunder__`` names and the documented names of named tuples."""
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED_UNDERSCORES


def test_foreign_private_names_are_found() -> None:
    source = "class A:\n    def __init__(self, other):\n        self._own = other._foreign\n        other._own.b._replace()\n"
    assert list(foreign_private_names(source)) == [(3, "other._foreign")]
    assert list(foreign_private_names("from lukasa.journal.gate import _x, y\n")) == [(1, "lukasa.journal.gate._x")]
