"""Backups of a whole store in a folder or a bucket, and their restoration with a proof.

A backup holds a consistent snapshot of the store, as its engine writes it, and the files of the store's sessions. The
snapshot is a store file or an exported log. Its fingerprint is noted in the manifest. ``restore`` builds the store at a
temporary path, verifies it, compares its fingerprint, and only then gives it its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lukasa.core.clock import Clock, IdMaker
from lukasa.core.names import ALPHANUMERIC, make_slug
from lukasa.errors import FileMissing, FormatError, InvalidInput, StoreDamaged
from lukasa.journal import Journal
from lukasa.storage.archive import DEFAULT_KEEP, Archives, Manifest, list_archive_names
from lukasa.storage.files import FileStore, sync_folder, temporary_folder
from lukasa.storage.integrity import Fingerprint
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.location import StoreLocation, split_url
from lukasa.storage.log_file import ENTIRE_LOG, is_log_file, parse_log
from lukasa.transfer.copy import copy_log
from lukasa.transfer.jsonl import import_log

OpenJournal = Callable[[str | Path], AbstractContextManager[Journal]]
"""Opens the store at a path or URL as its owner; a missing store is created."""

SNAPSHOT = "store"
FILES = "files"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The restored backup, where the store is, its fingerprint, and the number of files of its sessions."""

    manifest: Manifest
    place: str
    versions: int
    digest: str
    files: int


def store_backup_name(location: StoreLocation) -> str:
    """Return the name of a store's backups, made from the name of its file or database."""
    name = location.path.name if location.path is not None else unquote(split_url(location.url).path).strip("/")
    return make_slug(name, letters=ALPHANUMERIC.union("._-")).strip("-.")[:100] or "store"


def back_up_store(
    journal: Journal,
    location: StoreLocation,
    files: FileStore,
    target: FileStore,
    open_journal: OpenJournal,
    clock: Clock,
    new_id: IdMaker,
    *,
    secret: str = "",
    keep: int = DEFAULT_KEEP,
    alone: bool = False,
) -> Manifest:
    """Back up a whole store. The archive was read back and verified on return.

    A damaged store is backed up as it is; the fact ``damaged`` names the damaged records.
    """
    archives = Archives(target, store_backup_name(location), clock, new_id, alone=alone)
    with temporary_folder("lukasa-backup-") as folder:
        snapshot = folder / SNAPSHOT
        journal.damaged.clear()
        journal.backup(snapshot)
        damaged, fingerprint = list[str](), Fingerprint()
        if is_log_file(snapshot):
            with snapshot.open("rb") as file:
                for _ in parse_log(file, fingerprint):
                    pass
        else:
            copy = snapshot.with_name("copy")
            shutil.copyfile(snapshot, copy)  # opening a store may change its file, and the snapshot must stay as it is
            with open_journal(copy) as copied:
                fingerprint, damaged = Fingerprint.of(copied.read(ENTIRE_LOG)), copied.list_damaged()
        facts: dict[str, Any] = {
            "engine": location.engine, "versions": fingerprint.versions, "digest": fingerprint.digest,
        }  # fmt: skip
        if damaged := [*journal.list_damaged(), *damaged]:
            facts["damaged"] = damaged
        members = [(SNAPSHOT, snapshot), *_copy_session_files(files, folder)]
        return archives.put(members, facts, secret=secret, keep=keep)


def _copy_session_files(files: FileStore, folder: Path) -> Iterator[tuple[str, Path]]:
    """Copy the files of all sessions from a local folder, because they may change while the archive is written."""
    if not isinstance(files, LocalFiles):
        return
    for session in files.list_folders("sessions"):
        for file in files.list_files(f"sessions/{session}"):
            copy = folder / FILES / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                copy.write_bytes(b"".join(files.read(file.name)))
            except FileMissing:
                continue  # retention has deleted it meanwhile
            yield f"{FILES}/{file.name}", copy


