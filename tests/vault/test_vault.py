"""The vault service: the gate in its order, registers, capacity, reading, deleting, promoting."""

import re
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.core.outcome import Accepted
from lukasa.errors import InvalidInput, NotAllowed
from lukasa.vault import MemoryProposal, VaultSettings
from support.narrow import present

FACT = "The staging database is called heron"
FACTS = [
    "The staging database is called heron",
    "Ada leads the translation effort in Ghent",
    "Deploys happen on Thursday afternoons",
    "Invoices above 5000 euros need two signatures",
    "The newsletter goes out on the first of each month",
    "Customers in Osaka prefer phone calls to mail",
]


# tiers and fields


@pytest.mark.requirement("VLT-1")
def test_add_accepts_two_tiers_and_refuses_the_log_tier(memory):
    vault = memory.vault
    assert vault.get(vault.add_memory(FACTS[0]).record.id).tier == "canon", "the default"
    assert vault.get(vault.add_memory(FACTS[1], tier="register").record.id).tier == "register"
    assert vault.add_memory(FACTS[2], tier="log").code == "log_tier"
    assert vault.add_memory(FACTS[2], tier="gold").code == "bad_tier"
    assert vault.add_memory("tick marker", tier="log").code == "noise", "noise is judged first"


@pytest.mark.requirement("VLT-2")
def test_a_memory_has_the_fields_of_the_document(memory, clock):
    kept = memory.vault.add_memory(
        FACT, "shared", "infrastructure", tier="register", topic_id="databases", tags=["db", "staging"], source="chat"
    ).record
    clock.advance(timedelta(minutes=5).total_seconds())
    memory.vault.update(kept.id, "The staging database is called heron and runs in Ghent", source="tool")
    found = memory.vault.get(kept.id)
    assert re.fullmatch("[0-9a-f]{12}", found.id)
    assert found.as_json() == {
        "id": kept.id,
        "text": "The staging database is called heron and runs in Ghent",
        "scope": "shared",
        "category": "infrastructure",
        "tier": "register",
        "topic_id": "databases",
        "tags": ["db", "staging"],
        "created_at": "2026-02-03T12:00:00Z",
        "updated_at": "2026-02-03T12:05:00Z",
        "source": "tool",
        "deleted_at": None,
        "version": 2,
    }


@pytest.mark.requirement("VLT-2")
def test_add_keeps_1200_characters_and_refuses_more(vault):
    words = " ".join(f"word{n}" for n in range(300))
    assert vault.add_memory(words[:1200])
    assert vault.add_memory(words[:1201]).code == "too_long"


# the gate


@pytest.mark.requirement("VLT-3")
def test_the_gate_checks_in_the_documents_order(open_store):
    """Each proposal breaks one rule less than the one before; the refusal names the first rule it breaks."""
    vault = open_store(agent="orion", profile=VaultSettings(capacity=1, scopes=("shared", "orion"))).vault
    vault.add_memory(FACT, "orion")
    secret, long = "my password is hunter2", " word" * 300
    cases = [
        ("noise", f"tick marker {secret}{long}", {"tier": "log", "scope": "x", "source": "y"}),
        ("log_tier", f"{secret}{long}", {"tier": "log", "scope": "x", "source": "y"}),
        ("too_long", f"{secret}{long}", {"tier": "gold", "scope": "x", "source": "y"}),
        ("bad_scope", secret, {"tier": "gold", "scope": "x", "source": "y"}),
        ("bad_tier", secret, {"tier": "gold", "scope": "orion", "source": "y"}),
        ("bad_source", secret, {"tier": "canon", "scope": "orion", "source": "y"}),
        ("pii", f"{FACT}; {secret}", {"scope": "orion"}),
        ("duplicate", FACT, {"scope": "orion"}),
        ("full", FACTS[1], {"scope": "orion"}),
    ]
    for code, text, fields in cases:
        refused = vault.add_memory(text, **fields)
        assert refused.code == code
        assert refused.reason.endswith((".", ")"))
        assert not refused


