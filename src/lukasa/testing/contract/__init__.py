"""The exam that every engine sits. An engine that passes it keeps the promise of ``lukasa.engine``.

    from lukasa.testing import EngineContract

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def make_engine(self, tmp_path):
            ...                                  # a factory: make_engine(clock=None) -> Engine, fresh and empty

        def reopen(self, engine, clock=None): ...
        def alongside(self, engine, clock=None): ...
        def open_copy(self, target): ...
        def alter_line(self, engine, key): ...   # damage to be found by verify
        def lose_line(self, engine, key): ...
        def break_text_index(self, engine, key): ...

A promise that an engine cannot keep by its nature is overridden in the subclass, visibly, with the reason.
"""

from __future__ import annotations

from lukasa.testing.extra import needs

needs("pytest")

from lukasa.testing.contract.appending import Appending, ExpectedVersions  # noqa: E402 - pytest must be there first
from lukasa.testing.contract.compacting import Compacting  # noqa: E402
from lukasa.testing.contract.concurrency import Concurrency  # noqa: E402
from lukasa.testing.contract.deciding import Decisions  # noqa: E402
from lukasa.testing.contract.erasing import Erasing  # noqa: E402
from lukasa.testing.contract.idempotency import IdempotencyKeys  # noqa: E402
from lukasa.testing.contract.keeping import Keeping  # noqa: E402
from lukasa.testing.contract.links import Links, Sessions  # noqa: E402
from lukasa.testing.contract.proof import Proof, Reindexing  # noqa: E402
from lukasa.testing.contract.quarantine import Quarantine  # noqa: E402
from lukasa.testing.contract.reading import AsOf, Bearing, Looking, Mentions, Queries  # noqa: E402
from lukasa.testing.contract.replay import Replay  # noqa: E402
from lukasa.testing.contract.vectors import Vectors  # noqa: E402
from lukasa.testing.contract.walls import Walls  # noqa: E402
from lukasa.testing.contract.words import Words  # noqa: E402

__all__ = ["EngineContract"]


class EngineContract(
    Appending,
    ExpectedVersions,
    IdempotencyKeys,
    Decisions,
    Looking,
    Bearing,
    AsOf,
    Queries,
    Mentions,
    Walls,
    Words,
    Links,
    Sessions,
    Vectors,
    Quarantine,
    Replay,
    Proof,
    Reindexing,
    Compacting,
    Erasing,
    Keeping,
    Concurrency,
):
    """Every promise of an engine as a test; inherit, say how to open one, and run."""
