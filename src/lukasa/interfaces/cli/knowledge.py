"""``lukasa knowledge``: patterns, anti-patterns and facts, and the links between them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lukasa.errors import InvalidInput
from lukasa.experience.knowledge_items import ANTIPATTERN, FACT, KNOWLEDGE_KINDS, PATTERN, KnowledgeItem
from lukasa.interfaces.cli import graph_export, render
from lukasa.interfaces.cli.exit_codes import CommandRefused, require_accepted
from lukasa.interfaces.cli.options import JsonOption, get_options
from lukasa.outcome import Refused

app = typer.Typer(
    help="Patterns, anti-patterns and facts, and the links between them.\n\nExample: lukasa knowledge list",
    no_args_is_help=True,
)
KnowledgeIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Such as sem-001.")]
_RELATION_HELP = "derived_from, related_to, contradicts, elaborates, example_of, supersedes or superseded_by."


@app.command("list")
def list_(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"Only {', '.join(KNOWLEDGE_KINDS)}.")] = None,
    superseded: Annotated[bool, typer.Option("--superseded", help="What was superseded too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What is known, the most confident first.

    Example: lukasa knowledge list --kind pattern
    """
    call = get_options(ctx, as_json)
    if kind not in (None, *KNOWLEDGE_KINDS):
        raise InvalidInput(f"{(kind or '')[:60]!r} is not knowledge.", hint=f"Say one of {', '.join(KNOWLEDGE_KINDS)}.")
    with call.open() as memory:
        room = memory.knowledge
        by_kind = {PATTERN: room.patterns, ANTIPATTERN: room.antipatterns, FACT: room.facts}
        chosen = [
            item for name in ((kind,) if kind else KNOWLEDGE_KINDS) for item in by_kind[name](superseded=superseded)
        ]
    chosen.sort(key=lambda item: (KNOWLEDGE_KINDS.index(item.kind), -item.confidence, item.id))
    if call.json:
        render.print_json([{"kind": item.kind, **item.as_json()} for item in chosen])
    elif not chosen:
        render.print_line("Nothing is known yet.")
    else:
        rows = [(i.id, i.kind, _format_confidence(i), len(i.sources), i.usage_count, i.says) for i in chosen]
        render.print_table(("id", "kind", "confidence", "sources", "used", "says"), rows, truncate="says")


@app.command("show")
def show_(ctx: typer.Context, id: KnowledgeIdArgument, as_json: JsonOption = False) -> None:
    """One item in full, with its links.

    Example: lukasa knowledge show sem-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        item = memory.knowledge.get(id)
        near = memory.knowledge.neighbours(id)
    if item is None:
        raise CommandRefused(Refused("not_found", f"Nothing is known as {id[:80]!r}."))
    if call.json:
        links = [{"relation": one.relation, "direction": one.direction, **render.key_json(one.key)} for one in near]
        render.print_json({"kind": item.kind, **item.as_json(), "neighbours": links})
        return
    body = item.record.body
    told = {"id": item.id, "kind": item.kind} | {name: _format_value(value) for name, value in body.items()}
    arrows = {"out": "→", "in": "←"}
    told["links"] = "\n".join(f"{arrows[one.direction]} {one.relation} {one.key.id}" for one in near)
    render.print_fields({name: value for name, value in told.items() if value})


@app.command()
def add(
    ctx: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KNOWLEDGE_KINDS)}.")],
    says: Annotated[str, typer.Argument(metavar="TEXT", help="What it says; of an anti-pattern, what fails.")],
    category: Annotated[str, typer.Option(metavar="WORD", help="What it is about.")] = "",
    condition: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="When it holds; may be repeated.")] = None,
    correct: Annotated[
        str, typer.Option(metavar="TEXT", help="What to do; of an anti-pattern, how to prevent it.")
    ] = "",
    incorrect: Annotated[
        str, typer.Option(metavar="TEXT", help="What not to do; of an anti-pattern, why it fails.")
    ] = "",
    confidence: Annotated[float, typer.Option(min=0, max=1, help="How sure it is.")] = 0.5,
    id: Annotated[str, typer.Option("--id", metavar="ID", help="The id; the next number, if not said.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Keep a pattern, an anti-pattern or a fact.

    Example: lukasa knowledge add fact "The staging database is called heron" --confidence 1
    """
    call = get_options(ctx, as_json)
    told: dict[str, Any] = {"confidence": confidence} | ({"category": category} if category else {})
    if kind == PATTERN:
        told |= {
            "pattern": says,
            "conditions": condition or [],
            "correct_approach": correct,
            "incorrect_approach": incorrect,
        }
    elif kind == ANTIPATTERN:
        told |= {"what_fails": says, "why": incorrect, "prevention": correct}
    else:
        told |= {"fact": says}
    with call.open() as memory:
        kept = require_accepted(memory.knowledge.add(kind, told, id=id))
    if call.json:
        render.print_json([{"kind": record.kind, **KnowledgeItem(record).as_json()} for record in kept.records])
    else:
        render.print_line(f"Kept {kept.records[0].id}." if kept.records else "Already here.")


