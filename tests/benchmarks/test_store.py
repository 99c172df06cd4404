"""The benchmark measures every case on both sides, and its reference is honest. No test here looks at a clock."""

import json
import math

import pytest
from typer.testing import CliRunner

from lukasa.errors import InvalidInput, StoreError
from lukasa.interfaces.cli.app import app
from lukasa_bench import store
from lukasa_bench.cli import print_report
from lukasa_bench.corpus import MAX_WORDS, MIN_WORDS, START, NoteCorpus, id_maker
from lukasa_bench.interleave import compare, pool_blocks, run_interleaved
from lukasa_bench.processes import WriterProcesses
from lukasa_bench.reference_sqlite import BUSY_TIMEOUT_MS, SqliteReference
from lukasa_bench.report import BenchmarkBar, BenchmarkRow
from lukasa_bench.subjects import LukasaSubject, SubjectLocations

pytestmark = pytest.mark.slow

TINY = store.StoreEffort(
    adds=8, reads=10, questions=4, batches=1, adds_per_thread=2, adds_per_process=2, revised_notes=3
)
AT_EACH_SIZE = {
    "read by key", "history of 5 versions", "text match, top 10", "durable add, median", "durable add, mean",
    "add by 8 threads", "8 threads over 1", "add by 8 processes", "8 processes: slowest add", "8 processes: errors",
    "8 processes: lost", "bulk add, batches of 1,000",
}  # fmt: skip
ONCE = {("cost of an add over that at 200", 400), ("import", None)}


@pytest.fixture(scope="module")
def progress_reports():
    """What the run of the module said of its progress."""
    return []


@pytest.fixture(scope="module")
def report(progress_reports):
    return store.run((400, 200), 1, effort=TINY, progress=lambda *words: progress_reports.append(words))


@pytest.fixture
def pair(tmp_path):
    both = SubjectLocations.in_folder(tmp_path, "x").open(id_maker(1))
    yield both
    both.close()


@pytest.fixture
def reference(tmp_path):
    bare = SqliteReference(tmp_path / "bare.db")
    yield bare
    bare.close()


def test_a_run_measures_every_case_at_every_size(report):
    expected = {(case, size) for case in AT_EACH_SIZE for size in (200, 400)} | ONCE
    assert {(row.case, row.size) for row in report.rows} == expected
    assert len(report.rows) == len(expected)


def test_every_measured_figure_is_finite_and_positive(report):
    for row in report.rows:
        figures = [row.lukasa, row.reference, row.ratio, row.low, row.high]
        assert all(math.isfinite(figure) for figure in figures if figure is not None), row
        if row.unit != "count":
            assert row.lukasa > 0, row
            assert row.reference > 0, row


def test_eight_processes_lose_nothing_and_fail_at_nothing(report):
    counted = [row for row in report.rows if row.unit == "count"]
    assert counted
    assert all(row.lukasa == 0 for row in counted), [row for row in counted if row.lukasa]


def test_a_report_is_plain_json(report):
    parsed = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert parsed["benchmark"] == "store"
    assert parsed["machine"]["cores"] > 0
    assert [row["met"] for row in parsed["rows"]] == [row.is_met for row in report.rows]


def test_every_promised_bar_is_held_against_a_row(report):
    bars = {row.case: row.bar for row in report.rows if row.bar is not None}
    assert bars == {
        "durable add, median": BenchmarkBar("ratio", "most", 1.3),
        "durable add, mean": BenchmarkBar("ratio", "most", 1.3),
        "8 threads over 1": BenchmarkBar("lukasa", "least", 3.0),
        "add by 8 processes": BenchmarkBar("ratio", "least", 0.7),
        "8 processes: slowest add": BenchmarkBar("lukasa", "most", 2.0),
        "8 processes: errors": BenchmarkBar("lukasa", "most", 0),
        "8 processes: lost": BenchmarkBar("lukasa", "most", 0),
        "bulk add, batches of 1,000": BenchmarkBar("ratio", "least", 0.7),
        "cost of an add over that at 200": BenchmarkBar("lukasa", "most", 1.5),
        "import": BenchmarkBar("lukasa", "most", 0.150),
    }


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (None, None),
        (BenchmarkBar("ratio", "most", 0.5), True),
        (BenchmarkBar("ratio", "most", 0.49), False),
        (BenchmarkBar("ratio", "least", 0.5), True),
        (BenchmarkBar("ratio", "least", 0.51), False),
        (BenchmarkBar("lukasa", "most", 2), True),
        (BenchmarkBar("lukasa", "least", 2.1), False),
    ],
)
def test_a_bar_is_met_or_missed_by_the_figure_it_names(bar, met):
    assert BenchmarkRow("case", 1, "s", lukasa=2, reference=4, ratio=0.5, bar=bar).is_met is met


