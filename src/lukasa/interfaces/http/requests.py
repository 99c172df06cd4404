"""The parts of a request that every route reads: the store of its caller, conditions and times."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, Header, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from lukasa.core.clock import from_iso
from lukasa.core.names import find_number
from lukasa.errors import InvalidInput
from lukasa.interfaces.http.idempotency import MAX_KEY_LENGTH, REQUEST_KEY, KeyedRequest
from lukasa.interfaces.stores import CALLER_KEY, Caller, CallerStores
from lukasa.memory import Memory

MAX_ITEMS = 1_000


def _refuse_other_notations(value: Any) -> Any:
    if isinstance(value, str) and find_number(value.removeprefix("-"), "", digits=range(1, 20)) is None:
        raise ValueError("it must be a whole number in digits")
    return value


WholeNumber = Annotated[int, BeforeValidator(_refuse_other_notations)]
"""A number in a query. ``5.0`` and ``1_000`` are refused, as the description of the API says."""


class RequestModel(BaseModel):
    """The body of a request. An unknown field is an error, so that no misspelt option is ignored; so is a wrong type."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


async def get_memory(request: Request) -> Memory:
    """Return the store for the caller of a request. Only opening it needs a thread."""
    stores: CallerStores = request.app.state.stores
    caller = request.scope.get(CALLER_KEY)
    memory = stores.find_open(caller) if isinstance(caller, Caller) else None
    return await anyio.to_thread.run_sync(stores.for_request, request.scope) if memory is None else memory


CallerMemory = Annotated[Memory, Depends(get_memory)]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="A request that is repeated with its key writes once and gets the first answer again.",
    ),
]


async def get_writing_memory(memory: CallerMemory, request: Request, key: IdempotencyKey = None) -> Memory:  # noqa: ARG001 - see below
    """Return the store for the caller of a request that writes; with an Idempotency-Key, its writes are done once.

    OpenAPI describes the key, which the middleware reads.
    """
    keyed: KeyedRequest | None = request.scope.get(REQUEST_KEY)
    if keyed is not None:
        memory = keyed.memory = memory.for_request(keyed.id, keyed.fingerprint)
    return memory


WritingMemory = Annotated[Memory, Depends(get_writing_memory)]
"""The store for a request that writes. A repeated one ends with ``RepeatedRequest``."""


def _read_expected_version(if_match: Annotated[str | None, Header()] = None) -> int | None:
    if if_match is None:
        return None
    found = find_number(if_match.strip().removeprefix("W/"), '"v', '"', digits=range(1, 19))
    if found is None:
        raise InvalidInput(f"{if_match!r:.60} is not an entity tag.", hint='Send the ETag of a read, such as "v7".')
    return found


ExpectedVersion = Annotated[int | None, Depends(_read_expected_version)]
"""The version in ``If-Match``: the write happens only if the record still has it."""


IfNoneMatch = Annotated[str | None, Header(description="The entity tag of the version that the caller has.")]


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601."""
    try:
        return from_iso(text)
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _prefers_async(prefer: Annotated[str, Header(max_length=200)] = "") -> bool:
    return any(part.strip().lower() == "respond-async" for part in prefer.split(","))


RespondAsync = Annotated[bool, Depends(_prefers_async)]
"""Whether ``Prefer: respond-async`` asks for a job instead of an answer that takes long."""

Moment = Annotated[
    str, AfterValidator(lambda text: parse_time(text) and text), Field(max_length=40, examples=["2026-11-17T09:00:00Z"])
]
"""A time in ISO 8601 with an offset."""
Name = Annotated[str, Field(min_length=1, max_length=200)]


def to_moment(text: str | None) -> datetime | None:
    """Return the time that a validated field holds."""
    return None if text is None else parse_time(text)
