"""The memory service of Google ADK: a real Runner with a scripted model, its own service as oracle, and deletion."""

import asyncio

import pytest

pytest.importorskip("google.adk", reason="run by `make test-clients`, which installs Google ADK")

from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai.types import Blob, Content, Part
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.integrations.google_adk import LukasaMemoryService
from lukasa.storage.engine import Query
from support.adapter_race import check_race

pytestmark = pytest.mark.slow
USER: dict = {"app_name": "app", "user_id": "ada"}
WORDS = ["tea", "release", "heron", "lisbon", "会議"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("session"), st.sampled_from("st"), st.lists(st.integers(0, 9), unique=True, max_size=5)),
        st.tuples(st.just("events"), st.sampled_from("st"), st.lists(st.integers(0, 9), unique=True, max_size=3)),
        st.tuples(st.just("delete"), st.just(""), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=10,
)


def make_event(id, text, author="user"):
    return Event(id=id, author=author, timestamp=1_760_000_000.5, content=Content(role="user", parts=[Part(text=text)]))


async def search(service, query, **user):
    found = await service.search_memory(query=query, **{**USER, **user})
    return [(entry.id, entry.content.parts[0].text) for entry in found.memories]


@pytest.mark.requirement("DOO-6")
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_the_service_finds_what_adks_own_finds(steps):
    """Sessions only grow here: the oracle forgets events that a session no longer has, the log keeps them."""
    events = [make_event(str(number), f"{WORDS[number % 5]} number{number}") for number in range(10)]

    async def run(service):
        added: dict[str, list] = {"s": [], "t": []}
        for action, session, value in steps:
            if action == "delete":
                await service.delete_memory(**USER, memory_id=str(value))
                continue
            new = [events[number] for number in value if number % 2 == (session == "t")]
            added[session] += [event for event in new if event not in added[session]]
            if action == "events":
                await service.add_events_to_memory(**USER, events=new, session_id=session)
            else:
                whole = Session(id=session, app_name="app", user_id="ada", events=added[session])
                await service.add_session_to_memory(whole)
        return [sorted(await search(service, word)) for word in WORDS]

    own = InMemoryMemoryService()
    with lukasa.open("memory:", embedder="hash") as memory:
        ours = asyncio.run(run(LukasaMemoryService(memory)))
    for found, expected in zip(ours, asyncio.run(run(own)), strict=True):
        assert set(expected) <= set(found)  # what is found by meaning comes in addition
        assert not {id for id, _ in found} & own._deleted_memory_ids.get(("app", "ada"), set())


class ScriptedLlm(BaseLlm):
    """A model that gives one answer and keeps what it was asked."""

    model: str = "scripted"
    answer: str = ""
    requests: list = []  # noqa: RUF012 - a field of a model is copied for each instance

    async def generate_content_async(self, llm_request, stream=False):
        self.requests.append(llm_request)
        yield LlmResponse(content=Content(role="model", parts=[Part(text=self.answer)]))


def ask(memory, model, question, user="ada"):
    """Run an agent in a session of its own, and add that session to the memory."""

    async def run():
        sessions, service = InMemorySessionService(), LukasaMemoryService(memory)
        agent = LlmAgent(name="helper", model=model, tools=[PreloadMemoryTool()])
        runner = Runner(app_name="app", agent=agent, session_service=sessions, memory_service=service)
        session = await sessions.create_session(app_name="app", user_id=user)
        message = Content(role="user", parts=[Part(text=question)])
        async for _ in runner.run_async(user_id=user, session_id=session.id, new_message=message):
            pass
        session = await sessions.get_session(app_name="app", user_id=user, session_id=session.id)
        await service.add_session_to_memory(session)
        return session

    return asyncio.run(run())


@pytest.mark.requirement("DOO-6")
def test_a_runner_is_given_what_was_said_in_an_earlier_session(location):
    with lukasa.open(location, embedder="hash") as memory:
        ask(memory, ScriptedLlm(answer="The release is on Tuesday."), "When is the release?")
    with lukasa.open(location, embedder="hash") as memory:
        model, other = ScriptedLlm(answer="Tuesday."), ScriptedLlm(answer="I do not know.")
        ask(memory, model, "Which day is the release?")
        ask(memory, other, "Which day is the release?", user="ben")
        assert "The release is on Tuesday." in str(model.requests[0].contents)
        assert "Tuesday" not in str(other.requests[0].contents)


@pytest.mark.requirement("DOO-6")
def test_what_was_deleted_does_not_come_back_with_its_session(memory):
    service = LukasaMemoryService(memory)
    session = Session(id="s", app_name="app", user_id="ada", events=[make_event("1", "The code is heron.")])

    async def run():
        await service.add_session_to_memory(session)
        found = await search(service, "What is the code?")
        await service.delete_memory(**USER, memory_id="1")
        await service.delete_memory(**USER, memory_id="unknown")
        await service.add_session_to_memory(session)
        await service.add_events_to_memory(**USER, events=session.events, session_id="other")
        await service.add_memory(**USER, memories=[MemoryEntry(id="1", content=session.events[0].content)])
        return found, await search(service, "What is the code?")

    found, after = asyncio.run(run())
    assert (found, after) == ([("1", "The code is heron.")], [])
    versions = list(memory.journal.read(Query(kinds=("agent_event",), every_version=True)))
    assert [record.deleted for record in versions] == [False, True]


@pytest.mark.requirement("DOO-6")
def test_memories_come_back_as_they_were_given_and_to_their_user_alone(memory):
    service = LukasaMemoryService(memory)
    picture = Part(inline_data=Blob(data=b"\x00\xffpicture", mime_type="image/png"))
    content = Content(role="user", parts=[Part(text="The heron at the lake"), picture])
    entry = MemoryEntry(content=content, author="ada", timestamp="2026-11-17", custom_metadata={"a": [1]})

    async def run():
        await service.add_memory(**USER, memories=[entry])
        await service.add_events_to_memory(**USER, events=[Event(author="user")])
        (found,) = (await service.search_memory(**USER, query="heron")).memories
        others = [await search(service, "heron", **other) for other in ({"user_id": "ben"}, {"app_name": "other"})]
        return found, others

    found, others = asyncio.run(run())
    assert found.content == content
    assert (found.author, found.timestamp, found.custom_metadata) == ("ada", "2026-11-17", {"a": [1]})
    assert others == [[], []]


@pytest.mark.requirement("DOO-6")
def test_eight_processes_on_one_session_lose_nothing(location, tmp_path):
    check_race("adk_session", location, tmp_path)
