"""Memories of other programs: what is read, what is refused and why, and that a second import writes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lukasa
from lukasa.errors import FormatError, InvalidInput, NotAllowed
from lukasa.storage.engine import Query
from lukasa.transfer.sources import SOURCE_FORMATS, SourceMemory, detect_format, files, read_source
from support.narrow import source_report

pytestmark = pytest.mark.requirement("DOO-6")
SECRET = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq2q1hC3sY0vF1\n-----END RSA PRIVATE KEY-----"


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


def make_claude(folder: Path) -> Path:
    """Write an export as claude.ai makes it."""
    messages = [
        {"uuid": "m1", "sender": "human", "text": "", "created_at": "2026-03-01T09:00:00.123456Z",
         "content": [{"type": "text", "text": "We deploy on Tuesdays."}],
         "attachments": [{"file_name": "plan.txt", "extracted_content": "The plan has two steps."}]},
        {"uuid": "m2", "sender": "assistant", "text": "Noted.", "created_at": "2026-03-01T09:00:05Z", "content": []},
        {"uuid": "m3", "sender": "human", "text": f"My key: {SECRET}", "created_at": "2026-03-01T09:01:00Z"},
    ]  # fmt: skip
    chat = {"uuid": "c1", "name": "Deployments", "created_at": "2026-03-01T09:00:00Z", "chat_messages": messages}
    empty = {"uuid": "c2", "name": "", "created_at": "2026-03-02T09:00:00Z", "chat_messages": []}
    path = folder / "claude.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([chat, empty]))
        archive.writestr("users.json", "[]")
    return path


def make_chatgpt(folder: Path) -> Path:
    """Write an export as ChatGPT makes it, with a branch that its user left."""

    def node(id, parent, children, role=None, text="", **more):
        message = None if role is None else {
            "id": id, "author": {"role": role}, "create_time": 1_772_355_600.5,
            "content": {"content_type": "text", "parts": [text]}, **more,
        }  # fmt: skip
        return {"id": id, "message": message, "parent": parent, "children": children}

    mapping = {
        "root": node("root", None, ["s"]),
        "s": node("s", "root", ["u"], "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        "u": node("u", "s", ["a1", "a2"], "user", "The office moved to Kiel."),
        "a1": node("a1", "u", [], "assistant", "An answer that was thrown away."),
        "a2": node("a2", "u", [], "assistant", "Understood."),
    }
    target = folder / "export"
    target.mkdir()
    chat = {"title": "Office", "conversation_id": "g1", "current_node": "a2", "mapping": mapping}
    write_json(target / "conversations-000.json", [chat])
    return target


def make_claude_mem(folder: Path) -> Path:
    """Write a database with the tables of claude-mem 13."""
    path = folder / "claude-mem.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT);
            CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT,
                title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, created_at TEXT, created_at_epoch INTEGER);
            CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, request TEXT,
                investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, created_at TEXT, created_at_epoch INTEGER);
            CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INTEGER, prompt_text TEXT,
                created_at TEXT, created_at_epoch INTEGER);
            """
        )
        at = ("2026-03-01T09:00:00.000Z", 1_772_355_600_000)
        database.execute("INSERT INTO sdk_sessions VALUES (1, 's1', 'ms1', 'shop')")
        database.execute(
            "INSERT INTO observations VALUES (1, 'ms1', 'shop', NULL, 'decision', 'Queue', 'chosen', ?, ?, ?, ?, ?)",
            (
                json.dumps(["Orders go through RabbitMQ.", "Retries stop after five attempts."]),
                "The team chose RabbitMQ because it is known.",
                json.dumps(["queues"]),
                *at,
            ),
        )
        database.execute(
            "INSERT INTO observations VALUES (2, 'ms1', 'shop', 'Old text.', 'change', NULL, NULL, NULL, NULL, NULL, ?, ?)",
            at,
        )
        database.execute("INSERT INTO user_prompts VALUES (1, 's1', 1, 'Choose a queue', ?, ?)", at)
        database.execute(
            "INSERT INTO session_summaries VALUES (1, 'ms1', 'shop', 'Choose a queue', NULL, 'RabbitMQ fits', NULL, NULL, NULL, ?, ?)",
            ("2026-03-01T10:00:00.000Z", 1_772_359_200_000),
        )
    return path


