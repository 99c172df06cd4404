"""Take pictures of the dashboard on the demo store, as of a fixed time: pages wide and light, some dark, some on a phone.

make pictures
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests"))

from lukasa.interfaces.demo import fill_store  # noqa: E402 - after the path is set
from support.browser import run_browser  # noqa: E402
from support.dashboard import Visitor, serve_dashboard, visit  # noqa: E402

NOW = datetime(2026, 11, 16, 18, 30, tzinfo=UTC)
MAX_BYTES = 150_000
PICTURES = (
    ("overview", "/", {}),
    ("overview-dark", "/", {"dark": True}),
    ("recall", "/recall?q=How+do+we+deploy%3F&k=5", {}),
    ("recall-dark", "/recall?q=How+do+we+deploy%3F&k=5", {"dark": True}),
    ("record", "record", {}),
    ("graph", "/graph?depth=2", {}),
    ("trust", "/trust", {}),
    ("phone", "/memories", {"narrow": True, "dark": True}),
)


def take(visitor: Visitor, name: str, path: str) -> None:
    """Open a page, wait until it is drawn, and save what fits on one screen."""
    visitor.page.clock.set_fixed_time(NOW)
    page = visitor.open(path)
    page.wait_for_timeout(1_000)
    file = FOLDER / f"{name}.png"
    page.screenshot(path=file, animations="disabled")
    if file.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{file.name} has {file.stat().st_size} bytes; {MAX_BYTES} are allowed.")


def main() -> None:
    """Fill a store, serve it, and take every picture."""
    with TemporaryDirectory() as folder, run_browser() as browser:
        store = Path(folder) / "memory.db"
        fill_store(store, now=NOW, embedder="hash")
        with serve_dashboard(store, embedder="hash") as server:
            changed = next(memory for memory in server.memory.vault.list("shared") if memory.version > 1)
            record = f"/record?scope=shared&kind=memory&id={changed.id}"
            for name, path, look in PICTURES:
                with visit(browser, server, locale="en-GB", timezone_id="Europe/Berlin", **look) as visitor:
                    take(visitor, name, record if path == "record" else path)


if __name__ == "__main__":
    main()
