"""The trust commands: output, exit codes and arguments; the chart and the benchmark."""

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from lukasa.charts import Polyline
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.outcomes import ExitCode
from lukasa.trust.chart import draw_trust_chart, sparkline
from lukasa_bench import trust as benchmark
from lukasa_bench.trust import TrustBar, TrustFigure, rank_correlation
from support.narrow import present

pytestmark = pytest.mark.requirement("DOO-2")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    runner = CliRunner(env={"LUKASA_STORE": str(tmp_path / "t.db")})

    def command(*words, ends=ExitCode.OK):
        result = runner.invoke(app, ["trust", *words])
        assert result.exit_code == ends, result.output
        return result.stdout if "--json" not in words else json.loads(result.stdout)

    return command


@pytest.mark.requirement("TRU-1", "TRU-3")
def test_show_prints_the_score_with_its_parts(run):
    command = ("log-dissent", "critic-1", "The decision ignores …", "--rubric-citation", "Accuracy")
    run(*command, "--rubric-citation", "Completeness", "--impact")
    shown = run("score", "critic-1", "--json")
    assert shown["agent_name"] == "critic-1"
    assert shown["trust_score"] == pytest.approx(0.4 + 0.3 * 0.48 + 0.3)
    assert shown["score"]["parts"]["mean_depth"]["value"] == pytest.approx(0.48)
    assert shown["score"]["interval"][0] < shown["trust_score"] <= shown["score"]["interval"][1]
    assert shown["score"]["events"] == 1


@pytest.mark.requirement("TRU-6", "TRU-7")
def test_an_override_is_logged_reverted_and_shown(run):
    logged = run("log-override", "creator", "a", "b", "--by", "ada", "--round-id", "r1", "--json")
    assert run("check-reverts", "--json") == []
    (reverted,) = run("revert", logged["id"], "--by", "ben", "--json")
    assert (reverted["regret"], reverted["reverted_by"]) == (True, "ben")
    run("revert", logged["id"], "--by", "ben", ends=ExitCode.REFUSED)
    run("revert", "nothing", "--by", "ben", ends=ExitCode.NOT_FOUND)
    assert run("controversy", "--json")[0]["reverts"] == 1
    assert run("influence", "--json")["reverts"] == {"ada": {"ben": 1}}


@pytest.mark.requirement("TRU-6")
def test_an_artifact_is_named_by_scope_kind_and_id(run):
    command = ("log-override", "creator", "a", "b", "--artifact")
    run(*command, "nonsense", ends=ExitCode.USAGE)
    run(*command, "shared/adr/none", ends=ExitCode.NOT_FOUND)


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (("score", "nobody"), ExitCode.NOT_FOUND),
        (("history", "nobody"), ExitCode.NOT_FOUND),
        (("judge", "nothing", "--impact"), ExitCode.NOT_FOUND),
        (("judge", "nothing"), ExitCode.USAGE),
        (("log-dissent", "a", " "), ExitCode.REFUSED),
        (("log-dissent", "", "x"), ExitCode.REFUSED),
        (("rubric", "show"), ExitCode.NOT_FOUND),
        (("rubric", "set", "Accuracy", "--by", "ada"), ExitCode.USAGE),
        (("rubric", "set", "Accuracy=-1", "--by", "ada"), ExitCode.REFUSED),
        (("rubric", "apply", "nothing", "--by", "ada"), ExitCode.NOT_FOUND),
        (("import", "missing.json"), ExitCode.NOT_FOUND),
        (("check-reverts", "--round-id", "r1"), ExitCode.USAGE),
    ],
)
def test_each_refusal_has_its_exit_code(run, words, ends):
    run(*words, ends=ends)


def test_the_commands_refuse_an_agent(run, tmp_path):
    store = ["--store", str(tmp_path / "t.db")]
    assert CliRunner().invoke(app, [*store, "trust", "register", "x"]).exit_code == ExitCode.OK
    result = CliRunner().invoke(app, [*store, "--agent", "x", "trust", "agents"])
    assert result.exit_code == ExitCode.REFUSED


