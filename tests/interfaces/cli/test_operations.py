"""The commands are those of the table of operations, and a parameter has the name of the method's parameter."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import typer

from lukasa.interfaces.cli.app import GROUPS, app
from lukasa.interfaces.cli.build import COMMANDS, BuiltCommand, find_method
from lukasa.operations import OPERATIONS

pytestmark = pytest.mark.requirement("DOO-2")

SHELL_ONLY = {
    "recall": {"explain", "budget"},
    "forget": {"ids"},
    "proposals accept": {"yes"},
    "erase": {"kind", "id", "scope", "yes", "dry_run"},
    "log": {"kind", "scope", "label", "author", "since", "until", "as_of", "all_versions", "in_order", "limit"},
    "show": {"record", "scope"},
    "history": {"record", "scope"},
}
"""Parameters of commands that are written by hand and that the method does not have; `log` builds a Query."""
OTHER_WORDS = {"get": "show", "load": "show", "state": "state", "checkpoint": "show", "save_checkpoint": "save"}
"""Methods that the shell calls by its own familiar word."""
SHORT_NAMES = {
    "build_snapshot": "snapshot", "build_snapshot_block": "snapshot-block", "build_memory_block": "memory-block",
    "vault_stats": "stats", "describe": "stats", "read": "log",
}  # fmt: skip
"""Methods whose command leaves out a word that its group says already, or that is known by another name."""


def commands(group: Any, *path: str) -> Any:
    """Yield every command below a group with its words."""
    for name, command in group.commands.items():
        yield " ".join((*path, name)), command
        yield from commands(command, *path, name) if hasattr(command, "commands") else ()


TREE = dict(commands(typer.main.get_command(app)))
SHELL = [row for row in OPERATIONS if row.shell]


def spellings(name: str) -> set[str]:
    """Return the names that the shell may give to a parameter of a method."""
    return {name, name.removesuffix("s"), "criterion" if name == "criteria" else name}


def test_every_operation_with_a_command_has_it_and_no_other_operation_is_built() -> None:
    built = {words for words, command in TREE.items() if isinstance(command, BuiltCommand)}
    assert built <= set(COMMANDS) <= set(TREE)
    assert len(COMMANDS) == len(SHELL)
    by_hand = set(COMMANDS) - built
    assert by_hand == {"recall", "forget", "log", "show", "history", "undo", "erase", "proposals accept"}


def test_a_command_is_called_like_its_method() -> None:
    wrong = []
    for row in SHELL:
        name = row.method.rpartition(".")[2]
        known = {name.replace("_", "-"), OTHER_WORDS.get(name), SHORT_NAMES.get(name)}
        if row.shell.rpartition(" ")[2] not in known:
            wrong.append(row.shell)
    assert wrong == []


def test_every_parameter_of_a_command_has_the_name_of_the_methods_parameter() -> None:
    wrong = []
    for row in SHELL:
        known = set(inspect.signature(find_method(row.method)).parameters)
        known |= SHELL_ONLY.get(row.shell, set())
        short = dict(pair.split("=") for pair in row.short.split())
        for parameter in TREE[row.shell].params:
            if parameter.name == "as_json":
                continue
            shown = [option.strip("-").replace("-", "_") for option in parameter.opts if option.startswith("-")]
            allowed = {word for name in known for word in spellings(short.get(name, name))}
            wrong += [f"{row.shell}: {word}" for word in shown or [parameter.name] if word not in allowed]
    assert wrong == []


def test_only_rows_that_need_it_give_a_parameter_another_name() -> None:
    assert {row.shell: row.short for row in OPERATIONS if row.short} == {"checkpoint save": "agent_state=state"}


def test_the_identity_of_the_caller_is_a_parameter_only_where_a_row_offers_it() -> None:
    offered = {row.shell: row.offers for row in OPERATIONS if row.offers}
    for words, command in TREE.items():
        if isinstance(command, BuiltCommand):
            named = {parameter.name for parameter in command.params} & {"author", "origin", "key", "from_agent"}
            assert named == set(offered.get(words, "").split()), words


def test_help_speaks_the_words_of_the_shell() -> None:
    python = re.compile(r"``|memory\.\w|\w\(|=\[|\bNone\b|\bTrue\b|\bFalse\b")
    wrong = []
    for words, command in TREE.items():
        if isinstance(command, BuiltCommand):
            texts = [command.help or "", *(getattr(parameter, "help", "") or "" for parameter in command.params)]
            wrong += [f"{words}: {text}" for text in texts if python.search(text) or not text.strip(".")]
    assert wrong == []


def test_every_built_parameter_says_what_it_is() -> None:
    silent = [
        f"{words}: {parameter.name}"
        for words, command in TREE.items()
        if isinstance(command, BuiltCommand)
        for parameter in command.params
        if not getattr(parameter, "help", "").strip(" .")
    ]
    assert silent == []


def test_the_groups_are_those_of_the_operations() -> None:
    assert set(GROUPS) == {row.shell.rpartition(" ")[0] for row in SHELL} - {""}
