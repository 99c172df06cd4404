"""Sessions from a terminal."""

import json

import pytest
from typer.testing import CliRunner

from lukasa import open as lukasa_open
from lukasa.interfaces.cli.app import app

DOCUMENT = {
    "session_id": "s9",
    "facts": ["User speaks English"],
    "recent_history": [{"role": "user", "content": "Hello"}],
}


@pytest.fixture
def lukasa(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LUKASA_LLM", raising=False)
    runner = CliRunner(env={"LUKASA_STORE": "c.db", "LUKASA_EMBEDDER": "hash"})

    def run(*words, input=None):
        return runner.invoke(app, list(words), input=input)

    return run


@pytest.fixture
def told(lukasa):
    """The JSON that a command answers with."""

    def told(*words):
        answer = lukasa(*words, "--json")
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    return told


@pytest.mark.requirement("CTX-2", "CTX-6")
def test_sixty_messages_leave_a_bounded_view_and_every_turn(lukasa, told):
    with lukasa_open("c.db", embedder="hash") as memory:
        for number in range(1, 49):
            memory.context.append("s1", "user", f"Message {number}")
    for number in range(49, 61):
        assert lukasa("context", "append", "s1", "--role", "user", f"Message {number}").exit_code == 0
    found = told("context", "show", "s1", "--all")
    assert len(found["recent_history"]) <= 50
    assert found["long_term_summary"].startswith("Previous conversation summary:")
    assert [turn["content"] for turn in found["transcript"]] == [f"Message {number}" for number in range(1, 61)]
    shown = lukasa("context", "show", "s1").stdout
    assert "39 recent (117 tokens), 21 folded" in shown
    assert "Message 60" in shown


def test_a_session_from_beginning_to_end(lukasa, told, tmp_path):
    assert told("context", "list") == []
    turn = told("context", "append", "s1", "We decided to use PostgreSQL.", "--speaker", "Anna", "--time", "2026-02-03")
    assert (turn["author"], turn["happened_at"]) == ("Anna", "2026-02-03T00:00:00Z")
    assert (
        told("context", "append", "s1", "Fine.", "--role", "assistant", "--tokens", "7", "--key", "k")["body"]["tokens"]
        == 7
    )
    again = told("context", "append", "s1", "Fine.", "--role", "assistant", "--tokens", "7", "--key", "k")
    assert [session["session_id"] for session in told("context", "list")] == ["s1"]
    assert told("context", "show", "s1")["facts"] == ["Decision: use PostgreSQL"]
    assert told("context", "compact", "s1", "--keep", "1")["folded"] == [turn["id"]]
    assert not told("context", "compact", "s1", "--keep", "1")["happened"]
    made = told("context", "assemble", "s1", "--budget", "300", "--question", "Which database?")
    assert made["tokens"] <= 300
    assert made["recent"] == [again["id"]]
    assert json.loads(lukasa("context", "assemble", "s1", "--messages").stdout)[0]["role"] == "system"
    assert told("context", "fork", "s1", "s2", "--at", turn["id"])["recent_history"][0]["speaker"] == "Anna"
    assert told("context", "configure", "s1", "--entries", "5", "--no-automatic")["automatic"] is False
    path = told("context", "export", "s1", str(tmp_path), "--all")["path"]
    assert told("context", "import", path, "--as", "s3")["folded"] == 1
    assert told("context", "delete", "s1")["records"] == 5
    assert [session["session_id"] for session in told("context", "list")] == ["s2", "s3"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nothing"), 5),
        (("compact", "nothing"), 5),
        (("assemble", "nothing"), 5),
        (("export", "nothing", "x.json"), 5),
        (("delete", "nothing"), 5),
        (("fork", "nothing", "new"), 5),
        (("append", "", "x"), 2),
        (("append", "s", "x", "--role", ""), 3),
        (("append", "s", "x", "--time", "soon"), 2),
        (("configure", "s", "--keep", "99"), 2),
        (("import", "missing.json"), 2),
        (("show", "s", "--as-of", "1999-01-01"), 5),
    ],
)
def test_what_cannot_be_done_ends_with_its_code(lukasa, words, code):
    lukasa("context", "append", "s", "Hello")
    answer = lukasa("context", *words)
    assert answer.exit_code == code, answer.output
    assert "Traceback" not in answer.output


def test_a_session_is_taken_in_once(lukasa, tmp_path):
    (tmp_path / "s9.json").write_text(json.dumps(DOCUMENT))
    assert "Took in s9 with 1 turn and 1 fact." in lukasa("context", "import", "s9.json").stdout
    again = lukasa("context", "import", "s9.json")
    assert again.exit_code == 4
    assert "--as" in again.output
    (tmp_path / "bad.json").write_text("{")
    assert lukasa("context", "import", "bad.json").exit_code == 6


def test_what_is_said_may_come_from_standard_input(lukasa, told):
    lukasa("context", "append", "s", "-", input="two\nlines\n")
    assert told("context", "show", "s")["recent_history"][0]["content"] == "two\nlines\n"


def test_a_terminal_never_obeys_what_was_said(lukasa):
    lukasa("context", "append", "s\u202e1", "\x1b[31mred\u202e")
    for words in (("show", "s\u202e1"), ("list",), ("assemble", "s\u202e1"), ("show", "s\u202e1", "--json")):
        shown = lukasa("context", *words).output
        assert "\x1b[31m" not in shown
        assert "\u202e" not in shown


def test_an_agent_has_its_own_sessions(lukasa, told):
    lukasa("--agent", "orion", "context", "append", "s", "Mine")
    assert lukasa("--agent", "elysia", "context", "show", "s").exit_code == 5
    assert told("--agent", "orion", "context", "show", "s")["scope"] == "orion"
    assert told("--scope", "orion", "context", "show", "s")["recent_history"][0]["content"] == "Mine"
    assert told("context", "list")[0]["scope"] == "orion"
