"""Trust: who has been right, who may object, and whose memory to believe.

``score.py`` is the document's arithmetic, ``counting.py`` says what counts, ``standing.py`` adds it up, ``books.py`` names
the records, ``room.py`` is what a memory hands out as ``memory.trust``.
"""

from lukasa.trust.agent_view import AgentMemory
from lukasa.trust.score import INITIAL_TRUST, TrustScore, TrustSums
from lukasa.trust.trust import Trust

__all__ = ["INITIAL_TRUST", "AgentMemory", "Trust", "TrustScore", "TrustSums"]
