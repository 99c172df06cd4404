"""``lukasa proposals``: what agents would change of the owner's records, for the owner to accept or refuse."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lukasa.core.choices import PROPOSAL_STATES
from lukasa.core.outcome import Outcome, Refused
from lukasa.errors import NotAccepted
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    JsonOption,
    RecordScopeOption,
    argument,
    choice,
    flag,
    get_options,
    require_choice,
    require_found,
    unwrap_help,
)
from lukasa.interfaces.cli.render import format_count, format_time
from lukasa.interfaces.serialise import to_json

if TYPE_CHECKING:
    from lukasa.proposals import Proposal, ProposedChange

_MAX_CHANGES = 5
_MAX_TEXT = 400
ProposalArgument = Annotated[str, argument("ID", "The id of the proposal.")]

app = CommandApp("proposals", no_args_is_help=False, invoke_without_command=True)


def list_proposals(
    ctx: typer.Context,
    state: Annotated[str, choice("STATE", "open, accepted or refused.", PROPOSAL_STATES, "--state")] = "open",
    as_json: JsonOption = False,
) -> None:
    """List what agents would change of the owner's records: who, why, what is there now and what would be.

    An agent's change of what the owner said is a proposal until the owner accepts or refuses it.

    Example: lukasa proposals
    """
    call = get_options(ctx, as_json)
    if ctx.invoked_subcommand is not None:
        return
    try:
        found = call.memory.proposals.list(require_choice(state, PROPOSAL_STATES, "a state of a proposal"))

        def print_proposals() -> None:
            for proposal in found:
                _print_proposal(proposal, _MAX_CHANGES, _MAX_TEXT)
            if found and state == "open":
                render.print_line("Decide with `lukasa proposals accept ID` or `lukasa proposals refuse ID`.")
            elif not found:
                render.print_line(f"No proposal is {state}.")

        call.show(found, print_proposals)
    finally:
        call.close()


app.callback(help=unwrap_help(list_proposals.__doc__ or ""))(list_proposals)


@app.command()
def show_(call: Call, id: ProposalArgument, scope: RecordScopeOption = None) -> None:
    """Show one proposal with its whole texts.

    Example: lukasa proposals show 4bd07eaee300434b
    """
    proposal = _require_proposal(call, id, scope)
    call.show(proposal, lambda: _print_proposal(proposal))


@app.command()
def accept(
    call: Call,
    id: ProposalArgument,
    scope: RecordScopeOption = None,
    yes: Annotated[bool, flag("--yes", "Do not ask for confirmation.")] = False,
) -> None:
    """Make a proposed change, as the owner. One that changes several records is shown first.

    Example: lukasa proposals accept 4bd07eaee300434b
    """
    proposal = _require_proposal(call, id, scope)
    if len(proposal.changes) > 1 and not yes:
        count = format_count(len(proposal.changes), "record")
        if call.json or not sys.stdin.isatty():
            message = f"Nothing was accepted: there is no terminal to confirm changes of {count}."
            raise NotAccepted(outcome=Refused("not_confirmed", message), hint="Add --yes.")
        _print_proposal(proposal)
        try:
            confirmed = typer.confirm(f"Change {count}?", err=True)
        except typer.Abort:
            confirmed = False
        if not confirmed:
            raise NotAccepted(outcome=Refused("not_confirmed", "Nothing was accepted."))
    _show_decision(call, call.memory.proposals.accept(id, scope=proposal.scope), id)


@app.command()
def refuse(call: Call, id: ProposalArgument, scope: RecordScopeOption = None) -> None:
    """Refuse a proposal; nothing is changed. The same change is not proposed again.

    Example: lukasa proposals refuse 4bd07eaee300434b
    """
    _show_decision(call, call.memory.proposals.refuse(id, scope=scope), id)


def _require_proposal(call: Call, id: str, scope: str | None) -> Proposal:
    return require_found(call.memory.proposals.get(id, scope=scope), f"There is no proposal {id!r:.80}.")


def _show_decision(call: Call, outcome: Outcome, id: str) -> None:
    record = outcome.unwrap()
    call.show(
        to_json(call.memory.proposals.get(id, scope=record.scope)),
        f"Proposal {id} by {record.body['by']} was {record.body['state']}.",
    )


def _print_proposal(proposal: Proposal, max_changes: int | None = None, max_text: int | None = None) -> None:
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
