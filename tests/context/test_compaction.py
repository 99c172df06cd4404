"""Compaction: the plan, compaction in place and in the store, and that no turn is ever lost."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.context import ContextCompactor, ConversationSettings, Turn, plan_compaction
from lukasa.context.records import ConversationRecords
from lukasa.context.state import Fact
from lukasa.models.token_counter import open_token_counter
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock
from lukasa.testing.clock import NOON


def make_turns(*token_counts):
    return [
        Turn("user", f"Message {index}", token_count=count, id=f"t{index}") for index, count in enumerate(token_counts)
    ]


def plan_turns(turns, limits=None, **more):
    return plan_compaction(turns, [], [], limits or ConversationSettings(), NOON, **more)


# The plan


@pytest.mark.requirement("CTX-2")
@pytest.mark.parametrize(("entries", "folded"), [(1, 0), (50, 0), (51, 21), (60, 30), (100, 70)])
def test_plan_keeps_the_newest_thirty_of_more_than_fifty_entries(entries, folded):
    plan = plan_turns(make_turns(*[1] * entries))
    assert len(plan.turns_to_fold) == folded
    assert [turn.id for turn in (*plan.turns_to_fold, *plan.turns_to_keep)] == [f"t{index}" for index in range(entries)]
    assert plan.steps == (("entries",) if folded else ())


@pytest.mark.requirement("CTX-3")
def test_plan_folds_the_oldest_turns_and_keeps_the_order():
    plan = plan_turns(make_turns(*[5] * 51))
    assert [turn.id for turn in plan.turns_to_fold] == [f"t{index}" for index in range(21)]
    assert [turn.id for turn in plan.turns_to_keep] == [f"t{index}" for index in range(21, 51)]


@pytest.mark.requirement("CTX-4")
@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([20_000] * 5, 5),  # exactly the budget
        ([20_000] * 10, 5),
        ([100_001], 1),
        ([500_000, 1], 1),
        ([1, 500_000], 1),
        ([60_000] * 4, 1),
        ([90_000, 10_000, 1], 2),
    ],
)
def test_plan_folds_the_older_half_until_the_tokens_fit_but_never_the_newest_turn(tokens, kept):
    plan = plan_turns(make_turns(*tokens))
    assert len(plan.turns_to_keep) == kept
    assert plan.steps == (("tokens",) if plan.turns_to_fold else ())


@pytest.mark.requirement("CTX-2")
def test_plan_follows_the_settings():
    limits = ConversationSettings(entries=10, keep=4, tokens=100)
    assert len(plan_turns(make_turns(*[1] * 11), limits).turns_to_keep) == 4
    assert len(plan_turns(make_turns(*[40] * 4), limits).turns_to_keep) == 2
    assert plan_turns(make_turns(*[40] * 11), limits).steps == ("entries", "tokens")


@pytest.mark.requirement("CTX-2")
def test_plan_by_hand_folds_a_conversation_within_its_limits():
    assert not plan_turns(make_turns(*[1] * 40))
    plan = plan_turns(make_turns(*[1] * 40), by_hand=True)
    assert (len(plan.turns_to_fold), plan.steps) == (10, ("by hand",))
    assert len(plan_turns(make_turns(*[1] * 40), by_hand=True, keep=3).turns_to_keep) == 3
    assert not plan_turns(make_turns(*[1] * 30), by_hand=True)


@given(st.lists(st.integers(0, 200), max_size=120), st.integers(1, 60), st.integers(1, 500), st.data())
def test_plan_loses_no_turn_meets_the_limits_and_leaves_nothing_to_do(tokens, entries, limit, data):
    limits = ConversationSettings(entries=entries, keep=data.draw(st.integers(0, entries)), tokens=limit)
    turns = make_turns(*tokens)
    plan = plan_turns(turns, limits)
    assert [*plan.turns_to_fold, *plan.turns_to_keep] == turns
    assert len(plan.turns_to_keep) <= entries
    assert sum(turn.tokens for turn in plan.turns_to_keep) <= limit or len(plan.turns_to_keep) == 1
    assert not plan_turns(plan.turns_to_keep, limits)


@pytest.mark.requirement("CTX-5")
def test_plan_prunes_tasks_completed_more_than_a_day_ago():
    day = timedelta(days=1)
    tasks: list[dict[str, Any]] = [
        {"id": "running", "status": "Running", "updated_at": (NOON - 9 * day).timestamp()},
        {"id": "failed", "status": "Failed", "updated_at": (NOON - 9 * day).timestamp()},
        {"id": "fresh", "status": "Completed", "updated_at": (NOON - day / 2).timestamp()},
        {"id": "edge", "status": "Completed", "updated_at": (NOON - day + timedelta(seconds=1)).isoformat()},
        {"id": "old", "status": "completed", "updated_at": (NOON - day).isoformat()},
        {"id": "undated", "status": "Completed"},
        {"id": "odd", "status": "Completed", "updated_at": "yesterday"},
    ]
    plan = plan_compaction([], tasks, [], ConversationSettings(), NOON)
    assert [task["id"] for task in plan.pruned_tasks] == ["old"]
    assert [task["id"] for task in plan.remaining_tasks] == ["running", "failed", "fresh", "edge", "undated", "odd"]
    assert len(plan_compaction([], tasks, [], ConversationSettings(finished_hours=1), NOON).pruned_tasks) == 3


@pytest.mark.requirement("CTX-5")
def test_plan_finds_duplicate_facts():
    facts = [Fact("User speaks English", id="a"), Fact("user speaks  english.", id="b"), Fact("Other", id="c")]
    assert [fact.id for fact in plan_compaction([], [], facts, ConversationSettings(), NOON).duplicate_facts] == ["b"]


# Compaction of a loaded context


@pytest.mark.requirement("CTX-2", "CTX-5")
def test_context_compactor_compacts_in_place_and_save_writes_the_result(conversations, clock, append_turns):
    conversations.configure("s", automatic=False)
    append_turns(conversations, "s", 51)
    context = conversations.load("s")
    context.facts += ["Likes tea", "likes tea."]
    context.active_tasks.append({"id": "t", "description": "Old", "status": "Completed", "updated_at": 1})
    report = ContextCompactor(clock=clock).compact(context)
    assert report
    assert (len(report.folded), report.kept, report.steps) == (21, 30, ("entries",))
    assert (report.pruned_tasks, report.duplicate_facts) == (("t",), ("likes tea.",))
    assert (len(context.recent_history), context.facts, context.active_tasks) == (30, ["Likes tea"], [])
    assert "Message 1" in context.long_term_summary
    assert conversations.save(context)
    again = conversations.load("s")
    assert (len(again.recent_history), again.folded) == (30, 21)
    assert again.long_term_summary == context.long_term_summary
    assert len(list(conversations.transcript("s"))) == 51
    assert not ContextCompactor(clock=clock).compact(again)


def test_save_refuses_a_fold_when_another_writer_folded_since(conversations, clock, append_turns):
    conversations.configure("s", automatic=False)
    append_turns(conversations, "s", 51)
    context = conversations.load("s")
    ContextCompactor(clock=clock).compact(context)
    conversations.compact("s", keep=5)
    assert not conversations.save(context)
    assert len(conversations.load("s").recent_history) == 5


# Compaction in the store


@pytest.mark.requirement("CTX-2", "CTX-3", "CTX-6")
def test_append_compacts_automatically_and_the_transcript_stays_whole(conversations, memory, append_turns):
    for number in range(1, 61):
        conversations.append("s", "user", f"Message {number}")
        assert len(conversations.load("s").recent_history) <= 50
    context = conversations.load("s")
    assert (len(context.recent_history), context.folded) == (39, 21)
    assert [turn.content for turn in conversations.transcript("s")] == [f"Message {number}" for number in range(1, 61)]
    assert "Message 7" in [record.text for record in memory.recall("Message 7", 3, conversation="s").records]


@pytest.mark.requirement("CTX-2")
def test_append_does_not_compact_when_automatic_is_off(conversations, append_turns):
    conversations.configure("s", automatic=False)
    append_turns(conversations, "s", 60)
    assert len(conversations.load("s").recent_history) == 60
    conversations.configure("s", automatic=True)
    assert len(conversations.load("s").recent_history) == 30


@pytest.mark.requirement("CTX-2", "CTX-4")
def test_append_uses_the_token_count_of_the_caller(conversations):
    for _ in range(10):
        conversations.append("s", "user", "short", token_count=20_000)
    context = conversations.load("s")
    assert sum(turn.token_count for turn in context.turns) <= 100_000
    assert len(list(conversations.transcript("s"))) == 10


@pytest.mark.requirement("CTX-4")
def test_append_stores_a_turn_of_half_a_million_tokens_whole(conversations, memory):
    content = "The quick brown fox jumps over the lazy dog near the river bank. " * 38_000
    assert conversations.append("s", "user", "Before")
    assert conversations.append("s", "user", content)
    tokens = conversations.load("s").turns[-1].token_count
    assert tokens > 490_000
    assert [turn.content for turn in conversations.load("s").turns] == [content]
    assert conversations.append("s", "user", "After")
    context = conversations.load("s")
    assert [turn.content for turn in context.turns] == ["After"]
    assert open_token_counter()(context.long_term_summary) <= 2_000
    assert [turn.content for turn in conversations.transcript("s")] == ["Before", content, "After"]
    assert conversations.assemble("s", 1_000).tokens <= 1_000
    assert not conversations.compact("s")


@pytest.mark.requirement("CTX-6")
def test_compact_a_second_time_changes_nothing(conversations, memory, append_turns):
    append_turns(conversations, "s", 40)
    assert conversations.compact("s")
    before, tip = conversations.load("s"), memory.journal.tip()
    assert not conversations.compact("s")
    assert conversations.load("s") == before
    assert memory.journal.tip() == tip


def test_a_summary_version_names_its_author_and_the_folded_turns(conversations, memory, append_turns):
    append_turns(conversations, "s", 51)
    version = conversations.versions("s")[-1]
    folded = [link.to.id for link in version.links if link.to.kind == "turn"]
    assert version.body["by"] == "extractive"
    assert folded == [turn.id for turn in conversations.transcript("s", limit=21)]


def test_compact_folds_more_turns_than_a_record_has_links_in_one_batch(conversations):
    conversations.configure("s", automatic=False)
    assert conversations.extend("s", [Turn("user", f"Message {number}") for number in range(2_000)])
    report = conversations.compact("s")
    assert len(report.folded) == 1_970
    context = conversations.load("s")
    assert (context.folded, len(context.recent_history)) == (1_970, 30)
    assert len(conversations.versions("s")) == 4
    assert not conversations.compact("s")


@pytest.mark.requirement("CTX-5")
def test_the_summary_mentions_a_pruned_task(conversations, clock, append_turns):
    conversations.task("s", "t1", "Migrate the database", status="Completed")
    conversations.task("s", "t2", "Write the manual")
    clock.advance(86_400)
    assert conversations.compact("s").pruned_tasks == ("t1",)
    context = conversations.load("s")
    assert [task["id"] for task in context.active_tasks] == ["t2"]
    assert "Task completed: Migrate the database" in context.long_term_summary


@pytest.mark.requirement("CTX-8")
def test_tokens_are_counted_by_a_real_tokenizer_per_message_and_conversation(conversations):
    counter = open_token_counter()
    assert counter.is_exact
    texts = ["Create a new file", "I'll create the file for you", "会話は続く"]
    for text in texts:
        conversations.append("s", "user", text)
    context = conversations.load("s")
    assert [turn.token_count for turn in context.turns] == [counter(text) for text in texts]
    assert context.tokens == sum(map(counter, texts))
    conversations.usage("s", input=100, output=20)
    conversations.usage("s", input=1)
    assert conversations.load("s").token_usage == {"total_input": 101, "total_output": 20, "by_session": 121}


@pytest.mark.requirement("CTX-8")
def test_an_estimated_token_count_is_marked_as_estimated(open_store):
    from lukasa.models.token_counter import TokenCounter

    memory = open_store()
    memory.context._counter = TokenCounter("characters/4", is_exact=False, count=lambda text: -(-len(text) // 4))
    memory.context.append("s", "user", "x" * 41)
    (record,) = memory.journal.read(Query(kinds=("turn",)))
    assert (record.body["tokens"], record.body["counted_by"]) == (11, "characters/4")


# Random sequences of actions

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 30)),
        st.tuples(st.just("compact"), st.integers(0, 20)),
        st.tuples(st.just("fork"), st.integers(0, 10)),
        st.tuples(st.just("save"), st.integers(0, 12)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=12,
)


@pytest.mark.requirement("CTX-6", "CTX-7")
@settings(max_examples=25)
@given(ACTIONS, st.integers(2, 20), st.integers(20, 200))
def test_no_sequence_of_actions_loses_a_turn_or_passes_a_limit(actions, entries, tokens):
    counter = open_token_counter()
    limits = {"entries": entries, "keep": entries // 2, "tokens": tokens, "summary_tokens": 120}
    with lukasa.open("memory:", clock=FrozenClock(), embedder="hash") as memory:
        conversations = memory.context
        conversations.configure("s0", **limits)
        messages: list[str] = []
        session_id, created = "s0", 1
        for action, number in actions:
            if action == "append":
                for _ in range(number):
                    messages.append(f"Message {len(messages)} about topic{len(messages) % 7}.")
                    assert conversations.append(session_id, "user", messages[-1])
            elif action == "compact":
                conversations.compact(session_id, keep=number)
                assert not conversations.compact(session_id, keep=number)
            elif action == "fork":
                all_turns = list(conversations.transcript(session_id))
                turn_id = all_turns[min(number, len(all_turns) - 1)].id if all_turns else None
                assert conversations.fork(session_id, f"s{created}", at=turn_id)
                assert [turn.content for turn in conversations.transcript(session_id)] == messages
                if turn_id is not None:
                    messages = messages[: min(number, len(messages) - 1) + 1]
                session_id, created = f"s{created}", created + 1
            elif action == "save":
                context = conversations.load(session_id)
                fresh = [f"Saved {len(messages) + offset}." for offset in range(number)]
                context.recent_history += [Turn("user", text) for text in fresh]
                assert conversations.save(context)
                messages += fresh
            else:
                conversations._size_tracker.invalidate(ConversationRecords(session_id, "shared"))
            context = conversations.load(session_id)
            assert [turn.content for turn in conversations.transcript(session_id)] == messages
            assert context.folded + len(context.recent_history) == len(messages)
            assert [turn.content for turn in context.turns] == messages[context.folded :]
            assert len(context.recent_history) <= entries
            assert context.tokens <= tokens or len(context.recent_history) == 1
            assert counter(context.long_term_summary) <= 120
        assert conversations.assemble(session_id, 150).tokens <= 150


def test_turns_of_another_writer_count_towards_the_limits(location, open_store):
    first, second = open_store(location).context, open_store(location).context
    for number in range(40):
        first.append("s", "user", f"One {number}")
        second.append("s", "user", f"Other {number}")
        assert len(first.load("s").recent_history) <= 50
    assert len(list(first.transcript("s"))) == 80


def test_two_concurrent_compactions_fold_each_turn_once(conversations, memory, append_turns, monkeypatch):
    append_turns(conversations, "s", 40)
    append = memory.context._journal.append
    raced: list[bool] = []

    def race(drafts, **more):
        if not raced and drafts[0].kind == "summary":
            raced.append(True)
            monkeypatch.setattr(memory.context._journal, "append", append)
            conversations.compact("s", keep=10)
            conversations.append("s", "user", "In between")
        return append(drafts, **more)

    monkeypatch.setattr(memory.context._journal, "append", race)
    conversations.compact("s", keep=10)
    context = conversations.load("s")
    assert raced
    assert [turn.content for turn in conversations.transcript("s")] == [
        *(f"Message {n}" for n in range(1, 41)),
        "In between",
    ]
    assert context.folded + len(context.recent_history) == 41
    assert context.long_term_summary.count("Message 1\n") == 1


def test_configure_stores_the_settings_of_a_conversation(conversations, open_store):
    conversations.configure("s", entries=70, summary_tokens=500)
    assert conversations.load("s").settings == replace(ConversationSettings(), entries=70, summary_tokens=500)


@pytest.mark.requirement("CTX-5")
def test_a_compaction_sorts_the_facts_and_newer_ones_follow(conversations, append_turns):
    for text in ("Zoe likes tea", "Ben likes rain", "Anna likes snow"):
        conversations.add_fact("s", text)
    assert conversations.load("s").facts == ["Zoe likes tea", "Ben likes rain", "Anna likes snow"]
    conversations.compact("s")
    assert conversations.load("s").facts == ["Anna likes snow", "Ben likes rain", "Zoe likes tea"]
    assert not conversations.compact("s")
    conversations.add_fact("s", "Abe likes wind")
    assert conversations.load("s").facts == ["Anna likes snow", "Ben likes rain", "Zoe likes tea", "Abe likes wind"]
    append_turns(conversations, "s", 51)
    assert conversations.load("s").facts == ["Abe likes wind", "Anna likes snow", "Ben likes rain", "Zoe likes tea"]
    conversations.fork("s", "copy")
    assert conversations.load("copy").facts == conversations.load("s").facts


@pytest.mark.requirement("CTX-5")
def test_the_compactor_sorts_the_facts_in_place_and_save_keeps_the_order(in_memory, clock, append_turns):
    in_memory.configure("s", automatic=False)
    append_turns(in_memory, "s", 51)
    for text in ("Zoe likes tea", "Anna likes snow", "zoe likes tea."):
        in_memory.add_fact("s", text)
    context = in_memory.load("s")
    ContextCompactor(clock=clock).compact(context)
    assert context.facts == ["Anna likes snow", "Zoe likes tea"] or context.facts == [
        "Anna likes snow",
        "zoe likes tea.",
    ]
    in_memory.save(context)
    assert in_memory.load("s").facts == context.facts
