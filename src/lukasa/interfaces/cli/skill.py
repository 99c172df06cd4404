"""``lukasa skill``: instructions in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lukasa.core.scope import SHARED
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import (
    Call,
    CommandApp,
    RecordScopeOption,
    TargetScopeOption,
    argument,
    flag,
    option,
    read_text,
    require_found,
)
from lukasa.interfaces.outcomes import ExitCode
from lukasa.interfaces.serialise import to_json

if TYPE_CHECKING:
    from lukasa.experience import Skill

app = CommandApp("skill", "Store instructions for recurring tasks, as Markdown.", example="lukasa skill list")
SkillIdArgument = Annotated[str, argument("ID", "The id, such as api-implementation.")]
FileArgument = Annotated[str, argument("FILE|-", "A Markdown file; - reads stdin.")]


@app.command()
def add(
    call: Call,
    file: FileArgument,
    id: Annotated[str, option("ID", "The id; default: made from the title.", "--id")] = "",
    scope: TargetScopeOption = SHARED,
) -> None:
    """Store a skill. An existing skill gets a new version.

    Example: lukasa skill add api-implementation.md --id api-implementation
    """
    from lukasa.experience import Skill

    text = read_text(file)
    records = call.memory.skills.add(text, id=id, scope=scope).unwrap_all()
    lines = [f"Stored {record.id}, version {record.version}." for record in records] or "Already stored."
    call.show([Skill(record) for record in records], lines)


@app.command()
def check(call: Call, file: FileArgument) -> None:
    """Check the format of a skill and list its faults by line. Stores nothing.

    Example: lukasa skill check draft.md
    """
    from lukasa.experience.skill_markdown import parse_skill

    parsed = parse_skill(read_text(file))
    faults = parsed if isinstance(parsed, list) else []
    end, empty = ExitCode.REFUSED if faults else ExitCode.OK, "The skill has no faults."
    call.show({"faults": faults}, columns="line, what", rows=faults, wrap="what", empty=empty, exit_code=end)


@app.command()
def list_(call: Call) -> None:
    """List all skills, with how often each worked and failed.

    Example: lukasa skill list
    """
    _show_skills(call, call.memory.skills.list())


@app.command()
def show_(call: Call, id: SkillIdArgument, scope: RecordScopeOption = None) -> None:
    """Print the Markdown of a skill.

    Example: lukasa skill show api-implementation
    """
    hint = "`lukasa skill list` shows all skills."
    skill = require_found(call.memory.skills.get(id, scope=scope), f"There is no skill {id[:80]!r}.", hint)
    answer, text = to_json(skill) | {"markdown": skill.markdown}, render.escape_text(skill.markdown)
    call.show(answer, lambda: typer.echo(text, nl=not text.endswith("\n")))


@app.command()
def search(
    call: Call,
    words: Annotated[str, argument("WORDS", "What the skill should be about.")],
    k: Annotated[int, option("N", "Maximum number of skills.", "-k", min=1)] = 5,
) -> None:
    """Search skills by key words.

    Example: lukasa skill search "contract tests"
    """
    _show_skills(call, call.memory.skills.search(words, k))


def _show_skills(call: Call, skills: Sequence[Skill]) -> None:
    columns = (
        "id, version=record.version",
        ("steps", lambda skill: len(skill.steps)),
        "worked=successes, failed=failures, title",
    )
    call.show(skills, columns=columns, truncate="title", empty="No skills.")


@app.command()
def used(
    call: Call, id: SkillIdArgument, failed: Annotated[bool, flag("--failed", "The skill did not work.")] = False
) -> None:
    """Record that a skill was used, and whether it worked.

    Example: lukasa skill used api-implementation --failed
    """
    from lukasa.experience import Skill

    skill = Skill(call.memory.skills.record_use(id, not failed).unwrap())
    call.show(skill, f"{id}: {skill.successes} worked, {skill.failures} failed.")


@app.command()
def sync(
    call: Call,
    folder: Annotated[Path, argument("FOLDER", "A folder of .md files.", file_okay=False)],
    scope: TargetScopeOption = SHARED,
) -> None:
    """Copy changed skills between a folder of Markdown files and the store, in both directions.

    A skill that changed on both sides is reported and left alone. Nothing is deleted.

    Example: lukasa skill sync skills/
    """
    done = call.memory.skills.sync(folder, scope=scope)
    lines = [f"Imported {len(done.taken):,}, wrote {len(done.written):,}."]
    lines += [f"Changed on both sides, left alone: {id}" for id in done.conflicts]
    lines += [f"{name}: {reason}" for name, reason in done.faults]
    end = ExitCode.CONFLICT if done.conflicts else ExitCode.REFUSED if done.faults else ExitCode.OK
    call.show(done, lines, exit_code=end)
