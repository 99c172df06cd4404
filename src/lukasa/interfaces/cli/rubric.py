"""``lukasa trust rubric``: the criteria that agents are judged by, and proposals to change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from lukasa.core.outcome import Outcome
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.options import Call, CommandApp, argument, option, require_found
from lukasa.interfaces.serialise import to_json

app = CommandApp(
    "rubric", "Manage the criteria that agents are judged by, and their weights.", example="lukasa trust rubric show"
)

RubricOption = Annotated[str, option("NAME", "The name of the rubric.", "--rubric")]
ByOption = Annotated[str, option("NAME", "The person or policy that decides.", "--by")]
ProposalArgument = Annotated[str, argument("ID", "The id of the proposal.")]
_EFFECT = "{before} → {after} in {days} days"


@app.command()
def show_(call: Call, name: RubricOption = "default") -> None:
    """List every version of a rubric, the newest last.

    Example: lukasa trust rubric show
    """
    versions = require_found(call.memory.trust.rubric.versions(name), f"There is no rubric {name!r:.80}.")
    columns = ("version, by=changed_by", ("criteria", lambda version: _format_weights(version.criteria)))
    call.show(versions, columns=columns, wrap="criteria")


def _format_weights(criteria: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {weight:.2f}" for name, weight in criteria.items())


@app.command()
def set_(
    call: Call,
    criteria: Annotated[list[str], argument("NAME=WEIGHT…", "The criteria and their weights.")],
    by: ByOption,
    name: RubricOption = "default",
) -> None:
    """Store a rubric as a new version. Weights are scaled to add up to 1.

    Example: lukasa trust rubric set Accuracy=3 Completeness=2 Clarity=1 --by ada
    """
    weights = {}
    for text in criteria:
        criterion, _, weight = text.rpartition("=")
        try:
            weights[criterion.strip()] = float(weight)
        except ValueError as error:
            raise InvalidInput(f"{text[:80]!r} is not a criterion with a weight.", hint="Write NAME=WEIGHT.") from error
    record = call.memory.trust.rubric.set(weights, by=by, name=name).unwrap()
    call.show(
        {"rubric": name, "version": record.version, "criteria": record.body["criteria"]},
        f"Rubric {name}, version {record.version}: {_format_weights(record.body['criteria'])}",
    )


@app.command()
def propose(call: Call, name: RubricOption = "default") -> None:
    """Store proposals for criteria that were overridden repeatedly, and list all proposals.

    Example: lukasa trust rubric propose
    """
    rubric = call.memory.trust.rubric
    rubric.propose(name)
    call.show(
        [{"id": r.id} | dict(r.body) | {"effect": to_json(rubric.effect(r.id))} for r in rubric.proposals()],
        columns=(
            "id, criterion",
            ("weight", lambda row: f"{row['weight']:.2f} → {row['proposed']:.2f}"),
            "state, because of=reason",
            ("overrides since", lambda row: _EFFECT.format_map(row["effect"]) if row["effect"] else ""),
        ),
        wrap="because of",
        empty="There are no proposals.",
    )


@app.command()
def apply(call: Call, id: ProposalArgument, by: ByOption) -> None:
    """Accept a proposal: stores a new version of the rubric.

    Example: lukasa trust rubric apply 019c… --by ada
    """
    _show_decision(call, call.memory.trust.rubric.apply(id, by=by))


@app.command()
def reject(call: Call, id: ProposalArgument, by: ByOption) -> None:
    """Reject a proposal. The rubric is not changed.

    Example: lukasa trust rubric reject 019c… --by ada
    """
    _show_decision(call, call.memory.trust.rubric.reject(id, by=by))


def _show_decision(call: Call, outcome: Outcome) -> None:
    record = outcome.unwrap_all()[0]
    call.show(
        {"id": record.id} | dict(record.body),
        f"Proposal {record.id} was {record.body['state']} by {record.body['by']}.",
    )
