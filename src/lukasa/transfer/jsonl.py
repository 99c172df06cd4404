"""Export and import of a log as JSONL. ``lukasa.storage.log_file`` describes the format."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import BinaryIO, TypeVar

from lukasa import canonical_json
from lukasa.journal import Journal
from lukasa.record import Key
from lukasa.scope import SYSTEM
from lukasa.storage.engine import API_TOKEN, IMPORT, Progress, Tally
from lukasa.storage.log_file import ENTIRE_LOG, parse_log, write_log

T = TypeVar("T")
_PROGRESS_INTERVAL = 500
_SETTING = "setting"
_STORE_KINDS = (API_TOKEN, IMPORT, _SETTING)
"""Kinds of record that belong to one store; an import from another store leaves them out."""
_KIND_MARKS = [f'"kind":"{kind}"'.encode() for kind in _STORE_KINDS]


@dataclass(slots=True)
class LogImportResult:
    """How many entries an import added and found present, and the refused ones: line number and reason."""

    added: int = 0
    present: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


def export_log(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Write the whole log that the caller may read; return the number of versions.

    Damaged records are left out; ``journal.damaged`` has their positions. Who imported into this store is not a part of what
    others import.
    """
    journal.damaged.clear()  # only what this read meets counts
    everything = journal.read(replace(ENTIRE_LOG, before=journal.tip() + 1))
    records = (record for record in everything if record.kind != IMPORT or record.scope != SYSTEM)
    return write_log(
        track_progress(records, progress, count_versions(journal.tally())), target, journal.damaged
    ).versions


def import_log(
    journal: Journal, source: BinaryIO, progress: Progress | None = None, *, same_log: bool = False
) -> LogImportResult:
    """Import a file that ``export_log`` wrote. An import that was interrupted continues when it is run again.

    An agent imports its own lines, the owner those of others too. ``same_log`` says that it is a backup of the same store
    (see ``Journal.replay``); otherwise its API tokens are refused, because they would open this store too, and its settings
    are skipped where this store has its own.
    """
    result = LogImportResult()
    path = getattr(source, "name", None)
    name = PurePath(path).name if isinstance(path, str) else ""
    line_numbers: deque[int] = deque()

    def entries() -> Iterator[tuple[bytes, bytes]]:
        for line_number, (entry, digest) in enumerate(parse_log(source), 2):
            kind = _read_field(entry, "kind") if not same_log and any(mark in entry for mark in _KIND_MARKS) else None
            if kind == API_TOKEN:
                result.refused.append((line_number, "a token of another store; `lukasa token add` makes a new one"))
            elif kind == IMPORT or (kind == _SETTING and _has_own_setting(journal, entry)):
                result.present += 1
            else:
                line_numbers.append(line_number)
                yield entry, digest

    for answer in track_progress(journal.replay(entries(), same_log=same_log, source=name), progress):
        line_number = line_numbers.popleft()
        if answer.state == "added":
            result.added += 1
        elif answer.state == "present":
            result.present += 1
        else:
            result.refused.append((line_number, answer.reason))
    return result


def _has_own_setting(journal: Journal, entry: bytes) -> bool:
    """Return whether this store has the setting of an entry too, such as the embedder."""
    id = _read_field(entry, "id")
    return isinstance(id, str) and journal.reach.reads(SYSTEM) and journal.get(Key(SYSTEM, _SETTING, id)) is not None


def _read_field(entry: bytes, name: str) -> object:
    try:
        return canonical_json.parse(entry)[name]
    except (ValueError, KeyError, TypeError):
        return None  # the journal says what is wrong with it


def track_progress(items: Iterable[T], progress: Progress | None, total: int = 0, done: int = 0) -> Iterator[T]:
    """Yield the items and report now and then how many were processed. ``total`` is 0 if it is unknown."""
    for number, item in enumerate(items, done + 1):
        yield item
        if progress is not None and number % _PROGRESS_INTERVAL == 0:
            progress(min(number, total) if total else number, total)


def count_versions(tally: Iterable[Tally]) -> int:
    """Return the number of versions in all scopes and kinds."""
    return sum(row.versions for row in tally)