def test_the_reference_is_as_durable_as_lukasa(reference):
    assert reference.database.pragma("journal_mode") == "wal"
    assert reference.database.pragma("synchronous") == 2  # FULL
    assert reference.database.pragma("busy_timeout") == BUSY_TIMEOUT_MS


def test_the_reference_finds_what_it_stored(reference):
    one, *rest = NoteCorpus(1).take(21)
    reference.add(one)
    reference.add_all(rest)
    for note in (one, *rest):
        id, *_, body, text = reference.get(note.id)
        assert (id, body, text) == (note.id, note.body, note.text)
        assert reference.find(note.text)[0][0] == note.id
    assert reference.get("nothing") is None
    assert reference.find("nowhere") == []


def test_the_reference_keeps_what_another_connection_wrote(tmp_path):
    (note,) = NoteCorpus(1).take(1)
    first = SqliteReference(tmp_path / "bare.db")
    first.add(note)
    first.close()
    again = SqliteReference(tmp_path / "bare.db")
    assert again.get(note.id) is not None
    again.close()


def test_a_failed_add_leaves_the_reference_usable(reference):
    first, second, third = NoteCorpus(1).take(3)
    reference.add(first)
    with pytest.raises(Exception, match="UNIQUE"):
        reference.add(first)
    with pytest.raises(Exception, match="UNIQUE"):
        reference.add_all([second, first])
    reference.add(third)
    assert reference.get(second.id) is None
    assert reference.get(third.id) is not None


def test_both_are_given_the_same_ids_texts_and_bodies(pair):
    notes = NoteCorpus(1)
    single, batch = notes.take(3), notes.take(5)
    for contender in pair:
        for note in single:
            contender.add(note)
        contender.add_all(batch)
    for note in (*single, *batch):
        record = pair.lukasa.get(note.id)
        assert (record.id, record.text, record.body) == (note.id, note.text, note.body)
        assert pair.reference.get(note.id)[0] == note.id


def test_both_tell_all_versions_of_a_revised_note(pair):
    note, other = NoteCorpus(1).take(2)
    for contender in pair:
        contender.add(note)
        contender.add(other)
        contender.revise(note, 2)
        contender.revise(note, 3)
        assert len(contender.history(note.id)) == 3
        assert len(contender.history(other.id)) == 1


def test_both_find_the_same_notes(pair):
    notes = NoteCorpus(1)
    batch = notes.take(300)
    for contender in pair:
        contender.add_all(batch)
    for words in notes.questions(20):
        ids = [match.record.id for match in pair.lukasa.find(words)]
        assert ids == [row[0] for row in pair.reference.find(words)]


def test_notes_are_the_same_for_the_same_seed_and_their_ids_sort():
    notes = NoteCorpus(3).take(50)
    assert notes == NoteCorpus(3).take(50)
    assert notes != NoteCorpus(4).take(50)
    assert [note.id for note in notes] == sorted({note.id for note in notes})
    maker = id_maker(3, START)
    assert [note.id for note in notes] == [maker() for _ in notes]


