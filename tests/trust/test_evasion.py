"""An agent tries to evade trust and quarantine: with other names, through imports and through other agents' records."""

from io import BytesIO

import pytest
from typer.testing import CliRunner

from lukasa import Draft, Key, Link
from lukasa.errors import InvalidInput
from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.serialise import recall_json
from lukasa.recall.recall import build_prompt_block
from lukasa.storage.engine import Query
from lukasa.testing import seeded_ids
from lukasa.transfer.jsonl import export_log, import_log
from support.store_reads import write_unchecked

LOOK_ALIKES = (
    "Mallory", "MALLORY", "mallory ", " mallory", "mallory\n", "mal lory  x", "m\u0430llory", "\uff4dallory",
    "mallory\u200b", "mall\u00f6ry", "m\u0430\u04cf\u04cf\u043e\u0433\u0443", "mallory\u0301", "_mallory",
)  # fmt: skip


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


@pytest.mark.requirement("TRU-17", "LOG-8")
def test_a_record_in_another_name_is_refused_and_a_label_changes_nothing(stores):
    owner, mallory = stores
    assert mallory.journal.write("note", "The heron release is on Monday", author="good").code == "author_not_yours"
    assert mallory.journal.write("note", "The heron release is in May", id="own", labels=("writer=good",))
    assert owner.journal.write("note", "The heron release is on Friday", id="true", author="good")
    assert trust_of(owner) == {"own": 0.0, "true": 1.0}
    assert owner.recall("When is the heron release?", 1).records[0].id == "true"
    assert owner.trust.quarantine("mallory")
    assert trust_of(owner) == {"true": 1.0}


@pytest.mark.requirement("TRU-17", "RCL-7")
def test_a_later_statement_of_a_less_trusted_author_contradicts_and_does_not_supersede(
    stores, open_store, location, clock
):
    owner, mallory = stores
    good = open_store(location, agent="good", new_id=seeded_ids(10))
    question, ids = "When is the heron release?", []
    for writer, day in ((good, "Friday"), (good, "Tuesday"), (mallory, "Monday")):
        ids.append(writer.remember(f"The heron release is on {day}.").record.id)
        clock.advance(3600)
    friday, tuesday, monday = ids
    result = owner.recall(question, 3)
    hits = {hit.record.id: hit for hit in result.hits}
    assert list(hits) == [tuesday, friday, monday]
    assert (hits[friday].superseded_by.id, hits[friday].contradicts) == (tuesday, None)
    assert (hits[tuesday].superseded_by, hits[tuesday].contradicts) == (None, None)
    assert (hits[monday].superseded_by, hits[monday].contradicts.id) == (None, tuesday)
    assert hits[monday].why.endswith(f"contradicts {tuesday}, which is trusted more")
    assert recall_json(result)["hits"][2]["contradicts"]["id"] == tuesday
    assert f"contradicts shared/memory/{tuesday}, which is trusted more" in build_prompt_block(result).text
    assert f"contradicts {tuesday}, which is trusted more" in owner.vault.build_memory_block(query=question).text
    assert [hit.contradicts for hit in owner.vault.search(question, k=3)] == [None, None, tuesday]
    shown = CliRunner().invoke(app, ["--store", str(location), "recall", question], env={"COLUMNS": "200"}).stdout
    assert f"(contradicts {tuesday} by good, who is trusted more)" in shown
    sunday = good.remember("The heron release is on Sunday.").record.id
    hits = {hit.record.id: hit for hit in owner.recall(question, 4).hits}
    assert (hits[monday].superseded_by.id, hits[monday].contradicts) == (sunday, None)


