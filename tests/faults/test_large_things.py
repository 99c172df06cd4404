"""Large inputs: refused before they are copied, and streamed where there are many."""

import io
import tracemalloc
from contextlib import contextmanager

import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.journal.gate import RecordLimits

HUGE = 100_000_000
LIMIT = RecordLimits().record_bytes


class Peak:
    bytes = 0


@contextmanager
def measured():
    """Measure the peak memory of Python within the block, beyond what it had."""
    peak = Peak()
    tracemalloc.start()
    try:
        yield peak
        peak.bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def memory(store):
    with lukasa.open(store) as memory:
        memory.journal.write("note", "so that everything is loaded")
        yield memory


@pytest.mark.requirement("LOG-1")
@pytest.mark.parametrize("place", ["text", "umlauts", "body", "nested", "id", "label", "link", "author"])
def test_a_hundred_megabytes_are_refused_before_they_are_copied(memory, place):
    huge = ("ä" if place == "umlauts" else "x") * HUGE
    draft = {
        "text": lambda: Draft("note", huge),
        "umlauts": lambda: Draft("note", huge),
        "body": lambda: Draft("note", body={"huge": huge}),
        "nested": lambda: Draft("note", body={"deep": [{"er": huge}]}),
        "id": lambda: Draft("note", id=huge),
        "label": lambda: Draft("note", labels=(huge,)),
        "link": lambda: Draft("note", links=(Link("about", Key("shared", "note", huge)),)),
        "author": lambda: Draft("note", author=huge),
    }[place]()
    with measured() as peak:
        refused = memory.journal.append([draft])
    assert not refused
    assert len(refused.reason) < 500
    assert peak.bytes < 5_000_000
    assert memory.journal.tip() == 1


@pytest.mark.requirement("LOG-1")
def test_a_record_of_exactly_the_limit_is_kept_and_one_byte_more_is_refused(memory):
    frame = len(b'{"id":"edge","kind":"note","origin":"manual","scope":"shared","text":""}')
    for letter, width in (("x", 1), ("ä", 2), ("€", 3), ("𝄞", 4)):
        space = LIMIT - frame
        text = letter * (space // width) + "x" * (space % width)
        kept = memory.journal.write("note", text, id="edge")
        assert kept
        assert memory.journal.get(kept.record.key).text == text
        refused = memory.journal.write("note", text + "x", id="edge")
        assert refused.code == "too_large"
        assert memory.journal.get(kept.record.key).text == text
    assert memory.journal.write("note", "x" * (LIMIT + 1), id="edge").code == "too_large"
    assert memory.verify().sound


def peaks_of_moving(memory, folder, count):
    """Measure the peak memory of an export and of its import into another store."""
    for _ in range(count // 100):
        assert memory.journal.append([Draft("note", "many words make a long text " * 120) for _ in range(100)])
    with measured() as export:
        memory.export(folder / f"{count}.jsonl")
    with lukasa.open(folder / f"{count}.db") as other:
        with measured() as import_:
            result = other.import_(folder / f"{count}.jsonl")
        assert result.added == memory.journal.tip()
    return export.bytes, import_.bytes


@pytest.mark.requirement("LOG-7")
def test_export_and_import_take_no_more_memory_for_more_records(memory, tmp_path):
    few = peaks_of_moving(memory, tmp_path, 1500)
    many = peaks_of_moving(memory, tmp_path, 3000)
    assert (tmp_path / "3000.jsonl").stat().st_size > 2.5 * (tmp_path / "1500.jsonl").stat().st_size
    assert many[0] < 1.3 * few[0]
    assert many[1] < 1.3 * few[1]


@pytest.mark.requirement("LOG-7")
def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(memory):
    class Endless(io.RawIOBase):
        """A file whose second line never ends."""

        def __init__(self):
            self.read_bytes = 0
            self.begun = False

        def readable(self):
            return True

        def readinto(self, buffer):
            head = b"" if self.begun else b'{"lukasa":"log","format":1}\n{"sha256":"'
            self.begun = True
            buffer[:] = head + b"0" * (len(buffer) - len(head))
            self.read_bytes += len(buffer)
            return len(buffer)

    endless = Endless()
    with pytest.raises(lukasa.LukasaError):
        memory.import_(io.BufferedReader(endless, 1_000_000))
    assert endless.read_bytes < 100_000_000


@pytest.mark.slow
@pytest.mark.requirement("LOG-7")
def test_a_hundred_thousand_records_are_written_exported_imported_and_verified_within_half_a_gigabyte(actors, tmp_path):
    report = actors.run("streaming", folder=tmp_path, count=100_000, limit=512 * 1024 * 1024)
    assert report["exported"] == 100_000
    assert report["added"] == 100_000
    assert report["sound"]
    assert report["size"] > 100_000_000
