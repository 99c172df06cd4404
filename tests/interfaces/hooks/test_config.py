"""Adding Lukasa to the configuration of coding agents, and removing it again."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa.interfaces.hooks.config import HOOK_EVENTS, SERVER_NAME, update_codex_toml, update_hooks, update_mcp_json

pytestmark = pytest.mark.requirement("DOO-3")

LUKASA = str(Path(sys.executable).with_name("lukasa"))
SERVER = {"command": "lukasa", "args": ["--agent", "x", "mcp"]}
COMMAND = "lukasa --agent claude-code"
OTHERS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}], "PreToolUse": [{"matcher": "Bash", "hooks": []}]}, "model": "opus"}  # fmt: skip


def install(folder, *words, home=None):
    """Run ``lukasa install`` in a folder and return its output."""
    environment = {**os.environ, "HOME": str(home or folder)}
    done = subprocess.run([LUKASA, "install", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_files(folder):
    """Return the contents of all files in a folder by path, but for the folder of the store."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.parent.name != ".lukasa"]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def test_a_dry_run_shows_the_difference_and_writes_nothing(tmp_path):
    output = install(tmp_path, "claude-code", "--project", "--dry-run")
    assert "+++ " in output
    assert "hook user-prompt-submit" in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("product", ["claude-code", "codex", "cursor"])
@pytest.mark.parametrize("where", ["--project", "--user"])
def test_undo_restores_the_files_byte_for_byte(tmp_path, product, where):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(OTHERS, indent=4) + "\n")
    (tmp_path / ".claude.json").write_text(
        json.dumps({"numStartups": 5, "mcpServers": {"other": {"command": "x"}}}, indent=2)
    )
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"other": {"command": "x"}}}, indent="\t"))
    (tmp_path / ".codex" / "config.toml").write_text('# mine\nmodel = "o3"\n\n[mcp_servers.other]\ncommand = "x"\n')
    before = read_files(tmp_path)
    output = install(tmp_path, product, where)
    assert "Written" in output
    installed = read_files(tmp_path)
    assert installed != before
    assert "already" in install(tmp_path, product, where)
    assert read_files(tmp_path) == installed
    undo = re.search(r"`lukasa install (.*)`", output)
    assert undo is not None
    assert "Removed from" in install(tmp_path, *undo[1].split())
    assert read_files(tmp_path) == before
    assert "nothing to remove" in install(tmp_path, product, where, "--undo")


def test_install_writes_the_entries_that_the_agents_read(tmp_path):
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
    assert (tmp_path / ".lukasa" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"a": 1,}', "\ufeff{}"])
def test_install_leaves_an_invalid_file_untouched(tmp_path, text):
    (tmp_path / ".claude").mkdir()
    path = tmp_path / ".claude" / "settings.json"
    path.write_text(text)
    done = subprocess.run([LUKASA, "install", "claude-code"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 6
    assert "left untouched" in done.stderr
    assert path.read_text() == text
    assert not (tmp_path / ".mcp.json").exists()


def test_install_keeps_a_symbolic_link_and_its_permissions(tmp_path):
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


def test_install_refuses_a_store_url_with_a_password(tmp_path):
    command = [LUKASA, "--store", "postgresql://me:secret@db/x", "install", "codex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "secret" not in done.stderr + done.stdout
    assert list(tmp_path.iterdir()) == []


def test_removing_our_hooks_keeps_a_similar_hook_of_another_program():
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/opt/other hook stop"}]}]}}
    text = json.dumps(settings, indent=2) + "\n"
    assert update_hooks(update_hooks(text, COMMAND), None) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=2),
    max_leaves=6,
)
SETTINGS = st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name not in ("hooks", "mcpServers")), JSON, min_size=1, max_size=4)  # fmt: skip


@given(SETTINGS)
def test_adding_and_removing_our_entries_restores_any_settings(settings):
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    updates: list[tuple[Callable[..., str | None], object]] = [(update_mcp_json, SERVER), (update_hooks, COMMAND)]
    for update, entry in updates:
        installed = update(text, entry)
        assert installed is not None
        assert {name: json.loads(installed)[name] for name in settings} == settings
        assert update(installed, entry) == installed
        assert update(installed, None) == text


