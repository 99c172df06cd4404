"""The hub in a store: the conformance suite on both engines, and the cursor of an inbox."""

import time

import pytest

import lukasa
from lukasa.core.record import Draft
from lukasa.network import CURSOR_KIND, NEWS_KIND, NetworkHub, RateLimitedNetwork
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock, NetworkContract
from lukasa.testing.network_contract import acknowledge_all, make_signal, send_signals


class TestHub(NetworkContract):
    """The hub of agents that share a store, each agent with a connection of its own."""

    @pytest.fixture
    def open_network(self, location, open_store):
        self.owner = open_store(location)
        return lambda agent: open_store(location, agent=agent).sessions.network

    def stored_ids(self, agent, kind):
        return [record.id for record in self.owner.journal.read(Query(kinds=(kind,), scopes=(agent,)))]


@pytest.fixture
def hub(in_file):
    return NetworkHub(in_file.valid_journal, FrozenClock())


def inbox_ids(hub, agent):
    return [news["signal_id"] for news in hub.inbox(agent)]


def settle(hub, agent, count, name="old"):
    """Send signals to an agent, and acknowledge them."""
    send_signals(hub, "sender", [f"{name}-{number}" for number in range(count)])
    while news := hub.inbox(agent):
        acknowledge_all(hub, agent, news)


@pytest.mark.requirement("FOR-2")
def test_a_look_reads_no_settled_signal_again(hub, in_file, monkeypatch):
    settle(hub, "b", 600)
    hub.inbox("b")  # moves the cursor
    (cursor,) = in_file.journal.read(Query(kinds=(CURSOR_KIND,)))
    assert cursor.body["open"] == []
    hub.broadcast("sender", "signal", make_signal("new"))
    read = []
    with in_file.journal.snapshot() as reader:
        original = type(reader).read

    def read_and_note(reader, query):
        records = original(reader, query)
        read.extend(records)
        return records

    monkeypatch.setattr(type(reader), "read", read_and_note)
    assert inbox_ids(hub, "b") == ["new"]
    assert len(read) == 1


@pytest.mark.requirement("FOR-2")
def test_the_cost_of_a_look_does_not_grow_with_old_signals(hub):
    def seconds():
        times = []
        for _ in range(20):
            start = time.perf_counter()
            hub.inbox("b")
            times.append(time.perf_counter() - start)
        return min(times)

    settle(hub, "b", 150, "few")
    few = seconds()
    settle(hub, "b", 1500, "many")
    assert seconds() < 3 * few + 0.002


@pytest.mark.requirement("FOR-2")
def test_a_signal_hidden_by_a_quarantine_arrives_after_its_release(location, open_store, clock):
    owner = open_store(location, clock=clock)
    hub, other = (open_store(location, clock=clock, agent=agent).sessions.network for agent in ("sender", "other"))
    receiver = open_store(location, clock=clock, agent="b").sessions.network
    other.broadcast("other", "signal", make_signal("hidden"))
    owner.journal.quarantine("other")
    send_signals(hub, "sender", [f"s-{number}" for number in range(130)])
    acknowledge_all(receiver, "b", receiver.inbox("b"))
    assert receiver.inbox("b") == []
    assert list(owner.journal.read(Query(kinds=(CURSOR_KIND,))))
    owner.journal.release("other")
    assert inbox_ids(receiver, "b") == ["hidden"]
    acknowledge_all(receiver, "b", receiver.inbox("b"))
    assert receiver.inbox("b") == []


@pytest.mark.requirement("FOR-2")
def test_a_cursor_of_another_store_is_ignored(hub, in_file, tmp_path, open_store):
    settle(hub, "b", 130)
    hub.inbox("b")
    hub.broadcast("sender", "signal", make_signal("open"))
    in_file.export(tmp_path / "log.jsonl")
    other = open_store(str(tmp_path / "other.db"))
    there = NetworkHub(other.valid_journal, FrozenClock())
    there.broadcast("elsewhere", "signal", make_signal("own"))
    other.import_(tmp_path / "log.jsonl")
    assert inbox_ids(there, "b") == ["own", "open"]
    settle(there, "b", 1)
    assert inbox_ids(there, "b") == []


@pytest.mark.requirement("FOR-2")
def test_signals_of_a_store_of_an_older_version_still_arrive(hub, in_file):
    news = make_signal("older")
    hub.broadcast("sender", "signal", news)
    (record,) = in_file.journal.read(Query(labels=("sort=signal",)))
    in_file.journal.erase(record.key)
    in_file.valid_journal.append(
        Draft(NEWS_KIND, body=record.body, id=record.id, labels=record.labels, origin="network")
    )
    assert hub.broadcast("sender", "signal", news).repeated
    assert inbox_ids(hub, "b") == ["older"]
    assert [item["signal_id"] for item in hub.fetch_state("sender").signal_history] == ["older"]
    settle(hub, "b", 120)
    assert inbox_ids(hub, "b") == []


@pytest.mark.requirement("CHK-12")
def test_usage_goes_on_within_the_same_hour_only(hub):
    clock = FrozenClock()
    usage = {"requests_this_hour": 234, "rate_limit": 1000, "last_request": "2026-02-03T12:00:00Z"}
    limited = RateLimitedNetwork(hub, clock)
    limited.resume_usage(usage)
    limited.peers("a")
    assert limited.usage()["requests_this_hour"] == 235
    later = RateLimitedNetwork(hub, clock)
    clock.advance(3600)
    later.resume_usage(usage)
    assert later.usage() == {"requests_this_hour": 0, "rate_limit": 1000, "last_request": "2026-02-03T12:00:00Z"}


def test_a_look_into_an_inbox_works_on_a_store_that_cannot_be_written(hub, in_file, monkeypatch):
    settle(hub, "b", 130)

    def refuse(*_):
        raise lukasa.errors.StoreReadOnly

    monkeypatch.setattr(type(in_file.journal), "append", refuse)
    assert hub.inbox("b") == []
