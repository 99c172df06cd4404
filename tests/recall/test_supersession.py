"""Recall puts the newest statement about a subject first and shows which earlier ones it supersedes."""

from __future__ import annotations

from datetime import timedelta

import pytest

import lukasa
from lukasa import Link
from lukasa.interfaces.serialise import recall_json
from lukasa.recall.recall import build_prompt_block
from lukasa.testing import FrozenClock
from lukasa_bench.quality import updates

SAID = ["Deploys run on Tuesday.", "We moved deploys to Thursday.", "The deploy day is now Friday."]


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture(params=["memory:", "postgresql"])
def memory(request, clock):
    location = request.getfixturevalue("url") if request.param == "postgresql" else request.param
    with lukasa.open(location, embedder="static", clock=clock) as opened:
        yield opened


def texts(result):
    return [hit.text for hit in result.hits]


def say(memory, clock, *said, speaker="user"):
    for text in said:
        assert memory.context.append("s1", "user", text, speaker=speaker)
        clock.advance(86_400)


@pytest.mark.requirement("RCL-7")
@pytest.mark.parametrize("kind", ["memory", "turn"])
def test_the_newest_statement_comes_first_and_the_earlier_ones_are_marked(memory, clock, kind):
    for text in (*SAID, "Lunch is at noon."):
        assert memory.remember(text) if kind == "memory" else memory.context.append("s1", "user", text)
        clock.advance(86_400)
    result = memory.recall("When do deploys run?", 3, kinds=(kind,))
    assert texts(result) == SAID[::-1]
    newest, *earlier = result.hits
    assert newest.superseded_by is None
    assert [other.record.text for other in newest.supersedes] == SAID[1::-1]
    assert [hit.superseded_by.id for hit in earlier] == [newest.record.id] * 2
    assert earlier[0].superseded_by.at == newest.record.moment
    assert f"superseded by {newest.record.id}" in earlier[0].why
    assert texts(memory.recall("When do deploys run?", 1, kinds=(kind,))) == SAID[2:]


@pytest.mark.requirement("RCL-7")
def test_json_and_blocks_say_what_is_superseded_and_how_old_it_is(memory, clock):
    say(memory, clock, *SAID[:2])
    result = memory.recall("When do deploys run?", kinds=("turn",))
    newest, older = result.hits
    shown = recall_json(result)["hits"]
    assert shown[1]["superseded_by"] == {
        "scope": newest.record.scope,
        "kind": "turn",
        "id": newest.record.id,
        "at": shown[0]["record"]["happened_at"] or shown[0]["record"]["recorded_at"],
    }
    assert [other["id"] for other in shown[0]["supersedes"]] == [older.record.id]
    assert "left_out" not in recall_json(result)
    block = build_prompt_block(result).text
    assert block.index("Thursday") < block.index("Tuesday")
    assert f"2 days ago · superseded by {newest.record.key}" in block


@pytest.mark.requirement("RCL-7")
def test_statements_of_different_subjects_and_speakers_are_not_marked(memory, clock):
    say(memory, clock, "Anna lives in Paris.", "Ben moved to Berlin.", speaker="Cleo")
    say(memory, clock, "I live in Oslo.", speaker="Anna")
    say(memory, clock, "I moved to Bergen.", speaker="Ben")
    for question in ("Where does Anna live?", "Who moved where?"):
        result = memory.recall(question, kinds=("turn",))
        marked = {(hit.text, hit.superseded_by.record.text) for hit in result.hits if hit.superseded_by}
        # both are said of Anna and of Ben, by others and by themselves
        assert marked == {("Anna lives in Paris.", "I live in Oslo."), ("Ben moved to Berlin.", "I moved to Bergen.")}


@pytest.mark.requirement("RCL-7")
@pytest.mark.parametrize("question", ["When did deploys run originally?", "Give me a summary of the deploy days."])
def test_a_question_about_the_past_keeps_the_order_and_shows_the_marks(memory, clock, question):
    say(memory, clock, *SAID[:2])
    hits = memory.recall(question, kinds=("turn",)).hits
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert [hit.text for hit in hits if hit.superseded_by] == SAID[:1]


@pytest.mark.requirement("RCL-7")
def test_a_confirmed_memory_counts_as_said_at_its_confirmation(memory, clock):
    record = memory.remember(SAID[0]).record
    clock.advance(86_400)
    memory.remember("Deploys run on Thursday, not on another day of the week")
    clock.advance(86_400)
    assert texts(memory.recall("When do deploys run?", kinds=("memory",)))[0] != SAID[0]
    assert memory.confirm(record.id)
    assert texts(memory.recall("When do deploys run?", kinds=("memory",)))[0] == SAID[0]


@pytest.mark.requirement("RCL-7")
def test_an_earlier_state_knows_no_later_statement(memory, clock):
    say(memory, clock, SAID[0])
    before = clock.now() - timedelta(hours=1)
    say(memory, clock, SAID[1])
    (hit,) = memory.recall("When do deploys run?", kinds=("turn",), as_of=before).hits
    assert (hit.text, hit.superseded_by) == (SAID[0], None)


@pytest.mark.requirement("RCL-7")
def test_a_link_says_what_a_record_supersedes(memory, clock):
    old = memory.journal.write("note", "The wall in the hall is painted white").record
    clock.advance(86_400)
    link = Link("supersedes", old.key)
    memory.journal.write("note", "Somebody chose a warm yellow for the hall", links=(link,))
    hits = memory.recall("Which colour has the wall in the hall?", kinds=("note",)).hits
    assert [hit.superseded_by is None for hit in hits] == [True, False]


@pytest.mark.requirement("RCL-7")
def test_the_development_set_meets_its_bars():
    rows = updates.measure("static")
    assert {row.case: row.value for row in rows if row.meets_bar is False} == {}
    assert sum(row.meets_bar is not None for row in rows) == 4
