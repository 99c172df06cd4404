"""Database roles of agents: they recall, and with hand-written SQL they neither hide, forge nor stop what others do."""

import itertools
import json
import os
import time

import psycopg
import pytest

import lukasa
from lukasa import Draft, Key, Refused
from lukasa.errors import NotAllowed, StoreBusy
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from support.narrow import present
from support.postgres import shared_server

pytestmark = pytest.mark.requirement("LOG-4")
_NUMBERS = itertools.count(1)
_OPTIONS = "-c search_path=lukasa,public"


@pytest.fixture(scope="module")
def server():
    with shared_server() as server:
        yield server


class RoleStore:
    """A store whose owner granted scopes to two roles: mallory and bob may both write to ``shared``."""

    def __init__(self, server, name):
        self.server, self.name, self.url = server, name, server.url(name)
        self.roles = {agent: f"{agent}_{os.getpid()}_{next(_NUMBERS)}" for agent in ("mallory", "bob")}
        for role in self.roles.values():
            server.execute(f'CREATE ROLE "{role}" LOGIN')

    def grant(self):
        engine = PostgresEngine(self.url)
        for agent, role in self.roles.items():
            engine.grant(role, read=["shared", agent], write=["shared", agent], agent=agent)
        engine.close()

    def open(self, agent, **options):
        return lukasa.open(self.role_url(agent), agent=agent, embedder="hash", **options)

    def role_url(self, agent):
        return self.server.url(self.name, user=self.roles[agent])

    def by_hand(self, agent, **options):
        return psycopg.connect(self.role_url(agent), options=_OPTIONS, **options)


@pytest.fixture
def store(server):
    name = server.create()
    store = RoleStore(server, name)
    with lukasa.open(store.url, embedder="hash") as memory:
        memory.journal.append(
            [Draft("note", f"The heron fishes in pond {number}.", id=f"n-{number}") for number in range(5)]
        )
        memory.journal.write("note", "The owner's secret.", scope="owner")
        memory.recall("heron")
    store.grant()
    yield store
    server.drop(name)
    for role in store.roles.values():
        server.execute(f'DROP ROLE "{role}"')


def test_a_role_recalls_with_the_vectors_that_there_are(store):
    with store.open("bob") as memory:
        assert len(memory.recall("Where does the heron fish?").hits) == 5
        assert memory.journal.write("note", "The heron sleeps in the reeds.", scope="bob")
        answer = memory.recall("Where does the heron sleep?")
        assert len(answer.hits) == 6
        assert answer.unindexed == 1
        assert "role may not" in answer.note
        assert sum(hit.hit.candidate.cosine is not None for hit in answer.hits) == 5
    with lukasa.open(store.url) as memory:
        assert memory.recall("heron").unindexed == 0
        assert memory.verify().findings == ()


