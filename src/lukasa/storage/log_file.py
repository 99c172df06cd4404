"""The log as a file: one JSON object per line, without loss in either direction.

    {"lukasa":"log","format":1}
    {"sha256":"…","record":{…}}          one per version, in log order
    {"end":{"sha256":"…","versions":2}}

``record`` is the entry of the log, byte for byte, and ``sha256`` is its digest. The last line holds the fingerprint of the
log, so a file that was cut short is detected. Two stores with the same log give the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from lukasa.core import canonical_json
from lukasa.core.record import Record, digest_of, entry_bytes
from lukasa.errors import FormatError, InvalidInput, StoreDamaged
from lukasa.storage.engine import Query, Reader
from lukasa.storage.files import read_lines
from lukasa.storage.integrity import Fingerprint

ENTIRE_LOG = Query(every_version=True, hidden=True)
_HEADER = b'{"lukasa":"log","format":1}'
_RECORD_SEPARATOR = b'","record":'
MAX_HEADER_BYTES = len(_HEADER) + 2
MAX_LINE_BYTES = 64 * 1024 * 1024
_PAGE_SIZE = 500


def read_log(reader: Reader, query: Query = ENTIRE_LOG) -> Iterator[Record]:
    """Yield records of a snapshot in log order, page by page; damaged ones are left out and counted by the reader."""
    query = replace(query, limit=_PAGE_SIZE, after=query.after or 0)
    while page := reader.read(query):
        yield from page
        if page[-1].seq <= (query.after or 0):
            raise StoreDamaged("Positions in the log do not grow; run `lukasa verify` to see what is damaged.")
        query = replace(query, after=page[-1].seq)


def encode_log(records: Iterable[Record], damaged: set[int], fingerprint: Fingerprint | None = None) -> Iterator[bytes]:
    """Yield the lines of records in log order. Add them to a fingerprint, and the positions of altered ones to ``damaged``."""
    written = fingerprint or Fingerprint()
    yield _HEADER + b"\n"
    for record in records:
        entry = entry_bytes(record)
        if digest_of(entry) != record.digest:
            damaged.add(record.seq)
            continue
        yield b'{"sha256":"%b%b%b}\n' % (record.digest.hex().encode(), _RECORD_SEPARATOR, entry)
        written.add(record.scope, record.kind, record.digest)
    end = {"sha256": written.digest, "versions": written.versions}
    yield canonical_json.encode({"end": end}) + b"\n"


def write_log(records: Iterable[Record], target: BinaryIO, damaged: set[int]) -> Fingerprint:
    """Write records in log order and return their fingerprint; add the positions of altered ones to ``damaged``."""
    fingerprint = Fingerprint()
    target.writelines(encode_log(records, damaged, fingerprint))
    return fingerprint


def is_log_file(path: Path) -> bool:
    """Tell an exported log from other files by its first line."""
    with path.open("rb") as file:
        return file.readline(len(_HEADER) + 2).rstrip(b"\r\n") == _HEADER


class LogParser:
    """Parses the lines of an exported log, one after the other, and adds its entries to a fingerprint, which the last line proves.

    Line 1 is the header; the first entry is on line 2, the next on line 3, and so on.
    """

    def __init__(self, fingerprint: Fingerprint | None = None) -> None:
        self._found = fingerprint or Fingerprint()
        self._has_ended = False
        self.line_number = 1

    def parse(self, line: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry of the next line and its digest; ``None`` for the header and the end. Raises ``FormatError``."""
        number = self.line_number
        self.line_number += 1
        if number == 1:
            if line != _HEADER:
                raise FormatError("This is not an exported log: its first line is not a Lukasa header.")
            return None
        if self._has_ended:
            raise FormatError(f"Line {number} follows the end of the log.")
        if line.startswith(b'{"end":'):
            try:
                end = canonical_json.decode(line)["end"]
                versions, expected = end["versions"], end["sha256"]
            except (InvalidInput, KeyError, TypeError) as error:
                raise FormatError(f"Line {number} is not the end of a log.") from error
            if (versions, expected) != (self._found.versions, self._found.digest):
                raise FormatError(
                    f"The file is not complete: it ends with {versions} versions, "
                    f"but {self._found.versions} precede its end."
                )
            self._has_ended = True
            return None
        hex_digest, separator, entry = line[11:-1].partition(_RECORD_SEPARATOR)
        if not line.startswith(b'{"sha256":"') or not line.endswith(b"}") or not separator:
            raise FormatError(f"Line {number} is not a record.")
        try:
            fields = canonical_json.decode(entry, max_depth=canonical_json.MAX_DEPTH + 1)  # a body is one level deeper
            digest = bytes.fromhex(hex_digest.decode("ascii"))
        except (ValueError, InvalidInput) as error:
            raise FormatError(f"Line {number} is not a record: {error}") from error
        names = fields if isinstance(fields, dict) else {}
        self._found.add(str(names.get("scope")), str(names.get("kind")), digest)
        return entry, digest

    def finish(self) -> None:
        """Raise ``FormatError`` if the last line is missing."""
        if not self._has_ended:
            raise FormatError(
                "The file ends in the middle: its last line is missing. Everything before it was imported."
            )


def parse_log(source: BinaryIO, fingerprint: Fingerprint | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of an exported log with their digests (see ``LogParser``)."""
    parser = LogParser(fingerprint)
    for line in read_log_lines(source):
        if (parsed := parser.parse(line)) is not None:
            yield parsed
    parser.finish()


def read_log_lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a log without their ends. Raises ``FormatError`` at one that is too long."""
    yield source.readline(MAX_HEADER_BYTES).rstrip(b"\r\n")
    yield from read_lines(source, MAX_LINE_BYTES)
