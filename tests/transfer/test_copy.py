"""Copying a store: everything arrives, a break costs nothing, and nothing is called done without proof."""

import hashlib
import io
import signal
import subprocess
import sys
import tracemalloc
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import lukasa
from lukasa import Draft, Key, Link
from lukasa.errors import NotAllowed, StoreDamaged
from lukasa.interfaces.cli.app import app
from lukasa.record import entry_bytes
from lukasa.storage.engine import Query
from lukasa.storage.location import StoreLocation
from lukasa.testing import CountingIds, FrozenClock
from lukasa.transfer.copy import copy_log, is_same_store
from support.postgres import PostgresServer

pytestmark = pytest.mark.requirement("LOG-7")

ENTIRE_LOG = Query(every_version=True, hidden=True)
KILLED = """
import os, signal, sys
from contextlib import contextmanager
import lukasa
from lukasa.transfer.copy import copy_log

@contextmanager
def watch(title):
    def told(done, total):
        if title == sys.argv[3] and done >= int(sys.argv[4]):
            os.kill(os.getpid(), signal.SIGKILL)
    yield told

with lukasa.open(sys.argv[1]) as source, lukasa.open(sys.argv[2]) as target:
    copy_log(source.journal, target.journal, watch)
"""


def live_in(memory, clock):
    """Writes, changes, deletes, links, derives, hides, releases, erases and compacts."""
    journal = memory.journal
    for at in range(12):
        link = (Link("derived_from", Key("shared", "note", f"n{at - 3}")),)
        journal.write(
            "note", f"word{at} ünïcode 👋 nul\0", {"n": [at, 2.5, None]}, id=f"n{at}", author=("ada", "mallory")[at % 2],
            scope=("shared", "ada")[at % 3 == 0], labels=(f"mod={at % 2}",), links=link,
        )  # fmt: skip
        clock.advance(60 if at % 5 else -150)
    journal.write("fact", "first", id="f", happened_at=clock.now())
    journal.write("fact", "superseded", id="f")
    memory.compact()
    journal.write("fact", "second", id="f")
    journal.delete(Key("shared", "note", "n1"))
    journal.write("note", "canary", id="secret")
    journal.erase(Key("shared", "note", "secret"))
    journal.quarantine("nick")
    journal.write("note", "poison", id="p", author="nick")
    journal.quarantine("mallory")
    journal.release("nick")
    journal.write("pattern", "made of poison", id="m", links=(Link("derived_from", Key("shared", "note", "n5")),))


def fill(memory, count, start=0):
    for first in range(start, start + count, 1000):
        drafts = [
            Draft(
                "note", f"note number {at}", {"n": at}, id=f"{at % 5000:06d}", scope=f"s{at % 3}", author=f"a{at % 4}"
            )
            for at in range(first, min(first + 1000, start + count))
        ]
        assert memory.journal.append(drafts)


def exported(memory):
    target = io.BytesIO()
    memory.export(target)
    return target.getvalue()


def log(memory):
    return list(memory.journal.read(ENTIRE_LOG))


def copy(source, target, watch=None):
    return copy_log(source.journal, target.journal, *filter(None, [watch]))


def share(done, scope, kind):
    (found,) = [share for share in done.proof.kind_proofs if (share.scope, share.kind) == (scope, kind)]
    return found


def broken_off(after):
    """A watch that stops the copying once so many lines went over, as Ctrl-C would."""

    @contextmanager
    def watch(title):
        def told(done, total):
            if title == "Copying" and done >= after:
                raise KeyboardInterrupt

        yield told

    return watch


