"""``/v1/log``: entries of the log as they are, for stores that synchronise with this one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from lukasa.core.record import entry_bytes
from lukasa.errors import InvalidInput
from lukasa.interfaces.http.requests import MAX_ITEMS, CallerMemory, RequestModel, WholeNumber, WritingMemory
from lukasa.interfaces.http.responses import JsonResponse, declare_answer
from lukasa.storage.engine import ReplayResult
from lukasa.transfer.sync import fingerprint_log, read_log_page, replay_pushed

router = APIRouter(prefix="/v1/log", tags=["log"])


class PushedEntries(RequestModel):
    """Entries of another log, each as its canonical JSON."""

    entries: list[str] = Field(max_length=MAX_ITEMS)


@router.get(
    "",
    responses=declare_answer(
        "LogPage", "entries:list[dict[str,object]] position:int tip:int writable:list[str]|None agent:str"
    ),
)
def pull_entries(
    memory: CallerMemory,
    after: Annotated[WholeNumber, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)] = 500,
    scope: Annotated[str | None, Query(max_length=200)] = None,
    kind: Annotated[str | None, Query(max_length=200)] = None,
) -> Any:
    """Return the entries after a position that the caller may read, and the position to continue after."""
    if (scope is None) != (kind is None):
        raise InvalidInput("`scope` and `kind` belong together.", hint="Send both or neither.")
    pair = None if scope is None or kind is None else (scope, kind)
    page = read_log_page(memory.journal, after, limit, pair)
    return JsonResponse(
        {
            "entries": [{"position": record.seq, "record": entry_bytes(record).decode()} for record in page.records],
            "position": page.position,
            "tip": page.tip,
            "writable": page.scopes,
            "agent": page.agent,
        }
    )


@router.post("", responses=declare_answer("PushResults", "results:list[ReplayResult]", ReplayResult))
def push_entries(memory: WritingMemory, body: PushedEntries) -> Any:
    """Add entries of another log. Each is added, present or refused; nothing is added twice."""
    return JsonResponse({"results": replay_pushed(memory.journal, body.entries)})


@router.get("/fingerprint", responses=declare_answer("LogFingerprint", "kinds:list[dict[str,object]]"))
def read_fingerprint(memory: CallerMemory) -> Any:
    """Return the number of versions and a hash of their digests for each scope and kind that the caller may read."""
    sums = fingerprint_log(memory.journal)
    rows = [{"scope": s, "kind": k, "versions": sum.versions, "hash": sum.hash} for (s, k), sum in sorted(sums.items())]
    return JsonResponse({"kinds": rows})
