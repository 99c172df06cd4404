"""Freeze the tools, resources and prompts of the MCP server, and the shapes of its answers.

The server is started as a client starts it: by the installed program, over standard input and output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

sys.path.insert(0, str(Path(__file__).parent))

from cli_running import described, isolate, run

PROGRAM = str(Path(sys.executable).with_name("lukasa"))
SKILL = "# Skill: Deploy\n\n## Steps\n1. Build\n2. Push\n\n## Exit Criteria\n- It runs\n"
PROSE = ("description", "title")

Call = tuple[str, dict[str, Any]]
UNKNOWN: Call = ("no_such_tool", {})
"""The calls before this one are of the server's own tools, those after it of the reference memory server's."""

CALLS: list[Call] = [
    ("snapshot", {}),
    ("remember", {"text": "The staging database is called heron.", "tags": ["ops"], "category": "infrastructure"}),
    ("remember", {"text": "Deploys run on Tuesday.", "topic": "deploy-day"}),
    ("remember", {"text": "Deploys run on Thursday.", "topic": "deploy-day"}),
    ("remember", {"text": "My plan is to learn the cello.", "private": True}),
    ("remember", {"text": "The staging database is called egret since May.", "replaces": "{remember}"}),
    ("remember", {"text": "Deploys run on Thursday."}),
    ("remember", {"text": "Tick marker for burst 5."}),
    ("remember", {"text": "The card is 4111 1111 1111 1111."}),
    ("remember", {"text": "The rule of the house is that guests sign the book. " * 40}),
    ("remember", {"text": "The office is in Kinshasa.", "replaces": "no-such-memory"}),
    ("remember", {"text": ""}),
    ("remember", {"text": "The office is in Kinshasa.", "scope": "shared"}),
    ("recall", {"query": "When do deploys run?", "k": 2}),
    ("recall", {"query": "zzz", "kinds": ["skill"]}),
    ("recall", {"query": "deploys", "since": "yesterdayish"}),
    ("recall", {"query": "deploys", "k": 0}),
    ("history", {"id": "{remember}"}),
    ("history", {"id": "no-such-record"}),
    (
        "context_append",
        {"conversation_id": "s1", "content": "We decided to use PostgreSQL.", "speaker": "Ada", "key": "k1"},
    ),
    (
        "context_append",
        {"conversation_id": "s1", "content": "We decided to use PostgreSQL.", "speaker": "Ada", "key": "k1"},
    ),
    ("context_append", {"conversation_id": "s1", "content": "Another text.", "key": "k1"}),
    ("context_append", {"conversation_id": "s1", "content": "Hello", "role": "alien"}),
    ("context_assemble", {"conversation_id": "s1", "query": "Which database?"}),
    ("context_assemble", {"conversation_id": "nowhere"}),
    ("record_episode", {"goal": "Write the notes", "outcome": "success", "steps": ["write"], "key": "e1"}),
    ("record_episode", {"goal": "Write the notes", "outcome": "success", "steps": ["write"], "key": "e1"}),
    ("record_episode", {"goal": "Write", "outcome": "failure", "errors": [{"type": "T", "message": "m"}]}),
    ("record_episode", {"goal": "Write", "outcome": "unknown"}),
    ("before_task", {"task": "Write the notes of May"}),
    ("before_task", {"task": "Write", "budget": 1}),
    ("checkpoint", {"session": "run-1"}),
    ("checkpoint", {"session": "run-1", "state": {"step": 3}}),
    ("checkpoint", {"session": "run-1"}),
    ("handoff", {"action": "inbox"}),
    ("handoff", {"action": "send", "to": "ada", "what_was_done": "Wrote the tests", "known_issues": ["slow"]}),
    ("handoff", {"action": "inbox"}),
    ("handoff", {"action": "accept", "id": "{handoff}"}),
    ("handoff", {"action": "accept", "id": "{handoff}"}),
    ("handoff", {"action": "complete", "id": "{handoff}", "result": "all green"}),
    ("handoff", {"action": "send"}),
    ("handoff", {"action": "accept"}),
    ("handoff", {"action": "accept", "id": "no-such-handoff"}),
    ("trust", {}),
    ("trust", {"agent": "bob"}),
    ("snapshot", {"budget": 500}),
    ("forget", {"id": "{remember}"}),
    ("history", {"id": "{remember}"}),
    ("forget", {"id": "no-such-memory"}),
    UNKNOWN,
    ("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["plays the cello"]}]}),
    ("create_entities", {"entities": [{"name": "Ben", "entityType": "person", "observations": []}]}),
    ("create_relations", {"relations": [{"from": "Ada", "to": "Ben", "relationType": "knows"}]}),
    ("add_observations", {"observations": [{"entityName": "Ben", "contents": ["lives in Lyon"]}]}),
    ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["is not there"]}]}),
    ("read_graph", {}),
    ("search_nodes", {"query": "cello"}),
    ("open_nodes", {"names": ["Ada", "Nobody"]}),
    ("delete_observations", {"deletions": [{"entityName": "Ben", "observations": ["lives in Lyon"]}]}),
    ("delete_relations", {"relations": [{"from": "Ada", "to": "Ben", "relationType": "knows"}]}),
    ("delete_entities", {"entityNames": ["Ada"]}),
    ("read_graph", {}),
]

"""Calls in their order. ``{tool}`` stands for the id that this tool gave in its first answer with one."""
RESOURCES = (
    "lukasa://snapshot",
    "lukasa://snapshot/shared",
    "lukasa://snapshot/bob",
    "lukasa://session/s1",
    "lukasa://session/nowhere",
    "lukasa://trust/ada",
    "lukasa://skill/deploy",
    "lukasa://skill/nowhere",
    "lukasa://other/x",
    "memory://knowledge-graph",
)
PROMPTS: tuple[Call, ...] = (
    ("start_task", {"task": "Write the notes"}),
    ("start_task", {}),
    ("finish_task", {"task": "Write the notes", "outcome": "failure"}),
    ("review_memory", {}),
    ("review_memory", {"topic": "deploys"}),
    ("no_such_prompt", {}),
)


def serve(folder: Path, talk: Callable[[Client], Awaitable[str]], *words: str, agent: str = "ada") -> str:
    """Start a server on a store in a folder and hold a conversation with it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LUKASA_")}
    environment |= {"LUKASA_EMBEDDER": "hash", "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    asked = ["--store", str(folder / "agents.db"), *(["--agent", agent] if agent else []), "mcp", *words]

    async def conversation() -> str:
        async with Client(StdioServerParameters(command=PROGRAM, args=asked, env=environment)) as client:
            return await talk(client)

    return anyio.run(conversation)


def test_tools_resources_and_prompts_are_offered_as_before(frozen: Callable[[str, str], None], tmp_path: Path) -> None:
    """Compare names, schemas without prose, and hints with the golden file."""
    frozen("mcp_offers.txt", serve(tmp_path, _offers))


async def _offers(client: Client, beside: frozenset[str] = frozenset()) -> str:
    """Describe what a server offers, except the named tools."""
    tools = [_tool(each) for each in (await client.list_tools()).tools if each.name not in beside]
    resources = [f"resource {each.uri} {each.mime_type}\n" for each in (await client.list_resources()).resources]
    templates = (await client.list_resource_templates()).resource_templates
    resources += [f"resource template {each.uri_template} {each.mime_type}\n" for each in templates]
    prompts = [_prompt(each) for each in (await client.list_prompts()).prompts]
    return "\n".join((*tools, "".join(resources), "".join(prompts)))


def _tool(tool: Any) -> str:
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True)
    marks = ", ".join(f"{name} {value}" for name, value in sorted(hints.items()) if name not in PROSE)
    shapes = [("input", tool.input_schema), ("output", tool.output_schema)]
    return f"tool {tool.name}\n  {marks}\n" + "".join(
        f"  {what} {json.dumps(_plain(schema, schema), indent=2, sort_keys=True)}\n" for what, schema in shapes
    )


