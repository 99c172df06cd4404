"""The exam: scopes are walls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from lukasa.outcome import Refused
from lukasa.record import Link, ValidatedDraft
from lukasa.scope import FULL_REACH, SYSTEM, Reach
from lukasa.storage.engine import Engine, Reader
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineFactory,
    EngineTestBase,
    add,
    counts,
    delete_note,
    derived_links,
    descendants,
    find_ids,
    get,
    history,
    list_ids,
    log_entries,
    make_draft,
    make_key,
    matches,
    nearest_ids,
    neighbours,
    quarantine,
    read,
    requirement,
    tip,
    write_note,
)
from lukasa.testing.contract.dump import dump_store

OPEN_REACH = Reach.of(["open"])


def fill_open_scope(engine: Engine) -> None:
    """A little of everything in the scope that is open."""
    first = write_note(engine, "a", "the secret is out", scope="open", author="ada", labels=("l=1",))
    write_note(engine, "b", "another word", scope="open", author="ben", links=derived_links(make_key("a", "open")))
    write_note(
        engine, "b", "another word, changed", scope="open", author="ben", links=derived_links(make_key("a", "open"))
    )
    write_note(engine, "c", "gone", scope="open", links=(Link("about", make_key("x", "closed")),))
    delete_note(engine, "c", scope="open")
    engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])


def fill_closed_scope(engine: Engine) -> None:
    """A little of everything in a scope that is closed, reaching into the open one wherever it can."""
    a, b = make_key("a", "open"), make_key("b", "open")
    first = write_note(engine, "a", "a secret, secret word", scope="closed", author="ada", labels=("l=1",))
    write_note(
        engine,
        "b",
        "the secret changed",
        scope="closed",
        links=(*derived_links(a), Link("about", b)),
        body={"s": "secret"},
    )
    write_note(engine, "b", "the secret changed again", scope="closed", links=(*derived_links(a), Link("about", b)))
    write_note(engine, "d", "secret", scope="closed", kind="fact", links=derived_links(b))
    write_note(engine, "x", "secret", scope="closed")
    delete_note(engine, "x", scope="closed")
    engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])
    add(engine, make_draft("secret", id="keyed", scope="closed"), key="k")


class ScopeTests(EngineTestBase):
    """A reader never learns anything of a scope outside its reach; a writer never gets in."""

    @requirement("LOG-4")
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
        fill_open_scope(engine)
        fill_closed_scope(engine)
        assert {record.scope for record in read(engine, OPEN_REACH, **query)} <= {"open"}
        assert {match.record.scope for match in matches(engine, "secret word changed", OPEN_REACH, **query)} <= {"open"}
        with engine.snapshot(OPEN_REACH) as reader:
            assert "closed" not in repr(reader.tally())

    @requirement("LOG-4")
    def test_single_records_of_a_closed_scope_are_not_there(self, engine: Engine) -> None:
        fill_closed_scope(engine)
        key = make_key("b", "closed")
        assert get(engine, key) is not None
        for how in ({}, {"version": 1}, {"version": 2}, {"as_of": 10_000}):
            assert get(engine, key, OPEN_REACH, **how) is None
        assert history(engine, key, OPEN_REACH) == []
        assert neighbours(engine, key, reach=OPEN_REACH) == []
        assert nearest_ids(engine, [1.0, 0.0], OPEN_REACH) == []

    @requirement("LOG-4")
    def test_links_are_seen_from_the_open_side_only(self, engine: Engine) -> None:
        write_note(engine, "a", scope="open", links=(Link("about", make_key("x", "closed")),))
        write_note(engine, "x", scope="closed", links=(Link("about", make_key("a", "open")),))
        assert neighbours(engine, make_key("a", "open"), reach=OPEN_REACH) == [("about", "out", "x")], (
            "what the record itself says"
        )
        assert neighbours(engine, make_key("x", "closed"), reach=OPEN_REACH) == [("about", "in", "a")]
        assert neighbours(engine, make_key("a", "open")) == [("about", "in", "x"), ("about", "out", "x")]

    @requirement("LOG-4")
    def test_descent_does_not_lead_through_a_closed_scope(self, engine: Engine) -> None:
        write_note(engine, "a", scope="open")
        write_note(engine, "b", scope="closed", links=derived_links(make_key("a", "open")))
        write_note(engine, "c", scope="open", links=derived_links(make_key("b", "closed")))
        assert descendants(engine, make_key("a", "open")) == ["b", "c"]
        assert descendants(engine, make_key("a", "open"), reach=OPEN_REACH) == []

    @requirement("LOG-4")
    def test_nothing_at_all_changes_for_a_reader_when_a_closed_scope_is_filled(self, engine: Engine) -> None:
        fill_open_scope(engine)
        without = (
            "words",
            "words of old",
        )  # the order of matches is compared below; their scores rest on the statistics of the whole store
        before = dump_store(engine, OPEN_REACH, without=without)
        words = [find_ids(engine, word, OPEN_REACH) for word in ("secret", "word", "changed")]
        fill_closed_scope(engine)
        assert dump_store(engine, OPEN_REACH, without=without) == before
        assert [find_ids(engine, word, OPEN_REACH) for word in ("secret", "word", "changed")] == words
        assert counts(engine, OPEN_REACH) == {("open", "note"): (2, 5)}

    @requirement("LOG-4")
    def test_the_newest_position_tells_nothing_of_a_closed_scope(self, engine: Engine) -> None:
        assert tip(engine, OPEN_REACH) == 0
        fill_closed_scope(engine)
        assert tip(engine, OPEN_REACH) == 0
        record = write_note(engine, "a", scope="open")
        fill_closed_scope(engine)
        assert tip(engine, OPEN_REACH) == record.seq

    @requirement("LOG-4")
    def test_a_reach_of_nothing_sees_nothing(self, engine: Engine) -> None:
        fill_open_scope(engine)
        nothing = Reach.of([])
        assert read(engine, nothing) == []
        assert read(engine, nothing, every_version=True, labels=("l=1",)) == []
        assert find_ids(engine, "secret", nothing) == []
        assert counts(engine, nothing) == {}

    @requirement("LOG-4")
    def test_the_stores_own_books_are_open_to_its_owner_only(self, engine: Engine) -> None:
        write_note(engine, "a", scope="open")
        record = quarantine(engine, "mallory")
        assert read(engine, scopes=(SYSTEM,)) == [record]
        for reach in (OPEN_REACH, Reach.of(["open", SYSTEM]), Reach.of([SYSTEM])):
            assert read(engine, reach, scopes=(SYSTEM,)) == []
            assert get(engine, record.key, reach) is None
            assert history(engine, record.key, reach) == []
            with engine.snapshot(reach) as reader:
                assert SYSTEM not in repr(reader.tally())
            refused = engine.append(reach, [make_draft(id="x", scope=SYSTEM)])
            assert isinstance(refused, Refused)
            assert refused.code == "scope_closed"

    @requirement("LOG-4")
    @pytest.mark.parametrize(
        "fields", [{}, {"expected": 0}, {"expected": 7}, {"deleted": True}, {"deleted": True, "expected": 1}]
    )
    @pytest.mark.parametrize("id", ["taken", "free"])
    def test_writing_to_a_closed_scope_is_refused_in_the_same_words_whatever_is_there(
        self, engine: Engine, id: str, fields: dict[str, Any]
    ) -> None:
        write_note(engine, "taken", scope="closed")
        before = tip(engine)
        outcomes = [
            engine.append(OPEN_REACH, [make_draft(id=id, scope="closed", **fields)]),
            engine.append(OPEN_REACH, lambda _: [make_draft(id=id, scope="closed", **fields)]),
            engine.append(OPEN_REACH, [make_draft(id=id, scope="closed", **fields)], key="k"),
            engine.append(OPEN_REACH, [make_draft(generated_id="taken", scope="closed")]),
        ]
        assert [outcome.code for outcome in outcomes if isinstance(outcome, Refused)] == ["scope_closed"] * 4
        assert len({outcome.reason for outcome in outcomes if isinstance(outcome, Refused)}) == 1
        assert tip(engine) == before

    @requirement("LOG-4")
    def test_what_may_be_read_need_not_be_writable(self, engine: Engine) -> None:
        write_note(engine, "a", scope="library")
        reader_only = Reach.of(["library", "own"], write=["own"])
        assert list_ids(engine, reader_only) == ["a"]
        refused = engine.append(reader_only, [make_draft(id="a", scope="library")])
        assert isinstance(refused, Refused)
        assert refused.code == "scope_closed"
        add(engine, make_draft(id="b", scope="own"), reach=reader_only)
        assert list_ids(engine, reader_only) == ["a", "b"]

    @requirement("LOG-4")
    def test_what_may_be_written_need_not_be_readable(self, engine: Engine) -> None:
        drop_box = Reach.of(["own"], write=["own", "box"])
        write_note(engine, "a", "theirs", scope="box")

        def look(reader: Reader) -> Sequence[ValidatedDraft]:
            assert reader.get(make_key("a", "box")) is None
            assert reader.read() == []
            return [make_draft("mine", id="b", scope="box")]

        assert engine.append(drop_box, look)
        assert list_ids(engine, drop_box) == []
        assert list_ids(engine, scopes=("box",)) == ["a", "b"]

    @requirement("LOG-4", "LOG-7")
    def test_replay_does_not_get_through_a_wall(self, engine: Engine, make_engine: EngineFactory) -> None:
        fill_open_scope(engine)
        fill_closed_scope(engine)
        other = make_engine()
        write_note(other, "a", "a secret, secret word", scope="closed", author="ada", labels=("l=1",))
        before = tip(other)
        log = read(engine, every_version=True)
        answers = list(other.replay(OPEN_REACH, log_entries(engine)))
        assert [answer.state for answer in answers] == [
            "added" if record.scope == "open" else "refused" for record in log
        ]
        assert len({answer.reason for answer in answers if answer.state == "refused"}) == 1
        assert {record.scope for record in read(other, every_version=True, after=before)} == {"open"}

    @requirement("LOG-4", "LOG-6")
    def test_only_the_stores_own_books_can_put_an_author_in_quarantine(
        self, engine: Engine, make_engine: EngineFactory
    ) -> None:
        source = make_engine()
        write_note(source, "q", kind="quarantine", scope="open", body={"author": "ada", "since": None, "reason": ""})
        write_note(engine, "a", "hello", scope="closed", author="ada")
        assert [answer.state for answer in engine.replay(OPEN_REACH, log_entries(source))] in (["added"], ["refused"])
        assert get(engine, make_key("a", "closed")) is not None
        assert find_ids(engine, "hello") == ["a"]

    @requirement("LOG-4", "LOG-6")
    def test_quarantine_hides_from_walled_readers_too(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "good", "word", scope="open", author="ada")
        clock.advance(1)
        write_note(engine, "bad", "word", scope="open", author="mallory")
        write_note(engine, "made", "word", scope="open", author="ada", links=derived_links(make_key("bad", "open")))
        quarantine(engine, "mallory", clock.now() - timedelta(seconds=1))
        assert list_ids(engine, OPEN_REACH) == ["good"]
        assert list_ids(engine, OPEN_REACH, every_version=True, hidden=True) == ["good"]
        assert find_ids(engine, "word", OPEN_REACH) == ["good"]
        assert descendants(engine, make_key("bad", "open"), reach=OPEN_REACH) == []
        assert descendants(engine, make_key("bad", "open"), reach=OPEN_REACH, hidden=True) == []

    @requirement("LOG-4")
    def test_two_callers_with_their_own_reach_share_one_store(self, engine: Engine) -> None:
        ada, ben = Reach.of(["shared", "ada"]), Reach.of(["shared", "ben"])
        add(engine, make_draft("mine", id="x", scope="ada"), reach=ada)
        add(engine, make_draft("mine", id="x", scope="ben"), reach=ben)
        add(engine, make_draft("ours", id="y"), reach=ben)
        assert [(record.scope, record.id) for record in read(engine, ada)] == [("ada", "x"), ("shared", "y")]
        assert [(record.scope, record.id) for record in read(engine, ben)] == [("ben", "x"), ("shared", "y")]
        assert len(read(engine, FULL_REACH)) == 3
