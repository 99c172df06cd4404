"""Maintenance of a PostgreSQL store: verify, rebuild, compact and erase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from lukasa.core.record import CHECKSUM_MASK, Key, parse_entry
from lukasa.core.scope import FULL_REACH, SYSTEM
from lukasa.errors import LukasaError
from lukasa.storage import quarantine
from lukasa.storage.engine import (
    QUARANTINE,
    ChooseErased,
    DamagedEntry,
    EraseResult,
    FindFault,
    Finding,
    Progress,
    VerifyReport,
    group_erased,
)
from lukasa.storage.integrity import Fingerprint, check_entry, compare_checksums, find_damaged
from lukasa.storage.postgres import vectors
from lukasa.storage.postgres.append import PostgresQuarantineBackend
from lukasa.storage.postgres.batch import IndexSettings, PostgresLogRow, PostgresTallyChanges
from lukasa.storage.postgres.connection import WriterSnapshot, fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.reader import PostgresReader
from lukasa.storage.postgres.sql import SQL

_PAGE_SIZE = 2000
_MAX_FINDINGS = 100
_MIN_SEQ, _MAX_SEQ = -(2**62), 2**62
_DERIVED_PARTS = {
    "labels": "labels differ from the log",
    "links": "links differ from the log",
    "text index": "entries differ from the log",
    "columns": "columns differ from the log",
    "near-duplicates": "near-duplicate keys differ from the log",
    "vectors": "vectors do not match their checksums",
}


def verify(
    database: Database, settings: IndexSettings, progress: Progress | None, find_fault: FindFault | None = None
) -> VerifyReport:
    """Check everything at one moment, in a transaction that is rolled back."""
    database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    versions, findings = 0, list[Finding]()
    fingerprint = Fingerprint()
    wrong: Counter[str] = Counter()
    last = _MIN_SEQ
    for page in read_pages(database, progress):
        versions += len(page)
        derived_rows: list[PostgresLogRow] = []
        damaged: set[int] = set()
        for row in page:
            finding = check_entry(row[:10], find_fault)
            if finding is not None:
                findings.append(finding)
                damaged.add(row[0])
            fingerprint.add(row[1], row[2], row[8])
            derived = _derive_row(settings, row)
            if derived is None:
                continue
            derived_rows.append(derived)
            if finding is None:
                columns = (derived.deleted, derived.token_count, derived.group_label)
                wrong["labels"] += row[12] != derived.labels
                wrong["columns"] += (row[10], row[11], row[13]) != columns
                wrong["near-duplicates"] += row[14] != derived.pair_keys
        tsvectors = ([row.seq for row in derived_rows], [row.tsvector for row in derived_rows])
        wrong["text index"] += sum(seq not in damaged for (seq,) in database.execute(SQL["wrong_words"], tsvectors))
        link_rows = {link_row for row in derived_rows for link_row in row.link_rows}
        wrong["links"] += len(_read_links(database, last, page[-1][0]) ^ link_rows)
        last = page[-1][0]
    wrong["links"] += len(_read_links(database, last, _MAX_SEQ))
    tallies = {(row[0], row[1]): row[2:] for row in database.execute(SQL["all_tallies"])}
    findings += compare_checksums({pair: (row[1], int(row[2])) for pair, row in tallies.items()}, fingerprint)
    findings += _check_current(database, tallies)
    findings += _check_quarantines(database)
    wrong["near-duplicates"] += fetch_single_row(database.execute(SQL["wrong_duplicate_keys"]))[0]
    wrong["vectors"] = sum(vectors.count_damaged(database, table) for table in vectors.list_tables(database))
    for where, what in _DERIVED_PARTS.items():
        if wrong[where]:
            findings.append(Finding(where, f"{wrong[where]} {what}", repairable=True))
    database.execute("ROLLBACK")
    if len(findings) > _MAX_FINDINGS:
        findings[_MAX_FINDINGS:] = [Finding("log", f"and {len(findings) - _MAX_FINDINGS} more")]
    return VerifyReport(versions, tuple(findings))


def read_pages(database: Database, progress: Progress | None) -> Iterator[list[Any]]:
    (total,) = fetch_single_row(database.execute(SQL["count_entries"]))
    seen, last = 0, _MIN_SEQ
    while page := database.execute(SQL["all_entries"], (last, _PAGE_SIZE), binary=True).fetchall():
        yield page
        seen, last = seen + len(page), page[-1][0]
        if progress is not None:
            progress(seen, max(total, seen))


def _derive_row(settings: IndexSettings, row: Sequence[Any]) -> PostgresLogRow | None:
    """Derive a row from its entry; None if the entry cannot be read."""
    try:
        return settings.build_row(parse_entry(row[9], row[0], row[8]), row[9].decode(), live=False)
    except (ValueError, KeyError, TypeError, AttributeError, LukasaError):
        return None


def _read_links(database: Database, low: int, high: int) -> set[tuple[Any, ...]]:
    return set(database.execute(SQL["links_between"], (low, high), binary=True))


def _check_current(database: Database, tallies: dict[tuple[str, str], Any]) -> Iterator[Finding]:
    for scope, kind, id, version, live in database.execute(SQL["wrongly_live"]):
        what = "counts as current but is not" if live else "counts as superseded but is not"
        yield Finding(f"{scope}/{kind}/{id} version {version}", what, repairable=True)
    counts = {(row[0], row[1]): row[2:] for row in database.execute(SQL["text_counts"])}
    for pair in sorted(set(tallies) | set(counts)):
        live, *texts = counts.get(pair, (0, 0, 0, 0, 0))
        row = tallies.get(pair, (0, 0, 0, 0, 0, 0, 0))
        if row[0] != live:
            yield Finding(f"{pair[0]}/{pair[1]}", f"{live} records are live, {row[0]} are counted", repairable=True)
        if tuple(row[3:]) != tuple(texts):
            yield Finding(f"{pair[0]}/{pair[1]}", "the lengths of its texts are not what is counted", repairable=True)


def _check_quarantines(database: Database) -> Iterator[Finding]:
    """Rebuild the quarantines in temporary tables, which hide the stored ones of the same names, and compare."""
    database.execute(SQL["shadow_quarantine"])
    database.execute(SQL["shadow_hidden"])
    quarantine.rebuild_hidden(PostgresQuarantineBackend(database))
    for name, what in (
        ("wrong_quarantines", "quarantines differ from the log"),
        ("wrong_hidden", "versions are wrongly hidden or shown"),
    ):
        (count,) = fetch_single_row(database.execute(SQL[name]))
        if count:
            yield Finding("quarantine", f"{count} {what}", repairable=True)
    database.execute(SQL["drop_shadows"])


def set_aside(database: Database, find_fault: FindFault | None) -> list[DamagedEntry]:
    """Remove the damaged entries, inside the caller's transaction, which excludes other writers."""
    _lock_store(database)
    found, sound = find_damaged(read_pages(database, None), find_fault)
    changes = PostgresTallyChanges()
    stored = {(row[0], row[1]): (row[3], int(row[4]) & CHECKSUM_MASK) for row in database.execute(SQL["all_tallies"])}
    changes.remove_damaged(found, sound, stored)
    database.execute(SQL["note_high_water"])
    _delete_versions(database, [(entry.scope, entry.seq) for entry in found], vectors.list_tables(database))
    PostgresQuarantineBackend(database).execute_many("add_to_tally", changes.rows())
    return found


