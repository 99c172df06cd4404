"""Commands for forecasts: add, revise, resolve, expire, list, scores, plot."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options, parse_time
from lukasa.outcome import Outcome

PredictionArgument = Annotated[str, typer.Argument(metavar="ID", help="The prediction's id.")]
WindowOption = Annotated[
    float | None, typer.Option("--window", min=0, metavar="DAYS", help="Only what was resolved in so many days.")
]
_MAX_ROWS = 50

app = typer.Typer(
    help="Make predictions, settle them, and see how good they were.\n\nExample: lukasa forecast scores",
    no_args_is_help=True,
)


@app.command()
def add(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What is predicted.")],
    probability: Annotated[float, typer.Argument(metavar="P", help="How likely it is, from 0 to 1.")],
    id: Annotated[str | None, typer.Option(metavar="ID", help="Its id; without it, one is made.")] = None,
    market: Annotated[str | None, typer.Option(metavar="NAME", help="The market it belongs to.")] = None,
    category: Annotated[str, typer.Option(metavar="NAME", help="What it is about, to find weak areas.")] = "",
    level: Annotated[float | None, typer.Option(help="How sure the interval is, from 0 to 1.")] = None,
    interval: Annotated[
        tuple[float, float] | None, typer.Option(metavar="LOW HIGH", help="Between which probabilities it lies.")
    ] = None,
    due: Annotated[str | None, typer.Option(metavar="TIME", help="When it will be known.")] = None,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Correct the probability by what was learned so far.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a prediction.

    Example: lukasa forecast add "Will the release ship by Friday?" 0.7 --category releases
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        outcome = memory.forecasts.predict(
            question,
            probability,
            prediction_id=id,
            market_id=market,
            category=category,
            confidence_level=level,
            confidence_interval=interval,
            due=parse_time(due),
            calibrated=calibrated,
        )
    _print_prediction(outcome, as_json=call.json)


@app.command()
def revise(
    ctx: typer.Context,
    id: PredictionArgument,
    probability: Annotated[float, typer.Argument(metavar="P", help="How likely it is now, from 0 to 1.")],
    as_json: JsonOption = False,
) -> None:
    """Give a prediction another probability. The earlier ones stay in its history.

    Example: lukasa forecast revise pred-001 0.8
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        outcome = memory.forecasts.revise(id, probability)
    _print_prediction(outcome, as_json=call.json)


@app.command()
def resolve(
    ctx: typer.Context,
    id: PredictionArgument,
    outcome: Annotated[str, typer.Argument(metavar="yes|no", help="Whether it happened.")],
    as_json: JsonOption = False,
) -> None:
    """Say whether what was predicted happened. From then on it is scored.

    Example: lukasa forecast resolve pred-001 yes
    """
    call = get_options(ctx, as_json)
    happened = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}.get(outcome.lower())
    if happened is None:
        raise InvalidInput(f"{outcome[:40]!r} is no outcome.", hint="Say yes or no.")
    with call.open(create=False) as memory:
        done = memory.forecasts.resolve(id, happened)
    _print_prediction(done, as_json=call.json)


