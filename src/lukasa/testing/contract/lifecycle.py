"""The exam: backups, reopening, several engines on one store, closing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lukasa.errors import LukasaError, StoreClosed
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, Query
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineFactory,
    EngineTestBase,
    find_ids,
    get,
    history,
    log_entries,
    make_draft,
    make_key,
    read,
    receipt_for,
    requirement,
    text_of,
    tip,
    write_note,
)
from lukasa.testing.contract.dump import dump_store
from lukasa.testing.contract.example_store import fill_example_store


class LifecycleTests(EngineTestBase):
    """Backups, reopening, several engines on one store, closing."""

    @requirement("LOG-3")
    def test_a_reopened_store_is_exactly_as_it_was(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        before = dump_store(engine)
        engine = self.reopen(engine, clock)
        assert dump_store(engine) == before
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_a_backup_opens_and_is_equal(self, engine: Engine, clock: FrozenClock, tmp_path: Path) -> None:
        """An exported log has no vectors, and its import numbers the positions again."""
        fill_example_store(engine, clock)
        engine.backup(tmp_path / "copy")
        copy = self.open_copy(tmp_path / "copy")
        copied, expected = (dump_store(store, positions=False, without=("vectors",)) for store in (copy, engine))
        assert copied == expected
        assert log_entries(copy) == log_entries(engine)
        assert copy.verify().sound
        write_note(copy, "only in the copy")
        assert get(engine, "only in the copy") is None

    def test_a_backup_never_overwrites(self, engine: Engine, tmp_path: Path) -> None:
        target = tmp_path / "backups" / "copy"
        target.parent.mkdir()
        target.write_bytes(b"precious")
        with pytest.raises(LukasaError):
            engine.backup(target)
        assert target.read_bytes() == b"precious"
        assert list(target.parent.iterdir()) == [target]

    @requirement("LOG-3")
    def test_two_engines_on_one_store_see_each_others_writes(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.open_second(engine, clock)
        write_note(engine, "a", "from one")
        assert text_of(other, "a") == "from one"
        assert write_note(other, "a", "from the other").version == 2
        assert text_of(engine, "a") == "from the other"
        assert find_ids(engine, "other") == ["a"]
        engine.compact()
        assert len(history(other, "a")) == 1
        other.reindex()
        assert engine.verify().sound

    def test_a_store_describes_itself(self, engine: Engine) -> None:
        facts = engine.describe()
        assert facts["engine"]
        assert facts["store"]

    def test_closing_twice_is_fine(self, engine: Engine) -> None:
        write_note(engine, "a")
        engine.close()
        engine.close()

    @pytest.mark.parametrize(
        "verb",
        [
            "reading",
            "append",
            "decide",
            "replay",
            "put_vectors",
            "verify",
            "reindex",
            "compact",
            "erase",
            "backup",
            "describe",
        ],
    )
    def test_a_closed_store_says_so(self, engine: Engine, verb: str, tmp_path: Path) -> None:
        write_note(engine, "a")
        log = log_entries(engine)
        engine.close()
        deeds: dict[str, Callable[[], Any]] = {
            "reading": lambda: tip(engine),
            "append": lambda: engine.append(FULL_REACH, [make_draft(id="b")]),
            "decide": lambda: engine.append(FULL_REACH, lambda _: [make_draft(id="b")]),
            "replay": lambda: list(engine.replay(FULL_REACH, log)),
            "put_vectors": lambda: engine.put_vectors("m", [(1, 0, [1.0])]),
            "verify": engine.verify,
            "reindex": engine.reindex,
            "compact": engine.compact,
            "erase": lambda: engine.erase(lambda _: [make_key("a")], receipt_for),
            "backup": lambda: engine.backup(tmp_path / "copy"),
            "describe": engine.describe,
        }
        with pytest.raises(StoreClosed):
            deeds[verb]()

    def test_fresh_stores_are_empty_and_apart(self, make_engine: EngineFactory) -> None:
        one, two = make_engine(), make_engine()
        write_note(one, "a")
        assert read(two, Reach(None, None)) == []
        with two.snapshot(FULL_REACH) as reader:
            assert reader.read(Query(every_version=True, hidden=True)) == []
            assert reader.tally() == []
