"""Many processes on one store: nothing lost, nothing doubled, no process starved."""

import json
import signal
import time
from collections import Counter

import pytest

import lukasa
from lukasa import Conflict, Key
from support.narrow import present

PATIENCE = 2.0


def cue(processes):
    """Wait until all processes are ready, then start all at once."""
    for process in processes:
        assert json.loads(process.stdout.readline() or "{}").get("ready"), process.stderr.read()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


def write_at_once(actors, ledger, rng, store, writers, count, doomed):
    """Start writers on a store that does not exist yet, kill some of them, return their ledgers."""
    store.parent.mkdir(parents=True)
    ledgers = {f"writer-{number}": store.with_name(f"ledger-{number}") for number in range(writers)}
    crowd = {
        name: actors.start("appending", store=store, ledger=path, name=name, count=count)
        for name, path in ledgers.items()
    }
    cue(crowd.values())
    ends = {name: rng.randrange(1, count // 2) for name in rng.sample(sorted(crowd), doomed)}
    while ends and all(crowd[name].poll() is None for name in ends):
        for name, end in list(ends.items()):
            if len(ledger(ledgers[name])) >= end:
                crowd[name].send_signal(signal.SIGKILL)
                del ends[name]
        time.sleep(0.001)
    complaints = {name: process.communicate(timeout=300)[1] for name, process in crowd.items()}
    assert not any(complaints.values()), complaints
    killed = {name for name, process in crowd.items() if process.returncode == -signal.SIGKILL}
    assert len(killed) == doomed, "a writer ended before it could be killed"
    return {name: ledger(path) for name, path in ledgers.items()}, killed


def check_nothing_lost_and_no_writer_starved(ledgers, killed, log, count):
    lines = [line for book in ledgers.values() for line in book]
    assert [line["error"] for line in lines if "error" in line] == []
    for line in lines:
        for key, version, digest in line["wrote"]:
            assert log[key, version].digest.hex() == digest
    twins = Counter((record.body["writer"], record.body["number"]) for record in log.values())
    assert set(twins.values()) == {1}
    assert all(len(book) == count for name, book in ledgers.items() if name not in killed)
    unacknowledged = len(log) - sum(len(line["wrote"]) for line in lines)
    assert 0 <= unacknowledged <= len(killed)
    assert max(line["took"] for line in lines) < PATIENCE


def check_that_all_went_forward_together(ledgers, killed, count):
    """Check that the slowest survivor had done a fair share of its work when the first was done."""
    survivors = [book for name, book in ledgers.items() if name not in killed]
    first_done = min(book[-1]["at"] for book in survivors)
    slowest = min(sum(line["at"] <= first_done for line in book) for book in survivors)
    assert slowest >= count / 4, f"{slowest} of {count} when the first was done"


@pytest.mark.requirement("LOG-3", "LOG-5")
def test_four_processes_on_one_store_lose_and_double_nothing_though_two_are_killed(
    actors, ledger, rng, store, verified_versions
):
    ledgers, killed = write_at_once(actors, ledger, rng, store, writers=4, count=60, doomed=2)
    check_nothing_lost_and_no_writer_starved(ledgers, killed, verified_versions(store), 60)


@pytest.mark.slow
@pytest.mark.requirement("LOG-3", "LOG-5")
def test_eight_processes_on_one_store_lose_and_double_nothing_though_two_are_killed(
    actors, ledger, rng, store, verified_versions
):
    ledgers, killed = write_at_once(actors, ledger, rng, store, writers=8, count=500, doomed=2)
    check_nothing_lost_and_no_writer_starved(ledgers, killed, verified_versions(store), 500)
    check_that_all_went_forward_together(ledgers, killed, 500)


@pytest.mark.requirement("LOG-3")
def test_many_processes_that_create_one_store_at_once_share_it(actors, tmp_path, verified_versions):
    crowd = [actors.start("opening", name=f"opener-{number}") for number in range(4)]
    for process in crowd:
        process.stdout.readline()
    for round in range(25):
        store = tmp_path / f"{round}.db"
        for process in crowd:
            process.stdin.write(f"{store}\n")
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline() or "{}") for process in crowd]
        assert [answer.get("error") for answer in answers] == [None] * len(crowd)
        written = {(key, version) for answer in answers for key, version, _ in answer["wrote"]}
        assert set(verified_versions(store)) == written
        assert len(written) == len(crowd)


@pytest.mark.requirement("LOG-3")
def test_one_fact_that_many_processes_would_add_is_added_once(actors, store, verified_versions):
    lukasa.open(store).close()
    facts = [f"f{number}" for number in range(25)]
    crowd = [actors.start("deciding", store=store, facts=facts, name=f"agent-{number}") for number in range(4)]
    cue(crowd)
    tallies = [actors.report(process) for process in crowd]
    assert sum(tally["added"] for tally in tallies) == len(facts)
    assert sum(tally["present"] for tally in tallies) == len(facts) * (len(crowd) - 1)
    assert sorted(record.label("fact") for record in verified_versions(store).values()) == sorted(facts)


@pytest.mark.requirement("LOG-3")
def test_a_number_that_many_processes_raise_by_compare_and_set_misses_no_turn(actors, store, verified_versions):
    with lukasa.open(store, agent="first") as memory:
        memory.journal.write("counter", body={"visits": 0}, id="visits")
    crowd = [actors.start("counting", store=store, times=25, name=f"agent-{number}") for number in range(4)]
    cue(crowd)
    for process in crowd:
        actors.report(process)
    versions = sorted(verified_versions(store).values(), key=lambda record: record.version)
    assert [record.body["visits"] for record in versions] == list(range(101))
    assert [record.version for record in versions] == list(range(1, 102))


@pytest.mark.requirement("LOG-3")
def test_a_late_write_that_expects_an_older_version_is_refused_across_processes(actors, store, verified_versions):
    key = Key("shared", "counter", "visits")
    with lukasa.open(store, agent="slow") as memory:
        slow = memory.journal.write("counter", body={"visits": 0}, id=key.id).unwrap()
        writer = actors.start("counting", store=store, times=1, name="quick")
        cue([writer])
        actors.report(writer)
        late = memory.journal.write("counter", body={"visits": 99}, id=key.id, expected=slow.version)
        assert late == Conflict(key, expected=1, found=2)
        assert memory.journal.delete(key, expected=slow.version).code == "proposed"
        twin = memory.journal.write("counter", body={"visits": 99}, id=key.id, expected=0)
        assert twin == Conflict(key, expected=0, found=2)
        assert present(memory.journal.get(key)).body == {"visits": 1}
    assert len([record for record in verified_versions(store).values() if record.kind == "counter"]) == 2
