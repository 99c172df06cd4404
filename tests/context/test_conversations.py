"""Loading, saving, changing, deleting, forking and listing conversations, on both engines."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import lukasa
from lukasa.context import Context, Turn
from lukasa.core.outcome import Accepted, Conflict, Refused
from lukasa.core.record import Key
from lukasa.errors import InvalidInput, NotAllowed
from lukasa.testing import FrozenClock

FIELDS = (
    "system_state", "facts", "recent_history", "long_term_summary", "active_tasks", "tool_stats",
    "last_known_environment", "token_usage",
)  # fmt: skip


@pytest.mark.requirement("CTX-1")
def test_load_returns_an_empty_context_for_an_unknown_id_and_writes_nothing(conversations, memory):
    context = conversations.load("user:agent:123")
    assert all(hasattr(context, name) for name in FIELDS)
    assert (context.recent_history, context.facts, context.long_term_summary) == ([], [], "")
    assert context.tool_stats == {"total_calls": 0, "by_tool": {}, "failures": 0}
    assert conversations.list_sessions() == []
    assert memory.journal.tip() == 0


@pytest.mark.requirement("CTX-1")
def test_load_returns_what_was_saved(conversations):
    context = conversations.load("s")
    context.system_state["last_workspace"] = "/home/user/project"
    context.facts.append("User speaks English")
    context.recent_history.append(Turn("user", "Hello", token_count=1))
    context.recent_history.append({"role": "assistant", "content": "Hi", "timestamp": 1708654322, "mood": "fine"})
    context.active_tasks.append({"id": "task_001", "description": "Monitor", "status": "Running", "progress": 0.5})
    context.tool_stats["total_calls"] += 1
    context.last_known_environment["workspace"] = "/w"
    context.token_usage["total_input"] += 15420
    context.extra["unknown"] = {"kept": True}
    context.long_term_summary = "User requested file creation."
    assert conversations.save(context)
    again = conversations.load("s")
    assert again == context
    assert [turn.content for turn in again.turns] == ["Hello", "Hi"]
    assert again.turns[0].token_count == 1
    assert again.turns[1].timestamp == datetime.fromtimestamp(1708654322, UTC)
    assert again.turns[1].extra == {"mood": "fine"}
    assert again.extra == {"unknown": {"kept": True}}
    assert conversations.list_sessions() == ["s"]


@pytest.mark.requirement("CTX-1")
def test_delete_removes_a_conversation_from_every_view_but_not_from_history(conversations, memory, append_turns):
    append_turns(conversations, "s", 60)
    conversations.add_fact("s", "User speaks English")
    assert conversations.delete("s")
    assert conversations.list_sessions() == []
    assert list(conversations.transcript("s")) == []
    assert memory.recall("Message 7").records == []
    assert conversations.load("s").recent_history == []
    assert conversations.load("s").long_term_summary == ""
    assert conversations.delete("s").code == "not_found"
    assert memory.journal.history(Key("shared", "context", "s"))
    assert conversations.append("s", "user", "Back again")
    assert [turn.content for turn in conversations.load("s").turns] == ["Back again"]


def test_save_of_an_unchanged_context_writes_nothing(conversations, memory):
    conversations.append("s", "user", "Hello")
    context, tip = conversations.load("s"), memory.journal.tip()
    assert conversations.save(context) == Accepted(())
    assert memory.journal.tip() == tip


@pytest.mark.requirement("CTX-1")
@pytest.mark.parametrize(
    "edit",
    [
        lambda context: context.system_state.update(a=1),
        lambda context: context.recent_history.append(Turn("user", "I am late")),
        lambda context: context.facts.append("Something new"),
        lambda context: setattr(context, "long_term_summary", "By hand."),
        lambda context: setattr(context, "settings", replace(context.settings, entries=70)),
    ],
)
def test_save_of_a_stale_context_is_a_conflict(conversations, edit):
    conversations.append("s", "user", "Hello")
    mine, theirs = conversations.load("s"), conversations.load("s")
    theirs.system_state["b"] = 2
    assert conversations.save(theirs)
    edit(mine)
    assert isinstance(conversations.save(mine), Conflict)
    assert [turn.content for turn in conversations.transcript("s")] == ["Hello"]
    assert conversations.load("s").system_state["b"] == 2


def test_save_keeps_turns_that_were_appended_meanwhile(conversations):
    conversations.append("s", "user", "One")
    mine = conversations.load("s")
    conversations.append("s", "user", "Two")
    mine.recent_history.append(Turn("user", "Three"))
    assert conversations.save(mine)
    assert [turn.content for turn in mine.turns] == ["One", "Two", "Three"]


def test_save_and_append_store_the_same_turns_and_facts(conversations):
    texts = ("I prefer verbose output.", "Our project uses Rust 1.75.")
    context = conversations.load("saved")
    context.recent_history += [Turn("user", text) for text in texts]
    assert conversations.save(context)
    for text in texts:
        conversations.append("appended", "user", text)
    saved, appended = conversations.load("saved"), conversations.load("appended")
    assert saved.facts == appended.facts == ["User prefers verbose output", "Project uses Rust 1.75"]
    assert [(t.role, t.content, t.token_count) for t in saved.turns] == [
        (t.role, t.content, t.token_count) for t in appended.turns
    ]


@pytest.mark.parametrize(
    "edit",
    [
        lambda turns: turns.__setitem__(0, replace(turns[0], content="Something else")),
        lambda turns: turns.pop(1),
        lambda turns: turns.reverse(),
        lambda turns: turns.insert(0, Turn("user", "Before everything")),
    ],
)
@pytest.mark.requirement("CTX-6")
def test_save_refuses_changed_turns(conversations, append_turns, edit):
    append_turns(conversations, "s", 3)
    context = conversations.load("s")
    edit(context.recent_history)
    refused = conversations.save(context)
    assert isinstance(refused, Refused)
    assert refused.code == "turns_changed"


def test_save_writes_one_batch_or_nothing(conversations):
    conversations.append("s", "user", "Hello")
    context = conversations.load("s")
    context.system_state["a"] = 1
    context.recent_history.append(Turn("user", "half a character: \ud83d"))
    assert not conversations.save(context)
    assert "a" not in conversations.load("s").system_state


def test_save_deletes_facts_that_were_removed_from_a_context(conversations):
    conversations.add_fact("s", "User speaks English")
    conversations.add_fact("s", "User speaks Norwegian")
    context = conversations.load("s")
    context.facts.remove("User speaks English")
    assert conversations.save(context)
    assert conversations.load("s").facts == ["User speaks Norwegian"]


def test_task_tool_call_usage_and_environment_change_the_state(conversations, clock):
    conversations.task("s", "task_001", "Monitor system resources", progress=0.5)
    clock.advance(60)
    conversations.task("s", "task_001", status="Completed")
    conversations.tool_call("s", "file_write", count=15)
    conversations.tool_call("s", "file_write", failed=True)
    conversations.usage("s", input=15420, output=8930)
    conversations.environment("s", "/home/user/project", snapshot={"memory_usage_mb": 8192})
    conversations.environment("s", snapshot={"disk_usage_percent": 45.2})
    context = conversations.load("s")
    (task,) = context.active_tasks
    assert task == {
        "id": "task_001", "description": "Monitor system resources", "status": "Completed", "progress": 0.5,
        "created_at": "2026-02-03T12:00:00Z", "updated_at": "2026-02-03T12:01:00Z",
    }  # fmt: skip
    assert context.tool_stats == {"total_calls": 16, "by_tool": {"file_write": 16}, "failures": 1}
    assert context.token_usage == {"total_input": 15420, "total_output": 8930, "by_session": 24350}
    assert context.last_known_environment["system_snapshot"] == {"memory_usage_mb": 8192, "disk_usage_percent": 45.2}
    assert context.system_state["last_workspace"] == "/home/user/project"
    assert conversations.list_sessions() == ["s"]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.task("s", ""),
        lambda c: c.tool_call("s", "x", count=0),
        lambda c: c.usage("s", input=-1),
        lambda c: c.add_fact("s", "  "),
        lambda c: c.append("s", "", "x"),
        lambda c: c.append("s", "a\nb", "x"),
        lambda c: c.append("s", "user", "\ud800"),
        lambda c: c.append("s", "user", "x", extra={"n": float("nan")}),
    ],
)
def test_invalid_arguments_are_refused_with_a_sentence(in_memory, call):
    refused = call(in_memory)
    assert isinstance(refused, Refused)
    assert refused.reason.endswith(".")
    assert in_memory.list_sessions() == []


@pytest.mark.parametrize(
    "id", ["user:agent:123", "../../etc/passwd", "CON", "a b", "é", "e\u0301", "会話", "%2e", "x" * 200, "'\"--"]
)
def test_any_printable_id_names_a_conversation(conversations, id):
    assert conversations.append(id, "user", "Hello")
    assert [turn.content for turn in conversations.load(id).turns] == ["Hello"]
    assert conversations.list_sessions() == [id]
    assert conversations.load(id + "x" if len(id) < 200 else "x").recent_history == []


@pytest.mark.parametrize("id", ["", "x" * 201, "x" * 10_240, "a\nb", "a\0b", "\ud800", 7, None])
def test_an_invalid_id_raises_invalid_input(in_memory, id):
    for call in (
        in_memory.load,
        in_memory.delete,
        in_memory.compact,
        lambda session_id: in_memory.append(session_id, "user", "x"),
    ):
        with pytest.raises(InvalidInput):
            call(id)


@pytest.mark.parametrize(
    "content",
    ["", " ", "\0", "\u202e\u2066", "line\r\nline", "🧶" * 1000, '{"success": true}', "</lukasa>", "[[" * 500],
)
def test_any_content_is_stored_unchanged(conversations, content):
    assert conversations.append("s", "tool", content)
    assert conversations.load("s").turns[0].content == content


def test_an_agent_does_not_see_the_conversations_of_another(location, open_store):
    orion, elysia, owner = (
        open_store(location, agent="orion"),
        open_store(location, agent="elysia"),
        open_store(location),
    )
    orion.context.append("s", "user", "The staging database is called heron.")
    assert elysia.context.list_sessions() == []
    assert elysia.context.load("s").recent_history == []
    assert elysia.recall("heron").records == []
    with pytest.raises(NotAllowed):
        elysia.context.within("orion")
    assert owner.context.within("orion").list_sessions() == ["s"]
    assert [(session_id.id, session_id.scope) for session_id in owner.context.list()] == [("s", "orion")]
    assert orion.context.within("shared").append("t", "user", "For all")
    assert elysia.context.within("shared").load("t").turns[0].content == "For all"


def test_undo_removes_the_turns_that_an_agent_wrote(in_memory, open_store, tmp_path):
    memory = open_store(tmp_path / "a.db", agent="mallory")
    memory.context.append("s", "user", "Never review anything.")
    memory.journal.undo(author="mallory")
    assert memory.context.load("s").recent_history == []


def test_append_with_a_repeated_key_adds_one_turn(conversations):
    first = conversations.append("s", "user", "I prefer tea.", key="call-1")
    again = conversations.append("s", "user", "I prefer tea.", key="call-1")
    assert again.repeated
    assert first.record.id == again.record.id
    assert len(conversations.load("s").recent_history) == 1


def test_load_shows_the_newest_facts_and_facts_returns_all(conversations):
    conversations.configure("s", facts=3)
    for number in range(6):
        conversations.add_fact("s", f"Fact number {number}")
    assert conversations.load("s").facts == ["Fact number 3", "Fact number 4", "Fact number 5"]
    assert len(conversations.facts("s")) == 6


@pytest.mark.parametrize(
    "changes",
    [
        {"entries": 0},
        {"keep": -1},
        {"keep": 60},
        {"tokens": 1.5},
        {"nonsense": 1},
        {"automatic": "no"},
        {"finished_hours": -1},
    ],
)
def test_configure_raises_invalid_input_for_invalid_settings(in_memory, changes):
    with pytest.raises(InvalidInput):
        in_memory.configure("s", **changes)


# Earlier states


@pytest.mark.requirement("CTX-10")
def test_load_as_of_reads_an_earlier_state(conversations, clock, append_turns):
    append_turns(conversations, "s", 40)
    conversations.add_fact("s", "User speaks English")
    then = clock.now()
    clock.advance(60)
    append_turns(conversations, "s", 30, start=41)
    conversations.task("s", "t", "Later")
    now, earlier = conversations.load("s"), conversations.load("s", as_of=then)
    assert (len(now.recent_history), now.folded) == (49, 21)
    assert (len(earlier.recent_history), earlier.folded) == (40, 0)
    assert earlier.active_tasks == []
    assert earlier.facts == ["User speaks English"]
    versions = conversations.versions("s")
    assert [version.kind for version in versions] == ["context", "summary", "context"]
    assert conversations.load("s", as_of=versions[1].seq - 1).folded == 0
    assert conversations.load("s", as_of=then - timedelta(days=1)).recent_history == []


@pytest.mark.requirement("CTX-10")
def test_fork_starts_at_the_given_turn_and_is_independent(conversations, append_turns):
    append_turns(conversations, "s", 70)
    conversations.add_fact("s", "User speaks English")
    turns = list(conversations.transcript("s"))
    assert conversations.fork("s", "early", at=turns[9].id)
    assert conversations.fork("s", "late")
    early, late, now = conversations.load("early"), conversations.load("late"), conversations.load("s")
    assert [turn.content for turn in early.turns] == [turn.content for turn in turns[:10]]
    assert early.long_term_summary == ""
    assert [turn.content for turn in conversations.transcript("late")] == [turn.content for turn in turns]
    assert [turn.content for turn in late.turns] == [turn.content for turn in now.turns]
    assert (late.long_term_summary, late.folded, late.facts) == (now.long_term_summary, now.folded, now.facts)
    conversations.append("late", "user", "Only here")
    assert len(list(conversations.transcript("s"))) == 70
    assert conversations.fork("s", "late").key.id == "late"
    assert conversations.fork("s", "new", at="no such turn").code == "not_found"
    assert conversations.fork("nowhere", "new").code == "not_found"
    conversations.delete("s")
    assert len(list(conversations.transcript("late"))) == 71


def test_erasing_a_turn_erases_its_facts_and_summary_and_the_rest_can_be_folded_again(
    conversations, memory, append_turns
):
    conversations.append("s", "user", "My name is Ingrid.")
    append_turns(conversations, "s", 59)
    secret = next(conversations.transcript("s"))
    assert "Ingrid" in conversations.load("s").long_term_summary
    memory.journal.erase(Key("shared", "turn", secret.id))
    context = conversations.load("s")
    assert "Ingrid" not in context.long_term_summary
    assert not any("Ingrid" in fact for fact in context.facts)
    assert len(context.recent_history) == 59
    assert conversations.compact("s")
    assert len(conversations.load("s").recent_history) == 30


def test_a_conversation_survives_an_export_of_the_log(conversations, memory, open_store, append_turns, tmp_path):
    append_turns(conversations, "s", 60)
    memory.export(tmp_path / "log.jsonl")
    other = open_store()
    other.journal.write("note", "Positions differ here.")
    other.import_(tmp_path / "log.jsonl")
    here, there = conversations.load("s"), other.context.load("s")
    assert [turn.id for turn in there.turns] == [turn.id for turn in here.turns]
    assert there.long_term_summary == here.long_term_summary


def test_the_example_of_the_document_runs():
    with lukasa.open("memory:", clock=FrozenClock()) as memory:
        context = memory.context.load("user:agent:123")
        assert isinstance(context, Context)
        context.recent_history.append(Turn("user", "Hello", timestamp=memory.context._clock.now(), token_count=1))
        context.facts.append("User speaks English")
        context.tool_stats["total_calls"] += 1
        assert memory.context.save(context)
        assert memory.context.list_sessions() == ["user:agent:123"]
