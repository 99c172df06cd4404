"""Commands for coding agents: install, hook."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from lukasa.config import locate_store
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import JsonOption, get_options
from lukasa.interfaces.hooks.client import EVENTS
from lukasa.interfaces.hooks.config import PRODUCTS, FileChange, Product, apply_change, plan_changes


def install(
    ctx: typer.Context,
    product: Annotated[str, typer.Argument(metavar="claude-code|codex|cursor", help="The coding agent.")],
    project: Annotated[
        bool, typer.Option("--project", help="For everybody in this folder; this is the default.")
    ] = False,
    user: Annotated[bool, typer.Option("--user", help="For you, in every folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change and change nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take out what was put in; everything else stays.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put Lukasa into the configuration of a coding agent: the MCP server and, for Claude Code, hooks.

    The difference is shown first. --agent names the agent; without it, it is called like the product. With --store the
    configuration names that store; else a project keeps its memory in .lukasa/.

    Example: lukasa install claude-code --project --dry-run
    """
    call = get_options(ctx, as_json)
    if product not in PRODUCTS:
        raise InvalidInput(f"{product!r:.40} is not known.", hint=f"Say one of {', '.join(PRODUCTS)}.")
    if project and user:
        raise InvalidInput("Say --project or --user, not both.")
    folder = Path.home() if user else Path.cwd()
    words = [_program_command(), "--agent", call.agent or product]
    words += [word for scope in call.scopes for word in ("--scope", scope)]
    environment = {} if call.store is None else {"LUKASA_STORE": _store_for_config(call.store)}
    changes = plan_changes(_parse_product(product), words, folder, user=user, undo=undo, environment=environment)
    needed = [change for change in changes if change.is_needed]
    home = None if user or call.store is not None or undo else folder / ".lukasa"
    if not call.json:
        _print_changes(needed, undo=undo)
    done = bool(needed) and not dry_run and (call.json or yes or _confirm_write())
    if done:
        for change in needed:
            apply_change(change)
        if home is not None:
            home.mkdir(exist_ok=True, mode=0o700)
    if call.json:
        files = [{"path": str(change.path), "difference": change.difference()} for change in needed]
        render.print_json({"product": product, "undo": undo, "written": done, "files": files})
    elif done:
        render.print_line(f"{'Taken out of' if undo else 'Written to'} {render.format_count(len(needed), 'file')}.")
        if not undo:
            where = " --user" if user else ""
            render.print_line(
                f"Start {product} anew to use it; `lukasa install {product}{where} --undo` takes it out again."
            )
    elif needed:
        render.print_line("Nothing was written.")


def hook(
    ctx: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT", help=", ".join(EVENTS))],
) -> None:
    """What a coding agent runs for each hook: reads the event as JSON, answers in under 300 ms or says nothing.

    Example: lukasa --agent claude-code hook session-start
    """
    from lukasa.interfaces.hooks.client import HookCall, run_hook

    call = get_options(ctx, as_json=False)
    if event not in EVENTS:
        raise InvalidInput(f"{event!r:.40} is not an event.", hint=f"Say one of {', '.join(EVENTS)}.")
    run_hook(HookCall(event, call.store or "", call.agent, call.scopes))


def _parse_product(name: str) -> Product:
    return next(product for product in PRODUCTS if product == name)


def _program_command() -> str:
    """How this program is called: by its name where that finds it, else by its place."""
    beside = Path(sys.executable).with_name("lukasa.exe" if sys.platform == "win32" else "lukasa")
    found = shutil.which("lukasa")
    if found is not None and (not beside.exists() or Path(found).samefile(beside)):
        return "lukasa"
    return str(beside) if beside.exists() else "lukasa"


def _store_for_config(store: str) -> str:
    place = locate_store(store)
    if place.url and str(place) != place.url:
        hint = "Set LUKASA_STORE where the agent starts, and leave --store out."
        raise InvalidInput(
            "The URL of the store holds a password, which would be written into the configuration.", hint=hint
        )
    return str(place.path) if place.path is not None else place.url or store


def _print_changes(changes: list[FileChange], *, undo: bool) -> None:
    for change in changes:
        typer.echo(render.escape_text(change.difference()), nl=False)
    if not changes:
        render.print_line("There is nothing to take out." if undo else "Everything is in place already.")


def _confirm_write() -> bool:
    return not sys.stdin.isatty() or typer.confirm("Write this?", default=True)
