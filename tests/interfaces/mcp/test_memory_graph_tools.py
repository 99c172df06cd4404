"""The knowledge graph: order, atomicity, scopes and files, on both engines."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.core.outcome import Refused
from lukasa.memory_graph import Entity, MemoryGraph, Relation, Subgraph
from support.postgres import shared_server

pytestmark = pytest.mark.requirement("DOO-3")

ADA = Entity("Ada", "person", ("plays the cello", "lives in Kinshasa"))
LAB = Entity("the lab", "place")
WORKS = Relation("Ada", "the lab", "works in")


@pytest.fixture(params=["sqlite", "postgres"])
def memory(request, tmp_path):
    """Return an empty store on each engine."""
    store = tmp_path / "graph.db"
    if request.param == "postgres":
        store = request.getfixturevalue("database")
    with lukasa.open(store, embedder="hash") as memory:
        yield memory


@pytest.fixture(scope="module")
def postgres_server():
    """Return a running PostgreSQL server."""
    with shared_server() as running:
        yield running


@pytest.fixture
def database(postgres_server):
    """Return the URL of an empty database."""
    with postgres_server.database() as url:
        yield url


def test_a_graph_is_created_read_searched_and_deleted(memory):
    graph = memory.graph
    assert graph.create_entities([ADA, LAB, ADA]) == (ADA, LAB)
    assert graph.create_entities([ADA]) == ()
    assert graph.create_relations([WORKS, WORKS]) == (WORKS,)
    assert graph.add_observations([("Ada", ["likes tea", "plays the cello"])]) == (("Ada", ("likes tea",)),)
    assert graph.read_graph().entities[0].observations == ("plays the cello", "lives in Kinshasa", "likes tea")
    assert graph.search_nodes("CELLO") == Subgraph((graph.read_graph().entities[0],), (WORKS,))
    assert graph.open_nodes(["the lab"]) == Subgraph((LAB,), (WORKS,))
    graph.delete_observations([("Ada", ["likes tea"])])
    assert graph.open_nodes(["Ada"]).entities == (ADA,)
    graph.delete_entities(["Ada"])
    assert graph.read_graph() == Subgraph((LAB,))
    assert graph.create_entities([ADA]) == (ADA,)
    assert graph.read_graph().entities == (LAB, ADA)


def test_adding_observations_adds_all_or_none(memory):
    memory.graph.create_entities([ADA])
    outcome = memory.graph.add_observations([("Ada", ["likes tea"]), ("Ghost", ["boo"])])
    assert isinstance(outcome, Refused)
    assert memory.graph.read_graph().entities == (ADA,)


def test_recall_finds_an_observation_until_its_entity_is_erased(memory):
    memory.graph.create_entities([ADA])
    assert memory.recall("who plays the cello?", 1).hits[0].record.text == "plays the cello"
    record = memory.recall("cello", 1).hits[0].record
    memory.journal.erase(record.links[0].to)
    assert memory.graph.read_graph() == Subgraph()
    assert memory.recall("who plays the cello?", 1).hits == ()


def test_a_graph_in_a_private_scope_is_hidden_from_other_agents(tmp_path):
    store = tmp_path / "graph.db"
    with lukasa.open(store, agent="ada", scopes=["ada"]) as ada, lukasa.open(store, agent="bob", scopes=["bob"]) as bob:
        ada.graph.create_entities([ADA])
        assert bob.graph.read_graph() == Subgraph()
        assert bob.graph.create_entities([ADA]) == (ADA,)


NAMES = st.sampled_from(["Ada", "Bob", "", "x" * 500, "../../etc", "é", "e\u0301", "a\nb", "CON"])
TEXTS = st.lists(st.sampled_from(["one", "two", "", "Ünï", "two\n"]), max_size=3, unique=True)
OPERATIONS: st.SearchStrategy[tuple[str, str, Any]] = st.one_of(
    st.tuples(st.just("create"), NAMES, TEXTS),
    st.tuples(st.just("add"), NAMES, TEXTS),
    st.tuples(st.just("remove"), NAMES, TEXTS),
    st.tuples(st.just("delete"), NAMES, st.just([])),
    st.tuples(st.just("relate"), NAMES, NAMES),
)


APPLY = {
    "create": lambda graph, name, argument: graph.create_entities([Entity(name, "thing", tuple(argument))]),
    "add": lambda graph, name, argument: graph.add_observations([(name, argument)]),
    "remove": lambda graph, name, argument: graph.delete_observations([(name, argument)]),
    "delete": lambda graph, name, _: graph.delete_entities([name]),
    "relate": lambda graph, name, argument: graph.create_relations([Relation(name, argument, "to")]),
}


@given(st.lists(OPERATIONS, max_size=12))
@settings(max_examples=30)
def test_the_graph_equals_a_plain_model_after_any_operations(operations):
    entities: dict[str, list[str]] = {}
    relations: list[tuple[str, str]] = []
    with lukasa.open("memory:", embedder="hash") as memory:
        graph = memory.graph
        for operation, name, argument in operations:
            if operation == "create" and name not in entities:
                entities[name] = list(argument)
            elif operation == "add" and name in entities:
                entities[name] += [text for text in argument if text not in entities[name]]
            elif operation == "remove" and name in entities:
                entities[name] = [text for text in entities[name] if text not in argument]
            elif operation == "delete":
                entities.pop(name, None)
                relations = [pair for pair in relations if name not in pair]
            elif operation == "relate" and (name, argument) not in relations:
                relations.append((name, argument))
            APPLY[operation](graph, name, argument)
        found = graph.read_graph()
    assert [(entity.name, list(entity.observations)) for entity in found.entities] == list(entities.items())
    assert [(relation.source, relation.target) for relation in found.relations] == relations


def test_a_file_is_imported_once_and_exported_unchanged(tmp_path):
    lines = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["plays the cello"]},
        {"type": "relation", "from": "Ada", "to": "nowhere", "relationType": "is"},
    ]
    file = tmp_path / "memory.json"
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    file.write_text(text + '\n{"type": "other"}\n{broken\n{"type": "entity", "name": 5}\n')
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        first = memory.import_(file, format="memory-graph")
        assert (first.added, first.present) == (2, 0)
        assert [where for where, _ in first.refused] == ["line 3", "line 4", "line 5"]
        assert memory.import_(file, format="memory-graph").present == 2
        assert memory.export(tmp_path / "again.json", format="memory-graph") == 2
    assert (tmp_path / "again.json").read_text() == text


def test_the_tools_report_errors_as_the_reference_server_does(server_for):
    async def conversation(client):
        names = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool(
            "add_observations", {"observations": [{"entityName": "Ghost", "contents": ["boo"]}]}
        )
        resource = await client.read_resource("memory://knowledge-graph")
        return names, answer, resource.contents[0].text

    names, answer, resource = server_for("ada", compat="memory-graph").converse(conversation)
    assert len(names) == 21
    assert answer.is_error
    assert answer.content[0].text == "Entity with name Ghost not found"
    assert json.loads(resource) == {"entities": [], "relations": []}


def test_a_graph_needs_a_scope(tmp_path):
    with lukasa.open(tmp_path / "a.db", scopes=["one", "two"]) as memory, pytest.raises(lukasa.errors.InvalidInput):
        memory.graph.read_graph()
    with lukasa.open(tmp_path / "a.db", scopes=["one", "two"]) as memory:
        assert isinstance(memory.graph.within("one"), MemoryGraph)
