"""Recovery after a clean end, a crash and damage, from files and log or from one of them, and with the network."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa.errors import InvalidInput, NetworkDown, NotAccepted, RateLimited
from lukasa.network import NetworkHub, NetworkState, RateLimitedNetwork
from lukasa.sessions import NEVER
from lukasa.sessions.patch import apply_changes
from lukasa.sessions.recovery import build_recovering_changes, reconcile_predictions, restore_status
from lukasa.sessions.state import fresh_state
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock
from lukasa.testing.clock import NOON

CHECKPOINTS = "files/sessions/demo"


class Down:
    """Network that never answers."""

    def __getattr__(self, name):
        def fail(*_):
            raise NetworkDown

        return fail


@pytest.fixture
def abandoned_session(make):
    """Make a session with checkpoints and changes that is not closed; return its state."""

    def create(memory, changes=5, checkpoints=4):
        session = memory.sessions.start("demo", significance=NEVER)
        session.replace(make.state())
        for number in range(checkpoints):
            session.update("/configuration/round", number)
            session.checkpoint()
        for number in range(changes):
            assert session.update(f"/configuration/late-{number}", number)
        state = session.state
        session.abandon()
        return state

    return create


def delete_log(location):
    path = Path(location)
    for file in path.parent.glob(path.name + "*"):
        if file.is_file():
            file.unlink()


@pytest.mark.requirement("CHK-7")
def test_a_closed_session_is_recovered_from_its_newest_checkpoint_without_a_write(memory, content):
    with memory.sessions.start("demo") as session:
        session.update("/learning_state/model_version", "1.2.3")
        state = session.state
    report = memory.sessions.recover("demo").unwrap()
    assert (report.mode, report.replayed, report.lost, report.whole) == ("normal", 0, (), True)
    assert report.used == "checkpoint 2 of files and log"
    assert content(report.state) == content(state)
    tip = memory.journal.tip()
    assert memory.sessions.recover("demo") == report
    assert memory.journal.tip() == tip


@pytest.mark.requirement("CHK-8", "CHK-4")
def test_after_a_crash_recovery_has_every_acknowledged_change_and_can_be_repeated(memory, abandoned_session):
    state = abandoned_session(memory)
    report = memory.sessions.recover("demo").unwrap()
    assert (report.mode, report.lost, report.whole) == ("crash", (), True)
    assert report.replayed == 5
    assert report.state == state
    again = memory.sessions.recover("demo").unwrap()
    assert (again.mode, again.state) == ("crash", state)


@pytest.mark.requirement("CHK-4")
def test_several_hundred_changes_are_recovered(memory, abandoned_session):
    state = abandoned_session(memory, changes=300)
    assert memory.sessions.recover("demo").unwrap().state == state


@pytest.mark.requirement("CHK-9")
def test_without_files_everything_is_recovered_from_the_log(memory, abandoned_session, tmp_path):
    state = abandoned_session(memory)
    shutil.rmtree(tmp_path / "files")
    report = memory.sessions.recover("demo").unwrap()
    assert report.used == "checkpoint 6 of log"
    assert report.state["configuration"] == state["configuration"]
    assert report.whole
    assert memory.sessions.verify("demo")[0].fault is None


@pytest.mark.requirement("CHK-9")
def test_without_the_log_everything_is_recovered_from_the_files(tmp_path, open_store, abandoned_session, clock):
    location = str(tmp_path / "agents.db")
    memory = open_store(location, clock=clock)
    state = abandoned_session(memory)
    memory.close()
    delete_log(location)
    memory = open_store(location, clock=clock)
    report = memory.sessions.recover("demo", network=NetworkHub(memory.valid_journal, clock)).unwrap()
    assert report.used == "checkpoint 6 of files"
    assert report.replayed == 5
    assert report.state["configuration"] == state["configuration"]
    assert not report.sure
    again = memory.sessions.recover("demo").unwrap()
    assert again.state == report.state


@pytest.mark.requirement("CHK-7")
def test_a_closed_session_without_its_log_is_recovered_as_closed(tmp_path, open_store, clock):
    location = str(tmp_path / "agents.db")
    memory = open_store(location, clock=clock)
    memory.sessions.start("demo").close()
    memory.close()
    delete_log(location)
    memory = open_store(location, clock=clock)
    first = memory.sessions.recover("demo").unwrap()
    assert (first.mode, first.used, first.whole) == ("normal", "checkpoint 2 of files", True)
    assert memory.sessions.recover("demo").unwrap().mode == "normal"


def test_files_show_that_a_closed_session_was_opened_again(tmp_path, open_store, clock):
    location = str(tmp_path / "agents.db")
    memory = open_store(location, clock=clock)
    memory.sessions.start("demo").close()
    memory.sessions.start("demo").abandon()
    memory.close()
    delete_log(location)
    assert open_store(location, clock=clock).sessions.recover("demo").unwrap().mode == "crash"


def test_recover_refuses_an_unknown_session(memory):
    refused = memory.sessions.recover("nobody")
    assert (refused.code, refused.reason) == ("not_found", "Nothing is known of the session 'nobody'.")


# Damage


def flip_bit(data, rng):
    index = rng.randrange(len(data))
    return data[:index] + bytes([data[index] ^ (1 << rng.randrange(8))]) + data[index + 1 :]


DAMAGES = {
    "flip": flip_bit,
    "truncate": lambda data, rng: data[: rng.randrange(1, len(data))],
    "empty": lambda data, rng: b"",
    "zeroes": lambda data, rng: bytes(len(data)),
    "other": lambda data, rng: b'{"metadata": {}}\n',
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Folder of a session that was not closed, and its state."""
    folder = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUKASA_FILES", str(folder / "files"))
        memory = lukasa.open(folder / "agents.db", clock=FrozenClock())
        session = memory.sessions.start("demo", significance=NEVER)
        for number in range(5):
            session.update("/configuration/round", number)
            session.checkpoint()
        for number in range(3):
            session.update(f"/configuration/late-{number}", number)
        state = session.state
        session.abandon()
        memory.close()
    return folder, state


