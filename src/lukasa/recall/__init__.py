"""Recall: question → candidates → signals → ranking, without a language model; every hit explains itself.

``parse_question`` reads a question; the caller fetches candidates from the text index and the vector index;
``rank_candidates`` orders them. The ranking is pure: equal input gives equal output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.core.body_shape import BodyShape
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec

if TYPE_CHECKING:
    from lukasa.recall.query import ParsedQuestion, QuestionKind, parse_question
    from lukasa.recall.ranking import WEIGHTS, RankedCandidate, RankingSignal, rank_candidates
    from lukasa.recall.recall import Recall, RecallHit, RecallResult, build_prompt_block
    from lukasa.recall.signals import CorpusStatistics, RecallCandidate, lead_passage

__all__ = [
    "KINDS",
    "WEIGHTS",
    "CorpusStatistics",
    "ParsedQuestion",
    "QuestionKind",
    "RankedCandidate",
    "RankingSignal",
    "Recall",
    "RecallCandidate",
    "RecallHit",
    "RecallResult",
    "Supersession",
    "build_prompt_block",
    "lead_passage",
    "parse_question",
    "rank_candidates",
]

KINDS = {
    "setting": KindSpec(
        body=BodyShape({"embedder": str, "model": str, "length": int}, "embedder model"), written_by="store"
    )
}
"""The kind of record that recall writes: which embedder made the vectors of the store."""

__getattr__ = lazy_attributes(
    __name__,
    {
        "lead_passage": "lukasa.recall.signals",
        "Supersession": "lukasa.recall.recall",
        **dict.fromkeys(("ParsedQuestion", "QuestionKind", "parse_question"), "lukasa.recall.query"),
        **dict.fromkeys(("RankedCandidate", "RankingSignal", "WEIGHTS", "rank_candidates"), "lukasa.recall.ranking"),
        **dict.fromkeys(("Recall", "RecallHit", "RecallResult", "build_prompt_block"), "lukasa.recall.recall"),
        **dict.fromkeys(("CorpusStatistics", "RecallCandidate"), "lukasa.recall.signals"),
    },
)
