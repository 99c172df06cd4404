"""Consolidation and pruning as background jobs: after a task, when idle, at a phase boundary.

memory.jobs.defer("experience.consolidate", key="soon")     # one job, however often it is deferred
"""

from __future__ import annotations

from typing import Any

from lukasa.core.record import Record
from lukasa.experience.consolidation.consolidation import CURSOR_KIND
from lukasa.experience.episodes import EPISODE, FULL, Episode
from lukasa.jobs import job
from lukasa.journal import Journal
from lukasa.storage.engine import Query

TASK_NAME = "experience.consolidate"
PRUNE_NAME = "experience.prune"
_MAX_RECENT = 50


@job(TASK_NAME)
def consolidate(memory: Any, skills: bool = False) -> dict[str, Any]:
    """Consolidate the new episodes, if there are any, and return the label of the run."""
    return {"label": memory.consolidate(skills=skills).label}


@job(PRUNE_NAME)
def prune(memory: Any) -> None:
    """Summarise and archive old episodes."""
    memory.episodes.prune()


def find_new_episode(journal: Journal, scope: str | None = None) -> Record | None:
    """Return the newest episode that ended since the last consolidation of its scope, or None. Only the newest few are read.

    Undoing a run does not make its episodes new, so that nothing repeats by itself what a person took back.
    """
    scopes = () if scope is None else (scope,)
    consolidated: dict[str, int] = {}
    for record in journal.read(Query(kinds=(EPISODE,), scopes=scopes, newest_first=True, limit=_MAX_RECENT)):
        episode = Episode(record)
        if episode.running or episode.detail != FULL:
            continue
        if record.scope not in consolidated:
            cursors = Query(
                kinds=(CURSOR_KIND,), scopes=(record.scope,), every_version=True, newest_first=True, limit=1
            )
            consolidated[record.scope] = max((cursor.seq for cursor in journal.read(cursors)), default=0)
        if record.seq > consolidated[record.scope]:
            return record
    return None
