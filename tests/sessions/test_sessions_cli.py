"""Sessions, backups and forecasts from the command line: answers, exit codes, files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LUKASA_FILES", raising=False)
    runner = CliRunner(env={"LUKASA_STORE": "agents.db"})

    def call(*words, expect=0, **options):
        answer = runner.invoke(app, [str(word) for word in words], **options)
        assert answer.exit_code == expect, answer.output
        return answer

    return call


@pytest.fixture
def told(run):
    return lambda *words, **options: json.loads(run(*words, "--json", **options).stdout)


@pytest.fixture
def saved(run, make, tmp_path):
    (tmp_path / "state.json").write_text(json.dumps(make.state()))
    run("checkpoint", "save", "demo", "--state", "state.json")


@pytest.mark.requirement("CHK-2", "CHK-13")
def test_a_state_is_saved_listed_shown_verified_and_recovered(run, told, saved, tmp_path, make, content):
    assert told("checkpoint", "list")[0]["id"] == "demo"
    (entry,) = told("checkpoint", "list", "demo")
    assert (entry["number"], entry["compressed"]) == (1, False)
    assert content(told("checkpoint", "show", "demo")) == content(make.state())
    run("checkpoint", "show", "demo", "--out", "out.json")
    assert content(json.loads(Path("out.json").read_bytes())) == content(make.state())
    assert told("checkpoint", "verify", "demo")[0]["fault"] is None
    report = told("recover", "demo")
    assert (report["mode"], report["whole"], report["number"]) == ("normal", True, 1)
    assert content(report["state"]) == content(make.state())
    run("checkpoint", "save", "demo", "--state", "-", input=json.dumps(make.state()))
    assert told("checkpoint", "list", "demo")[0]["number"] == 2
    assert [event["event"] for event in told("checkpoint", "show", "demo", "--events")] == ["checkpoint"] * 2


@pytest.mark.requirement("CHK-9")
def test_damage_is_told_with_exit_code_six_and_twice_is_fine(run, told, saved, tmp_path):
    run("checkpoint", "save", "demo", "--state", "state.json")
    (tmp_path / "agents.db.files/sessions/demo/checkpoint_002.json").write_text("rubbish")
    run("checkpoint", "verify", "demo", expect=6)
    report = told("recover", "demo", expect=6)
    assert report["mode"] == "corruption"
    assert report["damaged"][0]["number"] == 2
    assert told("recover", "demo")["damaged"] == []
    (tmp_path / "agents.db.files/sessions/demo/checkpoint_003.json").write_text("")
    shown = run("recover", "demo", expect=6).stdout
    assert "Damaged: sessions/demo/checkpoint_003.json: it is empty" in shown
    assert "Nothing that was acknowledged is missing." in shown


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["recover", "nobody"], 5),
        (["checkpoint", "show", "nobody"], 5),
        (["checkpoint", "verify", "nobody"], 5),
        (["checkpoint", "prune", "nobody"], 5),
        (["checkpoint", "save", "x", "--state", "missing.json"], 5),
        (["checkpoint", "save", "x", "--state", "bad.json"], 6),
        (["checkpoint", "save", "x", "--state", "unfit.json"], 3),
        (["checkpoint", "save", "demo", "--state", "state.json", "--number", "1"], 4),
        (["restore", "nowhere", "--into", "t.db"], 2),
        (["restore", "nowhere"], 2),
        (["backup", "ftp://x/y"], 2),
        (["forecast", "resolve", "nobody", "yes"], 5),
        (["forecast", "resolve", "nobody", "perhaps"], 2),
        (["forecast", "add", "?", "1.5"], 3),
        (["forecast", "plot", "--out", "x.pdf"], 2),
        (["forecast", "expire"], 2),
    ],
)
def test_what_cannot_be_done_ends_with_a_sentence_and_its_code(run, saved, words, code, tmp_path):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "unfit.json").write_text('{"active_predictions": [{}]}')
    answer = run(*words, expect=code)
    assert "Traceback" not in answer.output
    assert "error" in json.loads(run(*words, "--json", expect=code).stdout)


@pytest.mark.requirement("CHK-5", "CHK-11")
def test_pruning_tells_what_left(run, told, saved):
    for _ in range(4):
        run("checkpoint", "save", "demo", "--state", "state.json")
    done = told("checkpoint", "prune", "demo", "--keep", "2", "--compressed", "1")
    assert done["compressed"] == [1, 2, 3, 4]
    assert done["dropped"] == [1, 2, 3]
    assert done["archived"]["signal_history"] == 2
    assert "Archived nothing" in run("checkpoint", "prune", "demo").stdout
    assert run("checkpoint", "show", "demo", "--archive").stdout.count("archived signal_history") == 1


@pytest.mark.requirement("CHK-6")
@pytest.mark.parametrize("secret", [None, "hush"])
def test_a_backup_comes_back_with_an_equal_export(run, told, saved, tmp_path, secret, monkeypatch):
    url = f"file://{tmp_path}/b"
    if secret:
        (tmp_path / "secret").write_text(secret + "\n")
    words = ["--secret-file", "secret"] if secret else []
    made = told("backup", url, *words)
    assert made["encrypted"] == bool(secret)
    assert told("restore", url, "--check")["number"] == 1
    shown = run("restore", url, "--into", "t.db", *words).stdout
    assert "The proof holds." in shown
    assert run("export", "-").stdout == run("--store", "t.db", "export", "-").stdout
    run("restore", url, "--into", "t.db", *words, expect=2)
    if secret:
        run("restore", url, "--into", "u.db", expect=2)
        monkeypatch.setenv("LUKASA_BACKUP_SECRET", secret)
        run("restore", url, "--into", "u.db")


@pytest.mark.requirement("CHK-6")
def test_a_session_is_backed_up_and_restored_by_itself(run, told, saved):
    assert told("backup", "b", "--session", "demo")["name"] == "session-demo"
    assert told("--store", "other.db", "restore", "b", "--session", "demo")["mode"] == "normal"
    assert "Restored the session demo" in run("--store", "third.db", "restore", "b", "--session", "demo").stdout


@pytest.mark.requirement("FOR-1", "FOR-4")
def test_a_forecast_is_made_revised_resolved_scored_and_drawn(run, told, tmp_path):
    made = told("forecast", "add", "Will it ship?", "0.6", "--id", "p1", "--market", "m", "--category", "releases",
                "--level", "0.8", "--interval", "0.5", "0.7", "--due", "2026-03-01")  # fmt: skip
    assert (made["market_id"], made["confidence_interval"], made["due"]) == ("m", [0.5, 0.7], "2026-03-01T00:00:00Z")
    assert told("forecast", "revise", "p1", "0.8")["num_updates"] == 1
    assert "p1: 0.8, resolved, yes." in run("forecast", "resolve", "p1", "yes").stdout
    scores = told("forecast", "scores")
    assert scores["brier_score"] == pytest.approx(0.04)
    assert scores["learning"]["applies"] is False
    assert "Brier score" in run("forecast", "scores", "--window", "30").stdout
    run("forecast", "plot", "--out", "r.svg")
    run("forecast", "plot", "--out", "r.png")
    assert Path("r.svg").read_text().startswith("<svg")
    assert Path("r.png").read_bytes().startswith(b"\x89PNG")
    assert "0.8–0.9" in run("forecast", "plot").stdout
    run("forecast", "add", "Later?", "0.5", "--id", "p2", "--due", "2020-01-01")
    assert told("forecast", "expire", "--due") == {"expired": ["p2"]}
    assert [body["prediction_id"] for body in told("forecast", "list", "--status", "expired")] == ["p2"]
    assert "Will it ship?" in run("forecast", "list").stdout


@pytest.mark.requirement("FOR-4")
def test_without_resolved_predictions_there_are_no_scores(run, told):
    run("forecast", "add", "?", "0.5")
    assert "No prediction is resolved yet." in run("forecast", "scores").stdout
    assert told("forecast", "scores")["brier_score"] is None
    assert "no resolved predictions" in run("forecast", "plot").stdout


@pytest.mark.requirement("LOG-5")
def test_erasing_a_subject_takes_the_files_that_name_it_too(run, told, tmp_path):
    for name, note in (("a", 'Ada "the" Lövelace'), ("b", "nobody")):
        (tmp_path / "state.json").write_text(json.dumps({"notes": note}))
        for _ in range(3):
            run("checkpoint", "save", name, "--state", "state.json")
    run("checkpoint", "prune", "a", "--keep", "1")
    erased = told("erase", "--subject", 'ada "THE" lövelace', "--yes")["erased"]
    assert erased["files"] == 3
    left = [file.parent.name for file in (tmp_path / "agents.db.files").rglob("*") if file.is_file()]
    assert left == ["b"] * 3
    run("erase", "session", "b", "--yes")
    assert not [file for file in (tmp_path / "agents.db.files").rglob("*") if file.is_file()]


@pytest.mark.requirement("CHK-13")
def test_the_predictions_of_a_state_can_become_forecasts(run, told, saved):
    run("checkpoint", "save", "demo", "--state", "state.json", "--forecasts")
    assert [body["prediction_id"] for body in told("forecast", "list")] == ["pred-0", "pred-1", "pred-2"]
