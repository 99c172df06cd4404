"""Processes that write through one adapter to one place of a store: ``python adapter_race.py ADAPTER STORE FOLDER``.

Eight processes write marks one after the other, each noting a mark when its write was acknowledged. In the middle one of
them is killed, twice, and another takes its place. The program prints the marks that were acknowledged, those that were begun, and
those that the store holds, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from support.narrow import present

PROCESSES = 8
KILLS = 2


class OpenAISession:
    """Adds items to one session."""

    def __init__(self, memory):
        from lukasa.integrations.openai_agents import LukasaSession

        self._session = LukasaSession("chat", memory)

    def write(self, mark):
        asyncio.run(self._session.add_items([{"role": "user", "content": mark}]))

    def read(self):
        return [item["content"] for item in asyncio.run(self._session.get_items())]


class ClaudeSession:
    """Appends entries to one transcript, each twice, as after a time-out."""

    def __init__(self, memory):
        from lukasa.integrations.claude_agent import LukasaSessionStore

        self._store, self._key = LukasaSessionStore(memory), {"project_key": "project", "session_id": "session"}

    def write(self, mark):
        for _ in range(2):
            asyncio.run(self._store.append(self._key, [{"type": "user", "uuid": mark, "customTitle": mark}]))

    def read(self):
        entries = asyncio.run(self._store.load(self._key)) or []
        (summary,) = asyncio.run(self._store.list_session_summaries("project"))
        assert summary["data"]["custom_title"] == entries[-1]["uuid"]
        return [entry["uuid"] for entry in entries]


class GraphSaver:
    """Puts checkpoints of one thread, each the child of the newest, and one pending write for each."""

    def __init__(self, memory):
        from lukasa.integrations.langgraph import LukasaSaver

        self._saver = LukasaSaver(memory)
        self._config = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}

    def write(self, mark):
        from langgraph.checkpoint.base.id import uuid6

        newest = self._saver.get_tuple(self._config)
        versions = newest.checkpoint["channel_versions"] if newest else {}
        number = versions.get("marks", 0) + 1
        fixed = {"fixed": 1} if not versions else {}
        state = {"v": 1, "id": str(uuid6()), "ts": "2026-11-17T12:00:00+00:00", "versions_seen": {}}
        state |= {"channel_values": {"marks": "long text " * 200 + mark, "fixed": "same"}, "updated_channels": None}
        state |= {"channel_versions": {"fixed": 1, "marks": number}}
        config = self._saver.put(
            newest.config if newest else self._config, state, {"step": number}, {"marks": number} | fixed
        )
        self._saver.put_writes(config, [("done", mark)], "task")

    def read(self):
        found = list(self._saver.list(self._config))
        assert all(item.checkpoint["channel_values"]["fixed"] == "same" for item in found)
        return [item.checkpoint["channel_values"]["marks"].removeprefix("long text " * 200) for item in reversed(found)]


class GraphStore:
    """Puts items into one namespace."""

    def __init__(self, memory):
        from lukasa.integrations.langgraph_store import LukasaStore

        self._store = LukasaStore(memory)

    def write(self, mark):
        self._store.put(("marks",), mark, {"mark": mark})

    def read(self):
        return [item.value["mark"] for item in reversed(self._store.search(("marks",), limit=10_000))]


class AnthropicFile:
    """Inserts lines at the beginning of one file."""

    def __init__(self, memory):
        from anthropic.lib.tools import ToolError

        from lukasa.integrations.anthropic import LukasaMemoryTool

        self._tool = LukasaMemoryTool(memory)
        with suppress(ToolError):
            self._tool.create(SimpleNamespace(path="/memories/marks.txt", file_text=""))

    def write(self, mark):
        self._tool.insert(SimpleNamespace(path="/memories/marks.txt", insert_line=0, insert_text=mark))

    def read(self):
        text = self._tool.view(SimpleNamespace(path="/memories/marks.txt", view_range=None))
        lines = [line.split("\t")[1] for line in text.splitlines()[1:]]
        return [line for line in reversed(lines) if line]


class PydanticConversation:
    """Saves messages at the end of one conversation."""

    def __init__(self, memory):
        from lukasa.integrations.pydantic_ai import LukasaConversations

        self._store = LukasaConversations(memory)

    def write(self, mark):
        asyncio.run(self._save(mark))

    async def _save(self, mark):
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.conversation_store import ConversationConflict
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        while True:
            conversation = await self._store.load("chat") or Conversation(conversation_id="chat")
            conversation.messages.append(ModelRequest(parts=[UserPromptPart(content=mark)]))
            with suppress(ConversationConflict):
                await self._store.save(conversation)
                return

    def read(self):
        return [message.parts[0].content for message in asyncio.run(self._store.load("chat")).messages]


class PydanticFile:
    """Adds lines to the end of one file."""

    def __init__(self, memory):
        from lukasa.integrations.pydantic_ai_memory import LukasaMemoryFiles

        self._store = LukasaMemoryFiles(memory)

    def write(self, mark):
        asyncio.run(self._write(mark))

    async def _write(self, mark):
        from pydantic_ai_harness.memory import MemoryConflictError, MemoryOperation

        operation = MemoryOperation(id=mark, fingerprint=mark)
        while True:
            file = await self._store.read("agent/marks.md", max_chars=1_000_000)
            text, version = (file.content, file.version) if file else ("", None)
            with suppress(MemoryConflictError):
                for _ in range(2):  # the second is a repeated call
                    await self._store.write(
                        "agent/marks.md", f"{text}{mark}\n", expected_version=version, operation=operation
                    )
                return

    def read(self):
        return present(asyncio.run(self._store.read("agent/marks.md", max_chars=1_000_000))).content.split()


class HermesSession:
    """Stores turns of one session."""

    def __init__(self, memory):
        from lukasa.integrations.hermes import LukasaMemoryProvider

        self._memory = memory
        self._provider = LukasaMemoryProvider(memory.place.url or str(memory.place.path), "ada")
        self._is_open = False

    def write(self, mark):
        if not self._is_open:
            self._provider.initialize("session", hermes_home="/nowhere")
            self._is_open = True
        self._provider.sync_turn(mark, f"answer to {mark}")

    def read(self):
        turns = list(self._memory.as_agent("ada").context.transcript("session"))
        asked, answered = turns[::2], turns[1::2]
        assert [f"answer to {turn.content}" for turn in asked] == [turn.content for turn in answered]
        return [turn.content for turn in asked]


class AdkSession:
    """Adds the events of one session, each twice, as when a session is added again."""

    def __init__(self, memory):
        from google.adk.events.event import Event
        from google.genai.types import Content, Part

        from lukasa.integrations.google_adk import LukasaMemoryService

        self._memory, self._service = memory, LukasaMemoryService(memory)
        self._make_event = lambda mark: Event(id=mark, author="user", content=Content(parts=[Part(text=mark)]))

    def write(self, mark):
        events = [self._make_event(mark)]
        for _ in range(2):
            asyncio.run(
                self._service.add_events_to_memory(app_name="app", user_id="ada", events=events, session_id="s")
            )

    def read(self):
        from lukasa.storage.engine import Query

        return [record.text for record in self._memory.journal.read(Query(kinds=("agent_event",)))]


ADAPTERS: dict[str, Callable] = {
    "adk_session": AdkSession,
    "anthropic_file": AnthropicFile,
    "claude_session": ClaudeSession,
    "graph_saver": GraphSaver,
    "graph_store": GraphStore,
    "hermes_session": HermesSession,
    "openai_session": OpenAISession,
    "pydantic_conversation": PydanticConversation,
    "pydantic_file": PydanticFile,
}


def write_marks(adapter, store, folder, name, first, count):
    """Write marks in a process of its own, and note what was begun and what was acknowledged."""
    import lukasa

    child = os.fork()
    if child:
        return child
    try:
        with lukasa.open(store, embedder="hash") as memory, (Path(folder) / name).open("a", buffering=1) as ledger:
            place = ADAPTERS[adapter](memory)
            for number in range(first, count):
                ledger.write(f"began {name}-{number}\n")
                place.write(f"{name}-{number}")
                ledger.write(f"wrote {name}-{number}\n")
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child process must not go on as the parent
        import traceback

        traceback.print_exc()
        os._exit(1)


def read_ledger(folder, name, word):
    path = Path(folder) / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1] for line in lines if line.startswith(word)]


def race(adapter, store, folder, count):
    """Run the processes, kill and replace one, and return what was acknowledged, begun and found."""
    import lukasa

    with lukasa.open(store) as memory:
        ADAPTERS[adapter](memory)  # imports the framework once, before the processes part
    names = [f"p{number}" for number in range(PROCESSES)]
    children = {name: write_marks(adapter, store, folder, name, 0, count) for name in names}
    for number in range(KILLS):
        while len(read_ledger(folder, "p0", "wrote")) < (number + 1) * count // (KILLS + 1):
            time.sleep(0.002)
        os.kill(children["p0"], signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(children["p0"], 0)[1])
        assert ended in (-signal.SIGKILL, 0), "0: it had written everything just before"
        begun = len(set(read_ledger(folder, "p0", "began")))
        children["p0"] = write_marks(adapter, store, folder, "p0", begun, count)
    failed = [name for name, child in children.items() if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
    with lukasa.open(store) as memory:
        found = ADAPTERS[adapter](memory).read()
        sound = memory.verify().sound
    collect = {
        word: [mark for name in names for mark in read_ledger(folder, name, word)] for word in ("began", "wrote")
    }
    return {**collect, "found": found, "failed": failed, "sound": sound}


def check_race(adapter: str, store: str, folder: Path, count: int = 6) -> None:
    """Assert that eight processes, two of them killed, lose nothing that was acknowledged and add nothing twice."""
    command = [sys.executable, __file__, adapter, store, str(folder), str(count)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert answer["failed"] == [], ran.stderr[-2000:]
    found = answer["found"]
    assert len(found) == len(set(found)), "a mark is there twice"
    assert set(answer["wrote"]) <= set(found), "an acknowledged mark is missing"
    assert set(found) <= set(answer["began"])
    assert len(answer["began"]) == PROCESSES * count
    for name in {mark.split("-")[0] for mark in found}:
        numbers = [int(mark.split("-")[1]) for mark in found if mark.startswith(f"{name}-")]
        assert numbers == sorted(numbers), f"the marks of {name} are out of order"
    assert answer["sound"]


if __name__ == "__main__":
    _, adapter, store, folder, count = sys.argv
    sys.stdout.write(json.dumps(race(adapter, store, folder, int(count))) + "\n")
