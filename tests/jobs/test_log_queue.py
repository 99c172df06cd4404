"""The job queue in the log: leases, pauses and races with a frozen clock."""

import threading
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Draft, Key
from lukasa.errors import StoreBusy
from lukasa.jobs import JobCounts, RunSummary, TaskRegistry
from lukasa.jobs.job import WORKER_DIED
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock
from support.narrow import present
from support.store_reads import write_unchecked

pytestmark = pytest.mark.requirement("OPS-3")


class Death(BaseException):
    """Exception that ends a worker in the middle of a job, so that it records nothing."""


@pytest.fixture
def memory(open_store, clock, file):
    return open_store(file, clock=clock)


@pytest.fixture
def fate(register):
    """Register a job that raises the next exception of the returned list, and succeeds once the list is empty."""
    fate: list[Exception] = []

    @register.job("venture", attempts=3, backoff=10)
    def venture(memory):
        if fate:
            raise fate.pop(0)

    return fate


def test_the_pause_doubles_after_each_failed_attempt(memory, clock, fate):
    fate += [RuntimeError("one"), RuntimeError("two")]
    memory.jobs.defer("venture")
    assert memory.jobs.run_waiting() == RunSummary(retried=1)
    for pause, ran in ((10, RunSummary(retried=1)), (20, RunSummary(done=1))):
        clock.advance(pause - 0.001)
        assert memory.jobs.run_waiting() == RunSummary()
        clock.advance(0.001)
        assert memory.jobs.run_waiting() == ran


def test_a_delayed_job_runs_when_it_is_due(memory, clock, fate):
    memory.jobs.defer("venture", delay=60)
    clock.advance(59)
    assert memory.jobs.run_waiting() == RunSummary()
    clock.advance(1)
    assert memory.jobs.run_waiting() == RunSummary(done=1)


def test_a_dead_workers_job_runs_again_after_its_lease_and_not_before(memory, clock, fate):
    fate.append(Death())
    memory.jobs.defer("venture")
    with pytest.raises(Death):
        memory.jobs.run_waiting(lease=60)
    assert memory.jobs.status() == JobCounts(running=1)
    clock.advance(59.999)
    assert memory.jobs.run_waiting() == RunSummary()
    clock.advance(0.001)
    assert memory.jobs.run_waiting() == RunSummary(done=1)


def test_a_job_that_kills_every_worker_is_listed_as_failed(memory, clock, fate):
    fate += [Death(), Death(), Death()]
    memory.jobs.defer("venture")
    for _ in range(3):
        with pytest.raises(Death):
            memory.jobs.run_waiting()
        clock.advance(60)
    assert memory.jobs.run_waiting() == RunSummary(failed=1)
    (job,) = memory.jobs.list("failed")
    assert (job.attempts, job.error) == (3, WORKER_DIED)


def test_a_worker_that_lost_its_job_cannot_record_the_result(open_store, file, clock, register):
    memory, other = open_store(file, clock=clock), open_store(file, clock=clock)
    by_other: list[Any] = []

    @register.job("doze")
    def doze(_):
        if by_other:
            raise RuntimeError("not yet")
        by_other.append("on it")
        clock.advance(60)
        by_other.append(other.jobs.run_waiting())

    memory.jobs.defer("doze")
    assert memory.jobs.run_waiting() == RunSummary(lost=1)
    assert by_other == ["on it", RunSummary(retried=1)]
    (job,) = memory.jobs.list("waiting")
    assert (job.attempts, job.error) == (2, "RuntimeError: not yet")


def test_the_lease_of_a_long_job_is_renewed(open_store, file, clock, register, eventually):
    other, seen = open_store(file, clock=clock), []

    def lease_end():
        return next(other.journal.read(Query(kinds=("job",)))).body["until"]

    @register.job("long")
    def long(memory):
        for _ in range(5):
            before = lease_end()
            clock.advance(0.02)
            eventually(lambda before=before: lease_end() > before)
            seen.append(other.jobs.run_waiting())

    memory = open_store(file, clock=clock)
    memory.jobs.defer("long")
    assert memory.jobs.run_waiting(lease=0.03) == RunSummary(done=1)
    assert seen == [RunSummary()] * 5


def test_one_of_several_workers_claims_each_job(open_store, file, register):
    done = []
    register.job("note")(lambda memory, what: done.append(what))
    memories = [open_store(file) for _ in range(4)]
    for number in range(25):
        memories[0].jobs.defer("note", what=number)
    start = threading.Barrier(len(memories))

    def work(memory):
        start.wait()
        memory.jobs.run_waiting()

    workers = [threading.Thread(target=work, args=(memory,)) for memory in memories]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(done) == list(range(25))


def test_the_history_of_a_job_has_each_of_its_states(memory, fate, clock):
    fate.append(RuntimeError("not yet"))
    id = memory.jobs.defer("venture").id
    memory.jobs.run_waiting()
    clock.advance(10)
    memory.jobs.run_waiting()
    history = memory.journal.history(Key("_lukasa", "job", id))
    assert [record.body["state"] for record in history] == ["waiting", "running", "waiting", "running", "done"]
    assert history[-1].deleted


