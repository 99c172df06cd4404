"""Conformance tests of search: by words, by vectors, by near-duplicate keys, and by adjacent turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from lukasa.core.record import Record
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, NearDuplicate, Query
from lukasa.testing.clock import NOON, FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    delete_note,
    find_ids,
    make_draft,
    make_key,
    matches,
    nearest_ids,
    owner_journal,
    quarantine,
    receipt_for,
    release,
    requirement,
    tip,
    write_note,
)
from lukasa.text.terms import strip_particle, text_pair_keys

HOSTILE_QUERIES = [
    "", " ", '"', '""', '"""', "'", "*", "word*", "^word", "+", "-", "-word", "(", ")", "()", "NEAR(", "NEAR(a b, 2)", "AND",
    "OR", "NOT", "a AND", "NOT word", "col:x", "text:word", "{text}: word", "text : word", "\\", "%", "_", ";", "--", "\0",
    "a\0word", "\ufeff", "\u200b", "\U0001f600", "\U0001f469\u200d\U0001f680", "\u202e", "\ud800", "\udfff word", "e\u0301",
    "x" * 100_000, "\n\t\r", "' OR 1=1; DROP TABLE log; --", "<script>", "$where", "?", ":1", "\u0130", "\u00df",
]  # fmt: skip


class TextSearchTests(EngineTestBase):
    """``match_text`` finds records with any of the words, best first, for any query string."""

    def test_match_text_finds_records_with_any_of_the_words(self, engine: Engine) -> None:
        write_note(engine, "a", "The build is green again")
        write_note(engine, "b", "the deploy failed")
        write_note(engine, "c", "")
        assert find_ids(engine, "green") == ["a"]
        assert sorted(find_ids(engine, "GREEN deploy")) == ["a", "b"]
        assert find_ids(engine, "yellow") == []
        assert sorted(find_ids(engine, "yellow the")) == ["a", "b"]

    def test_match_text_requires_all_words_that_are_given_together(self, engine: Engine) -> None:
        write_note(engine, "both", "The good otter was green")
        write_note(engine, "one", "a good day")
        write_note(engine, "rare", "the kingfisher")
        with engine.snapshot(FULL_REACH) as reader:

            def matching(words: str, together: str) -> list[str]:
                return sorted(match.record.id for match in reader.match_text(words, together=together))

            assert matching("", "good otters") == ["both"]
            assert matching("kingfisher", "good otter") == ["both", "rare"]
            assert matching("kingfisher", "good heron") == ["rare"]
            assert matching("kingfisher", "good") == ["both", "one", "rare"]
            assert matching("good", "good otter") == ["both", "one"]
            assert matching("", "good yellow") == matching("", "") == []
            for hostile in HOSTILE_QUERIES:
                assert "rare" in matching("kingfisher", hostile)
                matching(hostile, "good otter")

    def test_match_text_finds_other_forms_of_a_word(self, engine: Engine) -> None:
        write_note(engine, "a", "we deployed the connectors")
        for word in ("deploy", "deploys", "deploying", "connector"):
            assert find_ids(engine, word) == ["a"]

    @pytest.mark.parametrize("hostile", HOSTILE_QUERIES, ids=lambda hostile: ascii(hostile[:20]))
    def test_match_text_accepts_any_string(self, engine: Engine, hostile: str) -> None:
        write_note(engine, "a", "an innocent record")
        find_ids(engine, hostile)
        find_ids(engine, hostile, every_version=True, as_of=NOON)
        assert find_ids(engine, f"innocent {hostile}") == ["a"]
        assert find_ids(engine, f"{hostile} innocent") == ["a"]

    def test_match_text_takes_an_operator_as_a_word(self, engine: Engine) -> None:
        write_note(engine, "a", "neither here nor near")
        write_note(engine, "b", "this and that")
        write_note(engine, "c", "not a column: text")
        assert find_ids(engine, "NEAR") == ["a"]
        assert find_ids(engine, "AND") == ["b"]
        assert find_ids(engine, "NOT") == ["c"]
        assert sorted(find_ids(engine, "near AND that")) == ["a", "b"]
        assert sorted(find_ids(engine, "near NOT that")) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("query", "hits"),
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
    def test_match_text_finds_a_word_with_punctuation_as_a_whole(
        self, engine: Engine, query: str, hits: list[str]
    ) -> None:
        write_note(engine, "agents", "a multi-agent system")
        write_note(engine, "cve", "fixes CVE-2025-64439 at last")
        write_note(engine, "code", "call foo_bar() twice")
        write_note(engine, "prose", "they don't agree")
        write_note(engine, "mail", "write to a.b@example.org please")
        assert find_ids(engine, query) == hits

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("\u00fcber allen Gipfeln", "\u00dcBER"),
            ("\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u043f\u0440\u0438\u0432\u0435\u0442"),
            ("\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
            ("caf\u00e9 cre\u0301me", "cr\u00e9me"),
            ("before\0after", "after"),
            ("\U0001d54asymbol word\U0001f600", "word"),
            ("明天确定新的部署方案", "部署方案"),
            ("明日の会議は三時です", "会議"),
            ("毎週issue化する", "issue化"),
            ("데이터베이스를 배포했습니다", "배포"),
            ("배포 일정이 바뀌었다", "배포를"),
            ("การประชุมวันศุกร์ถูกเลื่อน", "ประชุม"),
            ("ການປະຊຸມຖືກເລື່ອນ", "ປະຊຸມ"),
            ("दिल्ली में बैठक होगी", "दिल्ली"),
            ("الاجتماع يوم الخميس", "الخميس"),
            ("مُحَمَّد في الاجتماع", "محمد"),
            ("מֶלֶךְ יִשְׂרָאֵל", "ישראל"),
            ("Новый сервер запущен", "новый"),
            ("Η συνάντηση στην οδό", "ΟΔΟΣ οδο"),
            ("全角のＡＰＩ設計", "api"),
            ("ｶﾀｶﾅのメモ", "カタカナ"),
        ],
    )
    @requirement("RCL-10")
    def test_match_text_finds_words_of_every_script(self, engine: Engine, text: str, query: str) -> None:
        write_note(engine, "a", text)
        write_note(engine, "b", "something else 其他 ほか 기타 อื่น दूसरा آخر אחר другое")
        assert find_ids(engine, query) == ["a"]
        assert engine.verify().sound

    @requirement("RCL-10")
    def test_match_text_finds_every_piece_of_a_text_without_spaces(self, engine: Engine) -> None:
        texts = ("部署方案改了", "会議をissue化", "내일 배포를", "ประชุมที่นี่", "第3章の要点")
        for text in texts:
            write_note(engine, text, text)
        with engine.snapshot(FULL_REACH) as reader:
            for text in texts:
                for word in text.split():
                    for start in range(len(word)):
                        for piece in {word[start : start + size] for size in range(1, 5)}:
                            if piece.isascii() or piece[0].isascii() or piece[-1].isascii():
                                continue  # of Latin words and numbers, only whole ones are found
                            found = {match.record.id for match in reader.match_text(piece)}
                            assert text in found, piece
                            assert found <= {other for other in texts if strip_particle(piece) in other}, piece

    @requirement("RCL-10")
    def test_frequency_counts_a_short_term_by_what_begins_with_it(self, engine: Engine) -> None:
        write_note(engine, "a", "会議の予定")
        write_note(engine, "b", "会社", scope="other")
        for reach, count in ((FULL_REACH, 2), (Reach.of(["other"]), 1)):
            with engine.snapshot(reach) as reader:
                assert reader.frequency(["会", "会社", "予定", "社会"]) == {
                    "会": count, "会社": 1, "予定": count - 1, "社会": 0
                }  # fmt: skip

    @requirement("RCL-10")
    def test_the_words_of_every_script_follow_a_change_and_an_erasure(self, engine: Engine) -> None:
        write_note(engine, "a", "部署方案")
        write_note(engine, "a", "会議の予定")
        assert find_ids(engine, "部署") == []
        assert find_ids(engine, "部署", every_version=True) == ["a"]
        engine.erase(lambda _: [make_key("a")], receipt_for)
        assert find_ids(engine, "部署 会議 会", every_version=True) == []
        assert engine.verify().sound

    def test_match_text_uses_every_word_of_a_long_query(self, engine: Engine) -> None:
        write_note(engine, "a", "needle")
        straws = [f"straw{number}" for number in range(10_000)]
        assert find_ids(engine, " ".join([*straws[:300], "needle"])) == ["a"]
        assert find_ids(engine, " ".join(["needle", *straws])) == ["a"]

    def test_match_text_returns_the_best_first_and_a_limit_keeps_them(self, engine: Engine) -> None:
        add(engine, *(make_draft(f"common filler number {number}", id=f"filler {number}") for number in range(20)))
        write_note(engine, "best", "the rare topic")
        diluted = "the rare common thing with a good deal more of other words around it to dilute what it says"
        write_note(engine, "good", diluted)
        hits = matches(engine, "rare topic common")
        assert [hit.record.id for hit in hits[:2]] == ["best", "good"]
        assert len(hits) == 22
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert find_ids(engine, "rare topic common", limit=2) == ["best", "good"]
        assert find_ids(engine, "rare topic common", limit=0) == []
        assert find_ids(engine, "rare topic common", limit=2, every_version=True) == ["best", "good"]

    @requirement("LOG-2")
    def test_match_text_finds_superseded_words_only_as_of_their_time(self, engine: Engine, clock: FrozenClock) -> None:
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
    def test_match_text_finds_no_deleted_or_hidden_record(self, engine: Engine) -> None:
        write_note(engine, "deleted", "word")
        delete_note(engine, "deleted", text="farewell")
        write_note(engine, "hidden", "word", author="mallory")
        quarantine(engine, "mallory")
        assert find_ids(engine, "word farewell") == []
        release(engine, "mallory")
        assert find_ids(engine, "word farewell") == ["hidden"]
        assert engine.verify().sound

    def test_match_text_applies_every_filter(self, engine: Engine, clock: FrozenClock) -> None:
        old = NOON - timedelta(days=9)
        first = write_note(engine, "1", "word", scope="a", author="ada", labels=("l=1",), happened_at=old)
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
    def test_match_text_follows_every_write_at_once(self, engine: Engine) -> None:
        batch = add(engine, make_draft("alpha", id="a"), make_draft("beta", id="a"), make_draft("gamma", id="b"))
        assert [find_ids(engine, word) for word in ("alpha", "beta", "gamma")] == [[], ["a"], ["b"]]
        assert matches(engine, "alpha", as_of=batch[0].seq)[0].record == batch[0]
        write_note(engine, "b", "")
        assert find_ids(engine, "gamma") == []
        assert engine.verify().sound

    @requirement("LOG-4")
    def test_frequency_counts_tokens_within_reach(self, engine: Engine) -> None:
        for number in range(3):
            write_note(engine, f"{number}", "the connectors deployed", scope="a" if number else "b")
        write_note(engine, "gone", "connectors")
        delete_note(engine, "gone")
        with engine.snapshot(FULL_REACH) as reader:
            counted = reader.frequency(["connector", "deploi", "yellow", "connector"])
            assert counted == {"connector": 3, "deploi": 3, "yellow": 0}
            assert reader.frequency([]) == {}
            assert reader.frequency(["\ud800", "\0", "'"]) == {"\ud800": 0, "\0": 0, "'": 0}
        with engine.snapshot(Reach.of(["b"])) as reader:
            assert reader.frequency(["connector"]) == {"connector": 1}