NOTE = """---
title: Coffee Brewing
type: note
permalink: notes/coffee-brewing
tags: [coffee, morning]
created: 2026-02-03T08:00:00+00:00
modified: 2026-02-04T08:00:00+00:00
---
# Coffee Brewing

Fresh water matters most of all.

## Observations
- [method] Pour over gives a clean cup #pourover (tested twice)
- [ ] buy filters
- [00:11] a line of a transcript

## Relations
- improves [[Morning Routine]]
- see also the [[Kettle]] page for more
"""


def make_notes(folder: Path) -> Path:
    target = folder / "notes"
    (target / "deep").mkdir(parents=True)
    (target / "deep" / "Coffee Brewing.md").write_text(NOTE)
    (target / "picture.png").write_bytes(b"\x89PNG")
    return target


def make_hermes(folder: Path) -> Path:
    target = folder / "hermes" / "memories"
    target.mkdir(parents=True)
    (target / "MEMORY.md").write_text("The staging host is called hazel.\n§\nTests need two\nlines of setup.\n")
    (target / "USER.md").write_text("Prefers short answers.")
    os.utime(target / "USER.md", (1_772_355_600, 1_772_355_600))
    return folder / "hermes"


def make_anthropic(folder: Path) -> Path:
    target = folder / "tool" / "memories"
    (target / "projects").mkdir(parents=True)
    (target / "projects" / "shop.md").write_text("The shop runs on two hosts.\n")
    (target / ".hidden").write_text("not shown by the tool")
    return folder / "tool"


def make_mem0(folder: Path) -> Path:
    items = [
        {"id": "1", "memory": "Ada is allergic to nuts", "user_id": "ada", "categories": ["health"],
         "created_at": "2026-01-05T07:30:00-08:00", "updated_at": "2026-01-06T07:30:00-08:00"},
        {"id": "2", "memory": ""},
    ]  # fmt: skip
    return write_json(folder / "mem0.json", {"results": items})


def make_graph(folder: Path) -> Path:
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["leads the Ghent office"]}
    relation = {"type": "relation", "from": "Ada", "to": "Boris", "relationType": "mentors"}
    path = folder / "memory.json"
    path.write_text("\n".join(map(json.dumps, (entity, relation))))
    return path


def make_claude_code(folder):
    """Write a transcript of two turns and a file that is none."""
    session = folder / "projects" / "0a1b2c3d.jsonl"
    session.parent.mkdir()
    turns = [("user", "Which port does the cache use?"), ("assistant", "The cache runs on port 6379.")]
    lines = [
        {"uuid": f"u{number}", "timestamp": f"2026-01-06T12:00:0{number}Z", "message": {"role": role, "content": text}}
        for number, (role, text) in enumerate(turns)
    ]
    session.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (session.parent / "empty.jsonl").write_text("{}\n", "utf-8")
    return session.parent


SOURCES = {
    "claude": (make_claude, {"turns": 4, "conversations": 1, "redacted": 1}, []),
    "chatgpt": (make_chatgpt, {"turns": 2, "conversations": 1}, []),
    "claude-code": (make_claude_code, {"turns": 2, "conversations": 1}, ["unreadable"]),
    "claude-mem": (make_claude_mem, {"memories": 4, "turns": 2, "conversations": 1}, []),
    "basic-memory": (make_notes, {"memories": 5}, []),
    "hermes": (make_hermes, {"memories": 3}, []),
    "anthropic": (make_anthropic, {"files": 1}, []),
    "mem0": (make_mem0, {"memories": 1}, ["unreadable"]),
    "knowledge-graph": (make_graph, {"memories": 2}, []),
}


