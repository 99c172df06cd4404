"""The record: the one shape of everything Lukasa keeps.

A ``Draft`` is what a writer proposes. The gate checks it and ``Sealed`` is the proof: the draft together with the
canonical spelling of its content. An engine stamps a sealed draft with a version and times, and the result is a
line of the log. A ``Record`` is such a line read back.

    line = content fields (sorted) , "created_at" , "recorded_at" , "version"

The line's SHA-256 is the record's digest. Fields that are empty are left out of the line. ``seq``, the position in
one store's log, is an address and not part of the line, so the same record has the same digest in every store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from lukasa import canonical_json
from lukasa.clock import from_iso, to_iso
from lukasa.scope import SHARED

DERIVED_FROM = "derived_from"
"""The relation that undo, quarantine and erasure follow: a record made out of others links to them by it."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a record is known by: its scope, its kind, and an opaque id within both."""

    scope: str
    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.scope}/{self.kind}/{self.id}"


@dataclass(frozen=True, slots=True)
class Link:
    """A typed arrow from the record that carries it to another record, which need not exist."""

    relation: str
    to: Key


class _NoBody(Mapping[str, Any]):
    """The body of a draft that has none: empty, and nobody can put anything into it."""

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

    ``expected`` asks for optimistic concurrency: 0 means that no live record may have this key, ``n`` that its
    newest version must be ``n``, ``None`` takes any. ``labels`` are ``name=value`` words the engine can filter by.
    ``happened_at`` is when the thing told of happened, if that is not when it is written down.
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
    """A draft that passed the gate: under which key and author, and its content spelled canonically.

    Only the gate makes these. ``fresh`` says that the id was made for this very draft, so no record can have it yet.
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
    """One version of something kept."""

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
        """When it happened, as far as is known."""
        return self.happened_at or self.recorded_at

    def label(self, name: str) -> str | None:
        """The value of the first ``name=value`` label, if there is one."""
        prefix = name + "="
        for label in self.labels:
            if label.startswith(prefix):
                return label[len(prefix) :]
        return None


def encode_draft(draft: Draft, id: str = "", author: str = "") -> ValidatedDraft:
    """Spells the draft's content canonically; ``id`` and ``author`` fill what it leaves open.

    Raises ``InvalidInput`` for what JSON or UTF-8 cannot hold.
    """
    fresh = not draft.id
    id = draft.id or id
    author = draft.author or author
    content: dict[str, Any] = {"id": id, "kind": draft.kind, "origin": draft.origin, "scope": draft.scope}
    if author:
        content["author"] = author
    if draft.body:
        content["body"] = draft.body
    if draft.text:
        content["text"] = draft.text
    if draft.deleted:
        content["deleted"] = True
    if draft.happened_at is not None:
        content["happened_at"] = to_iso(draft.happened_at)
    if draft.labels:
        content["labels"] = draft.labels
    if draft.links:
        content["links"] = [
            {"id": link.to.id, "kind": link.to.kind, "relation": link.relation, "scope": link.to.scope}
            for link in draft.links
        ]
    return ValidatedDraft(draft, draft.scope, draft.kind, id, author, canonical_json.encode(content), fresh)


def entry_suffix(version: int, created_at: str, recorded_at: str) -> bytes:
    """The end of a line: what the store adds to sealed content."""
    return f',"created_at":"{created_at}","recorded_at":"{recorded_at}","version":{version}}}'.encode()


def digest_of(entry: bytes) -> bytes:
    return hashlib.sha256(entry).digest()


def parse_entry(entry: bytes | str, seq: int, digest: bytes) -> Record:
    """The record that a line of the log spells."""
    fields = canonical_json.parse(entry)
    optional = fields.get
    created, recorded, happened = fields["created_at"], fields["recorded_at"], optional("happened_at")
    at = from_iso(recorded)
    return Record(  # in the order of its fields: a search unfolds hundreds
        fields["kind"],
        fields["id"],
        fields["scope"],
        optional("author", ""),
        fields["origin"],
        fields["version"],
        seq,
        at if created == recorded else from_iso(created),
        at,
        None if happened is None else from_iso(happened),
        optional("deleted", False),
        optional("body", {}),
        optional("text", ""),
        tuple([Link(link["relation"], Key(link["scope"], link["kind"], link["id"])) for link in optional("links", ())]),
        tuple(optional("labels", ())),
        digest,
    )


def draft_from(record: Record, **changes: Any) -> Draft:
    """A draft that repeats a record's content, with changes: the next version starts from here."""
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
    """The line that ``record`` was unfolded from; its digest is the proof."""
    content = encode_draft(draft_from(record)).content
    return content[:-1] + entry_suffix(record.version, to_iso(record.created_at), to_iso(record.recorded_at))
