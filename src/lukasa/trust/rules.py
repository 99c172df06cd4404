"""Rules against raising trust cheaply: they choose the inputs of the adjusted score and leave the formula alone.

    own_output   an objection to the agent's own output: excluded
    echo         the same objection as another agent's in the same round, whose impact was credited: excluded
    favour       an impact on an agent that gives in to this one far more often than either does with others: excluded
    shallow      fewer than ten different words and no fresh citation: it counts, but its impact is credited only while
                 the agent has more credited impacts of substance than of shallow dissents
    unheeded     at most one of the last ten dissents changed anything: a further one without impact counts with no
                 depth, because length and new words alone are cheap
    stale        a criterion cited in each of the last ten dissents, or twice in one, adds nothing to the depth

The document's score counts every judged dissent as it is. An excluded dissent changes no sum of the adjusted score. A
dissent that is not judged yet counts in neither. ``TrustSettings`` turns each rule on or off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lukasa.trust.score import CountedDissent, binomial_cdf, citation_bonus, compute_depth

UNJUDGED, OWN_OUTPUT, ECHO, FAVOUR = "unjudged", "own_output", "echo", "favour"
SHALLOW, UNHEEDED = "shallow", "unheeded"
MIN_SUBSTANCE = 0.2
ECHO_SIMILARITY = 0.95
"""Dissents whose vectors have at least this cosine are the same objection."""
STALE_AFTER = 10
RECENT_DISSENTS = 10
"""The number of latest dissents in which ``unheeded`` and a fall are looked for."""
MAX_FALL_PROBABILITY = 0.001
"""A run of failures that is less likely than this is a fall."""
_MIN_PAIR_DISSENTS = 5
_RARE_PROBABILITY, _UNLIKELY_PROBABILITY = 0.01, 0.1


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """Switches of the rules, all on by default. A switch decides about dissents that are judged while it is set."""

    own_output: bool = True
    """Exclude an objection to the agent's own output. Off: it counts."""
    echo: bool = True
    """Exclude a dissent that another agent was already credited for in the same round. Off: it counts."""
    favour: bool = True
    """Exclude impacts on an agent that gives in to this one suspiciously often. Off: they count."""
    shallow: bool = True
    """Credit impacts of shallow dissents only one for one with impacts of substance. Off: credit every impact."""
    unheeded: bool = True
    """Give no depth for a dissent without impact after ten with at most one impact. Off: give the full depth."""
    stale: bool = True
    """Give no depth for criteria that are cited every time or twice. Off: give it for every citation."""
    fall: bool = True
    """Put an agent on probation whose dissents suddenly fail. Off: only a person puts an agent on probation."""


DEFAULT_SETTINGS = TrustSettings()


class ImpactCounts(NamedTuple):
    """The number of dissents between two sides, and how many of them had an impact."""

    dissents: int = 0
    impacts: int = 0

    def plus(self, *, impact: bool) -> ImpactCounts:
        return ImpactCounts(self.dissents + 1, self.impacts + int(impact))

    def minus(self, other: ImpactCounts) -> ImpactCounts:
        return ImpactCounts(self.dissents - other.dissents, self.impacts - other.impacts)


class DissentInput(NamedTuple):
    """A judged dissent as the rules see it."""

    text: str
    citations: tuple[str, ...]
    novelty: float
    """What the depth has beyond length and citations; below 0 where an imported file gives less than those."""
    impact: bool
    own_output: bool = False
    is_echo: bool = False
    is_favoured: bool = False


class DissentHistory(NamedTuple):
    """The part of an agent's past that the rules look at."""

    recent_citations: Sequence[Sequence[str]] = ()
    substantial_impacts: int = 0
    """Credited impacts of dissents that were not shallow."""
    shallow_impacts: int = 0
    """Credited impacts of shallow dissents."""
    recent_impacts: str = ""
    """The outcomes of the latest counted dissents, oldest first: ``1`` for an impact, ``0`` for none."""


