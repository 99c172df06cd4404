"""Forecasts: predictions that are kept with their revisions, signalled, resolved, scored and learned from.

``scoring`` and ``learning`` are pure functions of probabilities and outcomes, ``drawing`` shows them, ``room`` is what a
memory hands out as ``memory.forecasts``.
"""

from lukasa.forecasts.learning import Correction, Learning
from lukasa.forecasts.room import Forecasts
from lukasa.forecasts.scoring import Scores

__all__ = ["Correction", "Forecasts", "Learning", "Scores"]
