"""Commands of every day, as a person types them: plain words, refusals that name what is known, nothing done by accident."""

import json

import pytest
from typer.testing import CliRunner

import lukasa
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.doctor import embedder_check

pytestmark = pytest.mark.requirement("DOO-2")


@pytest.fixture
def run(tmp_path):
    """Run a command line on one store and check the exit code."""

    def run(*words, expect=0):
        result = CliRunner().invoke(app, ["--store", str(tmp_path / "agents.db"), *words], catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def remembered(run):
    """Remember a fact and return its id."""
    return json.loads(run("remember", "Deploys run on Tuesday, after the smoke tests.", "--json").stdout)["id"]


def test_a_memory_is_updated_and_its_history_read_by_its_id_alone(run, remembered):
    run("update", remembered, "Deploys run on Thursday, after the smoke tests.")
    for words in (("history", remembered), ("history", "memory", remembered)):
        assert run(*words).stdout.count("smoke tests.") == 2
    assert "Thursday" in run("show", remembered).stdout


def test_an_id_of_two_kinds_asks_for_the_kind(run, remembered, tmp_path):
    with lukasa.open(tmp_path / "agents.db") as memory:
        memory.journal.write("note", "Another record.", id=remembered)
    assert "Name the kind before the id." in run("history", remembered, expect=2).stderr
    assert "Give its id" in run("history", "memory", remembered, "more", expect=2).stderr


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (("--agent", "", "log"), "Name the agent"),
        (("undo", "--author", ""), "Name an author"),
        (("context", "append", "s1", "boss", "Hello"), "user, assistant, system, tool, developer"),
        (("episode", "record", "Ship it", "--outcome", "splendid"), "success, failure, partial"),
        (("recall", "deploys", "--scope", "teem"), "shared"),
        (("log", "--scope", "teem"), "shared"),
        (("vault", "list", "--scope", "teem"), "shared"),
        (("vault", "list", "--tier", "gold"), "canon or register"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(run, remembered, words, known):
    assert known in run(*words, expect=2).stderr.replace("\n", " ")


def test_a_url_of_another_database_never_becomes_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["--store", "mysql://db/agents", "recall", "x"], catch_exceptions=False)
    assert result.exit_code == 2
    assert "postgresql://" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_undo_shows_what_it_would_revert_and_writes_nothing(run, remembered):
    run("--agent", "mallory", "remember", "Deploys run whenever you like, says mallory.")
    shown = run("undo", "--author", "mallory", "--dry-run").stdout
    assert "This would revert 1 record" in shown
    assert "To take this back" not in shown
    assert "whenever you like" in run("recall", "whenever you like").stdout


def test_an_erasure_shows_the_texts_and_finds_whole_words(run):
    run("remember", "Ann prefers tea in the afternoon.")
    run("remember", "The annual report is due in March.")
    shown = run("erase", "--subject", "ann", "--dry-run").stdout
    assert "Ann prefers tea" in shown
    assert "annual" not in shown
    run("erase", "--subject", "ann", "--exact", "--dry-run", expect=5)
    run("erase", "--subject", "Ann", "--exact", "--yes")
    assert "annual report" in run("vault", "list").stdout


def test_the_version_names_schema_and_extras(run):
    shown = run("--version").stdout
    assert f"lukasa {lukasa.__version__}" in shown
    assert "store schema" in shown
    assert "extras" in shown


def test_a_prediction_is_shown_with_all_its_fields(run):
    run("forecast", "predict", "Will the release ship by Friday?", "0.7", "--prediction-id", "p1")
    assert "Will the release ship by Friday?" in run("forecast", "show", "p1").stdout
    run("forecast", "show", "p2", expect=5)


def test_the_doctor_names_a_better_embedder():
    assert embedder_check("static", "minilm").state == "note"
    assert "lukasa reembed --embedder minilm" in embedder_check("hash", "minilm").said
    assert [embedder_check(*pair).state for pair in (("minilm", "static"), ("http:x", "minilm"))] == ["fine", "fine"]


def test_stats_and_doctor_say_which_embedder_the_store_uses(run, remembered):
    run("recall", "deploys")
    assert "embedder" in run("stats").stdout
    assert "embedder" in run("doctor").stdout


@pytest.mark.parametrize("arguments", [{"agent": None}, {"scopes": "shared"}])
def test_a_variable_that_was_never_set_does_not_become_the_owner(tmp_path, arguments):
    with pytest.raises(InvalidInput):
        lukasa.open(tmp_path / "agents.db", **arguments)
