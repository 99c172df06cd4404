"""The journal: writing, time travel, undo, quarantine, erasure."""

from datetime import UTC, datetime, timedelta

import pytest

import lukasa
from lukasa import Accepted, Conflict, Draft, Key, Link, Refused
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput, NotAllowed
from lukasa.storage.engine import ERASURE, Query


class Clock:
    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        self.time += timedelta(seconds=1)
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def memory(tmp_path, clock):
    with lukasa.open(tmp_path / "store.db", clock=clock) as memory:
        yield memory


@pytest.fixture
def journal(memory):
    yield memory.journal
    assert memory.verify().findings == ()


def texts(records):
    return [record.text for record in records]


def derived(*keys):
    return tuple(Link("derived_from", key) for key in keys)


@pytest.mark.requirement("LOG-1")
def test_an_update_appends_a_version_and_the_newest_is_read(journal):
    first = journal.write("note", "draft", {"n": 1}, author="orion", origin="chat").record
    second = journal.write("note", "final", {"n": 2}, id=first.id, author="elysia").record
    assert (first.version, second.version) == (1, 2)
    assert journal.get(first.key).text == "final"
    assert second.created_at == first.created_at < second.recorded_at
    assert [(record.version, record.author) for record in journal.history(first.key)] == [(1, "orion"), (2, "elysia")]


def test_a_lone_draft_is_a_batch_of_one(journal):
    assert [record.text for record in journal.append(Draft("note", "alone")).records] == ["alone"]


@pytest.mark.requirement("LOG-1")
def test_a_deleted_record_is_gone_but_its_history_is_not(journal):
    key = journal.write("note", "soon gone", labels=("tag=x",)).record.key
    assert isinstance(journal.delete(key), Accepted)
    assert journal.get(key) is None
    assert list(journal.read(Query(kinds=("note",)))) == []
    assert [record.deleted for record in journal.history(key)] == [False, True]
    assert journal.delete(key) == Refused("not_found", f"There is no record {key}.")


@pytest.mark.requirement("LOG-2")
def test_the_store_can_be_read_as_of_a_time_a_position_or_a_version(journal):
    key = journal.write("note", "one").record.key
    then = journal.get(key)
    journal.write("note", "two", id=key.id)
    journal.write("note", "other")
    assert journal.get(key, as_of=then.recorded_at).text == "one"
    assert journal.get(key, as_of=then.seq).text == "one"
    assert journal.get(key, version=1).text == "one"
    assert journal.get(key, as_of=then.recorded_at - timedelta(seconds=1)) is None
    assert texts(journal.read(Query(as_of=then.seq))) == ["one"]
    assert [match.record.text for match in journal.find("one", Query(as_of=then.recorded_at))] == ["one"]
    assert journal.find("one") == []


@pytest.mark.requirement("LOG-3")
def test_a_stale_version_is_a_conflict_and_writes_nothing(journal):
    key = journal.write("note", "one").record.key
    journal.write("note", "two", id=key.id, expected=1)
    lost = journal.append([Draft("note", "bystander"), Draft("note", "three", id=key.id, expected=1)])
    assert lost == Conflict(key, 1, 2)
    assert "is at version 2, expected 1" in lost.reason
    assert texts(journal.read()) == ["two"]


@pytest.mark.requirement("LOG-3")
def test_a_repeated_idempotency_key_answers_as_the_first_time(journal):
    first = journal.write("note", "once", key="k1")
    again = journal.write("note", "once", key="k1")
    assert (again.repeated, again.record) == (True, first.record)
    assert journal.write("note", "something else", key="k1").code == "key_reused"
    assert texts(journal.read()) == ["once"]


@pytest.mark.requirement("LOG-3")
def test_append_if_reads_and_writes_in_one_step(journal):
    def once(reader):
        known = reader.match_text("unique")
        return Refused("duplicate", "It is there.") if known else [Draft("note", "unique")]

    assert journal.append_if(once)
    assert journal.append_if(once) == Refused("duplicate", "It is there.")