@pytest.fixture
def opened(tmp_path):
    """Opens stores by name; they are closed at the end."""
    stores = []

    def opened(name="memory:", **options):
        stores.append(lukasa.open(name if ":" in name else tmp_path / name, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def source(opened):
    clock = FrozenClock()
    memory = opened("source.db", clock=clock, new_id=CountingIds())
    live_in(memory, clock)
    return memory


@pytest.fixture
def large(opened):
    memory = opened("large.db")
    fill(memory, 3500)
    return memory


# Everything arrives


def test_a_copy_is_the_same_log_byte_for_byte(source, opened):
    target = opened("target.db")
    done = copy(source, target)
    assert (done.added, done.present, done.refused) == (len(log(source)), 0, 0)
    assert done.proof.holds
    assert done.proof.is_same_log
    assert exported(target) == exported(source)


def test_what_follows_from_the_log_is_the_same_in_the_copy(source, opened):
    target = opened("target.db")
    copy(source, target)
    assert target.verify().findings == ()
    assert target.journal.tally() == source.journal.tally()
    assert set(target.journal.quarantined()) == {"mallory"}
    for words in ("word3", "word2", "poison", "second", "superseded", "canary"):
        found, expected = target.journal.find(words), source.journal.find(words)
        assert [match.record.key for match in found] == [match.record.key for match in expected]


def test_an_empty_store_gives_an_empty_copy(opened):
    done = copy(opened(), opened())
    assert (done.added, done.proof.holds, done.proof.is_same_log, done.proof.kind_proofs) == (0, True, True, ())


def test_the_proof_counts_and_hashes_each_kind_of_each_scope_on_both_sides(source, opened):
    target = opened()
    done = copy(source, target)
    for memory, versions, hash in ((source, "versions", "hash"), (target, "there", "hash_there")):
        sums = {}
        for record in log(memory):
            count, total = sums.get((record.scope, record.kind), (0, 0))
            digest = int.from_bytes(hashlib.sha256(entry_bytes(record)).digest())
            sums[record.scope, record.kind] = (count + 1, (total + digest) % 2**256)
        told = {(s.scope, s.kind): (getattr(s, versions), int(getattr(s, hash), 16)) for s in done.proof.kind_proofs}
        assert told == sums


def test_a_copy_goes_on_from_file_to_file_without_change(source, opened):
    stores = [source, opened("a.db"), opened(), opened("b.db")]
    for here, there in pairwise(stores):
        assert copy(here, there).proof.is_same_log
    assert exported(stores[-1]) == exported(source)


def test_only_an_owner_copies(source, opened):
    with pytest.raises(NotAllowed):
        copy(opened("source.db", agent="ada"), opened())
    with pytest.raises(NotAllowed):
        copy(source, opened("target.db", scopes=["shared"]))


def test_copying_takes_no_more_memory_for_a_longer_log(opened):
    peaks = []
    for count in (2000, 6000):
        source, target = opened(f"{count}.db"), opened(f"copy-{count}.db")
        fill(source, count)
        tracemalloc.start()
        assert copy(source, target).added == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


# A break costs nothing


def test_a_second_run_sends_nothing(source, opened):
    target = opened()
    copy(source, target)
    again = copy(source, target)
    assert (again.added, again.present, again.refused, again.proof.is_same_log) == (0, 0, 0, True)


def test_a_later_run_sends_only_what_is_new(source, opened):
    target = opened()
    copy(source, target)
    source.journal.write("note", "new", id="new")
    source.journal.delete(Key("shared", "fact", "f"))
    done = copy(source, target)
    assert (done.added, done.present, done.proof.is_same_log) == (2, 0, True)


@pytest.mark.parametrize("after", [500, 1500, 2500, 3500])
def test_a_copy_that_broke_off_goes_on_where_it_stopped(large, opened, after):
    target = opened("target.db")
    with pytest.raises(KeyboardInterrupt):
        copy(large, target, broken_off(after))
    there = len(log(target))
    assert there >= after
    done = copy(large, target)
    assert (done.added, done.present) == (3500 - there, 0)
    assert exported(target) == exported(large)


@pytest.mark.parametrize(("stage", "at"), [("Copying", 1500), ("Proving the source", 500)])
def test_a_copy_that_was_killed_goes_on_where_it_stopped(large, opened, tmp_path, stage, at):
    words = [tmp_path / "large.db", tmp_path / "target.db", stage, at]
    killed = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], check=False)
    assert killed.returncode == -signal.SIGKILL
    target = opened("target.db")
    there = len(log(target))
    assert there >= at
    done = copy(large, target)
    assert (done.added, done.present, done.proof.is_same_log) == (3500 - there, 0, True)
    assert target.verify().sound


