"""``/v1/records``: every kind of record by its key, with history."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response

from lukasa.core.record import Key
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import (
    MAX_ITEMS,
    CallerMemory,
    ExpectedVersion,
    Moment,
    WholeNumber,
    WritingMemory,
    to_moment,
)
from lukasa.interfaces.http.responses import (
    JsonResponse,
    decode_cursor,
    encode_cursor,
    entity_tag,
    outcome_response,
    record_response,
)
from lukasa.interfaces.outcomes import not_found
from lukasa.interfaces.serialise import versions_json
from lukasa.storage.engine import Query as RecordQuery

router = PrefixRouter(prefix="/v1/records", tags=["records"])
Limit = Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)]


@router.get("")
def list_records(
    memory: CallerMemory,
    kind: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 - FastAPI copies the default
    scope: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    label: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006
    author: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[Moment | None, Query()] = None,
    until: Annotated[Moment | None, Query()] = None,
    as_of: Annotated[Moment | None, Query()] = None,
    newest_first: bool = False,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
) -> Any:
    """List records in the order of the log or the newest first, page by page. Send ``next`` of a page as ``cursor`` to get the page after it."""
    filters = {
        "kind": kind, "scope": scope, "label": label, "author": author, "since": since, "until": until, "as_of": as_of,
    } | ({"newest_first": True} if newest_first else {})  # fmt: skip
    position = None if cursor is None else decode_cursor(cursor, filters)
    query = RecordQuery(
        kinds=tuple(kind),
        scopes=tuple(scope),
        labels=tuple(label),
        author=author,
        since=to_moment(since),
        until=to_moment(until),
        as_of=to_moment(as_of),
        after=None if newest_first else position or 0,
        before=position if newest_first else None,
        newest_first=newest_first,
        limit=limit,
    )
    found = list(memory.journal.read(query))
    following = encode_cursor(found[-1].seq, filters) if len(found) == limit else None
    return JsonResponse({"records": found, "next": following})


@router.get(
    "/{scope}/{kind}/{id}", responses={304: {"description": "The record still has the version of If-None-Match."}}
)
def get_record(
    memory: CallerMemory,
    scope: str,
    kind: str,
    id: str,
    as_of: Annotated[Moment | None, Query()] = None,
    version: Annotated[WholeNumber | None, Query(ge=1, le=10**15)] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Return a record as it is now, as of a time, or one version of it."""
    record = memory.journal.get(Key(scope, kind, id), as_of=to_moment(as_of), version=version)
    if record is None:
        raise not_found(f"There is no record {id!r:.80} of kind {kind!r:.80} in {scope!r:.80}.")
    if if_none_match is not None and if_none_match.strip() == entity_tag(record.version):
        return Response(status_code=304, headers={"ETag": entity_tag(record.version)})
    return record_response(record, *versions_json([record], memory.journal.find_imports([record])))


@router.get("/{scope}/{kind}/{id}/history")
def record_history(memory: CallerMemory, scope: str, kind: str, id: str) -> Any:
    """Return every stored version of a record, oldest first."""
    versions = memory.journal.history(Key(scope, kind, id))
    if not versions:
        raise not_found(f"There is no record {id!r:.80} of kind {kind!r:.80} in {scope!r:.80}.")
    return JsonResponse({"versions": versions_json(versions, memory.journal.find_imports(versions))})


@router.get("/{scope}/{kind}/{id}/links")
def record_links(memory: CallerMemory, scope: str, kind: str, id: str) -> Any:
    """Return the links from and to a record."""
    return JsonResponse({"links": memory.journal.neighbours(Key(scope, kind, id))})


@router.delete("/{scope}/{kind}/{id}")
def delete_record(memory: WritingMemory, scope: str, kind: str, id: str, expected: ExpectedVersion) -> Any:
    """Append a tombstone to a record. Its history stays until it is erased."""
    return outcome_response(memory.journal.delete(Key(scope, kind, id), expected=expected))
