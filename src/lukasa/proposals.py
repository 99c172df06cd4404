"""Proposals: what agents would change of the owner's records, for the owner to accept or refuse.

The journal writes a proposal when a caller changes, deletes or supersedes what only the owner may (see ``lukasa.write_rules``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lukasa.argument_types import check_arguments
from lukasa.body_shape import BodyShape, OneOf
from lukasa.clock import Clock, to_iso
from lukasa.errors import NotAllowed
from lukasa.gate import KindSpec
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.record import Draft, Key, Record, draft_from
from lukasa.storage.engine import Query, Reader
from lukasa.write_rules import PROPOSAL, change_draft

ProposalState = Literal["open", "accepted", "refused"]

KINDS = {
    PROPOSAL: KindSpec(
        body=BodyShape(
            {
                **dict.fromkeys(("by", "why", "decided_at"), str),
                "state": OneOf(("open", "accepted", "refused")),
                "changes": [BodyShape({"kind": str, "scope": str, "id": str}, "kind scope")],
            },
            "state by changes",
        ),
        written_by="store",
    )
}


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One record of a proposal: what it says now, and what it would say; both empty where there is nothing."""

    key: Key
    now: str
    proposed: str
    deletes: bool
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that an agent asked for: the drafts, and of each what the store holds now."""

    id: str
    scope: str
    by: str
    at: datetime
    state: ProposalState
    why: str
    changes: tuple[ProposedChange, ...]


@check_arguments
class Proposals:
    """Lists the proposals that a caller may see; the owner accepts or refuses them."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def list(self, state: ProposalState = "open") -> list[Proposal]:
        """List the proposals in a state, oldest first.

        Args:
            state: ``open``, ``accepted`` or ``refused``.

        Example:
            kept = memory.remember("We deploy on Tuesdays.")
            memory.as_agent("orion").forget(kept.record.id)
            memory.proposals.list()[0].changes[0].now
        """
        records = list(self._journal.read(Query(kinds=(PROPOSAL,), labels=(f"state={state}",))))
        with self._journal.snapshot() as reader:
            return [_parse_proposal(reader, record) for record in records]

    def accept(self, id: str, *, scope: str | None = None) -> Outcome:
        """Make the proposed change in the owner's name. A record that was changed since is a ``Conflict``.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            kept = memory.remember("We deploy on Tuesdays.")
            refused = memory.as_agent("orion").forget(kept.record.id)
            memory.proposals.accept(refused.details["proposal"])
        """
        return self._decide(id, scope, "accepted")

    def refuse(self, id: str, *, scope: str | None = None) -> Outcome:
        """Refuse a proposal; it stays in the history.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            kept = memory.remember("We deploy on Tuesdays.")
            refused = memory.as_agent("orion").forget(kept.record.id)
            memory.proposals.refuse(refused.details["proposal"])
        """
        return self._decide(id, scope, "refused")

    def _decide(self, id: str, scope: str | None, state: ProposalState) -> Outcome:
        if not self._journal.reach.unlimited:
            raise NotAllowed("Only the owner of the store decides about proposals.")

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            records = (reader.get(Key(place, PROPOSAL, id)) for place in _scopes_of_proposals(reader, scope))
            record = next((record for record in records if record is not None), None)
            if record is None:
                return Refused("not_found", f"There is no proposal {id!r:.80}.")
            if record.body["state"] != "open":
                return Refused("decided", f"Proposal {id} was {record.body['state']} already.")
            body = {**record.body, "state": state, "decided_at": to_iso(self._clock.now())}
            decided = draft_from(record, body=body, labels=(f"state={state}",), origin="owner", expected=record.version)
            made = [change_draft(change) for change in record.body["changes"]] if state == "accepted" else []
            return [*made, decided]

        outcome = self._journal.append_if(decide)
        return Accepted(outcome.records[-1:]) if isinstance(outcome, Accepted) else outcome


def _scopes_of_proposals(reader: Reader, scope: str | None) -> Sequence[str]:
    return [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == PROPOSAL]


def _parse_proposal(reader: Reader, record: Record) -> Proposal:
    body: Any = record.body
    changes = []
    for change in body["changes"]:
        draft = change_draft(change)
        known = reader.get(draft.key) if draft.id else None
        links = tuple(f"{link.relation} {link.to}" for link in draft.links if known is None or link not in known.links)
        changes.append(ProposedChange(draft.key, "" if known is None else known.text, draft.text, draft.deleted, links))
    return Proposal(
        record.id, record.scope, body["by"], record.created_at, body["state"], body.get("why", ""), tuple(changes)
    )
