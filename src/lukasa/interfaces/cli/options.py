"""Who calls, which store they mean, and how they want to be answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

import lukasa
from lukasa.canonical_json import SURROGATES
from lukasa.clock import from_iso
from lukasa.config import locate_store
from lukasa.errors import InvalidInput, StoreDamaged, StoreMissing
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.record import Key
from lukasa.storage.engine import Progress

JsonOption = Annotated[bool, typer.Option("--json", help="Answer with JSON.")]
RecordScopeOption = Annotated[
    str | None, typer.Option("--scope", metavar="NAME", help="The scope the record stands in.")
]


@dataclass(slots=True)
class GlobalOptions:
    """What stands before the command's name."""

    store: str | None = None
    agent: str = ""
    scopes: tuple[str, ...] = ()
    json: bool = False
    profile: str | None = None

    def open(self, *, create: bool = True) -> lukasa.Memory:
        """The caller's store, seen with the caller's reach. Says so when it had to be made."""
        place = locate_store(self.store)
        require_utf8(str(place))
        path = place.path
        missing = path is not None and not path.exists()
        if missing and not create:
            raise StoreMissing(f"There is no store at {path}.", hint="Name another one with --store.")
        try:
            memory = lukasa.open(
                self.store, agent=self.agent, scopes=self.scopes or None, create=create, profile=self.profile
            )
        except StoreDamaged as error:
            raise StoreDamaged(f"{place} is too damaged to be opened.", hint="Restore a backup.") from error
        if missing:
            render.print_to_stderr(f"Made a new store: {path}")
        return memory


def get_options(ctx: typer.Context, as_json: bool) -> GlobalOptions:
    """The caller of a command; ``--json`` may stand before or after the command's name."""
    found = ctx.find_object(GlobalOptions)
    assert found is not None
    found.json = found.json or as_json
    return found


def require_utf8(*words: str) -> None:
    """Bytes that are not UTF-8 come from a shell as lone surrogates, which no store can take."""
    for word in words:
        if SURROGATES.search(word):
            raise InvalidInput(f"{word!r} is not valid UTF-8.")


def parse_time(text: str | None) -> datetime | None:
    """A time as a person typed it."""
    return None if text is None else from_iso(text)


def find_key(journal: Journal, kind: str, id: str, scope: str | None, *, hidden: bool = False) -> Key:
    """The key of a record by kind and id. Where the scope is not said, the one that has it is meant."""
    scopes = [row.scope for row in journal.tally() if row.kind == kind and scope in (None, row.scope)]
    keys = [key for name in scopes if journal.history(key := Key(name, kind, id), hidden=hidden)]
    if not keys:
        named = Key(scope, kind, id) if scope else f"{kind}/{id}"
        raise CommandRefused(Refused("not_found", f"There is no record {named}."))
    if len(keys) > 1:
        places = ", ".join(key.scope for key in keys)
        raise InvalidInput(f"{kind}/{id} stands in several scopes: {places}.", hint="Say which one with --scope.")
    return keys[0]


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A bar on stderr while something long runs, for people only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=render.console(sys.stderr), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