@pytest.mark.requirement("CHK-9")
@pytest.mark.parametrize("log", ["with the log", "without the log"])
@pytest.mark.parametrize("damage", [*DAMAGES, "swap", "missing"])
@pytest.mark.parametrize("which", [(6,), (5,), (4,), (6, 5), (6, 5, 4)])
def test_damage_to_the_newest_three_checkpoints_loses_no_change_and_deletes_no_file(
    tmp_path, open_store, template, log, damage, which
):
    source, state = template
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    location = str(tmp_path / "agents.db")
    folder, rng = tmp_path / CHECKPOINTS, random.Random(f"{damage}{which}")
    contents = {number: (folder / f"checkpoint_{number:03d}.json").read_bytes() for number in range(1, 7)}
    for number in which:
        file = folder / f"checkpoint_{number:03d}.json"
        if damage == "missing":
            file.unlink()
        else:
            file.write_bytes(contents[1] if damage == "swap" else DAMAGES[damage](contents[number], rng))
    if log == "without the log":
        delete_log(location)
    before = sum(1 for file in folder.iterdir())
    memory = open_store(location, clock=FrozenClock())
    report = memory.sessions.recover("demo").unwrap()
    assert report.state["configuration"] == state["configuration"]  # the changes since lead on from any checkpoint
    assert report.lost == ()
    if damage != "missing":
        assert [item.number for item in report.damaged] == list(which)
        assert all((tmp_path / "files" / item.moved_to).exists() for item in report.damaged)
        assert len(memory.sessions.incidents("demo")) == 1
        assert report.mode == ("corruption" if which[0] == 6 else "crash")
    assert sum(1 for file in folder.iterdir()) >= before
    again = memory.sessions.recover("demo").unwrap()
    assert again.state["configuration"] == state["configuration"]
    assert again.damaged == ()


