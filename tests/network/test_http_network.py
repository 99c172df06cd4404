"""The hub behind HTTP: the conformance suite over one server, over two servers of one PostgreSQL store, and sessions on it."""

import socket
from contextlib import ExitStack
from itertools import cycle

import pytest

import lukasa
from lukasa.api_connection import ApiConnection
from lukasa.errors import InvalidInput, NetworkDown
from lukasa.network.http import HttpNetwork
from lukasa.storage.engine import Query
from lukasa.testing import NetworkContract
from lukasa.testing.network_contract import make_signal
from support.api_server import run_api_server, token_for


def connect(url, agent, journal=None):
    return HttpNetwork(ApiConnection(url, token_for(agent)), journal)


def ids_of(memory, agent, kind):
    return [record.id for record in memory.journal.read(Query(kinds=(kind,), scopes=(agent,)))]


@pytest.fixture
def hub_url(tmp_path):
    with run_api_server(str(tmp_path / "hub.db")) as url:
        yield url


class TestOneServer(NetworkContract):
    """Agents whose records are in the store of the hub."""

    @pytest.fixture
    def open_network(self, tmp_path, hub_url, open_store):
        self.store = open_store(str(tmp_path / "hub.db"))
        return lambda agent: connect(hub_url, agent)

    def stored_ids(self, agent, kind):
        return ids_of(self.store, agent, kind)


@pytest.mark.slow
class TestOwnStores(NetworkContract):
    """Agents that keep their records in stores of their own."""

    @pytest.fixture
    def open_network(self, tmp_path, hub_url, open_store):
        self.store = open_store(str(tmp_path / "laptop.db"))
        return lambda agent: connect(hub_url, agent, self.store.as_agent(agent).valid_journal)

    def stored_ids(self, agent, kind):
        return ids_of(self.store, agent, kind)


class TestTwoServers(NetworkContract):
    """Two servers on one PostgreSQL store: every other request of a test goes to the other server."""

    @pytest.fixture
    def open_network(self, url, open_store):
        self.store = open_store(url)
        with ExitStack() as stack:
            servers = cycle([stack.enter_context(run_api_server(url)) for _ in range(2)])
            yield lambda agent: connect(next(servers), agent)

    def stored_ids(self, agent, kind):
        return ids_of(self.store, agent, kind)


@pytest.mark.requirement("CHK-12", "FOR-2")
def test_sessions_and_forecasts_use_the_hub_that_the_environment_names(tmp_path, hub_url, open_store, monkeypatch):
    monkeypatch.setenv("LUKASA_HUB", hub_url)
    monkeypatch.setenv("LUKASA_HUB_TOKEN", token_for("a"))
    memory = open_store(str(tmp_path / "a.db"), agent="a")
    with memory.sessions.start("demo") as session:
        session.update("/signal_history/-", make_signal("s1") | {"broadcast": False})
        assert session.sync()["connected"] is True
    monkeypatch.setenv("LUKASA_HUB_TOKEN", token_for("b"))
    memory = open_store(str(tmp_path / "b.db"), agent="b")
    assert [signal.signal_id for signal in memory.forecasts.receive()] == ["s1"]
    with memory.sessions.start("demo") as session:
        assert [peer["agent_id"] for peer in session.sync()["peer_agents"]] == ["a"]


@pytest.mark.requirement("CHK-12")
def test_a_session_recovers_its_predictions_from_the_hub(tmp_path, hub_url, open_store):
    network = connect(hub_url, "a")
    network.broadcast("a", "prediction", {"prediction_id": "p1", "last_updated": "2026-02-03T12:00:00Z"})
    state = connect(hub_url, "b").fetch_state("a")
    assert [item["prediction_id"] for item in state.active_predictions] == ["p1"]


@pytest.mark.requirement("CHK-12")
@pytest.mark.parametrize("hub", [None, "in the environment"])
def test_the_endpoint_of_a_session_never_gets_the_token(tmp_path, hub_url, open_store, monkeypatch, hub):
    """A session may have been imported, or written by another agent; it names any server."""
    if hub:
        monkeypatch.setenv("LUKASA_HUB", hub_url)
    monkeypatch.setenv("LUKASA_HUB_TOKEN", token_for("a"))
    memory = open_store(str(tmp_path / "a.db"), agent="a")
    with socket.create_server(("127.0.0.1", 0)) as stranger, memory.sessions.start("demo") as session:
        stranger.settimeout(0.2)
        place = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        session.update("/configuration/api_endpoint", place)
        session.update("/signal_history/-", make_signal("s1") | {"broadcast": False})
        assert session.sync()["connected"] is True  # with the hub of the environment, or that in the store
        with pytest.raises(TimeoutError):
            stranger.accept()


@pytest.mark.requirement("CHK-12")
def test_an_agent_may_not_send_or_read_in_the_name_of_another(hub_url):
    intruder = HttpNetwork(ApiConnection(hub_url, token_for("b")))
    for attempt in (
        lambda: intruder.broadcast("a", "signal", make_signal("s1")),
        lambda: intruder.inbox("a"),
        lambda: intruder.acknowledge("a", "s1", "c"),
    ):
        with pytest.raises(NetworkDown, match="belongs to 'b'"):
            attempt()
    assert connect(hub_url, "c").inbox("c") == []


@pytest.mark.requirement("CHK-12")
def test_a_hub_that_is_away_is_a_network_that_is_down(tmp_path, open_store):
    gone = HttpNetwork(ApiConnection("http://127.0.0.1:9", "t", retries=1), None)
    with pytest.raises(NetworkDown, match="no answer"):
        gone.peers("a")
    for address in ("ftp://host", "http://[", "http://host:99999"):
        with pytest.raises(InvalidInput, match="address"):
            ApiConnection(address)
    memory = open_store(str(tmp_path / "a.db"), agent="a")
    memory.sessions.network = gone
    with memory.sessions.start("demo") as session:
        assert session.sync()["connected"] is False


@pytest.mark.requirement("FOR-2")
def test_a_signal_taken_before_a_crash_comes_again_and_is_stored_once(tmp_path, hub_url, open_store):
    memory = open_store(str(tmp_path / "b.db"), agent="b")
    connect(hub_url, "a").broadcast("a", "signal", make_signal("s1"))
    network = connect(hub_url, "b", memory.valid_journal)
    effect = [lukasa.Draft("taken_note", id="note", scope="b")]
    with pytest.raises(NetworkDown):  # the hub is gone between the own store and the acknowledgement
        HttpNetwork(ApiConnection("http://127.0.0.1:9", "t", retries=0), memory.valid_journal).acknowledge(
            "b", "s1", "a", effect
        )
    assert [news["signal_id"] for news in network.inbox("b")] == ["s1"]
    again = [lukasa.Draft("taken_note", id="another", scope="b")]
    assert network.acknowledge("b", "s1", "a", again).repeated
    assert network.inbox("b") == []
    assert ids_of(memory, "b", "taken_note") == ["note"]
