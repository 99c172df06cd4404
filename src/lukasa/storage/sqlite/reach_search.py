"""Searching words within a reach: scores are made of the texts that the caller may read, and of nothing else.

``bm25()`` of FTS5 counts the texts of the whole index. A caller who sees its scores could tell whether a word occurs in scopes that
it may not read. So the texts with each phrase are listed, those within reach are kept, and the formula is applied to them: a phrase
is as rare as it is among them, and the length of a text is compared with that of those that match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Any, NamedTuple

import apsw

from lukasa.core.canonical_json import encode_text
from lukasa.errors import StoreDamaged
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.unindexed_texts import K1, MIN_IDF, B, IndexPhrase, UnindexedTexts, read_varint

_PLACES = {"words": "word_places", "past_words": "past_word_places"}


class ReachConditions(NamedTuple):
    """The condition of the scopes that may be read, and the other conditions of a query, each with its values."""

    reach: str
    reach_values: Sequence[Any]
    others: str
    other_values: Sequence[Any]


def score_within_reach(
    database: apsw.Connection,
    table: str,
    any_of: Sequence[IndexPhrase],
    all_of: Sequence[IndexPhrase],
    conditions: ReachConditions,
    texts: int,
    unindexed: Iterable[tuple[int, str]] = (),
) -> dict[int, float]:
    """Score the texts within reach that hold any of some phrases, or all of others.

    ``texts`` is the number of records within reach, and ``unindexed`` the texts among them that the index does not have yet.
    """
    any_of = [phrase for phrase in any_of if phrase.tokens]
    together = list(all_of) if all(phrase.tokens for phrase in all_of) else []  # a phrase of punctuation is in no text
    counts = {
        phrase: _list_texts(database, table, phrase, conditions) for phrase in dict.fromkeys((*any_of, *together))
    }
    sizes, accepted = _read_sizes(database, table, {seq for held in counts.values() for seq in held}, conditions)
    new = set[int]()
    for seq, tokens in UnindexedTexts((seq, "", text) for seq, text in unindexed).tokens.items():
        for phrase, held in counts.items():
            if count := phrase.count_in(tokens):
                held[seq] = count
                sizes[seq] = len(tokens)
                new.add(seq)
    if new:
        statement = SQL["wanted_positions"].format(conditions=conditions.others)
        values = (encode_text(sorted(new)), *conditions.other_values)
        accepted.update(seq for (seq,) in database.execute(statement, values))
    if not accepted:
        return {}
    average = sum(sizes.values()) / len(sizes) or 1.0
    norms = {seq: K1 * (1 - B + B * sizes[seq] / average) for seq in accepted}
    in_all = set.intersection(accepted, *(counts[phrase].keys() for phrase in together)) if together else set()
    scores: dict[int, float] = dict.fromkeys(in_all, 0.0)
    for index, phrase in enumerate((*any_of, *together)):
        held = counts[phrase]
        weight = (K1 + 1) * max(log((max(texts, len(held)) - len(held) + 0.5) / (len(held) + 0.5)), MIN_IDF)
        counted = in_all if index >= len(any_of) else accepted
        for seq, count in held.items():
            if seq in counted:
                scores[seq] = scores.get(seq, 0.0) + weight * count / (count + norms[seq])
    return scores


def _list_texts(
    database: apsw.Connection, table: str, phrase: IndexPhrase, conditions: ReachConditions
) -> dict[int, int]:
    """Return how often each indexed text within reach that holds a phrase holds it."""
    is_token = len(phrase.tokens) == 1 and not phrase.phrase.is_prefix
    sought = phrase.tokens[0] if is_token else phrase.written
    found = SQL["texts_with_word" if is_token else "texts_with_phrase"].format(table=table, places=_PLACES[table])
    statement = SQL["texts_within_reach"].format(found=found, reach=conditions.reach)
    values = (sought, *conditions.reach_values)
    try:
        return dict(database.execute(statement, values))
    except apsw.SQLError:  # the first search of this connection
        for each, places in _PLACES.items():  # tables that list the places of words, and hold nothing themselves
            database.execute(SQL["create_word_places"].format(table=each, places=places))
        database.register_fts5_function("phrase_count", _count_phrase)
        return dict(database.execute(statement, values))


def _read_sizes(
    database: apsw.Connection, table: str, seqs: Iterable[int], conditions: ReachConditions
) -> tuple[dict[int, int], set[int]]:
    """Return the number of tokens of some texts, and those of them that the query wants."""
    statement = SQL["sizes_of_texts"].format(table=table, conditions=conditions.others)
    sizes: dict[int, int] = {}
    accepted: set[int] = set()
    rows: Any = database.execute(statement, (*conditions.other_values, encode_text(sorted(seqs))))
    for seq, size, is_wanted in rows:
        if size is None:
            raise StoreDamaged("The text index cannot be read.", hint="Run `lukasa doctor --repair` to rebuild it.")
        sizes[seq] = size[0] if len(size) == 1 else read_varint(size)
        if is_wanted:
            accepted.add(seq)
    return sizes, accepted


def _count_phrase(text: apsw.FTS5ExtensionApi, *_: object) -> int:
    return len(text.phrase_column_offsets(0, 0))
