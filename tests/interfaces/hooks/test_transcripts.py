"""Transcripts of Claude Code, whatever is in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.transfer.layouts.claude_code import parse_transcript, read_transcript

pytestmark = pytest.mark.requirement("DOO-3")


def line(role, content, uuid="u", **more):
    return {
        "type": role,
        "uuid": uuid,
        "timestamp": "2026-03-01T10:00:00Z",
        "message": {"role": role, "content": content},
        **more,
    }


def test_what_is_not_said_in_the_main_conversation_is_passed_over():
    told = parse_transcript(
        [
            {"type": "summary", "summary": "x"},
            line("user", "the program's own", isMeta=True),
            line("assistant", "a sub-agent", isSidechain=True),
            line("assistant", [{"type": "thinking", "thinking": "hm"}]),
            line("user", "<command-name>/clear</command-name>", "u1"),
            line("user", "Do it", "u2"),
        ]
    )
    assert [said.turn["content"] for said in told.turns][-1] == "Do it"
    assert told.goal == "Do it"
    assert not told.is_finished


def test_what_our_own_tools_brought_is_not_kept_as_if_it_had_been_said():
    call = {"type": "tool_use", "id": "t", "name": "mcp__lukasa__recall", "input": {"query": "x"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "an old memory"}]}
    told = parse_transcript([line("user", "Go"), line("assistant", [call], "a"), line("user", [result], "b")])
    assert "an old memory" not in str([said.turn for said in told.turns])


def test_lines_that_are_damaged_are_passed_over(tmp_path):
    path = tmp_path / "t.jsonl"
    good = json.dumps(line("user", "Hello"))
    path.write_bytes(b"\xff\xfe garbage\n" + good.encode() + b"\n" + b"[" * 100_000 + b"\n" + good.encode()[:40])
    assert [said.turn["content"] for said in read_transcript(path).turns] == ["Hello"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "other"])},
    optional={
        "text": JSON,
        "id": JSON,
        "name": JSON,
        "input": JSON,
        "tool_use_id": JSON,
        "content": JSON,
        "is_error": JSON,
    },
)
LINE = st.fixed_dictionaries(
    {"message": st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]) | JSON, "content": st.lists(BLOCK, max_size=3) | JSON})},
    optional={"uuid": JSON, "timestamp": JSON, "isMeta": JSON},
)  # fmt: skip


@given(st.lists(LINE | st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=6))
def test_no_shape_of_a_line_is_an_error(lines):
    told = parse_transcript(lines)
    assert all(isinstance(said.turn["content"], str) for said in told.turns)
    assert len({said.uuid for said in told.turns}) <= len(told.turns)
