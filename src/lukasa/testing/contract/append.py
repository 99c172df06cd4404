"""The exam: what ``append`` promises."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Key, Link, digest_of, entry_bytes
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    accepted_records,
    add,
    delete_note,
    get,
    history,
    ids,
    list_ids,
    make_draft,
    make_key,
    read,
    requirement,
    run_concurrently,
    text_of,
    tip,
    write_note,
)

_ROUGH_TEXT = (
    'na\u00efve \u65e5\u672c\u8a9e \U0001f469\u200d\U0001f680 e\u0301 \u202eabc\u202c NUL\0 tab\t "quoted" \\ line\n'
)


class AppendTests(EngineTestBase):
    """Batches whole or not at all, versions that count up, positions that grow."""

    @requirement("LOG-1")
    def test_a_record_comes_back_as_it_was_written(self, engine: Engine, clock: FrozenClock) -> None:
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

    @requirement("LOG-1", "LOG-5")
    def test_a_digest_is_the_hash_of_the_whole_record(self, engine: Engine) -> None:
        record = write_note(engine, "a", _ROUGH_TEXT, body={"x": [1.5]}, labels=("l=1",))
        assert record.digest == digest_of(entry_bytes(record))

    @requirement("LOG-1")
    def test_versions_count_up_per_key(self, engine: Engine) -> None:
        assert [write_note(engine, "a").version for _ in range(3)] == [1, 2, 3]
        assert write_note(engine, "a", scope="ada").version == 1
        assert write_note(engine, "a", kind="fact").version == 1
        assert write_note(engine, "b").version == 1

    @requirement("LOG-1")
    def test_positions_grow_and_the_tip_is_the_newest(self, engine: Engine) -> None:
        assert tip(engine) == 0
        batch = add(engine, make_draft(id="a"), make_draft(id="b"), make_draft(id="a"))
        positions = [record.seq for record in (*batch, write_note(engine, "c"), delete_note(engine, "a"))]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        assert tip(engine) == positions[-1]

    @requirement("LOG-1")
    def test_the_first_version_gives_the_time_of_creation(self, engine: Engine, clock: FrozenClock) -> None:
        born = clock.now()
        write_note(engine, "a")
        changed = clock.advance(60)
        again = write_note(engine, "a")
        assert (again.created_at, again.recorded_at) == (born, changed)

    def test_an_empty_batch_is_accepted_and_writes_nothing(self, engine: Engine) -> None:
        assert add(engine) == []
        assert tip(engine) == 0

    def test_what_was_accepted_can_be_looked_at_like_any_sequence(self, engine: Engine) -> None:
        outcome = engine.append(FULL_REACH, [make_draft(id="a"), make_draft(id="b"), make_draft(id="c")])
        assert isinstance(outcome, Accepted)
        assert len(outcome.records) == 3
        assert outcome.records[-1].id == "c"
        assert ids(outcome.records[1:]) == ["b", "c"]
        assert list(outcome.records) == read(engine)

    def test_one_batch_may_write_one_key_several_times(self, engine: Engine) -> None:
        batch = add(
            engine,
            make_draft("one", id="a"),
            make_draft("two", id="a"),
            make_draft(id="a", deleted=True),
            make_draft("four", id="a"),
        )
        assert [record.version for record in batch] == [1, 2, 3, 4]
        assert text_of(engine, "a") == "four"
        assert history(engine, "a") == batch
        assert list_ids(engine) == ["a"]

    @requirement("LOG-3")
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_one_conflict_leaves_nothing_of_its_batch(self, engine: Engine, place: int) -> None:
        write_note(engine, "taken")
        before = tip(engine)
        batch = [make_draft(id="x"), make_draft(id="y")]
        batch.insert(place, make_draft(id="taken", expected=0))
        assert engine.append(FULL_REACH, batch) == Conflict(make_key("taken"), 0, 1)
        assert list_ids(engine) == ["taken"]
        assert tip(engine) == before
        assert write_note(engine, "x").version == 1

    @requirement("LOG-3", "LOG-4")
    def test_one_refusal_leaves_nothing_of_its_batch(self, engine: Engine) -> None:
        outcome = engine.append(
            Reach.of(["shared"]), [make_draft(id="x"), make_draft(id="y", scope="closed"), make_draft(id="z")]
        )
        assert isinstance(outcome, Refused)
        assert outcome.code == "scope_closed"
        assert list_ids(engine) == []
        assert tip(engine) == 0

    def test_a_made_up_id_that_is_taken_never_overwrites(self, engine: Engine) -> None:
        write_note(engine, "taken", "mine")
        outcome = engine.append(
            FULL_REACH, [make_draft("other", generated_id="free"), make_draft("other", generated_id="taken")]
        )
        assert outcome == Conflict(make_key("taken"), 0, 1)
        outcome = engine.append(
            FULL_REACH, [make_draft("one", generated_id="twice"), make_draft("two", generated_id="twice")]
        )
        assert outcome == Conflict(make_key("twice"), 0, 1)
        assert list_ids(engine) == ["taken"]
        assert text_of(engine, "taken") == "mine"

    def test_a_made_up_id_of_a_deleted_record_may_be_used_again(self, engine: Engine) -> None:
        write_note(engine, "a")
        delete_note(engine, "a")
        (again,) = add(engine, make_draft("again", generated_id="a"))
        assert again.version == 3


class ExpectedVersionTests(EngineTestBase):
    """Optimistic concurrency: a lost race is told, never a lost update."""

    @requirement("LOG-3")
    @pytest.mark.parametrize(
        ("standing", "expected", "result"),
        [
            ("nothing", 0, 1),
            ("nothing", None, 1),
            ("nothing", 1, Conflict(make_key("a"), 1, 0)),
            ("two versions", 2, 3),
            ("two versions", None, 3),
            ("two versions", 1, Conflict(make_key("a"), 1, 2)),
            ("two versions", 3, Conflict(make_key("a"), 3, 2)),
            ("two versions", 0, Conflict(make_key("a"), 0, 2)),
            ("deleted", 0, 4),
            ("deleted", 3, 4),
            ("deleted", None, 4),
            ("deleted", 2, Conflict(make_key("a"), 2, 3)),
            ("written again", 0, Conflict(make_key("a"), 0, 4)),
            ("written again", 3, Conflict(make_key("a"), 3, 4)),
            ("written again", 4, 5),
        ],
    )
    def test_an_expected_version_is_met_or_the_race_is_lost(
        self, engine: Engine, standing: str, expected: int | None, result: int | Conflict
    ) -> None:
        acts: list[Callable[[], object]] = [
            lambda: write_note(engine, "a"),
            lambda: write_note(engine, "a"),
            lambda: delete_note(engine, "a"),
            lambda: write_note(engine, "a"),
        ]
        for act in acts[: {"nothing": 0, "two versions": 2, "deleted": 3, "written again": 4}[standing]]:
            act()
        outcome = engine.append(FULL_REACH, [make_draft("new", id="a", expected=expected)])
        if isinstance(result, Conflict):
            assert outcome == result
            assert text_of(engine, "a") != "new"
        else:
            assert accepted_records(outcome)[0].version == result
            assert text_of(engine, "a") == "new"

    @requirement("LOG-3")
    def test_a_deletion_may_expect_a_version_too(self, engine: Engine) -> None:
        write_note(engine, "a")
        write_note(engine, "a")
        assert engine.append(FULL_REACH, [make_draft(id="a", deleted=True, expected=1)]) == Conflict(
            make_key("a"), 1, 2
        )
        assert get(engine, "a") is not None
        accepted_records(engine.append(FULL_REACH, [make_draft(id="a", deleted=True, expected=2)]))
        assert get(engine, "a") is None

    def test_an_expected_version_counts_what_the_same_batch_wrote_before(self, engine: Engine) -> None:
        batch = [make_draft(id="a", expected=0), make_draft(id="a", expected=1), make_draft(id="a", expected=0)]
        assert engine.append(FULL_REACH, batch) == Conflict(make_key("a"), 0, 2)
        assert accepted_records(engine.append(FULL_REACH, batch[:2]))[1].version == 2

    @requirement("LOG-3")
    def test_of_many_writers_who_expect_the_same_version_one_wins_and_the_losers_leave_nothing(
        self, engine: Engine
    ) -> None:
        write_note(engine, "contested")

        def race(name: str) -> Outcome:
            return engine.append(FULL_REACH, [make_draft(id=name), make_draft(name, id="contested", expected=1)])

        names = [f"writer-{number}" for number in range(8)]
        outcomes = dict(zip(names, run_concurrently([partial(race, name) for name in names]), strict=True))
        (winner,) = [name for name, outcome in outcomes.items() if isinstance(outcome, Accepted)]
        assert {outcome for outcome in outcomes.values() if not isinstance(outcome, Accepted)} == {
            Conflict(make_key("contested"), 1, 2)
        }
        assert text_of(engine, "contested") == winner
        assert sorted(list_ids(engine)) == ["contested", winner]
        assert engine.verify().sound

    @requirement("LOG-3")
    def test_no_update_is_lost_when_many_count_up_one_record(self, engine: Engine) -> None:
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
