"""Knowledge: patterns, anti-patterns and facts, the links between them, and the merging of duplicate patterns.

A pattern says how something is done well, an anti-pattern what fails, a fact what is true. Bodies are the document's own
JSON without id and links: links belong to the record, so that the engine can follow them. A pattern or anti-pattern links
to the episodes it was derived from by ``derived_from``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_fields import BodyField, count_field, number_field
from lukasa.core.choices import KNOWLEDGE_KINDS, RELATIONS, KnowledgeKind, KnowledgeRelation
from lukasa.core.clock import Clock, IdMaker, Time, from_iso, to_iso, to_utc
from lukasa.core.extra_fields import refuse_known_fields
from lukasa.core.freshness import EXPIRES_AT
from lukasa.core.outcome import Answer, Conflict, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, draft_from
from lukasa.core.scope import SHARED
from lukasa.experience.duplicate_patterns import find_duplicate_patterns
from lukasa.experience.readable_ids import find_by_id, free_ids
from lukasa.experience.record_view import RecordView, order_fields
from lukasa.journal import CallerService, Journal
from lukasa.models.embedder import Embedder
from lukasa.storage.engine import Neighbour, Query, Reader

PATTERN: Final = "pattern"
ANTIPATTERN: Final = "antipattern"
FACT: Final = "fact"
LEARNING = "learning"
LINKABLE_KINDS = (*KNOWLEDGE_KINDS, "episode", "skill")
ID_PREFIXES = {PATTERN: "sem-", ANTIPATTERN: "anti-", FACT: "fact-"}
SUPERSEDES, SUPERSEDED_BY = "supersedes", "superseded_by"
INVERSE_RELATIONS: Mapping[str, str] = {
    SUPERSEDES: SUPERSEDED_BY, SUPERSEDED_BY: SUPERSEDES, "related_to": "related_to", "contradicts": "contradicts",
}  # fmt: skip
"""Relations that are stored at both ends. The other relations are followed backwards from their target."""
MAX_SOURCES = 200
"""How many sources a pattern cites, the newest ones; the pattern follows from these alone."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    PATTERN: (
        "id", "pattern", "category", "conditions", "correct_approach", "incorrect_approach", "confidence",
        "source_episodes", "usage_count", "last_used",
    ),
    ANTIPATTERN: ("id", "what_fails", "why", "prevention", "source", "sources", "confidence"),
    FACT: ("id", "fact", "category", "confidence", "source_episodes", "usage_count", "last_used"),
}  # fmt: skip
_STATEMENT_FIELDS = {PATTERN: "pattern", ANTIPATTERN: "what_fails", FACT: "fact"}
_REFUSAL_CODES = {PATTERN: "bad_pattern", ANTIPATTERN: "bad_antipattern", FACT: "bad_fact"}
_SEARCHED_FIELDS: Mapping[str, tuple[str, ...]] = {
    PATTERN: ("correct_approach", "incorrect_approach"), ANTIPATTERN: ("why", "prevention"), FACT: (),
}  # fmt: skip
"""Fields that recall searches besides the statement."""
_TEXT_FIELDS: Mapping[str, tuple[str, ...]] = {
    PATTERN: ("category", *_SEARCHED_FIELDS[PATTERN]), ANTIPATTERN: (*_SEARCHED_FIELDS[ANTIPATTERN], "source"), FACT: (),
}  # fmt: skip
_MAX_PATH_LENGTH = 12
_MAX_MERGE_ATTEMPTS = 5

KnowledgeRef = str | Key
"""A record's id, or its whole key where several scopes have that id."""


