"""What an erasure removes, and what it leaves: versions derived from the erased record, their copies, the rest."""

import json
from typing import Any

import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.core.record import encode_draft, entry_bytes
from lukasa.core.scope import FULL_REACH
from lukasa.storage.engine import Query
from lukasa.testing import FrozenClock

pytestmark = pytest.mark.requirement("LOG-5")

RUMOUR = Key("shared", "note", "rumour")


@pytest.fixture(params=["sqlite", "postgresql"])
def memory(request, tmp_path):
    """Open a new store as its owner, on both engines."""
    location = request.getfixturevalue("url") if request.param == "postgresql" else tmp_path / "store.db"
    with lukasa.open(location, embedder="hash", clock=FrozenClock()) as memory:
        yield memory


def note(memory, id, text, *, author="", sources=(), **fields):
    links = tuple(Link("derived_from", source) for source in sources)
    outcome = memory.journal.append([Draft("note", text, id=id, scope="shared", author=author, links=links, **fields)])
    return outcome.record.key


def texts(memory, id):
    return [record.text for record in memory.journal.history(Key("shared", "note", id), hidden=True)]


def test_a_version_that_another_derived_from_the_erased_record_costs_that_version_only(memory):
    plan = note(memory, "plan", "The heron office opens in March.")
    rumour = note(memory, "rumour", "The office moves to Quixotrine.", author="orion")
    note(memory, "plan", "The heron office is in Quixotrine.", author="orion", sources=[rumour])
    memory.recall("Where is the heron office?")
    assert memory.journal.preview_erase(rumour) == [rumour]
    assert memory.journal.preview_restore(rumour) == {plan: (2,)}
    receipt = memory.journal.erase(rumour)
    assert (receipt.records, receipt.versions, receipt.restored) == (1, 2, 1)
    (stored,) = memory.journal.read(Query(kinds=("erasure",)))
    assert stored.body["restored"] == 1
    assert texts(memory, "plan") == ["The heron office opens in March."]
    assert memory.journal.get(plan).text == "The heron office opens in March."
    assert [match.record.key for match in memory.journal.find("heron")] == [plan]
    assert [hit.record.key for hit in memory.recall("When does the heron office open?").hits] == [plan]
    assert memory.journal.find("Quixotrine") == []
    assert memory.verify().sound
    assert memory.journal.write("note", "The heron office opens in May.", id="plan").record.version == 2
    assert memory.verify().sound


def test_the_owners_later_version_stays_though_the_one_between_goes(memory):
    note(memory, "plan", "The office opens in March.")
    rumour = note(memory, "rumour", "The office moves to Berlin.", author="orion")
    note(memory, "plan", "The office opens in Berlin.", author="orion", sources=[rumour])
    plan = note(memory, "plan", "The office opens in April.")
    memory.journal.erase(rumour)
    assert texts(memory, "plan") == ["The office opens in March.", "The office opens in April."]
    assert memory.journal.get(plan).text == "The office opens in April."
    assert memory.verify().sound


def test_what_is_derived_from_a_sound_version_stays_and_from_the_other_goes(memory):
    plan = note(memory, "plan", "The office opens in March.")
    note(memory, "before", "Fewer desks until March.", sources=[plan])
    rumour = note(memory, "rumour", "The office moves to Berlin.", author="orion")
    note(memory, "plan", "The office opens in Berlin.", author="orion", sources=[rumour])
    after = note(memory, "after", "Desks go to Berlin.", sources=[plan])
    assert set(memory.journal.preview_erase(rumour)) == {rumour, after}
    memory.journal.erase(rumour)
    assert texts(memory, "before") == ["Fewer desks until March."]
    assert texts(memory, "after") == []
    assert memory.verify().sound


def test_a_record_that_was_derived_from_the_beginning_goes_whole_with_its_tombstone(memory):
    rumour = note(memory, "rumour", "The office moves to Berlin.")
    note(memory, "child", "Berlin it is.", sources=[rumour])
    memory.journal.delete(Key("shared", "note", "child"))
    memory.journal.erase(rumour)
    assert texts(memory, "child") == []
    assert memory.verify().sound


def test_writing_erased_content_once_more_without_the_link_does_not_keep_it(memory):
    rumour = note(memory, "rumour", "Ada lives in Berlin.")
    note(memory, "child", "Ada is at home in Berlin.", sources=[rumour])
    note(memory, "child", "ada is at home  in Berlin. Yes.", author="orion")
    note(memory, "child", "Nothing of the kind.", author="orion")
    memory.journal.erase(rumour)
    assert texts(memory, "child") == ["Nothing of the kind."]
    assert memory.verify().sound


def test_repeating_a_sound_version_under_a_link_does_not_take_the_owners_later_one(memory):
    note(memory, "plan", "The office opens in March.")
    rumour = note(memory, "rumour", "The office moves to Berlin.", author="orion")
    note(memory, "plan", "The office opens in March.", author="orion", sources=[rumour])
    note(memory, "plan", "The office opens in March.", labels=("sure=yes",))
    memory.journal.erase(rumour)
    assert texts(memory, "plan") == ["The office opens in March."] * 2


