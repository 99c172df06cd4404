"""Parts of tests that run in separate processes: ``python actors.py PART '{"fact": …}'``.

A part that gets a ledger writes there what was acknowledged, after it was acknowledged. A part that is meant to
end by itself prints a report, one line of JSON.
"""

import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

import lukasa
from lukasa import Draft, Key, Link, Refused
from lukasa.errors import LukasaError
from lukasa.storage.engine import Query
from lukasa.storage.sqlite.writer import HeadWriter, read_head
from support.faulty_disk import FaultyDisk
from support.narrow import present

ENTIRE_LOG = Query(every_version=True, hidden=True)


class Ledger:
    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, **facts):
        os.write(self._file, json.dumps(facts).encode() + b"\n")


def report(**facts):
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def wait_for_the_signal():
    report(ready=True)
    sys.stdin.readline()


def describe_records(records):
    return [[str(record.key), record.version, record.digest.hex()] for record in records]


def appending(store, ledger, name, count, **_):
    """Append one record after the other; note how long each took."""
    wait_for_the_signal()
    book = Ledger(ledger)
    with lukasa.open(store, agent=name) as memory:
        for number in range(count):
            began = time.monotonic()
            try:
                outcome = memory.journal.write("note", f"{name} says {number}", {"writer": name, "number": number})
            except LukasaError as error:
                book.note(number=number, error=repr(error), took=time.monotonic() - began)
                continue
            book.note(
                number=number,
                wrote=describe_records(outcome.unwrap_all()),
                took=time.monotonic() - began,
                at=time.monotonic(),
            )
    report(done=True)


def opening(name, **_):
    """Open each named store, write one record there, and report the outcome."""
    report(ready=True)
    for line in sys.stdin:
        try:
            with lukasa.open(line.strip(), agent=name) as memory:
                report(wrote=describe_records(memory.journal.write("note", f"{name} was here").unwrap_all()))
        except LukasaError as error:
            report(error=repr(error))


def deciding(store, facts, name, **_):
    """Add each fact unless another process has added it, with a conditional append."""
    with lukasa.open(store, agent=name) as memory:
        memory.journal.tip()
        wait_for_the_signal()
        tally = {"added": 0, "present": 0}
        for fact in facts:

            def unless_known(reader, fact=fact):
                if reader.read(Query(kinds=("fact",), labels=(f"fact={fact}",))):
                    return Refused("present", "Another process has added this fact.")
                return [Draft("fact", f"{fact} is so", labels=(f"fact={fact}",))]

            tally["added" if memory.journal.append_if(unless_known) else "present"] += 1
    report(**tally)


def counting(store, times, name, **_):
    """Increment one number many times by compare and set."""
    key = Key("shared", "counter", "visits")
    races_lost = 0
    with lukasa.open(store, agent=name) as memory:
        memory.journal.tip()
        wait_for_the_signal()
        for _number in range(times):
            while True:
                before = memory.journal.get(key)
                body = {"visits": present(before).body["visits"] + 1}
                if memory.journal.write("counter", body=body, id=key.id, expected=present(before).version):
                    break
                races_lost += 1
    report(races_lost=races_lost)


def holding(store, **_):
    """Hold the write lock until a line arrives on standard input."""
    database = apsw.Connection(store)
    database.execute("BEGIN IMMEDIATE")
    wait_for_the_signal()
    database.execute("ROLLBACK")
    database.close()
    report(done=True)


def looking(store, **_):
    """Hold a snapshot until a line arrives on standard input, then hold the store open until the next line."""
    with lukasa.open(store) as memory:
        with memory.journal.snapshot() as reader:
            reader.read()
            wait_for_the_signal()
        wait_for_the_signal()
    report(done=True)


