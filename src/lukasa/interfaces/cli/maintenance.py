"""Commands that check and maintain a store: verify, compact and doctor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from lukasa.errors import StoreError, StoreMissing
from lukasa.interfaces.cli.options import Call, flag, option, parse_time, progress_bar
from lukasa.interfaces.cli.render import format_count, format_size
from lukasa.interfaces.outcomes import ExitCode, row_of
from lukasa.models.embedders import EMBEDDER_ORDER, best_installed_embedder
from lukasa.storage.integrity import END_OF_LOG

if TYPE_CHECKING:
    from lukasa.memory import Memory
    from lukasa.storage.engine import Finding, VerifyReport

_WAL_RESET_FIXED_VERSION = (3, 51, 3)
_PRIVATE_MODE = 0o600
_LARGE_WAL_BYTES = 64_000_000


def verify(call: Call) -> None:
    """Check the log, the indexes and the vectors for damage, and list what is damaged and which rules are forged.

    Changes nothing. Exit code 6: something is damaged.

    Example: lukasa verify || echo "the store is damaged"
    """
    report = _verify_store(call.existing_memory)
    aside = f" {format_count(report.set_aside, 'damaged record')} set aside." if report.set_aside else ""
    sound = f"Sound: {format_count(report.versions, 'version')} proved, indexes match the log.{aside}"
    damaged = f"Damaged: {format_count(len(report.findings), 'finding')} in {report.versions:,} versions."
    call.show(
        report,
        sound if report.sound else damaged,
        columns=("where, what", ("repairable", _name_remedy)),
        rows=report.findings,
        wrap="what",
        after=_describe_forged_rules(report),
        exit_code=ExitCode.OK if report.sound else ExitCode.DAMAGED,
    )


def _name_remedy(finding: Finding) -> str:
    if finding.position is not None:
        return "lukasa doctor --repair sets it aside"
    return "lukasa doctor --repair" if finding.repairable else "no"


def compact(
    call: Call,
    before: Annotated[str | None, option("TIME", "Only versions that were superseded before this time.")] = None,
) -> None:
    """Drop superseded versions for good and free their space. The newest version of a record stays.

    Example: lukasa compact --before 2026-01-01
    """
    with progress_bar("Compacting") as bar:
        done = call.memory.journal.compact(before=parse_time(before), progress=bar)
    sizes = f"from {format_size(done.bytes_before)} to {format_size(done.bytes_after)}"
    call.show(done, f"Dropped {format_count(done.versions, 'superseded version')}: {sizes}.")


CheckState = Literal["fine", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that the doctor checked, and the result."""

    name: str
    state: CheckState
    said: str


def doctor(call: Call, repair: Annotated[bool, flag("--repair", "Repair what can be repaired.")] = False) -> None:
    """Check the store, its files and its database, and say what is wrong. Repairs only with --repair.

    What is derived from the log is rebuilt. Damaged records are set aside: they are kept, but no read sees them.

    Exit code 6: something is wrong.

    Example: lukasa doctor --repair
    """
    repairs: list[str] = []
    try:
        memory = call.existing_memory
        report = _verify_store(memory)
        if repair:
            repairs = list(_repair_store(memory, report))
            report = _verify_store(memory) if repairs else report
        checks = list(_run_checks(memory, report))
    except StoreMissing:
        raise
    except StoreError as error:
        _show_checks(call, [DoctorCheck("store", "wrong", str(error))], repairs, row_of(error).exit_code)
    else:
        _show_checks(call, checks, repairs)


def _verify_store(memory: Memory) -> VerifyReport:
    with progress_bar("Verifying") as bar:
        return memory.verify(bar)


def _run_checks(memory: Memory, report: VerifyReport) -> Iterator[DoctorCheck]:
    facts = memory.describe()
    access = ", read-only" if facts["read_only"] else " can be read and written"
    yield DoctorCheck("store", "note" if facts["read_only"] else "fine", f"{facts['store']}{access}")
    yield sqlite_check(str(facts["sqlite"])) if "sqlite" in facts else postgres_check(facts)
    yield DoctorCheck("schema", "fine", f"version {facts['schema']}, the one this Lukasa writes")
    if (path := memory.place.path) is not None:
        if exposed := _exposed_files(path):
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
    for sentence in _describe_forged_rules(report):
        yield DoctorCheck("rules", "note", sentence)


