"""Import and export: vault.jsonl and the profile of the document."""

import io
import json
from typing import Any

import pytest

import lukasa
from lukasa.config import read_profile
from lukasa.errors import FormatError, InvalidInput
from lukasa.transfer.layouts.vault_jsonl import export_vault, import_vault
from lukasa.vault import VaultSettings
from support.narrow import present

EXAMPLE: list[dict[str, Any]] = [
    {"id": "a1b2c3d4e5f6", "text": "CANON: Mission — stabilize runtime, explore boundaries, add tools in layers", "scope": "shared", "category": "mission", "tier": "canon", "topic_id": None, "tags": [], "created_at": "2026-01-02T03:04:05Z", "updated_at": None, "source": "operator", "deleted_at": None, "version": 1},
    {"id": "0123456789ab", "text": "Projects: dashboard, memory upgrade", "scope": "shared", "category": "project", "tier": "register", "topic_id": "current_projects", "tags": ["work"], "created_at": "2026-01-02T03:05:00Z", "updated_at": None, "source": "chat", "deleted_at": None, "version": 1},
    {"id": "0123456789ab", "text": "Projects: dashboard, memory upgrade, email integration", "scope": "shared", "category": "project", "tier": "register", "topic_id": "current_projects", "tags": ["work"], "created_at": "2026-01-02T03:05:00Z", "updated_at": "2026-01-03T00:00:00.250000Z", "source": "tool", "deleted_at": None, "version": 2},
    {"id": "feedfacecafe", "text": "Elysia likes quiet mornings", "scope": "elysia", "category": "bio", "tier": "canon", "topic_id": None, "tags": [], "created_at": "2026-01-02T03:06:00Z", "updated_at": None, "source": None, "deleted_at": None, "version": 1},
    {"id": "feedfacecafe", "text": "Elysia likes quiet mornings", "scope": "elysia", "category": "bio", "tier": "canon", "topic_id": None, "tags": [], "created_at": "2026-01-02T03:06:00Z", "updated_at": None, "source": None, "deleted_at": "2026-01-04T00:00:00Z", "version": 2},
]  # fmt: skip


def lines(records):
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def exported(memory):
    target = io.BytesIO()
    export_vault(memory.journal, target)
    return target.getvalue()


@pytest.mark.requirement("VLT-14")
def test_import_and_export_return_the_documents_records_byte_for_byte(memory):
    done = import_vault(memory.vault, io.BytesIO(lines(EXAMPLE)))
    assert (done.memories, done.versions, done.refused) == (3, 5, [])
    assert exported(memory) == lines(EXAMPLE)
    again = import_vault(memory.vault, io.BytesIO(lines(EXAMPLE)))
    assert (again.memories, again.present, again.refused) == (0, 3, [])
    assert exported(memory) == lines(EXAMPLE)
    assert memory.vault.get("feedfacecafe") is None
    assert memory.vault.list(topic_id="current_projects")[0].version == 2


@pytest.mark.requirement("VLT-14")
def test_imported_memories_take_part_in_upsert_and_duplicate_checks(memory):
    import_vault(memory.vault, io.BytesIO(lines(EXAMPLE)))
    assert memory.vault.update_by_topic("current_projects", "shared", "Projects: search").record.version == 3
    assert memory.vault.add_memory(EXAMPLE[0]["text"]).details["duplicate_of"] == "a1b2c3d4e5f6"


@pytest.mark.requirement("VLT-14")
def test_import_passes_the_gate_and_refusals_name_their_line(memory):
    odd = [
        EXAMPLE[0],
        EXAMPLE[0] | {"id": "bbbbbbbbbbbb"},
        EXAMPLE[0] | {"id": "cccccccccccc", "text": "heartbeat"},
        EXAMPLE[0] | {"id": "dddddddddddd", "text": "my ssn is 378-07-9520"},
        {"id": "eeeeeeeeeeee"},
        EXAMPLE[3] | {"version": 0},
    ]
    broken = lines(odd) + b"not json\n\n" + b'{"id": "x", "text": "a", "created_at": "never"}\n'
    done = import_vault(memory.vault, io.BytesIO(broken))
    assert done.memories == 1
    assert [(line, refusal.code) for line, refusal in done.refused] == [
        (2, "duplicate"), (3, "noise"), (4, "pii"), (5, "bad_line"), (6, "bad_line"), (7, "bad_line"), (9, "bad_line"),
    ]  # fmt: skip
    assert "378-07" not in str(done.refused)


