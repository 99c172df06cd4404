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
from typing import TYPE_CHECKING, Any

from lukasa.embedder import Embedder
from lukasa.embedders import open_embedder
from lukasa.engine import Progress
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.journal import Journal
from lukasa.recall.passages import PART, WHOLE, head
from lukasa.record import Draft, Key
from lukasa.scope import SYSTEM

if TYPE_CHECKING:
    from lukasa.embedder import Vectors

SETTING = Key(SYSTEM, "setting", "embedder")
BATCH = 256
PREPARATION = f"head{WHOLE}:{PART}"
"""What of a text is embedded. It is part of the name that vectors are kept by, so that a change of it is noticed."""
_FIRST = 16
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """An embedder together with what it is given of each text; its name stands for both."""

    embedder: Embedder
    name: str

    @classmethod
    def of(cls, embedder: Embedder) -> Prepared:
        return cls(embedder, f"{embedder.name}+{PREPARATION}")

    @property
    def length(self) -> int:
        return self.embedder.length

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.embedder.embed([head(text) for text in texts])


def batch(made: int, took: float, left: float | None) -> int:
    """How many texts to embed next, after so many took so long, so as to end in the time that is left."""
    if left is None:
        return BATCH
    if not made:
        return _FIRST
    fitting = left * made / took if took > 0 else BATCH
    return int(max(1, min(BATCH, 2 * made, fitting)))


class Index:
    """The vectors of one store, on behalf of everybody who recalls from it."""

    def __init__(self, owner: Journal, embedder: str | Embedder | None = None) -> None:
        self._owner = owner
        self._asked = embedder
        self._guard = threading.Lock()
        self._embedder: Prepared | None = None
        self._vector = lru_cache(_REMEMBERED)(self._embed_one)

    @property
    def embedder(self) -> Prepared:
        """The embedder of this store. The first to ask decides; after that, only ``reembed`` changes it."""
        with self._guard:
            if self._embedder is None:
                self._embedder = self._settled()
            return self._embedder

    @property
    def outdated(self) -> str:
        """Says so when the store's vectors were made in another way than this version makes them; else empty.

        They still serve; none are added to them.
        """
        kept, usual = self.embedder.name, Prepared.of(self.embedder.embedder).name
        if kept == usual:
            return ""
        return f"The vectors of this store are those of {kept}, today they would be those of {usual}: run `lukasa reembed`."

    def _settled(self) -> Prepared:
        setting = self._owner.get(SETTING)
        if setting is None:
            chosen = Prepared.of(self._opened(self._asked))
            self._write_down(self._spelled(self._asked, chosen.embedder), chosen)
            return chosen
        kept, model = str(setting.body["embedder"]), str(setting.body["model"])
        if self._asked is not None:
            asked = self._opened(self._asked)
            if asked.name != model.partition("+")[0]:
                raise InvalidInput(
                    f"This store keeps vectors of {model!r}, not of {asked.name!r}.",
                    hint="Run `lukasa reembed` to change them, or leave the embedder out.",
                )
            return Prepared(asked, model)
        try:
            return Prepared(open_embedder(kept), model)
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

    def _write_down(self, name: str, chosen: Prepared) -> None:
        body = {"embedder": name, "model": chosen.name, "length": chosen.length}
        self._owner.append(Draft(SETTING.kind, body=body, id=SETTING.id, scope=SETTING.scope, origin="recall"))

    def vector(self, text: str) -> Any:
        """The vector of a question; the same questions come again."""
        return self._vector(text)

    def _embed_one(self, text: str) -> Any:
        vectors: Vectors = self.embedder.embedder.embed([text])
        return vectors[0].tolist()

    def catch_up(self, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Makes the vectors that are missing, for about so many seconds; returns how many texts are still without."""
        embedder = self.embedder
        return self._lacking(embedder) if self.outdated else self._make(embedder, seconds, progress)

    def _make(self, embedder: Prepared, seconds: float | None, progress: Progress | None) -> int:
        began = time.monotonic()
        done, took = 0, 0.0
        while True:
            left = None if seconds is None else seconds - took
            with self._owner.looking() as look:
                records = look.without_vectors(embedder.name, batch(done, took, left))
            if not records:
                return 0
            if left is not None and left <= 0:
                return self._lacking(embedder)
            vectors = embedder.embed([record.text for record in records])
            self._owner.put_vectors(
                embedder.name,
                [(record.seq, 0, vector) for record, vector in zip(records, vectors.tolist(), strict=True)],
            )
            done += len(records)
            took = time.monotonic() - began
            if progress is not None:
                progress(done, max(done, self._versions()))

    def _lacking(self, embedder: Prepared) -> int:
        with self._owner.looking() as look:
            return look.lacking_vectors(embedder.name)

    def _versions(self) -> int:
        return sum(row.versions for row in self._owner.tally() if row.scope != SYSTEM)

    def reembed(self, name: str, progress: Progress | None = None) -> Prepared:
        """Makes the vectors of another embedder; the old ones serve until all are there. Run again, it goes on."""
        chosen = Prepared.of(open_embedder(name))
        self._make(chosen, None, progress)
        self._write_down(name, chosen)
        with self._guard:
            self._embedder, self._asked = chosen, None
            self._vector.cache_clear()
        return chosen
