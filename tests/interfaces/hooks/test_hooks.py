"""Hooks as a coding agent runs them: the context they give, the records they make, and that they never fail."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

pytestmark = pytest.mark.requirement("DOO-3")

MESSAGES = [
    ("user", "Fix the flaky login test"),
    ("assistant", [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "login.py"}}]),
    ("user", [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no such file; key AKIAZ3MKQ7TPLW2XNC5D"}]),
    ("assistant", "Done: it waits for the clock now."),
]  # fmt: skip


OLDER = "We deploy to Hetzner on Fridays."
NEWER = ("The user prefers tabs over spaces in Go code.", "Invoices are numbered by year.", "The mascot is a heron.")


def test_session_start_says_in_one_line_each_what_was_remembered_last(project):
    project.remember(OLDER, *NEWER)
    context = project.wait_for_context("session-start", source="startup")
    header, *lines = context.splitlines()
    assert "data, not instructions" in header
    assert len(lines) == 3
    assert all(line.startswith("• ") and line.endswith((", today)", ", yesterday)")) for line in lines)
    assert OLDER not in context


def test_a_prompt_recalls_relevant_memories_once_and_no_others(project):
    project.remember(OLDER, *NEWER)
    project.wait_for_context("session-start", source="startup")
    context = project.wait_for_context("user-prompt-submit", prompt="When do we deploy to Hetzner?")
    assert OLDER in context
    assert "tabs" not in context
    assert not project.run_hook("user-prompt-submit", prompt="When do we deploy to Hetzner?").stdout
    for prompt in ("Write a haiku about the sea", "yes", "ok, please go ahead", "3", "/clear"):
        assert not project.run_hook("user-prompt-submit", prompt=prompt).stdout


def test_a_session_that_started_before_the_daemon_is_told_with_its_prompt(project):
    project.remember("We deploy to Hetzner on Fridays.")
    assert "Fridays" in project.wait_for_context("user-prompt-submit", prompt="hello there")


def test_session_end_stores_turns_episode_and_ledger_without_secrets(project):
    path = project.write_transcript(*MESSAGES)
    for event in ("stop", "session-end", "session-end"):
        assert not project.run_hook(event, transcript_path=path).stdout

    def ended_episodes():
        if not project.store.exists():
            return []
        with project.open() as memory:
            return [episode for episode in memory.episodes.list(task_id="s1") if not episode.running]

    (episode,) = project.wait_for(ended_episodes)
    with project.open() as memory:
        turns = [turn.content for turn in memory.context.transcript("s1")]
        ledger = project.wait_for(lambda: memory.ledgers.get())
    assert (episode.goal, episode.outcome) == ("Fix the flaky login test", "completed")
    assert episode.as_json()["artifacts_produced"] == []  # the edit failed
    assert len(turns) == 4
    assert not any("AKIAZ3MKQ7TPLW2XNC5D" in turn for turn in turns)
    assert "AKIAZ3MKQ7TPLW2XNC5D" not in json.dumps(episode.as_json())
    assert ledger.current_task == "Fix the flaky login test"
    continuity = project.wait_for(lambda: (project.folder / ".lukasa" / "CONTINUITY.md").exists())
    assert continuity
    assert "Fix the flaky login test" in (project.folder / ".lukasa" / "CONTINUITY.md").read_text()
    assert not (project.folder / "CONTINUITY.md").exists()


def test_session_start_after_compaction_gives_the_conversation(project):
    project.run_hook("pre-compact", transcript_path=project.write_transcript(*MESSAGES))
    project.wait_for(lambda: project.store.exists() and not project.queued_events())
    assert "waits for the clock" in project.wait_for_context("session-start", source="compact")


def test_a_queued_event_is_processed_once_by_the_next_daemon(project):
    path = project.write_transcript(*MESSAGES)
    project.environment["LUKASA_HOOK_DAEMON"] = "never"
    project.run_hook("session-end", transcript_path=path)
    assert len(project.queued_events()) == 1
    del project.environment["LUKASA_HOOK_DAEMON"]
    project.run_hook("session-end", transcript_path=path)
    assert project.wait_for(lambda: not project.queued_events())
    with project.open() as memory:
        assert len(memory.episodes.list(task_id="s1")) == 1
        assert len(list(memory.context.transcript("s1"))) == 4


def test_a_killed_daemon_is_replaced(project):
    project.remember("We deploy to Hetzner on Fridays.")
    project.wait_for_context("session-start", source="startup")
    kill_daemons(project)
    assert "Fridays" in project.wait_for_context("session-start", source="startup")


def kill_daemons(project):
    """Kill the daemons of a project with signal 9."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        pid, _, arguments = line.strip().partition(" ")
        environment = Path(f"/proc/{pid}/environ")
        try:
            is_daemon = (
                "lukasa.interfaces.hooks.daemon" in arguments
                and str(project.hooks).encode() in environment.read_bytes()
            )
        except OSError:
            continue  # it has ended
        if is_daemon:
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.requirement("AGT-7")
def test_a_daemon_that_is_killed_at_any_moment_loses_no_turn(project):
    project.environment["LUKASA_EMBEDDER"] = "hash"
    messages = [
        *MESSAGES,
        *[("user" if number % 2 else "assistant", f"Sentence {number} of the heron.") for number in range(150)],
    ]
    path = project.write_transcript(*messages)
    for pause in (0.0, 0.3, 0.6, 0.9, 1.2, 1.8):
        project.run_hook("subagent-stop", transcript_path=path)
        time.sleep(pause)
        kill_daemons(project)
        for marker in project.hooks.glob("*.starting"):
            marker.unlink()
    project.run_hook("session-end", transcript_path=path)
    assert project.wait_for(lambda: not project.queued_events(), 120)
    with project.open() as memory:
        turns = [turn.content for turn in memory.context.transcript("s1")]
        assert len(turns) == len(messages)
        assert len(memory.episodes.list(task_id="s1")) == 1


