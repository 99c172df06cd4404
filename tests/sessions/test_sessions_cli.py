"""Commands for sessions, backups and forecasts: output, exit codes, files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lukasa
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
def run_json(run):
    return lambda *words, **options: json.loads(run(*words, "--json", **options).stdout)


@pytest.fixture
def saved(run, make, tmp_path):
    (tmp_path / "state.json").write_text(json.dumps(make.state()))
    run("checkpoint", "save", "demo", "--state", "state.json")


@pytest.mark.requirement("CHK-2", "CHK-13")
def test_checkpoint_commands_save_list_show_and_verify_and_recover_reports(
    run, run_json, saved, tmp_path, make, content
):
    assert run_json("checkpoint", "list")[0]["id"] == "demo"
    (entry,) = run_json("checkpoint", "checkpoints", "demo")
    assert (entry["number"], entry["compressed"]) == (1, False)
    assert content(run_json("checkpoint", "state", "demo")) == content(make.state())
    assert content(json.loads(run("checkpoint", "state", "demo").stdout)) == content(make.state())
    assert run_json("checkpoint", "verify", "demo")[0]["fault"] is None
    report = run_json("recover", "demo")
    assert (report["mode"], report["whole"], report["number"]) == ("normal", True, 1)
    assert content(report["state"]) == content(make.state())
    run("checkpoint", "save", "demo", "--state", "-", input=json.dumps(make.state()))
    assert run_json("checkpoint", "checkpoints", "demo")[0]["number"] == 2
    assert [event["event"] for event in run_json("checkpoint", "events", "demo")] == ["checkpoint"] * 2


@pytest.mark.requirement("CHK-9")
def test_verify_and_recover_report_damage_with_exit_code_six(run, run_json, saved, tmp_path):
    run("checkpoint", "save", "demo", "--state", "state.json")
    (tmp_path / "agents.db.files/sessions/demo/checkpoint_002.json").write_text("rubbish")
    run("checkpoint", "verify", "demo", expect=6)
    report = run_json("recover", "demo", expect=6)
    assert report["mode"] == "corruption"
    assert report["damaged"][0]["number"] == 2
    assert run_json("recover", "demo")["damaged"] == []
    (tmp_path / "agents.db.files/sessions/demo/checkpoint_003.json").write_text("")
    shown = run("recover", "demo", expect=6).stdout
    assert "Damaged: sessions/demo/checkpoint_003.json: it is empty" in shown
    assert "Nothing that was acknowledged is missing." in shown


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["recover", "nobody"], 5),
        (["checkpoint", "state", "nobody"], 5),
        (["checkpoint", "verify", "nobody"], 5),
        (["checkpoint", "prune", "nobody"], 5),
        (["checkpoint", "save", "x", "--state", "missing.json"], 5),
        (["checkpoint", "save", "x", "--state", "bad.json"], 6),
        (["checkpoint", "save", "x", "--state", "unfit.json"], 3),
        (["checkpoint", "save", "demo", "--state", "state.json", "--checkpoint-number", "1"], 4),
        (["restore", "nowhere", "--into", "t.db"], 2),
        (["restore", "nowhere"], 2),
        (["backup", "ftp://x/y"], 2),
        (["forecast", "resolve", "nobody", "yes"], 5),
        (["forecast", "resolve", "nobody", "perhaps"], 3),
        (["forecast", "predict", "?", "1.5"], 3),
        (["forecast", "plot", "--out", "x.pdf"], 2),
        (["forecast", "expire"], 2),
    ],
)
def test_a_failing_command_ends_with_a_message_and_its_exit_code(run, saved, words, code, tmp_path):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "unfit.json").write_text('{"active_predictions": [{}]}')
    answer = run(*words, expect=code)
    assert "Traceback" not in answer.output
    assert "error" in json.loads(run(*words, "--json", expect=code).stdout)


@pytest.mark.requirement("CHK-5", "CHK-11")
def test_prune_prints_what_it_compressed_dropped_and_archived(run, run_json, saved):
    for _ in range(4):
        run("checkpoint", "save", "demo", "--state", "state.json")
    assert run_json("checkpoint", "prune", "demo")["archived"]["signal_history"] == 2
    done = run_json("checkpoint", "compress-old-checkpoints", "demo", "--keep", "2", "--compressed", "1")
    assert done["compressed"] == [1, 2, 3, 4]
    assert done["dropped"] == [1, 2, 3]
    assert "Archived nothing" in run("checkpoint", "prune", "demo").stdout
    assert run("checkpoint", "archive", "demo").stdout.count("archived signal_history") == 1


@pytest.mark.requirement("CHK-6")
@pytest.mark.parametrize("secret", [None, "hush"])
def test_a_restored_backup_has_the_same_export(run, run_json, saved, tmp_path, secret, monkeypatch):
    url = f"file://{tmp_path}/b"
    if secret:
        (tmp_path / "secret").write_text(secret + "\n")
    words = ["--secret-file", "secret"] if secret else []
    made = run_json("backup", url, *words)
    assert made["encrypted"] == bool(secret)
    assert run_json("restore", url, "--check")["number"] == 1
    shown = run("restore", url, "--into", "t.db", *words).stdout
    assert "The log is the same." in shown
    assert run("export", "-").stdout == run("--store", "t.db", "export", "-").stdout
    run("restore", url, "--into", "t.db", *words, expect=2)
    if secret:
        run("restore", url, "--into", "u.db", expect=2)
        monkeypatch.setenv("LUKASA_BACKUP_SECRET", secret)
        run("restore", url, "--into", "u.db")


@pytest.mark.requirement("CHK-6")
def test_backup_and_restore_of_one_session(run, run_json, saved):
    assert run_json("backup", "b", "--session", "demo")["name"] == "session-demo"
    assert run_json("--store", "other.db", "restore", "b", "--session", "demo")["mode"] == "normal"
    assert "Restored the session demo" in run("--store", "third.db", "restore", "b", "--session", "demo").stdout


@pytest.mark.requirement("FOR-1", "FOR-4")
def test_forecast_commands_add_revise_resolve_score_and_plot(run, run_json, tmp_path):
    made = run_json("forecast", "predict", "Will it ship?", "0.6", "--prediction-id", "p1", "--market-id", "m", "--category", "releases",
                "--confidence-level", "0.8", "--confidence-interval", "0.5", "0.7", "--due", "2026-03-01")  # fmt: skip
    assert (made["market_id"], made["confidence_interval"], made["due"]) == ("m", [0.5, 0.7], "2026-03-01T00:00:00Z")
    assert run_json("forecast", "revise", "p1", "0.8")["num_updates"] == 1
    assert "p1: 0.8, resolved, yes." in run("forecast", "resolve", "p1", "yes").stdout
    scores = run_json("forecast", "scores")
    assert scores["brier_score"] == pytest.approx(0.04)
    assert scores["learning"]["applies"] is False
    assert "Brier score" in run("forecast", "scores", "--window", "30").stdout
    run("forecast", "plot", "--out", "r.svg")
    assert Path("r.svg").read_text().startswith("<svg")
    assert "0.8–0.9" in run("forecast", "plot").stdout
    run("forecast", "predict", "Later?", "0.5", "--prediction-id", "p2", "--due", "2020-01-01")
    assert run_json("forecast", "expire-due") == {"expired": ["p2"]}
    assert [body["prediction_id"] for body in run_json("forecast", "list", "--status", "expired")] == ["p2"]
    assert "Will it ship?" in run("forecast", "list").stdout


@pytest.mark.requirement("FOR-4")
def test_forecast_scores_says_that_no_prediction_is_resolved(run, run_json):
    run("forecast", "predict", "?", "0.5")
    assert "No prediction is resolved yet." in run("forecast", "scores").stdout
    assert run_json("forecast", "scores")["brier_score"] is None
    assert "no resolved predictions" in run("forecast", "plot").stdout


@pytest.mark.requirement("LOG-5")
def test_erase_of_a_subject_deletes_the_files_that_name_it(run, run_json, tmp_path):
    for name, note in (("a", 'Ada "the" Lövelace'), ("b", "nobody")):
        (tmp_path / "state.json").write_text(json.dumps({"notes": note}))
        for _ in range(3):
            run("checkpoint", "save", name, "--state", "state.json")
    run("checkpoint", "compress-old-checkpoints", "a", "--keep", "1")
    erased = run_json("erase", "--subject", 'ada "THE" lövelace', "--yes")["erased"]
    assert [name.split("/")[1] for name in erased["files"]] == ["a", "a", "a"]
    left = [file.parent.name for file in (tmp_path / "agents.db.files").rglob("*") if file.is_file()]
    assert left == ["b"] * 3
    run("erase", "session", "b", "--yes")
    assert not [file for file in (tmp_path / "agents.db.files").rglob("*") if file.is_file()]


@pytest.mark.requirement("CHK-13")
def test_checkpoint_save_turns_predictions_into_forecasts(run, run_json, saved):
    run("forecast", "take-in", "state.json")
    assert [body["prediction_id"] for body in run_json("forecast", "list")] == ["pred-0", "pred-1", "pred-2"]


@pytest.mark.requirement("CHK-2")
def test_checkpoint_show_prints_a_checkpoint_by_its_number(run, run_json, saved, make):
    run("checkpoint", "save", "demo", "--state", "-", input=json.dumps(make.state(1)))
    assert len(run_json("checkpoint", "show", "demo", "1")["active_predictions"]) == 3
    assert len(run_json("checkpoint", "show", "demo", "2")["active_predictions"]) == 1
    run("checkpoint", "show", "demo", "9", expect=5)


@pytest.mark.requirement("CHK-13")
def test_a_folder_of_the_document_is_imported(run, run_json, make, tmp_path):
    folder = tmp_path / ".voxsigil/sessions/demo"
    folder.mkdir(parents=True)
    (folder / "checkpoint_5.json").write_text(json.dumps(make.state()))
    assert run_json("import", ".voxsigil", "--format", "voxsigil")["added"] == 1
    assert run_json("import", ".voxsigil", "--format", "voxsigil")["present"] == 1
    assert run_json("checkpoint", "checkpoints", "demo")[0]["number"] == 5
    run("forecast", "predict", "Will it hold?", "0.6", "--prediction-id", "later")
    predictions = run_json("checkpoint", "state", "demo")["active_predictions"]
    assert [item["prediction_id"] for item in predictions] == ["pred-0", "pred-1", "pred-2", "later"]


@pytest.mark.requirement("CHK-8")
def test_recover_says_that_a_session_is_alive(run, run_json, tmp_path):
    with lukasa.open("agents.db") as memory:
        memory.sessions.start("demo")
        assert run_json("recover", "demo")["mode"] == "alive"
        assert "running process" in run("recover", "demo").output
