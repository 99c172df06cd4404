"""Sessions: an agent's state that survives crashes and corruption.

The state has eight sections (``state``). A change is a small record of the log, durable before it is acknowledged
(``session``, ``patching``, ``book``); now and then the whole is saved as a checkpoint, in the log and in a file with a
checksum of its own (``files``). Two witnesses, either of which may be lost: ``recovery`` says what is brought back from
what is left. ``budget`` keeps the state small, ``room`` is what a memory hands out as ``memory.sessions``.
"""

from lukasa.sessions.budget import Budget
from lukasa.sessions.checkpoint_files import Retention
from lukasa.sessions.recovery import RecoveryReport
from lukasa.sessions.session import Session
from lukasa.sessions.sessions import Sessions
from lukasa.sessions.significance import NEVER, Significance

__all__ = ["NEVER", "Budget", "RecoveryReport", "Retention", "Session", "Sessions", "Significance"]
