"""``lukasa knowledge``: patterns, anti-patterns and facts, and the links between them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lukasa.doors.cli import drawing, show
from lukasa.doors.cli.caller import AsJson, caller
from lukasa.doors.cli.outcome import Unmet, met
from lukasa.errors import InvalidInput
from lukasa.knowledge import ANTIPATTERN, FACT, KINDS, PATTERN, Knowing
from lukasa.outcome import Refused

app = typer.Typer(
    help="Patterns, anti-patterns and facts, and the links between them.\n\nExample: lukasa knowledge list",
    no_args_is_help=True,
)
Id = Annotated[str, typer.Argument(metavar="ID", help="Such as sem-001.")]
_RELATION = "derived_from, related_to, contradicts, elaborates, example_of, supersedes or superseded_by."


@app.command("list")
def list_(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"Only {', '.join(KINDS)}.")] = None,
    superseded: Annotated[bool, typer.Option("--superseded", help="What was superseded too.")] = False,
    as_json: AsJson = False,
) -> None:
    """What is known, the most confident first.

    Example: lukasa knowledge list --kind pattern
    """
    call = caller(ctx, as_json)
    if kind not in (None, *KINDS):
        raise InvalidInput(f"{(kind or '')[:60]!r} is not knowledge.", hint=f"Say one of {', '.join(KINDS)}.")
    with call.open() as memory:
        room = memory.knowledge
        by_kind = {PATTERN: room.patterns, ANTIPATTERN: room.antipatterns, FACT: room.facts}
        chosen = [item for name in ((kind,) if kind else KINDS) for item in by_kind[name](superseded=superseded)]
    chosen.sort(key=lambda item: (KINDS.index(item.kind), -item.confidence, item.id))
    if call.json:
        show.as_json([{"kind": item.kind, **item.as_json()} for item in chosen])
    elif not chosen:
        show.say("Nothing is known yet.")
    else:
        rows = [(i.id, i.kind, _sure(i), len(i.sources), i.usage_count, i.says) for i in chosen]
        show.table(("id", "kind", "confidence", "sources", "used", "says"), rows, cut="says")


@app.command("show")
def show_(ctx: typer.Context, id: Id, as_json: AsJson = False) -> None:
    """One item in full, with its links.

    Example: lukasa knowledge show sem-001
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        item = memory.knowledge.get(id)
        near = memory.knowledge.neighbours(id)
    if item is None:
        raise Unmet(Refused("not_found", f"Nothing is known as {id[:80]!r}."))
    if call.json:
        links = [{"relation": one.relation, "direction": one.direction, **show.key_json(one.key)} for one in near]
        show.as_json({"kind": item.kind, **item.as_json(), "neighbours": links})
        return
    body = item.record.body
    told = {"id": item.id, "kind": item.kind} | {name: _spelled(value) for name, value in body.items()}
    arrows = {"out": "→", "in": "←"}
    told["links"] = "\n".join(f"{arrows[one.direction]} {one.relation} {one.key.id}" for one in near)
    show.sheet({name: value for name, value in told.items() if value})


@app.command()
def add(
    ctx: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.")],
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
    as_json: AsJson = False,
) -> None:
    """Keep a pattern, an anti-pattern or a fact.

    Example: lukasa knowledge add fact "The staging database is called heron" --confidence 1
    """
    call = caller(ctx, as_json)
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
        kept = met(memory.knowledge.add(kind, told, id=id))
    if call.json:
        show.as_json([{"kind": record.kind, **Knowing(record).as_json()} for record in kept.records])
    else:
        show.say(f"Kept {kept.records[0].id}." if kept.records else "Already here.")


