"""Maintenance of a SQLite store: verify, rebuild, compact and erase."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import apsw

from lukasa.core.record import Key
from lukasa.core.scope import FULL_REACH, SYSTEM
from lukasa.errors import LukasaError
from lukasa.storage import quarantine
from lukasa.storage.append import TallyChanges
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
    split_into_chunks,
)
from lukasa.storage.integrity import Fingerprint, check_entry, compare_checksums, find_damaged
from lukasa.storage.sqlite.append import SqliteQuarantineBackend
from lukasa.storage.sqlite.reader import SqliteReader
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.store_file import MIGRATIONS, register_functions
from lukasa.storage.sqlite.writer import TextRow, insert_pair_keys
from lukasa.text.terms import text_pair_keys

_PAGE_SIZE = 2000
_TEXTS_PER_CHUNK = 5000
_MIN_SEQ, _MAX_SEQ = -(2**63), 2**63 - 1
_MAX_FINDINGS = 20
_DERIVED_TABLES = ("not_current", "quarantine", "hidden", "label", "duplicate_key", "link")


def _query_rows(database: apsw.Connection, name: str, values: tuple[Any, ...] = ()) -> Iterable[Any]:
    """Run a named statement. The rows are untyped, because SQLite's columns have no static types."""
    return database.execute(SQL[name], values)


def verify(
    database: apsw.Connection,
    progress: Progress | None,
    near_duplicate_kinds: frozenset[str],
    find_fault: FindFault | None = None,
    *,
    writable: bool,
) -> VerifyReport:
    """Run every check separately, so that damage in one place does not conceal damage in another."""
    check = _Verification(database, progress, near_duplicate_kinds, find_fault)
    check.run("schema", check.check_schema)
    check.run("database file", check.check_file)
    database.execute("BEGIN")  # counts and entries are compared at the same moment
    check.run("log", check.check_entries)
    check.run("current versions", check.check_current)
    check.run("quarantine", check.check_quarantines)
    check.run("labels", lambda: check.check_count("wrong_labels", "labels", "labels differ from the log"))
    check.run("near-duplicates", check.check_pair_keys)
    check.run("links", lambda: check.check_count("wrong_links", "links", "links differ from the log"))
    check.run("vectors", check.check_vectors)
    if database.in_transaction:
        with suppress(apsw.Error):  # it only read; a damaged database may even refuse the rollback
            database.execute("ROLLBACK")
    if writable:
        check.run("text index", lambda: check.check_text_index("words"))
        check.run("text index", lambda: check.check_text_index("past_words"))
    return VerifyReport(check.versions, tuple(check.findings))