def test_a_link_from_before_the_source_was_written_counts_when_all_of_the_source_goes(memory):
    note(memory, "child", "Of things to come.", sources=[RUMOUR])
    rumour = note(memory, "rumour", "They came.")
    memory.journal.erase(rumour)
    assert texts(memory, "child") == []


def test_links_in_a_circle_end_and_take_only_what_is_derived(memory):
    first, second = Key("shared", "note", "a"), Key("shared", "note", "b")
    note(memory, "a", "Sound at first.")
    note(memory, "b", "Sound as well.")
    rumour = note(memory, "rumour", "A rumour.")
    note(memory, "a", "Taken from the rumour and b.", sources=[rumour, second])
    note(memory, "b", "Taken from a.", sources=[first, second])
    note(memory, "a", "Taken from b and itself.", sources=[first, second])
    receipt = memory.journal.erase(rumour)
    assert (receipt.records, receipt.versions, receipt.restored) == (1, 4, 2)
    assert texts(memory, "a") == ["Sound at first."]
    assert texts(memory, "b") == ["Sound as well."]
    assert memory.verify().sound


def test_an_old_export_brings_back_neither_the_record_nor_the_version(memory, tmp_path):
    note(memory, "plan", "The office opens in March.")
    rumour = note(memory, "rumour", "The office moves to Berlin.", author="orion")
    plan = note(memory, "plan", "The office opens in Berlin.", author="orion", sources=[rumour])
    note(memory, "other", "Something else.")
    memory.export(tmp_path / "old.jsonl")
    memory.journal.erase(rumour)
    result = memory.import_(tmp_path / "old.jsonl")
    assert (result.added, len(result.refused)) == (0, 2)
    assert memory.journal.get(plan).text == "The office opens in March."
    assert memory.verify().sound


def test_a_quarantine_still_hides_what_it_should_after_the_visible_version_was_erased(memory):
    rumour = note(memory, "rumour", "A rumour.")
    source = note(memory, "source", "From the rumour.", author="ada", sources=[rumour])
    memory.journal.quarantine("mallory")
    note(memory, "source", "By mallory.", author="mallory")
    note(memory, "made", "Made of the source.", sources=[source])
    memory.journal.erase(rumour)
    assert memory.journal.get(source) is None
    assert memory.verify().sound
    memory.journal.release("mallory")
    assert memory.journal.get(source).text == "By mallory."
    assert memory.verify().sound


def test_compaction_and_reindex_agree_with_a_restored_record(memory):
    note(memory, "plan", "The office opens in March.")
    rumour = note(memory, "rumour", "The office moves to Berlin.", author="orion")
    note(memory, "plan", "The office opens in Berlin.", author="orion", sources=[rumour])
    memory.journal.erase(rumour)
    memory.compact()
    memory.journal.reindex()
    assert texts(memory, "plan") == ["The office opens in March."]
    assert memory.verify().sound


def test_copies_in_conflicts_proposals_and_damaged_entries_go_with_the_record(memory):
    plan = note(memory, "plan", "The office opens in March.")
    other = note(memory, "other", "Something else.")
    (record,) = memory.journal.history(plan)
    entry = entry_bytes(record).decode()
    kept = []
    for key in (plan, other):
        about = {"scope": key.scope, "kind": key.kind, "id": key.id}
        bodies: dict[str, dict[str, Any]] = {
            "sync_conflict": {"record": about, "version": 1, "hub": entry if key == plan else "{}", "here": "{}"},
            "proposal": {"state": "open", "by": "orion", "changes": [{**about, "text": "The office is shut."}]},
        }
        for kind, body in bodies.items():
            draft = Draft(kind, body=body, id=f"{kind}-{key.id}", scope="shared", origin="sync")
            kept.append(memory.journal._engine.append(FULL_REACH, [encode_draft(draft)]).record.key)
    doomed = [key for key in kept if key.id.endswith("plan")]
    assert set(memory.journal.preview_erase(plan)) == {plan, *doomed}
    memory.journal.erase(plan)
    assert [bool(memory.journal.history(key)) for key in kept] == [key not in doomed for key in kept]
    assert memory.verify().sound


def test_a_conflict_that_holds_content_derived_from_the_erased_record_goes(memory):
    rumour = note(memory, "rumour", "The office moves to Berlin.")
    plan = note(memory, "plan", "The office opens in March.")
    link = {"relation": "derived_from", "scope": "shared", "kind": "note", "id": "rumour"}
    losing = {"scope": "shared", "kind": "note", "id": "plan", "version": 1, "text": "In Berlin.", "links": [link]}
    body = {"record": {}, "version": 1, "hub": json.dumps(losing), "here": "no JSON"}
    draft = Draft("sync_conflict", body=body, id="c", scope="shared", origin="sync")
    conflict = memory.journal._engine.append(FULL_REACH, [encode_draft(draft)]).record.key
    assert set(memory.journal.preview_erase(rumour)) == {rumour, conflict}
    memory.journal.erase(rumour)
    assert memory.journal.get(plan) is not None
    assert memory.verify().sound
