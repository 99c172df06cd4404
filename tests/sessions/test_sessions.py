"""Sessions on every engine: start, changes, checkpoints, closing, writers at once, budget, scopes."""

import errno
import json
import signal as signals
import threading
from datetime import timedelta

import pytest

import lukasa
from lukasa import Accepted, Conflict, Key, Refused
from lukasa.errors import InvalidInput, StoreClosed, StoreFull
from lukasa.sessions import NEVER, Budget, Retention, Significance
from lukasa.storage.engine import Query
from lukasa.storage.local_files import LocalFiles


def files(tmp_path, name="*"):
    return sorted(file.name for file in (tmp_path / "files").rglob(name) if file.is_file())


@pytest.mark.requirement("CHK-10")
def test_start_begins_a_session_and_resumes_it_later(memory, content):
    with memory.sessions.start("demo", agent_type="analyst") as session:
        assert session.recovery.mode == "new"
        assert session.update("/configuration/api_endpoint", "https://example.org")
        state = session.state
    assert state["metadata"]["agent_type"] == "analyst"
    with memory.sessions.start("demo") as again:
        assert again.recovery.mode == "normal"
        assert content(again.state) == content(state)
    assert [event["event"] for event in memory.sessions.events("demo")] == [
        "started", "checkpoint", "checkpoint", "closed", "resumed", "closed",
    ]  # fmt: skip


@pytest.mark.requirement("CHK-10")
@pytest.mark.parametrize("variable", ["LUKASA_SESSION_ID", "VOXSIGIL_SESSION_ID"])
def test_start_takes_the_session_id_from_the_environment(in_file, monkeypatch, variable):
    monkeypatch.setenv(variable, "from-outside")
    with in_file.sessions.start() as session:
        assert session.id == "from-outside"
    monkeypatch.delenv(variable)
    with in_file.sessions.start() as session:
        assert session.id.startswith("session-20260203-120000-")


@pytest.mark.requirement("CHK-10")
def test_a_closed_session_refuses_changes_and_can_be_closed_twice(in_file):
    session = in_file.sessions.start("demo")
    session.close()
    session.close()
    with pytest.raises(StoreClosed, match="Start it again"):
        session.update("/configuration/x", 1)


@pytest.mark.requirement("CHK-4")
def test_changes_that_remove_items_before_a_changed_one_are_made_and_saved(in_file, make):
    in_file.sessions.save_checkpoint(make.state(), "demo")
    with in_file.sessions.start("demo", significance=Significance(probability=2.0)) as session:
        changes = [
            {"op": "replace", "path": "/active_predictions/2/probability", "value": 0.9},
            {"op": "remove", "path": "/active_predictions/0"},
        ]
        assert session.patch(changes)
        assert [item["probability"] for item in session.state["active_predictions"]] == [0.6, 0.9]
        assert session.checkpoint()


@pytest.mark.requirement("CHK-4")
def test_changes_that_no_checkpoint_could_hold_are_refused(in_file, make):
    in_file.sessions.save_checkpoint(make.state(), "demo")
    with in_file.sessions.start("demo") as session:
        again = session.state["active_predictions"][1]
        other = {**again, "prediction_id": "new"}
        changes = [{"op": "add", "path": "/active_predictions/0", "value": value} for value in (again, other)]
        assert session.patch(changes).code == "bad_state"
        shortened = {"op": "remove", "path": "/active_predictions/0/confidence_interval/0"}
        assert session.patch([shortened]).code == "bad_state"
        assert session.checkpoint()


@pytest.mark.requirement("CHK-4")
def test_no_change_makes_more_markets_active_than_the_configuration_allows(in_file, make):
    in_file.sessions.save_checkpoint(make.state(), "demo")
    with in_file.sessions.start("demo", significance=NEVER) as session:
        assert session.update("/configuration/max_active_markets", 3)
        new = {**session.state["active_predictions"][0], "prediction_id": "new", "market_id": "another"}
        assert session.update("/active_predictions/-", new).code == "too_many_active"
        assert session.update("/active_predictions/-", {**new, "status": "resolved"})
        assert session.update("/active_predictions/new/status", "active").code == "too_many_active"
        assert session.update("/active_predictions/0/status", "resolved")
        assert session.update("/active_predictions/new/status", "active")
        assert session.update("/configuration/max_active_markets", 1)
        assert session.update("/active_predictions/new/probability", 0.2)


