"""``/v1/sessions``: the state of agents, checkpoints and recovery."""

from __future__ import annotations

from lukasa.interfaces.http.service_routes import ServiceRoutes
from lukasa.sessions import Sessions

routes = ServiceRoutes("/v1/sessions", lambda memory: memory.sessions)
routes.add("GET", "", Sessions.list, answer="sessions")
routes.add("GET", "/{session_id}", Sessions.state, omit="as_of")
routes.add("DELETE", "/{session_id}", Sessions.erase, answer="erased")
routes.add("GET", "/{session_id}/checkpoints", Sessions.checkpoints, answer="checkpoints")
routes.add("GET", "/{session_id}/checkpoints/{number}", Sessions.checkpoint)
routes.add(
    "POST",
    "/{session_id}/checkpoints",
    Sessions.save_checkpoint,
    status=201,
    omit="checkpoint_number retention last_updated",
    rename={"agent_state": "state"},
)
routes.add("GET", "/{session_id}/events", Sessions.events, answer="events")
routes.add("GET", "/{session_id}/incidents", Sessions.incidents, answer="incidents")
routes.add("POST", "/{session_id}/recovery", Sessions.recover)
routes.add("GET", "/{session_id}/verification", Sessions.verify, answer="checkpoints")
