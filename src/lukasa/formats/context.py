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

from lukasa import canonical
from lukasa.blob import replacing
from lukasa.clock import from_iso, to_iso
from lukasa.context import Context, Contexts, Settings, Turn
from lukasa.context.state import FIELDS, fresh_fields, moment_of
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Outcome, Refused

_PLAIN = re.compile(r"[a-z0-9_:@+-][a-z0-9_:@+.-]{0,99}")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_LARGEST = 1 << 30
_OWN = "lukasa"
_NAMED = ("session_id", *FIELDS, "facts", "recent_history", "long_term_summary", _OWN)


def file_name(session_id: str) -> str:
    """The name of a session's file: its id where that is a plain name, else a readable part and a hash of it."""
    if _PLAIN.fullmatch(session_id) and not _RESERVED.fullmatch(session_id):
        return f"{session_id}.json"
    slug = re.sub(r"[^a-z0-9]+", "-", session_id.lower()).strip("-")[:60] or "session"
    mark = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug}-{mark}.json"


def export_session(contexts: Contexts, session_id: str, target: Path, *, whole: bool = False) -> Path:
    """Writes a session to a file, or into a folder under its own name; the file is replaced only by a whole one."""
    found = told(contexts, session_id, whole=whole)
    path = (target / file_name(session_id) if target.is_dir() else target).absolute()
    with replacing(path) as file:
        file.write(json.dumps(found, ensure_ascii=False, indent=2).encode() + b"\n")
    return path


def import_session(contexts: Contexts, source: Path, session_id: str = "") -> Outcome:
    """Takes in a file as a new session, under the id it names or another. One that is there already is a conflict."""
    if source.stat().st_size > _LARGEST:
        raise FormatError(f"{source} is too large for a session ({_LARGEST:,} bytes at most).")
    try:
        context, folded = read(canonical.decode(source.read_bytes()))
    except InvalidInput as error:
        raise FormatError(f"{source} is not a session: {error.message}") from error
    if session_id:
        context.session_id = session_id
    if not context.session_id:
        return Refused("bad_session", f"{source} names no session; say under which id it shall stand.")
    return contexts.restore(context, folded)


def told(contexts: Contexts, session_id: str, *, whole: bool = False) -> dict[str, Any]:
    """A session as the document spells it."""
    context = contexts.load(session_id)
    entries = [_entry(turn) for turn in context.turns]
    found: dict[str, Any] = {
        "session_id": session_id,
        "system_state": context.system_state,
        "facts": [fact.text for fact in contexts.facts(session_id)],
        "recent_history": entries,
        "long_term_summary": context.long_term_summary,
        "active_tasks": [_with_times(task, ("created_at", "updated_at"), _seconds) for task in context.active_tasks],
        "tool_stats": context.tool_stats,
        "last_known_environment": _with_times(context.last_known_environment, ("last_update",), _seconds),
        "token_usage": context.token_usage,
        **context.extra,
    }
    own: dict[str, Any] = {}
    if differing := context.settings.differing():
        own["settings"] = differing
    if whole and context.folded:
        everything = [_entry(turn) for turn in contexts.transcript(session_id)]
        own["folded_history"] = everything[: len(everything) - len(entries)]
    return found | ({_OWN: own} if own else {})


def read(found: Any) -> tuple[Context, list[Turn]]:
    """The context that a file spells, and the turns before its recent view, if it holds them."""
    if not isinstance(found, Mapping):
        raise InvalidInput("it is not an object.")
    fresh = fresh_fields()
    for name, shape in (
        {name: type(value) for name, value in fresh.items()}
        | {"facts": list, "recent_history": list, "long_term_summary": str, "session_id": str, _OWN: dict}
    ).items():
        if name in found and not isinstance(found[name], shape):
            raise InvalidInput(f"{name} is not what it should be ({shape.__name__}).")
    if not all(isinstance(task, dict) for task in found.get("active_tasks", ())):
        raise InvalidInput("active_tasks holds something that is not a task.")
    if not all(isinstance(fact, str) and fact.strip() for fact in found.get("facts", ())):
        raise InvalidInput("facts holds something that is not a sentence.")
    state = {name: found.get(name, fresh[name]) for name in FIELDS}
    state["active_tasks"] = [_with_times(task, ("created_at", "updated_at"), _iso) for task in state["active_tasks"]]
    state["last_known_environment"] = _with_times(state["last_known_environment"], ("last_update",), _iso)
    own = found.get(_OWN, {})
    context = Context(
        session_id=found.get("session_id", ""),
        facts=list(found.get("facts", ())),
        recent_history=[_turn(entry) for entry in found.get("recent_history", ())],
        long_term_summary=found.get("long_term_summary", ""),
        extra={name: value for name, value in found.items() if name not in _NAMED},
        settings=Settings().changed(own.get("settings", {})),
        **state,
    )
    return context, [_turn(entry) for entry in own.get("folded_history", ())]


def _entry(turn: Turn) -> dict[str, Any]:
    optional = {
        "speaker": turn.speaker,
        "tool_calls": [dict(call) for call in turn.tool_calls],
        "tool_call_id": turn.tool_call_id,
    }
    entry: dict[str, Any] = {} if turn.timestamp is None else {"timestamp": _seconds(to_iso(turn.timestamp))}
    entry |= {"role": turn.role, "content": turn.content, "token_count": turn.tokens}
    return entry | {name: value for name, value in optional.items() if value} | dict(turn.extra)


def _turn(entry: Any) -> Turn:
    """A turn that is not kept yet. An id it has elsewhere is one of the fields that nobody knows here."""
    turn = Turn.of(entry)
    return replace(turn, id="", extra={**turn.extra, **({"id": entry["id"]} if "id" in entry else {})})


def _with_times(found: Mapping[str, Any], names: tuple[str, ...], spelled: Any) -> dict[str, Any]:
    return {name: spelled(value) if name in names else value for name, value in found.items()}


def _seconds(value: Any) -> Any:
    """ISO 8601 as seconds since 1970, whole ones as an integer; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        moment = from_iso(value)
    except InvalidInput:
        return value
    return _number(moment)


def _number(moment: datetime) -> int | float:
    seconds = moment.timestamp()
    return int(seconds) if seconds.is_integer() else seconds


def _iso(value: Any) -> Any:
    """Seconds since 1970 as ISO 8601; anything else as it is."""
    return to_iso(moment_of(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value
