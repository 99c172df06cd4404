"""The record: the one shape of everything Lukasa stores.

A caller proposes a ``Draft``. The gate checks it and returns a ``ValidatedDraft``, which holds the draft and its content
as canonical JSON. An engine adds a version and times, and the result is one entry of the log. A ``Record`` is an entry
that was read back.

    entry = content fields (sorted) , "created_at" , "recorded_at" , "version"

The SHA-256 of the entry is the record's digest. Empty fields are left out of the entry. ``seq``, the position in the log
of one store, is not part of the entry, so the same record has the same digest in every store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.scope import SHARED

DERIVED_FROM = "derived_from"
"""The relation from a record to those it was made from. Undo, quarantine and erasure follow it."""
CHECKSUM_MASK = (1 << 62) - 1


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The identity of a record: scope, kind, and an opaque id that is unique within both."""

    scope: str
    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.scope}/{self.kind}/{self.id}"


@dataclass(frozen=True, slots=True)
class Link:
    """A typed link from the record that holds it to another record, which need not exist."""

    relation: str
    to: Key


class _NoBody(Mapping[str, Any]):
    """An empty, immutable body for drafts without one."""

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"

    def __reduce__(self) -> str:
        return "NO_BODY"


NO_BODY = _NoBody()


class Draft(NamedTuple):
    """A proposed record, or with ``deleted`` a proposed tombstone.

    ``expected`` asks for optimistic concurrency: 0 means that no current record may have this key, ``n`` that its
    newest version must be ``n``, ``None`` accepts any. ``labels`` are ``name=value`` strings that queries filter by.
    ``happened_at`` is the time of the event that the record describes, if it differs from the time of writing.
    """

    kind: str
    text: str = ""
    body: Mapping[str, Any] = NO_BODY
    id: str = ""
    scope: str = SHARED
    author: str = ""
    origin: str = "manual"
    links: tuple[Link, ...] = ()
    labels: tuple[str, ...] = ()
    happened_at: datetime | None = None
    deleted: bool = False
    expected: int | None = None

    @property
    def key(self) -> Key:
        return Key(self.scope, self.kind, self.id)


class ValidatedDraft(NamedTuple):
    """A draft that passed the gate, with its final key and author and its content as canonical JSON.

    Only the gate creates these. ``has_new_id`` is true when the id was generated for this draft, so that no stored
    record can have it.
    """

    draft: Draft
    scope: str
    kind: str
    id: str
    author: str
    content: bytes
    has_new_id: bool

    @property
    def key(self) -> Key:
        return Key(self.scope, self.kind, self.id)


@dataclass(frozen=True, slots=True)
class Record:
    """One stored version of a record."""

    kind: str
    id: str
    scope: str
    author: str
    origin: str
    version: int
    seq: int
    created_at: datetime
    recorded_at: datetime
    happened_at: datetime | None
    deleted: bool
    body: Mapping[str, Any]
    text: str
    links: tuple[Link, ...]
    labels: tuple[str, ...]
    digest: bytes

    @property
    def key(self) -> Key:
        return Key(self.scope, self.kind, self.id)

    @property
    def moment(self) -> datetime:
        """The time of the event if known, else the time of writing."""
        return self.happened_at or self.recorded_at

    @property
    def speaker(self) -> str:
        """Whose words the text is: the speaker of a turn, or else its role; the author of anything else."""
        for field in ("speaker", "role") if self.body else ():
            if (name := self.body.get(field)) and isinstance(name, str):
                return name
        return self.author

    def label(self, name: str) -> str | None:
        """Return the value of the first ``name=value`` label, or ``None``."""
        prefix = name + "="
        for label in self.labels:
            if label.startswith(prefix):
                return label[len(prefix) :]
        return None


def encode_draft(draft: Draft, id: str = "", author: str = "") -> ValidatedDraft:
    """Encode a draft's content as canonical JSON; ``id`` and ``author`` are used where the draft has none.

    Raises ``InvalidInput`` for values that JSON or UTF-8 cannot represent.
    """
    id, author = draft.id or id, draft.author or author
    content = canonical_json.encode(_describe(draft, id, author))
    fields = (draft, draft.scope, draft.kind, id, author, content, not draft.id)
    return tuple.__new__(ValidatedDraft, fields)  # in half the time of a call of the class


def _describe(draft: Draft, id: str, author: str) -> dict[str, Any]:
    """Return the content of a draft as it is encoded."""
    kind, text, body, _, scope, _, origin, links, labels, happened_at, deleted, _ = draft
    content: dict[str, Any] = {"author": author} if author else {}
    if body is not NO_BODY and body:
        content["body"] = body
    if deleted:
        content["deleted"] = True
    if happened_at is not None:
        content["happened_at"] = to_iso(happened_at)
    content["id"] = id
    content["kind"] = kind
    if labels:
        content["labels"] = labels
    if links:
        content["links"] = [
            {"id": link.to.id, "kind": link.to.kind, "relation": link.relation, "scope": link.to.scope}
            for link in links
        ]
    content["origin"] = origin
    content["scope"] = scope
    if text:
        content["text"] = text
    return content


