"""The exam: links between records."""

from __future__ import annotations

from typing import Any

import pytest

from lukasa.record import DERIVED_FROM, Key, Link, Record
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    delete_note,
    derived_links,
    descendants,
    make_draft,
    make_key,
    neighbours,
    requirement,
    write_note,
)


def about_links(*ids: str) -> tuple[Link, ...]:
    return tuple(Link("about", make_key(id)) for id in ids)


class LinkTests(EngineTestBase):
    """Links of live records, from either end."""

    @requirement("LOG-1")
    def test_a_link_is_seen_from_both_ends(self, engine: Engine) -> None:
        write_note(engine, "b")
        write_note(engine, "a", links=about_links("b"))
        assert neighbours(engine, "a") == [("about", "out", "b")]
        assert neighbours(engine, "b") == [("about", "in", "a")]

    def test_relations_are_told_apart(self, engine: Engine) -> None:
        write_note(
            engine,
            "a",
            links=(Link("about", make_key("b")), Link("supersedes", make_key("b")), Link("supersedes", make_key("c"))),
        )
        assert neighbours(engine, "a", "supersedes") == [("supersedes", "out", "b"), ("supersedes", "out", "c")]
        assert neighbours(engine, "b") == [("about", "in", "a"), ("supersedes", "in", "a")]
        assert neighbours(engine, "b", "about") == [("about", "in", "a")]
        assert neighbours(engine, "b", "unheard of") == []

    def test_a_link_may_point_to_nothing(self, engine: Engine) -> None:
        write_note(engine, "a", links=about_links("nobody"))
        assert neighbours(engine, "a") == [("about", "out", "nobody")]
        assert neighbours(engine, "nobody") == [("about", "in", "a")]

    def test_a_link_said_twice_is_one_link(self, engine: Engine) -> None:
        write_note(engine, "a", links=about_links("b", "b"))
        assert neighbours(engine, "a") == [("about", "out", "b")]
        assert neighbours(engine, "b") == [("about", "in", "a")]
        assert engine.verify().sound

    def test_a_record_may_point_to_itself(self, engine: Engine) -> None:
        write_note(engine, "a", links=(*about_links("a"), *derived_links("a")))
        assert neighbours(engine, "a", "about") == [("about", "in", "a"), ("about", "out", "a")]
        assert descendants(engine, "a") == []

    def test_targets_are_told_apart_by_scope_kind_and_id(self, engine: Engine) -> None:
        target = Key("s/1", "k\u00fcnste", "\U0001f600'%")
        write_note(engine, "a", links=(Link("about", target),))
        assert neighbours(engine, target) == [("about", "in", "a")]
        for other in (
            Key("s", "1/k\u00fcnste", target.id),
            Key("s/1", "k\u00fcnste", "\U0001f600'_"),
            make_key(target.id),
        ):
            assert neighbours(engine, other) == []

    def test_only_the_links_of_the_newest_version_count(self, engine: Engine) -> None:
        write_note(engine, "a", links=about_links("b"))
        write_note(engine, "a", links=about_links("c"))
        assert neighbours(engine, "a") == [("about", "out", "c")]
        assert neighbours(engine, "b") == []
        assert neighbours(engine, "c") == [("about", "in", "a")]
        delete_note(engine, "a", links=about_links("d"))
        assert neighbours(engine, "a") == neighbours(engine, "c") == neighbours(engine, "d") == []

    @requirement("LOG-6")
    def test_descent_is_followed_however_far(self, engine: Engine) -> None:
        for parent, child in ("ab", "bc", "cd", "ax", "xd", "yz"):
            write_note(engine, child, links=derived_links(parent))
        assert descendants(engine, "a") == ["b", "c", "d", "x"]
        assert descendants(engine, "b") == ["c", "d"]
        assert descendants(engine, "x") == ["d"]
        assert descendants(engine, "a", "y") == ["b", "c", "d", "x", "z"]
        assert descendants(engine, "d") == []
        assert descendants(engine, "unknown") == []
        assert descendants(engine) == []

    @requirement("LOG-6")
    def test_descent_goes_round_a_circle_once(self, engine: Engine) -> None:
        add(
            engine,
            make_draft(id="a", links=derived_links("c")),
            make_draft(id="b", links=derived_links("a")),
            make_draft(id="c", links=derived_links("b")),
        )
        assert descendants(engine, "a") == ["b", "c"]
        assert descendants(engine, "b") == ["a", "c"]
        assert descendants(engine, "a", "c") == ["b"]

    @requirement("LOG-6")
    def test_any_version_ever_derived_makes_a_descendant(self, engine: Engine) -> None:
        write_note(engine, "b", links=derived_links("a"))
        write_note(engine, "b")
        write_note(engine, "c", links=derived_links("a"))
        delete_note(engine, "c")
        assert descendants(engine, "a") == ["b", "c"]

    @pytest.mark.parametrize("relation", ["about", "derived_from_me", "DERIVED_FROM", "supersedes"])
    def test_only_derivation_is_descent(self, engine: Engine, relation: str) -> None:
        assert relation != DERIVED_FROM
        write_note(engine, "b", links=(Link(relation, make_key("a")),))
        assert descendants(engine, "a") == []


