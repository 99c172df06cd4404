"""A primary and a standby that follows it: nothing acknowledged is lost with the primary, and no read is stale."""

import contextlib
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import lukasa
from lukasa.errors import LukasaError
from lukasa.storage.postgres import PostgresEngine
from lukasa.testing.contract.base import add, list_ids, make_draft, make_key, read, text_of, write_note
from support.narrow import present
from support.postgres import PostgresServer

_WRITERS = 4


@pytest.fixture(scope="module")
def pair():
    """Start a primary and its synchronous standby; tests leave them as they were."""
    with PostgresServer(durable=True) as primary:
        yield primary, primary.start_standby()


@pytest.fixture
def open_engine():
    """Open engines and close them at the end of the test."""
    with contextlib.ExitStack() as stack:

        def open(url, **how):
            engine = PostgresEngine(url, **how)
            stack.callback(engine.close)
            return engine

        yield open


def either(database, *servers):
    """Return the URL under which the server that takes writes is reached."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres:{servers[0].password}@{hosts}/{database}?target_session_attrs=read-write"


def wait_until(holds, what):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class Load:
    """Writers that append records and batches, with what was acknowledged and every error."""

    def __init__(self, engine, round=0):
        self._engine = engine
        self._round = round
        self._over = threading.Event()
        self.acknowledged = {}
        self.errors = []

    def __enter__(self):
        self._pool = ThreadPoolExecutor(_WRITERS)
        self._writers = [self._pool.submit(self._write, name) for name in range(_WRITERS)]
        return self

    def __exit__(self, *_):
        self._over.set()
        self._pool.shutdown()
        for writer in self._writers:
            writer.result()

    def _write(self, name):
        for number in itertools.count():
            if self._over.is_set():
                return
            parts = 3 if number % 5 == 0 else 1
            ids = [f"{self._round}/{name}/{number}/{part}" for part in range(parts)]
            try:
                for record in add(self._engine, *(make_draft(f"part of {number}", id=id) for id in ids)):
                    self.acknowledged[record.id, record.version] = record.digest
            except LukasaError as error:
                self.errors.append(error)

    def wait_for_more(self, number):
        enough = len(self.acknowledged) + number
        wait_until(lambda: len(self.acknowledged) >= enough, "the writers stopped")


def fail_over(primary, standby, engine, round=0, before=150):
    """Kill the primary under load, promote its standby, let the writers continue there, and return what they did."""
    with Load(engine, round) as load:
        load.wait_for_more(before)
        primary.kill()
        standby.promote()
        load.wait_for_more(50)
    return load


def check_nothing_is_lost(engine, acknowledged):
    log = {(record.id, record.version): record.digest for record in read(engine, every_version=True)}
    assert acknowledged.items() <= log.items()
    assert {version for _, version in log} == {1}, "something was written twice"
    batches = [id.rpartition("/")[0] for id, _ in log if int(id.split("/")[2]) % 5 == 0]
    assert all(batches.count(batch) == 3 for batch in set(batches)), "a batch is there in part"
    assert engine.verify().findings == ()


@pytest.mark.requirement("LOG-3", "LOG-5")
def test_a_primary_that_is_killed_under_load_takes_nothing_acknowledged_with_it(open_engine):
    with PostgresServer(durable=True) as primary:
        database = primary.create()
        standby = primary.start_standby()
        engine = open_engine(either(database, primary, standby), timeout=60)
        load = fail_over(primary, standby, engine)
        assert load.errors == []
        check_nothing_is_lost(open_engine(standby.url(database)), load.acknowledged)
        engine.close()


@pytest.mark.slow
@pytest.mark.requirement("LOG-3", "LOG-5")
def test_five_primaries_killed_in_a_row_take_nothing_acknowledged_with_them(open_engine, rng):
    acknowledged: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(durable=True))
        database = primary.create()
        for round in range(5):
            standby = primary.start_standby(f"standby_{round}")
            engine = open_engine(either(database, primary, standby), timeout=60)
            load = fail_over(primary, standby, engine, round, rng.randrange(10, 600))
            assert load.errors == []
            acknowledged |= load.acknowledged
            check_nothing_is_lost(engine, acknowledged)
            engine.close()
            primary = standby


@pytest.mark.requirement("LOG-3")
def test_a_write_that_the_standby_does_not_have_is_not_acknowledged(pair, open_engine):
    primary, standby = pair
    engine = open_engine(primary.url(primary.create()), timeout=60)
    write_note(engine, "before")
    standby.stop()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_note, engine, "during")
        with pytest.raises(TimeoutError):
            writing.result(0.7)
        standby.start()
        assert writing.result(30).version == 1
    assert list_ids(engine) == ["before", "during"]


class TestReadingFromAStandby:
    @pytest.fixture
    def engine(self, pair, open_engine):
        """Open an engine that writes to the primary and reads from the standby."""
        primary, standby = pair
        database = primary.create()
        open_engine(primary.url(database)).close()
        engine = open_engine(primary.url(database), read_url=standby.url(database), timeout=10)
        write_note(engine, "first", "0")
        assert text_of(engine, "first") == "0"
        return engine

    @pytest.mark.requirement("LOG-3")
    def test_every_write_is_visible_to_the_next_read_from_the_standby(self, pair, engine):
        _, standby = pair
        for number in range(1, 60):
            write_note(engine, "first", f"{number}")
            assert text_of(engine, "first") == f"{number}"
        (count,) = standby.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lukasa'")
        assert count > (0,)

    @pytest.mark.requirement("LOG-3")
    def test_a_write_through_another_engine_is_seen_as_well(self, pair, engine, open_engine):
        other = open_engine(engine.url)
        for number in range(1, 30):
            write_note(other, "first", f"{number}")
            assert text_of(engine, "first") == f"{number}"

    @pytest.mark.requirement("LOG-3")
    def test_a_standby_that_lags_is_waited_for(self, pair, engine):
        _, standby = pair
        with settled_by(standby, "recovery_min_apply_delay", "300ms"):
            for number in range(1, 4):
                write_note(engine, "first", f"{number}")
                assert text_of(engine, "first") == f"{number}"

    @pytest.mark.requirement("LOG-3")
    def test_a_standby_that_does_not_catch_up_is_passed_over(self, pair, engine):
        _, standby = pair
        standby.execute("SELECT pg_wal_replay_pause()")
        try:
            write_note(engine, "first", "1")
            assert text_of(engine, "first") == "1"
        finally:
            standby.execute("SELECT pg_wal_replay_resume()")
        assert text_of(engine, "first") == "1"

    @pytest.mark.requirement("LOG-3")
    def test_a_standby_that_is_gone_is_passed_over_until_it_is_back(self, pair, engine):
        primary, standby = pair
        primary.set_synchronous_standbys()
        standby.kill()
        try:
            began = time.monotonic()
            for number in range(1, 4):
                write_note(engine, "first", f"{number}")
                assert text_of(engine, "first") == f"{number}"
            assert time.monotonic() - began < 8
        finally:
            standby.start()
            primary.set_synchronous_standbys("standby")
        write_note(engine, "first", "after")
        assert text_of(engine, "first") == "after"

    @pytest.mark.requirement("LOG-3")
    def test_a_reader_that_goes_on_where_it_stopped_misses_nothing(self, engine):
        over = threading.Event()

        def follow():
            seen, cursor = [], 0
            while True:
                last = over.is_set()
                page = read(engine, after=cursor, limit=7)
                seen += [record.id for record in page]
                cursor = page[-1].seq if page else cursor
                if last and not page:
                    return seen

        def write(name):
            for number in range(25):
                add(engine, make_draft(id=f"{name}/{number}"), make_draft(id=f"{name}/{number} too"))

        with ThreadPoolExecutor(4) as pool:
            following = pool.submit(follow)
            for writing in [pool.submit(write, name) for name in range(3)]:
                writing.result(60)
            over.set()
            seen = following.result(60)
        assert len(seen) == len(set(seen)) == 1 + 3 * 25 * 2

    @pytest.mark.requirement("LOG-4")
    def test_lukasa_open_reads_from_the_standby_too(self, pair, engine):
        primary, standby = pair
        name = engine.url.split("/")[-1].split("?")[0]
        with lukasa.open(primary.url(name), read_url=standby.url(name)) as memory:
            key = memory.journal.write("note", "hello").unwrap().key
            assert present(memory.journal.get(key)).text == "hello"
            assert present(memory.journal.get(make_key("first"))).text == "0"
            assert memory.describe()["replica"]


@pytest.mark.requirement("LOG-3")
def test_a_server_that_went_its_own_way_is_not_read_from(open_engine):
    with PostgresServer(durable=True) as primary:
        database = primary.create()
        standby = primary.start_standby(synchronous=False)
        engine = open_engine(primary.url(database), read_url=standby.url(database), timeout=10)
        write_note(engine, "first", "0")
        standby.promote()
        standby.restart()
        for number in range(1, 10):
            write_note(engine, "first", f"{number}")
            assert text_of(engine, "first") == f"{number}"
        engine.close()


@contextlib.contextmanager
def settled_by(server, setting, value):
    """Change a setting of the server during the block."""
    server.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
    server.execute("SELECT pg_reload_conf()")
    try:
        wait_until(lambda: server.execute(f"SHOW {setting}") == [(value,)], "the setting did not change")
        yield
    finally:
        server.execute(f"ALTER SYSTEM RESET {setting}")
        server.execute("SELECT pg_reload_conf()")
