"""A second look at the candidates of a summary: the words that its best hits share ask again.

A request for a summary names a topic in a word or two, and most of what was said about the topic uses other words. Words that
several of the best hits have and few other candidates belong to the topic. Nothing more is read from the store.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from lukasa.recall.query import asks_for_summary
from lukasa.recall.signals import RankingEvidence, TermMatches, Values, lead_passage
from lukasa.text.terms import extract_keywords, terms_from_words

_BEST_HITS, _MIN_SHARING, _ADDED_TERMS = 20, 3, 10
_SEARCHED = 150  # the number of best candidates that the words are searched in


def topic(evidence: RankingEvidence, scores: Values) -> Values:
    """Score how many words of the topic each lead passage has, when the question asks for a summary.

    Words of the topic are those that some of the best hits share; the rarer among the candidates, the more they count.
    """
    if not asks_for_summary(evidence.question.text) or len(scores) <= _BEST_HITS:
        return evidence.zeros
    best = np.argsort(-scores, kind="stable")[:_SEARCHED].tolist()
    leads = [lead_passage(evidence.candidates[index].text) for index in best]
    weights: Counter[str] = Counter()
    sharing: Counter[str] = Counter()
    known = {*evidence.question.terms, *terms_from_words({candidate.name for candidate in evidence.candidates})}
    for index, lead in zip(best[:_BEST_HITS], leads, strict=False):
        for term in set(terms_from_words(extract_keywords(lead))) - known:
            weights[term] += scores[index]
            sharing[term] += 1
    terms = sorted(term for term, count in sharing.items() if count >= _MIN_SHARING)
    matches = TermMatches.from_texts(leads, (), terms)
    presence = matches.presence_in_text[[matches.row_by_text[lead] for lead in leads]]
    worth = np.array([weights[term] for term in terms]) * np.log(1 + len(leads) / presence.sum(axis=0))
    worth[np.argsort(-worth, kind="stable")[_ADDED_TERMS:]] = 0.0
    found: Values = presence @ worth
    values = evidence.zeros
    values[best] = found / (float(found.max(initial=0.0)) or 1.0)
    return values
