"""Many processes, crashes and damage: no turn is lost, and what is left of a session is found again."""

import apsw
import pytest

from lukasa.errors import StoreBusy
from lukasa.record import Key
from lukasa.storage.engine import Query


@pytest.mark.requirement("CTX-6")
def test_two_processes_append_to_one_session_without_loss(place, opened, company):
    opened(place)
    company.finish(*(company.start("talk", place=place, name=name, turns=60) for name in ("anna", "ben")))
    contexts = opened(place).context
    said = [turn.content for turn in contexts.transcript("s")]
    assert sorted(said) == sorted(f"{name} says {number}" for name in ("anna", "ben") for number in range(60))
    for name in ("anna", "ben"):
        assert [text for text in said if text.startswith(name)] == [f"{name} says {number}" for number in range(60)]
    context = contexts.load("s")
    assert context.folded + len(context.recent_history) == 120
    assert [turn.content for turn in context.turns] == said[context.folded :]
    assert len(context.recent_history) <= 50


def test_one_process_compacts_while_another_appends(place, opened, company):
    opened(place).context.append("s", "user", "anna says first")
    company.finish(
        company.start("talk", place=place, name="anna", turns=60), company.start("compact", place=place, times=40)
    )
    contexts = opened(place).context
    said = [turn.content for turn in contexts.transcript("s")]
    context = contexts.load("s")
    assert len(said) == 61
    assert context.folded + len(context.recent_history) == 61
    assert [turn.content for turn in context.turns] == said[context.folded :]


def test_a_process_that_is_killed_loses_nothing_it_was_told_is_kept(file, opened, company):
    process = company.start("talk", place=file, name="anna", turns=100_000)
    for _ in range(75):
        assert process.stdout.readline()
    acknowledged = 75 + len(company.kill(process).splitlines())
    memory = opened(file)
    context = memory.context.load("s")
    said = [turn.content for turn in memory.context.transcript("s")]
    assert said == [f"anna says {number}" for number in range(len(said))]
    assert len(said) >= acknowledged - 1  # the last line may be half a line
    assert [turn.content for turn in context.turns] == said[context.folded :]
    assert memory.verify().sound


@pytest.mark.requirement("CTX-11")
def test_a_state_that_makes_no_sense_is_replaced_by_the_newest_that_does(contexts, memory):
    contexts.append("s", "user", "Hello")
    contexts.task("s", "t", "Keep me")
    memory.journal.write("context", body={"active_tasks": "nonsense"}, id="s")
    context = contexts.load("s")
    assert [task["description"] for task in context.active_tasks] == ["Keep me"]
    assert [turn.content for turn in context.turns] == ["Hello"]
    assert "version 2 serves instead" in context.recovered[0]
    assert contexts.append("s", "user", "Still here")
    context = contexts.load("s")
    context.system_state["healed"] = True
    assert contexts.save(context)
    again = contexts.load("s")
    assert (again.recovered, again.system_state["healed"], len(again.recent_history)) == ((), True, 2)


@pytest.mark.requirement("CTX-11")
def test_a_summary_that_makes_no_sense_is_replaced_by_the_newest_that_does(contexts, memory, talk):
    talk(contexts, "s", 60)
    good = contexts.load("s")
    memory.journal.write("summary", body={"edge": 7}, id="s")
    context = contexts.load("s")
    assert context.long_term_summary == good.long_term_summary
    assert [turn.id for turn in context.turns] == [turn.id for turn in good.turns]
    assert context.recovered
    talk(contexts, "s", 20, start=61)
    assert contexts.load("s").recovered == ()
    assert len(list(contexts.transcript("s"))) == 80


@pytest.mark.requirement("CTX-11")
def test_a_summary_without_any_sense_leaves_the_whole_transcript(contexts, memory, talk):
    talk(contexts, "s", 10)
    memory.journal.write("summary", body={"text": 1}, id="s")
    context = contexts.load("s")
    assert (context.long_term_summary, len(context.recent_history)) == ("", 10)
    assert "an empty one serves instead" in context.recovered[0]