class VectorSearchTests(EngineTestBase):
    """``match_vector`` finds the nearest records by cosine, best first."""

    def test_match_vector_returns_the_nearest_first(self, engine: Engine) -> None:
        east, north, west = (write_note(engine, id).seq for id in ("east", "north", "west"))
        engine.put_vectors("m", [(east, 0, [2.0, 0.0]), (north, 0, [0.0, 3.0]), (west, 0, [-1.0, 0.0])])
        with engine.snapshot(FULL_REACH) as reader:
            hits = reader.match_vector("m", [5.0, 1.0])
        assert [hit.record.id for hit in hits] == ["east", "north", "west"]
        assert [hit.score for hit in hits] == pytest.approx([0.98058, 0.19612, -0.98058], abs=1e-4)
        assert nearest_ids(engine, [5.0, 1.0], limit=2) == ["east", "north"]
        assert nearest_ids(engine, [5.0, 1.0], limit=0) == []

    def test_match_vector_scores_a_record_by_its_best_chunk(self, engine: Engine) -> None:
        long, short = write_note(engine, "long").seq, write_note(engine, "short").seq
        engine.put_vectors("m", [(long, 0, [0.0, 1.0]), (long, 1, [1.0, 0.0]), (short, 0, [1.0, 1.0])])
        assert nearest_ids(engine, [1.0, 0.0]) == ["long", "short"]
        assert nearest_ids(engine, [1.0, 0.0], limit=1) == ["long"]
        assert nearest_ids(engine, [0.1, 1.0], limit=2) == ["long", "short"]

    def test_put_vectors_replaces_an_earlier_vector(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position, 0, [1.0, 0.0])])
        engine.put_vectors("m", [(position, 0, [0.0, 1.0])])
        with engine.snapshot(FULL_REACH) as reader:
            (hit,) = reader.match_vector("m", [0.0, 1.0])
        assert hit.score == pytest.approx(1.0)

    def test_match_vector_compares_vectors_of_one_model_and_length_only(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position, 0, [1.0, 0.0])])
        engine.put_vectors("other", [(position, 0, [1.0, 0.0, 0.0])])
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]
        assert nearest_ids(engine, [1.0, 0.0], model="unknown") == []
        assert nearest_ids(engine, [1.0, 0.0], model="other") == []
        assert nearest_ids(engine, [1.0, 0.0, 0.0], model="other") == ["a"]
        assert nearest_ids(engine, [1.0], model="m") == []

    def test_match_vector_accepts_zero_and_empty_vectors(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        engine.put_vectors("m", [(position, 0, [0.0, 0.0])])
        assert nearest_ids(engine, [0.0, 0.0]) == ["a"]
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]
        assert nearest_ids(engine, []) == []

    def test_match_vector_finds_live_records_only(self, engine: Engine) -> None:
        seqs = {id: write_note(engine, id, author=id).seq for id in ("kept", "updated", "deleted", "mallory")}
        engine.put_vectors("m", [(seq, 0, [1.0, 0.0]) for seq in seqs.values()])
        write_note(engine, "updated")
        delete_note(engine, "deleted")
        quarantine(engine, "mallory")
        assert nearest_ids(engine, [1.0, 0.0]) == ["kept"]
        release(engine, "mallory")
        assert sorted(nearest_ids(engine, [1.0, 0.0])) == ["kept", "mallory"]

    @requirement("LOG-4")
    def test_match_vector_applies_filters_and_reach(self, engine: Engine) -> None:
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
    def test_erase_and_compact_remove_vectors(self, engine: Engine) -> None:
        erased, old = write_note(engine, "erased").seq, write_note(engine, "updated").seq
        new = write_note(engine, "updated").seq
        engine.put_vectors("m", [(seq, 0, [1.0, 0.0]) for seq in (erased, old, new)])
        engine.compact()
        owner_journal(engine).erase(write_note(engine, "erased").key)
        with engine.snapshot(FULL_REACH) as reader:
            hits = reader.match_vector("m", [1.0, 0.0], Query(every_version=True, hidden=True))
        assert [hit.record.seq for hit in hits] == [new]

    @requirement("LOG-5")
    def test_put_vectors_ignores_erased_and_future_positions(self, engine: Engine) -> None:
        position = write_note(engine, "a").seq
        owner_journal(engine).erase(write_note(engine, "a").key)
        engine.put_vectors("m", [(position, 0, [1.0, 0.0]), (tip(engine) + 1, 0, [1.0, 0.0])])
        write_note(engine, "b")
        assert nearest_ids(engine, [1.0, 0.0]) == []
        assert engine.verify().sound

    def test_match_vector_finds_the_nearest_of_many_within_any_reach(self, engine: Engine) -> None:
        batch = add(engine, *(make_draft(id=f"n{n}", scope="rare" if n % 1000 == 0 else "shared") for n in range(5000)))
        rng = Random(7)
        vectors = {record.seq: [rng.gauss(0, 1) for _ in range(64)] for record in batch}
        engine.put_vectors("m", [(seq, 0, vector) for seq, vector in vectors.items()])
        question = [part + rng.gauss(0, 0.2) for part in vectors[batch[77].seq]]
        assert nearest_ids(engine, question, limit=3)[0] == "n77"
        assert nearest_ids(engine, vectors[batch[3000].seq], Reach.of(["rare"]), limit=5)[0] == "n3000"
        assert len(nearest_ids(engine, question, Reach.of(["rare"]), limit=5)) == 5
        engine.put_vectors("m", [(batch[4000].seq, 0, question)])
        assert nearest_ids(engine, question, limit=2) == ["n4000", "n77"]
        last = write_note(engine, "last").seq
        engine.put_vectors("m", [(last, 0, [-part for part in question])])
        assert nearest_ids(engine, [-part for part in question], limit=1) == ["last"]

    @requirement("LOG-4")
    def test_cosines_compares_given_positions_within_reach(self, engine: Engine) -> None:
        one, two, none = (write_note(engine, id, scope=scope).seq for id, scope in ("1a", "2b", "3a"))
        engine.put_vectors("m", [(one, 0, [1.0, 0.0]), (one, 1, [0.0, 1.0]), (two, 0, [0.0, 2.0])])
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.cosines("m", [0.0, 3.0], [one, two, none]) == pytest.approx({one: 1.0, two: 1.0})
            assert reader.cosines("m", [3.0, 0.0], [two]) == pytest.approx({two: 0.0}, abs=1e-6)
            assert reader.cosines("m", [3.0, 0.0, 1.0], [two]) == {}
            assert reader.cosines("unknown", [3.0, 0.0], [two]) == {}
            assert reader.cosines("m", [1.0, 0.0], []) == {}
        with engine.snapshot(Reach.of(["a"])) as reader:
            assert set(reader.cosines("m", [0.0, 3.0], [one, two])) == {one}

    @requirement("RCL-5")
    def test_without_vectors_lists_unindexed_texts_in_log_order(self, engine: Engine) -> None:
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


