"""Knowledge as a picture: DOT for those who have Graphviz, SVG for everybody."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lukasa.experience.knowledge import Knowledge
from lukasa.experience.knowledge_items import KNOWLEDGE_KINDS, KnowledgeItem
from lukasa.interfaces.cli.render import escape_line
from lukasa.record import Key

_COLOURS = {"pattern": "#cfe8cf", "antipattern": "#f6d0cc", "fact": "#d4e2f4", "episode": "#eeeeee", "skill": "#f4ecc8"}
_INVERSE_RELATIONS = {"superseded_by"}
_SYMMETRIC_RELATIONS = {"related_to", "contradicts"}
_MAX_WIDTH, _MARGIN, _MAX_NODES = 1000, 90, 500


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """Records with what they say, and the links between them."""

    nodes: dict[Key, str]
    edges: tuple[tuple[Key, str, Key], ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": [
                {"id": key.id, "kind": key.kind, "scope": key.scope, "says": said} for key, said in self.nodes.items()
            ],
            "edges": [{"from": a.id, "relation": relation, "to": b.id} for a, relation, b in self.edges],
        }


def collect_graph(knowledge: Knowledge, id: str | None, steps: int, *, sources: bool) -> KnowledgeGraph | None:
    """What is known, all of it or what is near one record; the episodes behind it only when asked for."""
    items = {
        item.record.key: item
        for kind in (knowledge.patterns, knowledge.antipatterns, knowledge.facts)
        for item in kind(superseded=True)
    }
    edges = _collect_edges(items, sources=sources)
    if id is not None:
        start = knowledge.get(id)
        if start is None:
            return None
        near = {start.record.key}
        for _ in range(steps):
            near |= {key for a, _, b in edges if a in near or b in near for key in (a, b)}
        edges = [edge for edge in edges if edge[0] in near and edge[2] in near]
        items = {key: item for key, item in items.items() if key in near}
    shown = sorted(items, key=lambda key: (KNOWLEDGE_KINDS.index(key.kind), key))[:_MAX_NODES]
    nodes = {key: items[key].says for key in shown}
    for a, _, b in edges:
        for key in (a, b):
            if len(nodes) < _MAX_NODES:
                nodes.setdefault(key, "")
    return KnowledgeGraph(nodes, tuple(edge for edge in edges if edge[0] in nodes and edge[2] in nodes))


def _collect_edges(items: dict[Key, KnowledgeItem], *, sources: bool) -> list[tuple[Key, str, Key]]:
    """Every link once: of two inverse ones the first, of two equal ones that from the smaller key."""
    found: dict[tuple[Key, str, Key], None] = {}
    for key, item in items.items():
        for link in item.record.links:
            if link.to.kind == "episode" and not sources:
                continue
            if link.relation in _INVERSE_RELATIONS and link.to in items:
                continue
            a, b = sorted((key, link.to)) if link.relation in _SYMMETRIC_RELATIONS else (key, link.to)
            found[a, link.relation, b] = None
    return list(found)


def render_dot(graph: KnowledgeGraph) -> str:
    """The graph in Graphviz's language."""
    lines = ["digraph knowledge {", '  node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    for key, said in graph.nodes.items():
        text = f"{key.id}\n{_shorten(said)}" if said else key.id
        lines.append(
            f"  {_quote_dot(str(key))} [label={_quote_dot(text)}, fillcolor={_quote_dot(_COLOURS.get(key.kind, '#ffffff'))}];"
        )
    for a, relation, b in graph.edges:
        plain = ", dir=none" if relation in _SYMMETRIC_RELATIONS else ""
        lines.append(f"  {_quote_dot(str(a))} -> {_quote_dot(str(b))} [label={_quote_dot(relation)}{plain}];")
    return "\n".join([*lines, "}"])


def _quote_dot(text: str) -> str:
    return (
        '"' + "\\n".join(escape_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")) + '"'
    )


def render_svg(graph: KnowledgeGraph) -> str:
    """The graph with its records on a circle, in the order of their kinds; the text of each shows on pointing at it."""
    count = max(len(graph.nodes), 1)
    radius = max(150.0, 34 * count / (2 * math.pi))
    size = 2 * (radius + _MARGIN)
    places = {
        key: (
            size / 2 + radius * math.cos(2 * math.pi * at / count - math.pi / 2),
            size / 2 + radius * math.sin(2 * math.pi * at / count - math.pi / 2),
        )
        for at, key in enumerate(graph.nodes)
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size:.0f} {size:.0f}" width="{min(size, _MAX_WIDTH):.0f}" '
        'font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
    ]
    for a, relation, b in graph.edges:
        (x1, y1), (x2, y2) = places[a], places[b]
        tip = "" if relation in _SYMMETRIC_RELATIONS else ' marker-end="url(#tip)"'
        dash = ' stroke-dasharray="5 4" stroke="#b03030"' if relation == "contradicts" else ' stroke="#666"'
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{(x1 + 3 * x2) / 4:.1f}" y2="{(y1 + 3 * y2) / 4:.1f}"{dash}{tip}/>'
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{dash} stroke-opacity="0.4"/>'
            f'<text x="{(x1 + x2) / 2:.1f}" y="{(y1 + y2) / 2:.1f}" fill="#666" text-anchor="middle">{escape(relation)}</text>'
        )
    for key, (x, y) in places.items():
        name = escape_line(key.id)[:28]
        width = 7.5 * len(name) + 14
        parts.append(
            f"<g><title>{escape(escape_line(graph.nodes[key]) or name)}</title>"
            f'<rect x="{x - width / 2:.1f}" y="{y - 12:.1f}" width="{width:.1f}" height="24" rx="6" stroke="#888" '
            f"fill={quoteattr(_COLOURS.get(key.kind, '#ffffff'))}/>"
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(name)}</text></g>'
        )
    return "\n".join([*parts, "</svg>"])


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
