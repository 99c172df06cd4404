"""A small append leaves its texts to a later write; searches count and score such texts as if they were indexed."""

from __future__ import annotations

import random
import threading
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.core.record import Draft, Key, ValidatedDraft, encode_draft
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, EraseResult, Query, Reader
from lukasa.storage.sqlite.engine import SqliteEngine
from lukasa.storage.sqlite.unindexed_texts import MAX_CHARACTERS, MAX_POSITIONS

pytestmark = pytest.mark.requirement("LOG-5", "RCL-5")
TEXTS = [
    "The release of the connector is on Friday.",
    "Ben deploys the connector; the connector is yellow.",
    "Carla likes multi-agent systems and yellow tea.",
    "会社の予定は金曜日です。",
    "The multi agent report is late, and the release too.",
    "Nothing of it is urgent.",
    "Releases, releases: every release needs a report and a connector for each agent in the yellow team.",
]
QUESTIONS = [
    ("release", ""),
    ("yellow connector", ""),
    ("multi-agent", ""),
    ("会社 予", ""),
    ("the of is", ""),
    ("yellow", "release report"),
    ("urgent", "connector agent"),
    ("!!! release", "?? report"),
    ("missing", ""),
]
NUMBERS = count()


def make_draft(text: str, scope: str = "shared", id: str = "") -> ValidatedDraft:
    return encode_draft(Draft("note", text, scope=scope, id=id), f"n{next(NUMBERS)}")


def append(engine: SqliteEngine, text: str, scope: str = "shared", id: str = "") -> None:
    engine.append(FULL_REACH, [make_draft(text, scope, id)])


def count_unindexed(path: Path) -> int:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(database.execute("SELECT count(*) FROM unindexed_text").get)
    finally:
        database.close()


def search(engine: Engine, reach: Reach = FULL_REACH, **query: Any) -> list[object]:
    """Return everything that searches find, with scores."""
    with engine.snapshot(reach) as reader:
        found: list[object] = [
            [
                (match.record.text, round(match.score, 9))
                for match in reader.match_text(words, Query(**query), together=together)
            ]
            for words, together in QUESTIONS
        ]
        tokens = ["releas", "connector", "yellow", "the", "agent", "予", "予定", "missing"]
        return [
            *found,
            reader.frequency(tokens),
            reader.count_without_vectors("m"),
            len(reader.without_vectors("m", 99)),
        ]


def draft_twice(text: str, _: Reader) -> list[Draft]:
    return [Draft("note", text), Draft("fact", text)]


def index_all(engine: SqliteEngine) -> None:
    engine.put_vectors("none", [])


@pytest.mark.parametrize("indexed", range(len(TEXTS) + 1))
def test_what_is_not_indexed_is_found_and_scored_as_if_it_were(tmp_path: Path, indexed: int) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)
    scopes = ["shared", "team"] * len(TEXTS)
    for text, scope in zip(TEXTS[:indexed], scopes, strict=False):
        append(engine, text, scope)
    index_all(engine)
    for text, scope in zip(TEXTS[indexed:], scopes[indexed:], strict=False):
        append(engine, text, scope)
    assert count_unindexed(path) == len(TEXTS) - indexed
    views: list[tuple[Reach, dict[str, Any]]] = [
        (FULL_REACH, {}),
        (Reach.of(("team",)), {}),
        (FULL_REACH, {"limit": 2}),
        (FULL_REACH, {"every_version": True}),
    ]
    before = [search(engine, reach, **query) for reach, query in views]
    read_only = SqliteEngine(path, read_only=True)
    assert [search(read_only, reach, **query) for reach, query in views] == before
    read_only.close()
    assert engine.verify().findings == ()
    index_all(engine)
    assert count_unindexed(path) == 0
    assert [search(engine, reach, **query) for reach, query in views] == before
    assert engine.verify().findings == ()
    engine.close()


