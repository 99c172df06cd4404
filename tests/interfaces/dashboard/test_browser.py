"""The tests bring their browser: an installed one, else playwright's own, else Debian's package, else one clear sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support import browser

Install = Callable[[str, str], Path]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that adds a program to an otherwise empty PATH. Playwright can reach no server."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PLAYWRIGHT_DOWNLOAD_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))

    def add(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return add


def test_a_browser_that_is_installed_is_taken(programs: Install, tmp_path: Path) -> None:
    installed = programs("google-chrome", "exit 0")
    assert browser.find_browser(tmp_path / "none") == str(installed)


def test_else_the_download_of_playwright(programs: Install, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.touch()
    assert browser.find_browser(own) == str(own)


def test_else_the_package_of_debian_for_root(
    programs: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    made = tmp_path / "bin" / "chromium"
    programs("apt-get", f'case "$*" in install*chromium*) printf "#!/bin/sh\\n" > {made}; /bin/chmod 755 {made};; esac')
    assert browser.find_browser(tmp_path / "none") == str(made)


def test_else_a_sentence_that_says_what_to_install(programs: Install, tmp_path: Path) -> None:
    programs("apt-get", "exit 100")
    with pytest.raises(RuntimeError, match=r"apt-get install chromium.*playwright install chromium"):
        browser.find_browser(tmp_path / "none")
