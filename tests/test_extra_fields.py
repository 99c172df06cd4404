"""Misspelt fields are refused, and further ones of the caller's own are given by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lukasa
from lukasa import Refused


@pytest.fixture
def memory() -> Iterator[lukasa.Memory]:
    with lukasa.open("memory:", embedder="hash") as memory:
        yield memory


TAKERS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "episode": (lambda memory, **given: memory.episodes.record("Fix it", **given), "outcom", "outcome"),
    "step": (lambda memory, **given: memory.episodes.step(memory.episodes.start("Fix it").id, "read", **given), "reslt", "result"),
    "handoff": (lambda memory, **given: memory.handoffs.create("ben", "Half of it", from_agent="ada", **given), "known_issue", "known_issues"),
    "pattern": (lambda memory, **given: memory.knowledge.add_pattern("Test first", **given), "confidense", "confidence"),
    "anti-pattern": (lambda memory, **given: memory.knowledge.add_antipattern("Guessing", **given), "preventoin", "prevention"),
    "fact": (lambda memory, **given: memory.knowledge.add_fact("The port is 80", **given), "categori", "category"),
    "task": (lambda memory, **given: memory.context.task("s", "t", **given), "progres", "progress"),
    "record": (lambda memory, **given: memory.journal.write("note", "x", **given), "label", "labels"),
}  # fmt: skip


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("name", TAKERS)
def test_a_misspelt_keyword_stores_nothing(memory: lukasa.Memory, name: str) -> None:
    call, misspelt, _ = TAKERS[name]
    before = [record.kind for record in memory.journal.read()]
    with pytest.raises(TypeError, match=misspelt):
        call(memory, **{misspelt: "x"})
    stored = [record for record in memory.journal.read() if record.kind != "episode"]
    assert [record.kind for record in stored] == before


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("name", [name for name in TAKERS if name != "record"])
def test_further_fields_are_kept_unless_they_look_like_known_ones(memory: lukasa.Memory, name: str) -> None:
    call, misspelt, known = TAKERS[name]
    for wrong in (misspelt, known, "author"):
        outcome = call(memory, extra={wrong: "x"})
        assert isinstance(outcome, Refused)
        assert outcome.code == "bad_field"
    assert known in call(memory, extra={misspelt: "x"}).reason
    assert call(memory, extra={"weather": "rain"})
    assert any("rain" in str(record.body) for record in memory.journal.read())


@pytest.mark.requirement("DOO-1")
def test_a_revised_prediction_keeps_further_fields(memory: lukasa.Memory) -> None:
    memory.forecasts.predict("We ship on Friday", 0.7, prediction_id="p-1")
    with memory.sessions.start("demo") as session:
        assert session.update_prediction("p-1", 0.9, extra={"basis": "the build is green"})
        refused = session.update_prediction("p-1", 0.9, extra={"probabilty": 1})
        assert isinstance(refused, Refused)
        assert session.state["active_predictions"][0]["basis"] == "the build is green"
