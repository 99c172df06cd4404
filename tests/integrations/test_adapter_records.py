"""What the adapters share: items as JSON, and writes that end even if their callers are cancelled."""

import asyncio
import enum
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.integrations.records import encode_json, run_to_end

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
VALUES = st.recursive(
    SCALARS,
    lambda values: st.lists(values) | st.dictionaries(st.text() | st.integers() | st.booleans(), values),
    max_leaves=20,
)


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.requirement("DOO-6")
@given(value=VALUES)
def test_an_item_comes_back_as_from_the_encoder_of_python(value):
    text = encode_json(value)
    text.encode()  # any engine stores it
    assert repr(json.loads(text)) == repr(json.loads(json.dumps(value)))


@pytest.mark.requirement("DOO-6")
def test_an_item_that_the_encoder_of_python_refuses_is_refused():
    assert encode_json({"colour": Colour.RED, "deep": [[[1.5]]]}) == '{"colour": "red", "deep": [[[1.5]]]}'
    with pytest.raises(TypeError):
        encode_json({"set": {1}})


@pytest.mark.requirement("DOO-6")
def test_a_write_ends_before_its_cancelled_caller_goes_on():
    may_end, ended = threading.Event(), []

    def work() -> None:
        may_end.wait(10)
        ended.append(True)

    async def cancel_twice() -> list[bool]:
        task = asyncio.ensure_future(run_to_end(work))
        for _ in range(2):
            await asyncio.sleep(0.01)
            task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended

    assert asyncio.run(cancel_twice()) == [True]
