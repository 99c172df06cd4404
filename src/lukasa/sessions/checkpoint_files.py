"""Checkpoint files: ``sessions/{session}/checkpoint_{NNN}.json``, each with its own checksum.

A file is a session's state with one more section, ``checkpoint``: session, number, last change, time of saving, whether
the session was closed then, and the SHA-256 of the whole. It is written in canonical JSON, so a file is either exactly
as it was written or damaged; there is nothing in between.

``deltas_{NNN}.jsonl`` in the same folder holds the changes since, each line with its own checksum. The log makes a change
durable; these lines are a second copy for the case that the log is lost.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.names import LOWER, find_number, is_plain_name, make_slug
from lukasa.core.outcome import Answer
from lukasa.core.scope import SHARED
from lukasa.errors import FileMissing, FormatError, InvalidInput, LukasaError
from lukasa.sessions.holder import is_holder_alive
from lukasa.sessions.state import (
    CHECKPOINT_SECTION,
    MAX_STATE_BYTES,
    SCHEMA,
    SessionState,
    find_state_fault,
    upgrade_state,
)
from lukasa.storage.archive import Archives, Manifest
from lukasa.storage.files import FileInfo, FileStore, read_whole, temporary_folder
from lukasa.text.terms import whole_words_pattern

CHECKPOINT_FORMAT = "lukasa-checkpoint"
_DIGITS = range(3, 10)
_HEX_DIGITS = frozenset("0123456789abcdef")
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_MAX_BACKUP_FILE_BYTES = 1 << 30
_MAX_HOLDER_BYTES = 10_000
_LAST_LINES = 8


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A session's whole state at one moment. ``upto`` is the last change in it; ``clean`` means the session was closed."""

    session: str
    scope: str
    number: int
    upto: int
    saved_at: datetime
    state: SessionState
    clean: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """Changes of a state that were made as one, and their time.

    Without ``at`` they do not set the state's time of last update. Without ``changes`` the whole state was replaced: only
    a checkpoint with this change or a later one has the new state.
    """

    number: int
    at: str
    changes: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class CheckpointFileInfo:
    """A checkpoint file in a listing."""

    number: int
    name: str
    size: int
    modified: datetime
    compressed: bool


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """A checkpoint file that cannot be used, the reason, and its new name if it was renamed."""

    number: int
    name: str
    reason: str
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """Number of checkpoints to keep: the newest ``plain`` ones as they are unless older than ``age``, then up to
    ``compressed`` compressed ones."""

    plain: int = 10
    compressed: int = 100
    age: timedelta = timedelta(hours=24)

    def __post_init__(self) -> None:
        if self.plain < 1 or self.compressed < 0 or self.age < timedelta(0):
            raise InvalidInput("Retention keeps at least one plain checkpoint, and no negative number of others.")


@dataclass(frozen=True, slots=True)
class RetentionResult(Answer):
    """Numbers of the checkpoints that were compressed, dropped, or kept because they are damaged."""

    compressed: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    kept_damaged: tuple[int, ...] = ()


def short_hash(*names: str) -> str:
    """Return a hash of names in 24 characters, whatever characters the names have."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def session_folder(session: str, scope: str = SHARED) -> str:
    """Return the folder of a session: its id if that is plain and the scope shared, else a slug and a hash.

    Two scopes may each have a session of the same id; their files never meet.
    """
    is_plain = is_plain_name(session, "._-", 100, letters=LOWER)
    if is_plain and not session.endswith(".") and scope == SHARED:
        return f"sessions/{session}"
    slug = make_slug(session.lower()[:200])[:40]
    return f"sessions/{slug or 'session'}~{short_hash(scope, session)}"


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint file."""
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
    """Parse a checkpoint file. Raises ``InvalidInput`` with the reason unless it is exactly as it was written."""
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
    """Compress with gzip, without a time or a name: the same bytes give the same file."""
    return _GZIP_HEAD + zlib.compress(data, 6, _GZIP_FORMAT)[len(_GZIP_HEAD) :]


def decompress(data: bytes, *, max_bytes: int = 4 * MAX_STATE_BYTES) -> bytes:
    """Undo ``compress``. Stop at ``max_bytes``, however much a hostile file would expand to."""
    if not data.startswith(_GZIP_HEAD):
        raise InvalidInput("it is not a compressed checkpoint")
    decompressor = zlib.decompressobj(_GZIP_FORMAT)
    try:
        plain = decompressor.decompress(data, max_bytes)
    except zlib.error as error:
        raise InvalidInput("it cannot be decompressed") from error
    if not decompressor.eof or decompressor.unused_data:
        raise InvalidInput("it is cut off or too large")
    return plain


