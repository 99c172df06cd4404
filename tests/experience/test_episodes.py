"""Episodes: recorded live or afterwards, found by time, agent, task and outcome, pruned and restored."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Accepted, Refused
from lukasa.experience.episodes import Episode
from lukasa.testing import FrozenClock
from support.narrow import present

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


@pytest.mark.requirement("EXP-1")
def test_an_episode_document_round_trips(memory, loki_tree):
    document = json.loads((loki_tree / "episodic/2026-01-06/task-001.json").read_text())
    record = memory.episodes.add([document]).record
    assert Episode(record).as_json() == document
    assert list(Episode(record).as_json()) == list(document)
    assert record.moment == datetime(2026, 1, 6, 10, 30, tzinfo=UTC)
    assert "Missing return type annotation" in record.text


@pytest.mark.requirement("EXP-1")
def test_ids_are_numbered_per_day(memory):
    days = [NOON, NOON, NOON + timedelta(days=1), NOON]
    ids = [memory.episodes.record("Do it", timestamp=day).record.id for day in days]
    assert ids == ["ep-2026-02-03-001", "ep-2026-02-03-002", "ep-2026-02-04-001", "ep-2026-02-03-003"]


@pytest.mark.requirement("EXP-1")
def test_ids_are_not_reused_after_deletion_or_import(memory):
    memory.episodes.add(
        [{"id": "ep-2026-02-03-007", "context": {"goal": "Imported"}, "timestamp": "2026-02-03T01:00:00Z"}]
    )
    first = memory.episodes.record("Do it", timestamp=NOON).record
    memory.journal.delete(first.key)
    assert first.id == "ep-2026-02-03-008"
    assert memory.episodes.record("Again", timestamp=NOON).record.id == "ep-2026-02-03-009"


@pytest.mark.requirement("EXP-1")
def test_concurrent_processes_number_episodes_without_gaps_or_duplicates(store_path):
    code = f"import lukasa\nwith lukasa.open({store_path!r}) as m:\n    for _ in range(15): assert m.episodes.record('Do it', timestamp='2026-02-03')"
    lukasa.open(store_path).close()
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    with lukasa.open(store_path) as memory:
        assert sorted(e.id for e in memory.episodes.list(day="2026-02-03")) == [
            f"ep-2026-02-03-{n:03d}" for n in range(1, 46)
        ]


@pytest.mark.requirement("EXP-1")
def test_episodes_are_found_by_time_agent_outcome_and_task(memory):
    record = memory.episodes.record
    for number, (agent, outcome) in enumerate([("eng", "success"), ("qa", "failure"), ("eng", "failure")]):
        record(
            f"Task {number}",
            agent=agent,
            outcome=outcome,
            task_id=f"t{number % 2}",
            timestamp=NOON + timedelta(days=number),
        )
    episodes = memory.episodes

    def goals(found):
        return [episode.goal for episode in found]

    assert goals(episodes.list(agent="eng")) == ["Task 0", "Task 2"]
    assert goals(episodes.list(outcome="failure")) == ["Task 1", "Task 2"]
    assert goals(episodes.list(task_id="t0")) == ["Task 0", "Task 2"]
    assert goals(episodes.list(since=NOON + timedelta(days=1))) == ["Task 1", "Task 2"]
    assert goals(episodes.list(since=NOON, until=NOON + timedelta(days=1))) == ["Task 0", "Task 1"]
    assert goals(episodes.list(day="2026-02-05")) == ["Task 2"]
    assert goals(episodes.list(limit=2)) == ["Task 1", "Task 2"]


@pytest.mark.requirement("EXP-1")
def test_filters_of_episodes_are_combined_and_a_limit_keeps_those_written_last(memory):
    for days in (2, 0, 1, 3):
        outcome = "success" if days == 3 else "failure"
        memory.episodes.record(f"Task {days}", agent="eng", outcome=outcome, timestamp=NOON + timedelta(days=days))

    def goals(**filters):
        return [episode.goal for episode in memory.episodes.list(**filters)]

    failed = {"agent": "eng", "outcome": "failure"}
    assert goals(**failed) == ["Task 0", "Task 1", "Task 2"]
    assert goals(**failed, since=NOON + timedelta(days=1)) == ["Task 1", "Task 2"]
    assert goals(**failed, until=NOON, day="2026-02-03") == ["Task 0"]
    assert goals(**failed, day="2026-02-06") == goals(**failed, task_id="t") == goals(**failed, unfinished=True) == []
    assert goals(**failed, limit=2) == ["Task 0", "Task 1"]
    assert goals(since=NOON, until=NOON + timedelta(days=3), limit=2) == ["Task 1", "Task 3"]
    assert goals(limit=0) == []
    memory.episodes.start("Task now", agent="eng")
    assert goals(unfinished=True, agent="eng") == ["Task now"]


@pytest.mark.requirement("EXP-1")
def test_a_running_episode_is_durable_step_by_step(open_store, store_path, clock):
    first = open_store(store_path, agent="eng")
    run = first.episodes.start("Deploy it", task_id="task-1")
    clock.advance(30)
    run.step("read_file", target="plan.md")
    first.close()  # the agent dies

    second = open_store(store_path, agent="eng2")
    (unfinished,) = second.episodes.list(unfinished=True)
    assert (unfinished.id, unfinished.goal, unfinished.running) == (run.id, "Deploy it", True)
    resumed = second.episodes.resume(unfinished.id)
    clock.advance(30)
    resumed.step("deploy", result="fail", error="no route")
    resumed.error("Network", "no route", resolution="Opened the port")
    finished = Episode(resumed.finish("success", artifacts=["log.txt"], git_commit="abc").record)
    assert finished.action_log == [
        {"t": 30, "action": "read_file", "target": "plan.md"},
        {"t": 60, "action": "deploy", "result": "fail", "error": "no route"},
    ]
    assert finished.errors == [{"type": "Network", "message": "no route", "resolution": "Opened the port"}]
    assert (finished.duration_seconds, finished.outcome) == (60, "success")
    assert second.episodes.list(unfinished=True) == []


@pytest.mark.requirement("EXP-1")
def test_a_finished_episode_takes_no_more_steps(memory):
    run = memory.episodes.start("Deploy it")
    run.finish("failure")
    assert run.step("deploy").code == "finished"
    assert run.finish().code == "finished"
    assert memory.episodes.resume(run.id).code == "finished"
    assert memory.episodes.resume("ep-1999-01-01-001").code == "not_found"


@pytest.mark.requirement("EXP-1")
def test_a_with_block_that_raises_finishes_its_episode_as_a_failure(local):
    with pytest.raises(ZeroDivisionError), local.episodes.start("Divide"):
        _ = 1 / 0
    with local.episodes.start("Multiply") as run:
        run.step("multiply")
    divided, multiplied = local.episodes.list(day="2026-02-03")
    assert (divided.outcome, divided.errors[0]["type"]) == ("failure", "ZeroDivisionError")
    assert multiplied.outcome == "success"


@pytest.mark.requirement("EXP-1")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"context": {"goal": ""}},
        {"context": "x"},
        {"context": {"goal": "x"}, "action_log": "x"},
        {"context": {"goal": "x"}, "errors_encountered": ["x"]},
        {"context": {"goal": "x"}, "duration_seconds": -1},
        {"context": {"goal": "x"}, "duration_seconds": float("nan")},
        {"context": {"goal": "x"}, "timestamp": "yesterday"},
        {"context": {"goal": "x"}, "timestamp": 1e300},
        {"context": {"goal": "x"}, "agent": 5},
        {"context": {"goal": "x"}, "outcome": ""},
        {"context": {"goal": "x \ud800"}},
        {"id": 7, "context": {"goal": "x"}},
        {"id": "x" * 201, "context": {"goal": "x"}},
    ],
)
def test_an_invalid_episode_is_refused_with_a_reason(local, document):
    refused = local.episodes.add([document])
    assert isinstance(refused, Refused)
    assert refused.reason.endswith((".", "time")) or refused.reason
    assert local.journal.tip() == 0


@pytest.mark.requirement("EXP-1")
@pytest.mark.parametrize("id", ["../../etc/passwd", "CON", "user:agent:123", "ø𝄞", "a b"])
def test_ids_are_opaque(local, id):
    assert local.episodes.add([{"id": id, "context": {"goal": "x"}}])
    assert local.episodes.get(id).goal == "x"


@pytest.mark.requirement("EXP-1")
def test_a_timestamp_may_be_seconds_since_1970(local):
    record = local.episodes.add([{"context": {"goal": "x"}, "timestamp": 1767695400}]).record
    assert record.body["timestamp"] == "2026-01-06T10:30:00Z"


@pytest.mark.requirement("EXP-1")
@given(goal=st.text(min_size=1).filter(str.strip), outcome=st.sampled_from(["success", "failure", "partial", "Über"]))
def test_any_goal_text_round_trips_or_is_refused(goal, outcome):
    with lukasa.open("memory:", clock=FrozenClock()) as memory:
        answer = memory.episodes.record(goal, outcome=outcome)
        if isinstance(answer, Accepted):
            assert present(memory.episodes.get(answer.record.id)).goal == goal
        else:
            assert answer.code in ("bad_json", "bad_unicode")


def test_episodes_of_an_agents_scope_are_closed_to_other_agents(open_store, store_path):
    orion, elysia = open_store(store_path, agent="orion"), open_store(store_path, agent="elysia")
    record = orion.episodes.record("Secret", scope="orion").record
    assert elysia.episodes.get(record.id) is None
    assert elysia.episodes.list() == []
    assert elysia.episodes.record("Push in", scope="orion").code == "scope_closed"
    assert orion.episodes.get(record.id).goal == "Secret"


# Pruning


def record_old(memory, clock, days, **fields):
    return memory.episodes.record(
        f"{days} days old",
        timestamp=clock.now() - timedelta(days=days),
        action_log=[{"t": 0, "action": "read"}] * 3,
        **fields,
    ).record


@pytest.mark.requirement("EXP-11")
def test_episodes_are_summarised_after_a_week_and_archived_after_a_month(memory, clock):
    young, middle, old, cited = (record_old(memory, clock, days) for days in (1, 8, 31, 40))
    memory.knowledge.add_pattern("Old things matter", source_episodes=[cited.id])
    preview = memory.episodes.prune(dry_run=True)
    assert memory.episodes.get(old.id).detail == "full"
    done = memory.episodes.prune()
    assert preview == done
    assert (done.summarised, done.archived, done.kept) == ((middle.id, cited.id), (old.id,), (cited.id,))
    details = {id: memory.episodes.get(id).detail for id in (young.id, middle.id, old.id, cited.id)}
    assert details == {young.id: "full", middle.id: "summary", old.id: "archived", cited.id: "summary"}
    assert memory.episodes.get(middle.id).record.body["summary"] == "3 steps in 0 s: read ×3"
    assert memory.episodes.get(middle.id).actions == ("read", "read", "read")
    again = memory.episodes.prune()
    assert (again.summarised, again.archived) == ((), ())


@pytest.mark.requirement("EXP-11")
def test_archived_episodes_leave_recall_and_can_be_restored(memory, clock):
    old = record_old(memory, clock, 31)
    middle = record_old(memory, clock, 8)
    memory.episodes.prune()
    assert [hit.record.id for hit in memory.journal.find("days")] == [middle.id]
    assert memory.episodes.list() == [memory.episodes.get(middle.id)]
    for record in (old, middle):
        assert memory.episodes.restore(record.id)
        restored = memory.episodes.get(record.id)
        assert (restored.detail, restored.record.body, restored.record.text) == ("full", record.body, record.text)
    assert memory.episodes.prune().archived == ()  # a restored episode is not pruned again


@pytest.mark.requirement("EXP-11")
def test_an_archived_episode_survives_compaction(memory, clock):
    old, middle = record_old(memory, clock, 31), record_old(memory, clock, 8)
    memory.episodes.prune()
    memory.compact()
    assert memory.episodes.restore(old.id)
    assert memory.episodes.get(old.id).record.body == old.body
    assert memory.episodes.restore(middle.id).code == "compacted"


@pytest.mark.requirement("EXP-11")
def test_a_running_episode_is_never_pruned(memory, clock):
    memory.episodes.start("Long work")
    clock.advance(90 * 86_400)
    assert memory.episodes.prune().archived == ()
