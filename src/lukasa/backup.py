"""Backups of a whole store, in a folder or a bucket, and bringing one back with a proof.

A backup is a consistent snapshot of the database as its engine makes it, and the files that go with it. What the
snapshot's log holds is noted beside it: how many versions, and the hash of their digests. Bringing it back goes to a new
place first; it takes its name only when the log there has been verified and has that very hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets as chance
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from lukasa.archive import Archives, Manifest
from lukasa.archive.room import KEEP, names
from lukasa.blob import Blobs, sync_folder
from lukasa.blobs import FolderBlobs
from lukasa.clock import Clock, IdMaker
from lukasa.config import Place
from lukasa.copying import copy_log
from lukasa.engine import Query
from lukasa.errors import FileMissing, FormatError, InvalidInput, StoreDamaged
from lukasa.journal import Journal

Opening = Callable[[Place], AbstractContextManager[Journal]]
"""Opens the store at a place as its owner; it is made if there is none."""

SNAPSHOT = "store"
FILES = "files"


@dataclass(frozen=True, slots=True)
class Restored:
    """What was brought back, and the proof: the log there has so many versions, with this hash."""

    manifest: Manifest
    place: str
    versions: int
    digest: str
    files: int


def name_of(place: Place) -> str:
    """What a store's backups are called: after its file or its database."""
    own = place.path.name if place.path is not None else unquote(urlsplit(place.url).path).strip("/")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-.")[:100] or "store"


def back_up(
    journal: Journal,
    place: Place,
    files: Blobs | None,
    target: Blobs,
    opening: Opening,
    clock: Clock,
    new_id: IdMaker,
    *,
    secret: str = "",
    keep: int = KEEP,
    alone: bool = False,
) -> Manifest:
    """Backs a whole store up; the archive was read back and proved when this returns."""
    archives = Archives(target, name_of(place), clock, new_id, alone=alone)
    with TemporaryDirectory(prefix="lukasa-backup-") as folder:
        snapshot = Path(folder) / SNAPSHOT
        journal.backup(snapshot)
        facts = {
            "engine": "postgresql" if place.engine == "postgresql" else "sqlite",
            **_facts(place, snapshot, opening),
        }
        carried = [(SNAPSHOT, snapshot), *_beside(files, Path(folder) / FILES)]
        return archives.put(carried, facts, secret=secret, keep=keep)


def _facts(place: Place, snapshot: Path, opening: Opening) -> Mapping[str, Any]:
    """What the snapshot's log holds, read from the snapshot itself."""
    if place.engine == "postgresql":
        return {"versions": _dumped_versions(snapshot)}
    copy = snapshot.with_name("looked-at")
    shutil.copyfile(snapshot, copy)  # looking may leave side files; the snapshot stays as it is
    with opening(Place("sqlite", copy)) as journal:
        versions, digest = log_digest(journal)
    return {"versions": versions, "digest": digest}


def _dumped_versions(snapshot: Path) -> int:
    with zipfile.ZipFile(snapshot) as archive, archive.open("log") as rows:
        return sum(piece.count(b"\n") for piece in iter(lambda: rows.read(1 << 20), b""))


def log_digest(journal: Journal) -> tuple[int, str]:
    """How many versions a log holds, and the hash of their digests in order: the seal of its export."""
    seal, count = hashlib.sha256(), 0
    for record in journal.read(Query(every_version=True, hidden=True)):
        seal.update(record.digest)
        count += 1
    return count, seal.hexdigest()


