"""Backups of a whole store, in a folder or a bucket, and bringing one back with a proof.

A backup is a consistent snapshot of the database as its engine makes it, and the files that go with it. What the
snapshot's log holds is noted beside it: how many versions, and the hash of their digests. Bringing it back goes to a new
place first; it takes its name only when the log there has been verified and has that very hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from lukasa.clock import Clock, IdMaker
from lukasa.errors import FileMissing, FormatError, InvalidInput, StoreDamaged
from lukasa.journal import Journal
from lukasa.storage.archive import DEFAULT_KEEP, Archives, Manifest, list_archive_names
from lukasa.storage.engine import Query
from lukasa.storage.files import FileStore, sync_folder
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.location import StoreLocation
from lukasa.transfer.copy import copy_log

OpenJournal = Callable[[StoreLocation], AbstractContextManager[Journal]]
"""Opens the store at a place as its owner; it is made if there is none."""

SNAPSHOT = "store"
FILES = "files"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What was brought back, and the proof: the log there has so many versions, with this hash."""

    manifest: Manifest
    place: str
    versions: int
    digest: str
    files: int


def store_backup_name(location: StoreLocation) -> str:
    """What a store's backups are called: after its file or its database."""
    own = location.path.name if location.path is not None else unquote(urlsplit(location.url).path).strip("/")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-.")[:100] or "store"


def back_up_store(
    journal: Journal,
    location: StoreLocation,
    files: FileStore | None,
    target: FileStore,
    open_journal: OpenJournal,
    clock: Clock,
    new_id: IdMaker,
    *,
    secret: str = "",
    keep: int = DEFAULT_KEEP,
    alone: bool = False,
) -> Manifest:
    """Backs a whole store up; the archive was read back and proved when this returns."""
    archives = Archives(target, store_backup_name(location), clock, new_id, alone=alone)
    with TemporaryDirectory(prefix="lukasa-backup-") as folder:
        snapshot = Path(folder) / SNAPSHOT
        journal.backup(snapshot)
        facts = {
            "engine": "postgresql" if location.engine == "postgresql" else "sqlite",
            **_snapshot_facts(location, snapshot, open_journal),
        }
        carried = [(SNAPSHOT, snapshot), *_copy_session_files(files, Path(folder) / FILES)]
        return archives.put(carried, facts, secret=secret, keep=keep)


def _snapshot_facts(location: StoreLocation, snapshot: Path, open_journal: OpenJournal) -> Mapping[str, Any]:
    """What the snapshot's log holds, read from the snapshot itself."""
    if location.engine == "postgresql":
        return {"versions": _count_dump_versions(snapshot)}
    copy = snapshot.with_name("looked-at")
    shutil.copyfile(snapshot, copy)  # looking may leave side files; the snapshot stays as it is
    with open_journal(StoreLocation("sqlite", copy)) as journal:
        versions, digest = log_digest(journal)
    return {"versions": versions, "digest": digest}


def _count_dump_versions(snapshot: Path) -> int:
    with zipfile.ZipFile(snapshot) as archive, archive.open("log") as rows:
        return sum(piece.count(b"\n") for piece in iter(lambda: rows.read(1 << 20), b""))


def log_digest(journal: Journal) -> tuple[int, str]:
    """How many versions a log holds, and the hash of their digests in order: the seal of its export."""
    seal, count = hashlib.sha256(), 0
    for record in journal.read(Query(every_version=True, hidden=True)):
        seal.update(record.digest)
        count += 1
    return count, seal.hexdigest()


