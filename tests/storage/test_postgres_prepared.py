"""Single inserts run without a cursor: what the server gets is what a cursor would have sent."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from struct import pack

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lukasa.core.outcome import Accepted
from lukasa.core.scope import FULL_REACH
from lukasa.errors import InvalidInput
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.append import InsertSingle
from lukasa.storage.postgres.batch import format_integers, format_texts
from lukasa.storage.postgres.connection import PostgresClient
from lukasa.storage.postgres.group_commit import InsertGroup
from lukasa.storage.postgres.prepared import decode_bigints, encode_array, execute_prepared
from lukasa.testing.contract.base import make_draft, quarantine, release

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
OPTIONS = "-c search_path=lukasa,public"
COLUMNS = """scope, kind, version, author, at, moment, deleted, live, tokens, labels, group_label, pair_keys, words::text,
    digest = sha256(convert_to(line, 'UTF8'))"""

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
drafts = st.lists(
    st.tuples(
        texts,
        st.sampled_from(["note", "event"]),
        st.sampled_from(["", "ada", "Äda 😀"]),
        st.sampled_from([None, NOW - timedelta(days=9_999)]),
    ),
    min_size=1,
    max_size=9,
)


@pytest.fixture
def engine(fresh_store):
    with closing(PostgresEngine(fresh_store())) as engine:
        yield engine


@pytest.fixture
def client(engine):
    with closing(PostgresClient(engine.url, timeout=20, size=2)) as client:
        yield client


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | texts), st.lists(st.none() | st.binary()), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_an_array_arrives_as_it_was(client, strings, chunks, numbers):
    cases = [
        ("text", 25, strings, [None if value is None else value.encode() for value in strings]),
        ("bytea", 17, chunks, chunks),
        ("bigint", 20, numbers, [pack(">q", value) for value in numbers]),
    ]
    with client.borrow_connection() as database:
        for name, number, values, encoded in cases:
            result = database.pgconn.exec_params(
                f"SELECT $1::{name}[] IS NOT DISTINCT FROM $2::{name}[], $1::{name}[]".encode(),
                [encode_array(number, encoded), database.execute(f"SELECT %s::{name}[]::text", (values,)).fetchone()[0].encode()],
                None, [1, 0], 1,
            )  # fmt: skip
            assert result.get_value(0, 0) == b"\1"
            if name == "bigint" and values:
                assert list(decode_bigints(result.get_value(0, 1))) == values


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drafts)
def test_a_group_writes_what_single_inserts_write(engine, client, given_drafts):
    def inserts(prefix):
        return [
            InsertSingle(
                make_draft(text, kind=kind, author=author, generated_id=f"{prefix}{n}", happened_at=happened_at), NOW
            )
            for n, (text, kind, author, happened_at) in enumerate(given_drafts)
        ]

    def read_rows(prefix):
        with psycopg.connect(engine.url, options=OPTIONS) as database:
            return database.execute(
                f"SELECT {COLUMNS} FROM log WHERE id LIKE %s ORDER BY seq", (prefix + "%",)
            ).fetchall()

    with psycopg.connect(engine.url, options=OPTIONS) as database:
        database.execute("TRUNCATE log, tally")
    outcomes = [client.write(insert) for insert in inserts("single ")]
    group = InsertGroup(inserts("group "))
    client.write(group)
    assert [outcome.record.text for outcome in outcomes] == [outcome.unwrap().text for outcome in group.outcomes]
    rows = read_rows("single ")
    assert len(rows) == len(given_drafts)
    assert read_rows("group ") == rows
    assert engine.verify().findings == ()


def test_an_id_that_the_server_cannot_hold_is_refused_and_not_shortened(engine):
    with pytest.raises(InvalidInput):
        engine.append(FULL_REACH, [make_draft("text", generated_id="a\0b")])
    assert isinstance(engine.append(FULL_REACH, [make_draft("text", generated_id="b")]), Accepted)
    assert [row.versions for row in engine_tally(engine)] == [1]


def engine_tally(engine):
    with engine.snapshot(FULL_REACH) as reader:
        return reader.tally()


def test_a_statement_is_prepared_once_for_each_connection(engine):
    with psycopg.connect(engine.url, autocommit=True, options=OPTIONS) as database:
        for number in range(3):
            insert = InsertSingle(make_draft("text", generated_id=f"g{number}"), NOW)
            assert execute_prepared(database, "insert_single", insert.parameters)
        names = database.execute("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%insert_single%'")
        assert names.fetchall() == [("insert_single",)]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(texts), st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_arrays_are_formatted_as_the_server_reads_them(client, some_texts, integers):
    given_texts = [*some_texts, "NULL", 'a"b\\c', "{,}", "", " "]
    with client.borrow_connection() as database:
        values = (format_texts(given_texts), format_texts([]), format_integers(integers))
        found = database.execute("SELECT %s::text[], %s::text[], %s::integer[]", values).fetchone()
    assert found == (given_texts, [], integers)


def test_a_single_insert_looks_for_quarantines_and_roles_once_there_may_be_any(engine):
    def insert(id):
        with psycopg.connect(engine.url, autocommit=True, options=OPTIONS) as database:
            ((noted,),) = database.execute("SELECT pg_sequence_last_value('exception') IS NOT NULL").fetchall()
            parameters = InsertSingle(make_draft("text", generated_id=id), NOW).parameters
            return noted, execute_prepared(database, "insert_single", parameters) is not None

    assert insert("before") == (False, True)
    quarantine(engine, "mallory")
    assert insert("during") == (True, False)
    release(engine, "mallory")
    assert insert("after") == (True, True)
    assert engine.verify().findings == ()
