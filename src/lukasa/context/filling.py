"""How full sessions are: known after every append at the price of one short look, however long they are."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from lukasa.context.keeping import TURN, Shelf, label, turn_of
from lukasa.context.state import Origin, Settings
from lukasa.engine import Query
from lukasa.journal import Journal
from lukasa.record import Key

_WATCHED = 1_000


@dataclass(slots=True)
class _Gauge:
    """How many turns and tokens the recent view has, counted up to a position of the log."""

    position: int
    entries: int
    tokens: int


class Gauges:
    """What this process knows of how full sessions are.

    It may be too much when others have compacted since, never too little by more than is on its way; a compaction looks
    for itself before it does anything.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: OrderedDict[tuple[str, str], _Gauge] = OrderedDict()
        self._guard = Lock()

    def is_full(self, session_id: str, scope: str, written: int, settings: Settings) -> bool:
        """Whether a limit may be passed, now that so many turns were written."""
        with self._guard:
            gauge = self._known.get((scope, session_id))
        if gauge is None:
            gauge = self._measured(session_id, scope)
        else:
            self._advance(gauge, session_id, scope, written)
        with self._guard:
            self._known[scope, session_id] = gauge
            self._known.move_to_end((scope, session_id))
            while len(self._known) > _WATCHED:
                self._known.popitem(last=False)
        return gauge.entries > settings.entries or (gauge.tokens > settings.tokens and gauge.entries > 1)

    def forget(self, session_id: str, scope: str) -> None:
        """Looks afresh next time."""
        with self._guard:
            self._known.pop((scope, session_id), None)

    def _measured(self, session_id: str, scope: str) -> _Gauge:
        with self._journal.looking() as reader:
            origin = Shelf(reader, session_id, scope).origin() or Origin()
            newest = reader.get(Key(scope, TURN, origin.turns[-1].id)) if origin.turns else None
        position = newest.seq if newest is not None else origin.edge
        return _Gauge(position, len(origin.turns), sum(turn.tokens for turn in origin.turns))

    def _advance(self, gauge: _Gauge, session_id: str, scope: str, written: int) -> None:
        """Counts what came since the last look, by whomever."""
        limit = written + 1
        while True:
            query = Query(
                kinds=(TURN,), scopes=(scope,), labels=(label(session_id),), newest_first=True, limit=limit
            )  # fmt: skip
            page = list(self._journal.read(query))
            fresh = [record for record in page if record.seq > gauge.position]
            if len(fresh) < len(page) or len(page) < limit:
                break
            limit *= 4
        if fresh:
            gauge.position = fresh[0].seq
            gauge.entries += len(fresh)
            gauge.tokens += sum(turn_of(record).tokens for record in fresh)