def mixing(store, ledger, seed, round, **_):
    """Add, update, delete, batch, quarantine, undo and compact without end; note each operation before it runs."""
    rng = random.Random(f"{seed}/{round}")
    book = Ledger(ledger)
    with lukasa.open(store) as memory:
        journal = memory.journal
        for number in itertools.count():
            op = f"{round}.{number}"
            live = list(journal.read(Query(kinds=("note",))))
            deed = rng.choices(["batch", "delete", "quarantine", "undo", "compact"], [60, 15, 8, 8, 4])[0]
            if deed == "batch" or not live:
                drafts = [_draft(rng, op, place, live) for place in range(rng.choice([1, 1, 3, 20]))]
                book.note(op=op, deed="batch", expects=len(drafts))
                outcome = journal.append(drafts)
                book.note(op=op, wrote=describe_records(outcome.unwrap_all()))
            elif deed == "delete":
                book.note(op=op, deed=deed, expects=1)
                outcome = journal.delete(rng.choice(live).key)
                book.note(op=op, wrote=describe_records(outcome.unwrap_all()))
            elif deed == "quarantine":
                veiled = sorted(journal.quarantined())
                book.note(op=op, deed=deed, expects=1)
                outcome = journal.release(veiled[0]) if veiled else journal.quarantine(rng.choice("ab"))
                book.note(op=op, wrote=describe_records(outcome.unwrap_all()))
            elif deed == "undo":
                label = f"op={rng.choice(live).label('op')}"
                keys = {record.key for record in journal.read(Query(labels=(label,), every_version=True))}
                reverted = sum(label in journal.history(key)[-1].labels for key in keys)
                book.note(op=op, deed=deed, expects=reverted)
                undone = journal.undo(label=label)
                book.note(
                    op=op,
                    wrote=describe_records(
                        journal.read(Query(labels=(undone.label,), every_version=True, hidden=True))
                    ),
                )
            else:
                book.note(op=op, deed=deed, expects=1)
                memory.compact()
                book.note(op=op, wrote=[], compacted=True)


def _draft(rng, op, place, live):
    earlier = rng.choice(live) if live and rng.random() < 0.3 else None
    text = " ".join(
        rng.choice(["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs"])
        for _ in range(rng.choice([3, 300]))
    )
    return Draft(
        "note", text, {"op": op, "place": place}, id=earlier.id if earlier else "", author=rng.choice("abcdef"),
        labels=(f"op={op}",),
    )  # fmt: skip


class Ticks:
    """A clock that returns the same sequence of times in every process."""

    def __init__(self):
        self._seconds = itertools.count(1_800_000_000)

    def now(self):
        return datetime.fromtimestamp(next(self._seconds), UTC)


def _append(memory):
    fresh = [Draft("note", f"new {number} " + "palimpsest " * 150, {"number": number}) for number in range(3)]
    changed = Draft("note", "changed", id="n-7", labels=("state=changed",))
    gone = Draft("note", id="n-8", deleted=True)
    assert memory.journal.append([*fresh, changed, gone])


def _compact(memory):
    assert memory.compact().versions


def _erase(memory):
    assert memory.journal.erase(Key("shared", "note", "n-3"), subject="cormorant").records == 3


def _create(memory):
    assert memory.journal.tip() == 0


DEEDS = {"create": _create, "append": _append, "compact": _compact, "erase": _erase}


def _prepare(store, size):
    """Create a store with something to compact and something to erase."""
    with lukasa.open(store, clock=Ticks(), new_id=map("made-{}".format, itertools.count()).__next__) as memory:
        for number in range(size):
            assert memory.journal.write("note", f"note {number} about herons", {"n": number}, id=f"n-{number}")
        for number in range(0, size, 3):
            bird = "cormorant" if number == 9 else "heron"
            assert memory.journal.write("note", f"note {number}, of a {bird} again", id=f"n-{number}")
        source = Link("derived_from", Key("shared", "note", "n-9"))
        assert memory.journal.write("summary", "birds", id="s-1", links=(source,))


def _perform(deed, store, disk):
    with disk.open(store, clock=Ticks(), new_id=map("late-{}".format, itertools.count()).__next__) as memory:
        DEEDS[deed](memory)