@pytest.mark.requirement("VLT-3")
@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("bad_text", {"text": 7}),
        ("empty", {"text": " \n"}),
        ("bad_unicode", {"text": "half \ud83d"}),
        ("bad_scope", {"scope": ""}),
        ("bad_scope", {"scope": "_lukasa"}),
        ("bad_scope", {"scope": "x" * 201}),
        ("bad_category", {"category": ""}),
        ("bad_category", {"category": "a\nb"}),
        ("bad_topic", {"topic_id": "x" * 10_000}),
        ("bad_tags", {"tags": [str(n) for n in range(21)]}),
        ("bad_tags", {"tags": ["ok", ""]}),
        ("bad_tags", {"tags": 7}),
        ("bad_item", {"unknown": 1, "text": None}),
    ],
)
def test_add_refuses_odd_input_with_a_code_and_never_raises(code, fields, vault):
    item = {"text": FACT, **fields}
    if code == "bad_item":
        item = {}
    assert vault.bulk_add([item])[0].code == code


@given(st.text(max_size=200))
@settings(deadline=None, max_examples=80)
def test_any_text_gets_a_verdict_and_a_kept_text_is_returned_unchanged(text):
    with lukasa.open("memory:") as memory:
        outcome = memory.vault.add_memory(text)
        if outcome:
            assert present(memory.vault.get(outcome.record.id)).text == text
        else:
            assert outcome.code in {"empty", "noise", "bad_unicode", "pii"}


@pytest.mark.parametrize(
    "odd", ["nul \0 inside", "rtl \u202e text", "emoji \U0001f469\u200d\U0001f680", "é é", "日本語のテキスト"]
)
def test_odd_characters_are_kept_unchanged_on_both_engines(odd, memory):
    kept = memory.vault.add_memory(f"The label reads {odd}").record
    assert memory.vault.get(kept.id).text == f"The label reads {odd}"


def test_judge_returns_the_verdict_and_writes_nothing(memory):
    assert memory.vault.judge(FACT) is None
    assert memory.vault.judge({"text": FACT, "tier": "log"}).code == "log_tier"
    assert memory.vault.list() == []
    memory.vault.add_memory(FACT)
    assert memory.vault.judge(FACT).code == "duplicate"


# registers


@pytest.mark.requirement("VLT-5")
def test_add_updates_a_register_in_place_by_its_topic_and_scope(memory):
    vault = memory.vault
    first = vault.add_memory("Projects: dashboard", "shared", "project", tier="register", topic_id="projects").record
    second = vault.add_memory("Projects: email", "shared", "project", tier="register", topic_id="projects").record
    assert (second.id, second.version) == (first.id, 2)
    assert [found.text for found in vault.list()] == ["Projects: email"]
    other = vault.add_memory("Projects: email", "ada", "project", tier="register", topic_id="projects").record
    assert other.id != first.id, "another scope has its own"
    canon = vault.add_memory("The mission never changes", tier="canon", topic_id="projects").record
    assert canon.id != first.id, "canon is not upserted"
    again = vault.add_memory("Projects: the form", topic_id="projects").record
    assert again.id == first.id, "a topic alone means a register"


@pytest.mark.requirement("VLT-5")
def test_update_by_topic_creates_or_updates_a_register_and_keeps_fields_that_are_not_given(memory):
    vault = memory.vault
    made = vault.update_by_topic("mood", "shared", "The team is cheerful", "state", tags=["team"]).record
    again = vault.update_by_topic("mood", "shared", "The team is tired").record
    found = vault.get(made.id)
    assert (again.version, found.category, found.tags, found.text) == (2, "state", ("team",), "The team is tired")


@pytest.mark.requirement("VLT-5")
def test_bulk_add_of_one_topic_several_times_makes_several_versions(memory):
    items = [
        {"text": f"Projects: {name}", "tier": "register", "topic_id": "p"} for name in ("dashboard", "email", "search")
    ]
    outcomes = memory.vault.bulk_add(items)
    assert [outcome.record.version for outcome in outcomes] == [1, 2, 3]
    assert len({outcome.record.id for outcome in outcomes}) == 1


@pytest.mark.requirement("VLT-5")
def test_many_processes_updating_one_topic_make_one_register_and_lose_no_version(
    location, open_store, run_concurrently
):
    open_store(location).vault.add_memory("Something else is here", author="ada")
    facts = [
        {
            "store": location,
            "texts": [f"Worker {n} says {word}" for word in ("alpha", "beta", "gamma")],
            "tier": "register",
            "topic_id": "state",
        }
        for n in range(4)
    ]
    assert {answer for answers in run_concurrently("add", *facts) for answer in answers} == {"kept"}
    (register,) = open_store(location).vault.list(topic_id="state")
    assert register.version == 12


# capacity


