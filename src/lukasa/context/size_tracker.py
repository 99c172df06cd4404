"""How full sessions are: known after every append at the price of one short look, however long they are."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from lukasa.context.records import TURN, ConversationReader, parse_turn, turn_label
from lukasa.context.state import ConversationSettings, LoadedConversation
from lukasa.journal import Journal
from lukasa.record import Key
from lukasa.storage.engine import Query

_MAX_TRACKED = 1_000


@dataclass(slots=True)
class _ConversationSize:
    """How many turns and tokens the recent view has, counted up to a position of the log."""

    position: int
    entries: int
    tokens: int


class ConversationSizeTracker:
    """What this process knows of how full sessions are.

    It may be too much when others have compacted since, never too little by more than is on its way; a compaction looks
    for itself before it does anything.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._sizes: OrderedDict[tuple[str, str], _ConversationSize] = OrderedDict()
        self._lock = Lock()

    def is_full(self, session_id: str, scope: str, written_count: int, settings: ConversationSettings) -> bool:
        """Whether a limit may be passed, now that so many turns were written."""
        with self._lock:
            gauge = self._sizes.get((scope, session_id))
        if gauge is None:
            gauge = self._measure(session_id, scope)
        else:
            self._count_new_turns(gauge, session_id, scope, written_count)
        with self._lock:
            self._sizes[scope, session_id] = gauge
            self._sizes.move_to_end((scope, session_id))
            while len(self._sizes) > _MAX_TRACKED:
                self._sizes.popitem(last=False)
        return gauge.entries > settings.entries or (gauge.tokens > settings.tokens and gauge.entries > 1)

    def invalidate(self, session_id: str, scope: str) -> None:
        """Looks afresh next time."""
        with self._lock:
            self._sizes.pop((scope, session_id), None)

    def _measure(self, session_id: str, scope: str) -> _ConversationSize:
        with self._journal.snapshot() as reader:
            origin = ConversationReader(reader, session_id, scope).load() or LoadedConversation()
            newest = reader.get(Key(scope, TURN, origin.turns[-1].id)) if origin.turns else None
        position = newest.seq if newest is not None else origin.folded_position
        return _ConversationSize(position, len(origin.turns), sum(turn.tokens for turn in origin.turns))

    def _count_new_turns(self, size: _ConversationSize, session_id: str, scope: str, written_count: int) -> None:
        """Counts what came since the last look, by whomever."""
        limit = written_count + 1
        while True:
            query = Query(
                kinds=(TURN,), scopes=(scope,), labels=(turn_label(session_id),), newest_first=True, limit=limit
            )  # fmt: skip
            page = list(self._journal.read(query))
            fresh = [record for record in page if record.seq > size.position]
            if len(fresh) < len(page) or len(page) < limit:
                break
            limit *= 4
        if fresh:
            size.position = fresh[0].seq
            size.entries += len(fresh)
            size.tokens += sum(parse_turn(record).tokens for record in fresh)
