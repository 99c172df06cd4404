"""``/v1/dashboard``: time lines of sessions and conversations, their states at any point, and the agents of the store.

``/v1/doctor`` runs the checks of ``lukasa doctor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query

from lukasa.context import Context
from lukasa.context.records import CONTEXT, FACT, SUMMARY, TURN, ConversationRecords, parse_turn, turn_content
from lukasa.core.canonical_json import encode
from lukasa.core.record import Key, Record
from lukasa.errors import NotAllowed
from lukasa.interfaces.doctor import DoctorCheck, run_checks
from lukasa.interfaces.http.requests import CallerMemory, Name, WholeNumber
from lukasa.interfaces.http.responses import JsonResponse, declare_answer
from lukasa.interfaces.outcomes import not_found
from lukasa.interfaces.serialise import to_json
from lukasa.journal import Journal
from lukasa.network.hub import MAX_INBOX
from lukasa.sessions.records import ARCHIVE, DELTA, EVENT, INCIDENT, SESSION, SessionRecords
from lukasa.storage.engine import Query as RecordQuery

router = APIRouter(prefix="/v1/dashboard", tags=["dashboard"])
doctor_router = APIRouter(prefix="/v1/doctor", tags=["operations"])
MAX_PAGE = 200
MAX_AGENTS = 100
MAX_CHANGES = 100
MAX_TEXT = 2_000
"""The number of characters after which a text of a time line is cut; the record has all of it."""
_AUTHORS_PER_KIND = 50
"""The number of newest records of each scope and kind whose authors are listed as agents."""
_RECENT = 2_000
"""The number of newest entries in which the last write of an agent is looked for, before its own scope."""
Limit = Annotated[WholeNumber, Query(ge=1, le=MAX_PAGE)]
Before = Annotated[
    WholeNumber | None, Query(ge=1, le=2**62, description="Return what was written before this position.")
]
At = Annotated[
    WholeNumber | None, Query(ge=1, le=2**62, description="A position of the log; without it, the state of now.")
]


@router.get("/sessions", responses=declare_answer("SessionPage", "sessions:list[dict[str,object]] next:int|None"))
def list_sessions_and_conversations(memory: CallerMemory, limit: Limit = 50, before: Before = None) -> Any:
    """List sessions and conversations, newest first, each with what was written last in it."""
    query = RecordQuery(kinds=(SESSION, CONTEXT), newest_first=True, limit=limit, before=before)
    found, position = [], None
    for record in memory.journal.read(query):
        position = record.seq
        entry = {"id": record.id, "scope": record.scope, "what": "session", "at": record.recorded_at, "text": ""}
        if record.kind == SESSION:
            entry |= {name: record.body[name] for name in ("agent_id", "status", "number")}
        else:
            turns = ConversationRecords(record.id, record.scope).turn_query(newest_first=True, limit=1)
            entry |= {"what": "conversation", "agent_id": record.author, "status": "", "number": 0}
            for turn in memory.journal.read(turns):
                entry |= {"at": turn.recorded_at, "text": turn.text[:300]}
        found.append(entry)
    return JsonResponse({"sessions": found, "next": position if len(found) == limit else None})


@router.get("/records", responses=declare_answer("NewestRecords", "records:list[Record] next:int|None", Record))
def list_newest_records(
    memory: CallerMemory,
    kind: Annotated[list[str], Query(min_length=1, max_length=20)],
    label: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006 - FastAPI copies the default
    limit: Limit = 50,
    before: Before = None,
) -> Any:
    """List the records of some kinds, newest first, page by page."""
    query = RecordQuery(kinds=tuple(kind), labels=tuple(label), newest_first=True, limit=limit, before=before)
    found = list(memory.journal.read(query))
    return JsonResponse({"records": found, "next": found[-1].seq if len(found) == limit else None})


@router.get(
    "/timeline/{scope}/{id}", responses=declare_answer("Timeline", "entries:list[dict[str,object]] next:int|None")
)
def read_timeline(memory: CallerMemory, scope: Name, id: Name, limit: Limit = 100, before: Before = None) -> Any:
    """Return what happened in a session or conversation, newest first: turns, compactions, checkpoints, recoveries …"""
    journal, conversation = memory.journal, ConversationRecords(id, scope)
    page = {"newest_first": True, "limit": limit + 1, "before": before}
    records = [
        *journal.read(conversation.turn_query(**page)),
        *journal.read(conversation.fact_query(**page)),
        *_newest_versions(journal, conversation.key(SUMMARY), limit + 1, before),
        *_newest_versions(journal, conversation.key(CONTEXT), limit + 1, before),
        *SessionRecords(journal, id, scope).read_newest(limit + 1, before),
    ]
    if not records and before is None:
        raise not_found(f"There is no session or conversation {id!r:.80} in {scope!r:.80}.")
    records.sort(key=lambda record: -record.seq)
    entries = [_timeline_entry(record) for record in records[:limit]]
    return JsonResponse({"entries": entries, "next": entries[-1]["seq"] if len(records) > limit else None})


@router.get(
    "/states/{scope}/{id}",
    responses=declare_answer("StatesAtOnce", "session:dict[str,object]|None conversation:Context|None", Context),
)
def read_states(memory: CallerMemory, scope: Name, id: Name, at: At = None) -> Any:
    """Return the state of a session and of a conversation of this name, now or at a position of the log."""
    is_session = memory.journal.get(Key(scope, SESSION, id)) is not None
    is_conversation = next(memory.journal.read(ConversationRecords(id, scope).turn_query(limit=1)), None) is not None
    session = memory.sessions.state(id, scope=scope, as_of=at) if is_session else None
    conversation = memory.context.within(scope).load(id, as_of=at) if is_conversation else None
    if session is None and conversation is None:
        raise not_found(f"There is no state of {id!r:.80} in {scope!r:.80} at this point.")
    return JsonResponse({"session": session, "conversation": conversation})


@router.get("/agents", responses=declare_answer("AgentList", "agents:list[dict[str,object]] max_waiting:int"))
def list_agents(memory: CallerMemory) -> Any:
    """List the agents that the caller may see: when each wrote and was heard, its trust, task, inbox and handoffs."""
    journal, heard = memory.journal, {peer.agent_id: peer.last_interaction for peer in memory.hub.peers("")}
    is_owner, own = journal.reach.unlimited, journal.author
    ledgers = {ledger.agent_id: ledger for ledger in memory.ledgers.list()}
    handoffs = memory.handoffs.inbox()
    with journal.snapshot() as reader:
        names = {*reader.authors(_AUTHORS_PER_KIND), *heard, *ledgers, *(memory.trust.agents() if is_owner else [own])}
    quarantined, recent = journal.quarantined() if is_owner else {}, max(0, journal.tip() - _RECENT)
    rows = []
    for name in sorted(names - {""})[:MAX_AGENTS]:
        row: dict[str, Any] = {"agent": name, "heard_at": heard.get(name), "wrote_at": None, "task": "", "completed": 0}
        for query in (RecordQuery(author=name, after=recent), RecordQuery(author=name, scopes=(name,))):
            if row["wrote_at"] is None:
                found = journal.read(replace(query, newest_first=True, limit=1))
                row["wrote_at"] = next((record.recorded_at for record in found), None)
        if name in ledgers:
            row |= {"task": ledgers[name].current_task, "completed": ledgers[name].tasks_completed}
        may_see = is_owner or name == own
        row["trust"] = memory.trust.score(name) if may_see else None
        row["waiting"] = len(memory.hub.inbox(name)) if may_see else None
        row["handoffs"] = sum(handoff.to_agent == name for handoff in handoffs) if may_see else None
        row["quarantined"] = name in quarantined
        rows.append(row)
    return JsonResponse({"agents": rows, "max_waiting": MAX_INBOX})


@router.get("/trust/{agent}", responses=declare_answer("TrustChanges", "changes:list[dict[str,object]]"))
def read_trust_changes(
    memory: CallerMemory, agent: Name, limit: Annotated[WholeNumber, Query(ge=1, le=MAX_CHANGES)] = 40
) -> Any:
    """Return the newest changes of an agent's trust, oldest first, each with both scores and the interval of then."""
    rows = []
    for record in memory.trust.history(agent, limit=limit):
        score = memory.trust.score(agent, at=record.recorded_at)
        rows.append(
            {
                "seq": record.seq,
                "at": record.body["event"]["timestamp"],
                "reason": record.body["event"]["reason"],
                "was": record.body["was"],
                "score": record.body["event"]["score"],
                "adjusted": score.adjusted_score,
                "low": score.low,
                "high": score.high,
                "event": next((link.to for link in record.links), None),
            }
        )
    return JsonResponse({"changes": rows})


