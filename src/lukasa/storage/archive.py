"""Numbered archives under one name in a file store.

    {name}/archive-{id}.tar.gz        written first, read back and compared
    {name}/manifest-{number}.json     written last, and only if the number is free

An archive without a manifest does not count: an interrupted upload leaves such a file, and a later backup deletes it after
a day. Two machines that back up at once get two numbers, because a manifest is only written under a free name. A bucket
that does not guarantee this is detected before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.core.names import find_number
from lukasa.core.outcome import Answer
from lukasa.errors import FileMissing, FileTaken, FormatError, InvalidInput, LukasaError, StoreNewer, StoreUnavailable
from lukasa.storage.encryption import decrypt, encrypt
from lukasa.storage.files import CHUNK_SIZE, FileStore, check_name, read_whole, temporary_folder
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.tar import ArchivedFile, pack, unpack

FORMAT, SCHEMA = "lukasa-backup", 1
DEFAULT_KEEP = 12
_MAX_MANIFEST_BYTES = 64_000_000
_ABANDONED_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Manifest(Answer):
    """The description of an archive: its file, its checksum, the files in it, and facts about their content."""

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
    """The archives of one name. ``alone`` states that no other process writes there, so conditional writes are not needed."""

    def __init__(self, store: FileStore, name: str, clock: Clock, new_id: IdMaker, *, alone: bool = False) -> None:
        self._store = store
        self.name = check_name(name)
        self._clock = clock
        self._new_id = new_id
        self._is_only_writer = alone

    def put(
        self, files: Iterable[tuple[str, Path]], facts: Mapping[str, Any], *, secret: str = "", keep: int = DEFAULT_KEEP
    ) -> Manifest:
        """Pack files and store them as the next archive. The archive was read back and verified on return."""
        if keep < 1:
            raise InvalidInput("At least one backup must be kept.")
        if not self._is_only_writer:
            self.probe()
        with temporary_folder("lukasa-backup-") as folder:
            packed = folder / "archive"
            with packed.open("wb") as target:
                packed_files = tuple(pack(files, target))
            name = f"{self.name}/archive-{self._new_id()}.tar.gz{'.sealed' if secret else ''}"
            size, digest = self._upload(name, packed, secret)
        made_at = to_iso(self._clock.now())
        manifest = self._write_manifest(
            Manifest(0, self.name, made_at, name, size, digest, bool(secret), packed_files, dict(facts))
        )
        self._delete_old(keep)
        return manifest

    def _upload(self, name: str, source: Path, secret: str) -> tuple[int, str]:
        """Upload the archive and read it back, up to three times; return its size and checksum."""
        for attempt in (1, 2, 3):
            sent = hashlib.sha256()
            try:
                self._store.put(name, _read_chunks(source, secret, sent))
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

    def _write_manifest(self, manifest: Manifest) -> Manifest:
        """Write the manifest under the next free number and read it back."""
        number = max(self.numbers(), default=0)
        while True:
            number += 1
            manifest = replace(manifest, number=number)
            body = {"format": FORMAT, "schema": SCHEMA, **asdict(manifest)}
            seal = hashlib.sha256(canonical_json.encode(body)).hexdigest()
            data = canonical_json.encode({**body, "seal": seal}) + b"\n"
            try:
                self._store.put(self._manifest_name(number), data, new=not self._is_only_writer)
            except FileTaken:
                with suppress(LukasaError):
                    if self._read_manifest(number) == data:
                        return manifest  # an earlier attempt wrote it, and only the response was lost
                continue
            if self.manifest(number) != manifest:
                raise StoreUnavailable(f"The manifest {number} of {self.name} came back different; do not rely on it.")
            return manifest

    def probe(self) -> None:
        """Check that a name can be taken only once. Raises ``StoreUnavailable`` if it cannot be relied on."""
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

    def numbers(self) -> list[int]:
        """Return the numbers of the archives, oldest first."""
        return _manifest_numbers(self._store, self.name)

    def manifest(self, number: int | None = None) -> Manifest:
        """Return a manifest; without a number, the newest that can be read."""
        if number is not None:
            return _decode_manifest(self._read_manifest(number), self.name, number)
        failure: LukasaError = FileMissing(f"There is no backup called {self.name}.")
        for newest in reversed(self.numbers()):
            try:
                return self.manifest(newest)
            except (FormatError, InvalidInput) as error:
                failure = error
        raise failure

    def verify(self, number: int | None = None) -> Manifest:
        """Read an archive and compare it with its manifest. Raises ``FormatError`` if they differ."""
        manifest = self.manifest(number)
        try:
            found = self._hash_file(manifest.archive)
        except FileMissing as error:
            others = ", ".join(str(other) for other in self.numbers() if other != manifest.number)
            raise FileMissing(
                f"Backup {manifest.number} of {self.name} is not complete: the file {manifest.archive} is missing.",
                hint=f"Restore another one by its number: {others}." if others else "There is no other backup there.",
            ) from error
        if found != (manifest.size, manifest.sha256):
            raise FormatError(f"{manifest.archive} does not match its manifest: it is damaged.")
        return manifest

    def fetch(self, folder: Path, number: int | None = None, *, secret: str = "") -> Manifest:
        """Extract an archive into a folder. The archive is verified first, so that no damaged one is extracted."""
        manifest = self.verify(number)
        chunks = self._store.read(manifest.archive)
        unpack(decrypt(chunks, secret) if manifest.encrypted else chunks, manifest.files, folder)
        return manifest

    def _delete_old(self, keep: int) -> None:
        """Delete all but the newest archives, their manifests first, and the files of interrupted uploads."""
        for number in self.numbers()[:-keep]:
            archive: str | None = None
            with suppress(LukasaError):
                archive = self.manifest(number).archive
            self._store.delete(self._manifest_name(number))
            if archive is not None:
                self._store.delete(archive)
        self._store.delete_partial_files(self.name)
        try:
            listed = {self.manifest(number).archive for number in self.numbers()}
        except LukasaError:
            return  # no archive is deleted that a damaged manifest may name
        for file in self._store.list_files(self.name):
            is_archive = file.name.startswith(f"{self.name}/archive-")
            if is_archive and file.name not in listed and self._clock.now() - file.modified > _ABANDONED_AFTER:
                self._store.delete(file.name)

    def _hash_file(self, name: str) -> tuple[int, str]:
        """Return the size and SHA-256 of a stored file."""
        size, digest = 0, hashlib.sha256()
        for chunk in self._store.read(name):
            size += len(chunk)
            digest.update(chunk)
        return size, digest.hexdigest()

    def _read_manifest(self, number: int) -> bytes:
        return read_whole(self._store, self._manifest_name(number), max_bytes=_MAX_MANIFEST_BYTES)

    def _manifest_name(self, number: int) -> str:
        return f"{self.name}/manifest-{number:06d}.json"


def list_archive_names(store: FileStore) -> list[str]:
    """Return the names that have archives in a file store."""
    return [name for name in store.list_folders("") if _manifest_numbers(store, name)]


def _manifest_numbers(store: FileStore, name: str) -> list[int]:
    names = (file.name.rpartition("/")[2] for file in store.list_files(name))
    numbers = (find_number(each, "manifest-", ".json", digits=range(6, 13)) for each in names)
    return sorted(number for number in numbers if number is not None)


def _read_chunks(path: Path, secret: str, digest: Any) -> Iterator[bytes]:
    """Yield the chunks of a file, encrypted if there is a secret, and add them to a digest."""
    with path.open("rb") as file:
        plain = iter(lambda: file.read(CHUNK_SIZE), b"")
        for chunk in encrypt(plain, secret) if secret else plain:
            digest.update(chunk)
            yield chunk


def _decode_manifest(data: bytes, name: str, number: int) -> Manifest:
    """Parse a manifest and check all of its fields."""
    try:
        body = canonical_json.decode(data)
        if canonical_json.encode(body) + b"\n" != data:
            raise FormatError(f"The manifest {number} of {name} is not as it was written.")
        seal = body.pop("seal")
        if body["format"] != FORMAT or hashlib.sha256(canonical_json.encode(body)).hexdigest() != seal:
            raise FormatError(f"The manifest {number} of {name} is damaged.")
        if body["schema"] > SCHEMA:
            raise StoreNewer("The backup was written by a newer Lukasa; upgrade Lukasa to read it.")
        files = tuple(ArchivedFile(check_name(item["name"]), item["size"], item["sha256"]) for item in body["files"])
        has_sizes = all(item.size.__class__ is int and item.size >= 0 for item in files)
        if not has_sizes or len({item.name for item in files}) < len(files):
            raise InvalidInput("A manifest names each file once, with its size.")
        manifest = Manifest(
            body["number"], body["name"], to_iso(from_iso(body["made_at"])), check_name(body["archive"]), body["size"],
            body["sha256"], body["encrypted"], files, body["facts"],
        )  # fmt: skip
    except (InvalidInput, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"The manifest {number} of {name} is damaged.") from error
    if (manifest.name, manifest.number) != (name, number) or not manifest.archive.startswith(f"{name}/archive-"):
        raise FormatError(f"The manifest {number} of {name} belongs to another backup.")
    return manifest
