"""Trust: dissents, overrides, and how far each agent is trusted because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.gate import KindSpec
from lukasa.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from lukasa.trust.agent_memory import AgentMemory
    from lukasa.trust.records import TrustLookup
    from lukasa.trust.rules import TrustSettings
    from lukasa.trust.score import INITIAL_TRUST, TrustScore, TrustSums
    from lukasa.trust.trust import Trust

__all__ = ["INITIAL_TRUST", "KINDS", "AgentMemory", "Trust", "TrustLookup", "TrustScore", "TrustSettings", "TrustSums"]

KINDS = dict.fromkeys(
    (
        "advocate", "controversy", "dissent", "override", "participation", "rubric", "rubric_proposal", "trust_agent",
        "trust_change", "trust_days", "trust_person", "trust_standing",
    ),
    KindSpec(),
)  # fmt: skip
"""The kinds of record that trust writes."""

__getattr__ = lazy_attributes(
    __name__,
    {
        "AgentMemory": "lukasa.trust.agent_memory",
        "TrustLookup": "lukasa.trust.records",
        "TrustSettings": "lukasa.trust.rules",
        **dict.fromkeys(("INITIAL_TRUST", "TrustScore", "TrustSums"), "lukasa.trust.score"),
        "Trust": "lukasa.trust.trust",
    },
)