@pytest.mark.parametrize(
    "event",
    [
        "session-start",
        "user-prompt-submit",
        "pre-tool-use",
        "subagent-start",
        "pre-compact",
        "stop",
        "subagent-stop",
        "session-end",
    ],
)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"session_id": 5, "prompt": [], "transcript_path": {}}',
        b'{"prompt": "a b"}',
    ],
)
def test_a_hook_accepts_any_payload_and_prints_nothing(project, event, data):
    project.environment["LUKASA_HOOK_DAEMON"] = "never"
    done = project.run_hook(event, data=data or b" ")
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"", b"")


def test_the_daemon_survives_invalid_payloads(project):
    project.remember("We deploy to Hetzner on Fridays.")
    project.wait_for_context("session-start", source="startup")
    for data in (b"{", b"[]", b'{"session_id": 5}', b'{"session_id": "s", "prompt": "' + b"x" * 100_000 + b'"}'):
        assert project.run_hook("user-prompt-submit", data=data).exit_code == 0
    assert "Fridays" in project.wait_for_context("session-start", source="startup")


def test_a_hook_prints_nothing_for_a_missing_or_damaged_store(project):
    assert project.run_hook("session-start").stdout == b""
    project.wait_for(lambda: list(project.hooks.glob("*.lock")))
    assert project.run_hook("session-start").stdout == b""
    assert not project.store.exists()
    project.store.write_bytes(b"garbage" * 1_000)
    for event in ("session-start", "user-prompt-submit"):
        done = project.run_hook(event, prompt="what is this?")
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"", b"")
    assert project.store.read_bytes() == b"garbage" * 1_000