def test_a_large_number_of_own_records_does_not_hide_where_to_go_on(large, opened):
    target = opened("target.db")
    with pytest.raises(KeyboardInterrupt):
        copy(large, target, broken_off(1000))
    there = len(log(target))
    target.journal.append([Draft("own", id=str(at)) for at in range(300)])
    done = copy(large, target)
    assert (done.added, done.present, done.proof.holds) == (3500 - there, 0, True)


def test_the_bar_goes_on_where_an_earlier_run_stopped(large, opened):
    target = opened("target.db")
    with pytest.raises(KeyboardInterrupt):
        copy(large, target, broken_off(1000))
    there, told = len(log(target)), []

    @contextmanager
    def watch(title):
        yield lambda done, total: told.append((title, done, total))

    copy(large, target, watch)
    assert told[0] == ("Copying", there + 500, 3500)
    assert {title: (done, total) for title, done, total in told} == {
        "Copying": (3500, 3500),
        "Proving the source": (3500, 3500),
        "Proving the destination": (3500, 3500),
    }


@given(there=st.lists(st.booleans(), min_size=22, max_size=22), own=st.booleans())
def test_whatever_part_is_there_already_the_rest_is_added_and_the_proof_holds(there, own):
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, new_id=CountingIds()) as source, lukasa.open("memory:") as target:
        live_in(source, clock)
        lines = [(entry_bytes(record), record.digest) for record in log(source)]
        assert len(lines) == len(there)
        if own:
            target.journal.write("note", "of its own", id="own")
        before = list(target.journal.replay(line for line, kept in zip(lines, there, strict=True) if kept))
        done = copy(source, target)
        assert done.added + len(before) == len(lines)
        assert (done.refused, done.proof.holds) == (0, True)
        assert {record.digest for record in log(source)} <= {record.digest for record in log(target)}
        assert target.verify().findings == ()


# A destination that holds something already


def test_what_the_destination_holds_of_its_own_is_left_alone_and_counted(source, opened):
    target = opened()
    own = target.journal.append([Draft("note", "own", id="own"), Draft("own", "own", id="own")]).records[:]
    done = copy(source, target)
    assert (done.refused, done.proof.holds, done.proof.is_same_log) == (0, True, False)
    assert (share(done, "shared", "note").own, share(done, "shared", "own").own) == (1, 1)
    assert share(done, "shared", "own").versions == 0
    assert log(target)[:2] == own


def test_a_line_that_contradicts_is_reported_every_time_and_never_overwritten(source, opened):
    target = opened()
    own = target.journal.write("fact", "something else", id="f").record
    target.journal.write("fact", "something else still", id="f")
    for _ in range(2):
        done = copy(source, target)
        assert [(r.key, r.version, r.reason) for r in done.refusals] == [
            (own.key, 2, "another record has this key and version")
        ]
        assert not done.proof.holds
        assert [(s.scope, s.kind) for s in done.proof.kind_proofs if not s.holds] == [("shared", "fact")]
        facts = share(done, "shared", "fact")
        assert (facts.versions, facts.there, facts.own) == (2, 2, 1)
    assert target.journal.get(own.key, version=2).text == "something else still"


def test_a_contradiction_far_back_is_reported_every_time(large, opened):
    target, early = opened(), log(large)[7]
    target.journal.write(early.kind, "something else", id=early.id, scope=early.scope)
    for added in (3499, 0):
        done = copy(large, target)
        assert (done.added, done.refused, done.proof.holds) == (added, 1, False)
        assert [(r.key, r.version) for r in done.refusals] == [(early.key, 1)]


