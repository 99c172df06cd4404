"""A conversation as the file ``<session_id>.json``, and a folder of such files: import and export.

Times are seconds since 1970. Unknown fields are kept. Values that the layout has no field for are stored under ``lukasa``, if
there are any: settings that differ from the default, and on request the turns that the summary replaces. Without those
turns a file holds only the recent view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lukasa.context import Context, Conversations, ConversationSettings, Turn
from lukasa.context.state import STATE_FIELDS, default_state, parse_time
from lukasa.core import canonical_json
from lukasa.core.clock import from_iso, to_iso
from lukasa.core.names import LOWER, is_device_name, is_plain_name, make_slug
from lukasa.core.outcome import Conflict, Outcome, Refused
from lukasa.errors import FormatError, InvalidInput
from lukasa.storage.files import open_output_file, read_limited
from lukasa.transfer.layouts import LayoutImportResult, encode_json

_MAX_FILE_BYTES = 1 << 30
_LUKASA_KEY = "lukasa"
_KNOWN_FIELDS = ("session_id", *STATE_FIELDS, "facts", "recent_history", "long_term_summary", _LUKASA_KEY)
_TASK_TIMES = ("created_at", "updated_at")
_ENVIRONMENT_TIMES = ("last_update",)


def file_name(session_id: str) -> str:
    """Return the name of a conversation's file: its id where that is a plain name, else a slug with a hash."""
    is_plain = is_plain_name(session_id, "_:@+.-", 100, letters=LOWER, first_marks="_:@+-")
    if is_plain and not is_device_name(session_id):
        return f"{session_id}.json"
    slug = make_slug(session_id.lower())[:60] or "session"
    digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug}-{digest}.json"


def export_conversation(
    conversations: Conversations,
    session_id: str,
    target: Path,
    *,
    include_all_turns: bool = False,
    replace: bool = True,
) -> Path:
    """Write a conversation to a file, or into a folder under its own name. A plain file is replaced atomically, unless forbidden."""
    fields = conversation_to_json(conversations, session_id, include_all_turns=include_all_turns)
    path = (target / file_name(session_id) if target.is_dir() else target).absolute()
    with open_output_file(path, replace=replace) as file:
        file.write(encode_json(fields))
    return path


def import_conversation(conversations: Conversations, source: Path, session_id: str = "") -> Outcome:
    """Import a file as a new conversation, under its own id or another. An existing conversation is a conflict."""
    try:
        context, folded = parse_conversation(canonical_json.decode(read_limited(source, _MAX_FILE_BYTES)))
    except InvalidInput as error:
        raise FormatError(f"{source} is not a session: {error.message}") from error
    if session_id:
        context.session_id = session_id
    if not context.session_id:
        return Refused("bad_session", f"{source} names no conversation. Choose an id and import it under that id.")
    return conversations.restore(context, folded)


def read_folder(conversations: Conversations, source: Path, scope: str) -> LayoutImportResult:
    """Import every conversation of a folder ``data/context``. One that the store has already is left as it is.

    A file without an id takes its name. A conversation that goes on here since it was imported counts as present; one that
    differs from the file otherwise is refused.
    """
    conversations, result = conversations.within(scope), LayoutImportResult()
    folder = next((path for path in (source / "data/context", source / "context", source) if path.is_dir()), None)
    files = sorted(folder.glob("*.json")) if folder is not None else [source]
    if not files or not all(path.exists() for path in files):
        raise InvalidInput(f"There are no conversations in {source}.", hint="Name the folder data/context.")
    for path in files:
        try:
            if path.is_symlink():
                raise FormatError("It is a link; links are not followed.")
            context, folded = parse_conversation(canonical_json.decode(read_limited(path, _MAX_FILE_BYTES)))
            context.session_id = context.session_id or path.stem
            outcome = conversations.restore(context, folded)
        except (InvalidInput, FormatError, OSError) as error:
            result.refused.append((str(path), str(error)))
            continue
        if isinstance(outcome, Conflict):
            given = [(turn.role, turn.content) for turn in (*folded, *context.turns)]
            known = [(turn.role, turn.content) for turn in conversations.transcript(context.session_id)]
            if any(known[start : start + len(given)] == given for start in range(len(known) - len(given) + 1)):
                result.present += 1
            else:
                result.refused.append((str(path), f"There is another conversation {context.session_id[:80]!r}."))
        else:
            result.count(str(path), outcome)
    return result


def write_folder(conversations: Conversations, target: Path, scope: str) -> int:
    """Write every conversation of a scope into a folder, each as a file with all its turns; return their number."""
    conversations = conversations.within(scope)
    target.mkdir(parents=True, exist_ok=True)
    names = conversations.list_sessions()
    for session_id in names:
        export_conversation(conversations, session_id, target, include_all_turns=True)
    return len(names)


