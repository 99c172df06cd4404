"""Installing into coding agents: shown first, kept apart from what others wrote, and taken out again."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.interfaces.hooks.config import (
    HOOK_EVENTS,
    SERVER_NAME,
    update_claude_hooks,
    update_codex_toml,
    update_mcp_json,
)

pytestmark = pytest.mark.requirement("DOO-3")

LUKASA = str(Path(sys.executable).with_name("lukasa"))
SERVER = {"command": "lukasa", "args": ["--agent", "x", "mcp"]}
COMMAND = "lukasa --agent claude-code"
OTHERS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "PreToolUse": [{"matcher": "Bash", "hooks": []}]}, "model": "opus"}  # fmt: skip


def install(folder, *words, home=None):
    environment = {**os.environ, "HOME": str(home or folder)}
    done = subprocess.run([LUKASA, "install", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_dry_run_shows_the_difference_and_writes_nothing(tmp_path):
    said = install(tmp_path, "claude-code", "--project", "--dry-run")
    assert "+++ " in said
    assert "hook user-prompt-submit" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("product", ["claude-code", "codex", "cursor"])
@pytest.mark.parametrize("where", ["--project", "--user"])
def test_what_was_installed_is_taken_out_again_byte_for_byte(tmp_path, product, where):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(OTHERS, indent=4) + "\n")
    (tmp_path / ".claude.json").write_text(
        json.dumps({"numStartups": 5, "mcpServers": {"other": {"command": "x"}}}, indent=2)
    )
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"other": {"command": "x"}}}, indent="\t"))
    (tmp_path / ".codex" / "config.toml").write_text('# mine\nmodel = "o3"\n\n[mcp_servers.other]\ncommand = "x"\n')
    before = files(tmp_path)
    said = install(tmp_path, product, where)
    assert "Written" in said
    installed = files(tmp_path)
    assert installed != before
    assert "already" in install(tmp_path, product, where)
    assert files(tmp_path) == installed
    undo = re.search(r"`lukasa install (.*)`", said)[1]
    assert "Removed from" in install(tmp_path, *undo.split())
    assert files(tmp_path) == before
    assert "nothing to remove" in install(tmp_path, product, where, "--undo")


def test_what_is_installed_is_what_the_agents_read(tmp_path):
    install(tmp_path, "claude-code")
    install(tmp_path, "codex")
    install(tmp_path, "cursor")
    server = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"][SERVER_NAME]
    assert server["args"] == ["--agent", "claude-code", "mcp"]
    settings = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    assert set(settings["hooks"]) == set(HOOK_EVENTS)
    assert (
        tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())["mcp_servers"][SERVER_NAME]["args"][-1]
        == "mcp"
    )
    assert (
        json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"][SERVER_NAME]["command"]
        == server["command"]
    )
    assert (tmp_path / ".lukasa").is_dir()


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"a": 1,}', "\ufeff{}"])
def test_a_file_that_cannot_be_understood_is_left_untouched(tmp_path, text):
    (tmp_path / ".claude").mkdir()
    place = tmp_path / ".claude" / "settings.json"
    place.write_text(text)
    done = subprocess.run([LUKASA, "install", "claude-code"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 6
    assert "left untouched" in done.stderr
    assert place.read_text() == text
    assert not (tmp_path / ".mcp.json").exists()


def test_a_link_to_a_file_elsewhere_stays_a_link(tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text('{\n  "model": "opus"\n}\n')
    real.chmod(0o640)
    (tmp_path / "p" / ".claude").mkdir(parents=True)
    link = tmp_path / "p" / ".claude" / "settings.json"
    link.symlink_to(real)
    install(tmp_path / "p", "claude-code")
    assert link.is_symlink()
    assert "hooks" in json.loads(real.read_text())
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_password_is_not_written_into_a_configuration(tmp_path):
    words = [LUKASA, "--store", "postgresql://me:secret@db/x", "install", "codex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "secret" not in done.stderr + done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_hook_of_somebody_else_that_looks_alike_stays():
    mine = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/opt/other hook stop"}]}]}}
    text = json.dumps(mine, indent=2) + "\n"
    assert update_claude_hooks(update_claude_hooks(text, COMMAND), None) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=2),
    max_leaves=6,
)
SETTINGS = st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name not in ("hooks", "mcpServers")), JSON, min_size=1, max_size=4)  # fmt: skip


@given(SETTINGS)
def test_installing_and_taking_out_leaves_any_settings_as_they_were(settings):
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    for change, given_ in ((update_mcp_json, SERVER), (update_claude_hooks, COMMAND)):
        installed = change(text, given_)
        assert {name: json.loads(installed)[name] for name in settings} == settings
        assert change(installed, given_) == installed
        assert change(installed, None) == text


@pytest.mark.parametrize(
    "text",
    ["", "# only a comment\n", "a = 1", '[mcp_servers]\n[mcp_servers.x]\ncommand = "y"\n'],
)
def test_toml_keeps_everything_that_is_not_ours(text):
    installed = update_codex_toml(text, SERVER)
    assert tomllib.loads(installed)["mcp_servers"][SERVER_NAME] == SERVER
    assert update_codex_toml(installed, SERVER) == installed
    taken = update_codex_toml(installed, None) or ""
    assert tomllib.loads(taken) == tomllib.loads(text)


@pytest.mark.parametrize("text", ['[a]\nb = """\n[mcp_servers.lukasa]\n"""\n\n[mcp_servers.lukasa]\ncommand = "x"\n', 'mcp_servers = { lukasa = { command = "x" } }\n'])  # fmt: skip
def test_toml_that_cannot_be_changed_safely_is_refused(text):
    with pytest.raises(ValueError):
        update_codex_toml(text, None)
