"""A real Chromium for tests: one that is installed, else playwright's own download, else Debian's package when root."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WHAT_TO_INSTALL = (
    "No browser was found and none could be installed: install Chromium (on Debian: apt-get install chromium), "
    "or run: python -m playwright install chromium"
)
ARGUMENTS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-gpu-vsync"]


def find_browser(own: Path) -> str:
    """Return the path of a browser, which is installed if there is none; ``own`` is where playwright puts its download.

    Raise with what to install where nothing works.
    """
    with _one_at_a_time():
        for name in NAMES:
            if (found := shutil.which(name)) is not None:
                return found
        if not own.exists():
            _try([sys.executable, "-m", "playwright", "install", "chromium"])
        if own.exists():
            return str(own)
        if os.geteuid() == 0 and shutil.which("apt-get"):
            _try(["apt-get", "update", "-qq"])
            _try(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"])
        if (found := shutil.which("chromium")) is not None:
            return found
    raise RuntimeError(WHAT_TO_INSTALL)


@contextmanager
def run_browser() -> Iterator[Browser]:
    """Start the browser without a window, and close it at the end."""
    with sync_playwright() as playwright:
        path = find_browser(Path(playwright.chromium.executable_path))
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def _try(command: list[str]) -> None:
    try:
        subprocess.run(command, check=False, timeout=600, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return  # the next way is tried


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one of several test processes install at a time."""
    with (Path(tempfile.gettempdir()) / f"lukasa-browser-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