@pytest.mark.requirement("LOG-4")
def test_an_agent_reaches_the_shared_scope_and_its_own_and_nothing_else(tmp_path):
    with (
        lukasa.open(tmp_path / "s.db", agent="orion") as orion,
        lukasa.open(tmp_path / "s.db", agent="elysia") as elysia,
    ):
        secret = orion.journal.write("note", "the secret plan", scope="orion").unwrap()
        orion.journal.write("note", "common ground")
        assert texts(orion.journal.read()) == ["the secret plan", "common ground"]
        assert texts(elysia.journal.read()) == ["common ground"]
        assert elysia.journal.get(secret.key) is None
        assert elysia.journal.find("secret") == []
        refused = elysia.journal.write("note", "intrusion", scope="orion")
        assert refused.code == "scope_closed"
        assert {row.scope for row in elysia.journal.tally()} == {"shared"}


@pytest.mark.requirement("LOG-5")
def test_compaction_drops_superseded_versions_and_nothing_else(journal):
    key = journal.write("note", "one").record.key
    journal.write("note", "two", id=key.id)
    gone = journal.write("note", "gone").record.key
    journal.delete(gone)
    assert journal.compact().versions == 2
    assert texts(journal.history(key)) == ["two"]
    assert [record.deleted for record in journal.history(gone)] == [True]
    assert journal.compact().versions == 0


@pytest.mark.requirement("LOG-5")
def test_compaction_before_a_time_keeps_what_was_superseded_later(journal, clock):
    key = journal.write("note", "one").record.key
    journal.write("note", "two", id=key.id)
    between = clock.now()
    journal.write("note", "three", id=key.id)
    assert journal.compact(before=between).versions == 1
    assert texts(journal.history(key)) == ["two", "three"]


@pytest.mark.requirement("LOG-5")
def test_an_erased_record_leaves_a_receipt_without_content(journal):
    source = journal.write("note", "patient zero has the flu", author="nurse").record.key
    made = journal.write("fact", "somebody has the flu", links=derived(source)).record.key
    other = journal.write("note", "the weather is fine").record.key
    assert set(journal.preview_erase(source)) == {source, made}
    receipt = journal.erase(source, reason="asked by letter")
    assert (receipt.records, receipt.versions, receipt.by_kind) == (2, 2, {"note": 1, "fact": 1})
    assert journal.history(source) == journal.history(made) == []
    assert journal.get(other).text == "the weather is fine"
    kept = journal.get(Key(SYSTEM, ERASURE, receipt.id))
    assert kept.body["reason"] == "asked by letter"
    assert "flu" not in str(kept)
    assert source.id not in str(kept)


@pytest.mark.requirement("LOG-5")
def test_a_subject_is_erased_wherever_it_is_named_or_wrote(journal):
    journal.write("note", "met Alice Smith at noon")
    journal.write("note", "unrelated", {"guest": {"name": "alice smith"}})
    journal.write("note", "mine", author="Alice Smith")
    journal.write("note", "alice alone and smith alone")
    journal.write("note", '100%_sure\\about"quotes')
    assert journal.erase(subject="Alice Smith").records == 3
    assert journal.erase(subject='%_sure\\about"quotes').records == 1
    assert texts(journal.read(Query(kinds=("note",)))) == ["alice alone and smith alone"]


@pytest.mark.requirement("LOG-5")
def test_only_the_owner_erases_compacts_and_quarantines(tmp_path):
    with lukasa.open(tmp_path / "s.db", agent="orion") as memory:
        key = memory.journal.write("note", "x").unwrap().key
        with pytest.raises(NotAllowed):
            memory.journal.erase(key)
        with pytest.raises(NotAllowed):
            memory.journal.compact()
        assert memory.journal.quarantine("elysia").code == "not_allowed"


@pytest.mark.requirement("LOG-6")
def test_undo_restores_the_versions_before_an_author(journal, clock):
    ours = journal.write("note", "ours", author="orion").record.key
    since = clock.now()
    journal.write("note", "defaced", id=ours.id, author="mallory")
    junk = journal.write("note", "junk", author="mallory").record.key
    made = journal.write("fact", "junk says so", author="orion", links=derived(junk)).record.key
    done = journal.undo(author="mallory", since=since)
    assert set(done.reverted) == {ours, junk, made}
    assert journal.get(ours).text == "ours"
    assert journal.get(junk) is journal.get(made) is None
    assert journal.undo(author="mallory", since=since).reverted == ()


