"""The benchmark of search measures every case on both sides, and its reference is honest. No test here looks at a clock."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app
from lukasa_bench import search
from lukasa_bench.cli import print_report
from lukasa_bench.conversations import (
    FUNCTION_WORDS,
    NAMES,
    QUESTION_TEMPLATES,
    TURNS_IN_SESSION,
    VECTOR_LENGTH,
    ConversationCorpus,
    RareWordEmbedder,
)
from lukasa_bench.reference_hybrid import HybridReference
from lukasa_bench.report import BenchmarkBar
from support.postgres import shared_server

pytestmark = pytest.mark.slow

TINY = search.SearchEffort(questions=5, min_questions=5)
ON_EACH_SIDE = {
    "bulk add, a record and its vector", "recall, top 10: mean", "recall, top 10: median", "recall, top 10: p95", "recall, top 10: p99", "p99 over p50",
    *(f"asked with {sort}" for sort in QUESTION_TEMPLATES), "reference spared stop words: mean", "by the clock on the wall: median",
    "cold start: first answer", "cold start: of it, Python and imports", "cold start: vectors computed again", "resident memory",
}  # fmt: skip


@pytest.fixture(scope="module")
def progress_reports():
    return []


@pytest.fixture(scope="module")
def report(progress_reports):
    """A run at two small sizes that stand for the two that the bars speak of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BULK_BAR_SIZE", 100)
        patch.setattr(search, "BAR_SIZE", 100)
        patch.setattr(search, "LARGE_SIZE", 200)
        return search.run((200, 100), 1, effort=TINY, progress=lambda *words: progress_reports.append(words))


def test_a_run_measures_every_case_at_every_size(report):
    expected = {(case, size) for case in {*ON_EACH_SIDE, "on disk"} for size in (100, 200)}
    assert {(row.case, row.size) for row in report.rows} == expected | {("cost over that at 100", 200)}


def test_every_figure_is_finite_and_no_vector_is_computed_again(report):
    for row in report.rows:
        assert all(math.isfinite(figure) for figure in (row.lukasa, row.reference)), row
        assert row.lukasa == 0 if row.unit == "count" else row.lukasa > 0, row


def test_the_promised_bars_are_held_against_the_sizes_they_speak_of(report):
    assert {(row.case, row.size): row.bar for row in report.rows if row.bar is not None} == {
        ("bulk add, a record and its vector", 100): BenchmarkBar("ratio", "most", 1.3),
        ("recall, top 10: mean", 100): BenchmarkBar("ratio", "most", 0.4),
        ("recall, top 10: median", 100): BenchmarkBar("ratio", "most", 0.4),
        ("p99 over p50", 100): BenchmarkBar("lukasa", "most", 4.0),
        ("p99 over p50", 200): BenchmarkBar("lukasa", "most", 4.0),
        ("cold start: first answer", 100): BenchmarkBar("lukasa", "most", 1.5),
        ("cold start: vectors computed again", 100): BenchmarkBar("lukasa", "most", 0),
        ("cold start: vectors computed again", 200): BenchmarkBar("lukasa", "most", 0),
        ("resident memory", 200): BenchmarkBar("lukasa", "most", 1.2e9),
        ("cost over that at 100", 200): BenchmarkBar("lukasa", "most", 3.0),
    }


def test_run_reports_progress_of_each_stage(report, progress_reports):
    for size in (100, 200):
        assert (f"building {size}", size, size) in progress_reports
        assert (f"measuring at {size}", 3, 3) in progress_reports


def test_a_report_is_plain_json_and_a_table(report, capsys):
    assert json.loads(json.dumps(report.as_json(), allow_nan=False))["benchmark"] == "search"
    print_report(report)
    shown = capsys.readouterr().out
    assert all(f"| {row.case} " in shown for row in report.rows)
    assert "MB" in shown


def test_fewer_questions_are_asked_where_the_reference_is_slow_and_every_sort_as_often():
    effort = search.SearchEffort()
    counts = [effort.questions_at(size) for size in (1_000, 100_000, 1_000_000, 100_000_000)]
    assert counts == [60, 60, 20, 20]
    assert search.SearchEffort(7, 1).questions_at(1_000) == 5


