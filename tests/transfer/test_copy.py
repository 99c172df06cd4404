"""Copies of a store: complete, resumable after an interruption, and proved."""

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
from lukasa.core.record import entry_bytes
from lukasa.errors import NotAllowed
from lukasa.interfaces.cli.app import app
from lukasa.storage.location import StoreLocation
from lukasa.storage.log_file import ENTIRE_LOG
from lukasa.testing import CountingIds, FrozenClock
from lukasa.transfer.copy import copy_log, is_same_store
from support.postgres import PostgresServer

pytestmark = pytest.mark.requirement("LOG-7")

COPY_UNTIL_KILLED = """
import os, signal, sys
from contextlib import contextmanager
import lukasa
from lukasa.transfer.copy import copy_log

@contextmanager
def watch(title):
    def report(done, total):
        if title == sys.argv[3] and done >= int(sys.argv[4]):
            os.kill(os.getpid(), signal.SIGKILL)
    yield report

with lukasa.open(sys.argv[1]) as source, lukasa.open(sys.argv[2]) as target:
    copy_log(source.journal, target.journal, watch)
"""


def write_everything(memory, clock):
    """Write, change, delete, link, derive, quarantine, release, erase and compact."""
    journal = memory.journal
    for number in range(12):
        link = (Link("derived_from", Key("shared", "note", f"n{number - 3}")),)
        journal.write(
            "note", f"word{number} ünïcode 👋 nul\0", {"n": [number, 2.5, None]}, id=f"n{number}", author=("ada", "mallory")[number % 2],
            scope=("shared", "ada")[number % 3 == 0], labels=(f"mod={number % 2}",), links=link,
        )  # fmt: skip
        clock.advance(60 if number % 5 else -150)
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
    """Write many notes."""
    for first in range(start, start + count, 1000):
        drafts = [
            Draft(
                "note",
                f"note number {number}",
                {"n": number},
                id=f"{number % 5000:06d}",
                scope=f"s{number % 3}",
                author=f"a{number % 4}",
            )
            for number in range(first, min(first + 1000, start + count))
        ]
        assert memory.journal.append(drafts)


def exported(memory):
    """Return the exported log of a store."""
    target = io.BytesIO()
    memory.export(target)
    return target.getvalue()


def log(memory):
    """Return every version in the log of a store."""
    return list(memory.journal.read(ENTIRE_LOG))


def copy(source, target, watch=None):
    return copy_log(source.journal, target.journal, *filter(None, [watch]))


def proof_of(done, scope, kind):
    """Return the proof of one scope and kind."""
    (found,) = [proof for proof in done.proof.kind_proofs if (proof.scope, proof.kind) == (scope, kind)]
    return found


def interrupt(after):
    """Return a progress bar that interrupts the copy after so many entries, as Ctrl-C would."""

    @contextmanager
    def watch(title):
        def report(done, total):
            if title == "Copying" and done >= after:
                raise KeyboardInterrupt

        yield report

    return watch


@pytest.fixture
def open_store(tmp_path):
    """Open stores by name; they are closed after the test."""
    stores = []

    def open_named(name="memory:", **options):
        stores.append(lukasa.open(name if ":" in name else tmp_path / name, **options))
        return stores[-1]

    yield open_named
    for store in stores:
        store.close()


@pytest.fixture
def source(open_store):
    clock = FrozenClock()
    memory = open_store("source.db", clock=clock, new_id=CountingIds())
    write_everything(memory, clock)
    return memory


@pytest.fixture
def large(open_store):
    memory = open_store("large.db")
    fill(memory, 3500)
    return memory


# Completeness


def test_copy_gives_the_same_log_byte_for_byte(source, open_store):
    target = open_store("target.db")
    done = copy(source, target)
    assert (done.added, done.present, done.refused) == (len(log(source)), 0, 0)
    assert done.proof.holds
    assert done.proof.is_same_log
    assert exported(target) == exported(source)


def test_copy_gives_the_same_derived_state(source, open_store):
    target = open_store("target.db")
    copy(source, target)
    assert target.verify().findings == ()
    assert target.journal.tally() == source.journal.tally()
    assert set(target.journal.quarantined()) == {"mallory"}
    for words in ("word3", "word2", "poison", "second", "superseded", "canary"):
        found, expected = target.journal.find(words), source.journal.find(words)
        assert [match.record.key for match in found] == [match.record.key for match in expected]


