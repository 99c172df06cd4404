"""The exam: many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    counts,
    ids,
    list_ids,
    make_draft,
    read,
    requirement,
    run_concurrently,
    write_note,
)

_WRITER_COUNT, _NOTES_PER_WRITER = 8, 50


class ConcurrencyTests(EngineTestBase):
    """Nothing lost, torn, doubled or out of order."""

    @requirement("LOG-3")
    def test_many_threads_append_and_nothing_is_lost_or_doubled(self, engine: Engine) -> None:
        def write(name: int) -> list[int]:
            return [write_note(engine, f"{name}/{number}", f"text {number}").seq for number in range(_NOTES_PER_WRITER)]

        positions = run_concurrently([partial(write, name) for name in range(_WRITER_COUNT)])
        flat = sorted(seq for own in positions for seq in own)
        assert len(set(flat)) == _WRITER_COUNT * _NOTES_PER_WRITER
        assert all(own == sorted(own) for own in positions)
        assert [record.seq for record in read(engine)] == flat
        assert sorted(list_ids(engine)) == sorted(
            f"{name}/{n}" for name in range(_WRITER_COUNT) for n in range(_NOTES_PER_WRITER)
        )
        assert counts(engine) == {
            ("shared", "note"): (_WRITER_COUNT * _NOTES_PER_WRITER, _WRITER_COUNT * _NOTES_PER_WRITER)
        }
        assert engine.verify().sound

    @requirement("LOG-3")
    def test_a_reader_that_goes_on_where_it_stopped_misses_nothing(self, engine: Engine) -> None:
        self._check_followers(engine, [engine])

    @requirement("LOG-3")
    def test_a_reader_misses_nothing_of_what_two_engines_write(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.open_second(engine, clock)
        self._check_followers(self.open_second(engine, clock), [engine, other])

    def _check_followers(self, reader_engine: Engine, writer_engines: list[Engine]) -> None:
        finished = threading.Event()
        writers = 4

        def write(name: int) -> list[str]:
            for number in range(30):
                write_note(writer_engines[name % len(writer_engines)], f"{name}/{number}", scope=f"s{name % 2}")
            return []

        def follow(reach: Reach) -> list[str]:
            seen: list[str] = []
            cursor = 0
            while True:
                over = finished.is_set()
                page = read(reader_engine, reach, after=cursor, limit=7)
                if page:
                    assert [record.seq for record in page] == sorted({record.seq for record in page})
                    assert page[0].seq > cursor
                    cursor = page[-1].seq
                    seen += ids(page)
                elif over:
                    return seen

        def supervise() -> list[str]:
            run_concurrently([partial(write, name) for name in range(writers)])
            finished.set()
            return []

        reaches = [FULL_REACH, Reach.of(["s0"]), Reach.of(["s0", "s1"])]
        acts: list[Callable[[], list[str]]] = [supervise, *(partial(follow, reach) for reach in reaches)]
        _, *seen = run_concurrently(acts)
        everything = sorted(f"{name}/{number}" for name in range(writers) for number in range(30))
        even = [id for id in everything if int(id.split("/")[0]) % 2 == 0]
        assert [sorted(own) for own in seen] == [everything, even, everything]
        assert seen[0] == list_ids(reader_engine)

    @requirement("LOG-3")
    def test_nobody_ever_sees_half_a_batch(self, engine: Engine) -> None:
        finished = threading.Event()

        def write(name: int) -> int:
            for number in range(20):
                add(engine, *(make_draft("word", id=f"{name}/{number}/{part}", labels=("l=1",)) for part in range(3)))
            return 0

        def look() -> int:
            looks = 0
            while not finished.is_set():
                with engine.snapshot(FULL_REACH) as reader:
                    seen = len(reader.read())
                    assert seen % 3 == 0
                    assert len(reader.match_text("word")) == seen
                    assert sum(row.live for row in reader.tally()) == seen
                looks += 1
            return looks

        def supervise() -> int:
            run_concurrently([partial(write, name) for name in range(3)])
            finished.set()
            return 0

        _, *looks = run_concurrently([supervise, look, look])
        assert all(looks)
        assert len(read(engine)) == 180

    @requirement("LOG-3")
    def test_writers_and_upkeep_get_along(self, engine: Engine) -> None:
        def write(name: int) -> None:
            for number in range(15):
                write_note(engine, f"{name}/{number % 5}", f"text {number}")

        def tend() -> None:
            for _ in range(3):
                assert engine.verify().sound
                engine.reindex()
                engine.compact()

        acts: list[Callable[[], None]] = [tend, *(partial(write, name) for name in range(3))]
        run_concurrently(acts)
        assert sorted(list_ids(engine)) == sorted(f"{name}/{number}" for name in range(3) for number in range(5))
        assert engine.verify().sound
