"""The tokens of a text, as SQLite's text index knows them: folded, freed of accents, stemmed.

Every engine speaks of words in these, so that all of them find the same records for the same question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import apsw

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")

_thread_local = threading.local()


def tokenize_text(text: str) -> list[str]:
    """The tokens of a text, in order."""
    tokenize: Callable[[str], list[str]] | None = getattr(_thread_local, "tokenize", None)
    if tokenize is None:
        tokenize = _thread_local.tokenize = _build_tokenizer()
    return tokenize(text)


def _build_tokenizer() -> Callable[[str], list[str]]:
    """A tokenizer of this thread's own; it belongs to a database, which lives as long."""
    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")  # brings the tokenizers in
    tokenizer = database.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
    _thread_local.database = database

    def tokenize(text: str) -> list[str]:
        found: Any = tokenizer(
            text.encode("utf-8", "replace"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return list(found)

    return tokenize