@dataclass(frozen=True, slots=True)
class KnowledgeItem(RecordView):
    """A pattern, an anti-pattern or a fact, read from its record."""

    confidence = number_field("confidence")
    usage_count = count_field("usage_count")
    last_used = BodyField("last_used", lambda value: from_iso(value) if isinstance(value, str) else None)
    voices = count_field("voices")
    """The number of independent authors that consolidation counted; 0 if it counted none."""

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def says(self) -> str:
        """The statement in one sentence."""
        statement = str(self.record.body.get(_STATEMENT_FIELDS.get(self.kind, ""), "")) or self.record.text
        if self.kind == ANTIPATTERN and self.record.body.get("why"):
            statement = f"{statement}: {self.record.body['why']}"
        return statement

    @property
    def approach(self) -> str:
        """The recommended action: a pattern's correct approach, or an anti-pattern's prevention."""
        name = "prevention" if self.kind == ANTIPATTERN else "correct_approach"
        return str(self.record.body.get(name, ""))

    @property
    def sources(self) -> tuple[Key, ...]:
        return tuple(link.to for link in self.record.links if link.relation == DERIVED_FROM)

    @property
    def superseded_by(self) -> Key | None:
        return next((link.to for link in self.record.links if link.relation == SUPERSEDED_BY), None)

    def as_json(self) -> dict[str, Any]:
        """Return the item as its document writes it: known fields first, then unknown ones, then links."""
        body = {"id": self.id, **self.record.body}
        cited = {*body.get("source_episodes", ()), *body.get("sources", ()), body.get("source", "")}
        links = [
            {"to": link.to.id, "relation": link.relation}
            for link in self.record.links
            if link.relation != DERIVED_FROM or link.to.id not in cited
        ]
        return order_fields(body, _FIELDS.get(self.kind, ("id",))) | ({"links": links} if links else {})


def knowledge_draft(
    kind: str, document: Mapping[str, Any], *, scope: str, id: str, links: Iterable[Link] = (),
    labels: Iterable[str] = (), **fields: Any,
) -> Draft | Refused:  # fmt: skip
    """Build the draft of a pattern, anti-pattern or fact, or refuse a document that is not one."""
    typed = {*_FIELDS[kind], "links"} - {"last_used"}  # a null in another field is the document's own
    body = {
        name: value
        for name, value in document.items()
        if name not in ("id", "links") and (value is not None or name not in typed)
    }
    if kind == PATTERN:
        body = {"conditions": [], "confidence": 0.0, "source_episodes": [], "usage_count": 0} | body
    sources = body.get("source_episodes", [])
    if kind == ANTIPATTERN:
        sources = body.get("sources") or ([body["source"]] if body.get("source") else [])
    fault = _find_fault(kind, document)
    if not fault and (not _is_text_list(sources) or "" in sources):
        fault = "The sources must be a list of ids of episodes."
    if fault:
        return Refused(_REFUSAL_CODES[kind], fault)
    conditions = body["conditions"] if kind == PATTERN else ()
    parts = (body[_STATEMENT_FIELDS[kind]], *conditions, *(body.get(name) for name in _SEARCHED_FIELDS[kind]))
    text = "\n".join(part.strip() for part in parts if part)
    source_links = (Link(DERIVED_FROM, Key(scope, "episode", source)) for source in sources[-MAX_SOURCES:])
    category = body.get("category")
    own = (f"category={category}",) if isinstance(category, str) and category else ()
    others = (label for label in labels if not label.startswith("category="))
    all_links = tuple(dict.fromkeys((*source_links, *links)))
    return Draft(kind, text, body, id=id, scope=scope, links=all_links, labels=(*own, *others), **fields)


