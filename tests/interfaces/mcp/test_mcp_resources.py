"""The MCP resources and prompts."""

import json

import pytest
from mcp.shared.exceptions import MCPError

import lukasa

pytestmark = pytest.mark.requirement("DOO-3")


def read(server, uri):
    """Return the contents of a resource, or the error."""

    async def conversation(client):
        try:
            return (await client.read_resource(uri)).contents[0]
        except MCPError as error:
            return error.error

    return server.converse(conversation)


def test_listing_names_all_resources(server):
    async def conversation(client):
        fixed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        return fixed, [template.uri_template for template in templates]

    fixed, templates = server.converse(conversation)
    assert fixed == ["lukasa://snapshot"]
    assert {template.split("/")[2] for template in templates} == {"snapshot", "session", "trust", "skill"}


def test_reading_a_snapshot_gives_fenced_memories_of_all_scopes_or_one(server):
    server.call("remember", text="The office is in Kinshasa.")
    server.call("remember", text="My plan is the cello.", private=True)
    assert "cello" in read(server, "lukasa://snapshot").text
    shared = read(server, "lukasa://snapshot/shared").text
    assert shared.startswith("<lukasa ")
    assert "Kinshasa" in shared
    assert "cello" not in shared


def test_reading_the_scope_of_another_agent_is_refused(server, server_for):
    server_for("bob").call("remember", text="The plan of bob is the harp.", private=True)
    error = read(server, "lukasa://snapshot/bob")
    assert error.code
    assert "harp" not in error.message


def test_reading_a_session_or_a_skill_gives_fenced_text(server):
    server.call("context_append", conversation_id="user:agent:1", content="Hello there")
    with lukasa.open(server.store) as memory:
        memory.skills.add("# Deploy\n\n## Steps\n1. Build\n2. Push\n\n## Exit criteria\n- It runs\n", id="deploy")
    assert "│ Hello there" in read(server, "lukasa://session/user%3Aagent%3A1").text
    skill = read(server, "lukasa://skill/deploy").text
    assert skill.startswith("<lukasa ")
    assert "Push" in skill


@pytest.mark.parametrize("uri", ["lukasa://session/none", "lukasa://skill/..%2F..%2Fetc%2Fpasswd", "lukasa://other/x"])
def test_reading_an_unknown_resource_is_a_typed_error(server, uri):
    assert read(server, uri).code in (-32602, -32002)


def test_prompts_include_the_snapshot_and_the_briefing(server):
    server.call("remember", text="We deploy to Hetzner on Fridays.")
    server.call("record_episode", goal="Write the release notes", outcome="success")

    async def conversation(client):
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        start = await client.get_prompt("start_task", {"task": "Write the release notes of May"})
        finish = await client.get_prompt("finish_task", {"task": "Write the release notes"})
        review = await client.get_prompt("review_memory", {})
        return names, *(prompt.messages[0].content.text for prompt in (start, finish, review))

    names, start, finish, review = server.converse(conversation)
    assert names == ["start_task", "finish_task", "review_memory"]
    assert "Hetzner" in start
    assert "Write the release notes" in start
    assert "record_episode" in finish
    assert "Change nothing before" in review


def test_reading_trust_gives_json(server):
    assert json.loads(read(server, "lukasa://trust/ada").text)["trust"] == 0.6
