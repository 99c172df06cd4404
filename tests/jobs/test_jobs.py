"""Behaviour of ``memory.jobs`` on every engine: in a file, in memory, on PostgreSQL."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from lukasa.core.outcome import Refused
from lukasa.errors import InvalidInput
from lukasa.jobs import DeferredJob, Job, JobCounts, RunSummary

pytestmark = pytest.mark.requirement("OPS-3")


@pytest.fixture
def done(register):
    """Register a job that notes its arguments in the returned list, and one that always fails."""
    done = []

    @register.job("note")
    def note(memory, what=None, **more):
        done.append(what if not more else (what, more))

    @register.job("stumble", attempts=3, backoff=0)
    def stumble(memory):
        raise RuntimeError("there is a\0stone\nin the way")

    return done


def test_a_deferred_job_runs_with_its_arguments_and_is_then_gone(memory, done):
    assert isinstance(memory.jobs.defer("note", what={"a": [1, None]}), DeferredJob)
    assert memory.jobs.status() == JobCounts(waiting=1)
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert done == [{"a": [1, None]}]
    assert memory.jobs.status() == JobCounts()
    assert memory.jobs.run_waiting() == RunSummary()


def test_a_json_object_that_a_job_returns_is_its_result(memory, register, open_store):
    returned = iter([{"count": 1}, {"count": 2}, [3], {"count": object()}, None])
    register.job("count")(lambda memory: next(returned))
    ids = [memory.jobs.defer("count").id for _ in range(5)]
    assert memory.jobs.result(ids[0]) is None
    assert memory.jobs.run_waiting() == RunSummary(done=5)
    assert sorted(map(str, map(memory.jobs.result, ids))) == ["None", "None", "None", "{'count': 1}", "{'count': 2}"]


def test_only_who_may_read_its_scope_reads_the_result_of_a_job(memory, register):
    register.job("count")(lambda memory: {"count": 1})
    deferred = memory.as_agent("ada").jobs.serving(register).defer("count")
    memory.jobs.run_waiting()
    assert memory.as_agent("ada").jobs.result(deferred.id) == {"count": 1}
    assert memory.as_agent("ben").jobs.result(deferred.id) is None


def test_arguments_arrive_as_they_were_sent(memory, done):
    sent = ["\0 ünï “quotes” \\u0000 😀", 2**63, -1, 0.1, 1e300, 1.0, True, None, {"": {"NaN": []}}]
    memory.jobs.defer("note", what=sent)
    memory.jobs.run_waiting()
    assert repr(done) == repr([sent])


@pytest.mark.parametrize(
    ("name", "call", "code"),
    [
        ("no-such-job", {}, "unknown_job"),
        ("note", {"what": float("nan")}, "bad_arguments"),
        ("note", {"what": "half a character: \ud83d"}, "bad_arguments"),
        ("note", {"what": object}, "bad_arguments"),
        ("note", {"what": "x" * 100_001}, "bad_arguments"),
        ("note", {"what": "ü" * 60_000}, "bad_arguments"),
        ("stumble", {"what": 1}, "bad_arguments"),
        ("note", {"key": ""}, "bad_key"),
        ("note", {"key": "x" * 1001}, "bad_key"),
        ("note", {"key": "\ud83d"}, "bad_key"),
        ("note", {"delay": -1}, "bad_delay"),
        ("note", {"delay": float("nan")}, "bad_delay"),
    ],
)
def test_defer_refuses_a_job_that_could_never_run(memory, done, name, call, code):
    outcome = memory.jobs.defer(name, **call)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert memory.jobs.status() == JobCounts()


def test_at_most_one_job_per_key_waits(memory, done):
    first = memory.jobs.defer("note", key="daily", what="first")
    assert not first.repeated
    assert memory.jobs.defer("note", key="daily", what="second") == DeferredJob(first.id, repeated=True)
    assert not memory.jobs.defer("note", key="daily", scope="shared", what="elsewhere").repeated
    assert not memory.jobs.defer("note", key="weekly", what="another").repeated
    assert not memory.jobs.defer("note", what="without a key").repeated
    memory.jobs.run_waiting()
    assert sorted(done) == ["another", "elsewhere", "first", "without a key"]


def test_a_key_is_free_again_once_its_job_is_done(memory, done):
    for what in ("first", "second"):
        assert not memory.jobs.defer("note", key="daily", what=what).repeated
        memory.jobs.run_waiting()
    assert done == ["first", "second"]


def test_a_job_deferred_again_while_it_runs_runs_once_more(memory, register):
    done = []

    @register.job("tidy")
    def tidy(job_memory, what):
        done.append(what)
        if what == "first":
            assert not job_memory.jobs.defer("tidy", key="k", what="second").repeated
            assert job_memory.jobs.defer("tidy", key="k", what="third").repeated

    memory.jobs.defer("tidy", key="k", what="first")
    assert memory.jobs.run_waiting() == RunSummary(done=2)
    assert done == ["first", "second"]
    assert memory.jobs.status() == JobCounts()


def test_a_job_that_fails_after_it_was_deferred_again_does_not_get_stuck(memory, register):
    done = []

    @register.job("tidy", attempts=2, backoff=0)
    def tidy(job_memory, what):
        if what == "first":
            job_memory.jobs.defer("tidy", key="k", what="second")
            raise RuntimeError("something was moved")
        done.append(what)

    memory.jobs.defer("tidy", key="k", what="first")
    memory.jobs.run_waiting()
    assert done == ["second"]
    assert memory.jobs.status() == JobCounts()


def test_a_job_that_always_fails_is_listed_as_failed(memory, done):
    deferred = memory.jobs.defer("stumble", key="k")
    assert memory.jobs.run_waiting() == RunSummary(retried=2, failed=1)
    assert memory.jobs.status() == JobCounts(failed=1)
    (job,) = memory.jobs.list("failed")
    error = "RuntimeError: there is a stone in the way"
    assert job == Job(deferred.id, "stumble", {}, "_lukasa", "", "k", "failed", 3, None, error)
    assert memory.jobs.run_waiting() == RunSummary()


def test_retry_gives_a_failed_job_all_its_attempts_again(memory, done):
    id = memory.jobs.defer("stumble").id
    assert not memory.jobs.retry(id)
    memory.jobs.run_waiting()
    assert memory.jobs.retry(id)
    assert memory.jobs.status() == JobCounts(waiting=1)
    assert memory.jobs.run_waiting() == RunSummary(retried=2, failed=1)


def test_a_failed_job_that_is_deferred_again_is_listed_once(memory, done):
    memory.jobs.defer("stumble", key="k")
    memory.jobs.run_waiting()
    assert not memory.jobs.defer("stumble", key="k").repeated
    assert memory.jobs.status() == JobCounts(waiting=1)


@pytest.mark.parametrize("name", ["note", "stumble"])
def test_a_dropped_job_does_not_run(memory, done, name):
    id = memory.jobs.defer(name).id
    if name == "stumble":
        memory.jobs.run_waiting()
    assert memory.jobs.drop(id)
    assert not memory.jobs.drop(id)
    assert memory.jobs.status() == JobCounts()
    assert memory.jobs.run_waiting() == RunSummary()
    assert done == []


@pytest.mark.parametrize("id", ["", "no-such-job", "-1", "9" * 40, "½", "1; DROP TABLE procrastinate_jobs"])
def test_retry_and_drop_refuse_an_unknown_id(memory, id):
    assert [memory.jobs.retry(id).code, memory.jobs.drop(id).code] == ["not_found"] * 2


def test_a_running_job_is_listed_and_cannot_be_dropped(memory, register):
    seen = []

    @register.job("look")
    def look(job_memory):
        (job,) = memory.jobs.list("running")
        seen.append(
            (job.attempts, memory.jobs.status(), bool(memory.jobs.drop(job.id)), bool(memory.jobs.retry(job.id)))
        )

    memory.jobs.defer("look")
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert seen == [(1, JobCounts(running=1), False, False)]


def test_run_waiting_stops_at_its_limit_of_attempts(memory, done):
    for number in range(5):
        memory.jobs.defer("note", what=number)
    assert memory.jobs.run_waiting(0) == RunSummary()
    assert memory.jobs.run_waiting(2) == RunSummary(done=2)
    assert memory.jobs.status() == JobCounts(waiting=3)
    assert memory.jobs.run_waiting(10) == RunSummary(done=3)
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_a_delayed_job_waits_until_its_due_time(open_store, location, done):
    memory = open_store(location)
    before = datetime.now(UTC)
    memory.jobs.defer("note", delay=3600)
    after = datetime.now(UTC)
    assert before <= memory.jobs.list()[0].due - timedelta(hours=1) <= after
    assert memory.jobs.run_waiting() == RunSummary()
    assert done == []


def test_a_worker_skips_jobs_that_it_has_no_function_for(memory, done, register):
    register.job("of-tomorrow")(lambda memory: done.append("tomorrow"))
    memory.jobs.defer("of-tomorrow")
    memory.jobs.defer("note", what="today")
    today = type(register)()
    today.add(register["note"])
    assert memory.jobs.serving(today).run_waiting() == RunSummary(done=1)
    assert (done, memory.jobs.status()) == (["today"], JobCounts(waiting=1))


def test_tell_is_called_with_the_result_of_each_attempt(memory, done):
    results = []
    memory.jobs.defer("stumble")
    memory.jobs.run_waiting(
        tell=lambda job, result, error: results.append((job.name, job.attempts, result, error[:12]))
    )
    assert results == [
        ("stumble", 1, "retried", "RuntimeError"),
        ("stumble", 2, "retried", "RuntimeError"),
        ("stumble", 3, "failed", "RuntimeError"),
    ]


def test_a_stopped_worker_finishes_its_running_job_and_fetches_no_other(memory, register, start_worker, eventually):
    done, started, go = [], threading.Event(), threading.Event()

    @register.job("note")
    def note(job_memory, what):
        done.append(what)

    @register.job("slow")
    def slow(job_memory):
        started.set()
        assert go.wait(60)
        done.append("slow")

    stop, end = start_worker(memory)
    memory.jobs.defer("note", what="came while it worked")
    eventually(lambda: done == ["came while it worked"])
    memory.jobs.defer("slow")
    assert started.wait(60)
    stop.set()
    memory.jobs.defer("note", what="came too late")
    go.set()
    assert end() == [RunSummary(done=2)]
    assert (done[1:], memory.jobs.status()) == (["slow"], JobCounts(waiting=1))


def test_a_lease_of_zero_seconds_is_refused(memory):
    with pytest.raises(InvalidInput):
        memory.jobs.run_waiting(lease=0)


def test_find_refuses_an_unknown_state(memory):
    with pytest.raises(InvalidInput):
        memory.jobs.list("done")


# Scopes


def test_a_job_reaches_its_own_scope_and_nothing_else(location, open_store, register):
    seen = {}

    @register.job("look")
    def look(memory, name):
        texts = sorted(record.text for record in memory.journal.read() if record.kind == "note")
        code = getattr(memory.journal.write("note", "…", scope="elysia"), "code", None)
        seen[name] = (memory.journal.author, texts, code)

    owner, orion = open_store(location), open_store(location, agent="orion")
    for scope in ("shared", "orion", "elysia"):
        owner.journal.write("note", f"of {scope}", scope=scope)
    orion.jobs.defer("look", name="own")
    orion.jobs.defer("look", name="shared", scope="shared")
    owner.jobs.run_waiting()
    assert seen == {"own": ("orion", ["of orion"], "scope_closed"), "shared": ("orion", ["of shared"], "scope_closed")}


def test_a_job_of_the_owner_reaches_everything(location, open_store, register):
    seen = []
    register.job("look")(lambda memory: seen.append(memory.journal.reach.unlimited))
    owner = open_store(location)
    owner.jobs.defer("look")
    owner.jobs.run_waiting()
    assert seen == [True]


def test_an_agent_defers_only_where_it_can_write(location, open_store, register):
    register.job("look")(lambda memory: None)
    orion = open_store(location, agent="orion")
    for scope in ("elysia", "_lukasa"):
        assert orion.jobs.defer("look", scope=scope).code == "scope_closed"
    assert open_store(location).jobs.status() == JobCounts()
    with pytest.raises(InvalidInput):
        open_store(location, scopes=["a", "b"]).jobs.defer("look")


def test_an_agent_sees_and_drops_only_jobs_of_its_own_scopes(location, open_store, register):
    register.job("look")(lambda memory, what: None)
    owner, orion, elysia = (
        open_store(location),
        open_store(location, agent="orion"),
        open_store(location, agent="elysia"),
    )
    secret = orion.jobs.defer("look", key="k", what="secret")
    owner.jobs.defer("look", what="the owner's")
    assert (owner.jobs.status().waiting, orion.jobs.status().waiting, elysia.jobs.status().waiting) == (2, 1, 0)
    assert [job.arguments for job in orion.jobs.list()] == [{"what": "secret"}]
    assert elysia.jobs.list() == []
    assert not elysia.jobs.drop(secret.id)
    assert not elysia.jobs.defer("look", key="k", what="hers").repeated
    assert orion.jobs.drop(secret.id)


def test_the_store_stays_open_when_a_job_closes_its_memory(memory, register):
    @register.job("close")
    def close(job_memory):
        with job_memory:
            pass

    memory.jobs.defer("close")
    assert memory.jobs.run_waiting() == RunSummary(done=1)
    assert memory.journal.write("note", "still open")
