"""`lukasa install hermes`: the plugin, the settings and the configuration of Hermes, which keeps everything else."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app
from lukasa.interfaces.hooks.hermes import update_hermes_yaml

CONFIGS = [
    "",
    "model: x  # the model\n",
    "model: x",
    "# only a comment\n",
    "memory:\n  memory_enabled: true\n",
    "memory:  # what is remembered\n    # a comment\n\n    memory_enabled: true\nmodel: x\n",
    "memory:\n  provider: ''\n  memory_enabled: true\n",
    "memory:\n  memory_enabled: true\n  provider: mem0  # the old one\nlast: 1",
    "delegation:\n  provider: other\nmemory:\n  memory_char_limit: 10\nauxiliary:\n  provider: another\n",
]


@pytest.mark.requirement("DOO-6")
@pytest.mark.parametrize("text", CONFIGS)
def test_only_the_memory_provider_changes_and_undo_removes_it(text):
    before = yaml.safe_load(text) or {}
    after = update_hermes_yaml(text) or ""
    wanted = {**before, "memory": {**before.get("memory", {}), "provider": "lukasa"}}
    assert yaml.safe_load(after) == wanted
    assert update_hermes_yaml(after) == after
    assert all(line.split("#")[1] in after for line in text.splitlines() if "#" in line and "mem0" not in line)
    removed = update_hermes_yaml(after, undo=True)
    left = dict(wanted["memory"])
    del left["provider"]
    expected = {name: value for name, value in before.items() if name != "memory"} | ({"memory": left} if left else {})
    assert (yaml.safe_load(removed or "") or {}) == expected
    assert update_hermes_yaml(text, undo=True) == text


@pytest.mark.requirement("DOO-6")
@pytest.mark.parametrize("text", ["memory: {a: 1}\n", "memory: [1]\n", "- a\n", "a: [", "memory: &x\n  a: 1\nb: *x\n"])
def test_a_configuration_that_cannot_be_changed_safely_is_left_alone(text):
    with pytest.raises(ValueError):
        update_hermes_yaml(text)


@pytest.mark.requirement("DOO-6")
def test_install_writes_the_plugin_and_undo_removes_it(tmp_path, monkeypatch):
    home = tmp_path / "hermes"
    home.mkdir()
    (home / "config.yaml").write_text("model: x\n")
    monkeypatch.setenv("HERMES_HOME", str(home))

    def run(*words):
        answer = CliRunner().invoke(app, [*words])
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.output)

    store = str(tmp_path / "memory.db")
    planned = run("--json", "--store", store, "--agent", "ada", "install", "hermes", "--dry-run")
    assert (planned["written"], len(planned["files"]), len(list(home.iterdir()))) == (False, 4, 1)
    assert run("--json", "--store", store, "--agent", "ada", "install", "hermes")["written"]
    assert json.loads((home / "lukasa.json").read_text()) == {"store": store, "agent": "ada"}
    assert "register_memory_provider" in (home / "plugins" / "lukasa" / "__init__.py").read_text()
    assert yaml.safe_load((home / "config.yaml").read_text()) == {"model": "x", "memory": {"provider": "lukasa"}}
    assert run("--json", "install", "hermes")["files"] == []
    run("--json", "install", "hermes", "--undo")
    assert (home / "config.yaml").read_text() == "model: x\n"
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["config.yaml"]
    assert CliRunner().invoke(app, ["install", "hermes", "--project"]).exit_code == 2
