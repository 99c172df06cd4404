"""The exam: finding records by vectors."""

from __future__ import annotations

from random import Random

import pytest

from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, Query
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    delete_note,
    make_draft,
    nearest_ids,
    owner_journal,
    quarantine,
    release,
    requirement,
    tip,
    write_note,
)


class VectorSearchTests(EngineTestBase):
    """Nearest by cosine, best first."""

    def test_the_nearest_comes_first(self, engine: Engine) -> None:
        east, north, west = (write_note(engine, id).seq for id in ("east", "north", "west"))
        engine.put_vectors("m", [(east, 0, [2.0, 0.0]), (north, 0, [0.0, 3.0]), (west, 0, [-1.0, 0.0])])
        with engine.snapshot(FULL_REACH) as reader:
            hits = reader.match_vector("m", [5.0, 1.0])
        assert [hit.record.id for hit in hits] == ["east", "north", "west"]
        assert [hit.score for hit in hits] == pytest.approx([0.98058, 0.19612, -0.98058], abs=1e-4)
        assert nearest_ids(engine, [5.0, 1.0], limit=2) == ["east", "north"]

    def test_a_record_counts_by_its_best_chunk(self, engine: Engine) -> None:
        long, short = write_note(engine, "long").seq, write_note(engine, "short").seq
        engine.put_vectors("m", [(long, 0, [0.0, 1.0]), (long, 1, [1.0, 0.0]), (short, 0, [1.0, 1.0])])
        assert nearest_ids(engine, [1.0, 0.0]) == ["long", "short"]
        assert nearest_ids(engine, [1.0, 0.0], limit=1) == ["long"]
        assert nearest_ids(engine, [0.1, 1.0], limit=2) == ["long", "short"]

    def test_a_vector_put_again_replaces_the_one_before(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position, 0, [1.0, 0.0])])
        engine.put_vectors("m", [(position, 0, [0.0, 1.0])])
        with engine.snapshot(FULL_REACH) as reader:
            (hit,) = reader.match_vector("m", [0.0, 1.0])
        assert hit.score == pytest.approx(1.0)

    def test_models_and_dimensions_do_not_meet(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position, 0, [1.0, 0.0])])
        engine.put_vectors("other", [(position, 0, [1.0, 0.0, 0.0])])
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]
        assert nearest_ids(engine, [1.0, 0.0], model="unknown") == []
        assert nearest_ids(engine, [1.0, 0.0], model="other") == []
        assert nearest_ids(engine, [1.0, 0.0, 0.0], model="other") == ["a"]
        assert nearest_ids(engine, [1.0], model="m") == []

    def test_a_vector_without_direction_is_no_error(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position, 0, [0.0, 0.0])])
        assert nearest_ids(engine, [0.0, 0.0]) == ["a"]
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]
        assert nearest_ids(engine, []) == []

    def test_only_live_records_are_near(self, engine: Engine) -> None:
        seqs = {id: write_note(engine, id, author=id).seq for id in ("kept", "updated", "deleted", "mallory")}
        engine.put_vectors("m", [(seq, 0, [1.0, 0.0]) for seq in seqs.values()])
        write_note(engine, "updated")
        delete_note(engine, "deleted")
        quarantine(engine, "mallory")
        assert nearest_ids(engine, [1.0, 0.0]) == ["kept"]
        release(engine, "mallory")
        assert sorted(nearest_ids(engine, [1.0, 0.0])) == ["kept", "mallory"]

    @requirement("LOG-4")
    def test_filters_and_walls_hold_for_vectors(self, engine: Engine) -> None:
        one = write_note(engine, "1", scope="a", author="ada", labels=("l=1",)).seq
        two = write_note(engine, "2", scope="b", kind="fact").seq
        engine.put_vectors("m", [(one, 0, [1.0, 0.0]), (two, 0, [1.0, 0.1])])
        for query, hits in (
            ({"scopes": ("b",)}, ["2"]),
            ({"kinds": ("note",)}, ["1"]),
            ({"author": "ada"}, ["1"]),
            ({"labels": ("l=1",)}, ["1"]),
            ({"after": one}, ["2"]),
            ({}, ["1", "2"]),
        ):
            assert nearest_ids(engine, [1.0, 0.0], **query) == hits
        assert nearest_ids(engine, [1.0, 0.0], Reach.of(["b"])) == ["2"]
        assert nearest_ids(engine, [1.0, 0.0], Reach.of(["b"]), limit=1) == ["2"]

    @requirement("LOG-5")
    def test_erased_and_compacted_records_leave_no_vectors(self, engine: Engine) -> None:
        erased, old = write_note(engine, "erased").seq, write_note(engine, "updated").seq
        new = write_note(engine, "updated").seq
        engine.put_vectors("m", [(seq, 0, [1.0, 0.0]) for seq in (erased, old, new)])
        engine.compact()
        owner_journal(engine).erase(write_note(engine, "erased").key)
        with engine.snapshot(FULL_REACH) as reader:
            hits = reader.match_vector("m", [1.0, 0.0], Query(every_version=True, hidden=True))
        assert [hit.record.seq for hit in hits] == [new]

    @requirement("LOG-5")
    def test_a_vector_for_a_position_that_is_gone_is_no_error_and_is_never_found(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        owner_journal(engine).erase(write_note(engine, "a").key)
        engine.put_vectors("m", [(position, 0, [1.0, 0.0])])
        assert nearest_ids(engine, [1.0, 0.0]) == []
        assert engine.verify().sound

    def test_a_vector_never_waits_for_a_record_to_come(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position + 1, 0, [1.0, 0.0])])
        write_note(engine, "b")
        assert nearest_ids(engine, [1.0, 0.0]) == []

    def test_the_nearest_of_many_are_found_whoever_asks_and_however_narrowly(self, engine: Engine) -> None:
        batch = add(engine, *(make_draft(id=f"n{n}", scope="rare" if n % 1000 == 0 else "shared") for n in range(5000)))
        chance = Random(7)
        vectors = {record.seq: [chance.gauss(0, 1) for _ in range(64)] for record in batch}
        engine.put_vectors("m", [(seq, 0, vector) for seq, vector in vectors.items()])
        asked = [part + chance.gauss(0, 0.2) for part in vectors[batch[77].seq]]
        assert nearest_ids(engine, asked, limit=3)[0] == "n77"
        assert nearest_ids(engine, vectors[batch[3000].seq], Reach.of(["rare"]), limit=5)[0] == "n3000"
        assert len(nearest_ids(engine, asked, Reach.of(["rare"]), limit=5)) == 5
        engine.put_vectors("m", [(batch[4000].seq, 0, asked)])
        assert nearest_ids(engine, asked, limit=2) == ["n4000", "n77"]
        last = write_note(engine, "last").seq
        engine.put_vectors("m", [(last, 0, [-part for part in asked])])
        assert nearest_ids(engine, [-part for part in asked], limit=1) == ["last"]

    @requirement("LOG-4")
    def test_the_closeness_of_given_records_is_told_within_the_wall(self, engine: Engine) -> None:
        one, two, none = (
            write_note(engine, "1").seq,
            write_note(engine, "2", scope="b").seq,
            write_note(engine, "3").seq,
        )
        engine.put_vectors("m", [(one, 0, [1.0, 0.0]), (one, 1, [0.0, 1.0]), (two, 0, [0.0, 2.0])])
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.cosines("m", [0.0, 3.0], [one, two, none]) == pytest.approx({one: 1.0, two: 1.0})
            assert reader.cosines("m", [3.0, 0.0], [two]) == pytest.approx({two: 0.0}, abs=1e-6)
            assert reader.cosines("m", [3.0, 0.0, 1.0], [two]) == {}
            assert reader.cosines("unknown", [3.0, 0.0], [two]) == {}
            assert reader.cosines("m", [1.0, 0.0], []) == {}
        with engine.snapshot(Reach.of(["shared"])) as reader:
            assert set(reader.cosines("m", [0.0, 3.0], [one, two])) == {one}

    @requirement("RCL-5")
    def test_what_has_no_vector_yet_is_told_in_order(self, engine: Engine) -> None:
        def missing(limit: int = 10) -> list[str]:
            with engine.snapshot(FULL_REACH) as reader:
                return [record.text for record in reader.without_vectors("m", limit)]

        assert missing() == []
        first = write_note(engine, "a", "one", author="mallory").seq
        write_note(engine, "a", "two", scope="b")
        write_note(engine, "empty")
        quarantine(engine, "mallory")
        assert missing() == ["one", "two"]
        assert missing(1) == ["one"]
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.count_without_vectors("m") == 2
            assert reader.count_without_vectors("\ud800") == 0
        engine.put_vectors("m", [(first, 0, [1.0, 0.0])])
        assert missing() == ["two"]
        engine.put_vectors("m", [(tip(engine), 0, [1.0, 0.0]), (first + 1, 0, [1.0, 0.0])])
        assert missing() == []
        write_note(engine, "a", "three")
        write_note(engine, "bookkeeping")
        assert missing() == ["three"]
        with engine.snapshot(FULL_REACH) as reader:
            assert [record.text for record in reader.without_vectors("other", 10)] == ["one", "two", "three"]
            assert (reader.count_without_vectors("m"), reader.count_without_vectors("other")) == (1, 3)