def test_scores_of_random_texts_are_those_of_a_full_index(tmp_path: Path) -> None:
    rng = random.Random(7)
    words = [f"w{number}" for number in range(40)]
    texts = [" ".join(rng.choices(words, weights=range(40, 0, -1), k=rng.randint(1, 30))) for _ in range(90)]
    engine = SqliteEngine(tmp_path / "store.db")
    engine.append(FULL_REACH, [make_draft(text) for text in texts[:70]])
    for text in texts[70:]:
        append(engine, text)

    def rank() -> list[list[tuple[int, float]]]:
        found = []
        for number in range(60):
            asked, together = words[number % 40] + " " + words[(7 * number) % 40], words[3] + " " + words[number % 11]
            query = Query(limit=(None, 3, 10)[number % 3])
            with engine.snapshot(FULL_REACH) as reader:
                matches = reader.match_text(asked, query, together=together if number % 2 else "")
                found.append([(match.record.seq, round(match.score, 9)) for match in matches])
        return found

    waiting = rank()
    index_all(engine)
    assert waiting == rank()
    engine.close()


def test_the_statements_of_a_search_see_one_moment(tmp_path: Path) -> None:
    engine, other = SqliteEngine(tmp_path / "store.db"), SqliteEngine(tmp_path / "store.db")
    append(engine, "a waiting word")
    with engine.snapshot(FULL_REACH, single_query=True) as reader:
        assert len(reader.match_text("word")) == 1
        append(other, "another word")
        assert len(reader.match_text("word")) == 1
    with engine.snapshot(FULL_REACH, single_query=True) as reader:
        assert len(reader.match_text("word")) == 2
    engine.close()
    other.close()


def test_conditional_appends_batches_and_keyed_appends_leave_their_texts_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path, near_duplicate_kinds=frozenset({"fact"}))

    def add_if_none(reader: Reader) -> list[ValidatedDraft]:
        return [] if reader.match_text("conditional") else [make_draft("a conditional word")]

    for _ in range(2):
        engine.append(FULL_REACH, add_if_none)
    engine.append(FULL_REACH, [make_draft("one word"), make_draft(""), make_draft("another word", "team")])
    for _ in range(2):
        engine.append(FULL_REACH, [make_draft("a keyed word")], key="k")
    engine.append(FULL_REACH, [encode_draft(Draft("fact", "a word of a fact"), "f")])
    assert count_unindexed(path) == 5
    with engine.snapshot(FULL_REACH) as reader:
        assert len(reader.match_text("word")) == 5
    engine.append(FULL_REACH, [make_draft(f"word {number}") for number in range(MAX_POSITIONS)])
    assert count_unindexed(path) == 0
    assert engine.verify().findings == ()
    engine.close()


def test_threads_that_share_a_commit_leave_their_texts_and_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)

    def write(worker: int) -> None:
        for number in range(20):
            append(engine, f"word of worker {worker} number {number}")

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count_unindexed(path) <= MAX_POSITIONS
    with engine.snapshot(FULL_REACH) as reader:
        assert len(reader.match_text("word")) == 160
    assert engine.verify().findings == ()
    engine.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["write", "batch", "if", "keyed", "change", "delete", "hide", "release", "search"]),
            st.integers(0, 6),
        ),
        max_size=25,
    )
)
def test_any_order_of_writes_leaves_the_index_that_a_rebuild_makes(
    steps: list[tuple[str, int]], tmp_path: Path
) -> None:
    path = tmp_path / f"{next(NUMBERS)}.db"
    with lukasa.open(path, embedder="hash") as memory:
        journal, engine = memory.journal, memory.journal._engine
        for step, number in steps:
            text, author = TEXTS[number], f"agent {number % 2}"
            if step == "write":
                journal.write("note", text, author=author, id=f"n{number}")
            elif step == "batch":
                journal.append([Draft("note", each, author=author) for each in TEXTS[:number]])
            elif step == "if":
                journal.append_if(partial(draft_twice, text))
            elif step == "keyed":
                journal.write("note", text, key=text)
            elif step == "change":
                journal.write("note", TEXTS[number - 1], id=f"n{number}")
            elif step == "delete":
                journal.delete(Key("shared", "note", f"n{number}"))
            elif step == "hide":
                journal.quarantine(author)
            elif step == "release":
                journal.release(author)
            else:
                journal.find(text)
        before = [search(engine), search(engine, every_version=True)]
        assert memory.verify().sound
        engine.reindex()
        assert [search(engine), search(engine, every_version=True)] == before
        assert memory.verify().sound