@pytest.mark.requirement("CHK-9")
def test_the_same_damage_is_recorded_as_one_incident(tmp_path, in_file, abandoned_session):
    abandoned_session(in_file)
    (tmp_path / CHECKPOINTS / "checkpoint_006.json").write_bytes(b"rubbish")
    report = in_file.sessions.recover("demo").unwrap()
    in_file.sessions.recover("demo")
    (incident,) = in_file.sessions.incidents("demo")
    assert incident["damaged"][0]["number"] == 6
    assert incident["damaged"][0]["reason"]
    assert len(report.incidents) == 1


@pytest.mark.requirement("CHK-9")
def test_a_compressed_checkpoint_is_used_when_all_plain_ones_are_damaged(
    tmp_path, open_store, abandoned_session, clock
):
    location = str(tmp_path / "agents.db")
    memory = open_store(location, clock=clock)
    state = abandoned_session(memory)
    memory.sessions.compress_old_checkpoints("demo", keep=2)
    memory.close()
    delete_log(location)
    for number in (5, 6):
        (tmp_path / CHECKPOINTS / f"checkpoint_{number:03d}.json").write_bytes(b"")
    for file in (tmp_path / CHECKPOINTS).glob("deltas_*"):
        file.unlink()
    report = open_store(location, clock=clock).sessions.recover("demo")
    assert report.used == "checkpoint 4 of files"
    assert report.mode == "corruption"
    assert not report.whole
    assert report.state["configuration"]["round"] < state["configuration"]["round"]


@pytest.mark.requirement("CHK-9")
def test_missing_changes_are_reported_and_changes_after_the_gap_are_not_applied(memory, abandoned_session, tmp_path):
    state = abandoned_session(memory)
    numbers = {delta.body["n"]: delta for delta in memory.journal.read(Query(kinds=("session_delta",)))}
    last = max(numbers)
    memory.journal.delete(numbers[last - 2].key)
    for file in (tmp_path / CHECKPOINTS).glob("deltas_*"):
        file.unlink()
    report = memory.sessions.recover("demo").unwrap()
    assert report.mode == "corruption"
    assert report.lost == (last - 2, last - 1, last)
    assert "late-1" in report.state["configuration"]
    assert "late-2" not in report.state["configuration"]
    assert state["configuration"]["late-4"] == 4
    with memory.sessions.start("demo") as session:
        assert session.update("/configuration/after", 1)
    assert memory.sessions.recover("demo").unwrap().state["configuration"]["after"] == 1


def test_a_deleted_change_is_not_recovered_from_the_files(memory, abandoned_session):
    abandoned_session(memory)
    newest = max(memory.journal.read(Query(kinds=("session_delta",))), key=lambda delta: delta.body["n"])
    memory.journal.delete(newest.key)
    assert "late-4" not in memory.sessions.recover("demo").unwrap().state["configuration"]


@pytest.mark.requirement("CHK-9")
def test_without_a_valid_checkpoint_predictions_are_rebuilt_from_the_network(tmp_path, open_store, make, clock):
    location = str(tmp_path / "agents.db")
    memory = open_store(location, clock=clock, agent="orion")
    with memory.sessions.start("demo") as session:
        session.update("/active_predictions/-", make.prediction("p1"))
        session.update("/signal_history/-", make.signal("s1", broadcast=False, acknowledged=False))
        session.sync()
    (folder,) = (tmp_path / "files/sessions").iterdir()
    for file in folder.iterdir():
        file.write_bytes(b"rubbish")
    owner = open_store(location, clock=clock)
    owner.journal.delete(lukasa.Key("orion", "checkpoint", "demo"))
    report = memory.sessions.recover("demo").unwrap()
    assert report.mode == "corruption"
    assert report.rebuilt == ("p1",)
    assert [item["prediction_id"] for item in report.state["active_predictions"]] == ["p1"]
    assert [item["signal_id"] for item in report.state["signal_history"]] == ["s1"]
    assert not report.whole


# The network