def counts(result):
    names = ("memories", "conversations", "turns", "files", "redacted")
    return {name: count for name in names if (count := getattr(result, name))}


@pytest.mark.parametrize("format", SOURCES)
def test_a_source_is_audited_imported_and_imported_again_without_writing(format, tmp_path):
    make, expected, codes = SOURCES[format]
    path = make(tmp_path)
    if format not in ("anthropic", "claude-code"):  # any folder may be one
        assert detect_format(path) == format
    audited = lukasa.audit_source(path, format=format)
    assert (counts(audited), [code for _, code, _ in audited.refusals]) == (expected, codes)
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        done = memory.import_(path, format=format)
        assert (counts(done), [code for _, code, _ in source_report(done).refusals]) == (expected, codes)
        tip = memory.journal.tip()
        again = memory.import_(path, format=format)
        assert memory.journal.tip() == tip
        assert counts(again) == {}
        assert again.present == done.added
        assert memory.verify().sound


def test_every_format_of_a_source_has_a_test():
    """LangGraph's is in tests/clients, and the vault's in tests/vault."""
    assert set(SOURCES) | {"langgraph", "vault"} == set(SOURCE_FORMATS)


@pytest.mark.parametrize("format", ["claude", "claude-mem", "anthropic"])
def test_an_import_into_postgresql_is_the_same(format, tmp_path, server):
    make, expected, _ = SOURCES[format]
    path = make(tmp_path)
    with server.database() as url, lukasa.open(url, embedder="hash") as memory:
        assert counts(memory.import_(path, format=format)) == expected
        tip = memory.journal.tip()
        assert memory.import_(path, format=format).added == 0
        assert memory.journal.tip() == tip


def import_all(tmp_path, make, format, **options):
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        memory.import_(make(tmp_path), format=format, **options)
        return [record for record in memory.journal.read(Query()) if record.origin == "import"]


def test_times_speakers_and_texts_of_claude_are_kept(tmp_path):
    turns = [r for r in import_all(tmp_path, make_claude, "claude") if r.kind == "turn"]
    assert [(r.body["role"], r.text) for r in turns[:3]] == [
        ("user", "We deploy on Tuesdays."),
        ("user", "The plan has two steps."),
        ("assistant", "Noted."),
    ]
    assert turns[0].happened_at == datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=UTC)
    assert turns[0].body["extra"]["title"] == "Deployments"
    assert "[private_key]" in turns[3].text
    assert "MIIEpAIB" not in turns[3].text


def test_only_the_branch_of_chatgpt_that_was_seen_last_is_read(tmp_path):
    turns = [r for r in import_all(tmp_path, make_chatgpt, "chatgpt") if r.kind == "turn"]
    assert [(r.body["role"], r.text) for r in turns] == [
        ("user", "The office moved to Kiel."),
        ("assistant", "Understood."),
    ]
    assert turns[0].happened_at == datetime(2026, 3, 1, 9, 0, 0, 500000, tzinfo=UTC)


def test_observations_of_claude_mem_become_memories_with_their_time_and_project(tmp_path):
    records = import_all(tmp_path, make_claude_mem, "claude-mem", scope="shop")
    memories = {r.text: r for r in records if r.kind == "memory"}
    assert set(memories) == {
        "Orders go through RabbitMQ.",
        "Retries stop after five attempts.",
        "The team chose RabbitMQ because it is known.",
        "Old text.",
    }
    fact = memories["Orders go through RabbitMQ."]
    assert (fact.scope, fact.body["category"]) == ("shop", "decision")
    assert fact.body["tags"] == ["project=shop", "title=Queue: chosen", "queues"]
    assert fact.created_at == datetime(2026, 3, 1, 9, tzinfo=UTC)
    turns = [(r.body["role"], r.text) for r in records if r.kind == "turn"]
    assert turns == [("user", "Choose a queue"), ("assistant", "Request: Choose a queue\nLearned: RabbitMQ fits")]


