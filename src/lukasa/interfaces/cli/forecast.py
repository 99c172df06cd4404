"""``lukasa forecast``: predictions, their results and their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, CommandApp, argument, flag, option, parse_time
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.outcomes import require_accepted
from lukasa.interfaces.serialise import to_json
from lukasa.outcome import Outcome

PredictionArgument = Annotated[str, argument("ID", "The id of the prediction.")]
WindowOption = Annotated[
    float | None, option("DAYS", "Only what was resolved in the last DAYS days.", "--window", min=0)
]
_MAX_ROWS = 50
_ANSWERS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

app = CommandApp(
    help="""Record predictions, resolve them, and see how good they were.

    Example: lukasa forecast scores"""
)


@app.command()
def add(
    call: Call,
    question: Annotated[str, argument("QUESTION", "What is predicted.")],
    probability: Annotated[float, argument("P", "Its probability, from 0 to 1.")],
    id: Annotated[str | None, option("ID", "Its id; default: a new one.")] = None,
    market: Annotated[str | None, option("NAME", "The market it belongs to.")] = None,
    category: Annotated[str, option("NAME", "Its category, to find weak areas later.")] = "",
    level: Annotated[float | None, option("P", "Confidence level of the interval, from 0 to 1.")] = None,
    interval: Annotated[
        tuple[float, float] | None, option("LOW HIGH", "Confidence interval of the probability.")
    ] = None,
    due: Annotated[str | None, option("TIME", "When the result will be known.")] = None,
    calibrated: Annotated[
        bool, flag("--calibrated", "Correct the probability by the errors of past predictions.")
    ] = False,
) -> None:
    """Store a prediction with its probability.

    Example: lukasa forecast add "Will the release ship by Friday?" 0.7 --category releases
    """
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
    _show_prediction(call, outcome)


@app.command()
def revise(
    call: Call,
    id: PredictionArgument,
    probability: Annotated[float, argument("P", "The new probability, from 0 to 1.")],
) -> None:
    """Change the probability of a prediction. Earlier ones stay in its history.

    Example: lukasa forecast revise pred-001 0.8
    """
    with call.open(create=False) as memory:
        outcome = memory.forecasts.revise(id, probability)
    _show_prediction(call, outcome)


@app.command()
def resolve(
    call: Call, id: PredictionArgument, outcome: Annotated[str, argument("yes|no", "Whether it happened.")]
) -> None:
    """Record whether a prediction came true. From then on it is scored.

    Example: lukasa forecast resolve pred-001 yes
    """
    happened = _ANSWERS.get(outcome.lower())
    if happened is None:
        raise InvalidInput(f"{outcome[:40]!r} is not an outcome.", hint="Use yes or no.")
    with call.open(create=False) as memory:
        resolved = memory.forecasts.resolve(id, happened)
    _show_prediction(call, resolved)


@app.command()
def expire(
    call: Call,
    id: Annotated[str | None, argument("ID", "The id of one prediction.")] = None,
    due: Annotated[bool, flag("--due", "Expire every prediction whose due time has passed.")] = False,
) -> None:
    """Close predictions that will not be resolved. They are not scored.

    Example: lukasa forecast expire --due
    """
    if (id is None) == (not due):
        raise InvalidInput("Name one prediction, or use --due.")
    with call.open(create=False) as memory:
        if id is not None:
            _show_prediction(call, memory.forecasts.expire(id))
            return
        expired = memory.forecasts.expire_due()
    call.show({"expired": expired}, f"{format_count(len(expired), 'prediction')} expired.")


@app.command("list")
def list_(
    call: Call,
    status: Annotated[
        str | None, option("STATUS", "Only this status: active, resolved, expired or recovering.")
    ] = None,
) -> None:
    """List predictions, the newest last.

    Example: lukasa forecast list --status active
    """
    with call.open(create=False) as memory:
        found = memory.forecasts.find(status)
    hidden = len(found) - _MAX_ROWS
    call.show(
        found,
        columns=("id", "status", "p", "outcome", "question"),
        rows=[
            (
                body["prediction_id"],
                body["status"],
                f"{body['probability']:g}",
                _format_outcome(body),
                body.get("question", ""),
            )
            for body in found[-_MAX_ROWS:]
        ],
        wrap=("question",),
        after=f"and {format_count(hidden, 'earlier one')}; --json shows all of them." if hidden > 0 else (),
        empty="There are no predictions.",
    )


@app.command()
def scores(call: Call, window: WindowOption = None) -> None:
    """Show how accurate and how well calibrated the resolved predictions were.

    Example: lukasa forecast scores --window 30
    """
    within = None if window is None else timedelta(days=window)
    with call.open(create=False) as memory:
        scored, learned = memory.forecasts.scores(within), memory.forecasts.learning(within)
    answer = {**scored.as_json(), "learning": learned.as_json()}
    if not scored.count:
        call.show(answer, "No prediction is resolved yet.")
        return
    decomposition = asdict(scored.decomposition) if scored.decomposition is not None else {}
    correction = learned.correction
    fields = {
        "resolved": f"{scored.count:,}",
        "Brier score": f"{scored.brier_score:.4f}",
        "log score": f"{scored.log_score:.4f}",
        "calibration score": f"{scored.calibration_score:.4f}",
        "accuracy": f"{scored.accuracy:.4f}",
        "skill": "" if scored.skill is None else f"{scored.skill:.4f}",
        "decomposition": ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in decomposition.items()),
        "trend": learned.performance_trend,
        "weak areas": ", ".join(learned.areas_for_improvement),
        "correction": (
            f"bias {correction.bias_correction:+.3f}, scaling {correction.confidence_scaling:.3f}. {learned.why}"
        ),
    }
    call.show(answer, fields=fields)
    if not call.json:
        buckets = [
            (name, bucket.count, "" if bucket.accuracy is None else f"{bucket.accuracy:.3f}")
            for name, bucket in scored.by_confidence_bucket.items()
        ]
        render.print_table(("confidence", "count", "accuracy"), buckets)


@app.command()
def plot(
    call: Call,
    out: Annotated[Path | None, option("FILE", "Write the diagram to this .svg file.")] = None,
    window: WindowOption = None,
) -> None:
    """Draw the reliability diagram: predicted probabilities against what happened.

    Example: lukasa forecast plot --out reliability.svg
    """
    from lukasa.forecasts import diagram

    with call.open(create=False) as memory:
        scored = memory.forecasts.scores(None if window is None else timedelta(days=window))
    if out is not None:
        diagram.draw_diagram(scored).save(out)
    answer = {"file": None if out is None else str(out), "reliability": scored.as_json()["reliability"]}
    title = diagram.format_title(scored)
    if out is not None:
        call.show(answer, f"Drew {title} to {out}.")
        return
    columns = ("bin", "count", "said", "happened", "0 to 1, | is what was said")
    call.show(answer, columns=columns, rows=diagram.format_bar_rows(scored.reliability), after=title)


def _show_prediction(call: Call, outcome: Outcome) -> None:
    body: Mapping[str, Any] = require_accepted(outcome).record.body
    result = f", {_format_outcome(body)}" if body["status"] == "resolved" else ""
    call.show(to_json(body), f"{body['prediction_id']}: {body['probability']:g}, {body['status']}{result}.")


def _format_outcome(body: Mapping[str, Any]) -> str:
    return {True: "yes", False: "no"}.get(body.get("outcome"), "")  # type: ignore[arg-type]
