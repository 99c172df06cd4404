"""Forecasts: predictions that are kept with their revisions, signalled, resolved, scored and learned from.

``scoring`` and ``learning`` are pure functions of probabilities and outcomes, ``drawing`` shows them, ``room`` is what a
memory hands out as ``memory.forecasts``.
"""

from lukasa.forecasts.calibration import CalibrationReport, ProbabilityCorrection
from lukasa.forecasts.forecasts import Forecasts
from lukasa.forecasts.scoring import ForecastScores

__all__ = ["CalibrationReport", "ForecastScores", "Forecasts", "ProbabilityCorrection"]
