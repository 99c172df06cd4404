"""SQL statements by name: each ``.sql`` file of a package holds statements headed ``-- name: x``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def load_statements(package: str) -> dict[str, str]:
    """Load all named statements of a package, without their comments."""
    statements: dict[str, str] = {}
    for file in sorted(Path(import_module(package).__path__[0]).glob("*.sql")):
        for part in file.read_text("utf-8").split("-- name: ")[1:]:
            name, _, body = part.partition("\n")
            if name in statements:
                raise RuntimeError(f"two SQL statements are named {name}")
            statements[name] = "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
    return statements
