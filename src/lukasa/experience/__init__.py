"""Experience: episodes, the knowledge derived from them, skills, ledgers and handoffs."""

from typing import TYPE_CHECKING

from lukasa.gate import KindSpec
from lukasa.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from lukasa.experience.briefing import Briefing
    from lukasa.experience.consolidation import Consolidation, ConsolidationResult
    from lukasa.experience.continuity import Continuity
    from lukasa.experience.episodes import Episode, Episodes
    from lukasa.experience.handoffs import Handoff, Handoffs
    from lukasa.experience.knowledge import Knowledge
    from lukasa.experience.ledgers import Ledger, Ledgers
    from lukasa.experience.metrics import TaskMetrics
    from lukasa.experience.skills import Skill, Skills

__all__ = [
    "KINDS", "Briefing", "Consolidation", "ConsolidationResult", "Continuity", "Episode", "Episodes", "Handoff",
    "Handoffs", "Knowledge", "Ledger", "Ledgers", "Skill", "Skills", "TaskMetrics",
]  # fmt: skip

KINDS = dict.fromkeys(
    (
        "antipattern", "cluster", "consolidation", "episode", "fact", "handoff", "learning", "ledger", "pattern",
        "preference", "running", "skill", "skill_sync", "step",
    ),
    KindSpec(),
)  # fmt: skip
"""The kinds of record that experience writes."""

__getattr__ = lazy_attributes(
    __name__,
    {
        "Briefing": "lukasa.experience.briefing",
        **dict.fromkeys(("Consolidation", "ConsolidationResult"), "lukasa.experience.consolidation"),
        "Continuity": "lukasa.experience.continuity",
        **dict.fromkeys(("Episode", "Episodes"), "lukasa.experience.episodes"),
        **dict.fromkeys(("Handoff", "Handoffs"), "lukasa.experience.handoffs"),
        "Knowledge": "lukasa.experience.knowledge",
        **dict.fromkeys(("Ledger", "Ledgers"), "lukasa.experience.ledgers"),
        **dict.fromkeys(("Skill", "Skills"), "lukasa.experience.skills"),
        "TaskMetrics": "lukasa.experience.metrics",
    },
)