@pytest.mark.requirement("CHK-10")
def test_closing_the_memory_closes_its_sessions(tmp_path, open_store):
    memory = open_store(str(tmp_path / "agents.db"))
    memory.sessions.start("demo").update("/configuration/x", 1)
    memory.close()
    assert open_store(str(tmp_path / "agents.db")).sessions.recover("demo").unwrap().mode == "normal"


@pytest.mark.requirement("CHK-4")
def test_a_small_change_writes_one_small_record(memory, make):
    session = memory.sessions.start("demo", significance=NEVER)
    session.replace(make.state(predictions=40))
    tip = memory.journal.tip()
    assert session.update("/active_predictions/pred-7/probability", 0.61)
    (delta,) = memory.journal.read(Query(after=tip))
    assert delta.kind == "session_delta"
    assert delta.text == ""
    whole = len(json.dumps(session.state))
    assert len(json.dumps(dict(delta.body))) < 0.05 * whole


@pytest.mark.requirement("CHK-4")
def test_update_prediction_sets_probability_time_and_count(memory, make, clock):
    session = memory.sessions.start("demo")
    session.update("/active_predictions/-", make.prediction())
    clock.advance(60)
    assert session.update_prediction("pred-1", 0.65)
    (item,) = session.state["active_predictions"]
    assert (item["probability"], item["num_updates"], item["last_updated"]) == (0.65, 1, "2026-02-03T12:01:00Z")
    assert session.update_prediction("nobody", 0.5).code == "not_found"


@pytest.mark.requirement("CHK-1")
@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("/active_predictions/-", {"prediction_id": "x", "probability": 7}, "bad_state"),
        ("/configuration/x", float("nan"), "bad_json"),
        ("/configuration/x", "half a character: \ud83d", "bad_json"),
        ("/configuration/x", object, "bad_json"),
        ("/configuration/x", "x" * 16_000_000, "too_large"),
        ("/metadata", 7, "bad_state"),
        ("/nowhere/at/all", 1, "bad_change"),
        ("", {}, "bad_state"),
    ],
)
def test_a_refused_change_leaves_the_state_alone(memory, path, value, code):
    session = memory.sessions.start("demo")
    before = session.state
    outcome = session.update(path, value)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert session.state == before
    assert memory.sessions.state("demo") == before


@pytest.mark.requirement("CHK-1")
def test_unknown_fields_are_saved_and_loaded(memory, make):
    state = make.state()
    state["notes"] = {"ünï": ["\0", 1.5, None, 2**63]}
    state["active_predictions"][0]["mood"] = "hopeful"
    assert memory.sessions.save_checkpoint(state, "demo")
    loaded = memory.sessions.load_latest_checkpoint("demo")
    assert loaded["notes"] == state["notes"]
    assert loaded["active_predictions"] == state["active_predictions"]


@pytest.mark.parametrize("id", ["", "x" * 201, "a\nb", "a\0b", 7, None])
def test_bad_session_ids_are_refused(in_file, id):
    with pytest.raises((InvalidInput, TypeError)):
        in_file.sessions.recover(id)


@pytest.mark.parametrize("id", ["../../x", "user:agent:123", "CON", "é", "a b/c", "😀"])
def test_odd_session_ids_work(memory, id, tmp_path):
    with memory.sessions.start(id) as session:
        session.update("/configuration/x", id)
    assert memory.sessions.recover(id).unwrap().state["configuration"]["x"] == id
    assert not (tmp_path.parent / "x").exists()


def test_a_state_cannot_grow_beyond_its_maximum_size(in_file):
    session = in_file.sessions.start("demo", significance=NEVER)
    outcomes = [session.update(f"/configuration/part-{index}", "x" * 4_000_000) for index in range(4)]
    assert [bool(outcome) for outcome in outcomes] == [True, True, True, False]
    assert outcomes[-1].code == "too_large"
    assert session.update("/configuration/part-0", "short")
    assert session.update("/configuration/part-3", "x" * 4_000_000)
    assert session.checkpoint()
    assert in_file.sessions.recover("demo").unwrap().state == session.state


