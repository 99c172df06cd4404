"""The stores in ``.lukasa/`` folders that this user made or allowed on this machine.

A repository can bring a folder ``.lukasa/`` along, with memories that a stranger wrote for the agents of everybody who works in it.
So a store that nobody named, but that was found because its folder is near, is used only if it is noted in the user's data
folder: by its path, and by the random token that is in every store. A file that takes the place of a noted store has another
token. A store that the caller names needs no note.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lukasa.config import PROJECT_FOLDER, STORE_FILE
from lukasa.errors import StoreMissing, StoreNotAllowed

_NO_STORE, _FORGOTTEN = "none", "forgotten"
"""Words in the place of a token: the folder has no store yet, and the store is not allowed any longer."""
_OWN_FILES = frozenset({".gitignore", "CONTINUITY.md"})
"""What Lukasa itself puts into a folder that has no store yet."""


def is_project_store(path: Path) -> bool:
    """Return whether a path is that of the store in a folder ``.lukasa/``."""
    return path.name == STORE_FILE and path.parent.name == PROJECT_FOLDER


def make_project_folder(project: Path) -> Path:
    """Create the folder ``.lukasa/`` of a project, which git ignores, and note it. One that exists stays as it is."""
    folder = project / PROJECT_FOLDER
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return folder
    _hide_from_git(folder)
    _write_note(folder / STORE_FILE, _NO_STORE)
    return folder


def note_coming_store(path: Path, token: str) -> None:
    """Note a store by its token just before its file has its name, so that a crash does not make it a stranger's."""
    with suppress(OSError):
        _write_note(path, token)


def note_new_store(path: Path) -> None:
    """Note a store in a folder ``.lukasa/`` that was made just now, and let git ignore the folder.

    Without a note, which a full or read-only disk prevents, the user is asked later.
    """
    with suppress(OSError):
        _hide_from_git(path.parent)
        _write_note(path, _read_token(path))


def allow_store(path: Path) -> None:
    """Note a store that somebody else made, or that was made elsewhere."""
    if not path.exists():
        raise StoreMissing(f"There is no store at {path}.")
    _write_note(path, _read_token(path))


def forget_store(path: Path) -> bool:
    """Note that a store is not allowed any longer. Return whether it was."""
    was_noted = _normalise(path) in read_notes()
    if was_noted:
        _write_note(path, _FORGOTTEN)
    return was_noted


def is_noted(path: Path) -> bool:
    """Return whether the store at a path, or its folder, is noted; the file there may have been replaced."""
    return _normalise(path) in read_notes()


def require_own_store(path: Path) -> None:
    """Raise ``StoreNotAllowed`` for a store in a folder ``.lukasa/`` that this user has neither made nor allowed here."""
    folder, token = path.parent, read_notes().get(_normalise(path))
    hint = f"`lukasa allow {folder.parent}` allows it; --store or LUKASA_STORE names another one."
    if path.exists() or path.is_symlink():
        if token is None:
            raise StoreNotAllowed(f"{path} was not made by you on this machine; it may have come along.", hint=hint)
        if token != _read_token(path):
            raise StoreNotAllowed(f"{path} is not the store that you made or allowed there.", hint=hint)
    elif token is None:
        facts, is_folder = folder.lstat(), folder.is_dir() and not folder.is_symlink()
        is_own = is_folder and facts.st_uid == os.getuid() and all(map(_is_own_file, folder.iterdir()))
        if is_own:  # nothing is in it that may have come along
            return
        raise StoreNotAllowed(f"{folder} was not made by you on this machine; it may have come along.", hint=hint)


def _is_own_file(path: Path) -> bool:
    """Return whether Lukasa itself puts a file into a folder that has no store yet; a crash leaves a part of one."""
    return path.name in _OWN_FILES or (path.name.startswith(f".{STORE_FILE}.") and path.name.endswith(".new"))


def read_notes() -> dict[Path, str]:
    """Return the noted stores and their tokens. The last note on a path counts."""
    notes: dict[Path, str] = {}
    with suppress(FileNotFoundError):
        for note in _notes_file().read_bytes().split(b"\0"):
            token, _, path = note.partition(b" ")
            notes[Path(os.fsdecode(path))] = token.decode("ascii", "replace")
    return {path: token for path, token in notes.items() if path.is_absolute() and token != _FORGOTTEN}


def _write_note(path: Path, token: str) -> None:
    """Append a note between zero bytes: one write, so that processes at the same time lose none."""
    file = _notes_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, b"\0%s %s\0" % (token.encode(), os.fsencode(_normalise(path))))
    finally:
        os.close(descriptor)


def _notes_file() -> Path:
    from platformdirs import user_data_path

    return user_data_path("lukasa") / "own-stores"


def _normalise(path: Path) -> Path:
    """Return the path as the search for the nearest folder finds it. Links to the folder or the file are kept."""
    return Path(os.path.realpath(path.parent.parent)) / path.parent.name / path.name


def _hide_from_git(folder: Path) -> None:
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="ascii") as file:
        file.write("*\n")


def _read_token(path: Path) -> str:
    from lukasa.storage.sqlite.store_file import read_token

    return read_token(path)
