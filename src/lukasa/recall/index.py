"""The vectors of a store: made from the log in order, kept under the name of the embedder that made them.

Which embedder a store uses is written down in the store itself, by whoever made the first vectors, so that all its
processes agree. Vectors are derived: what is missing is made before an answer is given, as far as time allows, and what
is still missing then is said.
"""

from __future__ import annotations

import threading
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lukasa.embedder import Embedder
from lukasa.embedders import open_embedder
from lukasa.engine import Progress
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import Journal
from lukasa.recall.passages import head
from lukasa.record import Draft, Key
from lukasa.scope import SYSTEM

if TYPE_CHECKING:
    from lukasa.embedder import Vectors

SETTING = Key(SYSTEM, "setting", "embedder")
BATCH = 256
_REMEMBERED = 1_000


class Index:
    """The vectors of one store, on behalf of everybody who recalls from it."""

    def __init__(self, owner: Journal, embedder: str | Embedder | None = None) -> None:
        self._owner = owner
        self._asked = embedder
        self._guard = threading.Lock()
        self._embedder: Embedder | None = None
        self._vector = lru_cache(_REMEMBERED)(self._embed_one)

    @property
    def embedder(self) -> Embedder:
        """The embedder of this store. The first to ask decides; after that, only ``reembed`` changes it."""
        with self._guard:
            if self._embedder is None:
                self._embedder = self._settled()
            return self._embedder

    def _settled(self) -> Embedder:
        setting = self._owner.get(SETTING)
        if setting is None:
            chosen = self._opened(self._asked)
            self._write_down(self._spelled(self._asked, chosen), chosen)
            return chosen
        kept: str = setting.body["embedder"]
        if self._asked is not None:
            asked = self._opened(self._asked)
            if asked.name != setting.body["model"]:
                raise InvalidInput(
                    f"This store keeps vectors of {setting.body['model']!r}, not of {asked.name!r}.",
                    hint="Run `lukasa reembed` to change them, or leave the embedder out.",
                )
            return asked
        try:
            return open_embedder(kept)
        except MissingExtra as error:
            raise MissingExtra(
                f"This store's vectors were made by the embedder {kept!r}, which is not installed here.",
                hint=error.hint,
            ) from error

    @staticmethod
    def _opened(asked: str | Embedder | None) -> Embedder:
        return open_embedder(asked) if asked is None or isinstance(asked, str) else asked

    @staticmethod
    def _spelled(asked: str | Embedder | None, chosen: Embedder) -> str:
        """The name by which the embedder can be opened again."""
        if isinstance(asked, str):
            return asked
        by_model = {"minilm-l6-v2-int8": "minilm", "wordllama-l2-256": "static", "hash-64": "hash"}
        return by_model.get(chosen.name, chosen.name)

    def _write_down(self, name: str, chosen: Embedder) -> None:
        body = {"embedder": name, "model": chosen.name, "length": chosen.length}
        self._owner.append(Draft(SETTING.kind, body=body, id=SETTING.id, scope=SETTING.scope, origin="recall"))

    def vector(self, text: str) -> Any:
        """The vector of a question; the same questions come again."""
        return self._vector(text)

    def _embed_one(self, text: str) -> Any:
        vectors: Vectors = self.embedder.embed([text])
        return vectors[0].tolist()

    def catch_up(self, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Makes the vectors that are missing, for at most so many seconds; returns how many texts are still without."""
        return self._make(self.embedder, seconds, progress)

    def _make(self, embedder: Embedder, seconds: float | None, progress: Progress | None) -> int:
        deadline = None if seconds is None else time.monotonic() + seconds
        done = 0
        while True:
            with self._owner.looking() as look:
                records = look.without_vectors(embedder.name, BATCH)
            if not records:
                return 0
            if deadline is not None and time.monotonic() >= deadline:
                return self._missing(embedder)
            vectors = embedder.embed([head(record.text) for record in records])
            self._owner.put_vectors(
                embedder.name,
                [(record.seq, 0, vector.tolist()) for record, vector in zip(records, vectors, strict=True)],
            )
            done += len(records)
            if progress is not None:
                progress(done, max(done, self._versions()))

    def _missing(self, embedder: Embedder) -> int:
        with self._owner.looking() as look:
            return len(look.without_vectors(embedder.name, 100_000))

    def _versions(self) -> int:
        return sum(row.versions for row in self._owner.tally() if row.scope != SYSTEM)

    def reembed(self, name: str, progress: Progress | None = None) -> Embedder:
        """Makes the vectors of another embedder; the old ones serve until all are there. Run again, it goes on."""
        chosen = open_embedder(name)
        self._make(chosen, None, progress)
        self._write_down(name, chosen)
        with self._guard:
            self._embedder, self._asked = chosen, None
            self._vector.cache_clear()
        return chosen
