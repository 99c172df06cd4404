"""Conformance tests of reading records: one by key, many by query, as of the past, and along links."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lukasa.core.record import DERIVED_FROM, Key, Link, Record, ValidatedDraft
from lukasa.core.scope import FULL_REACH, SHARED, Reach
from lukasa.errors import InvalidInput, StoreDamaged
from lukasa.storage.engine import Engine, Query
from lukasa.storage.parsed_records import ParsedRecords
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    counts,
    delete_note,
    derived_links,
    descendants,
    find_ids,
    get,
    history,
    ids,
    list_ids,
    make_draft,
    make_key,
    neighbours,
    read,
    requirement,
    text_of,
    write_note,
)
from lukasa.text.terms import text_pair_keys


class RecordReadTests(EngineTestBase):
    """``get``, ``history`` and ``tally``."""

    @requirement("LOG-1")
    def test_get_and_history_return_nothing_for_an_unknown_key(self, engine: Engine) -> None:
        write_note(engine, "a")
        for key in (make_key("b"), make_key("a", "ada"), make_key("a", kind="fact"), make_key("A"), make_key("a ")):
            assert get(engine, key) is None
            assert history(engine, key) == []

    @requirement("LOG-1", "LOG-2")
    def test_get_returns_the_newest_version_or_any_by_number(self, engine: Engine) -> None:
        versions = [write_note(engine, "a", "one"), write_note(engine, "a", "two")]
        assert get(engine, "a") == versions[-1]
        assert read(engine) == versions[-1:]
        delete_note(engine, "a")
        assert [get(engine, "a", version=number) for number in (1, 2)] == versions
        assert get(engine, "a", version=3) is None, "a tombstone"
        assert get(engine, "a", version=4) is None
        assert get(engine, "a", version=0) is None

    @requirement("LOG-2")
    def test_history_returns_every_version_oldest_first_with_tombstones(self, engine: Engine) -> None:
        versions = [write_note(engine, "a", "one")]
        write_note(engine, "b", "another")
        versions += [write_note(engine, "a", "two"), delete_note(engine, "a"), write_note(engine, "a", "four")]
        assert history(engine, "a") == versions
        assert [version.deleted for version in versions] == [False, False, True, False]

    @requirement("LOG-1")
    def test_a_deleted_record_is_absent_until_it_is_written_again(self, engine: Engine) -> None:
        write_note(engine, "a", "hello", labels=("l=1",), links=(Link("about", make_key("b")),))
        delete_note(engine, "a", labels=("l=1",))
        assert get(engine, "a") is None
        assert read(engine) == []
        assert read(engine, labels=("l=1",)) == []
        assert find_ids(engine, "hello") == []
        assert counts(engine) == {("shared", "note"): (0, 2)}
        again = write_note(engine, "a", "hello")
        assert get(engine, "a") == again
        assert find_ids(engine, "hello") == ["a"]
        assert counts(engine) == {("shared", "note"): (1, 3)}

    @pytest.mark.parametrize("id", ["\ud800", "\0", "x" * 10_000, ""])
    def test_a_key_that_cannot_be_stored_is_not_found(self, engine: Engine, id: str) -> None:
        write_note(engine, "a")
        with engine.snapshot(FULL_REACH) as reader:
            for key in (Key("shared", "note", id), Key("shared", id, "a"), Key(id, "note", "a")):
                try:
                    answers = [reader.get(key), reader.history(key), reader.neighbours(key), reader.descendants([key])]
                except InvalidInput:
                    continue
                assert not any(answers)

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200])
    def test_get_and_read_accept_numbers_beyond_every_position(self, engine: Engine, number: int) -> None:
        record = write_note(engine, "a")
        everything = [record] if number > 0 else []
        assert get(engine, "a", version=number) is None
        assert get(engine, "a", as_of=number) == (record if number > 0 else None)
        assert read(engine, as_of=number) == everything
        assert read(engine, before=number) == everything
        assert read(engine, after=number) == ([] if number > 0 else [record])

    def test_a_snapshot_stays_the_same_during_writes(self, engine: Engine) -> None:
        write_note(engine, "a", "old")
        with engine.snapshot(FULL_REACH) as reader:
            before = (reader.get(make_key("a")), reader.read(), reader.tally(), reader.tip())
            write_note(engine, "a", "new")
            write_note(engine, "b", "new")
            assert (reader.get(make_key("a")), reader.read(), reader.tally(), reader.tip()) == before
            assert reader.match_text("new") == []
        assert list_ids(engine) == ["a", "b"]

    def test_a_snapshot_may_be_taken_inside_another(self, engine: Engine) -> None:
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

    @requirement("LOG-1")
    def test_what_was_made_of_a_record_is_made_once_and_only_as_long_as_it_is_current(self, engine: Engine) -> None:
        made: list[str] = []

        def parse(record: Record) -> str:
            made.append(record.text)
            return record.text

        parsed = ParsedRecords(parse)
        write_note(engine, "a", "one")
        write_note(engine, "b", "two")
        query = Query(kinds=("note",), scopes=(SHARED,), newest_first=True, limit=2)

        def read_texts() -> list[str]:
            with engine.snapshot(FULL_REACH) as reader:
                return reader.read_parsed(query, parsed)

        assert read_texts() == read_texts() == ["two", "one"]
        write_note(engine, "a", "three")
        assert read_texts() == ["three", "two"]
        delete_note(engine, "b")
        assert read_texts() == ["three"]
        assert set(made) == {"one", "two", "three"}
        with engine.snapshot(Reach.of(["ada"])) as reader:
            assert reader.read_parsed(query, parsed) == []


class AsOfTests(EngineTestBase):
    """Reads as of an earlier time or position."""

    @requirement("LOG-2")
    def test_get_as_of_a_time_returns_the_version_of_that_time(self, engine: Engine, clock: FrozenClock) -> None:
        start = clock.now()
        for text in ("one", "two", "", "four"):
            clock.advance(10)
            write_note(engine, "a", text, deleted=not text)
        times = [start + timedelta(seconds=seconds) for seconds in (9, 10, 15, 20, 30, 35, 99)]
        assert [text_of(engine, "a", as_of=time) for time in times] == [None, "one", "one", "two", None, None, "four"]

    @requirement("LOG-2")
    def test_get_as_of_a_position_returns_the_version_of_that_position(self, engine: Engine) -> None:
        positions = [write_note(engine, id, text).seq for id, text in (("a", "one"), ("b", ""), ("a", "two"))]
        positions += [delete_note(engine, "a").seq, write_note(engine, "a", "five").seq]
        assert text_of(engine, "a", as_of=0) is None
        assert [text_of(engine, "a", as_of=position) for position in positions] == ["one", "one", "two", None, "five"]

    @requirement("LOG-2")
    def test_get_read_and_match_text_agree_on_every_earlier_state(self, engine: Engine, clock: FrozenClock) -> None:
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
            by_number = sorted(state.values(), key=lambda record: int(record.text.split()[0][4:]))
            assert [id for n in range(12) for id in find_ids(engine, f"word{n}", as_of=moment)] == ids(by_number)

    @requirement("LOG-1")
    def test_one_new_record_is_found_by_each_of_its_labels(self, engine: Engine) -> None:
        labels = ("session=1", "mood=good", "mood=good")
        add(engine, make_draft("hello", generated_id="made-1", labels=labels))
        add(engine, make_draft("again", generated_id="made-2", labels=("session=1",)))
        for label, ids_found in (("session=1", ["made-1", "made-2"]), ("mood=good", ["made-1"])):
            assert list_ids(engine, labels=(label,)) == ids_found
            assert list_ids(engine, kinds=("note",), scopes=(SHARED,), labels=(label,)) == ids_found
        assert engine.verify().sound

    @requirement("LOG-2")
    def test_order_follows_the_position_when_the_clock_jumps(self, engine: Engine, clock: FrozenClock) -> None:
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
        clock.advance(10 * 365 * 86400)
        future = write_note(engine, "a", "from the future")
        clock.set(NOON)
        present = write_note(engine, "a", "from the present")
        assert get(engine, "a") == present
        assert history(engine, "a") == [first, second, future, present]
        assert engine.verify().sound


class QueryTests(EngineTestBase):
    """``read`` applies every filter, order and limit of a query."""

    def test_read_returns_records_in_log_order(self, engine: Engine) -> None:
        for id in "cab":
            write_note(engine, id)
        write_note(engine, "c", "again")
        assert list_ids(engine) == ["a", "b", "c"]
        assert list_ids(engine, newest_first=True) == ["c", "b", "a"]
        assert list_ids(engine, every_version=True) == ["c", "a", "b", "c"]
        with engine.snapshot(FULL_REACH) as reader:
            assert ids(reader.read()) == ids(reader.read(Query())) == ["a", "b", "c"]

    def test_read_keeps_log_order_across_scopes_kinds_and_labels(self, engine: Engine) -> None:
        for step in range(12):
            scope, kind, labels = "ab"[step % 2], "xyz"[step % 3], (f"l={step % 2}", "all=1")
            write_note(engine, f"{step:02}", scope=scope, kind=kind, labels=labels)
        everything = [f"{step:02}" for step in range(12)]
        for query in ({}, {"scopes": ("a", "b")}, {"kinds": ("x", "y", "z")}, {"labels": ("all=1",)}):
            assert list_ids(engine, **query) == everything
            assert list_ids(engine, newest_first=True, limit=5, **query) == everything[:6:-1]

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("limit", [None, 0, 1, 3, 100])
    @pytest.mark.parametrize(("after", "before"), [(None, None), (2, None), (None, 5), (1, 6), (5, 2), (0, 99)])
    def test_read_applies_after_before_and_limit(
        self, engine: Engine, after: int | None, before: int | None, limit: int | None, newest_first: bool
    ) -> None:
        records = [write_note(engine, f"{number}") for number in range(6)]
        start = records[0].seq - 1
        bounds: dict[str, Any] = {"after": after and start + after, "before": before and start + before}
        numbers = range((after or 0) + 1, before or 7)
        expected = [record for number, record in enumerate(records, 1) if number in numbers]
        if newest_first:
            expected.reverse()
        assert read(engine, limit=limit, newest_first=newest_first, **bounds) == expected[:limit]

    def test_read_filters_by_kind_scope_and_author(self, engine: Engine) -> None:
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

    def test_read_requires_all_labels_on_the_newest_version(self, engine: Engine) -> None:
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

    def test_since_and_until_compare_the_time_of_the_event(self, engine: Engine) -> None:
        for day in range(1, 5):
            write_note(engine, f"day {day}", happened_at=NOON - timedelta(days=100 - day))
        write_note(engine, "now")
        second, third = NOON - timedelta(days=98), NOON - timedelta(days=97)
        assert list_ids(engine, since=second, until=third) == ["day 2", "day 3"]
        assert list_ids(engine, since=third + timedelta(microseconds=1)) == ["day 4", "now"]
        assert list_ids(engine, until=second - timedelta(microseconds=1)) == ["day 1"]

    def test_recorded_since_compares_the_time_of_recording(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "a", happened_at=NOON + timedelta(days=1))
        later = clock.advance(60)
        write_note(engine, "b", happened_at=NOON - timedelta(days=1))
        assert list_ids(engine, recorded_since=later) == ["b"]
        assert list_ids(engine, recorded_since=NOON) == ["a", "b"]

    @requirement("LOG-2")
    def test_every_version_reads_superseded_versions_and_tombstones(self, engine: Engine) -> None:
        versions = [write_note(engine, "a", author=author) for author in ("ada", "ben")]
        versions.append(delete_note(engine, "a", author="ada"))
        assert read(engine, every_version=True) == versions
        assert read(engine, every_version=True, as_of=versions[1].seq) == versions[:2]
        assert read(engine, every_version=True, author="ada") == [versions[0], versions[2]]
        assert read(engine, every_version=True, newest_first=True, limit=2) == versions[:0:-1]

    @requirement("LOG-4")
    def test_read_accepts_many_scopes_and_kinds(self, engine: Engine) -> None:
        def draft(number: int) -> ValidatedDraft:
            labels = (f"l={number % 2}",)
            return make_draft("word", id=f"{number}", scope=f"s{number % 8}", kind=f"k{number % 9}", labels=labels)

        records = add(engine, *map(draft, range(144)))
        scopes, kinds = tuple(f"s{n}" for n in range(7)), tuple(f"k{n}" for n in range(8))
        expected = [record for record in records if record.scope in scopes and record.kind in kinds]
        reach = Reach.of(scopes)
        assert read(engine, scopes=scopes, kinds=kinds) == expected
        assert read(engine, reach, kinds=kinds) == expected
        assert read(engine, reach, kinds=kinds, newest_first=True, limit=7) == expected[:-8:-1]
        assert read(engine, reach, kinds=kinds, labels=("l=1",)) == [r for r in expected if "l=1" in r.labels]
        assert len(find_ids(engine, "word", reach, kinds=kinds)) == len(expected)


_TEXT_PIECES = [
    "100%", "under_score", "back\\slash", '"quoted"', "it's", "na\u00efve", "\u65e5\u672c", "\U0001f680", "tab\there",
    "line\nbreak", "nul\0here", "<b>&amp;", "e\u0301", "{brace}", "\u2028",
]  # fmt: skip


class MentionsFilterTests(EngineTestBase):
    """The filter ``mentions`` finds a substring anywhere in a record."""

    @requirement("LOG-5")
    @pytest.mark.parametrize("piece", _TEXT_PIECES)
    def test_mentions_finds_a_substring_in_text_and_body(self, engine: Engine, piece: str) -> None:
        text = f"before {piece} after"
        write_note(engine, "in text", text)
        write_note(engine, "in a value", body={"x": [{"y": text}]})
        write_note(engine, "in a name", body={text: 1})
        write_note(engine, "elsewhere", "before after")
        assert list_ids(engine, mentions=piece) == ["in text", "in a value", "in a name"]

    @requirement("LOG-5")
    def test_mentions_finds_a_substring_in_names_labels_and_links(self, engine: Engine) -> None:
        write_note(engine, "by", author="mallory-7")
        write_note(engine, "about mallory-7")
        write_note(engine, "labelled", labels=("who=mallory-7",))
        write_note(engine, "linked", links=(Link("about", make_key("mallory-7", "people", "person")),))
        write_note(engine, "bystander", author="mallory-8")
        assert list_ids(engine, mentions="mallory-7") == ["by", "about mallory-7", "labelled", "linked"]

    @pytest.mark.parametrize(
        ("text", "substring"), [("100 percent", "1%t"), ("axb", "a_b"), ("ab", "a\\b"), ("abc", ".")]
    )
    def test_mentions_takes_no_character_as_a_wildcard(self, engine: Engine, text: str, substring: str) -> None:
        write_note(engine, "a", text, happened_at=NOON)
        assert list_ids(engine, mentions=substring) == []

    @pytest.mark.parametrize(
        ("text", "substring"),
        [("Alice Smith", "alice SMITH"), ("M\u00fcller", "m\u00dcLLER"), ("\u0391\u03b8\u03ae\u03bd\u03b1", "\u03b1\u03b8\u03ae\u03bd\u03b1"), ("\u0418\u0432\u0430\u043d", "\u0438\u0432\u0430\u043d")],
        ids=["latin", "umlaut", "greek", "cyrillic"],
    )  # fmt: skip
    def test_mentions_ignores_letter_case_in_every_script(self, engine: Engine, text: str, substring: str) -> None:
        write_note(engine, "text", text)
        write_note(engine, "body", body={"name": text})
        assert list_ids(engine, mentions=substring) == ["text", "body"]

    @pytest.mark.parametrize("piece", ["recorded_at", "created_at", "kind", '":"', "{", ","])
    def test_mentions_ignores_field_names_and_json_syntax(self, engine: Engine, piece: str) -> None:
        write_note(engine, "a", "hello")
        assert list_ids(engine, mentions=piece) == []

    def test_mentions_searches_superseded_versions_on_request(self, engine: Engine) -> None:
        write_note(engine, "a", "written by mallory")
        write_note(engine, "a", "written by ada")
        assert list_ids(engine, mentions="mallory") == []
        assert list_ids(engine, mentions="mallory", every_version=True) == ["a"]

    def test_mentions_combines_with_other_filters(self, engine: Engine) -> None:
        for id, author, scope in (("1", "ada", "a"), ("2", "ben", "a"), ("3", "ada", "b")):
            write_note(engine, id, "the word", author=author, scope=scope, labels=("l=1",))
        assert list_ids(engine, mentions="word", author="ada", scopes=("a",), labels=("l=1",)) == ["1"]
        assert list_ids(engine, mentions="word", limit=1, newest_first=True) == ["3"]
        assert list_ids(engine, Reach.of(["b"]), mentions="word") == ["3"]


def about_links(*ids: str) -> tuple[Link, ...]:
    return tuple(Link("about", make_key(id)) for id in ids)


class LinkTests(EngineTestBase):
    """``neighbours`` and ``descendants`` follow the links of live records."""

    @requirement("LOG-1")
    def test_neighbours_returns_a_link_from_both_ends(self, engine: Engine) -> None:
        write_note(engine, "b")
        write_note(engine, "a", links=about_links("b"))
        assert neighbours(engine, "a") == [("about", "out", "b")]
        assert neighbours(engine, "b") == [("about", "in", "a")]

    def test_neighbours_filters_by_relation(self, engine: Engine) -> None:
        supersedes = (Link("supersedes", make_key("b")), Link("supersedes", make_key("c")))
        write_note(engine, "a", links=(*about_links("b"), *supersedes))
        assert neighbours(engine, "a", "supersedes") == [("supersedes", "out", "b"), ("supersedes", "out", "c")]
        assert neighbours(engine, "b") == [("about", "in", "a"), ("supersedes", "in", "a")]
        assert neighbours(engine, "b", "about") == [("about", "in", "a")]
        assert neighbours(engine, "b", "unknown") == []

    def test_neighbours_returns_a_repeated_link_to_a_missing_record_once(self, engine: Engine) -> None:
        write_note(engine, "a", links=about_links("missing", "missing"))
        assert neighbours(engine, "a") == [("about", "out", "missing")]
        assert neighbours(engine, "missing") == [("about", "in", "a")]
        assert engine.verify().sound

    def test_a_record_may_link_to_itself(self, engine: Engine) -> None:
        write_note(engine, "a", links=(*about_links("a"), *derived_links("a")))
        assert neighbours(engine, "a", "about") == [("about", "in", "a"), ("about", "out", "a")]
        assert descendants(engine, "a") == []

    def test_neighbours_distinguishes_targets_by_scope_kind_and_id(self, engine: Engine) -> None:
        target = Key("s/1", "k\u00fcnste", "\U0001f600'%")
        write_note(engine, "a", links=(Link("about", target),))
        assert neighbours(engine, target) == [("about", "in", "a")]
        for other in (Key("s", "1/k\u00fcnste", target.id), replace(target, id="\U0001f600'_"), make_key(target.id)):
            assert neighbours(engine, other) == []

    def test_neighbours_uses_the_newest_version_only(self, engine: Engine) -> None:
        write_note(engine, "a", links=about_links("b"))
        write_note(engine, "a", links=about_links("c"))
        assert neighbours(engine, "a") == [("about", "out", "c")]
        assert neighbours(engine, "b") == []
        assert neighbours(engine, "c") == [("about", "in", "a")]
        delete_note(engine, "a", links=about_links("d"))
        assert neighbours(engine, "a") == neighbours(engine, "c") == neighbours(engine, "d") == []

    @requirement("LOG-6")
    def test_descendants_follows_derivations_at_any_depth(self, engine: Engine) -> None:
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
    def test_descendants_follows_a_cycle_once(self, engine: Engine) -> None:
        add(engine, *(make_draft(id=id, links=derived_links(source)) for id, source in ("ac", "ba", "cb")))
        assert descendants(engine, "a") == ["b", "c"]
        assert descendants(engine, "b") == ["a", "c"]
        assert descendants(engine, "a", "c") == ["b"]

    @requirement("LOG-6")
    def test_descendants_includes_records_with_a_derived_older_version(self, engine: Engine) -> None:
        write_note(engine, "b", links=derived_links("a"))
        write_note(engine, "b")
        write_note(engine, "c", links=derived_links("a"))
        delete_note(engine, "c")
        assert descendants(engine, "a") == ["b", "c"]

    @pytest.mark.parametrize("relation", ["about", "derived_from_me", "DERIVED_FROM", "supersedes"])
    def test_descendants_follows_no_other_relation(self, engine: Engine, relation: str) -> None:
        assert relation != DERIVED_FROM
        write_note(engine, "b", links=(Link(relation, make_key("a")),))
        assert descendants(engine, "a") == []


class DamagedEntryTests(EngineTestBase):
    """An entry that does not match its digest harms nothing but itself: reads leave it out and count it."""

    @pytest.fixture(params=["altered", "broken"])
    def damaged_seq(self, request: pytest.FixtureRequest, engine: Engine) -> int:
        """Fill a store, damage one of its entries, and return its position."""
        records = [
            write_note(engine, id, f"the word of {id}", labels=("group=g",), kind="memory")
            for id in ("a", "damaged", "b", "c")
        ]
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0]) for record in records[:3]])
        damage = self.alter_entry if request.param == "altered" else self.break_entry
        damage(engine, make_key("damaged", kind="memory"))
        return records[1].seq

    @requirement("LOG-5")
    @pytest.mark.parametrize(
        "query",
        [
            {},
            {"kinds": ("memory",)},
            {"labels": ("group=g",)},
            {"every_version": True},
            {"as_of": 10_000},
            {"as_of": 10_000, "every_version": True},
            {"mentions": "memory"},
            {"limit": 3},
            {"limit": 3, "mentions": "memory"},
        ],
        ids=lambda query: " ".join(query) or "all",
    )
    def test_read_leaves_a_damaged_entry_out_and_counts_it(
        self, engine: Engine, damaged_seq: int, query: dict[str, Any]
    ) -> None:
        with engine.snapshot(FULL_REACH) as reader:
            assert ids(reader.read(Query(**query))) == ["a", "b", "c"]
            assert reader.damaged == {damaged_seq}
            assert ids(reader.read(Query(newest_first=True, **query))) == ["c", "b", "a"]
            assert ids(match.record for match in reader.match_text("word", Query(**query))) == ["a", "b", "c"]

    @requirement("LOG-5")
    def test_get_raises_for_a_damaged_entry_and_for_no_other(self, engine: Engine, damaged_seq: int) -> None:
        with engine.snapshot(FULL_REACH) as reader:
            for how in ({}, {"version": 1}, {"as_of": 10_000}):
                with pytest.raises(StoreDamaged, match=f"position {damaged_seq} "):
                    reader.get(make_key("damaged", kind="memory"), **how)
                assert reader.get(make_key("b", kind="memory"), **how) is not None
            assert reader.history(make_key("damaged", kind="memory")) == []
            assert reader.damaged == {damaged_seq}

    @requirement("LOG-5")
    def test_every_index_leaves_a_damaged_entry_out(self, engine: Engine, damaged_seq: int) -> None:
        positions = range(1, damaged_seq + 10)
        keys = sorted(text_pair_keys("the word of b", SHARED, "memory"))
        with engine.snapshot(FULL_REACH) as reader:
            assert ids(match.record for match in reader.match_vector("m", [1.0, 0.0])) == ["a", "b"]
            assert damaged_seq not in reader.texts_at(positions)
            assert ids(reader.without_vectors("m", 10)) == ["c"]
            assert reader.cosines("m", [1.0, 0.0], list(positions))
            assert {found.id for found in reader.near_duplicates([keys], SHARED, kind="memory", limit_per_key=9)} >= {
                "b"
            }
            assert reader.adjacent_turns(reader.read(), "group")
            assert reader.damaged == {damaged_seq}

    @requirement("LOG-5")
    @pytest.mark.usefixtures("damaged_seq")
    def test_a_store_with_a_damaged_entry_can_be_written_verified_and_reindexed(self, engine: Engine) -> None:
        write_note(engine, "new", "another word", labels=("group=g",), kind="memory")
        for _ in range(2):
            findings = engine.verify().findings
            assert any(str(make_key("damaged", kind="memory")) in finding.where for finding in findings)
            engine.reindex()
            assert find_ids(engine, "another") == ["new"]
        assert not any(finding.repairable for finding in engine.verify().findings)
        assert list_ids(engine, labels=("group=g",)) == ["a", "b", "c", "new"]

    @requirement("LOG-5")
    @pytest.mark.parametrize("times", [1, 2, 4])
    def test_an_entry_altered_after_it_was_read_is_noticed_by_the_next_read(self, engine: Engine, times: int) -> None:
        key = make_key("damaged", kind="memory")
        seq = write_note(engine, "damaged", "the truth", kind="memory").seq
        for _ in range(times):
            assert list_ids(engine, kinds=("memory",)) == ["damaged"]
            with engine.snapshot(FULL_REACH) as reader:
                assert reader.texts_at([seq]) == {seq: "the truth"}
        self.alter_entry(engine, key)
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.read(Query(kinds=("memory",))) == []
            assert reader.texts_at([seq]) == {}
            assert reader.damaged == {seq}

    @requirement("LOG-1")
    @pytest.mark.parametrize("body", [{}, {"n": 1}, {"n": [1, {"m": None}]}], ids=["none", "flat", "nested"])
    def test_whoever_changes_a_record_that_was_read_changes_no_other_read(
        self, engine: Engine, body: dict[str, Any]
    ) -> None:
        written = write_note(engine, "a", "the text", body=body, labels=("l=1",), links=derived_links("b"))
        for _ in range(5):
            with engine.snapshot(FULL_REACH) as reader:
                for record in (reader.get(make_key("a")), *reader.read(), reader.match_text("text")[0].record):
                    assert record == written
                    record_body: Any = record.body
                    if isinstance(record_body.get("n"), list):
                        record_body["n"].clear()
                    record_body["n"] = "changed"
