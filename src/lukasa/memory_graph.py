"""The knowledge graph of the reference MCP memory server, kept as records: entities, observations, relations.

Each of them is a separate record, so an observation has an author, a time and a history like every other memory, and
recall finds it. Names may be any text, so ids are digests of names. Entities and their observations are returned in the
order in which they were created. An item that occurs twice in one call is kept once; the reference server keeps two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_shape import BodyShape
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput
from lukasa.journal import CallerService, Journal
from lukasa.journal.gate import KindSpec
from lukasa.storage.engine import Query, Reader

ENTITY, OBSERVATION, RELATION = "entity", "observation", "relation"
KINDS = {
    kind: KindSpec(body=BodyShape(dict.fromkeys(names.split(), str), names))
    for kind, names in ((ENTITY, "name type"), (OBSERVATION, "entity"), (RELATION, "from to type"))
}
"""The kinds of record that the graph writes."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with a name, a type and observations."""

    name: str
    entity_type: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """A named relation between two entities, which need not exist."""

    source: str
    target: str
    relation_type: str


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A part of the graph, or all of it."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()


def choose_write_scope(journal: Journal, *, private: bool = False) -> str | None:
    """Return where a caller writes by default: its project, else the shared scope, else the agent's, else the only one.

    What is private goes to the agent's own scope, else to the project.
    """
    reach = journal.reach
    for name in (journal.author, reach.project) if private else (reach.project, SHARED, journal.author):
        if name and reach.writes(name):
            return name
    return next(iter(reach.writable)) if reach.writable is not None and len(reach.writable) == 1 else None


