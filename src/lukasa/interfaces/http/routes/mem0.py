"""The paths of mem0's API, so that its clients work with this server: ``lukasa serve --compat mem0``.

There are two sets of paths: those of ``mem0.MemoryClient`` (``/v1``, ``/v3``, ``Authorization: Token``) and those of mem0's
open-source server (``/memories``, ``/search``, ``X-API-Key``). A memory of mem0 is a memory of the vault. Its user, app,
agent or run, whichever comes first in this order, is its scope (``user:NAME``, ``app:NAME``, the agent's name, ``run:NAME``);
the others and the metadata are tags. A token reaches the scopes that it names, as everywhere.

No language model reads the messages. The statements that the rules for conversations find are stored, and a message
without any is stored as it was said; the answer says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.types import ASGIApp, Receive, Scope, Send

from lukasa.context import Turn
from lukasa.context.facts import extract_facts
from lukasa.core.canonical_json import decode
from lukasa.core.clock import SystemClock, to_iso
from lukasa.core.outcome import Accepted, Refused
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput, NotAccepted, NotAllowed
from lukasa.interfaces.http.requests import MAX_ITEMS, CallerMemory, WholeNumber, WritingMemory
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.outcomes import not_found
from lukasa.memory import Memory
from lukasa.text.sentences import split_sentences
from lukasa.vault import MemoryProposal, VaultMemory

router = APIRouter(tags=["mem0"])
OSS_PREFIX = "/compat/mem0"
"""Where the paths of mem0's open-source server are; some of them are pages of the dashboard otherwise."""
_OSS_PATHS = ("/memories", "/search", "/entities")
READING_PATHS = frozenset({"/v3/memories/", "/v3/memories/search/", f"{OSS_PREFIX}/search"})
"""Paths whose POST requests only read."""
ENTITIES = ("user_id", "app_id", "agent_id", "run_id")
_SCOPE_PREFIXES = {"user_id": "user:", "app_id": "app:", "agent_id": "", "run_id": "run:"}
_METADATA = "metadata."
_MAX_TAG_LENGTH = 100
_MAX_FILTER_DEPTH = 20
_RULES_NOTE = (
    "No language model reads the messages. Stored are the statements that rules found, or the message as it was said "
    "(inferred: false)."
)
_MESSAGE_ROLES_KEPT = ("user", "human")
Id = Annotated[str | None, Field(min_length=1, max_length=90)]


class Mem0Model(BaseModel):
    """The body of a request of mem0. Fields that mean nothing here are named in the answer as ``ignored``."""

    model_config = ConfigDict(extra="allow")

    def list_ignored(self) -> list[str]:
        """Return the names of the fields that were given and have no meaning here."""
        given = {name for name, value in (self.model_extra or {}).items() if value is not None}
        return sorted(given - {"org_id", "project_id"})  # the client repeats those of the answer to its ping


class Mem0Message(Mem0Model):
    """A message of a conversation."""

    role: Annotated[str, Field(min_length=1, max_length=40)]
    content: str | list[dict[str, JsonValue]]
    name: str | None = Field(None, max_length=200)

    @property
    def text(self) -> str:
        """The text of the message, without images and other parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(text for part in self.content if isinstance(text := part.get("text"), str))


class NewMem0Memories(Mem0Model):
    """Messages to remember."""

    messages: list[Mem0Message] = Field(min_length=1, max_length=MAX_ITEMS)
    user_id: Id = None
    app_id: Id = None
    agent_id: Id = None
    run_id: Id = None
    filters: dict[str, JsonValue] | None = None
    metadata: dict[str, JsonValue] | None = None
    infer: bool | None = None
    expiration_date: date | None = None


class Mem0Change(Mem0Model):
    """The fields of a memory to change."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    metadata: dict[str, JsonValue] | None = None
    expiration_date: date | None = None


class Mem0BatchChange(Mem0Change):
    """A change, or a deletion, of one of many memories."""

    memory_id: Annotated[str, Field(min_length=1, max_length=200)]


class Mem0Batch(Mem0Model):
    """Changes or deletions of many memories."""

    memories: list[Mem0BatchChange] = Field(min_length=1, max_length=MAX_ITEMS)


