"""The base of all services: each works on the journal of one caller, and names that caller."""

from __future__ import annotations

from lukasa.journal.journal import Journal


class CallerService:
    """A service of a memory for one caller."""

    _journal: Journal

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._journal}>"