def test_an_agent_with_a_role_writes_all_sorts_of_records_and_the_store_stays_sound(store):
    with store.open("bob") as memory:
        journal = memory.journal
        first = journal.write("note", "one", id="x", scope="bob", labels=("tag=a", "tag=b", "tag=a")).record
        assert journal.write("note", "two", id="x", scope="bob", expected=1).record.version == 2
        links = (lukasa.Link("derived_from", first.key), lukasa.Link("about", Key("shared", "note", "n-1")))
        assert journal.append([Draft("note", f"many {number}", scope="bob", links=links) for number in range(60)])
        assert not journal.write("note", "lost race", id="x", scope="bob", expected=1)
        assert journal.delete(Key("bob", "note", "x"))
        assert journal.write("note", "nul \0 and \u2028", id="x", scope="bob").record.version == 4
        same = [journal.append([Draft("note", "once", scope="bob")], key="k") for _ in range(2)]
        assert [outcome.repeated for outcome in same] == [False, True]
        assert memory.remember("Deploys run on Tuesdays.", scope="bob")
        assert memory.remember("Deploys run on Tuesdays.", scope="bob").code
        assert journal.append_if(lambda reader: [Draft("note", str(len(reader.read())), scope="bob")] * 3)
        assert isinstance(journal.write("note", "closed", scope="mallory"), Refused)
        with pytest.raises(NotAllowed, match="owner"):
            list(journal.replay([]))
    with lukasa.open(store.url) as memory:
        assert memory.verify().findings == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET live = false WHERE scope = 'shared'",
        "INSERT INTO hidden SELECT scope, seq, 'x' FROM log WHERE scope = 'shared'",
        "DELETE FROM hidden",
        "UPDATE tally SET live = 0",
        "INSERT INTO tally SELECT scope, kind, 9999, 1, 1, 1, 1, 1, 0, 0 FROM tally",
        "DELETE FROM vector_1",
        "UPDATE vector_1 SET seq = seq + 1000000",
        "INSERT INTO vector_1 SELECT scope, 1000000, 0, vector FROM vector_1 LIMIT 1",
        "INSERT INTO log SELECT seq + 9223372036854770000, scope, kind, id, 7, author, at, moment, deleted, live FROM log",
        "INSERT INTO idempotency VALUES ('k', '', '{}', 0, 'postgres')",
        "SELECT nextval('position')",
        "LOCK TABLE write_lock_0 IN ROW SHARE MODE",
        "LOCK TABLE log IN ROW EXCLUSIVE MODE",
        "LOCK TABLE meta IN SHARE MODE",
        "LOCK TABLE model IN SHARE MODE",
        "SELECT begin_write(NULL, true, 1)",
        "SELECT insert_single('shared', 'note', 'x', '', 0, 0, 0, '', '', '{}', 0)",
        "SELECT add_to_tally('shared', 'note', 1, 1, 1, 1, 1, 1, 1)",
        "INSERT INTO role_write VALUES (current_user, 'infinity')",
    ],
)
def test_a_role_has_no_right_to_change_a_table_or_to_lock_one(store, statement):
    with store.by_hand("mallory") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def entry(**changes):
    fields = {"id": "n-1", "kind": "note", "origin": "manual", "scope": "shared", "author": "mallory", "text": "x"}
    times = {"created_at": "2026-02-03T12:00:00Z", "recorded_at": "2026-02-03T12:00:00.000001Z", "version": 2}
    return {name: value for name, value in (fields | times | changes).items() if value is not None}


def append_by_hand(connection, *lines):
    count = len(lines)
    values = (list(lines), [1] * count, ["x:1"] * count, [None] * count, ["{}"] * count)
    return connection.execute("SELECT append_entries(%s, %s::integer[], %s, %s::text[], %s)", values).fetchone()[0]


@pytest.mark.parametrize(
    "line",
    [
        entry(version=2**62), entry(version=1), entry(version=1.5), entry(version="2"), entry(scope="bob"),
        entry(scope="_lukasa"), entry(author="bob"), entry(author=None), entry(text=5), entry(body=[]), entry(body="x"),
        entry(recorded_at="now"), entry(recorded_at=None), entry(created_at="infinity"), entry(happened_at="2026-13-01T00:00:00Z"),
        entry(labels="x"), entry(labels=[1]), entry(links=[1]), entry(links=[{"id": "x"}]), entry(deleted="yes"), entry(id=""),
        entry(id=None), entry(kind=3), entry(more="x"), [], 5, None,
    ],
    ids=repr,
)  # fmt: skip
def test_an_entry_that_others_could_not_read_is_refused(store, line):
    with store.by_hand("mallory") as connection, pytest.raises(psycopg.Error):
        append_by_hand(connection, json.dumps(line))


def test_entries_that_are_no_json_or_occur_twice_are_refused(store):
    twice = json.dumps(entry())[:-1] + ', "text": "y"}'
    for lines in (["{"], [twice], ["[" * 100_000], [json.dumps(entry())] * 2):
        with store.by_hand("mallory") as connection, pytest.raises(psycopg.Error):
            append_by_hand(connection, *lines)
    with store.by_hand("mallory") as connection:
        assert append_by_hand(connection, json.dumps(entry()), json.dumps(entry(version=3)))
    with lukasa.open(store.url) as memory:
        assert present(memory.journal.get(Key("shared", "note", "n-1"))).version == 3
        assert not [finding for finding in memory.verify().findings if not finding.repairable]


