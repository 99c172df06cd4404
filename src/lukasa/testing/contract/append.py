"""Conformance tests of ``append``: batches, expected versions, idempotency keys, conditions and concurrency."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest

from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Key, Link, ValidatedDraft, digest_of, entry_bytes
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.errors import LukasaError
from lukasa.storage.engine import Engine, Query, Reader
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    accepted_records,
    add,
    counts,
    delete_note,
    get,
    history,
    ids,
    list_ids,
    make_draft,
    make_key,
    read,
    receipt_for,
    refusal_code,
    requirement,
    run_concurrently,
    run_with_timeout,
    text_of,
    tip,
    write_note,
)

T = TypeVar("T")
_ROUGH_TEXT = (
    'na\u00efve \u65e5\u672c\u8a9e \U0001f469\u200d\U0001f680 e\u0301 \u202eabc\u202c NUL\0 tab\t "quoted" \\ line\n'
)


class AppendTests(EngineTestBase):
    """Batches are atomic, versions count up, and positions grow."""

    @requirement("LOG-1", "LOG-5")
    def test_append_stores_every_field_as_written(self, engine: Engine, clock: FrozenClock) -> None:
        link = Link("about", Key("elsewhere", "topic", "t/1"))
        happened = NOON - timedelta(days=400, microseconds=7)
        body = {"deep": [{"n": None, "t": True, "i": 2**64 - 1, "f": -0.5, "s": _ROUGH_TEXT}], "": {}}
        (returned,) = add(
            engine,
            make_draft(
                _ROUGH_TEXT, kind="turn", id="t\u00e9/../1", scope="ada", author="ada lovelace", origin="chat", body=body,
                links=(link,), labels=("session=s1", "mood=\U0001f600"), happened_at=happened,
            ),
        )  # fmt: skip
        record = get(engine, Key("ada", "turn", "t\u00e9/../1"))
        assert record is not None
        assert record == returned
        assert (record.text, record.body, record.author, record.origin) == (_ROUGH_TEXT, body, "ada lovelace", "chat")
        assert (record.links, record.labels) == ((link,), ("session=s1", "mood=\U0001f600"))
        assert (record.happened_at, record.moment) == (happened, happened)
        assert (record.created_at, record.recorded_at) == (clock.now(), clock.now())
        assert (record.version, record.deleted) == (1, False)
        assert record.digest == digest_of(entry_bytes(record))

    @requirement("LOG-1")
    def test_versions_count_up_per_key(self, engine: Engine) -> None:
        assert [write_note(engine, "a").version for _ in range(3)] == [1, 2, 3]
        assert write_note(engine, "a", scope="ada").version == 1
        assert write_note(engine, "a", kind="fact").version == 1
        assert write_note(engine, "b").version == 1

    @requirement("LOG-1")
    def test_append_assigns_growing_positions_and_tip_returns_the_newest(self, engine: Engine) -> None:
        assert add(engine) == []
        assert tip(engine) == 0
        batch = add(engine, make_draft(id="a"), make_draft(id="b"), make_draft(id="a"))
        positions = [record.seq for record in (*batch, write_note(engine, "c"), delete_note(engine, "a"))]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        assert tip(engine) == positions[-1]

    @requirement("LOG-1")
    def test_a_new_version_keeps_the_creation_time_of_the_first(self, engine: Engine, clock: FrozenClock) -> None:
        created = clock.now()
        write_note(engine, "a")
        changed = clock.advance(60)
        record = write_note(engine, "a")
        assert (record.created_at, record.recorded_at) == (created, changed)

    def test_accepted_records_are_a_sequence(self, engine: Engine) -> None:
        outcome = engine.append(FULL_REACH, [make_draft(id="a"), make_draft(id="b"), make_draft(id="c")])
        assert isinstance(outcome, Accepted)
        assert len(outcome.records) == 3
        assert outcome.records[-1].id == "c"
        assert ids(outcome.records[1:]) == ["b", "c"]
        assert list(outcome.records) == read(engine)

    def test_a_batch_may_write_one_key_several_times(self, engine: Engine) -> None:
        texts = ("one", "two", "", "four")
        batch = add(engine, *(make_draft(text, id="a", deleted=not text) for text in texts))
        assert [record.version for record in batch] == [1, 2, 3, 4]
        assert text_of(engine, "a") == "four"
        assert history(engine, "a") == batch
        assert list_ids(engine) == ["a"]

    @pytest.mark.parametrize("taken", [None, "n3", "n29"])
    def test_a_large_batch_with_chosen_ids_continues_the_records_that_exist(
        self, engine: Engine, taken: str | None
    ) -> None:
        if taken is not None:
            write_note(engine, taken, "before")
        names = [f"n{number}" for number in range(30)]
        batch = [make_draft(f"text {name}", id=name, labels=(f"name={name}", "all=yes")) for name in names]
        outcome = engine.append(FULL_REACH, batch)
        assert isinstance(outcome, Accepted)
        assert list(outcome.seqs) == [record.seq for record in outcome.records]
        assert [record.version for record in outcome.records] == [2 if name == taken else 1 for name in names]
        assert sorted(list_ids(engine)) == sorted(names)
        with engine.snapshot(FULL_REACH) as reader:
            assert ids(reader.read(Query(labels=("name=n7",)))) == ["n7"]
            assert len(list(reader.read(Query(labels=("all=yes",))))) == 30
        assert write_note(engine, "n3").version == (3 if taken == "n3" else 2)

    def test_a_large_batch_may_write_one_chosen_id_twice(self, engine: Engine) -> None:
        names = [*(f"n{number}" for number in range(30)), "n5"]
        batch = add(engine, *(make_draft(str(at), id=name) for at, name in enumerate(names)))
        assert [record.version for record in batch] == [1] * 30 + [2]
        assert text_of(engine, "n5") == "30"

    def test_concurrent_large_batches_with_the_same_ids_write_one_version_each(self, engine: Engine) -> None:
        names = [f"n{number}" for number in range(20)]

        def write(number: int) -> object:
            return engine.append(FULL_REACH, [make_draft(f"of {number}", id=name) for name in names])

        assert all(
            isinstance(outcome, Accepted)
            for outcome in run_concurrently([partial(write, number) for number in range(4)])
        )
        assert {tuple(record.version for record in history(engine, name)) for name in names} == {(1, 2, 3, 4)}

    @requirement("LOG-3")
    @pytest.mark.parametrize("index", [0, 1, 2])
    def test_a_conflict_anywhere_in_a_batch_writes_nothing(self, engine: Engine, index: int) -> None:
        write_note(engine, "taken")
        before = tip(engine)
        batch = [make_draft(id="x"), make_draft(id="y")]
        batch.insert(index, make_draft(id="taken", expected=0))
        assert engine.append(FULL_REACH, batch) == Conflict(make_key("taken"), 0, 1)
        assert list_ids(engine) == ["taken"]
        assert tip(engine) == before
        assert write_note(engine, "x").version == 1

    @requirement("LOG-3", "LOG-4")
    def test_a_refusal_inside_a_batch_writes_nothing(self, engine: Engine) -> None:
        batch = [make_draft(id="x"), make_draft(id="y", scope="closed"), make_draft(id="z")]
        assert refusal_code(engine.append(Reach.of(["shared"]), batch)) == "scope_closed"
        assert list_ids(engine) == []
        assert tip(engine) == 0

    @pytest.mark.parametrize(("first", "second"), [("free", "taken"), ("twice", "twice")])
    def test_append_never_overwrites_a_record_by_a_generated_id(self, engine: Engine, first: str, second: str) -> None:
        write_note(engine, "taken", "mine")
        batch = [make_draft("other", generated_id=first), make_draft("other", generated_id=second)]
        assert engine.append(FULL_REACH, batch) == Conflict(make_key(second), 0, 1)
        assert list_ids(engine) == ["taken"]
        assert text_of(engine, "taken") == "mine"

    def test_append_may_reuse_the_id_of_a_deleted_record_as_a_generated_id(self, engine: Engine) -> None:
        write_note(engine, "a")
        delete_note(engine, "a")
        (record,) = add(engine, make_draft("again", generated_id="a"))
        assert record.version == 3


class ExpectedVersionTests(EngineTestBase):
    """Optimistic concurrency: an outdated expected version is a conflict."""

    @requirement("LOG-3")
    @pytest.mark.parametrize("expected", [None, 0, 1, 2, 3, 4, 5])
    @pytest.mark.parametrize("versions", [0, 2, 3, 4])
    def test_append_compares_the_expected_version(self, engine: Engine, versions: int, expected: int | None) -> None:
        for deleted in (False, False, True, False)[:versions]:  # the third version is a tombstone
            write_note(engine, "a", deleted=deleted)
        outcome = engine.append(FULL_REACH, [make_draft("new", id="a", expected=expected)])
        if expected in (None, versions) or (expected == 0 and versions == 3):  # 0 expects that no live record exists
            assert accepted_records(outcome)[0].version == versions + 1
            assert text_of(engine, "a") == "new"
        else:
            assert expected is not None
            assert outcome == Conflict(make_key("a"), expected, versions)
            assert text_of(engine, "a") != "new"

    @requirement("LOG-3")
    def test_a_deletion_compares_the_expected_version(self, engine: Engine) -> None:
        write_note(engine, "a")
        write_note(engine, "a")
        stale, current = (make_draft(id="a", deleted=True, expected=version) for version in (1, 2))
        assert engine.append(FULL_REACH, [stale]) == Conflict(make_key("a"), 1, 2)
        assert get(engine, "a") is not None
        add(engine, current)
        assert get(engine, "a") is None

    def test_an_expected_version_counts_earlier_drafts_of_the_same_batch(self, engine: Engine) -> None:
        batch = [make_draft(id="a", expected=expected) for expected in (0, 1, 0)]
        assert engine.append(FULL_REACH, batch) == Conflict(make_key("a"), 0, 2)
        assert add(engine, *batch[:2])[1].version == 2

    @requirement("LOG-3")
    def test_one_of_many_writers_that_expect_the_same_version_wins(self, engine: Engine) -> None:
        write_note(engine, "contested")

        def race(name: str) -> Outcome:
            return engine.append(FULL_REACH, [make_draft(id=name), make_draft(name, id="contested", expected=1)])

        names = [f"writer-{number}" for number in range(8)]
        outcomes = dict(zip(names, run_concurrently([partial(race, name) for name in names]), strict=True))
        (winner,) = [name for name, outcome in outcomes.items() if isinstance(outcome, Accepted)]
        losers = {outcome for outcome in outcomes.values() if not isinstance(outcome, Accepted)}
        assert losers == {Conflict(make_key("contested"), 1, 2)}
        assert text_of(engine, "contested") == winner
        assert sorted(list_ids(engine)) == ["contested", winner]
        assert engine.verify().sound

    @requirement("LOG-3")
    def test_no_update_is_lost_when_threads_increment_one_record(self, engine: Engine) -> None:
        write_note(engine, "counter", body={"count": 0})

        def count_up(times: int) -> None:
            while times:
                record = get(engine, "counter")
                assert record is not None
                body = {"count": record.body["count"] + 1}
                if engine.append(FULL_REACH, [make_draft(id="counter", body=body, expected=record.version)]):
                    times -= 1

        run_concurrently([partial(count_up, 5)] * 4)
        record = get(engine, "counter")
        assert record is not None
        assert (record.body, record.version) == ({"count": 20}, 21)


class IdempotencyTests(EngineTestBase):
    """A repeated idempotency key returns the first outcome and writes nothing."""

    @requirement("LOG-3")
    def test_a_repeated_key_returns_the_first_outcome_and_writes_nothing(self, engine: Engine) -> None:
        batch = [make_draft("hello", id="a"), make_draft(id="b", body={"x": 1})]
        first = engine.append(FULL_REACH, batch, key="k")
        before = tip(engine)
        again = engine.append(FULL_REACH, batch, key="k")
        assert isinstance(first, Accepted)
        assert isinstance(again, Accepted)
        assert (first.repeated, again.repeated) == (False, True)
        assert list(again.records) == list(first.records)
        assert tip(engine) == before

    def test_a_repeated_key_of_a_superseded_or_compacted_version_writes_nothing(self, engine: Engine) -> None:
        first = add(engine, make_draft("then", id="a"), key="k")
        write_note(engine, "a", "now")
        assert add(engine, make_draft("then", id="a"), key="k") == first
        engine.compact()
        outcome = engine.append(FULL_REACH, [make_draft("then", id="a")], key="k")
        assert isinstance(outcome, Accepted)
        assert outcome.repeated
        assert text_of(engine, "a") == "now"

    @requirement("LOG-3")
    def test_a_reopened_store_remembers_a_key(self, engine: Engine, clock: FrozenClock) -> None:
        first = add(engine, make_draft("hello", generated_id="made-1"), key="k")
        engine = self.reopen(engine, clock)
        assert add(engine, make_draft("hello", generated_id="made-2"), key="k") == first
        assert len(read(engine)) == 1

    def test_a_key_with_other_content_is_refused(self, engine: Engine) -> None:
        add(engine, make_draft("hello", id="a"), key="k")
        same, other_text, other_id = (
            make_draft("hello", id="a"),
            make_draft("goodbye", id="a"),
            make_draft("hello", id="b"),
        )
        for other in ([other_text], [other_id], [same, make_draft()]):
            assert refusal_code(engine.append(FULL_REACH, other, key="k")) == "key_reused"
        assert list_ids(engine) == ["a"]

    @pytest.mark.parametrize(
        ("first", "second"), [("a-long-made-up-id", "another-made-up-id"), ("1", "2"), ('"', "\\")]
    )
    def test_another_generated_id_is_not_other_content(self, engine: Engine, first: str, second: str) -> None:
        records = add(engine, make_draft("step 1 of 2", generated_id=first), key="k")
        assert add(engine, make_draft("step 1 of 2", generated_id=second), key="k") == records

    @pytest.mark.parametrize(("first", "second"), [("1", "2"), ("e", "s")])
    def test_a_short_generated_id_does_not_mask_other_content(self, engine: Engine, first: str, second: str) -> None:
        add(engine, make_draft(f"step {first}", generated_id=first), key="k")
        outcome = engine.append(FULL_REACH, [make_draft(f"step {second}", generated_id=second)], key="k")
        assert refusal_code(outcome) == "key_reused"

    @requirement("LOG-4")
    @pytest.mark.parametrize(
        ("reach", "other_reach"),
        [
            (Reach.of(["a"]), Reach.of(["b"])),
            (Reach.of(["a"]), FULL_REACH),
            (Reach.of(["a", "b"]), Reach.of(["a,b"])),
            (Reach.of(["*"]), FULL_REACH),
            (Reach.of(["b"], write=["a"]), Reach.of(["a"], write=["a"])),
        ],
        ids=["scopes", "owner", "comma", "star", "readable"],
    )
    def test_callers_with_different_reaches_do_not_share_keys(
        self, engine: Engine, reach: Reach, other_reach: Reach
    ) -> None:
        def write(reach: Reach, text: str) -> Outcome:
            scope = min(reach.writable or {"a"})
            return engine.append(reach, lambda _: [make_draft(text, generated_id=text, scope=scope)], key="k")

        first, second = write(reach, "first"), write(other_reach, "second")
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        assert not second.repeated
        assert second.record.text == "second"

    @requirement("LOG-3")
    def test_a_condition_with_a_key_runs_once(self, engine: Engine) -> None:
        runs: list[int] = []

        def condition(reader: Reader) -> Sequence[ValidatedDraft]:
            runs.append(reader.tip())
            return [make_draft("decided", generated_id=f"run-{len(runs)}")]

        first = accepted_records(engine.append(FULL_REACH, condition, key="k"))
        write_note(engine, "between")
        assert accepted_records(engine.append(FULL_REACH, condition, key="k")) == first
        assert len(runs) == 1

    @requirement("LOG-3")
    def test_one_of_many_writers_with_one_key_writes_and_all_get_its_outcome(self, engine: Engine) -> None:
        def write(name: str) -> Outcome:
            return engine.append(FULL_REACH, [make_draft("once", generated_id=name)], key="k")

        outcomes = run_concurrently([partial(write, f"made-by-{name}") for name in range(8)])
        (record,) = read(engine)
        assert [accepted_records(outcome) for outcome in outcomes] == [[record]] * 8
        assert sum(not outcome.repeated for outcome in outcomes if isinstance(outcome, Accepted)) == 1

    @pytest.mark.parametrize("key", ["", "\0", "\ud800", "k" * 10_000, "'; DROP TABLE log; --"])
    def test_any_text_is_a_key(self, engine: Engine, key: str) -> None:
        first = add(engine, make_draft("hello", id="a"), key=key)
        assert add(engine, make_draft("hello", id="a"), key=key) == first

    def test_a_conflict_does_not_use_up_its_key(self, engine: Engine) -> None:
        write_note(engine, "a")
        draft = make_draft("mine", id="a", expected=0)
        assert engine.append(FULL_REACH, [draft], key="k") == Conflict(make_key("a"), 0, 1)
        delete_note(engine, "a")
        assert add(engine, draft, key="k")[0].version == 3


class ConditionalAppendTests(EngineTestBase):
    """A condition reads and its batch is written in one step."""

    def test_a_condition_reads_earlier_writes(self, engine: Engine) -> None:
        write_note(engine, "a", "earlier")
        seen: list[str | None] = []

        def condition(reader: Reader) -> Sequence[ValidatedDraft]:
            record = reader.get(make_key("a"))
            seen.append(None if record is None else record.text)
            seen.extend(match.record.id for match in reader.match_text("earlier"))
            return [make_draft("later", id="a", expected=1)]

        accepted_records(engine.append(FULL_REACH, condition))
        assert seen == ["earlier", "a"]
        assert text_of(engine, "a") == "later"

    def test_a_refusal_by_a_condition_is_returned_and_writes_nothing(self, engine: Engine) -> None:
        refusal = Refused("full", "The limit is reached.", {"limit": 3})
        assert engine.append(FULL_REACH, lambda _: refusal) == refusal
        assert tip(engine) == 0

    def test_an_error_in_a_condition_fails_only_its_own_append(self, engine: Engine) -> None:
        class ConditionFailed(Exception):
            pass

        def fail(_: Reader) -> Sequence[ValidatedDraft]:
            raise ConditionFailed

        def append_failing() -> str:
            with pytest.raises(ConditionFailed):
                engine.append(FULL_REACH, fail)
            return "failed"

        def append_note(id: str) -> Callable[[], str]:
            return lambda: write_note(engine, id).id

        results = run_concurrently([append_failing, append_note("a"), append_failing, append_note("b")])
        assert results == ["failed", "a", "failed", "b"]
        assert sorted(list_ids(engine)) == ["a", "b"]
        assert engine.verify().sound

    @requirement("LOG-3")
    def test_one_of_many_threads_that_add_a_missing_fact_adds_it(self, engine: Engine) -> None:
        def unless_known(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            if reader.read(Query(labels=("fact=sky",))):
                return Refused("duplicate", "It is known.")
            return [make_draft("the sky is blue", labels=("fact=sky",), generated_id=f"made-{reader.tip()}")]

        outcomes = run_concurrently([lambda: engine.append(FULL_REACH, unless_known)] * 8)
        assert sum(isinstance(outcome, Accepted) for outcome in outcomes) == 1
        assert len(read(engine)) == 1

    @requirement("LOG-3")
    def test_conditions_of_two_engines_on_one_store_run_in_turn(self, engine: Engine, clock: FrozenClock) -> None:
        def count_up(reader: Reader) -> Sequence[ValidatedDraft]:
            record = reader.get(make_key("counter"))
            return [make_draft(id="counter", body={"count": record.body["count"] + 1 if record else 1})]

        def count_to_ten(engine: Engine) -> None:
            for _ in range(10):
                engine.append(FULL_REACH, count_up)

        run_concurrently([partial(count_to_ten, each) for each in (engine, self.open_second(engine, clock))])
        record = get(engine, "counter")
        assert record is not None
        assert (record.body["count"], record.version) == (20, 20)

    @requirement("LOG-4")
    def test_a_condition_reads_and_writes_within_its_reach(self, engine: Engine) -> None:
        write_note(engine, "secret", scope="closed")
        seen: list[object] = []

        def condition(reader: Reader) -> Sequence[ValidatedDraft]:
            seen.extend([reader.get(make_key("secret", "closed")), reader.read(), reader.tally()])
            return [make_draft(id="mine"), make_draft(id="theirs", scope="closed")]

        assert refusal_code(engine.append(Reach.of(["shared"]), condition)) == "scope_closed"
        assert seen == [None, [], []]
        assert list_ids(engine) == ["secret"]

    @pytest.mark.parametrize(
        "verb", ["append", "conditional append", "replay", "put_vectors", "reindex", "compact", "erase"]
    )
    def test_a_write_inside_a_condition_raises_an_error(self, engine: Engine, verb: str) -> None:
        write_note(engine, "a", "before")
        writes: dict[str, Callable[[], Any]] = {
            "append": lambda: engine.append(FULL_REACH, [make_draft(id="b")]),
            "conditional append": lambda: engine.append(FULL_REACH, lambda _: [make_draft(id="b")]),
            "replay": lambda: list(engine.replay(FULL_REACH, [(b"{}", digest_of(b"{}"))])),
            "put_vectors": lambda: engine.put_vectors("m", [(1, 0, [1.0])]),
            "reindex": engine.reindex,
            "compact": engine.compact,
            "erase": lambda: engine.erase(lambda _: [make_key("a")], receipt_for),
        }

        def condition(_: Reader) -> Sequence[ValidatedDraft]:
            writes[verb]()
            return [make_draft(id="c")]

        with pytest.raises(LukasaError, match="conditional append"):
            run_with_timeout(lambda: engine.append(FULL_REACH, condition))
        assert list_ids(engine) == ["a"]
        assert write_note(engine, "d").version == 1


def _observe_writers(
    write: Callable[[int], None], writers: int, observers: Sequence[Callable[[threading.Event], T]]
) -> list[T]:
    """Run numbered writers and, until all have ended, observers; return the results of the observers."""
    finished = threading.Event()
    with ThreadPoolExecutor(len(observers)) as pool:
        futures = [pool.submit(observer, finished) for observer in observers]
        try:
            run_concurrently([partial(write, name) for name in range(writers)])
        finally:
            finished.set()
        return [future.result() for future in futures]


class ConcurrencyTests(EngineTestBase):
    """No record is lost, doubled or out of order, and no batch is torn."""

    @requirement("LOG-3")
    def test_concurrent_appends_lose_and_double_nothing(self, engine: Engine) -> None:
        def write(name: int) -> list[int]:
            return [write_note(engine, f"{name}/{number}", f"text {number}").seq for number in range(50)]

        positions = run_concurrently([partial(write, name) for name in range(8)])
        flat = sorted(seq for own in positions for seq in own)
        assert len(set(flat)) == 400
        assert all(own == sorted(own) for own in positions)
        assert [record.seq for record in read(engine)] == flat
        written = [f"{name}/{number}" for name in range(8) for number in range(50)]
        assert sorted(list_ids(engine)) == sorted(written)
        assert counts(engine) == {("shared", "note"): (len(written), len(written))}
        assert engine.verify().sound

    @requirement("LOG-3")
    @pytest.mark.parametrize("engine_count", [1, 3])
    def test_a_reader_that_continues_from_its_position_misses_nothing(
        self, engine: Engine, clock: FrozenClock, engine_count: int
    ) -> None:
        reader_engine, *others = [engine, *(self.open_second(engine, clock) for _ in range(engine_count - 1))]
        writer_engines = others or [engine]

        def write(name: int) -> None:
            for number in range(30):
                write_note(writer_engines[name % len(writer_engines)], f"{name}/{number}", scope=f"s{name % 2}")

        def follow(reach: Reach, finished: threading.Event) -> list[str]:
            seen: list[str] = []
            cursor = 0
            while True:
                is_last = finished.is_set()
                page = read(reader_engine, reach, after=cursor, limit=7)
                if page:
                    assert [record.seq for record in page] == sorted({record.seq for record in page})
                    assert page[0].seq > cursor
                    cursor = page[-1].seq
                    seen += ids(page)
                elif is_last:
                    return seen

        reaches = [FULL_REACH, Reach.of(["s0"]), Reach.of(["s0", "s1"])]
        seen = _observe_writers(write, 4, [partial(follow, reach) for reach in reaches])
        everything = sorted(f"{name}/{number}" for name in range(4) for number in range(30))
        even = [id for id in everything if int(id.split("/")[0]) % 2 == 0]
        assert [sorted(ids) for ids in seen] == [everything, even, everything]
        assert seen[0] == list_ids(reader_engine)

    @requirement("LOG-3")
    def test_no_reader_sees_half_a_batch(self, engine: Engine) -> None:
        def write(name: int) -> None:
            for number in range(20):
                add(engine, *(make_draft("word", id=f"{name}/{number}/{part}", labels=("l=1",)) for part in range(3)))

        def observe(finished: threading.Event) -> int:
            snapshots = 0
            while not finished.is_set():
                with engine.snapshot(FULL_REACH) as reader:
                    seen = len(reader.read())
                    assert seen % 3 == 0
                    assert len(reader.match_text("word")) == seen
                    assert sum(row.live for row in reader.tally()) == seen
                snapshots += 1
            return snapshots

        assert all(_observe_writers(write, 3, [observe, observe]))
        assert len(read(engine)) == 180

    @requirement("LOG-3")
    def test_writers_and_maintenance_run_concurrently(self, engine: Engine) -> None:
        def write(name: int) -> None:
            for number in range(15):
                write_note(engine, f"{name}/{number % 5}", f"text {number}")

        def maintain() -> None:
            for _ in range(3):
                assert engine.verify().sound
                engine.reindex()
                engine.compact()

        tasks: list[Callable[[], None]] = [maintain, *(partial(write, name) for name in range(3))]
        run_concurrently(tasks)
        assert sorted(list_ids(engine)) == sorted(f"{name}/{number}" for name in range(3) for number in range(5))
        assert engine.verify().sound
