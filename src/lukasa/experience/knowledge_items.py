"""What is known: a pattern says how something is done well, an anti-pattern what fails, a fact what is so.

Bodies are the document's own JSON without id and links: links are those of the record, so that the engine can follow
them. A pattern or anti-pattern links to the episodes it was drawn from by ``derived_from``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lukasa.clock import from_iso
from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record

PATTERN, ANTIPATTERN, FACT = "pattern", "antipattern", "fact"
KNOWLEDGE_KINDS = (PATTERN, ANTIPATTERN, FACT)
SUPERSEDES, SUPERSEDED_BY = "supersedes", "superseded_by"
INVERSE_RELATIONS: Mapping[str, str] = {
    SUPERSEDES: SUPERSEDED_BY, SUPERSEDED_BY: SUPERSEDES, "related_to": "related_to", "contradicts": "contradicts",
}  # fmt: skip
"""Relations whose other end carries a link too. The others are read from their target by looking back."""
RELATIONS = (DERIVED_FROM, "related_to", "contradicts", "elaborates", "example_of", SUPERSEDES, SUPERSEDED_BY)
MAX_SOURCES = 200
"""A pattern cites its newest sources up to this many; what it says follows from those alone."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    PATTERN: (
        "id", "pattern", "category", "conditions", "correct_approach", "incorrect_approach", "confidence",
        "source_episodes", "usage_count", "last_used",
    ),
    ANTIPATTERN: ("id", "what_fails", "why", "prevention", "source", "sources", "confidence"),
    FACT: ("id", "fact", "category", "confidence", "source_episodes", "usage_count", "last_used"),
}  # fmt: skip
_STATEMENT_FIELDS = {PATTERN: "pattern", ANTIPATTERN: "what_fails", FACT: "fact"}


@dataclass(frozen=True, slots=True)
class KnowledgeItem:
    """A pattern, an anti-pattern or a fact as it stands in the log."""

    record: Record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def says(self) -> str:
        """What it says, in one sentence."""
        said = str(self.record.body.get(_STATEMENT_FIELDS.get(self.kind, ""), "")) or self.record.text
        if self.kind == ANTIPATTERN and self.record.body.get("why"):
            said = f"{said}: {self.record.body['why']}"
        return said

    @property
    def approach(self) -> str:
        """What to do about it."""
        name = "prevention" if self.kind == ANTIPATTERN else "correct_approach"
        return str(self.record.body.get(name, ""))

    @property
    def confidence(self) -> float:
        found = self.record.body.get("confidence", 0.0)
        return float(found) if isinstance(found, int | float) else 0.0

    @property
    def usage_count(self) -> int:
        found = self.record.body.get("usage_count", 0)
        return found if isinstance(found, int) else 0

    @property
    def last_used(self) -> datetime | None:
        found = self.record.body.get("last_used")
        return from_iso(found) if isinstance(found, str) else None

    @property
    def voices(self) -> int:
        """How many independent authors stand behind it, as far as consolidation counted them; 0 if it did not."""
        found = self.record.body.get("voices", 0)
        return found if isinstance(found, int) else 0

    @property
    def sources(self) -> tuple[Key, ...]:
        return tuple(link.to for link in self.record.links if link.relation == DERIVED_FROM)

    @property
    def superseded_by(self) -> Key | None:
        return next((link.to for link in self.record.links if link.relation == SUPERSEDED_BY), None)

    def as_json(self) -> dict[str, Any]:
        """The item as its document spells it."""
        body = {"id": self.id, **self.record.body}
        known = {name: body.pop(name) for name in _FIELDS.get(self.kind, ("id",)) if name in body}
        cited = {*self.record.body.get("source_episodes", ()), *self.record.body.get("sources", ())}
        cited.add(self.record.body.get("source", ""))
        links = [
            {"to": link.to.id, "relation": link.relation}
            for link in self.record.links
            if link.relation != DERIVED_FROM or link.to.id not in cited
        ]
        return known | body | ({"links": links} if links else {})


def pattern_draft(document: Mapping[str, Any], *, scope: str, id: str, **fields: Any) -> Draft | Refused:
    """The draft of a pattern with the document's fields."""
    wrong = _text_error(document, "pattern", required=True) or _numbers_error(document) or _conditions_error(document)
    for name in ("category", "correct_approach", "incorrect_approach"):
        wrong = wrong or _text_error(document, name)
    if wrong:
        return Refused("bad_pattern", wrong)
    body: dict[str, Any] = {"conditions": [], "confidence": 0.0, "source_episodes": [], "usage_count": 0}
    body |= _item_body(document)
    conditions: list[str] = body["conditions"]
    parts = [body["pattern"], *conditions, body.get("correct_approach", ""), body.get("incorrect_approach", "")]
    return _knowledge_draft(PATTERN, body, parts, scope=scope, id=id, sources=body["source_episodes"], **fields)


