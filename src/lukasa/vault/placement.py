"""Places for text that does not belong in the vault: the burst journal, notes and directives.

A tick is a passing event: ticks are capped in number, expire after a day, and are never recalled (their words are in the
body, not in the text). A note is short and part of every snapshot block. A directive is a rule of behaviour that a memory
block contains when it is relevant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SYSTEM, may_set_rule
from lukasa.journal import Journal
from lukasa.storage.engine import Query, Reader
from lukasa.vault.checks import apply_pii_policy
from lukasa.vault.settings import VaultSettings

TICK, NOTE, DIRECTIVE = "tick", "note", "directive"
_VAULT_LABEL = "placed=vault"
_MAX_EXPIRED_PER_WRITE = 100


@dataclass(frozen=True, slots=True)
class Tick:
    """One entry of the burst journal."""

    id: str
    text: str
    scope: str
    author: str
    at: datetime


def add_tick(journal: Journal, settings: VaultSettings, now: datetime, text: str, scope: str, author: str) -> Outcome:
    """Write a tick. When a tenth too many have gathered, ticks past the cap or the age limit are deleted in the same batch."""
    kept = _validate_text(journal, settings, TICK, text, scope, settings.longest)
    if isinstance(kept, Refused):
        return kept
    draft = Draft(TICK, body={"text": kept}, scope=scope, author=author, origin="tool")

    def tick_and_tombstones(reader: Reader) -> Sequence[Draft]:
        count = sum(row.live for row in reader.tally() if row.kind == TICK and row.scope == scope)
        if count < settings.ticks + max(1, settings.ticks // 10):
            return [draft]
        newest = reader.read(Query(kinds=(TICK,), scopes=(scope,), newest_first=True, limit=count))
        oldest, most = now - timedelta(hours=settings.tick_hours), settings.ticks
        expired = [record.id for rank, record in enumerate(newest, 1) if rank >= most or record.recorded_at < oldest]
        ids = expired[-_MAX_EXPIRED_PER_WRITE:]  # a long backlog goes in several writes
        return [draft, *(Draft(TICK, id=id, scope=scope, origin="expiry", deleted=True) for id in ids)]

    return journal.append_if(tick_and_tombstones)


def list_ticks(
    journal: Journal, settings: VaultSettings, now: datetime, scope: str | None, limit: int | None
) -> list[Tick]:
    """Return the ticks that have not expired, newest first."""
    query = Query(
        kinds=(TICK,), scopes=() if scope is None else (scope,), newest_first=True,
        recorded_since=now - timedelta(hours=settings.tick_hours),
        limit=settings.ticks if limit is None else min(limit, settings.ticks),
    )  # fmt: skip
    return [
        Tick(record.id, str(record.body.get("text", "")), record.scope, record.author, record.recorded_at)
        for record in journal.read(query)
    ]


def add_note(journal: Journal, settings: VaultSettings, text: str, scope: str, author: str) -> Outcome:
    kept = _validate_text(journal, settings, NOTE, text, scope, settings.note_characters)
    if isinstance(kept, Refused):
        return kept
    draft = Draft(NOTE, kept, scope=scope, author=author, labels=(_VAULT_LABEL,))

    def add_if_new(reader: Reader) -> Sequence[Draft] | Refused:
        notes = reader.read(Query(kinds=(NOTE,), scopes=(scope,), labels=(_VAULT_LABEL,), limit=settings.notes))
        if any(note.text == kept for note in notes):
            return Refused("duplicate", "This note is there already.")
        if len(notes) >= settings.notes:
            return Refused(
                "full",
                f"There are {settings.notes} notes already, and each is part of every prompt. Delete one, or remember this "
                "in the vault instead.",
            )
        return [draft]

    return journal.append_if(add_if_new)


def list_notes(journal: Journal, scopes: tuple[str, ...]) -> list[Record]:
    return list(journal.read(Query(kinds=(NOTE,), scopes=scopes, labels=(_VAULT_LABEL,))))


def add_directive(journal: Journal, settings: VaultSettings, text: str, scope: str, author: str) -> Outcome:
    if (refused := journal.check_author(author)) is not None:
        return refused
    kept = _validate_text(journal, settings, DIRECTIVE, text, scope, settings.longest)
    if isinstance(kept, Refused):
        return kept
    body = {"set_by": author} if author else {}
    return journal.append(Draft(DIRECTIVE, kept, body, scope=scope, origin="operator", labels=(_VAULT_LABEL,)))


def list_directives(journal: Journal, scopes: tuple[str, ...]) -> list[Record]:
    return [
        record
        for record in journal.read(Query(kinds=(DIRECTIVE,), scopes=scopes))
        if may_set_rule(record.author, record.scope)
    ]


def find_note_or_directive(journal: Journal, reader: Reader, id: str, scope: str | None) -> Record | None:
    """Return a note or a directive by its id if the caller may delete it, else ``None``."""
    for kind in (NOTE, DIRECTIVE):
        scopes = [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == kind]
        for candidate in scopes:
            record = reader.get(Key(candidate, kind, id))
            if record is not None and _VAULT_LABEL in record.labels:
                allowed = kind == NOTE or journal.reach.unlimited or candidate == journal.author
                return record if allowed else None
    return None


def _validate_text(
    journal: Journal, settings: VaultSettings, kind: str, text: str, scope: str, max_length: int
) -> str | Refused:
    """Return the text as it may be kept, or refuse it."""
    value: object = text
    if not isinstance(value, str) or not value.strip():
        return Refused("empty", f"There is nothing to keep: a {kind} needs a text.")
    if len(value) > max_length:
        return Refused("too_long", f"The text has {len(value):,} characters; a {kind} holds at most {max_length:,}.")
    if scope == SYSTEM or not journal.reach.writes(scope):
        return Refused("bad_scope", f"{scope!r:.80} is not a scope this vault can write to.")
    return apply_pii_policy(value, kind, settings)
