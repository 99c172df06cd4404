"""``lukasa skill``: how things are done, as Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lukasa.errors import InvalidInput
from lukasa.experience.skills import Skill
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused, ExitCode, require_accepted
from lukasa.interfaces.cli.options import JsonOption, RecordScopeOption, get_options
from lukasa.outcome import Refused
from lukasa.scope import SHARED

app = typer.Typer(help="How things are done, as Markdown.\n\nExample: lukasa skill list", no_args_is_help=True)
SkillIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Such as api-implementation.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE|-", help="A Markdown file; - is stdin.")]
TargetScopeOption = Annotated[str, typer.Option("--scope", metavar="NAME", help="The scope to work in.")]


@app.command()
def add(
    ctx: typer.Context,
    file: FileArgument,
    id: Annotated[str, typer.Option("--id", metavar="ID", help="The id; from the title, if not said.")] = "",
    scope: TargetScopeOption = SHARED,
    as_json: JsonOption = False,
) -> None:
    """Keep a skill; one that is there already gets a new version.

    Example: lukasa skill add api-implementation.md --id api-implementation
    """
    call = get_options(ctx, as_json)
    text = _read_text(file)
    with call.open() as memory:
        kept = require_accepted(memory.skills.add(text, id=id, scope=scope))
    if call.json:
        render.print_json([_skill_json(Skill(record)) for record in kept.records])
    else:
        render.print_line(f"Kept {kept.record.id}, version {kept.record.version}." if kept.records else "Already here.")


@app.command()
def check(ctx: typer.Context, file: FileArgument, as_json: JsonOption = False) -> None:
    """Say what is wrong with a skill, line by line, without keeping it.

    Example: lukasa skill check draft.md
    """
    from lukasa.experience.skill_markdown import parse_skill

    call = get_options(ctx, as_json)
    found = parse_skill(_read_text(file))
    faults = found if isinstance(found, list) else []
    if call.json:
        render.print_json({"faults": [{"line": fault.line, "what": fault.what} for fault in faults]})
    elif not faults:
        render.print_line("Nothing is wrong with it.")
    else:
        render.print_table(("line", "what"), [(fault.line, fault.what) for fault in faults], wrap=("what",))
    if faults:
        raise typer.Exit(ExitCode.REFUSED)


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Every skill, and how it fares.

    Example: lukasa skill list
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.skills.list()
    _print_skills(found, as_json=call.json)


@app.command("show")
def show_(
    ctx: typer.Context, id: SkillIdArgument, scope: RecordScopeOption = None, as_json: JsonOption = False
) -> None:
    """A skill as it was written.

    Example: lukasa skill show api-implementation
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        skill = memory.skills.get(id, scope=scope)
    if skill is None:
        raise CommandRefused(Refused("not_found", f"There is no skill {id[:80]!r}."))
    if call.json:
        render.print_json(_skill_json(skill) | {"markdown": skill.markdown})
    else:
        typer.echo(render.escape_text(skill.markdown), nl=not skill.markdown.endswith("\n"))


@app.command()
def search(
    ctx: typer.Context,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="What it should be about.")],
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Find skills by keyword.

    Example: lukasa skill search "contract tests"
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        found = memory.skills.search(words, k)
    _print_skills(found, as_json=call.json)


@app.command()
def used(
    ctx: typer.Context,
    id: SkillIdArgument,
    failed: Annotated[bool, typer.Option("--failed", help="It did not work.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Note that a skill was used, and whether it worked.

    Example: lukasa skill used api-implementation --failed
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        skill = Skill(require_accepted(memory.skills.record_use(id, not failed)).record)
    if call.json:
        render.print_json(_skill_json(skill))
    else:
        render.print_line(f"{id}: {skill.successes} worked, {skill.failures} failed.")


@app.command()
def sync(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="A folder of .md files.")],
    scope: TargetScopeOption = SHARED,
    as_json: JsonOption = False,
) -> None:
    """Bring a folder of Markdown files and the store to the same state, both ways.

    What changed on both sides is named and left alone. Nothing is deleted.

    Example: lukasa skill sync skills/
    """
    call = get_options(ctx, as_json)
    with call.open() as memory:
        done = memory.skills.sync(folder, scope=scope)
    if call.json:
        told: dict[str, Any] = {
            "taken": list(done.taken),
            "written": list(done.written),
            "conflicts": list(done.conflicts),
        }
        render.print_json(told | {"faults": [{"file": name, "reason": reason} for name, reason in done.faults]})
    else:
        render.print_line(f"Took in {len(done.taken):,}, wrote {len(done.written):,}.")
        for id in done.conflicts:
            render.print_line(f"Changed on both sides, left alone: {id}")
        for name, reason in done.faults:
            render.print_line(f"{name}: {reason}")
    if done.conflicts or done.faults:
        raise typer.Exit(ExitCode.CONFLICT if done.conflicts else ExitCode.REFUSED)


def _read_text(file: str) -> str:
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 at byte {error.start}.") from error


def _print_skills(found: Any, *, as_json: bool) -> None:
    if as_json:
        render.print_json([_skill_json(skill) for skill in found])
    elif not found:
        render.print_line("No skills.")
    else:
        rows = [(s.id, s.record.version, len(s.steps), s.successes, s.failures, s.title) for s in found]
        render.print_table(("id", "version", "steps", "worked", "failed", "title"), rows, truncate="title")


def _skill_json(skill: Skill) -> dict[str, Any]:
    body = {name: value for name, value in skill.record.body.items() if name != "markdown"}
    return {"id": skill.id, "scope": skill.record.scope, "version": skill.record.version, **body} | {
        "success_rate": skill.success_rate
    }
