"""Write ``src/lukasa/client.pyi`` and ``src/lukasa/aio.pyi``: the types of the client and of the awaited library.

    python tools/generate_aio.py            write the files
    python tools/generate_aio.py --check    exit with 1 when a file is out of date

The classes of the client have the operations of ``lukasa.operations`` as the library declares them. In the awaited library
every method becomes a coroutine with the same parameters. An iterator becomes an asynchronous one, a context manager an
asynchronous one, and a result that is a live object (a session, a running episode) becomes its awaited class.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lukasa import client
from lukasa.api_calls import read_signature
from lukasa.core.async_proxy import LIVE_CLASSES
from lukasa.memory import SERVICES, Memory, open_memory
from lukasa.methods import find_method
from lukasa.operations import OVER_HTTP
from lukasa.trust.rubric import Rubrics

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lukasa"
OPENING = """
Opened = TypeVar("Opened", covariant=True)

class AsyncOpening(Protocol[Opened]):
    \"\"\"A call that opens something: ``await`` it, or enter it with ``async with``.\"\"\"
    def __await__(self) -> Generator[Any, None, Opened]: ...
    async def __aenter__(self) -> Opened: ...
    async def __aexit__(self, *error: object) -> None: ...
"""
HEADER = '"""The types of {}. Written by tools/generate_aio.py; do not edit."""\n'
EAGER_ATTRIBUTES = {"Journal": {"author": "str", "reach": "Reach"}, "Memory": {"place": "StoreLocation"}}
"""Plain attributes that need no ``await``."""
NESTED_SERVICES: dict[str, dict[str, type]] = {"Trust": {"rubric": Rubrics}}
"""Services that are attributes of another service, by its class."""


class StubWriter:
    """Collects the classes of a stub and the imports that their annotations need."""

    def __init__(self, *, awaits: bool) -> None:
        self.awaits = awaits
        self.imports: dict[str, str] = {"Reach": "lukasa.core.scope", "StoreLocation": "lukasa.storage.location"}
        self.classes: dict[str, str] = {}
        self.pending: list[type] = []

    def write_class(self, cls: type) -> str:
        """Return the name of a class's version in the stub, and write it if that has not happened yet."""
        name = f"Async{cls.__name__}" if self.awaits else cls.__name__
        if name not in self.classes:
            self.classes[name] = ""
            self.classes[name] = self._class_text(cls, name)
        return name

    def _class_text(self, cls: type, name: str) -> str:
        lines = [f"class {name}:"]
        doc = inspect.getdoc(cls)
        if doc:
            lines.append(f'    """{doc.splitlines()[0]}"""')
        lines += [f"    {name}: {kind}" for name, kind in EAGER_ATTRIBUTES.get(cls.__name__, {}).items()]
        for name, nested in NESTED_SERVICES.get(cls.__name__, {}).items():
            lines.append(f"    {name}: {self.write_class(nested)}")
        if cls is Memory:
            lines += [f"    {name}: {kind}" for name, kind in self._service_lines()]
        for name, member in sorted(vars_of(cls).items()):
            lines.append(textwrap.indent(self._member_text(name, member), "    "))
        if hasattr(cls, "__enter__") and not self.awaits:
            lines.append("    def __enter__(self) -> Self: ...")
            lines.append("    def __exit__(self, *error: object) -> None: ...")
        elif hasattr(cls, "__enter__"):
            lines.append("    async def __aenter__(self) -> Self: ...")
            lines.append("    async def __aexit__(self, *error: object) -> None: ...")
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]} ..."

    def _service_lines(self) -> Iterator[tuple[str, str]]:
        for name in sorted([*SERVICES, "jobs", "journal"]):
            yield name, self.write_class(service_class(name))

    def _member_text(self, name: str, member: Any) -> str:
        if isinstance(member, property):
            kind = self._annotation(
                str(inspect.signature(member.fget).return_annotation),  # type: ignore[arg-type]
                member.fget,
                is_result=True,
            )
            return f"@property\ndef {name}(self) -> Awaitable[{kind}]: ..."
        signature = inspect.signature(member)
        parameters = [
            parameter.replace(
                annotation=parameter.annotation
                if parameter.annotation is inspect.Parameter.empty
                else Verbatim(self._annotation(str(parameter.annotation), member)),
                default=parameter.default if parameter.default is inspect.Parameter.empty else Verbatim("..."),
            )
            for parameter in signature.parameters.values()
        ]
        result = self._annotation(str(signature.return_annotation), member, is_result=self.awaits)
        text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
        if not self.awaits:
            return f"def {name}{text} -> {result}: ..."
        if context := re.fullmatch(r"AbstractContextManager\[(\w+)\]", result):
            return f"def {name}{text} -> AbstractAsyncContextManager[{context[1]}]: ..."
        if items := re.fullmatch(r"Iterator\[(.+)\]", result):
            return f"def {name}{text} -> AsyncIterator[{items[1]}]: ..."
        return f"async def {name}{text} -> {result}: ..."

    def _annotation(self, text: str, owner: Any, *, is_result: bool = False) -> str:
        """Note the imports an annotation needs. In a result, live classes become their awaited versions."""
        known = names_in(owner.__module__)

        def replace(match: re.Match[str]) -> str:
            word = match[0]
            head, _, rest = word.partition(".")
            if rest and head in known:  # a module alias such as jsonl.LogImportResult
                module = f"{known[head]}.{head}" if head in known else head
                self.imports[rest] = module
                return rest
            if is_result and (word in LIVE_CLASSES or word == "Reader"):
                return self.write_class(find_class(known[word], word))
            if word in known:
                self.imports[word] = known[word]
            return word

        return re.sub(r"[A-Za-z_][\w.]*", replace, text)

    def text(self) -> str:
        """Return the whole file."""
        remote = build_remote_classes()
        opened = [self._open_text("connect", client.connect, remote)]
        if self.awaits:
            opened.insert(0, self._open_text("open", open_memory, Memory))
        grouped: dict[str, list[str]] = {}
        for name, module in self.imports.items():
            grouped.setdefault(module, []).append(name)
        imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(grouped.items())]
        standard = [
            "import os",
            "import random",
            "import threading",
            "from collections.abc import AsyncIterator, Awaitable, Generator",
            "from contextlib import AbstractAsyncContextManager",
            "from typing import Any, Protocol, Self, TypeVar",
        ]
        return "\n".join(
            [
                HEADER.format("the awaited library" if self.awaits else "the client"),
                *standard,
                *imports,
                OPENING if self.awaits else "",
                *(f"{text}\n" for text in self.classes.values()),
                *opened,
                "",
            ]
        )

    def _open_text(self, name: str, function: Any, returned: type) -> str:
        signature = inspect.signature(function)
        parameters = [
            parameter.replace(
                annotation=Verbatim(self._annotation(str(parameter.annotation), function)),
                default=parameter.default if parameter.default is inspect.Parameter.empty else Verbatim("..."),
            )
            for parameter in signature.parameters.values()
        ]
        text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
        found = self.write_class(returned)
        return f"def {name}{text} -> {f'AsyncOpening[{found}]' if self.awaits else found}: ..."