def test_of_many_refusals_all_are_counted_and_the_first_are_named(opened):
    source, target = opened(), opened()
    source.journal.append([Draft("note", "here", id=str(at)) for at in range(50)])
    target.journal.append([Draft("note", "there", id=str(at)) for at in range(50)])
    done = copy(source, target)
    assert (done.added, done.refused, len(done.refusals), done.proof.holds) == (0, 50, 20, False)


def test_a_guess_that_left_something_out_is_mended(large, opened):
    target = opened()
    records = log(large)
    lines = [(entry_bytes(record), record.digest) for record in records]
    assert all(answer.state == "added" for answer in target.journal.replay(lines[:7] + lines[8:]))
    done = copy(large, target)
    assert (done.added, done.proof.holds, done.proof.is_same_log) == (1, True, False)
    assert target.journal.history(records[7].key)[0].digest == records[7].digest


def test_what_was_erased_in_the_destination_does_not_come_back_and_the_proof_says_so(source, opened):
    target = opened()
    copy(source, target)
    target.journal.erase(Key("shared", "fact", "f"))
    done = copy(source, target)
    assert {(r.key.id, r.reason) for r in done.refusals} == {("f", "this record was erased here")}
    assert [(s.scope, s.kind) for s in done.proof.kind_proofs if not s.holds] == [("shared", "fact")]
    assert target.journal.history(Key("shared", "fact", "f")) == []


def test_what_was_erased_in_the_source_since_the_last_copy_is_named_until_it_is_erased_there(opened):
    clock, fact = FrozenClock(), Key("shared", "fact", "f")
    source, target = opened(clock=clock), opened()
    source.journal.write("fact", "secret", id="f")
    copy(source, target)
    clock.advance(-3600)  # order counts, not what a clock says
    source.journal.erase(fact)
    for _ in range(2):
        done = copy(source, target)
        assert not done.proof.holds
        assert share(done, "shared", "fact").erased == (fact,)
    target.journal.erase(fact)
    assert copy(source, target).proof.holds


def test_a_record_of_its_own_under_an_erased_key_is_no_trace_of_the_erased_one(source, opened):
    target, fact = opened(clock=FrozenClock()), Key("shared", "fact", "f")
    copy(source, target)
    source.journal.erase(fact)
    copy(source, target)
    target.journal.erase(fact)
    target.journal.write("fact", "new", id="f")
    assert copy(source, target).proof.holds


def test_what_was_written_anew_after_an_erasure_is_copied(opened):
    source, target = opened(), opened()
    source.journal.write("fact", "old", id="f")
    source.journal.erase(Key("shared", "fact", "f"))
    source.journal.write("fact", "new", id="f")
    done = copy(source, target)
    assert (done.added, done.proof.is_same_log) == (2, True)


def test_what_was_written_anew_is_no_trace_even_if_it_came_before_the_receipt(opened):
    source, target = opened(), opened()
    source.journal.write("fact", "old", id="f")
    source.journal.erase(Key("shared", "fact", "f"))
    anew = source.journal.write("fact", "new", id="f").record
    target.journal.write("fact", "of its own", id="own")
    assert [answer.state for answer in target.journal.replay([(entry_bytes(anew), anew.digest)])] == ["added"]
    done = copy(source, target)
    assert (done.proof.holds, share(done, "shared", "fact").own) == (True, 1)


def test_versions_that_the_source_has_compacted_stay_in_the_destination(source, opened):
    target = opened()
    source.journal.write("fact", "third", id="f")
    copy(source, target)
    source.compact()
    done = copy(source, target)
    assert done.proof.holds
    assert share(done, "shared", "fact").own == 2


def test_a_destination_that_is_damaged_is_not_proved(source, opened, tmp_path):
    copy(source, opened("target.db"))
    database = apsw.Connection(str(tmp_path / "target.db"))
    database.execute("UPDATE log SET line = replace(line, 'word7', 'word8')")
    database.close()
    with pytest.raises(StoreDamaged, match="does not match its digest in the destination"):
        copy(source, opened("target.db"))


