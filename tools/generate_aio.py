"""Write ``src/lukasa/aio.pyi``: the types of the awaited library, derived from the synchronous classes.

    python tools/generate_aio.py            write the file
    python tools/generate_aio.py --check    exit with 1 when the file is out of date

Every method becomes a coroutine with the same parameters. An iterator becomes an asynchronous one, a context manager an
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lukasa.client import RemoteMemory, connect
from lukasa.core.async_proxy import LIVE_CLASSES
from lukasa.memory import SERVICES, Memory, open_memory

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "lukasa" / "aio.pyi"
OPENING = """
Opened = TypeVar("Opened", covariant=True)

class AsyncOpening(Protocol[Opened]):
    \"\"\"A call that opens something: ``await`` it, or enter it with ``async with``.\"\"\"
    def __await__(self) -> Generator[Any, None, Opened]: ...
    async def __aenter__(self) -> Opened: ...
    async def __aexit__(self, *error: object) -> None: ...
"""
HEADER = '"""The types of the awaited library. Written by tools/generate_aio.py; do not edit."""\n'
EAGER_ATTRIBUTES = {"Journal": {"author": "str", "reach": "Reach"}, "Memory": {"place": "StoreLocation"}}
"""Plain attributes that need no ``await``."""
NESTED_SERVICES = {
    "RemoteMemory": {
        "context": ("lukasa.client", "RemoteConversations"),
        "episodes": ("lukasa.client", "RemoteEpisodes"),
        "forecasts": ("lukasa.client", "RemoteForecasts"),
        "handoffs": ("lukasa.client", "RemoteHandoffs"),
        "proposals": ("lukasa.client", "RemoteProposals"),
        "sessions": ("lukasa.client", "RemoteSessions"),
        "trust": ("lukasa.client", "RemoteTrust"),
    },
    "Trust": {"rubric": ("lukasa.trust.rubric", "Rubrics")},
}
"""Services that are attributes of another service."""


class StubWriter:
    """Collects the awaited classes and the imports that their annotations need."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {"Reach": "lukasa.core.scope", "StoreLocation": "lukasa.storage.location"}
        self.classes: dict[str, str] = {}
        self.pending: list[type] = []

    def write_class(self, cls: type) -> str:
        """Return the name of a class's awaited version, and write it if that has not happened yet."""
        name = f"Async{cls.__name__}"
        if name not in self.classes:
            self.classes[name] = ""
            self.classes[name] = self._class_text(cls)
        return name

    def _class_text(self, cls: type) -> str:
        lines = [f"class Async{cls.__name__}:"]
        doc = inspect.getdoc(cls)
        if doc:
            lines.append(f'    """{doc.splitlines()[0]}"""')
        lines += [f"    {name}: {kind}" for name, kind in EAGER_ATTRIBUTES.get(cls.__name__, {}).items()]
        for name, (module, nested) in NESTED_SERVICES.get(cls.__name__, {}).items():
            lines.append(f"    {name}: {self.write_class(find_class(module, nested))}")
        if cls is Memory:
            lines += [f"    {name}: {kind}" for name, kind in self._service_lines()]
        for name, member in sorted(vars_of(cls).items()):
            lines.append(textwrap.indent(self._member_text(cls, name, member), "    "))
        if hasattr(cls, "__enter__"):
            lines.append("    async def __aenter__(self) -> Self: ...")
            lines.append("    async def __aexit__(self, *error: object) -> None: ...")
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]} ..."

    def _service_lines(self) -> Iterator[tuple[str, str]]:
        for name in sorted([*SERVICES, "jobs", "journal"]):
            yield name, self.write_class(service_class(name))

    def _member_text(self, cls: type, name: str, member: Any) -> str:
        owner = defining_class(cls, name)
        if isinstance(member, property):
            kind = self._annotation(str(inspect.signature(member.fget).return_annotation), owner, is_result=True)  # type: ignore[arg-type]
            return f"@property\ndef {name}(self) -> Awaitable[{kind}]: ..."
        signature = inspect.signature(member)
        parameters = [
            parameter.replace(
                annotation=parameter.annotation
                if parameter.annotation is inspect.Parameter.empty
                else Verbatim(self._annotation(str(parameter.annotation), owner)),
                default=parameter.default if parameter.default is inspect.Parameter.empty else Verbatim("..."),
            )
            for parameter in signature.parameters.values()
        ]
        result = self._annotation(str(signature.return_annotation), owner, is_result=True)
        text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
        if context := re.fullmatch(r"AbstractContextManager\[(\w+)\]", result):
            return f"def {name}{text} -> AbstractAsyncContextManager[{context[1]}]: ..."
        if items := re.fullmatch(r"Iterator\[(.+)\]", result):
            return f"def {name}{text} -> AsyncIterator[{items[1]}]: ..."
        return f"async def {name}{text} -> {result}: ..."

    def _annotation(self, text: str, owner: type, *, is_result: bool = False) -> str:
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
        opened = [self._open_text("open", open_memory, Memory), self._open_text("connect", connect, RemoteMemory)]
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
            [HEADER, *standard, *imports, OPENING, *(f"{text}\n" for text in self.classes.values()), *opened, ""]
        )

    def _open_text(self, name: str, function: Any, result: type) -> str:
        signature = inspect.signature(function)
        parameters = [
            parameter.replace(
                annotation=Verbatim(self._annotation(str(parameter.annotation), result)),
                default=parameter.default if parameter.default is inspect.Parameter.empty else Verbatim("..."),
            )
            for parameter in signature.parameters.values()
        ]
        text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
        return f"def {name}{text} -> AsyncOpening[{self.write_class(result)}]: ..."


class Verbatim:
    """Text that prints as it is inside a signature."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


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


def defining_class(cls: type, name: str) -> type:
    """Return the class in whose body a member is defined."""
    return next(base for base in cls.__mro__ if name in vars(base))


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
    """Pass the stub through ruff."""
    command = [sys.executable, "-m", "ruff", *options, "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main(arguments: list[str]) -> int:
    """Write the stub, or compare it with the file."""
    sorted_imports = run_ruff(StubWriter().text(), "check", "--select", "I,F401", "--fix", "--quiet")
    text = run_ruff(sorted_imports, "format")
    if "--check" not in arguments:
        TARGET.write_text(text, "utf-8")
    elif not TARGET.exists() or TARGET.read_text("utf-8") != text:
        print("src/lukasa/aio.pyi is out of date; run: python tools/generate_aio.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
