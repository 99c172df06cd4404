"""Memories expire and are confirmed; blocks say how old they are; reading never refreshes."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest

from lukasa.recall.recall import build_prompt_block
from lukasa.transfer.layouts.vault_jsonl import export_vault, import_vault

DAY = timedelta(days=1)


@pytest.mark.requirement("RCL-7")
def test_an_expired_memory_is_left_out_of_recall_and_listed(memory, clock):
    record = memory.remember("The canteen serves pizza", expires_at=clock.now() + 2 * DAY).record
    memory.remember("The canteen opens at noon")
    assert len(memory.recall("What does the canteen serve?").hits) == 2
    clock.advance(2 * DAY.total_seconds())
    recalled = memory.recall("What does the canteen serve?")
    assert [hit.text for hit in recalled.hits] == ["The canteen opens at noon"]
    assert [(entry.record.id, entry.reason) for entry in recalled.left_out] == [(record.id, "expired")]
    block = build_prompt_block(recalled).text
    assert "pizza" not in block
    assert f"Left out because expired: {record.key}" in block
    everything = memory.recall("What does the canteen serve?", include_expired=True)
    assert len(everything.hits) == 2
    assert not everything.left_out
    earlier = memory.recall("What does the canteen serve?", as_of=clock.now() - DAY)
    assert len(earlier.hits) == 2


@pytest.mark.requirement("RCL-7")
def test_an_expired_memory_is_left_out_of_every_block_and_listed(memory, clock):
    vault = memory.vault
    record = vault.add_memory("The lift is broken", "shared", "house", expires_at=clock.now() + DAY).record
    vault.add_memory("Parcels go to the porter", "shared", "house")
    clock.advance(DAY.total_seconds())
    for text in (
        vault.build_snapshot(),
        vault.build_snapshot_block().text,
        vault.build_memory_block(query="Where do parcels go? Is the lift broken?").text,
    ):
        assert "broken" not in text
        assert f"## Left out\n- expired: {record.id}" in text
        assert "- [house] Parcels go to the porter (yesterday)" in text
    for profile in ("hybrid", "lexical"):
        assert record.id not in [hit.memory.id for hit in vault.search("lift broken", profile=profile)]
        found = vault.search("lift broken", profile=profile, include_expired=True)
        assert record.id in [hit.memory.id for hit in found]
    assert record.id in [known.id for known in vault.list()]


@pytest.mark.requirement("RCL-7")
def test_a_confirmation_is_a_version_and_the_block_says_when_it_was(memory, clock):
    record = memory.remember("The spare key is with the porter").record
    clock.advance(30 * DAY.total_seconds())
    confirmed = memory.confirm(record.id).record
    assert (confirmed.version, confirmed.origin, confirmed.text) == (2, "confirmation", record.text)
    clock.advance(3 * DAY.total_seconds())
    block = build_prompt_block(memory.recall("Who has the spare key?")).text
    assert "4 weeks ago, confirmed 3 days ago" in block
    assert "(4 weeks ago, confirmed 3 days ago)" in memory.vault.build_snapshot()
    history = memory.vault.history(record.id)
    assert [version.source for version in history] == ["manual", "confirmation"]
    assert (history[1].confirmed_at, history[1].stated_at) == (confirmed.recorded_at, record.recorded_at)
    memory.vault.update(record.id, tags=["keys"])
    assert memory.vault.get(record.id).confirmed_at == confirmed.recorded_at
    memory.vault.update(record.id, "The spare key is in the safe")
    assert memory.vault.get(record.id).confirmed_at is None


@pytest.mark.requirement("RCL-7")
def test_reading_never_refreshes_a_memory(memory, clock):
    record = memory.remember("The spare key is with the porter", expires_at=clock.now() + 9 * DAY).record
    clock.advance(DAY.total_seconds())
    memory.recall("spare key")
    memory.vault.get(record.id)
    memory.vault.search("spare key")
    memory.vault.build_snapshot_block()
    assert memory.vault.get(record.id).confirmed_at is None
    assert "yesterday" in memory.vault.build_snapshot()
    assert [version.version for version in memory.vault.history(record.id)] == [1]


@pytest.mark.requirement("RCL-7")
def test_an_expired_memory_is_confirmed_only_with_a_new_expiry(memory, clock):
    record = memory.remember("The bridge is closed", expires_at=clock.now() + DAY).record
    clock.advance(2 * DAY.total_seconds())
    refused = memory.confirm(record.id)
    assert (refused.code, "expires_at" in refused.details) == ("expired", True)
    assert memory.confirm(record.id, expires_at=clock.now() + DAY)
    assert memory.recall("bridge").hits
    assert memory.confirm("nothing").code == "not_found"


@pytest.mark.requirement("RCL-7")
def test_an_expiry_that_is_no_time_is_refused(vault):
    assert vault.bulk_add([{"text": "The bridge is closed", "expires_at": "soon"}])[0].code == "bad_expiry"
    stored = vault.bulk_add([{"text": "The bridge is closed", "expires_at": "2030-01-01T00:00:00Z"}])[0].record
    assert stored.body["expires_at"] == "2030-01-01T00:00:00Z"


@pytest.mark.requirement("RCL-7")
def test_the_layout_of_the_document_has_expiry_and_confirmation_only_where_there_is_one(open_store, clock):
    memory, other = open_store(), open_store()
    memory.remember("Parcels go to the porter")
    record = memory.remember("The bridge is closed", expires_at=clock.now() + 5 * DAY).record
    clock.advance(DAY.total_seconds())
    memory.confirm(record.id)
    file = io.BytesIO()
    assert export_vault(memory.journal, file) == 3
    plain, expiring, confirmed = file.getvalue().decode().splitlines()
    assert not any(name in plain for name in ("expires_at", "confirmed_at", "stated_at"))
    assert '"expires_at"' in expiring
    assert '"confirmed_at"' in confirmed
    file.seek(0)
    assert import_vault(other.vault, file).versions == 3
    again = io.BytesIO()
    export_vault(other.journal, again)
    assert sorted(again.getvalue().splitlines()) == sorted(file.getvalue().splitlines())


@pytest.mark.requirement("RCL-7")
def test_an_agent_confirms_under_its_own_name(open_store, tmp_path):
    memory = open_store(str(tmp_path / "agents.db"))
    record = memory.as_agent("orion").remember("The bridge is closed").record
    assert memory.confirm(record.id).record.author == "orion"
    assert memory.as_agent("elysia").confirm(record.id).record.author == "elysia"
