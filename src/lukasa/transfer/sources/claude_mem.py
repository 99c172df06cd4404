"""The database of claude-mem (``~/.claude-mem/claude-mem.db``), as its version 13 and earlier ones write it.

Every fact and every narrative of an observation is a memory. The prompts of a session and its summaries are the turns of a
conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lukasa.core.canonical_json import decode
from lukasa.errors import FormatError, InvalidInput
from lukasa.transfer.sources import SourceConversation, SourceItem, SourceMemory, Unreadable, make_memory, parse_moment
from lukasa.transfer.sources.databases import ForeignDatabase, open_database

_OBSERVATION = (
    "id", "memory_session_id", "project", "text", "type", "title", "subtitle", "facts", "narrative", "concepts",
    "created_at", "created_at_epoch",
)  # fmt: skip
_SUMMARY = (
    "id", "memory_session_id", "request", "investigated", "learned", "completed", "next_steps", "notes", "created_at",
    "created_at_epoch",
)  # fmt: skip
_PROMPT = ("id", "content_session_id", "prompt_number", "prompt_text", "created_at", "created_at_epoch")
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def read_observations(path: Path) -> Iterator[SourceItem]:
    """Yield the memories and conversations of the database."""
    with open_database(path) as database:
        if not database.columns("observations"):
            raise FormatError(f"{path} is not a database of claude-mem.")
        for row in database.rows("observations", _OBSERVATION, "id"):
            where, time = f"observation {row['id']}", _time_of(row)
            if time is None:
                yield Unreadable(where, "It has no time.")
                continue
            facts = _read_list(row["facts"])
            title = ": ".join(part for part in (_text(row["title"]), _text(row["subtitle"])) if part)
            narrative = _text(row["narrative"]) or ("" if facts else _text(row["text"]))
            texts = [*facts, narrative or (title if not facts else "")]
            own_tags = [f"title={title}"] if title else []
            tags = [f"project={_text(row['project'])}", *own_tags, *_read_list(row["concepts"])]
            for number, text in enumerate(texts):
                if text:
                    identity = f"{row['memory_session_id']}\0{row['created_at_epoch']}\0{row['id']}\0{number}"
                    memory = make_memory("claude-mem", identity, text, time, category=_text(row["type"]), tags=tags)
                    yield SourceMemory(where, memory)
        yield from _read_sessions(database)


def _read_sessions(database: ForeignDatabase) -> Iterator[SourceItem]:
    """Yield a conversation for each session: its prompts and its summaries, in the order of their times."""
    names = {
        row["memory_session_id"]: row["content_session_id"]
        for row in database.rows("sdk_sessions", ("memory_session_id", "content_session_id"), "id")
    }
    turns: dict[str, list[dict[str, Any]]] = {}
    for row in database.rows("user_prompts", _PROMPT, "id"):
        turn = {"role": "user", "content": _text(row["prompt_text"]), "uuid": f"prompt {row['id']}"}
        turns.setdefault(_text(row["content_session_id"]), []).append({**turn, "timestamp": _time_of(row)})
    for row in database.rows("session_summaries", _SUMMARY, "id"):
        session = _text(names.get(row["memory_session_id"]) or row["memory_session_id"])
        parts = [
            f"{name.replace('_', ' ').capitalize()}: {text}" for name in _SUMMARY_PARTS if (text := _text(row[name]))
        ]
        turn = {"role": "assistant", "speaker": "claude-mem", "content": "\n".join(parts)}
        turns.setdefault(session, []).append({**turn, "uuid": f"summary {row['id']}", "timestamp": _time_of(row)})
    for session, said in turns.items():
        spoken = [turn for turn in said if turn["content"]]
        if spoken and session:
            timed = all(turn["timestamp"] is not None for turn in spoken)
            ordered = sorted(spoken, key=lambda turn: turn["timestamp"]) if timed else spoken
            yield SourceConversation(f"session {session}", f"claude-mem-{session}", ordered)


def _time_of(row: Mapping[str, Any]) -> Any:
    return parse_moment(row["created_at_epoch"]) or parse_moment(row["created_at"])


def _read_list(value: Any) -> list[str]:
    """Return the texts in a JSON list; a text that is no list is one text."""
    text = _text(value)
    try:
        found = decode(text) if text.startswith("[") else [text]
    except InvalidInput:
        found = [text]
    return [item.strip() for item in found if isinstance(item, str) and item.strip()]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
