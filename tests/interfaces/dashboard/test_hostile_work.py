"""Hostile text in sessions, experience, trust, forecasts, handoffs, signals, jobs and tokens stays text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from lukasa.core.outcome import Accepted, Outcome
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.memory import Memory
from support.dashboard import DashboardServer, Visitor, serve_dashboard
from support.hostile_texts import INERT, PROBE, TEXTS

pytestmark = pytest.mark.requirement("DOO-5")
PAGES = (
    "/sessions",
    "/sessions?scope=ada&id=talk",
    "/sessions?scope=ada&id=work",
    "/sessions?scope=ada&id=work&view=state",
    "/experience",
    "/experience?tab=patterns",
    "/experience?tab=episodes",
    "/experience?tab=skills",
    "/experience?tab=work",
    "/experience?tab=gain",
    "/trust",
    "/trust?tab=judge",
    "/trust?tab=dissents",
    "/trust?tab=overrides",
    "/trust?tab=rubric",
    "/trust?agent=ada",
    "/forecasts",
    "/forecasts?tab=settled",
    "/agents",
    "/agents?agent=ada",
    "/agents?agent=ada&tab=handoffs",
    "/agents?agent=ben&tab=sent",
    "/live",
    "/operations?tab=tokens",
    "/operations?tab=jobs",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """Serve a store in which every text that the pages show is hostile."""
    path: Path = tmp_path_factory.mktemp("hostile-work") / "memory.db"
    with serve_dashboard(path, embedder="hash") as server:
        owner = server.memory
        with owner.as_agent("ada") as ada, owner.as_agent("ben") as ben:
            taken = sum(write_everywhere(owner, ada, ben, text, number) for number, text in enumerate(TEXTS))
        assert taken > 12 * len(TEXTS), "most of the hostile texts are in the store"
        tokens = StoreTokenSource(server.stores).open()
        for text in TEXTS:
            tokens.add(text[:90], agent="ada", rate=0)
        yield server


def write_everywhere(owner: Memory, ada: Memory, ben: Memory, text: str, number: int) -> int:
    """Write a text wherever the library takes it; return how many places took it."""
    error = {"type": text[:60], "message": text, "resolution": text}
    step = {"action": text[:60], "target": text, "result": text}
    outcomes: list[Outcome] = [
        ada.context.append("talk", "user", text),
        ada.context.add_fact("talk", text),
        ada.context.task("talk", f"t{number}", text),
        ada.sessions.save_checkpoint({"goal": text, text[:60]: text}, "work"),
        ada.episodes.record(text, task_id=text[:60], outcome="success", action_log=[step], errors=[error]),
        ben.episodes.record(text, task_id=text[:60], outcome="failure", action_log=[step], errors=[error]),
        ada.knowledge.add_pattern(text, category=text[:60], correct_approach=text),
        ada.knowledge.add_antipattern(text, why=text, prevention=text),
        ada.handoffs.create("ben", text, artifacts=[text], needs_testing=[text], known_issues=[text]),
        ben.handoffs.create("ada", text),
        ada.trust.file_dissent(text, round_id=text[:60], rubric_citations=[text[:60]]),
        owner.trust.log_dissent("ada", text, impact=True, of="ben"),
        owner.trust.log_override("ada", text, f"{text} changed", by="mara"),
        ada.forecasts.predict(text, 0.5, prediction_id=f"p{number}", category=text[:60]),
        ben.forecasts.predict(text, 0.9, prediction_id=f"q{number}", market_id=text[:60]),
        ben.forecasts.resolve(f"q{number}", True),
        ada.ledgers.checkpoint(current_task=text, completed=1),
        owner.trust.rubric.set({text[:60]: 1.0, "Clarity": 1.0}, by="mara"),
        ada.journal.write("note", text),
        owner.journal.write("job", body={"name": text[:40]}, scope="ada"),
    ]
    ben.hub.broadcast("ben", "signal", {"signal_id": f"s{number}", "market_id": text, "prediction": text})
    return sum(isinstance(outcome, Accepted) for outcome in outcomes)


def test_hostile_texts_stay_inert(hostile: DashboardServer, sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in(server=hostile)
    for path in PAGES:
        page = visitor.open(path)
        page.wait_for_timeout(50)
        assert page.evaluate(PROBE) == INERT, path


def test_a_hostile_address_stays_inert(hostile: DashboardServer, sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in(server=hostile)
    for text in TEXTS[:12:6]:
        for path, names in (
            ("/sessions", ("scope", "id")),
            ("/trust", ("agent",)),
            ("/agents", ("agent",)),
            ("/forecasts", ("category",)),
        ):
            page = visitor.open(f"{path}?{urlencode(dict.fromkeys(names, text))}")
            assert page.evaluate(PROBE) == INERT, (path, text)
    visitor.faults.clear()  # the browser logs the answers 404 and 422
