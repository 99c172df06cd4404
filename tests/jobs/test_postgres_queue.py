"""Additions to procrastinate: migrations, rescues that take turns, heartbeats until the last job is done."""

import threading
from typing import Any

import psycopg
import pytest

from lukasa.core.scope import FULL_REACH
from lukasa.errors import LukasaError, NotAllowed, StoreNewer, StoreUnavailable
from lukasa.jobs import JobCounts, RunSummary
from lukasa.jobs.postgres_queue import PostgresJobQueue
from lukasa.jobs.postgres_schema import RESCUE_LOCK, connect, load_migrations, migrate_schema
from support.postgres import PostgresServer
from support.proxy import Proxy

pytestmark = pytest.mark.requirement("OPS-3")


@pytest.fixture
def sql(url):
    """Run a statement with the job tables on the search path."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO lukasa_jobs")
        yield lambda statement, *values: connection.execute(statement, values)


@pytest.fixture
def memory(open_store, url):
    return open_store(url)


@pytest.fixture
def done(register):
    done = []

    @register.job("note", attempts=3)
    def note(memory, what=None):
        done.append(what)

    return done


def abandon(sql, *ids):
    """Set jobs to the state in which a worker leaves them that was killed an hour ago."""
    (worker,) = sql(
        "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour') RETURNING id"
    ).fetchone()
    sql(
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s WHERE id = ANY (%s)",
        worker,
        [int(id) for id in ids],
    )


def test_the_schema_of_an_older_procrastinate_is_migrated(url, open_store, done):
    migrate_schema(url, dict(list(load_migrations().items())[:-3]))
    memory = open_store(url)
    memory.jobs.defer("note", key="k", what="still here")
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert done == ["still here"]


def test_ten_threads_migrate_at_once(url, server):
    ready, failures = threading.Barrier(10), []

    def migrate():
        ready.wait()
        try:
            migrate_schema(url)
        except (psycopg.Error, LukasaError) as error:
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_schema_of_a_newer_procrastinate_is_refused(url, open_store, done):
    migrate_schema(url, load_migrations() | {"99.00.00_01_of_tomorrow.sql": "CREATE TABLE of_tomorrow (id int)"})
    with pytest.raises(StoreNewer, match="of_tomorrow"):
        open_store(url).jobs.status()


def test_a_failed_migration_is_rolled_back(url, open_store, done):
    with pytest.raises(psycopg.Error):
        migrate_schema(
            url, load_migrations() | {"99.00.00_01_bad.sql": "ALTER TABLE migration RENAME TO where_it_cannot_be_noted"}
        )
    memory = open_store(url)
    memory.jobs.defer("note")
    assert memory.jobs.run_waiting() == RunSummary(done=1)


def test_a_role_without_rights_gets_the_statement_to_run(server, url, open_store, done):
    server.execute("CREATE ROLE modest LOGIN")
    try:
        modest = url.replace("postgres@", "modest@")
        with pytest.raises(NotAllowed) as refusal:
            migrate_schema(modest)
        statement = str(refusal.value).rpartition("once: ")[2]
        assert statement == "CREATE SCHEMA lukasa_jobs AUTHORIZATION modest;"
        with psycopg.connect(url) as connection:
            connection.execute(statement)
        migrate_schema(modest)
        with psycopg.connect(url) as connection:
            connection.execute("DROP OWNED BY modest")
    finally:
        server.execute("DROP ROLE modest")


def test_a_role_that_does_not_own_the_tables_is_refused(server, memory, url, done):
    memory.jobs.status()
    server.execute("CREATE ROLE outsider LOGIN")
    try:
        with pytest.raises(NotAllowed, match="belong to another role"):
            migrate_schema(url.replace("postgres@", "outsider@"))
    finally:
        server.execute("DROP ROLE outsider")


def test_a_stalled_job_gives_way_to_a_newer_one_with_its_key(memory, done, sql):
    abandon(sql, memory.jobs.defer("note", key="k", what="older").id)
    memory.jobs.defer("note", key="k", what="newer")
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert (done, memory.jobs.status()) == (["newer"], JobCounts())


def test_retry_of_a_failed_job_leaves_the_newer_one_with_its_key(memory, done, sql):
    failed = memory.jobs.defer("note", key="k", what="older").id
    sql("UPDATE procrastinate_jobs SET status = 'failed' WHERE id = %s", failed)
    sql("UPDATE procrastinate_jobs SET queueing_lock = queueing_lock || 'x' WHERE id = %s", failed)
    memory.jobs.defer("note", key="k", what="newer")
    sql("UPDATE procrastinate_jobs SET queueing_lock = rtrim(queueing_lock, 'x') WHERE id = %s", failed)
    assert memory.jobs.retry(failed)
    assert [job.arguments for job in memory.jobs.list()] == [{"what": "newer"}]


def test_rescuers_take_turns(memory, done, sql, eventually):
    """A rescuer with an outdated list must not take a job from its new, living worker."""
    abandon(sql, memory.jobs.defer("note").id)
    sql("SELECT pg_advisory_lock(%s, %s)", *RESCUE_LOCK)
    rescuer = threading.Thread(target=memory.jobs.run_waiting)
    rescuer.start()
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND NOT granted"
    eventually(lambda: sql(waiting, *RESCUE_LOCK).fetchone())
    (living,) = sql("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id").fetchone()
    sql("UPDATE procrastinate_jobs SET worker_id = %s", living)
    sql("SELECT pg_advisory_unlock(%s, %s)", *RESCUE_LOCK)
    rescuer.join()
    assert (done, memory.jobs.status()) == ([], JobCounts(running=1))


def test_a_worker_that_was_removed_registers_again_and_goes_on(memory, open_store, url, register, sql):
    other = open_store(url)
    by_other: list[Any] = []

    @register.job("doze")
    def doze(_, what):
        if what == "doze" and not by_other:
            by_other.append("on it")
            sql("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
            by_other.append(other.jobs.run_waiting(1))

    memory.jobs.defer("doze", what="doze")
    memory.jobs.defer("doze", what="on with it")
    memory.jobs.run_waiting()
    assert by_other == ["on it", RunSummary(done=1)]
    assert memory.jobs.status() == JobCounts()


@pytest.mark.parametrize("ending", ["stopped", "at its limit"])
def test_a_stopping_worker_sends_heartbeats_until_its_last_job_is_done(
    memory, register, sql, start_worker, eventually, ending
):
    started, go = threading.Event(), threading.Event()

    @register.job("slow")
    def slow(_):
        started.set()
        assert go.wait(60)

    memory.jobs.defer("slow")
    if ending == "stopped":
        stop, end = start_worker(memory, lease=0.3)
    else:
        thread = threading.Thread(target=memory.jobs.run_waiting, args=(1,), kwargs={"lease": 0.3})
        thread.start()
        end, stop = thread.join, threading.Event()
    assert started.wait(60)
    stop.set()
    for _ in range(10):  # the first ones may be from before the stop
        sql("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
        eventually(
            lambda: sql(
                "SELECT 1 FROM procrastinate_workers WHERE last_heartbeat > now() - interval '1 minute'"
            ).fetchone()
        )
    go.set()
    end()
    assert memory.jobs.status() == JobCounts()


def test_a_worker_survives_the_loss_of_its_connections(memory, done, sql, start_worker, eventually):
    start_worker(memory)
    memory.jobs.defer("note", what="before")
    eventually(lambda: done == ["before"])
    sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    memory.jobs.defer("note", what="after")
    eventually(lambda: "after" in done and memory.jobs.status() == JobCounts())


@pytest.mark.slow
def test_a_worker_survives_a_restart_of_the_server(open_store, done, start_worker, eventually):
    troubles: list[Any] = []
    with PostgresServer() as server, server.database() as url:
        memory = open_store(url)
        _, end = start_worker(memory, trouble=troubles.append)
        memory.jobs.defer("note", what="before")
        eventually(lambda: done == ["before"])
        server.stop()
        eventually(lambda: troubles)
        server.start()
        memory.jobs.defer("note", what="after")
        eventually(lambda: "after" in done)
        end()
        memory.close()
    assert {type(trouble) for trouble in troubles} == {StoreUnavailable}


def test_a_job_whose_result_could_not_be_recorded_runs_again(memory, register, sql, start_worker, eventually):
    done = []

    @register.job("cut")
    def cut(_):
        done.append("done")
        if len(done) == 1:
            sql("ALTER FUNCTION procrastinate_finish_job_v1 RENAME TO out_of_order")

    start_worker(memory)
    memory.jobs.defer("cut")
    eventually(lambda: done)
    eventually(lambda: not sql("SELECT 1 FROM procrastinate_jobs WHERE worker_id IS NOT NULL").fetchone())
    sql("ALTER FUNCTION out_of_order RENAME TO procrastinate_finish_job_v1")
    eventually(lambda: memory.jobs.status() == JobCounts())
    assert len(done) >= 2


def test_jobs_of_an_imported_log_are_moved_to_the_queue(open_store, url, file, done, register, tmp_path):
    source, target = open_store(file), open_store(url)
    register.job("stumble", attempts=1)(lambda memory: 1 / 0)
    for name, key in (("stumble", None), ("note", None), ("note", "daily"), ("note", None)):
        source.jobs.defer(name, key=key)
        if name == "stumble":
            source.jobs.run_waiting()
    source.export(tmp_path / "log.jsonl")
    target.import_(tmp_path / "log.jsonl")
    assert target.jobs.status() == JobCounts(waiting=4)
    assert target.jobs.run_waiting() == RunSummary(done=3, failed=1)
    assert open_store(url).jobs.status() == JobCounts(failed=1)


def test_only_the_owner_runs_jobs(open_store, url, done):
    orion = open_store(url, agent="orion")
    orion.jobs.defer("note")
    for run in (orion.jobs.run_waiting, lambda: orion.jobs.work(threading.Event())):
        with pytest.raises(NotAllowed):
            run()
    assert done == []


def test_a_missing_server_raises_store_unavailable():
    with pytest.raises(StoreUnavailable):
        PostgresJobQueue("postgresql://postgres:secret@127.0.0.1:1/nowhere", FULL_REACH)


@pytest.mark.parametrize("where", ["request", "sent", "answer"])
def test_a_job_is_stored_once_when_its_connection_is_cut(open_store, server, url, done, sql, where):
    proxy = Proxy(server.port)
    try:
        database = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        memory = open_store(server.url(database, port=proxy.port))
        memory.jobs.defer("note", what="before")
        with proxy.cut_requests(where, matching=b"COMMIT"):
            assert not memory.jobs.defer("note", what="during").repeated
        assert [job.arguments["what"] for job in memory.jobs.list()] == ["before", "during"]
    finally:
        proxy.close()


def test_a_done_job_leaves_no_row(memory, done, sql):
    memory.jobs.defer("note", what="canary")
    memory.jobs.run_waiting()
    for table in ("procrastinate_jobs", "procrastinate_events", "failure", "procrastinate_workers"):
        assert sql(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_the_job_tables_have_their_own_schema(memory, done, sql):
    memory.jobs.defer("note")
    schemas = sql("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'procrastinate%%'").fetchall()
    assert schemas == [("lukasa_jobs",)]
    assert memory.verify().sound


def test_commits_are_durable_whatever_the_server_default_is(url, sql):
    name = sql("SELECT current_database()").fetchone()[0]
    sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    with connect(url) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_password_with_odd_characters_works(server, url, done, open_store):
    server.execute("CREATE ROLE odd LOGIN SUPERUSER PASSWORD 'p@ss/wörd%'")
    try:
        name = url.split("/")[3].split("?")[0]
        memory = open_store(server.url(name, user="odd", password="p@ss/wörd%", tcp=True))
        memory.jobs.defer("note")
        assert memory.jobs.run_waiting() == RunSummary(done=1)
        memory.close()
    finally:
        with psycopg.connect(url) as connection:
            connection.execute("REASSIGN OWNED BY odd TO postgres")
        server.execute("DROP ROLE odd")
