"""The knowledge graph of the reference MCP memory server, kept as records: entities, observations, relations.

Each is a record of its own, so an observation has an author, a time and a history like every other memory, and recall
finds it. Names may be anything, so ids are digests of names. Entities, and the observations of each, stand in the order
in which they were made. Where the reference server keeps two of what is named twice in one call, this keeps one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome, Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.scope import SHARED
from lukasa.storage.engine import Query, Reader

ENTITY, OBSERVATION, RELATION = "entity", "observation", "relation"


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with a name, a type and what was observed of it."""

    name: str
    entity_type: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """How one thing stands to another; neither need exist."""

    source: str
    target: str
    relation_type: str


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A part of the graph, or all of it."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()


class MemoryGraph:
    """The knowledge graph in one scope: the shared one where the caller may write there, else its own."""

    def __init__(self, journal: Journal, scope: str = "") -> None:
        self._journal = journal
        self._scope = scope

    def within(self, scope: str) -> MemoryGraph:
        """The graph in another scope."""
        return MemoryGraph(self._journal, scope)

    @property
    def scope(self) -> str:
        """Where the graph stands."""
        reach, author = self._journal.reach, self._journal.author
        found = self._scope or next((name for name in (SHARED, author) if name and reach.writes(name)), None)
        if found is None and reach.writable is not None and len(reach.writable) == 1:
            (found,) = reach.writable
        if found is None:
            raise InvalidInput("This caller has no scope for a graph.", hint="Name one: graph.within(…)")
        return found

    # Changing

    def create_entities(self, entities: Iterable[Entity]) -> tuple[Entity, ...] | Refused:
        """Makes the entities that are not there yet; says which."""
        wanted: dict[str, Entity] = {}
        for entity in entities:
            wanted.setdefault(entity.name, entity)
        made: list[Entity] = []

        def create(reader: Reader) -> Sequence[Draft]:
            made[:] = [entity for entity in wanted.values() if self._find_entity(reader, entity.name) is None]
            return [draft for entity in made for draft in self._entity_drafts(entity)]

        outcome = self._append_if(create)
        return outcome if isinstance(outcome, Refused) else tuple(made)

    def create_relations(self, relations: Iterable[Relation]) -> tuple[Relation, ...] | Refused:
        """Makes the relations that are not there yet; says which."""
        wanted = list(dict.fromkeys(relations))
        made: list[Relation] = []

        def create(reader: Reader) -> Sequence[Draft]:
            made[:] = [relation for relation in wanted if reader.get(self._relation_key(relation)) is None]
            return [self._relation_draft(relation) for relation in made]

        outcome = self._append_if(create)
        return outcome if isinstance(outcome, Refused) else tuple(made)

    def add_observations(
        self, told: Iterable[tuple[str, Sequence[str]]]
    ) -> tuple[tuple[str, tuple[str, ...]], ...] | Refused:
        """Adds to entities what is not known of them yet, all or nothing; says what was new."""
        wanted = list(told)
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
                fresh = [content for content in contents if content not in known[name]]
                known[name] += fresh
                added.append((name, tuple(fresh)))
                drafts += [self._observation_draft(name, content) for content in fresh]
            return drafts

        outcome = self._append_if(add)
        return outcome if isinstance(outcome, Refused) else tuple(added)

    def delete_entities(self, names: Iterable[str]) -> Outcome:
        """Takes entities away, with what was observed of them and every relation from or to them."""
        wanted = list(dict.fromkeys(names))

        def delete(reader: Reader) -> Sequence[Draft]:
            gone: dict[Key, Record] = {}
            for name in wanted:
                found = [
                    self._find_entity(reader, name),
                    *self._read_observations(reader, name),
                    *self._read_relations(reader, name),
                ]
                gone.update({record.key: record for record in found if record is not None})
            return [_tombstone(record) for record in gone.values()]

        return self._append_if(delete)

    def delete_observations(self, told: Iterable[tuple[str, Sequence[str]]]) -> Outcome:
        """Takes away what is no longer so; what is not there is passed over."""
        wanted = list(told)

        def delete(reader: Reader) -> Sequence[Draft]:
            gone: dict[Key, Record] = {}
            for name, contents in wanted:
                found = [record for record in self._read_observations(reader, name) if record.text in contents]
                gone.update({record.key: record for record in found})
            return [_tombstone(record) for record in gone.values()]

        return self._append_if(delete)

    def delete_relations(self, relations: Iterable[Relation]) -> Outcome:
        """Takes relations away; those that are not there are passed over."""
        wanted = [self._relation_key(relation) for relation in dict.fromkeys(relations)]

        def delete(reader: Reader) -> Sequence[Draft]:
            return [_tombstone(record) for key in wanted if (record := reader.get(key)) is not None]

        return self._append_if(delete)

    # Looking

    def read_graph(self) -> Subgraph:
        """All of it."""
        observed: dict[str, list[str]] = {}
        for record in self._read_records(OBSERVATION):
            observed.setdefault(record.body["entity"], []).append(record.text)
        entities = (
            Entity(record.body["name"], record.body["type"], tuple(observed.get(record.body["name"], ())))
            for record in self._read_records(ENTITY)
        )
        return Subgraph(tuple(entities), tuple(_parse_relation(record) for record in self._read_records(RELATION)))

    def search_nodes(self, query: str) -> Subgraph:
        """Entities whose name, type or an observation holds the words as they are, whatever their case."""
        words = query.lower()
        graph = self.read_graph()
        found = [
            entity
            for entity in graph.entities
            if any(words in text.lower() for text in (entity.name, entity.entity_type, *entity.observations))
        ]
        names = {entity.name for entity in found}
        near = [relation for relation in graph.relations if {relation.source, relation.target} & names]
        return Subgraph(tuple(found), tuple(near))

    def open_nodes(self, names: Iterable[str]) -> Subgraph:
        """Entities by name, and every relation from or to them."""
        entities: list[tuple[int, Entity]] = []
        relations: dict[int, Relation] = {}
        with self._journal.snapshot() as reader:
            for name in dict.fromkeys(names):
                record = self._find_entity(reader, name)
                if record is None:
                    continue
                observed = tuple(each.text for each in self._read_observations(reader, name))
                entities.append((record.seq, Entity(name, record.body["type"], observed)))
                relations.update({each.seq: _parse_relation(each) for each in self._read_relations(reader, name)})
        ordered = tuple(entity for _, entity in sorted(entities, key=lambda pair: pair[0]))
        return Subgraph(ordered, tuple(relations[seq] for seq in sorted(relations)))

    # Records

    def _append_if(self, condition: Any) -> Accepted | Refused:
        outcome = self._journal.append_if(condition)
        return outcome if isinstance(outcome, Accepted | Refused) else Refused("busy", outcome.reason)

    def _read_records(self, kind: str) -> Iterable[Record]:
        return self._journal.read(Query(kinds=(kind,), scopes=(self.scope,)))

    def _find_entity(self, reader: Reader, name: str) -> Record | None:
        return reader.get(Key(self.scope, ENTITY, _digest(name)))

    def _read_observations(self, reader: Reader, name: str) -> Sequence[Record]:
        return reader.read(Query(kinds=(OBSERVATION,), scopes=(self.scope,), labels=(f"entity={_digest(name)}",)))

    def _read_relations(self, reader: Reader, name: str) -> Sequence[Record]:
        found = {
            record.seq: record
            for side in ("from", "to")
            for record in reader.read(
                Query(kinds=(RELATION,), scopes=(self.scope,), labels=(f"{side}={_digest(name)}",))
            )
        }
        return [found[seq] for seq in sorted(found)]

    def _entity_drafts(self, entity: Entity) -> list[Draft]:
        body = {"name": entity.name, "type": entity.entity_type}
        text = f"{entity.name} ({entity.entity_type})"
        own = Draft(ENTITY, text, body, id=_digest(entity.name), scope=self.scope, origin="tool", expected=0)
        return [own, *(self._observation_draft(entity.name, content) for content in entity.observations)]

    def _observation_draft(self, name: str, content: str) -> Draft:
        about = Link(DERIVED_FROM, Key(self.scope, ENTITY, _digest(name)))
        return Draft(
            OBSERVATION, content, {"entity": name}, scope=self.scope, origin="tool", links=(about,),
            labels=(f"entity={_digest(name)}",),
        )  # fmt: skip

    def _relation_draft(self, relation: Relation) -> Draft:
        ends = (_digest(relation.source), _digest(relation.target))
        key = self._relation_key(relation)
        return Draft(
            RELATION,
            f"{relation.source} {relation.relation_type} {relation.target}",
            {"from": relation.source, "to": relation.target, "type": relation.relation_type},
            id=key.id,
            scope=key.scope,
            origin="tool",
            labels=(f"from={ends[0]}", f"to={ends[1]}"),
            links=tuple(Link("relates", Key(self.scope, ENTITY, end)) for end in dict.fromkeys(ends)),
            expected=0,
        )

    def _relation_key(self, relation: Relation) -> Key:
        parts = (relation.source, relation.target, relation.relation_type)
        return Key(self.scope, RELATION, _digest(*parts))


def _parse_relation(record: Record) -> Relation:
    body: Mapping[str, str] = record.body
    return Relation(body["from"], body["to"], body["type"])


def _tombstone(record: Record) -> Draft:
    return Draft(
        record.kind, id=record.id, scope=record.scope, labels=record.labels, origin="tool", deleted=True,
        expected=record.version,
    )  # fmt: skip


def _digest(*parts: str) -> str:
    told = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]
