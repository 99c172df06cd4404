"""Hooks as an agent runs them: what it is told, what is kept, and that nothing ever stands in its way."""

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

TALK = [
    ("user", "Fix the flaky login test"),
    ("assistant", [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "login.py"}}]),
    ("user", [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no such file; key AKIAIOSFODNN7EXAMPLE"}]),
    ("assistant", "Done: it waits for the clock now."),
]  # fmt: skip


def test_a_session_begins_with_the_snapshot_in_a_fence(project):
    with project.open() as memory:
        memory.vault.add_memory("We deploy to Hetzner on Fridays.")
    told = project.asked("session-start", source="startup")
    assert told.startswith("<lukasa ")
    assert "We deploy to Hetzner on Fridays." in told


def test_a_prompt_brings_what_speaks_of_it_once_and_nothing_else(project):
    with project.open() as memory:
        memory.vault.add_memory("We deploy to Hetzner on Fridays.")
        memory.vault.add_memory("The user prefers tabs over spaces in Go code.")
    project.asked("session-start", source="startup")
    told = project.asked("user-prompt-submit", prompt="When do we deploy to Hetzner?")
    assert "│ We deploy to Hetzner on Fridays." in told
    assert "tabs" not in told
    assert not project.hook("user-prompt-submit", prompt="When do we deploy to Hetzner?").said
    assert not project.hook("user-prompt-submit", prompt="Write a haiku about the sea").said


def test_a_session_that_began_before_the_resident_was_ready_is_told_the_snapshot_with_its_prompt(project):
    with project.open() as memory:
        memory.vault.add_memory("We deploy to Hetzner on Fridays.")
    assert "Fridays" in project.asked("user-prompt-submit", prompt="hello there")


def test_what_a_session_says_is_kept_with_secrets_taken_out(project):
    path = project.transcript(*TALK)
    for event in ("stop", "session-end", "session-end"):
        assert not project.hook(event, transcript_path=path).said

    def ended():
        if not project.store.exists():
            return []
        with project.open() as memory:
            return [episode for episode in memory.episodes.by_task("s1") if not episode.running]

    (episode,) = project.until(ended)
    with project.open() as memory:
        turns = [turn.content for turn in memory.context.transcript("s1")]
        kept = project.until(lambda: memory.ledgers.get())
    assert (episode.goal, episode.outcome) == ("Fix the flaky login test", "completed")
    assert episode.as_json()["artifacts_produced"] == ["login.py"]
    assert len(turns) == 4
    assert not any("AKIAIOSFODNN7EXAMPLE" in turn for turn in turns)
    assert "AKIAIOSFODNN7EXAMPLE" not in json.dumps(episode.as_json())
    assert kept.current_task == "Fix the flaky login test"
    continuity = project.until(lambda: (project.folder / ".lukasa" / "CONTINUITY.md").exists())
    assert continuity
    assert "Fix the flaky login test" in (project.folder / ".lukasa" / "CONTINUITY.md").read_text()
    assert not (project.folder / "CONTINUITY.md").exists()


def test_a_compacted_session_finds_its_conversation_again(project):
    project.hook("pre-compact", transcript_path=project.transcript(*TALK))
    project.until(lambda: project.store.exists() and not list(project.hooks.glob("*.d/*.errand")))
    assert "waits for the clock" in project.asked("session-start", source="compact")


def test_an_errand_outlives_the_process_that_was_to_do_it(project):
    """The resident is killed; what it had not done is done by the next one, once."""
    path = project.transcript(*TALK)
    project.environment["LUKASA_HOOK_RESIDENT"] = "never"
    project.hook("session-end", transcript_path=path)
    assert len(list(project.hooks.glob("*.d/*.errand"))) == 1
    del project.environment["LUKASA_HOOK_RESIDENT"]
    project.hook("session-end", transcript_path=path)
    assert project.until(lambda: not list(project.hooks.glob("*.d/*.errand")))
    with project.open() as memory:
        assert len(memory.episodes.by_task("s1")) == 1
        assert len(list(memory.context.transcript("s1"))) == 4


def test_a_killed_resident_is_replaced(project):
    with project.open() as memory:
        memory.vault.add_memory("We deploy to Hetzner on Fridays.")
    project.asked("session-start", source="startup")
    for line in subprocess.run(
        ["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        pid, _, words = line.strip().partition(" ")
        environment = Path(f"/proc/{pid}/environ")
        ours = "lukasa.interfaces.hooks.daemon" in words and environment.exists()
        if ours and str(project.hooks).encode() in environment.read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    assert "Fridays" in project.asked("session-start", source="startup")


@pytest.mark.parametrize("event", ["session-start", "user-prompt-submit", "pre-compact", "stop", "session-end"])
@pytest.mark.parametrize(
    "told",
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
def test_whatever_a_hook_is_told_it_ends_well_and_says_nothing(project, event, told):
    project.environment["LUKASA_HOOK_RESIDENT"] = "never"
    done = project.hook(event, told=told or b" ")
    assert (done.code, done.said, done.complaint) == (0, b"", b"")


def test_a_resident_survives_what_it_cannot_understand(project):
    with project.open() as memory:
        memory.vault.add_memory("We deploy to Hetzner on Fridays.")
    project.asked("session-start", source="startup")
    for told in (b"{", b"[]", b'{"session_id": 5}', b'{"session_id": "s", "prompt": "' + b"x" * 100_000 + b'"}'):
        assert project.hook("user-prompt-submit", told=told).code == 0
    assert "Fridays" in project.asked("session-start", source="startup")


def test_a_store_that_is_missing_damaged_or_locked_is_met_with_silence(project):
    assert project.hook("session-start").said == b""
    project.until(lambda: list(project.hooks.glob("*.lock")))
    assert project.hook("session-start").said == b""
    assert not project.store.exists()
    project.store.write_bytes(b"garbage" * 1_000)
    for event in ("session-start", "user-prompt-submit"):
        done = project.hook(event, prompt="what is this?")
        assert (done.code, done.said, done.complaint) == (0, b"", b"")
    assert project.store.read_bytes() == b"garbage" * 1_000


def test_a_locked_store_holds_up_nobody_and_loses_nothing(project):
    with project.open() as memory:
        memory.vault.add_memory("We deploy to Hetzner on Fridays.")
    project.asked("session-start", source="startup")
    holder = apsw.Connection(str(project.store))
    holder.set_busy_timeout(10_000)
    holder.execute("BEGIN IMMEDIATE")
    try:
        done = project.hook("stop", transcript_path=project.transcript(*TALK))
        assert (done.code, done.complaint) == (0, b"")
        assert "Fridays" in project.asked("session-start", source="startup")
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    project.hook("stop", transcript_path=project.transcript(*TALK))

    def kept():
        with project.open() as memory:
            return len(list(memory.context.transcript("s1"))) == 4

    assert project.until(kept)


def test_a_folder_that_others_may_enter_is_not_used(project):
    project.hooks.mkdir(mode=0o777)
    project.hooks.chmod(0o777)
    done = project.hook("stop", transcript_path=project.transcript(*TALK))
    assert (done.code, done.said) == (0, b"")
    assert not list(project.hooks.iterdir())


def test_what_a_hook_runs_loads_nothing_but_the_interpreters_own(project):
    """The start of Python is all that an agent waits for."""
    code = (
        "import sys; from lukasa.interfaces.hooks.client import parse_hook_call, HookEndpoint, run_hook, process_age\n"
        "import lukasa.interfaces.cli\n"
        "loaded = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'lukasa', '__main__'}\n"
        "ours = {name for name in sys.modules if name.startswith('lukasa')}\n"
        "print(sorted(ours)); print(sorted(name for name in ('typer', 'rich', 'numpy', 'apsw', 'orjson', 'mcp') if name in loaded))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[1] == "[]"
    assert said[0] == str(
        [
            "lukasa",
            "lukasa.interfaces",
            "lukasa.interfaces.cli",
            "lukasa.interfaces.hooks",
            "lukasa.interfaces.hooks.client",
        ]
    )


def test_a_client_gives_up_on_a_resident_that_does_not_answer(tmp_path, monkeypatch):
    """Whoever holds the socket and says nothing costs the deadline and no more."""
    import socket

    from lukasa.interfaces.hooks.client import HookEndpoint

    monkeypatch.setenv("LUKASA_HOOKS", str(tmp_path / "hooks"))
    post = HookEndpoint("x.db", "ada", ())
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(post.address)
        busy.listen(1)
        began = time.monotonic()
        assert post.send_request(b"session-start\n{}", began + 0.2) == b""
        assert time.monotonic() - began < 1
