"""The command ``lukasa context``."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from lukasa import open as open_store
from lukasa.interfaces.cli.app import app

DOCUMENT = {
    "session_id": "s9",
    "facts": ["User speaks English"],
    "recent_history": [{"role": "user", "content": "Hello"}],
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LUKASA_LLM", raising=False)
    runner = CliRunner(env={"LUKASA_STORE": "c.db", "LUKASA_EMBEDDER": "hash"})

    def run(*words, input=None):
        return runner.invoke(app, list(words), input=input)

    return run


@pytest.mark.requirement("RCL-7")
def test_assemble_lists_expired_facts(run):
    with open_store("c.db", embedder="hash") as memory:
        memory.context.append("s1", "user", "Hello")
        memory.context.add_fact("s1", "The lift is broken", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
        memory.context.add_fact("s1", "The key is with the porter")
    answer = run("context", "assemble", "s1")
    assert "- The key is with the porter (today)" in answer.stdout
    assert "broken" not in answer.stdout
    assert "Left out because expired: shared/fact/" in answer.stderr
    found = json.loads(run("context", "assemble", "s1", "--json").stdout)
    assert [key["kind"] for key in found["expired"]] == ["fact"]


@pytest.fixture
def run_json(run):
    """Run a command with ``--json`` and return its parsed output."""

    def run_json(*words):
        answer = run(*words, "--json")
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    return run_json


@pytest.mark.requirement("CTX-2", "CTX-6")
def test_show_has_a_bounded_recent_view_and_with_all_the_whole_transcript(run, run_json):
    with open_store("c.db", embedder="hash") as memory:
        for number in range(1, 49):
            memory.context.append("s1", "user", f"Message {number}")
    for number in range(49, 61):
        assert run("context", "append", "s1", "user", f"Message {number}").exit_code == 0
    context = run_json("context", "show", "s1")
    assert len(context["recent_history"]) <= 50
    assert context["long_term_summary"].startswith("Previous conversation summary:")
    assert [turn["content"] for turn in run_json("context", "transcript", "s1")] == [
        f"Message {number}" for number in range(1, 61)
    ]
    shown = run("context", "show", "s1").stdout
    assert "39 recent (117 tokens), 21 summarised" in shown
    assert "Message 60" in shown


def test_every_context_command_on_one_conversation(run, run_json, tmp_path):
    turn = run_json(
        "context",
        "append",
        "s1",
        "user",
        "We decided to use PostgreSQL.",
        "--speaker",
        "Anna",
        "--timestamp",
        "2026-02-03",
    )
    assert (turn["author"], turn["happened_at"]) == ("Anna", "2026-02-03T00:00:00Z")
    append = ("context", "append", "s1", "assistant", "Fine.", "--token-count", "7", "--key", "k")
    assert run_json(*append)["body"]["tokens"] == 7
    again = run_json(*append)
    assert [info["session_id"] for info in run_json("context", "list")] == ["s1"]
    assert run_json("context", "show", "s1")["facts"] == ["Decision: use PostgreSQL"]
    assert run_json("context", "compact", "s1", "--keep", "1")["folded"] == [turn["id"]]
    assert not run_json("context", "compact", "s1", "--keep", "1")["happened"]
    assembled = run_json("context", "assemble", "s1", "--budget", "300", "--query", "Which database?")
    assert assembled["tokens"] <= 300
    assert assembled["recent"] == [again["id"]]
    assert run_json("context", "assemble", "s1")["messages"][0]["role"] == "system"
    assert run_json("context", "fork", "s1", "s2", "--at", turn["id"])["recent_history"][0]["speaker"] == "Anna"
    assert (
        run_json("context", "configure", "s1", "--change", "entries=5", "--change", "automatic=false")["automatic"]
        is False
    )
    path = run_json("context", "export", "s1", str(tmp_path), "--all")["path"]
    assert run_json("context", "import", path, "--as", "s3")["folded"] == 1
    assert run_json("context", "delete", "s1")["records"] == 5
    assert [info["session_id"] for info in run_json("context", "list")] == ["s2", "s3"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nothing"), 5),
        (("compact", "nothing"), 5),
        (("assemble", "nothing"), 5),
        (("export", "nothing", "x.json"), 5),
        (("delete", "nothing"), 5),
        (("fork", "nothing", "new"), 5),
        (("append", "", "user", "x"), 2),
        (("append", "s", "", "x"), 2),
        (("append", "s", "user", "x", "--timestamp", "soon"), 2),
        (("configure", "s", "--change", "keep=99"), 2),
        (("import", "missing.json"), 2),
        (("show", "s", "--as-of", "1999-01-01"), 5),
    ],
)
def test_a_failed_command_ends_with_its_exit_code(run, words, code):
    run("context", "append", "s", "user", "Hello")
    answer = run("context", *words)
    assert answer.exit_code == code, answer.output
    assert "Traceback" not in answer.output


def test_import_refuses_a_conversation_that_exists(run, tmp_path):
    (tmp_path / "s9.json").write_text(json.dumps(DOCUMENT))
    assert "Imported s9 with 1 turn and 1 fact." in run("context", "import", "s9.json").stdout
    again = run("context", "import", "s9.json")
    assert again.exit_code == 4
    assert "--as" in again.output
    (tmp_path / "bad.json").write_text("{")
    assert run("context", "import", "bad.json").exit_code == 6


def test_append_reads_the_content_from_standard_input(run, run_json):
    run("context", "append", "s", "user", "-", input="two\nlines\n")
    assert run_json("context", "show", "s")["recent_history"][0]["content"] == "two\nlines\n"


def test_output_escapes_control_characters_of_a_turn(run):
    run("context", "append", "s\u202e1", "user", "\x1b[31mred\u202e")
    for words in (("show", "s\u202e1"), ("list",), ("assemble", "s\u202e1"), ("show", "s\u202e1", "--json")):
        shown = run("context", *words).output
        assert "\x1b[31m" not in shown
        assert "\u202e" not in shown


def test_an_agent_sees_its_own_conversations_only(run, run_json):
    run("--agent", "orion", "context", "append", "s", "user", "Mine")
    assert run("--agent", "elysia", "context", "show", "s").exit_code == 5
    assert run_json("--agent", "orion", "context", "show", "s")["scope"] == "orion"
    assert run_json("--scope", "orion", "context", "show", "s")["recent_history"][0]["content"] == "Mine"
    assert run_json("context", "list")[0]["scope"] == "orion"