def reindex(database: Database, settings: IndexSettings, progress: Progress | None) -> None:
    """Rebuild everything derived from the log, in one transaction that excludes other writers."""
    _lock_store(database)
    backend = PostgresQuarantineBackend(database)
    database.execute(SQL["delete_all_links"])
    for page in read_pages(database, progress):
        rows = [row for row in (_derive_row(settings, row) for row in page) if row is not None]
        columns = [
            (row.seq, row.scope, row.deleted, row.token_count, row.labels, row.group_label, row.pair_keys, row.tsvector)
            for row in rows
        ]
        backend.execute_many("derive_columns", columns)
        backend.execute_many("insert_link", [link_row for row in rows for link_row in row.link_rows])
    database.execute(SQL["delete_all_hidden"])
    database.execute(SQL["delete_all_quarantines"])
    quarantine.rebuild_hidden(backend)
    database.execute(SQL["correct_live"])
    database.execute(SQL["delete_all_duplicate_keys"])
    database.execute(SQL["derive_duplicate_keys"])
    for table in vectors.list_tables(database):
        vectors.delete_damaged(database, table)
    # What counts the versions and sums their digests proves that the log is complete, so it stays as it is.
    database.execute(SQL["reset_counts"])
    counts = database.execute(SQL["text_counts"]).fetchall()
    backend.execute_many("add_to_tally", [(scope, kind, live, 0, 0, *texts) for scope, kind, live, *texts in counts])
    database.execute(SQL["delete_zero_tallies"])