def test_talks_are_the_same_for_the_same_seed():
    one, other = ConversationCorpus(3), ConversationCorpus(3)
    assert one.take(50) == other.take(50)
    assert one.questions(20) == other.questions(20)
    assert one.take(5) != ConversationCorpus(4).take(5)


def test_talks_are_held_in_sessions_by_several_speakers_and_some_turns_are_long():
    turns = ConversationCorpus(3).take(100 * TURNS_IN_SESSION)
    sessions: dict[Any, list[Any]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    assert {len(turns) for turns in sessions.values()} == {TURNS_IN_SESSION}
    assert all(2 <= len({turn.author for turn in turns}) <= 4 for turns in sessions.values())
    assert {turn.author for turn in turns} == set(NAMES)
    assert [turn.moment for turn in turns] == sorted(turn.moment for turn in turns)
    long = sum(len(turn.text) > 1_000 for turn in turns) / len(turns)
    assert 0.01 < long < 0.06
    assert 0.02 < sum("tkt-" in turn.text.lower() for turn in turns) / len(turns) < 0.1


def test_common_words_are_as_common_as_in_english():
    texts = [set(turn.text.lower().replace(".", "").split()) for turn in ConversationCorpus(3).take(1_000)]
    assert sum("the" in words for words in texts) > 500
    common, *_ = FUNCTION_WORDS
    assert common == "the"
    holding: dict[str, int] = {}
    for words in texts:
        for word in words:
            holding[word] = holding.get(word, 0) + 1
    assert sorted(holding.values())[len(holding) // 2] <= 5


def test_vectors_are_near_for_turns_of_one_session_and_the_same_in_every_process():
    turns = ConversationCorpus(3).take(10 * TURNS_IN_SESSION)
    vectors = RareWordEmbedder().embed([turn.text for turn in turns])
    assert vectors.shape == (len(turns), VECTOR_LENGTH)
    cosines = vectors @ vectors.T
    within = [cosines[at, at + 1] for at in range(0, len(turns), TURNS_IN_SESSION)]
    across = [cosines[at, at - 1] for at in range(TURNS_IN_SESSION, len(turns), TURNS_IN_SESSION)]
    assert sum(within) / len(within) > sum(across) / len(across) + 0.05
    assert (RareWordEmbedder().embed([turns[-1].text])[0] == vectors[-1]).all()


@pytest.fixture(scope="module")
def server():
    with shared_server() as server:
        yield server


@pytest.fixture(params=["file", "postgresql"])
def hybrid(request, tmp_path):
    if request.param == "file":
        yield HybridReference(tmp_path / "bare.db", tmp_path / "vectors.npy")
    else:
        with request.getfixturevalue("server").database() as url:
            yield HybridReference(url, tmp_path / "vectors.npy")


def test_the_reference_finds_by_words_and_by_meaning(hybrid):
    turns, gist = ConversationCorpus(3).take(200), RareWordEmbedder()
    vectors = gist.embed([turn.text for turn in turns])
    hybrid.reserve(200)
    hybrid.add_all(turns[:150], vectors[:150])
    hybrid.add_all(turns[150:], vectors[150:])
    hybrid.load_matrix()
    for nr in (0, 77, 199):
        assert hybrid.ask(turns[nr].text, vectors[nr])[0][1] == turns[nr].id
        assert hybrid.ask("", vectors[nr])[0][1] == turns[nr].id
        assert len(hybrid.ask(turns[nr].text, vectors[nr], frozenset(FUNCTION_WORDS))) == 10
    hybrid.close()


def test_a_server_is_measured_too(server):
    with server.database() as url:
        report = search.run((100,), 1, effort=TINY, server=url)
    assert {row.case for row in report.rows} == ON_EACH_SIDE


def test_the_command_measures_and_explains_a_wrong_size():
    result = CliRunner().invoke(app, ["--json", "bench", "search", "--sizes", "60", "--rounds", "1"])
    assert result.exit_code == 0
    assert {row["case"] for row in json.loads(result.stdout)["rows"]} == {*ON_EACH_SIDE, "on disk"}
    wrong = CliRunner().invoke(app, ["bench", "search", "--sizes", "many"])
    assert wrong.exit_code == 2
    assert "many" in wrong.output
