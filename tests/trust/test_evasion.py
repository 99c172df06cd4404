"""An agent tries to evade trust and quarantine: with other names, through imports and through derived records."""

from io import BytesIO

import pytest

from lukasa import Key, Link
from lukasa.testing import seeded_ids
from lukasa.transfer.jsonl import export_log, import_log


@pytest.fixture
def stores(location, open_store, essay):
    """Return the owner's store and that of an agent with no trust, beside an agent with full trust."""
    owner = open_store(location)
    mallory = open_store(location, agent="mallory", new_id=seeded_ids(7))
    for number in range(5):
        assert owner.trust.log_dissent("good", essay(number), impact=True)
        owner.trust.revert(owner.trust.log_override("mallory", "x", "y").records[0].id, by="ada")
    assert (owner.trust.score("good").trust, owner.trust.score("mallory").trust) == (1.0, 0.0)
    return owner, mallory


def exported(memory):
    """Return the log of a store as a file to import."""
    file = BytesIO()
    export_log(memory.journal, file)
    file.seek(0)
    return file


def trust_of(memory, question="When is the heron release?"):
    return {hit.record.id: hit.trust for hit in memory.recall(question, 10).hits}


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_a_record_in_another_name_has_the_trust_of_the_agent_that_wrote_it(stores):
    owner, mallory = stores
    assert mallory.journal.write("note", "The heron release is on Monday", id="forged", author="good")
    labels = ("writer=good",)
    assert mallory.journal.write("note", "The heron release is in May", id="signed", author="good", labels=labels)
    assert owner.journal.write("note", "The heron release is on Friday", id="true", author="good")
    assert trust_of(owner) == {"forged": 0.0, "signed": 0.0, "true": 1.0}
    assert owner.recall("When is the heron release?", 1).records[0].id == "true"
    assert {record.id: record.writer for record in owner.recall("heron release", 9).records}["signed"] == "mallory"


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_a_quarantine_hides_what_an_agent_wrote_before_and_after_in_any_name(stores):
    owner, mallory = stores
    assert mallory.journal.write("note", "The heron release is on Monday", id="before", author="good")
    assert owner.trust.quarantine("mallory")
    assert mallory.journal.write("note", "The heron release is on Sunday", id="after", author="good")
    assert mallory.context.append("chat", "user", "The heron release is in May", speaker="anna")
    assert owner.journal.write("note", "The heron release is on Friday", id="true", author="good")
    assert trust_of(owner) == {"true": 1.0}
    assert owner.journal.verify().sound
    owner.journal.reindex()
    assert trust_of(owner) == {"true": 1.0}
    assert owner.journal.verify().sound
    assert owner.trust.release("mallory")
    assert trust_of(owner).keys() > {"before", "after", "true"}


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_an_update_of_anothers_record_is_its_writers_and_a_quarantine_takes_it_back(stores):
    owner, mallory = stores
    assert owner.journal.write("note", "The heron release is on Friday", id="note-1", author="good")
    assert mallory.journal.write("note", "The heron release is on Monday", id="note-1", author="good")
    assert trust_of(owner) == {"note-1": 0.0}
    assert owner.trust.quarantine("mallory")
    (hit,) = owner.recall("When is the heron release?", 1).hits
    assert (hit.record.text, hit.trust) == ("The heron release is on Friday", 1.0)


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_an_agent_imports_nothing_that_others_wrote(stores, open_store):
    owner, mallory = stores
    elsewhere = open_store()
    for author in ("good", ""):
        assert elsewhere.journal.write("note", "The heron release is on Monday", author=author)
    refused = import_log(mallory.journal, exported(elsewhere)).refused
    assert [reason for _, reason in refused] == [
        "'good' wrote it; only the owner imports what others wrote",
        "the owner wrote it; only the owner imports what others wrote",
    ]
    assert trust_of(owner) == {}
    own = open_store(agent="mallory", new_id=seeded_ids(9))
    assert own.journal.write("note", "The heron release is on Sunday", id="own")
    assert import_log(mallory.journal, exported(own)).added == 1
    assert trust_of(owner) == {"own": 0.0}
    assert owner.trust.quarantine("mallory")
    assert trust_of(owner) == {}


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_a_record_derived_from_a_forged_one_is_trusted_no_more_and_hidden_with_it(stores):
    owner, mallory = stores
    assert mallory.journal.write("note", "egrets", id="forged", author="good")
    links = (Link("derived_from", Key("shared", "note", "forged")),)
    assert owner.journal.write("note", "The heron release is on Monday", id="derived", author="good", links=links)
    assert owner.journal.write("note", "The heron release is on Friday", id="true", author="good")
    links = (Link("derived_from", Key("shared", "note", "true")),)
    assert mallory.journal.write("note", "The heron release is in May", id="laundered", author="good", links=links)
    assert trust_of(owner) == {"forged": 0.0, "derived": 0.0, "true": 1.0, "laundered": 0.0}
    assert owner.trust.quarantine("mallory")
    assert trust_of(owner) == {"true": 1.0}


@pytest.mark.requirement("TRU-3")
def test_a_dissent_filed_in_another_name_counts_for_the_agent_that_filed_it(stores):
    owner, mallory = stores
    before = owner.trust.score("good")
    filed = mallory.journal.write("dissent", "no", author="good").record
    assert owner.trust.judge(filed.id, impact=False)
    assert owner.trust.score("good") == before
    assert owner.trust.score("mallory").dissents == 1
