"""The demonstration and the first start of the server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import httpx2

import lukasa
from lukasa.interfaces.demo import fill_store

pytestmark = pytest.mark.requirement("DOO-4")


def test_the_demonstration_fills_a_store_with_all_kinds_of_memory(tmp_path: Path) -> None:
    assert fill_store(tmp_path / "memory.db", embedder="hash") > 200
    with lukasa.open(tmp_path / "memory.db") as memory:
        kinds = {row.kind for row in memory.journal.tally() if row.live}
        assert {"memory", "turn", "checkpoint", "prediction", "episode", "skill", "handoff", "dissent"} <= kinds
        assert any("Tuesdays only" in hit.record.text for hit in memory.recall("When do we deploy?", 3).hits)
        assert memory.verify().sound


def test_the_first_start_makes_a_token_in_a_file_that_only_its_user_reads(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "lukasa.interfaces.cli",
        "--store",
        str(tmp_path / "memory.db"),
        "serve",
        "--port",
        "0",
    ]
    environment = {**os.environ, "LUKASA_EMBEDDER": "hash"}

    def start() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert process.stderr is not None
        said = ""
        while "Serving" not in said and (line := process.stderr.readline()):
            said += line
        return process, said

    process, said = start()
    file = tmp_path / "owner.token"
    try:
        assert str(file) in said
        assert file.stat().st_mode & 0o777 == 0o600
        url = re.search(r"http://[\d.:]+", said)
        assert url is not None
        headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
        assert httpx2.get(f"{url[0]}/v1/tokens", headers=headers, timeout=20).json()["tokens"][0]["access"] == "owner"
        file.chmod(0o644)
        refused = httpx2.get(f"{url[0]}/v1/tokens", headers=headers, timeout=20)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()
    process, said = start()
    process.wait(30)
    assert process.stderr is not None
    process.stderr.close()
    assert "chmod 600" in said
