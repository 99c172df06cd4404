"""Texts that the text index does not have yet: those of the latest small appends, at most a few dozen short ones.

Indexing a text costs three times as much as the rest of an append, and little more for thirty texts than for one. So a small
append leaves its texts to the next write of another kind, or to the append after which there are too many. Until then a search
counts and scores these texts itself, as FTS5 would if they were indexed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import apsw

from lukasa.errors import StoreDamaged
from lukasa.storage.sqlite.sql import SQL
from lukasa.text.terms import WordPhrase, to_index_form, to_phrase, tokenize_phrase, tokenize_text

MAX_POSITIONS = 32
MAX_CHARACTERS = 2_000
EXTRA_MATCHES = 32
"""A search scores this many more indexed texts than it wants: the others change their order a little."""
K1, B = 1.2, 0.75
MIN_IDF = 1e-6


def read_texts(database: apsw.Connection) -> list[tuple[int, str, str]]:
    """Return position, scope and text of each text that is not indexed."""
    rows: Any = database.execute(SQL["unindexed_texts"])
    return [(seq, str(scope), text.decode("utf-8", "replace")) for seq, scope, text in rows]


def index_texts(database: apsw.Connection) -> None:
    """Index all texts that are not indexed yet, inside the caller's write transaction.

    If the index is damaged the texts wait for its repair; neither the repair nor writes without the index may fail.
    """
    with suppress(apsw.CorruptError, apsw.SQLError):
        database.execute(SQL["open_text_index"])
        database.executemany(SQL["index_text"], [(seq, to_index_form(text)) for seq, _, text in read_texts(database)])
        database.execute(SQL["clear_unindexed"])


@dataclass(frozen=True)
class IndexPhrase:
    """A word of a query as a phrase of FTS5, whose last token may be a beginning."""

    phrase: WordPhrase

    @classmethod
    def from_word(cls, word: str) -> IndexPhrase:
        return cls(to_phrase(word))

    @property
    def written(self) -> str:
        """How the phrase is written in a query of FTS5."""
        return '"' + self.phrase.text.replace('"', '""') + ('" *' if self.phrase.is_prefix else '"')

    @cached_property
    def tokens(self) -> list[str]:
        return tokenize_phrase(self.phrase)

    def count_in(self, tokens: Sequence[str]) -> int:
        """Return how often a text with these tokens holds the phrase."""
        *first, last = self.tokens
        if not first and not self.phrase.is_prefix:
            return tokens.count(last)
        end = len(first)
        return sum(
            (token.startswith(last) if self.phrase.is_prefix else token == last)
            and tokens[start : start + end] == first
            for start, token in enumerate(tokens[end:])
        )


class UnindexedTexts:
    """The texts that are not indexed, as tokens."""

    def __init__(self, texts: Iterable[tuple[int, str, str]]) -> None:
        self._scopes: dict[int, str] = {}
        self.tokens: dict[int, list[str]] = {}
        for seq, scope, text in texts:
            self._scopes[seq], self.tokens[seq] = scope, tokenize_text(text)

    def count_token(self, token: str, *, is_prefix: bool) -> int:
        """Count the texts with a token, or the tokens that begin alike; a text with two of them counts twice."""
        if is_prefix:
            return sum(other.startswith(token) for tokens in self.tokens.values() for other in set(tokens))
        return sum(token in tokens for tokens in self.tokens.values())

    def count_phrase(self, word: str, scopes: frozenset[str]) -> int:
        """Count the texts of some scopes that hold the phrase of a word."""
        phrase = IndexPhrase.from_word(word)
        found = (tokens for seq, tokens in self.tokens.items() if self._scopes[seq] in scopes)
        return sum(phrase.count_in(tokens) > 0 for tokens in found) if phrase.tokens else 0

    def find_matches(self, any_of: Sequence[IndexPhrase], all_of: Sequence[IndexPhrase]) -> list[int]:
        """Return the positions of the texts that hold any of some phrases, or all of others."""
        return [
            seq
            for seq, tokens in self.tokens.items()
            if any(phrase.count_in(tokens) for phrase in any_of)
            or (all_of and all(phrase.count_in(tokens) for phrase in all_of))
        ]

    def score(
        self,
        database: apsw.Connection,
        any_of: Sequence[IndexPhrase],
        all_of: Sequence[IndexPhrase],
        matches: Iterable[int],
        indexed: Mapping[int, str],
    ) -> dict[int, float]:
        """Score matches that are not indexed, and indexed texts that match, as FTS5 would if all were indexed."""
        block = database.execute(SQL["text_counts"]).get
        texts, all_tokens = _read_varints(block or b"\0\0")
        texts, all_tokens = texts + len(self.tokens), all_tokens + sum(map(len, self.tokens.values()))
        average = all_tokens / texts or 1.0

        def weigh(phrase: IndexPhrase) -> tuple[IndexPhrase, float]:
            holding = database.execute(SQL["count_texts_with"], (phrase.written,)).get
            holding += sum(phrase.count_in(tokens) > 0 for tokens in self.tokens.values())
            idf = log((texts - holding + 0.5) / (holding + 0.5)) if holding <= texts else 0.0
            return phrase, idf if idf > 0 else MIN_IDF

        alone, together = list(map(weigh, any_of)), list(map(weigh, all_of))
        scores = {}
        new = {seq: self.tokens[seq] for seq in matches}
        for seq, tokens in (new | {seq: tokenize_text(text) for seq, text in indexed.items()}).items():
            score, shortness = 0.0, K1 * (1 - B + B * len(tokens) / average)
            holds_all = all(phrase.count_in(tokens) for phrase in all_of)
            for phrase, weight in (*alone, *together) if holds_all else alone:
                if count := phrase.count_in(tokens):
                    score += weight * ((count * (K1 + 1.0)) / (count + shortness))
            scores[seq] = score
        return scores


def read_varint(block: bytes) -> int:
    """Return the first number of a record of FTS5."""
    return _read_varints(block + b"\0")[0]


def _read_varints(block: bytes) -> tuple[int, int]:
    """Return the first two numbers of a record of FTS5, each with seven bits to a byte, the highest first."""
    numbers, value = [], 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    if len(numbers) < 2:
        raise StoreDamaged("The text index cannot be read.", hint="Run `lukasa doctor --repair` to rebuild it.")
    return numbers[0], numbers[1]
