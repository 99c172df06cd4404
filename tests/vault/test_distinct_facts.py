"""Similar texts that state different facts are kept and named; repeated ones are refused with a way in."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from typer.testing import CliRunner

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.app import app
from lukasa.text.differences import find_difference
from lukasa.transfer.layouts.vault_jsonl import export_vault, import_vault
from lukasa.vault import VaultSettings, checks

KNOWN = "The production database is called osprey"
OTHER = "The staging database is called heron"
REPEATED = "The production database is named osprey."
PAIRS = [
    ("Anna works in the payments team", "Ben works in the search team"),
    ("Anna is allergic to nuts", "Anna is not allergic to nuts"),
    ("Likes pizza", "Dislikes pizza"),
    (KNOWN, OTHER),
]


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("limit", [checks.COMPARE_ALL_LIMIT, -1])
def test_another_fact_is_kept_and_the_outcome_names_the_similar_one(memory, monkeypatch, limit):
    monkeypatch.setattr(checks, "COMPARE_ALL_LIMIT", limit)
    known = memory.vault.add_memory(KNOWN).record
    kept = memory.vault.add_memory(OTHER)
    assert kept
    (similar,) = kept.details["similar_to"]
    assert (similar["id"], similar["scope"]) == (known.id, "shared")
    assert similar["difference"] == {"kind": "antonym", "here": "staging", "there": "production"}
    assert "similar_to" not in memory.vault.add_memory("Ada leads the translation effort").details


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize(("known", "other"), PAIRS)
def test_different_facts_are_kept_one_by_one_in_bulk_and_by_update(open_store, known, other):
    vault = open_store().vault
    assert vault.add_memory(known)
    assert vault.judge(other) is None
    assert vault.add_memory(other)
    assert all(open_store().vault.bulk_add([known, other]))
    third = vault.add_memory("Something else entirely is stated here").record
    vault.delete(vault.list()[1].id)
    assert vault.update(third.id, other).details["similar_to"]


@pytest.mark.requirement("VLT-6")
def test_a_repeated_fact_is_refused_with_safe_advice(memory):
    known = memory.vault.add_memory(KNOWN).record
    refused = memory.vault.add_memory(REPEATED)
    assert (refused.code, refused.details["duplicate_of"]) == ("duplicate", known.id)
    assert f"distinct_from={known.id}" in refused.reason
    assert f"update {known.id}" in refused.reason
    assert "replace" not in refused.reason


@pytest.mark.requirement("VLT-6")
def test_distinct_from_lets_a_refused_text_in_and_is_remembered(memory):
    vault = memory.vault
    known = vault.add_memory(KNOWN).record
    kept = vault.add_memory(REPEATED, distinct_from=known.id).record
    assert vault.get(kept.id).distinct_from == (known.id,)
    assert vault.add_memory(REPEATED, distinct_from=[known.id]).details["duplicate_of"] == kept.id
    assert vault.add_memory(REPEATED, distinct_from=["nothing"]).code == "not_found"
    assert vault.find_consolidation_candidates() == [], "the writer said that they differ"
    assert vault.propose_deletions() == []
    assert vault.update(kept.id, f"{REPEATED}!", tags=["db"]), "a later version still differs from it"
    assert vault.get(kept.id).distinct_from == (known.id,)


@pytest.mark.requirement("VLT-6")
def test_distinct_from_works_in_remember_bulk_items_and_update(memory):
    vault = memory.vault
    known = vault.add_memory(KNOWN).record
    assert memory.remember(REPEATED).code == "duplicate"
    second = memory.remember(REPEATED, distinct_from=known.id).record
    third = "The production database is called osprey!"
    (kept,) = vault.bulk_add([{"text": third, "distinct_from": [known.id, second.id]}])
    assert kept
    fourth = vault.add_memory("Ada leads the translation effort").record
    assert vault.update(fourth.id, KNOWN).code == "duplicate"
    assert vault.update(fourth.id, KNOWN, distinct_from=["nothing"]).code == "not_found"
    assert vault.update(fourth.id, KNOWN, distinct_from=[known.id, second.id, kept.record.id])


@pytest.mark.requirement("VLT-6")
def test_memories_that_were_kept_apart_survive_export_and_import(memory, open_store):
    known = memory.vault.add_memory(KNOWN).record
    memory.vault.add_memory(OTHER)
    memory.vault.add_memory(REPEATED, distinct_from=known.id)
    file = io.BytesIO()
    export_vault(memory.journal, file)
    other = open_store()
    file.seek(0)
    assert import_vault(other.vault, file).refused == []
    assert {found.text for found in other.vault.list()} == {KNOWN, OTHER, REPEATED}
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line.get("distinct_from") for line in lines] == [None, None, [known.id]]
    lines[2] |= {"distinct_from": None}
    stripped = io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [why.code for _, why in import_vault(open_store().vault, stripped).refused] == ["duplicate"]


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize(("known", "other"), PAIRS)
def test_the_profile_document_gives_the_documents_rule(open_store, tmp_path, known, other):
    (tmp_path / "profile.yaml").write_text("memory: {duplicates: document}\n")
    for profile in ("document", tmp_path / "profile.yaml", VaultSettings(duplicates="document")):
        vault = open_store(profile=profile).vault
        vault.add_memory(known)
        assert (vault.add_memory(other).code, vault.rules.duplicates) == ("duplicate", "document")
    with pytest.raises(InvalidInput):
        VaultSettings(duplicates="nonsense")  # type: ignore[arg-type]


@pytest.mark.requirement("VLT-6")
def test_many_similar_facts_are_kept_and_each_is_recognised_again(open_store, location):
    vault = open_store(location, profile=VaultSettings()).vault
    texts = [f"Customer number {n} pays {7 * n} euros of monthly rent in Oslo" for n in range(400)]
    assert all(vault.bulk_add(texts))
    assert {outcome.code for outcome in vault.bulk_add(texts[:20] + texts[-20:])} == {"duplicate"}


def templated_facts(count):
    return [f"Server web-{n:04d} has address 10.0.{n // 250}.{n % 250} and runs in rack {n % 40}" for n in range(count)]


@pytest.mark.requirement("VLT-6")
def test_a_fact_repeated_within_one_batch_of_similar_ones_is_refused(open_store):
    texts = templated_facts(320)
    repeated = [f"{text}." for text in (texts[0], texts[150], texts[319])]
    outcomes = open_store().vault.bulk_add([*texts, *repeated])
    assert all(outcomes[:320])
    assert [outcome.details["duplicate_of"] for outcome in outcomes[320:]] == [
        outcomes[n].record.id for n in (0, 150, 319)
    ]


@pytest.mark.requirement("VLT-6")
def test_a_verdict_compares_no_more_facts_when_more_are_alike(open_store, location, monkeypatch):
    compared = []

    def count(text, other):
        compared.append(other)
        return find_difference(text, other)

    monkeypatch.setattr(checks, "find_difference", count)
    vault = open_store(location, profile=VaultSettings()).vault
    texts = templated_facts(901)
    for size in (200, 900):
        assert all(vault.bulk_add(texts[0 if size == 200 else 200 : size]))
        compared.clear()
        assert vault.judge(texts[900]) is None
        assert len(compared) <= 2 * checks.MAX_COMPARED_FACTS
        assert vault.judge(f"{texts[7]}!").code == "duplicate"


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("limit", [checks.COMPARE_ALL_LIMIT, -1])
@pytest.mark.parametrize(
    ("known", "other"),
    [
        ("Marta owns the onboarding guide", "The onboarding guide is owned by Marta"),
        ("The staging cluster has 12 nodes", "There are 12 nodes in the staging cluster"),
        ("Lena leitet die Personalabteilung", "Die Personalabteilung wird von Lena geleitet"),
    ],
)
def test_the_same_words_in_another_voice_repeat_a_fact(open_store, monkeypatch, limit, known, other):
    monkeypatch.setattr(checks, "COMPARE_ALL_LIMIT", limit)
    vault = open_store().vault
    vault.add_memory(known)
    assert vault.judge(other).code == "duplicate"
    for settings in (VaultSettings(duplicates="document"), VaultSettings(overlap_threshold=1, similarity_threshold=1)):
        vault.rules = settings
        assert vault.judge(other) is None, "below the thresholds that the profile sets"


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("size", [0, checks.COMPARE_ALL_LIMIT + 1])
def test_two_writers_of_one_new_fact_keep_it_once(open_store, location, size):
    vaults = [open_store(location, profile=VaultSettings()).vault for _ in range(2)]
    assert all(vaults[0].bulk_add(templated_facts(size)))
    ready = Barrier(2)

    def add(vault, text):
        ready.wait()
        return vault.add_memory(text)

    names = ["Ada", "Boris", "Chidi", "Dolores", "Emeka", "Farah", "Gudrun", "Hiroshi"]
    with ThreadPoolExecutor(2) as threads:
        for name in names:
            texts = (f"{name} approves the travel budget", f"The travel budget is approved by {name}.")
            kept, refused = sorted(threads.map(add, vaults, texts), key=bool, reverse=True)
            assert (bool(kept), refused.code) == (True, "duplicate")
            assert refused.details["duplicate_of"] == kept.record.id
    assert len(vaults[0].list()) == size + len(names)


@pytest.mark.requirement("VLT-9")
def test_rewordings_are_proposed_by_meaning_and_never_refused(open_store):
    vault = open_store(embedder="static").vault
    one = vault.add_memory("Refunds are paid by bank transfer").record
    other = vault.add_memory("We refund customers with a transfer to their bank account").record
    vault.add_memory("Backups are kept for 30 days")
    vault.add_memory("We retain all backups for 90 days")
    (pair,) = vault.find_consolidation_candidates(floor=0.95)
    assert {pair.one.id, pair.other.id} == {one.id, other.id}
    assert pair.meaning > 0.5
    words_only = open_store(embedder="hash").vault
    words_only.bulk_add([one.text, other.text])
    assert words_only.find_consolidation_candidates(floor=0.95) == []


@pytest.mark.requirement("VLT-9")
def test_only_repeated_facts_are_proposed_for_deletion(open_store):
    vault = open_store(profile=VaultSettings(overlap_threshold=1.0, similarity_threshold=1.0)).vault
    vault.bulk_add([KNOWN, OTHER])
    vault.rules = VaultSettings()
    assert vault.propose_deletions() == []
    assert [pair.difference.kind for pair in vault.find_consolidation_candidates()] == ["antonym"]


@pytest.mark.requirement("VLT-7")
def test_capacity_counts_the_active_memories_of_the_whole_vault(open_store, location):
    orion = open_store(location, agent="orion", profile=VaultSettings(capacity=2)).vault
    elysia = open_store(location, agent="elysia", profile=VaultSettings(capacity=2)).vault
    first = elysia.add_memory("Ada leads the translation effort in Ghent", "elysia").record
    assert orion.add_memory(KNOWN, "orion")
    refused = orion.add_memory("Deploys happen on Thursday afternoons", "orion")
    assert (refused.code, refused.details["active"]) == ("full", 2)
    assert orion.judge("Deploys happen on Thursday afternoons").code == "full"
    elysia.delete(first.id)
    assert orion.add_memory("Deploys happen on Thursday afternoons", "orion")


@pytest.mark.requirement("VLT-11")
def test_a_snapshot_says_how_many_memories_did_not_fit(open_store):
    vault = open_store().vault
    vault.bulk_add([f"Rule {n}: always check the {n}th gauge before take-off" for n in range(40)])
    vault.add_memory("Projects: dashboard", tier="register", topic_id="projects")
    text = vault.build_snapshot(budget=200)
    told = text.count("- [general]")
    assert 0 < told < 40
    assert text.splitlines()[-1] == (
        f"- … {40 - told} of Canon and 1 of Registers did not fit; `recall` finds them, `vault list` shows all."
    )
    block = vault.build_snapshot_block(budget=200)
    assert (block.left_out, block.cut) == (41 - block.told, True)
    assert "did not fit" in block.text
    assert "did not fit" not in vault.build_snapshot(budget=10_000)
    assert vault.build_snapshot(budget=30) == (
        "- … 40 of Canon and 1 of Registers did not fit; `recall` finds them, `vault list` shows all."
    )
    assert vault.build_snapshot_block(budget=1).left_out == 41


@pytest.mark.requirement("VLT-11")
def test_a_snapshot_counts_canon_beyond_what_it_reads(open_store):
    vault = open_store(profile=VaultSettings(overlap_threshold=1.0, similarity_threshold=1.0)).vault
    assert all(vault.bulk_add([f"Rule number {n}" for n in range(520)]))
    block = vault.build_snapshot_block(budget=1_000_000)
    assert (block.told, block.left_out) == (500, 20)
    assert "20 of Canon did not fit" in block.text


@pytest.mark.requirement("VLT-6")
def test_commands_take_distinct_from_and_name_similar_memories(tmp_path):
    def run(*words):
        return CliRunner().invoke(app, ["--store", str(tmp_path / "agents.db"), *words])

    known = json.loads(run("remember", KNOWN, "--json").stdout)["id"]
    assert run("remember", REPEATED).exit_code == 3
    assert run("remember", REPEATED, "--distinct-from", known).exit_code == 0
    similar = run("remember", OTHER)
    assert "states another fact (antonym: staging here, production there)" in similar.stdout
    shown = json.loads(run("remember", "The testing database is called heron", "--json").stdout)
    assert shown["similar_to"][0]["difference"]["kind"] == "word"
    changed = run("update", known, "The production database is called kestrel")
    assert "Updated (version 2)" in changed.stdout
    assert run("update", "nothing", "Some other text").exit_code == 5
    pairs = json.loads(run("vault", "find-consolidation-candidates", "--json").stdout)
    assert {"meaning", "difference"} <= set(pairs[0])
