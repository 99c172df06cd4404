"""A network in a store: agents that share the store hear each other through records of the shared scope."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from lukasa import canonical
from lukasa.clock import Clock, from_iso, to_iso
from lukasa.engine import Query, Reader
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.network import NetworkState, News, Peer, Sort, Told
from lukasa.outcome import Accepted, Refused
from lukasa.record import Draft, Key
from lukasa.scope import SHARED

NEWS, TAKEN, HEARD = "network_news", "network_taken", "network_agent"
_IDS = {"prediction": "prediction_id", "signal": "signal_id"}
_LONGEST_INBOX = 1000


class Hub:
    """Keeps the network's promise with a journal that reaches the shared scope."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def fetch_state(self, agent_id: str) -> NetworkState:
        found: dict[str, list[News]] = {"prediction": [], "signal": []}
        for record in self._journal.read(Query(kinds=(NEWS,), scopes=(SHARED,), labels=(f"from={_mark(agent_id)}",))):
            found[record.body["sort"]].append(record.body["news"])
        return NetworkState(agent_id, tuple(found["prediction"]), tuple(found["signal"]))

    def broadcast(self, agent_id: str, sort: Sort, news: News) -> Told:
        own = news.get(_IDS[sort])
        if not isinstance(own, str) or not own:
            raise InvalidInput(f"A {sort} that is broadcast has a {_IDS[sort]}.")
        key = Key(SHARED, NEWS, _mark(agent_id, sort, own))
        labels = (f"from={_mark(agent_id)}", f"sort={sort}")
        body = {"agent_id": agent_id, "sort": sort, "news": dict(news)}
        repeated = False

        def tell(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            known = reader.get(key)
            repeated = known is not None and (sort == "signal" or _same(known.body["news"], news))
            if repeated or (known is not None and _older(news, known.body["news"])):
                repeated = True
                return []
            return [Draft(NEWS, body=body, id=key.id, labels=labels, origin="network"), *self._heard(reader, agent_id)]

        self._require(self._journal.decide(tell))
        return Told(own, repeated)

    def acknowledge(self, agent_id: str, signal_id: str, sender: str) -> Told:
        signal = Key(SHARED, NEWS, _mark(sender, "signal", signal_id))
        key = Key(SHARED, TAKEN, _mark(sender, signal_id, agent_id))
        repeated = False

        def take(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            if reader.get(signal) is None:
                return Refused("not_found", f"The network has no signal {signal_id[:80]} of {sender[:80]}.")
            if repeated := reader.get(key) is not None:
                return []
            body = {"by": agent_id, "signal_id": signal_id, "from": sender}
            labels = (f"signal={signal.id}", f"by={_mark(agent_id)}")
            return [Draft(TAKEN, body=body, id=key.id, labels=labels, origin="network"), *self._heard(reader, agent_id)]

        self._require(self._journal.decide(take))
        return Told(signal_id, repeated)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        label = f"signal={_mark(agent_id, 'signal', signal_id)}"
        taken = self._journal.read(Query(kinds=(TAKEN,), scopes=(SHARED,), labels=(label,)))
        return tuple(record.body["by"] for record in taken)

    def inbox(self, agent_id: str) -> list[News]:
        waiting: list[News] = []
        with self._journal.looking() as reader:
            signals = reader.read(
                Query(kinds=(NEWS,), scopes=(SHARED,), labels=("sort=signal",), newest_first=True, limit=_LONGEST_INBOX)
            )
            for record in reversed(signals):
                sender, news = record.body["agent_id"], record.body["news"]
                taken = Key(SHARED, TAKEN, _mark(sender, news["signal_id"], agent_id))
                if sender != agent_id and reader.get(taken) is None:
                    waiting.append({**news, "agent_id": sender})
        return waiting

    def peers(self, agent_id: str) -> list[Peer]:
        heard = self._journal.read(Query(kinds=(HEARD,), scopes=(SHARED,)))
        return [Peer(record.body["agent_id"], record.moment) for record in heard if record.body["agent_id"] != agent_id]

    def _heard(self, reader: Reader, agent_id: str) -> list[Draft]:
        """Notes that an agent was heard, at most once a minute."""
        id, now = _mark(agent_id), self._clock.now()
        known = reader.get(Key(SHARED, HEARD, id))
        if known is not None and 0 <= (now - known.moment).total_seconds() < 60:
            return []
        return [Draft(HEARD, body={"agent_id": agent_id, "at": to_iso(now)}, id=id, happened_at=now, origin="network")]

    @staticmethod
    def _require(outcome: object) -> None:
        if not isinstance(outcome, Accepted):
            raise InvalidInput(getattr(outcome, "reason", "The network refused it."))


def _mark(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _same(one: News, other: News) -> bool:
    return canonical.encode(dict(one)) == canonical.encode(dict(other))


def _older(news: News, known: News) -> bool:
    return _moment(news) < _moment(known)


def _moment(news: News) -> datetime:
    value = news.get("last_updated")
    try:
        return from_iso(value if isinstance(value, str) else "1970-01-01")
    except InvalidInput:
        return from_iso("1970-01-01")
