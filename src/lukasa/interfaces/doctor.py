"""The checks of the doctor, for the command line and the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lukasa.config import find_nearest_store
from lukasa.core.clock import to_iso
from lukasa.errors import LukasaError
from lukasa.interfaces.cli.render import format_count, format_size
from lukasa.models.embedders import EMBEDDER_ORDER, best_installed_embedder
from lukasa.own_stores import read_notes, require_own_store
from lukasa.storage.integrity import END_OF_LOG

if TYPE_CHECKING:
    from lukasa.memory import Memory
    from lukasa.storage.engine import VerifyReport

PRIVATE_MODE = 0o600
_WAL_RESET_FIXED_VERSION = (3, 51, 3)
_LARGE_WAL_BYTES = 64_000_000
_MANY_EVENTS = 20

CheckState = Literal["fine", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that the doctor checked, and the result."""

    name: str
    state: CheckState
    said: str


def run_checks(memory: Memory, report: VerifyReport) -> Iterator[DoctorCheck]:
    """Check a store that was verified: access, database, schema, files, log, quarantine and rules."""
    facts = memory.describe()
    access = ", read-only" if facts["read_only"] else " can be read and written"
    yield DoctorCheck("store", "note" if facts["read_only"] else "fine", f"{facts['store']}{access}")
    yield sqlite_check(str(facts["sqlite"])) if "sqlite" in facts else postgres_check(facts)
    yield DoctorCheck("schema", "fine", f"version {facts['schema']}, the one this Lukasa writes")
    if (path := memory.place.path) is not None:
        if exposed := list_exposed_files(path):
            mode = exposed[0].stat().st_mode & 0o777
            yield DoctorCheck("file mode", "wrong", f"{exposed[0]} is open to others: {mode:04o} instead of 0600")
        else:
            yield DoctorCheck("file mode", "fine", "only its owner can read it")
        wal = path.with_name(path.name + "-wal")
        yield wal_check(wal.stat().st_size if wal.exists() else 0)
        if facts.get("lacks_head"):
            said = "was missing when the store was opened, so nothing shows whether its log is complete"
            yield DoctorCheck("head of the log", "note", said)
    if report.sound:
        yield DoctorCheck("log and indexes", "fine", f"{format_count(report.versions, 'version')} proved")
    for finding in report.findings:
        remedy = "can be rebuilt" if finding.repairable else "cannot be repaired: restore a backup"
        remedy = "can be set aside" if finding.position is not None else remedy
        if finding.where == END_OF_LOG:
            remedy = "cannot be repaired, but accepted"
        yield DoctorCheck("log and indexes", "wrong", f"{finding.where}: {finding.what} ({remedy})")
    yield embedder_check(memory.recall.index.describe()["embedder"], best_installed_embedder())
    authors = sorted(memory.journal.quarantined())
    yield DoctorCheck("quarantine", "note" if authors else "fine", ", ".join(authors) or "no author is in quarantine")
    if count := memory.proposals.count():
        yield DoctorCheck("proposals", "note", f"{count} wait for you: run `lukasa proposals list`")
    for sentence in describe_forged_rules(report):
        yield DoctorCheck("rules", "note", sentence)


def project_store_checks() -> Iterator[DoctorCheck]:
    """Name the stores that are used when they are found by their folder, and the nearest one if it is ignored."""
    noted = sorted(path.parent for path in read_notes() if path.exists())
    if noted:
        yield DoctorCheck("stores of folders", "fine", f"used where they are found: {', '.join(map(str, noted))}")
    if (nearest := find_nearest_store()) is not None:
        try:
            require_own_store(nearest)
        except LukasaError as error:
            yield DoctorCheck("stores of folders", "note", f"ignored unless it is named: {error}")


def hook_checks(folder: Path, home: Path) -> Iterator[DoctorCheck]:
    """Look at the hooks of coding agents: where they are set up, whether their program is found, and what happened last."""
    import shlex
    import shutil

    from lukasa.interfaces.hooks.client import state_folder
    from lukasa.interfaces.hooks.config import hook_files, own_hook_command

    commands = {path: command for path in hook_files(folder, home) if (command := own_hook_command(path))}
    if not commands:
        yield DoctorCheck("hooks", "fine", "no coding agent is set up here; `lukasa install` does it")
        return
    for path, command in commands.items():
        program = next(word for word in shlex.split(command) if "=" not in word)
        found = shutil.which(program)
        said = f"{path} runs {program}"
        yield DoctorCheck("hooks", "fine" if found else "wrong", said if found else f"{said}, which is not on the PATH")
    state = Path(state_folder())
    queues = sorted(state.glob("*.d")) if state.is_dir() else []
    waiting = sum(len(list(queue.glob("*.event"))) for queue in queues)
    failed = sum(len(list(queue.glob("*.failed"))) for queue in queues)
    if not queues:
        yield DoctorCheck("hook events", "note", "none came yet; start the agent in this folder")
        return
    last = max(queue.stat().st_mtime for queue in queues)
    said = f"the last at {to_iso(datetime.fromtimestamp(int(last), UTC))}, {waiting} wait, {failed} failed"
    yield DoctorCheck("hook events", "note" if failed or waiting > _MANY_EVENTS else "fine", said)
    logs = sorted(state.glob("*.log"), key=lambda path: path.stat().st_mtime)
    lines = logs[-1].read_text("utf-8", "replace").splitlines() if logs else []
    if lines:
        yield DoctorCheck("last error of a hook", "note", lines[-1][:300])


def describe_forged_rules(report: VerifyReport) -> list[str]:
    """Return a sentence for each rule that somebody else than the owner set."""
    return [
        f"{record.key} is ignored: {record.author!r:.80} set it, who is not the owner" for record in report.forged_rules
    ]


def embedder_check(used: str, best: str) -> DoctorCheck:
    """Check that no better embedder is installed than the one of the store."""
    if used == best or used not in EMBEDDER_ORDER[: EMBEDDER_ORDER.index(best)]:
        return DoctorCheck("embedder", "fine", used)
    return DoctorCheck(
        "embedder", "note", f"{used}; {best} is installed and finds more: run `lukasa reembed --embedder {best}`"
    )


def sqlite_check(version: str) -> DoctorCheck:
    """Check that this version of SQLite cannot damage a store by itself."""
    if tuple(int(part) for part in version.split(".") if part.isdecimal()) >= _WAL_RESET_FIXED_VERSION:
        return DoctorCheck("SQLite", "fine", f"{version}, without the WAL-reset bug")
    return DoctorCheck("SQLite", "wrong", f"{version} has the WAL-reset bug, which can damage a store; upgrade apsw")


def postgres_check(facts: Mapping[str, Any]) -> DoctorCheck:
    """Check that the server has what Lukasa uses."""
    versions = f"{facts['postgresql']}, pgvector {facts['pgvector']}, as {facts['role']}"
    return DoctorCheck("PostgreSQL", "note" if facts["pgvector"] == "not installed" else "fine", versions)


def wal_check(size: int) -> DoctorCheck:
    """Check that the write-ahead log is not too large."""
    if size <= _LARGE_WAL_BYTES:
        return DoctorCheck("write-ahead log", "fine", format_size(size))
    return DoctorCheck("write-ahead log", "note", f"{format_size(size)}: a process keeps an old snapshot open")


def list_exposed_files(store: Path) -> list[Path]:
    """List the files of a store that others may read or write."""
    files = [store.with_name(store.name + end) for end in ("", "-wal", "-shm", "-head")]
    return [file for file in files if file.exists() and file.stat().st_mode & 0o777 & ~PRIVATE_MODE]
