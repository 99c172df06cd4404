"""The exam: scopes are walls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from lukasa.engine import Engine, Reader
from lukasa.outcome import Refused
from lukasa.record import Link, Sealed
from lukasa.scope import EVERYTHING, SYSTEM, Reach
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    MakeEngine,
    add,
    at,
    counts,
    derived,
    descendants,
    drop,
    found,
    get,
    history,
    keeps,
    lines,
    listed,
    matches,
    nearest,
    neighbours,
    note,
    propose,
    quarantine,
    read,
    tip,
)
from lukasa.testing.contract.observation import observe

OPEN = Reach.of(["open"])


def furnish(engine: Engine) -> None:
    """A little of everything in the scope that is open."""
    first = note(engine, "a", "the secret is out", scope="open", author="ada", labels=("l=1",))
    note(engine, "b", "another word", scope="open", author="ben", links=derived(at("a", "open")))
    note(engine, "b", "another word, changed", scope="open", author="ben", links=derived(at("a", "open")))
    note(engine, "c", "gone", scope="open", links=(Link("about", at("x", "closed")),))
    drop(engine, "c", scope="open")
    engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])


def fill_closed(engine: Engine) -> None:
    """A little of everything in a scope that is closed, reaching into the open one wherever it can."""
    a, b = at("a", "open"), at("b", "open")
    first = note(engine, "a", "a secret, secret word", scope="closed", author="ada", labels=("l=1",))
    note(engine, "b", "the secret changed", scope="closed", links=(*derived(a), Link("about", b)), body={"s": "secret"})
    note(engine, "b", "the secret changed again", scope="closed", links=(*derived(a), Link("about", b)))
    note(engine, "d", "secret", scope="closed", kind="fact", links=derived(b))
    note(engine, "x", "secret", scope="closed")
    drop(engine, "x", scope="closed")
    engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])
    add(engine, propose("secret", id="keyed", scope="closed"), key="k")


class Walls(Examination):
    """A reader never learns anything of a scope outside its reach; a writer never gets in."""

    @keeps("LOG-4")
    @pytest.mark.parametrize(
        "query",
        [
            {},
            {"scopes": ("closed",)},
            {"scopes": ("closed", "open")},
            {"every_version": True},
            {"hidden": True, "every_version": True},
            {"labels": ("l=1",)},
            {"author": "ada"},
            {"kinds": ("fact",)},
            {"mentions": "secret"},
            {"as_of": 10_000},
            {"as_of": 10_000, "every_version": True},
            {"newest_first": True, "limit": 50},
        ],
        ids=lambda query: " ".join(query) or "all",
    )
    def test_no_query_reads_across_the_wall(self, engine: Engine, query: dict[str, Any]) -> None:
        furnish(engine)
        fill_closed(engine)
        assert {record.scope for record in read(engine, OPEN, **query)} <= {"open"}
        assert {match.record.scope for match in matches(engine, "secret word changed", OPEN, **query)} <= {"open"}
        with engine.reading(OPEN) as reader:
            assert "closed" not in repr(reader.tally())

    @keeps("LOG-4")
    def test_single_records_of_a_closed_scope_are_not_there(self, engine: Engine) -> None:
        fill_closed(engine)
        key = at("b", "closed")
        assert get(engine, key) is not None
        for how in ({}, {"version": 1}, {"version": 2}, {"as_of": 10_000}):
            assert get(engine, key, OPEN, **how) is None
        assert history(engine, key, OPEN) == []
        assert neighbours(engine, key, reach=OPEN) == []
        assert nearest(engine, [1.0, 0.0], OPEN) == []

    @keeps("LOG-4")
    def test_links_are_seen_from_the_open_side_only(self, engine: Engine) -> None:
        note(engine, "a", scope="open", links=(Link("about", at("x", "closed")),))
        note(engine, "x", scope="closed", links=(Link("about", at("a", "open")),))
        assert neighbours(engine, at("a", "open"), reach=OPEN) == [("about", "out", "x")], "what the record itself says"
        assert neighbours(engine, at("x", "closed"), reach=OPEN) == [("about", "in", "a")]
        assert neighbours(engine, at("a", "open")) == [("about", "in", "x"), ("about", "out", "x")]

    @keeps("LOG-4")
    def test_descent_does_not_lead_through_a_closed_scope(self, engine: Engine) -> None:
        note(engine, "a", scope="open")
        note(engine, "b", scope="closed", links=derived(at("a", "open")))
        note(engine, "c", scope="open", links=derived(at("b", "closed")))
        assert descendants(engine, at("a", "open")) == ["b", "c"]
        assert descendants(engine, at("a", "open"), reach=OPEN) == []

    @keeps("LOG-4")
    def test_nothing_at_all_changes_for_a_reader_when_a_closed_scope_is_filled(self, engine: Engine) -> None:
        furnish(engine)
        without = (
            "words",
            "words of old",
        )  # the order of matches is compared below; their scores rest on the statistics of the whole store
        before = observe(engine, OPEN, without=without)
        words = [found(engine, word, OPEN) for word in ("secret", "word", "changed")]
        fill_closed(engine)
        assert observe(engine, OPEN, without=without) == before
        assert [found(engine, word, OPEN) for word in ("secret", "word", "changed")] == words
        assert counts(engine, OPEN) == {("open", "note"): (2, 5)}

    @keeps("LOG-4")
    def test_the_newest_position_tells_nothing_of_a_closed_scope(self, engine: Engine) -> None:
        assert tip(engine, OPEN) == 0
        fill_closed(engine)
        assert tip(engine, OPEN) == 0
        record = note(engine, "a", scope="open")
        fill_closed(engine)
        assert tip(engine, OPEN) == record.seq

    @keeps("LOG-4")
    def test_a_reach_of_nothing_sees_nothing(self, engine: Engine) -> None:
        furnish(engine)
        nothing = Reach.of([])
        assert read(engine, nothing) == []
        assert read(engine, nothing, every_version=True, labels=("l=1",)) == []
        assert found(engine, "secret", nothing) == []
        assert counts(engine, nothing) == {}

    @keeps("LOG-4")
    def test_the_stores_own_books_are_open_to_its_owner_only(self, engine: Engine) -> None:
        note(engine, "a", scope="open")
        record = quarantine(engine, "mallory")
        assert read(engine, scopes=(SYSTEM,)) == [record]
        for reach in (OPEN, Reach.of(["open", SYSTEM]), Reach.of([SYSTEM])):
            assert read(engine, reach, scopes=(SYSTEM,)) == []
            assert get(engine, record.key, reach) is None
            assert history(engine, record.key, reach) == []
            with engine.reading(reach) as reader:
                assert SYSTEM not in repr(reader.tally())
            refused = engine.append(reach, [propose(id="x", scope=SYSTEM)])
            assert isinstance(refused, Refused)
            assert refused.code == "scope_closed"

    @keeps("LOG-4")
    @pytest.mark.parametrize(
        "fields", [{}, {"expected": 0}, {"expected": 7}, {"deleted": True}, {"deleted": True, "expected": 1}]
    )
    @pytest.mark.parametrize("id", ["taken", "free"])
    def test_writing_to_a_closed_scope_is_refused_in_the_same_words_whatever_is_there(
        self, engine: Engine, id: str, fields: dict[str, Any]
    ) -> None:
        note(engine, "taken", scope="closed")
        before = tip(engine)
        outcomes = [
            engine.append(OPEN, [propose(id=id, scope="closed", **fields)]),
            engine.append(OPEN, lambda _: [propose(id=id, scope="closed", **fields)]),
            engine.append(OPEN, [propose(id=id, scope="closed", **fields)], key="k"),
            engine.append(OPEN, [propose(made="taken", scope="closed")]),
        ]
        assert [outcome.code for outcome in outcomes if isinstance(outcome, Refused)] == ["scope_closed"] * 4
        assert len({outcome.reason for outcome in outcomes if isinstance(outcome, Refused)}) == 1
        assert tip(engine) == before

    @keeps("LOG-4")
    def test_what_may_be_read_need_not_be_writable(self, engine: Engine) -> None:
        note(engine, "a", scope="library")
        reader_only = Reach.of(["library", "own"], write=["own"])
        assert listed(engine, reader_only) == ["a"]
        refused = engine.append(reader_only, [propose(id="a", scope="library")])
        assert isinstance(refused, Refused)
        assert refused.code == "scope_closed"
        add(engine, propose(id="b", scope="own"), reach=reader_only)
        assert listed(engine, reader_only) == ["a", "b"]

    @keeps("LOG-4")
    def test_what_may_be_written_need_not_be_readable(self, engine: Engine) -> None:
        drop_box = Reach.of(["own"], write=["own", "box"])
        note(engine, "a", "theirs", scope="box")

        def look(reader: Reader) -> Sequence[Sealed]:
            assert reader.get(at("a", "box")) is None
            assert reader.read() == []
            return [propose("mine", id="b", scope="box")]

        assert engine.append(drop_box, look)
        assert listed(engine, drop_box) == []
        assert listed(engine, scopes=("box",)) == ["a", "b"]

    @keeps("LOG-4", "LOG-7")
    def test_replay_does_not_get_through_a_wall(self, engine: Engine, make_engine: MakeEngine) -> None:
        furnish(engine)
        fill_closed(engine)
        other = make_engine()
        note(other, "a", "a secret, secret word", scope="closed", author="ada", labels=("l=1",))
        before = tip(other)
        log = read(engine, every_version=True)
        answers = list(other.replay(OPEN, lines(engine)))
        assert [answer.state for answer in answers] == [
            "added" if record.scope == "open" else "refused" for record in log
        ]
        assert len({answer.reason for answer in answers if answer.state == "refused"}) == 1
        assert {record.scope for record in read(other, every_version=True, after=before)} == {"open"}

    @keeps("LOG-4", "LOG-6")
    def test_only_the_stores_own_books_can_put_an_author_in_quarantine(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        source = make_engine()
        note(source, "q", kind="quarantine", scope="open", body={"author": "ada", "since": None, "reason": ""})
        note(engine, "a", "hello", scope="closed", author="ada")
        assert [answer.state for answer in engine.replay(OPEN, lines(source))] in (["added"], ["refused"])
        assert get(engine, at("a", "closed")) is not None
        assert found(engine, "hello") == ["a"]

    @keeps("LOG-4", "LOG-6")
    def test_quarantine_hides_from_walled_readers_too(self, engine: Engine, clock: FrozenClock) -> None:
        note(engine, "good", "word", scope="open", author="ada")
        clock.advance(1)
        note(engine, "bad", "word", scope="open", author="mallory")
        note(engine, "made", "word", scope="open", author="ada", links=derived(at("bad", "open")))
        quarantine(engine, "mallory", clock.now() - timedelta(seconds=1))
        assert listed(engine, OPEN) == ["good"]
        assert listed(engine, OPEN, every_version=True, hidden=True) == ["good"]
        assert found(engine, "word", OPEN) == ["good"]
        assert descendants(engine, at("bad", "open"), reach=OPEN) == []
        assert descendants(engine, at("bad", "open"), reach=OPEN, hidden=True) == []

    @keeps("LOG-4")
    def test_two_callers_with_their_own_reach_share_one_store(self, engine: Engine) -> None:
        ada, ben = Reach.of(["shared", "ada"]), Reach.of(["shared", "ben"])
        add(engine, propose("mine", id="x", scope="ada"), reach=ada)
        add(engine, propose("mine", id="x", scope="ben"), reach=ben)
        add(engine, propose("ours", id="y"), reach=ben)
        assert [(record.scope, record.id) for record in read(engine, ada)] == [("ada", "x"), ("shared", "y")]
        assert [(record.scope, record.id) for record in read(engine, ben)] == [("ben", "x"), ("shared", "y")]
        assert len(read(engine, EVERYTHING)) == 3
