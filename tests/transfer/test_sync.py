"""Synchronisation: stores that worked apart end with the same records, nothing is lost, and conflicts are kept."""

from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa import Key
from lukasa.api_connection import ApiConnection
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock
from lukasa.transfer.sync import CONFLICT_KIND, HttpLogPeer, fingerprint_log, read_log_page, replay_pushed, sync_logs
from support.api_server import run_api_server, token_for


class JournalPeer:
    """The log of another store of the same process."""

    name = "hub"

    def __init__(self, journal, fail_after=None):
        self._journal = journal
        self._left = fail_after

    def _count(self):
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise ConnectionError("cut off")

    def pull(self, after, pair=None):
        self._count()
        return read_log_page(self._journal, after, 3, pair)

    def push(self, entries):
        self._count()
        return replay_pushed(self._journal, [entry.decode() for entry in entries])

    def fingerprint(self):
        return {pair: (total.versions, total.hash) for pair, total in fingerprint_log(self._journal).items()}


@pytest.fixture
def open_memory():
    with ExitStack() as stack:
        clock = FrozenClock()
        yield lambda: stack.enter_context(lukasa.open("memory:", clock=clock, embedder="hash"))


def current(memory):
    """Return the content of every current record that is exchanged."""
    kinds = ("note", CONFLICT_KIND)
    return {
        (record.key, record.version, record.text)
        for record in memory.journal.read(Query(kinds=kinds))
        if record.kind == "note"
    }


def write(memory, id, text):
    assert memory.journal.write("note", text, id=id)


@pytest.mark.requirement("DOO-8")
def test_each_store_gets_what_it_lacks(open_memory):
    laptop, hub = open_memory(), open_memory()
    write(laptop, "a", "from the laptop")
    write(hub, "b", "from the hub")
    result = sync_logs(laptop.journal, JournalPeer(hub.journal))
    assert (result.pulled, result.pushed, result.conflicts, result.holds) == (1, 1, [], True)
    assert current(laptop) == current(hub)
    again = sync_logs(laptop.journal, JournalPeer(hub.journal))
    assert (again.pulled, again.pushed, again.holds) == (0, 0, True)


def test_a_page_that_ends_at_the_newest_entry_is_the_last(open_memory):
    laptop, hub = open_memory(), open_memory()
    for number in range(6):
        write(hub, f"n-{number}", f"from the hub: {number}")
    pulled = []

    class NotedPeer(JournalPeer):
        def pull(self, after, pair=None):
            pulled.append(after)
            return super().pull(after, pair)

    peer = NotedPeer(hub.journal)
    assert sync_logs(laptop.journal, peer).pulled == 6
    assert pulled == [0, 3]
    assert sync_logs(laptop.journal, peer).pulled == 0
    assert pulled == [0, 3, 6]


@pytest.mark.requirement("DOO-8")
def test_a_conflict_is_kept_in_both_stores_and_the_hub_wins(open_memory):
    laptop, hub = open_memory(), open_memory()
    write(laptop, "a", "first")
    sync_logs(laptop.journal, JournalPeer(hub.journal))
    write(laptop, "a", "changed on the laptop")
    write(hub, "a", "changed on the hub")
    result = sync_logs(laptop.journal, JournalPeer(hub.journal))
    assert [(conflict.key.id, conflict.version) for conflict in result.conflicts] == [("a", 2)]
    assert result.holds
    for memory in (laptop, hub):
        assert memory.journal.get(Key("shared", "note", "a")).text == "changed on the hub"
        (conflict,) = memory.journal.read(Query(kinds=(CONFLICT_KIND,)))
        assert "changed on the laptop" in conflict.body["here"]
        assert "changed on the hub" in conflict.body["hub"]
    assert sync_logs(laptop.journal, JournalPeer(hub.journal)).conflicts == []


@pytest.mark.requirement("DOO-8")
@settings(max_examples=40)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["hub", "one", "two"]), st.sampled_from("abc"), st.none()),
            st.tuples(st.sampled_from(["one", "two"]), st.just("sync"), st.one_of(st.none(), st.integers(0, 4))),
        ),
        max_size=14,
    )
)
def test_two_laptops_and_a_hub_converge_whatever_was_written_and_cut_off(steps):
    clock = FrozenClock()
    with ExitStack() as stack:
        stores = {n: stack.enter_context(lukasa.open("memory:", clock=clock)) for n in ("hub", "one", "two")}
        written = set()
        for number, (who, what, value) in enumerate(steps):
            clock.advance(1)
            if what == "sync":
                try:
                    sync_logs(stores[who].journal, JournalPeer(stores["hub"].journal, value))
                except ConnectionError:
                    continue
            else:
                write(stores[who], what, f"{who} wrote <{number}>")
                written.add(f"{who} wrote <{number}>")
        for _ in range(2):
            results = [sync_logs(stores[n].journal, JournalPeer(stores["hub"].journal)) for n in ("one", "two")]
        assert all(result.holds for result in results)
        assert current(stores["hub"]) == current(stores["one"]) == current(stores["two"])
        everything = [
            text
            for record in stores["hub"].journal.read(Query(every_version=True))
            for text in (record.text, str(record.body))
        ]
        assert all(any(value in text for text in everything) for value in written)


@pytest.mark.requirement("DOO-8")
def test_a_restored_hub_gets_again_what_it_lost(open_memory):
    laptop, hub = open_memory(), open_memory()
    for number in range(10):
        write(laptop, f"n{number}", f"note {number}")
    sync_logs(laptop.journal, JournalPeer(hub.journal))
    emptied = open_memory()
    for number in range(40):  # positions beyond the remembered ones
        write(emptied, f"other{number}", "written after the restore")
    result = sync_logs(laptop.journal, JournalPeer(emptied.journal))
    assert result.holds
    assert current(laptop) == current(emptied)


@pytest.mark.requirement("DOO-8")
def test_a_laptop_syncs_with_a_server_within_the_rights_of_its_token(tmp_path):
    with ExitStack() as stack:
        url = stack.enter_context(run_api_server(str(tmp_path / "hub.db")))
        hub = stack.enter_context(lukasa.open(str(tmp_path / "hub.db"), embedder="hash"))
        laptop = stack.enter_context(lukasa.open(str(tmp_path / "laptop.db"), embedder="hash"))
        mine = laptop.as_agent("a")
        assert mine.journal.write("note", "mine", id="m", scope="a")
        assert laptop.as_agent("b").journal.write("note", "private to b", id="p", scope="b")
        write(hub, "h", "shared on the hub")
        assert hub.as_agent("c").journal.write("note", "private to c", id="q", scope="c")
        result = sync_logs(laptop.journal, HttpLogPeer(ApiConnection(url, token_for("a"))))
        assert (result.pulled, result.pushed, result.holds) == (1, 1, True)
        assert result.kept_here >= 1
        assert [r.id for r in laptop.journal.read(Query(kinds=("note",), scopes=("c",)))] == []
        assert [r.id for r in hub.journal.read(Query(kinds=("note",), scopes=("b",)))] == []
        owner = sync_logs(laptop.journal, HttpLogPeer(ApiConnection(url, token_for(""))))
        assert owner.holds
        assert current(laptop) == current(hub)
