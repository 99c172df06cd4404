"""What counts: the rules that keep trust from being raised cheaply. They choose the formula's inputs, not the formula.

    own_output   an objection to one's own output is nobody's judgement: set aside
    echo         the same objection as another agent's in the same round, whose impact was credited already: set aside
    favour       an impact on the output of somebody who gives in to this agent far more often than to others, and to whom
                 others give in far less: set aside
    shallow      fewer than ten different words and no fresh citation: it counts, but its impact is credited only as
                 long as the agent has as many credited impacts of substance
    unheeded     where at most one of the last ten dissents changed anything, a further one without impact counts with no
                 depth: length and new words alone are cheap
    stale        a criterion cited in each of the last ten dissents adds nothing to the depth any more

What is set aside changes nothing, neither for the better nor for the worse. What is not judged yet does not count yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lukasa.trust.score import DEEPEST, as_few_as, bonus_of, length_of

UNJUDGED, OWN_OUTPUT, ECHO, FAVOUR = "unjudged", "own_output", "echo", "favour"
SHALLOW, UNHEEDED = "shallow", "unheeded"
SUBSTANCE = 0.2
SAME = 0.95
"""Dissents at least this near in meaning are the same objection."""
STALE_AFTER = 10
LATELY = 10
"""A fall is looked for among so many of the latest dissents."""
CHANCE = 0.001
"""A run of failures less likely than this is no accident."""
_FEWEST_PAIRED = 5
_RARE, _UNLIKELY = 0.01, 0.1


class Pair(NamedTuple):
    """How many dissents there were between two sides, and how many had an impact."""

    dissents: int = 0
    impacts: int = 0

    def plus(self, *, impact: bool) -> Pair:
        return Pair(self.dissents + 1, self.impacts + int(impact))

    def minus(self, other: Pair) -> Pair:
        return Pair(self.dissents - other.dissents, self.impacts - other.impacts)


class Told(NamedTuple):
    """A dissent as the rules see it."""

    text: str
    citations: tuple[str, ...]
    novelty: float
    impact: bool
    own_output: bool = False
    echoes: bool = False
    favoured: bool = False


class Past(NamedTuple):
    """What of an agent's past the rules look at."""

    cited_lately: Sequence[Sequence[str]] = ()
    credited: int = 0
    """Impacts of substance."""
    light: int = 0
    """Shallow impacts that were credited."""
    lately: str = ""
    """Which of the latest dissents had an impact: ``1`` or ``0`` each."""


class Verdict(NamedTuple):
    """What a dissent counts as. Without ``counts`` it is set aside; ``why`` names the rule that spoke."""

    counts: bool
    impact: bool = False
    depth: float = 0.0
    why: str = ""


def verdict(told: Told, past: Past) -> Verdict:
    """What a judged dissent counts as."""
    aside = {OWN_OUTPUT: told.own_output, ECHO: told.impact and told.echoes, FAVOUR: told.impact and told.favoured}
    if why := next((rule for rule, applies in aside.items() if applies), ""):
        return Verdict(counts=False, why=why)
    fresh = fresh_citations(told.citations, past.cited_lately)
    if not told.impact and is_unheeded(past.lately):
        return Verdict(counts=True, why=UNHEEDED)
    depth = min(length_of(told.text) + bonus_of(fresh) + told.novelty, DEEPEST)
    credited = told.impact and not (is_shallow(told.text, fresh) and past.light >= past.credited)
    return Verdict(counts=True, impact=credited, depth=depth, why=SHALLOW if credited is not told.impact else "")


def is_shallow(text: str, citations: Sequence[str]) -> bool:
    """Whether a dissent has too little substance to be credited by itself."""
    different = len({word.casefold() for word in text.split()})
    return min(different / 50, 1.0) + bonus_of(citations) < SUBSTANCE


def is_unheeded(lately: str) -> bool:
    """Whether the latest dissents were nearly all in vain."""
    return len(lately) >= LATELY and lately.count("1") <= 1


def fresh_citations(citations: Sequence[str], lately: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The different criteria cited, without those that stood in each of the last ten dissents."""
    last = lately[-STALE_AFTER:]
    always = set.intersection(*map(set, last)) if len(last) == STALE_AFTER else set()
    return tuple(name for name in dict.fromkeys(citations) if name not in always)


def is_favour(pair: Pair, of_dissenter: Pair, of_target: Pair) -> bool:
    """Whether one gives in to the other far more often than chance explains.

    ``pair`` is between the two, the others are all dissents of the one and all on the output of the other. Where one
    side has too little to do with anybody else, the other side alone tells; where neither has, nothing can be told.
    """
    if pair.dissents < _FEWEST_PAIRED:
        return False
    one, other = (_surprise(pair, side.minus(pair)) for side in (of_dissenter, of_target))
    if one is None or other is None:
        return min(_known(one), _known(other)) < _RARE
    return one < _RARE and other < _UNLIKELY


def _surprise(pair: Pair, elsewhere: Pair) -> float | None:
    """How likely so many impacts are if the two dealt with each other as one of them deals with everybody else."""
    if elsewhere.dissents < _FEWEST_PAIRED:
        return None
    ratio = (elsewhere.impacts + 1) / (elsewhere.dissents + 2)
    return as_few_as(pair.dissents - pair.impacts, pair.dissents, 1 - ratio)


def _known(surprise: float | None) -> float:
    return 1.0 if surprise is None else surprise


def has_fallen(lately: str, earlier: Pair) -> bool:
    """Whether the latest dissents (``1`` for an impact, ``0`` for none) fail more often than chance explains."""
    if len(lately) < LATELY or earlier.dissents < LATELY:
        return False
    return as_few_as(lately.count("1"), len(lately), earlier.impacts / earlier.dissents) < CHANCE