@app.command()
def link(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="ID", help="Where the link starts.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help=_RELATION_HELP)],
    b: Annotated[str, typer.Argument(metavar="ID", help="Where it leads.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the link away instead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Link two records; where the relation has an inverse, the other end gets that.

    Example: lukasa knowledge link sem-002 supersedes sem-001
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        change = memory.knowledge.unlink if remove else memory.knowledge.link
        changed = require_accepted(change(a, relation, b)).records
    if call.json:
        render.print_json({"from": a, "relation": relation, "to": b, "removed": remove, "changed": len(changed)})
    elif not changed:
        render.print_line("It stands so already.")
    else:
        render.print_line(f"{'Unlinked' if remove else 'Linked'}: {a} {relation} {b}.")


@app.command()
def path(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="ID", help="From here.")],
    b: Annotated[str, typer.Argument(metavar="ID", help="To here.")],
    as_json: JsonOption = False,
) -> None:
    """The shortest way from one record to another along links.

    Example: lukasa knowledge path sem-001 sem-002
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        way = memory.knowledge.path(a, b)
    if call.json:
        render.print_json([render.key_json(key) for key in way])
    else:
        render.print_line(" – ".join(key.id for key in way) if way else f"No links lead from {a} to {b}.")


@app.command()
def contradictions(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """What contradicts what, and links that lead nowhere.

    Example: lukasa knowledge contradictions
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.knowledge.contradictions()
    if call.json:
        told = [
            {"kind": c.kind, "a": render.key_json(c.a), "b": render.key_json(c.b), "relation": c.relation}
            for c in found
        ]
        render.print_json(told)
    elif not found:
        render.print_line("Nothing contradicts anything, and every link leads somewhere.")
    else:
        render.print_table(("what", "a", "relation", "b"), [(c.kind, c.a.id, c.relation, c.b.id) for c in found])


@app.command()
def learnings(
    ctx: typer.Context,
    day: Annotated[str | None, typer.Option(metavar="DATE", help="Only those of one day, such as 2026-01-06.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What errors taught, day by day.

    Example: lukasa knowledge learnings --day 2026-01-06
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.knowledge.learnings(day)
    if call.json:
        render.print_json([dict(body) for body in found])
    elif not found:
        render.print_line("No learnings.")
    else:
        names = ("date", "error", "message", "learning")
        render.print_table(names, [tuple(body.get(name, "") for name in names) for body in found], truncate="learning")


@app.command()
def merge(
    ctx: typer.Context,
    threshold: Annotated[float, typer.Option(min=0.01, max=1, help="How alike patterns must be.")] = 0.9,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Merge patterns that say the same: the most confident stays and supersedes the others.

    Example: lukasa knowledge merge --dry-run
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        merged = memory.knowledge.merge_duplicates(threshold, dry_run=dry_run)
    if isinstance(merged, Refused):
        raise CommandRefused(merged)
    if call.json:
        render.print_json({"into": {id: list(ids) for id, ids in merged.into.items()}, "label": merged.label})
        return
    if not merged.into:
        render.print_line("No patterns say the same.")
    for id, others in merged.into.items():
        render.print_line(f"{id} {'would supersede' if dry_run else 'supersedes'} {', '.join(others)}.")
    if merged.label:
        render.print_line(f"To take this back: lukasa undo --label {merged.label}")


@app.command()
def graph(
    ctx: typer.Context,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Only what is near this record.")] = None,
    format_name: Annotated[str, typer.Option("--format", metavar="FORM", help="dot or svg.")] = "dot",
    steps: Annotated[int, typer.Option(min=1, max=6, help="How many links away from ID.")] = 2,
    sources: Annotated[bool, typer.Option("--sources", help="The episodes behind it too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw what is known and how it is linked, as DOT or SVG.

    Example: lukasa knowledge graph --format svg > knowledge.svg
    """
    call = get_options(ctx, as_json)
    if format_name not in ("dot", "svg"):
        raise InvalidInput(f"{format_name[:60]!r} is not a form of drawing.", hint="Say dot or svg.")
    with call.open() as memory:
        found = graph_export.collect_graph(memory.knowledge, id, steps, sources=sources)
    if found is None:
        raise CommandRefused(Refused("not_found", f"Nothing is known as {(id or '')[:80]!r}."))
    if call.json:
        render.print_json(found.as_json())
    else:
        typer.echo(graph_export.render_dot(found) if format_name == "dot" else graph_export.render_svg(found))


def _format_confidence(item: KnowledgeItem) -> str:
    return f"{item.confidence:.2f}" if "confidence" in item.record.body else ""


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {told}" for name, told in value.items())
    return str(value)
