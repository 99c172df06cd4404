"""Consolidation: from what happened to what is known."""

from lukasa.experience.consolidation.consolidation import (
    Consolidation,
    ConsolidationProposal,
    ConsolidationRejection,
    ConsolidationResult,
)

__all__ = ["Consolidation", "ConsolidationProposal", "ConsolidationRejection", "ConsolidationResult"]
