"""What is added to procrastinate: a schema kept up to date, rescues that take turns, signs of life to the end."""

import threading

import psycopg
import pytest

from lukasa.errors import LukasaError, NotAllowed, StoreNewer, StoreUnavailable
from lukasa.jobs import JobCounts, RunSummary
from lukasa.jobs.connections import JobConnectionPool
from lukasa.jobs.postgres_queue import PostgresJobQueue
from lukasa.jobs.postgres_schema import RESCUE_LOCK, load_migrations, migrate_schema
from lukasa.scope import FULL_REACH
from support.postgres import PostgresServer

pytestmark = pytest.mark.requirement("OPS-3")


@pytest.fixture
def sql(url):
    """Runs a statement among the tables of the jobs."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO lukasa_jobs")
        yield lambda statement, *values: connection.execute(statement, values)


@pytest.fixture
def memory(opened, url):
    return opened(url)


@pytest.fixture
def done(register):
    done = []

    @register.job("note", attempts=3)
    def note(memory, what=None):
        done.append(what)

    return done


def abandon(sql, *ids):
    """Leaves jobs as a worker does that was killed an hour ago."""
    (worker,) = sql(
        "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour') RETURNING id"
    ).fetchone()
    sql(
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s WHERE id = ANY (%s)",
        worker,
        [int(id) for id in ids],
    )


def test_a_database_of_an_older_procrastinate_is_brought_up_to_date(url, opened, done):
    migrate_schema(url, dict(list(load_migrations().items())[:-3]))
    memory = opened(url)
    memory.jobs.defer("note", key="k", what="still here")
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert done == ["still here"]


def test_any_number_of_processes_may_set_it_up_at_once(url, server):
    ready, failures = threading.Barrier(10), []

    def first():
        ready.wait()
        try:
            migrate_schema(url)
        except (psycopg.Error, LukasaError) as error:
            failures.append(error)

    threads = [threading.Thread(target=first) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_database_of_a_newer_procrastinate_is_refused(url, opened, done):
    migrate_schema(url, load_migrations() | {"99.00.00_01_of_tomorrow.sql": "CREATE TABLE of_tomorrow (id int)"})
    with pytest.raises(StoreNewer, match="of_tomorrow"):
        opened(url).jobs.status()


def test_a_migration_that_fails_leaves_nothing_half_done(url, opened, done):
    with pytest.raises(psycopg.Error):
        migrate_schema(
            url, load_migrations() | {"99.00.00_01_bad.sql": "ALTER TABLE migration RENAME TO where_it_cannot_be_noted"}
        )
    memory = opened(url)
    memory.jobs.defer("note")
    assert memory.jobs.run_waiting() == RunSummary(done=1)


def test_a_role_without_rights_is_told_what_to_run(server, url, opened, done):
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


def test_a_role_that_is_kept_out_is_told_whose_the_jobs_are(server, memory, url, done):
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


def test_retrying_a_failed_job_while_a_newer_one_waits_leaves_the_newer_one(memory, done, sql):
    failed = memory.jobs.defer("note", key="k", what="older").id
    sql("UPDATE procrastinate_jobs SET status = 'failed' WHERE id = %s", failed)
    sql("UPDATE procrastinate_jobs SET queueing_lock = queueing_lock || 'x' WHERE id = %s", failed)
    memory.jobs.defer("note", key="k", what="newer")
    sql("UPDATE procrastinate_jobs SET queueing_lock = rtrim(queueing_lock, 'x') WHERE id = %s", failed)
    assert memory.jobs.retry(failed)
    assert [job.arguments for job in memory.jobs.find()] == [{"what": "newer"}]


def test_rescuers_take_turns(memory, done, sql, eventually):
    """A rescuer that read its list before another one's rescue must not take the job from its new, living worker."""
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


def test_a_worker_that_lost_its_job_to_another_goes_on(memory, opened, url, register, sql):
    other, by_other = opened(url), []

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


