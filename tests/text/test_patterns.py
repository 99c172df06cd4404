"""Regular expressions of the package work on every Python that it supports."""

from __future__ import annotations

import importlib
import pkgutil
import re
import re._constants  # the parser of patterns has no public form
import re._parser
from collections.abc import Iterator
from typing import Any

import pytest

import lukasa
from lukasa.text.patterns import _LazyPattern, compile_on_use

MODULES = [
    module.name
    for module in pkgutil.walk_packages(lukasa.__path__, "lukasa.")
    if module.name.startswith(("lukasa.pii", "lukasa.text", "lukasa.context", "lukasa.vault", "lukasa.recall"))
]


def possessive_groups(items: Any) -> Iterator[Any]:
    """Yield the possessive repeats of more than one character class, and atomic groups."""
    for operation, argument in items:
        if operation is re._constants.ATOMIC_GROUP:
            yield argument
        if operation is re._constants.POSSESSIVE_REPEAT:
            inside = list(argument[2])
            if len(inside) != 1 or inside[0][0] not in (re._constants.IN, re._constants.LITERAL, re._constants.ANY):
                yield argument
        for part in argument if isinstance(argument, (tuple, list)) else [argument]:
            for nested in part if isinstance(part, list) else [part]:
                if isinstance(nested, re._parser.SubPattern):
                    yield from possessive_groups(nested)


@pytest.mark.parametrize("name", MODULES)
def test_no_pattern_repeats_a_group_possessively(name: str) -> None:
    """Python before 3.11.5 misses matches of such patterns."""
    values = vars(importlib.import_module(name)).values()
    patterns = [value for value in values if isinstance(value, (re.Pattern, _LazyPattern))]
    for pattern in patterns:
        assert list(possessive_groups(re._parser.parse(pattern.pattern, pattern.flags))) == [], pattern.pattern


def test_the_check_finds_a_possessive_group() -> None:
    assert list(possessive_groups(re._parser.parse(r"a(?:b|(?:cd)*+)")))
    assert not list(possessive_groups(re._parser.parse(r"a[bc]*+(?:cd)*")))


def test_a_pattern_that_is_compiled_on_use_is_the_same_as_another() -> None:
    lazy, plain = compile_on_use(r"(?P<word>[a-z]+)", re.IGNORECASE), re.compile(r"(?P<word>[a-z]+)", re.IGNORECASE)
    assert (lazy.pattern, lazy.flags, lazy.groups) == (plain.pattern, plain.flags, plain.groups)
    assert lazy.findall("One 2 three") == plain.findall("One 2 three")
    assert not hasattr(lazy, "seek")