def _content(store):
    """Return every version of a store that must be sound and writable without any repair."""
    with lukasa.open(store) as memory:
        verdict = memory.verify()
        assert verdict.sound, verdict.findings
        versions = sorted((str(r.key), r.version, r.digest.hex()) for r in memory.journal.read(ENTIRE_LOG))
        assert memory.journal.write("note", "and life goes on")
    return versions


def _copy(store, to):
    for end in ("", "-wal", "-shm"):
        to.with_name(to.name + end).unlink(missing_ok=True)
    if store.exists():
        shutil.copyfile(store, to)
    return to


def dying(folder, deed, size, sample, seed, **_):
    """Repeat an operation, killed at another step each time, and report what each kill left."""
    folder = Path(folder)
    before, copy = folder / "before.db", folder / "copy.db"
    if deed != "create":
        _prepare(before, size)
    disk = FaultyDisk()
    _perform(deed, _copy(before, copy), disk)
    steps = list(disk.steps)
    after = _content(copy)
    old = _content(_copy(before, copy))
    accepted = [old, after, [version for version in after if "/compaction/" not in version[0]]]
    moments = [(step.number, keep) for step in steps for keep in ([0.0, 0.5] if step.verb == "write" else [0.0])]
    if sample and sample < len(moments):
        moments = random.Random(seed).sample(moments, sample)
    left = {"old": 0, "new": 0}
    for number, keep in moments:
        _copy(before, copy)
        child = os.fork()
        if not child:
            _die(deed, copy, number, keep)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "the step was not reached"
        found = _content(copy)
        assert found in accepted, f"killed at step {number} of {len(steps)} ({steps[number - 1]}, keep {keep})"
        left["old" if found == old else "new"] += 1
        if deed == "erase":
            _erase_again(copy)
    report(steps=len(steps), killed=len(moments), **left)


def _die(deed, store, number, keep):
    try:
        disk = FaultyDisk()
        with disk.inject_fault(None, nth=number, keep=keep, then=lambda: os.kill(os.getpid(), signal.SIGKILL)):
            _perform(deed, store, disk)
    finally:
        os._exit(1)


def _erase_again(store):
    """Erase again after a kill during an erasure, and check that no trace is left."""
    with lukasa.open(store) as memory:
        memory.journal.erase(Key("shared", "note", "n-3"), subject="cormorant")
        assert not _traces(store, [b"cormorant", b"ormor"])


def _traces(store, fragments):
    """Return the fragments found in the store's files; another process reads them, as a live store requires."""
    files = sorted(store.parent.glob(store.name + "*"))
    raw = subprocess.run(["cat", *files], stdout=subprocess.PIPE, check=True).stdout.lower()
    return [fragment for fragment in fragments if fragment in raw]


def _mounted(folder, *options):
    subprocess.run(["mount", *options, str(folder)], check=True)
    return Path(folder)


def heading(folder, **_):
    """Write while no file can be created, then with space; then end a head on a disk that turned read-only."""
    small = _mounted(folder, "-t", "tmpfs", "-o", "size=3m,nr_inodes=64", "tmpfs")
    store, heads = small / "memory.db", list[Any]()
    with lukasa.open(store) as memory:
        ballast = list[Path]()
        with suppress(OSError):
            while True:
                ballast.append(small / f"ballast-{len(ballast)}")
                ballast[-1].touch()
        accepted = [bool(memory.journal.write("note", "no file can be created"))]
        heads.append(read_head(store))
        for file in ballast[:-1]:
            file.unlink()
        accepted.append(bool(memory.journal.write("note", "there is space again")))
        heads.append(read_head(store) is not None and present(read_head(store)).seq == memory.journal.tip())
        sound = memory.verify().sound
    first = HeadWriter(store, "t" * 32)
    first.note(5)
    os.close(first._descriptor)  # as if its process were killed
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    writer = HeadWriter(store, "t" * 32)
    writer.note(6)
    writer.close()
    with lukasa.open(store) as memory:
        texts = [record.text for record in memory.journal.read()]
    report(accepted=accepted, heads=heads, sound=sound, left=present(read_head(store)).seq, texts=texts)


