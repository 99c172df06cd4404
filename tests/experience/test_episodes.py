"""Episodes: the whole trace of a task, live or afterwards, found again by time, agent and outcome."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Accepted, Refused
from lukasa.experience.episode import Episode
from lukasa.testing import FrozenClock

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


@pytest.mark.requirement("EXP-1")
def test_the_documents_episode_comes_back_field_by_field(memory, tree):
    told = json.loads((tree / "episodic/2026-01-06/task-001.json").read_text())
    record = memory.episodes.add([told]).record
    assert Episode(record).as_json() == told
    assert list(Episode(record).as_json()) == list(told)
    assert record.moment == datetime(2026, 1, 6, 10, 30, tzinfo=UTC)
    assert "Missing return type annotation" in record.text


@pytest.mark.requirement("EXP-1")
def test_ids_count_up_day_by_day(memory):
    days = [NOON, NOON, NOON + timedelta(days=1), NOON]
    ids = [memory.episodes.record("Do it", timestamp=day).record.id for day in days]
    assert ids == ["ep-2026-02-03-001", "ep-2026-02-03-002", "ep-2026-02-04-001", "ep-2026-02-03-003"]


@pytest.mark.requirement("EXP-1")
def test_an_id_is_never_given_twice_even_after_deletion_or_import(memory):
    memory.episodes.add(
        [{"id": "ep-2026-02-03-007", "context": {"goal": "Imported"}, "timestamp": "2026-02-03T01:00:00Z"}]
    )
    first = memory.episodes.record("Do it", timestamp=NOON).record
    memory.journal.delete(first.key)
    assert first.id == "ep-2026-02-03-008"
    assert memory.episodes.record("Again", timestamp=NOON).record.id == "ep-2026-02-03-009"


@pytest.mark.requirement("EXP-1")
def test_many_processes_number_their_episodes_without_a_gap_or_a_double(file):
    code = f"import lukasa\nwith lukasa.open({file!r}) as m:\n    for _ in range(15): assert m.episodes.record('Do it', timestamp='2026-02-03')"
    lukasa.open(file).close()
    actors = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [actor.wait(60) for actor in actors] == [0, 0, 0]
    with lukasa.open(file) as memory:
        assert sorted(e.id for e in memory.episodes.on("2026-02-03")) == [
            f"ep-2026-02-03-{n:03d}" for n in range(1, 46)
        ]


@pytest.mark.requirement("EXP-1")
def test_episodes_are_found_by_time_agent_outcome_and_task(memory):
    record = memory.episodes.record
    for at, (agent, outcome) in enumerate([("eng", "success"), ("qa", "failure"), ("eng", "failure")]):
        record(f"Task {at}", agent=agent, outcome=outcome, task_id=f"t{at % 2}", timestamp=NOON + timedelta(days=at))
    room = memory.episodes

    def goals(found):
        return [episode.goal for episode in found]

    assert goals(room.by_agent("eng")) == ["Task 0", "Task 2"]
    assert goals(room.by_outcome("failure")) == ["Task 1", "Task 2"]
    assert goals(room.by_task("t0")) == ["Task 0", "Task 2"]
    assert goals(room.since(NOON + timedelta(days=1))) == ["Task 1", "Task 2"]
    assert goals(room.since(NOON, NOON + timedelta(days=1))) == ["Task 0", "Task 1"]
    assert goals(room.on("2026-02-05")) == ["Task 2"]
    assert goals(room.newest(2)) == ["Task 2", "Task 1"]


@pytest.mark.requirement("EXP-1")
def test_an_episode_that_goes_on_is_durable_step_by_step(opened, file, clock):
    first = opened(file, agent="eng")
    run = first.episodes.start("Deploy it", task_id="task-1")
    clock.advance(30)
    run.step("read_file", target="plan.md")
    first.close()  # the agent dies

    second = opened(file, agent="eng2")
    (left,) = second.episodes.unfinished()
    assert (left.id, left.goal, left.running) == (run.id, "Deploy it", True)
    taken_up = second.episodes.resume(left.id)
    clock.advance(30)
    taken_up.step("deploy", result="fail", error="no route")
    taken_up.error("Network", "no route", resolution="Opened the port")
    finished = Episode(taken_up.finish("success", artifacts=["log.txt"], git_commit="abc").record)
    assert finished.action_log == [
        {"t": 30, "action": "read_file", "target": "plan.md"},
        {"t": 60, "action": "deploy", "result": "fail", "error": "no route"},
    ]
    assert finished.errors == [{"type": "Network", "message": "no route", "resolution": "Opened the port"}]
    assert (finished.duration_seconds, finished.outcome) == (60, "success")
    assert second.episodes.unfinished() == []


@pytest.mark.requirement("EXP-1")
def test_what_is_finished_takes_no_more_steps(memory):
    run = memory.episodes.start("Deploy it")
    run.finish("failure")
    assert run.step("deploy").code == "finished"
    assert run.finish().code == "finished"
    assert memory.episodes.resume(run.id).code == "finished"
    assert memory.episodes.resume("ep-1999-01-01-001").code == "not_found"


@pytest.mark.requirement("EXP-1")
def test_a_block_that_raises_ends_its_episode_as_a_failure(local):
    with pytest.raises(ZeroDivisionError), local.episodes.start("Divide"):
        _ = 1 / 0
    with local.episodes.start("Multiply") as run:
        run.step("multiply")
    divided, multiplied = local.episodes.on("2026-02-03")
    assert (divided.outcome, divided.errors[0]["type"]) == ("failure", "ZeroDivisionError")
    assert multiplied.outcome == "success"


@pytest.mark.requirement("EXP-1")
@pytest.mark.parametrize(
    "told",
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
def test_what_is_no_episode_is_refused_with_a_sentence(local, told):
    refused = local.episodes.add([told])
    assert isinstance(refused, Refused)
    assert refused.reason.endswith((".", "time")) or refused.reason
    assert local.journal.tip() == 0


@pytest.mark.requirement("EXP-1")
@pytest.mark.parametrize("id", ["../../etc/passwd", "CON", "user:agent:123", "ø𝄞", "a b"])
def test_ids_are_opaque(local, id):
    assert local.episodes.add([{"id": id, "context": {"goal": "x"}}])
    assert local.episodes.get(id).goal == "x"


@pytest.mark.requirement("EXP-1")
def test_seconds_since_1970_are_understood(local):
    record = local.episodes.add([{"context": {"goal": "x"}, "timestamp": 1767695400}]).record
    assert record.body["timestamp"] == "2026-01-06T10:30:00Z"


@pytest.mark.requirement("EXP-1")
@given(goal=st.text(min_size=1).filter(str.strip), outcome=st.sampled_from(["success", "failure", "partial", "Über"]))
def test_any_text_survives(goal, outcome):
    with lukasa.open("memory:", clock=FrozenClock()) as memory:
        kept = memory.episodes.record(goal, outcome=outcome)
        if isinstance(kept, Accepted):
            assert memory.episodes.get(kept.record.id).goal == goal
        else:
            assert kept.code in ("bad_json", "bad_unicode")


def test_an_agents_own_episodes_stay_behind_its_wall(opened, file):
    orion, elysia = opened(file, agent="orion"), opened(file, agent="elysia")
    kept = orion.episodes.record("Secret", scope="orion").record
    assert elysia.episodes.get(kept.id) is None
    assert elysia.episodes.newest() == []
    assert elysia.episodes.record("Push in", scope="orion").code == "scope_closed"
    assert orion.episodes.get(kept.id).goal == "Secret"


# pruning


def aged(memory, clock, days, **more):
    return memory.episodes.record(
        f"{days} days old",
        timestamp=clock.now() - timedelta(days=days),
        action_log=[{"t": 0, "action": "read"}] * 3,
        **more,
    ).record


@pytest.mark.requirement("EXP-11")
def test_episodes_are_summarised_after_a_week_and_archived_after_a_month(memory, clock):
    young, middle, old, cited = (aged(memory, clock, days) for days in (1, 8, 31, 40))
    memory.knowledge.add_pattern("Old things matter", source_episodes=[cited.id])
    foretold = memory.episodes.prune(dry_run=True)
    assert memory.episodes.get(old.id).detail == "full"
    done = memory.episodes.prune()
    assert foretold == done
    assert (done.summarised, done.archived, done.kept) == ((middle.id, cited.id), (old.id,), (cited.id,))
    details = {id: memory.episodes.get(id).detail for id in (young.id, middle.id, old.id, cited.id)}
    assert details == {young.id: "full", middle.id: "summary", old.id: "archived", cited.id: "summary"}
    assert memory.episodes.get(middle.id).record.body["summary"] == "3 steps in 0 s: read ×3"
    assert memory.episodes.get(middle.id).actions == ("read", "read", "read")
    again = memory.episodes.prune()
    assert (again.summarised, again.archived) == ((), ())


@pytest.mark.requirement("EXP-11")
def test_what_is_archived_leaves_recall_and_can_be_brought_back(memory, clock):
    old = aged(memory, clock, 31)
    middle = aged(memory, clock, 8)
    memory.episodes.prune()
    assert [hit.record.id for hit in memory.journal.find("days")] == [middle.id]
    assert memory.episodes.newest() == [memory.episodes.get(middle.id)]
    for kept in (old, middle):
        assert memory.episodes.restore(kept.id)
        back = memory.episodes.get(kept.id)
        assert (back.detail, back.record.body, back.record.text) == ("full", kept.body, kept.text)
    assert memory.episodes.prune().archived == ()  # what a person brought back stays


@pytest.mark.requirement("EXP-11")
def test_an_archived_episode_survives_compaction(memory, clock):
    old, middle = aged(memory, clock, 31), aged(memory, clock, 8)
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
