"""Commands for coding agents: install and hook."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from lukasa.errors import InvalidInput, LukasaError
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call, argument, flag, get_options, require_choice
from lukasa.interfaces.cli.render import format_count
from lukasa.interfaces.hooks.client import EVENTS, PROJECT_HERE

HERMES = "hermes"


def install(
    call: Call,
    product: Annotated[str, argument("claude-code|codex|cursor|hermes", "The agent.")],
    project: Annotated[bool, flag("--project", "For all users of this folder; the default.")] = False,
    user: Annotated[bool, flag("--user", "For you, in every folder.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would change.")] = False,
    undo: Annotated[bool, flag("--undo", "Remove Lukasa from the configuration; the rest stays.")] = False,
    yes: Annotated[bool, flag("--yes", "Do not ask for confirmation.")] = False,
) -> None:
    """Add Lukasa to the configuration of an agent: the MCP server, hooks for Claude Code and Codex, a provider for Hermes.

    Shows the changes and asks first. --agent sets the agent's name; default: the name of the product. --store sets the
    store; default: the folder .lukasa/ of the project, or with --user your own store, which then serves all folders. There
    each repository has a scope of its own, next to the shared one.

    Example: lukasa install claude-code --project --dry-run
    """
    from lukasa.config import STORE_FILE, find_user_store, locate_store
    from lukasa.interfaces.hooks.config import PRODUCTS, apply_change, plan_changes
    from lukasa.own_stores import make_project_folder, require_own_store

    require_choice(product, (*PRODUCTS, HERMES), "a product that can be configured")
    if project and product == HERMES:
        raise InvalidInput("Hermes has one configuration for all folders.", hint="Leave --project out.")
    if project and user:
        raise InvalidInput("Use --project or --user, not both.")
    folder = Path.home() if user else Path.cwd()
    words = [_program_command(), "--agent", call.agent or product]
    scopes = call.scopes or (("shared", PROJECT_HERE) if user else ())
    words += [word for scope in scopes for word in ("--scope", scope)]
    store = {} if call.store is None else {"LUKASA_STORE": _store_for_config(call.store)}
    if user and not store and product != HERMES:
        location = locate_store(find_user_store())
        if (
            not location.url or str(location) == location.url
        ):  # one with a password stays in the environment, where it is
            store = {"LUKASA_STORE": str(location)}
    if product == HERMES:
        from lukasa.config import locate_hermes
        from lukasa.interfaces.hooks.hermes import plan_hermes_changes

        given = {"store": store.get("LUKASA_STORE"), "agent": call.agent}
        settings = {name: value for name, value in given.items() if value}
        changes = plan_hermes_changes(locate_hermes(), settings, undo=undo)
    else:
        chosen = next(known for known in PRODUCTS if known == product)
        changes = plan_changes(chosen, words, folder, user=user, undo=undo, environment=store)
    needed = [change for change in changes if change.is_needed]
    if not call.json:
        for change in needed:
            typer.echo(render.escape_text(change.difference()), nl=False)
        if not needed:
            render.print_line("There is nothing to remove." if undo else "Everything is configured already.")
    without_asking = call.json or yes or not sys.stdin.isatty()
    written = bool(needed) and not dry_run and (without_asking or typer.confirm("Write this?", default=True))
    if written:
        for change in needed:
            apply_change(change)
        if not user and call.store is None and not undo and product != HERMES:
            try:
                require_own_store(make_project_folder(folder) / STORE_FILE)
            except LukasaError as error:  # the store that is there came from somebody else
                call.warn(str(error))
    files = [{"path": str(change.path), "difference": change.difference()} for change in needed]
    lines = ["Nothing was written."] if needed else []
    if written:
        lines = [f"{'Removed from' if undo else 'Written to'} {format_count(len(needed), 'file')}."]
    if written and not undo:
        remove = f"`lukasa install {product}{' --user' if user else ''} --undo`"
        lines.append(f"Restart {product} to use it; {remove} removes it again.")
        if product == HERMES:
            lines.append("Lukasa must be installed where Hermes runs: `pip install lukasa` in its environment.")
    call.show({"product": product, "undo": undo, "written": written, "files": files}, lines)


def _program_command() -> str:
    """Return how the configuration calls this program: by its name if that finds it, else by its path."""
    script = Path(sys.executable).with_name("lukasa")
    found = shutil.which("lukasa")
    if found is not None and (not script.exists() or Path(found).samefile(script)):
        return "lukasa"
    return str(script) if script.exists() else "lukasa"


def _store_for_config(store: str) -> str:
    from lukasa.config import locate_store

    location = locate_store(store)
    if location.url and str(location) != location.url:
        raise InvalidInput(
            "The URL of the store holds a password, which would be written into the configuration.",
            hint="Set LUKASA_STORE where the agent starts, and leave --store out.",
        )
    return str(location.path) if location.path is not None else location.url or store


def hook(ctx: typer.Context, event: Annotated[str, argument("EVENT", ", ".join(EVENTS))]) -> None:
    """Handle one event of a coding agent. Coding agents run this; people do not need it.

    Reads the event as JSON from stdin and answers within 300 ms, or prints nothing.

    Example: lukasa --agent claude-code hook session-start
    """
    from lukasa.interfaces.hooks.client import HookCall, run_hook

    call = get_options(ctx)
    require_choice(event, EVENTS, "an event")
    run_hook(HookCall(event, call.store or "", call.agent, call.scopes))
