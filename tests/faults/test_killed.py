"""Killed at any moment: what was acknowledged is there, a batch is whole or absent, no repair is needed."""

import signal
import time
from collections import Counter

import pytest

from lukasa import Key


class ExpectedContent:
    """The expected content by the ledger; what a kill left undecided is adopted from the store."""

    def __init__(self):
        self.log = {}

    def check(self, lines, found):
        must = dict(self.log)
        open_deed, compacted = None, False
        for line in lines:
            if "deed" in line:
                open_deed = line
            else:
                must.update({(key, version): digest for key, version, digest in line["wrote"]})
                compacted |= line.get("compacted", False)
                open_deed = None
        compacted |= open_deed is not None and open_deed["deed"] == "compact"
        newest = _newest(found)
        for (key, version), digest in must.items():
            if (key, version) in found:
                assert found[key, version].digest.hex() == digest
            else:
                assert compacted, f"{key} version {version} was acknowledged and is gone"
                assert version < newest[key], f"{key} version {version} was the newest and is gone"
        extra = [record for place, record in found.items() if place not in must and record.kind != "compaction"]
        if open_deed is None or open_deed["deed"] == "compact":
            assert not extra
        else:
            assert len(extra) in (0, open_deed["expects"]), f"{open_deed} is there in part"
        twins = Counter(
            (r.body["op"], r.body["place"]) for r in found.values() if "op" in r.body and r.origin == "manual"
        )
        assert set(twins.values()) <= {1}
        self.log = {place: record.digest.hex() for place, record in found.items()}


def _newest(found):
    newest: dict[Key, int] = {}
    for key, version in found:
        newest[key] = max(version, newest.get(key, 0))
    return newest


def kill_again_and_again(actors, ledger, rng, seed, store, verified_versions, rounds):
    expected, acknowledged, undecided = ExpectedContent(), 0, 0
    for round in range(rounds):
        book = store.with_name(f"ledger-{round}")
        store.parent.mkdir(exist_ok=True)
        actor = actors.start("mixing", store=store, ledger=book, seed=seed, round=round)
        enough = rng.randrange(1, 60)
        while len(ledger(book)) < enough and actor.poll() is None:
            time.sleep(rng.uniform(0, 0.004))
        actor.send_signal(signal.SIGKILL)
        assert actor.wait() == -signal.SIGKILL, actor.stderr.read()
        lines = ledger(book)
        began = time.process_time()
        found = verified_versions(store)
        assert time.process_time() - began < 5
        expected.check(lines, found)
        acknowledged += sum("wrote" in line for line in lines)
        undecided += "deed" in lines[-1]
    assert acknowledged > rounds
    return undecided


@pytest.mark.requirement("LOG-3", "LOG-5")
def test_killed_eight_times_in_a_row_a_store_keeps_what_it_acknowledged(
    actors, ledger, rng, seed, store, verified_versions
):
    kill_again_and_again(actors, ledger, rng, seed, store, verified_versions, rounds=8)


@pytest.mark.slow
@pytest.mark.requirement("LOG-3", "LOG-5")
@pytest.mark.parametrize("part", range(8))
def test_killed_four_hundred_times_a_store_keeps_what_it_acknowledged(
    actors, ledger, rng, seed, store, verified_versions, part
):
    undecided = kill_again_and_again(actors, ledger, rng, seed + part, store, verified_versions, rounds=50)
    assert undecided, "no kill ever came in the middle of a write"
