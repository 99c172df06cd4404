"""A line of the log as PostgreSQL keeps it: every column is derived from the line, here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from lukasa.clock import to_iso, to_microseconds
from lukasa.outcome import Conflict, Refused
from lukasa.record import Link, Record, ValidatedDraft, digest_of, entry_suffix, parse_entry
from lukasa.scope import Reach
from lukasa.storage.append import refuse_closed_scope
from lukasa.storage.engine import NEAR_DUPLICATE_KINDS
from lukasa.storage.integrity import checksum
from lukasa.storage.postgres.text_index import format_tsvector, tokenize_for_index
from lukasa.text.similarity import text_pair_keys

KeyTuple = tuple[str, str, str]


class PostgresLogRow(NamedTuple):
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
    token_count: int | None
    labels: list[str]
    session: str | None
    pair_keys: list[int]
    tsvector: str | None
    digest: bytes
    entry: str
    links: tuple[Link, ...]

    @property
    def columns(self) -> tuple[object, ...]:
        return self[:-1]

    @property
    def copy_values(self) -> tuple[object, ...]:
        """Its columns as COPY takes them fastest."""
        labels, marks = (held or "{}" for held in (self.labels, self.pair_keys))
        return (*self[:11], labels, self.session, marks, *self[14:-1])

    @property
    def link_rows(self) -> list[tuple[object, ...]]:
        """Its rows in the table ``link``."""
        return [
            (self.scope, self.seq, link.relation, link.to.scope, link.to.kind, link.to.id)
            for link in dict.fromkeys(self.links)
        ]


def parse_row(row: PostgresLogRow) -> Record:
    return parse_entry(row.entry, row.seq, row.digest)


def build_row(record: Record, line: str, *, live: bool) -> PostgresLogRow:
    """The row that a record, read from its line, belongs in."""
    length, words = index_text(record.text)
    return PostgresLogRow(
        record.seq, record.scope, record.kind, record.id, record.version, record.author, to_microseconds(record.recorded_at),
        to_microseconds(record.moment), record.deleted, live, length, sorted(set(record.labels)), find_session_label(record.labels),
        compute_pair_keys(record.scope, record.kind, record.text), words, record.digest, line, record.links,
    )  # fmt: skip


def find_session_label(labels: Iterable[str]) -> str | None:
    """The session that a record was said in."""
    return next((label for label in labels if label.startswith("session=")), None)


def compute_pair_keys(scope: str, kind: str, text: str) -> list[int]:
    """The marks of a text, if those of its kind are marked."""
    return sorted(text_pair_keys(text, scope, kind)) if kind in NEAR_DUPLICATE_KINDS and text else []


def index_text(text: str) -> tuple[int | None, str | None]:
    """How many tokens a text has, and the index entry of it."""
    if not text:
        return None, None
    tokens = tokenize_for_index(text)
    return len(tokens), format_tsvector(tokens)


class PostgresKeyState(NamedTuple):
    """What stands under a key: the newest version seen, and the newest number taken (hidden ones count)."""

    seq: int
    version: int
    highest_version: int
    created_at: str
    deleted: bool
    token_count: int | None


NO_KEY_STATE = PostgresKeyState(0, 0, 0, "", True, None)


def parse_key_state(row: Sequence[object]) -> tuple[KeyTuple, PostgresKeyState]:
    """Reads one row of the statement ``standing``."""
    scope, kind, id, seq, version, taken, line, deleted, tokens, newest = row
    place = (str(scope), str(kind), str(id))
    assert isinstance(taken, int)
    if seq is None:
        return place, PostgresKeyState(0, 0, taken, _parse_created_at(str(newest)), True, None)
    assert isinstance(seq, int)
    assert isinstance(version, int)
    return place, PostgresKeyState(seq, version, taken, _parse_created_at(str(line)), bool(deleted), tokens)  # type: ignore[arg-type]  # an integer or null by its column


def _parse_created_at(line: str) -> str:
    return to_iso(parse_entry(line, 0, b"").created_at)


class PostgresTallyChanges:
    """What a write adds up to, per scope and kind: live, versions, checksum, texts, tokens, past texts, past tokens."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], list[int]] = {}

    def changes_for(self, scope: str, kind: str) -> list[int]:
        return self._changes.setdefault((scope, kind), [0] * 7)

    def add_row(self, row: PostgresLogRow) -> None:
        change = self.changes_for(row.scope, row.kind)
        change[0] += row.live
        change[1] += 1
        change[2] += checksum(row.digest)
        self.add_text(row.scope, row.kind, row.token_count, +1, live=row.live)

    def remove_version(self, scope: str, kind: str, digest: bytes, tokens: int | None, *, live: bool) -> None:
        change = self.changes_for(scope, kind)
        change[0] -= live
        change[1] -= 1
        change[2] -= checksum(digest)
        self.add_text(scope, kind, tokens, -1, live=live)

    def add_text(self, scope: str, kind: str, tokens: int | None, sign: int, *, live: bool) -> None:
        """A text came to, or with a minus went from, what is live or what is past."""
        if tokens is not None:
            change = self.changes_for(scope, kind)
            change[3 if live else 5] += sign
            change[4 if live else 6] += sign * tokens

    def move_text(self, scope: str, kind: str, tokens: int | None, *, live: bool) -> None:
        """A text went from past to live, or back."""
        self.add_text(scope, kind, tokens, +1, live=live)
        self.add_text(scope, kind, tokens, -1, live=not live)

    def rows(self) -> list[tuple[object, ...]]:
        """In one order everywhere, so that nobody waits in a circle."""
        mask = (1 << 62) - 1
        return [
            (scope, kind, live, versions, total & mask, *texts)
            for (scope, kind), (live, versions, total, *texts) in sorted(self._changes.items())
        ]


