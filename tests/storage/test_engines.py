"""The registry of engines, and the query conditions that the engines share."""

from __future__ import annotations

import sys

import pytest

from lukasa.config import locate_store
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.errors import InvalidInput, MissingExtra, StoreMissing
from lukasa.storage.engine import Query
from lukasa.storage.engines import EngineOptions, find_engine_for_url, open_engine
from lukasa.storage.location import StoreLocation
from lukasa.storage.reader import Dialect, build_conditions
from lukasa.testing.contract.base import write_note
from lukasa.text.terms import text_pair_keys


def test_a_store_name_selects_its_engine_by_url_scheme() -> None:
    assert find_engine_for_url("postgresql://h/d") == find_engine_for_url("postgres://h/d") == "postgresql"
    assert find_engine_for_url("agents.db") is find_engine_for_url("postgresql") is find_engine_for_url("x://y") is None
    assert locate_store("postgres://h/d").engine == "postgresql"
    assert locate_store("memory:").engine == "memory"


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="sqlite, memory, postgresql"):
        open_engine(StoreLocation("duckdb"), EngineOptions())


def test_a_missing_store_is_not_created_without_permission(tmp_path) -> None:
    with pytest.raises(StoreMissing):
        open_engine(StoreLocation("sqlite", tmp_path / "x.db"), EngineOptions(create=False))
    assert list(tmp_path.iterdir()) == []


def test_an_engine_whose_driver_is_missing_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lukasa.storage.postgres", None)
    with pytest.raises(MissingExtra, match=r"lukasa\[postgres\]"):
        open_engine(StoreLocation("postgresql", url="postgresql://h/d"), EngineOptions())


@pytest.mark.parametrize(("kinds", "found"), [(frozenset(), []), (frozenset({"memory"}), ["a"])])
def test_an_engine_keeps_near_duplicate_keys_only_of_the_kinds_it_was_given(kinds, found) -> None:
    engine = open_engine(StoreLocation("memory"), EngineOptions(near_duplicate_kinds=kinds))
    text = "herons fish quietly near the old mill"
    write_note(engine, "a", text, kind="memory")
    with engine.snapshot(FULL_REACH) as reader:
        keys = [sorted(text_pair_keys(text, "shared", "memory"))]
        records = reader.near_duplicates(keys, "shared", kind="memory", limit_per_key=9)
        assert [record.id for record in records] == found
    assert engine.verify().sound
    engine.close()


def test_conditions_bind_as_many_values_as_they_have_placeholders() -> None:
    dialect = Dialect(
        "?", "current", "visible", "newest.{bound} <= ?",
        one_of=lambda column, values: (f"{column} IN ({', '.join('?' for _ in values)})", values),
        has_labels=lambda labels: [("label = ?", (label,)) for label in labels],
        mentions="says(?)",
    )  # fmt: skip
    query = Query(
        kinds=("note", "fact"), scopes=("a",), labels=("l=1", "l=2"), author="ada", after=1, before=2**70, as_of=7,
        mentions="x",
    )  # fmt: skip
    conditions, values = build_conditions(dialect, Reach.of(["a", "b"]), query)
    assert conditions[0] == "log.scope IN (?, ?)", "the reach comes first"
    assert " AND ".join(conditions).count("?") == len(values)
    assert 2**63 - 1 in values, "positions are clamped to what a database can compare"
    assert build_conditions(dialect, FULL_REACH, Query()) == (["current"], [])
    assert build_conditions(dialect, FULL_REACH, Query(every_version=True, hidden=True)) == (["TRUE"], [])
    assert "visible" in build_conditions(dialect, Reach.of(["a"]), Query(every_version=True, hidden=True))[0]
