"""Stores that earlier versions of Lukasa wrote open here, with everything that was in them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import lukasa

STORES = sorted((Path(__file__).parent / "stores").glob("schema_*.db.gz"))


@pytest.mark.parametrize("packed", STORES, ids=lambda file: file.name.partition(".")[0])
def test_a_store_of_an_earlier_schema_opens_with_everything_in_it(packed, tmp_path):
    store = tmp_path / "old.db"
    store.write_bytes(gzip.decompress(packed.read_bytes()))
    with lukasa.open(store, agent="orion") as memory:
        assert memory.recall("when do we deploy?").hits[0].text == "Deploys run on Thursday."
        assert [turn.content for turn in memory.context.transcript("chat-1")][-1] == "Understood, PostgreSQL it is."
        assert memory.recall("会議").hits[0].text == "会議は火曜日です。"
        versions = memory.journal.history(memory.recall("deploy").hits[0].record.key)
        assert [version.text for version in versions] == ["Deploys run on Tuesday.", "Deploys run on Thursday."]
    with lukasa.open(store) as memory:
        assert memory.verify().sound


def test_there_is_a_store_of_every_schema_before_this_one():
    from lukasa.storage.sqlite.store_file import SCHEMA_VERSION

    known = {int(file.name.removeprefix("schema_").partition(".")[0]) for file in STORES}
    assert known == set(range(2, SCHEMA_VERSION)), "add a store that the version before wrote"
