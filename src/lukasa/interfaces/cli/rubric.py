"""Commands of the living rubric."""

from __future__ import annotations

from typing import Annotated

import typer

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options
from lukasa.outcome import Refused
from lukasa.record import Record

app = typer.Typer(help="What agents are judged by, and how that changes.", no_args_is_help=True)

RubricOption = Annotated[str, typer.Option("--rubric", metavar="NAME", help="Which rubric.")]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="The person or policy in whose name it is done.")]
ProposalArgument = Annotated[str, typer.Argument(metavar="ID", help="The proposal.")]


@app.command("show")
def show_(ctx: typer.Context, name: RubricOption = "default", as_json: JsonOption = False) -> None:
    """Show every version of a rubric, the newest last.

    Example: lukasa trust rubric show
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        versions = memory.trust.rubric.versions(name)
    if not versions:
        raise CommandRefused(Refused("not_found", f"There is no rubric {name!r:.80}."))
    if call.json:
        render.print_json(
            [{"version": each.version, "by": each.changed_by, "criteria": dict(each.criteria)} for each in versions]
        )
        return
    rows = [(str(each.version), each.changed_by, _format_weights(each.criteria)) for each in versions]
    render.print_table(("version", "by", "criteria"), rows, wrap=("criteria",))


def _format_weights(criteria: object) -> str:
    assert isinstance(criteria, dict)
    return ", ".join(f"{name} {weight:.2f}" for name, weight in criteria.items())


@app.command("set")
def set_(
    ctx: typer.Context,
    criteria: Annotated[list[str], typer.Argument(metavar="NAME=WEIGHT…", help="The criteria and their weights.")],
    by: ByOption,
    name: RubricOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Write a rubric; weights are scaled so that they add up to 1.

    Example: lukasa trust rubric set Accuracy=3 Completeness=2 Clarity=1 --by ada
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        record = require_accepted(
            memory.trust.rubric.set(dict(map(_parse_criterion, criteria)), by=by, name=name)
        ).record
    if call.json:
        render.print_json({"rubric": name, "version": record.version, "criteria": record.body["criteria"]})
    else:
        render.print_line(f"Rubric {name}, version {record.version}: {_format_weights(record.body['criteria'])}")


def _parse_criterion(text: str) -> tuple[str, float]:
    name, _, weight = text.rpartition("=")
    try:
        return name.strip(), float(weight)
    except ValueError as error:
        raise InvalidInput(f"{text[:80]!r} is not a criterion with its weight.", hint="Write NAME=WEIGHT.") from error


@app.command()
def propose(ctx: typer.Context, name: RubricOption = "default", as_json: JsonOption = False) -> None:
    """Make the proposals that repeated overrides call for, and show all that are open or were decided.

    Example: lukasa trust rubric propose
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        rubric = memory.trust.rubric
        rubric.propose(name)
        found = [(record, rubric.effect(record.id)) for record in rubric.proposals()]
    if call.json:
        render.print_json(
            [
                {"id": record.id} | dict(record.body)
                | {"effect": None if effect is None else {"days": effect.days, "before": effect.before, "after": effect.after}}
                for record, effect in found
            ]
        )  # fmt: skip
    elif not found:
        render.print_line("Nothing is proposed.")
    else:
        rows = [
            (
                record.id, record.body["criterion"], f"{record.body['weight']:.2f} → {record.body['proposed']:.2f}",
                record.body["state"], record.body["reason"],
                "" if effect is None else f"{effect.before} → {effect.after} in {effect.days} days",
            )
            for record, effect in found
        ]  # fmt: skip
        render.print_table(
            ("id", "criterion", "weight", "state", "because of", "overrides since"), rows, wrap=("because of",)
        )


@app.command()
def apply(ctx: typer.Context, id: ProposalArgument, by: ByOption, as_json: JsonOption = False) -> None:
    """Carry out a proposal: a new version of the rubric.

    Example: lukasa trust rubric apply 019c… --by ada
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        _print_decision(require_accepted(memory.trust.rubric.apply(id, by=by)).records[0], as_json=call.json)


@app.command()
def reject(ctx: typer.Context, id: ProposalArgument, by: ByOption, as_json: JsonOption = False) -> None:
    """Turn a proposal down.

    Example: lukasa trust rubric reject 019c… --by ada
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        _print_decision(require_accepted(memory.trust.rubric.reject(id, by=by)).records[0], as_json=call.json)


def _print_decision(record: Record, *, as_json: bool) -> None:
    if as_json:
        render.print_json({"id": record.id} | dict(record.body))
    else:
        render.print_line(f"Proposal {record.id} was {record.body['state']} by {record.body['by']}.")
