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

from lukasa.errors import LukasaError
from lukasa.interfaces.mcp.responses import failure_response
from lukasa.interfaces.mcp.tools import ADDITIVE, DESTRUCTIVE, READ_ONLY
from lukasa.interfaces.stores import CURRENT_REQUEST, CallerStores
from lukasa.memory_graph import Entity, MemoryGraph, Relation, Subgraph
from lukasa.outcome import Conflict, Refused

GRAPH_URI = "memory://knowledge-graph"


class CamelCaseModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class EntityModel(CamelCaseModel):
    name: str = Field(description="The name of the entity")
    entity_type: str = Field(description="The type of the entity")
    observations: list[str] = Field(description="An array of observation contents associated with the entity")


class RelationModel(CamelCaseModel):
    source: str = Field(alias="from", description="The name of the entity where the relation starts")
    target: str = Field(alias="to", description="The name of the entity where the relation ends")
    relation_type: str = Field(description="The type of the relation")


class ObservationsToAdd(CamelCaseModel):
    entity_name: str = Field(description="The name of the entity to add the observations to")
    contents: list[str] = Field(description="An array of observation contents to add")


class ObservationsToDelete(CamelCaseModel):
    entity_name: str = Field(description="The name of the entity containing the observations")
    observations: list[str] = Field(description="An array of observations to delete")


class EntitiesResponse(BaseModel):
    entities: list[EntityModel]


class RelationsResponse(BaseModel):
    relations: list[RelationModel]


class AddedObservations(CamelCaseModel):
    entity_name: str
    added_observations: list[str]


class AddedObservationsResponse(BaseModel):
    results: list[AddedObservations]


class DeletionResponse(BaseModel):
    success: bool
    message: str


class GraphResponse(BaseModel):
    entities: list[EntityModel]
    relations: list[RelationModel]


