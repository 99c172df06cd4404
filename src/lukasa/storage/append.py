"""What appending means, whatever engine keeps the log: which batches are simple, how a repeated one is known again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from lukasa.outcome import Refused
from lukasa.record import Record, ValidatedDraft, encode_draft
from lukasa.scope import Reach
from lukasa.storage.engine import NEAR_DUPLICATE_KINDS, QUARANTINE

RowT = TypeVar("RowT")

_SPECIAL_KINDS = NEAR_DUPLICATE_KINDS | {QUARANTINE}

KEY_REUSED = Refused("key_reused", "This idempotency key was used for something else; make a new one.")


class LazyRecords(Sequence[Record], Generic[RowT]):
    """The records just written, unfolded only when somebody looks."""

    def __init__(self, rows: Sequence[RowT], parse_row: Callable[[RowT], Record]) -> None:
        self._rows = rows
        self._parse_row = parse_row

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._parse_row(row) for row in self._rows[index]]
        return self._parse_row(self._rows[index])

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


def refuse_closed_scope(scope: str) -> Refused:
    return Refused("scope_closed", f"This caller may not write to the scope {scope!r}.")


def find_single_insert(reach: Reach, batch: Sequence[ValidatedDraft]) -> ValidatedDraft | None:
    """The one new and plain record that a batch consists of, if it does: by far the most common write."""
    if len(batch) != 1:
        return None
    sealed = batch[0]
    draft = sealed.draft
    plain = not (draft.labels or draft.links or draft.deleted or draft.expected) and sealed.kind not in _SPECIAL_KINDS
    return sealed if sealed.has_new_id and plain and reach.writes(sealed.scope) else None


def hash_idempotency_key(reach: Reach, key: str) -> str:
    """Idempotency keys of callers with different walls never meet."""
    walls = [None if scopes is None else sorted(scopes) for scopes in (reach.readable, reach.writable)]
    return hashlib.sha256(json.dumps([walls, key]).encode()).hexdigest()


def fingerprint_batch(batch: Sequence[ValidatedDraft]) -> bytes:
    """What was asked to be written, apart from ids that were made up on the way."""
    asked = (
        encode_draft(sealed.draft, "", sealed.author).content if sealed.has_new_id else sealed.content
        for sealed in batch
    )
    return hashlib.sha256(b"\n".join(asked)).digest()
