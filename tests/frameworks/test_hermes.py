"""The memory provider of Hermes Agent: found by its real discovery, run in its real memory manager."""

import json
import sys

import pytest

pytest.importorskip("hermes_constants", reason="run by `make test-clients`, which installs Hermes Agent")

from agent.memory_manager import MemoryManager
from hermes_cli.config import load_config
from plugins.memory import discover_memory_providers, load_memory_provider
from typer.testing import CliRunner

import lukasa
from lukasa.interfaces.cli.app import app
from support.adapter_race import check_race

pytestmark = pytest.mark.slow
TOKEN = "ghp_x9Kq2LmZt7Vb4RwYc8Ns1HpD5GfJ3eQa6UoT"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the home of a Hermes in which Lukasa was installed."""
    folder = tmp_path / "hermes"
    folder.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(folder))
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    monkeypatch.delitem(sys.modules, "_hermes_user_memory.lukasa", raising=False)
    (folder / "config.yaml").write_text("memory:\n  memory_enabled: true\n")
    assert CliRunner().invoke(app, ["install", "hermes", "--yes"]).exit_code == 0
    return folder


@pytest.fixture
def start(home):
    """Return a function that starts a manager with the provider that Hermes finds."""
    managers = []

    def start_manager(session="session-1", **facts):
        manager = MemoryManager()
        manager.add_provider(load_memory_provider(load_config()["memory"]["provider"]))
        manager.initialize_all(session, hermes_home=str(home), platform="cli", **facts)
        managers.append(manager)
        return manager

    yield start_manager
    for manager in managers:
        manager.shutdown_all()


def call(manager, tool, **arguments):
    return json.loads(manager.handle_tool_call(tool, arguments))


@pytest.mark.requirement("DOO-6")
def test_hermes_finds_the_provider_that_was_installed(home):
    found = {name: is_available for name, _, is_available in discover_memory_providers()}
    assert found["lukasa"] is True
    config = load_config()["memory"]
    assert (config["provider"], config["memory_enabled"]) == ("lukasa", True)


@pytest.mark.requirement("DOO-6")
def test_what_was_said_in_one_session_is_recalled_in_the_next(start, home):
    first = start()
    assert "lukasa_recall" in first.build_system_prompt()
    first.sync_all("When is the release?", "The release is on Tuesday at noon.", session_id="session-1")
    assert first.flush_pending(10)
    assert first.prefetch_all("When is the release?", session_id="session-1") == ""
    first.shutdown_all()
    second = start("session-2")
    assert "Tuesday at noon" in second.prefetch_all("When is the release?", session_id="session-2")
    assert second.prefetch_all("Which wine goes with fish?", session_id="session-2") == ""
    second.on_session_switch("session-3", parent_session_id="session-2")
    second.sync_all(f"My token is {TOKEN} for now.", "Noted.")
    assert second.flush_pending(10)
    second.shutdown_all()
    with lukasa.open(str(home / "lukasa" / "memory.db"), agent="hermes") as memory:
        assert {info.id for info in memory.context.list()} == {"session-1", "session-3"}
        texts = [turn.content for turn in memory.context.transcript("session-3")]
        assert len(texts) == 2
        assert TOKEN not in texts[0]


@pytest.mark.requirement("DOO-6")
def test_the_tools_recall_remember_and_forget(start):
    manager = start()
    assert {"lukasa_recall", "lukasa_remember", "lukasa_forget"} <= manager.get_all_tool_names()
    stored = call(manager, "lukasa_remember", text="The staging host is called heron.")
    assert stored["done"] is True
    again = call(manager, "lukasa_remember", text="The staging host is called heron.")
    assert (again["done"], again["code"]) == (False, "duplicate")
    (found, *_) = call(manager, "lukasa_recall", query="What is the staging host called?")["memories"]
    assert (found["id"], found["text"]) == (stored["id"], "The staging host is called heron.")
    assert call(manager, "lukasa_forget", id=stored["id"])["done"] is True
    assert call(manager, "lukasa_forget", id=stored["id"])["code"] == "not_found"
    assert call(manager, "lukasa_recall", query="What is the staging host called?")["memories"] == []
    assert "error" in call(manager, "lukasa_recall")


@pytest.mark.requirement("DOO-6")
def test_the_built_in_memory_is_repeated_in_the_vault(start, home):
    manager = start()

    def write(**arguments):
        manager.notify_memory_tool_write({"success": True}, arguments)

    write(action="add", target="user", content="Ada prefers short answers.")
    write(action="add", target="memory", content="The build runs on port 8123.")
    write(action="add", target="memory", content="The build runs on port 8123.")
    write(action="replace", target="memory", old_text="port 8123", content="The build runs on port 9000.")
    write(action="remove", target="user", old_text="short answers")
    manager.shutdown_all()
    with lukasa.open(str(home / "lukasa" / "memory.db")) as memory:
        texts = [entry.text for entry in memory.vault.list()]
        assert texts == ["The build runs on port 9000."]


@pytest.mark.requirement("DOO-6")
def test_only_the_primary_agent_writes(start, home):
    manager = start(agent_context="subagent")
    manager.sync_all("a question", "an answer")
    manager.flush_pending(10)
    manager.notify_memory_tool_write({"success": True}, {"action": "add", "content": "Nothing is kept of this."})
    assert "primary" in call(manager, "lukasa_remember", text="Nothing is kept of this.")["error"]
    manager.shutdown_all()
    with lukasa.open(str(home / "lukasa" / "memory.db")) as memory:
        assert list(memory.journal.read()) == []


@pytest.mark.requirement("DOO-6")
def test_users_of_a_gateway_do_not_see_each_other(start):
    owner = start()
    call(owner, "lukasa_remember", text="The safe of the owner has the colour blue.")
    answers = {}
    for user in ("1", "2"):
        manager = start(user_id=user)
        call(manager, "lukasa_remember", text=f"The secret colour of user {user} is green.")
        answers[user] = [item["text"] for item in call(manager, "lukasa_recall", query="colour")["memories"]]
    assert answers == {user: [f"The secret colour of user {user} is green."] for user in ("1", "2")}


@pytest.mark.requirement("DOO-6")
def test_delegations_and_facts_of_the_session_are_kept(start):
    manager = start()
    manager.on_delegation("Count the tests", "There are 4,200 tests.", child_session_id="child")
    manager.sync_all("I live in Lisbon and my name is Ada.", "Nice to meet you, Ada.")
    assert manager.flush_pending(10)
    assert "Lisbon" in manager.on_pre_compress([])
    found = call(manager, "lukasa_recall", query="How many tests are there?")["memories"]
    assert any("4,200" in item["text"] for item in found)


@pytest.mark.requirement("DOO-6")
def test_a_store_outside_the_home_is_backed_up(home, tmp_path):
    provider = load_memory_provider("lukasa")
    assert provider.backup_paths() == []
    provider.save_config({"store": str(tmp_path / "other.db"), "agent": "ada"}, str(home))
    assert provider.backup_paths() == [str(tmp_path / "other.db")]
    provider.initialize("s", hermes_home=str(home))
    provider.sync_turn("one", "two")
    provider.shutdown()
    with lukasa.open(str(tmp_path / "other.db")) as memory:
        assert {record.author for record in memory.journal.read()} == {"ada"}


@pytest.mark.requirement("DOO-6")
def test_eight_processes_on_one_session_lose_nothing(location, tmp_path):
    check_race("hermes_session", location, tmp_path)