def test_few_short_texts_are_unindexed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)
    counts = []
    for number in range(3 * MAX_POSITIONS):
        append(engine, f"word and number {number}" if number % 3 else "")
        counts.append(count_unindexed(path))
    assert max(counts) <= MAX_POSITIONS
    assert counts.count(0) <= 9
    append(engine, "short")
    append(engine, "word " * MAX_CHARACTERS)
    assert count_unindexed(path) == 0
    append(engine, "short")
    assert count_unindexed(path) == 1
    with engine.snapshot(FULL_REACH) as reader:
        assert len(reader.match_text("word")) == 2 * MAX_POSITIONS + 1
    engine.close()


def test_a_change_of_an_unindexed_record_leaves_one_current_text(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)
    append(engine, "first word", id="a")
    append(engine, "second word", id="a")
    append(engine, "third", id="b")
    with engine.snapshot(FULL_REACH) as reader:
        assert [match.record.text for match in reader.match_text("word")] == ["second word"]
        assert len(reader.match_text("word", Query(every_version=True))) == 2
    assert engine.verify().findings == ()
    engine.reindex()
    assert engine.verify().findings == ()
    engine.close()


def test_an_erased_text_that_was_not_indexed_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)
    append(engine, "Zanzibarian secret", id="a")
    append(engine, "harmless", id="b")

    def receipt(_: EraseResult) -> ValidatedDraft:
        return make_draft("", "_lukasa", "receipt")

    engine.erase(lambda _: [Key("shared", "note", "a")], receipt)
    with engine.snapshot(FULL_REACH) as reader:
        assert reader.match_text("secret") == []
        assert len(reader.match_text("harmless")) == 1
    assert engine.verify().findings == ()
    engine.close()
    for file in tmp_path.iterdir():
        assert b"anzibarian" not in file.read_bytes().lower()


def test_a_damaged_unindexed_text_stops_no_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)
    append(engine, "a damaged text")
    append(engine, "another text")
    engine.close()
    database = apsw.Connection(str(path))
    database.execute("UPDATE log SET line = CAST(replace(CAST(line AS BLOB), 'damaged', x'ff') AS TEXT) WHERE seq = 1")
    database.close()
    engine = SqliteEngine(path)
    index_all(engine)
    append(engine, "a third text")
    with engine.snapshot(FULL_REACH) as reader:
        assert [match.record.seq for match in reader.match_text("text")] == [2, 3]
        assert reader.damaged == {1}
    engine.close()


@pytest.mark.parametrize(
    "damage", ["UPDATE words_data SET block = x'ffffffffffff' WHERE id = 10", "DELETE FROM words_data"]
)
def test_a_damaged_index_is_repaired_while_texts_wait(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.db"
    engine = SqliteEngine(path)
    engine.append(FULL_REACH, [make_draft("an indexed word"), make_draft("another word")])
    index_all(engine)
    append(engine, "a waiting word")
    engine.close()
    database = apsw.Connection(str(path))
    database.execute(damage)
    database.close()
    engine = SqliteEngine(path)
    assert not engine.verify().sound
    engine.reindex()
    assert engine.verify().sound
    with engine.snapshot(FULL_REACH) as reader:
        assert len(reader.match_text("word")) == 3
    engine.close()