def find_archives(target: FileStore, name: str | None, clock: Clock, new_id: IdMaker) -> Archives:
    """Return the archives of a name; without a name, the archives of the only store that is backed up there."""
    if name is None:
        found = [known for known in list_archive_names(target) if not known.startswith("session-")]
        if len(found) != 1:
            names = ", ".join(found) if found else "none"
            raise InvalidInput(f"The backups there are called: {names}.", hint="Say which one you mean by its name.")
        name = found[0]
    return Archives(target, name, clock, new_id)


def restore(
    archives: Archives,
    location: StoreLocation,
    files: Path | None,
    open_journal: OpenJournal,
    *,
    number: int | None = None,
    secret: str = "",
) -> RestoreResult:
    """Restore a store at a location that has none."""
    if location.path is None and not location.url:
        raise InvalidInput("A store in memory is gone when the program ends.", hint="Name a file or a database.")
    for taken in (location.path, None if files is None else files / "sessions"):
        if taken is not None and os.path.lexists(taken):
            raise InvalidInput(f"{taken} is there already; a backup never overwrites.")
    parent = location.path.parent if location.path is not None else None
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(".lukasa-restore-", parent) as folder:
        unpacked = folder / "unpacked"
        manifest = archives.fetch(unpacked, number, secret=secret)
        if "engine" not in manifest.facts:
            raise FormatError(f"{archives.name} is the backup of a session, not of a store.")
        store = _restore_log(unpacked / SNAPSHOT, manifest, location, open_journal)
        count, source = 0, unpacked / FILES
        if files is not None and source.exists():  # to where the store looks for the files of its sessions
            count = sum(path.is_file() for path in source.rglob("*"))
            files.mkdir(mode=0o700, parents=True, exist_ok=True)
            for entry in source.iterdir():
                shutil.move(entry, files / entry.name)
            sync_folder(files)
        if location.path is not None:
            store.rename(location.path)
            sync_folder(location.path.parent)
    return RestoreResult(manifest, str(location), manifest.facts["versions"], manifest.facts["digest"], count)


def _restore_log(snapshot: Path, manifest: Manifest, location: StoreLocation, open_journal: OpenJournal) -> Path:
    """Restore the log of a snapshot and prove it; return the file of the store, if the location is a file."""
    store = snapshot
    if is_log_file(snapshot):
        store = snapshot.with_name("imported")
        with open_journal(location.url or store) as journal, snapshot.open("rb") as file:
            _check_empty(journal)
            for line, reason in import_log(journal, file, same_log=True).refused:
                raise StoreDamaged(f"Line {line} of the log that was backed up is refused: {reason}.")
            _prove_restored(journal, manifest)
    else:
        with open_journal(snapshot) as journal:
            _prove_restored(journal, manifest)
            if location.url:
                with open_journal(location.url) as target:
                    _check_empty(target)
                    if not copy_log(journal, target).proof.holds:
                        raise StoreDamaged(f"The log in {location} is not the one that was backed up; do not use it.")
    if store.with_name(store.name + "-wal").exists():
        raise StoreDamaged("Another process has the restored store open; it was not moved to its place.")
    return store


def _check_empty(journal: Journal) -> None:
    if journal.tip():
        raise InvalidInput("There are records in this database already; restore into an empty one.")


def _prove_restored(journal: Journal, manifest: Manifest) -> None:
    """Raise ``StoreDamaged`` unless the log is the one of the manifest and nothing is damaged that was sound then."""
    known = manifest.facts.get("damaged", ())
    for finding in journal.verify().findings:
        if finding.where not in known and not (known and finding.repairable):
            raise StoreDamaged(f"The restored store is damaged: {finding.what}.")
    fingerprint = Fingerprint.of(journal.read(ENTIRE_LOG))
    if (fingerprint.versions, fingerprint.digest) != (manifest.facts.get("versions"), manifest.facts.get("digest")):
        raise StoreDamaged("The restored log is not the one that was backed up.")