def test_a_line_that_is_damaged_in_the_source_is_not_copied(source, opened, tmp_path):
    database = apsw.Connection(str(tmp_path / "source.db"))
    database.execute("UPDATE log SET line = replace(line, 'word7', 'word8')")
    database.close()
    done = copy(opened("source.db"), opened())
    assert [(r.key.id, r.reason) for r in done.refusals] == [("n7", "the line does not match its digest")]
    assert not done.proof.holds


# A source that changes meanwhile


def test_what_is_written_while_copying_comes_along(large, opened):
    target, late = opened("target.db"), iter(range(10**6))

    @contextmanager
    def watch(title):
        def told(done, total):
            if title == "Copying":
                large.journal.write("late", id=str(next(late)))

        yield told

    done = copy(large, target, watch)
    assert next(late) == 7
    assert share(done, "shared", "late").there == 7
    assert exported(target) == exported(large)


def test_what_is_written_while_proving_waits_for_the_next_run(large, opened):
    target = opened("target.db")

    @contextmanager
    def watch(title):
        if title != "Copying":
            large.journal.write("late", title, id=title)
        yield None

    done = copy(large, target, watch)
    assert (done.proof.is_same_log, done.added) == (True, 3500)
    assert copy(large, target).added == 2


def test_what_is_compacted_while_proving_does_not_spoil_the_proof(opened):
    source, target = opened("source.db", timeout=0.05), opened("target.db")
    target.journal.write("fact", "own", id="own")
    for at in range(3):
        source.journal.write("fact", f"version {at}", id="f")

    @contextmanager
    def watch(title):
        if title == "Proving the destination":
            source.journal.compact()
        yield None

    done = copy(source, target, watch)
    assert done.proof.holds
    assert share(done, "shared", "fact").there == 3


# The same place


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://db/agents", "postgres://orion:secret@DB:5432/agents?sslmode=require", True),
        ("postgresql:///agents?host=/run/pg", "postgresql://%2Frun%2Fpg/agents", True),
        ("postgresql://db/agents", "postgresql://db/others", False),
        ("postgresql://db/agents", "postgresql://db:5433/agents", False),
        ("postgresql://db/agents", "postgresql://other/agents", False),
    ],
)
def test_a_database_is_known_again_however_it_is_spelled(one, other, same):
    assert is_same_store(StoreLocation("postgresql", url=one), StoreLocation("postgresql", url=other)) is same


def test_a_file_is_known_again_however_it_is_reached(source, tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "source.db")
    (tmp_path / "hard.db").hardlink_to(tmp_path / "source.db")
    here = StoreLocation("sqlite", tmp_path / "source.db")
    for name in ("source.db", "link.db", "hard.db", "../" + tmp_path.name + "/source.db"):
        assert is_same_store(here, StoreLocation("sqlite", tmp_path / name))
    assert not is_same_store(here, StoreLocation("sqlite", tmp_path / "other.db"))
    assert not is_same_store(here, StoreLocation("postgresql", url="postgresql://db/source.db"))
    assert not is_same_store(StoreLocation("memory"), StoreLocation("memory"))
    (tmp_path / "folder").symlink_to(tmp_path)
    assert is_same_store(
        StoreLocation("sqlite", tmp_path / "new.db"), StoreLocation("sqlite", tmp_path / "folder" / "new.db")
    )


# From engine to engine


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(server):
    """Makes new databases and names them by their URLs."""
    with ExitStack() as databases:
        yield lambda: databases.enter_context(server.database())


def there_and_back(opened, database, count):
    """A store of every sort of record and many of one sort, and what is left of it after a stay in PostgreSQL."""
    clock = FrozenClock()
    source, between, back = opened("x.db", clock=clock), opened(database()), opened("z.db")
    live_in(source, clock)
    fill(source, count - len(log(source)))
    for here, there in ((source, between), (between, back)):
        done = copy(here, there)
        assert (done.added, done.present, done.refused, done.proof.is_same_log) == (count, 0, 0, True)
    return source, between, back


