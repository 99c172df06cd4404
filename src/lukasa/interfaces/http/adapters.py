"""Operations whose answer over HTTP is more than what their method returns: pages, previews, jobs instead of answers.

An adapter is called instead of the method of its operation; a view shows what the method returned, with options of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from fastapi import Request
from starlette.responses import StreamingResponse

from lukasa.core.outcome import Refused
from lukasa.core.record import Key, Record
from lukasa.experience import Briefing, ConsolidationResult
from lukasa.experience.consolidation import jobs as consolidation_jobs
from lukasa.interfaces.http.requests import RespondAsync
from lukasa.interfaces.http.responses import DEFERRED, LOG_MEDIA_TYPE, VALUES_ASKED, decode_cursor, encode_cursor
from lukasa.interfaces.serialise import briefing_json, recall_json, restore_json, versions_json
from lukasa.jobs import DeferredJob
from lukasa.journal import ErasureReceipt
from lukasa.memory import Memory
from lukasa.recall import RecallResult
from lukasa.recall.recall import build_prompt_block
from lukasa.storage.engine import ALL_RECORDS, AsOf
from lukasa.storage.engine import Query as RecordQuery

Adapter = Callable[..., Any]
ADAPTERS: dict[str, Adapter] = {}
"""The functions that are called instead of the methods of operations."""
VIEWS: dict[str, Adapter] = {}
"""The functions that show what the methods of operations returned."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records, and the cursor of the page after them."""

    records: Sequence[Record]
    next: str | None


@dataclass(frozen=True, slots=True)
class ErasurePreview:
    """The records that an erasure would remove, and the records that would lose only some versions."""

    would_erase: Sequence[Key]
    would_restore: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class QuarantinedAuthor:
    """An author in quarantine."""

    author: str
    since: str
    reason: str
    recorded_at: datetime


def _adapts(
    method: str, responses: Mapping[int, Any] = {}, *, only_shows: bool = False
) -> Callable[[Adapter], Adapter]:
    """Register an adapter. One that ``only_shows`` takes what the method takes; the client gets the method's own answer."""

    def register(adapter: Any) -> Adapter:
        adapter.only_shows = only_shows
        adapter.responses = responses
        ADAPTERS[method] = adapter
        return adapter  # type: ignore[no-any-return]  # a function that has an attribute

    return register


def _shows(method: str) -> Callable[[Adapter], Adapter]:
    def register(view: Adapter) -> Adapter:
        VIEWS[method] = view
        return view

    return register


@_shows("recall")
def show_recall(result: RecallResult, *, explain: bool = False, budget: int | None = None) -> Any:
    """Show the hits, and a block of them for a prompt.

    Args:
        explain: Return the signals of each hit, and what was dropped.
        budget: Also return a fenced block for a prompt, of at most this many tokens.
    """
    answer = recall_json(result, explain=explain)
    if budget is not None:
        block = build_prompt_block(result, budget)
        answer["block"] = {"text": block.text, "tokens": block.tokens}
    return answer


@_shows("before_task")
def show_briefing(briefing: Briefing, *, full: bool = False) -> Any:
    """Show the task with the memories that matter for it.

    Args:
        full: Return the records too.
    """
    return briefing_json(briefing, full=full)


@_adapts("journal.read")
def read_records(memory: Memory, query: RecordQuery = ALL_RECORDS, cursor: str | None = None) -> RecordPage:
    """Read records in the order of the log or the newest first, page by page.

    Args:
        cursor: ``next`` of a page, for the page after it.
    """
    asked = {"query": repr(replace(query, limit=None))}
    if cursor is not None:
        position = decode_cursor(cursor, asked)
        query = replace(query, before=position) if query.newest_first else replace(query, after=position)
    found = list(memory.journal.read(query))
    return RecordPage(found, encode_cursor(found[-1].seq, asked) if len(found) == query.limit else None)


@_adapts("journal.get", only_shows=True)
def get_record(memory: Memory, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
    record = memory.journal.get(key, as_of=as_of, version=version)
    shown: Any = None if record is None else versions_json([record], memory.journal.find_imports([record]))[0]
    return shown  # type: ignore[no-any-return]  # the record as JSON, and who imported it


@_adapts("journal.history", only_shows=True)
def list_versions(memory: Memory, key: Key) -> list[Record]:
    versions = memory.journal.history(key)
    shown: Any = versions_json(versions, memory.journal.find_imports(versions))
    return shown  # type: ignore[no-any-return]  # the versions as JSON, and who imported them


@_adapts("journal.quarantined", only_shows=True)
def list_quarantines(memory: Memory) -> list[QuarantinedAuthor]:
    """List the authors in quarantine."""
    records = memory.journal.quarantined().values()
    return [
        QuarantinedAuthor(record.body["author"], record.body["since"], record.body["reason"], record.recorded_at)
        for record in records
    ]


@_adapts("journal.erase")
def erase_records(
    memory: Memory,
    keys: Sequence[Key] = (),
    *,
    subject: str | None = None,
    exact: bool = False,
    reason: str = "",
    dry_run: bool = False,
) -> ErasureReceipt | ErasurePreview:
    """Erase records for good, with every version, index entry and derived record; the answer is the receipt.

    Args:
        keys: The records to remove.
        dry_run: Only list the records that would be removed.
    """
    journal = memory.journal
    if not dry_run:
        return journal.erase(*keys, subject=subject, exact=exact, reason=reason)
    restored = restore_json(journal.preview_restore(*keys, subject=subject, exact=exact))
    return ErasurePreview(journal.preview_erase(*keys, subject=subject, exact=exact), restored)


@_adapts("consolidate", {202: DEFERRED})
def consolidate(
    memory: Memory,
    respond_async: RespondAsync,
    *,
    since: datetime | None = None,
    everything: bool = False,
    dry_run: bool = False,
    skills: bool = False,
) -> ConsolidationResult | DeferredJob | Refused:
    """Draw knowledge from new episodes. ``Prefer: respond-async`` defers a run to a worker and answers with its job."""
    if respond_async and not dry_run:
        return memory.jobs.defer(consolidation_jobs.TASK_NAME, key="http", skills=skills)
    return memory.consolidate(since=since, everything=everything, dry_run=dry_run, skills=skills)


@_adapts("jobs.result", {200: {"content": {LOG_MEDIA_TYPE: {"schema": {"type": "string"}}}}})
def read_result(memory: Memory, request: Request, id: str) -> dict[str, Any] | None:
    """Return the result of a job that is done: the log for an export, JSON for any other job."""
    result = memory.jobs.result(id)
    if result is None or "exported_file" not in result or VALUES_ASKED.get():
        return result
    chunks: Iterator[bytes] = request.app.state.server_jobs.read_export(memory, result["exported_file"])
    first = next(chunks, b"")  # report a missing file before the answer begins
    log: Any = StreamingResponse(chain((first,), chunks), media_type=LOG_MEDIA_TYPE)
    return log  # type: ignore[no-any-return]  # the log instead of the JSON
