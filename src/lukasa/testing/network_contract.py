"""The conformance suite for networks: every guarantee of ``lukasa.network`` as a test.

A subclass of ``NetworkContract`` defines a fixture ``open_network``, which returns a function that opens a client of the
network for an agent, and a method ``stored_ids``, which reads the records that acknowledgements have stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lukasa.core.record import Draft
from lukasa.errors import InvalidInput, NotAccepted
from lukasa.network import MAX_INBOX, Network, News
from lukasa.testing.contract.base import requirement
from lukasa.testing.optional import require_package

pytest = require_package("pytest")

NetworkFactory = Callable[[str], Network]
_THREADS = 8


class NetworkContract:
    """All conformance tests of networks. A subclass says how to open a network for an agent."""

    @pytest.fixture  # type: ignore[untyped-decorator]
    def open_network(self) -> NetworkFactory:
        """Return a function that opens the network for an agent; all agents of a test are on the same new network."""
        raise NotImplementedError("define a fixture open_network in your subclass")

    def stored_ids(self, agent: str, kind: str) -> list[str]:
        """Return the ids of the records of a kind that the effects of an agent's acknowledgements have stored."""
        raise NotImplementedError

    @requirement("FOR-2")
    def test_a_signal_reaches_every_other_agent_and_not_its_sender(self, open_network: NetworkFactory) -> None:
        assert not open_network("a").broadcast("a", "signal", make_signal("s1")).repeated
        for agent in ("b", "c"):
            (news,) = open_network(agent).inbox(agent)
            assert (news["signal_id"], news["agent_id"], news["prediction"]) == ("s1", "a", 0.65)
        assert open_network("a").inbox("a") == []

    @requirement("FOR-2")
    def test_a_repeated_signal_changes_nothing_and_says_so(self, open_network: NetworkFactory) -> None:
        receipts = [open_network("a").broadcast("a", "signal", make_signal("s1")) for _ in range(3)]
        assert [receipt.repeated for receipt in receipts] == [False, True, True]
        assert len(open_network("b").inbox("b")) == 1

    @requirement("FOR-2")
    def test_an_acknowledged_signal_does_not_come_again(self, open_network: NetworkFactory) -> None:
        sender, receiver = open_network("a"), open_network("b")
        sender.broadcast("a", "signal", make_signal("s1"))
        assert sender.acknowledged("a", "s1") == ()
        assert not receiver.acknowledge("b", "s1", "a").repeated
        assert receiver.acknowledge("b", "s1", "a").repeated
        assert receiver.inbox("b") == []
        assert sender.acknowledged("a", "s1") == ("b",)
        assert len(open_network("c").inbox("c")) == 1

    @requirement("FOR-2")
    def test_signals_of_two_senders_with_the_same_id_both_arrive(self, open_network: NetworkFactory) -> None:
        for agent in ("a", "b"):
            open_network(agent).broadcast(agent, "signal", make_signal("s1"))
        receiver = open_network("c")
        assert [news["agent_id"] for news in receiver.inbox("c")] == ["a", "b"]
        receiver.acknowledge("c", "s1", "a")
        assert [news["agent_id"] for news in receiver.inbox("c")] == ["b"]

    @requirement("FOR-2")
    def test_every_signal_arrives_however_many_wait(self, open_network: NetworkFactory) -> None:
        ids = [f"s{number}" for number in range(MAX_INBOX + 120)]
        send_signals(open_network("a"), "a", ids)
        receiver, received = open_network("b"), list[str]()
        while news := receiver.inbox("b"):
            batch = [item["signal_id"] for item in news]
            assert received or batch[:1], "the first look has signals"
            acknowledge_all(receiver, "b", news)
            received += batch
        assert sorted(received) == sorted(ids)

    @requirement("FOR-2")
    def test_the_oldest_signals_come_first(self, open_network: NetworkFactory) -> None:
        sender, receiver = open_network("a"), open_network("b")
        for number in range(10):
            sender.broadcast("a", "signal", make_signal(f"s{number}"))
        assert [news["signal_id"] for news in receiver.inbox("b")] == [f"s{number}" for number in range(10)]

    @requirement("FOR-2")
    def test_a_signal_that_is_never_acknowledged_keeps_coming_and_stops_no_other(
        self, open_network: NetworkFactory
    ) -> None:
        sender, receiver = open_network("a"), open_network("b")
        sender.broadcast("a", "signal", make_signal("left"))
        for batch in range(4):
            ids = [f"s{batch}-{number}" for number in range(60)]
            send_signals(sender, "a", ids)
            left, *others = receiver.inbox("b")
            assert left["signal_id"] == "left"
            assert sorted(news["signal_id"] for news in others) == sorted(ids)
            acknowledge_all(receiver, "b", others)
        assert [news["signal_id"] for news in open_network("b").inbox("b")] == ["left"]
        receiver.acknowledge("b", "left", "a")
        assert receiver.inbox("b") == []

    @requirement("FOR-2")
    def test_the_effect_of_an_acknowledgement_is_stored_once(self, open_network: NetworkFactory) -> None:
        open_network("a").broadcast("a", "signal", make_signal("s1"))
        receiver = open_network("b")
        for number in range(3):
            effect = [Draft("taken_note", id=f"note-{number}", scope="b")]
            assert receiver.acknowledge("b", "s1", "a", effect).repeated is (number > 0)
        assert self.stored_ids("b", "taken_note") == ["note-0"]

    @requirement("FOR-2")
    def test_an_effect_that_is_refused_leaves_the_signal_in_the_inbox(self, open_network: NetworkFactory) -> None:
        open_network("a").broadcast("a", "signal", make_signal("s1"))
        receiver = open_network("b")
        with pytest.raises(NotAccepted):
            receiver.acknowledge("b", "s1", "a", [Draft("", scope="b")])
        assert [news["signal_id"] for news in receiver.inbox("b")] == ["s1"]
        assert receiver.acknowledged("a", "s1") == ()

    @requirement("FOR-2")
    def test_of_several_receivers_with_one_name_one_takes_each_signal(self, open_network: NetworkFactory) -> None:
        ids = [f"s{number}" for number in range(40)]
        send_signals(open_network("a"), "a", ids)

        def take_all(number: int) -> list[str]:
            receiver, taken = open_network("b"), list[str]()
            for news in receiver.inbox("b"):
                effect = [Draft("taken_note", id=f"{news['signal_id']}-{number}", scope="b")]
                if not receiver.acknowledge("b", news["signal_id"], news["agent_id"], effect).repeated:
                    taken.append(news["signal_id"])
            return taken

        with ThreadPoolExecutor(4) as pool:
            taken = [id for part in pool.map(take_all, range(4)) for id in part]
        assert sorted(taken) == sorted(ids)
        assert sorted(id.rpartition("-")[0] for id in self.stored_ids("b", "taken_note")) == sorted(ids)

    @requirement("CHK-12", "CHK-8")
    def test_the_newest_prediction_replaces_older_ones_in_the_state_of_an_agent(
        self, open_network: NetworkFactory
    ) -> None:
        network = open_network("a")
        assert network.fetch_state("a").silent
        newer, older = "2026-02-03T13:00:00Z", "2026-02-03T12:00:00Z"
        assert not network.broadcast("a", "prediction", make_prediction(0.9, newer)).repeated
        assert network.broadcast("a", "prediction", make_prediction(0.1, older)).repeated
        assert network.broadcast("a", "prediction", make_prediction(0.9, newer)).repeated
        network.broadcast("a", "signal", make_signal("s1"))
        state = open_network("b").fetch_state("a")
        assert [item["probability"] for item in state.active_predictions] == [0.9]
        assert [item["signal_id"] for item in state.signal_history] == ["s1"]
        assert open_network("b").inbox("b")[0]["signal_id"] == "s1"
        assert not network.broadcast("a", "prediction", make_prediction(0.8, "2026-02-03T13:00:00.5Z")).repeated

    @requirement("CHK-12")
    def test_agents_that_have_sent_something_are_peers(self, open_network: NetworkFactory) -> None:
        for agent in ("a", "b"):
            open_network(agent).broadcast(agent, "signal", make_signal(f"s-{agent}"))
        assert [peer.agent_id for peer in open_network("a").peers("a")] == ["b"]

    @requirement("CHK-12")
    def test_news_without_an_id_and_unknown_signals_are_refused(self, open_network: NetworkFactory) -> None:
        network = open_network("a")
        with pytest.raises(InvalidInput, match="signal_id"):
            network.broadcast("a", "signal", {})
        with pytest.raises(NotAccepted, match="no signal"):
            network.acknowledge("a", "nothing", "b")


def make_signal(id: str) -> dict[str, Any]:
    """Return a signal in the fields of a session's state."""
    return {
        "signal_id": id,
        "market_id": "market-1",
        "timestamp": "2026-02-03T12:00:00Z",
        "prediction": 0.65,
        "confidence": 0.8,
        "broadcast": True,
        "acknowledged": False,
    }


def make_prediction(probability: float, last_updated: str) -> dict[str, Any]:
    """Return a prediction in the fields of a session's state."""
    return {
        "prediction_id": "p1",
        "market_id": "market-1",
        "probability": probability,
        "last_updated": last_updated,
        "status": "active",
    }


def send_signals(network: Network, agent: str, ids: Iterable[str]) -> None:
    """Broadcast signals of an agent, several at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda name: network.broadcast(agent, "signal", make_signal(name)), ids))


def acknowledge_all(network: Network, agent: str, news: Iterable[News]) -> None:
    """Acknowledge signals that an agent found in its inbox, several at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda item: network.acknowledge(agent, item["signal_id"], item["agent_id"]), news))
