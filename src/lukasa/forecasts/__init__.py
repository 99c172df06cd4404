"""Forecasts: predictions with their revisions, signals, resolution, scores and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.gate import KindSpec
from lukasa.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from lukasa.forecasts.calibration import CalibrationReport, ProbabilityCorrection
    from lukasa.forecasts.forecasts import Forecasts
    from lukasa.forecasts.scoring import ForecastScores

__all__ = ["KINDS", "CalibrationReport", "ForecastScores", "Forecasts", "ProbabilityCorrection"]

KINDS = dict.fromkeys(("prediction", "reasoning", "signal", "received_signal"), KindSpec())
"""The kinds of record that forecasts write."""

__getattr__ = lazy_attributes(
    __name__,
    {
        **dict.fromkeys(("CalibrationReport", "ProbabilityCorrection"), "lukasa.forecasts.calibration"),
        "Forecasts": "lukasa.forecasts.forecasts",
        "ForecastScores": "lukasa.forecasts.scoring",
    },
)