@pytest.mark.requirement("CHK-8")
def test_predictions_are_marked_and_then_verified_in_durable_steps(memory, abandoned_session, make):
    abandoned_session(memory)
    report = memory.sessions.recover("demo").unwrap()
    deltas = list(memory.journal.read(Query(kinds=("session_delta",))))[-4:]
    marked, *steps = [delta.body["changes"] for delta in deltas]
    assert [change["value"] for change in marked] == ["recovering", "active"] * 3
    assert [change["value"]["status"] for (change,) in steps] == ["active"] * 3
    assert report.flagged == {}


@pytest.mark.requirement("CHK-8")
def test_predictions_stay_recovering_until_the_network_answers(memory, abandoned_session):
    state = abandoned_session(memory)
    report = memory.sessions.recover("demo", network=Down()).unwrap()
    assert report.network == "did not answer"
    assert set(report.flagged) == {"pred-0", "pred-1", "pred-2"}
    assert {item["status"] for item in report.state["active_predictions"]} == {"recovering"}
    session = memory.sessions.start("demo")
    assert session.recovering() == []
    assert session.state["active_predictions"] == state["active_predictions"]


@pytest.mark.requirement("CHK-8")
def test_the_newer_prediction_wins_and_each_conflict_is_recorded(memory, clock, make):
    hub = NetworkHub(memory.valid_journal, clock)
    early, late = "2026-02-03T12:00:00Z", "2026-02-03T13:00:00Z"
    hub.broadcast("agent", "prediction", make.prediction("theirs", probability=0.9, last_updated=late))
    hub.broadcast("agent", "prediction", make.prediction("ours", probability=0.1, last_updated=early))
    hub.broadcast("agent", "prediction", make.prediction("same", last_updated=early))
    hub.broadcast("agent", "prediction", make.prediction("elsewhere", last_updated="2026-02-04T00:00:00Z"))
    session = memory.sessions.start("demo", significance=NEVER)
    session.update(
        "/active_predictions",
        [
            make.prediction("theirs", probability=0.2, last_updated=early),
            make.prediction("ours", probability=0.3, last_updated=late),
            make.prediction("same", last_updated=early),
        ],
    )
    session.abandon()
    report = memory.sessions.recover("demo").unwrap()
    found = {item["prediction_id"]: item["probability"] for item in report.state["active_predictions"]}
    assert found == {"theirs": 0.9, "ours": 0.3, "same": 0.6, "elsewhere": 0.6}
    assert {conflict["prediction_id"]: conflict["kept"] for conflict in report.conflicts} == {
        "theirs": "network",
        "ours": "own",
    }
    assert report.rebuilt == ("elsewhere",)
    (event,) = [event for event in memory.sessions.events("demo") if event["event"] == "recovered"]
    assert len(event["conflicts"]) == 2
    assert memory.sessions.recover("demo").unwrap().state["active_predictions"] == report.state["active_predictions"]


PREDICTIONS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.floats(0, 1), st.integers(0, 3), st.sampled_from(["active", "resolved"])),
    unique_by=lambda item: item[0],
)


def as_predictions(rows):
    return [
        {"prediction_id": id, "probability": p, "last_updated": f"2026-02-03T12:0{minute}:00Z", "status": status}
        for id, p, minute, status in rows
    ]


@pytest.mark.requirement("CHK-8")
@given(PREDICTIONS, PREDICTIONS, st.booleans(), st.booleans())
def test_reconcile_keeps_every_prediction_and_the_newer_side_of_each(ours, theirs, sure, reachable):
    state = fresh_state("s", "a", NOON)
    state["active_predictions"] = as_predictions(ours)
    state = apply_changes(state, build_recovering_changes(state))
    network = NetworkState("a", tuple(as_predictions(theirs))) if reachable else None
    decisions = {
        decision.prediction_id: decision for decision in reconcile_predictions(state, network, is_complete=sure)
    }
    local, remote = ({item["prediction_id"]: item for item in as_predictions(rows)} for rows in (ours, theirs))
    for id, item in local.items():
        if item["status"] != "active":
            assert id not in decisions or decisions[id].action == "add"
            continue
        decision = decisions[id]
        if not reachable or (id not in remote and not sure):
            assert decision.action == "hold"
            assert decision.flag
        elif id in remote and remote[id]["last_updated"] > item["last_updated"]:
            assert restore_status(decision.prediction) == remote[id]
        else:
            assert restore_status(decision.prediction) == item
        assert (decision.conflict is not None) == (reachable and id in remote and remote[id] != item)


