"""Parts that several adapters need: the scope they write to, ids from names, writes that must be accepted, and texts of messages."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import orjson

from lukasa.core.canonical_json import find_json_fault
from lukasa.core.record import Record
from lukasa.errors import InvalidInput
from lukasa.journal import ConditionalDrafts, Journal
from lukasa.memory import Memory
from lukasa.storage.engine import Query

T = TypeVar("T")


def choose_scope(memory: Memory, scope: str | None) -> str:
    """Return the scope that an adapter writes to: the one named, or the caller's own."""
    chosen = scope or memory.journal.home_scope
    if chosen is None:
        raise InvalidInput("The caller may write no scope.", hint="Open the store with another agent or scope.")
    return chosen


def read_at_once(journal: Journal, query: Query) -> list[Record]:
    """Return all records of a query as of one moment."""
    with journal.snapshot() as reader:
        return reader.read(query)


class AdapterRecords:
    """The records of an adapter in one scope, for callers of asyncio."""

    def __init__(self, memory: Memory, scope: str | None) -> None:
        self.journal = memory.valid_journal
        self.scope = choose_scope(memory, scope)

    async def read(self, kind: str, *labels: str) -> list[Record]:
        """Return the records of a kind that have the labels, as of one moment."""
        query = Query(kinds=(kind,), scopes=(self.scope,), labels=labels)
        return await asyncio.to_thread(read_at_once, self.journal, query)

    async def append_if(self, condition: ConditionalDrafts) -> None:
        """Write what a condition returns, to the end even if the caller is cancelled; raise if it is refused."""
        await run_to_end(lambda: self.journal.append_if(condition).unwrap_all())


def hash_names(*names: str) -> str:
    """Return an id for names of any length and characters."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def encode_json(value: Any) -> str:
    """Return a JSON value as text that any engine stores, lone surrogates included."""
    if find_json_fault(value) is None:  # then both encoders write the same value, and the first is much faster
        return orjson.dumps(value).decode()
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or _is_encodable(text) else json.dumps(value)


def read_text(message: Any) -> str:
    """Return the text of a message, or "" for other things, such as calls of tools."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = (part.get("text") if isinstance(part, dict) else part for part in content)
        content = "\n".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        return ""
    return content if _is_encodable(content) else content.encode("utf-8", "replace").decode()


async def run_to_end(work: Callable[[], T]) -> T:
    """Run a write in a thread and wait for its end, even if the caller is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, copy_context().run, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        waiter: asyncio.Future[None] = loop.create_future()  # what a cancelled caller cancels
        future.add_done_callback(partial(_wake, waiter))
        try:
            await waiter
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    return future.result()


def _wake(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
