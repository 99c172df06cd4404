"""A cache of reads: a value is returned again only while nothing at all was written to the store, by whomever."""

import multiprocessing
from functools import partial

import pytest

import lukasa
from lukasa.journal.read_cache import ReadCache
from lukasa.storage.engine import Query
from lukasa.storage.parsed_records import ParsedRecords


class Notes:
    """Reads the texts of all notes through a cache, and counts how often the store was asked."""

    def __init__(self, memory):
        self._journal, self.loads = memory.journal, 0
        self._cache: ReadCache[list[str]] = ReadCache(memory.journal)

    def read(self):
        return self._cache.read("notes", self._load)

    def find(self):
        return self._cache.find("notes")

    def _load(self):
        self.loads += 1
        return [record.text for record in self._journal.read(Query(kinds=("note",)))]


def write_from_elsewhere(path, text):
    with lukasa.open(path) as memory:
        memory.journal.write("note", text)


@pytest.mark.requirement("LOG-3")
def test_a_value_holds_until_anybody_writes(tmp_path):
    path = tmp_path / "store.db"
    with lukasa.open(path) as memory, lukasa.open(path) as second:
        notes = Notes(memory)
        assert notes.find() is None
        assert notes.read() == notes.read() == notes.find() == []
        assert notes.loads == 1
        memory.journal.write("note", "one", author="mallory")
        assert notes.find() is None
        assert notes.read() == notes.read() == ["one"]
        second.journal.write("note", "two")
        assert notes.read() == ["one", "two"]
        process = multiprocessing.get_context("spawn").Process(target=write_from_elsewhere, args=(path, "three"))
        process.start()
        process.join()
        assert notes.read() == notes.read() == ["one", "two", "three"]
        assert notes.loads == 4
        second.journal.quarantine("mallory")
        assert notes.read() == ["two", "three"]
        second.journal.erase(subject="two", reason="asked for")
        assert notes.read() == ["three"]
        second.journal.compact()
        memory.journal.reindex()
        assert notes.read() == ["three"]


@pytest.mark.requirement("LOG-3")
def test_a_forked_child_and_its_parent_see_what_the_other_writes(tmp_path):
    with lukasa.open(tmp_path / "store.db") as memory:
        notes = Notes(memory)
        memory.journal.write("note", "one")
        assert notes.read() == ["one"]
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()

        def act():
            before = notes.read()
            memory.journal.write("note", "of the child")
            theirs.send((before, notes.read()))
            theirs.recv()
            theirs.send(notes.read())

        child = context.Process(target=act)
        child.start()
        before, between = ours.recv()
        assert notes.read() == ["one", "of the child"]
        memory.journal.write("note", "of the parent")
        ours.send("written")
        after = ours.recv()
        child.join()
        assert before == ["one"]
        assert between == ["one", "of the child"]
        assert after == notes.read() == ["one", "of the child", "of the parent"]


@pytest.mark.requirement("LOG-3")
def test_a_store_in_memory_is_read_every_time():
    with lukasa.open("memory:") as memory:
        notes = Notes(memory)
        notes.read()
        memory.journal.write("note", "one")
        assert notes.read() == notes.read() == ["one"]
        assert notes.find() is None
        assert notes.loads == 3


@pytest.mark.requirement("LOG-1")
def test_caches_stay_within_their_limits(tmp_path):
    with lukasa.open(tmp_path / "store.db") as memory:
        cache: ReadCache[int] = ReadCache(memory.journal, max_values=3)
        for number in range(10):
            assert cache.read(number, partial(int, number)) == number
        assert len(cache) <= 3
        parsed = ParsedRecords(lambda record: record.text, max_bytes=4_000)
        memory.journal.append(lukasa.Draft("note", "x" * length) for length in (100, 200, 3_000, *([300] * 30)))
        query = Query(kinds=("note",), scopes=("shared",))
        for _ in range(2):
            with memory.journal.snapshot() as reader:
                assert reader.read_parsed(query, parsed) == [record.text for record in reader.read(query)]
        assert sum(map(len, parsed.known.values())) <= 4_000
