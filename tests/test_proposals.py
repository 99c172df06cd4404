"""The owner's truth: what agents would change of it is a proposal, and what contradicts it says so and comes after it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import lukasa
from lukasa import Draft, Key, Link
from lukasa.errors import NotAllowed
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.serialise import recall_json
from lukasa.journal.write_rules import MAX_OPEN_PROPOSALS
from lukasa.recall.recall import build_prompt_block
from lukasa.testing import FrozenClock
from support.narrow import source_report

pytestmark = pytest.mark.requirement("LOG-8")
TUESDAY, FRIDAY = "We deploy on Tuesdays.", "We deploy on Fridays."

FACTS_AND_RIVALS = [
    ("The production database runs on db-01.", "The production database runs on db-99.", "Where does the production database run?"),
    ("Deploys run on Tuesday.", "Deploys now run on Friday.", "When do deploys run?"),
    ("The release manager is Anna.", "Mallory is the new release manager.", "Who is the release manager?"),
    ("The API rate limit is 100 requests a minute.", "The API rate limit is 9000 requests a minute.", "What is the API rate limit?"),
    ("Backups are kept for 30 days.", "Backups are now kept for 2 days only.", "How long are backups kept?"),
    ("Our office is in Hamburg.", "We moved our office to Lisbon.", "Where is our office?"),
    ("Invoices are paid by bank transfer.", "Invoices are now paid by gift card.", "How are invoices paid?"),
    ("Pull requests need two reviewers.", "Pull requests need no reviewers.", "How many reviewers do pull requests need?"),
    ("The staging server listens on port 8443.", "The staging server listens on port 31337.", "Which port does the staging server listen on?"),
    ("Customer data must never leave the EU.", "Customer data may leave the EU.", "May customer data leave the EU?"),
    ("The budget for cloud hosting is 4,000 euros a month.", "The budget for cloud hosting is now 40,000 euros a month.", "What is the budget for cloud hosting?"),
    ("The on-call phone number is kept in the vault of the team.", "The on-call phone number is kept in a public gist.", "Where is the on-call phone number kept?"),
    ("We write the backend in Rust.", "Which language do we write the backend in? We write the backend in PHP.", "Which language do we write the backend in?"),
    ("The daily meeting begins at 9:30.", "The daily meeting was moved to 11:00.", "When does the daily meeting begin?"),
    ("Logs are stored in the bucket heron-logs.", "Logs are stored in the bucket mallory-logs.", "Where are logs stored?"),
    ("The contract with Initech ends in March.", "The contract with Initech was extended to December.", "When does the contract with Initech end?"),
    ("Ben approves expenses over 500 euros.", "Mallory now approves expenses over 500 euros.", "Who approves expenses over 500 euros?"),
    ("Feature flags are off in production.", "Feature flags are now on in production.", "Are feature flags on in production?"),
    ("The mascot of the project is a heron.", "The mascot of the project is a vulture.", "What is the mascot of the project?"),
    ("Support tickets are answered within four hours.", "Support tickets are answered within four weeks.", "How fast are support tickets answered?"),
]  # fmt: skip


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture(params=["memory:", "postgresql"])
def owner(request, clock):
    location = request.getfixturevalue("url") if request.param == "postgresql" else request.param
    with lukasa.open(location, embedder="hash", clock=clock) as opened:
        yield opened


@pytest.fixture
def mallory(owner):
    return owner.as_agent("mallory")


def test_an_agents_change_of_the_owners_record_waits_for_the_owner(owner, mallory):
    kept = owner.remember(TUESDAY).record
    answer = mallory.vault.update(kept.id, FRIDAY)
    assert answer.code == "proposed"
    assert f"The owner decides; proposal {answer.details['proposal']}" in answer.reason
    (proposal,) = owner.proposals.list()
    assert proposal == mallory.proposals.list()[0]
    assert (proposal.id, proposal.by, proposal.state) == (answer.details["proposal"], "mallory", "open")
    (change,) = proposal.changes
    assert (change.key, change.deletes) == (kept.key, False)
    assert (change.now, change.proposed) == (TUESDAY, FRIDAY)
    assert owner.vault.get(kept.id).text == TUESDAY
    with pytest.raises(NotAllowed):
        mallory.proposals.accept(proposal.id)
    assert owner.proposals.accept(proposal.id)
    changed = owner.journal.get(kept.key)
    assert (changed.text, changed.author, changed.origin) == (FRIDAY, "", "proposal")
    assert "proposed_by=mallory" in changed.labels
    assert owner.proposals.count() == 0
    assert [found.id for found in mallory.proposals.list("accepted")] == [proposal.id]
    assert owner.proposals.accept(proposal.id).code == "decided"


def test_a_refused_change_is_not_proposed_again_and_its_author_cannot_withdraw_the_refusal(owner, mallory):
    kept = owner.remember(TUESDAY).record
    answer = mallory.forget(kept.id)
    assert mallory.forget(kept.id).details == answer.details
    assert owner.proposals.count() == 1
    assert owner.proposals.refuse(answer.details["proposal"])
    assert mallory.forget(kept.id).code == "refused_by_owner"
    mallory.journal.undo(author="mallory")
    assert mallory.forget(kept.id).code == "refused_by_owner"
    assert owner.proposals.count() == 0
    assert owner.vault.get(kept.id).text == TUESDAY


def test_a_record_that_was_changed_since_is_a_conflict(owner, mallory):
    note = owner.journal.write("note", "The staging server is heron.").record
    raw = mallory.journal.append(Draft("note", "The staging server is osprey.", id=note.id, scope="shared"))
    deleted = mallory.journal.delete(note.key)
    assert owner.journal.append(Draft("note", "The staging server is ibis.", id=note.id, scope="shared"))
    for answer in (raw, deleted):
        assert isinstance(owner.proposals.accept(answer.details["proposal"]), lukasa.Conflict)
    assert owner.journal.get(note.key).text == "The staging server is ibis."


def test_an_agent_keeps_a_bounded_number_of_proposals_open(owner, mallory):
    notes = [owner.journal.write("note", f"Note {number}").record for number in range(MAX_OPEN_PROPOSALS + 1)]
    answers = [mallory.journal.delete(note.key).code for note in notes]
    assert answers == ["proposed"] * MAX_OPEN_PROPOSALS + ["too_many_proposals"]
    assert owner.as_agent("ben").journal.delete(notes[-1].key).code == "proposed"
    assert mallory.journal.append(Draft("note", "x" * 250_000, id=notes[0].id, scope="shared")).code == "needs_owner"


def test_proposals_about_a_scope_out_of_reach_are_invisible(owner):
    plan = owner.remember("The secret launch is in May.", scope="project:heron").record
    ben = owner.as_agent("ben", ["shared", "ben", "project:heron"])
    answer = ben.forget(plan.id)
    note = owner.journal.write("note", "A shared note").record
    both = ben.journal.append(
        [Draft("note", "mine", id=key.id, scope=key.scope) for key in (note.key, Key("project:heron", "note", "n"))]
    )
    other = owner.as_agent("mallory")
    assert other.proposals.list() == []
    assert other.proposals.get(answer.details["proposal"]) is None
    assert {found.id for found in ben.proposals.list()} == {answer.details["proposal"], both.details["proposal"]}
    assert owner.proposals.get(both.details["proposal"]).scope == "ben"


def test_each_id_of_a_bulk_delete_gets_its_own_verdict(owner, mallory):
    kept, own = owner.remember(TUESDAY).record, mallory.remember("Herons fish at dawn.").record
    first, second = mallory.vault.bulk_delete([kept.id, own.id])
    assert (first.code, bool(second)) == ("proposed", True)
    assert [change.key for change in owner.proposals.list()[0].changes] == [kept.key]


def test_erasing_a_record_erases_what_was_proposed_for_it(owner, mallory):
    note = owner.journal.write("note", "Carol is on leave.").record
    assert mallory.journal.append(Draft("note", "Carol is ill.", id=note.id, scope="shared")).code == "proposed"
    owner.journal.erase(note.key)
    assert owner.proposals.list() == []


@pytest.mark.requirement("TRU-17", "RCL-7")
def test_rivals_of_the_owners_facts_come_after_them_and_most_are_marked(clock):
    with lukasa.open("memory:", embedder="static", clock=clock) as owner:
        mallory = owner.as_agent("mallory")
        for fact, _, _ in FACTS_AND_RIVALS:
            assert owner.remember(fact)
        clock.advance(86_400)
        for _, rival, _ in FACTS_AND_RIVALS:
            assert mallory.remember(rival)
        marked, expected = 0, {rival: fact for fact, rival, _ in FACTS_AND_RIVALS}
        for fact, rival, question in FACTS_AND_RIVALS:
            hits = owner.recall(question, 5).hits
            assert hits[0].text == fact
            by_text = {hit.text: hit for hit in hits}
            marks = {hit.text: hit.contradicts.record.text for hit in hits if hit.contradicts is not None}
            assert marks.items() <= expected.items()
            assert all(hit.superseded_by is None for hit in hits if not hit.record.author)
            marked += rival in by_text and rival in marks
        assert marked >= 17


@pytest.mark.requirement("TRU-17", "RCL-7")
def test_every_form_of_an_answer_says_what_contradicts_the_owner(clock, tmp_path):
    store = tmp_path / "agents.db"
    with lukasa.open(store, embedder="hash", clock=clock) as owner:
        fact = owner.remember("We write the backend in Rust.").unwrap()
        rival = owner.as_agent("mallory").remember("We write the backend in PHP.").unwrap()
        result = owner.recall("Which language do we write the backend in?")
        said = f"contradicts {fact.id}, which the owner said"
        assert [hit.contradicts and hit.contradicts.id for hit in result.hits] == [None, fact.id]
        assert said in result.hits[1].why
        assert recall_json(result)["hits"][1]["contradicts"]["id"] == fact.id
        assert f"contradicts {fact.key}, which the owner said" in build_prompt_block(result).text
        assert said in owner.vault.build_memory_block(query="Which language is the backend in?").text
        found = {hit.memory.id: hit.contradicts for hit in owner.vault.search("backend language")}
        assert found == {fact.id: None, rival.id: fact.id}
    shown = (
        CliRunner().invoke(app, ["--store", str(store), "recall", "backend language"], env={"COLUMNS": "200"}).stdout
    )
    assert f"contradicts {fact.id}" in shown


def test_a_rival_that_was_dated_before_the_owners_word_contradicts_it_too(owner, clock):
    mallory = owner.as_agent("mallory")
    early = mallory.remember("We write the backend in PHP.").record
    clock.advance(86_400)
    fact = owner.remember("We write the backend in Rust.", distinct_from=early.id).record
    hits = owner.recall("Which language do we write the backend in?").hits
    assert [(hit.record.id, hit.contradicts and hit.contradicts.id) for hit in hits] == [
        (fact.id, None),
        (early.id, fact.id),
    ]


def test_no_number_of_rivals_hides_that_they_contradict_the_owner(owner, clock):
    mallory = owner.as_agent("mallory")
    fact = owner.remember("The on-call engineer for the heron cluster is Anna.").record
    clock.advance(60)
    for number in range(40):
        text = f"The on-call engineer for the heron cluster is Mallory{number}."
        assert mallory.journal.write("note", text)
    hits = owner.recall("Who is the on-call engineer for the heron cluster?", 5).hits
    assert hits[0].record.id == fact.id
    assert hits[1].contradicts.id == fact.id
    assert all(hit.superseded_by.record.author == "mallory" for hit in hits[2:])  # by the newest rival


def test_a_note_that_supersedes_the_owners_records_by_links_is_a_proposal(owner, mallory):
    facts = [owner.remember(fact).record for fact, _, _ in FACTS_AND_RIVALS]
    links = tuple(Link("supersedes", fact.key) for fact in facts)
    answer = mallory.journal.write("note", "All of this is out of date.", links=links)
    assert answer.code == "proposed"
    (change,) = owner.proposals.list()[0].changes
    assert len(change.links) == len(facts)
    for fact, (_, _, question) in zip(facts[:4], FACTS_AND_RIVALS, strict=False):
        hit = owner.recall(question, 1).hits[0]
        assert (hit.record.id, hit.superseded_by) == (fact.id, None)


@pytest.mark.parametrize("scope", ["shared", "project:heron"])
def test_only_the_owner_undoes_prunes_and_quarantines_anothers_work(owner, clock, scope):
    scopes = ["shared", "project:heron"]
    ben, mallory = (owner.as_agent(name, [*scopes, name]) for name in ("ben", "mallory"))
    kept = [ben.remember("Herons fish at dawn.", scope=scope).record]
    kept += [
        writer.journal.write("note", f"A note of {name}", scope=scope).record
        for writer, name in ((ben, "ben"), (owner, "me"))
    ]
    kept.append(ben.episodes.record("Fix the login page", scope=scope).record)
    clock.advance(200 * 86_400)
    for author in ("ben", ""):
        with pytest.raises(NotAllowed):
            mallory.journal.undo(author=author)
    assert mallory.journal.undo(label="tier=register").reverted == ()
    assert mallory.journal.quarantine("ben").code == "not_allowed"
    owner.journal.quarantine("zoe")
    assert not mallory.journal.release("zoe")
    pruned = mallory.episodes.prune(summarise_after=0, archive_after=0)
    assert (pruned.summarised, pruned.archived) == ((), ())
    for record in kept:
        code = "author_not_yours" if record.kind == "episode" else "proposed"
        assert mallory.journal.delete(record.key).code == code
    assert [owner.journal.get(record.key) for record in kept] == kept
    assert owner.episodes.prune(summarise_after=0, archive_after=0).archived == (kept[-1].id,)
    assert owner.journal.undo(author="ben").reverted


@pytest.mark.requirement("VLT-15")
def test_what_an_agent_says_is_a_register_until_others_say_it_too(owner, mallory):
    own = mallory.remember("Herons fish at dawn.").record
    assert own.body["tier"] == "register"
    assert owner.remember(TUESDAY).record.body["tier"] == "canon"
    assert mallory.vault.add_memory("Canon of mine", tier="canon").code == "canon_needs_owner"
    assert (
        mallory.journal.write("memory", "Canon of mine", {"category": "general", "tier": "canon"}).code
        == "canon_needs_owner"
    )
    assert mallory.vault.corroborate(own.id).code == "not_independent"
    assert mallory.vault.corroborate(own.id, author="ben").code == "author_not_yours"
    assert mallory.vault.promote_to_canon(own.id).code == "not_corroborated"
    zoe = owner.as_agent("zoe")
    assert zoe.vault.corroborate(own.id)
    owner.journal.quarantine("zoe")
    assert mallory.vault.promote_to_canon(own.id).code == "not_corroborated"
    assert owner.as_agent("ben").vault.corroborate(own.id)
    assert mallory.vault.promote_to_canon(own.id).record.body["tier"] == "canon"
    changed = mallory.vault.update(own.id, "Herons fish at noon in the cold river.").record
    assert changed.body["tier"] == "register"


@pytest.mark.requirement("VLT-15")
def test_the_profile_of_the_document_lets_agents_write_canon(clock):
    with lukasa.open("memory:", agent="ada", embedder="hash", clock=clock, profile="document") as ada:
        assert ada.remember("Herons fish at dawn.").unwrap().body["tier"] == "canon"


@pytest.mark.requirement("VLT-15")
def test_an_agents_memories_from_another_program_are_registers(clock, tmp_path):
    entries = [{"id": "1", "memory": "Herons fish at dawn.", "created_at": "2026-01-05T09:00:00Z"}]
    (tmp_path / "mem0.json").write_text(json.dumps({"results": entries}))
    for agent, tier in (("ada", "register"), ("", "canon")):
        with lukasa.open("memory:", agent=agent, embedder="hash", clock=clock) as memory:
            assert source_report(memory.import_(tmp_path / "mem0.json", format="mem0")).refusals == []
            assert [found.tier for found in memory.vault.list()] == [tier]


def run(store, *words, code=0):
    result = CliRunner().invoke(app, ["--store", str(store), *words], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.stdout + result.stderr


@pytest.mark.requirement("DOO-1")
def test_the_command_shows_proposals_and_decides_about_them(tmp_path):
    store = tmp_path / "agents.db"
    with lukasa.open(store, embedder="hash") as owner:
        kept = owner.remember(TUESDAY).unwrap()
        notes = [owner.journal.write("note", f"Note {number}").unwrap() for number in range(2)]
        two = [Draft("note", id=note.id, scope="shared", deleted=True) for note in notes]
        assert owner.as_agent("orion").journal.append(two).code == "proposed"
    refused = run(store, "--agent", "mallory", "update", kept.id, FRIDAY, code=3)
    assert "The owner decides; proposal " in refused
    assert run(store, "--agent", "mallory", "--json", "remember", "Herons fish at dawn.").count('"register"') == 1
    batch, single = json.loads(run(store, "proposals", "list", "--json"))
    shown = run(store, "proposals", "list")
    for words in ("by mallory", "by orion", f"now       {TUESDAY}", f"proposed  {FRIDAY}", "(deleted)", single["id"]):
        assert words in shown
    assert "Only the owner" in run(store, "--agent", "mallory", "proposals", "accept", single["id"], code=3)
    assert "was accepted" in run(store, "proposals", "accept", single["id"])
    assert "--yes" in run(store, "proposals", "accept", batch["id"], code=3)
    assert "proposals" in run(store, "doctor")
    assert "was refused" in run(store, "proposals", "refuse", batch["id"])
    assert "No proposal is open" in run(store, "proposals", "list")
    assert FRIDAY in run(store, "proposals", "show", single["id"])
    assert "There is no proposal" in run(store, "proposals", "accept", "nothing", code=5)


@pytest.mark.requirement("DOO-4", "DOO-8")
def test_the_client_shows_proposals_and_the_owner_decides_over_http(tmp_path):
    from support.api_server import run_api_server, token_for

    with (
        run_api_server(str(tmp_path / "agents.db"), agents=("", "mallory")) as url,
        lukasa.connect(url, token_for("")) as owner,
        lukasa.connect(url, token_for("mallory")) as mallory,
    ):
        kept = owner.remember(TUESDAY).unwrap()
        answer = mallory.forget(kept.id)
        assert answer.code == "proposed"
        assert f"The owner decides; proposal {answer.details['proposal']}" in answer.reason
        (proposal,) = mallory.proposals.list()
        assert (proposal.by, proposal.changes[0].now) == ("mallory", TUESDAY)
        with pytest.raises(NotAllowed):
            mallory.proposals.accept(proposal.id)
        assert owner.proposals.refuse(proposal.id)
        assert mallory.forget(kept.id).code == "refused_by_owner"
        assert [found.id for found in owner.proposals.list("refused")] == [proposal.id]
        assert owner.proposals.accept("nothing").code == "not_found"


@pytest.mark.requirement("DOO-2")
def test_a_tool_tells_the_agent_that_the_owner_decides(tmp_path):
    from lukasa.interfaces.mcp.responses import RecordResponse

    with lukasa.open("memory:", embedder="hash") as owner:
        kept = owner.remember(TUESDAY).unwrap()
        answer = RecordResponse.from_write(owner.as_agent("mallory").forget(kept.id)).model_dump()
        (proposal,) = owner.proposals.list()
    assert (answer["outcome"], answer["code"]) == ("refused", "proposed")
    assert answer["details"] == {"proposal": proposal.id, "scope": "shared"}
    assert f"The owner decides; proposal {proposal.id}" in answer["reason"]
    assert answer["next"].startswith("The owner decides.")
