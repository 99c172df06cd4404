"""Lines on their way into the log: what they supersede, what they add up to, and the indexes that follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import apsw

from lukasa.engine import MARKED_KINDS
from lukasa.engines.proof import CHECKSUM_MASK, checksum
from lukasa.engines.sqlite.sql import SQL
from lukasa.likeness import marks_of

Place = tuple[str, str, str]
Mark = tuple[int, int, int, int, int, int, int]
Row = tuple[int, str, str, str, int, str, int, int, bytes, str]
MarkedText = tuple[int, str, str, str]


class Standing(NamedTuple):
    """What stands under a key: the newest version seen, and the newest number taken (hidden ones count)."""

    seq: int
    version: int
    taken: int
    created_at: str
    deleted: bool


NOTHING = Standing(seq=0, version=0, taken=0, created_at="", deleted=True)


class Stage:
    """Collects the lines of one transaction, then writes them and everything derived from them at once.

    Several writers may share a stage: each takes a ``mark`` first and can go ``back`` to it as if it had never come.
    """

    def __init__(self, database: apsw.Connection, *, careful: bool = False) -> None:
        self.database = database
        self.careful = careful  # look up even ids made a moment ago, for the case that a maker of ids repeats itself
        self.touched = False
        tip, veiled = database.execute(SQL["tip_and_veils"]).get
        self.next: int = tip + 1
        self.veiled = bool(veiled)
        self._clear()

    def settled(self) -> apsw.Connection:
        """The connection, once everything staged so far is written: for work that does more than append."""
        self.write()
        self.touched = True
        return self.database

    def _clear(self) -> None:
        self.first = self.next
        self._rows: list[Row] = []
        self._words: list[tuple[int, str]] = []
        self._not_added: list[tuple[str, str, int]] = []
        self._past: list[int] = []
        self._superseded: list[int] = []
        self._hidden: list[tuple[int, str]] = []
        self._earlier: list[tuple[Place, Standing | None]] = []
        self._standing: dict[Place, Standing] = {}
        self._labels = self._links = False

    def standing(self, place: Place) -> Standing:
        """What stands under a key, counting what is already on this stage."""
        if (known := self._standing.get(place)) is not None:
            return known
        newest = self.database.execute(SQL["newest_of_key"], place).get
        if newest is None:
            return NOTHING
        seq, version, created_at, deleted, hidden = newest
        if not hidden:
            return Standing(seq, version, version, created_at, bool(deleted))
        visible = self.database.execute(SQL["newest_visible_of_key"], place).get
        if visible is None:
            return Standing(0, 0, version, created_at, True)
        return Standing(visible[0], visible[1], version, visible[2], bool(visible[3]))

    def add_new(
        self, scope: str, kind: str, id: str, author: str, at: int, moment: int, digest: bytes, line: bytes, text: str
    ) -> None:
        """Puts down the first version of a record that cannot have another on this stage or in the log."""
        seq = self.next
        self.next = seq + 1
        self._rows.append((seq, scope, kind, id, 1, author, at, moment, digest, line.decode()))
        if text:
            self._words.append((seq, text))

    def add(
        self,
        place: Place,
        version: int,
        author: str,
        at: int,
        moment: int,
        digest: bytes,
        line: bytes,
        text: str,
        *,
        before: Standing,
        created_at: str,
        deleted: bool,
        veils: frozenset[str],
    ) -> None:
        """Puts down one version, newer or older than what stands under its key."""
        seq = self.next
        self.next = seq + 1
        self._rows.append((seq, *place, version, author, at, moment, digest, line.decode()))
        if text:
            self._words.append((seq, text))
        late = version <= before.version
        live = 0
        if veils or late:
            self._past.append(seq)
            self._hidden += [(seq, veil) for veil in veils]
            standing = before if late else before._replace(taken=version)
        else:
            standing = Standing(seq, version, version, created_at, deleted)
            live = before.deleted - deleted
            if not before.deleted:
                (self._past if before.seq >= self.first else self._superseded).append(before.seq)
            if deleted:
                self._past.append(seq)
        if live != 1:
            self._not_added.append((place[0], place[1], live - 1))
        self._earlier.append((place, self._standing.get(place)))
        self._standing[place] = standing

    def restart(self, position: int) -> None:
        """Goes on from a position after the database was rolled back to it."""
        self.next = position
        self._clear()

    def note(self, *, labels: bool, links: bool) -> None:
        """Says that a line has labels or links, so that their indexes follow."""
        self._labels |= labels
        self._links |= links

    def mark(self) -> Mark:
        return (
            len(self._rows), len(self._words), len(self._not_added),
            len(self._past), len(self._superseded), len(self._hidden), len(self._earlier),
        )  # fmt: skip

    def back(self, mark: Mark) -> None:
        """Takes off everything that was put down since the mark."""
        rows, words, not_added, past, superseded, hidden, earlier = mark
        for place, standing in reversed(self._earlier[earlier:]):
            if standing is None:
                del self._standing[place]
            else:
                self._standing[place] = standing
        del self._rows[rows:], self._words[words:], self._not_added[not_added:], self._earlier[earlier:]
        del self._past[past:], self._superseded[superseded:], self._hidden[hidden:]
        self.next = self.first + len(self._rows)

    def write(self) -> None:
        """Writes the lines and what is derived from them; the stage is then empty and goes on behind them."""
        if not self._rows:
            return
        span = (self.first, self.next - 1)
        for seq in self._superseded:
            SqliteGround(self.database).to_past(seq)
        self.database.executemany(SQL["insert_line"], self._rows)
        if self._past:
            self.database.executemany(SQL["insert_past"], [(seq,) for seq in self._past])
            self.database.executemany(SQL["hide"], self._hidden)
        if self._words and not self._past:
            self.database.executemany(SQL["add_words"], self._words)
        elif self._words:
            past = set(self._past)
            self.database.executemany(SQL["add_words"], [row for row in self._words if row[0] not in past])
            self.database.executemany(SQL["add_past_words"], [row for row in self._words if row[0] in past])
        if self._labels:
            self.database.execute(SQL["derive_labels"], span)
        add_marks(self.database, self._marked())
        if self._links:
            self.database.execute(SQL["derive_links"], span)
        self._keep_books()
        self._clear()

    def _marked(self) -> Iterable[MarkedText]:
        if MARKED_KINDS.isdisjoint({row[2] for row in self._rows}):
            return ()
        texts = ((self._rows[seq - self.first], text) for seq, text in self._words)
        return ((row[0], row[1], row[2], text) for row, text in texts if row[2] in MARKED_KINDS)

    def _keep_books(self) -> None:
        """Every line counts as one more live record, but for those that were noted as something else."""
        books = Books(self.database)
        for row in self._rows:
            books.note(row[1], row[2], row[8])
        for scope, kind, live in self._not_added:
            books.shift(scope, kind, live)
        books.close()

    def since(self, mark: Mark) -> list[Row]:
        """The lines put down since the mark."""
        return self._rows[mark[0] :]


def add_marks(database: apsw.Connection, texts: Iterable[MarkedText]) -> None:
    """Marks texts. In the order of the index, so that each of its pages is written once."""
    borne = sorted((mark, seq) for seq, scope, kind, text in texts for mark in marks_of(text, scope, kind))
    if borne:
        database.executemany(SQL["add_mark"], borne)


class Books:
    """Changes to the tallies of one transaction, written once per scope and kind."""

    def __init__(self, database: apsw.Connection) -> None:
        self._db = database
        self._changes: dict[tuple[str, str], list[int]] = {}

    def note(self, scope: str, kind: str, digest: bytes) -> None:
        """One version more, taken as one more live record until ``shift`` says otherwise."""
        change = self._of(scope, kind)
        change[0] += 1
        change[1] += 1
        change[2] += checksum(digest)

    def drop(self, scope: str, kind: str, digest: bytes) -> None:
        """One version less."""
        change = self._of(scope, kind)
        change[1] -= 1
        change[2] -= checksum(digest)

    def shift(self, scope: str, kind: str, live: int) -> None:
        """Records became live or ceased to be."""
        self._of(scope, kind)[0] += live

    def close(self) -> None:
        for (scope, kind), (live, versions, total) in self._changes.items():
            self._db.execute(SQL["add_to_tally"], (scope, kind, live, versions, total & CHECKSUM_MASK))

    def _of(self, scope: str, kind: str) -> list[int]:
        change = self._changes.get((scope, kind))
        if change is None:
            change = self._changes[scope, kind] = [0, 0, 0]
        return change


class SqliteGround:
    """The store in the middle of a write, for the rules that are the same on every engine."""

    def __init__(self, database: apsw.Connection) -> None:
        self._db = database

    def rows(self, name: str, *values: Any) -> list[Any]:
        return self._db.execute(SQL[name], values).fetchall()

    def each(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._db.executemany(SQL[name], rows)

    def to_past(self, seq: int) -> None:
        for name in ("forget_words", "insert_past", "remember_past_words"):
            self._db.execute(SQL[name], (seq,))
        self._db.execute(SQL["note_residue"])

    def to_present(self, seq: int) -> None:
        for name in ("forget_past_words", "delete_past", "remember_words"):
            self._db.execute(SQL[name], (seq,))
        self._db.execute(SQL["note_residue"])

    def count(self, scope: str, kind: str, live: int) -> None:
        self._db.execute(SQL["add_to_tally"], (scope, kind, live, 0, 0))