def filling(folder, **_):
    """Write to a disk of 3 MB until it is full, read, free space and write again."""
    small = _mounted(folder, "-t", "tmpfs", "-o", "size=3m", "tmpfs")
    ballast = small / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    with lukasa.open(small / "memory.db") as memory:
        acknowledged: list[Any] = []
        refused = None
        while refused is None:
            try:
                record = memory.journal.write("note", f"number {len(acknowledged)} " + "filler " * 700).unwrap()
                acknowledged.append([str(record.key), record.version, record.digest.hex()])
            except LukasaError as error:
                refused = type(error).__name__
        kept = describe_records(memory.journal.read())
        found = describe_records(
            sorted((match.record for match in memory.journal.find("number")), key=lambda record: record.seq)
        )
        sound = [memory.verify().sound]
        opened_while_full = _outcome(lambda: _count(small / "memory.db") == len(kept))
        ballast.unlink()
        written_with_space = bool(memory.journal.write("note", "there is space again"))
        sound.append(memory.verify().sound)
    report(
        refused=refused, acknowledged=acknowledged, kept=kept, found=found, opened_while_full=opened_while_full,
        written_with_space=written_with_space, sound=sound,
    )  # fmt: skip


def sealing_off(folder, leftover, mounted, **_):
    """Create a store, make its folder read-only, open it there, try everything, and make the folder writable again.

    ``leftover`` says what a killed writer left next to the store: nothing, the write-ahead log, or the log with its
    shared memory.
    """
    place = _mounted(folder, "-t", "tmpfs", "-o", "size=20m", "tmpfs") if mounted else Path(folder)
    store = place / "memory.db"
    child = os.fork()
    if not child:
        _write_and_leave(store, killed=leftover != "nothing")
    os.waitpid(child, 0)
    if leftover == "log":
        store.with_name("memory.db-shm").unlink()
    files = sorted(path.name for path in place.iterdir())
    _switch(place, mounted, writable=False)
    with lukasa.open(store) as memory:
        journal = memory.journal
        key = Key("shared", "note", "n-0")
        reads = {
            "live": [record.text for record in journal.read(Query(kinds=("note",)))],
            "history": [record.text for record in journal.history(key)],
            "earlier": present(journal.get(key, version=1)).text,
            "found": len(journal.find("early")),
            "tally": [[row.kind, row.live, row.versions] for row in journal.tally()],
            "exported": memory.export(io.BytesIO()),
            "sound": memory.verify().sound,
            "read_only": memory.describe()["read_only"],
        }
        writes = {
            "write": _refusal(lambda: journal.write("note", "late")),
            "delete": _refusal(lambda: journal.delete(key)),
            "erase": _refusal(lambda: journal.erase(key)),
            "compact": _refusal(memory.compact),
            "reindex": _refusal(journal.reindex),
            "quarantine": _refusal(lambda: journal.quarantine("a")),
        }
        still = [record.text for record in journal.read(Query(kinds=("note",)))]
    unchanged = sorted(path.name for path in place.iterdir()) == files
    _switch(place, mounted, writable=True)
    with lukasa.open(store) as memory:
        later = bool(memory.journal.write("note", "writable again")) and memory.verify().sound
    report(reads=reads, writes=writes, still=still, unchanged=unchanged, later=later, files=files)


def _write_and_leave(store, *, killed):
    memory = lukasa.open(store)
    for number in range(5):
        memory.journal.write("note", f"early {number}", id=f"n-{number}")
    memory.journal.write("note", "changed", id="n-0")
    if not killed:
        memory.close()
    os._exit(0)


