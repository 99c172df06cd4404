"""A session as the document's file, ``<session_id>.json``, there and back.

Times are seconds since 1970, as in the document. Fields it does not name are kept. What it has no place for stands
under ``lukasa``, only where there is something: settings that are not the default, and on request the turns that the
summary stands for, without which a file holds the recent view alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lukasa import canonical_json
from lukasa.clock import from_iso, to_iso
from lukasa.context import Context, Conversations, ConversationSettings, Turn
from lukasa.context.state import STATE_FIELDS, default_state, parse_time
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Outcome, Refused
from lukasa.storage.files import atomic_write

_PLAIN_NAME = re.compile(r"[a-z0-9_:@+-][a-z0-9_:@+.-]{0,99}")
_RESERVED_NAME = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_MAX_FILE_BYTES = 1 << 30
_LUKASA_KEY = "lukasa"
_KNOWN_FIELDS = ("session_id", *STATE_FIELDS, "facts", "recent_history", "long_term_summary", _LUKASA_KEY)


def file_name(session_id: str) -> str:
    """The name of a session's file: its id where that is a plain name, else a readable part and a hash of it."""
    if _PLAIN_NAME.fullmatch(session_id) and not _RESERVED_NAME.fullmatch(session_id):
        return f"{session_id}.json"
    slug = re.sub(r"[^a-z0-9]+", "-", session_id.lower()).strip("-")[:60] or "session"
    mark = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug}-{mark}.json"


def export_conversation(
    conversations: Conversations, session_id: str, target: Path, *, include_all_turns: bool = False
) -> Path:
    """Writes a session to a file, or into a folder under its own name; the file is replaced only by a whole one."""
    found = conversation_to_json(conversations, session_id, include_all_turns=include_all_turns)
    path = (target / file_name(session_id) if target.is_dir() else target).absolute()
    with atomic_write(path) as file:
        file.write(json.dumps(found, ensure_ascii=False, indent=2).encode() + b"\n")
    return path


def import_conversation(conversations: Conversations, source: Path, session_id: str = "") -> Outcome:
    """Takes in a file as a new session, under the id it names or another. One that is there already is a conflict."""
    if source.stat().st_size > _MAX_FILE_BYTES:
        raise FormatError(f"{source} is too large for a session ({_MAX_FILE_BYTES:,} bytes at most).")
    try:
        context, folded = parse_conversation(canonical_json.decode(source.read_bytes()))
    except InvalidInput as error:
        raise FormatError(f"{source} is not a session: {error.message}") from error
    if session_id:
        context.session_id = session_id
    if not context.session_id:
        return Refused("bad_session", f"{source} names no session; say under which id it shall stand.")
    return conversations.restore(context, folded)


def conversation_to_json(
    conversations: Conversations, session_id: str, *, include_all_turns: bool = False
) -> dict[str, Any]:
    """A session as the document spells it."""
    context = conversations.load(session_id)
    entries = [_turn_to_json(turn) for turn in context.turns]
    found: dict[str, Any] = {
        "session_id": session_id,
        "system_state": context.system_state,
        "facts": [fact.text for fact in conversations.facts(session_id)],
        "recent_history": entries,
        "long_term_summary": context.long_term_summary,
        "active_tasks": [
            _convert_times(task, ("created_at", "updated_at"), _to_seconds) for task in context.active_tasks
        ],
        "tool_stats": context.tool_stats,
        "last_known_environment": _convert_times(context.last_known_environment, ("last_update",), _to_seconds),
        "token_usage": context.token_usage,
        **context.extra,
    }
    own: dict[str, Any] = {}
    if differing := context.settings.non_default_values():
        own["settings"] = differing
    if include_all_turns and context.folded:
        everything = [_turn_to_json(turn) for turn in conversations.transcript(session_id)]
        own["folded_history"] = everything[: len(everything) - len(entries)]
    return found | ({_LUKASA_KEY: own} if own else {})


def parse_conversation(fields: Any) -> tuple[Context, list[Turn]]:
    """The context that a file spells, and the turns before its recent view, if it holds them."""
    if not isinstance(fields, Mapping):
        raise InvalidInput("it is not an object.")
    fresh = default_state()
    for name, shape in (
        {name: type(value) for name, value in fresh.items()}
        | {"facts": list, "recent_history": list, "long_term_summary": str, "session_id": str, _LUKASA_KEY: dict}
    ).items():
        if name in fields and not isinstance(fields[name], shape):
            raise InvalidInput(f"{name} is not what it should be ({shape.__name__}).")
    if not all(isinstance(task, dict) for task in fields.get("active_tasks", ())):
        raise InvalidInput("active_tasks holds something that is not a task.")
    if not all(isinstance(fact, str) and fact.strip() for fact in fields.get("facts", ())):
        raise InvalidInput("facts holds something that is not a sentence.")
    state = {name: fields.get(name, fresh[name]) for name in STATE_FIELDS}
    state["active_tasks"] = [
        _convert_times(task, ("created_at", "updated_at"), _from_seconds) for task in state["active_tasks"]
    ]
    state["last_known_environment"] = _convert_times(state["last_known_environment"], ("last_update",), _from_seconds)
    own = fields.get(_LUKASA_KEY, {})
    context = Context(
        session_id=fields.get("session_id", ""),
        facts=list(fields.get("facts", ())),
        recent_history=[_parse_turn(entry) for entry in fields.get("recent_history", ())],
        long_term_summary=fields.get("long_term_summary", ""),
        extra={name: value for name, value in fields.items() if name not in _KNOWN_FIELDS},
        settings=ConversationSettings().with_changes(own.get("settings", {})),
        **state,
    )
    return context, [_parse_turn(entry) for entry in own.get("folded_history", ())]


def _turn_to_json(turn: Turn) -> dict[str, Any]:
    optional = {
        "speaker": turn.speaker,
        "tool_calls": [dict(call) for call in turn.tool_calls],
        "tool_call_id": turn.tool_call_id,
    }
    entry: dict[str, Any] = {} if turn.timestamp is None else {"timestamp": _to_seconds(to_iso(turn.timestamp))}
    entry |= {"role": turn.role, "content": turn.content, "token_count": turn.tokens}
    return entry | {name: value for name, value in optional.items() if value} | dict(turn.extra)


def _parse_turn(entry: Any) -> Turn:
    """A turn that is not kept yet. An id it has elsewhere is one of the fields that nobody knows here."""
    turn = Turn.from_entry(entry)
    return replace(turn, id="", extra={**turn.extra, **({"id": entry["id"]} if "id" in entry else {})})


def _convert_times(fields: Mapping[str, Any], names: tuple[str, ...], convert: Any) -> dict[str, Any]:
    return {name: convert(value) if name in names else value for name, value in fields.items()}


def _to_seconds(value: Any) -> Any:
    """ISO 8601 as seconds since 1970, whole ones as an integer; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        moment = from_iso(value)
    except InvalidInput:
        return value
    return _timestamp(moment)


def _timestamp(moment: datetime) -> int | float:
    seconds = moment.timestamp()
    return int(seconds) if seconds.is_integer() else seconds


def _from_seconds(value: Any) -> Any:
    """Seconds since 1970 as ISO 8601; anything else as it is."""
    return to_iso(parse_time(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value
