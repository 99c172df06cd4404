"""Checkpoints of LangGraph in a SQLite file: the messages of each thread, as its newest state has them.

Only messages are read, as plain data: no class that a checkpoint names is imported or built. A message has the time of the
first checkpoint that contains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from lukasa.errors import FormatError, MissingExtra
from lukasa.transfer.sources import SourceConversation, SourceItem, Unreadable, parse_moment
from lukasa.transfer.sources.databases import open_database

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_COLUMNS = ("thread_id", "checkpoint_id", "type", "checkpoint")
_CLASS_EXTENSIONS = range(6)
_SNAPSHOT_EXTENSION = 7


def read_threads(path: Path) -> Iterator[SourceItem]:
    """Yield the conversation of each thread."""
    with open_database(path) as database:
        if not database.columns("checkpoints"):
            raise FormatError(f"{path} is not a database of LangGraph's checkpoints.")
        threads = dict.fromkeys(row["thread_id"] for row in database.rows("checkpoints", ("thread_id",), "thread_id"))
        for thread in threads:
            rows = database.rows(
                "checkpoints", _COLUMNS, "checkpoint_id", "thread_id = ? AND checkpoint_ns = ''", (thread,)
            )
            yield _read_thread(str(thread), rows)


def _read_thread(thread: str, rows: Iterator[dict[str, Any]]) -> SourceItem:
    where = f"thread {thread[:200]}"
    messages: list[dict[str, Any]] = []
    first_seen: dict[str, datetime | None] = {}
    for row in rows:
        if row["type"] != "msgpack" or not isinstance(row["checkpoint"], bytes):
            return Unreadable(where, f"Checkpoints of the type {str(row['type'])[:40]!r} are not read, only msgpack.")
        try:
            state = _decode(row["checkpoint"])
            messages = _list_messages(state)
        except (ValueError, TypeError, RecursionError) as error:
            return Unreadable(where, f"The checkpoint cannot be decoded: {str(error)[:200]}")
        for message in messages:
            first_seen.setdefault(message["uuid"], parse_moment(state.get("ts")))
    if not messages:
        return Unreadable(where, "Its newest state has no messages.")
    turns = [{**message, "timestamp": first_seen[message["uuid"]]} for message in messages]
    return SourceConversation(where, f"langgraph-{thread}"[:200], turns)


def _list_messages(state: Any) -> list[dict[str, Any]]:
    values = state.get("channel_values") if isinstance(state, dict) else None
    found = values.get("messages") if isinstance(values, dict) else None
    turns = []
    for number, message in enumerate(found if isinstance(found, list) else []):
        role = _ROLES.get(str(message.get("type"))) if isinstance(message, dict) else None
        if role is None:
            continue
        calls = [
            {"id": str(call.get("id")), "name": str(call.get("name"))}
            for call in message.get("tool_calls") or ()
            if isinstance(call, dict)
        ]
        content = message.get("content")
        parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
        parts = [part if isinstance(part, str) else part.get("text") for part in parts]
        text = "\n".join(part for part in parts if isinstance(part, str)) or "\n".join(
            f"[{call['name']}]" for call in calls
        )
        if text:
            turn = {"uuid": str(message.get("id") or f"message {number}"), "role": role, "content": text}
            more = {"tool_calls": calls, "tool_call_id": str(message.get("tool_call_id") or "")}
            turns.append({**turn, **{name: value for name, value in more.items() if value}})
    return turns


def _decode(raw: bytes) -> Any:
    """Decode msgpack. An object of a class becomes the data that it was stored with."""
    try:
        import ormsgpack
    except ImportError as error:
        hint = "Run: pip install 'lukasa[langgraph]'"
        raise MissingExtra("Checkpoints of LangGraph need its packages to be read.", hint=hint) from error

    def read_extension(code: int, data: bytes) -> Any:
        value = ormsgpack.unpackb(data, ext_hook=read_extension, option=ormsgpack.OPT_NON_STR_KEYS)
        if code == _SNAPSHOT_EXTENSION:
            return value
        is_object = code in _CLASS_EXTENSIONS and isinstance(value, list | tuple) and len(value) > 2
        return value[2] if is_object else None  # module, class, the data

    return ormsgpack.unpackb(raw, ext_hook=read_extension, option=ormsgpack.OPT_NON_STR_KEYS)