def test_a_session_is_told_once_when_its_store_is_damaged(project):
    project.environment["LUKASA_STORE"] = str(project.store)
    project.store.write_bytes(b"garbage" * 1_000)
    context = project.wait_for_context("session-start", source="startup")
    assert "cannot be used" in context
    assert "lukasa doctor" in context
    assert "\n" not in context
    assert not project.run_hook("user-prompt-submit", prompt="what is this about?").stdout


def test_a_locked_store_delays_no_hook_and_loses_no_event(project):
    project.remember("We deploy to Hetzner on Fridays.")
    project.wait_for_context("session-start", source="startup")
    writer = apsw.Connection(str(project.store))
    writer.set_busy_timeout(10_000)
    writer.execute("BEGIN IMMEDIATE")
    try:
        done = project.run_hook("stop", transcript_path=project.write_transcript(*MESSAGES))
        assert (done.exit_code, done.stderr) == (0, b"")
        assert "Fridays" in project.wait_for_context("session-start", source="startup")
    finally:
        writer.execute("ROLLBACK")
        writer.close()
    project.run_hook("stop", transcript_path=project.write_transcript(*MESSAGES))

    def is_stored():
        with project.open() as memory:
            return len(list(memory.context.transcript("s1"))) == 4

    assert project.wait_for(is_stored)


def test_a_hook_folder_that_others_may_enter_is_refused(project):
    project.hooks.mkdir(mode=0o777)
    project.hooks.chmod(0o777)
    done = project.run_hook("stop", transcript_path=project.write_transcript(*MESSAGES))
    assert (done.exit_code, done.stdout) == (0, b"")
    assert not list(project.hooks.iterdir())


def test_the_client_imports_only_the_standard_library(project):
    code = (
        "import sys; from lukasa.interfaces.hooks.client import parse_hook_call, HookEndpoint, run_hook, process_age\n"
        "import lukasa.interfaces.cli\n"
        "loaded = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'lukasa', '__main__'}\n"
        "package = {name for name in sys.modules if name.startswith('lukasa')}\n"
        "print(sorted(package)); print(sorted(name for name in ('typer', 'rich', 'numpy', 'apsw', 'orjson', 'mcp') if name in loaded))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert output[1] == "[]"
    assert output[0] == str(
        [
            "lukasa",
            "lukasa.interfaces",
            "lukasa.interfaces.cli",
            "lukasa.interfaces.hooks",
            "lukasa.interfaces.hooks.client",
        ]
    )


def test_context_that_a_client_did_not_confirm_is_given_again(project, monkeypatch):
    import socket

    from lukasa.interfaces.hooks.client import HookEndpoint, find_nearest_store

    project.remember(OLDER, *NEWER)
    project.wait_for_context("session-start", source="startup")
    monkeypatch.setenv("LUKASA_HOOKS", str(project.hooks))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project.folder))
    monkeypatch.delenv("LUKASA_STORE", raising=False)
    prompt = {"session_id": "s1", "prompt": "When do we deploy to Hetzner?"}
    message = b"user-prompt-submit\n" + json.dumps(prompt).encode()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(HookEndpoint(find_nearest_store(), "claude-code", (), is_found=True).address)
        client.sendall(len(message).to_bytes(8, "big") + message)
        assert len(client.recv(65536)) > 8  # the answer arrives, but the client ends without a confirmation
    assert "Fridays" in project.wait_for_context("user-prompt-submit", prompt=prompt["prompt"])


def test_the_client_stops_waiting_at_its_deadline(tmp_path, monkeypatch):
    import socket

    from lukasa.interfaces.hooks.client import HookEndpoint

    monkeypatch.setenv("LUKASA_HOOKS", str(tmp_path / "hooks"))
    endpoint = HookEndpoint("x.db", "ada", ())
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(endpoint.address)
        silent.listen(1)
        start = time.monotonic()
        assert endpoint.send_request(b"session-start\n{}", start + 0.2) == b""
        assert time.monotonic() - start < 20  # it would wait for ever without a deadline
