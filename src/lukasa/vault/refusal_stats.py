"""Counting refusals, without a durable write for each: they are gathered in memory and kept now and then.

The counts are one record per scope, of kind ``verdicts``. They hold codes and numbers, nothing of what was refused.
After a crash up to ``EVERY`` refusals of each process are missing from the counts; nothing else depends on them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from lukasa.errors import StoreError
from lukasa.journal import Journal
from lukasa.outcome import Outcome, Refused
from lukasa.record import Draft, Key
from lukasa.scope import SHARED, SYSTEM
from lukasa.storage.engine import Query, Reader

REFUSALS_KIND = "verdicts"
FLUSH_EVERY = 100
_COUNTER_ID = "vault"


class RefusalCounter:
    """How often each verdict was given, here and in the store."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Refused):
            return
        with self._lock:
            self._pending[outcome.code] += 1
            due = self._pending.total() >= FLUSH_EVERY
        if due:
            self.flush()

    def read_totals(self) -> dict[str, int]:
        """All refusals the caller may know of, by code."""
        with self._lock:
            total = Counter(self._pending)
        for record in self._journal.read(Query(kinds=(REFUSALS_KIND,))):
            total.update({str(code): int(number) for code, number in dict(record.body.get("refused", {})).items()})
        return dict(total.most_common())

    def flush(self) -> None:
        """Writes down what was counted. A store that cannot be written now costs the counts, not the caller."""
        with self._lock:
            counted, self._pending = self._pending, Counter()
        scope = self._home_scope()
        if not counted or scope is None:
            return

        def add(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, REFUSALS_KIND, _COUNTER_ID))
            total = Counter(dict(known.body.get("refused", {})) if known is not None else {})
            total.update(counted)
            return [Draft(REFUSALS_KIND, body={"refused": dict(total)}, id=_COUNTER_ID, scope=scope, origin="vault")]

        try:
            self._journal.append_if(add)
        except StoreError:
            with self._lock:
                self._pending.update(counted)

    def _home_scope(self) -> str | None:
        """Where the caller's counts stand: in its own scope, so that nobody else learns of them."""
        reach, author = self._journal.reach, self._journal.author
        wanted = (author, SHARED, *sorted(reach.writable or ()))
        return next(
            (name for name in wanted if name and name != SYSTEM and reach.writes(name) and reach.reads(name)), None
        )
