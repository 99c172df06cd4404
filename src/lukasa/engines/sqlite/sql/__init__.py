"""The SQL of the SQLite engine, by name: each file holds statements headed ``-- name: x``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import apsw


def _load() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in sorted(files(__name__).iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        for part in file.read_text("utf-8").split("-- name: ")[1:]:
            name, _, body = part.partition("\n")
            if name in statements:
                raise RuntimeError(f"two SQL statements are named {name}")
            statements[name] = "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
    return statements


SQL = _load()


def rows(database: apsw.Connection, name: str, values: tuple[Any, ...] = ()) -> Iterable[Any]:
    """What a named statement yields. SQLite's columns have no static types, so the caller's schema knowledge decides."""
    return database.execute(SQL[name], values)
