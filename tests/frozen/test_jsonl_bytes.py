"""The log as a file: its bytes, and that it survives the way in and out again."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import lukasa

Frozen = Callable[[str, str], None]
GOLDEN = Path(__file__).parent / "golden"


def test_the_exported_log_keeps_its_bytes(built: Path, frozen: Frozen) -> None:
    """Compare the export of a store that every service wrote to, byte for byte; nothing in it is normalised."""
    frozen("log.jsonl", (built / "log.jsonl").read_bytes().decode())


def test_reading_and_exporting_write_nothing(built: Path) -> None:
    """Compare the log before and after blocks, layouts and reports were made of it."""
    assert (built / "log_again.jsonl").read_bytes() == (built / "log.jsonl").read_bytes()


def test_the_same_calls_write_the_same_bytes_again(built: Path, built_again: Path) -> None:
    """Compare every file of two runs that differ in their hash seed."""
    one = {path.relative_to(built): path.read_bytes() for path in built.rglob("*") if path.is_file()}
    other = {path.relative_to(built_again): path.read_bytes() for path in built_again.rglob("*") if path.is_file()}
    differing = [str(path) for path in sorted({*one, *other}) if one.get(path) != other.get(path)]
    assert [name for name in differing if not name.startswith("memory.db")] == []


def test_compaction_keeps_the_same_versions(built: Path, frozen: Frozen) -> None:
    """Compare which versions are left after the store was compacted, and that each is still as it was."""
    _compare_part(built, "log_compacted", frozen)


def test_an_agent_exports_what_it_may_read(built: Path, frozen: Frozen) -> None:
    """Compare which versions are in the export of an agent, and that each is as the owner exports it."""
    _compare_part(built, "log_of_an_agent", frozen)


def test_an_imported_log_is_exported_with_the_same_bytes(tmp_path: Path) -> None:
    """Import the golden file into a new store and compare what that exports."""
    source = GOLDEN / "log.jsonl"
    with lukasa.open(tmp_path / "memory.db", embedder="hash") as memory:
        taken = memory.import_(source)
        assert (taken.present, list(taken.refused)) == (0, [])
        exported = io.BytesIO()
        assert memory.export(exported) == taken.added
        assert exported.getvalue() == source.read_bytes()
        again = memory.import_(source)
        assert (again.added, again.present, list(again.refused)) == (0, taken.added, [])
        assert memory.verify().sound


def _compare_part(built: Path, name: str, frozen: Frozen) -> None:
    whole = set((built / "log.jsonl").read_bytes().splitlines())
    lines = (built / f"{name}.jsonl").read_bytes().splitlines()
    versions = []
    for line in lines[1:-1]:
        record = json.loads(line)["record"]
        mark = "" if line in whole else " (not in the whole log)"
        versions.append(f"{record['scope']}/{record['kind']}/{record['id']} {record['version']}{mark}\n")
    frozen(f"{name}.txt", "".join(versions))