def test_a_note_of_basic_memory_becomes_its_statements(tmp_path):
    memories = {r.text: r for r in import_all(tmp_path, make_notes, "basic-memory") if r.kind == "memory"}
    assert set(memories) == {
        "Coffee Brewing: Fresh water matters most of all.",
        "Coffee Brewing: Pour over gives a clean cup #pourover (tested twice)",
        "Coffee Brewing: - [ ] buy filters\n- [00:11] a line of a transcript",
        "Coffee Brewing improves Morning Routine",
        "Coffee Brewing: - see also the [[Kettle]] page for more",
    }
    observation = memories["Coffee Brewing: Pour over gives a clean cup #pourover (tested twice)"]
    assert (observation.body["category"], observation.created_at) == ("method", datetime(2026, 2, 3, 8, tzinfo=UTC))
    assert observation.recorded_at == datetime(2026, 2, 4, 8, tzinfo=UTC)
    assert observation.body["tags"] == ["pourover", "coffee", "morning", "note=Coffee Brewing"]


def test_a_long_paragraph_is_split_at_its_sentences(tmp_path):
    (tmp_path / "notes").mkdir()
    sentences = [f"Sentence number {n} says that box {n} stands in aisle {n % 7}." for n in range(60)]
    (tmp_path / "notes" / "boxes.md").write_text(" ".join(sentences))
    found = [
        item.memory.text for item in read_source("basic-memory", tmp_path / "notes") if isinstance(item, SourceMemory)
    ]
    assert all(len(text) <= 1_200 for text in found)
    assert " ".join(text.removeprefix("boxes: ") for text in found) == " ".join(sentences)


def test_entries_of_hermes_keep_their_lines_and_the_time_of_the_file(tmp_path):
    memories = {r.text: r for r in import_all(tmp_path, make_hermes, "hermes") if r.kind == "memory"}
    assert set(memories) == {
        "The staging host is called hazel.",
        "Tests need two\nlines of setup.",
        "Prefers short answers.",
    }
    assert memories["Prefers short answers."].body["category"] == "user"
    assert memories["Prefers short answers."].created_at == datetime(2026, 3, 1, 9, tzinfo=UTC)


def test_an_entry_that_was_forgotten_or_changed_here_does_not_come_back(tmp_path):
    path = make_hermes(tmp_path)
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        memory.import_(path, format="hermes")
        first, second, _ = memory.vault.list()
        memory.forget(first.id)
        memory.vault.update(second.id, "Tests need three lines of setup now.")
        os.utime(path / "memories" / "MEMORY.md")  # another time, the same entries
        assert memory.import_(path, format="hermes").added == 0
        assert len(memory.vault.list()) == 2


def test_an_import_goes_on_where_an_earlier_one_stopped(tmp_path):
    messages = [
        {"uuid": f"m{n}", "sender": "human", "text": f"Box {n} is in aisle {n}.", "created_at": "2026-03-01T09:00:00Z"}
        for n in range(250)
    ]
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        for known, count in ((0, 100), (100, 150)):
            chat = {"uuid": "c1", "chat_messages": messages[: known + count]}
            done = memory.import_(write_json(tmp_path / "conversations.json", [chat]), format="claude")
            assert (source_report(done).present, source_report(done).turns) == (known, count)
        assert [turn.extra["uuid"] for turn in memory.context.transcript("claude-c1")] == [f"m{n}" for n in range(250)]


def test_an_import_reaches_no_scope_that_the_caller_may_not_write(tmp_path):
    with lukasa.open(tmp_path / "agents.db", agent="ada", embedder="hash") as memory:
        with pytest.raises(NotAllowed):
            memory.import_(make_mem0(tmp_path), format="mem0", scope="ben")
        assert memory.vault.list() == []


