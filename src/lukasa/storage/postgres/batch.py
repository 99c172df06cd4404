"""Rows of the table ``log`` and the pending batch that collects them. Every column is derived from the entry here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from lukasa.core.clock import to_iso, to_microseconds
from lukasa.core.outcome import Conflict
from lukasa.core.record import Link, Record, ValidatedDraft, digest_of, parse_entry
from lukasa.errors import StoreDamaged
from lukasa.storage.append import NO_KEY_STATE, KeyState, KeyTuple, TallyChanges, build_next_version
from lukasa.storage.postgres.text_index import index_text
from lukasa.text.terms import text_pair_keys


class PostgresLogRow(NamedTuple):
    """One row of the table ``log``, in the order of its columns, and its links, which go to another table."""

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
    group_label: str | None
    pair_keys: list[int]
    tsvector: str | None
    digest: bytes
    entry: str
    links: tuple[Link, ...] = ()

    @property
    def columns(self) -> tuple[object, ...]:
        return self[:-1]

    @property
    def copy_values(self) -> tuple[object, ...]:
        """The columns in the form that COPY reads fastest: the driver takes longer for arrays than for all the rest."""
        return (
            *self[:11], format_texts(self.labels), self.group_label, format_integers(self.pair_keys), *self[14:-1]
        )  # fmt: skip

    @property
    def link_rows(self) -> list[tuple[object, ...]]:
        """The rows of the table ``link``."""
        return [
            (self.scope, self.seq, link.relation, link.to.scope, link.to.kind, link.to.id)
            for link in dict.fromkeys(self.links)
        ]


def format_integers(values: list[int]) -> str:
    """Format an array of integers as PostgreSQL reads it."""
    return f"{{{str(values)[1:-1]}}}"


def format_texts(values: list[str]) -> str:
    """Format an array of texts as PostgreSQL reads it."""
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(quoted) + '"}' if values else "{}"


def parse_log_row(row: PostgresLogRow) -> Record:
    return parse_entry(row.entry, row.seq, row.digest)


class IndexSettings(NamedTuple):
    """The indexes of an engine beyond text and labels: near-duplicate keys of some kinds, and one group label."""

    near_duplicate_kinds: frozenset[str] = frozenset()
    group_label: str | None = None

    def find_group_label(self, labels: Iterable[str]) -> str | None:
        """Return the first label with the name of the group label."""
        if self.group_label is None:
            return None
        prefix = self.group_label + "="
        return next((label for label in labels if label.startswith(prefix)), None)

    def compute_pair_keys(self, scope: str, kind: str, text: str) -> list[int]:
        """Return the near-duplicate keys of a text, if its kind has them."""
        return sorted(text_pair_keys(text, scope, kind)) if kind in self.near_duplicate_kinds and text else []

    def build_row(self, record: Record, entry: str, *, live: bool) -> PostgresLogRow:
        """Build the row of a record that was parsed from its entry."""
        token_count, tsvector = index_text(record.text)
        return PostgresLogRow(
            record.seq, record.scope, record.kind, record.id, record.version, record.author, to_microseconds(record.recorded_at),
            to_microseconds(record.moment), record.deleted, live, token_count, sorted(set(record.labels)),
            self.find_group_label(record.labels), self.compute_pair_keys(record.scope, record.kind, record.text),
            tsvector, record.digest, entry, record.links,
        )  # fmt: skip


def parse_key_state(row: Sequence[object]) -> tuple[KeyTuple, KeyState]:
    """Parse one row of the statement ``key_states``."""
    scope, kind, id, seq, version, highest, entry, deleted, token_count, newest_entry = row
    key = (str(scope), str(kind), str(id))
    try:
        created_at = to_iso(parse_entry(str(newest_entry if seq is None else entry), 0, b"").created_at)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged from error
    assert isinstance(highest, int)
    if seq is None:
        return key, KeyState(0, 0, highest, created_at, True)
    assert isinstance(seq, int)
    assert isinstance(version, int)
    return key, KeyState(seq, version, highest, created_at, bool(deleted), token_count)  # type: ignore[arg-type]  # an integer or null by its column


class PostgresTallyChanges(TallyChanges):
    """Changes to the counts: live, versions, checksum, texts, tokens, and texts and tokens that are not current."""

    def __init__(self) -> None:
        super().__init__(7)

    def add_text(self, scope: str, kind: str, token_count: int | None, sign: int, *, live: bool) -> None:
        """Add a text to the current or the not current ones, or subtract it."""
        if token_count is not None:
            change = self.changes_for(scope, kind)
            change[3 if live else 5] += sign
            change[4 if live else 6] += sign * token_count

    def move_text(self, scope: str, kind: str, token_count: int | None, *, live: bool) -> None:
        """Move a text to the current ones, or away from them."""
        self.add_text(scope, kind, token_count, +1, live=live)
        self.add_text(scope, kind, token_count, -1, live=not live)


class NewVersion(NamedTuple):
    """A version to add, and when its record was created."""

    row: PostgresLogRow
    created_at: str


class PostgresPendingBatch:
    """New rows, the rows they supersede, and the changes to the counts."""

    def __init__(self, settings: IndexSettings, key_states: Iterable[tuple[KeyTuple, KeyState]] = ()) -> None:
        self._settings = settings
        self.key_states = dict(key_states)
        self._clear()

    def _clear(self) -> None:
        self._row_indexes: dict[int, int] = {}
        self.rows: list[PostgresLogRow] = []
        self.superseded: list[tuple[str, int]] = []
        self.tally_changes = PostgresTallyChanges()

    def get_key_state(self, key: KeyTuple) -> KeyState:
        return self.key_states.get(key, NO_KEY_STATE)

    def build_version(self, sealed: ValidatedDraft, seq: int, now: datetime) -> NewVersion | Conflict:
        """Build the next version of a record, or report a conflict."""
        draft, scope, kind, id, author, _, _ = sealed
        following = build_next_version(sealed, self.get_key_state((scope, kind, id)), to_iso(now))
        if isinstance(following, Conflict):
            return following
        version, created_at, entry = following
        at = to_microseconds(now)
        moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
        token_count, tsvector = index_text(draft.text)
        row = PostgresLogRow(
            seq, scope, kind, id, version, author, at, moment, draft.deleted, not draft.deleted, token_count,
            sorted(set(draft.labels)) if draft.labels else [], self._settings.find_group_label(draft.labels),
            self._settings.compute_pair_keys(scope, kind, draft.text), tsvector, digest_of(entry), entry.decode(), draft.links,
        )  # fmt: skip
        return NewVersion(row, created_at)

    def build_replayed(self, record: Record, entry: str) -> NewVersion:
        """Build the version of a record from another log."""
        row = self._settings.build_row(record, entry, live=not record.deleted)
        return NewVersion(row, to_iso(record.created_at))

    def add_version(self, new_version: NewVersion, *, hidden: bool = False) -> None:
        """Add a version: the newest of its key, an older one, or a hidden one."""
        row, created_at = new_version
        key = (row.scope, row.kind, row.id)
        before = self.get_key_state(key)
        state = self.key_states[key] = before.with_version(
            row.seq, row.version, created_at, deleted=row.deleted, hidden=hidden, token_count=row.token_count
        )
        if state.seq != row.seq:
            row = row._replace(live=False)
        elif not before.deleted:
            self.tally_changes.add_live(row.scope, row.kind, -1)
            self.tally_changes.move_text(row.scope, row.kind, before.token_count, live=False)
            if (index := self._row_indexes.get(before.seq)) is not None:
                self.rows[index] = self.rows[index]._replace(live=False)
            else:
                self.superseded.append((row.scope, before.seq))
        self._row_indexes[row.seq] = len(self.rows)
        self.rows.append(row)
        self.tally_changes.add_version(row.scope, row.kind, row.digest, live=row.live)
        self.tally_changes.add_text(row.scope, row.kind, row.token_count, +1, live=row.live)

    def drain(self) -> tuple[list[PostgresLogRow], list[tuple[str, int]], PostgresTallyChanges]:
        """Return everything that was added since the last call, and clear the batch."""
        drained = (self.rows, self.superseded, self.tally_changes)
        self._clear()
        return drained