@pytest.mark.requirement("VLT-7")
def test_a_full_vault_refuses_memories_until_one_is_deleted(open_store, location):
    vault = open_store(location, profile=VaultSettings(capacity=2)).vault
    first, second = (vault.add_memory(fact).record for fact in FACTS[:2])
    refused = vault.add_memory(FACTS[2])
    assert (refused.code, refused.details["active"]) == ("full", 2)
    assert vault.add_memory(FACTS[1]).code == "duplicate", "judged before capacity"
    assert vault.update(second.id, "Ada leads the translation effort in Bruges"), "an update needs no capacity"
    vault.delete(first.id)
    assert vault.add_memory(FACTS[2])


@pytest.mark.requirement("VLT-7")
def test_the_profile_document_keeps_a_hundred_memories_and_bulk_add_refuses_the_rest(open_store):
    vault = open_store(profile="document").vault
    texts = [f"{chr(97 + n % 26) * 9} {chr(97 + n // 26) * 7} {n:b}" for n in range(140)]
    outcomes = vault.bulk_add(texts)
    kept = [outcome for outcome in outcomes if outcome]
    assert len(kept) == 100
    assert {outcome.code for outcome in outcomes if not outcome} <= {"full", "duplicate"}
    assert open_store().vault.rules.capacity == 10_000, "the default"


# the methods


@pytest.mark.requirement("VLT-8")
def test_add_update_get_history_and_delete_work_together(memory):
    vault = memory.vault
    id = vault.add_memory(FACT, category="infrastructure").record.id
    assert vault.update(id, "The staging database is called stork", tags=["db"]).record.version == 2
    assert vault.update(id, category="ops", expected=1).found == 2, "a conflict tells what is there"
    assert vault.update("nothing", FACT).code == "not_found"
    assert vault.get(id).text == "The staging database is called stork"
    assert vault.delete(id).record.deleted
    assert vault.delete(id).code == "not_found"
    assert vault.get(id) is None
    assert vault.list() == []
    versions = vault.history(id)
    assert [(found.version, found.text, found.deleted_at is None) for found in versions] == [
        (1, FACT, True),
        (2, "The staging database is called stork", True),
        (3, "The staging database is called stork", False),
    ]
    assert vault.history("nothing") == []


@pytest.mark.requirement("VLT-8")
def test_bulk_add_and_bulk_delete_give_each_item_its_verdict(memory):
    items = [
        FACTS[0],
        "tick marker",
        {"text": FACTS[1], "tags": ["x"]},
        FACTS[0],
        MemoryProposal(FACTS[2]),
        {"text": "x" * 1300},
    ]
    outcomes = memory.vault.bulk_add(items)
    assert ["kept" if outcome else outcome.code for outcome in outcomes] == [
        "kept",
        "noise",
        "kept",
        "duplicate",
        "kept",
        "too_long",
    ]
    assert outcomes[3].details["duplicate_of"] == outcomes[0].record.id
    ids = [outcome.record.id for outcome in outcomes if isinstance(outcome, Accepted)]
    gone = memory.vault.bulk_delete([ids[0], "nothing", ids[1], ids[0]])
    assert ["gone" if outcome else outcome.code for outcome in gone] == ["gone", "not_found", "gone", "not_found"]
    assert [found.id for found in memory.vault.list()] == [ids[2]]
    assert memory.vault.bulk_add([]) == []


@pytest.mark.requirement("VLT-8")
def test_list_filters_by_tier_category_topic_and_tag(vault):
    vault.add_memory(FACTS[0], category="infra", tags=["db"])
    vault.add_memory(FACTS[1], category="team", tier="register", topic_id="leads")
    assert [found.text for found in vault.list(tag="db")] == [FACTS[0]]
    assert [found.text for found in vault.list(tier="register", category="team", topic_id="leads")] == [FACTS[1]]
    assert vault.list(tier="register", category="infra") == []
    assert len(vault.list(limit=1)) == 1


@pytest.mark.requirement("VLT-8")
def test_update_passes_the_gate_and_is_no_duplicate_of_itself(vault):
    first, second = (vault.add_memory(fact).record for fact in FACTS[:2])
    assert vault.update(first.id, f"{FACTS[0]}!"), "nearly the same as itself"
    assert vault.update(second.id, FACTS[0]).details["duplicate_of"] == first.id
    assert vault.update(first.id, "heartbeat").code == "noise"


# review


