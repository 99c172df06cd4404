"""The commands of experience, as a person uses them."""

import json
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app

pytestmark = pytest.mark.requirement("DOO-2")
GOAL = "Implement POST /api/todos endpoint"


@pytest.fixture
def run(file):
    def run(*words, expect=0, stdin=None):
        result = CliRunner().invoke(app, ["--store", file, *words], input=stdin, catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def full(run, tree):
    run("import", "--format", "loki", str(tree))
    return run


def answer(result):
    return json.loads(result.stdout)


def test_the_walk_of_the_issue(full):
    shown = full("consolidate", "--dry-run").stdout
    assert "2 would be new, 2 would be updated" in shown
    told = answer(full("before-task", GOAL, "--json"))
    assert set(told["context"]) == {"relevant_patterns", "avoid_these", "applicable_skills"}
    done = answer(full("consolidate", "--json"))
    assert {proposal["id"] for proposal in done["proposals"]} >= {"sem-001", "sem-002"}
    assert "No new episodes." in full("consolidate").stdout
    assert "Reverted" in full("undo", "--label", done["label"]).stdout
    assert [item["id"] for item in answer(full("knowledge", "list", "--kind", "pattern", "--json"))] == ["sem-001"]


def test_episodes_by_hand(run):
    error = "Type:Missing return:Add :void"
    assert (
        "Kept ep-"
        in run("episode", "add", GOAL, "--by", "eng", "--step", "read", "--step", "write", "--error", error).stdout
    )
    (episode,) = answer(run("episode", "list", "--json"))
    assert [step["action"] for step in episode["action_log"]] == ["read", "write"]
    assert episode["errors_encountered"] == [{"type": "Type", "message": "Missing return", "resolution": "Add :void"}]
    assert GOAL in run("episode", "show", episode["id"]).stdout
    run("episode", "show", "ep-404", expect=5)
    run("episode", "add", expect=2)
    run("episode", "add", "  ", expect=3)
    told = {"id": "ep-2026-01-06-009", "context": {"goal": "From a file"}, "timestamp": "2026-01-06T10:00:00Z"}
    run("episode", "add", "--file", "-", stdin=json.dumps([told]))
    assert "From a file" in run("episode", "list", "--day", "2026-01-06").stdout
    run("episode", "add", "--file", "-", stdin="nonsense", expect=2)
    assert "archived 1" in run("episode", "prune").stdout
    assert "back in full" in run("episode", "restore", "ep-2026-01-06-009").stdout


def test_an_unfinished_episode_is_closed_by_hand(run, file):
    import lukasa

    with lukasa.open(file) as memory:
        id = memory.episodes.start("Go on").id
    assert id in run("episode", "list", "--unfinished").stdout
    run("episode", "finish", id, "--outcome", "failure")
    assert "No episodes." in run("episode", "list", "--unfinished").stdout
    run("episode", "finish", id, expect=3)


def test_knowledge_is_linked_walked_and_drawn(full):
    full("knowledge", "add", "pattern", "Handlers return void", "--correct", "Say so", "--confidence", "0.9")
    assert "Linked" in full("knowledge", "link", "sem-002", "elaborates", "sem-001").stdout
    full("knowledge", "link", "sem-002", "hates", "sem-001", expect=3)
    full("knowledge", "link", "sem-002", "elaborates", "sem-404", expect=5)
    assert full("knowledge", "path", "sem-002", "ep-2026-01-06-001").stdout == "sem-002 – sem-001 – ep-2026-01-06-001\n"
    assert "← elaborates sem-002" in full("knowledge", "show", "sem-001").stdout
    dot = full("knowledge", "graph").stdout
    assert dot.startswith("digraph knowledge {")
    assert '"shared/pattern/sem-002" -> "shared/pattern/sem-001" [label="elaborates"];' in dot
    picture = ET.fromstring(full("knowledge", "graph", "sem-001", "--format", "svg", "--sources").stdout)
    assert picture.tag.endswith("svg")
    assert "dangling" in full("knowledge", "contradictions").stdout
    assert "No patterns say the same." in full("knowledge", "merge").stdout


def test_a_hostile_text_cannot_break_out_of_a_drawing(run):
    run("knowledge", "add", "fact", 'x"];evil [label="</text><script>alert(1)</script>\\', "--id", 'a"b<c>&')
    dot = run("knowledge", "graph").stdout
    assert '];evil [label="</text>' not in dot.replace('\\"', "")
    svg = run("knowledge", "graph", "--format", "svg").stdout
    assert "<script>" not in svg
    ET.fromstring(svg)


def test_skills_by_hand(full, tmp_path):
    good = tmp_path / "cook.md"
    good.write_text("# Skill: Cook\n\n## Steps\n1. Heat\n")
    assert "Kept cook, version 1." in full("skill", "add", str(good)).stdout
    assert full("skill", "show", "cook").stdout == good.read_text()
    assert (
        "cook: 1 worked, 1 failed."
        in [full("skill", "used", "cook"), full("skill", "used", "cook", "--failed")][1].stdout
    )
    assert answer(full("skill", "search", "heat", "--json"))[0]["success_rate"] == 0.5
    bad = tmp_path / "bad.md"
    bad.write_text("# Skill: Bad\n\n## Steps\n- no number\n")
    assert "4" in full("skill", "check", str(bad), expect=3).stdout
    full("skill", "add", str(bad), expect=3)
    assert "wrote 4" in full("skill", "sync", str(tmp_path / "folder")).stdout


def test_handoffs_and_ledgers_by_hand(run):
    run("handoff", "create", "qa", "Built it", "--from", "eng", "--test", "all")
    assert "Built it" in run("handoff", "inbox", "--for", "qa").stdout
    run("handoff", "accept", "handoff-001", "--as", "mallory", expect=3)
    assert "accepted" in run("handoff", "accept", "handoff-001", "--as", "qa").stdout
    assert "unread" in run("handoff", "reassign", "handoff-001", "qa-2").stdout
    run("handoff", "complete", "handoff-001", expect=3)
    run("handoff", "accept", "handoff-001", "--as", "qa-2")
    assert "completed" in run("handoff", "complete", "handoff-001", "--result", "green").stdout
    assert answer(run("handoff", "sent", "--for", "eng", "--json"))[0]["result"] == "green"
    run("handoff", "show", "handoff-404", expect=5)
    assert "task-1" in run("ledger", "eng", "--task", "task-1", "--completed", "2").stdout
    assert answer(run("ledger", "--json"))[0]["tasks_completed"] == 2
    run("ledger", "nobody", expect=5)


def test_metrics_by_hand(run):
    run("episode", "add", "Do it", "--seconds", "30")
    id = answer(run("episode", "list", "--json"))[0]["id"]
    assert answer(run("metrics", "--prefer", f"{id}=1", "--json"))["rewards"]["preference"] == 1
    assert "100 %" in run("metrics").stdout
    assert id in run("metrics", "--rewards").stdout
    assert "30" in run("metrics", "--tasks").stdout
    run("metrics", "--prefer", "nonsense", expect=2)


def test_a_prompt_block_stays_within_its_budget(full):
    block = full("before-task", GOAL, "--budget", "200").stdout
    assert block.startswith("<lukasa ")
    assert "Express" in full("before-task", GOAL, "--full").stdout


def test_continuity_watches_and_stops_when_interrupted(full, file, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    code = "from lukasa.interfaces.cli import main; main()"
    words = ["--store", file, "continuity", str(path), "--goal", GOAL, "--watch", "--every", "0.1"]
    watcher = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert b"brought up to date" in watcher.stdout.readline()
        full("knowledge", "add", "pattern", f"{GOAL} with care", "--confidence", "1")
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


def test_the_tree_goes_out_by_command_too(full, tmp_path):
    assert "Wrote 15 records" in full("export", "--format", "loki", str(tmp_path / "out")).stdout
    assert "0 records added, 15 already here" in full("import", "--format", "loki", str(tmp_path / "out")).stdout
    full("import", "--format", "loki", str(tmp_path / "nowhere"), expect=5)
    full("import", "--format", "xml", str(tmp_path), expect=2)


def test_the_benchmark_runs_small():
    shown = CliRunner().invoke(app, ["bench", "consolidate", "--sizes", "100", "--json"], catch_exceptions=False)
    report = json.loads(shown.stdout)
    assert report["benchmark"] == "consolidate"
    assert {row["case"] for row in report["rows"]} >= {"first run", "second run right after", "planted patterns found"}
