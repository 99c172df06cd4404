"""What people do on the pages: find, correct, take back, erase, and settle a conflict, with the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from lukasa.interfaces.dashboard.assets import PAGE_PATHS
from support.dashboard import DashboardServer, Visitor

pytestmark = pytest.mark.requirement("DOO-5")


def record_path(record: Any) -> str:
    return "/record?" + urlencode({"scope": record.scope, "kind": record.kind, "id": record.id})


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Page, text: str) -> None:
    """Press Tab until the element with this text has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText || ''").strip().startswith(text):
            return
    raise AssertionError(f"{text!r} cannot be reached with the keyboard")


def test_the_keyboard_alone_finds_corrects_takes_back_and_erases(
    sign_in: Callable[..., Visitor], dashboard: DashboardServer
) -> None:
    written = dashboard.memory.remember("The lighthouse keeper locks the archive at nine.", category="process").record
    visitor = sign_in()
    page = visitor.open("/")
    press(page, "/")
    page.keyboard.type("lighthouse keeper archive")
    press(page, "Enter")
    page.wait_for_url("**/recall?q=lighthouse**")
    visitor.wait()
    tab_to(page, "Open the record")
    press(page, "Enter")
    page.wait_for_url("**/record?**")
    expect(page.locator(".statement")).to_have_text("The lighthouse keeper locks the archive at nine.")
    press(page, "e")
    page.get_by_role("dialog", name="Edit the memory").wait_for()
    press(page, "Control+a")
    page.keyboard.type("The lighthouse keeper locks the archive at ten.")
    press(page, "Control+Enter")
    expect(page.locator(".statement")).to_have_text("The lighthouse keeper locks the archive at ten.")
    assert dashboard.memory.vault.get(written.id).text.endswith("at ten.")
    page.locator(".toast-undo").wait_for()
    press(page, "u")
    expect(page.locator(".statement")).to_have_text("The lighthouse keeper locks the archive at nine.")
    assert dashboard.memory.vault.get(written.id).version == 3
    tab_to(page, "Forget")
    press(page, "Enter")
    expect(page.get_by_text("This record is forgotten.")).to_be_visible()
    assert dashboard.memory.vault.get(written.id) is None
    press(page, "u")
    expect(page.get_by_text("This record is forgotten.")).to_have_count(0)
    assert dashboard.memory.vault.get(written.id).text.endswith("at nine.")
    tab_to(page, "Erase")
    press(page, "Enter")
    dialog = page.get_by_role("dialog", name="Erase for good?")
    expect(dialog.get_by_text(written.id)).to_be_visible()
    tab_to(page, "Erase")
    press(page, "Enter")
    expect(page.get_by_role("dialog", name="Erased for good")).to_contain_text("nothing")
    assert dashboard.memory.journal.history(written.key) == []
    assert visitor.find_issues() == []


def test_the_second_of_two_edits_is_told_of_the_conflict_and_shown_both(
    sign_in: Callable[..., Visitor], dashboard: DashboardServer
) -> None:
    written = dashboard.memory.remember("The greenhouse is watered on Mondays.", category="process").record
    one, two = sign_in(), sign_in()
    for visitor, day in ((one, "Tuesdays"), (two, "Fridays")):
        visitor.open(record_path(written))
        visitor.page.keyboard.press("e")
        visitor.page.get_by_label("Text", exact=True).fill(f"The greenhouse is watered on {day}.")
    one.page.get_by_role("button", name="Save").click()
    expect(one.page.locator(".statement")).to_contain_text("Tuesdays")
    two.page.get_by_role("button", name="Save").click()
    dialog = two.page.get_by_role("dialog", name="Somebody else has changed this memory")
    expect(dialog).to_contain_text("The greenhouse is watered on Tuesdays.")
    expect(dialog).to_contain_text("The greenhouse is watered on Fridays.")
    two.faults.clear()  # the browser logs the answer 412
    assert two.find_issues() == []
    assert dashboard.memory.vault.get(written.id).text.endswith("Tuesdays.")
    dialog.get_by_role("button", name="Go on editing mine").click()
    two.page.get_by_role("button", name="Save").click()
    expect(two.page.locator(".statement")).to_contain_text("Fridays")
    assert [version.text[-9:-1] for version in dashboard.memory.vault.history(written.id)][1:] == [
        "Tuesdays",
        " Fridays",
    ]


def test_a_memory_is_written_refused_with_a_reason_and_taken_back(
    sign_in: Callable[..., Visitor], dashboard: DashboardServer
) -> None:
    visitor = sign_in("ada")
    page = visitor.open("/memories")
    page.get_by_role("button", name="Remember something").click()
    page.get_by_label("What should be remembered?").fill("The beehives stand behind the workshop.")
    page.get_by_role("button", name="Remember", exact=True).click()
    expect(page.get_by_role("link", name="The beehives stand behind the workshop.")).to_be_visible()
    page.get_by_role("button", name="Remember something").click()
    page.get_by_label("What should be remembered?").fill("The beehives stand behind the workshop.")
    page.get_by_role("button", name="Remember", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="It is another fact")).to_be_visible()
    visitor.faults.clear()  # the browser logs the answer 409
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("link", name="The beehives stand behind the workshop.")).to_have_count(0)
    assert all("beehives" not in memory.text for memory in dashboard.memory.vault.list())


def test_an_author_is_hidden_and_shown_again(sign_in: Callable[..., Visitor], dashboard: DashboardServer) -> None:
    mallory = dashboard.memory.as_agent("mallory")
    written = mallory.remember("The spare key lies under the third stone.").record
    visitor = sign_in()
    page = visitor.open(record_path(written))
    page.get_by_role("button", name="Quarantine author").click()
    page.get_by_role("button", name="Hide what they wrote").click()
    expect(page.get_by_text("There is no such record.")).to_be_visible()
    assert "mallory" in dashboard.memory.journal.quarantined()
    visitor.faults.clear()  # the browser logs the answer 404
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".statement")).to_contain_text("third stone")
    assert "mallory" not in dashboard.memory.journal.quarantined()
    mallory.close()


def test_a_read_only_token_sees_no_control_that_writes(
    sign_in: Callable[..., Visitor], dashboard: DashboardServer
) -> None:
    record = dashboard.memory.vault.list("shared")[0]
    visitor = sign_in("reader")
    views = (*PAGE_PATHS, "/memories?view=proposals", f"/record?scope=shared&kind=memory&id={record.id}")
    for path in views:
        if path == "/login":
            continue
        page = visitor.open(path)
        if path.startswith("/record?"):
            page.keyboard.press("e")
        names = page.get_by_role("button").all_inner_texts()
        writing = (
            "Edit",
            "Forget",
            "Erase",
            "Quarantine",
            "Remember",
            "Keep only",
            "Restore",
            "Promote",
            "Approve",
            "Revoke",
        )
        assert not [name for name in names if name.startswith(writing)], path
        assert page.get_by_role("dialog").count() == 0
        assert page.get_by_text("read only").count() == 1
    visitor.faults.clear() if all("403" in fault for fault in visitor.faults) else None
