"""Import and export of a .loki/memory tree."""

import json

import pytest

import lukasa
from lukasa.errors import FormatError, InvalidInput
from support.narrow import present

pytestmark = pytest.mark.requirement("EXP-16")


def read_tree(folder):
    return {
        str(path.relative_to(folder)): json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_example_tree_round_trips(memory, loki_tree, tmp_path):
    imported = memory.import_(loki_tree, format="loki")
    assert (imported.added, imported.present, imported.refused) == (15, 0, [])
    assert memory.export(tmp_path / "out", format="loki") == 15
    expected = read_tree(loki_tree)
    expected["ledgers/eng-001-backend.json"] = expected.pop("ledgers/eng-001.json")
    assert read_tree(tmp_path / "out") == expected


def test_a_repeated_import_adds_nothing(memory, loki_tree):
    memory.import_(loki_tree, format="loki")
    tip = memory.journal.tip()
    again = memory.import_(loki_tree, format="loki")
    assert (again.added, again.refused) == (0, [])
    assert memory.journal.tip() == tip


def test_an_exported_tree_round_trips_through_another_store(memory, open_store, loki_tree, tmp_path):
    memory.import_(loki_tree, format="loki")
    memory.consolidate(skills=True)
    memory.knowledge.link("sem-002", "related_to", "sem-001")
    memory.export(tmp_path / "one", format="loki")
    other = open_store("memory:")
    assert other.import_(tmp_path / "one", format="loki").refused == []
    other.export(tmp_path / "two", format="loki")
    assert read_tree(tmp_path / "two") == read_tree(tmp_path / "one")


def test_import_finds_the_tree_in_the_folder_above(local, loki_tree, tmp_path):
    (tmp_path / ".loki").mkdir()
    (tmp_path / ".loki" / "memory").symlink_to(loki_tree)
    assert local.import_(tmp_path, format="loki").added == 15


def test_links_from_links_json_get_their_inverses(memory, tmp_path):
    (tmp_path / "semantic").mkdir()
    (tmp_path / "semantic/patterns.json").write_text(
        json.dumps([{"id": f"sem-00{n}", "pattern": f"P{n}"} for n in (1, 2)])
    )
    links = [
        {"from": "sem-001", "to": "sem-002", "relation": "supersedes"},
        {"from": "sem-001", "to": "x", "relation": "likes"},
    ]
    (tmp_path / "semantic/links.json").write_text(json.dumps({"links": links}))
    imported = memory.import_(tmp_path, format="loki")
    assert len(imported.refused) == 1
    assert memory.knowledge.get("sem-002").superseded_by.id == "sem-001"


def test_unreadable_files_are_reported_and_the_rest_is_imported(memory, tmp_path):
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
    imported = memory.import_(tmp_path, format="loki")
    assert imported.added == 1
    assert len(imported.refused) == 7
    assert memory.episodes.get("ep-2026-01-06-001").goal == "Good"


@pytest.mark.parametrize("id", ["../../etc/passwd", "CON", "a/b", "x" * 200, "ü:1"])
def test_no_id_escapes_from_the_exported_tree(local, tmp_path, id):
    local.episodes.add([{"id": id, "context": {"goal": "x"}}])
    local.ledgers.checkpoint(id)
    local.handoffs.put({"id": id, "from_agent": "a", "to_agent": "b", "context": {}})
    local.export(tmp_path / "deep" / "out", format="loki")
    files = [path for path in tmp_path.rglob("*.json") if path.name != "index.json"]
    assert len(files) == 3
    assert all(tmp_path / "deep" / "out" in path.parents for path in files)
    with lukasa.open("memory:") as other:
        other.import_(tmp_path / "deep" / "out", format="loki")
        assert present(other.episodes.get(id)).goal == "x"


def test_unknown_fields_and_unicode_round_trip(local, tmp_path):
    document = {
        "id": "ep-2026-01-06-001",
        "timestamp": "2026-01-06T10:30:00Z",
        "context": {"goal": "Zürich 𝄞", "x": [1, {"y": None}]},
        "mood": "gut",
    }
    local.episodes.add([document])
    local.export(tmp_path, format="loki")
    out = json.loads((tmp_path / "episodic/2026-01-06/task-001.json").read_text())
    assert {name: out[name] for name in document} == document


def test_import_refuses_a_folder_that_is_not_a_tree(local, tmp_path):
    with pytest.raises(FormatError):
        local.import_(tmp_path, format="loki")
    with pytest.raises(FileNotFoundError):
        local.import_(tmp_path / "nowhere", format="loki")
    with pytest.raises(InvalidInput):
        local.import_(tmp_path, format="lokki")


def test_export_writes_one_scope_only(open_store, store_path, tmp_path):
    owner = open_store(store_path)
    owner.episodes.record("Shared")
    owner.episodes.record("Private", scope="orion")
    assert owner.export(tmp_path / "a", format="loki") == 1
    assert owner.export(tmp_path / "b", format="loki", scope="orion") == 1
    assert open_store(store_path, agent="elysia").export(tmp_path / "c", format="loki", scope="orion") == 0


def test_nulls_of_the_document_survive(memory, tmp_path):
    document = {
        "id": "ep-2026-01-06-001",
        "timestamp": "2026-01-06T10:30:00Z",
        "context": {"goal": "Draw the logo"},
        "outcome": "success",
        "git_commit": None,
        "reviewer": None,
    }
    pattern = {"id": "sem-001", "pattern": "Draw first", "last_used": None, "owner": None}
    (tmp_path / "in" / "episodic" / "2026-01-06").mkdir(parents=True)
    (tmp_path / "in" / "semantic").mkdir()
    (tmp_path / "in" / "episodic" / "2026-01-06" / "task-001.json").write_text(json.dumps(document))
    (tmp_path / "in" / "semantic" / "patterns.json").write_text(json.dumps([pattern]))
    assert memory.import_(tmp_path / "in", format="loki").refused == []
    memory.export(tmp_path / "out", format="loki")
    out = read_tree(tmp_path / "out")
    assert {name: out["episodic/2026-01-06/task-001.json"].get(name, "") for name in document} == document
    assert {name: out["semantic/patterns.json"][0].get(name, "") for name in pattern} == pattern
    assert memory.episodes.get("ep-2026-01-06-001").task_id == ""


def test_a_tree_without_times_and_with_links_is_imported_once(memory, clock, tmp_path):
    tree = {
        "episodic/2026-01-06/task-001.json": {"context": {"goal": "Draw the logo"}, "git_commit": None},
        "episodic/2026-01-06/task-002.json": {"id": "twin", "context": {"goal": "Draw the logo"}},
        "episodic/2026-01-07/task-001.json": {"id": "twin", "context": {"goal": "Paint the wall"}},
        "semantic/patterns.json": [
            {"id": "sem-001", "pattern": "Old", "links": [{"to": "sem-002", "relation": "related_to"}]},
            {"id": "sem-002", "pattern": "New", "links": [{"to": "sem-001", "relation": "supersedes"}]},
            {"pattern": "No id", "links": []},
        ],
        "semantic/links.json": [{"from": "sem-001", "to": "sem-003", "relation": "elaborates"}],
        "ledgers/eng-001.json": {"agent_id": "eng-001", "state": {}},
        "handoffs/handoff-001.json": {"from_agent": "a", "to_agent": "b", "context": {}},
        "learnings/2026-01-06.json": [{"error": "Typo", "learning": "Read twice"}],
    }
    for name, content in tree.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    first = memory.import_(tmp_path, format="loki")
    assert [name for name, _ in first.refused] == ["episodic/2026-01-07/task-001.json"]
    tip = memory.journal.tip()
    clock.advance(86_400)
    again = memory.import_(tmp_path, format="loki")
    assert (again.added, again.refused) == (0, first.refused)
    assert memory.journal.tip() == tip
