"""Both engines return the same records, in the same order, with the same scores."""

from __future__ import annotations

import random

import pytest

from lukasa.core.record import DERIVED_FROM, Draft, Key, Link
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.journal import Journal
from lukasa.journal.gate import Gate
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing import FrozenClock
from lukasa.testing.contract.example_store import dump_store, fill_example_store
from lukasa_bench.corpus import NoteCorpus

KINDS = frozenset({"memory"})
OPEN = Reach.of(["shared", "ada", "ben"])


@pytest.fixture
def clocks():
    return FrozenClock(), FrozenClock()


@pytest.fixture
def engines(fresh_store, clocks):
    pair = (
        SqliteEngine(None, clock=clocks[0], near_duplicate_kinds=KINDS),
        PostgresEngine(fresh_store(), clock=clocks[1], near_duplicate_kinds=KINDS),
    )
    yield pair
    for engine in pair:
        engine.close()


@pytest.mark.requirement("OPS-2")
def test_both_engines_hold_the_same_example_store(engines, clocks):
    for engine, clock in zip(engines, clocks, strict=True):
        fill_example_store(engine, clock)
    # Scores count the words of everything within reach; on SQLite, the mean length of a text is that of the matches.
    differing = ("words", "old words", "tip")
    sqlite, postgres = (dump_store(engine, OPEN, positions=False, without=differing) for engine in engines)
    vectors = [list(zip(*dump.pop("vectors"), strict=True)) for dump in (sqlite, postgres)]
    assert vectors[1][0] == vectors[0][0]
    assert vectors[1][1] == pytest.approx(vectors[0][1], abs=1e-3)
    assert postgres == sqlite


@pytest.mark.requirement("OPS-2")
@pytest.mark.parametrize("seed", range(4))
def test_both_engines_return_the_same_after_random_writes(engines, clocks, seed):
    for engine, clock in zip(engines, clocks, strict=True):
        write_at_random(engine, clock, random.Random(seed))
        assert engine.verify().sound
    sqlite, postgres = (dump_store(engine, positions=False) for engine in engines)
    assert postgres == sqlite


def write_at_random(engine, clock, rng):
    """Write, batch, change, delete, undo, quarantine and release, by the same random choices on every engine."""
    numbers = iter(range(10_000))
    journals = [
        Journal(engine, Gate(), FULL_REACH, clock, lambda: f"made{next(numbers)}", author=author)
        for author in ("ada", "ben", "mallory")
    ]
    words = ["green", "build", "deploy", "multi-agent", "Zürich", "the", "of"]

    def draft():
        id = rng.choice(["", *(f"r{number}" for number in range(8))])
        scope = rng.choice(["shared", "ada"])
        links: tuple[Link, ...] = ()
        if rng.random() < 0.3:
            links = (Link(DERIVED_FROM, Key(scope, "note", f"r{rng.randrange(8)}")),)
        labels = (f"n={rng.randrange(3)}",) if rng.random() < 0.5 else ()
        text = " ".join(rng.choices(words, k=rng.randrange(6)))
        return Draft("note", text, id=id, scope=scope, links=links, labels=labels)

    for _ in range(60):
        clock.advance(rng.choice([1, 60, -5]))
        journal = rng.choice(journals)
        operation = rng.random()
        if operation < 0.6:
            journal.append(draft())
        elif operation < 0.75:
            journal.append([draft() for _ in range(4)])
        elif operation < 0.85:
            journal.delete(Key("shared", "note", f"r{rng.randrange(8)}"))
        elif operation < 0.9:
            journal.quarantine("mallory", since=clock.now() if rng.random() < 0.5 else None)
        elif operation < 0.95 and journal.quarantined():
            journal.release("mallory")
        elif operation >= 0.95:
            journal.undo(author=rng.choice(["ada", "ben"]), since=clock.now())


@pytest.mark.requirement("OPS-2")
def test_both_engines_rank_texts_with_the_same_scores(engines, clocks):
    notes = NoteCorpus(7)
    drafts = [Draft("note", note.text, id=note.id) for note in notes.take(1500)]
    for engine, clock in zip(engines, clocks, strict=True):
        assert Journal(engine, Gate(), FULL_REACH, clock, str).append(drafts)
    for question in [*notes.questions(40), *notes.questions(5, words=12)]:
        sqlite, postgres = (find_best(engine, question) for engine in engines)
        assert [id for id, _ in postgres] == [id for id, _ in sqlite]
        assert [score for _, score in postgres] == pytest.approx([score for _, score in sqlite])


def find_best(engine, question):
    with engine.snapshot(FULL_REACH) as reader:
        return [(match.record.id, match.score) for match in reader.match_text(question, Query(limit=10))]
