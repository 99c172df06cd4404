"""Files of ``lukasa context``: one conversation as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from lukasa.interfaces.cli import answers
from lukasa.interfaces.cli.options import Call, ForceOption, argument, flag, option
from lukasa.interfaces.cli.render import format_count

ConversationArgument = Annotated[str, argument("CONVERSATION", "The id of the conversation.")]


def export(
    call: Call,
    conversation: ConversationArgument,
    target: Annotated[Path, argument("FILE|DIR", "The file to write, or a folder for a file named like the id.")],
    everything: Annotated[bool, flag("--all", "Include the turns that were summarised.")] = False,
    force: ForceOption = False,
) -> None:
    """Write one conversation to a JSON file; `lukasa export --format context` writes all of them.

    Example: lukasa context export s1 s1.json
    """
    from lukasa.transfer.layouts.context_json import export_conversation

    memory = call.existing_memory
    answers.require_conversation(call, conversation)
    path = export_conversation(memory.context, conversation, target, include_all_turns=everything, replace=force)
    call.show({"session_id": conversation, "path": str(path)}, f"Wrote {conversation} to {path}.")


def import_(
    call: Call,
    source: Annotated[Path, argument("FILE", "A file that `context export` wrote.", exists=True, dir_okay=False)],
    conversation: Annotated[
        str, option("CONVERSATION", "Import under this id; default: the id in the file.", "--as")
    ] = "",
) -> None:
    """Add the conversation in a JSON file as a new one; `lukasa import --format context` reads a folder of them.

    Example: lukasa context import s1.json --as s1-copy
    """
    from lukasa.transfer.layouts.context_json import import_conversation

    outcome = import_conversation(call.memory.context, source, conversation)
    records = outcome.unwrap_all("Delete that conversation, or import this one under another id with --as.")
    id = next(record.id for record in records if record.kind == "context")
    found = call.memory.context.load(id)
    turns = format_count(found.folded + len(found.recent_history), "turn")
    call.show(found, f"Imported {id} with {turns} and {format_count(len(found.facts), 'fact')}.")
