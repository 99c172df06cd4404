"""The nine tools of the reference MCP memory server, with its answers, on the records of the store.

They serve programs that were written for that server. Its answers are plain JSON, so observations are not fenced here.
``recall`` finds the same observations and fences them. The descriptions are those of the reference server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lukasa.core.outcome import Conflict, Refused
from lukasa.errors import LukasaError
from lukasa.interfaces.mcp.tools import ADDITIVE, DESTRUCTIVE, READ_ONLY
from lukasa.interfaces.outcomes import outcome_of
from lukasa.interfaces.serialise import to_json
from lukasa.interfaces.stores import CallerStores
from lukasa.memory_graph import Entity, MemoryGraph, Relation

GRAPH_URI = "memory://knowledge-graph"


class CamelCaseModel(BaseModel):
    """A model whose JSON names are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class EntityModel(CamelCaseModel):
    """An entity, as argument and in answers."""

    name: str = Field(description="The name of the entity")
    entity_type: str = Field(description="The type of the entity")
    observations: list[str] = Field(description="An array of observation contents associated with the entity")


class RelationModel(CamelCaseModel):
    """A relation, as argument and in answers."""

    source: str = Field(alias="from", description="The name of the entity where the relation starts")
    target: str = Field(alias="to", description="The name of the entity where the relation ends")
    relation_type: str = Field(description="The type of the relation")

    def to_relation(self) -> Relation:
        """Return the relation of the library."""
        return Relation(self.source, self.target, self.relation_type)


class ObservationsToAdd(CamelCaseModel):
    """New observations of one entity."""

    entity_name: str = Field(description="The name of the entity to add the observations to")
    contents: list[str] = Field(description="An array of observation contents to add")


class ObservationsToDelete(CamelCaseModel):
    """Observations of one entity that are to be deleted."""

    entity_name: str = Field(description="The name of the entity containing the observations")
    observations: list[str] = Field(description="An array of observations to delete")


class EntitiesResponse(BaseModel):
    """The entities that were created."""

    entities: list[EntityModel]


class RelationsResponse(BaseModel):
    """The relations that were created."""

    relations: list[RelationModel]


class AddedObservations(CamelCaseModel):
    """The observations that were added to one entity."""

    entity_name: str
    added_observations: list[str]


class AddedObservationsResponse(BaseModel):
    """The observations that were added, by entity."""

    results: list[AddedObservations]


class DeletionResponse(BaseModel):
    """The result of a deletion."""

    success: bool
    message: str


class GraphResponse(BaseModel):
    """The graph, or a part of it."""

    entities: list[EntityModel]
    relations: list[RelationModel]


def register_graph_tools(server: MCPServer[Any], stores: CallerStores) -> None:
    """Add the nine tools and the resource of the reference server to a server."""

    def run_on_graph(operation: Callable[[MemoryGraph], Any], list_name: str = "", message: str = "") -> CallToolResult:
        """Run an operation. Answer with its result, as a list under a name, or with a message of success."""
        try:
            result = operation(stores.current().graph)
        except (LukasaError, OSError) as error:
            stores.close_if_broken(error)
            return _error_result(outcome_of(error, public=True).message)
        if isinstance(result, Refused | Conflict):
            return _error_result(result.reason)
        content = to_json(result)
        structured = {list_name: content} if list_name else content
        if message:
            structured = {"success": True, "message": message}
        text = TextContent(type="text", text=message or _format_json(content))
        return CallToolResult(content=[text], structured_content=structured)

    @server.tool(title="Create Entities", annotations=ADDITIVE)
    def create_entities(entities: list[EntityModel]) -> Annotated[CallToolResult, EntitiesResponse]:
        """Create multiple new entities in the knowledge graph"""
        new = [Entity(entity.name, entity.entity_type, tuple(entity.observations)) for entity in entities]
        return run_on_graph(lambda graph: graph.create_entities(new), "entities")

    @server.tool(title="Create Relations", annotations=ADDITIVE)
    def create_relations(relations: list[RelationModel]) -> Annotated[CallToolResult, RelationsResponse]:
        """Create multiple new relations between entities in the knowledge graph. Relations should be in active voice"""
        new = [relation.to_relation() for relation in relations]
        return run_on_graph(lambda graph: graph.create_relations(new), "relations")

    @server.tool(title="Add Observations", annotations=ADDITIVE)
    def add_observations(observations: list[ObservationsToAdd]) -> Annotated[CallToolResult, AddedObservationsResponse]:
        """Add new observations to existing entities in the knowledge graph"""
        new = [(group.entity_name, group.contents) for group in observations]

        def add(graph: MemoryGraph) -> Any:
            added = graph.add_observations(new)
            if isinstance(added, Refused):
                return added
            return [{"entityName": name, "addedObservations": contents} for name, contents in added]

        return run_on_graph(add, "results")

    @server.tool(title="Delete Entities", annotations=DESTRUCTIVE)
    def delete_entities(
        entityNames: Annotated[list[str], Field(description="An array of entity names to delete")],  # noqa: N803
    ) -> Annotated[CallToolResult, DeletionResponse]:
        """Delete multiple entities and their associated relations from the knowledge graph"""
        message = "Entities deleted successfully"
        return run_on_graph(lambda graph: graph.delete_entities(entityNames), message=message)

    @server.tool(title="Delete Observations", annotations=DESTRUCTIVE)
    def delete_observations(deletions: list[ObservationsToDelete]) -> Annotated[CallToolResult, DeletionResponse]:
        """Delete specific observations from entities in the knowledge graph"""
        groups = [(group.entity_name, group.observations) for group in deletions]
        message = "Observations deleted successfully"
        return run_on_graph(lambda graph: graph.delete_observations(groups), message=message)

    @server.tool(title="Delete Relations", annotations=DESTRUCTIVE)
    def delete_relations(
        relations: Annotated[list[RelationModel], Field(description="An array of relations to delete")],
    ) -> Annotated[CallToolResult, DeletionResponse]:
        """Delete multiple relations from the knowledge graph"""
        unwanted = [relation.to_relation() for relation in relations]
        message = "Relations deleted successfully"
        return run_on_graph(lambda graph: graph.delete_relations(unwanted), message=message)

    @server.tool(title="Read Graph", annotations=READ_ONLY)
    def read_graph() -> Annotated[CallToolResult, GraphResponse]:
        """Read the entire knowledge graph"""
        return run_on_graph(lambda graph: graph.read_graph())

    @server.tool(title="Search Nodes", annotations=READ_ONLY)
    def search_nodes(
        query: Annotated[
            str, Field(description="The search query to match against entity names, types, and observation content")
        ],
    ) -> Annotated[CallToolResult, GraphResponse]:
        """Search for nodes in the knowledge graph based on a query"""
        return run_on_graph(lambda graph: graph.search_nodes(query))

    @server.tool(title="Open Nodes", annotations=READ_ONLY)
    def open_nodes(
        names: Annotated[list[str], Field(description="An array of entity names to retrieve")],
    ) -> Annotated[CallToolResult, GraphResponse]:
        """Open specific nodes in the knowledge graph by their names"""
        return run_on_graph(lambda graph: graph.open_nodes(names))

    @server.resource(GRAPH_URI, name="knowledge-graph", title="Knowledge Graph", mime_type="application/json")
    def knowledge_graph() -> str:
        """The full knowledge graph with all entities and relations"""
        return _format_json(to_json(stores.current().graph.read_graph()))


def _format_json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2)


def _error_result(reason: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