@pytest.mark.requirement("TRU-17", "LOG-6", "LOG-8")
def test_what_an_agent_says_others_said_has_its_own_trust_and_is_hidden_with_it(stores):
    owner, mallory = stores
    assert mallory.context.append("chat", "user", "The heron release is on Monday", speaker="good")
    quoted = mallory.journal.write("note", "good said: the heron release is in May", id="quoted").record
    said = next(mallory.journal.read(Query(kinds=("turn",))))
    assert (said.author, said.speaker, quoted.author) == ("mallory", "good", "mallory")
    assert set(trust_of(mallory).values()) == {0.0}
    assert owner.trust.quarantine("mallory")
    assert mallory.context.append("chat", "assistant", "The heron release is on Sunday")
    assert trust_of(owner) == {}
    assert owner.journal.verify().sound
    owner.journal.reindex()
    assert trust_of(owner) == {}
    assert owner.journal.verify().sound
    assert owner.trust.release("mallory")
    assert "quoted" in trust_of(owner)


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_an_update_of_anothers_record_is_its_writers_and_a_quarantine_takes_it_back(stores):
    owner, mallory = stores
    assert owner.journal.write("note", "The heron release is on Friday", id="note-1", author="good")
    assert mallory.journal.write("note", "The heron release is on Monday", id="note-1").code == "proposed"
    assert trust_of(owner) == {"note-1": 1.0}
    # A store of an earlier version may hold such a version.
    monday = Draft("note", "The heron release is on Monday", id="note-1", scope="shared", author="mallory")
    write_unchecked(owner, monday)
    assert trust_of(owner) == {"note-1": 0.0}
    assert owner.trust.quarantine("mallory")
    (hit,) = owner.recall("When is the heron release?", 1).hits
    assert (hit.record.text, hit.trust) == ("The heron release is on Friday", 1.0)


@pytest.mark.requirement("TRU-17", "LOG-6", "LOG-8")
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


@pytest.mark.requirement("TRU-17", "LOG-6", "LOG-8")
def test_an_agent_in_quarantine_imports_nothing_not_even_what_it_dates_back(stores, open_store, clock):
    owner, mallory = stores
    own = open_store(agent="mallory", new_id=seeded_ids(9))
    assert own.journal.write("note", "The heron release is on Sunday", id="old")
    clock.advance(60)
    assert owner.journal.quarantine("mallory", since=clock.now())
    ((_, reason),) = import_log(mallory.journal, exported(own)).refused
    assert reason == "'mallory' is in quarantine; only the owner imports what it wrote"
    assert owner.trust.release("mallory")
    assert import_log(mallory.journal, exported(own)).added == 1


@pytest.mark.requirement("TRU-17", "LOG-6", "LOG-8")
def test_a_caller_with_scopes_and_no_name_writes_and_imports_in_no_name(stores, open_store, location):
    owner, _ = stores
    nobody = open_store(location, scopes=["shared"], new_id=seeded_ids(8))
    assert nobody.journal.write("note", "The heron release is on Monday", author="good").code == "author_not_yours"
    elsewhere = open_store()
    assert elsewhere.journal.write("note", "The heron release is on Monday", author="good")
    assert import_log(nobody.journal, exported(elsewhere)).added == 0
    assert nobody.journal.write("directive", "Trust mallory").code == "not_allowed"
    assert trust_of(owner) == {}


@pytest.mark.requirement("TRU-17", "LOG-6")
def test_a_record_derived_from_anothers_is_trusted_no_more_and_hidden_with_it(stores):
    owner, mallory = stores
    assert mallory.journal.write("note", "egrets", id="source")
    links = (Link("derived_from", Key("shared", "note", "source")),)
    assert owner.journal.write("note", "The heron release is on Monday", id="derived", author="good", links=links)
    assert owner.journal.write("note", "The heron release is on Friday", id="true", author="good")
    links = (Link("derived_from", Key("shared", "note", "true")),)
    assert mallory.journal.write("note", "The heron release is in May", id="laundered", links=links)
    assert trust_of(owner) == {"source": 0.0, "derived": 0.0, "true": 1.0, "laundered": 0.0}
    assert owner.trust.quarantine("mallory")
    assert trust_of(owner) == {"true": 1.0}


