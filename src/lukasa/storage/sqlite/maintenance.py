"""Keeping the store sound: proving it, rebuilding what is derived, dropping what is superseded, erasing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import apsw

from lukasa.errors import LukasaError
from lukasa.record import Key
from lukasa.scope import FULL_REACH, SYSTEM
from lukasa.storage import quarantine
from lukasa.storage.engine import (
    NEAR_DUPLICATE_KINDS,
    QUARANTINE,
    EraseResult,
    Finding,
    Progress,
    VerifyReport,
    split_into_chunks,
)
from lukasa.storage.integrity import check_entry, checksum, compare_checksums
from lukasa.storage.sqlite.batch import SqliteQuarantineBackend, SqliteTallyChanges, TextRow, insert_pair_keys
from lukasa.storage.sqlite.reader import SqliteReader
from lukasa.storage.sqlite.sql import SQL, query_rows
from lukasa.storage.sqlite.store_file import load_migrations
from lukasa.text.similarity import text_pair_keys

_SELECT_SCHEMA = "SELECT type, name, sql FROM sqlite_schema"
_PAGE_SIZE = 2000
_TEXTS_PER_CHUNK = 5000
_MIN_SEQ, _MAX_SEQ = -(2**63), 2**63 - 1
_MAX_FINDINGS = 20


def verify(database: apsw.Connection, progress: Progress | None, *, writable: bool) -> VerifyReport:
    """Every check on its own, so that damage in one place hides nothing in another."""
    findings: list[Finding] = []
    versions = 0

    def run_check(where: str, check: Callable[[], Iterable[Finding]]) -> None:
        try:
            found = list(check())
        except (apsw.BusyError, apsw.LockedError, apsw.InterruptError):
            raise  # not a matter of damage
        except apsw.ReadOnlyError:
            return  # the text index can be compared with the log only where it could be written
        except apsw.Error as error:
            found = [Finding(where, f"the database is damaged here ({error}); what was readable was checked")]
        except (ValueError, TypeError, KeyError, AttributeError, LukasaError) as error:
            found = [Finding(where, f"what is stored here cannot be read ({error})")]
        findings.extend(found[:_MAX_FINDINGS])
        if len(found) > _MAX_FINDINGS:
            findings.append(Finding(where, f"and {len(found) - _MAX_FINDINGS} more"))

    def check_entries() -> Iterator[Finding]:
        nonlocal versions
        books: dict[tuple[str, str], list[int]] = {}
        for row in _read_entries(database, progress):
            versions += 1
            if (finding := check_entry(row)) is not None:
                yield finding
            book = books.setdefault((row[1], row[2]), [0, 0])
            book[0] += 1
            book[1] += checksum(row[8]) if isinstance(row[8], bytes) else 0
        told = {(row[0], row[1]): (row[3], row[4]) for row in database.execute(SQL["all_tallies"])}
        yield from compare_checksums(told, {pair: (count, total) for pair, (count, total) in books.items()})

    run_check("schema", lambda: _check_schema(database))
    run_check("database file", lambda: _check_file(database))
    database.execute("BEGIN")  # the books are checked against the lines of the same moment
    run_check("log", check_entries)
    run_check("present and past", lambda: _check_current(database))
    run_check("quarantine", lambda: _check_quarantines(database))
    run_check("labels", lambda: _check_count(database, "wrong_labels", "labels", "labels differ from the log"))
    run_check("near-duplicates", lambda: _check_pair_keys(database))
    run_check("links", lambda: _check_count(database, "wrong_links", "links", "links differ from the log"))
    if database.in_transaction:
        with suppress(apsw.Error):  # it was for reading only; a damaged database may refuse even to end it
            database.execute("ROLLBACK")
    if writable:
        for name in ("words", "past_words"):
            run_check("text index", lambda name=name: _check_text_index(database, name))  # type: ignore[misc]  # a default argument binds the loop variable
    return VerifyReport(versions, tuple(findings))


def _read_entries(database: apsw.Connection, progress: Progress | None) -> Iterator[tuple[Any, ...]]:
    total = database.execute(SQL["count_lines"]).get
    seen, last = 0, -(2**63)
    while page := list(query_rows(database, "all_lines", (last, _PAGE_SIZE))):
        if page[-1][0] <= last:
            raise apsw.CorruptError("positions do not grow")  # pages that changed places can lead in circles
        yield from (tuple(map(_decode_text, row[:-2])) + row[-2:] for row in page)
        seen, last = seen + len(page), page[-1][0]
        if progress is not None:
            progress(seen, total)


def _decode_text(value: Any) -> Any:
    """Text as far as it is text: damage may have made it anything."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


