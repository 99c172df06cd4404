"""The exam: taking in the lines of another log."""

from __future__ import annotations

from lukasa.record import Key, Link, digest_of
from lukasa.scope import FULL_REACH
from lukasa.storage.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineFactory,
    EngineTestBase,
    add,
    counts,
    delete_note,
    derived_links,
    find_ids,
    get,
    history,
    list_ids,
    log_entries,
    make_draft,
    make_key,
    neighbours,
    owner_journal,
    quarantine,
    read,
    release,
    requirement,
    text_of,
    tip,
    write_note,
)
from lukasa.testing.contract.dump import dump_store
from lukasa.testing.contract.example_store import fill_example_store


def replay_states(engine: Engine, log: list[tuple[bytes, bytes]]) -> list[str]:
    return [answer.state for answer in engine.replay(FULL_REACH, log)]


class ReplayTests(EngineTestBase):
    """Verbatim, each once however often it comes."""

    @requirement("LOG-7")
    def test_a_log_is_taken_in_verbatim_and_gives_the_same_state(
        self, engine: Engine, make_engine: EngineFactory, clock: FrozenClock
    ) -> None:
        fill_example_store(engine, clock)
        copy = make_engine()
        log = log_entries(engine)
        assert set(replay_states(copy, log)) == {"added"}
        assert log_entries(copy) == log
        without = ("vectors",)
        assert dump_store(copy, without=without, positions=False) == dump_store(
            engine, without=without, positions=False
        )
        assert copy.verify().sound

    @requirement("LOG-7")
    def test_a_line_that_is_here_already_is_left_alone(self, engine: Engine, make_engine: EngineFactory) -> None:
        for id in "aab":
            write_note(engine, id, "hello")
        copy = make_engine()
        log = log_entries(engine)
        assert replay_states(copy, log[:2]) == ["added", "added"]
        assert replay_states(copy, log) == ["present", "present", "added"]
        before = dump_store(copy)
        assert replay_states(copy, log + log) == ["present"] * 6
        assert replay_states(engine, log) == ["present"] * 3
        assert dump_store(copy) == before

    def test_a_line_may_come_twice_in_one_go(self, engine: Engine, make_engine: EngineFactory) -> None:
        write_note(engine, "a")
        assert replay_states(make_engine(), log_entries(engine) * 2) == ["added", "present"]

    @requirement("LOG-7")
    def test_every_line_gets_its_own_answer_in_order(self, engine: Engine, make_engine: EngineFactory) -> None:
        add(engine, *(make_draft(f"number {number}", id=f"{number}") for number in range(1_500)))
        log = log_entries(engine)
        log[700] = (log[700][0], log[701][1])
        copy = make_engine()
        assert replay_states(copy, log) == ["added"] * 700 + ["refused"] + ["added"] * 799
        assert counts(copy) == {("shared", "note"): (1_499, 1_499)}

    @requirement("LOG-5", "LOG-7")
    def test_a_line_that_does_not_match_its_digest_is_refused(self, engine: Engine, make_engine: EngineFactory) -> None:
        write_note(engine, "a", "hello")
        ((line, digest),) = log_entries(engine)
        copy = make_engine()
        for altered in (
            (line.replace(b"hello", b"jello"), digest),
            (line, digest[::-1]),
            (line, b""),
            (line[:-1], digest),
        ):
            assert replay_states(copy, [altered]) == ["refused"]
        assert tip(copy) == 0

    @requirement("LOG-7")
    def test_another_record_with_the_same_key_and_version_is_refused(
        self, engine: Engine, make_engine: EngineFactory
    ) -> None:
        write_note(engine, "a", "theirs")
        write_note(engine, "a", "theirs too")
        write_note(engine, "b", "theirs")
        copy = make_engine()
        write_note(copy, "a", "ours")
        (first, *_) = answers = list(copy.replay(FULL_REACH, log_entries(engine)))
        assert [answer.state for answer in answers] == ["refused", "added", "added"]
        assert first.reason
        assert [version.text for version in history(copy, "a")] == ["ours", "theirs too"]

    def test_of_two_lines_for_one_version_in_one_go_the_first_stands(
        self, engine: Engine, make_engine: EngineFactory
    ) -> None:
        other = make_engine()
        write_note(engine, "a", "first")
        write_note(other, "a", "second")
        copy = make_engine()
        assert replay_states(copy, log_entries(engine) + log_entries(other)) == ["added", "refused"]
        assert text_of(copy, "a") == "first"

    @requirement("LOG-5", "LOG-7")
    def test_what_was_erased_is_not_brought_back(self, engine: Engine, make_engine: EngineFactory) -> None:
        write_note(engine, "a", "forget me")
        write_note(engine, "a", "forget me too")
        write_note(engine, "b", "keep me")
        log = log_entries(engine)
        owner_journal(engine).erase(make_key("a"))
        assert replay_states(engine, log) == ["refused", "refused", "present"]
        assert get(engine, "a") is None
        copy = make_engine()
        assert "refused" not in replay_states(copy, log_entries(engine))
        assert replay_states(copy, log) == ["refused", "refused", "present"], "the receipt travels with the log"

    @requirement("LOG-5", "LOG-7")
    def test_what_was_written_after_an_erasure_under_the_same_key_travels(
        self, engine: Engine, clock: FrozenClock, make_engine: EngineFactory
    ) -> None:
        write_note(engine, "a", "forget me")
        owner_journal(engine).erase(make_key("a"))
        clock.advance(60)
        write_note(engine, "a", "a new beginning")
        copy = make_engine()
        log = log_entries(engine)
        assert replay_states(copy, log[:1]) == ["added"], "the receipt goes ahead"
        assert replay_states(copy, log) == ["present", "added"]
        assert text_of(copy, "a") == "a new beginning"

    @requirement("LOG-7")
    def test_versions_may_come_in_any_order(self, engine: Engine, make_engine: EngineFactory) -> None:
        versions = [
            write_note(engine, "a", "one", labels=("l=1",), links=(Link("about", make_key("x")),)),
            write_note(engine, "a", "two"),
            delete_note(engine, "a"),
            write_note(engine, "a", "four", labels=("l=4",), links=(Link("about", make_key("y")),)),
        ]
        log = log_entries(engine)
        copy = make_engine()
        assert replay_states(copy, [log[3], log[0], log[2], log[1]]) == ["added"] * 4
        assert [version.digest for version in history(copy, "a")] == [version.digest for version in versions]
        assert text_of(copy, "a") == "four"
        assert [find_ids(copy, word) for word in ("one", "two", "four")] == [[], [], ["a"]]
        assert list_ids(copy, labels=("l=1",)) == []
        assert list_ids(copy, labels=("l=4",)) == ["a"]
        assert neighbours(copy, "a") == [("about", "out", "y")]
        assert counts(copy) == {("shared", "note"): (1, 4)}
        assert write_note(copy, "a").version == 5
        assert copy.verify().sound

    def test_an_older_version_does_not_bring_back_what_is_deleted(
        self, engine: Engine, make_engine: EngineFactory
    ) -> None:
        write_note(engine, "a", "one")
        delete_note(engine, "a")
        log = log_entries(engine)
        copy = make_engine()
        assert replay_states(copy, log[::-1]) == ["added", "added"]
        assert get(copy, "a") is None
        assert counts(copy) == {("shared", "note"): (0, 2)}
        assert copy.verify().sound

    def test_positions_grow_although_versions_come_late(self, engine: Engine, make_engine: EngineFactory) -> None:
        write_note(engine, "a", "one")
        write_note(engine, "a", "two")
        copy = make_engine()
        positions = [write_note(copy, "x").seq]
        for line in reversed(log_entries(engine)):
            replay_states(copy, [line])
            positions.append(tip(copy))
        copy.compact()
        positions.append(write_note(copy, "y").seq)
        assert positions == sorted(set(positions))
        assert list_ids(copy, after=positions[2]) == ["y"], "whoever read that far must still find what comes"

    @requirement("LOG-6", "LOG-7")
    def test_quarantines_take_effect_as_they_come(self, engine: Engine, make_engine: EngineFactory) -> None:
        write_note(engine, "bad", "word", author="mallory")
        write_note(engine, "child", "word", author="ada", links=derived_links("bad"))
        quarantine(engine, "mallory")
        write_note(engine, "later", "word", author="mallory")
        write_note(engine, "grandchild", "word", author="ada", links=derived_links("later"))
        copy = make_engine()
        replay_states(copy, log_entries(engine))
        assert list_ids(copy) == []
        assert find_ids(copy, "word") == []
        release(engine, "mallory")
        replay_states(copy, log_entries(engine))
        assert list_ids(copy) == ["bad", "child", "later", "grandchild"]
        assert copy.verify().sound

    @requirement("LOG-6", "LOG-7")
    def test_the_newest_word_on_a_quarantine_stands_in_whatever_order_it_comes(
        self, engine: Engine, make_engine: EngineFactory
    ) -> None:
        write_note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        release(engine, "mallory")
        copy = make_engine()
        replay_states(copy, log_entries(engine)[::-1])
        assert list_ids(copy) == ["a"]
        copy.reindex()
        assert list_ids(copy) == ["a"]

    @requirement("LOG-6", "LOG-7")
    def test_lines_of_an_author_in_quarantine_here_come_in_hidden(
        self, engine: Engine, make_engine: EngineFactory
    ) -> None:
        write_note(engine, "bad", "word", author="mallory")
        write_note(engine, "child", "word", author="ada", links=derived_links("bad"))
        write_note(engine, "fine", "word", author="ada")
        copy = make_engine()
        quarantine(copy, "mallory")
        assert replay_states(copy, log_entries(engine)) == ["added"] * 3
        assert list_ids(copy) == ["fine"]
        assert find_ids(copy, "word") == ["fine"]
        copy.reindex()
        assert list_ids(copy) == ["fine"]
        release(copy, "mallory")
        assert list_ids(copy) == ["bad", "child", "fine"]
        assert copy.verify().sound

    @requirement("LOG-7")
    def test_two_stores_that_exchange_their_logs_end_up_alike(
        self, make_engine: EngineFactory, clock: FrozenClock
    ) -> None:
        one, two = make_engine(clock), make_engine(clock)
        for engine, name in ((one, "one"), (two, "two")):
            write_note(engine, name, f"from {name}", scope=name)
            write_note(engine, name, f"again from {name}", scope=name)
        replay_states(one, log_entries(two))
        replay_states(two, log_entries(one))
        assert {record.digest for record in read(one)} == {record.digest for record in read(two)}
        assert get(one, Key("two", "note", "two")) is not None
        assert one.verify().sound
        assert two.verify().sound

    def test_a_digest_is_checked_before_anything_else(self, engine: Engine) -> None:
        assert replay_states(engine, [(b"not a line", b"\0" * 32)]) == ["refused"]
        assert tip(engine) == 0
        assert digest_of(b"not a line") != b"\0" * 32
