"""``lukasa proposals``: changes to the owner's records that agents propose, for the owner to accept or refuse."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lukasa.core.outcome import Refused
from lukasa.errors import NotAccepted
from lukasa.interfaces.cli import answers, render
from lukasa.interfaces.cli.options import Call, RecordScopeOption, argument, flag, require_found
from lukasa.interfaces.cli.render import format_count, format_time

if TYPE_CHECKING:
    from lukasa.proposals import Proposal, ProposedChange

_MAX_CHANGES = 5
_MAX_TEXT = 400
ProposalArgument = Annotated[str, argument("ID", "The id of the proposal.")]


def accept(
    call: Call,
    id: ProposalArgument,
    scope: RecordScopeOption = None,
    yes: Annotated[bool, flag("--yes", "Do not ask for confirmation.")] = False,
) -> None:
    """Make a proposed change, as the owner. One that changes several records is shown first.

    Example: lukasa proposals accept 4bd07eaee300434b
    """
    proposal = require_found(call.existing_memory.proposals.get(id, scope=scope), f"There is no proposal {id!r:.80}.")
    if len(proposal.changes) > 1 and not yes:
        count = format_count(len(proposal.changes), "record")
        if call.json or not sys.stdin.isatty():
            message = f"Nothing was accepted: there is no terminal to confirm changes of {count}."
            raise NotAccepted(outcome=Refused("not_confirmed", message), hint="Add --yes.")
        print_proposal(proposal)
        try:
            confirmed = typer.confirm(f"Change {count}?", err=True)
        except typer.Abort:
            confirmed = False
        if not confirmed:
            raise NotAccepted(outcome=Refused("not_confirmed", "Nothing was accepted."))
    accepted = call.existing_memory.proposals.accept(id, scope=proposal.scope)
    accepted.unwrap_all()
    answers.PRINTERS["proposals.accept"](call, accepted, ChainMap({"id": id}))


def print_proposals(found: Sequence[Proposal], state: str) -> None:
    """Print the proposals in a state, and how to decide on them."""
    for proposal in found:
        print_proposal(proposal, _MAX_CHANGES, _MAX_TEXT)
    if found and state == "open":
        render.print_line("Decide with `lukasa proposals accept ID` or `lukasa proposals refuse ID`.")
    elif not found:
        render.print_line(f"No proposal is {state}.")


def print_proposal(proposal: Proposal, max_changes: int | None = None, max_text: int | None = None) -> None:
    """Print a proposal; a list prints some of its changes and the beginnings of their texts."""
    by = proposal.by or "a caller without a name"
    render.print_entry(f"{proposal.id}  by {by}, {format_time(proposal.at)}", proposal.why)
    for change in proposal.changes[:max_changes]:
        render.print_fields(_describe_change(change, max_text))
    if max_changes is not None and len(proposal.changes) > max_changes:
        render.print_line(f"and {len(proposal.changes) - max_changes:,} more: lukasa proposals show {proposal.id}")
    render.print_line("")


def _describe_change(change: ProposedChange, max_text: int | None) -> dict[str, str]:
    """Return the rows that say what a change does."""
    proposed = "(deleted)" if change.deletes else change.proposed
    rows = {"record": str(change.key), "now": change.now or "(nothing)", "proposed": proposed}
    shown = {name: text if max_text is None else render.shorten(text, max_text) for name, text in rows.items()}
    return shown | ({"links": "\n".join(change.links)} if change.links else {})
