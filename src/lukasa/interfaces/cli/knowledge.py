"""``lukasa knowledge``: patterns, anti-patterns and facts, and the links between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape as escape_xml
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.core.choices import KNOWLEDGE_KINDS, RELATIONS
from lukasa.core.record import Key
from lukasa.experience.knowledge import ANTIPATTERN, FACT, PATTERN, KnowledgeItem
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    FoundT,
    argument,
    flag,
    option,
    require_choice,
    require_found,
    require_result,
)
from lukasa.interfaces.cli.render import Column, escape_line, shorten
from lukasa.interfaces.serialise import to_json

if TYPE_CHECKING:
    from lukasa.experience import Knowledge

_KIND_NAMES = ", ".join(KNOWLEDGE_KINDS)
_RELATION_HELP = f"{', '.join(RELATIONS[:-1])} or {RELATIONS[-1]}."
_COLOURS = {"pattern": "#cfe8cf", "antipattern": "#f6d0cc", "fact": "#d4e2f4", "episode": "#eeeeee", "skill": "#f4ecc8"}
_INVERSE_RELATIONS = {"superseded_by"}
_SYMMETRIC_RELATIONS = {"related_to", "contradicts"}
_MAX_WIDTH, _MARGIN, _MAX_NODES = 1000, 90, 500
_ARROWS = {"out": "→", "in": "←"}

app = CommandApp("knowledge", "Store and link patterns, anti-patterns and facts.", example="lukasa knowledge list")
KnowledgeIdArgument = Annotated[str, argument("ID", "The id, such as sem-001.")]


@app.command()
def list_(
    call: Call,
    kind: Annotated[str | None, option("KIND", f"Only this kind: {_KIND_NAMES}.")] = None,
    superseded: Annotated[bool, flag("--superseded", "Include superseded items.")] = False,
) -> None:
    """List patterns, anti-patterns and facts, the most confident first.

    Example: lukasa knowledge list --kind pattern
    """
    require_choice(kind, KNOWLEDGE_KINDS, "a kind of knowledge")
    knowledge = call.memory.knowledge
    readers = {PATTERN: knowledge.patterns, ANTIPATTERN: knowledge.antipatterns, FACT: knowledge.facts}
    chosen = [item for name in ((kind,) if kind else KNOWLEDGE_KINDS) for item in readers[name](superseded=superseded)]
    chosen.sort(key=lambda item: (KNOWLEDGE_KINDS.index(item.kind), -item.confidence, item.id))
    sources: Column = ("sources", lambda item: len(item.sources))
    columns = ("id, kind, confidence=record.body.confidence:.2f", sources, "used=usage_count, says")
    call.show(chosen, columns=columns, truncate="says", empty="Nothing is known yet.")


@app.command()
def show_(call: Call, id: KnowledgeIdArgument) -> None:
    """Show one item with all its fields and links.

    Example: lukasa knowledge show sem-001
    """
    item = require_item(call.memory.knowledge.get(id), id)
    neighbours = call.memory.knowledge.neighbours(id)
    fields = {"id": item.id, "kind": item.kind}
    for name, value in item.record.body.items():
        pairs = ", ".join(f"{word} {number}" for word, number in value.items()) if isinstance(value, dict) else value
        fields[name] = "\n".join(map(str, value)) if isinstance(value, list) else str(pairs)
    fields["links"] = "\n".join(f"{_ARROWS[link.direction]} {link.relation} {link.key.id}" for link in neighbours)
    call.show({**to_json(item), "neighbours": to_json(neighbours)}, fields=fields)


def require_item(item: FoundT | None, id: str) -> FoundT:
    """Return what was found under an id; nothing found is reported as not found."""
    return require_found(item, f"Nothing is known as {id[:80]!r}.", "`lukasa knowledge list` shows all ids.")


@app.command()
def add(
    call: Call,
    kind: Annotated[str, argument("KIND", f"One of {_KIND_NAMES}.")],
    says: Annotated[str, argument("TEXT", "The pattern or fact; for an anti-pattern, what fails.")],
    category: Annotated[str, option("WORD", "The category.")] = "",
    condition: Annotated[list[str] | None, option("TEXT", "When the pattern holds (repeatable).")] = None,
    correct: Annotated[str, option("TEXT", "What to do; for an anti-pattern, how to prevent it.")] = "",
    incorrect: Annotated[str, option("TEXT", "What not to do; for an anti-pattern, why it fails.")] = "",
    confidence: Annotated[float, option("P", "Confidence, from 0 to 1.", min=0, max=1)] = 0.5,
    id: Annotated[str, option("ID", "The id; default: the next number.", "--id")] = "",
) -> None:
    """Store a pattern, an anti-pattern or a fact.

    Example: lukasa knowledge add fact "The staging database is called heron" --confidence 1
    """
    body: dict[str, Any] = {"confidence": confidence} | ({"category": category} if category else {})
    if kind == PATTERN:
        body |= {"pattern": says, "conditions": condition or []}
        body |= {"correct_approach": correct, "incorrect_approach": incorrect}
    elif kind == ANTIPATTERN:
        body |= {"what_fails": says, "why": incorrect, "prevention": correct}
    else:
        body |= {"fact": says}
    named: Any = kind  # the service refuses another one
    records = call.memory.knowledge.add(named, body, id=id).unwrap_all()
    stored = f"Stored {records[0].id}." if records else "Already stored."
    call.show([KnowledgeItem(record) for record in records], stored)


@app.command()
def link(
    call: Call,
    a: Annotated[str, argument("ID", "Where the link starts.")],
    relation: Annotated[str, argument("RELATION", _RELATION_HELP)],
    b: Annotated[str, argument("ID", "Where the link ends.")],
    remove: Annotated[bool, flag("--remove", "Remove the link instead.")] = False,
) -> None:
    """Link two records, or remove a link. A relation with an inverse is also stored at the other end.

    Example: lukasa knowledge link sem-002 supersedes sem-001
    """
    named: Any = relation  # the service refuses another one
    change = call.memory.knowledge.unlink if remove else call.memory.knowledge.link
    changed = len(change(a, named, b).unwrap_all())
    sentence = f"{'Unlinked' if remove else 'Linked'}: {a} {relation} {b}." if changed else "Nothing to change."
    call.show({"from": a, "relation": relation, "to": b, "removed": remove, "changed": changed}, sentence)


@app.command()
def path(
    call: Call,
    a: Annotated[str, argument("ID", "The first record.")],
    b: Annotated[str, argument("ID", "The last record.")],
) -> None:
    """Find the shortest path of links between two records.

    Example: lukasa knowledge path sem-001 sem-002
    """
    keys = call.memory.knowledge.path(a, b)
    call.show(keys, " – ".join(key.id for key in keys) if keys else f"No links lead from {a} to {b}.")


@app.command()
def contradictions(call: Call) -> None:
    """List items that contradict each other, and links to records that do not exist.

    Example: lukasa knowledge contradictions
    """
    found = call.memory.knowledge.contradictions()
    call.show(
        found, columns="what=kind, a=a.id, relation, b=b.id", empty="There are no contradictions and no broken links."
    )


@app.command()
def learnings(
    call: Call, day: Annotated[str | None, option("DATE", "Only this day, such as 2026-01-06.")] = None
) -> None:
    """List what was learned from errors, day by day.

    Example: lukasa knowledge learnings --day 2026-01-06
    """
    columns = "date, error, message, learning"
    call.show(call.memory.knowledge.learnings(day), columns=columns, truncate="learning", empty="No learnings.")


@app.command()
def merge(
    call: Call,
    threshold: Annotated[float, option("SHARE", "How similar patterns must be.", min=0.01, max=1)] = 0.9,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be merged.")] = False,
) -> None:
    """Merge patterns that say the same: the most confident one supersedes the others.

    Example: lukasa knowledge merge --dry-run
    """
    merged = require_result(call.memory.knowledge.merge_duplicates(threshold, dry_run=dry_run))
    verb = "would supersede" if dry_run else "supersedes"
    lines = [f"{id} {verb} {', '.join(others)}." for id, others in merged.into.items()]
    if merged.label:
        lines.append(f"To take this back: lukasa undo --label {merged.label}")
    call.show(merged, lines or "No two patterns say the same.")


@app.command()
def graph(
    call: Call,
    id: Annotated[str | None, argument("ID", "Only records near this one.")] = None,
    format_name: Annotated[str, option("FORMAT", "dot or svg.", "--format")] = "dot",
    steps: Annotated[int, option("N", "Maximum number of links away from ID.", min=1, max=6)] = 2,
    sources: Annotated[bool, flag("--sources", "Include the episodes that items were drawn from.")] = False,
) -> None:
    """Draw knowledge and its links as a graph, in DOT or SVG.

    Example: lukasa knowledge graph --format svg > knowledge.svg
    """
    require_choice(format_name, ("dot", "svg"), "a graph format")
    found = require_item(collect_graph(call.memory.knowledge, id, steps, sources=sources), id or "")
    draw = render_dot if format_name == "dot" else render_svg
    call.show(found, lambda: typer.echo(draw(found)))


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """Records with their texts, and the links between them."""

    nodes: dict[Key, str]
    edges: tuple[tuple[Key, str, Key], ...]

    def as_json(self) -> dict[str, Any]:
        nodes = [{"id": key.id, "kind": key.kind, "scope": key.scope, "says": text} for key, text in self.nodes.items()]
        edges = [{"from": a.id, "relation": relation, "to": b.id} for a, relation, b in self.edges]
        return {"nodes": nodes, "edges": edges}


def collect_graph(knowledge: Knowledge, id: str | None, steps: int, *, sources: bool) -> KnowledgeGraph | None:
    """Collect all knowledge, or the records near one of them; None if that one does not exist."""
    items = {
        item.record.key: item
        for kind in (knowledge.patterns, knowledge.antipatterns, knowledge.facts)
        for item in kind(superseded=True)
    }
    links: dict[tuple[Key, str, Key], None] = {}  # every link once: no inverses, symmetric ones from the smaller key
    for key, item in items.items():
        for link in item.record.links:
            is_inverse = link.relation in _INVERSE_RELATIONS and link.to in items
            if is_inverse or (link.to.kind == "episode" and not sources):
                continue
            a, b = sorted((key, link.to)) if link.relation in _SYMMETRIC_RELATIONS else (key, link.to)
            links[a, link.relation, b] = None
    edges = list(links)
    if id is not None:
        if (start := knowledge.get(id)) is None:
            return None
        near = {start.record.key}
        for _ in range(steps):
            near |= {key for a, _, b in edges if a in near or b in near for key in (a, b)}
        edges = [edge for edge in edges if edge[0] in near and edge[2] in near]
        items = {key: item for key, item in items.items() if key in near}
    shown = sorted(items, key=lambda key: (KNOWLEDGE_KINDS.index(key.kind), key))[:_MAX_NODES]
    nodes = {key: items[key].says for key in shown}
    for key in (key for a, _, b in edges for key in (a, b)):
        if len(nodes) < _MAX_NODES:
            nodes.setdefault(key, "")
    return KnowledgeGraph(nodes, tuple(edge for edge in edges if edge[0] in nodes and edge[2] in nodes))


def render_dot(graph: KnowledgeGraph) -> str:
    """Return the graph in DOT."""
    lines = ["digraph knowledge {", '  node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    for key, text in graph.nodes.items():
        label = _quote_dot(f"{key.id}\n{shorten(text, 60)}" if text else key.id)
        lines.append(f'  {_quote_dot(str(key))} [label={label}, fillcolor="{_COLOURS.get(key.kind, "#ffffff")}"];')
    for a, relation, b in graph.edges:
        plain = ", dir=none" if relation in _SYMMETRIC_RELATIONS else ""
        lines.append(f"  {_quote_dot(str(a))} -> {_quote_dot(str(b))} [label={_quote_dot(relation)}{plain}];")
    return "\n".join([*lines, "}"])


def _quote_dot(text: str) -> str:
    lines = (escape_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


def render_svg(graph: KnowledgeGraph) -> str:
    """Return the graph as SVG: records on a circle, ordered by kind, each with its text as a tooltip."""
    count = max(len(graph.nodes), 1)
    radius = max(150.0, 34 * count / (2 * math.pi))
    size = 2 * (radius + _MARGIN)
    positions = {}
    for index, key in enumerate(graph.nodes):
        angle = 2 * math.pi * index / count - math.pi / 2
        positions[key] = (size / 2 + radius * math.cos(angle), size / 2 + radius * math.sin(angle))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size:.0f} {size:.0f}" width="{min(size, _MAX_WIDTH):.0f}" '
        'font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
    ]
    for a, relation, b in graph.edges:
        (x1, y1), (x2, y2) = positions[a], positions[b]
        tip = "" if relation in _SYMMETRIC_RELATIONS else ' marker-end="url(#tip)"'
        dash = ' stroke-dasharray="5 4" stroke="#b03030"' if relation == "contradicts" else ' stroke="#666"'
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{(x1 + 3 * x2) / 4:.1f}" y2="{(y1 + 3 * y2) / 4:.1f}"{dash}{tip}/>'
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{dash} stroke-opacity="0.4"/>'
            f'<text x="{(x1 + x2) / 2:.1f}" y="{(y1 + y2) / 2:.1f}" fill="#666" text-anchor="middle">{escape_xml(relation)}</text>'
        )
    for key, (x, y) in positions.items():
        name = escape_line(key.id)[:28]
        width, colour = 7.5 * len(name) + 14, _COLOURS.get(key.kind, "#ffffff")
        parts.append(
            f"<g><title>{escape_xml(escape_line(graph.nodes[key]) or name)}</title>"
            f'<rect x="{x - width / 2:.1f}" y="{y - 12:.1f}" width="{width:.1f}" height="24" rx="6" stroke="#888" '
            f'fill="{colour}"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape_xml(name)}</text></g>'
        )
    return "\n".join([*parts, "</svg>"])
