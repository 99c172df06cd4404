"""The exam: finding records by the words in their text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lukasa.engine import Engine
from lukasa.scope import EVERYTHING, Reach
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    add,
    drop,
    found,
    keeps,
    matches,
    note,
    propose,
    quarantine,
    release,
)

HOSTILE = [
    "", " ", '"', '""', '"""', "'", "*", "word*", "^word", "+", "-", "-word", "(", ")", "()", "NEAR(", "NEAR(a b, 2)", "AND",
    "OR", "NOT", "a AND", "NOT word", "col:x", "text:word", "{text}: word", "text : word", "\\", "%", "_", ";", "--", "\0",
    "a\0word", "\ufeff", "\u200b", "\U0001f600", "\U0001f469\u200d\U0001f680", "\u202e", "\ud800", "\udfff word", "e\u0301",
    "x" * 100_000, "\n\t\r", "' OR 1=1; DROP TABLE log; --", "<script>", "$where", "?", ":1", "\u0130", "\u00df",
]  # fmt: skip


class Words(Examination):
    """Any of the words, best first, and any string at all is a valid question."""

    def test_any_of_the_words_is_enough(self, engine: Engine) -> None:
        note(engine, "a", "The build is green again")
        note(engine, "b", "the deploy failed")
        note(engine, "c", "")
        assert found(engine, "green") == ["a"]
        assert sorted(found(engine, "GREEN deploy")) == ["a", "b"]
        assert found(engine, "yellow") == []
        assert sorted(found(engine, "yellow the")) == ["a", "b"]

    def test_words_asked_together_count_when_a_text_holds_them_all(self, engine: Engine) -> None:
        note(engine, "both", "The good otter was green")
        note(engine, "one", "a good day")
        note(engine, "rare", "the kingfisher")
        with engine.reading(EVERYTHING) as reader:

            def asked(words: str, together: str) -> list[str]:
                return sorted(match.record.id for match in reader.match_text(words, together=together))

            assert asked("", "good otters") == ["both"]
            assert asked("kingfisher", "good otter") == ["both", "rare"]
            assert asked("kingfisher", "good heron") == ["rare"]
            assert asked("kingfisher", "good") == ["both", "one", "rare"]
            assert asked("good", "good otter") == ["both", "one"]
            assert asked("", "good yellow") == asked("", "") == []
            for hostile in HOSTILE:
                assert "rare" in asked("kingfisher", hostile)
                asked(hostile, "good otter")

    def test_other_forms_of_a_word_are_found(self, engine: Engine) -> None:
        note(engine, "a", "we deployed the connectors")
        for word in ("deploy", "deploys", "deploying", "connector"):
            assert found(engine, word) == ["a"]

    @pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: ascii(hostile[:20]))
    def test_any_string_is_a_valid_question(self, engine: Engine, hostile: str) -> None:
        note(engine, "a", "an innocent record")
        found(engine, hostile)
        found(engine, hostile, every_version=True, as_of=NOON)
        assert found(engine, f"innocent {hostile}") == ["a"]
        assert found(engine, f"{hostile} innocent") == ["a"]

    def test_an_operator_is_a_word_like_any_other(self, engine: Engine) -> None:
        note(engine, "a", "neither here nor near")
        note(engine, "b", "this and that")
        note(engine, "c", "not a column: text")
        assert found(engine, "NEAR") == ["a"]
        assert found(engine, "AND") == ["b"]
        assert found(engine, "NOT") == ["c"]
        assert sorted(found(engine, "near AND that")) == ["a", "b"]
        assert sorted(found(engine, "near NOT that")) == ["a", "b", "c"]

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
        note(engine, "agents", "a multi-agent system")
        note(engine, "cve", "fixes CVE-2025-64439 at last")
        note(engine, "code", "call foo_bar() twice")
        note(engine, "prose", "they don't agree")
        note(engine, "mail", "write to a.b@example.org please")
        assert found(engine, question) == hits

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
        note(engine, "a", text)
        assert found(engine, question) == ["a"]
        assert engine.verify().sound

    def test_the_last_of_many_words_counts(self, engine: Engine) -> None:
        note(engine, "a", "needle")
        assert found(engine, " ".join([*(f"straw{number}" for number in range(300)), "needle"])) == ["a"]

    def test_a_question_of_ten_thousand_words_is_answered(self, engine: Engine) -> None:
        note(engine, "a", "needle")
        assert found(engine, " ".join(["needle", *(f"straw{number}" for number in range(10_000))])) == ["a"]

    def test_the_best_match_comes_first_and_a_limit_keeps_the_best(self, engine: Engine) -> None:
        add(engine, *(propose(f"common filler number {number}", id=f"filler {number}") for number in range(20)))
        note(engine, "best", "the rare topic")
        note(
            engine,
            "good",
            "the rare common thing with a good deal more of other words around it to dilute what it says",
        )
        hits = matches(engine, "rare topic common")
        assert [hit.record.id for hit in hits[:2]] == ["best", "good"]
        assert len(hits) == 22
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert found(engine, "rare topic common", limit=2) == ["best", "good"]
        assert found(engine, "rare topic common", limit=2, every_version=True) == ["best", "good"]

    @keeps("LOG-2")
    def test_old_words_are_found_only_as_of_then(self, engine: Engine, clock: FrozenClock) -> None:
        old = note(engine, "a", "the sky was green")
        clock.advance(60)
        note(engine, "a", "the sky is blue")
        assert found(engine, "green") == []
        assert found(engine, "blue") == ["a"]
        for then in (old.seq, old.recorded_at):
            assert matches(engine, "green", as_of=then)[0].record == old
            assert found(engine, "blue", as_of=then) == []
            assert len(found(engine, "sky", as_of=then)) == 1
        assert found(engine, "green", every_version=True) == ["a"]

    @keeps("LOG-1", "LOG-6")
    def test_what_is_deleted_or_hidden_is_not_found(self, engine: Engine) -> None:
        note(engine, "deleted", "word")
        drop(engine, "deleted")
        note(engine, "hidden", "word", author="mallory")
        quarantine(engine, "mallory")
        assert found(engine, "word") == []
        release(engine, "mallory")
        assert found(engine, "word") == ["hidden"]
        assert engine.verify().sound

    def test_a_tombstone_with_text_is_not_found_today(self, engine: Engine) -> None:
        note(engine, "a", "alive")
        drop(engine, "a", text="farewell")
        assert found(engine, "farewell alive") == []
        assert engine.verify().sound

    def test_every_filter_narrows_what_is_found(self, engine: Engine, clock: FrozenClock) -> None:
        first = note(
            engine, "1", "word", scope="a", author="ada", labels=("l=1",), happened_at=NOON - timedelta(days=9)
        )
        clock.advance(60)
        note(engine, "2", "word", scope="b", kind="fact", author="ben", body={"x": "special"})
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
            assert found(engine, "word", **query) == hits

    @keeps("RCL-5")
    def test_words_follow_every_change_at_once(self, engine: Engine) -> None:
        batch = add(engine, propose("alpha", id="a"), propose("beta", id="a"), propose("gamma", id="b"))
        assert [found(engine, word) for word in ("alpha", "beta", "gamma")] == [[], ["a"], ["b"]]
        assert matches(engine, "alpha", as_of=batch[0].seq)[0].record == batch[0]
        note(engine, "b", "")
        assert found(engine, "gamma") == []
        assert engine.verify().sound

    @keeps("LOG-4")
    def test_how_often_a_token_stands_is_counted_within_reach(self, engine: Engine) -> None:
        for number in range(3):
            note(engine, f"{number}", "the connectors deployed", scope="a" if number else "b")
        note(engine, "gone", "connectors")
        drop(engine, "gone")
        with engine.reading(EVERYTHING) as reader:
            assert reader.frequency(["connector", "deploi", "yellow", "connector"]) == {
                "connector": 3,
                "deploi": 3,
                "yellow": 0,
            }
            assert reader.frequency([]) == {}
            assert reader.frequency(["\ud800", "\0", "'"]) == {"\ud800": 0, "\0": 0, "'": 0}
        with engine.reading(Reach.of(["b"])) as reader:
            assert reader.frequency(["connector"]) == {"connector": 1}
