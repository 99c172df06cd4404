"""Commands for forecasts: add, revise, resolve, expire, list, scores, plot."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, caller, moment
from lukasa.doors.cli.outcome import met
from lukasa.errors import InvalidInput
from lukasa.outcome import Outcome

PredictionId = Annotated[str, typer.Argument(metavar="ID", help="The prediction's id.")]
Days = Annotated[
    float | None, typer.Option("--window", min=0, metavar="DAYS", help="Only what was resolved in so many days.")
]
_SHOWN = 50

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
    as_json: AsJson = False,
) -> None:
    """Make a prediction.

    Example: lukasa forecast add "Will the release ship by Friday?" 0.7 --category releases
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        outcome = memory.forecasts.predict(
            question,
            probability,
            prediction_id=id,
            market_id=market,
            category=category,
            confidence_level=level,
            confidence_interval=interval,
            due=moment(due),
            calibrated=calibrated,
        )
    _tell(outcome, as_json=call.json)


@app.command()
def revise(
    ctx: typer.Context,
    id: PredictionId,
    probability: Annotated[float, typer.Argument(metavar="P", help="How likely it is now, from 0 to 1.")],
    as_json: AsJson = False,
) -> None:
    """Give a prediction another probability. The earlier ones stay in its history.

    Example: lukasa forecast revise pred-001 0.8
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        outcome = memory.forecasts.revise(id, probability)
    _tell(outcome, as_json=call.json)


@app.command()
def resolve(
    ctx: typer.Context,
    id: PredictionId,
    outcome: Annotated[str, typer.Argument(metavar="yes|no", help="Whether it happened.")],
    as_json: AsJson = False,
) -> None:
    """Say whether what was predicted happened. From then on it is scored.

    Example: lukasa forecast resolve pred-001 yes
    """
    call = caller(ctx, as_json)
    happened = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}.get(outcome.lower())
    if happened is None:
        raise InvalidInput(f"{outcome[:40]!r} is no outcome.", hint="Say yes or no.")
    with call.open(make=False) as memory:
        done = memory.forecasts.resolve(id, happened)
    _tell(done, as_json=call.json)


@app.command()
def expire(
    ctx: typer.Context,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="A prediction to give up.")] = None,
    due: Annotated[bool, typer.Option("--due", help="Give up every one whose time is over.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up predictions that will not be settled: they are not scored.

    Example: lukasa forecast expire --due
    """
    call = caller(ctx, as_json)
    if (id is None) == (not due):
        raise InvalidInput("Name one prediction, or say --due.")
    with call.open(make=False) as memory:
        if id is not None:
            _tell(memory.forecasts.expire(id), as_json=call.json)
            return
        gone = memory.forecasts.expire_due()
    if call.json:
        show.as_json({"expired": gone})
    else:
        show.say(f"{show.counted(len(gone), 'prediction')} expired.")


@app.command("list")
def list_(
    ctx: typer.Context,
    status: Annotated[
        str | None, typer.Option(metavar="STATUS", help="Only those: active, resolved, expired, recovering.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List predictions.

    Example: lukasa forecast list --status active
    """
    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        found = memory.forecasts.find(status)
    if call.json:
        show.as_json(found)
        return
    rows = [
        (body["prediction_id"], body["status"], f"{body['probability']:g}", _outcome(body), body.get("question", ""))
        for body in found[-_SHOWN:]
    ]
    show.table(("id", "status", "p", "outcome", "question"), rows, fold=("question",))
    if len(found) > _SHOWN:
        show.say(f"and {show.counted(len(found) - _SHOWN, 'earlier one')}")


@app.command()
def scores(ctx: typer.Context, window: Days = None, as_json: AsJson = False) -> None:
    """Show how good the resolved predictions were, and what can be learned from them.

    Example: lukasa forecast scores --window 30
    """
    call = caller(ctx, as_json)
    within = None if window is None else timedelta(days=window)
    with call.open(make=False) as memory:
        scored, learned = memory.forecasts.scores(within), memory.forecasts.learning(within)
    if call.json:
        show.as_json({**scored.as_json(), "learning": learned.as_json()})
        return
    if not scored.count:
        show.say("No prediction is resolved yet.")
        return
    parts = scored.decomposition
    assert parts is not None
    show.sheet(
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
    show.table(("confidence", "count", "accuracy"), rows)


@app.command()
def plot(
    ctx: typer.Context,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the diagram to a .svg or .png file.")] = None,
    window: Days = None,
    as_json: AsJson = False,
) -> None:
    """Draw the reliability diagram: what was said against what happened.

    Example: lukasa forecast plot --out reliability.svg
    """
    from lukasa.forecasts import drawing

    call = caller(ctx, as_json)
    with call.open(make=False) as memory:
        scored = memory.forecasts.scores(None if window is None else timedelta(days=window))
    if out is not None:
        drawing.picture(scored).save(out)
    if call.json:
        show.as_json({"file": None if out is None else str(out), "reliability": scored.as_json()["reliability"]})
    elif out is not None:
        show.say(f"Drew {drawing.title(scored)} to {out}.")
    else:
        show.table(("bin", "count", "said", "happened", "0 to 1, | is what was said"), drawing.bars(scored.reliability))
        show.say(drawing.title(scored))


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    body = met(outcome).record.body
    if as_json:
        show.as_json(dict(body))
        return
    end = f", {_outcome(body)}" if body["status"] == "resolved" else ""
    show.say(f"{body['prediction_id']}: {body['probability']:g}, {body['status']}{end}.")


def _outcome(body: Any) -> str:
    return {True: "yes", False: "no"}.get(body.get("outcome"), "")
