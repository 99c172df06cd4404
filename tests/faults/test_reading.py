"""Reading needs no writing: where a store cannot be written, recall answers with what there is and says what is missing."""

import errno
import os
import signal
import subprocess
import sys
import time

import psycopg
import pytest

import lukasa
from lukasa import Draft, Key
from lukasa.errors import StoreMissing, StoreReadOnly
from lukasa.recall.vector_index import EMBEDDER_SETTING_KEY
from lukasa.storage.sqlite import store_file
from support.narrow import present
from support.postgres import PostgresServer

pytestmark = pytest.mark.requirement("RCL-5")
QUESTION = "Where does the heron fish?"


def fill(memory, *, has_vectors=True):
    """Write five notes, compute their vectors if wanted, and write one more."""
    memory.journal.append([Draft("note", f"The heron fishes in pond {number}.") for number in range(5)])
    if has_vectors:
        assert memory.recall(QUESTION).unindexed == 0
    memory.journal.write("note", "The heron fishes in the river too.")


def wait_for_replay(primary, standby):
    """Wait until a standby shows all that its primary has written."""
    ((written,),) = primary.execute("SELECT pg_current_wal_flush_lsn()::text")
    deadline = time.monotonic() + 20
    while not standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written)[0][0]:
        assert time.monotonic() < deadline


def check_recall(memory, *, unindexed, reason, seconds=2.0):
    began = time.monotonic()
    answer = memory.recall(QUESTION)
    took = time.monotonic() - began
    assert len(answer.hits) == 6
    assert answer.unindexed == unindexed
    assert reason in answer.note
    assert took < seconds
    again = time.monotonic()
    assert len(memory.recall(QUESTION).hits) == 6
    assert time.monotonic() - again < seconds
    return answer


@pytest.mark.parametrize("has_vectors", [True, False])
def test_recall_answers_beside_a_frozen_process_that_holds_the_write_lock(actors, store, has_vectors):
    with lukasa.open(store, embedder="hash") as memory:
        fill(memory, has_vectors=has_vectors)
    holder = actors.start("holding", store=store)
    holder.stdout.readline()
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        with lukasa.open(store, embedder="hash", timeout=30) as memory:
            answer = check_recall(
                memory, unindexed=1 if has_vectors else 6, reason="Another process held the write lock"
            )
            by_meaning = [hit for hit in answer.hits if hit.hit.candidate.cosine is not None]
            assert len(by_meaning) == (5 if has_vectors else 0)
    finally:
        os.kill(holder.pid, signal.SIGCONT)
    holder.stdin.write("\n")
    holder.stdin.flush()
    actors.report(holder)
    with lukasa.open(store, embedder="hash") as memory:
        assert memory.recall(QUESTION).unindexed == 0
        assert present(memory.journal.get(EMBEDDER_SETTING_KEY)).body["embedder"] == "hash"


def test_recall_answers_on_a_full_disk(disk, store, monkeypatch):
    with disk.open(store) as memory:
        monkeypatch.setattr(memory.recall.index, "_requested", "hash")
        fill(memory)
        with disk.inject_fault("write", errno.ENOSPC):
            check_recall(memory, unindexed=1, reason="No space is left")


@pytest.mark.parametrize("option", [{"agent": "ada"}, {}])
def test_recall_answers_on_a_store_that_was_opened_read_only(store, exported, option):
    with pytest.raises(StoreMissing):
        lukasa.open(store, read_only=True)
    assert not store.exists()
    with lukasa.open(store, embedder="hash") as memory:
        fill(memory)
        before = exported(memory)
    with lukasa.open(store, read_only=True, **option) as memory:
        check_recall(memory, unindexed=1, reason="cannot be written")
        assert memory.describe()["read_only"]
        for write in (
            lambda: memory.journal.write("note", "late"),
            lambda: memory.journal.delete(Key("shared", "note", "x")) or memory.journal.append_if(lambda _: []),
        ):
            with pytest.raises(StoreReadOnly):
                write()
    with lukasa.open(store) as memory:
        assert exported(memory) == before


def test_a_store_of_an_older_schema_is_refused_with_a_sentence_where_it_cannot_be_migrated(store, monkeypatch):
    with lukasa.open(store) as memory:
        memory.journal.write("note", "old")
    monkeypatch.setitem(store_file.MIGRATIONS.scripts, store_file.MIGRATIONS.latest + 1, "SELECT 1")
    with pytest.raises(StoreReadOnly, match="older Lukasa"):
        lukasa.open(store, read_only=True)