def entry_suffix(version: int, created_at: str, recorded_at: str) -> bytes:
    """Return the end of a log entry: the fields that the engine adds to the content."""
    return f',"created_at":"{created_at}","recorded_at":"{recorded_at}","version":{version}}}'.encode()


def digest_of(entry: bytes) -> bytes:
    return hashlib.sha256(entry).digest()


def require_digest(entry: bytes | str, digest: bytes) -> None:
    """Raise ``ValueError`` unless an entry matches its digest."""
    if digest_of(entry.encode() if isinstance(entry, str) else entry) != digest:
        raise ValueError("the entry does not match its digest")


def checksum(digest: bytes) -> int:
    """Return the share of a digest in the 62-bit checksum that an engine stores per scope and kind."""
    return int.from_bytes(digest[:8]) & CHECKSUM_MASK


class _MutableRecord:
    """A record whose fields are being set. It has the slots of ``Record`` and becomes one by a change of its class.

    Setting the fields of a frozen dataclass one by one costs five times as much, and a search parses hundreds of records.
    """

    __slots__ = Record.__slots__


def _parse_time(text: str) -> datetime:
    """Parse a time of an entry, which ``to_iso`` wrote unless the entry is that of another program."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return from_iso(text)  # raises the error that says what a time is
    return moment if moment.tzinfo is UTC else from_iso(text)


def parse_entry(entry: bytes | str, seq: int, digest: bytes) -> Record:
    """Parse a log entry."""
    fields = canonical_json.parse(entry)
    optional = fields.get
    created, recorded, happened = fields["created_at"], fields["recorded_at"], optional("happened_at")
    record: Any = _MutableRecord()
    record.kind = fields["kind"]
    record.id = fields["id"]
    record.scope = fields["scope"]
    record.author = optional("author", "")
    record.origin = fields["origin"]
    record.version = fields["version"]
    record.seq = seq
    record.recorded_at = recorded_at = _parse_time(recorded)
    record.created_at = recorded_at if created == recorded else _parse_time(created)
    record.happened_at = None if happened is None else _parse_time(happened)
    record.deleted = optional("deleted", False)
    record.body = optional("body", {})
    record.text = optional("text", "")
    links = optional("links")
    record.links = (
        ()
        if links is None
        else tuple([Link(link["relation"], Key(link["scope"], link["kind"], link["id"])) for link in links])
    )
    labels = optional("labels")
    record.labels = () if labels is None else tuple(labels)
    record.digest = digest
    record.__class__ = Record
    return record  # type: ignore[no-any-return]  # it is a Record now


def copy_record(record: Record, body: Mapping[str, Any]) -> Record:
    """Return a copy of a record with another body."""
    copy: Any = _MutableRecord()
    copy.kind = record.kind
    copy.id = record.id
    copy.scope = record.scope
    copy.author = record.author
    copy.origin = record.origin
    copy.version = record.version
    copy.seq = record.seq
    copy.created_at = record.created_at
    copy.recorded_at = record.recorded_at
    copy.happened_at = record.happened_at
    copy.deleted = record.deleted
    copy.body = body
    copy.text = record.text
    copy.links = record.links
    copy.labels = record.labels
    copy.digest = record.digest
    copy.__class__ = Record
    return copy  # type: ignore[no-any-return]  # it is a Record now


def with_own_body(record: Record) -> Record:
    """Return the record with a copy of its body, so that a change of one is none of the other."""
    return copy_record(record, deepcopy(record.body) if record.body else {})


def draft_from(record: Record, **changes: Any) -> Draft:
    """Return a draft with a record's content and the given changes, to write as its next version."""
    fields: dict[str, Any] = {
        "kind": record.kind,
        "text": record.text,
        "body": record.body,
        "id": record.id,
        "scope": record.scope,
        "author": record.author,
        "origin": record.origin,
        "links": record.links,
        "labels": record.labels,
        "happened_at": record.happened_at,
        "deleted": record.deleted,
    }
    return Draft(**(fields | changes))


def entry_bytes(record: Record) -> bytes:
    """Encode a record back into its log entry."""
    content = encode_draft(draft_from(record)).content
    return content[:-1] + entry_suffix(record.version, to_iso(record.created_at), to_iso(record.recorded_at))


def encode_entries(records: Sequence[Record], contents: Sequence[bytes] | None = None) -> list[bytes]:
    """Encode records back into their log entries; ``contents`` are their drafts, if they are encoded already."""
    if contents is None:
        described = [_describe(draft_from(record), record.id, record.author) for record in records]
        contents = [canonical_json.encode(content) for content in described]
    times = [(to_iso(record.created_at), to_iso(record.recorded_at)) for record in records]
    return [
        content[:-1] + entry_suffix(record.version, created_at, recorded_at)
        for record, content, (created_at, recorded_at) in zip(records, contents, times, strict=True)
    ]
