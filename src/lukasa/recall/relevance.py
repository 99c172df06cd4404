"""The relevance of a hit: how likely a record is about the question, as a number that means the same in every store.

``lukasa.recall.ranking`` computes it. Nothing is compared with the best hit, so that the best of many useless records stays
useless. These observations add up:

- nearness: where the cosine lies between those of texts that have nothing to do with each other and those of a question
  and its answer. Each embedder has other cosines; ``cosine_range`` says which.
- coverage: the share of the question's words, rare ones counting more, that a text holds. A word that occurs nowhere in
  the store counts like the rarest.
- the person: whether the question names a speaker and the text is by them or about them.
- the gap: whether what is said about that speaker is nearer to the question than what is said about the others. If only
  another person ever spoke about the matter, the question has no answer, however near the next best text is: above a
  limit a better match does not make up for the gap. "I" means the speaker, "you" the listener: of two people the other
  one, of more the one who is named.
- the time the question names, if the text is from it or about it.

The weights are round and chosen by hand on development sets of conversations: a relevance of 0.5 is where as many
questions have an answer in the store as have none, if half of all questions have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lukasa.models.embedder import Embedder

DEFAULT_CUTOFF = 0.15
"""An answer without any hit of this relevance is empty, unless the caller says otherwise."""
USUAL_COSINES = (0.1, 0.6)
"""The cosines of unrelated texts, and of a question and its answer, by the default embedder."""
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
