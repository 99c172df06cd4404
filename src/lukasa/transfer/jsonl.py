"""Export and import of a log as JSONL. ``lukasa.storage.log_file`` describes the format."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import BinaryIO, TypeVar

from lukasa.core import canonical_json
from lukasa.core.record import Key, Record
from lukasa.core.scope import SYSTEM
from lukasa.errors import FormatError
from lukasa.journal import Journal
from lukasa.storage.engine import API_TOKEN, IMPORT, PAGE_SESSION, Progress, Tally
from lukasa.storage.log_file import ENTIRE_LOG, LogParser, encode_log, read_log_lines, write_log

T = TypeVar("T")
_PROGRESS_INTERVAL = 500
_SETTING = "setting"
_KEYS_TO_THE_STORE = (API_TOKEN, PAGE_SESSION)
_STORE_KINDS = (*_KEYS_TO_THE_STORE, IMPORT, _SETTING)
"""Kinds of record that belong to one store; an import from another store leaves them out."""
_KIND_MARKS = [f'"kind":"{kind}"'.encode() for kind in _STORE_KINDS]


@dataclass(slots=True)
class LogImportResult:
    """How many entries an import added and found present, and the refused ones: line number and reason.

    An import over HTTP lists the first refused ones, and says in ``refused_more`` how many it left out.
    """

    added: int = 0
    present: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    refused_more: int = 0


def export_log(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Write the whole log that the caller may read; return the number of versions.

    Damaged records are left out; ``journal.damaged`` has their positions. Who imported into this store is not a part of what
    others import.
    """
    records = track_progress(_exported_records(journal), progress, count_versions(journal.tally()))
    return write_log(records, target, journal.damaged).versions


def encode_export(journal: Journal) -> Iterator[bytes]:
    """Yield the lines that ``export_log`` writes. A reader may wait before it asks for the next one: no read of the store stays open.

    The lines are those up to the position at the beginning; what is erased or hidden meanwhile is left out of the later ones.
    """
    return encode_log(_exported_records(journal), journal.damaged)


def _exported_records(journal: Journal) -> Iterator[Record]:
    journal.damaged.clear()  # only what this read meets counts
    everything = journal.read(replace(ENTIRE_LOG, before=journal.tip() + 1))
    return (record for record in everything if record.kind != IMPORT or record.scope != SYSTEM)


class LogImport:
    """An import of an exported log whose lines arrive in parts. ``result`` says what was done so far.

    An agent imports its own lines, the owner those of others too. ``same_log`` says that it is a backup of the same store
    (see ``Journal.replay``); otherwise its API tokens are refused, because they would open this store too, and its settings
    are skipped where this store has its own. Of the refused lines, ``max_refused`` are listed.
    """

    def __init__(
        self, journal: Journal, *, same_log: bool = False, source: str = "", max_refused: int | None = None
    ) -> None:
        self._journal = journal
        self._same_log = same_log
        self._source = source
        self._max_refused = max_refused
        self._parser = LogParser()
        self._line_numbers: deque[int] = deque()
        self.result = LogImportResult()

    def add(self, lines: Iterable[bytes], progress: Progress | None = None) -> None:
        """Import the next lines. Raises ``FormatError`` at one that is no line of a log, after it has stored those before it."""
        faults: list[FormatError] = []
        answers = self._journal.replay(self._entries(lines, faults), same_log=self._same_log, source=self._source)
        for answer in track_progress(answers, progress):
            line_number = self._line_numbers.popleft()
            if answer.state == "added":
                self.result.added += 1
            elif answer.state == "present":
                self.result.present += 1
            else:
                self._refuse(line_number, answer.reason)
        for fault in faults:
            raise fault

    def finish(self) -> None:
        """Raise ``FormatError`` if the last line of the log is missing."""
        self._parser.finish()

    def _entries(self, lines: Iterable[bytes], faults: list[FormatError]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of lines with their digests, up to the first fault, which is added to ``faults``."""
        try:
            for line in lines:
                line_number = self._parser.line_number
                if (parsed := self._parser.parse(line)) is None:
                    continue
                entry = parsed[0]
                is_marked = not self._same_log and any(mark in entry for mark in _KIND_MARKS)
                kind = _read_field(entry, "kind") if is_marked else None
                if kind in _KEYS_TO_THE_STORE:
                    self._refuse(line_number, "a token of another store; `lukasa token add` makes a new one")
                elif kind == IMPORT or (kind == _SETTING and _has_own_setting(self._journal, entry)):
                    self.result.present += 1
                else:
                    self._line_numbers.append(line_number)
                    yield parsed
        except FormatError as error:
            faults.append(error)

    def _refuse(self, line_number: int, reason: str) -> None:
        if self._max_refused is None or len(self.result.refused) < self._max_refused:
            self.result.refused.append((line_number, reason))
        else:
            self.result.refused_more += 1


def import_log(
    journal: Journal, source: BinaryIO, progress: Progress | None = None, *, same_log: bool = False
) -> LogImportResult:
    """Import a file that ``export_log`` wrote (see ``LogImport``). One that was interrupted continues when it is run again."""
    path = getattr(source, "name", None)
    name = PurePath(path).name if isinstance(path, str) else ""
    running = LogImport(journal, same_log=same_log, source=name)
    running.add(read_log_lines(source), progress)
    running.finish()
    return running.result


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