def _switch(place, mounted, *, writable):
    if mounted:
        _mounted(place, "-o", "remount,rw" if writable else "remount,ro")
        return
    for path in place.iterdir():
        path.chmod(0o600 if writable else 0o400)
    place.chmod(0o700 if writable else 0o500)


def _refusal(deed):
    try:
        return repr(deed())
    except LukasaError as error:
        return [type(error).__name__, str(error)]


def leaving(store, early, late, **_):
    """Write, checkpoint into the database file, write more, and exit without closing."""
    memory = lukasa.open(store)
    for number in range(early):
        memory.journal.write("note", f"number {number}")
    apsw.Connection(store).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for number in range(early, early + late):
        memory.journal.write("note", f"number {number}")
    report(done=True)
    os._exit(0)


def _outcome(deed):
    try:
        return deed()
    except LukasaError as error:
        return type(error).__name__


def _count(store):
    with lukasa.open(store) as memory:
        return len(list(memory.journal.read()))


def streaming(folder, count, limit, **_):
    """Write, export, import and verify many records in a process with a memory limit."""
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    folder = Path(folder)
    with lukasa.open(folder / "one.db") as memory:
        for start in range(0, count, 1000):
            drafts = [
                Draft("note", f"number {number} " + "of many words " * 70) for number in range(start, start + 1000)
            ]
            assert memory.journal.append(drafts)
        exported = memory.export(folder / "log.jsonl")
    with lukasa.open(folder / "two.db") as memory:
        added = memory.import_(folder / "log.jsonl").added
        sound = memory.verify().sound
    report(exported=exported, added=added, sound=sound, size=(folder / "log.jsonl").stat().st_size)


def reading_full(folder, leftover, **_):
    """Create a store on a small disk, fill the disk to the last byte, then open the store, recall and use the CLI."""
    small = _mounted(folder, "-t", "tmpfs", "-o", "size=3m", "tmpfs")
    store = _fill_and_leave(small, killed=leftover != "nothing")
    store.with_name("memory.db-shm").unlink(missing_ok=True)
    for size in (4096, 1):
        with (small / f"ballast-{size}").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                pass
    free = shutil.disk_usage(small).free
    began = time.monotonic()
    found = _recall_and_list(store)
    report(free=free, took=time.monotonic() - began < 20, **found)


def recalling_sealed(folder, leftover, mounted, **_):
    """Create a store, make its folder read-only, and recall from it there."""
    place = _mounted(folder, "-t", "tmpfs", "-o", "size=20m", "tmpfs") if mounted else Path(folder)
    store = _fill_and_leave(place, killed=leftover != "nothing")
    if leftover == "log":
        store.with_name("memory.db-shm").unlink(missing_ok=True)
    _switch(place, mounted, writable=False)
    found = _recall_and_list(store)
    _switch(place, mounted, writable=True)
    report(**found)


def _fill_and_leave(place, *, killed):
    child = os.fork()
    if not child:
        _write_and_leave(place / "memory.db", killed=killed)
    os.waitpid(child, 0)
    return place / "memory.db"


def _recall_and_list(store):
    with lukasa.open(store, embedder="hash") as memory:
        answer = memory.recall("early changed", 10)
    command = [
        sys.executable,
        "-m",
        "lukasa.interfaces.cli",
        "--store",
        str(store),
        "recall",
        "early changed",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = len(json.loads(done.stdout).get("hits", ())) if done.returncode == 0 else done.stderr
    return {
        "hits": len(answer.hits),
        "unindexed": answer.unindexed,
        "note": "found by words alone" in answer.note,
        "cli": [done.returncode, listed],
    }


PARTS = (
    appending, counting, deciding, dying, filling, heading, holding, leaving, looking, mixing, opening,
    reading_full, recalling_sealed, sealing_off, streaming,
)  # fmt: skip


if __name__ == "__main__":
    {part.__name__: part for part in PARTS}[sys.argv[1]](**json.loads(sys.argv[2]))
