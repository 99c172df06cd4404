"""Lists of words in plain text files of the package.

A file has sections headed ``[name]``. A section holds words separated by white space; ``_`` stands for a space in a phrase, and
``word=value|value`` gives a word values. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

WordList = dict[str, tuple[str, ...]]
"""Words or phrases in the order of the file, each with its values, mostly none."""


def load_word_lists(package: str, name: str) -> dict[str, WordList]:
    """Load the sections of a file of a package."""
    sections: dict[str, WordList] = {}
    section: WordList = {}
    for line in Path(import_module(package).__path__[0], name).read_text("utf-8").splitlines():
        if line.startswith("["):
            section = sections[line.strip("[]")] = {}
        elif not line.startswith("#"):
            for entry in line.split():
                word, _, values = entry.replace("_", " ").partition("=")
                section[word] = tuple(values.split("|")) if values else ()
    return sections
