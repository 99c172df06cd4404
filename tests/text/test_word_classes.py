"""The words of the text layer: their files can be read, and no list contradicts itself."""

from hashlib import sha256
from importlib.resources import files

import pytest

from lukasa.text import stopwords, word_classes
from lukasa.text.differences import _fold_word
from lukasa.text.word_lists import load_word_lists

LISTS = load_word_lists("lukasa.text", "word_classes.txt")
GROUPED = ("modals", "months", "numbers", "persons", "relations", "synonyms", "units", "weekdays")


def listed_words(section):
    return [word for first, others in LISTS[section].items() for word in (first, *others)]


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("section", GROUPED)
def test_no_word_belongs_to_two_groups(section):
    words = listed_words(section)
    assert len(words) == len(set(words)), sorted(word for word in words if words.count(word) > 1)


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize("section", sorted(LISTS.keys() - {"remarks", "closing_remarks", "tenses"}))
def test_every_word_is_folded(section):
    assert [word for word in listed_words(section) if word != _fold_word(word)] == []


@pytest.mark.parametrize("name", ["stopwords.txt", "word_classes.txt"])
def test_no_section_is_empty_and_every_word_is_listed_once(name):
    text = (files("lukasa.text") / name).read_text("utf-8")
    for section, words in load_word_lists("lukasa.text", name).items():
        assert words, section
        body = text.split(f"[{section}]\n")[1].split("\n\n")[0]
        assert len(body.split()) == len(words), section


def test_the_words_of_near_duplicate_keys_never_change():
    """Stores hold keys that were made with them."""
    assert len(stopwords.COMMON_WORDS) == 119
    digest = sha256(" ".join(sorted(stopwords.COMMON_WORDS)).encode()).hexdigest()
    assert digest.startswith("ec35de3b9b7d2942")


def test_a_phrase_is_found_by_its_words():
    assert all(word_classes.PHRASES[place] for places in word_classes.TRIGGERS.values() for place in places)


@pytest.mark.parametrize(("package", "name"), [("lukasa.text", "lexicon.txt")])
def test_each_word_stands_once_in_its_list(package, name):
    lists = load_word_lists(package, name)
    written: dict[str, list[str]] = {}
    section: list[str] = []
    for line in (files(package) / name).read_text("utf-8").splitlines():
        if line.startswith("["):
            section = written.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            section += [entry.partition("=")[0].replace("_", " ") for entry in line.split()]
    assert written == {section: list(words) for section, words in lists.items()}


def test_phrases_and_values_are_read():
    lists = load_word_lists("lukasa.text", "lexicon.txt")
    assert "allergic to" in lists["state_phrases"]
    assert lists["spellings"]["rn"] == ("right now",)
    assert lists["verbs"]["reports"] == ("to",)
    assert lists["negation"]["not"] == ()
