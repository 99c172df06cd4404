"""Experience: episodes, the knowledge derived from them, skills, ledgers and handoffs."""

from typing import TYPE_CHECKING, Any

from lukasa.core.body_shape import TIME, BodyShape, FixedList, MapOf, NumberBetween, OneOf
from lukasa.core.choices import LESSON_SUBJECTS
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec

if TYPE_CHECKING:
    from lukasa.experience.briefing import Briefing
    from lukasa.experience.consolidation import Consolidation, ConsolidationResult
    from lukasa.experience.continuity import Continuity
    from lukasa.experience.episodes import Episode, Episodes
    from lukasa.experience.handoffs import Handoff, Handoffs
    from lukasa.experience.knowledge import Knowledge
    from lukasa.experience.ledgers import Ledger, Ledgers
    from lukasa.experience.lessons import Lesson, LessonDraft, Lessons
    from lukasa.experience.metrics import TaskMetrics
    from lukasa.experience.skills import Skill, Skills

__all__ = [
    "KINDS", "Briefing", "Consolidation", "ConsolidationResult", "Continuity", "Episode", "Episodes", "Handoff",
    "Handoffs", "Knowledge", "Ledger", "Ledgers", "Lesson", "LessonDraft", "Lessons", "Skill", "Skills", "TaskMetrics",
]  # fmt: skip

_KNOWLEDGE = {
    "confidence": NumberBetween(0, 1), "usage_count": int, "voices": int, "last_used": (str, None), "category": (str, None),
    "conditions": [str], "source_episodes": [str], "sources": [str], "evidence": dict,
    **dict.fromkeys(("correct_approach", "incorrect_approach", "why", "prevention", "source"), (str, None)),
}  # fmt: skip
_COUNTED = frozenset(
    {"confidence", "usage_count", "voices", "last_used", "source_episodes", "sources", "evidence", "run"}
)
_EPISODE = {
    "context": {"goal": str}, "timestamp": TIME, "duration_seconds": float, "outcome": str, "action_log": [dict],
    "errors_encountered": [dict], "artifacts_produced": list, "action_sequence": [str], "summary": str,
    **dict.fromkeys(("task_id", "agent", "git_commit"), (str, None)),
}  # fmt: skip
_SOLVED = "type message resolution goal"
_SHAPES = {
    "antipattern": BodyShape({**_KNOWLEDGE, "what_fails": str}),
    "cluster": BodyShape(
        {
            **{name: [str] for name in ("actions", "errors", "members", "terms")}, "goal": str, "pattern": (str, None),
            "solved": [
                BodyShape(
                    {**dict.fromkeys(_SOLVED.split(), str), "vectors": dict}, f"{_SOLVED} vectors"
                )
            ],
        },
        "goal terms actions errors members",
    ),
    "consolidation": BodyShape({"last": [FixedList(str, int)]}, "last"),
    "episode": BodyShape(_EPISODE, "context timestamp outcome errors_encountered"),
    "fact": BodyShape({**_KNOWLEDGE, "fact": str, "slot": str, "rule": str, "turn": str}),
    "handoff": BodyShape(
        {
            **dict.fromkeys(("from_agent", "to_agent"), str), "timestamp": TIME, "context": dict,
            "status": OneOf(("unread", "read", "accepted", "completed")),
        },
        "from_agent to_agent timestamp context",
    ),
    "injection": BodyShape(
        {**dict.fromkeys(("event", "session", "prompt"), str), "notes": [FixedList(str, str, str)], "tokens": int, "held_out": bool, "used": [str]},
        "event session notes tokens",
    ),
    "learning": BodyShape(dict.fromkeys(("date", "error", "message", "learning"), str) | {"episodes": [str]}),
    "ledger": BodyShape(
        {"last_checkpoint": TIME, "tasks_completed": int, "current_task": (str, None), "state": dict, "context": dict},
        "last_checkpoint tasks_completed",
    ),
    "lesson": BodyShape(
        {**dict.fromkeys(("command", "failure"), str), "about": OneOf(LESSON_SUBJECTS), "sessions": [str], "files": [str]}, "about"
    ),
    "pattern": BodyShape({**_KNOWLEDGE, "pattern": str}),
    "preference": BodyShape({"episode": str, "score": NumberBetween(-1, 1), "note": str}, "score"),
    "skill": BodyShape(
        {
            "title": str, "markdown": str, **{name: [str] for name in ("prerequisites", "steps", "exit_criteria")},
            "common_errors": [dict], "successes": int, "failures": int,
        },
        "title markdown",
    ),
    "skill_sync": BodyShape({"synced": MapOf(str)}),
    "step": BodyShape({"t": int, "encountered": dict}),
}  # fmt: skip
_RULES: dict[str, dict[str, Any]] = {
    **{
        key: {"written_by": "store", "is_statement": False}
        for key in ("cluster", "consolidation", "running", "skill_sync")
    },
    **{key: {"open_fields": _COUNTED} for key in ("pattern", "antipattern", "fact")},
    "episode": {"agent_field": "agent"},
    "handoff": {
        "agent_field": "from_agent",
        "open_fields": frozenset({"status", "read_at", "accepted_at", "accepted_by", "completed_at", "result"}),
    },
    "injection": {"is_statement": False},
    "ledger": {"agent_field": "id"},
    "lesson": {"open_fields": frozenset({"sessions", "files"})},
    "skill": {"open_fields": frozenset({"successes", "failures"})},
}
KINDS = {kind: KindSpec(body=_SHAPES.get(kind), **_RULES.get(kind, {})) for kind in ("running", *_SHAPES)}
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
        **dict.fromkeys(("Lesson", "LessonDraft", "Lessons"), "lukasa.experience.lessons"),
        **dict.fromkeys(("Skill", "Skills"), "lukasa.experience.skills"),
        "TaskMetrics": "lukasa.experience.metrics",
    },
)
