"""The doctor looks at hooks: where they are set up, whether their program is found, what waits and what failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lukasa.interfaces.doctor import hook_checks

pytestmark = pytest.mark.requirement("AGT-8")


def test_the_doctor_says_where_hooks_are_and_what_happened_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, project, home = (tmp_path / name for name in ("state", "project", "home"))
    monkeypatch.setenv("LUKASA_HOOKS", str(state))

    def said() -> dict[str, tuple[str, str]]:
        return {check.name: (check.state, check.said) for check in hook_checks(project, home)}

    assert said()["hooks"][1].startswith("no coding agent is set up")
    (project / ".claude").mkdir(parents=True)
    settings = project / ".claude" / "settings.json"
    program = tmp_path / "lukasa"
    hook = {"type": "command", "command": f"LUKASA_STORE=x {program} --agent claude-code hook stop"}
    settings.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    assert said()["hooks"][0] == "wrong"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert said()["hooks"] == ("fine", f"{settings} runs {program}")
    assert said()["hook events"][0] == "note"
    (state / "a.d").mkdir(parents=True)
    (state / "a.d" / "1.event").write_text("stop\n{}")
    assert "1 wait, 0 failed" in said()["hook events"][1]
    (state / "a.d" / "2.failed").write_text("stop\n{}")
    (state / "a.log").write_text("2026-03-01T10:00:00Z StoreFull: the disk is full\n")
    assert said()["hook events"][0] == "note"
    assert said()["last error of a hook"][1].endswith("the disk is full")
    settings.write_text("{")
    assert said()["hooks"][1].startswith("no coding agent is set up")