@pytest.mark.parametrize("ending", ["told to stop", "at its limit"])
def test_a_worker_that_is_about_to_leave_holds_on_to_its_last_job(memory, register, sql, working, eventually, ending):
    started, go = threading.Event(), threading.Event()

    @register.job("slow")
    def slow(_):
        started.set()
        assert go.wait(60)

    memory.jobs.defer("slow")
    if ending == "told to stop":
        stop, end = working(memory, lease=0.3)
    else:
        thread = threading.Thread(target=memory.jobs.run_waiting, args=(1,), kwargs={"lease": 0.3})
        thread.start()
        end, stop = thread.join, threading.Event()
    assert started.wait(60)
    stop.set()
    for _ in range(10):  # the first ones may come from before it was told
        sql("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
        eventually(
            lambda: sql(
                "SELECT 1 FROM procrastinate_workers WHERE last_heartbeat > now() - interval '1 minute'"
            ).fetchone()
        )
    go.set()
    end()
    assert memory.jobs.status() == JobCounts()


def test_a_worker_goes_on_after_its_connections_were_cut(memory, done, sql, working, eventually):
    working(memory)
    memory.jobs.defer("note", what="before")
    eventually(lambda: done == ["before"])
    sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    memory.jobs.defer("note", what="after")
    eventually(lambda: "after" in done and memory.jobs.status() == JobCounts())


@pytest.mark.slow
def test_a_worker_outlives_a_restart_of_the_server(opened, done, working, eventually):
    troubles = []
    with PostgresServer() as server, server.database() as url:
        memory = opened(url)
        _, end = working(memory, trouble=troubles.append)
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


def test_a_job_whose_end_could_not_be_noted_is_done_again(memory, register, sql, working, eventually):
    done = []

    @register.job("cut")
    def cut(_):
        done.append("done")
        if len(done) == 1:
            sql("ALTER FUNCTION procrastinate_finish_job_v1 RENAME TO out_of_order")

    working(memory)
    memory.jobs.defer("cut")
    eventually(lambda: done)
    eventually(lambda: not sql("SELECT 1 FROM procrastinate_jobs WHERE worker_id IS NOT NULL").fetchone())
    sql("ALTER FUNCTION out_of_order RENAME TO procrastinate_finish_job_v1")
    eventually(lambda: memory.jobs.status() == JobCounts())
    assert len(done) >= 2


def test_jobs_that_came_with_the_log_of_a_file_are_taken_over(opened, url, file, done, register, tmp_path):
    source, target = opened(file), opened(url)
    register.job("stumble", attempts=1)(lambda memory: 1 / 0)
    for name, key in (("stumble", None), ("note", None), ("note", "daily"), ("note", None)):
        source.jobs.defer(name, key=key)
        if name == "stumble":
            source.jobs.run_waiting()
    source.export(tmp_path / "log.jsonl")
    target.import_(tmp_path / "log.jsonl")
    assert target.jobs.status() == JobCounts(waiting=4)
    assert target.jobs.run_waiting() == RunSummary(done=3, failed=1)
    assert opened(url).jobs.status() == JobCounts(failed=1)


def test_only_the_owner_works(opened, url, done):
    orion = opened(url, agent="orion")
    orion.jobs.defer("note")
    for work in (orion.jobs.run_waiting, lambda: orion.jobs.work(threading.Event())):
        with pytest.raises(NotAllowed):
            work()
    assert done == []


def test_a_server_that_is_not_there_is_an_error_of_ours():
    with pytest.raises(StoreUnavailable):
        PostgresJobQueue("postgresql://postgres:secret@127.0.0.1:1/nowhere", FULL_REACH)


def test_nothing_of_the_jobs_stays_when_they_are_done(memory, done, sql):
    memory.jobs.defer("note", what="canary")
    memory.jobs.run_waiting()
    for table in ("procrastinate_jobs", "procrastinate_events", "failure", "procrastinate_workers"):
        assert sql(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_the_tables_of_jobs_stand_apart_from_those_of_the_store(memory, done, sql):
    memory.jobs.defer("note")
    schemas = sql("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'procrastinate%%'").fetchall()
    assert schemas == [("lukasa_jobs",)]
    assert memory.verify().sound


def test_what_was_deferred_is_committed_for_good_whatever_the_server_says(url, sql):
    name = sql("SELECT current_database()").fetchone()[0]
    sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    lines = JobConnectionPool(url, timeout=10)
    with lines.transaction() as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone()["synchronous_commit"] == "on"
    lines.close()


def test_a_password_with_odd_characters_is_understood(server, url, done, opened):
    server.execute("CREATE ROLE odd LOGIN SUPERUSER PASSWORD 'p@ss/wörd%'")
    try:
        name = url.split("/")[3].split("?")[0]
        memory = opened(server.url(name, user="odd", password="p@ss/wörd%", tcp=True))
        memory.jobs.defer("note")
        assert memory.jobs.run_waiting() == RunSummary(done=1)
        memory.close()
    finally:
        with psycopg.connect(url) as connection:
            connection.execute("REASSIGN OWNED BY odd TO postgres")
        server.execute("DROP ROLE odd")
