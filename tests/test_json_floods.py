"""Floods of brackets are refused before they are parsed, wherever JSON comes in."""

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa.core import canonical_json
from lukasa.errors import FormatError, InvalidInput, LukasaError

pytestmark = pytest.mark.requirement("LOG-7")
SIZE = 20_000_000
FLOODS = {
    "open": "[" * SIZE,
    "objects": '{"a":' * (SIZE // 5),
    "lists": "[" + "[]," * (SIZE // 3) + "[]]",
    "after a long string": '["' + "x" * 1_000_000 + '",' + "[" * SIZE,
    "after many strings": "[" + '"a",' * 100_000 + "[" * SIZE,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_brackets_is_refused_early(flood):
    began = time.process_time()
    with pytest.raises(InvalidInput, match=r"nested deeper than 64 levels|lists and objects"):
        canonical_json.decode(flood)
    assert time.process_time() - began < 1


def test_brackets_inside_a_string_are_text():
    text = '[{"\\"' * 300_000
    began = time.process_time()
    assert canonical_json.decode(json.dumps([text, "[" * 2_000_000])) == [text, "[" * 2_000_000]
    assert time.process_time() - began < 2


@given(
    value=st.recursive(
        st.text('[]{}"\\a', max_size=8) | st.integers(0, 9), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[]{}"\\', max_size=3), inner, max_size=3), max_leaves=60
    ),
    depth=st.integers(0, 90),
)  # fmt: skip
def test_the_depth_found_by_the_scan_is_that_of_the_value(value, depth):
    for _ in range(depth):
        value = [value, '"]'] if depth % 2 else {'["': value}
    faulty = canonical_json.find_json_fault(value) is not None
    assert (canonical_json.find_bracket_fault(json.dumps(value), canonical_json.MAX_DEPTH + 1) is None) or faulty
    if not faulty:
        assert canonical_json.decode(json.dumps(value)) == value


@pytest.mark.parametrize("flood", ["open", "lists"])
def test_every_way_in_refuses_a_flood_of_brackets_quickly(tmp_path, flood):
    data = FLOODS[flood][:8_000_000].encode()
    folder = tmp_path / "loki" / "episodic"
    folder.mkdir(parents=True)
    (folder / "index.json").write_bytes(data)
    file = tmp_path / "flood.json"
    file.write_bytes(data)
    with lukasa.open("memory:") as memory:
        began = time.process_time()
        for attempt in (
            lambda: memory.import_(io.BytesIO(data)),
            lambda: memory.import_(tmp_path / "loki", format="loki"),
            lambda: memory.import_(file, format="context"),
            lambda: memory.import_(file, format="vault"),
        ):
            try:
                result = attempt()
            except (LukasaError, FormatError):
                continue
            assert getattr(result, "added", 0) in (0, {}) or not list(getattr(result, "added", ()))
        assert time.process_time() - began < 5
        assert memory.journal.tip() == 0
