"""The paths of mem0's API: those of its hosted service and those of its open-source server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-6")


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> Iterator[CallerStores]:
    stores = CallerStores(str(tmp_path_factory.mktemp("mem0") / "agents.db"), Caller(), embedder="hash")
    yield stores
    stores.close()


@pytest.fixture(scope="module")
def tokens(stores: CallerStores) -> ApiTokens:
    return StoreTokenSource(stores).open()


@pytest.fixture(scope="module")
def secrets(tokens: ApiTokens) -> dict[str, str]:
    return {agent: tokens.add(agent or "owner", agent=agent) for agent in ("", "ada")}


@pytest.fixture(scope="module")
def connect_mem0(stores: CallerStores, secrets: dict[str, str]) -> Iterator[Callable[..., TestClient]]:
    """Return a function that opens a client as mem0 does it: with ``Token``, or with ``X-API-Key``."""
    app = build_app(stores, StoreTokenSource(stores), ["testserver"], compat="mem0")
    clients: list[TestClient] = []

    def open_client(agent: str, *, key_header: bool = False) -> TestClient:
        secret = secrets.get(agent, agent)
        headers = {"X-API-Key": secret} if key_header else {"Authorization": f"Token {secret}"}
        clients.append(TestClient(app, raise_server_exceptions=False, headers=headers))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def client(connect_mem0: Callable[..., TestClient]) -> TestClient:
    return connect_mem0("")


@pytest.fixture(autouse=True)
def forget_everything(stores: CallerStores) -> Iterator[None]:
    """Leave no memory to the next test of this file, which shares the store, because building the app takes a second."""
    yield
    vault = stores.for_caller(Caller()).vault
    for item in vault.list():
        vault.delete(item.id, scope=item.scope)


def say(text: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": text}


def add(client: TestClient, *messages: dict[str, str], status: int = 200, **fields: object) -> dict:
    answer = client.post("/v3/memories/add/", json={"messages": list(messages), **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


def search(client: TestClient, query: str, **fields: object) -> list[str]:
    answer = client.post("/v3/memories/search/", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return [item["memory"] for item in answer.json()["results"]]


def test_the_statements_of_messages_are_stored_and_the_answer_says_how(client):
    answer = add(client, say("My name is Ada and I live in Berlin."), say("Hello Ada!", "assistant"), user_id="ada-1")
    stored = [item for item in answer["results"] if item["event"] == "ADD"]
    assert stored
    assert all(item["inferred"] for item in stored)
    assert "No language model" in answer["note"]
    skipped = [item for item in answer["results"] if item["event"] == "NONE"]
    assert [item["memory"] for item in skipped] == ["Hello Ada!"]
    assert "infer=false" in skipped[0]["reason"]
    assert any("Berlin" in text for text in search(client, "Where does she live?", filters={"user_id": "ada-1"}))


def test_a_message_without_a_statement_is_stored_as_it_was_said(client):
    answer = add(client, say("Locker fourteen, second floor, blue door"), user_id="ada-1")
    assert [(item["memory"], item["event"], item["inferred"]) for item in answer["results"]] == [
        ("Locker fourteen, second floor, blue door", "ADD", False)
    ]


def test_a_question_states_nothing(client):
    answer = add(client, say("What is the weather like?"), user_id="ada-1")
    assert [(item["event"], item["reason"]) for item in answer["results"]] == [
        ("NONE", "A question states nothing to remember.")
    ]


def test_without_inference_every_message_is_stored_word_for_word(client):
    answer = add(client, say("I like tea."), say("Noted: tea.", "assistant"), user_id="ada-1", infer=False)
    assert [item["memory"] for item in answer["results"]] == ["I like tea.", "Noted: tea."]
    assert "note" not in answer


def test_a_repeated_statement_names_the_memory_that_is_there(client):
    first = add(client, say("The office is on Main Street."), user_id="ada-1", infer=False)["results"][0]
    again = add(client, say("The office is on Main Street."), user_id="ada-1", infer=False)["results"][0]
    assert (again["event"], again["id"]) == ("NONE", first["id"])


def test_a_secret_is_refused(client):
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq2q1hC3sY0vF1\n-----END RSA PRIVATE KEY-----"
    answer = add(client, say(f"Use this: {key}"), user_id="ada-1", infer=False, status=422)
    assert answer["code"] == "pii"
    assert search(client, "key", filters={"user_id": "ada-1"}) == []


def test_options_that_mean_nothing_here_are_named(client):
    answer = add(client, say("I like tea."), user_id="ada-1", custom_instructions="Only food.", timestamp=1)
    assert answer["ignored"] == ["custom_instructions", "timestamp"]


def test_users_do_not_see_each_other(client):
    add(client, say("The password policy is strict."), user_id="ada-1", infer=False)
    assert search(client, "password policy", filters={"user_id": "ben-1"}) == []
    assert len(search(client, "password policy", filters={"user_id": "ada-1"})) == 1


def test_the_scope_is_that_of_the_user_and_the_rest_are_filters(client, stores):
    add(client, say("Tea is served at four."), user_id="ada-1", agent_id="butler", run_id="r1", infer=False)
    add(client, say("Coffee is served at nine."), user_id="ada-1", run_id="r2", infer=False)
    add(client, say("The butler speaks French."), agent_id="butler", infer=False)
    scopes = {item.text: item.scope for item in stores.for_caller(Caller()).vault.list()}
    assert scopes == {
        "Tea is served at four.": "user:ada-1",
        "Coffee is served at nine.": "user:ada-1",
        "The butler speaks French.": "butler",
    }
    for filters, found in (
        ({"user_id": "ada-1"}, {"Tea is served at four.", "Coffee is served at nine."}),
        ({"AND": [{"user_id": "ada-1"}, {"run_id": "r1"}]}, {"Tea is served at four."}),
        ({"run_id": "r2"}, {"Coffee is served at nine."}),
        ({"agent_id": "butler"}, {"Tea is served at four.", "The butler speaks French."}),
        ({"OR": [{"run_id": "r1"}, {"run_id": "r2"}]}, {"Tea is served at four.", "Coffee is served at nine."}),
        ({"user_id": "ada-1", "NOT": [{"run_id": "r1"}]}, {"Coffee is served at nine."}),
        ({"user_id": "*"}, {"Tea is served at four.", "Coffee is served at nine."}),
    ):
        listed = client.post("/v3/memories/", json={"filters": filters}).json()
        assert {item["memory"] for item in listed["results"]} == found, filters
        assert set(search(client, "what is served, and what does the butler speak?", filters=filters)) == found


def test_what_other_interfaces_stored_for_a_user_is_found(client, stores):
    stores.for_caller(Caller()).remember("Ada prefers tea.", scope="user:ada-1", tags=["drink"])
    (item,) = client.post("/v3/memories/", json={"filters": {"user_id": "ada-1"}}).json()["results"]
    assert (item["user_id"], item["memory"], item["metadata"]) == ("ada-1", "Ada prefers tea.", {"tags": ["drink"]})


def test_metadata_comes_back_and_can_be_filtered(client):
    metadata = {"topic": "food", "level": 3, "sure": True, "none": None, "list": ["a", "ü"]}
    add(client, say("Rice is eaten daily."), user_id="ada-1", metadata=metadata, infer=False)
    add(client, say("Trains run daily."), user_id="ada-1", metadata={"topic": "travel", "level": 9}, infer=False)
    (item,) = client.post(
        "/v3/memories/", json={"filters": {"user_id": "ada-1", "metadata": {"topic": "food"}}}
    ).json()["results"]
    assert item["metadata"] == metadata
    listed = client.post("/v3/memories/", json={"filters": {"AND": [{"user_id": "ada-1"}, {"level": {"gt": 5}}]}})
    assert [item["memory"] for item in listed.json()["results"]] == ["Trains run daily."]


def test_metadata_that_does_not_fit_is_refused_and_not_cut(client):
    answer = add(client, say("I like tea."), user_id="ada-1", metadata={"long": "x" * 200}, status=422)
    assert "'long'" in answer["detail"]


def test_an_unknown_comparison_is_refused_with_the_known_ones(client):
    add(client, say("I like tea."), user_id="ada-1")
    answer = client.post("/v3/memories/", json={"filters": {"user_id": "ada-1", "created_at": {"near": "now"}}})
    assert answer.status_code == 422
    assert "gte" in answer.json()["next"]


def test_a_deeply_nested_filter_is_refused(client):
    add(client, say("I like tea."), user_id="ada-1")
    filters: dict = {"user_id": "ada-1"}
    for _ in range(60):
        filters = {"AND": [filters]}
    assert client.post("/v3/memories/", json={"filters": filters}).status_code == 422


def test_pages_are_linked(client):
    for number in ("one", "two", "three"):
        add(client, say(f"Rule {number} is about {number * 3}."), user_id="ada-1", infer=False)
    answer = client.post("/v3/memories/?page=1&page_size=2", json={"filters": {"user_id": "ada-1"}}).json()
    assert (answer["count"], len(answer["results"]), answer["previous"]) == (3, 2, None)
    assert "page=2" in answer["next"]


def test_an_expired_memory_is_left_out_unless_asked_for(client):
    add(client, say("The sale ends soon."), user_id="ada-1", expiration_date="2020-01-31", infer=False)
    filters = {"user_id": "ada-1"}
    assert client.post("/v3/memories/", json={"filters": filters}).json()["results"] == []
    (item,) = client.post("/v3/memories/", json={"filters": filters, "show_expired": True}).json()["results"]
    assert item["expiration_date"] == "2020-01-31"
    assert search(client, "When does the sale end?", filters=filters) == []


def test_a_memory_is_changed_deleted_and_keeps_its_history(client):
    (stored,) = add(client, say("The office is in Bonn."), user_id="ada-1", infer=False)["results"]
    path = f"/v1/memories/{stored['id']}/"
    changed = client.put(path, json={"text": "The office is in Kiel.", "metadata": {"sure": True}}).json()
    assert (changed["memory"], changed["metadata"], changed["user_id"]) == (
        "The office is in Kiel.",
        {"sure": True},
        "ada-1",
    )
    assert client.get(path).json()["memory"] == "The office is in Kiel."
    assert client.delete(path).status_code == 200
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404
    history = client.get(path + "history/").json()
    assert [(event["event"], event["old_memory"], event["new_memory"]) for event in history] == [
        ("ADD", None, "The office is in Bonn."),
        ("UPDATE", "The office is in Bonn.", "The office is in Kiel."),
        ("DELETE", "The office is in Kiel.", None),
    ]


def test_deleting_all_needs_a_name_and_spares_the_others(client):
    add(client, say("Ada likes tea."), user_id="ada-1", infer=False)
    add(client, say("Ben likes tea."), user_id="ben-1", infer=False)
    assert client.delete("/v1/memories/").status_code == 422
    assert client.delete("/v1/memories/", params={"user_id": "ada-1"}).json()["deleted"] == 1
    names = [(entity["type"], entity["name"]) for entity in client.get("/v1/entities/").json()["results"]]
    assert names == [("user", "ben-1")]
    assert client.delete("/v2/entities/user/ben-1/").json()["deleted"] == 1


def test_the_paths_of_the_open_source_server(connect_mem0):
    client = connect_mem0("", key_header=True)
    added = client.post("/memories", json={"messages": [say("Lunch is at noon.")], "user_id": "ada-1", "infer": False})
    (stored,) = added.json()["results"]
    assert [item["id"] for item in client.get("/memories", params={"user_id": "ada-1"}).json()["results"]] == [
        stored["id"]
    ]
    found = client.post("/search", json={"query": "When is lunch?", "filters": {"user_id": "ada-1"}}).json()["results"]
    assert [item["id"] for item in found] == [stored["id"]]
    assert found[0]["score"] > 0
    assert client.put(f"/memories/{stored['id']}", json={"text": "Lunch is at one."}).status_code == 200
    assert len(client.get(f"/memories/{stored['id']}/history").json()) == 2
    assert [entity["id"] for entity in client.get("/entities").json()] == ["ada-1"]
    assert client.delete(f"/memories/{stored['id']}").status_code == 200
    assert client.get("/memories").json()["results"] == []


def test_a_token_reaches_only_its_scopes(connect_mem0, tokens: ApiTokens):
    owner, ada = connect_mem0(""), connect_mem0("ada")
    add(owner, say("Ben likes tea."), user_id="ben-1", infer=False)
    refused = ada.post("/v3/memories/search/", json={"query": "tea", "filters": {"user_id": "ben-1"}})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert "user:ben-1" in refused.json()["next"]
    assert add(ada, say("I like tea."), user_id="ben-1", status=403)["code"] == "not_allowed"
    assert ada.post("/v3/memories/", json={"filters": {"user_id": "*"}}).json()["results"] == []
    assert ada.delete("/v1/memories/", params={"agent_id": "ben"}).json()["deleted"] == 0
    add(ada, say("Ada speaks German."), agent_id="ada", infer=False)  # the scope of this agent
    ben = connect_mem0(tokens.add("for ben", agent="ben", scopes=("user:ben-1",)))
    assert search(ben, "tea", filters={"user_id": "ben-1"}) == ["Ben likes tea."]


@pytest.mark.parametrize("name", ["shared", "_lukasa", "user:ada-1"])
def test_an_agent_id_is_no_way_into_another_scope(client, name):
    assert add(client, say("I like tea."), agent_id=name, status=422)["code"] == "invalid_input"


def test_a_read_only_token_searches_and_writes_nothing(connect_mem0, tokens: ApiTokens):
    add(connect_mem0(""), say("Tea is served."), user_id="ada-1", infer=False)
    reader = connect_mem0(tokens.add("reader", scopes=("user:ada-1",), read_only=True))
    assert search(reader, "tea", filters={"user_id": "ada-1"}) == ["Tea is served."]
    assert add(reader, say("I like tea."), user_id="ada-1", status=403)["code"] == "not_allowed"


def test_without_a_valid_token_nothing_is_answered(connect_mem0):
    assert connect_mem0("no such token").get("/v1/ping/").status_code == 401
    assert connect_mem0("no such token", key_header=True).get("/memories").status_code == 401


def test_without_the_option_there_are_no_such_paths(stores, secrets):
    app = build_app(stores, StoreTokenSource(stores), ["testserver"])
    with TestClient(app, headers={"Authorization": f"Bearer {secrets['']}"}) as plain:
        assert plain.get("/v1/ping/").status_code == 404
        assert plain.post("/search", json={"query": "tea"}).status_code == 404
