"""The hub: a network in a store, in which agents that share the store read each other's news.

The hub finds the signals of an inbox by a cursor per receiver, a record that says: up to this signal everything is settled,
except these. What is settled is not read again, so the cost of a look does not grow with the number of old signals. The
acknowledgements stay the truth; a cursor that does not fit the log, such as one from another store, is ignored and replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, from_iso, to_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput, NotAllowed, StoreReadOnly
from lukasa.journal import CallerService, Journal
from lukasa.network.contract import NetworkState, News, NewsType, Peer, SendReceipt
from lukasa.storage.engine import Query, Reader

NEWS_KIND, SIGNAL_KIND, ACKNOWLEDGEMENT_KIND = "network_news", "network_signal", "network_taken"
AGENT_KIND, CURSOR_KIND = "network_agent", "network_cursor"
MAX_INBOX = 250
"""The number of signals that one look into an inbox returns at most."""
_ID_FIELDS = {"prediction": "prediction_id", "signal": "signal_id"}
_SIGNAL_KINDS = (SIGNAL_KIND, NEWS_KIND)
_MAX_FETCHED_SIGNALS = 1000
_PAGE_SIZE, _SMALL_PAGE_SIZE = 500, 50
"""The number of signals per read, and the number up to which each acknowledgement is looked up alone."""
_SETTLED_PER_CURSOR = 100
"""The number of settled signals after which a look moves the cursor."""

Trust = Callable[[Iterable[str]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _InboxLook:
    """Signals that a receiver has not taken, and the number of settled ones that had to be read to find them."""

    pending: list[Record]
    settled: int
    seen: int
    """Number of signals up to the last one that was read."""
    last: Record | None
    fits: bool
    """Whether the cursor accounts for every signal."""


@check_arguments
class NetworkHub(CallerService):
    """A network in a store: agents that share the store read each other's news in the shared scope.

    ``trust`` returns how far each of some agents is trusted, for those that have been judged.
    """

    def __init__(self, journal: Journal, clock: Clock, trust: Trust = lambda _: {}) -> None:
        self._journal = journal
        self._clock = clock
        self._trust = trust

    def fetch_state(self, agent_id: str) -> NetworkState:
        """Return what the network knows about the agent and its peers.

        Args:
            agent_id: The name of the agent that calls.

        Example:
            memory.hub.fetch_state("anna")
        """
        sender = f"from={_hash_names(agent_id)}"
        predictions = Query(kinds=(NEWS_KIND,), scopes=(SHARED,), labels=(sender, "sort=prediction"))
        signals = Query(
            kinds=_SIGNAL_KINDS, scopes=(SHARED,), labels=(sender, "sort=signal"), newest_first=True,
            limit=_MAX_FETCHED_SIGNALS,
        )  # fmt: skip
        sent_predictions, sent_signals = (
            [record.body["news"] for record in self._journal.read(query) if sender_of(record) == agent_id]
            for query in (predictions, signals)
        )
        return NetworkState(agent_id, tuple(sent_predictions), tuple(sent_signals[::-1]))

    def broadcast(self, agent_id: str, news_type: NewsType, news: News) -> SendReceipt:
        """Send a prediction or a signal to all agents of the store; sending it again changes nothing.

        Args:
            agent_id: The name of the agent that calls.
            news_type: ``prediction`` or ``signal``.
            news: The JSON of the prediction or the signal.

        Example:
            memory.hub.broadcast("anna", "signal", {"signal_id": "s-1"})
        """
        self._require_own_name(agent_id)
        if news_type not in _ID_FIELDS:
            raise InvalidInput(f"There is no news of type {news_type!r}.", hint=f"Use one of: {', '.join(_ID_FIELDS)}.")
        news_id = news.get(_ID_FIELDS[news_type])
        if not isinstance(news_id, str) or not news_id:
            raise InvalidInput(f"A {news_type} that is broadcast has a {_ID_FIELDS[news_type]}.")
        id, kind = _hash_names(agent_id, news_type, news_id), SIGNAL_KIND if news_type == "signal" else NEWS_KIND
        labels = (f"from={_hash_names(agent_id)}", f"sort={news_type}")
        body = {"agent_id": agent_id, "sort": news_type, "news": dict(news)}
        repeated = False

        def append_news(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            record = _find_news(reader, id) if news_type == "signal" else reader.get(Key(SHARED, kind, id))
            known = None if record is None else record.body["news"]
            repeated = known is not None and (
                news_type == "signal"
                or canonical_json.encode(dict(known)) == canonical_json.encode(dict(news))
                or _last_updated(news) < _last_updated(known)
            )
            if repeated:
                return []
            return [
                Draft(kind, body=body, id=id, labels=labels, origin="network"),
                *self._heartbeat_drafts(reader, agent_id),
            ]

        self._journal.append_if(append_news).unwrap_all()
        return SendReceipt(news_id, repeated)

    def acknowledge(self, agent_id: str, signal_id: str, sender: str, effect: Sequence[Draft] = ()) -> SendReceipt:
        """Acknowledge a signal of another agent, and append drafts in the same step.

        Args:
            agent_id: The name of the agent that calls.
            signal_id: The id of the signal.
            sender: The agent that sent the signal.
            effect: Drafts to append in the same step.

        Example:
            memory.hub.broadcast("anna", "signal", {"signal_id": "s-1"})
            memory.hub.acknowledge("ben", "s-1", "anna")
        """
        self._require_own_name(agent_id)
        signal = _hash_names(sender, "signal", signal_id)
        taken = acknowledgement_draft(agent_id, signal_id, sender, SHARED)
        repeated = False

        def append_acknowledgement(reader: Reader) -> Sequence[Draft] | Refused:
            nonlocal repeated
            if _find_news(reader, signal) is None:
                return Refused("not_found", f"The network has no signal {signal_id[:80]} of {sender[:80]}.")
            if repeated := reader.get(taken.key) is not None:
                return []
            if (refused := self._journal.check_raw(reader, effect)) is not None:
                return refused
            return [taken, *effect, *self._heartbeat_drafts(reader, agent_id)]

        self._journal.append_if(append_acknowledgement).unwrap_all()
        return SendReceipt(signal_id, repeated)

    def acknowledged(self, agent_id: str, signal_id: str) -> tuple[str, ...]:
        """Return the agents that acknowledged a signal.

        Args:
            agent_id: The name of the agent that calls.
            signal_id: The id of the signal.

        Example:
            memory.hub.acknowledged("anna", "s-1")
        """
        label = f"signal={_hash_names(agent_id, 'signal', signal_id)}"
        records = self._journal.read(Query(kinds=(ACKNOWLEDGEMENT_KIND,), scopes=(SHARED,), labels=(label,)))
        return tuple(record.author or record.body["by"] for record in records)

    def inbox(self, agent_id: str) -> list[News]:
        """Return the signals of others that the agent has not acknowledged, oldest first.

        Args:
            agent_id: The name of the agent that calls.

        Example:
            memory.hub.broadcast("anna", "signal", {"signal_id": "s-1"})
            memory.hub.inbox("ben")
        """
        for use_cursor in (True, True, False):  # a count that differs once may be a write that is not finished
            with self._journal.snapshot() as reader:
                look = self._look(reader, agent_id, self._read_cursor(reader, agent_id) if use_cursor else None)
            if look.fits:
                break
        if look.settled >= _SETTLED_PER_CURSOR and look.last is not None:
            body = {"agent_id": agent_id, "last": look.last.id, "upto": look.last.seq, "seen": look.seen}
            body["open"] = [record.id for record in look.pending]
            with suppress(StoreReadOnly):  # the cursor saves time; a look does not need it
                self._journal.append(Draft(CURSOR_KIND, body=body, id=_hash_names(agent_id), origin="network"))
        return [{**record.body["news"], "agent_id": sender_of(record)} for record in look.pending]

    @staticmethod
    def _read_cursor(reader: Reader, agent_id: str) -> Mapping[str, Any] | None:
        """Return the cursor of a receiver, or None if there is none or it does not fit this log."""
        record = reader.get(Key(SHARED, CURSOR_KIND, _hash_names(agent_id)))
        last = None if record is None else _find_news(reader, record.body["last"])
        return record.body if record is not None and last is not None and last.seq == record.body["upto"] else None

    @staticmethod
    def _look(reader: Reader, agent_id: str, cursor: Mapping[str, Any] | None) -> _InboxLook:
        """Collect the signals that a receiver has not taken: the open ones of its cursor, and those that came since.

        The cursor does not fit when there are more signals than it has seen and than came since: some were hidden when it
        was written, for example by a quarantine that has been released.
        """
        upto = 0 if cursor is None else int(cursor["upto"])
        last = None if cursor is None else _find_news(reader, cursor["last"])
        taken: set[str] | None = None

        def is_settled(record: Record) -> bool:
            sender = sender_of(record)
            id = _hash_names(sender, record.body["news"].get("signal_id", ""), agent_id)
            key = Key(SHARED, ACKNOWLEDGEMENT_KIND, id)
            return sender == agent_id or (reader.get(key) is not None if taken is None else key.id in taken)

        open_signals = [_find_news(reader, id) for id in cursor["open"]] if cursor is not None else []
        pending = [record for record in open_signals if record is not None and not is_settled(record)]
        settled, came, position = len(open_signals) - len(pending), 0, upto
        is_complete, fits = False, True
        while not is_complete and len(pending) < MAX_INBOX:
            query = Query(
                kinds=_SIGNAL_KINDS, scopes=(SHARED,), labels=("sort=signal",), after=position, limit=_PAGE_SIZE
            )
            page = reader.read(query)
            if taken is None and len(page) > _SMALL_PAGE_SIZE:
                taken = _taken_since(reader, agent_id, upto)
            for record in page[: MAX_INBOX - len(pending)]:
                if is_settled(record):
                    settled += 1
                else:
                    pending.append(record)
                came += record.kind == SIGNAL_KIND
                last, position = record, record.seq
            is_complete = len(page) < _PAGE_SIZE and (not page or page[-1].seq == position)
        seen = came + (0 if cursor is None else int(cursor["seen"]))
        if is_complete:
            tallies = (row.live for row in reader.tally() if (row.scope, row.kind) == (SHARED, SIGNAL_KIND))
            total = next(tallies, 0)
            fits, seen = cursor is None or total <= seen, total
        return _InboxLook(pending, settled, seen, last, fits)

    def peers(self, agent_id: str) -> list[Peer]:
        """Return the other agents and when each was seen last.

        Args:
            agent_id: The name of the agent that calls.

        Example:
            memory.hub.peers("anna")
        """
        records = self._journal.read(Query(kinds=(AGENT_KIND,), scopes=(SHARED,)))
        others = {name: record.moment for record in records if (name := sender_of(record)) != agent_id}
        trust = self._trust(others)
        return [Peer(name, moment, trust.get(name)) for name, moment in others.items()]

    def _heartbeat_drafts(self, reader: Reader, agent_id: str) -> list[Draft]:
        """Return the record that an agent sent something, at most one per minute."""
        id, now = _hash_names(agent_id), self._clock.now()
        known = reader.get(Key(SHARED, AGENT_KIND, id))
        if known is not None and 0 <= (now - known.moment).total_seconds() < 60:
            return []
        return [
            Draft(AGENT_KIND, body={"agent_id": agent_id, "at": to_iso(now)}, id=id, happened_at=now, origin="network")
        ]

    def _require_own_name(self, agent_id: str) -> None:
        if self._journal.author and (refused := self._journal.check_author(agent_id)) is not None:
            raise NotAllowed(refused.reason)


def acknowledgement_draft(agent_id: str, signal_id: str, sender: str, scope: str) -> Draft:
    """Return the record that an agent has taken a signal of another."""
    labels = (f"signal={_hash_names(sender, 'signal', signal_id)}", f"by={_hash_names(agent_id)}")
    id, body = _hash_names(sender, signal_id, agent_id), {"by": agent_id, "signal_id": signal_id, "from": sender}
    return Draft(ACKNOWLEDGEMENT_KIND, body=body, id=id, scope=scope, labels=labels, origin="network")


def sender_of(record: Record) -> str:
    """Return the agent that wrote a record of the hub. What the body says counts only if the owner wrote it, who may name any."""
    return record.author or str(record.body["agent_id"])


def _find_news(reader: Reader, id: str) -> Record | None:
    """Return the record of a signal by its id; stores of older versions have it under the kind of news."""
    return reader.get(Key(SHARED, SIGNAL_KIND, id)) or reader.get(Key(SHARED, NEWS_KIND, id))


def _taken_since(reader: Reader, agent_id: str, position: int) -> set[str]:
    """Return the ids of the acknowledgements that an agent has made since a position of the log."""
    taken: set[str] = set()
    before = None
    while True:  # from the newest on: a read after a position leaves out what follows a write that is not finished
        query = Query(
            kinds=(ACKNOWLEDGEMENT_KIND,), scopes=(SHARED,), labels=(f"by={_hash_names(agent_id)}",), before=before,
            newest_first=True, limit=_PAGE_SIZE,
        )  # fmt: skip
        page = reader.read(query)
        taken |= {record.id for record in page}
        if len(page) < _PAGE_SIZE or page[-1].seq <= position:
            return taken
        before = page[-1].seq


def _hash_names(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _last_updated(news: News) -> datetime:
    value = news.get("last_updated")
    try:
        return from_iso(value if isinstance(value, str) else "1970-01-01")
    except InvalidInput:
        return from_iso("1970-01-01")
