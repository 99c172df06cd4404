"""Consolidation as a background job: after a task, when idle, at a phase boundary.

memory.jobs.defer("experience.consolidate", key="soon")     # one job, however often it is deferred
lukasa worker --jobs lukasa.experience.consolidation.jobs
"""

from __future__ import annotations

from typing import Any

from lukasa.jobs import job

TASK_NAME = "experience.consolidate"


PRUNE_NAME = "experience.prune"
_KEY = "upkeep"


def defer_upkeep(memory: Any) -> None:
    """Defer a consolidation and a pruning, each once however often this is called before they run."""
    for name in (TASK_NAME, PRUNE_NAME):
        memory.jobs.defer(name, key=_KEY)


@job(TASK_NAME)
def consolidate(memory: Any, skills: bool = False) -> dict[str, Any]:
    """Consolidate the new episodes, if there are any, and return the label of the run."""
    return {"label": memory.consolidate(skills=skills).label}


@job(PRUNE_NAME)
def prune(memory: Any) -> None:
    """Summarise and archive old episodes."""
    memory.episodes.prune()
