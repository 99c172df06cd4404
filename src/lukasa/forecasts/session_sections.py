"""Forecasts in the state of a session: how predictions, signals, reasoning and scores are merged into its sections.

Every function here is pure. Of two versions of the same thing the newer one counts. What only the state has is kept.
Figures that the state brought along from elsewhere carry on: they count up to the time at which they were calculated, and
the store's own predictions count from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lukasa.core.clock import from_iso
from lukasa.errors import InvalidInput
from lukasa.forecasts.calibration import MIN_PREDICTIONS, CalibrationReport

Section = Mapping[str, Any]
SCORE_NAMES = ("brier_score", "log_score", "calibration_score")
OWN_FIGURES_KEY = "rolling_30_days"
"""Field that only figures of this program have."""
IMPORTED_KEY = "imported"
"""Field for the figures that a state brought along."""


def merge_predictions(items: Sequence[Section], predictions: Iterable[Section]) -> list[Section]:
    """Merge predictions into the list of a state. Settled ones only replace; they are not added."""
    merged = {item["prediction_id"]: item for item in items}
    for prediction in predictions:
        id, known = prediction["prediction_id"], merged.get(prediction["prediction_id"])
        if known is None:
            if prediction.get("status") in ("active", "recovering"):
                merged[id] = prediction
        elif read_time(prediction, "last_updated") >= read_time(known, "last_updated"):
            merged[id] = {**known, **prediction}
    return list(merged.values())


def merge_signals(items: Sequence[Section], signals: Iterable[Section], limit: int) -> list[Section]:
    """Merge signals into the list of a state, and add at most as many as fit below the limit, the newest."""
    merged = {item["signal_id"]: item for item in items}
    new = []
    for signal in signals:
        known = merged.get(signal["signal_id"])
        if known is None:
            new.append(signal)
        else:
            states = {name: bool(known.get(name) or signal.get(name)) for name in ("broadcast", "acknowledged")}
            merged[signal["signal_id"]] = {**known, **signal, **states}
    space = max(limit - len(merged), 0)
    return [*merged.values(), *(new[-space:] if space else ())]


def merge_reasoning(cache: Section, reasoning: Mapping[str, Section], limit: int) -> Section:
    """Merge the analyses of markets into the cache of a state, and add at most as many as fit below the limit."""
    merged = dict(cache)
    for market, analysis in reasoning.items():
        known = merged.get(market)
        if known is None and len(merged) >= limit:
            continue
        if known is None or read_time(analysis, "last_analysis") >= read_time(known, "last_analysis"):
            merged[market] = analysis
    return merged


def split_imported_figures(metrics: Section) -> Section | None:
    """Return the figures that a state brought along from elsewhere, or None."""
    if isinstance(imported := metrics.get(IMPORTED_KEY), dict):
        return imported
    return metrics if metrics.get("total_predictions") and OWN_FIGURES_KEY not in metrics else None


def add_figures(imported: Section, own: Section) -> dict[str, Any]:
    """Add the figures of later predictions to imported ones. Scores are means weighted by resolved predictions."""
    counts = [figures.get("resolved_predictions") or 0 for figures in (imported, own)]
    figures = {
        **own,
        "total_predictions": (imported.get("total_predictions") or 0) + own["total_predictions"],
        "resolved_predictions": sum(counts),
        IMPORTED_KEY: {name: value for name, value in imported.items() if name != IMPORTED_KEY},
    }
    for name in SCORE_NAMES:
        figures[name] = _weighted_mean([imported.get(name), own[name]], counts)
    buckets = [figures.get("by_confidence_bucket") or {} for figures in (imported, own)]
    figures["by_confidence_bucket"] = merged = {}
    for name in {**buckets[0], **buckets[1]}:
        parts = [part[name] for part in buckets if name in part]
        counts = [part.get("count") or 0 for part in parts]
        accuracy = _weighted_mean([part.get("accuracy") for part in parts], counts)
        merged[name] = {"count": sum(counts), "accuracy": accuracy}
    return figures


def merge_learning(learning: Section, report: CalibrationReport) -> dict[str, Any]:
    """Merge a calibration into the section of a state. Without enough predictions it only fills what is missing."""
    learned: dict[str, Any] = {
        "calibration_adjustments": {
            "bias_correction": report.correction.bias_correction,
            "confidence_scaling": report.correction.confidence_scaling,
        },
        "performance_trend": report.performance_trend,
        "areas_for_improvement": list(report.areas_for_improvement),
    }
    return {**learning, **learned} if report.correction.samples >= MIN_PREDICTIONS else {**learned, **learning}


def read_time(item: Section, name: str) -> datetime:
    """Return a time in a field; 1970 when there is none."""
    value = item.get(name)
    try:
        return from_iso(value if isinstance(value, str) else "1970-01-01")
    except InvalidInput:
        return from_iso("1970-01-01")


def _weighted_mean(values: Sequence[float | None], counts: Sequence[int]) -> float | None:
    known = [(value, count) for value, count in zip(values, counts, strict=True) if value is not None and count]
    total = sum(count for _, count in known)
    return sum(value * count for value, count in known) / total if total else None
