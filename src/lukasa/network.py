"""The network of agents: the contract of a network that carries news between agents, and a hub that stores the news.

News is JSON in the fields of a session's state. A *prediction* is how an agent sees a market now; its newest version
replaces earlier ones. A *signal* is sent once and received once by each peer, however often it was sent.

Every network guarantees:

- ``broadcast`` returns once the network has stored the news. Sending the same news again changes nothing and says so.
- ``fetch_state`` returns the last news of an agent, in the sections of a session's state.
- ``acknowledge`` confirms that the receiver has taken a signal. It may be repeated.
- A network that cannot be reached raises ``NetworkDown``; too many requests raise ``RateLimited``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from lukasa import canonical_json
from lukasa.clock import Clock, from_iso, to_iso
from lukasa.errors import InvalidInput, RateLimited
from lukasa.gate import KindSpec
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Refused
from lukasa.record import Draft, Key
from lukasa.scope import SHARED
from lukasa.storage.engine import Query, Reader

NEWS_KIND, ACKNOWLEDGEMENT_KIND, AGENT_KIND = "network_news", "network_taken", "network_agent"
KINDS = dict.fromkeys((NEWS_KIND, ACKNOWLEDGEMENT_KIND, AGENT_KIND), KindSpec())
"""The kinds of record that the hub writes."""
_ID_FIELDS = {"prediction": "prediction_id", "signal": "signal_id"}
_MAX_INBOX = 1000

News = Mapping[str, Any]
NewsType = Literal["prediction", "signal"]


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """Confirmation that the network has the news. ``repeated`` says that it had them already."""

    id: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """Another agent that the network knows, and the time of its last message."""

    agent_id: str
    last_interaction: datetime


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

    def acknowledge(self, agent_id: str, signal_id: str, sender: str) -> SendReceipt:
        """Confirm that an agent has taken a signal of another."""

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        """Return the agents that have taken a signal of an agent."""

    def inbox(self, agent_id: str) -> list[News]:
        """Return the signals of others that an agent has not taken yet, oldest first, each with its ``agent_id``."""

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

    def acknowledge(self, agent_id: str, signal_id: str, sender: str) -> SendReceipt:
        return self._count_request().acknowledge(agent_id, signal_id, sender)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        return self._count_request().acknowledged(agent_id, signal_id)

    def inbox(self, agent_id: str) -> list[News]:
        return self._count_request().inbox(agent_id)

    def peers(self, agent_id: str) -> list[Peer]:
        return self._count_request().peers(agent_id)

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


class NetworkHub:
    """A network in a store: agents that share the store read each other's news in the shared scope."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def fetch_state(self, agent_id: str) -> NetworkState:
        found: dict[str, list[News]] = {"prediction": [], "signal": []}
        label = f"from={_hash_names(agent_id)}"
        for record in self._journal.read(Query(kinds=(NEWS_KIND,), scopes=(SHARED,), labels=(label,))):
            found[record.body["sort"]].append(record.body["news"])
        return NetworkState(agent_id, tuple(found["prediction"]), tuple(found["signal"]))

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        news_id = news.get(_ID_FIELDS[news_type])
        if not isinstance(news_id, str) or not news_id:
            raise InvalidInput(f"A {news_type} that is broadcast has a {_ID_FIELDS[news_type]}.")
        key = Key(SHARED, NEWS_KIND, _hash_names(agent_id, news_type, news_id))
        labels = (f"from={_hash_names(agent_id)}", f"sort={news_type}")
        body = {"agent_id": agent_id, "sort": news_type, "news": dict(news)}
        repeated = False

        def append_news(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            record = reader.get(key)
            known = None if record is None else record.body["news"]
            repeated = known is not None and (
                news_type == "signal"
                or canonical_json.encode(dict(known)) == canonical_json.encode(dict(news))
                or _last_updated(news) < _last_updated(known)
            )
            if repeated:
                return []
            return [
                Draft(NEWS_KIND, body=body, id=key.id, labels=labels, origin="network"),
                *self._heartbeat_drafts(reader, agent_id),
            ]

        self._require_accepted(self._journal.append_if(append_news))
        return SendReceipt(news_id, repeated)

    def acknowledge(self, agent_id: str, signal_id: str, sender: str) -> SendReceipt:
        signal = Key(SHARED, NEWS_KIND, _hash_names(sender, "signal", signal_id))
        key = Key(SHARED, ACKNOWLEDGEMENT_KIND, _hash_names(sender, signal_id, agent_id))
        repeated = False

        def append_acknowledgement(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            if reader.get(signal) is None:
                return Refused("not_found", f"The network has no signal {signal_id[:80]} of {sender[:80]}.")
            if repeated := reader.get(key) is not None:
                return []
            body = {"by": agent_id, "signal_id": signal_id, "from": sender}
            labels = (f"signal={signal.id}", f"by={_hash_names(agent_id)}")
            return [
                Draft(ACKNOWLEDGEMENT_KIND, body=body, id=key.id, labels=labels, origin="network"),
                *self._heartbeat_drafts(reader, agent_id),
            ]

        self._require_accepted(self._journal.append_if(append_acknowledgement))
        return SendReceipt(signal_id, repeated)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        label = f"signal={_hash_names(agent_id, 'signal', signal_id)}"
        records = self._journal.read(Query(kinds=(ACKNOWLEDGEMENT_KIND,), scopes=(SHARED,), labels=(label,)))
        return tuple(record.body["by"] for record in records)

    def inbox(self, agent_id: str) -> list[News]:
        query = Query(
            kinds=(NEWS_KIND,), scopes=(SHARED,), labels=("sort=signal",), newest_first=True, limit=_MAX_INBOX
        )
        inbox: list[News] = []
        with self._journal.snapshot() as reader:
            for record in reversed(reader.read(query)):
                sender, news = record.body["agent_id"], record.body["news"]
                taken = Key(SHARED, ACKNOWLEDGEMENT_KIND, _hash_names(sender, news["signal_id"], agent_id))
                if sender != agent_id and reader.get(taken) is None:
                    inbox.append({**news, "agent_id": sender})
        return inbox

    def peers(self, agent_id: str) -> list[Peer]:
        records = self._journal.read(Query(kinds=(AGENT_KIND,), scopes=(SHARED,)))
        return [
            Peer(record.body["agent_id"], record.moment) for record in records if record.body["agent_id"] != agent_id
        ]

    def _heartbeat_drafts(self, reader: Reader, agent_id: str) -> list[Draft]:
        """Return the record that an agent sent something, at most one per minute."""
        id, now = _hash_names(agent_id), self._clock.now()
        known = reader.get(Key(SHARED, AGENT_KIND, id))
        if known is not None and 0 <= (now - known.moment).total_seconds() < 60:
            return []
        return [
            Draft(AGENT_KIND, body={"agent_id": agent_id, "at": to_iso(now)}, id=id, happened_at=now, origin="network")
        ]

    @staticmethod
    def _require_accepted(outcome: object) -> None:
        if not isinstance(outcome, Accepted):
            raise InvalidInput(getattr(outcome, "reason", "The network refused it."))


def _hash_names(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _last_updated(news: News) -> datetime:
    value = news.get("last_updated")
    try:
        return from_iso(value if isinstance(value, str) else "1970-01-01")
    except InvalidInput:
        return from_iso("1970-01-01")
