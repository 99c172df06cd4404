"""What the tests of hooks share: a project, a folder for residents of its own, and residents that end with the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import lukasa

LUKASA = str(Path(sys.executable).with_name("lukasa"))


class Project:
    """A folder with a store, and the agent that works in it."""

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
        return lukasa.open(self.store, agent="claude-code", embedder="hash", **options)

    def hook(self, event, *, told=b"", **payload):
        """Runs a hook as an agent does; what it said, how it ended, and how long that took."""
        data = told or json.dumps({"session_id": "s1", "cwd": str(self.folder), **payload}).encode()
        words = [LUKASA, "--agent", "claude-code", "hook", event]
        began = time.monotonic()
        done = subprocess.run(words, input=data, capture_output=True, cwd=self.folder, env=self.environment, timeout=60)
        return Hooked(done.stdout, done.stderr, done.returncode, time.monotonic() - began)

    def asked(self, event, **payload):
        """What a hook says once its resident is warm."""
        return self.until(lambda: self.hook(event, **payload).context)

    def until(self, check, seconds=40):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := check():
                return found
            time.sleep(0.1)
        return check()

    def transcript(self, *messages):
        """A transcript of Claude Code with these messages, as (role, content)."""
        path = self.folder / "transcript.jsonl"
        lines = [
            {"type": role, "uuid": f"u{at}", "timestamp": f"2026-03-01T10:00:{at:02d}Z",
             "message": {"role": role, "content": content}}
            for at, (role, content) in enumerate(messages)
        ]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)

    def dismiss(self):
        """Ends the residents: one whose socket is gone goes home."""
        short = Path(tempfile.gettempdir(), f"lukasa-{os.getuid()}")
        for lock in self.hooks.glob("*.lock"):
            for folder in (self.hooks, short):
                (folder / f"{lock.stem}.sock").unlink(missing_ok=True)


class Hooked:
    def __init__(self, said, complaint, code, seconds):
        self.said, self.complaint, self.code, self.seconds = said, complaint, code, seconds

    @property
    def context(self):
        return json.loads(self.said)["hookSpecificOutput"]["additionalContext"] if self.said else ""


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    yield made
    made.dismiss()
