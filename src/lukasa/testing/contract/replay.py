"""The exam: taking in the lines of another log."""

from __future__ import annotations

from lukasa.engine import Engine
from lukasa.record import Key, Link, digest_of
from lukasa.scope import EVERYTHING
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    MakeEngine,
    add,
    at,
    counts,
    derived,
    drop,
    found,
    get,
    history,
    keeps,
    lines,
    listed,
    neighbours,
    note,
    owner,
    propose,
    quarantine,
    read,
    release,
    text_of,
    tip,
)
from lukasa.testing.contract.lived_in import live_in
from lukasa.testing.contract.observation import observe


def take(engine: Engine, log: list[tuple[bytes, bytes]]) -> list[str]:
    return [answer.state for answer in engine.replay(EVERYTHING, log)]


class Replay(Examination):
    """Verbatim, each once however often it comes."""

    @keeps("LOG-7")
    def test_a_log_is_taken_in_verbatim_and_gives_the_same_state(
        self, engine: Engine, make_engine: MakeEngine, clock: FrozenClock
    ) -> None:
        live_in(engine, clock)
        copy = make_engine()
        log = lines(engine)
        assert set(take(copy, log)) == {"added"}
        assert lines(copy) == log
        without = ("vectors",)
        assert observe(copy, without=without, positions=False) == observe(engine, without=without, positions=False)
        assert copy.verify().sound

    @keeps("LOG-7")
    def test_a_line_that_is_here_already_is_left_alone(self, engine: Engine, make_engine: MakeEngine) -> None:
        for id in "aab":
            note(engine, id, "hello")
        copy = make_engine()
        log = lines(engine)
        assert take(copy, log[:2]) == ["added", "added"]
        assert take(copy, log) == ["present", "present", "added"]
        before = observe(copy)
        assert take(copy, log + log) == ["present"] * 6
        assert take(engine, log) == ["present"] * 3
        assert observe(copy) == before

    def test_a_line_may_come_twice_in_one_go(self, engine: Engine, make_engine: MakeEngine) -> None:
        note(engine, "a")
        assert take(make_engine(), lines(engine) * 2) == ["added", "present"]

    @keeps("LOG-7")
    def test_every_line_gets_its_own_answer_in_order(self, engine: Engine, make_engine: MakeEngine) -> None:
        add(engine, *(propose(f"number {number}", id=f"{number}") for number in range(1_500)))
        log = lines(engine)
        log[700] = (log[700][0], log[701][1])
        copy = make_engine()
        assert take(copy, log) == ["added"] * 700 + ["refused"] + ["added"] * 799
        assert counts(copy) == {("shared", "note"): (1_499, 1_499)}

    @keeps("LOG-5", "LOG-7")
    def test_a_line_that_does_not_match_its_digest_is_refused(self, engine: Engine, make_engine: MakeEngine) -> None:
        note(engine, "a", "hello")
        ((line, digest),) = lines(engine)
        copy = make_engine()
        for altered in (
            (line.replace(b"hello", b"jello"), digest),
            (line, digest[::-1]),
            (line, b""),
            (line[:-1], digest),
        ):
            assert take(copy, [altered]) == ["refused"]
        assert tip(copy) == 0

    @keeps("LOG-7")
    def test_another_record_with_the_same_key_and_version_is_refused(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        note(engine, "a", "theirs")
        note(engine, "a", "theirs too")
        note(engine, "b", "theirs")
        copy = make_engine()
        note(copy, "a", "ours")
        (first, *_) = answers = list(copy.replay(EVERYTHING, lines(engine)))
        assert [answer.state for answer in answers] == ["refused", "added", "added"]
        assert first.reason
        assert [version.text for version in history(copy, "a")] == ["ours", "theirs too"]

    def test_of_two_lines_for_one_version_in_one_go_the_first_stands(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        other = make_engine()
        note(engine, "a", "first")
        note(other, "a", "second")
        copy = make_engine()
        assert take(copy, lines(engine) + lines(other)) == ["added", "refused"]
        assert text_of(copy, "a") == "first"

    @keeps("LOG-5", "LOG-7")
    def test_what_was_erased_is_not_brought_back(self, engine: Engine, make_engine: MakeEngine) -> None:
        note(engine, "a", "forget me")
        note(engine, "a", "forget me too")
        note(engine, "b", "keep me")
        log = lines(engine)
        owner(engine).erase(at("a"))
        assert take(engine, log) == ["refused", "refused", "present"]
        assert get(engine, "a") is None
        copy = make_engine()
        assert "refused" not in take(copy, lines(engine))
        assert take(copy, log) == ["refused", "refused", "present"], "the receipt travels with the log"

    @keeps("LOG-5", "LOG-7")
    def test_what_was_written_after_an_erasure_under_the_same_key_travels(
        self, engine: Engine, clock: FrozenClock, make_engine: MakeEngine
    ) -> None:
        note(engine, "a", "forget me")
        owner(engine).erase(at("a"))
        clock.advance(60)
        note(engine, "a", "a new beginning")
        copy = make_engine()
        log = lines(engine)
        assert take(copy, log[:1]) == ["added"], "the receipt goes ahead"
        assert take(copy, log) == ["present", "added"]
        assert text_of(copy, "a") == "a new beginning"

    @keeps("LOG-7")
    def test_versions_may_come_in_any_order(self, engine: Engine, make_engine: MakeEngine) -> None:
        versions = [
            note(engine, "a", "one", labels=("l=1",), links=(Link("about", at("x")),)),
            note(engine, "a", "two"),
            drop(engine, "a"),
            note(engine, "a", "four", labels=("l=4",), links=(Link("about", at("y")),)),
        ]
        log = lines(engine)
        copy = make_engine()
        assert take(copy, [log[3], log[0], log[2], log[1]]) == ["added"] * 4
        assert [version.digest for version in history(copy, "a")] == [version.digest for version in versions]
        assert text_of(copy, "a") == "four"
        assert [found(copy, word) for word in ("one", "two", "four")] == [[], [], ["a"]]
        assert listed(copy, labels=("l=1",)) == []
        assert listed(copy, labels=("l=4",)) == ["a"]
        assert neighbours(copy, "a") == [("about", "out", "y")]
        assert counts(copy) == {("shared", "note"): (1, 4)}
        assert note(copy, "a").version == 5
        assert copy.verify().sound

    def test_an_older_version_does_not_bring_back_what_is_deleted(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        note(engine, "a", "one")
        drop(engine, "a")
        log = lines(engine)
        copy = make_engine()
        assert take(copy, log[::-1]) == ["added", "added"]
        assert get(copy, "a") is None
        assert counts(copy) == {("shared", "note"): (0, 2)}
        assert copy.verify().sound

    def test_positions_grow_although_versions_come_late(self, engine: Engine, make_engine: MakeEngine) -> None:
        note(engine, "a", "one")
        note(engine, "a", "two")
        copy = make_engine()
        positions = [note(copy, "x").seq]
        for line in reversed(lines(engine)):
            take(copy, [line])
            positions.append(tip(copy))
        copy.compact()
        positions.append(note(copy, "y").seq)
        assert positions == sorted(set(positions))
        assert listed(copy, after=positions[2]) == ["y"], "whoever read that far must still find what comes"

    @keeps("LOG-6", "LOG-7")
    def test_quarantines_take_effect_as_they_come(self, engine: Engine, make_engine: MakeEngine) -> None:
        note(engine, "bad", "word", author="mallory")
        note(engine, "child", "word", author="ada", links=derived("bad"))
        quarantine(engine, "mallory")
        note(engine, "later", "word", author="mallory")
        note(engine, "grandchild", "word", author="ada", links=derived("later"))
        copy = make_engine()
        take(copy, lines(engine))
        assert listed(copy) == []
        assert found(copy, "word") == []
        release(engine, "mallory")
        take(copy, lines(engine))
        assert listed(copy) == ["bad", "child", "later", "grandchild"]
        assert copy.verify().sound

    @keeps("LOG-6", "LOG-7")
    def test_the_newest_word_on_a_quarantine_stands_in_whatever_order_it_comes(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        release(engine, "mallory")
        copy = make_engine()
        take(copy, lines(engine)[::-1])
        assert listed(copy) == ["a"]
        copy.reindex()
        assert listed(copy) == ["a"]

    @keeps("LOG-6", "LOG-7")
    def test_lines_of_an_author_in_quarantine_here_come_in_hidden(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        note(engine, "bad", "word", author="mallory")
        note(engine, "child", "word", author="ada", links=derived("bad"))
        note(engine, "fine", "word", author="ada")
        copy = make_engine()
        quarantine(copy, "mallory")
        assert take(copy, lines(engine)) == ["added"] * 3
        assert listed(copy) == ["fine"]
        assert found(copy, "word") == ["fine"]
        copy.reindex()
        assert listed(copy) == ["fine"]
        release(copy, "mallory")
        assert listed(copy) == ["bad", "child", "fine"]
        assert copy.verify().sound

    @keeps("LOG-7")
    def test_two_stores_that_exchange_their_logs_end_up_alike(
        self, make_engine: MakeEngine, clock: FrozenClock
    ) -> None:
        one, two = make_engine(clock), make_engine(clock)
        for engine, name in ((one, "one"), (two, "two")):
            note(engine, name, f"from {name}", scope=name)
            note(engine, name, f"again from {name}", scope=name)
        take(one, lines(two))
        take(two, lines(one))
        assert {record.digest for record in read(one)} == {record.digest for record in read(two)}
        assert get(one, Key("two", "note", "two")) is not None
        assert one.verify().sound
        assert two.verify().sound

    def test_a_digest_is_checked_before_anything_else(self, engine: Engine) -> None:
        assert take(engine, [(b"not a line", b"\0" * 32)]) == ["refused"]
        assert tip(engine) == 0
        assert digest_of(b"not a line") != b"\0" * 32
