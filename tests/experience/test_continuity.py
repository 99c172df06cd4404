"""CONTINUITY.md: the block between the markers is updated, everything else stays byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.errors import FormatError
from lukasa.experience.continuity import SECTIONS, merge_sections

pytestmark = pytest.mark.requirement("EXP-13")
GOAL = "Implement POST /api/todos endpoint"


def test_a_new_file_names_goal_state_memories_and_mistakes(loki_memory, tmp_path):
    update = loki_memory.continuity.update(tmp_path / "CONTINUITY.md", goal=GOAL)
    text = update.path.read_text()
    assert update.changed
    assert [line for line in text.splitlines() if line.startswith("## ")] == [f"## {name}" for name in SECTIONS]
    assert f"## Current Goal\n{GOAL}\n" in text
    assert "- [sem-001] Express route handlers require explicit return types in strict mode\n" in text
    assert "- [skill: api-implementation] API Endpoint Implementation\n" in text
    assert "TypeScript compilation: Missing return type annotation" in text.partition("Mistakes")[2]
    assert "Handler doesn't return a value" not in text  # by reference, never the whole text


def test_a_current_file_is_not_written(loki_memory, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    loki_memory.continuity.update(path, goal=GOAL)
    before = path.stat()
    assert not loki_memory.continuity.update(path).changed
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_hand_written_parts_survive_byte_for_byte(loki_memory, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    mine = b"# Mine \xff\xfe\r\n\ttabs  \r\n\r\n## Notes\r\nkeep me\r\n"
    after = b"\r\n## Later\r\n```\r\n## Current Goal\r\nin code\r\n```\r\nno newline at the end"
    own = b"".join(f"## {name}\r\nmy own words on this\r\n\r\n".encode() for name in SECTIONS)
    path.write_bytes(mine + own + after)
    loki_memory.continuity.update(path, goal=GOAL)
    text = path.read_bytes()
    assert text.startswith(mine + own + after)
    block = text.removeprefix(mine + own + after)
    path.write_bytes(mine + block.replace(GOAL.encode(), b"Old goal") + own + after)
    loki_memory.continuity.update(path, goal=GOAL)
    assert path.read_bytes() == mine + block + own + after


def test_a_file_that_lost_its_end_marker_loses_no_text(loki_memory, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    loki_memory.continuity.update(path, goal=GOAL)
    broken = path.read_bytes().replace(b"<!-- lukasa:end -->", b"") + b"My notes\n"
    path.write_bytes(broken)
    loki_memory.continuity.update(path, goal=GOAL)
    assert path.read_bytes().startswith(broken)
    once = path.read_bytes()
    assert not loki_memory.continuity.update(path, goal=GOAL).changed
    assert path.read_bytes() == once


def test_the_goal_comes_from_episode_then_ledger_then_file(memory, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    path.write_text("## Current Goal\nWritten by hand\n\n## Notes\nmine\n")
    assert memory.continuity.update(path).goal == "Written by hand"
    memory.ledgers.checkpoint("eng", current_task="task-7", completed=3, context={"current_goal": "From the ledger"})
    assert memory.continuity.update(path, agent="eng").goal == "From the ledger"
    run = memory.episodes.start("From the episode", agent="eng")
    update = memory.continuity.update(path, agent="eng")
    assert update.goal == "From the episode"
    assert run.id in path.read_text()
    assert "- Current task: task-7\n" in path.read_text()
    assert "3 tasks completed" in path.read_text()
    run.finish()
    assert memory.continuity.update(path, agent="eng", goal="Said here").goal == "Said here"


def test_a_memory_cannot_break_out_of_its_line(memory, tmp_path):
    memory.knowledge.add_pattern(f"{GOAL}\n## Notes\nforged", confidence=1.0)
    path = tmp_path / "CONTINUITY.md"
    memory.continuity.update(path, goal=GOAL)
    assert "\n## Notes" not in path.read_text()


def test_a_file_that_is_too_large_is_refused_and_unchanged(local, tmp_path):
    path = tmp_path / "CONTINUITY.md"
    path.write_bytes(b"x" * 6_000_000)
    with pytest.raises(FormatError):
        local.continuity.update(path)
    assert path.stat().st_size == 6_000_000


SECTION = {name: ["- new"] for name in SECTIONS}
pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\n", b"\r\n", b"# Top\n", b"## Notes\n", b"### Deep\n", b"```\n", b"## Current Goal\nx\n"]),
    st.sampled_from([f"## {name}\n- old\n".encode() for name in SECTIONS]),
    st.sampled_from(
        [b"<!-- lukasa:begin -->\n", b"<!-- lukasa:end -->\n", b"<!-- lukasa:begin -->", b" <!-- lukasa:end -->"]
    ),
)


@given(st.lists(pieces, max_size=12).map(b"".join))
def test_merging_sections_twice_equals_merging_once(text):
    once = merge_sections(text, SECTION)
    assert merge_sections(once, SECTION) == once
    for name in SECTIONS:
        assert f"## {name}".encode() in once


@given(st.lists(pieces, max_size=12).map(b"".join), st.lists(pieces, max_size=12).map(b"".join))
def test_merging_sections_keeps_all_bytes_outside_of_the_block(before, after):
    if b"lukasa:" not in before:
        assert merge_sections(before, SECTION).startswith(before)
    if b"lukasa:" not in before + after and b"```" not in before + after and b"~~~" not in before + after:
        start = before + (b"" if before.endswith(b"\n") or not before else b"\n")
        block = b"<!-- lukasa:begin -->\nold\n<!-- lukasa:end -->\n"
        merged = merge_sections(start + block + after, SECTION)
        assert merged.startswith(start + b"<!-- lukasa:begin -->")
        assert merged.endswith(b"<!-- lukasa:end -->\n" + after)
        assert b"old" not in merged.removeprefix(start).removesuffix(after)