@check_arguments
class MemoryGraph(CallerService):
    """The knowledge graph in one scope: the shared one if the caller may write it, else the caller's."""

    def __init__(self, journal: Journal, scope: str = "") -> None:
        self._journal = journal
        self._scope = scope

    def within(self, scope: str) -> MemoryGraph:
        """Return the graph in another scope.

        Args:
            scope: The scope.

        Example:
            memory.graph.within("team").create_entities([Entity("Billing", "service")])
        """
        return MemoryGraph(self._journal, scope)

    @property
    def scope(self) -> str:
        """The scope of the graph."""
        scope = self._scope or choose_write_scope(self._journal)
        if scope is None:
            raise InvalidInput("This caller has no scope for a graph.", hint="Name one: graph.within(…)")
        return scope

    def create_entities(self, entities: Iterable[Entity]) -> tuple[Entity, ...] | Refused:
        """Create the entities that do not exist yet and return them.

        Args:
            entities: The entities, each with a name, a type and observations.

        Example:
            memory.graph.create_entities([Entity("Billing", "service", ("Runs on port 8081",))])
        """
        wanted: dict[str, Entity] = {}
        for entity in entities:
            wanted.setdefault(entity.name, entity)
        created: list[Entity] = []

        def create(reader: Reader) -> Sequence[Draft]:
            created[:] = [entity for entity in wanted.values() if self._find_entity(reader, entity.name) is None]
            drafts: list[Draft] = []
            for entity in created:
                body = {"name": entity.name, "type": entity.entity_type}
                text, id = f"{entity.name} ({entity.entity_type})", _digest(entity.name)
                drafts.append(Draft(ENTITY, text, body, id=id, scope=self.scope, origin="tool", expected=0))
                drafts += [self._observation_draft(entity.name, content) for content in entity.observations]
            return drafts

        outcome = self._append_if(create)
        return outcome if isinstance(outcome, Refused) else tuple(created)

    def create_relations(self, relations: Iterable[Relation]) -> tuple[Relation, ...] | Refused:
        """Create the relations that do not exist yet and return them.

        Args:
            relations: The relations, each with a source, a target and a type.

        Example:
            memory.graph.create_relations([Relation("Ben", "Billing", "maintains")])
        """
        wanted = list(dict.fromkeys(relations))
        created: list[Relation] = []

        def create(reader: Reader) -> Sequence[Draft]:
            created[:] = [relation for relation in wanted if reader.get(self._relation_key(relation)) is None]
            return [self._relation_draft(relation) for relation in created]

        outcome = self._append_if(create)
        return outcome if isinstance(outcome, Refused) else tuple(created)

    def add_observations(
        self, observations: Iterable[tuple[str, Sequence[str]]]
    ) -> tuple[tuple[str, tuple[str, ...]], ...] | Refused:
        """Add to entities, given by name, the observations they do not have yet, and return those.

        If one of the entities does not exist, nothing is added.

        Args:
            observations: Pairs of the name of an entity and a list of observations.

        Example:
            memory.graph.create_entities([Entity("Billing", "service")])
            memory.graph.add_observations([("Billing", ["Runs on port 8081"])])
        """
        wanted = list(observations)
        added: list[tuple[str, tuple[str, ...]]] = []

        def add(reader: Reader) -> Sequence[Draft] | Refused:
            added.clear()
            known: dict[str, list[str]] = {}
            drafts: list[Draft] = []
            for name, contents in wanted:
                if name not in known:
                    if self._find_entity(reader, name) is None:
                        return Refused("not_found", f"Entity with name {name} not found")
                    known[name] = [record.text for record in self._read_observations(reader, name)]
                new = [content for content in contents if content not in known[name]]
                known[name] += new
                added.append((name, tuple(new)))
                drafts += [self._observation_draft(name, content) for content in new]
            return drafts

        outcome = self._append_if(add)
        return outcome if isinstance(outcome, Refused) else tuple(added)

    def delete_entities(self, names: Iterable[str]) -> Outcome:
        """Delete entities with their observations and all relations from or to them.

        Args:
            names: The names of the entities.

        Example:
            memory.graph.create_entities([Entity("Billing", "service")])
            memory.graph.delete_entities(["Billing"])
        """
        wanted = list(dict.fromkeys(names))

        def delete(reader: Reader) -> Sequence[Draft]:
            found: list[Record] = []
            for name in wanted:
                entity = self._find_entity(reader, name)
                found += [] if entity is None else [entity]
                found += [*self._read_observations(reader, name), *self._read_relations(reader, name)]
            return _tombstones(found)

        return self._append_if(delete)

    def delete_observations(self, observations: Iterable[tuple[str, Sequence[str]]]) -> Outcome:
        """Delete observations of entities, given by name; unknown ones are ignored.

        Args:
            observations: Pairs of the name of an entity and a list of observations.

        Example:
            memory.graph.delete_observations([("Billing", ["Runs on port 8081"])])
        """
        wanted = list(observations)

        def delete(reader: Reader) -> Sequence[Draft]:
            return _tombstones(
                record
                for name, contents in wanted
                for record in self._read_observations(reader, name)
                if record.text in contents
            )

        return self._append_if(delete)

    def delete_relations(self, relations: Iterable[Relation]) -> Outcome:
        """Delete relations; unknown ones are ignored.

        Args:
            relations: The relations, each with a source, a target and a type.

        Example:
            memory.graph.delete_relations([Relation("Ben", "Billing", "maintains")])
        """
        keys = [self._relation_key(relation) for relation in relations]

        def delete(reader: Reader) -> Sequence[Draft]:
            return _tombstones(record for key in keys if (record := reader.get(key)) is not None)

        return self._append_if(delete)

    def read_graph(self) -> Subgraph:
        """Return the whole graph.

        Example:
            memory.graph.read_graph().entities
        """
        observations: dict[str, list[str]] = {}
        for record in self._read_records(OBSERVATION):
            observations.setdefault(record.body["entity"], []).append(record.text)
        entities = (
            Entity(record.body["name"], record.body["type"], tuple(observations.get(record.body["name"], ())))
            for record in self._read_records(ENTITY)
        )
        return Subgraph(tuple(entities), tuple(_parse_relation(record) for record in self._read_records(RELATION)))

    def search_nodes(self, query: str) -> Subgraph:
        """Return the entities whose name, type or observations contain the query in any letter case, and their relations.

        Args:
            query: Words to look for, in any letter case.

        Example:
            memory.graph.create_entities([Entity("Billing", "service")])
            memory.graph.search_nodes("bill").entities
        """
        lowered = query.lower()
        graph = self.read_graph()
        entities = [
            entity
            for entity in graph.entities
            if any(lowered in text.lower() for text in (entity.name, entity.entity_type, *entity.observations))
        ]
        names = {entity.name for entity in entities}
        relations = [relation for relation in graph.relations if {relation.source, relation.target} & names]
        return Subgraph(tuple(entities), tuple(relations))

    def open_nodes(self, names: Iterable[str]) -> Subgraph:
        """Return entities by name, and all relations from or to them.

        Args:
            names: The names of the entities.

        Example:
            memory.graph.create_entities([Entity("Billing", "service")])
            memory.graph.open_nodes(["Billing"]).entities
        """
        entities: list[tuple[int, Entity]] = []
        relations: dict[int, Relation] = {}
        with self._journal.snapshot() as reader:
            for name in dict.fromkeys(names):
                record = self._find_entity(reader, name)
                if record is None:
                    continue
                observations = tuple(found.text for found in self._read_observations(reader, name))
                entities.append((record.seq, Entity(name, record.body["type"], observations)))
                relations.update({found.seq: _parse_relation(found) for found in self._read_relations(reader, name)})
        ordered = tuple(entity for _, entity in sorted(entities, key=lambda pair: pair[0]))
        return Subgraph(ordered, tuple(relations[seq] for seq in sorted(relations)))

    def _append_if(self, condition: Any) -> Accepted | Refused:
        outcome = self._journal.append_if(condition)
        return outcome if isinstance(outcome, Accepted | Refused) else Refused("busy", outcome.reason)

    def _query(self, kind: str, label: str = "") -> Query:
        return Query(kinds=(kind,), scopes=(self.scope,), labels=(label,) if label else ())

    def _read_records(self, kind: str) -> Iterable[Record]:
        return self._journal.read(self._query(kind))

    def _find_entity(self, reader: Reader, name: str) -> Record | None:
        return reader.get(self._entity_key(name))

    def _read_observations(self, reader: Reader, name: str) -> Sequence[Record]:
        return reader.read(self._query(OBSERVATION, f"entity={_digest(name)}"))

    def _read_relations(self, reader: Reader, name: str) -> Sequence[Record]:
        labels = (f"from={_digest(name)}", f"to={_digest(name)}")
        found = {record.seq: record for label in labels for record in reader.read(self._query(RELATION, label))}
        return [found[seq] for seq in sorted(found)]

    def _observation_draft(self, name: str, content: str) -> Draft:
        entity, labels = Link(DERIVED_FROM, self._entity_key(name)), (f"entity={_digest(name)}",)
        body = {"entity": name}
        return Draft(OBSERVATION, content, body, scope=self.scope, origin="tool", links=(entity,), labels=labels)

    def _relation_draft(self, relation: Relation) -> Draft:
        text = f"{relation.source} {relation.relation_type} {relation.target}"
        body = {"from": relation.source, "to": relation.target, "type": relation.relation_type}
        labels = (f"from={_digest(relation.source)}", f"to={_digest(relation.target)}")
        ends = dict.fromkeys((relation.source, relation.target))
        links = tuple(Link("relates", self._entity_key(name)) for name in ends)
        id = self._relation_key(relation).id
        return Draft(
            RELATION, text, body, id=id, scope=self.scope, origin="tool", labels=labels, links=links, expected=0
        )

    def _entity_key(self, name: str) -> Key:
        return Key(self.scope, ENTITY, _digest(name))

    def _relation_key(self, relation: Relation) -> Key:
        return Key(self.scope, RELATION, _digest(relation.source, relation.target, relation.relation_type))


def _parse_relation(record: Record) -> Relation:
    body: Mapping[str, str] = record.body
    return Relation(body["from"], body["to"], body["type"])


def _tombstones(records: Iterable[Record]) -> list[Draft]:
    """Return the tombstones of records, one for each key."""
    return [
        Draft(
            record.kind, id=record.id, scope=record.scope, labels=record.labels, origin="tool", deleted=True,
            expected=record.version,
        )
        for record in {record.key: record for record in records}.values()
    ]  # fmt: skip


def _digest(*parts: str) -> str:
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]
