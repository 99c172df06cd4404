"""How near dissents are to one another in meaning: their vectors, kept with the name of the model that made them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lukasa.models.embedder import Embedder
from lukasa.record import Record
from lukasa.storage.engine import Reader
from lukasa.trust.records import DISSENT, agent_events_query

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

MAX_DISSENTS = 2_000
"""Novelty is looked for among so many of an agent's latest dissents."""


def encode_vector(vector: Any) -> str:
    """A vector as text: half-precision numbers, base64."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode("ascii")


def decode_vector(text: str) -> Any:
    """The vector that a text spells."""
    import numpy as np

    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float32)


@dataclass(slots=True)
class _AgentVectors:
    """One agent's latest dissents: their vectors in rows, by id. Rows at the end are still free."""

    last_seq: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    vectors: Any = None
    records: dict[str, Record] = field(default_factory=dict)


class DissentVectors:
    """Vectors of dissents, remembered from one question to the next and brought up to date from the log."""

    def __init__(self, embedder: Callable[[], Embedder]) -> None:
        self._embedder = embedder
        self._by_agent: dict[str, _AgentVectors] = {}
        self._model = ""
        self._lock = threading.RLock()

    @property
    def model(self) -> str:
        return self._embedder().name

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._embedder().embed(texts)

    def encode_texts(self, texts: Sequence[str]) -> list[dict[str, str]]:
        """The vectors of texts as they are kept: with the name of the model that made them."""
        made = self.embed(texts) if texts else ()
        return [{"model": self.model, "numbers": encode_vector(vector)} for vector in made]

    def is_loaded(self, agent: str) -> bool:
        """Whether the agent's past is remembered already, but for what was written since."""
        return agent in self._by_agent

    def max_cosine(self, reader: Reader, agent: str, vector: Any) -> float | None:
        """The highest cosine between a vector and the agent's past dissents; none without any."""
        with self._lock:
            voice = self._load_agent(reader, agent)
            if not voice.rows:
                return None
            return float((voice.vectors[: len(voice.rows)] @ vector).max())

    def latest_dissents(self, reader: Reader, agent: str) -> tuple[list[Record], Any]:
        """An agent's latest dissents, oldest first, and their vectors."""
        with self._lock:
            voice = self._load_agent(reader, agent)
            ordered = sorted(voice.records.values(), key=lambda record: record.created_at)
            rows = [voice.rows[record.id] for record in ordered]
            return ordered, None if voice.vectors is None else voice.vectors[rows]

    def _load_agent(self, reader: Reader, agent: str) -> _AgentVectors:
        """What is remembered of an agent, with what was written since."""
        if self._model != self.model:
            self._by_agent.clear()
            self._model = self.model
        voice = self._by_agent.setdefault(agent, _AgentVectors())
        if not voice.last_seq:
            new = reader.read(agent_events_query(agent, DISSENT, newest_first=True, limit=MAX_DISSENTS))[::-1]
        else:
            new = reader.read(agent_events_query(agent, DISSENT, after=voice.last_seq, limit=MAX_DISSENTS))
        if new:
            self._add_records(voice, new)
        return voice

    def _add_records(self, agent_vectors: _AgentVectors, records: Sequence[Record]) -> None:
        import numpy as np

        for record, vector in zip(records, self._record_vectors(records), strict=True):
            row = agent_vectors.rows.get(record.id, len(agent_vectors.rows))
            if row >= MAX_DISSENTS:  # the oldest makes room
                oldest = next(iter(agent_vectors.rows))
                row = agent_vectors.rows.pop(oldest)
                del agent_vectors.records[oldest]
            if agent_vectors.vectors is None:
                agent_vectors.vectors = np.zeros((64, len(vector)), dtype=np.float32)
            elif row >= len(agent_vectors.vectors):
                agent_vectors.vectors = np.concatenate([agent_vectors.vectors, np.zeros_like(agent_vectors.vectors)])
            agent_vectors.vectors[row] = vector
            agent_vectors.rows[record.id] = row
            agent_vectors.records[record.id] = record
            agent_vectors.last_seq = max(agent_vectors.last_seq, record.seq)

    def _record_vectors(self, records: Sequence[Record]) -> list[Any]:
        """The vectors as they are kept; those of another model are made anew."""
        kept = [record.body.get("vector") or {} for record in records]
        missing = [at for at, vector in enumerate(kept) if vector.get("model") != self._model]
        made = self.embed([records[at].body["event"].get("dissent_text", "") for at in missing]) if missing else ()
        anew = dict(zip(missing, made, strict=True))
        return [anew[at] if at in anew else decode_vector(vector["numbers"]) for at, vector in enumerate(kept)]
