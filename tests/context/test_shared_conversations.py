"""Several processes, crashes and damaged records: no turn is lost, and a conversation recovers."""

import apsw
import pytest

from lukasa.core.record import Draft, Key
from lukasa.errors import StoreBusy
from lukasa.storage.engine import Query
from support.store_reads import write_unchecked


@pytest.mark.requirement("CTX-6")
def test_two_processes_append_to_one_conversation_without_loss(location, open_store, processes):
    open_store(location)
    processes.finish(
        *(processes.start("append_turns", location=location, name=name, turns=60) for name in ("anna", "ben"))
    )
    conversations = open_store(location).context
    texts = [turn.content for turn in conversations.transcript("s")]
    assert sorted(texts) == sorted(f"{name} says {number}" for name in ("anna", "ben") for number in range(60))
    for name in ("anna", "ben"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} says {number}" for number in range(60)]
    context = conversations.load("s")
    assert context.folded + len(context.recent_history) == 120
    assert [turn.content for turn in context.turns] == texts[context.folded :]
    assert len(context.recent_history) <= 50


def test_one_process_compacts_while_another_appends(location, open_store, processes):
    open_store(location).context.append("s", "user", "anna says first")
    processes.finish(
        processes.start("append_turns", location=location, name="anna", turns=60),
        processes.start("compact", location=location, times=40),
    )
    conversations = open_store(location).context
    texts = [turn.content for turn in conversations.transcript("s")]
    context = conversations.load("s")
    assert len(texts) == 61
    assert context.folded + len(context.recent_history) == 61
    assert [turn.content for turn in context.turns] == texts[context.folded :]


def test_a_killed_process_loses_no_acknowledged_turn(database_file, open_store, processes):
    process = processes.start("append_turns", location=database_file, name="anna", turns=100_000)
    for _ in range(75):
        assert process.stdout.readline()
    acknowledged = 75 + len(processes.kill(process).splitlines())
    memory = open_store(database_file)
    context = memory.context.load("s")
    texts = [turn.content for turn in memory.context.transcript("s")]
    assert texts == [f"anna says {number}" for number in range(len(texts))]
    assert len(texts) >= acknowledged - 1  # the last line may be half a line
    assert [turn.content for turn in context.turns] == texts[context.folded :]
    assert memory.verify().sound


@pytest.mark.requirement("CTX-11")
def test_load_replaces_an_invalid_state_by_its_newest_valid_version(conversations, memory):
    conversations.append("s", "user", "Hello")
    conversations.task("s", "t", "Keep me")
    write_unchecked(memory, Draft("context", body={"active_tasks": "nonsense"}, id="s"))
    context = conversations.load("s")
    assert [task["description"] for task in context.active_tasks] == ["Keep me"]
    assert [turn.content for turn in context.turns] == ["Hello"]
    assert "version 2 serves instead" in context.recovered[0]
    assert conversations.append("s", "user", "Still here")
    context = conversations.load("s")
    context.system_state["healed"] = True
    assert conversations.save(context)
    again = conversations.load("s")
    assert (again.recovered, again.system_state["healed"], len(again.recent_history)) == ((), True, 2)


@pytest.mark.requirement("CTX-11")
def test_load_replaces_an_invalid_summary_by_its_newest_valid_version(conversations, memory, append_turns):
    append_turns(conversations, "s", 60)
    good = conversations.load("s")
    write_unchecked(memory, Draft("summary", body={"edge": 7}, id="s"))
    context = conversations.load("s")
    assert context.long_term_summary == good.long_term_summary
    assert [turn.id for turn in context.turns] == [turn.id for turn in good.turns]
    assert context.recovered
    append_turns(conversations, "s", 20, start=61)
    assert conversations.load("s").recovered == ()
    assert len(list(conversations.transcript("s"))) == 80


@pytest.mark.requirement("CTX-11")
def test_load_without_any_valid_summary_shows_the_whole_transcript(conversations, memory, append_turns):
    append_turns(conversations, "s", 10)
    write_unchecked(memory, Draft("summary", body={"text": 1}, id="s"))
    context = conversations.load("s")
    assert (context.long_term_summary, len(context.recent_history)) == ("", 10)
    assert "an empty one serves instead" in context.recovered[0]


