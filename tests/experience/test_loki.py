"""The tree of .loki/memory, in and out."""

import json

import pytest

import lukasa
from lukasa.errors import FormatError, InvalidInput

pytestmark = pytest.mark.requirement("EXP-16")


def spelled(folder):
    return {
        str(path.relative_to(folder)): json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_example_tree_comes_out_as_it_went_in(memory, tree, tmp_path):
    taken = memory.import_(tree, format="loki")
    assert (taken.added, taken.present, taken.refused) == (15, 0, [])
    assert memory.export(tmp_path / "out", format="loki") == 15
    expected = spelled(tree)
    expected["ledgers/eng-001-backend.json"] = expected.pop("ledgers/eng-001.json")
    assert spelled(tmp_path / "out") == expected


def test_a_tree_that_was_read_is_read_again_for_nothing(memory, tree):
    memory.import_(tree, format="loki")
    tip = memory.journal.tip()
    again = memory.import_(tree, format="loki")
    assert (again.added, again.refused) == (0, [])
    assert memory.journal.tip() == tip


def test_what_comes_out_goes_in_elsewhere_and_comes_out_the_same(memory, opened, tree, tmp_path):
    memory.import_(tree, format="loki")
    memory.consolidate(skills=True)
    memory.knowledge.link("sem-002", "related_to", "sem-001")
    memory.export(tmp_path / "one", format="loki")
    other = opened("memory:")
    assert other.import_(tmp_path / "one", format="loki").refused == []
    other.export(tmp_path / "two", format="loki")
    assert spelled(tmp_path / "two") == spelled(tmp_path / "one")


def test_the_folder_above_is_understood(local, tree, tmp_path):
    (tmp_path / ".loki").mkdir()
    (tmp_path / ".loki" / "memory").symlink_to(tree)
    assert local.import_(tmp_path, format="loki").added == 15


def test_links_of_their_own_file_get_their_inverses(memory, tmp_path):
    (tmp_path / "semantic").mkdir()
    (tmp_path / "semantic/patterns.json").write_text(
        json.dumps([{"id": f"sem-00{n}", "pattern": f"P{n}"} for n in (1, 2)])
    )
    links = [
        {"from": "sem-001", "to": "sem-002", "relation": "supersedes"},
        {"from": "sem-001", "to": "x", "relation": "likes"},
    ]
    (tmp_path / "semantic/links.json").write_text(json.dumps({"links": links}))
    taken = memory.import_(tmp_path, format="loki")
    assert len(taken.refused) == 1
    assert memory.knowledge.get("sem-002").superseded_by.id == "sem-001"


def test_files_that_cannot_be_taken_are_named_and_the_rest_is_taken(memory, tmp_path):
    day = tmp_path / "episodic" / "2026-01-06"
    day.mkdir(parents=True)
    (day / "task-001.json").write_text('{"context": {"goal": "Good"}, "timestamp": "2026-01-06T10:00:00Z"}')
    (day / "task-002.json").write_text('{"context": {}}')
    (day / "task-003.json").write_text("{ not json")
    (day / "task-004.json").write_text('{"a": 1, "a": 2}')
    (day / "task-005.json").write_bytes(b"\xff")
    (day / "task-006.json").write_text("[1]")
    (day / "task-007.json").symlink_to("/etc/passwd")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "bad.md").write_text("nothing")
    taken = memory.import_(tmp_path, format="loki")
    assert taken.added == 1
    assert len(taken.refused) == 7
    assert memory.episodes.get("ep-2026-01-06-001").goal == "Good"


@pytest.mark.parametrize("id", ["../../etc/passwd", "CON", "a/b", "x" * 200, "ü:1"])
def test_no_id_leads_out_of_the_tree(local, tmp_path, id):
    local.episodes.add([{"id": id, "context": {"goal": "x"}}])
    local.ledgers.checkpoint(id)
    local.handoffs.put({"id": id, "from_agent": "a", "to_agent": "b", "context": {}})
    local.export(tmp_path / "deep" / "out", format="loki")
    files = [path for path in tmp_path.rglob("*.json") if path.name != "index.json"]
    assert len(files) == 3
    assert all(tmp_path / "deep" / "out" in path.parents for path in files)
    with lukasa.open("memory:") as other:
        other.import_(tmp_path / "deep" / "out", format="loki")
        assert other.episodes.get(id).goal == "x"


def test_unknown_fields_and_any_unicode_survive(local, tmp_path):
    told = {
        "id": "ep-2026-01-06-001",
        "timestamp": "2026-01-06T10:30:00Z",
        "context": {"goal": "Zürich 𝄞", "x": [1, {"y": None}]},
        "mood": "gut",
    }
    local.episodes.add([told])
    local.export(tmp_path, format="loki")
    out = json.loads((tmp_path / "episodic/2026-01-06/task-001.json").read_text())
    assert {name: out[name] for name in told} == told


def test_what_is_no_tree_is_said_so(local, tmp_path):
    with pytest.raises(FormatError):
        local.import_(tmp_path, format="loki")
    with pytest.raises(FileNotFoundError):
        local.import_(tmp_path / "nowhere", format="loki")
    with pytest.raises(InvalidInput):
        local.import_(tmp_path, format="lokki")


def test_one_scope_is_exported_and_no_other(opened, file, tmp_path):
    owner = opened(file)
    owner.episodes.record("Shared")
    owner.episodes.record("Private", scope="orion")
    assert owner.export(tmp_path / "a", format="loki") == 1
    assert owner.export(tmp_path / "b", format="loki", scope="orion") == 1
    assert opened(file, agent="elysia").export(tmp_path / "c", format="loki", scope="orion") == 0
