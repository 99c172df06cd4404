"""Sessions: conversations that never overflow and never forget.

Turns are appended to the log and stay there. What a context shows is a view: the newest turns, a summary of those
before, facts, and a small state. ``ContextCompactor`` keeps the view within its limits; the transcript is not touched.
"""

from lukasa.context.assembling import Assembled
from lukasa.context.planning import ContextCompactor, Plan, plan
from lukasa.context.room import Contexts
from lukasa.context.state import Compaction, Context, Fact, Session, Settings, Summary, Turn
from lukasa.context.summary import summarise

__all__ = [
    "Assembled",
    "Compaction",
    "Context",
    "ContextCompactor",
    "Contexts",
    "Fact",
    "Plan",
    "Session",
    "Settings",
    "Summary",
    "Turn",
    "plan",
    "summarise",
]
