"""The LangGraph checkpointer: LangGraph's conformance suite, real graphs, and what the suite does not cover."""

import asyncio
import operator
import uuid
from typing import Annotated, TypedDict

import pytest

from support.narrow import present

pytest.importorskip("langgraph", reason="run by `make test-clients`, which installs LangGraph")

from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph

import lukasa
from lukasa.core.record import draft_from, entry_bytes
from lukasa.integrations.langgraph import MAX_DIFFERENCES, LukasaSaver
from lukasa.integrations.records import hash_names
from lukasa.storage.engine import Query
from support.postgres import shared_server

pytestmark = pytest.mark.slow


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    if request.param == "file":
        yield str(tmp_path / "graph.db")
        return
    with shared_server() as server, server.database() as url:
        yield url


def make_checkpoint(values, versions, number=0):
    return {
        "v": 1,
        "id": str(uuid6(clock_seq=number)),
        "ts": "2026-11-17T12:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }


def thread_config(thread="t", checkpoint_id=None, namespace=""):
    ids = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": ids | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


@pytest.mark.parametrize("odd", ["a\nb", "#1", "ä" * 300, "#" + "0" * 24, "/", "🦊 7"])
def test_checkpoints_and_writes_are_found_by_any_id(location, odd):
    with lukasa.open(location) as memory:
        saver = LukasaSaver(memory)
        for id in (odd, f"{odd}x"):
            checkpoint = make_checkpoint({"name": id}, {"name": 1}) | {"id": id}
            config = saver.put(thread_config(), checkpoint, {}, {"name": 1})
            saver.put_writes(config, [("name", f"{id} next")], odd)
        for id in (odd, f"{odd}x"):
            found = LukasaSaver(memory).get_tuple(thread_config(checkpoint_id=id))
            assert present(found).checkpoint["channel_values"] == {"name": id}
            assert present(found).pending_writes == [(odd, "name", f"{id} next")]


@pytest.mark.requirement("DOO-6")
def test_the_conformance_suite_passes_in_every_capability(location):
    memory = lukasa.open(location)

    @checkpointer_test(name=f"lukasa-{uuid.uuid4()}")
    async def make_saver():
        yield LukasaSaver(memory)

    report = asyncio.run(validate(make_saver))
    memory.close()
    assert len(report.results) == 8
    failed = {name: result for name, result in report.results.items() if not (result.detected and result.passed)}
    assert failed == {}


class Tally(TypedDict):
    names: Annotated[list[str], operator.add]
    total: int


def build_graph(saver):
    def add(state):
        return {"names": [f"n{state['total']}"], "total": state["total"] + 1}

    graph = StateGraph(Tally)
    graph.add_node("add", add)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: END if state["total"] >= 3 else "add")
    return graph.compile(checkpointer=saver)


@pytest.mark.requirement("DOO-6")
def test_a_real_graph_continues_after_a_restart_and_travels_in_time(location):
    with lukasa.open(location) as memory:
        answer = build_graph(LukasaSaver(memory)).invoke({"names": [], "total": 0}, thread_config())
        assert answer == {"names": ["n0", "n1", "n2"], "total": 3}
    with lukasa.open(location) as memory:
        graph = build_graph(LukasaSaver(memory))
        assert graph.get_state(thread_config()).values == {"names": ["n0", "n1", "n2"], "total": 3}
        history = list(graph.get_state_history(thread_config()))
        assert [state.values.get("total") for state in history][:4] == [3, 2, 1, 0]
        early = next(state for state in history if state.values.get("total") == 1)
        forked = graph.update_state(early.config, {"total": 10})
        assert graph.get_state(forked).values["total"] == 10
        assert graph.get_state(early.config).values["total"] == 1


@pytest.mark.requirement("DOO-6")
def test_a_real_graph_runs_asynchronously(location):
    async def run():
        graph = build_graph(LukasaSaver(memory))
        await graph.ainvoke({"names": [], "total": 0}, thread_config())
        return [state.values.get("total") async for state in graph.aget_state_history(thread_config())]

    with lukasa.open(location) as memory:
        assert asyncio.run(run())[:4] == [3, 2, 1, 0]


