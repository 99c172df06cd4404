"""Valid bodies for requests that random data seldom makes, by verb and path, for ``st run``.

``SCHEMATHESIS_HOOKS`` names this file. The things that the bodies name are those of ``one_of_everything.py``.
"""

from __future__ import annotations

from typing import Any

import schemathesis

BODIES: dict[str, dict[str, Any]] = {
    "patch /v1/memories/{id}": {"text": "Deploys run on Wednesdays after the review."},
    "post /v1/agents/{agent}/acknowledgements": {"sender": "writer", "signal_id": "signal-1"},
    "post /v1/agents/{agent}/predictions": {"prediction_id": "p-2", "question": "It rains", "probability": 0.4},
    "post /v1/agents/{agent}/signals": {"signal_id": "signal-1", "prediction_id": "ship", "probability": 0.7},
    "post /v1/before-task": {"task": "Fix the login page"},
    "post /v1/conversations/{conversation_id}/facts": {"text": "The team deploys on Tuesdays."},
    "post /v1/conversations/{conversation_id}/forks": {"new_id": "talk-2"},
    "post /v1/conversations/{conversation_id}/tool-calls": {"tool": "search"},
    "post /v1/episodes": {"goal": "Move the queue to port 6380", "outcome": "success"},
    "post /v1/episodes/{id}/errors": {"type": "TimeoutError", "message": "The gateway did not answer."},
    "put /v1/episodes/{id}/outcome": {"outcome": "success"},
    "post /v1/episodes/{id}/restoration": {},
    "post /v1/episodes/{id}/steps": {"action": "write_file", "target": "login.py"},
    "put /v1/forecasts/{prediction_id}/resolution": {"outcome": True},
    "post /v1/forecasts/{prediction_id}/revisions": {"probability": 0.8},
    "post /v1/forecasts/{prediction_id}/signals": {"confidence": 0.9},
    "post /v1/handoffs": {"to_agent": "ben", "what_was_done": "The form is done; test it."},
    "post /v1/handoffs/{id}/reassignment": {"to_agent": "writer"},
    "post /v1/jobs": {"name": "experience.consolidate"},
    "post /v1/journal/quarantines": {"author": "stranger-2", "reason": "A test."},
    "post /v1/journal/undo": {"author": "nobody", "dry_run": True},
    "post /v1/knowledge/antipatterns": {"what_fails": "Restarting the workers before the migration"},
    "post /v1/knowledge/facts": {"fact": "The gateway runs on port 8080."},
    "post /v1/knowledge/links": {"source": "cache-ada", "relation": "related_to", "target": "queue-ada"},
    "post /v1/knowledge/patterns": {"pattern": "Run the migrations before the workers restart"},
    "post /v1/memories/{id}/promotion": {"by": "anna"},
    "post /v1/proposals/{id}/acceptance": {},
    "post /v1/proposals/{id}/refusal": {},
    "put /v1/rubrics/{name}": {"criteria": {"Accuracy": 1.0}, "by": "anna"},
    "post /v1/skills": {"skill": "# Restore\n\n## Steps\n\n1. Stop the workers\n2. Copy the backup\n"},
    "post /v1/skills/{id}/uses": {"success": True},
    "post /v1/tokens": {"name": "another", "agent": "writer"},
    "post /v1/trust/advocates": {"candidates": ["writer", "critic"]},
    "post /v1/trust/agents": {"agent": "critic"},
    "post /v1/trust/dissents": {"text": "The date is wrong.", "rubric_citations": ["Accuracy"]},
    "post /v1/trust/dissents/logged": {"agent": "writer", "text": "The sum is wrong."},
    "put /v1/trust/dissents/{id}/judgement": {"impact": True},
    "post /v1/trust/overrides": {"agent": "writer", "agent_output": "Ship now", "human_decision": "Ship later"},
    "post /v1/trust/overrides/{id}/reversal": {"by": "anna"},
    "post /v1/trust/rounds/{round_id}/participations": {"agents": ["writer"]},
}


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Add the bodies to the description as examples."""
    for place, body in BODIES.items():
        verb, path = place.split(" ")
        raw_schema["paths"][path][verb]["requestBody"]["content"]["application/json"]["example"] = body
