"""Places for what does not belong in the vault: the burst journal, notes and directives.

A tick is a passing event: capped in number, gone after a day, never found by recall (its words stand in the body). A note
is short and stands in every snapshot block. A directive is a rule of behaviour that a memory block brings when it is
relevant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lukasa.engine import Query, Reader
from lukasa.gate.guard import redacted
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.record import Draft, Key, Record
from lukasa.scope import SYSTEM
from lukasa.vault.checks import guarded
from lukasa.vault.rules import Rules

TICK, NOTE, DIRECTIVE = "tick", "note", "directive"
_PINNED = "placed=vault"
_SWEPT_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Tick:
    """One entry of the burst journal."""

    id: str
    text: str
    scope: str
    author: str
    at: datetime


def tick(journal: Journal, rules: Rules, now: datetime, text: str, scope: str, author: str) -> Outcome:
    """Writes a tick. Now and then, those that are too old or too many go in the same step."""
    answer = _judged(journal, rules, TICK, text, scope, rules.longest)
    if isinstance(answer, Refused):
        return answer
    draft = Draft(TICK, body={"text": answer}, scope=scope, author=author, origin="tool")

    def decide(reader: Reader) -> Sequence[Draft]:
        held = sum(row.live for row in reader.tally() if row.kind == TICK and row.scope == scope)
        due = held >= rules.ticks + max(1, rules.ticks // 10)
        return [draft, *(_swept(reader, rules, now, scope, held) if due else ())]

    return journal.decide(decide)


def _swept(reader: Reader, rules: Rules, now: datetime, scope: str, held: int) -> list[Draft]:
    """Tombstones for the ticks that are too many or too old; a long backlog goes in several steps."""
    newest = reader.read(Query(kinds=(TICK,), scopes=(scope,), newest_first=True, limit=held))
    oldest = now - timedelta(hours=rules.tick_hours)
    gone = [record for at, record in enumerate(newest, 1) if at >= rules.ticks or record.recorded_at < oldest]
    return [Draft(TICK, id=record.id, scope=scope, origin="expiry", deleted=True) for record in gone[-_SWEPT_AT_ONCE:]]


def ticks(journal: Journal, rules: Rules, now: datetime, scope: str | None, limit: int | None) -> list[Tick]:
    """What the journal holds and is not too old, newest first."""
    most = rules.ticks if limit is None else min(limit, rules.ticks)
    query = Query(
        kinds=(TICK,),
        scopes=() if scope is None else (scope,),
        recorded_since=now - timedelta(hours=rules.tick_hours),
        newest_first=True,
        limit=most,
    )
    return [
        Tick(record.id, str(record.body.get("text", "")), record.scope, record.author, record.recorded_at)
        for record in journal.read(query)
    ]


def note(journal: Journal, rules: Rules, text: str, scope: str, author: str) -> Outcome:
    answer = _judged(journal, rules, NOTE, text, scope, rules.note_characters)
    if isinstance(answer, Refused):
        return answer
    draft = Draft(NOTE, answer, scope=scope, author=author, labels=(_PINNED,))

    def decide(reader: Reader) -> Sequence[Draft] | Refused:
        held = reader.read(Query(kinds=(NOTE,), scopes=(scope,), labels=(_PINNED,), limit=rules.notes))
        if any(record.text == answer for record in held):
            return Refused("duplicate", "This note is there already.")
        if len(held) >= rules.notes:
            return Refused(
                "full",
                f"There are {rules.notes} notes already, and each stands in every prompt. Delete one, or remember this "
                "in the vault instead.",
            )
        return [draft]

    return journal.decide(decide)


def notes(journal: Journal, scopes: tuple[str, ...]) -> list[Record]:
    return list(journal.read(Query(kinds=(NOTE,), scopes=scopes, labels=(_PINNED,))))


def directive(journal: Journal, rules: Rules, text: str, scope: str, author: str) -> Outcome:
    if not journal.reach.unlimited and scope != journal.author:
        return Refused("not_allowed", "Only the owner of the store sets rules for others; an agent may set its own.")
    answer = _judged(journal, rules, DIRECTIVE, text, scope, rules.longest)
    if isinstance(answer, Refused):
        return answer
    body = {"set_by": author} if author else {}
    return journal.append(Draft(DIRECTIVE, answer, body, scope=scope, origin="operator", labels=(_PINNED,)))


def directives(journal: Journal, scopes: tuple[str, ...]) -> list[Record]:
    return [record for record in journal.read(Query(kinds=(DIRECTIVE,), scopes=scopes)) if is_rule(record)]


def find(journal: Journal, reader: Reader, id: str, scope: str | None) -> Record | None:
    """A note or a directive by its id, if the caller may take it away."""
    for kind in (NOTE, DIRECTIVE):
        for place in [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == kind]:
            record = reader.get(Key(place, kind, id))
            if record is not None and _PINNED in record.labels:
                own = kind == NOTE or journal.reach.unlimited or place == journal.author
                return record if own else None
    return None


def is_rule(record: Record) -> bool:
    """Whether a directive was set by one who may: the owner, who has no name, or an agent for itself.

    An agent can write a record of this kind past the vault, but not without its name.
    """
    return record.kind == DIRECTIVE and record.author in ("", record.scope)


def _judged(journal: Journal, rules: Rules, kind: str, text: str, scope: str, longest: int) -> str | Refused:
    """The text as it may be kept."""
    said: object = text
    if not isinstance(said, str) or not said.strip():
        return Refused("empty", f"There is nothing to keep: a {kind} needs a text.")
    if len(said) > longest:
        return Refused("too_long", f"The text has {len(said):,} characters; a {kind} holds at most {longest:,}.")
    if scope == SYSTEM or not journal.reach.writes(scope):
        return Refused("bad_scope", f"{scope!r:.80} is not a scope this vault can write to.")
    handling = rules.handling(kind)
    if handling == "block" and (refused := guarded(said)) is not None:
        return refused
    return redacted(said) if handling == "redact" else said
