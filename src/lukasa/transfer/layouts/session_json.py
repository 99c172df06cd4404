"""The state of a session as JSON: eight sections, indented, times with ``Z``.

``read_session`` is strict about JSON and lenient about content. Missing sections are filled in when the state is saved, and
unknown fields are kept. A checkpoint file is read as the state in it.
"""

from __future__ import annotations

from lukasa import canonical_json
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Outcome
from lukasa.sessions.checkpoint_files import CHECKPOINT_FORMAT
from lukasa.sessions.sessions import Sessions
from lukasa.sessions.state import CHECKPOINT_SECTION, MAX_STATE_BYTES, SECTIONS, SessionState
from lukasa.transfer.layouts import encode_json


def read_session(data: bytes) -> SessionState:
    """Parse the state in a file. Raises ``FormatError`` if the file holds something else."""
    if len(data) > 4 * MAX_STATE_BYTES:
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


def import_session(sessions: Sessions, data: bytes, session_id: str | None = None) -> Outcome:
    """Save the state in a file as the next checkpoint of its session, or of another one."""
    state = read_session(data)
    metadata = state.get("metadata")
    id = session_id or (metadata.get("session_id") if isinstance(metadata, dict) else None)
    if not isinstance(id, str) or not id:
        raise FormatError("The state does not say which session it belongs to.")
    return sessions.save_checkpoint(state, id)


def export_session(sessions: Sessions, session_id: str) -> bytes:
    """Return a session's current state as a file. Raises ``InvalidInput`` if there is no such session."""
    state = sessions.state(session_id)
    if state is None:
        raise InvalidInput(f"Nothing is known of the session {session_id[:80]!r}.", hint="Check its id.")
    return write_session(state)