class _Verification:
    """The checks of one ``verify`` and what they found."""

    def __init__(
        self,
        database: apsw.Connection,
        progress: Progress | None,
        near_duplicate_kinds: frozenset[str],
        find_fault: FindFault | None,
    ) -> None:
        self._db = database
        self._find_fault = find_fault
        self._progress = progress
        self._near_duplicate_kinds = near_duplicate_kinds
        self.findings: list[Finding] = []
        self.versions = 0

    def run(self, where: str, check: Callable[[], Iterable[Finding]]) -> None:
        """Run one check; damage that stops it becomes a finding."""
        try:
            found = list(check())
        except (apsw.BusyError, apsw.LockedError, apsw.InterruptError):
            raise  # not damage
        except apsw.ReadOnlyError:
            return  # the text index can only be compared with the log where it could be written
        except apsw.Error as error:
            found = [Finding(where, f"the database is damaged here ({error}); what was readable was checked")]
        except (ValueError, TypeError, KeyError, AttributeError, LukasaError) as error:
            found = [Finding(where, f"what is stored here cannot be read ({error})")]
        self.findings += found[:_MAX_FINDINGS]
        if len(found) > _MAX_FINDINGS:
            self.findings.append(Finding(where, f"and {len(found) - _MAX_FINDINGS} more"))

    def check_schema(self) -> Iterator[Finding]:
        found = frozenset(self._db.execute(SQL["select_schema"]))
        new = apsw.Connection(":memory:")
        register_functions(new)
        for script in MIGRATIONS.after(0):
            new.execute(script)
        for _, name, _ in sorted(frozenset(new.execute(SQL["select_schema"])) ^ found, key=repr):
            yield Finding("schema", f"{name!r} is not as Lukasa made it")

    def check_file(self) -> Iterator[Finding]:
        for (message,) in self._db.execute("PRAGMA integrity_check(20)"):
            if message != "ok":
                yield Finding("database file", message)

    def check_entries(self) -> Iterator[Finding]:
        """Check every entry, then the counts and checksums of all."""
        fingerprint = Fingerprint()
        total = self._db.execute(SQL["count_entries"]).get
        for page in read_pages(self._db):
            for row in page:
                self.versions += 1
                if (finding := check_entry(row, self._find_fault)) is not None:
                    yield finding
                fingerprint.add(row[1], row[2], row[8] if isinstance(row[8], bytes) else b"")
            if self._progress is not None:
                self._progress(self.versions, total)
        expected = {(row[0], row[1]): (row[3], row[4]) for row in self._db.execute(SQL["all_tallies"])}
        yield from compare_checksums(expected, fingerprint)

    def check_current(self) -> Iterator[Finding]:
        for name, what in (
            ("wrongly_current", "counts as current but is not"),
            ("wrongly_not_current", "counts as superseded but is not"),
        ):
            for scope, kind, id, version in self._db.execute(SQL[name]):
                yield Finding(f"{scope}/{kind}/{id} version {version}", what, repairable=True)
        yield from self.check_count("stray_not_current", "current versions", "entries belong to no version")
        actual = {(scope, kind): count for scope, kind, count in self._db.execute(SQL["live_counts"])}
        for scope, kind, counted, *_ in self._db.execute(SQL["all_tallies"]):
            live = actual.get((scope, kind), 0)
            if live != counted:
                yield Finding(f"{scope}/{kind}", f"{live} records are live, {counted} are counted", repairable=True)

    def check_quarantines(self) -> Iterator[Finding]:
        """Rebuild the quarantines in temporary tables, which hide the stored ones of the same names, and compare."""
        self._db.execute(SQL["shadow_quarantine"])
        self._db.execute(SQL["shadow_hidden"])
        try:
            quarantine.rebuild_hidden(SqliteQuarantineBackend(self._db))
            yield from self.check_count("wrong_quarantines", "quarantine", "quarantines differ from the log")
            yield from self.check_count("wrong_hidden", "quarantine", "versions are wrongly hidden or shown")
        finally:
            self._db.execute(SQL["drop_shadow_quarantine"])
            self._db.execute(SQL["drop_shadow_hidden"])

    def check_pair_keys(self) -> Iterator[Finding]:
        """Compare by count and sum, which takes constant memory."""
        expected = _count_and_sum(
            (pair_key, seq)
            for seq, scope, kind, text in _select_near_duplicate_texts(self._db, self._near_duplicate_kinds)
            for pair_key in text_pair_keys(text, scope, kind)
        )
        if expected != _count_and_sum(_query_rows(self._db, "all_duplicate_keys")):
            yield Finding("near-duplicates", "the near-duplicate keys differ from the log", repairable=True)

    def check_vectors(self) -> Iterator[Finding]:
        for model, damaged in _find_damaged_vectors(self._db):
            what = f"{len(damaged)} vectors of {model} do not match their checksums"
            yield Finding("vectors", what, repairable=True)
        for (model,) in list(self._db.execute(SQL["vector_models"])):
            from lukasa.storage.sqlite.vectors import find_wrong_blocks  # loads numpy

            if wrong := find_wrong_blocks(self._db, model):
                what = f"{len(wrong)} blocks of sign-bit codes of {model} differ from the vectors"
                yield Finding("vectors", what, repairable=True)

    def check_text_index(self, name: str) -> Iterator[Finding]:
        try:
            self._db.execute(SQL[f"check_{name}"])
        except apsw.CorruptError:
            yield Finding("text index", f"the index {name!r} differs from the log", repairable=True)

    def check_count(self, name: str, where: str, what: str) -> Iterator[Finding]:
        """Report the count of a statement unless it is zero."""
        if count := self._db.execute(SQL[name]).get:
            yield Finding(where, f"{count} {what}", repairable=True)


def _find_damaged_vectors(database: apsw.Connection) -> Iterator[tuple[str, list[int]]]:
    """Yield the models that have damaged vectors, and the positions of these."""
    for (model,) in list(database.execute(SQL["vector_models"])):
        from lukasa.storage.sqlite.vectors import find_damaged_vectors  # loads numpy

        rows = split_into_chunks(_query_rows(database, "vectors_after", (model, 0)), _PAGE_SIZE)
        if damaged := [seq for chunk in rows for seq in find_damaged_vectors(chunk)]:
            yield model, damaged


