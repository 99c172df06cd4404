"""PostgreSQL's text index: SQLite's tokens in a form in which any text can be indexed."""

from __future__ import annotations

import pytest

from lukasa.scope import FULL_REACH
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.text_index import CorpusStats, TextQuery, bm25_scores, format_tsvector
from lukasa.testing.contract.base import find_ids, write_note
from lukasa.text.terms import tokenize_text


@pytest.fixture
def engine(fresh_store):
    engine = PostgresEngine(fresh_store())
    yield engine
    engine.close()


def test_tokens_are_folded_stemmed_and_without_accents():
    assert tokenize_text("The DEPLOYED crème-brûlée's") == ["the", "deploi", "creme", "brule", "s"]


def test_a_query_word_with_punctuation_becomes_a_phrase():
    assert TextQuery.from_words("multi-agent Multi-Agent plain ()").phrases == {("multi", "agent"): 2, ("plain",): 1}


def test_a_phrase_counts_where_its_tokens_are_adjacent():
    query, corpus = TextQuery.from_words("multi-agent"), CorpusStats(10, 100, {("multi", "agent"): 1})
    texts: list[dict[str, list[int] | None]] = [
        {"multi": [1, 7], "agent": [2, 9]},
        {"multi": [1], "agent": [3]},
        {"multi": [1]},
        {"multi": None, "agent": [3]},
    ]
    scores = bm25_scores(query, corpus, {number: (10, positions) for number, positions in enumerate(texts)})
    assert [(score > 0, number) for score, number in scores] == [(True, 0), (False, 1), (False, 2), (True, 3)]


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"w{number}" for number in range(40_000)) + " needle",
        " ".join(f"{number:0400}" for number in range(2_000)) + " needle",
        "x" * 900_000 + " needle",
        "needle " * 100_000,
        "𐐨" * 900 + " needle",
        "needle " + " ".join("Ⱥ" * 40 + chr(0x4E00 + number) for number in range(10_000)),
    ],
    ids=[
        "many words",
        "long words",
        "one endless word",
        "one word for ever",
        "a word of many bytes",
        "words that grow when folded",
    ],
)
def test_a_text_of_any_length_is_indexed_and_verified(engine, text):
    write_note(engine, "a", text)
    write_note(engine, "b", "another")
    assert find_ids(engine, "needle") == ["a"]
    assert engine.verify().sound


def test_positions_that_do_not_fit_are_left_out_but_no_token_is():
    tokens = [f"{number:0400}" for number in range(3_000)]
    assert ":" not in format_tsvector(tokens)
    assert format_tsvector(tokens[:100]).startswith(f"{tokens[0]}:1 ")


def test_a_token_repeated_many_times_is_written_once():
    tsvector = format_tsvector(["a", "handful", "of", "words"] * 100_000)
    assert tsvector.startswith("a:1,5,9,")
    assert len(tsvector) < 10_000


def test_a_search_of_several_statements_sees_one_moment(engine):
    notes = Query(kinds=("note",))
    write_note(engine, "a", "the first heron")
    with engine.snapshot(FULL_REACH, single_query=True) as reader:
        assert len(reader.match_text("heron", notes)) == 1
        write_note(engine, "b", "the second heron")
        assert len(reader.match_text("first-heron heron", notes)) == 1
    with engine.snapshot(FULL_REACH, single_query=True) as reader:
        assert len(reader.match_text("heron")) == len(reader.match_text("heron", notes)) == 2