def antipattern_draft(document: Mapping[str, Any], *, scope: str, id: str, **fields: Any) -> Draft | Refused:
    """The draft of an anti-pattern: what fails, why, how it is prevented, and where that was seen."""
    wrong = _text_error(document, "what_fails", required=True) or _numbers_error(document)
    for name in ("why", "prevention", "source"):
        wrong = wrong or _text_error(document, name)
    if wrong:
        return Refused("bad_antipattern", wrong)
    body = _item_body(document)
    sources = body.get("sources") or ([body["source"]] if body.get("source") else [])
    parts = [body["what_fails"], body.get("why", ""), body.get("prevention", "")]
    return _knowledge_draft(ANTIPATTERN, body, parts, scope=scope, id=id, sources=sources, **fields)


def fact_draft(document: Mapping[str, Any], *, scope: str, id: str, **fields: Any) -> Draft | Refused:
    """The draft of a fact."""
    wrong = _text_error(document, "fact", required=True) or _numbers_error(document)
    if wrong:
        return Refused("bad_fact", wrong)
    body = _item_body(document)
    return _knowledge_draft(
        FACT, body, [body["fact"]], scope=scope, id=id, sources=body.get("source_episodes", []), **fields
    )


def _knowledge_draft(
    kind: str, body: dict[str, Any], parts: Iterable[str], *, scope: str, id: str, sources: Any,
    links: Sequence[Link] = (), labels: Iterable[str] = (), **fields: Any,
) -> Draft | Refused:  # fmt: skip
    if not isinstance(sources, list) or not all(isinstance(source, str) and source for source in sources):
        return Refused(f"bad_{kind}", "The sources must be a list of ids of episodes.")
    drawn = [Link(DERIVED_FROM, Key(scope, "episode", source)) for source in sources[-MAX_SOURCES:]]
    all_links = tuple(dict.fromkeys((*drawn, *links)))
    category = body.get("category")
    own = (f"category={category}",) if isinstance(category, str) and category else ()
    kept = (label for label in labels if not label.startswith("category="))
    text = "\n".join(str(part).strip() for part in parts if part)
    return Draft(kind, text, body, id=id, scope=scope, links=all_links, labels=(*own, *kept), **fields)


def parse_links(document: Mapping[str, Any], scope: str) -> list[Link] | Refused:
    """The links that an item spells out as ``{"to": …, "relation": …}``. What they lead to need not be there."""
    found = document.get("links", [])
    if not isinstance(found, list):
        return Refused("bad_link", "links must be a list of objects with to and relation.")
    links = []
    for link in found:
        to, relation = (link.get("to"), link.get("relation")) if isinstance(link, Mapping) else (None, None)
        if not isinstance(to, str) or not to or relation not in RELATIONS:
            return Refused("bad_link", f"A link needs an id in to, and a relation: {', '.join(RELATIONS)}.")
        links.append(Link(relation, Key(scope, kind_from_id(to), to)))
    return links


def kind_from_id(id: str) -> str:
    """The kind of record that an id of the document's looks like."""
    return next((kind for prefix, kind in _ID_PREFIXES if id.startswith(prefix)), PATTERN)


_ID_PREFIXES = (("ep-", "episode"), ("anti-", ANTIPATTERN), ("fact-", FACT), ("sem-", PATTERN))


def _item_body(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("id", "links") and value is not None}


def _text_error(document: Mapping[str, Any], name: str, *, required: bool = False) -> str | None:
    value = document.get(name)
    if value is None or value == "":
        return f"{name} is missing." if required else None
    if not isinstance(value, str) or (required and not value.strip()):
        return f"{name} must be text."
    return None


def _conditions_error(document: Mapping[str, Any]) -> str | None:
    found = document.get("conditions", [])
    right = isinstance(found, list) and all(isinstance(condition, str) for condition in found)
    return None if right else "conditions must be a list of sentences."


def _numbers_error(document: Mapping[str, Any]) -> str | None:
    confidence, used = document.get("confidence", 0.0), document.get("usage_count", 0)
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        return "confidence must be a number from 0 to 1."
    if isinstance(used, bool) or not isinstance(used, int) or used < 0:
        return "usage_count must be a whole number that is not negative."
    return None
