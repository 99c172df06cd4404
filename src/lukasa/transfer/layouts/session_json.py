"""The state of a session as JSON: eight sections, indented, times with ``Z``; and a folder of such files.

``read_session`` is strict about JSON and lenient about content. Missing sections are filled in when the state is saved, and
unknown fields are kept. A checkpoint file is read as the state in it.

The folder is ``.voxsigil/sessions/{session_id}/checkpoint_{number}.json``, with or without leading zeros, and compressed
with gzip if the name ends in ``.gz``. Every checkpoint is imported under its number.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso
from lukasa.core.names import find_number
from lukasa.core.outcome import Accepted, Conflict, Outcome
from lukasa.core.record import Key
from lukasa.core.scope import SHARED
from lukasa.errors import FormatError, InvalidInput
from lukasa.sessions.checkpoint_files import CHECKPOINT_FORMAT, session_folder
from lukasa.sessions.records import CHECKPOINT
from lukasa.sessions.sessions import Sessions
from lukasa.sessions.state import CHECKPOINT_SECTION, MAX_STATE_BYTES, SECTIONS, SessionState
from lukasa.storage.files import open_output_file, read_limited
from lukasa.transfer.layouts import LayoutImportResult, encode_json

_MAX_FILE_BYTES = 4 * MAX_STATE_BYTES


def read_session(data: bytes) -> SessionState:
    """Parse the state in a file. Raises ``FormatError`` if the file holds something else."""
    if len(data) > _MAX_FILE_BYTES:
        raise FormatError(f"The file has {len(data):,} bytes; no state is that large.")
    try:
        state = canonical_json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except InvalidInput as error:
        raise FormatError(f"This is not a session's state: {error.message}") from error
    if not isinstance(state, dict):
        raise FormatError("This is not a session's state: it is not a JSON object.")
    checkpoint = state.get(CHECKPOINT_SECTION)
    if isinstance(checkpoint, dict) and checkpoint.get("format") == CHECKPOINT_FORMAT:
        del state[CHECKPOINT_SECTION]
    return state


def write_session(state: SessionState) -> bytes:
    """Return the state as a file, its sections in the order of the document."""
    ordered = {name: state[name] for name in SECTIONS if name in state}
    return encode_json({**ordered, **state})


def import_session(
    sessions: Sessions,
    data: bytes,
    session_id: str | None = None,
    *,
    number: int | None = None,
    scope: str | None = None,
) -> Outcome:
    """Save the state in a file as a checkpoint of its session, or of another one.

    The checkpoint gets ``number``, or the number in the state, and the time in the state. The next number is taken where
    the session has that number already, unless ``number`` is given: then a session with the same checkpoint is left as it
    is, and one with another is a ``Conflict``.
    """
    state = read_session(data)
    metadata = state.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    id = session_id or fields.get("session_id")
    if not isinstance(id, str) or not id:
        raise FormatError("The state does not say which session it belongs to.")
    known, time = fields.get("checkpoint_number"), fields.get("last_updated")
    newest = next((entry.number for entry in sessions.checkpoints(id, scope=scope)), 0)
    if number is not None and number <= newest:
        checkpoint = sessions.checkpoint(id, number, scope=scope)
        if checkpoint is not None:
            stored, metadata = checkpoint.state, state.get("metadata")
            whole = {**stored["metadata"], **(metadata if isinstance(metadata, dict) else {})}
            whole |= {"session_id": id, "checkpoint_number": number}
            if {**stored, **state, "metadata": whole} == stored:  # this import would make it again
                return Accepted(())
        return Conflict(Key(scope or SHARED, CHECKPOINT, id), number, newest)
    if number is None and isinstance(known, int) and not isinstance(known, bool) and known > newest:
        number = known
    try:
        last_updated = from_iso(time) if isinstance(time, str) else None
    except InvalidInput:
        last_updated = None  # the check of the state refuses it
    return sessions.save_checkpoint(state, id, number, scope=scope, last_updated=last_updated)


def read_folder(sessions: Sessions, source: Path, scope: str) -> LayoutImportResult:
    """Import every checkpoint below a ``.voxsigil`` folder, of one session's folder, or in one file.

    A checkpoint that the store has is left as it is, so that the import can be repeated.
    """
    result = LayoutImportResult()
    for path, number in _find_checkpoints(source):
        try:
            data = read_limited(path, _MAX_FILE_BYTES)
            plain = data
            if path.suffix == ".gz":
                decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
                try:
                    plain = decompressor.decompress(data, _MAX_FILE_BYTES)
                except zlib.error as error:
                    raise FormatError("It cannot be decompressed.") from error
                if not decompressor.eof:
                    raise FormatError("It is cut off or too large.")
            metadata = read_session(plain).get("metadata")
            has_id = isinstance(metadata, dict) and metadata.get("session_id")
            outcome = import_session(sessions, plain, None if has_id else path.parent.name, number=number, scope=scope)
        except (InvalidInput, FormatError, OSError) as error:
            result.refused.append((str(path), str(error)))
            continue
        if isinstance(outcome, Accepted):
            result.added += bool(outcome.records)
            result.present += not outcome.records
        else:
            result.refused.append((str(path), outcome.reason))
    return result


def _find_checkpoints(source: Path) -> Iterator[tuple[Path, int]]:
    """Yield the checkpoint files of each session, the oldest first, with their numbers. Links are not followed."""
    if source.is_file():
        given = find_number(source.name, "checkpoint_", ".json", ".json.gz")
        if given is None:
            raise InvalidInput(
                f"{source.name[:80]} is not named as a checkpoint.", hint="Use `lukasa checkpoint save`."
            )
        yield source, given
        return
    root = next((path for path in (source / ".voxsigil/sessions", source / "sessions", source) if path.is_dir()), None)
    if root is None:
        raise InvalidInput(f"There is no folder {source}.", hint="Name the folder .voxsigil.")
    found = False
    for folder in (root, *sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())):
        numbered: dict[int, Path] = {}
        for path in sorted(folder.iterdir()):  # of one number the plain file comes before the compressed one
            number = find_number(path.name, "checkpoint_", ".json", ".json.gz")
            if number is not None and path.is_file() and not path.is_symlink():
                numbered.setdefault(number, path)
        for number, path in sorted(numbered.items()):
            found = True
            yield path, number
    if not found:
        raise InvalidInput(f"There are no checkpoints in {source}.", hint="Name the folder .voxsigil.")


def write_folder(sessions: Sessions, target: Path, scope: str) -> int:
    """Write the current state of each session of a scope below a ``.voxsigil`` folder; return their number."""
    count = 0
    for info in sessions.list():
        state = sessions.state(info.id, scope=info.scope) if info.scope == scope else None
        if state is not None:
            path = target / session_folder(info.id) / f"checkpoint_{info.number:03d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_output_file(path.absolute()) as file:
                file.write(write_session(state))
            count += 1
    return count
