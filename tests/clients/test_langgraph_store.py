"""The LangGraph store: a differential test against LangGraph's own, semantic search, and time to live."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="run by `make test-clients`, which installs LangGraph")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import InvalidNamespaceError
from langgraph.store.memory import InMemoryStore

import lukasa
from lukasa.integrations.langgraph import LukasaSaver
from lukasa.integrations.langgraph_store import LukasaStore
from lukasa.testing import FrozenClock
from support.postgres import shared_server

pytestmark = pytest.mark.slow
LABELS = st.sampled_from(["a", "b", "A", "a%", "a_"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
VALUES = st.fixed_dictionaries(
    {
        "n": st.integers(0, 3),
        "kind": st.sampled_from(["x", "y"]),
        "inner": st.fixed_dictionaries({"m": st.integers(0, 1)}),
    }
)
FILTERS = st.sampled_from(
    [
        None,
        {"kind": "x"},
        {"n": {"$gte": 2}},
        {"n": {"$lt": 2}, "kind": {"$ne": "x"}},
        {"inner": {"m": 1}},
        {"missing": {"$gt": 1}},
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMESPACES, st.sampled_from("kl"), VALUES),
        st.tuples(st.just("delete"), NAMESPACES, st.sampled_from("kl")),
        st.tuples(st.just("get"), NAMESPACES, st.sampled_from("kl")),
        st.tuples(st.just("search"), PREFIXES, FILTERS),
        st.tuples(st.just("namespaces"), st.sampled_from([None, 1, 2]), st.sampled_from([None, ("a",), ("*", "b")])),
    ),
    max_size=16,
)


@pytest.fixture(params=["file", "postgresql"])
def memory(request, tmp_path):
    if request.param == "file":
        with lukasa.open(str(tmp_path / "store.db"), embedder="hash") as opened:
            yield opened
        return
    with shared_server() as server, server.database() as url, lukasa.open(url, embedder="hash") as opened:
        yield opened


def answers_of(store, steps):
    found = []
    for action, *values in steps:
        if action == "put":
            store.put(*values)
        elif action == "delete":
            store.delete(*values)
        elif action == "get":
            item = store.get(*values)
            found.append(item and (item.namespace, item.key, item.value))
        elif action == "search":
            prefix, condition = values
            try:
                items = store.search(prefix, filter=condition, limit=100)
            except TypeError:  # the reference cannot compare a missing value
                items = []
            found.append(sorted((item.namespace, item.key, str(item.value), item.score) for item in items))
        else:
            depth, prefix = values
            found.append(store.list_namespaces(prefix=prefix, max_depth=depth))
    return found


@pytest.mark.requirement("DOO-6")
@settings(max_examples=80, deadline=None)
@given(steps=STEPS)
def test_the_store_answers_as_langgraphs_own(steps):
    if any(step[0] in ("delete", "get") for step in steps):  # the reference lists namespaces that hold nothing
        steps = [step for step in steps if step[0] != "namespaces"]
    with lukasa.open("memory:", embedder="hash") as memory:
        assert answers_of(LukasaStore(memory), steps) == answers_of(InMemoryStore(), steps)


@pytest.mark.requirement("DOO-6")
def test_a_namespace_is_gone_with_its_last_item(memory):
    store = LukasaStore(memory)
    store.put(("users", "ada"), "k", {"x": 1})
    store.put(("users", "ben"), "k", {"x": 1})
    store.delete(("users", "ada"), "k")
    assert store.list_namespaces() == [("users", "ben")]
    assert store.list_namespaces(suffix=("ben",)) == [("users", "ben")]
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph",), "k", {})


@pytest.mark.requirement("DOO-6")
def test_a_filter_finds_equal_values_of_any_kind_and_items_with_many_fields(memory):
    stores = LukasaStore(memory), InMemoryStore()
    values: list = [1, 1.0, True, 0, -0.0, False, 10**400, 10**400 + 1, "1", "", "long " * 100, None, [1], {"a": 1}]
    for store in stores:
        for number, value in enumerate(values):
            store.put(("n",), f"k{number}", {"x": value, "other": number})
        store.put(("n",), "many", {f"f{number}": number for number in range(200)} | {"x": 1, "other": 7})
        store.put(("n", "deep"), "many", {f"f{number}": "text" for number in range(200)} | {"x": "1", "other": 1})
    for wanted in values:
        for condition in ({"x": wanted}, {"x": wanted, "other": {"$gte": 2}}, {"x": {"$eq": wanted}}):
            found = [{item.key for item in store.search(("n",), filter=condition, limit=50)} for store in stores]
            assert found[0] == found[1], condition


@pytest.mark.requirement("DOO-6")
def test_a_query_finds_by_meaning_within_the_namespace_and_the_filter(memory):
    store = LukasaStore(memory, fields=["text"])
    store.put(("users", "ada"), "1", {"text": "She prefers tea in the morning", "kind": "taste"})
    store.put(("users", "ada"), "2", {"text": "The deploy key is rotated monthly", "kind": "ops"})
    store.put(("users", "ben"), "3", {"text": "He prefers tea too", "kind": "taste"})
    store.put(("users", "ada"), "4", {"text": "tea tea tea", "kind": "taste"}, index=False)
    best, *rest = store.search(("users", "ada"), query="what tea does she like?")
    assert (best.key, {item.key for item in rest}) == ("1", {"2", "4"})
    assert best.score is not None
    assert [item.key for item in store.search(("users",), query="tea", filter={"kind": "ops"})] == ["2"]


@pytest.mark.requirement("DOO-6")
def test_items_expire_and_reading_extends_their_life(memory):
    clock = FrozenClock()
    store = LukasaStore(memory, ttl={"default_ttl": 10}, clock=clock)
    store.put(("a",), "read", {"x": 1})
    store.put(("a",), "left", {"x": 2})
    store.put(("a",), "kept", {"x": 3}, ttl=None)
    clock.advance(8 * 60)
    assert store.get(("a",), "read").value == {"x": 1}
    clock.advance(5 * 60)
    assert [item.key for item in store.search(("a",), refresh_ttl=False)].count("left") == 0
    assert store.get(("a",), "read") is not None
    assert store.get(("a",), "kept") is not None
    assert store.sweep_ttl() == 1


@pytest.mark.requirement("DOO-6")
def test_the_store_works_asynchronously_and_survives_a_restart(tmp_path):
    path = str(tmp_path / "store.db")

    async def run(memory):
        store = LukasaStore(memory)
        await asyncio.gather(*(store.aput(("n",), str(number), {"number": number}) for number in range(20)))
        return await store.aget(("n",), "7")

    with lukasa.open(path, embedder="hash") as memory:
        assert asyncio.run(run(memory)).value == {"number": 7}
    with lukasa.open(path) as memory:
        assert len(LukasaStore(memory).search(("n",), limit=100)) == 20


@pytest.mark.requirement("DOO-6")
def test_an_agent_keeps_its_files_in_the_store_and_continues_after_a_restart(tmp_path):
    """A run as of a deep agent: a scripted model plans, and writes and reads files of the store with tools."""

    @tool
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        get_store().put(("filesystem", "ada"), path, {"content": content.splitlines(), "modified_at": "2026-11-17"})
        return f"Updated {path}"

    @tool
    def list_files() -> list[str]:
        """List the files."""
        found: list[str] = []
        store = get_store()
        while page := store.search(("filesystem", "ada"), limit=2, offset=len(found)):
            found += [item.key for item in page]
        return sorted(found)

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        item = get_store().get(("filesystem", "ada"), path)
        return "\n".join(item.value["content"]) if item else f"{path} is not there"

    def run_agent(memory, script):
        """Run a graph whose model makes one call of a tool after the other, and return the answers of the tools."""
        calls = [{"name": name, "args": args, "id": f"call-{number}"} for number, (name, args) in enumerate(script)]

        def model(state):
            done = sum(isinstance(message, ToolMessage) for message in state["messages"][state["start"] :])
            return {"messages": [AIMessage("", tool_calls=calls[done : done + 1])]}

        class AgentState(MessagesState):
            start: int

        graph = StateGraph(AgentState)
        graph.add_node("model", model)
        graph.add_node("tools", ToolNode([write_file, list_files, read_file]))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        graph.add_edge("tools", "model")
        agent = graph.compile(checkpointer=LukasaSaver(memory), store=LukasaStore(memory))
        config: Any = {"configurable": {"thread_id": "deep"}}
        start = len(agent.get_state(config).values.get("messages", ()))
        state = agent.invoke({"messages": [HumanMessage("Go on.")], "start": start}, config)
        return [message.content for message in state["messages"][start:] if isinstance(message, ToolMessage)]

    path = str(tmp_path / "agent.db")
    with lukasa.open(path, embedder="hash") as memory:
        plan = [("write_file", {"path": f"/notes/{name}.md", "content": f"{name}\nline"}) for name in "abcde"]
        assert len(run_agent(memory, [*plan, ("read_file", {"path": "/notes/z.md"})])) == 6
    with lukasa.open(path, embedder="hash") as memory:
        answers = run_agent(memory, [("list_files", {}), ("read_file", {"path": "/notes/c.md"})])
        assert answers == [json.dumps([f"/notes/{name}.md" for name in "abcde"]), "c\nline"]
