"""A store with a little of everything in it, for proofs that must hold whatever a store has been through."""

from __future__ import annotations

from lukasa.engine import Engine
from lukasa.record import Link
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    add,
    at,
    derived,
    drop,
    note,
    owner,
    propose,
    quarantine,
    release,
)


def live_in(engine: Engine, clock: FrozenClock) -> None:
    """Writes, changes, deletes, links, derives, hides, releases and erases, over an uneven stretch of time."""
    seqs = []
    for number in range(12):
        author, scope = ("ada", "ben", "mallory", "nick")[number % 4], ("shared", "ada", "ben")[number % 3]
        record = note(
            engine,
            f"n{number}",
            f"word{number % 5} common \u00fcber \U0001f680 nul\0 text {number}",
            author=author,
            scope=scope,
            body={"n": number, "deep": [{"x": None}]},
            labels=(f"mod={number % 2}", "all=1"),
            links=(Link("about", at(f"n{number - 1}")), *derived(at(f"n{number - 3}", scope))),
        )
        seqs.append(record.seq)
        clock.advance(60 if number % 5 else -150)
    engine.put_vectors("m", [(seq, 0, [1.0, float(at)]) for at, seq in enumerate(seqs)])
    since = clock.now()
    add(
        engine,
        propose("changed once", id="n1", author="mallory", scope="ada"),
        propose("made", made="made", author="ada"),
    )
    note(engine, "n0", "changed again", author="nick")
    drop(engine, "n3", author="ben")
    note(engine, "n3", "back again", author="ada", links=derived("n0"))
    quarantine(engine, "nick", since)
    note(engine, "later", "common", author="nick")
    note(engine, "n0", "common sense", author="ada")
    clock.advance(60)
    quarantine(engine, "mallory")
    note(engine, "child", "common", author="ada", links=derived(at("n2", "ben"), "later"))
    release(engine, "nick")
    note(engine, "erase me", "common secret", author="ada")
    owner(engine).erase(at("erase me"))
    drop(engine, "n6", author="mallory")
    note(engine, "last", "common last word", author="nick", links=derived("child", "n0"))
