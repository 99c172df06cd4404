"""Export and import of a log as JSONL. ``lukasa.storage.log_file`` describes the format."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import BinaryIO

from lukasa.journal import Journal
from lukasa.storage.engine import Progress
from lukasa.storage.log_file import ENTIRE_LOG, parse_log, write_log
from lukasa.transfer.progress import count_versions, track_progress


@dataclass(slots=True)
class LogImportResult:
    """How many entries an import added and found present, and the refused ones: line number and reason."""

    added: int = 0
    present: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


def export_log(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Write the whole log that the caller may read; return the number of versions."""
    records = journal.read(replace(ENTIRE_LOG, before=journal.tip() + 1))
    return write_log(track_progress(records, progress, count_versions(journal.tally())), target).versions


def import_log(journal: Journal, source: BinaryIO, progress: Progress | None = None) -> LogImportResult:
    """Import a file that ``export_log`` wrote. An import that was interrupted continues when it is run again."""
    result = LogImportResult()
    for line_number, answer in enumerate(track_progress(journal.replay(parse_log(source)), progress), 2):
        if answer.state == "added":
            result.added += 1
        elif answer.state == "present":
            result.present += 1
        else:
            result.refused.append((line_number, answer.reason))
    return result