class AdjacentTurnTests(EngineTestBase):
    """``adjacent_turns`` finds the turns before and after a turn in its conversation."""

    def test_adjacent_turns_come_from_the_same_session_scope_and_kind(self, engine: Engine) -> None:
        def turn(id: str, session: str | None = "s", **fields: Any) -> Record:
            labels = () if session is None else (f"session={session}", "other=1")
            return write_note(engine, id, f"I am {id}", labels=labels, **fields)

        turns = [turn("a"), turn("x", "t"), turn("b"), turn("fact", kind="fact"), turn("gone"), turn("alone", None)]
        turns += [turn("elsewhere", scope="closed"), turn("c")]
        ids = {record.seq: record.id for record in turns}
        delete_note(engine, "gone", labels=("session=s",))
        with engine.snapshot(FULL_REACH) as reader:
            around = reader.adjacent_turns(turns, "session")
            assert reader.texts_at([turns[0].seq, turns[2].seq]) == {turns[0].seq: "I am a", turns[2].seq: "I am b"}
        sides_by_id = {ids[seq]: tuple(side and ids[side] for side in sides) for seq, sides in around.items()}
        alone = dict.fromkeys(("x", "fact", "elsewhere"), (None, None))
        assert sides_by_id.pop("gone", None) in (None, ("b", "c"))
        assert sides_by_id == {"a": (None, "b"), "b": ("a", "c"), "c": ("b", None), **alone}

    @requirement("LOG-4")
    def test_authors_lists_recent_authors_within_reach(self, engine: Engine) -> None:
        for author in ("old", "ada", "ben", ""):
            write_note(engine, author or "unnamed", author=author)
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
    def test_adjacent_turns_and_texts_at_stay_within_reach(self, engine: Engine) -> None:
        record = write_note(engine, "a", "I am a", scope="closed", labels=("session=s",))
        with engine.snapshot(Reach.of(["shared"])) as reader:
            assert reader.adjacent_turns([record], "session") == {}
            assert reader.adjacent_turns([], "session") == {}
            assert reader.texts_at([record.seq]) == {}
            assert reader.texts_at([]) == {}