# The document's functions


@pytest.mark.requirement("CHK-2")
def test_the_documents_functions_save_load_and_compress(memory, make, tmp_path, content):
    for _ in range(12):
        assert memory.sessions.save_checkpoint(make.state(), "demo")
    assert files(tmp_path, "checkpoint_*")[-1] == "checkpoint_012.json"
    assert files(tmp_path, "*.gz") == ["checkpoint_001.json.gz", "checkpoint_002.json.gz"]
    assert content(memory.sessions.load_latest_checkpoint("demo")) == content(make.state())
    assert memory.sessions.load_latest_checkpoint("nobody") is None
    assert memory.sessions.compress_old_checkpoints("demo", 24, keep=5).unwrap().compressed == (3, 4, 5, 6, 7)


@pytest.mark.requirement("CHK-2")
def test_save_checkpoint_with_a_number_that_is_not_newer_is_a_conflict(memory, make):
    assert memory.sessions.save_checkpoint(make.state(), "demo", 7)
    late = memory.sessions.save_checkpoint(make.state(), "demo", 7)
    assert isinstance(late, Conflict)
    assert (late.expected, late.found) == (7, 7)
    assert memory.sessions.latest("demo").number == 7


def test_save_checkpoint_refuses_a_bad_state(memory, make):
    state = make.state()
    state["active_predictions"][0]["probability"] = 3
    assert memory.sessions.save_checkpoint(state, "demo").code == "bad_state"
    assert memory.sessions.load_latest_checkpoint("demo") is None


def test_a_state_of_two_megabytes_is_saved_and_one_of_twenty_refused(memory, make):
    state = make.state()
    state["notes"] = "n" * 2_000_000
    assert memory.sessions.save_checkpoint(state, "demo")
    assert memory.sessions.recover("demo").unwrap().state["notes"] == state["notes"]
    state["notes"] = "n" * 20_000_000
    assert memory.sessions.save_checkpoint(state, "demo").code == "too_large"


# Triggers


@pytest.mark.requirement("CHK-3")
def test_tick_saves_a_checkpoint_every_thirty_minutes_if_something_changed(memory, clock):
    session = memory.sessions.start("demo", significance=NEVER)
    clock.advance(31 * 60)
    assert session.tick() == ("update",)
    session.update("/configuration/x", 1)
    assert session.tick() == ()
    clock.advance(30 * 60)
    assert session.tick() == ("update", "checkpoint")
    assert session.number == 2
    session.update("/configuration/checkpoint_interval_minutes", 5)
    clock.advance(5 * 60)
    assert session.tick() == ("checkpoint",)


@pytest.mark.requirement("CHK-3")
def test_tick_saves_checkpoints_after_the_clock_was_set_back(in_file, clock):
    session = in_file.sessions.start("demo", significance=NEVER)
    clock.advance(-7 * 24 * 3600)
    session.update("/configuration/x", 1)
    assert session.tick() == ()
    clock.advance(30 * 60)
    assert session.tick() == ("update", "checkpoint")


@pytest.mark.requirement("CHK-3")
@pytest.mark.parametrize(
    ("path", "value", "saved"),
    [
        ("/active_predictions/pred-0/probability", 0.69, False),
        ("/active_predictions/pred-0/probability", 0.70, True),
        ("/active_predictions/pred-0/status", "resolved", True),
        ("/configuration/confidence_threshold", 0.8, True),
        ("/learning_state/model_version", "2.0.0", False),
        ("/active_predictions/-", {"prediction_id": "new", "probability": 0.5}, False),
    ],
)
def test_a_significant_change_saves_a_checkpoint_at_once(memory, make, path, value, saved):
    session = memory.sessions.start("demo")
    session.replace(make.state())
    before = session.number
    assert session.update(path, value)
    assert session.number - before == saved