def plan_retention(
    entries: Sequence[CheckpointFileInfo], now: datetime, retention: Retention
) -> tuple[list[CheckpointFileInfo], list[CheckpointFileInfo]]:
    """Return the plain checkpoints to compress and the compressed ones to drop. The newest is left alone."""
    newest_first = sorted(entries, key=lambda entry: (-entry.number, entry.compressed))
    plain = [entry for entry in newest_first if not entry.compressed]
    old = [
        entry
        for index, entry in enumerate(plain)
        if index >= retention.plain or (entry is not newest_first[0] and now - entry.modified > retention.age)
    ]
    compressed = sorted(
        {entry.number: entry for entry in (*old, *newest_first) if entry.compressed or entry in old}.values(),
        key=lambda entry: -entry.number,
    )
    return old, compressed[retention.compressed :]


def _deltas_number(name: str) -> int | None:
    return find_number(name, "deltas_", ".jsonl", digits=_DIGITS)


def _any_number(name: str) -> int | None:
    """Return the number in the name of a file of checkpoints or changes, whatever follows the number."""
    stem, dot, _ = name.partition(".")
    known = (find_number(stem, prefix, digits=_DIGITS) for prefix in ("checkpoint_", "deltas_"))
    return next((number for number in known if dot and number is not None), None)


def _is_holder_file(file: FileInfo) -> bool:
    token = _file_name(file).removeprefix("holder_").removesuffix(".json")
    return _file_name(file) == f"holder_{token}.json" and is_plain_name(token, "", 32, letters=_HEX_DIGITS)