def compact(database: Database, before: int, progress: Progress | None) -> int:
    """Drop superseded versions."""
    _lock_store(database)
    superseded = database.execute(SQL["superseded"], (before,), binary=True).fetchall()
    tables = vectors.list_tables(database)
    changes = PostgresTallyChanges()
    database.execute(SQL["note_high_water"])
    for start in range(0, len(superseded), _PAGE_SIZE):
        chunk = superseded[start : start + _PAGE_SIZE]
        for _, scope, kind, digest, token_count in chunk:
            changes.remove_version(scope, kind, digest, live=0)
            changes.add_text(scope, kind, token_count, -1, live=False)
        _delete_versions(database, [(scope, seq) for seq, scope, *_ in chunk], tables)
        if progress is not None:
            progress(start + len(chunk), len(superseded))
    PostgresQuarantineBackend(database).execute_many("add_to_tally", changes.rows())
    return len(superseded)


def erase(database: Database, choose: ChooseErased) -> EraseResult:
    """Remove the chosen records and versions."""
    _lock_store(database)
    backend = PostgresQuarantineBackend(database)
    chosen = group_erased(choose(PostgresReader(WriterSnapshot(database), FULL_REACH)))
    tables = vectors.list_tables(database)
    changes = PostgresTallyChanges()
    database.execute(SQL["note_high_water"])
    versions, by_kind, restored = 0, dict[str, int](), list[Key]()
    for key, positions in chosen.items():
        if (key.scope, key.kind) == (SYSTEM, QUARANTINE):
            quarantine.lift_quarantine(backend, key)
        rows = backend.fetch_rows("versions_to_erase", key.scope, key.kind, key.id)
        removed = [row for row in rows if positions is None or row[0] in positions]
        for seq, digest, token_count, live in removed:
            changes.remove_version(key.scope, key.kind, digest, live=live)
            changes.add_text(key.scope, key.kind, token_count, -1, live=live)
            backend.execute_many("clear_idempotency", [(seq, seq)])
        _delete_versions(database, [(key.scope, row[0]) for row in removed], tables)
        versions += len(removed)
        if len(removed) < len(rows):
            restored.append(key)
        elif rows:
            by_kind[key.kind] = by_kind.get(key.kind, 0) + 1
    backend.execute_many("add_to_tally", changes.rows())
    quarantine.restore_current(backend, restored)
    database.execute(SQL["delete_empty_tallies"])
    return EraseResult(sum(by_kind.values()), versions, by_kind, restored=len(restored))


def _lock_store(database: Database) -> None:
    """Exclude all other writers from the whole store until the end of the transaction."""
    database.execute(SQL["begin_write"], (None, True, 0))


def _delete_versions(database: Database, positions: Sequence[tuple[str, int]], tables: Sequence[str]) -> None:
    with database.cursor() as cursor:
        for name in ("delete_links", "delete_hidden", "delete_entry"):
            cursor.executemany(SQL[name], positions)
        for table in tables:
            cursor.executemany(SQL["delete_at"].format(table=table), positions)
