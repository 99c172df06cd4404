"""The session store of the Claude Agent SDK: its conformance suite, its own store as oracle, and what neither covers."""

import asyncio

import pytest

pytest.importorskip("claude_agent_sdk", reason="run by `make test-clients`, which installs the Claude Agent SDK")

from claude_agent_sdk import (
    InMemorySessionStore,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.integrations.claude_agent import LukasaSessionStore
from lukasa.storage.engine import Query
from support.adapter_race import check_race

pytestmark = pytest.mark.slow
KEY = {"project_key": "project", "session_id": "session"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.builds(
    lambda project, session, subpath: {"project_key": project, "session_id": session, **subpath},
    st.sampled_from(["p", "P", "p q"]),
    st.sampled_from(["s", "t"]),
    st.sampled_from([{}, {"subpath": "subagents/a"}, {"subpath": "subagents/b"}]),
)
ENTRIES = st.builds(
    lambda role, content, title: {"type": role, "message": {"role": role, "content": content}, **title},
    st.sampled_from(["user", "assistant"]),
    JSON | st.lists(st.builds(lambda text: {"type": "text", "text": text}, st.text()), max_size=2),
    st.sampled_from([{}, {"customTitle": "named"}, {"timestamp": "2026-11-17T09:00:00Z"}]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), KEYS, st.lists(ENTRIES, min_size=1, max_size=3)),
        st.tuples(st.just("load"), KEYS),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("subkeys"), KEYS),
        st.tuples(st.just("sessions"), KEYS),
    ),
    max_size=10,
)


def entry(uuid, text, **fields):
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}, **fields}


@pytest.mark.requirement("DOO-6")
def test_the_conformance_suite_of_the_sdk_passes(location):
    count = 0

    def make_store():
        nonlocal count
        count += 1
        return LukasaSessionStore(memory, scope=f"contract-{count}")

    with lukasa.open(location) as memory:
        asyncio.run(run_session_store_conformance(make_store))
    assert count == 15  # 14 contracts, none left out, and one look at the methods


@pytest.mark.requirement("DOO-6")
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_the_store_answers_as_the_sdks_own(steps):
    async def run(store):
        answers = []
        for action, key, *entries in steps:
            if action == "append":
                await store.append(key, *entries)
            elif action == "load":
                answers.append(await store.load(key))
            elif action == "delete":
                await store.delete(key)
            elif action == "subkeys":
                answers.append(sorted(await store.list_subkeys(key)))
            else:
                listed = await store.list_session_summaries(key["project_key"])
                sessions = await store.list_sessions(key["project_key"])
                answers.append(sorted((item["session_id"], str(item["data"])) for item in listed))
                answers.append(sorted(item["session_id"] for item in sessions))
        return answers

    with lukasa.open("memory:") as memory:
        assert asyncio.run(run(LukasaSessionStore(memory))) == asyncio.run(run(InMemorySessionStore()))


@pytest.mark.requirement("DOO-6")
def test_an_entry_that_comes_again_is_stored_once(memory):
    async def run(store):
        await store.append(KEY, [entry("a", "one"), entry("a", "one"), entry("b", "two")])
        before = await store.list_sessions("project")
        await store.append(KEY, [entry("b", "two"), entry("a", "one", customTitle="late")])
        assert await store.list_sessions("project") == before
        await store.append(KEY, [{"type": "tag", "tag": "x"}, {"type": "tag", "tag": "x"}, entry("b", "two")])
        await store.append({**KEY, "session_id": "other"}, [entry("a", "elsewhere")])
        await store.append({**KEY, "subpath": "subagents/a"}, [entry("a", "beside")])
        return await store.load(KEY)

    loaded = asyncio.run(run(LukasaSessionStore(memory)))
    assert loaded == [entry("a", "one"), entry("b", "two"), {"type": "tag", "tag": "x"}, {"type": "tag", "tag": "x"}]


@pytest.mark.requirement("DOO-6")
def test_the_sdk_lists_reads_forks_and_deletes_sessions_of_the_store(memory, tmp_path):
    session = "00000000-0000-4000-8000-000000000001"
    key = {"project_key": project_key_for_directory(str(tmp_path)), "session_id": session}
    first = entry("00000000-0000-4000-8000-00000000000a", "When is the release?", parentUuid=None, sessionId=session)
    second = entry("00000000-0000-4000-8000-00000000000b", "On Tuesday.", parentUuid=first["uuid"], sessionId=session)
    second = second | {"type": "assistant", "message": {"role": "assistant", "content": "On Tuesday."}}

    async def run(store):
        await store.append(key, [first, second])
        (listed,) = await list_sessions_from_store(store, str(tmp_path))
        messages = await get_session_messages_from_store(store, session, str(tmp_path))
        fork = await fork_session_via_store(store, session, str(tmp_path))
        forked = await get_session_messages_from_store(store, fork.session_id, str(tmp_path))
        await delete_session_via_store(store, session, str(tmp_path))
        return listed, messages, forked, await store.load(key)

    listed, messages, forked, left = asyncio.run(run(LukasaSessionStore(memory)))
    assert (listed.first_prompt, len(messages), len(forked), left) == ("When is the release?", 2, 2, None)
    assert any("Tuesday" in hit.text for hit in memory.recall("On which day is the release?").hits)
    versions = list(memory.journal.read(Query(kinds=("transcript_entry",), every_version=True)))
    assert sum(record.deleted for record in versions) == 2
    assert sum(not record.deleted for record in versions) == 5  # the fork has a title of its own


@pytest.mark.requirement("DOO-6")
def test_agents_do_not_see_each_others_sessions(tmp_path):
    with lukasa.open(str(tmp_path / "memory.db")) as owner:
        one, two = (LukasaSessionStore(owner.as_agent(name)) for name in ("ada", "ben"))
        asyncio.run(one.append(KEY, [entry("a", "mine")]))
        assert asyncio.run(two.load(KEY)) is None
        assert asyncio.run(two.list_sessions("project")) == []


@pytest.mark.requirement("DOO-6")
def test_eight_processes_on_one_session_lose_nothing(location, tmp_path):
    check_race("claude_session", location, tmp_path)
