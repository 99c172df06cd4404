"""The reference memory server and ours give the same answers to the same calls."""

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-3")]

ADA = {"name": "Ada", "entityType": "person", "observations": ["plays the cello", "lives in Kinshasa"]}
BOB = {"name": "Bob 🎻", "entityType": "Person", "observations": []}
LAB = {"name": "the lab", "entityType": "place", "observations": ["is cold", "is cold"]}
KNOWS = {"from": "Ada", "to": "Bob 🎻", "relationType": "knows"}
WORKS = {"from": "Ada", "to": "the lab", "relationType": "works in"}
LOST = {"from": "unknown", "to": "missing", "relationType": "is"}

CALLS = [
    ("read_graph", {}),
    ("create_entities", {"entities": [ADA, BOB, LAB]}),
    ("create_entities", {"entities": [{**ADA, "observations": ["other"]}, {**BOB, "name": "Eve"}]}),
    ("create_relations", {"relations": [KNOWS, WORKS, LOST]}),
    ("create_relations", {"relations": [KNOWS]}),
    (
        "add_observations",
        {
            "observations": [
                {"entityName": "Ada", "contents": ["plays the cello", "likes tea", ""]},
                {"entityName": "Bob 🎻", "contents": ["is called 'Bob'\nby friends"]},
                {"entityName": "Ada", "contents": ["likes tea", "has a cat"]},
            ]
        },
    ),
    ("add_observations", {"observations": [{"entityName": "Ghost", "contents": ["boo"]}]}),
    ("search_nodes", {"query": "CELLO"}),
    ("search_nodes", {"query": "person"}),
    ("search_nodes", {"query": "%_*"}),
    ("search_nodes", {"query": ""}),
    ("open_nodes", {"names": ["the lab", "Ada", "Ghost"]}),
    ("open_nodes", {"names": []}),
    ("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["likes tea", "no such"]}]}),
    ("delete_observations", {"deletions": [{"entityName": "Ghost", "observations": ["boo"]}]}),
    ("delete_relations", {"relations": [WORKS, {**WORKS, "relationType": "leaves"}]}),
    ("read_graph", {}),
    ("delete_entities", {"entityNames": ["Bob 🎻", "Ghost"]}),
    ("read_graph", {}),
    ("create_entities", {"entities": [BOB]}),
    ("open_nodes", {"names": ["Bob 🎻", "Ada"]}),
    ("read_graph", {}),
]


async def collect_answers(client, calls):
    """Make the calls and return their answers."""
    answers = []
    for tool, arguments in calls:
        answer = await client.call_tool(tool, arguments)
        answers.append((tool, answer.is_error or False, answer.content[0].text, answer.structured_content))
    return answers


def test_the_tools_answer_every_call_as_the_reference_server_does(node, lukasa_program, tmp_path):
    command, *args = node("@modelcontextprotocol/server-memory", "dist/index.js")
    theirs = StdioServerParameters(command=command, args=args, env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")})
    arguments = ["--store", str(tmp_path / "agents.db"), "mcp", "--compat", "memory-graph"]
    ours = StdioServerParameters(command=lukasa_program, args=arguments)

    async def both():
        async with Client(theirs, mode="legacy") as their_client, Client(ours, mode="legacy") as our_client:
            tools = [
                {tool.name: tool for tool in (await client.list_tools()).tools} for client in (their_client, our_client)
            ]
            return tools, await collect_answers(their_client, CALLS), await collect_answers(our_client, CALLS)

    (their_tools, our_tools), expected, found = anyio.run(both)
    assert len(their_tools) == 9
    for name, tool in their_tools.items():
        assert our_tools[name].description == tool.description
        assert set(our_tools[name].input_schema["properties"]) == set(tool.input_schema.get("properties", {}))
        assert set(our_tools[name].output_schema["properties"]) == set(tool.output_schema["properties"])
    for call, their_answer, our_answer in zip(CALLS, expected, found, strict=True):
        assert our_answer == their_answer, call


def test_import_and_export_reproduce_the_file_of_the_reference_server(node, lukasa_program, tmp_path, run_program):
    command, *args = node("@modelcontextprotocol/server-memory", "dist/index.js")
    file = tmp_path / "memory.json"
    theirs = StdioServerParameters(command=command, args=args, env={"MEMORY_FILE_PATH": str(file)})

    async def fill():
        async with Client(theirs, mode="legacy") as client:
            await collect_answers(client, CALLS)

    anyio.run(fill)
    store = ["--store", str(tmp_path / "agents.db")]
    assert run_program([lukasa_program, *store, "import", str(file), "--format", "memory-graph"]).returncode == 0
    exported = tmp_path / "exported.json"
    assert run_program([lukasa_program, *store, "export", str(exported), "--format", "memory-graph"]).returncode == 0
    assert exported.read_text() == file.read_text()