class Mem0Filter(Mem0Model):
    """Which memories to list."""

    filters: dict[str, JsonValue] | None = None
    user_id: Id = None
    app_id: Id = None
    agent_id: Id = None
    run_id: Id = None
    categories: list[str] | None = None
    start_date: datetime | date | None = None
    end_date: datetime | date | None = None
    show_expired: bool | None = None

    def conditions(self) -> dict[str, Any]:
        """Return all conditions as one filter."""
        found: dict[str, Any] = dict(self.filters or {})
        found |= {name: value for name in ENTITIES if (value := getattr(self, name)) is not None}
        if self.categories:
            found["categories"] = {"in": self.categories}
        times = {"gte": self.start_date, "lte": self.end_date}
        bounds = {name: moment.isoformat() for name, moment in times.items() if moment is not None}
        return found | ({"created_at": bounds} if bounds else {})


class Mem0Question(Mem0Filter):
    """A question."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    top_k: Annotated[int, Field(ge=1, le=100)] | None = None
    threshold: float | None = None
    rerank: bool | None = Field(None, description="Every answer is ranked.")
    keyword_search: bool | None = Field(None, description="Words always count.")


def accept_mem0_tokens(app: ASGIApp) -> ASGIApp:
    """Return an app that also takes a token as ``Authorization: Token …`` or ``X-API-Key: …``."""

    async def rewrite_headers(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
            secret = secret if scheme.lower() == b"token" else b"" if scheme else headers.get(b"x-api-key", b"")
            if secret:
                others = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
                scope = {**scope, "headers": [*others, (b"authorization", b"Bearer " + secret.strip())]}
                if scope["path"].startswith(_OSS_PATHS):
                    scope["path"] = OSS_PREFIX + scope["path"]
        await app(scope, receive, send)

    return rewrite_headers


@router.get("/v1/ping/")
def ping() -> Any:
    """Answer that the token is valid."""
    return JsonResponse({"status": "ok", "user_email": "", "org_id": "lukasa", "project_id": "lukasa"})


@router.post("/v3/memories/add/")
@router.post(f"{OSS_PREFIX}/memories")
def add(memory: WritingMemory, body: NewMem0Memories) -> Any:
    """Store what messages state. ``infer`` false stores every message as it was said."""
    given = {name: getattr(body, name) or (body.filters or {}).get(name) for name in ENTITIES}
    entities = {name: str(value) for name, value in given.items() if value}
    if not entities:
        names = ", ".join(ENTITIES)
        raise InvalidInput("Whose memory is it?", hint=f"Give at least one of {names}.")
    primary = next(iter(entities))
    scope = _scope_of(primary, entities[primary])
    if not memory.journal.reach.writes(scope):
        raise _out_of_reach(scope)
    tags = [f"{name}={value}" for name, value in entities.items() if name != primary]
    tags += _metadata_tags(body.metadata or {})
    proposals, skipped = [], []
    for message in body.messages:
        found, inferred, why_none = _find_statements(message, infer=body.infer is not False)
        proposals += [(text, inferred) for text in found]
        skipped += [] if found else [{"memory": message.text[:200], "event": "NONE", "reason": why_none}]
    outcomes = memory.vault.bulk_add(
        MemoryProposal(text, scope, tags=tuple(tags), source="chat", expires_at=_end_of_day(body.expiration_date))
        for text, _ in proposals
    )
    results = []
    for (text, inferred), outcome in zip(proposals, outcomes, strict=True):
        if isinstance(outcome, Accepted):
            result = {"id": outcome.record.id, "memory": text, "event": "ADD", "inferred": inferred}
        else:
            known = outcome.details.get("duplicate_of") if isinstance(outcome, Refused) else None
            result = {"id": known, "memory": text, "event": "NONE", "reason": outcome.reason}
        results.append(result)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, Refused) and outcome.code != "duplicate"]
    if refusals and not any(isinstance(outcome, Accepted) for outcome in outcomes):
        raise NotAccepted(outcome=refusals[0])
    note = {} if body.infer is False else {"note": _RULES_NOTE}
    return JsonResponse({"results": results + skipped, **note, **_ignored(body)})


def _find_statements(message: Mem0Message, *, infer: bool) -> tuple[list[str], bool, str]:
    """Return the texts of a message to store, whether rules found them (otherwise it is the message itself), or why there are none."""
    text = message.text.strip()
    if not text:
        return [], False, "The message has no text."
    if message.role != "system":
        if not infer:
            return [text], False, ""
        turn = Turn(message.role, text, speaker=message.name or "")
        if facts := extract_facts(turn, SystemClock().now().date()):
            return [fact.text for fact in facts], True, ""
    if message.role not in _MESSAGE_ROLES_KEPT:
        why = f"The rules found no statement in this message of the {message.role[:40]}; infer=false stores it as it was said."
        return [], False, why
    if all(sentence.rstrip().endswith(("?", "？")) for sentence in split_sentences(text)):
        return [], False, "A question states nothing to remember."
    return [text], False, ""


@router.post("/v3/memories/")
def list_memories(
    request: Request,
    memory: CallerMemory,
    body: Mem0Filter,
    page: Annotated[WholeNumber, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[WholeNumber, Query(ge=1, le=MAX_ITEMS)] = 100,
) -> Any:
    """List the memories that meet the filters, a page at a time."""
    found = _list_items(memory, body.conditions(), show_expired=bool(body.show_expired))
    start = (page - 1) * page_size
    pages = {"next": page + 1 if start + page_size < len(found) else None, "previous": page - 1 or None}
    links: dict[str, Any] = {
        name: None if number is None else str(request.url.include_query_params(page=number, page_size=page_size))
        for name, number in pages.items()
    }
    return JsonResponse({"count": len(found), **links, "results": found[start : start + page_size], **_ignored(body)})


@router.get(f"{OSS_PREFIX}/memories")
def list_all(
    memory: CallerMemory,
    user_id: Annotated[str | None, Query(max_length=90)] = None,
    agent_id: Annotated[str | None, Query(max_length=90)] = None,
    run_id: Annotated[str | None, Query(max_length=90)] = None,
    top_k: Annotated[WholeNumber, Query(ge=0, le=MAX_ITEMS)] = MAX_ITEMS,
    show_expired: bool = False,
) -> Any:
    """List the memories of a user, an agent or a run, or all that the token reaches."""
    conditions = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    wanted = {name: value for name, value in conditions.items() if value}
    return JsonResponse({"results": _list_items(memory, wanted, show_expired=show_expired)[:top_k]})


@router.post("/v3/memories/search/")
@router.post(f"{OSS_PREFIX}/search")
def search(memory: CallerMemory, body: Mem0Question) -> Any:
    """Return the memories that answer a question, best first."""
    conditions, k = body.conditions(), body.top_k or 10
    found: dict[str, dict[str, Any]] = {}
    for scopes, labels in _places(memory, conditions):
        hits = memory.vault.search(
            body.query, scopes, k=max(50, 5 * k), labels=labels, include_expired=bool(body.show_expired)
        )
        found |= {hit.memory.id: {**_to_item(hit.memory), "score": round(hit.score, 4)} for hit in hits}
    matching = [item for item in found.values() if _meets(item, conditions)]
    if body.threshold is not None:
        matching = [item for item in matching if item["score"] >= body.threshold]
    matching.sort(key=lambda item: -item["score"])
    return JsonResponse({"results": matching[:k], **_ignored(body)})


@router.get("/v1/memories/{id}/")
@router.get(f"{OSS_PREFIX}/memories/{{id}}")
def get_memory(memory: CallerMemory, id: str) -> Any:
    """Return a memory."""
    return JsonResponse(_to_item(_require_memory(memory, id)))


@router.put("/v1/memories/{id}/")
@router.put(f"{OSS_PREFIX}/memories/{{id}}")
def update_memory(memory: WritingMemory, id: str, body: Mem0Change) -> Any:
    """Change a memory; the earlier version stays in its history."""
    changed = _change(memory, id, body)
    return JsonResponse({**_to_item(changed), "message": "Memory updated successfully!", **_ignored(body)})


@router.delete("/v1/memories/{id}/")
@router.delete(f"{OSS_PREFIX}/memories/{{id}}")
def delete_memory(memory: WritingMemory, id: str) -> Any:
    """Delete a memory. Its history stays until it is erased."""
    memory.vault.delete(id, source="chat").unwrap_all()
    return JsonResponse({"message": "Memory deleted successfully!"})


@router.get("/v1/memories/{id}/history/")
@router.get(f"{OSS_PREFIX}/memories/{{id}}/history")
def memory_history(memory: CallerMemory, id: str) -> Any:
    """Return what happened to a memory, oldest first."""
    events, before = [], None
    for version in memory.vault.history(id):
        event = "DELETE" if version.deleted_at else "UPDATE" if before is not None else "ADD"
        events.append(
            {
                "id": f"{id}/{version.version}",
                "memory_id": id,
                "event": event,
                "old_memory": before,
                "new_memory": None if version.deleted_at else version.text,
                "created_at": to_iso(version.created_at),
                "updated_at": to_iso(version.deleted_at or version.updated_at or version.created_at),
            }
        )
        before = None if version.deleted_at else version.text
    if not events:
        raise not_found(f"There is no memory {id!r:.80}.")
    return JsonResponse(events)


@router.delete("/v1/memories/")
@router.delete(f"{OSS_PREFIX}/memories")
def delete_memories(
    memory: WritingMemory,
    user_id: Annotated[str | None, Query(max_length=90)] = None,
    app_id: Annotated[str | None, Query(max_length=90)] = None,
    agent_id: Annotated[str | None, Query(max_length=90)] = None,
    run_id: Annotated[str | None, Query(max_length=90)] = None,
) -> Any:
    """Delete all memories of a user, an app, an agent or a run. Their history stays until it is erased."""
    given = dict(zip(ENTITIES, (user_id, app_id, agent_id, run_id), strict=True))
    count = _delete_matching(memory, {name: value for name, value in given.items() if value})
    return JsonResponse({"message": "Memories deleted successfully!", "deleted": count})


@router.put("/v1/batch/")
def update_many(memory: WritingMemory, body: Mem0Batch) -> Any:
    """Change many memories. The first change that is refused ends it; those before it stay."""
    for change in body.memories:
        _change(memory, change.memory_id, change)
    return JsonResponse({"message": f"Successfully updated {len(body.memories)} memories"})


@router.delete("/v1/batch/")
def delete_many(memory: WritingMemory, body: Mem0Batch) -> Any:
    """Delete many memories at once."""
    outcomes = memory.vault.bulk_delete([item.memory_id for item in body.memories], source="chat")
    for outcome in outcomes:
        outcome.unwrap_all()
    return JsonResponse({"message": f"Successfully deleted {len(outcomes)} memories"})


@router.get("/v1/entities/")
def list_entities(memory: CallerMemory) -> Any:
    """List the users, apps, agents and runs that have memories."""
    found = _count_entities(memory)
    return JsonResponse({"count": len(found), "next": None, "previous": None, "results": found})


@router.get(f"{OSS_PREFIX}/entities")
def list_entities_plainly(memory: CallerMemory) -> Any:
    """List the users, apps, agents and runs that have memories."""
    return JsonResponse(_count_entities(memory))


@router.delete("/v2/entities/{type}/{name}/")
@router.delete(f"{OSS_PREFIX}/entities/{{type}}/{{name}}")
def delete_entity(memory: WritingMemory, type: Literal["user", "app", "agent", "run"], name: str) -> Any:
    """Delete all memories of a user, an app, an agent or a run."""
    return JsonResponse(
        {"message": "Entity deleted successfully.", "deleted": _delete_matching(memory, {f"{type}_id": name})}
    )


def _change(memory: Memory, id: str, body: Mem0Change) -> VaultMemory:
    """Change the given fields of a memory and return it."""
    known = _require_memory(memory, id)
    changes: dict[str, Any] = {}
    if body.metadata is not None:
        changes["tags"] = [tag for tag in known.tags if not tag.startswith(_METADATA)] + _metadata_tags(body.metadata)
    if "expiration_date" in body.model_fields_set:
        changes["expires_at"] = _end_of_day(body.expiration_date)
    memory.vault.update(id, body.text, source="chat", scope=known.scope, **changes).unwrap_all()
    return _require_memory(memory, id, known.scope)


def _delete_matching(memory: Memory, conditions: Mapping[str, Any]) -> int:
    if not conditions:
        raise InvalidInput("Whose memories?", hint=f"Give at least one of {', '.join(ENTITIES)}.")
    items = sorted(_list_memories(memory, conditions), key=lambda item: item.scope)
    count = 0
    for scope, group in groupby(items, key=lambda item: item.scope):
        outcomes = memory.vault.bulk_delete([item.id for item in group], scope=scope, source="chat")
        count += sum(len(outcome.unwrap_all()) for outcome in outcomes)
    return count


def _require_memory(memory: Memory, id: str, scope: str | None = None) -> VaultMemory:
    found = memory.vault.get(id, scope=scope)
    if found is None:
        raise not_found(f"There is no memory {id!r:.80}.")
    return found


def _list_memories(memory: Memory, conditions: Mapping[str, Any]) -> list[VaultMemory]:
    """Return the memories that meet a filter, newest first."""
    found: dict[tuple[str, str], VaultMemory] = {}
    for scopes, labels in _places(memory, conditions):
        tag = labels[0].removeprefix("tag=") if labels else None
        for item in memory.vault.list(next(iter(scopes), None), tag=tag):
            if _meets(_to_item(item), conditions):
                found[item.scope, item.id] = item
    return sorted(found.values(), key=lambda item: item.created_at, reverse=True)


def _list_items(memory: Memory, conditions: Mapping[str, Any], *, show_expired: bool) -> list[dict[str, Any]]:
    now = SystemClock().now()
    return [
        _to_item(item)
        for item in _list_memories(memory, conditions)
        if show_expired or item.expires_at is None or item.expires_at > now
    ]


def _count_entities(memory: Memory) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for item in map(_to_item, memory.vault.list()):
        for name in ENTITIES:
            if (value := item[name]) is not None:
                type = name.removesuffix("_id")
                entity = {
                    "id": value,
                    "name": value,
                    "type": type,
                    "total_memories": 0,
                    "created_at": item["created_at"],
                }
                entity = found.setdefault((type, value), entity)
                entity["total_memories"] += 1
                entity["updated_at"] = item["updated_at"]
    return [found[key] for key in sorted(found)]


def _scope_of(entity: str, name: str) -> str:
    """Return the scope of a user, an app, an agent or a run. No name leads to the shared scope."""
    scope = _SCOPE_PREFIXES[entity] + name
    if entity == "agent_id" and (name == SHARED or name.startswith(("user:", "app:", "run:", "_"))):
        raise InvalidInput(f"No agent may be called {name!r:.80}.", hint="Use another agent_id.")
    return scope


def _places(memory: Memory, conditions: Mapping[str, Any]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the scopes and labels that find everything a filter can meet: one pair, or two for an agent, app or run."""
    listed = conditions.get("AND")
    listed = listed if isinstance(listed, list) else []
    clauses = [conditions, *(clause for clause in listed if isinstance(clause, Mapping))]
    for name in ENTITIES:
        for clause in clauses:
            value = clause.get(name)
            if isinstance(value, str) and value != "*":
                scope = _scope_of(name, value)
                is_readable = memory.journal.reach.reads(scope)
                if name == "user_id":
                    if not is_readable:
                        raise _out_of_reach(scope)
                    return [((scope,), ())]
                return [*([((scope,), ())] if is_readable else []), ((), (f"tag={name}={value}",))]
    return [((), ())]


