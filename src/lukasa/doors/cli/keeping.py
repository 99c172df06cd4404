"""Commands that keep a store sound: verify, compact, doctor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, caller, moment, progress
from lukasa.doors.cli.outcome import Ending, ending_of
from lukasa.engine import Verdict
from lukasa.errors import StoreError, StoreMissing
from lukasa.memory import Memory

_RESET_BUG_FIXED = (3, 51, 3)
_PRIVATE = 0o600
_LARGE_WAL = 64_000_000


def verify(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Prove the log whole and the indexes true to it; name what is damaged.

    Example: lukasa verify || echo "call somebody"
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory, progress("Verifying") as bar:
        verdict = memory.verify(bar)
    if call.json:
        findings = [asdict(finding) for finding in verdict.findings]
        show.as_json({"sound": verdict.sound, "versions": verdict.versions, "findings": findings})
    elif verdict.sound:
        show.say(f"Sound: {show.counted(verdict.versions, 'version')} proved, indexes true to the log.")
    else:
        show.say(f"Damaged: {show.counted(len(verdict.findings), 'finding')} in {verdict.versions:,} versions.")
        rows = [(f.where, f.what, "lukasa doctor --repair" if f.repairable else "no") for f in verdict.findings]
        show.table(("where", "what", "repairable"), rows, fold=("what",))
    if not verdict.sound:
        raise typer.Exit(Ending.DAMAGED)


def compact(
    ctx: typer.Context,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only versions that were superseded before this time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Drop superseded versions for good and give the space back. The newest version always stays.

    Example: lukasa compact --before 2026-01-01
    """
    call = caller(ctx, as_json)
    with call.open() as memory, progress("Compacting") as bar:
        done = memory.journal.compact(before=moment(before), progress=bar)
    if call.json:
        show.as_json(asdict(done))
    else:
        told = f"from {show.size(done.bytes_before)} to {show.size(done.bytes_after)}"
        show.say(f"Dropped {show.counted(done.versions, 'superseded version')}: {told}.")


State = Literal["fine", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the doctor looked at, and what it saw."""

    name: str
    state: State
    said: str


def doctor(
    ctx: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look the store over, say what is wrong, and repair what can be repaired.

    Example: lukasa doctor --repair
    """
    call = caller(ctx, as_json)
    mended: list[str] = []
    try:
        with call.open(make=False) as memory:
            verdict = _verify(memory)
            if repair:
                mended = list(_mend(memory, verdict))
                verdict = _verify(memory) if mended else verdict
            checks = _examine(memory, verdict)
    except StoreMissing:
        raise
    except StoreError as error:
        _report([Check("store", "wrong", str(error))], mended, as_json=call.json)
        raise typer.Exit(ending_of(error)) from error
    _report(checks, mended, as_json=call.json)
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(Ending.DAMAGED)


def _verify(memory: Memory) -> Verdict:
    with progress("Verifying") as bar:
        return memory.verify(bar)


def _examine(memory: Memory, verdict: Verdict) -> list[Check]:
    facts = memory.describe()
    return [
        Check("store", "note" if facts["read_only"] else "fine", _place(facts)),
        sqlite_check(str(facts["sqlite"])) if "sqlite" in facts else server_check(facts),
        Check("schema", "fine", f"version {facts['schema']}, as this Lukasa writes it"),
        *_files(memory),
        *_soundness(verdict),
        *_held(memory),
    ]


def _place(facts: Mapping[str, Any]) -> str:
    return f"{facts['store']}, read-only" if facts["read_only"] else f"{facts['store']} can be read and written"


def sqlite_check(version: str) -> Check:
    """Whether this SQLite is one that cannot damage a store by itself."""
    if tuple(int(part) for part in re.findall(r"\d+", version)) >= _RESET_BUG_FIXED:
        return Check("SQLite", "fine", f"{version}, without the WAL-reset bug")
    return Check("SQLite", "wrong", f"{version} has the WAL-reset bug, which can damage a store; upgrade apsw")


def server_check(facts: Mapping[str, Any]) -> Check:
    """Whether the server can do everything that is asked of it."""
    told = f"{facts['postgresql']}, pgvector {facts['pgvector']}, as {facts['role']}"
    return Check("PostgreSQL", "note" if facts["pgvector"] == "not installed" else "fine", told)


def wal_check(held: int) -> Check:
    """Whether the write-ahead log is of a size that it should be."""
    if held <= _LARGE_WAL:
        return Check("write-ahead log", "fine", show.size(held))
    return Check("write-ahead log", "note", f"{show.size(held)}: some process keeps an old page in use")


def _files(memory: Memory) -> Iterator[Check]:
    if memory.place.path is None:
        return
    if exposed := _exposed_files(memory.place.path):
        mode = exposed[0].stat().st_mode & 0o777
        yield Check("file mode", "wrong", f"{exposed[0]} is open to others: {mode:04o} instead of 0600")
    else:
        yield Check("file mode", "fine", "only its owner can read it")
    wal = memory.place.path.with_name(memory.place.path.name + "-wal")
    yield wal_check(wal.stat().st_size if wal.exists() else 0)


def _soundness(verdict: Verdict) -> Iterator[Check]:
    if verdict.sound:
        yield Check("log and indexes", "fine", f"{show.counted(verdict.versions, 'version')} proved")
    for finding in verdict.findings:
        can = "can be rebuilt" if finding.repairable else "cannot be repaired: restore a backup"
        yield Check("log and indexes", "wrong", f"{finding.where}: {finding.what} ({can})")


def _held(memory: Memory) -> Iterator[Check]:
    held = sorted(memory.journal.quarantined())
    yield Check("quarantine", "note" if held else "fine", ", ".join(held) if held else "nobody is held")


def _mend(memory: Memory, verdict: Verdict) -> Iterator[str]:
    """Repairs what can be repaired, and says what it did."""
    exposed = _exposed_files(memory.place.path) if memory.place.path else []
    for file in exposed:
        file.chmod(_PRIVATE)
    if exposed:
        yield "closed the store's files to others (mode 0600)"
    if any(finding.repairable for finding in verdict.findings):
        with progress("Rebuilding") as bar:
            memory.journal.reindex(bar)
        yield "rebuilt every index from the log"


def _exposed_files(store: Path) -> list[Path]:
    files = [store.with_name(store.name + end) for end in ("", "-wal", "-shm")]
    return [file for file in files if file.exists() and file.stat().st_mode & 0o777 & ~_PRIVATE]


def _report(checks: Sequence[Check], mended: Sequence[str], *, as_json: bool) -> None:
    healthy = all(check.state != "wrong" for check in checks)
    if as_json:
        show.as_json({"healthy": healthy, "checks": [asdict(check) for check in checks], "repaired": list(mended)})
        return
    rows = [(check.name, check.state, check.said) for check in checks]
    show.table(("check", "state", "what was seen"), rows, fold=("what was seen",))
    for deed in mended:
        show.say(f"Repaired: {deed}.")
    if healthy:
        show.say("Healthy.")
    elif mended:
        show.say("Something is still wrong.")
    else:
        show.say("Something is wrong. `lukasa doctor --repair` repairs what can be repaired.")
