"""A numbered row of archives under one name.

    {name}/archive-{id}.tar.gz        written first, read back and compared
    {name}/manifest-{number}.json     written last, and only if the number is free

What has no manifest is no archive: an upload that was broken off leaves a file that nobody refers to, and the next backup
clears it away after a day. Two machines that back up at once get two numbers, because a manifest is written only where
there is none. A bucket that does not keep that promise is found out before anything is written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lukasa import canonical_json
from lukasa.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.errors import FileMissing, FileTaken, FormatError, InvalidInput, LukasaError, StoreNewer, StoreUnavailable
from lukasa.storage.encryption import decrypt, encrypt
from lukasa.storage.files import CHUNK_SIZE, FileStore, check_name, read_whole
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.tar import ArchivedFile, pack, unpack

FORMAT, SCHEMA = "lukasa-backup", 1
DEFAULT_KEEP = 12
_MANIFEST_NAME = re.compile(r"manifest-(\d{6,12})\.json")
_MAX_MANIFEST_BYTES = 64_000_000
_ABANDONED_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds, and how it proves itself."""

    number: int
    name: str
    made_at: str
    archive: str
    size: int
    sha256: str
    encrypted: bool
    files: tuple[ArchivedFile, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


class Archives:
    """Keeps archives of one name. ``alone`` says that nobody else writes there, so that no promise is needed."""

    def __init__(self, store: FileStore, name: str, clock: Clock, new_id: IdMaker, *, alone: bool = False) -> None:
        self._store = store
        self.name = check_name(name)
        self._clock = clock
        self._new_id = new_id
        self._is_only_writer = alone

    def put(
        self,
        files: Iterable[tuple[str, Path]],
        facts: Mapping[str, Any],
        *,
        secret: str = "",
        keep: int = DEFAULT_KEEP,
    ) -> Manifest:
        """Packs files and keeps them as the next archive, read back and proved before this returns."""
        if keep < 1:
            raise InvalidInput("At least one backup is kept.")
        if not self._is_only_writer:
            self.probe()
        with TemporaryDirectory(prefix="lukasa-backup-") as folder:
            packed = Path(folder) / "archive"
            with packed.open("wb") as target:
                listed = pack(files, target)
            name = f"{self.name}/archive-{self._new_id()}.tar.gz{'.sealed' if secret else ''}"
            size, digest = self._upload(name, packed, secret)
        manifest = self._write_manifest(
            lambda number: Manifest(
                number,
                self.name,
                to_iso(self._clock.now()),
                name,
                size,
                digest,
                bool(secret),
                tuple(listed),
                dict(facts),
            )
        )
        self._delete_old(keep)
        return manifest

    def _upload(self, name: str, source: Path, secret: str) -> tuple[int, str]:
        """Sends the archive and reads it back; what was sent last is what counts, so trying again is safe."""
        for attempt in (1, 2, 3):
            sent = hashlib.sha256()
            try:
                self._store.put(
                    name, _hash_chunks(encrypt(_read_chunks(source), secret) if secret else _read_chunks(source), sent)
                )
                size, digest = self._hash_file(name)
            except (StoreUnavailable, FileMissing):
                if attempt == 3:
                    raise
                continue
            if digest == sent.hexdigest():
                return size, digest
        with suppress(LukasaError):
            self._store.delete(name)
        raise StoreUnavailable(f"{name} came back different from what was sent; nothing was backed up.")

    def _write_manifest(self, build_manifest: Callable[[int], Manifest]) -> Manifest:
        """Writes the manifest under the next free number, and reads it back."""
        number = max(self.numbers(), default=0) + 1
        while True:
            manifest = build_manifest(number)
            data = _encode_manifest(manifest)
            try:
                self._store.put(self._manifest_name(number), data, new=not self._is_only_writer)
            except FileTaken:
                if self._has_manifest(number, data):
                    return manifest  # it was ours: the answer to an earlier attempt got lost
                number += 1
                continue
            if self.manifest(number) != manifest:
                raise StoreUnavailable(f"The manifest {number} of {self.name} came back different; do not rely on it.")
            return manifest

    def _has_manifest(self, number: int, data: bytes) -> bool:
        try:
            return read_whole(self._store, self._manifest_name(number), max_bytes=_MAX_MANIFEST_BYTES) == data
        except LukasaError:
            return False

    def probe(self) -> None:
        """Proves that a name is given only once. Raises ``StoreUnavailable`` if it is not."""
        if isinstance(self._store, LocalFiles):
            return
        name = f"{self.name}/probe-{self._new_id()}"
        self._store.put(name, b"first", new=True)
        try:
            self._store.put(name, b"second", new=True)
        except FileTaken:
            return
        finally:
            self._store.delete(name)
        raise StoreUnavailable(
            "The bucket ignores conditional writes, so two backups at once could overwrite each other.",
            hint="Use another bucket, or say that only this machine writes there (alone).",
        )

    # Looking

    def numbers(self) -> list[int]:
        """The numbers of the archives, oldest first."""
        matches = (_MANIFEST_NAME.fullmatch(blob.name.rpartition("/")[2]) for blob in self._store.list_files(self.name))
        return sorted(int(match[1]) for match in matches if match)

    def manifest(self, number: int | None = None) -> Manifest:
        """A manifest; the newest one that can be read if none is named."""
        if number is not None:
            return _decode_manifest(
                read_whole(self._store, self._manifest_name(number), max_bytes=_MAX_MANIFEST_BYTES), self.name, number
            )
        fault: LukasaError | None = None
        for newest in reversed(self.numbers()):
            try:
                return self.manifest(newest)
            except (FormatError, InvalidInput) as error:
                fault = error
        if fault is not None:
            raise fault
        raise FileMissing(f"There is no backup called {self.name}.")

    def verify(self, number: int | None = None) -> Manifest:
        """Reads an archive back whole and compares it with its manifest. Raises ``FormatError`` when they differ."""
        manifest = self.manifest(number)
        size, digest = self._hash_file(manifest.archive)
        if (size, digest) != (manifest.size, manifest.sha256):
            raise FormatError(f"{manifest.archive} does not match its manifest: it is damaged.")
        return manifest

    def fetch(self, folder: Path, number: int | None = None, *, secret: str = "") -> Manifest:
        """Takes an archive apart into a folder. It is proved first, so nothing damaged is taken apart at all."""
        manifest = self.verify(number)
        pieces = self._store.read(manifest.archive)
        unpack(decrypt(pieces, secret) if manifest.encrypted else pieces, manifest.files, folder)
        return manifest

    def _delete_old(self, keep: int) -> None:
        """Removes archives beyond the newest few, their manifests first, and what broken uploads left."""
        for number in self.numbers()[:-keep]:
            try:
                archive: str | None = self.manifest(number).archive
            except LukasaError:
                archive = None
            self._store.delete(self._manifest_name(number))
            if archive is not None:
                self._store.delete(archive)
        referred = {self.manifest(number).archive for number in self.numbers()}
        for blob in self._store.list_files(self.name):
            started = blob.name.startswith(f"{self.name}/archive-")
            if started and blob.name not in referred and self._clock.now() - blob.modified > _ABANDONED_AFTER:
                self._store.delete(blob.name)
        self._store.delete_partial_files(self.name)

    def _hash_file(self, name: str) -> tuple[int, str]:
        size, digest = 0, hashlib.sha256()
        for piece in self._store.read(name):
            size += len(piece)
            digest.update(piece)
        return size, digest.hexdigest()

    def _manifest_name(self, number: int) -> str:
        return f"{self.name}/manifest-{number:06d}.json"


def list_archive_names(store: FileStore) -> list[str]:
    """What there are archives of."""
    return [
        name
        for name in store.list_folders("")
        if any(_MANIFEST_NAME.fullmatch(_base_name(blob.name)) for blob in store.list_files(name))
    ]


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_SIZE):
            yield piece


