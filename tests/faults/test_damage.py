"""Damaged files: changed content is always found and named, and everything intact can still be read."""

import hashlib
import itertools
import random
import shutil
import struct
from datetime import UTC, datetime

import apsw
import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.errors import LukasaError, StoreError
from lukasa.storage.engine import Query

EVERYTHING = Query(every_version=True, hidden=True)
WORDS = ("river", "stone", "heron", "ledger", "lantern", "copper", "willow", "harbour", "sparrow", "granite", "meadow")


class Ticks:
    """A clock with the same times in every run, so that the same seed damages the same bytes."""

    def __init__(self):
        self._seconds = itertools.count(1_800_000_000)

    def now(self):
        return datetime.fromtimestamp(next(self._seconds), UTC)


class Original:
    """A sound, closed store of a few hundred records, and everything a reader sees of it."""

    def __init__(self, path, exported):
        rng = random.Random(7)
        with lukasa.open(path, clock=Ticks(), new_id=map("made-{}".format, itertools.count()).__next__) as memory:
            self._fill(memory, rng)
            assert memory.verify().sound
            self.view = view_of(memory, exported)
            self.records = list(memory.journal.read(Query(kinds=("note",))))
        self.path = path
        self.bytes = path.read_bytes()
        self.page_size = struct.unpack(">H", self.bytes[16:18])[0]

    def _fill(self, memory, rng):
        journal = memory.journal
        for number in range(250):
            text = f"note{number} " + " ".join(rng.choice(WORDS) for _ in range(rng.choice([5, 30, 200])))
            links = (Link("about", Key("shared", "note", f"n-{number // 2}")),) if number % 3 == 0 else ()
            labels = (f"group={number % 9}", f"number={number}")
            draft = Draft(
                "note",
                text,
                {"number": number},
                id=f"n-{number}",
                author="abcd"[number % 4],
                links=links,
                labels=labels,
            )
            assert journal.append([draft])
        for number in range(0, 250, 4):
            assert journal.write("note", f"note{number} changed", id=f"n-{number}", author="a")
        for number in range(1, 250, 40):
            assert journal.delete(Key("shared", "note", f"n-{number}"))
        assert journal.quarantine("d")
        memory._parts.engine.put_vectors("tiny", [(seq, 0, [float(seq), 1.0]) for seq in range(1, 50)])

    def pages_of(self, *names):
        """Return the pages of a table or an index."""
        database = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        marks = ", ".join("?" for _ in names)
        pages = [page for (page,) in database.execute(f"SELECT pageno FROM dbstat WHERE name IN ({marks})", names)]
        database.close()
        return sorted(pages)


def view_of(memory, exported):
    """Return everything a reader sees: the log, current records, counts, words, labels and links."""
    journal = memory.journal
    return {
        "log": exported(memory),
        "live": list(journal.read()),
        "tally": journal.tally(),
        "words": {
            word: [(match.record.seq, match.score) for match in journal.find(word)] for word in [*WORDS, "note8"]
        },
        "past words": [match.record.seq for match in journal.find("note8 heron", EVERYTHING)],
        "labels": {n: [record.seq for record in journal.read(Query(labels=(f"group={n}",)))] for n in range(9)},
        "links": {n: journal.neighbours(Key("shared", "note", f"n-{n}")) for n in range(0, 125, 5)},
        "quarantined": sorted(journal.quarantined()),
    }


@pytest.fixture(scope="module")
def original(tmp_path_factory, exported):
    return Original(tmp_path_factory.mktemp("original") / "memory.db", exported)


def examine(path, exported):
    """Open and verify a store; return the findings (or why it did not open) and what can be read."""
    before = hashlib.sha256(path.read_bytes()).digest()
    try:
        memory = lukasa.open(path, timeout=1)
    except LukasaError as error:
        findings, view = [str(error)], None
    else:
        with memory:
            findings = [finding.where and finding.what for finding in memory.verify().findings]
            try:
                view = view_of(memory, exported)
            except StoreError as error:
                view = error
    assert hashlib.sha256(path.read_bytes()).digest() == before, "looking changed the file"
    return findings, view


def check_that_damage_is_noticed(original, path, exported, damaged, how):
    path.write_bytes(damaged)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    try:
        findings, view = examine(path, exported)
    except Exception as error:
        error.add_note(how)
        raise
    assert all(findings), f"{how} was noticed, but not named"
    if not findings:
        assert isinstance(view, dict), f"{how} went unnoticed, but reading fails: {view!r}"
        differing = [part for part in view if view[part] != original.view[part]]
        assert not differing, f"{how} went unnoticed, but {differing} differ"
    return bool(findings)


