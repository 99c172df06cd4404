"""The relevance of a hit: how likely a record is about the question, as a number that means the same in every store.

Nothing is compared with the best hit, so that the best of many useless records stays useless. These observations add up:

- nearness: where the cosine lies between those of texts that have nothing to do with each other and those of a question
  and its answer. Each embedder has other cosines; ``cosine_range`` says which.
- coverage: the share of the question's words, rare ones counting more, that a text holds. A word that occurs nowhere in
  the store counts like the rarest.
- the person: whether the question names a speaker and the text is by them or about them.
- the gap: whether what is said about that speaker is nearer to the question than what is said about the others. If only
  another person ever spoke about the matter, the question has no answer, however near the next best text is: above a limit
  a better match does not make up for the gap. "I" means the speaker, "you" the listener: of two people the other one,
  of more the one who is named.
- the time the question names, if the text is from it or about it.

The weights are round and chosen by hand on development sets of conversations: a relevance of 0.5 is where as many questions
have an answer in the store as have none, if half of all questions have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lukasa.recall.signals import RankingEvidence, Values, speaks_of_self

if TYPE_CHECKING:
    from lukasa.models.embedder import Embedder

DEFAULT_CUTOFF = 0.15
"""An answer without any hit of this relevance is empty, unless the caller says otherwise."""
USUAL_COSINES = (0.1, 0.6)
"""The cosines of unrelated texts, and of a question and its answer, by the default embedder."""
_NEARNESS, _COVERAGE, _PERSON, _TIME, _GAP = 2.0, 2.0, 1.5, 1.5, 10.0
_MIDDLE, _STEEPNESS = 2.0, 2.0
_GOOD_MATCH, _WHOLE_QUESTION = (
    4.0,
    1.0,
)  # beyond this much, and more for a text that covers the question, no match counts
_MAX_GAP = 0.3  # a single answer among many texts of others stays above the cut-off
_COMPARED_TEXTS = 5  # the best so many texts about the person named are compared with as many about the others
_PAIRS = (
    ("Where does the team meet on Mondays?", "Our Monday meeting takes place in the small room on the third floor."),
    ("Which colour did she choose for the kitchen?", "In the end I painted the kitchen walls light green."),
    ("Why did the deployment fail?", "The release broke because the database migration timed out."),
    ("What did he cook for his sister's birthday?", "I made a lasagna when my sister turned thirty."),
    ("How long does the train to the coast take?", "It is a three-hour ride by rail to the sea."),
    ("Who taught her to play the violin?", "My grandfather gave me my first violin lessons."),
)
"""Questions with their answers, with which the cosines of an unknown embedder are measured."""


def measure_cosines(embedder: Embedder) -> tuple[float, float]:
    """Return the mean cosine of unrelated texts and that of a question and its answer; at least 0.05 apart."""
    vectors = embedder.embed([text for pair in _PAIRS for text in pair])
    cosines = np.asarray(vectors[::2] @ vectors[1::2].T, dtype=np.float64)
    own = float(np.trace(cosines)) / len(_PAIRS)
    others = (float(cosines.sum()) - own * len(_PAIRS)) / (len(_PAIRS) * (len(_PAIRS) - 1))
    return others, max(own, others + 0.05)


def compute_relevance(evidence: RankingEvidence, cosine_range: tuple[float, float] | None) -> Values:
    """Return the relevance of each candidate; a text without a vector is judged by its words alone."""
    candidates, question = evidence.candidates, evidence.question
    covered = evidence.covered_shares
    nearness = covered
    if cosine_range is not None:
        unrelated, related = cosine_range
        scaled = np.clip((evidence.cosines - unrelated) / (related - unrelated), 0.0, 1.5)
        nearness = np.where(np.isnan(scaled), covered, scaled)
    total = _NEARNESS * nearness + _COVERAGE * covered
    if question.periods:
        total += _TIME * evidence.time_scores
    if question.names:
        is_name = np.array([float(term in question.names) for term in question.terms])
        is_by_person = np.array([candidate.name in question.subject for candidate in candidates])
        is_mentioned = evidence.presence @ is_name > 0
        concerns = (
            is_by_person.copy()
        )  # by the person named, or about them: it names them and does not speak of its author
        for index in np.flatnonzero(is_mentioned & ~is_by_person).tolist():
            concerns[index] = not speaks_of_self(candidates[index].text)
        total += _PERSON * concerns
        if concerns.any() and not concerns.all():
            is_dialogue = len({candidate.name for candidate in candidates}) == 2
            about_speaker = evidence.features.about_speaker
            share = np.where(  # how much each text is about the person named
                is_by_person, about_speaker, (1 - about_speaker) * (is_mentioned | is_dialogue)
            )
            strength = nearness + covered
            gap = _mean_of_best(strength * share) - _mean_of_best(strength * (1 - share))
            limit = _GOOD_MATCH + _WHOLE_QUESTION * np.clip(2 * covered - 1, 0.0, 1.0) ** 2
            excess = np.maximum(total - limit, 0.0)
            total -= excess * np.minimum(
                2 * share, 1.0
            )  # a text about others gains at least what it takes from the gap
            total += _GAP * np.clip(gap, -_MAX_GAP, _MAX_GAP)
    relevance: Values = 1.0 / (1.0 + np.exp(-_STEEPNESS * (total - _MIDDLE)))
    return relevance


def _mean_of_best(values: Values) -> float:
    return float(np.sort(values)[-_COMPARED_TEXTS:].sum()) / _COMPARED_TEXTS
