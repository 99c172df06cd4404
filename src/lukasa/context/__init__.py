"""Sessions: conversations that never overflow and never forget.

Turns are appended to the log and stay there. What a context shows is a view: the newest turns, a summary of those
before, facts, and a small state. ``ContextCompactor`` keeps the view within its limits; the transcript is not touched.
"""

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
