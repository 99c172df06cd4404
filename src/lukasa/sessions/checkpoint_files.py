"""Checkpoints as files: ``sessions/{session}/checkpoint_{NNN}.json``, each proved by a checksum of its own.

A file is a session's state with one section more, ``checkpoint``: which session and number it is, up to which change it
goes, when it was saved, whether the session was closed then, and the SHA-256 of all of it. It is written in canonical
JSON, so a file is either exactly what was written or damaged; there is nothing in between.

Beside it, ``deltas_{NNN}.jsonl`` holds the changes made since, each line with its own checksum. The log is what makes a
change durable; these lines are a second witness for when the log is lost.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lukasa import canonical_json
from lukasa.clock import from_iso, to_iso
from lukasa.errors import FileMissing, InvalidInput, LukasaError
from lukasa.scope import SHARED
from lukasa.sessions.state import (
    CHECKPOINT_SECTION,
    MAX_STATE_BYTES,
    SCHEMA,
    SessionState,
    find_state_fault,
    upgrade_state,
)
from lukasa.storage.files import FileInfo, FileStore, read_whole

CHECKPOINT_FORMAT = "lukasa-checkpoint"
_CHECKPOINT_NAME = re.compile(r"checkpoint_(\d{3,9})\.json(\.gz)?")
_DELTAS_NAME = re.compile(r"deltas_(\d{3,9})\.jsonl")
_PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_RESERVED_NAME = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A session's whole state at one moment. ``upto`` is the last change in it, ``clean`` that the session was closed."""

    session: str
    scope: str
    number: int
    upto: int
    saved_at: datetime
    state: SessionState
    clean: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """A few changes of a state that were made as one, and when.

    Without ``at`` they leave the time of the state's last update alone. Without ``changes`` it says that the whole state
    was replaced: only the checkpoint that goes up to it knows by what.
    """

    number: int
    at: str
    changes: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class CheckpointFileInfo:
    """A checkpoint file as a listing shows it."""

    number: int
    name: str
    size: int
    modified: datetime
    compressed: bool


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """A checkpoint that cannot be used: which, what is the matter, and the name it was moved to, if it was."""

    number: int
    name: str
    reason: str
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How many checkpoints stay, and how: the newest ``plain`` as they are unless older than ``age``, then ``compressed``
    ones up to that number."""

    plain: int = 10
    compressed: int = 100
    age: timedelta = timedelta(hours=24)

    def __post_init__(self) -> None:
        if self.plain < 1 or self.compressed < 0 or self.age < timedelta(0):
            raise InvalidInput("Retention keeps at least one plain checkpoint, and no negative number of others.")


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What retention did."""

    compressed: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    kept_damaged: tuple[int, ...] = ()


def short_hash(*names: str) -> str:
    """A short word that stands for names, whatever characters they have."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def session_folder(session: str, scope: str = SHARED) -> str:
    """The folder of a session: its id where that is plain and shared, else what is plain of it and a mark of the whole.

    Two scopes may each have a session of the same id; their files never meet.
    """
    plain = _PLAIN_ID.fullmatch(session) and not _RESERVED_NAME.fullmatch(session) and not session.endswith(".")
    if plain and scope == SHARED:
        return f"sessions/{session}"
    slug = re.sub(r"[^a-z0-9]+", "-", session.lower()[:200]).strip("-")[:40]
    return f"sessions/{slug or 'session'}~{short_hash(scope, session)}"


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as the bytes of its file."""
    seal = {
        "format": CHECKPOINT_FORMAT,
        "schema": SCHEMA,
        "session_id": checkpoint.session,
        "scope": checkpoint.scope,
        "number": checkpoint.number,
        "upto": checkpoint.upto,
        "saved_at": to_iso(checkpoint.saved_at),
        "clean": checkpoint.clean,
    }
    body = {**checkpoint.state, CHECKPOINT_SECTION: seal}
    digest = hashlib.sha256(canonical_json.encode(body)).hexdigest()
    return canonical_json.encode({**body, CHECKPOINT_SECTION: {**seal, "sha256": digest}}) + b"\n"


def decode_checkpoint(data: bytes, session: str, scope: str, number: int | None = None) -> Checkpoint:
    """The checkpoint that a file spells. Raises ``InvalidInput`` with what is wrong if it is not exactly that."""
    if not data:
        raise InvalidInput("it is empty")
    try:
        body = canonical_json.parse(data)
        if canonical_json.encode(body) + b"\n" != data:
            raise InvalidInput("it is not as it was written")
        seal = body.pop(CHECKPOINT_SECTION)
        digest = seal.pop("sha256")
        if (
            seal["format"] != CHECKPOINT_FORMAT
            or hashlib.sha256(canonical_json.encode({**body, CHECKPOINT_SECTION: seal})).hexdigest() != digest
        ):
            raise InvalidInput("its checksum does not match its content")
        if (seal["session_id"], seal["scope"]) != (session, scope):
            raise InvalidInput("it belongs to another session")
        if number is not None and seal["number"] != number:
            raise InvalidInput(f"it is checkpoint {seal['number']} under the name of {number}")
        state = upgrade_state(body, seal["schema"])
        if (fault := find_state_fault(state)) is not None:
            raise InvalidInput(fault)
        saved_at = from_iso(seal["saved_at"])
        return Checkpoint(session, scope, seal["number"], seal["upto"], saved_at, state, seal["clean"])
    except InvalidInput:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput("it is cut off or not JSON") from error


