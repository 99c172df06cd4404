"""Proposals: what agents would change of the owner's records, for the owner to accept or refuse.

The journal writes a proposal when a caller changes, deletes or supersedes what only the owner may (see ``lukasa.journal.write_rules``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.argument_types import check_arguments
from lukasa.core.body_shape import BodyShape, OneOf
from lukasa.core.choices import PROPOSAL_STATES, ProposalState
from lukasa.core.clock import Clock, to_iso
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import Draft, Key, Record, draft_from
from lukasa.errors import NotAllowed
from lukasa.journal import CallerService, Journal
from lukasa.journal.gate import KindSpec
from lukasa.journal.write_rules import PROPOSAL, change_draft
from lukasa.storage.engine import Query, Reader

KINDS = {
    PROPOSAL: KindSpec(
        body=BodyShape(
            {
                **dict.fromkeys(("by", "why", "decided_at"), str),
                "state": OneOf(PROPOSAL_STATES),
                "changes": [BodyShape({"kind": str, "scope": str, "id": str}, "kind scope")],
            },
            "state by changes",
        ),
        written_by="store",
    )
}


MAX_LISTED = 100
PROPOSED_BY = "proposed_by="
"""The label of an accepted change names who proposed it."""


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One record of a proposal: what it says now, and what it would say; both empty where there is nothing.

    After the text, each field of the body that would change has a line.
    """

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
class Proposals(CallerService):
    """Lists the proposals that a caller may see; the owner accepts or refuses them."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def list(self, state: ProposalState = "open", *, limit: int = MAX_LISTED) -> Sequence[Proposal]:
        """List the proposals in a state, oldest first.

        Args:
            state: ``open``, ``accepted`` or ``refused``.
            limit: How many to return at most.

        Example:
            kept = memory.remember("We deploy on Tuesdays.").unwrap()
            refused = memory.as_agent("orion").forget(kept.id)
            memory.proposals.list()[0].changes[0].now
        """
        with self._journal.snapshot() as reader:
            records = reader.read(Query(kinds=(PROPOSAL,), labels=(f"state={state}",), limit=limit))
            return [_parse_proposal(reader, record) for record in records]

    def count(self, state: ProposalState = "open") -> int:
        """Count the proposals in a state; 100 stands for 100 or more.

        Args:
            state: ``open``, ``accepted`` or ``refused``.

        Example:
            memory.proposals.count()
        """
        with self._journal.snapshot() as reader:
            return len(reader.read(Query(kinds=(PROPOSAL,), labels=(f"state={state}",), limit=MAX_LISTED)))

    def get(self, id: str, *, scope: str | None = None) -> Proposal | None:
        """Return a proposal, or ``None`` if there is none.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            kept = memory.remember("We deploy on Tuesdays.").unwrap()
            refused = memory.as_agent("orion").forget(kept.id)
            memory.proposals.get(refused.details["proposal"])
        """
        with self._journal.snapshot() as reader:
            record = _find_proposal(reader, id, scope)
            return None if record is None else _parse_proposal(reader, record)

    def accept(self, id: str, *, scope: str | None = None) -> Outcome:
        """Make the proposed change in the owner's name. A record that was changed since is a ``Conflict``.

        The new versions have the origin ``proposal`` and a label with the name of who proposed them.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            kept = memory.remember("We deploy on Tuesdays.").unwrap()
            refused = memory.as_agent("orion").forget(kept.id)
            memory.proposals.accept(refused.details["proposal"])
        """
        return self._decide(id, scope, "accepted")

    def refuse(self, id: str, *, scope: str | None = None) -> Outcome:
        """Refuse a proposal; it stays in the history.

        Args:
            id: The id of the proposal.
            scope: The scope; default: wherever it is.

        Example:
            kept = memory.remember("We deploy on Tuesdays.").unwrap()
            refused = memory.as_agent("orion").forget(kept.id)
            memory.proposals.refuse(refused.details["proposal"])
        """
        return self._decide(id, scope, "refused")

    def _decide(self, id: str, scope: str | None, state: ProposalState) -> Outcome:
        if not self._journal.reach.unlimited:
            raise NotAllowed("Only the owner of the store decides about proposals.")

        def decide(reader: Reader) -> Sequence[Draft] | Refused:
            record = _find_proposal(reader, id, scope)
            if record is None:
                return Refused("not_found", f"There is no proposal {id!r:.80}.")
            if record.body["state"] != "open":
                return Refused("decided", f"Proposal {id} was {record.body['state']} already.")
            body = {**record.body, "state": state, "decided_at": to_iso(self._clock.now())}
            decided = draft_from(
                record, body=body, labels=(f"state={state}",), author="", origin="owner", expected=record.version
            )
            return [*(_accepted_drafts(reader, record) if state == "accepted" else ()), decided]

        outcome = self._journal.append_if(decide)
        return Accepted(outcome.records[-1:]) if isinstance(outcome, Accepted) else outcome


def _find_proposal(reader: Reader, id: str, scope: str | None) -> Record | None:
    scopes = [scope] if scope is not None else [row.scope for row in reader.tally() if row.kind == PROPOSAL]
    records = (reader.get(Key(place, PROPOSAL, id)) for place in scopes)
    return next((record for record in records if record is not None), None)


def _accepted_drafts(reader: Reader, proposal: Record) -> list[Draft]:
    """Return the changes of a proposal; each follows the version that its record had when it was proposed."""
    body: Any = proposal.body
    drafts = []
    for change in body["changes"]:
        draft = change_draft(change)
        if draft.id and draft.expected is None:
            earlier = [version.version for version in reader.history(draft.key) if version.seq < proposal.seq]
            draft = draft._replace(expected=max(earlier, default=0))
        labels = (label for label in draft.labels if not label.startswith(PROPOSED_BY))
        drafts.append(draft._replace(labels=(*labels, f"{PROPOSED_BY}{body['by']}")))
    return drafts


def _parse_proposal(reader: Reader, record: Record) -> Proposal:
    body: Any = record.body
    changes = []
    for change in body["changes"]:
        draft = change_draft(change)
        known = reader.get(draft.key) if draft.id else None
        links = tuple(f"{link.relation} {link.to}" for link in draft.links if known is None or link not in known.links)
        changes.append(ProposedChange(draft.key, *_say_change(known, draft), draft.deleted, links))
    return Proposal(
        record.id, record.scope, body["by"], record.created_at, body["state"], body.get("why", ""), tuple(changes)
    )


def _say_change(known: Record | None, draft: Draft) -> tuple[str, str]:
    """Return what a record says and what it would say: its text, and the fields of its body that would change."""
    if known is None:
        return "", _say(draft.text, draft.body, draft.body)
    if draft.deleted:
        return _say(known.text, known.body, () if known.text else known.body), ""
    names = [name for name in {*known.body, *draft.body} if known.body.get(name) != draft.body.get(name)]
    if names or known.text != draft.text:
        return _say(known.text, known.body, names), _say(draft.text, draft.body, names)
    return (
        _say(known.text, {"labels": known.labels}, ("labels",)),
        _say(draft.text, {"labels": draft.labels}, ("labels",)),
    )


def _say(text: str, body: Mapping[str, Any], names: Iterable[str]) -> str:
    lines = (f"{name}: {canonical_json.encode(body[name]).decode()}" for name in sorted(names) if name in body)
    return "\n".join(filter(None, (text, *lines)))
