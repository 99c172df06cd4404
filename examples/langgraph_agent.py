"""A LangGraph agent that goes on after its process ended, and remembers across threads. Needs the extra ``langgraph``.

Prints:
    first run: ['asked for tea', 'counted 1']
    after a restart: ['asked for tea', 'counted 1', 'asked again', 'counted 2']
    another thread knows: likes tea
"""

import operator
import tempfile
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

import lukasa
from lukasa.integrations.langgraph import LukasaSaver
from lukasa.integrations.langgraph_store import LukasaStore


class Visits(TypedDict):
    events: Annotated[list[str], operator.add]
    count: int


def build(memory: lukasa.Memory) -> CompiledStateGraph:
    def count(state: Visits) -> dict[str, Any]:
        visits = state.get("count", 0) + 1
        return {"events": [f"counted {visits}"], "count": visits}

    graph = StateGraph(Visits)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    graph.add_edge("count", END)
    return graph.compile(checkpointer=LukasaSaver(memory), store=LukasaStore(memory))


with tempfile.TemporaryDirectory() as folder:
    thread = {"configurable": {"thread_id": "ada"}}
    with lukasa.open(Path(folder) / "agents.db") as memory:
        print("first run:", build(memory).invoke({"events": ["asked for tea"]}, thread)["events"])
        LukasaStore(memory).put(("users", "ada"), "taste", {"text": "likes tea"})
    with lukasa.open(Path(folder) / "agents.db") as memory:  # another process, another day
        print("after a restart:", build(memory).invoke({"events": ["asked again"]}, thread)["events"])
        found = LukasaStore(memory).search(("users", "ada"), query="what does she like to drink?")
        print("another thread knows:", found[0].value["text"])