def test_copy_of_an_empty_store_is_empty(open_store):
    done = copy(open_store(), open_store())
    assert (done.added, done.proof.holds, done.proof.is_same_log, done.proof.kind_proofs) == (0, True, True, ())


def test_copy_proves_each_scope_and_kind_by_count_and_hash_on_both_sides(source, open_store):
    target = open_store()
    done = copy(source, target)
    for memory, versions, hash in ((source, "versions", "hash"), (target, "there", "hash_there")):
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for record in log(memory):
            count, total = sums.get((record.scope, record.kind), (0, 0))
            digest = int.from_bytes(hashlib.sha256(entry_bytes(record)).digest())
            sums[record.scope, record.kind] = (count + 1, (total + digest) % 2**256)
        proved = {(s.scope, s.kind): (getattr(s, versions), int(getattr(s, hash), 16)) for s in done.proof.kind_proofs}
        assert proved == sums


def test_copy_of_a_copy_of_a_copy_is_the_same(source, open_store):
    stores = [source, open_store("a.db"), open_store(), open_store("b.db")]
    for here, there in pairwise(stores):
        assert copy(here, there).proof.is_same_log
    assert exported(stores[-1]) == exported(source)


def test_copy_is_refused_to_agents(source, open_store):
    with pytest.raises(NotAllowed):
        copy(open_store("source.db", agent="ada"), open_store())
    with pytest.raises(NotAllowed):
        copy(source, open_store("target.db", scopes=["shared"]))


def test_copy_needs_no_more_memory_for_a_longer_log(open_store):
    peaks = []
    for count in (2000, 6000):
        source, target = open_store(f"{count}.db"), open_store(f"copy-{count}.db")
        fill(source, count)
        tracemalloc.start()
        assert copy(source, target).added == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


# Interruptions


def test_copy_run_again_sends_nothing(source, open_store):
    target = open_store()
    copy(source, target)
    again = copy(source, target)
    assert (again.added, again.present, again.refused, again.proof.is_same_log) == (0, 0, 0, True)


def test_copy_run_later_sends_only_new_entries(source, open_store):
    target = open_store()
    copy(source, target)
    source.journal.write("note", "new", id="new")
    source.journal.delete(Key("shared", "fact", "f"))
    done = copy(source, target)
    assert (done.added, done.present, done.proof.is_same_log) == (2, 0, True)


@pytest.mark.parametrize("after", [500, 1500, 2500, 3500])
def test_copy_continues_after_an_interruption(large, open_store, after):
    target = open_store("target.db")
    with pytest.raises(KeyboardInterrupt):
        copy(large, target, interrupt(after))
    there = len(log(target))
    assert there >= after
    done = copy(large, target)
    assert (done.added, done.present) == (3500 - there, 0)
    assert exported(target) == exported(large)


@pytest.mark.parametrize(("stage", "count"), [("Copying", 1500), ("Proving the source", 500)])
def test_copy_continues_after_a_kill(large, open_store, tmp_path, stage, count):
    arguments = [tmp_path / "large.db", tmp_path / "target.db", stage, count]
    killed = subprocess.run([sys.executable, "-c", COPY_UNTIL_KILLED, *map(str, arguments)], check=False)
    assert killed.returncode == -signal.SIGKILL
    target = open_store("target.db")
    there = len(log(target))
    assert there >= count
    done = copy(large, target)
    assert (done.added, done.present, done.proof.is_same_log) == (3500 - there, 0, True)
    assert target.verify().sound


def test_copy_continues_in_a_destination_with_many_own_records(large, open_store):
    target = open_store("target.db")
    with pytest.raises(KeyboardInterrupt):
        copy(large, target, interrupt(1000))
    there = len(log(target))
    target.journal.append([Draft("own", id=str(number)) for number in range(300)])
    done = copy(large, target)
    assert (done.added, done.present, done.proof.holds) == (3500 - there, 0, True)


def test_copy_reports_progress_from_where_an_earlier_run_stopped(large, open_store):
    target = open_store("target.db")
    with pytest.raises(KeyboardInterrupt):
        copy(large, target, interrupt(1000))
    there, reports = len(log(target)), []

    @contextmanager
    def watch(title):
        yield lambda done, total: reports.append((title, done, total))

    copy(large, target, watch)
    assert reports[0] == ("Copying", there + 500, 3500)
    assert {title: (done, total) for title, done, total in reports} == {
        "Copying": (3500, 3500),
        "Proving the source": (3500, 3500),
        "Proving the destination": (3500, 3500),
    }


