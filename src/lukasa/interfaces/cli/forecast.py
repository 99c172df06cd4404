"""``lukasa forecast``: predictions, their results and their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from lukasa.core.choices import PREDICTION_STATUSES
from lukasa.core.outcome import Outcome
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    ForceOption,
    argument,
    choice,
    flag,
    option,
    parse_time,
    require_choice,
    require_found,
)
from lukasa.interfaces.cli.render import format_cell, format_count, read_fields
from lukasa.interfaces.serialise import to_json

PredictionArgument = Annotated[str, argument("ID", "The id of the prediction.")]
MAX_DAYS = 100_000
WindowOption = Annotated[
    float | None, option("DAYS", "Only what was resolved in the last DAYS days.", min=0, max=MAX_DAYS)
]
_MAX_ROWS = 50
_ANSWERS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

app = CommandApp(
    "forecast", "Record predictions, resolve them, and see how good they were.", example="lukasa forecast scores"
)


@app.command()
def predict(
    call: Call,
    question: Annotated[str, argument("QUESTION", "What is predicted.")],
    probability: Annotated[float, argument("P", "Its probability, from 0 to 1.")],
    id: Annotated[str | None, option("ID", "Its id; default: a new one.")] = None,
    market: Annotated[str | None, option("NAME", "The market it belongs to.")] = None,
    category: Annotated[str, option("NAME", "Its category, to find weak areas later.")] = "",
    level: Annotated[float | None, option("P", "Confidence level of the interval, from 0 to 1.")] = None,
    interval: Annotated[tuple[float, float] | None, option("LOW HIGH", "Confidence interval.")] = None,
    due: Annotated[str | None, option("TIME", "When the result will be known.")] = None,
    calibrated: Annotated[bool, flag("--calibrated", "Correct it by the errors of past predictions.")] = False,
) -> None:
    """Store a prediction with its probability.

    Example: lukasa forecast predict "Will the release ship by Friday?" 0.7 --category releases
    """
    details: dict[str, Any] = {"prediction_id": id, "market_id": market, "category": category, "due": parse_time(due)}
    details |= {"confidence_level": level, "confidence_interval": interval, "calibrated": calibrated}
    _show_prediction(call, call.memory.forecasts.predict(question, probability, **details))


@app.command()
def revise(
    call: Call,
    id: PredictionArgument,
    probability: Annotated[float, argument("P", "The new probability, from 0 to 1.")],
) -> None:
    """Change the probability of a prediction. Earlier ones stay in its history.

    Example: lukasa forecast revise pred-001 0.8
    """
    _show_prediction(call, call.existing_memory.forecasts.revise(id, probability))


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
    _show_prediction(call, call.existing_memory.forecasts.resolve(id, happened))


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
    if id is not None:
        _show_prediction(call, call.existing_memory.forecasts.expire(id))
        return
    expired = call.existing_memory.forecasts.expire_due()
    call.show({"expired": expired}, f"{format_count(len(expired), 'prediction')} expired.")


@app.command()
def list_(
    call: Call,
    status: Annotated[
        str | None, choice("STATUS", "Only active, resolved, expired or recovering ones.", PREDICTION_STATUSES)
    ] = None,
) -> None:
    """List predictions, the newest last.

    Example: lukasa forecast list --status active
    """
    found = call.existing_memory.forecasts.list(require_choice(status, PREDICTION_STATUSES, "a status"))
    hidden = len(found) - _MAX_ROWS
    call.show(
        found,
        columns="id=prediction_id, status, p=probability:g, outcome, question",
        rows=found[-_MAX_ROWS:],
        wrap="question",
        after=f"and {format_count(hidden, 'earlier one')}; --json shows all of them." if hidden > 0 else (),
        empty="There are no predictions.",
    )


@app.command()
def show(call: Call, id: PredictionArgument) -> None:
    """Show all fields of one prediction, with the probabilities that it had before.

    Example: lukasa forecast show pred-001
    """
    found = call.existing_memory.forecasts.get(id)
    body = to_json(require_found(found, f"There is no prediction {id}.", "`lukasa forecast list` shows them."))
    fields = {name.replace("_", " "): format_cell(value) for name, value in body.items() if value not in (None, "", [])}
    call.show(body, fields=fields)


@app.command()
def scores(call: Call, window: WindowOption = None) -> None:
    """Show how accurate and how well calibrated the resolved predictions were.

    Example: lukasa forecast scores --window 30
    """
    forecasts, within = call.existing_memory.forecasts, None if window is None else timedelta(days=window)
    scored, learned = forecasts.scores(within), forecasts.learning(within)
    answer = {**scored.as_json(), "learning": learned.as_json()}
    if not scored.count:
        call.show(answer, "No prediction is resolved yet.")
        return
    decomposition = asdict(scored.decomposition) if scored.decomposition is not None else {}
    bias, scaling = learned.correction.bias_correction, learned.correction.confidence_scaling
    fields = read_fields(scored, "resolved=count:,d, Brier score=brier_score:.4f, log score=log_score:.4f")
    fields |= read_fields(scored, "calibration score=calibration_score:.4f, accuracy:.4f, skill:.4f") | {
        "decomposition": ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in decomposition.items()),
        "trend": learned.performance_trend,
        "weak areas": learned.areas_for_improvement,
        "correction": f"bias {bias:+.3f}, scaling {scaling:.3f}. {learned.why}",
    }
    call.show(answer, fields=fields)
    buckets = [
        {"confidence": name, "count": bucket.count, "accuracy": bucket.accuracy}
        for name, bucket in scored.by_confidence_bucket.items()
    ]
    call.show_more(columns="confidence, count, accuracy:.3f", rows=buckets)


@app.command()
def plot(
    call: Call,
    out: Annotated[Path | None, option("FILE", "Write the diagram to this .svg file.")] = None,
    force: ForceOption = False,
    window: WindowOption = None,
) -> None:
    """Draw the reliability diagram: predicted probabilities against what happened.

    Example: lukasa forecast plot --out reliability.svg
    """
    from lukasa.forecasts import diagram

    scored = call.existing_memory.forecasts.scores(None if window is None else timedelta(days=window))
    answer = {"file": None if out is None else str(out), "reliability": scored.as_json()["reliability"]}
    title = diagram.format_title(scored)
    if out is not None:
        diagram.draw_diagram(scored).save(out, replace=force)
        call.show(answer, f"Drew {title} to {out}.")
        return
    columns = ("bin, count, said, happened", ("0 to 1, | is what was said", str))
    call.show(answer, columns=columns, rows=diagram.format_bar_rows(scored.reliability), after=title)


def _show_prediction(call: Call, outcome: Outcome) -> None:
    body: Mapping[str, Any] = outcome.unwrap().body
    result = f", {format_cell(body['outcome'])}" if body["status"] == "resolved" else ""
    call.show(to_json(body), f"{body['prediction_id']}: {body['probability']:g}, {body['status']}{result}.")