def test_jobs_survive_closing_and_compacting_the_store(open_store, file, fate, clock):
    with lukasa.open(file, clock=clock) as memory:
        memory.jobs.serving(open_store(file).jobs.register).defer("venture")
        memory.compact()
    memory = open_store(file, clock=clock)
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert memory.verify().sound


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "venture"},
        {"name": "venture", "arguments": [], "state": "waiting", "attempts": 0},
        {"name": "venture", "arguments": {}, "state": "done", "attempts": 0},
        {"name": ["venture"], "arguments": {}, "state": "waiting", "attempts": 0},
        {"name": "venture", "arguments": {}, "state": "waiting", "attempts": 0, "due": "soon"},
        {"name": "venture", "arguments": {}, "state": "running", "attempts": 0, "until": 5},
        {"name": "venture", "arguments": {}, "state": "waiting", "attempts": 0, "again": {}},
        {"name": "venture", "arguments": {}, "state": [], "attempts": 0},
    ],
)
def test_a_malformed_job_record_does_not_stop_a_worker(memory, fate, body):
    assert memory.valid_journal.write("job", body=body, id="odd").code == "bad_body"
    write_unchecked(memory, Draft("job", body=body, id="odd", scope="shared", labels=("job=open",)))
    memory.jobs.defer("venture")
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert memory.jobs.status() == JobCounts()
    assert not memory.jobs.drop("odd")


def test_the_jobs_of_a_quarantined_agent_wait_until_it_is_released(open_store, file, clock, fate):
    owner, mallory = open_store(file, clock=clock), open_store(file, clock=clock, agent="mallory")
    mallory.jobs.defer("venture")
    fate.append(RuntimeError("not yet"))
    owner.jobs.run_waiting()
    clock.advance(10)
    owner.journal.quarantine("mallory")
    assert owner.jobs.run_waiting() == RunSummary()
    owner.journal.release("mallory")
    assert owner.jobs.run_waiting() == RunSummary(done=1)


def test_undo_removes_an_agents_waiting_jobs_and_revives_none(open_store, file, clock, fate):
    owner, orion = open_store(file, clock=clock), open_store(file, clock=clock, agent="orion")
    orion.jobs.defer("venture")
    since = clock.advance(1)
    owner.jobs.run_waiting()
    orion.jobs.defer("venture")
    owner.journal.undo(author="orion", since=since)
    assert owner.jobs.status() == JobCounts()
    assert owner.jobs.run_waiting() == RunSummary()


def test_erase_removes_the_jobs_of_agents_that_name_the_subject(open_store, file, register):
    register.job("greet")(lambda memory, whom: None)
    owner, orion = open_store(file), open_store(file, agent="orion")
    done, waiting = (orion.jobs.defer("greet", whom="Ada Lovelace").id for _ in range(2))
    owner.jobs.run_waiting(1)
    owner.journal.erase(subject="Ada Lovelace")
    assert [owner.journal.history(Key("orion", "job", id)) for id in (done, waiting)] == [[], []]
    assert owner.jobs.status() == JobCounts()


def test_an_agent_runs_only_jobs_of_its_own_scopes(open_store, file, fate):
    owner, orion = open_store(file), open_store(file, agent="orion")
    owner.jobs.defer("venture")
    orion.jobs.defer("venture")
    assert orion.jobs.run_waiting() == RunSummary(done=1)
    assert owner.jobs.status() == JobCounts(waiting=1)


def test_a_worker_waits_while_the_store_is_busy(open_store, file, fate, start_worker, eventually):
    memory, holder = open_store(file, timeout=0.01), open_store(file)
    troubles: list[Any] = []
    memory.jobs.defer("venture")
    release = threading.Event()

    def hold(reader):
        release.wait(60)
        return []

    thread = threading.Thread(target=holder.journal.append_if, args=(hold,))
    thread.start()
    start_worker(memory, trouble=troubles.append)
    eventually(lambda: troubles)
    release.set()
    thread.join()
    eventually(lambda: memory.jobs.status() == JobCounts())
    assert {type(trouble) for trouble in troubles} == {StoreBusy}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("defer"), st.sampled_from([None, "a", "b"])),
        st.tuples(st.just("run"), st.sampled_from(["succeed", "fail", "die"])),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0, 60.0, 3600.0])),
    ),
    max_size=25,
)


@given(STEPS)
def test_every_job_is_done_or_failed_or_replaced_by_a_later_one_with_its_key(steps):
    register, clock, keys, done = TaskRegistry(), FrozenClock(), {}, set()
    fate = "succeed"

    @register.job("venture", attempts=3)
    def venture(memory, number):
        if fate == "die":
            raise Death
        if fate == "fail":
            raise RuntimeError
        done.add(number)

    with lukasa.open("memory:", clock=clock) as memory:
        jobs = memory.jobs.serving(register)
        for number, (step, how) in enumerate(steps):
            if step == "defer" and not present(jobs.defer("venture", key=how, number=number)).repeated:
                keys[number] = how
            elif step == "wait":
                clock.advance(how)
            elif step == "run":
                fate = how
                with suppress(Death):
                    jobs.run_waiting()
        fate = "succeed"
        for _ in range(3):
            clock.advance(7200)
            jobs.run_waiting()
        failed = {job.arguments["number"] for job in jobs.list("failed")}
        assert jobs.status() == JobCounts(failed=len(failed))
        replaced = {n for n, key in keys.items() if key and any(keys[later] == key for later in keys if later > n)}
        assert done | failed <= set(keys) <= done | failed | replaced
        assert not done & failed
