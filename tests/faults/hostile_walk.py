"""Sends large texts of hostile shapes to every operation that takes text: ``python hostile_walk.py DOOR SIZE PART PARTS``.

The places of a door are the texts in its valid calls: the strings of the documented examples, of bodies that follow the
OpenAPI document, of tool calls that follow their schemas, of payloads of hooks. A call gets one hostile text at one place.
Each call is reported in one line of JSON, with its CPU seconds and the resident memory that it took at its peak.
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import lukasa
from support.hostile_shapes import SHAPES, draw_shape

ORDINARY_TURNS = 100
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
        targets = _strings_of(ast.parse(example))
        if not targets or name.rpartition(".")[2] in _NOT_WALKED or name.startswith("Remote"):
            continue
        own = folder / str(number)
        own.mkdir()
        names = ExampleNames(own, stack)
        names["memory"] = stack.enter_context(lukasa.open(own / "memory.db"))
        fill(names["memory"])
        for index, target in enumerate(targets):

            def call(text: str, example: str = example, index: int = index, names: dict[str, Any] = names) -> None:
                tree = ast.parse(example)
                tree = ast.fix_missing_locations(_Replaced(_strings_of(tree)[index]).visit(tree))
                names["hostile_text"] = text
                _run(tree, names)

            yield Place(f"{name} {str(target.value)[:30]!r}", call)
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


# HTTP: bodies and parameters that follow the OpenAPI document

_MARK = "a plain text"


def _sample(schema: Mapping[str, Any], parts: Mapping[str, Any], chosen: str = "") -> Any:
    """Return a value of a schema with its required fields and one chosen optional field; free texts are marked."""
    if "$ref" in schema:
        return _sample(parts[schema["$ref"].rpartition("/")[2]], parts, chosen)
    if "const" in schema:
        return schema["const"]
    if options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return _sample(options[0], parts, chosen)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    if kind == "object":
        wanted = {*schema.get("required", ()), chosen}
        fields = {name: _sample(part, parts) for name, part in schema.get("properties", {}).items() if name in wanted}
        return fields or {"note": _MARK}
    if kind == "array":
        return [_sample(schema.get("items", {}), parts)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return False if kind == "boolean" else None if kind == "null" else _MARK


def _fields_of(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> list[str]:
    """List the fields of an object that a caller may leave out."""
    if "$ref" in schema:
        return _fields_of(parts[schema["$ref"].rpartition("/")[2]], parts)
    return sorted(set(schema.get("properties", {})) - set(schema.get("required", ())))


def _place_text(value: Any, text: str, left: list[int]) -> Any:
    """Return a value with a text in the place of one marked text: the first for which the count runs out."""
    if isinstance(value, dict):
        return {name: _place_text(part, text, left) for name, part in value.items()}
    if isinstance(value, list):
        return [_place_text(part, text, left) for part in value]
    if value != _MARK:
        return value
    left[0] -= 1
    return text if left[0] == -1 else value


def _bodies(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield bodies with the number of the marked text to replace, each text once."""
    for chosen in ("", *_fields_of(schema, parts)):
        body = _sample(schema, parts, chosen)
        count = json.dumps(body).count(json.dumps(_MARK))
        plain = 0 if not chosen else json.dumps(_sample(schema, parts)).count(json.dumps(_MARK))
        for number in range(count if not chosen else count - plain):
            name = chosen or f"text {number}"
            place = number if not chosen else _place_of(body, chosen)
            yield name, body, place


def _place_of(body: Any, chosen: str) -> int:
    """Return how many marked texts come before a field of a body."""
    names = list(body)
    before = {name: body[name] for name in names[: names.index(chosen)]}
    return json.dumps(before).count(json.dumps(_MARK))


_NOT_SENT = frozenset({"/v1/import", "/v1/export"})
_MAX_ADDRESS = 60_000


