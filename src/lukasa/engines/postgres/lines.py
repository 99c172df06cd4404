"""A line of the log as PostgreSQL keeps it: every column is derived from the line, here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from lukasa.clock import microseconds, to_iso
from lukasa.engine import MARKED_KINDS
from lukasa.engines.appending import scope_closed
from lukasa.engines.postgres.words import indexed_tokens, vector_of
from lukasa.engines.proof import checksum
from lukasa.likeness import marks_of
from lukasa.outcome import Conflict, Refused
from lukasa.record import Link, Record, Sealed, digest_of, stamp, unfold
from lukasa.scope import Reach

Place = tuple[str, str, str]


class Row(NamedTuple):
    """One row of the table ``log``, in the order of its columns, and the links that go to a table of their own."""

    seq: int
    scope: str
    kind: str
    id: str
    version: int
    author: str
    at: int
    moment: int
    deleted: bool
    live: bool
    tokens: int | None
    labels: list[str]
    session: str | None
    marks: list[int]
    words: str | None
    digest: bytes
    line: str
    links: tuple[Link, ...]

    @property
    def columns(self) -> tuple[object, ...]:
        return self[:-1]

    @property
    def copied(self) -> tuple[object, ...]:
        """Its columns as COPY takes them fastest."""
        labels, marks = (held or "{}" for held in (self.labels, self.marks))
        return (*self[:11], labels, self.session, marks, *self[14:-1])

    @property
    def arrows(self) -> list[tuple[object, ...]]:
        """Its rows in the table ``link``."""
        return [
            (self.scope, self.seq, link.relation, link.to.scope, link.to.kind, link.to.id)
            for link in dict.fromkeys(self.links)
        ]


def record_of(row: Row) -> Record:
    return unfold(row.line, row.seq, row.digest)


def row_of(record: Record, line: str, *, live: bool) -> Row:
    """The row that a record, read from its line, belongs in."""
    length, words = indexed(record.text)
    return Row(
        record.seq, record.scope, record.kind, record.id, record.version, record.author, microseconds(record.recorded_at),
        microseconds(record.moment), record.deleted, live, length, sorted(set(record.labels)), session_of(record.labels),
        marks_in(record.scope, record.kind, record.text), words, record.digest, line, record.links,
    )  # fmt: skip


def session_of(labels: Iterable[str]) -> str | None:
    """The session that a record was said in."""
    return next((label for label in labels if label.startswith("session=")), None)


def marks_in(scope: str, kind: str, text: str) -> list[int]:
    """The marks of a text, if those of its kind are marked."""
    return sorted(marks_of(text, scope, kind)) if kind in MARKED_KINDS and text else []


def indexed(text: str) -> tuple[int | None, str | None]:
    """How many tokens a text has, and the index entry of it."""
    if not text:
        return None, None
    tokens = indexed_tokens(text)
    return len(tokens), vector_of(tokens)


class Standing(NamedTuple):
    """What stands under a key: the newest version seen, and the newest number taken (hidden ones count)."""

    seq: int
    version: int
    taken: int
    created_at: str
    deleted: bool
    tokens: int | None


NOTHING = Standing(0, 0, 0, "", True, None)


def standing_of(row: Sequence[object]) -> tuple[Place, Standing]:
    """Reads one row of the statement ``standing``."""
    scope, kind, id, seq, version, taken, line, deleted, tokens, newest = row
    place = (str(scope), str(kind), str(id))
    assert isinstance(taken, int)
    if seq is None:
        return place, Standing(0, 0, taken, _created_at(str(newest)), True, None)
    assert isinstance(seq, int)
    assert isinstance(version, int)
    return place, Standing(seq, version, taken, _created_at(str(line)), bool(deleted), tokens)  # type: ignore[arg-type]  # an integer or null by its column


def _created_at(line: str) -> str:
    return to_iso(unfold(line, 0, b"").created_at)


class Books:
    """What a write adds up to, per scope and kind: live, versions, checksum, texts, tokens, past texts, past tokens."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], list[int]] = {}

    def of(self, scope: str, kind: str) -> list[int]:
        return self._changes.setdefault((scope, kind), [0] * 7)

    def added(self, row: Row) -> None:
        change = self.of(row.scope, row.kind)
        change[0] += row.live
        change[1] += 1
        change[2] += checksum(row.digest)
        self.text(row.scope, row.kind, row.tokens, +1, live=row.live)

    def dropped(self, scope: str, kind: str, digest: bytes, tokens: int | None, *, live: bool) -> None:
        change = self.of(scope, kind)
        change[0] -= live
        change[1] -= 1
        change[2] -= checksum(digest)
        self.text(scope, kind, tokens, -1, live=live)

    def text(self, scope: str, kind: str, tokens: int | None, sign: int, *, live: bool) -> None:
        """A text came to, or with a minus went from, what is live or what is past."""
        if tokens is not None:
            change = self.of(scope, kind)
            change[3 if live else 5] += sign
            change[4 if live else 6] += sign * tokens

    def moved(self, scope: str, kind: str, tokens: int | None, *, live: bool) -> None:
        """A text went from past to live, or back."""
        self.text(scope, kind, tokens, +1, live=live)
        self.text(scope, kind, tokens, -1, live=not live)

    def rows(self) -> list[tuple[object, ...]]:
        """In one order everywhere, so that nobody waits in a circle."""
        mask = (1 << 62) - 1
        return [
            (scope, kind, live, versions, total & mask, *texts)
            for (scope, kind), (live, versions, total, *texts) in sorted(self._changes.items())
        ]


