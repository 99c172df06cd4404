"""One test over many cases, which reports every faulty one by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Any


def each(name: str, cases: Collection[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each case of a parameter, where a test of its own for each would only cost time.

    All cases share the fixtures of the test.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run_all(**fixtures: Any) -> None:
            assert cases, f"no {name} to test"
            faults = [fault for case in cases if (fault := find_fault(test, {**fixtures, name: case}))]
            assert not faults, f"{len(faults)} of {len(cases)} fail.\n" + "\n".join(faults)

        def find_fault(test: Callable[..., None], arguments: dict[str, Any]) -> str | None:
            try:
                test(**arguments)
            except Exception as error:  # noqa: BLE001 - whatever a case raises is its fault
                return f"{describe(arguments[name])}: {type(error).__name__}: {error}"
            return None

        signature = inspect.signature(test)
        kept = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # what pytest reads
        return run_all

    return decorate


def describe(case: Any) -> str:
    """Name a case as a command, a path or a text is written."""
    if isinstance(case, tuple) and all(isinstance(part, str) for part in case):
        return " ".join(map(ascii, case))
    return str(case) if isinstance(case, Path) else ascii(case)