def _out_of_reach(scope: str) -> NotAllowed:
    hint = f"Use a token that reaches it: lukasa --scope {scope} token add NAME"
    return NotAllowed(f"This token does not reach the scope {scope!r:.120}.", hint=hint)


def _to_item(memory: VaultMemory) -> dict[str, Any]:
    """Return a memory as mem0 writes it."""
    entities: dict[str, str | None] = dict.fromkeys(ENTITIES)
    prefixed = [name for name, prefix in _SCOPE_PREFIXES.items() if prefix and memory.scope.startswith(prefix)]
    primary = prefixed[0] if prefixed else None if memory.scope == SHARED else "agent_id"
    if primary is not None:
        entities[primary] = memory.scope.removeprefix(_SCOPE_PREFIXES[primary])
    metadata: dict[str, Any] = {}
    plain_tags = []
    for tag in memory.tags:
        name, _, value = tag.partition("=")
        if name in ENTITIES:
            entities[name] = value
        elif (found := _parse_metadata(tag)) is not None:
            metadata |= found
        else:
            plain_tags.append(tag)
    expires_on = None if memory.expires_at is None else (memory.expires_at - timedelta(microseconds=1)).date()
    return {
        "id": memory.id,
        "memory": memory.text,
        **entities,
        "metadata": metadata | ({"tags": plain_tags} if plain_tags else {}),
        "categories": [] if memory.category == "general" else [memory.category],
        "created_at": to_iso(memory.created_at),
        "updated_at": to_iso(memory.updated_at or memory.created_at),
        "expiration_date": None if expires_on is None else expires_on.isoformat(),
    }