@pytest.mark.requirement("CHK-3")
def test_a_number_of_small_changes_saves_a_checkpoint(memory):
    session = memory.sessions.start("demo", significance=Significance(changes=3, sections=()))
    numbers = [session.update("/configuration/x", index) and session.number for index in range(7)]
    assert numbers == [1, 1, 2, 2, 2, 3, 3]


@pytest.mark.requirement("CHK-3")
def test_a_probability_is_compared_with_the_last_checkpoint(memory, make):
    session = memory.sessions.start("demo")
    session.replace(make.state())
    before = session.number
    for probability in (0.63, 0.66, 0.69):
        session.update("/active_predictions/pred-0/probability", probability)
    assert session.number == before
    session.update("/active_predictions/pred-0/probability", 0.71)
    assert session.number == before + 1


@pytest.mark.requirement("CHK-3", "CHK-10")
@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT", "exit", "error"])
def test_a_running_session_is_closed_however_the_program_ends(actors, tmp_path, monkeypatch, ending):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    location = str(tmp_path / "agents.db")
    actor = actors.start("run_session", location=location, ending=ending)
    assert actor.stdout.readline() == "ready\n"
    if ending.startswith("SIG"):
        actor.send_signal(getattr(signals, ending))
    actor.communicate(timeout=60)
    assert actor.returncode == {"SIGTERM": 143, "SIGINT": -2, "exit": 0, "error": 1}[ending] or ending == "SIGINT"
    with lukasa.open(location) as memory:
        report = memory.sessions.recover("demo").unwrap()
    assert report.mode == "normal"
    assert report.state["configuration"]["x"] == 1


@pytest.mark.requirement("CHK-3")
def test_run_saves_checkpoints_in_a_thread(tmp_path, open_store):
    memory = open_store(str(tmp_path / "agents.db"))
    session = memory.sessions.start("demo", significance=NEVER)
    saved = threading.Event()
    save_file = session._files.save

    def save(checkpoint):
        saved.set()
        return save_file(checkpoint)

    session._files.save = save
    session.update("/configuration/checkpoint_interval_minutes", 0.001)
    session.run(signals=False)
    assert saved.wait(30)
    session.close()
    assert session.trouble is None


# Several writers


@pytest.mark.requirement("CHK-4")
def test_the_second_of_two_writers_gets_a_conflict(memory, location, open_store, clock):
    first = memory.sessions.start("demo", significance=NEVER)
    other = open_store(location, clock=clock).sessions.start("demo", significance=NEVER)
    first.refresh()
    assert isinstance(first.update("/configuration/x", 1), Accepted)
    assert isinstance(other.update("/configuration/y", 2), Conflict)
    assert other.refresh() == 1
    assert isinstance(other.update("/configuration/y", 2), Accepted)
    assert other.state["configuration"].items() >= {"x": 1, "y": 2}.items()
    assert isinstance(first.checkpoint(), Accepted)
    assert isinstance(other.checkpoint(), Conflict)
    other.refresh()
    assert isinstance(other.checkpoint(), Accepted)
    assert memory.sessions.state("demo") == other.state


@pytest.mark.requirement("CHK-4")
def test_threads_that_update_one_session_lose_no_change(in_file):
    session = in_file.sessions.start("demo", significance=Significance(changes=25))

    def work(name):
        for index in range(20):
            assert session.update(f"/configuration/{name}-{index}", index)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = session.state
    assert sum("-" in name for name in state["configuration"]) == 80
    session.abandon()
    assert in_file.sessions.recover("demo").unwrap().state["configuration"] == state["configuration"]


@pytest.mark.requirement("CHK-4")
def test_processes_that_update_one_session_lose_no_change(location, actors, open_store, tmp_path):
    memory = open_store(location)
    memory.sessions.start("demo").close()
    processes = [actors.start("update_with_others", location=location, name=name, times=15) for name in ("a", "b", "c")]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-3000:]
    found = memory.sessions.state("demo")["configuration"]
    assert {name for name in found if "-" in name} == {f"{name}-{index}" for name in "abc" for index in range(15)}


# Budget