class DissentVerdict(NamedTuple):
    """The inputs that a dissent adds to the adjusted score; ``counted`` is None when it is excluded."""

    counted: CountedDissent | None
    why: str = ""
    """The rule that changed something; empty when none did."""
    is_shallow: bool = False


def judge_dissent(
    dissent: DissentInput, history: DissentHistory, settings: TrustSettings = DEFAULT_SETTINGS
) -> DissentVerdict:
    """Decide what a judged dissent counts as in the adjusted score."""
    excluded = {
        OWN_OUTPUT: settings.own_output and dissent.own_output,
        ECHO: settings.echo and dissent.impact and dissent.is_echo,
        FAVOUR: settings.favour and dissent.impact and dissent.is_favoured,
    }
    if rule := next((rule for rule, applies in excluded.items() if applies), ""):
        return DissentVerdict(None, rule)
    recent = history.recent_impacts
    was_unheeded = len(recent) >= RECENT_DISSENTS and recent.count("1") <= 1
    if settings.unheeded and was_unheeded and not dissent.impact:
        return DissentVerdict(CountedDissent(impact=False, depth=0.0), UNHEEDED)
    citations: Sequence[str] = dissent.citations
    if settings.stale:
        citations = fresh_citations(citations, history.recent_citations)
    shallow = is_shallow(dissent.text, citations)
    has_balance = history.substantial_impacts > history.shallow_impacts
    credited = dissent.impact and (has_balance or not (settings.shallow and shallow))
    depth = round(max(compute_depth(dissent.text, citations, dissent.novelty), 0.0), 6)
    why = SHALLOW if credited is not dissent.impact else ""
    return DissentVerdict(CountedDissent(credited, depth), why, shallow)


def is_shallow(text: str, citations: Sequence[str]) -> bool:
    """Return whether a dissent has too little substance to be credited on its own."""
    different_words = len({word.casefold() for word in text.split()})
    return min(different_words / 50, 1.0) + citation_bonus(citations) < MIN_SUBSTANCE


def fresh_citations(citations: Sequence[str], recent_citations: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the different criteria cited, without those that occur in each of the last ten dissents."""
    last = recent_citations[-STALE_AFTER:]
    stale = set.intersection(*map(set, last)) if len(last) == STALE_AFTER else set()
    return tuple(name for name in dict.fromkeys(citations) if name not in stale)


def is_favour(pair: ImpactCounts, of_dissenter: ImpactCounts, of_target: ImpactCounts) -> bool:
    """Return whether the target gives in to the dissenter far more often than chance explains.

    ``pair`` counts the dissents between the two, ``of_dissenter`` all dissents of the one and ``of_target`` all on the
    output of the other. A side with too few dealings with others is ignored; with both ignored, nothing is a favour.
    """
    if pair.dissents < _MIN_PAIR_DISSENTS:
        return False
    probabilities = []  # of so many impacts if the two dealt with each other as one of them deals with the others
    for elsewhere in (of_dissenter.minus(pair), of_target.minus(pair)):
        if elsewhere.dissents >= _MIN_PAIR_DISSENTS:
            ratio = (elsewhere.impacts + 1) / (elsewhere.dissents + 2)
            probabilities.append(binomial_cdf(pair.dissents - pair.impacts, pair.dissents, 1 - ratio))
    if len(probabilities) < 2:
        return any(probability < _RARE_PROBABILITY for probability in probabilities)
    return probabilities[0] < _RARE_PROBABILITY and probabilities[1] < _UNLIKELY_PROBABILITY


def has_fallen(recent_impacts: str, earlier: ImpactCounts) -> bool:
    """Return whether the latest dissents fail more often than chance explains, measured by the earlier ones."""
    if len(recent_impacts) < RECENT_DISSENTS or earlier.dissents < RECENT_DISSENTS:
        return False
    earlier_ratio = earlier.impacts / earlier.dissents
    return binomial_cdf(recent_impacts.count("1"), len(recent_impacts), earlier_ratio) < MAX_FALL_PROBABILITY