@pytest.mark.requirement("CHK-12")
def test_two_agents_on_one_store_exchange_predictions_and_signals(location, open_store, make, clock):
    orion, elysia = open_store(location, agent="orion", clock=clock), open_store(location, agent="elysia", clock=clock)
    with orion.sessions.start("o") as ours, elysia.sessions.start("e") as theirs:
        ours.update("/active_predictions/-", make.prediction("p1"))
        ours.update("/signal_history/-", make.signal("s1", broadcast=False, acknowledged=False))
        assert ours.sync()["connected"]
        heard = theirs.sync()
        assert [peer["agent_id"] for peer in heard["peer_agents"]] == ["orion"]
        hub = elysia.sessions.network
        assert [news["signal_id"] for news in hub.inbox("elysia")] == ["s1"]
        assert not hub.acknowledge("elysia", "s1", "orion").repeated
        assert hub.acknowledge("elysia", "s1", "orion").repeated
        assert hub.inbox("elysia") == []
        ours.sync()
        (signal,) = ours.state["signal_history"]
        assert (signal["broadcast"], signal["acknowledged"]) == (True, True)
        assert hub.fetch_state("orion").active_predictions[0]["prediction_id"] == "p1"
        assert theirs.sync()["last_sync"] == "2026-02-03T12:00:00Z"


@pytest.mark.requirement("CHK-12")
def test_a_repeated_signal_and_an_older_prediction_change_nothing(memory, clock, make):
    hub = NetworkHub(memory.valid_journal, clock)
    assert [hub.broadcast("a", "signal", make.signal()).repeated for _ in range(3)] == [False, True, True]
    assert len(hub.inbox("b")) == 1
    hub.broadcast("a", "prediction", make.prediction(last_updated="2026-02-03T13:00:00Z", probability=0.9))
    assert hub.broadcast("a", "prediction", make.prediction(probability=0.1)).repeated
    assert hub.fetch_state("a").active_predictions[0]["probability"] == 0.9
    later = make.prediction(last_updated="2026-02-03T13:00:00.5Z", probability=0.8)  # as text it would come before
    assert not hub.broadcast("a", "prediction", later).repeated
    assert hub.fetch_state("a").active_predictions[0]["probability"] == 0.8
    with pytest.raises(NotAccepted, match="no signal"):
        hub.acknowledge("b", "nothing", "a")
    with pytest.raises(InvalidInput, match="signal_id"):
        hub.broadcast("a", "signal", {})


@pytest.mark.requirement("CHK-12")
def test_requests_count_against_the_hourly_rate_limit(in_file, make):
    clock = FrozenClock()
    limited = RateLimitedNetwork(NetworkHub(in_file.valid_journal, clock), clock, limit=3)
    in_file.sessions.network = limited
    session = in_file.sessions.start("demo")
    session.update("/active_predictions/-", make.prediction())
    section = session.sync()
    assert section["connected"]
    assert section["api_usage"] == {"requests_this_hour": 2, "rate_limit": 3, "last_request": "2026-02-03T12:00:00Z"}
    assert session.sync()["connected"] is False
    assert limited.requests_denied == 1
    with pytest.raises(RateLimited, match="next hour"):
        limited.peers("demo")
    clock.advance(3600)
    assert session.sync()["connected"]


@pytest.mark.requirement("CHK-12")
def test_sync_notes_in_the_state_that_the_network_is_down(in_file):
    in_file.sessions.network = Down()
    session = in_file.sessions.start("demo")
    assert session.sync()["connected"] is False
    noted = session.state["network_state"]
    assert noted["connected"] is False
    assert noted["api_usage"]["requests_this_hour"] == 1