class Drawn(NamedTuple):
    """A version on its way, and when its record was first written."""

    row: Row
    created_at: str

    @classmethod
    def of(cls, record: Record, line: str) -> Drawn:
        return cls(row_of(record, line, live=not record.deleted), to_iso(record.created_at))


class Sheet:
    """New rows on their way into the log: what they supersede, and what they add up to."""

    def __init__(self, standing: Iterable[tuple[Place, Standing]] = ()) -> None:
        self._standing = dict(standing)
        self._clear()

    def _clear(self) -> None:
        self._at: dict[int, int] = {}
        self.rows: list[Row] = []
        self.superseded: list[tuple[str, int]] = []
        self.books = Books()

    @property
    def places(self) -> list[Place]:
        """The keys it knows the standing of."""
        return list(self._standing)

    def stand_anew(self, standing: Iterable[tuple[Place, Standing]]) -> None:
        self._standing = dict(standing)

    def standing(self, place: Place) -> Standing:
        return self._standing.get(place, NOTHING)

    def draw(self, sealed: Sealed, seq: int, now: datetime, reach: Reach) -> Drawn | Refused | Conflict:
        """The next version of a record, or what is in the way."""
        draft, scope, kind, id, author, content, fresh = sealed
        if not reach.writes(scope):
            return scope_closed(scope)
        before = self.standing((scope, kind, id))
        expected = 0 if fresh and draft.expected is None else draft.expected
        if expected is not None and expected != (0 if before.deleted and expected == 0 else before.version):
            return Conflict(sealed.key, expected, before.version)
        recorded_at, version = to_iso(now), before.taken + 1
        created_at = before.created_at or recorded_at
        line = content[:-1] + stamp(version, created_at, recorded_at)
        at = microseconds(now)
        moment = at if draft.happened_at is None else microseconds(draft.happened_at)
        length, words = indexed(draft.text)
        labels = sorted(set(draft.labels)) if draft.labels else []
        row = Row(
            seq, scope, kind, id, version, author, at, moment, draft.deleted, not draft.deleted, length, labels,
            session_of(draft.labels), marks_in(scope, kind, draft.text), words, digest_of(line), line.decode(), draft.links,
        )  # fmt: skip
        return Drawn(row, created_at)

    def put(self, drawn: Drawn, *, hidden: bool = False) -> None:
        """Puts down one version: the newest of its key, an older one, or one that a quarantine hides."""
        row, created_at = drawn
        place = (row.scope, row.kind, row.id)
        before = self.standing(place)
        taken = max(before.taken, row.version)
        if hidden or row.version <= before.version:
            row = row._replace(live=False)
            self._standing[place] = before._replace(taken=taken)
        else:
            if not before.deleted:
                self._supersede(place, before)
            self._standing[place] = Standing(row.seq, row.version, taken, created_at, row.deleted, row.tokens)
        self._at[row.seq] = len(self.rows)
        self.rows.append(row)
        self.books.added(row)

    def _supersede(self, place: Place, before: Standing) -> None:
        self.books.of(place[0], place[1])[0] -= 1
        self.books.moved(place[0], place[1], before.tokens, live=False)
        if (at := self._at.get(before.seq)) is not None:
            self.rows[at] = self.rows[at]._replace(live=False)
        else:
            self.superseded.append((place[0], before.seq))

    def take(self) -> tuple[list[Row], list[tuple[str, int]], Books]:
        """Everything put down since the last time, to be written now."""
        taken = (self.rows, self.superseded, self.books)
        self._clear()
        return taken
