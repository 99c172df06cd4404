"""The words of the text layer: their files can be read, and no list contradicts itself."""

from hashlib import sha256
from importlib.resources import files

import pytest

from lukasa.text import word_classes
from lukasa.text.differences import _fold_word
from lukasa.text.lexicon import COMMON_WORDS, WORDS

GROUPED = ("modal_groups", "months", "numbers", "persons", "relations", "synonyms", "unit_forms", "weekdays")
COMPARED = [
    "english_markers",
    "german_markers",
    "other_markers",
    "english_empty",
    "german_empty",
    "negations",
    "modal_groups",
    "persons",
    "relations",
    "english_prepositions",
    "german_prepositions",
    "coordinations",
    "weekdays",
    "day_forms",
    "month_forms",
    "times",
    "unit_forms",
    "synonyms",
    "antonyms",
    "irregular_forms",
    "not_past",
    "possession",
    "passive_auxiliaries",
    "not_stemmed",
    "confusable_words",
]


def listed_words(section):
    return [word for first, others in WORDS[section].items() for word in (first, *others)]


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("section", GROUPED)
def test_no_word_belongs_to_two_groups(section):
    words = listed_words(section)
    assert len(words) == len(set(words)), sorted(word for word in words if words.count(word) > 1)


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("section", COMPARED)
def test_every_word_is_folded(section):
    assert [word for word in listed_words(section) if word != _fold_word(word)] == []


def test_the_words_of_near_duplicate_keys_never_change():
    """Stores hold keys that were made with them."""
    assert len(COMMON_WORDS) == 119
    digest = sha256(" ".join(sorted(COMMON_WORDS)).encode()).hexdigest()
    assert digest.startswith("ec35de3b9b7d2942")


def test_a_phrase_is_found_by_its_words():
    assert all(word_classes.PHRASES[place] for places in word_classes.TRIGGERS.values() for place in places)


def test_each_word_stands_once_in_its_list_and_no_list_is_empty():
    written: dict[str, list[str]] = {}
    section: list[str] = []
    for line in (files("lukasa.text") / "lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            assert line.strip("[]") not in written
            section = written.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            section += [entry.partition("=")[0].replace("_", " ") for entry in line.split()]
    assert written == {section: list(words) for section, words in WORDS.items()}
    assert all(written.values())


def test_phrases_and_values_are_read():
    assert "allergic to" in WORDS["state_phrases"]
    assert WORDS["spellings"]["rn"] == ("right now",)
    assert WORDS["verbs"]["reports"] == ("to",)
    assert WORDS["negation"]["not"] == ()
