"""A network in a store: agents that share the store hear each other through records of the shared scope."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from lukasa import canonical_json
from lukasa.clock import Clock, from_iso, to_iso
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.network import NetworkState, News, NewsType, Peer, SendReceipt
from lukasa.outcome import Accepted, Refused
from lukasa.record import Draft, Key
from lukasa.scope import SHARED
from lukasa.storage.engine import Query, Reader

NEWS_KIND, ACKNOWLEDGEMENT_KIND, AGENT_KIND = "network_news", "network_taken", "network_agent"
_ID_FIELDS = {"prediction": "prediction_id", "signal": "signal_id"}
_MAX_INBOX = 1000


class NetworkHub:
    """Keeps the network's promise with a journal that reaches the shared scope."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def fetch_state(self, agent_id: str) -> NetworkState:
        found: dict[str, list[News]] = {"prediction": [], "signal": []}
        for record in self._journal.read(
            Query(kinds=(NEWS_KIND,), scopes=(SHARED,), labels=(f"from={_hash_names(agent_id)}",))
        ):
            found[record.body["sort"]].append(record.body["news"])
        return NetworkState(agent_id, tuple(found["prediction"]), tuple(found["signal"]))

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        own = news.get(_ID_FIELDS[news_type])
        if not isinstance(own, str) or not own:
            raise InvalidInput(f"A {news_type} that is broadcast has a {_ID_FIELDS[news_type]}.")
        key = Key(SHARED, NEWS_KIND, _hash_names(agent_id, news_type, own))
        labels = (f"from={_hash_names(agent_id)}", f"sort={news_type}")
        body = {"agent_id": agent_id, "sort": news_type, "news": dict(news)}
        repeated = False

        def append_news(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            known = reader.get(key)
            repeated = known is not None and (news_type == "signal" or _is_same(known.body["news"], news))
            if repeated or (known is not None and _is_older(news, known.body["news"])):
                repeated = True
                return []
            return [
                Draft(NEWS_KIND, body=body, id=key.id, labels=labels, origin="network"),
                *self._heartbeat_drafts(reader, agent_id),
            ]

        self._require_accepted(self._journal.append_if(append_news))
        return SendReceipt(own, repeated)

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
        taken = self._journal.read(Query(kinds=(ACKNOWLEDGEMENT_KIND,), scopes=(SHARED,), labels=(label,)))
        return tuple(record.body["by"] for record in taken)

    def inbox(self, agent_id: str) -> list[News]:
        waiting: list[News] = []
        with self._journal.snapshot() as reader:
            signals = reader.read(
                Query(
                    kinds=(NEWS_KIND,), scopes=(SHARED,), labels=("sort=signal",), newest_first=True, limit=_MAX_INBOX
                )
            )
            for record in reversed(signals):
                sender, news = record.body["agent_id"], record.body["news"]
                taken = Key(SHARED, ACKNOWLEDGEMENT_KIND, _hash_names(sender, news["signal_id"], agent_id))
                if sender != agent_id and reader.get(taken) is None:
                    waiting.append({**news, "agent_id": sender})
        return waiting

    def peers(self, agent_id: str) -> list[Peer]:
        heard = self._journal.read(Query(kinds=(AGENT_KIND,), scopes=(SHARED,)))
        return [Peer(record.body["agent_id"], record.moment) for record in heard if record.body["agent_id"] != agent_id]

    def _heartbeat_drafts(self, reader: Reader, agent_id: str) -> list[Draft]:
        """Notes that an agent was heard, at most once a minute."""
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


def _is_same(first: News, second: News) -> bool:
    return canonical_json.encode(dict(first)) == canonical_json.encode(dict(second))


def _is_older(news: News, known: News) -> bool:
    return _last_updated(news) < _last_updated(known)


def _last_updated(news: News) -> datetime:
    value = news.get("last_updated")
    try:
        return from_iso(value if isinstance(value, str) else "1970-01-01")
    except InvalidInput:
        return from_iso("1970-01-01")
