"""Caches of texts: bounded in bytes, emptied together, and no other kind of cache holds texts."""

from __future__ import annotations

import ast
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import lukasa
from lukasa.context import summary
from lukasa.core.text_cache import ClearedDict, cache_texts, empty_caches
from lukasa.journal.read_cache import ReadCache
from lukasa.recall import ranking, signals
from lukasa.storage.parsed_records import ParsedRecords
from lukasa.text import statements

pytestmark = pytest.mark.requirement("LOG-5")

UNREGISTERED = {"models/reranker.py": "names of rerankers", "core/text_cache.py": "the module itself"}
"""The modules that use ``lru_cache``, and what theirs hold."""


def test_a_cached_function_is_called_once_for_equal_arguments():
    asked = []

    @cache_texts(2)
    def measure(text: str, speaker: str = "") -> int:
        asked.append((text, speaker))
        return len(text)

    assert [measure("one"), measure("one"), measure("three", "ada"), measure("three", "ada")] == [3, 3, 5, 5]
    assert asked == [("one", ""), ("three", "ada")]
    assert measure.__wrapped__("one") == 3
    assert measure.__name__ == "measure"
    empty_caches()
    assert measure("one") == 3
    assert len(asked) == 4


def test_a_cache_of_long_texts_holds_few_of_them():
    @cache_texts(10_000, 1_000_000, per_character=1)
    def shorten(text: str) -> str:
        return text[:1]

    for number in range(200):
        shorten(f"{number} " + "x" * 50_000)
        assert shorten.cache_info().currsize <= 20
    for number in range(10_000):
        shorten(str(number))
        assert shorten.cache_info().currsize <= 5_000


def test_what_is_no_longer_used_is_not_kept_by_the_list_of_caches():
    before = len(lukasa.core.text_cache._emptied_by)
    for _ in range(100):
        ParsedRecords(lambda record: record)
        ClearedDict()
        cache_texts(10)(len)
    gc.collect()
    assert len(lukasa.core.text_cache._emptied_by) <= before


def test_every_cache_of_the_process_is_small_after_many_long_texts():
    functions: list[Callable[[str], object]] = [
        lambda text: statements.parse_statements(text, "ada"),
        signals.states_rule,
        lambda text: signals._cached_features([text]),
        ranking._first_word,
        lambda text: summary._count_line_tokens(text, len),
    ]
    empty_caches()
    gc.collect()
    tracemalloc.start()
    try:
        for function in functions:
            for number in range(250):
                function(f"{number} {'heron ' * 16_000}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        empty_caches()
    assert held < 60_000_000, f"{held:,} bytes"


def test_values_that_were_read_are_bounded_in_bytes(tmp_path):
    with lukasa.open(tmp_path / "store.db", embedder="none") as memory:
        cache: ReadCache[bytes] = ReadCache(memory.journal, 1_000, measure=len, max_bytes=1_000_000)
        for number in range(100):
            assert cache.read(number, lambda: bytes(100_000)) == bytes(100_000)
            assert sum(len(value) for _, value in cache.values()) <= 1_000_000
        assert cache.read("large", lambda: bytes(500_000)) == bytes(500_000)
        assert cache.find("large") is None
        assert cache.find(99) is not None
        empty_caches()
        assert cache.find(99) is None


def test_only_the_listed_modules_cache_by_other_means():
    package = Path(lukasa.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module == "functools"
            for alias in node.names
        }
        if "lru_cache" in names:
            found.add(path.relative_to(package).as_posix())
    assert found == UNREGISTERED.keys()
