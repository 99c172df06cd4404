"""The log as a file: one JSON object per line, lossless both ways.

    {"lukasa": "log", "format": 1}
    {"sha256": "…", "record": {…}}          one per version, in log order
    {"end": {"versions": 2, "sha256": "…"}}

``record`` is the line of the log, byte for byte, and ``sha256`` its digest. The last line counts the versions and
hashes their digests, so a file that was cut short is noticed. Two stores with the same log give the same file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from lukasa import canonical_json
from lukasa.errors import FormatError, InvalidInput, StoreDamaged
from lukasa.journal import Journal
from lukasa.record import digest_of, entry_bytes
from lukasa.storage.engine import Progress, Query, ReplayResult

HEADER = b'{"lukasa":"log","format":1}'
_MAX_LINE_BYTES = 64 * 1024 * 1024
_RECORD_SEPARATOR = b'","record":'
_PROGRESS_INTERVAL = 500


@dataclass(slots=True)
class LogImportResult:
    """What an import did, line by line."""

    added: int = 0
    present: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


def export_log(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Writes the whole log that the caller may read; returns the number of versions."""
    tip = journal.tip()
    total = sum(row.versions for row in journal.tally())
    seal, count = hashlib.sha256(), 0
    target.write(HEADER + b"\n")
    for record in journal.read(Query(every_version=True, hidden=True, before=tip + 1)):
        line = entry_bytes(record)
        if digest_of(line) != record.digest:
            raise StoreDamaged(f"{record.key} version {record.version} does not match its digest.")
        target.write(b'{"sha256":"%b%b%b}\n' % (record.digest.hex().encode(), _RECORD_SEPARATOR, line))
        seal.update(record.digest)
        count += 1
        if progress is not None and count % _PROGRESS_INTERVAL == 0:
            progress(count, total)
    target.write(canonical_json.encode({"end": {"sha256": seal.hexdigest(), "versions": count}}) + b"\n")
    return count


def import_log(journal: Journal, source: BinaryIO, progress: Progress | None = None) -> LogImportResult:
    """Takes in a file that ``export_log`` wrote. Run again after a break, it goes on where it stopped."""
    result = LogImportResult()
    numbers: list[int] = []
    lines = _parse_lines(source, numbers)
    for at, answer in enumerate(journal.replay(lines)):
        _count_answer(result, answer, numbers[at])
        if progress is not None and (at + 1) % _PROGRESS_INTERVAL == 0:
            progress(at + 1, 0)
    return result


def _count_answer(result: LogImportResult, answer: ReplayResult, number: int) -> None:
    if answer.state == "added":
        result.added += 1
    elif answer.state == "present":
        result.present += 1
    else:
        result.refused.append((number, answer.reason))


def _parse_lines(source: BinaryIO, numbers: list[int]) -> Iterator[tuple[bytes, bytes]]:
    """The lines with their digests; complains about anything that is not such a file."""
    first = source.readline(_MAX_LINE_BYTES).rstrip(b"\r\n")
    if first != HEADER:
        raise FormatError("This is not an exported log: its first line is not a Lukasa header.")
    seal, ended = hashlib.sha256(), False
    for number, raw in enumerate(_read_bounded_lines(source), 2):
        line = raw.rstrip(b"\r\n")
        if ended:
            raise FormatError(f"Line {number} follows the end of the log.")
        if line.startswith(b'{"end":'):
            _check_end(line, number, seal.hexdigest(), len(numbers))
            ended = True
            continue
        record, digest = _split_line(line, number)
        seal.update(digest)
        numbers.append(number)
        yield record, digest
    if not ended:
        raise FormatError("The file ends in the middle: its last line is missing. Everything before it was taken in.")


def _read_bounded_lines(source: BinaryIO) -> Iterator[bytes]:
    while raw := source.readline(_MAX_LINE_BYTES):
        if len(raw) == _MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raise FormatError(f"A line is longer than {_MAX_LINE_BYTES:,} bytes.")
        yield raw


def _split_line(line: bytes, number: int) -> tuple[bytes, bytes]:
    if not line.startswith(b'{"sha256":"') or not line.endswith(b"}"):
        raise FormatError(f"Line {number} is not a record.")
    digest, found, record = line[11:-1].partition(_RECORD_SEPARATOR)
    try:
        if not found:
            raise ValueError
        canonical_json.decode(record, max_depth=canonical_json.MAX_DEPTH + 1)  # a body lies one level down
        return record, bytes.fromhex(digest.decode("ascii"))
    except (ValueError, InvalidInput) as error:
        raise FormatError(f"Line {number} is not a record: {error}") from error


def _check_end(line: bytes, number: int, seal: str, versions: int) -> None:
    try:
        end = canonical_json.decode(line)["end"]
        told = (end["versions"], end["sha256"])
    except (InvalidInput, KeyError, TypeError) as error:
        raise FormatError(f"Line {number} is not the end of a log.") from error
    if told != (versions, seal):
        raise FormatError(f"The file is not whole: it ends with {told[0]} versions, but {versions} were found before.")
