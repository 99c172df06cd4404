"""Sources that only their own program writes: checkpoints of LangGraph, and files for Anthropic's memory tool."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from support.narrow import source_report

pytest.importorskip("anthropic", reason="run by `make test-clients`, which installs the Anthropic SDK")
pytest.importorskip("langgraph.checkpoint.sqlite", reason="run by `make test-clients`, which installs LangGraph")

import ormsgpack
from anthropic.types.beta import BetaMemoryTool20250818ViewCommand
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_SINGLE_ARG
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

import lukasa
from lukasa.integrations.anthropic import LukasaMemoryTool
from lukasa.transfer.sources import detect_format

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-6")]


@pytest.fixture
def checkpoints(tmp_path):
    """Return a file with the checkpoints of a graph that answered twice in one thread."""
    path = tmp_path / "checkpoints.db"
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage(f"Answer {len(state['messages'])}")]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = graph.compile(checkpointer=saver)
        for question in ("Where is the office?", "And the car?"):
            app.invoke({"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": "t1"}})
    return path


def test_the_messages_of_a_real_graph_are_imported_once(checkpoints, tmp_path):
    assert detect_format(checkpoints) == "langgraph"
    assert lukasa.audit_source(checkpoints).turns == 4
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        assert source_report(memory.import_(checkpoints, format="langgraph")).turns == 4
        assert memory.import_(checkpoints, format="langgraph").added == 0
        turns = list(memory.context.transcript("langgraph-t1"))
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "Where is the office?"),
        ("assistant", "Answer 1"),
        ("user", "And the car?"),
        ("assistant", "Answer 3"),
    ]
    times = [str(turn.timestamp) for turn in turns]
    assert times == sorted(times)
    assert len(set(times)) > 1


def test_a_checkpoint_that_names_other_classes_builds_none(checkpoints, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    evil = ormsgpack.Ext(EXT_CONSTRUCTOR_SINGLE_ARG, ormsgpack.packb(("os", "system", "touch owned")))
    state = ormsgpack.packb({"channel_values": {"messages": [evil]}})
    with sqlite3.connect(checkpoints) as database:
        database.execute("UPDATE checkpoints SET checkpoint = ?", (state,))
    found = lukasa.audit_source(checkpoints)
    with sqlite3.connect(checkpoints) as database:
        database.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", (b"cos\nsystem\n.",))
    database.close()
    for result in (found, lukasa.audit_source(checkpoints)):
        assert ([code for _, code, _ in result.refusals], result.added) == (["unreadable"], 0)
    assert not Path("owned").exists()


def test_imported_files_are_those_of_the_memory_tool(tmp_path):
    (tmp_path / "memories" / "projects").mkdir(parents=True)
    (tmp_path / "memories" / "projects" / "shop.md").write_text("The shop runs on two hosts.\n")
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        assert source_report(memory.import_(tmp_path, format="anthropic")).files == 1
        tool = LukasaMemoryTool(memory, scope="shared")
        file = BetaMemoryTool20250818ViewCommand(command="view", path="/memories/projects/shop.md")
        folder = BetaMemoryTool20250818ViewCommand(command="view", path="/memories")
        assert "The shop runs on two hosts." in tool.view(file)
        assert "/memories/projects/shop.md" in tool.view(folder)
        assert [hit.text for hit in memory.recall("How many hosts does the shop have?").hits] == [
            "The shop runs on two hosts.\n"
        ]
