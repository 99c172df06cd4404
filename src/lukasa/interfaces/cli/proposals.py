"""``lukasa proposals``: changes to the owner's records that agents propose, for the owner to accept or refuse."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from lukasa.interfaces.cli import answers, render
from lukasa.interfaces.cli.options import Call, RecordScopeOption, argument, confirm, flag, require_found
from lukasa.interfaces.cli.render import format_count, format_time

if TYPE_CHECKING:
    from lukasa.proposals import Proposal

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
        print_changes = partial(print_proposal, proposal)
        confirm(call, f"Change {count}?", f"changes of {count}", "Nothing was accepted", print_changes)
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
        proposed = "(deleted)" if change.deletes else change.proposed
        rows = {"record": str(change.key), "now": change.now or "(nothing)", "proposed": proposed}
        shown = {name: text if max_text is None else render.shorten(text, max_text) for name, text in rows.items()}
        render.print_fields(shown | ({"links": "\n".join(change.links)} if change.links else {}))
    if max_changes is not None and len(proposal.changes) > max_changes:
        render.print_line(f"and {len(proposal.changes) - max_changes:,} more: lukasa proposals show {proposal.id}")
    render.print_line("")
