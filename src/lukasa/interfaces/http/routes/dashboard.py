"""Routes for the pages of the dashboard, beyond the rest of the API. No answer reads the whole store."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import APIRouter, Query, Request
from pydantic import Field

import lukasa
from lukasa.core.record import Key, Record, draft_from
from lukasa.core.scope import SHARED, SYSTEM
from lukasa.errors import InvalidInput, NotAllowed
from lukasa.interfaces.api_tokens import ApiToken
from lukasa.interfaces.auth import TOKEN_KEY
from lukasa.interfaces.http.metrics import REGISTRY
from lukasa.interfaces.http.requests import CallerMemory, ExpectedVersion, RequestModel, WholeNumber, WritingMemory
from lukasa.interfaces.http.responses import WRITTEN, JsonResponse, declare_answer, outcome_response
from lukasa.interfaces.outcomes import not_found
from lukasa.interfaces.serialise import to_json
from lukasa.journal import Journal
from lukasa.storage.engine import Query as RecordQuery
from lukasa.storage.engine import Reader
from lukasa.vault.review import DeletionSuggestion
from lukasa.vault.settings import MEMORY_KIND

router = APIRouter(tags=["dashboard"])

MAX_COUNTED = 2_000
"""Records that a page counts by itself; the figures of the whole store come from its tally."""
MAX_COMPARED = 2_000
"""Memories of a scope up to which they are compared with each other while a page waits."""
_LATEST = 12
_DERIVED_KINDS = frozenset(
    {"cluster", "consolidation", "context", "learning", "received_signal", "session_delta", "session_event", "verdicts"}
)
"""Kinds that the library keeps for itself; the list of new records leaves them out."""
_TEXT_FIELDS = ("goal", "current_task", "learning", "event")
_SUMMARY_LENGTH = 480

Position = Annotated[WholeNumber | None, Query(ge=0, le=2**62)]


class VersionChoice(RequestModel):
    """A version of a record."""

    version: Annotated[int, Field(ge=1, le=10**15)]


@router.get(
    "/v1/caller",
    responses=declare_answer(
        "Caller",
        "token:str agent:str access:str reads:list[str]|None writes:list[str]|None expires_at:str|None version:str",
    ),
)
def describe_caller(request: Request, memory: CallerMemory) -> Any:
    """Return the agent, the scopes and the rights of the request's token."""
    token: ApiToken = request.scope[TOKEN_KEY]
    reach = memory.journal.reach
    return JsonResponse(
        {
            "token": token.name,
            "agent": token.agent,
            "access": token.access,
            "reads": None if reach.readable is None else sorted(reach.readable),
            "writes": [] if token.read_only else None if reach.writable is None else sorted(reach.writable),
            "expires_at": token.expires_at,
            "version": lukasa.__version__,
        }
    )


@router.get(
    "/v1/overview",
    responses=declare_answer(
        "Overview",
        "position:int first_at:str|None records:int versions:int kinds:list[dict[str,object]] scopes:list[dict[str,object]] "
        "writes:dict[str,object] latest:list[dict[str,object]] new:dict[str,object]|None refusals:list[dict[str,object]] "
        "quarantines:int|None proposals:int damaged:int recalls:dict[str,object]",
    ),
)
def overview(
    memory: CallerMemory,
    since: Annotated[Position, Query(description="Count what was written after this position.")] = None,
    zone: Annotated[str, Query(max_length=60, description="The time zone of the days, such as Europe/Berlin.")] = "UTC",
) -> Any:
    """Return figures of what the caller may read: totals, the newest writes by day, refusals, recalls and what is new."""
    journal = memory.journal
    newest = list(journal.read(RecordQuery(every_version=True, newest_first=True, limit=MAX_COUNTED)))
    first = next(iter(journal.read(RecordQuery(every_version=True, limit=1))), None)
    totals = [row for row in journal.tally() if row.scope != SYSTEM]
    kinds, scopes = Counter[str](), Counter[str]()
    for row in totals:
        kinds[row.kind] += row.live
        scopes[row.scope] += row.live
    shown = filter(_is_shown, newest)
    return JsonResponse(
        {
            "position": journal.tip(),
            "first_at": None if first is None else first.recorded_at,
            "records": sum(row.live for row in totals),
            "versions": sum(row.versions for row in totals),
            "kinds": _rank(kinds),
            "scopes": _rank(scopes),
            "writes": _count_writes(newest, _read_zone(zone)),
            "latest": [_summarise(record) for record in islice(shown, _LATEST)],
            "new": None if since is None else _count_new(journal, since),
            "refusals": _rank(Counter(memory.vault.refusals())),
            "quarantines": len(journal.quarantined()) if journal.reach.unlimited else None,
            "proposals": memory.proposals.count(),
            "damaged": len(journal.list_damaged()),
            "recalls": _read_recalls(),
        }
    )


