"""The numbered migrations of an engine: the first makes a store, each later one changes a store of the number before it."""

from __future__ import annotations

from pathlib import Path

from lukasa.errors import StoreForeign, StoreNewer


class Migrations:
    """The files ``0042_name.sql`` of a folder, in order. The numbers before the first were never released."""

    def __init__(self, folder: Path) -> None:
        files = sorted(file for file in folder.iterdir() if file.suffix == ".sql")
        self.scripts = {int(file.name[:4]): file.read_text("utf-8") for file in files}

    @property
    def latest(self) -> int:
        """The schema that this Lukasa writes."""
        return max(self.scripts)

    def after(self, present: int) -> list[str]:
        """Return the scripts that a store of a schema needs; 0 is a store to be made."""
        return [script for number, script in self.scripts.items() if number > present]

    def check(self, present: int, store: str) -> None:
        """Refuse a store of a newer Lukasa, and one that a checkout from before the first release made."""
        if present > self.latest:
            raise StoreNewer(
                f"{store} has schema {present}; this Lukasa knows up to {self.latest}.",
                hint="Upgrade Lukasa to open it.",
            )
        if 0 < present < min(self.scripts):
            raise StoreForeign(
                f"{store} has schema {present}, which was never released; it was left untouched.",
                hint="Export it with the checkout that made it (lukasa export), and import the file into a new store.",
            )