def test_texts_have_the_promised_length_and_uneven_words():
    texts = [note.text.split() for note in NoteCorpus(3).take(500)]
    assert {len(words) for words in texts} == set(range(MIN_WORDS, MAX_WORDS + 1))
    counts = sorted(sum(word in words for words in texts) for word in {w for words in texts for w in words})
    assert counts[-1] > len(texts) / 2
    assert counts[len(counts) // 2] < len(texts) / 50


def test_questions_hold_three_different_words():
    assert all(len(set(words.split())) == 3 for words in NoteCorpus(3).questions(200))


def test_both_take_turns_in_beginning_and_the_first_round_is_not_counted():
    begun = []

    def run(side, items):
        begun.append(side)
        return side, items

    rounds = run_interleaved(3, ("a", "b"), lambda: len(begun), run)
    assert begun == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert rounds == [[("a", 2), ("a", 4), ("a", 6)], [("b", 2), ("b", 4), ("b", 6)]]


def test_the_ratio_is_the_median_of_the_rounds_ratios():
    found = compare([1, 9, 4], [2, 3, 4])
    assert (found.lukasa, found.reference, found.ratio, found.low, found.high) == (4, 3, 1, 0.5, 3)


def test_short_turns_are_joined_into_rounds():
    assert pool_blocks([[1, 2], [3], [4], [5, 6]], 2) == [[1, 2, 3], [4, 5, 6]]


def test_what_a_crew_acknowledges_is_there(tmp_path):
    places = SubjectLocations.in_folder(tmp_path, "x")
    pair = places.open(id_maker(1))
    with WriterProcesses(2, places, 10, START) as crew:
        assert crew.prepare(3) == 6
        shifts = [crew.write(contender.name) for contender in pair]
    assert [sorted(shift.ids) for shift in shifts] == [sorted(shifts[0].ids)] * 2
    for contender, shift in zip(pair, shifts, strict=True):
        assert shift.errors == []
        assert len(set(shift.ids)) == 6
        assert all(contender.get(id) is not None for id in shift.ids)
    pair.close()


def test_a_crew_tells_what_went_wrong(tmp_path):
    places = SubjectLocations.in_folder(tmp_path, "x")
    pair = places.open(id_maker(1))
    with WriterProcesses(1, places, 10, START) as crew:
        crew.prepare(2)
        crew.write("reference")
        again = crew.write("reference")
    assert len(again.errors) == 2
    assert again.ids == []
    pair.close()


def test_lukasa_refusing_a_note_stops_the_benchmark(tmp_path):
    lukasa = LukasaSubject(tmp_path / "own.db", id_maker(1))
    note, _ = NoteCorpus(1).take(2)
    lukasa.add(note)
    with pytest.raises(Exception, match="not accepted"):
        lukasa.revise(note, 7)
    lukasa.close()


def test_kept_stores_stay_and_are_not_overwritten(tmp_path):
    store.run((20,), 1, effort=TINY, keep=tmp_path / "kept")
    assert {file.name for file in (tmp_path / "kept").glob("*.db")} == {"lukasa-20.db", "reference-20.db"}
    with pytest.raises(StoreError, match="already there"):
        store.run((20,), 1, effort=TINY, keep=tmp_path / "kept")


def test_run_reports_progress_of_each_stage(report, progress_reports):
    for size in (200, 400):
        assert (f"building {size}", size, size) in progress_reports
        assert (f"measuring at {size}", len(store.CASES), len(store.CASES)) in progress_reports


@pytest.mark.parametrize(
    ("text", "sizes"), [("1k,100k,1m", (1_000, 100_000, 1_000_000)), ("300", (300,)), (" 2K , 1M ", (2_000, 1_000_000))]
)
def test_sizes_are_written_short(text, sizes):
    assert store.parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "k", "0", "-1", "1g", "1k,,2k", "1.5k", "9" * 5000, "²", "1000000000000"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(InvalidInput):
        store.parse_sizes(text)


def test_the_command_writes_json_for_programs():
    result = CliRunner().invoke(app, ["--json", "bench", "store", "--sizes", "20", "--rounds", "1"])
    assert result.exit_code == 0
    assert {row["case"] for row in json.loads(result.stdout)["rows"]} == {*AT_EACH_SIZE, "import"}


def test_people_get_a_table_with_every_row_and_its_verdict(report, capsys):
    print_report(report)
    lines = capsys.readouterr().out.splitlines()
    for row in report.rows:
        (line,) = (line for line in lines if f"| {row.case} " in line and f" {row.size or ''} |" in line)
        assert line.rstrip(" |").endswith({None: "", True: " met", False: " missed"}[row.is_met])
    assert f"{sum(row.is_met is True for row in report.rows)} of 18 bars met." in lines


def test_the_command_explains_a_wrong_size():
    result = CliRunner().invoke(app, ["bench", "store", "--sizes", "many"])
    assert result.exit_code == 2
    assert "many" in result.output
