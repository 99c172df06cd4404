"""Export and import of a log as JSONL: lossless, and every damage is detected."""

import io

import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.errors import FormatError


@pytest.fixture
def filled(tmp_path):
    """Store with every kind of entry."""
    with lukasa.open(tmp_path / "x.db") as memory:
        journal = memory.journal
        key = (
            journal.write("note", "first ünïcode 👋", {"n": [1, 2.5, None]}, author="orion", labels=("tag=x",))
            .unwrap()
            .key
        )
        journal.write("note", "second", id=key.id, links=(Link("derived_from", Key("shared", "fact", "f")),))
        journal.delete(journal.write("note", "gone").unwrap().key)
        journal.write("note", "poison", author="mallory", scope="mallory")
        journal.quarantine("mallory")
        journal.append([Draft("fact", f"fact {n}") for n in range(30)])
        yield memory


def exported(memory):
    """Return the exported log of a store."""
    target = io.BytesIO()
    memory.export(target)
    return target.getvalue()


@pytest.mark.requirement("LOG-7")
def test_import_of_an_export_gives_an_equal_store(filled, tmp_path):
    filled.export(tmp_path / "out.jsonl")
    with lukasa.open(tmp_path / "y.db") as other:
        result = other.import_(tmp_path / "out.jsonl")
        assert (result.added, result.present, result.refused) == (36, 0, [])
        assert exported(other) == exported(filled)
        assert [row for row in other.journal.tally() if row.kind != "import"] == filled.journal.tally()
        assert other.journal.find("poison") == []
        assert other.verify().findings == ()


@pytest.mark.requirement("LOG-7")
def test_import_continues_after_an_interruption(filled, tmp_path):
    whole = exported(filled)
    cut = whole[: len(whole) // 2]
    with lukasa.open(tmp_path / "y.db") as other:
        with pytest.raises(FormatError):
            other.import_(io.BytesIO(cut[: cut.rindex(b"\n") + 1]))
        before = sum(row.versions for row in other.journal.tally() if row.kind != "import")
        result = other.import_(io.BytesIO(whole))
        assert 0 < before == result.present
        assert exported(other) == whole


@pytest.mark.requirement("LOG-7")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "header"),
        (lambda data: b'{"something": "else"}\n', "header"),
        (lambda data: data.replace(b'{"end"', b'{"fin"'), "not a record"),
        (lambda data: data[: data.rindex(b'{"end"')], "ends in the middle"),
        (lambda data: data[:-1] + data[-1:] + b"more\n", "follows the end"),
        (lambda data: data.replace(b'"text":"fact 3"', b'"text":"fact 3","text":"x"'), "twice"),
        (lambda data: data.replace(b'{"sha256":"', b'{"sha256":"zz', 1), "not a record"),
        (lambda data: b"\n".join(line for line in data.split(b"\n") if b"fact 7" not in line), "not complete"),
    ],
)
def test_import_refuses_a_damaged_file(filled, damage, message):
    with lukasa.open("memory:") as other, pytest.raises(FormatError, match=message):
        other.import_(io.BytesIO(damage(exported(filled))))


@pytest.mark.requirement("LOG-7")
def test_import_refuses_an_altered_line_by_its_number(filled):
    data = exported(filled).replace(b"fact 5", b"lies 5")
    number = next(index for index, line in enumerate(data.split(b"\n"), 1) if b"lies 5" in line)
    with lukasa.open("memory:") as other:
        result = other.import_(io.BytesIO(data))
        assert result.refused == [(number, "the line does not match its digest")]
        assert other.journal.find("lies") == []


def test_import_passes_the_gate(filled):
    import hashlib

    line = b'{"id":"","kind":"note","origin":"x","scope":"shared","created_at":"2026-01-01T00:00:00Z","recorded_at":"2026-01-01T00:00:00Z","version":1}'
    digest = hashlib.sha256(line).digest()
    end = hashlib.sha256(digest).hexdigest().encode()
    data = b'{"lukasa":"log","format":1}\n{"sha256":"%b","record":%b}\n{"end":{"sha256":"%b","versions":1}}\n' % (
        digest.hex().encode(), line, end,
    )  # fmt: skip
    with lukasa.open("memory:") as other:
        assert other.import_(io.BytesIO(data)).refused == [(2, "the id is empty")]


def test_export_holds_only_what_the_agent_may_read(tmp_path):
    with lukasa.open(tmp_path / "s.db") as owner:
        owner.journal.append([Draft("note", "ours"), Draft("note", "theirs", scope="elysia")])
    with lukasa.open(tmp_path / "s.db", agent="orion") as orion:
        assert b"ours" in exported(orion)
        assert b"theirs" not in exported(orion)


def test_export_that_is_interrupted_keeps_the_earlier_file(filled, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("precious")

    def stop(done, total):
        raise KeyboardInterrupt

    filled.journal.append([Draft("note") for _ in range(600)])
    with pytest.raises(KeyboardInterrupt):
        filled.export(target, progress=stop)
    assert target.read_text() == "precious"


@pytest.mark.requirement("LOG-7")
def test_two_stores_that_were_both_recalled_import_into_each_other_without_a_refusal(tmp_path):
    texts = {"a": "Deploys run on Tuesday at noon.", "b": "The staging database is called heron."}
    for name, text in texts.items():
        with lukasa.open(tmp_path / f"{name}.db", embedder="hash") as memory:
            memory.remember(text)
            memory.recall("anything")
            memory.export(tmp_path / f"{name}.jsonl")
    for name, other in (("a", "b"), ("b", "a")):
        with lukasa.open(tmp_path / f"{name}.db") as memory:
            done = memory.import_(tmp_path / f"{other}.jsonl")
            assert (done.added, done.present, done.refused) == (1, 1, [])
            assert {hit.text for hit in memory.recall("when are deploys, and what is staging called?").hits} == set(
                texts.values()
            )