def test_secrets_are_refused_in_memories_and_files_and_redacted_in_turns(tmp_path):
    (tmp_path / "MEMORY.md").write_text(f"The key is {SECRET}")
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "key.txt").write_text(SECRET)
    for format, path in (("hermes", tmp_path / "MEMORY.md"), ("anthropic", tmp_path)):
        found = lukasa.audit_source(path, format=format)
        assert ([code for _, code, _ in found.refusals], found.added) == (["pii"], 0)
        assert "MIIEpAIB" not in str(found)


# Hostile sources


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 1_000_000)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * 50_000_000 + b"]")
    assert path.stat().st_size < 100_000
    with pytest.raises(FormatError, match="unpacks to more than"):
        list(read_source("claude", path))


def test_a_broken_archive_and_an_archive_without_conversations_are_refused(tmp_path):
    whole = make_claude(tmp_path).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="not a ZIP archive"):
        list(read_source("claude", tmp_path / "cut.zip"))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("../../etc/conversations.txt", "[]")
    with pytest.raises(FormatError, match=r"no conversations\.json"):
        list(read_source("claude", tmp_path / "other.zip"))


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "nul", '{"a": 1}', b"\xff\xfe\x00", "[1, null, {}]"])
@pytest.mark.parametrize("format", ["claude", "chatgpt", "mem0", "knowledge-graph"])
def test_a_damaged_or_deep_file_ends_in_a_sentence_or_in_nothing(format, content, tmp_path):
    path = tmp_path / "conversations.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    items = []
    with suppress(FormatError):
        items = list(read_source(format, path))
    assert all(type(item).__name__ == "Unreadable" for item in items)


def test_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("---\ntitle: Secret\n---\nThe safe is behind the door.")
    notes = make_notes(tmp_path)
    (notes / "link.md").symlink_to(secret)
    (notes / "folder.md").symlink_to(tmp_path)
    found = lukasa.audit_source(notes, format="basic-memory")
    assert [(where, code) for where, code, _ in found.refusals] == [
        ("folder.md", "unreadable"),
        ("link.md", "unreadable"),
    ]
    memories = make_anthropic(tmp_path) / "memories"
    (memories / "link.txt").symlink_to(secret)
    found = lukasa.audit_source(memories, format="anthropic")
    assert [(where, code) for where, code, _ in found.refusals] == [("link.txt", "unreadable")]


def test_front_matter_that_is_no_yaml_or_names_objects_is_reported_and_not_run(tmp_path):
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "a.md").write_text("---\ntitle: !!python/object/apply:os.system ['touch x']\n---\nKettles boil.")
    found = list(read_source("basic-memory", tmp_path / "n"))
    assert [type(item).__name__ for item in found] == ["Unreadable", "SourceMemory"]
    assert not Path("x").exists()


def test_a_database_with_views_or_damage_is_refused(tmp_path):
    path = tmp_path / "views.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sdk_sessions (id INTEGER)")
        database.execute(
            "CREATE VIEW observations AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n"
        )
    with pytest.raises(FormatError, match="not a database of claude-mem"):
        list(read_source("claude-mem", path))
    whole = make_claude_mem(tmp_path).read_bytes()
    (tmp_path / "cut.db").write_bytes(whole[:5_000])
    with pytest.raises(FormatError, match="cannot be read"):
        list(read_source("claude-mem", tmp_path / "cut.db"))


def test_an_unknown_source_and_an_unknown_format_name_the_known_ones(tmp_path):
    (tmp_path / "x").write_text("hello")
    with pytest.raises(FormatError) as error:
        lukasa.audit_source(tmp_path / "x")
    assert "claude-mem" in (error.value.hint or "")
    with lukasa.open("memory:") as memory, pytest.raises(InvalidInput) as wrong:
        memory.import_(tmp_path / "x", format="letta")
    assert "claude-mem" in (wrong.value.hint or "")
    with pytest.raises(FileNotFoundError):
        lukasa.audit_source(tmp_path / "nowhere")