def test_a_role_in_quarantine_stays_hidden_whatever_it_writes(store):
    with lukasa.open(store.url) as memory, store.open("mallory") as mallory:
        told = mallory.journal.write("note", "Mallory's lie.", id="lie", scope="shared").record
        memory.journal.quarantine("mallory")
        assert mallory.journal.write("note", "Mallory's second lie.", id="second", scope="shared")
        assert mallory.journal.write("note", "Mallory's third lie.", id="n-2", scope="shared").code == "proposed"
        link = (lukasa.Link("derived_from", told.key),)
        with store.by_hand("mallory") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            append_by_hand(connection, json.dumps(entry(author="bob", id="x", version=1)))
        with store.open("bob") as bob:
            assert bob.journal.write("note", "drawn from a lie", id="drawn", scope="shared", links=link)
            texts = [record.text for record in bob.journal.read(Query(kinds=("note",), scopes=("shared",)))]
            assert texts == [f"The heron fishes in pond {number}." for number in range(5)]
        assert memory.verify().findings == ()
        memory.journal.release("mallory")
        assert present(memory.journal.get(Key("shared", "note", "second"))).text == "Mallory's second lie."
        assert memory.verify().findings == ()


def test_an_idempotency_key_of_another_role_stays_free(store):
    for agent in ("mallory", "bob"):
        with store.open(agent, scopes=None) as memory:
            assert not memory.journal.append([Draft("note", agent, scope=agent)], key="k").repeated
    with store.by_hand("mallory") as connection, store.open("bob") as bob:
        hashes = connection.execute("SELECT key FROM idempotency").fetchall()
        assert len(hashes) == 1
        assert bob.journal.append([Draft("note", "bob", scope="bob")], key="k").repeated


def hold_everything(store, connection):
    """Take advisory locks as a hostile role: those of all scopes, of the store, and of positions, 10,000 in all."""
    connection.execute("SELECT pg_advisory_lock(19531, 0), pg_advisory_lock(19531, 1), pg_advisory_lock(19531, 2)")
    for scope in ("shared", "bob", "owner", "mallory", "_lukasa"):
        connection.execute("SELECT pg_advisory_lock(19532, hashtext(%s))", (scope,))
    connection.execute("SELECT pg_advisory_lock((19531::bigint << 48) | n) FROM generate_series(0, 3000) AS n")
    connection.execute("SELECT pg_advisory_lock((76::bigint << 56) | n) FROM generate_series(0, 3000) AS n")
    connection.execute(
        "SELECT pg_advisory_lock((76::bigint << 56) | (n << 40) | pg_sequence_last_value('position')) FROM generate_series(0, 3990) AS n"
    )


def test_a_role_that_holds_every_lock_it_can_neither_stops_nor_blinds_the_others(store):
    with store.by_hand("mallory", autocommit=True) as locks, store.by_hand("mallory") as writing:
        hold_everything(store, locks)
        # Its own entry of an open transaction, in the scope that all share, and every row it may insert.
        append_by_hand(writing, json.dumps(entry(id="new", version=1)))
        writing.execute("SET idle_in_transaction_session_timeout = 0")
        writing.execute("INSERT INTO idempotency (key, fingerprint, seqs, at) VALUES ('x', '', '{}', 0)")
        writing.execute("SELECT begin_role_write(NULL, true)")
        with lukasa.open(store.url, timeout=10, embedder="hash") as owner, store.open("bob", timeout=10) as bob:
            for number, memory in enumerate((owner, bob)):
                began = time.monotonic()
                assert memory.journal.write("note", "plain", id=f"plain-{number}", scope="shared")
                assert memory.journal.append([Draft("note", "a"), Draft("note", "b")])
                assert memory.remember(f"Deploys of team {number} run on day {number}.")
                assert memory.journal.append_if(lambda reader: [Draft("note", str(reader.tip()), scope="shared")])
                assert memory.journal.write("note", "changed", id=f"own-{number}", scope="shared")
                assert memory.journal.write("note", "changed", id=f"own-{number}", scope="shared", expected=1)
                assert time.monotonic() - began < 9
                began = time.monotonic()
                assert memory.journal.tip() > 10
                seen = list(memory.journal.read(Query(after=0)))
                assert {"plain", "changed"} <= {record.text for record in seen}
                assert len(memory.recall("Where does the heron fish?").hits) > 3
                assert memory.journal.find("heron")
                assert time.monotonic() - began < 6, "a reader waits for a role once"
                began = time.monotonic()
                assert list(memory.journal.read(Query(after=0)))[-1].seq == memory.journal.tip()
                assert time.monotonic() - began < 1
            began = time.monotonic()
            assert owner.journal.write("note", "a scope without roles", scope="owner")
            assert owner.journal.append_if(lambda reader: [Draft("note", str(reader.tip()), scope="owner")])
            began = time.monotonic()
            owner.journal.quarantine("nobody")
            owner.journal.erase(Key("owner", "note", "x"))
            assert time.monotonic() - began < 9
        with pytest.raises(psycopg.errors.SerializationFailure, match="too long"):
            writing.commit()  # readers have gone on without it
    with lukasa.open(store.url) as owner:
        assert owner.journal.get(Key("shared", "note", "new")) is None
        assert owner.verify().findings == ()


