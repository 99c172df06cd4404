"""``lukasa knowledge``: patterns, anti-patterns and facts, and the links between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape as escape_xml
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lukasa.core.choices import KNOWLEDGE_KINDS
from lukasa.core.record import Key
from lukasa.experience.knowledge import ANTIPATTERN, FACT, PATTERN
from lukasa.interfaces.cli.options import Call, argument, flag, option, require_choice, require_found
from lukasa.interfaces.cli.render import Column, escape_line, shorten

if TYPE_CHECKING:
    from lukasa.experience import Knowledge

_COLOURS = {"pattern": "#cfe8cf", "antipattern": "#f6d0cc", "fact": "#d4e2f4", "episode": "#eeeeee", "skill": "#f4ecc8"}
_INVERSE_RELATIONS = {"superseded_by"}
_SYMMETRIC_RELATIONS = {"related_to", "contradicts"}
_MAX_WIDTH, _MARGIN, _MAX_NODES = 1000, 90, 500


def list_(
    call: Call,
    kind: Annotated[str | None, option("KIND", f"Only this kind: {', '.join(KNOWLEDGE_KINDS)}.")] = None,
    superseded: Annotated[bool, flag("--superseded", "Include superseded items.")] = False,
) -> None:
    """List patterns, anti-patterns and facts, the most confident first.

    Example: lukasa knowledge list --kind pattern
    """
    require_choice(kind, KNOWLEDGE_KINDS, "a kind of knowledge")
    knowledge = call.existing_memory.knowledge
    readers = {PATTERN: knowledge.patterns, ANTIPATTERN: knowledge.antipatterns, FACT: knowledge.facts}
    chosen = [item for name in ((kind,) if kind else KNOWLEDGE_KINDS) for item in readers[name](superseded=superseded)]
    chosen.sort(key=lambda item: (KNOWLEDGE_KINDS.index(item.kind), -item.confidence, item.id))
    sources: Column = ("sources", lambda item: len(item.sources))
    columns = ("id, kind, confidence=record.body.confidence:.2f", sources, "used=usage_count, says")
    call.show(chosen, columns=columns, truncate="says", empty="Nothing is known yet.")


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
    near = collect_graph(call.existing_memory.knowledge, id, steps, sources=sources)
    found = require_found(near, f"Nothing is known as {(id or '')[:80]!r}.", "`lukasa knowledge list` shows all ids.")
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
    """Collect all knowledge, or the records near one of them; None if the named record does not exist."""
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