@pytest.mark.requirement("VLT-9")
def test_similar_pairs_and_deletions_are_proposed_and_nothing_is_changed(open_store, clock):
    lax = open_store(
        profile=VaultSettings(overlap_threshold=1.0, similarity_threshold=1.0, signals=(), pii={"memory": "allow"})
    ).vault
    strict = VaultSettings()
    first = lax.add_memory(FACT).record
    clock.advance(timedelta(seconds=1).total_seconds())
    second = lax.add_memory("The staging database is named heron").record
    lax.add_memory("heartbeat ok")
    lax.add_memory("my password is hunter2")
    lax.add_memory("Projects: dashboard, email, search", tier="register", topic_id="projects")
    lax.add_memory("A register that nothing can update", tier="register")
    before = lax.list()
    (pair,) = lax.find_consolidation_candidates("shared", 0.6)
    assert {pair.one.id, pair.other.id} == {first.id, second.id}
    assert pair.score >= 0.6
    clock.advance(timedelta(days=120).total_seconds())
    lax.rules = strict
    proposed = {suggestion.code: suggestion for suggestion in lax.propose_deletions("shared")}
    assert proposed["duplicate"].memory.id == second.id, "the older one stays"
    assert set(proposed) == {"duplicate", "noise", "pii", "no_topic", "stale"}
    assert "hunter2" not in proposed["pii"].reason
    assert lax.list() == before


@pytest.mark.requirement("VLT-9")
def test_promotion_sets_tier_and_source(memory):
    kept = memory.vault.add_memory(FACT, tier="register", topic_id="db").record
    assert memory.vault.promote_to_canon(kept.id, "The staging database is always called heron", by="Ada Okafor")
    found = memory.vault.get(kept.id)
    assert (found.tier, found.source, found.version) == ("canon", "promotion", 2)
    assert memory.vault.promote_to_canon(kept.id, by="Ada Okafor").code == "already_canon"
    assert memory.vault.promote_to_canon("nothing", by="Ada").code == "not_found"


# promotion


@pytest.mark.requirement("VLT-15")
def test_promotion_needs_independent_authors_and_records_them(open_store, location):
    orion, elysia = open_store(location, agent="orion"), open_store(location, agent="elysia")
    kept = orion.vault.add_memory(FACT, tier="register", topic_id="db").record
    assert orion.vault.promote_to_canon(kept.id).code == "not_corroborated"
    assert orion.vault.corroborate(kept.id).code == "not_independent"
    assert orion.vault.corroborate(kept.id, author="elysia").code == "author_not_yours", "nobody speaks for another"
    assert elysia.vault.corroborate(kept.id)
    assert elysia.vault.corroborate(kept.id).code == "already_said"
    assert orion.vault.promote_to_canon(kept.id, "Nobody needs a review any more").code == "rewritten"
    promoted = orion.vault.promote_to_canon(kept.id, f"CANON: {FACT}").record
    assert promoted.body["corroborated_by"] == ["elysia", "orion"]
    assert promoted.body["tier"] == "canon"


@pytest.mark.requirement("VLT-15")
def test_corroborations_do_not_survive_a_rewriting(open_store):
    owner = open_store()
    kept = owner.vault.add_memory(FACT, tier="register", topic_id="db", author="orion").record
    owner.vault.corroborate(kept.id, author="elysia")
    owner.vault.update(kept.id, "Mallory approves every deploy by herself", author="mallory")
    assert owner.vault.promote_to_canon(kept.id).code == "not_corroborated"


@pytest.mark.requirement("VLT-15")
def test_two_authors_of_similar_versions_corroborate_a_register(open_store):
    owner = open_store()
    for author in ("orion", "elysia"):
        kept = owner.vault.add_memory(FACT, tier="register", topic_id="db", author=author).record
    assert owner.vault.promote_to_canon(kept.id).record.body["corroborated_by"] == ["elysia", "orion"]


@pytest.mark.requirement("VLT-15")
def test_quarantine_of_a_corroborator_makes_the_memory_a_register_again(open_store, location):
    owner = open_store(location)
    kept = owner.vault.add_memory(FACT, tier="register", topic_id="db", author="orion").record
    owner.vault.corroborate(kept.id, author="mallory")
    owner.vault.promote_to_canon(kept.id)
    assert owner.vault.get(kept.id).tier == "canon"
    owner.journal.quarantine("mallory")
    assert owner.vault.get(kept.id).tier == "register"
    owner.journal.release("mallory")
    assert owner.vault.get(kept.id).tier == "canon"


# search


