"""A session's state as the document's JSON: eight sections, indented, times with ``Z``.

Reading is strict about JSON and lenient about the rest: sections that are missing are filled in by whoever saves the
state, fields that nobody knows are kept. A checkpoint file is read as the state it holds.
"""

from __future__ import annotations

import json

from lukasa import canonical_json
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Outcome
from lukasa.sessions.checkpoint_files import CHECKPOINT_FORMAT
from lukasa.sessions.sessions import Sessions
from lukasa.sessions.state import CHECKPOINT_SECTION, MAX_STATE_BYTES, SECTIONS, SessionState


def read_session(data: bytes) -> SessionState:
    """The state in a file. Raises ``FormatError`` for what is not one."""
    if len(data) > 4 * MAX_STATE_BYTES:
        raise FormatError(f"The file has {len(data):,} bytes; no state is that large.")
    try:
        state = canonical_json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except InvalidInput as error:
        raise FormatError(f"This is not a session's state: {error.message}") from error
    if not isinstance(state, dict):
        raise FormatError("This is not a session's state: it is not a JSON object.")
    seal = state.get(CHECKPOINT_SECTION)
    if isinstance(seal, dict) and seal.get("format") == CHECKPOINT_FORMAT:
        del state[CHECKPOINT_SECTION]
    return state


def write_session(state: SessionState) -> bytes:
    """The state as a file, its sections in the document's order."""
    ordered = {name: state[name] for name in SECTIONS if name in state}
    return json.dumps({**ordered, **state}, indent=2, ensure_ascii=False).encode() + b"\n"


def import_session(sessions: Sessions, data: bytes, session_id: str | None = None) -> Outcome:
    """Saves the state in a file as the next checkpoint of its session, or of another one."""
    state = read_session(data)
    metadata = state.get("metadata")
    named = session_id or (metadata.get("session_id") if isinstance(metadata, dict) else None)
    if not isinstance(named, str) or not named:
        raise FormatError("The state does not say which session it belongs to.")
    return sessions.save_checkpoint(state, named)


def export_session(sessions: Sessions, session_id: str) -> bytes:
    """A session's state as it is now. Raises ``InvalidInput`` when there is none."""
    state = sessions.state(session_id)
    if state is None:
        raise InvalidInput(f"Nothing is known of the session {session_id[:80]!r}.", hint="Check its id.")
    return write_session(state)
