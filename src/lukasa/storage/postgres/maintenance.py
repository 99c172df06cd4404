"""Keeping the store sound: proving it, rebuilding what is derived, dropping what is superseded, erasing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lukasa.errors import LukasaError
from lukasa.record import Key, parse_entry
from lukasa.scope import FULL_REACH, SYSTEM
from lukasa.storage import quarantine
from lukasa.storage.engine import QUARANTINE, EraseResult, Finding, Progress, Reader, VerifyReport
from lukasa.storage.integrity import check_entry, checksum, compare_checksums
from lukasa.storage.postgres import vectors
from lukasa.storage.postgres.append import PostgresQuarantineBackend
from lukasa.storage.postgres.batch import PostgresLogRow, PostgresTallyChanges, build_row
from lukasa.storage.postgres.connection import WriterSnapshot, fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.reader import PostgresReader
from lukasa.storage.postgres.sql import SQL

_PAGE_SIZE = 2000
_MAX_FINDINGS = 20
_MIN_SEQ, _MAX_SEQ = -(2**62), 2**62


def verify(database: Database, progress: Progress | None) -> VerifyReport:
    """Proves everything at one moment, in a transaction that is rolled back."""
    database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    versions, findings = 0, list[Finding]()
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    wrong: dict[str, int] = {}

    def count(where: str, number: int = 1) -> None:
        wrong[where] = wrong.get(where, 0) + number

    low = _MIN_SEQ
    for page in _read_pages(database, progress):
        versions += len(page)
        derived: list[PostgresLogRow] = []
        for row in page:
            finding = check_entry(row[:10])
            if finding is not None:
                findings.append(finding)
            pair = (row[1], row[2])
            number, total = sums.get(pair, (0, 0))
            sums[pair] = (number + 1, total + checksum(row[8]))
            expected = _derive_row(row)
            if expected is None:
                continue
            derived.append(expected)
            if finding is None:
                count("labels", row[12] != expected.labels)
                count(
                    "columns", (row[10], row[11], row[13]) != (expected.deleted, expected.token_count, expected.session)
                )
                count("near-duplicates", row[14] != expected.pair_keys)
        spelled = ([row.seq for row in derived], [row.tsvector for row in derived])
        altered = {row[0] for row in page if check_entry(row[:10]) is not None}
        count("text index", sum(seq not in altered for (seq,) in database.execute(SQL["wrong_words"], spelled)))
        count(
            "links",
            len(_read_links(database, low, page[-1][0]) ^ {arrow for row in derived for arrow in row.link_rows}),
        )
        low = page[-1][0]
    count("links", len(_read_links(database, low, _MAX_SEQ)))
    told = {(row[0], row[1]): row[2:] for row in database.execute(SQL["all_tallies"])}
    findings += compare_checksums({pair: (row[1], int(row[2])) for pair, row in told.items()}, sums)
    findings += _check_current(database, told)
    findings += _check_quarantines(database)
    named = {"labels": "labels differ from the log", "links": "links differ from the log",
             "text index": "entries differ from the log", "columns": "columns differ from the log",
             "near-duplicates": "marks of texts differ from the log"}  # fmt: skip
    findings += [
        Finding(where, f"{number} {named[where]}", repairable=True) for where, number in wrong.items() if number
    ]
    database.execute("ROLLBACK")
    return VerifyReport(versions, tuple(_truncate_findings(findings)))


def _read_pages(database: Database, progress: Progress | None) -> Iterator[list[Any]]:
    (total,) = fetch_single_row(database.execute(SQL["count_lines"]))
    seen, last = 0, _MIN_SEQ
    while page := database.execute(SQL["all_lines"], (last, _PAGE_SIZE), binary=True).fetchall():
        yield page
        seen, last = seen + len(page), page[-1][0]
        if progress is not None:
            progress(seen, max(total, seen))


def _derive_row(row: Sequence[Any]) -> PostgresLogRow | None:
    """What should stand beside a line, if the line can be read."""
    try:
        return build_row(parse_entry(row[9], row[0], row[8]), row[9].decode(), live=False)
    except (ValueError, KeyError, TypeError, AttributeError, LukasaError):
        return None


def _read_links(database: Database, low: int, high: int) -> set[tuple[Any, ...]]:
    return set(database.execute(SQL["links_between"], (low, high), binary=True))


def _check_current(database: Database, tallies: dict[tuple[str, str], Any]) -> Iterator[Finding]:
    for scope, kind, id, version, live in database.execute(SQL["wrongly_live"]):
        what = "counts as present but is not" if live else "counts as past but is not"
        yield Finding(f"{scope}/{kind}/{id} version {version}", what, repairable=True)
    counted = {(row[0], row[1]): row[2:] for row in database.execute(SQL["counts"])}
    for pair in sorted(set(tallies) | set(counted)):
        live, *texts = counted.get(pair, (0, 0, 0, 0, 0))
        row = tallies.get(pair, (0, 0, 0, 0, 0, 0, 0))
        if row[0] != live:
            yield Finding(f"{pair[0]}/{pair[1]}", f"{live} records are live, {row[0]} are counted", repairable=True)
        if tuple(row[3:]) != tuple(texts):
            yield Finding(f"{pair[0]}/{pair[1]}", "the lengths of its texts are not what is counted", repairable=True)


def _check_quarantines(database: Database) -> Iterator[Finding]:
    """Derives the quarantines anew into temporary tables, whose names come before the stored ones, and compares."""
    database.execute(SQL["shadow_veil"])
    database.execute(SQL["shadow_hidden"])
    quarantine.rebuild_hidden(PostgresQuarantineBackend(database))
    for name, what in (
        ("wrong_veils", "quarantines are not as the log tells"),
        ("wrong_hidden", "versions are wrongly hidden or shown"),
    ):
        (number,) = fetch_single_row(database.execute(SQL[name]))
        if number:
            yield Finding("quarantine", f"{number} {what}", repairable=True)
    database.execute("DROP TABLE pg_temp.veil, pg_temp.hidden")


def _truncate_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    more = 0
    for number, finding in enumerate(findings):
        if number < 5 * _MAX_FINDINGS:
            yield finding
        else:
            more += 1
    if more:
        yield Finding("log", f"and {more} more")


def reindex(database: Database, progress: Progress | None) -> None:
    """Rebuilds everything derived from the log, in one transaction that nobody writes beside."""
    _lock_store(database)
    ground = PostgresQuarantineBackend(database)
    database.execute(SQL["forget_all_links"])
    for page in _read_pages(database, progress):
        derived = [row for row in map(_derive_row, page) if row is not None]
        ground.execute_many(
            "derive_columns",
            [
                (row.seq, row.scope, row.deleted, row.token_count, row.labels, row.session, row.pair_keys, row.tsvector)
                for row in derived
            ],
        )
        ground.execute_many("insert_link", [arrow for row in derived for arrow in row.link_rows])
    database.execute("DELETE FROM hidden")
    database.execute("DELETE FROM veil")
    quarantine.rebuild_hidden(ground)
    database.execute(SQL["set_all_live"])
    # How many lines were written, and the sum of their digests, are the proof and stay as they are.
    database.execute(SQL["reset_counts"])
    counted = database.execute(SQL["counts"]).fetchall()
    ground.execute_many("keep_books", [(scope, kind, live, 0, 0, *texts) for scope, kind, live, *texts in counted])
    database.execute(SQL["drop_uncounted"])


def compact(database: Database, before: int, progress: Progress | None) -> int:
    """Drops superseded versions."""
    _lock_store(database)
    superseded = database.execute(SQL["superseded"], (before,), binary=True).fetchall()
    tables = vectors.list_tables(database)
    books = PostgresTallyChanges()
    database.execute(SQL["note_high_water"])
    for start in range(0, len(superseded), _PAGE_SIZE):
        chunk = superseded[start : start + _PAGE_SIZE]
        for _, scope, kind, digest, tokens in chunk:
            books.remove_version(scope, kind, digest, tokens, live=False)
        _delete_versions(database, [(scope, seq) for seq, scope, *_ in chunk], tables)
        if progress is not None:
            progress(start + len(chunk), len(superseded))
    PostgresQuarantineBackend(database).execute_many("keep_books", books.rows())
    return len(superseded)


def erase(
    database: Database, choose: Callable[[Reader], Sequence[Key]], write_receipt: Callable[[EraseResult], None]
) -> EraseResult:
    """Removes every version of the chosen records; ``receive`` writes the receipt in the same transaction."""
    _lock_store(database)
    ground = PostgresQuarantineBackend(database)
    keys = list(dict.fromkeys(choose(PostgresReader(WriterSnapshot(database), FULL_REACH))))
    tables = vectors.list_tables(database)
    books = PostgresTallyChanges()
    database.execute(SQL["note_high_water"])
    versions, by_kind = 0, dict[str, int]()
    for key in keys:
        if (key.scope, key.kind) == (SYSTEM, QUARANTINE):
            quarantine.lift_quarantine(ground, key)
        rows = ground.fetch_rows("rows_of_key", key.scope, key.kind, key.id)
        for seq, digest, tokens, live in rows:
            books.remove_version(key.scope, key.kind, digest, tokens, live=live)
            ground.execute_many("forget_answers", [(seq, seq)])
        _delete_versions(database, [(key.scope, row[0]) for row in rows], tables)
        if rows:
            versions += len(rows)
            by_kind[key.kind] = by_kind.get(key.kind, 0) + 1
    ground.execute_many("keep_books", books.rows())
    database.execute(SQL["drop_empty_tallies"])
    erased = EraseResult(sum(by_kind.values()), versions, by_kind)
    if versions:
        write_receipt(erased)
    return erased


def _lock_store(database: Database) -> None:
    """Has the whole store to itself from here on."""
    database.execute(SQL["enter"], (None, True, 0))


def _delete_versions(database: Database, positions: Sequence[tuple[str, int]], tables: Sequence[str]) -> None:
    with database.cursor() as cursor:
        for name in ("forget_links", "forget_hidden", "forget_line"):
            cursor.executemany(SQL[name], positions)
        for table in tables:
            cursor.executemany(f"DELETE FROM {table} WHERE scope = %s AND seq = %s", positions)  # noqa: S608 - our own table names