def _hash_chunks(chunks: Iterable[bytes], digest: Any) -> Iterator[bytes]:
    for piece in chunks:
        digest.update(piece)
        yield piece


def _encode_manifest(manifest: Manifest) -> bytes:
    body = {"format": FORMAT, "schema": SCHEMA, **asdict(manifest)}
    return canonical_json.encode({**body, "seal": hashlib.sha256(canonical_json.encode(body)).hexdigest()}) + b"\n"


def _decode_manifest(data: bytes, name: str, number: int) -> Manifest:
    """The manifest in a file; everything in it is checked before anything is done with it."""
    try:
        body = canonical_json.decode(data)
        if canonical_json.encode(body) + b"\n" != data:
            raise FormatError(f"The manifest {number} of {name} is not as it was written.")
        seal = body.pop("seal")
        if body["format"] != FORMAT or hashlib.sha256(canonical_json.encode(body)).hexdigest() != seal:
            raise FormatError(f"The manifest {number} of {name} is damaged.")
        if body["schema"] > SCHEMA:
            raise StoreNewer("The backup was written by a newer Lukasa; upgrade Lukasa to read it.")
        manifest = Manifest(
            body["number"], body["name"], to_iso(from_iso(body["made_at"])), check_name(body["archive"]), body["size"],
            body["sha256"], body["encrypted"], _parse_files(body["files"]), body["facts"],
        )  # fmt: skip
    except (InvalidInput, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"The manifest {number} of {name} is damaged.") from error
    if (manifest.name, manifest.number) != (name, number) or not manifest.archive.startswith(f"{name}/archive-"):
        raise FormatError(f"The manifest {number} of {name} belongs to another backup.")
    return manifest


def _parse_files(items: Sequence[Mapping[str, Any]]) -> tuple[ArchivedFile, ...]:
    files = tuple(ArchivedFile(check_name(item["name"]), item["size"], item["sha256"]) for item in items)
    sound = all(item.size.__class__ is int and item.size >= 0 for item in files)
    if not sound or len({item.name for item in files}) < len(files):
        raise InvalidInput("A manifest names each file once, with its size.")
    return files
