"""Backups of one session: its files as an archive, to a folder or a bucket, and back again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from lukasa.errors import FileMissing, FormatError, InvalidInput
from lukasa.sessions.checkpoint_files import CheckpointFiles
from lukasa.storage.archive import Archives, Manifest
from lukasa.storage.files import FileStore, read_whole

_MAX_FILE_BYTES = 1 << 30


def session_backup_name(files: CheckpointFiles) -> str:
    """What the backups of a session are called."""
    return "session-" + files.path.removeprefix("sessions/")


def back_up_files(
    session_files: CheckpointFiles, blobs: FileStore, archives: Archives, *, secret: str, keep: int
) -> Manifest:
    """Backs up every file of a session."""
    with TemporaryDirectory(prefix="lukasa-session-") as place:
        files = []
        for at, blob in enumerate(blobs.list_files(session_files.path)):
            copy = Path(place) / str(at)
            try:
                copy.write_bytes(read_whole(blobs, blob.name, max_bytes=_MAX_FILE_BYTES))
            except FileMissing:
                continue  # retention was faster
            files.append((blob.name.rpartition("/")[2], copy))
        if not files:
            raise InvalidInput(
                f"The session {session_files.session[:80]!r} has no files to back up.", hint="Save a checkpoint."
            )
        facts = {"session": session_files.session, "scope": session_files.scope}
        return archives.put(files, facts, secret=secret, keep=keep)


def restore_files(
    session_files: CheckpointFiles, blobs: FileStore, archives: Archives, *, number: int | None, secret: str
) -> Manifest:
    """Puts the files of a backup where a session has none."""
    if blobs.list_files(session_files.path):
        raise InvalidInput(f"The session {session_files.session[:80]!r} has files already; a backup never overwrites.")
    with TemporaryDirectory(prefix="lukasa-session-") as place:
        unpacked = Path(place) / "unpacked"
        manifest = archives.fetch(unpacked, number, secret=secret)
        if (manifest.facts.get("session"), manifest.facts.get("scope")) != (session_files.session, session_files.scope):
            raise FormatError(f"{archives.name} is the backup of another session.")
        for item in sorted(manifest.files, key=lambda item: item.name):
            blobs.put(f"{session_files.path}/{item.name}", (unpacked / item.name).read_bytes())
    return manifest
