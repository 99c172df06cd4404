"""The exam that every engine sits. An engine that passes it keeps the promise of ``lukasa.storage.engine``.

    from lukasa.testing import EngineContract

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def make_engine(self, tmp_path):
            ...                                  # a factory: make_engine(clock=None) -> Engine, fresh and empty,
                                                 # with near-duplicate keys of the kind "memory"

        def reopen(self, engine, clock=None): ...
        def alongside(self, engine, clock=None): ...
        def open_copy(self, target): ...
        def alter_line(self, engine, key): ...   # damage to be found by verify
        def lose_line(self, engine, key): ...
        def break_text_index(self, engine, key): ...

A promise that an engine cannot keep by its nature is overridden in the subclass, visibly, with the reason.
"""

from __future__ import annotations

from lukasa.testing.optional import require_package

require_package("pytest")

from lukasa.testing.contract.append import AppendTests, ExpectedVersionTests  # noqa: E402 - pytest must be there first
from lukasa.testing.contract.compact import CompactTests  # noqa: E402
from lukasa.testing.contract.concurrency import ConcurrencyTests  # noqa: E402
from lukasa.testing.contract.conditional_append import ConditionalAppendTests  # noqa: E402
from lukasa.testing.contract.erase import EraseTests  # noqa: E402
from lukasa.testing.contract.idempotency import IdempotencyTests  # noqa: E402
from lukasa.testing.contract.integrity import ReindexTests, VerifyTests  # noqa: E402
from lukasa.testing.contract.lifecycle import LifecycleTests  # noqa: E402
from lukasa.testing.contract.links import AdjacentTurnTests, LinkTests  # noqa: E402
from lukasa.testing.contract.quarantine import QuarantineTests  # noqa: E402
from lukasa.testing.contract.read import AsOfTests, MentionsFilterTests, NearDuplicateTests, QueryTests, RecordReadTests  # noqa: E402
from lukasa.testing.contract.replay import ReplayTests  # noqa: E402
from lukasa.testing.contract.scopes import ScopeTests  # noqa: E402
from lukasa.testing.contract.text_search import TextSearchTests  # noqa: E402
from lukasa.testing.contract.vectors import VectorSearchTests  # noqa: E402

__all__ = ["EngineContract"]


class EngineContract(
    AppendTests,
    ExpectedVersionTests,
    IdempotencyTests,
    ConditionalAppendTests,
    RecordReadTests,
    NearDuplicateTests,
    AsOfTests,
    QueryTests,
    MentionsFilterTests,
    ScopeTests,
    TextSearchTests,
    LinkTests,
    AdjacentTurnTests,
    VectorSearchTests,
    QuarantineTests,
    ReplayTests,
    VerifyTests,
    ReindexTests,
    CompactTests,
    EraseTests,
    LifecycleTests,
    ConcurrencyTests,
):
    """Every promise of an engine as a test; inherit, say how to open one, and run."""