@given(there=st.lists(st.booleans(), min_size=22, max_size=22), own=st.booleans())
def test_copy_adds_whatever_part_is_missing_and_the_proof_holds(there, own):
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, new_id=CountingIds()) as source, lukasa.open("memory:") as target:
        write_everything(source, clock)
        lines = [(entry_bytes(record), record.digest) for record in log(source)]
        assert len(lines) == len(there)
        if own:
            target.journal.write("note", "local", id="own")
        before = list(target.journal.replay(line for line, kept in zip(lines, there, strict=True) if kept))
        done = copy(source, target)
        assert done.added + len(before) == len(lines)
        assert (done.refused, done.proof.holds) == (0, True)
        assert {record.digest for record in log(source)} <= {record.digest for record in log(target)}
        assert target.verify().findings == ()


# Destinations that are not empty


def test_copy_keeps_and_counts_other_records_of_the_destination(source, open_store):
    target = open_store()
    own = target.journal.append([Draft("note", "own", id="own"), Draft("own", "own", id="own")]).records[:]
    done = copy(source, target)
    assert (done.refused, done.proof.holds, done.proof.is_same_log) == (0, True, False)
    assert (proof_of(done, "shared", "note").own, proof_of(done, "shared", "own").own) == (1, 1)
    assert proof_of(done, "shared", "own").versions == 0
    assert log(target)[:2] == own


def test_copy_reports_a_contradicting_entry_every_time_and_never_overwrites_it(source, open_store):
    target = open_store()
    own = target.journal.write("fact", "something else", id="f").record
    target.journal.write("fact", "something else still", id="f")
    for _ in range(2):
        done = copy(source, target)
        assert [(r.key, r.version, r.reason) for r in done.refusals] == [
            (own.key, 2, "another record has this key and version")
        ]
        assert not done.proof.holds
        assert [(s.scope, s.kind) for s in done.proof.kind_proofs if not s.holds] == [("shared", "fact")]
        facts = proof_of(done, "shared", "fact")
        assert (facts.versions, facts.there, facts.own) == (2, 2, 1)
    assert target.journal.get(own.key, version=2).text == "something else still"


def test_copy_reports_an_early_contradiction_every_time(large, open_store):
    target, early = open_store(), log(large)[7]
    target.journal.write(early.kind, "something else", id=early.id, scope=early.scope)
    for added in (3499, 0):
        done = copy(large, target)
        assert (done.added, done.refused, done.proof.holds) == (added, 1, False)
        assert [(r.key, r.version) for r in done.refusals] == [(early.key, 1)]


def test_copy_counts_all_refusals_and_names_the_first(open_store):
    source, target = open_store(), open_store()
    source.journal.append([Draft("note", "here", id=str(number)) for number in range(50)])
    target.journal.append([Draft("note", "there", id=str(number)) for number in range(50)])
    done = copy(source, target)
    assert (done.added, done.refused, len(done.refusals), done.proof.holds) == (0, 50, 20, False)


def test_copy_adds_an_entry_that_the_binary_search_skipped(large, open_store):
    target = open_store()
    records = log(large)
    lines = [(entry_bytes(record), record.digest) for record in records]
    assert all(answer.state == "added" for answer in target.journal.replay(lines[:7] + lines[8:]))
    done = copy(large, target)
    assert (done.added, done.proof.holds, done.proof.is_same_log) == (1, True, False)
    assert target.journal.history(records[7].key)[0].digest == records[7].digest


def test_copy_does_not_restore_a_record_erased_in_the_destination(source, open_store):
    target = open_store()
    copy(source, target)
    target.journal.erase(Key("shared", "fact", "f"))
    done = copy(source, target)
    assert {(r.key.id, r.reason) for r in done.refusals} == {("f", "this record was erased here")}
    assert [(s.scope, s.kind) for s in done.proof.kind_proofs if not s.holds] == [("shared", "fact")]
    assert target.journal.history(Key("shared", "fact", "f")) == []


def test_copy_names_a_record_erased_in_the_source_until_it_is_erased_in_the_destination(open_store):
    clock, fact = FrozenClock(), Key("shared", "fact", "f")
    source, target = open_store(clock=clock), open_store()
    source.journal.write("fact", "secret", id="f")
    copy(source, target)
    clock.advance(-3600)  # the order of the log counts, not the clock
    source.journal.erase(fact)
    for _ in range(2):
        done = copy(source, target)
        assert not done.proof.holds
        assert proof_of(done, "shared", "fact").erased == (fact,)
    target.journal.erase(fact)
    assert copy(source, target).proof.holds