def damage(database_file, kind, id):
    """Overwrite the newest log entry of a record in the database file."""
    with apsw.Connection(database_file) as database:
        database.execute(
            "UPDATE log SET line = '{garbage' WHERE seq = (SELECT max(seq) FROM log WHERE kind = ? AND id = ?)",
            (kind, id),
        )
    database.close()


@pytest.mark.requirement("CTX-11")
@pytest.mark.parametrize("kind", ["context", "summary"])
def test_load_recovers_from_a_damaged_record(database_file, open_store, append_turns, kind):
    memory = open_store(database_file)
    append_turns(memory.context, "s", 60)
    memory.context.task("s", "t", "Keep me")
    memory.context.task("s", "t", progress=0.5)
    append_turns(memory.context, "s", 25, start=61)
    good = memory.context.load("s")
    memory.close()
    damage(database_file, kind, "s")
    conversations = open_store(database_file).context
    context = conversations.load("s")
    assert context.recovered
    assert context.active_tasks[0]["description"] == "Keep me"
    assert "Message" in context.long_term_summary
    assert [turn.content for turn in context.turns][-1] == "Message 85"
    assert {turn.id for turn in good.turns} <= {turn.id for turn in context.turns}
    assert len(list(conversations.transcript("s"))) == 85
    if kind == "context":
        assert conversations.append("s", "user", "It goes on")


@pytest.mark.requirement("CTX-11")
def test_load_leaves_out_a_damaged_turn_and_reports_it(database_file, open_store, append_turns):
    memory = open_store(database_file)
    append_turns(memory.context, "s", 12)
    ids = [turn.id for turn in memory.context.transcript("s")]
    memory.close()
    damage(database_file, "turn", ids[4])
    damage(database_file, "turn", ids[9])
    conversations = open_store(database_file).context
    context = conversations.load("s")
    assert [turn.id for turn in context.turns] == [id for index, id in enumerate(ids) if index not in (4, 9)]
    assert "cannot be read" in context.recovered[0]


def test_load_works_after_the_folded_turns_are_deleted(conversations, memory, append_turns):
    append_turns(conversations, "s", 60)
    for turn in list(conversations.transcript("s"))[:21]:
        memory.journal.delete(Key("shared", "turn", turn.id))
    assert len(conversations.load("s").recent_history) == 39
    memory.compact()
    assert len(conversations.load("s").recent_history) == 39


def test_quarantine_of_a_speaker_hides_derived_facts_and_summaries(conversations, memory, append_turns):
    conversations.append("s", "user", "I live in Oslo.", speaker="mallory")
    append_turns(conversations, "s", 55)
    assert "Oslo" in conversations.load("s").long_term_summary
    memory.journal.quarantine("mallory")
    context = conversations.load("s")
    assert "Oslo" not in context.long_term_summary
    assert not any("Oslo" in fact for fact in context.facts)
    memory.journal.release("mallory")
    assert "Oslo" in conversations.load("s").long_term_summary


def test_append_writes_only_the_new_turn(conversations, memory, append_turns):
    append_turns(conversations, "s", 3)
    tip = memory.journal.tip()
    conversations.append("s", "user", "One more")
    records = list(memory.journal.read(Query(after=tip, every_version=True)))
    assert [(record.kind, record.version) for record in records] == [("turn", 1)]


def test_append_succeeds_when_its_compaction_fails(conversations, memory, append_turns, monkeypatch):
    append_turns(conversations, "s", 50)
    append = memory.context._journal.append

    def fail_summaries(drafts, **more):
        if any(draft.kind == "summary" for draft in drafts):
            raise StoreBusy
        return append(drafts, **more)

    monkeypatch.setattr(memory.context._journal, "append", fail_summaries)
    assert conversations.append("s", "user", "Message 51")
    assert len(conversations.load("s").recent_history) == 51
    monkeypatch.setattr(memory.context._journal, "append", append)
    assert conversations.append("s", "user", "Message 52")
    assert len(conversations.load("s").recent_history) == 30
