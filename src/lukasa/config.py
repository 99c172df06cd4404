"""Where the store is and what it may be told: environment, nearest ``.lukasa/``, the user's data folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path

from lukasa.canonical import SURROGATES
from lukasa.errors import InvalidInput, without_password

STORE_VARIABLE = "LUKASA_STORE"
READ_VARIABLE = "LUKASA_READ_URL"
FILES_VARIABLE = "LUKASA_FILES"
STORE_FILE = "memory.db"
IN_MEMORY = "memory:"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store lives: a file, a server, or this process alone."""

    engine: Literal["sqlite", "postgresql", "memory"]
    path: Path | None = None
    url: str = field(default="", repr=False)  # it may hold a password

    def __str__(self) -> str:
        return without_password(self.url) or (str(self.path) if self.path else IN_MEMORY)


def find_store(environment: Mapping[str, str] | None = None, start: Path | None = None) -> str:
    """The store to use when none is named."""
    environment = os.environ if environment is None else environment
    if named := environment.get(STORE_VARIABLE):
        return named
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / ".lukasa").is_dir():
            return str(folder / ".lukasa" / STORE_FILE)
    return str(user_data_path("lukasa") / STORE_FILE)


def locate(store: str | os.PathLike[str] | None) -> Place:
    """Reads a store's name: a path, ``sqlite:PATH``, ``postgresql://…`` or ``memory:``."""
    name = os.fspath(store) if store is not None else find_store()
    if not name:
        raise InvalidInput("The store's name is empty.", hint="Give a file, such as agents.db, or a postgresql:// URL.")
    if "\0" in name or SURROGATES.search(name):
        raise InvalidInput("The store's name holds a character that no file name of a store may have.")
    if name == IN_MEMORY:
        return Place("memory")
    if name.startswith(("postgresql://", "postgres://")):
        return Place("postgresql", url=name)
    path = Path(name.removeprefix("sqlite:")).expanduser()
    if path.is_dir():
        path = path / STORE_FILE
    return Place("sqlite", path.absolute())


def files_of(place: Place, environment: Mapping[str, str] | None = None) -> str | None:
    """Where a store keeps what is not in the database: checkpoints. ``None`` for a store that lives in memory.

    ``LUKASA_FILES`` says it, as a folder or a URL. Else they lie beside the store's file, in a folder of its name, or in
    its own folder if the store is the ``memory.db`` there. A server's are in the user's data folder.
    """
    environment = os.environ if environment is None else environment
    if named := environment.get(FILES_VARIABLE):
        return named
    if place.path is not None:
        own = place.path.name == STORE_FILE
        return str(place.path.parent if own else place.path.with_name(f"{place.path.name}.files"))
    if place.engine == "memory":
        return None
    return str(user_data_path("lukasa") / f"files-{hashlib.sha256(str(place).encode()).hexdigest()[:16]}")
