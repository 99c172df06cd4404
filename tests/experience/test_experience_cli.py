"""The commands for episodes, knowledge, skills, handoffs, ledgers, briefing, continuity and metrics."""

import json
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest
from typer.testing import CliRunner

import lukasa
from lukasa.interfaces.cli.app import app
from support.narrow import present

pytestmark = pytest.mark.requirement("DOO-2")
GOAL = "Implement POST /api/todos endpoint"


@pytest.fixture
def run(store_path):
    def run(*words, expect=0, stdin=None):
        result = CliRunner().invoke(app, ["--store", store_path, *words], input=stdin, catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def loki_run(run, loki_tree):
    run("import", "--format", "loki", str(loki_tree))
    return run


def parse_json(result):
    return json.loads(result.stdout)


def test_consolidate_before_task_and_undo_work_together(loki_run):
    shown = loki_run("consolidate", "--dry-run").stdout
    assert "2 would be new, 2 would be updated" in shown
    briefing = parse_json(loki_run("before-task", GOAL, "--json"))
    assert set(briefing["context"]) == {"relevant_patterns", "avoid_these", "applicable_skills"}
    done = parse_json(loki_run("consolidate", "--json"))
    assert {proposal["id"] for proposal in done["proposals"]} >= {"sem-001", "sem-002"}
    assert "No new episodes." in loki_run("consolidate").stdout
    assert "Reverted" in loki_run("undo", "--label", done["label"]).stdout
    assert [item["id"] for item in parse_json(loki_run("knowledge", "list", "--kind", "pattern", "--json"))] == [
        "sem-001"
    ]


def test_episode_commands_store_list_finish_and_restore_episodes(run):
    error = "Type:Missing return:Add :void"
    assert (
        "Stored ep-"
        in run(
            "episode",
            "record",
            GOAL,
            "--agent",
            "eng",
            "--action-log",
            "read",
            "--action-log",
            "write",
            "--error",
            error,
        ).stdout
    )
    (episode,) = parse_json(run("episode", "list", "--json"))
    assert [step["action"] for step in episode["action_log"]] == ["read", "write"]
    assert episode["errors_encountered"] == [{"type": "Type", "message": "Missing return", "resolution": "Add :void"}]
    assert GOAL in run("episode", "show", episode["id"]).stdout
    run("episode", "show", "ep-404", expect=5)
    run("episode", "record", expect=2)
    run("episode", "record", "  ", expect=3)
    document = {"id": "ep-2026-01-06-009", "context": {"goal": "From a file"}, "timestamp": "2026-01-06T10:00:00Z"}
    run("episode", "add", "-", stdin=json.dumps([document]))
    assert "From a file" in run("episode", "list", "--day", "2026-01-06").stdout
    run("episode", "add", "-", stdin="nonsense", expect=2)
    assert "archived 1" in run("episode", "prune").stdout
    assert "restored in full" in run("episode", "restore", "ep-2026-01-06-009").stdout


def test_episode_finish_closes_an_unfinished_episode(run, store_path):
    import lukasa

    with lukasa.open(store_path) as memory:
        id = present(memory.episodes.start("Go on")).id
    assert id in run("episode", "list", "--unfinished").stdout
    run("episode", "finish", id, "failure")
    assert "No episodes." in run("episode", "list", "--unfinished").stdout
    run("episode", "finish", id, expect=3)


def test_knowledge_commands_link_records_and_draw_their_graph(loki_run):
    loki_run("knowledge", "add-pattern", "Handlers return void", "--confidence", "0.9")
    assert "Linked" in loki_run("knowledge", "link", "sem-002", "elaborates", "sem-001").stdout
    loki_run("knowledge", "link", "sem-002", "hates", "sem-001", expect=2)
    loki_run("knowledge", "link", "sem-002", "elaborates", "sem-404", expect=5)
    assert (
        loki_run("knowledge", "path", "sem-002", "ep-2026-01-06-001").stdout
        == "sem-002 – sem-001 – ep-2026-01-06-001\n"
    )
    assert "← elaborates sem-002" in loki_run("knowledge", "show", "sem-001").stdout
    dot = loki_run("knowledge", "graph").stdout
    assert dot.startswith("digraph knowledge {")
    assert '"shared/pattern/sem-002" -> "shared/pattern/sem-001" [label="elaborates"];' in dot
    picture = ET.fromstring(loki_run("knowledge", "graph", "sem-001", "--format", "svg", "--sources").stdout)
    assert picture.tag.endswith("svg")
    assert "dangling" in loki_run("knowledge", "contradictions").stdout
    assert "No two patterns say the same." in loki_run("knowledge", "merge-duplicates").stdout


def test_graph_export_escapes_hostile_text(run):
    run("knowledge", "add-fact", 'x"];evil [label="</text><script>alert(1)</script>\\', "--id", 'a"b<c>&')
    dot = run("knowledge", "graph").stdout
    assert '];evil [label="</text>' not in dot.replace('\\"', "")
    svg = run("knowledge", "graph", "--format", "svg").stdout
    assert "<script>" not in svg
    ET.fromstring(svg)


def test_skill_commands_store_search_and_count_skills(loki_run, tmp_path):
    good = tmp_path / "cook.md"
    good.write_text("# Skill: Cook\n\n## Steps\n1. Heat\n")
    assert "Stored cook, version 1." in loki_run("skill", "add", str(good)).stdout
    assert loki_run("skill", "show", "cook").stdout == good.read_text()
    assert (
        "cook: 1 worked, 1 failed."
        in [
            loki_run("skill", "record-use", "cook", "--success"),
            loki_run("skill", "record-use", "cook", "--no-success"),
        ][1].stdout
    )
    assert parse_json(loki_run("skill", "search", "heat", "--json"))[0]["success_rate"] == 0.5
    bad = tmp_path / "bad.md"
    bad.write_text("# Skill: Bad\n\n## Steps\n- no number\n")
    assert "4" in loki_run("skill", "check", str(bad), expect=3).stdout
    loki_run("skill", "add", str(bad), expect=3)
    assert "wrote 4" in loki_run("skill", "sync", str(tmp_path / "folder")).stdout


def test_handoff_commands_pass_work_on_and_ledger_shows_progress(run):
    run("handoff", "create", "qa", "Built it", "--from-agent", "eng", "--needs-testing", "all")
    assert "Built it" in run("handoff", "inbox", "--agent", "qa").stdout
    run("handoff", "accept", "handoff-001", "--agent", "mallory", expect=3)
    assert "accepted" in run("handoff", "accept", "handoff-001", "--agent", "qa").stdout
    assert "unread" in run("handoff", "reassign", "handoff-001", "qa-2").stdout
    run("handoff", "complete", "handoff-001", expect=3)
    run("handoff", "accept", "handoff-001", "--agent", "qa-2")
    assert "completed" in run("handoff", "complete", "handoff-001", "--result", "green").stdout
    assert parse_json(run("handoff", "sent", "--agent", "eng", "--json"))[0]["result"] == "green"
    run("handoff", "show", "handoff-404", expect=5)
    assert "task-1" in run("ledger", "checkpoint", "eng", "--current-task", "task-1", "--completed", "2").stdout
    assert parse_json(run("ledger", "list", "--json"))[0]["tasks_completed"] == 2
    run("ledger", "show", "nobody", expect=5)


def test_metrics_shows_tasks_rewards_and_a_dashboard(run):
    run("episode", "record", "Do it", "--duration-seconds", "30")
    id = parse_json(run("episode", "list", "--json"))[0]["id"]
    run("metrics", "prefer", id, "1")
    assert parse_json(run("metrics", "dashboard", "--json"))["rewards"]["preference"] == 1
    assert "100 %" in run("metrics", "dashboard").stdout
    assert id in run("metrics", "rewards").stdout
    assert "30" in run("metrics", "efficiency").stdout
    run("metrics", "prefer", "nonsense", "much", expect=2)


@pytest.mark.requirement("RCL-7")
def test_before_task_says_how_old_memories_are_and_lists_expired_ones(run, store_path):
    with lukasa.open(store_path, embedder="hash") as memory:
        memory.knowledge.add_pattern("A POST endpoint validates the body", id="old", expires_at="2020-01-01T00:00:00Z")
        memory.knowledge.add_pattern("A POST endpoint answers with 201", id="new")
    lines = run("before-task", GOAL).stdout.splitlines()
    assert "  [new] A POST endpoint answers with 201 (today)" in lines
    assert lines[-1].startswith("Left out because expired: shared/")
    answer = parse_json(run("before-task", GOAL, "--json"))
    assert [entry["age"] for entry in answer["memories"]] == ["today"]
    assert [(entry["id"], entry["reason"]) for entry in answer["left_out"]] == [("old", "expired")]


def test_before_task_prints_a_prompt_block_within_its_budget(loki_run):
    block = loki_run("before-task", GOAL, "--budget", "200").stdout
    assert block.startswith("<lukasa ")


def test_continuity_watches_and_stops_when_interrupted(loki_run, store_path, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    code = "from lukasa.interfaces.cli import main; main()"
    words = ["--store", store_path, "continuity", str(path), "--goal", GOAL, "--watch", "--every", "0.1"]
    watcher = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert b"Updated" in present(watcher.stdout).readline()
        loki_run("knowledge", "add-pattern", f"{GOAL} with care", "--confidence", "1")
        deadline = time.monotonic() + 60
        while "with care" not in path.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=60)
        assert watcher.returncode == 130
    finally:
        watcher.kill()
        watcher.communicate()


def test_export_and_import_of_a_loki_tree(loki_run, tmp_path):
    assert "Wrote 15 records" in loki_run("export", "--format", "loki", str(tmp_path / "out")).stdout
    assert "0 records added, 15 already here" in loki_run("import", "--format", "loki", str(tmp_path / "out")).stdout
    loki_run("import", "--format", "loki", str(tmp_path / "nowhere"), expect=5)
    loki_run("import", "--format", "xml", str(tmp_path), expect=2)


def test_the_consolidate_benchmark_runs_at_a_small_size():
    shown = CliRunner().invoke(app, ["bench", "consolidate", "--sizes", "100", "--json"], catch_exceptions=False)
    report = json.loads(shown.stdout)
    assert report["benchmark"] == "consolidate"
    assert {row["case"] for row in report["rows"]} >= {"first run", "second run right after", "planted patterns found"}
