"""The vectors of a store: made from the log in order, kept under the name of the embedder that made them.

Which embedder a store uses is written down in the store itself, by whoever made the first vectors, so that all its
processes agree. Vectors are derived: what is missing is made before an answer is given, as far as time allows, and what
is still missing then is said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import Journal
from lukasa.models.embedder import Embedder
from lukasa.models.embedders import open_embedder
from lukasa.recall.passages import MAX_PART_LENGTH, MAX_WHOLE_LENGTH, lead_passage
from lukasa.record import Draft, Key
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Progress

if TYPE_CHECKING:
    from lukasa.models.embedder import Vector, Vectors

EMBEDDER_SETTING_KEY = Key(SYSTEM, "setting", "embedder")
BATCH_SIZE = 256
PREPARATION = f"head{MAX_WHOLE_LENGTH}:{MAX_PART_LENGTH}"
"""What of a text is embedded. It is part of the name that vectors are kept by, so that a change of it is noticed."""
_FIRST_BATCH_SIZE = 16
_CACHED_QUESTIONS = 1_000
_MEAN_SAMPLE_SIZE = 128  # more texts hardly move the middle
_MEAN_PRIOR = 16  # and as few as these hardly tell where it is


@dataclass(frozen=True, slots=True)
class PassageEmbedder:
    """An embedder together with what it is given of each text; its name stands for both."""

    embedder: Embedder
    name: str

    @classmethod
    def from_embedder(cls, embedder: Embedder) -> PassageEmbedder:
        return cls(embedder, f"{embedder.name}+{PREPARATION}")

    @property
    def length(self) -> int:
        return self.embedder.length

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.embedder.embed([lead_passage(text) for text in texts])


def next_batch_size(done: int, elapsed: float, remaining: float | None) -> int:
    """How many texts to embed next, after so many took so long, so as to end in the time that is left."""
    if remaining is None:
        return BATCH_SIZE
    if not done:
        return _FIRST_BATCH_SIZE
    return max(1, int(min(BATCH_SIZE, 2 * done, remaining * done / elapsed if elapsed > 0 else BATCH_SIZE)))


def subtract_mean(vector: Vector, others: Vectors) -> Vector:
    """A unit vector as it is seen from the middle of others; few others move it little."""
    import numpy as np

    seen: Vector = vector - others.sum(axis=0) / (len(others) + _MEAN_PRIOR)
    length = float(np.linalg.norm(seen))
    return seen / length if length else vector


class VectorIndex:
    """The vectors of one store, on behalf of everybody who recalls from it."""

    def __init__(self, owner_journal: Journal, embedder: str | Embedder | None = None) -> None:
        self._owner_journal = owner_journal
        self._requested = embedder
        self._lock = threading.Lock()
        self._embedder: PassageEmbedder | None = None
        self._sample_vectors: Vectors | None = None
        self._cached_question_vector = lru_cache(_CACHED_QUESTIONS)(self._embed_question)

    @property
    def embedder(self) -> PassageEmbedder:
        """The embedder of this store. The first to ask decides; after that, only ``reembed`` changes it."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._resolve_embedder()
            return self._embedder

    @property
    def outdated_note(self) -> str:
        """Says so when the store's vectors were made in another way than this version makes them; else empty.

        They still serve; none are added to them.
        """
        kept, usual = self.embedder.name, PassageEmbedder.from_embedder(self.embedder.embedder).name
        if kept == usual:
            return ""
        return f"The vectors of this store are those of {kept}, today they would be those of {usual}: run `lukasa reembed`."

    def _resolve_embedder(self) -> PassageEmbedder:
        setting = self._owner_journal.get(EMBEDDER_SETTING_KEY)
        if setting is None:
            chosen = PassageEmbedder.from_embedder(self._open_requested(self._requested))
            self._save_setting(self._reopening_name(self._requested, chosen.embedder), chosen)
            return chosen
        kept, model = str(setting.body["embedder"]), str(setting.body["model"])
        if self._requested is not None:
            asked = self._open_requested(self._requested)
            if asked.name != model.partition("+")[0]:
                raise InvalidInput(
                    f"This store keeps vectors of {model!r}, not of {asked.name!r}.",
                    hint="Run `lukasa reembed` to change them, or leave the embedder out.",
                )
            return PassageEmbedder(asked, model)
        try:
            return PassageEmbedder(open_embedder(kept), model)
        except MissingExtra as error:
            raise MissingExtra(
                f"This store's vectors were made by the embedder {kept!r}, which is not installed here.",
                hint=error.hint,
            ) from error

    @staticmethod
    def _open_requested(requested: str | Embedder | None) -> Embedder:
        return open_embedder(requested) if requested is None or isinstance(requested, str) else requested

    @staticmethod
    def _reopening_name(requested: str | Embedder | None, chosen: Embedder) -> str:
        """The name by which the embedder can be opened again."""
        if isinstance(requested, str):
            return requested
        by_model = {"minilm-l6-v2-int8": "minilm", "wordllama-l2-256": "static", "hash-64": "hash"}
        return by_model.get(chosen.name, chosen.name)

    def _save_setting(self, name: str, chosen: PassageEmbedder) -> None:
        body = {"embedder": name, "model": chosen.name, "length": chosen.length}
        self._owner_journal.append(
            Draft(
                EMBEDDER_SETTING_KEY.kind,
                body=body,
                id=EMBEDDER_SETTING_KEY.id,
                scope=EMBEDDER_SETTING_KEY.scope,
                origin="recall",
            )
        )

    def question_vector(self, text: str) -> Any:
        """The vector of a question; the same questions come again."""
        return self._cached_question_vector(text)

    def _embed_question(self, text: str) -> Any:
        vector = self.embedder.embedder.embed([text])[0]
        return (subtract_mean(vector, self._load_sample_vectors()) if self._needs_mean_subtraction else vector).tolist()

    @property
    def _needs_mean_subtraction(self) -> bool:
        return bool(getattr(self.embedder.embedder, "needs_mean_subtraction", False))

    def _load_sample_vectors(self) -> Vectors:
        """The vectors of the store's first texts: always the same ones, whoever asks."""
        with self._lock:
            known = self._sample_vectors
        if known is None:
            texts = (record.text for record in self._owner_journal.read() if record.text and record.scope != SYSTEM)
            known = self.embedder.embed(list(islice(texts, _MEAN_SAMPLE_SIZE)))
            with self._lock:
                self._sample_vectors = known
        return known

    def _clear_question_cache(self) -> None:
        """Once there are more texts, the middle of a small store is elsewhere."""
        with self._lock:
            if self._sample_vectors is not None and len(self._sample_vectors) >= _MEAN_SAMPLE_SIZE:
                return
            self._sample_vectors = None
        self._cached_question_vector.cache_clear()

    def catch_up(self, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Makes the vectors that are missing, for about so many seconds; returns how many texts are still without."""
        embedder = self.embedder
        return self._count_missing(embedder) if self.outdated_note else self._embed_missing(embedder, seconds, progress)

    def _embed_missing(self, embedder: PassageEmbedder, seconds: float | None, progress: Progress | None) -> int:
        began = time.monotonic()
        done, took = 0, 0.0
        while True:
            left = None if seconds is None else seconds - took
            with self._owner_journal.snapshot() as look:
                records = look.without_vectors(embedder.name, next_batch_size(done, took, left))
            if not records:
                return 0
            if left is not None and left <= 0:
                return self._count_missing(embedder)
            vectors = embedder.embed([record.text for record in records])
            self._owner_journal.put_vectors(
                embedder.name,
                [(record.seq, 0, vector) for record, vector in zip(records, vectors.tolist(), strict=True)],
            )
            done += len(records)
            took = time.monotonic() - began
            self._clear_question_cache()
            if progress is not None:
                progress(done, max(done, self._count_versions()))

    def _count_missing(self, embedder: PassageEmbedder) -> int:
        with self._owner_journal.snapshot() as look:
            return look.count_without_vectors(embedder.name)

    def _count_versions(self) -> int:
        return sum(row.versions for row in self._owner_journal.tally() if row.scope != SYSTEM)

    def reembed(self, name: str, progress: Progress | None = None) -> PassageEmbedder:
        """Makes the vectors of another embedder; the old ones serve until all are there. Run again, it goes on."""
        chosen = PassageEmbedder.from_embedder(open_embedder(name))
        self._embed_missing(chosen, None, progress)
        self._save_setting(name, chosen)
        with self._lock:
            self._embedder, self._requested, self._sample_vectors = chosen, None, None
            self._cached_question_vector.cache_clear()
        return chosen
