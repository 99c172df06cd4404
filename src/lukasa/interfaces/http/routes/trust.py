"""``/v1/trust``: dissents, overrides, trust scores and rubrics. An agent files dissents; the rest is the owner's."""

from __future__ import annotations

from lukasa.interfaces.http.service_routes import ServiceRoutes
from lukasa.trust import Trust
from lukasa.trust.rubric import Rubrics

routes = ServiceRoutes("/v1/trust", lambda memory: memory.trust)
routes.add("GET", "/dissents", Trust.filed, answer="dissents")
routes.add("POST", "/dissents", Trust.file_dissent, status=201)
routes.add("POST", "/dissents/logged", Trust.log_dissent, status=201)
routes.add("POST", "/dissents/{id}/judgement", Trust.judge)
routes.add("POST", "/overrides", Trust.log_override, status=201)
routes.add("POST", "/overrides/{id}/reversal", Trust.revert)
routes.add("GET", "/agents", Trust.agents, answer="agents")
routes.add("POST", "/agents", Trust.register, status=201)
routes.add("GET", "/agents/{agent}", Trust.score)
routes.add("GET", "/agents/{agent}/history", Trust.history, answer="changes")
routes.add("GET", "/agents/{agent}/diversity", Trust.diversity)
routes.add("GET", "/agents/{agent}/eligibility", Trust.eligibility)
routes.add("POST", "/agents/{agent}/probation", Trust.set_probation)
routes.add("POST", "/participations", Trust.participate)
routes.add("POST", "/advocate", Trust.assign_devils_advocate)
routes.add("POST", "/weights", Trust.weigh)
routes.add("GET", "/metrics", Trust.metrics)
routes.add("GET", "/controversy", Trust.controversy, answer="controversies")
routes.add("GET", "/influence", Trust.influence)

rubrics = ServiceRoutes("/v1/rubrics", lambda memory: memory.trust.rubric)
rubrics.add("GET", "/proposals", Rubrics.proposals, answer="proposals")
rubrics.add("POST", "/proposals/{id}/apply", Rubrics.apply)
rubrics.add("POST", "/proposals/{id}/reject", Rubrics.reject)
rubrics.add("GET", "/{name}", Rubrics.get)
rubrics.add("POST", "/{name}", Rubrics.set)
rubrics.add("GET", "/{name}/versions", Rubrics.versions, answer="versions")
rubrics.add("POST", "/{name}/proposals", Rubrics.propose, answer="proposals")