def test_a_slow_but_honest_role_is_waited_for_and_misses_nobody(store):
    with lukasa.open(store.url) as owner:
        before = owner.journal.tip()
        with store.by_hand("bob") as slow:
            append_by_hand(slow, json.dumps(entry(id="slow", author="bob", version=1)))
            owner.journal.write("note", "later", scope="owner")
            slow.execute("SELECT pg_sleep(0.5)")
            slow.commit()
        assert next(record.id for record in owner.journal.read(Query(after=before))) == "slow"


def test_a_role_that_forgets_to_commit_holds_up_a_writer_of_its_record_for_a_moment(store):
    with store.by_hand("mallory") as forgetful, lukasa.open(store.url) as memory:
        append_by_hand(forgetful, json.dumps(entry()))
        began = time.monotonic()
        assert memory.journal.write("note", "The heron flies.", id="n-1").unwrap().version == 2
        assert time.monotonic() - began < 15
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            forgetful.execute("SELECT 1")
        assert memory.verify().findings == ()


def test_a_role_that_will_not_commit_is_named_with_what_ends_it(store):
    with store.by_hand("mallory") as hostile, lukasa.open(store.url, timeout=4.0) as memory:
        append_by_hand(hostile, json.dumps(entry()))
        hostile.execute("SET idle_in_transaction_session_timeout = 0")
        with pytest.raises(StoreBusy) as caught:
            memory.journal.write("note", "The heron flies.", id="n-1")
        hint = caught.value.hint or ""
        assert store.roles["mallory"] in hint
        assert memory.journal.write("note", "Others are not kept waiting.", id="n-9")
        statement = hint.partition("End it: ")[2]
        assert statement == f"SELECT pg_terminate_backend({hostile.info.backend_pid});"
        store.server.execute(statement)
        assert memory.journal.write("note", "The heron flies.", id="n-1").unwrap().version == 2
        with pytest.raises(psycopg.Error):
            hostile.execute("SELECT 1")


def test_a_role_finds_near_duplicates_in_its_scopes_and_no_key_of_others(store):
    facts = [f"Heron number {number} nests by the {number}th lock of the northern canal" for number in range(140)]
    with lukasa.open(store.url, embedder="hash") as memory:
        memory.journal.append([Draft("memory", fact, scope=scope) for fact in facts for scope in ("shared", "owner")])
    with store.open("bob") as memory:
        assert memory.vault.add_memory(facts[7] + ".").code == "duplicate"
        assert memory.vault.add_memory("The otter was seen at the mill in the evening.")
        assert memory.vault.add_memory("The otter was seen at the mill in the evening!").code == "duplicate"
    with store.by_hand("bob") as database:
        assert {scope for (scope,) in database.execute("SELECT DISTINCT scope FROM duplicate_key")} == {"shared"}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.execute("DELETE FROM duplicate_key")