class NewVersion(NamedTuple):
    """A version on its way, and when its record was first written."""

    row: PostgresLogRow
    created_at: str

    @classmethod
    def from_record(cls, record: Record, line: str) -> NewVersion:
        return cls(build_row(record, line, live=not record.deleted), to_iso(record.created_at))


class PostgresPendingBatch:
    """New rows on their way into the log: what they supersede, and what they add up to."""

    def __init__(self, key_states: Iterable[tuple[KeyTuple, PostgresKeyState]] = ()) -> None:
        self._key_states = dict(key_states)
        self._clear()

    def _clear(self) -> None:
        self._row_indexes: dict[int, int] = {}
        self.rows: list[PostgresLogRow] = []
        self.superseded: list[tuple[str, int]] = []
        self.tally_changes = PostgresTallyChanges()

    @property
    def keys(self) -> list[KeyTuple]:
        """The keys it knows the standing of."""
        return list(self._key_states)

    def replace_key_states(self, key_states: Iterable[tuple[KeyTuple, PostgresKeyState]]) -> None:
        self._key_states = dict(key_states)

    def get_key_state(self, key: KeyTuple) -> PostgresKeyState:
        return self._key_states.get(key, NO_KEY_STATE)

    def build_version(
        self, sealed: ValidatedDraft, seq: int, now: datetime, reach: Reach
    ) -> NewVersion | Refused | Conflict:
        """The next version of a record, or what is in the way."""
        draft, scope, kind, id, author, content, fresh = sealed
        if not reach.writes(scope):
            return refuse_closed_scope(scope)
        before = self.get_key_state((scope, kind, id))
        expected = 0 if fresh and draft.expected is None else draft.expected
        if expected is not None and expected != (0 if before.deleted and expected == 0 else before.version):
            return Conflict(sealed.key, expected, before.version)
        recorded_at, version = to_iso(now), before.highest_version + 1
        created_at = before.created_at or recorded_at
        line = content[:-1] + entry_suffix(version, created_at, recorded_at)
        at = to_microseconds(now)
        moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
        length, words = index_text(draft.text)
        labels = sorted(set(draft.labels)) if draft.labels else []
        row = PostgresLogRow(
            seq, scope, kind, id, version, author, at, moment, draft.deleted, not draft.deleted, length, labels,
            find_session_label(draft.labels), compute_pair_keys(scope, kind, draft.text), words, digest_of(line), line.decode(), draft.links,
        )  # fmt: skip
        return NewVersion(row, created_at)

    def add_version(self, new_version: NewVersion, *, hidden: bool = False) -> None:
        """Puts down one version: the newest of its key, an older one, or one that a quarantine hides."""
        row, created_at = new_version
        place = (row.scope, row.kind, row.id)
        before = self.get_key_state(place)
        taken = max(before.highest_version, row.version)
        if hidden or row.version <= before.version:
            row = row._replace(live=False)
            self._key_states[place] = before._replace(highest_version=taken)
        else:
            if not before.deleted:
                self._supersede(place, before)
            self._key_states[place] = PostgresKeyState(
                row.seq, row.version, taken, created_at, row.deleted, row.token_count
            )
        self._row_indexes[row.seq] = len(self.rows)
        self.rows.append(row)
        self.tally_changes.add_row(row)

    def _supersede(self, key: KeyTuple, before: PostgresKeyState) -> None:
        self.tally_changes.changes_for(key[0], key[1])[0] -= 1
        self.tally_changes.move_text(key[0], key[1], before.token_count, live=False)
        if (at := self._row_indexes.get(before.seq)) is not None:
            self.rows[at] = self.rows[at]._replace(live=False)
        else:
            self.superseded.append((key[0], before.seq))

    def drain(self) -> tuple[list[PostgresLogRow], list[tuple[str, int]], PostgresTallyChanges]:
        """Everything put down since the last time, to be written now."""
        taken = (self.rows, self.superseded, self.tally_changes)
        self._clear()
        return taken
