"""The vectors of a store: computed from the log in order, kept under the name of the embedder that computed them.

The process that computes the first vectors records the embedder in the store itself, so that all processes agree on it.
Vectors are derived data: a recall computes the missing ones first, as far as its time limit allows, and reports how many
are still missing. Reading needs no writing: where vectors cannot be stored now, a recall does without the missing ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, cast

from lukasa.core.outcome import Conflict
from lukasa.core.record import Draft, Key
from lukasa.core.scope import SYSTEM
from lukasa.core.text_cache import cache_texts
from lukasa.errors import (
    InvalidInput,
    MissingExtra,
    NotAllowed,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from lukasa.journal import Journal
from lukasa.models.embedder import Embedder
from lukasa.models.embedders import best_installed_embedder, open_embedder
from lukasa.recall.relevance import measure_cosines
from lukasa.recall.signals import MAX_PART_LENGTH, MAX_WHOLE_LENGTH, lead_passage
from lukasa.storage.engine import Progress

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

EMBEDDER_SETTING_KEY = Key(SYSTEM, "setting", "embedder")
BATCH_SIZE = 256
PREPARATION = f"head{MAX_WHOLE_LENGTH}:{MAX_PART_LENGTH}"
"""The part of a text that is embedded. It is part of the name of stored vectors, so that a change of it is noticed."""
_WRITE_FAILURES = (NotAllowed, StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable)
_RETRY_SECONDS = 5.0  # a recall does not try to store vectors again so soon after it failed
_FIRST_BATCH_SIZE = 16
_CACHED_QUESTIONS = 1_000


@dataclass(frozen=True, slots=True)
class PassageEmbedder:
    """An embedder that is given the lead passage of each text; its name says both."""

    embedder: Embedder
    name: str

    @classmethod
    def from_embedder(cls, embedder: Embedder) -> PassageEmbedder:
        return cls(embedder, f"{embedder.name}+{PREPARATION}")

    @property
    def length(self) -> int:
        return self.embedder.length

    @property
    def outdated_note(self) -> str:
        """A note when the store's vectors were computed in another way than this version does; else empty.

        Such vectors are still searched, but none are added to them.
        """
        usual = f"{self.embedder.name}+{PREPARATION}"
        if self.name == usual:
            return ""
        return f"The vectors of this store are those of {self.name}, today they would be those of {usual}: run `lukasa reembed`."

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.embedder.embed([lead_passage(text) for text in texts])


def next_batch_size(done: int, elapsed: float, remaining: float | None) -> int:
    """Return how many texts to embed next within the ``remaining`` seconds, given the speed so far."""
    if remaining is None:
        return BATCH_SIZE
    if not done:
        return _FIRST_BATCH_SIZE
    return max(1, int(min(BATCH_SIZE, 2 * done, remaining * done / elapsed if elapsed > 0 else BATCH_SIZE)))


class VectorIndex:
    """The vectors of one store, shared by all callers that recall from it."""

    def __init__(
        self,
        owner_journal: Journal,
        embedder: str | Embedder | None = None,
        *,
        default: str | None = None,
        key: str = "",
        fail_closed: bool = False,
        deadline: float | None = None,
    ) -> None:
        self._owner_journal = owner_journal
        self._requested = embedder
        self._default, self._key = default, key
        self.fail_closed = fail_closed
        """Whether a recall fails when the embedder does, instead of searching by words alone."""
        self.deadline = deadline
        """The deadline in seconds of a recall that names none; ``None`` means that it waits for the embedder."""
        self._lock = threading.Lock()
        self._embedder: PassageEmbedder | None = None
        self._is_recorded = False
        self._retry_at = -inf
        self.write_failure = ""
        """Why the last recall could not store vectors; empty if it could."""
        self._measured_cosines: tuple[float, float] | None = None
        self._cached_question_vector = cache_texts(_CACHED_QUESTIONS)(self._embed_question)

    @property
    def embedder(self) -> PassageEmbedder:
        """The embedder of this store. The first access decides; after that, only ``reembed`` changes it."""
        chosen = self.choose_embedder()
        return chosen if self._is_recorded or self._record_choice(chosen) else self.choose_embedder()

    def choose_embedder(self) -> PassageEmbedder:
        """Return the embedder of this store, or the one it would get, without recording the choice."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._resolve_embedder()
            return self._embedder

    def describe(self) -> dict[str, str]:
        """Return the name of the store's embedder and of its model; without a model if it has no vectors yet."""
        setting = self._owner_journal.get(EMBEDDER_SETTING_KEY)
        if setting is not None:
            return {"embedder": str(setting.body["embedder"]), "model": str(setting.body["model"]).partition("+")[0]}
        requested = self._requested if isinstance(self._requested, str) else getattr(self._requested, "name", None)
        return {"embedder": requested or self._default or best_installed_embedder(), "model": ""}

    def _resolve_embedder(self) -> PassageEmbedder:
        requested = self._requested
        opened = open_embedder(requested, key=self._key) if isinstance(requested, str) else requested
        setting = self._owner_journal.get(EMBEDDER_SETTING_KEY)
        if setting is None:
            return PassageEmbedder.from_embedder(
                open_embedder(self._default, key=self._key) if opened is None else opened
            )
        self._is_recorded = True
        kept, model = str(setting.body["embedder"]), str(setting.body["model"])
        if opened is not None:
            if opened.name != model.partition("+")[0]:
                raise InvalidInput(
                    f"This store keeps vectors of {model!r}, not of {opened.name!r}.",
                    hint="Run `lukasa reembed` to change them, or leave the embedder out.",
                )
            return PassageEmbedder(opened, model)
        try:
            opened = open_embedder(kept, key=self._key)
        except MissingExtra as error:
            raise MissingExtra(
                f"This store's vectors were made by the embedder {kept!r}, which is not installed here.",
                hint=error.hint,
            ) from error
        if opened.name != model.partition("+")[0]:
            raise MissingExtra(
                f"This store's vectors are those of {model!r}, and {kept!r} is another model in this version: "
                f"run `lukasa reembed --embedder {kept}`."
            )
        return PassageEmbedder(opened, model)

    def _record_choice(self, chosen: PassageEmbedder) -> bool:
        """Record the embedder of the first vectors; return False if another process has recorded its own before."""
        model = chosen.embedder.name
        by_model = {"minilm-l6-v2-int8": "minilm", "minilm-l6-v2-tokens-256": "static", "hash-64": "hash"}
        name = self._requested if isinstance(self._requested, str) else by_model.get(model, model)
        saved = self._save_setting(name, chosen, expected=0)
        with self._lock:
            self._is_recorded = True
            if not saved:
                self._embedder = None
        return saved

    def _save_setting(self, name: str, chosen: PassageEmbedder, expected: int | None = None) -> bool:
        """Record the embedder in the store, under the name by which it can be opened again."""
        body = {"embedder": name, "model": chosen.name, "length": chosen.length}
        key = EMBEDDER_SETTING_KEY
        draft = Draft(key.kind, body=body, id=key.id, scope=key.scope, origin="recall", expected=expected)
        return not isinstance(self._owner_journal.append(draft), Conflict)

    def question_vector(self, text: str) -> Any:
        """Return the vector of a question; recent ones are cached."""
        return self._cached_question_vector(text)

    def _embed_question(self, text: str) -> Any:
        return self.choose_embedder().embedder.embed([text])[0].tolist()

    @property
    def cosine_range(self) -> tuple[float, float] | None:
        """The cosines of unrelated texts and of a question and its answer; ``None`` where cosines say no more than words.

        An embedder may know them (``cosine_range``); those of another one are measured once.
        """
        embedder = self.choose_embedder().embedder
        if hasattr(embedder, "cosine_range"):
            return cast("tuple[float, float] | None", embedder.cosine_range)
        if self._measured_cosines is None:
            self._measured_cosines = measure_cosines(embedder)
        return self._measured_cosines

    def catch_up(self, seconds: float | None = None, progress: Progress | None = None) -> int:
        """Compute missing vectors for about so many seconds; return how many texts are still without.

        Without a limit a store that cannot be written is an error; with one, ``write_failure`` says so.
        """
        embedder = self.choose_embedder()
        if embedder.outdated_note or (seconds is not None and time.monotonic() < self._retry_at):
            return self._count_missing(embedder)
        try:
            missing = self._embed_missing(embedder, seconds, progress)
        except _WRITE_FAILURES as error:
            if seconds is None:
                raise
            self.write_failure, self._retry_at = error.message, time.monotonic() + _RETRY_SECONDS
            return self._count_missing(embedder)
        self.write_failure = ""
        return missing

    def _embed_missing(self, embedder: PassageEmbedder, seconds: float | None, progress: Progress | None) -> int:
        began = time.monotonic()
        done, elapsed = 0, 0.0
        while True:
            remaining = None if seconds is None else seconds - elapsed
            with self._owner_journal.snapshot() as reader:
                if not done and not reader.count_without_vectors(embedder.name):
                    return 0
                records = reader.without_vectors(embedder.name, next_batch_size(done, elapsed, remaining))
                if not records:  # none, or only some behind a writer at work
                    return reader.count_without_vectors(embedder.name)
            if remaining is not None and remaining <= 0:
                return self._count_missing(embedder)
            vectors = embedder.embed([record.text for record in records])
            self._owner_journal.put_vectors(
                embedder.name,
                [(record.seq, 0, vector) for record, vector in zip(records, vectors, strict=True)],
                briefly=seconds is not None,
            )
            if not self._is_recorded and not self._record_choice(embedder):
                embedder = self.choose_embedder()
            done += len(records)
            elapsed = time.monotonic() - began
            if progress is not None:
                versions = sum(row.versions for row in self._owner_journal.tally() if row.scope != SYSTEM)
                progress(done, max(done, versions))

    def remake(self, positions: Collection[int]) -> None:
        """Compute the damaged vectors at some positions again, if the store can be written."""
        embedder = self.embedder
        with suppress(StoreError):
            with self._owner_journal.snapshot() as reader:
                texts = reader.texts_at(positions)
            vectors = embedder.embed(list(texts.values())).tolist() if texts else ()
            self._owner_journal.put_vectors(
                embedder.name, [(seq, 0, vector) for seq, vector in zip(texts, vectors, strict=True)]
            )

    def _count_missing(self, embedder: PassageEmbedder) -> int:
        with self._owner_journal.snapshot() as reader:
            return reader.count_without_vectors(embedder.name)

    def reembed(self, name: str, progress: Progress | None = None) -> PassageEmbedder:
        """Compute the vectors of another embedder; the old ones serve until all are there.

        A run that was interrupted continues where it stopped.
        """
        chosen = PassageEmbedder.from_embedder(open_embedder(name, key=self._key))
        self._embed_missing(chosen, None, progress)
        self._save_setting(name, chosen)
        with self._lock:
            self._embedder, self._requested = chosen, None
            self._measured_cosines = None
            self._is_recorded = True
            self._cached_question_vector.cache_clear()
        return chosen
