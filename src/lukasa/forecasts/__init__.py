"""Forecasts: predictions with their revisions, signals, resolution, scores and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.core.body_shape import BodyShape, NumberBetween
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.journal.gate import KindSpec

if TYPE_CHECKING:
    from lukasa.forecasts.calibration import CalibrationReport, ProbabilityCorrection
    from lukasa.forecasts.forecasts import Forecasts
    from lukasa.forecasts.scoring import ForecastScores
    from lukasa.forecasts.views import MarketAnalysis, Prediction, Signal

__all__ = [
    "KINDS",
    "CalibrationReport",
    "ForecastScores",
    "Forecasts",
    "MarketAnalysis",
    "Prediction",
    "ProbabilityCorrection",
    "Signal",
]

_SHARE = NumberBetween(0, 1)
_SIGNAL = KindSpec(
    written_by="service",
    is_statement=False,
    body=BodyShape(
        {
            **dict.fromkeys(("signal_id", "market_id", "prediction_id", "agent_id", "received_at"), str),
            "timestamp": (str, None), "prediction": float, "confidence": float, "broadcast": bool, "acknowledged": bool,
        },
        required="signal_id",
    )
)  # fmt: skip
KINDS = {
    "prediction": KindSpec(
        body=BodyShape(
            {
                **dict.fromkeys(("prediction_id", "market_id", "status"), str),
                **dict.fromkeys(("question", "category", "created_at", "last_updated", "due", "resolved_at"), (str, None)),
                "probability": _SHARE, "confidence_level": (_SHARE, None), "confidence_interval": ([_SHARE], None),
                "num_updates": int, "outcome": (bool, None),
            },
            required="prediction_id market_id probability status",
        )
    ),
    "reasoning": KindSpec(
        body=BodyShape(
            {
                "market_id": str, "base_rate": (_SHARE, None), "last_analysis": str, "evidence": [dict],
                "key_factors": [BodyShape({"factor": str, "adjustment": NumberBetween(-1, 1)}, "adjustment")],
            }
        )
    ),
    "signal": _SIGNAL,
    "received_signal": KindSpec(body=BodyShape({"signal_id": str, "agent_id": str})),
}  # fmt: skip
"""The kinds of record that forecasts write."""

__getattr__ = lazy_attributes(
    __name__,
    {
        **dict.fromkeys(("CalibrationReport", "ProbabilityCorrection"), "lukasa.forecasts.calibration"),
        "Forecasts": "lukasa.forecasts.forecasts",
        "ForecastScores": "lukasa.forecasts.scoring",
        **dict.fromkeys(("MarketAnalysis", "Prediction", "Signal"), "lukasa.forecasts.views"),
    },
)