@router.get(
    "/v1/vault",
    responses=declare_answer(
        "VaultSummary",
        "memories:int scopes:dict[str,int] counted:int facets:dict[str,list[dict[str,object]]] capacity:int voices:int "
        "refusals:list[dict[str,object]]",
    ),
)
def describe_vault(memory: CallerMemory, scope: Annotated[str | None, Query(max_length=200)] = None) -> Any:
    """Return how many memories there are by scope, and the tiers, categories, topics, tags and authors of the newest."""
    rows = [row for row in memory.journal.tally() if row.kind == MEMORY_KIND and scope in (None, row.scope)]
    query = RecordQuery(
        kinds=(MEMORY_KIND,), scopes=() if scope is None else (scope,), newest_first=True, limit=MAX_COUNTED
    )
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("tier", "category", "topic", "tag", "author", "scope")
    }
    counted = 0
    for record in memory.journal.read(query):
        counted += 1
        counts["author"][record.author] += 1
        counts["scope"][record.scope] += 1
        for label in record.labels:
            name, _, value = label.partition("=")
            if name in counts:
                counts[name][value] += 1
    return JsonResponse(
        {
            "memories": sum(row.live for row in rows),
            "scopes": {row.scope: row.live for row in rows if row.live},
            "counted": counted,
            "facets": {name: _rank(found) for name, found in counts.items()},
            "capacity": memory.vault.rules.capacity,
            "voices": memory.vault.rules.voices,
            "refusals": _rank(Counter(memory.vault.refusals())),
        }
    )


@router.get(
    "/v1/vault/proposals",
    responses=declare_answer(
        "VaultProposals", "similar:list[dict[str,object]] deletions:list[DeletionSuggestion]", DeletionSuggestion
    ),
)
def propose(memory: CallerMemory, scope: Annotated[str, Query(max_length=200)] = SHARED) -> Any:
    """Return pairs of memories that might be merged and memories that might be deleted. Nothing is changed."""
    live = sum(row.live for row in memory.journal.tally() if (row.scope, row.kind) == (scope, MEMORY_KIND))
    if live > MAX_COMPARED:
        hint = f"Run: lukasa vault find-consolidation-candidates --scope {scope}, and lukasa vault propose-deletions --scope {scope}"
        raise InvalidInput(f"This scope has {live:,} memories, too many to compare while a page waits.", hint=hint)
    pairs = memory.vault.find_consolidation_candidates(scope, 0.6)
    return JsonResponse(
        {
            "similar": [
                {**to_json(pair), "score": pair.score, "one": pair.one, "other": pair.other}
                for pair in pairs
                if not pair.is_declared_distinct
            ][:100],
            "deletions": list(islice(memory.vault.propose_deletions(scope), 100)),
        }
    )


