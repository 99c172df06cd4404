"""Conversations: turns that are stored for good, and bounded views of them.

Turns are appended to the log and never changed. A loaded context is a view: the newest turns, a summary of the earlier
ones, facts, and a small state. ``ContextCompactor`` keeps the view within its limits without touching the transcript.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.core.body_shape import BodyShape, FixedList, MapOf
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec, RecordLimits

if TYPE_CHECKING:
    from lukasa.context.compaction import CompactionPlan, ContextCompactor, plan_compaction
    from lukasa.context.conversations import Conversations
    from lukasa.context.prompt import AssembledPrompt
    from lukasa.context.state import (
        CompactionReport,
        Context,
        ConversationInfo,
        ConversationSettings,
        ConversationSummary,
        Fact,
        Turn,
    )
    from lukasa.context.summary import summarise

__all__ = [
    "KINDS",
    "AssembledPrompt",
    "CompactionPlan",
    "CompactionReport",
    "Context",
    "ContextCompactor",
    "ConversationInfo",
    "ConversationSettings",
    "ConversationSummary",
    "Conversations",
    "Fact",
    "Turn",
    "plan_compaction",
    "summarise",
]

KINDS = {
    "turn": KindSpec(
        RecordLimits(record_bytes=32_000_000),  # a message is stored whole, however long
        body=BodyShape(
            {
                **dict.fromkeys(("role", "speaker", "tool_call_id", "counted_by", "unsaid"), str),
                "tokens": (int, None),
                "tool_calls": [dict],
                "extra": dict,
            }
        ),
    ),
    "context": KindSpec(
        falls_back=True,
        written_by="service",
        is_statement=False,
        body=BodyShape(
            {
                "active_tasks": [dict],
                **dict.fromkeys(("extra", "fork", "settings", "last_known_environment", "system_state"), dict),
                "tool_stats": {"by_tool": MapOf(int), "total_calls": int, "failures": int},
                "token_usage": MapOf(int),
            }
        ),
    ),
    "summary": KindSpec(
        falls_back=True,
        written_by="service",
        is_statement=False,
        body=BodyShape(
            {
                **dict.fromkeys(("text", "by", "why"), str),
                **dict.fromkeys(("tokens", "turns", "folded_tokens", "rounds", "sorted_position"), int),
                "lines": [FixedList(str, float, int)],
                "edge": [str],
            }
        ),
    ),
}
"""The kinds of record that conversations write."""

__getattr__ = lazy_attributes(
    __name__,
    dict.fromkeys(__all__, "lukasa.context.state")
    | dict.fromkeys(("CompactionPlan", "ContextCompactor", "plan_compaction"), "lukasa.context.compaction")
    | {
        "Conversations": "lukasa.context.conversations",
        "AssembledPrompt": "lukasa.context.prompt",
        "summarise": "lukasa.context.summary",
    },
)
