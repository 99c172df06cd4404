"""Large texts of hostile shapes at every operation that takes text: none takes more than a second or 200 MB."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lukasa
from faults.hostile_walk import Place, fill, measure
from lukasa.recall.recall import MAX_QUESTION_LENGTH
from support.hostile_shapes import SHAPES, draw_shape

pytestmark = [
    pytest.mark.requirement("LOG-11"),
    pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc"),
]
SIZE = 900_000  # bytes; a little less than a record may have, so that the text is not refused for its size
MAX_SECONDS, MAX_MEGABYTES = 1.0, 200.0
DOORS = ("library", "http", "mcp", "hooks", "cli")
PARTS = 8


def walk(door, *words):
    """Walk a door in a fresh process; return its measures."""
    program = Path(__file__).with_name("hostile_walk.py")
    done = subprocess.run(
        [sys.executable, program, door, str(SIZE), *words], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    measures = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    assert measures
    return measures


def too_costly(measures):
    return [each for each in measures if each[2] > MAX_SECONDS or each[3] > MAX_MEGABYTES]


@pytest.mark.parametrize("door", DOORS)
def test_no_operation_takes_long_or_much_memory_for_a_hostile_text(door):
    """Each place of the door gets one shape, so that in a large door all shapes come."""
    measures = walk(door, "0", "1")
    assert too_costly(measures) == []
    assert len({shape for _, shape, *_ in measures}) >= min(len(measures), len(SHAPES))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("door", DOORS)
def test_no_operation_takes_long_or_much_memory_for_any_hostile_text(door, part):
    assert too_costly(walk(door, str(part), str(PARTS), "all")) == []


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    with lukasa.open(tmp_path_factory.mktemp("hostile") / "memory.db", embedder="hash") as memory:
        fill(memory)
        turns = [
            {"role": "user", "content": f"a.b {n} is version 1.{n} of 2024-01-0{n % 9} a {n}"} for n in range(1_500)
        ]
        assert memory.context.extend("versions", turns)
        memory.before_task("Plan the next deploy")  # so that everything is loaded
        yield memory


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_a_question_and_words_of_a_hostile_shape_are_answered_soon(memory, shape):
    text = f"Plan: {draw_shape(shape, SIZE)}"
    for answer in (
        memory.before_task,
        memory.retrieve_relevant_memory,
        memory.recall,
        memory.journal.find,
        memory.skills.search,
    ):
        started = time.process_time()
        answer(text)
        assert time.process_time() - started < MAX_SECONDS, answer


@pytest.mark.parametrize("shape", ["letters and full stops", "dates that do not end", "Chinese characters"])
def test_a_task_of_a_hostile_shape_takes_little_memory(memory, shape):
    for answer in (memory.before_task, memory.journal.find):
        assert measure(Place("", answer), shape, 100_000).megabytes < MAX_MEGABYTES, answer


def test_an_answer_says_that_only_the_beginning_of_a_long_question_was_read(memory):
    question = "When did we move service 7 to Monday? "
    long = memory.recall(question + "x" * MAX_QUESTION_LENGTH, 3)
    assert f"first {MAX_QUESTION_LENGTH:,} characters" in long.note
    assert [hit.record.key for hit in long.hits] == [hit.record.key for hit in memory.recall(question, 3).hits]
    assert "characters" not in memory.recall(question.ljust(MAX_QUESTION_LENGTH), 3).note


def test_a_subject_of_a_whole_book_is_refused_before_the_store_is_read(memory):
    for call in (memory.journal.erase, memory.journal.preview_erase):
        with pytest.raises(lukasa.InvalidInput, match="at most 10,000"):
            call(subject="joined " * 2_000)
