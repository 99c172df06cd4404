"""Forecasts in the state of a session: they appear without merging by hand, and nothing that was there is lost."""

import pytest

from lukasa.sessions import NEVER

pytestmark = pytest.mark.requirement("CHK-13")


@pytest.fixture
def session(memory):
    return memory.sessions.start("demo", significance=NEVER)


def find(state, id):
    return next(item for item in state["active_predictions"] if item["prediction_id"] == id)


@pytest.mark.requirement("FOR-1", "FOR-2", "FOR-3", "FOR-4")
def test_forecasts_and_scores_appear_in_the_state(memory, session, clock):
    forecasts = memory.forecasts
    forecasts.predict("Will it ship?", 0.6, prediction_id="p")
    assert find(session.state, "p")["probability"] == 0.6
    session.checkpoint()
    forecasts.reason("p", base_rate=0.4)
    forecasts.signal("p", confidence=0.9)
    clock.advance(60)
    forecasts.revise("p", 0.8)
    forecasts.resolve("p", True)
    state = session.state
    assert (find(state, "p")["status"], find(state, "p")["num_updates"]) == ("resolved", 1)
    assert state["reasoning_cache"]["p"]["base_rate"] == 0.4
    assert [item["confidence"] for item in state["signal_history"]] == [0.9]
    metrics = state["performance_metrics"]
    assert (metrics["total_predictions"], metrics["resolved_predictions"]) == (1, 1)
    assert metrics["brier_score"] == pytest.approx(0.04)
    assert state["learning_state"]["performance_trend"] == "stable"
    session.checkpoint()
    stored = memory.sessions.load_latest_checkpoint("demo")
    assert find(stored, "p")["status"] == "resolved"
    assert stored["performance_metrics"]["brier_score"] == pytest.approx(0.04)


def test_a_state_without_forecasts_is_left_alone(memory, make, content):
    memory.sessions.save_checkpoint(make.state(), "demo")
    assert content(memory.sessions.state("demo")) == content(make.state())
    tip = memory.journal.tip()
    memory.sessions.state("demo")
    assert memory.journal.tip() == tip


def test_forecasts_of_one_agent_do_not_appear_in_the_session_of_another(location, open_store, clock):
    orion, elysia = (open_store(location, agent=agent, clock=clock) for agent in ("orion", "elysia"))
    session = orion.sessions.start("o")
    elysia.forecasts.predict("?", 0.6, prediction_id="hers")
    orion.forecasts.predict("?", 0.6, prediction_id="his")
    assert [item["prediction_id"] for item in session.state["active_predictions"]] == ["his"]


def test_the_newest_session_of_a_scope_has_later_forecasts_and_an_older_one_has_not(memory, make, clock):
    memory.sessions.save_checkpoint(make.state(1), "old")
    memory.sessions.save_checkpoint(make.state(1), "new")
    memory.forecasts.predict("?", 0.6, prediction_id="later")
    assert len(memory.sessions.state("old")["active_predictions"]) == 1
    assert find(memory.sessions.state("new"), "later")
    assert find(memory.sessions.state("new"), "pred-0")


def test_the_newer_version_of_a_prediction_counts(memory, session, make, clock):
    memory.forecasts.predict("?", 0.6, prediction_id="p")
    clock.advance(60)
    assert session.update_prediction("p", 0.7)  # it is stored in the state first
    assert find(session.state, "p")["probability"] == 0.7
    memory.forecasts.predict("?", 0.2, prediction_id="q")
    assert find(session.state, "p")["probability"] == 0.7
    clock.advance(60)
    memory.forecasts.revise("p", 0.9)
    assert find(session.state, "p")["probability"] == 0.9
    assert session.update("/active_predictions/q/probability", 0.3)


@pytest.mark.requirement("FOR-4")
def test_figures_that_a_state_brought_along_carry_on(memory, make, clock):
    state = make.state(0, 0)
    state["performance_metrics"] |= {"total_predictions": 127, "last_calculated": "2026-02-03T11:00:00Z"}
    session = memory.sessions.start("demo", significance=NEVER)
    session.replace(state)
    memory.forecasts.predict("?", 1.0, prediction_id="p")
    memory.forecasts.resolve("p", False)
    metrics = session.state["performance_metrics"]
    assert (metrics["total_predictions"], metrics["resolved_predictions"]) == (128, 86)
    assert metrics["brier_score"] == pytest.approx((85 * 0.18 + 1) / 86)
    assert metrics["by_confidence_bucket"]["high"] == {"count": 46, "accuracy": pytest.approx(45 * 0.89 / 46)}
    session.checkpoint()
    memory.forecasts.predict("?", 0.5, prediction_id="q")
    assert session.state["performance_metrics"]["total_predictions"] == 129
    assert session.state["learning_state"]["calibration_adjustments"]["bias_correction"] == -0.02


def test_predictions_that_came_with_the_state_are_not_counted_twice(memory, make):
    state = make.state(2, 0)
    memory.sessions.save_checkpoint(state, "demo")
    memory.forecasts.take_in(state)
    assert memory.sessions.state("demo")["performance_metrics"] == state["performance_metrics"]


@pytest.mark.requirement("CHK-11")
def test_pruned_signals_do_not_come_back(memory, session, clock):
    memory.forecasts.predict("?", 0.9, prediction_id="p")
    memory.forecasts.signal("p")
    session.checkpoint()
    clock.advance(8 * 24 * 3600)
    assert session.prune().counts == {"signal_history": 1}
    memory.forecasts.predict("?", 0.9, prediction_id="q")
    session.checkpoint()
    assert session.state["signal_history"] == []


def test_storing_forecasts_again_writes_nothing(memory, session):
    memory.forecasts.predict("?", 0.9, prediction_id="p")
    session.checkpoint()
    tip = memory.journal.tip()
    assert session.state
    session._store_forecasts()
    assert memory.journal.tip() == tip
