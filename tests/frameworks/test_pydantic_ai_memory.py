"""The memory store of the Pydantic AI harness: its own stores as oracles, a real agent, and search by meaning."""

import asyncio

import pytest

pytest.importorskip("pydantic_ai_harness", reason="run by `make test-clients`, which installs the harness")

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MetadataMemoryStore,
    SearchableMemoryStore,
    SqliteMemoryStore,
)

import lukasa
from lukasa.integrations.pydantic_ai_memory import LukasaMemoryFiles
from support.adapter_race import check_race

pytestmark = pytest.mark.slow
PATHS = st.sampled_from(
    ["main/MEMORY.md", "main/a.md", "main/sub/b.md", "other/a.md", "a", "../x", "a//b", "a/./b", ""]
)
PREFIXES = st.sampled_from(["", "main/", "main", "main/s", "main/sub/", "x/", "/", ".."])
OPERATIONS = st.none() | st.builds(MemoryOperation, id=st.sampled_from("op"), fingerprint=st.sampled_from("fg"))
METADATA = st.sampled_from([None, {}, {"by": "ada"}, {"by": "\0"}, {"by": "x" * 5_000}])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, TEXTS, st.booleans(), OPERATIONS),
        st.tuples(st.just("annotate"), PATHS, TEXTS, METADATA, OPERATIONS),
        st.tuples(st.just("delete"), PATHS, st.booleans(), OPERATIONS),
        st.tuples(st.just("read"), PATHS, st.integers(0, 4)),
        st.tuples(st.just("list"), PREFIXES, st.integers(0, 3)),
        st.tuples(st.just("operation"), OPERATIONS.filter(bool)),
    ),
    max_size=14,
)
ERRORS = (MemoryConflictError, MemoryOperationConflictError, ValueError)


class Player:
    """Takes the steps of a test on one store; a version is known by the number of versions seen before it."""

    def __init__(self, store):
        self.store = store
        self.versions: dict[str | None, int | None] = {None: None}

    def number(self, version):
        return self.versions.setdefault(version, len(self.versions))

    async def take(self, action, *values):
        if action == "read":
            path, size = values
            file = await self.store.read(path, max_chars=size)
            return file and (file.content, self.number(file.version), file.operation_id, file.truncated, file.metadata)
        if action == "list":
            return await self.store.list_paths(values[0], limit=values[1])
        if action == "operation":
            done = await self.store.get_operation(values[0])
        else:
            path, *rest, operation = values
            current = await self.store.read(path, max_chars=1)
            version = current.version if current else None
            if action == "annotate":
                text, metadata = rest
                done = await self.store.write_with_metadata(
                    path, text, expected_version=version, metadata=metadata, operation=operation
                )
            else:
                *text, is_known = rest
                expected = version if is_known else "unknown"
                change = getattr(self.store, action)
                done = await change(path, *text, expected_version=expected, operation=operation)
        return done and (self.number(done.version), done.replayed, done.existed)

    async def play(self, steps):
        answers = []
        for step in steps:
            try:
                answers.append(await self.take(*step))
            except ERRORS as error:
                answers.append(type(error))
        return answers


@pytest.mark.requirement("DOO-6")
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_the_store_answers_as_the_harness_own(steps):
    async def run(memory):
        ours = await Player(LukasaMemoryFiles(memory)).play(steps)
        assert ours == await Player(InMemoryStore()).play(steps)

    with lukasa.open("memory:") as memory:
        asyncio.run(run(memory))


@pytest.mark.requirement("DOO-6")
@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_the_store_answers_as_the_harness_store_in_sqlite(steps, tmp_path_factory):
    async def run(memory):
        ours = await Player(LukasaMemoryFiles(memory)).play(steps)
        path = tmp_path_factory.mktemp("oracle") / "notes.db"
        assert ours == await Player(SqliteMemoryStore(database=str(path))).play(steps)

    with lukasa.open("memory:") as memory:
        asyncio.run(run(memory))


@pytest.mark.requirement("DOO-6")
def test_a_search_finds_by_words_and_stays_below_the_prefix(memory):
    store = LukasaMemoryFiles(memory)
    assert isinstance(store, SearchableMemoryStore)
    assert isinstance(store, MetadataMemoryStore)
    bounds = {"limit": 3, "max_files": 10, "max_chars": 40, "max_file_chars": 500}

    async def run():
        for path, text in {
            "ada/tea.md": "She likes green tea with honey. " * 5,
            "ada/keys.md": "The deploy key is rotated monthly.",
            "ada/deep/tea.md": "tea tea tea",
            "ben/tea.md": "He likes black tea.",
        }.items():
            await store.write(path, text, expected_version=None)
        return await store.search("ada/", "green tea", **bounds), await store.search("ada/", " ", **bounds)

    found, nothing = asyncio.run(run())
    assert found.matches[0].path == "ada/tea.md"
    assert {match.path for match in found.matches} <= {"ada/tea.md", "ada/keys.md"}
    assert "tea" in found.matches[0].snippet
    assert sum(len(match.snippet) + len(match.path) - len("ada/") for match in found.matches) <= 40
    assert (nothing.matches, nothing.scanned) == ([], 0)


@pytest.mark.requirement("DOO-6")
def test_an_agent_remembers_after_a_restart(location):
    """An agent writes its notebook in one process, and another agent is given it in the next."""

    def remember(messages, info):
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("noted")])
        tool = next(tool for tool in info.function_tools if tool.name == "write_memory")
        arguments = {"content": "The release is on Tuesday."}
        assert set(arguments) <= set(tool.parameters_json_schema["properties"])
        return ModelResponse(parts=[ToolCallPart("write_memory", arguments)])

    seen = []

    def look(messages, info):
        seen.append(f"{messages} {info.instructions}")
        return ModelResponse(parts=[TextPart("Tuesday")])

    for model in (remember, look):
        with lukasa.open(location, embedder="hash") as memory:
            agent = Agent(FunctionModel(model), capabilities=[Memory(LukasaMemoryFiles(memory))])
            asyncio.run(agent.run("When is the release?"))
    assert "The release is on Tuesday." in seen[0]


@pytest.mark.requirement("DOO-6")
def test_eight_processes_on_one_file_lose_nothing(location, tmp_path):
    check_race("pydantic_file", location, tmp_path)