def _find_fault(kind: str, document: Mapping[str, Any]) -> str | None:
    """Return the first fault in an item's statement, numbers and further texts, or None."""
    required = _STATEMENT_FIELDS[kind]
    statement = document.get(required)
    confidence, used = document.get("confidence", 0.0), document.get("usage_count", 0)
    if statement is None or statement == "":
        return f"{required} is missing."
    if not isinstance(statement, str) or not statement.strip():
        return f"{required} must be text."
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return "confidence must be a number from 0 to 1."
    if isinstance(used, bool) or not isinstance(used, int) or used < 0:
        return "usage_count must be a whole number that is not negative."
    wrong = next((name for name in _TEXT_FIELDS[kind] if not isinstance(document.get(name), str | None)), None)
    if wrong is not None:
        return f"{wrong} must be text."
    if kind == PATTERN and not _is_text_list(document.get("conditions", [])):
        return "conditions must be a list of sentences."
    return None


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def parse_links(document: Mapping[str, Any], scope: str) -> list[Link] | Refused:
    """Parse an item's links, written as ``{"to": …, "relation": …}``. Their targets need not exist."""
    entries = document.get("links", [])
    if not isinstance(entries, list):
        return Refused("bad_link", "links must be a list of objects with to and relation.")
    links = []
    for entry in entries:
        to, relation = (entry.get("to"), entry.get("relation")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(to, str) or not to or relation not in RELATIONS:
            return Refused("bad_link", f"A link needs an id in to, and a relation: {', '.join(RELATIONS)}.")
        links.append(Link(relation, Key(scope, kind_from_id(to), to)))
    return links


def kind_from_id(id: str) -> str:
    """Guess the kind of a record from the prefix of its id; the default is a pattern."""
    prefixes = {"episode": "ep-", **ID_PREFIXES}
    return next((kind for kind, prefix in prefixes.items() if id.startswith(prefix)), PATTERN)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two records that cannot both hold, or a link whose target does not exist."""

    kind: Literal["contradicts", "supersedes_each_other", "dangling"]
    a: Key
    b: Key
    relation: str


@dataclass(frozen=True, slots=True)
class PatternMergeResult(Answer):
    """Which patterns were merged, or would be, into which, and the label that undoes the merge."""

    into: Mapping[str, tuple[str, ...]]
    label: str = ""


@check_arguments
class Knowledge(CallerService):
    """The knowledge service of one caller."""

    def __init__(
        self, journal: Journal, clock: Clock, new_id: IdMaker, open_embedder: Callable[[], Embedder] | None = None
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._open_embedder = open_embedder

    def add_pattern(
        self, pattern: str, *, category: str = "", conditions: Sequence[str] = (), correct_approach: str = "",
        incorrect_approach: str = "", confidence: float = 0.0, source_episodes: Sequence[str] = (),
        expires_at: Time | None = None, id: str = "", scope: str = SHARED, extra: Mapping[str, Any] | None = None,
    ) -> Outcome:  # fmt: skip
        """Add a pattern.

        Args:
            pattern: What works, in one sentence.
            category: A word that groups such patterns.
            conditions: When it applies, one sentence each.
            correct_approach: What to do.
            incorrect_approach: What not to do.
            confidence: How sure it is, from 0 to 1.
            source_episodes: The ids of the episodes that it follows from.
            expires_at: From this time on recall and prompts leave it out.
            id: The id; default: the next one. The item of an id that exists is replaced.
            scope: The scope to write to.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.knowledge.add_pattern("Run the migrations before the deploy", confidence=0.8)
        """
        document = {
            "pattern": pattern, "category": category, "conditions": list(conditions), "correct_approach": correct_approach,
            "incorrect_approach": incorrect_approach, "confidence": confidence, "source_episodes": list(source_episodes),
        }  # fmt: skip
        return self._add_fields(PATTERN, document, expires_at, extra, id, scope)

    def add_antipattern(
        self, what_fails: str, *, why: str = "", prevention: str = "", confidence: float = 0.0, sources: Sequence[str] = (),
        expires_at: Time | None = None, id: str = "", scope: str = SHARED, extra: Mapping[str, Any] | None = None,
    ) -> Outcome:  # fmt: skip
        """Add an anti-pattern: what fails, why, and how to prevent it.

        Args:
            what_fails: What does not work, in one sentence.
            why: Why it fails.
            prevention: How to prevent it.
            confidence: How sure it is, from 0 to 1.
            sources: The ids of the episodes that it follows from.
            expires_at: From this time on recall and prompts leave it out.
            id: The id; default: the next one. The item of an id that exists is replaced.
            scope: The scope to write to.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.knowledge.add_antipattern("Deploying on a Friday", why="Nobody is there", prevention="Wait")
        """
        document = {
            "what_fails": what_fails, "why": why, "prevention": prevention, "confidence": confidence, "sources": list(sources),
        }  # fmt: skip
        return self._add_fields(ANTIPATTERN, document, expires_at, extra, id, scope)

    def add_fact(
        self, fact: str, *, category: str = "", confidence: float = 0.0, source_episodes: Sequence[str] = (),
        expires_at: Time | None = None, id: str = "", scope: str = SHARED, extra: Mapping[str, Any] | None = None,
    ) -> Outcome:  # fmt: skip
        """Add a fact.

        Args:
            fact: What is so.
            category: A word that groups such facts.
            confidence: How sure it is, from 0 to 1.
            source_episodes: The ids of the episodes that it follows from.
            expires_at: From this time on recall and prompts leave it out.
            id: The id; default: the next one. The item of an id that exists is replaced.
            scope: The scope to write to.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.knowledge.add_fact("The cache runs on port 6379")
        """
        document = {
            "fact": fact,
            "category": category,
            "confidence": confidence,
            "source_episodes": list(source_episodes),
        }
        return self._add_fields(FACT, document, expires_at, extra, id, scope)

    def _add_fields(
        self, kind: KnowledgeKind, fields: dict[str, Any], expires_at: Time | None, extra: Mapping[str, Any] | None,
        id: str, scope: str,
    ) -> Outcome:  # fmt: skip
        """Add an item from the fields that were given, and further ones."""
        if (refused := refuse_known_fields(extra, (*_FIELDS[kind], EXPIRES_AT, *fields))) is not None:
            return refused
        if expires_at is not None:
            fields[EXPIRES_AT] = to_iso(to_utc(expires_at))
        given = {name: value for name, value in fields.items() if value or name in _STATEMENT_FIELDS.values()}
        if kind == ANTIPATTERN:
            given = {"why": "", "prevention": "", **given}
        return self.add(kind, given | dict(extra or {}), id=id, scope=scope)

    def add(
        self, kind: KnowledgeKind, fields: Mapping[str, Any], *, id: str = "", scope: str = SHARED, origin: str = "manual",
        labels: tuple[str, ...] = (),
    ) -> Outcome:  # fmt: skip
        """Add an item from its document; with an id, replace the item of that id.

        Links in the document may point to records that do not exist yet; a document without links keeps the item's links.

        Args:
            kind: ``pattern``, ``antipattern`` or ``fact``.
            fields: The document of the item.
            id: The id; default: the next one. The item of an id that exists is replaced.
            scope: The scope to write to.
            origin: Where the record comes from, in one word.
            labels: Labels of the record.

        Example:
            memory.knowledge.add("pattern", {"pattern": "Run the migrations before the deploy"})
        """
        if kind not in KNOWLEDGE_KINDS:
            return Refused("bad_kind", f"{kind!r:.60} is not knowledge; say one of {', '.join(KNOWLEDGE_KINDS)}.")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            known = reader.get(Key(scope, kind, id)) if id else None
            name = id or next(free_ids(reader, kind, ID_PREFIXES[kind], scope))
            links = parse_links(fields, scope)
            if isinstance(links, Refused):
                return links
            if known is not None and "links" not in fields:
                links = [link for link in known.links if link.relation != DERIVED_FROM]
            draft = knowledge_draft(kind, fields, scope=scope, id=name, links=links, labels=labels, origin=origin)
            if isinstance(draft, Refused):
                return draft
            return [] if known is not None and (known.body, known.links) == (draft.body, draft.links) else [draft]

        return self._journal.append_if(build_drafts)

    def use(self, ref: KnowledgeRef) -> Outcome:
        """Count one use of an item, now.

        Args:
            ref: The item: its id, its key, the record or the item itself.

        Example:
            kept = memory.knowledge.add_fact("The cache runs on port 6379").unwrap()
            memory.knowledge.use(kept.id)
        """

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = self._find_record(reader, ref, KNOWLEDGE_KINDS)
            if record is None:
                return _not_found(ref)
            used = KnowledgeItem(record).usage_count + 1
            body = {**record.body, "usage_count": used, "last_used": to_iso(self._clock.now())}
            return [self._journal.revise(draft_from(record, body=body, expected=record.version))]

        return self._journal.append_if(build_drafts)

    def get(self, ref: KnowledgeRef) -> KnowledgeItem | None:
        """Return an item, or None.

        Args:
            ref: The item: its id, its key, the record or the item itself.

        Example:
            memory.knowledge.add_pattern("Run the migrations first", id="sem-001")
            memory.knowledge.get("sem-001")
        """
        with self._journal.snapshot() as reader:
            record = self._find_record(reader, ref, KNOWLEDGE_KINDS)
        return None if record is None else KnowledgeItem(record)

    def patterns(self, *, superseded: bool = False, category: str | None = None) -> list[KnowledgeItem]:
        """Return the patterns, oldest first; superseded ones only on request.

        Args:
            superseded: Return superseded items too.
            category: Only items of this category.

        Example:
            memory.knowledge.add_pattern("Run the migrations first", category="deploy")
            memory.knowledge.patterns(category="deploy")
        """
        return self._list_items(PATTERN, superseded, category)

    def antipatterns(self, *, superseded: bool = False) -> list[KnowledgeItem]:
        """Return the anti-patterns, oldest first; superseded ones only on request.

        Args:
            superseded: Return superseded items too.

        Example:
            memory.knowledge.antipatterns()
        """
        return self._list_items(ANTIPATTERN, superseded)

    def facts(self, *, superseded: bool = False) -> list[KnowledgeItem]:
        """Return the facts, oldest first; superseded ones only on request.

        Args:
            superseded: Return superseded items too.

        Example:
            memory.knowledge.add_fact("The cache runs on port 6379")
            [item.says for item in memory.knowledge.facts()]
        """
        return self._list_items(FACT, superseded)

    def learnings(self, day: str | None = None) -> list[Mapping[str, Any]]:
        """Return the learnings from the errors of a day, or of all days: date, error, message, learning, episodes.

        Args:
            day: The day, such as ``2026-01-06``; default: all.

        Example:
            memory.knowledge.learnings("2026-01-06")
        """
        labels = () if day is None else (f"day={day}",)
        found = [record.body for record in self._journal.read(Query(kinds=(LEARNING,), labels=labels))]
        return sorted(found, key=lambda body: (str(body.get("date", "")), str(body.get("error", ""))))

    def _list_items(self, kind: str, superseded: bool, category: str | None = None) -> list[KnowledgeItem]:
        labels = () if category is None else (f"category={category}",)
        found = [KnowledgeItem(record) for record in self._journal.read(Query(kinds=(kind,), labels=labels))]
        chosen = [item for item in found if superseded or item.superseded_by is None]
        return sorted(chosen, key=lambda item: (item.record.created_at, item.id))

    def link(self, source: KnowledgeRef, relation: KnowledgeRelation, target: KnowledgeRef) -> Outcome:
        """Add a link from ``source`` to ``target``, and its inverse where the relation has one.

        Args:
            source: The first record: its id, its key, the record or the item.
            relation: The relation, such as ``supersedes``; the refusal of another word lists all.
            target: The second record: its id, its key, the record or the item.

        Example:
            a = memory.knowledge.add_fact("The cache runs on port 6379").unwrap()
            b = memory.knowledge.add_fact("The cache runs on port 7000").unwrap()
            memory.knowledge.link(b.id, "supersedes", a.id)
        """
        return self._change_link(source, relation, target, add=True)

    def unlink(self, source: KnowledgeRef, relation: KnowledgeRelation, target: KnowledgeRef) -> Outcome:
        """Remove a link and its inverse.

        Args:
            source: The first record: its id, its key, the record or the item.
            relation: The relation, such as ``supersedes``; the refusal of another word lists all.
            target: The second record: its id, its key, the record or the item.

        Example:
            a = memory.knowledge.add_fact("The cache runs on port 6379").unwrap()
            b = memory.knowledge.add_fact("Redis is the cache").unwrap()
            memory.knowledge.link(a.id, "related_to", b.id)
            memory.knowledge.unlink(a.id, "related_to", b.id)
        """
        return self._change_link(source, relation, target, add=False)

    def _change_link(self, a: KnowledgeRef, relation: str, b: KnowledgeRef, *, add: bool) -> Outcome:
        if relation not in RELATIONS:
            return Refused("bad_relation", f"{relation!r:.60} is not a relation; say one of {', '.join(RELATIONS)}.")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            start, end = self._find_record(reader, a, LINKABLE_KINDS), self._find_record(reader, b, LINKABLE_KINDS)
            if start is None or end is None:
                return _not_found(a if start is None else b)
            if start.key == end.key:
                return Refused("bad_link", "A record cannot be linked to itself.")
            inverse = INVERSE_RELATIONS.get(relation)
            opposite = Link(inverse, end.key) if relation in (SUPERSEDES, SUPERSEDED_BY) and inverse else None
            if add and opposite in start.links:
                reason = f"{start.id} is already linked to {end.id} as {inverse}; unlink that first."
                return Refused("contradictory_link", reason)
            drafts = _relink_drafts(start, Link(relation, end.key), add=add)
            drafts += _relink_drafts(end, Link(inverse, start.key), add=add) if inverse else []
            return [self._journal.revise(draft) for draft in drafts]

        return self._journal.append_if(build_drafts)

    def neighbours(self, ref: KnowledgeRef, relation: KnowledgeRelation | None = None) -> list[Neighbour]:
        """Return the links from and to a record.

        Args:
            ref: The item: its id, its key, the record or the item itself.
            relation: Only links with this relation.

        Example:
            memory.knowledge.add_fact("The cache runs on port 6379", id="fact-001")
            memory.knowledge.neighbours("fact-001")
        """
        with self._journal.snapshot() as reader:
            record = self._find_record(reader, ref, LINKABLE_KINDS)
            found = [] if record is None else reader.neighbours(record.key, relation)
        return [neighbour for neighbour in found if neighbour.key.kind in LINKABLE_KINDS]

    def path(self, source: KnowledgeRef, target: KnowledgeRef) -> list[Key]:
        """Return the shortest path between two records along links in either direction, or an empty list.

        Args:
            source: The first record: its id, its key, the record or the item.
            target: The second record: its id, its key, the record or the item.

        Example:
            memory.knowledge.path("fact-001", "fact-002")
        """
        with self._journal.snapshot() as reader:
            start, goal = (
                self._find_record(reader, source, LINKABLE_KINDS),
                self._find_record(reader, target, LINKABLE_KINDS),
            )
            if start is None or goal is None:
                return []
            paths: dict[Key, list[Key]] = {start.key: [start.key]}
            queue = deque([start.key])
            while queue and goal.key not in paths:
                path = paths[queue.popleft()]
                for neighbour in reader.neighbours(path[-1]) if len(path) <= _MAX_PATH_LENGTH else ():
                    key = neighbour.key
                    if key not in paths and key.kind in LINKABLE_KINDS and reader.get(key) is not None:
                        paths[key] = [*path, key]
                        queue.append(key)
        return paths.get(goal.key, [])

    def contradictions(self) -> list[Contradiction]:
        """List records that contradict or supersede each other, and links whose target does not exist.

        Example:
            memory.knowledge.contradictions()
        """
        found: dict[Contradiction, None] = {}
        dangling: dict[Contradiction, None] = {}
        items = [record for kind in KNOWLEDGE_KINDS for record in self._journal.read(Query(kinds=(kind,)))]
        with self._journal.snapshot() as reader:
            for record, link in ((item, link) for item in items for link in item.links):
                a, b = sorted((record.key, link.to))
                if link.relation == "contradicts":
                    found[Contradiction("contradicts", a, b, link.relation)] = None
                if link.relation == SUPERSEDES and Link(SUPERSEDED_BY, link.to) in record.links:
                    found[Contradiction("supersedes_each_other", a, b, link.relation)] = None
                if self._journal.reach.reads(link.to.scope) and reader.get(link.to) is None:
                    dangling[Contradiction("dangling", record.key, link.to, link.relation)] = None
        return [*found, *dangling]

    def merge_duplicates(self, threshold: float = 0.9, *, dry_run: bool = False) -> PatternMergeResult | Refused:
        """Merge patterns that say the same: the most confident takes over sources and use, and supersedes the others.

        The same words and, by the store's embedder, the same meaning count; patterns that differ in a number, name, date or
        negation are never merged.
        The merge is one batch under one label; ``journal.undo(label=…)`` reverts it. Nothing is deleted.

        Args:
            threshold: The least similarity of two patterns that are merged, from 0 to 1.
            dry_run: Change nothing; return what would be done.

        Example:
            memory.knowledge.merge_duplicates(dry_run=True)
        """
        if not 0 < threshold <= 1:
            return Refused("bad_threshold", "The threshold is a similarity: more than 0, at most 1.")
        label = f"run={self._new_id()}"
        embedder = None if self._open_embedder is None else self._open_embedder()
        for _ in range(_MAX_MERGE_ATTEMPTS):  # vectors are computed outside of the write lock
            by_scope: dict[str, list[KnowledgeItem]] = {}
            for record in self._journal.read(Query(kinds=(PATTERN,))):
                item = KnowledgeItem(record)
                if item.superseded_by is None and self._journal.reach.writes(record.scope):
                    by_scope.setdefault(record.scope, []).append(item)
            groups = [
                group for items in by_scope.values() for group in find_duplicate_patterns(items, threshold, embedder)
            ]
            into = {primary.id: tuple(item.id for item in duplicates) for primary, duplicates in groups}
            if dry_run or not groups:
                return PatternMergeResult(into)
            drafts = (draft for group in groups for draft in _merge_drafts(*group, label))
            outcome = self._journal.append(map(self._journal.revise, drafts))
            if isinstance(outcome, Refused):
                return outcome
            if not isinstance(outcome, Conflict):
                return PatternMergeResult(into, label)
        return Refused("conflict", "Others kept changing the same patterns; nothing was merged, try again.")

    def _find_record(self, reader: Reader, ref: KnowledgeRef, kinds: Sequence[str]) -> Record | None:
        if isinstance(ref, Key):
            return reader.get(ref)
        return find_by_id(reader, kinds, ref, own_scope=self._journal.author)


def _relink_drafts(record: Record, link: Link, *, add: bool) -> list[Draft]:
    """Draft a record with a link added or removed; nothing if the record needs no change."""
    if (link in record.links) is add:
        return []
    links = (*record.links, link) if add else tuple(other for other in record.links if other != link)
    return [draft_from(record, links=links, expected=record.version)]


def _merge_drafts(primary: KnowledgeItem, duplicates: Sequence[KnowledgeItem], label: str) -> list[Draft]:
    """Draft the pattern that stays, with the sources and use of its duplicates, and each duplicate superseded by it."""
    items = (primary, *duplicates)
    all_links = dict.fromkeys(link for item in items for link in item.record.links)
    source_links = [link for link in all_links if link.relation == DERIVED_FROM][-MAX_SOURCES:]
    other_links = [link for link in primary.record.links if link.relation != DERIVED_FROM]
    other_links += [Link(SUPERSEDES, item.record.key) for item in duplicates]
    sources = dict.fromkeys(source for item in items for source in item.record.body.get("source_episodes", []))
    used = sum(item.usage_count for item in items)
    body = {**primary.record.body, "source_episodes": list(sources)[-MAX_SOURCES:], "usage_count": used}
    if last_uses := [item.last_used for item in items if item.last_used is not None]:
        body["last_used"] = to_iso(max(last_uses))
    superseded = Link(SUPERSEDED_BY, primary.record.key)
    changes: list[dict[str, Any]] = [{"body": body, "links": tuple(dict.fromkeys((*source_links, *other_links)))}]
    changes += [{"links": (*item.record.links, superseded)} for item in duplicates]
    drafts = [draft_from(item.record, **change) for item, change in zip(items, changes, strict=True)]
    return [
        draft._replace(origin="consolidation", expected=item.record.version, labels=with_run_label(item.record, label))
        for item, draft in zip(items, drafts, strict=True)
    ]


def derived_keys(reader: Reader, source: Key, kind: str) -> list[Key]:
    """Return the keys of the records of a kind that were derived from a record."""
    links = reader.neighbours(source, DERIVED_FROM)
    return [link.key for link in links if link.direction == "in" and link.key.kind == kind]


def with_run_label(record: Record, label: str) -> tuple[str, ...]:
    """Return a record's labels with the run label replaced by ``label``."""
    return (*(other for other in record.labels if not other.startswith("run=")), label)


def _not_found(ref: KnowledgeRef) -> Refused:
    return Refused("not_found", f"Nothing is known as {str(ref)!r:.80}.")