class Verbatim:
    """Text that prints as it is inside a signature."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def build_remote_classes() -> type:
    """Return a class with the operations of the client, and note those of its services."""
    members: dict[str, dict[str, Any]] = {"": dict(vars(client.RemoteMemory))}
    for operation in OVER_HTTP.values():
        service, _, name = operation.method.rpartition(".")
        function = inspect.unwrap(find_method(operation))
        copied = types.FunctionType(function.__code__, function.__globals__, name)
        signature = read_signature(operation)
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        this = inspect.Parameter("self", min([inspect.Parameter.POSITIONAL_OR_KEYWORD, *kinds]))
        copied.__signature__ = signature.replace(parameters=[this, *signature.parameters.values()])  # type: ignore[attr-defined]
        members.setdefault(service, {})[name] = copied
    classes = {
        service: type(
            f"Remote{''.join(part.capitalize() for part in service.split('.')) or 'Memory'}",
            (),
            {**found, "__module__": "lukasa.client"},
        )
        for service, found in members.items()
    }
    for service, cls in classes.items():
        owner, _, name = service.rpartition(".")
        if service:
            NESTED_SERVICES.setdefault(classes[owner].__name__, {})[name] = cls
    return classes[""]


def vars_of(cls: type) -> dict[str, Any]:
    """Return the public methods and properties of a class and its bases, and ``__call__``."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        if base.__module__.startswith("lukasa"):
            for name, member in vars(base).items():
                is_member = inspect.isfunction(member) or isinstance(member, property)
                if is_member and (name == "__call__" or not name.startswith("_")):
                    found[name] = member
    return found


def names_in(module: str) -> dict[str, str]:
    """Map each name that a module can see at type-checking time to the module it comes from."""
    loaded = importlib.import_module(module)
    tree = ast.parse(Path(str(loaded.__file__)).read_text("utf-8"))
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update({alias.asname or alias.name: node.module for alias in node.names})
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                names[name] = module
    return names


def find_class(module: str, name: str) -> type:
    """Import a class."""
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def service_class(name: str) -> type:
    """Return the class of a service from the annotation in ``Memory``."""
    if name in ("journal", "jobs"):
        return find_class("lukasa.journal" if name == "journal" else "lukasa.jobs", name.capitalize())
    annotation = Memory.__annotations__[name]
    return find_class(names_in("lukasa.memory")[annotation], annotation)


def run_ruff(text: str, *options: str) -> str:
    """Pass a stub through ruff."""
    command = [sys.executable, "-m", "ruff", *options, "--stdin-filename", str(PACKAGE / "aio.pyi"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main(arguments: list[str]) -> int:
    """Write the stubs, or compare them with the files."""
    is_current = True
    for name, awaits in (("client.pyi", False), ("aio.pyi", True)):
        target = PACKAGE / name
        sorted_imports = run_ruff(StubWriter(awaits=awaits).text(), "check", "--select", "I,F401", "--fix", "--quiet")
        text = run_ruff(sorted_imports, "format")
        if "--check" not in arguments:
            target.write_text(text, "utf-8")
        elif not target.exists() or target.read_text("utf-8") != text:
            print(f"src/lukasa/{name} is out of date; run: python tools/generate_aio.py")
            is_current = False
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
