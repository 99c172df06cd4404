"""Resources and prompts."""

import json

import pytest
from mcp.shared.exceptions import MCPError

import lukasa

pytestmark = pytest.mark.requirement("DOO-3")


def read(served, uri):
    """What a resource says, or the error that says why not."""

    async def conversation(client):
        try:
            return (await client.read_resource(uri)).contents[0]
        except MCPError as error:
            return error.error

    return served.talk(conversation)


def test_the_resources_are_listed(served):
    async def conversation(client):
        fixed = [str(each.uri) for each in (await client.list_resources()).resources]
        return fixed, [each.uri_template for each in (await client.list_resource_templates()).resource_templates]

    fixed, templates = served.talk(conversation)
    assert fixed == ["lukasa://snapshot"]
    assert {template.split("/")[2] for template in templates} == {"snapshot", "session", "trust", "skill"}


def test_a_snapshot_is_fenced_and_of_one_scope_where_one_is_named(served):
    served.call("remember", text="The office is in Kinshasa.")
    served.call("remember", text="My plan is the cello.", private=True)
    assert "cello" in read(served, "lukasa://snapshot").text
    shared = read(served, "lukasa://snapshot/shared").text
    assert shared.startswith("<lukasa ")
    assert "Kinshasa" in shared
    assert "cello" not in shared


def test_the_scope_of_another_agent_cannot_be_read(served, serving):
    serving("bob").call("remember", text="The plan of bob is the harp.", private=True)
    told = read(served, "lukasa://snapshot/bob")
    assert told.code
    assert "harp" not in told.message


def test_a_session_and_a_skill_are_read_fenced(served):
    served.call("context_append", session="user:agent:1", content="Hello there")
    with lukasa.open(served.store) as memory:
        memory.skills.add("# Deploy\n\n## Steps\n1. Build\n2. Push\n\n## Exit criteria\n- It runs\n", id="deploy")
    assert "│ Hello there" in read(served, "lukasa://session/user%3Aagent%3A1").text
    skill = read(served, "lukasa://skill/deploy").text
    assert skill.startswith("<lukasa ")
    assert "Push" in skill


@pytest.mark.parametrize("uri", ["lukasa://session/none", "lukasa://skill/..%2F..%2Fetc%2Fpasswd", "lukasa://other/x"])
def test_what_is_not_there_is_a_typed_error(served, uri):
    assert read(served, uri).code in (-32602, -32002)


def test_the_three_prompts_are_there_and_bring_what_is_known(served):
    served.call("remember", text="We deploy to Hetzner on Fridays.")
    served.call("record_episode", goal="Write the release notes", outcome="success")

    async def conversation(client):
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        start = await client.get_prompt("start_task", {"task": "Write the release notes of May"})
        finish = await client.get_prompt("finish_task", {"task": "Write the release notes"})
        review = await client.get_prompt("review_memory", {})
        return names, *(each.messages[0].content.text for each in (start, finish, review))

    names, start, finish, review = served.talk(conversation)
    assert names == ["start_task", "finish_task", "review_memory"]
    assert "Hetzner" in start
    assert "Write the release notes" in start
    assert "record_episode" in finish
    assert "Change nothing before" in review


def test_trust_is_read_as_json(served):
    assert json.loads(read(served, "lukasa://trust/ada").text)["trust"] == 0.6
