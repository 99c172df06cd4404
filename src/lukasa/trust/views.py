"""What the history of an agent consists of, as the document lists it."""

from __future__ import annotations

from dataclasses import dataclass

from lukasa.core.body_fields import (
    BodyView,
    flag_field,
    list_field,
    number_field,
    object_field,
    optional_field,
    text_field,
    time_field,
)


@dataclass(frozen=True, slots=True)
class ScoreChange(BodyView):
    """A change of an agent's trust."""

    timestamp = time_field("timestamp")
    score = number_field("score")
    reason = text_field("reason")


@dataclass(frozen=True, slots=True)
class Dissent(BodyView):
    """An objection of an agent."""

    round_id = text_field("round_id")
    timestamp = time_field("timestamp")
    dissent_text = text_field("dissent_text")
    rubric_citations = list_field("rubric_citations")
    context = object_field("context")
    impact = flag_field("impact")
    """Whether it changed something; ``None`` until that is known."""
    feedback_incorporated = flag_field("feedback_incorporated")
    depth_score = optional_field("depth_score")


@dataclass(frozen=True, slots=True)
class Override(BodyView):
    """A person's decision against an agent's output."""

    round_id = text_field("round_id")
    timestamp = time_field("timestamp")
    agent_output = text_field("agent_output")
    human_decision = text_field("human_decision")
    context = object_field("context")
    regret = flag_field("regret")
    auto_check_deadline = time_field("auto_check_deadline")
    reverted_by = text_field("reverted_by")
