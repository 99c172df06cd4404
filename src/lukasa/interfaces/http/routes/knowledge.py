"""``/v1/knowledge``: patterns, anti-patterns and facts, and the links between them."""

from __future__ import annotations

from lukasa.experience import Knowledge
from lukasa.interfaces.http.service_routes import ServiceRoutes

routes = ServiceRoutes("/v1/knowledge", lambda memory: memory.knowledge)
routes.add("GET", "/patterns", Knowledge.patterns, answer="patterns")
routes.add("POST", "/patterns", Knowledge.add_pattern, status=201)
routes.add("GET", "/antipatterns", Knowledge.antipatterns, answer="antipatterns")
routes.add("POST", "/antipatterns", Knowledge.add_antipattern, status=201)
routes.add("GET", "/facts", Knowledge.facts, answer="facts")
routes.add("POST", "/facts", Knowledge.add_fact, status=201)
routes.add("GET", "/items/{ref}", Knowledge.get)
routes.add("POST", "/items/{ref}/uses", Knowledge.use)
routes.add("GET", "/items/{ref}/neighbours", Knowledge.neighbours, answer="neighbours")
routes.add("POST", "/links", Knowledge.link, rename={"a": "source", "b": "target"})
routes.add("DELETE", "/links", Knowledge.unlink, rename={"a": "source", "b": "target"})
routes.add("GET", "/path", Knowledge.path, answer="path", rename={"a": "source", "b": "target"})
routes.add("GET", "/contradictions", Knowledge.contradictions, answer="contradictions")
routes.add("GET", "/learnings", Knowledge.learnings, answer="learnings")
routes.add("POST", "/merge", Knowledge.merge_duplicates)
