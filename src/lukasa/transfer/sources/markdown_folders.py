"""Folders of text files: notes of basic-memory, MEMORY.md and USER.md of Hermes Agent, and Anthropic's memory tool.

A note of basic-memory has a title and tags in its front matter, observations (``- [category] text #tag (context)``),
relations (``- relation [[Target]]``) and paragraphs. Hermes Agent separates its entries by a line with ``§``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from lukasa.errors import FormatError
from lukasa.text.markdown import read_bullet, read_fence, read_heading
from lukasa.text.sentences import split_sentences
from lukasa.transfer.sources import SourceFile, SourceItem, SourceMemory, Unreadable, make_memory
from lukasa.transfer.sources.files import modified_at, read_text_file, walk_folder
from lukasa.vault.settings import DEFAULT_MAX_LENGTH

_MAX_NOTE_BYTES = 20_000_000
_MAX_FRONT_MATTER = 100_000
_OBSERVATION = re.compile(r"\[([^\[\]()]+)\]\s+(\S.*)")
_RELATION = re.compile(r"""(?:(\S+)|"([^"]+)"|'([^']+)')\s*\[\[([^\[\]]+)\]\]\s*(\([^()]*\))?""")
_NO_CLOCK_MARKS = str.maketrans("", "", " :.,-")
_HERMES_FILES = {"MEMORY.md": "general", "USER.md": "user"}
_HERMES_DELIMITER = "\n§\n"


def detect_folder(path: Path) -> str | None:
    """Return which program's folder this is."""
    if path.name in _HERMES_FILES or any((path / name).is_file() for name in _hermes_names()):
        return "hermes"
    if path.is_dir():
        for name, file, is_plain in walk_folder(path):
            if is_plain and name.endswith(".md"):
                with file.open("rb") as content:
                    head = content.read(4_000).decode("utf-8", "replace")
                if head.startswith("---\n") and any(f"\n{name}:" in head for name in ("permalink", "type", "title")):
                    return "basic-memory"
    return None


def read_hermes(path: Path) -> Iterator[SourceItem]:
    """Yield the entries of MEMORY.md and USER.md, from their folder, from the folder above it, or from one file."""
    files = [path] if path.is_file() else [path / name for name in _hermes_names() if (path / name).is_file()]
    if not files:
        raise FormatError(f"There is neither MEMORY.md nor USER.md in {path}.")
    for file in files:
        try:
            text, changed = read_text_file(file, _MAX_NOTE_BYTES), modified_at(file)
        except FormatError as error:
            yield Unreadable(file.name, error.message)
            continue
        category = _HERMES_FILES.get(file.name, "general")
        entries = [entry.strip() for entry in text.replace("\r\n", "\n").split(_HERMES_DELIMITER)]
        for number, entry in enumerate(dict.fromkeys(entries), 1):
            if entry:
                memory = make_memory("hermes", f"{file.name}\0{entry}", entry, changed, category=category)
                yield SourceMemory(f"{file.name}, entry {number}", memory)


def _hermes_names() -> list[str]:
    return [f"{folder}{name}" for folder in ("", "memories/") for name in _HERMES_FILES]


def read_memory_folder(path: Path) -> Iterator[SourceItem]:
    """Yield the files that Anthropic's memory tool wrote; ``path`` is the folder ``memories``, or the one above it."""
    root = path / "memories" if (path / "memories").is_dir() else path
    if not root.is_dir():
        raise FormatError(f"{path} is not a folder.")
    for name, file, is_plain in walk_folder(root):
        try:
            if not is_plain:
                raise FormatError("It is not a plain file; links are not followed.")
            yield SourceFile(name, f"/memories/{name}", read_text_file(file, _MAX_NOTE_BYTES), modified_at(file))
        except FormatError as error:
            yield Unreadable(name, error.message)


def read_notes(path: Path) -> Iterator[SourceItem]:
    """Yield the observations, relations and paragraphs of the notes in a folder of basic-memory."""
    if not path.is_dir():
        raise FormatError(f"{path} is not a folder of notes.")
    for name, file, is_plain in walk_folder(path):
        if not name.endswith(".md"):
            continue
        try:
            if not is_plain:
                raise FormatError("It is not a plain file; links are not followed.")
            text = read_text_file(file, _MAX_NOTE_BYTES).replace("\r\n", "\n")
        except FormatError as error:
            yield Unreadable(name, error.message)
            continue
        yield from _read_note(name, text, modified_at(file))


