"""Commands that keep a store sound: verify, compact, doctor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lukasa.errors import StoreError, StoreMissing
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import ExitCode, exit_code_for
from lukasa.interfaces.cli.options import JsonOption, get_options, parse_time, progress_bar
from lukasa.memory import Memory
from lukasa.storage.engine import VerifyReport

_WAL_RESET_FIXED_VERSION = (3, 51, 3)
_PRIVATE_MODE = 0o600
_LARGE_WAL_BYTES = 64_000_000


def verify(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Prove the log whole and the indexes true to it; name what is damaged.

    Example: lukasa verify || echo "call somebody"
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory, progress_bar("Verifying") as bar:
        verdict = memory.verify(bar)
    if call.json:
        findings = [asdict(finding) for finding in verdict.findings]
        render.print_json({"sound": verdict.sound, "versions": verdict.versions, "findings": findings})
    elif verdict.sound:
        render.print_line(f"Sound: {render.format_count(verdict.versions, 'version')} proved, indexes true to the log.")
    else:
        render.print_line(
            f"Damaged: {render.format_count(len(verdict.findings), 'finding')} in {verdict.versions:,} versions."
        )
        rows = [(f.where, f.what, "lukasa doctor --repair" if f.repairable else "no") for f in verdict.findings]
        render.print_table(("where", "what", "repairable"), rows, wrap=("what",))
    if not verdict.sound:
        raise typer.Exit(ExitCode.DAMAGED)


def compact(
    ctx: typer.Context,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only versions that were superseded before this time.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Drop superseded versions for good and give the space back. The newest version always stays.

    Example: lukasa compact --before 2026-01-01
    """
    call = get_options(ctx, as_json)
    with call.open() as memory, progress_bar("Compacting") as bar:
        done = memory.journal.compact(before=parse_time(before), progress=bar)
    if call.json:
        render.print_json(asdict(done))
    else:
        told = f"from {render.format_size(done.bytes_before)} to {render.format_size(done.bytes_after)}"
        render.print_line(f"Dropped {render.format_count(done.versions, 'superseded version')}: {told}.")


