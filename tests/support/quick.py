"""``--quick``: the tests that need nothing but this process, with few random examples and a few cases of each.

A test that starts a process, a server or a browser is left out, and so are the PostgreSQL half of a test of both engines, faults,
benchmarks and golden files. What a test starts is read from its code, its helpers and its fixtures, so that no list of tests has
to be kept. Of a test with many cases the first ones run.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from types import CodeType
from typing import Any

import pytest

STARTS = {
    "PostgresServer",
    "ProcessPoolExecutor",
    "TestClient",
    "build_server",
    "fork",
    "forkpty",
    "multiprocessing",
    "openpty",
    "run_api_server",
    "serve_app",
    "shared_server",
    "subprocess",
    "sync_playwright",
    "uvicorn",
}
"""What a test names that starts a process, a server or a browser."""
LEFT_OUT = {"benchmarks", "faults", "frozen"}
"""The folders of tests that take long by their nature."""
MAX_CASES = 3
"""How many cases of a test run."""


def select_quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of a quick run."""
    cases: Counter[str] = Counter()
    selected = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        if cases[test] < MAX_CASES and is_quick(item):
            cases[test] += 1
            selected.append(item)
    return selected


def is_quick(item: pytest.Item) -> bool:
    """Tell whether a test needs nothing but this process."""
    assert isinstance(item, pytest.Function)
    if not LEFT_OUT.isdisjoint(item.path.parts):
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    fixtures = (found[-1].func for found in item._fixtureinfo.name2fixturedefs.values())
    return "postgresql" not in parameters and not any(starts_more(part) for part in (item.function, *fixtures))


@cache
def starts_more(part: Any) -> bool:
    """Tell whether a function or class, or what it uses of its module and of ``support``, names one of ``STARTS``."""
    return not STARTS.isdisjoint(names_used(part, set()))


def names_used(part: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the names that a function or class uses, and those that functions and classes of its module and of ``support`` use."""
    part = inspect.unwrap(getattr(getattr(part, "hypothesis", None), "inner_test", part))
    if part in seen:
        return
    seen.add(part)
    if inspect.isclass(part):
        for member in vars(part).values():
            if inspect.isfunction(member):
                yield from names_used(member, seen)
    elif inspect.isfunction(part):
        for name in names_of_code(part.__code__):
            yield name
            used = part.__globals__.get(name)
            module = getattr(used, "__module__", None) or ""
            if module == part.__module__ or module.startswith("support."):
                yield from names_used(used, seen)


def names_of_code(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses, in nested functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of_code(constant)
