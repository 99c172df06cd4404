"""``/v1/proposals``: what agents would change of the owner's records. Agents see it; the owner decides."""

from __future__ import annotations

from lukasa.interfaces.http.service_routes import ServiceRoutes
from lukasa.proposals import Proposals

routes = ServiceRoutes("/v1/proposals", lambda memory: memory.proposals)
routes.add("GET", "", Proposals.list, answer="proposals")
routes.add("GET", "/{id}", Proposals.get)
routes.add("POST", "/{id}/accept", Proposals.accept)
routes.add("POST", "/{id}/refuse", Proposals.refuse)
