"""``lukasa skill``: instructions in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from lukasa.core.scope import SHARED
from lukasa.interfaces.cli.options import Call, TargetScopeOption, argument, read_text
from lukasa.interfaces.outcomes import ExitCode

FileArgument = Annotated[str, argument("FILE|-", "A Markdown file; - reads stdin.")]


def check(call: Call, file: FileArgument) -> None:
    """Check the format of a skill and list its faults by line. Stores nothing.

    Example: lukasa skill check draft.md
    """
    from lukasa.experience.skill_markdown import parse_skill

    parsed = parse_skill(read_text(file))
    faults = parsed if isinstance(parsed, list) else []
    end, empty = ExitCode.REFUSED if faults else ExitCode.OK, "The skill has no faults."
    call.show({"faults": faults}, columns="line, what", rows=faults, wrap="what", empty=empty, exit_code=end)


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