@pytest.mark.requirement("OPS-2")
def test_a_stay_in_postgresql_leaves_no_trace(opened, database):
    source, between, back = there_and_back(opened, database, 2000)
    assert exported(source) == exported(between) == exported(back)
    for memory in (between, back):
        assert memory.verify().findings == ()
        assert memory.journal.tally() == source.journal.tally()
        assert set(memory.journal.quarantined()) == {"mallory"}


@pytest.mark.slow
@pytest.mark.requirement("OPS-2")
def test_a_hundred_thousand_records_survive_a_stay_in_postgresql(opened, database, tmp_path):
    source, _, back = there_and_back(opened, database, 100_000)
    for memory, name in ((source, "x.jsonl"), (back, "z.jsonl")):
        memory.export(tmp_path / name)
    assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "z.jsonl").read_bytes()


@pytest.mark.requirement("OPS-2")
def test_a_copy_from_database_to_database_goes_on_where_it_was_killed(large, opened, database, tmp_path):
    here, there = database(), database()
    killed_at = ["Copying", "1500"]
    for source, target in ((str(tmp_path / "large.db"), here), (here, there)):
        killed = subprocess.run([sys.executable, "-c", KILLED, source, target, *killed_at], check=False)
        assert killed.returncode == -signal.SIGKILL
        held = len(log(opened(target)))
        assert 1500 <= held < 3500
        done = copy(opened(source), opened(target))
        assert (done.added, done.present, done.proof.is_same_log) == (3500 - held, 0, True)
    assert exported(opened(there)) == exported(large)


@pytest.mark.requirement("OPS-2")
def test_postgresql_as_destination_keeps_what_it_has_and_names_what_contradicts(source, opened, database):
    target = opened(database())
    own = target.journal.write("fact", "something else", id="f").record
    target.journal.write("fact", "something else still", id="f")
    for _ in range(2):
        done = copy(source, target)
        assert [(r.key, r.version) for r in done.refusals] == [(own.key, 2)]
        assert [(s.scope, s.kind) for s in done.proof.kind_proofs if not s.holds] == [("shared", "fact")]
    assert target.journal.get(own.key, version=2).text == "something else still"


@pytest.mark.requirement("OPS-2")
@pytest.mark.parametrize("there", [0b0000000000000000000000, 0b1111111111100000000000, 0b1011110111011110111101])
def test_postgresql_as_destination_completes_whatever_part_is_there(source, opened, database, there):
    target = opened(database())
    lines = [(entry_bytes(record), record.digest) for record in log(source)]
    kept = [line for at, line in enumerate(lines) if there >> (len(lines) - 1 - at) & 1]
    assert all(answer.state == "added" for answer in target.journal.replay(kept))
    done = copy(source, target)
    assert (done.added, done.refused, done.proof.holds) == (len(lines) - len(kept), 0, True)
    assert target.verify().findings == ()


@pytest.mark.requirement("OPS-2", "DOO-2")
def test_the_command_takes_a_store_to_postgresql_and_back_and_shows_no_password(source, server, tmp_path):
    def run(*words, expect=0):
        shown = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
        assert shown.exit_code == expect, shown.output
        assert server.password not in shown.output
        return shown

    name = server.create()
    url = server.url(name, tcp=True)
    run("copy", tmp_path / "source.db", url)
    run("copy", url, tmp_path / "back.db", "--json")
    assert "is the source itself" in run("copy", url, url + "?connect_timeout=5", expect=2).stderr
    for store in (tmp_path / "source.db", url, tmp_path / "back.db"):
        run("--store", store, "export", tmp_path / "out.jsonl")
        assert (tmp_path / "out.jsonl").read_bytes() == exported(source)
    server.drop(name)
