"""``/v1/agents``: the hub of agents on other machines. Signals, predictions, inboxes, peers, and states for recovery.

Every request here may be repeated: a signal and an acknowledgement are stored once, however often they are sent.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from lukasa.core.record import Draft
from lukasa.core.scope import SHARED
from lukasa.errors import NotAllowed
from lukasa.interfaces.http.requests import CallerMemory, Name, RequestModel, WritingMemory
from lukasa.interfaces.http.responses import BOOK, JsonResponse, declare_answer, describe_answer, json_answer
from lukasa.memory import Memory
from lukasa.network import NetworkHub, SendReceipt
from lukasa.network.contract import NetworkState, Peer

router = APIRouter(prefix="/v1/agents/{agent}", tags=["hub"])
MAX_EFFECTS = 100
RECEIPTS: dict[int | str, dict[str, Any]] = {
    200: json_answer("It was stored before.", BOOK.describe(SendReceipt)),
    201: json_answer("It is stored.", BOOK.describe(SendReceipt)),
}


class NewEffect(RequestModel):
    """A record that the receiver makes of a signal."""

    kind: Annotated[str, Field(max_length=200)]
    text: Annotated[str, Field(max_length=4_000_000)] = ""
    body: dict[str, Any] = Field(default={})
    id: Annotated[str, Field(max_length=200)] = ""
    scope: Annotated[str, Field(max_length=200)] = SHARED
    labels: list[str] = Field(default=[], max_length=100)


class NewAcknowledgement(RequestModel):
    """The sender and the id of a signal that the agent has taken, and the records to store in the same step."""

    sender: Name
    signal_id: Name
    effect: list[NewEffect] = Field(default=[], max_length=MAX_EFFECTS)


@router.get("/state", responses=describe_answer(NetworkState))
def read_state(memory: CallerMemory, agent: Name) -> Any:
    """Return the last predictions and signals of an agent, so that it can recover from them."""
    return JsonResponse(memory.hub.fetch_state(agent))


@router.get("/peers", responses=declare_answer("PeerList", "peers:list[Peer]", Peer))
def list_peers(memory: CallerMemory, agent: Name) -> Any:
    """List the other agents that have sent something, with the time of the last message and how far they are trusted."""
    return JsonResponse({"peers": memory.hub.peers(agent)})


@router.post("/predictions", responses=RECEIPTS)
def send_prediction(memory: WritingMemory, agent: Name, body: dict[str, Any]) -> Any:
    """Send how the agent sees a market now. It replaces an older view; an older one than the hub has changes nothing."""
    return _receipt_response(_own_hub(memory, agent).broadcast(agent, "prediction", body))


@router.post("/signals", responses=RECEIPTS)
def send_signal(memory: WritingMemory, agent: Name, body: dict[str, Any]) -> Any:
    """Send a signal to all other agents. It is stored before the answer, once for each ``signal_id``."""
    return _receipt_response(_own_hub(memory, agent).broadcast(agent, "signal", body))


@router.get("/inbox", responses=declare_answer("SignalInbox", "signals:list[dict[str,object]]"))
def read_inbox(memory: CallerMemory, agent: Name) -> Any:
    """Return the oldest signals of others that the agent has not acknowledged."""
    return JsonResponse({"signals": _own_hub(memory, agent).inbox(agent)})


@router.post("/acknowledgements", responses=RECEIPTS)
def acknowledge_signal(memory: WritingMemory, agent: Name, body: NewAcknowledgement) -> Any:
    """Confirm that the agent has taken a signal, and store the effect in the same step, once."""
    effect = [Draft(**item.model_dump() | {"labels": tuple(item.labels), "origin": "network"}) for item in body.effect]
    return _receipt_response(_own_hub(memory, agent).acknowledge(agent, body.signal_id, body.sender, effect))


@router.get("/acknowledgements", responses=declare_answer("AcknowledgedBy", "agents:list[str]"))
def list_acknowledgements(
    memory: CallerMemory, agent: Name, signal_id: Annotated[str, Query(min_length=1, max_length=200)]
) -> Any:
    """List the agents that have taken a signal of this agent."""
    return JsonResponse({"agents": memory.hub.acknowledged(agent, signal_id)})


def _own_hub(memory: Memory, agent: str) -> NetworkHub:
    """Return the hub for a request in an agent's name, which only its own token and the owner's may send."""
    if memory.journal.author not in ("", agent):
        raise NotAllowed(f"The token belongs to {memory.journal.author[:80]!r}, not to {agent[:80]!r}.")
    return memory.hub


def _receipt_response(receipt: SendReceipt) -> JsonResponse:
    return JsonResponse(receipt, 200 if receipt.repeated else 201)
