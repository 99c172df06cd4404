"""Import and export of whole folders: the checkpoints of the document's sessions, and its conversations."""

import gzip
import json

import pytest

from lukasa.errors import InvalidInput
from lukasa.transfer.layouts.session_json import import_session

pytestmark = pytest.mark.requirement("CHK-13")


def save_as_document(state, folder, number):
    """Save a checkpoint as the code in the document does: indented, and without leading zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = state["metadata"] | {"checkpoint_number": number, "last_updated": f"2026-02-03T12:{number:02d}:00Z"}
    path = folder / f"checkpoint_{number}.json"
    path.write_text(json.dumps({**state, "metadata": metadata}, indent=2))
    return path


@pytest.fixture
def voxsigil(tmp_path, make):
    """Make a folder with two sessions; one has checkpoints 8 to 11 and a compressed one."""
    root = tmp_path / ".voxsigil"
    for number in (8, 9, 10, 11):
        state = make.state(1)
        state["metadata"]["session_id"] = "one"
        state["configuration"]["max_active_markets"] = number
        path = save_as_document(state, root / "sessions/one", number)
        if number == 8:
            path.with_name("checkpoint_8.json.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    state = make.state(1)
    del state["metadata"]["session_id"]
    save_as_document(state, root / "sessions/two", 5)
    return root


def test_a_whole_folder_is_imported_with_every_checkpoint_under_its_number(memory, voxsigil, clock):
    done = memory.import_(voxsigil, format="voxsigil")
    assert (done.added, done.present, done.refused) == (5, 0, [])
    assert [info.id for info in memory.sessions.list()] == ["two", "one"]
    assert [entry.number for entry in memory.sessions.checkpoints("one")] == [11, 10, 9, 8]
    for number in (8, 9, 10, 11):
        checkpoint = memory.sessions.checkpoint("one", number)
        assert checkpoint.state["configuration"]["max_active_markets"] == number
        assert checkpoint.state["metadata"]["last_updated"] == f"2026-02-03T12:{number:02d}:00Z"
        assert checkpoint.state["metadata"]["checkpoint_number"] == number
    assert memory.sessions.checkpoint("one", 7) is None
    tip = memory.journal.tip()
    again = memory.import_(voxsigil, format="voxsigil")
    assert (again.added, again.present, again.refused) == (0, 5, [])
    assert memory.journal.tip() == tip
    with memory.sessions.start("two") as session:
        assert session.number == 5
    assert memory.sessions.checkpoints("two")[0].number == 6


def test_the_parent_folder_one_session_and_one_file_can_be_imported_too(in_file, voxsigil, open_store, tmp_path):
    assert in_file.import_(voxsigil.parent, format="voxsigil").added == 5
    for number, (source, added) in enumerate(
        {"sessions": 5, "sessions/one": 4, "sessions/two/checkpoint_5.json": 1}.items()
    ):
        other = open_store(str(tmp_path / f"other-{number}.db"))
        other.sessions._blobs = None
        in_file_count = other.import_(voxsigil / source, format="voxsigil", scope=f"agent-{number}").added
        assert in_file_count == added


def test_damaged_and_conflicting_files_are_refused_and_the_others_imported(in_file, voxsigil, make, tmp_path):
    (voxsigil / "sessions/one/checkpoint_10.json").write_text("{")
    (voxsigil / "sessions/one/checkpoint_12.json").symlink_to(voxsigil / "sessions/one/checkpoint_11.json")
    done = in_file.import_(voxsigil, format="voxsigil")
    assert done.added == 4
    assert [path.rpartition("/")[2] for path, _ in done.refused] == ["checkpoint_10.json"]
    save_as_document(make.state(3) | {"metadata": {"session_id": "one"}}, voxsigil / "sessions/one", 9)
    (path, reason), _ = in_file.import_(voxsigil, format="voxsigil").refused
    assert path.endswith("checkpoint_9.json")
    assert reason
    for folder in (tmp_path / "nothing", tmp_path):
        folder.mkdir(exist_ok=True)
        (tmp_path / ".voxsigil").rename(tmp_path / "moved") if folder == tmp_path else None
        with pytest.raises(InvalidInput, match="no checkpoints"):
            in_file.import_(folder, format="voxsigil")


def test_the_counter_of_an_imported_state_goes_on(in_file, make):
    data = json.dumps(make.state()).encode()
    assert import_session(in_file.sessions, data)
    assert [entry.number for entry in in_file.sessions.checkpoints("demo")] == [5]
    assert in_file.sessions.state("demo")["metadata"]["last_updated"] == "2026-02-03T12:00:00Z"
    assert import_session(in_file.sessions, data)
    assert [entry.number for entry in in_file.sessions.checkpoints("demo")] == [6, 5]


def test_sessions_are_exported_as_a_folder_that_can_be_imported(in_file, voxsigil, open_store, tmp_path, content):
    in_file.import_(voxsigil, format="voxsigil")
    assert in_file.export(tmp_path / "out/.voxsigil", format="voxsigil") == 2
    assert (tmp_path / "out/.voxsigil/sessions/two/checkpoint_005.json").exists()
    again = in_file.import_(tmp_path / "out", format="voxsigil")
    assert (again.added, again.present, again.refused) == (0, 2, [])


@pytest.mark.requirement("CTX-12")
def test_a_folder_of_conversations_is_imported_and_exported(memory, tmp_path):
    folder = tmp_path / "data/context"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        turns = [{"role": "user", "content": f"Hello from {name}", "timestamp": 1700000000}]
        (folder / f"{name}.json").write_text(json.dumps({"session_id": name, "recent_history": turns}))
    (folder / "unnamed.json").write_text(json.dumps({"recent_history": [{"role": "user", "content": "Who am I?"}]}))
    (folder / "bad.json").write_text("[]")
    done = memory.import_(tmp_path / "data", format="context")
    assert [path.rpartition("/")[2] for path, _ in done.refused] == ["bad.json"]
    assert sorted(memory.context.list_sessions()) == ["a", "b", "unnamed"]
    again = memory.import_(folder, format="context")
    assert (again.added, again.present, len(again.refused)) == (0, 3, 1)
    (folder / "a.json").write_text(
        json.dumps({"session_id": "a", "recent_history": [{"role": "user", "content": "Something else"}]})
    )
    assert len(memory.import_(folder, format="context").refused) == 2
    assert memory.export(tmp_path / "out", format="context") == 3
    assert json.loads((tmp_path / "out/a.json").read_text())["recent_history"][0]["content"] == "Hello from a"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no conversations"):
        memory.import_(tmp_path / "empty", format="context")
