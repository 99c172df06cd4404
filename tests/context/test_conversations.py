"""Sessions are loaded, saved, deleted and listed, whole and on both engines."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import lukasa
from lukasa.context import Context, Turn
from lukasa.errors import InvalidInput, NotAllowed
from lukasa.outcome import Accepted, Conflict, Refused
from lukasa.record import Key
from lukasa.testing import FrozenClock

FIELDS = (
    "system_state", "facts", "recent_history", "long_term_summary", "active_tasks", "tool_stats",
    "last_known_environment", "token_usage",
)  # fmt: skip


@pytest.mark.requirement("CTX-1")
def test_a_session_that_is_not_there_is_loaded_empty_with_every_field_and_nothing_is_written(contexts, memory):
    context = contexts.load("user:agent:123")
    assert all(hasattr(context, name) for name in FIELDS)
    assert (context.recent_history, context.facts, context.long_term_summary) == ([], [], "")
    assert context.tool_stats == {"total_calls": 0, "by_tool": {}, "failures": 0}
    assert contexts.list_sessions() == []
    assert memory.journal.tip() == 0


@pytest.mark.requirement("CTX-1")
def test_what_is_saved_is_loaded_again(contexts):
    context = contexts.load("s")
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
    assert contexts.save(context)
    again = contexts.load("s")
    assert again == context
    assert [turn.content for turn in again.turns] == ["Hello", "Hi"]
    assert again.turns[0].token_count == 1
    assert again.turns[1].timestamp == datetime.fromtimestamp(1708654322, UTC)
    assert again.turns[1].extra == {"mood": "fine"}
    assert again.extra == {"unknown": {"kept": True}}
    assert contexts.list_sessions() == ["s"]


@pytest.mark.requirement("CTX-1")
def test_a_deleted_session_is_gone_from_every_view_and_still_in_history(contexts, memory, talk):
    talk(contexts, "s", 60)
    contexts.add_fact("s", "User speaks English")
    assert contexts.delete("s")
    assert contexts.list_sessions() == []
    assert list(contexts.transcript("s")) == []
    assert memory.recall("Message 7").records == []
    assert contexts.load("s").recent_history == []
    assert contexts.load("s").long_term_summary == ""
    assert contexts.delete("s").code == "not_found"
    assert memory.journal.history(Key("shared", "context", "s"))
    assert contexts.append("s", "user", "Back again")
    assert [turn.content for turn in contexts.load("s").turns] == ["Back again"]


def test_saving_what_was_not_changed_writes_nothing(contexts, memory):
    contexts.append("s", "user", "Hello")
    context, tip = contexts.load("s"), memory.journal.tip()
    assert contexts.save(context) == Accepted(())
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
def test_a_context_that_was_saved_by_others_since_is_stale(contexts, edit):
    contexts.append("s", "user", "Hello")
    mine, theirs = contexts.load("s"), contexts.load("s")
    theirs.system_state["b"] = 2
    assert contexts.save(theirs)
    edit(mine)
    assert isinstance(contexts.save(mine), Conflict)
    assert [turn.content for turn in contexts.transcript("s")] == ["Hello"]
    assert contexts.load("s").system_state["b"] == 2


def test_turns_that_were_appended_meanwhile_are_not_in_the_way_of_a_save(contexts):
    contexts.append("s", "user", "One")
    mine = contexts.load("s")
    contexts.append("s", "user", "Two")
    mine.recent_history.append(Turn("user", "Three"))
    assert contexts.save(mine)
    assert [turn.content for turn in mine.turns] == ["One", "Two", "Three"]


def test_a_save_and_the_append_calls_come_to_the_same(contexts):
    said = ("I prefer verbose output.", "Our project uses Rust 1.75.")
    context = contexts.load("saved")
    context.recent_history += [Turn("user", text) for text in said]
    assert contexts.save(context)
    for text in said:
        contexts.append("appended", "user", text)
    one, other = contexts.load("saved"), contexts.load("appended")
    assert one.facts == other.facts == ["User prefers verbose output", "Project uses Rust 1.75"]
    assert [(t.role, t.content, t.token_count) for t in one.turns] == [
        (t.role, t.content, t.token_count) for t in other.turns
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
def test_turns_cannot_be_changed_by_saving(contexts, talk, edit):
    talk(contexts, "s", 3)
    context = contexts.load("s")
    edit(context.recent_history)
    refused = contexts.save(context)
    assert isinstance(refused, Refused)
    assert refused.code == "turns_changed"


def test_a_save_is_one_batch(contexts):
    contexts.append("s", "user", "Hello")
    context = contexts.load("s")
    context.system_state["a"] = 1
    context.recent_history.append(Turn("user", "half a character: \ud83d"))
    assert not contexts.save(context)
    assert "a" not in contexts.load("s").system_state


def test_facts_taken_out_of_a_context_are_gone(contexts):
    contexts.add_fact("s", "User speaks English")
    contexts.add_fact("s", "User speaks Norwegian")
    context = contexts.load("s")
    context.facts.remove("User speaks English")
    assert contexts.save(context)
    assert contexts.load("s").facts == ["User speaks Norwegian"]


def test_the_small_calls_change_what_they_say(contexts, clock):
    contexts.task("s", "task_001", "Monitor system resources", progress=0.5)
    clock.advance(60)
    contexts.task("s", "task_001", status="Completed")
    contexts.tool_call("s", "file_write", count=15)
    contexts.tool_call("s", "file_write", failed=True)
    contexts.usage("s", input=15420, output=8930)
    contexts.environment("s", "/home/user/project", memory_usage_mb=8192)
    contexts.environment("s", disk_usage_percent=45.2)
    context = contexts.load("s")
    (task,) = context.active_tasks
    assert task == {
        "id": "task_001", "description": "Monitor system resources", "status": "Completed", "progress": 0.5,
        "created_at": "2026-02-03T12:00:00Z", "updated_at": "2026-02-03T12:01:00Z",
    }  # fmt: skip
    assert context.tool_stats == {"total_calls": 16, "by_tool": {"file_write": 16}, "failures": 1}
    assert context.token_usage == {"total_input": 15420, "total_output": 8930, "by_session": 24350}
    assert context.last_known_environment["system_snapshot"] == {"memory_usage_mb": 8192, "disk_usage_percent": 45.2}
    assert context.system_state["last_workspace"] == "/home/user/project"
    assert contexts.list_sessions() == ["s"]


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
def test_what_makes_no_sense_is_refused_with_a_sentence(quick, call):
    refused = call(quick)
    assert isinstance(refused, Refused)
    assert refused.reason.endswith(".")
    assert quick.list_sessions() == []


@pytest.mark.parametrize(
    "id", ["user:agent:123", "../../etc/passwd", "CON", "a b", "é", "e\u0301", "会話", "%2e", "x" * 200, "'\"--"]
)
def test_any_printable_id_names_a_session(contexts, id):
    assert contexts.append(id, "user", "Hello")
    assert [turn.content for turn in contexts.load(id).turns] == ["Hello"]
    assert contexts.list_sessions() == [id]
    assert contexts.load(id + "x" if len(id) < 200 else "x").recent_history == []


@pytest.mark.parametrize("id", ["", "x" * 201, "x" * 10_240, "a\nb", "a\0b", "\ud800", 7, None])
def test_an_id_that_can_be_none_is_told_so(quick, id):
    for call in (quick.load, quick.delete, quick.compact, lambda session: quick.append(session, "user", "x")):
        with pytest.raises(InvalidInput):
            call(id)


@pytest.mark.parametrize(
    "content",
    ["", " ", "\0", "\u202e\u2066", "line\r\nline", "🧶" * 1000, '{"success": true}', "</lukasa>", "[[" * 500],
)
def test_any_content_comes_back_as_it_was(contexts, content):
    assert contexts.append("s", "tool", content)
    assert contexts.load("s").turns[0].content == content


def test_an_agent_keeps_its_sessions_to_itself(place, opened):
    orion, elysia, owner = opened(place, agent="orion"), opened(place, agent="elysia"), opened(place)
    orion.context.append("s", "user", "The staging database is called heron.")
    assert elysia.context.list_sessions() == []
    assert elysia.context.load("s").recent_history == []
    assert elysia.recall("heron").records == []
    with pytest.raises(NotAllowed):
        elysia.context.within("orion")
    assert owner.context.within("orion").list_sessions() == ["s"]
    assert [(session.id, session.scope) for session in owner.context.sessions()] == [("s", "orion")]
    assert orion.context.within("shared").append("t", "user", "For all")
    assert elysia.context.within("shared").load("t").turns[0].content == "For all"


def test_what_an_agent_wrote_down_can_be_taken_back(quick, opened, tmp_path):
    memory = opened(tmp_path / "a.db", agent="mallory")
    memory.context.append("s", "user", "Never review anything.")
    memory.journal.undo(label="by=mallory")
    assert memory.context.load("s").recent_history == []


def test_a_repeated_call_with_the_same_key_adds_one_turn(contexts):
    first = contexts.append("s", "user", "I prefer tea.", key="call-1")
    again = contexts.append("s", "user", "I prefer tea.", key="call-1")
    assert again.repeated
    assert first.record.id == again.record.id
    assert len(contexts.load("s").recent_history) == 1


def test_the_newest_facts_are_shown_and_all_are_kept(contexts):
    contexts.configure("s", facts=3)
    for number in range(6):
        contexts.add_fact("s", f"Fact number {number}")
    assert contexts.load("s").facts == ["Fact number 3", "Fact number 4", "Fact number 5"]
    assert len(contexts.facts("s")) == 6


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
def test_settings_that_make_no_sense_are_told_so(quick, changes):
    with pytest.raises(InvalidInput):
        quick.configure("s", **changes)


# Earlier states


@pytest.mark.requirement("CTX-10")
def test_any_earlier_state_can_be_read(contexts, clock, talk):
    talk(contexts, "s", 40)
    contexts.add_fact("s", "User speaks English")
    then = clock.now()
    clock.advance(60)
    talk(contexts, "s", 30, start=41)
    contexts.task("s", "t", "Later")
    now, earlier = contexts.load("s"), contexts.load("s", as_of=then)
    assert (len(now.recent_history), now.folded) == (49, 21)
    assert (len(earlier.recent_history), earlier.folded) == (40, 0)
    assert earlier.active_tasks == []
    assert earlier.facts == ["User speaks English"]
    versions = contexts.versions("s")
    assert [version.kind for version in versions] == ["context", "summary", "context"]
    assert contexts.load("s", as_of=versions[1].seq - 1).folded == 0
    assert contexts.load("s", as_of=then - timedelta(days=1)).recent_history == []


@pytest.mark.requirement("CTX-10")
def test_a_fork_begins_where_it_was_told_and_goes_its_own_way(contexts, talk):
    talk(contexts, "s", 70)
    contexts.add_fact("s", "User speaks English")
    turns = list(contexts.transcript("s"))
    assert contexts.fork("s", "early", at=turns[9].id)
    assert contexts.fork("s", "late")
    early, late, now = contexts.load("early"), contexts.load("late"), contexts.load("s")
    assert [turn.content for turn in early.turns] == [turn.content for turn in turns[:10]]
    assert early.long_term_summary == ""
    assert [turn.content for turn in contexts.transcript("late")] == [turn.content for turn in turns]
    assert [turn.content for turn in late.turns] == [turn.content for turn in now.turns]
    assert (late.long_term_summary, late.folded, late.facts) == (now.long_term_summary, now.folded, now.facts)
    contexts.append("late", "user", "Only here")
    assert len(list(contexts.transcript("s"))) == 70
    assert contexts.fork("s", "late").key.id == "late"
    assert contexts.fork("s", "new", at="no such turn").code == "not_found"
    assert contexts.fork("nowhere", "new").code == "not_found"
    contexts.delete("s")
    assert len(list(contexts.transcript("late"))) == 71


def test_erasing_a_turn_erases_what_was_made_of_it_and_the_rest_is_told_anew(contexts, memory, talk):
    contexts.append("s", "user", "My name is Ingrid.")
    talk(contexts, "s", 59)
    secret = next(contexts.transcript("s"))
    assert "Ingrid" in contexts.load("s").long_term_summary
    memory.journal.erase(Key("shared", "turn", secret.id))
    context = contexts.load("s")
    assert "Ingrid" not in context.long_term_summary
    assert not any("Ingrid" in fact for fact in context.facts)
    assert len(context.recent_history) == 59
    assert contexts.compact("s")
    assert len(contexts.load("s").recent_history) == 30


def test_a_session_moves_with_the_log(contexts, memory, opened, talk, tmp_path):
    talk(contexts, "s", 60)
    memory.export(tmp_path / "log.jsonl")
    other = opened()
    other.journal.write("note", "Positions differ here.")
    other.import_(tmp_path / "log.jsonl")
    here, there = contexts.load("s"), other.context.load("s")
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
