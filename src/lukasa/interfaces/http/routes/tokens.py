"""``/v1/tokens``: the tokens of the store, for its owner."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from lukasa.core.clock import SystemClock
from lukasa.errors import NotAllowed
from lukasa.interfaces.api_tokens import MAX_RATE, ApiToken, ApiTokens, require_holder
from lukasa.interfaces.http.request_types import Time
from lukasa.interfaces.http.requests import CallerMemory, Name, RequestModel
from lukasa.interfaces.http.responses import JsonResponse, declare_answer
from lukasa.interfaces.outcomes import not_found
from lukasa.memory import Memory

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


class NewToken(RequestModel):
    """What a token grants: an agent, scopes or both; or everything, with ``owner``."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    agent: Annotated[str, Field(max_length=200)] = ""
    scopes: Annotated[list[Name], Field(max_length=100)] | None = None
    owner: bool = Field(False, description="The token may do everything; it has no agent and no scopes.")
    read_only: bool = False
    rate: Annotated[int, Field(ge=0, le=MAX_RATE)] | None = Field(None, description="Requests per minute.")
    expires_at: Time | None = None


def _open_tokens(memory: Memory) -> ApiTokens:
    if not memory.journal.reach.unlimited:
        raise NotAllowed("Only the owner of the store may manage tokens.")
    return ApiTokens(memory.journal, SystemClock())


@router.get("", responses=declare_answer("TokenList", "tokens:list[ApiToken]", ApiToken))
def list_tokens(memory: CallerMemory) -> Any:
    """List the tokens; the secrets are not stored."""
    return JsonResponse({"tokens": _open_tokens(memory).list()})


@router.post("", status_code=201, responses=declare_answer("MadeToken", "name:str token:str", status=201))
def add_token(memory: CallerMemory, body: NewToken) -> Any:
    """Create a token. The answer holds its secret, which cannot be read again."""
    tokens = _open_tokens(memory)
    fields: dict[str, Any] = {field: getattr(body, field) for field in body.model_fields_set - {"owner"}}
    if body.scopes is not None:
        fields["scopes"] = tuple(body.scopes)
    require_holder(body.agent, fields.get("scopes"), owner=body.owner)
    secret = tokens.add(**fields)
    return JsonResponse({"name": body.name, "token": secret}, 201, {"Cache-Control": "no-store"})


@router.delete("/{name}", responses=declare_answer("RevokedToken", "name:str revoked:bool"))
def revoke_token(memory: CallerMemory, name: Name) -> Any:
    """Revoke a token. Every server refuses it from the next request on."""
    if not _open_tokens(memory).revoke(name):
        raise not_found(f"There is no token named {name!r:.80}.")
    return JsonResponse({"name": name, "revoked": True})
