"""A memory store of the Pydantic AI harness on a Lukasa store: ``Memory(LukasaMemoryFiles(memory))`` as a capability of an agent.

A file is one record; its versions stay in the log. A write names the version that it replaces and may carry an operation,
whose receipt is stored in the same step and kept for good, so that a repeated call changes nothing. A search is a recall, by
words and by meaning.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lukasa.core.names import is_plain_name
from lukasa.core.record import Draft, Key, Record
from lukasa.errors import MissingExtra
from lukasa.integrations import FILE_OPERATION, NOTE_FILE
from lukasa.integrations.records import choose_scope, hash_names, read_at_once, run_to_end
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader

try:
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )
except ImportError as error:
    raise MissingExtra(
        "The Pydantic AI harness is not installed.", hint="Run: pip install 'lukasa[pydantic-ai-harness]'"
    ) from error

_MAX_METADATA = 4_096


class LukasaMemoryFiles:
    """Stores the files that an agent keeps in a Lukasa store."""

    def __init__(self, memory: Memory, *, scope: str | None = None) -> None:
        self._memory = memory
        self._journal = memory.valid_journal
        self._scope = choose_scope(memory, scope)

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the beginning of a file, or ``None`` if there is no such file."""
        _check_path(path)
        if max_chars <= 0:
            raise ValueError("max_chars must be positive")
        record = await asyncio.to_thread(self._journal.get, self._file_key(path))
        if record is None:
            return None
        text, body = record.text, record.body
        return MemoryFile(
            content=text[:max_chars],
            version=body["version"],
            operation_id=body["operation"],
            truncated=len(text) > max_chars,
            metadata=json.loads(body["metadata"]) if body["metadata"] else None,
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return the result of an operation that was carried out before."""
        key = self._operation_key(operation)
        return _read_receipt(await asyncio.to_thread(self._journal.get, key), operation)

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace a file if its version is the expected one."""
        return await self._change(path, content, expected_version, operation, None)

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file, and keep with it what the caller says about the write."""
        encoded = None
        if metadata:
            named: Mapping[Any, Any] = metadata
            texts = [text for pair in named.items() for text in pair]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("memory metadata keys and values must be strings")
            encoded = json.dumps(dict(metadata), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            if any("\0" in text for text in texts):
                raise ValueError("memory metadata keys and values must not contain NUL characters")
            if len(encoded) > _MAX_METADATA:
                raise ValueError(f"memory metadata is {len(encoded)} characters as JSON; the limit is {_MAX_METADATA}")
        return await self._change(path, content, expected_version, operation, encoded)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file if its version is the expected one."""
        return await self._change(path, None, expected_version, operation, None)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the paths that begin with a prefix, sorted."""
        _check_prefix(prefix)
        if limit <= 0:
            raise ValueError("limit must be positive")
        folder = prefix.rpartition("/")[0]
        labels = (f"under={hash_names(folder)}",) if folder else ()
        query = Query(kinds=(NOTE_FILE,), scopes=(self._scope,), labels=labels)
        records = await asyncio.to_thread(read_at_once, self._journal, query)
        return sorted(path for record in records if (path := record.body["path"]).startswith(prefix))[:limit]

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """Recall the files directly below a prefix that answer a question, the best first."""
        _check_prefix(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        folder = prefix.rpartition("/")[0]
        label = f"in={hash_names(folder)}"
        scopes, kinds = (self._scope,), (NOTE_FILE,)
        wanted = min(limit, max_files)
        answer = await asyncio.to_thread(
            lambda: self._memory.recall(query, wanted + 1, kinds=kinds, scopes=scopes, labels=(label,))
        )
        hits = [hit for hit in answer.hits if hit.record.body["path"].startswith(prefix)]
        matches, left = list[MemorySearchMatch](), max_chars
        for hit in hits[:wanted]:
            path = hit.record.body["path"]
            left -= len(path) - len(prefix)
            if left <= 0:
                break
            text = hit.record.text[:max_file_chars]
            found = map(text.lower().find, query.lower().split())
            first = min((place for place in found if place >= 0), default=0)
            start = max(0, min(first - left // 3, len(text) - left))
            snippet = text[start : start + left]
            if start:
                snippet = "..."[:left] + snippet[3:]
            if start + left < len(text):
                snippet = snippet[: max(0, left - 3)] + "..."[:left]
            left -= len(snippet)
            matches.append(MemorySearchMatch(path=path, snippet=snippet, score=hit.score))
        was_cut = any(len(hit.record.text) > max_file_chars for hit in hits)
        return MemorySearchResult(matches=matches, scanned=len(hits), truncated=len(hits) > len(matches) or was_cut)

    async def _change(
        self,
        path: str,
        content: str | None,
        expected: str | None,
        operation: MemoryOperation | None,
        metadata: str | None,
    ) -> MemoryMutation:
        """Write or delete a file with the receipt of the operation, in one step."""
        _check_path(path)
        key, version = self._file_key(path), None if content is None else uuid.uuid4().hex
        mutation = MemoryMutation(version=version, replayed=False, existed=False)

        def decide(reader: Reader) -> Sequence[Draft]:
            nonlocal mutation
            if operation is not None:
                receipt = _read_receipt(reader.get(self._operation_key(operation)), operation)
                if receipt is not None:
                    mutation = receipt
                    return []
            current = reader.get(key)
            if (None if current is None else current.body["version"]) != expected:
                raise MemoryConflictError(f"memory path {path!r} changed before it could be changed")
            mutation = MemoryMutation(version=version, replayed=False, existed=current is not None)
            return [*self._draft_file(key, path, content, current, mutation, operation, metadata)]

        await run_to_end(lambda: self._journal.append_if(decide).unwrap_all())
        return mutation

    def _draft_file(
        self,
        key: Key,
        path: str,
        content: str | None,
        current: Record | None,
        mutation: MemoryMutation,
        operation: MemoryOperation | None,
        metadata: str | None,
    ) -> Iterator[Draft]:
        if content is not None:
            operation_id = None if operation is None else operation.id
            body = {"path": path, "version": mutation.version, "operation": operation_id, "metadata": metadata}
            folders = path.split("/")[:-1]
            under = tuple(f"under={hash_names('/'.join(folders[:depth]))}" for depth in range(1, len(folders) + 1))
            labels = (f"in={hash_names('/'.join(folders))}", *under)
            yield Draft(key.kind, content, body, key.id, key.scope, labels=labels, origin="tool")
        elif current is not None:
            yield Draft(key.kind, id=key.id, scope=key.scope, deleted=True, origin="tool")
        if operation is not None:
            receipt = {"fingerprint": operation.fingerprint, "version": mutation.version, "existed": mutation.existed}
            done = self._operation_key(operation)
            yield Draft(done.kind, body=receipt, id=done.id, scope=done.scope, origin="tool")

    def _file_key(self, path: str) -> Key:
        return Key(self._scope, NOTE_FILE, hash_names(path))

    def _operation_key(self, operation: MemoryOperation) -> Key:
        return Key(self._scope, FILE_OPERATION, hash_names(operation.id))


def _read_receipt(record: Record | None, operation: MemoryOperation) -> MemoryMutation | None:
    if record is None:
        return None
    if record.body["fingerprint"] != operation.fingerprint:
        raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")
    return MemoryMutation(version=record.body["version"], replayed=True, existed=record.body["existed"])


def _check_path(path: str) -> None:
    """Refuse a path that the stores of the harness refuse."""
    if not all(
        is_plain_name(part, "_.-", 200, first_marks="_.-") and ".." not in part and part != "."
        for part in path.split("/")
    ):
        raise ValueError(f"invalid memory path: {path!r}")


def _check_prefix(prefix: str) -> None:
    if prefix:
        _check_path(prefix.removesuffix("/"))
