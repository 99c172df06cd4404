"""Places for what does not belong in the vault: the burst journal, notes and directives.

A tick is a passing event: capped in number, gone after a day, never found by recall (its words stand in the body). A note
is short and stands in every snapshot block. A directive is a rule of behaviour that a memory block brings when it is
relevant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.pii.detector import redact_text
from lukasa.record import Draft, Key, Record
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Query, Reader
from lukasa.vault.checks import refuse_personal_data
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
    """Writes a tick. Now and then, those that are too old or too many go in the same step."""
    answer = _validate_text(journal, settings, TICK, text, scope, settings.longest)
    if isinstance(answer, Refused):
        return answer
    draft = Draft(TICK, body={"text": answer}, scope=scope, author=author, origin="tool")

    def decide(reader: Reader) -> Sequence[Draft]:
        held = sum(row.live for row in reader.tally() if row.kind == TICK and row.scope == scope)
        due = held >= settings.ticks + max(1, settings.ticks // 10)
        return [draft, *(_expired_tick_tombstones(reader, settings, now, scope, held) if due else ())]

    return journal.append_if(decide)


def _expired_tick_tombstones(
    reader: Reader, settings: VaultSettings, now: datetime, scope: str, tick_count: int
) -> list[Draft]:
    """Tombstones for the ticks that are too many or too old; a long backlog goes in several steps."""
    newest = reader.read(Query(kinds=(TICK,), scopes=(scope,), newest_first=True, limit=tick_count))
    oldest = now - timedelta(hours=settings.tick_hours)
    gone = [record for at, record in enumerate(newest, 1) if at >= settings.ticks or record.recorded_at < oldest]
    return [
        Draft(TICK, id=record.id, scope=scope, origin="expiry", deleted=True)
        for record in gone[-_MAX_EXPIRED_PER_WRITE:]
    ]


def list_ticks(
    journal: Journal, settings: VaultSettings, now: datetime, scope: str | None, limit: int | None
) -> list[Tick]:
    """What the journal holds and is not too old, newest first."""
    most = settings.ticks if limit is None else min(limit, settings.ticks)
    query = Query(
        kinds=(TICK,),
        scopes=() if scope is None else (scope,),
        recorded_since=now - timedelta(hours=settings.tick_hours),
        newest_first=True,
        limit=most,
    )
    return [
        Tick(record.id, str(record.body.get("text", "")), record.scope, record.author, record.recorded_at)
        for record in journal.read(query)
    ]


def add_note(journal: Journal, settings: VaultSettings, text: str, scope: str, author: str) -> Outcome:
    answer = _validate_text(journal, settings, NOTE, text, scope, settings.note_characters)
    if isinstance(answer, Refused):
        return answer
    draft = Draft(NOTE, answer, scope=scope, author=author, labels=(_VAULT_LABEL,))

    def decide(reader: Reader) -> Sequence[Draft] | Refused:
        held = reader.read(Query(kinds=(NOTE,), scopes=(scope,), labels=(_VAULT_LABEL,), limit=settings.notes))
        if any(record.text == answer for record in held):
            return Refused("duplicate", "This note is there already.")
        if len(held) >= settings.notes:
            return Refused(
                "full",
                f"There are {settings.notes} notes already, and each stands in every prompt. Delete one, or remember this "
                "in the vault instead.",
            )
        return [draft]

    return journal.append_if(decide)


def list_notes(journal: Journal, scopes: tuple[str, ...]) -> list[Record]:
    return list(journal.read(Query(kinds=(NOTE,), scopes=scopes, labels=(_VAULT_LABEL,))))


def add_directive(journal: Journal, settings: VaultSettings, text: str, scope: str, author: str) -> Outcome:
    if not journal.reach.unlimited and scope != journal.author:
        return Refused("not_allowed", "Only the owner of the store sets rules for others; an agent may set its own.")
    answer = _validate_text(journal, settings, DIRECTIVE, text, scope, settings.longest)
    if isinstance(answer, Refused):
        return answer
    body = {"set_by": author} if author else {}
    return journal.append(Draft(DIRECTIVE, answer, body, scope=scope, origin="operator", labels=(_VAULT_LABEL,)))


def list_directives(journal: Journal, scopes: tuple[str, ...]) -> list[Record]:
    return [
        record for record in journal.read(Query(kinds=(DIRECTIVE,), scopes=scopes)) if is_authorised_directive(record)
    ]


def find_note_or_directive(journal: Journal, reader: Reader, id: str, scope: str | None) -> Record | None:
    """A note or a directive by its id, if the caller may take it away."""
    for kind in (NOTE, DIRECTIVE):
        for place in [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == kind]:
            record = reader.get(Key(place, kind, id))
            if record is not None and _VAULT_LABEL in record.labels:
                own = kind == NOTE or journal.reach.unlimited or place == journal.author
                return record if own else None
    return None


def is_authorised_directive(record: Record) -> bool:
    """Whether a directive was set by one who may: the owner, who has no name, or an agent for itself.

    An agent can write a record of this kind past the vault, but not without its name.
    """
    return record.kind == DIRECTIVE and record.author in ("", record.scope)


def _validate_text(
    journal: Journal, settings: VaultSettings, kind: str, text: str, scope: str, max_length: int
) -> str | Refused:
    """The text as it may be kept."""
    said: object = text
    if not isinstance(said, str) or not said.strip():
        return Refused("empty", f"There is nothing to keep: a {kind} needs a text.")
    if len(said) > max_length:
        return Refused("too_long", f"The text has {len(said):,} characters; a {kind} holds at most {max_length:,}.")
    if scope == SYSTEM or not journal.reach.writes(scope):
        return Refused("bad_scope", f"{scope!r:.80} is not a scope this vault can write to.")
    handling = settings.pii_handling(kind)
    if handling == "block" and (refused := refuse_personal_data(said)) is not None:
        return refused
    return redact_text(said) if handling == "redact" else said
