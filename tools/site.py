"""Build the documentation as a site, offline: the pages of docs/, and a reference that is generated from the code.

    python tools/site.py --out build/site --zensical build/docs/bin/zensical

Generated pages are written to a copy of docs/, never into the repository. Links to files outside docs/ become
their names. The build fails for a broken link or a warning.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lukasa"
GENERATED = {
    "api": "Python API", "commands": "All commands", "endpoints": "All HTTP endpoints", "mcp-tools": "All MCP tools",
    "codes": "Exit codes, statuses and refusals", "signals": "Signals of recall",
}  # fmt: skip
_OUTSIDE = re.compile(r"\[([^]]*)\]\((?:\.\./)+((?:benchmarks|deploy|examples|src|tests|tools)\b[^)]*|[A-Z_]+\.md)\)")
_LINE_ANCHOR = re.compile(r'<a id="__codelineno-[^>]*></a>')
"""Empty links before each line of code, which a screen reader would read out."""


def main() -> None:
    """Copy the pages, generate the reference, build the site and check its links."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--zensical", default="zensical")
    options = parser.parse_args()
    work = ROOT / "build" / "site-source"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(options.out, ignore_errors=True)
    pages = work / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in pages.rglob("*.md"):
        page.write_text(_OUTSIDE.sub(r"\1 (`\2`)", page.read_text("utf-8")), "utf-8")
    for name, text in generate_reference().items():
        (pages / "reference" / f"{name}.md").write_text(text, "utf-8")
    shutil.copy(ROOT / "zensical.toml", work)
    subprocess.run([options.zensical, "build", "--strict", "--clean"], cwd=work, check=True)
    shutil.move(work / "site", options.out)
    for page in options.out.rglob("*.html"):
        page.write_text(_LINE_ANCHOR.sub("", page.read_text("utf-8")), "utf-8")
    broken = sorted(find_broken_links(options.out))
    for line in broken:
        print(line)
    print(f"{len(list(options.out.rglob('*.html')))} pages in {options.out}, {len(broken)} broken links")
    sys.exit(1 if broken else 0)


def generate_reference() -> dict[str, str]:
    """Return the generated pages by name."""
    parts = {
        "api": _describe_api(), "commands": _describe_commands(), "endpoints": _describe_endpoints(),
        "mcp-tools": _describe_tools(), "codes": _describe_codes(), "signals": _describe_signals(),
    }  # fmt: skip
    return {name: "\n".join([f"# {GENERATED[name]}", "", *lines]) + "\n" for name, lines in parts.items()}


def _describe_api() -> Iterator[str]:
    """Describe every public call of the library by its signature and docstring."""
    import lukasa
    from lukasa.memory import SERVICES, Memory

    yield "Generated from the source. [The library](python.md) explains how the parts work together."
    yield "\n## `lukasa`\n"
    for name in sorted(set(lukasa.__all__) - {"__version__"}):
        yield from _describe_callable(f"lukasa.{name}", getattr(lukasa, name))
    yield "\n## `Memory`\n"
    for name, member in _public_members(Memory):
        yield from _describe_callable(f"memory.{name}", member)
    from importlib import import_module

    for attribute, service in sorted(SERVICES.items()):
        cls = getattr(import_module(service.package), service.class_name)
        yield f"\n## `memory.{attribute}`\n"
        yield f"{inspect.getdoc(cls) or ''}\n"
        for name, member in _public_members(cls):
            yield from _describe_callable(f"memory.{attribute}.{name}", member)