def conversation_to_json(
    conversations: Conversations, session_id: str, *, include_all_turns: bool = False
) -> dict[str, Any]:
    """Return a conversation in the layout of the file."""
    context = conversations.load(session_id)
    turns = [_turn_to_json(turn) for turn in context.turns]
    fields: dict[str, Any] = {
        "session_id": session_id,
        "system_state": context.system_state,
        "facts": [fact.text for fact in conversations.facts(session_id)],
        "recent_history": turns,
        "long_term_summary": context.long_term_summary,
        "active_tasks": context.active_tasks,
        "tool_stats": context.tool_stats,
        "last_known_environment": context.last_known_environment,
        "token_usage": context.token_usage,
    }
    own: dict[str, Any] = {}
    if differing := context.settings.non_default_values():
        own["settings"] = differing
    if include_all_turns and context.folded:
        all_turns = [_turn_to_json(turn) for turn in conversations.transcript(session_id)]
        own["folded_history"] = all_turns[: len(all_turns) - len(turns)]
    return _convert_times(fields, _to_seconds) | context.extra | ({_LUKASA_KEY: own} if own else {})


def parse_conversation(fields: Any) -> tuple[Context, list[Turn]]:
    """Return the conversation in a file, and the turns before its recent view, if the file holds them."""
    if not isinstance(fields, Mapping):
        raise InvalidInput("it is not an object.")
    defaults = default_state()
    types = {name: type(value) for name, value in defaults.items()}
    types |= {"facts": list, "recent_history": list, "long_term_summary": str, "session_id": str, _LUKASA_KEY: dict}
    for name, expected in types.items():
        if name in fields and not isinstance(fields[name], expected):
            raise InvalidInput(f"{name} is not what it should be ({expected.__name__}).")
    if not all(isinstance(task, dict) for task in fields.get("active_tasks", ())):
        raise InvalidInput("active_tasks holds something that is not a task.")
    if not all(isinstance(fact, str) and fact.strip() for fact in fields.get("facts", ())):
        raise InvalidInput("facts holds something that is not a sentence.")
    own = fields.get(_LUKASA_KEY, {})
    context = Context(
        session_id=fields.get("session_id", ""),
        facts=list(fields.get("facts", ())),
        recent_history=[_parse_turn(entry) for entry in fields.get("recent_history", ())],
        long_term_summary=fields.get("long_term_summary", ""),
        extra={name: value for name, value in fields.items() if name not in _KNOWN_FIELDS},
        settings=ConversationSettings().with_changes(own.get("settings", {})),
        **_convert_times({name: fields.get(name, defaults[name]) for name in STATE_FIELDS}, _from_seconds),
    )
    return context, [_parse_turn(entry) for entry in own.get("folded_history", ())]


def _turn_to_json(turn: Turn) -> dict[str, Any]:
    optional = {
        "speaker": turn.speaker,
        "tool_calls": [dict(call) for call in turn.tool_calls],
        "tool_call_id": turn.tool_call_id,
        "is_unsaid": turn.is_unsaid,
    }
    entry: dict[str, Any] = {} if turn.timestamp is None else {"timestamp": _to_seconds(to_iso(turn.timestamp))}
    entry |= {"role": turn.role, "content": turn.content, "token_count": turn.tokens}
    return entry | {name: value for name, value in optional.items() if value} | dict(turn.extra)


def _parse_turn(entry: Any) -> Turn:
    """Return a turn that is not stored yet. The id that it has in the file becomes one of its unknown fields."""
    turn = Turn.from_entry(entry)
    return replace(turn, id="", extra={**turn.extra, **({"id": entry["id"]} if "id" in entry else {})})


def _convert_times(fields: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of a conversation with the times of its tasks and environment converted."""

    def convert_item(item: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        return {name: convert(value) if name in names else value for name, value in item.items()}

    tasks, environment = fields["active_tasks"], fields["last_known_environment"]
    return fields | {
        "active_tasks": [convert_item(task, _TASK_TIMES) for task in tasks],
        "last_known_environment": convert_item(environment, _ENVIRONMENT_TIMES),
    }


def _to_seconds(value: Any) -> Any:
    """Convert ISO 8601 to seconds since 1970, to an integer if possible; return other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        seconds = from_iso(value).timestamp()
    except InvalidInput:
        return value
    return int(seconds) if seconds.is_integer() else seconds


def _from_seconds(value: Any) -> Any:
    """Convert seconds since 1970 to ISO 8601; return other values unchanged."""
    return to_iso(parse_time(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value