@app.command()
def link(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="ID", help="Where the link starts.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help=_RELATION)],
    b: Annotated[str, typer.Argument(metavar="ID", help="Where it leads.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the link away instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Link two records; where the relation has an inverse, the other end gets that.

    Example: lukasa knowledge link sem-002 supersedes sem-001
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        change = memory.knowledge.unlink if remove else memory.knowledge.link
        changed = met(change(a, relation, b)).records
    if call.json:
        show.as_json({"from": a, "relation": relation, "to": b, "removed": remove, "changed": len(changed)})
    elif not changed:
        show.say("It stands so already.")
    else:
        show.say(f"{'Unlinked' if remove else 'Linked'}: {a} {relation} {b}.")


@app.command()
def path(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="ID", help="From here.")],
    b: Annotated[str, typer.Argument(metavar="ID", help="To here.")],
    as_json: AsJson = False,
) -> None:
    """The shortest way from one record to another along links.

    Example: lukasa knowledge path sem-001 sem-002
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        way = memory.knowledge.path(a, b)
    if call.json:
        show.as_json([show.key_json(key) for key in way])
    else:
        show.say(" – ".join(key.id for key in way) if way else f"No links lead from {a} to {b}.")


@app.command()
def contradictions(ctx: typer.Context, as_json: AsJson = False) -> None:
    """What contradicts what, and links that lead nowhere.

    Example: lukasa knowledge contradictions
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        found = memory.knowledge.contradictions()
    if call.json:
        told = [
            {"kind": c.kind, "a": show.key_json(c.a), "b": show.key_json(c.b), "relation": c.relation} for c in found
        ]
        show.as_json(told)
    elif not found:
        show.say("Nothing contradicts anything, and every link leads somewhere.")
    else:
        show.table(("what", "a", "relation", "b"), [(c.kind, c.a.id, c.relation, c.b.id) for c in found])


@app.command()
def learnings(
    ctx: typer.Context,
    day: Annotated[str | None, typer.Option(metavar="DATE", help="Only those of one day, such as 2026-01-06.")] = None,
    as_json: AsJson = False,
) -> None:
    """What errors taught, day by day.

    Example: lukasa knowledge learnings --day 2026-01-06
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        found = memory.knowledge.learnings(day)
    if call.json:
        show.as_json([dict(body) for body in found])
    elif not found:
        show.say("No learnings.")
    else:
        names = ("date", "error", "message", "learning")
        show.table(names, [tuple(body.get(name, "") for name in names) for body in found], cut="learning")


@app.command()
def merge(
    ctx: typer.Context,
    threshold: Annotated[float, typer.Option(min=0.01, max=1, help="How alike patterns must be.")] = 0.9,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge patterns that say the same: the most confident stays and supersedes the others.

    Example: lukasa knowledge merge --dry-run
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        merged = memory.knowledge.merge_duplicates(threshold, dry_run=dry_run)
    if isinstance(merged, Refused):
        raise Unmet(merged)
    if call.json:
        show.as_json({"into": {id: list(ids) for id, ids in merged.into.items()}, "label": merged.label})
        return
    if not merged.into:
        show.say("No patterns say the same.")
    for id, others in merged.into.items():
        show.say(f"{id} {'would supersede' if dry_run else 'supersedes'} {', '.join(others)}.")
    if merged.label:
        show.say(f"To take this back: lukasa undo --label {merged.label}")


@app.command()
def graph(
    ctx: typer.Context,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Only what is near this record.")] = None,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="dot or svg.")] = "dot",
    steps: Annotated[int, typer.Option(min=1, max=6, help="How many links away from ID.")] = 2,
    sources: Annotated[bool, typer.Option("--sources", help="The episodes behind it too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw what is known and how it is linked, as DOT or SVG.

    Example: lukasa knowledge graph --format svg > knowledge.svg
    """
    call = caller(ctx, as_json)
    if form not in ("dot", "svg"):
        raise InvalidInput(f"{form[:60]!r} is not a form of drawing.", hint="Say dot or svg.")
    with call.open() as memory:
        found = drawing.gather(memory.knowledge, id, steps, sources=sources)
    if found is None:
        raise Unmet(Refused("not_found", f"Nothing is known as {(id or '')[:80]!r}."))
    if call.json:
        show.as_json(found.as_json())
    else:
        typer.echo(drawing.as_dot(found) if form == "dot" else drawing.as_svg(found))


def _sure(item: Knowing) -> str:
    return f"{item.confidence:.2f}" if "confidence" in item.record.body else ""


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {told}" for name, told in value.items())
    return str(value)
