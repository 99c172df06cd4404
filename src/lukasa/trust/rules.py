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

from lukasa.trust.score import MAX_DEPTH, binomial_cdf, citation_bonus, length_score

UNJUDGED, OWN_OUTPUT, ECHO, FAVOUR = "unjudged", "own_output", "echo", "favour"
SHALLOW, UNHEEDED = "shallow", "unheeded"
MIN_SUBSTANCE = 0.2
ECHO_SIMILARITY = 0.95
"""Dissents at least this near in meaning are the same objection."""
STALE_AFTER = 10
RECENT_DISSENTS = 10
"""A fall is looked for among so many of the latest dissents."""
MAX_FALL_PROBABILITY = 0.001
"""A run of failures less likely than this is no accident."""
_MIN_PAIR_DISSENTS = 5
_RARE_PROBABILITY, _UNLIKELY_PROBABILITY = 0.01, 0.1


class ImpactCounts(NamedTuple):
    """How many dissents there were between two sides, and how many had an impact."""

    dissents: int = 0
    impacts: int = 0

    def plus(self, *, impact: bool) -> ImpactCounts:
        return ImpactCounts(self.dissents + 1, self.impacts + int(impact))

    def minus(self, other: ImpactCounts) -> ImpactCounts:
        return ImpactCounts(self.dissents - other.dissents, self.impacts - other.impacts)


class DissentInput(NamedTuple):
    """A dissent as the rules see it."""

    text: str
    citations: tuple[str, ...]
    novelty: float
    impact: bool
    own_output: bool = False
    is_echo: bool = False
    is_favoured: bool = False


class DissentHistory(NamedTuple):
    """What of an agent's past the rules look at."""

    recent_citations: Sequence[Sequence[str]] = ()
    substantial_impacts: int = 0
    """Impacts of substance."""
    shallow_impacts: int = 0
    """Shallow impacts that were credited."""
    recent_impacts: str = ""
    """Which of the latest dissents had an impact: ``1`` or ``0`` each."""


class DissentVerdict(NamedTuple):
    """What a dissent counts as. Without ``counts`` it is set aside; ``why`` names the rule that spoke."""

    counts: bool
    impact: bool = False
    depth: float = 0.0
    why: str = ""


def judge_dissent(dissent: DissentInput, history: DissentHistory) -> DissentVerdict:
    """What a judged dissent counts as."""
    aside = {
        OWN_OUTPUT: dissent.own_output,
        ECHO: dissent.impact and dissent.is_echo,
        FAVOUR: dissent.impact and dissent.is_favoured,
    }
    if why := next((rule for rule, applies in aside.items() if applies), ""):
        return DissentVerdict(counts=False, why=why)
    fresh = fresh_citations(dissent.citations, history.recent_citations)
    if not dissent.impact and is_unheeded(history.recent_impacts):
        return DissentVerdict(counts=True, why=UNHEEDED)
    depth = min(length_score(dissent.text) + citation_bonus(fresh) + dissent.novelty, MAX_DEPTH)
    credited = dissent.impact and not (
        is_shallow(dissent.text, fresh) and history.shallow_impacts >= history.substantial_impacts
    )
    return DissentVerdict(
        counts=True, impact=credited, depth=depth, why=SHALLOW if credited is not dissent.impact else ""
    )


def is_shallow(text: str, citations: Sequence[str]) -> bool:
    """Whether a dissent has too little substance to be credited by itself."""
    different = len({word.casefold() for word in text.split()})
    return min(different / 50, 1.0) + citation_bonus(citations) < MIN_SUBSTANCE


def is_unheeded(recent_impacts: str) -> bool:
    """Whether the latest dissents were nearly all in vain."""
    return len(recent_impacts) >= RECENT_DISSENTS and recent_impacts.count("1") <= 1


def fresh_citations(citations: Sequence[str], recent_citations: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The different criteria cited, without those that stood in each of the last ten dissents."""
    last = recent_citations[-STALE_AFTER:]
    always = set.intersection(*map(set, last)) if len(last) == STALE_AFTER else set()
    return tuple(name for name in dict.fromkeys(citations) if name not in always)


def is_favour(pair: ImpactCounts, of_dissenter: ImpactCounts, of_target: ImpactCounts) -> bool:
    """Whether one gives in to the other far more often than chance explains.

    ``pair`` is between the two, the others are all dissents of the one and all on the output of the other. Where one
    side has too little to do with anybody else, the other side alone tells; where neither has, nothing can be told.
    """
    if pair.dissents < _MIN_PAIR_DISSENTS:
        return False
    one, other = (_impact_probability(pair, side.minus(pair)) for side in (of_dissenter, of_target))
    if one is None or other is None:
        return min(_probability_or_one(one), _probability_or_one(other)) < _RARE_PROBABILITY
    return one < _RARE_PROBABILITY and other < _UNLIKELY_PROBABILITY


def _impact_probability(pair: ImpactCounts, elsewhere: ImpactCounts) -> float | None:
    """How likely so many impacts are if the two dealt with each other as one of them deals with everybody else."""
    if elsewhere.dissents < _MIN_PAIR_DISSENTS:
        return None
    ratio = (elsewhere.impacts + 1) / (elsewhere.dissents + 2)
    return binomial_cdf(pair.dissents - pair.impacts, pair.dissents, 1 - ratio)


def _probability_or_one(probability: float | None) -> float:
    return 1.0 if probability is None else probability


def has_fallen(recent_impacts: str, earlier: ImpactCounts) -> bool:
    """Whether the latest dissents (``1`` for an impact, ``0`` for none) fail more often than chance explains."""
    if len(recent_impacts) < RECENT_DISSENTS or earlier.dissents < RECENT_DISSENTS:
        return False
    return (
        binomial_cdf(recent_impacts.count("1"), len(recent_impacts), earlier.impacts / earlier.dissents)
        < MAX_FALL_PROBABILITY
    )
