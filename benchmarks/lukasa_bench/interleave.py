"""Fair turns: the machine is shared and its disk uneven, so the two are measured side by side, again and again."""

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
    """Two figures and how they relate: the median of the rounds' ratios, with the lowest and the highest."""

    lukasa: float
    reference: float
    ratio: float
    low: float
    high: float


def run_interleaved(
    rounds: int, sides: Sequence[SideT], prepare: Callable[[], ItemsT], work: Callable[[SideT, ItemsT], T]
) -> list[list[T]]:
    """What ``work`` gave for each side in each round, on the same items; the sides take turns in beginning.

    A first round warms all up and is not counted. What ``prepare`` does is not part of the work.
    """
    results: list[list[T]] = [[] for _ in sides]
    for turn in range(rounds + 1):
        items = prepare()
        for at in range(len(sides)) if turn % 2 else reversed(range(len(sides))):
            with freeze_garbage():
                given = work(sides[at], items)
            if turn:
                results[at].append(given)
    return results


@contextmanager
def freeze_garbage() -> Iterator[None]:
    """Garbage of what came before is collected first; the collector stays on, but what was there does not burden it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def compare(lukasa: Sequence[float], reference: Sequence[float]) -> Comparison:
    """The medians of both sides and of the rounds' ratios."""
    ratios = [own / other for own, other in zip(lukasa, reference, strict=True)]
    return Comparison(
        statistics.median(lukasa), statistics.median(reference), statistics.median(ratios), min(ratios), max(ratios)
    )


def pool_blocks(blocks: Sequence[Sequence[float]], size: int) -> list[list[float]]:
    """Every ``size`` blocks joined into one: a round of short turns feels the machine's moods less than one long turn."""
    return [list(chain.from_iterable(blocks[at : at + size])) for at in range(0, len(blocks), size)]


def time_each(action: Callable[[Any], Any], items: Sequence[Any]) -> list[float]:
    """How long the deed took on each item."""
    took = []
    for item in items:
        began = perf_counter()
        action(item)
        took.append(perf_counter() - began)
    return took


def time_call(action: Callable[[], Any]) -> float:
    """How long the deed took."""
    began = perf_counter()
    action()
    return perf_counter() - began
