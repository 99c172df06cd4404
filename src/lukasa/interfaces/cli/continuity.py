"""The command continuity, which keeps a file up to date."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, argument, flag, option
from lukasa.interfaces.serialise import to_json

_MAX_ROWS = 40


def continuity(
    call: Call,
    file: Annotated[Path, argument("FILE", "The file to update.", dir_okay=False)] = Path("CONTINUITY.md"),
    goal: Annotated[str, option("TEXT", "The current goal.")] = "",
    agent: Annotated[str, option("NAME", "The agent whose work it describes; default: --agent.", "--for")] = "",
    watch: Annotated[bool, flag("--watch", "Keep the file up to date until interrupted.")] = False,
    every: Annotated[float, option("SECONDS", "How often --watch checks the store.", min=0.05)] = 2.0,
) -> None:
    """Write the current goal, state and relevant memories into CONTINUITY.md, for the next session.

    Only Lukasa's sections of the file are updated; the rest stays as it is. The store is not changed.

    Example: lukasa continuity --goal "Implement POST /api/todos endpoint"
    """
    memory = call.memory
    position = memory.continuity.tip()
    update = memory.continuity.update(file, goal=goal, agent=agent)
    call.show(to_json(update) | {"file": str(file)}, f"Updated {file}." if update.changed else f"{file} is up to date.")
    sys.stdout.flush()  # a reader of the pipe gets the answer now, not when watching ends
    while watch:
        time.sleep(every)
        if (tip := memory.continuity.tip()) != position:
            position = tip
            if memory.continuity.update(file, goal=goal, agent=agent).changed:
                render.print_to_stderr(f"Updated {file}.")
