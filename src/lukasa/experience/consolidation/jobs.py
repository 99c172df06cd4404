"""Consolidation as background work: after a task, when idle, at a phase boundary.

memory.jobs.defer("experience.consolidate", key="soon")     # once, however often it is asked for
lukasa worker --jobs lukasa.consolidation.chores
"""

from __future__ import annotations

from typing import Any

from lukasa.jobs import job


@job("experience.consolidate")
def consolidate(memory: Any, skills: bool = False) -> None:
    """One run over what is new; nothing, if there is nothing new."""
    memory.consolidate(skills=skills)


@job("experience.prune")
def prune(memory: Any) -> None:
    """Summarises and archives old episodes."""
    memory.episodes.prune()
