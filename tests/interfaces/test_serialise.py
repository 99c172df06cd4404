"""JSON of the library's values: one function for every interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import lukasa
from lukasa import Key
from lukasa.core.outcome import Accepted, Conflict, Refused
from lukasa.interfaces.serialise import registered_names, to_json

pytestmark = pytest.mark.requirement("DOO-2")

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


@dataclass
class Sample:
    """A value without an encoder."""

    when: datetime
    key: Key
    parts: tuple[int, ...] = (1, 2)


def test_plain_values_become_json() -> None:
    value = {"at": NOON, "day": date(2026, 2, 3), "for": timedelta(minutes=2), "path": Path("a/b"), "raw": b"\xff"}
    assert to_json(value) == {
        "at": "2026-02-03T12:00:00Z",
        "day": "2026-02-03",
        "for": 120.0,
        "path": "a/b",
        "raw": "ff",
    }
    assert to_json(({"b", "a"}, None, True, 1.5)) == [["a", "b"], None, True, 1.5]


def test_a_dataclass_without_an_encoder_becomes_its_fields() -> None:
    key = {"scope": "shared", "kind": "note", "id": "x"}
    sample = Sample(NOON, Key("shared", "note", "x"))
    assert to_json(sample) == {"when": "2026-02-03T12:00:00Z", "key": key, "parts": [1, 2]}


def test_outcomes_become_json(tmp_path: Path) -> None:
    with lukasa.open(tmp_path / "agents.db") as memory:
        written = memory.journal.write("note", "Deploys run on Tuesday.", id="deploy-day")
    assert isinstance(written, Accepted)
    shown = to_json(written)
    assert shown["records"][0]["text"] == "Deploys run on Tuesday."
    assert shown["repeated"] is False
    assert to_json(Refused("full", "No space.")) == {"code": "full", "reason": "No space.", "details": {}}
    assert to_json(Conflict(Key("s", "k", "i"), 1, 2))["reason"].startswith("s/k/i is at version 2")


def test_everything_a_store_returns_can_be_dumped(tmp_path: Path) -> None:
    with lukasa.open(tmp_path / "agents.db") as memory:
        memory.vault.add_memory("The staging database is called heron.")
        memory.context.append("s1", "user", "We decided to use PostgreSQL.")
        memory.episodes.record("Ship it", outcome="success")
        values = [
            memory.recall("staging database"),
            memory.vault.list(),
            memory.vault.search("heron"),
            memory.context.load("s1"),
            memory.context.list(),
            memory.context.compact("s1"),
            memory.episodes.list(limit=5),
            memory.before_task("Ship it"),
            memory.trust.score("ada"),
            memory.trust.eligibility("ada"),
            memory.jobs.status(),
            memory.metrics.dashboard(7),
            memory.journal.tally(),
            memory.verify(),
            memory.forecasts.scores(),
        ]
        shown = [to_json(value) for value in values]
    json.dumps(shown, allow_nan=False)
    assert shown[0]["hits"][0]["record"]["kind"] == "memory"
    assert shown[3]["recent_history"][0]["content"] == "We decided to use PostgreSQL."


def test_every_encoder_belongs_to_one_class_of_the_program() -> None:
    names: Counter[str] = Counter()
    for module in walk_packages(lukasa.__path__, "lukasa."):
        if not module.name.startswith(("lukasa.testing", "lukasa.integrations", "lukasa.interfaces.cli.__main__")):
            loaded = import_module(module.name)
            names.update(
                name
                for name, value in vars(loaded).items()
                if isinstance(value, type) and value.__module__ == module.name
            )
    assert {name: names[name] for name in registered_names()} == dict.fromkeys(registered_names(), 1)


def test_the_serialiser_loads_no_service_and_no_engine() -> None:
    script = "import lukasa.interfaces.serialise, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.split()
    assert not {"numpy", "apsw", "lukasa.vault", "lukasa.recall", "lukasa.memory", "typer"} & set(loaded)
