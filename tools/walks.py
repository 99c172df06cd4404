"""Follow one call through the files of the package: which files it crosses, and how often it goes from one to another.

Each walk is made in a small store that is already warm, with a clock and identifiers of its own, so that a walk is the same
on every machine.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

import lukasa
from lukasa.journal import Journal
from lukasa.testing import FrozenClock, seeded_ids
from lukasa.transfer.sync import LogPage, fingerprint_log, read_log_page, replay_pushed, sync_logs

PACKAGE = Path(lukasa.__file__).parent
ARGUMENT_CHECK = ("core/argument_types.py", "_find_misfit")
"""The file and the name of the function that compares the arguments of a call with its types."""

WARM_UP = ("Monday", "Tuesday", "Friday")


class Walk(NamedTuple):
    """The functions of the package that ran, in their order, each as its file and its name."""

    steps: list[tuple[str, str]]

    @property
    def files(self) -> list[str]:
        return sorted({file for file, _ in self.steps})

    @property
    def argument_checks(self) -> int:
        checks = self.steps.count(ARGUMENT_CHECK)
        assert checks, f"{ARGUMENT_CHECK} has another name"
        return checks

    @property
    def switches(self) -> int:
        return sum(before[0] != after[0] for before, after in zip(self.steps, self.steps[1:], strict=False))


Follow = Callable[[Callable[[], Any]], Walk]


class Follower:
    """Follows calls in the thread that made it and in every thread that is started while it is in use."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, str]] | None = None
        self._folder = f"{PACKAGE}/"

    def __enter__(self) -> Self:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def follow(self, call: Callable[[], Any]) -> Walk:
        """Make a call, and return how it went through the package."""
        steps: list[tuple[str, str]] = []
        self._steps = steps
        try:
            call()
        finally:
            self._steps = None
        return Walk(steps)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self._steps is not None and event == "call" and frame.f_code.co_filename.startswith(self._folder):
            file = frame.f_code.co_filename.removeprefix(self._folder)
            if not file.startswith("testing/"):
                self._steps.append((file, frame.f_code.co_name))


def open_store(location: str | Path, seed: int = 1) -> AbstractContextManager[lukasa.Memory]:
    """Open a store whose times and identifiers are the same at every run."""
    return lukasa.open(location, clock=FrozenClock(), new_id=seeded_ids(seed), embedder="hash")


def walk_library(folder: Path, follow: Follow) -> dict[str, Walk]:
    """Remember something and recall it with the library."""
    with open_store(folder / "library.db") as memory:
        for day in WARM_UP:
            memory.remember(f"The {day} meeting starts in the room on the left.")
            memory.recall("when is the meeting?")
        remembered = follow(lambda: memory.remember("Invoices are paid within a month."))
        memory.recall("when is the meeting?")  # computes the vector of what was remembered
        return {"a remember": remembered, "a recall": follow(lambda: memory.recall("what happens to invoices?"))}


def walk_http(folder: Path, follow: Follow) -> dict[str, Walk]:
    """Remember something with the HTTP API, whose server and client are in one process."""
    from starlette.testclient import TestClient

    from lukasa.interfaces.auth import StoreTokenSource
    from lukasa.interfaces.http.app import build_app
    from lukasa.interfaces.stores import Caller, CallerStores

    stores = CallerStores(str(folder / "http.db"), Caller(), embedder="hash", clock=FrozenClock())
    try:
        source = StoreTokenSource(stores)
        app = build_app(stores, source, ["testserver"])
        headers = {"Authorization": f"Bearer {source.open().add('ada', agent='ada')}"}

        def remember(text: str) -> None:
            answer = client.post("/v1/memories", json={"text": text})
            assert answer.is_success, answer.text

        with TestClient(app, headers=headers) as client:
            for day in WARM_UP:
                remember(f"The {day} meeting starts in the room on the left.")
            return {"an HTTP remember": follow(lambda: remember("Invoices are paid within a month."))}
    finally:
        stores.close()


class JournalPeer:
    """The log of another store of the same process, in pages of three entries."""

    name = "hub"

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def pull(self, after: int, pair: tuple[str, str] | None = None) -> LogPage:
        return read_log_page(self._journal, after, 3, pair)

    def push(self, entries: Sequence[bytes]) -> list[Any]:
        return replay_pushed(self._journal, [entry.decode() for entry in entries])

    def fingerprint(self) -> Mapping[tuple[str, str], tuple[int, str]]:
        return {pair: (total.versions, total.hash) for pair, total in fingerprint_log(self._journal).items()}


def walk_sync(folder: Path, follow: Follow) -> dict[str, Walk]:
    """Synchronise two stores that each have five records which the other lacks."""
    with open_store(folder / "here.db", 1) as here, open_store(folder / "there.db", 2) as there:
        for number in range(5):
            here.journal.write("note", f"Written here: {number}.")
            there.journal.write("note", f"Written there: {number}.")
        return {"a sync": follow(lambda: sync_logs(here.journal, JournalPeer(there.journal)))}


def make_walks() -> dict[str, Walk]:
    """Make every walk, by its name."""
    with tempfile.TemporaryDirectory() as name, Follower() as follower:
        folder = Path(name)
        return {
            **walk_library(folder, follower.follow),
            **walk_http(folder, follower.follow),
            **walk_sync(folder, follower.follow),
        }