CheckState = Literal["fine", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing the doctor looked at, and what it saw."""

    name: str
    state: CheckState
    said: str


def doctor(
    ctx: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look the store over, say what is wrong, and repair what can be repaired.

    Example: lukasa doctor --repair
    """
    call = get_options(ctx, as_json)
    mended: list[str] = []
    try:
        with call.open(create=False) as memory:
            verdict = _verify_store(memory)
            if repair:
                mended = list(_repair_store(memory, verdict))
                verdict = _verify_store(memory) if mended else verdict
            checks = _run_checks(memory, verdict)
    except StoreMissing:
        raise
    except StoreError as error:
        _print_checks([DoctorCheck("store", "wrong", str(error))], mended, as_json=call.json)
        raise typer.Exit(exit_code_for(error)) from error
    _print_checks(checks, mended, as_json=call.json)
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(ExitCode.DAMAGED)


def _verify_store(memory: Memory) -> VerifyReport:
    with progress_bar("Verifying") as bar:
        return memory.verify(bar)


def _run_checks(memory: Memory, verdict: VerifyReport) -> list[DoctorCheck]:
    facts = memory.describe()
    return [
        DoctorCheck("store", "note" if facts["read_only"] else "fine", _describe_store(facts)),
        sqlite_check(str(facts["sqlite"])) if "sqlite" in facts else postgres_check(facts),
        DoctorCheck("schema", "fine", f"version {facts['schema']}, as this Lukasa writes it"),
        *_file_checks(memory),
        *_log_checks(verdict),
        *_quarantine_checks(memory),
    ]


def _describe_store(facts: Mapping[str, Any]) -> str:
    return f"{facts['store']}, read-only" if facts["read_only"] else f"{facts['store']} can be read and written"


def sqlite_check(version: str) -> DoctorCheck:
    """Whether this SQLite is one that cannot damage a store by itself."""
    if tuple(int(part) for part in re.findall(r"\d+", version)) >= _WAL_RESET_FIXED_VERSION:
        return DoctorCheck("SQLite", "fine", f"{version}, without the WAL-reset bug")
    return DoctorCheck("SQLite", "wrong", f"{version} has the WAL-reset bug, which can damage a store; upgrade apsw")


def postgres_check(facts: Mapping[str, Any]) -> DoctorCheck:
    """Whether the server can do everything that is asked of it."""
    told = f"{facts['postgresql']}, pgvector {facts['pgvector']}, as {facts['role']}"
    return DoctorCheck("PostgreSQL", "note" if facts["pgvector"] == "not installed" else "fine", told)


def wal_check(size: int) -> DoctorCheck:
    """Whether the write-ahead log is of a size that it should be."""
    if size <= _LARGE_WAL_BYTES:
        return DoctorCheck("write-ahead log", "fine", render.format_size(size))
    return DoctorCheck("write-ahead log", "note", f"{render.format_size(size)}: some process keeps an old page in use")


def _file_checks(memory: Memory) -> Iterator[DoctorCheck]:
    if memory.place.path is None:
        return
    if exposed := _exposed_files(memory.place.path):
        mode = exposed[0].stat().st_mode & 0o777
        yield DoctorCheck("file mode", "wrong", f"{exposed[0]} is open to others: {mode:04o} instead of 0600")
    else:
        yield DoctorCheck("file mode", "fine", "only its owner can read it")
    wal = memory.place.path.with_name(memory.place.path.name + "-wal")
    yield wal_check(wal.stat().st_size if wal.exists() else 0)


def _log_checks(verdict: VerifyReport) -> Iterator[DoctorCheck]:
    if verdict.sound:
        yield DoctorCheck("log and indexes", "fine", f"{render.format_count(verdict.versions, 'version')} proved")
    for finding in verdict.findings:
        can = "can be rebuilt" if finding.repairable else "cannot be repaired: restore a backup"
        yield DoctorCheck("log and indexes", "wrong", f"{finding.where}: {finding.what} ({can})")


def _quarantine_checks(memory: Memory) -> Iterator[DoctorCheck]:
    held = sorted(memory.journal.quarantined())
    yield DoctorCheck("quarantine", "note" if held else "fine", ", ".join(held) if held else "nobody is held")


def _repair_store(memory: Memory, verdict: VerifyReport) -> Iterator[str]:
    """Repairs what can be repaired, and says what it did."""
    exposed = _exposed_files(memory.place.path) if memory.place.path else []
    for file in exposed:
        file.chmod(_PRIVATE_MODE)
    if exposed:
        yield "closed the store's files to others (mode 0600)"
    if any(finding.repairable for finding in verdict.findings):
        with progress_bar("Rebuilding") as bar:
            memory.journal.reindex(bar)
        yield "rebuilt every index from the log"


def _exposed_files(store: Path) -> list[Path]:
    files = [store.with_name(store.name + end) for end in ("", "-wal", "-shm")]
    return [file for file in files if file.exists() and file.stat().st_mode & 0o777 & ~_PRIVATE_MODE]


def _print_checks(checks: Sequence[DoctorCheck], repairs: Sequence[str], *, as_json: bool) -> None:
    healthy = all(check.state != "wrong" for check in checks)
    if as_json:
        render.print_json(
            {"healthy": healthy, "checks": [asdict(check) for check in checks], "repaired": list(repairs)}
        )
        return
    rows = [(check.name, check.state, check.said) for check in checks]
    render.print_table(("check", "state", "what was seen"), rows, wrap=("what was seen",))
    for deed in repairs:
        render.print_line(f"Repaired: {deed}.")
    if healthy:
        render.print_line("Healthy.")
    elif repairs:
        render.print_line("Something is still wrong.")
    else:
        render.print_line("Something is wrong. `lukasa doctor --repair` repairs what can be repaired.")
