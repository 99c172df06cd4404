"""The document's session file is read and written; what it cannot be is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.context import Turn
from lukasa.errors import FormatError
from lukasa.outcome import Conflict, Refused
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
def written(tmp_path):
    def written(found, name="session.json"):
        path = tmp_path / name
        path.write_text(found if isinstance(found, str) else json.dumps(found), "utf-8")
        return path

    return written


@pytest.mark.requirement("CTX-12")
def test_the_documents_example_is_exported_as_it_was_imported(contexts, written, tmp_path):
    assert import_conversation(contexts, written(DOCUMENT))
    path = export_conversation(contexts, "user:agent:timestamp", tmp_path)
    assert path.name == "user:agent:timestamp.json"
    assert json.loads(path.read_text("utf-8")) == DOCUMENT
    assert list(json.loads(path.read_text("utf-8"))) == list(DOCUMENT)
    context = contexts.load("user:agent:timestamp")
    assert context.active_tasks[0]["created_at"] == "2024-02-23T02:06:40Z"


@pytest.mark.requirement("CTX-12", "CTX-1")
def test_unknown_fields_survive_everywhere(contexts, written):
    odd = json.loads(json.dumps(DOCUMENT))
    odd["future"] = {"nested": [1, None, "é"]}
    odd["recent_history"][0] |= {"mood": "calm", "id": 7}
    odd["active_tasks"][0]["owner"] = "orion"
    odd["tool_stats"]["slowest"] = "echo"
    assert import_conversation(contexts, written(odd))
    assert conversation_to_json(contexts, "user:agent:timestamp") == odd
    contexts.tool_call("user:agent:timestamp", "echo")
    again = conversation_to_json(contexts, "user:agent:timestamp")
    assert (again["future"], again["tool_stats"]["slowest"]) == (odd["future"], "echo")


@pytest.mark.requirement("CTX-12")
def test_a_whole_export_brings_the_folded_turns_along(contexts, opened, talk, tmp_path):
    talk(contexts, "s", 60)
    contexts.configure("s", summary_tokens=900)
    path = export_conversation(contexts, "s", tmp_path / "s.json", include_all_turns=True)
    other = opened().context
    assert import_conversation(other, path)
    here, there = contexts.load("s"), other.load("s")
    assert [turn.content for turn in other.transcript("s")] == [turn.content for turn in contexts.transcript("s")]
    assert [turn.content for turn in there.turns] == [turn.content for turn in here.turns]
    assert (there.long_term_summary, there.folded, there.settings) == (
        here.long_term_summary,
        here.folded,
        here.settings,
    )
    assert conversation_to_json(other, "s", include_all_turns=True) == conversation_to_json(
        contexts, "s", include_all_turns=True
    )


def test_a_session_that_is_there_is_not_overwritten(contexts, written):
    path = written(DOCUMENT)
    assert import_conversation(contexts, path)
    assert isinstance(import_conversation(contexts, path), Conflict)
    assert import_conversation(contexts, path, "copy")
    assert len(contexts.list_sessions()) == 2


def test_a_file_without_a_session_needs_a_name(quick, written):
    assert isinstance(import_conversation(quick, written({"facts": ["One fact here"]})), Refused)
    assert import_conversation(quick, written({"facts": ["One fact here"]}), "named")
    assert quick.load("named").facts == ["One fact here"]


def test_the_entries_of_the_compaction_example_need_no_time(quick, written):
    entries = [{"role": "user", "content": f"Message {number}", "token_count": 5} for number in range(60)]
    assert import_conversation(quick, written({"session_id": "s", "recent_history": entries, "long_term_summary": ""}))
    assert len(quick.load("s").recent_history) == 60
    assert quick.append("s", "user", "One more")
    assert len(quick.load("s").recent_history) == 30


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
def test_a_file_that_is_no_session_is_told_so_and_nothing_is_written(quick, written, content):
    with pytest.raises(FormatError):
        import_conversation(quick, written(content), "s")
    assert quick.list_sessions() == []


@given(st.text(min_size=1, max_size=200))
def test_a_file_name_is_always_one_plain_name(id):
    name = file_name(id)
    assert "/" not in name
    assert "\\" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert name.isprintable()


def test_ids_that_could_be_paths_or_meet_get_names_of_their_own():
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
def test_whatever_a_session_holds_it_comes_back_equal(entries, state, summary):
    import lukasa

    found = {**DOCUMENT, "recent_history": entries, "system_state": state, "long_term_summary": summary}
    from lukasa.transfer.layouts.context_json import parse_conversation

    with lukasa.open("memory:", embedder="hash") as memory:
        context, folded = parse_conversation(found)
        assert memory.context.restore(context, folded)
        assert conversation_to_json(memory.context, found["session_id"]) == found


def test_a_restored_context_is_one_that_can_be_saved(quick, written):
    import_conversation(quick, written(DOCUMENT))
    context = quick.load("user:agent:timestamp")
    context.recent_history.append(Turn("user", "And another"))
    assert quick.save(context)
    assert len(quick.load("user:agent:timestamp").recent_history) == 4
