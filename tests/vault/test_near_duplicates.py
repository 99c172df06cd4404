"""The near-duplicate check: exact measures, and an index with the verdicts of comparing with everything."""

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.storage.engine import Query
from lukasa.text.similarity import query_coverage, sequence_similarity, word_overlap
from lukasa.text.terms import (
    MAX_COMPLETE_WORDS,
    MIN_OVERLAP,
    distinct_words,
    max_shared_words,
    normalise_text,
    pair_keys,
    text_pair_keys,
)
from lukasa.vault import VaultSettings, checks

WORDS = st.sampled_from(
    [f"{head}{tail}" for head in ("ka", "lu", "sa", "mo", "ti", "re") for tail in ("", "n", "ra", "lito", "berg", "s")]
)
SETS = st.frozensets(WORDS, min_size=1, max_size=14)
SENTENCES = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)


def longest_common_subsequence(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for at, y in enumerate(b, 1):
            row[at], before = (before + 1 if x == y else max(row[at], row[at - 1])), row[at]
    return row[-1]


@given(st.text(max_size=30), st.text(max_size=30))
def test_sequence_similarity_is_twice_the_longest_common_subsequence_over_both_lengths(a, b):
    expected = 2 * longest_common_subsequence(a, b) / (len(a) + len(b)) if a or b else 1.0
    assert sequence_similarity(a, b) == pytest.approx(expected)
    assert sequence_similarity(a, b) == sequence_similarity(b, a)


@given(SETS, SETS)
def test_word_overlap_is_the_share_of_words_in_common(a, b):
    assert word_overlap(a, b) == pytest.approx(len(a & b) / len(a | b))
    assert query_coverage(a, b) == pytest.approx(len(a & b) / len(a))


@pytest.mark.requirement("VLT-6")
@given(SETS, SETS)
def test_texts_that_overlap_enough_always_share_a_pair_key(a, b):
    if word_overlap(a, b) >= MIN_OVERLAP:
        assert set(pair_keys(a)) & set(pair_keys(b))


@given(st.integers(1, MAX_COMPLETE_WORDS), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_pair_keys_are_complete_up_to_the_promised_number_of_words(size, rng):
    """In the worst case the words that two texts share are the last in the order."""
    pool = [f"{'w' * rng.randint(1, 9)}{n}" for n in range(3 * size)]
    a = frozenset(rng.sample(pool, size))
    least = -(-3 * size // 5)
    shared = sorted(a, key=lambda word: (len(word), word))[:least]  # short words come last
    other = frozenset(shared) | {f"{'x' * 12}{n}" for n in range(max(0, round(len(a | set(shared)) / 1) - size))}
    for b in (frozenset(shared), other):
        if word_overlap(a, b) >= MIN_OVERLAP:
            assert set(pair_keys(a)) & set(pair_keys(b))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The build is GREEN", {"the", "build", "is", "green"}),
        ("don't stop", {"don't", "stop"}),
        ("ｆｕｌｌ width", {"full", "width"}),
        ("用户喜欢 dark モード", {"用", "户", "喜", "欢", "dark", "モ", "ー", "ド"}),
        ("snake_case and kebab-case", {"snake", "case", "and", "kebab"}),
        ("… — !!", set()),
    ],
)
def test_distinct_words_folds_words_and_splits_scripts_without_spaces(text, found):
    assert distinct_words(normalise_text(text)) == found


@given(st.text(st.one_of(st.characters(max_codepoint=255), st.sampled_from("'’ _-é²ªß"))))
def test_distinct_words_of_latin_letters_are_runs_of_letters_and_digits_with_inner_apostrophes(text):
    folded = normalise_text(text)
    assert distinct_words(folded) == set(re.findall(r"[^\W_]+(?:['’][^\W_]+)*", folded))


@given(st.text(max_size=40), st.frozensets(st.one_of(WORDS, st.text(max_size=3).map(normalise_text)), max_size=5))
def test_a_text_has_no_more_words_than_max_shared_words_says(text, more):
    folded = normalise_text(f"{text} {' '.join(sorted(more)[::2])}")
    words = distinct_words(folded)
    wanted = more | frozenset(sorted(words)[::2])
    assert len(words & wanted) <= max_shared_words(wanted, folded) <= len(wanted)


@pytest.mark.requirement("VLT-6")
@given(
    st.lists(SENTENCES, min_size=1, max_size=30),
    st.lists(SENTENCES, min_size=1, max_size=3),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=60)
def test_each_key_brings_its_newest_memories_with_all_the_keys_they_share(texts, asked, limit, rng):
    with lukasa.open("memory:", profile=VaultSettings(signals=())) as memory:
        memory.vault.bulk_add(texts)
        for record in memory.vault.list():
            if rng.random() < 0.2:
                memory.vault.delete(record.id)
        keys_of_texts = [text_pair_keys(text, "shared", "memory") for text in asked]
        with memory.journal.snapshot() as reader:
            found = reader.near_duplicates(keys_of_texts, "shared", kind="memory", limit_per_key=limit)
            current = list(reader.read(Query(kinds=("memory",), scopes=("shared",))))
    newest_first = sorted(current, key=lambda record: record.seq, reverse=True)
    keys_by_id = {record.id: set(text_pair_keys(record.text, "shared", "memory")) for record in newest_first}
    wanted = {key for keys in keys_of_texts for key in keys}
    shared_keys = {id: keys & wanted for id, keys in keys_by_id.items() if keys & wanted}
    brought = {id for key in wanted for id in [id for id, keys in shared_keys.items() if key in keys][:limit]}
    ids = [match.id for match in found]
    assert ids == [id for id in shared_keys if id in set(ids)]
    assert brought <= set(ids)
    assert [match.text for match in found] == [record.text for record in newest_first if record.id in set(ids)]
    for match in found:
        assert set(match.pair_keys) <= shared_keys[match.id]
        assert match.id in brought or len(match.pair_keys) > 1
    if max((sum(key in keys for keys in shared_keys.values()) for key in wanted), default=0) < limit:
        assert {match.id: set(match.pair_keys) for match in found} == shared_keys


def verdicts_by_comparing_with_all(texts, rules, *, as_documented=False):
    """Return the gate's verdicts the slow way. As documented, sequences count between texts that share two content words."""
    kept: list[str] = []
    verdicts = []
    for text in texts:
        plain = normalise_text(text)
        known = distinct_words(plain)
        is_duplicate = any(
            word_overlap(known, distinct_words(normalise_text(other))) >= rules.overlap_threshold
            or (
                sequence_similarity(plain, normalise_text(other)) >= rules.similarity_threshold
                and (
                    not as_documented
                    or not set(pair_keys(known)).isdisjoint(pair_keys(distinct_words(normalise_text(other))))
                )
            )
            for other in kept
        )
        verdicts.append("duplicate" if is_duplicate else "kept")
        if not is_duplicate:
            kept.append(text)
    return verdicts


def verdicts_of(vault, texts):
    return ["kept" if outcome else outcome.code for outcome in vault.bulk_add(texts)]


@pytest.mark.requirement("VLT-6")
@given(
    st.lists(
        st.one_of(
            SENTENCES, st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=40)
        ),
        max_size=30,
    )
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_small_vault_compares_any_text_with_everything(texts):
    rules = VaultSettings(signals=(), pii={"memory": "allow"}, duplicates="document")
    with lukasa.open("memory:", profile=rules) as memory:
        assert verdicts_of(memory.vault, texts) == verdicts_by_comparing_with_all(texts, rules)


@pytest.mark.requirement("VLT-6")
@given(st.lists(SENTENCES, max_size=40), st.sampled_from([0.6, 0.7, 0.8]))
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_the_index_alone_finds_every_overlap_that_comparing_with_everything_finds(texts, threshold):
    rules = VaultSettings(signals=(), overlap_threshold=threshold, similarity_threshold=1.0, duplicates="document")
    with pytest.MonkeyPatch.context() as patch, lukasa.open("memory:", profile=rules) as memory:
        patch.setattr(checks, "COMPARE_ALL_LIMIT", -1)
        assert verdicts_of(memory.vault, texts) == verdicts_by_comparing_with_all(texts, rules)


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("size", [600, pytest.param(6_000, marks=pytest.mark.slow)])
def test_a_large_vault_finds_every_overlap_that_comparing_with_everything_finds(size, open_store, location):
    """Word order does not count: the texts have many words in many orders and are varied word by word."""
    rng = random.Random(size)
    rules = VaultSettings(signals=(), similarity_threshold=1.0, capacity=1_000_000, duplicates="document")
    pool = [f"{rng.getrandbits(30):x}" + "w" * rng.randint(0, 6) for _ in range(3_000)] + ["the", "is", "of"]
    texts = [" ".join(rng.choices(pool, k=rng.randint(2, 24))) for _ in range(size)]
    vault = open_store(location, profile=rules).vault
    kept_texts = [text for text, outcome in zip(texts, vault.bulk_add(texts), strict=True) if outcome]
    known = [distinct_words(normalise_text(text)) for text in kept_texts]
    codes = set()
    for text in rng.choices(kept_texts, k=150):
        parts = text.split()
        for _ in range(rng.randint(0, len(parts) // 2)):
            parts[rng.randrange(len(parts))] = rng.choice(pool)
        rng.shuffle(parts)
        asked = distinct_words(normalise_text(" ".join(parts)))
        is_duplicate = any(word_overlap(asked, other) >= rules.overlap_threshold for other in known)
        refused = vault.judge(" ".join(parts))
        assert (refused is not None and refused.code == "duplicate") == is_duplicate, parts
        codes.add(is_duplicate)
    assert codes == {True, False}


def facts(rng, count):
    """Return sentences as people write them, and variations: typos, other endings, removed and added words."""
    people = ["Ada", "Boris", "Chidi", "Dolores", "Emeka", "Farah", "Gudrun", "Hiroshi"]
    things = [
        "dashboard",
        "billing service",
        "staging database",
        "release calendar",
        "onboarding guide",
        "search index",
        "warehouse",
        "mobile app",
        "newsletter",
        "backup policy",
        "payment gateway",
        "translation memory",
    ]
    deeds = [
        "is owned by {who}",
        "moves to {where} in {when}",
        "was designed by {who} for {where}",
        "fails when {who} exports from {where}",
        "must be reviewed by {who} before {when}",
        "costs {n} euros a month in {where}",
    ]
    places = ["Lagos", "Tromsø", "Valparaíso", "Osaka", "Ghent", "Nairobi", "Winnipeg", "Tbilisi"]
    months = ["January", "March", "May", "August", "October", "December"]
    made: list[str] = []
    for n in range(count):
        fact = f"The {rng.choice(things)} {rng.choice(deeds)}".format(
            who=rng.choice(people), where=rng.choice(places), when=rng.choice(months), n=17 * n % 991
        )
        if made and rng.random() < 0.4:
            fact = varied(rng, rng.choice(made))
        made.append(fact)
    return made


def varied(rng, text):
    parts = text.split()
    match rng.randrange(4):
        case 0:
            at = rng.randrange(len(text))
            return text[:at] + rng.choice("aeioust") + text[at + 1 :]
        case 1:
            parts.insert(rng.randrange(len(parts)), rng.choice(["really", "now", "also", "usually"]))
        case 2:
            parts = [part + "s" if len(part) > 5 and rng.random() < 0.3 else part for part in parts]
        case 3:
            parts.pop(rng.randrange(len(parts)))
    return " ".join(parts)


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("seed", range(2))
def test_the_index_alone_judges_variations_of_facts_as_documented(seed, open_store, monkeypatch):
    monkeypatch.setattr(checks, "COMPARE_ALL_LIMIT", -1)
    texts = facts(random.Random(seed), 300)
    rules = VaultSettings(duplicates="document")
    expected = verdicts_by_comparing_with_all(texts, rules, as_documented=True)
    assert verdicts_of(open_store(profile=rules).vault, texts) == expected
    assert {"kept", "duplicate"} == set(expected)


@pytest.mark.requirement("VLT-6")
def test_the_index_alone_finds_a_text_with_a_typo(open_store, monkeypatch):
    monkeypatch.setattr(checks, "COMPARE_ALL_LIMIT", -1)
    rng, vault = random.Random(7), open_store(profile=VaultSettings(duplicates="document")).vault
    kept = [item for item in facts(rng, 300) if vault.add_memory(item)]
    for text in kept:
        at = rng.randrange(len(text))
        assert vault.add_memory(text[:at] + "q" + text[at + 1 :]).code == "duplicate"


@pytest.mark.requirement("VLT-6")
def test_a_duplicate_refusal_names_the_memory_and_the_similarity(memory):
    kept = memory.vault.add_memory("The staging database is called heron").record
    refused = memory.vault.add_memory("The staging database is named heron")
    assert refused.code == "duplicate"
    assert refused.details["duplicate_of"] == kept.id
    assert refused.details["overlap"] >= 0.6
    assert kept.id in refused.reason


@pytest.mark.requirement("VLT-6")
def test_duplicates_are_searched_only_within_the_scope(open_store, location):
    orion, elysia = open_store(location, agent="orion"), open_store(location, agent="elysia")
    text = "The staging database is called heron"
    assert orion.vault.add_memory(text, "orion")
    assert elysia.vault.add_memory(text, "elysia")
    assert elysia.vault.add_memory(text, "shared")
    refused = orion.vault.add_memory(text, "shared")
    assert (refused.code, refused.details["scope"]) == ("duplicate", "shared")


@pytest.mark.requirement("VLT-6")
def test_deleted_rewritten_and_quarantined_memories_are_no_duplicates(memory, monkeypatch):
    monkeypatch.setattr(checks, "COMPARE_ALL_LIMIT", -1)
    vault = memory.vault
    first = vault.add_memory("The staging database is called heron").record
    vault.delete(first.id)
    second = vault.add_memory("The staging database is called heron").record
    vault.update(second.id, "Deploys happen every Thursday afternoon")
    assert vault.add_memory("The staging database is called heron", author="mallory")
    assert vault.add_memory("Deploys happen every Thursday afternoon").code == "duplicate"
    memory.journal.quarantine("mallory")
    assert vault.add_memory("The staging database is called heron", author="ada")


@pytest.mark.requirement("VLT-6")
def test_the_same_fact_added_by_many_processes_is_kept_once(location, open_store, run_concurrently):
    open_store(location).vault.add_memory("Something else is already here", author="ada")
    fact = "The quarterly report is due on the third Friday of April"
    verdicts = run_concurrently("add", *({"store": location, "texts": [fact, f"{fact}!"]} for _ in range(6)))
    assert sum(answers.count("kept") for answers in verdicts) == 1
    texts = [memory.text for memory in open_store(location).vault.list()]
    assert sum("quarterly" in text for text in texts) == 1


@pytest.mark.requirement("VLT-6")
def test_near_duplicates_are_found_after_a_reindex(open_store, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "COMPARE_ALL_LIMIT", -1)
    memory = open_store(tmp_path / "a.db", profile=VaultSettings(capacity=1000))
    texts = facts(random.Random(5), 60)
    memory.vault.bulk_add(texts)
    memory.journal.reindex()
    assert {outcome.code for outcome in memory.vault.bulk_add(texts)} == {"duplicate"}
    assert memory.verify().sound