def register_graph_tools(server: MCPServer[Any], stores: CallerStores) -> None:
    """Offers the nine tools and the resource of the reference server."""

    def run_on_graph(
        ctx: Context[Any, Any],
        operation: Callable[[MemoryGraph], Any],
        render: Callable[[Any], tuple[Any, dict[str, Any]]],
    ) -> CallToolResult:
        try:
            found = operation(stores.for_request(ctx).graph)
        except (LukasaError, OSError) as error:
            stores.close_if_broken(error)
            return _error_result(failure_response(error).reason or "")
        if isinstance(found, Refused | Conflict):
            return _error_result(found.reason)
        said, structured = render(found)
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, indent=2)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)

    @server.tool(title="Create Entities", annotations=ADDITIVE)
    def create_entities(
        entities: list[EntityModel], ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, EntitiesResponse]:
        """Create multiple new entities in the knowledge graph"""
        wanted = [Entity(each.name, each.entity_type, tuple(each.observations)) for each in entities]
        return run_on_graph(
            ctx,
            lambda graph: graph.create_entities(wanted),
            lambda made: _list_result("entities", map(_entity_json, made)),
        )

    @server.tool(title="Create Relations", annotations=ADDITIVE)
    def create_relations(
        relations: list[RelationModel], ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, RelationsResponse]:
        """Create multiple new relations between entities in the knowledge graph. Relations should be in active voice"""
        wanted = _parse_relations(relations)
        return run_on_graph(
            ctx,
            lambda graph: graph.create_relations(wanted),
            lambda made: _list_result("relations", map(_relation_json, made)),
        )

    @server.tool(title="Add Observations", annotations=ADDITIVE)
    def add_observations(
        observations: list[ObservationsToAdd], ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, AddedObservationsResponse]:
        """Add new observations to existing entities in the knowledge graph"""
        wanted = [(each.entity_name, each.contents) for each in observations]
        return run_on_graph(
            ctx,
            lambda graph: graph.add_observations(wanted),
            lambda made: _list_result("results", map(_added_json, made)),
        )

    @server.tool(title="Delete Entities", annotations=DESTRUCTIVE)
    def delete_entities(
        entityNames: Annotated[list[str], Field(description="An array of entity names to delete")],  # noqa: N803
        ctx: Context[Any, Any],
    ) -> Annotated[CallToolResult, DeletionResponse]:
        """Delete multiple entities and their associated relations from the knowledge graph"""
        return run_on_graph(
            ctx, lambda graph: graph.delete_entities(entityNames), _success_renderer("Entities deleted successfully")
        )

    @server.tool(title="Delete Observations", annotations=DESTRUCTIVE)
    def delete_observations(
        deletions: list[ObservationsToDelete], ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, DeletionResponse]:
        """Delete specific observations from entities in the knowledge graph"""
        wanted = [(each.entity_name, each.observations) for each in deletions]
        return run_on_graph(
            ctx, lambda graph: graph.delete_observations(wanted), _success_renderer("Observations deleted successfully")
        )

    @server.tool(title="Delete Relations", annotations=DESTRUCTIVE)
    def delete_relations(
        relations: Annotated[list[RelationModel], Field(description="An array of relations to delete")],
        ctx: Context[Any, Any],
    ) -> Annotated[CallToolResult, DeletionResponse]:
        """Delete multiple relations from the knowledge graph"""
        wanted = _parse_relations(relations)
        return run_on_graph(
            ctx, lambda graph: graph.delete_relations(wanted), _success_renderer("Relations deleted successfully")
        )

    @server.tool(title="Read Graph", annotations=READ_ONLY)
    def read_graph(ctx: Context[Any, Any]) -> Annotated[CallToolResult, GraphResponse]:
        """Read the entire knowledge graph"""
        return run_on_graph(ctx, lambda graph: graph.read_graph(), _graph_result)

    @server.tool(title="Search Nodes", annotations=READ_ONLY)
    def search_nodes(
        query: Annotated[
            str, Field(description="The search query to match against entity names, types, and observation content")
        ],
        ctx: Context[Any, Any],
    ) -> Annotated[CallToolResult, GraphResponse]:
        """Search for nodes in the knowledge graph based on a query"""
        return run_on_graph(ctx, lambda graph: graph.search_nodes(query), _graph_result)

    @server.tool(title="Open Nodes", annotations=READ_ONLY)
    def open_nodes(
        names: Annotated[list[str], Field(description="An array of entity names to retrieve")], ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, GraphResponse]:
        """Open specific nodes in the knowledge graph by their names"""
        return run_on_graph(ctx, lambda graph: graph.open_nodes(names), _graph_result)

    @server.resource(GRAPH_URI, name="knowledge-graph", title="Knowledge Graph", mime_type="application/json")
    def knowledge_graph() -> str:
        """The full knowledge graph with all entities and relations"""
        return json.dumps(
            _graph_result(stores.for_request(CURRENT_REQUEST.get()).graph.read_graph())[0], ensure_ascii=False, indent=2
        )


def _parse_relations(models: list[RelationModel]) -> list[Relation]:
    return [Relation(each.source, each.target, each.relation_type) for each in models]


def _entity_json(entity: Entity) -> dict[str, Any]:
    return {"name": entity.name, "entityType": entity.entity_type, "observations": list(entity.observations)}


def _relation_json(relation: Relation) -> dict[str, Any]:
    return {"from": relation.source, "to": relation.target, "relationType": relation.relation_type}


def _added_json(added: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    return {"entityName": added[0], "addedObservations": list(added[1])}


def _list_result(name: str, items: Any) -> tuple[Any, dict[str, Any]]:
    listed = list(items)
    return listed, {name: listed}


def _success_renderer(message: str) -> Callable[[Any], tuple[Any, dict[str, Any]]]:
    return lambda _: (message, {"success": True, "message": message})


def _graph_result(nodes: Subgraph) -> tuple[Any, dict[str, Any]]:
    told = {"entities": [*map(_entity_json, nodes.entities)], "relations": [*map(_relation_json, nodes.relations)]}
    return told, told


def _error_result(reason: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