@pytest.mark.requirement("LOG-6")
def test_an_undo_can_be_undone(journal):
    key = journal.write("note", "one", author="orion").record.key
    journal.write("note", "two", id=key.id, author="mallory")
    done = journal.undo(author="mallory")
    assert journal.get(key).text == "one"
    journal.undo(label=done.label)
    assert journal.get(key).text == "two"


@pytest.mark.requirement("LOG-6")
def test_undo_keeps_later_writes_of_other_authors(journal):
    key = journal.write("note", "bad", author="mallory").record.key
    journal.write("note", "corrected", id=key.id, author="orion")
    done = journal.undo(author="mallory")
    assert (done.reverted, done.kept) == ((), (key,))
    assert journal.get(key).text == "corrected"


def test_undo_without_a_selection_is_refused(journal):
    with pytest.raises(InvalidInput):
        journal.undo()


@pytest.mark.requirement("LOG-6")
def test_quarantine_hides_an_author_and_its_derivations_until_released(journal):
    good = journal.write("note", "good", author="orion").record.key
    journal.write("note", "spoiled", id=good.id, author="mallory")
    bad = journal.write("note", "poison", author="mallory").record.key
    made = journal.write("fact", "poison is food", author="orion", links=derived(bad)).record.key
    before = {key: journal.get(key) for key in (good, bad, made)}
    journal.quarantine("mallory", reason="found out")
    assert journal.get(good).text == "good"
    assert journal.get(bad) is journal.get(made) is None
    assert journal.find("poison") == []
    assert [record.body["reason"] for record in journal.quarantined().values()] == ["found out"]
    hidden = journal.write("note", "more poison", author="mallory")
    assert isinstance(hidden, Accepted)
    assert journal.get(hidden.record.key) is None
    journal.release("mallory")
    assert {key: journal.get(key) for key in (good, bad, made)} == before
    assert journal.get(hidden.record.key).text == "more poison"
    assert journal.release("mallory").code == "not_found"


@pytest.mark.requirement("LOG-6")
def test_quarantine_since_a_time_spares_what_came_before(journal, clock):
    early = journal.write("note", "early", author="turncoat").record.key
    since = clock.now()
    late = journal.write("note", "late", author="turncoat").record.key
    journal.quarantine("turncoat", since=since)
    assert journal.get(early).text == "early"
    assert journal.get(late) is None


@pytest.mark.requirement("RCL-5")
def test_reindex_rebuilds_everything_derived(journal):
    key = journal.write(
        "note", "alpha", labels=("tag=x",), links=(Link("about", Key("shared", "note", "y")),)
    ).record.key
    journal.write("note", "beta", id=key.id, labels=("tag=x",))
    journal.write("note", "gamma", author="mallory")
    journal.quarantine("mallory")
    before = (journal.tally(), texts(journal.read()), journal.find("beta"), journal.neighbours(key))
    journal.reindex()
    assert (journal.tally(), texts(journal.read()), journal.find("beta"), journal.neighbours(key)) == before


def test_the_reader_of_a_conditional_append_knows_the_newest_position(journal):
    seen = []

    def note_position(reader):
        seen.append((reader.position, reader.tip()))
        return [Draft("note", str(len(seen)))]

    for _ in range(3):
        record = journal.append_if(note_position).record
        assert seen[-1] == (record.seq - 1, record.seq - 1)
        journal.erase(record.key)  # the receipt of an erasure is an entry too
    journal.quarantine("mallory")
    journal.append_if(note_position)
    assert seen[-1][0] is None  # what is added may be hidden
    with journal.snapshot() as reader:
        assert reader.position is None


def test_reading_goes_page_by_page_in_both_directions(journal):
    journal.append([Draft("note", str(n)) for n in range(1203)])
    assert texts(journal.read()) == [str(n) for n in range(1203)]
    assert texts(journal.read(Query(newest_first=True, limit=1100))) == [str(n) for n in range(1202, 102, -1)]
    assert texts(journal.read(Query(limit=500))) == [str(n) for n in range(500)]
    assert texts(journal.read(Query(limit=0))) == []