def http_places(folder: Path, stack: ExitStack) -> Iterator[Place]:
    """Yield the places of the HTTP API: parameters of paths and queries, and texts in bodies."""
    from starlette.testclient import TestClient

    from lukasa.interfaces.api_tokens import token_from_environment
    from lukasa.interfaces.http.app import build_app
    from lukasa.interfaces.stores import Caller, CallerStores
    from support.api_server import token_for

    with lukasa.open(folder / "agents.db", embedder="hash") as memory:
        fill(memory)
    stores = CallerStores(str(folder / "agents.db"), Caller(), embedder="hash")
    stack.callback(stores.close)
    tokens = {token_for(""): token_from_environment(token_for(""), "", None)}
    app = build_app(stores, tokens.get, ["testserver"], compat="mem0")
    client = stack.enter_context(TestClient(app, headers={"Authorization": f"Bearer {token_for('')}"}))
    document = client.get("/openapi.json").json()
    parts = document["components"]["schemas"]

    def send(verb: str, address: str, **options: Any) -> None:
        answer = client.request(verb, address, **options)
        assert answer.status_code < 500 or answer.status_code == 503, (verb, address[:80], answer.text[:200])

    for address, operations in document["paths"].items():
        for verb, operation in operations.items():
            if address in _NOT_SENT:
                continue
            parameters = operation.get("parameters", ())
            known = {each["name"]: "ordinary" for each in parameters if each["in"] == "path"}
            needed = {each["name"]: _sample(each["schema"], parts) for each in parameters if each["in"] == "query" and each.get("required")}  # fmt: skip
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            body = None if schema is None else _sample(schema, parts)
            for each in parameters:
                if each["in"] not in ("path", "query") or _sample(each["schema"], parts) != _MARK:
                    continue

                def call_with_parameter(
                    text: str, name: str = each["name"], where: str = each["in"], verb: str = verb, address: str = address,
                    known: Mapping[str, str] = known, needed: Mapping[str, Any] = needed, body: Any = body,
                ) -> None:  # fmt: skip
                    cut = text.encode()[: _MAX_ADDRESS // 3].decode("utf-8", "ignore")
                    values = {**known, **({name: quote(cut, safe="")} if where == "path" else {})}
                    query = {**needed, **({name: cut} if where == "query" else {})}
                    send(verb, address.format_map(values), params=query, json=body)

                yield Place(f"{verb} {address} {each['name']}", call_with_parameter)
            for name, body, number in () if schema is None else _bodies(schema, parts):

                def call_with_body(
                    text: str, body: Any = body, number: int = number, verb: str = verb, address: str = address,
                    known: Mapping[str, str] = known, needed: Mapping[str, Any] = needed,
                ) -> None:  # fmt: skip
                    send(verb, address.format_map(known), params=needed, json=_place_text(body, text, [number]))

                yield Place(f"{verb} {address} body {name}", call_with_body)


# MCP: calls that follow the schemas of the tools


def mcp_places(folder: Path, stack: ExitStack) -> Iterator[Place]:
    """Yield the places of the MCP tools and prompts."""
    from anyio.from_thread import start_blocking_portal
    from mcp import Client
    from mcp.shared.exceptions import MCPError

    from lukasa.interfaces.mcp.server import build_server
    from lukasa.interfaces.stores import Caller

    with lukasa.open(folder / "agents.db", embedder="hash") as memory:
        fill(memory)
    server, stores = build_server(str(folder / "agents.db"), Caller("orion"), embedder="hash", compat="memory-graph")
    stack.callback(stores.close)
    portal = stack.enter_context(start_blocking_portal())
    client = stack.enter_context(portal.wrap_async_context_manager(Client(server)))
    for tool in portal.call(client.list_tools).tools:
        schema = tool.input_schema
        actions = schema.get("properties", {}).get("action", {}).get("enum", [None])
        for action in actions:
            for name, body, number in _bodies(schema, schema.get("$defs", {})):
                if action is not None:
                    body = {**body, "action": action}

                def call(text: str, tool: str = tool.name, body: Any = body, number: int = number) -> None:
                    with suppress(MCPError):
                        portal.call(client.call_tool, tool, _place_text(body, text, [number]))

                yield Place(f"{tool.name} {action or ''} {name}", call)
    for prompt in portal.call(client.list_prompts).prompts:
        for argument in prompt.arguments or ():

            def ask(text: str, prompt: str = prompt.name, name: str = argument.name) -> None:
                with suppress(MCPError):
                    portal.call(client.get_prompt, prompt, {name: text})

            yield Place(f"prompt {prompt.name} {argument.name}", ask)


# Hooks: payloads and transcripts of a coding agent


def hook_places(folder: Path, stack: ExitStack) -> Iterator[Place]:
    """Yield the places of the payloads and transcripts of all hook events."""
    from lukasa.interfaces.hooks.handlers import HookHandlers

    with lukasa.open(folder / "agents.db", agent="claude-code", embedder="hash") as memory:
        fill(memory)
    os.environ["LUKASA_EMBEDDER"] = "hash"
    handlers = HookHandlers(str(folder / "agents.db"), "claude-code")
    stack.callback(handlers.close)
    for event in ("session-start", "user-prompt-submit"):
        for field in ("prompt", "session_id", "source", "cwd"):

            def answer(text: str, event: str = event, field: str = field) -> None:
                fields = {"session_id": "s1", "prompt": "When do we deploy?", "source": "resume", field: text}
                with suppress(lukasa.LukasaError):
                    handlers.answer(event, json.dumps(fields).encode())

            yield Place(f"{event} {field}", answer)
    for number, part in enumerate(("goal", "answer", "input", "result", "name")):
        for event in ("pre-compact", "stop", "session-end"):

            def process(text: str, event: str = event, part: str = part, number: int = number) -> None:
                call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}}
                result = {"type": "tool_result", "tool_use_id": "t", "content": "error", "is_error": True}
                texts = {"goal": "Fix the build", "answer": "I will run it.", part: text}
                if part in ("input", "name"):
                    call = {**call, "input": {"command": text}} if part == "input" else {**call, "name": text}
                if part == "result":
                    result = {**result, "content": text}
                messages = (
                    ("user", texts["goal"]),
                    ("assistant", [{"type": "text", "text": texts["answer"]}, call]),
                    ("user", [result]),
                )
                lines = [
                    {"type": role, "uuid": f"{event}-{part}-{place}", "timestamp": "2026-03-01T10:00:00Z", "message": {"role": role, "content": content}}
                    for place, (role, content) in enumerate(messages)
                ]  # fmt: skip
                path = folder / "transcript.jsonl"
                path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
                fields = {"session_id": f"{event}-{number}", "transcript_path": str(path), "cwd": str(folder)}
                with suppress(lukasa.LukasaError):
                    handlers.process_event(event, json.dumps(fields).encode())

            yield Place(f"{event} transcript {part}", process)


