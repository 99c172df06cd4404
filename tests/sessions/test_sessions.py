"""The course of a session: started, changed in small steps, saved, closed, kept within its budget. On every engine."""

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
def test_a_session_begins_and_goes_on_where_it_was(memory, content):
    with memory.sessions.start("demo", agent_type="analyst") as session:
        assert session.recovery.mode == "new"
        assert session.update("/configuration/api_endpoint", "https://example.org")
        state = session.state()
    assert state["metadata"]["agent_type"] == "analyst"
    with memory.sessions.start("demo") as again:
        assert again.recovery.mode == "normal"
        assert content(again.state()) == content(state)
    assert [event["event"] for event in memory.sessions.events("demo")] == [
        "started", "checkpoint", "checkpoint", "closed", "resumed", "closed",
    ]  # fmt: skip


@pytest.mark.requirement("CHK-10")
@pytest.mark.parametrize("variable", ["LUKASA_SESSION_ID", "VOXSIGIL_SESSION_ID"])
def test_the_environment_says_which_session_to_go_on_with(in_file, monkeypatch, variable):
    monkeypatch.setenv(variable, "from-outside")
    with in_file.sessions.start() as session:
        assert session.id == "from-outside"
    monkeypatch.delenv(variable)
    with in_file.sessions.start() as session:
        assert session.id.startswith("session-20260203-120000-")


@pytest.mark.requirement("CHK-10")
def test_a_closed_session_takes_no_changes_and_closing_twice_is_fine(in_file):
    session = in_file.sessions.start("demo")
    session.close()
    session.close()
    with pytest.raises(StoreClosed, match="Start it again"):
        session.update("/configuration/x", 1)


@pytest.mark.requirement("CHK-10")
def test_closing_the_memory_closes_its_sessions(tmp_path, opened):
    memory = opened(str(tmp_path / "agents.db"))
    memory.sessions.start("demo").update("/configuration/x", 1)
    memory.close()
    assert opened(str(tmp_path / "agents.db")).sessions.recover("demo").mode == "normal"


@pytest.mark.requirement("CHK-4")
def test_a_small_change_is_a_small_record_and_nothing_else(memory, make):
    session = memory.sessions.start("demo", significance=NEVER)
    session.replace(make.state(predictions=40))
    tip = memory.journal.tip()
    assert session.update("/active_predictions/pred-7/probability", 0.61)
    (delta,) = memory.journal.read(Query(after=tip))
    assert delta.kind == "session_delta"
    assert delta.text == ""
    whole = len(json.dumps(session.state()))
    assert len(json.dumps(dict(delta.body))) < 0.05 * whole


@pytest.mark.requirement("CHK-4")
def test_a_prediction_is_revised_as_the_document_does_it(memory, make, clock):
    session = memory.sessions.start("demo")
    session.update("/active_predictions/-", make.prediction())
    clock.advance(60)
    assert session.update_prediction("pred-1", 0.65)
    (item,) = session.state()["active_predictions"]
    assert (item["probability"], item["num_updates"], item["last_updated"]) == (0.65, 1, "2026-02-03T12:01:00Z")
    assert session.update_prediction("nobody", 0.5).code == "not_found"


