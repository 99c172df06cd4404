"""A prompt that draws on the vault, knowledge and other conversations in one call, within one budget."""

from __future__ import annotations

import pytest

import lukasa
from lukasa.errors import InvalidInput

pytestmark = pytest.mark.requirement("CTX-13", "EXP-7")
SOURCES = ("vault", "knowledge", "conversations")


@pytest.fixture
def memory():
    """Return a memory with a fact of each source about deploys, and one about something else."""
    with lukasa.open("memory:", embedder="static") as memory:
        assert memory.remember("Deploys run on Thursday, after the smoke tests.", topic="deploy-day")
        assert memory.remember("Deploys need an approval by the release manager.")
        assert memory.knowledge.add_pattern("When a deploy hangs, restart the deploy runner.")
        assert memory.context.append("other", "user", "The deploy of last week failed because of the proxy.")
        assert memory.context.append("chat", "user", "What must I know for the next deploy?")
        yield memory


def texts(memory, keys):
    return [memory.journal.get(key).text for key in keys]


def test_a_prompt_tells_what_each_source_knows_and_canon_comes_first(memory):
    prompt = memory.context.assemble("chat", 2_000, include=SOURCES)
    told = texts(memory, prompt.memories)
    assert told[0] == "Deploys need an approval by the release manager."
    assert {key.kind for key in prompt.memories} == {"memory", "pattern", "turn"}
    assert all(text in prompt.text for text in told)
    assert prompt.tokens <= 2_000


def test_a_prompt_without_include_tells_nothing_from_elsewhere(memory):
    prompt = memory.context.assemble("chat", 2_000)
    assert prompt.memories == ()
    assert "approval" not in prompt.text


def test_turns_of_the_conversation_itself_are_not_told_twice(memory):
    prompt = memory.context.assemble("chat", 2_000, include=["conversations"])
    assert prompt.text.count("What must I know for the next deploy?") == 1


def test_what_does_not_fit_is_named(memory):
    prompt = memory.context.assemble("chat", 160, include=SOURCES)
    assert prompt.tokens <= 160
    assert prompt.memories_left_out
    assert not set(prompt.memories) & set(prompt.memories_left_out)


def test_an_unknown_source_is_refused_with_the_known_ones(memory):
    with pytest.raises(InvalidInput, match="vault, knowledge, conversations"):
        memory.context.assemble("chat", 2_000, include=["wiki"])


def test_a_task_draws_on_the_vault_too(memory):
    briefing = memory.before_task("Prepare the next deploy", include=["vault"])
    assert "approval" in briefing.context["known_facts"][0]
    assert "approval" in briefing.block(500).text
    assert "known_facts" not in memory.before_task("Prepare the next deploy").context


def test_a_task_names_what_its_budget_left_out(memory):
    briefing = memory.before_task("Prepare the next deploy", include=SOURCES, budget=30)
    assert any(entry.reason == "budget" for entry in briefing.left_out)
