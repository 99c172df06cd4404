"""Consolidation: from what happened to what is known."""

from lukasa.consolidation.room import Consolidated, Consolidation, Held, Proposal

__all__ = ["Consolidated", "Consolidation", "Held", "Proposal"]
