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

from lukasa.engines.saying import asked_words
from lukasa.engines.tokens import tokens_of

_LAST_PLACE = 16383  # a tsvector knows places up to here,
_MOST_BYTES = 1_000_000  # and about so many bytes in all
_MOST_PLACES = 255
_LONGEST = 1000
_LONGEST_BYTES = 2046  # of one word in a tsvector
_K1, _B = 1.2, 0.75
_LEAST_IDF = 1e-6
_PLACES = [f":{place}" for place in range(1, _LAST_PLACE + 1)]

Phrase = tuple[str, ...]
Places = Mapping[str, Sequence[int] | None]
"""Where the tokens of a question stand in one text; ``None`` when they do, but places were not kept."""


def indexed_tokens(text: str) -> list[str]:
    """The tokens of a text as the index holds them: those that are too long for it are shortened."""
    return [token if _fits(token) else _shortened(token) for token in tokens_of(text)]


def _fits(token: str) -> bool:
    return len(token) <= _LONGEST // 2 or (len(token) <= _LONGEST and len(token.encode()) <= _LONGEST_BYTES)


def _shortened(token: str) -> str:
    """Stands for a token that is too long for an index; the sign in front occurs in no other token."""
    return "#" + hashlib.blake2b(token.encode(), digest_size=16).hexdigest()


def vector_of(tokens: Sequence[str]) -> str:
    """The spelling of a ``tsvector`` of tokens with their places; letters and digits, so nothing needs quotes."""
    if len(tokens) > _LAST_PLACE or sum(map(len, tokens)) > _MOST_BYTES // 8:
        return _long_vector_of(tokens)
    return " ".join([token + place for token, place in zip(tokens, _PLACES, strict=False)])


def _long_vector_of(tokens: Sequence[str]) -> str:
    """Places beyond the last are the last one. Where there is too much, places are left out, then the last tokens."""
    distinct = dict.fromkeys(tokens)
    size = sum(len(token.encode()) for token in distinct)
    if size + 2 * len(tokens) + 4 * len(distinct) <= _MOST_BYTES:
        if sum(len(token.encode()) for token in tokens) > _MOST_BYTES:
            return _gathered(tokens)
        return " ".join([f"{token}:{min(place, _LAST_PLACE)}" for place, token in enumerate(tokens, 1)])
    sizes = accumulate(len(token.encode()) for token in distinct)
    return " ".join([token for token, size in zip(distinct, sizes, strict=True) if size <= _MOST_BYTES])


def _gathered(tokens: Sequence[str]) -> str:
    """Each token once with its places: PostgreSQL reads no more than a megabyte of tokens, and keeps so many places."""
    places: dict[str, list[str]] = {}
    for place, token in enumerate(tokens, 1):
        known = places.setdefault(token, [])
        if len(known) < _MOST_PLACES:
            known.append(str(min(place, _LAST_PLACE)))
    return " ".join([f"{token}:{','.join(known)}" for token, known in places.items()])


def _quoted(token: str) -> str:
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


class Question(NamedTuple):
    """What is asked for: phrases, each with how often it was asked in other letters; some count only all together."""

    phrases: Mapping[Phrase, int]
    together: Sequence[Phrase] = ()
    any_of: frozenset[Phrase] = frozenset()

    @classmethod
    def of(cls, words: str, together: str = "") -> Question:
        any_of, every = (
            [phrase for word in asked_words(asked) if (phrase := tuple(indexed_tokens(word)))]
            for asked in (words, together)
        )
        phrases = {phrase: any_of.count(phrase) for phrase in any_of}
        return cls(dict.fromkeys(every, 1) | phrases, every, frozenset(any_of))

    def spelled(self, held: Sequence[Phrase]) -> str:
        """The ``tsquery`` for those of its phrases that some text holds; empty when none can match."""
        found = [query_of(phrase) for phrase in held if phrase in self.any_of]
        if self.together and set(self.together) <= set(held):
            found.append("(" + " & ".join(map(query_of, self.together)) + ")")
        return " | ".join(found)

    @property
    def tokens(self) -> list[str]:
        return sorted({token for phrase in self.phrases for token in phrase})


def query_of(phrase: Phrase) -> str:
    """The spelling of a ``tsquery`` for one phrase."""
    return "(" + " <-> ".join(map(_quoted, phrase)) + ")"


class Corpus(NamedTuple):
    """What the ranking knows of all texts: how many there are, how long in all, and how many hold each phrase."""

    texts: int
    tokens: int
    holding: Mapping[Phrase, int]

    def weight(self, phrase: Phrase) -> float:
        """How telling a phrase is: the rarer the more."""
        holding = self.holding.get(phrase, 0)
        return (
            max(log((self.texts - holding + 0.5) / (holding + 0.5)), _LEAST_IDF)
            if holding <= self.texts
            else _LEAST_IDF
        )


def score(question: Question, corpus: Corpus, places: Places, length: int) -> float:
    """How well a text of a length matches, as ``bm25()`` of FTS5 has it; higher is better."""
    average = corpus.tokens / corpus.texts if corpus.texts else 1.0
    drag = _K1 * (1 - _B + _B * length / (average or 1.0))
    total = 0.0
    for phrase, times in question.phrases.items():
        if count := _occurrences(phrase, places):
            total += times * corpus.weight(phrase) * count * (_K1 + 1) / (count + drag)
    return total


def _occurrences(phrase: Phrase, places: Places) -> int:
    if any(token not in places for token in phrase):
        return 0
    where = [places[token] for token in phrase]
    if any(each is None for each in where):
        return 1  # a text too long for its places to be kept holds the tokens; how often is not known
    first, *rest = (set(each or ()) for each in where)
    return sum(all(place + step in each for step, each in enumerate(rest, 1)) for place in first)