def test_copy_accepts_a_new_record_of_the_destination_under_an_erased_key(source, open_store):
    target, fact = open_store(clock=FrozenClock()), Key("shared", "fact", "f")
    copy(source, target)
    source.journal.erase(fact)
    copy(source, target)
    target.journal.erase(fact)
    target.journal.write("fact", "new", id="f")
    assert copy(source, target).proof.holds


def test_copy_includes_a_record_written_again_after_its_erasure(open_store):
    source, target = open_store(), open_store()
    source.journal.write("fact", "old", id="f")
    source.journal.erase(Key("shared", "fact", "f"))
    source.journal.write("fact", "new", id="f")
    done = copy(source, target)
    assert (done.added, done.proof.is_same_log) == (2, True)


def test_copy_accepts_a_rewritten_record_that_arrived_before_the_receipt(open_store):
    source, target = open_store(), open_store()
    source.journal.write("fact", "old", id="f")
    source.journal.erase(Key("shared", "fact", "f"))
    rewritten = source.journal.write("fact", "new", id="f").record
    target.journal.write("fact", "local", id="own")
    assert [answer.state for answer in target.journal.replay([(entry_bytes(rewritten), rewritten.digest)])] == ["added"]
    done = copy(source, target)
    assert (done.proof.holds, proof_of(done, "shared", "fact").own) == (True, 1)


def test_copy_keeps_versions_that_the_source_has_compacted(source, open_store):
    target = open_store()
    source.journal.write("fact", "third", id="f")
    copy(source, target)
    source.compact()
    done = copy(source, target)
    assert done.proof.holds
    assert proof_of(done, "shared", "fact").own == 2


def test_copy_does_not_prove_a_damaged_destination(source, open_store, tmp_path):
    copy(source, open_store("target.db"))
    database = apsw.Connection(str(tmp_path / "target.db"))
    database.execute("UPDATE log SET line = replace(line, 'word7', 'word8')")
    database.close()
    assert not copy(source, open_store("target.db")).proof.holds


def test_copy_leaves_out_a_damaged_entry_of_the_source_and_names_it(source, open_store, tmp_path):
    database = apsw.Connection(str(tmp_path / "source.db"))
    database.execute("UPDATE log SET line = replace(line, 'word7', 'word8')")
    database.close()
    damaged = open_store("source.db")
    result = copy(damaged, open_store())
    assert result.proof.holds
    assert [finding.where for finding in damaged.verify().findings if finding.position is not None] == result.left_out


# Sources that change during the copy


def test_copy_includes_records_written_during_the_copy(large, open_store):
    target, late = open_store("target.db"), iter(range(10**6))

    @contextmanager
    def watch(title):
        def report(done, total):
            if title == "Copying":
                large.journal.write("late", id=str(next(late)))

        yield report

    done = copy(large, target, watch)
    assert next(late) == 7
    assert proof_of(done, "shared", "late").there == 7
    assert exported(target) == exported(large)


def test_copy_leaves_records_written_during_the_proof_to_the_next_run(large, open_store):
    target = open_store("target.db")

    @contextmanager
    def watch(title):
        if title != "Copying":
            large.journal.write("late", title, id=title)
        yield None

    done = copy(large, target, watch)
    assert (done.proof.is_same_log, done.added) == (True, 3500)
    assert copy(large, target).added == 2


def test_copy_proof_holds_when_the_source_is_compacted_meanwhile(open_store):
    source, target = open_store("source.db", timeout=0.05), open_store("target.db")
    target.journal.write("fact", "own", id="own")
    for number in range(3):
        source.journal.write("fact", f"version {number}", id="f")

    @contextmanager
    def watch(title):
        if title == "Proving the destination":
            source.journal.compact()
        yield None

    done = copy(source, target, watch)
    assert done.proof.holds
    assert proof_of(done, "shared", "fact").there == 3


# Equal locations


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("postgresql://db/agents", "postgres://orion:secret@DB:5432/agents?sslmode=require", True),
        ("postgresql:///agents?host=/run/pg", "postgresql://%2Frun%2Fpg/agents", True),
        ("postgresql://db/agents", "postgresql://db/others", False),
        ("postgresql://db/agents", "postgresql://db:5433/agents", False),
        ("postgresql://db/agents", "postgresql://other/agents", False),
    ],
)
def test_is_same_store_compares_databases_by_address(left, right, same):
    assert is_same_store(StoreLocation("postgresql", url=left), StoreLocation("postgresql", url=right)) is same


