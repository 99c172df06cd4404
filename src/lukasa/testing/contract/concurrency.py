"""The exam: many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from lukasa.engine import Engine
from lukasa.scope import EVERYTHING, Reach
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    add,
    counts,
    ids,
    keeps,
    listed,
    note,
    propose,
    read,
    together,
)

_WRITERS, _EACH = 8, 50


class Concurrency(Examination):
    """Nothing lost, torn, doubled or out of order."""

    @keeps("LOG-3")
    def test_many_threads_append_and_nothing_is_lost_or_doubled(self, engine: Engine) -> None:
        def write(name: int) -> list[int]:
            return [note(engine, f"{name}/{number}", f"text {number}").seq for number in range(_EACH)]

        positions = together([partial(write, name) for name in range(_WRITERS)])
        flat = sorted(seq for own in positions for seq in own)
        assert len(set(flat)) == _WRITERS * _EACH
        assert all(own == sorted(own) for own in positions)
        assert [record.seq for record in read(engine)] == flat
        assert sorted(listed(engine)) == sorted(f"{name}/{n}" for name in range(_WRITERS) for n in range(_EACH))
        assert counts(engine) == {("shared", "note"): (_WRITERS * _EACH, _WRITERS * _EACH)}
        assert engine.verify().sound

    @keeps("LOG-3")
    def test_a_reader_that_goes_on_where_it_stopped_misses_nothing(self, engine: Engine) -> None:
        self._follow(engine, [engine])

    @keeps("LOG-3")
    def test_a_reader_misses_nothing_of_what_two_engines_write(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.alongside(engine, clock)
        self._follow(self.alongside(engine, clock), [engine, other])

    def _follow(self, reading: Engine, writing: list[Engine]) -> None:
        finished = threading.Event()
        writers = 4

        def write(name: int) -> list[str]:
            for number in range(30):
                note(writing[name % len(writing)], f"{name}/{number}", scope=f"s{name % 2}")
            return []

        def follow(reach: Reach) -> list[str]:
            seen: list[str] = []
            cursor = 0
            while True:
                over = finished.is_set()
                page = read(reading, reach, after=cursor, limit=7)
                if page:
                    assert [record.seq for record in page] == sorted({record.seq for record in page})
                    assert page[0].seq > cursor
                    cursor = page[-1].seq
                    seen += ids(page)
                elif over:
                    return seen

        def supervise() -> list[str]:
            together([partial(write, name) for name in range(writers)])
            finished.set()
            return []

        reaches = [EVERYTHING, Reach.of(["s0"]), Reach.of(["s0", "s1"])]
        acts: list[Callable[[], list[str]]] = [supervise, *(partial(follow, reach) for reach in reaches)]
        _, *seen = together(acts)
        everything = sorted(f"{name}/{number}" for name in range(writers) for number in range(30))
        even = [id for id in everything if int(id.split("/")[0]) % 2 == 0]
        assert [sorted(own) for own in seen] == [everything, even, everything]
        assert seen[0] == listed(reading)

    @keeps("LOG-3")
    def test_nobody_ever_sees_half_a_batch(self, engine: Engine) -> None:
        finished = threading.Event()

        def write(name: int) -> int:
            for number in range(20):
                add(engine, *(propose("word", id=f"{name}/{number}/{part}", labels=("l=1",)) for part in range(3)))
            return 0

        def look() -> int:
            looks = 0
            while not finished.is_set():
                with engine.reading(EVERYTHING) as reader:
                    seen = len(reader.read())
                    assert seen % 3 == 0
                    assert len(reader.match_text("word")) == seen
                    assert sum(row.live for row in reader.tally()) == seen
                looks += 1
            return looks

        def supervise() -> int:
            together([partial(write, name) for name in range(3)])
            finished.set()
            return 0

        _, *looks = together([supervise, look, look])
        assert all(looks)
        assert len(read(engine)) == 180

    @keeps("LOG-3")
    def test_writers_and_upkeep_get_along(self, engine: Engine) -> None:
        def write(name: int) -> None:
            for number in range(15):
                note(engine, f"{name}/{number % 5}", f"text {number}")

        def tend() -> None:
            for _ in range(3):
                assert engine.verify().sound
                engine.reindex()
                engine.compact()

        acts: list[Callable[[], None]] = [tend, *(partial(write, name) for name in range(3))]
        together(acts)
        assert sorted(listed(engine)) == sorted(f"{name}/{number}" for name in range(3) for number in range(5))
        assert engine.verify().sound
