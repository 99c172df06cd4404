"""The page of proposals in a real browser: the owner reads what would change and decides, an agent only reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from support.dashboard import Visitor

pytestmark = pytest.mark.requirement("DOO-5")
SignIn = Callable[..., Visitor]


def test_the_owner_reads_the_difference_and_accepts_or_refuses(sign_in: SignIn) -> None:
    visitor = sign_in()
    memory = visitor.server.memory
    mallory = memory.as_agent("mallory")
    kept = memory.remember("The archive of herons is painted on Tuesdays.").record
    other = memory.remember("The roof of the library is <b>green</b> and low.").record
    assert mallory.vault.update(kept.id, "The archive of herons is painted on Fridays.").code == "proposed"
    assert mallory.forget(other.id).code == "proposed"
    expect(visitor.open("/").get_by_role("link", name="2 open")).to_be_visible()
    page = visitor.open("/proposals")
    expect(page.locator("del", has_text="Tuesdays.")).to_be_visible()
    expect(page.locator("ins", has_text="Fridays.")).to_be_visible()
    expect(page.get_by_text("<b>green</b>")).to_be_visible()
    assert visitor.find_issues() == []
    page.get_by_role("button", name="Accept").first.click()
    expect(page.get_by_text("Accepted: the change is made.")).to_be_visible()
    expect(page.get_by_role("button", name="Refuse")).to_have_count(1)
    assert memory.vault.get(kept.id).text == "The archive of herons is painted on Fridays."
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_text("No proposal waits.")).to_be_visible()
    assert memory.vault.get(other.id) is not None
    page.get_by_role("tab", name="Refused").click()
    expect(page.get_by_text("deletes it")).to_be_visible()


def test_an_agent_sees_proposals_and_no_button_that_decides(sign_in: SignIn) -> None:
    visitor = sign_in("ada")
    memory = visitor.server.memory
    kept = memory.remember("The boats of the harbour are counted in spring.").record
    assert memory.as_agent("ada").forget(kept.id).code == "proposed"
    page = visitor.open("/proposals")
    expect(page.get_by_text("The boats of the harbour are counted in spring.")).to_be_visible()
    expect(page.get_by_role("button", name="Accept")).to_have_count(0)
