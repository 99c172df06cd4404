"""Hostile text stays text: nothing runs, nothing is drawn, nothing is hidden, on every page that shows text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from support.dashboard import DashboardServer, Visitor, serve_dashboard
from support.hostile_texts import HIDDEN, INERT, PROBE, TEXTS

pytestmark = pytest.mark.requirement("DOO-5")

PAGES = ("/", "/memories", "/memories?view=topics", "/memories?view=proposals", "/graph", "/recall?q=hostile", "/recall?q=hostile&view=block", "/live", "/sessions", "/experience", "/agents", "/operations")  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """Serve a store in which every text, topic, tag, category and id is hostile."""
    path: Path = tmp_path_factory.mktemp("hostile") / "memory.db"
    with serve_dashboard(path, embedder="hash") as server:
        journal = server.memory.journal
        for number, text in enumerate(TEXTS):
            tier = "register" if number % 2 else "canon"
            body = {"tier": tier, "category": text[:60], "topic_id": text[:60], "tags": [text[:40]], text[:40]: text}
            plain = "".join(char for char in text if ord(char) >= 32)  # a label takes no control characters
            labels = (f"tier={tier}", f"category={plain[:60]}", f"tag={plain[:40]}")
            for ending in ("", " again"):
                assert journal.write("memory", f"hostile {text}{ending}", body=body, id=f"m{number}", labels=labels)
            server.memory.context.append(f"talk-{number}", "user", f"hostile {text}")
        yield server


def test_there_are_forty_texts() -> None:
    assert len(TEXTS) == len(set(TEXTS)) == 40


@pytest.mark.parametrize("path", PAGES)
def test_hostile_texts_stay_inert(path: str, hostile: DashboardServer, sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in(server=hostile)
    page = visitor.open(path)
    page.wait_for_timeout(100)
    assert page.evaluate(PROBE) == INERT


def test_every_hostile_record_stays_inert(hostile: DashboardServer, sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in(server=hostile)
    for number, text in enumerate(TEXTS):
        page = visitor.open("/record?" + urlencode({"scope": "shared", "kind": "memory", "id": f"m{number}"}))
        assert page.evaluate(PROBE) == INERT, text
        if text in HIDDEN:
            assert page.locator(".statement .mark").count() > 0, text


def test_a_hostile_address_stays_inert(hostile: DashboardServer, sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in(server=hostile)
    for text in TEXTS[:12]:
        page = visitor.open(f"/recall?q={quote(text)}&kind={quote(text)}&view={quote(text)}")
        assert page.evaluate(PROBE) == INERT, text
        page = visitor.open(f"/graph?scope={quote(text)}&kind={quote(text)}&id={quote(text)}")
        assert page.evaluate(PROBE) == INERT, text
    visitor.faults.clear()  # the browser logs the answer 404
