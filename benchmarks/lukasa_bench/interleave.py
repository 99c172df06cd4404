"""Interleaved measurement: both sides alternate round by round, because the machine is shared and its disk is uneven."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")
ItemsT = TypeVar("ItemsT")
SideT = TypeVar("SideT")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of both sides, and the median, the lowest and the highest of the rounds' ratios."""

    lukasa: float
    reference: float
    ratio: float
    low: float
    high: float


def run_interleaved(
    rounds: int, sides: Sequence[SideT], prepare: Callable[[], ItemsT], work: Callable[[SideT, ItemsT], T]
) -> list[list[T]]:
    """Run ``work`` for each side in each round, on the same items, and return the results by side.

    The sides alternate in starting. A first round warms up and is not counted. ``prepare`` is not part of the work.
    """
    results: list[list[T]] = [[] for _ in sides]
    for turn in range(rounds + 1):
        items = prepare()
        for index in range(len(sides)) if turn % 2 else reversed(range(len(sides))):
            with freeze_garbage():
                result = work(sides[index], items)
            if turn:
                results[index].append(result)
    return results


@contextmanager
def freeze_garbage() -> Iterator[None]:
    """Collect garbage, and let the collector ignore all objects that exist already."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def compare(lukasa: Sequence[float], reference: Sequence[float]) -> Comparison:
    """Compare the rounds of both sides by their medians and by the median of their ratios."""
    ratios = [own / other for own, other in zip(lukasa, reference, strict=True)]
    return Comparison(
        statistics.median(lukasa), statistics.median(reference), statistics.median(ratios), min(ratios), max(ratios)
    )


def pool_blocks(blocks: Sequence[Sequence[float]], size: int) -> list[list[float]]:
    """Join every ``size`` blocks into one: short alternating turns are disturbed less by the machine than one long turn."""
    return [list(chain.from_iterable(blocks[start : start + size])) for start in range(0, len(blocks), size)]


def time_each(action: Callable[[Any], Any], items: Sequence[Any]) -> list[float]:
    """Return the seconds that an action takes on each item."""
    took = []
    for item in items:
        began = perf_counter()
        action(item)
        took.append(perf_counter() - began)
    return took


def time_call(action: Callable[[], Any]) -> float:
    """Return the seconds that an action takes."""
    began = perf_counter()
    action()
    return perf_counter() - began