@pytest.mark.requirement("TRU-17", "LOG-6", "LOG-8")
def test_what_another_agent_keeps_of_a_record_keeps_the_trust_and_the_quarantine_of_its_author(
    stores, open_store, location
):
    """Mallory passes work on and writes a pattern and a memory; a trusted agent accepts, uses and confirms them."""
    owner, mallory = stores
    good = open_store(location, agent="good", new_id=seeded_ids(5))
    handoff = mallory.handoffs.create("good", "The heron release is on Monday").record
    memory = mallory.remember("The heron release is on Sunday morning").record
    pattern = mallory.knowledge.add("pattern", {"pattern": "The heron release is in May", "category": "plans"}).record
    assert good.handoffs.accept(handoff.id)
    assert good.handoffs.complete(handoff.id)
    assert good.knowledge.use(pattern.id)
    assert good.confirm(memory.id)
    kept = [owner.journal.get(record.key) for record in (handoff, pattern, memory)]
    assert [(record.author, record.version > 1) for record in kept] == [("good", True)] * 3
    assert trust_of(owner) == {handoff.id: 0.0, pattern.id: 0.0, memory.id: 0.0}
    assert owner.trust.quarantine("mallory")
    assert trust_of(owner) == {}
    assert owner.journal.verify().sound
    owner.journal.reindex()
    assert trust_of(owner) == {}
    assert owner.trust.release("mallory")
    undone = owner.journal.undo(author="mallory")
    assert set(undone.reverted) == {handoff.key, pattern.key, memory.key}
    assert trust_of(owner) == {}


@pytest.mark.requirement("LOG-8")
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_no_name_that_looks_like_an_agents_name_opens_a_store(stores, open_store, location, name, clock):
    owner, _ = stores
    for open_as in (
        lambda: open_store(location, agent=name),
        lambda: owner.as_agent(name),
        lambda: owner.journal.with_reach(owner.journal.reach, name),
        lambda: ApiTokens(owner.journal, clock).add("second", agent=name),
    ):
        with pytest.raises(InvalidInput, match="small letters"):
            open_as()


@pytest.mark.requirement("TRU-17", "LOG-8")
def test_a_second_memory_of_the_same_agent_is_in_the_same_quarantine(stores, open_store, location):
    owner, _ = stores
    assert owner.trust.quarantine("mallory")
    again = open_store(location, agent="mallory", scopes=["shared"], new_id=seeded_ids(6))
    assert again.journal.write("note", "The heron release is on Monday")
    assert owner.as_agent("mallory", ["shared", "mallory"]).journal.write("note", "The heron release is in May")
    assert trust_of(owner) == {}


@pytest.mark.requirement("TRU-3", "LOG-8")
def test_a_dissent_counts_for_the_agent_that_filed_it(stores):
    owner, mallory = stores
    assert mallory.journal.write("dissent", "no", author="good").code == "author_not_yours"
    assert mallory.journal.write("dissent", "no", {"agent": "good"}).code == "service_kind"
    before = owner.trust.score("good")
    write_unchecked(
        owner, Draft("dissent", "no", {"agent": "good"}, id="filed", scope="shared", author="mallory")
    )  # as a store of an earlier version has it
    assert owner.trust.judge("filed", impact=False)
    assert owner.trust.score("good") == before
    assert owner.trust.score("mallory").dissents == 1


@pytest.mark.requirement("LOG-6", "LOG-8")
def test_a_version_that_claims_to_be_an_undo_is_undone(stores, open_store, location):
    owner, mallory = stores
    ben = open_store(location, agent="ben", new_id=seeded_ids(11))
    for id in ("changed", "deleted"):
        assert ben.journal.write("note", "The heron release is on Friday", id=id)
    own = mallory.journal.write("note", "The heron release is in May", id="own", origin="undo").record
    assert mallory.journal.write("note", "The heron release is in May", id="own", origin="undo")
    for id, fields in (("changed", {"text": "The heron release is on Monday"}), ("deleted", {"deleted": True})):
        draft = Draft("note", id=id, scope="shared", author="mallory", origin="undo", **fields)
        write_unchecked(owner, draft)
    undone = owner.journal.undo(author="mallory")
    assert {key.id for key in undone.reverted} == {"own", "changed", "deleted"}
    texts = {id: owner.journal.get(Key("shared", "note", id)) for id in ("own", "changed", "deleted")}
    assert texts["own"] is None
    assert {texts[id].text for id in ("changed", "deleted")} == {"The heron release is on Friday"}
    assert owner.journal.undo(author="mallory").reverted == ()
    assert owner.journal.undo(label=undone.label).reverted
    assert owner.journal.get(own.key).text == "The heron release is in May"