class CheckpointFiles:
    """Files of one session."""

    def __init__(self, blobs: FileStore, session: str, scope: str) -> None:
        self._blobs = blobs
        self.session = session
        self.scope = scope
        self.path = session_folder(session, scope)

    def list_checkpoints(self) -> list[CheckpointFileInfo]:
        """Return the checkpoint files, highest number first; of one number the plain file first."""
        found = [
            CheckpointFileInfo(number, file.name, file.size, file.modified, file.name.endswith(".gz"))
            for file in self.list_files()
            if (number := find_number(_file_name(file), "checkpoint_", ".json", ".json.gz", digits=_DIGITS)) is not None
        ]
        return sorted(found, key=lambda entry: (-entry.number, entry.compressed))

    def highest_number(self) -> int:
        """Return the highest number of any checkpoint here, damaged ones included; 0 when there is none."""
        return max((_any_number(_file_name(file)) or 0 for file in self.list_files()), default=0)

    def save(self, checkpoint: Checkpoint) -> str:
        """Write a checkpoint; return the name of its file."""
        name = f"{self.path}/checkpoint_{checkpoint.number:03d}.json"
        self._blobs.put(name, encode_checkpoint(checkpoint), at=checkpoint.saved_at)
        return name

    def load(self, entry: CheckpointFileInfo) -> Checkpoint:
        """Read a checkpoint. Raises ``InvalidInput`` with the reason when the file is damaged."""
        try:
            data = read_whole(self._blobs, entry.name, max_bytes=4 * MAX_STATE_BYTES)
        except FileMissing as error:
            raise InvalidInput("it is gone") from error
        except OSError as error:
            raise InvalidInput(f"it cannot be read ({error.strerror or error})") from error
        return decode_checkpoint(decompress(data) if entry.compressed else data, self.session, self.scope, entry.number)

    def find_fault(self, entry: CheckpointFileInfo) -> str | None:
        """Return why a checkpoint file cannot be used, or None."""
        try:
            self.load(entry)
        except InvalidInput as error:
            return error.message
        return None

    def find_newest_valid(self, min_checked: int = 1) -> tuple[Checkpoint | None, list[DamagedCheckpoint]]:
        """Return the newest valid checkpoint and the damaged ones among those that were read.

        At least ``min_checked`` checkpoints are read, if there are that many.
        """
        damaged: list[DamagedCheckpoint] = []
        newest: Checkpoint | None = None
        for index, entry in enumerate(self.list_checkpoints()):
            if newest is not None and index >= min_checked:
                break
            try:
                checkpoint = self.load(entry)
                newest = newest or checkpoint
            except InvalidInput as error:
                damaged.append(DamagedCheckpoint(entry.number, entry.name, error.message))
        return newest, damaged

    def find_checkpoint(self, number: int) -> Checkpoint | None:
        """Return the valid checkpoint of a number, or None."""
        for entry in self.list_checkpoints():
            if entry.number == number:
                with suppress(InvalidInput):  # damaged: the compressed file of the same number may be valid
                    return self.load(entry)
        return None

    def rename_damaged(self, damage: DamagedCheckpoint) -> DamagedCheckpoint:
        """Rename a damaged file so that it no longer counts as a checkpoint. Nothing is deleted."""
        content = hashlib.sha256()
        try:
            for chunk in self._blobs.read(damage.name):
                content.update(chunk)
        except (FileMissing, InvalidInput):
            return damage
        new_name = f"{damage.name}.damaged-{content.hexdigest()[:12]}"
        self._blobs.rename(damage.name, new_name)
        return replace(damage, moved_to=new_name)

    def apply_retention(self, now: datetime, retention: Retention) -> RetentionResult:
        """Compress and drop checkpoints. A file is deleted only after its compressed copy was read back.

        Files of changes are kept as far back as plain checkpoints go.
        """
        old, surplus = plan_retention(self.list_checkpoints(), now, retention)
        compressed, dropped, damaged = list[int](), list[int](), list[int]()
        for entry in old:
            try:
                checkpoint = self.load(entry)
            except InvalidInput:
                damaged.append(entry.number)
                continue
            copy = replace(entry, name=entry.name + ".gz", compressed=True)
            self._blobs.put(copy.name, compress(encode_checkpoint(checkpoint)), at=entry.modified)
            if self.load(copy) == checkpoint:
                self._blobs.delete(entry.name)
                compressed.append(entry.number)
        newest = self.find_newest_valid()[0] if surplus else None
        for entry in surplus:
            if newest is not None and entry.number < newest.number and entry.number not in damaged:
                self._blobs.delete(entry.name if entry.compressed else entry.name + ".gz")
                dropped.append(entry.number)
        plain = [entry.number for entry in self.list_checkpoints() if not entry.compressed]
        for number, name in self._delta_files():
            if plain and number < min(plain):
                self._blobs.delete(name)
        self._blobs.delete_partial_files(self.path)
        return RetentionResult(tuple(sorted(compressed)), tuple(sorted(dropped)), tuple(sorted(damaged)))

    def append_delta_line(self, checkpoint_number: int, fields: Mapping[str, Any]) -> bool:
        """Append a line to the file of changes since a checkpoint; return False where files cannot grow."""
        content = canonical_json.encode(fields)
        line = _line_checksum(content) + b" " + content + b"\n"
        return self._blobs.append(f"{self.path}/deltas_{checkpoint_number:03d}.jsonl", line)

    def read_delta_lines(self) -> list[Mapping[str, Any]]:
        """Return the lines of changes in order, without torn or damaged ones."""
        lines: list[Mapping[str, Any]] = []
        for _, name in self._delta_files():
            try:
                data = read_whole(self._blobs, name)
            except (LukasaError, OSError):
                continue
            for line in data.splitlines():
                checksum, _, content = line.partition(b" ")
                if checksum == _line_checksum(content) and isinstance(fields := canonical_json.parse(content), dict):
                    lines.append(fields)
        return lines

    def may_exceed(self, number: int, upto: int, file_list: Sequence[FileInfo]) -> bool:
        """Return whether these files may have a checkpoint or a change beyond those numbers; only last lines are read."""
        for file in file_list:
            base = _file_name(file)
            numbered = _any_number(base)
            if numbered is None:
                continue
            if numbered > number:
                return True
            if _deltas_number(base) is not None:
                try:
                    lines = read_whole(self._blobs, file.name).rsplit(b"\n", _LAST_LINES)[-_LAST_LINES:]
                    found = [canonical_json.parse(line.partition(b" ")[2]).get("n", 0) for line in lines if line]
                except (LukasaError, OSError, ValueError, AttributeError):
                    return True
                if any(not isinstance(change, int) or change > upto for change in found):
                    return True
        return False

    def list_files(self) -> list[FileInfo]:
        """Return the files of the session."""
        return self._blobs.list_files(self.path)

    def _delta_files(self) -> list[tuple[int, str]]:
        numbered = ((_deltas_number(_file_name(file)), file.name) for file in self.list_files())
        return sorted((number, name) for number, name in numbered if number is not None)

    def add_holder(self, holder: Mapping[str, Any]) -> None:
        """Write the file of a process that opens the session, and delete the files of processes that have ended."""
        for name, known in self._read_holders():
            if not is_holder_alive(known):
                self._blobs.delete(name)
        self._blobs.put(self._holder_name(holder), canonical_json.encode(dict(holder)) + b"\n")

    def remove_holder(self, holder: Mapping[str, Any]) -> None:
        """Delete the file of a process that closes the session."""
        self._blobs.delete(self._holder_name(holder))

    def is_held(self) -> bool:
        """Return whether a running process of this machine has the session open."""
        return any(is_holder_alive(holder) for _, holder in self._read_holders())

    def _holder_name(self, holder: Mapping[str, Any]) -> str:
        return f"{self.path}/holder_{holder['token']}.json"

    def _read_holders(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for file in filter(_is_holder_file, self.list_files()):
            try:
                holder = canonical_json.parse(read_whole(self._blobs, file.name, max_bytes=_MAX_HOLDER_BYTES))
            except (LukasaError, OSError, ValueError):
                holder = None
            found.append((file.name, holder))
        return found

    def remove(self) -> list[str]:
        """Delete every file of the session and its folder; return the names of the files."""
        return remove_files(self._blobs, self.file_names(), [self.path])

    def file_names(self) -> list[str]:
        """Return the names of the session's files."""
        return [file.name for file in self.list_files()]

    @property
    def backup_name(self) -> str:
        """Name of the session's backups."""
        return "session-" + self.path.removeprefix("sessions/")

    def back_up(self, archives: Archives, *, secret: str, keep: int) -> Manifest:
        """Back up every file of the session as one archive."""
        with temporary_folder("lukasa-session-") as folder:
            copies = []
            for index, file in enumerate(self._blobs.list_files(self.path)):
                copy = folder / str(index)
                try:
                    copy.write_bytes(read_whole(self._blobs, file.name, max_bytes=_MAX_BACKUP_FILE_BYTES))
                except FileMissing:
                    continue  # retention has deleted it meanwhile
                copies.append((_file_name(file), copy))
            if not copies:
                raise InvalidInput(
                    f"The session {self.session[:80]!r} has no files to back up.", hint="Save a checkpoint."
                )
            return archives.put(copies, {"session": self.session, "scope": self.scope}, secret=secret, keep=keep)

    def restore(self, archives: Archives, *, number: int | None, secret: str) -> Manifest:
        """Write the files of a backup. Refused when the session has files already."""
        if self._blobs.list_files(self.path):
            raise InvalidInput(f"The session {self.session[:80]!r} has files already; a backup never overwrites.")
        with temporary_folder("lukasa-session-") as folder:
            unpacked = folder / "unpacked"
            manifest = archives.fetch(unpacked, number, secret=secret)
            if (manifest.facts.get("session"), manifest.facts.get("scope")) != (self.session, self.scope):
                raise FormatError(f"{archives.name} is the backup of another session.")
            for item in sorted(manifest.files, key=lambda item: item.name):
                self._blobs.put(f"{self.path}/{item.name}", (unpacked / item.name).read_bytes())
        return manifest


def remove_files(blobs: FileStore, names: Sequence[str], folders: Iterable[str]) -> list[str]:
    """Delete files, the partial files in folders, and the folders that are empty then; return the names."""
    removed = list(names)
    for name in names:
        blobs.delete(name)
    for folder in folders:
        removed += [f"{folder}/*.part"] * blobs.delete_partial_files(folder)
        blobs.delete(folder)
    return removed


def find_mentions(blobs: FileStore, words: str, exact: bool = False) -> list[str]:
    """Return the names of the files in session folders that the words name, or that contain them as whole words."""
    fold = str if exact else str.casefold
    patterns = [whole_words_pattern(fold(form)) for form in {words, canonical_json.encode_text(words)[1:-1]}]
    slug = make_slug(words.lower())
    folders = [whole_words_pattern(words.lower()), *([whole_words_pattern(slug)] if slug else [])]
    found = []
    for folder in blobs.list_folders("sessions"):
        is_named = any(pattern.search(folder.lower()) for pattern in folders)
        for file in blobs.list_files(f"sessions/{folder}"):
            data = b"" if is_named else read_whole(blobs, file.name)
            if data.startswith(_GZIP_HEAD):
                with suppress(InvalidInput):
                    data = decompress(data)
            text = fold(data.decode("utf-8", "replace"))
            if is_named or any(pattern.search(text) for pattern in patterns):
                found.append(file.name)
    return found


def _file_name(file: FileInfo) -> str:
    return file.name.rpartition("/")[2]


def _line_checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:16].encode()
