"""The methods behind the table of operations: where each is, the types in its signature, and what its docstring says."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, get_type_hints

from lukasa.memory import SERVICES, Memory
from lukasa.operations import Operation


def find_method(operation: Operation) -> Callable[..., Any]:
    """Return the function of an operation, without opening a store."""
    first, *others = operation.method.split(".")
    owner: Any = Memory
    if first in SERVICES:
        service = SERVICES[first]
        owner = getattr(import_module(service.package), service.class_name)
        others = others or ["__call__"]
    elif others:
        owner = read_hints(Memory)[first]
    else:
        others = [first]
    for name in others[:-1]:
        owner = read_hints(owner)[name]
    function: Callable[..., Any] = getattr(owner, others[-1])
    return function


class _Names(dict[str, Any]):
    """The names of a module that it imports for type checkers only; each is imported when a hint mentions it."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __missing__(self, name: str) -> Any:
        if hasattr(self._module, name):
            raise KeyError(name)
        return getattr(import_module(_checked_imports(self._module)[name]), name)


@cache
def _checked_imports(module: ModuleType) -> Mapping[str, str]:
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports if node.module for alias in node.names}


def read_hints(target: Any) -> dict[str, Any]:
    """Return the type hints of a function or a class."""
    module = sys.modules[inspect.unwrap(target).__module__]
    return get_type_hints(target, localns=_Names(module), include_extras=True)


def read_type(text: str, owner: Any) -> Any:
    """Return the type that a text names in the module of a class or a function."""
    module = sys.modules[owner.__module__]
    return eval(text, {**vars(module)}, _Names(module))  # noqa: S307 - a type in the source of the package


def read_prose(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the first line of a docstring, and all of it before its sections."""
    prose = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")[0].partition("\n\nExample:\n")[0]
    return prose.partition("\n")[0], prose


def describe_parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each parameter in the docstring."""
    _, _, section = (inspect.getdoc(function) or "").partition("Args:\n")
    found: dict[str, str] = {}
    name = ""
    for line in section.partition("\n\n")[0].splitlines():
        given, colon, text = line.strip().partition(": ")
        if colon and line.startswith("    ") and not line.startswith("     "):
            name = given.lstrip("*")
            found[name] = text
        elif name:
            found[name] += " " + line.strip()
    return found
