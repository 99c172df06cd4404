"""The exam: what a reader promises."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from lukasa.errors import InvalidInput
from lukasa.record import Key, Link
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, NearDuplicate, Query
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    counts,
    delete_note,
    find_ids,
    get,
    history,
    ids,
    list_ids,
    make_draft,
    make_key,
    nearest_ids,
    read,
    requirement,
    text_of,
    tip,
    write_note,
)
from lukasa.text.similarity import text_pair_keys


class RecordReadTests(EngineTestBase):
    """One record: now, then, and all of it."""

    @requirement("LOG-1")
    def test_what_was_never_written_is_not_there(self, engine: Engine) -> None:
        write_note(engine, "a")
        for key in (make_key("b"), make_key("a", "ada"), make_key("a", kind="fact"), make_key("A"), make_key("a ")):
            assert get(engine, key) is None
            assert history(engine, key) == []

    @requirement("LOG-1")
    def test_the_newest_version_is_the_record(self, engine: Engine) -> None:
        write_note(engine, "a", "old")
        newest = write_note(engine, "a", "new")
        assert get(engine, "a") == newest
        assert read(engine) == [newest]

    @requirement("LOG-2")
    def test_any_version_can_be_read_by_number(self, engine: Engine) -> None:
        versions = [write_note(engine, "a", "one"), write_note(engine, "a", "two")]
        delete_note(engine, "a")
        assert [get(engine, "a", version=number) for number in (1, 2)] == versions
        assert get(engine, "a", version=3) is None, "a tombstone"
        assert get(engine, "a", version=4) is None
        assert get(engine, "a", version=0) is None

    @requirement("LOG-2")
    def test_history_is_every_version_oldest_first_tombstones_included(self, engine: Engine) -> None:
        versions = [write_note(engine, "a", "one")]
        write_note(engine, "b", "another")
        versions += [write_note(engine, "a", "two"), delete_note(engine, "a"), write_note(engine, "a", "four")]
        assert history(engine, "a") == versions
        assert [version.deleted for version in versions] == [False, False, True, False]

    @requirement("LOG-1")
    def test_a_tombstone_hides_its_record_from_the_present(self, engine: Engine) -> None:
        write_note(engine, "a", "hello", labels=("l=1",), links=(Link("about", make_key("b")),))
        delete_note(engine, "a", labels=("l=1",))
        assert get(engine, "a") is None
        assert read(engine) == []
        assert read(engine, labels=("l=1",)) == []
        assert find_ids(engine, "hello") == []
        assert counts(engine) == {("shared", "note"): (0, 2)}

    def test_a_record_written_again_after_its_deletion_is_there_again(self, engine: Engine) -> None:
        write_note(engine, "a", "hello")
        delete_note(engine, "a")
        again = write_note(engine, "a", "hello")
        assert get(engine, "a") == again
        assert find_ids(engine, "hello") == ["a"]
        assert counts(engine) == {("shared", "note"): (1, 3)}

    @pytest.mark.parametrize("id", ["\ud800", "\0", "x" * 10_000, ""])
    def test_a_key_that_no_store_could_hold_is_not_there(self, engine: Engine, id: str) -> None:
        write_note(engine, "a")
        with engine.snapshot(FULL_REACH) as reader:
            for key in (Key("shared", "note", id), Key("shared", id, "a"), Key(id, "note", "a")):
                try:
                    answers = [reader.get(key), reader.history(key), reader.neighbours(key), reader.descendants([key])]
                except InvalidInput:
                    continue
                assert not any(answers)

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200])
    def test_numbers_beyond_every_position_are_no_error(self, engine: Engine, number: int) -> None:
        record = write_note(engine, "a")
        everything = [record] if number > 0 else []
        assert get(engine, "a", version=number) is None
        assert get(engine, "a", as_of=number) == (record if number > 0 else None)
        assert read(engine, as_of=number) == everything
        assert read(engine, before=number) == everything
        assert read(engine, after=number) == ([] if number > 0 else [record])

    def test_one_look_stays_the_same_while_others_write(self, engine: Engine) -> None:
        write_note(engine, "a", "old")
        with engine.snapshot(FULL_REACH) as reader:
            before = (reader.get(make_key("a")), reader.read(), reader.tally(), reader.tip())
            write_note(engine, "a", "new")
            write_note(engine, "b", "new")
            assert (reader.get(make_key("a")), reader.read(), reader.tally(), reader.tip()) == before
            assert reader.match_text("new") == []
        assert list_ids(engine) == ["a", "b"]

    def test_one_look_may_be_taken_inside_another(self, engine: Engine) -> None:
        write_note(engine, "a")
        with engine.snapshot(FULL_REACH) as outer, engine.snapshot(Reach.of(["ada"])) as inner:
            assert ids(outer.read()) == ["a"]
            assert inner.read() == []
        assert list_ids(engine) == ["a"]

    def test_tally_counts_live_records_and_versions_per_scope_and_kind(self, engine: Engine) -> None:
        write_note(engine, "a")
        write_note(engine, "a")
        write_note(engine, "b")
        delete_note(engine, "b")
        write_note(engine, "a", scope="ada")
        write_note(engine, "a", kind="fact")
        assert counts(engine) == {("ada", "note"): (1, 1), ("shared", "fact"): (1, 1), ("shared", "note"): (1, 4)}


class AsOfTests(EngineTestBase):
    """Earlier states, by time and by position."""

    @requirement("LOG-2")
    def test_a_record_is_as_it_was_at_an_earlier_time(self, engine: Engine, clock: FrozenClock) -> None:
        start = clock.now()
        clock.advance(10)
        write_note(engine, "a", "one")
        clock.advance(10)
        write_note(engine, "a", "two")
        clock.advance(10)
        delete_note(engine, "a")
        clock.advance(10)
        write_note(engine, "a", "four")
        then = [
            text_of(engine, "a", as_of=start + timedelta(seconds=seconds)) for seconds in (9, 10, 15, 20, 30, 35, 99)
        ]
        assert then == [None, "one", "one", "two", None, None, "four"]

    @requirement("LOG-2")
    def test_a_record_is_as_it_was_at_an_earlier_position(self, engine: Engine) -> None:
        positions = [
            write_note(engine, "a", "one").seq,
            write_note(engine, "b").seq,
            write_note(engine, "a", "two").seq,
        ]
        positions += [delete_note(engine, "a").seq, write_note(engine, "a", "five").seq]
        assert text_of(engine, "a", as_of=0) is None
        assert [text_of(engine, "a", as_of=position) for position in positions] == ["one", "one", "two", None, "five"]

    @requirement("LOG-2")
    def test_every_verb_tells_the_same_earlier_state(self, engine: Engine, clock: FrozenClock) -> None:
        moments: list[Any] = [0, clock.now() - timedelta(days=1)]
        for step in range(12):
            id = "abc"[step % 3]
            record = delete_note(engine, id) if step % 5 == 4 else write_note(engine, id, f"word{step} common")
            moments += [record.seq, clock.now()]
            clock.advance(60 if step % 4 else -600)
        for moment in moments:
            state = {record.id: record for record in read(engine, as_of=moment)}
            assert [state.get(id) for id in "abc"] == [get(engine, id, as_of=moment) for id in "abc"]
            assert sorted(find_ids(engine, "common", as_of=moment)) == sorted(state)
            assert [id for n in range(12) for id in find_ids(engine, f"word{n}", as_of=moment)] == [
                record.id for record in sorted(state.values(), key=lambda record: int(record.text.split()[0][4:]))
            ]

    @requirement("LOG-2")
    def test_order_is_by_position_when_the_clock_jumps_back(self, engine: Engine, clock: FrozenClock) -> None:
        first = write_note(engine, "a", "one")
        clock.advance(-3600)
        second = write_note(engine, "a", "two")
        other = write_note(engine, "b")
        assert get(engine, "a") == second
        assert read(engine) == [second, other]
        assert get(engine, "a", as_of=first.seq) == first
        assert get(engine, "a", as_of=NOON - timedelta(minutes=1)) == second, "all that was recorded up to then"
        assert get(engine, "a", as_of=NOON) == second
        assert read(engine, as_of=NOON - timedelta(hours=2)) == []

    def test_nothing_is_lost_when_the_clock_jumps_ahead_and_back(self, engine: Engine, clock: FrozenClock) -> None:
        clock.advance(10 * 365 * 86400)
        write_note(engine, "a", "from the future")
        clock.set(NOON)
        newest = write_note(engine, "a", "from the present")
        assert get(engine, "a") == newest
        assert [version.text for version in history(engine, "a")] == ["from the future", "from the present"]
        assert engine.verify().sound

    @requirement("LOG-2")
    def test_the_log_itself_can_be_read_as_of_a_position(self, engine: Engine) -> None:
        versions = [write_note(engine, "a"), write_note(engine, "a"), delete_note(engine, "a"), write_note(engine, "a")]
        assert read(engine, as_of=versions[2].seq, every_version=True) == versions[:3]


class QueryTests(EngineTestBase):
    """Which records a query names."""

    def test_records_come_in_log_order(self, engine: Engine) -> None:
        for id in "cab":
            write_note(engine, id)
        write_note(engine, "c", "again")
        assert list_ids(engine) == ["a", "b", "c"]
        assert list_ids(engine, newest_first=True) == ["c", "b", "a"]
        assert list_ids(engine, every_version=True) == ["c", "a", "b", "c"]

    def test_order_holds_across_scopes_kinds_and_labels(self, engine: Engine) -> None:
        for step in range(12):
            write_note(
                engine, f"{step:02}", scope="ab"[step % 2], kind="xyz"[step % 3], labels=(f"l={step % 2}", "all=1")
            )
        everything = [f"{step:02}" for step in range(12)]
        for query in ({}, {"scopes": ("a", "b")}, {"kinds": ("x", "y", "z")}, {"labels": ("all=1",)}):
            assert list_ids(engine, **query) == everything
            assert list_ids(engine, newest_first=True, limit=5, **query) == everything[:6:-1]

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("limit", [None, 0, 1, 3, 100])
    @pytest.mark.parametrize(("after", "before"), [(None, None), (2, None), (None, 5), (1, 6), (5, 2), (0, 99)])
    def test_after_before_and_limit_cut_pages(
        self, engine: Engine, after: int | None, before: int | None, limit: int | None, newest_first: bool
    ) -> None:
        records = [write_note(engine, f"{number}") for number in range(6)]
        start = records[0].seq - 1
        bounds: dict[str, Any] = {
            "after": None if after is None else start + after,
            "before": None if before is None else start + before,
        }
        expected = [
            record
            for number, record in enumerate(records, 1)
            if (after is None or number > after) and (before is None or number < before)
        ]
        if newest_first:
            expected.reverse()
        assert read(engine, limit=limit, newest_first=newest_first, **bounds) == expected[:limit]

    def test_kinds_scopes_and_author_narrow(self, engine: Engine) -> None:
        write_note(engine, "1", scope="a", kind="x", author="ada")
        write_note(engine, "2", scope="b", kind="x", author="ben")
        write_note(engine, "3", scope="a", kind="y", author="")
        assert list_ids(engine, kinds=("x",)) == ["1", "2"]
        assert list_ids(engine, kinds=("x", "y"), scopes=("a",)) == ["1", "3"]
        assert list_ids(engine, kinds=("z",)) == []
        assert list_ids(engine, scopes=("c",)) == []
        assert list_ids(engine, author="ben") == ["2"]
        assert list_ids(engine, author="") == ["3"]
        assert list_ids(engine, author="ad") == []

    def test_labels_must_all_be_there_and_are_those_of_the_newest_version(self, engine: Engine) -> None:
        write_note(engine, "a", labels=("session=1", "mood=good"))
        write_note(engine, "b", labels=("session=1",))
        write_note(engine, "c", labels=("session=2",), scope="ada")
        assert list_ids(engine, labels=("session=1",)) == ["a", "b"]
        assert list_ids(engine, labels=("session=1", "mood=good")) == ["a"]
        assert list_ids(engine, labels=("session=1", "session=2")) == []
        assert list_ids(engine, labels=("session",)) == []
        assert list_ids(engine, labels=("session=2",), kinds=("fact",)) == []
        write_note(engine, "a", labels=("session=2",))
        assert list_ids(engine, labels=("session=1",)) == ["b"]
        assert list_ids(engine, labels=("session=2",)) == ["c", "a"]
        assert list_ids(engine, labels=("session=1",), every_version=True) == ["a", "b"]

    def test_since_and_until_speak_of_when_it_happened(self, engine: Engine) -> None:
        for day in range(1, 5):
            write_note(engine, f"day {day}", happened_at=NOON - timedelta(days=100 - day))
        write_note(engine, "now")
        second, third = NOON - timedelta(days=98), NOON - timedelta(days=97)
        assert list_ids(engine, since=second, until=third) == ["day 2", "day 3"]
        assert list_ids(engine, since=third + timedelta(microseconds=1)) == ["day 4", "now"]
        assert list_ids(engine, until=second - timedelta(microseconds=1)) == ["day 1"]

    def test_recorded_since_speaks_of_when_it_was_written_down(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "a", happened_at=NOON + timedelta(days=1))
        later = clock.advance(60)
        write_note(engine, "b", happened_at=NOON - timedelta(days=1))
        assert list_ids(engine, recorded_since=later) == ["b"]
        assert list_ids(engine, recorded_since=NOON) == ["a", "b"]

    def test_every_version_reads_the_log_itself(self, engine: Engine) -> None:
        versions = [
            write_note(engine, "a", author="ada"),
            write_note(engine, "a", author="ben"),
            delete_note(engine, "a", author="ada"),
        ]
        assert read(engine, every_version=True) == versions
        assert read(engine, every_version=True, author="ada") == [versions[0], versions[2]]
        assert read(engine, every_version=True, newest_first=True, limit=2) == versions[:0:-1]

    @requirement("LOG-4")
    def test_many_scopes_and_kinds_are_read_like_few(self, engine: Engine) -> None:
        records = add(
            engine,
            *(
                make_draft("word", id=f"{n}", scope=f"s{n % 8}", kind=f"k{n % 9}", labels=(f"l={n % 2}",))
                for n in range(144)
            ),
        )
        scopes, kinds = tuple(f"s{n}" for n in range(7)), tuple(f"k{n}" for n in range(8))
        expected = [record for record in records if record.scope in scopes and record.kind in kinds]
        walled = Reach.of(scopes)
        assert read(engine, scopes=scopes, kinds=kinds) == expected
        assert read(engine, walled, kinds=kinds) == expected
        assert read(engine, walled, kinds=kinds, newest_first=True, limit=7) == expected[:-8:-1]
        assert read(engine, walled, kinds=kinds, labels=("l=1",)) == [r for r in expected if "l=1" in r.labels]
        assert len(find_ids(engine, "word", walled, kinds=kinds)) == len(expected)

    def test_a_limit_of_nothing_gives_nothing(self, engine: Engine) -> None:
        record = write_note(engine, "a", "word")
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0])])
        assert read(engine, limit=0) == []
        assert find_ids(engine, "word", limit=0) == []
        assert nearest_ids(engine, [1.0, 0.0], limit=0) == []


_TEXT_PIECES = [
    "100%", "under_score", "back\\slash", '"quoted"', "it's", "na\u00efve", "\u65e5\u672c", "\U0001f680", "tab\there",
    "line\nbreak", "nul\0here", "<b>&amp;", "e\u0301", "{brace}", "\u2028",
]  # fmt: skip


class MentionsFilterTests(EngineTestBase):
    """A piece of text anywhere in the record."""

    @requirement("LOG-5")
    @pytest.mark.parametrize("piece", _TEXT_PIECES)
    def test_a_piece_is_found_wherever_a_record_says_it(self, engine: Engine, piece: str) -> None:
        said = f"before {piece} after"
        write_note(engine, "in text", said)
        write_note(engine, "in a value", body={"x": [{"y": said}]})
        write_note(engine, "in a name", body={said: 1})
        write_note(engine, "elsewhere", "before after")
        assert list_ids(engine, mentions=piece) == ["in text", "in a value", "in a name"]

    @requirement("LOG-5")
    def test_a_piece_is_found_in_names_labels_and_links(self, engine: Engine) -> None:
        write_note(engine, "by", author="mallory-7")
        write_note(engine, "about mallory-7")
        write_note(engine, "labelled", labels=("who=mallory-7",))
        write_note(engine, "linked", links=(Link("about", make_key("mallory-7", "people", "person")),))
        write_note(engine, "bystander", author="mallory-8")
        assert list_ids(engine, mentions="mallory-7") == ["by", "about mallory-7", "labelled", "linked"]

    @pytest.mark.parametrize(("said", "asked"), [("100 percent", "1%t"), ("axb", "a_b"), ("ab", "a\\b"), ("abc", ".")])
    def test_no_character_of_a_piece_is_a_wildcard(self, engine: Engine, said: str, asked: str) -> None:
        write_note(engine, "a", said, happened_at=NOON)
        assert list_ids(engine, mentions=asked) == []

    @pytest.mark.parametrize(
        ("said", "asked"),
        [("Alice Smith", "alice SMITH"), ("M\u00fcller", "m\u00dcLLER"), ("\u0391\u03b8\u03ae\u03bd\u03b1", "\u03b1\u03b8\u03ae\u03bd\u03b1"), ("\u0418\u0432\u0430\u043d", "\u0438\u0432\u0430\u043d")],
        ids=["latin", "umlaut", "greek", "cyrillic"],
    )  # fmt: skip
    def test_letter_case_is_set_aside_in_every_script(self, engine: Engine, said: str, asked: str) -> None:
        write_note(engine, "text", said)
        write_note(engine, "body", body={"name": said})
        assert list_ids(engine, mentions=asked) == ["text", "body"]

    @pytest.mark.parametrize("piece", ["recorded_at", "created_at", "kind", '":"', "{", ","])
    def test_how_a_record_is_spelled_is_not_what_it_says(self, engine: Engine, piece: str) -> None:
        write_note(engine, "a", "hello")
        assert list_ids(engine, mentions=piece) == []

    def test_older_versions_mention_too_when_they_are_asked_for(self, engine: Engine) -> None:
        write_note(engine, "a", "written by mallory")
        write_note(engine, "a", "written by somebody")
        assert list_ids(engine, mentions="mallory") == []
        assert list_ids(engine, mentions="mallory", every_version=True) == ["a"]

    def test_mentions_and_the_other_filters_narrow_together(self, engine: Engine) -> None:
        for id, author, scope in (("1", "ada", "a"), ("2", "ben", "a"), ("3", "ada", "b")):
            write_note(engine, id, "the word", author=author, scope=scope, labels=("l=1",))
        assert list_ids(engine, mentions="word", author="ada", scopes=("a",), labels=("l=1",)) == ["1"]
        assert list_ids(engine, mentions="word", limit=1, newest_first=True) == ["3"]
        assert list_ids(engine, Reach.of(["b"]), mentions="word") == ["3"]

    def test_a_query_asks_for_everything_when_it_names_nothing(self, engine: Engine) -> None:
        records = [write_note(engine, "a"), write_note(engine, "b", scope="ada")]
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.read() == reader.read(Query()) == records
        assert tip(engine) == records[-1].seq


class NearDuplicateTests(EngineTestBase):
    """Finding live records by any of many marks of their texts."""

    @requirement("VLT-6")
    def test_a_record_that_bears_any_of_the_marks_comes_once_and_the_newest_first(self, engine: Engine) -> None:
        _write_memory(engine, "a", "herons fish quietly")
        _write_memory(engine, "b", "herons sleep quietly")
        _write_memory(engine, "c", "otters swim")
        asked = text_pair_keys("herons fish quietly", "shared", "memory")
        found = _near_duplicates(engine, asked)
        assert [(bearer.id, bearer.text) for bearer in found] == [
            ("b", "herons sleep quietly"),
            ("a", "herons fish quietly"),
        ]
        assert set(found[0].pair_keys) < set(found[1].pair_keys) == set(asked)
        assert _near_duplicates(engine, [5]) == _near_duplicates(engine, []) == []

    @requirement("VLT-6")
    def test_each_mark_brings_its_newest_live_bearers_however_many_there_are(self, engine: Engine) -> None:
        for n in range(60):
            _write_memory(engine, f"crowd-{n}", f"herons quietly {n}")
        _write_memory(engine, "alone", "otters swim")
        marks = [*_shared_pair_keys("herons quietly"), *_shared_pair_keys("otters swim")]
        assert _near_duplicate_ids(engine, _shared_pair_keys("herons quietly 7"), per_key=1) == ["crowd-59", "crowd-7"]
        assert _near_duplicate_ids(engine, marks, per_key=3) == ["alone", "crowd-59", "crowd-58", "crowd-57"]
        delete_note(engine, "crowd-58", kind="memory")
        _write_memory(engine, "crowd-57", "something else")
        assert _near_duplicate_ids(engine, marks, per_key=3) == ["alone", "crowd-59", "crowd-56", "crowd-55"]
        assert len(_near_duplicate_ids(engine, marks, per_key=99)) == 59
        assert _near_duplicate_ids(engine, marks, per_key=0) == []

    @requirement("VLT-6")
    def test_only_live_records_of_the_kind_and_scope_within_reach_come(self, engine: Engine) -> None:
        _write_memory(engine, "changed", "herons quietly")
        _write_memory(engine, "changed", "otters swim")
        _write_memory(engine, "gone", "herons quietly")
        delete_note(engine, "gone", kind="memory")
        write_note(engine, "elsewhere", "herons quietly", kind="memory", scope="ada")
        write_note(engine, "another kind", "herons quietly")
        marks = _shared_pair_keys("herons quietly")
        assert _near_duplicate_ids(engine, marks) == []
        assert _near_duplicate_ids(engine, _shared_pair_keys("otters swim")) == ["changed"]
        with engine.snapshot(FULL_REACH) as reader:
            ada = text_pair_keys("herons quietly", "ada", "memory")
            assert [bearer.id for bearer in reader.near_duplicates([ada], "ada", kind="memory", limit_per_key=9)] == [
                "elsewhere"
            ]
            assert reader.near_duplicates([ada], "shared", kind="memory", limit_per_key=9) == []
        with engine.snapshot(Reach.of(["bob"])) as reader:
            assert reader.near_duplicates([ada], "ada", kind="memory", limit_per_key=9) == []

    @requirement("VLT-6")
    def test_marks_follow_every_way_in_and_out_and_can_be_rebuilt(self, engine: Engine) -> None:
        marks = _shared_pair_keys("herons quietly")
        write_note(engine, "plain", "herons quietly", kind="memory")
        add(engine, *(make_draft(f"herons quietly {n}", id=f"many-{n}", kind="memory") for n in range(30)))
        assert len(_near_duplicate_ids(engine, marks, per_key=99)) == 31
        engine.reindex()
        assert len(_near_duplicate_ids(engine, marks, per_key=99)) == 31
        _write_memory(engine, "plain", "otters swim")
        engine.compact()
        assert engine.verify().sound
        assert _near_duplicate_ids(engine, _shared_pair_keys("otters swim")) == ["plain"]


def _write_memory(engine: Engine, id: str, text: str) -> None:
    write_note(engine, id, text, kind="memory", labels=("tier=canon",))


def _shared_pair_keys(text: str) -> Sequence[int]:
    return text_pair_keys(text, "shared", "memory")


def _near_duplicates(engine: Engine, keys: Sequence[int], *, per_key: int = 9) -> list[NearDuplicate]:
    with engine.snapshot(FULL_REACH) as reader:
        return reader.near_duplicates([keys], "shared", kind="memory", limit_per_key=per_key)


def _near_duplicate_ids(engine: Engine, keys: Sequence[int], *, per_key: int = 9) -> list[str]:
    return [bearer.id for bearer in _near_duplicates(engine, keys, per_key=per_key)]
