"""What appending means, whatever engine keeps the log: which batches are simple, how a repeated one is known again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from lukasa.engine import MARKED_KINDS, QUARANTINE
from lukasa.outcome import Refused
from lukasa.record import Record, Sealed, seal
from lukasa.scope import Reach

Row = TypeVar("Row")

_NOT_PLAIN = MARKED_KINDS | {QUARANTINE}

KEY_REUSED = Refused("key_reused", "This idempotency key was used for something else; make a new one.")


class Written(Sequence[Record], Generic[Row]):
    """The records just written, unfolded only when somebody looks."""

    def __init__(self, rows: Sequence[Row], unfold: Callable[[Row], Record]) -> None:
        self._rows = rows
        self._unfold = unfold

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self._unfold(row) for row in self._rows[at]]
        return self._unfold(self._rows[at])

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


def scope_closed(scope: str) -> Refused:
    return Refused("scope_closed", f"This caller may not write to the scope {scope!r}.")


def sole(reach: Reach, batch: Sequence[Sealed]) -> Sealed | None:
    """The one new and plain record that a batch consists of, if it does: by far the most common write."""
    if len(batch) != 1:
        return None
    sealed = batch[0]
    draft = sealed.draft
    plain = not (draft.labels or draft.links or draft.deleted or draft.expected) and sealed.kind not in _NOT_PLAIN
    return sealed if sealed.fresh and plain and reach.writes(sealed.scope) else None


def answer_key(reach: Reach, key: str) -> str:
    """Idempotency keys of callers with different walls never meet."""
    walls = [None if scopes is None else sorted(scopes) for scopes in (reach.readable, reach.writable)]
    return hashlib.sha256(json.dumps([walls, key]).encode()).hexdigest()


def fingerprint(batch: Sequence[Sealed]) -> bytes:
    """What was asked to be written, apart from ids that were made up on the way."""
    asked = (seal(sealed.draft, "", sealed.author).content if sealed.fresh else sealed.content for sealed in batch)
    return hashlib.sha256(b"\n".join(asked)).digest()