@pytest.mark.requirement("CHK-11")
def test_prune_takes_four_steps_and_archives_everything_it_removes(memory, make, clock):
    old, recent = "2025-12-01T00:00:00Z", "2026-02-01T00:00:00Z"
    state = make.state(predictions=0, signals=0)
    state["active_predictions"] = [
        make.prediction("old", status="resolved", last_updated=old),
        make.prediction("new", status="resolved", last_updated=recent),
        make.prediction("busy", market_id="m-busy", last_updated=old),
    ]
    state["signal_history"] = [
        make.signal("s-old-1", timestamp=old, prediction=0.2),
        make.signal("s-old-2", timestamp=old, prediction=0.4),
        make.signal("s-new", timestamp=recent),
    ]
    state["reasoning_cache"] = {"m-busy": {"base_rate": 0.5}, "m/idle~": {"base_rate": 0.1}}
    state["performance_metrics"]["daily"] = [
        {"date": "2025-12-01", "resolved": 1, "brier_score": 0.1},
        {"date": "2025-12-02", "resolved": 3, "brier_score": 0.3},
        {"date": "2026-02-02", "resolved": 5, "brier_score": 0.2},
    ]
    memory.sessions.save_checkpoint(state, "demo")
    plan = memory.sessions.prune("demo").unwrap()
    after = memory.sessions.state("demo")
    assert [item["prediction_id"] for item in after["active_predictions"]] == ["new", "busy"]
    assert [item["signal_id"] for item in after["signal_history"]] == ["s-new"]
    assert after["signal_summary"]["market-1"]["count"] == 2
    assert after["signal_summary"]["market-1"]["mean_prediction"] == pytest.approx(0.3)
    assert list(after["reasoning_cache"]) == ["m-busy"]
    assert [day["date"] for day in after["performance_metrics"]["daily"]] == ["2026-02-02"]
    assert after["performance_metrics"]["summary"]["brier_score"] == pytest.approx(0.25)
    gone = {part["section"]: part["items"] for part in memory.sessions.archive("demo")}
    assert [item["prediction_id"] for item in gone["active_predictions"]] == ["old"]
    assert [item["signal_id"] for item in gone["signal_history"]] == ["s-old-1", "s-old-2"]
    assert gone["reasoning_cache"] == {"m/idle~": {"base_rate": 0.1}}
    assert len(gone["performance_metrics"]) == 2
    assert sum(plan.counts.values()) == 6
    assert memory.sessions.prune("demo").unwrap().changes == ()


@pytest.mark.requirement("CHK-11")
def test_a_checkpoint_above_the_budget_prunes_the_state(memory, make):
    session = memory.sessions.start("demo", budget=Budget(predictions=3, signals=4, markets=2))
    moment = "2026-02-03T11:00:00Z"
    state = make.state(predictions=3, signals=0)
    state["active_predictions"].append(make.prediction("done", status="resolved", last_updated=moment))
    state["signal_history"] = [make.signal(f"s-{index}", timestamp=f"2026-02-03T11:0{index}:00Z") for index in range(6)]
    session.replace(state)
    session.checkpoint()
    after = session.state
    assert [item["prediction_id"] for item in after["active_predictions"]] == ["pred-0", "pred-1", "pred-2"]
    assert [item["signal_id"] for item in after["signal_history"]] == ["s-2", "s-3", "s-4", "s-5"]
    assert session.prune().above == ()


@pytest.mark.requirement("CHK-11")
def test_prune_keeps_active_predictions_and_reports_the_excess(memory, make):
    memory.sessions.save_checkpoint(make.state(predictions=5), "demo")
    plan = memory.sessions.prune("demo", Budget(predictions=3)).unwrap()
    assert plan.above == ("5 predictions are active; the budget is 3",)
    assert len(memory.sessions.state("demo")["active_predictions"]) == 5


# Failing file stores


