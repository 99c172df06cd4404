"""Test tools for those who build on Lukasa: the exam every engine sits, a clock that obeys, ids that repeat.

``EngineContract`` needs pytest and the strategies need hypothesis; both come with ``pip install lukasa[testing]`` and
are loaded when they are first asked for.
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
    from lukasa.testing.strategies import BadDraft, bad_drafts, bodies, drafts, ids, texts

__all__ = [
    "MISBEHAVIOURS",
    "BadDraft",
    "CountingIds",
    "EngineContract",
    "FakeLLM",
    "FrozenClock",
    "bad_drafts",
    "bodies",
    "drafts",
    "ids",
    "seeded_ids",
    "texts",
]

_CONTRACT = "lukasa.testing.contract"
_STRATEGIES = "lukasa.testing.strategies"
_LAZY_MODULES = {
    "EngineContract": _CONTRACT,
    **dict.fromkeys(("MISBEHAVIOURS", "FakeLLM"), "lukasa.testing.fake_llm"),
    **dict.fromkeys(("BadDraft", "bad_drafts", "bodies", "drafts", "ids", "texts"), _STRATEGIES),
}


def __getattr__(name: str) -> Any:
    room = _LAZY_MODULES.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if room == _CONTRACT and room not in sys.modules:
        require_package("pytest").register_assert_rewrite(_CONTRACT)  # so that a failed exam tells what it saw
    return getattr(importlib.import_module(room), name)
