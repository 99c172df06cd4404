"""The documentation site as a browser shows it: no serious fault of accessibility on its main pages, light and dark."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.browser import run_browser
from support.dashboard import AXE

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-5")]

ROOT = Path(__file__).parent.parent
ZENSICAL = ROOT / "build" / "docs" / "bin" / "zensical"
PAGES = (
    "index.html", "tutorial.html", "install.html", "concepts.html", "howto/coding-agents.html", "reference/codes.html",
    "decisions/README.html", "benchmarks.html", "reference/python.html", "reference/cli.html", "reference/api.html",
)  # fmt: skip
"""Every sort of page, also the longest ones."""
SERIOUS = ("serious", "critical")


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site as ``make docs`` does, and serve it on a port of this machine."""
    folder = tmp_path_factory.mktemp("site") / "site"
    if not ZENSICAL.exists():
        subprocess.run(["make", "docs"], cwd=ROOT, check=True)
    command = [sys.executable, str(ROOT / "tools" / "site.py"), "--out", str(folder), "--zensical", str(ZENSICAL)]
    subprocess.run(command, cwd=ROOT, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_axe_finds_nothing_serious_on_the_main_pages(address: str) -> None:
    found = []
    with run_browser() as browser:
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme)
            page = context.new_page()
            for name in PAGES:
                page.goto(f"{address}/{name}", wait_until="load")
                page.evaluate(AXE.read_text("utf-8") + ";0")
                result = page.evaluate("axe.run({resultTypes: ['violations']})")
                found += [
                    f"{scheme} {name}: {fault['id']} {node['target']} {node['any'][0]['message'] if node['any'] else ''}"
                    for fault in result["violations"]
                    if fault["impact"] in SERIOUS
                    for node in fault["nodes"]
                ]
            context.close()
    assert found == []
