"""The contract of a network that carries news between agents, and a network with a limited number of requests.

News is JSON in the fields of a session's state. A *prediction* is how an agent sees a market now; its newest version
replaces earlier ones. A *signal* is sent once and received once by each peer, however often it was sent.

Every network guarantees:

- ``broadcast`` returns once the network has stored the news. Sending the same news again changes nothing and says so.
- ``fetch_state`` returns the last news of an agent, in the sections of a session's state.
- ``inbox`` returns the oldest signals that the receiver has not acknowledged. None is passed over: once the receiver has
  acknowledged these, the next ones come.
- ``acknowledge`` confirms that the receiver has taken a signal, and stores the records that the receiver makes of it in the
  same step. It may be repeated; the records are stored once.
- A network that cannot be reached raises ``NetworkDown``; too many requests raise ``RateLimited``.

``lukasa.testing.NetworkContract`` is the conformance suite of networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from lukasa.core.clock import Clock, from_iso, to_iso
from lukasa.core.record import Draft
from lukasa.errors import RateLimited

News = Mapping[str, Any]
NewsType = Literal["prediction", "signal"]


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """Confirmation that the network has the news. ``repeated`` says that it had them already."""

    id: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """Another agent that the network knows, the time of its last message, and how far it is trusted, if it was judged."""

    agent_id: str
    last_interaction: datetime
    trust: float | None = None


@dataclass(frozen=True, slots=True)
class NetworkState:
    """The last news of one agent."""

    agent_id: str
    active_predictions: tuple[News, ...] = ()
    signal_history: tuple[News, ...] = ()

    @property
    def silent(self) -> bool:
        """Whether the agent has never sent anything."""
        return not self.active_predictions and not self.signal_history


class Network(Protocol):
    """Carries news between agents."""

    def fetch_state(self, agent_id: str) -> NetworkState:
        """Return the last news of an agent."""

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        """Send a prediction or a signal of an agent to all others."""

    def acknowledge(self, agent_id: str, signal_id: str, sender: str, effect: Sequence[Draft] = ()) -> SendReceipt:
        """Confirm that an agent has taken a signal of another, and store ``effect`` in the same step, once."""

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        """Return the agents that have taken a signal of an agent."""

    def inbox(self, agent_id: str) -> list[News]:
        """Return the oldest signals of others that an agent has not taken yet, each with its ``agent_id``."""

    def peers(self, agent_id: str) -> list[Peer]:
        """Return the other agents that the network knows."""


@dataclass(slots=True)
class RateLimitedNetwork:
    """A network that allows a limited number of requests per hour, counted here."""

    network: Network
    clock: Clock
    limit: int = 1000
    requests_used: int = 0
    hour_start: datetime | None = None
    last_request: datetime | None = None
    requests_denied: int = 0

    def fetch_state(self, agent_id: str) -> NetworkState:
        return self._count_request().fetch_state(agent_id)

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        return self._count_request().broadcast(agent_id, news_type, news)

    def acknowledge(self, agent_id: str, signal_id: str, sender: str, effect: Sequence[Draft] = ()) -> SendReceipt:
        return self._count_request().acknowledge(agent_id, signal_id, sender, effect)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        return self._count_request().acknowledged(agent_id, signal_id)

    def inbox(self, agent_id: str) -> list[News]:
        return self._count_request().inbox(agent_id)

    def peers(self, agent_id: str) -> list[Peer]:
        return self._count_request().peers(agent_id)

    def resume_usage(self, usage: Mapping[str, Any]) -> None:
        """Go on counting from a usage in the fields of a session's state, if it is of the current hour."""
        used, last = usage.get("requests_this_hour"), usage.get("last_request")
        if self.last_request is None and isinstance(used, int) and isinstance(last, str):
            self.last_request = from_iso(last)
            hour = self.last_request.replace(minute=0, second=0, microsecond=0)
            if hour == self.clock.now().replace(minute=0, second=0, microsecond=0):
                self.hour_start, self.requests_used = hour, self.requests_used + used

    def usage(self) -> dict[str, Any]:
        """Return the usage in the fields of a session's state."""
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
