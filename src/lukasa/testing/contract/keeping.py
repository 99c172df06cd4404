"""The exam: backups, reopening, several engines on one store, closing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lukasa.engine import Engine, Query
from lukasa.errors import LukasaError, StoreClosed
from lukasa.scope import EVERYTHING, Reach
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    MakeEngine,
    at,
    found,
    get,
    history,
    keeps,
    lines,
    note,
    propose,
    read,
    receipt_for,
    text_of,
    tip,
)
from lukasa.testing.contract.lived_in import live_in
from lukasa.testing.contract.observation import observe


class Keeping(Examination):
    """Backups, reopening, several engines on one store, closing."""

    @keeps("LOG-3")
    def test_a_reopened_store_is_exactly_as_it_was(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        before = observe(engine)
        engine = self.reopen(engine, clock)
        assert observe(engine) == before
        assert engine.verify().sound

    @keeps("LOG-5")
    def test_a_backup_opens_and_is_equal(self, engine: Engine, clock: FrozenClock, tmp_path: Path) -> None:
        live_in(engine, clock)
        engine.backup(tmp_path / "copy")
        copy = self.open_copy(tmp_path / "copy")
        assert observe(copy) == observe(engine)
        assert copy.verify().sound
        note(copy, "only in the copy")
        assert get(engine, "only in the copy") is None

    def test_a_backup_never_overwrites(self, engine: Engine, tmp_path: Path) -> None:
        target = tmp_path / "backups" / "copy"
        target.parent.mkdir()
        target.write_bytes(b"precious")
        with pytest.raises(LukasaError):
            engine.backup(target)
        assert target.read_bytes() == b"precious"
        assert list(target.parent.iterdir()) == [target]

    @keeps("LOG-3")
    def test_two_engines_on_one_store_see_each_others_writes(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.alongside(engine, clock)
        note(engine, "a", "from one")
        assert text_of(other, "a") == "from one"
        assert note(other, "a", "from the other").version == 2
        assert text_of(engine, "a") == "from the other"
        assert found(engine, "other") == ["a"]
        engine.compact()
        assert len(history(other, "a")) == 1
        other.reindex()
        assert engine.verify().sound

    def test_a_store_describes_itself(self, engine: Engine) -> None:
        facts = engine.describe()
        assert facts["engine"]
        assert facts["store"]

    def test_closing_twice_is_fine(self, engine: Engine) -> None:
        note(engine, "a")
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
        note(engine, "a")
        log = lines(engine)
        engine.close()
        deeds: dict[str, Callable[[], Any]] = {
            "reading": lambda: tip(engine),
            "append": lambda: engine.append(EVERYTHING, [propose(id="b")]),
            "decide": lambda: engine.append(EVERYTHING, lambda _: [propose(id="b")]),
            "replay": lambda: list(engine.replay(EVERYTHING, log)),
            "put_vectors": lambda: engine.put_vectors("m", [(1, 0, [1.0])]),
            "verify": engine.verify,
            "reindex": engine.reindex,
            "compact": engine.compact,
            "erase": lambda: engine.erase(lambda _: [at("a")], receipt_for),
            "backup": lambda: engine.backup(tmp_path / "copy"),
            "describe": engine.describe,
        }
        with pytest.raises(StoreClosed):
            deeds[verb]()

    def test_fresh_stores_are_empty_and_apart(self, make_engine: MakeEngine) -> None:
        one, two = make_engine(), make_engine()
        note(one, "a")
        assert read(two, Reach(None, None)) == []
        with two.reading(EVERYTHING) as reader:
            assert reader.read(Query(every_version=True, hidden=True)) == []
            assert reader.tally() == []
