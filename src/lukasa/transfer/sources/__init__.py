"""Memories of other programs, read to audit or to import them.

    chatgpt         a data export of ChatGPT: conversations
    claude          a data export of Claude: conversations
    claude-code     a transcript of Claude Code or Codex, or a folder of them: conversations
    claude-mem      the database of claude-mem: observations, prompts and summaries of sessions
    basic-memory    a folder of basic-memory: observations, relations and paragraphs of notes
    hermes          MEMORY.md and USER.md of Hermes Agent
    anthropic       the folder of Anthropic's memory tool
    langgraph       checkpoints of LangGraph in SQLite: the messages of each thread
    mem0            an export of mem0: memories
    knowledge-graph the file of MCP's memory server, as sentences
    vault           a vault.jsonl: the newest version of each memory

A reader yields items: memories for the vault, conversations, files, and what it cannot read. Nothing in a source is executed,
links are not followed, and sizes are limited. ``importer`` writes the items; items that are present are not written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lukasa.core.clock import from_iso
from lukasa.errors import FormatError, InvalidInput
from lukasa.vault import VaultMemory

SOURCE_FORMATS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "chatgpt": ("chat_exports", "read_chatgpt"),
        "claude": ("chat_exports", "read_claude"),
        "claude-code": ("chat_exports", "read_claude_code"),
        "claude-mem": ("claude_mem", "read_observations"),
        "basic-memory": ("markdown_folders", "read_notes"),
        "hermes": ("markdown_folders", "read_hermes"),
        "anthropic": ("markdown_folders", "read_memory_folder"),
        "langgraph": ("langgraph_checkpoints", "read_threads"),
        "mem0": ("memory_exports", "read_mem0"),
        "knowledge-graph": ("memory_exports", "read_graph"),
        "vault": ("memory_exports", "read_vault"),
    }
)
"""Every format: its module in this package and the function that reads it."""

MAX_FILE_BYTES = 512 * 1024 * 1024
_MAX_NAME_LENGTH = 100
_MAX_TAGS = 20
_NEWEST_SECONDS = 32_503_680_000  # the year 3000: a larger number counts milliseconds


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """A memory for the vault, and its place in the source."""

    where: str
    memory: VaultMemory


@dataclass(frozen=True, slots=True)
class SourceConversation:
    """Turns of one conversation, each with a ``uuid``, in the order in which they were said."""

    where: str
    session_id: str
    turns: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text file for Anthropic's memory tool."""

    where: str
    path: str
    text: str
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of the source that cannot be read, and why."""

    where: str
    reason: str


SourceItem = SourceMemory | SourceConversation | SourceFile | Unreadable


def read_source(format: str, path: Path) -> Iterator[SourceItem]:
    """Yield the items of a source."""
    if format not in SOURCE_FORMATS:
        known = ", ".join(SOURCE_FORMATS)
        raise InvalidInput(f"There is no format {format[:60]!r}.", hint=f"Use one of {known}.")
    if not path.exists():
        raise FileNotFoundError(2, "No such file or folder", str(path))
    module, function = SOURCE_FORMATS[format]
    reader: Callable[[Path], Iterator[SourceItem]] = getattr(import_module(f"{__name__}.{module}"), function)
    return reader(path)


def detect_format(path: Path) -> str:
    """Return the format of a source by its content."""
    from lukasa.transfer.sources import chat_exports, markdown_folders, memory_exports
    from lukasa.transfer.sources.databases import detect_database

    if not path.exists():
        raise FileNotFoundError(2, "No such file or folder", str(path))
    for detect in (
        detect_database,
        chat_exports.detect_export,
        markdown_folders.detect_folder,
        memory_exports.detect_file,
    ):
        if (found := detect(path)) is not None:
            return found
    raise FormatError(f"{path} is no source that Lukasa knows.", hint=f"Name its format: {', '.join(SOURCE_FORMATS)}.")


def make_memory(
    format: str,
    identity: str,
    text: str,
    created_at: datetime,
    *,
    updated_at: datetime | None = None,
    category: str = "general",
    tags: Sequence[str] = (),
) -> VaultMemory:
    """Build a memory whose id follows from the format and an identity in it, so that a second import finds it again."""
    digest = hashlib.sha256(f"{format}\0{identity}".encode("utf-8", "surrogatepass")).hexdigest()
    names = [" ".join(str(tag).split()) for tag in tags]
    return VaultMemory(
        id=digest[:12],
        text=text.replace("\0", "").strip(),
        scope="shared",
        category=category if category.isprintable() and 0 < len(category.strip()) <= _MAX_NAME_LENGTH else "general",
        tier="canon",
        topic_id=None,
        tags=tuple(dict.fromkeys(n for n in names if n.isprintable() and 0 < len(n) <= _MAX_NAME_LENGTH))[:_MAX_TAGS],
        created_at=created_at,
        updated_at=updated_at if updated_at is not None and updated_at > created_at else None,
        source="import",
        deleted_at=None,
        version=1,
    )


def parse_moment(value: Any) -> datetime | None:
    """Return a time given in ISO 8601, in seconds or in milliseconds; ``None`` for anything else."""
    try:
        if isinstance(value, str):
            text = value.strip().replace(" ", "T", 1)
            has_offset = text.endswith(("Z", "z")) or "+" in text[10:] or "-" in text[10:]
            return from_iso(text if has_offset else f"{text}Z" if "T" in text else f"{text}T00:00:00Z")
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > _NEWEST_SECONDS else value, UTC)
    except (InvalidInput, ValueError, OverflowError, OSError):
        return None
    return None