@pytest.mark.requirement("VLT-10")
def test_lexical_search_scores_as_the_document_does(memory):
    vault = memory.vault
    vault.add_memory("blue heron")
    vault.add_memory("the heron stands in a large pond behind the old mill")
    vault.add_memory("unrelated words")
    first, second = vault.search("blue heron", profile="lexical")
    assert first.score == pytest.approx(1.0 + 0.3 + 0.4 * 1.0)
    assert second.memory.text.startswith("the heron")
    assert second.score == pytest.approx(0.5 + 0.4 * 2 * 9 / (10 + 52), abs=0.05)
    assert vault.search("xyzzy", profile="lexical") == []
    with pytest.raises(InvalidInput):
        vault.search("x", profile="psychic")


@pytest.mark.requirement("VLT-10")
def test_search_uses_recall_by_default(memory):
    memory.vault.bulk_add(FACTS)
    found = memory.vault.search("what is the staging database called?", k=2)
    assert found[0].memory.text == FACTS[0]
    assert len(found) == 2


# scopes


@pytest.mark.requirement("VLT-12")
def test_an_agent_reads_the_shared_scope_and_its_own(open_store, location):
    orion, elysia = open_store(location, agent="orion"), open_store(location, agent="elysia")
    orion.vault.add_memory(FACTS[0], "shared")
    orion.vault.add_memory(FACTS[1], "orion")
    secret = elysia.vault.add_memory(FACTS[2], "elysia").record
    assert {found.text for found in orion.vault.list()} == set(FACTS[:2])
    assert orion.vault.add_memory(FACTS[3], "elysia").code == "bad_scope"
    assert orion.vault.get(secret.id) is None
    assert orion.vault.history(secret.id) == []
    assert orion.vault.delete(secret.id).code == "not_found"
    assert FACTS[2] not in str(orion.vault.vault_stats()) + orion.vault.build_snapshot_block().text
    assert orion.vault.vault_stats()["active"] == 2
    assert orion.vault.add_memory(FACTS[2], "orion"), "what elysia knows is no duplicate to orion"


@pytest.mark.requirement("VLT-12")
def test_the_profile_names_the_scopes(open_store, tmp_path):
    (tmp_path / "profile.yaml").write_text("memory:\n  scopes: [team, nova]\n")
    memory = open_store(profile=tmp_path / "profile.yaml")
    assert memory.journal.reach.readable == {"team", "nova"}
    assert memory.vault.add_memory(FACTS[0], "team")
    refused = memory.vault.add_memory(FACTS[1], "shared")
    assert refused.code == "bad_scope"
    assert "nova, team" in refused.reason


# statistics


@pytest.mark.requirement("VLT-13")
def test_vault_stats_returns_the_documents_figures_and_refusals(open_store, location):
    memory = open_store(location, profile=VaultSettings(capacity=10))
    vault = memory.vault
    gone, *_ = [vault.add_memory(fact, category="fact").record for fact in FACTS[:3]]
    vault.delete(gone.id)
    for text in ("Projects: dashboard", "Projects: email"):
        vault.add_memory(text, "ada", "project", tier="register", topic_id="projects")
    vault.add_memory("heartbeat")
    vault.add_memory("nothing to report")
    vault.add_memory(FACTS[1])
    figures = vault.vault_stats()
    assert figures == {
        "active": 3,
        "max": 10,
        "utilization": 30.0,
        "deleted": 1,
        "raw_lines": 6,
        "bloat_ratio": 2.0,
        "by_scope": {"ada": 1, "shared": 2},
        "by_tier": {"canon": 2, "register": 1},
        "by_category": {"fact": 2, "project": 1},
        "register_topics": 1,
        "refused": {"noise": 2, "duplicate": 1},
    }
    vault.compact()
    assert vault.vault_stats()["raw_lines"] == 4, "the newest versions and the tombstone"


@pytest.mark.requirement("VLT-13")
def test_counts_of_refusals_survive_a_restart_without_a_write_per_refusal(tmp_path):
    with lukasa.open(tmp_path / "a.db", agent="orion") as memory:
        before = memory.journal.tip()
        for _ in range(50):
            memory.vault.add_memory("heartbeat")
        assert memory.journal.tip() == before
    with lukasa.open(tmp_path / "a.db", agent="orion") as memory:
        memory.vault.add_memory("no changes")
        assert memory.vault.vault_stats()["refused"] == {"noise": 51}
    with lukasa.open(tmp_path / "a.db", agent="elysia") as memory:
        assert memory.vault.vault_stats()["refused"] == {}, "another agent does not learn of them"


def test_only_the_owner_may_compact(open_store):
    with pytest.raises(NotAllowed):
        open_store(agent="orion").vault.compact()
