"""``/v1/skills``: procedures as Markdown."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lukasa.experience import Skills
from lukasa.interfaces.http.requests import Name, RequestModel, WritingMemory
from lukasa.interfaces.http.responses import WRITTEN, outcome_response
from lukasa.interfaces.http.service_routes import LongText, ServiceRoutes

routes = ServiceRoutes("/v1/skills", lambda memory: memory.skills)


class NewSkill(RequestModel):
    """A procedure."""

    markdown: LongText
    id: Name | None = Field(None, description="Made from the title if it is missing.")
    scope: Name = "shared"


@routes.router.post("", status_code=201, responses={201: WRITTEN})
def add_skill(memory: WritingMemory, body: NewSkill) -> Any:
    """Store a skill; one with the same id gets a new version."""
    return outcome_response(memory.skills.add(body.markdown, id=body.id or "", scope=body.scope), status=201)


routes.add("GET", "", Skills.list, answer="skills")
routes.add("GET", "/search", Skills.search, answer="skills")
routes.add("GET", "/{id}", Skills.get)
routes.add("DELETE", "/{id}", Skills.delete)
routes.add("POST", "/{id}/uses", Skills.record_use)
