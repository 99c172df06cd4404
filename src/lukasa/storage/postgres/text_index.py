"""Full-text search in PostgreSQL with the tokens and the ranking of SQLite.

A text becomes the tokens of ``lukasa.text.terms``, and these, with their positions, become a
``tsvector``; PostgreSQL's dictionaries are not used. A query word with inner punctuation (``multi-agent``) is a phrase
of its tokens. Matches are ranked by the formula of FTS5's ``bm25()``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import log
from operator import add
from typing import NamedTuple

from lukasa.storage.postgres.sql import SQL
from lukasa.storage.reader import list_query_words, split_query_words
from lukasa.text.terms import strip_particle, to_phrase, tokenize_phrase, tokenize_text

_MAX_POSITION = 16383  # the highest position in a tsvector
_MAX_BYTES = 1_000_000  # a little less than a tsvector can hold
_MAX_POSITIONS_PER_TOKEN = 255
_MAX_TOKEN_CHARACTERS = 1000
_MAX_TOKEN_BYTES = 2046  # of one token in a tsvector
_K1, _B = 1.2, 0.75
_MIN_IDF = 1e-6
_POSITION_SUFFIXES = [f":{position}" for position in range(1, _MAX_POSITION + 1)]

Phrase = tuple[str, ...]
TokenPositions = Mapping[str, Sequence[int] | None]
"""The positions of query tokens in one text; None for a token whose positions were not stored."""


def index_text(text: str) -> tuple[int | None, str | None]:
    """Return the number of tokens of a text and its ``tsvector``; None for both without a text.

    A token that is too long for the index is replaced by a hash.
    """
    if not text:
        return None, None
    tokens = tokenize_text(text)
    if len(tokens) <= _MAX_POSITION:
        tsvector = " ".join(map(add, tokens, _POSITION_SUFFIXES))
        size, longest = len(tsvector), _MAX_TOKEN_CHARACTERS // 2
        if size <= longest or (size <= _MAX_BYTES // 8 and max(map(len, tokens)) <= longest):
            return len(tokens), tsvector
    return len(tokens), format_tsvector([_limit_token(token) for token in tokens])


def _limit_token(token: str) -> str:
    if len(token) <= _MAX_TOKEN_CHARACTERS // 2:
        return token
    if len(token) <= _MAX_TOKEN_CHARACTERS and len(token.encode()) <= _MAX_TOKEN_BYTES:
        return token
    return "#" + hashlib.blake2b(token.encode(), digest_size=16).hexdigest()  # no other token contains a #


def tokenize_word(word: str) -> Phrase:
    """Return the phrase of a query word; a token that ends in ``*`` matches every token that begins with it."""
    phrase = to_phrase(word)
    tokens = [_limit_token(token) for token in tokenize_phrase(phrase)]
    return tuple([*tokens[:-1], tokens[-1] + "*"] if phrase.is_prefix else tokens)


def format_tsvector(tokens: Sequence[str]) -> str:
    """Format tokens and their positions as a ``tsvector``; tokens are letters and digits and need no quotes.

    Positions past the highest become the highest. Where the limits are still exceeded, positions are left out, then
    the last tokens.
    """
    if len(tokens) <= _MAX_POSITION and sum(map(len, tokens)) <= _MAX_BYTES // 8:
        return " ".join(map(add, tokens, _POSITION_SUFFIXES))
    sizes = {token: len(token.encode()) for token in dict.fromkeys(tokens)}
    if sum(sizes.values()) + 2 * len(tokens) + 4 * len(sizes) > _MAX_BYTES:
        total_sizes = accumulate(sizes.values())
        return " ".join([token for token, total in zip(sizes, total_sizes, strict=True) if total <= _MAX_BYTES])
    if sum(sizes[token] for token in tokens) <= _MAX_BYTES:
        return " ".join([f"{token}:{min(position, _MAX_POSITION)}" for position, token in enumerate(tokens, 1)])
    # PostgreSQL parses at most a megabyte of tokens and keeps 255 positions of each, so each token is written once.
    positions_of_token: dict[str, list[str]] = {}
    for position, token in enumerate(tokens, 1):
        positions = positions_of_token.setdefault(token, [])
        if len(positions) < _MAX_POSITIONS_PER_TOKEN:
            positions.append(str(min(position, _MAX_POSITION)))
    return " ".join([f"{token}:{','.join(positions)}" for token, positions in positions_of_token.items()])


def _quote_token(token: str) -> str:
    bare = token.removesuffix("*")  # no token contains a *
    return "'" + bare.replace("\\", "\\\\").replace("'", "''") + ("'" if bare == token else "':*")


class TextQuery(NamedTuple):
    """A parsed query: how often each phrase occurs, the phrases of ``together``, and those that match alone."""

    phrases: Mapping[Phrase, int]
    all_of: Sequence[Phrase] = ()
    any_of: frozenset[Phrase] = frozenset()

    @classmethod
    def from_words(cls, words: str, together: str = "") -> TextQuery:
        any_of, all_of = (
            [phrase for word in query_words if (phrase := tokenize_word(word))]
            for query_words in (list_query_words(words), map(strip_particle, split_query_words(together)))
        )
        phrases = {phrase: any_of.count(phrase) for phrase in any_of}
        return cls(dict.fromkeys(all_of, 1) | phrases, all_of, frozenset(any_of))

    def format_tsquery(self, found_phrases: Sequence[Phrase]) -> str:
        """Format a ``tsquery`` for the phrases that some text holds; empty when none can match."""
        alternatives = [format_phrase(phrase) for phrase in found_phrases if phrase in self.any_of]
        if self.all_of and set(self.all_of) <= set(found_phrases):
            alternatives.append("(" + " & ".join(map(format_phrase, self.all_of)) + ")")
        return " | ".join(alternatives)

    @property
    def is_plain(self) -> bool:
        """Whether every phrase is one token and stands for itself alone, so that ``build_token_match`` can score it."""
        return all(len(phrase) == 1 and not phrase[0].endswith("*") for phrase in self.phrases)

    @property
    def tokens(self) -> list[str]:
        return sorted({token for phrase in self.phrases for token in phrase})


def format_phrase(phrase: Phrase) -> str:
    """Format a ``tsquery`` for one phrase."""
    return "(" + " <-> ".join(map(_quote_token, phrase)) + ")"


def build_token_match(phrases: int, conditions: tuple[str, ...], *, counts: bool, is_large: bool) -> str:
    """Build the statement that matches single tokens and scores the texts as ``bm25_scores`` does, in one pass.

    It counts the texts with each token among the matches if ``counts``; otherwise its values say how many there are. Its values are
    the tokens as queries, the whole query, those of the conditions, whether current texts are meant (twice), for
    each token how often the query has it and, unless it ``counts``, three times the number of texts, and the limit (twice).

    Texts of one scope and length that hold each token equally often have the same score. In a large store they are scored
    together, which is faster from some thousand matches on.
    """
    numbers = range(phrases)
    ranks = [f"rank_{n}" for n in numbers]
    ranked = ", ".join(f"ts_rank(log.words, %s::tsquery) AS {rank}" for rank in ranks)
    # ts_rank of one token is a tenth of the sum of 1, 1/4, 1/9 and so on for each time the text holds it, over the limit of that
    # sum. Each operator is evaluated for every text that matches, so there are as few as possible: none for a token that it lacks.
    score = " + ".join(
        f"CASE WHEN rank_{n} > 0 THEN weight_{n} * (1 - norm / (norm + round(1 / (1.6449340668482264 - 16.4493406685 * rank_{n}) - 0.5))) ELSE 0 END"
        for n in numbers
    )
    weights = ", ".join(
        f"{_K1 + 1} * %s * CASE WHEN {count} > texts THEN {_MIN_IDF} ELSE greatest(ln((texts - {count} + 0.5) / ({count} + 0.5)), {_MIN_IDF}) END AS weight_{n}"
        for n in numbers
        for count in ["%s" if not counts else f"texts_{n}"]
    )
    wanted = " AND ".join(conditions)
    if is_large:
        found = SQL["grouped_matching_tokens"].format(ranked=ranked, conditions=wanted, ranks=", ".join(ranks))
        counts_by_token = [
            f"coalesce(sum(cardinality(seqs)) FILTER (WHERE rank_{n} > 0), 0) AS texts_{n}" for n in numbers
        ]
    else:
        found = SQL["matching_tokens"].format(ranked=ranked, conditions=wanted)
        counts_by_token = [f"count(*) FILTER (WHERE rank_{n} > 0) AS texts_{n}" for n in numbers]
    return SQL["match_tokens"].format(
        found=found,
        weights=weights,
        shortest=_K1 * (1 - _B),
        rate=_K1 * _B,
        counted=SQL["counted_tokens"].format(counts=", ".join(counts_by_token)) if counts else "",
        best=SQL["score_grouped_matches" if is_large else "score_matches"].format(score=score),
    )


class CorpusStats(NamedTuple):
    """Figures of all texts for the ranking: their number, their tokens, and how many hold each phrase."""

    texts: int
    tokens: int
    texts_with_phrase: Mapping[Phrase, int]

    def phrase_weight(self, phrase: Phrase) -> float:
        """Return the inverse document frequency of a phrase."""
        count = self.texts_with_phrase.get(phrase, 0)
        return max(log((self.texts - count + 0.5) / (count + 0.5)), _MIN_IDF) if count <= self.texts else _MIN_IDF


def bm25_scores(
    text_query: TextQuery, corpus: CorpusStats, texts: Mapping[int, tuple[int, TokenPositions]]
) -> list[tuple[float, int]]:
    """Score texts as FTS5's ``bm25()`` does, given their length and token positions by number; higher is better."""
    average = corpus.tokens / corpus.texts if corpus.texts else 1.0
    weights = [(phrase, times * corpus.phrase_weight(phrase)) for phrase, times in text_query.phrases.items()]
    scores = []
    for number, (length, positions) in texts.items():
        length_norm, total = _K1 * (1 - _B + _B * length / (average or 1.0)), 0.0
        for phrase, weight in weights:
            where = [positions.get(token, ()) for token in phrase]
            if () in where:
                continue
            count = (
                1  # without positions: the text was too long to store them, it holds the tokens, the number is unknown
            )
            if None not in where:
                first, *rest = (set(token_positions or ()) for token_positions in where)
                count = sum(all(start + step in later for step, later in enumerate(rest, 1)) for start in first)
            total += weight * count * (_K1 + 1) / (count + length_norm)
        scores.append((total, number))
    return scores
