"""Differences between versions of byte strings: every version comes back, and a small change stays small."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.integrations.deltas import apply_difference, encode_difference, find_change

PIECES = st.lists(st.binary(max_size=200), max_size=6)


@pytest.mark.requirement("DOO-6")
@given(
    pieces=PIECES, others=PIECES, repeats=st.sampled_from([1, 50, 400]), order=st.randoms(), near=st.integers(0, 2_000)
)
def test_a_difference_leads_to_the_new_version(pieces, others, repeats, order, near):
    base = b"".join(pieces) * repeats
    mixed = [*pieces, *others]
    order.shuffle(mixed)
    for new in (b"".join(mixed) * repeats, b"x" + base, base + b"".join(others), base[: len(base) // 2], b""):
        difference = encode_difference(base, new)
        assert apply_difference(base, difference) == new
        assert encode_difference(base, new, near) == difference
        assert encode_difference(base, new, find_change(difference)) == difference


@pytest.mark.requirement("DOO-6")
def test_a_small_change_of_a_long_version_takes_few_bytes():
    base = random.Random(1).randbytes(300_000)
    changes = {
        "append": base + b"one more message",
        "length": b"\x01" + base[1:] + b"one more message",
        "insert": base[:150_000] + b"in the middle" + base[150_000:],
        "remove": base[:1_000] + base[2_000:],
    }
    for name, new in changes.items():
        difference = encode_difference(base, new)
        assert len(difference) < 400, name
        assert apply_difference(base, difference) == new


@pytest.mark.requirement("DOO-6")
def test_a_change_in_one_place_takes_its_own_bytes_and_few_more():
    base = b"".join(b"note %d: the meeting is at noon\n" % number for number in range(300))
    for changed in (base.replace(b"note 7:", b"note seven:", 1), b"\x93" + base[1:] + b"one more", base[:-20], base):
        difference = encode_difference(base, changed)
        assert len(difference) < 120
        assert apply_difference(base, difference) == changed
    assert find_change(encode_difference(base, base.replace(b"note 7:", b"note seven:", 1))) == base.index(b"7:")