@router.get(
    "/v1/graph",
    responses=declare_answer("RecordGraph", "nodes:list[dict[str,object]] edges:list[dict[str,object]] truncated:bool"),
)
def read_graph(
    memory: CallerMemory,
    scope: Annotated[str, Query(max_length=200)] = "",
    kind: Annotated[str, Query(max_length=200)] = "",
    id: Annotated[str, Query(max_length=200)] = "",
    depth: Annotated[WholeNumber, Query(ge=1, le=4)] = 2,
    limit: Annotated[WholeNumber, Query(ge=1, le=500)] = 150,
) -> Any:
    """Return the records that links reach from a record, in ``depth`` steps; without a record, from the newest ones."""
    with memory.journal.snapshot() as reader:
        if id:
            start = [Key(scope, kind, id)]
            if not reader.history(start[0]):
                raise not_found(f"There is no record {id!r:.80} of kind {kind!r:.80} in {scope!r:.80}.")
        else:
            recent = reader.read(RecordQuery(newest_first=True, limit=400))
            linked = (record.key for record in recent if record.links and record.text and _is_shown(record))
            start = list(islice(linked, limit // 4 + 1))
        return JsonResponse(_walk_links(reader, start, depth, limit))


@router.post("/v1/records/{scope}/{kind}/{id}/restoration", responses={200: WRITTEN})
def restore_version(
    memory: WritingMemory, scope: str, kind: str, id: str, body: VersionChoice, expected: ExpectedVersion
) -> Any:
    """Write the content of an earlier version again, as the newest version of the record."""
    if scope == SYSTEM:
        raise NotAllowed("Records of the system scope are not restored.")
    journal = memory.journal
    chosen = journal.get(Key(scope, kind, id), version=body.version)
    if chosen is None or chosen.deleted:
        raise not_found(f"There is no version {body.version} of {id!r:.80} that could be restored.")
    author = chosen.author if journal.reach.unlimited and not journal.author else journal.author
    return outcome_response(journal.append(draft_from(chosen, author=author, origin="undo", expected=expected)))


def _rank(counts: Counter[str]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in counts.most_common(50) if count]


def _is_shown(record: Record) -> bool:
    derived = record.kind in _DERIVED_KINDS or record.kind.startswith("network_")
    return record.scope != SYSTEM and not derived


def _summarise(record: Record) -> dict[str, Any]:
    """Return a record without its body, and with the beginning of its text."""
    text = record.text or next(
        (record.body[name] for name in _TEXT_FIELDS if isinstance(record.body.get(name), str)), ""
    )
    summary: dict[str, Any] = to_json(record.key) | {
        "author": record.author,
        "version": record.version,
        "seq": record.seq,
    }
    return summary | {"recorded_at": record.recorded_at, "deleted": record.deleted, "text": text[:_SUMMARY_LENGTH]}


def _count_new(journal: Journal, since: int) -> dict[str, Any]:
    found = journal.read(RecordQuery(after=since, every_version=True, limit=1_000))
    written = [record for record in found if record.scope != SYSTEM]
    return {"count": len(written), "by_kind": _rank(Counter(record.kind for record in written))}


def _count_writes(newest: list[Record], zone: tzinfo) -> dict[str, Any]:
    """Count the newest writes by day or, if there are few days, by hour. The oldest day may be counted in part."""
    written = [record for record in newest if record.scope != SYSTEM]
    times = [record.recorded_at.astimezone(zone) for record in written]
    by_hour = bool(times) and (max(times) - min(times)).total_seconds() < 36 * 3600
    counts: dict[datetime, Counter[str]] = {}
    for record, moment in zip(written, times, strict=True):
        start = moment.replace(minute=0, second=0, microsecond=0)
        start = start if by_hour else start.replace(hour=0)
        counts.setdefault(start, Counter())[record.kind] += 1
    return {
        "unit": "hour" if by_hour else "day",
        "complete": len(newest) < MAX_COUNTED,
        "counted": len(written),
        "rows": [{"at": start, "kinds": dict(counts[start])} for start in sorted(counts)],
    }


def _read_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # not known on this machine
        return UTC


def _read_recalls() -> dict[str, Any]:
    """Return how many recalls the server has answered since it started, and how long one took on average."""
    labels = {"route": "/v1/recall"}
    count = REGISTRY.get_sample_value("lukasa_http_request_seconds_count", labels) or 0
    seconds = REGISTRY.get_sample_value("lukasa_http_request_seconds_sum", labels) or 0.0
    return {"count": int(count), "mean_seconds": seconds / count if count else None}


def _walk_links(reader: Reader, start: list[Key], depth: int, limit: int) -> dict[str, Any]:
    """Walk links in both directions, breadth first, until there are enough records."""
    distance = dict.fromkeys(start[:limit], 0)
    waiting = list(distance)
    edges: dict[tuple[Key, str, Key], None] = {}
    truncated = False
    for key in waiting:  # grows while it is walked
        for neighbour in reader.neighbours(key):
            other = neighbour.key
            if other not in distance and distance[key] < depth:
                if len(distance) >= limit:
                    truncated = True
                    continue
                distance[other] = distance[key] + 1
                waiting.append(other)
            if other in distance:
                ends = (key, other) if neighbour.direction == "out" else (other, key)
                edges[ends[0], neighbour.relation, ends[1]] = None
    nodes = []
    for key, steps in distance.items():
        record = reader.get(key)
        known = to_json(key) | {"text": "", "missing": True} if record is None else _summarise(record)
        nodes.append(known | {"distance": steps})
    return {
        "nodes": nodes,
        "edges": [{"from": to_json(a), "to": to_json(b), "relation": relation} for a, relation, b in edges],
        "truncated": truncated,
    }
