"""``/v1/handoffs``: work passed from one agent to another. The caller is the sender, and the receiver who accepts."""

from __future__ import annotations

from lukasa.experience import Handoffs
from lukasa.interfaces.http.service_routes import ServiceRoutes

routes = ServiceRoutes("/v1/handoffs", lambda memory: memory.handoffs)
routes.add("GET", "", Handoffs.inbox, answer="handoffs")
routes.add("GET", "/sent", Handoffs.sent, answer="handoffs")
routes.add("POST", "", Handoffs.create, status=201)
routes.add("GET", "/{id}", Handoffs.get)
routes.add("POST", "/{id}/read", Handoffs.read)
routes.add("POST", "/{id}/accept", Handoffs.accept, omit="agent")
routes.add("POST", "/{id}/complete", Handoffs.complete)
routes.add("POST", "/{id}/reassign", Handoffs.reassign)
routes.add("POST", "/{id}/reopen", Handoffs.reopen)
