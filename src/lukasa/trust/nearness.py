"""How near dissents are to one another in meaning: their vectors, kept with the name of the model that made them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lukasa.embedder import Embedder
from lukasa.engine import Reader
from lukasa.record import Record
from lukasa.trust.books import DISSENT, about

if TYPE_CHECKING:
    from lukasa.embedder import Vectors

MOST = 2_000
"""Novelty is looked for among so many of an agent's latest dissents."""


def spelled(vector: Any) -> str:
    """A vector as text: half-precision numbers, base64."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode("ascii")


def vector_of(text: str) -> Any:
    """The vector that a text spells."""
    import numpy as np

    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float32)


@dataclass(slots=True)
class _Voice:
    """One agent's latest dissents: their vectors in rows, by id. Rows at the end are still free."""

    seq: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    vectors: Any = None
    records: dict[str, Record] = field(default_factory=dict)


class Nearness:
    """Vectors of dissents, remembered from one question to the next and brought up to date from the log."""

    def __init__(self, embedder: Callable[[], Embedder]) -> None:
        self._embedder = embedder
        self._voices: dict[str, _Voice] = {}
        self._model = ""
        self._guard = threading.RLock()

    @property
    def model(self) -> str:
        return self._embedder().name

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._embedder().embed(texts)

    def vectors(self, texts: Sequence[str]) -> list[dict[str, str]]:
        """The vectors of texts as they are kept: with the name of the model that made them."""
        made = self.embed(texts) if texts else ()
        return [{"model": self.model, "numbers": spelled(vector)} for vector in made]

    def knows(self, agent: str) -> bool:
        """Whether the agent's past is remembered already, but for what was written since."""
        return agent in self._voices

    def nearest(self, reader: Reader, agent: str, vector: Any) -> float | None:
        """The highest cosine between a vector and the agent's past dissents; none without any."""
        with self._guard:
            voice = self._current(reader, agent)
            if not voice.rows:
                return None
            return float((voice.vectors[: len(voice.rows)] @ vector).max())

    def past(self, reader: Reader, agent: str) -> tuple[list[Record], Any]:
        """An agent's latest dissents, oldest first, and their vectors."""
        with self._guard:
            voice = self._current(reader, agent)
            ordered = sorted(voice.records.values(), key=lambda record: record.created_at)
            rows = [voice.rows[record.id] for record in ordered]
            return ordered, None if voice.vectors is None else voice.vectors[rows]

    def _current(self, reader: Reader, agent: str) -> _Voice:
        """What is remembered of an agent, with what was written since."""
        if self._model != self.model:
            self._voices.clear()
            self._model = self.model
        voice = self._voices.setdefault(agent, _Voice())
        if not voice.seq:
            new = reader.read(about(agent, DISSENT, newest_first=True, limit=MOST))[::-1]
        else:
            new = reader.read(about(agent, DISSENT, after=voice.seq, limit=MOST))
        if new:
            self._add(voice, new)
        return voice

    def _add(self, voice: _Voice, records: Sequence[Record]) -> None:
        import numpy as np

        for record, vector in zip(records, self._vectors(records), strict=True):
            row = voice.rows.get(record.id, len(voice.rows))
            if row >= MOST:  # the oldest makes room
                oldest = next(iter(voice.rows))
                row = voice.rows.pop(oldest)
                del voice.records[oldest]
            if voice.vectors is None:
                voice.vectors = np.zeros((64, len(vector)), dtype=np.float32)
            elif row >= len(voice.vectors):
                voice.vectors = np.concatenate([voice.vectors, np.zeros_like(voice.vectors)])
            voice.vectors[row] = vector
            voice.rows[record.id] = row
            voice.records[record.id] = record
            voice.seq = max(voice.seq, record.seq)

    def _vectors(self, records: Sequence[Record]) -> list[Any]:
        """The vectors as they are kept; those of another model are made anew."""
        kept = [record.body.get("vector") or {} for record in records]
        missing = [at for at, vector in enumerate(kept) if vector.get("model") != self._model]
        made = self.embed([records[at].body["event"].get("dissent_text", "") for at in missing]) if missing else ()
        anew = dict(zip(missing, made, strict=True))
        return [anew[at] if at in anew else vector_of(vector["numbers"]) for at, vector in enumerate(kept)]