@pytest.mark.requirement("TRU-16")
def test_agents_are_exported_and_imported(run, tmp_path):
    run("log-dissent", "a/b", "An objection of some length about the matter at hand", "--no-impact")
    assert len(run("export", "out", "--json")) == 1
    result = CliRunner().invoke(app, ["--store", "other.db", "trust", "import", "out", "--json"])
    assert json.loads(result.stdout)[0] | {"file": ""} == {
        "file": "",
        "agent": "a/b",
        "dissents": 1,
        "overrides": 0,
        "refused": "",
    }
    run("import", "out", ends=ExitCode.REFUSED)
    (tmp_path / "bad.json").write_text("{")
    run("import", "bad.json", ends=ExitCode.DAMAGED)


def test_the_output_holds_no_terminal_escapes_from_agents(run):
    run("log-dissent", "a", "red \x1b[31m alert " * 5, "--impact")
    assert "\x1b" not in run("predict", "alert")
    assert "\x1b" not in run("score", "a")


# Charts


def points(*scores):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [(start + timedelta(days=day), score) for day, score in enumerate(scores)]


@pytest.mark.requirement("TRU-3")
def test_a_sparkline_shows_trust_in_equal_steps_of_time():
    assert sparkline([]) == ""
    assert sparkline(points(0.6)) == "▅"
    line = sparkline(points(0.0, 0.5, 1.0), 9)
    assert (len(line), line[0], line[-1]) == (9, "▁", "█")


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize("agent", ["critic-1", "<script>\"&'", "a\x07b", "漢字"])
@pytest.mark.parametrize("scores", [(), (0.6,), (0.6, 0.9, 0.1)])
def test_the_chart_is_valid_xml_for_any_name_of_an_agent(agent, scores):
    drawn = ET.fromstring(draw_trust_chart(agent, points(*scores)).svg())
    assert drawn.tag.endswith("svg")
    assert present(drawn[0].text).startswith("Trust of")


def test_the_chart_draws_steps_from_the_first_score_to_the_last():
    (line,) = [shape for shape in draw_trust_chart("a", points(0.6, 1.0, 0.0)).shapes if isinstance(shape, Polyline)]
    assert [round(x) for x, _ in line.points] == [44, 44, 374, 374, 704, 704, 704]
    assert line.points[0][1] == pytest.approx(210 - 0.6 * 176)
    assert line.points[-1] == (704, 210)


def test_a_picture_is_written_to_a_file(run, tmp_path):
    run("log-dissent", "a", "An objection of some length about the matter at hand", "--no-impact")
    run("plot", "a", "--out", "a.svg")
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    run("plot", "a", "--out", "a.png", ends=ExitCode.USAGE)
    assert not (tmp_path / "a.png").exists()


# The benchmark


@pytest.mark.slow
def test_the_benchmark_runs_and_reports_its_figures(monkeypatch):
    report = benchmark.run(1, rounds=12, sizes=(100,), embedder="hash", question_count=2, flood_size=20)
    monkeypatch.setattr(benchmark, "run", lambda seeds, **_: report)
    shown = json.loads(CliRunner().invoke(app, ["bench", "trust", "--json"]).stdout)
    cases = {figure["case"]: figure for figure in shown["figures"]}
    assert cases["score of an agent with 100 events"]["met"]
    assert cases["largest share of an answer the flood had"]["mean"] <= 0.5
    assert "bars met" in CliRunner().invoke(app, ["bench", "trust", "--sizes", "1k"]).stdout


def test_rank_correlation_is_spearmans():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(0.866, abs=1e-3)
    assert rank_correlation([1, 1], [1, 2]) == 0


def test_a_bar_is_compared_with_the_worst_seed():
    assert TrustFigure("x", (0.9, 0.8), bar=TrustBar("least", 0.8)).is_met
    assert not TrustFigure("x", (0.9, 0.7), bar=TrustBar("least", 0.8)).is_met
    assert not TrustFigure("x", (0.0, 3.0), bar=TrustBar("most", 2)).is_met
    assert TrustFigure("x", (1.0,)).is_met is None