@pytest.mark.requirement("VLT-14")
def test_read_profile_reads_the_profile_of_the_document(tmp_path, open_store, monkeypatch):
    path = tmp_path / "orion.yaml"
    path.write_text(
        "name: Orion\nmemory:\n  enabled: true\n  scopes: [shared, orion]\n  max_items: 20\n  similarity_threshold: 0.70\n"
    )
    rules = read_profile(path)
    assert (
        present(rules).enabled,
        present(rules).scopes,
        present(rules).max_items,
        present(rules).similarity_threshold,
    ) == (True, ("shared", "orion"), 20, 0.7)
    monkeypatch.setenv("LUKASA_PROFILE", str(path))
    assert open_store().vault.rules == rules
    assert open_store(profile=VaultSettings(capacity=7)).vault.rules.capacity == 7


@pytest.mark.requirement("VLT-14")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("memory: {max_itmes: 3}", InvalidInput),
        ("memory: {max_items: many}", InvalidInput),
        ("memory: {max_items: 0}", InvalidInput),
        ("memory: {similarity_threshold: 0.1}", InvalidInput),
        ("memory: {overlap_threshold: 0.2}", InvalidInput),
        ("memory: {pii: {memory: shout}}", InvalidInput),
        ("memory: {scopes: shared}", InvalidInput),
        ("memory: [1]", FormatError),
        ("- 1", FormatError),
        ("memory: {a: [", FormatError),
        ("!!python/object/apply:os.system ['true']", FormatError),
    ],
)
def test_read_profile_raises_for_an_invalid_profile(text, error, tmp_path):
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(error):
        read_profile(tmp_path / "p.yaml")


def test_an_empty_profile_gives_the_defaults(tmp_path):
    (tmp_path / "p.yaml").write_text("")
    assert read_profile(tmp_path / "p.yaml") == VaultSettings()


def test_an_audit_of_a_vault_judges_the_newest_version_of_each_memory(tmp_path):
    path = tmp_path / "vault.jsonl"
    path.write_bytes(lines(EXAMPLE))
    found = lukasa.audit_source(path)
    assert (found.format, found.memories, found.refused) == ("vault", 2, [])


def test_import_and_export_take_the_vault_as_a_format(tmp_path):
    (tmp_path / "vault.jsonl").write_bytes(lines(EXAMPLE))
    with lukasa.open(tmp_path / "a.db") as memory:
        assert memory.import_(tmp_path / "vault.jsonl", format="vault").added == len(EXAMPLE)
        assert memory.import_(tmp_path, format="vault").added == 0
        assert memory.export(tmp_path / "again.jsonl", format="vault") == len(EXAMPLE)
    assert (tmp_path / "again.jsonl").read_bytes() == lines(EXAMPLE)


def test_import_refuses_scopes_out_of_reach(tmp_path):
    with lukasa.open(tmp_path / "a.db", agent="orion", profile="document", scopes=["shared", "orion"]) as memory:
        done = import_vault(memory.vault, io.BytesIO(lines(EXAMPLE)))
    assert [(line, refusal.code) for line, refusal in done.refused] == [(5, "bad_scope")]
    assert done.memories == 2


@pytest.mark.requirement("VLT-15", "LOG-8")
def test_an_agent_imports_no_canon(tmp_path):
    with lukasa.open(tmp_path / "a.db", agent="orion") as memory:
        done = import_vault(memory.vault, io.BytesIO(lines(EXAMPLE)))
    assert [(line, refusal.code) for line, refusal in done.refused] == [(1, "canon_needs_owner"), (5, "bad_scope")]
