"""Export and import of a log as JSONL. ``lukasa.storage.log_file`` describes the format."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO, TypeVar

from lukasa import canonical_json
from lukasa.journal import Journal
from lukasa.storage.engine import API_TOKEN, Progress, Tally
from lukasa.storage.log_file import ENTIRE_LOG, check_undamaged, parse_log, write_log

T = TypeVar("T")
_PROGRESS_INTERVAL = 500
_TOKEN_MARK = f'"kind":"{API_TOKEN}"'.encode()


@dataclass(slots=True)
class LogImportResult:
    """How many entries an import added and found present, and the refused ones: line number and reason."""

    added: int = 0
    present: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


def export_log(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Write the whole log that the caller may read; return the number of versions."""
    journal.damaged.clear()  # only what this read meets counts
    records = journal.read(replace(ENTIRE_LOG, before=journal.tip() + 1))
    written = write_log(track_progress(records, progress, count_versions(journal.tally())), target)
    check_undamaged(journal)
    return written.versions


def import_log(
    journal: Journal, source: BinaryIO, progress: Progress | None = None, *, same_store: bool = False
) -> LogImportResult:
    """Import a file that ``export_log`` wrote. An import that was interrupted continues when it is run again.

    Unless the log comes from a backup of the same store, its API tokens are refused: they would open this store too.
    """
    result = LogImportResult()
    line_numbers: deque[int] = deque()

    def entries() -> Iterator[tuple[bytes, bytes]]:
        for line_number, (entry, digest) in enumerate(parse_log(source), 2):
            if not same_store and _TOKEN_MARK in entry and _kind_of(entry) == API_TOKEN:
                result.refused.append((line_number, "a token of another store; `lukasa token add` makes a new one"))
            else:
                line_numbers.append(line_number)
                yield entry, digest

    for answer in track_progress(journal.replay(entries()), progress):
        line_number = line_numbers.popleft()
        if answer.state == "added":
            result.added += 1
        elif answer.state == "present":
            result.present += 1
        else:
            result.refused.append((line_number, answer.reason))
    return result


def _kind_of(entry: bytes) -> object:
    try:
        return canonical_json.parse(entry)["kind"]
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
