"""The recipes of docs/howto/recipes.md, run as they are printed there with the real packages."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import lukasa
from lukasa.testing.fake_llm import FakeLLM

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-6")]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "recipes.md").read_text("utf-8")
RECIPES = dict(re.findall(r"^## ([\w-]+).*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
CREWAI = ROOT / "build" / "clients" / "crewai"


def run_recipe(name):
    """Run a recipe and return its names."""
    found: dict = {}
    exec(compile(RECIPES[name], f"{name}.py", "exec", dont_inherit=True), found)
    return found


@pytest.fixture
def memory(tmp_path):
    with lukasa.open(tmp_path / "agents.db", agent="ada", embedder="hash") as memory:
        yield memory


def test_the_recipes_are_these():
    assert list(RECIPES) == ["LangChain", "LlamaIndex", "CrewAI", "Any"]


def test_the_history_of_langchain_returns_equal_messages(memory):
    pytest.importorskip("langchain_core", reason="installed by `make test-clients`")
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    history = run_recipe("LangChain")["LukasaHistory"](memory, "s1")
    said = [
        HumanMessage("The office is in Kiel.", id="1"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": "map"}, "id": "c1"}]),
        ToolMessage("found", tool_call_id="c1"),
        AIMessage([{"type": "text", "text": "Noted."}]),
    ]
    history.add_messages(said)
    history.add_user_message("Thanks")
    assert history.messages == [*said, HumanMessage("Thanks")]
    assert "Kiel" in memory.recall("Where is the office?").hits[0].text
    history.clear()
    assert history.messages == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_the_block_of_llama_index_is_filled_and_asked_by_its_memory(memory):
    pytest.importorskip("llama_index.core", reason="installed by `make test-clients`")
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory

    memory.remember("The office is in Kiel.")
    block = run_recipe("LlamaIndex")["LukasaBlock"](name="lukasa", store=memory)

    async def talk():
        short = Memory.from_defaults(
            session_id="s1", memory_blocks=[block], token_limit=60, chat_history_token_ratio=0.2, token_flush_size=10
        )
        for number in range(12):
            await short.aput(ChatMessage(role="user", content=f"Box {number} stands in aisle {number}."))
        await short.aput(ChatMessage(role="user", content="Where is the office?"))
        return await short.aget()

    messages = asyncio.run(talk())
    gc.collect()  # its memory does not close its database
    assert any("The office is in Kiel." in (message.content or "") for message in messages)
    assert any("Box 0 " in turn.content for turn in memory.context.transcript("lukasa"))


def test_the_tools_of_crewai_recall_and_remember(tmp_path):
    if not CREWAI.exists():
        assert os.environ.get("CI") != "true", "crewai is not installed; run: make test-clients"
        pytest.skip("crewai is not installed; run: make test-clients")
    program = "\n".join(
        (
            "import lukasa, sys",
            "memory = lukasa.open(sys.argv[1], agent='ada', embedder='hash')",
            RECIPES["CrewAI"],
            "print(recall.run(question='Where is the office?'))",
            "print(remember.run(fact='The office is in Kiel.'))",
            "print(remember.run(fact='The office is in Kiel.')[:12])",
            "print(recall.run(question='Where is the office?'))",
        )
    )
    paths = [str(CREWAI), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HOME": str(tmp_path),
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
    }
    command = [sys.executable, "-c", program, str(tmp_path / "agents.db")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    first, kept, again, *found = done.stdout.splitlines()
    assert (first, kept, again) == ("Nothing is known.", "Kept.", "This repeats")
    assert any("The office is in Kiel." in line for line in found)


class FakeClient:
    """A client of the OpenAI SDK as far as the loop uses it; notes the messages of each request as bytes."""

    def __init__(self, *replies):
        self.replies, self.requests = list(replies), []
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, *, model, messages, **options):
        self.requests.append([json.dumps(message).encode() for message in messages])
        reply = self.replies.pop(0)
        return SimpleNamespace(choices=[SimpleNamespace(message=reply)])


def says(content, *calls):
    """Return a reply of a model; with calls of tools its content is None."""
    made = [SimpleNamespace(id=id, function=SimpleNamespace(name=name, arguments="{}")) for id, name in calls]
    return SimpleNamespace(content=content, tool_calls=made or None)


def test_the_prefix_of_the_loop_stays_the_same_over_turns_and_calls_of_tools(memory):
    memory.remember("The office is in Kiel.")
    answer = run_recipe("Any")["answer"]
    client = FakeClient(
        says("In Kiel."), says(None, ("c1", "look"), ("c2", "look")), says("It is open."), says("At ten."), says("Yes.")
    )
    for prompt in ("Where is the office?", "Is the office open?", "When does the office open?", "Is the office far?"):
        answer(client, memory, "s1", prompt, run_tool=lambda name, arguments: f"{name}: open")
    assert len(client.requests) == 5
    positions = []
    for request in client.requests:
        assert b"".join(request).count(b"The office is in Kiel.") == 1
        (late,) = (index for index, message in enumerate(request) if b"Memories recalled" in message)
        assert [index for index, message in enumerate(request) if b'"user"' in message][-1] == late + 1
        positions.append(late)
    assert positions == [1, 3, 3, 8, 10]  # after the whole history
    for before, after, late in zip(client.requests, client.requests[1:], positions, strict=False):
        said = [message for message in before if b"Memories recalled" not in message]
        assert after[:late] == before[:late]
        assert [message for message in after if b"Memories recalled" not in message][: len(said)] == said
    assert client.requests[2][: len(client.requests[1])] == client.requests[1]  # within a turn all of it stays
    called = [json.loads(message) for message in client.requests[2][-3:]]
    assert called[0]["content"] == ""
    assert [message["role"] for message in called] == ["assistant", "tool", "tool"]
    assert [turn.content for turn in memory.context.transcript("s1")][2:5] == ["Is the office open?", "", "look: open"]


def test_the_loop_tells_each_fact_once(memory):
    memory.remember("The release is on Friday.")
    answer = run_recipe("Any")["answer"]
    stated = "We decided to use PostgreSQL 16 for the release."
    client = FakeClient(says("Noted."), says("PostgreSQL."), says("PostgreSQL."))
    answer(client, memory, "s1", stated)
    answer(client, memory, "s1", "Which database does the release use?")
    memory.context.compact("s1", keep=0)
    answer(client, memory, "s1", "Which database does the release use?")
    for request in client.requests[1:]:
        whole = b"".join(request).decode()
        assert whole.count("PostgreSQL 16") == 1
        assert whole.count("The release is on Friday.") == 1


def test_the_loop_sends_what_is_known_and_keeps_what_was_said(memory):
    openai = pytest.importorskip("openai", reason="installed by `make test-clients`")
    memory.remember("The office is in Kiel.")
    with FakeLLM("In Kiel.", "You are welcome.") as fake:
        client = openai.OpenAI(base_url=fake.url.partition("#")[0], api_key="none")
        answer = run_recipe("Any")["answer"]
        assert answer(client, memory, "s1", "Where is the office?") == "In Kiel."
        assert answer(client, memory, "s1", "Thanks a lot!") == "You are welcome."
        client.close()
        first, second = (request["messages"] for request in fake.requests)
    assert "The office is in Kiel." in first[1]["content"]
    assert first[-1] == {"role": "user", "content": "Where is the office?"}
    said = [message["content"] for message in second if "Memories recalled" not in message["content"]]
    assert said[1:] == ["Where is the office?", "In Kiel.", "Thanks a lot!"]
