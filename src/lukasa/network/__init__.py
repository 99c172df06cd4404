"""The network of agents: the promise of whatever carries news between them, and a hub that keeps it in a store.

News is plain JSON in the words of a session's state. A *prediction* tells how one agent sees a market now; the newest
one stands for it. A *signal* is said once; it is received once by each peer, however often it was sent.

What every network promises:

- ``broadcast`` answers once the news is safe with the network. Sending the same again changes nothing and says so.
- ``fetch_state`` answers with what the network last heard from an agent, in the sections of a session's state.
- ``acknowledge`` is the receiver's word that it has taken a signal. Saying it twice is fine.
- Whatever cannot be reached raises ``NetworkDown``; whoever asks too often gets ``RateLimited``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from lukasa.clock import Clock, to_iso
from lukasa.errors import RateLimited

News = Mapping[str, Any]
NewsType = Literal["prediction", "signal"]


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """The network has the news. ``repeated`` says that it had it already."""

    id: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """Another agent that the network has heard of, and when it last did."""

    agent_id: str
    last_interaction: datetime


@dataclass(frozen=True, slots=True)
class NetworkState:
    """What the network last heard from one agent."""

    agent_id: str
    active_predictions: tuple[News, ...] = ()
    signal_history: tuple[News, ...] = ()

    @property
    def silent(self) -> bool:
        """Whether the network has never heard from the agent."""
        return not self.active_predictions and not self.signal_history


class Network(Protocol):
    """Carries news between agents."""

    def fetch_state(self, agent_id: str) -> NetworkState:
        """What the network last heard from an agent."""

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        """Tells everybody a prediction or a signal of an agent."""

    def acknowledge(self, agent_id: str, signal_id: str, sender: str) -> SendReceipt:
        """An agent's word that it has taken a signal of another."""

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        """Who has taken a signal of an agent."""

    def inbox(self, agent_id: str) -> list[News]:
        """The signals of others that an agent has not taken yet, oldest first, each with its ``agent_id``."""

    def peers(self, agent_id: str) -> list[Peer]:
        """The other agents that the network has heard of."""


@dataclass(slots=True)
class RateLimitedNetwork:
    """A network with a rate limit: so many requests in each hour, counted here."""

    network: Network
    clock: Clock
    limit: int = 1000
    requests_used: int = 0
    hour_start: datetime | None = None
    last_request: datetime | None = None
    requests_denied: int = field(default=0)

    def fetch_state(self, agent_id: str) -> NetworkState:
        return self._count_request().fetch_state(agent_id)

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        return self._count_request().broadcast(agent_id, news_type, news)

    def acknowledge(self, agent_id: str, signal_id: str, sender: str) -> SendReceipt:
        return self._count_request().acknowledge(agent_id, signal_id, sender)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        return self._count_request().acknowledged(agent_id, signal_id)

    def inbox(self, agent_id: str) -> list[News]:
        return self._count_request().inbox(agent_id)

    def peers(self, agent_id: str) -> list[Peer]:
        return self._count_request().peers(agent_id)

    def usage(self) -> dict[str, Any]:
        """The usage in the words of a session's state."""
        self._reset_after_hour()
        usage: dict[str, Any] = {"requests_this_hour": self.requests_used, "rate_limit": self.limit}
        return usage if self.last_request is None else usage | {"last_request": to_iso(self.last_request)}

    def _count_request(self) -> Network:
        self._reset_after_hour()
        if self.requests_used >= self.limit:
            self.requests_denied += 1
            raise RateLimited(f"All {self.limit:,} requests of this hour are used; the next hour brings new ones.")
        self.requests_used += 1
        self.last_request = self.clock.now()
        return self.network

    def _reset_after_hour(self) -> None:
        hour = self.clock.now().replace(minute=0, second=0, microsecond=0)
        if self.hour_start is None or abs(hour - self.hour_start) >= timedelta(hours=1):
            self.hour_start, self.requests_used = hour, 0