# The command line

_LINES = (
    "remember TEXT", "remember 'a plain text' --topic TEXT", "remember -", "recall TEXT", "recall 'When do we deploy?' --conversation TEXT",
    "context append s1 TEXT", "context append s1 -", "context search TEXT", "episode record TEXT", "episode find TEXT", "handoff create ada TEXT --from orion",
    "handoff create ada - --from orion", "skill search TEXT", "knowledge add fact TEXT", "forecast predict TEXT 0.4", "before-task TEXT", "find TEXT", "vault search TEXT",
    "vault check TEXT", "pii TEXT", "audit -", "skill add -", "checkpoint save demo -", "get TEXT", "undo TEXT", "consolidate", "snapshot",
)  # fmt: skip


def cli_places(folder: Path, stack: ExitStack) -> Iterator[Place]:
    """Yield the places of command lines: a word of them, or what they read."""
    from frozen.cli_running import run

    os.chdir(folder)
    os.environ.update(LUKASA_STORE=str(folder / "memory.db"), LUKASA_EMBEDDER="hash", HOME=str(folder))
    with lukasa.open(folder / "memory.db", embedder="hash") as memory:
        fill(memory)
    for line in _LINES:

        def call(text: str, line: str = line) -> None:
            answer = run([text if word == "TEXT" else word for word in shlex.split(line)], text.encode())
            assert answer.code != 1, answer.err[-300:]

        yield Place(line, call)


DOORS: Mapping[str, Callable[[Path, ExitStack], Iterator[Place]]] = {
    "library": library_places,
    "http": http_places,
    "mcp": mcp_places,
    "hooks": hook_places,
    "cli": cli_places,
}


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