def _beside(files: Blobs | None, folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that go with a store. Those of a folder may change meanwhile, so each is copied first, whole."""
    if not isinstance(files, FolderBlobs):
        return
    for session in files.folders("sessions"):
        for blob in files.find(f"sessions/{session}"):
            copy = folder / str(chance.token_hex(8))
            copy.parent.mkdir(exist_ok=True)
            try:
                copy.write_bytes(b"".join(files.read(blob.name)))
            except FileMissing:
                continue  # retention was faster
            yield f"{FILES}/{blob.name}", copy


def find_archives(target: Blobs, name: str | None, clock: Clock, new_id: IdMaker) -> Archives:
    """The archives of a name; without one, the only ones there."""
    if name is None:
        found = [known for known in names(target) if not known.startswith("session-")]
        if len(found) != 1:
            told = ", ".join(found) if found else "none"
            raise InvalidInput(f"The backups there are called: {told}.", hint="Say which one you mean by its name.")
        name = found[0]
    return Archives(target, name, clock, new_id)


def restore(
    archives: Archives,
    place: Place,
    files: Path | None,
    opening: Opening,
    load: Callable[[str, Path], None],
    *,
    number: int | None = None,
    secret: str = "",
) -> Restored:
    """Brings a store back at a place where there is none. ``load`` puts a server's snapshot into an empty database."""
    if place.engine == "memory":
        raise InvalidInput("A store in memory is gone when the program ends.", hint="Name a file or a database.")
    for taken in (place.path, None if files is None else files / "sessions"):
        if taken is not None and taken.exists():
            raise InvalidInput(f"{taken} is there already; a backup never overwrites.")
    beside = place.path.parent if place.path is not None else None
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".lukasa-restore-", dir=beside) as folder:
        unpacked = Path(folder) / "unpacked"
        manifest = archives.fetch(unpacked, number, secret=secret)
        if "engine" not in manifest.facts:
            raise FormatError(f"{archives.name} is the backup of a session, not of a store.")
        versions, digest = _bring_back(unpacked / SNAPSHOT, manifest, place, opening, load)
        count = _place_files(unpacked / FILES, files)
        if place.path is not None:
            (unpacked / SNAPSHOT).rename(place.path)
            sync_folder(place.path.parent)
    return Restored(manifest, str(place), versions, digest, count)


def _bring_back(
    snapshot: Path, manifest: Manifest, place: Place, opening: Opening, load: Callable[[str, Path], None]
) -> tuple[int, str]:
    """Proves the snapshot, and puts it into the database if that is on a server."""
    if manifest.facts["engine"] == "postgresql":
        if place.engine != "postgresql":
            raise InvalidInput(
                "This is the backup of a PostgreSQL store.",
                hint="Restore it into an empty database, then `lukasa copy` it to a file.",
            )
        load(place.url, snapshot)
        with opening(place) as journal:
            return _prove(journal, manifest)
    with opening(Place("sqlite", snapshot)) as journal:
        proved = _prove(journal, manifest)
        if place.engine == "postgresql":
            with opening(place) as target:
                if target.tip():
                    raise InvalidInput("There are records in this database already; restore into an empty one.")
                if not copy_log(journal, target).proof.holds:
                    raise StoreDamaged(f"What arrived in {place} is not what was backed up; do not use it.")
    if snapshot.with_name(snapshot.name + "-wal").exists():
        raise StoreDamaged("What was restored is still being written; nothing was put in its place.")
    return proved


def _prove(journal: Journal, manifest: Manifest) -> tuple[int, str]:
    """The log's versions and hash, once they are those of the manifest and every line is sound."""
    verdict = journal.verify()
    if not verdict.sound:
        raise StoreDamaged(f"What was restored is damaged: {verdict.findings[0].what}.")
    versions, digest = log_digest(journal)
    if versions != manifest.facts["versions"] or manifest.facts.get("digest", digest) != digest:
        raise StoreDamaged("What was restored is not the log that was backed up.")
    return versions, digest


def _place_files(source: Path, target: Path | None) -> int:
    """Puts the files where the store looks for them; returns how many there are."""
    if target is None or not source.exists():
        return 0
    count = sum(path.is_file() for path in source.rglob("*"))
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in source.iterdir():
        shutil.move(entry, target / entry.name)
    sync_folder(target)
    return count
