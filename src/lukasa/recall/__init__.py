"""Recall: question → candidates → signals → ranking, without a language model, and every hit says why it is there.

``understand`` reads a question; the caller fetches candidates from the text index and the vector index; ``rank`` puts
them in order. All of it is pure: the same question, candidates and corpus give the same hits.
"""

from lukasa.recall.passages import head
from lukasa.recall.ranking import WEIGHTS, Hit, Signal, rank
from lukasa.recall.signals import Candidate, Corpus
from lukasa.recall.understanding import Kind, Question, understand

__all__ = [
    "WEIGHTS",
    "Candidate",
    "Corpus",
    "Hit",
    "Kind",
    "Question",
    "Signal",
    "head",
    "rank",
    "understand",
]
