"""Every page loads on the demo store without a fault, reads well for everybody, and is light."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from lukasa.interfaces.dashboard.assets import PAGE_PATHS
from support.dashboard import NARROW, Visitor

pytestmark = pytest.mark.requirement("DOO-5")
MAX_BYTES = 300_000
VIEWS = (
    *PAGE_PATHS,
    "/recall?q=staging+database",
    "/memories?view=topics",
    "/memories?view=proposals",
    "/memories?view=refusals",
)
"""All pages, and views of them that draw something else."""


@pytest.mark.parametrize("path", VIEWS)
def test_a_page_is_light_without_a_fault_and_reads_well_for_everybody(
    path: str, sign_in: Callable[..., Visitor]
) -> None:
    visitor = sign_in()
    session = visitor.context.new_cdp_session(visitor.page)
    session.send("Network.enable")
    sizes: list[float] = []
    servers: set[str] = set()
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    visitor.page.on("request", lambda request: servers.add(request.url.split("/")[2]))
    page = visitor.open(path)
    assert page.locator("h1").count() == 1
    assert page.title().endswith("Lukasa")
    assert visitor.find_issues() == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(NARROW)
    assert visitor.find_issues() == []
    for width in (NARROW["width"], 640):  # a phone, and a wide screen at 200 %
        page.set_viewport_size({"width": width, "height": 450})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"wider than {width} pixels"
    assert 10_000 < sum(sizes) < MAX_BYTES
    assert servers == {visitor.server.url.split("/")[2]}


def test_every_page_can_be_reached_by_its_key_and_reloaded(sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in()
    page = visitor.open("/")
    for key, path in (("m", "/memories"), ("n", "/graph"), ("r", "/recall"), ("s", "/sessions"), ("p", "/operations")):
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{path}")
        visitor.wait()
        heading = page.locator("h1").inner_text()
        page.reload()
        visitor.wait()
        assert page.locator("h1").inner_text() == heading
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keyboard shortcuts").is_visible()
    assert visitor.find_issues() == []


def test_the_theme_is_kept(sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in()
    page = visitor.open("/memories")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    visitor.wait()
    assert page.evaluate(background) == dark


def test_a_stranger_signs_in_and_reaches_the_page_they_asked_for(sign_in: Callable[..., Visitor]) -> None:
    visitor = sign_in("")
    page = visitor.page
    page.goto(f"{visitor.server.url}/trust")
    page.wait_for_url("**/login?next=**")
    page.get_by_label("Token").fill(visitor.server.tokens["owner"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/trust")
    visitor.wait()
    expect(page.get_by_role("heading", level=1)).to_have_text("Trust")
