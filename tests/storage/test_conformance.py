"""The conformance suite itself: it imports only what it needs, and it fails for engines that break a guarantee."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import lukasa.testing
from lukasa.core.scope import FULL_REACH
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing import CountingIds, EngineContract, FrozenClock, seeded_ids
from lukasa.testing.clock import NOON


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


class TestImports:
    def test_the_tools_load_neither_pytest_nor_hypothesis_until_they_are_needed(self):
        script = "import sys, lukasa.testing; lukasa.testing.FrozenClock(); print({'pytest', 'hypothesis'} & set(sys.modules))"
        assert run(script).stdout.strip() == "set()"

    @pytest.mark.parametrize(
        ("package", "wanted"),
        [
            ("pytest", "from lukasa.testing import EngineContract"),
            ("pytest", "import lukasa.testing.contract"),
            ("hypothesis", "from lukasa.testing import drafts"),
            ("hypothesis", "import lukasa.testing.strategies"),
        ],
    )
    def test_a_missing_package_is_reported_with_the_command_that_installs_it(self, package, wanted):
        result = run(f"import sys; sys.modules[{package!r}] = None; {wanted}")
        assert result.stderr.splitlines()[-1] == (
            f"lukasa.errors.MissingExtra: This part of lukasa.testing needs {package}. pip install lukasa[testing]"
        )

    def test_every_public_name_can_be_imported(self):
        for name in lukasa.testing.__all__:
            assert getattr(lukasa.testing, name) is not None
        with pytest.raises(AttributeError):
            _ = lukasa.testing.unknown_name

    def test_a_project_with_strict_markers_can_run_the_conformance_suite(self, tmp_path):
        (tmp_path / "test_mine.py").write_text(
            "import pytest\nfrom lukasa.testing import EngineContract\nfrom lukasa.storage.sqlite import SqliteEngine\n\n"
            "class TestMine(EngineContract):\n    @pytest.fixture\n    def make_engine(self):\n"
            "        return lambda clock=None: SqliteEngine(None, clock=clock)\n"
        )
        options = [
            "-q",
            "--strict-markers",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            "-k",
            "versions_count_up or reopen",
        ]
        command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert "NotImplementedError" in result.stdout, "what was not filled in fails loudly"
        assert "1 passed" in result.stdout


class TestClockAndIds:
    def test_the_frozen_clock_changes_only_when_it_is_moved(self):
        clock = FrozenClock()
        assert clock.now() == clock.now() == NOON
        assert (clock.advance(1.5) - NOON).total_seconds() == 1.5
        clock.advance(-2)
        assert (clock.now() - NOON).total_seconds() == -0.5
        clock.set(NOON.replace(tzinfo=None))
        assert clock.now() == NOON

    def test_ids_repeat_from_run_to_run(self):
        assert [CountingIds()() for _ in range(2)] == ["id-1", "id-1"]
        one, same, other = seeded_ids(1), seeded_ids(1), seeded_ids(2)
        assert [one() for _ in range(3)] == [same() for _ in range(3)]
        assert other() != seeded_ids(1)()


class Proxy:
    """A conforming engine in memory; each subclass breaks one guarantee."""

    def __init__(self):
        self._clock = FrozenClock()
        self._engine = SqliteEngine(None, clock=self._clock)

    def __getattr__(self, name):
        return getattr(self._engine, name)


class IgnoresReach(Proxy):
    def snapshot(self, reach):
        return self._engine.snapshot(FULL_REACH)


class LastWriterWins(Proxy):
    def append(self, reach, batch, *, key=None):
        if not callable(batch):
            batch = [sealed._replace(draft=sealed.draft._replace(expected=None)) for sealed in batch]
        return self._engine.append(reach, batch, key=key)


class IgnoresIdempotencyKeys(Proxy):
    def append(self, reach, batch, *, key=None):
        return self._engine.append(reach, batch)


class AppendsOneByOne(Proxy):
    def append(self, reach, batch, *, key=None):
        if callable(batch) or key is not None:
            return self._engine.append(reach, batch, key=key)
        outcomes = [self._engine.append(reach, [sealed]) for sealed in batch]
        return next((outcome for outcome in outcomes if not outcome), outcomes[-1] if outcomes else None)


class FindsNoDamage(Proxy):
    def verify(self, progress=None):
        return replace(self._engine.verify(progress), findings=())


class IgnoresDigests(Proxy):
    def replay(self, reach, lines):
        import hashlib

        return self._engine.replay(reach, ((line, hashlib.sha256(line).digest()) for line, _ in lines))


class SqliteConformance(EngineContract):
    def alter_entry(self, engine, key):
        with engine._borrow_connection() as database:
            database.execute("UPDATE log SET line = json_set(line, '$.text', 'a lie') WHERE id = ?", (key.id,))


@pytest.mark.parametrize(
    ("broken", "test", "arguments"),
    [
        (IgnoresReach, "test_two_callers_with_different_reaches_share_one_store", {}),
        (IgnoresReach, "test_get_history_and_neighbours_return_nothing_of_a_closed_scope", {}),
        (LastWriterWins, "test_a_conflict_anywhere_in_a_batch_writes_nothing", {"index": 1}),
        (IgnoresIdempotencyKeys, "test_a_repeated_key_returns_the_first_outcome_and_writes_nothing", {}),
        (AppendsOneByOne, "test_a_conflict_anywhere_in_a_batch_writes_nothing", {"index": 2}),
        (FindsNoDamage, "test_verify_names_an_altered_entry", {"clock": FrozenClock(), "reindexed": False}),
        (
            IgnoresDigests,
            "test_replay_refuses_an_entry_that_does_not_match_its_digest",
            {"other_store": IgnoresDigests()},
        ),
    ],
)
def test_the_conformance_suite_fails_for_an_engine_that_breaks_a_guarantee(broken, test, arguments):
    engine = broken()
    with pytest.raises(AssertionError):
        getattr(SqliteConformance(), test)(engine=engine, **arguments)
    engine.close()


def test_the_conformance_suite_passes_for_an_engine_that_breaks_nothing():
    engine = Proxy()
    SqliteConformance().test_a_conflict_anywhere_in_a_batch_writes_nothing(engine=engine, index=1)
    engine.close()
