"""The conversation store of Pydantic AI: its own store as oracle, real runs, and what deletion leaves."""

import asyncio
import uuid

import pytest

pytest.importorskip("pydantic_ai.conversation_store", reason="run by `make test-clients`, which installs Pydantic AI")

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.test import TestModel

import lukasa
from lukasa.integrations.pydantic_ai import LukasaConversations
from lukasa.storage.engine import Query
from support.postgres import shared_server

pytestmark = pytest.mark.slow
NAMES = st.sampled_from(["a", "b", "c"])
SCOPES = st.sampled_from([None, "ada", "ben"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), NAMES, st.text(max_size=5), SCOPES),
        st.tuples(st.just("stale"), NAMES, st.text(max_size=5), SCOPES),
        st.tuples(st.just("rewrite"), NAMES, st.text(max_size=5), SCOPES),
        st.tuples(st.just("load"), NAMES, st.none() | st.integers(0, 3), SCOPES),
        st.tuples(st.just("branch"), NAMES, st.integers(0, 3), SCOPES),
        st.tuples(st.just("back"), NAMES, st.none(), SCOPES),
        st.tuples(st.just("fork"), NAMES, NAMES, SCOPES),
        st.tuples(st.just("list"), NAMES, st.none() | st.integers(0, 2), SCOPES),
        st.tuples(st.just("delete"), NAMES, st.none(), SCOPES),
    ),
    max_size=14,
)


@pytest.fixture(params=["file", "postgresql"])
def memory(request, tmp_path):
    if request.param == "file":
        with lukasa.open(str(tmp_path / "memory.db"), embedder="hash") as opened:
            yield opened
        return
    with shared_server() as server, server.database() as url, lukasa.open(url, embedder="hash") as opened:
        yield opened


def request(text):
    return ModelRequest(parts=[UserPromptPart(content=text)])


def texts_of(conversation):
    return conversation and [message.parts[0].content for message in conversation.messages]


class Player:
    """Takes the steps of a test on one store and returns what it answers, without ids, revisions and times."""

    def __init__(self, store):
        self.store = store
        self.loaded = {}

    async def take(self, action, name, value, scope):
        store = self.store
        if action in ("say", "rewrite", "stale"):
            conversation = self.loaded.get(name) if action == "stale" else await store.load(name, scope=scope)
            conversation = conversation or Conversation(conversation_id=name)
            if action == "rewrite":
                conversation.messages = conversation.messages[1:]
                conversation.new_message_index = None
            conversation.messages.append(request(value))
            conversation.usage.requests += 1
            return len(await store.save(conversation, scope=scope))
        if action == "load":
            self.loaded[name] = await store.load(name, limit=value, scope=scope)
            entries = await store.load_entries(name, limit=value, scope=scope)
            usage = self.loaded[name] and self.loaded[name].usage.requests
            return texts_of(self.loaded[name]), entries and len(entries), usage
        if action == "branch":
            known = await store.load(name)
            revision = known.revision if known else "none"
            return texts_of(await store.branch(name, at=value, expected_revision=revision, scope=scope))
        if action == "back":
            record = await store.read_record(name)
            if record is None or not record.branches:
                return None
            tip = record.branches[0]
            return texts_of(await store.branch(name, from_entry=tip, expected_revision=record.revision))
        if action == "fork":
            return texts_of(await store.fork(name, new_conversation_id=value, scope=scope))
        if action == "list":
            listed = await store.list_conversations(scope=scope, limit=value)
            return [(item.conversation_id, item.scope, item.forked_from, len(item.branches)) for item in listed]
        return await store.delete(name, scope=scope)

    async def play(self, steps):
        answers = []
        for step in steps:
            try:
                answers.append(await self.take(*step))
            except UserError as error:
                answers.append((type(error), str(error)))
        return answers


@pytest.mark.requirement("DOO-6")
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_the_store_answers_as_pydantics_own(steps):
    async def run(memory):
        own, ours = InMemoryConversationStore(), LukasaConversations(memory)
        assert await Player(ours).play(steps) == await Player(own).play(steps)
        live = sum(row.live for row in memory.journal.tally() if row.kind == "conversation_message")
        assert live == len(own._entries)

    with lukasa.open("memory:") as memory:
        asyncio.run(run(memory))


@pytest.mark.requirement("DOO-6")
def test_an_agent_continues_its_conversation_after_a_restart(tmp_path):
    path = str(tmp_path / "memory.db")

    async def ask(memory, question):
        store = LukasaConversations(memory)
        agent = Agent(TestModel(custom_output_text="The release is on Tuesday."))
        conversation = await store.load("chat", scope="ada") or Conversation(conversation_id="chat")
        await store.save(await agent.run(question, conversation=conversation), scope="ada")
        return await store.load("chat", scope="ada")

    for number in range(2):
        with lukasa.open(path) as memory:
            conversation = asyncio.run(ask(memory, f"question {number}"))
            assert len(conversation.messages) == 2 * (number + 1)
            assert conversation.usage.requests == number + 1
    with lukasa.open(path) as memory:
        assert "Tuesday" in memory.recall("When is the release?").hits[0].text
        assert asyncio.run(LukasaConversations(memory).load("chat", scope="ben")) is None


@pytest.mark.requirement("DOO-6")
def test_of_two_writers_one_gets_a_conflict_and_nothing_of_it_is_stored(memory):
    async def run(store):
        await store.save(Conversation(conversation_id="chat", messages=[request("one")]))
        first, second = await store.load("chat"), await store.load("chat")
        first.messages.append(request("two"))
        second.messages.append(request("three"))
        await store.save(first)
        with pytest.raises(ConversationConflict):
            await store.save(second)
        return texts_of(await store.load("chat"))

    assert asyncio.run(run(LukasaConversations(memory))) == ["one", "two"]
    assert "three" not in [record.text for record in memory.journal.read(Query(every_version=True))]


@pytest.mark.requirement("DOO-6")
def test_a_deleted_conversation_keeps_what_a_fork_shares_and_its_history_in_the_log(memory):
    async def run(store):
        messages = [request("shared"), ModelResponse(parts=[TextPart(f"answer {uuid.uuid4()}")]), request("own")]
        await store.save(Conversation(conversation_id="chat", messages=messages))
        await store.fork("chat", at=2, new_conversation_id="fork")
        await store.delete("chat")
        assert await store.load("chat") is None
        assert texts_of(await store.load("fork"))[0] == "shared"
        before = await store.load_entries("fork")
        await store.delete("fork")
        with pytest.raises(LookupError):
            await store.read_entry(before[0].id)

    asyncio.run(run(LukasaConversations(memory)))
    records = list(memory.journal.read(Query(kinds=("conversation_message",), every_version=True)))
    assert [record.deleted for record in records].count(True) == 3
    assert "own" in [record.text for record in records]
