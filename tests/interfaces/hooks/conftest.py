"""Fixtures of the hook tests: a project with its own hook folder, and daemons that end with the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import lukasa

LUKASA = str(Path(sys.executable).with_name("lukasa"))


class HookRun(NamedTuple):
    """The output, the exit code and the duration of a hook."""

    stdout: bytes
    stderr: bytes
    exit_code: int
    seconds: float

    @property
    def context(self):
        """The context for the agent in the output; empty without output."""
        return json.loads(self.stdout)["hookSpecificOutput"]["additionalContext"] if self.stdout else ""


class Project:
    """A folder with a store, in which an agent works."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        (self.folder / ".lukasa").mkdir(parents=True)
        self.hooks = folder / "hooks"
        self.environment = {**os.environ, "LUKASA_HOOKS": str(self.hooks), "LUKASA_HOOK_IDLE": "60"}
        self.environment.pop("LUKASA_STORE", None)

    @property
    def store(self) -> Path:
        return self.folder / ".lukasa" / "memory.db"

    def open(self, **options):
        """Open the store as the agent."""
        return lukasa.open(self.store, agent="claude-code", embedder="hash", **options)

    def remember(self, *texts):
        """Add memories to the store."""
        with self.open() as memory:
            for text in texts:
                memory.vault.add_memory(text)

    def run_hook(self, event, *, data=b"", **payload):
        """Run a hook as a coding agent does."""
        data = data or json.dumps({"session_id": "s1", "cwd": str(self.folder), **payload}).encode()
        command = [LUKASA, "--agent", "claude-code", "hook", event]
        start = time.monotonic()
        done = subprocess.run(
            command, input=data, capture_output=True, cwd=self.folder, env=self.environment, timeout=60
        )
        return HookRun(done.stdout, done.stderr, done.returncode, time.monotonic() - start)

    def wait_for_context(self, event, **payload):
        """Run a hook until the daemon is ready, and return the context."""
        return self.wait_for(lambda: self.run_hook(event, **payload).context)

    def wait_for(self, check, seconds=40):
        """Return the result of a check once it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if result := check():
                return result
            time.sleep(0.1)
        return check()

    def queued_events(self):
        """Return the files of events that the daemon has not processed."""
        return list(self.hooks.glob("*.d/*.event"))

    def write_transcript(self, *messages):
        """Write a transcript of Claude Code with messages, given as (role, content), and return its path."""
        path = self.folder / "transcript.jsonl"
        lines = [
            {"type": role, "uuid": f"u{index}", "timestamp": f"2026-03-01T10:00:{index:02d}Z",
             "message": {"role": role, "content": content}}
            for index, (role, content) in enumerate(messages)
        ]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)

    def stop_daemons(self):
        """End the daemons by deleting their sockets."""
        short = Path(tempfile.gettempdir(), f"lukasa-{os.getuid()}")
        for lock in self.hooks.glob("*.lock"):
            for folder in (self.hooks, short):
                (folder / f"{lock.stem}.sock").unlink(missing_ok=True)


@pytest.fixture
def project(tmp_path):
    """Return a project, and stop its daemons at the end."""
    project = Project(tmp_path)
    yield project
    project.stop_daemons()
