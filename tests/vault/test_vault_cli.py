"""The vault commands: output, refusals and exit codes."""

import json

import pytest
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app
from lukasa.interfaces.outcomes import ExitCode


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"LUKASA_STORE": "v.db", "LUKASA_PROFILE": ""})

    def call(*words, **options):
        return runner.invoke(app, [*words], **options)

    return call


def parse_json(answer):
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_remember_keeps_a_mission_and_refuses_a_tick(run):
    assert (
        run("remember", "CANON: Mission — stabilise runtime, add tools in layers", "--category", "mission").exit_code
        == 0
    )
    refused = run("remember", "tick marker for burst 5")
    assert (refused.exit_code, "burst journal" in refused.output) == (ExitCode.REFUSED, True)
    assert "- [mission] CANON: Mission" in run("vault", "snapshot").stdout
    stats = parse_json(run("vault", "stats", "--json"))
    assert (stats["active"], stats["refused"]) == (1, {"noise": 1})


def test_remember_prints_a_refusal_as_json_with_its_code(run):
    answer = run("remember", "my password is hunter2", "--json")
    assert answer.exit_code == ExitCode.REFUSED
    assert json.loads(answer.stdout)["error"]["code"] == "pii"
    assert "hunter2" not in answer.output


def test_remember_search_recall_and_forget_a_memory(run):
    kept = parse_json(run("remember", "The staging database is called heron", "--tag", "db", "--json"))
    assert kept["tags"] == ["db"]
    assert (
        parse_json(run("vault", "search", "staging heron", "--profile", "lexical", "--json"))[0]["memory"]["id"]
        == kept["id"]
    )
    assert (
        parse_json(run("recall", "staging database", "--kind", "memory", "--json"))["hits"][0]["record"]["id"]
        == kept["id"]
    )
    assert run("forget", kept["id"]).exit_code == 0
    assert run("forget", kept["id"]).exit_code == ExitCode.NOT_FOUND
    assert run("forget", kept["id"], "other").exit_code == ExitCode.NOT_FOUND
    assert "no such memory" in run("vault", "list").stdout


def test_remember_reads_a_text_from_a_pipe(run):
    assert (
        parse_json(run("remember", "-", "--json", input="Deploys happen on Thursday\n"))["text"]
        == "Deploys happen on Thursday"
    )


def test_scan_reports_places_and_never_shows_values(run, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\ncard 4111 1111 1111 1111\n\xff pwd=hunter2!")
    answer = run("scan", "bad.txt", "--json")
    assert answer.exit_code == ExitCode.REFUSED
    assert json.loads(answer.stdout)["found"] == [
        {"line": 2, "column": 6, "class": "card"},
        {"line": 3, "column": 7, "class": "password"},
    ]
    shown = run("scan", "bad.txt").output
    assert "payment card" in shown
    assert "4111" not in shown
    assert run("scan", "-", input="nothing here").exit_code == 0
    assert run("scan", "missing.txt").exit_code == ExitCode.NOT_FOUND


def test_audit_counts_refusals_and_keeps_nothing(run, tmp_path):
    results = [
        {"memory": text}
        for text in ("Ada is allergic to nuts", "Ada is allergic to nuts!", "heartbeat", "Boris leads the Ghent office")
    ]
    (tmp_path / "mem0.json").write_text(json.dumps({"results": results}))
    answer = parse_json(run("audit", "mem0.json", "--json"))
    assert (answer["format"], answer["entries"], answer["added"]) == ("mem0", 4, 2)
    assert answer["refused_by_code"] == {"duplicate": 1, "noise": 1}
    assert [refusal["where"] for refusal in answer["refused"]] == ["entry 2", "entry 3"]
    assert not (tmp_path / "v.db").exists()
    assert "2 (50%) would be refused" in run("audit", "mem0.json").stdout
    assert "2 memories added, 0 already here, 2 refused" in run("import", "mem0.json", "--format", "mem0").stdout
    assert "nothing added, 2 already here" in run("import", "mem0.json", "--format", "mem0").stdout
    assert len(parse_json(run("vault", "list", "--json"))) == 2


def test_audit_ignores_the_capacity(run, tmp_path):
    words = [
        "alder",
        "birch",
        "cedar",
        "dogwood",
        "elder",
        "fir",
        "ginkgo",
        "hazel",
        "ivy",
        "juniper",
        "larch",
        "maple",
    ]
    texts = [f"{a} {b} {a[::-1]}" for a in words for b in words]
    (tmp_path / "mem0.json").write_text(json.dumps(texts))
    assert "full" not in parse_json(run("audit", "mem0.json", "--json"))["refused_by_code"]


def test_vault_promotes_a_register_that_others_corroborate(run):
    kept = parse_json(run("--agent", "orion", "remember", "The release is in May", "--topic", "r", "--json"))
    assert run("vault", "promote-to-canon", kept["id"]).exit_code == ExitCode.REFUSED
    assert run("--agent", "elysia", "vault", "corroborate", kept["id"]).exit_code == 0
    assert "corroborated by elysia, orion" in run("vault", "promote-to-canon", kept["id"]).stdout
    other = parse_json(run("remember", "Projects: email", "--topic", "p", "--json"))
    assert (
        "decided by Ada"
        in run("vault", "promote-to-canon", other["id"], "--by", "Ada", "--canonical-text", "Email is a project").stdout
    )


def test_note_directive_and_journal_write_and_list(run):
    assert run("vault", "note", "Call me Ada.").exit_code == 0
    assert run("vault", "directive", "Answer questions about deploys briefly.").exit_code == 0
    assert run("vault", "add-tick", "heartbeat").exit_code == 0
    assert parse_json(run("vault", "ticks", "--json"))[0]["text"] == "heartbeat"
    assert parse_json(run("vault", "notes", "--json"))[0]["text"] == "Call me Ada."
    assert parse_json(run("vault", "directives", "--json"))[0]["text"].startswith("Answer")
    assert "- Call me Ada." in run("vault", "snapshot-block").stdout
    assert "## Directives" in run("vault", "memory-block", "questions about deploys").stdout
    assert parse_json(run("vault", "snapshot-block", "--budget", "5", "--json")) == {"text": "", "tokens": 0}


def test_import_with_refusals_names_their_lines_and_exits_with_refused(run, tmp_path):
    good = {"id": "aaaaaaaaaaaa", "text": "Deploys happen on Thursday", "created_at": "2026-01-01T00:00:00Z"}
    (tmp_path / "vault.jsonl").write_text(json.dumps(good) + "\nnot json\n")
    answer = run("vault", "import", "vault.jsonl", "--json")
    assert answer.exit_code == ExitCode.REFUSED
    done = json.loads(answer.stdout)
    assert (done["memories"], done["refused"][0]["line"], done["refused"][0]["code"]) == (1, 2, "bad_line")
    assert run("vault", "import", "nothing.jsonl").exit_code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("command", ["list", "stats", "snapshot", "propose-deletions", "find-consolidation-candidates"])
def test_reading_commands_do_not_create_a_missing_store(command, run, tmp_path):
    assert run("vault", command).exit_code == ExitCode.NOT_FOUND
    assert not (tmp_path / "v.db").exists()
