"""The registry of engines. A new engine is a package with a factory ``open_engine``, and one line here."""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lukasa.core.clock import Clock
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.storage.engine import Engine, Progress
from lukasa.storage.location import StoreLocation


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """A registered engine: the package to import when it is used, its URL schemes, and the extra that installs it."""

    package: str
    schemes: tuple[str, ...] = ()
    title: str = ""
    extra: str = ""


ENGINES: dict[str, EngineEntry] = {
    "sqlite": EngineEntry("lukasa.storage.sqlite"),
    "memory": EngineEntry("lukasa.storage.sqlite"),
    "postgresql": EngineEntry("lukasa.storage.postgres", ("postgresql", "postgres"), "PostgreSQL", "postgres"),
}


def find_engine_for_url(name: str) -> str | None:
    """Return the engine whose URL scheme a store's name starts with."""
    scheme, separator, _ = name.partition("://")
    return next((engine for engine, entry in ENGINES.items() if separator and scheme in entry.schemes), None)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to open a store. An engine ignores options that it does not need.

    The engine keeps near-duplicate keys of the texts of ``near_duplicate_kinds``. ``group_label`` names the label that
    ``adjacent_turns`` is asked for most, so that the engine can index it. ``read_url`` is a replica to read from.
    ``progress`` is called while the store of an older Lukasa is migrated. With ``read_only`` every write is refused.
    ``before_naming`` is called with the path and the token of a new file before it has its name.
    """

    clock: Clock | None = None
    timeout: float = 30.0
    read_url: str | None = None
    create: bool = True
    read_only: bool = False
    near_duplicate_kinds: frozenset[str] = frozenset()
    group_label: str | None = None
    progress: Progress | None = None
    before_naming: Callable[[Path, str], None] | None = None


def open_engine(location: StoreLocation, options: EngineOptions) -> Engine:
    """Open the store at a location."""
    entry = ENGINES.get(location.engine)
    if entry is None:
        raise InvalidInput(f"There is no engine {location.engine!r}.", hint=f"Known are: {', '.join(ENGINES)}.")
    try:
        package = importlib.import_module(entry.package)
    except ImportError as error:
        if not entry.extra:
            raise
        raise MissingExtra(
            f"The {entry.title} engine is not installed.", hint=f"Run: pip install 'lukasa[{entry.extra}]'"
        ) from error
    engine: Engine = package.open_engine(location, options)
    return engine


class _HoldsConnections(Protocol):
    def reset_after_fork(self) -> None:
        """Forget the connections of the parent process without closing them."""


_open_engines: weakref.WeakSet[Any] = weakref.WeakSet()


def register_for_fork(engine: _HoldsConnections) -> None:
    """Let an engine drop its connections in forked children, which must not use those of their parent."""
    _open_engines.add(engine)


def _reset_engines_after_fork() -> None:
    for engine in list(_open_engines):
        engine.reset_after_fork()


os.register_at_fork(after_in_child=_reset_engines_after_fork)
