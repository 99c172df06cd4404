"""The nine tools of the reference MCP memory server, answered as it answers, on our log.

For programs that were written for that server. Its answers are plain JSON, so what was observed is not fenced here; where
that matters, use ``recall``, which finds the same observations.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lukasa.doors.mcp.answers import failure
from lukasa.doors.mcp.callers import CURRENT, Stores
from lukasa.doors.mcp.tools import ADDS, LOOKS, TAKES
from lukasa.errors import LukasaError
from lukasa.graph import Entity, Graph, Nodes, Relation
from lukasa.outcome import Conflict, Refused

URI = "memory://knowledge-graph"


class _Told(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class EntityTold(_Told):
    name: str = Field(description="The name of the entity")
    entity_type: str = Field(description="The type of the entity")
    observations: list[str] = Field(description="An array of observation contents associated with the entity")


class RelationTold(_Told):
    source: str = Field(alias="from", description="The name of the entity where the relation starts")
    target: str = Field(alias="to", description="The name of the entity where the relation ends")
    relation_type: str = Field(description="The type of the relation")


class Addition(_Told):
    entity_name: str = Field(description="The name of the entity to add the observations to")
    contents: list[str] = Field(description="An array of observation contents to add")


class Deletion(_Told):
    entity_name: str = Field(description="The name of the entity containing the observations")
    observations: list[str] = Field(description="An array of observations to delete")


class Entities(BaseModel):
    entities: list[EntityTold]


class Relations(BaseModel):
    relations: list[RelationTold]


class Added(_Told):
    entity_name: str
    added_observations: list[str]


class Results(BaseModel):
    results: list[Added]


class Done(BaseModel):
    success: bool
    message: str


class Whole(BaseModel):
    entities: list[EntityTold]
    relations: list[RelationTold]


def offer(server: MCPServer[Any], stores: Stores) -> None:
    """Offers the nine tools and the resource of the reference server."""

    def on(
        ctx: Context[Any, Any], call: Callable[[Graph], Any], tell: Callable[[Any], tuple[Any, dict[str, Any]]]
    ) -> CallToolResult:
        try:
            found = call(stores.of(ctx).graph)
        except (LukasaError, OSError) as error:
            stores.note(error)
            return _failed(failure(error).reason or "")
        if isinstance(found, Refused | Conflict):
            return _failed(found.reason)
        said, structured = tell(found)
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, indent=2)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)

    @server.tool(title="Create Entities", annotations=ADDS)
    def create_entities(entities: list[EntityTold], ctx: Context[Any, Any]) -> Annotated[CallToolResult, Entities]:
        """Create multiple new entities in the knowledge graph"""
        wanted = [Entity(each.name, each.entity_type, tuple(each.observations)) for each in entities]
        return on(ctx, lambda graph: graph.create_entities(wanted), lambda made: _both("entities", map(_entity, made)))

    @server.tool(title="Create Relations", annotations=ADDS)
    def create_relations(relations: list[RelationTold], ctx: Context[Any, Any]) -> Annotated[CallToolResult, Relations]:
        """Create multiple new relations between entities in the knowledge graph. Relations should be in active voice"""
        wanted = _relations(relations)
        return on(
            ctx, lambda graph: graph.create_relations(wanted), lambda made: _both("relations", map(_relation, made))
        )

    @server.tool(title="Add Observations", annotations=ADDS)
    def add_observations(observations: list[Addition], ctx: Context[Any, Any]) -> Annotated[CallToolResult, Results]:
        """Add new observations to existing entities in the knowledge graph"""
        wanted = [(each.entity_name, each.contents) for each in observations]
        return on(ctx, lambda graph: graph.add_observations(wanted), lambda made: _both("results", map(_added, made)))

    @server.tool(title="Delete Entities", annotations=TAKES)
    def delete_entities(
        entityNames: Annotated[list[str], Field(description="An array of entity names to delete")],  # noqa: N803
        ctx: Context[Any, Any],
    ) -> Annotated[CallToolResult, Done]:
        """Delete multiple entities and their associated relations from the knowledge graph"""
        return on(ctx, lambda graph: graph.delete_entities(entityNames), _done("Entities deleted successfully"))

    @server.tool(title="Delete Observations", annotations=TAKES)
    def delete_observations(deletions: list[Deletion], ctx: Context[Any, Any]) -> Annotated[CallToolResult, Done]:
        """Delete specific observations from entities in the knowledge graph"""
        wanted = [(each.entity_name, each.observations) for each in deletions]
        return on(ctx, lambda graph: graph.delete_observations(wanted), _done("Observations deleted successfully"))

    @server.tool(title="Delete Relations", annotations=TAKES)
    def delete_relations(
        relations: Annotated[list[RelationTold], Field(description="An array of relations to delete")],
        ctx: Context[Any, Any],
    ) -> Annotated[CallToolResult, Done]:
        """Delete multiple relations from the knowledge graph"""
        wanted = _relations(relations)
        return on(ctx, lambda graph: graph.delete_relations(wanted), _done("Relations deleted successfully"))

    @server.tool(title="Read Graph", annotations=LOOKS)
    def read_graph(ctx: Context[Any, Any]) -> Annotated[CallToolResult, Whole]:
        """Read the entire knowledge graph"""
        return on(ctx, lambda graph: graph.read_graph(), _whole)

    @server.tool(title="Search Nodes", annotations=LOOKS)
    def search_nodes(
        query: Annotated[
            str, Field(description="The search query to match against entity names, types, and observation content")
        ],
        ctx: Context[Any, Any],
    ) -> Annotated[CallToolResult, Whole]:
        """Search for nodes in the knowledge graph based on a query"""
        return on(ctx, lambda graph: graph.search_nodes(query), _whole)

    @server.tool(title="Open Nodes", annotations=LOOKS)
    def open_nodes(
        names: Annotated[list[str], Field(description="An array of entity names to retrieve")], ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, Whole]:
        """Open specific nodes in the knowledge graph by their names"""
        return on(ctx, lambda graph: graph.open_nodes(names), _whole)

    @server.resource(URI, name="knowledge-graph", title="Knowledge Graph", mime_type="application/json")
    def knowledge_graph() -> str:
        """The full knowledge graph with all entities and relations"""
        return json.dumps(_whole(stores.of(CURRENT.get()).graph.read_graph())[0], ensure_ascii=False, indent=2)


def _relations(told: list[RelationTold]) -> list[Relation]:
    return [Relation(each.source, each.target, each.relation_type) for each in told]


def _entity(entity: Entity) -> dict[str, Any]:
    return {"name": entity.name, "entityType": entity.entity_type, "observations": list(entity.observations)}


def _relation(relation: Relation) -> dict[str, Any]:
    return {"from": relation.source, "to": relation.target, "relationType": relation.relation_type}


def _added(added: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    return {"entityName": added[0], "addedObservations": list(added[1])}


def _both(name: str, told: Any) -> tuple[Any, dict[str, Any]]:
    listed = list(told)
    return listed, {name: listed}


def _done(message: str) -> Callable[[Any], tuple[Any, dict[str, Any]]]:
    return lambda _: (message, {"success": True, "message": message})


def _whole(nodes: Nodes) -> tuple[Any, dict[str, Any]]:
    told = {"entities": [*map(_entity, nodes.entities)], "relations": [*map(_relation, nodes.relations)]}
    return told, told


def _failed(reason: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
