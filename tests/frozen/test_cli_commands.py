"""Freeze the commands, arguments and options of the command line, but not their help."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parent))

from cli_running import root_command, walk


def test_the_command_tree_is_unchanged(frozen: Callable[[str, str], None]) -> None:
    """Compare every command and group, with its parameters, with the golden file."""
    frozen("cli_commands.txt", "\n".join(_command_line(path, command) for path, command in walk(root_command())))


def _command_line(path: tuple[str, ...], command: Any) -> str:
    sort = "group" if hasattr(command, "commands") else "command"
    hidden = ", hidden" if command.hidden else ""
    return "".join(f"{line}\n" for line in (f"{' '.join(('lukasa', *path))} ({sort}{hidden})", *_parameters(command)))


def _parameters(command: Any) -> list[str]:
    """Describe the arguments in their order, then the options in alphabetical order."""
    arguments = [_parameter(each) for each in command.params if each.param_type_name == "argument"]
    return arguments + sorted(_parameter(each) for each in command.params if each.param_type_name == "option")


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"argument {parameter.metavar or parameter.name}"
    else:
        name = "/".join((*parameter.opts, *parameter.secondary_opts))
    facts = [
        _type(parameter),
        "required" if parameter.required else f"default {_literal(parameter.default)}",
        *(["flag"] if getattr(parameter, "is_flag", False) else []),
        *(["repeatable"] if getattr(parameter, "multiple", False) else []),
        *([f"nargs {parameter.nargs}"] if parameter.nargs != 1 else []),
        *([f"min {parameter.min}"] if parameter.min is not None else []),
        *([f"max {parameter.max}"] if parameter.max is not None else []),
        *(["hidden"] if parameter.hidden else []),
    ]
    return f"  {name}: {', '.join(facts)}"


def _type(parameter: Any) -> str:
    return _named(parameter.type_descriptor.annotation)


def _named(annotation: Any) -> str:
    name = str(annotation.__name__)
    return f"{name}[{', '.join(map(_named, get_args(annotation)))}]" if get_args(annotation) else name


def _literal(default: object) -> str:
    if isinstance(default, PurePath):
        default = str(default)
    simple = default is None or isinstance(default, str | int | float | bool | list | tuple)
    return repr(default) if simple else "computed"