@pytest.mark.requirement("DOO-6")
def test_a_small_change_of_a_large_state_costs_few_bytes(tmp_path):
    with lukasa.open(str(tmp_path / "graph.db")) as memory:
        saver, config = LukasaSaver(memory), thread_config()
        notes = {f"note {number}": f"{uuid.uuid4()} {uuid.uuid4()}" for number in range(200)}
        sizes = []
        for number in range(2 * MAX_DIFFERENCES):
            notes = notes | {"note 7": f"changed {number}"}
            point = make_checkpoint({"notes": notes, "other": "x"}, {"notes": number + 1, "other": 1}, number)
            changed = {"notes": number + 1} if number else {"notes": 1, "other": 1}
            config = saver.put(config, point, {"source": "loop", "step": number}, changed)
            record = next(memory.journal.read(Query(newest_first=True, limit=1)))
            sizes.append(len(entry_bytes(record)))
            assert present(saver.get_tuple(config)).checkpoint["channel_values"]["notes"] == notes
        assert sizes[0] > 15_000
        assert sorted(sizes)[len(sizes) // 2] <= 1_200


@pytest.mark.requirement("DOO-6")
def test_pruned_threads_keep_whole_values(location):
    with lukasa.open(location) as memory:
        saver, config = LukasaSaver(memory), thread_config()
        text = "long " * 2_000
        for number in range(5):
            point = make_checkpoint(
                {"text": f"{text}{number}", "fixed": text}, {"text": number + 1, "fixed": 1}, number
            )
            config = saver.put(
                config, point, {"step": number}, {"text": number + 1} | ({"fixed": 1} if not number else {})
            )
        saver.prune(["t"])
        (only,) = saver.list(thread_config())
        assert only.checkpoint["channel_values"] == {"text": f"{text}4", "fixed": text}


@pytest.mark.requirement("DOO-6")
def test_the_newest_checkpoint_stays_the_newest_when_earlier_ones_are_deleted_or_come_late(location):
    with lukasa.open(location) as memory:
        saver, config, points = LukasaSaver(memory), thread_config(), []
        text = "long " * 500
        for number in range(6):
            points.append(make_checkpoint({"text": f"{text}{number}"}, {"text": number + 1}, number))
            config = saver.put(config, points[-1], {"run_id": f"run-{number}"}, {"text": number + 1})
        newest = config["configurable"]["checkpoint_id"]
        saver.delete_for_runs(["run-2"])
        assert present(saver.get_tuple(thread_config())).checkpoint["id"] == newest
        saver.put(thread_config(), {**points[0], "channel_values": {"text": "again"}}, {}, {"text": 1})
        found = saver.get_tuple(thread_config())
        assert (present(found).checkpoint["id"], present(found).checkpoint["channel_values"]) == (
            newest,
            {"text": f"{text}5"},
        )
        ids = [item.checkpoint["id"] for item in saver.list(thread_config())]
        assert ids == sorted((point["id"] for point in points if point is not points[2]), reverse=True)
        last = make_checkpoint({"text": "last"}, {"text": 9}, 9)
        saver.put(config, last, {}, {"text": 9})
        assert present(saver.get_tuple(thread_config())).checkpoint["id"] == last["id"]
        saver.copy_thread("t", "copy")
        assert present(saver.get_tuple(thread_config("copy"))).checkpoint["id"] == last["id"]


@pytest.mark.requirement("DOO-6")
def test_savers_that_take_turns_see_what_the_others_wrote_deleted_and_erased(location):
    text = "a sentence of a long state. " * 400
    with lukasa.open(location) as memory, lukasa.open(location) as second:
        savers, parent = [LukasaSaver(memory), LukasaSaver(second)], None
        for number, saver in enumerate([*savers, *savers, savers[0], *savers[::-1]]):
            values = {"notes": f"{text}{number}", "fixed": text}
            versions = {"notes": number + 1, "fixed": 1}
            point = make_checkpoint(values, versions, number)
            changed = versions if parent is None else {"notes": number + 1}
            config = saver.put(thread_config(checkpoint_id=parent), point, {"step": number}, changed)
            parent = point["id"]
            saver.put_writes(config, [("notes", "next")], f"task-{number}")
            for other in savers:
                found = other.get_tuple(thread_config())
                assert (present(found).checkpoint["id"], present(found).checkpoint["channel_values"]) == (
                    parent,
                    values,
                )
        savers[1].delete_thread("t")
        savers[0].put(
            thread_config(checkpoint_id=parent), make_checkpoint({"notes": text}, {"notes": 9}, 9), {}, {"notes": 9}
        )
        assert present(savers[1].get_tuple(thread_config())).checkpoint["channel_values"] == {"notes": text}
        (kept,) = memory.journal.read(Query(kinds=("graph_checkpoint",)))
        memory.journal.erase(kept.key)
        savers[0].put(thread_config(), make_checkpoint({"notes": f"{text}!"}, {"notes": 10}, 10), {}, {"notes": 10})
        for saver in (*savers, LukasaSaver(memory)):
            assert present(saver.get_tuple(thread_config())).checkpoint["channel_values"] == {"notes": f"{text}!"}


@pytest.mark.requirement("DOO-6")
def test_checkpoints_of_a_thread_are_found_in_all_namespaces_once_each(location):
    with lukasa.open(location) as memory:
        saver, ids = LukasaSaver(memory), []
        for number, namespace in enumerate(["", "sub:1", "", "sub:1"]):
            point = make_checkpoint({"n": number}, {"n": number + 1}, number)
            saver.put(thread_config(namespace=namespace), point, {"step": number}, {"n": number + 1})
            ids.append(point["id"])
        roots = [record for record in memory.journal.read(Query(kinds=("graph_checkpoint",))) if not record.body["ns"]]
        assert [len(record.labels) for record in roots] == [1, 1]
        earlier_form = draft_from(roots[0], labels=(f"thread={hash_names('t')}", *roots[0].labels))
        memory.journal.append(earlier_form)  # stores of earlier versions have both labels
        config = {"configurable": {"thread_id": "t"}}
        assert sorted(item.checkpoint["id"] for item in saver.list(config)) == sorted(ids)
        assert [item.checkpoint["id"] for item in saver.list(thread_config(namespace="sub:1"))] == [ids[3], ids[1]]
        saver.put_writes(thread_config(checkpoint_id=ids[2]), [("n", 5)], "task")
        saver.delete_thread("t")
        assert list(saver.list(config)) == []
        assert list(memory.journal.read(Query(kinds=("graph_checkpoint", "graph_writes")))) == []


@pytest.mark.requirement("DOO-6")
def test_delta_channels_survive_pruning(location):
    with lukasa.open(location) as memory:
        saver, config = LukasaSaver(memory), thread_config()
        for number in range(6):
            values = {"log": "snapshot"} if number == 2 else {}
            point = make_checkpoint(values, {"log": number + 1}, number)
            metadata = {"step": number, "counters_since_delta_snapshot": {"log": (max(0, number - 2), number)}}
            config = saver.put(config, point, metadata, {"log": number + 1})
            saver.put_writes(config, [("log", f"write {number}")], f"task-{number}")
        before = saver.get_delta_channel_history(config=config, channels=["log"])
        assert before["log"]["seed"] == "snapshot"
        assert [value for _, _, value in before["log"]["writes"]] == ["write 2", "write 3", "write 4"]
        saver.prune(["t"])
        assert saver.get_delta_channel_history(config=config, channels=["log"]) == before
        assert len(list(saver.list(thread_config()))) == 4


@pytest.mark.requirement("DOO-6")
def test_values_of_unknown_types_are_not_revived(tmp_path):
    from dataclasses import dataclass

    @dataclass
    class Secret:
        text: str

    with lukasa.open(str(tmp_path / "graph.db")) as memory:
        saver = LukasaSaver(memory)
        config = saver.put(thread_config(), make_checkpoint({"x": Secret("s")}, {"x": 1}), {}, {"x": 1})
        assert not isinstance(present(saver.get_tuple(config)).checkpoint["channel_values"].get("x"), Secret)


@pytest.mark.requirement("DOO-6")
def test_agents_do_not_see_each_others_threads(tmp_path):
    with lukasa.open(str(tmp_path / "graph.db")) as owner:
        one, two = (LukasaSaver(owner.as_agent(name)) for name in ("ada", "ben"))
        one.put(thread_config(), make_checkpoint({"x": 1}, {"x": 1}), {}, {"x": 1})
        assert two.get_tuple(thread_config()) is None
        assert one.get_tuple(thread_config()) is not None