def _describe_forged_rules(report: VerifyReport) -> list[str]:
    return [
        f"{record.key} is ignored: {record.author!r:.80} set it, who is not the owner" for record in report.forged_rules
    ]


def sqlite_check(version: str) -> DoctorCheck:
    """Check that this version of SQLite cannot damage a store by itself."""
    if tuple(int(part) for part in re.findall(r"\d+", version)) >= _WAL_RESET_FIXED_VERSION:
        return DoctorCheck("SQLite", "fine", f"{version}, without the WAL-reset bug")
    return DoctorCheck("SQLite", "wrong", f"{version} has the WAL-reset bug, which can damage a store; upgrade apsw")


def postgres_check(facts: Mapping[str, Any]) -> DoctorCheck:
    """Check that the server has what Lukasa uses."""
    versions = f"{facts['postgresql']}, pgvector {facts['pgvector']}, as {facts['role']}"
    return DoctorCheck("PostgreSQL", "note" if facts["pgvector"] == "not installed" else "fine", versions)


def embedder_check(used: str, best: str) -> DoctorCheck:
    """Check that no better embedder is installed than the one of the store."""
    if used == best or used not in EMBEDDER_ORDER[: EMBEDDER_ORDER.index(best)]:
        return DoctorCheck("embedder", "fine", used)
    return DoctorCheck(
        "embedder", "note", f"{used}; {best} is installed and finds more: run `lukasa reembed --embedder {best}`"
    )


def wal_check(size: int) -> DoctorCheck:
    """Check that the write-ahead log is not too large."""
    if size <= _LARGE_WAL_BYTES:
        return DoctorCheck("write-ahead log", "fine", format_size(size))
    return DoctorCheck("write-ahead log", "note", f"{format_size(size)}: a process keeps an old snapshot open")


def _repair_store(memory: Memory, report: VerifyReport) -> Iterator[str]:
    """Repair what can be repaired, and yield what was done."""
    exposed = _exposed_files(memory.place.path) if memory.place.path else []
    for file in exposed:
        file.chmod(_PRIVATE_MODE)
    if exposed:
        yield "closed the store's files to others (mode 0600)"
    if any(finding.position is not None for finding in report.findings):
        names = memory.journal.set_aside()
        yield f"set {format_count(len(names), 'damaged record')} aside: {', '.join(names)}"
        report = _verify_store(memory)
    if any(finding.where == END_OF_LOG for finding in report.findings) and (lost := memory.journal.accept_losses()):
        yield f"accepted that these are lost: {', '.join(lost)}"
    if any(finding.repairable for finding in report.findings):
        with progress_bar("Rebuilding") as bar:
            memory.journal.reindex(bar)
        yield "rebuilt every index from the log"


def _exposed_files(store: Path) -> list[Path]:
    files = [store.with_name(store.name + end) for end in ("", "-wal", "-shm", "-head")]
    return [file for file in files if file.exists() and file.stat().st_mode & 0o777 & ~_PRIVATE_MODE]


def _show_checks(
    call: Call, checks: Sequence[DoctorCheck], repairs: Sequence[str], exit_code: ExitCode = ExitCode.DAMAGED
) -> None:
    healthy = all(check.state != "wrong" for check in checks)
    wrong = "Something is wrong. `lukasa doctor --repair` repairs what can be repaired."
    verdict = "Healthy." if healthy else "Something is still wrong." if repairs else wrong
    call.show(
        {"healthy": healthy, "checks": checks, "repaired": repairs},
        columns="check=name, state, result=said",
        rows=checks,
        wrap="result",
        after=[*(f"Repaired: {repair}." for repair in repairs), verdict],
        exit_code=ExitCode.OK if healthy else exit_code,
    )
