"""``lukasa forecast``: predictions, their results and their scores."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from lukasa.interfaces.cli.options import Call, ForceOption, option

MAX_DAYS = 100_000
WindowOption = Annotated[
    float | None, option("DAYS", "Only what was resolved in the last DAYS days.", min=0, max=MAX_DAYS)
]


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