@pytest.mark.requirement("CHK-1")
@pytest.mark.parametrize(
    ("where", "value", "code"),
    [
        ("/active_predictions/-", {"prediction_id": "x", "probability": 7}, "bad_state"),
        ("/configuration/x", float("nan"), "bad_json"),
        ("/configuration/x", "half a character: \ud83d", "bad_json"),
        ("/configuration/x", object, "bad_json"),
        ("/configuration/x", "x" * 16_000_000, "too_large"),
        ("/metadata", 7, "bad_state"),
        ("/nowhere/at/all", 1, "bad_change"),
        ("", {}, "bad_state"),
        (7, 1, "bad_change"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_and_changes_nothing(memory, where, value, code):
    session = memory.sessions.start("demo")
    before = session.state()
    outcome = session.update(where, value)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert session.state() == before
    assert memory.sessions.state("demo") == before


@pytest.mark.requirement("CHK-1")
def test_unknown_fields_survive_saving_and_loading(memory, make):
    state = make.state()
    state["notes"] = {"ünï": ["\0", 1.5, None, 2**63]}
    state["active_predictions"][0]["mood"] = "hopeful"
    assert memory.sessions.save_checkpoint(state, "demo")
    loaded = memory.sessions.load_latest_checkpoint("demo")
    assert loaded["notes"] == state["notes"]
    assert loaded["active_predictions"] == state["active_predictions"]


@pytest.mark.parametrize("id", ["", "x" * 201, "a\nb", "a\0b", 7, None])
def test_ids_that_no_session_can_have_are_refused(in_file, id):
    with pytest.raises((InvalidInput, TypeError)):
        in_file.sessions.recover(id)


@pytest.mark.parametrize("id", ["../../x", "user:agent:123", "CON", "é", "a b/c", "😀"])
def test_odd_ids_work_like_any_other(memory, id, tmp_path):
    with memory.sessions.start(id) as session:
        session.update("/configuration/x", id)
    assert memory.sessions.recover(id).state["configuration"]["x"] == id
    assert not (tmp_path.parent / "x").exists()


def test_a_state_cannot_grow_beyond_what_a_checkpoint_holds(in_file):
    session = in_file.sessions.start("demo", significance=NEVER)
    outcomes = [session.update(f"/configuration/part-{at}", "x" * 4_000_000) for at in range(4)]
    assert [bool(outcome) for outcome in outcomes] == [True, True, True, False]
    assert outcomes[-1].code == "too_large"
    assert session.update("/configuration/part-0", "short")
    assert session.update("/configuration/part-3", "x" * 4_000_000)
    assert session.checkpoint()
    assert in_file.sessions.recover("demo").state == session.state()


# The document's functions


@pytest.mark.requirement("CHK-2")
def test_the_documents_functions_save_load_and_compress(memory, make, tmp_path, content):
    for _ in range(12):
        assert memory.sessions.save_checkpoint(make.state(), "demo")
    assert files(tmp_path, "checkpoint_*")[-1] == "checkpoint_012.json"
    assert files(tmp_path, "*.gz") == ["checkpoint_001.json.gz", "checkpoint_002.json.gz"]
    assert content(memory.sessions.load_latest_checkpoint("demo")) == content(make.state())
    assert memory.sessions.load_latest_checkpoint("nobody") is None
    assert memory.sessions.compress_old_checkpoints("demo", 24, keep=5).compressed == (3, 4, 5, 6, 7)


@pytest.mark.requirement("CHK-2")
def test_a_number_may_be_named_and_an_older_write_that_comes_late_loses(memory, make):
    assert memory.sessions.save_checkpoint(make.state(), "demo", 7)
    late = memory.sessions.save_checkpoint(make.state(), "demo", 7)
    assert isinstance(late, Conflict)
    assert (late.expected, late.found) == (7, 7)
    assert memory.sessions.latest("demo").number == 7


def test_a_state_that_does_not_fit_is_not_saved(memory, make):
    state = make.state()
    state["active_predictions"][0]["probability"] = 3
    assert memory.sessions.save_checkpoint(state, "demo").code == "bad_state"
    assert memory.sessions.save_checkpoint([], "demo").code == "bad_state"
    assert memory.sessions.load_latest_checkpoint("demo") is None


def test_a_state_of_two_megabytes_is_kept_and_one_of_twenty_is_refused(memory, make):
    state = make.state()
    state["notes"] = "n" * 2_000_000
    assert memory.sessions.save_checkpoint(state, "demo")
    assert memory.sessions.recover("demo").state["notes"] == state["notes"]
    state["notes"] = "n" * 20_000_000
    assert memory.sessions.save_checkpoint(state, "demo").code == "too_large"


# Triggers


@pytest.mark.requirement("CHK-3")
def test_a_checkpoint_comes_every_thirty_minutes_if_something_changed(memory, clock):
    session = memory.sessions.start("demo", significance=NEVER)
    clock.advance(31 * 60)
    assert session.tick() == ()
    session.update("/configuration/x", 1)
    assert session.tick() == ()
    clock.advance(30 * 60)
    assert session.tick() == ("checkpoint",)
    assert session.number == 2
    session.update("/configuration/checkpoint_interval_minutes", 5)
    clock.advance(5 * 60)
    assert session.tick() == ("checkpoint",)


@pytest.mark.requirement("CHK-3")
def test_a_clock_that_is_set_back_does_not_stop_checkpoints(in_file, clock):
    session = in_file.sessions.start("demo", significance=NEVER)
    clock.advance(-7 * 24 * 3600)
    session.update("/configuration/x", 1)
    assert session.tick() == ()
    clock.advance(30 * 60)
    assert session.tick() == ("checkpoint",)


@pytest.mark.requirement("CHK-3")
@pytest.mark.parametrize(
    ("where", "value", "saved"),
    [
        ("/active_predictions/pred-0/probability", 0.69, False),
        ("/active_predictions/pred-0/probability", 0.70, True),
        ("/active_predictions/pred-0/status", "resolved", True),
        ("/configuration/confidence_threshold", 0.8, True),
        ("/learning_state/model_version", "2.0.0", False),
        ("/active_predictions/-", {"prediction_id": "new", "probability": 0.5}, False),
    ],
)
def test_a_significant_change_is_saved_at_once_as_a_checkpoint(memory, make, where, value, saved):
    session = memory.sessions.start("demo")
    session.replace(make.state())
    before = session.number
    assert session.update(where, value)
    assert session.number - before == saved


@pytest.mark.requirement("CHK-3")
def test_many_small_changes_are_significant_together_and_the_rule_can_be_changed(memory):
    session = memory.sessions.start("demo", significance=Significance(changes=3, sections=()))
    numbers = [session.update("/configuration/x", at) and session.number for at in range(7)]
    assert numbers == [1, 1, 2, 2, 2, 3, 3]


@pytest.mark.requirement("CHK-3")
def test_a_slow_drift_is_measured_from_the_last_checkpoint(memory, make):
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
def test_however_a_running_program_ends_its_session_is_saved_and_closed(company, tmp_path, monkeypatch, ending):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    place = str(tmp_path / "agents.db")
    actor = company.start("running", place=place, ending=ending)
    assert actor.stdout.readline() == "ready\n"
    if ending.startswith("SIG"):
        actor.send_signal(getattr(signals, ending))
    actor.communicate(timeout=60)
    assert actor.returncode == {"SIGTERM": 143, "SIGINT": -2, "exit": 0, "error": 1}[ending] or ending == "SIGINT"
    with lukasa.open(place) as memory:
        report = memory.sessions.recover("demo")
    assert report.mode == "normal"
    assert report.state["configuration"]["x"] == 1


@pytest.mark.requirement("CHK-3")
def test_the_scheduler_saves_by_itself(tmp_path, opened):
    memory = opened(str(tmp_path / "agents.db"))
    session = memory.sessions.start("demo", significance=NEVER)
    saved = threading.Event()
    real = session._files.save

    def save(checkpoint):
        saved.set()
        return real(checkpoint)

    session._files.save = save
    session.update("/configuration/checkpoint_interval_minutes", 0.001)
    session.run(signals=False)
    assert saved.wait(30)
    session.close()
    assert session.trouble is None


# Two writers


@pytest.mark.requirement("CHK-4")
def test_of_two_writers_one_comes_second_and_is_told(memory, place, opened, clock):
    one = memory.sessions.start("demo", significance=NEVER)
    other = opened(place, clock=clock).sessions.start("demo", significance=NEVER)
    one.refresh()
    assert isinstance(one.update("/configuration/x", 1), Accepted)
    assert isinstance(other.update("/configuration/y", 2), Conflict)
    assert other.refresh() == 1
    assert isinstance(other.update("/configuration/y", 2), Accepted)
    assert other.state()["configuration"].items() >= {"x": 1, "y": 2}.items()
    assert isinstance(one.checkpoint(), Accepted)
    assert isinstance(other.checkpoint(), Conflict)
    other.refresh()
    assert isinstance(other.checkpoint(), Accepted)
    assert memory.sessions.state("demo") == other.state()


@pytest.mark.requirement("CHK-4")
def test_threads_of_one_session_lose_nothing(in_file):
    session = in_file.sessions.start("demo", significance=Significance(changes=25))

    def work(name):
        for at in range(20):
            assert session.update(f"/configuration/{name}-{at}", at)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = session.state()
    assert sum("-" in name for name in state["configuration"]) == 80
    session.abandon()
    assert in_file.sessions.recover("demo").state["configuration"] == state["configuration"]


@pytest.mark.requirement("CHK-4")
def test_processes_writing_one_session_lose_nothing(place, company, opened, tmp_path):
    memory = opened(place)
    memory.sessions.start("demo").close()
    started = [company.start("adding", place=place, name=name, times=15) for name in ("a", "b", "c")]
    for process in started:
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint[-3000:]
    found = memory.sessions.state("demo")["configuration"]
    assert {name for name in found if "-" in name} == {f"{name}-{at}" for name in "abc" for at in range(15)}


# Budget


@pytest.mark.requirement("CHK-11")
def test_pruning_takes_four_steps_and_archives_everything_that_leaves(memory, make, clock):
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
    plan = memory.sessions.prune("demo")
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
    assert memory.sessions.prune("demo").changes == ()


@pytest.mark.requirement("CHK-11")
def test_when_a_limit_is_reached_a_checkpoint_prunes_by_itself(memory, make):
    session = memory.sessions.start("demo", budget=Budget(predictions=3, signals=4, markets=2))
    moment = "2026-02-03T11:00:00Z"
    state = make.state(predictions=3, signals=0)
    state["active_predictions"].append(make.prediction("done", status="resolved", last_updated=moment))
    state["signal_history"] = [make.signal(f"s-{at}", timestamp=f"2026-02-03T11:0{at}:00Z") for at in range(6)]
    session.replace(state)
    session.checkpoint()
    after = session.state()
    assert [item["prediction_id"] for item in after["active_predictions"]] == ["pred-0", "pred-1", "pred-2"]
    assert [item["signal_id"] for item in after["signal_history"]] == ["s-2", "s-3", "s-4", "s-5"]
    assert session.prune().above == ()


@pytest.mark.requirement("CHK-11")
def test_active_predictions_are_never_pruned_the_excess_is_told(memory, make):
    memory.sessions.save_checkpoint(make.state(predictions=5), "demo")
    plan = memory.sessions.prune("demo", Budget(predictions=3))
    assert plan.above == ("5 predictions are active; the budget is 3",)
    assert len(memory.sessions.state("demo")["active_predictions"]) == 5


# Trouble with files


@pytest.mark.requirement("CHK-2", "CHK-4")
def test_while_the_disk_for_files_is_full_changes_go_on_and_a_checkpoint_says_so(memory, tmp_path, content):
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
    state = session.state()
    session.abandon()
    full = False
    report = memory.sessions.recover("demo")
    assert content(report.state) == content(state)
    assert report.whole
    assert memory.sessions.verify("demo")[0].fault is None


# Walls


def test_an_agent_sees_neither_the_sessions_nor_the_files_of_another(place, opened):
    orion, elysia = opened(place, agent="orion"), opened(place, agent="elysia")
    with orion.sessions.start("demo") as session:
        session.update("/configuration/secret", "orion's")
    with elysia.sessions.start("demo") as session:
        assert session.recovery.mode == "new"
        session.update("/configuration/secret", "elysia's")
    assert [listed.scope for listed in elysia.sessions.find()] == ["elysia"]
    assert orion.sessions.state("demo")["configuration"]["secret"] == "orion's"
    assert elysia.sessions.load_latest_checkpoint("demo")["configuration"]["secret"] == "elysia's"
    with pytest.raises(InvalidInput, match="outside the caller's reach"):
        elysia.sessions.state("demo", scope="orion")


def test_the_owner_finds_the_session_of_an_agent(place, opened):
    with opened(place, agent="orion").sessions.start("demo") as session:
        session.update("/configuration/x", 1)
    assert opened(place).sessions.recover("demo").state["configuration"]["x"] == 1


def test_erasing_a_session_leaves_no_trace_of_it(memory, tmp_path, place):
    with memory.sessions.start("demo", retention=Retention(plain=1)) as session:
        session.update("/configuration/secret", "canary-4711")
        session.checkpoint()
    assert any(b"canary-4711" in file.read_bytes() for file in (tmp_path / "files").rglob("*") if file.is_file())
    memory.sessions.erase("demo")
    assert files(tmp_path) == []
    assert memory.journal.get(Key("shared", "session", "demo")) is None
    assert not list(memory.journal.read(Query(mentions="canary-4711", every_version=True, hidden=True)))


def test_bookkeeping_stays_out_of_recall(memory, make):
    with memory.sessions.start("demo") as session:
        session.update("/active_predictions/-", make.prediction(question="Will the unicorn land?"))
    assert memory.journal.find("unicorn") == []


def test_aged_checkpoints_are_compressed_while_the_session_goes_on(memory, clock, tmp_path):
    session = memory.sessions.start("demo")
    for day in range(3):
        session.update("/configuration/day", day)
        clock.advance(timedelta(hours=25).total_seconds())
    session.checkpoint()
    assert files(tmp_path, "checkpoint_*") == [
        "checkpoint_001.json.gz", "checkpoint_002.json.gz", "checkpoint_003.json.gz", "checkpoint_004.json.gz",
        "checkpoint_005.json",
    ]  # fmt: skip