def flipped(data, place, bit):
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def flip_and_check(original, path, exported, rng, places, count):
    noticed = 0
    for _ in range(count):
        place, bit = rng.choice(places), rng.randrange(8)
        how = f"bit {bit} of byte {place} flipped (page {place // original.page_size + 1})"
        noticed += check_that_damage_is_noticed(original, path, exported, flipped(original.bytes, place, bit), how)
    return noticed


@pytest.mark.requirement("LOG-5")
def test_a_flipped_bit_is_noticed_or_changes_nothing(original, store, exported, rng):
    store.parent.mkdir()
    assert flip_and_check(original, store, exported, rng, range(len(original.bytes)), 100) > 30


@pytest.mark.slow
@pytest.mark.requirement("LOG-5")
def test_any_of_many_flipped_bits_is_noticed_or_changes_nothing(original, store, exported, rng):
    store.parent.mkdir()
    assert flip_and_check(original, store, exported, rng, range(len(original.bytes)), 1500) > 500


PARTS = {
    "the header": (),
    "the log": ("log",),
    "the key index": ("log_by_key", "log_by_kind"),
    "the text index": ("words_data", "words_idx", "words_docsize", "past_words_data"),
    "the current versions": ("not_current",),
    "the labels": ("label",),
    "the links": ("link",),
    "the counts": ("tally",),
    "the quarantines": ("quarantine", "hidden", "hidden_by_author"),
    "the schema": ("sqlite_schema",),
}

DERIVED = ["the key index", "the text index", "the current versions", "the labels", "the links", "the quarantines"]


def places_in(original, part):
    """Return the bytes of one part of the file; most pages are not full, so empty bytes get little weight."""
    if part == "the header":
        return range(100)
    size = original.page_size
    pages = original.pages_of(*PARTS[part])
    assert pages, f"{part} has no page"
    filled = [at for page in pages for at in range((page - 1) * size, page * size) if original.bytes[at]]
    return [at for at in filled if at >= 100]


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("part", PARTS)
def test_a_bit_flipped_in_any_part_is_noticed_or_changes_nothing(original, store, exported, rng, part):
    store.parent.mkdir()
    assert flip_and_check(original, store, exported, rng, places_in(original, part), 20)


@pytest.mark.slow
@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("part", PARTS)
def test_any_of_many_bits_flipped_in_a_part_is_noticed_or_changes_nothing(original, store, exported, rng, part):
    store.parent.mkdir()
    assert flip_and_check(original, store, exported, rng, places_in(original, part), 150)


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize(
    "column",
    [
        b"moment  INTEGER", b"digest  BLOB", b"line    TEXT", b"author  TEXT", b"name TEXT PRIMARY KEY, value TEXT",
        b"label TEXT", b"to_id TEXT", b"place INTEGER", b"live INTEGER",
    ],
)  # fmt: skip
def test_a_column_that_lost_its_name_is_noticed(original, store, exported, column):
    store.parent.mkdir()
    damaged, place = original.bytes, original.bytes.index(column)
    while place >= 0:  # a page that was split keeps an old copy that is never read
        damaged = flipped(damaged, place, 1)
        place = original.bytes.find(column, place + 1)
    assert check_that_damage_is_noticed(original, store, exported, damaged, f"{column} renamed")