def test_is_same_store_compares_files_by_identity(source, tmp_path):
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


# Both engines


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(server):
    """Create new databases and return their URLs."""
    with ExitStack() as databases:
        yield lambda: databases.enter_context(server.database())


def copy_there_and_back(open_store, database, count):
    """Copy a store with every kind of record to PostgreSQL and back; return all three stores."""
    clock = FrozenClock()
    source, between, back = open_store("x.db", clock=clock), open_store(database()), open_store("z.db")
    write_everything(source, clock)
    fill(source, count - len(log(source)))
    for here, there in ((source, between), (between, back)):
        done = copy(here, there)
        assert (done.added, done.present, done.refused, done.proof.is_same_log) == (count, 0, 0, True)
    return source, between, back


@pytest.mark.requirement("OPS-2")
def test_copy_to_postgresql_and_back_changes_nothing(open_store, database):
    source, between, back = copy_there_and_back(open_store, database, 2000)
    assert exported(source) == exported(between) == exported(back)
    for memory in (between, back):
        assert memory.verify().findings == ()
        assert memory.journal.tally() == source.journal.tally()
        assert set(memory.journal.quarantined()) == {"mallory"}


@pytest.mark.slow
@pytest.mark.requirement("OPS-2")
def test_copy_to_postgresql_and_back_keeps_a_hundred_thousand_records(open_store, database, tmp_path):
    source, _, back = copy_there_and_back(open_store, database, 100_000)
    for memory, name in ((source, "x.jsonl"), (back, "z.jsonl")):
        memory.export(tmp_path / name)
    assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "z.jsonl").read_bytes()


@pytest.mark.requirement("OPS-2")
def test_copy_between_databases_continues_after_a_kill(large, open_store, database, tmp_path):
    here, there = database(), database()
    killed_at = ["Copying", "1500"]
    for source, target in ((str(tmp_path / "large.db"), here), (here, there)):
        killed = subprocess.run([sys.executable, "-c", COPY_UNTIL_KILLED, source, target, *killed_at], check=False)
        assert killed.returncode == -signal.SIGKILL
        held = len(log(open_store(target)))
        assert 1500 <= held < 3500
        done = copy(open_store(source), open_store(target))
        assert (done.added, done.present, done.proof.is_same_log) == (3500 - held, 0, True)
    assert exported(open_store(there)) == exported(large)


@pytest.mark.requirement("OPS-2")
def test_copy_to_postgresql_keeps_and_names_contradicting_entries(source, open_store, database):
    target = open_store(database())
    own = target.journal.write("fact", "something else", id="f").record
    target.journal.write("fact", "something else still", id="f")
    for _ in range(2):
        done = copy(source, target)
        assert [(r.key, r.version) for r in done.refusals] == [(own.key, 2)]
        assert [(s.scope, s.kind) for s in done.proof.kind_proofs if not s.holds] == [("shared", "fact")]
    assert target.journal.get(own.key, version=2).text == "something else still"


@pytest.mark.requirement("OPS-2")
@pytest.mark.parametrize("there", [0b0000000000000000000000, 0b1111111111100000000000, 0b1011110111011110111101])
def test_copy_to_postgresql_adds_whatever_part_is_missing(source, open_store, database, there):
    target = open_store(database())
    lines = [(entry_bytes(record), record.digest) for record in log(source)]
    kept = [line for index, line in enumerate(lines) if there >> (len(lines) - 1 - index) & 1]
    assert all(answer.state == "added" for answer in target.journal.replay(kept))
    done = copy(source, target)
    assert (done.added, done.refused, done.proof.holds) == (len(lines) - len(kept), 0, True)
    assert target.verify().findings == ()


@pytest.mark.requirement("OPS-2", "DOO-2")
def test_copy_command_reaches_postgresql_and_shows_no_password(source, server, tmp_path):
    def run(*arguments, expect=0):
        result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
        assert result.exit_code == expect, result.output
        assert server.password not in result.output
        return result

    name = server.create()
    url = server.url(name, tcp=True)
    run("copy", tmp_path / "source.db", url)
    run("copy", url, tmp_path / "back.db", "--json")
    assert "is the source itself" in run("copy", url, url + "?connect_timeout=5", expect=2).stderr
    for store in (tmp_path / "source.db", url, tmp_path / "back.db"):
        run("--store", store, "export", tmp_path / "out.jsonl", "--force")
        assert (tmp_path / "out.jsonl").read_bytes() == exported(source)
    server.drop(name)
