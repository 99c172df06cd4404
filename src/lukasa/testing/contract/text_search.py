"""The exam: finding records by the words in their text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    delete_note,
    find_ids,
    make_draft,
    matches,
    quarantine,
    release,
    requirement,
    write_note,
)

HOSTILE_QUERIES = [
    "", " ", '"', '""', '"""', "'", "*", "word*", "^word", "+", "-", "-word", "(", ")", "()", "NEAR(", "NEAR(a b, 2)", "AND",
    "OR", "NOT", "a AND", "NOT word", "col:x", "text:word", "{text}: word", "text : word", "\\", "%", "_", ";", "--", "\0",
    "a\0word", "\ufeff", "\u200b", "\U0001f600", "\U0001f469\u200d\U0001f680", "\u202e", "\ud800", "\udfff word", "e\u0301",
    "x" * 100_000, "\n\t\r", "' OR 1=1; DROP TABLE log; --", "<script>", "$where", "?", ":1", "\u0130", "\u00df",
]  # fmt: skip


class TextSearchTests(EngineTestBase):
    """Any of the words, best first, and any string at all is a valid question."""

    def test_any_of_the_words_is_enough(self, engine: Engine) -> None:
        write_note(engine, "a", "The build is green again")
        write_note(engine, "b", "the deploy failed")
        write_note(engine, "c", "")
        assert find_ids(engine, "green") == ["a"]
        assert sorted(find_ids(engine, "GREEN deploy")) == ["a", "b"]
        assert find_ids(engine, "yellow") == []
        assert sorted(find_ids(engine, "yellow the")) == ["a", "b"]

    def test_words_asked_together_count_when_a_text_holds_them_all(self, engine: Engine) -> None:
        write_note(engine, "both", "The good otter was green")
        write_note(engine, "one", "a good day")
        write_note(engine, "rare", "the kingfisher")
        with engine.snapshot(FULL_REACH) as reader:

            def asked(words: str, together: str) -> list[str]:
                return sorted(match.record.id for match in reader.match_text(words, together=together))

            assert asked("", "good otters") == ["both"]
            assert asked("kingfisher", "good otter") == ["both", "rare"]
            assert asked("kingfisher", "good heron") == ["rare"]
            assert asked("kingfisher", "good") == ["both", "one", "rare"]
            assert asked("good", "good otter") == ["both", "one"]
            assert asked("", "good yellow") == asked("", "") == []
            for hostile in HOSTILE_QUERIES:
                assert "rare" in asked("kingfisher", hostile)
                asked(hostile, "good otter")

    def test_other_forms_of_a_word_are_found(self, engine: Engine) -> None:
        write_note(engine, "a", "we deployed the connectors")
        for word in ("deploy", "deploys", "deploying", "connector"):
            assert find_ids(engine, word) == ["a"]

    @pytest.mark.parametrize("hostile", HOSTILE_QUERIES, ids=lambda hostile: ascii(hostile[:20]))
    def test_any_string_is_a_valid_question(self, engine: Engine, hostile: str) -> None:
        write_note(engine, "a", "an innocent record")
        find_ids(engine, hostile)
        find_ids(engine, hostile, every_version=True, as_of=NOON)
        assert find_ids(engine, f"innocent {hostile}") == ["a"]
        assert find_ids(engine, f"{hostile} innocent") == ["a"]

    def test_an_operator_is_a_word_like_any_other(self, engine: Engine) -> None:
        write_note(engine, "a", "neither here nor near")
        write_note(engine, "b", "this and that")
        write_note(engine, "c", "not a column: text")
        assert find_ids(engine, "NEAR") == ["a"]
        assert find_ids(engine, "AND") == ["b"]
        assert find_ids(engine, "NOT") == ["c"]
        assert sorted(find_ids(engine, "near AND that")) == ["a", "b"]
        assert sorted(find_ids(engine, "near NOT that")) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("question", "hits"),
        [
            ("multi-agent", ["agents"]),
            ("CVE-2025-64439", ["cve"]),
            ("cve-2025-64439", ["cve"]),
            ("CVE-2025-11111", []),
            ("foo_bar()", ["code"]),
            ("foo_baz()", []),
            ("don't", ["prose"]),
            ("a.b@example.org", ["mail"]),
            ("c@example.org", []),
            ("(multi-agent)", ["agents"]),
            ('"multi-agent"', ["agents"]),
        ],
    )
    def test_words_with_punctuation_are_found_whole(self, engine: Engine, question: str, hits: list[str]) -> None:
        write_note(engine, "agents", "a multi-agent system")
        write_note(engine, "cve", "fixes CVE-2025-64439 at last")
        write_note(engine, "code", "call foo_bar() twice")
        write_note(engine, "prose", "they don't agree")
        write_note(engine, "mail", "write to a.b@example.org please")
        assert find_ids(engine, question) == hits

    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("\u00fcber allen Gipfeln", "\u00dcBER"),
            ("\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u043f\u0440\u0438\u0432\u0435\u0442"),
            ("\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
            ("caf\u00e9 cre\u0301me", "cr\u00e9me"),
            ("before\0after", "after"),
            ("\U0001d54asymbol word\U0001f600", "word"),
        ],
        ids=["german", "russian", "hebrew", "two spellings", "nul", "emoji"],
    )
    def test_words_of_every_script_are_found(self, engine: Engine, text: str, question: str) -> None:
        write_note(engine, "a", text)
        assert find_ids(engine, question) == ["a"]
        assert engine.verify().sound

    def test_the_last_of_many_words_counts(self, engine: Engine) -> None:
        write_note(engine, "a", "needle")
        assert find_ids(engine, " ".join([*(f"straw{number}" for number in range(300)), "needle"])) == ["a"]

    def test_a_question_of_ten_thousand_words_is_answered(self, engine: Engine) -> None:
        write_note(engine, "a", "needle")
        assert find_ids(engine, " ".join(["needle", *(f"straw{number}" for number in range(10_000))])) == ["a"]

    def test_the_best_match_comes_first_and_a_limit_keeps_the_best(self, engine: Engine) -> None:
        add(engine, *(make_draft(f"common filler number {number}", id=f"filler {number}") for number in range(20)))
        write_note(engine, "best", "the rare topic")
        write_note(
            engine,
            "good",
            "the rare common thing with a good deal more of other words around it to dilute what it says",
        )
        hits = matches(engine, "rare topic common")
        assert [hit.record.id for hit in hits[:2]] == ["best", "good"]
        assert len(hits) == 22
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert find_ids(engine, "rare topic common", limit=2) == ["best", "good"]
        assert find_ids(engine, "rare topic common", limit=2, every_version=True) == ["best", "good"]

    @requirement("LOG-2")
    def test_old_words_are_found_only_as_of_then(self, engine: Engine, clock: FrozenClock) -> None:
        old = write_note(engine, "a", "the sky was green")
        clock.advance(60)
        write_note(engine, "a", "the sky is blue")
        assert find_ids(engine, "green") == []
        assert find_ids(engine, "blue") == ["a"]
        for then in (old.seq, old.recorded_at):
            assert matches(engine, "green", as_of=then)[0].record == old
            assert find_ids(engine, "blue", as_of=then) == []
            assert len(find_ids(engine, "sky", as_of=then)) == 1
        assert find_ids(engine, "green", every_version=True) == ["a"]

    @requirement("LOG-1", "LOG-6")
    def test_what_is_deleted_or_hidden_is_not_found(self, engine: Engine) -> None:
        write_note(engine, "deleted", "word")
        delete_note(engine, "deleted")
        write_note(engine, "hidden", "word", author="mallory")
        quarantine(engine, "mallory")
        assert find_ids(engine, "word") == []
        release(engine, "mallory")
        assert find_ids(engine, "word") == ["hidden"]
        assert engine.verify().sound

    def test_a_tombstone_with_text_is_not_found_today(self, engine: Engine) -> None:
        write_note(engine, "a", "alive")
        delete_note(engine, "a", text="farewell")
        assert find_ids(engine, "farewell alive") == []
        assert engine.verify().sound

    def test_every_filter_narrows_what_is_found(self, engine: Engine, clock: FrozenClock) -> None:
        first = write_note(
            engine, "1", "word", scope="a", author="ada", labels=("l=1",), happened_at=NOON - timedelta(days=9)
        )
        clock.advance(60)
        write_note(engine, "2", "word", scope="b", kind="fact", author="ben", body={"x": "special"})
        for query, hits in (
            ({"scopes": ("a",)}, ["1"]),
            ({"kinds": ("fact",)}, ["2"]),
            ({"author": "ada"}, ["1"]),
            ({"labels": ("l=1",)}, ["1"]),
            ({"until": NOON - timedelta(days=8)}, ["1"]),
            ({"since": NOON - timedelta(days=8)}, ["2"]),
            ({"recorded_since": clock.now()}, ["2"]),
            ({"after": first.seq}, ["2"]),
            ({"before": first.seq + 1}, ["1"]),
            ({"mentions": "special"}, ["2"]),
        ):
            assert find_ids(engine, "word", **query) == hits

    @requirement("RCL-5")
    def test_words_follow_every_change_at_once(self, engine: Engine) -> None:
        batch = add(engine, make_draft("alpha", id="a"), make_draft("beta", id="a"), make_draft("gamma", id="b"))
        assert [find_ids(engine, word) for word in ("alpha", "beta", "gamma")] == [[], ["a"], ["b"]]
        assert matches(engine, "alpha", as_of=batch[0].seq)[0].record == batch[0]
        write_note(engine, "b", "")
        assert find_ids(engine, "gamma") == []
        assert engine.verify().sound

    @requirement("LOG-4")
    def test_how_often_a_token_stands_is_counted_within_reach(self, engine: Engine) -> None:
        for number in range(3):
            write_note(engine, f"{number}", "the connectors deployed", scope="a" if number else "b")
        write_note(engine, "gone", "connectors")
        delete_note(engine, "gone")
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.frequency(["connector", "deploi", "yellow", "connector"]) == {
                "connector": 3,
                "deploi": 3,
                "yellow": 0,
            }
            assert reader.frequency([]) == {}
            assert reader.frequency(["\ud800", "\0", "'"]) == {"\ud800": 0, "\0": 0, "'": 0}
        with engine.snapshot(Reach.of(["b"])) as reader:
            assert reader.frequency(["connector"]) == {"connector": 1}