def _metadata_tags(metadata: Mapping[str, Any]) -> list[str]:
    """Return metadata as tags, one for each name."""
    tags = [
        f"{_METADATA}{name}={json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
        for name, value in metadata.items()
    ]
    for name, tag in zip(metadata, tags, strict=True):
        if "=" in name or len(tag) > _MAX_TAG_LENGTH or not tag.isprintable():
            raise InvalidInput(
                f"The metadata {name!r:.60} cannot be kept.",
                hint=f"A name without = and its value as JSON have at most {_MAX_TAG_LENGTH - len(_METADATA) - 1} characters.",
            )
    return tags


def _parse_metadata(tag: str) -> dict[str, Any] | None:
    """Return the metadata in a tag; ``None`` for a tag that somebody else made."""
    name, _, value = tag.removeprefix(_METADATA).partition("=")
    try:
        return {name: decode(value.encode())} if tag.startswith(_METADATA) else None
    except InvalidInput:
        return None


def _end_of_day(day: date | None) -> datetime | None:
    """Return when a memory expires that holds to the end of a day."""
    return None if day is None else datetime.combine(day, time(), UTC) + timedelta(days=1)


def _ignored(body: Mem0Model) -> dict[str, Any]:
    names = body.list_ignored()
    return {"ignored": names} if names else {}


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda value, wanted: bool(value == wanted),
    "ne": lambda value, wanted: bool(value != wanted),
    "in": lambda value, wanted: any(item in wanted for item in (value if isinstance(value, list) else [value])),
    "nin": lambda value, wanted: value not in wanted,
    "gt": lambda value, wanted: bool(value > wanted),
    "gte": lambda value, wanted: bool(value >= wanted),
    "lt": lambda value, wanted: bool(value < wanted),
    "lte": lambda value, wanted: bool(value <= wanted),
    "contains": lambda value, wanted: wanted in value,
    "icontains": lambda value, wanted: str(wanted).casefold() in str(value).casefold(),
}


