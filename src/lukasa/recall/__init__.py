"""Recall: question → candidates → signals → ranking, without a language model, and every hit says why it is there.

``understand`` reads a question; the caller fetches candidates from the text index and the vector index; ``rank`` puts
them in order. All of it is pure: the same question, candidates and corpus give the same hits.
"""

from lukasa.recall.passages import lead_passage
from lukasa.recall.query import ParsedQuestion, QuestionKind, parse_question
from lukasa.recall.ranking import WEIGHTS, RankedCandidate, RankingSignal, rank_candidates
from lukasa.recall.signals import CorpusStatistics, RecallCandidate

__all__ = [
    "WEIGHTS",
    "CorpusStatistics",
    "ParsedQuestion",
    "QuestionKind",
    "RankedCandidate",
    "RankingSignal",
    "RecallCandidate",
    "lead_passage",
    "parse_question",
    "rank_candidates",
]