def read_pages(database: apsw.Connection) -> Iterator[list[Any]]:
    """Yield the entries of the log in pages."""
    last = _MIN_SEQ
    while page := list(_query_rows(database, "all_entries", (last, _PAGE_SIZE))):
        if page[-1][0] <= last:
            raise apsw.CorruptError("positions do not grow")  # pages that changed places can lead in circles
        yield [(*map(_decode_text, row[:-2]), *row[-2:]) for row in page]
        last = page[-1][0]


def set_aside(database: apsw.Connection, find_fault: FindFault | None) -> list[DamagedEntry]:
    """Remove the damaged entries, inside the caller's transaction."""
    found, sound = find_damaged(read_pages(database), find_fault)
    changes = TallyChanges()
    changes.remove_damaged(found, sound, {row[:2]: row[3:5] for row in _query_rows(database, "all_tallies")})
    database.execute(SQL["note_high_water"])
    models = [model for (model,) in database.execute(SQL["vector_models"])]
    for entry in found:
        for model in models:
            database.execute(SQL["delete_vectors"], (model, entry.seq))
        database.execute(SQL["delete_entry"], (entry.seq,))
    _repack_sketches(database, models, [entry.seq for entry in found])
    database.executemany(SQL["add_to_tally"], changes.rows())
    database.execute(SQL["delete_empty_tallies"])
    return found


def _decode_text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _count_and_sum(pair_keys: Iterable[tuple[int, int]]) -> tuple[int, int]:
    count = total = 0
    for pair_key, seq in pair_keys:
        count += 1
        total += hash((pair_key, seq))
    return count, total


def _select_near_duplicate_texts(
    database: apsw.Connection, kinds: frozenset[str], first: int = _MIN_SEQ, last: int = _MAX_SEQ
) -> Iterable[TextRow]:
    return _query_rows(database, "near_duplicate_texts", (first, last, json.dumps(sorted(kinds))))


def reindex(database: apsw.Connection, progress: Progress | None, near_duplicate_kinds: frozenset[str]) -> None:
    """Rebuild all derived state inside the caller's transaction."""
    steps = 6

    def report_progress(done: int) -> None:
        if progress is not None:
            progress(done, steps)

    database.execute("REINDEX log")
    for table in _DERIVED_TABLES:
        database.execute(SQL["delete_all"].format(table=table))
    database.execute(SQL["derive_labels"], (_MIN_SEQ, _MAX_SEQ))
    database.execute(SQL["derive_links"], (_MIN_SEQ, _MAX_SEQ))
    for chunk in split_into_chunks(_select_near_duplicate_texts(database, near_duplicate_kinds), _TEXTS_PER_CHUNK):
        insert_pair_keys(database, chunk)
    report_progress(2)
    quarantine.rebuild_hidden(SqliteQuarantineBackend(database))
    database.execute(SQL["derive_not_current"])
    report_progress(3)
    database.execute(SQL["clear_unindexed"])
    database.execute(SQL["rebuild_words"])
    report_progress(5)
    database.execute(SQL["rebuild_past_words"])
    database.execute(SQL["clear_residue"])
    # The number of versions and their checksum prove that the log is complete, so they stay as they are.
    database.execute(SQL["reset_live"])
    for model, damaged in list(_find_damaged_vectors(database)):
        database.execute(SQL["delete_vectors_from"], (model, damaged[0]))
        database.execute(SQL["raise_vector_edition"], (model,))
    for (model,) in list(database.execute(SQL["vector_models"])):
        from lukasa.storage.sqlite.vectors import rebuild_sketches  # loads numpy

        rebuild_sketches(database, model)
    report_progress(steps)


def rebuild_damaged(database: apsw.Connection, progress: Progress | None, near_duplicate_kinds: frozenset[str]) -> None:
    """Rebuild all derived state where even its pages are damaged.

    Such pages cannot be emptied one by one. Their tables and indexes are removed from the schema, created again and
    filled; the old pages are lost until the caller rewrites the file.
    """
    tables = ", ".join(f"'{name}'" for name in _DERIVED_TABLES)
    made = [sql for (sql,) in database.execute(SQL["schema_of_derived"].format(tables=tables))]
    database.execute("PRAGMA writable_schema = ON").fetchall()
    try:
        database.execute(SQL["forget_derived"].format(tables=tables))
    finally:
        database.execute("PRAGMA writable_schema = RESET").fetchall()
    for sql in made:
        database.execute(str(sql))
    reindex(database, progress, near_duplicate_kinds)