@pytest.mark.parametrize("text", ["", "# only a comment\n", "a = 1", '[mcp_servers]\n[mcp_servers.x]\ncommand = "y"\n'])
def test_updating_toml_keeps_all_other_entries(text):
    installed = update_codex_toml(text, SERVER)
    assert installed is not None
    assert tomllib.loads(installed)["mcp_servers"][SERVER_NAME] == SERVER
    assert update_codex_toml(installed, SERVER) == installed
    removed = update_codex_toml(installed, None) or ""
    assert tomllib.loads(removed) == tomllib.loads(text)


@pytest.mark.parametrize("text", ['[a]\nb = """\n[mcp_servers.lukasa]\n"""\n\n[mcp_servers.lukasa]\ncommand = "x"\n', 'mcp_servers = { lukasa = { command = "x" } }\n'])  # fmt: skip
def test_our_server_is_found_however_it_is_written(text):
    replaced = update_codex_toml(text, SERVER)
    assert replaced is not None
    assert tomllib.loads(replaced)["mcp_servers"][SERVER_NAME] == SERVER
    others = {name: value for name, value in tomllib.loads(text).items() if name != "mcp_servers"}
    assert tomllib.loads(update_codex_toml(text, None) or "") == others


@pytest.mark.parametrize("text", ["mcp_servers = 3\n", "a = \n", "[a]\n[a]\n"])
def test_updating_toml_refuses_a_file_that_it_cannot_change(text):
    with pytest.raises(ValueError):
        update_codex_toml(text, SERVER)


def test_codex_gets_its_hooks_and_no_event_that_it_does_not_know(tmp_path):
    install(tmp_path, "codex", "--project")
    hooks = json.loads((tmp_path / ".codex" / "hooks.json").read_text())["hooks"]
    assert list(hooks) == ["SessionStart", "UserPromptSubmit", "PreToolUse", "PreCompact", "Stop"]
    assert hooks["Stop"][0]["hooks"][0]["command"].endswith("--agent codex hook stop")


@pytest.mark.parametrize("product", ["claude-code", "codex", "cursor"])
def test_an_install_for_the_user_gives_each_project_its_scope(tmp_path, product):
    output = install(tmp_path, product, "--user", "--dry-run")
    assert "project:." in output
    assert "project:." not in install(tmp_path, product, "--project", "--dry-run")


@pytest.mark.parametrize("product", ["claude-code", "codex", "cursor"])
def test_an_install_for_the_user_names_the_store_that_it_serves(tmp_path, product):
    mine = tmp_path / "data" / "lukasa" / "memory.db"
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    environment.pop("LUKASA_STORE", None)
    command = [LUKASA, "install", product, "--user"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    written = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert written
    for name, text in written.items():
        assert text.count(str(mine)) == text.count(" hook ") + (name != "hooks.json" and name != "settings.json"), name
    named = [LUKASA, "--store", str(tmp_path / "other.db"), "install", product, "--user", "--dry-run"]
    shown = subprocess.run(named, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "other.db") in shown


def test_an_install_leaves_a_password_in_the_environment(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "LUKASA_STORE": "postgresql://me:secret@db/x"}
    command = [LUKASA, "install", "codex", "--user"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert "secret" not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_an_install_says_that_the_store_of_the_folder_came_along(tmp_path):
    with lukasa.open(tmp_path / "theirs.db", embedder="hash") as memory:
        memory.remember("We deploy on Tuesdays.")
    (tmp_path / "clone" / ".lukasa").mkdir(parents=True)
    (tmp_path / "theirs.db").rename(tmp_path / "clone" / ".lukasa" / "memory.db")
    command = [LUKASA, "install", "cursor"]
    done = subprocess.run(command, cwd=tmp_path / "clone", capture_output=True, text=True, check=True)
    assert "was not made by you" in done.stderr
