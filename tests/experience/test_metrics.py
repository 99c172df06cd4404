"""Metrics of tasks: cost, reward and the dashboard."""

from datetime import timedelta

import pytest


@pytest.mark.requirement("EXP-14")
def test_efficiency_counts_time_agents_attempts_and_retries(memory, clock):
    record = memory.episodes.record
    failed = [{"action": "run_test", "result": "fail"}, {"action": "run_test", "result": "pass"}]
    record("Build", task_id="t1", agent="a", outcome="failure", duration_seconds=100, action_log=failed)
    record("Build", task_id="t1", agent="b", duration_seconds=50)
    record("Paint", agent="a", duration_seconds=10)
    first, second = memory.metrics.efficiency()
    assert (first.task, first.seconds, first.agents, first.attempts, first.retries) == ("t1", 150, ("a", "b"), 2, 2)
    assert (first.succeeded, second.attempts, second.retries) == (True, 1, 0)


@pytest.mark.requirement("EXP-14")
def test_rewards_weigh_outcome_efficiency_and_preference(memory):
    record = memory.episodes.record
    good = record("Good", duration_seconds=100).record.id
    slow = record("Slow", duration_seconds=400).record.id
    bad = record("Bad", outcome="failure", duration_seconds=100).record.id
    assert memory.metrics.prefer(slow, -1, note="too slow")
    assert memory.metrics.prefer(good, 1)
    assert memory.metrics.prefer("ep-404", 1).code == "not_found"
    assert memory.metrics.prefer(good, 3).code == "bad_score"
    by_id = {reward.episode: reward for reward in memory.metrics.rewards()}
    assert (by_id[good].outcome, by_id[good].efficiency, by_id[good].preference, by_id[good].total) == (1, 1, 1, 1)
    assert (by_id[slow].efficiency, by_id[slow].preference) == (0.625, 0)
    assert by_id[slow].total == pytest.approx(0.5 + 0.3 * 0.625, abs=0.001)
    assert (by_id[bad].preference, by_id[bad].total) == (None, pytest.approx(0.3 / 0.8, abs=0.001))


@pytest.mark.requirement("EXP-14")
def test_the_dashboard_rolls_over_seven_days(memory, clock):
    for days in (0, 1, 6, 7):
        memory.episodes.record(
            "Work", agent=f"a{days}", timestamp=clock.now() - timedelta(days=days),
            outcome="failure" if days == 6 else "success",
        )  # fmt: skip
    memory.episodes.start("Going on")
    board = memory.metrics.dashboard()
    assert [day.day for day in board.days] == [
        f"2026-0{d}" for d in ("1-28", "1-29", "1-30", "1-31", "2-01", "2-02", "2-03")
    ]
    assert [day.episodes for day in board.days] == [1, 0, 0, 0, 0, 1, 1]
    assert (board.episodes, board.agents, board.unfinished) == (3, 3, 1)
    assert board.success_rate == pytest.approx(2 / 3, abs=0.001)
    assert memory.metrics.dashboard(days=8).episodes == 4


@pytest.mark.requirement("EXP-14")
def test_an_empty_store_has_an_empty_dashboard(local):
    board = local.metrics.dashboard()
    assert (board.episodes, board.success_rate, board.mean_reward) == (0, None, None)
    assert board.as_json()["days"][0]["episodes"] == 0
