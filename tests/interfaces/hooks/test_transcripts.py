"""Parsing transcripts of Claude Code with any content."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.transfer.layouts.agent_transcripts import parse_transcript, read_transcript

pytestmark = pytest.mark.requirement("DOO-3")


def build_line(role, content, uuid="u", **more):
    """Return a line of a transcript."""
    return {
        "type": role,
        "uuid": uuid,
        "timestamp": "2026-03-01T10:00:00Z",
        "message": {"role": role, "content": content},
        **more,
    }


def test_parsing_skips_lines_outside_the_main_conversation():
    transcript = parse_transcript(
        [
            {"type": "summary", "summary": "x"},
            build_line("user", "the program's own", isMeta=True),
            build_line("assistant", "a sub-agent", isSidechain=True),
            build_line("assistant", [{"type": "thinking", "thinking": "hm"}]),
            build_line("user", "<command-name>/clear</command-name>", "u1"),
            build_line("user", "Do it", "u2"),
        ]
    )
    assert [entry.turn["content"] for entry in transcript.turns][-1] == "Do it"
    assert transcript.goal == "Do it"
    assert not transcript.is_finished


def test_parsing_omits_results_of_our_tools():
    call = {"type": "tool_use", "id": "t", "name": "mcp__lukasa__recall", "input": {"query": "x"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "an old memory"}]}
    transcript = parse_transcript(
        [build_line("user", "Go"), build_line("assistant", [call], "a"), build_line("user", [result], "b")]
    )
    assert "an old memory" not in str([entry.turn for entry in transcript.turns])


def test_reading_skips_damaged_lines(tmp_path):
    path = tmp_path / "t.jsonl"
    good = json.dumps(build_line("user", "Hello"))
    path.write_bytes(b"\xff\xfe garbage\n" + good.encode() + b"\n" + b"[" * 100_000 + b"\n" + good.encode()[:40])
    assert [entry.turn["content"] for entry in read_transcript(path).turns] == ["Hello"]


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
def test_parsing_accepts_lines_of_any_shape(lines):
    transcript = parse_transcript(lines)
    assert all(isinstance(entry.turn["content"], str) for entry in transcript.turns)
    assert len({entry.uuid for entry in transcript.turns}) <= len(transcript.turns)