def damage(file, kind, id):
    """Garbles the newest line of a record behind the store's back."""
    with apsw.Connection(file) as database:
        database.execute(
            "UPDATE log SET line = '{garbage' WHERE seq = (SELECT max(seq) FROM log WHERE kind = ? AND id = ?)",
            (kind, id),
        )
    database.close()


@pytest.mark.requirement("CTX-11")
@pytest.mark.parametrize("kind", ["context", "summary"])
def test_a_record_that_cannot_be_read_does_not_take_the_session_with_it(file, opened, talk, kind):
    memory = opened(file)
    talk(memory.context, "s", 60)
    memory.context.task("s", "t", "Keep me")
    memory.context.task("s", "t", progress=0.5)
    talk(memory.context, "s", 25, start=61)
    good = memory.context.load("s")
    memory.close()
    damage(file, kind, "s")
    contexts = opened(file).context
    context = contexts.load("s")
    assert context.recovered
    assert context.active_tasks[0]["description"] == "Keep me"
    assert "Message" in context.long_term_summary
    assert [turn.content for turn in context.turns][-1] == "Message 85"
    assert {turn.id for turn in good.turns} <= {turn.id for turn in context.turns}
    assert len(list(contexts.transcript("s"))) == 85
    if kind == "context":
        assert contexts.append("s", "user", "It goes on")


@pytest.mark.requirement("CTX-11")
def test_a_turn_that_cannot_be_read_is_left_out_and_told(file, opened, talk):
    memory = opened(file)
    talk(memory.context, "s", 12)
    ids = [turn.id for turn in memory.context.transcript("s")]
    memory.close()
    damage(file, "turn", ids[4])
    damage(file, "turn", ids[9])
    contexts = opened(file).context
    context = contexts.load("s")
    assert [turn.id for turn in context.turns] == [id for at, id in enumerate(ids) if at not in (4, 9)]
    assert "cannot be read" in context.recovered[0]


def test_a_session_whose_folded_turns_are_deleted_still_loads(contexts, memory, talk):
    talk(contexts, "s", 60)
    for turn in list(contexts.transcript("s"))[:21]:
        memory.journal.delete(Key("shared", "turn", turn.id))
    assert len(contexts.load("s").recent_history) == 39
    memory.compact()
    assert len(contexts.load("s").recent_history) == 39


def test_hiding_a_speaker_hides_what_was_told_of_them(contexts, memory, talk):
    contexts.append("s", "user", "I live in Oslo.", speaker="mallory")
    talk(contexts, "s", 55)
    assert "Oslo" in contexts.load("s").long_term_summary
    memory.journal.quarantine("mallory")
    context = contexts.load("s")
    assert "Oslo" not in context.long_term_summary
    assert not any("Oslo" in fact for fact in context.facts)
    memory.journal.release("mallory")
    assert "Oslo" in contexts.load("s").long_term_summary


def test_appending_touches_no_record_but_its_own(contexts, memory, talk):
    talk(contexts, "s", 3)
    tip = memory.journal.tip()
    contexts.append("s", "user", "One more")
    written = list(memory.journal.read(Query(after=tip, every_version=True)))
    assert [(record.kind, record.version) for record in written] == [("turn", 1)]


def test_trouble_with_a_compaction_does_not_make_an_append_fail(contexts, memory, talk, monkeypatch):
    talk(contexts, "s", 50)
    append = memory.journal.append

    def busy(drafts, **more):
        if any(draft.kind == "summary" for draft in drafts):
            raise StoreBusy
        return append(drafts, **more)

    monkeypatch.setattr(memory.journal, "append", busy)
    assert contexts.append("s", "user", "Message 51")
    assert len(contexts.load("s").recent_history) == 51
    monkeypatch.setattr(memory.journal, "append", append)
    assert contexts.append("s", "user", "Message 52")
    assert len(contexts.load("s").recent_history) == 30
