"""The public surface: names, parameters and defaults, and the shapes of what the methods return."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import lukasa
import lukasa.aio
import lukasa.errors
import lukasa.testing

Frozen = Callable[[str, str], None]

SERVICES = (
    "vault", "episodes", "knowledge", "skills", "context", "sessions", "trust", "forecasts", "ledgers", "handoffs",
    "journal", "jobs", "metrics", "continuity", "graph", "recall", "consolidate",
)  # fmt: skip
NESTED = {"trust": ("rubric",)}
LITERALS = (type(None), bool, int, float, str, bytes)
EXPORTED = {value: name for name in lukasa.__all__ if inspect.isclass(value := getattr(lukasa, name))}
NAMESPACES: dict[str, dict[str, Any]] = {}


def test_the_public_signatures_stay_the_same(frozen: Frozen, tmp_path: Path) -> None:
    """Compare every public name, parameter and returned shape with the frozen file."""
    with lukasa.open(tmp_path / "memory.db", embedder="hash") as memory:
        lines = list(_module_lines("lukasa", lukasa))
        lines += _callable_lines("lukasa.aio.open", lukasa.aio.open)
        lines += _object_lines("memory", memory)
        for name in SERVICES:
            service = getattr(memory, name)
            lines += _object_lines(f"memory.{name}", service)
            for inner in NESTED.get(name, ()):
                lines += _object_lines(f"memory.{name}.{inner}", getattr(service, inner))
        session = memory.sessions.start("frozen")
        lines += _object_lines("session", session)
        lines += _object_lines("agent", memory.trust.agent("orion"))
        session.close()
    frozen("public_api.txt", "".join(f"{line}\n" for line in sorted(set(lines))))


def test_the_awaited_memory_has_the_same_names(tmp_path: Path) -> None:
    """Compare the names of the awaited memory with those of the plain one, and await one call of each sort."""

    async def look() -> tuple[set[str], list[str]]:
        async with lukasa.aio.open(tmp_path / "awaited.db", embedder="hash") as memory:
            await memory.journal.write("note", "The build is green")
            found = await memory.recall("build")
            return set(dir(memory)), [hit.record.text for hit in found.hits]

    names, texts = asyncio.run(look())
    with lukasa.open(tmp_path / "plain.db", embedder="hash") as memory:
        assert names == {name for name in dir(memory) if not name.startswith("_")}
    assert texts == ["The build is green"]


def test_the_test_tools_stay_importable(frozen: Frozen) -> None:
    """Compare the names of lukasa.testing, and the signatures of its clock and ids, with the frozen file."""
    lines = [f"lukasa.testing.{name}" for name in lukasa.testing.__all__]
    for name in ("FrozenClock", "CountingIds", "FakeLLM"):
        lines += _class_lines(f"lukasa.testing.{name}", getattr(lukasa.testing, name))
    lines += _callable_lines("lukasa.testing.seeded_ids", lukasa.testing.seeded_ids)
    frozen("public_testing.txt", "".join(f"{line}\n" for line in sorted(set(lines))))


def _module_lines(prefix: str, module: types.ModuleType) -> Iterator[str]:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            yield f"{prefix}.{name}: class"
            if value is lukasa.Memory:  # its constructor takes internal parts; an opened memory is listed instead
                continue
            yield from _class_lines(f"{prefix}.{name}", value)
        elif inspect.isfunction(value):
            yield from _callable_lines(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}: value"


def _class_lines(prefix: str, kind: type) -> Iterator[str]:
    with contextlib.suppress(ValueError, TypeError):
        yield f"{prefix}({_parameters(inspect.signature(kind))})"
    shape = _shape(kind)
    if shape:
        yield f"{prefix} has {', '.join(shape)}"
    yield from _member_lines(prefix, kind, None)


def _object_lines(prefix: str, thing: object) -> Iterator[str]:
    kind = type(thing)
    yield from _member_lines(prefix, kind, thing)
    if "__call__" in vars(kind):
        yield from _callable_lines(prefix, kind.__call__, bound=True)
    for name in ("__enter__", "__iter__", "__len__", "__contains__", "__getitem__"):
        if any(name in vars(base) for base in kind.__mro__[:-1]):
            yield f"{prefix}.{name}"


def _member_lines(prefix: str, kind: type, thing: object | None) -> Iterator[str]:
    inherited = {name for base in (BaseException, tuple) if issubclass(kind, base) for name in dir(base)}
    names = {name for name in dir(kind) if not name.startswith("_") and not name.isupper()} - inherited
    if thing is not None:
        names |= {name for name in getattr(thing, "__dict__", {}) if not name.startswith("_")}
    for name in sorted(names):
        member = inspect.getattr_static(kind, name, None)
        if isinstance(member, staticmethod | classmethod):
            yield from _callable_lines(f"{prefix}.{name}", getattr(kind, name))
        elif inspect.isfunction(member):
            yield from _callable_lines(f"{prefix}.{name}", member, bound=True)
        else:
            yield f"{prefix}.{name}: attribute"
            getter = getattr(member, "fget", None) or getattr(member, "func", None)
            if getter is not None:
                yield from _returned_lines(f"{prefix}.{name}", getter)


def _callable_lines(prefix: str, function: Callable[..., Any], *, bound: bool = False) -> Iterator[str]:
    signature = inspect.signature(function)
    if bound:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    yield f"{prefix}({_parameters(signature)})"
    yield from _returned_lines(prefix, inspect.unwrap(function))


def _parameters(signature: inspect.Signature) -> str:
    parts: list[str] = []
    starred = False
    parameters = list(signature.parameters.values())
    for place, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (parameter.kind is parameter.VAR_KEYWORD)
        default = "" if parameter.default is parameter.empty else f"={_literal(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{default}")
        following = parameters[place + 1].kind if place + 1 < len(parameters) else None
        if parameter.kind is parameter.POSITIONAL_ONLY and following is not parameter.POSITIONAL_ONLY:
            parts.append("/")
    return ", ".join(parts)


def _literal(value: object) -> str:
    if type(value) in LITERALS:
        return repr(value)
    if type(value) is tuple and all(type(part) in LITERALS for part in value):
        return repr(value)
    return "…"


def _returned_lines(prefix: str, function: Callable[..., Any]) -> Iterator[str]:
    shapes: set[str] = set()
    for kind in _kinds(_resolve(getattr(function, "__annotations__", {}).get("return"), function)):
        if kind in EXPORTED:
            shapes.add(f"lukasa.{EXPORTED[kind]}")
            continue
        shapes.add(", ".join(_shape(kind)))
        for name, hint in _hints(kind).items():
            for inner in _kinds(hint):
                nested = f"lukasa.{EXPORTED[inner]}" if inner in EXPORTED else ", ".join(_shape(inner))
                if not name.startswith("_"):
                    shapes.add(f"[{name}] {nested}")
    for shape in sorted(shapes):
        yield f"{prefix} -> {shape}"


def _namespace(owner: Any) -> dict[str, Any]:
    """Give the names that a module knows, also those that it imports for type checkers only."""
    module = sys.modules[owner.__module__]
    if module.__name__ not in NAMESPACES:
        known: dict[str, Any] = {}
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                with contextlib.suppress(ImportError):
                    source = importlib.import_module(node.module)
                    known.update({part.asname or part.name: getattr(source, part.name, None) for part in node.names})
        NAMESPACES[module.__name__] = {**known, **vars(module)}
    return NAMESPACES[module.__name__]


def _resolve(raw: object, owner: Any) -> object:
    if not isinstance(raw, str):
        return raw
    holder = types.SimpleNamespace(__annotations__={"hint": raw})
    return typing.get_type_hints(holder, globalns=_namespace(owner))["hint"]


def _hints(kind: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        for name, raw in vars(base).get("__annotations__", {}).items():
            found[name] = _resolve(raw, base)
    return found


def _kinds(hint: object) -> Iterable[type]:
    """Give the dataclasses and named tuples inside a hint."""
    if inspect.isclass(hint) and typing.get_origin(hint) is None:
        return [hint] if _is_shaped(hint) else []
    found: list[type] = []
    for part in typing.get_args(hint):
        found += _kinds(part)
    return found


def _is_shaped(kind: type) -> bool:
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _shape(kind: type) -> list[str]:
    if not _is_shaped(kind):
        return []
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set(kind._fields)  # type: ignore[attr-defined]
    names |= {name for name in dir(kind) if isinstance(inspect.getattr_static(kind, name), property)}
    return sorted(name for name in names if not name.startswith("_"))