def _meets(item: Mapping[str, Any], conditions: Mapping[str, Any], depth: int = 0) -> bool:
    """Return whether a memory meets all conditions of a filter of mem0."""
    if depth > _MAX_FILTER_DEPTH:
        raise InvalidInput(f"A filter may be nested {_MAX_FILTER_DEPTH} deep.")
    for name, wanted in conditions.items():
        if name in ("AND", "OR", "NOT"):
            clauses = wanted if isinstance(wanted, list) else [wanted]
            if not all(isinstance(clause, Mapping) for clause in clauses):
                raise InvalidInput(f"{name} takes a list of filters.")
            verdicts: Sequence[bool] = [_meets(item, clause, depth + 1) for clause in clauses]
            holds = all(verdicts) if name == "AND" else any(verdicts) if name == "OR" else not any(verdicts)
        elif name == "metadata" and isinstance(wanted, Mapping):
            holds = all(_compare(item["metadata"].get(field), value) for field, value in wanted.items())
        else:
            holds = _compare(item[name] if name in item else item["metadata"].get(name), wanted)
        if not holds:
            return False
    return True


def _compare(value: Any, wanted: Any) -> bool:
    """Return whether a field meets a condition: a value, ``*`` for any value, or comparisons by name."""
    if wanted == "*":
        return value is not None
    if not isinstance(wanted, Mapping):
        return wanted in value if isinstance(value, list) and not isinstance(wanted, list) else bool(value == wanted)
    if unknown := wanted.keys() - _COMPARISONS.keys():
        known = ", ".join(_COMPARISONS)
        raise InvalidInput(f"There is no comparison {min(unknown)!r:.40}.", hint=f"Use one of {known}.")
    try:
        return all(_COMPARISONS[name](value, operand) for name, operand in wanted.items())
    except TypeError:  # a field of another type, or a missing one
        return False
