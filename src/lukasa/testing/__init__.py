"""Test tools: conformance suites for engines and networks, a frozen clock, repeatable ids, a fake language model, strategies.

The conformance suites need pytest and the strategies need hypothesis; both come with ``pip install lukasa[testing]`` and
are imported on first use.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from lukasa.testing.clock import CountingIds, FrozenClock, seeded_ids
from lukasa.testing.optional import require_package

if TYPE_CHECKING:
    from lukasa.testing.contract import EngineContract
    from lukasa.testing.fake_llm import MISBEHAVIOURS, FakeLLM
    from lukasa.testing.network_contract import NetworkContract
    from lukasa.testing.strategies import BadDraft, bad_drafts, bodies, drafts, ids, texts

__all__ = [
    "MISBEHAVIOURS",
    "BadDraft",
    "CountingIds",
    "EngineContract",
    "FakeLLM",
    "FrozenClock",
    "NetworkContract",
    "bad_drafts",
    "bodies",
    "drafts",
    "ids",
    "seeded_ids",
    "texts",
]

_CONTRACT = "lukasa.testing.contract"
_NETWORK_CONTRACT = "lukasa.testing.network_contract"
_STRATEGIES = "lukasa.testing.strategies"
_LAZY_MODULES = {
    "EngineContract": _CONTRACT,
    "NetworkContract": _NETWORK_CONTRACT,
    **dict.fromkeys(("MISBEHAVIOURS", "FakeLLM"), "lukasa.testing.fake_llm"),
    **dict.fromkeys(("BadDraft", "bad_drafts", "bodies", "drafts", "ids", "texts"), _STRATEGIES),
}


def __getattr__(name: str) -> Any:
    module_name = _LAZY_MODULES.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module_name in (_CONTRACT, _NETWORK_CONTRACT) and module_name not in sys.modules:
        require_package("pytest").register_assert_rewrite(module_name)  # so that failures show the compared values
    return getattr(importlib.import_module(module_name), name)
