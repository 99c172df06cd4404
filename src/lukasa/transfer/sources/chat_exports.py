"""Data exports of Claude and ChatGPT: ``conversations.json`` in a ZIP archive, in a folder, or alone.

Of a conversation of ChatGPT, which may have branches, the current branch is read: the one that its user saw last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lukasa.errors import FormatError
from lukasa.transfer.layouts.agent_transcripts import read_transcript
from lukasa.transfer.sources import SourceConversation, SourceItem, Unreadable, parse_moment
from lukasa.transfer.sources.files import is_zip, read_json_files

_PREFIX = "conversations"
_CLAUDE_ROLES = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}
_SPOKEN_TYPES = frozenset({"text", "multimodal_text", "code", "execution_output"})
_MAX_MESSAGES = 1_000_000


def detect_export(path: Path) -> str | None:
    """Return which program made an export, by its first conversation."""
    if path.is_dir() or is_zip(path) or path.name.startswith(_PREFIX):
        for _, document in read_json_files(path, _PREFIX):
            first = next((item for item in _list_of(document) if isinstance(item, dict)), {})
            if "mapping" in first:
                return "chatgpt"
            if "chat_messages" in first:
                return "claude"
    return None


def read_claude(path: Path) -> Iterator[SourceItem]:
    """Yield the conversations of a data export of Claude."""
    for where, chat in _conversations(path):
        messages = chat.get("chat_messages")
        if not isinstance(messages, list):
            yield Unreadable(where, "The conversation has no messages.")
            continue
        turns: list[dict[str, Any]] = []
        for number, message in enumerate(messages):
            if not isinstance(message, dict) or (role := _CLAUDE_ROLES.get(str(message.get("sender")))) is None:
                yield Unreadable(f"{where}, message {number + 1}", "It has no known sender.")
                continue
            uuid, time = str(message.get("uuid") or number), parse_moment(message.get("created_at"))
            blocks = [block for block in _list_of(message.get("content")) if isinstance(block, dict)]
            texts = [block.get("text") for block in blocks if block.get("type") == "text"]
            texts = [text for text in texts if isinstance(text, str)] or [message.get("text")]
            content = "\n".join(text for text in texts if isinstance(text, str))
            turns.append({"uuid": uuid, "role": role, "content": content, "timestamp": time})
            for index, attached in enumerate(_list_of(message.get("attachments")), 1):
                if isinstance(attached, dict) and isinstance(text := attached.get("extracted_content"), str):
                    name = str(attached.get("file_name") or "attachment")[:200]
                    more = {"attachment": name, "uuid": f"{uuid}/{index}"}
                    turns.append({"role": role, "content": text, "timestamp": time, **more})
        yield from _conversation("claude", where, chat.get("uuid"), chat.get("name"), turns)


def read_claude_code(path: Path) -> Iterator[SourceItem]:
    """Yield the sessions of Claude Code or Codex, under the ids that the hooks store them by: one transcript or a folder."""
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    for file in files:
        if file.is_symlink():
            yield Unreadable(file.name, "Links are not followed.")
            continue
        turns = [{**each.turn, "uuid": each.uuid} for each in read_transcript(file).turns if each.turn["content"]]
        if turns:
            yield SourceConversation(file.name, file.stem, turns)
        else:
            yield Unreadable(file.name, "It has no turns of a session.")


def read_chatgpt(path: Path) -> Iterator[SourceItem]:
    """Yield the conversations of a data export of ChatGPT."""
    for where, chat in _conversations(path):
        mapping = chat.get("mapping")
        if not isinstance(mapping, dict):
            yield Unreadable(where, "The conversation has no messages.")
            continue
        turns = []
        for node in _current_branch(mapping, chat.get("current_node")):
            message = node.get("message")
            if not isinstance(message, dict) or not isinstance(author := message.get("author"), dict):
                continue
            hidden = _mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
            content = _mapping(message.get("content"))
            parts = [part for part in _list_of(content.get("parts")) if isinstance(part, str)]
            text = "\n".join(parts) if parts else content.get("text")
            text = text.strip() if isinstance(text, str) else ""
            if hidden or not text or content.get("content_type") not in _SPOKEN_TYPES:
                continue
            turn = {"uuid": str(message.get("id") or node.get("id")), "role": str(author.get("role") or "assistant")}
            turns.append({**turn, "content": text, "timestamp": parse_moment(message.get("create_time"))})
        id = chat.get("conversation_id") or chat.get("id")
        yield from _conversation("chatgpt", where, id, chat.get("title"), turns)


def _conversations(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    found = False
    for name, document in read_json_files(path, _PREFIX):
        if not isinstance(document, list):
            raise FormatError(f"{name} is not a list of conversations.")
        for number, chat in enumerate(document, 1):
            if isinstance(chat, dict):
                yield f"{name}, conversation {number}", chat
        found = True
    if not found:
        raise FormatError(f"There is no conversations.json in {path}.", hint="Name the ZIP archive or its folder.")


def _conversation(format: str, where: str, id: Any, title: Any, turns: list[dict[str, Any]]) -> Iterator[SourceItem]:
    """Yield a conversation with at least one text, under the id that it had; its first turn gets the title."""
    spoken = [turn for turn in turns if turn["content"]]
    if not isinstance(id, str) or not id:
        yield Unreadable(where, "The conversation has no id.")
    elif spoken:
        if isinstance(title, str) and title.strip():
            spoken[0]["title"] = title.strip()[:500]
        yield SourceConversation(where, f"{format}-{id}", spoken)


def _current_branch(mapping: Mapping[str, Any], current: Any) -> list[Mapping[str, Any]]:
    """Return the nodes from the root to the current one; without one, to the last leaf."""
    if not isinstance(current, str) or current not in mapping:
        leaves = [id for id, node in mapping.items() if not _list_of(_mapping(node).get("children"))]
        current = leaves[-1] if leaves else None
    branch: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(current, str) and current in mapping and current not in seen and len(seen) < _MAX_MESSAGES:
        seen.add(current)
        branch.append(_mapping(mapping[current]))
        current = branch[-1].get("parent")
    return branch[::-1]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