@app.command()
def expire(
    ctx: typer.Context,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="A prediction to give up.")] = None,
    due: Annotated[bool, typer.Option("--due", help="Give up every one whose time is over.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give up predictions that will not be settled: they are not scored.

    Example: lukasa forecast expire --due
    """
    call = get_options(ctx, as_json)
    if (id is None) == (not due):
        raise InvalidInput("Name one prediction, or say --due.")
    with call.open(create=False) as memory:
        if id is not None:
            _print_prediction(memory.forecasts.expire(id), as_json=call.json)
            return
        gone = memory.forecasts.expire_due()
    if call.json:
        render.print_json({"expired": gone})
    else:
        render.print_line(f"{render.format_count(len(gone), 'prediction')} expired.")


@app.command("list")
def list_(
    ctx: typer.Context,
    status: Annotated[
        str | None, typer.Option(metavar="STATUS", help="Only those: active, resolved, expired, recovering.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List predictions.

    Example: lukasa forecast list --status active
    """
    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        found = memory.forecasts.find(status)
    if call.json:
        render.print_json(found)
        return
    rows = [
        (
            body["prediction_id"],
            body["status"],
            f"{body['probability']:g}",
            _format_outcome(body),
            body.get("question", ""),
        )
        for body in found[-_MAX_ROWS:]
    ]
    render.print_table(("id", "status", "p", "outcome", "question"), rows, wrap=("question",))
    if len(found) > _MAX_ROWS:
        render.print_line(f"and {render.format_count(len(found) - _MAX_ROWS, 'earlier one')}")


@app.command()
def scores(ctx: typer.Context, window: WindowOption = None, as_json: JsonOption = False) -> None:
    """Show how good the resolved predictions were, and what can be learned from them.

    Example: lukasa forecast scores --window 30
    """
    call = get_options(ctx, as_json)
    within = None if window is None else timedelta(days=window)
    with call.open(create=False) as memory:
        scored, learned = memory.forecasts.scores(within), memory.forecasts.learning(within)
    if call.json:
        render.print_json({**scored.as_json(), "learning": learned.as_json()})
        return
    if not scored.count:
        render.print_line("No prediction is resolved yet.")
        return
    parts = scored.decomposition
    assert parts is not None
    render.print_fields(
        {
            "resolved": f"{scored.count:,}",
            "Brier score": f"{scored.brier_score:.4f}",
            "log score": f"{scored.log_score:.4f}",
            "calibration score": f"{scored.calibration_score:.4f}",
            "accuracy": f"{scored.accuracy:.4f}",
            "skill": "" if scored.skill is None else f"{scored.skill:.4f}",
            "decomposition": ", ".join(
                f"{name.replace('_', ' ')} {value:.4f}" for name, value in asdict(parts).items()
            ),
            "trend": learned.performance_trend,
            "weak areas": ", ".join(learned.areas_for_improvement),
            "correction": f"bias {learned.correction.bias_correction:+.3f}, scaling {learned.correction.confidence_scaling:.3f}. {learned.why}",
        }
    )
    rows = [
        (name, held.count, "" if held.accuracy is None else f"{held.accuracy:.3f}")
        for name, held in scored.by_confidence_bucket.items()
    ]
    render.print_table(("confidence", "count", "accuracy"), rows)


@app.command()
def plot(
    ctx: typer.Context,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the diagram to a .svg or .png file.")] = None,
    window: WindowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the reliability diagram: what was said against what happened.

    Example: lukasa forecast plot --out reliability.svg
    """
    from lukasa.forecasts import diagram

    call = get_options(ctx, as_json)
    with call.open(create=False) as memory:
        scored = memory.forecasts.scores(None if window is None else timedelta(days=window))
    if out is not None:
        diagram.draw_diagram(scored).save(out)
    if call.json:
        render.print_json({"file": None if out is None else str(out), "reliability": scored.as_json()["reliability"]})
    elif out is not None:
        render.print_line(f"Drew {diagram.format_title(scored)} to {out}.")
    else:
        render.print_table(
            ("bin", "count", "said", "happened", "0 to 1, | is what was said"),
            diagram.format_bar_rows(scored.reliability),
        )
        render.print_line(diagram.format_title(scored))


def _print_prediction(outcome: Outcome, *, as_json: bool) -> None:
    body = require_accepted(outcome).record.body
    if as_json:
        render.print_json(dict(body))
        return
    end = f", {_format_outcome(body)}" if body["status"] == "resolved" else ""
    render.print_line(f"{body['prediction_id']}: {body['probability']:g}, {body['status']}{end}.")


def _format_outcome(body: Any) -> str:
    return {True: "yes", False: "no"}.get(body.get("outcome"), "")