class NearDuplicateTests(EngineTestBase):
    """``near_duplicates`` finds live records that share a pair key with a text."""

    @requirement("VLT-6")
    def test_near_duplicates_returns_each_match_once_the_newest_first(self, engine: Engine) -> None:
        _write_memory(engine, "a", "herons fish quietly")
        _write_memory(engine, "b", "herons sleep quietly")
        _write_memory(engine, "c", "otters swim")
        keys = _pair_keys("herons fish quietly")
        found = _near_duplicates(engine, keys)
        texts = [(match.id, match.text) for match in found]
        assert texts == [("b", "herons sleep quietly"), ("a", "herons fish quietly")]
        assert set(found[0].pair_keys) < set(found[1].pair_keys) == set(keys)
        assert _near_duplicates(engine, [5]) == _near_duplicates(engine, []) == []

    @requirement("VLT-6")
    def test_near_duplicates_limits_the_matches_of_each_key(self, engine: Engine) -> None:
        for n in range(60):
            _write_memory(engine, f"many-{n}", f"herons quietly {n}")
        _write_memory(engine, "alone", "otters swim")
        keys = [*_pair_keys("herons quietly"), *_pair_keys("otters swim")]
        assert _near_duplicate_ids(engine, _pair_keys("herons quietly 7"), per_key=1) == ["many-59", "many-7"]
        assert _near_duplicate_ids(engine, keys, per_key=3) == ["alone", "many-59", "many-58", "many-57"]
        delete_note(engine, "many-58", kind="memory")
        _write_memory(engine, "many-57", "something else")
        assert _near_duplicate_ids(engine, keys, per_key=3) == ["alone", "many-59", "many-56", "many-55"]
        assert len(_near_duplicate_ids(engine, keys, per_key=99)) == 59
        assert _near_duplicate_ids(engine, keys, per_key=0) == []

    @requirement("VLT-6")
    def test_near_duplicates_are_live_records_of_the_kind_and_scope_within_reach(self, engine: Engine) -> None:
        _write_memory(engine, "changed", "herons quietly")
        _write_memory(engine, "changed", "otters swim")
        _write_memory(engine, "gone", "herons quietly")
        delete_note(engine, "gone", kind="memory")
        write_note(engine, "elsewhere", "herons quietly", kind="memory", scope="ada")
        write_note(engine, "another kind", "herons quietly")
        keys = _pair_keys("herons quietly")
        assert _near_duplicate_ids(engine, keys) == []
        assert _near_duplicate_ids(engine, _pair_keys("otters swim")) == ["changed"]
        ada = text_pair_keys("herons quietly", "ada", "memory")
        assert _near_duplicate_ids(engine, ada, scope="ada") == ["elsewhere"]
        assert _near_duplicate_ids(engine, ada) == []
        assert _near_duplicate_ids(engine, ada, Reach.of(["bob"]), scope="ada") == []

    @requirement("VLT-6")
    def test_near_duplicates_follow_every_write_reindex_and_compact(self, engine: Engine) -> None:
        keys = _pair_keys("herons quietly")
        write_note(engine, "plain", "herons quietly", kind="memory")
        add(engine, *(make_draft(f"herons quietly {n}", id=f"many-{n}", kind="memory") for n in range(30)))
        assert len(_near_duplicate_ids(engine, keys, per_key=99)) == 31
        engine.reindex()
        assert len(_near_duplicate_ids(engine, keys, per_key=99)) == 31
        _write_memory(engine, "plain", "otters swim")
        engine.compact()
        assert engine.verify().sound
        assert _near_duplicate_ids(engine, _pair_keys("otters swim")) == ["plain"]


def _write_memory(engine: Engine, id: str, text: str) -> None:
    write_note(engine, id, text, kind="memory", labels=("tier=canon",))


def _pair_keys(text: str) -> Sequence[int]:
    return text_pair_keys(text, "shared", "memory")


def _near_duplicates(
    engine: Engine, keys: Sequence[int], reach: Reach = FULL_REACH, *, scope: str = "shared", per_key: int = 9
) -> list[NearDuplicate]:
    with engine.snapshot(reach) as reader:
        return reader.near_duplicates([keys], scope, kind="memory", limit_per_key=per_key)


def _near_duplicate_ids(engine: Engine, keys: Sequence[int], reach: Reach = FULL_REACH, **options: Any) -> list[str]:
    return [match.id for match in _near_duplicates(engine, keys, reach, **options)]