def _plain(schema: Any, whole: Any) -> Any:
    """Leave prose out of a schema, and put definitions where they are referred to."""
    if isinstance(schema, list):
        return [_plain(each, whole) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    plain: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "properties":
            plain[name] = {field: _plain(inner, whole) for field, inner in value.items()}
        elif name not in (*PROSE, "$defs"):
            plain[name] = _plain(value, whole)
    return plain


def _prompt(prompt: Any) -> str:
    taken = ", ".join(f"{each.name}{' (required)' if each.required else ''}" for each in prompt.arguments or ())
    return f"prompt {prompt.name}: {taken}\n"


def test_calls_are_answered_as_before(
    frozen: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare the shapes and codes of the answers to a series of calls with the golden file."""
    isolate(tmp_path, monkeypatch)
    (tmp_path / "skill.md").write_text(SKILL, "utf-8")
    store = str(tmp_path / "agents.db")
    assert run(["--store", store, "skill", "add", str(tmp_path / "skill.md"), "--id", "deploy"]).code == 0

    async def talk(client: Client) -> str:
        own = frozenset(name for name, _ in CALLS[: CALLS.index(UNKNOWN)])
        parts, kept = [f"beside its own tools\n\n{await _offers(client, own)}"], dict[str, str]()
        for name, arguments in CALLS:
            parts.append(f"call {name} {_short(arguments)}\n{await _called(client, name, arguments, kept)}\n")
        for uri in RESOURCES:
            parts.append(f"read {uri}\n{await _read(client, uri)}\n")
        for name, arguments in PROMPTS:
            parts.append(f"prompt {name} {_short(arguments)}\n{await _asked(client, name, arguments)}\n")
        return "\n".join(parts)

    frozen("mcp_answers.txt", serve(tmp_path, talk, "--compat", "memory-graph"))


def test_the_owner_is_answered_as_before(frozen: Callable[[str, str], None], tmp_path: Path) -> None:
    """Compare the answers to a caller without a name, and to one whose store is not a store file."""

    async def talk(client: Client) -> str:
        calls: list[Call] = [
            ("trust", {}),
            ("remember", {"text": "The office is in Kinshasa.", "private": True}),
            ("remember", {"text": "The office is in Kinshasa."}),
        ]
        return "\n".join(
            [
                f"call {name} {_short(arguments)}\n{await _called(client, name, arguments, {})}\n"
                for name, arguments in calls
            ]
        )

    first = serve(tmp_path, talk, agent="")
    (tmp_path / "agents.db").write_bytes(b"This is not a store. " * 400)
    for rest in tmp_path.glob("agents.db-*"):
        rest.unlink()
    frozen("mcp_answers_owner.txt", f"{first}\nbeside a file that is not a store\n\n{serve(tmp_path, talk, agent='')}")


async def _called(client: Client, name: str, arguments: dict[str, Any], kept: dict[str, str]) -> str:
    filled = {key: value.format(**kept) if _refers(value) else value for key, value in arguments.items()}
    try:
        answer = await client.call_tool(name, filled)
    except MCPError as error:
        return f"protocol error {error.error.code}"
    value = answer.structured_content
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        kept.setdefault(name, value["id"])
    text = getattr(answer.content[0], "text", "") if answer.content else ""
    same = "the same as JSON" if _parsed(text) == value else "JSON" if _parsed(text) is not None else "prose"
    return f"error {str(bool(answer.is_error)).lower()}, text is {same}\n{described(value)}"


async def _read(client: Client, uri: str) -> str:
    try:
        contents = (await client.read_resource(uri)).contents
    except MCPError as error:
        return f"protocol error {error.error.code}"
    (only,) = contents
    value = _parsed(getattr(only, "text", ""))
    return f"{only.mime_type} {'text' if value is None else described(value)}"


async def _asked(client: Client, name: str, arguments: dict[str, Any]) -> str:
    try:
        messages = (await client.get_prompt(name, arguments)).messages
    except MCPError as error:
        return f"protocol error {error.error.code}"
    return ", ".join(f"{each.role} {each.content.type}" for each in messages)


def _refers(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{") and value.endswith("}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _short(arguments: dict[str, Any]) -> str:
    text = json.dumps(arguments, sort_keys=True)
    return text if len(text) <= 160 else f"{text[:159]}…"
