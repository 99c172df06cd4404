"""Words as the text index knows them, and how well they match: the same as on SQLite, because it is SQLite's tokenizer.

A text becomes the tokens of FTS5's ``porter unicode61`` tokenizer, and these, with their places, become a ``tsvector``:
PostgreSQL's own dictionaries have no say. A word of a question with inner punctuation (``multi-agent``) is a phrase of
its tokens. Matches are ranked by the formula of FTS5's ``bm25()``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import log
from typing import NamedTuple

from lukasa.storage.text_match import split_query_words
from lukasa.text.tokenizer import tokenize_text

_MAX_POSITION = 16383  # a tsvector knows places up to here,
_MAX_BYTES = 1_000_000  # and about so many bytes in all
_MAX_POSITIONS_PER_TOKEN = 255
_MAX_TOKEN_CHARACTERS = 1000
_MAX_TOKEN_BYTES = 2046  # of one word in a tsvector
_K1, _B = 1.2, 0.75
_MIN_IDF = 1e-6
_POSITION_SUFFIXES = [f":{place}" for place in range(1, _MAX_POSITION + 1)]

Phrase = tuple[str, ...]
TokenPositions = Mapping[str, Sequence[int] | None]
"""Where the tokens of a question stand in one text; ``None`` when they do, but places were not kept."""


def tokenize_for_index(text: str) -> list[str]:
    """The tokens of a text as the index holds them: those that are too long for it are shortened."""
    return [token if _fits_index(token) else _hash_token(token) for token in tokenize_text(text)]


def _fits_index(token: str) -> bool:
    return len(token) <= _MAX_TOKEN_CHARACTERS // 2 or (
        len(token) <= _MAX_TOKEN_CHARACTERS and len(token.encode()) <= _MAX_TOKEN_BYTES
    )


def _hash_token(token: str) -> str:
    """Stands for a token that is too long for an index; the sign in front occurs in no other token."""
    return "#" + hashlib.blake2b(token.encode(), digest_size=16).hexdigest()


def format_tsvector(tokens: Sequence[str]) -> str:
    """The spelling of a ``tsvector`` of tokens with their places; letters and digits, so nothing needs quotes."""
    if len(tokens) > _MAX_POSITION or sum(map(len, tokens)) > _MAX_BYTES // 8:
        return _format_long_tsvector(tokens)
    return " ".join([token + place for token, place in zip(tokens, _POSITION_SUFFIXES, strict=False)])


def _format_long_tsvector(tokens: Sequence[str]) -> str:
    """Places beyond the last are the last one. Where there is too much, places are left out, then the last tokens."""
    distinct = dict.fromkeys(tokens)
    size = sum(len(token.encode()) for token in distinct)
    if size + 2 * len(tokens) + 4 * len(distinct) <= _MAX_BYTES:
        if sum(len(token.encode()) for token in tokens) > _MAX_BYTES:
            return _format_grouped_tsvector(tokens)
        return " ".join([f"{token}:{min(place, _MAX_POSITION)}" for place, token in enumerate(tokens, 1)])
    sizes = accumulate(len(token.encode()) for token in distinct)
    return " ".join([token for token, size in zip(distinct, sizes, strict=True) if size <= _MAX_BYTES])


def _format_grouped_tsvector(tokens: Sequence[str]) -> str:
    """Each token once with its places: PostgreSQL reads no more than a megabyte of tokens, and keeps so many places."""
    places: dict[str, list[str]] = {}
    for place, token in enumerate(tokens, 1):
        known = places.setdefault(token, [])
        if len(known) < _MAX_POSITIONS_PER_TOKEN:
            known.append(str(min(place, _MAX_POSITION)))
    return " ".join([f"{token}:{','.join(known)}" for token, known in places.items()])


def _quote_token(token: str) -> str:
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


class TextQuery(NamedTuple):
    """What is asked for: phrases, each with how often it was asked in other letters; some count only all together."""

    phrases: Mapping[Phrase, int]
    all_of: Sequence[Phrase] = ()
    any_of: frozenset[Phrase] = frozenset()

    @classmethod
    def from_words(cls, words: str, together: str = "") -> TextQuery:
        any_of, every = (
            [phrase for word in split_query_words(asked) if (phrase := tuple(tokenize_for_index(word)))]
            for asked in (words, together)
        )
        phrases = {phrase: any_of.count(phrase) for phrase in any_of}
        return cls(dict.fromkeys(every, 1) | phrases, every, frozenset(any_of))

    def format_tsquery(self, found_phrases: Sequence[Phrase]) -> str:
        """The ``tsquery`` for those of its phrases that some text holds; empty when none can match."""
        found = [format_phrase(phrase) for phrase in found_phrases if phrase in self.any_of]
        if self.all_of and set(self.all_of) <= set(found_phrases):
            found.append("(" + " & ".join(map(format_phrase, self.all_of)) + ")")
        return " | ".join(found)

    @property
    def tokens(self) -> list[str]:
        return sorted({token for phrase in self.phrases for token in phrase})


def format_phrase(phrase: Phrase) -> str:
    """The spelling of a ``tsquery`` for one phrase."""
    return "(" + " <-> ".join(map(_quote_token, phrase)) + ")"


class CorpusStats(NamedTuple):
    """What the ranking knows of all texts: how many there are, how long in all, and how many hold each phrase."""

    texts: int
    tokens: int
    texts_with_phrase: Mapping[Phrase, int]

    def phrase_weight(self, phrase: Phrase) -> float:
        """How telling a phrase is: the rarer the more."""
        holding = self.texts_with_phrase.get(phrase, 0)
        return max(log((self.texts - holding + 0.5) / (holding + 0.5)), _MIN_IDF) if holding <= self.texts else _MIN_IDF


def bm25_score(text_query: TextQuery, corpus: CorpusStats, positions: TokenPositions, length: int) -> float:
    """How well a text of a length matches, as ``bm25()`` of FTS5 has it; higher is better."""
    average = corpus.tokens / corpus.texts if corpus.texts else 1.0
    drag = _K1 * (1 - _B + _B * length / (average or 1.0))
    total = 0.0
    for phrase, times in text_query.phrases.items():
        if count := _count_occurrences(phrase, positions):
            total += times * corpus.phrase_weight(phrase) * count * (_K1 + 1) / (count + drag)
    return total


def _count_occurrences(phrase: Phrase, positions: TokenPositions) -> int:
    if any(token not in positions for token in phrase):
        return 0
    where = [positions[token] for token in phrase]
    if any(each is None for each in where):
        return 1  # a text too long for its places to be kept holds the tokens; how often is not known
    first, *rest = (set(each or ()) for each in where)
    return sum(all(place + step in each for step, each in enumerate(rest, 1)) for place in first)