def _public_members(cls: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(cls).items():
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__call__"):
            yield name, member


def _describe_callable(name: str, member: Any) -> Iterator[str]:
    try:
        parameters = list(inspect.signature(member).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    words = [str(parameter) for parameter in parameters if parameter.name != "self"]
    yield f"\n### `{name.removesuffix('.__call__')}`\n"
    if not inspect.isclass(member):
        yield f"```python\n{name.removesuffix('.__call__')}({', '.join(words)})\n```\n"
    yield _as_markdown(inspect.getdoc(member) or "")


def _as_markdown(text: str) -> str:
    """Turn double backticks into single ones, the described parameters into a list, and the example into code."""
    text, _, example = text.partition("\nExample:\n")
    prose, _, parameters = text.partition("\nArgs:\n")
    parameters = re.sub(r"\n {5,}", " ", parameters.rstrip())
    listed = re.sub(r"^ {4}(\*{0,2}\w+): ", r"- `\1`: ", parameters, flags=re.MULTILINE)
    shown = re.sub(r"``(.+?)``", r"`\1`", f"{prose}\n{listed}".rstrip()).replace("<", "&lt;")
    return f"{shown}\n\n```python\n{textwrap.dedent(example).strip()}\n```\n" if example else shown


def _describe_commands() -> Iterator[str]:
    """Describe every command by its help."""
    import typer

    from lukasa.interfaces.cli.app import app

    yield "Generated from the help of each command. [The command line](cli.md) explains the everyday ones.\n"
    root: Any = typer.main.get_command(app)
    context = root.make_context("lukasa", ["log"], resilient_parsing=True)
    yield from _describe_group(root, context, "lukasa")


def _describe_group(group: Any, context: Any, path: str) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        words = f"{path} {name}"
        if hasattr(command, "list_commands"):
            yield from _describe_group(command, context, words)
            continue
        yield f"\n## `{words}`\n"
        yield f"{(command.help or '').replace('<', '&lt;')}\n"
        rows = [
            (" ".join(parameter.opts), parameter.metavar or "", getattr(parameter, "help", None) or "")
            for parameter in command.params
            if "--help" not in parameter.opts
        ]
        if rows:
            yield from _table(("option", "value", "meaning"), rows)


def _describe_endpoints() -> Iterator[str]:
    """Describe every path of the HTTP API."""
    from starlette.testclient import TestClient

    from lukasa.interfaces.api_tokens import ApiToken
    from lukasa.interfaces.http.app import build_app
    from lukasa.interfaces.stores import Caller, CallerStores

    stores = CallerStores("memory:", Caller())
    app = build_app(stores, lambda _: ApiToken("site", ""), ["localhost"])
    client = TestClient(app, base_url="http://localhost", headers={"Authorization": "Bearer x"})
    described = client.get("/openapi.json").json()
    stores.close()
    yield "Generated from the OpenAPI description that a server gives at `/openapi.json`. [HTTP](http.md) explains it.\n"
    rows = [
        (f"`{method.upper()} {path}`", operation.get("summary", ""), ", ".join(sorted(operation["responses"])))
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    yield from _table(("request", "what it does", "statuses"), rows)


def _describe_tools() -> Iterator[str]:
    """Describe every MCP tool as a client sees it."""
    import asyncio

    from lukasa.interfaces.mcp.server import build_server
    from lukasa.interfaces.stores import Caller

    server, stores = build_server("memory:", Caller())
    tools = asyncio.run(server.list_tools())
    stores.close()
    yield "Generated from the list that a client sees. [MCP](mcp.md) explains how to use them.\n"
    for tool in tools:
        yield f"\n## `{tool.name}`\n"
        yield f"{(tool.description or '').replace('<', '&lt;')}\n"
        schema: Any = tool.model_dump(by_alias=True).get("inputSchema", {})
        rows = [
            (f"`{name}`", "yes" if name in schema.get("required", ()) else "", field.get("description", ""))
            for name, field in schema.get("properties", {}).items()
        ]
        if rows:
            yield from _table(("argument", "required", "meaning"), rows)


def _describe_codes() -> Iterator[str]:
    """Describe the exit codes, the errors and the codes of refusals."""
    from lukasa.core.outcome import Refused
    from lukasa.interfaces.outcomes import OUTCOMES, REFUSALS, ExitCode

    yield "Generated from the one table that all interfaces share.\n"
    yield "\n## Exit codes of commands\n"
    yield from _table(("code", "name"), [(str(code.value), code.name.lower().replace("_", " ")) for code in ExitCode])
    yield "\n## Errors\n"
    rows = [
        (f"`{kind.__name__}`", str(row.exit_code.value), str(row.http_status), row.problem_type or "–")
        for kind, row in OUTCOMES.items()
    ]
    yield from _table(("error", "exit code", "HTTP status", "problem type"), rows)
    yield "\n## Refusals\n"
    yield "A refusal is an answer, not an error: nothing was written, and the reason says what to change.\n"
    usual = OUTCOMES[Refused]
    refusals = [
        (f"`{code}`", str(REFUSALS.get(code, usual).http_status), " / ".join(sorted(reasons)[:2]))
        for code, reasons in sorted(_find_refusals().items())
    ]
    yield from _table(("code", "HTTP status", "for example"), refusals)


def _find_refusals() -> dict[str, set[str]]:
    """Return every code that the source refuses with, and its reasons; parts that vary are shown as …."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refused" and len(node.args) > 1:
                code, reason = node.args[:2]
                if isinstance(code, ast.Constant):
                    found[str(code.value)].add(_template(reason))
    return found


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return "…"


def _describe_signals() -> Iterator[str]:
    """Describe the signals of recall by the docstrings of the functions that compute them."""
    from lukasa.recall import ranking, signals

    yield "The score of a hit is the sum of its signals times their weights; `lukasa recall --explain` shows them.\n"
    rows = []
    for name, weight in sorted(ranking.WEIGHTS.items(), key=lambda item: -item[1]):
        function = {**signals.SIGNALS, **signals.JOINT_SIGNALS}.get(name)
        meaning = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ") if function else ""
        rows.append((f"`{name}`", f"{weight:g}", _as_markdown(meaning)))
    yield from _table(("signal", "weight", "meaning"), rows)


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    headings = list(headings)
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        cells = (cell.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for cell in row)
        yield "| " + " | ".join(cells) + " |"


def find_broken_links(site: Path) -> Iterator[str]:
    """Yield every link of a built site that leads to a file or an anchor that does not exist."""
    anchors: dict[Path, set[str]] = {}
    for page in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="?([^"\s>]+)', page.read_text("utf-8")):
            if re.match(r"[a-z]+:|//|#$|data:", target):
                continue
            place, _, anchor = target.partition("#")
            start = site if place.startswith("/") else page.parent
            file = (start / place.lstrip("/").partition("?")[0]).resolve() if place else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{page.relative_to(site)}: {target}"
            elif anchor and file.suffix == ".html":
                if file not in anchors:
                    anchors[file] = set(re.findall(r'\bid="?([^"\s>]+)', file.read_text("utf-8")))
                if anchor not in anchors[file]:
                    yield f"{page.relative_to(site)}: {target}"


if __name__ == "__main__":
    main()