READER = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
import lukasa
began = time.monotonic()
with lukasa.open(sys.argv[1], embedder="hash") as memory:
    answer = memory.recall("Where does the heron fish?")
    print(len(answer.hits), answer.unindexed, bool(answer.note), time.monotonic() - began < 5)
"""


@pytest.mark.parametrize("beside", ["nothing", "an open store"])
def test_a_store_opens_for_reading_with_no_free_byte(store, beside):
    memory = lukasa.open(store, embedder="hash")
    fill(memory)
    if beside == "nothing":
        memory.close()
    report = subprocess.run([sys.executable, "-c", READER, str(store)], capture_output=True, text=True, check=False)
    assert report.stdout.split() == ["6", "1", "True", "True"], report.stderr[-2000:]
    memory.close()


@pytest.mark.parametrize("leftover", ["nothing", "log"])
def test_a_small_file_system_without_a_free_byte_can_be_read(actors, private_mounts, tmp_path, leftover):
    if private_mounts is None:
        pytest.skip("a real small disk needs the permission to mount one")
    report = actors.run("reading_full", mounting=True, folder=tmp_path, leftover=leftover)
    assert report == {"free": 0, "hits": 5, "unindexed": 6, "note": True, "cli": [0, 5], "took": True}


@pytest.mark.parametrize("leftover", ["nothing", "log", "log and shared memory"])
def test_recall_answers_on_a_read_only_disk(actors, private_mounts, tmp_path, leftover):
    if private_mounts is None and os.geteuid() == 0:
        pytest.skip("neither mounting is permitted nor do file permissions bind this user")
    mounted = private_mounts is not None
    report = actors.run("recalling_sealed", mounting=mounted, mounted=mounted, folder=tmp_path, leftover=leftover)
    assert report == {"hits": 5, "unindexed": 6, "note": True, "cli": [0, 5]}


class TestPostgres:
    """The same on a server: a read-only connection, a read-only default, a standby, a frozen writer."""

    def test_recall_answers_on_a_connection_that_may_only_read(self, server, url):
        with lukasa.open(url, embedder="hash") as memory:
            fill(memory)
        with lukasa.open(url, read_only=True) as memory:
            check_recall(memory, unindexed=1, reason="cannot be written")
            assert memory.describe()["read_only"]
            with pytest.raises(StoreReadOnly):
                memory.journal.write("note", "late")
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        server.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        with lukasa.open(url) as memory:
            check_recall(memory, unindexed=1, reason="cannot be written")

    def test_recall_answers_on_a_standby(self):
        with PostgresServer(durable=True) as primary:
            standby = primary.start_standby()
            with lukasa.open(primary.url(), embedder="hash") as memory:
                fill(memory)
            wait_for_replay(primary, standby)
            with lukasa.open(standby.url()) as memory:
                check_recall(memory, unindexed=1, reason="cannot be written")
                assert memory.describe()["read_only"]
                with pytest.raises(StoreReadOnly):
                    memory.journal.write("note", "late")

    def test_recall_does_not_wait_for_a_writer_that_never_ends(self, url):
        with lukasa.open(url, embedder="hash") as memory:
            fill(memory)
            with psycopg.connect(url, options="-c search_path=lukasa,public") as frozen:
                frozen.execute("SELECT begin_write(ARRAY['shared'], false, 1)")
                began = time.monotonic()
                assert len(memory.recall(QUESTION).hits) == 6
                assert time.monotonic() - began < 1.5
                memory.journal.write("note", "The heron fishes at night.")
                answer = memory.recall(QUESTION)
                assert len(answer.hits) == 7
                assert answer.unindexed == 1
                frozen.rollback()
            assert memory.recall(QUESTION).unindexed == 0

    def test_recall_does_not_wait_for_vectors_that_another_process_never_finishes_to_store(self, url):
        with lukasa.open(url, embedder="hash") as memory:
            fill(memory)
            with psycopg.connect(url, options="-c search_path=lukasa,public") as frozen:
                seq = memory.journal.tip()
                frozen.execute("INSERT INTO vector_1 SELECT 'shared', %s, 0, vector FROM vector_1 LIMIT 1", (seq,))
                check_recall(memory, unindexed=1, reason="held the write lock")
                frozen.rollback()
