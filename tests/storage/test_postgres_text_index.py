"""PostgreSQL's text index: SQLite's tokens in a form in which any text can be indexed."""

from __future__ import annotations

import random

import pytest

from lukasa.core.scope import FULL_REACH, Reach
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.text_index import CorpusStats, TextQuery, bm25_scores, format_tsvector
from lukasa.testing.contract.base import add, find_ids, make_draft, write_note
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


@pytest.mark.parametrize("large_store", [0, 2**63])
@pytest.mark.parametrize("seed", range(3))
def test_the_server_scores_each_text_as_the_formula_does(engine, monkeypatch, seed, large_store):
    monkeypatch.setattr("lukasa.storage.postgres.reader._LARGE_STORE", large_store)
    rng = random.Random(seed)
    words = ["alpha", "bravo", "carol", "delta", "echoes"]
    scopes = ("shared", "agent:a", "agent:b")
    drafts = [
        make_draft(" ".join(rng.choices(words, k=rng.randint(1, 7))), id=f"n{n}", scope=rng.choice(scopes)) for n in range(250)
    ]  # fmt: skip
    add(engine, *drafts)
    add(engine, *(make_draft("alpha", id=f"n{n}", scope=drafts[n].scope, deleted=n % 2 == 0) for n in range(20)))
    for reach in (FULL_REACH, Reach.of(scopes[:2]), Reach.of(scopes[2:])):
        with engine.snapshot(reach) as reader:
            texts = {record.seq: tokenize_text(record.text) for record in reader.read(Query()) if record.text}
            for question in ("alpha", "bravo carol", "delta delta alpha echoes", "bravo nowhere", "nowhere"):
                expected = score_in_python(TextQuery.from_words(question), texts)
                every = find_scores(reader, question, Query())
                assert dict(every) == pytest.approx(expected, 1e-6)
                assert every == sorted(every, key=lambda item: (-item[1], item[0]))
                for limit in (1, 4, 10, 100, 1_000):
                    assert find_scores(reader, question, Query(limit=limit)) == every[:limit]
                    of_kind = find_scores(reader, question, Query(limit=limit, kinds=("note",)))
                    assert [seq for seq, _ in of_kind] == [seq for seq, _ in every[:limit]]


def find_scores(reader, question, query):
    return [(match.record.seq, match.score) for match in reader.match_text(question, query)]


def score_in_python(query, texts):
    """Return the scores of the texts that hold a token of the query, by position."""
    counts = {phrase: sum(phrase[0] in tokens for tokens in texts.values()) for phrase in query.phrases}
    corpus = CorpusStats(len(texts), sum(map(len, texts.values())), counts)
    positions = {
        seq: (len(tokens), {token: [place for place, own in enumerate(tokens) if own == token] for token in set(tokens)})
        for seq, tokens in texts.items()
        if any(phrase[0] in tokens for phrase in query.phrases)
    }  # fmt: skip
    return {seq: score for score, seq in bm25_scores(query, corpus, positions)}


def test_a_search_remembers_how_large_the_store_is(engine):
    for id in ("a", "b", "c"):
        write_note(engine, id, "heron")
    positions = engine._server.positions
    positions.newest = 0
    with engine.snapshot(FULL_REACH, single_query=True) as reader:
        assert len(reader.match_text("heron")) == 3
    assert positions.newest == 3