class AdjacentTurnTests(EngineTestBase):
    """What was said just before and just after."""

    def test_the_turns_beside_a_turn_are_those_of_its_session(self, engine: Engine) -> None:
        def turn(id: str, session: str | None = "s", **fields: Any) -> Record:
            labels = () if session is None else (f"session={session}", "other=1")
            return write_note(engine, id, f"I am {id}", labels=labels, **fields)

        turns = [turn("a"), turn("x", "t"), turn("b"), turn("fact", kind="fact"), turn("gone"), turn("alone", None)]
        turns += [turn("walled", scope="closed"), turn("c")]
        ids = {record.seq: record.id for record in turns}
        delete_note(engine, "gone", labels=("session=s",))
        with engine.snapshot(FULL_REACH) as reader:
            around = reader.adjacent_turns(turns, "session")
            assert reader.texts_at([turns[0].seq, turns[2].seq]) == {turns[0].seq: "I am a", turns[2].seq: "I am b"}
        told = {ids[seq]: tuple(side and ids[side] for side in sides) for seq, sides in around.items()}
        assert told.pop("gone", None) in (None, ("b", "c"))
        assert told == {
            "a": (None, "b"), "b": ("a", "c"), "c": ("b", None), "x": (None, None), "fact": (None, None), "walled": (None, None),
        }  # fmt: skip

    @requirement("LOG-4")
    def test_those_who_wrote_of_late_are_told_within_the_wall(self, engine: Engine) -> None:
        for author in ("old", "ada", "ben", ""):
            write_note(engine, author or "nobody", author=author)
        write_note(engine, "fact", kind="fact", author="cleo")
        write_note(engine, "closed", scope="closed", author="dora")
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.authors(100) == ["ada", "ben", "cleo", "dora", "old"]
            assert reader.authors(3) == ["ada", "ben", "cleo", "dora"]
        with engine.snapshot(Reach.of(["closed"])) as reader:
            assert reader.authors(100) == ["dora"]
        with engine.snapshot(Reach.of(["empty"])) as reader:
            assert reader.authors(100) == []

    @requirement("LOG-4")
    def test_nothing_beside_is_told_through_a_wall(self, engine: Engine) -> None:
        record = write_note(engine, "a", "I am a", scope="closed", labels=("session=s",))
        with engine.snapshot(Reach.of(["shared"])) as reader:
            assert reader.adjacent_turns([record], "session") == {}
            assert reader.adjacent_turns([], "session") == {}
            assert reader.texts_at([record.seq]) == {}
            assert reader.texts_at([]) == {}
