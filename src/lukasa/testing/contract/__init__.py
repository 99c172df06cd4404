"""The conformance suite for engines: every guarantee of ``lukasa.storage.engine`` as a test.

    from lukasa.testing import EngineContract

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def make_engine(self, tmp_path):
            ...                                     # return make_engine(clock=None) -> Engine, new and empty,
                                                    # with near-duplicate keys of the kind "memory"

        def reopen(self, engine, clock=None): ...
        def open_second(self, engine, clock=None): ...
        def open_copy(self, target): ...
        def alter_entry(self, engine, key): ...     # damage that verify must find
        def break_entry(self, engine, key): ...
        def lose_entry(self, engine, key): ...
        def break_text_index(self, engine, key): ...

A subclass overrides the test of a guarantee that its engine cannot give, and states the reason.
"""

from __future__ import annotations

from lukasa.testing.optional import require_package

require_package("pytest")

from lukasa.testing.contract import append, maintenance, read, search, visibility  # noqa: E402 - pytest must be there first
from lukasa.testing.contract.replay import ReplayTests  # noqa: E402

__all__ = ["EngineContract"]


class EngineContract(
    append.AppendTests,
    append.ExpectedVersionTests,
    append.IdempotencyTests,
    append.ConditionalAppendTests,
    append.ConcurrencyTests,
    read.RecordReadTests,
    read.AsOfTests,
    read.QueryTests,
    read.MentionsFilterTests,
    read.LinkTests,
    read.DamagedEntryTests,
    search.TextSearchTests,
    search.VectorSearchTests,
    search.AdjacentTurnTests,
    search.NearDuplicateTests,
    visibility.ScopeTests,
    visibility.QuarantineTests,
    ReplayTests,
    maintenance.VerifyTests,
    maintenance.ReindexTests,
    maintenance.CompactTests,
    maintenance.EraseTests,
    maintenance.LifecycleTests,
):
    """All conformance tests. A subclass says how to open and damage the stores of its engine."""
