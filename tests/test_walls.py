"""Non-interference: what an agent is answered does not depend on what a scope outside its reach holds.

Excluded by name, and documented in docs/reference/python.md:

- positions (``record.seq``, ``tip``), which count the writes of the whole store;
- the limit of the vault, which counts all scopes, and ``describe``, which tells sizes.
"""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa import Draft, Key, Link
from lukasa.errors import LukasaError
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock
from support.narrow import present
from support.postgres import shared_server

pytestmark = pytest.mark.requirement("LOG-4", "RCL-5")
WORDS = [
    "heron",
    "pond",
    "river",
    "fish",
    "deploy",
    "Tuesday",
    "reed",
    "ada",
    "bob",
    "Berlin",
    "4711",
    "multi-agent",
    "鷺が池",
]
OWN_NOTES = [
    "The heron fishes in the pond.",
    "Deploys run on Tuesday.",
    "The river is deep.",
    "A heron in a reed.",
    "4711 fish",
    "A multi-agent river, 池の鷺.",
]
QUESTIONS = ["Where does the heron fish?", "When do deploys run?", "heron", "Berlin", "multi-agent 池", ""]

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
foreign_writes = st.lists(
    st.tuples(
        st.integers(0, len(OWN_NOTES)),  # before which of the agent's own writes
        st.sampled_from(["note", "memory_note", "turn", "note_0"]),
        texts,
        st.sampled_from(["n-0", "n-1", "x", ""]),
        st.sampled_from(["", "ada", "bob"]),
        st.lists(st.sampled_from(["session=s", "tag=a"]), max_size=2, unique=True),
        st.booleans(),
    ),
    max_size=14,
)


@pytest.fixture(scope="module")
def server():
    with shared_server() as server:
        yield server


def answers(url, writes):
    """Build a store from the agent's writes and those of another scope; return everything that the agent is told."""
    clock = FrozenClock(datetime(2026, 2, 3, tzinfo=UTC))
    numbers = itertools.count()
    with lukasa.open(
        url, clock=clock, new_id=lambda: f"id-{next(numbers)}", embedder="hash", rng=random.Random(1)
    ) as owner:
        ada = owner.as_agent("ada", scopes=["shared", "ada"])
        for number, text in enumerate([*OWN_NOTES, None]):
            clock.set(datetime(2026, 2, 3, tzinfo=UTC) + timedelta(hours=number))
            for _, kind, other, id, author, labels, is_linked in (write for write in writes if write[0] == number):
                links = (Link("derived_from", Key("ada", "note", "n-0")),) if is_linked else ()
                owner.journal.append(
                    [Draft(kind, other, id=id, scope="bob", author=author, labels=tuple(labels), links=links)],
                    key=other,
                )
                if kind == "turn":
                    owner.journal.delete(Key("bob", kind, id))
            if text is not None:
                label = ("session=s",) if number % 2 else ()
                ada.journal.append(
                    [Draft("note", text, id=f"n-{number}", scope="ada" if number % 2 else "shared", labels=label)],
                    key=text,
                )
        journal = ada.journal

        def describe(records):
            return [(str(record.key), record.version, record.text, record.recorded_at) for record in records]

        told: dict[object, object] = {
            "records": describe(journal.read()),
            "newest": describe(journal.read(Query(newest_first=True, limit=3))),
            "labelled": describe(journal.read(Query(labels=("session=s",)))),
            "mentions": describe(journal.read(Query(mentions="bob"))),
            "all": describe(journal.read(Query(every_version=True, hidden=True))),
            "counts": journal.tally(),
            "history": [describe(journal.history(Key(scope, "note", "n-0"))) for scope in ("ada", "shared", "bob")],
            "links": journal.neighbours(Key("ada", "note", "n-0")),
            "closed": [journal.get(Key("bob", "note", id)) for id in ("n-0", "x")],
            "refused": attempt(lambda: journal.write("note", "x", scope="bob")),
            "repeated": [
                present(journal.append([Draft("note", "?", scope="ada")], key=text)).repeated for text in OWN_NOTES
            ],
            "deleted": attempt(lambda: journal.delete(Key("bob", "note", "n-0"))),
            "owner only": [attempt(verb) for verb in (ada.compact, lambda: journal.erase(Key("bob", "note", "x")))],
        }
        with journal.snapshot() as reader:
            told["positions"] = describe(reader.records(range(200)))  # type: ignore[attr-defined]  # every engine has it
            told["frequency"] = reader.frequency(["heron", "pond", "bob"])
            told["authors"] = reader.authors(100)
            told["missing"] = reader.count_without_vectors("none")
        for question in QUESTIONS:
            found = journal.find(question)
            told["find", question] = [(str(match.record.key), repr(match.score)) for match in found]
            found = journal.find(question, Query(kinds=("note",), every_version=True, limit=3))
            told["find versions", question] = [(str(match.record.key), repr(match.score)) for match in found]
            for patience in (0, 1):
                answer = ada.recall(question, 3, patience=patience)
                told["recall", question, patience] = (
                    [(str(hit.record.key), round(hit.score, 9), hit.why, hit.trust) for hit in answer.hits],
                    [(str(hit.record.key), round(hit.score, 9)) for hit in answer.dropped],
                    answer.unindexed, answer.note, answer.left_out,
                )  # fmt: skip
        told["remember"] = attempt(lambda: ada.remember("Ada prefers tea.", scope="ada"))
        told["remember again"] = attempt(lambda: ada.remember("Ada prefers tea.", scope="ada"))
        return told


def attempt(deed):
    try:
        outcome = deed()
    except LukasaError as error:
        return type(error).__name__, str(error)
    return type(outcome).__name__, getattr(outcome, "code", ""), getattr(outcome, "reason", "")


ALONE: dict[str, object] = {}


@given(writes=foreign_writes)
@settings(max_examples=15)
def test_an_agent_is_answered_the_same_whatever_another_scope_holds(writes):
    alone = ALONE.setdefault("memory", answers("memory:", []))
    assert answers("memory:", writes) == alone


@given(writes=foreign_writes)
@settings(max_examples=5)
def test_an_agent_is_answered_the_same_on_postgresql(server, writes):
    with server.database() as url:
        alone = ALONE.get("postgres") or answers(url, [])
    ALONE["postgres"] = alone
    with server.database() as url:
        assert answers(url, writes) == alone
