"""The near-duplicate gate: the measures are exact, and the index gives the verdict that comparing with all would."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.text.similarity import (
    MAX_COMPLETE_WORDS,
    MIN_OVERLAP,
    distinct_words,
    normalise_text,
    pair_keys,
    query_coverage,
    sequence_similarity,
    word_overlap,
)
from lukasa.vault import VaultSettings, duplicates

WORDS = st.sampled_from(
    [f"{head}{tail}" for head in ("ka", "lu", "sa", "mo", "ti", "re") for tail in ("", "n", "ra", "lito", "berg", "s")]
)
SETS = st.frozensets(WORDS, min_size=1, max_size=14)
SENTENCES = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)


def lcs(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for at, y in enumerate(b, 1):
            row[at], before = (before + 1 if x == y else max(row[at], row[at - 1])), row[at]
    return row[-1]


@given(st.text(max_size=30), st.text(max_size=30))
def test_sequence_is_twice_the_longest_common_subsequence_over_both_lengths(a, b):
    expected = 2 * lcs(a, b) / (len(a) + len(b)) if a or b else 1.0
    assert sequence_similarity(a, b) == pytest.approx(expected)
    assert sequence_similarity(a, b) == sequence_similarity(b, a)


@given(SETS, SETS)
def test_overlap_is_the_share_of_words_in_common(a, b):
    assert word_overlap(a, b) == pytest.approx(len(a & b) / len(a | b))
    assert query_coverage(a, b) == pytest.approx(len(a & b) / len(a))


@pytest.mark.requirement("VLT-6")
@given(SETS, SETS)
def test_texts_that_overlap_enough_always_share_a_mark(a, b):
    if word_overlap(a, b) >= MIN_OVERLAP:
        assert set(pair_keys(a)) & set(pair_keys(b))


@given(st.integers(1, MAX_COMPLETE_WORDS), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_marks_are_complete_up_to_the_promised_number_of_words(size, chance):
    """The worst that can happen: the words two texts share are the last in the order."""
    pool = [f"{'w' * chance.randint(1, 9)}{n}" for n in range(3 * size)]
    a = frozenset(chance.sample(pool, size))
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
def test_words_are_folded_and_scripts_without_spaces_give_characters(text, found):
    assert distinct_words(normalise_text(text)) == found


def verdicts_by_comparing_with_all(texts, rules, *, as_documented=False):
    """The gate's verdict the slow way. As documented, sequences count between texts that share two telling words."""
    kept, verdicts = [], []
    for text in texts:
        plain = normalise_text(text)
        known = distinct_words(plain)
        again = any(
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
        verdicts.append("duplicate" if again else "kept")
        if not again:
            kept.append(text)
    return verdicts


def verdicts_of(vault, texts):
    return [getattr(outcome, "code", "kept") for outcome in vault.bulk_add(texts)]


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
def test_in_a_small_vault_the_verdict_is_that_of_comparing_with_everything_whatever_the_text(texts):
    rules = VaultSettings(signals=(), pii={"memory": "allow"}, capacity=10_000)
    with lukasa.open("memory:", profile=rules) as memory:
        assert verdicts_of(memory.vault, texts) == verdicts_by_comparing_with_all(texts, rules)


@pytest.mark.requirement("VLT-6")
@given(st.lists(SENTENCES, max_size=40), st.sampled_from([0.6, 0.7, 0.8]))
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_by_the_index_alone_the_overlap_gives_the_verdict_of_comparing_with_everything(texts, threshold):
    rules = VaultSettings(signals=(), overlap_threshold=threshold, similarity_threshold=1.0, capacity=10_000)
    with pytest.MonkeyPatch.context() as patch, lukasa.open("memory:", profile=rules) as memory:
        patch.setattr(duplicates, "COMPARE_ALL_LIMIT", -1)
        assert verdicts_of(memory.vault, texts) == verdicts_by_comparing_with_all(texts, rules)


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("size", [600, pytest.param(6_000, marks=pytest.mark.slow)])
def test_in_a_large_vault_the_overlap_gives_the_verdict_of_comparing_with_everything(size, opened, place):
    """Word order is no part of it: texts are made of many words in many orders, and varied word by word."""
    chance, rules = random.Random(size), VaultSettings(signals=(), similarity_threshold=1.0, capacity=1_000_000)
    pool = [f"{chance.getrandbits(30):x}" + "w" * chance.randint(0, 6) for _ in range(3_000)] + ["the", "is", "of"]
    kept = [" ".join(chance.choices(pool, k=chance.randint(2, 24))) for _ in range(size)]
    vault = opened(place, profile=rules).vault
    held = [text for text, outcome in zip(kept, vault.bulk_add(kept), strict=True) if outcome]
    known = [distinct_words(normalise_text(text)) for text in held]
    codes = set()
    for text in chance.choices(held, k=150):
        parts = text.split()
        for _ in range(chance.randint(0, len(parts) // 2)):
            parts[chance.randrange(len(parts))] = chance.choice(pool)
        chance.shuffle(parts)
        asked = distinct_words(normalise_text(" ".join(parts)))
        again = any(word_overlap(asked, other) >= rules.overlap_threshold for other in known)
        refused = vault.judge(" ".join(parts))
        assert (refused is not None and refused.code == "duplicate") == again, parts
        codes.add(again)
    assert codes == {True, False}


def facts(chance, count):
    """Sentences as people write them down, and variations of them: typos, other endings, swapped and added words."""
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
    made = []
    for n in range(count):
        fact = f"The {chance.choice(things)} {chance.choice(deeds)}".format(
            who=chance.choice(people), where=chance.choice(places), when=chance.choice(months), n=17 * n % 991
        )
        if made and chance.random() < 0.4:
            fact = varied(chance, chance.choice(made))
        made.append(fact)
    return made


def varied(chance, text):
    parts = text.split()
    match chance.randrange(4):
        case 0:
            at = chance.randrange(len(text))
            return text[:at] + chance.choice("aeioust") + text[at + 1 :]
        case 1:
            parts.insert(chance.randrange(len(parts)), chance.choice(["really", "now", "also", "usually"]))
        case 2:
            parts = [part + "s" if len(part) > 5 and chance.random() < 0.3 else part for part in parts]
        case 3:
            parts.pop(chance.randrange(len(parts)))
    return " ".join(parts)


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("seed", range(2))
def test_by_the_index_alone_variations_of_facts_are_judged_as_documented(seed, opened, monkeypatch):
    monkeypatch.setattr(duplicates, "COMPARE_ALL_LIMIT", -1)
    texts = facts(random.Random(seed), 300)
    rules = VaultSettings(capacity=10_000)
    expected = verdicts_by_comparing_with_all(texts, rules, as_documented=True)
    assert verdicts_of(opened(profile=rules).vault, texts) == expected
    assert {"kept", "duplicate"} == set(expected)


@pytest.mark.requirement("VLT-6")
def test_a_text_with_a_typo_in_it_is_found_by_the_index_alone(opened, monkeypatch):
    monkeypatch.setattr(duplicates, "COMPARE_ALL_LIMIT", -1)
    chance, vault = random.Random(7), opened(profile=VaultSettings(capacity=10_000)).vault
    kept = [item for item in facts(chance, 300) if vault.add_memory(item)]
    for text in kept:
        at = chance.randrange(len(text))
        assert vault.add_memory(text[:at] + "q" + text[at + 1 :]).code == "duplicate"


@pytest.mark.requirement("VLT-6")
def test_a_refusal_names_what_is_duplicated_and_how_alike_it_is(memory):
    kept = memory.vault.add_memory("The staging database is called heron").record
    refused = memory.vault.add_memory("The staging database is named heron")
    assert refused.code == "duplicate"
    assert refused.details["duplicate_of"] == kept.id
    assert refused.details["overlap"] >= 0.6
    assert kept.id in refused.reason


@pytest.mark.requirement("VLT-6")
def test_duplicates_are_looked_for_within_the_scope_alone(opened, place):
    orion, elysia = opened(place, agent="orion"), opened(place, agent="elysia")
    text = "The staging database is called heron"
    assert orion.vault.add_memory(text, "orion")
    assert elysia.vault.add_memory(text, "elysia")
    assert elysia.vault.add_memory(text, "shared")
    refused = orion.vault.add_memory(text, "shared")
    assert (refused.code, refused.details["scope"]) == ("duplicate", "shared")


@pytest.mark.requirement("VLT-6")
def test_what_was_forgotten_or_rewritten_or_hidden_is_no_longer_in_the_way(memory, monkeypatch):
    monkeypatch.setattr(duplicates, "COMPARE_ALL_LIMIT", -1)
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
def test_the_same_fact_from_many_processes_is_kept_once(place, opened, together):
    opened(place).vault.add_memory("Something else is already here", author="ada")
    fact = "The quarterly report is due on the third Friday of April"
    said = together("add", *({"store": place, "texts": [fact, f"{fact}!"]} for _ in range(6)))
    assert sum(answers.count("kept") for answers in said) == 1
    texts = [memory.text for memory in opened(place).vault.list()]
    assert sum("quarterly" in text for text in texts) == 1


@pytest.mark.requirement("VLT-6")
def test_after_a_rebuild_of_everything_derived_near_duplicates_are_found_as_before(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(duplicates, "COMPARE_ALL_LIMIT", -1)
    memory = opened(tmp_path / "a.db", profile=VaultSettings(capacity=1000))
    texts = facts(random.Random(5), 60)
    memory.vault.bulk_add(texts)
    memory.journal.reindex()
    assert {outcome.code for outcome in memory.vault.bulk_add(texts)} == {"duplicate"}
    assert memory.verify().sound
