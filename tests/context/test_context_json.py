"""The document's session file: import, export, and files that are refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.context import Turn
from lukasa.core.outcome import Conflict, Refused
from lukasa.errors import FormatError
from lukasa.transfer.layouts.context_json import (
    conversation_to_json,
    export_conversation,
    file_name,
    import_conversation,
)

DOCUMENT = {
    "session_id": "user:agent:timestamp",
    "system_state": {"last_workspace": "/home/user/project", "preferences": {}},
    "facts": ["User prefers verbose output", "Project uses Rust 1.75"],
    "recent_history": [
        {"timestamp": 1708654321, "role": "user", "content": "Create a new file", "token_count": 5},
        {"timestamp": 1708654322, "role": "assistant", "content": "I'll create the file for you", "token_count": 8},
        {"timestamp": 1708654323, "role": "tool", "content": '{"success": true}', "token_count": 12},
    ],
    "long_term_summary": "User requested file creation. Successfully created test.txt.",
    "active_tasks": [
        {
            "id": "task_001",
            "description": "Monitor system resources",
            "status": "Running",
            "progress": 0.5,
            "created_at": 1708654000,
            "updated_at": 1708654321,
        }
    ],
    "tool_stats": {"total_calls": 42, "by_tool": {"file_write": 15, "file_read": 20, "echo": 7}, "failures": 2},
    "last_known_environment": {
        "workspace": "/home/user/project",
        "last_update": 1708654321,
        "system_snapshot": {"memory_usage_mb": 8192, "disk_usage_percent": 45.2},
    },
    "token_usage": {"total_input": 15420, "total_output": 8930, "by_session": 24350},
}


@pytest.fixture
def write_file(tmp_path):
    def write_file(document, name="session.json"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
        return path

    return write_file


@pytest.mark.requirement("CTX-12")
def test_the_example_of_the_document_is_exported_as_it_was_imported(conversations, write_file, tmp_path):
    assert import_conversation(conversations, write_file(DOCUMENT))
    path = export_conversation(conversations, "user:agent:timestamp", tmp_path)
    assert path.name == "user:agent:timestamp.json"
    assert json.loads(path.read_text("utf-8")) == DOCUMENT
    assert list(json.loads(path.read_text("utf-8"))) == list(DOCUMENT)
    context = conversations.load("user:agent:timestamp")
    assert context.active_tasks[0]["created_at"] == "2024-02-23T02:06:40Z"


@pytest.mark.requirement("CTX-12", "CTX-1")
def test_unknown_fields_survive_import_and_export(conversations, write_file):
    odd = json.loads(json.dumps(DOCUMENT))
    odd["future"] = {"nested": [1, None, "é"]}
    odd["recent_history"][0] |= {"mood": "calm", "id": 7}
    odd["active_tasks"][0]["owner"] = "orion"
    odd["tool_stats"]["slowest"] = "echo"
    assert import_conversation(conversations, write_file(odd))
    assert conversation_to_json(conversations, "user:agent:timestamp") == odd
    conversations.tool_call("user:agent:timestamp", "echo")
    again = conversation_to_json(conversations, "user:agent:timestamp")
    assert (again["future"], again["tool_stats"]["slowest"]) == (odd["future"], "echo")


@pytest.mark.requirement("CTX-12")
def test_an_export_with_all_turns_includes_the_folded_ones(conversations, open_store, append_turns, tmp_path):
    append_turns(conversations, "s", 60)
    conversations.configure("s", summary_tokens=900)
    path = export_conversation(conversations, "s", tmp_path / "s.json", include_all_turns=True)
    other = open_store().context
    assert import_conversation(other, path)
    here, there = conversations.load("s"), other.load("s")
    assert [turn.content for turn in other.transcript("s")] == [turn.content for turn in conversations.transcript("s")]
    assert [turn.content for turn in there.turns] == [turn.content for turn in here.turns]
    assert (there.long_term_summary, there.folded, there.settings) == (
        here.long_term_summary,
        here.folded,
        here.settings,
    )
    assert conversation_to_json(other, "s", include_all_turns=True) == conversation_to_json(
        conversations, "s", include_all_turns=True
    )


def test_import_does_not_overwrite_an_existing_conversation(conversations, write_file):
    path = write_file(DOCUMENT)
    assert import_conversation(conversations, path)
    assert isinstance(import_conversation(conversations, path), Conflict)
    assert import_conversation(conversations, path, "copy")
    assert len(conversations.list_sessions()) == 2


def test_import_needs_an_id_for_a_file_without_one(in_memory, write_file):
    assert isinstance(import_conversation(in_memory, write_file({"facts": ["One fact here"]})), Refused)
    assert import_conversation(in_memory, write_file({"facts": ["One fact here"]}), "named")
    assert in_memory.load("named").facts == ["One fact here"]


def test_import_accepts_entries_without_a_timestamp(in_memory, write_file):
    entries = [{"role": "user", "content": f"Message {number}", "token_count": 5} for number in range(60)]
    assert import_conversation(
        in_memory, write_file({"session_id": "s", "recent_history": entries, "long_term_summary": ""})
    )
    assert len(in_memory.load("s").recent_history) == 60
    assert in_memory.append("s", "user", "One more")
    assert len(in_memory.load("s").recent_history) == 30


@pytest.mark.requirement("CTX-11")
@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "null", "7", '"text"', "NaN", '{"session_id": 7}', '{"facts": "one"}', '{"facts": [7]}', '{"facts": [" "]}',
        '{"session_id": "s", "recent_history": [{"content": "no role"}]}', '{"recent_history": [7]}',
        '{"recent_history": [{"role": "user", "content": 7}]}', '{"active_tasks": ["x"]}', '{"tool_stats": []}',
        '{"recent_history": [{"role": "user", "content": "x", "timestamp": "soon"}]}', '{"a": 1, "a": 2}',
        '{"recent_history": [{"role": "user", "content": "x", "timestamp": 1e30}]}', '{"lukasa": {"settings": {"x": 1}}}',
        '{"x": ' + "[" * 100 + "]" * 100 + "}", '{"long_term_summary": null}', "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
)  # fmt: skip
def test_import_refuses_an_invalid_file_and_writes_nothing(in_memory, write_file, content):
    with pytest.raises(FormatError):
        import_conversation(in_memory, write_file(content), "s")
    assert in_memory.list_sessions() == []


@given(st.text(min_size=1, max_size=200))
def test_a_file_name_is_a_plain_name_for_any_id(id):
    name = file_name(id)
    assert "/" not in name
    assert "\\" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert name.isprintable()


def test_file_names_differ_for_ids_that_are_paths_reserved_or_nearly_equal():
    odd = [
        "../../etc/passwd",
        "a/b",
        "CON",
        "con",
        "nul.txt",
        "A",
        "a",
        "é",
        "e\u0301",
        ".hidden",
        "x" * 200,
        "x" * 199,
        " ",
    ]
    assert len({file_name(id).lower() for id in odd}) == len(odd)
    assert file_name("user1:agent1:123") == "user1:agent1:123.json"
    assert not file_name("CON").lower().startswith("con.")


ENTRY = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 4_000_000_000),
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "content": st.text(max_size=40),
        "token_count": st.integers(0, 1_000),
    }
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.requirement("CTX-12")
@given(st.lists(ENTRY, max_size=6), st.dictionaries(st.text(max_size=8), JSON, max_size=3), st.text(max_size=80))
def test_any_conversation_survives_restore_and_export(entries, state, summary):
    import lukasa

    document = {**DOCUMENT, "recent_history": entries, "system_state": state, "long_term_summary": summary}
    from lukasa.transfer.layouts.context_json import parse_conversation

    with lukasa.open("memory:", embedder="hash") as memory:
        context, folded = parse_conversation(document)
        assert memory.context.restore(context, folded)
        assert conversation_to_json(memory.context, document["session_id"]) == document


def test_a_restored_context_can_be_saved(in_memory, write_file):
    import_conversation(in_memory, write_file(DOCUMENT))
    context = in_memory.load("user:agent:timestamp")
    context.recent_history.append(Turn("user", "And another"))
    assert in_memory.save(context)
    assert len(in_memory.load("user:agent:timestamp").recent_history) == 4