def _copy_session_files(files: FileStore | None, folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that go with a store. Those of a folder may change meanwhile, so each is copied first, whole."""
    if not isinstance(files, LocalFiles):
        return
    for session in files.list_folders("sessions"):
        for blob in files.list_files(f"sessions/{session}"):
            copy = folder / str(secrets.token_hex(8))
            copy.parent.mkdir(exist_ok=True)
            try:
                copy.write_bytes(b"".join(files.read(blob.name)))
            except FileMissing:
                continue  # retention was faster
            yield f"{FILES}/{blob.name}", copy


def find_archives(target: FileStore, name: str | None, clock: Clock, new_id: IdMaker) -> Archives:
    """The archives of a name; without one, the only ones there."""
    if name is None:
        found = [known for known in list_archive_names(target) if not known.startswith("session-")]
        if len(found) != 1:
            told = ", ".join(found) if found else "none"
            raise InvalidInput(f"The backups there are called: {told}.", hint="Say which one you mean by its name.")
        name = found[0]
    return Archives(target, name, clock, new_id)


def restore(
    archives: Archives,
    location: StoreLocation,
    files: Path | None,
    open_journal: OpenJournal,
    load: Callable[[str, Path], None],
    *,
    number: int | None = None,
    secret: str = "",
) -> RestoreResult:
    """Brings a store back at a place where there is none. ``load`` puts a server's snapshot into an empty database."""
    if location.engine == "memory":
        raise InvalidInput("A store in memory is gone when the program ends.", hint="Name a file or a database.")
    for taken in (location.path, None if files is None else files / "sessions"):
        if taken is not None and taken.exists():
            raise InvalidInput(f"{taken} is there already; a backup never overwrites.")
    beside = location.path.parent if location.path is not None else None
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".lukasa-restore-", dir=beside) as folder:
        unpacked = Path(folder) / "unpacked"
        manifest = archives.fetch(unpacked, number, secret=secret)
        if "engine" not in manifest.facts:
            raise FormatError(f"{archives.name} is the backup of a session, not of a store.")
        versions, digest = _load_snapshot(unpacked / SNAPSHOT, manifest, location, open_journal, load)
        count = _move_files(unpacked / FILES, files)
        if location.path is not None:
            (unpacked / SNAPSHOT).rename(location.path)
            sync_folder(location.path.parent)
    return RestoreResult(manifest, str(location), versions, digest, count)


def _load_snapshot(
    snapshot: Path,
    manifest: Manifest,
    location: StoreLocation,
    open_journal: OpenJournal,
    load: Callable[[str, Path], None],
) -> tuple[int, str]:
    """Proves the snapshot, and puts it into the database if that is on a server."""
    if manifest.facts["engine"] == "postgresql":
        if location.engine != "postgresql":
            raise InvalidInput(
                "This is the backup of a PostgreSQL store.",
                hint="Restore it into an empty database, then `lukasa copy` it to a file.",
            )
        load(location.url, snapshot)
        with open_journal(location) as journal:
            return _verify_restored(journal, manifest)
    with open_journal(StoreLocation("sqlite", snapshot)) as journal:
        proved = _verify_restored(journal, manifest)
        if location.engine == "postgresql":
            with open_journal(location) as target:
                if target.tip():
                    raise InvalidInput("There are records in this database already; restore into an empty one.")
                if not copy_log(journal, target).proof.holds:
                    raise StoreDamaged(f"What arrived in {location} is not what was backed up; do not use it.")
    if snapshot.with_name(snapshot.name + "-wal").exists():
        raise StoreDamaged("What was restored is still being written; nothing was put in its place.")
    return proved


def _verify_restored(journal: Journal, manifest: Manifest) -> tuple[int, str]:
    """The log's versions and hash, once they are those of the manifest and every line is sound."""
    verdict = journal.verify()
    if not verdict.sound:
        raise StoreDamaged(f"What was restored is damaged: {verdict.findings[0].what}.")
    versions, digest = log_digest(journal)
    if versions != manifest.facts["versions"] or manifest.facts.get("digest", digest) != digest:
        raise StoreDamaged("What was restored is not the log that was backed up.")
    return versions, digest


def _move_files(source: Path, target: Path | None) -> int:
    """Puts the files where the store looks for them; returns how many there are."""
    if target is None or not source.exists():
        return 0
    count = sum(path.is_file() for path in source.rglob("*"))
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in source.iterdir():
        shutil.move(entry, target / entry.name)
    sync_folder(target)
    return count