@pytest.mark.requirement("CHK-2", "CHK-4")
def test_changes_are_accepted_while_the_disk_for_files_is_full(memory, tmp_path, content):
    full = False

    def hook(step):
        if full and step == "write":
            raise OSError(errno.ENOSPC, "No space left on device")

    memory.sessions._blobs = LocalFiles(tmp_path / "files", hook)
    session = memory.sessions.start("demo", significance=Significance(changes=2, sections=()))
    full = True
    assert session.update("/configuration/x", 1)
    assert session.update("/configuration/y", 2)
    assert isinstance(session.trouble, StoreFull)
    with pytest.raises(StoreFull, match="could not be written"):
        session.checkpoint()
    state = session.state
    session.abandon()
    full = False
    report = memory.sessions.recover("demo").unwrap()
    assert content(report.state) == content(state)
    assert report.whole
    assert memory.sessions.verify("demo")[0].fault is None


# Scopes and erasure


def test_an_agent_sees_no_session_or_file_of_another_agent(location, open_store):
    orion, elysia = open_store(location, agent="orion"), open_store(location, agent="elysia")
    with orion.sessions.start("demo") as session:
        session.update("/configuration/secret", "orion's")
    with elysia.sessions.start("demo") as session:
        assert session.recovery.mode == "new"
        session.update("/configuration/secret", "elysia's")
    assert [listed.scope for listed in elysia.sessions.list()] == ["elysia"]
    assert orion.sessions.state("demo")["configuration"]["secret"] == "orion's"
    assert elysia.sessions.load_latest_checkpoint("demo")["configuration"]["secret"] == "elysia's"
    with pytest.raises(InvalidInput, match="outside the caller's reach"):
        elysia.sessions.state("demo", scope="orion")


def test_the_owner_finds_the_session_of_an_agent(location, open_store):
    with open_store(location, agent="orion").sessions.start("demo") as session:
        session.update("/configuration/x", 1)
    assert open_store(location).sessions.recover("demo").unwrap().state["configuration"]["x"] == 1


def test_erase_removes_every_record_and_file_of_a_session(memory, tmp_path, location):
    with memory.sessions.start("demo", retention=Retention(plain=1)) as session:
        session.update("/configuration/secret", "canary-4711")
        session.checkpoint()
    assert any(b"canary-4711" in file.read_bytes() for file in (tmp_path / "files").rglob("*") if file.is_file())
    memory.sessions.erase("demo")
    assert files(tmp_path) == []
    assert memory.journal.get(Key("shared", "session", "demo")) is None
    assert not list(memory.journal.read(Query(mentions="canary-4711", every_version=True, hidden=True)))


def test_session_records_are_not_found_by_text_search(memory, make):
    with memory.sessions.start("demo") as session:
        session.update("/active_predictions/-", make.prediction(question="Will the unicorn land?"))
    assert memory.journal.find("unicorn") == []


def test_old_checkpoints_are_compressed_while_the_session_is_open(memory, clock, tmp_path):
    session = memory.sessions.start("demo")
    for day in range(3):
        session.update("/configuration/day", day)
        clock.advance(timedelta(hours=25).total_seconds())
    session.checkpoint()
    assert files(tmp_path, "checkpoint_*") == [
        "checkpoint_001.json.gz", "checkpoint_002.json.gz", "checkpoint_003.json.gz", "checkpoint_004.json.gz",
        "checkpoint_005.json",
    ]  # fmt: skip


@pytest.mark.requirement("CHK-10")
def test_the_state_of_an_earlier_time_or_position_can_be_read(memory, clock):
    assert memory.sessions.state("demo", as_of=memory.journal.tip()) is None
    points = []
    with memory.sessions.start("demo") as session:
        for step in ("plan", "build", "test", "deploy"):
            clock.advance(60)
            session.update("step", step)
            points.append((clock.now(), memory.journal.tip(), step))
            if step == "build":
                session.checkpoint()
    session = memory.sessions.start("demo")
    clock.advance(60)
    assert session.replace({**session.state, "step": "anew"})
    session.close()
    for moment, position, step in points:
        assert memory.sessions.state("demo", as_of=moment)["step"] == step
        assert memory.sessions.state("demo", as_of=position)["step"] == step
    assert memory.sessions.state("demo", as_of=memory.journal.tip())["step"] == "anew"
