"""The results of the forecast service: predictions, signals and analyses, read from their records."""

from __future__ import annotations

from dataclasses import dataclass

from lukasa.core.body_fields import (
    BodyView,
    count_field,
    flag_field,
    list_field,
    number_field,
    optional_field,
    text_field,
    time_field,
)


@dataclass(frozen=True, slots=True)
class Prediction(BodyView):
    """One version of a prediction."""

    prediction_id = text_field("prediction_id")
    market_id = text_field("market_id")
    question = text_field("question")
    category = text_field("category")
    status = text_field("status")
    probability = number_field("probability")
    uncalibrated = optional_field("uncalibrated")
    """The probability before it was calibrated, if it was."""
    confidence_interval = list_field("confidence_interval")
    confidence_level = optional_field("confidence_level")
    num_updates = count_field("num_updates")
    outcome = flag_field("outcome")
    """Whether it came true; ``None`` until that is known."""
    created_at = time_field("created_at")
    last_updated = time_field("last_updated")
    due = time_field("due")
    resolved_at = time_field("resolved_at")


@dataclass(frozen=True, slots=True)
class Signal(BodyView):
    """A signal about a prediction, made here or received from another agent."""

    signal_id = text_field("signal_id")
    agent_id = text_field("agent_id")
    market_id = text_field("market_id")
    prediction_id = text_field("prediction_id")
    prediction = number_field("prediction")
    """The probability that the signal tells."""
    confidence = number_field("confidence")
    timestamp = time_field("timestamp")
    received_at = time_field("received_at")
    broadcast = flag_field("broadcast")
    acknowledged = flag_field("acknowledged")


@dataclass(frozen=True, slots=True)
class MarketAnalysis(BodyView):
    """The analysis of a market: its base rate, what adjusts it, and the evidence."""

    market_id = text_field("market_id")
    base_rate = optional_field("base_rate")
    key_factors = list_field("key_factors")
    evidence = list_field("evidence")
    last_analysis = time_field("last_analysis")
