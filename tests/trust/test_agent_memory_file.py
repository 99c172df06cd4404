"""The document's file of an agent's memory: import, export, validation and safe file names."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.errors import FormatError
from lukasa.transfer.layouts.agent_memory import export_agents, file_name, import_file, parse_agent
from lukasa.trust.records import DISSENT, agent_events_query

DOCUMENT: dict[str, Any] = {
    "agent_name": "Creator1",
    "model": "some-model",
    "primary_role": "creator",
    "dissent_history": [
        {
            "round_id": "run_20250214_153000/round_2",
            "timestamp": "2025-02-14T16:20:00Z",
            "context": {"task": "Write ADR for GraphQL migration", "artifact_type": "adr"},
            "dissent_text": "The decision to use GraphQL ignores existing REST tooling...",
            "rubric_citations": ["Accuracy", "Completeness"],
            "impact": True,
            "depth_score": 1.4,
            "feedback_incorporated": True,
        }
    ],
    "override_history": [
        {
            "round_id": "run_20250214_153000/round_4",
            "timestamp": "2025-02-14T17:00:00Z",
            "context": {"task": "..."},
            "agent_output": "original text...",
            "human_decision": "modified text...",
            "regret": False,
            "auto_check_deadline": "2025-02-15T17:00:00Z",
            "reverted_by": None,
        }
    ],
    "trust_score": 0.78,
    "trust_score_history": [
        {"timestamp": "...", "score": 0.72, "reason": "initial"},
        {"timestamp": "...", "score": 0.75, "reason": "dissent_impact_true"},
    ],
    "long_term_stats": {
        "avg_dissent_depth_last_90d": 0.75,
        "dissent_impact_ratio_last_90d": 0.6,
        "total_overrides": 42,
        "regret_rate_last_90d": 0.1,
    },
    "rounds_participated": 24,
    "probation_until": "2025-03-01T00:00:00Z",
}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    path.mkdir()
    (path / "Creator1.json").write_text(json.dumps(DOCUMENT))
    return path


@pytest.mark.requirement("TRU-16", "LOG-7")
def test_the_documents_example_is_exported_as_it_was_imported(trust, folder, tmp_path):
    imported = import_file(trust, folder / "Creator1.json")
    assert (imported.agent, imported.dissents, imported.overrides, imported.refused) == ("Creator1", 1, 1, "")
    (written,) = export_agents(trust, tmp_path / "out")
    assert written.name == "Creator1.json"
    assert json.loads(written.read_text()) == DOCUMENT
    assert trust.check() == []


@pytest.mark.requirement("TRU-16")
def test_an_import_keeps_fields_that_the_document_does_not_name(trust):
    document = DOCUMENT | {"notes": {"a": [1, 2]}, "probation_until": None}
    document["dissent_history"] = [DOCUMENT["dissent_history"][0] | {"mood": "calm"}]
    assert trust.adopt(document)
    assert trust.agent("Creator1").as_json() == document


@pytest.mark.requirement("TRU-16", "TRU-12")
def test_new_events_are_added_to_an_imported_history(trust, folder, clock, essay):
    import_file(trust, folder / "Creator1.json")
    assert trust.eligibility("Creator1").viable, "24 rounds, probation over"
    assert trust.log_dissent("Creator1", essay(), impact=False)
    document = trust.agent("Creator1").as_json()
    assert document["trust_score_history"][-1]["reason"] == "dissent_impact_false"
    assert document["long_term_stats"]["total_overrides"] == 42
    assert trust.participate("Creator1", "next")
    assert trust.agent("Creator1").rounds_participated == 25
    assert trust.check() == []


@pytest.mark.requirement("TRU-16")
def test_an_import_does_not_replace_a_known_agent(trust, folder, essay):
    trust.log_dissent("Creator1", essay(), impact=True)
    before = trust.agent("Creator1").as_json()
    assert "known already" in import_file(trust, folder / "Creator1.json").refused
    assert trust.agent("Creator1").as_json() == before


@pytest.mark.requirement("TRU-16")
@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[]",
        b"{",
        b'{"agent_name": ""}',
        b'{"agent_name": "a", "trust_score": NaN}',
        b'{"agent_name": "a", "trust_score": 7}',
        b'{"agent_name": "a", "trust_score": true}',
        b'{"agent_name": "a", "dissent_history": [3]}',
        b'{"agent_name": "a", "dissent_history": [{"dissent_text": 3}]}',
        b'{"agent_name": "a", "dissent_history": [{"dissent_text": "x", "depth_score": 9}]}',
        b'{"agent_name": "a", "override_history": [{"human_decision": []}]}',
        b'{"agent_name": "a", "probation_until": "soon"}',
        b'{"agent_name": "a", "agent_name": "b"}',
        b'{"agent_name": "a\\ud800"}',
    ],
)
def test_a_malformed_file_is_a_format_error(broken):
    with pytest.raises(FormatError):
        parse_agent(broken)


def test_an_import_follows_no_symbolic_link(trust, folder, tmp_path):
    (tmp_path / "link.json").symlink_to(folder / "Creator1.json")
    with pytest.raises(FormatError):
        import_file(trust, tmp_path / "link.json")


@pytest.mark.requirement("TRU-16")
@pytest.mark.parametrize("agent", ["../../etc/passwd", "CON", "a/b", "user:agent:123", "Ω", ".hidden", "x" * 200])
def test_an_export_stays_in_its_folder_and_the_file_holds_the_true_name(trust, tmp_path, agent, essay):
    trust.log_dissent(agent, essay(), impact=True)
    (written,) = export_agents(trust, tmp_path / "out")
    assert written.parent == tmp_path / "out"
    assert len(written.name) < 100
    assert json.loads(written.read_text())["agent_name"] == agent


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_file_name_differs_for_different_agents(left, right):
    agents = {name.encode("utf-8", "ignore").decode() or "x" for name in (left, right)}
    names = set(map(file_name, agents))
    assert len(names) == len(agents)
    assert all(name.isascii() and "/" not in name and "\\" not in name and not name.startswith(".") for name in names)


@pytest.mark.requirement("TRU-16")
def test_events_with_few_fields_are_imported_and_can_be_judged_and_reverted(trust, memory, clock):
    document = {
        "agent_name": "a",
        "dissent_history": [{"dissent_text": "no"}],
        "override_history": [{"round_id": "r1", "human_decision": "x", "auto_check_deadline": "..."}],
    }
    assert trust.adopt(document)
    assert trust.score("a").events == 1
    assert trust.predict("no").prospects[0].dissents == 0
    (dissent,) = memory.journal.read(agent_events_query("a", DISSENT))
    assert trust.judge(dissent.id, impact=False)
    clock.advance(86_401)
    assert len(trust.check_reverts("r1", "y").records) > 1
    assert trust.score("a").regret_ratio == 1
    assert trust.check() == []
    assert trust.rebuild("a")


@pytest.mark.requirement("TRU-16", "TRU-12")
def test_an_export_imported_into_another_store_is_the_same(trust, open_store, essay, clock):
    for number in range(9):
        trust.log_dissent("a", essay(number, 20), impact=number % 2 == 0, rubric_citations=["x"], round_id=f"r{number}")
        trust.participate("a", f"r{number}")
    trust.revert(trust.log_override("a", "x", "y").records[0].id, by="ada")
    document = trust.agent("a").as_json()
    other = open_store().trust
    assert other.adopt(document)
    assert other.agent("a").as_json() == document
    assert other.score("a").trust == pytest.approx(trust.score("a").trust)
    assert other.score("a").adjusted_score == pytest.approx(trust.score("a").adjusted_score)


@pytest.mark.requirement("TRU-3", "TRU-16")
def test_the_score_and_the_counts_of_an_imported_file_carry_on(trust, clock):
    assert trust.adopt(DOCUMENT)
    score = trust.score("Creator1")
    assert (score.trust, score.adjusted_score, trust.agent("Creator1").trust_score) == (0.78, 0.78, 0.78)
    assert trust.eligibility("Creator1").trust == 0.78
    assert trust.log_override("Creator1", "a", "b", by="ada")
    stats = trust.agent("Creator1").long_term_stats
    assert stats["total_overrides"] == 43
    assert stats["avg_dissent_depth_last_90d"] == pytest.approx(0.75)
    assert stats["dissent_impact_ratio_last_90d"] == pytest.approx(0.6)
    score = trust.score("Creator1")
    assert score.regret_ratio == pytest.approx(4 / 43), "a tenth of 42 is about 4"
    assert score.trust == pytest.approx(0.4 * 0.6 + 0.3 * 0.75 + 0.3 * (1 - 4 / 43))
    assert trust.score("Creator1", at=clock.now()) == score
    assert trust.metrics("Creator1").total.overrides == 43
    assert trust.check() == []
    assert trust.rebuild("Creator1")
    assert trust.score("Creator1") == score


@pytest.mark.requirement("TRU-16")
def test_the_score_of_a_file_without_events_holds_until_the_first_one(trust, clock, essay):
    assert trust.adopt({"agent_name": "a", "trust_score": 0.3})
    assert trust.adopt({"agent_name": "b"})
    clock.advance(200 * 86_400)
    assert (trust.score("a").trust, trust.score("a").adjusted_score, trust.score("b").trust) == (0.3, 0.3, 0.6)
    assert trust.log_dissent("a", essay(0, 10), impact=True)
    assert trust.score("a").trust == pytest.approx(0.4 + 0.3 * 0.2 + 0.3)
    assert trust.score("a", at=clock.now() - timedelta(days=300)).trust == 0.6, "before the import"


@pytest.mark.requirement("TRU-3", "TRU-16")
def test_an_export_and_its_import_change_no_score_now_or_later(trust, open_store, clock, essay):
    """Use more events than a file lists, over more days than the window, with dissents that the rules exclude."""
    for number in range(230):
        impact = number % 3 > 0
        text = "typo here" if number % 5 == 0 else essay(number % 40, 12)
        cited = ["x"] if number < 150 else ["x", "y"]
        assert trust.log_dissent("a", text, impact=impact, rubric_citations=cited, of="a" if number % 7 == 0 else "b")
        if number % 2 == 0:
            logged = trust.log_override("a", "old", "new", round_id=f"r{number}").records[0]
            if number % 6 == 0:
                trust.revert(logged.id, by="ada")
        clock.advance(86_400 // 2)
    other = open_store().trust
    assert other.adopt(trust.agent("a").as_json())
    scores = [service.score("a") for service in (trust, other)]
    assert scores[0].trust != scores[0].adjusted_score
    assert scores[0] == scores[1]
    for _ in range(4):
        clock.advance(15 * 86_400)
        for service in (trust, other):
            assert service.log_override("a", "old", "new")
            assert service.log_dissent("a", essay(99, 9), impact=False)
        own, its = trust.score("a"), other.score("a")
        assert (own.dissents, own.overrides, own.regret_ratio) == (its.dissents, its.overrides, its.regret_ratio)
        assert its.trust == pytest.approx(own.trust, abs=1e-3), "novelty is measured against the listed dissents alone"
        assert its.adjusted_score == pytest.approx(own.adjusted_score, abs=1e-3)
    assert other.check() == []


@pytest.mark.requirement("TRU-3", "TRU-16")
def test_the_rules_also_look_at_imported_dissents(trust, open_store):
    for number in range(12):
        trust.log_dissent("a", f"typo{number} here", impact=True)
    document = trust.agent("a").as_json()
    document["long_term_stats"] = {}
    other = open_store().trust
    assert other.adopt(document)
    assert other.score("a") == trust.score("a")
    assert other.standing("a").past == trust.standing("a").past


@pytest.mark.requirement("TRU-16")
@pytest.mark.parametrize(
    "stats",
    [
        {"total_overrides": -1},
        {"total_overrides": "42"},
        {"regret_rate_last_90d": 1.5},
        {"avg_dissent_depth_last_90d": 3},
        {"unlisted": []},
        {"unlisted": {"soon": {}}},
        {"unlisted": {"2026-01-01": {"dissents": 1.5}}},
        {"unlisted": {"2026-01-01": {"nonsense": 1}}},
    ],
)
def test_statistics_that_are_malformed_are_a_format_error(stats):
    with pytest.raises(FormatError):
        parse_agent(json.dumps({"agent_name": "a", "long_term_stats": stats}).encode())
