"""The configuration of a session: each of its settings has an effect."""

import pytest

from lukasa.errors import NetworkDown
from lukasa.network import NetworkHub, RateLimitedNetwork
from lukasa.sessions import NEVER

pytestmark = pytest.mark.requirement("CHK-1")


@pytest.mark.requirement("FOR-1")
def test_max_active_markets_limits_the_predictions_of_a_session(memory, make):
    session = memory.sessions.start("demo", significance=NEVER)
    session.update("/configuration/max_active_markets", 2)
    for number in range(2):
        assert session.update("/active_predictions/-", make.prediction(f"p{number}"))
    refused = session.update("/active_predictions/-", make.prediction("p2"))
    assert refused.code == "too_many_active"
    assert "max_active_markets is 2" in refused.reason
    assert session.update("/active_predictions/-", make.prediction("same", market_id="market-p0"))
    assert session.update("/active_predictions/p1/status", "resolved")
    assert session.update("/active_predictions/-", make.prediction("p2"))
    assert session.update("/configuration/max_active_markets", 1)  # what is there stays
    assert session.update("/active_predictions/p2/probability", 0.9)


@pytest.mark.requirement("FOR-1", "FOR-2")
def test_forecasts_follow_the_configuration_of_the_newest_session(memory, make):
    forecasts = memory.forecasts
    assert (forecasts.max_active, forecasts.threshold) == (50, 0.7)
    session = memory.sessions.start("demo", significance=NEVER)
    session.update("/configuration/max_active_markets", 1)
    session.update("/configuration/confidence_threshold", 0.95)
    assert (forecasts.max_active, forecasts.threshold) == (1, 0.95)
    assert forecasts.predict("?", 0.9, prediction_id="p")
    assert forecasts.predict("?", 0.9, market_id="another").code == "too_many_active"
    assert forecasts.predict("Again?", 0.9, market_id="p")
    assert forecasts.signal("p").code == "below_threshold"
    session.close()
    assert forecasts.max_active == 1
    state = make.state()
    state["configuration"]["max_active_markets"] = 7
    memory.sessions.save_checkpoint(state, "newer")
    assert (forecasts.max_active, forecasts.threshold) == (7, 0.7)
    forecasts.max_active = 3
    assert forecasts.max_active == 3


@pytest.mark.requirement("FOR-2")
def test_sync_sends_no_signal_below_the_confidence_threshold(memory, make):
    session = memory.sessions.start("demo", significance=NEVER)
    session.update("/configuration/confidence_threshold", 0.8)
    for id, confidence in (("low", 0.79), ("high", 0.8)):
        item = make.signal(id, confidence=confidence, broadcast=False, acknowledged=False)
        session.update("/signal_history/-", item)
    session.sync()
    assert [(item["signal_id"], item["broadcast"]) for item in session.state["signal_history"]] == [
        ("low", False),
        ("high", True),
    ]
    assert [news["signal_id"] for news in memory.sessions.network.inbox("other")] == ["high"]


@pytest.mark.requirement("CHK-12")
def test_a_session_updates_from_the_network_as_often_as_configured(memory, clock, make):
    session = memory.sessions.start("demo", significance=NEVER)
    session.update("/active_predictions/-", make.prediction("p1"))
    session.checkpoint()
    clock.advance(14 * 60)
    assert session.tick() == ()
    clock.advance(60)
    assert session.tick() == ("update",)
    assert session.state["network_state"]["last_sync"] == "2026-02-03T12:15:00Z"
    assert memory.sessions.network.fetch_state("agent").active_predictions[0]["prediction_id"] == "p1"
    session.update("/configuration/update_frequency_minutes", 5)
    clock.advance(5 * 60)
    assert session.tick() == ("update",)


@pytest.mark.requirement("CHK-3")
def test_updates_alone_cause_no_checkpoint(in_file, clock):
    session = in_file.sessions.start("demo", significance=NEVER)
    for _ in range(8):
        clock.advance(15 * 60)
        assert session.tick() == ("update",)
    assert session.number == 1
    session.update("/configuration/x", 1)
    clock.advance(30 * 60)
    assert session.tick() == ("update", "checkpoint")


@pytest.mark.requirement("CHK-8")
def test_an_update_verifies_predictions_that_are_recovering(in_file, make, clock):
    class Down:
        def __getattr__(self, name):
            def fail(*_):
                raise NetworkDown

            return fail

    session = in_file.sessions.start("demo", significance=NEVER)
    session.update("/active_predictions/-", make.prediction("p1"))
    session.abandon()
    hub, in_file.sessions.network = in_file.sessions.network, Down()
    session = in_file.sessions.start("demo", significance=NEVER)
    assert session.recovering() == ["p1"]
    session.abandon()
    in_file.sessions.network = hub
    session = in_file.sessions.start("demo", significance=NEVER)
    clock.advance(15 * 60)
    session.tick()
    assert session.recovering() == []


@pytest.mark.requirement("CHK-12")
def test_the_endpoint_of_the_configuration_is_handed_to_the_network(in_file, clock):
    opened = []
    hub = NetworkHub(in_file.journal, clock)

    def open_network(endpoint):
        opened.append(endpoint)
        return hub

    in_file.sessions.open_network = open_network
    session = in_file.sessions.start("demo")
    session.sync()
    assert opened == []
    session.update("/configuration/api_endpoint", "https://hub.example.org/api")
    session.sync()
    session.sync()
    assert opened == ["https://hub.example.org/api"]
    assert isinstance(session._current_network, RateLimitedNetwork)


@pytest.mark.requirement("CHK-12")
def test_counts_of_requests_survive_a_restart_within_the_hour(memory, clock, make):
    with memory.sessions.start("demo") as session:
        session.update("/active_predictions/-", make.prediction("p1"))
        used = session.sync()["api_usage"]["requests_this_hour"]
        assert used == 2
        session._current_network.peers("agent")
    session = memory.sessions.start("demo")
    assert session.state["network_state"]["api_usage"]["requests_this_hour"] == 3
    assert session.sync()["api_usage"]["requests_this_hour"] == 5
    session.close()
    clock.advance(3600)
    assert memory.sessions.start("demo").sync()["api_usage"]["requests_this_hour"] == 2


@pytest.mark.parametrize("metadata", [[], "text", 7, None, True, {"agent_id": 5}, {"version": "x"}])
def test_metadata_of_a_wrong_shape_is_refused(memory, make, metadata):
    state = make.state() | {"metadata": metadata}
    refused = memory.sessions.save_checkpoint(state, "demo")
    assert refused.code == "bad_state"
    assert "metadata" in refused.reason
    assert memory.sessions.state("demo") is None
    session = memory.sessions.start("other")
    assert session.update("/metadata", metadata).code == "bad_state"
    assert session.replace(state).code == "bad_state"


def test_the_id_in_the_metadata_cannot_become_that_of_another_session(in_file):
    session = in_file.sessions.start("demo")
    assert session.update("/metadata/session_id", "other").code == "bad_state"
    assert session.update("/metadata/agent_type", "analyst")
