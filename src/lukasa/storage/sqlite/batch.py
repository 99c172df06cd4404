"""Lines on their way into the log: what they supersede, what they add up to, and the indexes that follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import apsw

from lukasa.storage.engine import NEAR_DUPLICATE_KINDS
from lukasa.storage.integrity import CHECKSUM_MASK, checksum
from lukasa.storage.sqlite.sql import SQL
from lukasa.text.similarity import text_pair_keys

KeyTuple = tuple[str, str, str]
Savepoint = tuple[int, int, int, int, int, int, int]
LogRow = tuple[int, str, str, str, int, str, int, int, bytes, str]
TextRow = tuple[int, str, str, str]


class SqliteKeyState(NamedTuple):
    """What stands under a key: the newest version seen, and the newest number taken (hidden ones count)."""

    seq: int
    version: int
    highest_version: int
    created_at: str
    deleted: bool


NO_KEY_STATE = SqliteKeyState(seq=0, version=0, highest_version=0, created_at="", deleted=True)


class SqlitePendingBatch:
    """Collects the lines of one transaction, then writes them and everything derived from them at once.

    Several writers may share a stage: each takes a ``mark`` first and can go ``back`` to it as if it had never come.
    """

    def __init__(self, database: apsw.Connection, *, check_fresh_ids: bool = False) -> None:
        self.database = database
        self.checks_fresh_ids = (
            check_fresh_ids  # look up even ids made a moment ago, for the case that a maker of ids repeats itself
        )
        self.has_direct_writes = False
        tip, quarantines = database.execute(SQL["tip_and_veils"]).get
        self.next_seq: int = tip + 1
        self.has_quarantines = bool(quarantines)
        self._clear()

    def take_connection(self) -> apsw.Connection:
        """The connection, once everything staged so far is written: for work that does more than append."""
        self.flush()
        self.has_direct_writes = True
        return self.database

    def _clear(self) -> None:
        self.first_seq = self.next_seq
        self._rows: list[LogRow] = []
        self._texts: list[tuple[int, str]] = []
        self._live_corrections: list[tuple[str, str, int]] = []
        self._not_current: list[int] = []
        self._superseded: list[int] = []
        self._hidden: list[tuple[int, str]] = []
        self._replaced_states: list[tuple[KeyTuple, SqliteKeyState | None]] = []
        self._key_states: dict[KeyTuple, SqliteKeyState] = {}
        self._has_labels = self._has_links = False

    def get_key_state(self, key: KeyTuple) -> SqliteKeyState:
        """What stands under a key, counting what is already on this stage."""
        if (known := self._key_states.get(key)) is not None:
            return known
        newest = self.database.execute(SQL["newest_of_key"], key).get
        if newest is None:
            return NO_KEY_STATE
        seq, version, created_at, deleted, hidden = newest
        if not hidden:
            return SqliteKeyState(seq, version, version, created_at, bool(deleted))
        visible = self.database.execute(SQL["newest_visible_of_key"], key).get
        if visible is None:
            return SqliteKeyState(0, 0, version, created_at, True)
        return SqliteKeyState(visible[0], visible[1], version, visible[2], bool(visible[3]))

    def add_first_version(
        self, scope: str, kind: str, id: str, author: str, at: int, moment: int, digest: bytes, line: bytes, text: str
    ) -> None:
        """Puts down the first version of a record that cannot have another on this stage or in the log."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self._rows.append((seq, scope, kind, id, 1, author, at, moment, digest, line.decode()))
        if text:
            self._texts.append((seq, text))

    def add_version(
        self,
        key: KeyTuple,
        version: int,
        author: str,
        at: int,
        moment: int,
        digest: bytes,
        line: bytes,
        text: str,
        *,
        before: SqliteKeyState,
        created_at: str,
        deleted: bool,
        hidden_by: frozenset[str],
    ) -> None:
        """Puts down one version, newer or older than what stands under its key."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self._rows.append((seq, *key, version, author, at, moment, digest, line.decode()))
        if text:
            self._texts.append((seq, text))
        late = version <= before.version
        live = 0
        if hidden_by or late:
            self._not_current.append(seq)
            self._hidden += [(seq, veil) for veil in hidden_by]
            standing = before if late else before._replace(highest_version=version)
        else:
            standing = SqliteKeyState(seq, version, version, created_at, deleted)
            live = before.deleted - deleted
            if not before.deleted:
                (self._not_current if before.seq >= self.first_seq else self._superseded).append(before.seq)
            if deleted:
                self._not_current.append(seq)
        if live != 1:
            self._live_corrections.append((key[0], key[1], live - 1))
        self._replaced_states.append((key, self._key_states.get(key)))
        self._key_states[key] = standing

    def reset_to(self, position: int) -> None:
        """Goes on from a position after the database was rolled back to it."""
        self.next_seq = position
        self._clear()

    def note_indexed_parts(self, *, labels: bool, links: bool) -> None:
        """Says that a line has labels or links, so that their indexes follow."""
        self._has_labels |= labels
        self._has_links |= links

    def create_savepoint(self) -> Savepoint:
        return (
            len(self._rows), len(self._texts), len(self._live_corrections),
            len(self._not_current), len(self._superseded), len(self._hidden), len(self._replaced_states),
        )  # fmt: skip

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """Takes off everything that was put down since the mark."""
        rows, words, not_added, past, superseded, hidden, earlier = savepoint
        for place, standing in reversed(self._replaced_states[earlier:]):
            if standing is None:
                del self._key_states[place]
            else:
                self._key_states[place] = standing
        del self._rows[rows:], self._texts[words:], self._live_corrections[not_added:], self._replaced_states[earlier:]
        del self._not_current[past:], self._superseded[superseded:], self._hidden[hidden:]
        self.next_seq = self.first_seq + len(self._rows)

    def flush(self) -> None:
        """Writes the lines and what is derived from them; the stage is then empty and goes on behind them."""
        if not self._rows:
            return
        span = (self.first_seq, self.next_seq - 1)
        for seq in self._superseded:
            SqliteQuarantineBackend(self.database).mark_superseded(seq)
        self.database.executemany(SQL["insert_line"], self._rows)
        if self._not_current:
            self.database.executemany(SQL["insert_past"], [(seq,) for seq in self._not_current])
            self.database.executemany(SQL["hide"], self._hidden)
        if self._texts and not self._not_current:
            self.database.executemany(SQL["add_words"], self._texts)
        elif self._texts:
            past = set(self._not_current)
            self.database.executemany(SQL["add_words"], [row for row in self._texts if row[0] not in past])
            self.database.executemany(SQL["add_past_words"], [row for row in self._texts if row[0] in past])
        if self._has_labels:
            self.database.execute(SQL["derive_labels"], span)
        insert_pair_keys(self.database, self._select_near_duplicate_texts())
        if self._has_links:
            self.database.execute(SQL["derive_links"], span)
        self._write_tallies()
        self._clear()

    def _select_near_duplicate_texts(self) -> Iterable[TextRow]:
        if NEAR_DUPLICATE_KINDS.isdisjoint({row[2] for row in self._rows}):
            return ()
        texts = ((self._rows[seq - self.first_seq], text) for seq, text in self._texts)
        return ((row[0], row[1], row[2], text) for row, text in texts if row[2] in NEAR_DUPLICATE_KINDS)

    def _write_tallies(self) -> None:
        """Every line counts as one more live record, but for those that were noted as something else."""
        books = SqliteTallyChanges(self.database)
        for row in self._rows:
            books.add_version(row[1], row[2], row[8])
        for scope, kind, live in self._live_corrections:
            books.add_live(scope, kind, live)
        books.write()

    def rows_since(self, savepoint: Savepoint) -> list[LogRow]:
        """The lines put down since the mark."""
        return self._rows[savepoint[0] :]


def insert_pair_keys(database: apsw.Connection, texts: Iterable[TextRow]) -> None:
    """Marks texts. In the order of the index, so that each of its pages is written once."""
    borne = sorted((mark, seq) for seq, scope, kind, text in texts for mark in text_pair_keys(text, scope, kind))
    if borne:
        database.executemany(SQL["add_mark"], borne)


class SqliteTallyChanges:
    """Changes to the tallies of one transaction, written once per scope and kind."""

    def __init__(self, database: apsw.Connection) -> None:
        self._db = database
        self._changes: dict[tuple[str, str], list[int]] = {}

    def add_version(self, scope: str, kind: str, digest: bytes) -> None:
        """One version more, taken as one more live record until ``shift`` says otherwise."""
        change = self._changes_for(scope, kind)
        change[0] += 1
        change[1] += 1
        change[2] += checksum(digest)

    def remove_version(self, scope: str, kind: str, digest: bytes) -> None:
        """One version less."""
        change = self._changes_for(scope, kind)
        change[1] -= 1
        change[2] -= checksum(digest)

    def add_live(self, scope: str, kind: str, live: int) -> None:
        """Records became live or ceased to be."""
        self._changes_for(scope, kind)[0] += live

    def write(self) -> None:
        for (scope, kind), (live, versions, total) in self._changes.items():
            self._db.execute(SQL["add_to_tally"], (scope, kind, live, versions, total & CHECKSUM_MASK))

    def _changes_for(self, scope: str, kind: str) -> list[int]:
        change = self._changes.get((scope, kind))
        if change is None:
            change = self._changes[scope, kind] = [0, 0, 0]
        return change


class SqliteQuarantineBackend:
    """The store in the middle of a write, for the rules that are the same on every engine."""

    def __init__(self, database: apsw.Connection) -> None:
        self._db = database

    def fetch_rows(self, name: str, *values: Any) -> list[Any]:
        return self._db.execute(SQL[name], values).fetchall()

    def execute_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._db.executemany(SQL[name], rows)

    def mark_superseded(self, seq: int) -> None:
        for name in ("forget_words", "insert_past", "remember_past_words"):
            self._db.execute(SQL[name], (seq,))
        self._db.execute(SQL["note_residue"])

    def mark_current(self, seq: int) -> None:
        for name in ("forget_past_words", "delete_past", "remember_words"):
            self._db.execute(SQL[name], (seq,))
        self._db.execute(SQL["note_residue"])

    def add_live_count(self, scope: str, kind: str, live: int) -> None:
        self._db.execute(SQL["add_to_tally"], (scope, kind, live, 0, 0))
