"""Trust: dissents, overrides, and how far each agent is trusted because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.core.body_shape import DAY, TIME, BodyShape, FixedList, MapOf, NumberBetween
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec

if TYPE_CHECKING:
    from lukasa.trust.agent_memory import AgentMemory
    from lukasa.trust.records import TrustLookup
    from lukasa.trust.rules import TrustSettings
    from lukasa.trust.score import INITIAL_TRUST, TrustScore, TrustSums
    from lukasa.trust.trust import Trust

__all__ = ["INITIAL_TRUST", "KINDS", "AgentMemory", "Trust", "TrustLookup", "TrustScore", "TrustSettings", "TrustSums"]

_DEPTH = NumberBetween(-1_000, 1_000)
_EVENT = {
    **dict.fromkeys(("round_id", "timestamp", "dissent_text", "agent_output", "human_decision"), str),
    **dict.fromkeys(("auto_check_deadline", "reverted_by"), (str, None)),
    "context": dict, "rubric_citations": [str], "impact": (bool, None), "depth_score": (_DEPTH, None), "regret": bool,
}  # fmt: skip
_SUMS = [NumberBetween(-(2**62), 2**62, is_whole=True), 10]
_STANDING = (
    "agent day today window total rounds rounds_before trust probation_until probation_reason lately cited cited_lately "
    "credited light aside on received"
)
_SHAPES = {
    "advocate": BodyShape({"chosen": str, "round_id": str}),
    "controversy": BodyShape(
        {"what": str, "name": str, "overrides": int, "reverts": int, "agents": [str]},
        "what name overrides reverts agents",
    ),
    "dissent": BodyShape(
        {
            **dict.fromkeys(("agent", "of", "judged_by", "why"), str), "event": _EVENT, "novelty": float,
            "counted": (BodyShape({"impact": bool, "depth": _DEPTH}, "impact depth"), None),
            "vector": ({"model": str, "numbers": str}, None),
        }
    ),
    "override": BodyShape(
        {
            "agent": str, "by": str, "useful": bool, "criteria": [str], "reverted_at": (str, None),
            "artifact": (FixedList(str, str, str, int), None),
            "event": BodyShape(_EVENT, "regret"),
        },
        "agent by useful event artifact",
    ),
    "participation": BodyShape({"agent": str, "round_id": str}),
    "rubric": BodyShape({"criteria": MapOf(float), "by": str}, "criteria by"),
    "rubric_proposal": BodyShape(
        {
            **dict.fromkeys(("rubric", "criterion", "state", "by", "reason"), str), "rubric_version": int, "weight": float,
            "proposed": float, "decided_at": (TIME, None),
        },
        "rubric criterion state by decided_at",
    ),
    "trust_agent": BodyShape(
        {
            **dict.fromkeys(("agent_name", "model", "primary_role"), str),
            "imported": ({"long_term_stats": dict, "more": dict, "probation_until": (TIME, None)}, None),
        }
    ),
    "trust_change": BodyShape(
        {"agent": str, "event": BodyShape({"score": float}, "score"), "was": (float, None), "inputs": dict},
        "agent event inputs",
    ),
    "trust_days": BodyShape({"agent": str, "days": MapOf(_SUMS, DAY)}, "days"),
    "trust_person": BodyShape(
        {"person": str, "overrides": int, "reverted": int, "reverted_by": MapOf(int)}, "overrides reverted reverted_by"
    ),
    "trust_standing": BodyShape(
        {
            **dict.fromkeys(("agent", "probation_reason", "lately"), str),
            **dict.fromkeys(("rounds", "rounds_before", "credited", "light"), int),
            **dict.fromkeys(("today", "window", "total"), _SUMS), "received": [int, 2],
            "day": DAY, "trust": float, "probation_until": (TIME, None), "cited": MapOf(int), "cited_lately": [[str]],
            "aside": MapOf(int), "on": MapOf([int, 2]),
            "imported": (
                BodyShape(
                    {"at": TIME, "sums": MapOf(_SUMS, DAY), "total": _SUMS, "score": (float, None)},
                    "at sums total score",
                ),
                None,
            ),
        },
        _STANDING,
    ),
}  # fmt: skip
KINDS = {kind: KindSpec(body=shape, written_by="store") for kind, shape in _SHAPES.items()}
KINDS["dissent"] = KindSpec(body=_SHAPES["dissent"], written_by="service", agent_field="agent")
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