@cache
def _expected_schema() -> frozenset[tuple[Any, ...]]:
    """What the migrations make, table by table."""
    database = apsw.Connection(":memory:")
    for _, script in load_migrations():
        database.execute(script)
    return frozenset(database.execute(_SELECT_SCHEMA))


def _check_schema(database: apsw.Connection) -> Iterator[Finding]:
    found = frozenset(database.execute(_SELECT_SCHEMA))
    for _, name, _ in sorted(_expected_schema() ^ found, key=repr):
        yield Finding("schema", f"{name!r} is not as Lukasa made it")


def _check_file(database: apsw.Connection) -> Iterator[Finding]:
    for (message,) in database.execute("PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Finding("database file", message)


def _check_current(database: apsw.Connection) -> Iterator[Finding]:
    for name, what in (
        ("wrongly_present", "counts as present but is not"),
        ("wrongly_past", "counts as past but is not"),
    ):
        for scope, kind, id, version in database.execute(SQL[name]):
            yield Finding(f"{scope}/{kind}/{id} version {version}", what, repairable=True)
    yield from _check_count(database, "stray_past", "present and past", "entries belong to no version")
    told = {(row[0], row[1]): row[2] for row in database.execute(SQL["all_tallies"])}
    live = {(scope, kind): count for scope, kind, count in database.execute(SQL["live_counts"])}
    for pair, count in told.items():
        if live.get(pair, 0) != count:
            yield Finding(
                f"{pair[0]}/{pair[1]}",
                f"{live.get(pair, 0)} records are live, {count} are counted",
                repairable=True,
            )


def _check_quarantines(database: apsw.Connection) -> Iterator[Finding]:
    """Derives the quarantines anew into temporary tables, whose names come before the stored ones, and compares."""
    database.execute(SQL["shadow_veil"])
    database.execute(SQL["shadow_hidden"])
    try:
        quarantine.rebuild_hidden(SqliteQuarantineBackend(database))
        yield from _check_count(database, "wrong_veils", "quarantine", "quarantines are not as the log tells")
        yield from _check_count(database, "wrong_hidden", "quarantine", "versions are wrongly hidden or shown")
    finally:
        database.execute("DROP TABLE temp.veil")
        database.execute("DROP TABLE temp.hidden")


def _check_count(database: apsw.Connection, name: str, where: str, what: str) -> Iterator[Finding]:
    if count := database.execute(SQL[name]).get:
        yield Finding(where, f"{count} {what}", repairable=True)


def _check_pair_keys(database: apsw.Connection) -> Iterator[Finding]:
    """Compares by count and sum, which takes no room however many there are."""
    told = _count_and_sum(
        (mark, seq)
        for seq, scope, kind, text in _select_near_duplicate_texts(database)
        for mark in text_pair_keys(text, scope, kind)
    )
    if told != _count_and_sum(query_rows(database, "all_marks")):
        yield Finding("near-duplicates", "the marks of texts differ from the log", repairable=True)


def _count_and_sum(pair_keys: Iterable[tuple[int, int]]) -> tuple[int, int]:
    count = total = 0
    for mark, seq in pair_keys:
        count += 1
        total += hash((mark, seq))
    return count, total


def _select_near_duplicate_texts(
    database: apsw.Connection, first: int = _MIN_SEQ, last: int = _MAX_SEQ
) -> Iterable[TextRow]:
    return query_rows(database, "marked_texts", (first, last, json.dumps(sorted(NEAR_DUPLICATE_KINDS))))


def _check_text_index(database: apsw.Connection, name: str) -> Iterator[Finding]:
    try:
        database.execute(SQL[f"check_{name}"])
    except apsw.CorruptError:
        yield Finding("text index", f"the index {name!r} differs from the log", repairable=True)


def reindex(database: apsw.Connection, progress: Progress | None) -> None:
    """Rebuilds all derived state inside the caller's transaction."""
    steps = 6

    def report_progress(done: int) -> None:
        if progress is not None:
            progress(done, steps)

    database.execute("REINDEX log")
    for table in ("past", "veil", "hidden", "label", "near", "link"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table names
    whole = (_MIN_SEQ, _MAX_SEQ)
    database.execute(SQL["derive_labels"], whole)
    database.execute(SQL["derive_links"], whole)
    for chunk in split_into_chunks(_select_near_duplicate_texts(database), _TEXTS_PER_CHUNK):
        insert_pair_keys(database, chunk)
    report_progress(2)
    quarantine.rebuild_hidden(SqliteQuarantineBackend(database))
    database.execute(SQL["derive_past"])
    report_progress(3)
    database.execute(SQL["rebuild_words"])
    report_progress(5)
    database.execute(SQL["rebuild_past_words"])
    database.execute(SQL["clear_residue"])
    # How many lines were written, and the sum of their digests, are the proof and stay as they are.
    database.execute(SQL["reset_live"])
    report_progress(steps)


_DERIVED_OBJECTS = ("past", "veil", "hidden", "hidden_by_author", "label", "near", "link", "log_by_key", "log_by_kind")


def rebuild_damaged(database: apsw.Connection, progress: Progress | None) -> None:
    """Rebuilds all derived state where even the pages that hold it are damaged.

    Such pages cannot be emptied one by one. Their tables and indexes are struck from the schema, made anew and filled;
    the pages themselves belong to nobody then, until the caller rewrites the file.
    """
    names = ", ".join(f"'{name}'" for name in _DERIVED_OBJECTS)
    chosen = f"name IN ({names}) OR tbl_name IN ('past', 'veil', 'hidden', 'label', 'near', 'link')"
    made = [sql for (sql,) in database.execute(f"SELECT sql FROM sqlite_schema WHERE ({chosen}) AND sql IS NOT NULL")]  # noqa: S608 - our own names
    database.execute("PRAGMA writable_schema = ON").fetchall()
    try:
        database.execute(f"DELETE FROM sqlite_schema WHERE {chosen}")  # noqa: S608 - our own names
    finally:
        database.execute("PRAGMA writable_schema = RESET").fetchall()
    for sql in made:
        database.execute(str(sql))
    reindex(database, progress)


def compact(database: apsw.Connection, before: int, progress: Progress | None) -> int:
    """Drops superseded versions inside the caller's transaction."""
    superseded = list(query_rows(database, "superseded", (before,)))
    models = [model for (model,) in database.execute(SQL["vector_models"])]
    books = SqliteTallyChanges(database)
    database.execute(SQL["note_high_water"])
    for done, (seq, scope, kind, digest) in enumerate(superseded, 1):
        books.remove_version(scope, kind, digest)
        _delete_version(database, seq, scope, models)
        if progress is not None and done % _PAGE_SIZE == 0:
            progress(done, len(superseded))
    books.write()
    if superseded:
        database.execute(SQL["rebuild_past_words"])
        if database.execute(SQL["residue"]).get:  # what is dropped for good leaves no words behind either
            database.execute(SQL["rebuild_words"])
            database.execute(SQL["clear_residue"])
    return len(superseded)


def erase(database: apsw.Connection, choose: Callable[[SqliteReader], Sequence[Key]]) -> EraseResult:
    """Removes every version of the chosen records, and what the text index remembers of them."""
    keys = list(dict.fromkeys(choose(SqliteReader(database, FULL_REACH))))
    models = [model for (model,) in database.execute(SQL["vector_models"])]
    for table in ("words", "past_words"):
        database.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)")  # noqa: S608 - our own table names
    books = SqliteTallyChanges(database)
    database.execute(SQL["note_high_water"])
    versions, by_kind = 0, dict[str, int]()
    for key in keys:
        if (key.scope, key.kind) == (SYSTEM, QUARANTINE):
            quarantine.lift_quarantine(SqliteQuarantineBackend(database), key)
        versions_of = list(query_rows(database, "rows_of_key", (key.scope, key.kind, key.id)))
        for seq, digest, past in versions_of:
            database.execute(SQL["forget_past_words" if past else "forget_words"], (seq,))
            books.remove_version(key.scope, key.kind, digest)
            books.add_live(key.scope, key.kind, 0 if past else -1)
            _delete_version(database, seq, key.scope, models)
            database.execute(SQL["forget_answers"], (seq,))
        if versions_of:
            versions += len(versions_of)
            by_kind[key.kind] = by_kind.get(key.kind, 0) + 1
    books.write()
    database.execute(SQL["drop_empty_tallies"])
    if versions and database.execute(SQL["residue"]).get:
        # Ordinary updates leave old words behind in the index until it merges; rebuilding leaves none.
        database.execute(SQL["rebuild_words"])
        database.execute(SQL["rebuild_past_words"])
        database.execute(SQL["clear_residue"])
    for table in ("words", "past_words"):
        database.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 0)")  # noqa: S608 - our own table names
    return EraseResult(sum(by_kind.values()), versions, by_kind)


def _delete_version(database: apsw.Connection, seq: int, scope: str, models: Iterable[str]) -> None:
    database.execute(SQL["forget_labels"], (seq, scope))
    for _, _, kind, text in list(_select_near_duplicate_texts(database, seq, seq)):
        database.executemany(SQL["forget_mark"], [(mark, seq) for mark in text_pair_keys(text, scope, kind)])
    database.execute(SQL["forget_links"], (seq,))
    for model in models:
        database.execute(SQL["forget_vectors"], (model, seq))
    database.execute(SQL["forget_hidden"], (seq,))
    database.execute(SQL["delete_past"], (seq,))
    database.execute(SQL["forget_line"], (seq,))
