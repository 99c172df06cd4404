"""Counts of what the vault refused, by code."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from lukasa.core.record import Draft, Key
from lukasa.errors import StoreError
from lukasa.journal import Journal
from lukasa.storage.engine import Query, Reader

REFUSALS_KIND = "verdicts"
FLUSH_EVERY = 100
_COUNTER_ID = "vault"


class RefusalCounter:
    """Counts of refusals by code, in one record per scope; they hold nothing of the refused texts.

    Refusals are counted in memory and written every ``FLUSH_EVERY`` refusals and on close, not one by one. After a crash
    up to that many refusals of each process are missing from the counts; nothing else depends on them.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, code: str) -> None:
        """Count a refusal."""
        with self._lock:
            self._pending[code] += 1
            due = self._pending.total() >= FLUSH_EVERY
        if due:
            self.flush()

    def read_totals(self) -> dict[str, int]:
        """Return all refusals the caller may know of, by code."""
        with self._lock:
            total = Counter(self._pending)
        for record in self._journal.read(Query(kinds=(REFUSALS_KIND,))):
            total.update({str(code): int(number) for code, number in dict(record.body.get("refused", {})).items()})
        return dict(total.most_common())

    def flush(self) -> None:
        """Write the pending counts. When the store cannot be written, they stay pending and no error is raised."""
        with self._lock:
            counted, self._pending = self._pending, Counter()
        scope = self._journal.home_scope  # so that no other agent learns of the counts
        if not counted or scope is None:
            return

        def add_counts(reader: Reader) -> Sequence[Draft]:
            known = reader.get(Key(scope, REFUSALS_KIND, _COUNTER_ID))
            total = Counter(dict(known.body.get("refused", {})) if known is not None else {})
            total.update(counted)
            return [Draft(REFUSALS_KIND, body={"refused": dict(total)}, id=_COUNTER_ID, scope=scope, origin="vault")]

        try:
            self._journal.append_if(add_counts)
        except StoreError:
            with self._lock:
                self._pending.update(counted)
