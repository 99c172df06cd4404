"""The knowledge graph on our log: order, atomicity, walls, files; on both engines."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.memory_graph import Entity, MemoryGraph, Relation, Subgraph
from lukasa.outcome import Refused
from support.postgres import shared_server

pytestmark = pytest.mark.requirement("DOO-3")

ADA = Entity("Ada", "person", ("plays the cello", "lives in Kinshasa"))
LAB = Entity("the lab", "place")
WORKS = Relation("Ada", "the lab", "works in")


@pytest.fixture(params=["sqlite", "postgres"])
def memory(request, tmp_path):
    place = tmp_path / "graph.db"
    if request.param == "postgres":
        place = request.getfixturevalue("database")
    with lukasa.open(place, embedder="hash") as memory:
        yield memory


@pytest.fixture(scope="module")
def server():
    with shared_server() as running:
        yield running


@pytest.fixture
def database(server):
    with server.database() as url:
        yield url


def test_a_graph_is_made_read_and_taken_away(memory):
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


def test_observations_are_all_added_or_none(memory):
    memory.graph.create_entities([ADA])
    told = memory.graph.add_observations([("Ada", ["likes tea"]), ("Ghost", ["boo"])])
    assert isinstance(told, Refused)
    assert memory.graph.read_graph().entities == (ADA,)


def test_an_observation_is_recalled_and_goes_with_its_entity(memory):
    memory.graph.create_entities([ADA])
    assert memory.recall("who plays the cello?", 1).hits[0].record.text == "plays the cello"
    record = memory.recall("cello", 1).hits[0].record
    memory.journal.erase(record.links[0].to)
    assert memory.graph.read_graph() == Subgraph()
    assert memory.recall("who plays the cello?", 1).hits == ()


def test_a_graph_of_another_agent_is_behind_the_wall(tmp_path):
    place = tmp_path / "walls.db"
    with lukasa.open(place, agent="ada", scopes=["ada"]) as ada, lukasa.open(place, agent="bob", scopes=["bob"]) as bob:
        ada.graph.create_entities([ADA])
        assert bob.graph.read_graph() == Subgraph()
        assert bob.graph.create_entities([ADA]) == (ADA,)


NAMES = st.sampled_from(["Ada", "Bob", "", "x" * 500, "../../etc", "é", "e\u0301", "a\nb", "CON"])
TEXTS = st.lists(st.sampled_from(["one", "two", "", "Ünï", "two\n"]), max_size=3, unique=True)
DEEDS = st.one_of(
    st.tuples(st.just("create"), NAMES, TEXTS),
    st.tuples(st.just("add"), NAMES, TEXTS),
    st.tuples(st.just("unsay"), NAMES, TEXTS),
    st.tuples(st.just("delete"), NAMES, st.just([])),
    st.tuples(st.just("relate"), NAMES, NAMES),
)


DO = {
    "create": lambda graph, name, what: graph.create_entities([Entity(name, "thing", tuple(what))]),
    "add": lambda graph, name, what: graph.add_observations([(name, what)]),
    "unsay": lambda graph, name, what: graph.delete_observations([(name, what)]),
    "delete": lambda graph, name, _: graph.delete_entities([name]),
    "relate": lambda graph, name, what: graph.create_relations([Relation(name, what, "to")]),
}


@given(st.lists(DEEDS, max_size=12))
@settings(max_examples=30)
def test_the_graph_is_what_a_plain_model_says_it_is(deeds):
    entities: dict[str, list[str]] = {}
    relations: list[tuple[str, str]] = []
    with lukasa.open("memory:", embedder="hash") as memory:
        graph = memory.graph
        for deed, name, what in deeds:
            if deed == "create" and name not in entities:
                entities[name] = list(what)
            elif deed == "add" and name in entities:
                entities[name] += [text for text in what if text not in entities[name]]
            elif deed == "unsay" and name in entities:
                entities[name] = [text for text in entities[name] if text not in what]
            elif deed == "delete":
                entities.pop(name, None)
                relations = [pair for pair in relations if name not in pair]
            elif deed == "relate" and (name, what) not in relations:
                relations.append((name, what))
            DO[deed](graph, name, what)
        found = graph.read_graph()
    assert [(entity.name, list(entity.observations)) for entity in found.entities] == list(entities.items())
    assert [(relation.source, relation.target) for relation in found.relations] == relations


def test_a_file_is_taken_in_twice_and_written_back(tmp_path):
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


def test_the_tools_say_no_as_the_reference_server_does(serving):
    async def conversation(client):
        names = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool(
            "add_observations", {"observations": [{"entityName": "Ghost", "contents": ["boo"]}]}
        )
        resource = await client.read_resource("memory://knowledge-graph")
        return names, answer, resource.contents[0].text

    names, answer, resource = serving("ada", compat="memory-graph").talk(conversation)
    assert len(names) == 21
    assert answer.is_error
    assert answer.content[0].text == "Entity with name Ghost not found"
    assert json.loads(resource) == {"entities": [], "relations": []}


def test_a_graph_needs_a_scope(tmp_path):
    with lukasa.open(tmp_path / "a.db", scopes=["one", "two"]) as memory, pytest.raises(lukasa.errors.InvalidInput):
        memory.graph.read_graph()
    with lukasa.open(tmp_path / "a.db", scopes=["one", "two"]) as memory:
        assert isinstance(memory.graph.within("one"), MemoryGraph)