def compact(
    database: apsw.Connection, before: int, progress: Progress | None, near_duplicate_kinds: frozenset[str]
) -> int:
    """Drop superseded versions inside the caller's transaction."""
    superseded = list(_query_rows(database, "superseded", (before,)))
    models = [model for (model,) in database.execute(SQL["vector_models"])]
    changes = TallyChanges()
    database.execute(SQL["note_high_water"])
    for done, (seq, scope, kind, digest) in enumerate(superseded, 1):
        changes.remove_version(scope, kind, digest, live=0)
        _delete_version(database, seq, scope, models, near_duplicate_kinds)
        if progress is not None and done % _PAGE_SIZE == 0:
            progress(done, len(superseded))
    _repack_sketches(database, models, [row[0] for row in superseded])
    database.executemany(SQL["add_to_tally"], changes.rows())
    if superseded:
        database.execute(SQL["rebuild_past_words"])
        if database.execute(SQL["has_residue"]).get:  # dropped versions leave no words in the index either
            database.execute(SQL["rebuild_words"])
            database.execute(SQL["clear_residue"])
    return len(superseded)


def erase(database: apsw.Connection, choose: ChooseErased, near_duplicate_kinds: frozenset[str]) -> EraseResult:
    """Remove the chosen records and versions, and their words from the text index."""
    chosen = group_erased(choose(SqliteReader(database, FULL_REACH)))
    models = [model for (model,) in database.execute(SQL["vector_models"])]
    for table in ("words", "past_words"):
        database.execute(SQL["secure_deletes"].format(table=table, on=1))
    changes = TallyChanges()
    database.execute(SQL["note_high_water"])
    erased, by_kind, restored = list[int](), dict[str, int](), list[Key]()
    for key, positions in chosen.items():
        if (key.scope, key.kind) == (SYSTEM, QUARANTINE):
            quarantine.lift_quarantine(SqliteQuarantineBackend(database), key)
        rows = list(_query_rows(database, "versions_to_erase", (key.scope, key.kind, key.id)))
        removed = [row for row in rows if positions is None or row[0] in positions]
        for seq, digest, not_current in removed:
            database.execute(SQL["unindex_past_text" if not_current else "unindex_text"], (seq,))
            changes.remove_version(key.scope, key.kind, digest, live=not not_current)
            _delete_version(database, seq, key.scope, models, near_duplicate_kinds)
            database.execute(SQL["clear_idempotency"], (seq,))
        erased += [row[0] for row in removed]
        if len(removed) < len(rows):
            restored.append(key)
        elif rows:
            by_kind[key.kind] = by_kind.get(key.kind, 0) + 1
    _repack_sketches(database, models, erased)
    database.executemany(SQL["add_to_tally"], changes.rows())
    quarantine.restore_current(SqliteQuarantineBackend(database), restored)
    database.execute(SQL["delete_empty_tallies"])
    if erased and database.execute(SQL["has_residue"]).get:
        # Ordinary updates leave old words in the index until it merges; a rebuild leaves none.
        database.execute(SQL["rebuild_words"])
        database.execute(SQL["rebuild_past_words"])
        database.execute(SQL["clear_residue"])
    for table in ("words", "past_words"):
        database.execute(SQL["secure_deletes"].format(table=table, on=0))
    return EraseResult(sum(by_kind.values()), len(erased), by_kind, restored=len(restored))


def _repack_sketches(database: apsw.Connection, models: Sequence[str], seqs: Sequence[int]) -> None:
    """Leave no sketch of deleted vectors in the blocks."""
    if models and seqs:
        from lukasa.storage.sqlite.vectors import repack_sketches  # loads numpy

        for model in models:
            repack_sketches(database, model, seqs)


def _delete_version(
    database: apsw.Connection, seq: int, scope: str, models: Iterable[str], near_duplicate_kinds: frozenset[str]
) -> None:
    database.execute(SQL["delete_labels"], (seq, scope))
    for _, _, kind, text in list(_select_near_duplicate_texts(database, near_duplicate_kinds, seq, seq)):
        pair_keys = text_pair_keys(text, scope, kind)
        database.executemany(SQL["delete_duplicate_key"], [(pair_key, seq) for pair_key in pair_keys])
    database.execute(SQL["delete_links"], (seq,))
    for model in models:
        database.execute(SQL["delete_vectors"], (model, seq))
    database.execute(SQL["delete_hidden"], (seq,))
    database.execute(SQL["delete_not_current"], (seq,))
    database.execute(SQL["delete_entry"], (seq,))