@pytest.mark.requirement("LOG-5")
def test_a_file_cut_short_anywhere_is_noticed(original, store, exported, rng):
    store.parent.mkdir()
    size = len(original.bytes)
    for length in [1, 15, 99, 100, 512, 4096, size // 2, size - 4096, size - 1, *rng.sample(range(size), 15)]:
        noticed = check_that_damage_is_noticed(original, store, exported, original.bytes[:length], f"cut to {length}")
        assert noticed or length > size - original.page_size


@pytest.mark.requirement("LOG-5")
def test_zeroed_pages_are_noticed_or_change_nothing(original, store, exported, rng):
    store.parent.mkdir()
    size = original.page_size
    pages = range(1, len(original.bytes) // size)
    noticed = 0
    for page in rng.sample(pages, min(30, len(pages))):
        damaged = original.bytes[: page * size] + bytes(size) + original.bytes[(page + 1) * size :]
        noticed += check_that_damage_is_noticed(original, store, exported, damaged, f"page {page + 1} zeroed")
    assert noticed


@pytest.mark.requirement("LOG-5")
def test_pages_that_changed_places_are_noticed(original, store, exported, rng):
    store.parent.mkdir()
    size = original.page_size
    pages = original.pages_of("log", "log_by_key", "words_data", "label")
    for _ in range(15):
        one, other = sorted(rng.sample(pages, 2))
        cut = [original.bytes[(page - 1) * size : page * size] for page in range(1, len(original.bytes) // size + 1)]
        cut[one - 1], cut[other - 1] = cut[other - 1], cut[one - 1]
        how = f"pages {one} and {other} exchanged"
        assert check_that_damage_is_noticed(original, store, exported, b"".join(cut), how)


@pytest.mark.requirement("LOG-5")
def test_an_emptied_file_is_noticed(original, store, exported):
    """An empty file where a store was is data loss; creating a new store in it would hide that."""
    store.parent.mkdir()
    assert check_that_damage_is_noticed(original, store, exported, b"", "emptied")


@pytest.mark.requirement("LOG-5")
def test_a_file_of_something_else_is_refused_and_left_alone(original, store, exported, rng):
    store.parent.mkdir()
    for foreign in (b"hello\n", bytes(5000), rng.randbytes(8192), b"SQLite format 3\0" + rng.randbytes(4080)):
        store.write_bytes(foreign)
        with pytest.raises(StoreError):
            lukasa.open(store)
        assert store.read_bytes() == foreign


@pytest.mark.requirement("LOG-5")
def test_damage_in_one_record_is_named_and_leaves_all_others_readable(original, store, rng):
    store.parent.mkdir()
    for record in rng.sample([record for record in original.records if "changed" not in record.text], 12):
        place = original.bytes.index(f'"text":"{record.text[:40]}'.encode()) + 10
        store.write_bytes(flipped(original.bytes, place, 1))
        with lukasa.open(store) as memory:
            findings = [finding.where for finding in memory.verify().findings]
            assert any(str(record.key) in where for where in findings), findings
            for other in original.records:
                if other.key != record.key:
                    assert memory.journal.get(other.key) == other


@pytest.mark.requirement("LOG-5")
def test_reading_a_record_whose_entry_is_no_longer_json_raises_a_lukasa_error(original, store, exported, rng):
    store.parent.mkdir()
    for record in rng.sample([record for record in original.records if "changed" not in record.text], 5):
        end = original.bytes.index(f'"text":"{record.text[:40]}'.encode()) + len(record.text) + 8
        for damage in (b"\x01", b"\xff"):
            store.write_bytes(original.bytes[:end] + damage + original.bytes[end + 1 :])
            with lukasa.open(store) as memory:
                with pytest.raises(StoreError):
                    memory.journal.get(record.key)
                exported(memory)
                assert [str(record.key) in name for name in memory.journal.list_damaged()] == [True]
                assert not memory.verify().sound


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("part", DERIVED)
def test_reindex_repairs_what_is_derived_when_the_log_is_whole(original, store, exported, rng, part):
    store.parent.mkdir()
    places, repaired = places_in(original, part), 0
    for _ in range(40):
        store.write_bytes(flipped(original.bytes, rng.choice(places), rng.randrange(8)))
        with lukasa.open(store) as memory:
            if memory.verify().sound:
                continue
            memory.journal.reindex()
            assert memory.verify().sound, memory.verify().findings
            assert view_of(memory, exported) == original.view
        repaired += 1
        if repaired == 8:
            break
    assert repaired


@pytest.fixture
def unfinished(actors, store, ledger):
    """A store whose writer was killed: a part of it is in the database file, the rest in the write-ahead log."""
    actors.run("leaving", store=store, early=40, late=40)
    wal = store.with_name(store.name + "-wal")
    assert wal.stat().st_size
    return store, wal


def texts_in(path):
    with lukasa.open(path) as memory:
        (finding,) = memory.verify().findings
        assert finding.where == "end of the log"
        return [record.text for record in memory.journal.read(Query(kinds=("note",)))]


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("damage", ["emptied", "removed", "cut", "flipped", "zeroed"])
def test_a_damaged_write_ahead_log_leaves_a_whole_store_of_an_earlier_moment(unfinished, rng, damage):
    store, wal = unfinished
    data = wal.read_bytes()
    place = rng.randrange(32, len(data))
    damaged = {
        "emptied": b"",
        "removed": None,
        "cut": data[:place],
        "flipped": flipped(data, place, 3),
        "zeroed": data[:place] + bytes(len(data) - place),
    }[damage]
    store.with_name(store.name + "-shm").unlink()
    if damaged is None:
        wal.unlink()
    else:
        wal.write_bytes(damaged)
    texts = texts_in(store)
    assert 40 <= len(texts) < 80
    assert texts == [f"number {number}" for number in range(len(texts))]


@pytest.mark.requirement("LOG-5")
def test_a_write_ahead_log_of_another_store_is_noticed(unfinished, actors, tmp_path):
    store, wal = unfinished
    stranger = tmp_path / "stranger.db"
    actors.run("leaving", store=stranger, early=90, late=25)
    store.with_name(store.name + "-shm").unlink()
    shutil.copyfile(tmp_path / "stranger.db-wal", wal)
    try:
        with lukasa.open(store) as memory:
            sound = memory.verify().sound
    except StoreError:
        sound = False
    assert not sound
