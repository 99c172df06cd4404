"""The session of the OpenAI Agents SDK: a differential test against its own session, a real Runner, and cancellation."""

import asyncio

import pytest

pytest.importorskip("agents", reason="run by `make test-clients`, which installs the OpenAI Agents SDK")

from agents import Agent, Runner, SessionSettings, SQLiteSession
from agents.testing import ScriptedModel, assistant_message
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.integrations.openai_agents import LukasaSession
from lukasa.storage.engine import Query

pytestmark = pytest.mark.slow
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": JSON})
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(ITEMS, max_size=3)),
        st.tuples(st.just("pop"), st.none()),
        st.tuples(st.just("clear"), st.none()),
        st.tuples(st.just("get"), st.none() | st.integers(0, 4)),
    ),
    max_size=12,
)


@pytest.mark.requirement("DOO-6")
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_the_session_answers_as_the_sdks_own(steps):
    async def run(session):
        answers = []
        for action, value in steps:
            if action == "add":
                await session.add_items(value)
            elif action == "pop":
                answers.append(await session.pop_item())
            elif action == "clear":
                await session.clear_session()
            else:
                answers.append(await session.get_items(value))
        return [*answers, await session.get_items()]

    with lukasa.open("memory:") as memory:
        assert asyncio.run(run(LukasaSession("s", memory))) == asyncio.run(run(SQLiteSession("s")))


@pytest.mark.requirement("DOO-6")
def test_a_runner_continues_a_session_after_a_restart(tmp_path):
    path = str(tmp_path / "agents.db")
    for number in range(2):
        with lukasa.open(path) as memory:
            session = LukasaSession("chat", memory)
            agent = Agent(name="helper", model=ScriptedModel([[assistant_message("The release is on Tuesday.")]]))
            asyncio.run(Runner.run(agent, f"question {number}", session=session))
            roles = [item["role"] for item in asyncio.run(session.get_items())]
            assert roles == ["user", "assistant"] * (number + 1)
    with lukasa.open(path) as memory:
        assert "Tuesday" in memory.recall("When is the release?").hits[0].text


@pytest.mark.requirement("DOO-6")
def test_limits_settings_and_two_sessions(tmp_path):
    with lukasa.open(str(tmp_path / "agents.db")) as memory:
        one = LukasaSession("one", memory, session_settings=SessionSettings(limit=2))
        two = LukasaSession("two\nwith a line break", memory)

        async def run():
            await one.add_items([{"role": "user", "content": str(number)} for number in range(5)])
            await two.add_items([{"role": "user", "content": "other"}])
            latest = [item["content"] for item in await one.get_items()]
            return latest, len(await one.get_items(10)), await two.get_items()

        latest, all_items, others = asyncio.run(run())
        assert (latest, all_items) == (["3", "4"], 5)
        assert others == [{"role": "user", "content": "other"}]


@pytest.mark.requirement("DOO-6")
def test_a_cancelled_write_settles_and_history_stays(tmp_path):
    async def run(session):
        task = asyncio.ensure_future(session.add_items([{"role": "user", "content": "kept"}]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = await session.get_items()
        await session.clear_session()
        return found, await session.get_items()

    with lukasa.open(str(tmp_path / "agents.db")) as memory:
        found, after = asyncio.run(run(LukasaSession("s", memory)))
        assert (found, after) == ([{"role": "user", "content": "kept"}], [])
        versions = list(memory.journal.read(Query(kinds=("session_item",), every_version=True)))
        assert [record.deleted for record in versions] == [False, True]
