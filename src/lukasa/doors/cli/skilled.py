"""``lukasa skill``: how things are done, as Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, InScope, caller
from lukasa.doors.cli.outcome import Ending, Unmet, met
from lukasa.errors import InvalidInput
from lukasa.outcome import Refused
from lukasa.scope import SHARED
from lukasa.skills import Skill

app = typer.Typer(help="How things are done, as Markdown.\n\nExample: lukasa skill list", no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="ID", help="Such as api-implementation.")]
File = Annotated[str, typer.Argument(metavar="FILE|-", help="A Markdown file; - is stdin.")]
Into = Annotated[str, typer.Option("--scope", metavar="NAME", help="The scope to work in.")]


@app.command()
def add(
    ctx: typer.Context,
    file: File,
    id: Annotated[str, typer.Option("--id", metavar="ID", help="The id; from the title, if not said.")] = "",
    scope: Into = SHARED,
    as_json: AsJson = False,
) -> None:
    """Keep a skill; one that is there already gets a new version.

    Example: lukasa skill add api-implementation.md --id api-implementation
    """
    call = caller(ctx, as_json)
    text = _text(file)
    with call.open() as memory:
        kept = met(memory.skills.add(text, id=id, scope=scope))
    if call.json:
        show.as_json([_as_json(Skill(record)) for record in kept.records])
    else:
        show.say(f"Kept {kept.record.id}, version {kept.record.version}." if kept.records else "Already here.")


@app.command()
def check(ctx: typer.Context, file: File, as_json: AsJson = False) -> None:
    """Say what is wrong with a skill, line by line, without keeping it.

    Example: lukasa skill check draft.md
    """
    from lukasa.skills import parse

    call = caller(ctx, as_json)
    found = parse(_text(file))
    faults = found if isinstance(found, list) else []
    if call.json:
        show.as_json({"faults": [{"line": fault.line, "what": fault.what} for fault in faults]})
    elif not faults:
        show.say("Nothing is wrong with it.")
    else:
        show.table(("line", "what"), [(fault.line, fault.what) for fault in faults], fold=("what",))
    if faults:
        raise typer.Exit(Ending.REFUSED)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Every skill, and how it fares.

    Example: lukasa skill list
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        found = memory.skills.list()
    _show(found, as_json=call.json)


@app.command("show")
def show_(ctx: typer.Context, id: Id, scope: InScope = None, as_json: AsJson = False) -> None:
    """A skill as it was written.

    Example: lukasa skill show api-implementation
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        skill = memory.skills.get(id, scope=scope)
    if skill is None:
        raise Unmet(Refused("not_found", f"There is no skill {id[:80]!r}."))
    if call.json:
        show.as_json(_as_json(skill) | {"markdown": skill.markdown})
    else:
        typer.echo(show.in_lines(skill.markdown), nl=not skill.markdown.endswith("\n"))


@app.command()
def search(
    ctx: typer.Context,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="What it should be about.")],
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Find skills by keyword.

    Example: lukasa skill search "contract tests"
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        found = memory.skills.search(words, k)
    _show(found, as_json=call.json)


@app.command()
def used(
    ctx: typer.Context,
    id: Id,
    failed: Annotated[bool, typer.Option("--failed", help="It did not work.")] = False,
    as_json: AsJson = False,
) -> None:
    """Note that a skill was used, and whether it worked.

    Example: lukasa skill used api-implementation --failed
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        skill = Skill(met(memory.skills.record_use(id, not failed)).record)
    if call.json:
        show.as_json(_as_json(skill))
    else:
        show.say(f"{id}: {skill.successes} worked, {skill.failures} failed.")


@app.command()
def sync(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="A folder of .md files.")],
    scope: Into = SHARED,
    as_json: AsJson = False,
) -> None:
    """Bring a folder of Markdown files and the store to the same state, both ways.

    What changed on both sides is named and left alone. Nothing is deleted.

    Example: lukasa skill sync skills/
    """
    call = caller(ctx, as_json)
    with call.open() as memory:
        done = memory.skills.sync(folder, scope=scope)
    if call.json:
        told: dict[str, Any] = {
            "taken": list(done.taken),
            "written": list(done.written),
            "conflicts": list(done.conflicts),
        }
        show.as_json(told | {"faults": [{"file": name, "reason": reason} for name, reason in done.faults]})
    else:
        show.say(f"Took in {len(done.taken):,}, wrote {len(done.written):,}.")
        for id in done.conflicts:
            show.say(f"Changed on both sides, left alone: {id}")
        for name, reason in done.faults:
            show.say(f"{name}: {reason}")
    if done.conflicts or done.faults:
        raise typer.Exit(Ending.CONFLICT if done.conflicts else Ending.REFUSED)


def _text(file: str) -> str:
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 at byte {error.start}.") from error


def _show(found: Any, *, as_json: bool) -> None:
    if as_json:
        show.as_json([_as_json(skill) for skill in found])
    elif not found:
        show.say("No skills.")
    else:
        rows = [(s.id, s.record.version, len(s.steps), s.successes, s.failures, s.title) for s in found]
        show.table(("id", "version", "steps", "worked", "failed", "title"), rows, cut="title")


def _as_json(skill: Skill) -> dict[str, Any]:
    body = {name: value for name, value in skill.record.body.items() if name != "markdown"}
    return {"id": skill.id, "scope": skill.record.scope, "version": skill.record.version, **body} | {
        "success_rate": skill.success_rate
    }
