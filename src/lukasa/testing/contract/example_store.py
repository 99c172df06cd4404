"""A store with a little of everything in it, for proofs that must hold whatever a store has been through."""

from __future__ import annotations

from lukasa.record import Link
from lukasa.storage.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    add,
    delete_note,
    derived_links,
    make_draft,
    make_key,
    owner_journal,
    quarantine,
    release,
    write_note,
)


def fill_example_store(engine: Engine, clock: FrozenClock) -> None:
    """Writes, changes, deletes, links, derives, hides, releases and erases, over an uneven stretch of time."""
    seqs = []
    for number in range(12):
        author, scope = ("ada", "ben", "mallory", "nick")[number % 4], ("shared", "ada", "ben")[number % 3]
        record = write_note(
            engine,
            f"n{number}",
            f"word{number % 5} common \u00fcber \U0001f680 nul\0 text {number}",
            author=author,
            scope=scope,
            body={"n": number, "deep": [{"x": None}]},
            labels=(f"mod={number % 2}", "all=1"),
            links=(Link("about", make_key(f"n{number - 1}")), *derived_links(make_key(f"n{number - 3}", scope))),
        )
        seqs.append(record.seq)
        clock.advance(60 if number % 5 else -150)
    engine.put_vectors("m", [(seq, 0, [1.0, float(at)]) for at, seq in enumerate(seqs)])
    since = clock.now()
    add(
        engine,
        make_draft("changed once", id="n1", author="mallory", scope="ada"),
        make_draft("made", generated_id="made", author="ada"),
    )
    write_note(engine, "n0", "changed again", author="nick")
    delete_note(engine, "n3", author="ben")
    write_note(engine, "n3", "back again", author="ada", links=derived_links("n0"))
    quarantine(engine, "nick", since)
    write_note(engine, "later", "common", author="nick")
    write_note(engine, "n0", "common sense", author="ada")
    clock.advance(60)
    quarantine(engine, "mallory")
    write_note(engine, "child", "common", author="ada", links=derived_links(make_key("n2", "ben"), "later"))
    release(engine, "nick")
    write_note(engine, "erase me", "common secret", author="ada")
    owner_journal(engine).erase(make_key("erase me"))
    delete_note(engine, "n6", author="mallory")
    write_note(engine, "last", "common last word", author="nick", links=derived_links("child", "n0"))
