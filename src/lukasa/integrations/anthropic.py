"""The memory tool of the Anthropic API on a Lukasa store: ``client.beta.messages.run_tools(tools=[LukasaMemoryTool(memory)])``.

The model sees a folder of text files below ``/memories`` and gets the same answers as from the SDK's tool for local files. Here
each file is a record: every version stays, ``memory.journal.undo`` takes changes back, scopes keep agents apart, and
``memory.recall`` finds what the files say.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lukasa.core.outcome import Accepted, Refused
from lukasa.core.record import Draft
from lukasa.errors import MissingExtra
from lukasa.integrations import MEMORY_FILE
from lukasa.integrations.records import choose_scope, hash_names
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise MissingExtra("The Anthropic SDK is not installed.", hint="Run: pip install 'lukasa[anthropic]'") from error

ROOT = "/memories"
MAX_LINES = 999_999
_MAX_DEPTH = 2
_FOLDER_SIZE = "4K"
"""What a local file system says of a folder."""

Files = Mapping[str, str | None]
"""The text of each file by its path; ``None`` for a folder."""
Change = dict[str, str | None]
Decision = tuple[Change, Sequence[str], str]
"""The files to write, the paths to delete, and the answer."""


class MemoryFolder:
    """The files that the tool shows, in one scope of a store."""

    def __init__(self, memory: Memory, scope: str | None = None) -> None:
        self._journal = memory.valid_journal
        self._scope = choose_scope(memory, scope)

    def view(self, command: Any) -> str:
        path = _check_path(command.path)
        with self._journal.snapshot() as reader:
            files = self._read_files(reader)
        if path not in files:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        if (text := files[path]) is not None:
            lines, first = text.split("\n"), 1
            if len(lines) > MAX_LINES:
                raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
            wanted = getattr(command, "view_range", None)
            if wanted and len(wanted) == 2:
                first = max(1, wanted[0])
                lines = lines[first - 1 : len(lines) if wanted[1] == -1 else wanted[1]]
            return f"Here's the content of {command.path} with line numbers:\n" + _number_lines(lines, first)
        lines = [f"{_FOLDER_SIZE}\t{path}"]
        for parts, name in sorted(
            (name[len(path) + 1 :].split("/"), name) for name in files if name.startswith(f"{path}/")
        ):
            if len(parts) > _MAX_DEPTH or any(part.startswith(".") for part in parts):
                continue
            if (text := files[name]) is None:
                lines.append(f"{_FOLDER_SIZE}\t{name}/")
                continue
            size = len(text.encode("utf-8", "surrogatepass"))
            power = min(max(size.bit_length() - 1, 0) // 10, 3)
            value = size / 1024**power
            number = f"{int(value)}" if value == int(value) else f"{value:.1f}"
            lines.append(f"{number}{'BKMG'[power]}\t{name}")
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:\n"
        return head + "\n".join(lines)

    def create(self, command: Any) -> str:
        path = _check_path(command.path)

        def change(files: Files) -> Decision:
            if path in files:
                raise ToolError(f"File {command.path} already exists")
            made = {**_missing_folders(files, path), path: command.file_text}
            return made, (), f"File created successfully at: {command.path}"

        return self._change(change)

    def str_replace(self, command: Any) -> str:
        path = _check_path(command.path)

        def change(files: Files) -> Decision:
            text = _require_file(files, path, command.path)
            old, new = command.old_str, command.new_str or ""
            places = [place for place in range(len(text) + 1) if text.startswith(old, place)]
            if not places:
                missing = f"old_str `{old}` did not appear verbatim in {command.path}."
                raise ToolError(f"No replacement was performed, {missing}")
            lines = [text.count("\n", 0, place) + 1 for place in places]
            if text.count(old) > 1:
                where = ", ".join(map(str, lines))
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {where}. "
                    "Please ensure it is unique"
                )
            changed = text.replace(old, new)
            first, shown = max(0, lines[0] - 3), changed.split("\n")
            snippet = _number_lines(shown[first : lines[0] + 2], first + 1)
            said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            return {path: changed}, (), said + snippet

        return self._change(change)

    def insert(self, command: Any) -> str:
        path = _check_path(command.path)

        def change(files: Files) -> Decision:
            lines = _require_file(files, path, command.path).split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            text = "\n".join(lines)
            return {path: text if text.endswith("\n") else text + "\n"}, (), f"The file {command.path} has been edited."

        return self._change(change)

    def delete(self, command: Any) -> str:
        path = _check_path(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")

        def change(files: Files) -> Decision:
            if path not in files:
                raise ToolError(f"The path {command.path} does not exist")
            return {}, [name for name in files if _is_within(name, path)], f"Successfully deleted {command.path}"

        return self._change(change)

    def rename(self, command: Any) -> str:
        old, new = _check_path(command.old_path), _check_path(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")

        def change(files: Files) -> Decision:
            if new in files:
                raise ToolError(f"The destination {command.new_path} already exists")
            if old not in files:
                raise ToolError(f"The path {command.old_path} does not exist")
            if _is_within(new, old):
                raise ToolError(f"Cannot move {command.old_path} into itself")
            moved = {new + name.removeprefix(old): text for name, text in files.items() if _is_within(name, old)}
            gone = [name for name in files if _is_within(name, old)]
            said = f"Successfully renamed {command.old_path} to {command.new_path}"
            return {**_missing_folders(files, new), **moved}, gone, said

        return self._change(change)

    def clear_all_memory(self) -> str:
        return self._change(lambda files: ({}, [name for name in files if name != ROOT], "All memory cleared"))

    def _read_files(self, reader: Reader) -> dict[str, str | None]:
        records = reader.read(Query(kinds=(MEMORY_FILE,), scopes=(self._scope,)))
        files = {record.body["path"]: None if record.body["is_folder"] else record.text for record in records}
        return {ROOT: None, **files}

    def _change(self, decide: Callable[[Files], Decision]) -> str:
        """Decide and write in one step, so that two writers never overwrite each other."""
        said = ""

        def drafts(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal said
            written, gone, said = decide(self._read_files(reader))
            return [*(self._tombstone(path) for path in gone), *(self._draft(*item) for item in written.items())]

        outcome = self._journal.append_if(drafts)
        if not isinstance(outcome, Accepted):
            raise ToolError(f"The memory was not changed: {outcome.reason}")
        return said

    def _draft(self, path: str, text: str | None) -> Draft:
        body = {"path": path, "is_folder": text is None}
        return Draft(MEMORY_FILE, text or "", body, hash_names(path), self._scope, origin="memory_tool")

    def _tombstone(self, path: str) -> Draft:
        return Draft(MEMORY_FILE, id=hash_names(path), scope=self._scope, deleted=True, origin="memory_tool")


class LukasaMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for a synchronous client."""

    def __init__(self, memory: Memory, *, scope: str | None = None, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = MemoryFolder(memory, scope)

    def view(self, command: Any) -> str:
        return self._folder.view(command)

    def create(self, command: Any) -> str:
        return self._folder.create(command)

    def str_replace(self, command: Any) -> str:
        return self._folder.str_replace(command)

    def insert(self, command: Any) -> str:
        return self._folder.insert(command)

    def delete(self, command: Any) -> str:
        return self._folder.delete(command)

    def rename(self, command: Any) -> str:
        return self._folder.rename(command)

    def clear_all_memory(self) -> str:
        return self._folder.clear_all_memory()


class AsyncLukasaMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an asynchronous client."""

    def __init__(self, memory: Memory, *, scope: str | None = None, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = MemoryFolder(memory, scope)

    async def view(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.view, command)

    async def create(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.create, command)

    async def str_replace(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.str_replace, command)

    async def insert(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.insert, command)

    async def delete(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.delete, command)

    async def rename(self, command: Any) -> str:
        return await asyncio.to_thread(self._folder.rename, command)

    async def clear_all_memory(self) -> str:
        return await asyncio.to_thread(self._folder.clear_all_memory)


def _check_path(path: str) -> str:
    """Return a path below the root in its shortest form."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    clean = posixpath.normpath(ROOT + "/" + path.removeprefix(ROOT).lstrip("/"))
    if not _is_within(clean, ROOT) or "\0" in path:
        raise ToolError(f"Path {path} would escape /memories directory")
    return clean


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _missing_folders(files: Files, path: str) -> Change:
    """Return the folders above a path that do not exist yet; a file in the way is an error."""
    missing: Change = {}
    folder = posixpath.dirname(path)
    while folder != ROOT:
        if files.get(folder) is not None:
            raise ToolError(f"The path {folder} is not a directory.")
        if folder not in files:
            missing[folder] = None
        folder = posixpath.dirname(folder)
    return missing


def _require_file(files: Files, path: str, shown: str) -> str:
    if path not in files:
        raise ToolError(f"The path {shown} does not exist. Please provide a valid path.")
    text = files[path]
    if text is None:
        raise ToolError(f"The path {shown} is not a file.")
    return text


def _number_lines(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))
