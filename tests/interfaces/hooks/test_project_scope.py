"""The scope of a project: derived from its repository, a wall between projects of one store, and shown in every hit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lukasa
from lukasa.interfaces.hooks.client import expand_project, name_project
from lukasa.interfaces.hooks.handlers import HookHandlers
from lukasa.memory_graph import choose_write_scope
from lukasa.storage.engine import Query
from lukasa.transfer.layouts.agent_transcripts import read_transcript

pytestmark = pytest.mark.requirement("DOO-3", "LOG-4")
LUKASA = str(Path(sys.executable).with_name("lukasa"))


@pytest.fixture
def project(tmp_path):
    (tmp_path / "shop" / ".git" / "worktrees" / "fix").mkdir(parents=True)
    (tmp_path / "shop" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "shop"


def test_every_folder_of_a_repository_has_its_scope(project):
    scope = name_project(str(project))
    assert scope.startswith("project:shop-")
    assert name_project(str(project / "src" / "deep")) == scope
    link = project.parent / "link"
    link.symlink_to(project)
    assert name_project(str(link / "src")) == scope


def test_a_worktree_has_the_scope_of_its_repository(project):
    worktree = project.parent / "fix"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {project}/.git/worktrees/fix\n")
    assert name_project(str(worktree)) == name_project(str(project))


def test_projects_of_the_same_name_differ_and_a_folder_without_a_repository_is_one(project):
    other = project.parent / "elsewhere" / "shop"
    other.mkdir(parents=True)
    assert name_project(str(other)).startswith("project:shop-")
    assert name_project(str(other)) != name_project(str(project))


def test_the_home_and_the_root_are_no_projects(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (name_project(str(tmp_path)), name_project("/")) == ("", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    assert expand_project(("shared", "project:.")) == ("shared",)
    assert expand_project(("project:.",)) == ("shared",)
    assert expand_project(("ada",)) == ("ada",)


def test_odd_names_give_a_scope_that_can_be_stored(tmp_path):
    for name in ("Ünïcode Läden", "a" * 200, "we ird'\"name", "-"):
        folder = tmp_path / name
        folder.mkdir()
        scope = name_project(str(folder))
        with lukasa.open("memory:", agent="codex", scopes=("shared", scope), embedder="hash") as memory:
            assert memory.remember("The build takes a minute.", scope=scope)


def test_a_caller_with_a_project_writes_there_and_reads_the_shared_scope(tmp_path):
    path = tmp_path / "agents.db"
    with lukasa.open(path, embedder="hash") as owner:
        owner.remember("Answer in British spelling.")
    for name in ("project:shop-1", "project:blog-2"):
        with lukasa.open(path, agent="codex", scopes=("shared", name), embedder="hash") as memory:
            assert choose_write_scope(memory.journal) == memory.journal.home_scope == name
            assert choose_write_scope(memory.journal, private=True) == name
            memory.context.append("s1", "user", f"We deploy {name} on Tuesdays.")
            found = memory.recall("What is deployed on Tuesdays, and which spelling?")
            assert {hit.record.scope for hit in found.hits} == {"shared", name}


def test_the_command_line_takes_the_project_of_its_folder(project, tmp_path):
    environment = {**os.environ, "LUKASA_STORE": str(tmp_path / "agents.db"), "LUKASA_EMBEDDER": "hash"}
    environment.pop("CLAUDE_PROJECT_DIR", None)
    scope = name_project(str(project))
    words = [LUKASA, "--agent", "codex", "--scope", "shared", "--scope", "project:."]
    for more in (["remember", "The shop sells tea.", "--scope", scope], ["recall", "What does the shop sell?"]):
        done = subprocess.run(
            [*words, *more], cwd=project / "src", env=environment, capture_output=True, text=True, check=True
        )
    assert scope in done.stdout
    other = subprocess.run(
        [*words, "recall", "What does the shop sell?"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "sells tea" not in other.stdout


def test_hooks_of_one_project_say_nothing_of_another(tmp_path, monkeypatch):
    store = str(tmp_path / "agents.db")
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    transcript = tmp_path / "codex.jsonl"
    lines = [
        {"type": "session_meta", "payload": {"id": "s1"}},
        codex_message("user", "<environment_context>cwd</environment_context>"),
        codex_message("user", "Where do the parcels of the shop go?"),
        codex_message("assistant", "The parcels of the shop go to depot nine."),
    ]
    transcript.write_text("\n".join(map(json.dumps, lines)))
    payload = json.dumps({"session_id": "s1", "transcript_path": str(transcript), "cwd": str(tmp_path)}).encode()
    prompt = json.dumps({"session_id": "s2", "prompt": "Where do the parcels of the shop go?"}).encode()
    answers = {}
    for name in ("project:shop-1", "project:blog-2"):
        handlers = HookHandlers(store, "codex", ("shared", name))
        if name == "project:shop-1":
            handlers.process_event("stop", payload)
        answers[name] = handlers.answer("user-prompt-submit", prompt).text.decode()
        handlers.close()
    assert "depot nine" in answers["project:shop-1"]
    assert "(ep-" in answers["project:shop-1"]
    assert "depot nine" not in answers["project:blog-2"]
    with lukasa.open(store, embedder="hash") as memory:
        kinds = {(record.scope, record.kind) for record in memory.journal.read(Query()) if record.author == "codex"}
    assert {scope for scope, _ in kinds} == {"project:shop-1"}
    assert {"turn", "episode", "ledger"} <= {kind for _, kind in kinds}


def codex_message(role, text):
    kind = "output_text" if role == "assistant" else "input_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"timestamp": "2026-03-01T09:00:00.000Z", "type": "response_item", "payload": payload}


def test_a_transcript_of_codex_is_read_without_what_codex_puts_in_front(tmp_path):
    path = tmp_path / "rollout.jsonl"
    lines = [codex_message("user", "<user_instructions>x</user_instructions>"), codex_message("user", "Fix the build.")]
    path.write_text("\n".join(map(json.dumps, [*lines, codex_message("assistant", "Done.")])) + "\nnot json\n")
    found = read_transcript(path)
    assert [(item.turn["role"], item.turn["content"]) for item in found.turns] == [
        ("user", "Fix the build."),
        ("assistant", "Done."),
    ]
    assert (found.goal, found.is_finished) == ("Fix the build.", True)
