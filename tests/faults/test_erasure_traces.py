"""Erased content: no byte is left in any file, and no import restores it."""

import io
import random
import subprocess

import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.storage.engine import Query
from lukasa.storage.sqlite.vectors import encode_vector

CANARY = "Quixotrine"
FOREIGN = "Žluťásek"
VECTOR = [float(number) ** 0.5 for number in range(1, 17)]
TRACES = {
    "the word": CANARY.lower().encode(),
    "its stem": b"quixotrin",
    "its stem behind a shared beginning": b"ixotrin",
    "the foreign word": FOREIGN[1:].encode(),
    "the foreign word without its marks": b"lutasek",
    "the vector": encode_vector(VECTOR),
}
VOCABULARY_SEED = 11


def vocabulary():
    """Return words that share no prefix with the canaries."""
    rng = random.Random(VOCABULARY_SEED)
    return ["".join(rng.choice("abdefghijkmnoprstuvw") for _ in range(rng.randint(2, 9))) for _ in range(500)]


WORDS = [word for word in vocabulary() if not word.startswith(("q", "z"))]


def words(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count))


def raw_bytes(folder):
    """Return all bytes of all files of a store; another process reads them, because a live store must not be opened here."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return subprocess.run(["cat", *files], stdout=subprocess.PIPE, check=True).stdout


def traces_in(data):
    return [name for name, trace in TRACES.items() if trace in data or trace in data.lower()]


def traces_of(store):
    return traces_in(raw_bytes(store.parent))


def write_canaries(memory):
    """Write records with the canary in every field, with other records between them."""
    journal = memory.journal
    keys = []
    rng = random.Random(5)
    for number in range(8):
        journal.append([Draft("note", words(rng, 60), {"n": number}) for _ in range(20)])
        draft = Draft(
            "note", f"{words(rng, 30)} {CANARY} {FOREIGN} {words(rng, 30)}",
            {"deep": [{"er": f"{CANARY} {number}", CANARY: FOREIGN}]},
            id=f"c-{number}", author="b" if number == 7 else "a",
            labels=(f"who={CANARY}", f"n={number}"), links=(Link("about", Key("shared", "person", CANARY)),),
        )  # fmt: skip
        keys.append(journal.append([draft], key=f"{CANARY} {number}").record.key)
        memory._parts.engine.put_vectors("tiny", [(journal.tip(), chunk, VECTOR) for chunk in range(3)])
    for number in (1, 2, 3):
        journal.write("note", words(rng, 20), id=f"c-{number}")
    journal.write("note", f"again {CANARY}", id="c-2")
    journal.delete(Key("shared", "note", "c-3"))
    journal.delete(Key("shared", "note", "c-4"))
    journal.write("summary", f"of {CANARY}", id="s-1", links=(Link("derived_from", keys[0]),))
    journal.write(
        "summary",
        f"of a summary of {FOREIGN}",
        id="s-2",
        links=(Link("derived_from", Key("shared", "summary", "s-1")),),
    )
    journal.quarantine("b")
    journal.append([Draft("note", words(rng, 60)) for _ in range(30)])
    return keys


@pytest.fixture
def canaries(store):
    with lukasa.open(store) as memory:
        keys = write_canaries(memory)
        assert traces_of(store) == list(TRACES)
        yield memory, keys


def check_gone(memory, store, keys, tmp_path):
    journal = memory.journal
    assert traces_of(store) == []
    assert not list(journal.read(Query(mentions=CANARY, every_version=True, hidden=True)))
    assert journal.find(CANARY) == []
    assert all(journal.get(key) is None and not journal.history(key) for key in keys)
    assert not [match for match in memory.journal.find("again summary") if match.record.kind == "summary"]
    memory.backup(tmp_path / "backup.db")
    assert traces_in((tmp_path / "backup.db").read_bytes()) == []
    target = io.BytesIO()
    memory.export(target)
    assert traces_in(target.getvalue()) == []
    assert memory.verify().sound
    memory.close()
    assert traces_of(store) == []


@pytest.mark.requirement("LOG-5")
def test_erased_by_key_nothing_is_left_in_any_file_nor_of_what_was_derived(canaries, store, tmp_path):
    memory, keys = canaries
    doomed = memory.journal.preview_erase(*keys)
    assert {key.id for key in doomed} == {*(f"c-{number}" for number in range(8)), "s-1", "s-2"}
    receipt = memory.journal.erase(*keys, reason="asked to")
    assert (receipt.records, receipt.versions, receipt.residue) == (10, 16, None)
    assert receipt.by_kind == {"note": 8, "summary": 2}
    check_gone(memory, store, doomed, tmp_path)


@pytest.mark.requirement("LOG-5")
def test_erased_by_subject_nothing_is_left_wherever_the_subject_was_named(canaries, store, tmp_path):
    memory, keys = canaries
    journal = memory.journal
    journal.write("note", "by the subject itself", author=CANARY)
    journal.write("note", "of a thing named for it", id=f"about-{CANARY}")
    journal.write("note", "with a link to it", links=(Link("about", Key("shared", "person", CANARY)),))
    journal.write("note", "in capitals", {"who": CANARY.upper()})
    receipt = journal.erase(subject=CANARY.lower())
    assert receipt.records == 14
    check_gone(memory, store, keys, tmp_path)


@pytest.mark.requirement("LOG-5")
def test_a_subject_is_found_whatever_the_letter_case_of_its_name_in_any_script(store):
    with lukasa.open(store) as memory:
        for name in ("Žofie Ångström", "ŽOFIE ÅNGSTRÖM", "žofie ångström"):
            memory.journal.write("note", f"about {name}")
        assert memory.journal.erase(subject="Žofie Ångström").records == 3
        assert "ångström".encode() not in raw_bytes(store.parent)


@pytest.mark.requirement("LOG-5")
def test_a_subject_is_erased_with_its_scope(store):
    with lukasa.open(store) as memory:
        memory.journal.write("note", "for its eyes only", scope=CANARY, author="another")
        memory.journal.erase(subject=CANARY)
        assert traces_of(store) == []
        assert memory.verify().sound


@pytest.mark.requirement("LOG-5", "LOG-6")
def test_a_subject_in_quarantine_is_erased_with_the_name_it_was_quarantined_under(store):
    with lukasa.open(store) as memory:
        memory.journal.write("note", "by a quarantined author", author=CANARY)
        memory.journal.quarantine(CANARY, reason=f"{CANARY} lied")
        memory.journal.erase(subject=CANARY)
        assert traces_of(store) == []
        assert memory.verify().sound


@pytest.mark.requirement("LOG-5")
def test_words_of_a_version_that_was_compacted_away_are_gone_after_erasing_its_subject(store):
    with lukasa.open(store) as memory:
        memory.journal.write("note", f"about {CANARY}", id="n")
        memory.journal.write("note", "about another subject", id="n")
        memory.compact()
        memory.journal.erase(subject=CANARY)
        assert traces_of(store) == []


@pytest.mark.requirement("LOG-5")
def test_a_receipt_counts_what_was_erased_without_any_content(canaries):
    memory, keys = canaries
    receipt = memory.journal.erase(*keys)
    (record,) = memory.journal.read(Query(kinds=("erasure",)))
    assert record.id == receipt.id
    assert record.body["records"] == 10
    assert not record.text
    assert not traces_in(str(record).encode())
    assert not any(key.id in str(record.body["marks"]) for key in keys)


@pytest.mark.requirement("LOG-5", "LOG-7")
def test_an_older_export_or_its_copy_does_not_bring_back_what_was_erased(canaries, store, tmp_path, all_versions):
    memory, keys = canaries
    memory.export(tmp_path / "older.jsonl")
    memory.journal.erase(*keys)
    before = all_versions(memory)
    imported = memory.import_(tmp_path / "older.jsonl")
    assert imported.added == 0
    assert len(imported.refused) == 16
    assert all_versions(memory) == before
    memory.export(tmp_path / "newer.jsonl")
    assert traces_of(store) == []
    with lukasa.open(tmp_path / "other" / "memory.db") as other:
        other.import_(tmp_path / "newer.jsonl")
        assert len(other.import_(tmp_path / "older.jsonl").refused) == 16
        assert traces_of(tmp_path / "other" / "memory.db") == []


@pytest.mark.requirement("LOG-5")
def test_erasing_leaves_nothing_though_another_process_has_the_store_open(canaries, store, tmp_path, actors):
    memory, keys = canaries
    bystander = actors.start("looking", store=store)
    bystander.stdout.readline()
    bystander.stdin.write("\n")
    bystander.stdin.flush()
    bystander.stdout.readline()
    receipt = memory.journal.erase(*keys)
    assert receipt.residue is None
    assert traces_of(store) == []
    bystander.stdin.write("\n")
    bystander.stdin.flush()
    actors.report(bystander)
    check_gone(memory, store, keys, tmp_path)


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("then", ["erased again", "written to", "closed"])
def test_erasing_while_another_process_reads_reports_residue_and_finishes_after_that_reader(store, actors, then):
    with lukasa.open(store, timeout=0.5) as memory:
        keys = write_canaries(memory)
        reader = actors.start("looking", store=store)
        reader.stdout.readline()
        receipt = memory.journal.erase(*keys)
        assert receipt.residue
        assert memory.journal.find(CANARY) == []
        reader.stdin.write("\n")
        reader.stdin.flush()
        reader.stdout.readline()
        if then == "erased again":
            assert memory.journal.erase(*keys).residue is None
        elif then == "written to":
            memory.journal.write("note", "life goes on")
        else:
            memory.close()
        assert traces_of(store) == []


class Bustle:
    """Write records of varied sizes under unsorted ids, so that pages split and merge everywhere."""

    def __init__(self, memory, rng):
        self._memory, self._chance = memory, rng
        self._live = []

    def run(self, deeds, *, canary):
        for _ in range(deeds):
            self._deed(canary)

    def forget_canaries(self):
        self._live = [key for key in self._live if CANARY not in key.id]

    def _deed(self, canary):
        rng, journal = self._chance, self._memory.journal
        deed = rng.random()
        if deed < 0.7 or not self._live:
            drafts = [self._draft(canary and rng.random() < 0.3) for _ in range(rng.choice([1, 1, 1, 5, 40]))]
            self._live += [record.key for record in journal.append(drafts).records]
        elif deed < 0.9:
            key = rng.choice(self._live)
            text = words(rng, rng.choice([3, 50, 100]))
            journal.write("note", text, id=key.id, author="a", labels=self._labels(CANARY in key.id))
        elif deed < 0.97:
            journal.delete(self._live.pop(rng.randrange(len(self._live))))
        else:
            journal.quarantine("b")
            journal.release("b")

    def _draft(self, canary):
        rng = self._chance
        text, body = words(rng, rng.choice([0, 3, 20, 100])), {"k": words(rng, rng.choice([0, 3, 30]))}
        id, author = f"{rng.getrandbits(32):08x}", rng.choice("ab")
        links: tuple[Link, ...] = ()
        if canary:
            id, text = id + CANARY, f"{text} {CANARY}"
            body[FOREIGN] = f"{CANARY} {FOREIGN}"
            links = (Link("about", Key("shared", "person", f"{CANARY} {id}")),)
        return Draft("note", text, body, id=id, author=author, labels=self._labels(canary), links=links)

    def _labels(self, canary):
        return (f"who={CANARY}",) if canary else (f"l={words(self._chance, 1)}",)


def erase_amid_bustle(store, seed):
    rng = random.Random(seed)
    with lukasa.open(store) as memory:
        bustle = Bustle(memory, rng)
        bustle.run(rng.randint(20, 200), canary=True)
        bustle.run(rng.randint(0, 60), canary=False)
        about = Query(mentions=CANARY, every_version=True, hidden=True)
        keys = sorted({record.key for record in memory.journal.read(about)})
        assert keys
        for key in rng.sample(keys, len(keys) // 10):
            memory.journal.erase(key)
        memory.journal.erase(subject=CANARY)
        assert traces_of(store) == [], f"seed {seed}"
        bustle.forget_canaries()
        bustle.run(20, canary=False)
        assert traces_of(store) == [], f"seed {seed}, later"
        assert memory.verify().sound


@pytest.mark.requirement("LOG-5")
def test_erasing_amid_random_work_leaves_nothing_in_any_page(tmp_path, rng):
    for round in range(6):
        erase_amid_bustle(tmp_path / str(round) / "memory.db", rng.getrandbits(32))


@pytest.mark.slow
@pytest.mark.requirement("LOG-5")
def test_erasing_amid_much_random_work_leaves_nothing_in_any_page(tmp_path, rng):
    for round in range(30):
        erase_amid_bustle(tmp_path / str(round) / "memory.db", rng.getrandbits(32))
