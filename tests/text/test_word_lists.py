"""The lists of words in text files of the package."""

from importlib.resources import files

import pytest

from lukasa.text.word_lists import load_word_lists


@pytest.mark.parametrize(
    ("package", "name"), [("lukasa.context", "fact_words.txt"), ("lukasa.text", "statement_words.txt")]
)
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
    lists = load_word_lists("lukasa.context", "fact_words.txt")
    assert "allergic to" in lists["state_phrases"]
    assert lists["spellings"]["rn"] == ("right now",)
    assert lists["verbs"]["reports"] == ("to",)
    assert lists["negation"]["not"] == ()