def compress(data: bytes) -> bytes:
    """Gzip without a time or a name in it: the same bytes give the same file."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(data) + packer.flush()
    return _GZIP_HEAD + packed + zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")


def decompress(data: bytes, *, max_bytes: int = 4 * MAX_STATE_BYTES) -> bytes:
    """What ``compress`` was given. Stops at ``most`` bytes, however much a hostile file would unfold to."""
    if not data.startswith(_GZIP_HEAD):
        raise InvalidInput("it is not a compressed checkpoint")
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(data[len(_GZIP_HEAD) :], max_bytes)
    except zlib.error as error:
        raise InvalidInput("it cannot be decompressed") from error
    if not unpacker.eof:
        raise InvalidInput("it is cut off or too large")
    ending = zlib.crc32(plain).to_bytes(4, "little") + (len(plain) & 0xFFFFFFFF).to_bytes(4, "little")
    if unpacker.unused_data != ending:
        raise InvalidInput("its ending does not match its content")
    return plain


def plan_retention(
    entries: Sequence[CheckpointFileInfo], now: datetime, retention: Retention
) -> tuple[list[CheckpointFileInfo], list[CheckpointFileInfo]]:
    """Which plain checkpoints to compress, and which compressed ones are too many. The newest is left alone."""
    newest_first = sorted(entries, key=lambda entry: (-entry.number, entry.compressed))
    plain = [entry for entry in newest_first if not entry.compressed]
    old = [
        entry
        for at, entry in enumerate(plain)
        if at >= retention.plain or (entry is not newest_first[0] and now - entry.modified > retention.age)
    ]
    packed = sorted(
        {entry.number: entry for entry in (*old, *newest_first) if entry.compressed or entry in old}.values(),
        key=lambda entry: -entry.number,
    )
    return old, packed[retention.compressed :]


class CheckpointFiles:
    """The files of one session."""

    def __init__(self, blobs: FileStore, session: str, scope: str) -> None:
        self._blobs = blobs
        self.session = session
        self.scope = scope
        self.path = session_folder(session, scope)

    def list_checkpoints(self) -> list[CheckpointFileInfo]:
        """The checkpoint files, newest first by number; of one number the plain one first."""
        found = []
        for blob in self._blobs.list_files(self.path):
            match = _CHECKPOINT_NAME.fullmatch(_file_name(blob))
            if match:
                found.append(
                    CheckpointFileInfo(int(match[1]), blob.name, blob.size, blob.modified, match[2] is not None)
                )
        return sorted(found, key=lambda entry: (-entry.number, entry.compressed))

    def highest_number(self) -> int:
        """The highest number that any checkpoint has had here, damaged ones included; 0 when there is none."""
        numbers = (
            re.match(r"(?:checkpoint|deltas)_(\d{3,9})\.", _file_name(blob))
            for blob in self._blobs.list_files(self.path)
        )
        return max((int(match[1]) for match in numbers if match), default=0)

    def save(self, checkpoint: Checkpoint) -> str:
        """Writes a checkpoint under its name; returns the name."""
        name = f"{self.path}/checkpoint_{checkpoint.number:03d}.json"
        self._blobs.put(name, encode_checkpoint(checkpoint), at=checkpoint.saved_at)
        return name

    def load(self, entry: CheckpointFileInfo) -> Checkpoint:
        """The checkpoint in a file. Raises ``InvalidInput`` with what is wrong with it."""
        try:
            data = read_whole(self._blobs, entry.name, max_bytes=4 * MAX_STATE_BYTES)
        except FileMissing as error:
            raise InvalidInput("it is gone") from error
        except OSError as error:
            raise InvalidInput(f"it cannot be read ({error.strerror or error})") from error
        return decode_checkpoint(decompress(data) if entry.compressed else data, self.session, self.scope, entry.number)

    def find_newest_valid(self, min_checked: int = 1) -> tuple[Checkpoint | None, list[DamagedCheckpoint]]:
        """Walks back to the newest checkpoint that proves itself; what is damaged among those looked at is told.

        At least ``look`` are looked at, if there are so many.
        """
        damaged: list[DamagedCheckpoint] = []
        found: Checkpoint | None = None
        for at, entry in enumerate(self.list_checkpoints()):
            if found is not None and at >= min_checked:
                break
            try:
                checkpoint = self.load(entry)
                found = found or checkpoint
            except InvalidInput as error:
                damaged.append(DamagedCheckpoint(entry.number, entry.name, error.message))
        return found, damaged

    def rename_damaged(self, damage: DamagedCheckpoint) -> DamagedCheckpoint:
        """Renames a damaged file so that nobody takes it for a checkpoint. Nothing is deleted."""
        content = hashlib.sha256()
        try:
            for piece in self._blobs.read(damage.name):
                content.update(piece)
        except (FileMissing, InvalidInput):
            return damage
        aside = f"{damage.name}.damaged-{content.hexdigest()[:12]}"
        self._blobs.rename(damage.name, aside)
        return replace(damage, moved_to=aside)

    def apply_retention(self, now: datetime, retention: Retention) -> RetentionResult:
        """Compresses and drops by the rule of retention. A file goes only once what stands in for it was read back."""
        old, surplus = plan_retention(self.list_checkpoints(), now, retention)
        compressed: list[int] = []
        dropped: list[int] = []
        damaged: list[int] = []
        for entry in old:
            try:
                checkpoint = self.load(entry)
            except InvalidInput:
                damaged.append(entry.number)
                continue
            target = replace(entry, name=entry.name + ".gz", compressed=True)
            self._blobs.put(target.name, compress(encode_checkpoint(checkpoint)), at=entry.modified)
            if self.load(target) == checkpoint:
                self._blobs.delete(entry.name)
                compressed.append(entry.number)
        newest = self.find_newest_valid()[0] if surplus else None
        for entry in surplus:
            if newest is not None and entry.number < newest.number and entry.number not in damaged:
                self._blobs.delete(entry.name if entry.compressed else entry.name + ".gz")
                dropped.append(entry.number)
        self._drop_old_deltas()
        self._blobs.delete_partial_files(self.path)
        return RetentionResult(tuple(sorted(compressed)), tuple(sorted(dropped)), tuple(sorted(damaged)))

    def _drop_old_deltas(self) -> None:
        """Lines of changes are kept as far back as plain checkpoints go."""
        plain = [entry.number for entry in self.list_checkpoints() if not entry.compressed]
        for number, name in self._delta_files():
            if plain and number < min(plain):
                self._blobs.delete(name)

    # Changes

    def append_delta_lines(self, checkpoint_number: int, lines: Iterable[Mapping[str, Any]]) -> bool:
        """Adds lines to the file of changes since a checkpoint; ``False`` where files cannot grow."""
        data = b"".join(_encode_line(fields) for fields in lines)
        return self._blobs.append(f"{self.path}/deltas_{checkpoint_number:03d}.jsonl", data)

    def read_delta_lines(self) -> list[Mapping[str, Any]]:
        """The lines that are kept, in order. What is torn or damaged is left out."""
        lines = []
        for _, name in self._delta_files():
            try:
                data = read_whole(self._blobs, name)
            except (LukasaError, OSError):
                continue
            lines += [fields for line in data.splitlines() if (fields := _decode_line(line)) is not None]
        return lines

    def _delta_files(self) -> list[tuple[int, str]]:
        matches = ((_DELTAS_NAME.fullmatch(_file_name(blob)), blob.name) for blob in self._blobs.list_files(self.path))
        return sorted((int(match[1]), name) for match, name in matches if match)

    def remove(self) -> int:
        """Removes every file of the session; returns how many there were."""
        found = self._blobs.list_files(self.path)
        for blob in found:
            self._blobs.delete(blob.name)
        self._blobs.delete_partial_files(self.path)
        return len(found)


def remove_mentions(blobs: FileStore, folder: str, words: str) -> int:
    """Removes the files of a folder that say something, letter case aside; returns how many did."""
    spelled = {words.lower(), canonical_json.encode(words).decode()[1:-1].lower()}
    removed = 0
    for blob in blobs.list_files(folder):
        data = read_whole(blobs, blob.name)
        if data.startswith(_GZIP_HEAD):
            try:
                data = decompress(data)
            except InvalidInput:
                data = b""
        text = data.decode("utf-8", "replace").lower()
        if any(word in text for word in spelled):
            blobs.delete(blob.name)
            removed += 1
    return removed


def _file_name(blob: FileInfo) -> str:
    return blob.name.rpartition("/")[2]


def _encode_line(fields: Mapping[str, Any]) -> bytes:
    content = canonical_json.encode(fields)
    return hashlib.sha256(content).hexdigest()[:16].encode() + b" " + content + b"\n"


def _decode_line(line: bytes) -> Mapping[str, Any] | None:
    check, _, content = line.partition(b" ")
    if hashlib.sha256(content).hexdigest()[:16].encode() != check:
        return None
    fields = canonical_json.parse(content)
    return fields if isinstance(fields, dict) else None
