"""Backups of one session: its files as an archive, to a folder or a bucket, and back again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from lukasa.archive import Archives, Manifest
from lukasa.blob import Blobs, whole
from lukasa.errors import FileMissing, FormatError, InvalidInput
from lukasa.sessions.files import Folder

_LARGEST_FILE = 1 << 30


def name_of(folder: Folder) -> str:
    """What the backups of a session are called."""
    return "session-" + folder.path.removeprefix("sessions/")


def send(folder: Folder, blobs: Blobs, archives: Archives, *, secret: str, keep: int) -> Manifest:
    """Backs up every file of a session."""
    with TemporaryDirectory(prefix="lukasa-session-") as place:
        files = []
        for at, blob in enumerate(blobs.find(folder.path)):
            copy = Path(place) / str(at)
            try:
                copy.write_bytes(whole(blobs, blob.name, most=_LARGEST_FILE))
            except FileMissing:
                continue  # retention was faster
            files.append((blob.name.rpartition("/")[2], copy))
        if not files:
            raise InvalidInput(
                f"The session {folder.session[:80]!r} has no files to back up.", hint="Save a checkpoint."
            )
        facts = {"session": folder.session, "scope": folder.scope}
        return archives.put(files, facts, secret=secret, keep=keep)


def bring_back(folder: Folder, blobs: Blobs, archives: Archives, *, number: int | None, secret: str) -> Manifest:
    """Puts the files of a backup where a session has none."""
    if blobs.find(folder.path):
        raise InvalidInput(f"The session {folder.session[:80]!r} has files already; a backup never overwrites.")
    with TemporaryDirectory(prefix="lukasa-session-") as place:
        unpacked = Path(place) / "unpacked"
        manifest = archives.fetch(unpacked, number, secret=secret)
        if (manifest.facts.get("session"), manifest.facts.get("scope")) != (folder.session, folder.scope):
            raise FormatError(f"{archives.name} is the backup of another session.")
        for item in sorted(manifest.files, key=lambda item: item.name):
            blobs.put(f"{folder.path}/{item.name}", (unpacked / item.name).read_bytes())
    return manifest