@doctor_router.post(
    "", responses=declare_answer("DoctorReport", "healthy:bool checks:list[DoctorCheck] versions:int", DoctorCheck)
)
def run_doctor(memory: CallerMemory) -> Any:
    """Verify the store and run the checks of `lukasa doctor`. Only for the owner; nothing is repaired."""
    if not memory.journal.reach.unlimited:
        raise NotAllowed("Only the owner of the store may run the doctor.")
    report = memory.verify()
    checks = list(run_checks(memory, report))
    healthy = all(check.state != "wrong" for check in checks)
    return JsonResponse({"healthy": healthy, "checks": checks, "versions": report.versions})


def _newest_versions(journal: Journal, key: Key, limit: int, before: int | None) -> Iterator[Record]:
    """Yield the newest versions of a record before a position."""
    record = journal.get(key) if before is None else journal.get(key, as_of=before - 1)
    version = 0 if record is None else record.version
    for number in range(version, max(version - limit, 0), -1):
        if (older := journal.get(key, version=number)) is not None:
            yield older


def _timeline_entry(record: Record) -> dict[str, Any]:
    body, entry = record.body, {"seq": record.seq, "at": record.recorded_at, "author": record.author, "id": record.id}
    if record.kind == TURN:
        turn = to_json(parse_turn(record))
        return entry | {
            "what": "turn",
            "text": _clip(turn_content(record)),
            "role": turn["role"],
            "tokens": turn["token_count"],
        }
    if record.kind == SUMMARY:
        folded = {"folded": body.get("turns", 0), "round": body.get("rounds", 0), "by": body.get("by", "")}
        return entry | {"what": "compaction", "text": _clip(body.get("text", "")), **folded}
    if record.kind == FACT:
        return entry | {"what": "fact", "text": _clip(record.text), "deleted": record.deleted}
    if record.kind == CONTEXT:
        return entry | {"what": "state", "text": "", "version": record.version}
    if record.kind == DELTA:
        return entry | {
            "what": "change",
            "text": "",
            "number": body["n"],
            "changes": [_clip_value(change) for change in body["changes"] or [{"op": "replace", "path": ""}]],
        }
    names = {EVENT: str(body.get("event", "")), INCIDENT: "incident", ARCHIVE: "archive"}
    return entry | {"what": names[record.kind], "text": _clip(body.get("why", "")), "facts": _clip_value(body)}


def _clip(text: object) -> str:
    return str(text)[:MAX_TEXT]


def _clip_value(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change or an event in which long values are cut and shown as JSON."""
    shown = {name: encode(item).decode() for name, item in value.items()}
    return {name: item if len(shown[name]) <= MAX_TEXT else _clip(shown[name]) for name, item in value.items()}
