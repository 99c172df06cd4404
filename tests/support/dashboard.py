"""A server with a dashboard over the demo store, and pages of it in a real browser that report every fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, ViewportSize, expect

from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.demo import BACKUP_FOLDER
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores
from support.api_server import serve_app

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong


@dataclass
class DashboardServer:
    """A running server, its store, and a token of the owner, of an agent and of a reader."""

    url: str
    stores: CallerStores
    tokens: dict[str, str]

    @property
    def memory(self) -> Any:
        """The store as its owner sees it."""
        return self.stores.for_caller(Caller())


@contextmanager
def serve_dashboard(path: Path, **options: Any) -> Iterator[DashboardServer]:
    """Serve the store in a file on a free port of this machine, in a thread."""
    stores = CallerStores(str(path), Caller(), **options)
    source = StoreTokenSource(stores)
    tokens = {
        "owner": source.open().add("owner"),
        "ada": source.open().add("ada", agent="ada"),
        "reader": source.open().add("reader", agent="ada", read_only=True),
    }
    backups = (path.parent / BACKUP_FOLDER).as_uri()
    try:
        with serve_app(lambda address: build_app(stores, source, [address], backup_url=backups)) as url:
            yield DashboardServer(url, stores, tokens)
    finally:
        stores.close()


@dataclass
class Visitor:
    """A browser with its own cookies, signed in with one token. ``faults`` are console errors and policy violations."""

    server: DashboardServer
    context: BrowserContext
    page: Page
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Open a page of the dashboard and wait until its data is there."""
        self.page.goto(self.server.url + path)
        self.wait()
        return self.page

    def wait(self) -> None:
        """Wait until the page has read its data."""
        self.page.locator("main:not([aria-busy=true])").wait_for()
        expect(self.page.locator("main .skeleton")).to_have_count(0)

    def new_tab(self) -> Page:
        """Open another tab of the same browser."""
        return _watch(self.context.new_page(), self.faults)

    def find_issues(self) -> list[str]:
        """Return the serious and critical issues that axe-core finds on the page."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe_source() + ";0")  # runs below the policy, which is never bypassed
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{issue['id']} ({issue['impact']}): {[node['html'][:160] for node in issue['nodes'][:3]]}"
            for issue in found["violations"]
            if issue["impact"] in ("serious", "critical")
        ]


@contextmanager
def visit(
    browser: Browser,
    server: DashboardServer,
    who: str = "owner",
    *,
    narrow: bool = False,
    dark: bool = False,
    **options: Any,
) -> Iterator[Visitor]:
    """Sign a visitor in, and check at the end that nothing was faulty."""
    context = browser.new_context(
        viewport=NARROW if narrow else WIDE, color_scheme="dark" if dark else "light", **options
    )
    faults: list[str] = []
    try:
        context.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )
        if who:
            answer = context.request.post(
                f"{server.url}/login", data={"token": server.tokens[who]}, headers={"Origin": server.url}
            )
            assert answer.ok, answer.text()
        yield Visitor(server, context, _watch(context.new_page(), faults), faults)
    finally:
        context.close()
    assert not faults, faults


def _watch(page: Page, faults: list[str]) -> Page:
    page.set_default_timeout(30_000)
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))

    def dismiss(dialog: Dialog) -> None:
        faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    return page


@cache
def _axe_source() -> str:
    return AXE.read_text("utf-8")
