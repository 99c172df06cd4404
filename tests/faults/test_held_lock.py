"""Another process holds the write lock: a typed error after the timeout, nothing changed, nothing repaired."""

import time

import pytest

import lukasa
from lukasa import Draft, Key
from lukasa.errors import StoreBusy
from support.narrow import present


@pytest.fixture
def held(actors, store):
    """Create a store whose write lock another process holds until it is released."""
    with lukasa.open(store) as memory:
        for number in range(5):
            memory.journal.write("note", f"early {number}", id=f"n-{number}")
        memory.journal.write("note", "changed", id="n-0")
    holder = actors.start("holding", store=store)
    holder.stdout.readline()

    def let_go():
        holder.stdin.write("\n")
        holder.stdin.flush()
        actors.report(holder)

    return let_go


def list_store_files(store):
    return sorted(path.name for path in store.parent.iterdir())


DEEDS = {
    "write": lambda memory: memory.journal.write("note", "late"),
    "batch": lambda memory: memory.journal.append([Draft("note", "late")] * 3),
    "delete": lambda memory: memory.journal.delete(Key("shared", "note", "n-1")),
    "decide": lambda memory: memory.journal.append_if(lambda _: [Draft("note", "late")]),
    "undo": lambda memory: memory.journal.undo(author=""),
    "quarantine": lambda memory: memory.journal.quarantine("a"),
    "erase": lambda memory: memory.journal.erase(Key("shared", "note", "n-1")),
    "compact": lambda memory: memory.compact(),
    "reindex": lambda memory: memory.journal.reindex(),
    "vectors": lambda memory: memory._parts.engine.put_vectors("tiny", [(1, 0, [1.0, 2.0])]),
}


@pytest.mark.requirement("LOG-3")
@pytest.mark.parametrize("deed", DEEDS)
def test_a_lock_held_by_another_process_is_a_typed_error_after_the_timeout(held, store, exported, deed):
    with lukasa.open(store, timeout=0.2) as memory:
        before, files = exported(memory), list_store_files(store)
        began = time.monotonic()
        with pytest.raises(StoreBusy, match="nothing was written"):
            DEEDS[deed](memory)
        assert 0.2 <= time.monotonic() - began < 2
        assert exported(memory) == before
        assert list_store_files(store) == files
        held()
        DEEDS[deed](memory)
        assert memory.verify().sound


@pytest.mark.requirement("LOG-1", "LOG-2", "LOG-7")
def test_readers_do_not_wait_for_a_lock_that_another_process_holds(held, store, exported, tmp_path):
    with lukasa.open(store, timeout=30) as memory:
        began = time.monotonic()
        assert len(list(memory.journal.read())) == 5
        assert [record.version for record in memory.journal.history(Key("shared", "note", "n-0"))] == [1, 2]
        assert present(memory.journal.get(Key("shared", "note", "n-0"), version=1)).text == "early 0"
        assert len(memory.journal.find("early")) == 4
        assert memory.journal.tip() == 6
        assert exported(memory)
        assert memory.describe()
        memory.backup(tmp_path / "copy.db")
        assert time.monotonic() - began < 2
    held()


@pytest.mark.requirement("LOG-5")
def test_a_sound_store_is_not_called_damaged_because_another_process_holds_its_lock(held, store):
    with lukasa.open(store, timeout=0.2) as memory:
        try:
            verdict = memory.verify()
        except StoreBusy:
            pass
        else:
            assert verdict.sound, verdict.findings
        held()
        assert memory.verify().sound
