"""Consolidation: knowledge derived from episodes."""

from lukasa.experience.consolidation.consolidation import (
    Consolidation,
    ConsolidationProposal,
    ConsolidationRejection,
    ConsolidationResult,
)

__all__ = ["Consolidation", "ConsolidationProposal", "ConsolidationRejection", "ConsolidationResult"]
