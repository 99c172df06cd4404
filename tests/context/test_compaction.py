"""A session is folded by rules that can be counted on; the transcript is never touched."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.context import ContextCompactor, ConversationSettings, Turn, plan_compaction
from lukasa.context.state import Fact
from lukasa.models.token_counter import open_token_counter
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock
from lukasa.testing.clock import NOON


def turns(*tokens):
    return [Turn("user", f"Message {at}", token_count=count, id=f"t{at}") for at, count in enumerate(tokens)]


def planned(said, limits=None, **more):
    return plan_compaction(said, [], [], limits or ConversationSettings(), NOON, **more)


# The plan


@pytest.mark.requirement("CTX-2")
@pytest.mark.parametrize(("entries", "folded"), [(1, 0), (50, 0), (51, 21), (60, 30), (100, 70)])
def test_more_than_fifty_entries_leave_the_newest_thirty(entries, folded):
    made = planned(turns(*[1] * entries))
    assert len(made.turns_to_fold) == folded
    assert [turn.id for turn in (*made.turns_to_fold, *made.turns_to_keep)] == [f"t{at}" for at in range(entries)]
    assert made.steps == (("entries",) if folded else ())


@pytest.mark.requirement("CTX-3")
def test_the_history_step_folds_the_oldest_and_keeps_the_order():
    made = planned(turns(*[5] * 51))
    assert [turn.id for turn in made.turns_to_fold] == [f"t{at}" for at in range(21)]
    assert [turn.id for turn in made.turns_to_keep] == [f"t{at}" for at in range(21, 51)]


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
def test_too_many_tokens_fold_the_older_half_until_they_fit_but_never_the_newest_turn(tokens, kept):
    made = planned(turns(*tokens))
    assert len(made.turns_to_keep) == kept
    assert made.steps == (("tokens",) if made.turns_to_fold else ())


@pytest.mark.requirement("CTX-2")
def test_both_limits_and_what_is_kept_can_be_set():
    limits = ConversationSettings(entries=10, keep=4, tokens=100)
    assert len(planned(turns(*[1] * 11), limits).turns_to_keep) == 4
    assert len(planned(turns(*[40] * 4), limits).turns_to_keep) == 2
    assert planned(turns(*[40] * 11), limits).steps == ("entries", "tokens")


@pytest.mark.requirement("CTX-2")
def test_by_hand_a_session_within_its_limits_is_folded_too():
    assert not planned(turns(*[1] * 40))
    made = planned(turns(*[1] * 40), by_hand=True)
    assert (len(made.turns_to_fold), made.steps) == (10, ("by hand",))
    assert len(planned(turns(*[1] * 40), by_hand=True, keep=3).turns_to_keep) == 3
    assert not planned(turns(*[1] * 30), by_hand=True)


@given(st.lists(st.integers(0, 200), max_size=120), st.integers(1, 60), st.integers(1, 500), st.data())
def test_a_plan_loses_nothing_holds_its_limits_and_has_nothing_left_to_do(tokens, entries, limit, data):
    limits = ConversationSettings(entries=entries, keep=data.draw(st.integers(0, entries)), tokens=limit)
    said = turns(*tokens)
    made = planned(said, limits)
    assert [*made.turns_to_fold, *made.turns_to_keep] == said
    assert len(made.turns_to_keep) <= entries
    assert sum(turn.tokens for turn in made.turns_to_keep) <= limit or len(made.turns_to_keep) == 1
    assert not planned(made.turns_to_keep, limits)


@pytest.mark.requirement("CTX-5")
def test_completed_tasks_are_pruned_after_a_day_and_all_others_kept():
    day = timedelta(days=1)
    tasks = [
        {"id": "running", "status": "Running", "updated_at": (NOON - 9 * day).timestamp()},
        {"id": "failed", "status": "Failed", "updated_at": (NOON - 9 * day).timestamp()},
        {"id": "fresh", "status": "Completed", "updated_at": (NOON - day / 2).timestamp()},
        {"id": "edge", "status": "Completed", "updated_at": (NOON - day + timedelta(seconds=1)).isoformat()},
        {"id": "old", "status": "completed", "updated_at": (NOON - day).isoformat()},
        {"id": "undated", "status": "Completed"},
        {"id": "odd", "status": "Completed", "updated_at": "yesterday"},
    ]
    made = plan_compaction([], tasks, [], ConversationSettings(), NOON)
    assert [task["id"] for task in made.pruned_tasks] == ["old"]
    assert [task["id"] for task in made.remaining_tasks] == ["running", "failed", "fresh", "edge", "undated", "odd"]
    assert len(plan_compaction([], tasks, [], ConversationSettings(finished_hours=1), NOON).pruned_tasks) == 3


@pytest.mark.requirement("CTX-5")
def test_facts_that_say_the_same_are_there_twice():
    facts = [Fact("User speaks English", id="a"), Fact("user speaks  english.", id="b"), Fact("Other", id="c")]
    assert [fact.id for fact in plan_compaction([], [], facts, ConversationSettings(), NOON).duplicate_facts] == ["b"]


# In a loaded context, as the document has it


@pytest.mark.requirement("CTX-2", "CTX-5")
def test_a_loaded_context_is_compacted_in_place_and_saved(contexts, clock, talk):
    contexts.configure("s", automatic=False)
    talk(contexts, "s", 51)
    context = contexts.load("s")
    context.facts += ["Likes tea", "likes tea."]
    context.active_tasks.append({"id": "t", "description": "Old", "status": "Completed", "updated_at": 1})
    report = ContextCompactor(clock=clock).compact(context)
    assert report
    assert (len(report.folded), report.kept, report.steps) == (21, 30, ("entries",))
    assert (report.pruned_tasks, report.duplicate_facts) == (("t",), ("likes tea.",))
    assert (len(context.recent_history), context.facts, context.active_tasks) == (30, ["Likes tea"], [])
    assert "Message 1" in context.long_term_summary
    assert contexts.save(context)
    again = contexts.load("s")
    assert (len(again.recent_history), again.folded) == (30, 21)
    assert again.long_term_summary == context.long_term_summary
    assert len(list(contexts.transcript("s"))) == 51
    assert not ContextCompactor(clock=clock).compact(again)


def test_a_fold_by_hand_is_refused_when_somebody_else_folded_since(contexts, clock, talk):
    contexts.configure("s", automatic=False)
    talk(contexts, "s", 51)
    context = contexts.load("s")
    ContextCompactor(clock=clock).compact(context)
    contexts.compact("s", keep=5)
    assert not contexts.save(context)
    assert len(contexts.load("s").recent_history) == 5


# In the store


@pytest.mark.requirement("CTX-2", "CTX-3", "CTX-6")
def test_a_session_is_compacted_by_itself_and_every_turn_stays(contexts, memory, talk):
    for number in range(1, 61):
        contexts.append("s", "user", f"Message {number}")
        assert len(contexts.load("s").recent_history) <= 50
    context = contexts.load("s")
    assert (len(context.recent_history), context.folded) == (39, 21)
    assert [turn.content for turn in contexts.transcript("s")] == [f"Message {number}" for number in range(1, 61)]
    assert "Message 7" in [record.text for record in memory.recall("Message 7", 3, session="s").records]


@pytest.mark.requirement("CTX-2")
def test_it_is_not_when_that_is_switched_off(contexts, talk):
    contexts.configure("s", automatic=False)
    talk(contexts, "s", 60)
    assert len(contexts.load("s").recent_history) == 60
    contexts.configure("s", automatic=True)
    assert len(contexts.load("s").recent_history) == 30


@pytest.mark.requirement("CTX-2", "CTX-4")
def test_tokens_that_the_caller_counted_are_believed(contexts):
    for _ in range(10):
        contexts.append("s", "user", "short", token_count=20_000)
    context = contexts.load("s")
    assert sum(turn.token_count for turn in context.turns) <= 100_000
    assert len(list(contexts.transcript("s"))) == 10


@pytest.mark.requirement("CTX-4")
def test_a_turn_of_half_a_million_tokens_is_kept_whole(contexts, memory):
    said = "The quick brown fox jumps over the lazy dog near the river bank. " * 38_000
    assert contexts.append("s", "user", "Before")
    assert contexts.append("s", "user", said)
    tokens = contexts.load("s").turns[-1].token_count
    assert tokens > 490_000
    assert [turn.content for turn in contexts.load("s").turns] == [said]
    assert contexts.append("s", "user", "After")
    context = contexts.load("s")
    assert [turn.content for turn in context.turns] == ["After"]
    assert open_token_counter()(context.long_term_summary) <= 2_000
    assert [turn.content for turn in contexts.transcript("s")] == ["Before", said, "After"]
    assert contexts.assemble("s", 1_000).tokens <= 1_000
    assert not contexts.compact("s")


@pytest.mark.requirement("CTX-6")
def test_compacting_twice_does_nothing_more(contexts, memory, talk):
    talk(contexts, "s", 40)
    assert contexts.compact("s")
    before, tip = contexts.load("s"), memory.journal.tip()
    assert not contexts.compact("s")
    assert contexts.load("s") == before
    assert memory.journal.tip() == tip


def test_a_compaction_tells_who_summarised_what(contexts, memory, talk):
    talk(contexts, "s", 51)
    version = contexts.versions("s")[-1]
    folded = [link.to.id for link in version.links if link.to.kind == "turn"]
    assert version.body["by"] == "extractive"
    assert folded == [turn.id for turn in contexts.transcript("s", limit=21)]


def test_more_turns_than_a_record_has_links_are_folded_in_one_batch(contexts):
    contexts.configure("s", automatic=False)
    assert contexts.extend("s", [Turn("user", f"Message {number}") for number in range(2_000)])
    report = contexts.compact("s")
    assert len(report.folded) == 1_970
    context = contexts.load("s")
    assert (context.folded, len(context.recent_history)) == (1_970, 30)
    assert len(contexts.versions("s")) == 4
    assert not contexts.compact("s")


@pytest.mark.requirement("CTX-5")
def test_a_pruned_task_is_told_in_the_summary(contexts, clock, talk):
    contexts.task("s", "t1", "Migrate the database", status="Completed")
    contexts.task("s", "t2", "Write the manual")
    clock.advance(86_400)
    assert contexts.compact("s").pruned_tasks == ("t1",)
    context = contexts.load("s")
    assert [task["id"] for task in context.active_tasks] == ["t2"]
    assert "Task completed: Migrate the database" in context.long_term_summary


@pytest.mark.requirement("CTX-8")
def test_tokens_are_counted_by_a_real_tokenizer_per_message_and_session(contexts):
    counter = open_token_counter()
    assert counter.is_exact
    said = ["Create a new file", "I'll create the file for you", "会話は続く"]
    for text in said:
        contexts.append("s", "user", text)
    context = contexts.load("s")
    assert [turn.token_count for turn in context.turns] == [counter(text) for text in said]
    assert context.tokens == sum(map(counter, said))
    contexts.usage("s", input=100, output=20)
    contexts.usage("s", input=1)
    assert contexts.load("s").token_usage == {"total_input": 101, "total_output": 20, "by_session": 121}


@pytest.mark.requirement("CTX-8")
def test_an_estimate_says_that_it_is_one(opened):
    from lukasa.models.token_counter import TokenCounter

    memory = opened()
    memory.context._counter = TokenCounter("characters/4", is_exact=False, count=lambda text: -(-len(text) // 4))
    memory.context.append("s", "user", "x" * 41)
    (record,) = memory.journal.read(Query(kinds=("turn",)))
    assert (record.body["tokens"], record.body["counted_by"]) == (11, "characters/4")


# Nothing is ever lost

DEEDS = st.lists(
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
@given(DEEDS, st.integers(2, 20), st.integers(20, 200))
def test_no_turn_is_lost_by_any_sequence_of_deeds_and_no_limit_is_passed(deeds, entries, tokens):
    counter = open_token_counter()
    limits = {"entries": entries, "keep": entries // 2, "tokens": tokens, "summary_tokens": 120}
    with lukasa.open("memory:", clock=FrozenClock(), embedder="hash") as memory:
        contexts = memory.context
        contexts.configure("s0", **limits)
        said, session, sessions = [], "s0", 1
        for deed, number in deeds:
            if deed == "append":
                for _ in range(number):
                    said.append(f"Message {len(said)} about topic{len(said) % 7}.")
                    assert contexts.append(session, "user", said[-1])
            elif deed == "compact":
                contexts.compact(session, keep=number)
                assert not contexts.compact(session, keep=number)
            elif deed == "fork":
                all_turns = list(contexts.transcript(session))
                at = all_turns[min(number, len(all_turns) - 1)].id if all_turns else None
                assert contexts.fork(session, f"s{sessions}", at=at)
                assert [turn.content for turn in contexts.transcript(session)] == said
                if at is not None:
                    said = said[: min(number, len(said) - 1) + 1]
                session, sessions = f"s{sessions}", sessions + 1
            elif deed == "save":
                context = contexts.load(session)
                fresh = [f"Saved {len(said) + each}." for each in range(number)]
                context.recent_history += [Turn("user", text) for text in fresh]
                assert contexts.save(context)
                said += fresh
            else:
                contexts._size_tracker.invalidate(session, "shared")
            context = contexts.load(session)
            assert [turn.content for turn in contexts.transcript(session)] == said
            assert context.folded + len(context.recent_history) == len(said)
            assert [turn.content for turn in context.turns] == said[context.folded :]
            assert len(context.recent_history) <= entries
            assert context.tokens <= tokens or len(context.recent_history) == 1
            assert counter(context.long_term_summary) <= 120
        made = contexts.assemble(session, 150)
        assert made.tokens <= 150


def test_turns_that_others_appended_are_counted_too(place, opened):
    one, other = opened(place).context, opened(place).context
    for number in range(40):
        one.append("s", "user", f"One {number}")
        other.append("s", "user", f"Other {number}")
        assert len(one.load("s").recent_history) <= 50
    assert len(list(one.transcript("s"))) == 80


def test_two_who_compact_at_once_fold_once(contexts, memory, talk, monkeypatch):
    talk(contexts, "s", 40)
    append, raced = memory.journal.append, []

    def late(drafts, **more):
        if not raced and drafts[0].kind == "summary":
            raced.append(True)
            monkeypatch.setattr(memory.journal, "append", append)
            contexts.compact("s", keep=10)
            contexts.append("s", "user", "In between")
        return append(drafts, **more)

    monkeypatch.setattr(memory.journal, "append", late)
    contexts.compact("s", keep=10)
    context = contexts.load("s")
    assert raced
    assert [turn.content for turn in contexts.transcript("s")] == [
        *(f"Message {n}" for n in range(1, 41)),
        "In between",
    ]
    assert context.folded + len(context.recent_history) == 41
    assert context.long_term_summary.count("Message 1\n") == 1


def test_settings_of_a_session_stay_with_it(contexts, opened):
    contexts.configure("s", entries=70, summary_tokens=500)
    assert contexts.load("s").settings == replace(ConversationSettings(), entries=70, summary_tokens=500)