def _read_note(name: str, text: str, changed: datetime) -> Iterator[SourceItem]:
    fields: Mapping[str, Any] = {}
    front, rest = _split_front_matter(text)
    if rest is not None and len(front) <= _MAX_FRONT_MATTER:
        try:
            loaded = yaml.safe_load(front)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            yield Unreadable(f"{name}, front matter", f"It is not YAML: {str(error)[:200]}")
            loaded = None
        fields = loaded if isinstance(loaded, dict) else {}
        text = rest
    title = fields.get("title") if isinstance(fields.get("title"), str) else name.rpartition("/")[2].removesuffix(".md")
    given = fields.get("tags")
    own_tags = [tag for tag in given if isinstance(tag, str)] if isinstance(given, list) else []
    own_tags += [tag.strip() for tag in given.split(",")] if isinstance(given, str) else []
    created = _note_time(fields.get("created")) or changed
    updated = _note_time(fields.get("modified"))
    for category, content, tags in _statements(text, str(title)):
        memory = make_memory(
            "basic-memory",
            f"{fields.get('permalink') or name}\0{content}",
            content,
            created,
            updated_at=updated,
            category=category,
            tags=[*tags, *own_tags, f"note={title}"],
        )
        yield SourceMemory(name, memory)


def _split_front_matter(text: str) -> tuple[str, str | None]:
    """Return the front matter of a note and what follows it; None if it has none."""
    first, _, rest = text.partition("\n")
    lines = rest.split("\n")
    end = next((place for place, line in enumerate(lines) if line.rstrip(" \t") == "---"), None)
    if first.rstrip(" \t") != "---" or not end:
        return "", None
    return "\n".join(lines[:end]), "\n".join(lines[end + 1 :])


def _statements(text: str, title: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the category, the text and the tags of everything that a note states."""
    paragraph: list[str] = []
    in_fence = False
    for line in [*text.split("\n"), ""]:
        if read_fence(line):
            in_fence = not in_fence
        bullet = None if in_fence else read_bullet(line)
        content = line.strip() if bullet is None else bullet
        statement = None if in_fence else _parse_statement(content, title, is_bullet=bullet is not None)
        if (statement is not None or not content or read_heading(line.lstrip())[0]) and not in_fence:
            yield from (("note", part, []) for part in _pack(title, "\n".join(paragraph)))
            paragraph = []
            if statement is not None:
                yield statement
        else:
            paragraph.append(line.strip() if not in_fence else line)
    if paragraph:
        yield from (("note", part, []) for part in _pack(title, "\n".join(paragraph)))


def _parse_statement(content: str, title: str, *, is_bullet: bool) -> tuple[str, str, list[str]] | None:
    """Parse an observation or a relation; ``None`` for any other text."""
    if is_bullet and (relation := _RELATION.fullmatch(content)) is not None:
        words = next(word for word in relation.groups()[:3] if word).replace("_", " ")
        return "relation", f"{title} {words} {relation[4].strip()}" + (f" {relation[5]}" if relation[5] else ""), []
    tags = [tag for word in content.split() if word.startswith("#") for tag in word.split("#") if tag]
    found = _OBSERVATION.fullmatch(content)
    category = found[1].strip() if found is not None else ""
    is_task_mark = len(category) < 2 and (category.lower() in ("", "x") or not category.isalnum())
    if found is None or category.translate(_NO_CLOCK_MARKS).isdecimal() or is_task_mark:
        return None
    return category, f"{title}: {found[2].strip()}", tags


def _pack(title: str, paragraph: str) -> Iterator[str]:
    """Yield a paragraph with the title of its note; a long one in parts of whole sentences."""
    text, room = paragraph.strip(), DEFAULT_MAX_LENGTH - len(title) - 2
    if len(text) <= room:
        if text:
            yield f"{title}: {text}"
        return
    part = ""
    for sentence in split_sentences(text):
        if part and len(part) + 1 + len(sentence) > room:
            yield f"{title}: {part}"
            part = ""
        part = f"{part} {sentence}".strip()
    if part:
        yield f"{title}: {part}"


def _note_time(value: Any) -> datetime | None:
    """Return a time of the front matter; one without an offset is local, as basic-memory has it."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.astimezone()
        return datetime.combine(value, time()).astimezone() if isinstance(value, date) else None
    except (ValueError, OverflowError, OSError):
        return None
